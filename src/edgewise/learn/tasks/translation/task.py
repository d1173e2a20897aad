"""Translations: sentences and their translations."""

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import torch

from edgewise.choices import TokenKind
from edgewise.errors import DataError, MissingExtraError, plural
from edgewise.learn.batches.tokens import TranslationBatch
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.beam import translate
from edgewise.learn.networks.text_settings import BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.learn.networks.translation import RecurrentTranslationModel, TranslationModel, Writer
from edgewise.learn.progress import counted
from edgewise.learn.readers.texts.pairs import TextPairs, is_table, read_pairs
from edgewise.learn.readers.texts.tokenizer import Tokenizer, read_text
from edgewise.learn.tables.cell import OK, Rejection
from edgewise.learn.tables.decode import lines_of
from edgewise.learn.tables.read import check_columns_exist, read_cells
from edgewise.learn.tasks.chunks import unpredicted
from edgewise.learn.tasks.prediction_columns import with_columns
from edgewise.learn.tasks.report.leakage import SplitContents, contents_of_texts
from edgewise.learn.tasks.scores import ScoreTable
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, Written, by_split, training_metrics
from edgewise.learn.tasks.tokens import TOKENIZER, token_scores
from edgewise.learn.tasks.translation.settings import SETTINGS, TranslationRunSettings
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import LengthLoader, Loader
from edgewise.learn.training.loss import TokenLoss

TEXTS_PER_BATCH = 64
"""Texts that are translated at once."""
TOKENS_PER_BATCH = 4096
"""Tokens, padding included, that are scored at once."""


@dataclass(frozen=True)
class Translations:
    """A score for each token of the vocabulary: p(next token of the translation | those before it, text) =
    softmax(scores); a beam search makes a text of them."""

    names: tuple[str, str] = ("source", "target")
    """The columns of the table it was trained on."""
    beam: BeamSettings = field(default_factory=BeamSettings)
    """How translations are searched for."""

    def loss(self, settings: TranslationRunSettings) -> TokenLoss:
        """−ln p of the next token, smoothed over all tokens."""
        return TokenLoss(settings.label_smoothing)

    def metrics(self, written: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The score of some translations."""
        return {"bleu": bleu(written, references)}

    def baselines(self, sources: Sequence[str], references: Sequence[str]) -> JsonObject:
        """The score of texts that are not translated at all."""
        return {"copy": {"test": self.metrics(sources, references)}}

    def check(self) -> None:
        """Nothing is left to check."""


@dataclass(frozen=True, kw_only=True)
class TranslationEncoder:
    """The vocabulary of the training pairs, of both languages together, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens and back."""
    tokens: TokenKind = "bpe"
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the network has vectors for."""
    kind: Literal["transformer", "recurrent"] = "transformer"
    """What the network is."""
    settings: TransformerSettings | RecurrentSettings
    """The sizes of the network."""

    @property
    def end(self) -> int:
        """The token that ends a text, and begins it."""
        assert self.tokenizer.end is not None
        return self.tokenizer.end

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the network reads, its end not counted."""
        return self.settings.context - 1

    def new_network(self, output: Translations) -> Writer:
        """A network that translates texts."""
        if isinstance(self.settings, RecurrentSettings):
            return RecurrentTranslationModel(self.num_tokens, self.settings)
        return TranslationModel(self.num_tokens, self.settings)

    def check(self, output: Translations) -> None:
        """Raise DataError unless the settings are those of the kind."""
        if (self.kind == "recurrent") != isinstance(self.settings, RecurrentSettings):
            raise DataError(f"settings are not those of a {self.kind} model.")


FittedTranslation: TypeAlias = Fitted[TranslationEncoder, Translations]
load = partial(FittedTranslation.load, format=SETTINGS.format, encoder=TranslationEncoder, output=Translations)
"""Reads the model of a run folder."""


def translate_texts(fitted: FittedTranslation, texts: Sequence[str], device: str = "cpu") -> list[str | None]:
    """The translation of each text; None where one is empty or longer than the model reads."""
    tokenizer = fitted.encoder.tokenizer
    return [
        None if numbers is None else tokenizer.decode(numbers) for numbers in translated_tokens(fitted, texts, device)
    ]


def translated_tokens(fitted: FittedTranslation, texts: Sequence[str], device: str = "cpu") -> list[list[int] | None]:
    """The tokens of the translation of each text, without its end; None where a text cannot be translated."""
    encoder, network = fitted.encoder, fitted.model.to(device).eval()
    tokens = [encoder.tokenizer.encode(text).numbers for text in texts]
    # Byte pairs have tokens for spaces, too.
    readable = [row for row, text in enumerate(texts) if text.strip() and 0 < len(tokens[row]) <= encoder.max_tokens]
    readable.sort(key=lambda row: len(tokens[row]))

    translations: list[list[int] | None] = [None] * len(texts)
    with cpu_threads(fitted.threads):
        for first in counted(range(0, len(readable), TEXTS_PER_BATCH), "translating"):
            rows = readable[first : first + TEXTS_PER_BATCH]
            source, lengths = padded([with_end(tokens[row], encoder.end) for row in rows], encoder.end)
            ends = encoder.end, encoder.end
            written = translate(network, source.to(device), lengths.to(device), *ends, fitted.output.beam)
            for row, numbers in zip(rows, written, strict=True):
                translations[row] = numbers
    network.to("cpu")
    return translations


def with_end(numbers: np.ndarray, end: int) -> np.ndarray:
    """The tokens of a text, and its end."""
    return np.append(numbers, end)


def decoder_input(numbers: np.ndarray, end: int) -> np.ndarray:
    """What is read while some tokens are written: the beginning, and all but the last."""
    return np.concatenate([[end], numbers[:-1]]).astype(np.int64)


def padded(texts: Sequence[np.ndarray], filling: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts of different lengths as one table, and their lengths."""
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64)
    table = torch.full((len(texts), int(lengths.max())), filling, dtype=torch.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = torch.from_numpy(text)
    return table, lengths


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Texts and translations as tokens, and the batches of some of them."""

    sources: list[np.ndarray]
    """Tokens of each text, the end included."""
    targets: list[np.ndarray]
    """Tokens of each translation, the end included."""
    end: int
    """The token that ends a text, and begins it."""

    def loader(self, rows: np.ndarray, batch_size: int, seed: int | None = None) -> LengthLoader:
        """The batches of some rows; a row takes as much of a batch as the longer of its two texts."""
        lengths = np.array([max(len(self.sources[row]), len(self.targets[row])) for row in rows], dtype=np.int64)
        return LengthLoader(lengths, lambda places: self.batch(rows[places]), batch_size, seed)

    def batch(self, rows: np.ndarray) -> TranslationBatch:
        """Some rows, padded."""
        source, source_lengths = padded([self.sources[row] for row in rows], self.end)
        written = [self.targets[row] for row in rows]
        tokens, _ = padded([decoder_input(text, self.end) for text in written], self.end)
        targets, _ = padded(written, -1)
        return TranslationBatch(source, source_lengths, tokens, targets)


def bleu(written: Collection[str], references: Collection[str]) -> float:
    """sacreBLEU's corpus score of translations, cased, by its tokenizer 13a (Post 2018)."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    score = sacrebleu.corpus_bleu(list(written), [list(references)]).score if written else math.nan
    if not math.isfinite(score):
        raise DataError("the translations cannot be scored: there is no text.")
    return round(score, 2)


@dataclass(frozen=True, eq=False)
class TranslationData:
    """Texts and translations, also as tokens."""

    texts: TextPairs
    """The pairs."""
    tokens: TokenPairs
    """The pairs as tokens."""


PreparedPairs: TypeAlias = Prepared[TranslationRunSettings, TranslationData, dict[str, np.ndarray], FittedTranslation]
"""Pairs of texts that are read and split."""


def prepare(settings: TranslationRunSettings) -> PreparedPairs:
    texts = read_pairs(settings.data, settings.text_columns, settings.target_columns)
    return prepared(settings, texts, texts.split(settings.split_sizes, settings.data_seed))


def prepared(settings: TranslationRunSettings, texts: TextPairs, splits: dict[str, np.ndarray]) -> PreparedPairs:
    """The same of pairs that are read and split; the vocabulary is that of the training rows."""
    training_texts = [text for row in splits["train"] for text in (texts.sources[row], texts.targets[row])]
    tokenizer = Tokenizer.fit(training_texts, "bpe", settings.vocabulary_size)
    assert tokenizer.end is not None
    sources, targets = (
        [with_end(tokenizer.encode(text).numbers, tokenizer.end) for text in language]
        for language in (texts.sources, texts.targets)
    )
    pairs = TokenPairs(sources, targets, tokenizer.end)
    names = (settings.text_columns[0], settings.target_columns[0]) if settings.text_columns else ("source", "target")
    texts = without_long(texts, pairs, names, settings.model.context)
    splits = {split: rows[[texts.status[row] == OK for row in rows]] for split, rows in splits.items()}
    if not len(splits["train"]):
        raise DataError(f"{', '.join(texts.files)}: no pair is left for training.")

    encoder = TranslationEncoder(
        tokenizer=tokenizer,
        num_tokens=len(tokenizer),
        kind="recurrent" if isinstance(settings.model, RecurrentSettings) else "transformer",
        settings=settings.model,
    )
    output = Translations(names, beam_of(settings))
    fitted = Fitted(format=SETTINGS.format, encoder=encoder, output=output)
    rows = {split: split_rows.tolist() for split, split_rows in splits.items()}
    return Prepared(settings, TranslationData(texts, pairs), splits, fitted, rows, texts.rejected)


def beam_of(settings: TranslationRunSettings) -> BeamSettings:
    """The beam search, which ends where the learned positions end: no training pair is longer either."""
    beam, model = settings.beam, settings.model
    if isinstance(model, TransformerSettings) and model.position == "learned":
        return dataclasses.replace(beam, max_length=min(beam.max_length, model.context))
    return beam


def loader(prepared: PreparedPairs, split: str, batch_size: int, seed: int | None) -> Loader:
    return prepared.data.tokens.loader(prepared.splits[split], batch_size, seed)


def evaluate(prepared: PreparedPairs, results: list[FitResult]) -> JsonObject:
    """The loss of validation and test rows; `write_predictions` adds the BLEU of the test rows."""
    fitted, pairs, splits = prepared.fitted, prepared.data.tokens, prepared.splits
    counts = {split: len(rows) for split, rows in splits.items()}
    metrics: JsonObject = {
        "rows": {**counts, "rejected": len(prepared.rejected)},
        "tokens": {"vocabulary": len(fitted.encoder.tokenizer)},
        **training_metrics(prepared, results[0]),
    }
    for split, name in (("val", "validation"), ("test", "test")):
        if counts.get(split):
            metrics[name] = {"loss": token_scores(fitted, pairs.loader(splits[split], TOKENS_PER_BATCH)).loss}
    return metrics


def write_predictions(prepared: PreparedPairs, folder: RunFolder, metrics: JsonObject) -> None:
    """Writes the translations of the test rows, and adds their BLEU and that of the sources to the metrics."""
    fitted, texts, rows = prepared.fitted, prepared.data.texts, prepared.splits["test"]
    if not len(rows):
        return
    sources, references = ([language[row] for row in rows] for language in (texts.sources, texts.targets))
    written = [text or "" for text in translate_texts(fitted, sources)]
    metrics["test"] |= fitted.output.metrics(written, references)
    metrics["baselines"] = fitted.output.baselines(sources, references)

    names = fitted.output.names
    header = ["row_in_data", *names, f"{names[1]}_pred"]
    folder.write_table("test_predictions.csv", header, zip(rows.tolist(), sources, references, written, strict=True))


def split_contents(prepared: PreparedPairs) -> SplitContents:
    """The texts that are translated, of each split."""
    return contents_of_texts("texts", prepared.rows, prepared.data.texts.sources.__getitem__)


def describe(prepared: PreparedPairs, folder: RunFolder) -> list[str]:
    texts, num_tokens = prepared.data.texts, len(prepared.fitted.encoder.tokenizer)
    counts = f"{plural(len(texts.sources), 'pair')}, {len(texts.rejected):,} rejected"
    opening = f"{', '.join(texts.files)}: {counts}; a vocabulary of {num_tokens:,} byte pairs"
    return TASK.describe_rows(prepared, folder, opening, "pair")


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    """The BLEU of test rows; validation rows have none."""
    title = plural(metrics["rows"]["test"], "test pair")
    return TASK.score_table(metrics, split, title) if split == "test" else []


def next_commands(folder: RunFolder) -> list[str]:
    config = folder.read_config()
    # Aligned files come in pairs, of which the first is read.
    data = None if config.get("text-columns") else config["data"][-2]
    return [TASK.prediction(folder, "translations.csv", data=data)]


def predict(request: PredictRequest, suffix: str) -> tuple[Written, str]:
    """The translations of a column of a table, or of the lines of a text."""
    trained = load(request.run_folder)
    trained.threads = request.threads
    source, target = trained.output.names
    if is_table(request.data):
        cells = read_cells(request.data)
        column = (request["text_columns"] or [source])[0]
        check_columns_exist(cells, (column,))
        frame = cells.as_written
    else:
        column = source
        frame = pd.DataFrame({column: lines_of(read_text(request.data))})

    texts = frame[column].tolist()
    translations = translate_texts(trained, texts, device=pick_device(request.device))
    statuses = [
        "the text is empty or too long" if translation is None else trained.encoder.tokenizer.status_of([text])
        for text, translation in zip(texts, translations, strict=True)
    ]
    columns = {f"{target}_pred": [text or "" for text in translations], "status": statuses}
    content = with_columns(frame, columns, request.data, suffix)
    num_lacking = translations.count(None)
    summary = f"{len(texts) - num_lacking:,} of {plural(len(texts), 'row')} translated{unpredicted(num_lacking)}"
    return content, summary


def without_long(texts: TextPairs, pairs: TokenPairs, names: tuple[str, str], context: int) -> TextPairs:
    """The same pairs; the status of those with more tokens than the model reads says so and names the column."""
    status, rejected = list(texts.status), list(texts.rejected)
    for row, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        for name, text, numbers in zip(names, (texts.sources[row], texts.targets[row]), (source, target), strict=True):
            if status[row] == OK and len(numbers) > context:
                reason = f"{plural(len(numbers), 'token')}, more than --context {context}"
                status[row] = f"{name}: {reason}"
                file = texts.files[int(texts.file_of_row[row])]
                rejected.append(Rejection(file, int(texts.lines[row]), name, text, reason))
    rejected.sort(key=lambda entry: (texts.files.index(entry.file), entry.line))
    return dataclasses.replace(texts, status=status, rejected=rejected)


TASK = Task(
    settings=SETTINGS,
    noun="translations",
    explainable="edgewise.learn.tasks.translation.explainable:EXPLAINABLE",
    headlines={"bleu": "BLEU", "loss": "loss"},
    labels={"copy": "not translated"},
    prepare=prepare,
    load=load,
    loaders=by_split(loader),
    evaluate=evaluate,
    write_predictions=write_predictions,
    split_contents=split_contents,
    description=describe,
    score_tables=score_tables,
    further_commands=next_commands,
    predict=predict,
)
