"""Rows of texts: what is predicted of them, and what the prediction depends on.

Weights are those of the computation that made the prediction; of an ensemble they are its first member's, and all other
numbers are means over the members. Memory stays linear in the length of a text of more than 1,024 tokens; a text of up
to 512 tokens costs a prediction for every token, of longer ones groups are removed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.explain.explainable import Attended, Attention, Differentiable
from edgewise.explain.explanation import Part, TargetPrediction
from edgewise.explain.heads import to_layer
from edgewise.formatting import plural
from edgewise.graph.records import TextRows
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.texts.table import texts_from_arrays
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableTable
from edgewise.learn.tasks.explained import Explained, target_predictions
from edgewise.learn.tasks.texts.task import TextsEncoder, load
from edgewise.learn.tasks.token_explainable import Left, TokenExplainable, nothing_of
from edgewise.trace import Trace


class TextItem(TokenExplainable):
    """One row of texts.

    Raises:
        DataError: a text is empty, or there are more or fewer than the model reads.
        SettingError: there is no such target or class, or `top` is below 1.
    """

    about = "The prediction less the prediction without the token. Tokens that stand for no text always stay, with 0."

    def __init__(
        self,
        trained: FittedTable[TextsEncoder],
        texts: tuple[str, ...],
        target: str | None,
        label: Any,
        top: int | None,
    ):
        names = trained.columns.text_columns
        if len(texts) != len(names):
            raise DataError(
                f"{plural(len(texts), 'text was', 'texts were')} given, but the model reads "
                f"{len(names)}: {', '.join(names)}."
            )
        tokenizer = trained.encoder.tokenizer
        super().__init__(
            trained, tokenizer, dict(zip(names, texts, strict=True)), trained.encoder.row_tokens(texts), top
        )
        if not texts_from_arrays(np.array([texts], dtype=object)).usable[0]:
            raise DataError(f"{names[0]}: the text is empty.")
        self.nothing = nothing_of(trained.encoder.tokenizer)
        self.batch = text_rows(self.row, [np.ones(len(self.row), dtype=bool)], self.nothing)
        self.traces = [(self.new_trace(), Trace()) for _ in trained.members]
        self.number = Explained.of(trained, self._recorded, target, label)
        self.predictions, self.explained = self.number.predictions, self.number.name

    @property
    def scale(self) -> float:
        return self.number.scale

    def _recorded(self, place: int, member: Any) -> Tensor:
        layers, readout = self.traces[place]
        return member(self.batch, layers, readout_trace=readout)

    def predict_left(self, left: Sequence[Left]) -> np.ndarray:
        return self.number.of_batch(text_rows(self.row, left, self.nothing))

    def trace(self) -> Attention:
        """The readout attends to tokens, and in a transformer tokens to each other."""
        members, even = [], torch.full((len(self.row),), 1 / len(self.row), dtype=torch.float64)
        for layers, readout in self.traces:
            direct = readout.weights[0].to_dense().mean(0)[0].double() if readout.weights else None
            top = even if direct is None else direct
            members.append(Attended(direct, top, layers.weights if self.is_followed else ()))
        first, readout = self.traces[0]
        return Attention(
            [
                *self.layers_of(first.weights),
                *(to_layer(weights, "readout", is_readout=True) for weights in readout.weights),
            ],
            members,
            "Where the readout, which makes one vector of the text, attends: its weights, mean over heads.",
            "Attention through all layers: how much of each token can reach the readout.",
        )

    def differentiable(self) -> list[Differentiable]:
        found = []
        for member in self.trained.members:
            # A token that is hidden in training carries no information; those that stand for no text never do.
            name = "zeros" if member.unknown is None else "that of a hidden token"

            def function(vectors: Tensor, member: Any = member) -> Tensor:
                whole = [np.ones(len(self.row), dtype=bool)] * len(vectors)
                batch = text_rows(self.row, whole, self.nothing)
                return self.number.of_scores(member(batch, vectors=vectors.flatten(0, 1)))

            vectors = member.inputs(self.batch).detach()
            learned = self.by_vectors(member.encoder.embedding, member.unknown, name, function)
            assert learned.baseline is not None
            beside = vectors.new_zeros(len(vectors), vectors.shape[1] - learned.baseline.shape[1])  # counts say nothing
            each = replace(learned, features=vectors, baseline=torch.cat([learned.baseline, beside], 1))
            assert each.baseline is not None
            baseline = torch.where(torch.from_numpy(self.fixed)[:, None], each.features, each.baseline)
            found.append(replace(each, baseline=baseline))
        return found

    def parts(self) -> list[Part]:
        """Sentences and columns, where there are several."""
        found = super().parts()
        for place, name in enumerate(self.texts if len(self.texts) > 1 else ()):
            units = np.flatnonzero((self.row.columns == place) & ~self.fixed)
            if len(units):
                found.append(Part(name, "column", tuple(units.tolist()), np.nan))
        return found

    def notes(self) -> list[str]:
        return [*super().notes(), *self.number.member_notes]


def text_rows(row: RowTokens, left: Sequence[Left], nothing: int) -> TextRows:
    """A batch of one row several times, with some of its tokens each; `nothing` where none is left."""
    tokens = [row.numbers[stays] if stays.any() else np.array([nothing]) for stays in left]
    columns = [row.columns[stays] if stays.any() else np.zeros(1, dtype=np.int64) for stays in left]
    return TextRows.packed(tokens, columns)


class ExplainableTexts(ExplainableTable):
    """Rows of texts."""

    load_trained = staticmethod(load)
    kind = "text"
    over = "texts"

    @classmethod
    def row(cls, item: Any) -> tuple[Any, ...]:
        return (item,) if isinstance(item, str) else tuple(item)

    @property
    def fields(self) -> list[tuple[str, str]]:
        return [(name, "text") for name in self.trained.columns.text_columns]

    @property
    def model_name(self) -> str:
        return self.trained.encoder.text.encoder

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        table = texts_from_arrays(np.array(rows, dtype=object).reshape(len(rows), -1))
        predictions = self.trained.predict(table)
        return [target_predictions(self.trained, predictions, row) for row in range(len(rows))]

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        return [self.trained.encoder.tokenizer.status_of(texts) for texts in rows]

    def item(self, row: tuple[Any, ...], target: Any, label: Any, top: int | None) -> TextItem:
        return TextItem(self.trained, row, target, label, top)

    def unread(self, row: tuple[Any, ...]) -> str:
        cut, context = self.trained.encoder.row_tokens(row).num_cut, self.trained.encoder.settings.context
        return f"{context + cut:,} tokens, of which the model reads {context:,}" if cut else ""


EXPLAINABLE = ExplainableTexts
