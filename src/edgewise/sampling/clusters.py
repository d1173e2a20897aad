"""Batches of clusters: parts of a graph with few edges between them, for models that read every edge of a batch."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.neighborhood.index import integers
from edgewise.sampling.ahead import ahead
from edgewise.sampling.incoming import Incoming
from edgewise.sampling.sample import Sample
from edgewise.sampling.sampler import checked_nodes

SLACK = 11, 10
"""How many times the mean size a cluster may have, as a fraction."""


def partition(graph: Any, num_clusters: int, *, num_rounds: int = 10, seed: int = 0) -> Int64[Tensor, " node"]:
    """Parts of about the same size with few edges between them.

    Nodes are put in the order of breadth-first searches, which is cut into parts of one size. Then each node moves to
    the part in which most of its neighbors are, where there is room: label propagation, round after round. Directions
    of edges do not count.

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        num_clusters: how many parts.
        num_rounds: rounds of label propagation, at most.
        seed: of the node at which the search begins, and of the order of the nodes.

    Returns:
        The part of each node. None is larger than 1.1 times the mean size, rounded up.

    Raises:
        SettingError: there are fewer nodes than clusters, or no cluster.

    Cost: O(rounds · (node + edge)).
    Source: size-constrained label propagation as in Meyerhenke, Sanders & Schulz 2014, without their coarsening.
    """
    from edgewise.sampling.partition_kernels import breadth_first, propagate

    graph = Graph.of(graph)
    num_nodes = graph.num_nodes
    if not 1 <= num_clusters <= max(num_nodes, 1):
        raise SettingError(
            f"partition: num_clusters is {num_clusters}; expected 1 to {num_nodes}, the number of nodes."
        )
    lists = [each.numpy() for each in graph.edges.to("cpu").plan.lists]
    links = lists[0], lists[1], lists[3], lists[4]
    order = np.random.default_rng(seed).permutation(num_nodes)
    clusters = np.empty(num_nodes, np.int64)
    clusters[breadth_first(*links, order)] = np.arange(num_nodes) * num_clusters // max(num_nodes, 1)
    room = -(-SLACK[0] * num_nodes // (SLACK[1] * num_clusters))
    propagate(*links, order, clusters, num_clusters, room, num_rounds)
    return torch.from_numpy(clusters)


class ClusterLoader:
    """Batches of some clusters, with all edges between their nodes.

        for sample in ClusterLoader(graph, partition(graph, 100), clusters_per_batch=10, shuffle=True):
            outputs = model(sample.graph)[sample.seeds]

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        clusters: the cluster of each node.
        clusters_per_batch: clusters that are put together, drawn anew in each epoch where batches are shuffled.
        seeds: nodes that count, such as those of the training; None for all.
        shuffle: whether clusters stand in another order in each epoch.
        seed: of the order.
        num_workers: threads that cut batches out ahead; 0 cuts one when it is needed.

    Source: Chiang et al. 2019 (Cluster-GCN).
    """

    def __init__(
        self,
        graph: Any,
        clusters: Any,
        *,
        clusters_per_batch: int = 1,
        seeds: Any = None,
        shuffle: bool = False,
        seed: int = 0,
        num_workers: int = 1,
    ):
        self.graph = Graph.of(graph)
        num_nodes = self.graph.num_nodes
        of_node = integers("ClusterLoader", "clusters", clusters).cpu()
        if of_node.shape != (num_nodes,) or bool((of_node < 0).any()):
            raise ShapeError(
                f"ClusterLoader: clusters is {tuple(of_node.shape)}; expected the cluster of each node, "
                f"({num_nodes},), counted from 0."
            )
        if clusters_per_batch < 1:
            raise SettingError(f"ClusterLoader: clusters_per_batch is {clusters_per_batch}; expected at least 1.")
        self.nodes = of_node.argsort(stable=True).numpy()
        counts = torch.bincount(of_node)
        self.offsets = np.append(0, counts.cumsum(0).numpy())
        self.full = counts.nonzero().flatten().numpy()
        self.is_seed = np.ones(num_nodes, dtype=bool)
        if seeds is not None:
            self.is_seed[:] = False
            self.is_seed[checked_nodes("seeds", seeds, num_nodes)] = True
        self.incoming = Incoming.of(self.graph)
        self.clusters_per_batch, self.shuffle, self.seed = clusters_per_batch, shuffle, seed
        self.num_workers, self.epoch = num_workers, 0

    def __len__(self) -> int:
        return math.ceil(len(self.full) / self.clusters_per_batch)

    def __iter__(self) -> Iterator[Sample]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = np.random.default_rng([self.seed, epoch]).permutation(self.full) if self.shuffle else self.full
        chosen = (
            order[start : start + self.clusters_per_batch] for start in range(0, len(order), self.clusters_per_batch)
        )
        yield from ahead(self._sample, chosen, self.num_workers)

    def _sample(self, clusters: np.ndarray) -> Sample:
        from edgewise.sampling.kernels import induced

        nodes = np.concatenate([self.nodes[self.offsets[each] : self.offsets[each + 1]] for each in clusters])
        with self.incoming.place_table() as place_of:
            senders, receivers, edges = induced(self.incoming.offsets, self.incoming.links, nodes, place_of)
        seeds = np.flatnonzero(self.is_seed[nodes])
        return Sample.of(self.graph, nodes, senders, receivers, edges, seeds, (len(nodes),), (len(edges),))
