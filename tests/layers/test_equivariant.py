"""The equivariant layer: against two loops, under rotations, reflections, shifts and shuffles, with its gradients."""

import pytest
import torch
from torch import nn

from edgewise import Edges, Mask, SettingError, ShapeError, Sigmoid, Softmax, Trace
from edgewise.layers import EquivariantLayer, MoleculeAttention, PairForce
from graph_cases import GRAPH, NONE, OTHER, SIMPLE, edges_into, normal, packed, ready, shuffled

KINDS = {
    "plain": {},
    "sum": {"aggregation": "sum"},
    "bounded": {"has_bounded_steps": True},
    "gate": {"normalize": Sigmoid()},
    "attention": {"normalize": Softmax()},
    "moving": {"has_velocities": True, "normalize": Softmax(), "aggregation": "sum", "has_bounded_steps": True},
}


@pytest.fixture(params=KINDS)
def layer(request):
    return ready(EquivariantLayer(4, 5, edge_dim=2, **KINDS[request.param]))


def inputs(layer, edges):
    """h, x and, by keyword, v and e."""
    num_nodes = edges.num_receivers
    velocities = normal(num_nodes, 3) if layer.has_velocities else None
    return normal(num_nodes, 4), normal(num_nodes, 3), velocities, normal(edges.num_edges, 2)


def run(layer, h, x, v, e, edges, trace=None):
    """Everything the layer gives, side by side."""
    return layer(h, x, edges, e, velocities=v, trace=trace)


def network(perceptron, *parts):
    """W₂ silu(W₁ [parts] + c₁) + c₂ of one row."""
    hidden = nn.functional.silu(perceptron.first.weight @ torch.cat(parts) + perceptron.first.bias)
    return perceptron.second.weight @ hidden + perceptron.second.bias


def by_loops(layer, h, x, v, e, edges):
    """Satorras et al., eqs. 3 to 8, node by node and edge by edge."""
    nodes, places, speeds = [], [], []
    for i in range(edges.num_receivers):
        messages, total = [], torch.zeros_like(x[i])
        for k, j in edges_into(edges, i):
            gap = x[i] - x[j]
            m = nn.functional.silu(network(layer.message, h[i], h[j], (gap @ gap)[None], e[k]))
            if layer.has_bounded_steps:
                gap = gap / (gap.norm() + 1)
            total = total + gap * (layer.step[2].weight[0] @ nn.functional.silu(layer.step[0](m)))
            messages.append(m)
        if layer.aggregation == "mean" and messages:
            total = total / len(messages)
        if v is not None:
            total = total + network(layer.momentum, h[i]) * v[i]
            speeds.append(total)
        scores = [layer.score(m)[0] for m in messages] if layer.normalize is not None else []
        if layer.normalize is None:
            weights = [1.0] * len(messages)
        elif isinstance(layer.normalize(), Sigmoid):
            weights = [1 / (1 + torch.exp(-s)) for s in scores]
        else:
            weights = [torch.exp(s) / sum(torch.exp(t) for t in scores) for s in scores]
        together = sum((w * m for w, m in zip(weights, messages)), torch.zeros(5, dtype=h.dtype))
        nodes.append(h[i] + network(layer.node, h[i], together))
        places.append(x[i] + total)
    return torch.stack(nodes), torch.stack(places), torch.stack(speeds) if speeds else None


def assert_same(found, expected, tolerance=1e-10):
    for one, other in zip(found, expected):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("edges", [GRAPH, OTHER])
def test_against_two_loops(layer, edges):
    h, x, v, e = inputs(layer, edges)
    assert_same(run(layer, h, x, v, e, edges), by_loops(layer, h, x, v, e, edges))


@pytest.mark.parametrize("mirrors", [False, True])
def test_what_is_turned_shifted_or_mirrored_stays_so(layer, mirrors):
    h, x, v, e = inputs(layer, GRAPH)
    turn, _ = torch.linalg.qr(normal(3, 3))
    if (torch.det(turn) < 0) != mirrors:
        turn[:, 0] = -turn[:, 0]
    shift = 10 * normal(3)
    nodes, places, speeds = run(layer, h, x, v, e, GRAPH)
    assert (places - x).abs().max() > 0.01
    found = run(layer, h, x @ turn.T + shift, None if v is None else v @ turn.T, e, GRAPH)
    assert_same(found, (nodes, places @ turn.T + shift, None if v is None else speeds @ turn.T))


@pytest.mark.parametrize("space_dim", [1, 2, 5])
def test_any_number_of_dimensions(space_dim):
    layer = ready(EquivariantLayer(4))
    h, x = normal(6, 4), normal(6, space_dim)
    turn, _ = torch.linalg.qr(normal(space_dim, space_dim))
    nodes, places, _ = layer(h, x, GRAPH)
    assert_same(layer(h, x @ turn.T, GRAPH), (nodes, places @ turn.T, None))


def test_permuting_nodes_permutes_everything(layer):
    h, x, v, e = inputs(layer, GRAPH)
    edges, order, edge_order = shuffled(GRAPH)
    found = run(layer, h[order], x[order], None if v is None else v[order], e[edge_order], edges)
    assert_same(found, [None if part is None else part[order] for part in run(layer, h, x, v, e, GRAPH)])


def test_two_graphs_together_are_each_alone(layer):
    one, other = inputs(layer, GRAPH), inputs(layer, OTHER)
    both = [None if a is None else torch.cat([a, b]) for a, b in zip(one, other)]
    apart = zip(run(layer, *one, GRAPH), run(layer, *other, OTHER))
    together = [None if a is None else torch.cat([a, b]) for a, b in apart]
    assert_same(run(layer, *both, packed(GRAPH, OTHER)[0]), together)


def test_a_batch_of_motions_over_one_graph(layer):
    h, x, v, e = inputs(layer, GRAPH)
    xs, vs = torch.stack([x, 2 * x]), None if v is None else torch.stack([v, -v])
    found = run(layer, h, xs, vs, e, GRAPH)
    for member in range(2):
        alone = run(layer, h, xs[member], None if v is None else vs[member], e, GRAPH)
        assert_same([None if part is None else part[member] for part in found], alone)


def test_a_mask_and_its_edges_give_the_same_numbers():
    for kind in ({}, {"normalize": Softmax()}):
        layer, h, x = ready(EquivariantLayer(4, **kind)), normal(6, 4), normal(6, 3)
        assert_same(layer(h, x, Mask(SIMPLE.to_mask())), layer(h, x, SIMPLE))


def test_a_node_without_neighbors_stays_or_keeps_its_velocity(layer):
    h, x, v, e = inputs(layer, GRAPH)
    nodes, places, _ = run(layer, h, x, v, e, GRAPH)
    alone = [3, 4, 5]  # 4 has only a loop, which does not move it
    onward = 0 if v is None else torch.stack([network(layer.momentum, h[i]) * v[i] for i in alone])
    torch.testing.assert_close(places[alone], x[alone] + onward)
    empty = Edges(NONE, NONE, 6, 6)
    parts = [h.requires_grad_(), x.requires_grad_()]
    out = run(layer, h, x, v, e[:0], empty)
    torch.testing.assert_close(out.nodes[[3, 5]], nodes[[3, 5]])
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.nodes.sum() + out.coordinates.sum(), parts))


def test_nodes_at_one_place_have_finite_gradients(layer):
    h, x, v, e = inputs(layer, GRAPH)
    x[2] = x[1]
    x.requires_grad_()
    out = run(layer, h, x, v, e, GRAPH)
    assert torch.autograd.grad(out.nodes.sum() + out.coordinates.sum(), x)[0].isfinite().all()


def test_gradients(layer):
    edges = Edges(torch.tensor([1, 2, 0, 0]), torch.tensor([0, 0, 1, 1]), 3, 3)
    h, x, v, e = inputs(layer, edges)
    leaves = [part.requires_grad_() for part in (h, x, v, e) if part is not None]

    def outputs(*parts):
        h, x, *others = parts
        found = run(layer, h, x, others[0] if layer.has_velocities else None, others[-1], edges)
        return tuple(part for part in found if part is not None)

    assert torch.autograd.gradcheck(outputs, leaves)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_on_forces_has_gradients(kind):
    """Forces are the gradient of an energy: the loss on them differentiates the layer twice."""
    layer = ready(EquivariantLayer(4, 5, edge_dim=2, **KINDS[kind]))
    h, x, v, e = inputs(layer, GRAPH)
    x[2] = x[1]  # nodes at one place
    x.requires_grad_()

    def forces():
        energy = run(layer, h, x, v, e, GRAPH).nodes.square().sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0]

    weight = layer.message.first.weight
    (gradient,) = torch.autograd.grad(forces().square().sum(), weight)
    assert gradient.isfinite().all()
    with torch.no_grad():
        losses = []
        for nudge in (1e-5, -2e-5):
            weight[1, 2] += nudge
            with torch.enable_grad():
                losses.append(forces().square().sum().item())
    assert gradient[1, 2].item() == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_two_nodes_by_hand():
    """Where φ_x gives 1, and C is the mean, each moves by the mean of what lies between it and its neighbors."""
    layer = EquivariantLayer(1).double()
    nn.init.zeros_(layer.step[0].weight)
    nn.init.ones_(layer.step[0].bias)
    nn.init.constant_(layer.step[2].weight, 1 / nn.functional.silu(torch.tensor(1.0)).item())
    edges = Edges(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), 3, 3)
    x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    found = layer(normal(3, 1), x, edges).coordinates
    expected = torch.tensor([[-1.0, -2.0], [4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_the_trace_holds_the_weights_of_the_messages():
    layer, trace = ready(EquivariantLayer(4, edge_dim=2, normalize=Softmax())), Trace()
    run(layer, *inputs(layer, GRAPH), GRAPH, trace)
    rows = trace.weights[0].to_dense().sum(-1)
    torch.testing.assert_close(rows, torch.tensor([[1.0, 1, 1, 0, 1, 0]], dtype=torch.float64))
    run(ready(EquivariantLayer(4, edge_dim=2)), *inputs(layer, GRAPH), GRAPH, trace)
    assert len(trace.weights) == 1


@pytest.mark.usefixtures("shapes_unchecked")
def test_what_does_not_fit():
    h, x = torch.randn(6, 4), torch.randn(6, 3)
    with pytest.raises(SettingError, match="EquivariantLayer: aggregation must be 'mean' or 'sum', not 'max'"):
        EquivariantLayer(4, aggregation="max")
    with pytest.raises(ShapeError, match="EquivariantLayer: expected velocities none; see has_velocities"):
        EquivariantLayer(4)(h, x, GRAPH, velocities=x)
    with pytest.raises(ShapeError, match=r"expected velocities \(\*batch, node, space_dim\)"):
        EquivariantLayer(4, has_velocities=True)(h, x, GRAPH)
    with pytest.raises(ShapeError, match=r"expected edge features \(\*batch, 8, 2\), not none; see edge_dim"):
        EquivariantLayer(4, edge_dim=2)(h, x, GRAPH)
    with pytest.raises(ShapeError, match=r"expected edge features \(\*batch, 8, 0\), not \(8, 2\)"):
        EquivariantLayer(4)(h, x, GRAPH, edge_features=torch.randn(8, 2))
    with pytest.raises(ShapeError, match="edge features need Edges; to_edges"):
        EquivariantLayer(4, edge_dim=2)(h, x, Mask(SIMPLE.to_mask()), edge_features=torch.randn(7, 2))


PAIR = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 5, 5)


def drawn(*shape):
    return normal(*shape).float()


@pytest.mark.parametrize(
    ("coordinates", "velocities", "message"),
    [
        (drawn(5, 3), drawn(1, 3), "axis 'node' is 5 in nodes but 1 in velocities"),
        (drawn(5, 3), drawn(5, 1), "axis 'space' is 3 in other coordinates but 1 in velocities"),
        (drawn(5, 3), drawn(3), r"velocities must have the axes \(…, node, feature\)"),
        (drawn(5, 3), torch.ones(5, 3, dtype=torch.int64), "velocities must be floating point"),
        (drawn(2, 5, 3), drawn(3, 5, 3), "nodes and velocities: axis 'batch -1' is 2 in one part but 3 in another"),
        (drawn(3, 5, 3), drawn(5, 3), "nodes and coordinates: axis 'batch -1' is 2 in one part but 3 in another"),
        (normal(5, 3), drawn(5, 3), "coordinates are torch.float64, but the layer's weights torch.float32"),
    ],
)
def test_velocities_and_coordinates_that_would_be_broadcast(coordinates, velocities, message, shapes_unchecked):
    layer = EquivariantLayer(4, has_velocities=True)
    with pytest.raises(ShapeError, match=message):
        layer(drawn(2, 5, 4), coordinates, PAIR, velocities=velocities)


def test_sources_and_targets_are_in_one_space(shapes_unchecked):
    nodes, places = drawn(5, 4), (drawn(5, 3), drawn(5, 1))
    for move in (
        lambda: EquivariantLayer(4)((nodes, nodes), places, PAIR),
        lambda: MoleculeAttention(4, 2)((nodes, nodes), places, PAIR),
        lambda: PairForce(4)(places, PAIR, torch.ones(2)),
    ):
        with pytest.raises(ShapeError, match="axis 'space' is 3 in other coordinates but 1 in coordinates"):
            move()


def test_forces_of_other_precision_or_batches(shapes_unchecked):
    force = PairForce(4)
    with pytest.raises(
        ShapeError, match=r"PairForce: coordinates are torch.float64, but the layer's weights torch.float32"
    ):
        force(normal(5, 3), PAIR, torch.ones(2))
    with pytest.raises(ShapeError, match="PairForce: axis 'batch -1' is 2 in one part but 3 in another"):
        force(drawn(2, 5, 3), PAIR, torch.ones(3, 2))
