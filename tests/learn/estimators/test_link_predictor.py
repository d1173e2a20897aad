"""LinkPredictor, the batches it learns from, its model and its scores: cases by hand, and what is refused."""

import math

import numpy as np
import pytest
import scipy.sparse
import torch

from edgewise import DataError, Edges, EdgewiseError, Forecaster, LinkPredictor, SettingError
from edgewise.graph import Graph
from edgewise.learn.estimators.links import graph_of
from edgewise.learn.networks.graph_settings import DECODERS, LinkSettings, NodeSettings, NodeSizes
from edgewise.learn.networks.link import LinkModel
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.links import Links, LinkSplits, random_splits
from edgewise.learn.tasks.links.model import ScaledGraph, TrainingLinkLoader
from edgewise.learn.tasks.links.settings import SETTINGS
from edgewise.learn.training.links import link_scores, simple_links

SMALL = {"model": "gcn", "model_dim": 8, "epochs": 20, "batch_size": 50, "dropout": 0.2}


@pytest.fixture(scope="module")
def graph():
    """Four teams whose members know each other."""
    random = np.random.default_rng(0)
    team = np.arange(60) % 4
    senders = random.integers(0, 60, 300)
    receivers = (senders + 4 * random.integers(1, 15, 300)) % 60
    return np.eye(4)[team] + 0.5 * random.normal(size=(60, 4)), team, np.stack([senders, receivers])


@pytest.mark.filterwarnings("ignore:fit. [0-9]+ missing numbers? of edges")
def test_numbers_of_validation_and_test_links_teach_nothing(graph):
    """Missing numbers of edges were filled with a median that those of validation and test links moved."""
    features, _, index = graph
    index = index[:, np.unique(np.sort(index, axis=0), axis=1, return_index=True)[1]]
    numbers = np.random.default_rng(1).random((index.shape[1], 1))
    numbers[::9] = np.nan
    splits = np.array(["train", "train", "val", "test", "train"])[np.arange(index.shape[1]) % 5]
    changed = np.where((splits == "train")[:, None], numbers, 1000 * numbers)
    first, second = (
        LinkPredictor(**SMALL | {"model": "gatv2", "epochs": 1}).fit(
            features, index, edge_features=of_edges, splits=splits
        )
        for of_edges in (numbers, changed)
    )
    assert first.trained_.encoder.edge_imputer == second.trained_.encoder.edge_imputer
    assert first.metrics_["test"] == second.metrics_["test"]


def test_a_predictor(graph, tmp_path):
    features, _, index = graph
    predictor = LinkPredictor(**SMALL).fit(features, index)
    assert predictor.metrics_["test"]["roc_auc"] > 0.7
    pairs = np.array([[0, 4], [1, 5], [0, 1], [2, 3]])
    found = predictor.predict_proba(pairs)
    np.testing.assert_allclose(found.sum(1), 1)
    assert found[:2, 1].min() > found[2:, 1].max(), "members of a team are linked more often"
    assert predictor.predict(torch.tensor(pairs)).tolist() == (found[:, 1] > 0.5).tolist()
    np.testing.assert_array_equal(predictor.predict_proba(pairs[:, ::-1]), found)
    assert predictor.predict_proba(np.zeros((0, 2), dtype=int)).shape == (0, 2)
    predictor.save(tmp_path / "kept")
    again = LinkPredictor.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict_proba(pairs), found)
    matrix = scipy.sparse.coo_array((np.ones(300), (index[1], index[0])), shape=(60, 60))
    for edges in (index, Edges(*torch.tensor(index), 60, 60)):
        np.testing.assert_allclose(again.predict_proba(pairs, features, edges), found, atol=1e-6)
    assert again.predict_proba(pairs, features, matrix).shape == (4, 2)
    with pytest.raises(DataError, match="but no edges; give them too"):
        again.predict_proba(pairs, features)
    with pytest.raises(EdgewiseError, match=r"LinkPredictor is not fitted yet; call fit"):
        LinkPredictor().predict([[0, 1]])


def test_nodes_of_which_nothing_is_known(graph):
    _, _, index = graph
    for edges in (index, Edges(*torch.tensor(index), 60, 60)):
        assert graph_of(None, {"edges": edges}, is_directed=True).features.shape == (60, 0)
    predictor = LinkPredictor(**SMALL).fit(None, index)
    assert predictor.predict_proba([[0, 4]]).shape == (1, 2)
    with pytest.raises(DataError, match="the node '60' was not in the training"):
        predictor.predict_proba([[0, 4]], edges=np.array([[0], [60]]))


def test_parts_that_are_given(graph):
    features, _, index = graph
    links = Links.of(EdgeList(*index, np.zeros((300, 0), dtype=np.float32)), 60, False)
    parts = np.array(["train", "val", "test", None], dtype=object)[links.of_edge % 4]
    small = {**SMALL, "batch_size": 20, "epochs": 2}
    rows = LinkPredictor(**small).fit(features, index, splits=parts).metrics_["rows"]
    assert rows == {part: int((np.arange(len(links)) % 4 == place).sum())
                    for place, part in enumerate(("train", "val", "test"))}  # fmt: skip
    with pytest.raises(DataError, match="splits has 2 rows, but there are 300 edges"):
        LinkPredictor(**SMALL).fit(features, index, splits=["train", "val"])
    with pytest.raises(DataError, match="splits, edge 0: 'tests' is not a split"):
        LinkPredictor(**SMALL).fit(features, index, splits=["tests"] * 300)
    with pytest.raises(SettingError, match="splits and validation are both given"):
        LinkPredictor(**SMALL).fit(features, index, splits=["train"] * 300, validation=[True] * 300)
    with pytest.raises(SettingError, match="fit: y and edges are both given and mean the same"):
        LinkPredictor(**SMALL).fit(features, index, edges=index)
    with pytest.raises(SettingError, match="fit: y and edges are both given and mean the same"):
        Forecaster(context=1, epochs=1).fit(np.zeros((20, 60)), index, edges=index)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([0, 1], r"pairs is int64 \(2,\); expected whole numbers \(pair, 2\)"),
        ([[0.5, 1]], "pairs is float64"),
        ([[0, 1], [0, 60]], r"pair 1 is \[0, 60\], but nodes are 0 to 59"),
        ([[-1, 1]], r"pair 0 is \[-1, 1\], but nodes are 0 to 59"),
        ([[3, 3]], r"pair 0 is \[3, 3\]: a link joins two different nodes"),
    ],
)
def test_pairs_that_are_refused(graph, pairs, message):
    features, _, index = graph
    predictor = LinkPredictor(**{**SMALL, "epochs": 1}).fit(features, index)
    with pytest.raises(DataError, match=message):
        predictor.predict(pairs)


def test_graphs_and_settings_that_are_refused(graph, shapes_unchecked):
    features, _, index = graph
    with pytest.raises(DataError, match="edge 0 joins 0 and 70"):
        LinkPredictor(**SMALL).fit(features, np.array([[0], [70]]))
    with pytest.raises(SettingError, match="decoder is 'cosine'; expected one of dot, hadamard_mlp, bilinear"):
        LinkPredictor(decoder="cosine").fit(features, index)
    with pytest.raises(SettingError, match="decoder is 'cosine'"):
        LinkSettings("cosine")
    with pytest.raises(SettingError, match="no data file was given"):
        SETTINGS.of({})


@pytest.fixture
def loader(graph):
    """A loader over the graph in both directions, with repeated edges and loops, in five steps."""
    _, _, (senders, receivers) = graph
    senders, receivers = np.append(senders, [7, 7, 9]), np.append(receivers, [7, 7, 9])
    edges = EdgeList(senders, receivers, np.zeros((303, 0), dtype=np.float32)).both_ways(60)
    links = Links.of(edges, 60, False)
    parts = LinkSplits.of(links, random_splits(links, (0.7, 0.1, 0.2), 0))
    scaled = ScaledGraph(torch.zeros(60, 1), edges, False)
    return TrainingLinkLoader(scaled, links, parts, math.ceil(len(parts.train) / 5), 2, 0)


def test_no_message_passes_along_the_link_that_is_predicted(loader):
    links, splits = loader.links, loader.splits
    hidden = set(np.concatenate([splits.val, splits.test]).tolist())
    predicted: list[int] = []
    drawn = []
    for batch in loader:
        pairs = batch.supervision
        numbers = links.pairs.of(pairs.senders.numpy(), pairs.receivers.numpy())
        is_link = batch.targets[:, 0].numpy() == 1
        positives, others = np.searchsorted(links.numbers, numbers[is_link]), numbers[~is_link]
        predicted += positives.tolist()
        edges = batch.graph.edges
        apart = edges.senders != edges.receivers
        seen = links.pairs.of(edges.senders[apart].numpy(), edges.receivers[apart].numpy())
        carried = set(np.searchsorted(links.numbers, seen).tolist())
        assert carried.isdisjoint(positives.tolist()), "no link that is told, in either way, however often it stands"
        assert carried.isdisjoint(hidden)
        assert carried | set(positives.tolist()) == set(splits.train.tolist()), "and all others"
        assert int((~apart).sum()) == 3, "loops stay"
        assert len(others) == 2 * len(positives)
        assert not np.isin(others, links.numbers[splits.train]).any()
        drawn.append(others)
    assert sorted(predicted) == splits.train.tolist(), "an epoch tells every training link once"
    everything = np.concatenate(drawn)
    assert not np.array_equal(drawn[0][:20], drawn[1][:20]), "drawn anew in every step"
    assert np.isin(everything, links.numbers[splits.test]).any(), "training does not know which pairs the test holds"


def test_an_epoch_depends_on_the_seed_and_its_number_alone(loader):
    first = [batch.supervision.senders.tolist() for batch in loader]
    assert [batch.supervision.senders.tolist() for batch in loader] == first
    loader.epoch = 1
    assert [batch.supervision.senders.tolist() for batch in loader] != first


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_link_has_a_direction_where_edges_have_one(decoder, is_directed):
    torch.manual_seed(0)
    model = LinkModel(NodeSizes(3, 0, 0), NodeSettings(model="gcn", model_dim=4), LinkSettings(decoder),
                      is_directed=is_directed).eval()  # fmt: skip
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    edges = Edges(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0]), 5, 5)
    vectors = model.vectors(Graph(torch.randn(5, 3), edges))
    assert vectors.shape == (5, 8 if is_directed else 4)
    torch.testing.assert_close(vectors.mean(0), torch.zeros(vectors.shape[1]), atol=1e-6, rtol=0)
    torch.testing.assert_close(vectors.square().mean(), torch.tensor(1.0))
    i, j = torch.tensor([0, 1, 2]), torch.tensor([2, 4, 3])
    there, back = model.score_pairs(vectors, i, j), model.score_pairs(vectors, j, i)
    assert there.shape == (3, 1)
    if is_directed:
        assert not torch.allclose(there, back)
    else:
        torch.testing.assert_close(there, back)
    # Features that say nothing give every node the same vector: zero, with finite gradients.
    alike = Graph(torch.zeros(5, 3), edges)
    assert (model.vectors(alike) == 0).all()
    model.score_pairs(model.vectors(alike), i, j).sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_scores_by_hand():
    # Against 0.1, 0.4, 0.4, 0.9 the links 0.95, 0.4, 0.2 have the ranks 1, 1 + 1 + ½·2 = 3 and 1 + 3 = 4.
    found = link_scores(np.array([0.95, 0.4, 0.2]), np.array([0.4, 0.9, 0.1, 0.4]))
    assert found["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 4) / 3)
    assert found["roc_auc"] == pytest.approx((4 + 2 + 1) / 12)
    assert (found["hits@10"], found["num_links"], found["num_others"]) == (None, 3, 4), "there are no ten to be above"
    others = np.arange(20.0)
    found = link_scores(np.array([9.5, 10.0, 10.5, 30]), others)
    assert found["hits@10"] == 2 / 4, "above the tenth largest, 10, not level with it"
    assert found["hits@50"] is None
    assert link_scores(np.zeros(0), others)["mrr"] is None


def test_neighbors_by_hand():
    # 0 and 3 both know 1 (who knows 0, 2, 3) and 2 (who knows 0, 1, 3, 4); 4 knows 2 alone, 5 none.
    i, j = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 2, 3, 3, 4])
    features = scipy.sparse.csr_array(np.array([[1, 0], [0, 2], [1, 1], [3, 0], [0, 0], [0, 1.0]]))
    simple = simple_links(i, j, 6, False, features)
    pairs = np.array([0, 4, 0, 5]), np.array([3, 0, 5, 4])
    assert list(simple) == ["common_neighbors", "adamic_adar", "preferential", "features"]
    assert simple["common_neighbors"](*pairs).tolist() == [2, 1, 0, 0]
    expected = [1 / math.log(3) + 1 / math.log(4), 1 / math.log(4), 0, 0]
    np.testing.assert_allclose(simple["adamic_adar"](*pairs), expected)
    assert simple["preferential"](*pairs).tolist() == [2 * 2, 1 * 2, 0, 0]
    np.testing.assert_allclose(simple["features"](np.array([0, 0, 0]), np.array([3, 2, 4])), [1, 0.5**0.5, 0])
    one_way = simple_links(i, j, 6, True)
    assert list(one_way) == ["common_neighbors", "adamic_adar", "preferential", "other_way"]
    assert one_way["common_neighbors"](*pairs).tolist() == [2, 1, 0, 0]
    assert one_way["preferential"](*pairs).tolist() == [2 * 2, 0, 0, 0]
    assert one_way["other_way"](np.array([1, 0]), np.array([0, 1])).tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(8))
def test_neighbors_against_two_loops(seed):
    random = np.random.default_rng(seed)
    table = np.triu(random.random((9, 9)) < 0.3, 1)
    near = table | table.T
    i, j = np.triu_indices(9, 1)
    simple = simple_links(*np.nonzero(table), 9, False)
    for place, (one, other) in enumerate(zip(i, j)):
        both = [k for k in range(9) if near[one, k] and near[other, k]]
        assert simple["common_neighbors"](i, j)[place] == len(both)
        rarity = sum(1 / math.log(near[k].sum()) for k in both)
        assert simple["adamic_adar"](i, j)[place] == pytest.approx(rarity)


def test_double_precision_reaches_the_graph_of_a_batch(graph):
    features, _, index = graph
    predictor = LinkPredictor(**{**SMALL, "precision": "64", "epochs": 1}).fit(features, index)
    assert np.isfinite(predictor.predict_proba([[0, 4]])).all()
