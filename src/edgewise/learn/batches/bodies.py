"""Moving bodies as networks take them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from edgewise.graph.record import Record
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class BodyBatch(Record):
    """Bodies at several times, time after time, and their targets."""

    positions: Float[Tensor, " row space"]
    """The position of each body."""
    velocities: Float[Tensor, " row space"]
    """The velocity of each body."""
    charges: Float[Tensor, " row charge"]
    """What forces depend on in each body: its mass, and its charge where it has one."""
    edges: Edges
    """Edges from every body to every other one at the same time."""
    couplings: Float[Tensor, " edge coupling"]
    """Properties of each pair."""
    targets: Float[Tensor, " row space"] | None = None
    """Its future position, or its acceleration."""
    error_scale: Float[Tensor, " row"] | None = None
    """The scale of its error; None if all have the same scale."""

    @property
    def weights(self) -> Float[Tensor, " row"] | None:
        """The factor of each error."""
        return None if self.error_scale is None else 1 / self.error_scale
