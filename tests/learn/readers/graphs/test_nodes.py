"""Graphs from tables and files: what is read, what was assumed, what is refused."""

import warnings

import numpy as np
import pytest
import torch

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import nodes_from_arrays, read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.split import split_rows
from edgewise.neighborhood import Edges

NODES = "id,a,b,label,part\nx,1,0,red,train\ny,2,0,,test\nz,0,3,blue,val\nw,0.5,1,red,test\n"
EDGES = "from,to,length\nx,y,1.5\ny,x,1.5\ny,z,2\nw,w,0\n"


def table_of(tmp_path, nodes=NODES, edges=EDGES, *, source=None, strict=False, need_targets=True, **columns):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    given = {"node_column": AUTO, "target_columns": ("label",), "splits_column": "part", "task_type": AUTO, **columns}
    places = GraphSource(**{"edges": str(tmp_path / "edges.csv"), **(source or {})})
    paths = [str(tmp_path / "nodes.csv")]
    return read_nodes(paths, Columns(**given), places, strict=strict, need_targets=need_targets)


def test_a_graph_by_hand(tmp_path):
    table = table_of(tmp_path, source={"edge_feature_columns": ("length",)})
    assert table.names == ("x", "y", "z", "w")
    assert table.rows.columns.descriptors_columns == ("a", "b")
    assert table.features.to_dense().tolist() == [[1, 0], [2, 0], [0, 3], [0.5, 1]]
    assert table.features.of_rows(np.array([3, 0])).tolist() == [[0.5, 1], [1, 0]]
    # x → y stands there both ways, y → z one way and is mirrored; the loop is its own other way.
    assert table.edges.senders.tolist() == [0, 1, 1, 3, 2]
    assert table.edges.receivers.tolist() == [1, 0, 2, 3, 1]
    assert table.edges.features[:, 0].tolist() == [1.5, 1.5, 2, 0, 2]
    assert (table.edges.num_mirrored, table.edges.num_loops, table.edges.num_repeated(4)) == (1, 1, 0)
    assert table.edges.num_isolated(4) == 1
    assert table.rows.classes == {"label": ["blue", "red"]}
    # A node without a target is part of the graph, and of no part of the split.
    assert table.rows.usable.tolist() == [True] * 4
    assert table.rows.trainable.tolist() == [True, False, True, True]
    splits = split_rows(table.rows, kind="column")
    assert (splits.train.tolist(), splits.val.tolist(), splits.test.tolist()) == ([0], [2], [3])
    assert (table.rows.contents.noun, table.rows.num_distinct, table.rows.contents.names(np.array([1]))) == (
        "nodes",
        4,
        ["('y',)"],
    )


def test_one_way_edges_stay_one_way(tmp_path):
    table = table_of(tmp_path, source={"directed": True, "edge_columns": ("to", "from")})
    assert table.edges.senders.tolist() == [1, 0, 2, 3]
    assert table.edges.receivers.tolist() == [0, 1, 1, 3]
    assert table.edges.num_mirrored == 0


def test_nodes_of_which_nothing_is_known_have_numbers_of_edges(tmp_path):
    nodes = "id,label\nx,red\ny,blue\nz,red\n"
    table = table_of(tmp_path, nodes, "s,r\nx,y\nx,z\n", splits_column=None, source={"directed": True})
    assert table.features.to_dense().tolist() == [[0, 2], [1, 0], [1, 0]]


def test_an_edge_that_stands_twice_counts_twice(tmp_path):
    table = table_of(tmp_path, edges="from,to\nx,y\nx,y\n")
    assert table.edges.senders.tolist() == [0, 0, 1, 1]
    assert table.edges.num_repeated(4) == 2


def test_a_table_of_edges_is_mirrored_as_the_library_mirrors_edges(tmp_path):
    table = table_of(
        tmp_path, edges="from,to,length\nx,y,1\ny,x,2\nx,y,3\nw,w,0\n", source={"edge_feature_columns": ("length",)}
    )
    library = Edges(torch.tensor([0, 1, 0, 3]), torch.tensor([1, 0, 1, 3]), 4, 4).undirected()
    assert table.edges.senders.tolist() == library.senders.tolist() == [0, 1, 0, 3, 1]
    assert table.edges.receivers.tolist() == library.receivers.tolist()
    assert table.edges.features[:, 0].tolist() == [1, 2, 3, 0, 3]


def test_nodes_without_names_are_counted_from_zero(tmp_path):
    nodes = "a,label\n1,red\n2,blue\n3,red\n"
    table = table_of(tmp_path, nodes, "s,r\n0,2\n", splits_column=None)
    assert table.names == ("0", "1", "2")
    assert (table.rows.columns.node_column, list(table.rows.cells.frame["node"])) == ("node", ["0", "1", "2"])
    assert table.edges.senders.tolist() == [0, 2]


@pytest.mark.parametrize("column", ["Id", "ID", " id ", "Node ID", "nodeId", "Node"])
def test_a_column_of_names_is_found_in_any_spelling(tmp_path, column):
    """Gephi writes `Id`, which was a feature: edges joined rows by their numbers, without a word."""
    table = table_of(tmp_path, f"a,{column},label\n1,2,red\n2,0,blue\n3,1,red\n", "s,r\n0,2\n", splits_column=None)
    assert table.names == ("2", "0", "1")
    assert (table.rows.columns.node_column, table.rows.columns.descriptors_columns) == (column, ("a",))
    assert (table.edges.senders.tolist(), table.edges.receivers.tolist()) == ([1, 0], [0, 1])


def test_the_column_that_is_called_exactly_so_comes_first(tmp_path):
    table = table_of(tmp_path, "Id,id,label\n0,b,red\n1,a,blue\n", "s,r\na,b\n", splits_column=None)
    assert (table.names, table.rows.columns.descriptors_columns) == (("b", "a"), ("Id",))


@pytest.mark.parametrize(
    ("column", "first", "is_said"),
    [("paper_id", 1000, True), ("nr", 1, True), ("nr", 0, False), ("grams", 1000, False), ("grams", 0.5, False)],
)
def test_row_numbers_are_said_to_be_names_where_a_column_may_be(tmp_path, column, first, is_said):
    """`paper_id`, or numbers from 1 on, were a feature, and edges joined other nodes, without a word."""
    step = 1 if column == "nr" else 300
    nodes = f"{column},a,label\n" + "".join(f"{first + row * step},{row % 3},{'rb'[row % 2]}\n" for row in range(12))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = table_of(tmp_path, nodes, "s,r\n1,2\n", splits_column=None)
        table_of(tmp_path, nodes, "s,r\n1,2\n", splits_column=None, ignore_columns=(column,))
    assert (table.rows.columns.node_column, table.names[:2]) == ("node", ("0", "1"))
    said = [str(warning.message) for warning in caught]
    assert len(said) == is_said
    assert all(f"row numbers, counted from 0, name the nodes. If column '{column}' does" in line for line in said)


def test_what_cannot_be_read_is_listed(tmp_path):
    nodes = NODES.replace("y,2,0", "y,two,0").replace("w,0.5,1", "w,nan,1")
    table = table_of(tmp_path, nodes, EDGES + "x,nobody,1\n,x,1\n")
    assert [(each.line, each.column, each.reason) for each in table.rows.rejected] == [
        (3, "a", "'two' is not a number"),
        (5, "a", "'nan' is not a number"),
        (6, "to", f"'nobody' is not a node of {tmp_path}/nodes.csv"),
        (7, "from", "the cell names no node"),
    ]
    assert table.rows.usable.tolist() == [True, False, True, False]
    assert table.features.to_dense()[1].tolist() == [0, 0]
    assert len(table.edges) == 5, "edges of the nodes that cannot be read are kept"
    assert table_of(tmp_path, NODES, need_targets=False, target_columns=()).rows.trainable.tolist() == [False] * 4


@pytest.mark.parametrize(
    ("nodes", "edges", "more", "message"),
    [
        (NODES.replace("y,", "x,"), EDGES, {}, r"line 3, column 'id': the node 'x' is also in line 2; names must"),
        (NODES.replace("y,2", ",2"), EDGES, {}, r"line 3, column 'id': the name of the node is empty"),
        (NODES, "from,to\nq,r\n", {}, r"edges.csv, line 2, column 'from': 'q' is not a node of .*none of the rows"),
        (NODES, EDGES + "q,x,1\n", {"strict": True}, r"edges.csv, line 6, .*'q' is not a node.*drop --strict"),
        (NODES, "from,to\n", {}, "a header but no rows"),
        (NODES, "from\nx\n", {}, "1 column names nodes, expected two"),
        (NODES, EDGES, {"source": {"edge_columns": ("from", "goal")}}, "no column 'goal'"),
        (NODES, EDGES, {"source": {"edge_feature_columns": ("width",)}}, "no column 'width'"),
        (NODES, EDGES, {"node_column": "name"}, "no column 'name'"),
        (NODES, EDGES, {"descriptors_columns": ("c",)}, "no column 'c'"),
        (NODES, EDGES, {"target_columns": ("y",)}, "no column 'y'"),
        (NODES, EDGES, {"splits_column": "fold"}, "no column 'fold'"),
        (NODES.replace("1,0", "?,0").replace("2,0", "?,0").replace("0,3", "?,3").replace("0.5,", "?,"), EDGES, {},
         "no node has features that can be read; line 2, column 'a'.*--feature-columns"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, nodes, edges, more, message):
    with pytest.raises(DataError, match=message):
        table_of(tmp_path, nodes, edges, **more)


def test_settings_that_do_not_fit(tmp_path):
    with pytest.raises(SettingError, match="no --target-columns were given"):
        table_of(tmp_path, target_columns=())
    with pytest.raises(SettingError, match="name the table of their edges: --edges"):
        table_of(tmp_path, source={"edges": None})
    with pytest.raises(SettingError, match="2 tables of nodes were given"):
        read_nodes(["a.csv", "b.csv"], Columns(node_column=AUTO), GraphSource())
    with pytest.raises(SettingError, match="--edge-columns names 1, expected two"):
        GraphSource(edge_columns=("from",))
    with pytest.raises(SettingError, match="'r' is named in --edge-feature-columns twice"):
        GraphSource(edge_feature_columns=("r", "r"))
    with pytest.raises(SettingError, match="a row with --edges is a node"):
        Columns(node_column="id", smiles_columns=("smiles",))


GRAPH = {
    "x": np.array([[1.0, 0], [0, 2], [3, 4]]),
    "edge_index": np.array([[0, 1], [1, 2]]),
    "y": np.array([0, 1, 1]),
    "train_mask": np.array([True, False, False]),
    "test_mask": np.array([False, True, False]),
}


def graph_of(tmp_path, arrays, columns=None, **source):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    columns = columns or Columns(node_column=AUTO, task_type=AUTO)
    return read_nodes([str(path)], columns, GraphSource(**source))


def test_a_graph_in_one_file(tmp_path):
    table = graph_of(tmp_path, GRAPH)
    assert (table.rows.columns.target_columns, table.rows.columns.splits_column) == (("y",), "split")
    assert table.features.to_dense().tolist() == GRAPH["x"].tolist()
    assert table.edges.senders.tolist() == [0, 1, 1, 2]
    assert list(table.rows.cells.frame["split"]) == ["train", "test", ""]
    parts = {"x_indices": [0, 1, 0, 1], "x_indptr": [0, 1, 2, 4], "x_shape": [3, 2], "x_data": [1.0, 2, 3, 4]}
    sparse = {**GRAPH, **{name: np.array(part) for name, part in parts.items()}}
    del sparse["x"]
    assert graph_of(tmp_path, sparse).features.to_dense().tolist() == GRAPH["x"].tolist()
    del sparse["x_data"]
    assert graph_of(tmp_path, sparse).features.to_dense().tolist() == [[1, 0], [0, 1], [1, 1]]
    named = {**GRAPH, "class_names": np.array(["cat", "dog"]), "has_label": np.array([True, True, False])}
    table = graph_of(tmp_path, named, directed=True)
    assert list(table.rows.cells.frame["y"]) == ["cat", "dog", ""]
    assert table.rows.trainable.tolist() == [True, True, False]
    assert table.edges.senders.tolist() == [0, 1]
    lengths = graph_of(tmp_path, {**GRAPH, "edge_attr": np.array([0.5, 0.7])}).edges.features
    assert lengths[:, 0].tolist() == pytest.approx([0.5, 0.7, 0.5, 0.7])


def test_entries_of_sparse_features_at_one_place_add_up(tmp_path):
    parts = {"x_indices": [1, 0, 1, 1, 1], "x_indptr": [0, 3, 5, 5], "x_shape": [3, 2], "x_data": [1.0, 2, 3, 4, -4]}
    sparse = {
        "edge_index": GRAPH["edge_index"],
        **{name: np.array(part) for name, part in parts.items()},
        "y": GRAPH["y"],
    }
    features = graph_of(tmp_path, sparse).features
    assert features.to_dense().tolist() == [[2, 4], [0, 0], [0, 0]]
    assert features.of_rows(np.array([0])).tolist() == [[2, 4]]
    assert (features.rows.tolist(), features.values.tolist()) == ([0, 0], [2, 4])


def test_entries_of_sparse_features_that_add_up_to_too_much_are_refused(tmp_path):
    """Each of them can be scaled, but their sum became an infinity."""
    parts = {"x_indices": [0] + [1] * 40, "x_indptr": [0, 1, 41], "x_shape": [2, 2], "x_data": [1.0] + [1e37] * 40}
    sparse = {name: np.array(part) for name, part in parts.items()} | {"edge_index": np.array([[0], [1]])}
    with pytest.raises(DataError, match=r"node 1, feature 1: its entries add up to 4e\+38, beyond ±1e\+37"):
        graph_of(tmp_path, {**sparse, "y": np.array([0, 1])})


def test_half_precision_is_read_as_any_other(tmp_path):
    half = {name: array.astype(np.float16) if name == "x" else array for name, array in GRAPH.items()}
    half["edge_attr"] = np.array([0.5, 6e4], dtype=np.float16)
    table = graph_of(tmp_path, half, directed=True)
    assert table.features.to_dense().tolist() == GRAPH["x"].tolist()
    assert table.edges.features[:, 0].tolist() == [0.5, 6e4 // 32 * 32]


def test_missing_numbers_of_edges_in_a_file_are_kept_to_be_filled(tmp_path):
    arrays = {**GRAPH, "edge_attr": np.array([[0.5], [np.nan]])}
    columns = Columns(node_column=AUTO, task_type=AUTO, missing="impute")
    np.testing.assert_array_equal(graph_of(tmp_path, arrays, columns, directed=True).edges.features, [[0.5], [np.nan]])
    with pytest.raises(DataError, match=r"edge_attr\[1, 0\] is not a finite number"):
        graph_of(tmp_path, arrays)
    with pytest.raises(DataError, match=r"edge_attr\[1, 0\] is not a finite number"):
        graph_of(tmp_path, {**GRAPH, "edge_attr": np.array([[0.5], [np.inf]])}, columns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": None}, "the array 'edge_index' is missing; the file has x, y"),
        ({"x": None}, "features are missing: expected x, or x_indices, x_indptr, x_shape"),
        ({"x": np.array([[1.0], [np.nan], [2]])}, r"x\[1, 0\] is not a finite number"),
        ({"x": np.array(["a", "b", "c"])}, r"expected numbers \(node, feature\)"),
        ({"edge_index": np.array([[0, 1], [1, 3]])}, "edge 1 joins 1 and 3, but nodes are 0 to 2"),
        ({"edge_index": np.array([0, 1])}, r"expected whole numbers \(2, edge\)"),
        ({"y": np.array([0, 1])}, r"y is \(2,\), but x has 3 nodes"),
        ({"y": np.zeros((3, 2))}, "y has 2 axes"),
        ({"class_names": np.array(["cat"])}, "y holds 0 to 1, but class_names has 1"),
        ({"test_mask": np.array([True, True, False])}, "a node is in test_mask and in another mask"),
        ({"test_mask": np.ones((3, 2), dtype=bool)}, r"test_mask has 2 axes, expected \(node\)"),
        ({"test_mask": np.array([0, 1, np.nan])}, "test_mask of node 2 is nan, expected True or False, or 1 or 0"),
        ({"test_mask": np.array([0, 0.3, 1])}, "test_mask of node 1 is 0.3, expected True or False, or 1 or 0"),
        ({"has_label": np.array([1, 1, np.nan])}, "has_label of node 2 is nan, expected True or False, or 1 or 0"),
        ({"edge_attr": np.array([0.5])}, "edge_attr has 1 row, but there are 2 edges"),
        ({"x": None, "x_indices": np.array([5]), "x_indptr": np.array([0, 1, 1, 1]), "x_shape": np.array([3, 2])},
         "do not fit together"),
    ],
)  # fmt: skip
def test_files_that_are_refused(tmp_path, change, message):
    arrays = {name: array for name, array in {**GRAPH, **change}.items() if array is not None}
    with pytest.raises(DataError, match=message):
        graph_of(tmp_path, arrays)


def test_files_that_are_no_graph(tmp_path):
    (tmp_path / "graph.npz").write_bytes(b"no zip")
    with pytest.raises(DataError, match="file of plain arrays"):
        read_nodes([str(tmp_path / "graph.npz")], Columns(node_column=AUTO), GraphSource())
    with pytest.raises(SettingError, match="leave out --edges and --features"):
        graph_of(tmp_path, GRAPH, edges="edges.csv")


def test_features_in_a_file_of_their_own(tmp_path):
    np.savez(tmp_path / "features.npz", x=np.eye(4))
    table = table_of(tmp_path, source={"features": str(tmp_path / "features.npz")})
    assert table.features.to_dense().tolist() == np.eye(4).tolist()
    np.savez(tmp_path / "features.npz", x=np.eye(3))
    with pytest.raises(DataError, match=r"features.npz has 3 rows, but .* has 4 nodes"):
        table_of(tmp_path, source={"features": str(tmp_path / "features.npz")})


def test_words_and_numbers_are_distinguished():
    random = np.random.default_rng(0)
    words = (random.random((20, 100)) < 0.05).astype(float)
    assert NodeFeatures.of(words).are_words
    assert not NodeFeatures.of(-words).are_words
    assert NodeFeatures.of(-words).are_sparse
    assert not NodeFeatures.of(random.random((20, 100))).are_sparse
    assert not NodeFeatures.of(words[:, :10]).are_words


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 1.0])
def test_features_are_the_same_numbers_as_a_table_and_without_zeros(share):
    random = np.random.default_rng(0)
    numbers = (random.normal(size=(7, 5)) * (random.random((7, 5)) < share)).astype(np.float32)
    features = NodeFeatures.of(numbers)
    # A table takes less memory where most numbers are not zero.
    assert (features.entries is None) == (share > 0.5)
    assert (features.to_dense() == numbers).all() and features.to_dense() is not numbers
    assert (features.of_rows(np.array([3, 0])) == numbers[[3, 0]]).all()
    entries = list(zip(*numbers.nonzero(), strict=True))
    assert list(zip(features.rows, features.columns, strict=True)) == entries
    assert features.values.tolist() == [numbers[entry] for entry in entries]
    again = NodeFeatures.of_entries(features.rows, features.columns, features.values, features.shape)
    assert (again.to_dense() == numbers).all()


def test_a_graph_from_arrays():
    edges = EdgeList(np.array([0]), np.array([1]), np.zeros((1, 0), dtype=np.float32))
    table = nodes_from_arrays(NodeFeatures.of(np.eye(2)), edges, [0.5, np.nan], splits=["train", "val"])
    assert table.rows.trainable.tolist() == [True, False]
    assert table.edges.senders.tolist() == [0], "edges are taken as they are"
    with pytest.raises(DataError, match="target has 3 rows, but node has 2"):
        nodes_from_arrays(NodeFeatures.of(np.eye(2)), edges, [1, 2, 3])


def test_a_name_that_is_nearly_that_of_a_node_is_hinted_at(tmp_path):
    nodes = NODES.replace("x,", "98,").replace("y,", "Anna,")
    table = table_of(tmp_path, nodes, "from,to\n00098,Anna\nanna,z\n98.0,z\nqqqq,z\nz,w\n")
    home = f"is not a node of {tmp_path}/nodes.csv"
    assert [each.reason for each in table.rows.rejected] == [
        f"'00098' {home} (did you mean '98'?)",
        f"'anna' {home} (did you mean 'Anna'?)",
        f"'98.0' {home} (did you mean '98'?)",
        f"'qqqq' {home}",
    ]


def test_columns_of_the_edges_that_are_not_used_are_named(tmp_path):
    edges = "from,to,weight,word\nx,y,1,a\n"
    table = table_of(tmp_path, edges=edges)
    assert table.edges.unused_columns == ("weight", "word")
    assert table.edges.unused("say so") == ["the table of edges has 2 more columns, not used: 'weight', 'word'; say so"]
    table = table_of(tmp_path, edges=edges, source={"edge_feature_columns": ("weight",)})
    assert table.edges.unused("say so", ["word"]) == []


def test_an_edge_whose_weight_is_no_number_is_listed_and_passed_over(tmp_path):
    table = table_of(
        tmp_path, edges="from,to,weight\nx,y,nan\ny,z,\nz,w,2\n", source={"edge_feature_columns": ("weight",)}
    )
    assert table.edges.senders.tolist() == [2, 3]
    assert [(each.line, each.column) for each in table.rows.rejected] == [(2, "weight"), (3, "weight")]


@pytest.mark.parametrize("num_edges", [0, 1, 200])
def test_repeated_edges_and_isolated_nodes_are_counted_as_sets_count_them(num_edges):
    random = np.random.default_rng(num_edges)
    senders, receivers = random.integers(0, 30, (2, num_edges))
    edges = EdgeList(senders, receivers, np.zeros((num_edges, 0), np.float32))
    pairs = list(zip(senders.tolist(), receivers.tolist(), strict=True))
    touched = {node for pair in pairs if pair[0] != pair[1] for node in pair}
    assert edges.num_repeated(30) == num_edges - len(set(pairs))
    assert edges.num_isolated(30) == 30 - len(touched)
