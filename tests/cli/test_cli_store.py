"""`edgewise prepare`, `verify`, and training and predicting from a store: what is printed, and what goes wrong."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from edgewise.cli.main import main
from edgewise.learn.readers.store import build
from edgewise.learn.readers.store.layout import GraphStore
from edgewise.learn.training.estimate import Estimate

NUM_NODES = 150


@pytest.fixture
def tables(tmp_path):
    random = np.random.default_rng(0)
    label = random.integers(0, 2, NUM_NODES)
    nodes = pd.DataFrame({"id": [f"n{i}" for i in range(NUM_NODES)], "label": np.array(["x", "y"])[label]})
    nodes = nodes.assign(a=random.normal(size=NUM_NODES) + 2 * label, b=random.normal(size=NUM_NODES))
    senders = random.integers(0, NUM_NODES, 600)
    receivers = (senders + 2 * random.integers(1, 70, 600)) % NUM_NODES
    edges = pd.DataFrame({"from": nodes["id"][senders].to_numpy(), "to": nodes["id"][receivers].to_numpy()})
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path


def statuses_of_both(tables, run, of_tables):
    """The status of each row of the store, whose predictions by a run are those of its tables."""
    outputs = {}
    for name, data in {"store": [str(tables / "store")], "tables": of_tables}.items():
        assert main(["predict", str(tables / run), *data, "-o", str(tables / f"{run}_{name}.csv")]) == 0
        outputs[name] = pd.read_csv(tables / f"{run}_{name}.csv")
    found, wanted = outputs["store"], outputs["tables"]
    assert found["status"].tolist() == wanted["status"].tolist()
    np.testing.assert_allclose(found["label_prob_x"], wanted["label_prob_x"], atol=1e-5)
    return found["status"]


def prepare(folder, *flags, nodes="nodes.csv", edges="edges.csv", store="store"):
    return main(["prepare", str(folder / nodes), str(folder / edges), "-o", str(folder / store), *flags])


def error_of(capsys):
    return capsys.readouterr().err.removeprefix("edgewise: error: ").strip().splitlines()[-1]


def train(folder, *flags, store="store", run="run"):
    words = ["train", "nodes", str(folder / store), "--target-columns", "label", "-o", str(folder / run)]
    options = ["--model", "sage", "--epochs", "2", "--model-dim", "8", "--no-baselines", "--threads", "1"]
    return main([*words, *options, *flags])


def test_a_run_over_a_store_predicts_as_over_its_tables(tables, capsys):
    assert prepare(tables) == 0
    assert train(tables, "--fanouts", "5", "5", "--batch-size", "32") == 0
    out = capsys.readouterr().out
    assert "1,198 edges, both ways, 598 of them added for it; 2 features of a node" in out or "edges, both ways" in out
    assert "a step samples up to 5, then up to 5 neighbors per node around 32 nodes" in out
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "a.csv")]) == 0
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    assert main(["predict", str(tables / "run"), *of_tables, "-o", str(tables / "b.csv")]) == 0
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "c.parquet")]) == 0
    found, wanted = pd.read_csv(tables / "a.csv"), pd.read_csv(tables / "b.csv")
    assert list(found.columns) == ["id", "label_pred", "label_prob_x", "label_prob_y", "label_std", "status"]
    assert found["id"].tolist() == wanted["id"].tolist()
    assert found["label_pred"].tolist() == wanted["label_pred"].tolist()
    np.testing.assert_allclose(found["label_prob_x"], wanted["label_prob_x"], atol=1e-5)
    np.testing.assert_allclose(pd.read_parquet(tables / "c.parquet")["label_prob_x"], found["label_prob_x"], atol=1e-6)


def test_columns_of_splits_and_weights_are_named_for_the_training(tables, capsys):
    """The command that `prepare` printed left them out, and the split was drawn at random without a word."""
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.assign(part=(["train"] * 8 + ["val", "test"]) * (NUM_NODES // 10), w=1).to_csv(tables / "n.csv", index=False)
    roles = ["--splits-column", "part", "--weight-column", "w"]
    assert prepare(tables, "--target-columns", "label", *roles, nodes="n.csv") == 0
    assert f"--target-columns label {' '.join(sorted(roles[2:]) + roles[:2])}" in capsys.readouterr().out
    assert train(tables, "--weight-column", "w") == 0
    out = capsys.readouterr().out
    assert "(split: random)" in out and "'w' was" not in out
    assert "column 'part' was prepared as --splits-column, which is not named here: it is not used" in out


def test_columns_of_categories_are_named_for_the_training(tables, capsys):
    nodes = pd.read_csv(tables / "nodes.csv").assign(element=["C", "N", "O"] * (NUM_NODES // 3))
    nodes.to_csv(tables / "n.csv", index=False)
    roles = ["--category-columns", "element", "--missing", "drop"]
    assert prepare(tables, "--target-columns", "label", *roles, nodes="n.csv") == 0
    assert f"--target-columns label {' '.join(roles)}\n" in capsys.readouterr().out
    warning = "column 'element' was prepared as --category-columns, which is not named here: it is not used"
    assert train(tables, run="without") == 0
    assert warning in capsys.readouterr().out
    assert train(tables, "--category-columns", "element") == 0
    assert warning not in capsys.readouterr().out


def test_nan_is_a_missing_word_as_in_tables(tables, capsys):
    nodes, edges = (pd.read_csv(tables / f"{name}.csv") for name in ("nodes", "edges"))
    element = [*["C", "N", "O"] * (NUM_NODES // 3 - 1), "nan", "C", None]
    nodes.assign(element=element).to_csv(tables / "n.csv", index=False)
    bond = ["single", "nan", *["double"] * (len(edges) - 2)]
    edges.assign(bond=bond).to_csv(tables / "e.csv", index=False)
    words, of_edges = ["--category-columns", "element"], ["--edge-category-columns", "bond"]
    names = {"nodes": "n.csv", "edges": "e.csv"}
    assert prepare(tables, "--target-columns", "label", *words, *of_edges, **names) == 0
    assert train(tables, *words, "--model", "gat") == 0
    capsys.readouterr()
    on_graph = json.loads((tables / "run/model.json").read_text())
    assert on_graph["categories"] == {"element": ["C", "N", "O"]}
    assert on_graph["edge_categories"] == {"bond": ["double", "single"]}
    status = statuses_of_both(tables, "run", [str(tables / "n.csv"), "--edges", str(tables / "e.csv")])
    assert status[NUM_NODES - 3] == status[NUM_NODES - 1] == "element: the cell is empty"


def test_words_that_are_whole_numbers_have_a_point_or_not_as_in_tables(tables, capsys):
    """A run of the store, which has 6.0, predicted no node of the table, which has 6."""
    nodes, edges = (pd.read_csv(tables / f"{name}.csv") for name in ("nodes", "edges"))
    element, bond = np.array([6, 7, 8])[np.arange(NUM_NODES) % 3], 1 + np.arange(len(edges)) % 2
    for name, number in (("float", float), ("int", int)):
        nodes.assign(element=element.astype(number)).to_csv(tables / f"n_{name}.csv", index=False)
        edges.assign(bond=bond.astype(number)).to_csv(tables / f"e_{name}.csv", index=False)
    words, of_edges = ["--category-columns", "element"], ["--edge-category-columns", "bond"]
    for name, other in (("float", "int"), ("int", "float")):
        names = {"nodes": f"n_{name}.csv", "edges": f"e_{name}.csv", "store": "store"}
        assert prepare(tables, "--target-columns", "label", *words, *of_edges, "--overwrite", **names) == 0
        assert train(tables, *words, "--model", "gat", run=name) == 0
        on_graph = json.loads((tables / name / "model.json").read_text())
        assert (on_graph["categories"], on_graph["edge_categories"]) == (
            {"element": ["6", "7", "8"]},
            {"bond": ["1", "2"]},
        )
        capsys.readouterr()
        of_tables = [str(tables / f"n_{other}.csv"), "--edges", str(tables / f"e_{other}.csv")]
        assert statuses_of_both(tables, name, of_tables).tolist() == ["ok"] * NUM_NODES


def test_a_column_that_is_empty_in_the_first_rows_is_what_its_later_cells_are(tables, capsys):
    nodes = pd.read_csv(tables / "nodes.csv")
    element = np.where(np.arange(NUM_NODES) < 50, None, "C")
    nodes = nodes.assign(c=np.where(np.arange(NUM_NODES) < 50, np.nan, 0.5), element=element, never=np.nan)
    nodes.to_csv(tables / "nodes.csv", index=False)
    assert prepare(tables, store="whole") == 0
    whole = capsys.readouterr().out
    for ending in ("csv", "parquet"):
        (tables / ending).mkdir()
        for start in (0, 50):
            rows, path = nodes[start : start + (50 if start == 0 else 100)], tables / ending / f"{start}.{ending}"
            rows.to_csv(path, index=False) if ending == "csv" else rows.to_parquet(path)
        assert prepare(tables, nodes=ending, store=f"of_{ending}") == 0
        assert GraphStore(tables / f"of_{ending}").features == GraphStore(tables / "whole").features == ("a", "b", "c")
        kept = next(line for line in whole.splitlines() if "kept beside" in line)
        assert kept in capsys.readouterr().out


def test_features_are_read_a_few_nodes_at_a_time(tables, monkeypatch):
    """In training, validation, scores and predictions: the proof under a limit of memory is nightly."""
    assert prepare(tables) == 0
    read, whole = list[int](), GraphStore.feature_rows

    def feature_rows(self, rows, places, **options):
        read.append(len(rows))
        return whole(self, rows, places, **options)

    monkeypatch.setattr(GraphStore, "feature_rows", feature_rows)
    monkeypatch.setattr("edgewise.learn.readers.store.data.PART", 40)
    for name in ("MAX_BYTES", "MIN_BYTES"):
        monkeypatch.setattr(f"edgewise.learn.readers.store.graph.{name}", 4 * 8 * 20)
    assert train(tables, "--fanouts", "2", "2", "--batch-size", "4") == 0
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "p.csv")]) == 0
    assert len(read) > 100
    assert max(read) <= 4 * (1 + 2 + 4)


def test_a_finished_stage_is_not_repeated_after_a_kill(tables, capsys, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_incoming", killed)
        assert prepare(tables, "--overwrite") == 130
    words = f"edgewise prepare {tables / 'nodes.csv'} {tables / 'edges.csv'} -o {tables / 'store'}"
    assert capsys.readouterr().err.endswith(f"edgewise: interrupted; continue with: {words}\n")
    assert train(tables) == 2
    message = f"{tables / 'store'} is a store that is not finished; go on with: {words}"
    assert error_of(capsys).endswith(message)
    with monkeypatch.context() as patch:
        for name in ("write_nodes", "write_records", "write_mirrored"):
            patch.setattr(build, name, killed)
        assert prepare(tables) == 0
    assert "already done: nodes, edges, mirrored" in capsys.readouterr().out
    assert prepare(tables, store="other") == 0
    first, second = (GraphStore(tables / name) for name in ("store", "other"))
    assert {name: file.sha256 for name, file in first.files.items()} == {
        name: file.sha256 for name, file in second.files.items()
    }
    assert sorted(p.name for p in (tables / "store").iterdir()) == sorted(p.name for p in (tables / "other").iterdir())


def test_a_store_that_was_begun_otherwise_is_not_gone_on_with(tables, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_incoming", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert prepare(tables) == 130
    capsys.readouterr()
    assert prepare(tables, "--directed") == 2
    assert "was started with other settings; start again with --overwrite, or go on with: edgewise" in error_of(capsys)
    assert prepare(tables, "--directed", "--overwrite") == 0
    assert prepare(tables) == 2
    assert "holds a finished store; choose another folder with -o, or replace it with --overwrite." in error_of(capsys)
    (tables / "mine").mkdir()
    (tables / "mine" / "notes.txt").write_text("")
    assert prepare(tables, store="mine") == 2
    assert "mine is not a store and holds notes.txt; choose an empty or a new folder with -o." in error_of(capsys)


def test_damage_is_found_and_named(tables, capsys):
    assert prepare(tables) == 0
    assert main(["verify", str(tables / "store")]) == 0
    assert "files, 0.0 MB, checksums are correct" in capsys.readouterr().out
    path = tables / "store" / "features.bin"
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert main(["verify", str(tables / "store")]) == 2
    assert error_of(capsys).startswith(
        f"{path} is damaged: its checksum is not the one that was written; bring it back"
    )
    path.write_bytes(content[:-4])
    assert train(tables) == 2
    assert f"{path} has {len(content) - 4:,} bytes, expected {len(content):,}: it was cut off or changed" in error_of(
        capsys
    )
    path.unlink()
    assert main(["verify", str(tables / "store")]) == 2
    assert f"{path} is missing (No such file or directory); bring it back, or make the store again" in error_of(capsys)
    path.write_bytes(content)
    manifest = tables / "store" / "store.json"
    known = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**known, "version": 99}))
    assert main(["verify", str(tables / "store")]) == 2
    assert f"{manifest} has version 99, this Edgewise reads up to 1; upgrade it" in error_of(capsys)
    manifest.write_text("{")
    assert main(["verify", str(tables / "store")]) == 2
    assert f"{manifest} is damaged" in error_of(capsys)
    assert main(["verify", str(tables / "nothing")]) == 2
    assert "nothing is not a store: store.json is missing; make one with edgewise prepare." in error_of(capsys)


def damages(content, random):
    """Damage that keeps the size of a file: a flipped bit, a large number, zeros, noise, another order."""
    place, half = int(random.integers(len(content))), len(content) // 2
    yield content[:place] + bytes([content[place] ^ 1 << int(random.integers(8))]) + content[place + 1 :]
    if len(content) >= 8:
        start = 4 * int(random.integers(len(content) // 4))
        large = (2**30).to_bytes(4, "little")
        yield content[:start] + large + content[start + 4 :]
    yield bytes(len(content))
    yield random.bytes(len(content))
    yield content[half:] + content[:half]


def test_a_damaged_store_is_refused_before_a_kernel_reads_it(tables, capsys):
    edges = pd.read_csv(tables / "edges.csv")
    edges = edges.assign(weight=np.arange(len(edges)) + 0.5, kind=["cites", "sells"] * (len(edges) // 2))
    edges.to_csv(tables / "edges.csv", index=False)
    columns = ["--edge-feature-columns", "weight", "--edge-category-columns", "kind"]
    assert prepare(tables, *columns) == 0
    assert train(tables, "--model", "gatv2", "--fanouts", "5", "5", "--batch-size", "32") == 0
    predict = ["predict", str(tables / "run"), str(tables / "store")]
    assert main([*predict, "-o", str(tables / "whole.csv")]) == 0
    random, num_refused = np.random.default_rng(0), 0
    for path in sorted((tables / "store").glob("*.bin")):
        content = path.read_bytes()
        for damaged in damages(content, random) if content else ():
            if damaged == content:
                continue
            path.write_bytes(damaged)
            out = tables / "damaged.csv"
            out.unlink(missing_ok=True)
            capsys.readouterr()
            # What predictions do not read, such as the edges by sender, may be damaged: they stay the same.
            if main([*predict, "-o", str(out)]) == 0:
                assert out.read_bytes() == (tables / "whole.csv").read_bytes(), path.name
                assert main(["verify", str(tables / "store")]) == 2
            else:
                assert f"{path} is damaged" in error_of(capsys)
                num_refused += 1
        path.write_bytes(content)
    assert num_refused > 20
    assert main([*predict, "-o", str(tables / "again.csv")]) == 0, "files that were brought back are compared, and good"
    path = tables / "store" / "incoming_links.bin"
    path.write_bytes(path.read_bytes()[:-4] + (2**30).to_bytes(4, "little"))
    assert train(tables, "--fanouts", "5", "5", "--batch-size", "32", run="other") == 2
    assert f"{path} is damaged" in error_of(capsys)


def test_a_store_that_is_as_it_was_written_is_not_read_for_its_checksums(tables, monkeypatch):
    assert prepare(tables) == 0
    store = GraphStore(tables / "store")
    monkeypatch.setattr("edgewise.learn.readers.store.layout.digest_of", None)
    for name in store.files:
        store.array(name)


def test_cells_that_cannot_be_read_are_counted_and_named(tables, capsys):
    nodes, edges = pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv")
    nodes["a"] = nodes["a"].astype(object)
    nodes.loc[3, "a"], nodes.loc[5, "a"] = "much", None
    edges.loc[7, "to"] = "n999"
    nodes.to_csv(tables / "nodes.csv", index=False)
    edges.to_csv(tables / "edges.csv", index=False)
    assert prepare(tables) == 0
    out = capsys.readouterr().out
    where = f"the first in {tables / 'nodes.csv'}, line 5, column 'a': 'much' is not a number"
    assert f"1 node has a cell that cannot be read, {where}" in out
    where = f"the first in {tables / 'nodes.csv'}, line 7, column 'a': empty cell, expected a number"
    assert f"1 node lacks a number, {where}" in out
    where = f"the first in {tables / 'edges.csv'}, line 9, column 'to': 'n999' is not a node of {tables / 'nodes.csv'}"
    assert f"1 row of the edges has a cell that cannot be read, {where}" in out
    assert train(tables) == 0
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "p.csv")]) == 0
    summary = capsys.readouterr().err
    assert "149 of 150 rows predicted, " in summary
    assert " of them without edges that cannot be read, " in summary
    assert " of them near nodes whose features cannot be read, 1 of them with missing numbers" in summary
    assert "filled with the median; 1 could not be, and says why in the column 'status'" in summary
    found = pd.read_csv(tables / "p.csv")
    assert found.loc[3, "status"] == "a: 'much' is not a number"
    assert np.isnan(found.loc[3, "label_std"])


def test_missing_numbers_are_filled_as_in_tables(tables, capsys):
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.loc[[4, 8], "a"], nodes.loc[8:17, "b"] = None, None
    nodes.to_csv(tables / "nodes.csv", index=False)
    assert prepare(tables) == 0
    assert "11 nodes lack numbers, the first in" in capsys.readouterr().out
    note = "12 missing numbers of nodes were filled with the median of all nodes, and marked: 'a' 2, 'b' 10"
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    assert train(tables) == 0
    assert note in capsys.readouterr().out
    outputs = {}
    for name, data in {"store": [str(tables / "store")], "tables": of_tables}.items():
        assert main(["predict", str(tables / "run"), *data, "-o", str(tables / f"{name}.csv")]) == 0
        assert "150 of 150 rows predicted, 11 of them with missing numbers filled" in capsys.readouterr().err
        outputs[name] = pd.read_csv(tables / f"{name}.csv")
    found, wanted = outputs["store"], outputs["tables"]
    assert found["status"].tolist() == wanted["status"].tolist()
    assert found["status"][8] == "ok, but 'a', 'b' are missing, filled with the median"
    np.testing.assert_allclose(found["label_prob_x"], wanted["label_prob_x"], atol=1e-5)

    dropped = ["--missing", "drop"], ["--feature-scale", "none"]
    for number, flags in enumerate(dropped):
        assert train(tables, *flags, run=f"drop{number}") == 0
        assert "150 rows, 150 distinct nodes, 11 rows rejected" in capsys.readouterr().out


def with_numbers_of_edges(folder):
    """Gives the edges numbers and words; 31 lack a number, a loop among them, and one number of another is a word."""
    random, edges = np.random.default_rng(1), pd.read_csv(folder / "edges.csv")
    edges.loc[len(edges)] = ["n3", "n3"]
    edges["w"], edges["v"] = random.random(len(edges)).round(3), random.random(len(edges)).round(3)
    edges["bond"] = random.choice(["single", "double"], len(edges))
    edges.loc[10:39, "w"] = None
    edges.loc[[35, 36, 37, 38, len(edges) - 1], ["w", "v"]] = None
    edges["w"] = edges["w"].astype(object)
    edges.loc[0, "w"] = "much"
    edges.to_csv(folder / "edges.csv", index=False)


@pytest.mark.parametrize(
    ("model", "flags"),
    [("gatv2", ["--edge-feature-columns", "w", "v", "--edge-category-columns", "bond"]),
     ("gcn", ["--edge-feature-columns", "w"])],
    ids=["features", "weights"],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["n", ""], ids=["names", "numbers"])
def test_missing_numbers_of_edges_are_filled_as_in_tables(tables, capsys, model, flags, prefix):
    with_numbers_of_edges(tables)
    nodes, edges = pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv", dtype=str)
    nodes.loc[4, "a"] = None
    nodes.assign(id=nodes["id"].str.replace("n", prefix)).to_csv(tables / "nodes.csv", index=False)
    ends = {side: edges[side].str.replace("n", prefix) for side in ("from", "to")}
    edges.assign(**ends).to_csv(tables / "edges.csv", index=False)

    assert prepare(tables, *flags) == 0
    out = capsys.readouterr().out
    reason = "column 'w': empty cell, expected a number"
    assert f"31 edges lack numbers, the first in {tables / 'edges.csv'}, line 12, {reason}" in out
    assert "1 row of the edges has a cell that cannot be read" in out

    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    marks = "" if model == "gcn" else ", and marked"
    # Of the 31 one is a loop, and one stands there both ways.
    counts = "60 missing numbers" if model == "gcn" else "69 missing numbers"
    note = f"{counts} of edges, both ways counted, were filled with the median of all edges{marks}: 'w' 60"
    from_tables = ["train", "nodes", *of_tables, "--target-columns", "label", "-o", str(tables / "run_of_tables")]
    sizes = ["--model", model, "--epochs", "2", "--model-dim", "8"]
    runs = {
        "run": train(tables, *sizes, "--fanouts", "5", "5", "--batch-size", "32"),
        "run_of_tables": main([*from_tables, *flags, *sizes, "--no-baselines", "--threads", "1"]),
    }
    assert runs == {"run": 0, "run_of_tables": 0}
    printed = capsys.readouterr().out
    assert printed.count(note) == 2, printed

    for run in runs:
        statuses = statuses_of_both(tables, run, of_tables)
        assert statuses.str.contains("'w' of an edge").sum() > 30


def test_columns_of_edges_are_taken_by_their_names(tables, capsys):
    with_numbers_of_edges(tables)
    edges = pd.read_csv(tables / "edges.csv")
    edges["kind"] = np.random.default_rng(2).choice(["a", "b", "c"], len(edges))
    edges.to_csv(tables / "edges.csv", index=False)
    numbers, words = ["--edge-feature-columns", "w", "v"], ["--edge-category-columns", "bond", "kind"]
    assert prepare(tables, *numbers, *words) == 0
    assert train(tables, "--model", "gatv2", "--num-heads", "2") == 0
    turned = ["--edge-feature-columns", "v", "w"], ["--edge-category-columns", "kind", "bond"]
    assert prepare(tables, *turned[0], *turned[1], store="turned") == 0
    outputs = {}
    for name in ("store", "turned"):
        assert main(["predict", str(tables / "run"), str(tables / name), "-o", str(tables / f"{name}.csv")]) == 0
        outputs[name] = pd.read_csv(tables / f"{name}.csv")
    pd.testing.assert_frame_equal(outputs["turned"], outputs["store"])

    others = {
        "w": (
            ["--edge-feature-columns", "w", *words],
            "columns of numbers of its edges are 'w', but those of the model",
        ),
        "x": ([*numbers, "--edge-category-columns", "bond"], "columns of words of its edges are 'bond', but those of"),
        "one_way": ([*numbers, *words, "--directed"], "its edges go one way, in the training they went both ways"),
    }
    for name, (flags, message) in others.items():
        assert prepare(tables, *flags, store=name) == 0
        capsys.readouterr()
        assert main(["predict", str(tables / "run"), str(tables / name), "-o", str(tables / f"{name}.csv")]) == 2
        assert message in error_of(capsys)


def test_a_run_that_fills_nothing_predicts_no_node_without_a_number(tables, capsys):
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.loc[4:9, "a"] = None
    nodes.to_csv(tables / "nodes.csv", index=False)
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    for data, run in ((of_tables, "of_tables"), ([str(tables / "store")], "of_store")):
        assert run == "of_tables" or prepare(tables) == 0
        sizes = ["--target-columns", "label", "--model", "sage", "--epochs", "1", "--no-baselines", "--threads", "1"]
        assert main(["train", "nodes", *data, *sizes, "--missing", "drop", "-o", str(tables / run)]) == 0
        assert "6 rows rejected" in capsys.readouterr().out
        assert main(["predict", str(tables / run), *data, "-o", str(tables / f"{run}.csv")]) == 0
        assert "144 of 150 rows predicted" in capsys.readouterr().err
        assert pd.read_csv(tables / f"{run}.csv")["status"][4] == "a: empty cell, expected a number"


def test_columns_that_are_ignored_must_be_there_and_targets_be_named(tables, capsys):
    wrong = ["--ignore-columns", "bb"]
    for words in (
        ["prepare", tables / "nodes.csv", tables / "edges.csv", "-o", tables / "x", *wrong],
        ["train", "nodes", tables / "nodes.csv", "--edges", tables / "edges.csv", "--target-columns", "label", *wrong],
        ["train", "links", tables / "nodes.csv", "--edges", tables / "edges.csv", *wrong],
    ):
        assert main([*map(str, words), *(["-o", str(tables / "r")] if words[0] == "train" else [])]) == 2
        assert "no column 'bb' (did you mean 'b'?)" in error_of(capsys)
    assert prepare(tables, "--ignore-columns", "b") == 0
    capsys.readouterr()
    assert train(tables, "--ignore-columns", "labels") == 2
    assert "no column 'labels' (did you mean 'label'?)" in error_of(capsys)
    assert main(["train", "nodes", str(tables / "store"), "-o", str(tables / "r")]) == 2
    assert "no --target-columns were given" in error_of(capsys)
    assert train(tables, "--ignore-columns", "b") == 0


def test_a_store_whose_edges_go_the_other_way_is_refused(tables, capsys):
    edges = pd.read_csv(tables / "edges.csv").set_axis(["u", "v"], axis=1)
    edges.to_csv(tables / "ends.csv", index=False)
    edges[["v", "u"]].to_csv(tables / "turned.csv", index=False)
    for name in ("ends", "turned"):
        assert prepare(tables, "--directed", edges=f"{name}.csv", store=name) == 0
    assert train(tables, store="ends") == 0
    for name, code in (("ends", 0), ("turned", 2)):
        assert main(["predict", str(tables / "run"), str(tables / name), "-o", str(tables / f"{name}.out.csv")]) == code
    assert "its edges go from column 'v' to 'u', in the training they went the other way; prepare the store again " \
        "with --edge-columns u v." in error_of(capsys)  # fmt: skip
    assert prepare(tables, "--directed", "--edge-columns", "u", "v", edges="turned.csv", store="same") == 0
    assert main(["predict", str(tables / "run"), str(tables / "same"), "-o", str(tables / "same.out.csv")]) == 0
    assert (tables / "same.out.csv").read_text() == (tables / "ends.out.csv").read_text()


def test_missing_numbers_of_edges_are_left_out_on_request(tables, capsys):
    with_numbers_of_edges(tables)
    assert prepare(tables, "--edge-feature-columns", "w", "v") == 0
    assert train(tables, "--model", "gatv2", "--num-heads", "2", "--missing", "drop") == 2
    captured = capsys.readouterr()
    assert "filled" not in captured.out
    error = captured.err
    assert "31 edges lack numbers, the first in" in error and "line 12, column 'w'" in error
    assert "prepare the store again with --missing drop" in error

    assert prepare(tables, "--edge-feature-columns", "w", "v", "--missing", "drop", store="dropped") == 0
    assert "32 rows of the edges have a cell that cannot be read" in capsys.readouterr().out
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    assert train(tables, "--model", "gatv2", "--num-heads", "2", "--missing", "drop", store="dropped") == 0
    outputs = {}
    for name, data in {"store": [str(tables / "dropped")], "tables": of_tables}.items():
        assert main(["predict", str(tables / "run"), *data, "-o", str(tables / f"{name}.csv")]) == 0
        outputs[name] = pd.read_csv(tables / f"{name}.csv")
    assert outputs["store"]["status"].tolist() == outputs["tables"]["status"].tolist()
    np.testing.assert_allclose(outputs["store"]["label_prob_x"], outputs["tables"]["label_prob_x"], atol=1e-5)

    # A model that fills none refuses the store with the gaps, in place of NaN.
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "p.csv")]) == 2
    assert "31 edges lack numbers" in error_of(capsys)


@pytest.mark.parametrize("prefix", ["n", ""], ids=["names", "numbers"])
def test_status_says_which_nodes_lack_edges_as_for_tables(tables, capsys, prefix):
    nodes, edges = pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv")[:60].assign(w="1.5")
    edges.loc[7, "to"], edges.loc[9, "w"], edges.loc[11, ["from", "to"]] = "n999", "much", ["n998", "n999"]
    edges.loc[13, ["to", "w"]] = ["n999", "more"]
    nodes["id"] = nodes["id"].str.replace("n", prefix)
    edges[["from", "to"]] = edges[["from", "to"]].apply(lambda column: column.str.replace("n", prefix))
    nodes.to_csv(tables / "nodes.csv", index=False)
    edges.to_csv(tables / "edges.csv", index=False)
    assert prepare(tables, "--edge-feature-columns", "w") == 0
    assert "4 rows of the edges have a cell that cannot be read" in capsys.readouterr().out
    listed = GraphStore(tables / "store").manifest["rejected_edges"]["first"]
    assert [(row, column) for row, _, _, column, _, _ in listed] == [(7, "to"), (9, "w"), (11, "from"), (13, "w")]
    assert train(tables, "--model", "gcn") == 0
    predict = ["predict", str(tables / "run")]
    assert main([*predict, str(tables / "store"), "-o", str(tables / "a.csv")]) == 0
    assert "150 of 150 rows predicted, " in (of_store := capsys.readouterr().err)
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    assert main([*predict, *of_tables, "-o", str(tables / "b.csv")]) == 0
    found, wanted = (pd.read_csv(tables / f"{name}.csv")["status"] for name in "ab")
    assert found.tolist() == wanted.tolist()
    assert {"ok", "ok, but edges of the node cannot be read", "ok, but edges 1 hop away cannot be read"} <= {*found}
    summary = next(line for line in capsys.readouterr().err.splitlines() if "150 of 150 rows" in line)
    assert summary.split(":")[0] in of_store


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        (lambda n, e: (n, e), ["--target-columns", "lable"], "nodes.csv: no column 'lable' (did you mean 'label'?)"),
        (lambda n, e: (n, e), ["--edge-feature-columns", "w"], "edges.csv: no column 'w'; the file has 'from', 'to'."),
        (lambda n, e: (n[:0], e), [], "nodes.csv: the table is empty"),
        (lambda n, e: (n, e[:0]), [], "edges.csv: the table is empty"),
        (lambda n, e: (pd.concat([n, n[4:5]]), e), [], "the node 'n4' is in rows 5 and 151; names must differ."),
        (lambda n, e: (n.assign(a=1e6), e), ["--dtype", "float16"], "column 'a': 1e+06 is too large for float16"),
        (lambda n, e: (n, e.assign(to="q")), [], "'q' is not a node of"),
        (lambda n, e: (n.assign(id=""), e), [], "nodes.csv, line 2, column 'id': the name of the node is empty"),
        (lambda n, e: (n, e[["from"]]), [], "edges.csv: 1 column names nodes, expected two: sender and receiver."),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tables, capsys, change, flags, message):
    nodes, edges = change(pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv"))
    nodes.to_csv(tables / "nodes.csv", index=False)
    edges.to_csv(tables / "edges.csv", index=False)
    assert prepare(tables, *flags) == 2
    assert message in error_of(capsys)


def test_files_that_are_not_there_are_named(tables, capsys):
    assert prepare(tables, nodes="missing.csv") == 2
    assert "missing.csv: no such file." in error_of(capsys)
    assert prepare(tables, edges="*.parquet") == 2
    assert "*.parquet: no file matches this pattern." in error_of(capsys)


def test_several_files_and_parquet_are_one_table(tables, capsys):
    nodes = pd.read_csv(tables / "nodes.csv")
    (tables / "parts").mkdir()
    for number in range(3):
        nodes[number * 50 : (number + 1) * 50].to_parquet(tables / "parts" / f"{number}.parquet")
    assert prepare(tables) == 0
    assert prepare(tables, nodes="parts/*.parquet", store="second") == 0
    assert prepare(tables, nodes="parts", store="third") == 0
    files = [GraphStore(tables / name).files for name in ("store", "second", "third")]
    assert files[0]["features"].sha256 == files[1]["features"].sha256 == files[2]["features"].sha256
    assert files[0]["incoming_links"].sha256 == files[2]["incoming_links"].sha256
    nodes.rename(columns={"a": "z"}).to_parquet(tables / "parts" / "3.parquet")
    capsys.readouterr()
    assert prepare(tables, nodes="parts", store="fourth") == 2
    assert "have different columns: 'a' differs; give all files the same columns in the same order." in error_of(capsys)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_features_take_half_the_room(tables, dtype):
    assert prepare(tables, "--dtype", dtype) == 0
    store, values = GraphStore(tables / "store"), pd.read_csv(tables / "nodes.csv")[["a", "b"]].to_numpy(np.float32)
    assert store.files["features"].size == NUM_NODES * 2 * 2
    found = store.feature_rows(np.arange(NUM_NODES), np.arange(2))
    np.testing.assert_allclose(found, values, rtol=2**-8 if dtype == "bfloat16" else 2**-11)
    assert train(tables) == 0


def test_a_full_disk_is_named_and_nothing_half_written_stays(tables, capsys):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, hard))
    try:
        assert prepare(tables) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be written: File too large; free some space, or write to another disk." in error_of(capsys)
    assert not [path.name for path in (tables / "store").iterdir() if path.name.endswith((".part", "store.json"))]
    assert prepare(tables) == 0


def test_neighbors_are_sampled_where_the_whole_graph_does_not_fit(tables, capsys, monkeypatch):
    assert prepare(tables) == 0
    assert train(tables, run="whole") == 0
    assert "neighbors are sampled" not in capsys.readouterr().out
    left: list[int] = []  # memory that is free when the run is prepared; unknown later
    monkeypatch.setattr(
        "edgewise.learn.training.estimate.available_memory", lambda device: left.pop() if left else None
    )
    for data in (["store"], ["nodes.csv", "--edges", str(tables / "edges.csv")]):
        left.append(30_000)
        words = ["train", "nodes", str(tables / data[0]), *data[1:], "--target-columns", "label", "--model", "sage"]
        words += ["--epochs", "1", "--no-baselines", "-o", str(tables / f"run_{data[0]}")]
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "neighbors are sampled, --fanouts 15 10: a step over the whole graph needs about" in out
        assert "of memory, and only 30 kB are available" in out
        assert "a step samples up to 15, then up to 10 neighbors per node around 1,024 nodes" in out


@pytest.mark.parametrize("folds", [[], ["--num-folds", "2"]])
@pytest.mark.parametrize(("before", "after"), [(None, 30_000), (30_000, None)])
def test_a_run_goes_on_as_it_was_started_however_much_memory_is_free(tables, capsys, monkeypatch, folds, before, after):
    words = ["train", "nodes", str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    words += ["--target-columns", "label", "--model", "sage", "--epochs", "1", "--no-baselines", *folds]
    words += ["-o", str(tables / "run")]
    free = [before]
    monkeypatch.setattr("edgewise.learn.tasks.sampled.of_counts", lambda *_: Estimate(0, 2**30, free[0]))
    last = tables / "run/fold_1" if folds else tables / "run"
    with monkeypatch.context() as patch:
        patch.setattr("edgewise.learn.training.training.Training.train_step", stop)
        assert main(words) == 130
    started = tables / "run/fold_0" if folds else tables / "run"
    config = started.joinpath("config.toml").read_text()
    assert ("whole-graph = true" in config) == ("fanouts = []" in config) == (before is None)

    free[0] = after
    assert main([*words, "--resume"]) == 0
    assert started.joinpath("config.toml").read_text() == config
    assert (last / "metrics.json").is_file()


def stop(*_):
    raise KeyboardInterrupt


LIMITED = """
import resource, sys
import numpy as np, torch
import edgewise.cli.main as cli, edgewise.learn.tasks.nodes.task, edgewise.learn.tasks.run
import edgewise.learn.training.fit, sklearn.metrics
from edgewise.graph import Graph
from edgewise.sampling import NeighborSampler
NeighborSampler(Graph.of(torch.tensor([[1, 2], [0, 1]])), [2]).sample([0])
limit, size, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + limit, used + limit))
try:
    np.ones(size, np.uint8)
    sys.exit("the features fit, and the test proves nothing")
except MemoryError:
    sys.exit(cli.main(words))
"""


@pytest.mark.nightly
def test_features_larger_than_memory_are_trained_on_and_predicted(tmp_path):
    """Private memory is limited to less than the features need; files that are mapped do not count."""
    count, width, limit = 160_000, 512, 300 * 2**20
    random = np.random.default_rng(0)
    label = random.integers(0, 2, count)
    values = random.normal(size=(count // 100, width)).astype(np.float32)[np.arange(count) % (count // 100)]
    values[:, 0] += 3 * label
    store = write_store(tmp_path / "store", values, label, random.integers(0, count, (2, 30_000)))
    words = ["train", "nodes", str(store), "--target-columns", "label", "-o", str(tmp_path / "run"), "--model", "sage"]
    words += ["--fanouts", "5", "3", "--batch-size", "512", "--epochs", "1", "--no-baselines", "--model-dim", "16"]
    words += ["--threads", "1", "--split-sizes", "0.4", "0.02", "0.58"]
    size = count * width * 4
    assert size > limit
    for command in (words, ["predict", str(tmp_path / "run"), str(store), "-o", str(tmp_path / "p.csv")]):
        found = subprocess.run(
            [sys.executable, "-c", LIMITED, str(limit), str(size), *command], capture_output=True, text=True
        )
        assert found.returncode == 0, found.stderr[-2000:]
    predictions = pd.read_csv(tmp_path / "p.csv")
    assert len(predictions) == count
    assert (predictions["label_pred"] == label).mean() > 0.75


def write_store(folder: Path, values, label, ends):
    """A store from Parquet."""
    frame = pd.DataFrame(values, columns=[f"x{place}" for place in range(values.shape[1])]).assign(label=label)
    frame.to_parquet(folder.parent / "nodes.parquet", compression=None)
    pd.DataFrame({"sender": ends[0], "receiver": ends[1]}).to_parquet(folder.parent / "edges.parquet")
    assert prepare(folder.parent, nodes="nodes.parquet", edges="edges.parquet", store=folder.name) == 0
    return folder


def test_edges_with_words_that_the_model_does_not_know_are_counted(tables, capsys):
    """They were read as edges of no word, silently; a graph in memory counts them."""
    edges = pd.read_csv(tables / "edges.csv").assign(kind=np.array(["road", "rail"])[np.arange(600) % 2])
    edges.to_csv(tables / "edges.csv", index=False)
    edges["kind"] = np.where(np.arange(600) < 3, "canal", edges["kind"])
    edges.to_csv(tables / "new.csv", index=False)
    flags = ["--edge-category-columns", "kind", "--directed"]
    assert prepare(tables, *flags) == prepare(tables, *flags, edges="new.csv", store="other") == 0
    assert train(tables, "--model", "attention") == 0
    capsys.readouterr()
    predict = ["predict", str(tables / "run"), str(tables / "other"), "-o", str(tables / "out.csv")]
    assert main(predict) == 0
    message = "3 edges have a word in column 'kind' that the model does not know, read as none of its words: 'canal' is"
    assert message in capsys.readouterr().err
    assert main([*predict, "--strict", "--overwrite"]) == 2
    assert "'canal' is not one of the 2 known words; drop --strict" in error_of(capsys)
    assert main(["predict", str(tables / "run"), str(tables / "store"), "-o", str(tables / "b.csv"), "--strict"]) == 0


def test_a_run_over_a_store_says_what_explanations_need(tables, capsys):
    assert prepare(tables) == 0
    assert train(tables) == 0
    files = tables / "nodes.csv", "--edges", tables / "edges.csv"
    expected = f"trained on the store {tables / 'store'}, and explanations and the server need the graph in memory"
    for words in (["explain"], ["explain", "n1"], ["explain", files[0]], ["serve"]):
        assert main([words[0], str(tables / "run"), *map(str, words[1:])]) == 2
        error = error_of(capsys)
        assert expected in error and " ".join(map(str, ["edgewise train nodes", *files])) in error
    predict = ["predict", str(tables / "run"), "-o", str(tables / "p.csv")]
    for data, message in ((tables, "is a folder, expected a file"), (tables / "none", "no such file.")):
        assert main([*predict, str(data)]) == 2
        assert f"{data}: {message}" in error_of(capsys)
    assert main(["train", "edges", str(tables / "store"), "--target-columns", "a", "-o", str(tables / "r")]) == 2
    assert "is a store, which models of nodes alone read, expected a file" in error_of(capsys)
    assert main(["train", str(tables / "store"), "-o", str(tables / "r")]) == 2
    assert "name what is to be predicted for the nodes" in error_of(capsys)


def test_a_bad_cell_bars_its_node_only_where_its_column_is_used(tables, capsys, monkeypatch):
    """One code for a whole node said both: a bad cell anywhere left its empty cells unfilled, as 0."""
    nodes = pd.read_csv(tables / "nodes.csv").astype({"a": object, "b": object}).assign(c=1.0, d=np.arange(NUM_NODES))
    nodes["c"], nodes["d"] = nodes["c"].astype(object), nodes["d"].astype(object)
    nodes.loc[3, ["a", "c"]] = [None, "n/a text"]
    nodes.loc[5, "c"] = "much"
    nodes.loc[7, ["a", "b"]] = [None, "bad"]
    nodes.loc[9, ["b", "d"]] = [None, "worse"]
    nodes.loc[11, "a"] = None
    nodes.to_csv(tables / "nodes.csv", index=False)
    monkeypatch.setattr("edgewise.learn.readers.store.data.PART", 40)
    of_tables = [str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    assert prepare(tables) == 0
    features = ["--feature-columns", "b", "a", "--ignore-columns", "c", "d"]
    options = ["--model", "sage", "--epochs", "2", "--model-dim", "8", "--no-baselines", "--threads", "1"]
    command = ["train", "nodes", *of_tables, "--target-columns", "label", *options, *features]
    runs = {
        "run": train(tables, *features),
        "run_of_tables": main([*command, "-o", str(tables / "run_of_tables")]),
        "drop": train(tables, *features, "--missing", "drop", run="drop"),
        "drop_of_tables": main([*command, "--missing", "drop", "-o", str(tables / "drop_of_tables")]),
    }
    assert set(runs.values()) == {0}
    out = capsys.readouterr().out
    assert out.count("150 rows, 150 distinct nodes, 1 row rejected") == 2
    assert out.count("150 rows, 150 distinct nodes, 4 rows rejected") == 2
    assert out.count("4 missing numbers of nodes were filled with the median") == 2

    for run in runs:
        statuses_of_both(tables, run, of_tables)
    assert pd.read_csv(tables / "run_store.csv")["status"][[3, 5, 7, 9]].tolist() == [
        "ok, but 'a' is missing, filled with the median",
        "ok",
        "b: 'bad' is not a number",
        "ok, but 'b' is missing, filled with the median",
    ]
