"""Which columns of a table of edges are taken for the two nodes, by their names and then by their cells."""

import pytest

from cli_tables import write_csv
from edgewise.learn.progress import collected_remarks
from edgewise.learn.readers.graphs.edges import read_edges
from edgewise.learn.readers.graphs.ends import REMEDY, columns_of_ends, ends_of
from edgewise.learn.readers.graphs.names import NodeNames


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("edge_id,source,target", ("source", "target")),
        ("target,source", ("source", "target")),
        ("weight,To,From", ("From", "To")),
        ("edge,node2,node1", ("node2", "node1")),
        ("Unnamed: 0,srcId,dstId,x", ("srcId", "dstId")),
        ("name,sender_name,receiver_name", ("sender_name", "receiver_name")),
        ("a,b,start_time,end_time", ("a", "b")),
        ("child,parent", ("child", "parent")),
        ("one,other,from,to", ("from", "to")),
        ("отправитель,получатель,source", ("отправитель", "получатель")),
        ("bond_id,atom1,atom2", ("atom1", "atom2")),
        ("tx_id,from_account,to_account", ("from_account", "to_account")),
        ("interaction_id,protein_a,protein_b", ("protein_a", "protein_b")),
        ("transaction,amount,user_from,user_to", ("user_from", "user_to")),
        ("x1,y1,x2,y2", ("x1", "y1")),
    ],
)
def test_names_of_columns_say_which_are_the_ends(header, expected):
    with collected_remarks():
        assert ends_of("edges.csv", header.split(","), (), None) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"weight": [0.5, 1.5, 2.5], "ann": ["a", "b", "c"], "bob": ["b", "c", "a"]}, ("ann", "bob")),
        ({"id": ["b", "c", "a"], "neighbor": ["a", "b", "c"], "km": ["3", "4", "5"]}, ("id", "neighbor")),
        ({"id": ["b", "c", "a"], "one": ["a", "b", "c"], "other": ["b", "c", "a"]}, ("one", "other")),
        ({"one": ["a", "b", "c"], "other": ["x", "y", "c"], "km": ["3", "4", "5"]}, ("one", "other")),
        ({"from_date": ["3", "4", "5"], "to_date": ["4", "5", "6"], "one": [*"abc"], "two": [*"bca"]}, ("one", "two")),
        ({"node_1": ["1", "2", "3"], "node_2": ["2", "3", "4"], "one": [*"abc"], "two": [*"bca"]}, ("one", "two")),
    ],
)
def test_cells_say_it_where_names_do_not(tmp_path, columns, expected):
    path = write_csv(tmp_path / "edges.csv", columns)
    with collected_remarks():
        assert read_edges(str(path), NodeNames(["a", "b", "c"]), "nodes.csv").columns == expected


def test_a_guess_by_order_alone_is_said():
    with collected_remarks() as said:
        assert ends_of("edges.csv", ["one", "other", "km"], (), None) == ("one", "other")
    assert said == [
        "edges.csv: edges go from column 'one' to 'other', as their order says. If others name the nodes, call them "
        "source and target, or train with --edge-columns."
    ]
    with collected_remarks() as said:
        ends_of("edges.csv", ["one", "other"], (), None)
        ends_of("edges.csv", ["from", "to", "km"], (), None)
    assert said == []


def test_a_pair_of_names_without_a_direction_goes_by_the_order_of_columns():
    with collected_remarks() as said:
        assert ends_of("edges.csv", ["km", "node2", "node1"], (), None) == ("node2", "node1")
    assert said == [f"edges.csv: edges go from column 'node2' to 'node1', as their names and order say. {REMEDY}"]


def test_ends_of_the_training_are_taken_where_they_are_there():
    with collected_remarks() as said:
        for columns in (["v", "u"], ["source", "target", "u", "v"]):
            ends = columns_of_ends("edges.csv", columns, (), None, ("u", "v"), are_of_training=True)
            assert ends == ("u", "v")
        assert columns_of_ends("edges.csv", ["a", "b"], (), None, ("u", "v"), are_of_training=False) == ("u", "v")
    assert said == []
    with collected_remarks() as said:
        ends = columns_of_ends("edges.csv", ["from", "to"], (), None, ("u", "v"), are_of_training=True)
    assert ends == ("from", "to")
    assert said == [
        "edges.csv: edges go from column 'from' to 'to', as their names say. In the training they went from 'u' to "
        "'v': name the columns alike."
    ]


def test_the_guess_is_said_where_others_could_be_meant(tmp_path):
    nodes = NodeNames([str(node) for node in range(9)])
    ring = {"source": list(range(9)), "target": [*range(1, 9), 0]}
    numbered = write_csv(tmp_path / "numbered.csv", {"edge_id": list(range(9)), **ring})
    with collected_remarks() as said:
        edges = read_edges(str(numbered), nodes, "nodes.csv")
    assert edges.receivers.tolist() == ring["target"]
    assert said == [f"{numbered}: edges go from column 'source' to 'target', as their names say. {REMEDY}"]
    with collected_remarks() as said:
        named = read_edges(str(numbered), nodes, "nodes.csv", edge_columns=("edge_id", "target"))
        assert named.columns == ("edge_id", "target")
        read_edges(str(write_csv(tmp_path / "plain.csv", {**ring, "km": [0.5] * 9})), nodes, "nodes.csv")
    assert said == []
    with collected_remarks() as said:
        three = write_csv(tmp_path / "three.csv", {"n": range(9), "v": ring["source"], "w": ring["target"]})
        read_edges(str(three), nodes, "nodes.csv")
    assert said[0].endswith(f"from column 'n' to 'v', as their cells say. {REMEDY}")
    renamed = write_csv(tmp_path / "renamed.csv", {"n": range(9), "source": ring["source"], "target": ring["target"]})
    with collected_remarks():  # the remedy is one
        assert read_edges(str(renamed), nodes, "nodes.csv").columns == ("source", "target")
