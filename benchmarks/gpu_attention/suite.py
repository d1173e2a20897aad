"""The list of parts, by name: what is computed in each, by whom, and how much of the time it gets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpu_attention.case import (
    EAGER,
    EAGER_COMPILED,
    FLEX,
    OURS,
    PLAIN,
    PYG,
    PYG_COMPILED,
    SDPA,
    TRITON,
    TURBO,
    VARLEN,
    Case,
)
from gpu_attention.options import Options

LARGEST = ("b", "reddit")
LENGTHS = (1024, 2048, 4096, 8192)
Build = Callable[[str, Options], Case]
"""Makes a case on a device."""


@dataclass(frozen=True)
class Entry:
    """A case of a part."""

    build: Build
    """Makes it."""
    peers: tuple[str, ...]
    """Who computes it, ours first."""


@dataclass(frozen=True)
class Part:
    """A part of the benchmark that can be run alone."""

    title: str
    """Of its table."""
    entries: dict[str, Entry]
    """Its cases, by name, what matters most first: when the time is up, the rest is cut."""
    weight: int
    """Its share of the time, beside those of the others."""
    replays: bool = False
    """Whether calls are so short that they are timed as captured graphs too."""


def _over(
    graph: str, heads: int, dim: int, score: str, dtype: str, carries: str = "", *more: str, normalize: str = "softmax"
) -> Entry:
    # Over the largest graphs plain PyTorch takes seconds for a call: it runs in one case. The others have softmax
    # alone, and turbo-gnn edges that carry nothing.
    is_alone = not carries and normalize == "softmax" and graph != "complete"
    plain = [PLAIN] * (graph not in LARGEST)
    peers = (OURS, *[PYG] * (normalize == "softmax"), *[TURBO] * is_alone, *more, *plain)

    def build(device: str, options: Options) -> Case:
        from gpu_attention.edge_cases import Kind, case_of

        return case_of(Kind(graph, heads, dim, score, dtype, carries, normalize), peers, device, options)

    return Entry(build, peers)


def _dense(length: int, *peers: str) -> Entry:
    def build(device: str, options: Options) -> Case:
        from gpu_attention.dense_cases import additive

        return additive(length, peers, device, options)

    return Entry(build, peers)


def _dispatched(length: int) -> Entry:
    def build(device: str, options: Options) -> Case:
        from gpu_attention.dense_cases import dispatched

        return dispatched(length, (OURS, SDPA), device, options)

    return Entry(build, (OURS, SDPA))


def _ranges(kind: str, dtype: str) -> Entry:
    peers = (OURS, *[VARLEN] * (dtype == "bf16"), TRITON, FLEX, SDPA)

    def build(device: str, options: Options) -> Case:
        from gpu_attention.dense_cases import ranges

        return ranges(kind, dtype, peers, device, options)

    return Entry(build, peers)


_A, _B = partial(_over, "a", 8, 16), partial(_over, "b", 4, 32)
_BONDS, _COMPLETE = partial(_over, "bonds", 8, 32), partial(_over, "complete", 8, 32)

PARTS: dict[str, Part] = {
    "a": Part(
        "(a) Power law: 169,343 nodes, 1.17 M edges, 8 heads of 16",
        {
            "dot, bf16": _A("dot", "bf16", "", PYG_COMPILED),
            "GATv2, bf16": _A("gatv2", "bf16"),
            "dot, fp32": _A("dot", "fp32"),
            "GATv2, fp32": _A("gatv2", "fp32"),
            "dot, bf16, edge features": _A("dot", "bf16", "features"),
            "GATv2, bf16, edge features": _A("gatv2", "bf16", "features"),
            "dot, bf16, bias": _A("dot", "bf16", "bias"),
            "GATv2, bf16, bias": _A("gatv2", "bf16", "bias"),
            "dot, fp32, edge features": _A("dot", "fp32", "features"),
            "GATv2, fp32, edge features": _A("gatv2", "fp32", "features"),
            "dot, fp32, bias": _A("dot", "fp32", "bias"),
            "GATv2, fp32, bias": _A("gatv2", "fp32", "bias"),
            **{f"dot, bf16, {name}": _A("dot", "bf16", normalize=name) for name in ("hardmax", "sparsemax", "entmax")},
        },
        weight=12,
        replays=True,
    ),
    "b": Part(
        "(b) Power law: 2.45 M nodes, 124 M edges, 4 heads of 32",
        {
            "dot, bf16": _B("dot", "bf16", "", PLAIN),
            "GATv2, bf16": _B("gatv2", "bf16"),
            "dot, fp32": _B("dot", "fp32"),
            "GATv2, fp32": _B("gatv2", "fp32"),
            "dot, bf16, bias": _B("dot", "bf16", "bias"),
            "dot, bf16, edge features": _B("dot", "bf16", "features"),
        },
        weight=10,
    ),
    "c": Part(
        "(c) 16,000 molecules of 25 nodes, 8 heads of 32: 55 directed bonds each, and all 625 pairs",
        {
            "bonds, dot, bf16": _BONDS("dot", "bf16", "", PYG_COMPILED, SDPA),
            "all pairs, dot, bf16, distances as bias": _COMPLETE("dot", "bf16", "bias", SDPA),
            "bonds, GATv2, bf16": _BONDS("gatv2", "bf16"),
            "bonds, dot, fp32": _BONDS("dot", "fp32", "", SDPA),
            "bonds, GATv2, fp32": _BONDS("gatv2", "fp32"),
            "all pairs, dot, bf16": _COMPLETE("dot", "bf16", "", SDPA),
            "bonds, dot, bf16, edge features": _BONDS("dot", "bf16", "features"),
            "bonds, GATv2, bf16, edge features": _BONDS("gatv2", "bf16", "features"),
            "bonds, dot, bf16, bias": _BONDS("dot", "bf16", "bias"),
            "all pairs, GATv2, bf16, distances as bias": _COMPLETE("gatv2", "bf16", "bias"),
            "all pairs, dot, fp32, distances as bias": _COMPLETE("dot", "fp32", "bias", SDPA),
            "all pairs, dot, bf16, edge features": _COMPLETE("dot", "bf16", "features"),
        },
        weight=12,
        replays=True,
    ),
    "published": Part(
        "Graphs of Fused3S's table: 1 head of 128, fp16. Its figures, forward alone on a GH200: 25.3 ms on "
        "ogbn-products, 9.16 on Reddit, 0.031 on PubMed",
        {
            "like ogbn-products (b)": _over("b", 1, 128, "dot", "fp16"),
            "like Reddit": _over("reddit", 1, 128, "dot", "fp16"),
            "PubMed": _over("pubmed", 1, 128, "dot", "fp16"),
            "Cora": _over("cora", 1, 128, "dot", "fp16"),
        },
        weight=6,
        replays=True,
    ),
    "additive": Part(
        "Additive attention over all pairs: 8 heads of 64, fp32",
        {
            # Beyond 2,048 nodes plain PyTorch has a slice of the table for each query or two, and takes minutes.
            f"L = {length:,}": _dense(
                length, OURS, *[PLAIN] * (length <= 2048), EAGER, *[EAGER_COMPILED] * (length == 2048)
            )
            for length in (2048, 1024, 4096, 8192)
        },
        weight=5,
        replays=True,
    ),
    "dispatch": Part(
        "Scaled dot products over all pairs, left to edgewise: batch of 8, 8 heads of 64, bf16",
        {"L = 2,048": _dispatched(2048)},
        weight=1,
        replays=True,
    ),
    "ranges": Part(
        "Scaled dot products in windows and packed sequences: 16,384 nodes, 8 heads of 64",
        {
            "16 causal sequences, bf16": _ranges("packed", "bf16"),
            "window of 1,024, bf16": _ranges("window", "bf16"),
            "16 causal sequences, fp32": _ranges("packed", "fp32"),
            "window of 1,024, fp32": _ranges("window", "fp32"),
        },
        weight=4,
    ),
}
STUDIES = {
    "limits": "What the GPU can do",
    "step": "Training steps of three models: forward, backward and optimizer",
}
STUDY_WEIGHTS = {"limits": 2, "step": 7}
NAMES = ("limits", *PARTS, "step")
"""Everything that can be asked for, in the order in which it runs."""
