"""Convolutions whose aggregation is a choice, and that of the isomorphism test, against two loops."""

import pytest
import torch
from torch import nn

from edgewise import Edges, Mask, MeanConvolution, SettingError
from edgewise.graph import SparseFeatures
from edgewise.layers import IsomorphismConvolution, NeighborConvolution, RelationalConvolution
from edgewise.layers.convolution import spread_evenly
from edgewise.neighborhood import Relations
from graph_cases import GRAPH, NONE, OTHER, SIMPLE, edges_into, normal, packed, ready, shuffled

HOWS = ["mean", "sum", "max"]
MAKERS = {
    **{how: lambda how=how: NeighborConvolution(4, 3, how, activation=torch.tanh) for how in HOWS},
    "isomorphism": lambda: IsomorphismConvolution(4, 3, 5),
    "fixed": lambda: IsomorphismConvolution(4, 3, epsilon=0.25, learn_epsilon=False),
}


def by_loops(layer, x, edges):
    """The papers' formulas, node by node and neighbor by neighbor."""
    rows = []
    for i in range(edges.num_receivers):
        sent = [x[j] for _, j in edges_into(edges, i)]
        if isinstance(layer, IsomorphismConvolution):
            total = (1 + layer.epsilon) * x[i] + sum(sent, torch.zeros_like(x[i]))
            rows.append(layer.second(torch.relu(layer.first.weight @ total + layer.bias)))
            continue
        if layer.aggregation == "max":
            sent = [torch.relu(layer.pool.weight @ one + layer.pool.bias) for one in sent]
        together = torch.zeros(layer.neighbors.in_features, dtype=x.dtype)
        for place in range(len(together)):
            if sent:
                column = [one[place].item() for one in sent]
                together[place] = {"sum": sum(column), "mean": sum(column) / len(sent), "max": max(column)}[
                    layer.aggregation
                ]
        rows.append(torch.tanh(layer.neighbors.weight @ together + layer.itself.weight @ x[i]))
    return torch.stack(rows)


@pytest.fixture(params=MAKERS)
def layer(request):
    return ready(MAKERS[request.param]())


@pytest.mark.parametrize("edges", [GRAPH, OTHER])
def test_against_two_loops(layer, edges):
    x = normal(2, edges.num_receivers, 4)
    out = layer(x, edges)
    assert out.shape == (2, edges.num_receivers, 3)
    for one, found in zip(x, out):
        torch.testing.assert_close(found, by_loops(layer, one, edges))


def test_a_mask_and_its_edges_give_the_same_numbers(layer):
    x = normal(6, 4)
    torch.testing.assert_close(layer(x, Mask(SIMPLE.to_mask())), layer(x, SIMPLE))


def test_permuting_nodes_permutes_outputs(layer):
    x = normal(6, 4)
    edges, order, _ = shuffled(GRAPH)
    torch.testing.assert_close(layer(x[order], edges), layer(x, GRAPH)[order])


def test_two_graphs_together_are_each_alone(layer):
    x, y = normal(6, 4), normal(3, 4)
    together = layer(torch.cat([x, y]), packed(GRAPH, OTHER)[0])
    torch.testing.assert_close(together, torch.cat([layer(x, GRAPH), layer(y, OTHER)]))


def test_without_neighbors_and_without_nodes(layer):
    x = normal(3, 4).requires_grad_()
    out = layer(x, Edges(NONE, NONE, 3, 3))
    torch.testing.assert_close(out, by_loops(layer, x, Edges(NONE, NONE, 3, 3)))
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()
    assert layer(normal(0, 4), Edges(NONE, NONE, 0, 0)).shape == (0, 3)


def test_sparse_features_are_the_same_features(layer):
    x = torch.where(torch.rand(6, 4) < 0.5, normal(6, 4), 0.0)
    places = Edges.from_adjacency(x)
    sparse = SparseFeatures(places, x[places.receivers, places.senders])
    torch.testing.assert_close(layer(sparse, GRAPH), layer(x, GRAPH))


@pytest.mark.parametrize(
    ("make", "num_features"),
    [
        (lambda: NeighborConvolution(4, 3, "max", project=False), 0),
        (lambda: NeighborConvolution(4, 3, "min", project=False), 0),
        (lambda: IsomorphismConvolution(4, 3, network=nn.Linear(4, 3)), 0),
        (lambda: IsomorphismConvolution(4, 3, edge_dim=2), 2),
    ],
    ids=["max", "min", "network", "edges"],
)
def test_sparse_features_where_nothing_linear_goes_before_the_sum(make, num_features):
    """They are a table there; they were refused, though the docstrings take them."""
    test_sparse_features_are_the_same_features(_with_features(ready(make()), num_features))


def _with_features(layer, num_features):
    features = [normal(GRAPH.num_edges, num_features)] if num_features else []
    return lambda x, edges: layer(x, edges, *features)


def test_the_mean_is_the_mean_convolution():
    layer, mean = ready(NeighborConvolution(4, 3)), MeanConvolution(4, 3).double()
    mean.load_state_dict(layer.state_dict())
    x = normal(6, 4)
    assert torch.equal(layer(x, GRAPH), mean(x, GRAPH))


def test_a_sum_by_hand():
    """One matrix is 1, the other 10: a node with neighbors 2 and 3 that is 1 itself becomes 2 + 3 + 10."""
    layer = NeighborConvolution(1, 1, "sum")
    nn.init.constant_(layer.neighbors.weight, 1.0)
    nn.init.constant_(layer.itself.weight, 10.0)
    out = layer(torch.tensor([[1.0], [2.0], [3.0]]), Edges(torch.tensor([1, 2]), torch.tensor([0, 0]), 3, 3))
    assert out.flatten().tolist() == [15.0, 20.0, 30.0]


def test_a_sum_distinguishes_what_mean_and_maximum_confuse():
    """Node 0 has the neighbors {a, b}, node 1 {a, a, b, b}: Xu et al., section 5."""
    edges = Edges(torch.tensor([2, 3, 2, 2, 3, 3]), torch.tensor([0, 0, 1, 1, 1, 1]), 4, 4)
    torch.manual_seed(0)  # of some draws the network of a sum makes nothing but zeros
    x = normal(4, 4)
    x[1] = x[0]
    for name, make in MAKERS.items():
        first, second = ready(make())(x, edges)[:2]
        assert torch.allclose(first, second) == (name in ("mean", "max"))


@pytest.mark.parametrize("how", [*HOWS, "min"])
def test_weights_of_edges_need_not_have_the_dtype_of_nodes(how):
    """Under autocast they mostly do not: a maximum of weighted neighbors refused them."""
    layer, x = ready(NeighborConvolution(4, 3, how)), normal(6, 4)
    weight = normal(GRAPH.num_edges)
    expected = layer(x, GRAPH, weight)
    torch.testing.assert_close(layer.float()(x.float(), GRAPH, weight), expected.float())
    with torch.autocast("cpu", torch.bfloat16):
        for nodes in (x.float(), x.bfloat16()):
            out = layer(nodes, GRAPH, weight.float())
            assert out.dtype == torch.bfloat16
            torch.testing.assert_close(out.double(), expected, atol=0.1, rtol=0.05)
    out.sum().backward()
    assert {parameter.grad.dtype for parameter in layer.parameters()} == {torch.float32}


def test_epsilon_is_learned_or_stays():
    learned, fixed = IsomorphismConvolution(4, 3, epsilon=0.5), MAKERS["fixed"]()
    assert learned.epsilon.item() == 0.5
    learned(torch.randn(6, 4), GRAPH).square().sum().backward()
    assert learned.epsilon.grad is not None
    assert "epsilon" not in dict(fixed.named_parameters())
    assert fixed.state_dict()["epsilon"].item() == 0.25


@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_cannot_be():
    with pytest.raises(
        SettingError, match="NeighborConvolution: aggregation must be 'mean', 'sum', 'max' or 'min', not 'median'"
    ):
        NeighborConvolution(4, 3, "median")
    with pytest.raises(
        SettingError, match="pool_dim is for aggregation='max' and project=True only, not for 'sum'; drop it"
    ):
        NeighborConvolution(4, 3, "sum", pool_dim=7)


def test_a_hub_in_float16():
    """Its degree is beyond float16, its root is not."""
    senders = torch.arange(1, 70_001)
    hub = Edges(senders, torch.zeros_like(senders), 70_001, 70_001)
    nodes = torch.full((70_001, 1), 0.01)
    expected = spread_evenly(nodes, hub)[0]
    torch.testing.assert_close(spread_evenly(nodes.half(), hub)[0].float(), expected, rtol=0.01, atol=0)
    relations = Relations(hub, torch.zeros_like(senders), 1)
    layer = RelationalConvolution(1, 1, 1, activation=torch.nn.Identity())
    expected = layer(nodes, relations)[0]
    torch.testing.assert_close(layer.half()(nodes.half(), relations)[0].float(), expected, rtol=0.02, atol=0)
