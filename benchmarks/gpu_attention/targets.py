"""What must be shown on one H200, and whether it was: computed from the numbers of a run, never written by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_attention.case import BOTH, EAGER, FORWARD, MODES, OURS, PYG, SDPA
from gpu_attention.floors import tanh_ms
from gpu_attention.measure import OUT_OF_MEMORY
from gpu_attention.step import CALLED, MODELS

Data = dict[str, Any]
"""The content of gpu.json."""
NOT_YET = "not yet measured"


@dataclass(frozen=True)
class Measured:
    """What a run says about a target."""

    value: float | None = None
    """The number; None where there is none, and `words` say why."""
    words: str = NOT_YET
    """How it is written."""
    holds: bool | None = None
    """Whether it is enough; None where nothing was measured."""


@dataclass(frozen=True)
class Target:
    """One thing that must be shown."""

    name: str
    """Of what."""
    asked: str
    """How much, in words."""
    called: Callable[[Data], Measured]
    """What was measured, each kernel started from Python."""
    replayed: Callable[[Data], Measured] | None = None
    """What was measured as a captured graph, where that is asked for."""

    def verdict(self, data: Data) -> str:
        """Whether it is met."""
        called = self.called(data)
        if called.holds is None:
            return NOT_YET
        if called.holds:
            return "yes"
        return "**as a captured graph only**" if self.replayed and self.replayed(data).holds else "**no**"


def peer_of(data: Data, part: str, case: str, peer: str, mode: str) -> Data:
    """The record of a peer; empty where it was not measured."""
    record = data.get("parts", {}).get(part, {}).get("cases", {}).get(case, {})
    return record.get("peers", {}).get(peer, {}).get(mode, {})


def is_wrong(data: Data, part: str, case: str, mode: str) -> bool:
    """Whether our own results lie too far from what is right."""
    tolerance = data["parts"][part]["cases"][case]["tolerance"]
    return not peer_of(data, part, case, OURS, mode).get("difference", 0.0) <= tolerance


def held_ratio(data: Data, part: str, case: str, peer: str, mode: str) -> float | None:
    """Inputs and what a call takes beside them, over inputs and outputs."""
    extra = peer_of(data, part, case, peer, mode).get("extra_bytes")
    if extra is None:
        return None
    held = data["parts"][part]["cases"][case]["held_bytes"][mode]
    return (held["inputs"] + extra) / (held["inputs"] + held["outputs"])


def _of(data: Data, part: str, case: str, mode: str, value: float | None, words: str, holds: bool) -> Measured:
    """What was measured, marked where our results are wrong."""
    if is_wrong(data, part, case, mode):
        return Measured(value, f"{words}, but the results are wrong", False)
    return Measured(value, words, holds)


def _time(part: str, case: str, mode: str, most: float) -> Target:
    def called(data: Data) -> Measured:
        return found(data, peer_of(data, part, case, OURS, mode))

    def replayed(data: Data) -> Measured:
        return found(data, peer_of(data, part, case, OURS, mode).get("replay", {}))

    def found(data: Data, times: Data) -> Measured:
        if "failed" in times:
            return Measured(None, times["failed"], False)
        if "median_ms" not in times:
            return Measured()
        ms = times["median_ms"]
        return _of(data, part, case, mode, ms, f"{ms:.3g} ms", ms <= most)

    return Target(f"({part}) {case}, {_said(mode)}", f"≤ {most:g} ms", called, replayed if part != "b" else None)


def _gatv2(part: str, dot: str, gatv2: str, mode: str) -> Target:
    def ratio(data: Data, replay: bool) -> Measured:
        times = [peer_of(data, part, case, OURS, mode) for case in (gatv2, dot)]
        times = [each.get("replay", {}) if replay else each for each in times]
        if not all("median_ms" in each for each in times):
            return Measured()
        share = times[0]["median_ms"] / times[1]["median_ms"]
        return _of(data, part, gatv2, mode, share, f"{share:.2f}×", share <= 0.7)

    replayed = None if part == "b" else lambda data: ratio(data, True)
    return Target(f"({part}) {gatv2} over dot, {_said(mode)}", "≤ 0.70×", lambda data: ratio(data, False), replayed)


def _pyg(part: str, case: str, mode: str) -> Target:
    def called(data: Data) -> Measured:
        ours, theirs = (peer_of(data, part, case, peer, mode) for peer in (OURS, PYG))
        if "median_ms" not in ours or not theirs:
            return Measured()
        if theirs.get("failed") == OUT_OF_MEMORY:
            return _of(data, part, case, mode, None, OUT_OF_MEMORY, True)
        if "median_ms" not in theirs:
            return Measured(None, theirs.get("failed", NOT_YET), None)
        ratio = theirs["median_ms"] / ours["median_ms"]
        return _of(data, part, case, mode, ratio, f"{ratio:.1f}× as long", ratio >= 10)

    return Target(f"({part}) {case}, {_said(mode)}, {PYG}", f"{OUT_OF_MEMORY}, or ≥ 10× as long", called)


def _memory(part: str) -> Target:
    def called(data: Data) -> Measured:
        cases = data.get("parts", {}).get(part, {}).get("cases", {})
        found = {(c, mode): held_ratio(data, part, c, OURS, mode) for c in cases for mode in MODES}
        ratios = {place: ratio for place, ratio in found.items() if ratio is not None}
        if not ratios:
            return Measured()
        (case, mode), worst = max(ratios.items(), key=lambda item: item[1])
        return _of(data, part, case, mode, worst, f"{worst:.2f}×, at worst ({case}, {_said(mode)})", worst <= 1.2)

    return Target(f"({part}) peak memory over inputs + outputs", "≤ 1.20×", called)


def _additive(name: str, asked: str, measured: Callable[[Data, float], tuple[float, str, bool] | None]) -> Target:
    case = "L = 2,048"

    def found(data: Data, replay: bool) -> Measured:
        ours = peer_of(data, "additive", case, OURS, FORWARD)
        ours = ours.get("replay", {}) if replay else ours
        if "failed" in ours:
            return Measured(None, ours["failed"], False)
        value = measured(data, ours["median_ms"]) if "median_ms" in ours else None
        return Measured() if value is None else _of(data, "additive", case, FORWARD, *value)

    name = f"additive, {case}, forward: {name}"
    return Target(name, asked, lambda data: found(data, False), lambda data: found(data, True))


def _additive_floor(data: Data, ms: float) -> tuple[float, str, bool]:
    facts = data["parts"]["additive"]["cases"]["L = 2,048"]["facts"]
    ratio = ms / tanh_ms(facts["queries"], facts["features"], facts["heads"])
    return ratio, f"{ratio:.2f}×", ratio <= 2


def _additive_eager(data: Data, ms: float) -> tuple[float, str, bool] | None:
    eager = peer_of(data, "additive", "L = 2,048", EAGER, FORWARD)
    if "median_ms" not in eager:
        return None
    ratio = eager["median_ms"] / ms
    return ratio, f"{ratio:.1f}×", ratio >= 15


def _dispatch(mode: str) -> Target:
    def found(data: Data, replay: bool) -> Measured:
        both = [peer_of(data, "dispatch", "L = 2,048", peer, mode) for peer in (OURS, SDPA)]
        ours, theirs = (times.get("replay", {}) if replay else times for times in both)
        if "median_ms" not in ours or "median_ms" not in theirs:
            return Measured()
        ratio = ours["median_ms"] / theirs["median_ms"]
        return _of(data, "dispatch", "L = 2,048", mode, ratio, f"{ratio:.3f}×", ratio <= 1.02)

    name = f"dot over all pairs, L = 2,048, {_said(mode)}: ours over torch SDPA"
    return Target(name, "≤ 1.02×", lambda data: found(data, False), lambda data: found(data, True))


def _step(model: str) -> Target:
    def called(data: Data) -> Measured:
        found = step_of(data, model, OURS, CALLED)
        if "failed" in found:
            return Measured(None, found["failed"], False)
        launches = found.get("launches")
        return Measured() if launches is None else Measured(launches, f"{launches:,}", True)

    return Target(f"launches of a training step of {model}", "counted", called)


def step_of(data: Data, model: str, peer: str, way: str) -> Data:
    """The record of a training step; empty where it was not measured."""
    models = data.get("parts", {}).get("step", {}).get("models", {})
    return models.get(model, {}).get(peer, {}).get(way, {})


def _said(mode: str) -> str:
    return "forward" if mode == FORWARD else "forward + backward"


_PAIRS = "all pairs, dot, bf16, distances as bias"
TARGETS: tuple[Target, ...] = (
    _time("a", "dot, bf16", FORWARD, 0.25),
    _time("a", "dot, bf16", BOTH, 0.8),
    _time("b", "dot, bf16", FORWARD, 18),
    _time("b", "dot, bf16", BOTH, 60),
    _pyg("b", "dot, bf16", FORWARD),
    _pyg("b", "dot, bf16", BOTH),
    _time("c", "bonds, dot, bf16", FORWARD, 0.4),
    _time("c", "bonds, dot, bf16", BOTH, 1.2),
    _time("c", _PAIRS, FORWARD, 0.4),
    _time("c", _PAIRS, BOTH, 1.2),
    *(_gatv2("a", "dot, bf16", "GATv2, bf16", mode) for mode in MODES),
    *(_gatv2("b", "dot, bf16", "GATv2, bf16", mode) for mode in MODES),
    *(_gatv2("c", "bonds, dot, bf16", "bonds, GATv2, bf16", mode) for mode in MODES),
    *(_memory(part) for part in "abc"),
    _additive("over the tanh floor of 64 µs a head", "≤ 2.00×", _additive_floor),
    _additive("eager PyTorch over ours", "≥ 15×", _additive_eager),
    *(_dispatch(mode) for mode in MODES),
    *map(_step, MODELS),
)
