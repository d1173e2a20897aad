"""What graphs of other libraries carry on edges and nodes: what ours are called there, and numbers read off them."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, ShapeError
from edgewise.formatting import plural
from edgewise.graph import JOIN, Graph
from edgewise.graph.features import Features
from edgewise.neighborhood import Edges, Types

EDGE, NODE, PLACE, TYPE = "weight", "feature", "position", "type"
"""What a feature of edges, one of nodes, a coordinate and a type are called; several numbers count from 0."""


def weighted(graph: Graph | Edges) -> Graph:
    """Edges alone are a graph of which nothing more is known."""
    return Graph.of(graph)


def label(name: Hashable) -> str:
    """The name of a type as the beginning of a column: `author.feature_0`."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def names_of(types: Types | None) -> Sequence[Hashable]:
    """What types are called: by their numbers where they have no names."""
    if types is None:
        return ()
    return range(types.num_types) if types.names is None else types.names


def tables_of(prefix: str, features: Features | None, types: Types | None) -> list[tuple[str, Tensor | None, Tensor]]:
    """What the columns of each table of features are called, the rows that have it, None for all, and the table."""
    if isinstance(features, tuple) and types is not None:
        parts = zip(names_of(types), types.split(torch.arange(len(types), device=types.of_row.device)), features)
        return [(f"{label(name)}.{prefix}", rows, part) for name, rows, part in parts if part is not None]
    return [(prefix, None, features)] if isinstance(features, Tensor) else []


def relations_of(
    node_types: Types | None, edges: Edges, names: Sequence[Any], known: Sequence[Any] | None = None
) -> Types:
    """The types of edges by their names; where node types have names, each name stands between those it joins."""
    if node_types is None or node_types.names is None or (names and all(isinstance(name, tuple) for name in names)):
        return types_of(names, known)
    called = [node_types.names[number] for number in node_types.of_row.tolist()]
    ends = zip(edges.senders.tolist(), names, edges.receivers.tolist())
    return types_of([(called[sender], name, called[receiver]) for sender, name, receiver in ends], known)


def types_of(names: Sequence[Any], known: Sequence[Any] | None = None) -> Types:
    """Types by their names, those that are known first; whole numbers have no names."""
    if known is None and all(type(name) is int for name in names):
        return Types(torch.tensor(names, dtype=torch.int64, device="cpu"), 1 + max(names, default=-1))
    return Types.of(names, tuple(dict.fromkeys([*(known or ()), *names])))


def require_one_set(verb: str, graph: Graph) -> None:
    """Raise a ShapeError where senders and receivers are two sets of nodes."""
    if graph.is_bipartite:
        raise ShapeError(
            f"{verb}: there are {graph.edges.num_senders} senders and "
            f"{plural(graph.edges.num_receivers, 'receiver')}, but it "
            f"knows one set of nodes; {JOIN}."
        )


def array_of(numbers: Tensor) -> np.ndarray:
    """The numbers of a tensor, on their own; half precision, which numpy lacks in part, becomes float32."""
    numbers = numbers.detach().cpu()
    return (numbers.float() if numbers.dtype in (torch.float16, torch.bfloat16) else numbers).numpy()


def column_names(prefix: str, count: int) -> list[str]:
    """`weight` for one column, `weight_0`, `weight_1`, … for several."""
    return [prefix] if count == 1 else [f"{prefix}_{place}" for place in range(count)]


def own_names(verb: str, prefix: str, there: Iterable[str], option: str) -> list[str]:
    """Which of the names that are there `column_names` would have given.

    Raises:
        DataError: the one and the numbered stand side by side, or the numbers have a gap.
    """
    found = [name for name in there if isinstance(name, str) and re.fullmatch(rf"{re.escape(prefix)}(_\d+)?", name)]
    expected = column_names(prefix, len(found))
    if set(found) != set(expected):
        raise DataError(
            f"{verb}: {', '.join(sorted(found))} are there, expected {', '.join(expected)}; name those to read: "
            f"{option}=[…]."
        )
    return expected


def numbers_of(
    verb: str, rows: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str], dtype: torch.dtype | None
) -> Tensor:
    """`(row, column)`: the numbers that attributes hold, one or several each.

    Args:
        verb: the function, for messages.
        rows: what each row is called in messages, and its attributes.
        names: of the attributes.
        dtype: of the numbers; None keeps whole numbers, and makes others of torch's default dtype.

    Raises:
        DataError: a row lacks an attribute, it holds no number, or not as many as in the first row.
    """
    columns: list[np.ndarray] = []
    for name in names:
        listed = [_numbers(verb, row, name, attributes) for row, attributes in rows]
        for (row, _), values in zip(rows, listed):
            if len(values) != len(listed[0]):
                raise DataError(
                    f"{verb}: {name!r} holds {plural(len(values), 'number')} at {row}, but "
                    f"{len(listed[0])} at {rows[0][0]}."
                )
        columns.append(np.array(listed).reshape(len(rows), -1 if listed else 1))
    found = np.concatenate(columns, 1) if columns else np.zeros((len(rows), 0))
    found = found if found.dtype.kind in "biu" else found.astype(np.float64)  # whole numbers beyond int64 are objects
    default = None if found.dtype.kind in "biu" and len(rows) else torch.get_default_dtype()
    return torch.as_tensor(found, device="cpu").to(default if dtype is None else dtype)


def _numbers(verb: str, row: str, name: str, attributes: Mapping[str, Any]) -> list[Real]:
    if name not in attributes:
        raise DataError(f"{verb}: {row} has no {name!r}, others have; give it one, or leave the attribute out.")
    held = attributes[name]
    values = held.tolist() if isinstance(held, np.ndarray | Tensor | np.generic) else held
    values = list(values) if isinstance(values, list | tuple) else [values]
    if not all(isinstance(value, Real) for value in values):
        raise DataError(f"{verb}: {name!r} is {held!r} at {row}; expected a number, or a list of numbers.")
    return values
