"""A trained model with all it needs to read a new table: columns, scales, classes, errors on validation rows."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from edgewise.data.molecule import GLOBAL_FEATURE_NAMES, similarity
from edgewise.data.scale import ConditionScaler, FeatureScaler, TargetScaler
from edgewise.data.store import MoleculeStore
from edgewise.data.table import Columns, MoleculeTable
from edgewise.errors import DataError, RunFolderError
from edgewise.models.property import PropertyModel
from edgewise.models.settings import PropertySettings, PropertySizes
from edgewise.records import Batch, Prediction
from edgewise.train.conformal import interval_radius
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder, write_bytes

FORMAT = "edgewise property model"
FORMAT_VERSION = 1
ROWS_A_BATCH = 512


@dataclass(frozen=True)
class Scales:
    """The scales learned on training rows."""

    target: TargetScaler | None
    """Of the targets; None for classes."""
    feature: FeatureScaler
    """Of the whole-molecule descriptors."""
    condition: ConditionScaler
    """Of the row's own numbers."""

    def to_json(self) -> dict[str, Any]:
        """The scales as plain numbers."""
        named = {"target": self.target, "feature": self.feature, "condition": self.condition}
        return {name: None if scale is None else json.loads(scale.to_json()) for name, scale in named.items()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The scales that `to_json` wrote."""
        target = content["target"]
        return cls(
            None if target is None else TargetScaler.from_json(json.dumps(target)),
            FeatureScaler.from_json(json.dumps(content["feature"])),
            ConditionScaler.from_json(json.dumps(content["condition"])),
        )


@dataclass(frozen=True)
class TableBatches:
    """A table in the units of a model: makes batches of its rows."""

    store: MoleculeStore
    """The molecules with scaled descriptors."""
    graph_of_row: np.ndarray
    """(row, component)."""
    conditions: np.ndarray
    """(row, condition), scaled, float32."""
    targets: np.ndarray
    """(row, target), scaled, float32; class numbers for classes."""
    weights: np.ndarray
    """(row), float32."""

    @classmethod
    def of(cls, table: MoleculeTable, scales: Scales) -> Self:
        """The table, scaled."""
        features = scales.feature.transform(table.store.global_features.numpy())
        targets = table.targets
        if scales.target is not None and targets.shape[1]:
            targets = scales.target.transform(targets)
        return cls(
            table.store.with_global_features(features),
            table.graph_of_row,
            scales.condition.transform(table.conditions).astype(np.float32),
            targets.astype(np.float32),
            table.weights.astype(np.float32),
        )

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows to predict."""
        return self.store.batch(self.graph_of_row[rows], self.conditions[rows])

    def training_batch(self, rows: np.ndarray) -> Batch:
        """Rows to learn from."""
        return self.store.batch(self.graph_of_row[rows], self.conditions[rows], self.targets[rows], self.weights[rows])


@dataclass
class TrainedProperty:
    """A trained ensemble; `save` and `load` keep it in a run folder without pickle."""

    columns: Columns
    """The columns it was trained on, targets by name."""
    classes: dict[str, Any]
    """The names of the classes of each target; empty for regression."""
    sizes: PropertySizes
    """The sizes of the model."""
    settings: PropertySettings
    """The settings of the model."""
    scales: Scales
    """The scales learned on the training rows."""
    members: list[PropertyModel]
    """The models of the ensemble, in evaluation mode."""
    errors: np.ndarray
    """(validation row, target): prediction minus target, NaN where missing; of size 0 for classes."""
    known_rows: list[tuple[str, ...]]
    """The molecules of each distinct training row, canonical."""
    coverage: float = 0.9
    """The coverage of intervals that nobody asks to be otherwise."""
    threads: int = 1
    """CPU threads of a prediction; not saved. More make small models slower, see `TrainSettings.threads`."""

    @property
    def task_type(self) -> str:
        """regression, classification or multiclass."""
        return self.columns.task_type

    @property
    def with_descriptors(self) -> bool:
        """Whether the model takes RDKit's descriptors of the whole molecule."""
        return self.sizes.num_global_features > 0

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; 0 for regression."""
        return tuple(len(self.classes.get(name, ())) for name in self.columns.target_columns)

    def outputs(self, table: MoleculeTable, rows: np.ndarray, device: str = "cpu") -> np.ndarray:
        """What every member says: (member, row, output), values in the target's unit or probabilities.

        Args:
            table: Any table with the columns of the training.
            rows: Usable rows of it.
            device: Where to compute.
        """
        batches = TableBatches.of(table, self.scales)
        found: list[list[np.ndarray]] = [[] for _ in self.members]
        with torch.no_grad(), cpu_threads(self.threads):
            for member, outputs in zip(self.members, found):
                member.to(device).eval()
                for start in range(0, len(rows), ROWS_A_BATCH):
                    batch = batches.batch(rows[start : start + ROWS_A_BATCH]).to(device)
                    outputs.append(self.finish(member(batch).double().cpu()).numpy())
                member.to("cpu")
        width = self.sizes.num_outputs
        empty = np.zeros((0, width))
        return np.stack([np.concatenate([empty, *outputs]) for outputs in found])

    def finish(self, output: torch.Tensor) -> torch.Tensor:
        """From model units to the target's unit, or logits to probabilities; members inside a model are averaged."""
        if output.ndim == 3:
            rows, members, _ = output.shape
            return self.finish(output.flatten(0, 1)).unflatten(0, (rows, members)).mean(dim=1)
        if self.task_type == "classification":
            return output.sigmoid()
        if self.task_type == "multiclass":
            return torch.cat([part.softmax(dim=1) for part in output.split(list(self.num_classes), dim=1)], dim=1)
        assert self.scales.target is not None
        values = torch.from_numpy(self.scales.target.inverse(output.numpy()))
        # Fractions: rounding may not carry them out of 0 to 1.
        return values if self.sizes.low is None else values.clamp(0, 1)

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
        table: MoleculeTable,
        *,
        rows: np.ndarray | None = None,
        coverage: float | None = None,
        device: str = "cpu",
    ) -> list[Prediction]:
        """What the ensemble says of each target.

        Args:
            table: Any table with the columns of the training.
            rows: The rows to predict; all usable ones where it is None. Predictions of the others are NaN.
            coverage: The promised probability that a value lies within low and high.
            device: Where to compute.
        """
        rows = np.flatnonzero(table.usable) if rows is None else rows
        outputs = self.outputs(table, rows, device)
        predictions = []
        for column, each in enumerate(self.by_target(outputs)):
            if self.task_type == "regression":
                found = self.interval(each, column, self.coverage if coverage is None else coverage)
                value, std, low, high = (spread(part, rows, table.num_rows) for part in found)
                predictions.append(Prediction(value, std, low, high, None))
                continue
            probabilities = each.mean(axis=0)
            largest = probabilities.max(axis=1, initial=0)
            nothing = np.full(table.num_rows, np.nan)
            predictions.append(
                Prediction(
                    spread(probabilities.argmax(axis=1).astype(float), rows, table.num_rows),
                    spread(np.sqrt(largest * (1 - largest)), rows, table.num_rows),
                    nothing,
                    nothing,
                    spread(probabilities, rows, table.num_rows),
                )
            )
        return predictions

    def interval(self, each: np.ndarray, column: int, coverage: float) -> tuple[np.ndarray, ...]:
        """Mean, spread and interval out of (member, row) predictions of one target."""
        mean = each.mean(axis=0)
        errors = self.errors[:, column]
        known = errors[~np.isnan(errors)]
        if len(each) > 1:
            std = each.std(axis=0, ddof=1)
        else:
            std = np.full(len(mean), math.sqrt((known**2).mean()) if len(known) else math.nan)
        radius = interval_radius(errors, coverage)
        radius = radius if math.isfinite(radius) else math.nan
        low, high = mean - radius, mean + radius
        if self.sizes.low is not None:
            # Fractions: what lies outside 0 to 1 cannot be.
            low, high = low.clip(0, 1), high.clip(0, 1)
        return mean, std, low, high

    def similarity(self, table: MoleculeTable, rows: np.ndarray | None = None) -> np.ndarray:
        """(row): Tanimoto similarity to the nearest training row, from 0 to 1; NaN where a row cannot be predicted."""
        rows = np.flatnonzero(table.usable) if rows is None else rows
        return spread(similarity(molecules_of(table, rows), self.known_rows), rows, table.num_rows)

    def fingerprint(self, table: MoleculeTable, device: str = "cpu") -> np.ndarray:
        """(row, dim): the learned vectors of all members side by side; NaN where a row cannot be predicted."""
        rows = np.flatnonzero(table.usable)
        if not len(rows):
            raise DataError(f"{table.source}: no row can be read; the first: {table.status[0]}.")
        batches = TableBatches.of(table, self.scales)
        parts = []
        with torch.no_grad(), cpu_threads(self.threads):
            for member in self.members:
                member.to(device).eval()
                found = [
                    member.fingerprint(batches.batch(rows[start : start + ROWS_A_BATCH]).to(device)).cpu().numpy()
                    for start in range(0, len(rows), ROWS_A_BATCH)
                ]
                member.to("cpu")
                parts.append(np.concatenate(found))
        return spread(np.concatenate(parts, axis=1).astype(np.float32), rows, table.num_rows)

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        tensors = {
            f"member_{number}.{name}": value.detach().cpu().contiguous()
            for number, member in enumerate(self.members)
            for name, value in member.state_dict().items()
        }
        tensors["validation.errors"] = torch.from_numpy(np.ascontiguousarray(self.errors))
        folder.path.mkdir(parents=True, exist_ok=True)
        write_bytes(folder.path / "model.safetensors", to_safetensors(tensors))
        folder.write_json(
            "model.json",
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "columns": dataclasses.asdict(self.columns),
                "classes": {name: list(names) for name, names in self.classes.items()},
                "sizes": dataclasses.asdict(self.sizes),
                "settings": {name: plain(value) for name, value in dataclasses.asdict(self.settings).items()},
                "scales": self.scales.to_json(),
                "ensemble_size": len(self.members),
                "coverage": self.coverage,
                "descriptors": list(GLOBAL_FEATURE_NAMES) if self.sizes.num_global_features else [],
                "known_rows": self.known_rows,
            },
        )

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged, or of another format or RDKit."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        path = folder.path / "model.json"
        if content["descriptors"] and content["descriptors"] != list(GLOBAL_FEATURE_NAMES):
            other = sorted(set(content["descriptors"]) ^ set(GLOBAL_FEATURE_NAMES)) or ["their order"]
            raise RunFolderError(
                f"{path} was trained with another release of RDKit, whose descriptors differ in "
                f"{', '.join(other[:3])}; install that release, or train again."
            )
        columns, sizes = (with_tuples(content[name]) for name in ("columns", "sizes"))
        settings: dict[str, Any] = {name: math.inf if v == "inf" else v for name, v in content["settings"].items()}
        try:
            tensors = load_file(folder.path / "model.safetensors")
            trained = cls(
                columns=Columns(**columns),
                classes={name: tuple(names) for name, names in content["classes"].items()},
                sizes=PropertySizes(**sizes),
                settings=PropertySettings(**settings),
                scales=Scales.from_json(content["scales"]),
                members=[],
                errors=tensors.pop("validation.errors").numpy(),
                known_rows=[tuple(row) for row in content["known_rows"]],
                coverage=content["coverage"],
            )
            for number in range(content["ensemble_size"]):
                trained.members.append(load_member(trained, tensors, f"member_{number}."))
        except (KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise RunFolderError(f"{folder.path} holds a damaged model: {error}") from error
        return trained


def load_member(trained: TrainedProperty, tensors: dict[str, torch.Tensor], prefix: str) -> PropertyModel:
    """One model of the ensemble with its saved weights."""
    with torch.random.fork_rng(devices=[]):
        member = PropertyModel(trained.sizes, trained.settings)
    own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    member.load_state_dict(own)
    return member.eval()


def spread(values: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray:
    """Values of some rows in a table of all rows; NaN elsewhere."""
    everywhere = np.full((num_rows, *values.shape[1:]), np.nan, dtype=values.dtype)
    everywhere[rows] = values
    return everywhere


def molecules_of(table: MoleculeTable, rows: np.ndarray) -> list[tuple[str, ...]]:
    """The canonical molecules of each row."""
    return [tuple(table.store.canonical[graph] for graph in graphs) for graphs in table.graph_of_row[rows]]


def prediction_columns(
    trained: TrainedProperty, predictions: Sequence[Prediction]
) -> dict[str, np.ndarray | list[str]]:
    """The columns that predictions add to a table, in order: value, probabilities of classes, spread, interval."""
    columns: dict[str, np.ndarray | list[str]] = {}
    for name, prediction in zip(trained.columns.target_columns, predictions, strict=True):
        if prediction.probabilities is None:
            columns[f"{name}_pred"] = prediction.value
        else:
            classes = trained.classes[name]
            columns[f"{name}_pred"] = ["" if np.isnan(v) else classes[int(v)] for v in prediction.value]
            for number, label in enumerate(classes):
                columns[f"{name}_prob_{label}"] = prediction.probabilities[:, number]
        columns[f"{name}_std"] = prediction.std
        if prediction.probabilities is None:
            columns[f"{name}_low"], columns[f"{name}_high"] = prediction.low, prediction.high
    return columns


def renamed(columns: Columns, smiles: Sequence[str] | None, descriptors: Sequence[str] | None) -> Columns:
    """The columns of a file to be predicted: no targets, and other names where they are given."""
    return replace(
        columns,
        smiles_columns=tuple(smiles or columns.smiles_columns),
        descriptors_columns=tuple(descriptors or columns.descriptors_columns),
        target_columns=(),
        ignore_columns=(),
        weight_column=None,
        splits_column=None,
        group_column=None,
    )


def with_tuples(content: dict[str, Any]) -> dict[str, Any]:
    """What JSON made lists of as tuples again."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def plain(value: Any) -> Any:
    """A setting as JSON can hold it: an infinite temperature is a word."""
    return "inf" if value == math.inf else value


def show(value: Any) -> Any:
    """A cell: numbers to seven digits, nothing where there is no number."""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.7g}"
    return value
