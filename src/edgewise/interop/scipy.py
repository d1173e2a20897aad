"""Graphs to and from SciPy's sparse matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.graph import Graph
from edgewise.interop.attributes import array_of, weighted
from edgewise.neighborhood import Edges

try:
    from scipy import sparse
except ModuleNotFoundError as error:
    raise MissingExtraError("scipy", "graphs") from error


def to_scipy(graph: Graph | Edges, *, feature: int | None = None) -> "sparse.coo_array":
    """One feature (head) of a graph as a matrix (receiver, sender), an entry an edge, in the order of the edges.

        A_ij = weight of j → i

    That is the order of `Weights.to_dense` and `Edges.from_adjacency`: (A x)_i sums over the neighbors of i.
    networkx and `scipy.sparse.csgraph` read rows as senders: give them the transpose, `A.T`. Parallel edges are entries
    at one place, which SciPy adds up as soon as it converts the matrix to another format; the COO format keeps them.
    Names and features of nodes have no place in a matrix.

    Args:
        graph: the graph; its senders and receivers may be two sets of nodes.
        feature: which feature of the edges; needed where there are several. Where there is none, entries are 1.

    Raises:
        SettingError: there is no such feature, or several and none is named.

    >>> from edgewise import Edges
    >>> to_scipy(Edges([0, 0], [1, 1], 3, 2)).toarray().tolist()
    [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    """
    graph = weighted(graph)
    edges, features = graph.edges, graph.edge_features
    if isinstance(features, tuple):
        raise SettingError("to_scipy: edges of different types have different features; a matrix holds one for all.")
    count = 0 if features is None else features.shape[1]
    if features is None and feature is None:
        values = np.ones(edges.num_edges, dtype=np.float32)
    else:
        chosen = 0 if feature is None else feature
        if features is None or (feature is None and count > 1) or not 0 <= chosen < count:
            raise SettingError(
                f"to_scipy: feature is {feature}, but edges have {count}; a matrix holds one, from 0 on."
            )
        values = array_of(features[:, chosen])
    places = (edges.receivers.cpu().numpy(), edges.senders.cpu().numpy())
    return sparse.coo_array((values, places), shape=(edges.num_receivers, edges.num_senders))


def from_scipy(matrix: Any) -> Graph:
    """A sparse matrix (receiver, sender), or several with the same entries, as edges with a feature each.

    Every stored entry is an edge, a zero and a repeated place too (`Edges.from_adjacency` takes neither), in the order
    in which they are stored. The dtype stays; entries that are True mark an edge, and are no feature.

    Args:
        matrix: any format of SciPy, array or matrix; or a list of them, one a feature (head).

    Raises:
        DataError: it is no sparse matrix with two axes, or the entries of several differ.
    """
    listed = matrix if isinstance(matrix, Sequence) else [matrix]
    if not listed:
        raise DataError("from_scipy: there is no matrix.")
    for one in listed:
        if not sparse.issparse(one) or one.ndim != 2:
            raise DataError(f"from_scipy: expected a sparse matrix of SciPy with two axes, not {type(one).__name__}.")
    entries = [one.tocoo() for one in listed]
    first = entries[0]
    for place, other in enumerate(entries):
        same = other.shape == first.shape and np.array_equal(other.row, first.row)
        if not same or not np.array_equal(other.col, first.col):
            raise DataError(f"from_scipy: matrix {place} has other entries than matrix 0, or in another order.")
    receivers, senders = (torch.as_tensor(places.astype(np.int64), device="cpu") for places in (first.row, first.col))
    values = np.stack([other.data for other in entries], 1)
    if np.iscomplexobj(values):
        raise DataError("from_scipy: the entries are complex numbers; a weight is a number.")
    num_receivers, num_senders = (int(size) for size in first.shape)
    features = None if values.dtype == np.bool_ and len(entries) == 1 else torch.as_tensor(values, device="cpu")
    return Graph(None, Edges(senders, receivers, num_senders, num_receivers), features)
