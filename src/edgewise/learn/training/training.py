"""The state of a training: weights and their averages, the optimizer, the history, and checkpoints to continue from."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from edgewise.backends.capture import capture
from edgewise.errors import DataError, EdgewiseError, SettingError
from edgewise.graph import Graph
from edgewise.graph.record import Record
from edgewise.learn.progress import Stage, stage
from edgewise.learn.training.checkpoint import (
    BEST,
    LAST,
    PREVIOUS,
    EpochRecord,
    Saved,
    WithinEpoch,
    check_within,
    damaged,
    read_history,
    save_checkpoint,
)
from edgewise.learn.training.device import autocast
from edgewise.learn.training.distributed import ALONE, WorkerGroup, assign, whole
from edgewise.learn.training.loader import BatchLike, Idle, Loader, seed_of
from edgewise.learn.training.log import MetricsLog
from edgewise.learn.training.loss import Loss, loss_of
from edgewise.learn.training.optimizer import Adam
from edgewise.learn.training.replay import Parts, batch_of, replayed
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.weights import check_weights
from edgewise.neighborhood.index import cached, moved, unchecked

CHECKPOINT_SECONDS = 10.0
"""The interval of checkpoints within long epochs: the most that an interrupted run loses, approximately."""
CHECKPOINT_SHARE = 0.05
"""The share of the time that saving within epochs takes at most."""
EPOCH_CHECKPOINT_SECONDS = 5.0
"""Epochs that end within this time after a checkpoint are not saved, but for the last one: an interrupted run trains
them once more."""


Doubled = TypeVar("Doubled")


class Training:
    """Epochs of steps, validations of the averaged weights, and checkpoints after epochs and within long ones.

    Args:
        model: maps a batch to what the loss takes; on the device, in the precision of its weights.
        loss: what is minimized.
        settings: the recipe, resolved.
        num_batches: steps of an epoch.
        device: where to compute.
        folder: where `last.ckpt` and `best.ckpt` go; None keeps the best weights in memory only.
        log: where the history goes; None for nowhere.
        member: the number of the ensemble member, for the log.
        group: the processes that share the batches; all write checkpoints together, in the folder of the first.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        settings: TrainSettings,
        num_batches: int,
        device: str,
        *,
        folder: Path | None = None,
        log: MetricsLog | None = None,
        member: int = 0,
        group: WorkerGroup = ALONE,
    ):
        self.model, self.loss, self.settings, self.device = model, loss, settings, device
        self.num_batches, self.num_steps = num_batches, num_batches * (settings.epochs or 0)
        self.folder, self.log, self.member, self.group = folder, log, member, group
        self.saves = group.share(folder is not None)

        # A function is compiled, not the model, whose tensors would get other names.
        self.loss_in_training = torch.compile(loss_of, dynamic=True) if settings.compile else loss_of
        self.optimizer = Adam(model, settings)
        self.replay = capture(self.computed_from) if settings.cuda_graph else None
        self.sent_graph: tuple[Graph, Graph] | None = None
        self.parameters: list[Tensor] = list(model.parameters())
        self.averaged = [p.detach().clone() for p in self.parameters] if settings.ema_decay else []

        # Half precision on a GPU: gradients are scaled up, as they would vanish otherwise.
        self.scaler = torch.amp.GradScaler(device, enabled=settings.precision == "16")
        self.step = 0
        self.history: list[EpochRecord] = []
        self.best_loss, self.best_epoch = math.inf, -1
        self.best: dict[str, Tensor] | None = None
        self.is_best_saved = True
        self.total, self.weight = torch.zeros(()), torch.zeros(())
        self.within: WithinEpoch | None = None
        self.next_checkpoint = self.next_epoch_checkpoint = 0.0

    @property
    def epoch(self) -> int:
        """The number of the epoch that is trained, or comes next."""
        return len(self.history)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are trained, or the validation loss has not improved for too many of them."""
        patience = self.settings.patience
        waits = patience is not None and self.best_epoch >= 0 and self.epoch - 1 - self.best_epoch >= patience
        return waits or self.epoch >= (self.settings.epochs or 0)

    def run(self, train_loader: Loader, val_loader: Loader | None, progress: Stage) -> None:
        """Trains to the end.

        Raises:
            EdgewiseError: The loss became infinite or NaN.
            DataError: The rows weigh nothing in the loss.
        """
        if self.log is not None and self.history:
            self.log.write(self.member, self.history, new=False)
        self.next_checkpoint = time.perf_counter() + CHECKPOINT_SECONDS
        while not self.is_over:
            began = time.perf_counter()
            train_loss = self.train_epoch(train_loader, progress)
            val_loss = None if val_loader is None else self.validate(val_loader)
            self.end_epoch(train_loss, val_loss, time.perf_counter() - began)
            loss = train_loss if val_loss is None else val_loss
            progress.note = f"epoch {self.epoch}" + ("" if loss is None else f", loss {loss:.4g}")

        if self.history and all(record["train_loss"] is None for record in self.history):
            raise DataError(
                "the training rows weigh nothing in the loss: their weights, or those of their classes, are zero; "
                "train on other rows, or leave the weights out."
            )

    def train_epoch(self, loader: Loader, progress: Stage) -> float | None:
        """One epoch, or the rest of it; the mean loss, or None where all its rows weigh nothing.

        An epoch draws its random numbers from the seed and its number alone: a continued run draws the same.
        """
        self.model.train()
        loader.epoch = self.epoch
        self.seed_epoch()
        self.total, self.weight = torch.zeros((), device=self.device), torch.zeros((), device=self.device)

        batches, first = iter(loader), 0
        if self.within is not None:
            first = self.within["batches"]
            for _ in range(first):
                next(batches)
            self.restore_within(self.within)

        for number, batch in enumerate(batches, first + 1):
            self.train_step(self.moved(batch))
            progress.done = self.step
            if self.saves and number < self.num_batches:
                self.save_within(number)

        return float(self.total / self.weight) if self.weight else None

    def train_step(self, batch: BatchLike | Idle) -> None:
        """One step: w ← Adam(w, ∇L), averaged ← d · averaged + (1 − d) · w, with a decay d that grows at first."""
        self.optimizer.set_learning_rate(self.settings.learning_rate_at(self.step, self.num_steps))
        sums = self.computed(batch) if self.replay is None else replayed(self.replay, batch)
        self.step += 1

        # Summed on the device: reading a number would wait for it.
        self.total, self.weight = self.total + sums[0], self.weight + sums[1]
        if self.averaged:
            decay = min(self.settings.ema_decay, (1 + self.step) / (10 + self.step))
            with torch.no_grad():
                torch._foreach_lerp_(self.averaged, self.parameters, 1 - decay)

    def computed(self, batch: BatchLike | Idle) -> tuple[Tensor, Tensor]:
        """Changes the weights by one step; the sum and the weight of the losses before it."""
        with autocast(self.settings.precision, self.device):
            mean, sums = self.losses(self.loss_in_training, batch)
        self.optimizer.zero_grad()
        self.scaler.scale(mean).backward()
        self.group.sum_gradients(self.parameters)

        if self.settings.clip_norm:
            self.scaler.unscale_(self.optimizer)  # type: ignore[arg-type]
            nn.utils.clip_grad_norm_(self.optimizer.parameters, self.settings.clip_norm)

        self.scaler.step(self.optimizer)  # type: ignore[arg-type]
        self.scaler.update()
        return sums

    def computed_from(self, parts: Parts) -> tuple[Tensor, Tensor]:
        """The same, from the parts of a batch."""
        return self.computed(cast(BatchLike, batch_of(parts)))

    def losses(
        self, loss_of: Callable[[nn.Module, Loss, BatchLike], tuple[Tensor, Tensor]], batch: BatchLike | Idle
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The mean loss of a batch, and its sum and weight over all processes.

        Where there are several, the mean is the part of this one: the sum of its losses by the weight of all. So do the
        gradients of all processes add up to that of the whole batch, however unevenly its rows are weighted.
        """
        total, weight = loss_of(self.model, self.loss, batch.batch if isinstance(batch, Idle) else batch)
        if self.group.is_alone:
            return total / weight.where(weight > 0, 1.0), (total.detach(), weight.detach())
        if isinstance(batch, Idle):
            total, weight = total * 0.0, weight * 0

        totals, weights = (value.to(total.dtype) for value in self.group.sum(total, weight))
        # FSDP divides the sum of the gradients by the number of processes.
        factor = self.group.size if self.group.is_sharded else 1
        return total * factor / weights.where(weights > 0, 1.0), (totals, weights)

    def validate(self, loader: Loader) -> float:
        """The mean loss of the averaged weights."""
        self.model.eval()
        total: Tensor | float = 0.0
        weight: Tensor | float = 0.0
        with self.averaged_weights(), torch.no_grad(), stage("validation", len(loader)) as progress:
            for batch in loader:
                with autocast(self.settings.precision, self.device):
                    _, sums = self.losses(loss_of, self.moved(batch))
                total, weight = total + sums[0], weight + sums[1]
                progress.done += 1
        if not weight:
            raise DataError(
                "the validation rows weigh nothing in the loss: their weights, or those of their classes, are zero; "
                "validate on other rows, or leave the weights out."
            )
        return float(total / weight)

    def moved(self, batch: BatchLike | Idle) -> BatchLike | Idle:
        """The batch on the device, in double precision where the training is."""
        if isinstance(batch, Idle):
            return Idle(self.on_device(batch.batch))
        return self.on_device(batch)

    def on_device(self, batch: BatchLike) -> BatchLike:
        """As `moved`, for a batch with rows."""
        # A batch on the CPU stays the same object: what it has computed once, such as loops, it keeps.
        batch = batch if self.device == "cpu" else self.sent(batch)
        return doubled(batch) if self.settings.precision == "64" else batch

    def sent(self, batch: BatchLike) -> BatchLike:
        """The batch on another device; a graph that the batch before it had, too, is there already."""
        graph = getattr(batch, "graph", None)
        if not isinstance(graph, Graph):
            return batch.to(self.device)
        if self.sent_graph is None or self.sent_graph[0] is not graph:
            if self.sent_graph is not None and self.settings.cuda_graph:
                raise SettingError(
                    "--cuda-graph: each step has another graph, and a recorded one cannot; leave it out."
                )
            self.sent_graph = None  # its memory is free for the next one
            self.sent_graph = graph, graph.to(self.device)
        others = {name: moved(value, self.device) for name, value in vars(batch).items() if name != "graph"}
        sent: BatchLike = unchecked(batch, graph=self.sent_graph[1], **others)
        return sent

    def end_epoch(self, train_loss: float | None, val_loss: float | None, seconds: float) -> None:
        """Adds the epoch to the history, keeps the best weights, and writes the checkpoint."""
        if not all(math.isfinite(loss) for loss in (train_loss, val_loss) if loss is not None):
            raise EdgewiseError(
                f"the training diverged: the loss of epoch {self.epoch + 1} is not finite; "
                "try a smaller --learning-rate."
            )

        record: EpochRecord = {
            "epoch": self.epoch,
            "step": self.step,
            "learning_rate": self.settings.learning_rate_at(self.step - 1, self.num_steps),  # of the last step
            "train_loss": train_loss,
            "val_loss": val_loss,
            "seconds": round(seconds, 4),
        }
        self.history.append(record)

        if val_loss is not None and val_loss < self.best_loss:
            self.best_loss, self.best_epoch = val_loss, self.epoch - 1
            self.best, self.is_best_saved = self.weights(), False

        if self.saves and self.group.agree(self.is_over or time.perf_counter() >= self.next_epoch_checkpoint):
            self.save()
            self.next_checkpoint = time.perf_counter() + CHECKPOINT_SECONDS

        if self.log is not None:
            self.log.write(self.member, self.history)

    def weights(self) -> dict[str, Tensor]:
        """A copy of the model's tensors with the averaged weights in place, on the CPU."""
        with self.averaged_weights():
            return {name: value.detach().cpu().clone() for name, value in whole(self.model.state_dict()).items()}

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Swaps the averaged weights into the model, and the trained ones out."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for average, parameter in zip(self.averaged, self.parameters):
            trained = parameter.clone()
            parameter.copy_(average)
            average.copy_(trained)

    @property
    def results(self) -> Mapping[str, object]:
        """The history and the best of it, as checkpoints hold them."""
        return {"history": self.history, "best_loss": self.best_loss, "best_epoch": self.best_epoch}

    def save(self) -> None:
        """Writes `last.ckpt`: all that a continued run needs. The one before it stays as `previous.ckpt`.

        The best weights are written first: those of a later epoch than `last.ckpt` are found again, older ones are not.
        """
        content = {
            "state_dict": whole(dict(self.model.state_dict())),
            "averaged": whole(self.averaged),
            "optimizer": whole(self.optimizer.state()),
            "scaler": self.scaler.state_dict(),
            "step": self.step,
            "within": self.within,
            **self.results,
        }
        if self.folder is not None:
            if not self.is_best_saved:
                save_checkpoint({"state_dict": self.best, "epoch": self.best_epoch}, self.folder / BEST)
            save_checkpoint(content, self.folder / LAST, backup=self.folder / PREVIOUS)

        self.is_best_saved = True
        self.next_epoch_checkpoint = time.perf_counter() + EPOCH_CHECKPOINT_SECONDS

    def save_within(self, batches: int) -> None:
        """Writes the checkpoint after a step within an epoch, if it is time."""
        now = time.perf_counter()
        if not self.group.agree(now >= self.next_checkpoint):
            return
        on_device = torch.cuda.get_rng_state() if self.device == "cuda" else None
        (random, on_device), *others = self.group.gather((torch.get_rng_state(), on_device))
        self.within = {
            "batches": batches,
            "random": random,
            "random_on_device": on_device,
            "sums": (self.total, self.weight),
        }
        if others:
            self.within["others"] = others
        self.save()
        self.within = None
        took = time.perf_counter() - now
        self.next_checkpoint = now + took + max(CHECKPOINT_SECONDS, took / CHECKPOINT_SHARE)

    def restore_within(self, within: WithinEpoch) -> None:
        """Restores the random numbers and the losses of an epoch from its checkpoint.

        A process that there was not then draws anew.
        """
        states = [(within["random"], within["random_on_device"]), *within.get("others", [])]
        if self.group.rank < len(states):
            random, on_device = states[self.group.rank]
            torch.set_rng_state(random)
            if on_device is not None:
                torch.cuda.set_rng_state(on_device)
        else:
            self.seed_epoch(within["batches"])
        self.total, self.weight = (total.to(self.device) for total in within["sums"])
        self.within = None

    def seed_epoch(self, *numbers: int) -> None:
        """Seeds the random numbers of an epoch, differently in each process."""
        seeds = (self.group.rank, *numbers) if self.group.rank else ()
        torch.manual_seed(seed_of(self.settings.seed, self.epoch, *seeds))

    def restore(self, saved: Saved) -> None:
        """Restores the state of the run that wrote a checkpoint.

        Raises:
            RunFolderError: the file is damaged, or of another model.
        """
        path, content = saved.path, saved.content
        self.history, self.best_epoch = read_history(path, content)
        try:
            self.best_loss, self.step, self.within = content["best_loss"], content["step"], content["within"]
            check_within(path, self.within, self.num_batches)
            trained = self.epoch * self.num_batches + (self.within["batches"] if self.within else 0)
            if not isinstance(self.best_loss, float) or type(self.step) is not int or self.step != trained:
                raise damaged(path, f"step is {self.step!r:.60} after {trained}, best_loss is {self.best_loss!r:.60}")
            check_weights(self.model.state_dict(), content["state_dict"], path)
            for name, tensor in self.model.state_dict().items():
                assign(tensor, content["state_dict"][name])
            for average, value in zip(self.averaged, content["averaged"], strict=True):
                check_weights({"averaged": average}, {"averaged": value}, path)
                assign(average, value)
            self.optimizer.restore(path, content["optimizer"])
            self.scaler.load_state_dict(content["scaler"])
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise error if isinstance(error, EdgewiseError) else damaged(path, error) from error

        if saved.best is not None:
            check_weights(self.weights(), saved.best, path.with_name(BEST))
            self.best = saved.best


def doubled(record: Doubled) -> Doubled:
    """A copy of a batch in double precision, the records in it included."""
    changed: dict[str, object] = cached(record)  # which holds indices of nodes and edges
    for name, value in vars(record).items():
        if isinstance(value, Tensor) and value.is_floating_point():
            changed[name] = value.double()
        elif isinstance(value, Record):
            changed[name] = doubled(value)
    return unchecked(record, **changed)
