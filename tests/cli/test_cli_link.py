"""`edgewise train nodes.csv --edges edges.csv --task-type link`: what a run leaves, what it says, what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from cli_tables import read_csv, write_csv
from edgewise import LinkPredictor
from edgewise.learn.networks.graph_layers import layers_for

SMALL = ["--task-type", "link", "--model-dim", 8, "--dropout", 0.2]


@pytest.fixture
def graph(tmp_path):
    """Four teams whose members know each other; a node's features say which team it is in, and not loudly."""
    random = np.random.default_rng(0)
    team = np.arange(60) % 4
    senders = random.integers(0, 60, 300)
    receivers = (senders + 4 * random.integers(1, 15, 300)) % 60
    nodes = {"id": [f"n{node}" for node in range(60)]}
    for place in range(4):
        nodes[f"x{place}"] = np.round((team == place) + random.normal(size=60), 3).tolist()
    nodes["team"] = [f"t{each}" for each in team]
    edges = {"from": [f"n{node}" for node in senders], "to": [f"n{node}" for node in receivers]}
    edges["trust"] = np.round(random.random(300), 3).tolist()
    pairs = {"a": ["n0", "n0", "n8", "n1", "zoe"], "b": ["n4", "n1", "n40", "n1", "n2"], "why": list("vwxyz")}
    return (
        write_csv(tmp_path / "nodes.csv", nodes),
        write_csv(tmp_path / "edges.csv", edges),
        write_csv(tmp_path / "pairs.csv", pairs),
    )


@pytest.fixture
def learn(edgewise, graph, tmp_path):
    def run(*words, folder="run", nodes=graph[0], edges=graph[1], epochs=20):
        columns = ["--ignore-columns", "team"] if nodes == graph[0] else []
        flags = [*columns, *SMALL, "--epochs", epochs, "--batch-size", 70]
        return edgewise("train", nodes, "--edges", edges, *flags, *words, "-o", tmp_path / folder)

    return run


def test_words_of_test_links_alone_teach_nothing(learn, graph, tmp_path):
    edges = pd.read_csv(graph[1])
    edges["part"] = np.resize(["train"] * 8 + ["val", "test"], len(edges))
    # A link is in one split, whichever way it goes and however often it stands there.
    edges = edges[~edges.apply(lambda edge: "-".join(sorted(edge[["from", "to"]])), axis=1).duplicated()]
    edges["by"] = np.resize(["mail", "phone"], len(edges))
    weights, words = [], []
    for name, of_tests in (("as before", "mail"), ("another", "carrier pigeon")):
        edges.loc[edges["part"] == "test", "by"] = of_tests
        write_csv(tmp_path / f"{name}.csv", edges.to_dict("list"))
        flags = ["--splits-column", "part", "--edge-category-columns", "by", "--model", "gat", "--num-heads", 2]
        code, _, err = learn(*flags, edges=tmp_path / f"{name}.csv", folder=name, epochs=2)
        assert (code, err) == (0, "")
        model = LinkPredictor.load(tmp_path / name).trained_
        words.append(model.encoder.edge_categories)
        weights.append(model.model.state_dict())
    assert words == [{"by": ["mail", "phone"]}] * 2
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


@pytest.mark.parametrize("model", layers_for("links"))
def test_every_model_predicts_links(learn, graph, edgewise, paste, tmp_path, model):
    heads = ["--num-heads", 2] if model in ("attention", "gat", "gatv2") else []
    code, out, err = learn("--model", model, *heads, epochs=15)
    assert (code, err) == (0, "")
    for words in ("60 nodes, ", "edges, both ways, ", "4 features of a node", "repeat another one: the same link",
                  "test links (split: random), for each 1 of", "Adamic-Adar", "common neighbors", "roc_auc",
                  "likeness of features"):  # fmt: skip
        assert words in out
    paste(out)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["roc_auc"] > 0.6
    predicted = tmp_path / "predicted.csv"
    code, out, err = edgewise("predict", tmp_path / "run", graph[2], "-o", predicted)
    assert code == 0, err
    assert "3 of 5 pairs predicted" in err
    assert "2 could not be, and say why in the column 'status'" in err
    rows = read_csv(predicted)
    assert list(rows[0]) == ["a", "b", "why", "link_prob", "is_known", "status"]
    assert all(0 < float(row["link_prob"]) < 1 for row in rows[:3])
    assert [row["status"] for row in rows] == ["ok"] * 3 + [
        "b: 'n1' and itself are not a link",
        "a: 'zoe' is not a node of the graph",
    ]
    assert (rows[3]["link_prob"], rows[4]["is_known"]) == ("", "")
    if model == "gcn":
        # Cells that stay empty among numbers ended in a traceback.
        assert edgewise("predict", tmp_path / "run", graph[2], "-o", tmp_path / "predicted.parquet")[0] == 0
        known = pd.read_parquet(tmp_path / "predicted.parquet")["is_known"]
        assert known.tolist()[1] == 0 and known.isna().tolist() == [False, False, False, True, True]


def test_teams_are_distinguished_and_test_pairs_are_written(learn, graph, tmp_path):
    assert learn("--model", "gcn", "--negatives", 2, epochs=60)[0] == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["roc_auc"] > 0.8
    rows = read_csv(tmp_path / "run/test_predictions.csv")
    links = [row for row in rows if row["is_link"] == "1"]
    assert (len(links), len(rows)) == (metrics["rows"]["test"], 3 * metrics["rows"]["test"])
    edges = {(row["from"], row["to"]) for row in read_csv(graph[1])}
    assert all((row["sender"], row["receiver"]) in edges or (row["receiver"], row["sender"]) in edges for row in links)
    assert not any((row["sender"], row["receiver"]) in edges for row in rows if row["is_link"] == "0")
    parts = json.loads((tmp_path / "run/splits.json").read_text())
    predicted = sorted(row for part in parts.values() for row in part)
    assert predicted == list(range(300)), "every row of the table of edges is in one part"


def test_a_link_opens_as_a_page(learn, edgewise, tmp_path):
    assert learn("--model", "gatv2", "--num-heads", 2, epochs=5)[0] == 0
    code, out, err = edgewise("explain", tmp_path / "run", "n0", "n4", "n8", "n3", "-o", tmp_path / "two.html")
    assert (code, err) == (0, "")
    for words in ("n0 – n4: link_prob 0.", "n8 – n3: link_prob 0.", "agreement with occlusion in link_prob", "2 expl"):
        assert words in out
    page = (tmp_path / "two.html").read_text()
    assert "n0 \\u2013 n4" in page
    assert edgewise("explain", tmp_path / "run", "n0", "n4", "-o", tmp_path / "one.svg")[0] == 0
    # Without an input, the pairs of the test: those that are links are predicted as unknown ones.
    assert edgewise("explain", tmp_path / "run", "--rows", 0, 1, "-o", tmp_path / "test.json")[0] == 0
    found = json.loads((tmp_path / "test.json").read_text())
    rows = read_csv(tmp_path / "run/test_predictions.csv")
    assert [each["title"] for each in found] == [f"{row['sender']} – {row['receiver']}" for row in rows[:2]]
    assert all("The graph has this link: no message goes along it" in each["notes"][0] for each in found)
    for words, message in (
        (["n0"], "1 input given, but the model reads 2 for each row: sender, receiver"),
        (["n0", "zoe"], "receiver: there is no node 'zoe'; the 60 nodes are n0, n1, n2, n3, n4, …"),
        (["n0", "n0"], "the node 'n0' is named twice: a link joins two different nodes"),
        (["n0", "n1", "--label", "1"], "link_prob is a number and has no classes"),
    ):
        code, _, err = edgewise("explain", tmp_path / "run", *words, "-o", tmp_path / "bad.json")
        assert (code, message in err) == (2, True), err


def test_edges_that_are_one_way_and_their_features(learn, graph, edgewise, tmp_path):
    words = ["--directed", "--model", "attention", "--num-heads", 2, "--edge-feature-columns", "trust"]
    code, out, err = learn(*words, "--decoder", "bilinear", epochs=5)
    assert (code, err) == (0, "")
    assert "one way each" in out
    assert "the other way is known" in out
    pairs = write_csv(tmp_path / "both.csv", {"a": ["n0", "n5"], "b": ["n5", "n0"]})
    assert edgewise("predict", tmp_path / "run", pairs, "-o", tmp_path / "predicted.csv")[0] == 0
    there, back = (float(row["link_prob"]) for row in read_csv(tmp_path / "predicted.csv"))
    assert there != back


def test_nodes_of_which_nothing_is_known(learn, edgewise, graph, tmp_path):
    ids = write_csv(tmp_path / "ids.csv", {"id": [f"n{node}" for node in range(60)]})
    code, out, err = learn("--model", "gcn", nodes=ids, epochs=60)
    assert (code, err) == (0, "")
    assert "no features: each node learns a vector of its own" in out
    assert "likeness of features" not in out
    assert json.loads((tmp_path / "run/metrics.json").read_text())["test"]["roc_auc"] > 0.65
    _, edges, pairs = graph
    first, again = tmp_path / "first.csv", tmp_path / "again.csv"
    assert edgewise("predict", tmp_path / "run", pairs, "-o", first)[0] == 0
    # The same graph as files, its nodes in another order.
    turned = write_csv(tmp_path / "turned.csv", {"id": [f"n{node}" for node in reversed(range(60))]})
    assert edgewise("predict", tmp_path / "run", pairs, "--nodes", turned, "--edges", edges, "-o", again)[0] == 0
    for one, other in zip(read_csv(first)[:3], read_csv(again)[:3], strict=True):
        assert float(one["link_prob"]) == pytest.approx(float(other["link_prob"]), abs=1e-5)
    strange = write_csv(tmp_path / "strange.csv", {"id": [f"n{node}" for node in range(61)]})
    code, _, err = edgewise("predict", tmp_path / "run", pairs, "--nodes", strange, "--edges", edges, "-o", "-")
    assert (code, "the node 'n60' was not in the training, and nothing is known of it" in err) == (2, True)
    code, _, err = learn("--feature-scale", "rows", nodes=ids, folder="bad")
    assert (code, "--feature-scale rows does nothing: the nodes have no features" in err) == (2, True)


def test_predictions_know_all_links_or_those_of_another_file(learn, edgewise, graph, tmp_path):
    nodes, edges, pairs = graph
    assert learn("--model", "gcn", epochs=10)[0] == 0

    def predicted(*words):
        assert edgewise("predict", tmp_path / "run", pairs, *words, "-o", tmp_path / "t.csv", "--overwrite")[0] == 0
        rows = read_csv(tmp_path / "t.csv")
        return [float(row["link_prob"]) for row in rows[:3]], [row["is_known"] for row in rows[:3]]

    kept, known = predicted()
    assert predicted("--edges", edges)[0] == pytest.approx(kept, abs=1e-6), "validation and test links are known too"
    assert predicted("--nodes", nodes, "--edges", edges)[0] == pytest.approx(kept, abs=1e-6)
    assert known == predicted("--edges", edges)[1]
    few = write_csv(tmp_path / "few.csv", {"s": ["n0", "n9", "q"], "r": ["n1", "n13", "n1"]})
    other, known = predicted("--edges", few)
    assert known == ["0", "1", "0"]
    assert other != pytest.approx(kept, abs=1e-3)
    code, out, _ = edgewise("fingerprint", tmp_path / "run", nodes, "--edges", edges, "-o", tmp_path / "v.npz")
    assert (code, "60 of 60 rows have a vector of 8" in out) == (0, True)
    for words, message in [
        (("--nodes", nodes), "name the table of their edges: --edges"),
        (("--features", "x.npz"), "--features belongs to a table of nodes; name it: --nodes"),
        (("--coverage", 0.5), "--coverage does nothing for links"),
        (("--smiles-columns", "a"), "--smiles-columns does nothing for links"),
        (("--strict",), "pairs.csv, line 5, b: 'n1' and itself are not a link; fix the row"),
    ]:
        code, _, err = edgewise("predict", tmp_path / "run", pairs, *words, "-o", "-")
        assert (code, message in err) == (2, True), err
    bad = write_csv(tmp_path / "taken.csv", {"a": ["n1"], "b": ["n2"], "status": ["x"]})
    code, _, err = edgewise("predict", tmp_path / "run", bad, "-o", "-")
    assert (code, "already has the column 'status'" in err) == (2, True)


def test_a_flag_that_does_nothing_for_the_task_is_refused(trained, table, edgewise):
    for flag, value in (("--nodes", "n.csv"), ("--text-columns", "text"), ("--graph-column", "g")):
        for verb, output in (("predict", "-"), ("fingerprint", "v.npz")):
            code, _, err = edgewise(verb, trained, table, flag, value, "-o", output)
            assert (code, f"{flag} does nothing for molecules; leave it out" in err) == (2, True), err


def test_a_graph_in_one_file_and_parts_of_all_sizes(edgewise, paste, tmp_path):
    index = np.stack([np.arange(40), np.roll(np.arange(40), 2)])
    masks = {"train_mask": np.arange(40) < 9, "edge_attr": np.ones(40), "y": np.arange(40) % 2,
             "node_type": np.arange(40) % 2, "edge_weight": np.ones(40)}  # fmt: skip
    np.savez(tmp_path / "g.npz", x=np.eye(40), edge_index=index, **masks)
    words = [*SMALL, "--epochs", 2, "--no-baselines", "--split-sizes", 1, 0, 0]
    code, out, err = edgewise("train", tmp_path / "g.npz", *words, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    paste(out)
    assert "no validation links: the last epoch is used" in out
    # What readers find suspicious was said for other tasks alone.
    assert "g.npz has 1 more array, not used: 'edge_weight'; numbers of an edge are 'edge_attr'" in out
    assert "1 feature of an edge, which --model gcn reads as the weight of the edge" in out
    assert "types of nodes or edges, which no model of links uses" in out
    assert "roc_auc" not in out
    pairs = write_csv(tmp_path / "pairs.csv", {"a": [0], "b": [2]})
    assert edgewise("predict", tmp_path / "run", pairs, "-o", "-")[1].splitlines()[1].endswith(",1,ok")
    code, _, err = edgewise("train", tmp_path / "g.npz", *words, "--splits-column", "part", "-o", tmp_path / "bad")
    assert (code, "--split-sizes does nothing beside --splits-column" in err) == (2, True)
    code, _, err = edgewise(
        "train", tmp_path / "g.npz", *SMALL, "--splits-column", "part", "-o", tmp_path / "bad"
    )  # fmt: skip
    assert (code, "--splits-column part names a column of the table of edges, but the edges are" in err) == (2, True)


def test_parts_by_a_column_and_what_the_graph_lacks_is_said(learn, graph, tmp_path):
    rows = read_csv(graph[1])[:60]
    rows = [row for number, row in enumerate(rows) if not any(
        {row["from"], row["to"]} == {other["from"], other["to"]} for other in rows[:number])]  # fmt: skip
    table = {name: [row[name] for row in rows] for name in ("from", "to")}
    table["part"] = ["test" if place % 6 == 0 else "" if place == 1 else "train" for place in range(len(rows))]
    table["from"] += ["n3", "nobody"]
    table["to"] += ["n3", "n3"]
    table["part"] += ["train", "train"]
    edges = write_csv(tmp_path / "parts.csv", table)
    nodes = read_csv(graph[0])
    nodes[5]["x0"] = "hot"
    holed = write_csv(tmp_path / "holed.csv", {name: [row[name] for row in nodes] for name in nodes[0]})
    words = ["--splits-column", "part", "--ignore-columns", "team", "--model", "gcn", "--batch-size", 10]
    code, out, err = learn(*words, nodes=holed, edges=edges, epochs=2)
    assert (code, err) == (0, "")
    for said in (
        "2 rows rejected",
        "line 7, column 'x0': 'hot' is not a number",
        "1 edge is a self-loop: it carries messages",
        "1 node has features that cannot be read, 0 there: links are learned and predicted all the same",
        "1 link is of no part: messages go along, and nothing is predicted",
        "(split: column)",
    ):
        assert said in out, out
    code, _, err = learn(*words, "--strict", nodes=holed, edges=edges, folder="bad")
    assert (code, "drop --strict" in err) == (2, True)


def test_a_run_is_continued_bit_for_bit(learn, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stop_early(self, *details):
        original(self, *details)
        if self.epoch == 4:
            raise KeyboardInterrupt

    assert learn("--model", "gcn", folder="whole", epochs=7)[0] == 0
    monkeypatch.setattr(Training, "end_epoch", stop_early)
    assert learn("--model", "gcn", epochs=7)[0] == 130
    monkeypatch.setattr(Training, "end_epoch", original)
    code, _, err = learn("--model", "gcn", "--negatives", 3, "--resume", epochs=7)
    assert (code, "was started with negatives = 1" in err) == (2, True)
    assert learn("--model", "gcn", "--resume", epochs=7)[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()
    code, out, _ = learn("--model", "gcn", "--resume", epochs=7)
    assert (code, "is finished; there is nothing to resume" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--target-columns", "team"],
            "--target-columns does nothing for links: the targets are the links",
        ),
        (["--weight-column", "x0"], "--weight-column does nothing for links"),
        (["--ensemble-size", 2], "--ensemble-size does nothing for links"),
        (["--coverage", 0.8], "--coverage does nothing"),
        (["--split", "random"], "--split does nothing for links"),
        (["--loss-function", "mse"], "--loss-function does nothing for links: links are learned by"),
        (["--context", 3], "--context applies to"),
        (["--model", "lstm"], "for links expected one of hop_attention, attention"),
        (["--model", "gcn", "--score", "dot"], "--score does nothing with --model gcn"),
        (["--edge-feature-columns", "trust", "x"], "--model gcn reads one number an edge, its weight"),
        (
            ["--model", "hop_attention", "--edge-feature-columns", "trust"],
            "only attention, gat, gatv2, gin or edge_attention reads",
        ),
        (["--decoder", "cosine"], "is 'cosine'; expected one of"),
        (["--negatives", 0], "--negatives is 0; expected at least 1"),
        (["--negatives", 100], "pairs of nodes are not links, but"),
        (["--split-sizes", 0.9, 0.1], "three fractions that sum to 1"),
        (["--batch-size", 250], "training links; no message goes along those that are predicted in a step"),
        (["--splits-column", "part"], "no column 'part'"),
        (["--edges", "none.csv"], "no such file"),
        (["--ignore-columns", "x0"], "no node has features that can be read; line 2, column 'team'"),
    ],
)
def test_bad_words(learn, words, message):
    code, out, err = learn(*words, folder="bad")
    assert (code, out) == (2, ""), words
    assert message in err, err


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"s": [], "r": []}, "a header but no rows"),
        ({"s": ["q"], "r": ["n1"]}, "'q' is not a node of"),
        ({"s": ["n1"], "r": ["n1"]}, "no links: 1 edge, all self-loops"),
        ({"s": ["n1", "n2"], "r": ["n2", "n3"]}, "2 links cannot fill train, val, test"),
        ({"s": ["n1", "n2", "n3"], "r": ["n2", "n3", "n1"]}, "1 training link; expected two or more"),
    ],
)
def test_bad_edges(learn, tmp_path, edges, message):
    code, out, err = learn(edges=write_csv(tmp_path / "bad.csv", edges), folder="bad")
    assert (code, out) == (2, "")
    assert message in err, err


def test_a_graph_in_which_all_are_linked(edgewise, tmp_path):
    nodes = write_csv(tmp_path / "few.csv", {"id": range(6)})
    joined = [(i, j) for i in range(6) for j in range(i)]
    edges = write_csv(tmp_path / "all.csv", {"s": [i for i, _ in joined], "r": [j for _, j in joined]})
    code, out, err = edgewise("train", nodes, "--edges", edges, *SMALL, "-o", tmp_path / "bad")
    assert (code, out) == (2, "")
    assert "0 of 15 pairs of nodes are not links" in err
    # As edges that are one way, half of the pairs are none.
    words = ["--directed", "--epochs", 1, "--no-baselines"]
    assert edgewise("train", nodes, "--edges", edges, *SMALL, *words, "-o", tmp_path / "run")[0] == 0
