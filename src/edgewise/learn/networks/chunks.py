"""Layers over very many edges, in chunks of receivers: memory is that of the nodes, not of the edges."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from edgewise.graph import Graph, SparseFeatures
from edgewise.neighborhood import Edges
from edgewise.trace import Trace

MAX_EDGES = 2**20
"""Edges of a chunk, without gradients; a receiver with more edges is computed alone."""
Layer = Callable[[Tensor | SparseFeatures, Graph], Tensor]
"""A function from nodes to nodes, along the edges of a graph."""


def by_receivers(layer: Layer, nodes: Tensor | SparseFeatures, graph: Graph, trace: Trace | None = None) -> Tensor:
    """`layer(nodes, graph)`, exact; of more than `MAX_EDGES` edges in chunks of receivers, each with all its edges.

    A layer that computes something for each edge, such as the projection of its features, then has room for a chunk
    of them. Where gradients or a trace are wanted, or there are few edges, all are computed together.

    Args:
        layer: reads of a receiver only its edges and their senders.
        nodes: before the layer.
        graph: the edges, their features and types, and the types of nodes.
        trace: what records the layer, if anything does.
    """
    is_small = graph.num_edges <= MAX_EDGES
    if is_small or trace is not None or torch.is_grad_enabled() or isinstance(nodes, SparseFeatures):
        return layer(nodes, graph)
    parts = [layer(nodes[node_rows], part)[:count] for node_rows, part, count in chunks(graph)]
    return torch.cat(parts)


def chunks(graph: Graph) -> Iterator[tuple[Tensor, Graph, int]]:
    """Receivers in turn: the nodes of a chunk, its receivers first; the graph of these nodes; how many receivers."""
    plan, features = graph.edges.plan, graph.edge_features
    assert not isinstance(features, tuple)
    offsets, num_nodes = plan.receiver_offsets.long(), graph.edges.num_receivers
    row_in_chunk = offsets.new_empty(num_nodes)

    start = 0
    while start < num_nodes:
        limit = offsets[start] + MAX_EDGES
        stop = max(start + 1, int(torch.searchsorted(offsets, limit, right=True)) - 1)
        inside = slice(int(offsets[start]), int(offsets[stop]))
        senders, own_edges = plan.senders[inside].long(), plan.receiver_edges[inside].long()
        receivers = torch.arange(start, stop, device=offsets.device)
        others = senders.unique()
        node_rows = torch.cat([receivers, others[(others < start) | (others >= stop)]])

        row_in_chunk[node_rows] = torch.arange(len(node_rows), device=node_rows.device)
        counts = offsets[start : stop + 1].diff()
        local = torch.arange(stop - start, device=node_rows.device).repeat_interleave(counts)
        part = Graph.unchecked(
            None,
            Edges(row_in_chunk[senders], local, len(node_rows), len(node_rows)),
            None if features is None else features[own_edges],
            node_types=None if graph.node_types is None else graph.node_types[node_rows],
            edge_types=None if graph.edge_types is None else graph.edge_types[own_edges],
        )
        yield node_rows, part, stop - start
        start = stop
