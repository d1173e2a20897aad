"""Graphs from `edge_index` and sparse torch tensors, and the converters of other libraries."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.neighborhood import Edges, is_edge_index

DIALECTS = {"torch_geometric": "pyg", "networkx": "networkx", "scipy": "scipy", "pandas": "pandas"}
"""The module of `edgewise.interop` for each library, with `from_…` and `to_…`; imported when it is needed."""


def library_of(graph: Any) -> str | None:
    """The supported library whose class the object is an instance of; None if there is none."""
    roots = (base.__module__.split(".")[0] for base in type(graph).__mro__)
    return next((DIALECTS[root] for root in roots if root in DIALECTS), None)


def converter(direction: str, library: str) -> Any:
    """The function that converts from ("from") or to ("to") the class of a library."""
    return getattr(import_module(f"edgewise.interop.{library}"), f"{direction}_{library}")


def edges_of_index(edge_index: Any, num_nodes: int | tuple[int, int] | None = None) -> Edges:
    """PyTorch Geometric's `edge_index`, a tensor or array; without `num_nodes` the largest index is the last node.

    Raises:
        DataError: it is not an integer tensor `(2, edge)`.
    """
    index = edge_index if isinstance(edge_index, Tensor) else torch.as_tensor(edge_index, device="cpu")
    if not is_edge_index(index) and index.shape != torch.Size([2, 0]):
        raise DataError(
            f"Graph.of: a tensor {tuple(index.shape)} of {index.dtype} is not an edge_index, an integer tensor (2, "
            f"edge); "
            "use Graph.of(Edges.from_adjacency(matrix)) for a dense matrix."
        )

    if num_nodes is None:
        num_nodes = 1 + int(index.max()) if index.numel() else 0
    return Edges.from_edge_index(index, num_nodes)


def edges_of_matrix(matrix: Tensor) -> tuple[Edges, Tensor | None]:
    """A sparse torch matrix (receiver, sender): its entries as edges, and their values as features.

    Duplicate entries and zeros are edges too. Boolean entries only mark edges and are not features.

    Raises:
        DataError: it does not have two sparse axes and at most one dense axis of features.
    """
    coo = matrix.detach().to_sparse_coo()
    if coo.sparse_dim() != 2 or coo.dense_dim() > 1:
        raise DataError(
            f"Graph.of: a tensor with {coo.sparse_dim()} sparse and {coo.dense_dim()} dense axes; expected two sparse "
            "axes, (receiver, sender), and at most one of features."
        )

    (receivers, senders), values = coo._indices(), coo._values()
    edges = Edges(senders, receivers, matrix.shape[1], matrix.shape[0])
    if values.dtype == torch.bool and values.dim() == 1:
        return edges, None

    return edges, values if values.dim() == 2 else values[:, None]
