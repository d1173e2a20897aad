"""What models of moving bodies and of series are made of; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

DynamicsModelName = Literal["equivariant", "graph_network", "forces"]
DYNAMICS_MODELS: tuple[str, ...] = get_args(DynamicsModelName)

Weighing = Literal["sum", "gate", "attention"]
WEIGHINGS: tuple[str, ...] = get_args(Weighing)

Told = Literal["positions", "accelerations"]
TOLD: tuple[str, ...] = get_args(Told)


@dataclass(frozen=True)
class DynamicsSettings:
    """The layers over all pairs of bodies, and their sizes."""

    model: DynamicsModelName = "equivariant"
    """equivariant turns with the bodies; graph_network sees positions and velocities as plain numbers; forces knows
    that every two bodies pull or push each other along the line between them, and learns how much at which distance."""
    told: Told = "positions"
    """What is told: where bodies will be, or their accelerations."""
    weighing: Weighing = "sum"
    """What the messages of the equivariant layers count: all the same, by a gate each, or by attention over bodies."""
    num_layers: int = 4
    """Layers: rounds of messages; forces has one."""
    model_dim: int = 64
    """Size of a body's vector, and of a message."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("--told", self.told, TOLD),
            ("--model", self.model, DYNAMICS_MODELS),
            ("--weighing", self.weighing, WEIGHINGS),
        ):
            if value not in choices:
                raise SettingError(f"{name} is {value!r}; for moving bodies expected one of {', '.join(choices)}.")
        if self.weighing != "sum" and self.model != "equivariant":
            raise SettingError("--weighing goes with --model equivariant.")
        if self.model == "forces" and self.told == "positions":
            raise SettingError("--model forces goes with --told accelerations: a force says nothing of a later place.")
        if self.model == "forces" and self.num_layers != type(self).num_layers:
            raise SettingError("--num-layers does nothing with --model forces, which has one; leave it out.")
        for name in ("num_layers", "model_dim"):
            if getattr(self, name) < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected at least 1.")


ForecastModelName = Literal["gaan_gru", "gru"]
FORECAST_MODELS: tuple[str, ...] = get_args(ForecastModelName)


@dataclass(frozen=True)
class ForecastSettings:
    """A recurrent network that reads what was and tells what comes, and its sizes."""

    model: ForecastModelName = "gaan_gru"
    """gaan_gru hears its neighbors at every step; gru is one of every node alone, with the same matrices for all."""
    num_layers: int = 1
    """Recurrent networks, one above the other."""
    num_heads: int = 4
    """Attentions side by side, of gaan_gru."""
    model_dim: int = 32
    """Size of a node's state."""
    context: int = 12
    """Steps that are read."""
    horizon: int = 12
    """Steps that are told."""
    period: int | None = None
    """Steps after which everything comes again, such as those of a day; the model is told where in it a step lies."""

    def __post_init__(self) -> None:
        if self.model not in FORECAST_MODELS:
            raise SettingError(f"--model is {self.model!r}; for series expected one of {', '.join(FORECAST_MODELS)}.")
        for name in ("num_layers", "num_heads", "model_dim", "context", "horizon", "period"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if self.model_dim % self.num_heads != 0:
            raise SettingError(f"--model-dim ({self.model_dim}) must be a multiple of --num-heads ({self.num_heads}).")
