"""Conversion of the arguments of the operator and layers to neighborhoods, and edges derived from a graph."""

from typing import Any

import torch
from jaxtyping import Int, Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood.checks import check_offsets
from edgewise.neighborhood.index import unchecked
from edgewise.neighborhood.pairs import Edges, Neighborhood

EdgeIndex = Int[Tensor, " 2 edge"]
"""PyTorch Geometric's `edge_index`: a row of sources (senders) above a row of targets (receivers)."""
GivenNeighborhood = Neighborhood | EdgeIndex
"""The types that the operator and layers accept as a neighborhood."""


def neighborhood_of(verb: str, neighborhood: Any, num_queries: int, num_keys: int) -> Neighborhood:
    """A neighborhood unchanged, or PyTorch Geometric's `edge_index` as `Edges`.

    An `edge_index` is copied, checked and planned at every call: create `Edges.from_edge_index(edge_index, num_nodes)`
    once to use it several times.

    Args:
        verb: the name of the caller, for messages.
        neighborhood: a neighborhood, or an integer tensor `(2, edge)`, source → target.
        num_queries, num_keys: the sizes of the edges.

    Raises:
        SettingError: it is neither; the message names a remedy.
        ShapeError: an index is not a node.
    """
    if isinstance(neighborhood, Neighborhood):
        return neighborhood
    if is_edge_index(neighborhood):
        return Edges.from_edge_index(neighborhood, (num_keys, num_queries))

    raise SettingError(
        f"{verb}: neighborhood must be a Neighborhood or an edge_index, not {_description(neighborhood)}."
    )


def edges_of(
    verb: str, neighborhood: Any, num_queries: int, num_keys: int, device: Any = None, beside: Any = None
) -> Edges:
    """The neighborhood as a list of edges; for other neighborhoods than `Edges` this takes time proportional to their
    table. `device` is used for neighborhoods without tensors; `beside` has a row for each edge, or is None.

    Raises:
        SettingError, ShapeError: as above, or the neighborhood has other sizes, or varies over batch axes; or it does
            not list its edges, so that nothing says which row belongs to which.
    """
    converted = neighborhood_of(verb, neighborhood, num_queries, num_keys)
    if beside is not None and not isinstance(converted, Edges):
        raise ShapeError(f"{verb}: edge features need Edges; to_edges() makes them of a neighborhood.")
    converted._resolve(verb, num_queries, num_keys)
    if device is not None:
        require_device(verb, converted, device)
    return converted.to_edges(num_queries, num_keys, device)


def require_device(verb: str, neighborhood: Neighborhood, device: torch.device) -> None:
    """Raise a ShapeError where the neighborhood has tensors on another device than those that it goes with."""
    if (actual := neighborhood._device(device)) != device:
        name = type(neighborhood).__name__
        raise ShapeError(
            f"{verb}: the tensors are on {device} but {name} is on {actual}; neighborhood.to({str(device)!r}) moves it."
        )


def is_edge_index(neighborhood: Any) -> bool:
    """Whether it is an integer tensor `(2, edge)`."""
    if (
        not isinstance(neighborhood, Tensor)
        or neighborhood.dim() != 2
        or neighborhood.shape[0] != 2
        or neighborhood.layout != torch.strided
    ):
        return False
    return not (neighborhood.is_floating_point() or neighborhood.is_complex() or neighborhood.dtype == torch.bool)


def _description(neighborhood: Any) -> str:
    """What the argument is, and how to make a neighborhood of it."""
    if isinstance(neighborhood, type):
        return f"the class {neighborhood.__name__}; write {neighborhood.__name__}(…)"
    if neighborhood is None:
        return "None; use Full() to attend to all keys"
    if not isinstance(neighborhood, Tensor):
        remedy = "Edges.from_edge_index takes arrays and lists, Edges.from_adjacency matrices"
        return f"{type(neighborhood).__name__}; {remedy}"
    received = f"a tensor {tuple(neighborhood.shape)} of {neighborhood.dtype}"
    if neighborhood.dtype == torch.bool:
        return f"{received}; use Mask(mask), True = may attend"
    return f"{received}; use Edges.from_adjacency for a matrix; an additive mask goes to bias"


def derived(
    senders: Int64[Tensor, " edge"], receivers: Int64[Tensor, " edge"], num_senders: int, num_receivers: int
) -> Edges:
    """Edges derived from checked ones: they are checked again only on a CPU, where that needs no synchronization."""
    if senders.device.type == "cpu" or torch.compiler.is_compiling():
        return Edges(senders, receivers, num_senders, num_receivers)
    fields = {"senders": senders, "receivers": receivers, "num_senders": num_senders, "num_receivers": num_receivers}
    return unchecked(object.__new__(Edges), **fields)


def looped(edges: Edges) -> Edges:
    """The edges, followed by a loop on every node, in the order of the nodes."""
    size = edges.num_receivers
    nodes = torch.arange(size, device=edges.senders.device)
    return derived(torch.cat([edges.senders, nodes]), torch.cat([edges.receivers, nodes]), size, size)


def membership(offsets: Int64[Tensor, " boundary"], num_nodes: int) -> Edges:
    """Every node as an edge from itself to its graph; nodes of graph g are `offsets[g]:offsets[g + 1]`.

    Raises:
        ShapeError: the offsets do not start at 0, decrease, or do not end at the number of nodes.
    """
    check_offsets("membership", offsets, num_nodes)
    nodes = torch.arange(num_nodes, device=offsets.device)
    graph_of_node = torch.searchsorted(offsets[1:], nodes, right=True)
    return derived(nodes, graph_of_node, num_nodes, offsets.shape[0] - 1)
