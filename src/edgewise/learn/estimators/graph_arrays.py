"""Features of nodes and edges as arrays and matrices hold them."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, plural
from edgewise.learn.estimators.names import has_columns
from edgewise.learn.estimators.numbers import as_numbers, unwrapped
from edgewise.learn.readers.graphs.file import check_edges
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, too_large
from edgewise.neighborhood import Edges
from edgewise.neighborhood.index import entries

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def is_matrix(edges: object) -> bool:
    """Whether edges are a sparse matrix, of SciPy or torch."""
    is_sparse_tensor = isinstance(edges, Tensor) and edges.layout != torch.strided
    return is_sparse_tensor or (hasattr(edges, "tocoo") and not isinstance(edges, Edges))


def edges_of_matrix(matrix: "Tensor | csr_array") -> tuple[Edges, np.ndarray | None]:
    """The entries of a sparse matrix as edges, and their values (edge); None where all that it stores are 1, of which
    several at one place mean one edge."""
    receivers, senders, values, (num_receivers, num_senders) = entries(matrix)
    stored = matrix.detach().to_sparse_coo()._values() if isinstance(matrix, Tensor) else matrix.tocoo().data
    weights = None if bool((stored == 1).all()) else as_numbers("edges", values)
    return Edges(senders, receivers, num_senders, num_receivers), weights


def edges_of(edges: object, num_nodes: int | None = None) -> Edges:
    """Edges, whatever holds them: `Edges`, or whole numbers (2, edge).

    Args:
        edges: The edges.
        num_nodes: How many nodes there are; by default as many as the edges know or name.

    Raises:
        DataError: They have another shape, or name no node.
    """
    num_known = edges.num_receivers if isinstance(edges, Edges) else 0
    if has_columns(edges):
        raise DataError("edges is a DataFrame; give whole numbers (2, edge): frame[[sender, receiver]].to_numpy().T.")
    if isinstance(edges, Edges):
        index = np.stack([edges.senders.cpu().numpy(), edges.receivers.cpu().numpy()])
    else:
        index = edges.cpu().numpy() if isinstance(edges, Tensor) else np.asarray(edges)
        if index.ndim != 2 or index.shape[0] != 2 or not (np.issubdtype(index.dtype, np.integer) or not index.size):
            remedy = "; where each row is an edge, give the transpose" if index.shape[1:] == (2,) else ""
            raise DataError(
                f"edges is {index.dtype} {index.shape}; expected Edges, or whole numbers (2, edge){remedy}."
            )
        is_listed = isinstance(edges, list | tuple) and all(isinstance(pair, list | tuple) for pair in edges)
        if is_listed and index.shape == (2, 2) and not np.array_equal(index, index.T):
            raise DataError(
                f"edges is {edges}, which may be two edges, or two senders above their receivers; give "
                "np.array(edges).T where each pair is an edge, else np.array(edges): an array is (2, edge)."
            )
    num_nodes = max(num_known, int(index.max(initial=-1)) + 1) if num_nodes is None else num_nodes
    check_edges("edges", index, num_nodes)
    senders, receivers = torch.from_numpy(index.astype(np.int64))
    return Edges(senders, receivers, num_nodes, num_nodes)


def sparse_features_of(matrix: "csr_array") -> NodeFeatures:
    """The features of nodes in a sparse matrix of SciPy.

    Raises:
        DataError: A number is too large to be scaled in single precision.
    """
    table = matrix.tocsr().tocoo()
    rows, columns = (numbers.astype(np.int64) for numbers in (table.row, table.col))
    for entry in too_large(table.data, LARGEST_SINGLE)[:1].tolist():
        raise DataError(
            f"X[{rows[entry]}, {columns[entry]}] is {table.data[entry]:g}, beyond ±{LARGEST_SINGLE:g} and too large to "
            "be scaled; give it in another unit."
        )
    return NodeFeatures.of_entries(rows, columns, table.data.astype(np.float32), table.shape)


def dense_features_of(features: object) -> Tensor:
    """The features of nodes (node, feature) in a tensor, an array or a DataFrame.

    Raises:
        DataError: They have another shape.
    """
    if not isinstance(features, Tensor):
        dtype = getattr(features, "dtype", None) or np.asarray(unwrapped(features)).dtype
        if getattr(dtype, "kind", "") == "c":
            raise DataError(f"X is {dtype}. Complex data not supported: give real and imaginary parts apart.")
        features = torch.from_numpy(np.array(as_numbers("X", features)))
    values = features.detach().cpu()
    if values.ndim != 2:
        axes = plural(values.ndim, "axis", "axes")
        raise DataError(f"X has {axes}; expected (node, feature). Reshape your data: X.reshape(-1, 1) is one feature.")
    return values
