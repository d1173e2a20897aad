"""Windows of time series as networks take them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from edgewise.graph.record import Record
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class SeriesBatch(Record):
    """Windows of time series on one graph: past and future values of its nodes."""

    values: Float[Tensor, " row time node"]
    """Past values, in model units."""
    phases: Float[Tensor, " row step"]
    """The phase of each step in its period, from 0 to 1, including predicted steps."""
    edges: Edges
    """Sender → receiver."""
    targets: Float[Tensor, " row target"] | None = None
    """Targets, step after step; NaN if unknown."""
    weights: None = None
    """None, which `loss_of` reads: all windows have the same weight."""
