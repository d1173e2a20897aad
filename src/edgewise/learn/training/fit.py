"""fit(): train one model, save every epoch, continue where a killed run stopped, and end with the same bits."""

import contextlib
import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from edgewise.errors import SettingError
from edgewise.learn.progress import is_monitored, say, stage
from edgewise.learn.training.checkpoint import (
    FINISHED,
    PREVIOUS,
    FitResult,
    Saved,
    latest,
    read_history,
    save_checkpoint,
)
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.distributed import ALONE, WorkerGroup
from edgewise.learn.training.estimate import prepared
from edgewise.learn.training.loader import Loader, StepLoader, WindowLoader
from edgewise.learn.training.log import MetricsLog
from edgewise.learn.training.loss import Loss
from edgewise.learn.training.replay import check_replay
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.training import Training
from edgewise.learn.training.weights import check_weights


def fit(
    model: nn.Module,
    train_loader: Loader,
    val_loader: Loader | None,
    loss: Loss,
    settings: TrainSettings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    log: MetricsLog | None = None,
    member: int = 0,
    group: WorkerGroup = ALONE,
) -> FitResult:
    """Trains a model in place.

    Every epoch draws its random numbers from (seed, epoch) alone. A checkpoint follows an epoch, at most every 5
    seconds, and a long epoch has some within, which hold the state of the random numbers: a run killed at any moment
    and resumed ends with the same weights, bit for bit, as one that was left alone. Where the step is compiled they are
    the same up to rounding: what the compiler makes may depend on the first batch that it sees.

    Args:
        model: Maps a batch to what the loss takes; its weights are replaced by the trained ones.
        train_loader: Batches to learn from.
        val_loader: Batches to choose by; None or empty keeps the weights of the last epoch.
        loss: What is minimized.
        settings: The recipe, resolved for the table.
        folder: Where checkpoints go: `last.ckpt`, `previous.ckpt`, `best.ckpt`, and `finished.ckpt` at the end. None
            keeps none.
        resume: Continue from the checkpoints in `folder`, if there are any.
        log: Where the numbers of each epoch go.
        member: The number of the ensemble member, for the log.
        group: The processes that share each batch. The folder and the log are those of the first.

    Returns:
        The history, and the epoch whose weights were best.

    Raises:
        SettingError: The device is not there, cannot compute in the precision, or torch cannot compile for it.
        EdgewiseError: The loss became infinite or NaN.
        KeyboardInterrupt: Ctrl-C; the checkpoints are whole.
    """
    device = usable_device(settings, group)
    saved = latest(folder, keeps_best=settings.keeps_best) if resume and folder is not None else None
    saved = group.share(saved)
    if saved is not None and saved.is_finished:
        return reload(model, saved, log, member)
    if settings.epochs is None:
        raise SettingError("epochs is None; hand over settings.resolved(num_rows, num_molecules).")

    if settings.eval_steps is not None:
        epochs = math.ceil(settings.epochs * len(train_loader) / settings.eval_steps)
        train_loader, settings = StepLoader(train_loader, settings.eval_steps), replace(settings, epochs=epochs)

    num_steps = (settings.epochs or 0) * len(train_loader)
    group.same("steps of an epoch", len(train_loader))
    for loader in (train_loader, val_loader):
        if loader is not None:
            loader.shard = group.shard

    has_val = val_loader is not None and len(val_loader) > 0
    if saved is None:
        measures = is_monitored() and member == 0  # only a monitor shows the duration of a step
        gpus = range(torch.cuda.device_count())
        with (
            cpu_threads(settings.threads),
            torch.random.fork_rng(devices=gpus),
            stage("compiling and measuring a step"),
        ):
            estimate = prepared(model, loss, train_loader, settings, device, measures=measures)
        if member == 0 and settings.epochs is not None:
            num_val = 0 if val_loader is None else len(val_loader)
            in_steps = isinstance(train_loader, StepLoader | WindowLoader)  # their epochs are stretches of steps
            say(estimate.line(len(train_loader), num_val, settings.epochs, in_steps=in_steps))

    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with (
        compiling(settings),
        cpu_threads(settings.threads),
        torch.random.fork_rng(devices=devices),
        stage("training", num_steps) as progress,
    ):
        model.to(device, torch.float64 if settings.precision == "64" else None)
        trained = group.spread(copy.deepcopy(model), device) if group.is_sharded else model
        training = Training(
            *(trained, loss, settings, len(train_loader), device), folder=folder, log=log, member=member, group=group
        )
        if saved is not None:
            training.restore(saved)
        training.run(train_loader, val_loader if has_val else None, progress)

    tensors = training.best if settings.keeps_best and training.best is not None else training.weights()
    model.float().cpu()
    model.load_state_dict(tensors)
    if folder is not None:
        save_checkpoint({"state_dict": model.state_dict(), **training.results}, folder / FINISHED)
        (folder / PREVIOUS).unlink(missing_ok=True)

    return FitResult(training.history, training.best_epoch)


def usable_device(settings: TrainSettings, group: WorkerGroup = ALONE) -> str:
    """The device of a training; raises SettingError where this machine cannot train with these settings."""
    device = pick_device(settings.device)
    if settings.precision == "16" and device == "cpu":
        raise SettingError("--precision 16 needs a GPU; use --precision bf16 or 32 with --device cpu.")
    check_group(group, settings, device)
    check_replay(settings, device, group.size)
    return device


def check_group(group: WorkerGroup, settings: TrainSettings, device: str) -> None:
    """Raise SettingError where several processes cannot train with these settings."""
    if group.is_alone:
        return
    if device == "mps":
        raise SettingError("--device mps trains in one process; leave --devices out.")
    if group.is_sharded and (settings.compile or settings.precision == "16"):
        flag = "--compile" if settings.compile else "--precision 16"
        raise SettingError(f"{flag} does not go with --strategy fsdp; use --strategy ddp, or leave it out.")


def reload(model: nn.Module, saved: Saved, log: MetricsLog | None, member: int) -> FitResult:
    """The result of a training that was finished before."""
    path, content = saved.path, saved.content
    history, best_epoch = read_history(path, content)
    check_weights(model.state_dict(), content.get("state_dict"), path)
    model.load_state_dict(content["state_dict"])
    if log is not None:
        log.write(member, history, new=False)
    return FitResult(history, best_epoch)


@contextlib.contextmanager
def compiling(settings: TrainSettings) -> Iterator[None]:
    """Lets one program serve batches of all sizes, and names the remedy where torch.compile fails.

    Left to itself it takes two sizes that happen to be the same in the first batch, such as those of rows and of
    molecules, for one, and begins anew with the first batch in which they differ.
    """
    if not settings.compile:
        yield
        return

    from torch._dynamo.exc import TorchDynamoException
    from torch.fx.experimental import _config

    try:
        with _config.patch(use_duck_shape=False):  # type: ignore[attr-defined]
            yield
    except TorchDynamoException as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise SettingError(f"--compile: torch cannot compile the training step ({reason}); leave it out.") from error
