"""A run, written once over all tasks: prepare → fit → evaluate → save, in a run folder.

read and split the data, begin the folder      `Run.prepare`
train the members                              `fit_members`
score them beside baselines, save, write       `Run.finish`
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch

from edgewise.errors import SettingError
from edgewise.learn.files import JsonObject
from edgewise.learn.progress import collected_remarks, counted, stage
from edgewise.learn.tables.decode import check_files_differ
from edgewise.learn.tasks.config import RunSettings, as_started, begin
from edgewise.learn.tasks.report.leakage import leakage
from edgewise.learn.tasks.task import Prepared, Task
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.distributed import ALONE, WorkerGroup
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import seed_of
from edgewise.learn.training.log import MetricsLog, check_logger

if TYPE_CHECKING:
    from torch import nn


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
    group: WorkerGroup = ALONE
    """The processes that train together. The first has the folder; the others only train."""
    claim: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)
    """Holds the lock of the folder until the run ends."""

    @classmethod
    def prepare(
        cls,
        task: Task,
        settings: RunSettings,
        folder: RunFolder,
        *,
        overwrite: bool = False,
        resume: bool = False,
        group: WorkerGroup = ALONE,
        prepared: Prepared | None = None,
    ) -> Self:
        """Reads the data and begins the folder: nothing is written before the data is known to be good.

        Args:
            task: What kind of model.
            settings: The settings of the run.
            folder: Where the results go.
            overwrite: An earlier run in the folder may be replaced.
            resume: Checkpoints in the folder are continued, if there are any.
            group: The processes that train together.
            prepared: What `read` gave for the task and the settings; None reads it.

        Raises:
            RunFolderError: The folder is taken, or holds a run with other settings or other data.
            DataError: The data cannot be used.
            SettingError: There are several processes, and every step computes one whole graph.
            ProcessGroupError: One of these was raised in another process.
        """
        continues = False
        with contextlib.ExitStack() as claim:
            with group.together():
                if group.leads:
                    claim.enter_context(folder.claimed(overwrite=overwrite, resume=resume))
                if resume:
                    settings = as_started(settings, folder)
                prepared = prepared or read(task, settings, group)
                if not group.is_alone and (remedy := task.whole_graph(prepared)) is not None:
                    raise SettingError(
                        f"{group.size} processes cannot split this training: models of {task.noun} compute the whole "
                        f"graph in every step; {remedy}."
                    )
                if group.leads:
                    continues = begin(
                        folder,
                        prepared.settings,
                        resume=resume,
                        rows=prepared.rows,
                        rejected=prepared.rejected,
                    )
            return cls(task, prepared, folder, group.share(continues), group, claim.pop_all())

    def finish(self) -> JsonObject:
        """Trains, scores and writes; returns the content of metrics.json, which is empty beside the first process."""
        task, prepared, folder = self.task, self.prepared, self.folder
        if not self.group.leads:
            fit(task, prepared, resume=self.resume, group=self.group)
            return {}
        with self.claim:
            started = time.perf_counter()
            task.start_background(prepared)
            results = fit(task, prepared, folder=folder, resume=self.resume, group=self.group)
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


def read(task: Task, settings: RunSettings, group: WorkerGroup = ALONE) -> Prepared:
    """What a run is trained from.

    Raises:
        DataError: The data cannot be used.
        SettingError: This machine cannot train with the settings.
    """
    from edgewise.learn.training.fit import usable_device

    check_logger(settings.train.logger)
    usable_device(settings.train, group)
    check_files_differ(settings.data)
    with stage(f"reading {', '.join(map(str, settings.data))}"), collected_remarks() as remarks:
        prepared = task.prepare(settings)
    return replace(prepared, decisions=(*prepared.decisions, *remarks))


def fit(
    task: Task,
    prepared: Prepared,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
    group: WorkerGroup = ALONE,
) -> list["FitResult"]:
    """Trains the members of `prepared.fitted`, in place; what each went through.

    Member k is drawn and trained with the seed of the run plus k.

    Args:
        task: What kind of model.
        prepared: What it is trained from.
        folder: Where checkpoints and the numbers of each epoch go; None keeps none.
        resume: Whether checkpoints in the folder are continued.
        group: The processes that train together; only the first has a folder, and calibrates.
    """
    recipe, size = task.recipe(prepared), task.ensemble_size(prepared.settings)
    prepared.fitted.threads = recipe.threads
    log = None if folder is None else MetricsLog(folder.log_folder(), recipe.logger, folder.path.name)
    train_member = member_training(task, prepared)
    results = []
    for number in range(size) if size == 1 else counted(range(size), "models of the ensemble"):
        checkpoints = None if folder is None else folder.checkpoint_folder(number)
        member, result = train_member(number, folder=checkpoints, resume=resume, log=log, group=group)
        results.append(result)
        prepared.fitted.members.append(member)
    if log is not None:
        log.close()
    if group.leads:
        with stage("calibrating on the validation rows"):
            task.calibrate(prepared)
    return results


def member_training(task: Task, prepared: Prepared) -> "Callable[..., tuple[nn.Module, FitResult]]":
    """A function that trains member `number`, with further arguments of `training.fit.fit`, and returns it with its
    history. The loaders and the loss are shared by all members."""
    from edgewise.learn.training.fit import fit as fit_member

    recipe, loaders, loss = task.recipe(prepared), task.loaders(prepared), task.loss(prepared)

    def train(number: int, **given: Any) -> "tuple[nn.Module, FitResult]":
        settings = replace(recipe, seed=recipe.seed + number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(settings.seed))
            member = prepared.fitted.new_member()
        result = fit_member(member, *loaders(settings), loss, settings, member=number, **given)
        return member.eval(), result

    return train
