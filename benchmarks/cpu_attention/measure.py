"""Do all peers agree? Then time them in turn, so that whatever happens to the machine happens to all of them."""

import gc
import os
import time
from collections.abc import Callable
from random import Random
from statistics import median, quantiles

import torch
from torch import Tensor

from cpu_attention.case import COMPILED, OURS, Case, Peer
from cpu_attention.machine import CpuTimes, cores, use_between
from cpu_attention.options import Pace

FORWARD, BOTH = "forward", "forward_backward"
MODES = (FORWARD, BOTH)


class DisagreementError(Exception):
    """Two peers that should compute the same do not."""


def computed(peer: Peer, mode: str, cotangent: Tensor) -> tuple[Tensor, ...]:
    """The output and, for both passes, the gradient of every leaf."""
    if mode == FORWARD:
        with torch.no_grad():
            return (peer.run(),)
    out = peer.run()
    cotangent = cotangent if peer.cotangent is None else peer.cotangent
    return out, *torch.autograd.grad(out, list(peer.leaves.values()), cotangent)


def agree(case: Case) -> dict[str, float]:
    """How far each peer lies from ours at most, as a part of the largest value there.

    A gradient that should vanish is judged against a hundredth of the largest one of all.

    Raises:
        DisagreementError: an output or a gradient differs by more than the case tolerates.
    """
    ours, *others = case.peers
    expected = _detached(case, ours)
    floor = 0.01 * max(float(part.abs().max()) for part in expected[1:])
    names = ["the output", *(f"the gradient of {name}" for name in case.peers[ours].leaves)]
    found = {}
    for other in others:
        worst = 0.0
        for name, right, part in zip(names, expected, _detached(case, other), strict=True):
            scale = max(float(right.abs().max()), floor if name != "the output" else 0.0, 1e-30)
            off = float((part.float() - right.float()).abs().max()) / scale
            if not off <= case.tolerance:  # NaN does not pass either
                raise DisagreementError(
                    f"{other} and {ours} differ in {name} by {off:.1e} of its largest value; "
                    f"{case.tolerance:.0e} is allowed. Nothing is timed."
                )
            worst = max(worst, off)
        found[other] = worst
    return found


def without_what_fails_to_compile(case: Case) -> Case:
    """The case without the peer that torch.compile cannot make, and the reason in its place."""
    if COMPILED not in case.peers:
        return case
    try:
        for mode in MODES:
            computed(case.peers[COMPILED], mode, case.cotangent)
    except RuntimeError as error:  # what torch.compile raises derives from it
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        case.skipped[COMPILED] = f"torch.compile fails: {reason}"
        del case.peers[COMPILED]
    return case


def time_in_turn(case: Case, mode: str, pace: Pace) -> dict[str, list[float]]:
    """Seconds of every call of every peer, as often as the pace says: one call of each, in an order drawn anew each
    time, so that nobody always finds the caches as the same other one leaves them."""
    calls: dict[str, Callable[[], tuple[Tensor, ...]]] = {
        name: lambda peer=peer: computed(peer, mode, case.cotangent) for name, peer in case.peers.items()
    }
    expected = {name: _warm(call, pace) for name, call in calls.items()}
    rounds = int(pace.seconds * len(calls) / sum(expected.values()))
    rounds = min(max(rounds, pace.least), pace.most)
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, random = list(calls), Random(0)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            random.shuffle(order)
            for name in order:
                if expected[name] < pace.slow or turn < pace.least_slow:
                    times[name].append(_seconds(calls[name]))
    finally:
        gc.enable()
    return times


def timed(case: Case, pace: Pace) -> dict:
    """The times of every peer in both modes, measured again where they are spread or the machine was not ours alone.

    Returns:
        `peers`: for each its record; `attempts`; `problems`: what was still wrong with the last attempt.
    """
    attempts, problems = 0, ["not measured yet"]
    while problems and attempts < pace.attempts:
        attempts += 1
        began = CpuTimes.now()
        times = {mode: time_in_turn(case, mode, pace) for mode in MODES}
        use = use_between(began, CpuTimes.now(), cores(), os.getloadavg()[0])
        peers = {name: {mode: summary(times[mode][name]) for mode in MODES} for name in case.peers}
        problems = use.reasons(cores()) + spread_too_widely(peers, pace.spread)
    return {"peers": peers, "attempts": attempts, "problems": problems, "others_share": use.others}


def in_turn(calls: dict[str, Callable[[], object]], seconds: float, least: int) -> dict[str, dict]:
    """The times of one call of each, again and again, after two calls to warm up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    until = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < until or min(map(len, times.values())) < least:
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return {name: summary(found) for name, found in times.items()}


def summary(seconds: list[float]) -> dict:
    """Median and interquartile range in ms, and the times themselves in µs."""
    low, _, high = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else (seconds[0],) * 3
    return {
        "median_ms": round(1000 * median(seconds), 4),
        "spread_ms": round(1000 * (high - low), 4),
        "times_us": [round(1e6 * x, 1) for x in seconds],
    }


def spread_too_widely(peers: dict[str, dict], limit: float) -> list[str]:
    """The peers whose times tell nothing certain."""
    return [
        f"{name}, {mode}: the middle half of the times spreads over {part['spread_ms'] / part['median_ms']:.0%} of "
        "their median"
        for name, modes in peers.items()
        for mode, part in modes.items()
        if part["spread_ms"] > limit * part["median_ms"]
    ]


def ratio(peers: dict[str, dict], mode: str, other: str, ours: str = OURS) -> float | None:
    """How many times as long the other takes."""
    if mode not in peers.get(other, {}) or mode not in peers.get(ours, {}):
        return None
    return peers[other][mode]["median_ms"] / peers[ours][mode]["median_ms"]


def _detached(case: Case, name: str) -> list[Tensor]:
    return [part.detach() for part in computed(case.peers[name], BOTH, case.cotangent)]


def _seconds(call: Callable[[], tuple[Tensor, ...]]) -> float:
    began = time.perf_counter()
    results = call()
    seconds = time.perf_counter() - began
    del results
    return seconds


def _warm(call: Callable[[], tuple[Tensor, ...]], pace: Pace) -> float:
    """Call until it gets no faster (memory is there, code is compiled); the seconds of a call then."""
    best = _seconds(call)
    for _ in range(5):
        if best > pace.slow:  # the comparison with ours has called it already
            break
        now = _seconds(call)
        faster, best = now < 0.9 * best, min(best, now)
        if not faster:
            break
    return best
