"""What the outputs of a network mean: values of targets in their unit, or probabilities of their classes.

An ensemble has members, each a network trained on its own. A member may give several predictions, its variants: those
of the variants of its head, and of companions, which are other models, such as a random forest, whose predictions are
averaged with those of the network (see `Stack`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError
from edgewise.learn.companions.stack import shares_of, variants_of
from edgewise.learn.readers.graphs.source import GraphColumns
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.labels import Label
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.training.metrics import Scores, scores_by_target
from edgewise.learn.training.settings import NUMBER_OUTPUTS


@dataclass(frozen=True)
class Targets:
    """The targets of a table: numbers, yes or no, or one of several classes each.

    numbers: y = mean + std · f(output), f of the loss function;  yes or no: p = sigmoid(output);
    classes: p = softmax(outputs of the target)
    """

    columns: Columns | GraphColumns
    """The columns of the training, targets by name."""
    classes: dict[str, tuple[Label, ...]]
    """The names of the classes of each target; empty for numbers."""
    scale: TargetScaler | None
    """From the unit of the targets to that of the network; None for classes."""
    bounds: tuple[float, ...] = ()
    """The lowest and the highest number that a target can have; empty where predictions may lie anywhere."""
    loss_function: str = "huber"
    """The loss function for regression, a key of `NUMBER_OUTPUTS`."""

    def with_loss_function(self, loss_function: str) -> Self:
        """The same targets with another loss function; they are not centered where it has a link function."""
        scale = self.scale
        if scale is not None and NUMBER_OUTPUTS[loss_function].value is not None:
            scale = replace(scale, mean=(0.0,) * len(scale.mean))
        return replace(self, scale=scale, loss_function=loss_function)

    def apply_link(self, output: Tensor) -> Tensor:
        """Values of targets in units of their standard deviation, by the link function of the loss,
        `NumberOutput.value`; keeps gradients."""
        link = NUMBER_OUTPUTS[self.loss_function].value
        return output if link is None else link(output)

    def scores(self, targets: np.ndarray, predictions: Sequence[np.ndarray]) -> dict[str, Scores]:
        """The scores of every target by name; see `scores_by_target`."""
        return scores_by_target(
            targets, predictions, self.names, self.task_type, NUMBER_OUTPUTS[self.loss_function].scores
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The targets."""
        return self.columns.target_columns

    @property
    def task_type(self) -> str:
        """regression, classification or multiclass."""
        return self.columns.task_type

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; 0 for numbers."""
        return tuple(len(self.classes.get(name, ())) for name in self.names)

    @property
    def num_outputs(self) -> int:
        """Numbers that a network gives for a row."""
        return sum(self.num_classes) if self.task_type == "multiclass" else len(self.names)

    def finish(self, output: Tensor) -> Tensor:
        """Predictions `(row, output)` from outputs of a member; variants, `(row, variant, output)`, are averaged."""
        if output.ndim == 3:
            return self.variants(output).mean(dim=1)
        if self.task_type == "classification":
            return output.sigmoid()
        if self.task_type == "multiclass":
            return torch.cat([part.softmax(dim=1) for part in output.split(list(self.num_classes), dim=1)], dim=1)

        assert self.scale is not None
        values = torch.from_numpy(self.scale.inverse(self.apply_link(output).numpy()))
        # Rounding may not carry them beyond their bounds.
        return values.clamp(*self.bounds) if self.bounds else values

    def variants(self, output: Tensor) -> Tensor:
        """`(row, variant, output)`: as `finish`, for each variant."""
        if output.ndim == 2:
            return self.finish(output).unsqueeze(1)
        return self.finish(output.flatten(0, 1)).unflatten(0, output.shape[:2])

    def by_target(self, output: np.ndarray) -> list[np.ndarray]:
        """Splits `(..., output)` into an array for each target: `(...)` values, or `(..., class)` probabilities."""
        if self.task_type == "multiclass":
            return np.split(output, np.cumsum(self.num_classes)[:-1], axis=-1)
        columns = [output[..., column] for column in range(output.shape[-1])]
        if self.task_type == "classification":
            return [np.stack([1 - column, column], axis=-1) for column in columns]
        return columns

    def stacking_inputs(self, output: Tensor) -> Tensor:
        """What is compared with `stacking_targets` when the weights of companions are chosen: numbers as the network
        gives them, or probabilities."""
        if self.task_type == "regression":
            return output
        return self.finish(output) if output.ndim == 2 else self.variants(output)

    def stacking_targets(self, targets: np.ndarray) -> np.ndarray:
        """`(row, output)`: what is right, one-hot for multiclass; NaN where a target is missing.

        Args:
            targets: `(row, target)`, numbers as the network gives them, or numbers of classes.
        """
        if self.task_type != "multiclass":
            return targets
        columns = [
            np.where(np.isnan(column)[:, None], np.nan, column[:, None] == np.arange(count))
            for column, count in zip(targets.T, self.num_classes, strict=True)
        ]
        return np.concatenate(columns, axis=1)

    def check_size(self, num_outputs: int) -> None:
        """Raise DataError where the sizes of a network have another number of outputs."""
        if num_outputs != self.num_outputs:
            raise DataError(f"sizes.num_outputs is {num_outputs}, expected {self.num_outputs}.")

    def check(self) -> None:
        """Raise DataError unless the fields fit each other; SettingError where the loss function is unknown."""
        NUMBER_OUTPUTS[self.loss_function]
        is_regression, scale = self.task_type == "regression", self.scale
        has_scale = scale is not None and len(scale.mean) == len(self.names) if is_regression else scale is None
        has_bounds = len(self.bounds) in (0, 2) and (is_regression or not self.bounds)
        fits = {
            "target_columns": len(self.names) >= 1,
            "classes": self._has_classes(),
            "scale": has_scale,
            "bounds": has_bounds and all(map(math.isfinite, self.bounds)),
        }
        for name, does_fit in fits.items():
            if not does_fit:
                raise DataError(f"{name} does not fit the targets {', '.join(self.names)[:60]}.")

    def _has_classes(self) -> bool:
        """Whether each target has its classes, two or more with different names; none where targets are numbers."""
        if self.task_type == "regression":
            return not any(self.classes.values())
        fits = set(self.classes) == set(self.names)
        for labels in self.classes.values():
            fits_count = len(labels) == 2 if self.task_type == "classification" else len(labels) >= 2
            fits = fits and fits_count and len(set(map(str, labels))) == len(labels)
        return fits


@dataclass(frozen=True, eq=False)
class EnsemblePredictions:
    """The predictions of each member of an ensemble for some rows."""

    values: np.ndarray
    """(member, row, output), in the unit of the target, or probabilities."""
    std: np.ndarray
    """(member, row, output): the standard deviation over the variants of a member; 0 where it has one."""

    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(row, output): what the network alone predicts, and each companion, by name; empty without companions."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """How much each part counts."""

    @classmethod
    def of(cls, members: Sequence[np.ndarray], companions: Mapping[str, int] | None = None) -> "EnsemblePredictions":
        """From the predictions of each member.

        Args:
            members: `(row, variant, output)` of each, those of companions after the network's.
            companions: the number of variants that each is, see `Stack`.
        """
        values, stds = (np.stack([reduce(outputs, axis=1) for outputs in members]) for reduce in (np.mean, np.std))
        num_variants = members[0].shape[1]
        if not companions:
            return cls(values, stds)
        slices = variants_of(companions, num_variants)
        parts = {
            name: np.mean([outputs[:, part].mean(axis=1) for outputs in members], axis=0)
            for name, part in slices.items()
        }
        return cls(values, stds, parts, shares_of(companions, num_variants))

    def mean(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """(row, output): the mean over all members, or over those chosen for each row, `(member, row)`."""
        return _average(self.values, chosen)

    def mean_std(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """(row, output): the standard deviation over the variants of a member, as the root mean square over members,
        all or those chosen."""
        return np.sqrt(_average(self.std**2, chosen))

    def total_std(self) -> np.ndarray:
        """(row, output): the standard deviation over all variants of all members."""
        return np.sqrt(self.values.var(axis=0) + (self.std**2).mean(axis=0))


def _average(values: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
    """The mean of `(member, row, output)` over all members, or over those chosen for each row, `(member, row)`."""
    if chosen is None:
        return values.mean(axis=0)
    return np.average(values, axis=0, weights=np.broadcast_to(chosen[..., None], values.shape))


def scatter_rows(values: np.ndarray, rows: np.ndarray, num_rows: int, missing: float = np.nan) -> np.ndarray:
    """The values of some rows in an array of all rows; `missing` elsewhere."""
    of_all_rows = np.full((num_rows, *values.shape[1:]), missing, dtype=values.dtype)
    of_all_rows[rows] = values
    return of_all_rows


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of one target for every row of a table; NaN if a row cannot be predicted."""

    value: np.ndarray
    """(row), in the unit of the target; for classes the index of the most probable one."""
    std: np.ndarray
    """(row): the standard deviation of the target around its prediction, for one model and an ensemble alike: by the
    errors on validation rows, which intervals are made of, NaN without such rows; for classes √(p(1 − p)), that of the
    outcome "it is this class"."""
    low: np.ndarray
    """(row): lower end of the interval; NaN for classes, and with too few validation rows."""
    high: np.ndarray
    """(row): upper end of the interval."""
    probabilities: np.ndarray | None
    """(row, class); None for regression."""
    sigma: np.ndarray | None = None
    """(row): the expected size of the error, of which the width of the interval is a multiple; None for classes."""
    ensemble_std: np.ndarray | None = None
    """(row): the standard deviation over the members of an ensemble, for classes of the probability of `value`; it is
    usually far smaller than `std`. None for a single model."""
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What the network alone predicts, and each companion, by name: `(row)`, or `(row, class)` probabilities; empty
    where nothing stands beside the network."""
