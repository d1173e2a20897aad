"""Edges that follow from a batch of graphs: a loop on every node, and the graph that each node belongs to."""

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.neighborhood.pairs import Edges, unchecked


def derived(
    senders: Int64[Tensor, " edge"], receivers: Int64[Tensor, " edge"], num_senders: int, num_receivers: int
) -> Edges:
    """Edges made of others that were checked: only on a CPU, where nobody waits for it, are they looked at again."""
    if senders.device.type == "cpu" or torch.compiler.is_compiling():
        return Edges(senders, receivers, num_senders, num_receivers)
    fields = {"senders": senders, "receivers": receivers, "num_senders": num_senders, "num_receivers": num_receivers}
    return unchecked(object.__new__(Edges), **fields, _plan=None)


def looped(edges: Edges) -> Edges:
    """The edges as they are, and behind them a loop on every node, in the order of the nodes."""
    size = edges.num_receivers
    nodes = torch.arange(size, device=edges.senders.device)
    return derived(torch.cat([edges.senders, nodes]), torch.cat([edges.receivers, nodes]), size, size)


def membership(offsets: Int64[Tensor, " boundary"], num_nodes: int) -> Edges:
    """Every node as an edge from itself to its graph; nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    nodes = torch.arange(num_nodes, device=offsets.device)
    graph_of_node = torch.searchsorted(offsets[1:], nodes, right=True)
    return derived(nodes, graph_of_node, num_nodes, offsets.shape[0] - 1)
