"""Edges that share rows of a table of features."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.checks import whole
from edgewise.neighborhood.index import copied, outside_modes, sent, unchecked
from edgewise.neighborhood.plan import Plan


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """The row of a table with the features of each edge: molecules have few types of bonds.

    A kernel then reads a small table that stays in cache, and a layer projects few rows instead of one per edge.

    Rows are copied, so that later changes to the argument have no effect.

    Raises:
        ShapeError: rows are not integers in 0 … num_rows - 1, or have more than one axis.
    """

    rows: Int64[Tensor, " edge"]
    """The row of each edge, in the order of the edges."""
    num_rows: int
    """The number of rows of the table."""
    _placed: tuple[Plan, list[Tensor]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", copied("EdgeRows", "rows", self.rows))
        object.__setattr__(self, "num_rows", whole("EdgeRows", "num_rows", self.num_rows))
        if self.rows.dim() != 1:
            raise ShapeError(f"EdgeRows: rows must have the one axis 'edge', not shape {tuple(self.rows.shape)}.")
        if torch.compiler.is_compiling():  # a check that reads values cannot be traced
            return
        if self.num_rows < 0:
            raise ShapeError(f"EdgeRows: num_rows must not be negative, not {self.num_rows}.")

        if self.rows.numel():
            low, high = map(int, self.rows.aminmax())
            if low < 0 or high >= self.num_rows:
                raise ShapeError(
                    f"EdgeRows: rows must lie in 0 … {self.num_rows - 1}; found {low if low < 0 else high}."
                )

    def placed(self, plan: Plan) -> list[Tensor]:
        """The rows in the order in which kernels read the edges: by receiver, by sender; created once per plan."""
        if self._placed is None or self._placed[0] is not plan:
            orders = plan.receiver_edges, plan.sender_edges
            with outside_modes():
                ordered_rows = [self.rows[order].to(order.dtype) for order in orders]
            object.__setattr__(self, "_placed", (plan, ordered_rows))
        assert self._placed is not None
        return self._placed[1]

    def spread(self, x: Tensor, axis: int) -> Tensor:
        """Expands a shared table to one row per edge."""
        return x.index_select(axis, self.rows)

    def to(self, device: torch.device | str) -> "EdgeRows":
        """The same rows on `device`."""
        moved = sent(self.rows, device)
        return self if moved is self.rows else unchecked(self, rows=moved)
