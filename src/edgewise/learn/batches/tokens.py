"""Tokens of texts as networks take them: alone, masked, as rows of a table, and with their translations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.graph.record import Record


@dataclass(frozen=True, eq=False)
class TokenBatch(Record):
    """Tokens of several texts: as rows if they have the same length, else packed one after the other."""

    tokens: Int64[Tensor, " *batch token"]
    """Token ids."""
    targets: Int64[Tensor, " *batch token"] | None = None
    """The token to predict at each position; −1 for none."""
    offsets: Int64[Tensor, " boundary"] | None = None
    """Packed texts: tokens of text g are `offsets[g]:offsets[g + 1]`; None if each row is one text."""
    segments: Int64[Tensor, " *batch token"] | None = None
    """The index of the text in the input that each token belongs to; None for a single text."""
    weights: None = None
    """None, which `loss_of` reads: all tokens have the same weight."""

    @classmethod
    def pack(cls, texts: Sequence[np.ndarray]) -> "TokenBatch":
        """Packs texts one after the other."""
        offsets = torch.from_numpy(np.cumsum([0, *map(len, texts)]))
        return cls(torch.from_numpy(np.concatenate(texts)), offsets=offsets)

    @property
    def positions(self) -> Int64[Tensor, " token"]:
        """The position of each token of packed texts in its text."""
        assert self.offsets is not None
        begins = self.offsets[:-1].repeat_interleave(self.offsets.diff(), output_size=self.tokens.shape[-1])
        return torch.arange(self.tokens.shape[-1], device=begins.device) - begins


@dataclass(frozen=True, eq=False)
class MaskedBatch(Record):
    """Texts with masked tokens, and the tokens to predict."""

    tokens: Int64[Tensor, " token"]
    """Token ids, packed one text after the other; mostly the mask token at masked positions."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of text g are `offsets[g]:offsets[g + 1]`."""
    masked_positions: Int64[Tensor, " position"]
    """The masked positions in `tokens`, in increasing order."""
    targets: Int64[Tensor, " position"]
    """The token to predict at each of these positions."""
    weights: None = None
    """None, which `loss_of` reads: all tokens have the same weight."""

    @property
    def texts(self) -> TokenBatch:
        """The texts without targets and weights."""
        return TokenBatch(self.tokens, offsets=self.offsets)


@dataclass(frozen=True, eq=False)
class TextRowBatch(Record):
    """Rows of a table of texts: their tokens, packed one after the other, and the targets of each row."""

    tokens: Int64[Tensor, " token"]
    """Token ids."""
    offsets: Int64[Tensor, " boundary"]
    """Tokens of row r are `offsets[r]:offsets[r + 1]`."""
    segments: Int64[Tensor, " token"] | None = None
    """The text column of each token; None for a single column."""
    targets: Float[Tensor, " row target"] | None = None
    """Targets in model units; NaN for empty cells."""
    weights: Float[Tensor, " row"] | None = None
    """The weight of each row in the loss."""

    @classmethod
    def pack(cls, texts: Sequence[np.ndarray], segments: Sequence[np.ndarray]) -> "TextRowBatch":
        """Packs rows one after the other."""
        offsets = torch.from_numpy(np.cumsum([0, *map(len, texts)]))
        return cls(torch.from_numpy(np.concatenate(texts)), offsets, torch.from_numpy(np.concatenate(segments)))

    @property
    def texts(self) -> TokenBatch:
        """The texts without targets and weights."""
        return TokenBatch(self.tokens, offsets=self.offsets, segments=self.segments)


@dataclass(frozen=True, eq=False)
class TranslationBatch(Record):
    """Texts and their translations, padded to the longest of the batch."""

    source: Int64[Tensor, " graph key"]
    """Tokens of the source texts."""
    source_lengths: Int64[Tensor, " graph"]
    """The length of each source text without padding."""
    tokens: Int64[Tensor, " graph token"]
    """Tokens of the target texts, each before the token to predict; the first is the start token."""
    targets: Int64[Tensor, " graph token"] | None = None
    """The token to predict at each position, the last the end token; −1 in the padding."""
    weights: None = None
    """None, which `loss_of` reads: all tokens have the same weight."""
