"""What all tests of layers on graphs share: a graph with everything that may go wrong, shuffles, two graphs as one."""

import torch

from edgewise import Edges

GRAPH = Edges(torch.tensor([0, 2, 3, 1, 0, 4, 4, 2]), torch.tensor([1, 1, 1, 0, 2, 2, 4, 1]), 6, 6)
"""With an edge that stands twice (2 → 1), a loop (4), a node without senders (3) and one alone (5)."""
SIMPLE = Edges(torch.tensor([0, 2, 3, 1, 0, 4, 4]), torch.tensor([1, 1, 1, 0, 2, 2, 4]), 6, 6)
"""The same with every edge once, as a mask has them."""
OTHER = Edges(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 2]), 3, 3)
"""A smaller graph."""
NONE = torch.zeros(0, dtype=torch.int64)


def ready(layer):
    """The layer in float64, every parameter drawn anew, so that none is silently 0, and large enough to matter.

    From a seed: what a test draws after it is the same in every run.
    """
    torch.manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer.double().eval()


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def shuffled(edges):
    """A new order of the nodes and one of the edges, and the edges in both: node i of the old is place[i] of the new.

    Returns the edges, the places `nodes[order]` that stand in the new order, and the same for the edges.
    """
    order, edge_order = torch.randperm(edges.num_receivers), torch.randperm(edges.num_edges)
    place = order.argsort()
    return (
        Edges(place[edges.senders[edge_order]], place[edges.receivers[edge_order]], *[edges.num_receivers] * 2),
        order,
        edge_order,
    )


def packed(one, other):
    """Two graphs as one: their disjoint union, and the offsets."""
    shift = one.num_receivers
    edges = Edges(
        torch.cat([one.senders, other.senders + shift]),
        torch.cat([one.receivers, other.receivers + shift]),
        shift + other.num_senders,
        shift + other.num_receivers,
    )
    return edges, torch.tensor([0, shift, shift + other.num_receivers])


def edges_into(edges, node):
    """(edge, sender) of every edge that the node receives."""
    return [(e, int(edges.senders[e])) for e in range(edges.num_edges) if int(edges.receivers[e]) == node]
