"""A layer for points in space: whatever is turned, shifted or mirrored before it is so after it."""

from typing import Literal, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.errors import ShapeError
from edgewise.graph import Trace
from edgewise.layers.given import pair_beside, pair_of, require_places, size_of, weight_of
from edgewise.layers.heads import attend_and_record, require_choice
from edgewise.layers.linear import Linear
from edgewise.layers.messages import EdgePerceptron, Perceptron, concat_features, features_of_edges
from edgewise.layers.scorer import Given
from edgewise.neighborhood import Edges, GivenNeighborhood, edges_of
from edgewise.neighborhood.checks import require_sizes
from edgewise.normalize import Normalize
from edgewise.score import Constant, safe_sqrt


class Bodies(NamedTuple):
    """Nodes that stand somewhere, and perhaps move."""

    nodes: Float[Tensor, " *node_batch node model_dim"]
    """What each is, which no rotation changes."""
    coordinates: Float[Tensor, " *place_batch node space_dim"]
    """Where each stands."""
    velocities: Float[Tensor, " *velocity_batch node space_dim"] | None
    """How each moves; None where the layer knows of no movement."""


class EquivariantLayer(nn.Module):
    """Messages that see only distances move the nodes along the lines between them.

        m_ij = φ_e(h_i, h_j, ‖x_i − x_j‖², e_ij)
        v_i ← φ_v(h_i) v_i + C Σ_{j∈N(i)} (x_i − x_j) φ_x(m_ij);   x_i ← x_i + v_i
        h_i ← h_i + φ_h(h_i, Σ_{j∈N(i)} α_ij m_ij),   α_i· = normalize_{j∈N(i)}( φ_α(m_ij) )

    Without velocities, x_i moves by the sum alone. Turn, mirror or shift all x, and turn v with them: h stays the same,
    x and v come out turned, mirrored and shifted alike. The space may have any number of dimensions.

    Args:
        model_dim: size of the nodes, before and after.
        hidden_dim: size of the messages and between the matrices of every φ; model_dim by default.
        edge_dim: size of the edge features e.
        normalize: from φ_α(m) to the weights of the messages: `Softmax()` is attention over the neighborhood,
            `Sigmoid()` a gate on each edge; None sums them as they are, α = 1.
        aggregation: C, which is 1/|N(i)| with "mean", 1 with "sum".
        has_bounded_steps: divides x_i − x_j by ‖x_i − x_j‖ + 1, so that far nodes do not throw each other about.
        has_velocities: whether the nodes move.
        backend: what sums over the edges, as in `attend`; a loss on forces, which are gradients themselves, works on
            all of them.

    Empty: a node with no neighbor stays where it is (with velocities, goes on by φ_v(h_i) v_i). Nodes at one place, as
    the two ends of a loop, do not move each other; a loop does send a message.
    Cost: O(edge · hidden_dim²).
    Source: Satorras, Hoogeboom & Welling 2021 (EGNN), eqs. 3 to 6; with velocities eq. 7, as v and φ_v there; `Sigmoid`
    is eq. 8, whose φ_inf is our φ_α. Their N(i) is all *other* nodes, C = 1/(M − 1), "mean" here: hand over edges
    without loops. That h_i is added is from their code; so is φ_x, which starts small, and the division by the length,
    plus 1 in its first form and 10⁻⁸ in its last, through which no gradient flows there.

    >>> import torch
    >>> from edgewise import Edges
    >>> bodies = EquivariantLayer(8)(torch.randn(5, 8), torch.randn(5, 3), Edges([0, 1], [1, 0], 5, 5))
    >>> bodies.nodes.shape, bodies.coordinates.shape, bodies.velocities
    (torch.Size([5, 8]), torch.Size([5, 3]), None)
    """

    def __init__(
        self,
        model_dim: int,
        hidden_dim: int | None = None,
        *,
        edge_dim: int = 0,
        normalize: Normalize | None = None,
        aggregation: Literal["mean", "sum"] = "mean",
        has_bounded_steps: bool = False,
        has_velocities: bool = False,
        backend: str = "auto",
    ):
        super().__init__()
        require_choice("EquivariantLayer", "aggregation", aggregation, ("mean", "sum"))
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        require_sizes("EquivariantLayer", model_dim=model_dim, hidden_dim=hidden_dim)
        require_sizes("EquivariantLayer", 0, edge_dim=edge_dim)
        self.edge_dim, self.aggregation, self.backend = edge_dim, aggregation, backend
        self.has_bounded_steps, self.has_velocities = has_bounded_steps, has_velocities
        self.activation = nn.SiLU()
        self.message = EdgePerceptron(model_dim, model_dim, 1 + edge_dim, hidden_dim, hidden_dim, self.activation)
        self.node = Perceptron(model_dim + hidden_dim, hidden_dim, model_dim, self.activation)
        last = Linear(hidden_dim, 1, bias=False)
        nn.init.xavier_uniform_(last.weight, gain=0.001)
        self.step = nn.Sequential(Linear(hidden_dim, hidden_dim), self.activation, last)
        if has_velocities:
            self.momentum = Perceptron(model_dim, hidden_dim, 1, self.activation)
        self.normalize = None if normalize is None else Given(normalize)
        if normalize is not None:
            self.score = Linear(hidden_dim, 1)

    def forward(
        self,
        nodes: Float[Tensor, " *node_batch node model_dim"] | tuple[Tensor, Tensor],
        coordinates: Float[Tensor, " *place_batch node space_dim"] | tuple[Tensor, Tensor],
        edges: GivenNeighborhood,
        edge_features: Float[Tensor, " *edge_batch edge edge_dim"] | None = None,
        *,
        velocities: Float[Tensor, " *velocity_batch node space_dim"] | None = None,
        trace: Trace | None = None,
    ) -> Bodies:
        """The nodes after the layer, where they are and how they move.

        Args:
            nodes, coordinates, velocities: h, x and v; or h and x of (sources, targets), and v of the targets, which
                move and are returned.
            edges: who sends to whom; one for all batch axes.
            edge_features: e, one row an edge; `Edges` only.
            trace: where the weights of the messages are recorded, if the layer has a `normalize`.

        Raises:
            ShapeError: velocities or edge features came (or not) against what the layer was made for.
        """
        owner, size = "EquivariantLayer", size_of(self.node.second, "out_features")
        weight = weight_of(self.node.second)
        source, target = pair_of(owner, nodes, (size, size), weight)
        source_places, target_places = pair_beside(owner, "coordinates", coordinates, nodes)
        require_places(owner, source_places, source, weight)
        space_dim = source_places.shape[-1]
        require_places(owner, target_places, target, weight, space_dim=space_dim)
        if (velocities is None) == self.has_velocities:
            expected = "(*batch, node, space_dim)" if self.has_velocities else "none"
            raise ShapeError(f"EquivariantLayer: expected velocities {expected}; see has_velocities.")
        if velocities is not None:
            require_places(owner, velocities, target, weight, name="velocities", space_dim=space_dim)

        edges = edges_of(owner, edges, target.shape[-2], source.shape[-2], target.device, edge_features)
        edge_features = features_of_edges(owner, edge_features, edges, self.edge_dim, target)
        difference = target_places.index_select(-2, edges.receivers) - source_places.index_select(-2, edges.senders)
        squares = difference.square().sum(-1, keepdim=True)
        edge_inputs = concat_features(squares, edge_features)
        message = self.activation(self.message(target, source, edge_inputs, edges))
        step = self.step(message) * (difference / (1 + safe_sqrt(squares)) if self.has_bounded_steps else difference)
        zeros = step.new_zeros(source_places.shape[-2:])
        moved = aggregate(zeros, edges, self.aggregation, edge_value=step, backend=self.backend)
        if velocities is not None:
            moved = velocities = self.momentum(target) * velocities + moved
        messages = self._weighted_messages(message, edges, trace)

        return Bodies(target + self.node(concat_features(target, messages)), target_places + moved, velocities)

    def _weighted_messages(self, message: Tensor, edges: Edges, trace: Trace | None) -> Tensor:
        """Σ_j α_ij m_ij of every node."""
        zeros = message.new_zeros(edges.num_senders, message.shape[-1])
        if self.normalize is None:
            return aggregate(zeros, edges, "sum", edge_value=message, backend=self.backend)
        # The score is made of the message alone: it enters as a bias, beside queries and keys of zeros.
        queries, bias = message.new_zeros(edges.num_receivers, 1), self.score(message).squeeze(-1)
        return attend_and_record(
            trace, queries, zeros[:, :1], zeros, edges, score=Constant(0.0), normalize=self.normalize(), bias=bias,
            edge_value=message, backend=self.backend, num_head_axes=0,
        )  # fmt: skip
