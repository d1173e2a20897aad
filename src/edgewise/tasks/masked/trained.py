"""A trained model of hidden tokens, with its vocabulary, and its scores."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from edgewise.data.texts.table import TextTable
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError
from edgewise.models.encoder import MaskedModel
from edgewise.models.text_settings import TransformerSettings
from edgewise.records import TextBatch
from edgewise.tasks.fitted import FittedText
from edgewise.train.device import cpu_threads
from edgewise.train.masks import Chunks, Masking, MaskLoader

TOKENS_A_BATCH = 4096
"""Tokens that are read at once where no gradient is wanted; always as many, so that always the same are hidden."""


@dataclass(kw_only=True)
class TrainedMasked(FittedText):
    """A model with the vocabulary that it was trained with; its `model.encoder` is where other models start."""

    FORMAT = "edgewise masked model"

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

        A text that is longer than the model reads at once is read in pieces. NaN where a row has no token.

        Raises:
            DataError: no row can be read.
        """
        rows = np.flatnonzero(table.usable)
        if not len(rows):
            raise DataError(f"{table.source}: no row can be read; the first: {table.status[0]}.")
        read = zip(rows, table.contents(rows), strict=True)
        texts = [(row, self.tokenizer.encode(text).numbers) for row, own in read for text in own]
        pieces = Chunks.of([numbers for _, numbers in texts], self.model.settings.context)
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


def scores_of_frequency(training: Chunks, masking: Masking, loader: MaskLoader, num_tokens: int) -> MaskedScores:
    """The scores of always predicting the most frequent token.

    p(token) comes from counting the tokens of the training texts that can be hidden, each once more than seen.
    """
    counts = np.bincount(training.numbers, minlength=num_tokens)[masking.ordinary] + 1
    losses = np.full(num_tokens, math.inf)
    losses[masking.ordinary] = -np.log(counts / counts.sum())
    targets = torch.cat([batch.targets for batch in loader]).numpy()
    return MaskedScores(float(losses[targets].mean()), float((targets == losses.argmin()).mean()))
