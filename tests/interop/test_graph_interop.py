"""Graphs to and from PyTorch Geometric, SciPy and tables, exactly; the record that all converters work on."""

import re
import sys
from importlib import import_module

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from graph_pairs import check_same, graphs
from hypothesis import given
from torch_geometric.data import Batch, Data, HeteroData

from edgewise import (
    DataError,
    Edges,
    MissingExtraError,
    NodeClassifier,
    SettingError,
    ShapeError,
    Trace,
    WeightedGraph,
    Weights,
    attention_weights,
)
from edgewise.explain.rollout import rollout
from edgewise.graph import Graph
from edgewise.graph.forms import library_of
from edgewise.interop.graphml import write_graphml
from edgewise.interop.networkx import from_networkx, to_networkx
from edgewise.interop.pandas import to_pandas
from edgewise.interop.pyg import fit_arguments, from_pyg, to_pyg
from edgewise.interop.scipy import from_scipy, to_scipy
from edgewise.interop.table import from_table, to_table
from edgewise.layers import MultiHeadAttention
from edgewise.neighborhood import Types

HALVES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
HUGE = 2**33


class OwnGraph(networkx.DiGraph):
    """A class of a user's own."""


@pytest.mark.parametrize(
    ("graph", "library"),
    [
        (Data(), "pyg"),
        (HeteroData(), "pyg"),
        (Batch.from_data_list([Data(x=torch.zeros(1, 1))]), "pyg"),
        (networkx.MultiDiGraph(), "networkx"),
        (OwnGraph(), "networkx"),
        (scipy.sparse.coo_array((2, 2)), "scipy"),
        (scipy.sparse.csr_matrix((2, 2)), "scipy"),
        (pd.DataFrame(), "pandas"),
        (np.zeros((2, 3)), None),
        ([Data()], None),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_library_of_a_graph_follows_from_its_class(graph, library):
    assert library_of(graph) == library


def test_a_library_that_is_not_imported_has_no_graphs(monkeypatch):
    monkeypatch.delitem(sys.modules, "networkx")
    assert library_of(networkx.DiGraph()) is None


def edges_of(pairs, num_senders, num_receivers=None):
    senders, receivers = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return Edges(senders, receivers, num_senders, num_senders if num_receivers is None else num_receivers)


# The record


def test_weights_there_and_back():
    weights = attention_weights(torch.randn(2, 5, 4), torch.randn(2, 6, 4))
    back = weights.to_graph().to_weights()
    assert torch.equal(back.values, weights.values)
    assert torch.equal(back.to_dense(), weights.to_dense())
    strongest = attention_weights(torch.randn(2, 5, 4), torch.randn(2, 6, 4), top=2)
    assert torch.equal(strongest.to_graph().to_weights().to_dense(), strongest.to_dense())


def test_two_sets_of_nodes_joined():
    graph = WeightedGraph(edges_of([(0, 0), (2, 1)], 3, 2), torch.tensor([[0.5], [1.0]]))
    assert graph.is_bipartite
    joined = graph.joined()
    assert (joined.edges.senders.tolist(), joined.edges.receivers.tolist()) == ([0, 2], [3, 4])
    assert (joined.edges.num_senders, joined.edges.num_receivers) == (5, 5)
    assert joined.edge_features is graph.edge_features
    assert to_networkx(joined).number_of_nodes() == 5


def test_a_graph_checks_what_it_is_given():
    edges = edges_of([(0, 1)], 3)
    cases = {
        "edge_features has 2 rows, expected 1.": {"edge_features": torch.zeros(2, 1)},
        "node_features has 2 rows, expected 3.": {"node_features": torch.zeros(2, 1)},
        "names has 1 row, expected 3.": {"names": ("a",)},
        "node 1 is named None; give it a name.": {"names": ("a", None, "b")},
        "nodes 0 and 2 are both named 'the', but names must be unique; number them": {"names": ("the", "cat", "the")},
    }
    for message, given_ in cases.items():
        with pytest.raises(ShapeError, match=re.escape(f"Graph: {message}")):
            WeightedGraph(**{"edges": edges, "edge_features": torch.zeros(1, 1), **given_})
    two = edges_of([(0, 1)], 3, 2)
    with pytest.raises(
        ShapeError, match=r"names needs one set of nodes, but there are 3 senders and 2 receivers; graph\."
    ):
        WeightedGraph.unweighted(two, names=["a", "b", "c"])
    with pytest.raises(ShapeError, match="joined: senders and receivers are already one set of nodes"):
        WeightedGraph.unweighted(edges, names=["a", "b", "c"]).joined()


def test_a_model_s_attention_in_every_dialect():
    trace, layer = Trace(), MultiHeadAttention(8, 2)
    for _ in range(2):
        layer(torch.randn(4, 8), trace=trace)
    graph = rollout(trace).to_graph(names=["0 the", "1 cat", "2 the", "3 mat"])
    assert graph.edge_features.requires_grad, "converters take weights as they come out of a model"
    same = WeightedGraph(graph.edges, graph.edge_features.detach(), names=graph.names)
    check_same(same, from_networkx(to_networkx(graph)))
    check_same(same, from_pyg(to_pyg(graph)))
    check_same(same, from_table(to_table(graph), names=graph.names))
    check_same(same, from_scipy(to_scipy(graph)), nodes=False)


# PyTorch Geometric


@given(make=graphs(dtypes=HALVES))
def test_pyg_there_and_back(make):
    graph = make()
    check_same(graph, from_pyg(to_pyg(graph)))


def test_the_edges_of_a_pyg_batch_stand_graph_after_graph():
    batch = Graph(None, Edges(*torch.tensor([[2, 0, 3, 1], [3, 1, 2, 0]]), 4, 4), offsets=torch.tensor([0, 2, 4]))
    assert Graph.of(to_pyg(batch)).edges.senders.tolist() == [0, 1, 2, 3]


def test_pyg_by_hand():
    graph = WeightedGraph(edges_of([(2, 0), (2, 0)], 4), torch.tensor([[0.25, 1.0], [0.5, 2.0]]))
    data = to_pyg(graph)
    assert data.edge_index.tolist() == [[2, 2], [0, 0]], "sources are senders, targets are receivers"
    assert data.edge_attr.tolist() == [[0.25, 1.0], [0.5, 2.0]]
    assert (data.num_nodes, data.num_edges, "x" in data) == (4, 2, False)
    assert data.validate(raise_on_error=True)
    bare = to_pyg(edges_of([], HUGE))
    assert (bare.num_nodes, "edge_attr" in bare) == (HUGE, False)
    assert from_pyg(bare).edges.num_senders == HUGE


def test_pyg_of_others():
    index = torch.tensor([[0, 1], [1, 2]])
    whole = from_pyg(Data(x=torch.tensor([1, 2, 3]), edge_index=index, edge_weight=torch.tensor([0.5, 1.0])))
    assert whole.node_features.tolist() == [[1.0], [2.0], [3.0]]
    assert whole.edge_features.tolist() == [[0.5], [1.0]]
    held = Data(edge_index=index, edge_attr=torch.tensor([1, 0]), kind=torch.tensor([[7.0], [8.0]]), num_nodes=3)
    with pytest.warns(UserWarning, match="the attributes kind are not read"):
        kinds = from_pyg(held)
    assert kinds.edge_features.tolist() == [[1.0], [0.0]]
    chosen = Data(edge_index=index, kind=torch.tensor([[7.0], [8.0]]), num_nodes=3)
    assert from_pyg(chosen, edge_attribute="kind").edge_features.tolist() == [[7.0], [8.0]]
    batch = Batch.from_data_list([Data(x=torch.zeros(3, 1), edge_index=index)] * 2)
    assert from_pyg(batch).edges.receivers.tolist() == [1, 2, 4, 5]


def test_what_pyg_cannot_say_is_refused():
    index = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ShapeError, match="to_pyg: there are 2 senders and 1 receiver, but it needs one set of nodes"):
        to_pyg(edges_of([(1, 0)], 2, 1))
    cases = {
        "expected Data, HeteroData or a Batch of them, not dict": {},
        "the HeteroData has no nodes": HeteroData(),
        "the data has no edge_index, but x": Data(x=torch.zeros(2, 1)),
        "does not give the number of nodes": Data(edge_index=index),
        "edge_attr has 3 rows, expected 2": Data(edge_index=index, edge_attr=torch.zeros(3, 1), num_nodes=3),
        "x is (3, 1, 1) torch.strided; expected a dense tensor": Data(x=torch.zeros(3, 1, 1), edge_index=index),
        "node_names is not a list of 3 names": Data(edge_index=index, num_nodes=3, node_names="abc"),
    }
    for message, data in cases.items():
        with pytest.raises(DataError, match=re.escape(message)):
            from_pyg(data)
    several = HeteroData()
    several["a"].x = torch.zeros(3, 1)
    several["a", "to", "a"].edge_weight = torch.ones(2)
    with pytest.raises(DataError, match=re.escape("('a', 'to', 'a') has no edge_index, but edge_weight")):
        from_pyg(several)
    several["a", "to", "a"].edge_index = index
    several["a", "to", "b"].edge_index = index
    with pytest.raises(DataError, match=re.escape("('a', 'to', 'b') joins nodes of type 'b', of which nothing is")):
        from_pyg(several)
    both = Data(edge_index=index, edge_attr=torch.zeros(2, 1), edge_weight=torch.ones(2), num_nodes=3)
    with pytest.raises(SettingError, match="has edge_attr and edge_weight; choose one"):
        from_pyg(both)
    assert from_pyg(both, edge_attribute="edge_weight").edge_features.tolist() == [[1.0], [1.0]]
    with pytest.raises(DataError, match="the data has no 'kind', but"):
        from_pyg(both, edge_attribute="kind")
    with pytest.raises(ShapeError, match=re.escape("receivers must lie in 0 … 1; found 2")):
        from_pyg(Data(edge_index=index, num_nodes=2))


@pytest.fixture
def citations():
    """Two topics whose papers cite their like, with masks."""
    generator = torch.Generator().manual_seed(0)
    topic = torch.arange(40) % 2
    senders = torch.randint(0, 40, (150,), generator=generator)
    receivers = (senders + 2 * torch.randint(1, 20, (150,), generator=generator)) % 40
    place = torch.arange(40)
    return Data(
        x=torch.stack([topic + 0.1 * torch.randn(40, generator=generator), torch.ones(40)], 1),
        y=topic,
        edge_index=torch.stack([torch.cat([senders, receivers]), torch.cat([receivers, senders])]),
        train_mask=place < 20,
        val_mask=(place >= 20) & (place < 30),
        test_mask=place >= 32,
    )


@pytest.mark.filterwarnings("ignore:fit. feature 1 has one value in all nodes")
def test_a_classifier_learns_from_pyg(citations):
    arguments = fit_arguments(citations)
    assert arguments["y"].tolist() == [*citations.y[:30].tolist(), *[None] * 10], "labels of test nodes stay hidden"
    assert np.array_equal(arguments["validation"], citations.val_mask.numpy())
    assert arguments["edge_features"] is None
    NodeClassifier(model="gat", model_dim=4, num_heads=2, epochs=2).fit(**arguments)
    classifier = NodeClassifier(model="gcn", model_dim=8, epochs=60).fit(**arguments)
    assert classifier.score(citations.x, citations.y, citations.edge_index, nodes=citations.test_mask) == 1.0
    assert (citations.y >= 0).all(), "the data stays as it was"


def test_which_labels_are_learned_from(citations):
    citations.train_mask = None
    del citations.train_mask
    seen = citations.val_mask | ~(citations.val_mask | citations.test_mask)
    assert [label is not None for label in fit_arguments(citations)["y"]] == seen.tolist()
    del citations.val_mask
    arguments = fit_arguments(citations)
    assert arguments["validation"] is None
    assert [label is not None for label in arguments["y"]] == (~citations.test_mask).tolist()
    del citations.test_mask
    assert fit_arguments(citations)["y"].tolist() == citations.y.tolist()
    citations.y = citations.y.to(torch.uint8)[:, None]
    citations.train_mask = torch.arange(40) < 5
    assert fit_arguments(citations)["y"].tolist() == [0, 1, 0, 1, 0, *[None] * 35]
    citations.y = torch.rand(40, 2)
    hidden = fit_arguments(citations)["y"]
    assert np.isnan(hidden[5:]).all() and not np.isnan(hidden[:5]).any()
    citations.edge_attr = torch.rand(300)
    assert fit_arguments(citations)["edge_features"].shape == (300, 1)
    citations.train_mask = torch.stack([torch.arange(40) < 5, torch.arange(40) < 7], 1)
    assert (~np.isnan(fit_arguments(citations, split=1)["y"][:, 0])).sum() == 7
    with pytest.raises(DataError, match="train_mask holds 2 splits; choose one"):
        fit_arguments(citations)


def test_pyg_that_cannot_be_learned_from(citations):
    def broken(**changes):
        data = citations.clone()
        for name, value in changes.items():
            data[name] = value
            if value is None:
                del data[name]
        return data

    cases = {
        "the data has no x": broken(x=None, num_nodes=40),
        "the data has no y": broken(y=None),
        "y is (3,), but there are 40 nodes; one graph a Data": broken(y=torch.zeros(3)),
        "a node is in two masks": broken(test_mask=citations.val_mask),
        "val_mask is torch.int64 (40,), expected bool (40,)": broken(val_mask=citations.y),
    }
    for message, data in cases.items():
        with pytest.raises(DataError, match=re.escape(message)):
            fit_arguments(data)


# SciPy


@given(make=graphs())
def test_scipy_there_and_back(make):
    graph = make()
    matrices = [to_scipy(graph, feature=head) for head in range(graph.edge_features.shape[1])]
    check_same(graph, from_scipy(matrices), nodes=False)
    check_same(WeightedGraph(graph.edges, graph.edge_features[:, :1]), from_scipy(matrices[0]), nodes=False)


def test_scipy_by_hand():
    weights = Weights(torch.tensor([2, 2, 0]), torch.tensor([0, 0, 1]), torch.tensor([0.25, 0.5, 0.0]), 3, 2)
    matrix = to_scipy(weights.to_graph())
    assert (matrix.format, matrix.shape, matrix.nnz) == ("coo", (2, 3), 3), "parallel edges and zeros are entries"
    np.testing.assert_array_equal(matrix.toarray(), weights.to_dense().numpy())
    values = torch.tensor([1.0, 10.0, 100.0])
    np.testing.assert_allclose(matrix @ values.numpy(), (weights.to_dense() @ values).numpy())
    assert matrix.tocsr().sum_duplicates() is None
    assert to_scipy(edges_of([(0, 1), (0, 1)], 2)).toarray().tolist() == [[0, 0], [2, 0]]
    same = Edges.from_adjacency(to_scipy(edges_of([(0, 1), (2, 1)], 3)))
    assert (same.senders.tolist(), same.receivers.tolist()) == ([0, 2], [1, 1])


def test_scipy_of_others():
    table = np.array([[0, 2, 0], [0, 0, 3]])
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.lil_array):
        found = from_scipy(kind(table))
        assert (found.edges.receivers.tolist(), found.edges.senders.tolist()) == ([0, 1], [1, 2])
        assert (found.edges.num_receivers, found.edges.num_senders) == (2, 3)
        assert found.edge_features.tolist() == [[2.0], [3.0]]
        assert found.edge_features.dtype == torch.int64
    half = WeightedGraph(edges_of([(0, 1)], 2), torch.tensor([[0.1]], dtype=torch.bfloat16))
    assert from_scipy(to_scipy(half)).edge_features.item() == half.edge_features.item()
    far = WeightedGraph(edges_of([(HUGE - 1, 0), (0, HUGE - 1)], HUGE), torch.ones(2, 1))
    check_same(far, from_scipy(to_scipy(far)))
    empty = to_scipy(edges_of([], 3, 2))
    assert from_scipy(empty).edges.num_edges == 0


def test_what_scipy_cannot_say_is_refused():
    two = WeightedGraph(edges_of([(0, 1)], 2), torch.ones(1, 2))
    for feature in (None, 2, -1):
        with pytest.raises(SettingError, match=f"feature is {feature}, but edges have 2; a matrix holds one"):
            to_scipy(two, feature=feature)
    with pytest.raises(SettingError, match="feature is 0, but edges have 0"):
        to_scipy(edges_of([(0, 1)], 2), feature=0)
    with pytest.raises(DataError, match="the list of matrices is empty"):
        from_scipy([])
    with pytest.raises(DataError, match="expected a sparse matrix of SciPy with two axes, not ndarray"):
        from_scipy(np.eye(3))
    with pytest.raises(DataError, match="matrix 1 has other entries than matrix 0, or in another order"):
        from_scipy([scipy.sparse.eye_array(3), scipy.sparse.eye_array(3, k=1)])
    with pytest.raises(DataError, match="complex"):
        from_scipy(1j * scipy.sparse.eye_array(3))


# Every library

WRITERS = {
    "to_pyg": to_pyg, "to_networkx": to_networkx, "to_pandas": to_pandas, "to_scipy": to_scipy, "to_table": to_table,
    "write_graphml": lambda graph: write_graphml(graph, "graph.graphml"),
}  # fmt: skip


@pytest.mark.parametrize("verb", WRITERS)
def test_virtual_nodes_are_refused(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = Graph(torch.ones(2, 1), edges_of([(0, 2), (2, 1)], 3), num_virtual_nodes=1)
    with pytest.raises(ShapeError, match=f"{verb}: the graph has 1 virtual node, which other libraries do not know"):
        WRITERS[verb](graph)


@pytest.mark.parametrize("verb", ["to_pyg", "to_networkx", "to_pandas", "write_graphml"])
def test_position_encodings_that_are_not_written_are_named(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = Graph(torch.ones(2, 1), edges_of([(0, 1)], 2), position_encodings=torch.ones(2, 3))
    with pytest.warns(UserWarning, match=f"{verb}: position_encodings are not written") as caught:
        WRITERS[verb](graph)
    assert len(caught) == 1


# Tables


@given(make=graphs())
def test_tables_there_and_back(make):
    graph = make()
    plain = WeightedGraph(graph.edges, graph.edge_features, names=graph.names)
    size = {"names": graph.names} if graph.names else {"num_nodes": graph.edges.num_senders}
    check_same(plain, from_table(to_table(graph), **size))


def test_a_table_by_hand(tmp_path):
    weights = torch.tensor([[0.25, 1.0], [0.5, 2.0]])
    table = to_table(WeightedGraph(edges_of([(2, 0), (2, 1)], 4), weights, names=("a", "b", "c", "d")))
    assert table.columns.tolist() == ["sender", "receiver", "weight_0", "weight_1"]
    assert table.values.tolist() == [["c", "a", 0.25, 1.0], ["c", "b", 0.5, 2.0]]
    found = from_table(table)
    assert (found.names, found.edges.num_senders) == (("c", "a", "b"), 3), "as mentioned; d is not"
    table.to_csv(tmp_path / "edges.csv", index=False)
    again = from_table(pd.read_csv(tmp_path / "edges.csv"), names=["a", "b", "c", "d"])
    assert again.edges.senders.tolist() == [2, 2]
    assert again.edge_features.tolist() == weights.tolist()


def test_tables_of_others():
    table = pd.DataFrame({"from": [0, 0], "to": [4, 4], "km": [3, 4], "weight": [1.0, 2.0]})
    columns = {"sender_column": "from", "receiver_column": "to"}
    found = from_table(table, **columns, feature_columns=["km"])
    assert (found.edges.num_senders, found.edges.num_edges) == (5, 2)
    assert found.edge_features.tolist() == [[3.0], [4.0]]
    assert found.edge_features.dtype == torch.float64
    assert from_table(table, **columns).edge_features.tolist() == [[1.0], [2.0]]
    two = from_table(table, **columns, num_nodes=(1, 5))
    assert (two.edges.num_senders, two.edges.num_receivers) == (1, 5)
    check_same(two, from_table(to_table(two), num_nodes=(1, 5)))
    far = WeightedGraph(edges_of([(HUGE - 1, 0)], HUGE), torch.ones(1, 1))
    check_same(far, from_table(to_table(far)))
    for nothing in (to_table(edges_of([], 3)), pd.DataFrame({"sender": [], "receiver": []})):
        assert from_table(nothing, num_nodes=3).edges.num_senders == 3
        assert from_table(nothing).edges.num_senders == 0
        assert from_table(nothing, names=["a"]).names == ("a",)
    numbers = from_table(pd.DataFrame({"sender": [30, 10], "receiver": [10, 20]}), names=[10, 20, 30])
    assert numbers.edges.senders.tolist() == [2, 0]


def test_graphs_of_tables_have_numbers_or_names():
    def graph(column, graphs=None):
        nodes = pd.DataFrame({"graph": column, "x": [1.0, 2.0, 3.0]})
        return Graph.of((nodes, pd.DataFrame({"sender": [0], "receiver": [1]}), *([] if graphs is None else [graphs])))

    for column in (["b", "b", "a"], pd.Categorical(["b", "b", "a"]), [7.5, 7.5, 1.0], [0, 0, 1], [True, True, False]):
        assert graph(column).offsets.tolist() == [0, 2, 3]
    sizes = pd.DataFrame({"graph": ["c", "b", "a"], "size": [1.0, 2.0, 3.0]})
    for table in (sizes, sizes.set_index("graph")):
        named = graph(["b", "b", "a"], table)
        assert named.offsets.tolist() == [0, 0, 2, 3]
        assert named.graph_features.tolist() == [[1.0], [2.0], [3.0]]
    assert graph([0, 0, 2], sizes[["size"]]).offsets.tolist() == [0, 2, 2, 3]
    assert graph([20, 20, 30], sizes[["size"]].set_axis([10, 20, 30])).offsets.tolist() == [0, 0, 2, 3]
    assert graph([0, 0, 1], sizes[["size"]].set_axis([10, 20, 30])).offsets.tolist() == [0, 2, 3, 3], "numbers"

    for column, table, message in (
        (["b", None, "a"], None, "in row 1 of the nodes, which is not a graph"),
        ([0, 0, 10**12], None, "'graph' is 1000000000000 in row 2"),
        ([-1, 0, 0], None, "'graph' is -1 in row 0"),
        (["b", "b", "d"], sizes, "'graph' is 'd' in row 2"),
        (["b", "a", "b"], None, "goes back; sort the nodes"),
        (["b", "b", "a"], sizes.assign(graph="b"), "two rows of graphs have the same name"),
        (
            [0, 0, 2],
            sizes[["size"]].sort_values("size", ascending=False),
            "another order than the rows of graphs; sort",
        ),
        (["a", "a", "c"], sizes, "another order than the rows of graphs; sort"),
    ):
        with pytest.raises(DataError, match=message):
            graph(column, table)


def test_types_of_edges_keep_their_categories():
    graph = Graph(
        torch.ones(3, 2),
        Edges(*torch.tensor([[0, 1], [1, 2]]), 3, 3),
        edge_types=Types(torch.tensor([2, 0]), 3, ("u", "v", "w")),
    )
    types = Graph.of(tuple(to_pandas(graph))).edge_types
    assert (types.names, types.of_row.tolist()) == (("u", "v", "w"), [2, 0])
    nodes, edges = pd.DataFrame({"x": [1.0]}), pd.DataFrame({"sender": [0], "receiver": [0]})
    none = edges[:0].assign(type=pd.Categorical([]))
    assert Graph.of((nodes, none)).edge_types.num_types == 0
    typed = nodes.assign(type="a"), edges.assign(type=pd.Categorical(["u"], ["w", "u"]))
    assert Graph.of(typed).edge_types.names == (("a", "u", "a"),), "which types an unused one would join, no one knows"


@pytest.mark.parametrize("of_row", [[0, 1], [1, 1], []], ids=str)
def test_features_of_numbered_types_without_rows_come_back(of_row):
    """Those of the last type would be features of all others, and empty there."""
    types, size = Types(torch.tensor(of_row, dtype=torch.int64), 3), len(of_row)
    parts = tuple(torch.ones(of_row.count(number), 1 + number, dtype=torch.int64) for number in range(3))
    edges = Edges(torch.arange(size), torch.arange(size), size, size)
    graph = Graph(parts, edges, parts, node_types=types, edge_types=types)
    back = Graph.of(tuple(to_pandas(graph)))
    assert back.node_types.num_types == back.edge_types.num_types == 3
    for features in (back.node_features, back.edge_features):
        assert all(torch.equal(part, other) for part, other in zip(parts, features, strict=True))


def test_columns_of_one_type_go_by_their_numbers():
    nodes = pd.DataFrame({"type": ["a", "b"], "b.feature": [np.nan, 3.0], "a.feature_1": [2.0, np.nan]})
    nodes["a.feature_0"] = [1.0, np.nan]
    features = Graph.of((nodes, pd.DataFrame({"sender": [0], "receiver": [1]}))).node_features
    assert [part.tolist() for part in features] == [[[1.0, 2.0]], [[3.0]]]


def test_coordinates_have_numbers_and_go_by_them():
    nodes = pd.DataFrame({"position_rank": [5.0, 6.0], "position_1": [3.0, 4.0], "position_0": [1.0, 2.0]})
    graph = Graph.of((nodes, pd.DataFrame({"sender": [0], "receiver": [1]})))
    assert graph.coordinates.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert graph.node_features.tolist() == [[5.0], [6.0]]


def test_edges_of_a_batch_need_its_nodes():
    edges = pd.DataFrame({"graph": [0, 0, 1], "sender": ["a", "b", "a"], "receiver": ["b", "c", "c"]})
    with pytest.raises(DataError, match="a batch needs its nodes, too"):
        Graph.of(edges)
    assert Graph.of(edges, feature_columns=["graph"]).edge_features.tolist() == [[0.0], [0.0], [1.0]]
    nodes = pd.DataFrame({"graph": [0, 0, 0, 1, 1], "name": ["a", "b", "c", "a", "c"]})
    assert Graph.of((nodes, edges)).edges.senders.tolist() == [0, 1, 3]


def test_a_batch_of_graphs_that_name_their_types_in_another_order():
    edges = edges_of([(0, 1), (1, 2)], 3, 3)
    words = [("single", "double"), ("double", "single"), ("double", "aromatic")]
    members = [Graph(None, edges, edge_types=Types.of(names)) for names in words]
    batch = Batch.from_data_list([to_pyg(member) for member in members])
    found, expected = from_pyg(batch).edge_types, Graph.batch(members).edge_types
    assert found.names == expected.names == ("single", "double", "aromatic")
    assert found.of_row.tolist() == expected.of_row.tolist() == [0, 1, 1, 0, 1, 2]
    batch.edge_type = torch.full_like(batch.edge_type, 2)
    with pytest.raises(DataError, match="edge_type does not fit edge_type_names: a type of a row lacks a name in its"):
        from_pyg(batch)


def test_a_table_of_edges_alone_is_read_as_beside_one_of_nodes():
    edges = pd.DataFrame({"sender": ["a", "b"], "receiver": ["b", "c"], "km": [1.0, np.nan], "type": ["x", "y"]})
    edges["weight"] = [3.0, 4.0]
    alone, beside = Graph.of(edges), Graph.of((pd.DataFrame({"name": ["a", "b", "c"]}), edges))
    for graph in (alone, beside):
        np.testing.assert_array_equal(graph.edge_features, [[1.0, 3.0], [np.nan, 4.0]])
        assert (graph.edge_types.names, graph.names) == (("x", "y"), ("a", "b", "c"))
    assert Graph.of(edges[["sender", "receiver", "type"]]).edge_features is None
    assert Graph.of(edges.drop(columns="km")).edge_features.tolist() == [[3.0], [4.0]]
    with pytest.raises(DataError, match=r"column 'way' holds .*, expected numbers; drop or encode it"):
        Graph.of(edges.assign(way="up"))


def test_what_a_table_cannot_say_is_refused():
    def table(**columns):
        return pd.DataFrame({"sender": [0, 1], "receiver": [1, 2], **columns})

    cases = [
        (table().drop(columns="receiver"), {}, DataError, "the table has no column 'receiver', only sender."),
        (table(), {"feature_columns": ["km"]}, DataError, "the table has no column 'km'"),
        (table(sender=["a", None]), {}, DataError, "column 'sender' is empty in row 1."),
        (table(sender=[0.0, np.nan]), {}, DataError, "column 'sender' is empty in row 1."),
        (table(weight=[1.0, np.nan]), {}, DataError, "column 'weight' is empty in row 1."),
        (table(weight=["1", "x"]), {}, DataError, "expected numbers."),
        (
            table(weight=1.0, weight_0=1.0),
            {},
            DataError,
            "weight, weight_0 exist, expected weight_0, weight_1; name",
        ),
        (table(), {"num_nodes": 2}, DataError, "column 'receiver' holds 2 in row 1, but nodes are 0 to 1."),
        (table(sender=[0, -1]), {}, DataError, "column 'sender' holds -1 in row 1"),
        (table(), {"names": [0, 1]}, DataError, "column 'receiver' holds 2 in row 1, which names do not."),
        (table(), {"names": [0, 1, 2, 1]}, ShapeError, "nodes 1 and 3 are both named 1"),
        (table(), {"names": [0, 1, 2], "num_nodes": 3}, SettingError, "names and num_nodes are both given"),
        (table(sender=["a", "b"]), {"num_nodes": 3}, SettingError, "num_nodes is for nodes that are integers"),
    ]
    for held, options, error, message in cases:
        with pytest.raises(error, match=re.escape(message)):
            from_table(held, **options)


# What is not installed


@pytest.mark.parametrize(
    ("file", "package", "extra"),
    [
        ("networkx", "networkx", "graphs"),
        ("graphml", "networkx", "graphs"),
        ("scipy", "scipy", "graphs"),
        ("table", "pandas", "graphs"),
        ("pyg", "torch_geometric", "pyg"),
    ],
)
def test_a_missing_library_says_which_extra_brings_it(file, package, extra, monkeypatch):
    for name in ("networkx", "graphml", "scipy", "table", "pyg"):
        monkeypatch.delitem(sys.modules, f"edgewise.interop.{name}", raising=False)
    for name in {package} | {name for name in sys.modules if name.split(".")[0] == package}:
        monkeypatch.setitem(sys.modules, name, None)
    message = f"{package} is not installed: pip install 'edgewise[{extra}]'."
    with pytest.raises(MissingExtraError, match=re.escape(message)):
        import_module(f"edgewise.interop.{file}")


def typed_graph(*relations):
    data = HeteroData()
    data["a"].x, data["b"].x = torch.ones(2, 2), torch.ones(1, 2)
    data["a", "r", "b"].edge_index = torch.tensor([[0, 1], [0, 0]])
    for name in relations:
        data["b", name, "a"].edge_index = torch.tensor([[0], [1]])
    return data


def test_a_batch_in_which_some_graphs_lack_a_type():
    """PyTorch Geometric moves the edges of the third graph to the second."""
    batch = Batch.from_data_list([typed_graph("s"), typed_graph(), typed_graph("s")])
    with pytest.raises(DataError, match=r"2 of 3 graphs have the type \('b', 's', 'a'\), and the batch does not say"):
        from_pyg(batch)

    alone = HeteroData()
    alone["a"].x = torch.ones(2, 2)
    with pytest.raises(DataError, match="2 of 3 graphs have the type 'b', and the batch does not say which"):
        from_pyg(Batch.from_data_list([typed_graph(), alone, typed_graph()]))

    first = from_pyg(Batch.from_data_list([typed_graph("s"), alone, alone]))
    assert [graph.num_nodes for graph in first.unbatch()] == [3, 2, 2]
    assert [graph.num_edges for graph in first.unbatch()] == [3, 0, 0]


def test_a_batch_without_offsets_whose_last_graph_lacks_a_type():
    batch = Batch.from_data_list([typed_graph(), typed_graph()])
    whole = from_pyg(batch)
    for name in ("a", "b"):
        del batch[name].ptr
    assert from_pyg(batch).offsets.tolist() == whole.offsets.tolist()
    plain = HeteroData()
    plain["a"].x, plain["a"].batch = torch.ones(3, 2), torch.tensor([0, 1, 1])
    plain["b"].x, plain["b"].batch = torch.ones(1, 2), torch.tensor([0])
    plain["a", "r", "b"].edge_index = torch.tensor([[0], [0]])
    assert from_pyg(plain).offsets.tolist() == [0, 2, 4]
