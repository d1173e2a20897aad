"""Nodes and graphs without edges, or without features, on the command line."""

import numpy as np
import pytest

from cli_tables import read_csv, write_csv

INDEX = np.stack([np.arange(1, 12), np.arange(1, 12) // 2])
"""A tree."""


def test_a_graph_of_a_run_over_files_lacks_its_features(edgewise, tmp_path):
    names = [f"n{node}" for node in range(12)]
    values = np.random.default_rng(0).normal(size=(3, 12)).round(3).tolist()
    nodes = write_csv(tmp_path / "nodes.csv", {"id": names, "y": values[0]})
    ends = {"source": [names[node] for node in INDEX[0]], "target": [names[node] for node in INDEX[1]]}
    edges = write_csv(tmp_path / "edges.csv", ends)
    np.savez(tmp_path / "x.npz", x=np.array(values[1:]).T)
    words = ["train", "nodes", nodes, "--edges", edges, "--target-columns", "y", "--epochs", 1, "--model-dim", 8]
    code, out, _ = edgewise(*words, "--features", tmp_path / "x.npz", "-o", tmp_path / "run")
    assert code == 0 and "; 2 features of a node\n" in out
    code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", edges, "-o", tmp_path / "out.csv")
    assert code == 2 and "its nodes have no features, but the model was trained on 2" in err
    code, out, _ = edgewise(*words, "-o", tmp_path / "bare")
    assert code == 0 and "2 features of a node: in- and out-degree, as no other is known" in out
    assert edgewise("predict", tmp_path / "bare", nodes, "--edges", edges, "-o", tmp_path / "out.csv")[0] == 0
    assert len(read_csv(tmp_path / "out.csv")) == 12


def tables(tmp_path, **more):
    """Nodes with a feature, a type and a target, and a tree of edges with a word and a number each."""
    random = np.random.default_rng(0)
    names = [f"n{node}" for node in range(12)]
    nodes = {"id": names, "x": random.normal(size=12).round(3).tolist(), "y": random.normal(size=12).round(3).tolist()}
    nodes["kind"] = ["a", "b"] * 6
    ends = {"source": [names[node] for node in INDEX[0]], "target": [names[node] for node in INDEX[1]]}
    edges = {**ends, "bond": ["one", "two", "one"] * 3 + ["two"] * 2, "km": random.random(11).round(3).tolist()}
    header = tmp_path / "header.csv"
    header.write_text(",".join([*edges, *more]) + "\n")
    nodes, edges = nodes | more, edges | {name: cells[1:] for name, cells in more.items()}
    return write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges), header


TASKS = {
    "nodes": (["--target-columns", "y", "--ignore-columns", "kind", "--model", "attention"], {}),
    "types": (
        ["--target-columns", "y", "--node-type-column", "kind", "--edge-type-column", "bond", "--model", "rgcn"],
        {},
    ),
    "graphs": (
        ["--target-columns", "y", "--ignore-columns", "kind", "--graph-column", "graph", "--model", "gin"],
        {"graph": [f"g{node}" for node in range(12)]},
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_nodes_and_graphs_without_edges_are_predicted(edgewise, tmp_path, task):
    words, more = TASKS[task]
    nodes, edges, header = tables(tmp_path, **more)
    if task == "graphs":  # the first edge of all is a loop: others would join two graphs
        ends = [f"n{node}" for node in range(11)]
        edges = write_csv(tmp_path / "loops.csv", {"source": ends, "target": ends, "graph": more["graph"][:11]})
    columns = [] if task == "types" else ["--edge-feature-columns", "km", "--edge-category-columns", "bond"]
    words = [*words, *(columns if task == "nodes" else []), "--epochs", 1, "--model-dim", 8, "-o", tmp_path / "run"]
    kind = "nodes" if task == "types" else task
    code, _, err = edgewise("train", kind, nodes, "--edges", edges, *words)
    assert code == 0, err
    found = []
    for number, which in enumerate(("none", header)):
        out = tmp_path / f"out{number}.csv"
        code, _, err = edgewise("predict", tmp_path / "run", nodes, "--edges", which, "-o", out)
        assert code == 0, err
        assert "12 of 12 rows predicted" in err
        found.append([row["y_pred"] for row in read_csv(out)])
    assert found[0] == found[1]
    for verb in (["predict", tmp_path / "run", nodes, "-o", "-"], ["train", kind, nodes, *words, "--overwrite"]):
        code, _, err = edgewise(*verb)  # a table that is forgotten is asked for
        assert code == 2 and "edges: --edges edges.csv" in err
    assert edgewise("train", kind, nodes, "--edges", header, *words, "--overwrite")[0] == 2


def test_new_nodes_without_links_are_predicted(edgewise, tmp_path):
    nodes, edges, header = tables(tmp_path)
    words = ["--ignore-columns", "y", "kind", "--model", "sage", "--epochs", 1, "--model-dim", 8]
    code, _, err = edgewise("train", "links", nodes, "--edges", edges, *words, "-o", tmp_path / "run")
    assert code == 0, err
    pairs = write_csv(tmp_path / "pairs.csv", {"a": ["n0"], "b": ["n5"]})
    code, out, err = edgewise("predict", tmp_path / "run", pairs, "--nodes", nodes, "--edges", header, "-o", "-")
    assert code == 0, err
    assert "1 of 1 pair predicted, 0 of them links" in err
    for which in (["--edges", "none"], ["--edges", header], ["--nodes", nodes, "--edges", "none"]):
        code, again, err = edgewise("predict", tmp_path / "run", pairs, *which, "-o", "-")
        assert (code, again) == (0, out), err


@pytest.mark.parametrize("width", [0, 1])
def test_a_graph_file_without_edges_is_predicted(width, edgewise, tmp_path):
    random = np.random.default_rng(0)
    whole = {"x": random.normal(size=(12, 2)), "y": random.normal(size=12)}
    features = {"edge_attr": random.random((11, 1))} if width else {}
    np.savez(tmp_path / "graph.npz", **whole, edge_index=INDEX, **features)
    np.savez(tmp_path / "alone.npz", **whole, edge_index=np.zeros((2, 0)))
    words = ["--epochs", 1, "--model-dim", 8, "-o", tmp_path / "run"]
    assert edgewise("train", "nodes", tmp_path / "graph.npz", *words)[0] == 0
    code, _, err = edgewise("predict", tmp_path / "run", tmp_path / "alone.npz", "-o", tmp_path / "out.csv")
    assert code == 0 and "12 of 12 rows predicted" in err
