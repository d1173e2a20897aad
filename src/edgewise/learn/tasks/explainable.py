"""`ExplainableModel`: a trained model and the rows that it takes, as `Explainer` opens it.

What is special about a task is an `ExplainableTask`, a value that holds functions over what its `load` gives: the
trained model, or, where rows are those of the files of a run, `RowsByName`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np

from edgewise.errors import DataError, EdgewiseError, RunFolderError, SettingError, UnsupportedError
from edgewise.explain.explainable import Explainable
from edgewise.explain.explanation import Explanation, Kind, TargetPrediction
from edgewise.explain.heads import strongest_of_layer
from edgewise.explain.methods import Choice, explain
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import Prediction
from edgewise.learn.progress import note
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.rows import Data
from edgewise.learn.tasks.config import RunSettings, TaskSettings, input_files
from edgewise.learn.tasks.content import changed_files
from edgewise.learn.tasks.explained import target_predictions
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder

Job = TypeVar("Job", bound=RunSettings)
Read = TypeVar("Read", bound=Data)
Trained = TypeVar("Trained", bound=FittedTable)
SHOWN = 5
"""Names of nodes that a message lists."""


def explaining(item: Callable[..., Explainable]) -> Callable[..., Explanation]:
    """What explains an item at once, out of what makes it: it also takes `methods`, see `edgewise.explain.methods`."""

    def explained(trained: Fitted, *of: object, methods: Choice = None, **more: object) -> Explanation:
        with cpu_threads(trained.threads):
            return explain(item(trained, *of, **more), methods)

    return explained


Row = tuple[Any, ...]
"""The values of a row, in the order of the fields."""
Opened = TypeVar("Opened")
"""A model as its task opens it: a `Fitted`, or one with the rows of its files."""


def identity(model: Any) -> Any:
    """The `Fitted` of a model that is one."""
    return model


@dataclass(frozen=True, kw_only=True)
class ExplainableTask(Generic[Opened]):
    """The rows that models of a task take, what they predict, and how one row is explained."""

    load: Callable[[RunFolder], Opened]
    """Reads the model of a run folder, as the other functions take it."""
    trained: Callable[[Opened], Fitted] = identity
    """The `Fitted` of such a model."""
    kind: Kind
    """What a row is."""
    rows_in_words: str
    """What the rows are, such as the nodes of a graph: a model over them is served or explained."""
    fields: Callable[[Opened], list[tuple[str, str]]]
    """The name and the type of each value of a row, by the model."""
    targets: Callable[[Opened], tuple[str, dict[str, list[str]]]]
    """The name of the task, and the classes of each target; none for numbers."""
    model_name: Callable[[Opened], str]
    """What the model is called among the choices of `--model`."""
    predict: Callable[[Opened, Sequence[Row]], list[tuple[TargetPrediction, ...]]]
    """The predictions for rows."""
    item: Callable[..., Explainable]
    """One row and the number of its prediction that is explained, by the model, the row, target, label and top."""
    statuses: Callable[[Opened, Sequence[Row]], list[str]] = lambda model, rows: [OK] * len(rows)
    """For each row that is predicted, `OK`, or what its prediction lacks, in the words of `edgewise predict`."""
    unread: Callable[[Opened, Row], str] = lambda model, row: ""
    """What of a row is cut off before the model reads it, in words; empty where nothing is."""
    reads_spaces: Callable[[Opened], bool] = lambda model: False
    """Whether the model reads a text of spaces."""
    fills_numbers: Callable[[Opened], bool] = lambda model: False
    """Whether a number of a row may be missing, and is filled."""
    coverage: Callable[[Opened], float | None] = lambda model: None
    """The coverage of intervals; None where there are none."""
    set_limits: Callable[[Opened, int | None, float | None], None] | None = None
    """Changes the most atoms and the seconds of a molecule, those that are not None; None where rows are others."""
    quick: Callable[[Opened], Opened] = identity
    """The same model, which raises SlowMoleculeError for a row that may take long, where rows are molecules."""
    open: tuple[str, ...] = ()
    """Which of `target` and `label` have values that are not listed."""
    row: Callable[[object], Row] = lambda item: (item,)
    """The values of a row out of what estimators take."""

    def read(self, folder: RunFolder) -> "ExplainableModel[Opened]":
        """The model of a run folder."""
        return self.of(self.load(folder))

    def of(self, model: Opened) -> "ExplainableModel[Opened]":
        """A model, as `load` gives it."""
        return ExplainableModel(self, model)


@dataclass(frozen=True, eq=False)
class ExplainableModel(Generic[Opened]):
    """A trained model, and the rows that it takes."""

    task: ExplainableTask[Opened]
    """How rows are predicted and explained."""
    model: Opened
    """What its functions take."""

    @property
    def trained(self) -> Fitted:
        """The `Fitted`."""
        return self.task.trained(self.model)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name and the type of each value of a row."""
        return self.task.fields(self.model)

    @property
    def reads_spaces(self) -> bool:
        """Whether the model reads a text of spaces."""
        return self.task.reads_spaces(self.model)

    @property
    def fills_numbers(self) -> bool:
        """Whether a number of a row may be missing, and is filled."""
        return self.task.fills_numbers(self.model)

    @property
    def facts(self) -> JsonObject:
        """What the model is, as JSON: `task`, `targets`, `classes` by target, `open`, `model`, `members` of the
        ensemble, `parameters` of each, and the `coverage` of intervals."""
        task, classes = self.task.targets(self.model)
        return {
            "task": task,
            "targets": list(classes),
            "classes": {name: labels for name, labels in classes.items() if labels},
            **({"open": list(self.task.open)} if self.task.open else {}),
            "model": self.task.model_name(self.model),
            "members": len(self.trained.members),
            "parameters": sum(parameter.numel() for parameter in self.trained.members[0].parameters()),
            "coverage": self.task.coverage(self.model),
        }

    def predict(self, rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions for rows, whose values stand in the order of the fields."""
        return self.task.predict(self.model, rows)

    def statuses(self, rows: Sequence[Row]) -> list[str]:
        """For each row that is predicted, `OK`, or what its prediction lacks."""
        return self.task.statuses(self.model, rows)

    def explain(
        self, row: Row, *, target: str | int | None, label: object, top: int | None, methods: Choice = None
    ) -> Explanation:
        """One row, explained.

        Args:
            row: its values, in the order of the fields.
            target: which target is explained; the first by default.
            label: the class whose probability is explained; the predicted one by default.
            top: how many of the strongest weights of each unit are shown; by default all where they are few.
            methods: names of methods; see `edgewise.explain.methods`.

        Raises:
            DataError: the row cannot be read.
            SettingError: unknown target, class or method, or `top` is below 1.
        """
        with cpu_threads(self.trained.threads):
            explanation = explain(self.task.item(self.model, row, target, label, top), methods)
        if top is None:
            return explanation
        return replace(explanation, layers=tuple(strongest_of_layer(layer, top) for layer in explanation.layers))

    def set_limits(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> None:
        """Change the limits of molecules, where one is given.

        Raises:
            SettingError: one is given, and the rows are not molecules.
        """
        if max_atoms is None and molecule_timeout is None:
            return
        if self.task.set_limits is None:
            flag = "--molecule-timeout" if max_atoms is None else "--max-atoms"
            rows = self.task.rows_in_words
            raise SettingError(f"{flag} is for models over molecules, and this one is over {rows}; leave it out.")
        self.task.set_limits(self.model, max_atoms, molecule_timeout)

    @property
    def quick(self) -> Self:
        """The same model, which raises SlowMoleculeError for a row that may take long."""
        return replace(self, model=self.task.quick(self.model))

    def unread(self, row: Row) -> str:
        """What of a row is cut off before the model reads it, in words; empty where nothing is."""
        return self.task.unread(self.model, row)


def targets_of_table(trained: FittedTable) -> tuple[str, dict[str, list[str]]]:
    """The type of the targets of a table, and the classes of each."""
    names, classes = trained.columns.target_columns, trained.classes
    return trained.task_type, {name: [str(label) for label in classes.get(name, ())] for name in names}


class Names:
    """Rows of a file by their names."""

    def __init__(self, row_noun: str, names: Sequence[str]):
        self.row_noun, self.names = row_noun, names
        self._row_of_name = {name: row for row, name in enumerate(names)}

    def row(self, name: str, prefix: str = "") -> int:
        """The number of a row.

        Args:
            name: its name, blanks around it or not.
            prefix: what a message begins with.

        Raises:
            DataError: there is none.
        """
        if (row := self._row_of_name.get(name.strip())) is None:
            listed = ", ".join(self.names[:SHOWN]) + (", …" if len(self.names) > SHOWN else "")
            raise DataError(
                f"{prefix}there is no {self.row_noun} {name[:60]!r}; the {len(self.names):,} {self.row_noun}s are "
                f"{listed}."
            )
        return row

    def ends(self, columns: Sequence[str], names: Sequence[str]) -> tuple[int, int]:
        """The numbers of the two nodes of an edge, whose columns a message names."""
        sender, receiver = (self.row(name, f"{column}: ") for column, name in zip(columns, names, strict=True))
        return sender, receiver


@dataclass(frozen=True, eq=False)
class RowsByName(Generic[Trained, Read]):
    """The rows of the files that a model was trained on, by the names in them."""

    trained: Trained
    """The ensemble."""
    data: Read
    """What the files hold."""
    row_noun: str
    """What one row is."""
    names: Names
    """The names that rows are found by."""
    find: "Callable[[RowsByName[Trained, Read], Row], int]"
    """The number of a row in the table, by its names; raises DataError where there is none."""

    @cached_property
    def predictions(self) -> list[Prediction]:
        """Those of all rows, which are computed once."""
        return self.trained.predict(self.data)

    @cached_property
    def statuses(self) -> list[str]:
        """Those of all rows."""
        return self.trained.statuses(self.data)

    def row_of(self, names: Row) -> int:
        """The number of a row in the table.

        Raises:
            DataError: there is none, or it cannot be predicted.
        """
        row = self.find(self, names)
        if not self.data.rows.usable[row]:
            shown = " and ".join(repr(name[:60]) for name in names)
            raise DataError(f"the {self.row_noun} {shown} cannot be predicted: {self.data.rows.status[row]}.")
        return row


def row_with_name(rows: RowsByName, names: Row) -> int:
    """The number of a row that has a name of its own."""
    return rows.names.row(*names)


def predict_by_name(rows_of_files: RowsByName, rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for some rows."""
    numbers = [rows_of_files.row_of(names) for names in rows]
    return [target_predictions(rows_of_files.trained, rows_of_files.predictions, row) for row in numbers]


def explainable_by_name(
    *,
    declared: TaskSettings[Job],
    load: Callable[[RunFolder], Trained],
    read: Callable[[Trained, Job], Read],
    row_noun: str,
    rows_in_words: str,
    call: str,
    fields: Callable[[Read], list[tuple[str, str]]],
    names: Callable[[Read], Names],
    model_name: Callable[[Trained], str],
    item: Callable[..., Explainable],
    find: Callable[[RowsByName[Trained, Read], Row], int] = row_with_name,
    files: str = "graph",
) -> ExplainableTask[RowsByName[Trained, Read]]:
    """A task whose rows are those of the files of a run.

    Args:
        declared: what the task declares.
        load: reads the ensemble of a run folder.
        read: reads the files of the run, by the ensemble and the settings.
        row_noun: what one row is.
        rows_in_words: as in `ExplainableTask`.
        call: what explains a row in Python without the files.
        fields: the name and the type of each name of a row, by what the files hold.
        names: those that a row is found by.
        model_name: what the model is called among the choices of `--model`.
        item: what explains a row, from the ensemble, the data and the number of the row; all weights are listed, as
            few nodes are looked at.
        find: the number of a row by its names.
        files: what the files hold, in words.
    """

    def rows_of_run(folder: RunFolder) -> RowsByName[Trained, Read]:
        trained = load(folder)
        with files_of(folder, files, call) as config:
            job = declared.of(config, "config.toml")
            data = read(trained, job)
            changed = changed_files(folder, input_files(job))
        if changed:
            note(f"warning: {', '.join(changed)}: not as in the training; the {files} is explained as it is now")
        list_left_out(data.rows.rejected_edges)
        return RowsByName(trained, data, row_noun, names(data), find)

    return ExplainableTask(
        load=rows_of_run,
        trained=lambda rows: rows.trained,
        kind="graph",
        rows_in_words=rows_in_words,
        fields=lambda rows: fields(rows.data),
        targets=lambda rows: targets_of_table(rows.trained),
        model_name=lambda rows: model_name(rows.trained),
        predict=predict_by_name,
        statuses=lambda rows, names_of_rows: [rows.statuses[rows.row_of(row)] for row in names_of_rows],
        item=lambda rows, row, target, label, top: item(
            rows.trained, rows.data, rows.row_of(row), target=target, label=label
        ),
        coverage=lambda rows: rows.trained.coverage,
    )


def title_of(names: Sequence[str], ends: Sequence[int], is_directed: bool) -> str:
    """What the edge between two nodes is called."""
    return (" → " if is_directed else " – ").join(names[node] for node in ends)


@contextmanager
def files_of(folder: RunFolder, what: str, call: str) -> Iterator[JsonObject]:
    """The settings of a run whose files are read inside; an error there names the files.

    Raises:
        RunFolderError: the folder does not say where the files are, or they cannot be read any more.
    """
    if not folder.is_started:
        raise RunFolderError(
            f"{folder.path} does not say which {what} it was trained on, as folders that `edgewise train` writes "
            f"do; in Python, {call} of the estimator takes the graph."
        )
    config = folder.read_config()
    try:
        yield config
    except UnsupportedError:
        raise
    except (EdgewiseError, OSError) as error:
        files = [config.get(name) for name in ("edges", "features", "graphs", "nodes")]
        named = ", ".join([*config.get("data", []), *(file for file in files if file)])
        raise RunFolderError(
            f"the {what} that {folder.path} was trained on cannot be read ({error}); bring {named} "
            "back, or go to the folder that the training was started in."
        ) from error


def undirected(senders: np.ndarray, receivers: np.ndarray, is_link: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The links of a graph, both ways of an edge being one: the first edge of each, and all its edges.

    Args:
        senders, receivers: the ends of each edge.
        is_link: which edges are links, `(edge)`.
    """
    edges = np.flatnonzero(is_link)
    if not len(edges):
        return edges, []
    low, high = np.minimum(senders[edges], receivers[edges]), np.maximum(senders[edges], receivers[edges])
    _, first, pair = np.unique(low * (int(high.max()) + 1) + high, return_index=True, return_inverse=True)
    return edges[first], np.split(edges[np.argsort(pair, kind="stable")], np.cumsum(np.bincount(pair))[:-1])


def checked_row(row_noun: str, data: Data, row: int, names: Sequence[object] | None = None) -> str:
    """What a row of a table is called in words.

    Raises:
        DataError: the row does not exist, or cannot be predicted.
    """
    if not 0 <= row < len(data.rows):
        raise DataError(f"{row_noun} {row} does not exist; they are 0 to {len(data.rows) - 1}.")
    name = str(row) if names is None else str(names[row])
    if not data.rows.usable[row]:
        raise DataError(
            f"the {row_noun} {name if names is None else repr(name)} cannot be predicted: {data.rows.status[row]}."
        )
    return name
