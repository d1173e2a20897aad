"""The types of rows, and the relations of edges, of a heterogeneous graph. Index structures only."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import DataError, ShapeError
from edgewise.neighborhood.index import cached_value, copied, moved, outside_modes, unchecked
from edgewise.neighborhood.pairs import Edges

TypesOrRelations = TypeVar("TypesOrRelations", bound="Types | Relations")


@dataclass(frozen=True, eq=False)
class Types:
    """The type of each row, and the order that groups rows by type.

    >>> Types.of(["paper", "author", "paper"]).names
    ('paper', 'author')
    """

    of_row: Int64[Tensor, " row"]
    """The type of each row, counted from 0."""
    num_types: int
    """The number of types, including those without rows."""
    names: tuple[Hashable, ...] | None = None
    """The unique names of the types; None if they are only numbered."""
    sizes: tuple[int, ...] = field(init=False, repr=False)
    """The number of rows of each type."""
    order: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """The rows, grouped by type; None if they already are."""
    places: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """The position of each row in that order."""
    _ranks: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        of_row = copied("Types", "of_row", self.of_row)
        if of_row.dim() != 1:
            raise ShapeError(f"Types: of_row must have the one axis 'row', not shape {tuple(of_row.shape)}.")
        _check(f"Types: of_row must lie in 0 … {self.num_types - 1}", of_row, self.num_types)
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != self.num_types or len(set(self.names)) != self.num_types:
                raise ShapeError(f"Types: names must be {self.num_types} unique names, not {self.names}.")
        with outside_modes():
            order = None if bool((of_row.diff() >= 0).all()) else of_row.argsort(stable=True)
            places = None if order is None else order.argsort()
        object.__setattr__(self, "of_row", of_row)
        object.__setattr__(self, "sizes", tuple(torch.bincount(of_row, minlength=self.num_types).tolist()))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "places", places)

    @classmethod
    def of(cls, rows: Sequence[Hashable], names: Sequence[Hashable] | None = None) -> "Types":
        """The types from the name of each row; `names` sets their order, by default that of first occurrence."""
        names = tuple(dict.fromkeys(rows) if names is None else names)
        number = {name: index for index, name in enumerate(names)}
        for row, name in enumerate(rows):
            if name not in number:
                raise DataError(
                    f"Types: row {row} has the type {name!r}, expected one of {', '.join(map(str, names))}."
                )
        return cls(torch.tensor([number[name] for name in rows], dtype=torch.int64), len(names), names)

    def __len__(self) -> int:
        return self.of_row.shape[0]

    def __getitem__(self, rows: Tensor) -> "Types":
        """The types of the given rows, in order."""
        return Types(self.of_row[rows], self.num_types, self.names)

    def split(self, rows: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
        """The rows of each type, in order."""
        return (rows if self.order is None else rows.index_select(axis, self.order)).split(self.sizes, axis)

    def join(self, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
        """The inverse of `split`."""
        rows = torch.cat(list(parts), axis)
        return rows if self.places is None else rows.index_select(axis, self.places)

    @property
    def ranks(self) -> Int64[Tensor, " row"]:
        """The index of each row among those of its type; created at first use, then cached."""

        def ranks() -> Tensor:
            starts = torch.tensor((0, *self.sizes), device=self.of_row.device).cumsum(0)
            positions = torch.arange(len(self), device=self.of_row.device) if self.places is None else self.places
            return positions - starts[self.of_row]

        return cached_value(self, "_ranks", ranks)

    def to(self, device: torch.device | str) -> "Types":
        """The same types with their tensors on `device`."""
        return _moved(self, device, "of_row", "order", "places", "_ranks")


@dataclass(frozen=True, eq=False)
class Relations:
    """Edges of several relations, also as edges from (sender, relation) pairs, each of which is computed once.

    The message of a sender in a relation is the same for all its receivers, so that attention over pairs needs no
    tensor as long as the edges.
    """

    edges: Edges
    """The edges."""
    relation: Int64[Tensor, " edge"]
    """The relation of each edge, counted from 0."""
    num_relations: int
    """Number of relations, including unused ones."""
    senders: Int64[Tensor, " pair"] = field(init=False, repr=False)
    """The sender of each occurring pair, sorted by relation."""
    types: Types = field(init=False, repr=False)
    """The relation of each pair."""
    pair_edges: Edges = field(init=False, repr=False)
    """Edges from the pairs to the receivers, in the order of `edges`."""
    counts: Int64[Tensor, " edge"] = field(init=False, repr=False)
    """The number of edges of the same relation at the receiver of each edge, including this one."""

    def __post_init__(self) -> None:
        edges, relation = self.edges, copied("Relations", "relation", self.relation)
        if relation.shape != edges.senders.shape:
            raise ShapeError(
                f"Relations: relation is {tuple(relation.shape)}, but there are {edges.num_edges} edges; give one "
                f"relation per edge."
            )

        _check(f"Relations: relation must lie in 0 … {self.num_relations - 1}", relation, self.num_relations)
        size = max(edges.num_senders, 1)
        with outside_modes():
            pairs, inverse = (relation * edges.num_senders + edges.senders).unique(return_inverse=True)
            derived_fields = {
                "relation": relation,
                "senders": pairs % size,
                "types": Types(pairs // size, self.num_relations),
                "pair_edges": Edges(inverse, edges.receivers, len(pairs), edges.num_receivers),
                "counts": _counted(relation * edges.num_receivers + edges.receivers),
            }
        for name, value in derived_fields.items():
            object.__setattr__(self, name, value)

        # Copies on a device then take the plan along instead of creating one each.
        _ = self.pair_edges.plan

    @property
    def num_pairs(self) -> int:
        """The number of occurring (sender, relation) pairs."""
        return self.senders.shape[0]

    def to(self, device: torch.device | str) -> "Relations":
        """The same relations with their tensors on `device`."""
        return _moved(self, device, "edges", "relation", "senders", "types", "pair_edges", "counts")


def _counted(codes: Tensor) -> Tensor:
    """How often the code at each position occurs."""
    _, inverse, counts = codes.unique(return_inverse=True, return_counts=True)
    return counts[inverse]


def _check(rule: str, index: Tensor, size: int) -> None:
    """Raise a ShapeError that starts with the rule if an index is negative or too large."""
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < size:
        outside = int(index.min()) if index.min() < 0 else int(index.max())
        raise ShapeError(f"{rule}; found {outside}.")


def _moved(record: TypesOrRelations, device: torch.device | str, *names: str) -> TypesOrRelations:
    return unchecked(record, **{name: moved(getattr(record, name), device) for name in names})
