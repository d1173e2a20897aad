"""What an `Explainer` speaks of, a class for each kind: what a row needs, how rows are told, how one is explained."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from edgewise.data.columns import AUTO
from edgewise.data.nodes import NodeTable, read_nodes
from edgewise.errors import DataError, EdgewiseError, RunFolderError
from edgewise.estimators.node.job import NodeJob, node_job
from edgewise.estimators.node.trained import TrainedNodes
from edgewise.estimators.told import told_of
from edgewise.explanation import Explanation, Kind, Told
from edgewise.train.folder import RunFolder

SHOWN = 5
"""Names of nodes that a message lists."""


class Subject(ABC):
    """A trained model, and the rows that it takes."""

    trained: Any
    """The ensemble."""
    kind: Kind
    """What a row is."""

    @classmethod
    @abstractmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""

    @property
    @abstractmethod
    def fields(self) -> list[tuple[str, str]]:
        """The name and the type of each value of a row."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """What the model is called among the choices of `--model`."""

    @abstractmethod
    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of rows, whose values stand in the order of the fields."""

    @abstractmethod
    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One row, explained."""

    def unread(self, row: tuple[Any, ...]) -> str:
        """What of a row is cut off before the model reads it, in words; empty where nothing is."""
        return ""


@dataclass(frozen=True, eq=False)
class TextSubject(Subject):
    """Rows of texts."""

    trained: Any
    kind = "text"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        from edgewise.estimators.text.trained import TrainedTexts

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
        from edgewise.data.texts import texts_from_arrays

        table = texts_from_arrays(np.array(rows, dtype=object).reshape(len(rows), -1))
        predictions = self.trained.predict(table)
        return [told_of(self.trained, predictions, row) for row in range(len(rows))]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """The texts of one row."""
        from edgewise.estimators.text.explain import explain_text

        return explain_text(self.trained, row, target=target, label=label, top=top)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens beyond the model's context."""
        cut, context = self.trained.row_tokens(row).num_cut, self.trained.settings.context
        return f"{context + cut:,} tokens, of which the model reads {context:,}" if cut else ""


@dataclass(frozen=True, eq=False)
class MoleculeSubject(Subject):
    """Rows of molecules, and numbers beside them."""

    trained: Any
    kind = "molecule"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        from edgewise.estimators.molecule.trained import TrainedProperty

        return cls(TrainedProperty.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of molecules, then those of numbers."""
        columns = self.trained.columns
        numbers = [(name, "number") for name in columns.descriptors_columns]
        return [*((name, "smiles") for name in columns.smiles_columns), *numbers]

    @property
    def model_name(self) -> str:
        """Which layers it has."""
        return self.trained.settings.model

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of molecules; a `DataError` names the first that cannot be read."""
        from edgewise.data.table import table_from_arrays

        trained, size = self.trained, len(self.trained.columns.smiles_columns)
        smiles = np.array([row[:size] for row in rows], dtype=object).reshape(len(rows), -1)
        numbers = np.array([row[size:] for row in rows], dtype=np.float64).reshape(len(rows), -1)
        table = table_from_arrays(
            smiles,
            conditions=numbers if numbers.shape[1] else None,
            with_descriptors=trained.with_descriptors,
        )
        for row in np.flatnonzero(~table.usable).tolist():
            # Columns of arrays are called smiles_1, smiles_2, …: the row knows them by other names.
            column, _, reason = table.status[row].partition(": ")
            names = dict(zip(table.columns.inputs, (name for name, _ in self.fields), strict=True))
            where = f"row {row}: " if len(rows) > 1 else ""
            raise DataError(f"{where}{names.get(column, column)}: {reason[:300]}.")
        predictions = trained.predict(table)
        return [told_of(trained, predictions, row) for row in range(len(rows))]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """The molecules of one row; all weights are kept, as atoms are few."""
        from edgewise.estimators.molecule.explain import explain_molecule

        self.predict([row])  # says which value cannot be read
        size = len(self.trained.columns.smiles_columns)
        return explain_molecule(self.trained, row[:size], row[size:], target=target, label=label)


class NamedSubject(Subject):
    """What stands by name in the files that a model was trained on."""

    kind = "graph"
    unit: str
    """What one is called."""
    table: Any
    """All of them."""
    names: Sequence[str]
    """The name of each row of the table."""

    def __init__(self, trained: Any, table: Any, names: Sequence[str]):
        self.trained, self.table, self.names = trained, table, names
        self._place = {name: row for row, name in enumerate(names)}
        self._predictions: Any = None

    @property
    def model_name(self) -> str:
        """Which layers it has."""
        return self.trained.settings.model

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of some; all are computed once, at the first question."""
        places = [self.row_of(*row) for row in rows]
        if self._predictions is None:
            self._predictions = self.trained.predict(self.table)
        return [told_of(self.trained, self._predictions, place) for place in places]

    def row_of(self, name: str) -> int:
        """The place of one, by its name."""
        found, unit = self._place.get(name.strip()), self.unit
        if found is None:
            known = ", ".join(self.names[:SHOWN]) + (", …" if len(self.names) > SHOWN else "")
            raise DataError(f"there is no {unit} {name[:60]!r}; the {len(self.names):,} {unit}s are {known}.")
        if not self.table.usable[found]:
            raise DataError(f"the {unit} {name[:60]!r} cannot be told: {self.table.status[found]}.")
        return found


class GraphSubject(NamedSubject):
    """The nodes of the graph that a model was trained on."""

    unit = "node"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder, and the graph that it was trained on.

        Raises:
            RunFolderError: the folder does not say where the graph is, or it is not there any more.
        """
        trained = TrainedNodes.load(folder)
        with _files_of(folder, "graph", "explain(features, edges, node)") as config:
            table = _graph_of(node_job(config, "config.toml"), trained)
        return cls(trained, table, table.names)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name of a node."""
        return [(self.table.columns.node_column or "node", "node")]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One node; all weights are kept, as only those near it are looked at."""
        from edgewise.estimators.node.explain import explain_node

        return explain_node(self.trained, self.table, self.row_of(*row), target=target, label=label)


class GraphsSubject(NamedSubject):
    """The graphs that a model of many was trained on, and those that it was tested on."""

    unit = "graph"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder, and the graphs of its files.

        Raises:
            RunFolderError: the folder does not say where the graphs are, or they are not there any more.
        """
        from edgewise.estimators.graph.trained import TrainedGraphs

        trained = TrainedGraphs.load(folder)
        with _files_of(folder, "graphs", "explain(graph)") as config:
            table = _graphs_of(config, trained)
        return cls(trained, table, [str(name) for name in table.frame[table.columns.graph_column]])

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name of a graph."""
        return [(self.table.columns.graph_column, "node")]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One graph; all weights are kept, as graphs of many are small."""
        from edgewise.estimators.graph.explain import explain_graph

        return explain_graph(self.trained, self.table, self.row_of(*row), target=target, label=label)


@contextmanager
def _files_of(folder: RunFolder, what: str, call: str) -> Iterator[dict[str, Any]]:
    """The settings of a run whose files are read inside; what goes wrong there is said with the way out.

    Raises:
        RunFolderError: the folder does not say where the files are, or they cannot be read any more.
    """
    if not folder.is_begun:
        raise RunFolderError(
            f"{folder.path} does not say which {what} it was trained on, as folders that `edgewise train` writes "
            f"do; in Python, {call} of the estimator takes the graph."
        )
    config = folder.read_config()
    try:
        yield config
    except (EdgewiseError, OSError) as error:
        files = [config.get(name) for name in ("edges", "features", "graphs")]
        named = ", ".join([*config.get("data", []), *(file for file in files if file)])
        raise RunFolderError(
            f"the {what} that {folder.path} was trained on cannot be read ({error}); bring {named} "
            "back, or go to the folder that the training was started in."
        ) from error


def _graphs_of(config: dict[str, Any], trained: Any) -> Any:
    """The graphs of a run, their targets left out."""
    from edgewise.data.graphs import read_graphs
    from edgewise.estimators.graph.job import graph_job

    job = graph_job(config, "config.toml")
    columns = replace(
        trained.columns, target_columns=(), ignore_columns=(), splits_column=None, weight_column=None, group_column=None
    )
    need_roots = trained.whole.needs_roots
    return read_graphs(
        list(job.data), columns, job.graph, need_roots=need_roots, need_targets=False, categories=trained.categories
    )


def _graph_of(job: NodeJob, trained: TrainedNodes) -> NodeTable:
    """The graph of a job, its targets left out."""
    columns = replace(
        job.columns,
        node_column=job.columns.node_column or AUTO,
        descriptors_columns=trained.columns.descriptors_columns,
        target_columns=(),
        ignore_columns=(),
        splits_column=None,
        weight_column=None,
        group_column=None,
    )
    known = trained.kinds
    return read_nodes(list(job.data), columns, job.graph, need_targets=False, with_kinds=known is not None, known=known)
