"""Layers over the one operator, for sequences and graphs alike."""

from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.cache import Cache
from edgewise.layers.convolution import (
    IsomorphismConvolution,
    MeanConvolution,
    NeighborConvolution,
    SymmetricConvolution,
)
from edgewise.layers.equivariant import Bodies, EquivariantLayer
from edgewise.layers.position import (
    ALiBi,
    LearnedPosition,
    PairPosition,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    T5Position,
)
from edgewise.layers.readout import Readout
from edgewise.layers.recurrent import RecurrentDecoder, RecurrentEncoder

__all__ = [
    "ALiBi",
    "Bodies",
    "Cache",
    "EquivariantLayer",
    "IsomorphismConvolution",
    "LearnedPosition",
    "MeanConvolution",
    "MultiHeadAttention",
    "NeighborConvolution",
    "PairPosition",
    "Readout",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "ResidualBlock",
    "RotaryPosition",
    "ShawPosition",
    "SinusoidalPosition",
    "SymmetricConvolution",
    "T5Position",
]
