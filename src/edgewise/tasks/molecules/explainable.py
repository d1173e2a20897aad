"""Rows of molecules and numbers, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.data.graphs.union import copies
from edgewise.data.molecules.fragments import COMPONENT, fragments
from edgewise.data.molecules.molecule import as_smiles, canonical_smiles
from edgewise.data.molecules.table import table_from_arrays
from edgewise.errors import DataError
from edgewise.explain.explainable import Attention, Differentiable, Explainable, Links
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Curve, Explanation, Part, TargetPrediction
from edgewise.records import Batch
from edgewise.tasks.explainable import ExplainableTable
from edgewise.tasks.explained import Explained
from edgewise.tasks.molecules.attention import attention_of
from edgewise.tasks.molecules.curves import curves_of
from edgewise.tasks.molecules.row import Row
from edgewise.tasks.molecules.trained import FittedProperty
from edgewise.tasks.targets import target_predictions
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

BATCH_SIZE = 2**15
"""Atoms that are computed together."""
REMOVAL = (
    "An atom is removed with its bonds; the features of its neighbors (their hydrogens, their degree, their rings) "
    "stay as they were."
)


def explain_molecule(
    trained: FittedProperty,
    smiles: Sequence[str],
    conditions: Sequence[float] = (),
    *,
    target: str | None = None,
    label: str | None = None,
    methods: Choice = None,
) -> Explanation:
    """The prediction of a trained ensemble for one row, and why.

    Units are the atoms of all molecules, in the order of the SMILES as they came. The number that is explained is the
    target in its own unit, or the probability of a class; it is the average over the members of the ensemble, and so
    is every effect. Attention is that of the first member: heads have no counterpart in another member.

    Args:
        trained: the ensemble.
        smiles: one molecule for each SMILES column of the training; any writing.
        conditions: one number for each condition of the training.
        target: which target is explained; the first where None.
        label: the probability of which class is explained; the predicted one where None.
        methods: names of methods; see `edgewise.explain.methods`.

    Returns:
        Effects of removing atoms, bonds and fragments; attention, rollout and gradients beside them; curves for the
        conditions; and how faithful the attributions are.

    Raises:
        DataError: a SMILES or a condition cannot be used, or their number is not that of the training.
        SettingError: there is no such target, class or method.

    Cost: one prediction an atom, a bond and a fragment, 38 for each method, and 33 with gradients.
    """
    with cpu_threads(trained.threads):
        return explain(MoleculeItem(trained, Row.of(trained, smiles, conditions), target, label), methods)


class MoleculeItem(Explainable):
    """The atoms of one row; arguments as in `explain_molecule`."""

    methods = (
        "occlusion",
        "shared occlusion",
        "integrated gradients",
        "gradient × input",
        "attention",
        "rollout",
    )
    about = "The prediction less the prediction without the atom and its bonds."

    def __init__(self, trained: FittedProperty, row: Row, target: str | None = None, label: str | None = None):
        self.trained, self.row, self.traced = trained, row, Trace()
        self.molecules = [tuple(map(canonical_smiles, row.smiles))]
        self.similarities = trained.similarities_of(self.molecules)
        self.explained = Explained.of(
            trained,
            lambda place, member: member(row.batch, self.traced if place == 0 else None),
            target,
            label,
            self.similarities,
        )

    @property
    def num_units(self) -> int:
        """Atoms of all molecules."""
        return self.row.num_atoms

    def predict(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The number without some atoms, and all bonds to them.

        All else stays: the features that the neighbors had with them (their hydrogens, their number of neighbors,
        their rings), the descriptors of the whole molecule, the places of the atoms.
        """
        return self._predict(removed, self.num_units, partial(copies, self.row.batch))

    def predict_without_edges(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The number without some edges; all atoms stay."""

        def taken(remaining: np.ndarray) -> Batch:
            return copies(self.row.batch, np.ones((len(remaining), self.num_units), dtype=bool), remaining)

        return self._predict(removed, self.row.batch.edges.num_edges, taken)

    def _predict(self, removed: Sequence[np.ndarray], count: int, taken: Callable[[np.ndarray], Batch]) -> np.ndarray:
        return self.explained.without(removed, count, taken, max(1, BATCH_SIZE // max(1, self.num_units)))

    def links(self) -> Links:
        """Bonds; bond b is edges 2b and 2b + 1."""
        bonds = self.row.bonds
        return Links(
            bonds, [np.array([2 * bond, 2 * bond + 1]) for bond in range(len(bonds))], self.predict_without_edges
        )

    def differentiable(self) -> list[Differentiable]:
        """By the features of the atoms."""
        words = ("the features of the atom", "atoms without features")
        features = self.row.batch.node_features
        members = self.trained.members
        return [Differentiable(partial(self._of_features, each), features, words=words) for each in members]

    def _of_features(self, member: Any, features: Tensor) -> Tensor:
        return self.explained.of_scores(member(replace(self.row.batch, node_features=features)).double()).sum()

    @cached_property
    def attended(self) -> tuple[Attention, list[str]]:
        """Attention, and notes on it."""
        return attention_of(self.row, self.trained.members[0], self.traced, self.trained.columns.smiles_columns)

    def trace(self) -> Attention:
        """The layers in which atoms attend to each other, then the readout of each molecule."""
        return self.attended[0]

    def parts(self) -> list[Part]:
        """What the molecules are made of; the whole row is no part of itself."""
        found = [
            (part, tuple(first + atom for atom in part.atoms))
            for molecule, first in zip(self.row.molecules, self.row.first_atoms, strict=False)
            for part in fragments(molecule)
        ]
        return [
            Part(part.name, part.kind, atoms, np.nan)
            for part, atoms in found
            if part.kind != COMPONENT or len(atoms) < self.num_units
        ]

    @cached_property
    def drawn(self) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
        """Curves, and notes on them."""
        scaler = self.trained.scales.condition
        return curves_of(self.row, scaler, self.trained.columns.descriptors_columns, self.at_conditions)

    def curves(self) -> Sequence[Curve]:
        """The prediction over each condition."""
        return self.drawn[0]

    def at_conditions(self, raw: Float[np.ndarray, " step condition"]) -> np.ndarray:
        """The number of the same molecules under other conditions, in their raw units."""
        scaled = self.trained.scales.condition.transform(raw).astype(np.float32)
        rows = self.row.batch.graph_of_row.expand(len(raw), -1)
        return self.explained.of_batch(replace(self.row.batch, graph_of_row=rows, conditions=torch.from_numpy(scaled)))

    def describe(self) -> dict[str, Any]:
        """The molecules and their atoms."""
        trained, row, notes = self.trained, self.row, [REMOVAL]
        if trained.with_descriptors:
            notes.append(
                "The descriptors of the whole molecule stay, too: no atom gets what the model reads from them."
            )
        if trained.settings.needs_coordinates:
            notes.append("The atoms that are left stay where they were.")
        if len(trained.members) > 1:
            notes.append(
                f"Attention is that of the first of {len(trained.members)} models; predictions and effects are the "
                "mean of all."
            )
        if trained.calibration is not None:
            (new,) = trained.new_parts(self.molecules, np.array([row.conditions]).reshape(1, -1))
            near = f"The similarity to the nearest training row is {self.similarities['similarity'][0]:.2f}"
            notes.append(f"{near}; new: {new}." if new else f"{near}; nothing is new.")
        return {
            "kind": "molecule",
            "title": ".".join(row.smiles),
            "sources": dict(zip(trained.columns.smiles_columns, row.smiles, strict=True)),
            "predictions": self.explained.predictions,
            "explained": self.explained.name,
            "units": row.units,
            "notes": (*notes, *self.attended[1], *self.drawn[1]),
        }


class ExplainableMolecules(ExplainableTable):
    """Rows of molecules, and numbers beside them."""

    trained_type = FittedProperty
    kind = "molecule"
    over = "molecules"

    def set_limits(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> None:
        """Change the limits of molecules, where one is given."""
        self.trained.limits = self.trained.limits.changed(max_atoms=max_atoms, molecule_timeout=molecule_timeout)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of molecules, then those of numbers."""
        columns = self.trained.columns
        numbers = [(name, "number") for name in columns.descriptors_columns]
        return [*((name, "smiles") for name in columns.smiles_columns), *numbers]

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions for molecules; a `DataError` names the first that cannot be read."""
        trained, size = self.trained, len(self.trained.columns.smiles_columns)
        smiles = np.array([row[:size] for row in rows], dtype=object).reshape(len(rows), -1)
        numbers = np.array([row[size:] for row in rows], dtype=np.float64).reshape(len(rows), -1)
        table = table_from_arrays(
            smiles,
            conditions=numbers if numbers.shape[1] else None,
            with_descriptors=trained.with_descriptors,
            limits=trained.limits,
        )
        for row in np.flatnonzero(~table.usable).tolist():
            # Columns of arrays are called smiles_1, smiles_2, …: the row knows them by other names.
            column, _, reason = table.status[row].partition(": ")
            names = dict(zip(table.columns.inputs, (name for name, _ in self.fields), strict=True))
            where = f"row {row}: " if len(rows) > 1 else ""
            raise DataError(f"{where}{names.get(column, column)}: {reason[:300]}.")
        predictions = trained.predict(table)
        return [target_predictions(trained, predictions, row) for row in range(len(rows))]

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """The molecules of one row; all weights are listed, as atoms are few."""
        self.predict([row])  # raises where a value cannot be read
        size = len(self.trained.columns.smiles_columns)
        smiles = tuple(map(as_smiles, row[:size]))
        return explain_molecule(self.trained, smiles, row[size:], target=target, label=label, methods=methods)


EXPLAINABLE = ExplainableMolecules
