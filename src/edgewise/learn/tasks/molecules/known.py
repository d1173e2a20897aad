"""Some of the training rows of molecules, and what was predicted for them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from jaxtyping import Float

from edgewise.explain.additive import KnownInputs
from edgewise.learn.readers.molecules.data import MoleculeData, molecules_from_arrays
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.molecule import read_molecule
from edgewise.learn.readers.molecules.variants import environments
from edgewise.learn.settings import MAX_INTEGER

VARIANCES, NOISE = (1.0, 0.5, 0.5, 0.5), 1.0
"""Variances of what an atom adds, by each of its `environments`, and of how far a prediction is from a sum over atoms;
chosen on validation molecules, see docs/look.md."""
MAX_PREDICTIONS = 64
"""Outputs and conditions whose predictions are remembered: a server may be asked for any number of them."""
Smiles = tuple[str, ...]
"""The molecules of a row, one for each column."""
Environments = list[tuple[Hashable, ...]]
"""What each atom of a row is; see `environments`."""


@dataclass(frozen=True, eq=False)
class KnownSample:
    """Rows of molecules that are read once, to be predicted under the conditions of other rows."""

    data: MoleculeData
    """The molecules, without conditions."""
    inputs: KnownInputs
    """The atoms of each row."""
    predictions: dict[Hashable, Float[np.ndarray, " row"]] = field(default_factory=dict)
    """What was predicted, by the output and the conditions; the last `MAX_PREDICTIONS` of them."""

    def predicted(
        self, key: Hashable, predict: Callable[[MoleculeData], Float[np.ndarray, " row"]]
    ) -> Float[np.ndarray, " row"]:
        """What was predicted for an output and conditions, computed where that is not known yet."""
        if (values := self.predictions.get(key)) is None:
            if len(self.predictions) >= MAX_PREDICTIONS:
                self.predictions.pop(next(iter(self.predictions)), None)
            self.predictions[key] = values = predict(self.data)
        return values

    @classmethod
    def of(cls, rows: Sequence[Smiles], descriptors: Sequence[str], limits: MoleculeLimits) -> Self:
        """The sample of some rows of the training, whose molecules are not too large whatever the limits are now."""
        limits = replace(limits, max_atoms=MAX_INTEGER)

        def read(rows: Sequence[Smiles]) -> MoleculeData:
            return molecules_from_arrays(np.array(rows, dtype=object), with_descriptors=descriptors, limits=limits)

        data = read(rows)
        if len(usable := data.rows.usable) < len(rows):  # some take longer here than they may
            rows = [rows[row] for row in usable.tolist()]
            data = read(rows)
        return cls(data, KnownInputs.of([environments_of_row(row) for row in rows], NOISE, VARIANCES))


def environments_of_row(row: Smiles) -> Environments:
    """What each atom of all molecules of a row is."""
    return [keys for column, smiles in enumerate(row) for keys in environments(read_molecule(smiles), column)]
