"""`Record`: a frozen dataclass of tensors, edges and further records that moves between devices."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from edgewise.neighborhood.index import sent, unchecked

RecordType = TypeVar("RecordType", bound="Record")
Value = TypeVar("Value")


class Record:
    """A record that moves between devices."""

    def to(self: RecordType, device: torch.device | str) -> RecordType:
        """The same record with every tensor, edge list and graph in it on `device`, including cached ones."""
        return unchecked(self, **{name: moved(value, device) for name, value in vars(self).items()})


def moved(value: Any, device: torch.device | str) -> Any:
    """A field of a record on a device; anything without tensors stays the same."""
    if isinstance(value, Tensor):
        return sent(value, device)
    if isinstance(value, tuple):
        return tuple(moved(item, device) for item in value)
    return value.to(device) if hasattr(value, "to") else value


def cached_value(record: Any, name: str, make: Callable[[], Value]) -> Value:
    """A derived value of a record, created once; a copy with other fields, or a traced program, creates its own."""
    value: Value | None = getattr(record, name, None)
    if value is None:
        value = make()
        if not torch.compiler.is_compiling():
            object.__setattr__(record, name, value)
    return value
