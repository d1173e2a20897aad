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
from edgewise.layers.directed import DirectedMessages, EdgeAttention
from edgewise.layers.equivariant import Bodies, EquivariantLayer
from edgewise.layers.force import PairForce
from edgewise.layers.gated import GatedGraphAttention, GraphGRU
from edgewise.layers.graph_attention import GraphAttention, HopAttention
from edgewise.layers.graph_network import GraphFeatures, GraphNetwork, LearnedGlobals, NodeStatistics
from edgewise.layers.graph_position import GraphPosition
from edgewise.layers.graph_update import EdgeUpdate, GlobalUpdate, NodeUpdate
from edgewise.layers.molecule_attention import MoleculeAttention
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
from edgewise.layers.relation import RelationalAttention, RelationalConvolution, TypedLinear

__all__ = [
    "ALiBi",
    "Bodies",
    "Cache",
    "DirectedMessages",
    "EdgeAttention",
    "EdgeUpdate",
    "EquivariantLayer",
    "GatedGraphAttention",
    "GlobalUpdate",
    "GraphAttention",
    "GraphFeatures",
    "GraphGRU",
    "GraphNetwork",
    "GraphPosition",
    "HopAttention",
    "IsomorphismConvolution",
    "LearnedGlobals",
    "LearnedPosition",
    "MeanConvolution",
    "MoleculeAttention",
    "MultiHeadAttention",
    "NeighborConvolution",
    "NodeStatistics",
    "NodeUpdate",
    "PairForce",
    "PairPosition",
    "Readout",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RelationalAttention",
    "RelationalConvolution",
    "ResidualBlock",
    "RotaryPosition",
    "ShawPosition",
    "SinusoidalPosition",
    "SymmetricConvolution",
    "T5Position",
    "TypedLinear",
]
