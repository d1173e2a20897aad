"""A model that reads tokens and says which comes next."""

from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.layers.cache import Cache
from edgewise.layers.position import first_positions
from edgewise.models.transformer import Stack, check_length, placing
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.neighborhood import Causal, Neighborhood, Segments, Window
from edgewise.records import TextBatch
from edgewise.trace import Trace


class NextTokenModel(nn.Module):
    """Scores of every token to come next, at every place of a text.

        x = E[token] (+ position);  x = Stack(x), each token attending to itself and those before;  scores = x Eᵀ

    The matrix E serves both ends (Press and Wolf 2017).

    Args:
        num_tokens: size of the vocabulary.
        settings: sizes and choices.

    Source: Radford et al. 2019 (GPT-2), whose choices are `CONFIGURATIONS["gpt2"]`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.position = placing(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.stack = Stack(settings, is_causal=True)

    @property
    def neighborhood(self) -> Neighborhood:
        """Whom each token attends to."""
        window = self.settings.window
        return Causal() if window is None else Window(window - 1, 0)

    def forward(self, batch: TextBatch, trace: Trace | None = None) -> Float[Tensor, " *batch token num_tokens"]:
        """The scores for the token after each token of a batch."""
        neighborhood, positions = self.neighborhood, None
        if batch.offsets is not None:
            neighborhood, positions = neighborhood & Segments(batch.offsets), batch.places
        return self.scores(self.nodes(batch.tokens, neighborhood, positions=positions, trace=trace))

    def nodes(
        self,
        tokens: Int64[Tensor, " *batch token"],
        neighborhood: Neighborhood | None = None,
        *,
        positions: Int64[Tensor, " *position_batch token"] | None = None,
        cache: Cache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch token model_dim"]:
        """The vectors of tokens after the last block; with a cache they follow the tokens of earlier calls."""
        nodes = self.embedding(tokens)
        if positions is None and cache is not None:
            positions = first_positions(nodes) + cache.length
        if self.position is not None:
            check_length(self.settings, nodes, positions)
            nodes = self.position(nodes, positions)
        neighborhood = self.neighborhood if neighborhood is None else neighborhood
        return self.stack(self.dropout(nodes), neighborhood, positions=positions, cache=cache, trace=trace)

    def scores(self, nodes: Float[Tensor, " *token model_dim"]) -> Float[Tensor, " *token num_tokens"]:
        """How likely each token of the vocabulary is to follow, before softmax."""
        return nn.functional.linear(nodes, self.embedding.weight)
