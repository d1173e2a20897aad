"""Graphs of whose nodes nothing is known: edges are counted in the place of features, in Python as on files."""

import numpy as np
import pytest

from edgewise import EdgeRegressor, GraphRegressor, LinkPredictor, NodeClassifier, NodeRegressor
from edgewise.errors import DataError
from edgewise.graph import Graph

FEW = {"epochs": 2, "model_dim": 8, "model": "gcn"}
INDEX = np.stack([np.arange(1, 12), np.arange(1, 12) // 2])
"""A tree whose nodes have 0 to 3 edges."""


def test_nodes_without_features_have_the_numbers_of_their_edges(tmp_path):
    graph, target = Graph.of(INDEX), np.arange(12.0)
    with pytest.warns(UserWarning, match="fit: nodes without features: the in-degree and out-degree"):
        bare = NodeRegressor(**FEW).fit(graph, target)
    degrees = np.stack([np.bincount(ends, minlength=12) for ends in INDEX[::-1]], 1)
    counted = NodeRegressor(**FEW).fit(degrees, target, edges=INDEX)
    found = bare.predict(graph)
    np.testing.assert_array_equal(found, counted.predict(degrees, edges=INDEX))
    assert bare.n_features_in_ == 0 and bare.explain(graph, node=3).units
    bare.save(tmp_path / "run")
    np.testing.assert_array_equal(NodeRegressor.load(tmp_path / "run").predict(graph), found)
    # Neither of both models takes the other's graphs.
    with pytest.raises(DataError, match="X has 0 features, but NodeRegressor is expecting 2"):
        counted.predict(graph)
    with pytest.raises(DataError, match="X has 2 features, but NodeRegressor is expecting 0"):
        bare.predict(np.ones((12, 2)), edges=INDEX)


def test_graphs_and_edges_without_features():
    graphs = [Graph.of(INDEX[:, :size]) for size in (3, 5, 7, 9, 11)]
    with pytest.warns(UserWarning, match="fit: nodes without features"):
        regressor = GraphRegressor(**FEW).fit(graphs, [3.0, 5, 7, 9, 11])
    assert np.isfinite(regressor.predict(graphs[:2])).all()
    with pytest.raises(DataError, match="its nodes have features, but the model was trained on none"):
        regressor.predict([(np.ones((4, 2)), INDEX[:, :3])])
    with pytest.raises(DataError, match="graph 1 has 1 feature of a node, but graph 0 has 0"):
        regressor.fit([graphs[0], (np.ones((4, 1)), INDEX[:, :3])], [1.0, 2.0])

    features = np.random.default_rng(0).normal(size=(12, 2))
    edges = EdgeRegressor(epochs=1, model_dim=8).fit(features, np.arange(11.0), edges=INDEX)
    with pytest.raises(DataError, match="its nodes have no features, but the model was trained on 2"):
        edges.predict(None, edges=INDEX)


def test_all_types_of_nodes_may_lack_features():
    index = np.concatenate([INDEX, INDEX[::-1]], 1)
    with pytest.warns(UserWarning, match="fit: nodes without features"):
        classifier = NodeClassifier(epochs=1, model_dim=8).fit(
            None, np.arange(12) % 2, edges=index, node_types=["a", "b"] * 6
        )
    assert classifier.predict(None, edges=index, node_types=["a", "b"] * 6).shape == (12,)


def test_a_graph_without_edges_lacks_none_of_their_features():
    """As on the command line, an empty table of edges is one of any width; arrays without edges had no width."""
    random, none = np.random.default_rng(0), np.zeros((2, 0), dtype=np.int64)
    features, of_edges = random.normal(size=(12, 2)), random.normal(size=(11, 3))
    small = {**FEW, "model": "gat"}
    nodes = NodeRegressor(**small).fit(features, np.arange(12.0), INDEX, edge_features=of_edges)
    found = nodes.predict(features, none)
    np.testing.assert_array_equal(found, nodes.predict(features, none, edge_features=np.zeros((0, 3))))
    with pytest.raises(DataError, match="its edges have 0 features, but the model was trained on 3"):
        nodes.predict(features, INDEX)

    links = LinkPredictor(**small).fit(features, INDEX, edge_features=of_edges)
    wide = links.predict_proba([[0, 1]], features, none, edge_features=np.zeros((0, 3)))
    np.testing.assert_array_equal(links.predict_proba([[0, 1]], features, none), wide)

    graphs = [(features[: size + 1], INDEX[:, :size], of_edges[:size]) for size in range(3, 9)]
    alone, wide = (features[:2], none), (features[:2], none, np.zeros((0, 3)))
    held, target = [alone, *graphs], np.arange(7.0)
    model = GraphRegressor(**small, random_state=0).fit(held, target)
    expected = GraphRegressor(**small, random_state=0).fit([wide, *graphs], target).predict([wide, *graphs])
    np.testing.assert_array_equal(model.predict(held), expected)
    np.testing.assert_allclose(model.predict([alone]), expected[:1], rtol=1e-5)
    with pytest.raises(DataError, match="graph 1 has 0 features of an edge, but graph 0 has 3"):
        model.fit([graphs[0], graphs[1][:2]], [1.0, 2.0])
