"""Part after part, within the time that is given; what is done is written at once."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cpu_attention.machine import commit

from gpu_attention import graphs
from gpu_attention.case import REPLAYED
from gpu_attention.device import Cuda
from gpu_attention.limits import machine_limits
from gpu_attention.measure import CUT, attempted, measured, replayed
from gpu_attention.options import Options
from gpu_attention.report import NAME
from gpu_attention.step_study import EARLIER, StepStudy
from gpu_attention.suite import PARTS, STUDY_WEIGHTS

FOR_REPLAYS = 0.1
"""The part of the time that is kept for captured graphs. They come last: one that fails may leave the device so that
nothing can be trusted after it."""


class RefusedMergeError(Exception):
    """Results of two machines do not go into one table."""


def begin(folder: Path | None, facts: dict[str, Any]) -> dict[str, Any]:
    """An empty record of this machine, or the one in the folder.

    Raises:
        RefusedMergeError: the record there is of another machine, or of other versions.
    """
    path = None if folder is None else folder / f"{NAME}.json"
    if path is None or not path.is_file():
        return {"machine": facts, "parts": {}}
    kept = json.loads(path.read_text())
    if kept["machine"] != facts:
        differs = ", ".join(key for key in facts if kept["machine"].get(key) != facts[key])
        raise RefusedMergeError(
            f"{path} was measured elsewhere ({differs} differ); name another folder with --out, or remove it."
        )
    return {"machine": facts, "parts": dict(kept["parts"])}


@dataclass
class Session:
    """A run over some parts."""

    device: Cuda
    """What is measured."""
    options: Options
    """How."""
    data: dict[str, Any]
    """The content of gpu.json, which grows."""
    save: Callable[[], None]
    """Called whenever something is done."""
    say: Callable[[str], None]
    """Progress."""
    commit: str = ""
    """What is measured, where no git can say it."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    trouble: str = field(default="", init=False)
    """Why the run had to stop, if it had to."""
    steps: StepStudy | None = field(default=None, init=False)
    """The study of training steps, whose captures come last, where it runs."""

    def run(self, names: list[str]) -> None:
        """Measure these parts, each with its share of the time that is left, then replay what is so short."""
        began, seconds = self.clock(), 60 * self.options.minutes
        until = began + seconds * (1 - FOR_REPLAYS * any(name in PARTS and PARTS[name].replays for name in names))
        for place, name in enumerate(names):
            weights = [weight_of(each) for each in names[place:]]
            now = self.clock()
            self.part(name, now + (until - now) * weights[0] / sum(weights))
            if self.trouble:
                return
        clean, ends = True, began + seconds
        for peers in (REPLAYED[:1], REPLAYED[1:]):  # ours first: what fails for one ends it for all
            for name in names:
                if name in PARTS and PARTS[name].replays:
                    clean = self.replays(name, peers, ends, clean)
        if self.steps is not None:
            self.steps.captured(ends, clean)

    def part(self, name: str, until: float) -> None:
        """Measure a part."""
        began = self.clock()
        record = self.data["parts"][name] = {"measured": self.measured()}
        if name == "limits":
            record["limits"], reason = attempted(partial(machine_limits, self.device, self.options.quick), self.device)
            self.note(record, "limits", reason)
        elif name == "step":
            self.steps = StepStudy(self.device, self.options, record, self.save, self.say, self.clock)
            self.steps.run(until)
        else:
            self.cases(name, record, until)
        graphs.named.cache_clear()
        self.device.give_back()
        self.say(f"{name}: {self.clock() - began:.0f} s")
        self.save()

    def cases(self, name: str, record: dict[str, Any], until: float) -> None:
        """Measure the cases of a part."""
        record["cases"] = {}
        for case_name, entry in PARTS[name].entries.items():
            began = self.clock()
            if began > until:
                self.note(record, case_name, CUT)
                continue
            case, reason = attempted(partial(entry.build, self.device.name, self.options), self.device)
            if not reason:
                record["cases"][case_name] = measured(case, self.device, self.options.pace, until, self.clock)
            del case
            self.note(record, case_name, reason)
            self.device.give_back()
            self.trouble = self.device.trouble()
            self.note(record, case_name, self.trouble)
            self.say(f"  {name}, {case_name}: {self.clock() - began:.0f} s {reason or self.trouble}".rstrip())
            self.save()
            if self.trouble:
                return

    def replays(self, name: str, peers: tuple[str, ...], until: float, clean: bool) -> bool:
        """Add times of captured graphs of some peers to the cases of a part; False where no more can be captured."""
        record = self.data["parts"][name]
        for case_name, found in record["cases"].items():
            if not clean or self.clock() > until:
                self.note(record, f"{case_name}, captured: {', '.join(peers)}", CUT if clean else EARLIER)
                continue
            case, reason = attempted(
                partial(PARTS[name].entries[case_name].build, self.device.name, self.options), self.device
            )
            clean = not reason and replayed(case, peers, found, self.device, self.options.pace)
            clean = clean and not self.device.trouble()
            del case
            self.save()
        graphs.named.cache_clear()
        return clean

    def measured(self) -> dict[str, Any]:
        """What every part says of itself."""
        known = {"commit": self.commit, "changed_files": False} if self.commit else commit()
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return {**known, "ours": self.options.ours, "quick": self.options.quick, "at": at, "notes": []}

    @staticmethod
    def note(record: dict[str, Any], what: str, reason: str | None) -> None:
        """Keep what was cut or failed, for the reader."""
        if reason:
            record["measured"]["notes"].append(f"{what}: {reason}")


def weight_of(name: str) -> int:
    """A part's share of the time, beside those of the others."""
    return PARTS[name].weight if name in PARTS else STUDY_WEIGHTS[name]
