"""Attention over edges as its papers have it, judged by two loops; features that are mostly zero; hops."""

import math

import pytest
import torch

from edgewise import Edges, Mask, SettingError, Trace, attend
from edgewise.graph import SparseFeatures
from edgewise.layers.convolution import MeanConvolution, SymmetricConvolution
from edgewise.layers.feature import FeatureDropout, FeatureLinear
from edgewise.layers.graph_attention import GraphAttention, HopAttention
from edgewise.normalize import Softmax
from edgewise.score import GAT

EDGES = Edges(torch.tensor([0, 2, 3, 1, 0, 4, 4]), torch.tensor([1, 1, 1, 0, 2, 2, 4]), 5, 5)


def leaky(x):
    return x if x > 0 else 0.2 * x


def by_loops(layer, nodes):
    """Eqs. 3 to 6 of the paper (eq. 7 of the second one), one node and one head after the other."""
    pairs = list(zip(EDGES.receivers.tolist(), EDGES.senders.tolist(), strict=True))
    columns = layer.linear.weight.detach() @ nodes.T
    sides = [part.T.unflatten(-1, (layer.num_heads, -1)) for part in columns.chunk(1 if layer.score == "gat" else 2)]
    query, key = sides[0], sides[-1]
    rows = []
    for i in range(len(nodes)):
        heads = []
        for h in range(layer.num_heads):
            near = [j for receiver, j in pairs if receiver == i]
            if layer.score == "gat":
                a, b = layer.vector[h].detach(), layer.key_vector[h].detach()
                scores = [leaky(float(a @ query[i, h] + b @ key[j, h])) for j in near]
            else:
                a = layer.vector[h].detach()
                scores = [sum(float(w) * leaky(float(v)) for w, v in zip(a, query[i, h] + key[j, h])) for j in near]
            total = sum(math.exp(s) for s in scores)
            out = torch.zeros(key.shape[-1], dtype=torch.float64)
            for s, j in zip(scores, near):
                out = out + math.exp(s) / total * key[j, h]
            heads.append(out)
        rows.append(torch.cat(heads) if layer.combine == "concatenate" else sum(heads) / layer.num_heads)
    return torch.stack(rows) + layer.bias


@pytest.mark.parametrize("combine", ["concatenate", "mean"])
@pytest.mark.parametrize("score", ["gat", "gatv2"])
def test_as_the_papers_have_it(score, combine):
    torch.manual_seed(0)
    layer = GraphAttention(3, 8, 2, score=score, combine=combine).double()
    torch.nn.init.normal_(layer.bias)
    nodes = torch.randn(5, 3, dtype=torch.float64)
    found = layer(nodes, EDGES)
    assert found.shape == (5, 8)
    torch.testing.assert_close(found, by_loops(layer, nodes))
    torch.testing.assert_close(found[3], layer.bias)  # node 3 has no neighbor


def test_dropout_of_values_leaves_the_weights_alone():
    torch.manual_seed(5)
    layer, nodes = GraphAttention(3, 4000, value_dropout=0.5), torch.randn(5, 3)
    whole, trace = layer.eval()(nodes, EDGES), Trace()
    dropped = layer.train()(nodes, EDGES, trace=trace)
    torch.testing.assert_close(trace.weights[0].values.sum(), torch.tensor(4.0))  # four nodes have a neighbor
    heard_one = 0  # node 0 receives from node 1 alone: half of the features are gone, the others doubled
    kept = dropped[heard_one] != 0
    assert 0.45 < kept.float().mean() < 0.55
    torch.testing.assert_close(dropped[heard_one][kept], 2 * whole[heard_one][kept])


def test_a_graph_and_its_mask_give_the_same_numbers():
    torch.manual_seed(1)
    layer = GraphAttention(3, 8, 2).double()
    nodes = torch.randn(5, 3, dtype=torch.float64)
    heads = layer.linear(nodes).unflatten(-1, (2, 4)).movedim(-2, -3)
    dense = attend(heads, heads, heads, Mask(EDGES.to_mask()), score=GAT(layer.vector, layer.key_vector))
    torch.testing.assert_close(layer(nodes, EDGES), dense.movedim(-3, -2).flatten(-2) + layer.bias)


def test_sparse_features_are_the_table_they_stand_for():
    torch.manual_seed(2)
    table = torch.randn(5, 7, dtype=torch.float64) * (torch.rand(5, 7) < 0.4)
    table[3] = 0
    rows, columns = table.nonzero(as_tuple=True)
    sparse = SparseFeatures(Edges(columns, rows, 7, 5), table[rows, columns])
    assert sparse.shape == (5, 7)
    for layer in (FeatureLinear(7, 4), FeatureLinear(7, 4, bias=False)):
        layer.double()
        torch.testing.assert_close(layer(sparse), layer(table))
        gradients = [torch.autograd.grad(layer(x).square().sum(), list(layer.parameters())) for x in (sparse, table)]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)
    for layer in (GraphAttention(7, 8, 2), SymmetricConvolution(7, 3), MeanConvolution(7, 3)):
        layer.double()
        torch.testing.assert_close(layer(sparse, EDGES), layer(table, EDGES))


def test_dropout_of_features_keeps_their_sum_on_average():
    torch.manual_seed(3)
    features = SparseFeatures(Edges(torch.arange(1000) % 10, torch.arange(1000), 10, 1000), torch.ones(1000))
    drop = FeatureDropout(0.25)
    values = drop(features).values
    torch.testing.assert_close(values.unique(), torch.tensor([0.0, 4 / 3]))
    assert float(values.mean()) == pytest.approx(1, abs=0.06)
    assert torch.equal(drop.eval()(features).values, features.values)
    assert torch.equal(drop(torch.ones(2, 2)), torch.ones(2, 2))


def test_hops_by_hand():
    """Two connected nodes share everything after one step: Â/2 = ½ everywhere."""
    pair = Edges(torch.tensor([0, 1]), torch.tensor([1, 0]), 2, 2)
    layer = HopAttention(1, num_hops=2, normalize=Softmax()).double()
    torch.nn.init.ones_(layer.query)
    nodes = torch.tensor([[4.0], [0.0]], dtype=torch.float64)
    # Versions of node 0: 4, 2, 2; of node 1: 0, 2, 2.
    near, far = math.exp(4), 2 * math.exp(2)
    first = (near * 4 + far * 2) / (near + far)
    second = far * 2 / (1 + far)
    trace = Trace()
    torch.testing.assert_close(layer(nodes, pair, trace=trace), torch.tensor([[first], [second]], dtype=torch.float64))
    torch.testing.assert_close(trace.weights[0].to_dense().sum(-1), torch.ones(2, 1, dtype=torch.float64))


def test_a_node_without_neighbors_believes_itself():
    alone = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 1, 1)
    layer = HopAttention(3, num_hops=4, normalize=Softmax())
    nodes = torch.randn(1, 3)
    torch.testing.assert_close(layer(nodes, alone), nodes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combine": "sum"}, "combine must be concatenate or mean"),
        ({"score": "dot"}, "score must be gat or gatv2"),
        ({"num_heads": 3}, r"output_dim \(8\) must be a multiple of num_heads \(3\)"),
    ],
    ids=str,
)
def test_bad_choices(options, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        GraphAttention(4, 8, **options)
