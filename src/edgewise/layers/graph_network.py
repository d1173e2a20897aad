"""The full block of a graph network: edges, nodes and the whole graph learn from each other; and sources of globals."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.errors import ShapeError
from edgewise.graph import Trace
from edgewise.layers.given import offsets_of, require_nodes, weight_of
from edgewise.layers.graph_update import EdgeUpdate, GlobalUpdate, NodeUpdate
from edgewise.neighborhood import GivenNeighborhood, edges_of, membership
from edgewise.neighborhood.checks import check_offsets, require_sizes
from edgewise.score import safe_sqrt


class GraphFeatures(NamedTuple):
    """Features of every node, every edge and every graph."""

    nodes: Float[Tensor, " *node_batch node node_dim"]
    """One row a node."""
    edge_features: Float[Tensor, " *edge_batch edge edge_dim"]
    """One row an edge, in the order of the edges; of size 0 where there are none."""
    global_features: Float[Tensor, " *global_batch graph global_dim"]
    """One row a graph; of size 0 where there are none."""


class NodeStatistics(nn.Module):
    """How many nodes a graph has, and the mean, spread, smallest and largest of each of their features.

        u_g = [n; mean x; √(mean (x − mean x)²); min x; max x]    over the n nodes of graph g

    Args:
        node_dim: size of the nodes.

    Empty: a graph without nodes gives zero. One node has a spread of 0, without a gradient through it.
    """

    def __init__(self, node_dim: int):
        super().__init__()
        require_sizes("NodeStatistics", 0, node_dim=node_dim)
        self.global_dim = 1 + 4 * node_dim
        """Size of u."""

    def forward(
        self, nodes: Float[Tensor, " *batch node node_dim"], offsets: Int64[Tensor, " boundary"]
    ) -> Float[Tensor, " *batch graph global_dim"]:
        """The statistics of each graph; nodes of graph g are `offsets[g]:offsets[g + 1]`."""
        require_nodes("NodeStatistics", nodes, (self.global_dim - 1) // 4)
        offsets = offsets_of("NodeStatistics", offsets, nodes)
        members = membership(offsets, nodes.shape[-2])
        mean = aggregate(nodes, members, "mean")
        squares = aggregate((nodes - mean.index_select(-2, members.receivers)).square(), members, "mean")
        spread = safe_sqrt(squares)
        count = offsets.diff().to(nodes.dtype).unsqueeze(-1).expand(*mean.shape[:-1], 1)
        extremes = [aggregate(nodes, members, "min"), aggregate(nodes, members, "max")]
        return torch.cat([count, mean, spread, *extremes], -1)


class LearnedGlobals(nn.Module):
    """The same learned vector for every graph.

    Args:
        global_dim: its size.
    """

    def __init__(self, global_dim: int):
        super().__init__()
        require_sizes("LearnedGlobals", global_dim=global_dim)
        self.global_dim = global_dim
        """Its size."""
        self.vector = nn.Parameter(torch.randn(global_dim))

    def forward(
        self, nodes: Float[Tensor, " *batch node node_dim"], offsets: Int64[Tensor, " boundary"]
    ) -> Float[Tensor, " graph global_dim"]:
        """The vector, once a graph."""
        require_nodes("LearnedGlobals", nodes)
        offsets = offsets_of("LearnedGlobals", offsets, nodes)
        check_offsets("LearnedGlobals", offsets, nodes.shape[-2])
        return self.vector.expand(offsets.shape[0] - 1, -1)


class GraphNetwork(nn.Module):
    """Edges learn from their ends, nodes from their edges, the graph from both, and all of them from the graph.

        e'_k = φ^e(e_k, v_i, v_j, u)    for every edge k, from j to i
        v'_i = φ^v(ρ^{e→v}_{k→i} e'_k, v_i, u)
        u'   = φ^u(ρ^{e→u}_k e'_k, ρ^{v→u}_i v'_i, u)

    Each update is an object of its own, in which every φ, ρ and attention is chosen. What is None is not updated: it is
    passed on, and the others see it as it came. Deep sets are a node and a global update that read no edges; a message
    passing network lacks the global update; a relation network's global update reads edges alone.

    Args:
        edge, node, graph: the updates, in the order in which they run; each sees what those before it have made.
        global_source: what u is where none is given: `NodeStatistics`, `LearnedGlobals`, or nothing, of size 0.

    Empty: a node without edges, or a graph without nodes, is updated from zeros in their place.
    Source: Battaglia et al. 2018, algorithm 1; r_k and s_k there are i and j here; the subsets are their figure 4.

    >>> from edgewise import Edges
    >>> node = NodeUpdate(4, 8, 3, 8, aggregation="attention")
    >>> block = GraphNetwork(EdgeUpdate(4, 2, 3, 8), node, GlobalUpdate(8, 8, 3, 6))
    >>> nodes, edges = torch.randn(5, 4), Edges([0, 1, 3], [1, 2, 4], 5, 5)
    >>> out = block(nodes, edges, torch.randn(3, 2), torch.randn(2, 3), torch.tensor([0, 3, 5]))
    >>> [tuple(part.shape) for part in out]
    [(5, 8), (3, 8), (2, 6)]
    """

    def __init__(
        self,
        edge: EdgeUpdate | None = None,
        node: NodeUpdate | None = None,
        graph: GlobalUpdate | None = None,
        *,
        global_source: NodeStatistics | LearnedGlobals | None = None,
    ):
        super().__init__()
        self.edge, self.node, self.graph, self.global_source = edge, node, graph, global_source

    def forward(
        self,
        nodes: Float[Tensor, " *node_batch node node_dim"] | tuple[Tensor, Tensor],
        edges: GivenNeighborhood,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        global_features: Float[Tensor, " *global_batch graph global_dim"] | None = None,
        offsets: Int64[Tensor, " boundary"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> GraphFeatures:
        """Nodes, edges and globals after the block.

        Args:
            nodes: v; or (sources, targets), of which the targets are updated and returned, and are the nodes of u.
            edges: who sends to whom, within each graph.
            edge_features: e, one row an edge; of size 0 where None.
            global_features: u, one row a graph; from `global_source` where None.
            offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`; all are of one graph where None.
            trace: where attention records its weights, update after update.

        Raises:
            ShapeError: edge features are not one row an edge, or globals not one row a graph.
        """
        source, target = nodes if isinstance(nodes, tuple) else (nodes, nodes)
        named = (("source", source), ("target", target)) if isinstance(nodes, tuple) else (("nodes", nodes),)
        weight = weight_of(self)
        for name, node_features in named:
            require_nodes("GraphNetwork", node_features, None, weight, name)
        sizes = target.shape[-2], source.shape[-2]
        ends, edges = nodes, edges_of("GraphNetwork", edges, *sizes, target.device, edge_features)

        if offsets is not None:
            offsets = offsets_of("GraphNetwork", offsets, target)
            check_offsets("GraphNetwork", offsets, target.shape[-2])
        else:
            offsets = torch.tensor([0, target.shape[-2]], device=target.device)
        if edge_features is None:
            edge_features = target.new_zeros(edges.num_edges, 0)
        if global_features is None:
            if self.global_source is None:
                global_features = target.new_zeros(offsets.shape[0] - 1, 0)
            else:
                global_features = self.global_source(target, offsets)

        rows = (
            ("edge", "edge_features", edge_features, edges.num_edges),
            ("graph", "global_features", global_features, offsets.shape[0] - 1),
        )
        for axis, name, features, expected in rows:
            require_nodes("GraphNetwork", features, None, weight, name)
            if features.shape[-2] != expected:
                raise ShapeError(
                    f"GraphNetwork: axis '{axis}' is {features.shape[-2]} in its features but {expected} in the graph."
                )

        graph_of_node = membership(offsets, target.shape[-2]).receivers
        if self.edge is not None:
            edge_features = self.edge(ends, edges, edge_features, global_features, graph_of_node, trace=trace)
        if self.node is not None:
            target = self.node(target, edges, edge_features, global_features, graph_of_node, trace=trace)
        if self.graph is not None:
            global_features = self.graph(target, edges, edge_features, global_features, graph_of_node, trace=trace)

        return GraphFeatures(target, edge_features, global_features)
