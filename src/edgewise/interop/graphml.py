"""Graphs to and from GraphML, the XML that Gephi, Cytoscape and yEd read."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from xml.etree.ElementTree import ParseError

import torch

from edgewise.errors import DataError
from edgewise.graph import Graph
from edgewise.interop.attributes import TYPE, convertible, label, names_of, require_one_set
from edgewise.interop.networkx import from_networkx, networkx, to_networkx
from edgewise.neighborhood import Edges

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML may hold."""
ILLEGAL_CONTENT = re.compile(f"\r|{ILLEGAL.pattern}")
"""What the content of an element may not hold: a carriage return is read as the end of a line."""


def write_graphml(graph: Graph | Edges, path: str | os.PathLike[str]) -> None:
    """Write a graph as GraphML: nodes by their names as text or their numbers, edges in order, each feature a number.

    Features are called as in `to_networkx`; they are written with all their digits. A type whose name is a tuple is
    written as `author.writes.paper`.

    Raises:
        ShapeError: senders and receivers are two sets of nodes, or there are virtual nodes.
        DataError: the name of a node or type is empty or holds a character that XML cannot, or two are the same text.
    """
    graph = convertible("write_graphml", graph)
    require_one_set("write_graphml", graph)
    names = [str(name) for name in graph.names or range(graph.edges.num_senders)]
    _require_text("node", names, ILLEGAL)
    for kind, types in (("node type", graph.node_types), ("edge type", graph.edge_types)):
        _require_text(kind, [label(name) for name in names_of(types)], ILLEGAL_CONTENT)

    written = to_networkx(replace(graph, names=tuple(names), position_encodings=None))
    for attributes in chain(dict(written.nodes).values(), (row for *_, row in written.edges(data=True))):
        if isinstance(attributes.get(TYPE), tuple):
            attributes[TYPE] = label(attributes[TYPE])
    networkx.write_graphml_xml(written, path)


def _require_text(kind: str, names: Sequence[str], illegal: re.Pattern[str]) -> None:
    """Raise a DataError if XML cannot hold the names of nodes or types, or two are the same."""
    for name in names:
        if not name or illegal.search(name):
            raise DataError(f"write_graphml: the name {name!r} cannot stand in XML; name the {kind} otherwise.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"write_graphml: two {kind}s are called {twice!r} as text; names must differ.")


def read_graphml(
    path: str | os.PathLike[str],
    *,
    edge_attributes: Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
) -> Graph:
    """Read a graph from GraphML, ours or another's, as `from_networkx` reads it.

    Names are text; nodes that are called 0, 1, 2, … in this order have none. An undirected edge stands both ways.

    Args:
        path: the file.
        edge_attributes, node_attributes, dtype: as in `from_networkx`.

    Raises:
        DataError: the file does not exist, is not GraphML, or an attribute is invalid.
    """
    if not Path(path).is_file():
        raise DataError(f"read_graphml: {os.fspath(path)} does not exist.")

    try:
        read = networkx.read_graphml(path, force_multigraph=True)
    except (ParseError, networkx.NetworkXError, LookupError, ValueError, TypeError, AttributeError) as error:
        reason = f"{error!r}" if isinstance(error, LookupError) else f"{error}"
        raise DataError(f"read_graphml: {os.fspath(path)} is not GraphML of one graph: {reason}") from error

    graph = from_networkx(read, edge_attributes=edge_attributes, node_attributes=node_attributes, dtype=dtype)
    if graph.names == tuple(str(number) for number in range(graph.edges.num_senders)):
        return replace(graph, names=None)
    return graph
