"""Choices that layers are made with: sizes, dropout, functions; what no layer can be made of is refused in words."""

import pytest
import torch

import edgewise.layers as L
from edgewise import Edges, SettingError

EDGES = Edges(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0]), 5, 5)


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


SIZES_BELOW = {
    "MultiHeadAttention": lambda size: L.MultiHeadAttention(8, size),
    "num_key_heads": lambda size: L.MultiHeadAttention(8, 2, num_key_heads=size),
    "source_dim": lambda size: L.MultiHeadAttention(8, 2, source_dim=size),
    "value_source_dim": lambda size: L.MultiHeadAttention(8, 2, value_source_dim=size),
    "ResidualBlock": lambda size: L.ResidualBlock(L.MultiHeadAttention(8, 2), 8, size),
    "MeanConvolution": lambda size: L.MeanConvolution(8, size),
    "SymmetricConvolution": lambda size: L.SymmetricConvolution(8, size),
    "NeighborConvolution": lambda size: L.NeighborConvolution(8, 4, "max", pool_dim=size),
    "IsomorphismConvolution": lambda size: L.IsomorphismConvolution(8, 4, size),
    "DirectedMessages": lambda size: L.DirectedMessages(8, 0, 4, size),
    "EdgeAttention": lambda size: L.EdgeAttention(8, 0, 4, num_heads=size),
    "EdgeUpdate": lambda size: L.EdgeUpdate(8, 0, 0, 4, num_heads=size),
    "NodeUpdate": lambda size: L.NodeUpdate(8, 4, 0, 4, num_heads=size),
    "GlobalUpdate": lambda size: L.GlobalUpdate(8, 4, 0, size),
    "LearnedGlobals": lambda size: L.LearnedGlobals(size),
    "GraphAttention": lambda size: L.GraphAttention(8, 4, size),
    "GatedGraphAttention": lambda size: L.GatedGraphAttention(8, num_heads=size),
    "GraphGRU": lambda size: L.GraphGRU(8, 4, size),
    "HopAttention": lambda size: L.HopAttention(size),
    "GraphPosition": lambda size: L.GraphPosition(size, 2),
    "MoleculeAttention": lambda size: L.MoleculeAttention(8, size),
    "EquivariantLayer": lambda size: L.EquivariantLayer(8, size),
    "PairForce": lambda size: L.PairForce(size),
    "Readout": lambda size: L.Readout(8, num_heads=size),
    "RecurrentEncoder": lambda size: L.RecurrentEncoder(8, 8, num_layers=size),
    "RecurrentDecoder": lambda size: L.RecurrentDecoder(8, 8, size),
    "RelationalConvolution": lambda size: L.RelationalConvolution(8, size, 2),
    "RelationalAttention": lambda size: L.RelationalAttention(8, size, 2, 2),
    "TypedLinear": lambda size: L.TypedLinear([8], size),
}


@pytest.mark.parametrize("name", SIZES_BELOW)
def test_sizes_of_which_there_is_at_least_one(name, shapes_unchecked):
    for size in (0, -1, 2.0, "2", True):
        with pytest.raises(SettingError, match=rf"^\w+: \w+ must be a whole number of at least 1, not {size!r}\.$"):
            SIZES_BELOW[name](size)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    "make",
    [
        lambda size: L.EdgeUpdate(size, 2, 2, 4),
        lambda size: L.EdgeUpdate(8, size, 2, 4),
        lambda size: L.NodeUpdate(8, 2, size, 4),
        lambda size: L.GlobalUpdate(8, size, 2, 4),
        lambda size: L.EquivariantLayer(8, edge_dim=size),
        lambda size: L.NodeStatistics(size),
        lambda size: L.HopAttention(8, size),
        lambda size: L.RecurrentDecoder(size, 8),
        lambda size: L.MultiHeadAttention(8, 2, edge_dim=size),
        lambda size: L.MeanConvolution((8, size), 4),
        lambda size: L.RelationalConvolution((size, 8), 4, 2),
        lambda size: L.GraphAttention((8, size), 4),
    ],
)
def test_sizes_that_may_be_none_are_not_negative(make, shapes_unchecked):
    make(0)
    for size in (-1, 2.5):
        with pytest.raises(SettingError, match=rf"must be a whole number of at least 0, not {size}"):
            make(size)


def test_sizes_of_sources_and_targets_are_two(shapes_unchecked):
    for make in (L.MeanConvolution, L.NeighborConvolution, L.GraphAttention):
        with pytest.raises(
            SettingError, match=r"input_dim must be one size, or two of \(source, target\), not \(8, 8, 8"
        ):
            make((8, 8, 8), 4)


@pytest.mark.parametrize("rate", [1.5, 1.0, -0.1, float("nan"), "0.1", None])
def test_dropout_is_a_probability_where_it_is_chosen(rate, shapes_unchecked):
    attention = L.MultiHeadAttention(8, 2)
    for make in (
        lambda: L.MultiHeadAttention(8, 2, dropout=rate),
        lambda: L.ResidualBlock(attention, 8, dropout=rate),
        lambda: L.ResidualBlock(attention, 8, hidden_dropout=rate),
        lambda: L.GraphAttention(8, 4, dropout=rate),
        lambda: L.GraphAttention(8, 4, value_dropout=rate),
        lambda: L.EdgeAttention(8, 0, 4, num_heads=2, dropout=rate),
        lambda: L.RecurrentEncoder(8, 8, dropout=rate),
        lambda: L.RelationalAttention(8, 2, 1, 1, dropout=rate),
    ):
        with pytest.raises(SettingError, match=r"dropout must be at least 0 and less than 1, not"):
            make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.MeanConvolution(8, 4, "relu"), r"must be a function, such as torch.relu, not 'relu'"),
        (lambda: L.GraphGRU(8, 4, 2, activation=torch.nn.ReLU), r"torch.relu, not the class ReLU"),
        (lambda: L.NodeUpdate(8, 4, 0, 4, activation="relu"), r"NodeUpdate: activation must be a function"),
        (lambda: L.SinusoidalPosition(8, 0.0), r"SinusoidalPosition: base must be a number above 0, not 0.0"),
        (lambda: L.RotaryPosition(8, -1.0), r"RotaryPosition: base must be a number above 0, not -1.0"),
        (lambda: L.MultiHeadAttention(8, 2, position=L.SinusoidalPosition(8)), r"position must be that of pairs"),
        (
            lambda: L.ResidualBlock(L.MultiHeadAttention(8, 2), 8, norm_eps=-1.0),
            r"norm_eps must be at least 0, not -1.0",
        ),
        (lambda: L.MoleculeAttention(8, 2, bond_share=float("nan")), r"bond_share must be a number, not nan"),
        (lambda: L.IsomorphismConvolution(8, 4, epsilon="1"), r"epsilon must be a number, not '1'"),
    ],
)
def test_choices_that_cannot_be_computed_with(make, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        make()


def test_a_whole_number_for_epsilon():
    layer = L.IsomorphismConvolution(8, 6, epsilon=1)
    assert layer.epsilon.is_floating_point() and layer(drawn(5, 8), EDGES).shape == (5, 6)
