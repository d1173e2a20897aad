"""Tables of features, one for all rows or one for each type: checked, cut to some rows, put behind each other."""

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.formatting import plural
from edgewise.neighborhood import Types

Features = Tensor | tuple[Tensor | None, ...]
"""One table `(row, feature)`; or a table for each type of rows, None where the type has no features."""
Part = tuple[Features | None, Types | None, int]
"""The features of one graph, the types of its rows and how many rows there are."""


def checked_features(name: str, features: Features | None, types: Types | None, num_rows: int) -> Features | None:
    """The features in their one form: one table where all types have the same width and dtype, None where there is
    nothing.

    Raises:
        ShapeError: a table is none, or has not a row for each row of its type.
    """
    if not isinstance(features, tuple):
        return _checked(name, features, num_rows)
    if types is None:
        raise ShapeError(f"Graph: {name} is a tuple, a table for each type, but rows have no types; give one table.")
    if len(features) != types.num_types:
        raise ShapeError(f"Graph: {name} has {plural(len(features), 'table')}, but there are {types.num_types} types.")
    sizes = zip(features, types.sizes)
    parts = tuple(_checked(f"{name}[{number}]", part, size) for number, (part, size) in enumerate(sizes))
    there = [part for part in parts if part is not None]
    if len(there) == len(parts) and len({(part.shape[1], part.dtype) for part in there}) == 1:
        return types.join(there)
    return parts if there else None


def by_type(features: Features | None, types: Types) -> tuple[Tensor | None, ...]:
    """The table of each type, whatever form they have."""
    if features is None:
        return (None,) * types.num_types
    return types.split(features) if isinstance(features, Tensor) else features


def taken(features: Features | None, types: Types | None, rows: Tensor) -> Features | None:
    """The features of some rows, in their order."""
    if features is None or isinstance(features, Tensor):
        return None if features is None else features[rows]
    assert types is not None
    ranks, of_row = types.ranks[rows], types.of_row[rows]
    return tuple(None if part is None else part[ranks[of_row == number]] for number, part in enumerate(features))


def repeated(features: Features | None, types: Types | None, rows: Tensor, new: Types | None) -> Features | None:
    """The features, and behind them those of some rows once more, which are of other types there."""
    if features is None or isinstance(features, Tensor):
        return None if features is None else torch.cat([features, features[rows]])
    assert types is not None and new is not None
    parts = [*features, *[None] * (new.num_types - len(features))]
    is_added = torch.arange(len(new), device=rows.device) >= len(types)
    for number, part in enumerate(by_type(taken(features, types, rows), types[rows])):
        if part is not None and len(part):
            of_row = new.of_row[is_added][types.of_row[rows] == number]
            own = parts[int(of_row[0])]
            parts[int(of_row[0])] = part if own is None else torch.cat([own, part])
    return tuple(parts)


def behind(name: str, parts: Sequence[tuple[Tensor | None, int]]) -> Tensor | None:
    """Tables of several graphs behind each other; one without rows may be missing.

    Raises:
        ShapeError: a graph has none, or one of another width or dtype.
    """
    there = [(number, part) for number, (part, _) in enumerate(parts) if part is not None]
    if not there:
        return None
    first, like = there[0]
    for number, (part, size) in enumerate(parts):
        if part is None and size:
            raise ShapeError(f"Graph.batch: graph {number} has no {name}, but graph {first} has; give all or none.")
        if part is not None and (part.shape[1], part.dtype) != (like.shape[1], like.dtype):
            raise ShapeError(
                f"Graph.batch: {name} of graph {number} is (…, {part.shape[1]}) of {part.dtype}, but of graph {first} "
                f"(…, {like.shape[1]}) of {like.dtype}."
            )
    return torch.cat([part for _, part in there])


def joined(name: str, parts: Sequence[Part]) -> tuple[Features | None, Types | None]:
    """Features and types of several graphs behind each other; types of one name are one type.

    Raises:
        ShapeError: they do not fit, or some rows have types (or names of types) and others have none.
    """
    typed = [(features, types, size) for features, types, size in parts if types is not None]
    if not typed:
        return behind(
            f"{name}_features", [(part, size) for part, _, size in parts if not isinstance(part, tuple)]
        ), None
    if len(typed) != len(parts) or len({types.names is None for _, types, _ in typed}) > 1:
        raise ShapeError(f"Graph.batch: some graphs have {name}_types, or names of them, and others have none.")
    names: tuple | None = None
    if typed[0][1].names is not None:
        names = tuple(dict.fromkeys(called for _, types, _ in typed for called in types.names or ()))
    count = max(types.num_types for _, types, _ in typed) if names is None else len(names)
    tables: list[list[tuple[Tensor | None, int]]] = [[] for _ in range(count)]
    rows = []
    for features, types, _ in typed:
        number = range(count) if names is None else [names.index(called) for called in types.names or ()]
        for place, part in enumerate(by_type(features, types)):
            tables[number[place]].append((part, types.sizes[place]))
        rows.append(torch.tensor(number, dtype=torch.int64, device=types.of_row.device)[types.of_row])
    return tuple(behind(f"{name}_features", own) for own in tables), Types(torch.cat(rows), count, names)


def _checked(name: str, table: Tensor | None, num_rows: int) -> Tensor | None:
    if table is None:
        return None
    if not isinstance(table, Tensor) or table.layout != torch.strided or table.dim() != 2:
        what = f"{tuple(table.shape)} {table.layout}" if isinstance(table, Tensor) else type(table).__name__
        raise ShapeError(f"Graph: {name} is {what}; expected a dense tensor (row, feature) with {num_rows} rows.")
    if table.shape[0] != num_rows:
        raise ShapeError(f"Graph: {name} has {plural(table.shape[0], 'row')}, expected {num_rows}.")
    return table if table.shape[1] else None
