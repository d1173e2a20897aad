"""Positions of nodes in their graph: against dense formulas, by hand, in parts, shuffled, solver by solver."""

import math

import numpy as np
import pytest
import torch

from edgewise import Edges, SettingError, ShapeError
from edgewise.learn.readers.graphs import position as graph_position
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.position import cached_positions, laplacian_positions, random_walk_positions
from edgewise.neighborhood import expander_edges
from graph_cases import GRAPH, NONE, OTHER, packed, shuffled


def drawn(num_nodes, num_edges, seed=0):
    """A connected random graph: a path, and edges in between."""
    random = torch.Generator().manual_seed(seed)
    path = torch.arange(num_nodes)
    senders, receivers = torch.randint(num_nodes, (2, num_edges), generator=random)
    return Edges(torch.cat([path[:-1], senders]), torch.cat([path[1:], receivers]), num_nodes, num_nodes)


def adjacency_of(edges):
    """The undirected graph as a table, without loops."""
    table = np.zeros((edges.num_senders,) * 2)
    for sender, receiver in zip(edges.senders.tolist(), edges.receivers.tolist()):
        if sender != receiver:
            table[sender, receiver] = table[receiver, sender] = 1
    return table


def test_laplacian_positions_are_eigenvectors_in_the_order_of_their_eigenvalues():
    edges = drawn(30, 20)
    table = adjacency_of(edges)
    roots = 1 / np.sqrt(table.sum(1))
    laplacian = np.eye(30) - roots[:, None] * table * roots
    values = np.linalg.eigvalsh(laplacian)
    positions = laplacian_positions(edges, 5).double().numpy()
    assert positions.shape == (30, 5)
    for place in range(5):
        wave = positions[:, place]
        np.testing.assert_allclose(laplacian @ wave, values[place + 1] * wave, atol=1e-5)
        assert wave @ wave == pytest.approx(30, rel=1e-5)
        assert wave[np.abs(wave).argmax()] > 0
    np.testing.assert_allclose(positions.T @ positions, 30 * np.eye(5), atol=1e-4)


def test_a_path_by_hand():
    """φ_k of a path is √d cos(πki / (n − 1)), λ_k = 1 − cos(πk / (n − 1))."""
    path = Edges(torch.arange(4), torch.arange(1, 5), 5, 5)
    positions = laplacian_positions(path, 3)
    for k in range(1, 4):
        wave = torch.tensor([math.cos(math.pi * k * i / 4) for i in range(5)]) * torch.tensor([1, 2, 2, 2, 1]).sqrt()
        wave = wave / wave.square().mean().sqrt()
        found = positions[:, k - 1]
        assert torch.allclose(found, wave, atol=1e-5) or torch.allclose(found, -wave, atol=1e-5)
    assert positions[0, 0] > 0, "both ends are as large: the first node decides"


@pytest.mark.parametrize(("make", "inverts"), [(lambda: drawn(300, 600), False), (lambda: drawn(900, 0), True)])
def test_large_graphs_get_the_same_positions_from_sparse_solvers(make, inverts, monkeypatch):
    edges, solved = make(), []
    monkeypatch.setattr(graph_position, "DENSE_NODES", 10_000)
    dense = laplacian_positions(edges, 4)
    monkeypatch.setattr(graph_position, "DENSE_NODES", 10)
    original = graph_position.eigsh
    monkeypatch.setattr(graph_position, "eigsh", lambda *a, **k: solved.append("sigma" in k) or original(*a, **k))
    sparse = laplacian_positions(edges, 4)
    assert solved == ([False, True] if inverts else [False])
    torch.testing.assert_close(sparse, dense, atol=1e-4, rtol=0)
    assert torch.equal(sparse, laplacian_positions(edges, 4))


def walked(edges, num_steps):
    """Powers of D^−1 A as tables."""
    table = adjacency_of(edges)
    step = table / np.maximum(table.sum(1, keepdims=True), 1)
    power, found = np.eye(len(table)), []
    for _ in range(num_steps):
        power = power @ step
        found.append(power.diagonal())
    return torch.tensor(np.stack(found, 1), dtype=torch.float32)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("block", [1, 200, 1 << 22])
def test_random_walks_return_as_often_as_the_powers_say(num_steps, block, monkeypatch):
    monkeypatch.setattr(graph_position, "BLOCK_NUMBERS", block)
    for edges in (GRAPH, drawn(40, 10), expander_edges(12, 4)):
        found = random_walk_positions(edges, num_steps)
        torch.testing.assert_close(found, walked(edges, num_steps))


def test_random_walks_by_hand():
    """On a triangle: away in one step; back in two with 1/2; around it in three, two ways of eight."""
    triangle = Edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), 3, 3)
    expected = torch.tensor([0.0, 0.5, 0.25]).expand(3, 3)
    torch.testing.assert_close(random_walk_positions(triangle, 3), expected)


@pytest.mark.parametrize("place", [laplacian_positions, random_walk_positions])
def test_graphs_side_by_side_get_the_positions_that_each_gets_alone(place):
    one, other = drawn(9, 3), drawn(4, 2, seed=1)
    together, _ = packed(one, other)
    torch.testing.assert_close(place(together, 6), torch.cat([place(one, 6), place(other, 6)]))


def test_what_is_missing_is_zero():
    assert torch.equal(laplacian_positions(GRAPH, 7)[5], torch.zeros(7)), "alone"
    assert torch.equal(random_walk_positions(GRAPH, 7)[5], torch.zeros(7))
    few = laplacian_positions(OTHER, 4)  # three nodes have two waves
    assert bool((few[:, :2].square().mean(0) - 1 < 1e-5).all())
    assert torch.equal(few[:, 2:], torch.zeros(3, 2))
    for place in (laplacian_positions, random_walk_positions):
        assert place(Edges(NONE, NONE, 0, 0), 3).shape == (0, 3)
        assert torch.equal(place(Edges(NONE, NONE, 4, 4), 3), torch.zeros(4, 3))


@pytest.mark.parametrize("place", [laplacian_positions, random_walk_positions])
def test_directions_repetitions_and_loops_are_left_out(place):
    edges = drawn(12, 8)
    other_way = Edges(edges.receivers, edges.senders, 12, 12)
    for same in (other_way, edges.undirected(), edges.with_self_loops(), packed_twice(edges)):
        torch.testing.assert_close(place(same, 4), place(edges, 4))


def packed_twice(edges):
    return Edges(edges.senders.repeat(2), edges.receivers.repeat(2), edges.num_senders, edges.num_receivers)


@pytest.mark.parametrize("place", [laplacian_positions, random_walk_positions])
def test_nodes_in_another_order_take_their_positions_along(place):
    torch.manual_seed(0)
    edges = drawn(15, 9)
    moved, order, _ = shuffled(edges)
    torch.testing.assert_close(place(moved, 4), place(edges, 4)[order], atol=1e-5, rtol=0)


def test_both_side_by_side():
    edges = EdgeList(GRAPH.senders.numpy(), GRAPH.receivers.numpy(), np.zeros((8, 0), dtype=np.float32))
    both = cached_positions(edges, 6, 2, 3)
    assert torch.equal(both, torch.cat([laplacian_positions(GRAPH, 2), random_walk_positions(GRAPH, 3)], 1))
    assert cached_positions(edges, 6, 2, 3) is both, "computed once"
    assert cached_positions(edges, 6, 0, 3).shape == (6, 3)
    assert cached_positions(edges, 6, 2, 0).shape == (6, 2)


@pytest.mark.parametrize(
    ("place", "name"), [(laplacian_positions, "num_positions"), (random_walk_positions, "num_steps")]
)
def test_what_cannot_be(place, name):
    with pytest.raises(SettingError, match=f"{name} is 0; expected at least 1"):
        place(GRAPH, 0)
    with pytest.raises(ShapeError, match=r"different nodes here \(2 and 1\)"):
        place(Edges(torch.tensor([0]), torch.tensor([0]), 2, 1), 3)
