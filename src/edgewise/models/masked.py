"""A masked language model: the hidden tokens of texts."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import UnsupportedError
from edgewise.layers.block import activation_of
from edgewise.models.encoder import TokenEncoder
from edgewise.models.text_settings import TransformerSettings
from edgewise.records import MaskedBatch, TextBatch
from edgewise.trace import Trace


class MaskedModel(nn.Module):
    """Scores of every token of the vocabulary to stand at a place of a text, from the tokens on both sides.

        x = TokenEncoder(tokens);  scores = TokenHead(x) Eᵀ + c

    The matrix E is that of the encoder's tokens, c a number for each of them.

    Args:
        num_tokens: size of the vocabulary.
        settings: sizes and choices.
        has_head: False leaves out what makes scores of vectors, where a checkpoint has only the encoder.

    Source: Devlin et al. 2019 (BERT), task 1 of section 3.1.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings, *, has_head: bool = True):
        super().__init__()
        self.encoder = TokenEncoder(num_tokens, settings)
        self.head = TokenHead(num_tokens, settings) if has_head else None

    @property
    def settings(self) -> TransformerSettings:
        """Sizes and choices."""
        return self.encoder.settings

    def forward(
        self, batch: TextBatch | MaskedBatch, trace: Trace | None = None
    ) -> Float[Tensor, " *place num_tokens"]:
        """The scores at the hidden places of a `MaskedBatch`, or at all places of a `TextBatch`.

        Cost: the product with the vocabulary is the larger part of a small model; hidden places alone need a seventh.
        """
        if isinstance(batch, MaskedBatch):
            return self.scores(self.encoder(batch.texts, trace)[batch.places])
        return self.scores(self.encoder(batch, trace))

    def scores(self, nodes: Float[Tensor, " *place model_dim"]) -> Float[Tensor, " *place num_tokens"]:
        """How likely each token of the vocabulary is to stand where the encoder gave these vectors, before softmax.

        Raises:
            UnsupportedError: the model has no head.
        """
        if self.head is None:
            raise UnsupportedError(
                "this model cannot predict hidden tokens: its checkpoint held the encoder alone, without a head."
            )
        return nn.functional.linear(self.head(nodes), self.encoder.embedding.weight, self.head.bias)


class TokenHead(nn.Module):
    """What stands between the encoder's vectors and the vocabulary: norm(activation(W x + b)).

    Args:
        num_tokens: size of the vocabulary, for the numbers that are added to its scores.
        settings: sizes and choices of the encoder.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.dense = nn.Linear(settings.model_dim, settings.model_dim)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        self.activation = activation_of(settings.activation)
        self.norm = nn.LayerNorm(settings.model_dim, settings.norm_eps)
        self.bias = nn.Parameter(torch.zeros(num_tokens))

    def forward(self, nodes: Float[Tensor, " *place model_dim"]) -> Float[Tensor, " *place model_dim"]:
        """The vectors that are compared with those of the tokens."""
        return self.norm(self.activation(self.dense(nodes)))
