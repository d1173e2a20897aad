"""The three updates of a graph network: of its edges, of its nodes and of the whole graph; and aggregations."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import aggregate, attention_weights
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Trace
from edgewise.layers.given import require_function, two
from edgewise.layers.heads import attend_and_record, join_heads, record, require_multiple, split_heads
from edgewise.layers.linear import Linear
from edgewise.layers.messages import Activation, EdgePerceptron, Perceptron, concat_features
from edgewise.neighborhood import Edges, derived
from edgewise.neighborhood.checks import require_sizes

AggregationName = Literal["sum", "mean", "max", "min", "attention"]
AGGREGATIONS: tuple[str, ...] = get_args(AggregationName)


class Aggregation(nn.Module):
    """One vector a receiver from those that its edges carry, whatever their order: o_i = ⊕_{e→i} m_e.

        attention    o_i = Σ_{e→i} α_e W^V m_e,   α = softmax over the edges into i of (W^Q x_i)·(W^K m_e) / √d

    Args:
        edge_dim: size of the m_e, and of the output.
        receiver_dim: size of the x_i, which only attention reads; 0 leaves one learned query.
        aggregation: ⊕, "sum", "mean", "max", "min" or "attention".
        num_heads: heads of the attention, side by side.

    Empty: zero.
    Cost: O(edge · edge_dim), with attention O(edge · edge_dim²) for its matrices.
    """

    def __init__(self, edge_dim: int, receiver_dim: int, aggregation: AggregationName = "sum", num_heads: int = 1):
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise SettingError(
                f"Aggregation: aggregation must be one of {', '.join(AGGREGATIONS)}, not {aggregation!r}."
            )
        self.aggregation, self.num_heads, self.receiver_dim = aggregation, num_heads, receiver_dim
        if aggregation == "attention":
            require_multiple("Aggregation", "what edges carry", edge_dim, num_heads)
            if receiver_dim > 0:
                self.query = Linear(receiver_dim, edge_dim)
            else:
                self.learned_query = nn.Parameter(torch.randn(edge_dim))
            self.key, self.value = Linear(edge_dim, edge_dim), Linear(edge_dim, edge_dim)

    def forward(
        self,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"],
        edges: Edges,
        receivers: Float[Tensor, " *receiver_batch query receiver_dim"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch query edge_dim"]:
        """The vector of each receiver; attention records its weights into `trace`."""
        if self.aggregation != "attention":
            no_values = edge_features.new_zeros(edges.num_senders, edge_features.shape[-1])
            return aggregate(no_values, edges, self.aggregation, edge_value=edge_features)

        # Senders lack features: keys and values are on the edges alone.
        edge_key, edge_value = (split_heads(part(edge_features), self.num_heads) for part in (self.key, self.value))
        if self.receiver_dim > 0:
            query = self.query(receivers)
        else:
            query = self.learned_query.to(edge_key.dtype).expand(edges.num_receivers, -1)

        query, zeros = split_heads(query, self.num_heads), edge_key.new_zeros(edges.num_senders, edge_key.shape[-1])
        heads = attend_and_record(trace, query, zeros, zeros, edges, edge_key=edge_key, edge_value=edge_value)
        return join_heads(heads)


class EdgeUpdate(nn.Module):
    """Each edge k, from j to i, after what it is, the nodes at its ends and the graph.

        e'_k = α_k φ([v_i; u], v_j, e_k)
        α_k = 1, or with attention the softmax of (W [v_i; u])·(U [v_j; e_k]) / √d over the edges into i, per head

    Args:
        node_dim, edge_dim, global_dim: sizes of v, e and u; 0 for what it does not read. Two sizes of nodes are those
            of sources and targets.
        output_dim: size of the edges after.
        hidden_dim: between the two matrices of φ; output_dim by default.
        num_heads: heads of the attention, each of which weighs its part of φ; None for no attention.
        activation: within φ.

    Source: Battaglia et al. 2018, eq. 1, φ^e; with attention their section 4.2.2, non-local networks.
    """

    def __init__(
        self,
        node_dim: int | tuple[int, int],
        edge_dim: int,
        global_dim: int,
        output_dim: int,
        hidden_dim: int | None = None,
        *,
        num_heads: int | None = None,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        self.node_dim, self.edge_dim, self.global_dim, self.num_heads = node_dim, edge_dim, global_dim, num_heads
        source_dim, target_dim = self.end_dims = two("EdgeUpdate", "node_dim", node_dim)
        hidden_dim = output_dim if hidden_dim is None else hidden_dim
        require_sizes("EdgeUpdate", 0, edge_dim=edge_dim, global_dim=global_dim)
        require_sizes("EdgeUpdate", output_dim=output_dim, hidden_dim=hidden_dim)
        require_function("EdgeUpdate", "activation", activation)
        receiver_dim = target_dim + global_dim
        self.network = EdgePerceptron(receiver_dim, source_dim, edge_dim, hidden_dim, output_dim, activation)
        if num_heads is not None:
            require_multiple("EdgeUpdate", "output_dim", output_dim, num_heads)
            self.query, self.key = Linear(receiver_dim, output_dim), Linear(source_dim, output_dim)
            self.edge_key = Linear(edge_dim, output_dim, bias=False) if edge_dim > 0 else None

    def forward(
        self,
        nodes: Float[Tensor, " *node_batch node node_dim"] | tuple[Tensor, Tensor],
        edges: Edges,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"],
        global_features: Float[Tensor, " *global_batch graph global_dim"],
        graph_of_node: Int64[Tensor, " node"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch edge output_dim"]:
        """The edges after the update, in the order of `edges`; attention records its weights into `trace`.

        Nodes may be (sources, targets); `graph_of_node` is then that of the targets.
        """
        source, target = nodes if isinstance(nodes, tuple) else (nodes, nodes)
        source_dim, target_dim = self.end_dims
        senders, edge_features = read_features(source, source_dim), read_features(edge_features, self.edge_dim)
        globals_of_node = read_features(global_features, self.global_dim).index_select(-2, graph_of_node)
        receivers = concat_features(read_features(target, target_dim), globals_of_node)
        message = self.network(receivers, senders, edge_features, edges)
        if self.num_heads is None:
            return message

        query, key = split_heads(self.query(receivers), self.num_heads), split_heads(self.key(senders), self.num_heads)
        edge_key = None if self.edge_key is None else split_heads(self.edge_key(edge_features), self.num_heads)
        record(trace, query, key, edges, edge_key=edge_key)
        weights = attention_weights(query, key, edges, edge_key=edge_key).values

        return join_heads(split_heads(message, self.num_heads) * weights.unsqueeze(-1))


class NodeUpdate(nn.Module):
    """Each node after the edges that go to it, what it is and the graph: φ(ρ_{k→i} e'_k, v_i, u).

    Args:
        node_dim, edge_dim, global_dim: sizes of v, e' and u; 0 for what it does not read.
        output_dim: size of the nodes after.
        hidden_dim: between the two matrices of φ; output_dim by default.
        aggregation: ρ: "sum", "mean", "max", "min", or "attention", whose query is [v_i; u].
        num_heads: heads of the attention.
        activation: within φ.

    Empty: a node without edges is updated from zeros in their place.
    Source: Battaglia et al. 2018, eq. 1, φ^v and ρ^{e→v}.
    """

    def __init__(
        self,
        node_dim: int,
        edge_dim: int,
        global_dim: int,
        output_dim: int,
        hidden_dim: int | None = None,
        *,
        aggregation: AggregationName = "sum",
        num_heads: int = 1,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        hidden_dim = output_dim if hidden_dim is None else hidden_dim
        require_sizes("NodeUpdate", 0, node_dim=node_dim, edge_dim=edge_dim, global_dim=global_dim)
        require_sizes("NodeUpdate", output_dim=output_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        require_function("NodeUpdate", "activation", activation)
        own_dim = node_dim + global_dim
        self.together = Aggregation(edge_dim, own_dim, aggregation, num_heads) if edge_dim > 0 else None
        self.network = Perceptron(edge_dim + own_dim, hidden_dim, output_dim, activation)

    def forward(
        self,
        nodes: Float[Tensor, " *node_batch node node_dim"],
        edges: Edges,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"],
        global_features: Float[Tensor, " *global_batch graph global_dim"],
        graph_of_node: Int64[Tensor, " node"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the update; attention records its weights into `trace`."""
        globals_of_node = read_features(global_features, self.global_dim).index_select(-2, graph_of_node)
        node_inputs = concat_features(read_features(nodes, self.node_dim), globals_of_node)
        if self.together is not None:
            node_inputs = concat_features(self.together(edge_features, edges, node_inputs, trace=trace), node_inputs)
        return self.network(node_inputs)


class GlobalUpdate(nn.Module):
    """Each graph after its edges and nodes, aggregated, and what it is: u' = φ(ρ_k e'_k, ρ_i v'_i, u).

    Args:
        node_dim, edge_dim, global_dim: sizes of v', e' and u; 0 for what it does not read.
        output_dim: size of the globals after.
        hidden_dim: between the two matrices of φ; output_dim by default.
        edge_aggregation, node_aggregation: the two ρ: "sum", "mean", "max", "min", or "attention", whose query is u, or
            one learned vector without u.
        num_heads: heads of the attentions.
        activation: within φ.

    Empty: a graph without nodes or edges is updated from zeros in their place.
    Source: Battaglia et al. 2018, eq. 1, φ^u, ρ^{e→u} and ρ^{v→u}.
    """

    def __init__(
        self,
        node_dim: int,
        edge_dim: int,
        global_dim: int,
        output_dim: int,
        hidden_dim: int | None = None,
        *,
        edge_aggregation: AggregationName = "sum",
        node_aggregation: AggregationName = "sum",
        num_heads: int = 1,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        hidden_dim = output_dim if hidden_dim is None else hidden_dim
        require_sizes("GlobalUpdate", 0, node_dim=node_dim, edge_dim=edge_dim, global_dim=global_dim)
        require_sizes("GlobalUpdate", output_dim=output_dim, hidden_dim=hidden_dim, num_heads=num_heads)
        require_function("GlobalUpdate", "activation", activation)
        self.edges_together = Aggregation(edge_dim, global_dim, edge_aggregation, num_heads) if edge_dim > 0 else None
        self.nodes_together = Aggregation(node_dim, global_dim, node_aggregation, num_heads) if node_dim > 0 else None
        self.network = Perceptron(edge_dim + node_dim + global_dim, hidden_dim, output_dim, activation)

    def forward(
        self,
        nodes: Float[Tensor, " *node_batch node node_dim"],
        edges: Edges,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"],
        global_features: Float[Tensor, " *global_batch graph global_dim"],
        graph_of_node: Int64[Tensor, " node"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch graph output_dim"]:
        """The globals after the update; attention records its weights into `trace`, those over nodes first."""
        num_graphs = global_features.shape[-2]
        queries = graph_inputs = read_features(global_features, self.global_dim)
        if self.nodes_together is not None:
            graph_inputs = concat_features(
                self.nodes_together(nodes, _members(graph_of_node, num_graphs), queries, trace=trace), graph_inputs
            )
        if self.edges_together is not None:
            graph_of_edge = graph_of_node.index_select(0, edges.receivers)
            graph_inputs = concat_features(
                self.edges_together(edge_features, _members(graph_of_edge, num_graphs), queries, trace=trace),
                graph_inputs,
            )

        return self.network(graph_inputs)


def read_features(features: Float[Tensor, " *batch row feature"], size: int) -> Float[Tensor, " *batch row seen"]:
    """The features as they are; none of them where the size is 0, for what an update does not read.

    Raises:
        ShapeError: their number is not the one that the update was made for.
    """
    if size != 0 and features.shape[-1] != size:
        raise ShapeError(f"GraphNetwork: {features.shape[-1]} features came where an update was made for {size}.")
    return features[..., :0] if size == 0 else features


def _members(graph_of: Tensor, num_graphs: int) -> Edges:
    """Nodes or edges as edges to their graph, all from one sender without features."""
    return derived(torch.zeros_like(graph_of), graph_of, 1, num_graphs)
