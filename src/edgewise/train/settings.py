"""How to train: one dataclass of numbers, free of torch so that the command line can show them at once."""

import math
import os
from dataclasses import dataclass, field, replace
from typing import Self

from edgewise.errors import SettingError

LOSSES = ("mse", "mae", "huber")
DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("32", "bf16", "16", "64")
LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")
KEEPS = ("best", "last")
OPTIMIZERS = ("adamw", "adam")


def usual_threads(most: int = 1) -> int:
    """The CPU threads of a run that names none: OMP_NUM_THREADS where it is set, else the cores, at most `most`."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isascii() and wanted.isdigit() and int(wanted):
        return int(wanted)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, most)


@dataclass(frozen=True)
class TrainSettings:
    """The recipe of one training: AdamW, warm-up and cosine decay, clipped gradients, averaged weights."""

    epochs: int | None = None
    """How often every training row is seen; None is a number that fits the table, see `resolved`."""
    batch_size: int | None = None
    """Rows a step, at most; the rows of an epoch are shared out evenly. None is a number that fits the table."""
    optimizer: str = "adamw"
    """adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their squares does."""
    learning_rate: float = 2e-3
    """The largest learning rate, reached at the end of the warm-up."""
    final_learning_rate: float = 2e-6
    """The learning rate of the last step."""
    warmup: float = 0.1
    """The part of all steps in which the learning rate rises from zero."""
    weight_decay: float = 5e-2
    """Weight decay of the matrices; vectors (biases, norms) have none."""
    second_moment_decay: float = 0.99
    """How slowly AdamW's estimate of the squared gradient follows (its second beta)."""
    clip_norm: float = 1.0
    """The gradient is scaled down to this norm where it is larger; 0 switches it off."""
    ema_decay: float = 0.995
    """How slowly the averaged weights follow (a step keeps this share of the average); 0 switches averaging off."""
    patience: int | None = None
    """Stop after this many epochs without a better validation loss; None runs all epochs."""
    loss_function: str = "huber"
    """The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy)."""
    huber_width: float = 0.25
    """Errors smaller than this, in standard deviations of the target, count squared; larger ones linearly."""
    keep: str | None = None
    """Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else last."""
    seed: int = 0
    """Seed of the initial weights, the order of rows and the dropout."""
    device: str = "auto"
    """auto, cpu, cuda or mps; auto is cuda where there is one, else the CPU."""
    precision: str = "32"
    """32, bf16 (mixed), 16 (mixed, GPU only) or 64."""
    compile: bool = False
    """Whether torch.compile turns the model and its loss into one program for the training steps, which starts few
    kernels instead of many. It takes minutes before the first step, and dropout draws other numbers. What is validated
    and predicted, and what is saved, knows nothing of it."""
    threads: int = field(default_factory=usual_threads)
    """CPU threads of one training; OMP_NUM_THREADS where it is set, else 1, of texts up to 8. The steps of small models
    are too short to share: a second thread gains nothing on an idle machine, and on a busy one both wait for each
    other, many times longer than they compute."""
    check_memory: bool = True
    """Whether a training that the memory cannot hold by the estimate of its sizes is refused."""
    logger: str | None = None
    """Where the numbers of each epoch go besides `logs/metrics.csv`; None is TensorBoard where it is installed."""

    def __post_init__(self):
        require("--epochs", self.epochs, self.epochs is None or self.epochs >= 1, "at least 1")
        require("--batch-size", self.batch_size, self.batch_size is None or self.batch_size >= 1, "at least 1")
        require("--learning-rate", self.learning_rate, 0 < self.learning_rate < math.inf, "above 0")
        require("--final-learning-rate", self.final_learning_rate, self.final_learning_rate >= 0, "at least 0")
        require("--warmup", self.warmup, 0 <= self.warmup <= 1, "a part between 0 and 1")
        require("--weight-decay", self.weight_decay, self.weight_decay >= 0, "at least 0")
        in_range = 0 <= self.second_moment_decay < 1
        require("--second-moment-decay", self.second_moment_decay, in_range, "at least 0 and below 1")
        require("--huber-width", self.huber_width, self.huber_width > 0, "above 0")
        require("--clip-norm", self.clip_norm, self.clip_norm >= 0, "at least 0")
        require("--ema-decay", self.ema_decay, 0 <= self.ema_decay < 1, "at least 0 and below 1")
        require("--patience", self.patience, self.patience is None or self.patience >= 1, "at least 1")
        require("--seed", self.seed, self.seed >= 0, "at least 0")
        require("--threads", self.threads, self.threads >= 1, "at least 1")
        require_one_of("--loss-function", self.loss_function, LOSSES)
        require_one_of("--optimizer", self.optimizer, OPTIMIZERS)
        if self.keep is not None:
            require_one_of("--keep", self.keep, KEEPS)
        require_one_of("--device", self.device, DEVICES)
        require_one_of("--precision", self.precision, PRECISIONS)
        require("--compile", self.compile, isinstance(self.compile, bool), "True or False")
        require("--no-memory-check", self.check_memory, isinstance(self.check_memory, bool), "True or False")
        if self.logger is not None:
            require_one_of("--logger", self.logger, LOGGERS)

    @property
    def keeps_best(self) -> bool:
        """Whether the weights of the best epoch are the result, not those of the last."""
        return self.keep == "best" or (self.keep is None and self.patience is not None)

    def resolved(self, num_rows: int, num_molecules: int) -> Self:
        """The same recipe with a batch size and a number of epochs that fit a table.

        Rows that share few molecules cost little each and say little that is new: batches are larger there. The
        number of steps grows with the number of rows, from 1,000 to 3,000.

        Args:
            num_rows: Training rows.
            num_molecules: Distinct molecules in them.
        """
        batch_size = self.batch_size or (32 if num_rows < 400 else 64 if num_rows < 8 * num_molecules else 256)
        num_steps = min(3000, max(1000, 70 * num_rows / 64))
        epochs = self.epochs or math.ceil(num_steps / math.ceil(num_rows / batch_size))
        return replace(self, batch_size=batch_size, epochs=epochs)

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """The learning rate of a step: a straight rise over the warm-up, then half a cosine down."""
        num_warmup = int(self.warmup * num_steps)
        if step < num_warmup:
            return self.learning_rate * (step + 1) / num_warmup
        progress = min(1.0, (step - num_warmup) / max(1, num_steps - num_warmup))
        fall = 0.5 * (1 + math.cos(math.pi * progress))
        return self.final_learning_rate + (self.learning_rate - self.final_learning_rate) * fall


def require(name: str, value: object, holds: bool, expected: str) -> None:
    """Raise SettingError unless `holds`."""
    if not holds:
        raise SettingError(f"{name} is {value}; expected {expected}.")


def require_one_of(name: str, value: object, choices: tuple[str, ...], what: str = "") -> None:
    """Raise SettingError unless `value` is one of `choices`, which are those `what` for."""
    if value not in choices:
        raise SettingError(f"{name} is {value!r}; {what}expected one of {', '.join(choices)}.")
