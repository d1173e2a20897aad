"""One case: is it right? Then time everyone in turn, weigh them, count launches, and replay captured graphs."""

import gc
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import torch
from cpu_attention.measure import summary

from gpu_attention.case import COMPILED, FORWARD, MODES, OURS, Case, Results, Run
from gpu_attention.device import Call, Cuda
from gpu_attention.options import Pace

OUT_OF_MEMORY, CUT = "out of memory", "cut: the time was up"
COMPILE_SECONDS = 20.0
"""That must be left where a peer is compiled first."""
Clock = Callable[[], float]


def measured(case: Case, device: Cuda, pace: Pace, until: float, clock: Clock = time.monotonic) -> dict[str, Any]:
    """The record of a case: each peer in both modes, or why not."""
    peers: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, Call]] = {mode: {} for mode in MODES}
    for name, make in case.make.items():
        late = name in COMPILED and clock() > until - COMPILE_SECONDS
        run, reason = (None, CUT) if late else attempted(make, device)
        peers[name] = {}
        for mode in MODES:
            call = partial(computed, case, run, mode)
            off, reason = (None, reason) if reason else attempted(partial(_difference, case, call), device)
            peers[name][mode] = {"failed": reason} if reason else {"difference": off}
            if not reason:
                calls[mode][name] = call
    for mode in MODES:
        for name, found in timed(calls[mode], device, pace).items():
            peers[name][mode].update(found)
        for name, call in calls[mode].items():
            if "failed" not in peers[name][mode]:
                peers[name][mode]["extra_bytes"], _ = attempted(partial(device.extra_bytes, call), device)
        if OURS in calls[mode]:
            peers[OURS][mode]["launches"], _ = attempted(partial(device.launches, calls[mode][OURS]), device)
    if any(name in COMPILED for name in case.make):
        torch.compiler.reset()
    return {
        "facts": case.facts,
        "tolerance": case.tolerance,
        "held_bytes": {mode: case.held_bytes(mode) for mode in MODES},
        "floor_bytes": {mode: dict(floor) for mode, floor in case.floors.items()},
        "peers": peers,
    }


def replayed(case: Case, peers: tuple[str, ...], record: dict[str, Any], device: Cuda, pace: Pace) -> bool:
    """Add the times of these peers as captured graphs to the record; False where one could not be captured."""
    for name in (each for each in case.make if each in peers):
        for mode in MODES:
            found = record["peers"][name][mode]
            if "failed" in found:
                continue
            run, reason = attempted(case.make[name], device)
            if not reason:
                call = partial(computed, case, run, mode)
                replay, reason = attempted(partial(device.captured, call), device)
            if not reason:
                found["replay"] = timed({name: replay}, device, pace)[name]
                del replay
                device.give_back()
                continue
            found["replay"] = {"failed": reason}
            if reason != OUT_OF_MEMORY:
                return False
    return True


def computed(case: Case, run: Run, mode: str) -> Results:
    """The output and, for both passes, the gradient of every leaf that requires one."""
    if mode == FORWARD:
        with torch.no_grad():
            return (run(),)
    out = run()
    return out, *torch.autograd.grad(out, case.differentiated(), case.cotangent)


def attempted(call: Callable[[], Any], device: Cuda) -> tuple[Any, str]:
    """What a call returns, and why it could not where it could not."""
    try:
        return call(), ""
    except Exception as error:  # memory, a shape, a library or a compiler that is missing: the others go on
        reason = said(error)
    device.give_back()  # after the error is gone, which holds what the call had made
    return None, reason


def said(error: BaseException) -> str:
    """An error in a few words."""
    if isinstance(error, torch.OutOfMemoryError):
        return OUT_OF_MEMORY
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def timed(calls: dict[str, Call], device: Cuda, pace: Pace) -> dict[str, dict[str, Any]]:
    """The times of every call, as often as the pace says: one of each, in an order drawn anew each time."""
    expected: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, call in calls.items():
        for _ in range(2):
            if name not in failed:
                took, reason = attempted(partial(device.milliseconds, call), device)
                expected[name] = took
                failed |= {name: reason} if reason else {}
    order = [name for name in calls if name not in failed]
    total = sum(min(expected[name], pace.slow) for name in order)
    rounds = min(max(int(1000 * pace.seconds * len(order) / max(total, 1e-6)), pace.least), pace.most)
    times: dict[str, list[float]] = {name: [] for name in order}
    random = Random(0)
    gc.collect()
    for turn in range(rounds):
        random.shuffle(order)
        for name in order:
            if name not in failed and (expected[name] < pace.slow or turn < pace.least_slow):
                took, reason = attempted(partial(device.milliseconds, calls[name]), device)
                if reason:
                    failed[name] = reason
                else:
                    times[name].append(took / 1000)
    return {name: {"failed": failed[name]} if name in failed else summary(times[name]) for name in calls}


def _difference(case: Case, call: Callable[[], Results]) -> float:
    return case.difference(call())
