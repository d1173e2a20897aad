"""Edges that cannot be read: counted, named, listed, refused, and said of the rows near them."""

import numpy as np
import pytest

from cli_tables import read_csv, write_csv
from edgewise.learn.estimators import Forecaster
from edgewise.learn.readers.graphs.series import read_series
from edgewise.learn.tasks.explainer import Explainer

SMALL = ["--epochs", 2, "--model", "gcn", "--model-dim", 8, "--num-layers", 2]


def ring(size, graph=None):
    """A ring of nodes with a feature each, and its edges."""
    random = np.random.default_rng(0)
    nodes = {
        "id": [f"n{node}" for node in range(size)],
        "x": random.normal(size=size).round(3).tolist(),
        "y": random.normal(size=size).round(3).tolist(),
    }
    edges = {
        "source": nodes["id"],
        "target": [*nodes["id"][1:], "n0"],
        "bond": ["single" if place % 2 else "double" for place in range(size)],
        "length": random.random(size).round(3).tolist(),
    }
    return nodes, edges


@pytest.fixture
def tables(tmp_path):
    nodes, edges = ring(30)
    return write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges), nodes, edges


OF_EDGES = ["--edge-category-columns", "bond", "--edge-feature-columns", "length"]


def damaged(edges):
    """The edge of n0 names no node, that of n10 an unknown word, that of n20 no number."""
    found = {name: list(cells) for name, cells in edges.items()}
    found["target"][0], found["bond"][10], found["length"][20] = "nobody", "triple", "long"
    return found


def said_of_rows(path):
    return {row["id"]: row["status"] for row in read_csv(path) if row["status"] != "ok"}


def test_a_graph_of_nodes_lacks_edges(edgewise, tables, tmp_path):
    nodes, edges, _, table = tables
    words = [*OF_EDGES, "--target-columns", "y", "--epochs", 2, "--model", "attention", "--model-dim", 8]
    words += ["--num-heads", 2, "--num-layers", 2]
    assert edgewise("train", "nodes", nodes, "--edges", edges, *words, "-o", tmp_path / "run")[0] == 0
    bad = write_csv(tmp_path / "bad.csv", damaged(table))
    out = tmp_path / "out.csv"
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", bad, "-o", out)
    listed = tmp_path / "rejected.csv"
    assert code == 0
    assert f"3 edges passed over, the first in {bad}, line 2, column 'target': 'nobody' is not a node" in err
    assert f"(all in {listed})" in err
    assert "30 of 30 rows predicted, 15 of them without edges that cannot be read" in err
    assert [(row["line"], row["column"], row["value"]) for row in read_csv(listed)] == [
        ("2", "target", "nobody"),
        ("12", "bond", "triple"),
        ("22", "length", "long"),
    ]
    found = said_of_rows(out)
    assert {name for name, status in found.items() if status == "ok, but edges of the node cannot be read"} == {
        *("n0", "n10", "n11", "n20", "n21")
    }
    assert found["n12"] == "ok, but edges 1 hop away cannot be read"
    assert found["n13"] == "ok, but edges 2 hops away cannot be read", "two layers look as far"
    assert "n14" not in found and "n5" not in found

    # Exactly the rows that depend on these edges are named, but for the side of the end that no node is called.
    whole = tmp_path / "whole.csv"
    assert edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", whole)[0] == 0
    changed = {
        one["id"] for one, other in zip(read_csv(out), read_csv(whole), strict=True) if one["y_pred"] != other["y_pred"]
    }
    assert changed <= found.keys() | {"n1", "n2"} and len(changed) >= 11
    assert said_of_rows(whole) == {}

    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", bad, "--strict", "-o", tmp_path / "no.csv")
    assert code == 2 and "'nobody' is not a node" in err
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", bad, "-o", out, "--overwrite")
    assert f"(all in {tmp_path / 'rejected_2.csv'})" in err, "no other list is replaced"
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", bad, "-o", "-")
    assert "3 edges passed over" in err and "all in" not in err
    code, _, err = edgewise("fingerprint", tmp_path / "run", nodes, "--edges", bad, "-o", tmp_path / "v.npz")
    assert code == 0 and "3 edges passed over" in err


@pytest.mark.parametrize("is_local", [True, False])
def test_graphs_lack_edges(edgewise, tmp_path, is_local):
    random = np.random.default_rng(0)
    count, size = 20, 4
    graphs = np.repeat(np.arange(count), size)
    ids = [str(node % size if is_local else node) for node in range(count * size)]
    nodes = {
        "graph": [f"g{graph}" for graph in graphs],
        "id": ids,
        "x": random.normal(size=len(ids)).round(3).tolist(),
        "y": random.normal(size=count).round(3)[graphs].tolist(),
    }
    edges = {"source": ids, "target": [ids[node // size * size + (node + 1) % size] for node in range(len(ids))]}
    if is_local:
        edges["graph"] = nodes["graph"]
    paths = write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)
    words = ["--graph-column", "graph", "--target-columns", "y", *SMALL]
    assert edgewise("train", "graphs", paths[0], "--edges", paths[1], *words, "-o", tmp_path / "run")[0] == 0
    edges["target"][5], edges["target"][6] = "nobody", "none"
    if is_local:
        edges["source"][6] = "none either"
    bad, out = write_csv(tmp_path / "bad.csv", edges), tmp_path / "out.csv"
    code, _, err = edgewise("predict", tmp_path / "run", paths[0], "--edges", bad, "-o", out)
    assert code == 0 and "2 edges passed over, the first in" in err
    assert "20 of 20 rows predicted, 1 of them without edges that cannot be read" in err
    assert {row["graph"]: row["status"] for row in read_csv(out) if row["status"] != "ok"} == {
        "g1": "ok, but edges of the graph cannot be read"
    }
    assert len(read_csv(tmp_path / "rejected.csv")) == 2
    assert (
        edgewise("predict", tmp_path / "run", paths[0], "--edges", bad, "--strict", "-o", tmp_path / "no.csv")[0] == 2
    )


def test_edges_to_predict_lack_each_other(edgewise, tables, tmp_path):
    nodes, _, _, table = tables
    words = ["--nodes", nodes, "--edge-feature-columns", "length", "--target-columns", "rating"]
    words += ["--ignore-columns", "bond"]
    table = {**table, "rating": np.random.default_rng(0).normal(size=30).round(3).tolist()}
    rated = write_csv(tmp_path / "rated.csv", table)
    code, _, err = edgewise("train", "edges", rated, *words, *SMALL, "-o", tmp_path / "run")
    assert code == 0, err
    bad, out = write_csv(tmp_path / "bad.csv", damaged(table)), tmp_path / "out.csv"
    code, _, err = edgewise("predict", tmp_path / "run", bad, "--nodes", nodes, "-o", out)
    assert code == 0 and "2 edges passed over, the first in" in err and "line 2, column 'target'" in err
    assert "28 of 30 rows predicted" in err and "of them without edges that cannot be read; 2 could not be" in err
    status = [row["status"] for row in read_csv(out)]
    assert status[29] == "ok, but edges of its nodes cannot be read", "n29 to n0"
    assert status[10] == "ok", "no feature of this model cannot be read"
    assert "'nobody' is not a node" in status[0]


def test_pairs_whose_nodes_lack_edges(edgewise, tables, tmp_path):
    nodes, edges, _, of_edges = tables
    words = ["--ignore-columns", "y", *SMALL]
    code, _, err = edgewise("train", "links", nodes, "--edges", edges, *words, "-o", tmp_path / "run")
    assert code == 0, err
    of_edges["target"][0] = "nobody"
    bad, out = write_csv(tmp_path / "bad.csv", of_edges), tmp_path / "out.csv"
    pairs = write_csv(tmp_path / "pairs.csv", {"a": ["n0", "n15", "n28"], "b": ["n9", "n20", "n15"]})
    for which in (["--edges", bad], ["--nodes", nodes, "--edges", bad]):
        code, _, err = edgewise("predict", tmp_path / "run", pairs, *which, "-o", out, "--overwrite")
        assert code == 0 and "1 edge passed over, the first in" in err
        assert "2 of them without edges that cannot be read" in err
        assert [row["status"] for row in read_csv(out)] == [
            "ok, but edges of its nodes cannot be read",
            "ok",
            "ok, but edges 2 hops away cannot be read",
        ]
        assert edgewise("predict", tmp_path / "run", pairs, *which, "--strict", "-o", tmp_path / "no.csv")[0] == 2

    # Of the graph of the training, the model keeps what could not be read.
    expected = [row["status"] for row in read_csv(out)]
    assert edgewise("train", "links", nodes, "--edges", bad, *words, "-o", tmp_path / "lost")[0] == 0
    assert edgewise("predict", tmp_path / "lost", pairs, "-o", out, "--overwrite")[0] == 0
    assert [row["status"] for row in read_csv(out)] == expected


def test_a_series_lacks_edges(edgewise, tmp_path):
    values = np.random.default_rng(0).normal(size=(80, 3)).round(3)
    series = write_csv(tmp_path / "series.csv", dict(zip("abc", values.T.tolist(), strict=True)))
    edges = write_csv(tmp_path / "edges.csv", {"source": ["a", "b"], "target": ["b", "c"]})
    words = ["--context", 4, "--horizon", 2, "--epochs", 1, "--model-dim", 8]
    code, _, err = edgewise("train", "forecast", series, "--edges", edges, *words, "-o", tmp_path / "run")
    assert code == 0, err
    bad = write_csv(tmp_path / "bad.csv", {"source": ["a", "b"], "target": ["b", "d"]})
    code, _, err = edgewise("predict", tmp_path / "run", series, "--edges", bad, "-o", tmp_path / "out.csv")
    assert code == 0 and f"1 edge passed over, the first in {bad}, line 3, column 'target': 'd' is not a node" in err
    words = ["--edges", bad, "--strict", "-o", tmp_path / "no.csv"]
    assert edgewise("predict", tmp_path / "run", series, *words)[0] == 2


def test_a_training_says_which_edges_it_lacks_and_explanations_do_too(edgewise, tables, tmp_path):
    nodes, _, _, table = tables
    bad = write_csv(tmp_path / "bad.csv", damaged(table))
    words = ["--edges", bad, *OF_EDGES, "--target-columns", "y", "--epochs", 1, "--model", "gin", "--model-dim", 8]
    code, out, err = edgewise("train", "nodes", nodes, *words, "-o", tmp_path / "run")
    assert code == 0, err
    assert "30 distinct nodes, 0 rows and 2 edges rejected" in out, "all words that occur are known"
    assert f"  1 for column 'target', the first in {bad}, line 2: 'nobody' is not a node of" in out
    assert f"  1 for column 'length', the first in {bad}, line 22: 'long' is not a number" in out
    assert edgewise("train", "nodes", nodes, *words, "--strict", "-o", tmp_path / "no")[0] == 2
    code, _, err = edgewise("explain", tmp_path / "run", "n0", "-o", tmp_path / "n0.json")
    assert code == 0 and f"2 edges passed over, the first in {bad}, line 2, column 'target'" in err
    with pytest.warns(UserWarning, match="2 edges passed over, the first in"):
        model = Explainer.open(tmp_path / "run")
    statuses = model.statuses([{"id": "n0"}, {"id": "n5"}])
    assert statuses == ["ok, but edges of the node cannot be read", "ok"]


def test_a_training_on_series_refuses_edges_and_python_warns_of_them(edgewise, tmp_path):
    values = np.random.default_rng(0).normal(size=(80, 3)).round(3)
    series = write_csv(tmp_path / "series.csv", dict(zip("abc", values.T.tolist(), strict=True)))
    bad = write_csv(tmp_path / "bad.csv", {"source": ["a", "b"], "target": ["b", "d"]})
    words = ["--context", 4, "--horizon", 2, "--epochs", 1, "--model-dim", 8, "--edges", bad]
    code, out, _ = edgewise("train", "forecast", series, *words, "-o", tmp_path / "run")
    assert code == 0 and f"1 edge rejected, the first in {bad}, line 3, column 'target': 'd' is not a node" in out
    code, _, err = edgewise("train", "forecast", series, *words, "--strict", "-o", tmp_path / "no")
    assert code == 2 and "'d' is not a node" in err

    read = read_series(str(series), str(bad), edge_columns=(), is_directed=False, time_column=None)
    with pytest.warns(UserWarning, match="1 edge passed over, the first in .*bad.csv, line 3, column 'target'"):
        Forecaster(context=4, horizon=2, epochs=1, model_dim=8).fit(read)


def test_a_store_whose_tables_lack_edges_says_so(edgewise, tables, tmp_path):
    nodes, _, _, table = tables
    table["target"][0] = "nobody"
    bad = write_csv(tmp_path / "bad.csv", {"source": table["source"], "target": table["target"]})
    assert edgewise("prepare", nodes, bad, "-o", tmp_path / "store")[0] == 0
    words = ["--target-columns", "y", "--epochs", 1, "--model", "sage", "--model-dim", 8]
    code, out, _ = edgewise("train", "nodes", tmp_path / "store", *words, "-o", tmp_path / "run")
    assert code == 0
    assert f"1 row of the edges has a cell that cannot be read, the first in {bad}, line 2, column 'target'" in out
    code, _, err = edgewise("train", "nodes", tmp_path / "store", *words, "--strict", "-o", tmp_path / "no")
    assert code == 2 and "prepare the store again" in err
    predict = ["predict", tmp_path / "run", tmp_path / "store", "-o", tmp_path / "out.csv"]
    code, _, err = edgewise(*predict)
    assert code == 0 and f"1 edge passed over, the first in {bad}, line 2, column 'target'" in err
    assert f"(all in {tmp_path / 'rejected.csv'})" in err and len(read_csv(tmp_path / "rejected.csv")) == 1
    code, _, err = edgewise(*predict, "--strict", "--overwrite")
    assert code == 2 and "'nobody' is not a node" in err


def test_rows_near_a_node_that_cannot_be_read_say_so(edgewise, tables, tmp_path):
    """Its features are 0 for its neighbors, whose predictions change."""
    nodes, edges, table, _ = tables
    table["x"][5] = "soon"
    bad, out = write_csv(tmp_path / "bad.csv", table), tmp_path / "out.csv"

    words = ["--edges", edges, "--target-columns", "y", "--feature-columns", "x", *SMALL]
    assert edgewise("train", "nodes", nodes, *words, "-o", tmp_path / "run")[0] == 0
    code, _, err = edgewise("predict", tmp_path / "run", bad, "--edges", edges, "-o", out)
    assert code == 0 and "29 of 30 rows predicted, 4 of them near nodes whose features cannot be read" in err
    near, far = "ok, but features 1 hop away cannot be read", "ok, but features 2 hops away cannot be read"
    said = said_of_rows(out)
    assert said == {"n3": far, "n4": near, "n5": "x: 'soon' is not a number", "n6": near, "n7": far}

    whole = tmp_path / "whole.csv"
    assert edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", whole)[0] == 0
    pairs = zip(read_csv(out), read_csv(whole), strict=True)
    assert {row["id"] for row, other in pairs if row["y_pred"] != other["y_pred"]} == said.keys()

    assert (
        edgewise("train", "links", nodes, "--edges", edges, "--ignore-columns", "y", *SMALL, "-o", tmp_path / "links")[
            0
        ]
        == 0
    )
    links = write_csv(tmp_path / "pairs.csv", {"a": ["n5", "n7", "n20"], "b": ["n9", "n15", "n22"]})
    words = [links, "--nodes", bad, "--edges", edges, "-o", out, "--overwrite"]
    code, _, err = edgewise("predict", tmp_path / "links", *words)
    assert code == 0 and "2 of them near nodes whose features cannot be read" in err
    where = f"{bad}, line 7, column 'x': 'soon' is not a number (all in {tmp_path / 'rejected.csv'})"
    assert f"1 node has features that cannot be read, and are 0, the first in {where}" in err
    assert [row["value"] for row in read_csv(tmp_path / "rejected.csv")] == ["soon"]
    status = [row["status"] for row in read_csv(out)]
    assert status == ["ok, but features of its nodes cannot be read", far, "ok"]

    words = ["--feature-columns", "x", "-o", tmp_path / "store"]
    code, _, err = edgewise("prepare", bad, edges, *words)
    assert code == 0, err
    code, _, err = edgewise("predict", tmp_path / "run", tmp_path / "store", "-o", out, "--overwrite")
    assert code == 0 and "29 of 30 rows predicted, 4 of them near nodes whose features cannot be read" in err
    assert said_of_rows(out).keys() == said.keys()
