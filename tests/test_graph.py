"""`Graph`: one record for a graph or a batch of graphs; from and to what people hold, without a loss."""

import re
from dataclasses import replace
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData

from edgewise import DataError, Edges, Graph, SettingError, ShapeError, attention_weights
from edgewise.graph import SparseFeatures
from edgewise.neighborhood import Types

DTYPES = (torch.float32, torch.float64, torch.int64)
INDEX = torch.tensor([[0, 1, 1, 2, 2], [1, 1, 2, 0, 0]])
"""A loop and parallel edges."""


def table(generator, rows, width, dtype):
    return (100 * torch.randn(rows, width, generator=generator, dtype=torch.float64)).to(dtype)


def tables(generator, types, widths, dtypes):
    """A table for each type; None where the width is 0."""
    parts = zip(types.sizes, widths, dtypes)
    return tuple(table(generator, size, width, dtype) if width else None for size, width, dtype in parts)


@st.composite
def graphs(draw, batches=True):
    """What makes a graph, or a batch: awkward sizes, loops, parallel edges, types with features of their own."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    is_typed, has_features, has_names = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    widths, dtypes = draw(st.permutations([0, 1, 2, 3])), draw(st.permutations(DTYPES))
    is_plain, dim = draw(st.booleans()), draw(st.integers(0, 2))

    def one(size, pairs):
        def make():
            senders, receivers = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
            edges, names = Edges(senders, receivers, size, size), None
            node, edge, node_types, edge_types = None, None, None, None
            if is_typed:
                of_row = torch.randint(0, 2, (size,), generator=generator)
                node_types = Types(of_row, 3, ("author", "paper", "venue"))
                called = [(a, "to", b) for a in node_types.names for b in node_types.names]
                code = 3 * node_types.of_row[senders] + node_types.of_row[receivers]
                edge_types = Types(code, 9, tuple(called))
            if has_features and is_typed:
                node = tables(generator, node_types, widths, dtypes)
                edge = tables(generator, edge_types, [*widths, *widths, 1], [*dtypes, *dtypes, *dtypes])
            elif has_features:
                node, edge = (table(generator, n, widths[0], dtypes[0]) for n in (size, len(pairs)))
            if has_names:
                names = tuple(f"n{size - place}" for place in range(size)) if is_plain else tuple(range(3, 3 + size))
            known = table(generator, 1, 2, dtypes[1]) if has_features else None
            places = torch.randn(size, dim, generator=generator) if dim else None
            return Graph(node, edges, edge, known, node_types, edge_types, places, None, names)

        return make

    makers = []
    for _ in range(draw(st.integers(1, 3)) if batches else 1):
        size = draw(st.integers(0, 4))
        node = st.integers(0, max(size - 1, 0))
        makers.append(one(size, draw(st.lists(st.tuples(node, node), max_size=6 if size else 0))))
    is_batch = batches and (len(makers) > 1 or draw(st.booleans()))
    return lambda: Graph.batch([make() for make in makers]) if is_batch else makers[0]()


def check_features(one, other):
    assert type(one) is type(other)
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for part, part_of_other in zip(one, other):
            check_features(part, part_of_other)
    elif one is not None:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def check_same(one, other, *skipped):
    """Everything is the same, in the same order, bit for bit."""
    for side in ("senders", "receivers"):
        assert torch.equal(getattr(one.edges, side), getattr(other.edges, side))
    assert (one.edges.sizes, one.num_graphs) == (other.edges.sizes, other.num_graphs)
    for name in ("node_features", "edge_features", "graph_features", "coordinates", "offsets"):
        if name not in skipped:
            check_features(getattr(one, name), getattr(other, name))
    for name in ("node_types", "edge_types"):
        types, types_of_other = getattr(one, name), getattr(other, name)
        assert (types is None) == (types_of_other is None)
        if types is not None:
            assert torch.equal(types.of_row, types_of_other.of_row)
            assert (types.num_types, types.names) == (types_of_other.num_types, types_of_other.names)
    assert one.names == other.names


# There and back


@given(make=graphs())
def test_pyg_and_back(make):
    graph = make()
    held = graph.to_pyg()
    assert isinstance(held, (Data if graph.node_types is None else HeteroData))
    assert (graph.offsets is not None) == isinstance(held, Batch)
    check_same(graph, Graph.of(held))


@given(make=graphs())
def test_pandas_and_back(make):
    graph = make()
    check_same(graph, Graph.of(graph.to_pandas()))


@given(make=graphs(batches=False))
def test_networkx_and_back(make):
    graph = make()
    held = graph.to_networkx()
    assert held.number_of_edges() == graph.num_edges
    check_same(graph, Graph.of(held))
    check_same(Graph.batch([graph, graph]), Graph.of([held, held]))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_scipy_and_torch_sparse_and_back(dtype):
    graph = Graph(None, Edges(*INDEX, 5, 5), torch.arange(5)[:, None].to(dtype))
    check_same(graph, Graph.of(graph.to_scipy()))
    bare = Graph.of(graph.edges)
    check_same(bare, Graph.of(bare.to_scipy()))
    sparse = partial(torch.sparse_coo_tensor, INDEX.flip(0), check_invariants=True)
    adjacency = sparse(graph.edge_features[:, 0], (5, 5))
    check_same(graph, Graph.of(adjacency))
    two = sparse(torch.cat([graph.edge_features] * 2, 1), (5, 5, 2))
    assert Graph.of(two).edge_features.shape == (5, 2)
    assert Graph.of(adjacency.to_sparse_csr()).edges.senders.tolist() == [2, 0, 1, 1]
    assert Graph.of(adjacency.coalesce().bool()).edge_features is None, "True says no more than that there is an edge"
    assert Graph.of(scipy.sparse.eye_array(3, dtype=bool)).edge_features is None
    assert Graph.of(scipy.sparse.random_array((2, 3))).is_bipartite


@given(make=graphs())
def test_batch_and_unbatch(make):
    graph = make()
    parts = graph.unbatch()
    assert all(part.offsets is None for part in parts)
    check_same(Graph.batch(parts), graph, *(["offsets"] if graph.offsets is None else []))
    check_same(Graph.batch([graph, *parts]), Graph.batch([*parts, *parts]))


@given(make=graphs())
def test_subgraphs(make):
    graph = make()
    check_same(graph.subgraph(torch.ones(graph.num_nodes, dtype=torch.bool)), graph)
    kept = torch.arange(graph.num_nodes) % 2 == 0
    half = graph.subgraph(kept)
    check_same(graph.subgraph(kept.nonzero().flatten()), half)
    inside = kept[graph.edges.senders] & kept[graph.edges.receivers]
    assert torch.equal(kept.nonzero().flatten()[half.edges.senders], graph.edges.senders[inside])
    if isinstance(graph.node_features, torch.Tensor):
        assert torch.equal(half.node_features, graph.node_features[kept])
    if graph.node_types is not None:
        assert torch.equal(half.node_types.of_row, graph.node_types.of_row[kept])


@given(make=graphs())
def test_both_ways(make):
    graph = make()
    both = graph.undirected()
    pairs = sorted(zip(both.edges.senders.tolist(), both.edges.receivers.tolist()))
    assert pairs == sorted((receiver, sender) for sender, receiver in pairs)
    if graph.edge_types is None:
        assert torch.equal(both.edges.senders, graph.edges.undirected().senders)
    check_same(both.undirected(), both)
    moved = both.to("meta") if both.num_edges else both.to("cpu")
    assert moved.num_edges == both.num_edges


# Inputs that users have


def test_hetero_data_comes_back_as_it_was():
    data = HeteroData()
    data["author"].x, data["paper"].x = torch.randn(3, 4), torch.arange(8).reshape(4, 2)
    data["paper"].pos = torch.randn(4, 3)
    data["venue"].num_nodes = 2
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 2, 2], [3, 0, 0]])
    data["author", "writes", "paper"].edge_attr = torch.randn(3, 2, dtype=torch.float64)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[1, 1], [1, 2]])
    data["paper", "in", "venue"].edge_index = torch.zeros(2, 0, dtype=torch.int64)
    data.u = torch.randn(1, 5)
    graph = Graph.of(data)
    assert (graph.num_nodes, graph.num_edges, graph.node_types.sizes) == (9, 5, (3, 4, 2))
    assert [None if part is None else tuple(part.shape) for part in graph.node_features] == [(3, 4), (4, 2), None]
    assert graph.relations.num_relations == 3
    back = graph.to_pyg()
    assert (back.node_types, back.edge_types) == (data.node_types, data.edge_types)
    for name in [*data.node_types, *data.edge_types]:
        for key, value in data[name].items():
            same = torch.equal(value, back[name][key]) if torch.is_tensor(value) else value == back[name][key]
            assert same, (name, key)
    assert torch.equal(back.u, data.u)
    check_same(Graph.of(Batch.from_data_list([data, data])), Graph.of([data, data]))


def test_coordinates_of_some_types_are_fractions():
    """A type without them has NaN, which whole numbers lack."""
    data = HeteroData()
    data["a"].pos, data["b"].num_nodes = torch.tensor([[1, 2], [3, 4]]), 1
    data["a", "to", "b"].edge_index = torch.tensor([[0], [0]])
    graph = Graph.of(data)
    assert torch.equal(graph.coordinates[:2], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert graph.coordinates[2].isnan().all()
    data["b"].pos = torch.tensor([[5, 6]])
    assert Graph.of(data).coordinates.tolist() == [[1, 2], [3, 4], [5, 6]]
    data["b"].pos = torch.tensor([[5, 6, 7]])
    with pytest.raises(DataError, match="pos of 'b' has 3 coordinates, but that of another type 2"):
        Graph.of(data)


@pytest.mark.parametrize(("names", "word"), [((0, 1), "to"), (("a", ("b", "c")), "to"), (("a", "b"), 3)])
def test_hetero_data_has_types_that_are_text(names, word):
    types = Types(torch.tensor([0, 1]), 2, names)
    relations = Types(torch.tensor([0]), 1, ((names[0], word, names[1]),))
    graph = Graph(None, Edges(torch.tensor([0]), torch.tensor([1]), 2, 2), node_types=types, edge_types=relations)
    with pytest.raises(DataError, match=r"to_pyg: a type is named .*; HeteroData has text alone"):
        graph.to_pyg()


def test_data_comes_back_as_it_was():
    data = Data(x=torch.arange(6).reshape(3, 2), edge_index=INDEX, edge_attr=torch.randn(5), edge_type=INDEX[0])
    data.pos, data.u, data.y = torch.randn(3, 3), torch.ones(1, 2), torch.zeros(3)
    back = Graph.of(data).to_pyg()
    assert set(back.keys()) == {*data.keys(), "num_nodes"} - {"y"}, "what is to be predicted stands beside the graph"
    assert torch.equal(back.edge_attr, data.edge_attr[:, None])
    for name in ("x", "edge_index", "edge_type", "pos", "u"):
        assert torch.equal(back[name], data[name])
    batch = Batch.from_data_list([data, data])
    assert Graph.of(batch).offsets.tolist() == batch.ptr.tolist()
    assert torch.equal(Graph.of(batch).graph_of_node, batch.batch)
    bare = Data(x=torch.zeros(3, 1), edge_index=INDEX, batch=torch.tensor([1, 0, 0]))
    with pytest.raises(DataError, match="batch of the data must name the graph of each of 3 nodes, ascending"):
        Graph.of(bare)


@pytest.mark.usefixtures("shapes_unchecked")
def test_features_are_tensors_or_arrays():
    for source, name in (
        ((torch.ones(3, 1), INDEX, [1.0] * 5), "edge_features"),
        (([1.0] * 3, INDEX), "node_features"),
    ):
        with pytest.raises(ShapeError, match=f"{name} is list; expected a dense tensor"):
            Graph.of(source)


def test_pairs_and_indexes():
    x = torch.randn(4, 2)
    same = [Edges(*INDEX, 4, 4), INDEX, INDEX.numpy(), Graph.of(INDEX, num_nodes=4).to_scipy()]
    for edges in same:
        graph = Graph.of((x, edges))
        assert torch.equal(graph.node_features, x)
        assert torch.equal(torch.stack([graph.edges.senders, graph.edges.receivers]), INDEX)
    assert Graph.of(INDEX).num_nodes == 3
    assert Graph.of((x.numpy(), INDEX, torch.ones(5))).edge_features.shape == (5, 1)
    graph = Graph.of((x, INDEX))
    assert Graph.of(graph) is graph
    with pytest.raises(SettingError, match="num_nodes is not an option for Edges; drop it"):
        Graph.of(Edges(*INDEX, 4, 4), num_nodes=5)
    weights = attention_weights(x[None], x[None])
    assert torch.equal(weights.to_graph().to_weights().to_dense(), weights.to_dense())


def test_tables_of_others():
    nodes = pd.DataFrame({"age": [30, 40, 50], "type": ["a", "b", "a"]}, index=["ann", "bob", "cy"])
    edges = pd.DataFrame({"from": ["ann", "cy"], "to": ["bob", "bob"], "km": [1.5, 2.0], "type": ["likes", "likes"]})
    graph = Graph.of((nodes, edges), sender_column="from", receiver_column="to")
    assert graph.names == ("ann", "bob", "cy")
    assert (graph.edges.senders.tolist(), graph.edge_features.tolist()) == ([0, 2], [[1.5], [2.0]])
    assert graph.edge_types.names == (("a", "likes", "b"),)
    assert Graph.of(edges, sender_column="from", receiver_column="to", feature_columns=["km"]).num_nodes == 3
    cases = {
        "column 'city' holds": (nodes.assign(city="Oslo"), edges),
        "'to' is 'eve' in row 0 of the edges, which is not a node": (nodes, edges.assign(to="eve")),
        "column 'age' is empty in row cy": (nodes.assign(age=pd.array([1, 2, None], "Int64")), edges),
        "column 'type' is empty in row 1": (nodes.assign(type=["a", None, "b"]), edges),
    }
    for message, held in cases.items():
        with pytest.raises(DataError, match=re.escape(message)):
            Graph.of(held, sender_column="from", receiver_column="to")
    with pytest.raises(DataError, match="edges is Tensor, expected a table; of features and an edge_index make"):
        Graph.of((nodes, INDEX))
    with pytest.raises(DataError, match="the edges have no column 'sender', only from, to, km, type"):
        Graph.of((nodes, edges))


def test_types_of_networkx():
    held = nx.DiGraph([("a", "b", {"is": "knows"}), ("c", "b", {"is": "reads"})])
    nx.set_node_attributes(held, {"a": "person", "b": "person", "c": "bot"}, "what")
    graph = Graph.of(held, node_type="what", edge_type="is")
    assert graph.edge_types.names == (("person", "knows", "person"), ("bot", "reads", "person"))
    with pytest.raises(DataError, match="the node 'a' has no 'kind', its type; give it one"):
        Graph.of(held, node_type="kind")


@pytest.mark.parametrize("held", [None, "graph", {"x": 1}, (1,), np.eye(3), torch.ones(2, 3)])
def test_what_is_no_graph(held):
    with pytest.raises(DataError, match=r"Graph\.of: .*(is not a graph; expected|is not an edge_index)"):
        Graph.of(held)


# Checks


def test_a_graph_checks_what_it_is_given(shapes_unchecked):
    edges, types = Edges(*INDEX, 3, 3), Types(torch.tensor([0, 1, 0]), 2, ("a", "b"))
    zeros = torch.zeros
    cases = {
        "node_features has 2 rows, expected 3.": {"node_features": zeros(2, 1)},
        "node_features is (3,) torch.strided; expected a dense tensor (row, feature)": {"node_features": zeros(3)},
        "node_features is ndarray; expected a dense tensor": {"node_features": np.zeros((3, 1))},
        "node_features is a tuple, a table for each type, but rows are not typed": {"node_features": (zeros(3, 1),)},
        "node_features has 1 table, but there are 2 types": {"node_types": types, "node_features": (zeros(2, 1),)},
        "node_features[1] has 2 rows, expected 1.": {
            "node_types": types, "node_features": (zeros(2, 1), zeros(2, 2))
        },
        "edge_features has 3 rows, expected 5.": {"edge_features": zeros(3, 1)},
        "graph_features has 2 rows, expected 1.": {"graph_features": zeros(2, 1)},
        "coordinates has 2 rows, expected 3.": {"coordinates": zeros(2, 3)},
        "edge_types has 3 rows, expected 5.": {"edge_types": types},
        "names has 1 row, expected 3.": {"names": ("a",)},
        "edges must be Edges, not a tensor (2, 5) of torch.int64; Graph.of((node_features, edge_index)) takes an": {
            "node_features": zeros(3, 1), "edges": INDEX
        },
        "edges must be Edges, not a tensor (3, 1) of torch.float32": {"node_features": edges, "edges": zeros(3, 1)},
        "edges must be Edges, not list": {"edges": [[0], [1]]},
        "node_types must be Types, not list; Types.of(node_types) makes them": {"node_types": [0, 1, 0]},
        "edge_features is (5, 1) torch.sparse_coo; expected a dense tensor": {"edge_features": zeros(5, 1).to_sparse()},
        "node 1 is named None; give it a name.": {"names": ("a", None, "b")},
        "nodes 0 and 2 are both named 'the', but names must be unique; number them": {"names": ("the", "cat", "the")},
        "offsets must rise from 0 to 3, the number of nodes, not [0, 4].": {"offsets": torch.tensor([0, 4])},
        "offsets must be int64 (graph + 1), not [0.0, 3.0].": {"offsets": torch.tensor([0.0, 3.0])},
        "edge 0 goes from graph 0 to graph 1.": {"offsets": torch.tensor([0, 1, 3])},
        "the edge type 'x' does not name the nodes it joins": {
            "node_types": types, "edge_types": Types(torch.zeros(5, dtype=torch.int64), 1, ("x",))
        },
        "edge 1 is of the type ('a', 'to', 'a'), but it comes from a node of type 'b'": {
            "node_types": types, "edge_types": Types(torch.zeros(5, dtype=torch.int64), 1, (("a", "to", "a"),))
        },
    }  # fmt: skip
    for message, given_ in cases.items():
        with pytest.raises(ShapeError, match=re.escape(f"Graph: {message}")):
            Graph(**{"node_features": None, "edges": edges, **given_})
    two = Graph(None, Edges([0], [1], 3, 2))
    for wrong in (lambda: two.num_nodes, lambda: Graph(zeros(3, 1), two.edges), two.to_pyg, two.to_pandas):
        with pytest.raises(ShapeError, match=r"there are 3 senders and 2 receivers.*graph\.joined\(\) makes them one"):
            wrong()
    assert two.joined().num_nodes == 5
    with pytest.raises(ShapeError, match="joined: senders and receivers are already one set of nodes, as it has names"):
        Graph(None, edges, names=("a", "b", "c")).joined()


def test_graphs_that_do_not_go_together():
    def graph(**fields):
        return Graph(**{"node_features": torch.ones(3, 2), "edges": Edges(*INDEX, 3, 3), **fields})

    types = Types(torch.zeros(3, dtype=torch.int64), 1)
    cases = {
        "graph 1 lacks node_features, which graph 0 has": graph(node_features=None),
        "node_features of graph 1 is (…, 3) of torch.float32, but of graph 0 (…, 2)": graph(
            node_features=torch.ones(3, 3)
        ),
        "of torch.int64, but of graph 0": graph(node_features=torch.ones(3, 2, dtype=torch.int64)),
        "some graphs have node_types": graph(node_types=types),
        "graph 0 lacks coordinates, which graph 1 has": graph(coordinates=torch.ones(3, 2)),
    }
    for message, other in cases.items():
        with pytest.raises(ShapeError, match=re.escape(message)):
            Graph.batch([graph(), other])
    with pytest.raises(ShapeError, match="graphs is empty"):
        Graph.of([])
    batch = Graph.batch([graph(names=("x", "y", "z")), graph()])
    assert batch.names == ("x", "y", "z", 0, 1, 2)
    with pytest.raises(ShapeError, match="it is a batch; write each graph"):
        batch.to_networkx()
    for nodes, message in (([0, 0], "repeated"), ([9], "must lie in 0 … 5"), ([4, 0], "grouped by graph")):
        with pytest.raises(ShapeError, match=message):
            batch.subgraph(nodes)
    assert batch.subgraph([2, 0]).names == ("z", "x")
    assert repr(batch) == "Graph(6 nodes, 10 edges, node_features=(6, 2), offsets=(3,), names=6)"


def test_loops():
    graph = Graph.of((torch.ones(4, 1), INDEX, torch.ones(5)))
    looped = graph.with_self_loops(fill=2)
    assert looped.edges.num_edges == graph.edges.with_self_loops().num_edges == 8
    assert looped.edge_features.flatten().tolist() == [1, 1, 1, 1, 1, 2, 2, 2]
    with pytest.raises(SettingError, match="edges have features; give those of a loop"):
        graph.with_self_loops()
    typed = Graph.of((torch.ones(4, 1), INDEX)).undirected()
    assert typed.with_self_loops().edge_features is None

    for dtype, fits, others in (
        (torch.int64, (-3, 2.0), (0.5, float("nan"), 1e300)),
        (torch.uint8, (255,), (-1, 256)),
        (torch.bool, (1, 0.0), (2, 0.5)),
    ):
        whole = replace(graph, edge_features=graph.edge_features.to(dtype))
        for fill in fits:
            assert whole.with_self_loops(fill).edge_features[5:].tolist() == [[fill]] * 3
        for fill in others:
            with pytest.raises(SettingError, match=re.escape(f"fill is {fill}, but the features of edges are {dtype}")):
                whole.with_self_loops(fill)


@pytest.mark.parametrize(("there", "back"), [(2, 3), (None, 1), (1, None), (2, 2), (None, None)])
def test_reverses_of_one_type_have_the_features_of_the_other(there, back):
    """Edges 0 → 1 and 0 → 2 are of the type `x`, the edge 1 → 0 of its reverse."""
    types = Types(torch.tensor([0, 0, 1]), 2, (("a", "x", "b"), ("b", "rev_x", "a")))
    edges = Edges(torch.tensor([0, 0, 1]), torch.tensor([1, 2, 0]), 3, 3)
    features = (None if there is None else torch.ones(2, there), None if back is None else torch.zeros(1, back))
    graph = Graph(None, edges, features, node_types=Types(torch.tensor([0, 1, 1]), 2, ("a", "b")), edge_types=types)
    if there == back:
        found = graph.undirected().edge_features
        assert (None if there is None else found[:, 0].tolist()) == (None if there is None else [1, 1, 0, 1])
        return
    message = f"x', 'b') have {there or 0} feature"
    with pytest.raises(ShapeError, match=re.escape(message) + f".*rev_x.*, {back or 0}; give both the same"):
        graph.undirected()


# Sparse features, virtual nodes, and what is derived


def sparse_graph():
    """Three nodes with sparse features; node 1 has none."""
    features = SparseFeatures(
        Edges(torch.tensor([0, 2, 1]), torch.tensor([0, 0, 2]), 4, 3), torch.tensor([1.0, 2.0, 3.0])
    )
    return Graph(features, Edges(*INDEX, 3, 3), position_encodings=torch.arange(6.0).reshape(3, 2))


def test_sparse_features_are_those_of_a_table():
    graph = sparse_graph()
    table = torch.tensor([[1.0, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 0]])
    assert torch.equal(graph.dense_node_features, table)
    nodes = torch.tensor([2, 0, 0, 1])
    assert torch.equal(graph.node_features.select(nodes).to_dense(), table[nodes])
    assert torch.equal(graph.subgraph([2, 0]).dense_node_features, table[[2, 0]])
    assert torch.equal(graph.subgraph([2, 0]).position_encodings, torch.tensor([[4.0, 5], [0, 1]]))
    assert torch.equal(Graph.batch([graph, graph]).node_features, torch.cat([table, table]))
    with pytest.warns(UserWarning, match="position_encodings"):
        assert torch.equal(graph.to_pyg().x, table)
    with pytest.raises(ShapeError, match="node_features has 3 rows, expected 4"):
        Graph(graph.node_features, Edges(*INDEX, 4, 4))


def test_what_is_derived_is_cached_and_moves_with_the_graph():
    graph = replace(sparse_graph(), edge_types=Types(torch.zeros(5, dtype=torch.int64), 1))
    assert graph.looped.num_edges == 8 and graph.members.receivers.tolist() == [0, 0, 0]
    for name in ("looped", "members", "relations"):
        assert getattr(graph, name) is getattr(graph, name)
    moved = graph.to("meta")
    assert moved.looped.senders.device.type == moved.node_features.values.device.type == "meta"
    assert "_looped" not in vars(replace(graph, edge_types=None)) and "looped" not in repr(graph)
    assert graph.distinct_edge_features is None and graph.full_degrees is None
    assert Graph.unchecked(None, graph.edges, full_degrees=torch.ones(3)).full_degrees.tolist() == [1, 1, 1]


def test_virtual_nodes_have_no_rows():
    graph = Graph(torch.ones(3, 2), Edges(torch.tensor([3, 0]), torch.tensor([0, 3]), 4, 4), num_virtual_nodes=1)
    assert graph.num_nodes == 3
    for change in (graph.unbatch, graph.joined, lambda: graph.subgraph([0]), lambda: Graph.batch([graph])):
        with pytest.raises(ShapeError, match=r"1 virtual node.*add them afterwards"):
            change()
