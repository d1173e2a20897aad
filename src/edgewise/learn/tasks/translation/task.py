"""Translation: sentences and their translations."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch

from edgewise.choices import TokenKind
from edgewise.errors import DataError, MissingExtraError
from edgewise.formatting import plural
from edgewise.graph.records import PairBatch
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
from edgewise.learn.tasks.fitted import FittedText
from edgewise.learn.tasks.prediction_columns import with_columns
from edgewise.learn.tasks.scores import ScoreTable
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.tasks.translation.settings import TranslationRunSettings
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import LengthLoader, Loader
from edgewise.learn.training.loss import TokenLoss

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult


TEXTS_A_BATCH = 64
"""Texts that are translated at once."""


@dataclass(kw_only=True)
class FittedTranslation(FittedText):
    """A model, its vocabulary, and the names of what it reads and writes."""

    FORMAT = TranslationRunSettings.FORMAT

    tokens: TokenKind = "bpe"
    num_tokens: int
    """Tokens that the model has vectors for."""
    kind: Literal["transformer", "recurrent"] = "transformer"
    """What the model is."""
    settings: TransformerSettings | RecurrentSettings
    """The sizes of the model."""
    names: tuple[str, str] = ("source", "target")
    """The columns of the table it was trained on."""
    beam: BeamSettings = field(default_factory=BeamSettings)
    """How translations are searched for."""

    @property
    def end(self) -> int:
        """The token that ends a text, and begins it."""
        assert self.tokenizer.end is not None
        return self.tokenizer.end

    def translate(self, texts: Sequence[str], device: str = "cpu") -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads."""
        written = self.write(texts, device)
        return [None if numbers is None else self.tokenizer.decode(numbers) for numbers in written]

    def write(self, texts: Sequence[str], device: str = "cpu") -> list[list[int] | None]:
        """The tokens of the translation of each text, without its end; None where a text cannot be translated."""
        tokens = [self.tokenizer.encode(text).numbers for text in texts]
        found: list[list[int] | None] = [None] * len(texts)
        able = [row for row, numbers in enumerate(tokens) if 0 < len(numbers) < self.model.settings.context]
        able.sort(key=lambda row: len(tokens[row]))
        self.model.to(device).eval()
        with cpu_threads(self.threads):
            for first in counted(range(0, len(able), TEXTS_A_BATCH), "translating"):
                rows = able[first : first + TEXTS_A_BATCH]
                source, lengths = padded([with_end(tokens[row], self.end) for row in rows], self.end)
                ends = self.end, self.end
                written = translate(self.model, source.to(device), lengths.to(device), *ends, self.beam)
                for row, numbers in zip(rows, written, strict=True):
                    found[row] = numbers
        self.model.to("cpu")
        return found

    def new_member(self) -> Writer:
        if isinstance(self.settings, RecurrentSettings):
            return RecurrentTranslationModel(self.num_tokens, self.settings)
        return TranslationModel(self.num_tokens, self.settings)

    def check(self) -> None:
        """Raise DataError unless the settings are those of the kind."""
        if (self.kind == "recurrent") != isinstance(self.settings, RecurrentSettings):
            raise DataError(f"settings are not those of a {self.kind} model.")


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

    def batch(self, rows: np.ndarray) -> PairBatch:
        """Some rows, padded."""
        source, source_lengths = padded([self.sources[row] for row in rows], self.end)
        written = [self.targets[row] for row in rows]
        tokens, _ = padded([decoder_input(text, self.end) for text in written], self.end)
        targets, _ = padded(written, -1)
        return PairBatch(source, source_lengths, tokens, targets)


def bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """sacreBLEU's corpus score of translations, cased, by its tokenizer 13a (Post 2018)."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    score = sacrebleu.corpus_bleu(list(written), [list(right)]).score
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


def prepare(settings: TranslationRunSettings) -> Prepared:
    texts = read_pairs(settings.data, settings.text_columns, settings.target_columns)
    return prepared(settings, texts, texts.split(settings.split_sizes, settings.data_seed))


def prepared(settings: TranslationRunSettings, texts: TextPairs, splits: dict[str, np.ndarray]) -> Prepared:
    """The same of pairs that are read and split; the vocabulary is that of the training rows."""
    known = [text for row in splits["train"] for text in (texts.sources[row], texts.targets[row])]
    tokenizer = Tokenizer.learned(known, "bpe", settings.vocabulary_size)
    assert tokenizer.end is not None
    sources, targets = (
        [with_end(tokenizer.encode(text).numbers, tokenizer.end) for text in side]
        for side in (texts.sources, texts.targets)
    )
    pairs = TokenPairs(sources, targets, tokenizer.end)
    texts = without_long(texts, pairs, settings.model.context)
    splits = {split: rows[[texts.status[row] == OK for row in rows]] for split, rows in splits.items()}
    if not len(splits["train"]):
        raise DataError(f"{', '.join(texts.files)}: no pair is left for training.")
    names = (settings.text_columns[0], settings.target_columns[0]) if settings.text_columns else ("source", "target")
    fitted = FittedTranslation(
        tokenizer=tokenizer,
        num_tokens=len(tokenizer),
        kind="recurrent" if isinstance(settings.model, RecurrentSettings) else "transformer",
        settings=settings.model,
        names=names,
        beam=settings.beam,
    )
    rows = {split: found.tolist() for split, found in splits.items()}
    return Prepared(settings, TranslationData(texts, pairs), splits, fitted, rows, texts.rejected)


def loader(prepared: Prepared, split: str, batch_size: int, seed: int | None) -> Loader:
    return prepared.data.tokens.loader(prepared.splits[split], batch_size, seed)


def loss(prepared: Prepared) -> TokenLoss:
    return TokenLoss(prepared.settings.label_smoothing)


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The BLEU of the test rows, beside that of the sources, and the loss."""
    fitted, pairs, splits = prepared.fitted, prepared.data.tokens, prepared.splits
    counts = {split: len(rows) for split, rows in splits.items()}
    metrics: dict[str, Any] = {
        "rows": {**counts, "rejected": len(prepared.rejected)},
        "tokens": {"vocabulary": len(fitted.tokenizer)},
        **training_metrics(prepared, results[0]),
    }
    for split, name in (("val", "validation"), ("test", "test")):
        if counts.get(split):
            metrics[name] = {"loss": fitted.token_scores(pairs.loader(splits[split], 4096))[0]}
    return metrics


def write_predictions(prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:
    """Writes the translations of the test rows, and adds their BLEU and that of the sources to the metrics."""
    fitted, texts, rows = prepared.fitted, prepared.data.texts, prepared.splits["test"]
    if not len(rows):
        return
    sources, right = ([side[row] for row in rows] for side in (texts.sources, texts.targets))
    written = [text or "" for text in fitted.translate(sources)]
    metrics["test"]["bleu"] = bleu(written, right)
    metrics["baselines"] = {"copy": {"test": {"bleu": bleu(sources, right)}}}
    header = ["row_in_data", *fitted.names, f"{fitted.names[1]}_pred"]
    folder.write_table("test_predictions.csv", header, zip(rows.tolist(), sources, right, written, strict=True))


def row_text(prepared: Prepared) -> Callable[[int], str]:
    """What is translated."""
    found: Callable[[int], str] = prepared.data.texts.sources.__getitem__
    return found


def opening(prepared: Prepared) -> str:
    texts = prepared.data.texts
    return (
        f"{', '.join(texts.files)}: {plural(len(texts.sources), 'pair')}, {len(texts.rejected):,} rejected; a "
        f"vocabulary of {len(prepared.fitted.tokenizer):,} byte pairs"
    )


def title(metrics: dict[str, Any], split: str) -> str:
    return plural(metrics["rows"]["test"], "test pair")


def score_tables(metrics: dict[str, Any], split: str) -> list[ScoreTable | str]:
    """The BLEU of test rows; validation rows have none."""
    return TASK.score_table(metrics, split) if split == "test" else []


def next_commands(folder: RunFolder) -> list[str]:
    config = folder.read_config()
    # Aligned files come in pairs, of which the first is read.
    data = None if config.get("text-columns") else config["data"][-2]
    return [TASK.prediction(folder, "translations.csv", data=data)]


def predict(request: PredictRequest, suffix: str) -> tuple[Any, str]:
    """The translations of a column of a table, or of the lines of a text."""
    trained = FittedTranslation.load(request.run_folder)
    trained.threads = request.threads
    if is_table(request.data):
        cells = read_cells(request.data)
        column = (request["text_columns"] or [trained.names[0]])[0]
        check_columns_exist(cells, (column,))
        frame = cells.as_written
    else:
        column = trained.names[0]
        frame = pd.DataFrame({column: lines_of(read_text(request.data))})
    texts = frame[column].tolist()
    found = trained.translate(texts, device=pick_device(request.device))
    statuses = [
        "the text is empty or too long" if translated is None else trained.tokenizer.status_of([text])
        for text, translated in zip(texts, found, strict=True)
    ]
    added = {f"{trained.names[1]}_pred": [text or "" for text in found], "status": statuses}
    content = with_columns(frame, added, request.data, suffix)
    known = sum(text is not None for text in found)
    return content, f"{known:,} of {plural(len(found), 'row')} translated{unpredicted(len(found) - known)}"


def without_long(texts: TextPairs, pairs: TokenPairs, context: int) -> TextPairs:
    """The same pairs, those marked of which a text has more tokens than the model reads."""
    status, rejected = list(texts.status), list(texts.rejected)
    for row, both in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        for name, text, numbers in zip(
            ("source", "target"), (texts.sources[row], texts.targets[row]), both, strict=True
        ):
            if status[row] == OK and len(numbers) > context:
                reason = f"{plural(len(numbers), 'token')}, more than --context {context}"
                status[row] = f"{name}: {reason}"
                place = int(texts.file_of_row[row])
                rejected.append(Rejection(texts.files[place], int(texts.lines[row]), name, text, reason))
    return dataclasses.replace(texts, status=status, rejected=rejected)


TASK = Task(
    settings_type=TranslationRunSettings,
    noun="translations",
    units=("pair",),
    headlines={"bleu": "BLEU", "loss": "loss"},
    labels={"copy": "not translated"},
    prepare=prepare,
    load=FittedTranslation.load,
    prepared=prepared,
    loader=loader,
    loss=loss,
    evaluate=evaluate,
    write_predictions=write_predictions,
    row_text=row_text,
    opening=opening,
    title=title,
    score_tables=score_tables,
    further_commands=next_commands,
    predict=predict,
)
