"""NodeClassifier and NodeRegressor: whatever holds features and edges, the same graph; what they refuse."""

import numpy as np
import pytest
import scipy.sparse
import torch

from edgewise import DataError, Edges, NodeClassifier, NodeRegressor, SettingError
from edgewise.learn.estimators import graph_rows
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.estimators.labels import is_known
from edgewise.learn.estimators.nodes import NODES
from edgewise.learn.estimators.row_methods import numbers_of

SMALL = {"model": "gcn", "model_dim": 8, "epochs": 60, "dropout": 0.2}


@pytest.fixture(scope="module")
def graph():
    """Two teams whose members know each other."""
    random = np.random.default_rng(0)
    team = np.arange(60) % 2
    senders = random.integers(0, 60, 200)
    receivers = (senders + 2 * random.integers(1, 30, 200)) % 60
    index = np.stack([np.concatenate([senders, receivers]), np.concatenate([receivers, senders])])
    return np.stack([2 * team + random.normal(size=60), random.normal(size=60)], 1), team, index


def test_a_classifier(graph, tmp_path):
    features, team, index = graph
    names = np.array(["blue", "red"])[team].astype(object)
    names[:20:2] = None
    validation = np.arange(60) >= 50
    classifier = NodeClassifier(**SMALL).fit(features, names, index, validation=validation)
    assert classifier.classes_.tolist() == ["blue", "red"]
    predicted = classifier.predict(features, index)
    assert np.mean(predicted == np.array(["blue", "red"])[team]) > 0.9
    assert classifier.score(features, names, index) > 0.9
    assert classifier.score(features, names, index, nodes=validation) > 0.9
    probabilities = classifier.predict_proba(features, index)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert classifier.fingerprint(features, index).shape == (60, 8)
    classifier.save(tmp_path / "kept")
    again = NodeClassifier.load(tmp_path / "kept")
    assert again.n_features_in_ == classifier.n_features_in_ == 2
    np.testing.assert_array_equal(
        again.predict_proba(features, Edges.from_edge_index(torch.tensor(index), 60)), probabilities
    )
    numbers = np.where(names == "red", 1, 0)
    numbers[:20:2] = -1
    with pytest.warns(UserWarning, match="10 nodes have the label -1"):
        same = NodeClassifier(**SMALL).fit(features, numbers, index, validation=validation)
    np.testing.assert_allclose(same.predict_proba(features, index), probabilities, atol=1e-6)
    assert same.get_params()["model"] == "gcn"
    assert same.set_params(epochs=3).epochs == 3


def test_the_rows_that_count_are_a_mask(graph, monkeypatch):
    features, team, index = graph
    classifier = NodeClassifier(**{**SMALL, "epochs": 2}).fit(features, team, index)
    numbers = features[:, 0]
    regressor = NodeRegressor(**{**SMALL, "epochs": 2}).fit(features, numbers, index)
    for estimator, y in ((classifier, team), (regressor, numbers)):
        # Numbers of rows would be read as true and false.
        for nodes in (np.array([5, 7]), np.arange(60) % 2, np.ones(59, bool), np.ones((60, 1), bool)):
            with pytest.raises(DataError, match=r"score: nodes is .*; expected a mask, bool of shape \(60,\)"):
                estimator.score(features, y, index, nodes=nodes)
        with pytest.raises(DataError, match="nodes is one text"):
            estimator.score(features, y, index, nodes="x")

    def without_one(*_):
        predictions, values = numbers_of(regressor, NODES, GraphNodes(features, edges=index), {})
        return predictions, np.where(np.arange(60) == 41, np.nan, values)

    monkeypatch.setattr(graph_rows, "numbers_of", without_one)
    with pytest.raises(DataError, match="score: row 41 has a target, but cannot be predicted"):
        regressor.score(features, numbers, index, nodes=np.arange(60) > 30)
    assert np.isfinite(regressor.score(features, numbers, index, nodes=np.arange(60) > 41))


def test_unsigned_labels_have_a_label_for_none(graph, monkeypatch):
    features, team, index = graph
    classifier = NodeClassifier(**{**SMALL, "epochs": 2}).fit(features, team.astype(np.uint8), index)
    assert classifier.predict(features, index).dtype == np.uint8
    probabilities = classifier.predict_proba(features, index)
    probabilities[3] = np.nan
    monkeypatch.setattr(graph_rows, "probabilities_of", lambda *_: ([probabilities], ["ok"] * 60))
    monkeypatch.setattr(graph_rows, "warn_of_unread", lambda *_: None)
    labels = classifier.predict(features, index)
    assert labels[3] == -1 and set(np.delete(labels, 3).tolist()) <= {0, 1}


def test_features_of_edges_that_the_model_does_not_look_at_are_refused(graph):
    features, team, index = graph
    with pytest.raises(SettingError, match="edge_features: model gcn reads one number an edge, its weight"):
        NodeClassifier(**SMALL).fit(features, team, index, edge_features=np.ones((400, 2)))


def test_a_transformer_over_an_extended_graph(graph, tmp_path):
    features, team, index = graph
    settings = {**SMALL, "model": "attention", "num_heads": 2, "expander_degree": 2, "num_virtual_nodes": 1}
    settings |= {"laplacian_positions": 3, "random_walk_positions": 2}
    classifier = NodeClassifier(**settings).fit(features, team, index)
    predicted = classifier.predict_proba(features, index)
    assert (predicted.argmax(1) == team).mean() > 0.9
    classifier.save(tmp_path / "kept")
    np.testing.assert_array_equal(NodeClassifier.load(tmp_path / "kept").predict_proba(features, index), predicted)
    assert classifier.fingerprint(features, index).shape == (60, 8)
    other = NodeClassifier(**settings).fit(features, team, index, edge_features=np.ones((400, 2)))
    with pytest.raises(DataError, match="its edges have 0 features, but the model was trained on 2"):
        other.predict(features, index)
    with pytest.raises(DataError, match="its edges have 2 features, but the model was trained on 0"):
        classifier.predict(features, index, np.ones((400, 2)))


def test_a_regressor(graph, tmp_path):
    features, team, index = graph
    height = 10.0 * team + np.random.default_rng(1).random(60)
    height[3] = np.nan
    regressor = NodeRegressor(**SMALL).fit(features, height, index)
    predicted = regressor.predict(features, index)
    assert np.abs(predicted - 10 * team).mean() < 3
    regressor.save(tmp_path / "kept")
    again = NodeRegressor.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict(features, index), predicted)
    assert again.n_features_in_ == 2
    two = NodeRegressor(**SMALL).fit(features, np.stack([height, -height], 1), index)
    assert two.predict(features, index).shape == (60, 2)


def test_whatever_holds_them():
    table = np.array([[1.0, 0], [0, 2], [0, 0]])
    for held in (table, torch.tensor(table), scipy.sparse.csr_matrix(table), scipy.sparse.coo_array(table)):
        found = GraphNodes(held, np.zeros((2, 0), int)).arrays()["features"]
        np.testing.assert_array_equal(found.to_dense(), table)
    index = np.array([[0, 1], [1, 2]])
    adjacency = scipy.sparse.coo_array((np.ones(2), (index[1], index[0])), shape=(3, 3))
    for held in (index, torch.tensor(index), Edges(*torch.tensor(index), 3, 3), adjacency):
        found = GraphNodes(np.zeros((3, 1)), held).edges
        assert (found.senders.tolist(), found.receivers.tolist()) == ([0, 1], [1, 2])
    assert GraphNodes(None, index, [[0.5], [1]]).edges.features.tolist() == [[0.5], [1]]
    assert is_known(np.array([0, -1, 2])).tolist() == [True, False, True]
    assert is_known(np.array([1, -1])).tolist() == [True, True]
    assert is_known(np.array(["a", None, float("nan"), ""], dtype=object)).tolist() == [True, False, False, False]


def test_the_entries_of_a_matrix_are_the_weights_of_its_edges(graph):
    features, team, index = graph
    ones = scipy.sparse.csr_array((np.ones(400), (index[1], index[0])), shape=(60, 60)) != 0
    weights = ones.multiply(np.linspace(0.1, 3, 60)).tocsr()
    settings = {**SMALL, "model": "gat", "epochs": 2}
    classifier = NodeClassifier(**settings).fit(features, team, weights)
    edges, whole = Edges.from_adjacency(weights), GraphNodes(features, weights)
    same = NodeClassifier(**settings).fit(features, team, edges, edge_features=weights.data[:, None])
    predicted = classifier.predict_proba(features, weights)
    np.testing.assert_array_equal(same.predict_proba(features, edges, weights.data[:, None]), predicted)
    assert np.abs(classifier.predict_proba(features, ones) - predicted).max() > 0, "ones are weights beside others"
    for held in (weights.tocoo(), torch.tensor(weights.toarray()).to_sparse_coo()):
        np.testing.assert_array_equal(GraphNodes(features, held).edges.features, whole.edges.features)
    twice = scipy.sparse.coo_array((np.ones(800), np.tile(index[::-1], 2)), shape=(60, 60))
    for unweighted in (ones, ones.astype(float), twice, torch.tensor(ones.toarray()).to_sparse_coo()):
        assert GraphNodes(features, unweighted)[:3].graph.edge_features is None

    with pytest.raises(SettingError, match=r"model hop_attention; only .* matrix != 0 has edges without weights"):
        NodeClassifier(epochs=2).fit(features, team, weights)
    with pytest.warns(UserWarning, match="weights are not read beside edge_features"):
        assert GraphNodes(features, weights, np.ones((weights.nnz, 2))).graph.edge_features.shape[1] == 2


@pytest.mark.parametrize(
    ("features", "edges", "more", "message"),
    [
        (np.zeros(3), np.zeros((2, 0), int), None, r"X has 1 axis; expected \(node, feature\)"),
        (np.array([[np.inf]]), np.zeros((2, 0), int), None, r"X\[0, 0\] is inf"),
        (np.eye(2), np.zeros((3, 1), int), None, r"expected Edges, or whole numbers \(2, edge\)"),
        (np.eye(2), np.array([[0.5], [1]]), None, r"expected Edges, or whole numbers"),
        (np.eye(2), np.array([[0], [1]]), [[1], [2]], r"edge_features is \(2, 1\); expected \(1, feature\)"),
        (np.eye(2), np.array([[0], [2]]), None, "edge 0 joins 0 and 2, but nodes are 0 to 1"),
    ],
)
def test_what_is_refused(features, edges, more, message):
    with pytest.raises(DataError, match=message):
        NodeRegressor(**SMALL).fit(features, np.arange(float(len(features))), edges, edge_features=more)


def test_settings_that_are_refused(graph):
    features, team, index = graph
    with pytest.raises(SettingError, match="validation_size is 1"):
        NodeClassifier(validation_size=1).fit(features, team, index)
    with pytest.raises(DataError, match="y holds 1 class"):
        NodeClassifier(**SMALL).fit(features, np.zeros(60, int), index)
