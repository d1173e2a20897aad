"""Tensors as the arrays that kernels take, in the same memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends.numba.score import Bent, Blind, Product, Smooth, Square, Twist

SHORT = {torch.bfloat16: np.uint16, torch.float16: np.int16}
"""What numba is told that these are; see `simd`."""


def score_of(kind: str, number: float, flag: int, vector: Any) -> Any:
    """The score as a kernel takes it: its type decides what is compiled."""
    match kind:
        case "Product":
            return Product(float(number))
        case "Bent":
            return Bent(vector, float(number))
        case "Smooth":
            return Smooth(vector, int(flag))
        case "Twist":
            return Twist(vector)
        case "Square":
            return Square(int(flag))
    return Blind(float(number))


def array_of(x: Tensor) -> np.ndarray:
    """All numbers of a contiguous tensor, in a row, in the same memory."""
    x = x.detach()
    if x.dtype in SHORT:
        return x.reshape(-1).view(torch.int16).numpy().view(SHORT[x.dtype])
    return x.numpy().reshape(-1)
