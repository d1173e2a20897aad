"""Convolutions on graphs: the same sum, with weights that do not depend on the content."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from edgewise.attend import aggregate
from edgewise.errors import SettingError, ShapeError
from edgewise.layers.feature import FeatureLinear, Nodes, Pair, weighted_sum
from edgewise.layers.given import pair_of, require_edges, require_function, size_of, two, weight_of
from edgewise.layers.heads import for_nodes, require_choice
from edgewise.layers.linear import Linear
from edgewise.layers.messages import features_of_edges
from edgewise.neighborhood import Edges, Full, GivenNeighborhood, Neighborhood, edges_of
from edgewise.neighborhood.checks import number, require_sizes
from edgewise.neighborhood.index import outside_modes

Activation = Callable[[Tensor], Tensor]
AggregationName = Literal["mean", "sum", "max", "min"]
EdgeWeight = Float[Tensor, " *weight_batch edge"]
Degrees = Float[Tensor, " node"]


class MeanConvolution(nn.Module):
    """The mean of the neighbors and, with a matrix of its own, the node itself: σ(D⁻¹ A H Wᵀ + H Bᵀ).

    Args:
        input_dim, output_dim: sizes of the nodes before and after; two input sizes are those of sources and targets.
        activation: σ.

    Empty: a node with no neighbor keeps its self term.
    Cost: O(edge · output_dim).
    Source: Hamilton, Ying & Leskovec 2017, the mean aggregator; D is the number of edges a node receives.
    """

    def __init__(self, input_dim: int | tuple[int, int], output_dim: int, activation: Activation = torch.relu):
        super().__init__()
        source_dim, target_dim = two("MeanConvolution", "input_dim", input_dim)
        require_sizes("MeanConvolution", output_dim=output_dim)
        require_function("MeanConvolution", "activation", activation)
        self.neighbors = FeatureLinear(source_dim, output_dim, bias=False)
        self.itself = FeatureLinear(target_dim, output_dim, bias=False)
        self.activation = activation

    def forward(self, nodes: Pair, edges: GivenNeighborhood) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` or sparse before, or (sources, targets)."""
        sizes = size_of(self.neighbors), size_of(self.itself)
        source, target = pair_of("MeanConvolution", nodes, sizes, weight_of(self.itself), takes_sparse=True)
        neighborhood = for_nodes("MeanConvolution", edges, source, target)
        mean = aggregate(self.neighbors(source), neighborhood, "mean", num_queries=target.shape[-2])
        return self.activation(mean + self.itself(target))


class SymmetricConvolution(nn.Module):
    """Neighbors and the node itself, each divided by the roots of both degrees: σ(D^−½ Â D^−½ H Wᵀ), Â = A + I.

    The self loops are part of the layer: hand it the edges without them. Between sources and targets there are none,
    and the degrees are D_target^−½ A D_source^−½.

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        activation: σ.
        add_self_loops: whether Â is A + I; if not it is A, which may have loops.
        bias: whether a bias is added within σ.

    Empty: a node with no neighbor keeps its self loop; without one, the bias.
    Cost: O(edge · output_dim).
    Source: Kipf & Welling 2017, eq. 2; D is the row sum of Â, the number of edges a node receives plus one.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        activation: Activation = torch.relu,
        *,
        add_self_loops: bool = True,
        bias: bool = False,
    ):
        super().__init__()
        require_sizes("SymmetricConvolution", 0, input_dim=input_dim)
        require_sizes("SymmetricConvolution", output_dim=output_dim)
        require_function("SymmetricConvolution", "activation", activation)
        self.linear = FeatureLinear(input_dim, output_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(output_dim)) if bias else None
        self.activation, self.add_self_loops = activation, add_self_loops

    def forward(
        self,
        nodes: Pair,
        edges: GivenNeighborhood,
        edge_weight: EdgeWeight | None = None,
        *,
        degrees: Degrees | None = None,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` or sparse before, or (sources, targets).

        Args:
            edge_weight: A, one number an edge; 1 by default.
            degrees: the row sums of A, where the edges are only some of the graph's; by default those of the edges.
        """
        owner, size = "SymmetricConvolution", size_of(self.linear)
        source, target = pair_of(owner, nodes, (size, size), weight_of(self.linear), takes_sparse=True)
        device = getattr(source, "device", None)
        edges = edges_of(owner, edges, target.shape[-2], source.shape[-2], device, edge_weight)
        if degrees is not None and degrees.shape != (target.shape[-2],):
            raise ShapeError(
                f"{owner}: degrees must be ({target.shape[-2]},), one for each node, not {tuple(degrees.shape)}."
            )

        is_pair = isinstance(nodes, tuple)
        add_self_loops = self.add_self_loops and not is_pair
        out = spread_evenly(self.linear(source), edges, edge_weight, add_self_loops, is_pair, degrees=degrees)
        return self.activation(out if self.bias is None else out + self.bias)


class NeighborConvolution(nn.Module):
    """An aggregation of the neighbors, and the node itself: σ(W ⊕_{j∈N(i)} w_ij x_j + B x_i).

        mean    ⊕ = Σ_j x_j / |N(i)|, which is `MeanConvolution`
        sum     ⊕ = Σ_j x_j
        max     ⊕ = max_j ReLU(P x_j + c), feature by feature; likewise min

    Args:
        input_dim, output_dim: sizes of the nodes before and after; two input sizes are those of sources and targets.
        aggregation: ⊕, "mean", "sum", "max" or "min".
        pool_dim: rows of P; output_dim by default.
        project: whether ReLU(P x_j + c) stands for x_j; by default with "max" and "min".
        root_weight: whether there is B x_i.
        bias: whether a bias is added to W ⊕.
        normalize: divides what σ sees by its length.
        activation: σ.

    Empty: a node with no neighbor keeps its self term.
    Cost: O(edge · output_dim), projected O(edge · pool_dim).
    Source: Hamilton, Ying & Leskovec 2017 (GraphSAGE), algorithm 1 and, for max, eq. 3; their one matrix for the node
    and its neighbors, one above the other, is our B and W; `normalize` is their line 7. The aggregator that depends on
    an order of the neighbors (an LSTM) is left out. "sum" with edge weights w is Morris et al. 2019, eq. 5.
    """

    def __init__(
        self,
        input_dim: int | tuple[int, int],
        output_dim: int,
        aggregation: AggregationName = "mean",
        *,
        pool_dim: int | None = None,
        project: bool | None = None,
        root_weight: bool = True,
        bias: bool = False,
        normalize: bool = False,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        require_choice("NeighborConvolution", "aggregation", aggregation, ("mean", "sum", "max", "min"))
        project = aggregation in ("max", "min") if project is None else project

        if pool_dim is not None and not project:
            raise SettingError(
                f"NeighborConvolution: pool_dim is for aggregation='max' and project=True only, "
                f"not for {aggregation!r}; drop it."
            )

        self.aggregation, self.activation, self.normalize = aggregation, activation, normalize
        source_dim, target_dim = self.sizes = two("NeighborConvolution", "input_dim", input_dim)
        pool_dim = output_dim if pool_dim is None else pool_dim
        require_sizes("NeighborConvolution", output_dim=output_dim, pool_dim=pool_dim)
        require_function("NeighborConvolution", "activation", activation)
        self.pool = FeatureLinear(source_dim, pool_dim) if project else None
        self.neighbors = FeatureLinear(pool_dim if project else source_dim, output_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(output_dim)) if bias else None
        self.itself = FeatureLinear(target_dim, output_dim, bias=False) if root_weight else None

    def forward(
        self, nodes: Pair, edges: GivenNeighborhood = Full(), edge_weight: EdgeWeight | None = None
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` or sparse before, or (sources, targets).

        Args:
            edge_weight: w, one number an edge; 1 by default.
        """
        source, target = pair_of("NeighborConvolution", nodes, self.sizes, weight_of(self.neighbors), takes_sparse=True)
        if self.pool is not None:
            source = torch.relu(self.pool(source))
        neighborhood = for_nodes("NeighborConvolution", edges, source, target)
        reduce = partial(_reduced, neighborhood, self.aggregation, edge_weight, target.shape[-2])

        # A matrix may go before a sum, where it works on nodes that need not be dense.
        is_linear = self.aggregation in ("sum", "mean") and self.pool is None
        out = reduce(self.neighbors(source)) if is_linear else self.neighbors(reduce(_dense(source)))
        out = out if self.bias is None else out + self.bias
        out = out if self.itself is None else out + self.itself(target)

        return self.activation(F.normalize(out, dim=-1) if self.normalize else out)


class IsomorphismConvolution(nn.Module):
    """A network on the node and the sum of its neighbors: W₂ σ(W₁ ((1 + ε) x_i + Σ_{j∈N(i)} x_j) + c₁) + c₂.

    A sum distinguishes neighborhoods that a mean or a maximum confuses: {a, b} and {a, a, b, b}, {a, b} and {a, b, b}.

    Args:
        input_dim, output_dim: sizes of the nodes before and after.
        hidden_dim: rows of W₁; output_dim by default.
        network: what stands for W₁, σ and W₂, such as an `nn.Sequential`.
        edge_dim: size of edge features e; each neighbor is then ReLU(x_j + W_e e_ij + c_e).
        epsilon: ε, or where it starts.
        learn_epsilon: whether ε is a parameter.
        activation: σ.

    Empty: a node with no neighbor is sent through the network alone.
    Cost: O(edge · hidden_dim); with a network or edge features O(edge · input_dim).
    Source: Xu et al. 2019 (GIN), eq. 4.1, with a network of two matrices; W₁ is applied before the sum, which changes
    nothing. The batch normalization of their experiments is left out. Edge features: Hu et al. 2020 (GINE).

    >>> from edgewise import Edges
    >>> layer = IsomorphismConvolution(2, 3)
    >>> layer(torch.ones(4, 2), Edges([0, 1], [1, 2], 4, 4)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        hidden_dim: int | None = None,
        *,
        network: nn.Module | None = None,
        edge_dim: int = 0,
        epsilon: float = 0.0,
        learn_epsilon: bool = True,
        activation: Activation = torch.relu,
    ):
        super().__init__()
        if network is not None and hidden_dim is not None:
            raise SettingError("IsomorphismConvolution: hidden_dim is that of its own network; drop it, or network.")

        hidden_dim = output_dim if hidden_dim is None else hidden_dim
        require_sizes("IsomorphismConvolution", 0, input_dim=input_dim, edge_dim=edge_dim)
        require_sizes("IsomorphismConvolution", output_dim=output_dim, hidden_dim=hidden_dim)
        require_function("IsomorphismConvolution", "activation", activation)
        epsilon = float(number("IsomorphismConvolution", "epsilon", epsilon))
        self.input_dim, self.edge_dim, self.activation, self.network = input_dim, edge_dim, activation, network
        if network is None:
            self.first = FeatureLinear(input_dim, hidden_dim, bias=False)
            self.bias = nn.Parameter(torch.zeros(hidden_dim))
            self.second = Linear(hidden_dim, output_dim)

        self.edge = Linear(edge_dim, input_dim) if edge_dim else None
        self.epsilon: Tensor
        if learn_epsilon:
            self.epsilon = nn.Parameter(torch.tensor(epsilon))
        else:
            self.register_buffer("epsilon", torch.tensor(epsilon))

    def forward(
        self,
        nodes: Pair,
        edges: GivenNeighborhood = Full(),
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
    ) -> Float[Tensor, " *batch node output_dim"]:
        """The nodes after the layer; `(*batch, node, input_dim)` or sparse before, or (sources, targets).

        Args:
            edge_features: e, one row an edge, where the layer has an `edge_dim`.
        """
        owner = "IsomorphismConvolution"
        weight = weight_of(self.first if self.network is None else self.network)
        source, target = pair_of(owner, nodes, (self.input_dim, self.input_dim), weight, takes_sparse=True)
        if self.network is None and self.edge is None:
            target = self.first(target)
            source = target if not isinstance(nodes, tuple) else self.first(source)
        else:
            source, target = _dense(source), _dense(target)
        if self.edge is None and edge_features is None:
            neighborhood = for_nodes(owner, edges, source, target)
            sums = aggregate(source, neighborhood, "sum", num_queries=target.shape[-2])
        else:
            edges = edges_of(owner, edges, target.shape[-2], source.shape[-2], target.device, edge_features)
            edge_features = features_of_edges(owner, edge_features, edges, self.edge_dim, source)
            assert self.edge is not None  # or the features would have been refused
            messages = torch.relu(source.index_select(-2, edges.senders) + self.edge(edge_features))
            zeros = source.new_zeros(edges.num_senders, source.shape[-1])
            sums = aggregate(zeros, edges, "sum", edge_value=messages)

        sums = (1 + self.epsilon) * target + sums
        if self.network is not None:
            return self.network(sums)

        sums = sums if self.edge is None else self.first(sums)
        return self.second(self.activation(sums + self.bias))


def _dense(nodes: Nodes) -> Tensor:
    """Nodes as a table: for what is not linear, where zeros count."""
    return nodes if isinstance(nodes, Tensor) else nodes.to_dense()


def spread_evenly(
    nodes: Float[Tensor, " *batch key feature"],
    edges: Edges,
    edge_weight: EdgeWeight | None = None,
    add_self_loops: bool = True,
    is_bipartite: bool = False,
    degrees: Degrees | None = None,
) -> Float[Tensor, " *batch query feature"]:
    """D^−½ Â D^−½ x, Â = A + I: the nodes one step further over the graph, hand it the edges without loops.

    Args:
        nodes, edges: x and who receives them.
        edge_weight: A; 1 by default.
        add_self_loops: whether Â is A + I, or A.
        is_bipartite: whether D of the sources is the number of edges that they send.
        degrees: the row sums of A, where the edges are only some of the graph's.
    """
    # The weight of an edge is a product of something of its ends, so that a plain sum does with no number an edge.
    root_of = _inverse_root if edge_weight is not None or torch.compiler.is_compiling() else _same_inverse_root
    if degrees is None:
        root = root_of(edges.receivers, edges.num_receivers, edge_weight, add_self_loops, nodes)
    else:
        root = _root_of_degrees(degrees + add_self_loops, nodes.dtype)

    root_of_source = root
    if is_bipartite:
        root_of_source = root_of(edges.senders, edges.num_senders, edge_weight, add_self_loops, nodes)
    scaled = root_of_source * nodes
    out = aggregate(scaled, edges) if edge_weight is None else weighted_sum(scaled, edges, edge_weight)

    return root * (out + scaled if add_self_loops else out)


def _same_inverse_root(ends: Tensor, num_nodes: int, _: Tensor | None, add_self_loops: bool, like: Tensor) -> Tensor:
    """The same without weights, computed once for each list of edges."""
    roots_of_edges = _roots.setdefault(ends, {})
    key = num_nodes, add_self_loops, like.dtype
    if key not in roots_of_edges:
        with outside_modes():  # what is remembered while evaluating may serve training later
            same = torch.empty((), dtype=like.dtype, device=ends.device)
            roots_of_edges[key] = _inverse_root(ends, num_nodes, None, add_self_loops, same)
    return roots_of_edges[key]


_roots: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _inverse_root(
    ends: Tensor, num_nodes: int, edge_weight: Tensor | None, add_self_loops: bool, like: Tensor
) -> Float[Tensor, " *weight_batch node 1"]:
    """1/√ of the sum of the edges at each node, with a loop or not; 0 where there is none."""
    precise = torch.promote_types(like.dtype, torch.float32)  # float16 ends at degree 65,504
    weight = torch.ones_like(ends)
    if edge_weight is not None:
        require_edges("SymmetricConvolution", "edge_weight", edge_weight, len(ends))
        weight = edge_weight.to(precise)
    degree = weight.new_zeros(*weight.shape[:-1], num_nodes).index_add(-1, ends, weight).to(precise) + add_self_loops
    return _root_of_degrees(degree, like.dtype)


def _root_of_degrees(degree: Tensor, dtype: torch.dtype) -> Float[Tensor, " *weight_batch node 1"]:
    is_isolated = degree == 0
    return torch.where(is_isolated, 0.0, torch.where(is_isolated, 1.0, degree).rsqrt()).to(dtype).unsqueeze(-1)


def _reduced(
    neighborhood: Neighborhood,
    aggregation: AggregationName,
    edge_weight: Tensor | None,
    num_targets: int,
    source: Tensor,
) -> Tensor:
    """⊕_j w_ij x_j."""
    if edge_weight is None:
        return aggregate(source, neighborhood, aggregation, num_queries=num_targets)

    owner, num_sources = "NeighborConvolution", source.shape[-2]
    edges = edges_of(owner, neighborhood, num_targets, num_sources, source.device, edge_weight)
    require_edges(owner, "edge_weight", edge_weight, edges.num_edges)
    if aggregation in ("max", "min"):
        # The dtype is that of the nodes, as of a sum: weights may have another, and under autocast mostly do.
        messages = (edge_weight.unsqueeze(-1) * source.index_select(-2, edges.senders)).to(source.dtype)
        return aggregate(source.new_zeros(edges.num_senders, source.shape[-1]), edges, aggregation, edge_value=messages)

    out = weighted_sum(source, edges, edge_weight)
    return out if aggregation == "sum" else out / edges.degrees().clamp(min=1).to(out.dtype).unsqueeze(-1)
