"""Attention over the edges of a graph: scaled dot products and GATv2, with and without what the edges carry.

Storage is `(node, head, feature)` for everyone; features of the edges `(edge, head, feature)`, a bias `(edge, head)`.
Features join keys and values under dot products, as in TransformerConv, and the keys alone under GATv2, as in
GATv2Conv. The keys of GATv2 are its values.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import Edges, Entmax15, GATv2, Hardmax, ScaledDot, Softmax, Sparsemax, attend
from gpu_attention import exact, floors
from gpu_attention.case import OURS, PLAIN, PYG, PYG_COMPILED, SDPA, TURBO, Case, Run
from gpu_attention.graphs import ATOMS, Graph, named
from gpu_attention.options import Options

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
TOLERANCES = {"bf16": 2e-2, "fp16": 3e-3, "fp32": 2e-4}
"""How far ours may lie from what is right, as a part of the largest value of each output and gradient."""
NORMALIZERS = {"softmax": Softmax(), "hardmax": Hardmax(), "sparsemax": Sparsemax(), "entmax": Entmax15()}


@dataclass(frozen=True)
class Kind:
    """What is computed over a graph."""

    graph: str
    """By its name."""
    heads: int
    """Of a node."""
    dim: int
    """Features of a head."""
    score: str
    """dot or gatv2."""
    dtype: str
    """Of what is stored: bf16, fp16 or fp32."""
    carries: str = ""
    """What the edges have besides: a bias, features, or nothing."""
    normalize: str = "softmax"
    """softmax, hardmax, sparsemax or entmax."""


def case_of(kind: Kind, peers: tuple[str, ...], device: str, options: Options) -> Case:
    """The case of a kind, with these ways of computing it."""
    graph = named(kind.graph, options.quick, device)
    leaves = _leaves(kind, graph)
    random = torch.Generator(graph.senders.device).manual_seed(1)
    cotangent = _numbers((graph.num_nodes, kind.heads, kind.dim), kind, random)

    def attention(given: dict[str, Tensor], edges: Edges, backend: str) -> Tensor:
        return _attend(kind, given, edges, backend)

    ways = {
        OURS: lambda: lambda: attention(leaves, graph.edges, options.ours),
        PLAIN: lambda: lambda: attention(leaves, graph.edges, "gather"),
        PYG: lambda: _pyg(kind, graph, leaves),
        TURBO: lambda: _turbo(kind, graph, leaves),
        PYG_COMPILED: lambda: torch.compile(_pyg(kind, graph, leaves), dynamic=False),
        SDPA: lambda: _sdpa(kind, graph, leaves),
    }
    size = DTYPES[kind.dtype].itemsize
    carried = {"bias": kind.carries == "bias", "features": kind.carries == "features"}
    return Case(
        make={name: ways[name] for name in peers},
        leaves=leaves,
        cotangent=cotangent,
        difference=exact.difference_of(graph, leaves, cotangent, attention),
        tolerance=TOLERANCES[kind.dtype],
        facts=graph.facts(),
        given_bytes=16 * graph.num_edges,
        floors=floors.edges(kind.score, graph.num_nodes, graph.num_edges, kind.heads, kind.dim, size, **carried),
    )


def _attend(kind: Kind, given: dict[str, Tensor], edges: Edges, backend: str) -> Tensor:
    """Heads to the front and back again: views, as a layer makes them."""
    heads = {name: x.transpose(0, 1) for name, x in given.items() if name != "vector"}
    features, bias = heads.get("features"), heads.get("bias")
    query, key = heads["query"], heads["key"]
    if kind.score == "gatv2":
        score = GATv2(given["vector"][0])
        found = attend(query, key, key, edges, score=score, bias=bias, edge_key=features, backend=backend)
    else:
        found = attend(
            query, key, heads["value"], edges, score=ScaledDot(), normalize=NORMALIZERS[kind.normalize],
            bias=bias, edge_key=features, edge_value=features, backend=backend,
        )  # fmt: skip
    return found.transpose(0, 1)


def _pyg(kind: Kind, graph: Graph, leaves: dict[str, Tensor]) -> Run:
    from gpu_attention import pyg

    return pyg.run_of(kind.score, graph.senders, graph.receivers, leaves)


def _turbo(kind: Kind, graph: Graph, leaves: dict[str, Tensor]) -> Run:
    from gpu_attention import turbo

    return turbo.run_of(kind.score, graph, leaves)


def _sdpa(kind: Kind, graph: Graph, leaves: dict[str, Tensor]) -> Run:
    """All pairs of each molecule: with a mask, or with a bias where every pair is there."""
    assert graph.members is not None
    shape = graph.members, ATOMS, kind.heads, kind.dim
    query, key, value = leaves["query"], leaves["key"], leaves["value"]
    mask = graph.mask if graph.num_edges < graph.members * ATOMS**2 else None

    def run() -> Tensor:
        heads = (x.view(shape).transpose(1, 2) for x in (query, key, value))
        bias = mask
        if "bias" in leaves:
            bias = leaves["bias"].view(graph.members, ATOMS, ATOMS, kind.heads).permute(0, 3, 1, 2)
        found = F.scaled_dot_product_attention(*heads, attn_mask=bias)
        return found.transpose(1, 2).reshape(query.shape)

    return run


def _leaves(kind: Kind, graph: Graph) -> dict[str, Tensor]:
    random = torch.Generator(graph.senders.device).manual_seed(0)
    names = ("query", "key", "value") if kind.score == "dot" else ("query", "key")
    shape = kind.heads, kind.dim
    leaves = {name: _numbers((graph.num_nodes, *shape), kind, random).requires_grad_() for name in names}
    if kind.normalize == "hardmax":  # of which scores have no gradient
        leaves = {name: x.requires_grad_(name == "value") for name, x in leaves.items()}
    if kind.score == "gatv2":
        leaves["vector"] = nn.Parameter(_numbers((1, *shape), kind, random))
    if kind.carries == "bias":
        leaves["bias"] = _numbers((graph.num_edges, kind.heads), kind, random).requires_grad_()
    if kind.carries == "features":
        leaves["features"] = _numbers((graph.num_edges, *shape), kind, random).requires_grad_()
    return leaves


def _numbers(shape: tuple[int, ...], kind: Kind, random: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=random, dtype=DTYPES[kind.dtype], device=random.device)
