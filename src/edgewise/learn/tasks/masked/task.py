"""Masked: hidden tokens of texts, to start other models from."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.batches.tokens import MaskedBatch, TokenBatch
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.encoder import MaskedModel
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.readers.texts.data import LINE_SUFFIXES, TextData, read_texts
from edgewise.learn.readers.texts.pairs import Corpus, read_corpus
from edgewise.learn.readers.texts.script import script_note
from edgewise.learn.readers.texts.tokenizer import MASK, Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tasks.masked.settings import SETTINGS, MaskedRunSettings
from edgewise.learn.tasks.report.leakage import SplitContents, contents_of_texts
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, command, first_rejected, free_name
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.tasks.tokens import TOKENIZER, TokenScores, perplexity, token_scores
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.masks import Masking, MaskLoader, TokenChunks
from edgewise.learn.training.settings import TrainSettings

TOKENS_PER_BATCH = 4096
"""Tokens that are read at once where no gradient is wanted; always as many, so that always the same are hidden."""


@dataclass(frozen=True)
class HiddenTokens:
    """A score for each token of the vocabulary at each hidden place: p(token | all others) = softmax(scores)."""

    has_head: bool = True
    """Whether hidden tokens are predicted; a converted encoder may not."""
    left_out: tuple[str, ...] = ()
    """The parts of the original checkpoint that are ignored."""

    def loss(self, settings: MaskedRunSettings) -> TokenLoss:
        """−ln p of the hidden tokens."""
        return TokenLoss()

    def metrics(self, scores: TokenScores) -> dict[str, float]:
        """The scores of hidden tokens, for metrics.json."""
        return {"loss": scores.loss, "perplexity": perplexity(scores.loss), "accuracy": scores.accuracy}

    def baselines(self, training: TokenChunks, masking: Masking, loader: MaskLoader, num_tokens: int) -> JsonObject:
        """The scores of the most frequent token."""
        scores = scores_of_frequency(training, masking, loader, num_tokens)
        return {"frequency": {"validation": self.metrics(scores)}}

    def check(self) -> None:
        """Nothing is left to check."""


@dataclass(frozen=True)
class MaskedEncoder:
    """The vocabulary of the training texts, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens and back."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the network has vectors for."""
    settings: TransformerSettings
    """The sizes of the network."""

    def new_network(self, output: HiddenTokens) -> MaskedModel:
        """A transformer, and a head that predicts hidden tokens."""
        return MaskedModel(self.num_tokens, self.settings, has_head=output.has_head)

    def chunks(self, text: str) -> Iterator[np.ndarray]:
        """The tokens of a text in chunks that the network reads at once, with the special tokens around each."""
        length = max(1, self.settings.context - self.tokenizer.num_special_tokens)
        numbers = self.tokenizer.encode(text).numbers
        for start in range(0, len(numbers), length):
            yield self.tokenizer.with_special_tokens(numbers[start : start + length])

    def statuses(self, data: TextData) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        rows = zip(data.rows.status, data.iter_texts(), strict=True)
        return [self.tokenizer.status_of(texts) if status == OK else status for status, texts in rows]

    def check(self, output: HiddenTokens) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


FittedMasked: TypeAlias = Fitted[MaskedEncoder, HiddenTokens]
"""Its `model.encoder` is where other models start."""
load = partial(FittedMasked.load, format=SETTINGS.format, encoder=MaskedEncoder, output=HiddenTokens)
"""Reads the model of a run folder."""


def from_network(tokenizer: Tokenizer, network: MaskedModel, left_out: tuple[str, ...] = ()) -> FittedMasked:
    """A model that was trained elsewhere."""
    num_tokens, has_head = network.encoder.embedding.num_embeddings, network.head is not None
    encoder = MaskedEncoder(tokenizer, tokenizer.kind, num_tokens, network.settings)
    output = HiddenTokens(has_head, left_out)
    return Fitted(format=SETTINGS.format, encoder=encoder, output=output, members=[network])


def text_vectors(fitted: FittedMasked, data: TextData, device: str = "cpu") -> np.ndarray:
    """(row, model_dim): the mean of the last vectors of all tokens of a row, those of several columns together.

    A text that is longer than the model reads at once is read in chunks. Where the vocabulary has tokens that stand
    around a text, BERT's [CLS] and [SEP], they are read around each chunk and count in the mean. NaN where a row has no
    token.

    Raises:
        DataError: no row can be read.
    """
    rows = np.flatnonzero(data.rows.usable)
    if not len(rows):
        raise DataError(f"{data.rows.source}: no row can be read; the first: {data.rows.status[0]}.")
    encoder, settings = fitted.encoder, fitted.encoder.settings
    chunks_of_rows = [
        (row, numbers)
        for row, texts in zip(rows, data.of_rows(rows), strict=True)
        for text in texts
        for numbers in encoder.chunks(text)
    ]
    if not chunks_of_rows:
        return np.full((len(data.rows), settings.model_dim), np.nan, dtype=np.float32)

    chunks = TokenChunks.of([numbers for _, numbers in chunks_of_rows], settings.context)
    row_of_token = np.repeat([row for row, _ in chunks_of_rows], [len(numbers) for _, numbers in chunks_of_rows])

    sums = torch.zeros(len(data.rows), settings.model_dim, dtype=torch.float64)
    network = fitted.model.encoder.to(device).eval()
    with torch.no_grad(), cpu_threads(fitted.threads):
        num_batches = math.ceil(len(chunks.numbers) / TOKENS_PER_BATCH)
        for batch in np.array_split(np.arange(len(chunks)), num_batches):
            tokens, offsets = (torch.from_numpy(part) for part in chunks.packed(batch))
            vectors = network(TokenBatch(tokens, offsets=offsets).to(device)).cpu().double()
            first = chunks.offsets[batch[0]]
            sums.index_add_(0, torch.from_numpy(row_of_token[first : first + len(tokens)]), vectors)
    fitted.model.to("cpu")

    counts = np.bincount(row_of_token, minlength=len(data.rows))[:, None]
    return np.where(counts > 0, sums.numpy() / counts.clip(1), np.nan).astype(np.float32)


def scores_of_frequency(training: TokenChunks, masking: Masking, loader: MaskLoader, num_tokens: int) -> TokenScores:
    """The scores of always predicting the most frequent token.

    p(token) comes from counting the tokens of the training texts that can be hidden, each once more than seen.
    """
    counts = np.bincount(training.numbers, minlength=num_tokens)[masking.ordinary] + 1
    losses = np.full(num_tokens, math.inf)
    losses[masking.ordinary] = -np.log(counts / counts.sum())
    targets = torch.cat([batch.targets for batch in loader if isinstance(batch, MaskedBatch)]).numpy()
    return TokenScores(float(losses[targets].mean()), float((targets == losses.argmin()).mean()))


PreparedTexts: TypeAlias = Prepared[MaskedRunSettings, Corpus, dict[str, TokenChunks], FittedMasked]
"""Texts that are read; the tokens of each split."""


def prepare(settings: MaskedRunSettings) -> PreparedTexts:
    texts = read_corpus(settings.data, settings.text_columns)
    rows = texts.split(settings.split_sizes, settings.data_seed)
    texts_of_split = {split: texts.of_rows(split_rows) for split, split_rows in rows.items()}
    tokenizer = Tokenizer.fit(
        texts_of_split["train"],
        settings.tokens,
        settings.vocabulary_size,
        special=(MASK,),
        lowercase=settings.lowercase,
    )
    splits = {
        split: TokenChunks.of([tokenizer.encode(text).numbers for text in split_texts], settings.model.context)
        for split, split_texts in texts_of_split.items()
    }
    if not len(masking_of(tokenizer, settings).able(splits["train"].numbers)):
        count = plural(len(texts_of_split["train"]), "training text has", "training texts have")
        raise DataError(
            f"{', '.join(settings.data)}: the {count} no token that could be hidden; give more texts, or a larger "
            "--vocabulary-size."
        )

    encoder = MaskedEncoder(tokenizer, tokenizer.kind, len(tokenizer), settings.model)
    fitted = Fitted(format=SETTINGS.format, encoder=encoder, output=HiddenTokens())
    listed_rows = {split: split_rows.tolist() for split, split_rows in rows.items()}
    return Prepared(settings, texts, splits, fitted, listed_rows, texts.rejected)


def validation_loader(prepared: PreparedTexts) -> MaskLoader | None:
    """The validation texts, always the same tokens hidden; None where none can be."""
    masking = masking_of(prepared.fitted.encoder.tokenizer, prepared.settings)
    chunks = prepared.splits["val"]
    return MaskLoader(chunks, masking, TOKENS_PER_BATCH) if len(masking.able(chunks.numbers)) else None


def loaders(prepared: PreparedTexts) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    masking = masking_of(prepared.fitted.encoder.tokenizer, prepared.settings)
    validation = validation_loader(prepared)

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        return MaskLoader(prepared.splits["train"], masking, recipe.batch_size, recipe.seed), validation

    return of_member


def evaluate(prepared: PreparedTexts, results: list[FitResult]) -> JsonObject:
    """The scores on hidden tokens of the validation texts, beside those of the most frequent token."""
    fitted, splits, validation = prepared.fitted, prepared.splits, validation_loader(prepared)
    tokenizer, output = fitted.encoder.tokenizer, fitted.output
    counts = {split: len(chunks.numbers) for split, chunks in splits.items()}
    metrics: JsonObject = {
        "texts": {split: chunks.num_texts for split, chunks in splits.items()},
        "pieces": {split: len(chunks) for split, chunks in splits.items()},
        "tokens": {"vocabulary": len(tokenizer), **counts},
        **training_metrics(prepared, results[0]),
        "rejected": len(prepared.rejected),
    }
    if validation is not None:
        masking = masking_of(tokenizer, prepared.settings)
        metrics["tokens"]["hidden"] = sum(
            len(batch.masked_positions) for batch in validation if isinstance(batch, MaskedBatch)
        )
        metrics["validation"] = output.metrics(token_scores(fitted, validation))
        metrics["baselines"] = output.baselines(splits["train"], masking, validation, len(tokenizer))
    return metrics


def split_contents(prepared: PreparedTexts) -> SplitContents:
    """The texts of each split, those of one row one below the other."""
    texts_of_row: dict[int, list[str]] = {}
    for row, text in zip(prepared.data.row_of_text.tolist(), prepared.data.texts, strict=True):
        texts_of_row.setdefault(row, []).append(text)
    return contents_of_texts("texts", prepared.rows, lambda row: "\n".join(texts_of_row[row]))


def describe(prepared: PreparedTexts, folder: RunFolder) -> list[str]:
    texts, train, val = prepared.data, prepared.splits["train"], prepared.splits["val"]
    rejected = f", {plural(len(texts.rejected), 'empty cell')} rejected" if texts.rejected else ""
    lines = [
        f"{', '.join(texts.files)}: {plural(len(texts.texts), 'text')}{rejected}; a vocabulary of "
        f"{len(prepared.fitted.encoder.tokenizer):,}"
    ]
    lines += first_rejected(texts.rejected, folder)
    lines.append(
        f"{train.num_texts:,} training and {plural(val.num_texts, 'validation text')}; {len(train.numbers):,} and "
        f"{plural(len(val.numbers), 'token')}"
    )
    lines += [f"  {note}" for note in script_note(texts.texts, prepared.fitted.encoder.tokenizer.kind)]
    if cut := train.num_cut + val.num_cut:
        longer = plural(cut, "text is", "texts are")
        lines.append(
            f"  {longer} longer than --context {prepared.settings.model.context} and read in pieces of that length"
        )
    if not val.num_texts:
        lines.append("  no validation texts: the model is not evaluated")
    return lines


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    return TASK.score_table(metrics, split, f"validation texts: {plural(metrics['tokens']['hidden'], 'hidden token')}")


def next_commands(folder: RunFolder) -> list[str]:
    data = folder.read_config()["data"][-1]
    return [command("fingerprint", folder.path, data, "-o", free_name("vectors.npz"))]


def open_texts(request: PredictRequest) -> tuple[FittedMasked, TextData]:
    """The trained model, and the table, or the lines, with the columns it has read."""
    folder = request.run_folder
    trained, text_columns = load(folder), request["text_columns"]
    if not text_columns and (folder.path / "config.toml").is_file():
        text_columns = folder.read_config().get("text-columns")
    if request.data.lower().endswith(LINE_SUFFIXES):
        text_columns = ["text"]
    elif not text_columns:
        raise SettingError(f"{request.data} is a table; name the columns that hold texts: --text-columns text.")

    columns = Columns(text_columns=tuple(text_columns))
    return trained, read_texts([request.data], columns, strict=request.strict, need_targets=False)


def masking_of(tokenizer: Tokenizer, settings: MaskedRunSettings) -> Masking:
    """What a run hides."""
    assert tokenizer.mask is not None
    return Masking(tokenizer.mask, tokenizer.ordinary, settings.mask_fraction)


TASK = Task(
    settings=SETTINGS,
    noun="hidden tokens",
    headlines=by_own_name("loss", "perplexity", "accuracy"),
    labels={"frequency": "most frequent"},
    prepare=prepare,
    load=load,
    loaders=loaders,
    evaluate=evaluate,
    split_contents=split_contents,
    description=describe,
    score_tables=score_tables,
    further_commands=next_commands,
    open_rows=open_texts,
    vectors=text_vectors,
)
