"""Batches of clusters: parts of a graph with few edges between them (Cluster-GCN)."""

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

MAX_SIZE_RATIO = 11, 10
"""The largest size of a cluster, relative to the mean, as a fraction."""


def partition(graph: Any, num_clusters: int, *, num_rounds: int = 10, seed: int = 0) -> Int64[Tensor, " node"]:
    """Partitions a graph into clusters of about equal size with few edges between them.

    Nodes in breadth-first order are split into clusters of equal size. Then each node moves to the cluster of most of
    its neighbors, if it has room: label propagation, round after round. Directions of edges do not matter.

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        num_clusters: number of clusters.
        num_rounds: the most rounds of label propagation.
        seed: seed for the start of the search, and the order of the nodes.

    Returns:
        The cluster of each node. No cluster is larger than 1.1 times the mean size, rounded up.

    Raises:
        SettingError: `num_clusters` is below 1 or above the number of nodes.

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

    lists = [array.numpy() for array in graph.edges.to("cpu").plan.lists]
    links = lists[0], lists[1], lists[3], lists[4]
    order = np.random.default_rng(seed).permutation(num_nodes)
    clusters = np.empty(num_nodes, np.int64)
    clusters[breadth_first(*links, order)] = np.arange(num_nodes) * num_clusters // max(num_nodes, 1)
    max_size = -(-MAX_SIZE_RATIO[0] * num_nodes // (MAX_SIZE_RATIO[1] * num_clusters))
    propagate(*links, order, clusters, num_clusters, max_size, num_rounds)

    return torch.from_numpy(clusters)


class ClusterLoader:
    """Batches of clusters, with all edges between their nodes.

        for sample in ClusterLoader(graph, partition(graph, 100), clusters_per_batch=10, shuffle=True):
            outputs = model(sample.graph)[sample.seeds]

    Args:
        graph: a `Graph`, or what `Graph.of` takes.
        clusters: the cluster of each node.
        clusters_per_batch: clusters per batch; drawn anew in each epoch if batches are shuffled.
        seeds: nodes that count, such as training nodes; None for all.
        shuffle: whether clusters are shuffled in each epoch.
        seed: seed of the order.
        num_workers: threads that prefetch batches; 0 makes each when it is needed.

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
        cluster_of_node = integers("ClusterLoader", "clusters", clusters).cpu()
        if cluster_of_node.shape != (num_nodes,) or bool((cluster_of_node < 0).any()):
            raise ShapeError(
                f"ClusterLoader: clusters is {tuple(cluster_of_node.shape)}; expected the cluster of each node, "
                f"({num_nodes},), counted from 0."
            )
        if clusters_per_batch < 1:
            raise SettingError(f"ClusterLoader: clusters_per_batch is {clusters_per_batch}; expected at least 1.")

        self.nodes = cluster_of_node.argsort(stable=True).numpy()
        counts = torch.bincount(cluster_of_node)
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
        batches = (
            order[start : start + self.clusters_per_batch] for start in range(0, len(order), self.clusters_per_batch)
        )
        yield from ahead(self._sample, batches, self.num_workers)

    def _sample(self, clusters: np.ndarray) -> Sample:
        from edgewise.sampling.kernels import induced

        nodes = np.concatenate([self.nodes[self.offsets[cluster] : self.offsets[cluster + 1]] for cluster in clusters])
        with self.incoming.index_table() as index_of_node:
            senders, receivers, edges = induced(self.incoming.offsets, self.incoming.links, nodes, index_of_node)
        seeds = np.flatnonzero(self.is_seed[nodes])
        per_hop = (len(nodes),), (len(edges),)
        return Sample.of(self.graph, nodes, senders, receivers, edges, seeds, *per_hop, is_induced=True)
