"""Everything that decides a run over moving bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.estimators.config import arranged, check_three_parts
from edgewise.models.dynamics_settings import DYNAMICS_MODELS, DynamicsSettings
from edgewise.train.settings import TrainSettings, require, require_one_of

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
    keep="best",
)
"""How motion is learned where nothing else is asked for; the batch size counts moments."""
PARTS = {"model": DynamicsSettings, "train": TrainSettings}
MISSING = {"data": "no data file was given: edgewise train motion.npz, as edgewise simulate writes it."}


@dataclass(frozen=True)
class DynamicsJob:
    """One training on trajectories, to tell where bodies will be."""

    data: tuple[str, ...]
    """The trajectories, one .npz file."""
    model: DynamicsSettings = field(default_factory=DynamicsSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["dynamics"] = "dynamics"
    """What is learned."""
    start: int | None = None
    """The moment that is read, by its number in the file; None reads all from which a later one is known."""
    ahead: int = 10
    """How many moments later is told."""
    split_sizes: tuple[float, ...] = (0.6, 0.2, 0.2)
    """The parts of training, validation and test trajectories; of one trajectory, of its time."""
    data_seed: int = 0
    """Seed of the split."""

    def __post_init__(self) -> None:
        require("data", len(self.data), len(self.data) == 1, "one file of trajectories")
        check_three_parts(self.split_sizes)
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")


def dynamics_job(config: Mapping[str, Any], source: str = "the settings") -> DynamicsJob:
    """The job that a flat table describes.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    own, parts = arranged(config, source, DynamicsJob, PARTS, MISSING)
    named = parts["model"].get("model", DynamicsSettings().model)
    require_one_of("--model", named, DYNAMICS_MODELS, "for moving bodies ")
    return DynamicsJob(**own, model=DynamicsSettings(**parts["model"]), train=replace(RECIPE, **parts["train"]))
