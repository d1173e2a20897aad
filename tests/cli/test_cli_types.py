"""`edgewise train` over authors and papers: notes on types, predictions, refusals."""

import json

import numpy as np
import pytest

from cli_tables import read_csv, write_csv
from type_cases import NUM_AUTHORS, NUM_PAPERS, arrays_of, debate

SMALL = ["--epochs", 100, "--model-dim", 16, "--dropout", 0.2, "--no-baselines"]
KINDS = ["--target-columns", "label", "--node-type-column", "kind", "--edge-type-column", "relation"]


@pytest.fixture(scope="module")
def tables():
    nodes, edges, _ = debate()
    return nodes, edges


@pytest.fixture
def files(tables, tmp_path):
    return [write_csv(tmp_path / name, table) for name, table in zip(("nodes.csv", "edges.csv"), tables, strict=True)]


@pytest.fixture
def learn(edgewise, files, tmp_path):
    def run(*words, columns=KINDS, nodes=files[0], edges=files[1], folder="run"):
        return edgewise("train", nodes, "--edges", edges, *columns, *SMALL, *words, "-o", tmp_path / folder)

    return run


def test_types_are_named_described_and_predicted(learn, files, edgewise, tmp_path):
    code, out, err = learn("--num-heads", 2)
    assert (code, err) == (0, "")
    counts = f"author 20, paper {NUM_PAPERS}"
    for words in (
        "1,920 edges, both ways, 960 of them added for it; 2 features of a node",
        f"2 types of nodes: {counts}",
        "learned from: paper",
        "6 relations: author writes paper 160, paper cites paper 480, paper opposes paper 320, paper rev_cites paper ",
        "rev_… are the same edges the other way, as relations of their own; --directed leaves them out",
        "20 nodes have no target: they are part of the graph, and not learned from",
    ):
        assert words in out
    assert "repeat another one" not in out
    config = (tmp_path / "run/config.toml").read_text()
    assert 'model = "hgt"' in config
    assert 'node-type-column = "kind"' in config
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["label"]["accuracy"] > 0.8
    predicted = tmp_path / "predicted.csv"
    nodes, edges = files
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", predicted)
    assert code == 0
    assert "160 of 180 rows predicted; 20 could not be, and say why in the column 'status'" in err
    rows = read_csv(predicted)
    assert rows[0]["status"] == "no author had a target in training"
    code, out, err = edgewise("explain", tmp_path / "run", "p3", "-o", tmp_path / "p3.json")
    assert (code, err) == (0, "")
    (found,) = json.loads((tmp_path / "p3.json").read_text())
    assert found["predictions"][0]["probabilities"]["1"] == pytest.approx(float(rows[23]["label_prob_1"]), abs=1e-4)
    kinds = [part["name"] for part in found["parts"]]
    assert kinds[:3] == ["author", "paper", "author writes paper"]
    code, _, err = edgewise("explain", tmp_path / "run", "a3", "-o", tmp_path / "a3.json")
    assert (code, "the node 'a3' cannot be predicted: no author had a target in training" in err) == (2, True)
    assert rows[0]["label_pred"] == ""
    right = [row["label_pred"] == row["label"] for row in rows[NUM_AUTHORS:]]
    assert np.mean(right) > 0.9
    # The same table with its columns called otherwise.
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(nodes.read_text().replace("kind", "sort", 1))
    words = ["predict", tmp_path / "run", renamed, "--edges", edges, "-o", tmp_path / "again.csv"]
    code, _, err = edgewise(*words)
    assert (code, "no column 'kind'" in err) == (2, True)
    assert edgewise(*words, "--node-type-column", "sort")[0] == 0
    assert [row["label_pred"] for row in read_csv(tmp_path / "again.csv")] == [row["label_pred"] for row in rows]
    unknown = tmp_path / "unknown.csv"
    unknown.write_text(edges.read_text().replace("opposes", "mocks", 1))
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", unknown, "-o", "-")
    assert code == 2
    assert "line 5, column 'relation': the edge from 'p0' to" in err
    assert "is of the type 'paper mocks paper', but the model knows author writes paper, paper cites paper" in err


def test_one_way_with_shared_matrices(learn, tmp_path):
    code, out, err = learn("--directed", "--model", "rgcn", "--num-bases", 2, "--epochs", 2)
    assert (code, err) == (0, "")
    assert "960 edges, one way each" in out
    assert "3 relations: author writes paper 160, paper cites paper 480, paper opposes paper 320" in out
    assert "rev_" not in out


def test_a_run_again_from_its_settings(learn, edgewise, tmp_path):
    assert learn("--epochs", 3)[0] == 0
    assert edgewise("train", "--config-path", tmp_path / "run/config.toml", "-o", tmp_path / "again")[0] == 0
    one, other = (tmp_path / folder / "model.safetensors" for folder in ("run", "again"))
    assert one.read_bytes() == other.read_bytes()


def test_one_file(edgewise, tables, tmp_path):
    nodes, edges = tables
    features, index, kinds, names = arrays_of(nodes, edges)
    y = np.array([-1 if cell == "" else cell for cell in nodes["label"]])
    path = tmp_path / "graph.npz"
    arrays = {"edge_index": index, "y": y, "has_label": y >= 0, "node_type": kinds, "edge_type": names}
    np.savez(path, x=features, **arrays)
    code, out, err = edgewise("train", path, "--directed", *SMALL, "--epochs", 2, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "2 types of nodes: author 20, paper 160" in out
    assert 'model = "hgt"' in (tmp_path / "run/config.toml").read_text(), "what is taken where a file has kinds"
    code, _, err = edgewise("predict", tmp_path / "run", path, "-o", tmp_path / "predicted.csv")
    assert (code, "160 of 180 rows predicted" in err) == (0, True)
    code, out, _ = edgewise("fingerprint", tmp_path / "run", path, "-o", tmp_path / "vectors.npz")
    assert (code, "160 of 180 rows have a vector of 16" in out) == (0, True)
    # A model that does not look at kinds says so, and reads a file without NaN.
    np.savez(path, x=np.nan_to_num(features), **arrays)
    code, out, _ = edgewise("train", path, "--model", "gcn", *SMALL, "--epochs", 2, "-o", tmp_path / "plain")
    assert (code, "types of nodes or edges, which --model gcn ignores" in out) == (0, True)
    assert edgewise("predict", tmp_path / "plain", path, "-o", tmp_path / "plain.csv")[0] == 0


def test_what_is_refused(learn, files, edgewise, tmp_path):
    targets = ["--target-columns", "label", "--ignore-columns", "kind", "age", "leaning"]
    for words, columns, message in [
        (["--model", "gat"], KINDS, "--node-type-column does nothing with --model gat; leave it out, or take"),
        (["--model", "gat"], [*targets, "--edge-type-column", "relation"], "--edge-type-column does nothing"),
        (["--model", "hgt"], targets, "--model hgt needs types of nodes and edges, and none are given"),
        (["--num-bases", 2], KINDS, "--num-bases does nothing with --model hgt"),
        (["--model", "rgcn", "--num-heads", 2], KINDS, "--num-heads does nothing with --model rgcn"),
        (["--model", "rgcn", "--num-bases", 0], KINDS, "--num-bases is 0; expected at least 1"),
        (["--num-heads", 3], KINDS, "--model-dim (16) must be a multiple of --num-heads (3)"),
        (
            ["--edge-feature-columns", "from"],
            KINDS,
            "only attention, gat, gatv2, gin or edge_attention reads edge features",
        ),
    ]:  # fmt: skip
        code, out, err = learn(*words, columns=columns, folder="bad")
        assert (code, out) == (2, ""), words
        assert message in err, err
        assert not (tmp_path / "bad").exists()
    assert learn("--model", "gcn", "--epochs", 1, columns=targets)[0] == 0
    nodes, edges = files
    words = ["predict", tmp_path / "run", nodes, "--edges", edges, "-o", "-", "--node-type-column", "kind"]
    code, _, err = edgewise(*words)
    assert (code, "ignores types of nodes and edges; leave out" in err) == (2, True)


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_words_of_one_type_of_nodes_become_its_features(edgewise, tables, files, tmp_path, scale):
    """They were refused beside types; papers have no city, and an author without one cannot be predicted."""
    nodes, edges = {name: list(cells) for name, cells in tables[0].items()}, files[1]
    is_author = [kind == "author" for kind in nodes["kind"]]
    nodes["city"] = [("Rome" if row % 2 else "Oslo") if known else "" for row, known in enumerate(is_author)]
    nodes["label"] = ["old" if known and row % 2 else "young" if known else "" for row, known in enumerate(is_author)]
    table, run, found = write_csv(tmp_path / "nodes.csv", nodes), tmp_path / "run", tmp_path / "found.csv"
    words = [*KINDS, "--category-columns", "city", *SMALL, "--epochs", 60, "--feature-scale", scale]
    code, out, err = edgewise("train", "nodes", table, "--edges", edges, *words, "-o", run)
    assert (code, err) == (0, "")
    assert "rejected" in out and "0 rows rejected" in out and "4 features of a node" in out
    document = json.loads((run / "model.json").read_text())
    own = dict(zip(document["types"]["nodes"], document["types"]["features"], strict=True))
    assert {2, 3} <= {*own["author"]} and not {2, 3} & {*own["paper"]}
    code, _, err = edgewise("predict", run, table, "--edges", edges, "-o", found)
    assert code == 0, err
    rows = read_csv(found)
    right = [row["label_pred"] == row["label"] for row, known in zip(rows, is_author) if known]
    assert sum(right) >= 18 or scale == "none", "the city says the label; beside an age in years it is a small number"
    assert edgewise("explain", run, rows[0]["id"], "-o", "-")[0] == 0

    author, paper = is_author.index(True), is_author.index(False)
    nodes["city"][author], nodes["city"][paper] = "Bern", "Rome"
    new = write_csv(tmp_path / "new.csv", nodes)
    assert edgewise("predict", run, new, "--edges", edges, "-o", found, "--overwrite")[0] == 0
    status = [row["status"] for row in read_csv(found)]
    assert "'Bern' is not one of the 2 known words" in status[author]
    assert "no node of this type had a word here in training" in status[paper]


def test_a_run_that_drops_what_lacks_a_number_fills_none_in_predict(learn, tables, files, edgewise, tmp_path):
    """The scales of types filled it all the same, with a median that was that of zeros."""
    nodes = {name: list(cells) for name, cells in tables[0].items()}
    paper = nodes["kind"].index("paper")
    name = next(name for name in nodes if name not in ("id", "kind", "label") and nodes[name][paper] != "")
    nodes[name][paper] = ""
    table = write_csv(tmp_path / "gaps.csv", nodes)
    code, out, err = learn("--missing", "drop", "--epochs", 1, "--num-heads", 2, nodes=table)
    assert (code, "1 row rejected" in out) == (0, True), err
    code, _, err = edgewise("predict", tmp_path / "run", table, "--edges", files[1], "-o", tmp_path / "found.csv")
    assert code == 0, err
    assert read_csv(tmp_path / "found.csv")[paper]["status"] == f"{name}: empty cell, expected a number"


def test_a_missing_number_is_named_beside_degrees(learn, tables, files, edgewise, tmp_path):
    """Venues have no number, and get degrees: two columns more, which have no name in the table."""
    nodes, edges = {name: list(cells) for name, cells in tables[0].items()}, tables[1]
    for name, cell in {"id": "v0", "kind": "venue"}.items():
        nodes[name].append(cell)
    for name in ("age", "leaning", "label"):
        nodes[name].append("")
    paper = nodes["kind"].index("paper")
    edges = {name: list(cells) for name, cells in edges.items()}
    for name, cell in zip(edges, (nodes["id"][paper], "v0", "in"), strict=True):
        edges[name].append(cell)
    nodes["leaning"][paper] = ""
    table, links = write_csv(tmp_path / "n.csv", nodes), write_csv(tmp_path / "e.csv", edges)
    code, out, err = learn("--epochs", 1, "--num-heads", 2, nodes=table, edges=links)
    assert (code, "'leaning' 1" in out) == (0, True), err
    code, _, err = edgewise("predict", tmp_path / "run", table, "--edges", links, "-o", tmp_path / "found.csv")
    assert code == 0, err
    assert read_csv(tmp_path / "found.csv")[paper]["status"] == "ok, but 'leaning' is missing, filled with the median"
