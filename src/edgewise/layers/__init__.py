"""Layers over the one operator, for sequences and graphs alike."""

from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.convolution import MeanConvolution, SymmetricConvolution
from edgewise.layers.readout import Readout

__all__ = ["MeanConvolution", "MultiHeadAttention", "Readout", "ResidualBlock", "SymmetricConvolution"]
