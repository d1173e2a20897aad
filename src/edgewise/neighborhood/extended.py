"""Additional edges of a graph: random expander edges, and edges with virtual nodes.

expander edges   every node with a few random nodes, so that any two nodes are few hops apart
virtual nodes    additional nodes, connected with all nodes of their graph: any two nodes are two hops apart
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
"""The origin of an edge of an extended graph."""


class ExtendedEdges(NamedTuple):
    """The edges of a graph, followed by the added ones."""

    edges: Edges
    """Edges over the nodes of the graph, followed by its virtual nodes."""
    edge_types: Int64[Tensor, " edge"]
    """The type of each edge, as an index into `EDGE_TYPES`."""


def expander_edges(
    num_nodes: int, degree: int, *, seed: int = 0, offsets: Int64[Tensor, " boundary"] | None = None
) -> Edges:
    """A random graph in which every node has few neighbors but is close to every other node.

    The union of degree / 2 closed walks through all nodes in random order: symmetric, connected, without loops. With
    degree 4 or more such a graph is almost always an expander: any two nodes are about log n hops apart, and as many
    layers of attention mix all nodes. A pair shared by two walks is joined once, so that a few nodes have fewer than
    `degree` neighbors. Graphs with at most degree + 1 nodes become complete.

    The edges are determined by the number of nodes, the degree and the seed alone: a graph in a batch gets the same
    edges as alone. They are not invariant to the order of the nodes.

    Args:
        num_nodes: number of nodes of all graphs.
        degree: even number of neighbors per node; 2 is a ring, which is not an expander.
        seed: seed of the random walks.
        offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`; no edge joins two graphs. None for a single graph.

    Returns:
        Edges in both directions, by receiver, then sender.

    Raises:
        SettingError: the degree is odd or not positive, or the seed is negative.
        ShapeError: the offsets are invalid.

    Cost: O(num_nodes · degree · log num_nodes).
    Source: Shirzad et al. 2023 (Exphormer), expander edges, which draws permutations of the nodes; a closed walk is
    a permutation of one cycle, without loops (Friedman 2003, the model H).

    >>> edges = expander_edges(100, 4)
    >>> edges.num_edges <= 400, int(edges.degrees().max())
    (True, 4)
    """
    if degree < 2 or degree % 2 != 0:
        raise SettingError(f"expander_edges: degree is {degree}; expected an even number, at least 2.")
    if seed < 0:
        raise SettingError(f"expander_edges: seed is {seed}; expected 0 or more.")

    sizes = _sizes("expander_edges", num_nodes, offsets)
    start, size = (np.repeat(values, sizes) for values in (np.cumsum(sizes) - sizes, sizes))

    position = np.arange(num_nodes) - start
    pairs = []
    for walk in range(degree // 2):
        # Node p of every graph draws the same number, so that the edges of a graph do not depend on the others.
        random_keys = np.random.default_rng((seed, walk)).random(sizes.max(initial=0))[position]
        order = np.lexsort((random_keys, start))
        pairs.append((order, order[start + (position + 1) % size]))

    small = np.flatnonzero(size <= degree + 1)
    for step in range(1, size[small].max(initial=1)):
        pairs.append((small, (start + (position + step) % size)[small]))
    first, second = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    is_distinct = first != second
    both_ways = np.concatenate([(first * num_nodes + second)[is_distinct], (second * num_nodes + first)[is_distinct]])
    codes = torch.from_numpy(both_ways).unique().numpy()  # numpy's unique takes minutes for millions
    receivers, senders = np.divmod(codes, max(num_nodes, 1))

    return Edges(torch.from_numpy(senders), torch.from_numpy(receivers), num_nodes, num_nodes)


def virtual_edges(
    num_nodes: int, num_virtual_nodes: int = 1, *, offsets: Int64[Tensor, " boundary"] | None = None
) -> Edges:
    """Edges between every node and the virtual nodes of its graph, in both directions: any two nodes are two hops
    apart.

    Virtual nodes come after the real ones, graph after graph: number v of graph g is node
    `num_nodes + g * num_virtual_nodes + v`. They are not connected with each other.

    Args:
        num_nodes: number of real nodes of all graphs.
        num_virtual_nodes: number of virtual nodes per graph.
        offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`. None for a single graph.

    Returns:
        The edges from nodes to virtual nodes, then the reverse ones, node after node.

    Raises:
        SettingError: `num_virtual_nodes` is below 1.
        ShapeError: the offsets are invalid.

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

    Duplicates stay: a pair that is an edge of both the graph and the expander is listed twice, with its two types.

    Args:
        edges: edges of the graph.
        expander_degree: `degree` of `expander_edges`; 0 for none.
        num_virtual_nodes: number of virtual nodes per graph; 0 for none.
        seed, offsets: as in `expander_edges`.

    Raises:
        ShapeError: senders and receivers are different nodes.
    """
    if edges.num_senders != edges.num_receivers:
        raise ShapeError(
            f"extend_edges: senders and receivers are different nodes ({edges.num_senders} and "
            f"{edges.num_receivers}); expected a single set of nodes."
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

    senders, receivers = (torch.cat([tensor.to(device) for tensor in ends]) for ends in zip(*parts, strict=True))
    return ExtendedEdges(Edges(senders, receivers, total, total), torch.cat([tensor.to(device) for tensor in types]))


def _sizes(owner: str, num_nodes: int, offsets: Tensor | None) -> np.ndarray:
    """The number of nodes of each graph."""
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
