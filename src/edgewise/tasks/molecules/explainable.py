"""Rows of molecules and numbers, as an `Explainer` asks about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.molecules.molecule import as_smiles
from edgewise.data.molecules.table import table_from_arrays
from edgewise.errors import DataError
from edgewise.explanation import Explanation, Told
from edgewise.tasks.explainable import TableSubject
from edgewise.tasks.molecules.explain import explain_molecule
from edgewise.tasks.molecules.trained import TrainedProperty
from edgewise.tasks.targets import told_of
from edgewise.train.folder import RunFolder


@dataclass(frozen=True, eq=False)
class MoleculeSubject(TableSubject):
    """Rows of molecules, and numbers beside them."""

    trained: TrainedProperty
    """The ensemble."""
    kind = "molecule"
    over = "molecules"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedProperty.load(folder))

    def set_limits(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> None:
        """Change the limits of molecules, where one is given."""
        self.trained.limits = self.trained.limits.changed(max_atoms=max_atoms, molecule_timeout=molecule_timeout)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of molecules, then those of numbers."""
        columns = self.trained.columns
        numbers = [(name, "number") for name in columns.descriptors_columns]
        return [*((name, "smiles") for name in columns.smiles_columns), *numbers]

    @property
    def model_name(self) -> str:
        """Which layers it has."""
        return self.trained.settings.model

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of molecules; a `DataError` names the first that cannot be read."""
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
        return [told_of(trained, predictions, row) for row in range(len(rows))]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """The molecules of one row; all weights are kept, as atoms are few."""
        self.predict([row])  # says which value cannot be read
        size = len(self.trained.columns.smiles_columns)
        smiles = tuple(map(as_smiles, row[:size]))
        return explain_molecule(self.trained, smiles, row[size:], target=target, label=label)
