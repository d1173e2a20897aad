"""What the kinds of nodes and edges of a graph are called, as its data and the models that know it have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

Relation = tuple[str, str, str]
"""The kind of the sender, what the edge is called (nothing where edges have no names), the kind of the receiver."""
BACKWARD = "rev_"
"""What stands before the name of a relation that is another one the other way."""


@dataclass(frozen=True, eq=False)
class Named:
    """What the data calls the kind of each row, a node or an edge, and where it says so."""

    names: tuple[str, ...]
    """One a row."""
    before: str
    """What a message says before the number of a row, such as `nodes.csv, line `."""
    numbers: Int64[np.ndarray, " row"]
    """The numbers of the rows: lines of a file, or places in an array."""
    after: str
    """What it says behind it, such as `, column 'kind'`."""

    @classmethod
    def of_array(cls, array: str, names: Any) -> "Named":
        """Those in an array of words or whole numbers."""
        words = tuple(str(name).strip() for name in np.asarray(names).tolist())
        return cls(words, f"{array}[", np.arange(len(words)), "]")

    def place(self, row: int) -> str:
        """Where the kind of a row stands."""
        return f"{self.before}{self.numbers[row]}{self.after}"


@dataclass(frozen=True)
class KindNames:
    """The kinds of a graph as a model remembers them."""

    nodes: tuple[str, ...]
    """The kinds of nodes, in the order of their numbers."""
    relations: tuple[Relation, ...]
    """The relations, likewise."""
    features: tuple[tuple[int, ...], ...]
    """Of each kind of nodes, the columns that are its features, counted from 0 among those of all kinds."""
    told: tuple[str, ...] = ()
    """The kinds of nodes that had a target in training; empty before it."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "KindNames":
        """Those that `dataclasses.asdict` made a dictionary of, also where JSON made lists of tuples."""
        return cls(
            nodes=tuple(content["nodes"]),
            relations=tuple((sender, name, receiver) for sender, name, receiver in content["relations"]),
            features=tuple(tuple(columns) for columns in content["features"]),
            told=tuple(content["told"]),
        )


def spoken(relation: Relation) -> str:
    """A relation in words: `author writes paper`; `author to paper` where edges have no names."""
    sender, name, receiver = relation
    return f"{sender} {name or 'to'} {receiver}"


def backward(relation: Relation) -> Relation:
    """The relation of the same edges the other way."""
    sender, name, receiver = relation
    return receiver, f"{BACKWARD}{name}", sender
