"""Many graphs from tables and arrays: what is read, what was assumed, what is refused."""

import re

import numpy as np
import pytest

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.graphs import GraphRow, graphs_from_arrays, read_graphs
from edgewise.learn.readers.graphs.source import GraphColumns, GraphsSource
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.split import split_rows

NODES = (
    "mol,id,a,b,y,part\n"
    "g,0,1,2,0.5,train\n"
    "h,0,3,4,1.5,test\n"  # the nodes of a graph need not stand together
    "g,1,5,6,,\n"
    "h,1,7,8,1.50,test\n"
    "g,2,9,0,0.5,\n"
    "k,0,2,2,2.5,val\n"
)
EDGES = "mol,from,to,length\ng,0,1,1.5\nh,1,0,2\ng,2,1,1\n"


@pytest.fixture
def read(tmp_path):
    def table_of(nodes=NODES, edges=EDGES, graphs=None, *, source=None, need_targets=True, strict=False, **more):
        options = {name: more.pop(name) for name in ("need_roots", "categories") if name in more}
        places = {"edges": str(tmp_path / "edges.csv"), **(source or {})}
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        if graphs is not None:
            (tmp_path / "graphs.csv").write_text(graphs)
            places["graphs"] = str(tmp_path / "graphs.csv")
        columns = {
            "node_column": AUTO,
            "graph_column": "mol",
            "target_columns": ("y",),
            "splits_column": "part" if "part" in nodes + (graphs or "") else None,
            "task_type": AUTO,
            **more,
        }
        options |= {"strict": strict, "need_targets": need_targets}
        return read_graphs([str(tmp_path / "nodes.csv")], GraphColumns(**columns), GraphsSource(**places), **options)

    return table_of


def test_graphs_by_hand(read):
    table = read(source={"edge_feature_columns": ("length",)})
    assert list(table.rows.cells.frame["mol"]) == ["g", "h", "k"]
    assert table.rows.columns.descriptors_columns == ("a", "b")
    assert table.features.tolist() == [[1, 2], [5, 6], [9, 0], [3, 4], [7, 8], [2, 2]]
    assert table.offsets.tolist() == [0, 3, 5, 6]
    # Each edge and, after those of its graph, the other way of it.
    assert table.edges.senders.tolist() == [0, 2, 1, 1, 4, 3]
    assert table.edges.receivers.tolist() == [1, 1, 0, 2, 3, 4]
    assert table.edges.features[:, 0].tolist() == [1.5, 1, 1.5, 1, 2, 2]
    assert (table.edges.num_mirrored, table.edge_offsets.tolist()) == (3, [0, 4, 6, 6])
    assert table.rows.targets.tolist() == [[0.5], [1.5], [2.5]], "at some nodes or at all; 1.5 is 1.50"
    assert (table.rows.status, table.rows.cells.lines.tolist()) == (["ok"] * 3, [2, 3, 7])
    splits = split_rows(table.rows, kind="column")
    assert (splits.train.tolist(), splits.val.tolist(), splits.test.tolist()) == ([0], [2], [1])
    assert (table.rows.contents.noun, table.rows.num_distinct, table.rows.columns.task_type) == (
        "graphs",
        3,
        "regression",
    )
    assert table.trees is None


def test_node_names_must_be_unique_where_edges_do_not_name_their_graph(read):
    nodes = "mol,id,y\ng,a,0.5\ng,b,\nh,c,1.5\nh,d,\n"
    table = read(nodes, "from,to\na,b\nd,c\n", source={"directed": True})
    assert (table.edges.senders.tolist(), table.edges.receivers.tolist()) == ([0, 3], [1, 2])
    # Nothing is known of these nodes but how many edges come and go.
    assert table.features.tolist() == [[0, 1], [1, 0], [1, 0], [0, 1]]
    with pytest.raises(DataError, match=r"'a' is also in line 2; .* must have the column 'mol' too"):
        read(nodes.replace("h,d", "h,a"), "from,to\na,b\n")
    with pytest.raises(DataError, match=r"2 edges join two graphs, in lines 3, 4; the first joins 'g' and 'h'"):
        read(nodes, "from,to\na,b\nb,c\nd,a\n")


def test_nodes_without_names_are_counted_within_their_graph(read):
    nodes = "mol,a,y\ng,1,0.5\nh,2,1.5\ng,3,\nh,4,\n"
    table = read(nodes, "mol,s,r\ng,0,1\nh,1,0\n", source={"directed": True})
    assert list(table.edges.senders) == [0, 3]
    table = read(nodes, "s,r\n0,2\n1,3\n", source={"directed": True})
    assert list(table.edges.senders) == [0, 2], "over the whole table where edges do not name their graph"


def test_a_graph_that_cannot_be_used_is_listed(read, tmp_path):
    nodes = NODES.replace("h,1,7,8,1.50", "h,1,7,8,1.6") + "m,0,1,1,,train\nn,0,x,1,3.5,train\nn,1,,1,,\n"
    table = read(nodes, EDGES + "g,0,9,1\nq,0,1,1\ng,,0,1\n", source={"edge_feature_columns": ("length",)})
    assert [(each.line, each.column, each.reason) for each in table.rows.rejected] == [
        (3, "y", "the graph has '1.5' in line 3 and '1.6' in line 5"),
        (8, "y", "no node of the graph has a target"),
        (9, "a", "the node '0' in line 9: 'x' is not a number"),
        (5, "to", f"'9' is not a node of the graph 'g' in {tmp_path}/nodes.csv"),
        (6, "from", f"'0' is not a node of the graph 'q' in {tmp_path}/nodes.csv"),
        (7, "from", "the cell names no node"),
    ]
    assert table.rows.usable.tolist() == [True, False, True, False, False]
    assert (len(table.edges), len(table.usable_edges)) == (6, 4), "g's two edges and their other ways; h is rejected"
    assert (table.edges.num_mirrored, table.usable_edges.num_mirrored) == (3, 2)
    with pytest.raises(DataError, match=r"'1\.6' in line 5"):
        read(nodes, strict=True)
    predicted = read(nodes, need_targets=False, splits_column=None, descriptors_columns=("a", "b"))
    assert predicted.rows.usable.tolist() == [True, True, True, True, False], "a graph to predict may say what it likes"
    assert list(predicted.rows.cells.frame.columns) == ["mol", "y"], "the targets stand beside the predictions"


def test_words_of_nodes(read):
    nodes = "mol,id,element,y\ng,0,C,0.5\ng,1,O,\nh,0,H,1.5\nk,0,,2.5\n"
    table = read(nodes, "mol,s,r\ng,0,1\n", category_columns=("element",))
    assert table.categories == {"element": ["C", "H", "O"]}
    assert table.features.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert table.rows.status[2] == "element: the node '0' in line 5: the cell is empty"
    known = {"kind": ["C", "O"]}
    predicted = read(
        nodes, "mol,s,r\ng,0,1\n", category_columns=("element",), categories=known, need_targets=False
    )  # fmt: skip
    assert predicted.features[:3].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert predicted.rows.status[1] == "element: the node '0' in line 4: 'H' is not one of the 2 known words"


def test_nan_is_a_missing_word(read):
    """It became a word of its own, of nodes and of edges."""
    nodes = "mol,id,element,y\ng,0,C,0.5\ng,1,O,\nh,0, NaN,1.5\nh,1,C,\n"
    edges = "mol,s,r,bond\ng,0,1,single\ng,1,0,nan\nh,0,1,single\n"
    source = {"edge_category_columns": ("bond",)}
    table = read(nodes, edges, source=source, category_columns=("element",))
    assert (table.categories, table.edges.categories) == ({"element": ["C", "O"]}, {"bond": ["single"]})
    assert table.features.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]
    assert table.rows.status[1] == "element: the node '0' in line 4: the cell is empty"
    assert [(each.line, each.value, each.reason) for each in table.edges.rejected] == [(3, "nan", "the cell is empty")]


@pytest.mark.parametrize(("trained", "new"), [("6.0", "6"), ("6", "6.0"), ("6.0", "6.0")])
def test_a_whole_number_is_one_word_with_a_point_or_without(read, trained, new):
    """pandas writes 6.0 where another cell is empty: graphs of the other writing were refused, and edges lost."""
    roles = {"category_columns": ("element",), "source": {"edge_category_columns": ("bond",)}}

    def written(number):
        nodes = f"mol,id,element,y\ng,0,{number},0.5\ng,1,8,\nh,0,06,1.5\n"
        return nodes, f"mol,s,r,bond\ng,0,1,{number}\ng,1,0,2\n"

    table = read(*written(trained), **roles)
    assert (table.categories, table.edges.categories) == ({"element": ["06", "6", "8"]}, {"bond": ["2", "6"]})
    for known in (["06", "6", "8"], ["06", "6.0", "8"]):  # models of earlier versions know either
        predicted = read(*written(new), **roles, categories={"element": known}, need_targets=False)
        assert predicted.rows.status == ["ok", "ok"]
        assert predicted.features.tolist() == table.features.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    both = read(*written("6.0"), **roles, categories={"element": ["06", "6", "6.0", "8"]}, need_targets=False)
    assert both.features.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]


def test_a_table_of_graphs(read, tmp_path):
    nodes = "mol,id,a\ng,0,1\nh,0,2\ng,1,3\nz,0,4\nz,1,4\n"
    graphs = "mol,y,heat,part\nh,1.5,300,train\ng,0.5,310,test\nk,2.5,320,train\nm,3.5,,train\n"
    edges = "mol,from,to\ng,0,1\nz,0,1\n"
    table = read(nodes, edges, graphs, graph_feature_columns=("heat",))
    assert list(table.rows.cells.frame["mol"]) == ["h", "g", "k", "m"]
    assert (table.offsets.tolist(), table.features[:, 0].tolist()) == ([0, 1, 3, 3, 3], [2, 1, 3])
    assert table.edges.senders.tolist() == [1, 2]
    assert table.graph_features[:2].tolist() == [[300], [310]]
    assert table.rows.status[2:] == [f"mol: no node of {tmp_path}/nodes.csv belongs to it"] * 2
    assert table.num_unassigned_nodes == 2
    with pytest.raises(DataError, match=r"graphs.csv, line 4, column 'mol': the graph 'h' is also in line 2"):
        read(nodes, edges, graphs.replace("k,2.5", "h,2.5"))
    with pytest.raises(DataError, match="no column 'heat'"):
        read(nodes, edges, graph_feature_columns=("heat",), need_targets=False, splits_column=None)
    predicted = read(nodes, edges, "mol\ng\n", need_targets=False, splits_column=None)
    assert predicted.rows.usable.tolist() == [True]


def test_numbers_of_graphs_that_nodes_say(read):
    nodes = "mol,id,y,heat\ng,0,0.5,300\ng,1,,300\nh,0,1.5,310\nh,1,,320\nk,0,2.5,\n"
    table = read(nodes, "mol,s,r\ng,0,1\n", graph_feature_columns=("heat",))
    assert table.graph_features[0].tolist() == [300]
    assert table.rows.status[1] == "heat: the graph has '310' in line 4 and '320' in line 5"
    assert table.rows.status[2] == "heat: empty cell, expected a number"


def test_features_in_a_file_of_their_own(read, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(6)[:, None])
    source = {"features": str(tmp_path / "x.npz")}
    assert read(source=source).features[:, 0].tolist() == [0, 2, 4, 1, 3, 5], "in the order of the table of nodes"
    np.savez(tmp_path / "x.npz", x=np.eye(3))
    with pytest.raises(DataError, match=r"x.npz has 3 rows, but .*nodes.csv has 6 nodes"):
        read(source=source)


@pytest.mark.parametrize(
    ("nodes", "edges", "more", "message"),
    [
        (NODES.replace("g,1", ",1"), EDGES, {}, r"nodes.csv, line 4, column 'mol': the cell names no graph"),
        (NODES.replace("g,1", "g,0"), EDGES, {}, r"line 4, column 'id': the node '0' is also in line 2; names must"),
        (NODES, EDGES, {"graph_column": "graph"}, "no column 'graph'"),
        (NODES, EDGES, {"target_columns": ("z",)}, "no column 'z'"),
        (NODES, EDGES, {"category_columns": ("z",)}, "no column 'z'"),
        (NODES, "mol,from,to\n", {}, "a header but no rows"),
        (NODES, "mol,from\ng,0\n", {}, "1 column names nodes, expected two"),
        (NODES, "mol,from,to\ng,0,7\n", {}, "'7' is not a node of the graph 'g' .*; none of the rows is an edge"),
    ],
)
def test_what_is_refused(read, nodes, edges, more, message):
    with pytest.raises(DataError, match=message):
        read(nodes, edges, **more)


def test_settings_that_do_not_fit(read):
    with pytest.raises(SettingError, match="no --target-columns were given"):
        read(target_columns=())
    with pytest.raises(SettingError, match="many graphs are a table of nodes and one of edges: --edges"):
        read(source={"edges": None})
    with pytest.raises(SettingError, match="2 tables of nodes were given"):
        read_graphs(["a.csv", "b.csv"], GraphColumns(node_column=AUTO), GraphsSource())
    with pytest.raises(SettingError, match="'mol' is named in --ignore-columns and in --graph-column"):
        GraphColumns(node_column=AUTO, graph_column="mol", ignore_columns=("mol",))


def edges_of(*pairs, features=0):
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return EdgeList(ends[:, 0], ends[:, 1], np.zeros((len(ends), features), dtype=np.float32))


def graph_of(num_nodes, *pairs, **more):
    return GraphRow(np.arange(num_nodes, dtype=np.float32)[:, None], edges_of(*pairs, **more))


def test_graphs_from_arrays():
    graphs = [graph_of(3, (0, 1), (2, 1)), graph_of(1), graph_of(2, (1, 0))]
    table = graphs_from_arrays(graphs, [0.5, 1.5, 2.5], groups=["a", "b", "a"], graph_features=[[1], [2], [3]])
    assert (table.offsets.tolist(), table.edge_offsets.tolist()) == ([0, 3, 4, 6], [0, 2, 2, 3])
    assert table.edges.senders.tolist() == [0, 2, 5], "edges are taken as they are"
    assert table.graph_features.tolist() == [[1], [2], [3]]
    same = graphs_from_arrays([*graphs, graph_of(2, (1, 0)), graph_of(2, (0, 1))])
    assert same.rows.num_distinct == 4, "the same nodes and edges wherever they stand; the way of an edge counts"
    for wrong, message in [
        ([graph_of(2, (0, 2))], "graph 0: edge 0 joins 0 and 2, but nodes are 0 to 1"),
        ([graph_of(2), graph_of(2, features=1)], "graph 1 has 1 feature of an edge, but graph 0 has 0"),
        ([graph_of(2), graph_of(0)], "row 1, .*it is empty"),
    ]:
        with pytest.raises(DataError, match=message):
            graphs_from_arrays(wrong, [0.5, 1.5][: len(wrong)])
    with pytest.raises(DataError, match="target has 2 rows, but graph has 1"):
        graphs_from_arrays([graph_of(1)], [1, 2])


def test_roots_by_hand():
    """Two halos merge into 2, that and 3 into 4; a second way from 0 to 4; a loop; one alone; a chain the other way."""
    merger = graph_of(5, (0, 2), (1, 2), (2, 4), (3, 4), (0, 4), (4, 4))
    table = graphs_from_arrays([merger, graph_of(1), graph_of(3, (2, 1), (1, 0))], need_roots=True)
    assert table.trees.roots.tolist() == [4, 5, 6]
    assert table.trees.depths.tolist() == [2, 0, 2]
    assert table.rows.usable.all()


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (graph_of(3, (0, 1), (1, 0), (1, 2)), "its edges run in a circle through the node '[01]'"),
        (graph_of(4, (0, 1), (1, 2), (2, 1), (2, 3)), "its edges run in a circle through the node '[12]'"),
        (graph_of(3, (0, 1), (1, 2), (2, 0)), "its edges run in a circle through the node '[012]'"),
        (graph_of(3, (0, 1)), r"2 nodes have no edge that leaves \('1', '2'\), expected one, the root$"),
        (
            graph_of(5, (0, 1), (0, 2), (0, 3), (0, 4)),
            r"4 nodes have no edge that leaves \('1', '2', '3', ...\), expected one, the root; one node has none that "
            "comes: do the edges run from the root",
        ),
        (graph_of(0), "it is empty: expected at least one node"),
    ],
)
def test_graphs_that_are_no_trees(graph, reason):
    tree = graph_of(2, (1, 0))
    table = graphs_from_arrays([tree, graph, tree], need_roots=True)
    assert table.rows.usable.tolist() == [True, False, True]
    assert re.search(reason, table.rows.status[1])
    assert table.trees.roots[1] == table.trees.depths[1] == -1
    assert (table.trees.roots[0], table.trees.roots[2]) == (0, 2 + len(graph.features))


def test_roots_are_found_before_edges_are_mirrored(read):
    nodes = "mol,id,mass,y\ng,0,1,0.5\ng,1,2,\nh,0,1,1.5\nh,1,1,\n"
    table = read(nodes, "mol,from,to\ng,0,1\nh,1,0\n", need_roots=True)
    assert table.trees.roots.tolist() == [1, 2]
    assert table.edges.num_mirrored == 2
    circle = read(nodes, "mol,from,to\ng,0,1\nh,1,0\nh,0,1\n", need_roots=True)
    assert (circle.rows.status[0], "a circle through the node" in circle.rows.status[1]) == ("ok", True)


def test_names_within_graphs_are_found_in_any_spelling_or_said(read):
    """Atoms that count down within their molecule were joined as rows, without a word."""
    nodes = "mol,Node ID,a,y\n" + "".join(
        f"{graph},{1 - node},{node}.5,{graph}\n" for graph in "1234" for node in (0, 1)
    )
    edges = "mol,from,to\n1,0,1\n"
    table = read(nodes, edges, source={"directed": True})
    assert (table.edges.senders.tolist(), table.edges.receivers.tolist()) == ([1], [0])
    with pytest.warns(
        UserWarning, match="0 in each graph, name the nodes. If column 'atom no' does: --node-column 'at"
    ):
        table = read(nodes.replace("Node ID", "atom no"), edges, source={"directed": True})
    assert (table.edges.senders.tolist(), table.edges.receivers.tolist()) == ([0], [1])


@pytest.mark.parametrize("is_directed", [False, True])
def test_the_order_of_edges_does_not_hide_a_graph_that_is_there_twice(is_directed, read):
    """A test graph whose edges a file lists in another order was no leakage, and not kept in the group of its like."""
    listed = [f"{mol},{node},{node},1,{'ghkm'.index(mol)}\n" for mol in "ghkm" for node in "012"]
    nodes = "mol,id,a,b,y\n" + "".join(listed)
    edges = {
        "g": ["0,1,1.5", "1,2,2", "0,1,3"],
        "h": ["0,1,3", "1,2,2", "0,1,1.5"],
        "k": ["1,0,3", "1,0,1.5", "2,1,2"],  # the same where edges go both ways
        "m": ["0,1,2", "1,2,1.5", "0,1,3"],  # the lengths of two edges are exchanged
    }
    rows = [f"{mol},{edge}\n" for mol, of_graph in edges.items() for edge in of_graph]
    source = {"edge_feature_columns": ("length",), "directed": is_directed}
    table = read(nodes, "mol,from,to,length\n" + "".join(rows), source=source)
    first, second, third, fourth = table.rows.keys(np.arange(4)).tolist()
    assert first == second
    assert (first == third) == (not is_directed)
    assert fourth not in (first, third)
    assert len(set(table.rows.contents.names(np.arange(4)))) == (3 if is_directed else 2)
