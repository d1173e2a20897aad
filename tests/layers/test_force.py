"""Forces between pairs: against two loops, under rotations, reflections and shifts, Newton's third law, a potential."""

import pytest
import torch

from edgewise import Edges
from edgewise.layers import PairForce
from graph_cases import GRAPH, NONE, edges_into, normal, packed, ready, shuffled


@pytest.fixture
def layer():
    return ready(PairForce(6))


def everyone(num_nodes):
    receivers, senders = torch.nonzero(~torch.eye(num_nodes, dtype=torch.bool), as_tuple=True)
    return Edges(senders, receivers, num_nodes, num_nodes)


def test_against_two_loops(layer):
    x, coupling = normal(6, 3), normal(GRAPH.num_edges)
    found = layer(x, GRAPH, coupling)
    for i in range(6):
        total = torch.zeros(3, dtype=torch.float64)
        for edge, j in edges_into(GRAPH, i):
            if i != j:  # a loop has no direction
                r = torch.linalg.vector_norm(x[j] - x[i])
                gain, power = layer.network(r.log().reshape(1))
                total = total + coupling[edge] * gain * power.exp() * (x[j] - x[i]) / r
        torch.testing.assert_close(found[i], total)
    assert not found[[3, 5]].any(), "nobody pulls them"


def test_it_turns_with_the_bodies_and_does_not_shift(layer):
    x, edges = normal(5, 3), everyone(5)
    coupling = normal(edges.num_edges)
    matrix, shift = torch.linalg.qr(normal(3, 3)).Q, normal(3)
    for each in (matrix, -matrix):
        torch.testing.assert_close(layer(x @ each.T + shift, edges, coupling), layer(x, edges, coupling) @ each.T)


def test_another_order_and_other_bodies_change_nothing(layer):
    x, coupling = normal(6, 2), normal(GRAPH.num_edges)
    found = layer(x, GRAPH, coupling)
    edges, order, edge_order = shuffled(GRAPH)
    torch.testing.assert_close(layer(x[order], edges, coupling[edge_order]), found[order])
    both, _ = packed(GRAPH, GRAPH)
    torch.testing.assert_close(layer(torch.cat([x, x]), both, torch.cat([coupling, coupling]))[:6], found)
    stacked = layer(torch.stack([x, 2 * x]), GRAPH, torch.stack([coupling, coupling]))
    torch.testing.assert_close(stacked, torch.stack([found, layer(2 * x, GRAPH, coupling)]))


def test_forces_are_opposite_and_have_a_potential(layer):
    """With c_ij = c_ji, momentum stays, and the Jacobian of the forces is symmetric: no work on a closed way."""
    x, edges = normal(4, 3), everyone(4)
    table = normal(4, 4)
    coupling = (table + table.T)[edges.receivers, edges.senders]
    torch.testing.assert_close(layer(x, edges, coupling).sum(0), torch.zeros(3, dtype=torch.float64))
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: layer(flat.view(4, 3), edges, coupling).flatten(), x.flatten()
    )
    torch.testing.assert_close(jacobian, jacobian.T)


def test_a_power_law_by_hand(layer):
    """With g = 1 and exp(p) = r⁻²: masses 1 at distance 2 pull each other by ¼."""
    layer.strength = lambda squares: 1 / squares
    force = layer(torch.tensor([[0.0, 0], [2, 0]]), everyone(2), torch.ones(2))
    assert force.tolist() == [[0.25, 0], [-0.25, 0]]


def test_two_bodies_at_the_same_position_and_no_bodies(layer):
    x = normal(1, 3).repeat(3, 1).requires_grad_()
    force = layer(x, everyone(3), normal(6))
    assert not force.any()
    force.sum().backward()
    assert x.grad.isfinite().all()
    assert layer(normal(2, 3), Edges(NONE, NONE, 2, 2), normal(0)).tolist() == [[0, 0, 0], [0, 0, 0]]
