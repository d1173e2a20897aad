"""Graphs to and from networkx."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.interop.attributes import (
    EDGE,
    NODE,
    array_of,
    column_names,
    numbers_of,
    own_names,
    require_one_set,
    weighted,
)
from edgewise.neighborhood import Edges
from edgewise.trace import WeightedGraph

try:
    import networkx
except ModuleNotFoundError as error:
    raise MissingExtraError("networkx", "graphs") from error

PARTS = ("train", "val", "test")


def to_networkx(graph: WeightedGraph | Edges) -> "networkx.MultiDiGraph":
    """A graph as networkx has it: a node a node, by its name or number; an edge from sender to receiver.

    It is always a `MultiDiGraph`, in which parallel edges stay apart; the key of an edge is its number. An edge has
    `weight`, or `weight_0`, `weight_1`, … where there are several features (heads), and a node `feature`, or
    `feature_0`, … . networkx's algorithms read `weight`; its adjacency matrices have a row a sender, ours a row a
    receiver.

    Raises:
        ShapeError: senders and receivers are two sets of nodes.

    >>> from edgewise import Edges
    >>> list(to_networkx(Edges([0, 0], [1, 1], 3, 3)).edges)
    [(0, 1, 0), (0, 1, 1)]
    """
    graph = weighted(graph)
    require_one_set("to_networkx", graph)
    found, edges = networkx.MultiDiGraph(), graph.edges
    names = list(range(edges.num_senders)) if graph.names is None else list(graph.names)
    if graph.node_features is None:
        found.add_nodes_from(names)
    else:
        columns = column_names(NODE, graph.node_features.shape[1])
        features = array_of(graph.node_features).tolist()
        found.add_nodes_from((name, dict(zip(columns, row))) for name, row in zip(names, features))
    columns = column_names(EDGE, graph.edge_features.shape[1])
    rows = zip(edges.senders.tolist(), edges.receivers.tolist(), array_of(graph.edge_features).tolist())
    found.add_edges_from(
        (names[sender], names[receiver], key, dict(zip(columns, row)))
        for key, (sender, receiver, row) in enumerate(rows)
    )
    return found


def from_networkx(
    graph: "networkx.Graph",
    *,
    edge_attributes: Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    dtype: torch.dtype = torch.float32,
) -> WeightedGraph:
    """A graph of networkx, of whatever class, as edges with features.

    Nodes keep their order, and their names where those are not 0, 1, 2, … . Edges come in the order of the graph, by
    sender, unless the keys of a multigraph number them, as those of `to_networkx` do. Of an undirected graph every
    edge stands twice, all the reverses behind all the edges, a loop once.

    Args:
        graph: `Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.
        edge_attributes: what to read as edge features, in this order; each holds a number, or a list of numbers. By
            default `weight`, or `weight_0`, `weight_1`, …, if they are there. Others are not looked at.
        node_attributes: the like for node features; by default `feature`, or `feature_0`, `feature_1`, … .
        dtype: of the features, which are Python's numbers in networkx.

    Raises:
        DataError: an attribute is missing at some edges or nodes, or holds no numbers.

    >>> import networkx
    >>> path = from_networkx(networkx.path_graph(["a", "b", "c"]))
    >>> path.names, path.edges.senders.tolist(), path.edges.receivers.tolist()
    (('a', 'b', 'c'), [0, 1, 1, 2], [1, 2, 0, 1])
    """
    verb, place = "from_networkx", {name: place for place, name in enumerate(graph.nodes)}
    listed = _edges(graph)
    rows = [(f"the edge {sender!r} → {receiver!r}", attributes) for sender, receiver, attributes in listed]
    nodes = [(f"the node {name!r}", attributes) for name, attributes in graph.nodes(data=True)]
    if edge_attributes is None:
        edge_attributes = own_names(verb, EDGE, dict.fromkeys(key for _, own in rows for key in own), "edge_attributes")
    if node_attributes is None:
        there = dict.fromkeys(key for _, own in nodes for key in own)
        node_attributes = own_names(verb, NODE, there, "node_attributes")
    senders = torch.tensor([place[sender] for sender, _, _ in listed], dtype=torch.int64)
    receivers = torch.tensor([place[receiver] for _, receiver, _ in listed], dtype=torch.int64)
    return WeightedGraph(
        Edges(senders, receivers, len(place), len(place)),
        numbers_of(verb, rows, edge_attributes, dtype),
        numbers_of(verb, nodes, node_attributes, dtype) if node_attributes else None,
        None if all(type(name) is int and name == number for name, number in place.items()) else tuple(place),
    )


def fit_arguments(
    graph: "networkx.Graph",
    *,
    features: Sequence[str],
    target: str,
    part: str | None = None,
    edge_features: Sequence[str] = (),
) -> dict[str, Any]:
    """What `NodeClassifier.fit` and `NodeRegressor.fit` take, from a graph whose nodes have attributes.

        classifier.fit(**fit_arguments(graph, features=["age"], target="team"))

    Nodes are rows in the order of `graph.nodes`; an undirected edge stands both ways.

    Args:
        graph: the graph.
        features: node attributes to learn from; each holds a number, or a list of numbers.
        target: the node attribute to learn; a node without it, or with None there, is part of the graph alone.
        part: the node attribute that holds train, val or test. Targets of test nodes, and of nodes in no part, are
            left out; val nodes choose the epoch. By default every node with a target trains.
        edge_features: edge attributes, for models that look at edges.

    Raises:
        DataError: a node lacks a feature, no node has the target, or a part is none of the three.
        SettingError: no feature is named.
    """
    verb, attributes = "fit_arguments", dict(graph.nodes(data=True))
    if not features:
        raise SettingError(f"{verb}: features is empty; name the node attributes to learn from.")
    if not any(target in own for own in attributes.values()):
        raise DataError(f"{verb}: no node has the target {target!r}.")
    read = from_networkx(graph, node_attributes=features, edge_attributes=edge_features, dtype=torch.float64)
    parts = [None if part is None else own.get(part) for own in attributes.values()]
    for name, found in zip(attributes, parts):
        if found is not None and found not in PARTS:
            raise DataError(f"{verb}: the node {name!r} has the part {found!r}; expected one of {', '.join(PARTS)}.")
    is_seen = [part is None or found in ("train", "val") for found in parts]
    targets = np.empty(len(attributes), dtype=object)
    targets[:] = [own.get(target) if seen else None for own, seen in zip(attributes.values(), is_seen)]
    return {
        "X": read.node_features,
        "y": targets,
        "edges": read.edges,
        "edge_features": array_of(read.edge_features) if edge_features else None,
        "validation": None if part is None else np.array([found == "val" for found in parts], dtype=bool),
    }


def _edges(graph: "networkx.Graph") -> list[tuple[Hashable, Hashable, dict[str, Any]]]:
    """Sender, receiver and attributes of each edge."""
    if graph.is_multigraph():
        keyed = [(key, (*ends, own)) for *ends, key, own in graph.edges(keys=True, data=True)]
        numbers = [key for key, _ in keyed]
        if all(type(key) is int for key in numbers) and sorted(numbers) == list(range(len(keyed))):
            keyed.sort(key=lambda edge: edge[0])
        listed = [edge for _, edge in keyed]
    else:
        listed = list(graph.edges(data=True))
    if graph.is_directed():
        return listed
    return listed + [(receiver, sender, own) for sender, receiver, own in listed if sender != receiver]
