"""GraphClassifier and GraphRegressor: whatever holds graphs, the same graphs; what they refuse."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import torch

from edgewise import (
    DataError,
    EdgeRegressor,
    GraphClassifier,
    GraphRegressor,
    LinkPredictor,
    NodeRegressor,
    RunFolderError,
    SettingError,
)
from edgewise.graph import Graph
from edgewise.learn.estimators.graphs import graphs_of, targets_of
from edgewise.learn.readers.graphs.graphs import GraphRow
from tree_cases import merger_trees

pytestmark = pytest.mark.filterwarnings("ignore:fit. no feature varies")
SMALL = {
    "model_dim": 8,
    "num_heads": 2,
    "head_dim": 8,
    "num_variants": 2,
    "epochs": 40,
    "dropout": 0.0,
    "learning_rate": 1e-2,
}


def ring(size, turn=1):
    """A ring of nodes of which nothing is known, both ways."""
    nodes = np.arange(size)
    there = np.stack([nodes, (nodes + turn) % size])
    return np.ones((size, 1)), np.concatenate([there, there[::-1]], axis=1)


@pytest.fixture(scope="module")
def rings():
    return [ring(3 + number % 6) for number in range(60)], np.array([3.0 + number % 6 for number in range(60)])


def test_a_regressor_counts_nodes(rings, tmp_path):
    graphs, sizes = rings
    regressor = GraphRegressor(**SMALL, validation_size=0.2).fit(graphs, sizes)
    predicted = regressor.predict(graphs)
    assert np.abs(predicted - sizes).mean() < 0.3
    low, high = regressor.predict_interval(graphs)
    assert ((low <= predicted) & (predicted <= high)).all()
    assert regressor.score(graphs, sizes) > 0.9
    assert regressor.fingerprint(graphs[:4]).shape == (4, 8)
    regressor.save(tmp_path / "kept")
    again = GraphRegressor.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict(graphs), predicted)
    with pytest.raises(RunFolderError, match="holds a model for regression; expected classification"):
        GraphClassifier.load(tmp_path / "kept")
    two = GraphRegressor(**{**SMALL, "epochs": 1}).fit(graphs, np.stack([sizes, -sizes], 1))
    assert two.predict(graphs[:5]).shape == (5, 2)


def test_a_classifier(rings, tmp_path):
    graphs, sizes = rings
    names = np.array(["small", "large"])[(sizes > 5).astype(int)]
    classifier = GraphClassifier(**SMALL, readout="sum", model="gat").fit(graphs, names)
    assert classifier.classes_.tolist() == ["large", "small"]
    assert (classifier.predict(graphs) == names).mean() > 0.9
    probabilities = classifier.predict_proba(graphs)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    classifier.save(tmp_path / "kept")
    np.testing.assert_array_equal(GraphClassifier.load(tmp_path / "kept").predict_proba(graphs), probabilities)
    with pytest.raises(DataError, match="predict: row 1 cannot be read: graph: it is empty"):
        classifier.predict([graphs[0], (np.ones((0, 1)), np.zeros((2, 0), int))])


def test_random_walks_distinguish_a_triangle_from_a_square(tmp_path):
    """In a disjoint union of rings every node has two neighbors, and only those of a triangle are back in 3 steps."""
    graphs = [ring(3 + number % 2) for number in range(40)]
    names = np.array(["triangle", "square"] * 20)
    classifier = GraphClassifier(**SMALL, model="attention", random_walk_positions=3, readout="mean").fit(graphs, names)
    assert (classifier.predict(graphs) == names).all()
    np.testing.assert_allclose(
        classifier.predict_proba(graphs[:1]), classifier.predict_proba(graphs[:7])[:1], atol=1e-6
    )
    classifier.save(tmp_path / "kept")
    again = GraphClassifier.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict_proba(graphs), classifier.predict_proba(graphs))
    with pytest.raises(SettingError, match="random_walk_positions"):
        GraphClassifier(**SMALL, model="gin", random_walk_positions=3).fit(graphs, names)


def test_numbers_of_graphs_are_looked_at():
    graphs = [ring(4)] * 60
    heat = np.linspace(-1, 1, 60)[:, None]
    regressor = GraphRegressor(**SMALL).fit(graphs, 3 * heat[:, 0], graph_features=heat)
    assert np.abs(regressor.predict(graphs, heat) - 3 * heat[:, 0]).mean() < 0.4
    with pytest.raises(DataError, match="its graphs have 0 features, but the model was trained on 1"):
        regressor.predict(graphs)


def test_numbers_of_graphs_are_those_of_all_or_of_none():
    """One graph without them, and those of all others were not read."""
    bare = [Graph.of(ring(4)) for _ in range(12)]
    heat = np.linspace(-1, 1, 12)[:, None].astype(np.float32)
    hot = [replace(graph, graph_features=torch.tensor(row)[None]) for graph, row in zip(bare, heat, strict=True)]
    y, regressor = 3 * heat[:, 0], GraphRegressor(**{**SMALL, "epochs": 1, "random_state": 0})
    expected = regressor.fit(hot, y).predict(hot)
    np.testing.assert_array_equal(regressor.fit(bare, y, graph_features=heat).predict(bare, heat), expected)
    np.testing.assert_array_equal(regressor.fingerprint(hot), regressor.fingerprint(bare))
    assert regressor.explain(hot[3], methods=["attention"]).predictions[0].value == pytest.approx(expected[3], abs=1e-5)

    data = pytest.importorskip("torch_geometric.data").Data
    parts = torch.ones(4, 1), torch.tensor(ring(4)[1])
    others = [data(x=parts[0], edge_index=parts[1], u=torch.tensor(row)[None]) for row in heat]
    np.testing.assert_array_equal(regressor.predict(others), expected)

    wide = replace(bare[0], graph_features=torch.ones(1, 2))
    for graphs, message in (
        ([*hot[:-1], bare[-1]], "graph 11 has 0 graph_features, but graph 0 has 1"),
        ([bare[0], *hot[1:]], "graph 1 has 1 graph_features, but graph 0 has 0"),
        ([*hot[:3], wide, *hot[4:]], "graph 3 has 2 graph_features, but graph 0 has 1"),
    ):
        for call in (lambda graphs: regressor.fit(graphs, y), regressor.predict, regressor.status_of):
            with pytest.raises(DataError, match=message):
                call(graphs)
    for call in (lambda: regressor.fit(hot, y, graph_features=heat), lambda: regressor.predict(hot, heat)):
        with pytest.raises(DataError, match="graph_features came twice: with the graphs and as an argument; give them"):
            call()


def test_a_status_refuses_the_graphs_that_predict_refuses():
    graphs = [(*ring(4 + number % 3), np.ones((2 * (4 + number % 3), 1)) * number) for number in range(12)]
    heat, y = np.arange(12.0)[:, None], np.arange(12.0)
    regressor = GraphRegressor(**{**SMALL, "epochs": 1}, model="gat").fit(graphs, y, graph_features=heat)
    assert regressor.status_of(graphs, heat) == ["ok"] * 12
    bare = [graph[:2] for graph in graphs]
    for rows, numbers, message in (
        (bare, heat, "its edges have 0 features, but the model was trained on 1"),
        (graphs, None, "its graphs have 0 features, but the model was trained on 1"),
    ):
        for call in (regressor.predict, regressor.status_of):
            with pytest.raises(DataError, match=message):
                call(rows, numbers)

    features, edges, _ = graphs[0]
    bonds = np.arange(8.0)[:, None]
    few = {"model_dim": 8, "epochs": 1, "model": "gat"}
    of_nodes = NodeRegressor(**few).fit(features, y[:4], edges=edges, edge_features=bonds)
    of_edges = EdgeRegressor(**few).fit(features, y[:8], edges=edges, edge_features=bonds)
    for estimator in (of_nodes, of_edges):
        for call in (estimator.predict, estimator.status_of):
            with pytest.raises(DataError, match="its edges have 0 features, but the model was trained on 1"):
                call(features, edges=edges)


def test_targets_that_can_be_read_only_once_are_refused(rings):
    graphs, sizes = rings
    for kind in (GraphClassifier, GraphRegressor):
        with pytest.raises(DataError, match="y is a generator, which can be read only once; put it into a list"):
            kind(**SMALL).fit(graphs, (size for size in sizes))


def test_the_half_mass_time_of_a_merger_tree_is_predicted_at_its_root():
    """Beside the mean of all trees, the prediction without features."""
    trees, formations = merger_trees(160, num_steps=6)
    new, truth = merger_trees(60, seed=1, num_steps=6)
    regressor = GraphRegressor(**{**SMALL, "model_dim": 16}, readout="root").fit(trees, formations)
    error = np.sqrt(np.mean((regressor.predict(new) - truth) ** 2))
    assert error < 0.6 * truth.std()
    upside_down = [(features, edges[::-1]) for features, edges in new]
    with pytest.warns(UserWarning, match="rows cannot be read and nothing is predicted there"):
        assert np.isnan(regressor.predict(upside_down)).mean() > 0.5, "a chain has a root either way"
    with pytest.raises(DataError, match="expected one, the root"):
        GraphRegressor(**SMALL, readout="root").fit(upside_down, truth)


def test_a_matrix_of_ones_has_weights_beside_matrices_of_other_numbers():
    features, edges = ring(4)
    ones = scipy.sparse.csr_array((np.ones(8), (edges[1], edges[0])), shape=(4, 4))
    graphs = [(features, ones * factor) for factor in (1, 1, 2)]
    assert [row.edges.features.shape[1] for row in graphs_of(graphs)] == [1, 1, 1]
    assert [row.edges.features.shape[1] for row in graphs_of(graphs[:2])] == [0, 0]
    regressor = GraphRegressor(**{**SMALL, "epochs": 1}, model="gat").fit(graphs * 4, np.arange(12.0))
    np.testing.assert_allclose(regressor.predict(graphs[:1]), regressor.predict(graphs)[:1], rtol=1e-5)


def test_whatever_holds_them():
    features, edges = ring(4)
    adjacency = scipy.sparse.coo_array((np.ones(8), (edges[1], edges[0])), shape=(4, 4))
    data = SimpleNamespace(x=torch.tensor(features), edge_index=torch.tensor(edges), edge_attr=torch.ones(8, 2))
    plain = GraphRow(features.astype(np.float32), graphs_of([(features, edges)])[0].edges)
    found = graphs_of([(features, edges), (features, adjacency), data, (features, edges, np.ones((8, 2))), plain])
    for graph in found:
        assert graph.features.tolist() == features.tolist()
        assert {*zip(graph.edges.senders.tolist(), graph.edges.receivers.tolist(), strict=True)} == {
            *zip(*edges.tolist(), strict=True)
        }
    assert [graph.edges.features.shape for graph in found] == [(8, 0), (8, 0), (8, 2), (8, 2), (8, 0)]
    own = [SimpleNamespace(y=torch.tensor([2.5])), SimpleNamespace(y=1)]
    assert targets_of(own, None).tolist() == [2.5, 1]


@pytest.mark.parametrize(
    ("graphs", "targets", "message"),
    [
        ([], [], "X is empty; expected at least one graph"),
        ([ring(3), 7], [1.0, 2], "graph 1 is a int; expected"),
        ([ring(3), (np.eye(2), np.array([[0], [2]]))], [1.0, 2], "graph 1: edge 0 joins 0 and 2, but nodes are 0 to 1"),
        ([ring(3), (np.eye(2), np.array([[0], [1]]))], [1.0, 2], "graph 1 has 2 features of a node, but graph 0 has 1"),
        ([ring(3)], [1.0, 2], "fit: y has 2 rows, but X has 1 graph"),
        ([ring(3)], None, "fit: y is missing"),
        ([SimpleNamespace(y=[1, 2])], None, "fit: y of a graph holds several values"),
        ([ring(3), ring(4)], [1.0, np.nan], "the target cell is empty"),
    ],
)
def test_what_is_refused(graphs, targets, message):
    with pytest.raises(DataError, match=message):
        GraphRegressor(**SMALL).fit(graphs, targets)


def test_settings_that_are_refused(rings):
    graphs, sizes = rings
    for settings, message in [
        ({"validation_size": 1}, "validation_size is 1"),
        ({"readout": "leaf"}, "readout is 'leaf'; expected one of attention_sum"),
    ]:
        with pytest.raises(SettingError, match=message):
            GraphRegressor(**settings).fit(graphs, sizes)
    with pytest.raises(DataError, match="y holds 1 class"):
        GraphClassifier(**SMALL).fit(graphs, np.zeros(60, int))


def test_edge_features_that_the_model_ignores_are_named(rings):
    """As a run over files says; one number of an edge is the weight of a convolution, and is read."""
    graphs, sizes = rings
    few = {"model": "gcn", "model_dim": 8, "head_dim": 8, "num_variants": 2, "epochs": 1}
    random = np.random.default_rng(0)
    graphs = [(random.random((len(x), 2)), edges) for x, edges in graphs]
    with_two, with_one = (
        [(x, edges, random.random((edges.shape[1], count))) for x, edges in graphs] for count in (2, 1)
    )
    with pytest.warns(UserWarning, match="edges have 2 features, which model='gcn' ignores"):
        ignored = GraphRegressor(**few).fit(with_two, sizes)
    plain = GraphRegressor(**few).fit(graphs, sizes)
    np.testing.assert_array_equal(ignored.predict(with_two), plain.predict(graphs))
    weighted = GraphRegressor(**few).fit(with_one, sizes)
    assert not np.allclose(weighted.predict(with_one), plain.predict(graphs))
    ends = np.stack([np.arange(30), (np.arange(30) * 7 + 3) % 30])
    predictor = LinkPredictor(model="hop_attention", model_dim=4, num_hops=2, epochs=1)
    with pytest.warns(UserWarning, match="edges have 1 feature, which model='hop_attention' ignores"):
        predictor.fit(np.eye(30), ends, edge_features=np.ones((30, 1)))
