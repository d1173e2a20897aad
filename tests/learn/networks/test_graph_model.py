"""Models of graphs: a graph says the same alone and among others, in whatever order its nodes stand; roots see all."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from batch_cases import batch_of
from edgewise import Edges, SettingError
from edgewise.learn.networks.graph import GraphModel
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import (
    GRAPH_READOUTS,
    GraphSettings,
    GraphSizes,
    NodeSettings,
    PropertySizes,
)
from graph_cases import packed, shuffled

SIZES = GraphSizes(num_features=3, num_edge_features=0, num_conditions=2, num_outputs=2, typical_nodes=4.0)
TREE = Edges(torch.tensor([0, 1, 2, 3, 0]), torch.tensor([2, 2, 4, 4, 4]), 5, 5)
OTHER = Edges(torch.tensor([2, 1]), torch.tensor([1, 0]), 3, 3)


def model_of(model="attention", readout="attention_sum", **more):
    torch.manual_seed(0)
    layers = NodeSettings(model=model, num_layers=2, num_heads=2, model_dim=8, dropout=0.0, num_hops=2)
    settings = GraphSettings(readout=readout, head_dim=8, num_variants=3, **more)
    return GraphModel(SIZES, layers, settings).double().eval()


def graphs_of(edges, offsets, roots, features, conditions):
    nodes = torch.tensor(roots, dtype=torch.int64)
    return batch_of(features, edges, offsets=torch.tensor(offsets), graph_features=conditions, nodes=nodes)


def normal(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("readout", GRAPH_READOUTS)
@pytest.mark.parametrize("model", layers_for("graphs"))
def test_a_graph_says_the_same_alone_among_others_and_renumbered(model, readout):
    network, features, conditions = model_of(model, readout), normal(8, 3), normal(2, 2)
    both, offsets = packed(TREE, OTHER)
    together = network(graphs_of(both, offsets.tolist(), [4, 5], features, conditions))
    assert together.shape == (2, 3, 2)
    one = network(graphs_of(TREE, [0, 5], [4], features[:5], conditions[:1]))
    other = network(graphs_of(OTHER, [0, 3], [0], features[5:], conditions[1:]))
    torch.testing.assert_close(torch.cat([one, other]), together)
    torch.manual_seed(1)
    edges, order, _ = shuffled(TREE)
    root = int(order.argsort()[4])
    again = network(graphs_of(edges, [0, 5], [root], features[order], conditions[:1]))
    torch.testing.assert_close(again, one)
    assert not torch.allclose(one, network(graphs_of(TREE, [0, 5], [4], features[:5] + 1, conditions[:1])))
    assert not torch.allclose(one, network(graphs_of(TREE, [0, 5], [4], features[:5], conditions[:1] + 1)))


def test_a_root_depends_on_every_node_of_a_deep_tree():
    """A chain of 9 nodes and 2 layers: the layers carry 2 edges far, the root's attention all the way."""
    chain = Edges(torch.arange(8), torch.arange(1, 9), 9, 9)

    def reached(readout):
        features = normal(9, 3).requires_grad_()
        model_of("gcn", readout)(graphs_of(chain, [0, 9], [8], features, normal(1, 2))).sum().backward()
        return features.grad.abs().sum(1) > 0

    assert reached("root").all()
    network = model_of("gcn", "root")
    features = normal(9, 3).requires_grad_()
    batch = graphs_of(chain, [0, 9], [8], features, normal(1, 2))
    network.layers(batch.graph)[1][batch.supervision.nodes].sum().backward()
    assert (features.grad.abs().sum(1) > 0).tolist() == [False] * 6 + [True] * 3


def test_a_root_is_distinguished_from_other_nodes():
    network, features, conditions = model_of("sage", "root"), normal(5, 3), normal(1, 2)
    own = network(graphs_of(TREE, [0, 5], [4], features, conditions))
    assert not torch.allclose(own, network(graphs_of(TREE, [0, 5], [3], features, conditions)))


def test_readouts_by_hand():
    network, features, conditions = model_of("sage", "sum"), normal(8, 3), normal(2, 2)
    both, offsets = packed(TREE, OTHER)
    batch = graphs_of(both, offsets.tolist(), [], features, conditions)
    nodes = network.norm(network.layers(batch.graph)[1])
    expected = torch.stack([nodes[:5].sum(0), nodes[5:].sum(0)]) / 4
    torch.testing.assert_close(network.fingerprint(batch), expected)
    torch.testing.assert_close(network(batch), network.head(expected, conditions))
    most = model_of("sage", "max").fingerprint(batch)
    torch.testing.assert_close(most, torch.stack([nodes[:5].amax(0), nodes[5:].amax(0)]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"readout": "leaf"}, "--readout is 'leaf'; expected one of attention_sum, attention"),
        ({"head_dim": 0}, "--head-dim is 0; expected at least 1"),
        ({"num_variants": 0}, "--num-variants is 0"),
        ({"head_dropout": 0.7}, "--head-dropout is 0.7; expected at least 0 and at most 0.5"),
    ],
)
def test_settings_that_are_refused(settings, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        GraphSettings(**settings)


@pytest.mark.parametrize("unit", [0.0, -1.0, math.nan, math.inf])
def test_sums_have_a_unit_above_zero(unit):
    for sizes in (SIZES, PropertySizes(4, 2, 0, 1, 0, 1)):
        with pytest.raises(SettingError, match=r"typical_nodes is .*; expected a number above 0"):
            replace(sizes, typical_nodes=unit)


def test_few_graphs_a_step_leave_time_for_many_variants():
    assert [GraphSettings().resolved(size).num_variants for size in (32, 256, 4096)] == [8, 4, 4]
    assert GraphSettings(num_variants=2).resolved(32).num_variants == 2
    with pytest.raises(SettingError, match="num_variants is None"):
        GraphModel(SIZES, NodeSettings(), GraphSettings())
