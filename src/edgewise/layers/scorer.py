"""Scores whose vectors and matrices are learned, one set a head."""

import math
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.choices import SCORES, ScoreName
from edgewise.errors import SettingError
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot, Score


class LearnedScore(nn.Module):
    """A score by its name, with the parameters it needs for every head; calling it gives the score itself.

    Args:
        name: which score.
        head_shape: the head axes of the queries, `(head)` or `(key_head, group)`.
        key_dim: size of queries and keys.
    """

    def __init__(self, name: ScoreName, head_shape: tuple[int, ...], key_dim: int):
        super().__init__()
        if name not in SCORES:
            raise SettingError(f"score must be one of {', '.join(SCORES)}, or a callable, not {name!r}.")

        self.name = name
        bound = math.sqrt(3 / key_dim)
        if name in ("additive", "gatv2", "gat"):
            self.vector = nn.Parameter(torch.empty(*head_shape, key_dim).uniform_(-bound, bound))
        if name == "gat":
            self.key_vector = nn.Parameter(torch.empty(*head_shape, key_dim).uniform_(-bound, bound))
        if name == "bilinear":
            # Starts as the scaled dot product.
            self.weight = nn.Parameter((torch.eye(key_dim) / math.sqrt(key_dim)).repeat(*head_shape, 1, 1))
        if name == "distance":
            # Independent unit features lie about √(2 key_dim) apart.
            self.log_length = nn.Parameter(torch.full(head_shape, 0.5 * math.log(2 * key_dim)))

    def forward(self) -> Score:
        """The score with the parameters as they are now."""
        match self.name:
            case "scaled_dot":
                return ScaledDot()
            case "dot":
                return Dot()
            case "cosine":
                return Cosine()
            case "bilinear":
                return Bilinear(self.weight)
            case "additive":
                return Additive(self.vector)
            case "gat":
                return GAT(self.vector, self.key_vector)
            case "gatv2":
                return GATv2(self.vector)
            case "distance":
                return Distance(length=self.log_length.exp())

        return Constant()


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
        if self.names and is_dataclass(self.part) and not isinstance(self.part, type):
            return replace(self.part, **{name: getattr(self, name) for name in self.names})
        return self.part
