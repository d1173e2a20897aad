"""Graphs from `edge_index` and sparse torch tensors, and the converters of other libraries."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.choices import load
from edgewise.errors import DataError, SettingError, warned_once
from edgewise.neighborhood import Edges, is_edge_index

LIBRARIES = {
    "pyg": ("torch_geometric.data", ("Data", "HeteroData", "TemporalData", "Dataset")),
    "networkx": ("networkx", ("Graph",)),
    "scipy": ("scipy.sparse", ("sparray", "spmatrix")),
    "pandas": ("pandas", ("DataFrame",)),
}
"""The modules of `edgewise.interop` that have `from_…` and `to_…`, and the classes of the libraries that they read."""


def library_of(graph: Any) -> str | None:
    """The library of `LIBRARIES` whose class the object is an instance of; None if there is none.

    Nothing is an instance of a library that was not imported.
    """
    for library, (module, names) in LIBRARIES.items():
        imported = sys.modules.get(module)
        if isinstance(graph, tuple(getattr(imported, name, ()) for name in names)):
            return library
    return None


def converter(direction: str, library: str) -> Any:
    """The function that converts from ("from") or to ("to") the class of a library, imported when it is needed."""
    return load(f"edgewise.interop.{library}:{direction}_{library}")


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


def graph_from(source: Any, graph_class: Any, options: dict[str, Any]) -> Any:
    """`Graph.of`, which says what the source may be.

    Args:
        source: a graph in another form, or a list of graphs.
        graph_class: `Graph`, which cannot be imported here.
        options: those of the form.
    """
    if isinstance(source, list):
        with warned_once():
            return graph_class.batch([graph_class.of(member, **options) for member in source])
    is_sparse = isinstance(source, Tensor) and source.layout != torch.strided
    if isinstance(source, graph_class | Edges) or is_sparse:
        if options:
            raise SettingError(f"Graph.of: {', '.join(options)} is not an option for {type(source).__name__}; drop it.")
        if isinstance(source, graph_class):
            return source
        return graph_class(None, *((source,) if isinstance(source, Edges) else edges_of_matrix(source)))

    if isinstance(source, Tensor | np.ndarray):
        return graph_class(None, edges_of_index(source, **options))
    library = library_of(source[0] if isinstance(source, tuple) and source else source)
    if library == "pandas" or (library is not None and not isinstance(source, tuple)):
        return converter("from", library)(*(source if isinstance(source, tuple) else [source]), **options)
    if not isinstance(source, tuple) or len(source) not in (2, 3):
        raise DataError(
            f"Graph.of: {type(source).__name__} is not a graph; expected PyTorch Geometric's Data, HeteroData or "
            "Batch, a graph of networkx, a sparse matrix, an edge_index (2, edge), a pair (node_features, edges), "
            "tables of pandas, or a list of these."
        )

    if any(isinstance(part, np.ma.MaskedArray) for part in source):
        raise DataError("Graph.of: an array masks numbers, which tensors do not; give array.filled(numpy.nan).")
    nodes, edges, *features = (torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in source)
    needs_size = isinstance(nodes, Tensor) and isinstance(edges, Tensor) and edges.layout == torch.strided
    graph = graph_class.of(edges, **({"num_nodes": len(nodes)} if needs_size else {}), **options)
    graph = replace(graph, node_features=nodes)
    if not features:
        return graph
    (of_edges,) = features
    is_column = isinstance(of_edges, Tensor) and of_edges.dim() == 1
    return replace(graph, edge_features=of_edges[:, None] if is_column else of_edges)
