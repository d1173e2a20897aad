"""Columns of numbers and words of nodes and edges mean the same in every task over graphs."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from cli_tables import read_csv, write_csv

QUICK = ["--model", "gatv2", "--num-heads", 2, "--model-dim", 8, "--epochs", 3]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Graphs of six nodes in tables, with words, and with the same words as numbers: one column a word."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("tables")
    nodes = {"g": np.repeat(np.arange(12), 6), "id": np.arange(72), "x": random.normal(size=72).round(3)}
    nodes["role"] = np.array(["lead", "aide", "guest"])[random.integers(0, 3, 72)]
    nodes["y"] = random.normal(size=72).round(3)
    senders = random.integers(0, 72, 150)
    receivers = senders // 6 * 6 + (senders + random.integers(1, 6, 150)) % 6
    edges = {"from": senders, "to": receivers, "g": senders // 6, "trust": random.random(150).round(3)}
    edges["bond"] = np.array(["single", "double"])[random.integers(0, 2, 150)]
    edges["z"] = random.normal(size=150).round(3)
    graphs = {"g": np.arange(12), "t": random.normal(size=12).round(3)}

    def as_numbers(columns, name):
        words = sorted(set(columns[name].tolist()))
        return {**{key: each for key, each in columns.items() if key != name},
                **{word: (columns[name] == word).astype(int) for word in words}}  # fmt: skip

    found = {"graphs": write_csv(folder / "graphs.csv", graphs)}
    for name, columns, word in (("nodes", nodes, "role"), ("edges", edges, "bond")):
        found[name, "words"] = write_csv(folder / f"{name}.csv", columns)
        found[name, "numbers"] = write_csv(folder / f"{name}_numbers.csv", as_numbers(columns, word))
    return found


NODES = {"words": ["--feature-columns", "x", "--category-columns", "role"],
         "numbers": ["--feature-columns", "x", "aide", "guest", "lead"]}  # fmt: skip
EDGES = {"words": ["--edge-feature-columns", "trust", "--edge-category-columns", "bond"],
         "numbers": ["--edge-feature-columns", "trust", "double", "single"]}  # fmt: skip


@pytest.mark.parametrize("task", ["nodes", "edges", "links", "graphs"])
def test_words_are_numbers_one_column_a_word(task, tables, edgewise, tmp_path):
    found, new = {}, tmp_path / "new.csv"
    for kind in ("words", "numbers"):
        nodes, edges, run = tables["nodes", kind], tables["edges", kind], tmp_path / kind
        words = {
            "nodes": [nodes, "--edges", edges, "--target-columns", "y"],
            "edges": [edges, "--nodes", nodes, "--target-columns", "z", "--ignore-columns", "g"],
            "links": [nodes, "--edges", edges],
            "graphs": [nodes, "--edges", edges, "--graph-column", "g", "--graphs", tables["graphs"],
                       "--target-columns", "t"],
        }[task]  # fmt: skip
        code, _, err = edgewise("train", task, *words, *NODES[kind], *EDGES[kind], *QUICK, "-o", run)
        assert code == 0, err
        given = {
            "nodes": [nodes, "--edges", edges],
            "edges": [edges, "--nodes", nodes],
            "links": [edges, "--nodes", nodes, "--edges", edges],
            "graphs": [nodes, "--edges", edges, "--graphs", tables["graphs"]],
        }[task]
        code, _, err = edgewise("predict", run, *given, "-o", tmp_path / f"{kind}.csv")
        assert code == 0, err
        known = {*read_csv(nodes)[0], *read_csv(edges)[0], *read_csv(tables["graphs"])[0]}
        found[kind] = [{name: cell for name, cell in row.items() if name not in known}
                       for row in read_csv(tmp_path / f"{kind}.csv")]  # fmt: skip
        content = json.loads((run / "model.json").read_text())
        assert content["sizes"]["num_edge_features"] >= 4, "the number, two words, and the mark of a loop"
        weights = load_file(run / "model.safetensors")
        assert any(name.endswith("layers.0.edge.weight") for name in weights), "gatv2 reads edge features"
    assert found["words"] == found["numbers"]
    model = json.loads((tmp_path / "words/model.json").read_text())
    assert model["categories"] == {"role": ["aide", "guest", "lead"]}
    assert model["edge_categories"] == {"bond": ["double", "single"]}
    # A word that the model does not know: the edge cannot be used, and is counted.
    text = tables["edges", "words"].read_text()
    new.write_text(text.replace("single", "triple", 1))
    given = {"edges": [new, "--nodes", tables["nodes", "words"]], "links": [tables["edges", "words"], "--edges", new]}
    words = given.get(task, [tables["nodes", "words"], "--edges", new])
    words += ["--graphs", tables["graphs"]] if task == "graphs" else []
    code, _, err = edgewise("predict", tmp_path / "words", *words, "-o", tmp_path / "new_found.csv")
    assert code == 0, err
    if task in ("edges", "links"):
        assert ("149 of 150" in err) or ("'triple' is not one of the 2 known words" in err)
    predicted = [list(row.values()) for row in read_csv(tmp_path / "new_found.csv")]
    assert predicted != [list(row.values()) for row in read_csv(tmp_path / "words.csv")], "an edge has no messages"


@pytest.mark.parametrize("task", ["nodes", "edges", "links", "graphs"])
def test_one_edge_feature_is_the_weight_of_a_convolution(task, tables, edgewise, tmp_path):
    """An edge of weight 2 is the same as the edge given twice with weight 1."""
    nodes, edges = tables["nodes", "numbers"], tables["edges", "numbers"]
    rows = read_csv(edges)
    plain = {name: [row[name] for row in rows] for name in rows[0]}
    once = write_csv(tmp_path / "once.csv", {**plain, "trust": [1 + place % 2 for place in range(150)]})
    twice = {name: [cell for place, cell in enumerate(column) for _ in range(1 + place % 2)]
             for name, column in plain.items()}  # fmt: skip
    twice = write_csv(tmp_path / "twice.csv", {**twice, "trust": [1] * 225})
    negative = write_csv(tmp_path / "negative.csv", {**plain, "trust": [-0.5, *[1] * 149]})
    found = {}
    words = {
        "nodes": lambda edges: [nodes, "--edges", edges, "--target-columns", "y"],
        "edges": lambda edges: [edges, "--nodes", nodes, "--target-columns", "z", "--ignore-columns", "g"],
        "links": lambda edges: [nodes, "--edges", edges],
        "graphs": lambda edges: [nodes, "--edges", edges, "--graph-column", "g", "--graphs", tables["graphs"],
                                 "--target-columns", "t"],
    }[task]  # fmt: skip
    flags = [*NODES["numbers"], "--model", "gcn", "--model-dim", 8, "--epochs", 1, "--directed"]
    weight = ["--edge-feature-columns", "trust"]
    code, _, err = edgewise("train", task, *words(once), *flags, *weight, "-o", tmp_path / "run")
    assert code == 0, err
    for name, file in (("once", once), ("twice", twice)):
        given = {"nodes": [nodes, "--edges", file], "graphs": [nodes, "--edges", file, "--graphs", tables["graphs"]],
                 "edges": [file, "--nodes", nodes], "links": [edges, "--edges", file]}[task]  # fmt: skip
        code, _, err = edgewise("predict", tmp_path / "run", *given, "-o", tmp_path / f"{name}_found.csv")
        assert code == 0, err
        column = {"nodes": "y_pred", "edges": "z_pred", "links": "link_prob", "graphs": "t_pred"}[task]
        found[name] = [float(row[column]) for row in read_csv(tmp_path / f"{name}_found.csv")]
    if task == "edges":  # its head reads the feature of the predicted edge, too
        assert found["once"] != found["twice"]
        return
    np.testing.assert_allclose(found["twice"], found["once"], atol=2e-5)
    code, _, err = edgewise("train", task, *words(negative), *flags, *weight, "-o", tmp_path / "other")
    assert (code, "the weight of an edge is -0.5; --model gcn reads the one feature" in err) == (2, True), err
    code, _, err = edgewise("train", task, *words(edges), *flags, *weight, "z", "-o", tmp_path / "other")
    assert (code, "--model gcn reads one number an edge, its weight" in err) == (2, True), err


@pytest.mark.parametrize("task", ["nodes", "edges", "links", "graphs"])
def test_nodes_have_the_names_and_edges_the_direction_of_the_training(task, edgewise, tmp_path):
    """Names that are numbers of other rows, and ends whose columns do not say which is the sender."""
    random = np.random.default_rng(0)
    code = random.permutation(30)
    nodes = {"code": code, "x": random.normal(size=30).round(3), "y": random.normal(size=30).round(3)}
    nodes["g"] = np.arange(30) // 5
    senders = random.integers(0, 30, 60)
    receivers = senders // 5 * 5 + (senders + random.integers(1, 5, 60)) % 5
    edges = {"citing": code[senders], "cited": code[receivers], "z": random.normal(size=60).round(3)}
    graphs = write_csv(tmp_path / "graphs.csv", {"g": range(6), "t": random.normal(size=6).round(3)})
    node_file, edge_file = write_csv(tmp_path / "nodes.csv", nodes), write_csv(tmp_path / "edges.csv", edges)
    turned = write_csv(tmp_path / "turned.csv", {name: edges[name] for name in ("cited", "citing", "z")})
    renamed = write_csv(tmp_path / "renamed.csv", {"cites": edges["citing"], "is_cited": edges["cited"]})

    def words(edges):
        return {"nodes": [node_file, "--edges", edges], "edges": [edges, "--nodes", node_file],
                "links": [edges, "--nodes", node_file, "--edges", edges],
                "graphs": [node_file, "--edges", edges, "--graphs", graphs]}[task]  # fmt: skip

    columns = {"nodes": ["--target-columns", "y"], "edges": ["--target-columns", "z"], "links": [],
               "graphs": ["--target-columns", "t", "--graph-column", "g"]}[task]  # fmt: skip
    data = [node_file, "--edges", edge_file] if task == "links" else words(edge_file)
    flags = ["--feature-columns", "x", "--node-column", "code", "--directed", *QUICK]
    returned, _, err = edgewise("train", task, *data, *columns, *flags, "-o", tmp_path / "run")
    assert returned == 0, err

    def predicted(name, edges, *more):
        returned, _, err = edgewise("predict", tmp_path / "run", *words(edges), *more, "-o", tmp_path / name)
        assert returned == 0, err
        columns = {"nodes": ["y_pred"], "edges": ["z_pred"], "links": ["link_prob"], "graphs": ["t_pred"]}[task]
        return [[row[column] for column in columns] for row in read_csv(tmp_path / name)], err

    expected, _ = predicted("named.csv", edge_file, "--node-column", "code")
    found, err = predicted("found.csv", edge_file)
    assert found == expected
    assert "edges go" not in err
    found, err = predicted("turned_found.csv", turned)
    assert found == expected
    assert "edges go" not in err
    found, err = predicted("renamed_found.csv", renamed)
    assert found == expected
    assert "from column 'cites' to 'is_cited'" in err
    assert "In the training they went from 'citing' to 'cited'" in err
    if task in ("nodes", "links"):
        for name, more in (("named", ["--node-column", "code"]), ("found", [])):
            given = ["fingerprint", tmp_path / "run", node_file, "--edges", edge_file, *more]
            assert edgewise(*given, "-o", tmp_path / f"{name}.npz")[0] == 0
        vectors = [np.load(tmp_path / f"{name}.npz") for name in ("named", "found")]
        assert all((vectors[0][key] == vectors[1][key]).all() for key in vectors[0].files)


def test_a_table_without_the_names_of_the_training_is_said(tables, edgewise, tmp_path):
    rows = read_csv(tables["nodes", "numbers"])
    nodes = {name: [row[name] for row in rows] for name in rows[0]}
    nodes["code"] = nodes.pop("id")
    named = write_csv(tmp_path / "named.csv", nodes)
    bare = write_csv(tmp_path / "bare.csv", {name: column for name, column in nodes.items() if name != "code"})
    edges = ["--edges", tables["edges", "numbers"]]
    flags = ["--feature-columns", "x", "--node-column", "code", "--target-columns", "y", *QUICK]
    assert edgewise("train", "nodes", named, *edges, *flags, "-o", tmp_path / "run")[0] == 0
    code, _, err = edgewise("predict", tmp_path / "run", bare, *edges, "-o", tmp_path / "found.csv")
    assert code == 0, err
    assert "lacks the column 'code', which named the nodes in the training; their names here are those of row" in err
    code, _, err = edgewise("predict", tmp_path / "run", named, *edges, "-o", tmp_path / "again.csv")
    assert (code, "lacks the column" in err) == (0, False), err


@pytest.mark.parametrize("task", ["nodes", "edges", "links"])
def test_row_numbers_that_named_the_nodes_in_the_training_name_them_again(edgewise, tmp_path, task):
    """A column `id` of the new table became the names, and the edges joined other nodes, without a word."""
    random, count = np.random.default_rng(0), 24
    nodes = {"x": random.normal(size=count).tolist(), "y": random.normal(size=count).tolist()}
    ends = random.integers(0, count, (2, 80)).tolist()
    edges = write_csv(tmp_path / "edges.csv", {"from": ends[0], "to": ends[1], "z": random.normal(size=80).tolist()})
    bare = write_csv(tmp_path / "bare.csv", nodes)
    other = write_csv(tmp_path / "other.csv", {"id": random.permutation(count).tolist(), **nodes})
    train = [edges, "--nodes", bare, "--target-columns", "z"] if task == "edges" else [bare, "--edges", edges]
    train += ["--target-columns", "y"] if task == "nodes" else []
    assert edgewise("train", task, *train, "--feature-columns", "x", *QUICK, "-o", tmp_path / "run")[0] == 0

    def predicted(table, *more):
        data = {"nodes": [table, "--edges", edges], "edges": [edges, "--nodes", table],
                "links": [edges, "--nodes", table, "--edges", edges]}[task]  # fmt: skip
        code, _, err = edgewise("predict", tmp_path / "run", *data, *more, "-o", tmp_path / "out.csv", "--overwrite")
        assert code == 0, err
        column = {"nodes": "y_pred", "edges": "z_pred", "links": "link_prob"}[task]
        return [
            row[column] for row in read_csv(tmp_path / "out.csv")
        ], "named by row numbers, not by column 'id'" in err

    expected, is_said = predicted(bare)
    assert not is_said
    assert predicted(other) == (expected, True)
    by_name, is_said = predicted(other, "--node-column", "id")
    assert (by_name != expected, is_said) == (True, False)
    words = write_csv(tmp_path / "words.csv", {"id": [f"n{row}" for row in range(count)], **nodes})
    assert predicted(words, "--node-column", "node") == (expected, False)
