"""Graphs to and from SciPy's sparse matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.graph import Graph
from edgewise.interop.attributes import array_of, convertible
from edgewise.neighborhood import Edges

try:
    from scipy import sparse
except ModuleNotFoundError as error:
    raise MissingExtraError("scipy", "graphs") from error


def to_scipy(graph: Graph | Edges, *, feature: int | None = None) -> "sparse.coo_array":
    """One feature (head) of a graph as a matrix (receiver, sender), with one entry per edge, in order.

        A_ij = weight of j → i

    That is the order of `Weights.to_dense` and `Edges.from_adjacency`: (A x)_i sums over the neighbors of i.
    networkx and `scipy.sparse.csgraph` read rows as senders: give them the transpose, `A.T`. Parallel edges are
    duplicate entries, which SciPy sums when it converts the matrix to another format; the COO format keeps them.
    Names and features of nodes are not part of a matrix.

    Args:
        graph: the graph; its senders and receivers may be two sets of nodes.
        feature: index of the edge feature; required if there are several. Without edge features, entries are 1.

    Raises:
        SettingError: the feature does not exist, or there are several and `feature` is missing.

    >>> from edgewise import Edges
    >>> to_scipy(Edges([0, 0], [1, 1], 3, 2)).toarray().tolist()
    [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    """
    graph = convertible("to_scipy", graph, has_nodes=False)
    edges, features = graph.edges, graph.edge_features
    if isinstance(features, tuple):
        raise SettingError("to_scipy: edges of different types have different features; a matrix holds one for all.")

    count = 0 if features is None else features.shape[1]
    if features is None and feature is None:
        values = np.ones(edges.num_edges, dtype=np.float32)
    else:
        index = 0 if feature is None else feature
        if features is None or (feature is None and count > 1) or not 0 <= index < count:
            raise SettingError(
                f"to_scipy: feature is {feature}, but edges have {count}; a matrix holds one, from 0 on."
            )
        values = array_of(features[:, index])

    indices = (edges.receivers.cpu().numpy(), edges.senders.cpu().numpy())
    return sparse.coo_array((values, indices), shape=(edges.num_receivers, edges.num_senders))


def from_scipy(matrix: Any) -> Graph:
    """A sparse matrix (receiver, sender), or several with the same entries, as edges with one feature per matrix.

    Every stored entry is an edge, including zeros and duplicates (unlike in `Edges.from_adjacency`), in the order of
    storage. The dtype stays; boolean entries only mark edges and are not features.

    Args:
        matrix: any format of SciPy, array or matrix; or a list of them, one per feature (head).

    Raises:
        DataError: it is not a sparse matrix with two axes, or the entries of several differ.
    """
    matrices = matrix if isinstance(matrix, Sequence) else [matrix]
    if not matrices:
        raise DataError("from_scipy: the list of matrices is empty.")

    for member in matrices:
        if not sparse.issparse(member) or member.ndim != 2:
            raise DataError(
                f"from_scipy: expected a sparse matrix of SciPy with two axes, not {type(member).__name__}."
            )

    entries = [member.tocoo() for member in matrices]
    first = entries[0]
    for number, other in enumerate(entries):
        is_same = other.shape == first.shape and np.array_equal(other.row, first.row)
        if not is_same or not np.array_equal(other.col, first.col):
            raise DataError(f"from_scipy: matrix {number} has other entries than matrix 0, or in another order.")

    receivers, senders = (torch.as_tensor(indices.astype(np.int64), device="cpu") for indices in (first.row, first.col))
    values = np.stack([other.data for other in entries], 1)
    if np.iscomplexobj(values):
        raise DataError("from_scipy: the entries are complex numbers; a weight is a number.")

    num_receivers, num_senders = (int(size) for size in first.shape)
    features = None if values.dtype == np.bool_ and len(entries) == 1 else torch.as_tensor(values, device="cpu")
    return Graph(None, Edges(senders, receivers, num_senders, num_receivers), features)
