"""What training rows of molecules fixed: scales, sizes, descriptors, and the rows that new ones are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TypeAlias

import numpy as np

from edgewise.errors import DataError, RunFolderError, plural
from edgewise.graph import Batch
from edgewise.learn.companions.gaussian_process import Limits
from edgewise.learn.companions.substructures import RowSizes, with_substructures
from edgewise.learn.files import release_memory
from edgewise.learn.fitted_table import ROWS_PER_BATCH, FittedTable
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.property import PropertyModel, planned
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.molecules.conformer import conformer_status
from edgewise.learn.readers.molecules.data import MoleculeData
from edgewise.learn.readers.molecules.descriptor import AVAILABLE
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.similarity import KnownMolecules
from edgewise.learn.settings import Values
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.impute import missing_by_row, with_filled
from edgewise.learn.tables.scale import ColumnScaler, DescriptorScaler, TargetScaler
from edgewise.learn.tables.split import evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.molecules.known import KnownSample
from edgewise.learn.training.folder import RunFolder

MAX_KNOWN = 2**16
"""Different training rows that new ones are compared with, and molecules that the spread of descriptors is learned
from; evenly chosen where there are more."""
KNOWN_IN_SAMPLE, KNOWN_WITH_CONFORMERS = 1024, 64
"""Training rows whose predictions help to explain others."""
MOLECULES_PER_BATCH = 128
"""Molecules that are computed together where no gradient is wanted: the arrays of more leave the caches, and the
system hands out their memory page by page."""
ROWS_IN_MEMORY = 2**13
"""Rows whose SMILES, or substructures, are in memory at the same time."""


def check_descriptors(folder: RunFolder, values: Values) -> list[str]:
    """The descriptors of a run; raises RunFolderError where this RDKit does not have them."""
    if unknown := sorted(set(values["descriptors"]) - AVAILABLE):
        raise RunFolderError(
            f"{folder.path / 'model.json'} was trained with another release of RDKit, which has the descriptors "
            f"{', '.join(unknown[:3])}; install that release, or train again."
        )
    names: list[str] = values["descriptors"]
    return names


@dataclass(frozen=True)
class MoleculeScales:
    """The scales learned on training rows."""

    feature: DescriptorScaler
    """Scales the descriptors of the whole molecule."""
    condition: ColumnScaler
    """Scales the numbers of the row."""


@dataclass(frozen=True)
class MoleculesEncoder:
    """Molecules and conditions as numbers."""

    columns: Columns
    """The columns of the training."""
    sizes: PropertySizes
    """The sizes of the network and of what stands beside it."""
    settings: PropertySettings
    """The settings of the network."""
    scales: MoleculeScales
    """The scales learned on the training rows."""
    known_rows: list[tuple[str, ...]]
    """The molecules of each distinct training row, canonical; of many rows some, evenly chosen."""
    descriptors: list[str] = field(metadata={"read": check_descriptors})
    """The names of RDKit's descriptors that the network takes; none where it takes none."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one: those of the training, unless changed."""
    num_known: int | None = None
    """How many distinct training rows there were; None where `known_rows` has all of them."""
    num_substructures: int = 0
    """Kinds of substructures that are counted in molecules for companions of the network; 0 for none."""

    def __getstate__(self) -> dict[str, object]:
        """Without the cached properties, which are computed again: the functions of a table cannot be pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def rows_per_batch(self) -> int:
        """Rows that are computed together where no gradient is wanted; many where they may share molecules."""
        return ROWS_PER_BATCH if self.sizes.num_conditions else MOLECULES_PER_BATCH

    def new_network(self, output: Targets) -> PropertyModel:
        """Message passing or attention over the atoms, and a head over molecules and conditions."""
        return PropertyModel(self.sizes, self.settings)

    def batches(self, data: MoleculeData, scale: TargetScaler | None) -> RowBatches:
        """The rows of a table as the models take them, with the coordinates of atoms where the model reads them."""
        store = data.store.with_coordinates() if self.settings.needs_coordinates else data.store
        store = store.with_scale(self.scales.feature.transform)
        conditions = self.scales.condition.transform(data.conditions).astype(np.float32)

        def batch(rows: np.ndarray) -> Batch:
            planned_rows = planned(store.batch(data.graph_of_row[rows], conditions[rows]), self.settings)
            count = self.num_substructures
            return with_substructures(planned_rows, count) if count else planned_rows

        return RowBatches.of(data.rows, scale, batch)

    @property
    def row_sizes(self) -> RowSizes:
        """The sizes of what companions read of a row."""
        sizes = self.sizes
        return RowSizes(sizes.num_components, sizes.num_global_features, self.num_substructures, sizes.num_conditions)

    @property
    def limits_of_outputs(self) -> Limits | None:
        """The smallest and the largest value of each output, in the units of the network."""
        low, high = self.sizes.low, self.sizes.high
        return None if low is None or high is None else (low, high)

    @cached_property
    def known_sample(self) -> KnownSample:
        """Some of the training rows, whose predictions say what an atom usually adds; fewer where each needs a
        conformer."""
        count = KNOWN_WITH_CONFORMERS if self.settings.needs_coordinates else KNOWN_IN_SAMPLE
        numbers = evenly_spaced(np.arange(len(self.known_rows)), count).tolist()
        return KnownSample.of([self.known_rows[number] for number in numbers], self.descriptors, self.limits)

    def similarities(
        self, data: MoleculeData, rows: np.ndarray, reference_rows: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Tanimoto similarity to the nearest training row, and of each molecule of several to the nearest in its
        column."""
        to_known = self.known_molecules
        if reference_rows is not None:
            distinct = evenly_spaced(distinct_rows(data, reference_rows), MAX_KNOWN)
            to_known = self._known(molecules_of(data, distinct))
        parts = [rows[start : start + ROWS_IN_MEMORY] for start in range(0, len(rows), ROWS_IN_MEMORY)] or [rows]
        by_part = [self._similarities(molecules_of(data, part), *to_known) for part in parts]
        return {name: np.concatenate([part[name] for part in by_part]) for name in by_part[0]}

    def similarities_of(self, molecules: Sequence[tuple[str, ...]]) -> dict[str, np.ndarray]:
        """The same of rows that are canonical molecules."""
        return self._similarities(molecules, *self.known_molecules)

    def _similarities(
        self, molecules: Sequence[tuple[str, ...]], whole: KnownMolecules, columns: Mapping[str, KnownMolecules]
    ) -> dict[str, np.ndarray]:
        similarities = {"similarity": whole.nearest(molecules)[0]}
        for number, (name, column) in enumerate(columns.items()):
            similarities[f"similarity_{name}"] = column.nearest([row[number] for row in molecules])[0]
        return similarities

    @cached_property
    def known_molecules(self) -> tuple[KnownMolecules, dict[str, KnownMolecules]]:
        """The training rows, and where a row has several molecules those of each column, to be compared with others."""
        return self._known(self.known_rows)

    def _known(self, rows: Sequence[tuple[str, ...]]) -> tuple[KnownMolecules, dict[str, KnownMolecules]]:
        names = self.columns.smiles_columns if len(self.columns.smiles_columns) > 1 else ()
        return KnownMolecules(rows), {
            name: KnownMolecules([row[number] for row in rows]) for number, name in enumerate(names)
        }

    def statuses(self, data: MoleculeData) -> list[str]:
        """The status of each row; where the model reads coordinates, which molecules lack them."""
        statuses = list(data.rows.status)
        if self.settings.needs_coordinates:
            conformers, names = data.store.conformers, data.rows.columns.smiles_columns
            statuses = [
                conformer_status([conformers[graph].how for graph in graphs], names) if status == OK else status
                for status, graphs in zip(statuses, data.graph_of_row.tolist(), strict=True)
            ]
        return self.with_filled(statuses, data.conditions)

    def with_filled(self, statuses: Sequence[str], conditions: np.ndarray) -> list[str]:
        """The status of each row, with the conditions that are missing and that the model reads."""
        names = self.scales.condition.names_if_read([repr(name) for name in self.columns.descriptors_columns])
        return with_filled(statuses, missing_by_row([(conditions, np.arange(len(statuses)), names)]))

    def unseen_parts(self, data: MoleculeData, rows: np.ndarray) -> list[str] | None:
        """For each row which of its parts are new, see `unseen_parts_of`; None for one part, or where only some of the
        training rows are known."""
        if len(self.columns.inputs) < 2 or self.num_known is not None:
            return None
        return self.unseen_parts_of(molecules_of(data, rows), data.conditions[rows])

    def unseen_parts_of(self, molecules: Sequence[tuple[str, ...]], conditions: np.ndarray) -> list[str]:
        """For each row the columns whose molecule no training row has there, or whose number lies beyond those of all
        training rows; `combination` where each molecule is known, but not all of them together."""
        names, scaler = self.columns.smiles_columns, self.scales.condition
        known_of_column = [set(column) for column in zip(*self.known_rows, strict=True)]
        combinations = set(self.known_rows)
        beyond = (conditions < np.array(scaler.smallest)) | (conditions > np.array(scaler.largest))
        texts = []
        for row, is_beyond in zip(molecules, beyond, strict=True):
            columns = zip(names, row, known_of_column, strict=True)
            new = [name for name, molecule, known_molecules in columns if molecule not in known_molecules]
            if not new and row not in combinations:
                new.append("combination")
            new += [name for name, far in zip(self.columns.descriptors_columns, is_beyond, strict=True) if far]
            texts.append(", ".join(new))
        return texts

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other, and this RDKit."""
        sizes, scales, columns = self.sizes, self.scales, self.columns
        output.check_size(sizes.num_outputs)
        for name, size, expected in (
            ("sizes.num_global_features", sizes.num_global_features, len(scales.feature.center)),
            ("sizes.num_global_features", sizes.num_global_features, len(set(self.descriptors))),
            ("sizes.num_global_features", sizes.num_global_features, len(self.descriptors)),
            ("sizes.num_conditions", sizes.num_conditions, scales.condition.num_features),
            ("sizes.num_components", sizes.num_components, len(columns.smiles_columns)),
            ("descriptors_columns", len(columns.descriptors_columns), len(scales.condition.mean)),
        ):
            if size != expected:
                raise DataError(f"{name} is {size}, but the other fields have {expected}.")
        if any(len(row) != sizes.num_components for row in self.known_rows):
            raise DataError(f"known_rows has a row that is not of {plural(sizes.num_components, 'molecule')}.")
        ends = [len(end) for end in (sizes.low, sizes.high) if end is not None]
        if self.num_substructures < 0:
            raise DataError(f"num_substructures is {self.num_substructures}, expected 0 or more.")
        if ends not in ([], [output.num_outputs] * 2) or bool(output.bounds) != bool(ends):
            raise DataError(f"sizes.low, sizes.high and bounds do not fit {plural(output.num_outputs, 'output')}.")


FittedMolecules: TypeAlias = FittedTable[MoleculesEncoder]
"""A trained ensemble over molecules."""


def distinct_rows(data: MoleculeData, rows: np.ndarray) -> np.ndarray:
    """The first of the rows that hold the same molecules."""
    keys = data.rows.keys(rows)
    return rows[np.sort(np.unique(keys, return_index=True)[1])]


def molecules_of(data: MoleculeData, rows: np.ndarray) -> list[tuple[str, ...]]:
    """The canonical molecules of each row."""
    molecules = [tuple(data.store.canonical[graph] for graph in graphs) for graphs in data.graph_of_row[rows].tolist()]
    release_memory(data.rows.cells.mapped)
    return molecules
