"""What a model of moving bodies is made of; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

DynamicsModelName = Literal["equivariant", "graph_network"]
DYNAMICS_MODELS: tuple[str, ...] = get_args(DynamicsModelName)

Weighing = Literal["sum", "gate", "attention"]
WEIGHINGS: tuple[str, ...] = get_args(Weighing)


@dataclass(frozen=True)
class DynamicsSettings:
    """The layers over all pairs of bodies, and their sizes."""

    model: DynamicsModelName = "equivariant"
    """equivariant turns with the bodies; graph_network sees positions and velocities as plain numbers."""
    weighing: Weighing = "sum"
    """What the messages of the equivariant layers count: all the same, by a gate each, or by attention over bodies."""
    num_layers: int = 4
    """Layers: rounds of messages."""
    model_dim: int = 64
    """Size of a body's vector, and of a message."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("--model", self.model, DYNAMICS_MODELS),
            ("--weighing", self.weighing, WEIGHINGS),
        ):
            if value not in choices:
                raise SettingError(f"{name} is {value!r}; for moving bodies expected one of {', '.join(choices)}.")
        if self.weighing != "sum" and self.model != "equivariant":
            raise SettingError("--weighing goes with --model equivariant.")
        for name in ("num_layers", "model_dim"):
            if getattr(self, name) < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected at least 1.")
