"""`edgewise train nodes.csv --edges edges.csv`: what a run leaves, what it says, what it refuses."""

import json

import numpy as np
import pytest

from cli_tables import read_csv, write_csv
from edgewise.learn.networks.graph_layers import layers_for

SMALL = ["--epochs", 60, "--model-dim", 8, "--patience", 60, "--dropout", 0.2]
COLUMNS = ["--target-columns", "team", "--ignore-columns", "height"]


@pytest.fixture
def graph(tmp_path):
    """Two teams whose members know each other; a node's own features say little of its team."""
    random = np.random.default_rng(0)
    team = np.arange(60) % 2
    senders = random.integers(0, 60, 240)
    receivers = (senders + 2 * random.integers(1, 30, 240)) % 60
    nodes = {
        "id": [f"n{node}" for node in range(60)],
        "a": np.round(2 * team + random.normal(size=60), 3).tolist(),
        "b": np.round(random.normal(size=60), 3).tolist(),
        "team": ["red" if each else "blue" for each in team],
        "height": np.round(10 * team + random.random(60), 3).tolist(),
    }
    nodes["team"][7] = ""
    edges = {"from": [f"n{node}" for node in senders], "to": [f"n{node}" for node in receivers]}
    edges["trust"] = np.round(random.random(240), 3).tolist()
    return write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)


@pytest.fixture
def learn(edgewise, graph, tmp_path):
    def run(*words, folder="run", columns=COLUMNS, nodes=graph[0], edges=graph[1]):
        return edgewise("train", nodes, "--edges", edges, *columns, *SMALL, *words, "-o", tmp_path / folder)

    return run


@pytest.mark.parametrize("model", layers_for("links"))
def test_every_model_learns_from_the_neighbors(learn, graph, edgewise, tmp_path, model):
    code, out, err = learn("--model", model)
    assert (code, err) == (0, "")
    for words in (
        "60 rows, 60 distinct nodes, 0 rows rejected",
        "47 training, 6 validation and 6 test rows (split: random)",
        "edges, both ways, ",
        "2 features of a node",
        "1 node has no target: it is part of the graph, and not learned from",
        "random forest",
    ):
        assert words in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["team"]["accuracy"] >= 5 / 6
    nodes, edges = graph
    predicted = tmp_path / "predicted.csv"
    code, out, err = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", predicted)
    assert (code, err) == (0, f"60 of 60 rows predicted: {predicted}\n")
    rows = read_csv(predicted)
    assert rows[7]["team_pred"] == "red", "the node without a label belongs to its friends"
    assert sum(row["team_pred"] == row["team"] for row in rows) >= 55
    before = edges.read_bytes()
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", edges, "--overwrite")
    assert code == 2 and f"{edges} is the input; choose another name with -o." in err
    assert edges.read_bytes() == before


def test_numbers_with_intervals_edge_features_and_vectors(learn, graph, edgewise, paste, tmp_path):
    columns = ["--target-columns", "height", "--ignore-columns", "team", "--split-sizes", 0.6, 0.2, 0.2]
    words = ["--model", "attention", "--edge-feature-columns", "trust", "--directed", "--ensemble-size", 2]
    code, out, _ = learn(*words, columns=columns)
    assert code == 0
    assert "--edges" in paste(out)[0]
    assert "240 edges, one way each; 2 features of a node" in out
    assert "of these values lie within their interval (90% were promised)" in out
    nodes, edges = graph
    code, out, _ = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", "-")
    assert out.splitlines()[0].endswith("height_pred,height_std,height_ensemble_std,height_low,height_high,status")
    code, out, _ = edgewise("fingerprint", tmp_path / "run", nodes, "--edges", edges, "-o", tmp_path / "v.npz")
    assert "60 of 60 rows have a vector of 16" in out
    config = (tmp_path / "run/config.toml").read_text()
    assert 'optimizer = "adam"' in config
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "-o", "-")
    assert (code, "name the table of their edges" in err) == (2, True)


EXTRAS = ["--expander-degree", 4, "--num-virtual-nodes", 2, "--laplacian-positions", 3, "--random-walk-positions", 4]


@pytest.mark.parametrize("words", [[], ["--edge-feature-columns", "trust"]])
def test_a_transformer_over_an_extended_graph(learn, graph, edgewise, tmp_path, words):
    code, out, err = learn("--model", "attention", *EXTRAS, *words)
    assert (code, err) == (0, "")
    assert "each node is joined with up to 4 others drawn at random" in out
    assert "2 virtual nodes are joined with all others" in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["team"]["accuracy"] >= 5 / 6
    nodes, edges = graph
    predicted = [tmp_path / name for name in ("one.csv", "other.csv")]
    for path in predicted:
        assert edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", path)[0] == 0
    assert predicted[0].read_bytes() == predicted[1].read_bytes(), "the draw is always the same"
    assert sum(row["team_pred"] == row["team"] for row in read_csv(predicted[0])) >= 50
    config = (tmp_path / "run/config.toml").read_text()
    assert "expander-degree = 4" in config


def test_words_of_nodes_become_features(learn, graph, edgewise, tmp_path):
    """--category-columns is for one graph as it is for many; a word that the training did not have is named."""
    nodes, edges = graph
    table = read_csv(nodes)
    for row, each in enumerate(table):
        each["color"] = ("green", "violet", "green ")[row % 3]
    names = list(table[0])
    worded = write_csv(tmp_path / "worded.csv", {name: [each[name] for each in table] for name in names})
    code, out, err = learn("--category-columns", "color", "--epochs", 1, nodes=worded)
    assert (code, err) == (0, "")
    assert "4 features of a node" in out
    new = [{**each, "color": "pink"} if row == 5 else each for row, each in enumerate(table)]
    other = write_csv(tmp_path / "new.csv", {name: [each[name] for each in new] for name in names})
    found = tmp_path / "found.csv"
    code, _, err = edgewise("predict", tmp_path / "run", other, "--edges", edges, "-o", found)
    assert code == 0 and "59 of 60 rows predicted" in err
    assert "'pink' is not one of the 2 known words" in read_csv(found)[5]["status"]
    kinds = ["--category-columns", "color", "--edge-type-column", "trust", "--epochs", 1]
    code, out, _ = learn(*kinds, nodes=worded, folder="kinds")
    assert code == 0 and "4 features of a node" in out, "beside types of edges, too"


def test_a_run_continues_only_with_the_same_edges(learn, graph, edgewise, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stop_early(self, *details):
        original(self, *details)
        if self.epoch == 4:
            raise KeyboardInterrupt

    assert learn("--model", "gcn", folder="whole")[0] == 0
    monkeypatch.setattr(Training, "end_epoch", stop_early)
    assert learn("--model", "gcn")[0] == 130
    monkeypatch.setattr(Training, "end_epoch", original)
    kept = graph[1].read_bytes()
    graph[1].write_bytes(kept + b"n1,n2,0.5\r\n")
    code, _, err = learn("--model", "gcn", "--resume")
    assert (code, f"was started with other content in {graph[1]}; bring the old file back" in err) == (2, True)
    graph[1].write_bytes(kept)
    assert learn("--model", "gcn", "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()

    # The graph of an explanation was another one than that of the training, without a word.
    code, out, _ = edgewise("explain", tmp_path / "run", "n1", "-o", tmp_path / "one.json")
    assert (code, "warning" in out) == (0, False)
    graph[1].write_bytes(kept + b"n1,n2,0.5\r\n")
    code, _, err = edgewise("explain", tmp_path / "run", "n1", "-o", tmp_path / "other.json")
    assert (code, f"warning: {graph[1]}: not as in the training; the graph is explained as it is now" in err) == (
        0,
        True,
    )


def test_sampled_neighborhoods(learn, graph, edgewise, tmp_path, monkeypatch):
    """A run on samples that is killed within an epoch ends with the weights of one that was left alone."""
    from edgewise.learn.training.training import Training

    words = ["--model", "gat", "--fanouts", 5, -1, 3, "--batch-size", 10, "--epochs", 12]
    code, out, err = learn(*words, folder="whole")
    assert (code, err) == (0, "")
    step = "a step samples up to 5, then all, then up to 3 neighbors per node around 10 nodes"
    assert f"{step}; validation sees the whole graph" in out
    assert "fanouts = [\n    5,\n    -1,\n    3,\n]" in (tmp_path / "whole/config.toml").read_text()
    original = Training.save_within

    def dies(self, batches):
        original(self, batches)
        if self.step == 33:
            raise KeyboardInterrupt

    monkeypatch.setattr("edgewise.learn.training.training.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("edgewise.learn.training.training.CHECKPOINT_SHARE", float("inf"))
    monkeypatch.setattr(Training, "save_within", dies)
    assert learn(*words)[0] == 130
    monkeypatch.setattr(Training, "save_within", original)
    assert learn(*words, "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()
    found = tmp_path / "found.csv"
    assert edgewise("predict", tmp_path / "run", graph[0], "--edges", graph[1], "-o", found)[0] == 0
    assert sum(row["team_pred"] == row["team"] for row in read_csv(found)) >= 50
    code, out, _ = learn("--model", "gcn", "--fanouts", 5, "--epochs", 1, folder="one")
    assert "around 1,024 nodes; validation sees the whole graph; the model reaches 2 hops, --fanouts has 1" in out
    code, _, err = learn("--fanouts", 0)
    assert (code, "--fanouts has 0; expected edges a node, at least 1, or -1 for all" in err) == (2, True)


def test_unused_edge_features_are_reported(edgewise, tmp_path):
    index = np.stack([np.arange(20), np.roll(np.arange(20), 2)])
    np.savez(tmp_path / "g.npz", x=np.eye(20), edge_index=index, edge_attr=np.ones(20), y=np.arange(20) % 2)
    code, out, _ = edgewise("train", tmp_path / "g.npz", *SMALL, "--no-baselines", "-o", tmp_path / "run")
    assert (code, "1 feature of an edge, which --model hop_attention ignores" in out) == (0, True)


def test_a_test_node_without_a_label_is_said(learn, tmp_path):
    nodes = {"id": range(12), "a": range(12), "part": ["train"] * 6 + ["val"] * 3 + ["test"] * 3}
    nodes["y"] = [0, 1] * 5 + [0, ""]
    table = write_csv(tmp_path / "few.csv", nodes)
    edges = write_csv(tmp_path / "ring.csv", {"s": range(12), "r": [*range(1, 12), 0]})
    columns = ["--target-columns", "y", "--splits-column", "part"]
    code, out, err = learn("--model", "gcn", columns=columns, nodes=table, edges=edges)
    assert (code, err) == (0, "")
    assert "6 training, 3 validation and 2 test rows (split: column)" in out
    assert "1 of them is a test node by its column, and is not scored" in out


def test_bad_words(learn, graph, edgewise, tmp_path):
    nodes, edges = graph
    np.savez(tmp_path / "graph.npz", x=np.eye(3), edge_index=np.array([[0], [1]]), y=np.array([0, 1, 0]))
    for words, message in [
        ((nodes, "--edges", tmp_path / "none.csv", *COLUMNS), "no such file"),
        ((nodes, "--edges", edges), "no --target-columns were given"),
        ((nodes, "--edges", edges, *COLUMNS, "--smiles-columns", "a"), "--smiles-columns applies to molecules only"),
        ((nodes, "--edges", edges, *COLUMNS, "--model", "lstm"), "for nodes expected one of hop_attention, attention"),
        (
            (nodes, "--edges", edges, *COLUMNS, "--model", "gcn", "--score", "dot"),
            "--score does nothing with --model gcn",
        ),
        (
            (nodes, "--edges", edges, *COLUMNS, "--normalize", "mean", "--model", "gat"),
            "--normalize does nothing with --model gat",
        ),
        ((nodes, "--edges", edges, *COLUMNS, "--model", "gat", "--model-dim", 7), "must be a multiple of --num-heads"),
        ((nodes, "--edges", edges, *COLUMNS, "--num-hops", 0), "--num-hops is 0; expected at least 1"),
        (
            (nodes, "--edges", edges, *COLUMNS, "--model", "gat", "--attention-dropout", 1),
            "--attention-dropout is 1.0; expected at least 0 and below 1",
        ),
        (
            (nodes, "--edges", edges, *COLUMNS, "--num-layers", 3),
            "--num-layers does nothing with --model hop_attention",
        ),
        (
            (nodes, "--edges", edges, *COLUMNS, "--edge-feature-columns", "trust"),
            "only attention, gat, gatv2, gin or edge_attention reads edge features",
        ),
        ((nodes, "--edges", edges, *COLUMNS, "--context", 7), "--context applies to"),
        *[
            (
                (nodes, "--edges", edges, *COLUMNS, "--model", model, flag, 2),
                f"{flag} does nothing with --model {model}",
            )
            for model, flag in zip(("hop_attention", "gcn", "sage", "gat"), EXTRAS[::2])
        ],
        *[
            (
                (nodes, "--edges", edges, *COLUMNS, "--model", "attention", flag, -2),
                f"{flag} is -2; expected at least 0",
            )
            for flag in EXTRAS[::2]
        ],
        (
            (nodes, "--edges", edges, *COLUMNS, "--model", "attention", "--expander-degree", 3),
            "--expander-degree is 3; expected at least 0 and at most 1024 and even",
        ),
        ((tmp_path / "graph.npz", "--edges", edges), "leave out --edges and --features"),
        (
            (tmp_path / "graph.npz", "--ignore-columns", "z", "--edge-columns", "a", "b"),
            "in arrays, not in columns; leave out --ignore-columns and --edge-columns.",
        ),
        (
            (nodes, "--edges", edges, *COLUMNS, "--features", "x.npz", "--feature-columns", "a"),
            "but --features takes all numbers from x.npz; leave one of them out.",
        ),
    ]:
        code, out, err = edgewise("train", *words, "-o", tmp_path / "bad")
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert learn("--model", "gcn")[0] == 0
    np.savez(tmp_path / "wide.npz", x=np.eye(3), edge_index=np.array([[0], [1]]))
    code, _, err = edgewise("predict", tmp_path / "run", tmp_path / "wide.npz", "-o", "-")
    assert (code, "its nodes have 3 features, but the model was trained on 2" in err) == (2, True)


def test_masks_of_a_file_are_the_splits(edgewise, tmp_path):
    """As of the public splits of Cora: nothing is drawn, and nodes outside the masks are in no split."""
    place = np.arange(20)
    masks = {"train_mask": place < 8, "val_mask": place == 9, "test_mask": place > 14}
    index = np.stack([place, (place + 1) % 20])
    np.savez(tmp_path / "g.npz", x=np.eye(20), edge_index=index, y=place % 2, **masks)
    code, out, err = edgewise("train", "nodes", tmp_path / "g.npz", "--epochs", 1, "-o", tmp_path / "run")
    assert (code, "8 training, 1 validation and 5 test rows (split: column)" in out) == (0, True), err
    rows = json.loads((tmp_path / "run/splits.json").read_text())
    assert rows == {"train": [*range(8)], "val": [9], "test": [*range(15, 20)]}
