"""Predicts future positions of bodies, or their accelerations, from positions and velocities."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.attend import aggregate
from edgewise.graph import Trace
from edgewise.layers.equivariant import EquivariantLayer
from edgewise.layers.force import PairForce
from edgewise.layers.linear import Linear
from edgewise.layers.messages import EdgePerceptron, Perceptron, concat_features
from edgewise.learn.batches.bodies import BodyBatch
from edgewise.learn.networks.time_settings import DynamicsSettings
from edgewise.normalize import Normalize, Sigmoid, Softmax

NORMALIZE_OF_AGGREGATION: dict[str, Normalize | None] = {"sum": None, "gate": Sigmoid(), "attention": Softmax()}
"""The normalization of scores for each `aggregation`; None adds up the messages."""


class EquivariantDynamics(nn.Module):
    """An equivariant network: its positions rotate, translate and reflect with the input.

        h_i = W (‖v_i‖, c_i);  e_ij = (c_ij, ‖x_i − x_j‖²);  (h, x, v) ← layer(h, x, v, e), L times
        output: x, or, for accelerations, the displacement of x

    Args:
        num_charges: numbers c_i of a body that forces depend on: its mass, and its charge where it has one.
        num_couplings: features c_ij of a pair, such as the stiffness of a spring.
        settings: the choices.

    Source: Satorras et al. 2021, section 5.1, without c_i there.
    """

    def __init__(self, num_charges: int, num_couplings: int, settings: DynamicsSettings):
        super().__init__()
        self.quantity = settings.target_quantity
        self.input = Linear(1 + num_charges, settings.model_dim)
        self.layers = nn.ModuleList(
            EquivariantLayer(
                settings.model_dim,
                edge_dim=num_couplings + 1,
                normalize=NORMALIZE_OF_AGGREGATION[settings.aggregation],
                has_velocities=True,
            )
            for _ in range(settings.num_layers)
        )

    def forward(self, batch: BodyBatch, trace: Trace | None = None) -> Float[Tensor, " row space"]:
        """The future position of each body, or its acceleration."""
        positions, velocities, edges = batch.positions, batch.velocities, batch.edges
        nodes = self.input(concat_features(torch.linalg.vector_norm(velocities, dim=-1, keepdim=True), batch.charges))
        displacements = positions[edges.receivers] - positions[edges.senders]
        edge_inputs = concat_features(batch.couplings, displacements.square().sum(-1, keepdim=True))
        for layer in self.layers:
            nodes, positions, velocities = layer(
                nodes, positions, edges, edge_inputs, velocities=velocities, trace=trace
            )
        return positions if self.quantity == "positions" else positions - batch.positions


class GraphDynamics(nn.Module):
    """A network that is not equivariant: coordinates are plain features of messages between bodies.

        h_i = W (x_i, v_i, c_i);  m_ij = φ_e(h_i, h_j, c_ij);  h_i ← h_i + φ_h(h_i, Σ_j m_ij), L times;  output: φ(h_i)

    Args:
        space_dim: dimensions of the space.
        num_charges, num_couplings, settings: as in `EquivariantDynamics`.

    Source: Gilmer et al. 2017; the graph network of Satorras et al. 2021, section 5.1.
    """

    def __init__(self, space_dim: int, num_charges: int, num_couplings: int, settings: DynamicsSettings):
        super().__init__()
        model_dim, activation = settings.model_dim, nn.SiLU()
        self.activation = activation
        self.input = Linear(2 * space_dim + num_charges, model_dim)
        self.messages = nn.ModuleList(
            EdgePerceptron(model_dim, model_dim, num_couplings, model_dim, model_dim, activation)
            for _ in range(settings.num_layers)
        )
        self.updates = nn.ModuleList(
            Perceptron(2 * model_dim, model_dim, model_dim, activation) for _ in range(settings.num_layers)
        )
        self.output = Perceptron(model_dim, model_dim, space_dim, activation)

    def forward(self, batch: BodyBatch, trace: Trace | None = None) -> Float[Tensor, " row space"]:
        """The future position of each body, or its acceleration."""
        nodes = self.input(torch.cat([batch.positions, batch.velocities, batch.charges], -1))
        for message, update in zip(self.messages, self.updates, strict=True):
            messages = self.activation(message(nodes, nodes, batch.couplings, batch.edges))
            aggregated = aggregate(torch.zeros_like(nodes), batch.edges, "sum", edge_value=messages)
            nodes = nodes + update(concat_features(nodes, aggregated))
        return self.output(nodes)


class ForceDynamics(nn.Module):
    """Accelerations from forces between each pair of bodies, along the line between them.

        a_i = 1/m_i Σ_j c_ij φ(‖x_j − x_i‖) (x_j − x_i) / ‖x_j − x_i‖

    The masses m, the couplings c, and that forces are central and opposite are given; φ is learned.

    Source: as in `PairForce`.
    """

    def __init__(self, settings: DynamicsSettings):
        super().__init__()
        self.force = PairForce(settings.model_dim)

    def forward(self, batch: BodyBatch, trace: Trace | None = None) -> Float[Tensor, " row space"]:
        """The acceleration of each body; the first of the numbers `charges` is its mass."""
        return self.force(batch.positions, batch.edges, batch.couplings.squeeze(-1)) / batch.charges[:, :1]


def dynamics_model(space_dim: int, num_charges: int, num_couplings: int, settings: DynamicsSettings) -> nn.Module:
    """The model that the settings name."""
    if settings.model == "equivariant":
        return EquivariantDynamics(num_charges, num_couplings, settings)
    if settings.model == "forces":
        return ForceDynamics(settings)
    return GraphDynamics(space_dim, num_charges, num_couplings, settings)
