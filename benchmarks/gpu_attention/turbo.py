"""turbo-gnn's kernels (arXiv 2605.31500), where it is installed: dot products and GATv2 over the edges of one graph."""

import math

import torch
from torch import Tensor

from gpu_attention.case import Run
from gpu_attention.graphs import Graph


def run_of(score: str, graph: Graph, leaves: dict[str, Tensor]) -> Run:
    """The way of the library for a score; its lists of edges, in both directions, are made before."""
    import turbo_gnn

    ends = torch.stack([graph.senders, graph.receivers])
    edges = turbo_gnn.AdjacencyForwardBackwardWithNodeBuckets.from_edge_list(
        ends, graph.num_nodes, index_dtype=torch.int32
    )
    query, key = leaves["query"], leaves["key"]
    if score == "gatv2":
        vector = leaves["vector"][0]
        return lambda: turbo_gnn.gatv2_aggr(edges, query, key, vector, 0.2).reshape(query.shape)
    value, scale = leaves["value"], 1 / math.sqrt(query.shape[-1])
    return lambda: turbo_gnn.graph_transformer_aggr(edges, query.flatten(1), query, key, value, scale)
