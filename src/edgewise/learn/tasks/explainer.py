"""`Explainer`: a run of texts, molecules, graphs, their nodes, edges or links, which predicts and explains rows."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from edgewise.errors import DataError, UnsupportedError, refuse_half_characters
from edgewise.explain.explanation import Explanation, Kind, TargetPrediction
from edgewise.explain.methods import Choice
from edgewise.learn.files import JsonObject
from edgewise.learn.tables.cell import is_missing, read_feature
from edgewise.learn.tables.magnitude import LARGEST
from edgewise.learn.tasks.explainable import ExplainableModel, Row
from edgewise.learn.tasks.registry import explainable_of, task_of
from edgewise.learn.training.device import usual_tensors
from edgewise.learn.training.document import read_part
from edgewise.learn.training.folder import RunFolder
from edgewise.view.notebook import register


def num_training_rows(run: RunFolder) -> int:
    """How many rows were trained on, by splits.json."""
    path = run.path / "splits.json"
    return len(read_part(dict[str, list[int]], run.read_json(path.name), "", path).get("train", ()))


class Explainer:
    """The model of a run folder, which takes rows as plain values by the names of their columns.

    explainer = Explainer.open("run")
    explainer.explain({"text": "a film to remember"}).predictions

    It computes in float32 on the CPU, whatever default, autocast or inference mode is set in torch.
    """

    def __init__(self, model: ExplainableModel, num_training_rows: int | None = None):
        self._model, self._num_training_rows = model, num_training_rows

    @classmethod
    @usual_tensors()
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        max_atoms: int | None = None,
        molecule_timeout: float | None = None,
    ) -> Self:
        """The model of a run folder.

        Args:
            folder: where the run lies.
            max_atoms: the most atoms of a molecule; as in training where None.
            molecule_timeout: seconds for the features of one molecule; the same.

        Raises:
            RunFolderError: the run is not finished or damaged, or the graph that it learned from is gone.
            UnsupportedError: it holds a model of another kind.
        """
        register()  # a notebook then shows what is explained as pages
        run = RunFolder.finished(folder)
        explainable = explainable_of(task_of(run))
        if explainable is None:
            raise UnsupportedError(f"{folder} holds an {run.read_format()}, which cannot be explained.")
        has_splits = (run.path / "splits.json").is_file()
        model = explainable.read(run)
        model.set_limits(max_atoms=max_atoms, molecule_timeout=molecule_timeout)
        return cls(model, num_training_rows(run) if has_splits else None)

    @property
    def kind(self) -> Kind:
        """What a row is: text, molecule or graph (one of many, or of the only one a node, an edge or a link)."""
        return self._model.task.kind

    @property
    def fields(self) -> list[JsonObject]:
        """What a row needs, in order: `name`, and as `type` one of text, smiles, number, node; of a number that may be
        missing, as the model fills it, `may_be_missing`."""
        filled = {"may_be_missing": True} if self._model.fills_numbers else {}
        return [
            {"name": name, "type": type_, **(filled if type_ == "number" else {})} for name, type_ in self._model.fields
        ]

    @property
    def facts(self) -> JsonObject:
        """What the model is, as JSON; where it lies is not among it."""
        rows = {"columns": self.fields, "training_rows": self._num_training_rows}
        return {"kind": self.kind, "rows": self._model.task.rows_in_words, **self._model.facts, **rows}

    @property
    def quick(self) -> Self:
        """The same model, which raises SlowMoleculeError for a row that may take long."""
        return type(self)(self._model.quick, self._num_training_rows)

    @usual_tensors()
    def predict(self, rows: Sequence[Mapping[str, object]]) -> list[tuple[TargetPrediction, ...]]:
        """The prediction of each target for each row; all rows are computed together.

        Raises:
            DataError: a row lacks a field, has one too many, or a value cannot be read; the message names both.
        """
        if not rows:
            return []
        return self._model.predict(self._values(rows))

    @usual_tensors()
    def statuses(self, rows: Sequence[Mapping[str, object]]) -> list[str]:
        """For each row `ok`, or what its prediction lacks: all words of a text may be unknown.

        Raises:
            DataError: as in `predict`.
        """
        return self._model.statuses(self._values(rows)) if rows else []

    @usual_tensors()
    def explain(
        self,
        row: Mapping[str, object],
        *,
        target: str | None = None,
        label: object = None,
        top: int | None = None,
        methods: Choice = None,
    ) -> Explanation:
        """The predictions for a row, where the model attends, and what changes them.

        Args:
            row: the values by the names of `fields`.
            target: the target that is explained; the first by default.
            label: the class whose probability is explained; the predicted one by default.
            top: how many of the strongest weights of each unit are stored; by default all where they are few.
            methods: names of methods, in the order of the attributions; by default those of the task. See
                `edgewise.explain.methods`.

        Raises:
            DataError: as in `predict`.
            SettingError: unknown target, class or method.
            UnsupportedError: the model is one that cannot be explained; the message says which can.
        """
        (values,) = self._values([row])
        return self._model.explain(values, target=target, label=label, top=top, methods=methods)

    @usual_tensors()
    def unread(self, row: Mapping[str, object]) -> str:
        """What of a row is cut off before the model reads it, in words; empty where nothing is.

        Raises:
            DataError: as in `predict`.
        """
        (values,) = self._values([row])
        return self._model.unread(values)

    def _values(self, rows: Sequence[Mapping[str, object]]) -> list[Row]:
        """The values of each row in the order of the fields, each of the type that it must be."""
        fields, values_by_row = self._model.fields, []
        names = [name for name, _ in fields]
        for number, row in enumerate(rows):
            prefix = f"row {number}: " if len(rows) > 1 else ""
            for name in row:
                if name not in names:
                    raise DataError(f"{prefix}unknown field {str(name)[:60]!r}; expected {', '.join(names)}.")
            values: list[str | float] = []
            for name, type_ in fields:
                if name not in row:
                    raise DataError(f"{prefix}the field {name!r} is missing; expected {', '.join(names)}.")
                may_be_missing = type_ == "number" and self._model.fills_numbers
                values.append(
                    math.nan
                    if may_be_missing and _is_missing(row[name])
                    else _checked(f"{prefix}{name}", row[name], type_)
                )
            values_by_row.append(tuple(values))
        if self.kind == "text" and not self._model.reads_spaces:
            for number, texts in enumerate(values_by_row):
                if not any(str(text).strip() for text in texts):
                    prefix = f"row {number}: " if len(rows) > 1 else ""
                    raise DataError(f"{prefix}{names[0]}: the text is empty.")
        return values_by_row


def _is_missing(value: object) -> bool:
    """Whether a value stands for a missing number."""
    if isinstance(value, str):
        return is_missing(value)
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def _checked(field_name: str, value: object, type_: str) -> str | float:
    """A value as the type of its field."""
    if type_ == "number":
        return _number(field_name, value)
    if type_ == "node" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise DataError(f"{field_name} is a {type(value).__name__}, expected a text.")
    refuse_half_characters(field_name, value)
    return value


def _number(field_name: str, value: object) -> float:
    """A finite number; words that are one are taken, as they come from files and forms."""

    if isinstance(value, str):
        number, reason = read_feature(value)
        if reason:
            raise DataError(f"{field_name}: {reason[:120]}.")
        value = number
    if isinstance(value, np.floating):
        value = float(str(value))  # 0.1 of float32 is 0.10000000149011612 as a Python float
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DataError(f"{field_name} is a {type(value).__name__}, expected a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{field_name} is {number}, expected a finite number.")
    if abs(number) > LARGEST:
        raise DataError(f"{field_name} is {number:g}, beyond ±{LARGEST:g} and too large to be scaled.")
    return number
