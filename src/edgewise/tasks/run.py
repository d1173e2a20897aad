"""A run, written once over all tasks: prepare → fit → evaluate → save, in a run folder.

read and split the data, begin the folder      `Run.prepare`
train the members                              `fit_members`
score them beside baselines, save, write       `Run.finish`
"""

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch

from edgewise.progress import counted, stage
from edgewise.tasks.config import begin
from edgewise.tasks.fitted import Fitted
from edgewise.tasks.report.leakage import leakage
from edgewise.tasks.task import Prepared, Task
from edgewise.train.folder import RunFolder
from edgewise.train.loader import seed_of
from edgewise.train.log import MetricsLog, check_logger

if TYPE_CHECKING:
    from edgewise.train.training import FitResult


@dataclass(frozen=True, eq=False)
class Run:
    """A run whose data is read and whose folder is prepared."""

    task: Task
    """What kind of model."""
    prepared: Prepared
    """What it is trained from."""
    folder: RunFolder
    """Where the results go."""
    resume: bool
    """Whether checkpoints in the folder are continued."""
    claim: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)
    """Holds the lock of the folder until the run ends."""

    @classmethod
    def prepare(
        cls, task: Task, settings: Any, folder: RunFolder, *, overwrite: bool = False, resume: bool = False
    ) -> Self:
        """Reads the data and begins the folder: nothing is written before the data is known to be good.

        Raises:
            RunFolderError: The folder is taken, or holds a run with other settings or other data.
            DataError: The data cannot be used.
        """
        with contextlib.ExitStack() as claim:
            claim.enter_context(folder.claimed(overwrite=overwrite, resume=resume))
            check_logger(settings.train.logger)
            with stage(f"reading {', '.join(map(str, settings.data))}"):
                prepared = task.prepare(settings)
            continues = begin(
                folder,
                prepared.settings,
                resume=resume,
                rows=prepared.rows,
                rejected=prepared.rejected,
                files=task.files(prepared.settings),
            )
            return cls(task, prepared, folder, continues, claim.pop_all())

    def finish(self) -> dict[str, Any]:
        """Trains, scores and writes; returns the content of metrics.json."""
        task, prepared, folder = self.task, self.prepared, self.folder
        with self.claim:
            started = time.perf_counter()
            task.start_background(prepared)
            results = fit(task, prepared, folder=folder, resume=self.resume)
            with stage("scoring"):
                metrics = task.evaluate(prepared, results)
                task.write_predictions(prepared, folder, metrics)
            metrics.setdefault("seconds", round(time.perf_counter() - started, 2))
            with stage("comparing test rows with training rows"):
                contents = task.split_contents(prepared)
                if contents is not None:
                    metrics["leakage"] = leakage(contents)
            prepared.fitted.save(folder)
            folder.write_json("metrics.json", metrics)
            return metrics


def fit(task: Task, prepared: Prepared, *, folder: RunFolder | None = None, resume: bool = False) -> list["FitResult"]:
    """Trains the members of `prepared.fitted`, in place; what each went through.

    Member k is drawn and trained with the seed of the run plus k.

    Args:
        task: What kind of model.
        prepared: What it is trained from.
        folder: Where checkpoints and the numbers of each epoch go; None keeps none.
        resume: Whether checkpoints in the folder are continued.
    """
    # Lightning takes seconds to import, and reading a model does without it.
    from edgewise.train.fit import fit as fit_member

    fitted: Fitted = prepared.fitted
    recipe, size = task.recipe(prepared), task.ensemble_size(prepared.settings)
    fitted.threads = recipe.threads
    loaders, loss = task.loaders(prepared), task.loss(prepared)
    log = None if folder is None else MetricsLog(folder.log_folder(), recipe.logger, folder.path.name)
    results = []
    for number in range(size) if size == 1 else counted(range(size), "models of the ensemble"):
        settings = replace(recipe, seed=recipe.seed + number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(settings.seed))
            member = fitted.new_member()
        checkpoints = None if folder is None else folder.checkpoint_folder(number)
        result = fit_member(
            member,
            *loaders(settings),
            loss,
            settings,
            folder=checkpoints,
            resume=resume,
            log=log,
            member=number,
        )
        results.append(result)
        fitted.members.append(member.eval())
    if log is not None:
        log.close()
    task.calibrate(prepared)
    return results
