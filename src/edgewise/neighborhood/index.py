"""Whole numbers that name nodes: made, checked, told apart."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import ShapeError


def integers(owner: str, name: str, value: Any) -> Tensor:
    """`value` as an int64 tensor; lists and arrays are welcome, fractions are not."""
    index = torch.as_tensor(value)
    if index.dtype != torch.int64:
        if (index.dtype.is_floating_point and index.numel() > 0) or index.dtype.is_complex or index.dtype == torch.bool:
            raise ShapeError(f"{owner}: {name} must be whole numbers (int64), not {index.dtype}.")
        index = index.to(torch.int64)
    return index


def check_range(name: str, index: Tensor, size: int) -> None:
    """Raise where a position of a node is negative or beyond the last."""
    if index.numel() == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        raise ShapeError(f"Edges: {name} must lie in 0 … {size - 1}; found {low if low < 0 else high}.")


def sent(x: Tensor, device: torch.device | str) -> Tensor:
    """`x.to(device)`; what goes from the CPU to CUDA does not wait until the device has done what it was given before.

    The other way round somebody must wait, or read what has not arrived.
    """
    return x.to(device, non_blocking=x.device.type == "cpu" and torch.device(device).type == "cuda")


def sent_together(tensors: Sequence[Tensor], device: torch.device | str) -> list[Tensor]:
    """Tensors `(number)` of one dtype on the device, all by one copy.

    Each begins at a multiple of 16 bytes, as if it stood alone: kernels are compiled anew for one that does not.
    """
    aligned = 16 // tensors[0].element_size()
    sizes = [-(-len(x) // aligned) * aligned for x in tensors]
    between = tensors[0].new_zeros(aligned)
    apart = [part for x, size in zip(tensors, sizes) for part in (x, between[: size - len(x)])]
    parts = sent(torch.cat(apart), device).split(sizes)
    return [part[: len(x)] for part, x in zip(parts, tensors)]


def first_of_each(codes: Tensor) -> Tensor:
    """True where a value stands for the first time."""
    order = codes.argsort(stable=True)
    ordered = codes[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return torch.zeros_like(first).index_put((order,), first)
