"""Constant features: they become a constant 1, degrees replace them where no feature varies, and a note says so."""

import numpy as np
import pytest
import torch

from edgewise import EdgeClassifier, GraphClassifier, GraphRegressor, LinkPredictor, NodeClassifier
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.table_notes import constant_features

SMALL = {"model_dim": 16, "epochs": 10, "dropout": 0.0}


def both_ways(senders, receivers):
    return np.stack([np.concatenate([senders, receivers]), np.concatenate([receivers, senders])])


def ring(size, value=1.0):
    nodes = np.arange(size)
    return np.full((size, 1), value), both_ways(nodes, (nodes + 1) % size)


def star(size, value=1.0):
    rays = np.arange(1, size)
    return np.full((size, 1), value), both_ways(rays, np.zeros_like(rays))


def rings_and_stars(value):
    return [(ring if number % 2 else star)(5 + number % 4 // 2, value) for number in range(40)], np.arange(40) % 2


@pytest.mark.parametrize("value", [1.0, 0.0, -3.0])
@pytest.mark.parametrize("model", ["attention", "gcn"])
def test_rings_and_stars_differ_where_all_nodes_have_one_value(model, value, tmp_path):
    graphs, kinds = rings_and_stars(value)
    with pytest.warns(UserWarning, match="no feature varies over the nodes of training graphs: in- and out-degree"):
        classifier = GraphClassifier(model=model, **SMALL).fit(graphs, kinds)
    assert classifier.score(graphs, kinds) == 1.0
    probabilities = classifier.predict_proba(graphs[:4])
    others, _ = rings_and_stars(1e30)
    np.testing.assert_array_equal(classifier.predict_proba(others[:4]), probabilities)  # another value says nothing
    classifier.save(tmp_path / "run")
    again = GraphClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(graphs[:4]), probabilities)
    assert again.explain(graphs[0]).units


def test_a_ring_of_four_is_smaller_than_one_of_seven():
    rings, sizes = [ring(3 + number % 6) for number in range(60)], [3 + number % 6 for number in range(60)]
    with pytest.warns(UserWarning, match="no feature varies"):
        regressor = GraphRegressor(model="gcn", model_dim=16, epochs=5).fit(rings, sizes)
    four, seven = regressor.predict([ring(4), ring(7)])
    assert four < 5 < 6 < seven


def test_a_constant_beside_another_feature_is_one():
    values = np.array([[2.0, 7.0, 0.0, 5.0], [4.0, 7.0, 0.0, 5.0], [9.0, 7.0, 0.0, 5.0]])
    scaler = ColumnScaler.fit(values, np.arange(3), keep_one=True)
    found = scaler.transform(np.concatenate([values, [[4.0, -1e300, 3.0, np.inf]]]))
    assert found[:, 1].tolist() == [1.0] * 4
    assert not found[:, 2:].any(), "more ones would be one bias, learned faster"
    first_is_kept = "warning: b, c, d have one value in all rows: the first counts as 1, the others are ignored"
    assert constant_features(scaler, ["a", "b", "c", "d"], "rows") == [first_is_kept]
    of_head = ColumnScaler.fit(values, np.arange(3))
    assert not of_head.transform(values)[:, 1:].any(), "heads have a bias"
    are_ignored = "warning: b, c, d have one value in all rows: they are ignored"
    assert constant_features(of_head, ["a", "b", "c", "d"], "rows") == [are_ignored]
    mixed = [(np.concatenate([x, np.arange(len(x))[:, None] % 2], 1), edges) for x, edges in rings_and_stars(4.0)[0]]
    with pytest.warns(UserWarning, match="feature 0 has one value in all nodes of training graphs: it counts as 1"):
        classifier = GraphClassifier(model="gin", **{**SMALL, "epochs": 1}).fit(mixed, np.arange(40) % 2)
    assert not classifier.trained_.encoder.adds_degrees


def test_nodes_of_one_graph(tmp_path):
    """The center of each star differs from its rays by nothing but its edges."""
    graph = [(star(6), 6 * number) for number in range(8)]
    features = np.concatenate([x for (x, _), _ in graph])
    edges = np.concatenate([index + start for (_, index), start in graph], axis=1)
    label = np.arange(48) % 6 == 0
    with pytest.warns(UserWarning, match="no feature varies over the nodes: in- and out-degree are added"):
        classifier = NodeClassifier(model="gcn", **{**SMALL, "epochs": 60}).fit(features, label, edges)
    assert classifier.score(features, label, edges) == 1.0
    assert classifier.n_features_in_ == 1
    classifier.save(tmp_path / "run")
    again = NodeClassifier.load(tmp_path / "run")
    probabilities = classifier.predict_proba(features, edges)
    np.testing.assert_array_equal(again.predict_proba(5 * features, edges), probabilities)
    assert again.explain(features, edges=edges, node=0).units


def test_edges_and_links():
    features, edges = star(30)
    of_edges = np.ones((edges.shape[1], 1))
    with (
        pytest.warns(UserWarning, match="feature 0 has one value in all edges: it is ignored"),
        pytest.warns(UserWarning, match="no feature varies over the nodes"),
    ):
        EdgeClassifier(model="gat", model_dim=8, epochs=1).fit(
            features, edges[0] > edges[1], edges=edges, edge_features=of_edges
        )
    generator = np.random.default_rng(0)
    edges = generator.integers(0, 30, (2, 90))
    with (
        pytest.warns(UserWarning, match="no feature of a node varies; leave them out, and each node learns a vector"),
        pytest.warns(UserWarning, match="3 edges are self-loops"),
    ):
        predictor = LinkPredictor(model="gcn", model_dim=8, epochs=1).fit(features, edges)
    assert np.isfinite(predictor.predict_proba([[0, 1]])).all()


def hetero(num_papers=20):
    from torch_geometric.data import HeteroData

    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["paper"].x = torch.randn(num_papers, 2, generator=generator)
    data["author"].num_nodes = 8
    index = torch.stack(
        [torch.arange(num_papers) % 8, torch.randint(0, num_papers, (num_papers,), generator=generator)]
    )
    data["author", "writes", "paper"].edge_index = index
    data["paper", "written_by", "author"].edge_index = index.flip(0)
    return data


def label_of_papers(data):
    """Papers are the first nodes, authors the last."""
    label = np.where(data["paper"].x[:, 0].numpy() > 0, "yes", "no").astype(object)
    return np.concatenate([label, np.full(8, None)])


def test_types_without_features_are_predicted_scored_explained_and_loaded(tmp_path):
    """A node type without features gets its degrees, which no array holds."""
    pytest.importorskip("torch_geometric")
    data = hetero()
    label = label_of_papers(data)
    classifier = NodeClassifier(model="hgt", model_dim=8, num_heads=2, epochs=3).fit(data, label)
    assert classifier.n_features_in_ == 2
    probabilities = classifier.predict_proba(data)
    assert classifier.score(data, label) > 0.4
    assert classifier.explain(data, node=0).units
    classifier.save(tmp_path / "run")
    again = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(data), probabilities)
    assert len(again.predict(hetero(num_papers=12))) == 20


def test_a_type_whose_features_do_not_vary(tmp_path):
    pytest.importorskip("torch_geometric")
    data = hetero()
    data["author"].x = torch.ones(8, 2)
    label = label_of_papers(data)
    with pytest.warns(UserWarning, match="no feature varies over the nodes of type 'author': in- and out-degree"):
        classifier = NodeClassifier(model="hgt", model_dim=8, num_heads=2, epochs=2).fit(data, label)
    assert classifier.trained_.encoder.types.degrees == ("author",)
    probabilities = classifier.predict_proba(data)
    classifier.save(tmp_path / "run")
    data["author"].x = 3 * data["author"].x
    np.testing.assert_array_equal(NodeClassifier.load(tmp_path / "run").predict_proba(data), probabilities)
