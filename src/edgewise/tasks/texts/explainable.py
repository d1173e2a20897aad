"""Rows of texts, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.data.texts.table import texts_from_arrays
from edgewise.errors import DataError
from edgewise.explain.explainable import Attended, Attention, Differentiable
from edgewise.explain.heads import to_layer
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Explanation, Part, TargetPrediction
from edgewise.plural import plural
from edgewise.records import TextRows
from edgewise.tasks.explainable import ExplainableTable
from edgewise.tasks.explained import Explained
from edgewise.tasks.targets import target_predictions
from edgewise.tasks.texts.tokens import RowTokens, status_of
from edgewise.tasks.texts.trained import TrainedTexts
from edgewise.tasks.token_explainable import (
    Kept,
    TokenExplainable,
    nothing_of,
    shortened,
    units_of,
    unknown_notes,
)
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads


def explain_text(
    trained: TrainedTexts,
    texts: str | Sequence[str],
    *,
    target: str | None = None,
    label: Any = None,
    top: int | None = None,
    methods: Choice = None,
) -> Explanation:
    """The prediction for a row of texts, where the model attends, and what changes the prediction.

    Weights are those of the computation that made the prediction; of an ensemble they are its first member's, and all
    other numbers are means over the members. Memory stays linear in the length of a text of more than 1,024 tokens.

    Args:
        trained: the ensemble.
        texts: one for each text column; a string where there is one.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of texts of up to 256
            tokens, else 8.
        methods: names of methods; see `edgewise.explain.methods`.

    Raises:
        DataError: a text is empty, or there are more or fewer than the model reads.
        SettingError: there is no such target, class or method, or `top` is below 1.

    Cost: a prediction for every token of a text of up to 512 tokens; of longer ones groups are removed, so that it
        grows with their length no faster than a few dozen predictions do.
    """
    with cpu_threads(trained.threads):
        return explain(
            TextItem(trained, (texts,) if isinstance(texts, str) else tuple(texts), target, label, top), methods
        )


class TextItem(TokenExplainable):
    """One row of texts; arguments as in `explain_text`."""

    about = "The prediction less the prediction without the token. Tokens that stand for no text always stay, with 0."

    def __init__(self, trained: TrainedTexts, texts: tuple[str, ...], target: str | None, label: Any, top: int | None):
        self.trained, self.texts, self.names = trained, texts, trained.columns.text_columns
        if len(texts) != len(self.names):
            raise DataError(
                f"{plural(len(texts), 'text was', 'texts were')} given, but the model reads "
                f"{len(self.names)}: {', '.join(self.names)}."
            )
        row = self.row = trained.row_tokens(texts)
        super().__init__(row.is_special, top)
        if not texts_from_arrays(np.array([texts], dtype=object)).usable[0]:
            raise DataError(f"{self.names[0]}: the text is empty.")
        self.batch, self.nothing = text_rows(row, [np.ones(len(row), dtype=bool)], 0), nothing_of(trained.tokenizer)
        self.traces = [(self.new_trace(), Trace()) for _ in trained.members]
        self.explained = Explained.of(trained, self._recorded, target, label)

    def _recorded(self, place: int, member: Any) -> Tensor:
        layers, readout = self.traces[place]
        return member(self.batch, layers, readout_trace=readout)

    def predict_kept(self, kept: Sequence[Kept]) -> np.ndarray:
        """The number where some tokens are left."""
        return self.explained.of_batch(text_rows(self.row, kept, self.nothing))

    def trace(self) -> Attention:
        """The readout attends to tokens, and in a transformer tokens to each other."""
        members, even = [], torch.full((len(self.row),), 1 / len(self.row), dtype=torch.float64)
        for layers, readout in self.traces:
            direct = readout.weights[0].to_dense().mean(0)[0].double() if readout.weights else None
            top = even if direct is None else direct
            members.append(Attended(direct, top, layers.weights if self.is_followed else ()))
        first, readout = self.traces[0]
        return Attention(
            [*self.layers_of(first), *(to_layer(weights, "readout", is_readout=True) for weights in readout.weights)],
            members,
            "Where the readout, which makes one vector of the text, attends: its weights, mean over heads.",
            "Attention through all layers: how much of each token can reach the readout.",
        )

    def differentiable(self) -> list[Differentiable]:
        """By the vectors of the tokens."""
        found = []
        for member in self.trained.members:
            given = member.encoder.embedding(self.batch.tokens).detach()
            # A token that is hidden in training carries no information; those that stand for no text never do.
            nothing, name = torch.zeros_like(given[:1]), "zeros"
            if member.unknown is not None:
                nothing, name = member.encoder.embedding.weight[member.unknown].detach()[None], "that of a hidden token"
            baseline = torch.where(torch.from_numpy(self.fixed)[:, None], given, nothing)
            found.append(Differentiable(partial(self._of_vectors, member), given, baseline, None, ("the vector", name)))
        return found

    def _of_vectors(self, member: Any, vectors: Tensor) -> Tensor:
        return self.explained.of_scores(member(self.batch, vectors=vectors)).squeeze(0)

    def parts(self) -> list[Part]:
        """Sentences and columns, where there are several."""
        found, _ = self.sentences(self.texts, self.row)
        if len(self.names) > 1:
            for place, name in enumerate(self.names):
                units = np.flatnonzero((self.row.columns == place) & ~self.fixed)
                if len(units):
                    found.append(Part(name, "column", tuple(units.tolist()), np.nan))
        return found

    def describe(self) -> dict[str, Any]:
        """The texts and their tokens."""
        row, sources = self.row, dict(zip(self.names, self.texts, strict=True))
        columns = [self.names[column] for column in row.columns]
        places = list(zip(columns, row.starts.tolist(), row.stops.tolist(), strict=True))
        notes = []
        if row.num_cut:
            notes.append(
                f"The text has {plural(len(row) + row.num_cut, 'token')}; the model reads the first {len(row):,}, and "
                "only they are explained."
            )
        notes += [*unknown_notes(self.trained.tokenizer, row.numbers), *self.weight_notes()]
        notes += [*self.sentences(self.texts, row)[1], *self.group_notes(), *self.explained.member_notes]
        return {
            "kind": "text",
            "title": shortened(" ".join(self.texts)),
            "sources": sources,
            "told": self.explained.predictions,
            "explained": self.explained.name,
            "units": units_of(self.trained.tokenizer, row.numbers, places, sources),
            "notes": tuple(notes),
        }


def text_rows(row: RowTokens, kept: Sequence[Kept], nothing: int) -> TextRows:
    """A batch of one row several times, with some of its tokens each; `nothing` where none is left."""
    tokens, columns = [], []
    for stays in kept:
        tokens.append(row.numbers[stays] if stays.any() else np.array([nothing]))
        columns.append(row.columns[stays] if stays.any() else np.zeros(1, dtype=np.int64))
    offsets = np.cumsum([0, *(len(each) for each in tokens)])
    return TextRows(*(torch.from_numpy(each) for each in (np.concatenate(tokens), offsets, np.concatenate(columns))))


class ExplainableTexts(ExplainableTable):
    """Rows of texts."""

    trained_type = TrainedTexts
    kind = "text"
    over = "texts"

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of text."""
        return [(name, "text") for name in self.trained.columns.text_columns]

    @property
    def model_name(self) -> str:
        """The encoder."""
        return self.trained.text.encoder

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions for texts."""
        table = texts_from_arrays(np.array(rows, dtype=object).reshape(len(rows), -1))
        predictions = self.trained.predict(table)
        return [target_predictions(self.trained, predictions, row) for row in range(len(rows))]

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, texts) for texts in rows]

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """The texts of one row."""
        return explain_text(self.trained, row, target=target, label=label, top=top, methods=methods)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens beyond the model's context."""
        cut, context = self.trained.row_tokens(row).num_cut, self.trained.settings.context
        return f"{context + cut:,} tokens, of which the model reads {context:,}" if cut else ""
