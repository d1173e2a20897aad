"""A layer knows its axes: which masks it takes, what they mean, and that it refuses all others, with both shapes."""

import itertools
import re

import pytest
import torch

import edgewise.layers as L
from edgewise import Causal, Edges, Lengths, Mask, Segments, ShapeError
from layer_cases import CASES, EDGES, HEADS, NO_LAYERS, NODES, PARTS, drawn, ready

WITH_HEADS = [name for name, case in CASES.items() if case.takes == "heads"]
OVER_NODES = [name for name, case in CASES.items() if case.takes == "nodes"]
OVER_EDGES = [name for name, case in CASES.items() if case.takes == "edges"]
WRONG = [(2,), (3,), (4,), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (2, 2, 2), (1, 2, 2), (2, 2, 2, 2)]
"""Axes before those of queries and keys; which of them fit depends on batch and heads."""


def masks(*shape):
    return torch.rand(*shape, NODES, NODES, generator=torch.Generator().manual_seed(1)) < 0.6


def lengths(*numbers):
    return Lengths(torch.tensor(numbers))


def fits(axes, batch, num_heads):
    """Whether a layer with these batch axes and heads, 0 for none, knows what such a mask means."""
    fitting = [batch] if num_heads == 0 else [batch, (*batch, num_heads)]
    return any(
        len(axes) == len(whole) and all(size in (1, other) for size, other in zip(axes, whole)) for whole in fitting
    )


def test_every_layer_is_in_the_list():
    assert {name.partition(",")[0] for name in CASES} | NO_LAYERS | PARTS == set(L.__all__)


@pytest.mark.parametrize("name", WITH_HEADS)
@pytest.mark.parametrize("batch", [(), (HEADS,), (3,)], ids=str)
def test_a_mask_for_each_head_is_that_of_the_member_and_head(name, batch):
    layer, x = ready(name), drawn(*batch, NODES, 8)
    mask = masks(*batch, HEADS)
    together = CASES[name].call(layer, x, Mask(mask))
    shared = CASES[name].call(layer, x, Mask(mask[..., :1, :, :]))
    assert together.shape == shared.shape == CASES[name].call(layer, x, EDGES).shape
    assert not torch.allclose(together, shared)
    for member in itertools.product(*map(range, batch)):
        alone = CASES[name].call(layer, x[member], Mask(mask[member]))
        torch.testing.assert_close(together[member], alone)
        alone = CASES[name].call(layer, x[member], Mask(mask[member][0]))
        torch.testing.assert_close(shared[member], alone)


@pytest.mark.parametrize("name", [*WITH_HEADS, *OVER_NODES])
@pytest.mark.parametrize("batch", [(HEADS,), (3,), (2, 3)], ids=str)
def test_a_mask_for_each_member_is_that_of_the_member(name, batch):
    layer, x = ready(name), drawn(*batch, NODES, 8)
    mask = masks(*batch)
    together = CASES[name].call(layer, x, Mask(mask))
    assert together.shape == CASES[name].call(layer, x, EDGES).shape
    for member in itertools.product(*map(range, batch)):
        alone = CASES[name].call(layer, x[member], Mask(mask[member]))
        torch.testing.assert_close(together[member], alone)
    shared = CASES[name].call(layer, x, Mask(mask[:1]))
    torch.testing.assert_close(shared[1], CASES[name].call(layer, x[1], Mask(mask[0])))


@pytest.mark.parametrize("name", OVER_EDGES)
def test_a_mask_with_axes_of_size_1_serves_all_where_edges_are_needed(name):
    layer, x = ready(name), drawn(2, NODES, 8)
    mask = EDGES.to_mask()
    expected = CASES[name].call(layer, x, Mask(mask))
    assert torch.equal(CASES[name].call(layer, x, Mask(mask[None])), expected)


@pytest.mark.parametrize("name", [*WITH_HEADS, *OVER_NODES, *OVER_EDGES])
@pytest.mark.parametrize("batch", [(), (2,), (3,), (2, 2)], ids=str)
def test_other_axes_are_refused_with_both_shapes(name, batch):
    layer, x = ready(name), drawn(*batch, NODES, 8)
    num_heads = HEADS if name in WITH_HEADS else 0
    for axes in WRONG:
        if name not in OVER_EDGES and fits(axes, batch, num_heads):
            continue
        message = f"varies over axes {axes}, but the nodes have batch axes {batch}"
        if name in OVER_EDGES:
            message = f"varies over batch axes {axes}, which a list of edges cannot"
        elif len(axes) < len(batch) and all(size in (1, own) for size, own in zip(axes[::-1], batch[::-1])):
            continue  # the first axes are served alike, as torch broadcasts
        with pytest.raises(ShapeError, match=re.escape(message)):
            CASES[name].call(layer, x, Mask(masks(*axes)))


@pytest.mark.parametrize("name", [*WITH_HEADS, *OVER_NODES])
@pytest.mark.parametrize(
    "neighborhood",
    [
        Lengths(torch.tensor([1, 2, 3])),
        Segments(torch.tensor([[0, 5]] * 3)),
        Causal() & Lengths(torch.tensor([1, 2, 3])),
    ],
    ids=["lengths", "segments", "joined"],
)
def test_lengths_of_other_members_are_refused(name, neighborhood):
    with pytest.raises(ShapeError, match=re.escape("varies over axes (3,), but the nodes have batch axes (2,)")):
        CASES[name].call(ready(name), drawn(2, NODES, 8), neighborhood)


def test_joined_neighborhoods_of_the_gated_layer_keep_their_own_axes():
    layer, x, mask = ready("GatedGraphAttention"), drawn(HEADS, NODES, 8), masks(HEADS, HEADS)
    together = layer(x, Lengths(torch.tensor([5, 3])) & Mask(mask))
    for member, length in enumerate((5, 3)):
        torch.testing.assert_close(
            together[member], layer(x[member], Lengths(torch.tensor(length)) & Mask(mask[member]))
        )


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("given", [[3, 6], [-1, 2], [1, 2, 3], [[1, 2]], [1.0, 2.0], "no tensor"], ids=str)
@pytest.mark.parametrize("name", ["RecurrentEncoder, lengths", "RecurrentDecoder, general"])
def test_lengths_of_recurrent_layers_are_one_for_each_member(name, given):
    layer, x = ready(name), drawn(2, NODES, 8)
    given = given if isinstance(given, str) else torch.tensor(given)
    arguments = (x, given) if name.startswith("RecurrentEncoder") else (x, x, given)
    with pytest.raises(ShapeError, match="lengths must"):
        layer(*arguments)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    "positions", [torch.arange(1), torch.tensor(3), torch.arange(4), torch.arange(15).view(3, 5), torch.arange(5.0)],
    ids=lambda each: f"{each.dtype} {tuple(each.shape)}",
)  # fmt: skip
@pytest.mark.parametrize("name", ["RotaryPosition", "ALiBi", "ShawPosition", "T5Position", "ResidualBlock"])
def test_positions_are_one_for_each_node(name, positions):
    layer, x = ready(name), drawn(2, NODES, 8)
    with pytest.raises(ShapeError, match="MultiHeadAttention: positions"):
        layer(x, positions=positions)
    if isinstance(layer, L.MultiHeadAttention):
        with pytest.raises(ShapeError, match="MultiHeadAttention: key_positions"):
            layer(x, key_positions=positions)
    for nodes in (L.SinusoidalPosition(8), L.LearnedPosition(20, 8)):
        with pytest.raises(ShapeError, match="Position: positions"):
            nodes(x, positions)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("shape", [(1,), (4,), (2, 5), (5, 1), ()], ids=str)
def test_degrees_are_one_for_each_node(shape):
    with pytest.raises(ShapeError, match=r"SymmetricConvolution: degrees must be \(5,\)"):
        ready("SymmetricConvolution")(drawn(2, NODES, 8), EDGES, degrees=torch.ones(shape))


BESIDE_EDGES = {
    "GraphAttention": lambda x, near, e: L.GraphAttention(8, 8, 2, edge_dim=3)(x, near, e),
    "DirectedMessages": lambda x, near, e: L.DirectedMessages(8, 3, 8)(x, near, e),
    "EdgeAttention": lambda x, near, e: L.EdgeAttention(8, 3, 8, num_heads=2)(x, near, e),
    "SymmetricConvolution": lambda x, near, e: L.SymmetricConvolution(8, 8)(x, near, e[:, 0].abs()),
    "NeighborConvolution": lambda x, near, e: L.NeighborConvolution(8, 8)(x, near, e[:, 0]),
    "IsomorphismConvolution": lambda x, near, e: L.IsomorphismConvolution(8, 8, edge_dim=3)(x, near, e),
    "EquivariantLayer": lambda x, near, e: L.EquivariantLayer(8, edge_dim=3)(x, x[:, :3], near, e),
    "PairForce": lambda x, near, e: L.PairForce(8)(x[:, :3], near, e[:, 0]),
}


@pytest.mark.parametrize("name", BESIDE_EDGES)
def test_features_of_edges_need_edges_in_an_order(name):
    """Beside a mask they were taken in the order of its rows, whatever that of the user's edges was."""
    x, edges = torch.randn(4, 8), Edges(torch.tensor([3, 0, 1]), torch.tensor([2, 1, 0]), 4, 4)
    BESIDE_EDGES[name](x, edges, torch.randn(3, 3))
    with pytest.raises(ShapeError, match=f"^{name}: edge features need Edges; to_edges"):
        BESIDE_EDGES[name](x, Mask(edges.to_mask()), torch.randn(3, 3))
