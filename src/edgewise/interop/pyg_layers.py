"""PyTorch Geometric's layers with the same parameters, computed by the kernels of Edgewise; see `pyg_fuse`.

Each class is a subclass of the layer it replaces and changes `forward` alone; `in_place_of_parent` lets it read, copy
and unpickle as that layer. A call that the kernels do not cover runs the `forward` of the parent class; `fallback` then
holds the reason.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv, SimpleConv, TransformerConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.dense import Linear as GeometricLinear
from torch_geometric.utils import add_self_loops

from edgewise.attend import aggregate, attend, attention_weights
from edgewise.backends.autograd import transform_at_work
from edgewise.errors import UnsupportedError
from edgewise.interop.pyg_calls import require_plain
from edgewise.interop.pyg_edges import (
    FallbackError,
    Rows,
    attention_edges,
    cached,
    checked,
    edge_features_of,
    edges_of,
    ends,
    is_met_again,
    pair_edges,
)
from edgewise.layers.feature import weighted_sum
from edgewise.layers.heads import products_with_heads
from edgewise.layers.linear import is_plain
from edgewise.neighborhood import Edges
from edgewise.score import GAT, GATv2, ScaledDot

MAX_HEADS_AT_ONCE = 16
"""Up to so many heads, scores of nodes are made by a matrix whose blocks are the vectors of the heads."""
MANY_NUMBERS = 1 << 19
"""From so many numbers in the messages of all edges on, the kernels are faster even where they need a plan first."""
FEW_NUMBERS = 1 << 17
"""Below so many the original is faster even where there is a plan; see benchmarks/new_graphs.py."""
SUMS = (SAGEConv, GINConv, SimpleConv)
"""Layers of which the original is faster up to `MANY_NUMBERS`, with a plan and without."""
LINEAR_AGGREGATIONS = ("add", "sum", "mean")

FusedLayer = TypeVar("FusedLayer", bound=type)


def in_place_of_parent(fused: FusedLayer) -> FusedLayer:
    """Let a fused class read as the layer it replaces, and be copied and unpickled as that layer is."""
    parent = fused.__mro__[1]

    def restore(layer: Any, state: dict[str, Any]) -> None:
        # What is unpickled or copied compiles `propagate` into its class, and takes the one it finds for the plain one,
        # which applies edge masks. A subclass would find its parent's compiled one.
        layer.__class__ = parent
        layer.__setstate__(state)
        layer.__class__ = fused

    def refuse(layer: Any) -> None:
        raise UnsupportedError(
            f"torch.jit.script cannot compile a fused {parent.__name__}; give it unfuse(copy.deepcopy(model))."
        )

    fused.__setstate__ = restore  # type: ignore[attr-defined]
    fused.__prepare_scriptable__ = refuse  # type: ignore[attr-defined]
    fused.__name__ = parent.__name__  # for str(layer); pickles go by the __qualname__, which stays
    return fused


@in_place_of_parent
class EdgewiseGATConv(GATConv):
    """`GATConv` on `attend` with the score `GAT`."""

    fallback: str | None = None
    """Why the last call ran the parent's forward; None where it ran the kernels."""

    def forward(  # type: ignore[override]
        self, x: Any, edge_index: Any, edge_attr: Any = None, size: Any = None, return_attention_weights: Any = None
    ) -> Any:
        return _run(self, _gat, super().forward, x, edge_index, edge_attr, size, return_attention_weights)


@in_place_of_parent
class EdgewiseGATv2Conv(GATv2Conv):
    """`GATv2Conv` on `attend` with the score `GATv2`."""

    fallback: str | None = None

    def forward(  # type: ignore[override]
        self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None
    ) -> Any:
        return _run(self, _gatv2, super().forward, x, edge_index, edge_attr, return_attention_weights)


@in_place_of_parent
class EdgewiseTransformerConv(TransformerConv):
    """`TransformerConv` on `attend` with the score `ScaledDot`."""

    fallback: str | None = None

    def forward(  # type: ignore[override]
        self, x: Any, edge_index: Any, edge_attr: Any = None, return_attention_weights: Any = None
    ) -> Any:
        return _run(self, _transformer, super().forward, x, edge_index, edge_attr, return_attention_weights)


@in_place_of_parent
class EdgewiseGCNConv(GCNConv):
    """`GCNConv` on a weighted sum."""

    fallback: str | None = None

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        return _run(self, _gcn, super().forward, x, edge_index, edge_weight)


@in_place_of_parent
class EdgewiseSAGEConv(SAGEConv):
    """`SAGEConv` on `aggregate`."""

    fallback: str | None = None

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Any:
        return _run(self, _sage, super().forward, x, edge_index, size)


@in_place_of_parent
class EdgewiseGINConv(GINConv):
    """`GINConv` on `aggregate`."""

    fallback: str | None = None

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Any:
        return _run(self, _gin, super().forward, x, edge_index, size)


@in_place_of_parent
class EdgewiseSimpleConv(SimpleConv):
    """`SimpleConv` on `aggregate`."""

    fallback: str | None = None

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None, size: Any = None) -> Any:
        return _run(self, _simple, super().forward, x, edge_index, edge_weight, size)


def _run(layer: Any, ours: Callable[..., Any], theirs: Callable[..., Any], x: Any, edge_index: Any, *more: Any) -> Any:
    """`ours(layer, …)`, or `theirs(…)` where the kernels do not cover the call."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # the cache of edges does not belong in a program
        return theirs(x, edge_index, *more)
    reason = transform_at_work() or _no_gain(layer, x, edge_index)
    if reason is None:
        try:
            require_plain(layer, x, edge_index)
            out = ours(layer, tuple(x) if isinstance(x, list) else x, edge_index, *more)
        except FallbackError as error:
            reason = str(error)
    layer.__dict__["fallback"] = reason
    return _contiguous(out) if reason is None else theirs(x, edge_index, *more)


def _contiguous(out: Any) -> Any:
    """The output, perhaps with (edge_index, weights), laid out as the original's: so that `view` works on it."""
    if isinstance(out, Tensor):
        return out.contiguous()
    nodes, (edge_index, weights) = out
    return nodes.contiguous(), (edge_index, weights.contiguous())


def _no_gain(layer: Any, x: Any, edge_index: Any) -> str | None:
    """Why the original is as fast: on few edges it is, and on somewhat more that are new and would need a plan."""
    if type(edge_index) is not Tensor or edge_index.dim() != 2:
        return None
    size = edge_index.shape[1] * _message_width(layer, x)
    if size >= MANY_NUMBERS:
        return None
    if size < FEW_NUMBERS or isinstance(layer, SUMS):
        return "the graph is so small that the original is faster"
    # Dropout differs on the two paths, and what is computed once more for the backward pass must draw the same.
    drops = layer.training and getattr(layer, "dropout", 0) > 0
    if not drops and is_met_again(layer, edge_index):
        return None
    return "the graph is small and new, and the original needs no plan"


def _message_width(layer: Any, x: Any) -> int:
    """How many numbers the original sends along an edge."""
    if isinstance(layer, GATConv | GATv2Conv | TransformerConv):
        return layer.heads * layer.out_channels
    if isinstance(layer, GCNConv):
        return layer.out_channels
    source = x[0] if isinstance(x, tuple | list) else x
    return source.numel() // max(source.shape[-2], 1) if isinstance(source, Tensor) and source.dim() > 1 else 0


def _gat(layer: Any, x: Any, edge_index: Tensor, edge_attr: Rows, size: Any, wants_weights: Any) -> Any:
    dropout = _dropout(layer, wants_weights)
    source, target = _two(x, 2)
    of_source, of_target = (layer.lin, layer.lin) if layer.lin is not None else (layer.lin_src, layer.lin_dst)
    at_source, at_target = _heads(layer, of_source(source)), None
    if target is not None:
        is_same = target is source and of_target is of_source
        at_target = at_source if is_same else _heads(layer, of_target(target))
    pair = at_source, at_target
    key, query = _node_scores(layer, pair)
    edges, num_loops = attention_edges(layer, edge_index, pair, size)
    edge_key = None
    if layer.lin_edge is not None and edge_attr is not None:
        edge_attr = edge_features_of(layer, edge_index, edge_attr, edges, num_loops)
        if _is_plain(layer.lin_edge):  # a·(W e) = (aᵀW) e: one number a head, not a vector
            weight = layer.lin_edge.weight.view(layer.heads, layer.out_channels, -1)
            scored = F.linear(edge_attr, (weight * layer.att_edge[0].unsqueeze(-1)).sum(1))
        else:
            scored = (_heads(layer, layer.lin_edge(edge_attr)) * layer.att_edge).sum(-1)
        edge_key = scored.t().unsqueeze(-1)
    if query is None:
        query = key.new_zeros(layer.heads, edges.num_receivers, 1)
    one = key.new_ones(1)
    score = GAT(one, one, layer.negative_slope)
    residual = None if layer.res is None or target is None else layer.res(target)
    return _attended(
        layer, query, key, pair[0], edges, score, edge_key, dropout, residual, edge_index, num_loops, wants_weights
    )


def _node_scores(layer: Any, pair: tuple[Tensor, Rows]) -> tuple[Tensor, Rows]:
    """b·v_j of senders and a·q_i of receivers, `(head, node, 1)`."""
    source, target = pair
    heads = layer.heads
    if source is target and heads <= MAX_HEADS_AT_ONCE:  # as one product of matrices: no table (node, head, dim) more
        key, query = products_with_heads(source.flatten(1), torch.cat([layer.att_src, layer.att_dst]))
        return key, query
    key = (source * layer.att_src).sum(-1).t().unsqueeze(-1)
    return key, None if target is None else (target * layer.att_dst).sum(-1).t().unsqueeze(-1)


def _gatv2(layer: Any, x: Any, edge_index: Tensor, edge_attr: Rows, wants_weights: Any) -> Any:
    dropout = _dropout(layer, wants_weights)
    source, target = _two(x, 2)
    if target is None:
        raise FallbackError("the receiving nodes are without features")
    if edge_attr is not None and layer.lin_edge is None:
        raise FallbackError("edge_attr came to a layer without edge_dim")
    at_source = _heads(layer, layer.lin_l(source))
    is_shared = layer.share_weights and target is source
    pair = at_source, at_source if is_shared else _heads(layer, layer.lin_r(target))
    edges, num_loops = attention_edges(layer, edge_index, pair, None)
    edge_key = None
    if edge_attr is not None:
        edge_attr = edge_features_of(layer, edge_index, edge_attr, edges, num_loops)
        edge_key = _heads(layer, layer.lin_edge(edge_attr)).movedim(1, 0)
    score = GATv2(layer.att[0], layer.negative_slope)
    residual = None if layer.res is None else layer.res(target)
    key, query = (rows.movedim(1, 0) for rows in pair)
    return _attended(
        layer, query, key, pair[0], edges, score, edge_key, dropout, residual, edge_index, num_loops, wants_weights
    )


def _attended(
    layer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Edges,
    score: GAT | GATv2,
    edge_key: Rows,
    dropout: float,
    residual: Rows,
    edge_index: Tensor,
    num_loops: int | None,
    wants_weights: Any,
) -> Any:
    """What `GATConv` and `GATv2Conv` do after their scores: `value` is (node, head, dim)."""
    out = attend(query, key, value.movedim(1, 0), edges, score=score, edge_key=edge_key, dropout=dropout)
    out = _joined(layer, out)
    out = out if residual is None else out + residual
    out = out if layer.bias is None else out + layer.bias
    if not wants_weights:
        return out
    if num_loops is not None:
        ends = edges.senders, edges.receivers
        edge_index = torch.stack(ends if layer.flow == "source_to_target" else ends[::-1])
    weights = attention_weights(query, key, edges, score=score, edge_key=edge_key).values
    return out, (edge_index, weights.t())


def _dropout(layer: Any, wants_weights: Any) -> float:
    """The dropout of this call of `GATConv` or `GATv2Conv`."""
    dropout = layer.dropout if layer.training else 0.0
    if wants_weights and dropout:
        raise FallbackError("it returns the weights after dropout")
    return dropout


def _transformer(layer: Any, x: Any, edge_index: Tensor, edge_attr: Rows, wants_weights: Any) -> Any:
    source, target = _two(x, 2)
    if target is None:
        raise FallbackError("the receiving nodes are without features")
    if (edge_attr is None) != (layer.lin_edge is None):
        raise FallbackError("edge_attr goes with edge_dim")
    if edge_attr is not None and edge_attr.dim() != 2:
        raise FallbackError(f"edge_attr is {tuple(edge_attr.shape)}, not (edge, feature)")
    query = _heads(layer, layer.lin_query(target)).movedim(1, 0)
    key, value = (_heads(layer, linear(source)).movedim(1, 0) for linear in (layer.lin_key, layer.lin_value))
    edges = edges_of(layer, edge_index, key.shape[1], query.shape[1])
    edge = None
    if edge_attr is not None:
        edge_attr = edge_features_of(layer, edge_index, edge_attr, edges, None)
        edge = _heads(layer, layer.lin_edge(edge_attr)).movedim(1, 0)
    dropout = layer.dropout if layer.training else 0.0
    out = attend(query, key, value, edges, score=ScaledDot(), edge_key=edge, edge_value=edge, dropout=dropout)
    out = _joined(layer, out)
    if layer.root_weight:
        root = layer.lin_skip(target)
        if layer.lin_beta is not None:
            share = layer.lin_beta(torch.cat([out, root, out - root], -1)).sigmoid()
            out = share * root + (1 - share) * out
        else:
            out = out + root
    if not isinstance(wants_weights, bool):
        return out
    return out, (edge_index, attention_weights(query, key, edges, edge_key=edge).values.t())


def _gcn(layer: Any, x: Any, edge_index: Tensor, edge_weight: Rows) -> Tensor:
    if isinstance(x, tuple):
        raise FallbackError("node features are a pair")
    num_nodes = x.shape[-2]
    norm = num_nodes, layer.improved, layer.add_self_loops, layer.flow, x.dtype
    j, i = ends(layer)

    def edges_now(index: Tensor) -> Edges:
        return checked(index[j], index[i], num_nodes, num_nodes)

    if not layer.normalize:
        edges = edges_of(layer, edge_index, num_nodes, num_nodes)
    elif layer.cached or layer._cached_edge_index is not None:
        if layer._cached_edge_index is None:
            layer._cached_edge_index = gcn_norm(edge_index, edge_weight, *norm)
        index, edge_weight = layer._cached_edge_index
        edges = edges_of(layer, index, num_nodes, num_nodes)
    elif edge_weight is None:

        def normalized() -> tuple[Edges, Tensor]:
            index, weight = gcn_norm(edge_index, None, *norm)
            return edges_now(index), weight

        edges, edge_weight = cached(edge_index, ("normalized", *norm), normalized)
    else:
        index, edge_weight = gcn_norm(edge_index, edge_weight, *norm)
        edges = cached(edge_index, ("weighted", *norm), lambda: edges_now(index))
    out = _reduced(layer.lin(x), edges, "add", edge_weight)
    return out if layer.bias is None else out + layer.bias


def _sage(layer: Any, x: Any, edge_index: Tensor, size: Any) -> Tensor:
    source, target = _two(x)
    if layer.project:
        source = layer.lin(source).relu()
    edges = pair_edges(layer, edge_index, (source, target), size)
    linear = layer.lin_l
    if layer.aggr in LINEAR_AGGREGATIONS and _is_plain(linear) and linear.weight.shape[0] < linear.weight.shape[1]:
        out = _reduced(F.linear(source, linear.weight), edges, layer.aggr)  # the matrix first: fewer features to sum
        out = out if linear.bias is None else out + linear.bias
    else:
        out = linear(_reduced(source, edges, layer.aggr))
    if layer.root_weight and target is not None:
        out = out + layer.lin_r(target)
    return F.normalize(out, p=2.0, dim=-1) if layer.normalize else out


def _gin(layer: Any, x: Any, edge_index: Tensor, size: Any) -> Tensor:
    source, target = pair = _two(x)
    out = _reduced(source, pair_edges(layer, edge_index, pair, size), layer.aggr)
    return layer.nn(out if target is None else out + (1 + layer.eps) * target)


def _simple(layer: Any, x: Any, edge_index: Tensor, edge_weight: Rows, size: Any) -> Tensor:
    source, target = pair = _two(x)
    if layer.combine_root == "self_loop":
        if isinstance(x, tuple) or (size is not None and size[0] != size[1]):
            raise FallbackError("loops need one set of nodes")
        edges = edges_of(layer, edge_index, x.shape[-2], x.shape[-2], x.shape[-2], keeps_loops=True)
        if edge_weight is not None:
            _, edge_weight = add_self_loops(edge_index, edge_weight, num_nodes=x.shape[-2])
    else:
        edges = pair_edges(layer, edge_index, pair, size)
    out = _reduced(source, edges, layer.aggr, edge_weight)
    if target is None or layer.combine_root not in ("sum", "cat"):
        return out
    return out + target if layer.combine_root == "sum" else torch.cat([target, out], -1)


def _reduced(value: Tensor, edges: Edges, aggr: str, weight: Rows = None) -> Tensor:
    """⊕_j w_ij v_j."""
    if weight is None:
        return aggregate(value, edges, "sum" if aggr == "add" else aggr)  # type: ignore[arg-type]
    weight = weight.view(-1)
    if weight.dtype != value.dtype or len(weight) != edges.num_edges:
        raise FallbackError(f"the edge weights are {weight.dtype} ({len(weight)})")
    if aggr in ("max", "min"):
        messages = weight.unsqueeze(-1) * value.index_select(-2, edges.senders)
        return aggregate(torch.zeros_like(value), edges, aggr, edge_value=messages)  # type: ignore[arg-type]
    out = weighted_sum(value, edges, weight)
    return out / edges.degrees().clamp(min=1).to(out.dtype).unsqueeze(-1) if aggr == "mean" else out


def _two(x: Any, rank: int | None = None) -> tuple[Tensor, Rows]:
    """Features of sources and, perhaps, of targets."""
    source, target = x if isinstance(x, tuple) else (x, x)
    if source is None or (
        rank is not None and any(rows is not None and rows.dim() != rank for rows in (source, target))
    ):
        raise FallbackError("the node features do not have the axes (node, feature)")
    return source, target


def _heads(layer: Any, rows: Tensor) -> Tensor:
    """(row, head, dim)."""
    return rows.view(-1, layer.heads, layer.out_channels)


def _joined(layer: Any, out: Tensor) -> Tensor:
    """The heads `(head, node, dim)` side by side, or their mean."""
    return out.movedim(0, 1).flatten(1) if layer.concat else out.mean(0)


def _is_plain(linear: Any) -> bool:
    """Whether its weight may be used without calling it."""
    return is_plain(linear, GeometricLinear, nn.Linear)
