"""Tensors as the arrays that kernels take, in the same memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends.numba.normalize import ENTMAX15, HARDMAX, IDENTITY, MEAN, SIGMOID, SOFTMAX, SPARSEMAX
from edgewise.backends.numba.score import ACTIVATIONS, Additive, Constant, Distance, Dot, FactoredTanh, GATv2
from edgewise.backends.numba.tables import Dropout, chance
from edgewise.score import parted

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
"""The numpy dtypes that stand for them; see `simd`."""


def score_of(kind: str, activation: str, root: bool, number: float, vector: Tensor | None) -> Any:
    """The score as a kernel takes it: its type decides what is compiled."""
    weights: Any = None if vector is None else array_of(vector)
    match kind:
        case "Dot":
            return Dot(*parted(float(number)))
        case "GATv2":
            return GATv2(weights, float(number))
        case "Additive":
            return Additive(weights, ACTIVATIONS.index(activation))
        case "FactoredTanh":
            return FactoredTanh(weights)
        case "Distance":
            return Distance(int(root))
    return Constant(float(number))


def array_of(x: Tensor) -> np.ndarray:
    """All numbers of a contiguous tensor, in a row, in the same memory."""
    x = x.detach()
    if x.dtype in SHORT:
        return x.reshape(-1).view(torch.int16).numpy().view(SHORT[x.dtype])
    return x.numpy().reshape(-1)


def factors_of(rate: float, seed: Tensor, edges: Tensor, heads: Tensor) -> Tensor:
    """What dropout multiplies the weights of these edges and heads with, which broadcast; as in the kernels."""
    dropout = Dropout(float(rate), int(seed))
    numbers = chance.py_func(dropout.seed, edges.numpy(), heads.numpy())
    return torch.from_numpy(np.where(numbers < dropout.rate, 0.0, 1.0 / (1.0 - dropout.rate)))
