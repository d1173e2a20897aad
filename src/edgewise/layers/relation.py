"""Layers for graphs with several types of nodes and edges: a matrix for each type, over the same operator."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import SparseFeatures, Trace
from edgewise.layers.convolution import Activation
from edgewise.layers.feature import Nodes, summed, weighted_sum
from edgewise.layers.given import pair_beside, pair_of, require_function, require_nodes, size_of, two, weight_of
from edgewise.layers.heads import require_multiple
from edgewise.layers.linear import Linear
from edgewise.neighborhood import Relations, Types
from edgewise.neighborhood.checks import require_rate, require_sizes


class TypedLinear(nn.Module):
    """A linear layer with a matrix and a bias for each type of rows: y_i = x_i W_κ(i) + c_κ(i).

    Types may have different numbers of features. In a table those of a type stand first in its rows, and what stands
    behind them is ignored; sparse features are counted type after type, those of the first type first.

    Args:
        input_dims: how many features each type has; may be 0, and the row is then its type's bias.
        output_dim: size of every row after the layer.
        bias: whether there is c.

    Empty: a type without rows gets a gradient of zero.
    Cost: O(row · input_dim · output_dim), one matrix product a type; O(entry · output_dim) for sparse features.

    >>> layer = TypedLinear([3, 1], 4)
    >>> layer(torch.ones(5, 3), Types(torch.tensor([0, 1, 1, 0, 1]), 2)).shape
    torch.Size([5, 4])
    """

    def __init__(self, input_dims: Sequence[int], output_dim: int, *, bias: bool = True):
        super().__init__()
        # torch trusts the sizes of `repeat_interleave`, and would write beside its memory.
        dims = tuple(input_dims) if isinstance(input_dims, Sequence) else (input_dims,)
        if not all(isinstance(size, Integral) for size in dims) or min(dims, default=0) < 0:
            raise ShapeError(f"input_dims is {dims}; expected a number of features, 0 or more, of each type.")
        require_sizes("TypedLinear", output_dim=output_dim)
        self.input_dims, self.output_dim = dims, output_dim

        bounds = torch.tensor([1 / math.sqrt(max(size, 1)) for size in self.input_dims])
        # The matrices of all types one above the other: of sparse features each is one row of them.
        bound_of_row = bounds.repeat_interleave(
            torch.tensor(self.input_dims, dtype=torch.int64), output_size=sum(self.input_dims)
        )
        self.weight = nn.Parameter(bound_of_row[:, None] * torch.empty(len(bound_of_row), output_dim).uniform_(-1, 1))
        self.bias: nn.Parameter | None = None
        if bias:
            start = bounds[:, None] * torch.empty(len(bounds), output_dim).uniform_(-1, 1)
            self.bias = nn.Parameter(start)

    def forward(self, nodes: Nodes, types: Types) -> Float[Tensor, " *batch node output_dim"]:
        """The rows after the layer, `(*batch, node, input_dim)` or sparse before.

        Raises:
            ShapeError: there are other types, or rows, or fewer features than the layer was made for.
        """
        require_nodes("TypedLinear", nodes, None, self.weight, takes_sparse=True)
        if not isinstance(types, Types):
            raise SettingError(f"TypedLinear: types must be Types(of_row, num_types), not {type(types).__name__}.")

        _require_same("TypedLinear", "types", len(self.input_dims), types.num_types)
        _require_same("TypedLinear", "rows", nodes.shape[-2], len(types))
        if isinstance(nodes, SparseFeatures):
            _require_same("TypedLinear", "features", self.weight.shape[0], nodes.shape[-1])
            rows = summed(nodes, self.weight)
            return rows if self.bias is None else rows + self.bias[types.of_row]
        if nodes.shape[-1] < max(self.input_dims, default=0):
            raise ShapeError(f"TypedLinear: rows have {nodes.shape[-1]} features, a type has {max(self.input_dims)}.")

        weights = self.weight.split(self.input_dims)

        def product(number: int, rows: Tensor) -> Tensor:
            projected = rows[..., : self.input_dims[number]] @ weights[number]
            return projected if self.bias is None else projected + self.bias[number]

        return by_type(nodes, types, -2, product)


class RelationalConvolution(nn.Module):
    """The mean of the neighbors in each relation, through a matrix of the relation, and the node itself.

        y_i = σ( Σ_r Σ_{j∈N_r(i)} x_j W_r / |N_r(i)| + x_i W_0 )        W_r = Σ_b a_rb V_b  with `num_bases`

    With one relation it is `MeanConvolution`.

    Args:
        input_dim, output_dim: sizes of the nodes before and after; two input sizes are those of sources and targets.
        num_relations: how many W_r there are.
        num_bases: how many V_b the relations share; None gives each relation a matrix of its own.
        bias: whether a bias is added within σ.
        activation: σ.

    Empty: a node with no neighbor keeps its self term; a relation without edges changes nothing.
    Cost: O(pair · input_dim · output_dim + edge · output_dim), a pair being a node and a relation it sends in.
    Source: Schlichtkrull et al. 2018 (R-GCN), eq. 2 with c_{i,r} = |N_r(i)|, and eq. 3; their matrices stand on the
    left of columns, ours on the right of rows.

    >>> from edgewise import Edges
    >>> layer = RelationalConvolution(2, 3, num_relations=2)
    >>> layer(torch.ones(4, 2), Relations(Edges([0, 1], [1, 2], 4, 4), torch.tensor([0, 1]), 2)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        input_dim: int | tuple[int, int],
        output_dim: int,
        num_relations: int,
        *,
        num_bases: int | None = None,
        bias: bool = False,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        owner = "RelationalConvolution"
        source_dim, target_dim = two(owner, "input_dim", input_dim)
        require_sizes(owner, output_dim=output_dim)
        require_sizes(owner, 0, num_relations=num_relations)
        require_function(owner, "activation", activation)
        if num_bases is not None:
            require_sizes(owner, num_bases=num_bases)
        self.weight = _drawn(num_bases or num_relations, source_dim, output_dim)
        self.shares: nn.Parameter | None = None
        if num_bases is not None:
            self.shares = nn.Parameter(torch.randn(num_relations, num_bases) / math.sqrt(num_bases))
        self.num_relations = num_relations
        self.itself = Linear(target_dim, output_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(output_dim)) if bias else None
        self.activation = activation

    def forward(
        self,
        nodes: Float[Tensor, " *batch node input_dim"] | tuple[Tensor, Tensor],
        relations: Relations,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` before, or (sources, targets).

        Raises:
            ShapeError: there are other relations than the layer was made for.
        """
        sizes = self.weight.shape[1], size_of(self.itself)
        source, target = pair_of("RelationalConvolution", nodes, sizes, weight_of(self.itself))
        _require_relations("RelationalConvolution", relations, self.num_relations, source, target)
        weight = self.weight if self.shares is None else torch.einsum("rb,bio->rio", self.shares, self.weight)
        sent = source.index_select(-2, relations.senders)
        sent = by_type(sent, relations.types, -2, lambda relation, rows: rows @ weight[relation])
        precise = torch.promote_types(sent.dtype, torch.float32)  # float16 ends at 65,504 edges
        share = relations.counts.to(precise).reciprocal().to(sent.dtype)
        out = weighted_sum(sent, relations.pair_edges, share) + self.itself(target)

        return self.activation(out if self.bias is None else out + self.bias)


class RelationalAttention(nn.Module):
    """H attentions over the neighbors in all relations at once, with projections by type of node and by relation.

        q = x Q_κ;   k = x K_κ;   v = x V_κ                                     κ the type of the node
        s_(j,r)i = μ_r (k_j A_r)·q_i / √d;   o_i = Σ_{(j,r)∈N(i)} softmax_{(j,r)}(s_(j,r)i) v_j M_r       each head
        y_i = σ(o_i) C_κ(i) + c_κ(i),   o_i of all heads side by side

    The softmax runs over all neighbors of all relations: a relation can get no weight. Keys and values are computed
    once for each node and relation it sends in, so that none is as long as the edges: it is `attend` over those pairs.
    The residual that follows in the paper is left to the caller.

    Args:
        model_dim: size of the nodes before and after.
        num_heads: H; a head has d = model_dim / H.
        num_types, num_relations: how many types of nodes and relations there are.
        activation: σ.
        dropout: the probability that a weight is set to zero in training.

    Empty: a node with no neighbor gets c + σ(0) C; types without nodes and relations without edges change nothing.
    Cost: O(node · model_dim² + pair · model_dim² / H + edge · model_dim).
    Source: Hu et al. 2020 (HGT), eqs. 3 to 5, whose W^ATT, W^MSG, Q-, K-, M- and A-Linear are our A, M, Q, K, V and C.
    Our μ is one number a relation and head, as in their code; a relation that joins several types of nodes has one
    matrix, but is best split by them, as `edgewise train` does.

    >>> from edgewise import Edges
    >>> layer = RelationalAttention(8, 2, num_types=2, num_relations=3)
    >>> relations = Relations(Edges([0, 1, 1], [1, 2, 2], 4, 4), torch.tensor([0, 1, 2]), 3)
    >>> layer(torch.ones(4, 8), Types(torch.tensor([0, 1, 0, 1]), 2), relations).shape
    torch.Size([4, 8])
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        num_types: int,
        num_relations: int,
        *,
        activation: Activation = F.gelu,
        dropout: float = 0.0,
    ):
        super().__init__()
        owner = "RelationalAttention"
        require_sizes(owner, model_dim=model_dim, num_heads=num_heads)
        require_sizes(owner, 0, num_types=num_types, num_relations=num_relations)
        require_rate(owner, dropout=dropout)
        require_function(owner, "activation", activation)
        require_multiple(owner, "model_dim", model_dim, num_heads)
        head_dim = model_dim // num_heads
        self.num_heads, self.num_relations = num_heads, num_relations
        self.activation, self.dropout = activation, dropout
        self.project = TypedLinear([model_dim] * num_types, 3 * model_dim)
        """Q, K and V side by side."""
        self.key_weight = _drawn(num_relations * num_heads, head_dim, head_dim)
        """A, `(relation · head, d, d)`."""
        self.value_weight = _drawn(num_relations * num_heads, head_dim, head_dim)
        """M, likewise."""
        self.prior = nn.Parameter(torch.ones(num_relations, num_heads))
        """μ."""
        self.output = TypedLinear([model_dim] * num_types, model_dim)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"] | tuple[Tensor, Tensor],
        types: Types | tuple[Types, Types],
        relations: Relations,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes after the layer.

        Args:
            nodes: what attends, and is attended to; or (sources, targets), of which targets attend to sources.
            types: of the nodes; or of the sources and of the targets.
            relations: who attends to whom, and how they are related.
            trace: where the weights are recorded, from node to node.

        Raises:
            ShapeError: there are other types or relations than the layer was made for.
        """
        size = self.project.input_dims[0]
        source, target = pair_of("RelationalAttention", nodes, (size, size), self.key_weight)
        _require_relations("RelationalAttention", relations, self.num_relations, source, target)
        of_source, of_target = pair_beside("RelationalAttention", "types", types, nodes)
        query, key, value = self.project(source, of_source).chunk(3, -1)
        query = query if source is target else self.project(target, of_target).chunk(3, -1)[0]
        query = self._split(query).movedim(-2, -3)
        by_head = self.num_relations, self.num_heads
        key_weight = self.key_weight.unflatten(0, by_head) * self.prior[..., None, None]
        key = self._messages(key, key_weight, relations)
        value = self._messages(value, self.value_weight.unflatten(0, by_head), relations)
        if trace is not None:
            weights = attention_weights(query, key, relations.pair_edges, top=trace.top, queries=trace.queries)
            senders = relations.senders[weights.senders]
            trace.record(replace(weights, senders=senders, num_senders=relations.edges.num_senders))

        dropout = self.dropout if self.training else 0.0
        heads = attend(query, key, value, relations.pair_edges, dropout=dropout).movedim(-3, -2)
        return self.output(self.activation(heads.flatten(-2)), of_target)

    def _messages(self, nodes: Tensor, weight: Tensor, relations: Relations) -> Tensor:
        """The message of each pair's sender in its relation: `(*batch, head, pair, d)`, heads together in memory."""
        rows = self._split(nodes.index_select(-2, relations.senders))
        messages = by_type(
            rows, relations.types, -3, lambda relation, part: torch.einsum("...nhd,hde->...nhe", part, weight[relation])
        )
        return messages.movedim(-2, -3)

    def _split(self, nodes: Tensor) -> Tensor:
        return nodes.unflatten(-1, (self.num_heads, -1))


def by_type(rows: Tensor, types: Types, axis: int, apply: Callable[[int, Tensor], Tensor]) -> Tensor:
    """What becomes of the rows along an axis when those of each type go through `apply(type, rows)` together."""
    return types.join([apply(number, part) for number, part in enumerate(types.split(rows, axis))], axis)


def _drawn(num: int, input_dim: int, output_dim: int) -> nn.Parameter:
    """Matrices that keep the size of what goes through them (Glorot & Bengio 2010, eq. 16)."""
    bound = math.sqrt(6 / (input_dim + output_dim))
    return nn.Parameter(torch.empty(num, input_dim, output_dim).uniform_(-bound, bound))


def _require_relations(owner: str, relations: Relations, num_relations: int, source: Tensor, target: Tensor) -> None:
    if not isinstance(relations, Relations):
        expected = "Relations(edges, relation, num_relations)"
        raise SettingError(f"{owner}: relations must be {expected}, not {type(relations).__name__}.")
    _require_same(owner, "relations", num_relations, relations.num_relations)
    for size, nodes in ((relations.edges.num_senders, source), (relations.edges.num_receivers, target)):
        _require_same(owner, "nodes", size, nodes.shape[-2])


def _require_same(owner: str, what: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise ShapeError(f"{owner}: expected {expected} {what}, got {actual}.")
