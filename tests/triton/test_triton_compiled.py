"""The kernels compile for sm_90 without a device: nothing spills, rows are read 16 bytes at a time, loops are short."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sweep
from triton_cases import NORMALIZERS, SCORES

EDGES = [
    ("scaled", "softmax", "bfloat16", 8, 16, False, 73, 100),
    ("scaled", "softmax", "bfloat16", 8, 8, False, 73, 100),
    ("scaled", "softmax", "float32", 4, 32, True, 96, 155),
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
OF_RANGES = {"forward", "backward_queries", "backward_keys"}


BY_DAY = {"edges": EDGES[3:4], "ranges": [RANGES[0], ADDITIVE], "graphs": GRAPHS[:1]}
BY_NIGHT = {"edges": [*EDGES[:3], *EDGES[4:]], "ranges": RANGES[1:], "graphs": GRAPHS[1:]}
OF_EDGES = ("score", "normalizer", "dtype", "heads", "dim", "carries")


@pytest.fixture(scope="module", params=["day", pytest.param("night", marks=pytest.mark.nightly)])
def compiled(request):
    """Calls over edges, ranges and graphs, each with the kernels that it and its gradient start as the compiler leaves
    them; one process compiles all."""
    pytest.importorskip("triton")
    calls = {"day": BY_DAY, "night": BY_NIGHT}[request.param]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    given = [dict(zip(OF_EDGES, call, strict=False)) for call in calls["edges"]]
    listed = [{"over": over, **call} for over, some in {**calls, "edges": given}.items() for call in some]
    words = [sys.executable, Path(__file__).with_name("compiled.py"), json.dumps(listed)]
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = iter(json.loads(ran.stdout))
    return {over: [(call, next(found)) for call in some] for over, some in calls.items()}


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
        assert made[name]["spills"] == 0, made[name]
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
        assert kernels >= ({"strongest"} if "top" in call else OF_RANGES), call
        for each in found:
            assert each["spills"] == 0, each
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
