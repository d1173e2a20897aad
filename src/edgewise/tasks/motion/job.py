"""Everything that decides a run over moving bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.errors import SettingError
from edgewise.models.time_settings import DYNAMICS_MODELS, TOLD, DynamicsSettings
from edgewise.tasks.config import arranged, check_three_parts
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
FORCES_RECIPE = replace(RECIPE, learning_rate=5e-3)
"""How forces are learned: a function of the distance alone bears larger steps."""
AHEAD = 10
"""How many moments later positions are told where nobody says."""
PARTS = {"model": DynamicsSettings, "train": TrainSettings}
MISSING = {"data": "no data file was given: edgewise train motion.npz, as edgewise simulate writes it."}


@dataclass(frozen=True)
class DynamicsJob:
    """One training on trajectories, to tell where bodies will be, or how they are pulled."""

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
    ahead: int = AHEAD
    """How many moments later positions are told; 0 where accelerations are."""
    split_sizes: tuple[float, ...] = (0.6, 0.2, 0.2)
    """The parts of training, validation and test trajectories; of one trajectory, of its time."""
    data_seed: int = 0
    """Seed of the split."""

    def __post_init__(self) -> None:
        require("data", len(self.data), len(self.data) == 1, "one file of trajectories")
        check_three_parts(self.split_sizes)
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")
        if self.model.told == "accelerations" and self.ahead:
            raise SettingError(
                f"--ahead {self.ahead} does nothing with --told accelerations, which are told of the moment that is "
                "read; leave it out."
            )


def dynamics_job(config: Mapping[str, Any], source: str = "the settings") -> DynamicsJob:
    """The job that a flat table describes; where accelerations are told, the model is `forces` if none is named.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    own, parts = arranged(config, source, DynamicsJob, PARTS, MISSING)
    model = parts["model"]
    told = model.get("told", DynamicsSettings().told)
    require_one_of("--told", told, TOLD, "of moving bodies ")
    pulls = told == "accelerations"
    model.setdefault("model", "forces" if pulls else DynamicsSettings().model)
    require_one_of("--model", model["model"], DYNAMICS_MODELS, "for moving bodies ")
    own.setdefault("ahead", 0 if pulls else AHEAD)
    recipe = FORCES_RECIPE if model["model"] == "forces" else RECIPE
    return DynamicsJob(**own, model=DynamicsSettings(**model), train=replace(recipe, **parts["train"]))
