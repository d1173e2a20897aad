"""Tensors as the arrays that kernels take, in the same memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends.numba.normalize import ENTMAX15, HARDMAX, IDENTITY, MEAN, SIGMOID, SOFTMAX, SPARSEMAX
from edgewise.backends.numba.score import (
    ACTIVATIONS,
    AdditiveKernel,
    ConstantKernel,
    DistanceKernel,
    DotKernel,
    FactoredTanhKernel,
    GATv2Kernel,
)
from edgewise.backends.numba.tables import DropoutRule, chance
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

TYPES = {
    torch.bfloat16: np.dtype(np.uint16).str,
    torch.float16: np.dtype(np.int16).str,
    torch.float32: np.dtype(np.float32).str,
    torch.float64: np.dtype(np.float64).str,
    torch.int32: np.dtype(np.int32).str,
    torch.int64: np.dtype(np.int64).str,
}
"""What numpy calls the numbers of a tensor; of half precision, the integers that stand for them (see `simd`)."""


def score_of(score: str, activation: str, root: bool, number: float, weights: Any) -> Any:
    """The score as a kernel takes it: its type decides what is compiled. `weights` are the array of its vector."""
    match score:
        case "Dot":
            return DotKernel(*parted(float(number)))
        case "GATv2":
            return GATv2Kernel(weights, float(number))
        case "Additive":
            return AdditiveKernel(weights, ACTIVATIONS.index(activation))
        case "FactoredTanh":
            return FactoredTanhKernel(weights)
        case "Distance":
            return DistanceKernel(int(root))
    return ConstantKernel(float(number))


class Memory:
    """The memory of a tensor, as numpy reads it: `Tensor.numpy` forbids for ever to resize it, which reversible
    networks do to free their inputs."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: Tensor):
        self.tensor = tensor  # which must live as long as the array
        number = TYPES[tensor.dtype]
        self.__array_interface__ = {
            "data": (tensor.data_ptr(), False), "shape": (tensor.numel(),), "typestr": number, "version": 3,
        }  # fmt: skip


def array_of(x: Tensor) -> np.ndarray:
    """All numbers of a contiguous tensor, in a row, in the same memory."""
    if x.is_neg() or not x.is_contiguous():
        x = x.resolve_neg().contiguous()
    return np.asarray(Memory(x))


def factors_of(rate: float, seed: Tensor, edges: Tensor, heads: Tensor) -> Tensor:
    """What dropout multiplies the weights of these edges and heads with, which broadcast; as in the kernels."""
    dropout = DropoutRule(float(rate), int(seed))
    numbers = chance.py_func(dropout.seed, edges.numpy(), heads.numpy())
    return torch.from_numpy(np.where(numbers < dropout.rate, 0.0, 1.0 / (1.0 - dropout.rate)))
