"""The base of estimators over the rows of one graph: its nodes, or its edges."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.graph.records import Prediction
from edgewise.learn.estimators.graph_input import GRAPH_OPTIONS, GraphNodes
from edgewise.learn.estimators.graph_warnings import warn_of_graph_features
from edgewise.learn.estimators.labels import all_right, has_label, is_known, label_columns, r2
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.params import old_names
from edgewise.learn.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.learn.tables.cell import refuse_single_text

BESIDE = ("edges", "edge_features")
"""What may follow the features of nodes by position."""


class OneGraph(
    TableEstimator,
    options=GRAPH_OPTIONS,
    named=("edge_features",),
    fit_options=(),
    positional={"fit": BESIDE[:1], "predict": BESIDE, "predict_interval": BESIDE, "score": BESIDE},
):
    """An ensemble over the rows of one graph; a row without a target is part of the graph all the same."""

    rows_type: ClassVar[type[GraphNodes]] = GraphNodes
    """What makes rows of a graph."""

    def rows_of(self, data: Any, options: Mapping[str, Any]) -> GraphNodes:
        """The rows of a graph, or of its parts in `options`."""
        return self.rows_type(data, **options).in_order(getattr(self, "column_names_", {}))

    def predictions(self, data: Any, coverage: float | None = None, **options: Any) -> list[Prediction]:
        """The prediction of each target for the rows."""
        rows = self.rows_of(data, options)
        return [
            Prediction(**{name: rows.taken(value) for name, value in vars(each).items()})
            for each in super().predictions(rows, coverage)
        ]

    def status_of(self, data: Any, **options: Any) -> list[str]:
        """Of each row, `ok`, what to know of its prediction, or why it has none."""
        rows = self.rows_of(data, options)
        return list(rows.taken(np.asarray(super().status_of(rows), dtype=object)))

    def _of_rows(self, data: Any, statuses: Sequence[str]) -> Sequence[str]:
        rows = data if isinstance(data, GraphNodes) else None
        return statuses if rows is None else list(rows.taken(np.asarray(statuses, dtype=object)))

    def _names_of_run(self) -> dict[str, tuple[str, ...]]:
        names = self.trained.columns.descriptors_columns
        return {"X": names} if len(names) == self.trained.num_columns else {}

    def row_of(self, item: Any, row: Any, name: str, options: Mapping[str, Any]) -> tuple[GraphNodes, int]:
        """The graph of an item, and the number of the row that is explained.

        Args:
            item: one row; or a graph, with `row`.
            row: its number; a node of a graph with names by its name.
            name: what the argument is called.
            options: the parts of a graph.
        """
        rows = self.rows_of(item, options)
        if row is None and (rows.rows is None or len(rows) != 1):
            raise SettingError(f"explain: {name} is missing; say which row is explained: {name}=0.")
        if row is None:
            return rows, int(rows.rows[0])  # type: ignore[index]
        return rows, rows.number_of(row) if rows.unit == "nodes" else row

    def _fit(self, data: Any, cells: Any, task_type: str, **options: Any) -> Any:
        rows = self.rows_of(data, {name: options.pop(name) for name in GRAPH_OPTIONS if name in options})
        warn_of_graph_features(rows.graph)
        for name, missing in (("sample_weight", 0.0), ("validation", False)):
            if options.get(name) is not None:
                options[name] = rows.spread(np.asarray(options[name]), missing)
        cells = rows.spread(cells, np.nan if task_type == "regression" else "")
        return super()._fit(rows, cells, task_type, **options)


class OneGraphClassifier(TableClassifier, OneGraph):
    """A classifier of the rows of one graph, some of which have no label."""

    def _is_known(self, labels: np.ndarray) -> np.ndarray:
        known = is_known(labels)
        if num_left_out := int((has_label(labels) & ~known).sum()):
            unit = self.rows_type.unit
            warnings.warn(
                f"fit: {plural(num_left_out, f'{unit[:-1]} has', f'{unit} have')} the label -1, read as no label; "
                "where -1 is a class, give the labels as text; where it is none, None or NaN says so without this "
                "warning.",
                stacklevel=6,
            )
        return known

    def _check_labels(self, has_any: np.ndarray) -> None:
        """A row without a label is part of the graph."""

    @old_names
    def predict(self, data: Any, *old: Any, **options: Any) -> np.ndarray:
        """(row), or (row, target): the most probable class; −1 or None, as in `fit`, where nothing is predicted."""
        options = self._named("predict", old, options)
        found = self._probabilities(data, options)
        self._say_unread("predict", data, options, np.isnan(found[0]).any(axis=1))
        return self._labels(found)

    def _most_probable(self, probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
        found, has_none = classes[probabilities.argmax(axis=1)], np.isnan(probabilities).any(axis=1)
        if not has_none.any():
            return found
        if np.issubdtype(classes.dtype, np.integer) and -1 not in classes.tolist():
            found[has_none] = -1
            return found
        found = found.astype(object)
        found[has_none] = None
        return found

    @old_names
    def score(
        self, data: Any, y: Any = None, *old: Any, nodes: Any = None, sample_weight: Any = None, **options: Any
    ) -> float:
        """The share of the rows with a label whose class is predicted right.

        Labels are missing as in `fit`; −1 is one where it is in `classes_`.

        Args:
            data: As in `fit`.
            y: (row) or (row, target) labels; of several targets all that are known must be right.
            old: As in `predict`.
            nodes: (row, bool): the rows that count; all where None.
            sample_weight: (row).
            options: As in `predict`.
        """
        refuse_single_text("nodes", nodes)
        columns, known = label_columns(self._truth(data, y)), []
        for labels, classes in zip(columns, self._classes_of_targets):
            known.append(has_label(labels))
            if np.issubdtype(labels.dtype, np.integer) and -1 not in classes.tolist():
                known[-1] &= labels != -1
        judged = np.any(known, axis=0) & (True if nodes is None else np.asarray(nodes, dtype=bool))
        if not judged.any():
            raise DataError(f"score: no {self.rows_type.unit[:-1]} has a label; expected labels to compare with.")
        found = self.predict(data, **self._named("score", old, options))
        if len(columns) != len(self._classes_of_targets) or len(found) != len(columns[0]):
            raise DataError(f"score: y is {np.shape(y)}, but predictions are {found.shape}.")
        return float(np.average(all_right(columns, known, found)[judged], weights=_weights(sample_weight, judged)))


class OneGraphRegressor(TableRegressor, OneGraph):
    """A regressor of the rows of one graph, some of which have no target."""

    @old_names
    def score(
        self, data: Any, y: Any = None, *old: Any, nodes: Any = None, sample_weight: Any = None, **options: Any
    ) -> float:
        """R² over the rows with a target, of several targets the mean; of `nodes` (row, bool) where given."""
        refuse_single_text("nodes", nodes)
        rows = self.rows_of(data, self._named("score", old, options))
        targets, predicted = as_numbers("y", self._truth(data, y)), self.predict(rows)
        if len(targets) != len(predicted):
            unit = self.rows_type.unit
            raise DataError(f"score: y has {plural(len(targets), 'row')}, but there are {len(predicted)} {unit}.")
        judged = np.ones(len(predicted), dtype=bool) if nodes is None else np.asarray(nodes, dtype=bool)
        status = [each for each, is_judged in zip(self.status_of(rows), judged) if is_judged]
        return r2(targets[judged], predicted[judged], status, _weights(sample_weight, judged))


def _weights(sample_weight: Any, rows: np.ndarray) -> np.ndarray | None:
    """The weights of some rows."""
    return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]
