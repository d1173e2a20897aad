"""Renumbering of nodes."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from edgewise.errors import ShapeError
from edgewise.explain.groups.axes import Axes
from edgewise.explain.groups.fit import FEW, agreed_sizes, lacks, size
from edgewise.explain.groups.group import Group, Step
from edgewise.explain.groups.leaves import Array, Leaf, as_numpy, through_numpy
from edgewise.neighborhood import Edges
from edgewise.plural import plural

SHOWN = 12
"""A longer list of nodes is cut in a message."""


@dataclass(frozen=True)
class Permutation(Group):
    """Renumbering of nodes: the rows of features and coordinates, and the ends of edges, whose order stays.

        x'_i = x_{order(i)}        an edge j → i becomes order⁻¹(j) → order⁻¹(i)

    Half of the draws exchange two nodes, so that what breaks can be seen; the others shuffle them all.
    """

    offsets: Sequence[int] | Array | None = None
    """Boundaries of the members of a batch, within each of which nodes are renumbered; None where all are one graph."""

    def draws(self, generator: np.random.Generator, inputs: list[Leaf]) -> Iterator[Step]:
        (num_nodes,) = agreed_sizes(self, inputs, _num_nodes, "node")
        bounds = self._bounds(num_nodes)
        members = [np.arange(start, stop) for start, stop in itertools.pairwise(bounds)]
        large = [member for member in members if len(member) > 1]
        if not large:
            largest = max(map(len, members), default=0)
            raise ShapeError(f"check: {self} needs a graph of at least two nodes; the largest has {largest}.")
        if math.prod(math.factorial(min(len(member), FEW)) for member in large) <= FEW + 1:
            every = itertools.product(*(itertools.permutations(member.tolist()) for member in members))
            orders = [np.array([node for part in parts for node in part]) for parts in every][1:]
            yield from (Permuted(orders[i]) for i in generator.permutation(len(orders)))
            return
        while True:
            order = np.arange(num_nodes)
            if generator.random() < 0.5:
                member = large[generator.choice(len(large))]
                pair = generator.choice(member, 2, replace=False)
                order[pair] = pair[::-1]
            else:
                order = np.concatenate([generator.permutation(member) for member in members])
            if (order != np.arange(num_nodes)).any():
                yield Permuted(order)

    def _bounds(self, num_nodes: int) -> list[int]:
        """The offsets as whole numbers, known to part the nodes."""
        if self.offsets is None:
            return [0, num_nodes]
        bounds = [int(bound) for bound in self.offsets]
        if not bounds or bounds[0] != 0 or bounds[-1] != num_nodes or sorted(bounds) != bounds:
            raise ShapeError(
                f"Permutation: offsets must rise from 0 to the number of nodes, here {num_nodes}; they are {bounds}."
            )
        return bounds

    def __str__(self) -> str:
        return "permutation of nodes"


@dataclass(frozen=True, eq=False)
class Permuted(Step):
    """One renumbering of nodes."""

    order: np.ndarray
    """(node): node order[i] comes to place i."""

    def concerns(self, axes: Axes) -> bool:
        return bool(axes.nodes) or axes.is_index

    def refusal(self, array: Array, axes: Axes) -> str | None:
        num_nodes = len(self.order)
        if (reason := lacks(array, axes.nodes)) is not None:
            return reason
        if wrong := [axis for axis in axes.nodes if array.shape[axis] != num_nodes]:
            return f"has {plural(array.shape[wrong[0]], 'node')} along axis {wrong[0]}, not {num_nodes}"
        if axes.is_index:
            index = as_numpy(array)
            if index.dtype.kind not in "iu":
                return f"holds {array.dtype}, not numbers of nodes"
            if index.size and not 0 <= index.min() <= index.max() < num_nodes:
                return f"holds numbers of nodes from {index.min()} to {index.max()}, but there are {num_nodes}"
        return None

    def act(self, array: Array, axes: Axes) -> Array:
        return through_numpy(lambda plain: self._renumbered(plain, axes), array)

    def act_on_edges(self, edges: Edges) -> Edges:
        place = torch.as_tensor(np.argsort(self.order), device=edges.senders.device)
        return Edges(place[edges.senders], place[edges.receivers], edges.num_senders, edges.num_receivers)

    def _renumbered(self, plain: np.ndarray, axes: Axes) -> np.ndarray:
        if axes.is_index:
            plain = np.asarray(np.argsort(self.order)[plain])
        for axis in axes.nodes:
            plain = plain.take(self.order, axis)
        return plain

    def __str__(self) -> str:
        moved = np.flatnonzero(self.order != np.arange(len(self.order)))
        if len(moved) == 2:
            return f"nodes {moved[0]} and {moved[1]} exchanged"
        first = " ".join(map(str, self.order[:SHOWN]))
        return f"nodes put in the order {first}" + (f" … ({len(self.order)} nodes)" if len(self.order) > SHOWN else "")


def _num_nodes(leaf: Leaf) -> list[tuple[int, ...]]:
    nodes = leaf.meaning.nodes
    if isinstance(leaf.value, Edges):
        return [(leaf.value.num_senders,), (leaf.value.num_receivers,)] if nodes else []
    return [(size(leaf, axis),) for axis in nodes]
