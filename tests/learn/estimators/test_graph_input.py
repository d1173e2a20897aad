"""Estimators take a graph as a whole: the same predictions as from its parts."""

import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from edgewise import (
    DataError,
    Edges,
    Graph,
    GraphClassifier,
    GraphRegressor,
    LinkPredictor,
    NodeClassifier,
    NodeRegressor,
)
from edgewise.learn.estimators import GraphNodes

FEW = {"epochs": 2, "model_dim": 8, "device": "cpu"}
RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(12, 3, generator=RANDOM)
INDEX = torch.randint(0, 12, (2, 40), generator=RANDOM)
Y = np.arange(12) % 2


def graph(**fields):
    return Graph(X, Edges.from_edge_index(INDEX, 12), **fields)


def as_networkx():
    return graph().to_networkx()


@pytest.mark.parametrize("held", [graph, lambda: Data(x=X, edge_index=INDEX), as_networkx, lambda: (X, INDEX)])
def test_nodes(held):
    from_parts = NodeClassifier(model="gcn", **FEW).fit(X, Y, INDEX)
    classifier = NodeClassifier(model="gcn", **FEW).fit(held(), Y)
    expected = from_parts.predict_proba(X, INDEX)
    np.testing.assert_array_equal(classifier.predict_proba(held()), expected)
    assert classifier.score(held(), Y) == from_parts.score(X, Y, INDEX)
    np.testing.assert_array_equal(classifier.fingerprint(held()), from_parts.fingerprint(X, INDEX))


def test_features_of_edges():
    features = torch.rand(40, 2, generator=RANDOM)
    regressor = NodeRegressor(model="attention", **FEW).fit(graph(edge_features=features), Y)
    same = NodeRegressor(model="attention", **FEW).fit(X, Y, INDEX, edge_features=features)
    np.testing.assert_array_equal(
        regressor.predict(graph(edge_features=features)), same.predict(X, INDEX, features.numpy())
    )


def test_types_of_nodes_and_edges():
    data = HeteroData()
    data["author"].x, data["paper"].x = X[:5], X[5:, :2]
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4, 5]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2], [3, 4, 6]])
    table = np.full((12, 5), np.nan)
    table[:5, :3], table[5:, 3:] = X[:5], X[5:, :2]
    edges = np.array([[0, 1, 2, 3, 4, 4, 5, 6, 7], [5, 6, 7, 8, 9, 10, 8, 9, 11]])
    kinds = {"node_types": ["author"] * 5 + ["paper"] * 7, "edge_types": ["writes"] * 6 + ["cites"] * 3}
    found = NodeClassifier(model="rgcn", **FEW).fit(data, Y).predict_proba(data)
    same = NodeClassifier(model="rgcn", **FEW).fit(table, Y, edges, **kinds).predict_proba(table, edges, **kinds)
    np.testing.assert_array_equal(found, same)


@pytest.mark.filterwarnings("ignore:fit. 5 edges are self-loops")
def test_links():
    options = {"model": "gcn", "split_sizes": (0.6, 0.2, 0.2), **FEW}
    pairs = [[0, 5], [2, 7]]
    found, same = LinkPredictor(**options).fit(graph()), LinkPredictor(**options).fit(X, INDEX)
    np.testing.assert_array_equal(found.predict_proba(pairs), same.predict_proba(pairs))
    np.testing.assert_array_equal(found.predict_proba(pairs, graph()), same.predict_proba(pairs, X, INDEX))
    bare = LinkPredictor(**options).fit(nx.cycle_graph(12))
    assert bare.predict_proba(pairs).shape == (2, 2)


def test_graphs():
    whole = graph().undirected()
    graphs = [whole.subgraph(range(start, start + 5)) for start in range(8)]
    parts = [(one.node_features, one.edges) for one in graphs]
    expected = GraphClassifier(model="gatv2", **FEW).fit(parts, Y[:8]).predict_proba(parts)
    batch = Graph.batch(graphs)
    for held in (graphs, batch, batch.to_pyg(), batch.to_pyg().to_data_list(), [one.to_networkx() for one in graphs]):
        found = GraphClassifier(model="gatv2", **FEW).fit(held, Y[:8]).predict_proba(held)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    known = torch.rand(8, 2, generator=RANDOM)
    batch = Graph(batch.node_features, batch.edges, graph_features=known, offsets=batch.offsets)
    regressor = GraphRegressor(model="gatv2", **FEW).fit(batch, Y[:8])
    same = GraphRegressor(model="gatv2", **FEW).fit(parts, Y[:8], graph_features=known.numpy())
    np.testing.assert_array_equal(regressor.predict(batch), same.predict(parts, known.numpy()))


def test_what_does_not_fit():
    typed = Graph.of(Data(x=X, edge_index=INDEX, edge_type=INDEX[0] % 2))
    cases = {
        "edges is missing: give edges, or a Graph in place of X; X is Tensor.": lambda: NodeClassifier().fit(X, Y),
        "edge_features was given beside a graph that holds it": lambda: NodeClassifier().fit(
            graph(), Y, edge_features=np.ones((40, 1))
        ),
        "X has 0 feature(s) (shape=(12, 0))": lambda: NodeClassifier().fit(np.zeros((12, 0)), Y, edges=INDEX),
        "LinkPredictor reads graphs of one type of nodes and edges": lambda: LinkPredictor().fit(typed),
        "graph 0: the model reads graphs of one type of nodes and edges": lambda: GraphRegressor().fit([typed], [1.0]),
    }
    for message, call in cases.items():
        with pytest.raises(DataError, match=re.escape(message)):
            call()


def test_batches_in_a_list_are_as_many_graphs():
    graphs = [Data(x=X[start : start + 4], edge_index=torch.tensor([[0, 1], [1, 2]])) for start in range(9)]
    model = GraphClassifier(model="gcn", **FEW).fit(graphs, np.arange(9) % 2)
    expected = model.predict_proba(graphs)
    assert len(expected) == 9
    for batches in (
        [Batch.from_data_list(graphs[:4]), graphs[4], Batch.from_data_list(graphs[5:])],
        [Graph.batch([Graph.of(graph) for graph in graphs[:5]]), *graphs[5:]],
    ):
        np.testing.assert_allclose(model.predict_proba(batches), expected, rtol=1e-5)
    with pytest.raises(DataError, match=r"X is a DataLoader, .* give loader.dataset"):
        model.predict(DataLoader(graphs, batch_size=2))
    with pytest.raises(DataError, match="X is one graph, a Data, where several are expected; put it into a list"):
        model.predict(graphs[0])
    with pytest.raises(DataError, match="item holds 2 graphs; an explanation is of one"):
        model.explain(Batch.from_data_list(graphs[:2]))


def test_columns_of_types_have_one_place_whatever_the_order_of_the_types():
    """Two authors with two numbers each, and a paper with one: the authors' columns come first, as their name does."""
    authors, paper = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0]])
    one, other = HeteroData(), HeteroData()
    one["author"].x, one["paper"].x = authors, paper
    other["paper"].x, other["author"].x = paper, authors
    for data in (one, other):
        data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [0, 0]])
    of_authors, of_paper = [[1.0, 2.0, np.nan], [3.0, 4.0, np.nan]], [[np.nan, np.nan, 5.0]]
    np.testing.assert_array_equal(GraphNodes(one).features.to_dense(), of_authors + of_paper)
    np.testing.assert_array_equal(GraphNodes(other).features.to_dense(), of_paper + of_authors)


@pytest.mark.parametrize("number", [1e38, -1e39, np.inf])
def test_numbers_of_a_sparse_matrix_that_are_too_large_are_refused(number):
    """Single precision squares none of them; what it cannot hold became an infinity."""
    matrix = scipy.sparse.csr_array(np.array([[0, 0], [0, number], [1, 0]]))
    with pytest.raises(DataError, match=r"X\[1, 1\] is -?(1e\+3[89]|inf), beyond ±1e\+37 and too large to be scaled"):
        GraphNodes(matrix, np.array([[0, 1], [1, 2]]))


def test_entries_of_a_sparse_matrix_at_one_place_add_up():
    starts, columns, values = np.array([0, 3, 3, 5]), np.array([1, 0, 1, 2, 2]), np.array([1.0, 2.0, 3.0, 4.0, -4.0])
    matrix = scipy.sparse.csr_array((values, columns, starts), shape=(3, 4))
    features = GraphNodes(matrix, np.array([[0, 1], [1, 2]])).features
    np.testing.assert_array_equal(features.to_dense(), [[2.0, 4.0, 0, 0], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(features.of_rows(np.array([2, 0])), [[0] * 4, [2.0, 4.0, 0, 0]])
    assert (features.columns.tolist(), features.values.tolist()) == ([0, 1], [2.0, 4.0])
