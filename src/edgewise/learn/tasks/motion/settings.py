"""The settings of a run over moving bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from edgewise.errors import SettingError
from edgewise.learn.networks.time_settings import DynamicsSettings
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import Sign, TaskSettings, Values, check_split_sizes
from edgewise.learn.training.settings import NUMBER_OUTPUTS, TrainSettings, require

RECIPE = TrainSettings(
    epochs=300,
    batch_size=100,
    optimizer="adam",
    learning_rate=1e-3,
    final_learning_rate=1e-6,
    warmup=0.02,
    weight_decay=0.0,
    second_moment_decay=0.999,
    ema_decay=0.0,
    loss_function="mse",
    checkpoint="best",
)
"""The default recipe for motion; the batch size counts moments."""
FORCES_RECIPE = replace(RECIPE, learning_rate=5e-3)
"""How forces are learned: a function of the distance alone bears larger steps."""
HORIZON = 10
"""How many moments later the predicted positions are by default."""


@dataclass(frozen=True)
class DynamicsRunSettings:
    """The settings of a run over trajectories."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """The trajectories, one .npz file as edgewise simulate writes it."""
    model: DynamicsSettings = field(default_factory=DynamicsSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["dynamics"] = "dynamics"
    """The one task type."""
    start: int | None = setting(None)
    """The moment that is read, by its number in the file; None reads all for which a later one is known."""
    every_start: bool = setting(False)
    """Whether every moment of the training trajectories is learned from; `start` is then that of validation and test
    moments alone."""
    horizon: int = setting(HORIZON)
    """How many moments later the predicted positions are; 0 for accelerations."""
    split_sizes: tuple[float, ...] = setting((0.6, 0.2, 0.2), metavar="FRACTION")
    """Fractions of training, validation and test trajectories; of one trajectory, of its time."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""

    def __post_init__(self) -> None:
        check(self)
        require("data", len(self.data), len(self.data) == 1, "one file of trajectories")
        check_split_sizes(self.split_sizes, 3)
        if self.model.target_quantity == "accelerations" and self.horizon:
            raise SettingError(
                f"--horizon {self.horizon} does nothing with --target-quantity accelerations, which are predicted for "
                "the moment that is read; leave it out."
            )


def model_and_recipe(run: Values, groups: Mapping[str, Values]) -> Values:
    """Where accelerations are predicted, the model is `forces` if none is named; `forces` has its own recipe."""
    derived: dict[str, object] = {}
    model = groups["model"]
    if model.get("target_quantity") == "accelerations":
        model = {"model": "forces", **model}
        derived["horizon"] = run.get("horizon", 0)
    recipe = FORCES_RECIPE if model.get("model") == "forces" else RECIPE
    return {**derived, "model": DynamicsSettings(**model), "train": replace(recipe, **groups["train"])}


SETTINGS = TaskSettings(
    name="motion",
    task="edgewise.learn.tasks.motion.task:TASK",
    run_type=DynamicsRunSettings,
    format="edgewise dynamics model",
    summary="later positions of moving bodies, or their accelerations",
    example="motion motion.npz",
    signs=(
        Sign(strength=6, endings=(".npz",), arrays=frozenset(("positions", "velocities")), holds="holds trajectories"),
    ),
    estimators=("DynamicsModel",),
    choices={"loss_function": tuple(NUMBER_OUTPUTS.built_in)},
    unused=dict.fromkeys(
        ("delimiter", "decimal", "quoting", "encoding", "sheet"), "trajectories are read from .npz files"
    ),
    derive=model_and_recipe,
)
