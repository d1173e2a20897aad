"""What graphs of other libraries carry on edges and nodes: what ours are called there, and numbers read off them."""

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, ShapeError, plural
from edgewise.graph import JOIN, Graph
from edgewise.graph.features import Features
from edgewise.neighborhood import Edges, Types

EDGE, NODE, PLACE, TYPE = "weight", "feature", "position", "type"
"""What a feature of edges, one of nodes, a coordinate and a type are called; several numbers count from 0."""


def convertible(verb: str, graph: Graph | Edges, *, has_nodes: bool = True) -> Graph:
    """A graph, or edges alone, as a graph that another library can hold.

    Args:
        verb: the converter, for messages.
        graph: the graph. Position encodings are left out with a warning.
        has_nodes: whether the other form has data of nodes at all.

    Raises:
        ShapeError: the graph has virtual nodes, which its tables of nodes do not have.
    """
    graph = Graph.of(graph)
    if graph.num_virtual_nodes:
        raise ShapeError(
            f"{verb}: the graph has {plural(graph.num_virtual_nodes, 'virtual node')}, which other libraries do not "
            "know; convert the graph before they are added."
        )
    if has_nodes and graph.position_encodings is not None:
        warnings.warn(
            f"{verb}: position_encodings are not written; join them with node_features, or set them again.",
            stacklevel=3,
        )
    return graph


def label(name: Hashable) -> str:
    """The name of a type as the beginning of a column: `author.feature_0`."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def names_of(types: Types | None) -> Sequence[Hashable]:
    """The names of types, or their indices if they have none."""
    if types is None:
        return ()
    return range(types.num_types) if types.names is None else types.names


def tables_of(prefix: str, features: Features | None, types: Types | None) -> list[tuple[str, Tensor | None, Tensor]]:
    """The column prefix of each table of features, the rows that have it (None for all), and the table."""
    if isinstance(features, tuple) and types is not None:
        parts = zip(names_of(types), types.split(torch.arange(len(types), device=types.of_row.device)), features)
        return [(f"{label(name)}.{prefix}", rows, part) for name, rows, part in parts if part is not None]
    return [(prefix, None, features)] if isinstance(features, Tensor) else []


def relations_of(
    node_types: Types | None, edges: Edges, names: Sequence[Any], known_names: Sequence[Any] | None = None
) -> Types:
    """The types of edges by their names; where node types have names, each name is put between those that it joins."""
    if node_types is None or node_types.names is None or (names and all(isinstance(name, tuple) for name in names)):
        return types_of(names, known_names)
    node_names = [node_types.names[number] for number in node_types.of_row.tolist()]
    ends = zip(edges.senders.tolist(), names, edges.receivers.tolist())
    return types_of([(node_names[sender], name, node_names[receiver]) for sender, name, receiver in ends], known_names)


def types_of(names: Sequence[Any], known_names: Sequence[Any] | None = None) -> Types:
    """Types by their names, known names first, of which tuples may come as their labels; integer types stay unnamed."""
    if known_names is None and all(type(name) is int for name in names):
        return Types(torch.tensor(names, dtype=torch.int64, device="cpu"), 1 + max(names, default=-1))
    of_label = {label(name): name for name in known_names or () if isinstance(name, tuple)}
    names = [name if isinstance(name, tuple) else of_label.get(name, name) for name in names]
    return Types.of(names, tuple(dict.fromkeys([*(known_names or ()), *names])))


def require_one_set(verb: str, graph: Graph) -> None:
    """Raise a ShapeError if senders and receivers are two sets of nodes."""
    if graph.is_bipartite:
        raise ShapeError(
            f"{verb}: there are {graph.edges.num_senders} senders and "
            f"{plural(graph.edges.num_receivers, 'receiver')}, but it "
            f"needs one set of nodes; {JOIN}."
        )


def array_of(numbers: Tensor) -> np.ndarray:
    """A tensor as an array; half precision, which numpy supports only in part, becomes float32."""
    numbers = numbers.detach().cpu()
    return (numbers.float() if numbers.dtype in (torch.float16, torch.bfloat16) else numbers).numpy()


def column_names(prefix: str, count: int) -> list[str]:
    """`weight` for one column, `weight_0`, `weight_1`, … for several."""
    return [prefix] if count == 1 else [f"{prefix}_{index}" for index in range(count)]


def numbered_names(prefix: str, existing: Iterable[Any]) -> list[str]:
    """Those of the existing names that are the prefix, alone or with a number: `weight`, `weight_0`."""
    return [name for name in existing if isinstance(name, str) and re.fullmatch(rf"{re.escape(prefix)}(_\d+)?", name)]


def matching_names(verb: str, prefix: str, existing: Iterable[str], option: str) -> list[str]:
    """Those of the existing names that `column_names` would have made.

    Raises:
        DataError: numbered and unnumbered names are mixed, or the numbers have a gap.
    """
    matching = numbered_names(prefix, existing)
    expected = column_names(prefix, len(matching))
    if set(matching) != set(expected):
        raise DataError(
            f"{verb}: {', '.join(sorted(matching))} exist, expected {', '.join(expected)}; name those to read: "
            f"{option}=[…]."
        )
    return expected


def numbers_of(
    verb: str, rows: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str], dtype: torch.dtype | None
) -> Tensor:
    """`(row, column)`: numeric attributes, of one or several numbers each.

    Args:
        verb: the function, for messages.
        rows: the name of each row in messages, and its attributes.
        names: names of the attributes.
        dtype: dtype of the result; None keeps integers, and converts others to torch's default dtype.

    Raises:
        DataError: a row lacks an attribute, or its value is not numeric or has another length than in the first row.
    """
    columns: list[np.ndarray] = []
    for name in names:
        if rows and not any(name in attributes for _, attributes in rows):
            present = dict.fromkeys(str(key) for _, attributes in rows for key in attributes)
            raise DataError(f"{verb}: {rows[0][0]} has no {name!r}; attributes are {', '.join(present) or 'none'}.")
        values_of_rows = [_numbers(verb, row, name, attributes) for row, attributes in rows]
        for (row, _), values in zip(rows, values_of_rows):
            if len(values) != len(values_of_rows[0]):
                raise DataError(
                    f"{verb}: {name!r} holds {plural(len(values), 'number')} at {row}, but "
                    f"{len(values_of_rows[0])} at {rows[0][0]}."
                )
        columns.append(np.array(values_of_rows).reshape(len(rows), -1 if values_of_rows else 1))

    numbers = np.concatenate(columns, 1) if columns else np.zeros((len(rows), 0))
    numbers = (
        numbers if numbers.dtype.kind in "biu" else numbers.astype(np.float64)
    )  # integers beyond int64 have dtype object
    default = None if numbers.dtype.kind in "biu" and len(rows) else torch.get_default_dtype()
    return torch.as_tensor(numbers, device="cpu").to(default if dtype is None else dtype)


def _numbers(verb: str, row: str, name: str, attributes: Mapping[str, Any]) -> list[Real]:
    if name not in attributes:
        raise DataError(f"{verb}: {row} has no {name!r}, but others have; add it, or leave the attribute out.")
    value = attributes[name]
    values = value.tolist() if isinstance(value, np.ndarray | Tensor | np.generic) else value
    values = list(values) if isinstance(values, list | tuple) else [values]
    if not all(isinstance(value, Real) for value in values):
        raise DataError(f"{verb}: {name!r} is {value!r} at {row}; expected a number, or a list of numbers.")
    return values
