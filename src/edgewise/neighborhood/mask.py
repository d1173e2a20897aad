"""A neighborhood given as a boolean mask."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.index import require_dense
from edgewise.neighborhood.pairs import Neighborhood


@dataclass(frozen=True, eq=False)
class Mask(Neighborhood):
    """Any set of pairs as a table. **True means "may attend"**.

    An axis of size 1 serves every query, or every key, as in torch: `Mask(is_true_token[:, None, None, :])` is padding,
    `(member, 1, 1, key)`. It is not repeated in memory. If nothing else determines the number, it is 1.
    """

    mask: Bool[Tensor, " *batch #query #key"]
    """True where the query may attend to the key."""

    def __post_init__(self) -> None:
        if not isinstance(self.mask, Tensor):  # which a default device would move
            object.__setattr__(self, "mask", torch.as_tensor(self.mask))
        require_dense("Mask", "mask", self.mask)
        if self.mask.dtype != torch.bool or self.mask.dim() < 2:
            raise ShapeError(
                f"Mask: expected bool of shape (*batch, query, key), True = may attend, not {self.mask.dtype} of shape "
                f"{tuple(self.mask.shape)}; an additive mask goes to bias."
            )

    @property
    def batch_shape(self) -> torch.Size:
        return self.mask.shape[:-2]

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return self.mask.shape[-2], self.mask.shape[-1]

    @property
    def fixed_sizes(self) -> tuple[int | None, int | None]:
        num_queries, num_keys = self.sizes
        return None if num_queries == 1 else num_queries, None if num_keys == 1 else num_keys

    def block(self, query: Tensor, key: Tensor, num_queries: int, num_keys: int) -> Tensor:
        cells, axes = self.mask, zip(self.mask.shape[-2:], (query, key), strict=True)
        if query.shape[0] != num_queries or key.shape[0] != num_keys:
            row, column = (index.new_zeros(1) if size == 1 else index for size, index in axes)
            cells = cells[..., row[:, None], column]
        return cells.expand(*self.batch_shape, query.shape[0], key.shape[0])

    def table(self, num_queries: int, num_keys: int, device: Any = None) -> Tensor:
        return self.mask

    def with_head_axis(self) -> "Mask":
        return replace(self, mask=self.mask.unsqueeze(-3)) if self.batch_shape else self

    def to(self, device: torch.device | str) -> "Mask":
        return replace(self, mask=self.mask.to(device))

    def _device(self, device: Any) -> Any:
        return self.mask.device
