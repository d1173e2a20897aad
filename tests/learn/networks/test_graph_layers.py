"""The register of graph layers: every entry works in every task that it names, and old names still open."""

from pathlib import Path

import pytest
import torch

from batch_cases import batch_of
from edgewise import Edges, SettingError
from edgewise.layers import MeanConvolution
from edgewise.learn.networks.graph_layers import LAYERS, layers_for
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.tasks.registry import settings_of

JOBS = {
    "nodes": (settings_of("nodes").of, {}),
    "graphs": (settings_of("graphs").of, {"graph_column": "graph"}),
    "links": (settings_of("links").of, {}),
    "molecules": (settings_of("molecules").of, {"smiles_columns": ["smiles"]}),
}
RING = Edges(torch.tensor([0, 1, 2, 3, 0]), torch.tensor([1, 2, 3, 0, 2]), 4, 4)


def batch(num_edge_features=0):
    torch.manual_seed(0)
    return batch_of(torch.randn(4, 3), RING, torch.randn(5, num_edge_features), nodes=torch.arange(4))


def model_of(num_edge_features=0, **settings):
    torch.manual_seed(0)
    return NodeModel(NodeSizes(3, num_edge_features, 2), NodeSettings(model_dim=8, **settings)).eval()


@pytest.mark.parametrize("task", JOBS)
def test_each_layer_brings_its_recipe_and_refuses_what_it_does_not_read(task):
    job, given = JOBS[task]
    for name in layers_for(task):
        recipe = LAYERS[name].recipes[task]
        made = job({"data": ["data.csv"], **given, "model": name})
        assert made.model.model == name
        found = {key: getattr(made.model, key, getattr(made.train, key, None)) for key in recipe}
        assert found == dict(recipe)
        if "aggregation" not in LAYERS[name].readable(task):
            with pytest.raises(SettingError, match=f"--aggregation does nothing with --model {name}"):
                job({"data": ["data.csv"], **given, "model": name, "aggregation": "max"})


def test_every_layer_stands_in_the_docs():
    rows = (Path(__file__).parents[3] / "docs/nodes.md").read_text()
    for name in layers_for("nodes", "graphs", "links"):
        assert f"`{name}`" in rows


@pytest.mark.parametrize("how", ["mean", "max", "sum"])
def test_sage_aggregates_neighbors_as_set(how):
    network = model_of(model="sage", num_layers=1, aggregation=how)
    layer, given = network.layers.layers[0], batch()
    sent = given.graph.node_features if layer.pool is None else torch.relu(layer.pool(given.graph.node_features))
    both = sent[[0, 1]]  # node 2 receives from 0 and 1
    joined = both.amax(0) if how == "max" else getattr(both, how)(0)
    expected = layer.neighbors(joined[None]) + layer.itself(given.graph.node_features[[2]])
    torch.testing.assert_close(network(given)[[2]], expected)


def test_sage_of_means_has_the_weights_and_numbers_that_mean_had():
    torch.manual_seed(0)
    before = MeanConvolution(3, 2, activation=lambda nodes: nodes)
    now = model_of(model="sage", num_layers=1)
    torch.testing.assert_close(now(batch()), before(batch().graph.node_features, RING), rtol=0, atol=0)


def test_gin_sums_its_neighbors_and_reads_edge_features():
    network, given = model_of(model="gin", num_layers=1), batch()
    layer = network.layers.layers[0]
    torch.nn.init.constant_(layer.epsilon, 0.5)
    seen = 1.5 * given.graph.node_features[[2]] + given.graph.node_features[[0]] + given.graph.node_features[[1]]
    expected = layer.second(torch.relu(layer.first(seen) + layer.bias))
    torch.testing.assert_close(network(given)[[2]], expected)
    with_edges, given = model_of(2, model="gin", num_layers=2), batch(2)
    given.graph.edge_features.requires_grad_()
    with_edges(given).sum().backward()
    assert (given.graph.edge_features.grad.abs().sum(1) > 0).all()


@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_attention_of_papers_reads_edge_features_in_its_scores(model):
    settings = NodeSettings(model=model, model_dim=8, num_layers=1, dropout=0.0)
    torch.manual_seed(0)
    network = NodeModel(NodeSizes(3, 2, 4), settings).eval()
    layer, given = network.layers.layers[0], batch(2)
    into, senders = torch.tensor([1, 4]), torch.tensor([1, 0])  # the edges of node 2
    edge = given.graph.edge_features[into] @ layer.edge.weight.T
    sent = given.graph.node_features @ layer.linear.weight.T
    if model == "gat":
        values = sent[senders]
        scores = sent[2] @ layer.vector[0] + values @ layer.key_vector[0] + edge @ layer.edge_vector[0]
        scores = torch.nn.functional.leaky_relu(scores, 0.2)
    else:
        queries, values = sent[2, :4], sent[senders, 4:]
        scores = torch.nn.functional.leaky_relu(queries + values + edge, 0.2) @ layer.vector[0]
    expected = scores.softmax(0) @ values + layer.bias
    torch.testing.assert_close(network(given)[2], expected)
