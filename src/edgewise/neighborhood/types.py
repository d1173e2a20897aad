"""Rows of several types, and edges of several relations: which of them share a matrix. Index structures only."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import DataError, ShapeError
from edgewise.neighborhood.index import copied, unchecked
from edgewise.neighborhood.pairs import Edges

Made = TypeVar("Made", bound="Types | Relations")


@dataclass(frozen=True, eq=False)
class Types:
    """The type of each row, and the order in which the rows of a type stand together; made once, then cached.

    >>> Types.of(["paper", "author", "paper"]).names
    ('paper', 'author')
    """

    of_row: Int64[Tensor, " row"]
    """The type of each row, counted from 0."""
    num_types: int
    """How many types there are, with or without rows."""
    names: tuple[Hashable, ...] | None = None
    """What the types are called; None where they are numbers only. Names differ."""
    sizes: tuple[int, ...] = field(init=False, repr=False)
    """How many rows each type has."""
    order: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """The rows, type after type; None where they stand so already."""
    places: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """Where in that order each row stands."""
    _ranks: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        of_row = copied("Types", "of_row", self.of_row)
        if of_row.dim() != 1:
            raise ShapeError(f"Types: of_row must have the one axis 'row', not shape {tuple(of_row.shape)}.")
        _check(f"Types: of_row must lie in 0 … {self.num_types - 1}", of_row, self.num_types)
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != self.num_types or len(set(self.names)) != self.num_types:
                raise ShapeError(f"Types: names must be {self.num_types} different names, not {self.names}.")
        order = None if bool((of_row.diff() >= 0).all()) else of_row.argsort(stable=True)
        object.__setattr__(self, "of_row", of_row)
        object.__setattr__(self, "sizes", tuple(torch.bincount(of_row, minlength=self.num_types).tolist()))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "places", None if order is None else order.argsort())

    @classmethod
    def of(cls, rows: Sequence[Hashable], names: Sequence[Hashable] | None = None) -> "Types":
        """The types by the name that each row has; `names` gives their order, else they stand as they first occur."""
        names = tuple(dict.fromkeys(rows) if names is None else names)
        number = {name: place for place, name in enumerate(names)}
        for row, name in enumerate(rows):
            if name not in number:
                raise DataError(
                    f"Types: row {row} has the type {name!r}, expected one of {', '.join(map(str, names))}."
                )
        return cls(torch.tensor([number[name] for name in rows], dtype=torch.int64), len(names), names)

    def __len__(self) -> int:
        return self.of_row.shape[0]

    def __getitem__(self, rows: Tensor) -> "Types":
        """The types of some rows, in their order."""
        return Types(self.of_row[rows], self.num_types, self.names)

    def split(self, rows: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
        """The rows of each type, in their order."""
        return (rows if self.order is None else rows.index_select(axis, self.order)).split(self.sizes, axis)

    def join(self, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
        """The way back from `split`."""
        rows = torch.cat(list(parts), axis)
        return rows if self.places is None else rows.index_select(axis, self.places)

    @property
    def ranks(self) -> Int64[Tensor, " row"]:
        """The place of each row among those of its type; made at first use, then cached."""
        if self._ranks is None:
            starts = torch.tensor((0, *self.sizes), device=self.of_row.device).cumsum(0)
            places = torch.arange(len(self), device=self.of_row.device) if self.places is None else self.places
            object.__setattr__(self, "_ranks", places - starts[self.of_row])
        assert self._ranks is not None
        return self._ranks

    def to(self, device: torch.device | str) -> "Types":
        """The same types with their tensors on `device`."""
        return _moved(self, device, "of_row", "order", "places", "_ranks")


@dataclass(frozen=True, eq=False)
class Relations:
    """Edges of several relations, also seen as edges from (sender, relation) pairs: a pair is computed once.

    What a sender sends in a relation is the same for all its receivers, so that attention over the pairs needs nothing
    that is as long as the edges.
    """

    edges: Edges
    """Who is connected with whom."""
    relation: Int64[Tensor, " edge"]
    """The relation of each edge, counted from 0."""
    num_relations: int
    """How many relations there are, also such as no edge is of."""
    senders: Int64[Tensor, " pair"] = field(init=False, repr=False)
    """The sender of each pair that occurs; pairs stand relation after relation."""
    types: Types = field(init=False, repr=False)
    """The relation of each pair."""
    pair_edges: Edges = field(init=False, repr=False)
    """From the pairs to the receivers, in the order of `edges`."""
    counts: Int64[Tensor, " edge"] = field(init=False, repr=False)
    """How many edges of its relation the receiver of each edge has, this one among them."""

    def __post_init__(self) -> None:
        edges, relation = self.edges, copied("Relations", "relation", self.relation)
        if relation.shape != edges.senders.shape:
            raise ShapeError(
                f"Relations: relation is {tuple(relation.shape)}, but there are {edges.num_edges} edges; give one each."
            )
        _check(f"Relations: relation must lie in 0 … {self.num_relations - 1}", relation, self.num_relations)
        pairs, place = (relation * edges.num_senders + edges.senders).unique(return_inverse=True)
        size = max(edges.num_senders, 1)
        found = {
            "relation": relation,
            "senders": pairs % size,
            "types": Types(pairs // size, self.num_relations),
            "pair_edges": Edges(place, edges.receivers, len(pairs), edges.num_receivers),
            "counts": _counted(relation * edges.num_receivers + edges.receivers),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        # Copies on a device take the plan along instead of making one each.
        _ = self.pair_edges.plan

    @property
    def num_pairs(self) -> int:
        """How many (sender, relation) pairs occur."""
        return self.senders.shape[0]

    def to(self, device: torch.device | str) -> "Relations":
        """The same relations with their tensors on `device`."""
        return _moved(self, device, "edges", "relation", "senders", "types", "pair_edges", "counts")


def _counted(codes: Tensor) -> Tensor:
    """How often the number at each place occurs."""
    _, place, counts = codes.unique(return_inverse=True, return_counts=True)
    return counts[place]


def _check(rule: str, index: Tensor, size: int) -> None:
    """Raise a ShapeError that begins with the rule where a number is negative or too large."""
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < size:
        found = int(index.min()) if index.min() < 0 else int(index.max())
        raise ShapeError(f"{rule}; found {found}.")


def _moved(record: Made, device: torch.device | str, *names: str) -> Made:
    parts = {name: getattr(record, name) for name in names}
    return unchecked(record, **{name: None if part is None else part.to(device) for name, part in parts.items()})
