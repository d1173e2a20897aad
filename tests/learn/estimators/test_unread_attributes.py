"""Attributes of graphs of other libraries that become no part of a graph, or that no estimator reads, are said."""

import warnings
from contextlib import contextmanager

import networkx
import numpy as np
import pytest
import torch

from edgewise import Edges, Graph
from edgewise.learn.estimators import GraphRegressor, LinkPredictor, NodeRegressor

SMALL = {"epochs": 1, "model_dim": 8, "num_layers": 1, "random_state": 0}
INDEX = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


@contextmanager
def said(*texts):
    """Each text is warned once, and there is no other warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(each.message) for each in caught]
    assert len(messages) == len(texts), messages
    for text in texts:
        assert sum(text in message for message in messages) == 1, messages


def attributed():
    graph = networkx.DiGraph(temperature=300.0, name="a ring")
    graph.add_nodes_from((node, {"age": 1.5 * node, "team": "red"}) for node in range(6))
    graph.add_edges_from((a, b, {"since": 2000 + a, "kind": "friend"}) for a, b in INDEX.T.tolist())
    return graph


def test_attributes_of_networkx_are_said_by_name():
    nodes = "node attributes age, team are not read; name those that are features by node_attributes=['age']; words are"
    edges = "edge attributes since, kind are not read; name those that are features by edge_attributes=['since']"
    with said(nodes, edges, "graph attributes temperature are not read"):
        Graph.of([attributed(), attributed()])
    with said():
        Graph.of(attributed(), node_attributes=["age"], edge_attributes=["since"])
        Graph.of(Graph.of(attributed(), node_attributes=["age"]).to_networkx())


def test_attributes_of_pyg_are_said_by_name():
    data = pytest.importorskip("torch_geometric.data")
    x, mask = torch.ones(6, 2), torch.ones(6, dtype=torch.bool)
    plain = data.Data(x=x, edge_index=INDEX, y=torch.ones(6), train_mask=mask, n_id=torch.arange(6), name="ring")
    with said():
        Graph.of(plain)
        Graph.of(data.Batch.from_data_list([plain, plain]))
    plain.charge, plain.length = torch.ones(6), torch.ones(6, 1)
    with said("from_pyg: the attributes charge, length are not read; join those that are features with x, edge_attr"):
        Graph.of([plain, plain])
    hetero = data.HeteroData()
    hetero["a"].x, hetero["a"].year = x, torch.arange(6)
    hetero["a", "to", "a"].edge_index, hetero["a", "to", "a"].time = INDEX, torch.arange(6)
    with said("the attributes year, time are not read"):
        Graph.of(hetero)


def test_estimators_say_what_they_do_not_read():
    features, y = torch.linspace(0, 1, 6)[:, None], np.linspace(0, 1, 6)
    edges, places = Edges(INDEX[0], INDEX[1], 6, 6), torch.rand(6, 3)
    graph = Graph(features, edges, coordinates=places, graph_features=torch.ones(1, 2))
    unread = "coordinates of nodes are not read", "graph_features are not read"
    with said(*unread):
        NodeRegressor(model="gcn", **SMALL).fit(graph, y)
    pairs = Edges.from_edge_index(torch.combinations(torch.arange(6)).T[:, :9], 6)
    complete = Graph(features, pairs, coordinates=places)
    with said(unread[0]):
        LinkPredictor(model="gcn", baselines=False, **SMALL).fit(complete)
    graphs = [Graph(features * size, edges, coordinates=places) for size in range(1, 9)]
    with said(unread[0]):
        fitted = GraphRegressor(model="gcn", **SMALL).fit(graphs, np.arange(8.0))
    with said(unread[0]):
        fitted.predict(graphs)


def test_attributes_of_many_graphs_are_said_once():
    graphs = [attributed() for _ in range(8)]
    with said("node attributes age", "edge attributes since", "graph attributes temperature", "nodes without features"):
        GraphRegressor(model="gcn", **SMALL).fit(graphs, np.arange(8.0))
