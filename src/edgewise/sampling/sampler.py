"""Sampling the neighborhoods of seeds, hop after hop, from a graph in memory."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.neighborhood.index import integers
from edgewise.sampling.incoming import Incoming, checked_times, ordered
from edgewise.sampling.sample import Sample

STRATEGIES = ("uniform", "last")
"""Which edges before the seed's time are sampled: any, or the latest."""
FORMS = ("directional", "induced")
"""Which edges a sample holds: those that were sampled, or all between its nodes."""
MAX_FANOUT = 2**31
"""A kernel has room for so many draws of a node."""
Fanouts = Sequence[int] | Mapping[Hashable, Sequence[int]]
"""How many edges a hop samples of each node, hop after hop; or these by the type of the edges."""


class NeighborSampler:
    """Samples, around seeds, edges against their direction: those that a model of so many layers reads.

        hop h:  of each node that hop h − 1 found, up to fanouts[h] of its incoming edges, and their senders

    A node is expanded once, in the hop that finds it, so that all layers read the same edges of it. Random numbers
    follow from (seed, epoch, batch, hop, node) alone: a sample depends neither on the number of threads nor on the
    samples before it.

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        fanouts: edges a node for each hop, −1 for all; or a mapping from the type of edges, by name or number, to
            these. A type that it does not name is not sampled.
        replace: whether the same edge may be drawn several times.
        weights: `(edge)`, not negative: edges are drawn in proportion to it. An edge of weight 0 is never sampled.
        edge_times: `(edge)`: only edges before the time of the seed are sampled; each seed has its own tree then.
        strategy: "uniform", or "last": the latest edges before the seed's time.
        disjoint: whether each seed has a tree of its own, so that a node may stand in a sample several times.
        form: "directional", the sampled edges; or "induced", all edges between the nodes that were found.
        seed: of the random numbers.
        incoming: the incoming edges of each node, where they are known; the edges of the graph are not read then, and
            weights and times are those that stand there: give both as `Incoming.of` got them.

    Raises:
        SettingError: fanouts or another option cannot be.
        ShapeError: weights or times are not one for each edge, senders and receivers are two sets of nodes, or a number
            of `incoming` names nothing that there is.
        DataError: a weight is negative, NaN or infinite, or a time is NaN.

    Cost: O(edge + node) once; a sample costs as much as it holds, whatever the size of the graph.
    Source: Hamilton, Ying & Leskovec 2017 (GraphSAGE), who sample with replacement.

    >>> graph = Graph.of(torch.tensor([[1, 2, 3, 4], [0, 0, 1, 2]]))
    >>> sample = NeighborSampler(graph, [2, -1]).sample([0])
    >>> sample.n_id.tolist(), sample.e_id.tolist(), sample.nodes_per_hop
    ([0, 1, 2, 3, 4], [0, 1, 2, 3], (1, 2, 2))
    """

    def __init__(
        self,
        graph: Any,
        fanouts: Fanouts,
        *,
        replace: bool = False,
        weights: Any = None,
        edge_times: Any = None,
        strategy: str = "uniform",
        disjoint: bool = False,
        form: str = "directional",
        seed: int = 0,
        incoming: Incoming | None = None,
    ):
        for name, value, choices in (("strategy", strategy, STRATEGIES), ("form", form, FORMS)):
            if value not in choices:
                raise SettingError(f"NeighborSampler: {name} is {value!r}; expected {' or '.join(choices)}.")
        if strategy == "last" and (edge_times is None or replace or weights is not None):
            raise SettingError(
                "NeighborSampler: strategy 'last' takes the latest edges: it needs edge_times, and neither replace nor "
                "weights."
            )
        if seed < 0:
            raise SettingError(f"NeighborSampler: seed is {seed}; expected 0 or more.")
        self.graph = Graph.of(graph)
        self.fanouts = fanout_table(fanouts, self.graph)
        self.replace, self.strategy, self.form, self.seed = bool(replace), STRATEGIES.index(strategy), form, seed
        self.is_timed = edge_times is not None
        self.disjoint = bool(disjoint) or self.is_timed
        if self.disjoint and form == "induced":
            raise SettingError("NeighborSampler: form 'induced' needs seeds that share nodes; leave disjoint out.")
        self.times_are_whole = self.is_timed and not torch.as_tensor(edge_times, device="cpu").is_floating_point()
        self.incoming = Incoming.of(self.graph, weights, edge_times) if incoming is None else incoming
        if incoming is not None:
            self._check_incoming(incoming, has_weights=weights is not None)
        if not self.replace:  # a kernel has room for as many edges as a fanout
            self.fanouts = np.minimum(self.fanouts, max(len(self.incoming.links), 1))

    def _check_incoming(self, incoming: Incoming, has_weights: bool) -> None:
        """Raise unless what is known of incoming edges fits the graph and the other arguments."""
        incoming.check(self.graph.num_nodes, self.fanouts.shape[1])
        columns = ("edge_times", self.is_timed, incoming.times), ("weights", has_weights, incoming.cumulative)
        for name, is_given, column in columns:
            if len(incoming.links) and is_given != (len(column) > 0):
                raise SettingError(
                    f"NeighborSampler: incoming {'has no' if is_given else 'has'} {name}, which are "
                    f"{'given' if is_given else 'not given'}; make it by Incoming.of(graph, weights, edge_times) and "
                    "give the same here."
                )

    def sample(
        self,
        seeds: Any,
        *,
        times: Any = None,
        epoch: int = 0,
        batch: int = 0,
        without: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Sample:
        """The sampled neighborhood of some nodes.

        Args:
            seeds: places of nodes, or a mask `(node)`.
            times: the time of each seed, where the sampler has times of edges.
            epoch, batch: which random numbers are drawn.
            without: pairs of nodes; edges from one to the other, in either direction, are taken out of the sample.

        Raises:
            ShapeError: a seed is no node, or times are missing, superfluous or not one for each seed.
        """
        from edgewise.sampling import kernels

        chosen = checked_nodes("seeds", seeds, self.graph.num_nodes)
        key = np.random.SeedSequence((self.seed, epoch, batch)).generate_state(1, np.uint64)[0]
        held = self.incoming
        with held.place_table(not self.disjoint) as place_of:
            nodes, trees, roots, senders, receivers, edges, *per_hop = kernels.sample(
                *(held.offsets, held.links, held.types, held.times, held.cumulative, self.fanouts),
                *(self.replace, self.strategy, self.disjoint, chosen, self._limits(times, len(chosen)), key, place_of),
            )
            if self.form == "induced":
                senders, receivers, edges = kernels.induced(held.offsets, held.links, nodes, place_of)
        nodes_per_hop, edges_per_hop = per_hop
        if self.form == "induced":
            edges_per_hop = np.array([len(edges)])
        if without is not None:
            stays = ~_joined(nodes[senders], nodes[receivers], without, self.graph.num_nodes)
            edges_per_hop = np.diff(np.append(0, stays).cumsum()[np.append(0, edges_per_hop.cumsum())])
            senders, receivers, edges = senders[stays], receivers[stays], edges[stays]
        per_hop = tuple(nodes_per_hop.tolist()), tuple(edges_per_hop.tolist())
        own_trees = trees if self.disjoint else None
        return Sample.of(self.graph, nodes, senders, receivers, edges, roots, *per_hop, own_trees)

    def _limits(self, times: Any, num_seeds: int) -> np.ndarray:
        """The time of each seed, as edges have theirs."""
        if not self.is_timed:
            if times is not None:
                raise ShapeError("NeighborSampler: times are given, but edges have none: edge_times=….")
            return np.empty(0, np.int64)
        if times is None:
            raise ShapeError("NeighborSampler: edges have times; give those of the seeds: times=….")
        found = torch.as_tensor(times, device="cpu").detach().cpu()
        if found.shape != (num_seeds,):
            raise ShapeError(f"NeighborSampler: times is {tuple(found.shape)}, expected ({num_seeds},), one a seed.")
        if not self.times_are_whole:
            return checked_times(found.double().numpy())
        # A whole number lies below a fraction where it lies below the next whole number.
        return ordered((found.ceil() if found.is_floating_point() else found).long().numpy())


def fanout_table(fanouts: Fanouts, graph: Graph) -> np.ndarray:
    """Edges a node for each hop and type, int64 `(hop, type)`."""
    types = graph.edge_types
    names: Sequence[Hashable] = (None,) if types is None else types.names or range(types.num_types)
    if isinstance(fanouts, Mapping):
        if types is None:
            raise SettingError("NeighborSampler: fanouts are by type, but edges have no types; give one list.")
        if unknown := [name for name in fanouts if name not in names]:
            raise SettingError(
                f"NeighborSampler: fanouts name the type {unknown[0]!r}, expected one of {', '.join(map(repr, names))}."
            )
        lengths = {len(own) for own in fanouts.values()}
        if len(lengths) != 1:
            raise SettingError(f"NeighborSampler: fanouts must name as many hops for each type, not {dict(fanouts)}.")
        rows = [list(fanouts.get(name, [0] * max(lengths))) for name in names]
    else:
        rows = [list(fanouts)] * len(names)
    if not rows or not rows[0]:
        raise SettingError("NeighborSampler: fanouts are empty; give a number for each hop, such as [15, 10].")
    for value in (value for row in rows for value in row):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -1 <= value < MAX_FANOUT:
            raise SettingError(
                f"NeighborSampler: a fanout is {value!r}; expected a whole number of edges a node, 0 for none, or -1 "
                f"for all, below {MAX_FANOUT:,}."
            )
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).T)


def _joined(
    senders: np.ndarray, receivers: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], num_nodes: int
) -> np.ndarray:
    """Which edges join two nodes of a pair."""
    low, high = np.minimum(senders, receivers), np.maximum(senders, receivers)
    first, second = np.minimum(*pairs), np.maximum(*pairs)
    return np.isin(low * num_nodes + high, first * num_nodes + second, kind="sort")


def checked_nodes(name: str, nodes: Any, num_nodes: int) -> np.ndarray:
    """Places of nodes, int64, from places or a mask."""
    found = torch.as_tensor(nodes, device="cpu")
    if found.dtype == torch.bool and found.shape == (num_nodes,):
        found = found.nonzero().flatten()
    chosen: Tensor = integers("NeighborSampler", name, found).detach().cpu()
    if chosen.dim() != 1:
        raise ShapeError(
            f"NeighborSampler: {name} must have one axis, or be a mask ({num_nodes},), not {tuple(chosen.shape)}."
        )
    if chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < num_nodes:
        wrong = int(chosen.min()) if chosen.min() < 0 else int(chosen.max())
        raise ShapeError(f"NeighborSampler: {name} must lie in 0 … {num_nodes - 1}; found {wrong}.")
    return chosen.contiguous().numpy()
