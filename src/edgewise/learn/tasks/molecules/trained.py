"""A trained ensemble over molecules, with all it needs to read a new table: scales, sizes, the rows it knows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, RunFolderError
from edgewise.formatting import plural
from edgewise.graph.records import Batch
from edgewise.learn.files import release
from edgewise.learn.networks.forest import Forest, numbers_of
from edgewise.learn.networks.gaussian_process import GaussianProcess
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.property import PropertyModel, planned
from edgewise.learn.networks.substructures import with_substructures
from edgewise.learn.readers.molecules.conformer import conformer_status
from edgewise.learn.readers.molecules.descriptor import AVAILABLE
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.similarity import KnownMolecules
from edgewise.learn.readers.molecules.store import MoleculeStore
from edgewise.learn.readers.molecules.table import MoleculeTable
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.impute import with_filled
from edgewise.learn.tables.scale import ConditionScaler, FeatureScaler, TargetScaler
from edgewise.learn.tables.split import evenly
from edgewise.learn.tasks.molecules.settings import PropertyRunSettings
from edgewise.learn.tasks.trained import TrainedTable
from edgewise.learn.training.baseline import fit_forest, num_trees
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import damage
from edgewise.learn.training.folder import RunFolder

MAX_KNOWN = 2**16
"""Different training rows that new ones are compared with, and molecules that the spread of descriptors is learned
from; evenly chosen where there are more."""
NUM_SUBSTRUCTURES = 2048
"""Kinds of substructures that trees and Gaussian processes count."""
PROCESS_ROWS = 9216
"""Rows that a Gaussian process learns from at most: a covariance of so many takes 0.7 GB, and seconds to solve."""
SHARES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""How much a Gaussian process may weigh beside the network, whose weight is 1."""
USUAL_SHARE, USUAL_ROWS = 2 / 3, 100
"""What a Gaussian process makes of a prediction where nothing else is known, and how many validation rows that counts
as: learned from validation rows, see docs/molecules.md."""
TOGETHER = 2**13
"""Rows whose SMILES are in memory at the same time."""


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
    num_substructures: int = 0
    """Kinds of substructures that are counted in the rows to predict."""

    @classmethod
    def of(cls, table: MoleculeTable, scales: Scales, settings: PropertySettings, num_substructures: int = 0) -> Self:
        """The table, scaled, with the places of the atoms where the model looks at them."""
        store = table.store.with_coordinates() if settings.needs_coordinates else table.store
        targets = table.targets
        if scales.target is not None and targets.shape[1]:
            targets = scales.target.transform(targets)
        return cls(
            store.with_scale(scales.feature.transform),
            table.graph_of_row,
            scales.condition.transform(table.conditions).astype(np.float32),
            targets.astype(np.float32),
            table.weights.astype(np.float32),
            settings,
            num_substructures,
        )

    def batch(self, rows: np.ndarray) -> Batch:
        """Rows to predict."""
        batch = planned(self.store.batch(self.graph_of_row[rows], self.conditions[rows]), self.settings)
        return with_substructures(batch, self.num_substructures) if self.num_substructures else batch

    def training_batch(self, rows: np.ndarray) -> Batch:
        """Rows to learn from."""
        graphs, known = self.graph_of_row[rows], (self.targets[rows], self.weights[rows])
        return planned(self.store.batch(graphs, self.conditions[rows], *known), self.settings)


@dataclass(kw_only=True)
class FittedProperty(TrainedTable):
    """A trained ensemble over molecules."""

    FORMAT = PropertyRunSettings.FORMAT
    has_similarities = True

    sizes: PropertySizes
    """The sizes of the model."""
    settings: PropertySettings
    """The settings of the model."""
    scales: Scales
    """The scales learned on the training rows."""
    known_rows: list[tuple[str, ...]]
    """The molecules of each distinct training row, canonical; of many rows some, evenly chosen."""
    descriptors: list[str]
    """The names of RDKit's descriptors that the model takes; none where it takes none."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one: those of the training, unless changed."""
    num_known: int | None = None
    """How many distinct training rows there were; None where `known_rows` has all of them."""
    bounds: tuple[float, ...] = ()
    """The lowest and the highest number that a target can have; none where predictions may lie anywhere."""

    @property
    def value_bounds(self) -> tuple[float, float] | None:
        if self.sizes.low is None:
            return None
        # Earlier runs kept fractions between 0 and 1, and nothing else.
        low, high = self.bounds or (0.0, 1.0)
        return low, high

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

    def grow_forest(self, table: MoleculeTable, rows: np.ndarray, seed: int) -> None:
        """Puts a random forest over descriptors, substructures and conditions beside each member, learned from some
        rows."""
        self.sizes = replace(self.sizes, num_substructures=NUM_SUBSTRUCTURES)
        batches = self.batches(table)
        parts = [rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)]
        numbers = np.concatenate([numbers_of(batches.batch(part)).numpy() for part in parts])
        known = table.targets[rows], table.weights[rows]
        # Most substructures are rare, and a tree tries few of them at a time.
        trees = num_trees(len(rows), math.isqrt(numbers.shape[1]))
        fitted = fit_forest(numbers, *known, self.num_classes, seed=seed, trees=trees)
        is_binary = self.task_type == "classification"
        for member in self.members:
            member.forest = forest = Forest.grown(fitted.models, self.num_classes, is_binary=is_binary)
        self.sizes = replace(
            self.sizes,
            tree_nodes=len(forest.feature),
            trees=forest.num_trees,
            tree_targets=len(fitted.models),
            are_binary=is_binary,
        )

    def process_of(self, table: MoleculeTable, rows: np.ndarray, judging: np.ndarray, seed: int) -> GaussianProcess:
        """The Gaussian process of some rows, later of those that judge it, too; of many, of some that are chosen at
        random."""
        assert self.scales.target is not None
        most, random = process_rows(table.targets.shape[1]), np.random.default_rng(seed)
        if len(rows) > most:
            rows = np.sort(random.permutation(rows)[:most])
        judging = np.sort(random.permutation(judging)[: most - len(rows)])
        rows = np.concatenate([rows, judging])
        store = table.store.with_scale(self.scales.feature.transform)
        batch = store.batch(table.graph_of_row[rows], self.scales.condition.transform(table.conditions[rows]))
        targets, sizes = self.scales.target.transform(table.targets[rows]), self._counting(NUM_SUBSTRUCTURES)
        batch = with_substructures(batch, sizes.num_substructures)
        return GaussianProcess.learned(batch, targets, table.weights[rows], sizes, seed, len(judging))

    def add_processes(
        self,
        table: MoleculeTable,
        members: Sequence[tuple[np.ndarray, np.ndarray]],
        seed: int,
        *,
        later: bool = False,
    ) -> None:
        """Puts a Gaussian process beside each member, with the weight at which their validation rows are predicted
        best, and `USUAL_ROWS` more for which the usual weight is; none where that is 0.

        Args:
            table: the rows.
            members: the training and the validation rows of each.
            seed: chooses the rows by which a covariance is chosen.
            later: whether the processes will also learn from the validation rows, by `learn_later`.
        """
        with cpu_threads(self.threads):
            learned = {train.tobytes(): (train, val if later else val[:0]) for train, val in members}
            processes = {key: self.process_of(table, *rows, seed) for key, rows in learned.items()}
        own = [processes[train.tobytes()] for train, _ in members]
        for member in self.members:
            member.process = None
        self.sizes = self._counting(NUM_SUBSTRUCTURES)
        batches, variants = self.batches(table), self.members[0].head.num_variants
        copies = [0, *(max(1, int(share * variants)) for share in SHARES)]
        shares = np.array([count / (variants + count) for count in copies])
        squares, apart, known = np.zeros(len(copies)), 0.0, 0
        with torch.no_grad(), cpu_threads(self.threads):
            for member, process, (_, rows) in zip(self.members, own, members, strict=True):
                for start in range(0, len(rows), TOGETHER):
                    some = rows[start : start + TOGETHER]
                    batch = batches.batch(some)
                    network, other = member(batch).double().mean(1).numpy(), process(batch).numpy()
                    targets, weights = batches.targets[some], batches.weights[some, None]
                    for place, share in enumerate(shares):
                        errors = (network + share * (other - network) - targets) ** 2 * weights
                        squares[place] += np.nansum(errors)
                    there = ~np.isnan(targets) & (weights > 0)
                    apart, known = apart + ((other - network) ** 2 * weights)[there].sum(), known + int(there.sum())
        # As if the usual share were best for some more rows, whose errors are like those of the others.
        more = USUAL_ROWS * len(members) * min(apart, squares.min()) / max(known, 1)
        squares += more * (shares - USUAL_SHARE) ** 2
        count = copies[int(np.argmin(squares))] if known else variants
        if not count:
            self.sizes = self._counting(0)
            return
        self.sizes = replace(
            self.sizes,
            process_rows=max(len(process.molecules) for process in own),
            process_molecules=max(len(process.descriptors) for process in own),
            process_copies=count,
        )
        for member, process in zip(self.members, own, strict=True):
            member.process, member.process_copies = process.padded(self.sizes), count

    def learn_later(self) -> None:
        """Lets the Gaussian processes learn from the rows that have judged them."""
        for member in self.members:
            if member.process is not None:
                member.process.learn_later()

    def _counting(self, num_substructures: int) -> PropertySizes:
        """The sizes without a process, with so many kinds of substructures."""
        numbers: dict[str, Any] = dict.fromkeys(("process_rows", "process_molecules", "process_copies"), 0)
        return replace(self.sizes, num_substructures=num_substructures, **numbers)

    def batches(self, table: MoleculeTable) -> TableBatches:
        """The rows of a table as the models take them."""
        return TableBatches.of(table, self.scales, self.settings, self.sizes.num_substructures)

    def similarities(
        self, table: MoleculeTable, rows: np.ndarray, known: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Tanimoto similarity to the nearest training row, and of each molecule of several to the nearest in its
        column."""
        to_known = self.known_molecules
        if known is not None:
            to_known = self._known(molecules_of(table, evenly(distinct_rows(table, known), MAX_KNOWN)))
        parts = [rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)] or [rows]
        found = [self._similarities(molecules_of(table, part), *to_known) for part in parts]
        return {name: np.concatenate([each[name] for each in found]) for name in found[0]}

    def similarities_of(
        self, molecules: Sequence[tuple[str, ...]], known: Sequence[tuple[str, ...]] | None = None
    ) -> dict[str, np.ndarray]:
        """The same of rows that are canonical molecules."""
        return self._similarities(molecules, *(self.known_molecules if known is None else self._known(known)))

    def _similarities(
        self, molecules: Sequence[tuple[str, ...]], whole: KnownMolecules, columns: Mapping[str, KnownMolecules]
    ) -> dict[str, np.ndarray]:
        found = {"similarity": whole.nearest(molecules)[0]}
        for place, (name, column) in enumerate(columns.items()):
            found[f"similarity_{name}"] = column.nearest([row[place] for row in molecules])[0]
        return found

    @cached_property
    def known_molecules(self) -> tuple[KnownMolecules, dict[str, KnownMolecules]]:
        """The training rows, and where a row has several molecules those of each column, to be compared with others."""
        return self._known(self.known_rows)

    def _known(self, rows: Sequence[tuple[str, ...]]) -> tuple[KnownMolecules, dict[str, KnownMolecules]]:
        names = self.columns.smiles_columns if len(self.columns.smiles_columns) > 1 else ()
        return KnownMolecules(rows), {
            name: KnownMolecules([row[place] for row in rows]) for place, name in enumerate(names)
        }

    def more_columns(
        self, table: MoleculeTable, rows: np.ndarray, similarities: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray | list[Any]]:
        """The similarities to the training rows; and where a row has several parts, which of them are new."""
        found = super().more_columns(table, rows, similarities)
        if len(self.columns.inputs) > 1 and self.num_known is None:
            new = [""] * table.num_rows
            for row, text in zip(rows.tolist(), self.new_parts(molecules_of(table, rows), table.conditions[rows])):
                new[row] = text
            found["new"] = new
        return found

    def statuses(self, table: MoleculeTable) -> list[str]:
        """The status of each row; where the model looks at places, which molecules are not in space."""
        conditions = [repr(name) for name in self.columns.descriptors_columns]
        missing: dict[int, list[str]] = {}
        for row, column in np.argwhere(np.isnan(table.conditions)).tolist():
            missing.setdefault(row, []).append(conditions[column])
        if not self.settings.needs_coordinates:
            return with_filled(super().statuses(table), missing)
        conformers, names = table.store.conformers, table.columns.smiles_columns
        found = [
            conformer_status([conformers[graph].how for graph in graphs], names) if status == OK else status
            for status, graphs in zip(table.status, table.graph_of_row.tolist(), strict=True)
        ]
        return with_filled(found, missing)

    def new_parts(self, molecules: Sequence[tuple[str, ...]], conditions: np.ndarray) -> list[str]:
        """For each row the columns whose molecule no training row has there, or whose number lies beyond those of all
        training rows; `combination` where each molecule is known, but not all of them together."""
        names, scaler = self.columns.smiles_columns, self.scales.condition
        known = [set(column) for column in zip(*self.known_rows, strict=True)]
        together = set(self.known_rows)
        beyond = (conditions < np.array(scaler.smallest)) | (conditions > np.array(scaler.largest))
        texts = []
        for row, is_beyond in zip(molecules, beyond, strict=True):
            found = [name for name, molecule, each in zip(names, row, known, strict=True) if molecule not in each]
            if not found and row not in together:
                found.append("combination")
            found += [name for name, far in zip(self.columns.descriptors_columns, is_beyond, strict=True) if far]
            texts.append(", ".join(found))
        return texts

    def check(self) -> None:
        """Raise DataError unless the fields fit each other, and this RDKit."""
        sizes, scales, columns = self.sizes, self.scales, self.columns
        for name, size, found in (
            ("sizes.num_global_features", sizes.num_global_features, len(scales.feature.center)),
            ("sizes.num_global_features", sizes.num_global_features, len(set(self.descriptors))),
            ("sizes.num_global_features", sizes.num_global_features, len(self.descriptors)),
            ("sizes.num_conditions", sizes.num_conditions, scales.condition.num_features),
            ("sizes.num_components", sizes.num_components, len(columns.smiles_columns)),
            ("descriptors_columns", len(columns.descriptors_columns), len(scales.condition.mean)),
        ):
            if size != found:
                raise DataError(f"{name} is {size}, but the other fields have {found}.")
        if any(len(row) != sizes.num_components for row in self.known_rows):
            raise DataError(f"known_rows has a row that is not of {plural(sizes.num_components, 'molecule')}.")
        ends = [len(end) for end in (sizes.low, sizes.high) if end is not None]
        if ends not in ([], [self.num_outputs] * 2) or len(self.bounds) not in (0, 2) or (self.bounds and not ends):
            raise DataError(f"sizes.low, sizes.high and bounds do not fit {plural(self.num_outputs, 'output')}.")
        super().check()

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged."""
        fitted = super().load(folder)
        sizes = fitted.sizes
        with damage(folder.path / "model.safetensors"):
            for member in fitted.members:
                if member.forest is not None:
                    of_molecule = sizes.num_global_features + sizes.num_substructures
                    member.forest.check(of_molecule * sizes.num_components + sizes.num_conditions)
                if member.process is not None:
                    member.process.check()
        return fitted

    @classmethod
    def load_parts(cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
        """The errors; raises RunFolderError where this RDKit does not have the descriptors."""
        if other := sorted(set(values["descriptors"]) - AVAILABLE):
            raise RunFolderError(
                f"{folder.path / 'model.json'} was trained with another release of RDKit, which has the descriptors "
                f"{', '.join(other[:3])}; install that release, or train again."
            )
        return super().load_parts(folder, values, tensors)


def process_rows(num_targets: int) -> int:
    """Rows that a Gaussian process learns from at most: many targets take as long as one of rows times the cube root
    of the targets."""
    return int(PROCESS_ROWS / num_targets ** (1 / 3))


def distinct_rows(table: MoleculeTable, rows: np.ndarray) -> np.ndarray:
    """The first of the rows that hold the same molecules."""
    (keys,) = table.keys(rows)
    return rows[np.sort(np.unique(keys, return_index=True)[1])]


def molecules_of(table: MoleculeTable, rows: np.ndarray) -> list[tuple[str, ...]]:
    """The canonical molecules of each row."""
    found = [tuple(table.store.canonical[graph] for graph in graphs) for graphs in table.graph_of_row[rows].tolist()]
    release(table.mapped)
    return found
