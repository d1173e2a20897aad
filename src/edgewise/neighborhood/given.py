"""Who attends to whom as the operator and layers take it: one conversion, at the public edge;
and edges that follow from those of a graph."""

from typing import Any

import torch
from jaxtyping import Int, Int64
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.neighborhood.checks import check_offsets
from edgewise.neighborhood.index import unchecked
from edgewise.neighborhood.pairs import Edges, Neighborhood

EdgeIndex = Int[Tensor, " 2 edge"]
"""PyTorch Geometric's table of edges: sources, which are senders, above targets, which are receivers."""
GivenNeighborhood = Neighborhood | EdgeIndex
"""What the operator and layers take for a neighborhood."""


def neighborhood_of(verb: str, given: Any, num_queries: int, num_keys: int) -> Neighborhood:
    """A neighborhood as it is, and PyTorch Geometric's `edge_index` as `Edges`.

    A table is read, checked and planned anew at every call: make `Edges.from_edge_index(edge_index, num_nodes)` once
    where it serves several.

    Args:
        verb: what it was handed to, for messages.
        given: a neighborhood, or a tensor `(2, edge)` of whole numbers, source → target.
        num_queries, num_keys: the sizes of the edges that are made.

    Raises:
        SettingError: it is neither; the message names a remedy.
        ShapeError: a number of the table names no node.
    """
    if isinstance(given, Neighborhood):
        return given
    if is_edge_index(given):
        return Edges.from_edge_index(given, (num_keys, num_queries))
    raise SettingError(f"{verb}: neighborhood must be a Neighborhood or an edge_index, not {_called(given)}.")


def edges_of(verb: str, given: Any, num_queries: int, num_keys: int, device: Any = None) -> Edges:
    """The same as a list of edges: other neighborhoods are listed, which takes as long as their table is large, on the
    device that is named where they hold no tensor.

    Raises:
        SettingError, ShapeError: as above, or the neighborhood has other sizes, or varies over batch axes.
    """
    found = neighborhood_of(verb, given, num_queries, num_keys)
    found._resolve(verb, num_queries, num_keys)
    return found.to_edges(num_queries, num_keys, device)


def is_edge_index(given: Any) -> bool:
    """Whether it is a table `(2, edge)` of whole numbers."""
    if not isinstance(given, Tensor) or given.dim() != 2 or given.shape[0] != 2 or given.layout != torch.strided:
        return False
    return not (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool)


def _called(given: Any) -> str:
    """What it is, and what would make a neighborhood of it."""
    if isinstance(given, type):
        return f"the class {given.__name__}; write {given.__name__}(…)"
    if given is None:
        return "None; Full() lets all attend to all"
    if not isinstance(given, Tensor):
        remedy = "Edges.from_edge_index takes arrays and lists, Edges.from_adjacency matrices"
        return f"{type(given).__name__}; {remedy}"
    what = f"a tensor {tuple(given.shape)} of {given.dtype}"
    if given.dtype == torch.bool:
        return f"{what}; Mask(mask) makes one, True = may attend"
    return f"{what}; Edges.from_adjacency makes one of a matrix, and an additive mask goes to bias"


def derived(
    senders: Int64[Tensor, " edge"], receivers: Int64[Tensor, " edge"], num_senders: int, num_receivers: int
) -> Edges:
    """Edges made of others that were checked: only on a CPU, where nobody waits for it, are they looked at again."""
    if senders.device.type == "cpu" or torch.compiler.is_compiling():
        return Edges(senders, receivers, num_senders, num_receivers)
    fields = {"senders": senders, "receivers": receivers, "num_senders": num_senders, "num_receivers": num_receivers}
    return unchecked(object.__new__(Edges), **fields)


def looped(edges: Edges) -> Edges:
    """The edges as they are, and behind them a loop on every node, in the order of the nodes."""
    size = edges.num_receivers
    nodes = torch.arange(size, device=edges.senders.device)
    return derived(torch.cat([edges.senders, nodes]), torch.cat([edges.receivers, nodes]), size, size)


def membership(offsets: Int64[Tensor, " boundary"], num_nodes: int) -> Edges:
    """Every node as an edge from itself to its graph; nodes of graph g are `offsets[g]:offsets[g + 1]`.

    Raises:
        ShapeError: the offsets do not begin at 0, fall, or do not end at the number of nodes.
    """
    check_offsets("membership", offsets, num_nodes)
    nodes = torch.arange(num_nodes, device=offsets.device)
    graph_of_node = torch.searchsorted(offsets[1:], nodes, right=True)
    return derived(nodes, graph_of_node, num_nodes, offsets.shape[0] - 1)
