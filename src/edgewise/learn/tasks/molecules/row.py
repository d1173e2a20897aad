"""One row of molecules as a model takes it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from edgewise.errors import DataError
from edgewise.explain.explanation import Unit
from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.companions.substructures import with_substructures
from edgewise.learn.readers.graphs.union import offsets_of
from edgewise.learn.readers.molecules.molecule import Chem, atom_characters, read_molecule
from edgewise.learn.readers.molecules.store import MoleculeStore
from edgewise.learn.tasks.molecules.encoder import FittedMolecules
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class Row:
    """One row: its molecules, each a graph of its own even where two are the same, and its conditions."""

    smiles: tuple[str, ...]
    """As they came."""
    molecules: tuple[Chem.Mol, ...]
    """The same as RDKit reads them, atoms in the order of the string."""
    units: tuple[Unit, ...]
    """The atoms of all molecules, in the order of the nodes of the batch."""
    conditions: tuple[float, ...]
    """In their raw units; NaN where one is missing, which the model fills."""
    batch: Batch
    """The row in the units of the model."""

    @classmethod
    def of(cls, trained: FittedMolecules, smiles: Sequence[str], conditions: Sequence[float] = ()) -> "Row":
        """The row of some SMILES and conditions.

        Raises:
            DataError: a SMILES cannot be read, a condition is neither finite nor imputed, or the number of either
                differs from that of the training.
        """
        smiles = (smiles,) if isinstance(smiles, str) else tuple(smiles)
        columns = trained.columns
        for what, values, names in (
            ("SMILES", smiles, columns.smiles_columns),
            ("conditions", conditions, columns.descriptors_columns),
        ):
            if len(values) != len(names):
                raise DataError(
                    f"explain: {len(values)} {what}, but the model was trained on {len(names)}: "
                    f"{', '.join(names) or 'none'}."
                )
        raw = np.array([conditions], dtype=np.float64).reshape(1, -1)
        fills = trained.encoder.scales.condition.imputes
        for name, value in zip(columns.descriptors_columns, raw[0].tolist(), strict=True):
            if not np.isfinite(value) and not (fills and np.isnan(value)):
                raise DataError(f"explain: {name} is {value}, expected a finite number.")
        scaled = trained.encoder.scales.condition.transform(raw).astype(np.float32)
        batch = _batch(trained, smiles, scaled)  # first, as it is bounded in time
        molecules = tuple(read_molecule(text) for text in smiles)
        units = [
            Unit(atom.GetSymbol(), column, *span)
            for column, text, molecule in zip(columns.smiles_columns, smiles, molecules, strict=True)
            for atom, span in zip(molecule.GetAtoms(), atom_characters(text, molecule), strict=True)
        ]
        return cls(smiles, molecules, tuple(units), tuple(raw[0].tolist()), batch)

    @property
    def num_atoms(self) -> int:
        """Atoms of all molecules."""
        return len(self.units)

    @property
    def first_atoms(self) -> list[int]:
        """Where the atoms of each molecule begin among those of all, and where the last end."""
        offsets = self.batch.graph.offsets
        assert offsets is not None
        return offsets.tolist()

    @property
    def bonds(self) -> list[tuple[int, int]]:
        """The two ends of each bond; bond b is edges 2b and 2b + 1."""
        edges = self.batch.graph.edges
        return list(zip(edges.senders[::2].tolist(), edges.receivers[::2].tolist(), strict=True))


def _batch(trained: FittedMolecules, smiles: Sequence[str], conditions: Float[np.ndarray, " 1 condition"]) -> Batch:
    """One row whose molecules lie one after the other, each alone in a store: none is shared, none is reordered."""
    names, limits = trained.encoder.descriptors, trained.encoder.limits
    stores = [MoleculeStore.from_smiles([text], with_descriptors=names, limits=limits) for text in smiles]
    stores = [store.with_coordinates() for store in stores] if trained.encoder.settings.needs_coordinates else stores
    offsets = offsets_of([len(store.node_features) for store in stores])
    senders, receivers = (
        torch.cat([getattr(store, side).long() + int(first) for store, first in zip(stores, offsets[:-1], strict=True)])
        for side in ("senders", "receivers")
    )
    features = np.concatenate([store.graph_features.numpy() for store in stores])
    coordinates = [store.coordinates for store in stores if store.coordinates is not None]
    graph = Graph(
        torch.cat([store.node_features for store in stores]),
        Edges(senders, receivers, int(offsets[-1]), int(offsets[-1])),
        torch.cat([store.edge_features for store in stores]),
        torch.from_numpy(trained.encoder.scales.feature.transform(features).astype(np.float32)),
        offsets=torch.from_numpy(offsets),
        coordinates=torch.cat(coordinates) if coordinates else None,
    )
    row_features = torch.from_numpy(conditions) if conditions.shape[1] else None
    batch = Batch(graph, Supervision(graph_of_row=torch.arange(len(stores))[None, :], row_features=row_features))
    return with_substructures(batch, count) if (count := trained.encoder.num_substructures) else batch
