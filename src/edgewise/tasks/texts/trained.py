"""A trained ensemble over texts, with all it needs to read a new table: vocabulary, scale, sizes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.data.columns import Columns
from edgewise.data.scale import TargetScaler
from edgewise.data.tables.cell import OK
from edgewise.data.texts.table import TextTable
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.models.text import TextModel
from edgewise.models.text_settings import TextSettings, TransformerSettings
from edgewise.records import TextRows
from edgewise.tasks.checkpoint import read_tokenizer
from edgewise.tasks.texts.tokens import RowTokens, status_of
from edgewise.tasks.trained import TrainedTable
from edgewise.train.folder import RunFolder

FORMAT, FORMAT_VERSION = "edgewise text model", 1


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
        lengths = [len(self.tokens[row]) for row in rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens, segments = (
            torch.from_numpy(np.concatenate([parts[row] for row in rows])) for parts in (self.tokens, self.segments)
        )
        return TextRows(tokens, torch.from_numpy(offsets), segments)

    def training_batch(self, rows: np.ndarray) -> TextRows:
        """Rows to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        return replace(self.batch(rows), targets=targets, weights=weights)


@dataclass(frozen=True)
class TextDocument:
    """What model.json says of a model of texts, beside its format."""

    columns: Columns
    classes: dict[str, tuple[str | int | float | bool, ...]]
    tokens: TokenKind
    num_tokens: int
    text: TextSettings
    settings: TransformerSettings
    scale: TargetScaler | None
    ensemble_size: int
    coverage: float


@dataclass(kw_only=True)
class TrainedTexts(TrainedTable):
    """A trained ensemble; `save` and `load` keep it in a run folder without pickle."""

    tokenizer: Tokenizer
    """From text to tokens."""
    num_tokens: int
    """Tokens that the models have vectors for: those of the tokenizer, and any that stand unused behind them."""
    text: TextSettings
    """What reads, and how one vector is made of all."""
    settings: TransformerSettings
    """The sizes of what reads."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    start: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Weights that every member's encoder begins with; not saved."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    def new_member(self) -> TextModel:
        """A model before its first step, drawn from torch's generator."""
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, self.num_outputs, self.text, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the models read them, with the places they came from."""
        return RowTokens.of(self.tokenizer, texts, self.settings.context)

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
        """The status of each row; see `status_of`."""
        rows = zip(table.status, table.texts, strict=True)
        return [status_of(self.tokenizer, texts) if status == OK else status for status, texts in rows]

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        self.save_tensors(folder)
        folder.write("tokenizer.json", self.tokenizer.to_json().encode())
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "columns": dataclasses.asdict(self.columns),
            "classes": {name: list(names) for name, names in self.classes.items()},
            "tokens": self.tokenizer.kind,
            "num_tokens": self.num_tokens,
            "text": dataclasses.asdict(self.text),
            "settings": dataclasses.asdict(self.settings),
            "scale": None if self.scale is None else self.scale.to_json(),
            "ensemble_size": len(self.members),
            "coverage": self.coverage,
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, TextDocument)
        parts = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        ensemble_size, tokens = parts.pop("ensemble_size"), parts.pop("tokens")
        tokenizer = read_tokenizer(folder, tokens, read.num_tokens)
        trained = cls(members=[], errors=np.zeros((0, 0)), tokenizer=tokenizer, **parts)
        trained.take_tensors(folder, ensemble_size)
        return trained


def untrained_texts(
    table: TextTable,
    rows: np.ndarray,
    tokenizer: Tokenizer,
    text: TextSettings,
    settings: TransformerSettings,
    coverage: float,
) -> TrainedTexts:
    """All that is known before the first step; the scale of the targets is learned on `rows`."""
    is_number = table.columns.task_type == "regression"
    return TrainedTexts(
        columns=table.columns,
        classes={} if is_number else dict(table.classes),
        members=[],
        errors=np.zeros((0, len(table.columns.target_columns))),
        coverage=coverage,
        tokenizer=tokenizer,
        num_tokens=len(tokenizer),
        text=text,
        settings=settings,
        scale=TargetScaler.fit(table.targets, rows) if is_number else None,
    )


def renamed_texts(columns: Columns, texts: Any) -> Columns:
    """The columns of a file to be predicted: no targets, and other names of texts where they are given."""
    return replace(
        columns,
        text_columns=tuple(texts or columns.text_columns),
        target_columns=(),
        ignore_columns=(),
        weight_column=None,
        splits_column=None,
        group_column=None,
    )
