"""Graphs to and from networkx."""

import json
import re
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.graph.features import Features
from edgewise.interop.attributes import (
    EDGE,
    NODE,
    PLACE,
    TYPE,
    array_of,
    column_names,
    label,
    names_of,
    numbers_of,
    own_names,
    relations_of,
    require_one_set,
    tables_of,
    types_of,
    weighted,
)
from edgewise.neighborhood import Edges, Types

try:
    import networkx
except ModuleNotFoundError as error:
    raise MissingExtraError("networkx", "graphs") from error

PARTS = ("train", "val", "test")
NUMBERED = f"({NODE}|{PLACE}|{EDGE})_[0-9]+"
"""What the columns of features are called where there are several."""
FORM = "edgewise"
"""The attribute of a graph in which `to_networkx` stores what numbers of Python lack: widths, dtypes, types."""
Rows = Sequence[tuple[str, Mapping[str, Any]]]
"""What each row is called in messages, and its attributes."""


def to_networkx(graph: Graph | Edges) -> "networkx.MultiDiGraph":
    """A graph as networkx has it: a node a node, by its name or number; an edge from sender to receiver.

    It is always a `MultiDiGraph`, in which parallel edges stay apart; the key of an edge is its number. An edge has
    `weight`, or `weight_0`, `weight_1`, … where there are several features (heads), and a node `feature`, or
    `feature_0`, … , `position_0`, … and, as edges, `type`; where the features of types differ, those of the type
    `author` are `author.feature_0`, … . networkx's algorithms read `weight`; its adjacency matrices have a row a
    sender, ours a row a receiver. `graph.graph["edgewise"]` notes dtypes and types, for the way back.

    Raises:
        ShapeError: senders and receivers are two sets of nodes, or it is a batch.

    >>> from edgewise import Edges
    >>> list(to_networkx(Edges([0, 0], [1, 1], 3, 3)).edges)
    [(0, 1, 0), (0, 1, 1)]
    """
    graph = weighted(graph)
    require_one_set("to_networkx", graph)
    if graph.offsets is not None:
        raise ShapeError("to_networkx: it is a batch; write each graph: [to_networkx(one) for one in graph.unbatch()].")
    edges = graph.edges
    names = list(range(edges.num_senders)) if graph.names is None else list(graph.names)
    form: dict[str, Any] = {}
    nodes: list[dict[str, Any]] = [{} for _ in names]
    _write(nodes, NODE, graph.node_features, graph.node_types, form)
    _write(nodes, PLACE, graph.positions, None, form)
    _write_types(nodes, "node_types", graph.node_types, form)
    own: list[dict[str, Any]] = [{} for _ in range(graph.num_edges)]
    _write(own, EDGE, graph.edge_features, graph.edge_types, form)
    _write_types(own, "edge_types", graph.edge_types, form)
    if graph.graph_features is not None:
        form["graph_features"] = [str(graph.graph_features.dtype), graph.graph_features.tolist()]
    found = networkx.MultiDiGraph(**({FORM: json.dumps(form)} if form else {}))
    found.add_nodes_from(zip(names, nodes))
    ends = zip(edges.senders.tolist(), edges.receivers.tolist(), own)
    found.add_edges_from((names[sender], names[receiver], key, row) for key, (sender, receiver, row) in enumerate(ends))
    return found


def from_networkx(
    graph: "networkx.Graph",
    *,
    edge_attributes: Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    edge_type: str | None = None,
    node_type: str | None = None,
    dtype: torch.dtype | None = None,
) -> Graph:
    """A graph of networkx, of whatever class, as edges with features.

    Nodes keep their order, and their names where those are not 0, 1, 2, … . Edges come in the order of the graph, by
    sender, unless the keys of a multigraph number them, as those of `to_networkx` do. Of an undirected graph every
    edge stands twice, all the reverses behind all the edges, a loop once.

    Args:
        graph: `Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.
        edge_attributes: what to read as edge features, in this order; each holds a number, or a list of numbers. By
            default `weight`, or `weight_0`, `weight_1`, …, if they are there; a warning names others.
        node_attributes: the like for node features; by default `feature`, or `feature_0`, `feature_1`, … .
        edge_type, node_type: the attributes that hold types, names or whole numbers; by default those that
            `to_networkx` wrote.
        dtype: of the features; by default the one that `to_networkx` noted, else whole numbers stay and others become
            torch's default dtype.

    Raises:
        DataError: an attribute is missing at some edges or nodes, or holds no numbers.

    >>> import networkx
    >>> path = from_networkx(networkx.path_graph(["a", "b", "c"]))
    >>> path.names, path.edges.senders.tolist(), path.edges.receivers.tolist()
    (('a', 'b', 'c'), [0, 1, 1, 2], [1, 2, 0, 1])
    """
    _refuse_one_name(edge_attributes=edge_attributes, node_attributes=node_attributes)
    place = {name: place for place, name in enumerate(graph.nodes)}
    listed, form = _edges(graph), json.loads(graph.graph.get(FORM, "{}"))
    rows = [(f"the edge {sender!r} → {receiver!r}", attributes) for sender, receiver, attributes in listed]
    nodes = [(f"the node {name!r}", attributes) for name, attributes in graph.nodes(data=True)]
    senders = torch.tensor([place[sender] for sender, _, _ in listed], dtype=torch.int64, device="cpu")
    receivers = torch.tensor([place[receiver] for _, receiver, _ in listed], dtype=torch.int64, device="cpu")
    edges = Edges(senders, receivers, len(place), len(place))
    node_types = _types(nodes, node_type, form.get("node_types"), types_of)
    edge_types = _types(rows, edge_type, form.get("edge_types"), partial(relations_of, node_types, edges))
    known = form.get("graph_features")
    if not form and node_attributes is None and edge_attributes is None:
        _warn_of_unread(nodes, rows, graph.graph, {NODE, PLACE, EDGE, TYPE, node_type, edge_type})
    return Graph(
        _read(nodes, NODE, node_attributes, node_types, form, dtype),
        edges,
        _read(rows, EDGE, edge_attributes, edge_types, form, dtype),
        None if known is None else torch.tensor(known[1], dtype=_dtype(known[0]), device="cpu"),
        node_types,
        edge_types,
        _table(nodes, PLACE, form[PLACE], None) if PLACE in form else None,
        names=tuple(place),
    )


def _refuse_one_name(**options: Sequence[str] | None) -> None:
    """Raise DataError where a name stands in place of several: Python would take its characters."""
    for option, names in options.items():
        if isinstance(names, str):
            raise DataError(f"{option} is one text, {names!r}, where several are expected; put it into a list.")


def _write(
    rows: list[dict[str, Any]], prefix: str, features: Features | None, types: Types | None, form: dict[str, Any]
) -> None:
    """Features as attributes of the rows that have them; what they are goes into the form."""
    for called, own, table in tables_of(prefix, features, types):
        columns = column_names(called, table.shape[1])
        form[called] = [str(table.dtype), len(columns)]
        places = range(len(rows)) if own is None else own.tolist()
        for row, values in zip(places, array_of(table).tolist()):
            rows[row] |= dict(zip(columns, values))


def _write_types(rows: list[dict[str, Any]], name: str, types: Types | None, form: dict[str, Any]) -> None:
    if types is not None:
        form[name] = types.num_types if types.names is None else types.names
        for row, number in zip(rows, types.of_row.tolist()):
            called = number if types.names is None else types.names[number]
            row[TYPE] = called[1] if isinstance(called, tuple) else called


def _read(
    rows: Rows,
    prefix: str,
    attributes: Sequence[str] | None,
    types: Types | None,
    form: dict[str, Any],
    dtype: torch.dtype | None,
) -> Features | None:
    """The features that attributes hold: those that are named, or those that the form notes, or the usual ones."""
    called = [f"{label(name)}.{prefix}" for name in names_of(types)]
    if attributes is None and types is not None and any(name in form for name in called):
        parts = types.split(torch.arange(len(types), device=types.of_row.device))
        return tuple(
            _table([rows[row] for row in own.tolist()], name, form[name], dtype) if name in form else None
            for name, own in zip(called, parts)
        )
    if attributes is None and prefix in form:
        return _table(rows, prefix, form[prefix], dtype)
    if attributes is None:
        there = dict.fromkeys(key for _, own in rows for key in own)
        attributes = own_names("from_networkx", prefix, there, f"{'edge' if prefix == EDGE else 'node'}_attributes")
    return numbers_of("from_networkx", rows, attributes, dtype) if attributes else None


def _warn_of_unread(nodes: Rows, edges: Rows, whole: Mapping[str, Any], read: set[str | None]) -> None:
    """Warn of attributes, which could be features, that become no part of the graph, each once.

    Args:
        nodes, edges: what they are called, and their attributes.
        whole: the attributes of the graph, of which those that hold numbers are said.
        read: the attributes that are read.
    """
    for what, rows in (("node", nodes), ("edge", edges)):
        of_name = {str(name): value for _, attributes in rows for name, value in attributes.items()}
        unread = [name for name in of_name if name not in read and re.fullmatch(NUMBERED, name) is None]
        numbers = [name for name in unread if _is_numeric(of_name[name])]
        remedies = [f"name those that are features by {what}_attributes={numbers}"] if numbers else []
        if words := [name for name in unread if isinstance(of_name[name], str)]:
            remedies.append(f"words are types, {what}_type={words[0]!r}, or become numbers first")
        if unread := [*numbers, *words]:
            warnings.warn(
                f"from_networkx: the {what} attributes {', '.join(unread)} are not read; {'; '.join(remedies)}.",
                stacklevel=4,
            )
    if unread := [str(name) for name, value in whole.items() if _is_numeric(value)]:
        warnings.warn(
            f"from_networkx: the graph attributes {', '.join(unread)} are not read; numbers of a graph as a whole are "
            "graph_features.",
            stacklevel=4,
        )


def _is_numeric(value: Any) -> bool:
    """Whether an attribute is a number or a list of numbers."""
    array = np.asarray(value)
    return array.ndim < 2 and array.dtype.kind in "biuf"


def _table(rows: Rows, prefix: str, noted: Sequence[Any], dtype: torch.dtype | None) -> torch.Tensor:
    return numbers_of("from_networkx", rows, column_names(prefix, noted[1]), dtype or _dtype(noted[0]))


def _dtype(name: str) -> torch.dtype:
    return getattr(torch, name.removeprefix("torch."))


def _types(
    rows: Rows, attribute: str | None, noted: Any, make: Callable[[Sequence[Any], Sequence[Any] | None], Types]
) -> Types | None:
    """The types that an attribute holds; noted is how many there are, or their names."""
    if attribute is None and noted is None:
        return None
    attribute = TYPE if attribute is None else attribute
    for row, own in rows:
        if attribute not in own:
            raise DataError(f"from_networkx: {row} has no {attribute!r}, its type; give it one.")
    held = [own[attribute] for _, own in rows]
    if isinstance(noted, int):
        return Types(torch.tensor(held, dtype=torch.int64, device="cpu"), noted)
    return make(held, None if noted is None else [tuple(name) if isinstance(name, list) else name for name in noted])


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
    _refuse_one_name(features=features, edge_features=edge_features)
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
        "edge_features": array_of(read.edge_features) if isinstance(read.edge_features, torch.Tensor) else None,
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
