"""A run over moving bodies: read them, learn where they will be or how they are pulled, score, in a run folder."""

import io
import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.motion.motion import Moments, Motion, parted, read_motion
from edgewise.errors import DataError
from edgewise.tasks.config import begin
from edgewise.tasks.motion.fit import fit_motion
from edgewise.tasks.motion.force import PairPull, read_off
from edgewise.tasks.motion.job import DynamicsJob
from edgewise.tasks.motion.rollout import compared, roll_out
from edgewise.tasks.motion.trained import TrainedDynamics
from edgewise.tasks.run import Run
from edgewise.train.folder import RunFolder

MOST_TRAJECTORIES = 20
"""Test trajectories that are let run."""


@dataclass(frozen=True)
class DynamicsRun(Run):
    """A run over moving bodies."""

    job: DynamicsJob
    """What is to be done."""
    motion: Motion
    """The bodies."""
    parts: dict[str, Moments]
    """The moments of each part."""

    @classmethod
    def begun(cls, job: DynamicsJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its file read and its folder begun."""
        motion = read_motion(job.data[0])
        parts = parted(motion, job.start, job.ahead, job.split_sizes, job.data_seed, job.model.told)
        if not len(parts["train"].moment):
            raise DataError(f"{motion.source}: no moment is left for training.")
        rows = {part: np.unique(moments.trajectory).tolist() for part, moments in parts.items()}
        return cls(folder, begin(folder, job, resume=resume, rows=rows), job, motion, parts)

    def learned(self) -> tuple[TrainedDynamics, dict[str, Any]]:
        """What has been trained, and its scores; what is told of the test moments is written down."""
        trained, metrics = fit_motion(self.parts, self.job, folder=self.folder, resume=self.resume)
        metrics["bodies"] = list(self.motion.names)
        metrics["units"] = {name: unit for name, unit in self.motion.units.items() if unit != "1"}
        test = self.parts["test"]
        if len(test.moment):
            self.folder.write_table("test_predictions.csv", *told_table(test, trained.told(test)))
        if self.job.model.told == "accelerations":
            if len(test.moment):
                metrics["rollout"] = self.let_run(trained)
            pull = read_off(trained, self.parts["train"])
            if pull is not None:
                metrics["force"] = pull.scores()
                self.folder.write_table("force.csv", *pull_table(pull, self.motion))
        return trained, metrics

    def let_run(self, trained: TrainedDynamics) -> dict[str, Any]:
        """Lets test trajectories run on by what was learned, from their first moment on; how far they came from where
        the bodies went. rollout.npz has what a file of trajectories has, and beside it where they really went."""
        test, motion = self.parts["test"], self.motion
        chosen, moment = np.unique(test.trajectory)[:MOST_TRAJECTORIES], int(test.moment.min())
        found = roll_out(trained, motion, moment=moment, trajectories=chosen)
        until = moment + len(found.times)
        content = {
            "trajectories": chosen,
            "times": found.times,
            "positions": found.positions,
            "velocities": found.velocities,
            "positions_real": motion.positions[chosen, moment:until],
            "velocities_real": motion.velocities[chosen, moment:until],
            "masses": motion.masses[chosen],
            "names": np.array(motion.names),
            "units": np.array(json.dumps(dict(motion.units))),
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **content)
        self.folder.write("rollout.npz", buffer.getvalue())
        return compared(found, motion, moment)


Table = tuple[list[str], list[list[Any]]]


def told_table(moments: Moments, told: np.ndarray) -> Table:
    """A row for each body of each moment: what is to be told, and what is."""
    start = "" if moments.told == "positions" else "a"
    header = [f"{start}{axis}{end}" for end in ("", "_pred") for axis in axes(moments)]
    pairs = np.concatenate([moments.targets, told], axis=-1)
    cells = [
        [int(trajectory), int(moment), body, *(f"{number:.7g}" for number in numbers)]
        for trajectory, moment, bodies in zip(moments.trajectory, moments.moment, pairs, strict=True)
        for body, numbers in enumerate(bodies)
    ]
    return ["trajectory", "moment", "body", *header], cells


def pull_table(pull: PairPull, motion: Motion) -> Table:
    """A row for each distance: what was learned, and what the law says where the file has it."""

    def named(name: str, kind: str) -> str:
        unit = motion.units.get(kind, "1")
        return name if unit == "1" else f"{name}_{unit}"

    header = [named("distance", "position"), named("learned", "acceleration")]
    columns = [pull.distances, pull.learned]
    if pull.law is not None:
        header, columns = [*header, named("law", "acceleration")], [*columns, pull.law]
    return header, [[f"{number:.7g}" for number in row] for row in np.stack(columns, axis=1)]


def axes(moments: Moments) -> list[str]:
    """x, y, z, or numbers where there are more."""
    count = moments.motion.positions.shape[-1]
    return list("xyz"[:count]) if count <= 3 else [f"x{number}" for number in range(count)]
