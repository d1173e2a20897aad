"""Each set of transformations: what one of them does, by hand and by its law; what is drawn, and in which words."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgewise import Edges
from edgewise.explain.groups import Together, Transformation
from edgewise.explain.leaves import FIXED, INDEX, NODES, PAIRS, PIXELS, POINTS, VECTORS, Axes, GeometricGraph, leaves
from edgewise.explain.sets import (
    Map,
    moved,
    permuted,
    quarter_turned,
    scaled,
    shifted,
    turned,
)
from edgewise.explain.symmetry import (
    CyclicShift,
    Permutation,
    QuarterTurn,
    Reflection,
    Rotation,
    Scaling,
    Translation,
)


def drawn(group, inputs, number=50, inputs_as=None, seed=0):
    """So many transformations of a set, or all there are."""
    found = leaves(inputs, inputs_as, "inputs")
    return list(itertools.islice(group.draws(np.random.default_rng(seed), found), number))


def acted(step, tree, kinds=None):
    return Transformation((step,)).act(tree, kinds)


# One of each, by hand.


def test_a_permutation_by_hand():
    step = permuted(np.array([2, 0, 1]))
    assert acted(step, np.array([[10], [20], [30]])).tolist() == [[30], [10], [20]]
    assert acted(step, torch.tensor([10, 20, 30])).tolist() == [30, 10, 20]
    table = np.arange(9).reshape(3, 3)
    assert acted(step, table, PAIRS).tolist() == [[8, 6, 7], [2, 0, 1], [5, 3, 4]]
    assert acted(step, table, Axes(nodes=(1,))).tolist() == [[2, 0, 1], [5, 3, 4], [8, 6, 7]]
    assert acted(step, table, FIXED) is table
    # Node 0 now stands at place 1, node 1 at place 2, node 2 at place 0.
    edges = Edges(torch.tensor([0, 1, 0]), torch.tensor([1, 2, 0]), 3, 3)
    found = acted(step, edges)
    assert (found.senders.tolist(), found.receivers.tolist()) == ([1, 2, 1], [2, 0, 1])
    assert acted(step, edges, FIXED) is edges
    edge_index = torch.stack([edges.senders, edges.receivers])
    assert acted(step, edge_index, INDEX).tolist() == [[1, 2, 1], [2, 0, 1]]
    assert str(step) == "nodes put in the order 2 0 1"
    assert str(permuted(np.array([0, 3, 2, 1]))) == "nodes 1 and 3 exchanged"
    assert str(permuted(np.roll(np.arange(14), 1))) == ("nodes put in the order 13 0 1 2 3 4 5 6 7 8 9 10 … (14 nodes)")


def test_motions_by_hand():
    points = np.array([[1.0, 2.0], [3.0, 4.0]])
    shift = moved(np.array([10.0, 20.0]))
    assert acted(shift, points).tolist() == [[11, 22], [13, 24]]
    assert acted(shift, points, VECTORS) is points
    assert acted(shift, points, Axes(coordinates=0, is_anchored=True)).tolist() == [[11, 12], [23, 24]]
    assert str(shift) == "translation by (10, 20)"
    assert str(moved(np.arange(6.0) / 3)) == "translation by (0, 0.333, 0.667, 1, …)"
    quarter = turned(np.array([[0.0, -1.0], [1.0, 0.0]]), "a quarter")
    assert acted(quarter, points).tolist() == [[-2, 1], [-4, 3]]
    assert acted(quarter, points, VECTORS).tolist() == [[-2, 1], [-4, 3]]
    assert acted(quarter, points, NODES) is points
    double = scaled(2.0)
    assert acted(double, points).tolist() == [[2, 4], [6, 8]]
    assert acted(double, points, Axes(power=2)).tolist() == [[4, 8], [12, 16]]
    assert acted(double, points, NODES) is points
    assert str(double) == "scaling by 2"


def test_a_grid_by_hand():
    image = np.array([[1, 2, 3], [4, 5, 6]])
    shift = shifted((1, 1), (2, 3))
    assert acted(shift, image).tolist() == [[6, 4, 5], [3, 1, 2]]
    assert acted(shift, image[None], PIXELS).tolist() == [[[6, 4, 5], [3, 1, 2]]]
    assert str(shift) == "shift by (1, 1) cells"
    line = shifted((1,), (3,))
    assert acted(line, image[0]).tolist() == [3, 1, 2]
    assert str(line) == "shift by 1 cell"
    turn = quarter_turned(1)
    assert acted(turn, image).tolist() == [[3, 6], [2, 5], [1, 4]]
    assert acted(quarter_turned(2), image).tolist() == [[6, 5, 4], [3, 2, 1]]
    assert str(turn) == "turn by 90 degrees"


def test_a_graph_is_moved_as_what_its_fields_are():
    graph = GeometricGraph(
        torch.tensor([[1.0], [2.0]]), Edges(torch.tensor([0]), torch.tensor([1]), 2, 2), np.eye(2), np.ones((1, 1))
    )
    exchange, shift = permuted(np.array([1, 0])), moved(np.array([5.0, 7.0]))
    both = Transformation((exchange, shift))
    found = both.act(graph)
    assert found.node_features.tolist() == [[2], [1]]
    assert (found.edges.senders.tolist(), found.edges.receivers.tolist()) == ([1], [0])
    assert found.coordinates.tolist() == [[5, 8], [6, 7]]
    assert found.edge_features is graph.edge_features
    assert str(both) == "nodes 0 and 1 exchanged, then translation by (5, 7)"
    nowhere = both.act(GeometricGraph(graph.node_features, graph.edges))
    assert nowhere.coordinates is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_a_tensor_keeps_what_it_is(dtype):
    points = torch.randn(4, 3, dtype=dtype).requires_grad_()
    for step in (permuted(np.array([1, 0, 2, 3])), moved(np.ones(3)), turned(np.eye(3), ""), scaled(1.0)):
        found = acted(step, points)
        assert (found.dtype, found.requires_grad, found.shape) == (dtype, True, points.shape)
        assert found.is_leaf
        assert found is not points


def test_an_array_keeps_its_dtype():
    for dtype in (np.float64, np.float32, np.float16, np.complex64):
        assert acted(moved(np.ones(3)), np.ones((4, 3), dtype)).dtype == dtype
    assert acted(permuted(np.array([1, 0])), np.array(["a", "b"])).tolist() == ["b", "a"]
    alone = acted(permuted(np.array([1, 0])), np.array(1), INDEX)
    assert (alone.shape, int(alone)) == ((), 0)


# What is drawn.


@given(st.integers(2, 9), st.integers(0, 1000))
def test_a_permuted_graph_is_the_same_graph(num_nodes, seed):
    random = torch.Generator().manual_seed(seed)
    mask = torch.rand(num_nodes, num_nodes, generator=random) < 0.4
    edges = Edges.from_adjacency(mask)
    for step in drawn(Permutation(), edges, 4, seed=seed):
        found = acted(step, edges)
        swap = torch.eye(num_nodes, dtype=torch.int64)[torch.from_numpy(step.value)]
        assert torch.equal(found.to_mask().long(), swap @ mask.long() @ swap.T)
        assert torch.equal(found.to_mask(), acted(step, mask, PAIRS))
        # The order of the edges is kept, so that their features need not move.
        names = torch.arange(num_nodes)
        assert torch.equal(acted(step, names)[found.senders], names[edges.senders])


def test_half_of_the_permutations_exchange_two_nodes():
    steps = drawn(Permutation(), np.zeros((30, 2)), 200)
    exchanges = [step for step in steps if str(step).endswith("exchanged")]
    assert 70 <= len(exchanges) <= 130
    assert all(sorted(step.value) == list(range(30)) for step in steps)
    assert len({str(step) for step in exchanges}) > 50


def test_few_permutations_are_all_given_once():
    orders = {tuple(step.value) for step in drawn(Permutation(), np.zeros((4, 2)), 99)}
    assert orders == set(itertools.permutations(range(4))) - {(0, 1, 2, 3)}
    assert len(drawn(Permutation(), np.zeros((5, 2)), 999)) == 119
    assert len(drawn(Permutation(), np.zeros((6, 2)), 999)) == 999


@pytest.mark.parametrize(
    "offsets", [[0, 2, 2, 5], [0, 4, 5, 30], torch.tensor([0, 3, 40]), np.array([0, 7, 14])], ids=str
)
def test_nodes_stay_within_their_member(offsets):
    num_nodes = int(offsets[-1])
    steps = drawn(Permutation(offsets), np.zeros((num_nodes, 1)), 60)
    assert len(steps) == (11 if num_nodes == 5 else 60)
    for step in steps:
        assert (step.value != np.arange(num_nodes)).any()
        for start, stop in itertools.pairwise(int(bound) for bound in offsets):
            assert sorted(step.value[start:stop]) == list(range(start, stop))


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_rotations_and_reflections_keep_lengths(size):
    points = np.random.default_rng(1).normal(size=(6, size))
    for group, handedness in ((Rotation(), 1.0), (Reflection(), -1.0)):
        for step in drawn(group, points, 20):
            np.testing.assert_allclose(step.value @ step.value.T, np.eye(size), atol=1e-12)
            assert np.linalg.det(step.value) == pytest.approx(handedness)
            lengths = np.linalg.norm(acted(step, points), axis=-1)
            np.testing.assert_allclose(lengths, np.linalg.norm(points, axis=-1), rtol=1e-12)


def test_all_rotations_are_equally_likely():
    matrices = np.stack([step.value for step in drawn(Rotation(), np.zeros((1, 3)), 4000)])
    # For the uniform distribution, E[R] = 0 and E[R_ij²] = 1/3, with standard errors of about 0.009 and 0.005.
    np.testing.assert_allclose(matrices.mean(0), 0, atol=0.05)
    np.testing.assert_allclose((matrices**2).mean(0), 1 / 3, atol=0.03)


def test_a_rotation_is_what_its_words_say():
    for step in drawn(Rotation(), np.zeros((1, 2)), 10):
        angle = math.radians(float(str(step).split()[2]))
        expected = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        np.testing.assert_allclose(step.value, expected, atol=2e-3)
    for step in drawn(Rotation(), np.zeros((1, 3)), 10):
        words = str(step).replace("(", "").replace(")", "").replace(",", "").split()
        angle, axis = math.radians(float(words[2])), np.array([float(word) for word in words[5:]])
        # Rodrigues' formula.
        cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        expected = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
        np.testing.assert_allclose(step.value, expected, atol=1e-2)
    assert str(drawn(Rotation(), np.zeros((1, 5)), 1)[0]) == "rotation in 5 dimensions"


def test_a_reflection_turns_its_normal_around():
    (step,) = drawn(Reflection(), np.zeros((1, 3)), 1)
    assert str(step).startswith("reflection along (")
    values = np.sort(np.linalg.eigvalsh(step.value))
    np.testing.assert_allclose(values, [-1, 1, 1], atol=1e-12)
    assert drawn(Reflection(), np.zeros((1, 1)), 1)[0].value.tolist() == [[-1.0]]


def test_translations_have_the_size_of_the_coordinates():
    for size in (1e-6, 1.0, 1e9):
        points = size * np.array([[1.0, -2.0], [0.5, np.nan]])
        sizes = [np.abs(step.value).mean() for step in drawn(Translation(), points, 200)]
        assert 0.3 * 2 * size < np.mean(sizes) < 3 * 2 * size
    assert np.abs(drawn(Translation(), np.zeros((2, 2)), 1)[0].value).max() > 0.01


def test_scalings_go_from_a_quarter_to_four():
    factors = [step.value for step in drawn(Scaling(), np.ones((2, 2)), 500)]
    assert 0.25 <= min(factors) < 0.3
    assert 3.3 < max(factors) <= 4


def test_shifts_and_turns_are_drawn_from_all_there_are():
    shifts = {step.value for step in drawn(CyclicShift(), np.zeros((3, 4)), 99)}
    assert shifts == set(itertools.product(range(3), range(4))) - {(0, 0)}
    many = drawn(CyclicShift(), np.zeros((30, 40)), 50)
    assert len({step.value for step in many}) > 40
    assert sorted(step.value for step in drawn(QuarterTurn(), np.zeros((3, 4)))) == [1, 2, 3]


def test_sets_are_joined_flat_and_named():
    one, two = Rotation() | Translation(), Permutation() | (Scaling() | Reflection())
    assert one == Together((Rotation(), Translation()))
    assert (one | two).groups == (Rotation(), Translation(), Permutation(), Scaling(), Reflection())
    assert (one | Scaling()).groups == (Rotation(), Translation(), Scaling())
    assert str(one | two) == "rotation, translation, permutation of nodes, scaling, reflection"
    assert str(CyclicShift() | QuarterTurn() | Map("log", np.log)) == "cyclic shift, quarter turn, log"


def test_a_map_acts_on_whatever_is_not_fixed_and_has_the_shape_of_an_input():
    (step,) = drawn(Map("root", np.sqrt), (np.array([4.0, 9.0]), np.ones(3)), inputs_as=(None, FIXED))
    assert acted(step, np.array([4.0, 9.0])).tolist() == [2, 3]
    kept = np.array([4.0, 9.0])
    assert acted(step, kept, FIXED) is kept
    for other in (np.ones(3), np.array([4, 9]), np.float64(4)):
        found, is_touched = Transformation((step,)).act_if_possible(np.asarray(other), None, "output")
        assert not is_touched
        assert found.shape == other.shape


def test_points_of_all_axes():
    # Coordinates first, nodes last, a batch between them.
    points = np.random.default_rng(2).normal(size=(3, 2, 5))
    axes = Axes(nodes=(2,), coordinates=0, is_anchored=True, power=1)
    usual = np.moveaxis(points, 0, -1)
    for group in (Permutation(), Rotation(), Reflection(), Translation(), Scaling()):
        step = drawn(group, points, 1, axes)[0]
        expected = acted(step, usual, POINTS)
        np.testing.assert_allclose(np.moveaxis(acted(step, points, axes), 0, -1), expected, rtol=1e-12)
