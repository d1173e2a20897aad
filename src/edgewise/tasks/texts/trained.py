"""A trained ensemble over texts, with all it needs to read a new table: vocabulary, scale, sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.data.scale import TargetScaler
from edgewise.data.tables.cell import OK
from edgewise.data.texts.table import TextTable
from edgewise.data.texts.tokenizer import RowTokens, Tokenizer
from edgewise.models.text import TextModel
from edgewise.models.text_settings import TextSettings, TransformerSettings
from edgewise.records import TextRows
from edgewise.tasks.fitted import load_tokenizer, save_tokenizer
from edgewise.tasks.trained import TrainedTable
from edgewise.train.document import TRANSIENT
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class TextBatches:
    """A table of texts in the units of a model: makes batches of its rows."""

    tokens: list[np.ndarray]
    """Tokens of each row, those of several columns behind each other; none where the row cannot be used."""
    segments: list[np.ndarray]
    """The text column that each token stands in."""
    targets: np.ndarray
    """(row, target), scaled, float32; class numbers for classes."""
    weights: np.ndarray
    """(row), float32."""
    cut: int
    """Rows that were longer than the model reads."""

    def batch(self, rows: np.ndarray) -> TextRows:
        """Rows to predict."""
        return TextRows.packed([self.tokens[row] for row in rows], [self.segments[row] for row in rows])

    def training_batch(self, rows: np.ndarray) -> TextRows:
        """Rows to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        return replace(self.batch(rows), targets=targets, weights=weights)


@dataclass(kw_only=True)
class TrainedTexts(TrainedTable):
    """A trained ensemble over texts."""

    FORMAT = "edgewise text model"

    tokenizer: Tokenizer = field(metadata=TRANSIENT)
    """From text to tokens."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the models have vectors for: those of the tokenizer, and any that stand unused behind them."""
    text: TextSettings
    """What reads, and how one vector is made of all."""
    settings: TransformerSettings
    """The sizes of what reads."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Weights that every member's encoder begins with."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    def new_member(self) -> TextModel:
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, self.num_outputs, self.text, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the models read them, with the places they came from."""
        return self.tokenizer.row_of(texts, self.settings.context)

    def batches(self, table: TextTable) -> TextBatches:
        """The rows of a table as the models take them."""
        targets = table.targets
        if self.scale is not None and targets.shape[1]:
            targets = self.scale.transform(targets)
        tokens, segments, cut = [], [], 0
        for texts, is_usable in zip(table.texts, table.usable, strict=True):
            row = self.row_tokens(texts if is_usable else [""] * len(texts))
            cut += row.num_cut > 0
            tokens.append(row.numbers)
            segments.append(row.columns)
        return TextBatches(tokens, segments, targets.astype(np.float32), table.weights.astype(np.float32), cut)

    def statuses(self, table: TextTable) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        rows = zip(table.status, table.texts, strict=True)
        return [self.tokenizer.status_of(texts) if status == OK else status for status, texts in rows]

    def save_parts(self, folder: RunFolder) -> dict[str, torch.Tensor]:
        """Writes tokenizer.json."""
        save_tokenizer(folder, self.tokenizer)
        return super().save_parts(folder)

    @classmethod
    def load_parts(
        cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, torch.Tensor]
    ) -> dict[str, Any]:
        """The errors, and the vocabulary in tokenizer.json."""
        tokenizer = load_tokenizer(folder, values["tokens"], values["num_tokens"])
        return {**super().load_parts(folder, values, tensors), "tokenizer": tokenizer}
