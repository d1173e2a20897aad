"""Rows of texts, as an `Explainer` asks about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.texts.table import texts_from_arrays
from edgewise.explanation import Explanation, Told
from edgewise.tasks.explainable import TableSubject
from edgewise.tasks.targets import told_of
from edgewise.tasks.texts.explain import explain_text
from edgewise.tasks.texts.tokens import status_of
from edgewise.tasks.texts.trained import TrainedTexts
from edgewise.train.folder import RunFolder


@dataclass(frozen=True, eq=False)
class TextSubject(TableSubject):
    """Rows of texts."""

    trained: TrainedTexts
    """The ensemble."""
    kind = "text"
    over = "texts"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedTexts.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of text."""
        return [(name, "text") for name in self.trained.columns.text_columns]

    @property
    def model_name(self) -> str:
        """What reads."""
        return self.trained.text.encoder

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of texts."""
        table = texts_from_arrays(np.array(rows, dtype=object).reshape(len(rows), -1))
        predictions = self.trained.predict(table)
        return [told_of(self.trained, predictions, row) for row in range(len(rows))]

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, texts) for texts in rows]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """The texts of one row."""
        return explain_text(self.trained, row, target=target, label=label, top=top)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens beyond the model's context."""
        cut, context = self.trained.row_tokens(row).num_cut, self.trained.settings.context
        return f"{context + cut:,} tokens, of which the model reads {context:,}" if cut else ""
