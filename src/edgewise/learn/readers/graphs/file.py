"""A graph in one .npz file, by the names that PyTorch Geometric and the Planetoid collections give its arrays."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from edgewise.errors import DataError, plural
from edgewise.learn.progress import remark
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import (
    CSR,
    NodeFeatures,
    features_of_arrays,
    require_finite,
    without_blanks,
)
from edgewise.learn.tables.arrays import read_arrays, require_kind
from edgewise.learn.tables.read import Cells, Values, cells_from_arrays

MASKS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}
READ = {
    *(*MASKS, *CSR, "x", "x_data", "y", "class_names", "has_label", "edge_index", "edge_attr"),
    *("node_type", "edge_type"),
}
"""The arrays of a file that mean something here."""


@dataclass(frozen=True, eq=False)
class GraphFile:
    """The content of an .npz file of a graph."""

    cells: Cells
    """One row per node: its target `y` and its `split`, where the file has them."""
    features: NodeFeatures
    """The features of each node."""
    edges: EdgeList
    """The edges as written in the file."""
    target_column: str | None
    """`y`, where there is one."""
    splits_column: str | None
    """`split`, where there are masks."""
    node_types: RowLabels | None = None
    """`node_type`, where it is there."""
    blank: Bool[np.ndarray, " node feature"] | None = None
    """True where x is NaN: not a feature of the node's type."""


def is_graph_file(path: str) -> bool:
    """Whether a file name is that of a graph in one file."""
    return str(path).lower().endswith(".npz")


def read_graph_file(
    path: str,
    *,
    with_types: bool = False,
    imputes: bool = False,
    fills_edges: bool = False,
    num_edge_features: int = 0,
) -> GraphFile:
    """Read a graph.

    Arrays: `edge_index` (2, edge), from and to, nodes counted from 0; `x` (node, feature), or its parts `x_indices`,
    `x_indptr`, `x_shape` and, where the values are not all 1, `x_data`, as SciPy's CSR has them. Where they are there:
    `y` (node); `class_names`, of which whole numbers in y are the positions, −1 for an unlabeled node; `has_label`
    (node), False where y means nothing; `train_mask`, `val_mask`, `test_mask` (node), of which a node has one at most;
    `edge_attr` (edge, feature); `node_type` (node) and `edge_type` (edge), words or whole numbers.

    Args:
        path: the file.
        with_types: whether the types of nodes and edges are read; x may then be NaN where a type lacks a feature.
        imputes: whether NaN in x is a missing number, for the scale to fill it.
        fills_edges: the same of edge_attr.
        num_edge_features: features of an edge, where a file without edges does not say it.

    Raises:
        DataError: it is not such a file, an array is missing, or shapes do not fit; the message names the array.
    """
    name, arrays = str(path), read_arrays(path)
    if "edge_index" not in arrays:
        raise DataError(f"{name}: the array 'edge_index' is missing; the file has {', '.join(arrays) or 'none'}.")

    node_types, edge_types, blank = None, None, None
    if with_types:
        node_types, edge_types = (_types(name, arrays, key) for key in ("node_type", "edge_type"))
        if node_types is not None and "x" in arrays:
            x, blank = without_blanks(arrays["x"])
            arrays = {**arrays, "x": x}

    features = features_of_arrays(name, arrays, imputes=imputes)
    num_nodes = features.shape[0]
    if node_types is not None:
        _require_nodes(name, "node_type", arrays["node_type"], num_nodes)
    columns: dict[str, Values] = {}
    if "y" in arrays:
        columns["y"] = _targets(name, arrays, num_nodes)

    if any(mask in arrays for mask in MASKS):
        columns["split"] = _splits(name, arrays, num_nodes)
    columns = columns or {"node": np.arange(num_nodes)}
    cells, _ = cells_from_arrays(columns)
    is_label = "y" in arrays and np.issubdtype(arrays["y"].dtype, np.integer)
    labels = frozenset({"y"} if is_label else ())
    cells = Cells((name,), cells.file_of_row, cells.frame, cells.lines, label_columns=labels)
    target, split = (column if column in columns else None for column in ("y", "split"))
    edges = _edges(name, arrays, num_nodes, fills_edges=fills_edges, num_edge_features=num_edge_features)
    if edge_types is not None and len(edge_types.names) != len(edges):
        raise DataError(
            f"{name}: edge_type has {plural(len(edge_types.names), 'row')}, but there are {len(edges)} edges."
        )

    if unread := [array for array in arrays if array not in READ]:
        shown = ", ".join(map(repr, unread))
        remark(f"{name} has {plural(len(unread), 'more array')}, not used: {shown}; numbers of an edge are 'edge_attr'")
    return GraphFile(cells, features, replace(edges, types=edge_types), target, split, node_types, blank)


def _types(name: str, arrays: dict[str, np.ndarray], key: str) -> RowLabels | None:
    """The types of rows, where the file has them."""
    if key not in arrays:
        return None
    types = arrays[key]
    if types.ndim != 1 or not (np.issubdtype(types.dtype, np.integer) or np.issubdtype(types.dtype, np.str_)):
        raise DataError(f"{name}: {key} is {types.dtype} {types.shape}, expected words or whole numbers, one a row.")
    return RowLabels.of_array(f"{name}: {key}", types)


def _edges(
    name: str, arrays: dict[str, np.ndarray], num_nodes: int, *, fills_edges: bool, num_edge_features: int
) -> EdgeList:
    index = arrays["edge_index"]
    if index.ndim != 2 or index.shape[0] != 2 or not (np.issubdtype(index.dtype, np.integer) or not index.size):
        raise DataError(f"{name}: edge_index is {index.dtype} {index.shape}, expected whole numbers (2, edge).")
    index = index.astype(np.int64)
    check_edges(name, index, num_nodes)
    count = index.shape[1]
    features = arrays.get("edge_attr", np.zeros((count, 0 if count else num_edge_features)))
    require_kind(name, "edge_attr", features, "biuf")
    features = features[:, None] if features.ndim == 1 else features
    if features.ndim != 2:
        raise DataError(f"{name}: edge_attr is {features.shape}, expected (edge, feature).")
    if len(features) != index.shape[1]:
        raise DataError(f"{name}: edge_attr has {plural(len(features), 'row')}, but there are {index.shape[1]} edges.")
    require_finite(name, "edge_attr", features, may_be_missing=fills_edges)
    return EdgeList(index[0], index[1], features.astype(np.float32))


def check_edges(name: str, index: np.ndarray, num_nodes: int) -> None:
    """Raise a DataError unless every edge of (2, edge) joins two of the nodes, counted from 0."""
    if index.size and not 0 <= index.min() <= index.max() < num_nodes:
        wrong = int(np.flatnonzero(((index < 0) | (index >= num_nodes)).any(0))[0])
        raise DataError(
            f"{name}: edge {wrong} joins {index[0, wrong]} and {index[1, wrong]}, but nodes are 0 to {num_nodes - 1}."
        )


def _targets(name: str, arrays: dict[str, np.ndarray], num_nodes: int) -> np.ndarray:
    """Cells of the target: names of classes where the file has them, empty without a target."""
    y = arrays["y"]
    require_kind(name, "y", y, "biufUS")
    _require_nodes(name, "y", y, num_nodes)
    if y.ndim != 1:
        raise DataError(f"{name}: y has {y.ndim} axes, expected (node).")
    labels = arrays.get("class_names")
    has_label = np.ones(num_nodes, dtype=bool)
    if "has_label" in arrays:
        has_label = _mask(name, "has_label", arrays["has_label"], num_nodes)
    if labels is not None and labels.ndim != 1:
        raise DataError(f"{name}: class_names has {labels.ndim} axes, expected (class).")
    if labels is not None and np.issubdtype(y.dtype, np.integer):
        if y.size and not -1 <= y.min() <= y.max() < len(labels):
            raise DataError(f"{name}: y holds {y.min()} to {y.max()}, but class_names has {len(labels)}.")
        has_label, y = has_label & (y >= 0), labels[y]

    cells = y.astype(object)
    cells[~has_label] = None if np.issubdtype(y.dtype, np.floating) else ""
    return cells


def _splits(name: str, arrays: dict[str, np.ndarray], num_nodes: int) -> np.ndarray:
    """The split of each node, nothing for none."""
    split_of_node = np.full(num_nodes, "", dtype=object)
    for mask, split in MASKS.items():
        if mask not in arrays:
            continue
        inside = _mask(name, mask, arrays[mask], num_nodes)
        if (split_of_node[inside] != "").any():
            raise DataError(f"{name}: a node is in {mask} and in another mask; splits must not overlap.")
        split_of_node[inside] = split
    return split_of_node


def _mask(name: str, key: str, array: np.ndarray, num_nodes: int) -> Bool[np.ndarray, " node"]:
    """An array of True and False, or of 1 and 0."""
    require_kind(name, key, array, "biuf")
    _require_nodes(name, key, array, num_nodes)
    if array.ndim != 1:
        raise DataError(f"{name}: {key} has {plural(array.ndim, 'axis', 'axes')}, expected (node).")
    wrong = np.flatnonzero((array != 0) & (array != 1))
    if len(wrong):
        raise DataError(f"{name}: {key} of node {wrong[0]} is {array[wrong[0]]:g}, expected True or False, or 1 or 0.")
    return array.astype(bool)


def _require_nodes(name: str, key: str, array: np.ndarray, num_nodes: int) -> None:
    if array.ndim == 0 or len(array) != num_nodes:
        raise DataError(f"{name}: {key} is {array.shape}, but x has {plural(num_nodes, 'node')}.")
