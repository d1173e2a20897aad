"""What reads texts: the vector of every token, made of all tokens of its text."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.layers.recurrent import CellName, RecurrentEncoder
from edgewise.models.text_settings import EncoderName, TransformerSettings
from edgewise.models.transformer import Stack, placed, placing, within_texts
from edgewise.neighborhood import Full, Neighborhood, Window
from edgewise.records import TextBatch
from edgewise.trace import Trace


class TokenEncoder(nn.Module):
    """The vectors of the tokens of texts, each token attending to all of its own text.

        x = E[token] (+ position) (+ segment);  x = norm(x) where the settings say so;  x = Stack(x)

    Source: Devlin et al. 2019 (BERT), whose choices are `CONFIGURATIONS["bert-base"]` and `"bert-large"`.
    """

    def __init__(self, num_tokens: int, settings: TransformerSettings):
        super().__init__()
        self.settings = settings
        model_dim = settings.model_dim
        self.embedding = nn.Embedding(num_tokens, model_dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.position = placing(settings)
        self.segment: nn.Embedding | None = None
        if settings.num_segments:
            self.segment = nn.Embedding(settings.num_segments, model_dim)
            nn.init.normal_(self.segment.weight, std=0.02)
        self.norm = nn.LayerNorm(model_dim, settings.norm_eps) if settings.norm_embeddings else nn.Identity()
        self.dropout = nn.Dropout(settings.dropout)
        self.stack = Stack(settings)

    @property
    def neighborhood(self) -> Neighborhood:
        """Whom each token attends to, in a text of its own."""
        window = self.settings.window
        return Full() if window is None else Window((window - 1) // 2, window // 2)

    def forward(
        self,
        batch: TextBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " *batch token model_dim"] | None = None,
    ) -> Float[Tensor, " *batch token model_dim"]:
        """The vector of every token of a batch; `vectors` are taken for E[token] where they are given."""
        neighborhood, positions = within_texts(self.neighborhood, batch)
        nodes = self.embedding(batch.tokens) if vectors is None else vectors
        nodes = placed(self.settings, self.position, nodes, positions)
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
        self.dropout = nn.Dropout(settings.dropout)
        self.sequence = RecurrentEncoder(
            settings.model_dim,
            settings.model_dim,
            cell=cell,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )

    def forward(
        self,
        batch: TextBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " token model_dim"]:
        """The vector of every token of a batch; `vectors` are taken for E[token] where they are given."""
        assert batch.offsets is not None
        lengths, places = batch.offsets.diff(), batch.places
        text_of_token = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        nodes = self.dropout(self.embedding(batch.tokens) if vectors is None else vectors)
        table = nodes.new_zeros(len(lengths), int(lengths.max()), nodes.shape[-1])
        table = table.index_put((text_of_token, places), nodes)
        return self.sequence(table, lengths)[text_of_token, places]


def encoder_of(
    num_tokens: int, name: EncoderName, settings: TransformerSettings
) -> TokenEncoder | RecurrentTokenEncoder:
    """What reads texts, by its name: a transformer or a recurrent network."""
    if name == "transformer":
        return TokenEncoder(num_tokens, settings)
    return RecurrentTokenEncoder(num_tokens, name, settings)


def hidden(texts: TextBatch, unknown: int | None, part: float) -> TextBatch:
    """The texts with a part of the tokens unknown, drawn anew at each call, as they are seen in training.

    Args:
        texts: what is read.
        unknown: the token that stands for what the vocabulary lacks; None hides nothing.
        part: how many of the tokens are hidden, about.
    """
    if unknown is None or not part:
        return texts
    hides = torch.rand(texts.tokens.shape, device=texts.tokens.device) < part
    return TextBatch(texts.tokens.masked_fill(hides, unknown), offsets=texts.offsets, segments=texts.segments)
