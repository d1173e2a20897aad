"""From texts to classes or numbers: read the tokens, sum them up into one vector by attention, predict."""

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.layers.readout import Readout
from edgewise.models.encoder import encoder_of, hidden
from edgewise.models.text_settings import TextSettings
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.records import TextRows
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
        self.encoder = encoder_of(num_tokens, text.encoder, settings)
        self.readout = Readout(settings.model_dim, text.readout, settings.num_heads)
        self.norm = nn.LayerNorm(settings.model_dim)
        self.dropout = nn.Dropout(text.head_dropout)
        self.output = nn.Linear(settings.model_dim, num_outputs)

    def forward(self, batch: TextRows, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """What the model says of each row, in model units (or logits)."""
        return self.output(self.dropout(self.fingerprint(batch, trace)))

    def fingerprint(self, batch: TextRows, trace: Trace | None = None) -> Float[Tensor, " row model_dim"]:
        """One vector that sums up each text."""
        texts = hidden(batch.texts, self.unknown, self.word_dropout) if self.training else batch.texts
        nodes = self.encoder(texts, trace)
        return self.norm(self.readout(nodes, batch.offsets, trace=trace))
