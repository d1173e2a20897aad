"""The fuzzing oracle in a bounded form, and that it sees what it is made to see."""

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


def test_random_calls_of_kernels_agree_with_the_judge():
    wrong, number = [], 0
    for seed in range(10_000, 11_000):
        drawn = Draw(seed).call()
        if drawn.score not in COMPILED or drawn.normalize != "Softmax" or drawn.dtype != torch.float32:
            continue
        found = check(drawn, ("auto", "numba"))
        number += found.get("numba") == "ok"
        wrong += [f"seed {seed} {name}: {verdict}\n{drawn}" for name, verdict in found.items() if verdict not in KNOWN]
    assert not wrong, "\n".join(wrong)
    assert number >= 15


def first(condition) -> Drawn:
    """The first call of which a condition holds."""
    return next(drawn for seed in range(10_000) if condition(drawn := Draw(seed).call()))


def is_large(drawn: Drawn) -> bool:
    return drawn.verb == "attend" and drawn.score == "ScaledDot" and drawn.num_queries > 2 and drawn.num_keys > 2


BREAKS = {
    "a value": lambda out: out + 1e-3,
    "a shape": lambda out: out.unsqueeze(0),
    "a gradient": lambda out: out.detach() + (out - out.detach()) * 1.001,
    "a second gradient": lambda out: out + (out - out.detach()).square(),
}


@pytest.mark.parametrize("name", BREAKS)
def test_it_finds_what_is_wrong(name, monkeypatch):
    drawn = first(lambda d: is_large(d) and d.numbers["second"] and "value" in d.with_gradient and d.pairs[0])
    assert check(drawn, ("reference",)) == {"reference": "ok"}
    monkeypatch.setattr(fuzz, "run", lambda *arguments, run=fuzz.run: BREAKS[name](run(*arguments)))
    assert "order" in check(drawn, ("reference",))["reference"]


def test_it_draws_every_neighborhood_and_every_kind_of_call():
    calls = [Draw(seed).call() for seed in range(1000)]
    assert {type(d.neighborhood) for d in calls} >= {
        ew.Full, ew.Causal, ew.Window, ew.Lengths, ew.Segments, ew.Mask, ew.Edges,
    }  # fmt: skip
    assert len({d.score for d in calls}) == 10 and len({d.normalize for d in calls}) == 7
    assert len({d.dtype for d in calls}) == 4 and len({d.verb for d in calls}) == 3
