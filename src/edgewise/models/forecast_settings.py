"""What a model of series on a graph is made of; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

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
