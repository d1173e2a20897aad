"""Networks that predict texts: encode the tokens, pool them by attention, predict."""

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Trace
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import Linear
from edgewise.layers.readout import Readout
from edgewise.learn.batches.tokens import TextRowBatch, TokenBatch
from edgewise.learn.networks.encoder import drop_words, encoder_of
from edgewise.learn.networks.text_settings import ReaderSettings, TextSettings, TransformerSettings


class TextModel(nn.Module):
    """A vector of each text, and the outputs for its targets.

        x = encode(E[token]);  h = Σ_i softmax_i(q · k_i / √d) v_i over the tokens of a text;  y = W h

    Args:
        num_tokens: size of the vocabulary.
        unknown: the token that replaces dropped words in training; None drops none.
        num_outputs: outputs for each text.
        text: which encoder, and how its outputs are pooled.
        settings: the sizes of the encoder.

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
        self.dropout = Dropout(text.head_dropout)
        self.output = Linear(settings.model_dim, num_outputs)

    def forward(
        self,
        batch: TextRowBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token input"] | None = None,
        readout_trace: Trace | None = None,
    ) -> Float[Tensor, " row output"]:
        """The outputs for each row, in model units (or logits).

        Args:
            batch: the rows.
            trace: where weights are recorded.
            vectors: vectors of the tokens in place of those of `inputs`, for gradients.
            readout_trace: where the weights of the readout are recorded; `trace` by default. A trace may keep only the
                strongest weights, and those of the readout are few enough to keep all.
        """
        vectors = self.inputs(batch) if vectors is None else vectors
        row_vectors = self._pooled(batch, trace, vectors, readout_trace or trace)
        return self.output(self.dropout(row_vectors))

    def fingerprint(self, batch: TextRowBatch, trace: Trace | None = None) -> Float[Tensor, " row model_dim"]:
        """One pooled vector for each text."""
        return self._pooled(batch, trace, self.inputs(batch), trace)

    def inputs(self, batch: TextRowBatch) -> Float[Tensor, " token input"]:
        """The learned vectors of the tokens, some of them replaced by `unknown` in training."""
        texts = drop_words(batch.texts, self.unknown, self.word_dropout) if self.training else batch.texts
        vectors: Tensor = self.encoder.embedding(texts.tokens)
        return vectors

    def _pooled(self, batch: TextRowBatch, trace: Trace | None, vectors: Tensor, readout_trace: Trace | None) -> Tensor:
        nodes = self.encoder(batch.texts, trace, vectors=vectors)
        return self.norm(self.readout(nodes, batch.offsets, trace=readout_trace))


class TagModel(nn.Module):
    """The score of each tag for each token.

        x = encode(tokens);  y_i = W dropout(x_i) + b

    Args:
        num_tokens: size of the vocabulary.
        unknown: the token that replaces dropped words in training; None drops none.
        num_tags: how many tags there are.
        reader: which encoder, and its dropout.
        settings: the sizes of the encoder.

    Source: Huang et al. 2015 with an LSTM; Devlin et al. 2019, section 5.3, with a transformer and the first piece of
    each word. Each tag is predicted independently of its neighbors' (without a CRF).
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
        self.dropout = Dropout(reader.head_dropout)
        self.output = Linear(settings.model_dim, num_tags)

    def forward(
        self,
        batch: TokenBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " token tag"]:
        """The scores of the tags at every token of packed sentences, before softmax. `vectors` replace the learned
        vectors of the tokens, for gradients."""
        texts = drop_words(batch, self.unknown, self.reader.word_dropout) if self.training else batch
        return self.output(self.dropout(self.encoder(texts, trace, vectors=vectors)))
