"""What `check` says: the course notes' own table, every verdict, models, numbers and sentences."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgewise import Edges, MultiHeadAttention, SymmetricConvolution, attention_weights
from edgewise.explain.symmetry import (
    FIXED,
    INDEX,
    NODES,
    PAIRS,
    POINTS,
    VECTORS,
    Axes,
    CyclicShift,
    GeometricGraph,
    Group,
    Map,
    Permutation,
    QuarterTurn,
    Reflection,
    Rotation,
    Scaling,
    TransformationStep,
    Translation,
    check,
)
from edgewise.explain.verdict import max_unseen_share
from edgewise.graph import Batch, Graph, Supervision
from edgewise.layers import SinusoidalPosition
from edgewise.learn.networks.property import PropertyModel, PropertySettings, PropertySizes

RANDOM = np.random.default_rng(0)
CLOUD = RANDOM.normal(size=(5, 3))
EVERYWHERE = Rotation() | Reflection() | Translation() | Permutation()


def softmax(scores: np.ndarray) -> np.ndarray:
    grown = np.exp(scores - scores.max())
    return grown / grown.sum()


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return np.arccos(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def doubles(*shape: int) -> Tensor:
    return torch.from_numpy(RANDOM.normal(size=shape))


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    torch.manual_seed(0)


# The notes' polls.


def test_argmax_is_invariant_to_softmax():
    for inputs in (RANDOM.normal(size=7), lambda generator: generator.normal(size=7)):
        verdict = check(np.argmax, inputs, Map("softmax", softmax))
        assert (verdict.kind, verdict.equivariance) == ("invariant", None)
    assert (verdict.num_samples, verdict.num_inputs) == (60, 60)
    assert check(lambda x: softmax(2 * x), RANDOM.normal(size=7), Map("softmax", softmax)).kind == "neither"
    assert check(np.sort, RANDOM.normal(size=7), Map("softmax", softmax)).kind == "equivariant"
    assert check(torch.argmax, doubles(7), Map("softmax", lambda x: x.softmax(-1))).kind == "invariant"


def test_the_distance_of_two_points_is_invariant_to_translation_and_the_angle_from_the_origin_is_not():
    points = CLOUD[0], CLOUD[1]
    assert check(lambda one, other: np.linalg.norm(one - other), points, Translation()).kind == "invariant"
    verdict = check(angle, points, Translation())
    assert (verdict.kind, verdict.equivariance) == ("neither", None)
    assert str(verdict.broken_by).startswith("translation by (")
    assert check(angle, points, Rotation() | Reflection() | Scaling()).kind == "invariant"


def test_a_network_on_a_flattened_table_of_nodes_is_not_invariant_to_permutation():
    network = nn.Sequential(nn.Flatten(0), nn.Linear(15, 8), nn.ReLU(), nn.Linear(8, 4)).double()
    verdict = check(network, torch.from_numpy(CLOUD), Permutation())
    assert verdict.kind == "neither"
    assert str(verdict.broken_by).endswith("exchanged")
    pooled = lambda nodes: network[1:](nodes.sum(0).repeat(5))  # noqa: E731
    assert check(pooled, torch.from_numpy(CLOUD), Permutation()).kind == "invariant"


def test_self_attention_without_positions_is_equivariant_to_permutation_and_with_positions_is_not():
    attention, nodes = MultiHeadAttention(4, num_heads=2).double(), doubles(7, 4)
    assert check(attention, nodes, Permutation()).kind == "equivariant"
    assert check(lambda x: attention(x).mean(-2), nodes, Permutation()).kind == "invariant"
    positions = SinusoidalPosition(4).double()
    assert check(lambda x: attention(positions(x)), nodes, Permutation()).kind == "neither"


def test_a_convolution_on_a_grid_is_equivariant_to_translation_and_not_to_rotation():
    image = doubles(1, 2, 5, 5)
    convolution = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular").double()
    shifted = check(convolution, image, CyclicShift())
    assert (shifted.kind, shifted.num_samples, shifted.unseen) == ("equivariant", 24, 0.0)
    turned = check(convolution, image, QuarterTurn())
    assert (turned.kind, turned.num_samples) == ("neither", 3)
    assert str(turned.broken_by) == "turn by 90 degrees"
    both = check(convolution, image, [CyclicShift(), QuarterTurn()])
    assert both.kind == "neither"
    assert str(both.broken_by) == "turn by 90 degrees"
    # A kernel that looks the same from all four sides, and what sees no place at all.
    with torch.no_grad():
        convolution.weight.copy_(sum(convolution.weight.rot90(k, (-2, -1)) for k in range(4)))
    assert check(convolution, image, CyclicShift() | QuarterTurn()).kind == "equivariant"
    assert check(lambda x: convolution(x).mean((-2, -1)), image, CyclicShift() | QuarterTurn()).kind == "invariant"
    # A picture that is not square changes its shape with a quarter turn, and a shift after it goes by the new one.
    assert check(lambda x: x**2, doubles(3, 7), QuarterTurn() | CyclicShift()).kind == "equivariant"
    # Zeros at the border say where the border is.
    assert check(nn.Conv2d(2, 3, 3, padding=1).double(), image, CyclicShift()).kind == "neither"


# Other functions whose symmetries are known.

VERDICTS = [
    ("mean of points", lambda x: x.mean(0), EVERYWHERE, None, "equivariant"),
    (
        "mean of points as a point",
        lambda x: x.mean(0),
        EVERYWHERE,
        Axes(coordinates=-1, is_anchored=True),
        "equivariant",
    ),
    ("centered", lambda x: x - x.mean(0), Rotation() | Permutation(), None, "equivariant"),
    ("centered as vectors", lambda x: x - x.mean(0), EVERYWHERE, VECTORS, "equivariant"),
    ("distances", lambda x: np.linalg.norm(x[:, None] - x, axis=-1), EVERYWHERE, PAIRS, "equivariant"),
    ("distances read as rows", lambda x: np.linalg.norm(x[:, None] - x, axis=-1), Permutation(), None, "neither"),
    ("volume", lambda x: np.linalg.det(x[:3]), Rotation(), None, "invariant"),
    ("volume mirrored", lambda x: np.linalg.det(x[:3]), Reflection(), None, "neither"),
    ("volume scaled", lambda x: np.linalg.det(x[:3]), Scaling(), Axes(power=3), "equivariant"),
    ("volume scaled as a length", lambda x: np.linalg.det(x[:3]), Scaling(), None, "neither"),
    ("length scaled", lambda x: np.linalg.norm(x), Scaling(), None, "equivariant"),
    ("sign", np.sign, Scaling(), None, "invariant"),
    ("sort", lambda x: np.sort(x[:, 0]), Permutation(), None, "invariant"),
    ("ranks", lambda x: np.argsort(np.argsort(x[:, 0])), Permutation(), None, "equivariant"),
    ("who is largest", lambda x: x[:, 0].argmax(), Permutation(), INDEX, "equivariant"),
    ("nothing", np.zeros_like, EVERYWHERE, VECTORS, "both"),
    ("all rows alike", lambda x: 0 * x + x.sum(0), Permutation(), None, "both"),
    ("a constant", lambda x: 3.0, EVERYWHERE, None, "invariant"),
    ("said to be fixed", lambda x: x - x.mean(0), Translation(), FIXED, "invariant"),
    ("an action of one's own", np.exp, Translation(), lambda g, y: y * np.exp(g.steps[0].value), "equivariant"),
    ("several outputs", lambda x: (x, x.sum(), [None]), Permutation(), None, "equivariant"),
    ("by name", lambda x: {"x": x, "n": 5}, EVERYWHERE, {"x": POINTS}, "equivariant"),
    ("one of them is not", lambda x: (x, x[0]), Permutation(), None, "neither"),
    ("nothing but infinity", lambda x: np.full((5, 3), np.inf), Permutation(), None, "both"),
    ("infinity moves", lambda x: np.where(x == x[0], np.inf, x), Permutation(), None, "neither"),
    ("no entries", lambda x: x[:0], Rotation(), None, "both"),
    ("complex", lambda x: np.fft.fft(x, axis=-1), Permutation() | Scaling(), None, "equivariant"),
]


@pytest.mark.parametrize(
    ("f", "group", "output_as", "kind"), [case[1:] for case in VERDICTS], ids=[x[0] for x in VERDICTS]
)
def test_what_is_known(f, group, output_as, kind):
    verdict = check(f, CLOUD, group, output_as=output_as, samples=12)
    assert verdict.kind == kind
    assert (verdict.broken_by is None) == (kind != "neither")


# Graphs.

RING = Edges(torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 2, 3, 4, 0]), 5, 5)


def test_layers_over_edges_are_equivariant_to_permutation():
    nodes = doubles(2, 5, 4)
    convolution, attention = SymmetricConvolution(4, 3).double(), MultiHeadAttention(4, 2, edge_dim=2).double()
    assert check(convolution, (nodes, RING), Permutation()).kind == "equivariant"
    edge = doubles(5, 2)
    run = lambda x, edges, edge: attention(x, neighborhood=edges, edge_features=edge)  # noqa: E731
    inputs_as = (NODES, None, FIXED)
    assert check(run, (nodes, RING, edge), Permutation(), inputs_as=inputs_as).kind == "equivariant"
    # Edges that stay while the nodes change places are another graph.
    verdict = check(run, (nodes, RING, edge), Permutation(), inputs_as=(NODES, FIXED, FIXED))
    assert verdict.kind == "neither"


def test_attention_weights_are_equivariant_as_a_table_of_pairs():
    run = lambda x: attention_weights(x, x).to_dense()  # noqa: E731
    assert check(run, doubles(4, 3), Permutation(), output_as=PAIRS).kind == "equivariant"
    verdict = check(run, doubles(4, 3), Permutation())
    assert verdict.kind == "neither"
    assert "output_as= declares how an output is moved" in str(verdict)


def test_an_edge_index_and_an_adjacency_matrix_follow_the_nodes():
    def spread(x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])

    edge_index = torch.stack([RING.senders, RING.receivers])
    nodes = doubles(5, 4)
    assert check(spread, (nodes, edge_index), Permutation(), inputs_as=(NODES, INDEX)).kind == "equivariant"
    adjacency = RING.to_mask().double()
    multiply = lambda x, a: a @ x  # noqa: E731
    assert check(multiply, (nodes, adjacency), Permutation(), inputs_as=(NODES, PAIRS)).kind == "equivariant"
    assert check(multiply, (nodes, adjacency), Permutation(), inputs_as=NODES).kind == "neither"


def pulled(graph: GeometricGraph) -> GeometricGraph:
    """A step of a network in space: nodes are pulled along edges, by their features and their distance."""
    senders, receivers = graph.edges.senders, graph.edges.receivers
    gap = graph.coordinates[senders] - graph.coordinates[receivers]
    pull = gap * graph.node_features[senders, :1] * graph.edge_features * (gap * gap).sum(-1, keepdim=True)
    moved = graph.coordinates.index_add(0, receivers, pull)
    features = graph.node_features.index_add(0, receivers, (gap * gap).sum(-1, keepdim=True).expand(-1, 2))
    return GeometricGraph(features, graph.edges, moved, graph.edge_features)


def test_a_function_of_a_graph_in_space():
    graph = GeometricGraph(doubles(5, 2), RING, doubles(5, 3), doubles(5, 1))
    verdict = check(pulled, graph, EVERYWHERE, samples=20)
    assert (verdict.kind, verdict.num_samples) == ("equivariant", 100)
    total = lambda g: pulled(g).node_features.sum(0)  # noqa: E731
    assert check(total, graph, EVERYWHERE, output_as=FIXED, samples=20).kind == "invariant"
    assert check(pulled, graph, Scaling(), samples=20).kind == "neither"
    assert check(lambda g: g.edges, graph, Permutation(), samples=20).kind == "equivariant"
    assert check(lambda g: g.edges.degrees(), graph, Permutation(), samples=20).kind == "both"


def test_forces_turn_with_the_atoms():
    def forces(places: Tensor) -> Tensor:
        energy = torch.pdist(places).reciprocal().sum()
        return -torch.autograd.grad(energy, places)[0]

    assert check(forces, doubles(4, 3).requires_grad_(), EVERYWHERE, output_as=VECTORS).kind == "equivariant"


def test_a_model_of_molecules_is_invariant_to_the_order_of_atoms():
    offsets = torch.tensor([0, 4, 7])
    pairs = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 0, 5, 6]])
    edges = Edges(pairs[0], pairs[1], 7, 7).undirected()
    edge_features, graph_features = doubles(12, 4), doubles(2, 6)
    rows = Supervision(graph_of_row=torch.tensor([[0, 1], [1, 0]]), row_features=doubles(2, 2))
    settings = PropertySettings(model_dim=8, num_heads=2, num_layers=2, head_dim=8, num_variants=3)
    model = PropertyModel(PropertySizes(5, 4, 6, 2, 2, 1), settings).double().eval()

    def predict(node_features, edges):  # unchecked: a permutation may move atoms from molecule to molecule
        parts = {"graph_features": graph_features, "offsets": offsets}
        return model(Batch(Graph.unchecked(node_features, edges, edge_features, **parts), rows))

    inputs, inputs_as = (doubles(7, 5), edges), (NODES, None)
    assert check(predict, inputs, Permutation(offsets), inputs_as=inputs_as, samples=20).kind == "invariant"
    assert check(predict, inputs, Permutation(), inputs_as=inputs_as, samples=20).kind == "neither"


class SignFlip(Group):
    """A set of one's own: one feature of all nodes changes its sign."""

    def draws(self, generator, inputs):
        num_features = inputs[0].value.shape[-1]
        yield from (SignFlipped(int(place)) for place in generator.permutation(num_features))

    def __str__(self):
        return "sign of a feature"


@dataclass(frozen=True)
class SignFlipped(TransformationStep):
    place: int

    def concerns(self, axes):
        return bool(axes.nodes)

    def refusal(self, array, axes):
        return None if array.ndim == 2 else "is no table"

    def act(self, array, axes):
        return array * np.where(np.arange(array.shape[1]) == self.place, -1, 1)

    def __str__(self):
        return f"feature {self.place} negated"


def test_a_set_of_ones_own():
    assert check(lambda x: x**3, CLOUD, SignFlip() | Permutation()).kind == "equivariant"
    assert check(lambda x: (x**2).sum(), CLOUD, SignFlip()).kind == "invariant"
    verdict = check(lambda x: x * [1, 1, 1] + [0, 0, 1], CLOUD, SignFlip())
    assert (verdict.kind, verdict.num_samples, str(verdict.broken_by)) == ("neither", 3, "feature 2 negated")


# Numbers and sentences.


def test_by_hand():
    verdict = check(lambda x: x[0, 0], np.array([[3.0], [4.0]]), Permutation())
    assert verdict.kind == "neither"
    assert (verdict.invariance.deviation, verdict.equivariance) == (0.25, None)
    assert (verdict.num_samples, verdict.num_inputs, verdict.unseen, verdict.output_size) == (1, 1, 0.0, 4.0)
    assert str(verdict) == (
        "neither invariant nor equivariant to permutation of nodes: invariance is broken by nodes 0 and 1 exchanged, "
        "and the transformations act on no output; deviation 0.25 of the output's size (4); tolerance 1.49e-08."
    )
    assert check(lambda x: x[0, 0], np.array([[4.0], [3.0]]), Permutation()).invariance.deviation == 0.25
    assert check(lambda x: x[0, 0], np.array([[4], [3]]), Permutation()).invariance.deviation == 1.0
    large = check(lambda x: x > 3, np.array([[4], [3]]), Permutation())
    assert (large.kind, large.invariance.deviation, large.equivariance.deviation) == ("equivariant", 1.0, 0.0)
    verdict = check(lambda x: x[::-1] * [[1.0], [2.0]], np.array([[3.0], [4.0]]), Permutation())
    # f is (4, 6), after the exchange (3, 8); the exchange of (4, 6) is (6, 4).
    assert (verdict.invariance.deviation, verdict.equivariance.deviation) == (2 / 8, 4 / 8)
    assert str(verdict) == (
        "neither invariant nor equivariant to permutation of nodes: broken by nodes 0 and 1 exchanged; output_as= "
        "declares how an output is moved, if not as by default; deviation 0.25 and 0.5 of the output's size (8); "
        "tolerance 1.49e-08."
    )


def test_the_sentences():
    said = {
        str(check(lambda x: x.sum(0), CLOUD[:3], Permutation(), tolerance=1e-9, output_as=FIXED)),
        str(check(lambda x: 0 * x, CLOUD, Rotation(), output_as=VECTORS)),
        str(check(lambda x: x.argmax(0), CLOUD, Scaling(), samples=10)),
        str(check(np.argmax, CLOUD[0], Map("softmax", softmax))),
    }
    for start, end in (
        ("invariant to permutation of nodes: held for all 5 there are, on one input; deviation ", "tolerance 1e-09."),
        (
            "both invariant and equivariant to rotation: held in 60 samples on one input, so that with 95% confidence "
            "fewer than 4.87% of such samples break it; the output does not change under the transformations; "
            "deviation 0; ",
            "tolerance 1.49e-08.",
        ),
        (
            "invariant to scaling: held in 10 samples on one input, so that with 95% confidence fewer than 25.9% of "
            "such samples break it; deviation 0; ",
            "tolerance 1.49e-08.",
        ),
        ("invariant to softmax: held for the only one there is, on one input; deviation 0; ", "tolerance 1.49e-08."),
    ):
        assert any(sentence.startswith(start) and sentence.endswith(end) for sentence in said), said


def test_what_breaks_is_said_in_the_fewest_words_and_can_be_done_again():
    f = lambda x: x[0] + 2 * x[1]  # noqa: E731
    nodes = RANDOM.normal(size=(40, 2))
    verdict = check(f, nodes, Permutation() | Scaling(), output_as=FIXED)
    assert len(verdict.broken_by.steps) == 1
    moved = verdict.broken_by.act(nodes)
    assert np.abs(f(moved) - f(nodes)).max() > 0.01
    two = check(f, nodes, Permutation())
    assert str(two.broken_by).endswith("exchanged")


def test_a_law_may_be_broken_by_one_set_and_the_other_law_by_another():
    verdict = check(lambda x: x, CLOUD, Permutation() | Translation(), output_as=NODES, samples=5)
    assert verdict.kind == "neither"
    assert str(verdict.invariance.broken_by).startswith(("nodes ", "translation by"))
    assert str(verdict.equivariance.broken_by).startswith("translation by")


def test_the_part_that_was_not_seen():
    for number in (1, 10, 60):
        assert (1 - max_unseen_share(number)) ** number == pytest.approx(0.05)
    assert check(np.sum, CLOUD, Rotation(), samples=7).unseen == max_unseen_share(7)
    # Five nodes have 119 orders beside their own: with as many samples all are tried, each once.
    assert check(np.sum, CLOUD, Permutation(), samples=118).unseen == max_unseen_share(118)
    everything = check(np.sum, CLOUD, Permutation(), samples=200)
    assert (everything.unseen, everything.num_samples) == (0.0, 119)
    # Of several sets, the least certain one counts: composing them one after the other would not end.
    image = np.arange(9.0).reshape(3, 3)
    assert check(np.sum, image, CyclicShift() | QuarterTurn()).unseen == max_unseen_share(60)
    assert check(np.sum, image, CyclicShift() | QuarterTurn(), samples=2).unseen == max_unseen_share(2)
    # Drawn inputs are never all there are.
    drawn = check(np.sum, lambda generator: generator.normal(size=(2, 2)), Permutation(), samples=9)
    assert (drawn.num_samples, drawn.unseen) == (9, max_unseen_share(9))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 2**-26), (torch.float32, 2**-11.5), (torch.bfloat16, 2**-3.5)], ids=str
)
def test_the_tolerance_follows_the_coarsest_dtype(dtype, tolerance):
    x = torch.from_numpy(CLOUD).to(dtype)
    verdict = check(lambda x: (x.double() - x.double().mean(0)).norm(), x, Translation())
    assert verdict.tolerance == pytest.approx(tolerance)
    assert verdict.kind == "invariant"
    assert check(lambda x: x.float(), CLOUD_TENSOR, Permutation()).tolerance == pytest.approx(2**-11.5)
    half = check(lambda x: x, CLOUD.astype(np.float16), Permutation())
    assert half.tolerance == pytest.approx(2**-5)
    assert check(lambda x: x.sum(), np.arange(4), Permutation()).tolerance == pytest.approx(2**-26)


CLOUD_TENSOR = torch.from_numpy(CLOUD)


def test_an_output_that_is_zero_but_for_rounding_needs_a_min_size():
    f = lambda x: (x - x.mean(0)).sum(0)  # noqa: E731
    assert check(f, CLOUD, Translation(), output_as=FIXED).kind == "neither"
    assert check(f, CLOUD, Translation(), output_as=FIXED, min_size=1.0).kind == "invariant"


def test_the_same_seed_gives_the_same_verdict():
    one, same, other = (str(check(angle, (CLOUD[0], CLOUD[1]), Translation(), seed=seed)) for seed in (3, 3, 4))
    assert one == same != other


def test_what_does_not_move_the_inputs_is_no_sample():
    twins = np.array([[1.0], [1.0], [2.0]])
    # One of five permutations leaves the rows as they are.
    assert check(np.sum, twins, Permutation()).num_samples == 4
    drawn = check(np.sum, lambda random: random.choice([1.0, 2.0], size=(2, 1)), Permutation(), samples=30)
    assert 5 < drawn.num_samples < 25
    assert (drawn.num_inputs, drawn.unseen) == (drawn.num_samples, max_unseen_share(drawn.num_samples))


def test_a_function_may_write_into_its_arguments():
    def greedy(x: Any) -> Any:
        x -= x.mean(0)
        return x * x

    kept = CLOUD.copy()
    assert check(greedy, kept, Translation(), output_as=FIXED).kind == "invariant"
    assert (kept == CLOUD).all()
    assert check(greedy, torch.from_numpy(kept), Translation(), output_as=FIXED).kind == "invariant"
    assert (kept == CLOUD).all()


class Pair(NamedTuple):
    one: np.ndarray
    other: np.ndarray


@dataclass
class Room:
    places: np.ndarray
    names: str
    kinds: dict[str, np.ndarray]


def test_inputs_and_outputs_of_every_build():
    pair = check(lambda pair: Pair(pair.other, pair.one), Pair(CLOUD, CLOUD + 1), EVERYWHERE, samples=5)
    assert pair.kind == "equivariant"
    room = Room(CLOUD, "five", {"charge": RANDOM.normal(size=(5, 1)), "unit": np.ones(1)})
    inputs_as = {"places": POINTS, "kinds": {"charge": NODES}}
    dipole = lambda room: (room.places * room.kinds["charge"]).sum(0)  # noqa: E731
    assert check(
        dipole, room, Rotation() | Permutation(), inputs_as=inputs_as, output_as=Axes(coordinates=-1)
    ).kind == ("equivariant")
    assert check(lambda x, power: (x**power).sum(), (CLOUD, 2), Rotation()).kind == "invariant"
    assert check(lambda x: x.norm(), doubles(6).abs(), Permutation() | CyclicShift()).kind == "invariant"
    assert math.isinf(check(lambda x: x[x[:, 0] > 0], CLOUD, Rotation(), samples=9).invariance.deviation)
