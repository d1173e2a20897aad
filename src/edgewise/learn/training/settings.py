"""How to train: one dataclass of numbers, free of torch so that the command line can show them at once."""

import math
import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from edgewise.choices import Registry
from edgewise.errors import SettingError
from edgewise.learn.settings import check, setting

NUMBER_OUTPUTS: "Registry[Any]" = Registry(
    "output",
    {name: f"edgewise.learn.training.loss:{name.upper()}" for name in ("mse", "mae", "huber")},
    "edgewise.learn.training.loss:NumberOutput",
)
"""Each `NumberOutput`, which says what an output means where targets are numbers, by its loss function."""
DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("32", "bf16", "16", "64")
LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")
CHECKPOINTS = ("best", "last")
OPTIMIZERS = ("adamw", "adam")
MAX_THREADS = 1024
"""CPU threads of a training; a system that cannot start so many more ends the process without a message."""


def default_threads(most: int = 1) -> int:
    """The CPU threads of a run that names none: OMP_NUM_THREADS where it is set, else the cores, at most `most`."""
    variable = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if variable.isascii() and variable.isdigit() and int(variable):
        return min(int(variable), MAX_THREADS)
    return min(available_cores(), most)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_molecules(num_rows: int, num_molecules: int) -> bool:
    """Whether the rows of a table are of few molecules each of which has many rows, at several conditions say."""
    return num_rows >= 8 * num_molecules


class Steps(NamedTuple):
    """How many steps a training takes that names no epochs."""

    each: int = 70
    """For each 64 training rows."""
    least: int = 1000
    """The fewest."""


@dataclass(frozen=True)
class TrainSettings:
    """The recipe of one training: AdamW, warm-up and cosine decay, clipped gradients, averaged weights."""

    epochs: int | None = setting(None, at_least=1, aliases=("num-epochs", "num-train-epochs"))
    """Passes over the training data; None is a number that fits the data, or, for a language model, that of
    `steps`."""
    batch_size: int | None = setting(None, at_least=1, aliases=("per-device-train-batch-size",))
    """Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked language models,
    windows for language models and series, moments for moving bodies. None is a number that fits the data, or all
    rows for the nodes or edges of one graph."""
    optimizer: str = setting("adamw", choices=OPTIMIZERS)
    """adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their squares does."""
    learning_rate: float = setting(2e-3, above=0, below=math.inf, aliases=("lr", "max-lr"))
    """The largest learning rate, reached at the end of the warm-up."""
    final_learning_rate: float = setting(2e-6, at_least=0, aliases=("min-lr", "final-lr"))
    """The learning rate that the cosine decay ends at; that of the last step lies just above it. Where `learning_rate`
    is below it, all rates after the warm-up are `learning_rate`."""
    warmup: float = setting(0.1, at_least=0, at_most=1, aliases=("warmup-ratio",))
    """The fraction of all steps in which the learning rate rises from zero."""
    weight_decay: float = setting(5e-2, at_least=0)
    """Weight decay of the matrices; vectors (biases, norms) have none."""
    second_moment_decay: float = setting(0.99, at_least=0, below=1, aliases=("beta2", "adam-beta2"))
    """The decay rate of the running mean of squared gradients (Adam's second beta)."""
    clip_norm: float = setting(1.0, at_least=0, aliases=("grad-clip", "max-grad-norm"))
    """The gradient is scaled down to this norm where it is larger; 0 switches it off."""
    ema_decay: float = setting(0.995, at_least=0, below=1)
    """The decay of the exponential moving average of the weights; 0 switches averaging off."""
    eval_steps: int | None = setting(None, at_least=1, aliases=("eval-interval", "val-check-interval"))
    """Validate and write a checkpoint after so many steps; None is after each epoch,
    and after about 1,000 steps for a language model. The log, the patience and the
    choice of the best weights then count validations, and the number of steps is rounded up to a whole number of them.
    """
    patience: int | None = setting(None, at_least=1)
    """Stop after this many validations without a better loss; None runs all epochs."""
    loss_function: str = setting("huber", choices=tuple(NUMBER_OUTPUTS))
    """The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy)."""
    huber_width: float = setting(0.25, above=0)
    """The delta of the Huber loss: errors below it, in standard deviations of the target, count squared, larger ones
    linearly."""
    checkpoint: str | None = setting(None, choices=CHECKPOINTS)
    """Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else last."""
    seed: int = setting(0, at_least=0)
    """Seed of the initial weights, the order of rows and the dropout."""
    device: str = setting("auto", choices=DEVICES)
    """auto is cuda where there is one, else the CPU."""
    precision: str = setting("32", choices=PRECISIONS)
    """32, bf16 (mixed), 16 (mixed, GPU only) or 64."""
    compile: bool = setting(False)
    """Whether torch.compile turns the training step into one program. It takes minutes before the first step, and
    dropout draws other numbers; validation, predictions and the saved weights do not change."""
    cuda_graph: bool = setting(False)
    """Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of small models
    wait for Python otherwise. Steps must read the same graph or windows of the same shape, as those of nodes of one
    graph and of language models do; dropout may draw other numbers."""
    threads: int = setting(factory=default_threads, at_least=1, at_most=MAX_THREADS)
    """CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language models, 2
    for tables of texts and tagging, and 1 for other trainings: the steps of small models are too short to share."""
    check_memory: bool = setting(True, flag="--memory-check")
    """Whether a training is refused when the estimate of its sizes exceeds the memory."""
    logger: str | None = setting(None, choices=LOGGERS)
    """Where the numbers of each epoch go besides `logs/metrics.csv`; None is TensorBoard where it is installed."""

    def __post_init__(self) -> None:
        check(self)
        if self.loss_function != "huber" and self.huber_width != TrainSettings.huber_width:
            raise SettingError(f"--huber-width goes with --loss-function huber, not with {self.loss_function}.")

    @property
    def keeps_best(self) -> bool:
        """Whether the weights of the best epoch are the result, not those of the last."""
        return self.checkpoint == "best" or (self.checkpoint is None and self.patience is not None)

    @property
    def unit(self) -> str:
        """What the length of a training is counted in: with `eval_steps`, records of its history are not epochs."""
        return "epoch" if self.eval_steps is None else "step"

    def resolved(self, num_rows: int, num_molecules: int, *, steps: Steps = Steps()) -> Self:
        """The same recipe with a batch size and a number of epochs that fit a table.

        Rows that share few molecules cost little each and say little that is new: batches are larger there. The
        number of steps grows with the number of rows, up to 3,000.

        Args:
            num_rows: Training rows.
            num_molecules: Distinct molecules in them.
            steps: How many steps there are.
        """
        default = 32 if num_rows < 400 else 256 if share_molecules(num_rows, num_molecules) else 64
        batch_size = self.batch_size or default
        num_steps = min(3000, max(steps.least, steps.each * num_rows / 64))
        epochs = self.epochs or math.ceil(num_steps / math.ceil(num_rows / batch_size))
        return replace(self, batch_size=batch_size, epochs=epochs)

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """The learning rate of a step: a straight rise over the warm-up, then half a cosine down."""
        num_warmup = int(self.warmup * num_steps)
        if step < num_warmup:
            return self.learning_rate * (step + 1) / num_warmup
        progress = min(1.0, (step - num_warmup) / max(1, num_steps - num_warmup))
        fall = 0.5 * (1 + math.cos(math.pi * progress))
        final = min(self.final_learning_rate, self.learning_rate)
        return final + (self.learning_rate - final) * fall


def require(name: str, value: object, holds: bool, expected: str) -> None:
    """Raise SettingError unless `holds`."""
    if not holds:
        raise SettingError(f"{name} is {value}; expected {expected}.")
