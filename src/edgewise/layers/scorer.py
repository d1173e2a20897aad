"""Scores whose vectors and matrices are learned, one set a head; `choices.SCORES` has them by name."""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import is_dataclass, replace
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot, Score


class LearnedScore(nn.Module):
    """A score of the library with learned tensors; calling it gives the score with these as they are now.

    Args:
        score: makes the score of the tensors.
        tensors: what they are called in a file, and how they start.
    """

    def __init__(self, score: Callable[..., Score], **tensors: Tensor):
        super().__init__()
        self.score, self.names = score, tuple(tensors)
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self) -> Score:
        """The score with the tensors as they are now: torch's tools may have put others in the place of parameters."""
        return self.score(*(getattr(self, name) for name in self.names))


def scaled_dot(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """q·k / √key_dim."""
    return LearnedScore(ScaledDot)


def dot(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """q·k."""
    return LearnedScore(Dot)


def cosine(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """The cosine of the angle between q and k."""
    return LearnedScore(Cosine)


def bilinear(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """qᵀ W k, which starts as the scaled dot product."""
    return LearnedScore(Bilinear, weight=(torch.eye(key_dim) / math.sqrt(key_dim)).repeat(*head_shape, 1, 1))


def additive(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """v · tanh(q + k)."""
    return LearnedScore(Additive, vector=_vector(head_shape, key_dim))


def gat(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """LeakyReLU(a·q + b·k)."""
    return LearnedScore(GAT, vector=_vector(head_shape, key_dim), key_vector=_vector(head_shape, key_dim))


def gatv2(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """a · LeakyReLU(q + k)."""
    return LearnedScore(GATv2, vector=_vector(head_shape, key_dim))


def distance(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """−‖q − k‖² / (2 length²); independent unit features lie about √(2 key_dim) apart, where the length starts."""
    return LearnedScore(_distance, log_length=torch.full(head_shape, 0.5 * math.log(2 * key_dim)))


def constant(head_shape: tuple[int, ...], key_dim: int) -> LearnedScore:
    """1."""
    return LearnedScore(Constant)


def _distance(log_length: Tensor) -> Distance:
    return Distance(length=log_length.exp())


def _vector(head_shape: tuple[int, ...], key_dim: int) -> Tensor:
    bound = math.sqrt(3 / key_dim)
    return torch.empty(*head_shape, key_dim).uniform_(-bound, bound)


class Given(nn.Module):
    """A score or normalizer that was handed over: its tensors move with the layer, its parameters train with it."""

    def __init__(self, part: Any):
        super().__init__()
        self.part = part
        self.names = [name for name, value in getattr(part, "__dict__", {}).items() if isinstance(value, Tensor)]
        for name in self.names:
            value = getattr(part, name)
            if isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value, persistent=False)

    def forward(self) -> Any:
        """The part as it was given, with its tensors as they are now."""
        # Modules, functions, methods and classes hold their tensors themselves.
        if not self.names or isinstance(self.part, type | nn.Module | FunctionType | MethodType):
            return self.part
        tensors = {name: getattr(self, name) for name in self.names}
        if is_dataclass(self.part) and not isinstance(self.part, type):
            return replace(self.part, **tensors)
        part = copy(self.part)  # with its slots, and as the classes of other libraries are made
        part.__dict__.update(tensors)
        return part
