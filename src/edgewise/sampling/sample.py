"""What a sampler returns: a graph around some seeds, and where its nodes and edges stand in the whole one."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.graph import Graph
from edgewise.graph.records import Record
from edgewise.neighborhood import Edges
from edgewise.neighborhood.index import unchecked


@dataclass(frozen=True, eq=False)
class Sample(Record):
    """A graph sampled around some seeds, in the order in which it was found: the seeds, then hop after hop.

    A model of as many layers as hops trains on `graph` unchanged; its outputs count at `seeds` only.
    """

    graph: Graph
    """The sampled nodes and edges, with their features, types, positions and names."""
    n_id: Int64[Tensor, " node"]
    """Where each node stands in the whole graph."""
    e_id: Int64[Tensor, " edge"]
    """Where each edge stands in the whole graph."""
    seeds: Int64[Tensor, " seed"]
    """The place in `graph` of each seed, in the order in which they were given; a node given twice stands once."""
    nodes_per_hop: tuple[int, ...]
    """The number of different seeds, and how many nodes each hop added."""
    edges_per_hop: tuple[int, ...]
    """How many edges each hop sampled."""
    trees: Int64[Tensor, " node"] | None = None
    """The number of the seed that each node was sampled for; None where seeds share nodes."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        nodes: np.ndarray,
        senders: np.ndarray,
        receivers: np.ndarray,
        edges: np.ndarray,
        seeds: np.ndarray,
        nodes_per_hop: tuple[int, ...],
        edges_per_hop: tuple[int, ...],
        trees: np.ndarray | None = None,
    ) -> "Sample":
        """Nodes and edges of a graph by number, with their features; senders, receivers and seeds count in `nodes`."""
        n_id, e_id = torch.from_numpy(nodes), torch.from_numpy(edges)
        ends = {"senders": torch.from_numpy(senders), "receivers": torch.from_numpy(receivers)}
        # Made of numbers that are right: they are neither copied nor checked.
        among = unchecked(graph.edges, **ends, num_senders=len(nodes), num_receivers=len(nodes))
        part = graph.select(n_id, e_id, among, graph.graph_features if graph.num_graphs == 1 else None)
        of_node = None if trees is None else torch.from_numpy(trees)
        return cls(part, n_id, e_id, torch.from_numpy(seeds), nodes_per_hop, edges_per_hop, of_node)

    def blocks(self) -> list[Edges]:
        """The edges that each layer needs, first layer first, where a layer computes no more than the next one reads.

        Block l of L goes from the nodes up to hop L − l to those up to hop L − l − 1, which are the first of these
        senders: `nodes = layer(nodes, block)` ends with a row for each different seed. Its edges are the first
        `block.num_edges` of the sample, `edge_features` likewise.
        """
        nodes = list(accumulate(self.nodes_per_hop))
        edges, found = self.graph.edges, []
        for hop, count in enumerate(accumulate(self.edges_per_hop)):
            ends = {"senders": edges.senders[:count], "receivers": edges.receivers[:count]}
            sizes = {"num_senders": nodes[hop + 1], "num_receivers": nodes[hop]}
            found.append(unchecked(edges, **ends, **sizes))
        return found[::-1]
