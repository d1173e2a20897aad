"""Several types of nodes and edges: what is read, what is added, what a model remembers, what is refused."""

import dataclasses
import json

import numpy as np
import pytest

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import nodes_from_arrays, read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.type_features import TypeScaler, in_own_columns, left_aligned
from edgewise.learn.readers.graphs.types import TypeNames
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.training.document import read_value, to_document

NODES = (
    "id,kind,age,year,pages,label\na1,author,40,,,\na2,author,50,,,\n"
    "p1,paper,,1999,10,red\np2,paper,,2001,12,blue\np3,paper,,2003,9,\nv1,venue,,,,\n"
)
EDGES = "from,to,how\na1,p1,writes\na1,p2,writes\na2,p3,writes\np2,p1,cites\np3,p3,cites\np1,v1,in\n"


def table_of(
    tmp_path, nodes=NODES, edges=EDGES, *, source=None, model_types=None, strict=False, need_targets=True, **columns
):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    given = {
        "node_column": AUTO,
        "node_type_column": "kind",
        "target_columns": ("label",),
        "task_type": AUTO,
        **columns,
    }
    places = {"edges": str(tmp_path / "edges.csv"), "edge_type_column": "how", **(source or {})}
    paths = [str(tmp_path / "nodes.csv")]
    return read_nodes(
        paths,
        Columns(**given),
        GraphSource(**places),
        strict=strict,
        need_targets=need_targets,
        model_types=model_types,
    )


def edges_of(table):
    """Every edge as (sender, relation, receiver), by their names."""
    types = table.types
    rows = zip(table.edges.senders.tolist(), types.of_edge.tolist(), table.edges.receivers.tolist(), strict=True)
    return [(table.names[i], types.names.relations[r][1], table.names[j]) for i, r, j in rows]


def test_a_graph_by_hand(tmp_path):
    table = table_of(tmp_path)
    types = table.types
    assert types.names.nodes == ("author", "paper", "venue")
    assert types.of_node.tolist() == [0, 0, 1, 1, 1, 2]
    assert table.rows.columns.descriptors_columns == ("age", "year", "pages")
    # A venue has no column of its own: it gets how many edges come and go, behind the columns of the file.
    assert types.names.features == ((0,), (1, 2), (3, 4))
    assert table.features.to_dense().tolist() == [
        [40, 0, 0, 0, 0], [50, 0, 0, 0, 0], [0, 1999, 10, 0, 0], [0, 2001, 12, 0, 0], [0, 2003, 9, 0, 0],
        [0, 0, 0, 1, 1],
    ]  # fmt: skip
    assert types.names.relations == (
        ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "in", "venue"),
        ("paper", "rev_cites", "paper"), ("paper", "rev_writes", "author"), ("venue", "rev_in", "paper"),
    )  # fmt: skip
    assert edges_of(table)[:6] == [tuple(line.split(",")[place] for place in (0, 2, 1)) for line in EDGES.split()[1:]]
    assert edges_of(table)[6:] == [
        ("p1", "rev_writes", "a1"), ("p2", "rev_writes", "a1"), ("p3", "rev_writes", "a2"), ("p1", "rev_cites", "p2"),
        ("v1", "rev_in", "p1"),
    ], "the loop of p3 is its own other way"  # fmt: skip
    assert table.edges.num_mirrored == 5
    assert table.rows.rejected == [], "an empty cell is no fault where a kind has no such feature"
    assert table.rows.trainable.tolist() == [False, False, True, True, False, False]


def test_a_relation_that_stands_there_both_ways_is_left_alone(tmp_path):
    edges = EDGES.replace("p3,p3,cites", "p1,p2,cites")
    table = table_of(tmp_path, edges=edges)
    assert [name for _, name, _ in table.types.names.relations if "cites" in name] == ["cites"]
    # A model that learned it as one relation sees to it that it stays one.
    known = table.types.names
    again = table_of(tmp_path, edges=EDGES, model_types=known, need_targets=False)
    assert ("p1", "cites", "p2") in edges_of(again)[6:]
    # And one that learned two makes two, even of edges that happen to stand there both ways.
    known = table_of(tmp_path).types.names
    again = table_of(tmp_path, edges=edges, model_types=known, need_targets=False)
    assert {("p1", "rev_cites", "p2"), ("p2", "rev_cites", "p1")} <= set(edges_of(again))


def test_one_way(tmp_path):
    table = table_of(tmp_path, source={"directed": True})
    assert (len(table.edges), table.edges.num_mirrored) == (6, 0)
    assert [name for _, name, _ in table.types.names.relations] == ["writes", "cites", "in"]
    taken = EDGES + "p1,a1,rev_writes\n"
    assert len(table_of(tmp_path, edges=taken, source={"directed": True}).types.names.relations) == 4
    with pytest.raises(
        DataError, match=r"edges.csv, line 8, column 'how': 'rev_writes' is the name of the reverse of 'writes'"
    ):
        table_of(tmp_path, edges=taken)
    known = table_of(tmp_path).types.names
    with pytest.raises(DataError, match=r"line 2, column 'how': 'rev_writes' is the name of the reverse of 'writes'"):
        table_of(tmp_path, edges="from,to,how\np1,a1,rev_writes\n", model_types=known, need_targets=False)


def test_unnamed_edges_are_distinguished_by_the_types_they_join(tmp_path):
    table = table_of(tmp_path, source={"edge_type_column": None})
    assert table.types.names.relations == (
        ("author", "", "paper"), ("paper", "", "author"), ("paper", "", "paper"), ("paper", "", "venue"),
        ("venue", "", "paper"),
    )  # fmt: skip
    assert table.edges.num_mirrored == 5
    known = table.types.names
    with pytest.raises(
        DataError, match=r"the edge from 'a1' to 'a2' is of the type 'author to author', but the model knows autho"
    ):
        table_of(
            tmp_path, edges="f,t\na1,a2\n", source={"edge_type_column": None}, model_types=known, need_targets=False
        )


def test_names_of_edges_alone(tmp_path):
    nodes = "id,a,label\nx,1,red\ny,2,blue\nz,3,red\n"
    table = table_of(tmp_path, nodes, "f,t,how\nx,y,likes\ny,z,hates\n", node_type_column=None)
    assert table.types.names.nodes == ("node",)
    assert [name for _, name, _ in table.types.names.relations] == ["hates", "likes", "rev_hates", "rev_likes"]
    assert table.types.names.features == ((0,),)


def test_one_edge_between_two_in_two_relations_is_two_edges(tmp_path):
    table = table_of(tmp_path, edges=EDGES + "p2,p1,mocks\n", source={"directed": True})
    assert edges_of(table)[-1] == ("p2", "mocks", "p1")
    assert len(table.edges) == 7


def test_what_is_missing_in_some_of_a_kind_is_listed(tmp_path):
    table = table_of(tmp_path, NODES.replace("2001,12", ",12"), EDGES + "p1,p2,\np1,p2,nan\n")
    assert [(each.line, each.column, each.reason) for each in table.rows.rejected] == [
        (5, "year", "empty cell, expected a number"),
        (8, "how", "the edge lacks a type"),
        (9, "how", "the edge lacks a type"),
    ]
    assert table.rows.usable.tolist() == [True, True, True, False, True, True]
    with pytest.raises(DataError, match=r"line 5\), column 'year'"):
        table_of(tmp_path, NODES.replace("2001,12", ",12"), strict=True)


def test_a_model_holds_a_new_graph_against_what_it_knows(tmp_path):
    known = dataclasses.replace(table_of(tmp_path).types.names, predicted=("paper",))
    columns = {"model_types": known, "need_targets": False, "target_columns": ()}
    columns["descriptors_columns"] = ("age", "year", "pages")
    nodes = "id,kind,age,year,pages\np9,paper,,1990,5\np8,paper,7,1990,5\nv,venue,,,\n"
    table = table_of(tmp_path, nodes, "from,to,how\np9,p8,cites\n", **columns)
    assert table.types.names == known
    assert table.types.of_node.tolist() == [1, 1, 2]
    assert table.rows.status == [
        "ok",
        "age: no node of this type had a value here in training",
        "no venue had a target in training",
    ]
    assert table.features.to_dense()[2].tolist() == [0, 0, 0, 0, 0]
    for changed, edges, message in [
        (nodes.replace("v,venue", "v,journal"), "from,to,how\np9,p8,cites\n",
         r"nodes.csv, line 4, column 'kind': the model does not know the node type 'journal'; it knows author"),
        (nodes, "from,to,how\np9,p8,cites\np8,p9,mocks\n",
         r"edges.csv, line 3, column 'how': the edge from 'p8' to 'p9' is of the type 'paper mocks paper', but the"),
        (nodes, "from,to,how\np9,v,cites\n", r"edges.csv, line 2, column 'how': .* is of the type 'paper cites venue'"),
    ]:  # fmt: skip
        with pytest.raises(DataError, match=message):
            table_of(tmp_path, changed, edges, **columns)
    with pytest.raises(DataError, match=r"its nodes lack types, .* author, paper, venue; name the column"):
        table_of(tmp_path, nodes, "from,to,how\np9,p8,cites\n", node_type_column=None, **columns)
    with pytest.raises(DataError, match=r"its edges lack types, .* knows author writes paper, paper cites"):
        table_of(tmp_path, nodes, "from,to\np9,p8\n", source={"edge_type_column": None}, **columns)


def test_names_are_kept_as_they_are(tmp_path):
    names = dataclasses.replace(table_of(tmp_path).types.names, predicted=("paper",))
    assert read_value(TypeNames, json.loads(json.dumps(to_document(names))), "") == names


@pytest.mark.parametrize(
    ("nodes", "edges", "more", "message"),
    [
        (
            NODES.replace("a2,author", "a2, "),
            EDGES,
            {},
            "nodes.csv, line 3, column 'kind': the node lacks a type; where",
        ),
        (NODES, EDGES, {"node_type_column": "sort"}, "no column 'sort'"),
        (NODES, EDGES, {"source": {"edge_type_column": "sort"}}, "no column 'sort'"),
        (NODES, EDGES + "p1,p2,\n", {"strict": True}, "edges.csv, line 8, column 'how': the edge lacks a type; fix"),
        (NODES, "from,to,how\na1,p1,\n", {}, "none of the rows is an edge"),
    ],
)
def test_what_is_refused(tmp_path, nodes, edges, more, message):
    with pytest.raises(DataError, match=message):
        table_of(tmp_path, nodes, edges, **more)


def test_a_column_has_one_role():
    with pytest.raises(SettingError, match="named in --target-columns and in --node-type-column"):
        Columns(node_column="id", node_type_column="kind", target_columns=("kind",))


GRAPH = {
    "x": np.array([[1.0, np.nan], [2, np.nan], [np.nan, 4]]),
    "edge_index": np.array([[0, 1], [1, 2]]),
    "y": np.array([0, 1, 1]),
    "node_type": np.array([0, 0, 1]),
    "edge_type": np.array(["knows", "owns"]),
}


def graph_of(tmp_path, arrays, *, with_types=True, model_types=None, columns=None, **source):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    columns = columns or Columns(node_column=AUTO, task_type=AUTO)
    return read_nodes([str(path)], columns, GraphSource(**source), with_types=with_types, model_types=model_types)


def test_types_in_one_file(tmp_path):
    table = graph_of(tmp_path, GRAPH)
    assert table.types.names.nodes == ("0", "1")
    assert table.types.names.features == ((0,), (1,))
    assert table.features.to_dense().tolist() == [[1, 0], [2, 0], [0, 4]]
    assert [name for _, name, _ in table.types.names.relations] == ["knows", "owns", "rev_knows", "rev_owns"]
    # 0 and 10 are two relations, and one type of nodes is enough.
    numbers = {**GRAPH, "x": np.eye(3), "edge_type": np.array([0, 10])}
    del numbers["node_type"]
    table = graph_of(tmp_path, numbers, directed=True)
    assert table.types.names.relations == (("node", "0", "node"), ("node", "10", "node"))
    plain = {**GRAPH, "x": np.eye(3)}
    assert graph_of(tmp_path, plain, with_types=False).types is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_type": np.array([0, 1])}, r"node_type is \(2,\), but x has 3 nodes"),
        ({"node_type": np.array([0.5, 1, 1])}, r"node_type is float64 \(3,\), expected words or whole numbers"),
        ({"node_type": np.zeros((3, 1), int)}, r"node_type is int64 \(3, 1\)"),
        ({"node_type": np.array(["a", "", "b"])}, r"node_type\[1\]: the node lacks a type"),
        ({"edge_type": np.array([0])}, "edge_type has 1 row, but there are 2 edges"),
        (
            {"node_type": np.array([0, 0, 0])},
            r"x\[0, 1\] is NaN, but nodes of its type \(0\) have a number in this column",
        ),
        ({"node_type": None}, r"x\[0, 1\] is not a finite number"),
        ({"x": np.array([[1.0, np.inf], [1, 1], [1, 1]])}, r"x\[0, 1\] is not a finite number"),
    ],
)
def test_files_that_are_refused(tmp_path, change, message):
    arrays = {name: array for name, array in {**GRAPH, **change}.items() if array is not None}
    with pytest.raises(DataError, match=message):
        graph_of(tmp_path, arrays)


def test_files_need_no_columns(tmp_path):
    with pytest.raises(SettingError, match="leave out --node-type-column and --edge-type-column"):
        graph_of(tmp_path, GRAPH, edge_type_column="how")
    with pytest.raises(SettingError, match="leave out --node-type-column and --edge-type-column"):
        graph_of(tmp_path, GRAPH, columns=Columns(node_column=AUTO, node_type_column="kind"))


def test_features_in_a_file_of_their_own(tmp_path):
    x = np.array([[40, np.nan], [50, np.nan], [np.nan, 1], [np.nan, 2], [np.nan, 3], [np.nan, np.nan]])
    np.savez(tmp_path / "features.npz", x=x)
    table = table_of(tmp_path, source={"features": str(tmp_path / "features.npz")})
    assert table.types.names.features == ((0,), (1,), (2, 3))
    np.savez(tmp_path / "features.npz", x=np.where(np.arange(6)[:, None] == 3, np.nan, x))
    with pytest.raises(DataError, match=r"features.npz: x\[3, 1\] is NaN, but nodes of its type \(paper\)"):
        table_of(tmp_path, source={"features": str(tmp_path / "features.npz")})


def test_a_type_that_is_a_whole_number_has_a_point_or_not(tmp_path):
    """A model that learned from 1 refused the nodes and edges of a table with 1.0."""

    def read(point, **options):
        nodes = f"id,kind,age,label\na,1{point},40,\nb,1{point},50,\np,2{point},3,red\nq,2{point},4,blue\nr,2,5,red\n"
        return table_of(tmp_path, nodes, f"from,to,how\na,p,7{point}\nb,q,7\np,q,8{point}\n", **options)

    learned = read(".0")
    assert learned.types.names.nodes == ("1", "2")
    assert {name for _, name, _ in learned.types.names.relations} == {"7", "8", "rev_7", "rev_8"}
    for point in ("", ".0"):
        table = read(point, model_types=learned.types.names, need_targets=False)
        assert table.types.of_node.tolist() == learned.types.of_node.tolist() == [0, 0, 1, 1, 1]
        assert edges_of(table) == edges_of(learned)

    # A model of an earlier version may know a type with a point.
    relations = tuple((f"{i}.0", name.replace("7", "7.0"), f"{j}.0") for i, name, j in learned.types.names.relations)
    earlier = dataclasses.replace(learned.types.names, nodes=("1.0", "2.0"), relations=relations)
    table = read("", model_types=earlier, need_targets=False)
    assert table.types.of_node.tolist() == [0, 0, 1, 1, 1]
    assert [name for _, name, _ in edges_of(table)[:3]] == ["7.0", "7.0", "8"]


@pytest.mark.parametrize("empty", ["", "nan"])
def test_a_type_whose_words_are_all_missing_lacks_the_column(tmp_path, empty):
    """Each node of such a type was rejected where the cells are `nan`."""
    nodes = f"id,kind,topic,label\np,paper,a,u\nq,paper,b,v\nr,paper,{empty},u\ns,author,{empty},\nt,author,{empty},\n"
    (tmp_path / "n.csv").write_text(nodes)
    (tmp_path / "e.csv").write_text("from,to\ns,p\nt,q\n")
    columns = Columns(
        node_column="id",
        node_type_column="kind",
        category_columns=("topic",),
        target_columns=("label",),
        task_type=AUTO,
    )
    table = read_nodes([str(tmp_path / "n.csv")], columns, GraphSource(edges=str(tmp_path / "e.csv")))
    assert table.categories == {"topic": ["a", "b"]}
    assert [status == "ok" for status in table.rows.status] == [True, True, False, True, True]
    assert table.rows.status[2] == "topic: the cell is empty"


def test_a_model_says_which_columns_a_type_has(tmp_path):
    """Here the whole type lacks the column, so that no other nodes have a number there."""
    names, x = graph_of(tmp_path, GRAPH).types.names, np.full((3, 2), np.nan)
    with pytest.raises(DataError, match=r"x\[0, 0\] is NaN, but nodes of its type \(0\) have a number in this column"):
        graph_of(tmp_path, {**GRAPH, "x": x}, model_types=names)


def test_arrays():
    edges = EdgeList(np.array([0, 0]), np.array([1, 1]), np.zeros((2, 0), dtype=np.float32))
    named = RowLabels.of_array("node_types", ["a", "b"])
    both = dataclasses.replace(edges, types=RowLabels.of_array("edge_types", [1, 2]))
    table = nodes_from_arrays(NodeFeatures.of(np.eye(2)), both, [1, 2], types=named)
    assert table.types.names.relations == (("a", "1", "b"), ("a", "2", "b"))
    assert len(table.edges) == 2, "edges are taken as they are"
    with pytest.raises(DataError, match="2 node types were given, but there are 3"):
        nodes_from_arrays(NodeFeatures.of(np.eye(3)), both, [1, 2, 3], types=named)


def test_features_are_scaled_kind_by_kind():
    values = np.array([[1.0, 0, 5], [3, 0, 7], [0, 100, 0], [0, 300, 0], [0, 500, 0]])
    of_node, columns = np.array([0, 0, 1, 1, 1]), ((0, 2), (1,))
    scaler = TypeScaler.fit(values, of_node, columns)
    assert scaler.num_features == (2, 1)
    found = scaler.transform(values, of_node, columns)
    step = np.sqrt(1.5)
    np.testing.assert_allclose(found, [[-1, -1], [1, 1], [-step, 0], [0, 0], [step, 0]], atol=1e-12)
    assert read_value(TypeScaler, json.loads(json.dumps(to_document(scaler))), "") == scaler
    # Rows of other types change nothing.
    assert TypeScaler.fit(values * [1, 9, 1], of_node, columns).scalers[0] == scaler.scalers[0]


def test_features_side_by_side_and_one_behind_another():
    values = np.array([[1.0, 0, 5], [0, 100, 0], [3, 0, 0]])
    of_node, columns = np.array([0, 1, 0]), ((0, 2), (1,))
    packed = left_aligned(NodeFeatures.of(values), of_node, columns)
    assert packed.to_dense().tolist() == [[1, 5], [100, 0], [3, 0]]
    assert in_own_columns(packed, of_node, columns).to_dense().tolist() == [[1, 5, 0], [0, 0, 100], [3, 0, 0]]
