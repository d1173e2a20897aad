"""`edgewise train nodes.csv --edges edges.csv --graph-column g`: what a run leaves, what it says, what it refuses."""

import json

import numpy as np
import pytest

from cli_tables import read_csv, write_csv
from tree_cases import merger_trees

SMALL = ["--epochs", 12, "--model-dim", 8, "--num-heads", 2, "--head-dim", 8, "--num-variants", 2, "--dropout", 0]
COLUMNS = ["--graph-column", "g", "--target-columns", "y"]


@pytest.fixture
def rings(tmp_path):
    """Forty graphs, rings and chains of three to six nodes; each has its own numbers, in the row of its first node."""
    random = np.random.default_rng(0)
    nodes = {name: [] for name in ("g", "id", "a", "metal", "y", "kind")}
    edges = {name: [] for name in ("g", "from", "to", "length")}
    for graph in range(40):
        size, is_ring = 3 + graph % 4, graph % 2 == 0
        values = np.round(random.normal(size=size) + 2 * is_ring, 3)
        nodes["g"] += [f"g{graph}"] * size
        nodes["id"] += range(10, 10 + size)
        nodes["a"] += values.tolist()
        nodes["metal"] += random.choice(["Fe", "Co"], size).tolist()
        nodes["y"] += [round(float(values.sum()), 3), *[""] * (size - 1)]
        nodes["kind"] += ["ring" if is_ring else "chain"] * size
        for node in range(size if is_ring else size - 1):
            edges["g"].append(f"g{graph}")
            edges["from"].append(10 + node)
            edges["to"].append(10 + (node + 1) % size)
            edges["length"].append(round(float(random.random()), 3))
    return write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)


@pytest.fixture
def learn(edgewise, rings, tmp_path):
    def run(*words, folder="run", columns=COLUMNS, nodes=rings[0], edges=rings[1]):
        return edgewise("train", nodes, "--edges", edges, *columns, *SMALL, *words, "-o", tmp_path / folder)

    return run


def test_words_of_test_graphs_alone_teach_nothing(learn, rings, edgewise, tmp_path):
    """A word that no training graph has was an input of the model, which then took it for a word that it knows."""
    nodes, edges = map(read_csv, rings)
    nodes = {name: [row[name] for row in nodes] for name in nodes[0]}
    nodes["split"] = ["train" if int(name[1:]) < 30 else "val" if int(name[1:]) < 35 else "test" for name in nodes["g"]]
    edges = {name: [row[name] for row in edges] for name in edges[0]}
    edges["bond"] = ["single", "double"] * (len(edges["g"]) // 2) + ["single"] * (len(edges["g"]) % 2)
    words = ["--ignore-columns", "kind", "--splits-column", "split", "--no-baselines"]
    words += ["--category-columns", "metal", "--edge-category-columns", "bond", "--epochs", 1]
    tested = {}
    for name in ("plain", "new"):
        files = write_csv(tmp_path / f"{name}.csv", nodes), write_csv(tmp_path / f"{name}_edges.csv", edges)
        code, out, err = learn(*words, folder=name, nodes=files[0], edges=files[1])
        assert code == 0, err
        tested[name] = {row["g"]: row["y_pred"] for row in read_csv(tmp_path / name / "test_predictions.csv")}
        nodes["metal"][-1], edges["bond"][edges["g"].index("g38")] = "Xx", "odd"

    model = json.loads((tmp_path / "new/model.json").read_text())
    assert (model["categories"], model["edge_categories"]) == ({"metal": ["Co", "Fe"]}, {"bond": ["double", "single"]})
    assert "'Xx' is not one of the 2 known words" in out
    rejected = [(row["column"], row["value"]) for row in read_csv(tmp_path / "new/rejected.csv")]
    assert sorted(rejected) == [("bond", "odd"), ("metal", "Xx")]
    assert set(tested["plain"]) - set(tested["new"]) == {"g39"}
    assert {name: tested["plain"][name] for name in ("g35", "g36", "g37")}.items() <= tested["new"].items()

    code, _, err = learn(*words, "--strict", folder="strict", nodes=files[0], edges=files[1])
    assert code != 0 and "'odd' is not one of the 2 known words" in err and "drop --strict" in err

    code, _, err = edgewise(
        "predict", tmp_path / "new", files[0], "--edges", files[1], "-o", tmp_path / "predicted.csv"
    )
    assert code == 0, err
    predicted = {row["g"]: row for row in read_csv(tmp_path / "predicted.csv")}
    assert {name: predicted[name]["y_pred"] for name in tested["new"]} == tested["new"]
    assert "'Xx' is not one of" in predicted["g39"]["status"]


def test_numbers_of_graphs(learn, rings, edgewise, paste, tmp_path):
    words = ["--ignore-columns", "kind", "--category-columns", "metal", "--edge-feature-columns", "length"]
    code, out, err = learn(*words, "--ensemble-size", 2, "--split-sizes", 0.5, 0.4, 0.1)
    assert (code, err) == (0, "")
    for line in (
        "nodes.csv: 40 graphs, 40 distinct graphs, 0 graphs rejected",
        "20 training, 16 validation and 4 test graphs (split: random)",
        "180 nodes, 3 to 6 a graph; 320 edges, both ways, 160 of them added for it; 3 features of a node",
        "y: 4 test rows",
        "random forest",
        "of these values lie within their interval (90% were promised)",
    ):
        assert line in out
    paste(out)
    config = (tmp_path / "run/config.toml").read_text()
    assert 'category-columns = [\n    "metal",\n]' in config
    assert "num-variants = 2" in config
    nodes, edges = rings
    code, out, err = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", tmp_path / "predicted.csv")
    assert (code, err) == (0, f"40 of 40 rows predicted: {tmp_path}/predicted.csv\n")
    rows = read_csv(tmp_path / "predicted.csv")
    assert list(rows[0]) == ["g", "y", "y_pred", "y_std", "y_ensemble_std", "y_low", "y_high", "status"]
    assert [row["g"] for row in rows] == [f"g{graph}" for graph in range(40)]
    # What is explained is the same prediction, of any graph of the files, or of the test graphs.
    code, out, err = edgewise("explain", tmp_path / "run", "g7", "g12", "-o", tmp_path / "graphs.json")
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "graphs.json").read_text())
    assert [each["title"] for each in found] == ["g7", "g12"]
    for each, row in zip(found, (rows[7], rows[12]), strict=True):
        assert each["predictions"][0]["value"] == pytest.approx(float(row["y_pred"]), abs=1e-4)
        assert len(each["units"]) == len(each["attributions"][0]["values"])
    assert [(link["first"], link["second"]) for link in found[0]["links"]] == [(n, n + 1) for n in range(5)]
    names = [unit["name"] for unit in found[0]["units"]]
    assert names == ["10", "11", "12", "13", "14", "15"], "nodes are called as their table calls them"
    assert edgewise("explain", tmp_path / "run", "-o", tmp_path / "test.html")[0] == 0
    code, _, err = edgewise("explain", tmp_path / "run", "g99", "-o", tmp_path / "none.json")
    assert (code, err) == (2, "edgewise: error: there is no graph 'g99'; the 40 graphs are g0, g1, g2, g3, g4, ….\n")
    code, out, _ = edgewise("fingerprint", tmp_path / "run", nodes, "--edges", edges, "-o", tmp_path / "v.npz")
    assert "40 of 40 rows have a vector of 16" in out


def test_predictions_of_the_test_graphs_are_repeated(learn, rings, edgewise, tmp_path):
    words = ["--ignore-columns", "y", "--model", "gatv2", "--feature-columns", "a"]
    code, out, _ = learn(*words, columns=["--graph-column", "g", "--target-columns", "kind"])
    assert code == 0
    assert "the table of edges has 1 more column, not used: 'length'; numbers of an edge are named with --edge" in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["kind"]["accuracy"] >= 0.75
    edgewise("predict", tmp_path / "run", rings[0], "--edges", rings[1], "-o", tmp_path / "predicted.csv")
    predicted = {row["g"]: row for row in read_csv(tmp_path / "predicted.csv")}
    for row in read_csv(tmp_path / "run/test_predictions.csv"):
        assert row["kind_pred"] == predicted[row["g"]]["kind_pred"]
        assert float(row["kind_prob_ring"]) == pytest.approx(float(predicted[row["g"]]["kind_prob_ring"]), abs=1e-5)


def test_a_table_of_graphs_with_parts_and_numbers(learn, rings, edgewise, tmp_path):
    graphs = {
        "g": [f"g{graph}" for graph in range(30)],
        "heat": range(30),
        "z": [graph / 3 for graph in range(30)],
        "part": ["train"] * 20 + ["val"] * 5 + ["test"] * 5,
    }
    table = write_csv(tmp_path / "graphs.csv", graphs)
    words = ["--graphs", table, "--graph-feature-columns", "heat", "--splits-column", "part", "--feature-columns", "a"]
    code, out, _ = learn(*words, columns=["--graph-column", "g", "--target-columns", "z"])
    assert code == 0
    assert "20 training, 5 validation and 5 test graphs (split: column)" in out
    assert f"47 nodes belong to graphs that {table} does not name, and are passed over" in out
    few = write_csv(tmp_path / "few.csv", {"g": ["g3", "nowhere", "g1"], "heat": [3, 4, "hot"]})
    where = (tmp_path / "run", rings[0], "--edges", rings[1])
    code, _, err = edgewise("predict", *where, "--graphs", few, "-o", tmp_path / "predicted.csv")
    summary = "1 of 3 rows predicted; 2 could not be, and say why in the column 'status'"
    assert (code, err.splitlines()[-1].split(":")[0]) == (0, summary)
    assert f"nodes belong to graphs that {few} does not name, and are passed over" in err
    rows = read_csv(tmp_path / "predicted.csv")
    assert rows[1]["status"] == f"g: no node of {rings[0]} belongs to it"
    assert rows[2]["status"] == "heat: 'hot' is not a number"
    code, _, err = edgewise("predict", *where, "-o", "-")
    assert (code, "no column 'heat'" in err) == (2, True)


def trees_as_tables(number=60):
    trees, formations = merger_trees(number, num_steps=6)
    nodes = {"tree": [], "halo": [], "mass": [], "step": [], "formation": []}
    edges = {"tree": [], "progenitor": [], "descendant": []}
    for tree, ((features, ends), formation) in enumerate(zip(trees, formations, strict=True)):
        nodes["tree"] += [tree] * len(features)
        nodes["halo"] += range(len(features))
        nodes["mass"] += features[:, 0].tolist()
        nodes["step"] += features[:, 1].tolist()
        nodes["formation"] += [formation + tree / 1000, *[""] * (len(features) - 1)]  # at the root alone
        edges["tree"] += [tree] * ends.shape[1]
        edges["progenitor"] += ends[0].tolist()
        edges["descendant"] += ends[1].tolist()
    return nodes, edges


def test_merger_trees(learn, edgewise, tmp_path):
    nodes, edges = trees_as_tables()
    # Tree 0 is cut in two, and tree 1 runs in a circle.
    cut = edges["tree"].index(0)
    circle = edges["tree"].index(1)
    for column in edges.values():
        del column[cut]
    edges["tree"].append(1)
    edges["progenitor"].append(edges["descendant"][circle - 1])
    edges["descendant"].append(edges["progenitor"][circle - 1])
    halos, mergers = write_csv(tmp_path / "halos.csv", nodes), write_csv(tmp_path / "mergers.csv", edges)
    columns = ["--graph-column", "tree", "--node-column", "halo", "--target-columns", "formation"]
    words = ["--directed", "--readout", "root", "--no-baselines", "--edge-columns", "progenitor", "descendant"]
    code, out, err = learn(*words, columns=columns, nodes=halos, edges=mergers)
    assert (code, err) == (0, "")
    assert "60 graphs, 58 distinct graphs, 2 graphs rejected" in out
    assert "2 for column 'tree', the first in line 2: 2 nodes have no edge that leaves ('0', " in out
    num_nodes, num_edges = (sum(tree > 1 for tree in table["tree"]) for table in (nodes, edges))
    assert f"  {num_nodes:,} nodes, " in out, "the two that are rejected are not counted"
    assert f"; {num_edges:,} edges, one way each; 2 features of a node" in out
    assert "the longest way to a root is 6 edges long, and --num-layers 3 carry 3: from nodes further away" in out
    reasons = [row["reason"] for row in read_csv(tmp_path / "run/rejected.csv")]
    assert reasons[1].startswith("its edges run in a circle through the node ")
    code, out, _ = learn(
        *words, "--num-layers", 6, "--epochs", 1, columns=columns, nodes=halos, edges=mergers, folder="deep"
    )
    assert "the longest way to a root is 6 edges long, which --num-layers 6 carry" in out
    # A tree without its root is none: it stays, and what has no way to it goes.
    assert edgewise("explain", tmp_path / "run", "2", "-o", tmp_path / "tree.json")[0] == 0
    (found,) = json.loads((tmp_path / "tree.json").read_text())
    assert (found["center"], found["units"][0]["name"]) == (0, "0")
    assert len(found["units"]) == nodes["tree"].count(2)
    assert found["attributions"][0]["about"].endswith("of the root, without its features.")
    del nodes["formation"]
    halos = write_csv(tmp_path / "new.csv", nodes)
    predicted = tmp_path / "predicted.csv"
    code, _, err = edgewise("predict", tmp_path / "run", halos, "--edges", mergers, "-o", predicted)
    assert (code, err.splitlines()[-1].split(";")[0]) == (0, "58 of 60 rows predicted")
    rows = read_csv(predicted)
    assert [row["status"].split(" in a ")[0] for row in rows[1:3]] == ["tree: its edges run", "ok"]
    swapped = [*words[:5], "descendant", "progenitor"]
    halos = tmp_path / "halos.csv"
    assert learn(*swapped, "--epochs", 1, columns=columns, nodes=halos, edges=mergers, folder="swapped")[0] == 0
    reasons = [row["reason"] for row in read_csv(tmp_path / "swapped/rejected.csv")]
    assert reasons[2].endswith("one node has none that comes: do the edges run from the root?")


def test_a_run_continues_only_with_the_same_files(learn, rings, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stop_early(self, *details):
        original(self, *details)
        if self.epoch == 4:
            raise KeyboardInterrupt

    words = ["--feature-columns", "a", "--no-baselines"]
    table = write_csv(tmp_path / "graphs.csv", {"g": [f"g{graph}" for graph in range(40)], "y": range(40)})
    words = [*words, "--graphs", table, "--task-type", "regression"]
    assert learn(*words, folder="whole")[0] == 0
    monkeypatch.setattr(Training, "end_epoch", stop_early)
    assert learn(*words)[0] == 130
    monkeypatch.setattr(Training, "end_epoch", original)
    kept = table.read_bytes()
    table.write_bytes(kept.replace(b"g7,7", b"g7,8"))
    code, _, err = learn(*words, "--resume")
    assert (code, f"was started with other content in {table}; bring the old file back" in err) == (2, True)
    table.write_bytes(kept)
    assert learn(*words, "--resume")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("whole", "run"))
    assert one.read_bytes() == other.read_bytes()


def test_a_run_whose_nodes_have_no_names_continues(edgewise, tmp_path):
    size, number = 3, 20
    nodes = {"g": np.repeat(range(number), size), "a": range(size * number), "y": np.repeat(range(number), size) / 2}
    edges = {"g": np.repeat(range(number), 2), "s": [0, 1] * number, "r": [1, 2] * number}
    files = write_csv(tmp_path / "nodes.csv", nodes), "--edges", write_csv(tmp_path / "edges.csv", edges)
    words = ("train", *files, *COLUMNS, *SMALL, "--no-baselines", "-o", tmp_path / "run")
    assert edgewise(*words)[0] == 0
    (tmp_path / "run/model.safetensors").unlink()
    (tmp_path / "run/metrics.json").unlink()
    code, _, err = edgewise(*words, "--resume")
    assert (code, err) == (0, "")
    assert edgewise("predict", tmp_path / "run", *files, "-o", tmp_path / "predicted.csv")[0] == 0


def test_bad_words(edgewise, rings, tmp_path):
    nodes, edges = rings
    np.savez(tmp_path / "graph.npz", x=np.eye(3), edge_index=np.array([[0], [1]]))
    given = (nodes, "--edges", edges, *COLUMNS)
    for words, message in [
        ((nodes, *COLUMNS), "many graphs are a table of nodes and one of edges: --edges edges.csv"),
        ((tmp_path / "graph.npz", *COLUMNS), "many graphs are a table of nodes and one of edges"),
        ((nodes, "--edges", edges, "--graph-column", "g"), "no --target-columns were given"),
        ((nodes, "--edges", edges, "--graph-column", "mol", "--target-columns", "y"), "no column 'mol'"),
        ((*given, "--graphs", tmp_path / "none.csv"), "no such file"),
        ((*given, "--ignore-columns", "zzz"), "no column 'zzz'; the file has "),
        ((*given, "--model", "lstm"), "for graphs expected one of hop_attention, attention"),
        ((*given, "--model", "gcn", "--score", "dot"), "--score does nothing with --model gcn"),
        ((*given, "--model", "gcn", "--readout", "sum", "--num-heads", 2), "--num-heads does nothing with --model gcn"),
        ((*given, "--model", "gcn", "--num-heads", 5), "--model-dim (64) must be a multiple of --num-heads (5)"),
        (
            (*given, "--model", "hop_attention", "--edge-feature-columns", "length"),
            "only attention, gat, gatv2, gin or edge_attention reads edge features",
        ),
        ((*given, "--feature-scale", "none"), "--feature-scale applies to"),
        ((*given, "--smiles-columns", "a"), "--smiles-columns applies to molecules only"),
        ((*given, "--feature-columns", "a", "--split", "scaffold"), "only molecules have scaffolds"),
        ((*given, "--head-dropout", 0.9), "--head-dropout is 0.9; expected at least 0 and at most 0.5"),
    ]:
        code, out, err = edgewise("train", *words, "-o", tmp_path / "bad")
        assert (code, out) == (2, ""), words
        assert message in err, err


def test_a_table_with_other_features_is_refused(learn, rings, edgewise, tmp_path):
    assert learn("--feature-columns", "a", "--no-baselines")[0] == 0
    nodes, edges = rings
    words = ("predict", tmp_path / "run", nodes, "--edges", edges, "--feature-columns", "a", "id", "-o", "-")
    code, _, err = edgewise(*words)
    assert (code, "id" in err) == (2, True)
