"""Models of graphs that Python trained predict the same on the command line, and the other way round."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError, EdgeRegressor, GraphRegressor, LinkPredictor, NodeRegressor

SMALL = {"model": "gat", "model_dim": 8, "num_layers": 1, "epochs": 2, "random_state": 0}
QUICK = ["--model", "gat", "--model-dim", 8, "--num-layers", 1, "--epochs", 2]
COUNT = 24
NAMES = [f"n{number}" for number in range(COUNT)]
RANDOM = np.random.default_rng(0)
FEATURES = pd.DataFrame({"mass": RANDOM.normal(size=COUNT), "charge": 10 + RANDOM.normal(size=COUNT)})
PATH = np.stack([np.arange(COUNT - 1), np.arange(1, COUNT)])
BOTH_WAYS = np.concatenate([PATH, PATH[::-1]], axis=1)
BONDS = pd.DataFrame({"length": RANDOM.normal(size=COUNT - 1), "order": 5 + RANDOM.normal(size=COUNT - 1)})
Y = FEATURES["mass"].to_numpy() * 3


@pytest.fixture
def tables(tmp_path):
    """The nodes, their columns in another order than in training, and their edges, each once, likewise."""
    nodes = pd.DataFrame({"node": NAMES}).join(FEATURES[["charge", "mass"]])
    ends = pd.DataFrame({"sender": [NAMES[end] for end in PATH[0]], "receiver": [NAMES[end] for end in PATH[1]]})
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    ends.join(BONDS[["order", "length"]]).to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path / "nodes.csv", tmp_path / "edges.csv"


@pytest.fixture
def predict(edgewise, tmp_path):
    """The numbers that the command line predicts with a model."""

    def run(model, *words, column="target_pred"):
        model.save(tmp_path / "saved", overwrite=True)
        code, _, err = edgewise("predict", tmp_path / "saved", *words, "-o", tmp_path / "new.csv", "--overwrite")
        assert code == 0, err
        return pd.read_csv(tmp_path / "new.csv")[column].to_numpy()

    return run


def test_nodes_have_the_edges_and_the_features_of_the_training(tables, predict):
    nodes, edges = tables
    one_way = NodeRegressor(**SMALL).fit(FEATURES, Y, PATH, edge_features=BONDS)
    both_ways = NodeRegressor(**SMALL).fit(FEATURES, Y, BOTH_WAYS, edge_features=pd.concat([BONDS, BONDS]))
    expected = one_way.predict(FEATURES, PATH, edge_features=BONDS)
    np.testing.assert_allclose(predict(one_way, nodes, "--edges", edges), expected, atol=1e-4)
    twice = one_way.predict(FEATURES, BOTH_WAYS, edge_features=pd.concat([BONDS, BONDS]))
    assert np.abs(twice - expected).max() > 1e-3

    # A file may have each edge once where all of the training went both ways.
    expected = both_ways.predict(FEATURES, BOTH_WAYS, edge_features=pd.concat([BONDS, BONDS]))
    np.testing.assert_allclose(predict(both_ways, nodes, "--edges", edges), expected, atol=1e-4)
    table = pd.read_csv(edges)
    reverse = table.rename(columns={"sender": "receiver", "receiver": "sender"})
    pd.concat([table, reverse]).to_csv(edges, index=False)
    np.testing.assert_allclose(predict(both_ways, nodes, "--edges", edges), expected, atol=1e-4)
    np.testing.assert_allclose(predict(one_way, nodes, "--edges", edges), twice, atol=1e-4)


def test_features_without_names_are_named_on_the_command_line(tables, edgewise, tmp_path):
    """Their table was said to have 2 features, the degrees that stood for them, and no remedy."""
    nodes, edges = tables
    x = FEATURES.assign(size=FEATURES["mass"] ** 2).to_numpy()
    pd.DataFrame(x, columns=["a", "b", "c"]).assign(node=NAMES).to_csv(nodes, index=False)
    model = NodeRegressor(**SMALL).fit(x, Y, PATH)
    model.save(tmp_path / "saved")
    words = ("predict", tmp_path / "saved", nodes, "--edges", edges, "-o", tmp_path / "new.csv")
    code, _, err = edgewise(*words)
    assert code == 2 and "its nodes have no features, but the model was trained on 3; give them" in err, err
    assert edgewise(*words, "--feature-columns", "a", "b", "c")[0] == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "new.csv")["target_pred"], model.predict(x, PATH), atol=1e-4)

    GraphRegressor(**SMALL).fit([(x[:5], PATH[:, :4]), (x[5:9], PATH[:, :3])] * 6, [1.0, 2.0] * 6).save(
        tmp_path / "many"
    )
    pd.read_csv(nodes).assign(graph="g").to_csv(nodes, index=False)
    words = ("predict", tmp_path / "many", nodes, "--edges", edges, "--graph-column", "graph", "-o", tmp_path / "g.csv")
    code, _, err = edgewise(*words)
    assert code == 2 and "its nodes have no features, but the model was trained on 3; give them" in err, err


def test_a_store_has_the_direction_of_the_training(tables, edgewise, tmp_path):
    nodes, edges = tables
    model = NodeRegressor(**SMALL).fit(FEATURES, Y, PATH)
    expected = model.predict(FEATURES, PATH)
    model.save(tmp_path / "saved")
    for name, words in (("both", []), ("one", ["--directed"])):
        code, _, err = edgewise(
            "prepare", nodes, edges, "--feature-columns", "charge", "mass", *words, "-o", tmp_path / name
        )
        assert code == 0, err
    code, _, err = edgewise("predict", tmp_path / "saved", tmp_path / "both", "-o", tmp_path / "new.csv")
    assert code == 2 and "its edges go both ways, in the training they went one way" in err
    code, _, err = edgewise("predict", tmp_path / "saved", tmp_path / "one", "-o", tmp_path / "new.csv")
    assert code == 0, err
    found = pd.read_csv(tmp_path / "new.csv")["target_pred"].to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_edges_have_the_features_of_the_training(tables, predict):
    nodes, edges = tables
    model = EdgeRegressor(**SMALL).fit(FEATURES, Y[:-1], PATH, edge_features=BONDS)
    expected = model.predict(FEATURES, PATH, edge_features=BONDS)
    np.testing.assert_allclose(predict(model, edges, "--nodes", nodes), expected, atol=1e-4)


def test_links_have_the_features_of_the_training(tables, predict):
    nodes, edges = tables
    model = LinkPredictor(**SMALL, baselines=False).fit(FEATURES, PATH, edge_features=BONDS)
    expected = model.predict_proba(PATH.T, FEATURES, PATH, edge_features=BONDS)[:, 1]
    found = predict(model, edges, "--nodes", nodes, "--edges", edges, column="link_prob")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_graphs_have_the_edges_and_the_features_of_the_training(tables, predict):
    nodes, edges = (pd.read_csv(table) for table in tables)
    graph_of_node = np.arange(COUNT) // 3
    nodes.assign(graph=graph_of_node).to_csv(tables[0], index=False)
    is_within = PATH[0] // 3 == PATH[1] // 3
    edges[is_within].to_csv(tables[1], index=False)
    senders, receivers = PATH[:, is_within] % 3
    graphs = [
        (FEATURES[graph_of_node == number], np.stack([senders, receivers])[:, :2], BONDS[is_within].iloc[rows])
        for number, rows in enumerate(np.arange(16).reshape(8, 2))
    ]
    both_ways = [(part, np.concatenate([ends, ends[::-1]], 1), pd.concat([one, one])) for part, ends, one in graphs]
    one = GraphRegressor(**SMALL).fit(graphs, Y[::3])
    both = GraphRegressor(**SMALL).fit(both_ways, Y[::3])
    assert np.abs(one.predict(graphs) - one.predict(both_ways)).max() > 1e-4
    for model, held in ((one, graphs), (both, both_ways)):
        np.testing.assert_allclose(predict(model, tables[0], "--edges", tables[1]), model.predict(held), atol=1e-4)


def test_a_feature_may_have_the_name_of_another_column(tables, predict):
    """The target is called as y is, and rows have weights; the names of features stay all the same."""
    nodes, edges = tables
    features = FEATURES.set_axis(["weight", "target"], axis=1)
    table = pd.read_csv(nodes).rename(columns={"mass": "weight", "charge": "target"})
    table.to_csv(nodes, index=False)
    model = NodeRegressor(**SMALL).fit(features, pd.Series(Y, name="weight"), PATH, sample_weight=np.ones(COUNT))
    found = predict(model, nodes, "--edges", edges, column="target__pred")
    np.testing.assert_allclose(found, model.predict(features, PATH), atol=1e-4)


def test_blank_names_and_graphs_without_edges_are_taken_as_they_are(tmp_path):
    blank = FEATURES.set_axis(["mass", " "], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NodeRegressor(**SMALL).fit(blank, Y, np.zeros((2, 0), int))
    model.save(tmp_path / "saved")
    on_graph = json.loads((tmp_path / "saved/model.json").read_text())
    assert on_graph["graph"]["directed"] and not on_graph["columns"]["descriptors_columns"]


@pytest.mark.parametrize("task", ["nodes", "edges", "links", "graphs"])
def test_a_run_has_its_edges_and_features_in_python(task, tables, edgewise, tmp_path):
    nodes, edges = tables
    table, bonds = pd.read_csv(nodes), pd.read_csv(edges)
    bonds["z"], words = Y[:-1], [nodes, "--edges", edges, "--target-columns", "y"]
    graph_of_node = np.arange(COUNT) // 3
    if task == "graphs":
        bonds = bonds[PATH[0] // 3 == PATH[1] // 3]
        table["graph"], words = graph_of_node, [*words, "--graph-column", "graph"]
    if task == "edges":
        words = [edges, "--nodes", nodes, "--target-columns", "z"]
    if task == "links":
        words = [nodes, "--edges", edges]
    table["y"] = Y[graph_of_node * 3] if task == "graphs" else Y
    table.to_csv(nodes, index=False)
    bonds.to_csv(edges, index=False)
    code, _, err = edgewise(
        *("train", task, *words, "--feature-columns", "charge", "mass", "--edge-feature-columns", "order", "length"),
        *(*QUICK, "-o", tmp_path / "run"),
    )
    assert code == 0, err

    words = [nodes, "--edges", edges] if task in ("nodes", "graphs") else [edges, "--nodes", nodes]
    words += ["--edges", edges] if task == "links" else []
    code, _, err = edgewise("predict", tmp_path / "run", *words, "-o", tmp_path / "new.csv")
    assert code == 0, err
    column = {"nodes": "y_pred", "edges": "z_pred", "links": "link_prob", "graphs": "y_pred"}[task]
    expected = pd.read_csv(tmp_path / "new.csv")[column].to_numpy()
    numbers = {name: number for number, name in enumerate(NAMES)}
    ends = np.stack([bonds["sender"].map(numbers), bonds["receiver"].map(numbers)])
    features = bonds[["length", "order"]]
    if task in ("nodes", "graphs"):  # these take edges as they are
        ends, features = np.concatenate([ends, ends[::-1]], axis=1), pd.concat([features, features])
    if task == "nodes":
        found = NodeRegressor.load(tmp_path / "run").predict(FEATURES, ends, edge_features=features)
    elif task == "edges":
        found = EdgeRegressor.load(tmp_path / "run").predict(FEATURES, ends, edge_features=features)
    elif task == "links":
        found = LinkPredictor.load(tmp_path / "run").predict_proba(ends.T, FEATURES, ends, edge_features=features)[:, 1]
    else:
        parts = [ends[0] // 3 == number for number in range(8)]
        graphs = [
            (FEATURES[graph_of_node == number], ends[:, rows] % 3, features[rows]) for number, rows in enumerate(parts)
        ]
        found = GraphRegressor.load(tmp_path / "run").predict(graphs)
        with pytest.raises(DataError, match="graph 0 lacks charge"):
            GraphRegressor.load(tmp_path / "run").predict([(graphs[0][0][["mass"]], *graphs[0][1:])])
    np.testing.assert_allclose(found, expected, atol=1e-4)
