"""A model that reads one text and writes another with recurrent networks and attention between them."""

import math
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.layers.recurrent import RecurrentDecoder, RecurrentEncoder, RecurrentSource, RecurrentState
from edgewise.models.text_settings import RecurrentSettings
from edgewise.records import PairBatch
from edgewise.trace import Trace


@dataclass(eq=False)
class RecurrentProgress:
    """Where a recurrent model stands in the texts that it writes."""

    source: RecurrentSource
    """What every word looks at."""
    state: RecurrentState
    """What it knows of the words so far."""

    def reorder(self, beams: Int64[Tensor, " beam"]) -> None:
        """Go on from these texts, each in the place of one with the same source."""
        self.state = self.state.reordered(beams)


class RecurrentTranslationModel(nn.Module):
    """Scores of every token to come next in the target, given the source and the target so far.

        encoder  h = BiRNN(√d E[source])
        decoder  y_t = tanh(W [c_t; s_t]), c_t = attend(s_t, h): see `RecurrentDecoder`, which reads √d E[target]
        scores   y Eᵀ

    One matrix E serves both texts and the output: they share a vocabulary.

    Source: Bahdanau et al. 2015; Luong et al. 2015; the shared matrix of Press and Wolf 2017.
    Cost: the words of a text follow each other, forward and backward; those of a batch go side by side.
    """

    def __init__(self, num_tokens: int, settings: RecurrentSettings):
        super().__init__()
        self.settings = settings
        size = settings.model_dim
        self.embedding = nn.Embedding(num_tokens, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = RecurrentEncoder(
            size, size, cell=settings.cell, num_layers=settings.num_layers, dropout=settings.dropout
        )
        self.decoder = RecurrentDecoder(
            size,
            size,
            cell=settings.cell,
            look=settings.attention,
            local=settings.local_attention,
            window=settings.local_window,
            is_input_fed=settings.input_feeding,
        )

    def forward(self, batch: PairBatch, trace: Trace | None = None) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each target token of a batch."""
        states = self.read(batch.source, batch.source_lengths)
        return self.write(batch.tokens, states, batch.source_lengths, trace=trace)

    def read(
        self,
        source: Int64[Tensor, " graph key"],
        lengths: Int64[Tensor, " graph"],
        *,
        vectors: Float[Tensor, " graph key model_dim"] | None = None,
    ) -> Float[Tensor, " graph key model_dim"]:
        """The states of the encoder at the source's tokens.

        Args:
            source, lengths: the tokens, and how many of them are true.
            vectors: replace their learned vectors, for gradients.
        """
        return self.encoder(self._nodes(source, vectors), lengths)

    def write(
        self,
        tokens: Int64[Tensor, " graph token"],
        source: Float[Tensor, " graph key model_dim"],
        lengths: Int64[Tensor, " graph"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph token num_tokens"]:
        """The scores for the token after each of these; the trace as in `RecurrentDecoder`."""
        return self._scores(self.decoder(self._nodes(tokens), source, lengths, trace=trace))

    def begin(
        self, source: Int64[Tensor, " graph key"], lengths: Int64[Tensor, " graph"], num_beams: int = 1
    ) -> RecurrentProgress:
        """Before the first word of `num_beams` texts for every source; those of one stand side by side."""
        states = self.read(source, lengths).repeat_interleave(num_beams, 0)
        known = self.decoder.source(states, lengths.repeat_interleave(num_beams, 0))
        return RecurrentProgress(known, self.decoder.start(known))

    def next(self, tokens: Int64[Tensor, " beam"], progress: RecurrentProgress) -> Float[Tensor, " beam num_tokens"]:
        """The scores for the token after one more of every text; `progress` then stands behind it."""
        words = self.decoder.words(self._nodes(tokens))
        progress.state = self.decoder.step(words, progress.state, progress.source)
        return self._scores(progress.state.attended)

    def _nodes(self, tokens: Tensor, vectors: Tensor | None = None) -> Tensor:
        vectors = self.embedding(tokens) if vectors is None else vectors
        return self.dropout(vectors * math.sqrt(self.settings.model_dim))

    def _scores(self, words: Tensor) -> Tensor:
        return nn.functional.linear(self.dropout(words), self.embedding.weight)
