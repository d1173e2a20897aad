"""What people hold as a graph, read without other libraries: `edge_index` and torch's sparse matrices."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.neighborhood import Edges, is_edge_index

DIALECTS = {"torch_geometric": "pyg", "networkx": "networkx", "scipy": "scipy", "pandas": "pandas"}
"""What `edgewise.interop` calls a library: its module, with `from_…` and `to_…`, is imported when it is needed."""


def library_of(held: Any) -> str | None:
    """What the library is called whose class it is, or inherits from; None where it is none that is read."""
    roots = (base.__module__.split(".")[0] for base in type(held).__mro__)
    return next((DIALECTS[root] for root in roots if root in DIALECTS), None)


def converter(way: str, library: str) -> Any:
    """The function that reads ("from") or writes ("to") what a library holds."""
    return getattr(import_module(f"edgewise.interop.{library}"), f"{way}_{library}")


def edges_of_index(held: Any, num_nodes: int | tuple[int, int] | None = None) -> Edges:
    """PyTorch Geometric's `edge_index`, a tensor or array; without `num_nodes` the largest number is the last node.

    Raises:
        DataError: it is no table `(2, edge)` of whole numbers.
    """
    index = held if isinstance(held, Tensor) else torch.as_tensor(held, device="cpu")
    if not is_edge_index(index) and index.shape != torch.Size([2, 0]):
        raise DataError(
            f"Graph.of: a tensor {tuple(index.shape)} of {index.dtype} is no edge_index (2, edge) of whole numbers; "
            "Graph.of(Edges.from_adjacency(matrix)) makes a graph of a dense matrix."
        )
    if num_nodes is None:
        num_nodes = 1 + int(index.max()) if index.numel() else 0
    return Edges.from_edge_index(index, num_nodes)


def edges_of_matrix(matrix: Tensor) -> tuple[Edges, Tensor | None]:
    """A sparse matrix (receiver, sender) of torch: its entries as edges, and what they hold as features.

    Repeated places and zeros are edges too. Entries that are True mark an edge: they are no feature.

    Raises:
        DataError: it has other axes than two sparse ones and, perhaps, one of features.
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
