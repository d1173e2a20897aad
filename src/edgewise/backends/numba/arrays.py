"""Tensors as the arrays that kernels take, in the same memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends import lower
from edgewise.backends.numba.normalize import ENTMAX15, HARDMAX, IDENTITY, MEAN, SIGMOID, SOFTMAX, SPARSEMAX
from edgewise.backends.numba.score import ACTIVATIONS, Bent, Blind, Product, Smooth, Square, Twist
from edgewise.backends.numba.tables import Dropout, chance
from edgewise.normalize import Normalize
from edgewise.score import Score, parted

CODES = {
    "Softmax": SOFTMAX,
    "Hardmax": HARDMAX,
    "Sparsemax": SPARSEMAX,
    "Entmax15": ENTMAX15,
    "Sigmoid": SIGMOID,
    "Mean": MEAN,
    "Identity": IDENTITY,
}
"""What kernels call a normalizer, by the name of its class."""

SHORT = {torch.bfloat16: np.uint16, torch.float16: np.int16}
"""What numba is told that these are; see `simd`."""


def score_of(kind: str, number: float, flag: int, vector: Any) -> Any:
    """The score as a kernel takes it: its type decides what is compiled."""
    match kind:
        case "Product":
            return Product(*parted(float(number)))
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


def formula_of(kind: str, number: float, flag: int, normalizer: int, vector: Tensor | None) -> tuple[Score, Normalize]:
    """The score and the normalizer in plain torch."""
    activation = ACTIVATIONS[flag] if kind == "Smooth" else ""
    name = next(name for name, code in CODES.items() if code == normalizer)
    return lower.score_of(kind, number, activation, kind == "Square" and flag == 1, vector), lower.normalizer_of(name)


def factors_of(rate: float, seed: Tensor, edges: Tensor, heads: Tensor) -> Tensor:
    """What dropout multiplies the weights of these edges and heads with, which broadcast; as in the kernels."""
    dropout = Dropout(float(rate), int(seed))
    numbers = chance.py_func(dropout.seed, edges.numpy(), heads.numpy())
    return torch.from_numpy(np.where(numbers < dropout.rate, 0.0, 1.0 / (1.0 - dropout.rate)))
