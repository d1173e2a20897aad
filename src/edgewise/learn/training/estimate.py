"""The memory and time of a training: estimated from sizes before anything is computed, then measured in one step."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from edgewise.errors import SettingError, plural
from edgewise.learn.memory import available_memory
from edgewise.learn.progress import duration
from edgewise.learn.training.device import autocast
from edgewise.learn.training.loader import BatchLike, Idle, Loader
from edgewise.learn.training.loss import Loss, loss_of
from edgewise.learn.training.settings import TrainSettings
from edgewise.neighborhood import Edges

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STEPS = 2
"""Steps that are run to measure the last: the first one compiles kernels and makes plans, often for a minute."""
COPIES = 2
"""Copies of the output of a layer that are stored: before and after its activation."""
VALIDATED = 1 / 3
"""The cost of a validation batch in training steps: it lacks the backward pass."""


@dataclass(frozen=True)
class Estimate:
    """The memory and time of a training."""

    states: int
    """Bytes of gradients, of the optimizer's and of averaged weights, and of those that are stored."""
    activations: int
    """Bytes that a step keeps for its backward pass."""
    available: int | None
    """Free bytes; None where the system does not report them."""
    step_seconds: float | None = None
    """Seconds of one step; None before it is measured."""

    @property
    def needed(self) -> int:
        """All bytes."""
        return self.states + self.activations

    def check(self) -> None:
        """Raise SettingError where the training does not fit."""
        if self.available is not None and self.needed > self.available:
            raise SettingError(
                f"the training needs about {in_bytes(self.needed)} of memory ({in_bytes(self.states)} for the "
                f"optimizer and copies of the weights, {in_bytes(self.activations)} for the activations of a step), "
                f"but only {in_bytes(self.available)} are available. Take a smaller --batch-size (where a step does "
                "not read the whole graph; for nodes, --fanouts 15 10 samples it), --model-dim or --num-layers, or go "
                "on anyway with --no-memory-check."
            )

    def line(self, num_train: int, num_val: int, epochs: int, *, in_steps: bool = False) -> str:
        """The estimate in a line, for the numbers of batches of an epoch, or of the steps between two validations."""
        of = "" if self.available is None else f" of {in_bytes(self.available)} available"
        text = f"estimate: {in_bytes(self.needed)} of memory{of}"
        if self.step_seconds is None:
            return text
        epoch = self.step_seconds * (num_train + VALIDATED * num_val)
        each, every = "an epoch", plural(epochs, "epoch")
        if in_steps:
            each, every = f"for {plural(num_train, 'step')}", plural(num_train * epochs, "step")
        return f"{text}; {duration(epoch)} {each}, {duration(epoch * epochs)} for {every}"


def of_sizes(model: nn.Module, batch: BatchLike, settings: TrainSettings, device: str) -> Estimate:
    """The memory of a training from the sizes of its model and of a batch, before anything is computed.

    The output of each layer for each atom, node or token is stored for the backward pass, and the two ends of each
    edge. Models that pass over the same edges several times store more: it is a lower bound.
    """
    return of_counts(model, *counts_of(batch), settings, device)


def of_counts(
    model: nn.Module, units: int, edges: int, settings: TrainSettings, device: str, read: int = 0
) -> Estimate:
    """The same from the numbers of a batch.

    Args:
        model: may be on the device "meta".
        units: atoms, nodes or tokens of a batch.
        edges: its edges.
        settings, device: as for `of_sizes`.
        read: bytes of the batch itself, where it is not in memory yet.
    """
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    # The gradient, two moments, the averaged weights and their copy on the way, the best weights and the checkpoint.
    copies = 3 + (2 if settings.ema_decay else 0) + (1 if settings.keeps_best else 0)
    widths = sum(width_of(module) for module in model.modules())
    number = {"64": 8, "bf16": 2, "16": 2}.get(settings.precision, 4)
    activations = COPIES * units * widths * number + edges * 16

    return Estimate(copies * weights, read + activations, available_memory(device))


def counts_of(batch: "DataclassInstance") -> tuple[int, int]:
    """The numbers of atoms, nodes or tokens of a batch, and of its edges."""
    units, edges = 0, 0
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Edges):
            units, edges = max(units, value.num_receivers), max(edges, len(value.senders))
        elif is_dataclass(value) and not isinstance(value, type):
            inner = counts_of(value)
            units, edges = max(units, inner[0]), max(edges, inner[1])
        elif isinstance(value, Tensor) and (field.name in ("tokens", "source") or value.ndim == 3):
            units = max(units, value.numel())
    return units, edges


def width_of(module: nn.Module) -> int:
    """The output width of a layer; 0 for modules that consist of layers."""
    if isinstance(module, nn.Embedding):
        return module.embedding_dim
    weight = getattr(module, "weight", None)
    return weight.shape[0] if isinstance(weight, Tensor) and weight.ndim else 0


def measured(
    estimate: Estimate, model: nn.Module, loss: Loss, batch: BatchLike, settings: TrainSettings, device: str
) -> Estimate:
    """The estimate, its activations and seconds measured in a step that changes nothing.

    Raises:
        SettingError: The step needs more memory than there is.
    """
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    was_training = model.training
    model.train()
    limit = estimate.available if settings.check_memory else None

    stored, seconds = StoredTensors(model, batch, None if limit is None else limit - estimate.states), 0.0
    try:
        for _ in range(STEPS):
            began = time.perf_counter()
            with stored.watched() if not seconds else contextlib.nullcontext(), autocast(settings.precision, device):
                total, weight = loss_of(model, loss, batch)
                (total / weight.where(weight > 0, 1.0)).backward()
            if device == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - began
    except RuntimeError as error:
        if stored.is_full or isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            full = max(stored.size, (estimate.available or 0) + 1 - estimate.states)
            Estimate(estimate.states, full, estimate.available).check()
        raise
    finally:
        model.zero_grad(set_to_none=True)
        model.train(was_training)
        with torch.no_grad():
            for name, value in model.named_buffers():
                value.copy_(buffers[name])

    # While gradients flow back through the largest tensor, there are two more of its size.
    return Estimate(estimate.states, stored.size + 2 * stored.largest, estimate.available, seconds)


class StoredTensors:
    """Counts the bytes that a step stores for its backward pass, and stops it before memory is exhausted.

    Args:
        model, batch: their tensors are in memory anyway, and not counted.
        limit: bytes; None counts only.
    """

    def __init__(self, model: nn.Module, batch: object, limit: int | None):
        tensors = (*model.parameters(), *model.buffers(), *tensors_of(batch))
        self.seen = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        self.limit = limit
        self.size = self.largest = 0
        self.is_full = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Counts what runs inside."""
        with torch.autograd.graph.saved_tensors_hooks(self.count, lambda tensor: tensor):
            yield

    def count(self, tensor: Tensor) -> Tensor:
        """Counts a tensor, unless its memory has been counted."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
            self.size += storage.nbytes()
            self.largest = max(self.largest, storage.nbytes())
            if self.limit is not None and self.size > self.limit:
                self.is_full = True
                raise RuntimeError("the activations of a step need more memory than there is")
        return tensor


def tensors_of(batch: object) -> Iterator[Tensor]:
    """All tensors of a record and of those inside it."""
    for value in vars(batch).values():
        if isinstance(value, Tensor):
            yield value
        elif is_dataclass(value) and not isinstance(value, type):
            yield from tensors_of(value)


def prepared(
    model: nn.Module, loss: Loss, loader: Loader, settings: TrainSettings, device: str, *, measures: bool
) -> Estimate:
    """The memory and time of a training, estimated from its first batch.

    Args:
        model, loss, loader, settings: as `fit` has them.
        device: where it will be trained.
        measures: whether a step is measured as well.

    Raises:
        SettingError: It does not fit, and the settings do not allow it.
    """
    batch = next(iter(loader))
    batch = batch.batch if isinstance(batch, Idle) else batch
    estimate = of_sizes(model, batch, settings, device)
    if settings.check_memory:
        estimate.check()
    if not measures or settings.compile or settings.precision == "64":
        return estimate

    home = next(model.parameters()).device
    try:
        batch = batch if device == "cpu" else batch.to(device)
        estimate = measured(estimate, model.to(device), loss, batch, settings, device)
    finally:
        model.to(home)

    if settings.check_memory:
        estimate.check()
    return estimate


def in_bytes(count: int) -> str:
    """Bytes in a readable unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}" if count < 1000 * unit else f"{count / unit:,.0f} {name}"
    return f"{count / 1e3:.0f} kB"
