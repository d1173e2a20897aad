"""Predictions of the whole model for rows whose molecules lack a part: graph, descriptors and counts are made again."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from edgewise.explain.additive import Contributions, contributions
from edgewise.explain.explainable import each_alone
from edgewise.learn.readers.molecules.data import MoleculeData, molecules_from_arrays
from edgewise.learn.readers.molecules.molecule import Chem
from edgewise.learn.readers.molecules.variants import variants, with_bonds_cut, without
from edgewise.learn.tables.split import evenly_spaced
from edgewise.learn.tasks.explained import Explained
from edgewise.learn.tasks.molecules.encoder import ROWS_IN_MEMORY, FittedMolecules
from edgewise.learn.tasks.molecules.known import NOISE, Environments, Smiles, environments_of_row
from edgewise.learn.tasks.molecules.row import Row

NOTHING_LEFT = "[H][H]"
"""What is left of a molecule without its atoms, each of which hydrogen replaces."""
ABOUT = (
    "What each atom adds, with its hydrogens: the sum over atoms that fits the predictions for this molecule, for "
    "molecules that lack a part of it, and for training molecules. Where the truth is known, atoms are ranked right by "
    "0.85 (Spearman, logP), and 99% of the groups have the sign that chemists know (solubility)."
)
"""What is said of the contributions; the figures are those of benchmarks/explanations.py."""
MAX_VARIANTS = 64
"""Molecules that lack a part, of which contributions are learned; evenly chosen where there are more."""
NOISE_OF_LOSS = 5.0
"""The prediction of a molecule that lacks a part may be as far from a sum over atoms as that of a training row, times
exp(`NOISE_OF_LOSS` · share of atoms lost): it is the less like the molecules that the model knows."""


@dataclass(frozen=True, eq=False)
class ChangedRow:
    """A row, and what the whole model predicts where its molecules are others."""

    trained: FittedMolecules
    """The ensemble."""
    row: Row
    """The molecules and numbers."""
    explained: Explained
    """The number that is explained."""
    predictions: dict[Smiles, float] = field(default_factory=dict)
    """The number for the rows that were predicted."""

    def predict(self, rows: Sequence[Smiles]) -> Float[np.ndarray, " row"]:
        """The number for the same conditions and other molecules, each row computed once."""
        missing = [row for row in dict.fromkeys(rows) if row not in self.predictions]
        for start in range(0, len(missing), ROWS_IN_MEMORY):
            part = missing[start : start + ROWS_IN_MEMORY]
            self.predictions.update(zip(part, self._computed(part).tolist(), strict=True))
        return np.array([self.predictions[row] for row in rows], dtype=np.float64)

    def _computed(self, rows: Sequence[Smiles]) -> Float[np.ndarray, " row"]:
        encoder = self.trained.encoder
        smiles, limits = np.array(rows, dtype=object), encoder.limits
        data = molecules_from_arrays(smiles, with_descriptors=encoder.descriptors, limits=limits, strict=True)
        return self._of_data(data)

    def _of_data(self, data: MoleculeData) -> Float[np.ndarray, " row"]:
        """The number for other molecules under the conditions of the row."""
        conditions = np.tile(np.array(self.row.conditions, dtype=np.float64), (len(data.rows), 1))
        batches, size = self.trained.batches(replace(data, conditions=conditions)), self.trained.rows_per_batch
        starts = range(0, len(data.rows), size)
        parts = [np.arange(start, min(start + size, len(data.rows))) for start in starts]
        return np.concatenate([self.explained.of_batch(batches.batch(part)) for part in parts])

    def contributions(self) -> Contributions:
        """What each atom adds: a sum over atoms fits the row, its variants that lack a part, and training rows."""
        row, known = self.row.smiles, self.trained.encoder.known_sample
        changed = self._variants()
        key = (self.explained.column, self.explained.label, self.row.conditions)
        known_predictions = known.predicted(key, self._of_data)

        atoms = [environments_of_row(smiles) for smiles in (row, *changed)]
        # Bonds are cut next: what is predicted together takes less time.
        bonds = self._without_bonds(each_alone(len(self.row.bonds)))
        predictions = self.predict([row, *changed, *bonds])[: len(atoms)]
        added = contributions(atoms, predictions, noise_of(atoms), known.inputs, known_predictions)
        return replace(added, about=ABOUT)

    def _variants(self) -> list[Smiles]:
        """Rows with one molecule that lacks a part."""
        rows = [
            (*self.row.smiles[:column], text, *self.row.smiles[column + 1 :])
            for column, molecule in enumerate(self.row.molecules)
            for text in variants(molecule)
        ]
        return [rows[number] for number in evenly_spaced(np.arange(len(rows)), MAX_VARIANTS).tolist()]

    def without_atoms(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " removal"]:
        """The number without each of some lists of atoms, counted through all molecules; hydrogen replaces them."""
        return self.predict(self._changed(removed, self.row.first_atoms, without))

    def without_edges(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " removal"]:
        """The number without the bonds of each of some lists of edges; bond b is edges 2b and 2b + 1."""
        return self.predict(self._without_bonds([np.unique(edges // 2) for edges in removed]))

    def _without_bonds(self, removed: Sequence[np.ndarray]) -> list[Smiles]:
        """The row without each of some lists of bonds, counted through all molecules."""
        counts = [molecule.GetNumBonds() for molecule in self.row.molecules]
        return self._changed(removed, np.r_[0, np.cumsum(counts)].tolist(), with_bonds_cut)

    def _changed(
        self,
        removed: Sequence[np.ndarray],
        firsts: Sequence[int],
        change: Callable[[Chem.Mol, Collection[int]], Chem.Mol | None],
    ) -> list[Smiles]:
        """The row where each molecule lost what a list has of it."""
        rows = []
        for numbers in removed:
            row = list(self.row.smiles)
            for column, molecule in enumerate(self.row.molecules):
                here = numbers[(numbers >= firsts[column]) & (numbers < firsts[column + 1])] - firsts[column]
                changed = change(molecule, here.tolist()) if len(here) else None
                if changed is not None:
                    row[column] = Chem.MolToSmiles(changed)
                elif len(here) and change is without and len(here) == molecule.GetNumAtoms():
                    row[column] = NOTHING_LEFT
                # What RDKit cannot make a molecule without, it keeps: this loss is unknown, that of the rest is not.
            rows.append(tuple(row))
        return rows


def noise_of(atoms: Sequence[Environments]) -> Float[np.ndarray, " row"]:
    """How far each prediction may be from a sum over atoms: 0 for the first, of which the others lack a part."""
    num_atoms = len(atoms[0])
    losses = np.array([abs(num_atoms - len(row)) / num_atoms for row in atoms[1:]])
    return np.r_[0.0, NOISE * np.exp(NOISE_OF_LOSS * losses)]
