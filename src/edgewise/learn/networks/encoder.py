"""Encoders of texts: a vector for every token that depends on all tokens of its text."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import UnsupportedError
from edgewise.graph import Trace
from edgewise.layers.block import activation_of
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import Linear
from edgewise.layers.recurrent import CellName, RecurrentEncoder
from edgewise.learn.batches.tokens import MaskedBatch, TokenBatch
from edgewise.learn.networks.text_settings import EncoderName, TransformerSettings
from edgewise.learn.networks.transformer import (
    TransformerBlocks,
    add_positions,
    around,
    position_encoding_of,
    within_texts,
)
from edgewise.neighborhood import Neighborhood


class TokenEncoder(nn.Module):
    """The vectors of the tokens of texts, each token attending to all of its own text.

        x = E[token] (+ position) (+ segment);  x = norm(x) where the settings say so;  x = blocks(x)

    Source: Devlin et al. 2019 (BERT), whose choices are `CONFIGURATIONS["bert-base"]` and `"bert-large"`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.settings = settings
        model_dim = settings.model_dim
        self.embedding = nn.Embedding(num_tokens, model_dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.position = position_encoding_of(settings)
        self.segment: nn.Embedding | None = None
        if settings.num_segments:
            self.segment = nn.Embedding(settings.num_segments, model_dim)
            nn.init.normal_(self.segment.weight, std=0.02)
        self.norm = nn.LayerNorm(model_dim, settings.norm_eps) if settings.norm_embeddings else nn.Identity()
        self.dropout = Dropout(settings.dropout)
        self.stack = TransformerBlocks(settings)

    @property
    def neighborhood(self) -> Neighborhood:
        """The neighborhood of a text: each token attends to all tokens, or to those around it."""
        return around(self.settings)

    def forward(
        self,
        batch: TokenBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " *batch token model_dim"] | None = None,
    ) -> Float[Tensor, " *batch token model_dim"]:
        """The vector of every token of a batch; `vectors` replace E[token] where they are given."""
        neighborhood, positions = within_texts(self.neighborhood, batch)
        nodes = self.embedding(batch.tokens) if vectors is None else vectors
        nodes = add_positions(self.settings, self.position, nodes, positions)
        if self.segment is not None:
            segments = torch.zeros_like(batch.tokens) if batch.segments is None else batch.segments
            nodes = nodes + self.segment(segments)
        return self.stack(self.dropout(self.norm(nodes)), neighborhood, positions=positions, trace=trace)


class RecurrentTokenEncoder(nn.Module):
    """The vectors of the tokens of packed texts, read by a recurrent network in both directions.

    Args:
        num_tokens: size of the vocabulary.
        cell: which network reads: "lstm", "gru" or "rnn".
        settings: its sizes: num_layers, model_dim, dropout.
    """

    def __init__(self, num_tokens: int, cell: CellName, settings: TransformerSettings):
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = Dropout(settings.dropout)
        self.sequence = RecurrentEncoder(
            settings.model_dim,
            settings.model_dim,
            cell=cell,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )

    def forward(
        self,
        batch: TokenBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " token model_dim"]:
        """The vector of every token of a batch; `vectors` replace E[token] where they are given."""
        assert batch.offsets is not None
        lengths, positions = batch.offsets.diff(), batch.positions
        text_of_token = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        nodes = self.dropout(self.embedding(batch.tokens) if vectors is None else vectors)
        table = nodes.new_zeros(len(lengths), int(lengths.max()), nodes.shape[-1])
        table = table.index_put((text_of_token, positions), nodes)
        return self.sequence(table, lengths)[text_of_token, positions]


def encoder_of(
    num_tokens: int, name: EncoderName, settings: TransformerSettings
) -> TokenEncoder | RecurrentTokenEncoder:
    """The encoder of that name: a transformer or a recurrent network."""
    if name == "transformer":
        return TokenEncoder(num_tokens, settings)
    return RecurrentTokenEncoder(num_tokens, name, settings)


def drop_words(texts: TokenBatch, unknown_token: int | None, rate: float) -> TokenBatch:
    """Word dropout: the texts with random tokens replaced by the unknown token, drawn anew at each call.

    Args:
        texts: the tokens.
        unknown_token: the token for words out of vocabulary, or for masked ones; None disables word dropout.
        rate: the probability that a token is replaced.
    """
    if unknown_token is None or not rate:
        return texts
    is_dropped = torch.rand(texts.tokens.shape, device=texts.tokens.device) < rate
    return TokenBatch(
        texts.tokens.masked_fill(is_dropped, unknown_token), offsets=texts.offsets, segments=texts.segments
    )


class MaskedModel(nn.Module):
    """Scores of every token of the vocabulary at each position of a text, from the tokens on both sides.

        x = TokenEncoder(tokens);  scores = TokenHead(x) Eᵀ + c

    E is the token embedding of the encoder, c a bias for each token.

    Args:
        num_tokens: size of the vocabulary.
        settings: sizes and choices.
        has_head: False leaves out the head, for a checkpoint that holds the encoder alone.

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
        self, batch: TokenBatch | MaskedBatch, trace: Trace | None = None
    ) -> Float[Tensor, " *position num_tokens"]:
        """The scores at the masked positions of a `MaskedBatch`, or at all positions of a `TokenBatch`.

        Cost: the product with the vocabulary dominates in a small model; masked positions alone need a seventh of it.
        """
        if isinstance(batch, MaskedBatch):
            return self.scores(self.encoder(batch.texts, trace)[batch.masked_positions])
        return self.scores(self.encoder(batch, trace))

    def scores(self, nodes: Float[Tensor, " *position model_dim"]) -> Float[Tensor, " *position num_tokens"]:
        """The logits of each token of the vocabulary at the positions of these vectors of the encoder.

        Raises:
            UnsupportedError: the model lacks a head.
        """
        if self.head is None:
            raise UnsupportedError(
                "this model cannot predict hidden tokens: its checkpoint held the encoder alone, without a head."
            )
        return nn.functional.linear(self.head(nodes), self.encoder.embedding.weight, self.head.bias)


class TokenHead(nn.Module):
    """The head between the encoder's vectors and the vocabulary: norm(activation(W x + b)).

    Args:
        num_tokens: size of the vocabulary, which is that of the bias.
        settings: sizes and choices of the encoder.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.dense = Linear(settings.model_dim, settings.model_dim)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        self.activation = activation_of(settings.activation)
        self.norm = nn.LayerNorm(settings.model_dim, settings.norm_eps)
        self.bias = nn.Parameter(torch.zeros(num_tokens))

    def forward(self, nodes: Float[Tensor, " *position model_dim"]) -> Float[Tensor, " *position model_dim"]:
        """The vectors that are compared with those of the tokens."""
        return self.norm(self.activation(self.dense(nodes)))
