"""What models of moving bodies and of series are made of; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError
from edgewise.learn.settings import (
    CONTEXT_ALIASES,
    MAX_DIM,
    MAX_LAYERS,
    MODEL_DIM_ALIASES,
    NUM_HEADS_ALIASES,
    NUM_LAYERS_ALIASES,
    check,
    check_heads,
    setting,
)

DynamicsModelName = Literal["equivariant", "graph_network", "forces"]
DYNAMICS_MODELS: tuple[str, ...] = get_args(DynamicsModelName)

MessageWeighting = Literal["sum", "gate", "attention"]

TargetQuantity = Literal["positions", "accelerations"]


@dataclass(frozen=True)
class DynamicsSettings:
    """The layers over all pairs of bodies, and their sizes."""

    model: DynamicsModelName = setting("equivariant")
    """equivariant turns with the bodies; graph_network sees positions and velocities as plain numbers; forces learns
    a force along the line between two bodies as a function of their distance."""
    target_quantity: TargetQuantity = setting("positions")
    """What is predicted: later positions of the bodies, or their accelerations."""
    aggregation: MessageWeighting = setting("sum")
    """How the equivariant layers weight messages: all the same, by a gate each, or by attention over bodies."""
    num_layers: int = setting(4, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Rounds of messages; forces has one."""
    model_dim: int = setting(64, at_least=1, at_most=MAX_DIM, aliases=MODEL_DIM_ALIASES)
    """Size of a body's vector, and of a message."""

    def __post_init__(self) -> None:
        check(self)
        if self.aggregation != "sum" and self.model != "equivariant":
            raise SettingError("--aggregation goes with --model equivariant.")
        if self.model == "forces" and self.target_quantity == "positions":
            raise SettingError(
                "--model forces goes with --target-quantity accelerations: a force does not give a later position."
            )
        if self.model == "forces" and self.num_layers != type(self).num_layers:
            raise SettingError("--num-layers does nothing with --model forces, which has one; leave it out.")


ForecastModelName = Literal["gaan_gru", "gru"]
FORECAST_MODELS: tuple[str, ...] = get_args(ForecastModelName)


@dataclass(frozen=True)
class ForecastSettings:
    """A recurrent network that reads past steps and predicts future ones, and its sizes."""

    model: ForecastModelName = setting("gaan_gru")
    """gaan_gru attends to the neighbors of a node at every step; gru ignores the graph and has the same
    weights for every node."""
    num_layers: int = setting(1, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Stacked recurrent networks."""
    num_heads: int = setting(4, at_least=1, at_most=MAX_DIM, aliases=NUM_HEADS_ALIASES)
    """Attention heads of gaan_gru."""
    model_dim: int = setting(32, at_least=1, at_most=MAX_DIM, aliases=MODEL_DIM_ALIASES)
    """Size of a node's state."""
    context: int = setting(12, at_least=1, at_most=MAX_DIM, aliases=CONTEXT_ALIASES)
    """Steps that the model reads."""
    horizon: int = setting(12, at_least=1, at_most=MAX_DIM)
    """Steps that the model predicts."""
    period: int | None = setting(None, at_least=1)
    """Steps of one cycle, such as those of a day; the model then reads the place of each step in the cycle."""

    def __post_init__(self) -> None:
        check(self)
        if self.model == "gaan_gru":
            check_heads(self)
