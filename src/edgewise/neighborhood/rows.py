"""Edges of which many carry the same: each names the row of a table that holds what it carries."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.neighborhood.index import sent
from edgewise.neighborhood.plan import Plan


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """The row of a table that holds what an edge carries: molecules have few types of bonds.

    A kernel then reads a table that stays in the first cache, and a layer projects few rows instead of one an edge.
    """

    rows: Int64[Tensor, " edge"]
    """The row of each edge, in the order of the edges."""
    num_rows: int
    """How many rows the table has."""
    _placed: tuple[Plan, list[Tensor]] | None = field(default=None, init=False, repr=False)

    def placed(self, plan: Plan) -> list[Tensor]:
        """The rows in the order in which kernels walk the edges: by receiver, by sender; made once for a plan."""
        if self._placed is None or self._placed[0] is not plan:
            orders = plan.receiver_edges, plan.sender_edges
            found = [self.rows[order].to(order.dtype) for order in orders]
            object.__setattr__(self, "_placed", (plan, found))
        assert self._placed is not None
        return self._placed[1]

    def spread(self, x: Tensor, axis: int) -> Tensor:
        """A table with one row an edge, of one that edges share."""
        return x.index_select(axis, self.rows)

    def to(self, device: torch.device | str) -> "EdgeRows":
        """The same rows on `device`."""
        moved = sent(self.rows, device)
        return self if moved is self.rows else EdgeRows(moved, self.num_rows)
