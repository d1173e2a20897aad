"""The result of a sampler: a graph around seeds, and the indices of its nodes and edges in the full graph."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.graph import Graph
from edgewise.graph.record import Record
from edgewise.neighborhood import Edges
from edgewise.neighborhood.index import unchecked


@dataclass(frozen=True, eq=False)
class Sample(Record):
    """A graph sampled around seeds, its nodes in order: the seeds, then hop after hop.

    A model with as many layers as hops trains on `graph` unchanged; use its outputs at `seeds` only.
    """

    graph: Graph
    """The sampled nodes and edges, with their features, types, coordinates and names. Where a name may occur twice, as
    each seed has its tree or the full graph is a batch, it is (tree, name) or (graph, name)."""
    n_id: Int64[Tensor, " node"]
    """The index of each node in the full graph."""
    e_id: Int64[Tensor, " edge"]
    """The index of each edge in the full graph."""
    seeds: Int64[Tensor, " seed"]
    """The index in `graph` of each seed, in the order given; a repeated seed is a single node."""
    nodes_per_hop: tuple[int, ...]
    """The number of distinct seeds, and of the nodes that each hop added."""
    edges_per_hop: tuple[int, ...]
    """The number of edges that each hop sampled; a single number if the sample is induced."""
    trees: Int64[Tensor, " node"] | None = None
    """The index of the seed that each node was sampled for; None if seeds share nodes."""
    is_induced: bool = False
    """Whether the edges are all those between the nodes, rather than those that a hop sampled."""

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
        *,
        is_induced: bool = False,
    ) -> "Sample":
        """Nodes and edges of a graph by index, with their features; senders, receivers and seeds are indices in
        `nodes`."""
        n_id, e_id = torch.from_numpy(nodes), torch.from_numpy(edges)
        ends = {"senders": torch.from_numpy(senders), "receivers": torch.from_numpy(receivers)}
        # The indices are valid: they are neither copied nor checked.
        sampled_edges = unchecked(graph.edges, **ends, num_senders=len(nodes), num_receivers=len(nodes))
        tree_of_node = None if trees is None else torch.from_numpy(trees)
        graph_features, names = graph.graph_features if graph.num_graphs == 1 else None, graph.names
        if names is not None and (tree_of_node is not None or graph.offsets is not None):
            parts = graph.graph_of_node[n_id] if tree_of_node is None else tree_of_node
            names_in_parts = tuple((part, names[node]) for part, node in zip(parts.tolist(), n_id.tolist()))
            sampled_graph = unchecked(graph, names=None).select(n_id, e_id, sampled_edges, graph_features)
            sampled_graph = unchecked(sampled_graph, names=names_in_parts)
        else:
            sampled_graph = graph.select(n_id, e_id, sampled_edges, graph_features)
        per_hop = nodes_per_hop, edges_per_hop
        return cls(sampled_graph, n_id, e_id, torch.from_numpy(seeds), *per_hop, tree_of_node, is_induced)

    def blocks(self) -> list[Edges]:
        """The edges that each layer needs, first layer first, so that a layer computes only what the next one reads.

        Block l of L goes from the nodes up to hop L − l to those up to hop L − l − 1, which are the first of these
        senders: `nodes = layer(nodes, block)` ends with a row for each distinct seed. Its edges are the first
        `block.num_edges` of the sample, `edge_features` likewise.

        Raises:
            SettingError: the sample is induced.
        """
        if self.is_induced:
            raise SettingError(
                "Sample.blocks: this sample has all edges between its nodes, which belong to no hop; use sample.graph "
                "in all layers, or form='directional'."
            )

        nodes = list(accumulate(self.nodes_per_hop))
        edges, blocks = self.graph.edges, []
        for hop, count in enumerate(accumulate(self.edges_per_hop)):
            ends = {"senders": edges.senders[:count], "receivers": edges.receivers[:count]}
            sizes = {"num_senders": nodes[hop + 1], "num_receivers": nodes[hop]}
            blocks.append(unchecked(edges, **ends, **sizes))
        return blocks[::-1]
