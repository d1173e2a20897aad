"""A `Graph`, or what `Graph.of` takes, in place of features, edges and what is known of both."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.graph import Graph
from edgewise.graph.forms import library_of
from edgewise.neighborhood import Types


class Parts(NamedTuple):
    """A graph as the estimators take it."""

    X: Any
    """(node, feature); None where nothing is known of nodes."""
    edges: Any
    """Who is connected with whom."""
    edge_features: Any
    """(edge, feature); None where there are none."""
    node_kinds: Any
    """(node) the name of each type; None where there is one."""
    edge_kinds: Any
    """(edge) likewise."""


def is_graph(held: Any) -> bool:
    """Whether it is a graph as a whole: ours, one of PyTorch Geometric or networkx, or (node features, edges)."""
    return isinstance(held, Graph | tuple) or library_of(held) in ("pyg", "networkx")


def parts_of(X: Any, edges: Any, edge_features: Any = None, node_kinds: Any = None, edge_kinds: Any = None) -> Parts:
    """The parts as they were given, or those of the graph that stands in the place of X.

    Raises:
        DataError: there are no edges, and X is no graph; or it is, and parts of it were given beside it.
    """
    if edges is not None or not is_graph(X):
        if edges is None:
            raise DataError(f"edges is missing: give edges, or a Graph in place of X; X is {type(X).__name__}.")
        return Parts(X, edges, edge_features, node_kinds, edge_kinds)
    beside = {"edge_features": edge_features, "node_kinds": node_kinds, "edge_kinds": edge_kinds}
    for name, held in beside.items():
        if held is not None:
            raise DataError(f"{name} was given beside a graph that holds it; put it into the graph.")
    graph = Graph.of(X)
    types, relations = graph.node_types, graph.edge_types
    if isinstance(graph.edge_features, tuple):
        raise DataError("edges of different types have different features, which no estimator reads; leave them out.")
    features: Any = None
    if isinstance(graph.node_features, tuple) and types is not None:
        features = _side_by_side(graph.node_features, types)
    elif graph.node_features is not None:
        features = _fractions(graph.node_features)
    of_edges = None
    if relations is not None:
        called = [name[1] if isinstance(name, tuple) else name for name in names_of(relations)]
        of_edges = [called[number] for number in relations.of_row.tolist()]
    return Parts(
        features,
        graph.edges,
        None if graph.edge_features is None else _fractions(graph.edge_features).numpy(),
        None if types is None else [names_of(types)[number] for number in types.of_row.tolist()],
        None if of_edges is None or set(of_edges) == {"to"} else of_edges,
    )


def plain_parts_of(owner: str, X: Any, edges: Any, edge_features: Any = None) -> Parts:
    """The same for an estimator that knows one type of nodes and edges.

    Raises:
        DataError: the graph has more.
    """
    found = parts_of(X, edges, edge_features)
    if found.node_kinds is not None or found.edge_kinds is not None:
        raise DataError(f"{owner} reads graphs of one type of nodes and edges; replace(graph, node_types=None, …).")
    return found


def one_by_one(graphs: Any) -> Any:
    """The graphs of a batch, ours or PyTorch Geometric's, one by one; others as they are."""
    if isinstance(graphs, Graph):
        return graphs.unbatch()
    return graphs.to_data_list() if library_of(graphs) == "pyg" and hasattr(graphs, "to_data_list") else graphs


def names_of(types: Types) -> Sequence[Any]:
    """The names of types, or their numbers."""
    return range(types.num_types) if types.names is None else types.names


def _fractions(table: Any) -> Tensor:
    table = table.detach().cpu()
    return table if table.dtype in (torch.float32, torch.float64) else table.to(torch.float32)


def _side_by_side(tables: Sequence[Tensor | None], types: Types) -> np.ndarray:
    """One table with the columns of each type; NaN where a column is none of a node's type."""
    widths = [0 if table is None else table.shape[1] for table in tables]
    starts = np.cumsum([0, *widths])
    found = np.full((len(types), starts[-1]), np.nan)
    rows = types.split(torch.arange(len(types)))
    for own, table, start in zip(rows, tables, starts):
        if table is not None:
            found[own.numpy(), start : start + table.shape[1]] = table.detach().cpu().numpy()
    return found
