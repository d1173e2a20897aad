"""Rows of texts as tokens, and counts of their words beside a network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from edgewise.choices import TokenKind
from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.companions import WORD_COUNTS
from edgewise.learn.companions.word_counts import WordCounts
from edgewise.learn.fitted_table import ROWS_PER_BATCH, FittedTable
from edgewise.learn.networks.text import TextModel
from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.texts.data import TextData
from edgewise.learn.readers.texts.tokenizer import ALL_UNKNOWN, RowTokens, Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.companions import CompanionKind, FittingRows, Fresh
from edgewise.learn.tasks.tokens import TOKENIZER
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT


@dataclass(frozen=True)
class TextEncoder:
    """What the training texts fixed: their vocabulary, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the networks have vectors for: those of the tokenizer, and any unused ones after them."""
    text: TextSettings
    """The encoder of a text, and how its token vectors become one."""
    settings: TransformerSettings
    """The architecture of the encoder."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Initial weights of every member's encoder."""

    rows_per_batch: ClassVar[int] = ROWS_PER_BATCH

    def new_network(self, output: Targets) -> TextModel:
        """A network with its initial weights."""
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, output.num_outputs, self.text, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the networks read them, with the places they came from."""
        return self.tokenizer.row_of(texts, self.settings.context)

    def batches(self, data: TextData, scale: TargetScaler | None) -> RowBatches:
        """The rows of a table as the networks take them; one that cannot be used is without tokens."""
        tokens = data.tokens(self.tokenizer, self.settings.context)

        def batch(rows: np.ndarray) -> TextRowBatch:
            return TextRowBatch(*map(torch.from_numpy, tokens.packed(rows)))

        return RowBatches.of(data.rows, scale, batch)

    def num_cut(self, data: TextData) -> int:
        """How many texts are longer than the networks read."""
        return data.tokens(self.tokenizer, self.settings.context).num_cut

    def statuses(self, data: TextData) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        tokens = data.tokens(self.tokenizer, self.settings.context)
        is_unknown = (tokens.num_of_texts > 0) & (tokens.num_unknown == tokens.num_of_texts)
        rows = zip(data.rows.status, is_unknown.tolist(), strict=True)
        return [ALL_UNKNOWN if all_unknown and status == OK else status for status, all_unknown in rows]

    def check(self, output: Targets) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


def count_words(fitted: FittedTable[TextEncoder], data: TextData, fitting: FittingRows) -> Fresh:
    """Counts of the words of some rows."""
    encoder, output = fitted.encoder, fitted.output
    names = [encoder.tokenizer.inner.id_to_token(number) or "" for number in range(encoder.num_tokens)]

    def counted(rows: np.ndarray) -> WordCounts:
        rows = rows[data.rows.weights[rows] > 0]
        texts = data.tokens(encoder.tokenizer, encoder.settings.context).of(rows)
        targets = data.rows.targets[rows] if output.scale is None else output.scale.transform(data.rows.targets[rows])
        values, weights = (torch.from_numpy(array.astype(np.float32)) for array in (targets, data.rows.weights[rows]))
        with cpu_threads(fitted.threads):
            return WordCounts.fit(names, texts, values, weights, fitting.loss)

    return Fresh(counted(fitting.rows), lambda: counted(np.union1d(fitting.rows, fitting.validation)))


def empty_counts(encoder: TextEncoder, tensors: Mapping[str, Tensor], output: Targets) -> WordCounts:
    """Counts of the sizes that their saved tensors have."""
    return WordCounts.from_tensors(tensors, encoder.num_tokens, output.num_outputs)


COUNTS_OF_WORDS = CompanionKind(
    name=WORD_COUNTS,
    fit=count_words,
    empty=empty_counts,
    explained="of a prediction comes from a linear model over counts of words, their stems and pairs. Where a token "
    "is removed, the pairs around it are, too; gradients see what each token adds; attention is the network's.",
    encoder_type=TextEncoder,
)
