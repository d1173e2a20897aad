"""Batches of graphs from their parts, and batches with other parts."""

from dataclasses import replace

OF_ROWS = "nodes", "senders", "receivers", "graph_of_row", "row_features", "targets", "weights"
"""The parts that belong to the rows; all others belong to the graph."""


def batch_of(node_features, edges, edge_features=None, **parts):
    """A batch of the parts of its graph and its rows; modules may have been imported anew."""
    from edgewise.graph import Batch, Graph, Supervision

    rows = {name: parts.pop(name) for name in OF_ROWS if name in parts}
    return Batch(Graph(node_features, edges, edge_features, **parts), Supervision(**rows))


def changed(batch, **parts):
    """The same batch with other parts."""
    rows = {name: parts.pop(name) for name in OF_ROWS if name in parts}
    graph = replace(batch.graph, **parts) if parts else batch.graph
    return replace(batch, graph=graph, supervision=replace(batch.supervision, **rows))
