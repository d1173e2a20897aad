"""The study of training steps: each model and peer as it is called, compiled, and both captured."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from cpu_attention.measure import summary

from gpu_attention.case import OURS
from gpu_attention.device import Call, Cuda
from gpu_attention.measure import COMPILE_SECONDS, CUT, OUT_OF_MEMORY, attempted
from gpu_attention.options import Options
from gpu_attention.step import BOTH, CALLED, CAPTURED, COMPILED, MODELS, Training, facts, training_of

EARLIER = "an earlier capture failed"
STEPS, WARM_UP = 20, 3
"""How many are timed, and how many run before: the first ones compile."""
PAIRS = sorted(((model, peer) for model, peers in MODELS.items() for peer in peers), key=lambda pair: pair[1] != OURS)
"""Models and who trains them: ours first, since what fails in a capture for one ends it for all."""


@dataclass
class StepStudy:
    """A run over all models."""

    device: Cuda
    """What is measured."""
    options: Options
    """How."""
    record: dict[str, Any]
    """Of the part; it grows."""
    save: Callable[[], None]
    """Called whenever something is done."""
    say: Callable[[str], None]
    """Progress."""
    clock: Callable[[], float]
    """Seconds."""
    compiled: dict[tuple[str, str], Training] = field(default_factory=dict, init=False)
    """Those that were compiled, so that they need not be again when they are captured."""

    def run(self, until: float) -> None:
        """Everyone as they are called, then compiled, and how many kernels a step starts."""
        self.record["models"] = {model: {peer: {} for peer in peers} for model, peers in MODELS.items()}
        self.record["facts"], reason = attempted(partial(facts, self.options.quick), self.device)
        if reason:
            self.record["measured"]["notes"].append(f"sizes: {reason}")
        for way in (CALLED, COMPILED):
            for model, peer in PAIRS:
                late = way == COMPILED and self.clock() > until - COMPILE_SECONDS
                self.note(model, peer, way, {"failed": CUT} if late else self.plain(model, peer, way))

    def plain(self, model: str, peer: str, way: str) -> dict[str, Any]:
        """The times and launches of a step, or why there are none."""
        training, reason = attempted(self.maker(model, peer), self.device)
        if not reason and way == COMPILED:
            training, reason = attempted(training.compiled, self.device)
        if reason:
            return {"failed": reason}
        step = training.step()
        found = self.timed(step)
        if "failed" not in found:
            found["launches"], _ = attempted(partial(self.device.launches, step), self.device)
            if way == COMPILED:
                self.compiled[model, peer] = training
        return found

    def captured(self, until: float, clean: bool) -> None:
        """Everyone as they are called and compiled, captured; after a capture that failed no other is tried."""
        is_ours = [peer == OURS for _, peer in PAIRS]
        for first in (True, False):
            for way, plain in ((CAPTURED, CALLED), (BOTH, COMPILED)):
                for model, peer in (pair for pair, ours in zip(PAIRS, is_ours) if ours is first):
                    reason = self.record["models"][model][peer][plain].get("failed", "")
                    reason = reason or ("" if clean else EARLIER) or (CUT if self.clock() > until else "")
                    found = {"failed": reason}
                    if not reason:
                        found, clean = self.replayed(model, peer, plain)
                    self.note(model, peer, way, found)
        self.compiled.clear()
        torch.compiler.reset()
        self.device.give_back()

    def replayed(self, model: str, peer: str, plain: str) -> tuple[dict[str, Any], bool]:
        """The times of a captured step, or why there are none; and whether others may still be captured."""
        if plain == COMPILED:
            training, reason = self.compiled.pop((model, peer)), ""
        else:
            training, reason = attempted(self.maker(model, peer), self.device)
        if reason:
            return {"failed": reason}, True
        step = training.step(capturable=True)
        # A step that waits for the device cannot be captured, and one that tries harms what comes after it.
        waits, reason = attempted(partial(self.device.waits, step), self.device)
        if waits or reason:
            return {"failed": waits or reason}, not self.device.trouble()
        replay, reason = attempted(partial(self.device.captured, step), self.device)
        if reason:
            return {"failed": reason}, reason == OUT_OF_MEMORY
        found = self.timed(replay)
        return found, "failed" not in found

    def maker(self, model: str, peer: str) -> Callable[[], Training]:
        """Makes a fresh model and its batch."""
        return partial(training_of, model, peer, self.device.name, self.options.quick)

    def timed(self, step: Call) -> dict[str, Any]:
        """The times of a step, or why there are none."""
        times = []
        for turn in range(-WARM_UP, min(STEPS, self.options.pace.most)):
            took, reason = attempted(partial(self.device.milliseconds, step), self.device)
            if reason:
                return {"failed": reason}
            times += [took / 1000] * (turn >= 0)
        return summary(times)

    def note(self, model: str, peer: str, way: str, found: dict[str, Any]) -> None:
        """Keep what was found."""
        self.record["models"][model][peer][way] = found
        done = f"{found['median_ms']:.3f} ms" if "median_ms" in found else found["failed"]
        launches = f", {found['launches']} launches" if found.get("launches") is not None else ""
        self.say(f"  step, {model}, {peer}, {way}: {done}{launches}")
        self.save()
