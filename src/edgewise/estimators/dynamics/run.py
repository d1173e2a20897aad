"""A run over moving bodies: read them, learn where they will be, score, in a run folder."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.motion import Moments, Motion, parted, read_motion
from edgewise.errors import DataError
from edgewise.estimators.config import begin
from edgewise.estimators.dynamics.estimator import TrainedDynamics, fit_motion, later
from edgewise.estimators.dynamics.job import DynamicsJob
from edgewise.estimators.run import MemberReport, Run, of_one
from edgewise.train.folder import RunFolder


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
        parts = parted(motion, job.start, job.ahead, job.split_sizes, job.data_seed)
        if not len(parts["train"].moment):
            raise DataError(f"{motion.source}: no moment is left for training.")
        rows = {part: np.unique(moments.trajectory).tolist() for part, moments in parts.items()}
        return cls(folder, begin(folder, job, resume=resume, rows=rows), job, motion, parts)

    def learned(self, report: MemberReport | None) -> tuple[TrainedDynamics, dict[str, Any]]:
        """What has been trained, and its scores; where the test bodies are told to be is written down."""
        trained, metrics = fit_motion(
            self.parts, self.job, folder=self.folder, resume=self.resume, report=of_one(report)
        )
        test = self.parts["test"]
        if len(test.moment):
            header = ["trajectory", "moment", "body", *(f"{axis}{end}" for end in ("", "_pred") for axis in axes(test))]
            pairs = np.concatenate([later(test), trained.told(test)], axis=-1)
            cells = (
                [int(trajectory), int(moment), body, *(f"{number:.7g}" for number in numbers)]
                for trajectory, moment, bodies in zip(test.trajectory, test.moment, pairs, strict=True)
                for body, numbers in enumerate(bodies)
            )
            self.folder.write_table("test_predictions.csv", header, cells)
        return trained, metrics


def axes(moments: Moments) -> list[str]:
    """x, y, z, or numbers where there are more."""
    count = moments.motion.positions.shape[-1]
    return list("xyz"[:count]) if count <= 3 else [f"x{number}" for number in range(count)]
