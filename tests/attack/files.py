"""Files under attack: damaged at random, byte by byte and field by field; nothing but our own errors may come out.

And a training that is killed at random moments: its folder always opens or resumes, and the end is the same, bit for
bit, as without a kill.
"""

import itertools
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from attack._damage import Target
from attack._folders import array_targets, checkpoint_targets, folder_targets, model_targets
from attack._outcome import Outcomes
from edgewise.learn.training.claim import LOCK


def attack(targets: list[Target], seconds: float, draw: random.Random, most: int | None = None) -> dict[str, Any]:
    """Damages the files in turn until the time is over; counts of what came out, and the first foreign errors."""
    found = {target.name: Outcomes() for target in targets}
    end, num_inputs = time.monotonic() + seconds, 0
    while time.monotonic() < end and (most is None or num_inputs < most):
        for target in targets:
            found[target.name].add(target, target.damaged(draw))
        num_inputs += len(targets)
    names = ("inputs", "read", "ours", "foreign")
    return {
        **{name: sum(getattr(each, name) for each in found.values()) for name in names},
        "by_file": {target: {name: getattr(each, name) for name in names} for target, each in found.items()},
        "examples": [f"{name}: {find}" for name, each in found.items() for find in each.finds][:20],
    }


def run(minutes: float, seed: int) -> dict[str, Any]:
    """Nine tenths of the time for damaged files, the rest, and at least five kills, for killed trainings."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = [*array_targets(folder), *model_targets(folder), *folder_targets(folder)]
        targets += checkpoint_targets(folder)
        found = attack(targets, minutes * 60 * 0.6, draw)
        return {**found, **kills(folder / "killed", minutes * 60 * 0.4, draw)}


SMALL = (
    "--smiles-columns", "smiles", "--target-columns", "y", "--model-dim", "8", "--num-heads", "2", "--num-layers", "1",
    "--epochs", "12", "--device", "cpu", "--logger", "csv", "--no-molecule-descriptors", "--no-baselines",
)  # fmt: skip
MAX_RUNS = 20
"""Trainings after which one must have been killed."""
KEPT = ("model.safetensors", "model.json", "splits.json", "test_predictions.csv")


def kills(folder: Path, seconds: float, draw: random.Random) -> dict[str, Any]:
    """Kills a training at random moments and resumes it, again and again; the last end is that of a run left alone.

    A broken promise: a folder that neither opens nor resumes, a file of a killed process that stays, other bits.
    """
    folder.mkdir()
    data = folder / "data.csv"
    chains = ["C" * length + end for length in range(1, 9) for end in ("", "O", "N", "F", "Cl", "C(=O)O")]
    data.write_text("smiles,y\n" + "".join(f"{text},{len(text) / 7}\n" for text in chains))
    command = [sys.executable, "-m", "edgewise.cli.main", "train", str(data), *SMALL, "--resume", "-o"]
    span, counts, broken = math.inf, Counter[str](), []
    end = time.monotonic() + seconds
    for number in itertools.count():
        run = folder / f"run_{number}"
        # The first is left alone.
        for is_last in [False] * draw.randint(1, 4) * (number > 0) + [True]:
            with subprocess.Popen([*command, str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                began = _lock_time(process, run)
                try:
                    _, err = process.communicate(timeout=None if is_last else draw.uniform(0, span))
                except subprocess.TimeoutExpired:
                    process.kill()
                    counts["kills"] += 1
                    continue
            span = min(span, time.monotonic() - began) if number == 0 else span
            if process.returncode != 0:
                broken.append(f"{run.name}: {err.decode()[-300:]}")
            break  # it ended before it was killed
        counts["runs_ended"] += 1
        broken += [f"{run.name}: {name} differs" for name in KEPT if _differ(run / name, folder / "run_0" / name)]
        broken += [f"{run.name}: {path.name} is left" for path in run.rglob("*.part")]
        if time.monotonic() > end and not counts["kills"] and number >= MAX_RUNS:
            broken.append(f"none of {number} trainings was killed before it ended")
        if time.monotonic() > end and (counts["kills"] or broken):
            return {**{name: counts[name] for name in ("kills", "runs_ended")}, "broken": broken}
    raise AssertionError("the loop ends by its time")


def _lock_time(process: subprocess.Popen, run: Path) -> float:
    """Waits until a process works in its folder, which its lock says; when that was."""
    while process.poll() is None:
        try:
            if json.loads((run / LOCK).read_text())["process"] == process.pid:
                break
        except (OSError, ValueError):
            time.sleep(0.005)
    return time.monotonic()


def _differ(one: Path, other: Path) -> bool:
    return not one.is_file() or one.read_bytes() != other.read_bytes()
