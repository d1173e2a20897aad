"""`FittedTable`: a trained ensemble over the rows of a table, its predictions, their spread and their intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from edgewise.errors import DataError, SettingError
from edgewise.learn.companions.stack import NETWORK_COPIES, network_of, shares_of
from edgewise.learn.fitted import PART, Fitted
from edgewise.learn.intervals import Intervals, difficulty_features
from edgewise.learn.outputs import EnsemblePredictions, Prediction, Targets, scatter_rows
from edgewise.learn.progress import counted
from edgewise.learn.tables.labels import Label
from edgewise.learn.tables.rows import Data
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.training.conformal import check_coverage, empty_intervals
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import BatchLike

ROWS_PER_BATCH = 512
"""Rows that are computed together where no gradient is wanted."""


Rows_contra = TypeVar("Rows_contra", bound=Data, contravariant=True)


class Batches(Protocol):
    """The rows of a table in the units of a model."""

    @property
    def batch(self) -> Callable[[np.ndarray], BatchLike]:
        """Makes a batch of rows to predict."""

    @property
    def targets(self) -> np.ndarray:
        """`(row, target)`, in model units; class numbers for classes."""

    @property
    def precomputed_model(self) -> "Callable[[nn.Module, np.ndarray, str], PrecomputedModel] | None":
        """From a network, rows and a device to what predicts these rows in place of the network; None where a network
        predicts batch after batch."""


class PrecomputedModel(Protocol):
    """What predicts rows in place of a network, at once; it reads no batch."""

    def __call__(self, batch: None, /) -> Tensor:
        """As the network, for all rows."""

    def fingerprint(self, batch: None, /) -> Tensor:
        """The learned vectors of all rows."""


class TableEncoder(Protocol[Rows_contra]):
    """The preprocessing of a table, fitted on the training rows."""

    def new_network(self, output: Targets) -> nn.Module:
        """A network before its first step, drawn from torch's generator."""

    def batches(self, data: Rows_contra, scale: TargetScaler | None) -> Batches:
        """The rows of a table as the network takes them."""

    def statuses(self, data: Rows_contra) -> list[str]:
        """The status of each row: `ok`, or a remark on its prediction."""

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""

    @property
    def rows_per_batch(self) -> int:
        """Rows that are computed together where no gradient is wanted."""


@runtime_checkable
class ComparesRows(Protocol[Rows_contra]):
    """An encoder that knows how similar rows are to those of the training."""

    def similarities(
        self, data: Rows_contra, rows: np.ndarray, reference_rows: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """The similarity of each row to the nearest training row, from 0 to 1; `similarity` compares whole rows."""

    def unseen_parts(self, data: Rows_contra, rows: np.ndarray) -> list[str] | None:
        """For each row the parts that no training row has, in words; None where that is unknown."""


T = TypeVar("T", bound=TableEncoder[Any])


@dataclass(eq=False, kw_only=True)
class FittedTable(Fitted[T, Targets]):
    """A trained ensemble over the rows of a table."""

    intervals: Intervals = field(metadata=PART)
    """How far predictions may be off."""

    prefix: str = "member_{}."

    def __post_init__(self) -> None:
        self.intervals.check(self.output.names, num_features=1 + isinstance(self.encoder, ComparesRows))

    @property
    def columns(self) -> Any:
        """The columns of the training."""
        return self.output.columns

    @property
    def classes(self) -> dict[str, tuple[Label, ...]]:
        """The names of the classes of each target."""
        return self.output.classes

    @property
    def task_type(self) -> str:
        """regression, classification or multiclass."""
        return self.output.task_type

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; 0 for numbers."""
        return self.output.num_classes

    @property
    def coverage(self) -> float:
        """The coverage of intervals where no other is given."""
        return self.intervals.coverage

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the network; None for classes."""
        return self.output.scale

    @property
    def rows_per_batch(self) -> int:
        """Rows that are computed together where no gradient is wanted."""
        return self.encoder.rows_per_batch

    @property
    def shares(self) -> dict[str, float]:
        """How much the network and each companion count in a prediction; their sum is 1."""
        return shares_of(self.companions, self.num_variants)

    @property
    def num_variants(self) -> int:
        """How many predictions a member averages: one of each variant of its head, one of each copy of a companion."""
        head = getattr(network_of(self.model), "head", None)
        return getattr(head, "num_variants", NETWORK_COPIES) + sum(self.companions.values())

    def batches(self, data: Data) -> Batches:
        """The rows of a table as the network takes them."""
        return self.encoder.batches(data, self.output.scale)

    def statuses(self, data: Data) -> list[str]:
        """The status of each row."""
        return self.encoder.statuses(data)

    def outputs(self, data: Data, rows: np.ndarray, device: str = "cpu") -> np.ndarray:
        """The outputs of every member: `(member, row, output)`, values in the target's unit or probabilities."""
        return self.ensemble_predictions(data, rows, device).values

    def ensemble_predictions(self, data: Data, rows: np.ndarray, device: str = "cpu") -> EnsemblePredictions:
        """The predictions of every member and their standard deviation over its variants."""
        parts = self._of_members(data, rows, device, lambda net, batch: self.output.variants(net(batch).double().cpu()))
        empty = np.zeros((0, self.num_variants, self.output.num_outputs))
        return EnsemblePredictions.of(
            [np.concatenate(batches) if batches else empty for batches in parts], self.companions
        )

    def fingerprint(self, data: Data, device: str = "cpu") -> np.ndarray:
        """`(row, dim)`: the learned vectors of all members side by side; NaN where a row cannot be predicted."""
        rows = np.flatnonzero(data.rows.usable)
        if not len(rows):
            raise DataError(f"{data.rows.source}: no row can be read; the first: {data.rows.status[0]}.")
        parts = self._of_members(data, rows, device, lambda net, batch: net.fingerprint(batch).cpu())
        vectors = np.concatenate([np.concatenate(batches) for batches in parts], axis=1)
        return scatter_rows(vectors.astype(np.float32), rows, len(data.rows))

    def _of_members(
        self, data: Data, rows: np.ndarray, device: str, compute: Callable[..., Tensor]
    ) -> list[list[np.ndarray]]:
        """What `compute` gives for each member and batch."""
        batches, size = self.batches(data), self.rows_per_batch
        parts: list[list[np.ndarray]] = [[] for _ in self.members]
        with torch.no_grad(), cpu_threads(self.threads):
            for member, computed in zip(self.members, parts, strict=True):
                member.to(device).eval()
                if batches.precomputed_model is not None:
                    computed.append(compute(batches.precomputed_model(member, rows, device), None).numpy())
                    member.to("cpu")
                    continue
                for start in counted(range(0, len(rows), size), "predicting"):
                    batch = batches.batch(rows[start : start + size]).to(device)
                    computed.append(compute(member, batch).numpy())
                member.to("cpu")
        return parts

    def predict(
        self,
        data: Data,
        *,
        rows: np.ndarray | None = None,
        coverage: float | None = None,
        device: str = "cpu",
        similarities: Mapping[str, np.ndarray] | None = None,
    ) -> list[Prediction]:
        """The predictions of the ensemble for each target, for all rows of a table; NaN where there is none.

        Args:
            data: any table with the columns of the training.
            rows: the rows to predict; all usable ones where it is None.
            coverage: the promised probability that a value lies within low and high.
            device: where to compute.
            similarities: of these rows to the training rows; None computes them where intervals need them.
        """
        rows = np.flatnonzero(data.rows.usable) if rows is None else rows
        return self.predict_rows(
            data,
            rows,
            coverage=coverage,
            device=device,
            similarities=similarities,
            positions=rows,
            num_rows=len(data.rows),
        )

    def predict_rows(
        self,
        data: Data,
        rows: np.ndarray,
        *,
        coverage: float | None = None,
        device: str = "cpu",
        similarities: Mapping[str, np.ndarray] | None = None,
        positions: np.ndarray | None = None,
        num_rows: int | None = None,
    ) -> list[Prediction]:
        """One `Prediction` for each target, of some rows; arguments as for `predict`.

        Args:
            positions: of the rows in the result, which has NaN elsewhere; None keeps `rows` alone, in their order.
            num_rows: the length of the result, given with `positions`.
        """
        if similarities is None and self.intervals.difficulty:
            similarities = self.similarities(data, rows)
        outputs = self.ensemble_predictions(data, rows, device)
        assert (positions is None) == (num_rows is None)
        if positions is None or num_rows is None:
            positions, num_rows = np.arange(len(rows)), len(rows)
        return self.to_predictions(outputs, positions, num_rows, similarities or {}, coverage)

    def to_predictions(
        self,
        outputs: EnsemblePredictions,
        positions: np.ndarray,
        num_rows: int,
        similarities: Mapping[str, np.ndarray],
        coverage: float | None = None,
    ) -> list[Prediction]:
        """The predictions of the ensemble for each target, from the outputs of every member.

        Args:
            outputs: as `ensemble_predictions` gives them.
            positions: where their rows stand in the result, which has NaN elsewhere.
            num_rows: the length of the result.
            similarities: of these rows to the training rows.
            coverage: the promised probability that a value lies within low and high.
        """
        if self.task_type == "regression":
            sigma = self.expected_errors(outputs, similarities)
            coverage = self.intervals.coverage if coverage is None else coverage
            predictions = [
                self._number(outputs.values[..., column], column, of_target, positions, num_rows, coverage)
                for column, of_target in enumerate(sigma.T)
            ]
        else:
            by_target = self.output.by_target(outputs.values)
            predictions = [self._class(probabilities, positions, num_rows) for probabilities in by_target]

        parts_of_target: list[dict[str, np.ndarray]] = [{} for _ in predictions]
        for name, part in outputs.parts.items():
            for parts, values in zip(parts_of_target, self.output.by_target(part), strict=True):
                parts[name] = scatter_rows(values, positions, num_rows)
        return [
            replace(prediction, parts=parts) for prediction, parts in zip(predictions, parts_of_target, strict=True)
        ]

    def _number(
        self, values: np.ndarray, column: int, sigma: np.ndarray, positions: np.ndarray, num_rows: int, coverage: float
    ) -> Prediction:
        """The prediction of one target out of the values `(member, row)`."""
        mean = values.mean(axis=0)
        std, low, high = self.intervals.interval(mean, column, coverage, sigma)
        if self.output.bounds:
            low, high = (np.clip(end, self.output.bounds[0], self.output.bounds[1]) for end in (low, high))
        parts = mean, std, low, high, sigma
        value, std, low, high, sigma = (scatter_rows(part, positions, num_rows) for part in parts)
        return Prediction(value, std, low, high, None, sigma, self._ensemble_std(values, positions, num_rows))

    def _class(self, probabilities: np.ndarray, positions: np.ndarray, num_rows: int) -> Prediction:
        """The prediction of one target out of the probabilities `(member, row, class)`."""
        mean = probabilities.mean(axis=0)
        largest, label = mean.max(axis=1, initial=0), mean.argmax(axis=1)
        members = np.take_along_axis(probabilities, label[None, :, None], axis=2)[..., 0]
        std, nothing = np.sqrt(largest * (1 - largest)), np.full(num_rows, np.nan)
        value, std, mean = (scatter_rows(part, positions, num_rows) for part in (label.astype(float), std, mean))
        ensemble_std = self._ensemble_std(members, positions, num_rows)
        return Prediction(value, std, nothing, nothing, mean, ensemble_std=ensemble_std)

    def _ensemble_std(self, members: np.ndarray, positions: np.ndarray, num_rows: int) -> np.ndarray | None:
        """The standard deviation over `(member, row)` numbers, for all rows of the table; None for a single
        member."""
        return scatter_rows(members.std(axis=0, ddof=1), positions, num_rows) if len(members) > 1 else None

    def difficulty_features(self, spreads: np.ndarray, similarities: Mapping[str, np.ndarray]) -> np.ndarray:
        """`(row, target, feature)`: what grows with the difficulty of rows."""
        assert self.output.scale is not None
        return difficulty_features(spreads, np.array(self.output.scale.std), similarities)

    def expected_errors(self, outputs: EnsemblePredictions, similarities: Mapping[str, np.ndarray]) -> np.ndarray:
        """`(row, target)`: σ, the size of error to be expected; 1 where it is the same for all rows."""
        if not self.intervals.difficulty:
            return np.ones(outputs.values.shape[1:])
        is_random = self.intervals.calibration == "random"
        # Rows of groups are judged by the members that left them out, often one, of which no spread is known.
        spreads = outputs.total_std() if is_random else outputs.mean_std()
        return self.intervals.expected_errors(self.difficulty_features(spreads, similarities))

    def similarities(
        self, data: Data, rows: np.ndarray, reference_rows: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """How similar some rows are to the nearest training row, from 0 to 1, by the name of the column; none where
        rows cannot be compared.

        Args:
            data: any table with the columns of the training.
            rows: usable rows of it.
            reference_rows: rows of the table to compare with; None compares with the training rows.
        """
        return self.encoder.similarities(data, rows, reference_rows) if isinstance(self.encoder, ComparesRows) else {}

    def more_columns(
        self, data: Data, rows: np.ndarray, similarities: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray | list[str]]:
        """Further columns beside the predictions of some rows, for all rows of the table."""
        columns: dict[str, np.ndarray | list[str]] = {
            name: scatter_rows(values, rows, len(data.rows)) for name, values in similarities.items()
        }
        if isinstance(self.encoder, ComparesRows) and (texts := self.encoder.unseen_parts(data, rows)) is not None:
            text_of_row = dict(zip(rows.tolist(), texts, strict=True))
            columns["new"] = [text_of_row.get(row, "") for row in range(len(data.rows))]
        return columns

    def check_coverage(self, coverage: float | None) -> None:
        """Raise SettingError unless the intervals of a prediction can have a coverage; None is the usual one."""
        if coverage is None:
            return
        check_coverage(coverage)
        if self.task_type != "regression":
            raise SettingError("--coverage goes with numbers, but the model predicts classes, which have no intervals.")

    def interval_note(self, coverage: float | None = None) -> str:
        """Why intervals stay empty, and what to do; nothing where they do not, or where targets are classes."""
        counts = (~np.isnan(self.intervals.errors)).sum(axis=0).tolist()
        of_targets = dict(zip(self.output.names, counts, strict=True)) if self.task_type == "regression" else {}
        return empty_intervals(of_targets, self.intervals.coverage if coverage is None else coverage)


def load_table(folder: RunFolder, format: str, encoder: type[T]) -> FittedTable[T]:
    """The model of a run folder over the rows of a table.

    Args:
        folder: where.
        format: how model.json calls the task.
        encoder: the class of its encoder.

    Raises:
        RunFolderError: it is damaged, of another format, or newer than this version.
    """
    return FittedTable[T].load(folder, format, encoder=encoder, output=Targets, intervals=Intervals)
