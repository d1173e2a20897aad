"""Models that read one text and write another: a transformer, and recurrent networks with attention between them."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.graph import Trace
from edgewise.layers.cache import Cache
from edgewise.layers.dropout import Dropout
from edgewise.layers.recurrent import RecurrentDecoder, RecurrentEncoder, RecurrentSource, RecurrentState
from edgewise.learn.batches.tokens import TranslationBatch
from edgewise.learn.networks.text_settings import RecurrentSettings, TransformerSettings
from edgewise.learn.networks.transformer import TransformerBlocks, add_positions, around, causal, position_encoding_of
from edgewise.neighborhood import Full, Lengths, Neighborhood


class Writer(nn.Module):
    """Scores of every token to come next in the target, given the source and the target so far.

    One matrix E serves both texts and the output: they share a vocabulary (Press and Wolf 2017).
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings | RecurrentSettings):
        super().__init__()
        self.settings: Any = settings
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=settings.model_dim**-0.5)
        self.dropout = Dropout(settings.dropout)

    def forward(self, batch: TranslationBatch, trace: Trace | None = None) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each target token of a batch."""
        source = self.read(batch.source, batch.source_lengths, trace=trace)
        return self.write(batch.tokens, source, batch.source_lengths, trace=trace)

    @abstractmethod
    def read(
        self,
        source: Int64[Tensor, " graph key"],
        lengths: Int64[Tensor, " graph"],
        *,
        vectors: Float[Tensor, " graph key model_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph key model_dim"]:
        """The states of the encoder at the source's tokens.

        Args:
            source, lengths: the tokens, and how many of them are true.
            vectors: replace their learned vectors, for gradients.
            trace: where weights are recorded; a recurrent encoder has none.
        """

    @abstractmethod
    def write(
        self,
        tokens: Int64[Tensor, " graph token"],
        source: Float[Tensor, " graph key model_dim"],
        lengths: Int64[Tensor, " graph"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each of these."""

    @abstractmethod
    def begin(self, source: Int64[Tensor, " graph key"], lengths: Int64[Tensor, " graph"], num_beams: int = 1) -> Any:
        """Before the first word of `num_beams` texts for every source; those of one source are adjacent.

        The result has `reorder(beams)`, after which `next` goes on from these texts, each in the place of one with the
        same source.
        """

    @abstractmethod
    def next(self, tokens: Int64[Tensor, " beam"], progress: Any) -> Float[Tensor, " beam num_tokens"]:
        """The scores for the token after one more of every text; `progress` is then after it."""

    def _scaled(self, tokens: Tensor, vectors: Tensor | None = None) -> Tensor:
        """√d E[token]."""
        return (self.embedding(tokens) if vectors is None else vectors) * math.sqrt(self.settings.model_dim)


@dataclass(eq=False)
class TranslationProgress:
    """The progress of a transformer in the texts that it writes."""

    source: Float[Tensor, " beam key model_dim"]
    """The vectors of the source's tokens, for every text."""
    lengths: Int64[Tensor, " beam"]
    """How many of them are true."""
    cache: Cache = field(default_factory=Cache)
    """Keys and values of source and target."""

    def reorder(self, beams: Int64[Tensor, " beam"]) -> None:
        """Go on from these texts; the keys and values of their sources stay."""
        for layer in self.cache.layers:
            layer.reorder(beams)


class TranslationModel(Writer):
    """A transformer.

        encoder  x = √d E[source] + position;  x = blocks(x), each token attending to all true ones (in a window)
        decoder  y = √d E[target] + position;  y = blocks(y, x), each token attending to those before, and to x
        scores   y Eᵀ

    Source: Vaswani et al. 2017, whose choices are `CONFIGURATIONS["transformer-base"]` and `"transformer-big"`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__(num_tokens, settings)
        self.position = position_encoding_of(settings)
        self.encoder = TransformerBlocks(settings)
        self.decoder = TransformerBlocks(settings, is_causal=True, has_source=True)

    def read(
        self,
        source: Int64[Tensor, " graph key"],
        lengths: Int64[Tensor, " graph"],
        *,
        vectors: Float[Tensor, " graph key model_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph key model_dim"]:
        window = around(self.settings)
        # With the lengths of queries, too: else a window would be counted from the last place.
        neighborhood = Lengths(lengths) if isinstance(window, Full) else window & Lengths(lengths, lengths)
        return self.encoder(self._placed(source, None, vectors), neighborhood, trace=trace)

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
        read = self.read(source, lengths)
        return TranslationProgress(read.repeat_interleave(num_beams, 0), lengths.repeat_interleave(num_beams, 0))

    def next(self, tokens: Int64[Tensor, " beam"], progress: TranslationProgress) -> Float[Tensor, " beam num_tokens"]:
        return self.write(tokens[:, None], progress.source, progress.lengths, cache=progress.cache)[:, -1]

    @property
    def neighborhood(self) -> Neighborhood:
        """Whom each token of the target attends to, among those of the target."""
        return causal(self.settings)

    def _placed(self, tokens: Tensor, positions: Tensor | None, vectors: Tensor | None = None) -> Tensor:
        return self.dropout(add_positions(self.settings, self.position, self._scaled(tokens, vectors), positions))


@dataclass(eq=False)
class RecurrentProgress:
    """The progress of a recurrent model in the texts that it writes."""

    source: RecurrentSource
    """The encoded source that every word attends to."""
    state: RecurrentState
    """The state after the words so far."""

    def reorder(self, beams: Int64[Tensor, " beam"]) -> None:
        """Go on from these texts."""
        self.state = self.state.reordered(beams)


class RecurrentTranslationModel(Writer):
    """Recurrent networks with attention between them.

        encoder  h = BiRNN(√d E[source])
        decoder  y_t = tanh(W [c_t; s_t]), c_t = attend(s_t, h): see `RecurrentDecoder`, which reads √d E[target]
        scores   y Eᵀ

    Source: Bahdanau et al. 2015; Luong et al. 2015.
    Cost: the words of a text follow each other, forward and backward; those of a batch go side by side.
    """

    def __init__(self, num_tokens: int, settings: RecurrentSettings):
        super().__init__(num_tokens, settings)
        size = settings.model_dim
        self.encoder = RecurrentEncoder(
            size, size, cell=settings.cell, num_layers=settings.num_layers, dropout=settings.dropout
        )
        self.decoder = RecurrentDecoder(
            size,
            size,
            cell=settings.cell,
            score=settings.attention,
            local=settings.local_attention,
            window=settings.local_window,
            input_feeding=settings.input_feeding,
        )

    def read(
        self,
        source: Int64[Tensor, " graph key"],
        lengths: Int64[Tensor, " graph"],
        *,
        vectors: Float[Tensor, " graph key model_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph key model_dim"]:
        return self.encoder(self.dropout(self._scaled(source, vectors)), lengths)

    def write(
        self,
        tokens: Int64[Tensor, " graph token"],
        source: Float[Tensor, " graph key model_dim"],
        lengths: Int64[Tensor, " graph"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each of these; the trace as in `RecurrentDecoder`."""
        return self._scores(self.decoder(self.dropout(self._scaled(tokens)), source, lengths, trace=trace))

    def begin(
        self, source: Int64[Tensor, " graph key"], lengths: Int64[Tensor, " graph"], num_beams: int = 1
    ) -> RecurrentProgress:
        states = self.read(source, lengths).repeat_interleave(num_beams, 0)
        source_states = self.decoder.source(states, lengths.repeat_interleave(num_beams, 0))
        return RecurrentProgress(source_states, self.decoder.start(source_states))

    def next(self, tokens: Int64[Tensor, " beam"], progress: RecurrentProgress) -> Float[Tensor, " beam num_tokens"]:
        words = self.decoder.words(self.dropout(self._scaled(tokens)))
        progress.state = self.decoder.step(words, progress.state, progress.source)
        return self._scores(progress.state.attended)

    def _scores(self, words: Tensor) -> Tensor:
        return nn.functional.linear(self.dropout(words), self.embedding.weight)
