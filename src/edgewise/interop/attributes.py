"""What graphs of other libraries carry on edges and nodes: what ours are called there, and numbers read off them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, ShapeError
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.trace import JOIN, WeightedGraph

EDGE, NODE = "weight", "feature"
"""What a feature of edges, and one of nodes, is called where it must have a name; several are numbered from 0."""


def weighted(graph: WeightedGraph | Edges) -> WeightedGraph:
    """Edges alone are a graph of which nothing more is known."""
    return WeightedGraph.unweighted(graph) if isinstance(graph, Edges) else graph


def require_one_set(verb: str, graph: WeightedGraph) -> None:
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
    found = [name for name in there if isinstance(name, str) and re.fullmatch(rf"{prefix}(_\d+)?", name)]
    expected = column_names(prefix, len(found))
    if set(found) != set(expected):
        raise DataError(
            f"{verb}: {', '.join(sorted(found))} are there, expected {', '.join(expected)}; say which to read: "
            f"{option}=[…]."
        )
    return expected


def numbers_of(
    verb: str, rows: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str], dtype: torch.dtype
) -> Tensor:
    """`(row, column)`: the numbers that attributes hold, one or several each.

    Args:
        verb: who asks.
        rows: what each row is called in messages, and its attributes.
        names: of the attributes.
        dtype: of the numbers.

    Raises:
        DataError: a row lacks an attribute, it holds no number, or not as many as in the first row.
    """
    columns = [np.zeros((len(rows), 0))]
    for name in names:
        listed = [_numbers(verb, row, name, attributes) for row, attributes in rows]
        for (row, _), values in zip(rows, listed):
            if len(values) != len(listed[0]):
                raise DataError(
                    f"{verb}: {name!r} holds {plural(len(values), 'number')} at {row}, but "
                    f"{len(listed[0])} at {rows[0][0]}."
                )
        columns.append(np.array(listed, dtype=np.float64).reshape(len(rows), -1 if listed else 1))
    return torch.as_tensor(np.concatenate(columns, 1)).to(dtype)


def _numbers(verb: str, row: str, name: str, attributes: Mapping[str, Any]) -> list[float]:
    if name not in attributes:
        raise DataError(f"{verb}: {row} has no {name!r}, others have; give it one, or leave the attribute out.")
    held = attributes[name]
    values = held.tolist() if isinstance(held, np.ndarray | Tensor | np.generic) else held
    values = list(values) if isinstance(values, list | tuple) else [values]
    if not all(isinstance(value, Real) for value in values):
        raise DataError(f"{verb}: {name!r} is {held!r} at {row}; expected a number, or a list of numbers.")
    return [float(value) for value in values]
