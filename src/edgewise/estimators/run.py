"""What every training from the command line goes through: data, a folder that is begun, training, scores."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from edgewise.estimators.report.leakage import Sides, leakage
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.log import check_logger

MemberReport = Callable[[int, int, int, dict[str, Any]], None]
"""Called with the ensemble member, its steps done, its steps in all, and the numbers of its last epoch."""


@dataclass(frozen=True)
class Run:
    """A run whose data has been read and whose folder has been begun; who inherits says what is learned from what."""

    folder: RunFolder
    """Where it is kept."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""
    job: Any
    """What is to be done."""
    claim: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, kw_only=True, compare=False, repr=False)
    """Holds the lock of the folder until the run ends."""

    @property
    def num_members(self) -> int:
        """Models that are trained one after the other."""
        return 1

    @classmethod
    def prepare(cls, job: Any, folder: RunFolder, *, overwrite: bool = False, resume: bool = False) -> Self:
        """Reads the data and begins the folder: nothing is written before the data is known to be good.

        Raises:
            RunFolderError: The folder is taken, or holds a run with other settings or other data.
            DataError: The data cannot be used.
        """
        with contextlib.ExitStack() as claim:
            claim.enter_context(folder.claimed(overwrite=overwrite, resume=resume))
            check_logger(job.train.logger)
            return replace(cls.begun(job, folder, resume), claim=claim.pop_all())

    @classmethod
    def begun(cls, job: Any, folder: RunFolder, resume: bool) -> Self:
        """The run, its data read and its folder begun."""
        raise NotImplementedError

    def learned(self, report: MemberReport | None) -> tuple[Any, dict[str, Any]]:
        """What has been trained, which knows how to `save` itself, and its scores."""
        raise NotImplementedError

    def sides(self) -> Sides | None:
        """What the rows of each part hold, to find what stands on both sides of the split; None where there is nothing
        to compare."""
        return None

    def finish(self, report: MemberReport | None = None) -> dict[str, Any]:
        """Trains, scores and writes; returns what stands in `metrics.json`."""
        with self.claim:
            began = time.perf_counter()
            trained, metrics = self.learned(report)
            metrics.setdefault("seconds", round(time.perf_counter() - began, 2))
            sides = self.sides()
            if sides is not None:
                metrics["leakage"] = leakage(sides)
            trained.save(self.folder)
            self.folder.write_json("metrics.json", metrics)
            return metrics


def of_one(report: MemberReport | None) -> Report | None:
    """The report of a run that trains one model."""
    return None if report is None else lambda *steps: report(0, *steps)
