"""One row of molecules as a model takes it, and what is asked of it: what is told without some atoms, bonds, …"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from edgewise.data.graphs.union import copies, offsets_of
from edgewise.data.molecules.molecule import Chem, atom_characters, read_molecule
from edgewise.data.molecules.store import MoleculeStore
from edgewise.errors import DataError
from edgewise.explanation import Unit
from edgewise.neighborhood import Edges
from edgewise.records import Batch
from edgewise.tasks.molecules.trained import TrainedProperty
from edgewise.train.device import cpu_threads

ATOMS_A_BATCH = 2**15
"""Atoms that are computed together."""


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
    """In their raw units."""
    batch: Batch
    """The row in the units of the model."""

    @classmethod
    def of(cls, trained: TrainedProperty, smiles: Sequence[str], conditions: Sequence[float] = ()) -> "Row":
        """The row of some SMILES and conditions.

        Raises:
            DataError: a SMILES cannot be read, a condition is no finite number, or there are not as many of either as
                the model was trained on.
        """
        smiles = (smiles,) if isinstance(smiles, str) else tuple(smiles)
        columns = trained.columns
        for what, given, names in (
            ("SMILES", smiles, columns.smiles_columns),
            ("conditions", conditions, columns.descriptors_columns),
        ):
            if len(given) != len(names):
                raise DataError(
                    f"explain: {len(given)} {what}, but the model was trained on {len(names)}: "
                    f"{', '.join(names) or 'none'}."
                )
        raw = np.array([conditions], dtype=np.float64).reshape(1, -1)
        for name, value in zip(columns.descriptors_columns, raw[0].tolist(), strict=True):
            if not np.isfinite(value):
                raise DataError(f"explain: {name} is {value}, expected a finite number.")
        scaled = trained.scales.condition.transform(raw).astype(np.float32)
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
        return self.batch.offsets.tolist()

    @property
    def bonds(self) -> list[tuple[int, int]]:
        """The two ends of each bond; bond b is edges 2b and 2b + 1."""
        edges = self.batch.edges
        return list(zip(edges.senders[::2].tolist(), edges.receivers[::2].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Question:
    """Which number of the prediction of a row is explained, and how it answers to changes of the row."""

    trained: TrainedProperty
    """Who predicts; all members are asked, and averaged."""
    batch: Batch
    """One row, or several that are asked about together."""
    target: int
    """Which target."""
    label: int | None
    """Which class of it; None where the target is a number."""

    def number(self, output: Float[Tensor, " row variant output"]) -> Float[Tensor, " row"]:
        """From what a model says, in its units or as logits, to the number that is explained; differentiable."""
        output = output.double()
        if self.label is None:
            scale = self.trained.target_scale
            assert scale is not None
            values = output[..., self.target] * scale.std[self.target] + scale.mean[self.target]
            return (values.clamp(0, 1) if self.trained.are_fractions else values).mean(1)
        if self.trained.task_type == "classification":
            likely = output[..., self.target].sigmoid().mean(1)
            return likely if self.label == 1 else 1 - likely
        start = sum(self.trained.num_classes[: self.target])
        logits = output[..., start : start + self.trained.num_classes[self.target]]
        return logits.softmax(-1)[..., self.label].mean(1)

    def told(self, batch: Batch) -> Float[Tensor, " row"]:
        """The explained number of each row of any batch, averaged over the members; differentiable."""
        members = [self.number(member(batch)) for member in self.trained.members]
        return torch.stack(members).mean(0)

    def of_features(self, features: Float[Tensor, " node node_feature"]) -> Float[Tensor, ""]:
        """The explained number with these features of the atoms; the sum over the rows, where there are several."""
        return self.told(replace(self.batch, node_features=features)).sum()

    def without_atoms(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        """What is told of the row without some atoms, and all bonds to them; a list of atoms for each question.

        All else stays: the features that the neighbors had with them (their hydrogens, their number of neighbors,
        their rings), the descriptors of the whole molecule, the places of the atoms.
        """
        return self._in_batches(removed, lambda lists: copies(self.batch, self._kept(lists, self._num_nodes)))

    def without_bonds(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        """What is told of the row without some bonds; a list of bonds for each question. All atoms stay."""

        def taken(lists: Sequence[np.ndarray]) -> Batch:
            edges = [np.concatenate([2 * bonds, 2 * bonds + 1]) for bonds in lists]
            everything = np.ones((len(lists), self._num_nodes), dtype=bool)
            return copies(self.batch, everything, self._kept(edges, self.batch.edges.num_edges))

        return self._in_batches(removed, taken)

    def at_conditions(self, raw: Float[np.ndarray, " step condition"]) -> Float[np.ndarray, " step"]:
        """What is told of the same molecules under other conditions, in their raw units."""
        scaled = self.trained.scales.condition.transform(raw).astype(np.float32)
        rows = self.batch.graph_of_row.expand(len(raw), -1)
        batch = replace(self.batch, graph_of_row=rows, conditions=torch.from_numpy(scaled))
        with torch.no_grad(), cpu_threads(self.trained.threads):
            return self.told(batch).numpy()

    @property
    def _num_nodes(self) -> int:
        return self.batch.node_features.shape[0]

    @staticmethod
    def _kept(removed: Sequence[np.ndarray], count: int) -> Bool[np.ndarray, " question place"]:
        kept = np.ones((len(removed), count), dtype=bool)
        for line, places in zip(kept, removed, strict=True):
            line[places] = False
        return kept

    def _in_batches(
        self, removed: Sequence[np.ndarray], taken: Callable[[Sequence[np.ndarray]], Batch]
    ) -> Float[np.ndarray, " question"]:
        size = max(1, ATOMS_A_BATCH // max(1, self._num_nodes))
        with torch.no_grad(), cpu_threads(self.trained.threads):
            parts = [self.told(taken(removed[start : start + size])).numpy() for start in range(0, len(removed), size)]
        return np.concatenate([np.zeros(0), *parts])


def _batch(trained: TrainedProperty, smiles: Sequence[str], conditions: Float[np.ndarray, " 1 condition"]) -> Batch:
    """One row whose molecules lie one behind the other, each alone in a store: none is shared, none is reordered."""
    options: dict[str, Any] = {"with_descriptors": trained.with_descriptors, "limits": trained.limits}
    stores = [MoleculeStore.from_smiles([text], **options) for text in smiles]
    stores = [store.with_coordinates() for store in stores] if trained.settings.needs_coordinates else stores
    offsets = offsets_of([len(store.node_features) for store in stores])
    senders, receivers = (
        torch.cat([getattr(store, side) + int(first) for store, first in zip(stores, offsets[:-1], strict=True)])
        for side in ("senders", "receivers")
    )
    features = np.concatenate([store.global_features.numpy() for store in stores])
    places = [store.coordinates for store in stores if store.coordinates is not None]
    return Batch(
        node_features=torch.cat([store.node_features for store in stores]),
        edges=Edges(senders, receivers, int(offsets[-1]), int(offsets[-1])),
        edge_features=torch.cat([store.edge_features for store in stores]),
        global_features=torch.from_numpy(trained.scales.feature.transform(features).astype(np.float32)),
        offsets=torch.from_numpy(offsets),
        graph_of_row=torch.arange(len(stores))[None, :],
        conditions=torch.from_numpy(conditions),
        coordinates=torch.cat(places) if places else None,
    )
