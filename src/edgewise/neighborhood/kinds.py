"""Rows of several kinds, and edges of several relations: who shares a matrix with whom. Index structures only."""

from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.index import integers
from edgewise.neighborhood.pairs import Edges, unchecked

Made = TypeVar("Made", bound="Kinds | Relations")


@dataclass(frozen=True, eq=False)
class Kinds:
    """Which kind each row is of, and the order in which the rows of a kind stand together; made once, then kept."""

    of_row: Int64[Tensor, " row"]
    """The kind of each row, counted from 0."""
    num_kinds: int
    """How many kinds there are, also such as no row is of."""
    sizes: tuple[int, ...] = field(init=False, repr=False)
    """How many rows each kind has."""
    order: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """The rows, kind after kind; None where they stand so already."""
    places: Int64[Tensor, " row"] | None = field(init=False, repr=False)
    """Where in that order each row stands."""

    def __post_init__(self) -> None:
        of_row = integers("Kinds", "of_row", self.of_row)
        if of_row.dim() != 1:
            raise ShapeError(f"Kinds: of_row must have the one axis 'row', not shape {tuple(of_row.shape)}.")
        _check(f"Kinds: of_row must lie in 0 … {self.num_kinds - 1}", of_row, self.num_kinds)
        order = None if bool((of_row.diff() >= 0).all()) else of_row.argsort(stable=True)
        object.__setattr__(self, "of_row", of_row)
        object.__setattr__(self, "sizes", tuple(torch.bincount(of_row, minlength=self.num_kinds).tolist()))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "places", None if order is None else order.argsort())

    def __len__(self) -> int:
        return self.of_row.shape[0]

    def to(self, device: torch.device | str) -> "Kinds":
        """The same kinds with their tensors on `device`."""
        return _moved(self, device, "of_row", "order", "places")


@dataclass(frozen=True, eq=False)
class Relations:
    """Edges of several relations, also seen as edges from (sender, relation) pairs: a pair is computed once.

    What a sender says in a relation is the same for all who hear it, so that attention over the pairs needs nothing
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
    kinds: Kinds = field(init=False, repr=False)
    """The relation of each pair."""
    heard: Edges = field(init=False, repr=False)
    """From the pairs to the receivers, in the order of `edges`."""
    counts: Int64[Tensor, " edge"] = field(init=False, repr=False)
    """How many edges of its relation the receiver of each edge has, this one among them."""

    def __post_init__(self) -> None:
        edges, relation = self.edges, integers("Relations", "relation", self.relation)
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
            "kinds": Kinds(pairs // size, self.num_relations),
            "heard": Edges(place, edges.receivers, len(pairs), edges.num_receivers),
            "counts": _counted(relation * edges.num_receivers + edges.receivers),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        # Copies on a device take the plan along instead of making one each.
        _ = self.heard.plan

    @property
    def num_pairs(self) -> int:
        """How many (sender, relation) pairs occur."""
        return self.senders.shape[0]

    def to(self, device: torch.device | str) -> "Relations":
        """The same relations with their tensors on `device`."""
        return _moved(self, device, "edges", "relation", "senders", "kinds", "heard", "counts")


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
