"""The kernels compile for sm_90 without a device: nothing spills but where registers are few on purpose, rows are read
16 bytes at a time, loops are short."""

import json
import random
import re
from itertools import product
from pathlib import Path

import pytest
import sweep
from triton_cases import NORMALIZERS, SCORES

EDGES = [
    ("scaled", "softmax", "bfloat16", 8, 16, False, 73, 100),
    ("scaled", "softmax", "bfloat16", 8, 8, False, 73, 100),
    ("scaled", "softmax", "float32", 4, 32, True, 105, 170),
    ("gatv2", "softmax", "bfloat16", 8, 16, False, 78, 150),
    ("tanh", "entmax", "bfloat16", 8, 32, False, 78, 330),
]
"""Score, normalizer, dtype, heads, features, whether edges carry something; and the most instructions of a warp for
each place of an edge, forward and backward."""
ADDITIVE = {"score": "tanh", "normalizer": "softmax", "dtype": "float32", "dim": 64, "neighborhood": "full"}
RANGES = [
    {
        "score": "scaled",
        "normalizer": "softmax",
        "dtype": "bfloat16",
        "dim": 64,
        "neighborhood": "causal",
        "bias": True,
    },
    {"score": "tanh", "normalizer": "entmax", "dtype": "float32", "dim": 64, "neighborhood": "window", "bias": True},
    {"score": "scaled", "normalizer": "sparsemax", "dtype": "float32", "dim": 64, "neighborhood": "causal", "top": 8},
]
GRAPHS = [
    {"normalizer": "softmax", "dtype": "bfloat16", "heads": 8, "dim": 32, "nodes": 25, "bias": True},
    {"normalizer": "softmax", "dtype": "bfloat16", "heads": 8, "dim": 16, "nodes": 60, "bias": True},
    {"normalizer": "entmax", "dtype": "float32", "heads": 4, "dim": 32, "nodes": 60, "bias": True},
]
OF_MEMBERS = {"score": "scaled", "normalizer": "softmax", "dtype": "bfloat16", "dim": 64, "neighborhood": "causal"}
SHARED = {**OF_MEMBERS, "bias": (1, 3, 256, 256)}
"""A bias that members share."""
OTHERS = {
    "edges": [
        {"score": "gatv2", "dtype": "float32", "heads": 3, "dim": 16, "carries": True, "normalizer": normalizer, **more}
        for normalizer, more in (
            *product(("softmax", "mean", "entmax"), [{"weights": True}]),
            *product(("softmax", "entmax"), [{"needs": [name]} for name in ("query", "key", "edge_key", "bias")]),
        )
    ],
    "ranges": [
        *({**OF_MEMBERS, "bias": bias} for bias in ((2, 1, 256, 256), (2, 3, 256, 1), (2, 3, 1, 256), (1, 1, 1, 256))),
        *({**SHARED, "needs": [name]} for name in ("query", "key", "value", "bias")),
        *({**SHARED, "normalizer": normalizer, "dtype": "float32"} for normalizer in ("sigmoid", "entmax")),
        *({**SHARED, "score": score, "dtype": "float32", "dim": 16} for score in ("tanh", "gatv2", "constant")),
        {**SHARED, "dim": 256},
        {**SHARED, "dim": 100, "dropout": 0.1},
        *(
            {**OF_MEMBERS, "score": score, "sizes": sizes, "bias": True, **more}
            for score in ("scaled", "tanh")
            for sizes in ((1, 1, 1, 256), (1, 1, 256, 1), (1, 1, 1, 1))
            for more in ({}, {"top": 1})
        ),
    ],
    "graphs": [{**GRAPHS[0], "needs": [name]} for name in ("query", "key", "value", "bias")],
}
"""Gradients of some of the arguments, biases of other shapes, one of a kind: what is None or 1 is compiled into a
kernel. That they compile at all is what is looked at."""
OF_RANGES = {"forward", "backward_queries", "backward_keys"}


BY_DAY = {"edges": EDGES[3:4], "ranges": [RANGES[0], ADDITIVE, SHARED], "graphs": GRAPHS[:1]}
BY_NIGHT = {"edges": [*EDGES[:3], *EDGES[4:]], "ranges": RANGES[1:], "graphs": GRAPHS[1:]}
OF_EDGES = ("score", "normalizer", "dtype", "heads", "dim", "carries")


@pytest.fixture(scope="module", params=["day", pytest.param("night", marks=pytest.mark.nightly)])
def compiled(request):
    """Calls over edges, ranges and graphs, each with the kernels that it and its gradient start as the compiler leaves
    them; one process compiles all."""
    pytest.importorskip("triton")
    calls = {"day": BY_DAY, "night": BY_NIGHT}[request.param]
    given = [dict(zip(OF_EDGES, call, strict=False)) for call in calls["edges"]]
    found = iter(kernels_of({**calls, "edges": given}))
    return {over: [(call, next(found)) for call in some] for over, some in calls.items()}


def kernels_of(calls):
    """The kernels of each call."""
    return sweep.kernels_of([{"over": over, **call} for over, some in calls.items() for call in some])


@pytest.mark.nightly
def test_every_kernel_compiles_with_and_without_optional_parts():
    pytest.importorskip("triton")
    folder = Path(__file__).parents[2] / "src/edgewise/backends/triton"
    started = {
        ("graphs" if launch == "_graphs" else file.parent.name, name)
        for file in folder.rglob("*.py")
        for launch, name in re.findall(r"launch(_graphs|_tiles|)\(\s*(?:kernels\.)?(\w+),", file.read_text())
        if name != "kernel"
    }
    found = {
        (over, each["kernel"]) for (over, some) in OTHERS.items() for made in kernels_of({over: some}) for each in made
    }
    assert found == started


def test_every_score_and_normalizer_is_compiled_where_all_are():
    assert set(sweep.SCORES) == set(SCORES)
    assert set(sweep.NORMALIZERS) == set(NORMALIZERS)


def test_the_committed_report_is_of_every_kind_and_of_all_their_calls():
    report = json.loads((Path(__file__).parents[2] / "benchmarks/results/kernels.json").read_text())
    assert report.keys() == sweep.KINDS.keys()
    for kind, found in report.items():
        assert found["bad"] == []
        assert "dirty" not in found["commit"]
        assert found["calls"] == len(sweep.calls_of(kind, random.Random(found["seed"])))


def test_kernels_over_edges_compile_without_spills(compiled):
    for (*_, forward, backward), found in compiled["edges"]:
        assert {"forward", "merge", "backward_receivers", "backward_senders"} <= {each["kernel"] for each in found}
        for each in found:
            assert each["spills"] == 0, each
            if each["kernel"] in ("forward", "backward_receivers", "backward_senders"):
                assert each["wide_loads"] > 0, each
                assert each["registers"] <= 232, each
                limit = forward if each["kernel"] == "forward" else backward
                longest = max((loop["instructions"] for loop in each["loops"]), default=0)
                assert longest * each["warps"] / (each["form"]["rows"] * each["form"]["block"]) <= limit, each


@pytest.mark.parametrize("compiled", ["day"], indirect=True)
def test_additive_scores_take_five_instructions_and_half_a_reciprocal(compiled):
    """An element is a feature of a pair, 1 + e^(2q) e^(2k) of which is one of the fused instructions.

    Forward there is one more, of each two elements, and two that add up: four for a reciprocal. In the backward pass
    there are two more of each element, for the derivative and its sum, and one for the vector's.
    """
    (found,) = (found for call, found in compiled["ranges"] if call is ADDITIVE)
    made = {each["kernel"]: each for each in found}
    assert made.keys() == OF_RANGES | {"copy_nodes"}
    for name, limits in {"forward": (4.7,), "backward_queries": (4.7, 6.7), "backward_keys": (4.7, 5.8)}.items():
        assert made[name]["registers"] <= 128, made[name]  # for two programs at a time
        paired = [x for x in made[name]["loops"] if x["has_none_inside"] and 0 < 4 * x["reciprocals"] <= x["fused"]]
        assert len(paired) == 2 * len(limits), made[name]  # for blocks that are seen as a whole, and for others
        for loop in paired:
            is_score = loop["fused"] == 4 * loop["reciprocals"]
            assert loop["instructions"] <= limits[0 if is_score else 1] * 2 * loop["reciprocals"], (name, loop)


def test_kernels_over_ranges_compile_without_spills(compiled):
    for call, found in compiled["ranges"]:
        if call is ADDITIVE:
            continue  # counted above
        kernels = {each["kernel"] for each in found}
        wanted = OF_RANGES | {"backward_bias"} if call is SHARED else OF_RANGES
        assert kernels >= ({"strongest"} if "top" in call else wanted), call
        for each in found:
            assert each["spills"] <= sweep.may_spill(each["registers_asked"]), each
            assert each["wide_loads"] > 0, each
            if each["kernel"] in ("forward", "strongest"):  # passes that hold a gradient take all there are
                assert each["registers"] <= 232, each


def test_kernels_over_small_graphs_compile_without_spills(compiled):
    """Those that take care of what is not finite run seldom, and may put some numbers aside."""
    for call, found in compiled["graphs"]:
        assert len(found) == 4, call
        for each in found:
            if not each["again"]:
                assert each["spills"] == 0, each
                assert each["wide_loads"] > 0, each
                assert each["registers"] <= (128 if each["kernel"] == "forward" else 255), each
