"""Tables of features, one for all rows or one for each type, and sparse ones: checked, selected, concatenated."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError, plural
from edgewise.graph.record import Record
from edgewise.neighborhood import EdgeRows, Edges, Types
from edgewise.neighborhood.index import unchecked

Features = Tensor | tuple[Tensor | None, ...]
"""One table `(row, feature)`; or a table for each type of rows, None for a type without features."""
Part = tuple[Features | None, Types | None, int]
"""The features of one graph, the types of its rows, and the number of rows."""


@dataclass(frozen=True, eq=False)
class SparseFeatures(Record):
    """Sparse features of nodes: each node is connected with its nonzero features."""

    edges: Edges
    """Edges from each feature to each node that has it."""
    values: Float[Tensor, " entry"]
    """The value of the feature at the node."""

    @property
    def shape(self) -> tuple[int, int]:
        """(node, feature)."""
        return self.edges.num_receivers, self.edges.num_senders

    @property
    def dtype(self) -> torch.dtype:
        """That of the values."""
        return self.values.dtype

    def select(self, nodes: Int64[Tensor, " selected"]) -> "SparseFeatures":
        """The features of the given nodes, in order; a node may stand there several times."""
        plan = self.edges.plan
        offsets = plan.receiver_offsets.long()
        starts, counts = offsets[nodes], offsets[nodes + 1] - offsets[nodes]
        ends = counts.cumsum(0)
        receivers = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        within = torch.arange(len(receivers), device=nodes.device) - (ends - counts)[receivers]
        entries = plan.receiver_edges[starts[receivers] + within].long()
        senders = self.edges.senders[entries]
        edges = unchecked(self.edges, senders=senders, receivers=receivers, num_receivers=len(nodes))
        return SparseFeatures(edges, self.values[entries])

    def to_dense(self) -> Float[Tensor, " node feature"]:
        """The same as a table."""
        table = self.values.new_zeros(self.shape)
        return table.index_put((self.edges.receivers, self.edges.senders), self.values, accumulate=True)


@dataclass(frozen=True, eq=False)
class DistinctRows(Record):
    """The features of the edges of a graph and of a loop on every node, each distinct row once."""

    features: Float[Tensor, " distinct edge_feature"]
    """The distinct rows, without that of loops."""
    rows: EdgeRows
    """The row of each edge, followed by a loop on every node, whose row comes after the others."""


def checked_features(
    name: str, features: Features | SparseFeatures | None, types: Types | None, num_rows: int
) -> Features | SparseFeatures | None:
    """The features in canonical form: one table if all types have the same width and dtype, None without features.

    Raises:
        ShapeError: a table is not a dense tensor, or has the wrong number of rows.
    """
    if isinstance(features, SparseFeatures) and name == "node_features":
        _check_rows(name, features.shape[0], num_rows)
        return features
    if not isinstance(features, tuple):
        return _checked(name, features, num_rows)
    if types is None:
        raise ShapeError(f"Graph: {name} is a tuple, a table for each type, but rows are not typed; give one table.")
    if len(features) != types.num_types:
        raise ShapeError(f"Graph: {name} has {plural(len(features), 'table')}, but there are {types.num_types} types.")

    sizes = zip(features, types.sizes)
    tables = tuple(_checked(f"{name}[{number}]", table, size) for number, (table, size) in enumerate(sizes))
    given_tables = [table for table in tables if table is not None]
    if len(given_tables) == len(tables) and len({(table.shape[1], table.dtype) for table in given_tables}) == 1:
        return types.join(given_tables)

    return tables if given_tables else None


def by_type(features: Features | None, types: Types) -> tuple[Tensor | None, ...]:
    """The table of each type, from either form."""
    if features is None:
        return (None,) * types.num_types
    return types.split(features) if isinstance(features, Tensor) else features


def selected_rows(features: Features | None, types: Types | None, rows: Tensor) -> Features | None:
    """The features of the given rows, in order."""
    if features is None or isinstance(features, Tensor):
        return None if features is None else features[rows]
    assert types is not None
    ranks, of_row = types.ranks[rows], types.of_row[rows]
    return tuple(None if part is None else part[ranks[of_row == number]] for number, part in enumerate(features))


def selected_nodes(
    features: Features | SparseFeatures | None, types: Types | None, nodes: Tensor
) -> Features | SparseFeatures | None:
    """The same for nodes, whose features may be sparse."""
    return features.select(nodes) if isinstance(features, SparseFeatures) else selected_rows(features, types, nodes)


def repeated(features: Features | None, types: Types | None, rows: Tensor, new: Types | None) -> Features | None:
    """The features, followed by those of some rows again, which have other types there.

    Raises:
        ShapeError: the rows of the other type have features of another width, or only one of the two has features.
    """
    if features is None or isinstance(features, Tensor):
        return None if features is None else torch.cat([features, features[rows]])
    assert types is not None and new is not None
    tables = [*features, *[None] * (new.num_types - len(features))]
    is_added = torch.arange(len(new), device=rows.device) >= len(types)
    for number, table in enumerate(by_type(selected_rows(features, types, rows), types[rows])):
        of_row = new.of_row[is_added][types.of_row[rows] == number]
        if not len(of_row):
            continue
        reverse = int(of_row[0])
        existing = tables[reverse]
        if reverse >= types.num_types or not types.sizes[reverse]:
            tables[reverse] = table
        elif table is not None and existing is not None and table.shape[1] == existing.shape[1]:
            tables[reverse] = torch.cat([existing, table])
        elif table is not None or existing is not None:
            sizes = [0 if part is None else part.shape[1] for part in (features[number], existing)]
            raise ShapeError(
                f"Graph.undirected: edges of {(new.names or ())[number]} have {plural(sizes[0], 'feature')}, but those "
                f"of {(new.names or ())[reverse]}, to which their reverses belong, {sizes[1]}; give both the same, or "
                "leave one of the two types out."
            )
    return tuple(tables)


def with_loop_features(features: Features | None, count: int, fill: float | None) -> Features | None:
    """The features of edges, followed by those of added loops, which are all `fill`."""
    if not isinstance(features, Tensor):
        return features
    if fill is None:
        raise SettingError("Graph.with_self_loops: edges have features; give those of a loop, such as fill=0.0.")
    if not features.is_floating_point():
        low, high = (0, 1) if features.dtype == torch.bool else _bounds(features.dtype)
        if not (low <= fill <= high and float(fill).is_integer()):
            raise SettingError(
                f"Graph.with_self_loops: fill is {fill}, but the features of edges are {features.dtype}; expected a "
                f"whole number from {low} to {high}, or convert the features, which .float() does."
            )
    return torch.cat([features, features.new_full((count, features.shape[1]), fill)])


def _bounds(dtype: torch.dtype) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype."""
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def concatenated(name: str, tables: Sequence[tuple[Tensor | None, int]]) -> Tensor | None:
    """Concatenates tables of several graphs; that of a graph without rows may be missing.

    Raises:
        ShapeError: a graph lacks the table, or its width or dtype differs.
    """
    numbered_tables = [(number, table) for number, (table, _) in enumerate(tables) if table is not None]
    if not numbered_tables:
        return None

    first, first_table = numbered_tables[0]
    for number, (table, size) in enumerate(tables):
        if table is None and size:
            raise ShapeError(
                f"Graph.batch: graph {number} lacks {name}, which graph {first} has; give them to all graphs or to "
                f"none."
            )

        if table is not None and (table.shape[1], table.dtype) != (first_table.shape[1], first_table.dtype):
            raise ShapeError(
                f"Graph.batch: {name} of graph {number} is (…, {table.shape[1]}) of {table.dtype}, but of graph "
                f"{first} "
                f"(…, {first_table.shape[1]}) of {first_table.dtype}."
            )

    return torch.cat([table for _, table in numbered_tables])


def joined(name: str, parts: Sequence[Part]) -> tuple[Features | None, Types | None]:
    """Concatenates features and types of several graphs; types of the same name are one type.

    Raises:
        ShapeError: they do not fit, or only some graphs have types (or names of types).
    """
    typed = [(features, types, size) for features, types, size in parts if types is not None]
    if not typed:
        return concatenated(
            f"{name}_features", [(table, size) for table, _, size in parts if not isinstance(table, tuple)]
        ), None

    if len(typed) != len(parts) or len({types.names is None for _, types, _ in typed}) > 1:
        raise ShapeError(
            f"Graph.batch: only some graphs have {name}_types, or names of them; give them to all graphs or to none."
        )

    names: tuple | None = None
    if typed[0][1].names is not None:
        names = tuple(dict.fromkeys(type_name for _, types, _ in typed for type_name in types.names or ()))
    count = max(types.num_types for _, types, _ in typed) if names is None else len(names)

    tables: list[list[tuple[Tensor | None, int]]] = [[] for _ in range(count)]
    rows = []
    for features, types, _ in typed:
        type_indices = range(count) if names is None else [names.index(type_name) for type_name in types.names or ()]
        for index, table in enumerate(by_type(features, types)):
            tables[type_indices[index]].append((table, types.sizes[index]))
        rows.append(torch.tensor(type_indices, dtype=torch.int64, device=types.of_row.device)[types.of_row])

    return tuple(concatenated(f"{name}_features", type_tables) for type_tables in tables), Types(
        torch.cat(rows), count, names
    )


def _checked(name: str, table: Tensor | SparseFeatures | None, num_rows: int) -> Tensor | None:
    if table is None:
        return None
    if not isinstance(table, Tensor) or table.layout != torch.strided or table.dim() != 2:
        received = f"{tuple(table.shape)} {table.layout}" if isinstance(table, Tensor) else type(table).__name__
        raise ShapeError(f"Graph: {name} is {received}; expected a dense tensor (row, feature) with {num_rows} rows.")
    _check_rows(name, table.shape[0], num_rows)
    return table if table.shape[1] else None


def _check_rows(name: str, size: int, expected: int) -> None:
    if size != expected:
        raise ShapeError(f"Graph: {name} has {plural(size, 'row')}, expected {expected}.")
