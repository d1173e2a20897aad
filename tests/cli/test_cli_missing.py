"""`--missing impute|drop`: cells without a number on the command line, in training and in predictions."""

import json

import numpy as np
import pytest

from cli_tables import read_csv, write_csv
from edgewise import DataError, EdgeClassifier

SMALL = ["--epochs", 1, "--model-dim", 8, "--no-baselines"]


@pytest.fixture
def tables(tmp_path):
    """Twenty graphs of four nodes with two features, one of which is missing at one node, one edge and one graph."""
    random = np.random.default_rng(0)
    nodes = {name: [] for name in ("g", "id", "a", "b", "heat", "y")}
    edges = {name: [] for name in ("g", "from", "to", "length")}
    for graph in range(20):
        for node in range(4):
            values = [f"g{graph}", f"{graph}_{node}", random.normal(), random.normal(), graph, graph]
            for name, value in zip(nodes, values, strict=True):
                nodes[name].append(value)
            for name, value in zip(edges, [f"g{graph}", f"{graph}_{node}", f"{graph}_{(node + 1) % 4}", node + 1]):
                edges[name].append(value)
    nodes["b"][5], edges["length"][9], nodes["heat"][12:16] = "", "nan", [""] * 4
    return nodes, edges


def train(edgewise, tmp_path, tables, *words, folder="run"):
    nodes, edges = (write_csv(tmp_path / f"{name}.csv", table) for name, table in zip(("nodes", "edges"), tables))
    return edgewise(
        *("train", "graphs", nodes, "--edges", edges, "--graph-column", "g", "--target-columns", "y", *SMALL),
        *("--edge-feature-columns", "length", "--graph-feature-columns", "heat", *words, "-o", tmp_path / folder),
    )


def test_graphs_are_filled(edgewise, tmp_path, tables):
    code, out, err = train(edgewise, tmp_path, tables)
    assert (code, err) == (0, "")
    assert "20 graphs, 20 distinct graphs, 0 graphs rejected" in out
    for line in (
        "warning: 1 missing number of nodes was filled with the median of the training rows, and marked: 'b' 1",
        "warning: 2 missing numbers of edges, both ways counted, were filled with the median of the training rows, and "
        "marked: 'length' 2",
        "warning: 1 missing number of graphs was filled with the median of the training rows, and marked: 'heat' 1",
    ):
        assert line in out
    rows = json.loads((tmp_path / "run/splits.json").read_text())["train"]
    values = [tables[0]["a"][node] for row in rows for node in range(4 * row, 4 * row + 4)]
    median = json.loads((tmp_path / "run/model.json").read_text())["scales"]["node"]["imputer"]["median"]
    assert median[0] == pytest.approx(np.median(values), rel=1e-6), "of the training graphs alone"

    tables[0]["a"][0] = ""  # it lacked nothing in training
    nodes = write_csv(tmp_path / "new.csv", tables[0])
    output = tmp_path / "out.csv"
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", tmp_path / "edges.csv", "-o", output)
    assert code == 0
    assert "20 of 20 rows predicted, 4 of them with missing numbers filled with the median" in err
    assert [row["status"] for row in read_csv(output)][:5] == [
        "ok, but 'a' of a node is missing, filled with the median",
        "ok, but 'b' of a node is missing, filled with the median",
        "ok, but 'length' of an edge is missing, filled with the median",
        "ok, but 'heat' is missing, filled with the median",
        "ok",
    ]


def test_graphs_are_dropped_on_request(edgewise, tmp_path, tables):
    code, out, _ = train(edgewise, tmp_path, tables, "--missing", "drop")
    assert code == 0
    assert "20 graphs, 18 distinct graphs, 2 graphs and 1 edge rejected" in out
    assert "empty cell, expected a number" in out
    assert "missing number" not in out


def test_a_word_where_a_number_should_be_is_never_filled(edgewise, tmp_path, tables):
    tables[0]["a"][0] = "n/a?"
    _, out, _ = train(edgewise, tmp_path, tables)
    assert "1 graph rejected" in out
    assert "'n/a?' is not a number" in out


def test_nodes_and_links(edgewise, tmp_path):
    random = np.random.default_rng(0)
    nodes = {"id": list(range(30)), "a": random.normal(size=30).tolist(), "b": random.normal(size=30).tolist()}
    nodes["y"] = ["up" if value > 0 else "down" for value in nodes["a"]]
    nodes["b"][3] = ""
    edges = write_csv(tmp_path / "edges.csv", dict(zip(("from", "to"), random.integers(0, 30, (2, 80)).tolist())))
    table = write_csv(tmp_path / "nodes.csv", nodes)
    common = ["--edges", edges, *SMALL, "--model", "gcn"]
    code, out, _ = edgewise("train", "nodes", table, *common, "--target-columns", "y", "-o", tmp_path / "nodes")
    assert code == 0
    assert "30 rows, 30 distinct nodes, 0 rows rejected" in out
    assert "1 missing number of nodes was filled" in out
    output = tmp_path / "out.csv"
    code, _, err = edgewise("predict", tmp_path / "nodes", table, "--edges", edges, "-o", output)
    assert "30 of 30 rows predicted, 1 of them with missing numbers filled with the median" in err
    assert read_csv(output)[3]["status"] == "ok, but 'b' is missing, filled with the median"
    code, out, _ = edgewise("train", "links", table, *common, "--ignore-columns", "y", "-o", tmp_path / "links")
    assert code == 0
    assert "0 rows rejected" in out
    assert "1 missing number of nodes was filled" in out
    words = ("--target-columns", "y", "--feature-scale", "none", "-o", tmp_path / "as_they_are")
    _, out, _ = edgewise("train", "nodes", table, *common, *words)
    assert "30 rows, 30 distinct nodes, 1 row rejected" in out, "what is not scaled is not filled"


def test_all_columns_that_cannot_be_read_are_named_at_once(edgewise, tmp_path):
    nodes = {"id": range(6), "a": range(6), "color": ["red"] * 6, "shape": ["round"] * 6, "y": range(6)}
    table = write_csv(tmp_path / "nodes.csv", nodes)
    edges = write_csv(tmp_path / "edges.csv", {"from": range(5), "to": range(1, 6)})
    code, _, err = edgewise("train", "nodes", table, "--edges", edges, "--target-columns", "y", "-o", tmp_path / "run")
    assert code == 2
    assert "line 2, column 'color': 'red' is not a number." in err
    assert "No cell of 'shape' can be read either: 'round' is not a number. Name the columns with numbers" in err


@pytest.mark.parametrize(
    ("task", "model"), [(task, model) for task in ("nodes", "links") for model in ("attention", "gcn")]
)
def test_numbers_of_edges_of_one_graph_are_filled(edgewise, tmp_path, task, model):
    """An edge without a number was left out of the graph; where the number is a weight there is no mark."""
    random = np.random.default_rng(0)
    nodes = {"id": list(range(30)), "a": random.normal(size=30).tolist(), "y": ["up", "down"] * 15}
    edges = dict(zip(("from", "to"), random.integers(0, 30, (2, 80)).tolist())) | {"w": [*range(1, 81)]}
    edges["w"][3], edges["w"][8] = "", "nan"
    edges["from"][3], edges["to"][3] = 4, 5
    table, pairs = write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)
    roles = ["--target-columns", "y"] if task == "nodes" else ["--ignore-columns", "y"]
    words = [*SMALL, *roles, "--edges", pairs, "--edge-feature-columns", "w", "--model", model]
    code, out, err = edgewise("train", task, table, *words, "-o", tmp_path / "run")
    assert code == 0, err
    count = 2 * 2
    marked = ", and marked" if model == "attention" else ""
    assert f"warning: {count} missing numbers of edges, both ways counted, were filled with the median" in out
    source = "all edges" if task == "nodes" else "the training links"
    assert f"of {source}{marked}: 'w' {count}" in out
    assert "cannot be read" not in out
    splits = json.loads((tmp_path / "run/splits.json").read_text())
    is_loop = np.equal(edges["from"], edges["to"])
    known = range(80) if task == "nodes" else {*splits["train"], *np.flatnonzero(is_loop).tolist()}
    # Both ways of an edge count, but of a loop, which has one.
    numbers = [float(edges["w"][row]) for row in known for _ in range(2 - int(is_loop[row])) if row not in (3, 8)]
    expected = pytest.approx(np.median(numbers))
    assert json.loads((tmp_path / "run/model.json").read_text())["edge_imputer"]["median"] == [expected]
    code, out, err = edgewise("train", task, table, *words, "--missing", "drop", "-o", tmp_path / "dropped")
    assert (code, "missing number" in out) == (0, False), err
    assert "rejected" in out and len(read_csv(tmp_path / "dropped/rejected.csv")) == 2

    data = table if task == "nodes" else pairs
    more = ["--edges", pairs] if task == "nodes" else []
    code, _, err = edgewise("predict", tmp_path / "run", data, *more, "-o", tmp_path / "out.csv")
    assert code == 0, err
    if task == "nodes":
        status = [row["status"] for row in read_csv(tmp_path / "out.csv")]
        assert status[4] == status[5] == "ok, but 'w' of an edge is missing, filled with the median"
        assert "ok" in status


@pytest.mark.parametrize("task", ["graphs", "edges"])
def test_a_weight_of_an_edge_is_filled_without_a_mark(edgewise, tmp_path, tables, task):
    """The training diverged: a weight is not scaled, and was not filled."""
    words = ["--model", "gcn"]
    if task == "graphs":
        code, out, err = train(edgewise, tmp_path, tables, *words)
    else:
        random = np.random.default_rng(0)
        edges = dict(zip(("from", "to"), random.integers(0, 30, (2, 80)).tolist())) | {"w": [*range(1, 81)]}
        edges |= {"y": random.normal(size=80).tolist()}
        edges["w"][3] = ""
        pairs = write_csv(tmp_path / "edges.csv", edges)
        words += [*SMALL, "--target-columns", "y", "--edge-feature-columns", "w"]
        code, out, err = edgewise("train", "edges", pairs, *words, "-o", tmp_path / "run")
    assert (code, "were filled with the median" in out or "was filled with the median" in out) == (0, True), err


def test_edges_that_lack_a_number_are_not_predicted_by_a_run_that_drops_them(edgewise, tmp_path):
    random = np.random.default_rng(0)
    nodes = write_csv(tmp_path / "n.csv", {"id": range(30), "a": random.normal(size=30).tolist()})
    ends = random.integers(0, 30, (2, 90)).tolist()
    weights = [*[""] * 5, *random.random(85).round(3).tolist()]
    labels = random.choice(["p", "q"], 90).tolist()
    table = {"source": ends[0], "target": ends[1], "w": weights, "y": labels}
    edges = write_csv(tmp_path / "e.csv", table)
    words = ["--nodes", nodes, "--target-columns", "y", "--edge-feature-columns", "w", "--missing", "drop", *SMALL]
    code, out, err = edgewise("train", "edges", edges, *words, "-o", tmp_path / "run")
    assert (code, "5 rows rejected" in out) == (0, True), err
    code, _, err = edgewise("predict", tmp_path / "run", edges, "--nodes", nodes, "-o", tmp_path / "p.csv")
    assert (code, "85 of 90 rows predicted" in err) == (0, True), err
    assert [row["status"] for row in read_csv(tmp_path / "p.csv")][:2] == ["w: empty cell, expected a number"] * 2
    features, values = np.ones((30, 1)), np.ones((90, 1))
    values[0] = np.nan
    with pytest.raises(DataError, match="edge_features holds NaN, which the model does not fill"):
        EdgeClassifier.load(tmp_path / "run").predict(features, np.array(ends), edge_features=values)


@pytest.mark.parametrize("scale", ["none", "rows"])
@pytest.mark.parametrize("task", ["nodes", "edges"])
def test_numbers_of_edges_are_filled_however_features_of_nodes_are_scaled(edgewise, tmp_path, task, scale):
    """Nodes were refused after it was said that the number was filled; edges were rejected."""
    random = np.random.default_rng(0)
    nodes = {"id": range(30), "a": random.random(30).round(3).tolist(), "y": random.random(30).tolist()}
    ends = random.integers(0, 30, (2, 90)).tolist()
    table = {"from": ends[0], "to": ends[1], "w": ["", *range(1, 90)], "z": random.random(90).tolist()}
    nodes, edges = write_csv(tmp_path / "n.csv", nodes), write_csv(tmp_path / "e.csv", table)
    data = [nodes, "--edges", edges] if task == "nodes" else [edges, "--nodes", nodes]
    roles = ["--target-columns", "y" if task == "nodes" else "z", "--feature-columns", "a"]
    words = [*roles, "--edge-feature-columns", "w", "--feature-scale", scale, "--model", "gat", *SMALL]
    code, out, err = edgewise("train", task, *data, *words, "-o", tmp_path / "run")
    assert (code, "0 rows rejected" in out, "marked: 'w' " in out) == (0, True, True), (out, err)
    code, _, err = edgewise("predict", tmp_path / "run", *data, "-o", tmp_path / "p.csv")
    assert code == 0, err
    status = [row["status"] for row in read_csv(tmp_path / "p.csv")]
    row, of_edge = (ends[0][0], " of an edge") if task == "nodes" else (0, "")
    assert status[row] == f"ok, but 'w'{of_edge} is missing, filled with the median"
    code, out, err = edgewise("train", task, *data, *words, "--missing", "drop", "-o", tmp_path / "dropped")
    rejected = "0 rows and 1 edge rejected" if task == "nodes" else "1 row rejected"
    assert (code, rejected in out) == (0, True), (out, err)
