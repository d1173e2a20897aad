"""From sentences to one tag a word: read the tokens, and tell the tag at the first token of each word."""

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.models.encoder import encoder_of, hidden
from edgewise.models.text_settings import ReaderSettings
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.records import TextBatch
from edgewise.trace import Trace


class TagModel(nn.Module):
    """How well each tag fits each token.

        x = encode(tokens);  y_i = W dropout(x_i) + b

    Args:
        num_tokens: size of the vocabulary.
        unknown: the token that hides others in training; None hides none.
        num_tags: how many tags there are.
        reader: what reads.
        settings: the sizes of what reads.

    Source: Huang et al. 2015 with an LSTM; Devlin et al. 2019, section 5.3, with a transformer and the first piece of
    each word. No tag knows its neighbors' (there is no CRF above).
    """

    def __init__(
        self,
        num_tokens: int,
        unknown: int | None,
        num_tags: int,
        reader: ReaderSettings,
        settings: TransformerSettings,
    ):
        super().__init__()
        self.unknown, self.reader, self.settings = unknown, reader, settings
        self.encoder = encoder_of(num_tokens, reader.encoder, settings)
        self.dropout = nn.Dropout(reader.head_dropout)
        self.output = nn.Linear(settings.model_dim, num_tags)

    def forward(
        self,
        batch: TextBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " token tag"]:
        """The scores of the tags at every token of packed sentences, before softmax; `vectors` are taken for the
        learned vectors of the tokens where they are given."""
        texts = hidden(batch, self.unknown, self.reader.word_dropout) if self.training else batch
        return self.output(self.dropout(self.encoder(texts, trace, vectors=vectors)))
