"""Masked: hidden tokens of texts, to start other models from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.graph.records import TextBatch
from edgewise.learn.networks.encoder import MaskedModel
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.readers.texts.pairs import read_corpus
from edgewise.learn.readers.texts.script import script_note
from edgewise.learn.readers.texts.table import LINES, TextTable, read_texts
from edgewise.learn.readers.texts.tokenizer import MASK, Tokenizer
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tasks.fitted import FittedText
from edgewise.learn.tasks.masked.settings import MaskedRunSettings
from edgewise.learn.tasks.scores import command, first_rejected, free_name, same
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.masks import Masking, MaskLoader, TokenChunks
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult


TOKENS_A_BATCH = 4096
"""Tokens that are read at once where no gradient is wanted; always as many, so that always the same are hidden."""


@dataclass(kw_only=True)
class FittedMasked(FittedText):
    """A model with the vocabulary that it was trained with; its `model.encoder` is where other models start."""

    FORMAT = MaskedRunSettings.FORMAT

    num_tokens: int
    """Tokens that the model has vectors for."""
    settings: TransformerSettings
    """The sizes of the model."""
    has_head: bool = True
    """Whether it predicts hidden tokens; a converted encoder may not."""
    left_out: tuple[str, ...] = ()
    """The parts of the checkpoint it came from that it has no place for."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, model: MaskedModel, left_out: tuple[str, ...] = ()) -> Self:
        """A model that was trained elsewhere."""
        size, has_head = model.encoder.embedding.num_embeddings, model.head is not None
        return cls(
            members=[model],
            tokenizer=tokenizer,
            tokens=tokenizer.kind,
            num_tokens=size,
            settings=model.settings,
            has_head=has_head,
            left_out=left_out,
        )

    def fingerprint(self, table: TextTable, device: str = "cpu") -> np.ndarray:
        """(row, model_dim): the mean of the last vectors of all tokens of a row, those of several columns together.

        A text that is longer than the model reads at once is read in pieces. Where the vocabulary has tokens that stand
        around a text, BERT's [CLS] and [SEP], they are read around each piece and count in the mean. NaN where a row
        has no token.

        Raises:
            DataError: no row can be read.
        """
        rows = np.flatnonzero(table.usable)
        if not len(rows):
            raise DataError(f"{table.source}: no row can be read; the first: {table.status[0]}.")
        read = zip(rows, table.contents(rows), strict=True)
        length = max(1, self.model.settings.context - self.tokenizer.num_around)
        texts = [
            (row, self.tokenizer.around(numbers[start : start + length]))
            for row, own in read
            for numbers in (self.tokenizer.encode(text).numbers for text in own)
            for start in range(0, len(numbers), length)
        ]
        pieces = TokenChunks.of([numbers for _, numbers in texts], self.model.settings.context)
        row_of_token = np.repeat([row for row, _ in texts], [len(numbers) for _, numbers in texts])
        sums = torch.zeros(table.num_rows, self.model.settings.model_dim, dtype=torch.float64)
        encoder = self.model.encoder.to(device).eval()
        with torch.no_grad(), cpu_threads(self.threads):
            for some in np.array_split(np.arange(len(pieces)), math.ceil(len(pieces.numbers) / TOKENS_A_BATCH)):
                tokens, offsets = (torch.from_numpy(part) for part in pieces.packed(some))
                found = encoder(TextBatch(tokens, offsets=offsets).to(device)).cpu().double()
                first = pieces.offsets[some[0]]
                sums.index_add_(0, torch.from_numpy(row_of_token[first : first + len(tokens)]), found)
        self.model.to("cpu")
        counts = np.bincount(row_of_token, minlength=table.num_rows)[:, None]
        return np.where(counts > 0, sums.numpy() / counts.clip(1), np.nan).astype(np.float32)

    def new_member(self) -> MaskedModel:
        return MaskedModel(self.num_tokens, self.settings, has_head=self.has_head)


@dataclass(frozen=True)
class MaskedScores:
    """How well hidden tokens are predicted."""

    loss: float
    """The mean of −ln p."""
    accuracy: float
    """How many are the likeliest, as a part of all."""

    def to_dict(self) -> dict[str, float]:
        """For `metrics.json`."""
        return {"loss": self.loss, "perplexity": math.exp(min(self.loss, 700.0)), "accuracy": self.accuracy}


def scores_of_frequency(training: TokenChunks, masking: Masking, loader: MaskLoader, num_tokens: int) -> MaskedScores:
    """The scores of always predicting the most frequent token.

    p(token) comes from counting the tokens of the training texts that can be hidden, each once more than seen.
    """
    counts = np.bincount(training.numbers, minlength=num_tokens)[masking.ordinary] + 1
    losses = np.full(num_tokens, math.inf)
    losses[masking.ordinary] = -np.log(counts / counts.sum())
    targets = torch.cat([batch.targets for batch in loader]).numpy()
    return MaskedScores(float(losses[targets].mean()), float((targets == losses.argmin()).mean()))


def prepare(settings: MaskedRunSettings) -> Prepared:
    texts = read_corpus(settings.data, settings.text_columns)
    rows = texts.split(settings.split_sizes, settings.data_seed)
    words = {split: texts.of_rows(found) for split, found in rows.items()}
    tokenizer = Tokenizer.learned(
        words["train"], settings.tokens, settings.vocabulary_size, special=(MASK,), lowercase=settings.lowercase
    )
    splits = {
        split: TokenChunks.of([tokenizer.encode(text).numbers for text in found], settings.model.context)
        for split, found in words.items()
    }
    if not len(masking_of(tokenizer, settings).able(splits["train"].numbers)):
        many = plural(len(words["train"]), "training text has", "training texts have")
        raise DataError(
            f"{', '.join(settings.data)}: the {many} no token that could be hidden; give more texts, or a larger "
            "--vocabulary-size."
        )
    fitted = FittedMasked(
        tokenizer=tokenizer, tokens=tokenizer.kind, num_tokens=len(tokenizer), settings=settings.model
    )
    listed = {split: found.tolist() for split, found in rows.items()}
    return Prepared(settings, texts, splits, fitted, listed, texts.rejected)


def validation_loader(prepared: Prepared) -> MaskLoader | None:
    """The validation texts, always the same tokens hidden; None where none can be."""
    masking = masking_of(prepared.fitted.tokenizer, prepared.settings)
    pieces = prepared.splits["val"]
    return MaskLoader(pieces, masking, TOKENS_A_BATCH) if len(masking.able(pieces.numbers)) else None


def loaders(prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    masking, validation = masking_of(prepared.fitted.tokenizer, prepared.settings), validation_loader(prepared)

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        return MaskLoader(prepared.splits["train"], masking, recipe.batch_size, recipe.seed), validation

    return of_member


def loss(prepared: Prepared) -> TokenLoss:
    return TokenLoss()


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The scores on hidden tokens of the validation texts, beside those of the most frequent token."""
    fitted, splits, validation = prepared.fitted, prepared.splits, validation_loader(prepared)
    num_tokens = len(fitted.tokenizer)
    counts = {split: len(pieces.numbers) for split, pieces in splits.items()}
    metrics: dict[str, Any] = {
        "texts": {split: pieces.num_texts for split, pieces in splits.items()},
        "pieces": {split: len(pieces) for split, pieces in splits.items()},
        "tokens": {"vocabulary": num_tokens, **counts},
        **training_metrics(prepared, results[0]),
        "rejected": len(prepared.rejected),
    }
    if validation is not None:
        masking = masking_of(fitted.tokenizer, prepared.settings)
        metrics["tokens"]["hidden"] = sum(len(batch.places) for batch in validation)
        metrics["validation"] = MaskedScores(*fitted.token_scores(validation)).to_dict()
        known = scores_of_frequency(splits["train"], masking, validation, num_tokens)
        metrics["baselines"] = {"frequency": {"validation": known.to_dict()}}
    return metrics


def row_text(prepared: Prepared) -> Callable[[int], str]:
    """The texts of a row, one below the other."""
    held: dict[int, list[str]] = {}
    for row, text in zip(prepared.data.row_of_text.tolist(), prepared.data.texts, strict=True):
        held.setdefault(row, []).append(text)
    return lambda row: "\n".join(held[row])


def describe(prepared: Prepared, folder: RunFolder) -> list[str]:
    texts, train, val = prepared.data, prepared.splits["train"], prepared.splits["val"]
    rejected = f", {plural(len(texts.rejected), 'empty cell')} rejected" if texts.rejected else ""
    lines = [
        f"{', '.join(texts.files)}: {plural(len(texts.texts), 'text')}{rejected}; a vocabulary of "
        f"{len(prepared.fitted.tokenizer):,}"
    ]
    lines += first_rejected(texts.rejected, folder)
    lines.append(
        f"{train.num_texts:,} training and {plural(val.num_texts, 'validation text')}; {len(train.numbers):,} and "
        f"{plural(len(val.numbers), 'token')}"
    )
    lines += [f"  {note}" for note in script_note(texts.texts, prepared.fitted.tokenizer.kind)]
    if cut := train.num_cut + val.num_cut:
        longer = plural(cut, "text is", "texts are")
        lines.append(
            f"  {longer} longer than --context {prepared.settings.model.context} and read in pieces of that length"
        )
    if not val.num_texts:
        lines.append("  no validation texts: the model is not evaluated")
    return lines


def title(metrics: dict[str, Any], split: str) -> str:
    return f"validation texts: {plural(metrics['tokens']['hidden'], 'hidden token')}"


def next_commands(folder: RunFolder) -> list[str]:
    data = folder.read_config()["data"][-1]
    return [command("fingerprint", folder.path, data, "-o", free_name("vectors.npz"))]


def open_texts(request: PredictRequest) -> tuple[Any, Any]:
    """The trained model, and the table, or the lines, with the columns it has read."""
    folder = request.run_folder
    trained, names = FittedMasked.load(folder), request["text_columns"]
    if not names and (folder.path / "config.toml").is_file():
        names = folder.read_config().get("text-columns")
    if request.data.lower().endswith(LINES):
        names = ["text"]
    elif not names:
        raise SettingError(f"{request.data} is a table; name the columns that hold texts: --text-columns text.")
    columns = Columns(text_columns=tuple(names))
    return trained, read_texts([request.data], columns, strict=request.strict, need_targets=False)


def masking_of(tokenizer: Tokenizer, settings: MaskedRunSettings) -> Masking:
    """What a run hides."""
    assert tokenizer.mask is not None
    return Masking(tokenizer.mask, tokenizer.ordinary, settings.mask_fraction)


TASK = Task(
    settings_type=MaskedRunSettings,
    noun="hidden tokens",
    headlines=same("loss", "perplexity", "accuracy"),
    labels={"frequency": "most frequent"},
    prepare=prepare,
    load=FittedMasked.load,
    member_loaders=loaders,
    loss=loss,
    evaluate=evaluate,
    row_text=row_text,
    description=describe,
    title=title,
    further_commands=next_commands,
    open_rows=open_texts,
)
