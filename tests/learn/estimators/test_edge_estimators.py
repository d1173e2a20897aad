"""Edges of one graph in Python: estimators, their scores and intervals, and explanations that are true."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from edgewise import DataError, EdgeClassifier, EdgeRegressor, Edges, Graph, GraphEdges, NodeKFold, SettingError
from edgewise.learn.readers.graphs.edge_data import edges_from_arrays
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.edges.settings import SETTINGS
from edgewise.learn.tasks.edges.task import TABLE, explain_edge
from edgewise.neighborhood import Types
from explain_cases import loud

EDGE_METHODS = ["occlusion", "shared occlusion", "integrated gradients", "gradient × input", "rollout", "shapley"]
SIZES = {"model_dim": 8, "dropout": 0.0, "epochs": 60, "learning_rate": 0.02, "validation_size": 0.3}


@pytest.fixture(scope="module")
def data():
    """A graph whose edges are fraud between nodes of two kinds; a fee grows with the amount."""
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, 30)
    senders = random.integers(0, 30, 140)
    receivers = (senders + random.integers(1, 30, 140)) % 30
    amount = torch.rand(140, 1, generator=torch.Generator().manual_seed(0))
    features = torch.from_numpy(np.stack([2.0 * kind - 1, random.normal(size=30)], 1)).float()
    graph = Graph(features, Edges(torch.from_numpy(senders), torch.from_numpy(receivers), 30, 30), amount)
    differ = kind[senders] != kind[receivers]
    return graph, np.where(differ, "yes", "no").astype(object), amount.numpy()[:, 0] + differ


@pytest.fixture(scope="module")
def classifier(data):
    graph, fraud, _ = data
    return EdgeClassifier(**SIZES).fit(graph, np.where(np.arange(140) < 10, None, fraud))


def test_classes_of_edges(data, classifier, tmp_path):
    graph, fraud, _ = data
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.score(graph, fraud) > 0.9
    assert classifier.score(GraphEdges(graph)[:10], fraud[:10]) > 0.8, "edges without a label are predicted, too"
    probabilities = classifier.predict_proba(graph)
    assert probabilities.shape == (140, 2)
    np.testing.assert_array_equal(classifier.predict(graph), classifier.classes_[probabilities.argmax(1)])
    features, edges = graph.node_features, torch.stack([graph.edges.senders, graph.edges.receivers])
    again = classifier.predict_proba(features, edges, graph.edge_features)
    np.testing.assert_array_equal(again, probabilities)
    classifier.save(tmp_path / "run")
    np.testing.assert_array_equal(EdgeClassifier.load(tmp_path / "run").predict_proba(graph), probabilities)
    assert classifier.fingerprint(graph).shape == (140, 8)
    explanation = classifier.explain(graph, edge=3, label="yes")
    assert explanation.predictions[0].probabilities["yes"] == pytest.approx(probabilities[3, 1], abs=1e-6)
    assert classifier.explain(GraphEdges(graph)[3], label="yes").to_json() == explanation.to_json()
    with pytest.raises(SettingError, match="edge is missing"):
        classifier.explain(graph)


def test_numbers_of_edges_have_intervals(data):
    graph, _, fee = data
    regressor = EdgeRegressor(**SIZES, model="attention", num_heads=2).fit(graph, np.where(fee > 1.9, np.nan, fee))
    predicted, (low, high) = regressor.predict(graph), regressor.predict_interval(graph)
    assert ((low < predicted) & (predicted < high)).all()
    assert regressor.score(graph, fee) > 0.8


def test_they_are_estimators_of_scikit_learn(data):
    graph, fraud, fee = data
    fresh = EdgeClassifier(**{**SIZES, "epochs": 2}, directed=True)
    assert clone(fresh).get_params() == fresh.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(graph)
    assert cross_val_score(fresh, GraphEdges(graph), fraud, cv=NodeKFold(2)).shape == (2,)
    assert fresh.fit(graph, fraud).trained.encoder.on_graph.graph.directed
    with pytest.raises(DataError, match="y has 30 rows, but there are 140 edges"):
        EdgeRegressor(epochs=1).fit(graph, fee[:30])
    typed = replace(graph, node_types=Types.of(["a", "b"] * 15))
    with pytest.raises(DataError, match="EdgeRegressor reads graphs of one type"):
        EdgeRegressor(epochs=1).fit(typed, fee)


def made(*, is_directed=False, members=1, **settings):
    """A graph of few edges, one of them a loop and one twice, and an ensemble over its edges."""
    random = np.random.default_rng(3)
    senders = np.r_[random.integers(0, 20, 22), 4, 0]
    receivers = np.r_[(senders[:22] + random.integers(1, 20, 22)) % 20, 4, 0]
    receivers[-1] = receivers[0]
    senders[-1] = senders[0]
    edges = EdgeList(senders, receivers, random.normal(size=(24, 2)).astype(np.float32))
    targets = [str(edge % 3) for edge in range(24)]
    table = edges_from_arrays(NodeFeatures.of(random.normal(size=(20, 3))), edges, targets, task_type="multiclass")
    job = SETTINGS.of({"data": ("e",), "task_type": "multiclass", "directed": is_directed, "model_dim": 8, **settings})
    everything = np.arange(24)
    trained = TABLE.untrained(job, table, Splits(everything, everything[:0], everything[:0]))
    return loud(trained, members), table


def without_node(table, node):
    """The table with the edges of a node cut: each is a loop of the node itself, which no other depends on."""
    gone = (table.edges.senders == node) | (table.edges.receivers == node)
    ends = {side: np.where(gone, node, getattr(table.edges, side)) for side in ("senders", "receivers")}
    return replace(table, edges=replace(table.edges, **ends))


@pytest.mark.parametrize("model", ["gcn", "gin", "attention"])
@pytest.mark.parametrize("is_directed", [False, True])
def test_effects_are_those_of_graphs_without_the_node(model, is_directed):
    trained, table = made(model=model, is_directed=is_directed, members=2)
    found = explain_edge(trained, table, 5, label="1", methods=["occlusion"])
    (sender,), (receiver,) = (nodes.tolist() for nodes in table.ends(np.array([5])))
    name = {str(node): node for node in range(20)}
    assert (found.center, found.other_end) == (0, 1)
    assert [unit.name for unit in found.units[:2]] == [str(sender), str(receiver)]
    assert found.title == f"{sender} {'→' if is_directed else '–'} {receiver}"

    def probability(table):
        return trained.predict(table)[0].probabilities[5, 1]

    assert found.predictions[0].probabilities["1"] == pytest.approx(probability(table), abs=1e-6)
    (occlusion,) = (each for each in found.attributions if each.name == "occlusion")
    for unit, value in list(zip(found.units, occlusion.values, strict=True))[2:]:
        expected = probability(table) - probability(without_node(table, name[unit.name]))
        assert value == pytest.approx(expected, abs=1e-5)
    assert max(map(abs, occlusion.values)) > 1e-3
    assert any(link.effect for link in found.links)


def test_every_method_and_every_edge():
    trained, table = made(model="attention")
    found = explain_edge(trained, table, 2, methods=EDGE_METHODS)
    assert [each.name for each in found.attributions] == EDGE_METHODS
    loop = explain_edge(trained, table, 22)
    assert (loop.title, loop.other_end) == ("4 – 4", None)
    twice = explain_edge(trained, table, 23)
    assert "2 edges join these nodes; the one in row 23 is explained." in twice.notes
    with pytest.raises(DataError, match="edge 24 does not exist; they are 0 to 23"):
        explain_edge(trained, table, 24)
    with pytest.raises(SettingError, match="hops is 0"):
        explain_edge(trained, table, 0, hops=0)


@pytest.mark.parametrize("is_directed", [False, True])
def test_the_keys_of_edges_know_their_direction_where_it_means_something(is_directed):
    edges = EdgeList(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 2]), np.zeros((4, 0), dtype=np.float32))
    rows = edges_from_arrays(NodeFeatures.of(np.eye(3)), edges, is_directed=is_directed, names="abc").rows
    assert rows.num_distinct == (4 if is_directed else 3)
    names = rows.contents.names(np.arange(4))
    assert names[1] == ("('b', 'a')" if is_directed else "('a', 'b')")
    assert (names[0] == names[1]) == (not is_directed)
