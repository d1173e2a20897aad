"""A trained ensemble over the rows of a table, whatever they hold: predictions, their spread and their intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch

from edgewise.choices import Calibration
from edgewise.errors import DataError, SettingError
from edgewise.graph.records import Prediction
from edgewise.learn.intervals import Intervals, difficulty_features, read_errors, read_sigma
from edgewise.learn.outputs import Outputs, spread
from edgewise.learn.progress import counted
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.rows import Table
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tasks.fitted import Fitted
from edgewise.learn.training.conformal import Difficulty, check_coverage, empty_intervals, interval_radius
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder

ROWS_A_BATCH = 512
"""Rows that are computed together where no gradient is wanted."""


@dataclass(kw_only=True)
class TrainedTable(Fitted):
    """A trained ensemble over the rows of a table; subclasses know what a row holds."""

    PREFIX = "member_{}."
    has_similarities: ClassVar[bool] = False
    """Whether `similarities` gives the similarity to the nearest training row, as `similarity`."""

    columns: Columns
    """The columns it was trained on, targets by name."""
    classes: dict[str, tuple[str | int | float | bool, ...]]
    """The names of the classes of each target; empty for regression."""
    errors: np.ndarray = field(metadata=TRANSIENT)
    """(validation row, target): prediction minus target, NaN where missing; of size 0 for classes."""
    sigma: np.ndarray | None = field(metadata=TRANSIENT, default=None)
    """(validation row, target): the size of error to be expected of each; None where it is the same for all."""
    coverage: float = 0.9
    """The coverage of intervals where no other is given."""
    calibration: Calibration | None = None
    """How the validation rows were drawn, and how new rows differ; None in runs of older versions."""
    difficulty: tuple[Difficulty, ...] = ()
    """The size of error to be expected of a row, for each target; none where it is the same for all."""

    @property
    def output(self) -> Self:
        """What the numbers of a network mean."""
        return self

    @property
    def intervals(self) -> Self:
        """How far predictions may be off."""
        return self

    @property
    def task_type(self) -> str:
        """regression, classification or multiclass."""
        return self.columns.task_type

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; 0 for regression."""
        return tuple(len(self.classes.get(name, ())) for name in self.columns.target_columns)

    @property
    def num_outputs(self) -> int:
        """Numbers that a model gives for a row."""
        return sum(self.num_classes) if self.task_type == "multiclass" else len(self.columns.target_columns)

    @property
    def model_outputs(self) -> int:
        """The same, as the models are built."""
        found: int = self.sizes.num_outputs  # type: ignore[attr-defined]
        return found

    @property
    def value_bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest number that a target can have; None where predictions may lie anywhere."""
        return None

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        found: TargetScaler | None = self.scale  # type: ignore[attr-defined]
        return found

    @property
    def known_words(self) -> dict[str, Any]:
        """How tables of graphs to predict are read: without targets, with the words that the model knows."""
        return {name: getattr(self, name) for name in ("categories", "edge_categories")} | {"need_targets": False}

    def check_coverage(self, coverage: float | None) -> None:
        """Raise SettingError unless the intervals of a prediction can have a coverage; None is the usual one."""
        if coverage is None:
            return
        check_coverage(coverage)
        if self.task_type != "regression":
            raise SettingError("--coverage goes with numbers, but the model predicts classes, which have no intervals.")

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a row that the models read; None where rows are no texts."""
        return None

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together where no gradient is wanted."""
        return ROWS_A_BATCH

    def batches(self, table: Any) -> Any:
        """The rows of a table as the models take them."""
        raise NotImplementedError

    def similarities(self, table: Any, rows: np.ndarray, known: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """How similar some rows are to the nearest training row, from 0 to 1, by the name of the column.

        Args:
            table: Any table with the columns of the training.
            rows: Usable rows of it.
            known: Rows of the table that stand for the training rows; None for those of the training.
        """
        return {}

    def more_columns(
        self, table: Any, rows: np.ndarray, similarities: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray | list[Any]]:
        """Columns that stand beside the predictions of some rows, for all rows of the table."""
        return {name: spread(values, rows, table.num_rows) for name, values in similarities.items()}

    def statuses(self, table: Any) -> list[str]:
        """What stands beside the prediction of each row: `ok`, why there is none, or why it is not to be relied on."""
        return list(table.status)

    def outputs(self, table: Table, rows: np.ndarray, device: str = "cpu") -> np.ndarray:
        """The outputs of every member: (member, row, output), values in the target's unit or probabilities.

        Args:
            table: Any table with the columns of the training.
            rows: Usable rows of it.
            device: Where to compute.
        """
        return self.all_outputs(table, rows, device).values

    def all_outputs(self, table: Table, rows: np.ndarray, device: str = "cpu") -> Outputs:
        """The outputs of every member and their spread; arguments as in `outputs`."""
        found = self._computed(table, rows, device, lambda member, batch: self.variants(member(batch).double().cpu()))
        empty = np.zeros((0, 1, self.num_outputs))
        return Outputs.of([np.concatenate(parts) if parts else empty for parts in found])

    def fingerprint(self, table: Table, device: str = "cpu") -> np.ndarray:
        """(row, dim): the learned vectors of all members side by side; NaN where a row cannot be predicted."""
        rows = np.flatnonzero(table.usable)
        if not len(rows):
            raise DataError(f"{table.source}: no row can be read; the first: {table.status[0]}.")
        found = self._computed(table, rows, device, lambda member, batch: member.fingerprint(batch).cpu())
        vectors = np.concatenate([np.concatenate(parts) for parts in found], axis=1)
        return spread(vectors.astype(np.float32), rows, table.num_rows)

    def _computed(self, table: Table, rows: np.ndarray, device: str, compute: Any) -> list[list[np.ndarray]]:
        """What `compute` gives for each member and batch."""
        batches = self.batches(table)
        found: list[list[np.ndarray]] = [[] for _ in self.members]
        with torch.no_grad(), cpu_threads(self.threads):
            for member, parts in zip(self.members, found, strict=True):
                member.to(device).eval()
                for start in counted(range(0, len(rows), self.rows_a_batch), "predicting"):
                    batch = batches.batch(rows[start : start + self.rows_a_batch]).to(device)
                    parts.append(compute(member, batch).numpy())
                member.to("cpu")
        return found

    def finish(self, output: torch.Tensor) -> torch.Tensor:
        """From model units to the target's unit, or logits to probabilities; members inside a model are averaged."""
        if output.ndim == 3:
            return self.variants(output).mean(dim=1)
        if self.task_type == "classification":
            return output.sigmoid()
        if self.task_type == "multiclass":
            return torch.cat([part.softmax(dim=1) for part in output.split(list(self.num_classes), dim=1)], dim=1)
        assert self.target_scale is not None
        values = torch.from_numpy(self.target_scale.inverse(output.numpy()))
        # Rounding may not carry them beyond their bounds.
        return values if self.value_bounds is None else values.clamp(*self.value_bounds)

    def variants(self, output: torch.Tensor) -> torch.Tensor:
        """(row, variant, output): as `finish`, for each of the members inside a model."""
        if output.ndim == 2:
            return self.finish(output).unsqueeze(1)
        return self.finish(output.flatten(0, 1)).unflatten(0, output.shape[:2])

    def by_target(self, output: np.ndarray) -> list[np.ndarray]:
        """Splits (..., output) into one array for each target: (...) values, or (..., class) probabilities."""
        if self.task_type == "multiclass":
            return np.split(output, np.cumsum(self.num_classes)[:-1], axis=-1)
        columns = [output[..., column] for column in range(output.shape[-1])]
        if self.task_type == "classification":
            return [np.stack([1 - column, column], axis=-1) for column in columns]
        return columns

    def predict(
        self,
        table: Table,
        *,
        rows: np.ndarray | None = None,
        coverage: float | None = None,
        device: str = "cpu",
        similarities: Mapping[str, np.ndarray] | None = None,
    ) -> list[Prediction]:
        """The predictions of the ensemble for each target.

        Args:
            table: Any table with the columns of the training.
            rows: The rows to predict; all usable ones where it is None. Predictions of the others are NaN.
            coverage: The promised probability that a value lies within low and high.
            device: Where to compute.
            similarities: Of these rows, as the method of that name gives them; None computes them where intervals
                need them.
        """
        rows = np.flatnonzero(table.usable) if rows is None else rows
        options: dict[str, Any] = {"coverage": coverage, "device": device, "similarities": similarities}
        return self.predict_rows(table, rows, among=(rows, table.num_rows), **options)

    def predict_rows(
        self,
        table: Table,
        rows: np.ndarray,
        *,
        coverage: float | None = None,
        device: str = "cpu",
        similarities: Mapping[str, np.ndarray] | None = None,
        among: tuple[np.ndarray, int] | None = None,
    ) -> list[Prediction]:
        """The predictions of some rows for each target, a number each; arguments as for `predict`.

        Args:
            among: the places of the predictions, and how many places there are; None is one a row.
        """
        if similarities is None and self.difficulty:
            similarities = self.similarities(table, rows)
        outputs = self.all_outputs(table, rows, device)
        places, count = among or (np.arange(len(rows)), len(rows))
        return self.to_predictions(outputs, places, count, similarities or {}, coverage)

    def to_predictions(
        self,
        outputs: Outputs,
        rows: np.ndarray,
        num_rows: int,
        similarities: Mapping[str, np.ndarray],
        coverage: float | None = None,
    ) -> list[Prediction]:
        """The predictions of the ensemble for each target, from the outputs of every member.

        Args:
            outputs: As `all_outputs` gives them.
            rows: The rows of the table that they belong to.
            num_rows: How many rows the table has.
            similarities: Of these rows to the training rows.
            coverage: The promised probability that a value lies within low and high.
        """
        predictions = []
        if self.task_type == "regression":
            coverage = self.coverage if coverage is None else coverage
            sigma = self.expected_errors(outputs, similarities)
            for column, own in enumerate(sigma.T):
                members = outputs.values[..., column]
                found = self.interval(members.mean(axis=0), column, coverage, own)
                value, std, low, high = (spread(part, rows, num_rows) for part in found)
                apart = self.ensemble_std(members, rows, num_rows)
                predictions.append(Prediction(value, std, low, high, None, spread(own, rows, num_rows), apart))
            return predictions
        for each in self.by_target(outputs.values):
            probabilities = each.mean(axis=0)
            largest, of_class = probabilities.max(axis=1, initial=0), probabilities.argmax(axis=1)
            members = np.take_along_axis(each, of_class[None, :, None], axis=2)[..., 0]
            nothing = np.full(num_rows, np.nan)
            predictions.append(
                Prediction(
                    spread(of_class.astype(float), rows, num_rows),
                    spread(np.sqrt(largest * (1 - largest)), rows, num_rows),
                    nothing,
                    nothing,
                    spread(probabilities, rows, num_rows),
                    ensemble_std=self.ensemble_std(members, rows, num_rows),
                )
            )
        return predictions

    def difficulty_features(self, spreads: np.ndarray, similarities: Mapping[str, np.ndarray]) -> np.ndarray:
        """(row, target, feature): what grows with the difficulty of rows.

            log of the spread of the outputs, and 1 − similarity to the nearest training row

        Args:
            spreads: (row, target), over the variants of the model.
            similarities: To the training rows.
        """
        assert self.target_scale is not None
        return difficulty_features(spreads, np.array(self.target_scale.std), similarities)

    def expected_errors(self, outputs: Outputs, similarities: Mapping[str, np.ndarray]) -> np.ndarray:
        """(row, target): σ, the size of error to be expected; 1 where it is the same for all rows."""
        if not self.difficulty:
            return np.ones(outputs.values.shape[1:])
        spreads = outputs.spread_overall() if self.calibration == "random" else outputs.spread_within()
        features = self.difficulty_features(spreads, similarities)
        return np.stack([each(features[:, column]) for column, each in enumerate(self.difficulty)], axis=1)

    def radius(self, column: int, coverage: float) -> float:
        """Half the width of the interval of a target, divided by σ; NaN with too few rows."""
        found = interval_radius(self.scores[:, column], coverage)
        return found if math.isfinite(found) else math.nan

    @property
    def scores(self) -> np.ndarray:
        """(validation row, target): error / σ; NaN where the target is missing."""
        return self.errors if self.sigma is None else self.errors / self.sigma

    def ensemble_std(self, members: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray | None:
        """The standard deviation over (member, row) numbers, for all rows of the table; None where there is one."""
        return spread(members.std(axis=0, ddof=1), rows, num_rows) if len(members) > 1 else None

    def interval(self, mean: np.ndarray, column: int, coverage: float, sigma: np.ndarray) -> tuple[np.ndarray, ...]:
        """Mean, standard deviation and interval out of the predictions of one target, and the expected errors (row)."""
        scores = self.scores[:, column]
        known = scores[~np.isnan(scores)]
        std = sigma * (math.sqrt((known**2).mean()) if len(known) else math.nan)
        half = sigma * self.radius(column, coverage)
        low, high = mean - half, mean + half
        if self.value_bounds is not None:
            low, high = low.clip(*self.value_bounds), high.clip(*self.value_bounds)
        return mean, std, low, high

    def interval_note(self, coverage: float | None = None) -> str:
        """Why intervals stay empty, and what to do; nothing where they do not, or where targets are classes."""
        names, counts = self.columns.target_columns, (~np.isnan(self.errors)).sum(axis=0).tolist()
        known = dict(zip(names, counts, strict=True)) if self.task_type == "regression" else {}
        return empty_intervals(known, self.coverage if coverage is None else coverage)

    def save_parts(self, folder: RunFolder) -> dict[str, torch.Tensor]:
        """The errors on the validation rows, and the sizes that were to be expected."""
        parts = {"errors": self.errors} | ({} if self.sigma is None else {"sigma": self.sigma})
        return {f"validation.{name}": torch.from_numpy(np.ascontiguousarray(part)) for name, part in parts.items()}

    @classmethod
    def load_parts(
        cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, torch.Tensor]
    ) -> dict[str, Any]:
        """The same."""
        return {"errors": read_errors(tensors), "sigma": read_sigma(tensors)}

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        names, scale = self.columns.target_columns, self.target_scale
        Intervals(self.errors, self.sigma).check(names, num_features=1 + self.has_similarities)
        is_regression = self.task_type == "regression"
        holds = {
            "target_columns": len(names) >= 1,
            "coverage": 0 < self.coverage < 1,
            "difficulty": len(self.difficulty) in (0, len(names))
            and all(len(each.slopes) in (0, 1 + self.has_similarities) for each in self.difficulty)
            and all(math.isfinite(number) for each in self.difficulty for number in (each.constant, *each.slopes)),
            "sizes.num_outputs": self.model_outputs == self.num_outputs,
            "classes": self._has_classes(),
            "scale": scale is not None and len(scale.mean) == len(names) if is_regression else scale is None,
        }
        for name, fits in holds.items():
            if not fits:
                raise DataError(f"{name} does not fit the targets {', '.join(names)[:60]}.")

    def _has_classes(self) -> bool:
        """Whether each target has its classes, two or more with different names; none where targets are numbers."""
        if self.task_type == "regression":
            return not any(self.classes.values())
        fits = set(self.classes) == set(self.columns.target_columns)
        for names in self.classes.values():
            is_count = len(names) == 2 if self.task_type == "classification" else len(names) >= 2
            fits = fits and is_count and len(set(map(str, names))) == len(names)
        return fits
