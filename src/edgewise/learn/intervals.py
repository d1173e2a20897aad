"""Conformal prediction intervals, calibrated by the errors on rows that no member was trained on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from edgewise.choices import Calibration
from edgewise.errors import DataError
from edgewise.learn.training.conformal import Difficulty, interval_radius

SPREAD_FLOOR = 1e-3
"""Smaller spreads are raised to this, in standard deviations of the target."""


def _tensors_of(name: str, array: np.ndarray | None) -> dict[str, Tensor]:
    """The tensors of the validation rows in model.safetensors."""
    return {} if array is None else {f"validation.{name}": torch.from_numpy(np.ascontiguousarray(array))}


def read_errors(tensors: dict[str, Tensor]) -> np.ndarray:
    """`errors`, taken out of the tensors of a file."""
    errors = tensors.pop("validation.errors", None)
    if errors is None or errors.ndim != 2:
        raise DataError("validation.errors is not a table (row, target).")
    if not errors.is_floating_point() or torch.isinf(errors).any():
        raise DataError("validation.errors holds other values than errors.")
    return errors.double().numpy()


def read_sigma(tensors: dict[str, Tensor]) -> np.ndarray | None:
    """`sigma`, taken out of the tensors of a file."""
    sigma = tensors.pop("validation.sigma", None)
    if sigma is None:
        return None
    if not sigma.is_floating_point() or not ((sigma > 0) & sigma.isfinite()).all():
        raise DataError("validation.sigma is not a table (row, target) of positive numbers.")
    return sigma.double().numpy()


ERRORS = {"saved": False, "to_tensors": partial(_tensors_of, "errors"), "from_tensors": read_errors}
SIGMA = {"saved": False, "to_tensors": partial(_tensors_of, "sigma"), "from_tensors": read_sigma}


@dataclass(frozen=True, eq=False)
class Intervals:
    """Split conformal intervals, scaled by the difficulty of each row.

        half the width = σ(row) · the quantile of error / σ over the calibration rows

    Source: Lei et al. 2018 (section 5.2 for σ).
    """

    errors: np.ndarray = field(metadata=ERRORS)
    """`(validation row, target)`: prediction minus target, NaN where missing; of size 0 for classes."""
    sigma: np.ndarray | None = field(metadata=SIGMA, default=None)
    """`(validation row, target)`: the expected size of each error; None where it is the same for all."""
    coverage: float = 0.9
    """The coverage of intervals where no other is given."""
    calibration: Calibration | None = None
    """How the validation rows were drawn, and how new rows differ; None for classes."""
    difficulty: tuple[Difficulty, ...] = ()
    """For each target the model of the expected error of a row; empty where it is the same for all."""

    @property
    def scores(self) -> np.ndarray:
        """`(validation row, target)`: error / σ; NaN where the target is missing."""
        return self.errors if self.sigma is None else self.errors / self.sigma

    def radius(self, column: int, coverage: float) -> float:
        """Half the width of the interval of a target, divided by σ; NaN with too few rows."""
        radius = interval_radius(self.scores[:, column], coverage)
        return radius if math.isfinite(radius) else math.nan

    def interval(
        self, mean: np.ndarray, column: int, coverage: float, sigma: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The standard deviation and both ends of the interval of one target, from predictions and σ `(row)`."""
        scores = self.scores[:, column]
        scores = scores[~np.isnan(scores)]
        std = sigma * (math.sqrt((scores**2).mean()) if len(scores) else math.nan)
        half_width = sigma * self.radius(column, coverage)
        return std, mean - half_width, mean + half_width

    def expected_errors(self, features: np.ndarray) -> np.ndarray:
        """`(row, target)`: σ from features of difficulty `(row, target, feature)`."""
        return np.stack([model(features[:, column]) for column, model in enumerate(self.difficulty)], axis=1)

    def check(self, names: tuple[str, ...], num_features: int) -> None:
        """Raise DataError unless the fields fit each other and the targets.

        Args:
            names: the targets.
            num_features: features of difficulty.
        """
        if self.errors.size and self.errors.shape[1] != len(names):
            raise DataError("validation.errors is not a table (row, target).")
        if self.sigma is not None and self.sigma.shape != self.errors.shape:
            raise DataError("validation.sigma is not a table (row, target) like validation.errors.")
        if not 0 < self.coverage < 1:
            raise DataError(f"coverage is {self.coverage}, expected a number between 0 and 1.")
        fits = len(self.difficulty) in (0, len(names))
        for model in self.difficulty:
            fits = fits and len(model.slopes) in (0, num_features)
            fits = fits and all(map(math.isfinite, (model.constant, *model.slopes)))
        if not fits:
            raise DataError(f"difficulty does not fit the targets {', '.join(names)[:60]}.")


def difficulty_features(spreads: np.ndarray, stds: np.ndarray, similarities: Mapping[str, np.ndarray]) -> np.ndarray:
    """`(row, target, feature)`: the features that the expected error is fitted to.

        the log of the spread of the outputs; and 1 − the similarity to the nearest training row, where it is known

    Args:
        spreads: `(row, target)`, over the variants of the model.
        stds: `(target)`, of the targets.
        similarities: `(row)` to the training rows, by name; `similarity` is read.
    """
    logs = np.log(np.maximum(spreads / stds, SPREAD_FLOOR))
    if "similarity" not in similarities:
        return logs[..., None]
    return np.stack([logs, np.broadcast_to(1 - similarities["similarity"][:, None], logs.shape)], axis=-1)
