"""A model that reads one text and writes another: encoder, decoder, and cross-attention between them."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.layers.cache import Cache
from edgewise.models.text_settings import TransformerSettings
from edgewise.models.transformer import Stack, causal, placed, placing
from edgewise.neighborhood import Lengths, Neighborhood
from edgewise.records import PairBatch
from edgewise.trace import Trace


@dataclass(eq=False)
class TranslationProgress:
    """Where a transformer stands in the texts that it writes."""

    source: Float[Tensor, " beam key model_dim"]
    """The vectors of the source's tokens, for every text."""
    lengths: Int64[Tensor, " beam"]
    """How many of them are true."""
    cache: Cache = field(default_factory=Cache)
    """Keys and values of source and target."""

    def reorder(self, beams: Int64[Tensor, " beam"]) -> None:
        """Go on from these texts, each in the place of one with the same source, whose keys and values stay."""
        for layer in self.cache.layers:
            layer.reorder(beams)


class TranslationModel(nn.Module):
    """Scores of every token to come next in the target, given the source and the target so far.

        encoder  x = √d E[source] + position;  x = Stack(x), each token attending to all true ones
        decoder  y = √d E[target] + position;  y = Stack(y, x), each token attending to those before, and to x
        scores   y Eᵀ

    One matrix E serves both texts and the output: they share a vocabulary.

    Source: Vaswani et al. 2017, whose choices are `CONFIGURATIONS["transformer-base"]` and `"transformer-big"`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=settings.model_dim**-0.5)
        self.position = placing(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = Stack(settings)
        self.decoder = Stack(settings, is_causal=True, has_source=True)

    def forward(self, batch: PairBatch, trace: Trace | None = None) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each target token of a batch."""
        source = self.read(batch.source, batch.source_lengths, trace=trace)
        return self.write(batch.tokens, source, batch.source_lengths, trace=trace)

    def read(
        self,
        source: Int64[Tensor, " graph key"],
        lengths: Int64[Tensor, " graph"],
        *,
        vectors: Float[Tensor, " graph key model_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph key model_dim"]:
        """The vectors of the source's tokens.

        Args:
            source, lengths: the tokens, and how many of them are true.
            vectors: replace their learned vectors, for gradients.
            trace: where the weights are recorded.
        """
        return self.encoder(self._placed(source, None, vectors), Lengths(lengths), trace=trace)

    def write(
        self,
        tokens: Int64[Tensor, " graph token"],
        source: Float[Tensor, " graph key model_dim"],
        lengths: Int64[Tensor, " graph"],
        *,
        cache: Cache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each of these; with a cache they follow the tokens of earlier calls."""
        positions = None if cache is None else torch.arange(tokens.shape[-1], device=tokens.device) + cache.length
        nodes = self.decoder(
            self._placed(tokens, positions),
            self.neighborhood,
            source=source,
            source_neighborhood=Lengths(lengths),
            positions=positions,
            cache=cache,
            trace=trace,
        )
        return nn.functional.linear(nodes, self.embedding.weight)

    def begin(
        self, source: Int64[Tensor, " graph key"], lengths: Int64[Tensor, " graph"], num_beams: int = 1
    ) -> TranslationProgress:
        """Before the first word of `num_beams` texts for every source; those of one stand side by side."""
        read = self.read(source, lengths)
        return TranslationProgress(read.repeat_interleave(num_beams, 0), lengths.repeat_interleave(num_beams, 0))

    def next(self, tokens: Int64[Tensor, " beam"], progress: TranslationProgress) -> Float[Tensor, " beam num_tokens"]:
        """The scores for the token after one more of every text; `progress` then stands behind it."""
        return self.write(tokens[:, None], progress.source, progress.lengths, cache=progress.cache)[:, -1]

    @property
    def neighborhood(self) -> Neighborhood:
        """Whom each token of the target attends to, among those of the target."""
        return causal(self.settings)

    def _placed(self, tokens: Tensor, positions: Tensor | None, vectors: Tensor | None = None) -> Tensor:
        nodes = (self.embedding(tokens) if vectors is None else vectors) * math.sqrt(self.settings.model_dim)
        return self.dropout(placed(self.settings, self.position, nodes, positions))
