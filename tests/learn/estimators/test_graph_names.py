"""The names of a graph's nodes hold in Python: what goes in, what comes out, what an explanation is called."""

import networkx
import numpy as np
import pandas as pd
import pytest
import torch

from edgewise import DataError, Edges, SettingError
from edgewise.graph import Graph
from edgewise.interop.networkx import from_networkx
from edgewise.learn.estimators import EdgeRegressor, GraphNodes, LinkPredictor, NodeClassifier, NodeRegressor

SIZE = 16
NAMES = tuple(range(100, 100 + SIZE))
SMALL = {"epochs": 1, "model_dim": 8}


@pytest.fixture(scope="module")
def numbered():
    """A ring with chords, whose nodes have no names."""
    torch.manual_seed(0)
    nodes = torch.arange(SIZE)
    senders = torch.cat([nodes, nodes])
    receivers = torch.cat([(nodes + 1) % SIZE, (nodes + 5) % SIZE])
    return Graph(torch.randn(SIZE, 3), Edges(senders, receivers, SIZE, SIZE).undirected())


@pytest.fixture(scope="module")
def named(numbered):
    return Graph(numbered.node_features, numbered.edges, names=NAMES)


@pytest.fixture(scope="module")
def classifier(named):
    return NodeClassifier(model="gcn", **SMALL).fit(named, np.arange(SIZE) % 2)


@pytest.fixture(scope="module")
def links(named):
    return LinkPredictor(model="gcn", **SMALL).fit(named)


def test_a_node_is_explained_by_its_name(classifier, named, numbered):
    explanation = classifier.explain(named, node=103)
    assert explanation.title == "103"
    same = classifier.explain(numbered, node=3)
    assert same.title == "3"
    for name in ("value", "label", "probabilities"):
        assert getattr(explanation.predictions[0], name) == getattr(same.predictions[0], name)
    assert {unit.name for unit in explanation.units} <= set(map(str, NAMES))
    with pytest.raises(DataError, match=r"no node is called 3; the nodes of this graph are called 100, 101, 102, …"):
        classifier.explain(named, node=3)


@pytest.mark.parametrize("node", [SIZE, -1, 1.5, "3", True])
def test_nodes_without_names_have_numbers(classifier, numbered, node):
    with pytest.raises(DataError, match=f"does not exist; they are 0 to {SIZE - 1}"):
        classifier.explain(numbered, node=node)


def test_pairs_are_named(links, named, numbered, tmp_path):
    expected = links.predict_proba([[0, 1], [2, 9]], numbered)
    links.save(tmp_path / "links")
    for model in (links, LinkPredictor.load(tmp_path / "links")):
        np.testing.assert_allclose(model.predict_proba([[100, 101], [102, 109]]), expected, atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(np.array([["100", "101"], ["102", "109"]])), expected, atol=1e-6)
        explanation = model.explain([100, 101])
        assert "100" in explanation.title and "101" in explanation.title
        with pytest.raises(DataError, match="no node is called 0"):
            model.predict_proba([[0, 1]])
        with pytest.raises(DataError, match="no node is called 1; the nodes of this graph are called 100"):
            model.explain([100, 1])
        with pytest.raises(DataError, match=r"expected \(pair, 2\) names of nodes"):
            model.predict_proba([[100, 101, 102]])


@pytest.mark.parametrize("item", [100, [100], [100, 101, 102], "100", None])
def test_a_pair_has_two_nodes(links, item):
    with pytest.raises(SettingError, match=r"explain: item is .*; expected a pair of nodes, \(sender, receiver\)"):
        links.explain(item)


def test_names_that_are_written_alike_are_refused(numbered):
    mixed = Graph(numbered.node_features, numbered.edges, names=(1, "1", *NAMES[2:]))
    with pytest.raises(DataError, match="two nodes are both called 1 as text"):
        LinkPredictor(model="gcn", **SMALL).fit(mixed)


def test_an_edge_is_called_by_the_names_of_its_ends(named):
    fitted = EdgeRegressor(model="gcn", **SMALL).fit(named, np.arange(float(named.num_edges)))
    sender, receiver = (int(ends[2]) for ends in (named.edges.senders, named.edges.receivers))
    title = fitted.explain(named, edge=2).title
    assert str(NAMES[sender]) in title and str(NAMES[receiver]) in title


def test_attributes_that_are_not_read_are_named():
    people = networkx.Graph()
    people.add_node("ann", age=30, feature=1.0)
    people.add_node("bob", age=40, feature=2.0)
    people.add_edge("ann", "bob", since=2001)
    with pytest.warns(UserWarning, match="are not read") as caught:
        graph = Graph.of(people)
    messages = [str(warning.message) for warning in caught]
    assert any("node attributes age are not read" in text and "node_attributes=['age']" in text for text in messages)
    assert any("edge attributes since are not read" in text for text in messages)
    assert graph.node_features.tolist() == [[1.0], [2.0]]
    read = from_networkx(people, node_attributes=["age", "feature"], edge_attributes=["since"])
    assert read.node_features.tolist() == [[30.0, 1.0], [40.0, 2.0]]


def test_a_series_whose_index_names_the_nodes_is_taken_by_these_names(named):
    """Targets, weights and masks alike; an index that only counts says nothing."""
    labels = pd.Series(np.arange(SIZE) % 2, index=NAMES)
    weights = pd.Series(np.arange(SIZE) + 1.0, index=NAMES)
    held_out = pd.Series(np.arange(SIZE) < 4, index=NAMES)
    model, shuffled = NodeClassifier(model="gcn", random_state=0, **SMALL), np.random.default_rng(0).permutation(NAMES)
    expected = model.fit(named, labels, sample_weight=weights, validation=held_out).predict_proba(named)
    score = model.score(named, labels, nodes=~held_out, sample_weight=weights)

    model.fit(named, labels[shuffled], sample_weight=weights[shuffled], validation=held_out[shuffled])
    np.testing.assert_array_equal(model.predict_proba(named), expected)
    parts = {"nodes": ~held_out[shuffled], "sample_weight": weights[shuffled]}
    assert model.score(named, labels[shuffled], **parts) == score
    assert model.score(named, labels.reset_index(drop=True), nodes=~held_out, sample_weight=weights) == score
    rows = GraphNodes(named)[[3, 1]]
    assert model.score(rows, labels[[101, 103]]) == model.score(rows, labels[[103, 101]])


def test_a_pair_of_one_node_is_called_by_its_name(links):
    with pytest.raises(DataError, match=r"pair 0 is \['102', '102'\]: a link joins two different nodes"):
        links.predict([[102, 102]])


def test_an_index_that_names_some_nodes_is_not_taken_by_position(named):
    """One misspelled name, and all labels were those of other nodes."""
    labels = pd.Series(np.arange(SIZE) % 2, index=NAMES)[::-1]
    for last in ("nobody", NAMES[3]):
        with pytest.raises(DataError, match="names rows, but lacks '100'; name each row once"):
            NodeClassifier(model="gcn", **SMALL).fit(named, labels.set_axis([*labels.index[:-1], last]))


def test_an_index_that_names_other_nodes_is_not_taken_by_position(named):
    """As when rows and targets are cut off alike, but stand in another order."""
    labels = pd.Series(np.arange(SIZE) % 2, index=NAMES)[::-1]
    with pytest.raises(DataError, match="names rows, but lacks '100'; name each row once"):
        NodeClassifier(model="gcn", **SMALL).fit(GraphNodes(named)[:8], labels[:8])
    elsewhere = labels.set_axis([f"row {number}" for number in range(SIZE)])
    NodeClassifier(model="gcn", **SMALL).fit(GraphNodes(named)[:8], elsewhere[:8])  # which names no node


@pytest.mark.filterwarnings("ignore:fit. nodes without features")
def test_the_index_of_targets_names_the_nodes_of_tables(named):
    names = np.array([f"n{name}" for name in NAMES])
    nodes = pd.DataFrame(named.node_features.numpy(), columns=["a", "b", "c"], index=names)
    ends = named.edges.senders, named.edges.receivers
    pairs = pd.DataFrame({"sender": names[ends[0]], "receiver": names[ends[1]]})
    y = pd.Series(np.arange(SIZE) / SIZE, index=names)
    weights, held_out = pd.Series(np.arange(SIZE) + 1.0, index=names), pd.Series(np.arange(SIZE) < 4, index=names)
    model = NodeRegressor(model="gcn", random_state=0, **SMALL)
    for tables in ((nodes, pairs), (pairs,)):
        expected = model.fit(tables, y, sample_weight=weights, validation=held_out).predict(tables)
        score = model.score(tables, y, nodes=~held_out, sample_weight=weights)
        model.fit(tables, y[::-1], sample_weight=weights[::-1], validation=held_out[::-1])
        np.testing.assert_array_equal(model.predict(tables), expected)
        assert model.score(tables, y[::-1], nodes=~held_out[::-1], sample_weight=weights[::-1]) == score
