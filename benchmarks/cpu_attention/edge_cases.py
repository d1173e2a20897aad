"""Attention and convolution over the edges of a graph.

Storage is `(node, head, feature)` for everyone: PyTorch Geometric takes it as it is, edgewise as `(head, node,
feature)` by a transpose, which copies nothing.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor, nn

from cpu_attention import plain, pyg
from cpu_attention.backend import only
from cpu_attention.case import COMPILED, OURS, OURS_IN_FLOAT32, PLAIN, Case, Peer
from cpu_attention.graphs import Graph
from cpu_attention.machine import free_bytes
from cpu_attention.options import HEAD_DIM, NUM_HEADS
from edgewise import GAT, Constant, Edges, GATv2, Identity, aggregate, attend
from edgewise.layers import MultiHeadAttention
from edgewise.score import ScaledDot, Score

FLOAT = 4
"""Bytes of a number in float32."""
NUMBERS = NUM_HEADS * HEAD_DIM
"""Of a node's row."""
WIDE_TENSORS = 8
"""A peer that materializes the edges holds about this many rows of an edge in a backward pass."""


def dot(graph: Graph, ours: str, compiled: bool = True) -> Case:
    """Scaled dot products: TransformerConv."""
    leaves = _rows(graph, "query", "key", "value")
    query, key, value = leaves.values()
    edges, plan_ms = planned(graph)
    peers = {OURS: _ours(edges, ours, query, key, value)}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG TransformerConv{name}"] = pyg.transformer(edge_index, query, key, value)
    peers |= _plain(plain.dot, (query, key, value, graph.senders, graph.receivers), compiled)
    return _case(graph, peers, leaves, plan_ms, gathered_rows=2)


def gatv2(graph: Graph, ours: str, compiled: bool = True) -> Case:
    """GATv2Conv, its keys its values."""
    leaves = _rows(graph, "query", "key") | _vectors("vector")
    query, key, vector = leaves.values()
    edges, plan_ms = planned(graph)
    peers = {OURS: _ours(edges, ours, query, key, key, lambda: GATv2(vector[0]))}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG GATv2Conv{name}"] = pyg.gatv2(edge_index, query, key, vector)
    peers |= _plain(plain.gatv2, (query, key, vector, graph.senders, graph.receivers), compiled)
    return _case(graph, peers, leaves, plan_ms, gathered_rows=1)


def gat(graph: Graph, ours: str) -> Case:
    """GATConv, one projection for both ends, as in the paper."""
    leaves = _rows(graph, "nodes") | _vectors("query_vector", "key_vector")
    nodes, query_vector, key_vector = leaves.values()
    edges, plan_ms = planned(graph)
    peers = {OURS: _ours(edges, ours, nodes, nodes, nodes, lambda: GAT(query_vector[0], key_vector[0]))}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG GATConv{name}"] = pyg.gat(edge_index, nodes, query_vector, key_vector)
    peers |= _plain(plain.gat, (nodes, query_vector, key_vector, graph.senders, graph.receivers))
    return _case(graph, peers, leaves, plan_ms, gathered_rows=1)


def gcn(graph: Graph, ours: str) -> Case:
    """GCNConv: D^-½ A D^-½ X with these constants computed before, for everyone, and without self loops."""
    leaves = _flat(graph)
    nodes = leaves["nodes"]
    degrees = torch.bincount(graph.receivers, minlength=graph.num_nodes).float()
    root = degrees.clamp(min=1).rsqrt()
    weight = root[graph.receivers] * root[graph.senders]
    edges, plan_ms = planned(graph)
    score, blind = Constant(weight), nodes.detach()[:, :1]

    def run() -> Tensor:
        return attend(blind, blind, nodes, edges, score=score, normalize=Identity(), backend=ours)

    peers = {OURS: run}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG GCNConv{name}"] = pyg.gcn(edge_index, nodes, weight)
    matrix = _sparse(graph, weight)
    peers["torch.sparse.mm, CSR"] = lambda: matrix @ nodes
    peers |= _plain(plain.convolve, (nodes, weight, graph.senders, graph.receivers))
    return _case(graph, peers, leaves, plan_ms, gathered_rows=1)


def mean(graph: Graph, ours: str) -> Case:
    """The mean of the neighbors: the aggregation of SAGEConv."""
    leaves = _flat(graph)
    nodes = leaves["nodes"]
    degrees = torch.bincount(graph.receivers, minlength=graph.num_nodes).float()
    edges, plan_ms = planned(graph)
    peers = {OURS: lambda: aggregate(nodes, edges, "mean", backend=ours)}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG SimpleConv, mean{name}"] = pyg.mean(edge_index, nodes)
    peers |= _plain(plain.mean, (nodes, degrees, graph.senders, graph.receivers))
    return _case(graph, peers, leaves, plan_ms, gathered_rows=1)


def half(graph: Graph, ours: str) -> Case:
    """Dot products with queries, keys and values stored in bfloat16, beside our own float32."""
    leaves = _rows(graph, "query", "key", "value")
    halves = {name: leaf.detach().bfloat16().requires_grad_() for name, leaf in leaves.items()}
    edges, plan_ms = planned(graph)
    case = _case(graph, {OURS_IN_FLOAT32: _ours(edges, ours, *leaves.values())}, leaves, plan_ms, gathered_rows=1)
    own = Peer(_ours(edges, ours, *halves.values()), halves, case.cotangent.bfloat16())
    return replace(case, peers={OURS: own, **case.peers}, tolerance=3e-2)


def layer(graph: Graph, ours: str) -> Case:
    """A whole layer with its four matrices. Queries, keys and values come from one and the same input."""
    torch.manual_seed(0)
    own = MultiHeadAttention(NUMBERS, NUM_HEADS)
    theirs = pyg.TransformerLayer(own, NUM_HEADS)
    leaves = _flat(graph) | dict(own.named_parameters())
    nodes = leaves["nodes"]
    edges, plan_ms = planned(graph)

    def run() -> Tensor:
        with only(ours):
            return own(nodes, neighborhood=edges)

    peers: dict[str, Callable[[], Tensor]] = {OURS: run}
    for name, edge_index in pyg.edge_indices(graph).items():
        peers[f"PyG TransformerConv{name}"] = lambda edge_index=edge_index: theirs(nodes, edge_index)
    return _case(graph, peers, leaves, plan_ms, gathered_rows=0)


def planned(graph: Graph) -> tuple[Edges, float]:
    """Our edges with what the kernels walk, made before anything is timed, and what making it takes in ms."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        edges = Edges(graph.senders, graph.receivers, graph.num_nodes, graph.num_nodes)
        getattr(edges, "plan", None)
        times.append(1000 * (time.perf_counter() - began))
    return edges, median(times)


def _ours(
    edges: Edges, backend: str, query: Tensor, key: Tensor, value: Tensor, score: Callable[[], Score] = ScaledDot
) -> Callable[[], Tensor]:
    """Heads to the front and back again: views, as a layer makes them."""

    def run() -> Tensor:
        heads = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        return attend(*heads, edges, score=score(), backend=backend).transpose(0, 1)

    return run


def _sparse(graph: Graph, weight: Tensor) -> Tensor:
    """The weights as torch's sparse matrix, row by row."""
    ends, size = torch.stack([graph.receivers, graph.senders]), (graph.num_nodes, graph.num_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that these matrices are young, and that their indices are believed
        return torch.sparse_coo_tensor(ends, weight, size).coalesce().to_sparse_csr()


def _plain(formula: Callable, arguments: tuple[Tensor, ...], compiled: bool = False) -> dict[str, Callable]:
    found: dict[str, Callable] = {PLAIN: lambda: formula(*arguments)}
    if compiled:
        faster = torch.compile(formula, dynamic=False)
        found[COMPILED] = lambda: faster(*arguments)
    return found


def _case(
    graph: Graph,
    runs: dict[str, Callable],
    leaves: dict[str, Tensor],
    plan_ms: float,
    gathered_rows: int,
) -> Case:
    flat = "nodes" in leaves and leaves["nodes"].dim() == 2
    shape = (graph.num_nodes, NUMBERS) if flat else (graph.num_nodes, NUM_HEADS, HEAD_DIM)
    needed = WIDE_TENSORS * graph.num_edges * NUMBERS * FLOAT
    too_wide = [name for name in runs if not name.startswith(OURS)] if needed > 0.8 * free_bytes() else []
    return Case(
        peers={name: Peer(run, leaves) for name, run in runs.items() if name not in too_wide},
        skipped=dict.fromkeys(too_wide, f"would take {needed / 2**30:.0f} GiB"),
        cotangent=torch.randn(shape, generator=torch.Generator().manual_seed(1)),
        facts=graph.facts(),
        table=graph.name if gathered_rows else None,
        gathered_bytes=gathered_rows * graph.num_edges * NUMBERS * FLOAT,
        plan_ms=plan_ms,
    )


def _rows(graph: Graph, *names: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = graph.num_nodes, NUM_HEADS, HEAD_DIM
    return {name: torch.randn(shape, generator=generator).requires_grad_() for name in names}


def _flat(graph: Graph) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"nodes": torch.randn(graph.num_nodes, NUMBERS, generator=generator).requires_grad_()}


def _vectors(*names: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {name: nn.Parameter(torch.randn(1, NUM_HEADS, HEAD_DIM, generator=generator)) for name in names}
