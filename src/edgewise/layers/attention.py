"""Multi-head attention, for sequences and graphs alike."""

import math
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.choices import COMBINES, SCORES, Combine
from edgewise.errors import SettingError, ShapeError, plural
from edgewise.graph import Trace
from edgewise.layers.cache import LayerCache
from edgewise.layers.given import require_nodes, require_positions, weight_of
from edgewise.layers.heads import attend_and_record, join_heads, over_heads, require_multiple
from edgewise.layers.linear import Linear, linear, may_be_joined
from edgewise.layers.position import PairPosition, default_key_positions, default_positions, distances
from edgewise.layers.scorer import Given, LearnedScore
from edgewise.neighborhood import EdgeRows, Edges, Full, GivenNeighborhood, Neighborhood, neighborhood_of
from edgewise.neighborhood.checks import count, require_rate, require_sizes
from edgewise.normalize import Normalize, Softmax
from edgewise.score import Score


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each with its own view of the nodes, joined into one output.

        head_h = attend(x W^Q_h, y W^K_h, z W^V_h, neighborhood)       out = combine_h(head_h)

    Over `Edges`, edge features f_e go into k^e = f W^{EK}, v^e = f W^{EV} and b = f W^{EB}, per head.

    Args:
        model_dim: size of the query nodes and, where `combine` is "concatenate", of the output.
        num_heads: H.
        key_dim: size of a head's queries and keys; model_dim / H by default.
        value_dim: size of a head's values; model_dim / H by default, or model_dim where heads are not concatenated.
            Without projections both are those of the input's parts and cannot be chosen.
        source_dim: size of the nodes that keys come from; model_dim by default.
        value_source_dim: size of the nodes that values come from; source_dim by default.
        num_key_heads: heads of keys and values, each shared by H / num_key_heads query heads; 1 is multi-query.
        edge_dim: size of the edge features, or None where there are none.
        score: a name from `choices.SCORES`, with parameters made here, or a score of your own.
        normalize: from scores to weights; tensors in it that are parameters are learned with the layer.
        project: False splits the input into H parts instead of projecting it.
        position: how far key and query stand from each other, as every pair sees it; see `layers.position`.
        combine: "concatenate" and an output matrix; "weights", a learned weight per head; "tensor", a learned
            (head, value, value) tensor; "mean"; "max".
        dropout: the probability that a weight is set to zero in training.

    Empty: a node with no neighbor gets the output's bias.
    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 and Ainslie et al. 2023 for shared keys; combine "mean" is
    Veličković et al. 2018, eq. 6.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int = 8,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        source_dim: int | None = None,
        value_source_dim: int | None = None,
        num_key_heads: int | None = None,
        edge_dim: int | None = None,
        score: str | Score = "scaled_dot",
        normalize: Normalize = Softmax(),
        position: PairPosition | None = None,
        project: bool = True,
        combine: Combine = "concatenate",
        dropout: float = 0.0,
    ):
        super().__init__()
        model_dim = count("MultiHeadAttention", "model_dim", model_dim)
        num_heads = count("MultiHeadAttention", "num_heads", num_heads)
        source_dim = model_dim if source_dim is None else source_dim
        value_source_dim = source_dim if value_source_dim is None else value_source_dim
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        require_sizes("MultiHeadAttention", source_dim=source_dim, value_source_dim=value_source_dim)
        require_sizes("MultiHeadAttention", 0, **{} if edge_dim is None else {"edge_dim": edge_dim})
        require_rate("MultiHeadAttention", dropout=dropout)
        if not isinstance(position, PairPosition | None):
            raise SettingError(
                "MultiHeadAttention: position must be that of pairs, such as RotaryPosition(key_dim), not "
                f"{position!r}; one of nodes is added to them before the first layer."
            )
        if combine not in COMBINES:
            raise SettingError(f"combine must be one of {', '.join(COMBINES)}, not {combine!r}.")

        require_multiple("MultiHeadAttention", "num_heads", num_heads, num_key_heads, "num_key_heads")
        groups = num_heads // num_key_heads
        self.input_dims = model_dim, source_dim, value_source_dim
        self.num_heads, self.combine, self.dropout, self.edge_dim = num_heads, combine, dropout, edge_dim
        self.head_shape = (num_heads,) if groups == 1 else (num_key_heads, groups)
        self.key_head_shape = (num_heads,) if groups == 1 else (num_key_heads, 1)
        self.query: nn.Module
        self.key: nn.Module
        self.value: nn.Module

        if project:
            key_dim = _per_head("model_dim", model_dim, num_heads, key_dim)
            joined = combine == "concatenate"
            value_dim = _per_head("model_dim", model_dim, num_heads if joined else 1, value_dim, "value")
            self.query = Linear(model_dim, num_heads * key_dim)
            self.key = Linear(source_dim, num_key_heads * key_dim)
            self.value = Linear(value_source_dim, num_key_heads * value_dim)
        else:
            if key_dim is not None or value_dim is not None:
                raise SettingError(
                    "MultiHeadAttention: without projections key_dim and value_dim follow from the input; drop them."
                )
            key_dim = _per_head("model_dim", model_dim, num_heads, None)
            value_dim = _per_head("value_source_dim", value_source_dim, num_key_heads, None)
            _require_equal("key_dim", key_dim, _per_head("source_dim", source_dim, num_key_heads, None))
            self.query, self.key, self.value = nn.Identity(), nn.Identity(), nn.Identity()

        scored = SCORES[score](self.head_shape, key_dim) if isinstance(score, str) else score
        self.score = scored if isinstance(scored, LearnedScore) else Given(scored)
        self.normalize = Given(normalize)
        self.position = position
        if edge_dim is not None:
            # Key, value and bias of every head from one matrix product.
            self.edge_sizes = (num_heads * key_dim, num_heads * value_dim, num_heads)
            self.edge = Linear(edge_dim, sum(self.edge_sizes), bias=False)
        if combine == "concatenate":
            self.output = Linear(num_heads * value_dim, model_dim)
        elif combine == "weights":
            self.head_weights = nn.Parameter(torch.full((num_heads,), 1 / num_heads))
        elif combine == "tensor":
            start = torch.randn(num_heads, value_dim, value_dim) / (num_heads * value_dim) ** 0.5
            self.head_tensor = nn.Parameter(start)

        self.output_dim = model_dim if combine == "concatenate" else value_dim
        """Size of the output nodes."""

    def forward(
        self,
        query: Float[Tensor, " *batch query model_dim"],
        key: Float[Tensor, " *key_batch key source_dim"] | None = None,
        value: Float[Tensor, " *value_batch key value_source_dim"] | None = None,
        neighborhood: GivenNeighborhood = Full(),
        *,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        edge_rows: EdgeRows | None = None,
        positions: Int64[Tensor, " *position_batch query"] | None = None,
        key_positions: Int64[Tensor, " *key_position_batch key"] | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *out_batch query output_dim"]:
        """Attend from `query` to `key`, which defaults to the query, summing `value`, which defaults to the key.

        Args:
            query, key, value, neighborhood: as in `attend`, heads left out. A neighborhood that varies has the batch
                axes of the nodes, `(*batch, query, key)` as a mask, and may have an axis of heads after them,
                `(*batch, head, query, key)`; an axis of size 1 serves all.
            edge_features: one row an edge; `Edges` only.
            edge_rows: the row of each edge in `edge_features`, where many edges have the same features.
            positions: of the queries, where the layer has a `position`; by default the last ones of the keys.
            key_positions: of the keys; those of the queries in self-attention, else 0, 1, 2, ... by default.
            cache: keys and values of earlier calls, which come before those of this one and are stored together
                with them; the neighborhood is then that of the queries among all keys so far. A fixed one stores those
                of the first call only, and their positions, which later calls then do not compute again.
            trace: where the weights are recorded.

        Raises:
            ShapeError: sizes do not fit, or edge features came (or not) against what the layer was made for.
        """
        key = query if key is None else key
        value = key if value is None else value
        sources_and_layers = {"query": (query, self.query), "key": (key, self.key), "value": (value, self.value)}
        for (name, (nodes, layer)), size in zip(sources_and_layers.items(), self.input_dims, strict=True):
            if name == "query" or nodes is not query:
                require_nodes("MultiHeadAttention", nodes, size, weight_of(layer), name)

        if (edge_features is None) != (self.edge_dim is None):
            expected = "none" if self.edge_dim is None else f"(*batch, edge, {self.edge_dim})"
            raise ShapeError(f"MultiHeadAttention: expected edge features {expected}; see edge_dim.")
        if edge_features is not None:
            weight = weight_of(self.edge)
            require_nodes("MultiHeadAttention", edge_features, self.edge_dim, weight, "edge_features")

        start = 0 if cache is None or cache.is_fixed else cache.length
        num_queries, num_keys = query.shape[-2], key.shape[-2]
        neighborhood = neighborhood_of("MultiHeadAttention", neighborhood, num_queries, start + num_keys)
        if self.position is not None and self.position.carries and not isinstance(neighborhood, Edges):
            if any(size != 1 for size in neighborhood.batch_shape):
                raise ShapeError(
                    f"MultiHeadAttention: {type(self.position).__name__} lists its pairs as edges, which all members "
                    f"of a batch share, but the neighborhood varies over batch axes {tuple(neighborhood.batch_shape)}; "
                    "call the layer for each member, or take T5Position, ALiBi or RotaryPosition."
                )
            neighborhood = neighborhood.to_edges(num_queries, start + num_keys, query.device)
        batch_shapes = [nodes.shape[:-2] for nodes in (query, key, value)]
        positions_by_name = ("positions", positions, num_queries), ("key_positions", key_positions, num_keys)
        for name, node_positions, num_nodes in positions_by_name:
            if node_positions is not None:
                require_positions("MultiHeadAttention", name, node_positions, num_nodes, batch_shapes)

        neighborhood = over_heads("MultiHeadAttention", neighborhood, batch_shapes, self.head_shape)
        stored = None if cache is None else cache.stored_source
        if stored is None:
            queries, keys, values = self._projected(query, key, value)
        else:
            queries, (keys, values, key_positions) = _split(self.query(query), self.head_shape), stored
            if num_keys != keys.shape[-2]:
                raise ShapeError(
                    f"MultiHeadAttention: the fixed cache stores {plural(keys.shape[-2], 'key')}, but key has "
                    f"{num_keys}; take a new cache for another source."
                )

        parts: Any = self._edge_parts(edge_features)
        if edge_rows is not None and self.position is not None:  # which has a part for each edge
            parts = tuple(x if x is None else edge_rows.spread(x, axis) for x, axis in zip(parts, (-2, -2, -1)))
            edge_rows = None
        if self.position is not None or cache is not None:  # which stores the positions of keys
            if key_positions is None:
                key_positions = default_key_positions(num_queries, num_keys, start, positions, like=queries)
            if self.position is not None and positions is None:
                positions = default_positions(num_queries, key_positions)
            if stored is None and key_positions.dim() > 1:  # a batch axis is that of the keys with the same number
                key_positions = key_positions[(None,) * (key.dim() - 1 - key_positions.dim())]
        if self.position is not None and positions is not None and key_positions is not None:
            queries = self.position.turned(queries, self._over_heads(positions))
            keys = self.position.turned(keys, self._over_heads(key_positions)) if stored is None else keys
        with nullcontext() if cache is None else cache.unchanged_by_errors():
            if cache is not None and key_positions is not None:
                keys, values, key_positions = cache.append(keys, values, key_positions)
            if self.position is not None and positions is not None and key_positions is not None:
                position_parts = self._position_parts(self.position, neighborhood, positions, key_positions)
                parts = tuple(_sum(part, other) for part, other in zip(parts, position_parts))

            return self._attended(queries, keys, values, neighborhood, parts, trace, edge_rows)

    def _attended(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        neighborhood: Neighborhood,
        parts: tuple[Tensor | None, Tensor | None, Tensor | None],
        trace: Trace | None,
        edge_rows: EdgeRows | None = None,
    ) -> Tensor:
        """The output from what every head compares and sums; parts are k^e, v^e and b."""
        edge_key, edge_value, bias = parts
        heads = attend_and_record(
            trace, queries, keys, values, neighborhood, score=self.score(), normalize=self.normalize(), bias=bias,
            edge_key=edge_key, edge_value=edge_value, edge_rows=edge_rows,
            dropout=self.dropout if self.training else 0.0, num_head_axes=len(self.head_shape),
        )  # fmt: skip
        return self._combined(heads if len(self.head_shape) == 1 else heads.flatten(-4, -3))

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of every head; from one matrix product where all come from one source."""
        shapes = (self.head_shape, self.key_head_shape, self.key_head_shape)
        linears = [layer for layer in (self.query, self.key, self.value) if isinstance(layer, nn.Linear)]
        if query is not key or key is not value or len(linears) < 3 or not may_be_joined(linears):
            projected = self.query(query), self.key(key), self.value(value)
            return [_split(nodes, shape) for nodes, shape in zip(projected, shapes)]

        weights: list[Tensor] = [layer.weight for layer in linears]
        # A layer that a user put in may have none.
        biases: list[Tensor] = [
            layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias for layer in linears
        ]
        sizes, nodes = [len(weight) for weight in weights], linear(query, torch.cat(weights), torch.cat(biases))
        dims = {size // math.prod(shape) for size, shape in zip(sizes, shapes)}
        if len(dims) == 1:  # heads first: so the backward pass copies their gradients side by side once, not twice
            (dim,) = dims
            parts = nodes.unflatten(-1, (-1, dim)).split([size // dim for size in sizes], -2)
            return [_first(part.unflatten(-2, shape), len(shape)) for part, shape in zip(parts, shapes)]

        return [_split(part, shape) for part, shape in zip(nodes.split(sizes, -1), shapes)]

    def _position_parts(
        self, position: PairPosition, neighborhood: Neighborhood, positions: Tensor, key_positions: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """k^e, v^e and b of every head, from how far key and query stand from each other."""
        if not position.biases and not position.carries:
            return None, None, None
        distance = distances(neighborhood, positions, key_positions)
        edge_key, edge_value = position.carried(distance) if position.carries else (None, None)
        if edge_key is not None and edge_value is not None and distance.dim() > 1:  # (*batch, edge): heads share both
            heads = (..., *(None,) * len(self.head_shape), slice(None), slice(None))
            edge_key, edge_value = edge_key[heads], edge_value[heads]
        if not position.biases:
            return edge_key, edge_value, None
        bias, head_axis = position.bias(distance), -2 if isinstance(neighborhood, Edges) else -3
        if bias.shape[-1] != math.prod(self.head_shape):
            raise ShapeError(
                f"MultiHeadAttention: {type(position).__name__} is for {plural(bias.shape[-1], 'head')}, but the layer "
                f"has {math.prod(self.head_shape)}; make it with as many."
            )
        return edge_key, edge_value, bias.movedim(-1, head_axis).unflatten(head_axis, self.head_shape)

    def _over_heads(self, positions: Tensor) -> Tensor:
        """Positions `(*batch, node)` beside nodes `(*batch, *head, node, dim)`."""
        return positions if positions.dim() == 1 else positions[(..., *(None,) * len(self.head_shape), slice(None))]

    def _edge_parts(self, edge_features: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """k^e, v^e and b of every head."""
        if edge_features is None:
            return None, None, None
        parts = self.edge(edge_features).split(self.edge_sizes, -1)
        edge_key, edge_value, bias = (_split(part, self.head_shape) for part in parts)
        return edge_key, edge_value, bias.squeeze(-1)

    def _combined(
        self, heads: Float[Tensor, " *batch head query value_dim"]
    ) -> Float[Tensor, " *batch query output_dim"]:
        match self.combine:
            case "concatenate":
                return self.output(join_heads(heads))
            case "weights":
                return torch.einsum("...hqv,h->...qv", heads, self.head_weights)
            case "tensor":
                return torch.einsum("...hqv,hvw->...qw", heads, self.head_tensor)
            case "mean":
                return heads.mean(-3)
        return heads.amax(-3)


def _split(nodes: Tensor, head_shape: tuple[int, ...]) -> Tensor:
    """`(*batch, node, head · dim)` as `(*batch, *head, node, dim)`, a view: in memory a node's heads stay together."""
    return _first(nodes.unflatten(-1, (*head_shape, -1)), len(head_shape))


def _first(nodes: Tensor, num_axes: int) -> Tensor:
    """`(*batch, node, *head, dim)`, with `num_axes` of heads, as `(*batch, *head, node, dim)`, a view."""
    return nodes.movedim(-2 - num_axes, -2)


def _sum(part: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if part is None else part if other is None else part + other


def _per_head(name: str, size: int, num_heads: int, chosen_dim: int | None, kind: str = "key") -> int:
    if chosen_dim is not None:
        return count("MultiHeadAttention", f"{kind}_dim", chosen_dim, 0 if kind == "key" else 1)
    require_multiple("MultiHeadAttention", name, size, num_heads)
    return size // num_heads


def _require_equal(name: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        raise SettingError(
            f"MultiHeadAttention: without projections {name} is {query_size} in query but {key_size} in key; "
            "their sizes per head must agree."
        )
