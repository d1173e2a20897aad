"""What a training saves: the history, the best weights, the checkpoint to continue from."""

import contextlib
import math
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from torch import Tensor

from edgewise.errors import EdgewiseError
from edgewise.progress import Stage, stage
from edgewise.train.checkpoint import (
    check_progress,
    check_restored,
    check_within,
    damaged,
    load_checkpoint,
    read_history,
    save_checkpoint,
)
from edgewise.train.log import MetricsLog
from edgewise.train.settings import TrainSettings
from edgewise.train.weights import check_weights

CHECKPOINT_SECONDS = 10.0
"""An epoch that takes longer is written down within, about so often, so that an interrupted run loses no more."""
CHECKPOINT_SHARE = 0.05
"""The share of the time that writing within epochs takes at most."""


class EpochKeeper(pl.Callback):
    """Ends each epoch: notes its numbers, keeps the best weights, writes the checkpoint, and stops when patience ends.

    Within a long epoch it writes the checkpoint every few seconds.

    Args:
        settings: The recipe.
        folder: Where `last.ckpt` and `best.ckpt` go; None keeps the best weights in memory only.
        log: Where the history goes; None for nowhere.
        member: The number of the ensemble member.
    """

    def __init__(self, settings: TrainSettings, folder: Path | None, log: MetricsLog | None, member: int):
        self.settings = settings
        self.folder = folder
        self.metrics_log = log
        self.member = member
        self.history: list[dict[str, Any]] = []
        self.best_loss = math.inf
        self.best_epoch = -1
        self.best: dict[str, Tensor] | None = None
        self.began = 0.0
        self.next_checkpoint = 0.0
        self.is_restored, self.has_started = False, False

    def state_dict(self) -> dict[str, Any]:
        """What a continued run has to know."""
        return {"history": self.history, "best_loss": self.best_loss, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over where the interrupted run was."""
        path = Path("last.ckpt") if self.folder is None else self.folder / "last.ckpt"
        history, best_epoch = read_history(path, state_dict)
        best_loss = state_dict.get("best_loss")
        if not isinstance(best_loss, float):
            raise damaged(path, f"best_loss is {best_loss!r:.60}")
        self.history, self.best_loss, self.best_epoch = history, best_loss, best_epoch
        if self.folder is not None and self.best_epoch >= 0:
            self.best = load_checkpoint(self.folder / "best.ckpt").get("state_dict") or {}

    def on_load_checkpoint(self, trainer: pl.Trainer, task: Any, checkpoint: dict[str, Any]) -> None:
        """Checks how far the interrupted run was, before anything counts on from there."""
        self.is_restored = True
        path = Path("last.ckpt") if self.folder is None else self.folder / "last.ckpt"
        fresh = task.configure_optimizers()["lr_scheduler"]["scheduler"].state_dict()
        usual = {"fit_loop": trainer.fit_loop.state_dict(), "lr_schedulers": [fresh], "epoch": 0, "global_step": 0}
        loops = checkpoint.get("loops")
        found = {name: checkpoint.get(name) for name in ("lr_schedulers", "epoch", "global_step")}
        found["fit_loop"] = loops.get("fit_loop") if isinstance(loops, dict) else None
        check_progress(path, found, usual, "progress")

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the validation loss has not improved for too many epochs."""
        patience = self.settings.patience
        return patience is not None and self.best_epoch >= 0 and len(self.history) - 1 - self.best_epoch >= patience

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """A run that was killed between its last epoch and its end trains no further."""
        if self.is_restored and self.folder is not None:
            path = self.folder / "last.ckpt"
            check_restored(path, task, trainer.optimizers[0], task.configure_optimizers()["optimizer"])
            check_within(path, task.within, trainer.num_training_batches)
            if self.best is not None:
                check_weights(task.result(), self.best, self.folder / "best.ckpt")
        self.has_started = True
        trainer.should_stop = self.is_out_of_patience
        self.began = time.perf_counter()
        self.next_checkpoint = self.began + CHECKPOINT_SECONDS
        task.after_step = lambda batch_index: self.keep_within(trainer, task, batch_index + 1)
        if self.metrics_log is not None and self.history:
            self.metrics_log.write(self.member, self.history, new=False)

    def on_train_epoch_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Starts the clock."""
        self.began = time.perf_counter()

    def keep_within(self, trainer: pl.Trainer, task: Any, batches: int) -> None:
        """Writes the checkpoint after a step within an epoch, if it is time."""
        now = time.perf_counter()
        if self.folder is None or now < self.next_checkpoint or batches == trainer.num_training_batches:
            return
        task.note_within(batches)
        trainer.save_checkpoint(self.folder / "last.ckpt")
        task.within = None
        took = time.perf_counter() - now
        self.next_checkpoint = now + took + max(CHECKPOINT_SECONDS, took / CHECKPOINT_SHARE)

    def on_train_epoch_end(self, trainer: pl.Trainer, task: Any) -> None:
        """Notes, keeps, writes, and decides whether to go on."""
        record = {
            "epoch": trainer.current_epoch,
            "step": trainer.global_step,
            "learning_rate": float(trainer.optimizers[0].param_groups[0]["lr"]),
            "train_loss": task.mean_loss("train"),
            "val_loss": task.mean_loss("val") if trainer.num_val_batches else None,
            "seconds": round(time.perf_counter() - self.began, 4),
        }
        losses = [loss for loss in (record["train_loss"], record["val_loss"]) if loss is not None]
        if not all(math.isfinite(loss) for loss in losses):
            raise EdgewiseError(
                f"the training diverged: the loss of epoch {trainer.current_epoch} is not finite; "
                "try a smaller --learning-rate."
            )
        self.history.append(record)
        if record["val_loss"] is not None and record["val_loss"] < self.best_loss:
            self.best_loss, self.best_epoch = record["val_loss"], record["epoch"]
            self.best = task.result()
            if self.folder is not None:
                save_checkpoint({"state_dict": self.best, "epoch": self.best_epoch}, self.folder / "best.ckpt")
        if self.folder is not None:
            trainer.save_checkpoint(self.folder / "last.ckpt")
            self.next_checkpoint = time.perf_counter() + CHECKPOINT_SECONDS
        if self.metrics_log is not None:
            self.metrics_log.write(self.member, self.history)
        trainer.should_stop = self.is_out_of_patience


class ProgressKeeper(pl.Callback):
    """Counts steps and validation batches in stages.

    Args:
        training: the stage of all steps; its total is their number.
        keeper: has the numbers of each epoch.
    """

    def __init__(self, training: Stage, keeper: EpochKeeper):
        self.training = training
        self.keeper = keeper
        self.validation: Stage | None = None
        self.ending = contextlib.ExitStack()

    def on_train_batch_end(self, trainer: pl.Trainer, *others: Any) -> None:
        """One step more."""
        self.training.done = trainer.global_step

    def on_train_epoch_end(self, trainer: pl.Trainer, task: Any) -> None:
        """The last loss."""
        record = self.keeper.history[-1]
        loss = record["train_loss"] if record["val_loss"] is None else record["val_loss"]
        self.training.note = f"epoch {record['epoch'] + 1}, loss {loss:.4g}"

    def on_validation_start(self, trainer: pl.Trainer, task: Any) -> None:
        """A stage inside that of the steps."""
        self.validation = self.ending.enter_context(stage("validation", int(sum(trainer.num_val_batches))))

    def on_validation_batch_end(self, *others: Any) -> None:
        """One batch more."""
        assert self.validation is not None
        self.validation.done += 1

    def on_validation_end(self, trainer: pl.Trainer, task: Any) -> None:
        """Back to the steps."""
        self.ending.close()
