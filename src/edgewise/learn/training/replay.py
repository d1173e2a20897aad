"""Batches as `edgewise.capture` takes them: the tensors that it copies for each step of a recorded training."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from edgewise.errors import SettingError, UnsupportedError
from edgewise.graph import Graph, StoredGraph
from edgewise.graph.record import Record
from edgewise.learn.training.settings import TrainSettings

Result = TypeVar("Result")
Parts: TypeAlias = object
"""A tensor or a graph; None; or the type of a record and its fields by name, which are parts again."""


def parts_of(batch: object) -> Parts:
    """A batch in parts; a graph stays one object, as a recorded step reads it where it lies."""
    if not isinstance(batch, Record) or isinstance(batch, Graph | StoredGraph):
        return batch
    return type(batch), {name: parts_of(value) for name, value in vars(batch).items() if not name.startswith("_")}


def batch_of(parts: Parts) -> object:
    """The batch of its parts; it was checked before."""
    if not isinstance(parts, tuple):
        return parts
    kind, fields = parts
    batch: object = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(batch, name, batch_of(value))
    return batch


def replayed(replay: Callable[[Parts], Result], batch: object) -> Result:
    """A step with a batch; raises SettingError where it cannot be recorded."""
    try:
        return replay(parts_of(batch))
    except UnsupportedError as error:
        raise SettingError(f"{str(error).rstrip('.')}; leave --cuda-graph out.") from error


def check_replay(settings: TrainSettings, device: str, num_processes: int) -> None:
    """Raise SettingError where a step cannot be one CUDA graph."""
    if not settings.cuda_graph:
        return
    if device != "cuda":
        raise SettingError("--cuda-graph needs an NVIDIA GPU; leave it out, or use --device cuda where there is one.")
    if settings.precision not in ("32", "bf16"):
        raise SettingError(f"--cuda-graph goes with --precision 32 or bf16, not with {settings.precision}.")
    if num_processes > 1:
        raise SettingError("--cuda-graph goes with one process; leave it out where several share a batch.")
