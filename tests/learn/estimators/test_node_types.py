"""NodeClassifier and NodeRegressor over several kinds: edge types matter; which nodes are predicted; bad arrays."""

import numpy as np
import pytest

from edgewise import DataError, Edges, NodeClassifier, NodeRegressor, SettingError
from type_cases import NUM_AUTHORS, arrays_of, debate

pytestmark = pytest.mark.filterwarnings("ignore:fit. [0-9]+ nodes have the label -1")
SMALL = {"model_dim": 16, "epochs": 100, "num_heads": 2, "dropout": 0.2}


@pytest.fixture(scope="module")
def arrays():
    nodes, edges, label = debate()
    y = np.concatenate([np.full(NUM_AUTHORS, -1), label])
    features, index, kinds, names = arrays_of(nodes, edges)
    part = np.random.default_rng(1).random(len(y))
    return features, y, index, kinds, names, np.where(part < 0.7, y, -1), (part >= 0.7) & (y >= 0)


def accuracy(arrays, model, *, with_types, **settings):
    features, y, index, kinds, names, known, test = arrays
    given = {"node_types": kinds, "edge_types": names} if with_types else {}
    features = features if with_types else np.nan_to_num(features)
    choices = {name: value for name, value in SMALL.items() if name != "num_heads" or model in ("gat", "hgt")}
    classifier = NodeClassifier(model=model, **choices, **settings).fit(features, known, index, **given)
    return classifier.score(features, y, index, nodes=test, **given)


def test_a_model_with_edge_types_predicts_what_others_cannot(arrays):
    blind = max(accuracy(arrays, model, with_types=False) for model in ("gcn", "gat"))
    for model in ("rgcn", "hgt"):
        assert accuracy(arrays, model, with_types=True) > max(0.85, blind + 0.25), blind
    assert accuracy(arrays, "rgcn", with_types=True, num_bases=4) > 0.85


def test_saved_and_loaded_predicts_the_same(arrays, tmp_path):
    features, y, index, kinds, names, known, _ = arrays
    given = {"node_types": kinds, "edge_types": names}
    classifier = NodeClassifier(**{**SMALL, "epochs": 3}).fit(features, known, index, **given)
    assert classifier.trained_.encoder.on_graph.settings.model == "hgt", (
        "what is taken where kinds are given and no model is named"
    )
    predicted = classifier.predict(features, index, **given)
    assert set(predicted[:NUM_AUTHORS]) == {-1}, "no author had a label"
    assert set(predicted[NUM_AUTHORS:]) <= {0, 1}
    classifier.save(tmp_path / "kept")
    again = NodeClassifier.load(tmp_path / "kept")
    probabilities = classifier.predict_proba(features, index, **given)
    np.testing.assert_array_equal(again.predict_proba(features, index, **given), probabilities)
    # Another order of the nodes and of the edges, and numbers that stand for the same kinds, change nothing.
    order, turned = np.random.default_rng(0).permutation(len(y)), np.random.default_rng(1).permutation(len(names))
    place = order.argsort()
    moved = again.predict_proba(
        features[order], place[index[:, turned]], node_types=kinds[order], edge_types=names[turned]
    )
    np.testing.assert_allclose(moved, probabilities[order], atol=1e-5)
    # A graph without authors: the model knows more kinds than there are.
    papers = np.isin(index, np.arange(NUM_AUTHORS)).any(axis=0) == 0
    some = again.predict(
        features[NUM_AUTHORS:], index[:, papers] - NUM_AUTHORS, node_types=kinds[NUM_AUTHORS:], edge_types=names[papers]
    )
    assert set(some) <= {0, 1}
    assert again.fingerprint(features, index, **given).shape == (len(y), 16)
    with pytest.raises(
        DataError, match=r"node_types\[0\]: the model does not know the node type 'writer'; it knows au"
    ):
        again.predict(features, index, node_types=np.where(kinds == "author", "writer", kinds), edge_types=names)
    with pytest.raises(DataError, match="its nodes lack types"):
        again.predict(np.nan_to_num(features), index, edge_types=names)
    with pytest.raises(DataError, match="its edges lack types"):
        again.predict(features, index, node_types=kinds)


def test_words_for_classes_and_numbers(arrays):
    features, y, index, kinds, names, known, _ = arrays
    given = {"node_types": kinds, "edge_types": names}
    words = np.array([{0: "no", 1: "yes", -1: None}[each] for each in known.tolist()], dtype=object)
    predicted = (
        NodeClassifier(**{**SMALL, "epochs": 2}).fit(features, words, index, **given).predict(features, index, **given)
    )
    assert predicted[:NUM_AUTHORS].tolist() == [None] * NUM_AUTHORS
    numbers = np.where(known >= 0, known + 0.5, np.nan)
    regressor = NodeRegressor(model="rgcn", model_dim=8, epochs=2).fit(features, numbers, index, **given)
    predicted = regressor.predict(features, index, **given)
    assert np.isnan(predicted).tolist() == [True] * NUM_AUTHORS + [False] * (len(y) - NUM_AUTHORS)


def test_bags_of_words_of_two_kinds():
    """Sparse features stay sparse: the model has a row of its matrix for each word of each kind."""
    random = np.random.default_rng(0)
    words = (random.random((40, 90)) < 0.05).astype(float)
    words[:, 0] = 1
    kinds = np.arange(40) % 2
    index = np.stack([np.arange(40), np.roll(np.arange(40), 1)])
    regressor = NodeRegressor(model="rgcn", model_dim=8, epochs=2)
    regressor.fit(words, random.normal(size=40), index, node_types=kinds)
    assert regressor.trained_.members[0].layers.input.weight.shape == (180, 8)
    assert np.isfinite(regressor.predict(words, index, node_types=kinds)).all()


def test_what_is_refused(arrays):
    features, _, index, kinds, names, known, _ = arrays
    full = np.nan_to_num(features)
    with pytest.raises(SettingError, match=r"model gcn ignores types .* take model rgcn or hgt"):
        NodeClassifier(model="gcn").fit(full, known, index, node_types=kinds)
    with pytest.raises(SettingError, match="model hgt needs types of nodes and edges, and none are given"):
        NodeClassifier(model="hgt").fit(full, known, index)
    with pytest.raises(DataError, match="edge_types has 3 rows, but there are"):
        NodeClassifier(**SMALL).fit(features, known, index, node_types=kinds, edge_types=names[:3])
    with pytest.raises(DataError, match="node_types has 3 rows, but there are"):
        NodeClassifier(**SMALL).fit(full, known, index, node_types=kinds[:3])
    plain = NodeClassifier(model="gcn", epochs=1).fit(full, known, index)
    with pytest.raises(SettingError, match="leave out node_types and edge_types"):
        plain.predict(full, index, node_types=kinds)
    import scipy.sparse

    adjacency = scipy.sparse.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=(2, 2))
    with pytest.raises(DataError, match=r"give Edges, or an array \(2, edge\)"):
        NodeClassifier().fit(np.eye(2), [0, 1], adjacency, edge_types=[0, 1])


def test_edges_of_the_library(arrays):
    import torch

    features, _, index, kinds, names, known, _ = arrays
    edges = Edges.from_edge_index(torch.from_numpy(index.copy()), len(kinds))
    NodeClassifier(**{**SMALL, "epochs": 1}).fit(features, known, edges, node_types=kinds, edge_types=names)
