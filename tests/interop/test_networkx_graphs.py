"""networkx and GraphML: there and back exactly, and graphs that others made."""

import re

import networkx as nx
import numpy as np
import pytest
import torch
from graph_pairs import check_same, graphs
from hypothesis import given

from edgewise import DataError, Edges, Graph, NodeClassifier, NodeRegressor, SettingError, ShapeError, WeightedGraph
from edgewise.interop.graphml import read_graphml, write_graphml
from edgewise.interop.networkx import fit_arguments, from_networkx, to_networkx
from edgewise.interop.scipy import to_scipy
from edgewise.neighborhood import Types


def edges_of(pairs, size):
    senders, receivers = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return Edges(senders, receivers, size, size)


def pairs_of(graph):
    return list(zip(graph.edges.senders.tolist(), graph.edges.receivers.tolist()))


@given(make=graphs())
def test_there_and_back(make):
    graph = make()
    check_same(graph, from_networkx(to_networkx(graph), dtype=graph.edge_features.dtype))


@given(make=graphs())
def test_to_a_file_and_back(make, tmp_path_factory):
    graph = make()
    path = tmp_path_factory.mktemp("graph") / "graph.graphml"
    write_graphml(graph, path)
    check_same(graph, read_graphml(path, dtype=graph.edge_features.dtype))


def test_by_hand():
    weights = torch.tensor([[0.25, 1.0], [0.5, 2.0], [0.75, 3.0]])
    graph = WeightedGraph(edges_of([(2, 0), (0, 1), (2, 0)], 4), weights, torch.eye(4)[:, :1], ("a", "b", "c", "d"))
    found = to_networkx(graph)
    assert isinstance(found, nx.MultiDiGraph)
    assert list(found.nodes(data=True)) == [("a", {"feature": 1.0}), *((name, {"feature": 0.0}) for name in "bcd")]
    assert sorted(found.edges(keys=True)) == [("a", "b", 1), ("c", "a", 0), ("c", "a", 2)]
    assert found["c"]["a"][2] == {"weight_0": 0.75, "weight_1": 3.0}
    assert list(found.predecessors("a")) == ["c"], "information flows from sender to receiver"


def test_the_algorithms_of_networkx_read_the_weights():
    graph = WeightedGraph(edges_of([(0, 1), (1, 2), (0, 2)], 3), torch.tensor([[1.0], [1.0], [5.0]]))
    assert nx.shortest_path(to_networkx(graph), 0, 2, weight="weight") == [0, 1, 2]
    theirs = nx.to_scipy_sparse_array(to_networkx(graph)).toarray()
    np.testing.assert_array_equal(theirs, to_scipy(graph).T.toarray())


def test_edges_alone():
    found = to_networkx(edges_of([(0, 1), (0, 1)], 3))
    assert (list(found.edges(data=True)), list(found)) == ([(0, 1, {}), (0, 1, {})], [0, 1, 2])
    back = from_networkx(found)
    assert (back.names, back.node_features, back.edge_features) == (None, None, None)


def test_no_edges_and_no_nodes():
    for size in (0, 3):
        back = from_networkx(to_networkx(edges_of([], size)))
        assert (back.edges.num_edges, back.edges.num_senders) == (0, size)
    three = from_networkx(nx.empty_graph(2), edge_attributes=["weight_0", "weight_1"])
    assert three.edge_features.shape == (0, 2)


def test_an_undirected_graph_goes_both_ways_and_a_loop_once():
    path = nx.Graph([("a", "b"), ("c", "c"), ("b", "c")])
    nx.set_edge_attributes(path, {("a", "b"): 1.0, ("c", "c"): 2.0, ("b", "c"): 3.0}, "weight")
    found = from_networkx(path)
    assert found.names == ("a", "b", "c")
    assert pairs_of(found) == [(0, 1), (1, 2), (2, 2), (1, 0), (2, 1)]
    assert found.edge_features.flatten().tolist() == [1, 3, 2, 1, 3]
    double = nx.MultiGraph([(0, 1), (0, 1)])
    assert pairs_of(from_networkx(double)) == [(0, 1), (0, 1), (1, 0), (1, 0)]


def test_the_order_of_nodes_is_that_of_the_graph_and_parallel_edges_stay():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from([2, 0, 1])
    graph.add_edges_from([(0, 1), (2, 1), (0, 1)])
    found = from_networkx(graph)
    assert found.names == (2, 0, 1)
    assert pairs_of(found) == [(0, 2), (1, 2), (1, 2)]


def test_attributes_by_name():
    graph = nx.DiGraph([(0, 1), (1, 2)])
    nx.set_edge_attributes(graph, {(0, 1): [1, 2], (1, 2): np.array([3, 4])}, "both")
    nx.set_edge_attributes(graph, {(0, 1): True, (1, 2): np.float32(0.5)}, "one")
    nx.set_node_attributes(graph, {0: torch.tensor([1.0, 2.0]), 1: (3, 4), 2: [5, 6]}, "place")
    found = from_networkx(graph, edge_attributes=["one", "both"], node_attributes=["place"], dtype=torch.float64)
    assert found.edge_features.tolist() == [[1, 1, 2], [0.5, 3, 4]]
    assert found.node_features.tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.warns(UserWarning, match="are not read"):
        assert from_networkx(graph).edge_features is None


def test_what_networkx_cannot_say_is_refused():
    with pytest.raises(ShapeError, match="to_networkx: there are 2 senders and 1 receiver, but it needs one"):
        to_networkx(Edges(torch.tensor([1]), torch.tensor([0]), 2, 1))
    half = nx.DiGraph([("a", "b"), ("b", "c")])
    half["a"]["b"]["weight"] = 1.0
    with pytest.raises(DataError, match="the edge 'b' → 'c' has no 'weight', but others have"):
        from_networkx(half)
    with pytest.raises(DataError, match="the edge 'a' → 'b' has no 'length'; attributes are weight"):
        from_networkx(half, edge_attributes=["length"])
    half["b"]["c"]["weight"] = "heavy"
    with pytest.raises(DataError, match="'weight' is 'heavy' at the edge 'b' → 'c'; expected a number"):
        from_networkx(half)
    half["b"]["c"]["weight"] = [1, 2]
    with pytest.raises(DataError, match="holds 2 numbers at the edge 'b' → 'c', but 1 at the edge 'a' → 'b'"):
        from_networkx(half)
    gap = nx.DiGraph([(0, 1, {"weight_0": 1, "weight_2": 1})])
    message = "weight_0, weight_2 exist, expected weight_0, weight_1; name those to read: edge_attributes=[…]"
    with pytest.raises(DataError, match=re.escape(message)):
        from_networkx(gap)
    assert from_networkx(gap, edge_attributes=["weight_2"]).edge_features.tolist() == [[1.0]]
    with pytest.raises(DataError, match="the node 0 has no 'age'"):
        from_networkx(nx.path_graph(2), node_attributes=["age"])


def test_graphml_of_others(tmp_path):
    undirected = nx.path_graph(["b", "a", "c"])
    undirected["a"]["c"]["weight"] = undirected["b"]["a"]["weight"] = 2
    nx.write_graphml(undirected, tmp_path / "path.graphml")
    found = read_graphml(tmp_path / "path.graphml")
    assert (found.names, pairs_of(found)) == (("b", "a", "c"), [(0, 1), (1, 2), (1, 0), (2, 1)])
    assert found.edge_features.tolist() == [[2.0]] * 4
    many = read_graphml(tmp_path / "path.graphml", edge_attributes=["weight", "weight"], dtype=torch.float64)
    assert many.edge_features.shape == (4, 2)


def test_names_in_graphml(tmp_path):
    path = tmp_path / "graph.graphml"
    edges = edges_of([(0, 1)], 3)
    names = ("a\nb\r\t", " <&\"'> ", "∀")
    write_graphml(WeightedGraph.unweighted(edges, names=names), path)
    assert read_graphml(path).names == names
    write_graphml(WeightedGraph.unweighted(edges, names=(3, 4.5, ("x", 1))), path)
    assert read_graphml(path).names == ("3", "4.5", "('x', 1)")
    for name in ("\x00", "a\x1b", "", "\ud800", "\ufffe"):
        with pytest.raises(DataError, match="cannot stand in XML"):
            write_graphml(WeightedGraph.unweighted(edges, names=("a", name, "b")), path)
    with pytest.raises(DataError, match="two nodes are called '1' as text"):
        write_graphml(WeightedGraph.unweighted(edges, names=(1, "1", 2)), path)
    with pytest.raises(ShapeError, match="write_graphml: there are 2 senders"):
        write_graphml(Edges(torch.tensor([1]), torch.tensor([0]), 2, 1), path)


NODE_TYPES = [None, Types(torch.tensor([0, 1, 0]), 2), Types(torch.tensor([0, 1, 0]), 2, (("a", 1), "b"))]


@pytest.mark.parametrize("node_types", NODE_TYPES, ids=["none", "numbers", "names"])
def test_types_that_are_tuples_there_and_back(node_types, tmp_path):
    """Of tuples only the word in the middle was written: two relations became one."""
    sides = (("a", 1), "b") if node_types is not None and node_types.names else ("a", "b")
    types = Types(torch.tensor([0, 1]), 2, ((sides[0], "to", sides[1]), (sides[1], "to", sides[0])))
    graph = Graph(None, edges_of([(0, 1), (1, 2)], 3), node_types=node_types, edge_types=types)
    path = tmp_path / "graph.graphml"
    write_graphml(graph, path)
    for found in (from_networkx(to_networkx(graph)), read_graphml(path)):
        assert found.edge_types.names == types.names
        assert found.edge_types.of_row.tolist() == [0, 1]
        if node_types is not None:
            assert found.node_types.names == node_types.names
            assert found.node_types.of_row.tolist() == [0, 1, 0]


@pytest.mark.parametrize("side", ["node", "edge"])
def test_types_that_xml_cannot_hold(side, tmp_path):
    for name in ("\x01", "", "a\rb"):
        types = {f"{side}_types": Types(torch.tensor([0, 1]), 2, (name, "c"))}
        graph = Graph(None, edges_of([(0, 1), (1, 0)], 2), **types)
        with pytest.raises(DataError, match=f"cannot stand in XML; name the {side} type otherwise"):
            write_graphml(graph, tmp_path / "graph.graphml")


def test_files_that_are_no_graphml(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_graphml(tmp_path / "missing.graphml")
    for content in ("", "<graphml", "<html></html>"):
        (tmp_path / "bad.graphml").write_text(content)
        with pytest.raises(DataError, match="is not GraphML of one graph"):
            read_graphml(tmp_path / "bad.graphml")


@pytest.fixture
def club():
    """Two teams whose members know each other; of some the team is not known."""
    graph = nx.relabel_nodes(nx.disjoint_union(nx.complete_graph(8), nx.complete_graph(8)), lambda node: f"n{node}")
    for place, own in enumerate(graph.nodes.values()):
        own |= {"age": float(place // 8), "spot": [place % 3, 1], "part": ("train", "train", "val", "test")[place % 4]}
        own |= {"team": ("red", "blue")[place // 8], "height": 1.5 + place // 8}
    del graph.nodes["n0"]["team"], graph.nodes["n4"]["part"]
    return graph


def test_a_classifier_learns_from_attributes(club):
    arguments = fit_arguments(club, features=["age", "spot"], target="team", part="part")
    assert arguments["X"].tolist()[9] == [1, 0, 1]
    hidden = [place for place, label in enumerate(arguments["y"]) if label is None]
    assert hidden == [0, 3, 4, 7, 11, 15], "no team, a test node, or in no part"
    assert np.flatnonzero(arguments["validation"]).tolist() == [2, 6, 10, 14]
    assert arguments["edges"].num_edges == 2 * club.number_of_edges()
    with pytest.warns(UserWarning, match="feature 2 has one value in all nodes: it counts as 1"):
        classifier = NodeClassifier(model="gcn", model_dim=8, epochs=60).fit(**arguments)
    assert classifier.classes_.tolist() == ["blue", "red"]
    predicted = classifier.predict(arguments["X"], arguments["edges"])
    assert predicted.tolist() == ["red"] * 8 + ["blue"] * 8


def test_a_regressor_learns_from_attributes(club):
    del club.nodes["n1"]["height"]
    nx.set_edge_attributes(club, 1.0, "trust")
    arguments = fit_arguments(club, features=["age"], target="height", edge_features=["trust"])
    assert arguments["validation"] is None
    assert arguments["edge_features"].shape == (2 * club.number_of_edges(), 1)
    regressor = NodeRegressor(model="attention", model_dim=8, num_heads=2, epochs=2).fit(**arguments)
    predicted = regressor.predict(arguments["X"], arguments["edges"], arguments["edge_features"])
    assert np.isfinite(predicted).all()


def test_what_cannot_be_learned_from(club):
    with pytest.raises(SettingError, match="features is empty"):
        fit_arguments(club, features=[], target="team")
    with pytest.raises(DataError, match="no node has the target 'color'"):
        fit_arguments(club, features=["age"], target="color")
    with pytest.raises(DataError, match="the node 'n0' has no 'hat'"):
        fit_arguments(club, features=["hat"], target="team")
    club.nodes["n5"]["part"] = "valid"
    with pytest.raises(DataError, match="the node 'n5' has the part 'valid'; expected one of train, val, test"):
        fit_arguments(club, features=["age"], target="team", part="part")
