"""Methods that estimators of nodes and of edges share. A row without a target stays in the graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from edgewise.errors import DataError, SettingError, plural, refuse_single_text
from edgewise.graph import Graph
from edgewise.graph.forms import library_of
from edgewise.learn.estimators.graph_input import GraphNodes, holds_tables
from edgewise.learn.estimators.graph_warnings import warn_of_graph_features
from edgewise.learn.estimators.labels import (
    has_label,
    is_known,
    is_known_to,
    label_columns,
    plain_array,
    r2,
    share_right,
)
from edgewise.learn.estimators.names import RowNames, complete_names, in_row_order
from edgewise.learn.estimators.numbers import as_numbers, mask_of
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.row_methods import (
    classes_of,
    numbered,
    numbers_of,
    probabilities_of,
    stacked,
    truth_of,
    warn_of_unread,
)
from edgewise.learn.estimators.rows import EncodedTargets, ExtraInputs, Inputs, RowAdapter, Supervision, without_none
from edgewise.learn.estimators.state import Estimator, Names, warn_caller

if TYPE_CHECKING:
    from edgewise.learn.tasks.graph_encoding import GraphEncoding


def graph_inputs(rows_type: type[GraphNodes]) -> Callable[[Estimator, object, ExtraInputs], Inputs]:
    """Returns a function that reads the rows of one graph, of `rows_type`, from X and the parts beside it."""

    def inputs(estimator: Estimator, X: object, extra_inputs: ExtraInputs) -> Inputs:
        names: Names = getattr(estimator, "column_names_", {})
        return Inputs(type(estimator).__name__, rows_type(X, **extra_inputs).in_order(names), {}, names)

    return inputs


def scatter_targets(
    inputs: Inputs, targets: EncodedTargets, supervision: Supervision
) -> tuple[EncodedTargets, Supervision]:
    """Targets, weights and validation rows as arrays over all nodes or edges of the graph."""
    rows = inputs.graph_rows
    warn_of_graph_features(rows.graph)
    weights, validation = supervision.sample_weight, supervision.validation
    return (
        replace(targets, cells=rows.scatter(targets.cells, np.nan)),
        replace(
            supervision,
            sample_weight=None if weights is None else rows.scatter(np.asarray(weights), 0.0),
            validation=None
            if validation is None
            else rows.scatter(mask_of("validation", validation, len(rows)), False),
        ),
    )


def names_of_nodes(X: Any) -> RowNames | None:
    """What the nodes of a graph are called that are rows; None where they are numbered."""
    if isinstance(X, tuple) and X and library_of(X[0]) == "pandas":
        X = GraphNodes(X)
    if isinstance(X, GraphNodes):
        names = X.names
        return None if names is None else RowNames(X.taken(np.array(names, dtype=object)).tolist(), names)
    labels = X.nodes if library_of(X) == "networkx" else X.names if isinstance(X, Graph) else None
    return None if labels is None else RowNames(*[tuple(map(str, labels))] * 2)


def names_of_graph(X: object) -> Names:
    """The names of the columns of a graph, by argument."""
    rows = GraphNodes(X) if holds_tables(X) else X
    return dict(rows.column_names) if isinstance(rows, GraphNodes) else {}


def names_of_run(on_graph: "GraphEncoding", num_features: int, num_edge_features: int) -> Names:
    """The names of the features of nodes and of edges that a run of the command line was trained on.

    Args:
        on_graph: How its nodes and edges became numbers.
        num_features: Features of a node that it was trained on.
        num_edge_features: Features of an edge.
    """
    return complete_names(
        X=(on_graph.columns.descriptors_columns, num_features),
        edge_features=(on_graph.graph.edge_feature_columns, num_edge_features),
    )


def row_to_explain(
    estimator: Estimator, adapter: RowAdapter, item: object, row: object, name: str, extra_inputs: ExtraInputs
) -> tuple[Inputs, int]:
    """The graph of an item, and the number of the row that is explained.

    Args:
        estimator: The estimator.
        adapter: Connects the estimator with its task.
        item: One row; or a graph, with `row`.
        row: Its number; a node of a graph with names by its name.
        name: What the argument is called.
        extra_inputs: The parts of a graph.

    Raises:
        SettingError: No row is given.
    """
    inputs = adapter.inputs(estimator, item, without_none(extra_inputs))
    rows = inputs.graph_rows
    if row is not None:
        if rows.row_noun == "nodes":
            return inputs, rows.number_of(row)
        if not isinstance(row, int | np.integer):
            raise SettingError(f"explain: {name} is {row!r}; expected its number, such as {name}=0.")
        return inputs, int(row)
    if rows.rows is None or len(rows) != 1:
        raise SettingError(f"explain: {name} is missing; say which row is explained: {name}=0.")
    return inputs, int(rows.rows[0])


def label_targets(row_noun: str) -> Callable[[object], EncodedTargets]:
    """Returns a function that encodes labels of nodes or edges; None, NaN, and −1 among other whole numbers mean that a
    row lacks a label."""

    def encode(y: object) -> EncodedTargets:
        columns = label_columns(y)
        has_labels = [is_known(labels) for labels in columns]
        for labels, is_label in zip(columns, has_labels):
            if num_left_out := int((has_label(labels) & ~is_label).sum()):
                rows_have = plural(num_left_out, f"{row_noun[:-1]} has", f"{row_noun} have")
                warn_caller(
                    f"fit: {rows_have} the label -1, read as no label; where -1 is a class, give the labels as text; "
                    "where it is none, None or NaN says so without this warning."
                )
        return numbered(columns, has_labels)

    return encode


def predict_classes(estimator: Estimator, adapter: RowAdapter, X: object, extra_inputs: ExtraInputs) -> np.ndarray:
    """(row), or (row, target): the most probable class; −1 or None, as in `fit`, where nothing is predicted."""
    probabilities, statuses = probabilities_of(estimator, adapter, X, extra_inputs)
    warn_of_unread(estimator, "predict", X, statuses, np.isnan(probabilities[0]).any(axis=1))
    targets = zip(probabilities, classes_of(estimator), strict=True)
    return stacked([_most_probable(values, classes) for values, classes in targets])


def _most_probable(probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
    labels, has_none = classes[probabilities.argmax(axis=1)], np.isnan(probabilities).any(axis=1)
    if not has_none.any():
        return labels
    if np.issubdtype(classes.dtype, np.integer) and -1 not in classes.tolist():
        labels = labels.astype(np.int64) if np.issubdtype(labels.dtype, np.unsignedinteger) else labels
        labels[has_none] = -1
        return labels
    labels = labels.astype(object)
    labels[has_none] = None
    return labels


@naming_parameters
def score_classes(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    nodes: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> float:
    """Accuracy over the rows with a label; of several targets, a row is right where all its known labels are.

    Labels are missing as in `fit`: among whole numbers −1 means none, unless `classes_` has it.

    Args:
        estimator, adapter, X, extra_inputs: As in `row_to_explain`.
        y: (row) or (row, target).
        nodes: (row, bool): the rows that count; all where None.
        sample_weight: (row).
    """
    columns = label_columns(truth_of(estimator, adapter, X, y))
    has_labels = [is_known_to(classes, labels) for labels, classes in zip(columns, classes_of(estimator))]

    names = adapter.row_names(X)
    mask, sample_weight = _mask_of(in_row_order(nodes, names), len(columns[0])), in_row_order(sample_weight, names)
    predicted = predict_classes(estimator, adapter, X, extra_inputs)
    if len(columns) != len(classes_of(estimator)) or len(predicted) != len(columns[0]):
        raise DataError(f"score: y is {plain_array(y).shape}, but predictions are {predicted.shape}.")
    return share_right(
        columns, [labeled & mask for labeled in has_labels], predicted, classes_of(estimator), sample_weight
    )


@naming_parameters
def score_numbers(
    estimator: Estimator,
    adapter: RowAdapter,
    X: object,
    y: object,
    extra_inputs: ExtraInputs,
    nodes: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> float:
    """R² over the rows with a target, of several targets the mean; arguments are those of `score_classes`."""
    rows = adapter.inputs(estimator, X, without_none(extra_inputs)).graph_rows
    targets = as_numbers("y", truth_of(estimator, adapter, X, y))
    predictions, values = numbers_of(estimator, adapter, rows, {})
    if len(targets) != len(values):
        count = plural(len(targets), "row")
        raise DataError(f"score: y has {count}, but there are {len(values)} {rows.row_noun}.")

    names = adapter.row_names(X)
    mask, sample_weight = _mask_of(in_row_order(nodes, names), len(values)), in_row_order(sample_weight, names)
    targets = np.where(mask.reshape(-1, *[1] * (targets.ndim - 1)), targets, np.nan)
    return r2(targets, values, predictions.statuses, sample_weight)


def _mask_of(nodes: ArrayLike | None, num_rows: int) -> np.ndarray:
    """Which rows count.

    Raises:
        DataError: `nodes` is not a mask of them.
    """
    refuse_single_text("nodes", nodes)
    if nodes is None:
        return np.ones(num_rows, dtype=bool)
    mask = np.asarray(nodes)
    if mask.dtype != bool or mask.shape != (num_rows,):
        raise DataError(
            f"score: nodes is {mask.dtype} of shape {mask.shape}; expected a mask, bool of shape ({num_rows},): True "
            "for each row that counts."
        )
    return mask
