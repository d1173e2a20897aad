"""From the nodes of each graph to one vector."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.errors import SettingError, ShapeError, plural
from edgewise.graph import Trace
from edgewise.layers.given import offsets_of, require_nodes, size_of, weight_of
from edgewise.layers.heads import attend_and_record, join_heads, require_multiple, split_heads
from edgewise.layers.linear import Linear
from edgewise.neighborhood import Edges, derived, membership
from edgewise.neighborhood.checks import require_sizes

AggregationName = Literal["attention", "mean", "sum", "max"]
AGGREGATIONS: tuple[str, ...] = get_args(AggregationName)


class Readout(nn.Module):
    """One vector a graph, whatever the order of its nodes: ⊕_{i in graph} h_i, ⊕ by attention, mean, sum or max.

    Attention lets a learned query per head attend to all nodes of the graph: Σ_i softmax_i(q·k_i/√d) v_i.

    Args:
        model_dim: size of the nodes and of the vector.
        aggregation: "attention", "mean", "sum" or "max".
        num_heads: heads of the attention.

    Empty: a graph with no node gives zero.
    Source: the attention readout is Lee et al. 2019 (pooling by multi-head attention, one seed).
    """

    def __init__(self, model_dim: int, aggregation: AggregationName = "attention", num_heads: int = 1):
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise SettingError(f"Readout: aggregation must be one of {', '.join(AGGREGATIONS)}, not {aggregation!r}.")
        require_sizes("Readout", model_dim=model_dim, num_heads=num_heads)
        self.aggregation, self.num_heads = aggregation, num_heads
        if aggregation == "attention":
            require_multiple("Readout", "model_dim", model_dim, num_heads)
            self.query = nn.Parameter(torch.randn(num_heads, 1, model_dim // num_heads))
            self.key, self.value = Linear(model_dim, model_dim), Linear(model_dim, model_dim)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        offsets: Int64[Tensor, " boundary"] | Edges | None = None,
        *,
        batch: Int64[Tensor, " rows"] | None = None,
        num_graphs: int | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch graph model_dim"]:
        """The vector of each graph.

        Args:
            nodes: graph after graph.
            offsets: nodes of graph g are `offsets[g]:offsets[g + 1]`; or what `membership` makes of that, once for
                several readouts. Without it and `batch`, all nodes are of one graph.
            batch: PyTorch Geometric's vector, the graph of each node, in any order; or offsets, if it is not as long as
                there are nodes.
            num_graphs: how many graphs there are; by default those up to the last one in the vector.
            trace: where the weights are recorded.

        Raises:
            ShapeError: `num_graphs` is not the number of graphs that the offsets name.
        """
        size, weight = (size_of(self.key), weight_of(self.key)) if self.aggregation == "attention" else (None, None)
        require_nodes("Readout", nodes, size, weight)
        members = offsets if isinstance(offsets, Edges) else members_of(offsets, batch, num_graphs, nodes)
        if num_graphs is not None and members.num_receivers != num_graphs:
            raise ShapeError(
                f"Readout: num_graphs is {num_graphs}, but the nodes are of {plural(members.num_receivers, 'graph')}; "
                "drop it, or pass the graph of each node: batch=…"
            )
        if self.aggregation != "attention":
            return aggregate(nodes, members, self.aggregation)

        key, value = (split_heads(linear(nodes), self.num_heads) for linear in (self.key, self.value))
        query = self.query.to(key.dtype).expand(-1, members.num_receivers, -1)  # under autocast keys are half precision
        return join_heads(attend_and_record(trace, query, key, value, members))


def members_of(offsets: Tensor | None, batch: Tensor | None, num_graphs: int | None, nodes: Tensor) -> Edges:
    """Every node as an edge from itself to its graph."""
    if offsets is not None and batch is not None:
        raise SettingError("Readout: got both offsets and batch, which both name the graphs; pass one of them.")
    num_nodes = nodes.shape[-2]
    offsets = None if offsets is None else offsets_of("Readout", offsets, nodes)
    batch = None if batch is None else offsets_of("Readout", batch, nodes, "batch")
    if batch is not None and batch.shape == (num_nodes,):
        if num_graphs is None:
            num_graphs = 1 + int(batch.max()) if num_nodes else 0
        return derived(torch.arange(num_nodes, device=batch.device), batch, num_nodes, num_graphs)
    offsets = batch if offsets is None else offsets
    return membership(torch.tensor([0, num_nodes], device=nodes.device) if offsets is None else offsets, num_nodes)
