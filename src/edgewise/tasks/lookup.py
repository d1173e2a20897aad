"""What stands by name in the files that a model was trained on: nodes and edges of a graph, graphs of many."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgewise.data.columns import AUTO, Columns
from edgewise.errors import DataError, EdgewiseError, RunFolderError
from edgewise.explain.methods import Choice
from edgewise.explanation import Explanation, TargetPrediction
from edgewise.tasks.explainable import ExplainableTable
from edgewise.tasks.targets import target_predictions
from edgewise.train.folder import RunFolder

SHOWN = 5
"""Names of nodes that a message lists."""


class Names:
    """What stands by name in a file: the place of each."""

    def __init__(self, unit: str, names: Sequence[str]):
        self.unit, self.names = unit, names
        self._place = {name: row for row, name in enumerate(names)}

    def place(self, name: str, where: str = "") -> int:
        """The place of one.

        Args:
            name: its name, blanks around it or not.
            where: what a message begins with.

        Raises:
            DataError: there is none.
        """
        if (found := self._place.get(name.strip())) is None:
            known = ", ".join(self.names[:SHOWN]) + (", …" if len(self.names) > SHOWN else "")
            raise DataError(
                f"{where}there is no {self.unit} {name[:60]!r}; the {len(self.names):,} {self.unit}s are {known}."
            )
        return found


class ExplainableByName(ExplainableTable):
    """The rows of the files that a model was trained on, by the names in them."""

    kind = "graph"
    unit: str
    """What one row is."""
    explain_row: Callable[..., Explanation]
    """Explains a row, by the ensemble, the table and the place of the row."""

    def __init__(self, trained: Any, table: Any, names: Sequence[str]):
        self.trained, self.table = trained, table
        self._names = Names(self.unit, names)
        self._predictions: Any = None

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions for some; all are computed once, at the first call."""
        places = [self.row_of(*row) for row in rows]
        if self._predictions is None:
            self._predictions = self.trained.predict(self.table)
        return [target_predictions(self.trained, self._predictions, place) for place in places]

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """One row; all weights are listed, as few nodes are looked at."""
        place = self.row_of(*row)
        return self.explain_row(self.trained, self.table, place, target=target, label=label, methods=methods)

    def row_of(self, *names: str) -> int:
        """The place of one in the table.

        Raises:
            DataError: there is none, or it cannot be predicted.
        """
        found = self.find(*names)
        if not self.table.usable[found]:
            shown = " and ".join(repr(name[:60]) for name in names)
            raise DataError(f"the {self.unit} {shown} cannot be predicted: {self.table.status[found]}.")
        return found

    def find(self, *names: str) -> int:
        """The place of one in the table, by its name."""
        return self._names.place(*names)


def own_names(columns: Columns) -> dict[str, Any]:
    """The names of the columns of nodes in the files of a run; a column of names that is not known is found."""
    return {"node_column": columns.node_column or AUTO}


def title_of(sender: str, receiver: str, is_directed: bool) -> str:
    """What the edge between two nodes is called."""
    return f"{sender} {'→' if is_directed else '–'} {receiver}"


@contextmanager
def files_of(folder: RunFolder, what: str, call: str) -> Iterator[dict[str, Any]]:
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
    among = np.flatnonzero(is_link)
    if not len(among):
        return among, []
    low, high = np.minimum(senders[among], receivers[among]), np.maximum(senders[among], receivers[among])
    _, first, pair = np.unique(low * (int(high.max()) + 1) + high, return_index=True, return_inverse=True)
    return among[first], np.split(among[np.argsort(pair, kind="stable")], np.cumsum(np.bincount(pair))[:-1])
