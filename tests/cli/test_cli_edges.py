"""`edgewise train edges`: classes and numbers of the edges of a graph, from tables to predictions."""

import json

import numpy as np
import pytest
import torch

from batch_cases import batch_of, changed
from cli_tables import read_csv, write_csv
from edgewise import Edges
from edgewise.learn.networks.edge import EdgeModel
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.tasks.edges.task import TABLE
from edgewise.learn.training.folder import RunFolder

SMALL = ["--model-dim", 8, "--patience", 40, "--learning-rate", 0.02, "--split-sizes", 0.6, 0.2, 0.2]


@pytest.fixture
def graph(tmp_path):
    """Accounts of two kinds; a transfer between different ones is fraud, and costs more the larger its amount."""
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, 40)
    senders = random.integers(0, 40, 200)
    receivers = (senders + random.integers(1, 40, 200)) % 40
    amount = random.random(200).round(3)
    differ = kind[senders] != kind[receivers]
    nodes = {"account": [f"n{node}" for node in range(40)], "x": (2 * kind - 1 + 0.1 * random.normal(size=40)).round(3)}
    edges = {"from": [f"n{node}" for node in senders], "to": [f"n{node}" for node in receivers], "amount": amount}
    edges |= {"fraud": np.where(differ, "yes", "no"), "fee": (amount + differ).round(3)}
    return write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)


@pytest.fixture
def learn(edgewise, graph, tmp_path):
    nodes, edges = graph

    def run(target, *words, data=edges, epochs=120):
        names = ["--nodes", nodes, "--node-column", "account", "--edge-feature-columns", "amount"]
        flags = ["--target-columns", target, "--ignore-columns", *({"fraud", "fee"} - {target}), *SMALL]
        return edgewise("train", "edges", data, *names, *flags, "--epochs", epochs, *words, "-o", tmp_path / "run")

    return run


def test_fraud_is_learned_and_predicted(learn, graph, edgewise, tmp_path):
    code, out, err = learn("fraud", "--model", "gin")
    assert code == 0, err
    for words in ("200 rows", "40 nodes with 1 feature; messages go both ways", "120 training, 40 validation"):
        assert words in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["fraud"]["accuracy"] > 0.9
    assert set(metrics["baselines"]) == {"mean", "forest"}
    found = tmp_path / "found.csv"
    code, _, err = edgewise("predict", tmp_path / "run", graph[1], "--nodes", graph[0], "--node-column", "account",
                            "-o", found)  # fmt: skip
    assert (code, "200 of 200 rows predicted" in err) == (0, True), err
    predicted = {row["row_in_data"]: row["fraud_pred"] for row in read_csv(tmp_path / "run/test_predictions.csv")}
    again = read_csv(found)
    assert {row: again[int(row)]["fraud_pred"] for row in predicted} == predicted
    code, _, err = edgewise("predict", tmp_path / "run", graph[1], "-o", tmp_path / "more.csv")
    assert (code, "--nodes" in err) == (2, True)


def test_a_number_of_an_edge_depends_on_its_features(learn, tmp_path):
    code, _, err = learn("fee", "--model", "attention")
    assert code == 0, err
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["fee"]["r2"] > 0.8
    assert 0 <= metrics["coverage"]["test"]["fee"] <= 1
    trained = TABLE.load(RunFolder(tmp_path / "run"))
    assert len(trained.encoder.edge_scaler.mean) == 1


def test_the_graph_alone_has_names_and_degrees(edgewise, tmp_path):
    edges = {"a": list("abcd") * 5, "b": list("bcda") * 5, "y": [1.0, 2.0, 3.0, 4.0] * 5}
    data = write_csv(tmp_path / "edges.csv", edges)
    code, out, err = edgewise("train", "edges", data, "--target-columns", "y", "--epochs", 2, "-o", tmp_path / "run")
    assert (code, "4 nodes with 2 features" in out) == (0, True), err
    assert "--node-column" not in out, "a table of nodes has it, and there is none"


def test_bad_input_is_named(learn, graph, edgewise, tmp_path):
    nodes, edges = graph
    lines = edges.read_text().splitlines()
    edges.write_text("\n".join([*lines, "n0,nobody,0.5,no,1.0"]) + "\n")
    code, out, err = learn("fraud", "--model", "gin", epochs=1)
    assert (code, "'nobody' is not a node" in out) == (0, True), err
    code, _, err = edgewise("train", "edges", edges, "--descriptors-columns", "x", "-o", tmp_path / "other")
    assert (code, "--features and --node-column need --nodes" in err) == (2, True)
    code, _, err = edgewise("train", "edges", edges, "--edges", edges, "-o", tmp_path / "other")
    assert (code, "--edges" in err) == (2, True)
    nodes.write_text(nodes.read_text().replace("n1,", "n1,?", 1))
    code, _, err = learn("fraud", "--model", "gin", "--overwrite")
    assert (code, "nodes.csv, line" in err) == (2, True)


def test_roles_of_columns_of_edges_and_tables_without_an_edge(learn, graph, edgewise, tmp_path):
    """A target among the features was said to be ignored, sender and receiver were one column, and a line was 0."""
    for words, message in (
        (["--edge-feature-columns", "fraud"], "'fraud' is named in --target-columns and in --edge-feature-columns: a"),
        (["--edge-columns", "from", "from"], "'from' is named in --edge-columns twice: a column has one role"),
        (["--edge-columns", "amount", "to"], "'amount' is named in --edge-columns and in --edge-feature-columns: a"),
        (["--group-column", "from"], "'from' is named in --group-column, but holds an end of each edge: a column has"),
        (["--ignore-columns", "x"], "it is a feature of the nodes, and --ignore-columns names a column of the"),
    ):
        code, _, err = learn("fraud", *words)
        assert code == 2 and message in err, err

    columns = {"from": ["a", "b"], "to": ["n1", "n2"], "amount": [1, 2], "fraud": ["no", "yes"]}
    unknown = write_csv(tmp_path / "unknown.csv", columns)
    nodes = ["--nodes", graph[0], "--node-column", "account"]
    words = [*nodes, "--target-columns", "fraud", "--edge-feature-columns", "amount", *SMALL, "-o", tmp_path / "run"]
    code, _, err = edgewise("train", "edges", unknown, *words)
    assert code == 2 and "none of its 2 rows can be used; line 2, from: 'a' is not a node of" in err, err
    code, _, err = edgewise("train", "edges", graph[1], *words, "--ignore-columns", "fee", "--epochs", 1)
    assert code == 0, err
    code, _, err = edgewise("predict", tmp_path / "run", unknown, *nodes, "-o", tmp_path / "out.csv")
    assert code == 0 and "0 of 2 rows predicted" in err, err
    assert "'a' is not a node of" in read_csv(tmp_path / "out.csv")[0]["status"]


def test_words_of_nodes_and_edges_are_features_and_layers_without_edge_features_leave_them_to_the_head(
    edgewise, tmp_path
):
    random = np.random.default_rng(0)
    kind, senders = np.array(["shop", "bank"])[np.arange(20) % 2], random.integers(0, 20, 120)
    receivers, way = (
        (senders + random.integers(1, 20, 120)) % 20,
        np.array(["card", "cash"])[random.integers(0, 2, 120)],
    )
    nodes = write_csv(tmp_path / "nodes.csv", {"id": np.arange(20), "kind": kind})
    columns = {"from": senders, "to": receivers, "way": way}
    new = write_csv(tmp_path / "new.csv", {**columns, "way": np.where(np.arange(120) == 3, "barter", way)})
    is_fraud = (way == "cash") & (kind[senders] != kind[receivers])
    edges = write_csv(tmp_path / "edges.csv", {**columns, "fraud": np.where(is_fraud, "yes", "no")})
    words = ["--nodes", nodes, "--category-columns", "kind", "--edge-category-columns", "way"]
    code, out, err = edgewise("train", "edges", edges, *words, "--target-columns", "fraud", *SMALL, "--epochs", 120,
                              "-o", tmp_path / "run")  # fmt: skip
    assert (code, "2 features of an edge that --model sage ignores" in out) == (0, True), err
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["fraud"]["accuracy"] > 0.9
    trained = TABLE.load(RunFolder(tmp_path / "run"))
    on_graph = trained.encoder.on_graph
    assert (on_graph.categories, on_graph.edge_categories) == ({"kind": ["bank", "shop"]}, {"way": ["card", "cash"]})
    code, _, err = edgewise("predict", tmp_path / "run", new, "--nodes", nodes, "-o", tmp_path / "found.csv")
    assert (code, "119 of 120 rows predicted" in err) == (0, True), err
    assert "'barter' is not one of the 2 known words" in read_csv(tmp_path / "found.csv")[3]["status"]
    code, _, err = edgewise("predict", tmp_path / "run", new, "-o", tmp_path / "more.csv")
    assert (code, "--nodes nodes.csv" in err) == (2, True)


def test_edges_are_explained(learn, graph, edgewise, tmp_path):
    assert learn("fraud", "--model", "gin", epochs=40)[0] == 0
    rows = read_csv(graph[1])
    target = tmp_path / "explanation.json"
    words = ["--method", "occlusion", "shapley", "-o", target]
    code, _, err = edgewise("explain", tmp_path / "run", rows[7]["from"], rows[7]["to"], *words)
    assert code == 0, err
    (found,) = json.loads(target.read_text())
    assert (found["title"], found["other_end"]) == (f"{rows[7]['from']} – {rows[7]['to']}", 1)
    assert [each["name"] for each in found["attributions"]] == ["occlusion", "shapley"]
    test = read_csv(tmp_path / "run/test_predictions.csv")
    code, _, err = edgewise("explain", tmp_path / "run", "--method", "occlusion", "-o", target, "--overwrite")
    assert code == 0, err
    titles = [each["title"] for each in json.loads(target.read_text())]
    assert titles == [f"{row['from']} – {row['to']}" for row in test[:10]], "rows of the test are explained by default"
    code, _, err = edgewise("explain", tmp_path / "run", "n0", "zoe", "-o", target, "--overwrite")
    assert (code, "to: there is no node 'zoe'; the 40 nodes are n0, n1" in err) == (2, True), err
    known = {frozenset((row["from"], row["to"])) for row in rows}
    apart = next(f"n{node}" for node in range(1, 40) if frozenset(("n0", f"n{node}")) not in known)
    code, _, err = edgewise("explain", tmp_path / "run", "n0", apart, "-o", target, "--overwrite")
    assert (code, f"the edge n0 – {apart} does not exist; name the two nodes" in err) == (2, True), err
    graph[0].unlink()
    code, _, err = edgewise("explain", tmp_path / "run", "n0", "n1", "-o", target, "--overwrite")
    assert (code, "nodes.csv" in err, "bring" in err) == (2, True, True), err


@pytest.mark.parametrize("is_directed", [False, True])
def test_the_model_by_hand(is_directed):
    """The network on both ends and the features of the edge; without directions the order of the ends is nothing."""
    torch.manual_seed(0)
    settings = NodeSettings(model="gcn", model_dim=4, dropout=0.0)
    model = EdgeModel(NodeSizes(3, 0, 2), 1, settings, is_directed=is_directed).eval()
    edges = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 3, 3)
    nodes, first, second = torch.randn(3, 3), torch.tensor([0, 1]), torch.tensor([1, 2])
    row_features = torch.tensor([[0.5], [-1.0]])
    batch = batch_of(nodes, edges, senders=first, receivers=second, row_features=row_features)
    vectors = (model.encoder(batch.graph) + model.own(nodes)).relu()

    def by_hand(first, second):
        return model.hidden(torch.cat([vectors[first], vectors[second], row_features], 1)).relu()

    there, back = by_hand(first, second), by_hand(second, first)
    expected = model.output(there if is_directed else (there + back) / 2)
    torch.testing.assert_close(model(batch), expected)
    turned = changed(batch, senders=second, receivers=first)
    assert torch.allclose(model(turned), model(batch)) == (not is_directed)


@pytest.mark.parametrize("directed", [False, True])
def test_an_edge_and_its_reverse_are_the_same_unless_edges_are_one_way(directed, edgewise, tmp_path):
    """Half of the pairs stand in the test set the other way round: the model gives both ways one value."""
    train = {"source": list("abcd"), "target": list("bcde"), "y": [1.0, 2.0, 3.0, 4.0], "part": ["train"] * 4}
    test = {"source": list("bcae"), "target": list("abec"), "y": [1.0, 2.0, 3.0, 4.0], "part": ["val", *["test"] * 3]}
    data = write_csv(tmp_path / "edges.csv", {name: train[name] + test[name] for name in train})
    words = ["--target-columns", "y", "--splits-column", "part", "--epochs", 1, "--model-dim", 8]
    words += ["--directed"] if directed else []
    code, _, err = edgewise("train", "edges", data, *words, "-o", tmp_path / "run")
    assert code == 0, err
    leakage = json.loads((tmp_path / "run/metrics.json").read_text())["leakage"]
    assert leakage["validation"]["same"] == (0 if directed else 1)
    assert leakage["test"]["same"] == (0 if directed else 1)
    assert leakage["test"]["examples"] == ([] if directed else [{"row": 5, "training_row": 1}])
