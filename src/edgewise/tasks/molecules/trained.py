"""A trained ensemble over molecules, with all it needs to read a new table: scales, sizes, the rows it knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from torch import Tensor

from edgewise.data.molecules.limits import MoleculeLimits
from edgewise.data.molecules.molecule import GLOBAL_FEATURE_NAMES, similarity
from edgewise.data.molecules.store import MoleculeStore
from edgewise.data.molecules.table import MoleculeTable
from edgewise.data.scale import ConditionScaler, FeatureScaler, TargetScaler
from edgewise.errors import DataError, RunFolderError
from edgewise.models.graph_settings import PropertySettings, PropertySizes
from edgewise.models.property import PropertyModel, planned
from edgewise.records import Batch
from edgewise.tasks.molecules.settings import PropertyRunSettings
from edgewise.tasks.trained import FittedTable, spread
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class Scales:
    """The scales learned on training rows."""

    target: TargetScaler | None
    """Of the targets; None for classes."""
    feature: FeatureScaler
    """Of the whole-molecule descriptors."""
    condition: ConditionScaler
    """Of the row's own numbers."""


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
    settings: PropertySettings
    """Those of the models that read the batches."""

    @classmethod
    def of(cls, table: MoleculeTable, scales: Scales, settings: PropertySettings) -> Self:
        """The table, scaled, with the places of the atoms where the model looks at them."""
        store = table.store.with_coordinates() if settings.needs_coordinates else table.store
        features = scales.feature.transform(store.global_features.numpy())
        targets = table.targets
        if scales.target is not None and targets.shape[1]:
            targets = scales.target.transform(targets)
        return cls(
            store.with_global_features(features),
            table.graph_of_row,
            scales.condition.transform(table.conditions).astype(np.float32),
            targets.astype(np.float32),
            table.weights.astype(np.float32),
            settings,
        )

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows to predict."""
        return planned(self.store.batch(self.graph_of_row[rows], self.conditions[rows]), self.settings)

    def training_batch(self, rows: np.ndarray) -> Batch:
        """Rows to learn from."""
        graphs, known = self.graph_of_row[rows], (self.targets[rows], self.weights[rows])
        return planned(self.store.batch(graphs, self.conditions[rows], *known), self.settings)


@dataclass(kw_only=True)
class FittedProperty(FittedTable):
    """A trained ensemble over molecules."""

    FORMAT = PropertyRunSettings.FORMAT

    sizes: PropertySizes
    """The sizes of the model."""
    settings: PropertySettings
    """The settings of the model."""
    scales: Scales
    """The scales learned on the training rows."""
    known_rows: list[tuple[str, ...]]
    """The molecules of each distinct training row, canonical."""
    descriptors: list[str]
    """The names of RDKit's descriptors that the model takes."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one: those of the training, unless changed."""

    @property
    def with_descriptors(self) -> bool:
        """Whether the model takes RDKit's descriptors of the whole molecule."""
        return self.sizes.num_global_features > 0

    @property
    def are_fractions(self) -> bool:
        """Whether every target lies between 0 and 1, and every prediction must."""
        return self.sizes.low is not None

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scales.target

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> PropertyModel:
        """A model before its first step, drawn from torch's generator."""
        return PropertyModel(self.sizes, self.settings)

    def batches(self, table: MoleculeTable) -> TableBatches:
        """The rows of a table as the models take them."""
        return TableBatches.of(table, self.scales, self.settings)

    def similarity(self, table: MoleculeTable, rows: np.ndarray | None = None) -> np.ndarray:
        """(row): Tanimoto similarity to the nearest training row, from 0 to 1; NaN where a row cannot be predicted."""
        rows = np.flatnonzero(table.usable) if rows is None else rows
        return spread(similarity(molecules_of(table, rows), self.known_rows), rows, table.num_rows)

    def more_columns(self, table: MoleculeTable, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The similarity to the nearest training row."""
        return {"similarity": self.similarity(table, rows)}

    def check(self) -> None:
        """Raise DataError unless the fields fit each other, and this RDKit."""
        sizes, scales = self.sizes, self.scales
        for name, size, found in (
            ("num_global_features", sizes.num_global_features, len(scales.feature.center)),
            ("num_conditions", sizes.num_conditions, scales.condition.num_features),
            ("num_components", sizes.num_components, len(self.columns.smiles_columns)),
        ):
            if size != found:
                raise DataError(f"sizes.{name} is {size}, but the other fields have {found}.")
        super().check()

    @classmethod
    def load_parts(cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
        """The errors; raises RunFolderError where the descriptors are those of another release of RDKit."""
        if (names := values["descriptors"]) and names != list(GLOBAL_FEATURE_NAMES):
            other = sorted(set(names) ^ set(GLOBAL_FEATURE_NAMES)) or ["their order"]
            raise RunFolderError(
                f"{folder.path / 'model.json'} was trained with another release of RDKit, whose descriptors differ in "
                f"{', '.join(other[:3])}; install that release, or train again."
            )
        return super().load_parts(folder, values, tensors)


def molecules_of(table: MoleculeTable, rows: np.ndarray) -> list[tuple[str, ...]]:
    """The canonical molecules of each row."""
    return [tuple(table.store.canonical[graph] for graph in graphs) for graphs in table.graph_of_row[rows]]
