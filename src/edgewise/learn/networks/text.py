"""Networks that predict texts: encode the tokens, pool them by attention, predict."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph.records import TextBatch, TextRows
from edgewise.layers.dropout import Dropout
from edgewise.layers.linear import Linear
from edgewise.layers.readout import Readout
from edgewise.learn.networks.encoder import drop_words, encoder_of
from edgewise.learn.networks.text_settings import CountSizes, ReaderSettings, TextSettings, TransformerSettings
from edgewise.learn.networks.word_counts import KINDS, WordCounts
from edgewise.trace import Trace


class TextModel(nn.Module):
    """A vector of each text, and the outputs for its targets.

        x = encode(E[token]);  h = Σ_i softmax_i(q · k_i / √d) v_i over the tokens of a text;  y = W h

    With counts of words r (see `WordCounts`) there is a wide part beside the deep one, and the deep one reads r too:

        x = encode(E[token] + U r);  y = W h + Σ_i s · r_i / √n over the n tokens of a text

    Args:
        num_tokens: size of the vocabulary.
        unknown: the token that hides others in training; None hides none.
        num_outputs: outputs for each text.
        text: what reads and how it is summed up.
        settings: the sizes of what reads.
        counts: the sizes of the counts of words; None for a model without them.

    Source: the LSTM read out by attention is that of Lin et al. 2017 with one row of attention a head.
    """

    def __init__(
        self,
        num_tokens: int,
        unknown: int | None,
        num_outputs: int,
        text: TextSettings,
        settings: TransformerSettings,
        counts: CountSizes | None = None,
    ):
        super().__init__()
        self.unknown, self.word_dropout = unknown, text.word_dropout
        self.encoder = encoder_of(num_tokens, text.encoder, settings)
        self.readout = Readout(settings.model_dim, text.readout, settings.num_heads)
        self.norm = nn.LayerNorm(settings.model_dim)
        self.dropout = Dropout(text.head_dropout)
        self.output = Linear(settings.model_dim, num_outputs)
        self.counts = None if counts is None else WordCounts(num_tokens, counts)

        if self.counts is not None:
            self.read_counts = Linear(self.counts.num_columns, settings.model_dim, bias=False)
            nn.init.normal_(self.read_counts.weight, std=0.02)
            self.count_weight = nn.Parameter(torch.ones(KINDS))

    def forward(
        self,
        batch: TextRows,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token input"] | None = None,
        readout_trace: Trace | None = None,
    ) -> Float[Tensor, " row output"]:
        """The outputs for each row, in model units (or logits).

        Args:
            batch: the rows.
            trace: where weights are recorded.
            vectors: replace those of `inputs`, for gradients.
            readout_trace: where the weights of the readout are recorded, where that is not `trace`: they are few, and
                may be wanted whole where of the others only the strongest are.
        """
        vectors = self.inputs(batch) if vectors is None else vectors
        deep = self.output(self.dropout(self._summed(batch, trace, vectors, readout_trace or trace)))
        if self.counts is None:
            return deep
        lengths = batch.offsets.diff()
        ratios = vectors[:, -self.counts.num_columns :].unflatten(1, (KINDS, -1))
        log_odds = torch.einsum("tko,k->to", ratios, self.count_weight)
        rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=len(log_odds))
        wide_outputs = deep.new_zeros(deep.shape).index_add(0, rows, log_odds.to(deep.dtype))

        return deep + wide_outputs / lengths.clamp(min=1).sqrt().unsqueeze(1)

    def fingerprint(self, batch: TextRows, trace: Trace | None = None) -> Float[Tensor, " row model_dim"]:
        """One vector that sums up each text."""
        return self._summed(batch, trace, self.inputs(batch), trace)

    def inputs(self, batch: TextRows) -> Float[Tensor, " token input"]:
        """The learned vectors of the tokens, some of them hidden in training, and behind them what counts say."""
        texts = drop_words(batch.texts, self.unknown, self.word_dropout) if self.training else batch.texts
        vectors: Tensor = self.encoder.embedding(texts.tokens)
        if self.counts is None:
            return vectors
        ratios = self.counts(batch.tokens, batch.offsets, batch.targets if self.training else None)
        return torch.cat([vectors, ratios.flatten(1).to(vectors.dtype)], 1)

    def _summed(self, batch: TextRows, trace: Trace | None, vectors: Tensor, readout_trace: Trace | None) -> Tensor:
        if self.counts is not None:
            vectors, ratios = vectors.split([vectors.shape[1] - self.counts.num_columns, self.counts.num_columns], 1)
            vectors = vectors + self.read_counts(ratios)
        nodes = self.encoder(batch.texts, trace, vectors=vectors)
        return self.norm(self.readout(nodes, batch.offsets, trace=readout_trace))


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
        batch: TextBatch,
        trace: Trace | None = None,
        *,
        vectors: Float[Tensor, " token model_dim"] | None = None,
    ) -> Float[Tensor, " token tag"]:
        """The scores of the tags at every token of packed sentences, before softmax; `vectors` are taken for the
        learned vectors of the tokens where they are given."""
        texts = drop_words(batch, self.unknown, self.reader.word_dropout) if self.training else batch
        return self.output(self.dropout(self.encoder(texts, trace, vectors=vectors)))
