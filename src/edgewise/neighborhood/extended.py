"""Edges that a graph does not have of itself: far nodes joined by few edges, and nodes that all others look at.

expander edges   every node with a few nodes drawn at random: all are near each other over few hops
virtual nodes    nodes behind the true ones that see all nodes of their graph, and are seen by them: two hops
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood.index import integers
from edgewise.neighborhood.pairs import Edges

EDGE_TYPES = ("graph", "expander", "to_virtual", "from_virtual")
"""Where an edge of an extended graph comes from."""


class ExtendedEdges(NamedTuple):
    """The edges of a graph, and behind them those that were added."""

    edges: Edges
    """Over the nodes of the graph and, behind them, its virtual nodes."""
    edge_types: Int64[Tensor, " edge"]
    """What each edge is, as a place in `EDGE_TYPES`."""


def expander_edges(
    num_nodes: int, degree: int, *, seed: int = 0, offsets: Int64[Tensor, " boundary"] | None = None
) -> Edges:
    """A random graph in which every node has few neighbors, and yet is near to every other.

    The union of degree / 2 closed walks through all nodes in random order: symmetric, connected, without loops. With
    degree 4 or more such a graph is nearly always an expander: about log n hops lead from any node to any other, and
    as many layers of attention mix all nodes. A pair that two of the walks share is joined once, so that a few nodes
    have fewer than `degree` neighbors. Of a graph with at most degree + 1 nodes all pairs are joined.

    The edges follow from the number of nodes, the degree and the seed alone: graphs side by side get the edges that
    each would get by itself. Nodes in another order get other edges.

    Args:
        num_nodes: how many nodes, those of all graphs together.
        degree: neighbors of a node; even. 2 is one ring, and no expander.
        seed: of the draw.
        offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`; no edge joins two graphs. One graph where None.

    Returns:
        Edges in both directions, by receiver, then sender.

    Raises:
        SettingError: the degree is odd or not positive, or the seed is negative.
        ShapeError: the offsets do not part the nodes.

    Cost: O(num_nodes · degree · log num_nodes).
    Source: Shirzad et al. 2023 (Exphormer), expander edges, where permutations of the nodes are drawn; a closed walk is
    a permutation of one cycle, which has no loop (Friedman 2003, the model H).

    >>> edges = expander_edges(100, 4)
    >>> edges.num_edges <= 400, int(edges.degrees().max())
    (True, 4)
    """
    if degree < 2 or degree % 2 != 0:
        raise SettingError(f"expander_edges: degree is {degree}; expected an even number, at least 2.")
    if seed < 0:
        raise SettingError(f"expander_edges: seed is {seed}; expected 0 or more.")
    sizes = _sizes("expander_edges", num_nodes, offsets)
    begin, size = (np.repeat(each, sizes) for each in (np.cumsum(sizes) - sizes, sizes))
    place = np.arange(num_nodes) - begin
    pairs = []
    for walk in range(degree // 2):
        # Node p of every graph draws the same number, as many nodes as the largest has: graphs do not know each other.
        drawn = np.random.default_rng((seed, walk)).random(sizes.max(initial=0))[place]
        order = np.lexsort((drawn, begin))
        pairs.append((order, order[begin + (place + 1) % size]))
    small = np.flatnonzero(size <= degree + 1)
    for step in range(1, size[small].max(initial=1)):
        pairs.append((small, (begin + (place + step) % size)[small]))
    one, other = (np.concatenate(side) for side in zip(*pairs, strict=True))
    apart = one != other
    both_ways = np.concatenate([(one * num_nodes + other)[apart], (other * num_nodes + one)[apart]])
    codes = torch.from_numpy(both_ways).unique().numpy()  # numpy's hash of millions takes minutes
    receivers, senders = np.divmod(codes, max(num_nodes, 1))
    return Edges(torch.from_numpy(senders), torch.from_numpy(receivers), num_nodes, num_nodes)


def virtual_edges(
    num_nodes: int, num_virtual_nodes: int = 1, *, offsets: Int64[Tensor, " boundary"] | None = None
) -> Edges:
    """Every node with the virtual nodes of its graph, in both directions: two hops lead from any node to any other.

    Virtual nodes stand behind the true ones, graph after graph: number v of graph g is node
    `num_nodes + g * num_virtual_nodes + v`. They are not joined with each other.

    Args:
        num_nodes: how many true nodes, those of all graphs together.
        num_virtual_nodes: of each graph.
        offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`. One graph where None.

    Returns:
        First the edges from nodes to virtual nodes, then those back, node after node.

    Raises:
        SettingError: there is no virtual node.
        ShapeError: the offsets do not part the nodes.

    Cost: O(num_nodes · num_virtual_nodes).
    Source: Gilmer et al. 2017, section 5.2 (a master node); Shirzad et al. 2023 (global nodes).

    >>> print(virtual_edges(3).draw())
    · · · ■
    · · · ■
    · · · ■
    ■ ■ ■ ·
    """
    if num_virtual_nodes < 1:
        raise SettingError(f"virtual_edges: num_virtual_nodes is {num_virtual_nodes}; expected at least 1.")
    sizes = _sizes("virtual_edges", num_nodes, offsets)
    nodes = torch.arange(num_nodes, device="cpu").repeat_interleave(num_virtual_nodes)
    graph = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    virtual = graph[:, None] * num_virtual_nodes + torch.arange(num_virtual_nodes, device="cpu") + num_nodes
    virtual, total = virtual.flatten(), num_nodes + len(sizes) * num_virtual_nodes
    return Edges(torch.cat([nodes, virtual]), torch.cat([virtual, nodes]), total, total)


def extend_edges(
    edges: Edges,
    *,
    expander_degree: int = 0,
    num_virtual_nodes: int = 0,
    seed: int = 0,
    offsets: Int64[Tensor, " boundary"] | None = None,
) -> ExtendedEdges:
    """The edges of a graph, then expander edges, then those to virtual nodes and those from them.

    Nothing is joined or dropped: a pair that is an edge of the graph and of the expander stands in the list twice, as
    what it is each time.

    Args:
        edges: of the graph.
        expander_degree: `degree` of `expander_edges`; 0 for none.
        num_virtual_nodes: of each graph; 0 for none.
        seed, offsets: those of `expander_edges`.

    Raises:
        ShapeError: senders and receivers are different nodes.
    """
    if edges.num_senders != edges.num_receivers:
        raise ShapeError(
            f"extend_edges: senders and receivers are different nodes here ({edges.num_senders} and "
            f"{edges.num_receivers}); it is defined for one set of nodes."
        )
    num_nodes, device = edges.num_senders, edges.senders.device
    parts, types = [(edges.senders, edges.receivers)], [torch.zeros_like(edges.senders)]
    if expander_degree:
        expander = expander_edges(num_nodes, expander_degree, seed=seed, offsets=offsets)
        parts.append((expander.senders, expander.receivers))
        types.append(torch.full_like(expander.senders, EDGE_TYPES.index("expander")))
    total = num_nodes
    if num_virtual_nodes:
        virtual = virtual_edges(num_nodes, num_virtual_nodes, offsets=offsets)
        parts.append((virtual.senders, virtual.receivers))
        is_from = virtual.senders >= num_nodes
        types.append(torch.where(is_from, EDGE_TYPES.index("from_virtual"), EDGE_TYPES.index("to_virtual")))
        total = virtual.num_senders
    senders, receivers = (torch.cat([part.to(device) for part in ends]) for ends in zip(*parts, strict=True))
    return ExtendedEdges(Edges(senders, receivers, total, total), torch.cat([each.to(device) for each in types]))


def _sizes(owner: str, num_nodes: int, offsets: Tensor | None) -> np.ndarray:
    """How many nodes each graph has."""
    if num_nodes < 0:
        raise SettingError(f"{owner}: num_nodes is {num_nodes}; expected 0 or more.")
    if offsets is None:
        return np.array([num_nodes])
    bounds = integers(owner, "offsets", offsets).cpu().numpy()
    if bounds.ndim != 1 or len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != num_nodes or (np.diff(bounds) < 0).any():
        raise ShapeError(
            f"{owner}: offsets must begin with 0, not decrease and end with {num_nodes}, the number of nodes; "
            "they are boundaries, as from cumsum of the sizes."
        )
    return np.diff(bounds)
