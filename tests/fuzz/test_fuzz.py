"""The fuzzing oracle in a bounded form, and that it sees what it is made to see."""

import functools

import pytest
import torch

import edgewise as ew
from fuzz import check as fuzz
from fuzz.check import check
from fuzz.draw import Draw, Drawn

KNOWN = ("ok", "refused", "rounding")
COMPILED = ("ScaledDot", "GATv2")
"""Scores whose kernels other tests compile too."""


def test_random_calls_agree_with_the_judge():
    wrong = []
    for seed in range(400):
        drawn = Draw(seed).call()
        found = check(drawn, ("gather", "sdpa", "uniform", "reference"))
        wrong += [f"seed {seed} {name}: {verdict}\n{drawn}" for name, verdict in found.items() if verdict not in KNOWN]
    assert not wrong, "\n".join(wrong)


def edges_carry_a_bias_all_or_nothing(drawn: Drawn) -> bool:
    """Kernels over edges are compiled anew for each choice of what edges carry: between these, each of the three
    tensors is there and is not."""
    carried = {"edge_key", "edge_value", "bias"} & {*drawn.views}
    return not isinstance(drawn.neighborhood, ew.Edges) or len(carried) in (0, 3) or carried == {"bias"}


def edges_carry_anything(drawn: Drawn) -> bool:
    """Any call."""
    return True


@pytest.mark.nightly  # compiling a kernel for each kind of call takes a minute; by day test_attend compares them
@pytest.mark.parametrize("is_taken", [edges_carry_a_bias_all_or_nothing, edges_carry_anything])
def test_random_calls_of_kernels_agree_with_the_judge(is_taken):
    wrong, number = [], 0
    for seed in range(10_000, 11_000):
        drawn = Draw(seed).call()
        if drawn.score not in COMPILED or drawn.normalize != "Softmax" or drawn.dtype != torch.float32:
            continue
        if not is_taken(drawn):
            continue
        found = check(drawn, ("auto", "numba"))
        number += found.get("numba") == "ok"
        wrong += [f"seed {seed} {name}: {verdict}\n{drawn}" for name, verdict in found.items() if verdict not in KNOWN]
    assert not wrong, "\n".join(wrong)
    assert number >= 15


@functools.cache
def weighing(dtype: torch.dtype) -> Drawn:
    """The first call whose queries weigh several keys, with second gradients of query and value."""

    def fits(d: Drawn) -> bool:
        is_attention = (d.verb, d.score, d.normalize) == ("attend", "ScaledDot", "Softmax") and d.dtype == dtype
        differentiated = d.numbers["second"] and {"query", "value"} <= {*d.with_gradient}
        many = max(map(len, d.pairs), default=0) > d.num_queries
        return is_attention and differentiated and many and d.numbers["temperature"] == 1

    return next(drawn for seed in range(10_000) if fits(drawn := Draw(seed).call()))


class Constant(torch.autograd.Function):
    """The identity, whose gradient counts as a constant when it is differentiated again."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.detach()


def at(name, fault):
    """A library that reads one tensor wrongly."""
    return lambda run, drawn, leaves, backend: run(drawn, leaves | {name: fault(leaves[name])}, backend)


def after(fault):
    """A library whose output is wrong."""
    return lambda run, *arguments: fault(run(*arguments))


FAULTS = {
    "a value": after(lambda out: out + 1e-3),
    "a shape": after(lambda out: out.unsqueeze(0)),
    "a sign of a gradient": at("value", lambda x: 2 * x.detach() - x),
    "a scale of a gradient": at("value", lambda x: x.detach() + (x - x.detach()) * 1.01),
    "a term too many in a second gradient": after(lambda out: out + (out - out.detach()).square()),
    "a term too few in a second gradient": at("value", Constant.apply),
}
OF_SCORES = {
    "a sign of the scores": at("query", torch.neg),
    "a scale of the scores": at("query", lambda x: 1.01 * x),
    "a gradient of the scores": at("query", lambda x: x.detach() + (x - x.detach()) * 1.01),
    "a second gradient of the scores": at("query", Constant.apply),
}
ILL_CONDITIONED = {10001191: "auto", 10001935: "gather", 10000265: "gather", 10017992: "reference"}
"""Calls whose exact second derivatives are differences of large numbers, and what leaves the rounding of them."""


def plant(fault, monkeypatch):
    monkeypatch.setattr(fuzz, "run", lambda *arguments, run=fuzz.run: fault(run, *arguments))


@pytest.mark.parametrize("name", [*FAULTS, *OF_SCORES])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_finds_what_is_wrong(name, dtype, monkeypatch):
    drawn = weighing(dtype)
    assert check(drawn, ("reference",)) == {"reference": "ok"}
    plant((FAULTS | OF_SCORES)[name], monkeypatch)
    assert "order" in check(drawn, ("reference",))["reference"]


@pytest.mark.parametrize("seed", ILL_CONDITIONED)
def test_rounding_at_an_ill_conditioned_call_is_no_fault(seed):
    drawn = Draw(seed).call()
    assert drawn.dtype == torch.float32 and drawn.numbers["second"]
    assert check(drawn, (ILL_CONDITIONED[seed],)) == {ILL_CONDITIONED[seed]: "rounding"}


@pytest.mark.parametrize("name", FAULTS)
def test_it_finds_what_is_wrong_at_an_ill_conditioned_call(name, monkeypatch):
    plant(FAULTS[name], monkeypatch)
    assert "order" in check(Draw(10017992).call(), ("reference",))["reference"]


def test_it_draws_every_neighborhood_and_every_kind_of_call():
    calls = [Draw(seed).call() for seed in range(1000)]
    assert {type(d.neighborhood) for d in calls} >= {
        ew.Full, ew.Causal, ew.Window, ew.Lengths, ew.Segments, ew.Mask, ew.Edges,
    }  # fmt: skip
    assert len({d.score for d in calls}) == 10 and len({d.normalize for d in calls}) == 7
    assert len({d.dtype for d in calls}) == 4 and len({d.verb for d in calls}) == 3
