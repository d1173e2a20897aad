"""Several processes that train one model over torch.distributed: their communication, and how they end together.

All processes take the same steps. Each computes its share of a batch, the sum of the shares is divided by the weight of
the whole batch, and so all have the gradient that one process would have. Only the first writes files and prints.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from edgewise.errors import EdgewiseError, ProcessGroupError, SettingError, listed
from edgewise.learn.training.loader import Shard

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Value = TypeVar("Value")

STRATEGIES = ("ddp", "fsdp")
RENDEZVOUS = "EDGEWISE_RENDEZVOUS"
"""The variable that names the file where the processes of `--devices` meet; without it they meet as torchrun has it."""
LOST = ("gloo", "NCCL", "TCPStore", "Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""Parts of torch's errors where another process has ended."""


@dataclass(frozen=True)
class WorkerGroup:
    """The processes of a training, as one of them sees them; one process alone exchanges nothing.

    `ddp` adds the gradients of all processes in one vector. Its layout is always the same, so that a training that is
    resumed adds in the same order, and a parameter that a share does not use costs no search: torch's
    DistributedDataParallel forms its buckets anew after the first step of each start. `fsdp` is torch's `fully_shard`.
    """

    rank: int = 0
    """The number of this process, from 0."""
    size: int = 1
    """The number of processes."""
    strategy: str = "ddp"
    """ddp: each has all weights. fsdp: each stores a part of the weights, of their averages and of Adam's moments."""

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether this is the only process."""
        return self.size == 1

    @property
    def is_sharded(self) -> bool:
        """Whether a process stores only a part of each tensor."""
        return self.strategy == "fsdp" and not self.is_alone

    @property
    def shard(self) -> Shard:
        """The share of each batch that this process computes."""
        return Shard(self.rank, self.size)

    def sum(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The sums of single numbers over all processes, as float64."""
        totals = torch.stack([value.detach().double() for value in values])
        if not self.is_alone:
            with exchanging():
                torch.distributed.all_reduce(totals)
        return totals.unbind()

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replaces the gradients by their sums over all processes; a gradient that is None everywhere stays None."""
        if self.is_alone or self.strategy == "fsdp":
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        is_used = torch.tensor([float(p.grad is not None) for p in trained], dtype=trained[0].dtype)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flat = torch.cat([*(g.flatten() for g in gradients), is_used.to(trained[0].device)])
        with exchanging():
            torch.distributed.all_reduce(flat)
        sums = flat.split([*(p.numel() for p in trained), len(trained)])
        for number, (parameter, gradient) in enumerate(zip(trained, sums)):
            if parameter.grad is not None or sums[-1][number]:
                parameter.grad = gradient.view_as(parameter)

    def share(self, value: Value) -> Value:
        """The value of the first process, for all."""
        if self.is_alone:
            return value
        values = [value]
        with exchanging():
            torch.distributed.broadcast_object_list(values, src=0)
        return values[0]

    def agree(self, flag: bool) -> bool:
        """The flag of the first process: a cheap `share` on the CPU, for each step."""
        if self.is_alone:
            return flag
        flags = torch.tensor([flag])
        with exchanging():
            torch.distributed.broadcast(flags, src=0)
        return bool(flags)

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes."""
        values = [value] * self.size
        if self.is_alone:
            return values
        with exchanging():
            torch.distributed.all_gather_object(values, value)
        return values

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """A block that all processes complete, or none: where one fails, the others end, too.

        Raises:
            ProcessGroupError: The block failed elsewhere. Its error is printed there.
        """
        try:
            yield
        except EdgewiseError as error:
            if any(self.gather(True)[: self.rank]):  # the same data is wrong in the same way for all
                raise ProcessGroupError("") from error
            raise
        if any(self.gather(False)):
            raise ProcessGroupError("")

    def same(self, name: str, value: object) -> None:
        """Raise SettingError where a value differs between processes, as it would where they read different files."""
        values = self.gather(value)
        if any(other != values[0] for other in values):
            listed = ", ".join(f"{other!r:.60} in process {rank}" for rank, other in enumerate(values))
            raise SettingError(f"{name}: {listed}; all processes must read the same files with the same settings.")

    def spread(self, model: nn.Module, device: str) -> nn.Module:
        """The model with each tensor split over the processes."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        with exchanging():
            return fully_shard(model, mesh=init_device_mesh(device, (self.size,)))  # type: ignore[return-value]


ALONE = WorkerGroup()
"""One process."""


def whole(content: object) -> Any:
    """The same containers with tensors that are not split over processes; all processes have to call it."""
    if isinstance(content, dict):
        return {name: whole(value) for name, value in content.items()}
    if isinstance(content, list):
        return [whole(value) for value in content]
    if is_split(content):
        with exchanging():
            return content.full_tensor()
    return content


def is_split(tensor: object) -> "TypeGuard[DTensor]":
    """Whether a tensor is split over processes."""
    return isinstance(tensor, Tensor) and hasattr(tensor, "full_tensor")


@torch.no_grad()
def assign(target: Tensor, value: Tensor) -> None:
    """Copies a whole tensor into one that may be split over processes."""
    if is_split(target):
        from torch.distributed.tensor import distribute_tensor

        value = distribute_tensor(value.to(target.device), target.device_mesh, target.placements)
    target.copy_(value)


@contextlib.contextmanager
def exchanging() -> Iterator[None]:
    """Turns torch's errors about a lost process into one that names the remedy."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, EdgewiseError) or not any(word in str(error) for word in LOST):
            raise
        raise ProcessGroupError(
            "another process of this training ended or failed; what was trained up to the last checkpoint is saved."
        ) from error


def is_started() -> bool:
    """Whether this process is one of several, started by torchrun, by `--devices` or by Ray."""
    return torch.distributed.is_initialized() or all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))


def check_environment() -> None:
    """Raise SettingError unless the variables of a process that was started as one of several say where they meet."""
    remedy = "start the processes with torchrun or --devices, or unset RANK and WORLD_SIZE to train in this one alone."
    address = [] if os.environ.get(RENDEZVOUS) else ["MASTER_ADDR", "MASTER_PORT"]
    if missing := [name for name in address if not os.environ.get(name)]:
        is_or_are = "is" if len(missing) == 1 else "are"
        raise SettingError(f"RANK and WORLD_SIZE are set, but {listed(missing)} {is_or_are} not; {remedy}")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", *address[1:]):
        if not (value := os.environ.get(name, "0")).isdecimal():
            raise SettingError(f"the environment variable {name} is {value!r}, expected a number; {remedy}")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank >= size:
        raise SettingError(f"the environment variable RANK is {rank}, expected less than WORLD_SIZE, {size}; {remedy}")


@contextlib.contextmanager
def connected(strategy: str, device: str = "auto") -> Iterator[WorkerGroup]:
    """Joins the processes that were started together: gloo between CPUs, nccl between GPUs.

    Args:
        strategy: One of `STRATEGIES`.
        device: As `--device`; each process of a machine takes a GPU of its own.

    Raises:
        SettingError: A machine has fewer GPUs than processes, or a variable that torchrun sets is missing or invalid.
    """
    if torch.distributed.is_initialized():  # Ray has done it
        yield WorkerGroup(torch.distributed.get_rank(), torch.distributed.get_world_size(), strategy)
        return

    check_environment()
    on_gpu = device in ("auto", "cuda") and torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpu:
        if local >= torch.cuda.device_count():
            raise SettingError(
                f"process {local} of this machine lacks a GPU: torch finds {torch.cuda.device_count()}; start fewer "
                "processes, or use --device cpu."
            )
        torch.cuda.set_device(local)

    with exchanging():
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            os.environ.get(RENDEZVOUS, "env://"),
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
        )

    try:
        yield WorkerGroup(torch.distributed.get_rank(), torch.distributed.get_world_size(), strategy)
    finally:
        torch.distributed.destroy_process_group()
