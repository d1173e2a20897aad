"""What `edgewise prepare` refuses or says, and what a store does with cells that lack a number; nothing is trained."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from edgewise.cli.main import main
from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.nodes import read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store import build
from edgewise.learn.readers.store.data import read_store
from edgewise.learn.readers.store.layout import MANIFEST, STATE, GraphStore
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tasks.nodes.settings import NodeRunSettings
from edgewise.learn.tasks.nodes.task import read_data
from edgewise.learn.training import claim

NODES = "id,label,y,a,b\n" + "".join(
    f"n{i},{i % 2 if i % 3 else ''},{i + 0.5 if i % 3 else ''},{i}.5,1\n" for i in range(9)
)
EDGES = "from,to,w,t\n" + "".join(f"n{i},n{(i * 2 + 1) % 9},{i}.5,{i}\n" for i in range(9))


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def columns_of(**roles):
    """Roles of columns, with the names that the store has."""
    return Columns(**{"node_column": "auto", **roles})


def prepare(folder, *flags):
    return main(["prepare", str(folder / "nodes.csv"), str(folder / "edges.csv"), "-o", str(folder / "store"), *flags])


def assert_as_tables(folder, **roles):
    """Reads the nodes of the store, whose rows must be those of the tables."""
    columns, source = columns_of(missing="impute", **roles), GraphSource(edges=str(folder / "edges.csv"))
    data = read_store(str(folder / "store"), columns)
    rows = read_nodes([str(folder / "nodes.csv")], columns, source).rows
    lost = len(rows.rejected_edges)
    assert data.rows.status == rows.status
    assert data.rows.rejected == rows.rejected[: len(rows.rejected) - lost]
    np.testing.assert_array_equal(data.rows.targets, rows.targets)
    return data


def stopped(folder, monkeypatch, stage="write_incoming"):
    """A store whose building was stopped before a stage."""
    with monkeypatch.context() as patch:
        patch.setattr(build, stage, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert prepare(folder) == 130


def test_a_missing_target_bars_no_node(tables):
    """Whatever its column was when the store was made: a feature, words or numbers."""
    assert prepare(tables) == 0
    for target in ("label", "y"):
        found = read_store(str(tables / "store"), columns_of(target_columns=(target,), descriptors_columns=("a", "b")))
        assert found.rows.usable.all()
        np.testing.assert_array_equal(np.isnan(found.rows.targets[:, 0]), np.arange(9) % 3 == 0)
    found = read_store(str(tables / "store"), columns_of(target_columns=("label",), descriptors_columns=("y", "a")))
    np.testing.assert_array_equal(found.rows.usable, np.arange(9) % 3 > 0)
    assert found.rows.status[3] == "y: empty cell, expected a number"
    np.testing.assert_array_equal(found.features.of_rows(np.arange(9))[::3, 0], 0)


def test_a_target_that_is_no_number_is_said(tables, capsys):
    (tables / "nodes.csv").write_text(NODES.replace("n1,1,1.5", "n1,1,much"))
    assert prepare(tables, "--target-columns", "y") == 0
    out = capsys.readouterr().out
    assert "1 node has a cell that cannot be read" in out and "3 nodes lack numbers" in out
    rejected = GraphStore(tables / "store").manifest["rejected_nodes"]["first"]
    assert [each[3:5] for each in rejected if each[0] == 1] == [["y", "much"]]


def test_overwriting_removes_own_files_alone(tables, capsys):
    every = ["--edge-feature-columns", "w", "--edge-category-columns", "t", "--edge-time-column", "t"]
    assert prepare(tables, *every, "--target-columns", "y") == 0
    (tables / "store" / "mine.bin").write_text("mine")
    (tables / "edges.csv").write_text(EDGES.replace(".5,", ","))
    assert prepare(tables, "--overwrite", "--node-column", "node", "--edge-columns", "t", "w") == 0
    files = {file.name for file in GraphStore(tables / "store").files.values()}
    assert {path.name for path in (tables / "store").iterdir()} == files | {MANIFEST, "mine.bin"}
    (tables / "store" / MANIFEST).write_text('{"format": "shops"}')
    capsys.readouterr()
    assert prepare(tables, "--overwrite") == 2
    assert f"holds {MANIFEST}, which edgewise prepare did not write; move it away" in capsys.readouterr().err


def test_a_second_run_in_the_folder_is_refused(tables, capsys):
    with claim.locked(tables / "store"):
        part = tables / "store" / ".edgewise-0.part"
        part.write_text("of the first")
        assert prepare(tables) == 2
        assert part.exists()
    assert "is in use by process" in capsys.readouterr().err
    (tables / "store" / ".edgewise-0.part").unlink()
    assert prepare(tables) == 0


def test_a_failure_leaves_no_folder(tables):
    assert prepare(tables, "--edge-columns", "from", "nowhere") == 2
    assert not (tables / "store").exists()


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_tables_that_change_are_noticed(tables, capsys, monkeypatch, name):
    stopped(tables, monkeypatch)
    content = (tables / name).read_text()
    (tables / name).write_text(content.replace("n8,", "n8,", 1))
    capsys.readouterr()
    assert prepare(tables) == 2
    message = f"was started with other tables, or they have changed since: {tables / name}; start again with"
    assert message in capsys.readouterr().err
    whole = build.write_incoming

    def changing(*arguments):
        (tables / name).write_text(content + "\n")
        return whole(*arguments)

    monkeypatch.setattr(build, "write_incoming", changing)
    assert prepare(tables, "--overwrite") == 2
    message = f"error: {tables / name} changed while the tables were read; start again with --overwrite."
    assert message in capsys.readouterr().err
    assert not (tables / "store" / MANIFEST).exists()


@pytest.mark.parametrize("name", ["edges", "mirrored"])
def test_records_that_are_lost_or_cut_off_are_noticed(tables, capsys, monkeypatch, name):
    stopped(tables, monkeypatch)
    path = tables / "store" / f"records_{name}.bin"
    for damage in (lambda: path.write_bytes(path.read_bytes()[:-1]), path.unlink):
        damage()
        capsys.readouterr()
        assert prepare(tables) == 2
        assert f"{path} is missing, or was cut off or changed; start again with" in capsys.readouterr().err


def test_another_version_is_not_gone_on_with(tables, capsys, monkeypatch):
    stopped(tables, monkeypatch)
    state = tables / "store" / STATE
    state.write_text(state.read_text().replace('"version": 1', '"version": 0'))
    assert prepare(tables) == 2
    assert "was started by another version of Edgewise" in capsys.readouterr().err


def test_a_kill_behind_the_last_stage_leaves_nothing_behind(tables, monkeypatch):
    write = build.write_manifest

    def killed(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_manifest", killed)
        assert prepare(tables) == 130
    assert (tables / "store" / MANIFEST).is_file()
    assert (tables / "store" / "records_edges.bin").is_file()
    assert prepare(tables) == 0
    files = {file.name for file in GraphStore(tables / "store").files.values()}
    assert {path.name for path in (tables / "store").iterdir()} == files | {MANIFEST}


def test_damage_of_the_list_of_files_is_found(tables):
    assert prepare(tables) == 0
    path = tables / "store" / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(path.read_text().replace('"0"', '"7"', 1))
    with pytest.raises(DataError, match=r"store.json is damaged: its checksum is not the one that was written"):
        GraphStore(tables / "store")
    del content["sha256"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.byteorder", "big")
        build.write_manifest(tables / "store", content)
    with pytest.raises(DataError, match="was made on a machine that writes numbers big end first"):
        GraphStore(tables / "store")
    with pytest.raises(DataError, match=r"nodes.csv is not a store: store.json is missing"):
        GraphStore(tables / "nodes.csv")


def test_flags_that_cannot_change_a_store_are_refused(tables):
    assert prepare(tables) == 0

    def run(columns, **graph):
        graph = {"edge_columns": (), **graph}
        settings = NodeRunSettings(data=(str(tables / "store"),), columns=columns)
        source = type(settings.graph)(**graph)
        return read_data(NodeRunSettings(data=settings.data, columns=columns, graph=source))

    columns = columns_of(target_columns=("label",))
    assert len(run(columns, edge_columns=("from", "to")).rows) == 9
    with pytest.raises(SettingError, match="was prepared without: --directed cannot change it; leave it out, or prep"):
        run(columns, directed=True)
    with pytest.raises(SettingError, match="--edge-feature-columns cannot change it"):
        run(columns, edge_feature_columns=("w",))
    with pytest.raises(DataError, match="the names of its nodes are those of column 'id', not of 'b'; leave out"):
        run(columns_of(target_columns=("label",), node_column="b"))
    with pytest.raises(
        DataError, match="'a' is not a column of words there; prepare the store again with --category-col"
    ):
        run(columns_of(target_columns=("label",), category_columns=("a",)))


def test_the_column_of_types_that_a_store_has_is_no_change(tables):
    assert prepare(tables, "--edge-type-column", "t") == 0

    def read(edge_type_column):
        settings = NodeRunSettings(data=(str(tables / "store"),), columns=columns_of(target_columns=("label",)))
        return read_data(replace(settings, graph=replace(settings.graph, edge_type_column=edge_type_column)))

    assert len(read("t").rows) == len(read(None).rows) == 9
    with pytest.raises(SettingError, match="is a store, which has t: --edge-type-column cannot change it"):
        read("w")


def test_columns_that_are_not_stored_are_said(tables, capsys):
    assert prepare(tables) == 0
    assert "the table of edges has 2 more columns, not used: 'w', 't'; numbers of an edge" in capsys.readouterr().out


def test_numbers_too_large_are_named(tables, capsys):
    (tables / "edges.csv").write_text(EDGES.replace(",3.5,", ",1e300,"))
    (tables / "nodes.csv").write_text(NODES.replace("n1,1,1.5,1.5,", "n1,1,1.5,1e39,"))
    assert prepare(tables, "--edge-feature-columns", "w") == 0
    out = capsys.readouterr().out
    reason = "is beyond ±1e+37, too large to be scaled; give the column in another unit"
    assert f"the first in {tables / 'nodes.csv'}, line 3, column 'a': '1e39' {reason}" in out
    assert f"the first in {tables / 'edges.csv'}, line 5, column 'w': '1e300' {reason}" in out
    assert_as_tables(tables, target_columns=("label",))


@pytest.mark.parametrize("prefix", ["n", ""], ids=["names", "numbers"])
def test_columns_too_small_for_single_precision_are_refused_as_in_tables(tables, capsys, prefix):
    """All that is not 0 is bad, which is known at the end of the column: a row that is 0 can be used."""
    small = "".join(f"n{i},{i % 2},{i}.5,{'0' if i == 4 else f'{i + 1}e-40'},1\n" for i in range(9))
    for name, text in {"nodes": "id,label,y,a,b\n" + small, "edges": EDGES.replace(".5,", "e-41,")}.items():
        (tables / f"{name}.csv").write_text(re.sub(r"\bn(?=\d)", prefix, text))
    assert prepare(tables, "--edge-feature-columns", "w") == 0
    out = capsys.readouterr().out
    assert "8 nodes have a cell that cannot be read, the first in" in out
    assert "line 2, column 'a': '1e-40' and all cells of the column are below 1e-37" in out
    assert "8 rows of the edges have a cell that cannot be read" in out and "line 3, column 'w': '1e-41' and all" in out
    assert prepare(tables, "--dtype", "float16", "--overwrite") == 0
    (tables / "nodes.csv").write_text(NODES.replace(".5,1\n", "e-6,1\n"))
    assert prepare(tables, "--dtype", "float16", "--overwrite") == 2
    reason = "column 'a': all numbers are below 6.10352e-05, too small for float16; take --dtype bfloat16 or float32."
    assert reason in capsys.readouterr().err


def test_lines_are_counted_as_they_stand_in_the_file(tables, capsys):
    """Blank lines are no rows, and a cell may have several lines; they stand before and between the bad cells."""
    nodes = NODES.replace("n1,1,1.5,1.5", "\n\nn1,1,1.5,bad").replace("n7,1,7.5,7.5", "\nn7,1,much,7.5")
    (tables / "nodes.csv").write_text(nodes)
    (tables / "edges.csv").write_text(EDGES.replace("n2,n5", "\n\nn2,no").replace("n5,n2,5.5", "\nn5,n2,bad"))
    assert prepare(tables, "--edge-feature-columns", "w") == 0
    assert f"{tables / 'nodes.csv'}, line 5, column 'a': 'bad' is not a number" in capsys.readouterr().out
    rejected = GraphStore(tables / "store").manifest["rejected_edges"]["first"]
    assert [(line, column) for _, _, line, column, *_ in rejected] == [(6, "to"), (10, "w")]
    data = assert_as_tables(tables, target_columns=("y",), descriptors_columns=("a",))
    assert [(cell.line, cell.column) for cell in data.rows.rejected] == [(5, "a"), (12, "y")]
    columns = columns_of(target_columns=("label",), descriptors_columns=("y",))
    with pytest.raises(DataError, match=r"nodes.csv, row 8 \(line 12\), column 'y': 'much' is not a number"):
        read_store(str(tables / "store"), replace(columns, missing="impute"), strict=True)


def test_a_bad_cell_of_every_node_bars_only_those_that_need_it(tables):
    lines = NODES.splitlines()
    for row in range(1, 10):
        cells = lines[row].split(",")
        cells[2 + (row - 1) % 3] = "bad"
        lines[row] = ",".join(cells)
    (tables / "nodes.csv").write_text("\n".join(lines))
    for missing in ("impute", "drop"):
        assert prepare(tables, "--missing", missing, "--overwrite") == 0
        data = assert_as_tables(tables, target_columns=("label",), descriptors_columns=("a",))
        assert data.rows.usable.sum() == 6
    with pytest.raises(DataError, match="store: none of its 9 rows can be used; line 2, y: 'bad' is not a number"):
        read_store(str(tables / "store"), columns_of(target_columns=("label",), descriptors_columns=("y", "a", "b")))


@pytest.mark.parametrize("flags", [(), ("--target-columns", "y")], ids=["as_feature", "as_target"])
def test_a_bad_target_rejects_its_node_as_in_tables(tables, flags):
    """It was NaN in the store, as an empty cell is, and its node only unlabelled."""
    (tables / "nodes.csv").write_text(NODES.replace("n1,1,1.5", "n1,1,much").replace("n2,0,2.5", "n2,0,1e120"))
    assert prepare(tables, *flags) == 0
    data = assert_as_tables(tables, target_columns=("y",), descriptors_columns=("a", "b"))
    assert data.rows.status[:4] == [
        "ok",
        "y: 'much' is not a number",
        "y: '1e120' is beyond ±1e+100, too large to be scaled; give the column in another unit",
        "ok",
    ]
    assert data.rows.trainable.sum() == 4
    assert "y" not in read_store(str(tables / "store"), columns_of(target_columns=("y",))).features.names


@pytest.mark.parametrize("missing", ["impute", "drop"])
@pytest.mark.parametrize("flags", [(), ("--target-columns", "y")], ids=["as_feature", "as_target"])
def test_a_bad_target_that_is_not_listed_rejects_its_node_too(tables, monkeypatch, flags, missing):
    """A store lists only the first bad cells: a target behind them was unlabelled, and an empty one still is."""
    monkeypatch.setattr("edgewise.learn.readers.store.nodes.MAX_LISTED", 1)
    nodes = NODES.replace("n1,1,1.5", "n1,1,much").replace("n5,1,5.5", "n5,1,more").replace("n7,1,7.5,7.5", "n7,1,7.5,")
    (tables / "nodes.csv").write_text(nodes)
    assert prepare(tables, *flags, "--missing", missing) == 0
    columns = columns_of(target_columns=("y",), descriptors_columns=("a", "b"), missing="impute")
    data = read_store(str(tables / "store"), columns)
    rejected = {row: status for row, status in enumerate(data.rows.status) if status != "ok"}
    assert rejected.keys() == {1, 5} and rejected[5] == "y: the cell cannot be read as a number"
    assert data.rows.trainable.sum() == 4 and data.features.num_missing == 1
    with pytest.raises(DataError, match=r"row 2 \(line 3\), column 'y'"):
        read_store(str(tables / "store"), columns, strict=True)


def test_names_of_groups_must_be_exact(tables):
    lines = NODES.splitlines()
    (tables / "nodes.csv").write_text(
        "\n".join([lines[0] + ",group", *(f"{line},{2**24 + place}" for place, line in enumerate(lines[1:]))])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.learn.readers.store.nodes.MAX_CATEGORIES", 4)
        assert prepare(tables) == 0
    with pytest.raises(DataError, match="'group' is stored as a feature in float32, where numbers from 16,777,216 on"):
        read_store(str(tables / "store"), columns_of(target_columns=("y",), group_column="group"))


@pytest.mark.parametrize("column", ["Id", "paper_id"])
def test_names_in_another_spelling_are_found_and_others_are_said(tables, capsys, column):
    rows = "".join(f"{i % 2},{(i * 4 + 1) % 9},{i}.5\n" for i in range(9))
    (tables / "nodes.csv").write_text(f"label,{column},a\n{rows}")
    (tables / "edges.csv").write_text("from,to\n1,2\n")
    assert prepare(tables) == 0
    is_said = "name the nodes. If column 'paper_id' does: --node-column paper_id" in capsys.readouterr().err
    name_column = GraphStore(str(tables / "store")).manifest["name_column"]
    assert (name_column, is_said) == (("Id", False) if column == "Id" else (None, True))
