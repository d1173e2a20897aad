"""From texts to classes or numbers: read the tokens, sum them up into one vector by attention, predict."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.layers.readout import Readout
from edgewise.layers.recurrent import RecurrentEncoder
from edgewise.models.encoder import TokenEncoder
from edgewise.models.text_settings import TextSettings
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.records import TextBatch, TextRows
from edgewise.trace import Trace


class TextModel(nn.Module):
    """A vector of each text, and what it says of the targets.

        x = encode(tokens);  h = Σ_i softmax_i(q · k_i / √d) v_i over the tokens of a text;  y = W h

    Args:
        num_tokens: size of the vocabulary.
        unknown: the token that hides others in training; None hides none.
        num_outputs: numbers that are told of each text.
        text: what reads and how it is summed up.
        settings: the sizes of what reads.

    Source: the LSTM read out by attention is that of Lin et al. 2017 with one row of attention a head.
    """

    def __init__(
        self,
        num_tokens: int,
        unknown: int | None,
        num_outputs: int,
        text: TextSettings,
        settings: TransformerSettings,
    ):
        super().__init__()
        self.unknown, self.word_dropout = unknown, text.word_dropout
        self.encoder: TokenEncoder | RecurrentTokenEncoder
        if text.encoder == "transformer":
            self.encoder = TokenEncoder(num_tokens, settings)
        else:
            self.encoder = RecurrentTokenEncoder(num_tokens, text, settings)
        self.readout = Readout(settings.model_dim, text.readout, settings.num_heads)
        self.norm = nn.LayerNorm(settings.model_dim)
        self.dropout = nn.Dropout(text.head_dropout)
        self.output = nn.Linear(settings.model_dim, num_outputs)

    def forward(self, batch: TextRows, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """What the model says of each row, in model units (or logits)."""
        return self.output(self.dropout(self.fingerprint(batch, trace)))

    def fingerprint(self, batch: TextRows, trace: Trace | None = None) -> Float[Tensor, " row model_dim"]:
        """One vector that sums up each text."""
        nodes = self.encoder(self._hidden(batch.texts), trace)
        return self.norm(self.readout(nodes, batch.offsets, trace=trace))

    def _hidden(self, texts: TextBatch) -> TextBatch:
        """The texts with some tokens unknown, in training."""
        if not self.training or self.unknown is None or not self.word_dropout:
            return texts
        hides = torch.rand(texts.tokens.shape, device=texts.tokens.device) < self.word_dropout
        return TextBatch(texts.tokens.masked_fill(hides, self.unknown), offsets=texts.offsets, segments=texts.segments)


class RecurrentTokenEncoder(nn.Module):
    """The vectors of the tokens of packed texts, read by a recurrent network in both directions.

    Args:
        num_tokens: size of the vocabulary.
        text: which network reads.
        settings: its sizes: num_layers, model_dim, dropout.
    """

    def __init__(self, num_tokens: int, text: TextSettings, settings: TransformerSettings):
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, settings.model_dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(settings.dropout)
        self.sequence = RecurrentEncoder(
            settings.model_dim,
            settings.model_dim,
            cell=text.encoder,  # type: ignore[arg-type]
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )

    def forward(self, batch: TextBatch, trace: Trace | None = None) -> Float[Tensor, " token model_dim"]:
        """The vector of every token of a batch."""
        assert batch.offsets is not None
        lengths, places = batch.offsets.diff(), batch.places
        text_of_token = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        nodes = self.dropout(self.embedding(batch.tokens))
        table = nodes.new_zeros(len(lengths), int(lengths.max()), nodes.shape[-1])
        table = table.index_put((text_of_token, places), nodes)
        return self.sequence(table, lengths)[text_of_token, places]
