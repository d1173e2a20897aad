"""What every training from the command line goes through: data, a folder that is begun, training, scores."""

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import Any, Self

from edgewise.progress import stage
from edgewise.tasks.report.leakage import Sides, leakage
from edgewise.train.folder import RunFolder
from edgewise.train.log import check_logger


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
            with stage(f"reading {', '.join(map(str, job.data))}"):
                begun = cls.begun(job, folder, resume)
            return replace(begun, claim=claim.pop_all())

    @classmethod
    def begun(cls, job: Any, folder: RunFolder, resume: bool) -> Self:
        """The run, its data read and its folder begun."""
        raise NotImplementedError

    def learned(self) -> tuple[Any, dict[str, Any]]:
        """What has been trained, which knows how to `save` itself, and its scores."""
        raise NotImplementedError

    def sides(self) -> Sides | None:
        """What the rows of each part hold, to find what stands on both sides of the split; None where there is nothing
        to compare."""
        return None

    def finish(self) -> dict[str, Any]:
        """Trains, scores and writes; returns what stands in `metrics.json`."""
        with self.claim:
            began = time.perf_counter()
            trained, metrics = self.learned()
            metrics.setdefault("seconds", round(time.perf_counter() - began, 2))
            with stage("comparing test rows with training rows"):
                sides = self.sides()
                if sides is not None:
                    metrics["leakage"] = leakage(sides)
            trained.save(self.folder)
            self.folder.write_json("metrics.json", metrics)
            return metrics
