"""Folds of a cross-validation and members of an ensemble, each trained in a worker of an engine.

A worker reads the data itself, within the limits of the caller, and trains into the run folder, with the seeds of a run
in one process. A lost one is replaced, and the next one continues from the last checkpoint; whoever called goes on as
after an interruption.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.learn.engine.workers import Workers
from edgewise.learn.progress import monitored
from edgewise.learn.tables.options import ReadLimits, current_limits, read_limits, table_format
from edgewise.learn.tasks.config import RunSettings
from edgewise.learn.tasks.registry import task
from edgewise.learn.tasks.run import Run, member_training
from edgewise.learn.tasks.task import Task
from edgewise.learn.training.checkpoint import FINISHED
from edgewise.learn.training.folder import RunFolder


def train_folds(
    workers: Workers, chosen: Task, folds: Sequence[tuple[RunSettings, RunFolder]], *, overwrite: bool, resume: bool
) -> None:
    """Trains runs in their folders.

    Args:
        workers: Who trains.
        chosen: The task of all.
        folds: The settings and the folder of each run.
        overwrite: Earlier runs in the folders may be replaced.
        resume: Interrupted runs are continued.

    Raises:
        RunFolderError: A folder is taken.
        EdgewiseError: A run failed, or workers were lost too often.
    """
    for _, folder in folds:
        folder.check(overwrite=overwrite, resume=resume)
        if overwrite:  # here, as a worker that comes after a lost one finds its run
            with folder.locked():
                folder.begin()
    limits = current_limits()
    items = [(chosen.name, settings, limits, folder.path) for settings, folder in folds]
    workers.map(_fold, items, "training the folds")


def _fold(item: tuple[str, RunSettings, ReadLimits, Path]) -> None:
    name, settings, limits, path = item
    folder = RunFolder(path)
    if folder.is_finished:  # the worker was lost just then
        return
    with read_limits(**vars(limits)), table_format(settings.table), monitored(None):
        Run.prepare(task(name), settings, folder, resume=True).finish()


def train_members(workers: Workers, run: Run) -> Run:
    """Trains the members of a prepared run, whose lock the caller holds; the run, which finds them trained.

    Raises:
        EdgewiseError: A training failed, or workers were lost too often.
    """
    name, settings = run.task.name, run.prepared.settings
    size = run.task.ensemble_size(settings)
    limits = current_limits()
    items = [(name, settings, number, limits, run.folder.checkpoint_folder(number)) for number in range(size)]
    left = [item for item in items if not (item[-1] / FINISHED).is_file()]
    with run.claim as claim:
        workers.map(_member, left, "training the models of the ensemble")
        return replace(run, resume=True, claim=claim.pop_all())


def _member(item: tuple[str, RunSettings, int, ReadLimits, Path]) -> None:
    name, settings, number, limits, checkpoints = item
    with read_limits(**vars(limits)), table_format(settings.table), monitored(None):
        chosen = task(name)
        member_training(chosen, chosen.prepare(settings))(number, folder=checkpoints, resume=True)
