"""The layer that adds positions in a graph: by hand, its signs, its errors."""

import pytest
import torch

from edgewise import SettingError, ShapeError
from edgewise.layers import GraphPosition
from graph_cases import normal, ready


def test_by_hand():
    layer = ready(GraphPosition(4, 2, 1))
    x, positions = normal(2, 5, 4), normal(5, 3)
    torch.testing.assert_close(layer(x, positions), x + positions @ layer.linear.weight.T)
    order = torch.randperm(5)
    torch.testing.assert_close(layer(x[:, order], positions[order]), layer(x, positions)[:, order])


def test_it_starts_by_adding_nothing_and_learns():
    layer = GraphPosition(4, 2, 1).double()
    x, positions = normal(5, 4), normal(5, 3)
    out = layer.eval()(x, positions)
    assert torch.equal(out, x)
    out.sin().sum().backward()
    assert bool((layer.linear.weight.grad.abs() > 0).all())


def test_signs_are_flipped_in_training_alone_by_graph_and_eigenvector():
    layer = ready(GraphPosition(5, 3, 2))
    torch.nn.init.eye_(layer.linear.weight)
    positions, offsets = torch.ones(6, 5, dtype=torch.float64), torch.tensor([0, 2, 2, 6])
    nothing = torch.zeros(6, 5, dtype=torch.float64)
    assert torch.equal(layer(nothing, positions, offsets), positions)
    layer.train()
    torch.manual_seed(0)
    draws = torch.stack([layer(nothing, positions, offsets) for _ in range(40)])
    assert bool((draws[..., 3:] == 1).all()), "probabilities have no sign"
    assert bool((draws.abs() == 1).all())
    for begin, end in ((0, 2), (2, 6)):
        assert torch.equal(draws[:, begin:end], draws[:, begin : begin + 1].expand(-1, end - begin, -1))
    signs = draws[:, [0, 2], :3].flatten(1)  # two graphs, three eigenvectors: each goes its own way
    assert bool((signs.mean(0).abs() < 0.6).all())
    assert len({tuple(row) for row in signs.T.tolist()}) == 6
    whole = torch.stack([layer(nothing, positions) for _ in range(40)])
    assert torch.equal(whole, whole[:, :1].expand(-1, 6, -1)), "without offsets there is one graph"


def test_random_walks_alone_draw_nothing():
    layer = ready(GraphPosition(4, num_random_walk=3)).train()
    x, positions = normal(5, 4), normal(5, 3)
    assert torch.equal(layer(x, positions), layer.eval()(x, positions))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((0, 0), r"expected at least one of either"),
        ((-1, 3), r"num_laplacian must be a whole number of at least 0, not -1"),
        ((3, -1), r"num_random_walk must be a whole number of at least 0, not -1"),
    ],
)
def test_counts_that_cannot_be(counts, message):
    with pytest.raises(SettingError, match=message):
        GraphPosition(4, *counts)


def test_positions_of_another_size():
    with pytest.raises(ShapeError, match="axis 'position' is 4 in positions but 3 in the layer"):
        GraphPosition(4, 2, 1)(torch.zeros(5, 4), torch.zeros(5, 4))
