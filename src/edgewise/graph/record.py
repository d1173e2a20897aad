"""`Record`: a frozen dataclass of tensors, edges and further records that moves between devices."""

from typing import TypeVar

import torch

from edgewise.neighborhood.index import moved, unchecked

RecordType = TypeVar("RecordType", bound="Record")


class Record:
    """A record that moves between devices."""

    def to(self: RecordType, device: torch.device | str) -> RecordType:
        """The same record with every tensor, edge list and graph in it on `device`, including cached ones."""
        return unchecked(self, **{name: moved(value, device) for name, value in vars(self).items()})
