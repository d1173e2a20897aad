"""Gated attention on graphs and its recurrent unit: against two loops, on masks, shuffled, packed, alone."""

import pytest
import torch
from torch import nn

from edgewise import Edges, Mask, SettingError, ShapeError, Trace
from edgewise.layers import GatedGraphAttention, GraphGRU
from graph_cases import GRAPH, NONE, OTHER, SIMPLE, edges_into, normal, packed, ready, shuffled


def attention():
    return ready(GatedGraphAttention(4, 7, 2, key_dim=3, value_dim=5, pool_dim=6))


def unit():
    return ready(GraphGRU(4, 3, 2, key_dim=3, value_dim=5, pool_dim=6))


def test_a_replica_has_no_list_of_parameters(monkeypatch):
    """As those of torch.nn.DataParallel, whose weights are attributes."""
    nodes, layer = torch.randn(5, 4, dtype=torch.float64), unit()
    edges = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 5, 5)
    out = layer(nodes, edges)
    for module in layer.modules():
        monkeypatch.setattr(module, "parameters", lambda: iter(()))
    assert torch.equal(layer(nodes, edges), out)


def attended(layer, x, z, edges):
    """Zhang et al., eqs. 3 to 6, node by node."""
    rows = []
    for i in range(edges.num_receivers):
        around = [z[j] for _, j in edges_into(edges, i)]
        largest = torch.zeros(layer.pool.out_features, dtype=x.dtype)
        mean = torch.zeros_like(z[0])
        if around:
            largest, mean = torch.stack([layer.pool(row) for row in around]).amax(0), sum(around) / len(around)
        gates = 1 / (1 + torch.exp(-layer.gate(torch.cat([x[i], largest, mean]))))
        parts = [x[i]]
        for h in range(layer.num_heads):
            keys, values = slice(3 * h, 3 * h + 3), slice(5 * h, 5 * h + 5)
            grown = [torch.exp(layer.query(x[i])[keys] @ layer.key(row)[keys]) for row in around]
            total = torch.zeros(5, dtype=x.dtype)
            for weight, row in zip(grown, around):
                value = layer.value(row)[values]
                total = total + weight / sum(grown) * torch.where(value > 0, value, 0.1 * value)
            parts.append(gates[h] * total)
        rows.append(layer.output(torch.cat(parts)))
    return torch.stack(rows)


def stepped(layer, x, h, edges):
    """Zhang et al., eq. 8."""
    both = torch.cat([x, h], -1)
    now = [attended(part, x, x, edges) for part in layer.from_input]
    before = [attended(part, both, h, edges) for part in layer.from_state]
    u, r = torch.sigmoid(now[0] + before[0]), torch.sigmoid(now[1] + before[1])
    return (1 - u) * torch.tanh(now[2] + r * before[2]) + u * h


@pytest.mark.parametrize("edges", [GRAPH, OTHER, Edges(NONE, NONE, 3, 3)])
def test_attention_against_two_loops(edges):
    layer = attention()
    x = normal(2, edges.num_receivers, 4)
    for one, found in zip(x, layer(x, edges)):
        torch.testing.assert_close(found, attended(layer, one, one, edges))


def test_attention_to_another_set_of_nodes():
    layer = ready(GatedGraphAttention(4, 7, 2, source_dim=2, key_dim=3, value_dim=5))
    edges = Edges(torch.tensor([0, 2, 1, 0]), torch.tensor([0, 0, 3, 3]), 3, 4)
    x, z = normal(4, 4), normal(3, 2)
    torch.testing.assert_close(layer(x, edges, source=z), attended(layer, x, z, edges))


@pytest.mark.parametrize("edges", [GRAPH, OTHER, Edges(NONE, NONE, 3, 3)])
def test_the_unit_against_two_loops_over_three_steps(edges):
    layer, state = unit(), None
    expected = torch.zeros(edges.num_receivers, 3, dtype=torch.float64)
    for x in normal(3, edges.num_receivers, 4):
        state, expected = layer(x, edges, state), stepped(layer, x, expected, edges)
        torch.testing.assert_close(state, expected)


def test_a_unit_that_keeps_and_one_that_forgets_by_hand():
    """With u = 1 the state stays, with u = 0 it is what the input says: tanh of a bias here."""
    layer = unit()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    nn.init.constant_(layer.from_input[2].output.bias, 0.5)
    x, state = normal(6, 4), normal(6, 3)
    for bias, expected in ((100.0, state), (-100.0, torch.full_like(state, 0.5).tanh())):
        nn.init.constant_(layer.from_input[0].output.bias, bias)
        torch.testing.assert_close(layer(x, GRAPH, state), expected)


@pytest.mark.parametrize("make", [attention, unit])
def test_a_mask_and_its_edges_give_the_same_numbers(make):
    layer, x = make(), normal(2, 6, 4)
    expected = layer(x, SIMPLE)
    torch.testing.assert_close(layer(x, Mask(SIMPLE.to_mask())), expected)
    torch.testing.assert_close(layer(x, Mask(SIMPLE.to_mask().expand(2, 6, 6))), expected)


@pytest.mark.parametrize("make", [attention, unit])
def test_permuting_nodes_permutes_outputs(make):
    layer, x = make(), normal(6, 4)
    edges, order, _ = shuffled(GRAPH)
    torch.testing.assert_close(layer(x[order], edges), layer(x, GRAPH)[order])


@pytest.mark.parametrize("make", [attention, unit])
def test_two_graphs_together_are_each_alone(make):
    layer, x, y = make(), normal(6, 4), normal(3, 4)
    together = layer(torch.cat([x, y]), packed(GRAPH, OTHER)[0])
    torch.testing.assert_close(together, torch.cat([layer(x, GRAPH), layer(y, OTHER)]))


@pytest.mark.parametrize("make", [attention, unit])
def test_without_neighbors_and_without_nodes(make):
    layer, x = make(), normal(3, 4).requires_grad_()
    out = layer(x, Edges(NONE, NONE, 3, 3))
    gradients = torch.autograd.grad(out.sum(), [x, *layer.parameters()], allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in gradients)
    assert layer(normal(0, 4), Edges(NONE, NONE, 0, 0)).shape[0] == 0


def test_gradients_through_two_steps():
    layer = unit()
    edges = Edges(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), 3, 3)
    x, y, state = (normal(3, size).requires_grad_() for size in (4, 4, 3))
    assert torch.autograd.gradcheck(lambda x, y, state: layer(y, edges, layer(x, edges, state)), [x, y, state])


def test_the_trace_holds_the_weights():
    trace, x = Trace(), normal(6, 4)
    unit()(x, GRAPH, trace=trace)
    assert [tuple(weights.values.shape) for weights in trace.weights] == [(2, 8)] * 6
    rows = trace.weights[0].to_dense().sum(-1)
    torch.testing.assert_close(rows, torch.tensor([1.0, 1, 1, 0, 1, 0], dtype=torch.float64).expand(2, 6))


def test_sizes_follow_from_those_that_are_given():
    layer = GatedGraphAttention(12, num_heads=3)
    assert layer(torch.randn(6, 12), GRAPH).shape == (6, 12)
    assert layer.value.out_features == layer.query.out_features == 12
    assert GraphGRU(1, 4)(torch.randn(6, 1), GRAPH).shape == (6, 4)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (normal(1, 3), r"GraphGRU: the state is that of nodes \(1,\), but these are \(5,\)"),
        (normal(2, 5, 3), r"the state is that of nodes \(2, 5\), but these are \(5,\)"),
        (normal(5, 1), "GraphGRU: axis 'feature' is 1 in state, but the layer was made for 3"),
        (normal(5, 3).float(), r"GraphGRU: state are torch.float32, but the layer's weights torch.float64"),
        (normal(3), r"GraphGRU: state must have the axes"),
        ("none", r"GraphGRU: state must be a tensor"),
    ],
)
def test_states_of_other_nodes_or_sizes(state, message, shapes_unchecked):
    edges = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 5, 5)
    with pytest.raises(ShapeError, match=message):
        unit()(normal(5, 4), edges, state)


def test_what_is_attended_to_is_given_once(shapes_unchecked):
    edges, nodes = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 5, 5), normal(5, 4)
    with pytest.raises(SettingError, match=r"got a pair \(source, target\) and source"):
        attention()((nodes, nodes), edges, source=nodes)
    with pytest.raises(ShapeError, match="nodes are a tuple of 3, expected"):
        attention()((nodes, nodes, nodes), edges)
