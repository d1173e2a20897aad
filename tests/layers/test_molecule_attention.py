"""Attention between the atoms of molecules: against two loops, packed and padded, shuffled, turned, without bonds."""

import math

import pytest
import torch
from torch import nn

from edgewise import Edges, Full, Lengths, Mask, Segments, SettingError, Trace
from edgewise.layers import MoleculeAttention
from graph_cases import GRAPH, NONE, OTHER, SIMPLE, normal, packed, ready, shuffled

SHARES = {"attention_share": 0.5, "distance_share": 0.3, "bond_share": 0.2}


@pytest.fixture(params=[("softmax", "sum"), ("exponential", "mean")], ids=lambda p: p[0])
def layer(request):
    kernel, bond_aggregation = request.param
    return ready(MoleculeAttention(6, 2, kernel=kernel, bond_aggregation=bond_aggregation, **SHARES))


def by_loops(layer, h, x, bonds):
    """Maziarka et al., eq. 3, of one molecule, pair by pair."""
    num_atoms = len(h)
    adjacency = torch.zeros(num_atoms, num_atoms, dtype=torch.float64)
    for j, i in zip(bonds.senders, bonds.receivers):
        adjacency[i, j] += 1
    q, k, v = layer.query(h), layer.key(h), layer.value(h)
    rows = []
    for i in range(num_atoms):
        row = []
        for part in (slice(0, 3), slice(3, 6)):
            scores = [torch.exp(q[i, part] @ k[j, part] / math.sqrt(3)) for j in range(num_atoms)]
            near = [torch.exp(-(x[i] - x[j]).norm()) for j in range(num_atoms)]
            total = torch.zeros(3, dtype=torch.float64)
            for j in range(num_atoms):
                nearness = near[j] / sum(near) if layer.kernel == "softmax" else near[j]
                bond = adjacency[i, j]
                if layer.bond_aggregation == "mean" and adjacency[i].sum() > 0:
                    bond = bond / adjacency[i].sum()
                total = total + (0.5 * scores[j] / sum(scores) + 0.3 * nearness + 0.2 * bond) * v[j, part]
            row.append(total)
        rows.append(layer.output(torch.cat(row)))
    return torch.stack(rows)


@pytest.mark.parametrize("bonds", [GRAPH, OTHER, Edges(NONE, NONE, 3, 3)])
def test_against_two_loops(layer, bonds):
    h, x = normal(bonds.num_receivers, 6), normal(bonds.num_receivers, 3)
    torch.testing.assert_close(layer(h, x, bonds), by_loops(layer, h, x, bonds))


def test_packed_and_padded_molecules_are_each_alone(layer):
    h, x, g, y = normal(6, 6), normal(6, 3), normal(3, 6), normal(3, 3)
    alone = [layer(h, x, GRAPH), layer(g, y, OTHER)]
    bonds, offsets = packed(GRAPH, OTHER)
    together = layer(torch.cat([h, g]), torch.cat([x, y]), bonds, Segments(offsets))
    torch.testing.assert_close(together, torch.cat(alone))
    as_edges = Segments(offsets).to_edges(9)
    torch.testing.assert_close(layer(torch.cat([h, g]), torch.cat([x, y]), bonds, as_edges), together)
    # Padded: one row a molecule, bonds as tables; a multi-edge counts once in a table, so the graph is the simple one.
    alone[0] = layer(h, x, SIMPLE)
    atoms, places = h.new_full((2, 6, 6), math.nan), h.new_full((2, 6, 3), math.nan)
    atoms[0], atoms[1, :3], places[0], places[1, :3] = h, g, x, y
    table = torch.zeros(2, 6, 6, dtype=torch.bool)
    table[0], table[1, :3, :3] = SIMPLE.to_mask(), OTHER.to_mask()
    lengths = torch.tensor([6, 3])
    padded = layer(atoms, places, Mask(table), Lengths(lengths, lengths))
    torch.testing.assert_close(padded[0], alone[0])
    torch.testing.assert_close(padded[1, :3], alone[1])


def test_a_mask_and_its_edges_give_the_same_numbers(layer):
    h, x = normal(6, 6), normal(6, 3)
    everyone = Full().to_edges(6)
    expected = layer(h, x, SIMPLE)
    torch.testing.assert_close(layer(h, x, Mask(SIMPLE.to_mask()), Mask(everyone.to_mask())), expected)
    torch.testing.assert_close(layer(h, x, SIMPLE, everyone), expected)


def test_permuting_atoms_permutes_outputs(layer):
    h, x = normal(6, 6), normal(6, 3)
    bonds, order, _ = shuffled(GRAPH)
    torch.testing.assert_close(layer(h[order], x[order], bonds), layer(h, x, GRAPH)[order])


def test_a_molecule_that_is_turned_or_moved_is_the_same(layer):
    h, x = normal(6, 6), normal(6, 3)
    turn, _ = torch.linalg.qr(normal(3, 3))
    torch.testing.assert_close(layer(h, x @ turn.T + 3, GRAPH), layer(h, x, GRAPH), rtol=1e-9, atol=1e-10)


def test_an_atom_without_neighbors_gets_the_bias(layer):
    h, x = normal(3, 6).requires_grad_(), normal(3, 3).requires_grad_()
    nothing = Edges(NONE, NONE, 3, 3)
    out = layer(h, x, nothing, nothing)
    torch.testing.assert_close(out, layer.output.bias.expand(3, 6))
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), [h, x]))
    assert layer(normal(0, 6), normal(0, 3), Edges(NONE, NONE, 0, 0)).shape == (0, 6)


def test_gradients(layer):
    h, x = normal(3, 6).requires_grad_(), normal(3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda h, x: layer(h, x, OTHER), [h, x])


def test_two_atoms_by_hand():
    """Values 1 and 3, everything else zero, log 2 apart: softmax(−D) gives 2/3 to itself, 1/3 to the other."""
    layer = MoleculeAttention(1, 1, attention_share=1.0, distance_share=10.0, bond_share=100.0).double()
    for linear, weight in ((layer.query, 0.0), (layer.key, 0.0), (layer.value, 1.0), (layer.output, 1.0)):
        nn.init.constant_(linear.weight, weight)
        nn.init.zeros_(linear.bias)
    h, x = torch.tensor([[1.0], [3.0]]).double(), torch.tensor([[0.0], [math.log(2)]]).double()
    out = layer(h, x, Edges(torch.tensor([1]), torch.tensor([0]), 2, 2))
    expected = torch.tensor([[2 + 10 * 5 / 3 + 300], [2 + 10 * 7 / 3]], dtype=torch.float64)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)


def test_the_trace_holds_the_weights_of_the_attention(layer):
    trace = Trace()
    layer(normal(6, 6), normal(6, 3), GRAPH, trace=trace)
    torch.testing.assert_close(trace.weights[0].to_dense().sum(-1), torch.ones(2, 6, dtype=torch.float64))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 4}, r"model_dim \(6\) must be a multiple of num_heads \(4\)"),
        ({"num_heads": 2, "kernel": "gaussian"}, "kernel must be 'softmax' or 'exponential', not 'gaussian'"),
        ({"num_heads": 2, "bond_aggregation": "max"}, "bond_aggregation must be 'sum' or 'mean', not 'max'"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        MoleculeAttention(6, **settings)


def test_half_precision_does_not_round_places_away():
    """Far from the origin, where bfloat16 knows steps of 0.5 only."""
    torch.manual_seed(0)
    layer = MoleculeAttention(6, 2, attention_share=0.0, distance_share=1.0, bond_share=0.0)
    h, x = torch.randn(6, 6), 100 + 2 * torch.rand(6, 3)
    expected = layer(h, x, GRAPH)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(h, x, GRAPH).float()
    assert (found - expected).norm() < 0.02 * expected.norm()
