"""Samples the neighborhoods of seeds, hop after hop, from a graph in memory."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.neighborhood.index import integers
from edgewise.sampling.incoming import Incoming, checked_times, whole
from edgewise.sampling.sample import Sample

STRATEGIES = ("uniform", "last")
"""Which edges before the seed's time are sampled: random ones, or the latest."""
FORMS = ("directional", "induced")
"""Which edges a sample has: the sampled ones, or all between its nodes."""
MAX_FANOUT = 2**31
"""The most draws per node for which a kernel has room."""
Fanouts = Sequence[int] | Mapping[Hashable, Sequence[int]]
"""Edges to sample per node in each hop; or a mapping from edge types to these."""


class NeighborSampler:
    """Samples incoming edges around seeds: the neighborhood that a model with as many layers reads.

        hop h:  for each node found in hop h − 1, up to fanouts[h] of its incoming edges, and their senders

    A node is expanded once, in the hop that finds it, so that all layers read the same edges of it. Random numbers are
    determined by (seed, epoch, batch, hop, node) alone: a sample depends neither on the number of threads nor on
    earlier samples.

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        fanouts: edges per node for each hop, −1 for all; or a mapping from edge types to these: their names, or
            their indices where they are without names. Other types are not sampled.
        replace: whether the same edge may be drawn several times.
        weights: `(edge)`, non-negative sampling weights. An edge of weight 0 is never sampled.
        edge_times: `(edge)`: only edges before the time of the seed are sampled; each seed then has its own tree.
        strategy: "uniform", or "last": the latest edges before the seed's time.
        disjoint: whether each seed has its own tree, so that a node may occur several times in a sample.
        form: "directional", the sampled edges; or "induced", all edges between the sampled nodes.
        seed: seed of the random numbers.
        incoming: precomputed incoming edges; the edges of the graph are then not read. Pass the same weights and times
            as to `Incoming.of`.

    Raises:
        SettingError: fanouts or another option is invalid.
        ShapeError: weights or times are not one for each edge, senders and receivers are two sets of nodes, or
            `incoming` does not fit the graph.
        DataError: a weight is negative, NaN or infinite, or a time is NaN.

    Cost: O(edge + node) once; the cost of a sample is proportional to its size, whatever the size of the graph.
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
            raise SettingError("NeighborSampler: form 'induced' needs seeds that share nodes; drop disjoint.")

        self.times_are_whole = self.is_timed and not torch.as_tensor(edge_times, device="cpu").is_floating_point()
        self.incoming = Incoming.of(self.graph, weights, edge_times) if incoming is None else incoming
        if incoming is not None:
            self._check_incoming(incoming, has_weights=weights is not None)
        self.between = self.incoming.complete(self.graph) if form == "induced" else self.incoming
        if not self.replace:  # so that the buffers of a kernel stay small
            self.fanouts = np.minimum(self.fanouts, max(len(self.incoming.links), 1))

    def _check_incoming(self, incoming: Incoming, has_weights: bool) -> None:
        """Raise unless the incoming edges fit the graph and the other arguments."""
        incoming.check(self.graph.num_nodes, self.fanouts.shape[1])
        columns = ("edge_times", self.is_timed, incoming.times), ("weights", has_weights, incoming.cumulative)
        for name, is_expected, column in columns:
            if len(incoming.links) and is_expected != (len(column) > 0):
                raise SettingError(
                    f"NeighborSampler: incoming {'has no' if is_expected else 'has'} {name}, which are "
                    f"{'given' if is_expected else 'not given'}; make it with Incoming.of(graph, weights, "
                    f"edge_times) and "
                    "pass the same here."
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
            seeds: indices of nodes, or a mask `(node)`.
            times: the time of each seed, where the sampler has times of edges.
            epoch, batch: select the random numbers.
            without: pairs of nodes; edges between them, in either direction, are removed from the sample.

        Raises:
            ShapeError: a seed is out of range, or times are missing, not needed or not one for each seed.
            DataError: a time is NaN.
        """
        from edgewise.sampling import kernels

        seed_nodes = checked_nodes("seeds", seeds, self.graph.num_nodes)
        key = np.random.SeedSequence((self.seed, epoch, batch)).generate_state(1, np.uint64)[0]
        incoming = self.incoming
        with incoming.index_table(not self.disjoint) as index_of_node:
            nodes, trees, roots, senders, receivers, edges, *per_hop = kernels.sample(
                *(incoming.offsets, incoming.links, incoming.types, incoming.times, incoming.cumulative, self.fanouts),
                *(
                    self.replace,
                    self.strategy,
                    self.disjoint,
                    seed_nodes,
                    self._limits(times, len(seed_nodes)),
                    key,
                    index_of_node,
                ),
            )
            if self.form == "induced":
                senders, receivers, edges = kernels.induced(
                    self.between.offsets, self.between.links, nodes, index_of_node
                )

        nodes_per_hop, edges_per_hop = per_hop
        if self.form == "induced":
            edges_per_hop = np.array([len(edges)])
        if without is not None:
            is_kept = ~_joined(nodes[senders], nodes[receivers], without, self.graph.num_nodes)
            edges_per_hop = np.diff(np.append(0, is_kept).cumsum()[np.append(0, edges_per_hop.cumsum())])
            senders, receivers, edges = senders[is_kept], receivers[is_kept], edges[is_kept]

        per_hop = tuple(nodes_per_hop.tolist()), tuple(edges_per_hop.tolist())
        tree_of_node = trees if self.disjoint else None
        sampled = nodes, senders, receivers, edges, roots, *per_hop, tree_of_node
        return Sample.of(self.graph, *sampled, is_induced=self.form == "induced")

    def _limits(self, times: Any, num_seeds: int) -> np.ndarray:
        """The time of each seed, in the form of edge times."""
        if not self.is_timed:
            if times is not None:
                raise ShapeError("NeighborSampler: times are given, but edges have none: edge_times=….")
            return np.empty(0, np.int64)
        if times is None:
            raise ShapeError("NeighborSampler: edges have times; give those of the seeds: times=….")

        limits = torch.as_tensor(times, device="cpu").detach().cpu()
        if limits.shape != (num_seeds,):
            raise ShapeError(f"NeighborSampler: times is {tuple(limits.shape)}, expected ({num_seeds},), one per seed.")
        if not self.times_are_whole:
            return checked_times(limits.double().numpy())
        if not limits.is_floating_point():
            return limits.long().numpy()

        # An integer is below a fraction if it is below the next integer.
        fractions = limits.double().numpy()
        checked_times(fractions)
        return whole(np.ceil(fractions))


def fanout_table(fanouts: Fanouts, graph: Graph) -> np.ndarray:
    """Edges per node for each hop and type, int64 `(hop, type)`."""
    types = graph.edge_types
    names: Sequence[Hashable] = (None,) if types is None else types.names or range(types.num_types)
    if isinstance(fanouts, Mapping):
        if types is None:
            raise SettingError("NeighborSampler: fanouts are by type, but edges are not typed; give one list.")
        if unknown := [name for name in fanouts if name not in names]:
            raise SettingError(
                f"NeighborSampler: fanouts name the type {unknown[0]!r}, expected one of {', '.join(map(repr, names))}."
            )

        lengths = {len(hops) for hops in fanouts.values()}
        if len(lengths) != 1:
            raise SettingError(
                f"NeighborSampler: fanouts must have the same number of hops for each type, not {dict(fanouts)}."
            )

        rows = [list(fanouts.get(name, [0] * max(lengths))) for name in names]
    else:
        rows = [list(fanouts)] * len(names)
    if not rows or not rows[0]:
        raise SettingError("NeighborSampler: fanouts is empty; give a number for each hop, such as [15, 10].")

    for value in (value for row in rows for value in row):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -1 <= value < MAX_FANOUT:
            raise SettingError(
                f"NeighborSampler: a fanout is {value!r}; expected an integer number of edges per node, 0 for none, "
                f"or -1 "
                f"for all, below {MAX_FANOUT:,}."
            )

    return np.ascontiguousarray(np.array(rows, dtype=np.int64).T)


def _joined(
    senders: np.ndarray, receivers: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], num_nodes: int
) -> np.ndarray:
    """Which edges join the two nodes of a pair."""
    low, high = np.minimum(senders, receivers), np.maximum(senders, receivers)
    first, second = np.minimum(*pairs), np.maximum(*pairs)
    return np.isin(low * num_nodes + high, first * num_nodes + second, kind="sort")


def checked_nodes(name: str, nodes: Any, num_nodes: int) -> np.ndarray:
    """Indices of nodes, int64, from indices or a mask."""
    tensor = torch.as_tensor(nodes, device="cpu")
    if tensor.dtype == torch.bool and tensor.shape == (num_nodes,):
        tensor = tensor.nonzero().flatten()
    indices: Tensor = integers("NeighborSampler", name, tensor).detach().cpu()
    if indices.dim() != 1:
        raise ShapeError(
            f"NeighborSampler: {name} must have one axis, or be a mask ({num_nodes},), not {tuple(indices.shape)}."
        )
    if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < num_nodes:
        outside = int(indices.min()) if indices.min() < 0 else int(indices.max())
        raise ShapeError(f"NeighborSampler: {name} must lie in 0 … {num_nodes - 1}; found {outside}.")
    return indices.contiguous().numpy()
