"""The list of parts, by name: what is computed in each, on what, and what is measured of it besides the time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from cpu_attention import dense_cases, edge_cases, graphs
from cpu_attention.case import Case
from cpu_attention.graphs import Graph
from cpu_attention.options import Options

LENGTHS = (256, 1024, 2048, 4096)
Weighed = Literal["none", "layers", "all"]
Build = Callable[[Options, bool], Case]
"""Makes a case; over edges, with the edges sorted by receiver or as they come."""


@dataclass(frozen=True)
class Entry:
    """A case of a part."""

    build: Build
    """Makes it."""
    memory: Weighed = "none"
    """The peers whose peak memory is measured; "layers" are ours and PyTorch Geometric's."""
    as_users: bool = False
    """Whether it is timed once more as users call it: edges as they come, default allocator."""


@dataclass(frozen=True)
class Part:
    """A part of the benchmark that can be run alone."""

    title: str
    """Of its table."""
    entries: dict[str, Entry]
    """Its cases, by name."""
    keeps_memory: bool = True
    """Whether peers get the allocator that keeps memory, their best one; what it keeps lies in pieces, which doubles
    what a large graph takes."""


@cache
def graph_of(name: str, quick: bool, by_receiver: bool) -> Graph:
    """The graph of a part, made once."""
    graph = graphs.GRAPHS[name](quick)
    return graph.by_receiver() if by_receiver else graph


def _over(name: str, make: Callable[..., Case], memory: Weighed = "none", as_users: bool = True, **more: bool) -> Entry:
    def build(options: Options, by_receiver: bool) -> Case:
        return make(graph_of(name, options.quick, by_receiver), options.ours, **more)

    return Entry(build, memory, as_users)


def _lengths(make: Callable[[int, str], Case], weighed: int | None = None) -> dict[str, Entry]:
    """A case for each length, with peak memory at one of them."""

    def entry(length: int) -> Entry:
        def build(options: Options, _: bool) -> Case:
            return make(length // 8 if options.quick else length, options.ours)

        return Entry(build, memory="all" if length == weighed else "none")

    return {f"L = {length:,}": entry(length) for length in LENGTHS}


def _window(length: int, width: int) -> Entry:
    def build(options: Options, _: bool) -> Case:
        return dense_cases.window(length // 64 if options.quick else length, width, options.ours)

    return Entry(build, memory="all")


def _dispatched(length: int, causal: bool) -> Entry:
    return Entry(lambda options, _: dense_cases.dispatched(length // 8 if options.quick else length, causal))


PARTS: dict[str, Part] = {
    "power_law": Part(
        "(a) Power law: 170,000 nodes, 1.17 M edges, 8 heads of 16",
        {
            "dot": _over("power_law", edge_cases.dot, memory="all"),
            "gatv2": _over("power_law", edge_cases.gatv2, memory="layers"),
            "gat": _over("power_law", edge_cases.gat, as_users=False),
            "gcn": _over("power_law", edge_cases.gcn, memory="layers", as_users=False),
            "mean": _over("power_law", edge_cases.mean, as_users=False),
            "bf16": _over("power_law", edge_cases.half, memory="all", as_users=False),
            "layer": _over("power_law", edge_cases.layer, memory="layers", as_users=False),
        },
    ),
    "molecules": Part(
        "(b) 1,024 molecules of 25 nodes and 54 directed edges, 8 heads of 16",
        {
            "dot": _over("molecules", edge_cases.dot, memory="layers"),
            "gatv2": _over("molecules", edge_cases.gatv2),
            "gat": _over("molecules", edge_cases.gat),
            "gcn": _over("molecules", edge_cases.gcn),
            "mean": _over("molecules", edge_cases.mean),
            "layer": _over("molecules", edge_cases.layer),
        },
    ),
    "cora": Part(
        "(c) Cora's shape: 2,708 nodes, 10,556 edges, 8 heads of 16",
        {
            "dot": _over("cora", edge_cases.dot),
            "gatv2": _over("cora", edge_cases.gatv2),
            "gat": _over("cora", edge_cases.gat),
            "gcn": _over("cora", edge_cases.gcn),
            "mean": _over("cora", edge_cases.mean),
        },
    ),
    "web": Part(
        "Web graph cnr-2000: 325,557 nodes, 3.2 M edges, 8 heads of 16; for all peers the default allocator",
        {
            "dot": _over("web", edge_cases.dot, compiled=False),
            "gatv2": _over("web", edge_cases.gatv2, as_users=False, compiled=False),
        },
        keeps_memory=False,
    ),
    "additive": Part(
        "Additive attention over all pairs: batch of 8, 64 features",
        _lengths(dense_cases.additive, weighed=1024),
    ),
    "cosine": Part(
        "Cosine attention over all pairs: 8 heads of 64",
        _lengths(dense_cases.cosine),
    ),
    "hard": Part(
        "Hard attention over all pairs, straight through: 8 heads of 64",
        _lengths(dense_cases.hard, weighed=4096),
    ),
    "window": Part("A window of 128 keys: 2 heads of 64", {"L = 16,384": _window(16_384, 128)}),
    "dispatch": Part(
        "Scaled dot products over ranges, left to edgewise: 8 heads of 64",
        {
            "all keys, L = 512": _dispatched(512, causal=False),
            "all keys, L = 2,048": _dispatched(2048, causal=False),
            "causal, L = 512": _dispatched(512, causal=True),
            "causal, L = 2,048": _dispatched(2048, causal=True),
        },
    ),
}
STUDIES = {
    "limits": "What the machine can do",
    "growth": "How cost grows with the number of edges",
    "huge_pages": "How it grows where torch asks for huge pages",
    "threads": "One thread and two",
    "training": "A whole model: one epoch on ESOL",
}
NAMES = ("limits", *PARTS, *list(STUDIES)[1:])
"""Everything that can be asked for, in the order in which it runs."""
