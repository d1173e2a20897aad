"""Layers over very many edges, in chunks of receivers: memory is that of the nodes, not of the edges."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from edgewise.graph import Graph, SparseFeatures, Trace
from edgewise.neighborhood import Edges

MAX_EDGES = 2**20
"""Edges of a chunk, without gradients; a receiver with more edges is computed alone."""
Layer = Callable[[Tensor | SparseFeatures, Graph], Tensor]
"""A function from nodes to nodes, along the edges of a graph."""


def by_receivers(layer: Layer, nodes: Tensor | SparseFeatures, graph: Graph, trace: Trace | None = None) -> Tensor:
    """`layer(nodes, graph)`, exactly; with more than `MAX_EDGES` edges in chunks of receivers, each with all its edges.

    A layer that computes something for each edge, such as a projection of its features, then needs memory for one
    chunk of edges. With gradients, a trace or few edges, everything is computed at once.

    Args:
        layer: its output for a receiver depends only on the edges of the receiver and their senders.
        nodes: the input of the layer.
        graph: the edges, their features and types, and the types of nodes.
        trace: records the layer; None records nothing.
    """
    is_small = graph.num_edges <= MAX_EDGES
    if is_small or trace is not None or torch.is_grad_enabled() or isinstance(nodes, SparseFeatures):
        return layer(nodes, graph)
    outputs = [layer(nodes[node_rows], chunk)[:count] for node_rows, chunk, count in chunks(graph)]
    return torch.cat(outputs)


def chunks(graph: Graph) -> Iterator[tuple[Tensor, Graph, int]]:
    """For each chunk of receivers: the rows of its nodes, receivers first; their graph; the number of receivers."""
    plan, features = graph.edges.plan, graph.edge_features
    assert not isinstance(features, tuple)
    offsets, num_nodes = plan.receiver_offsets.long(), graph.edges.num_receivers
    row_in_chunk = offsets.new_empty(num_nodes)

    start = 0
    while start < num_nodes:
        limit = offsets[start] + MAX_EDGES
        stop = max(start + 1, int(torch.searchsorted(offsets, limit, right=True)) - 1)
        edge_range = slice(int(offsets[start]), int(offsets[stop]))
        senders, edge_rows = plan.senders[edge_range].long(), plan.receiver_edges[edge_range].long()
        receivers = torch.arange(start, stop, device=offsets.device)
        distinct_senders = senders.unique()
        is_outside = (distinct_senders < start) | (distinct_senders >= stop)
        node_rows = torch.cat([receivers, distinct_senders[is_outside]])

        row_in_chunk[node_rows] = torch.arange(len(node_rows), device=node_rows.device)
        counts = offsets[start : stop + 1].diff()
        receiver_in_chunk = torch.arange(stop - start, device=node_rows.device).repeat_interleave(counts)
        chunk = Graph.unchecked(
            None,
            Edges(row_in_chunk[senders], receiver_in_chunk, len(node_rows), len(node_rows)),
            None if features is None else features[edge_rows],
            node_types=None if graph.node_types is None else graph.node_types[node_rows],
            edge_types=None if graph.edge_types is None else graph.edge_types[edge_rows],
        )
        yield node_rows, chunk, stop - start
        start = stop
