"""A language model: predicts the next token."""

from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.graph import Trace
from edgewise.layers.cache import Cache
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import linear
from edgewise.layers.position import first_positions
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.networks.transformer import (
    TransformerBlocks,
    add_positions,
    causal,
    position_encoding_of,
    within_texts,
)
from edgewise.neighborhood import Neighborhood


class NextTokenModel(nn.Module):
    """Scores of every next token at every position of a text.

        x = E[token] (+ position);  x = blocks(x), each token attending to itself and those before;  scores = x Eᵀ

    The matrix E serves both ends (Press and Wolf 2017).

    Source: Radford et al. 2019 (GPT-2), whose choices are `CONFIGURATIONS["gpt2"]`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.position = position_encoding_of(settings)
        self.dropout = Dropout(settings.dropout)
        self.stack = TransformerBlocks(settings, is_causal=True)

    @property
    def neighborhood(self) -> Neighborhood:
        """The neighborhood: which tokens each token attends to."""
        return causal(self.settings)

    def forward(self, batch: TokenBatch, trace: Trace | None = None) -> Float[Tensor, " *batch token num_tokens"]:
        """The scores for the token after each token of a batch."""
        return self.scores(self._of_batch(batch, trace, None))

    def next_token_scores(
        self,
        batch: TokenBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " text num_tokens"]:
        """The scores for the token after each of some packed texts, those of their last tokens alone.

        Args:
            batch: the texts, each of one token or more.
            trace: where weights are recorded.
            vectors: replace the learned vectors of the tokens, for gradients.
        """
        assert batch.offsets is not None
        return self.scores(self._of_batch(batch, trace, vectors)[batch.offsets[1:] - 1])

    def _of_batch(self, batch: TokenBatch, trace: Trace | None, vectors: Tensor | None) -> Tensor:
        neighborhood, positions = within_texts(self.neighborhood, batch)
        return self.nodes(batch.tokens, neighborhood, positions=positions, trace=trace, vectors=vectors)

    def nodes(
        self,
        tokens: Int64[Tensor, " *batch token"],
        neighborhood: Neighborhood | None = None,
        *,
        positions: Int64[Tensor, " *position_batch token"] | None = None,
        cache: Cache | None = None,
        trace: Trace | None = None,
        vectors: Float[Tensor, " *batch token model_dim"] | None = None,
    ) -> Float[Tensor, " *batch token model_dim"]:
        """The vectors of tokens after the last block; with a cache they follow the tokens of earlier calls, and
        `vectors` replace E[token] where they are given."""
        nodes = self.embedding(tokens) if vectors is None else vectors
        if positions is None and cache is not None:
            positions = first_positions(nodes) + cache.length
        nodes = add_positions(self.settings, self.position, nodes, positions)
        neighborhood = self.neighborhood if neighborhood is None else neighborhood

        return self.stack(self.dropout(nodes), neighborhood, positions=positions, cache=cache, trace=trace)

    def scores(self, nodes: Float[Tensor, " *token model_dim"]) -> Float[Tensor, " *token num_tokens"]:
        """The logits of the next token."""
        return linear(nodes, self.embedding.weight)
