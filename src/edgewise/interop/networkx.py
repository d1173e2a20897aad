"""Graphs to and from networkx."""

import json
import re
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from edgewise.errors import DataError, MissingExtraError, SettingError, ShapeError, refuse_single_text
from edgewise.graph import Graph
from edgewise.graph.features import Features
from edgewise.interop.attributes import (
    EDGE,
    NODE,
    PLACE,
    TYPE,
    array_of,
    column_names,
    convertible,
    label,
    matching_names,
    names_of,
    numbers_of,
    relations_of,
    require_one_set,
    tables_of,
    types_of,
)
from edgewise.neighborhood import Edges, Types

try:
    import networkx
except ModuleNotFoundError as error:
    raise MissingExtraError("networkx", "graphs") from error

PARTS = ("train", "val", "test")
NUMBERED = f"({NODE}|{PLACE}|{EDGE})_[0-9]+"
"""The names of feature columns if there are several."""
FORM = "edgewise"
"""The attribute of a graph in which `to_networkx` stores widths, dtypes and types, which Python numbers lack."""
Rows = Sequence[tuple[str, Mapping[str, Any]]]
"""The name of each row in messages, and its attributes."""


def to_networkx(graph: Graph | Edges) -> "networkx.MultiDiGraph":
    """A graph as a networkx graph: nodes by name or index, edges from sender to receiver.

    It is always a `MultiDiGraph`, which keeps parallel edges; the key of an edge is its index. An edge has
    `weight`, or `weight_0`, `weight_1`, … if there are several features (heads), and a node `feature`, or
    `feature_0`, … , `position_0`, … and, as edges, `type`; the type of an edge between named types of nodes is the word
    between these. If the features of types differ, those of the type `author` are `author.feature_0`, … . networkx's
    algorithms read `weight`; rows of its adjacency matrices are senders, rows of ours receivers.
    `graph.graph["edgewise"]` stores dtypes and types, for `from_networkx`. Position encodings are left out, with a
    warning.

    Raises:
        ShapeError: senders and receivers are two sets of nodes, it is a batch, or there are virtual nodes.

    >>> from edgewise import Edges
    >>> list(to_networkx(Edges([0, 0], [1, 1], 3, 3)).edges)
    [(0, 1, 0), (0, 1, 1)]
    """
    graph = convertible("to_networkx", graph)
    require_one_set("to_networkx", graph)
    if graph.offsets is not None:
        raise ShapeError(
            "to_networkx: it is a batch; write each graph: [to_networkx(member) for member in graph.unbatch()]."
        )

    edges = graph.edges
    names = list(range(edges.num_senders)) if graph.names is None else list(graph.names)
    form: dict[str, Any] = {}
    nodes: list[dict[str, Any]] = [{} for _ in names]
    _write(nodes, NODE, graph.dense_node_features, graph.node_types, form)
    _write(nodes, PLACE, graph.coordinates, None, form)
    _write_types(nodes, "node_types", graph.node_types, form)
    joins_types = graph.node_types is not None and graph.node_types.names is not None
    edge_attributes: list[dict[str, Any]] = [{} for _ in range(graph.num_edges)]
    _write(edge_attributes, EDGE, graph.edge_features, graph.edge_types, form)
    _write_types(edge_attributes, "edge_types", graph.edge_types, form, is_relation=joins_types)
    if graph.graph_features is not None:
        form["graph_features"] = [str(graph.graph_features.dtype), graph.graph_features.tolist()]
    result = networkx.MultiDiGraph(**({FORM: json.dumps(form)} if form else {}))
    result.add_nodes_from(zip(names, nodes))
    ends = zip(edges.senders.tolist(), edges.receivers.tolist(), edge_attributes)
    result.add_edges_from(
        (names[sender], names[receiver], key, row) for key, (sender, receiver, row) in enumerate(ends)
    )

    return result


def from_networkx(
    graph: "networkx.Graph",
    *,
    edge_attributes: Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    edge_type: str | None = None,
    node_type: str | None = None,
    dtype: torch.dtype | None = None,
) -> Graph:
    """A networkx graph of any class, as a `Graph`.

    Nodes keep their order, and their names unless those are 0, 1, 2, … . Edges come in the order of the graph, by
    sender, unless the keys of a multigraph number them, as those of `to_networkx` do. In an undirected graph every
    edge is listed twice, all reverses after all edges, and a loop once.

    Args:
        graph: `Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.
        edge_attributes: attributes to read as edge features, in this order; each is a number, or a list of numbers. By
            default `weight`, or `weight_0`, `weight_1`, …, if they are there; a warning names others.
        node_attributes: the same for node features; by default `feature`, or `feature_0`, `feature_1`, … .
        edge_type, node_type: attributes with types, names or integers; by default those that `to_networkx` wrote.
        dtype: dtype of the features; by default the one that `to_networkx` stored, else integers stay and others become
            torch's default dtype.

    Raises:
        DataError: an attribute is missing at some edges or nodes, or is not numeric.

    >>> import networkx
    >>> path = from_networkx(networkx.path_graph(["a", "b", "c"]))
    >>> path.names, path.edges.senders.tolist(), path.edges.receivers.tolist()
    (('a', 'b', 'c'), [0, 1, 1, 2], [1, 2, 0, 1])
    """
    refuse_single_text("edge_attributes", edge_attributes)
    refuse_single_text("node_attributes", node_attributes)
    index = {name: index for index, name in enumerate(graph.nodes)}
    listed, form = _edges(graph), json.loads(graph.graph.get(FORM, "{}"))
    rows = [(f"the edge {sender!r} → {receiver!r}", attributes) for sender, receiver, attributes in listed]
    nodes = [(f"the node {name!r}", attributes) for name, attributes in graph.nodes(data=True)]
    senders = torch.tensor([index[sender] for sender, _, _ in listed], dtype=torch.int64, device="cpu")
    receivers = torch.tensor([index[receiver] for _, receiver, _ in listed], dtype=torch.int64, device="cpu")
    edges = Edges(senders, receivers, len(index), len(index))
    node_types = _types(nodes, node_type, form.get("node_types"), types_of)
    edge_types = _types(rows, edge_type, form.get("edge_types"), partial(relations_of, node_types, edges))
    graph_features = form.get("graph_features")
    if not form and node_attributes is None and edge_attributes is None:
        _warn_of_unread(nodes, rows, graph.graph, {NODE, PLACE, EDGE, TYPE, node_type, edge_type})

    return Graph(
        _read(nodes, NODE, node_attributes, node_types, form, dtype),
        edges,
        _read(rows, EDGE, edge_attributes, edge_types, form, dtype),
        None
        if graph_features is None
        else torch.tensor(graph_features[1], dtype=_dtype(graph_features[0]), device="cpu"),
        node_types,
        edge_types,
        _table(nodes, PLACE, form[PLACE], None) if PLACE in form else None,
        names=tuple(index),
    )


def _write(
    rows: list[dict[str, Any]], prefix: str, features: Features | None, types: Types | None, form: dict[str, Any]
) -> None:
    """Writes features as attributes of the rows that have them; their form goes into `form`."""
    for column_prefix, rows_of_table, table in tables_of(prefix, features, types):
        columns = column_names(column_prefix, table.shape[1])
        form[column_prefix] = [str(table.dtype), len(columns)]
        row_numbers = range(len(rows)) if rows_of_table is None else rows_of_table.tolist()
        for row, values in zip(row_numbers, array_of(table).tolist()):
            rows[row] |= dict(zip(columns, values))


def _write_types(
    rows: list[dict[str, Any]], name: str, types: Types | None, form: dict[str, Any], *, is_relation: bool = False
) -> None:
    """Writes types as attributes of the rows; a relation without the types of the nodes that it joins."""
    if types is not None:
        form[name] = types.num_types if types.names is None else types.names
        names = [
            type_name[1] if is_relation and isinstance(type_name, tuple) else type_name for type_name in names_of(types)
        ]
        for row, number in zip(rows, types.of_row.tolist()):
            row[TYPE] = names[number]


def _read(
    rows: Rows,
    prefix: str,
    attributes: Sequence[str] | None,
    types: Types | None,
    form: dict[str, Any],
    dtype: torch.dtype | None,
) -> Features | None:
    """The features from attributes: those that are named, or those in the form, or the default ones."""
    column_prefixes = [f"{label(name)}.{prefix}" for name in names_of(types)]
    if attributes is None and types is not None and any(name in form for name in column_prefixes):
        rows_by_type = types.split(torch.arange(len(types), device=types.of_row.device))
        return tuple(
            _table([rows[row] for row in rows_of_type.tolist()], name, form[name], dtype) if name in form else None
            for name, rows_of_type in zip(column_prefixes, rows_by_type)
        )
    if attributes is None and prefix in form:
        return _table(rows, prefix, form[prefix], dtype)

    if attributes is None:
        existing = dict.fromkeys(key for _, row in rows for key in row)
        attributes = matching_names(
            "from_networkx", prefix, existing, f"{'edge' if prefix == EDGE else 'node'}_attributes"
        )
    return numbers_of("from_networkx", rows, attributes, dtype) if attributes else None


def _warn_of_unread(nodes: Rows, edges: Rows, graph_attributes: Mapping[str, Any], read: set[str | None]) -> None:
    """Warns of attributes that are not read but could be features, each once.

    Args:
        nodes, edges: their names in messages, and their attributes.
        graph_attributes: the attributes of the graph, of which numeric ones are reported.
        read: the attributes that are read.
    """
    for item, rows in (("node", nodes), ("edge", edges)):
        of_name = {str(name): value for _, attributes in rows for name, value in attributes.items()}
        unread = [name for name in of_name if name not in read and re.fullmatch(NUMBERED, name) is None]
        numbers = [name for name in unread if _is_numeric(of_name[name])]
        remedies = [f"name those that are features by {item}_attributes={numbers}"] if numbers else []
        if words := [name for name in unread if isinstance(of_name[name], str)]:
            remedies.append(f"words are types, {item}_type={words[0]!r}, or become numbers first")

        if unread := [*numbers, *words]:
            warnings.warn(
                f"from_networkx: the {item} attributes {', '.join(unread)} are not read; {'; '.join(remedies)}.",
                stacklevel=4,
            )

    if unread := [str(name) for name, value in graph_attributes.items() if _is_numeric(value)]:
        warnings.warn(
            f"from_networkx: the graph attributes {', '.join(unread)} are not read; numbers of a whole graph are "
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
    rows: Rows, attribute: str | None, stored: Any, make: Callable[[Sequence[Any], Sequence[Any] | None], Types]
) -> Types | None:
    """The types in an attribute; `stored` is their number, or their names."""
    if attribute is None and stored is None:
        return None
    attribute = TYPE if attribute is None else attribute
    for row, attributes in rows:
        if attribute not in attributes:
            raise DataError(f"from_networkx: {row} has no {attribute!r}, its type; give it one.")
    values = [attributes[attribute] for _, attributes in rows]
    if isinstance(stored, int):
        return Types(torch.tensor(values, dtype=torch.int64, device="cpu"), stored)
    return make(values, None if stored is None else [_hashable(name) for name in stored])


def _hashable(name: Any) -> Any:
    """A name out of JSON, where tuples are lists."""
    return tuple(map(_hashable, name)) if isinstance(name, list) else name


def fit_arguments(
    graph: "networkx.Graph",
    *,
    features: Sequence[str],
    target: str,
    part: str | None = None,
    edge_features: Sequence[str] = (),
) -> dict[str, Any]:
    """The arguments of `NodeClassifier.fit` and `NodeRegressor.fit`, from a graph whose nodes have attributes.

        classifier.fit(**fit_arguments(graph, features=["age"], target="team"))

    Nodes are rows in the order of `graph.nodes`; an undirected edge is listed in both directions.

    Args:
        graph: the graph.
        features: node attributes to learn from; each is a number, or a list of numbers.
        target: the node attribute to learn; a node without it, or with None, is only part of the graph.
        part: the node attribute with the split: train, val or test. Targets of test nodes, and of nodes without a
            split, are left out; val nodes choose the epoch. By default every node with a target trains.
        edge_features: edge attributes, for models that use edge features.

    Raises:
        DataError: a node lacks a feature, no node has the target, or a split is not one of the three.
        SettingError: no feature is named.
    """
    verb, attributes = "fit_arguments", dict(graph.nodes(data=True))
    refuse_single_text("features", features)
    refuse_single_text("edge_features", edge_features)
    if not features:
        raise SettingError(f"{verb}: features is empty; name the node attributes to learn from.")
    if not any(target in node_attributes for node_attributes in attributes.values()):
        raise DataError(f"{verb}: no node has the target {target!r}.")

    converted = from_networkx(graph, node_attributes=features, edge_attributes=edge_features, dtype=torch.float64)
    splits = [None if part is None else node_attributes.get(part) for node_attributes in attributes.values()]
    for name, split in zip(attributes, splits):
        if split is not None and split not in PARTS:
            raise DataError(f"{verb}: the node {name!r} has the part {split!r}; expected one of {', '.join(PARTS)}.")

    is_seen = [part is None or split in ("train", "val") for split in splits]
    targets = np.empty(len(attributes), dtype=object)
    targets[:] = [
        node_attributes.get(target) if seen else None for node_attributes, seen in zip(attributes.values(), is_seen)
    ]
    return {
        "X": converted.node_features,
        "y": targets,
        "edges": converted.edges,
        "edge_features": array_of(converted.edge_features)
        if isinstance(converted.edge_features, torch.Tensor)
        else None,
        "validation": None if part is None else np.array([split == "val" for split in splits], dtype=bool),
    }


def _edges(graph: "networkx.Graph") -> list[tuple[Hashable, Hashable, dict[str, Any]]]:
    """Sender, receiver and attributes of each edge."""
    if graph.is_multigraph():
        keyed = [(key, (*ends, attributes)) for *ends, key, attributes in graph.edges(keys=True, data=True)]
        numbers = [key for key, _ in keyed]
        if all(type(key) is int for key in numbers) and sorted(numbers) == list(range(len(keyed))):
            keyed.sort(key=lambda edge: edge[0])
        edges = [edge for _, edge in keyed]
    else:
        edges = list(graph.edges(data=True))
    if graph.is_directed():
        return edges
    return edges + [(receiver, sender, attributes) for sender, receiver, attributes in edges if sender != receiver]
