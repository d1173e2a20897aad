"""A model that tells hidden tokens, with the vocabulary it was trained with; and how it is trained."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.data.texts.table import TextTable
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError
from edgewise.models.masked import MaskedModel
from edgewise.models.text_settings import TransformerSettings
from edgewise.progress import counted
from edgewise.records import TextBatch
from edgewise.tasks.checkpoint import (
    fit_in,
    read_tokenizer,
    read_weights,
    training_metrics,
    untrained,
    write_model,
)
from edgewise.tasks.masked.job import MaskedJob
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.loss import TokenLoss
from edgewise.train.masks import Masking, MaskLoader, Pieces

FORMAT, FORMAT_VERSION = "edgewise masked model", 1
TOKENS_A_BATCH = 4096
"""Tokens that are read at once where no gradient is wanted; always as many, so that always the same are hidden."""


@dataclass(frozen=True)
class MaskedDocument:
    """What model.json says of a model of hidden tokens, beside its format."""

    tokens: TokenKind
    num_tokens: int
    has_head: bool
    left_out: tuple[str, ...]
    settings: TransformerSettings


@dataclass
class TrainedMasked:
    """A model with the vocabulary that it was trained with; its `model.encoder` is where other models start."""

    tokenizer: Tokenizer
    """From text to tokens and back."""
    model: MaskedModel
    """What was trained."""
    threads: int = 1
    """CPU threads that it computes with."""
    left_out: tuple[str, ...] = ()
    """The parts of the checkpoint it came from that it has no place for."""

    def fingerprint(self, table: TextTable, device: str = "cpu") -> np.ndarray:
        """(row, model_dim): the mean of the last vectors of all tokens of a row, those of several columns together.

        A text that is longer than the model reads at once is read in pieces. NaN where a row has no token.

        Raises:
            DataError: no row can be read.
        """
        rows = np.flatnonzero(table.usable)
        if not len(rows):
            raise DataError(f"{table.source}: no row can be read; the first: {table.status[0]}.")
        read = zip(rows, table.contents(rows), strict=True)
        texts = [(row, self.tokenizer.encode(text).numbers) for row, own in read for text in own]
        pieces = Pieces.of([numbers for _, numbers in texts], self.model.settings.context)
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

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tokens": self.tokenizer.kind,
            "num_tokens": self.model.encoder.embedding.num_embeddings,
            "has_head": self.model.head is not None,
            "left_out": list(self.left_out),
            "settings": dataclasses.asdict(self.model.settings),
        }
        write_model(folder, self.model, self.tokenizer, content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, MaskedDocument)
        tokenizer = read_tokenizer(folder, read.tokens, read.num_tokens)
        model = read_weights(folder, lambda: MaskedModel(read.num_tokens, read.settings, has_head=read.has_head))
        return cls(tokenizer, model, left_out=read.left_out)


@dataclass(frozen=True)
class Told:
    """How well hidden tokens are told."""

    loss: float
    """The mean of −ln p."""
    accuracy: float
    """How many are the likeliest, as a part of all."""

    def to_dict(self) -> dict[str, float]:
        """For `metrics.json`."""
        return {"loss": self.loss, "perplexity": math.exp(min(self.loss, 700.0)), "accuracy": self.accuracy}


def told(trained: TrainedMasked, loader: MaskLoader) -> Told:
    """How well a model tells the tokens that a loader hides."""
    loss, total, right, count = TokenLoss(), 0.0, 0, 0
    with torch.no_grad(), cpu_threads(trained.threads):
        for batch in counted(loader, "scoring"):
            scores = trained.model(batch)
            sums = loss(scores, batch.targets)
            total, count = total + float(sums[0]), count + int(sums[1])
            right += int((scores.argmax(-1) == batch.targets).sum())
    return Told(total / max(count, 1), right / max(count, 1))


def told_by_frequency(training: Pieces, masking: Masking, loader: MaskLoader, num_tokens: int) -> Told:
    """How well one tells them who knows how often each token occurs, and always says the most frequent.

    p(token) comes from counting the tokens of the training texts that can be hidden, each once more than seen.
    """
    counts = np.bincount(training.numbers, minlength=num_tokens)[masking.ordinary] + 1
    losses = np.full(num_tokens, math.inf)
    losses[masking.ordinary] = -np.log(counts / counts.sum())
    targets = torch.cat([batch.targets for batch in loader]).numpy()
    return Told(float(losses[targets].mean()), float((targets == losses.argmin()).mean()))


def fit_pieces(
    tokenizer: Tokenizer,
    parts: dict[str, Pieces],
    job: MaskedJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> tuple[TrainedMasked, dict[str, Any]]:
    """Learns to tell hidden tokens of the training texts, and chooses the epoch by the validation texts; also the
    scores of the model beside those of counting tokens."""
    settings, masking = job.train, masking_of(tokenizer, job)
    assert settings.batch_size is not None
    model = untrained(lambda: MaskedModel(len(tokenizer), job.model), settings.seed)
    training = MaskLoader(parts["train"], masking, settings.batch_size, settings.seed)
    validation = MaskLoader(parts["val"], masking, TOKENS_A_BATCH)
    can_tell = len(masking.able(parts["val"].numbers)) > 0
    loaders = (training, validation if can_tell else None)
    history = fit_in(folder, model, loaders, settings, resume=resume).history
    trained = TrainedMasked(tokenizer, model, settings.threads)
    metrics: dict[str, Any] = {
        "texts": {part: pieces.num_texts for part, pieces in parts.items()},
        "pieces": {part: len(pieces) for part, pieces in parts.items()},
        "tokens": {"vocabulary": len(tokenizer), **{part: len(pieces.numbers) for part, pieces in parts.items()}},
        "epochs": len(history),
        **training_metrics(model, history),
    }
    if can_tell:
        metrics["tokens"]["hidden"] = sum(len(batch.places) for batch in validation)
        metrics["validation"] = told(trained, validation).to_dict()
        known = told_by_frequency(parts["train"], masking, validation, len(tokenizer))
        metrics["baselines"] = {"frequency": {"validation": known.to_dict()}}
    return trained, metrics


def masking_of(tokenizer: Tokenizer, job: MaskedJob) -> Masking:
    """What a run hides."""
    assert tokenizer.mask is not None
    return Masking(tokenizer.mask, tokenizer.ordinary, job.mask_part)
