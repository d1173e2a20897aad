"""Every distinct molecule once, and batches of rows cut out of it by index arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from edgewise.data.graphs.union import Union, offsets_of, take
from edgewise.data.molecules.bounded import conformers, featurize
from edgewise.data.molecules.conformer import Conformer, conformer_note
from edgewise.data.molecules.feature import EDGE_FEATURE_NAMES, NODE_FEATURE_NAMES, MoleculeArrays
from edgewise.data.molecules.limits import MoleculeLimits
from edgewise.data.molecules.molecule import GLOBAL_FEATURE_NAMES, example_from_smiles
from edgewise.errors import DataError
from edgewise.neighborhood import EdgeRows
from edgewise.progress import counted
from edgewise.records import Batch, EdgeTypes, Example

Numbers = np.ndarray | Tensor | Sequence


@dataclass(frozen=True, eq=False)
class MoleculeStore:
    """Every distinct molecule of a table once, as tensors that lie molecule after molecule.

    Two SMILES strings are the same molecule when RDKit writes them the same canonical way.
    """

    smiles: tuple[str, ...]
    """Each molecule as it was first written."""
    canonical: tuple[str, ...]
    """Each molecule as RDKit writes it."""
    node_features: Float32[Tensor, " node node_feature"]
    """Atoms; columns as in `molecule.NODE_FEATURE_NAMES`."""
    senders: Int64[Tensor, " edge"]
    """Atom each edge leaves, counted within its molecule."""
    receivers: Int64[Tensor, " edge"]
    """Atom each edge reaches, counted within its molecule."""
    edge_features: Float32[Tensor, " edge edge_feature"]
    """Bonds, twice each; columns as in `molecule.EDGE_FEATURE_NAMES`."""
    node_offsets: Int64[Tensor, " boundary"]
    """Atoms of molecule g are `node_offsets[g]:node_offsets[g + 1]`."""
    edge_offsets: Int64[Tensor, " boundary"]
    """Edges of molecule g are `edge_offsets[g]:edge_offsets[g + 1]`."""
    global_features: Float[Tensor, " graph global_feature"]
    """Raw RDKit descriptors in float64 (NaN where there is none), or what `with_global_features` put there."""
    coordinates: Float32[Tensor, " node space"] | None = None
    """Where each atom is, in ångström, once `with_coordinates` has put it there."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """How long RDKit may take for the conformer of one molecule."""

    @classmethod
    def from_smiles(
        cls, smiles: Iterable[str], *, with_descriptors: bool = True, limits: MoleculeLimits = MoleculeLimits()
    ) -> "MoleculeStore":
        """Read SMILES strings; molecules that occur again are stored once.

        Args:
            smiles: any writing of each molecule.
            with_descriptors: compute RDKit's whole-molecule descriptors (milliseconds a molecule); without them
                `global_features` has no column.
            limits: the largest molecule, and the longest time for one.

        Raises:
            DataError: a string is not a molecule, or exceeds a limit; the message counts its place from 1.
        """
        texts = list(smiles)
        store, _, reasons = cls.collect(texts, with_descriptors=with_descriptors, limits=limits)
        for place, text in enumerate(texts, start=1):
            if text in reasons:
                raise DataError(f"smiles, entry {place}: {reasons[text]}")
        return store

    @classmethod
    def collect(
        cls, smiles: Iterable[str], *, with_descriptors: bool = True, limits: MoleculeLimits = MoleculeLimits()
    ) -> tuple["MoleculeStore", Int64[np.ndarray, " molecule"], dict[str, str]]:
        """Read SMILES strings and go on over those that cannot be read.

        Returns:
            The store; for each string its molecule in the store, -1 where it cannot be read; and the reason for
            each string that cannot.

        Cost: one call to RDKit for each distinct string, each bounded by `limits`.
        """
        texts = list(smiles)
        graph_of_text: dict[str, int] = {}
        graph_of_canonical: dict[str, int] = {}
        reasons: dict[str, str] = {}
        written: list[str] = []
        arrays: list[MoleculeArrays] = []
        global_features: list[np.ndarray] = []
        distinct = list(dict.fromkeys(texts))
        read = featurize(distinct, limits, with_descriptors=with_descriptors)
        for text, found in zip(counted(distinct, "reading molecules"), read, strict=True):
            if isinstance(found, DataError):
                reasons[text], graph_of_text[text] = str(found), -1
                continue
            graph_of_text[text] = graph_of_canonical.setdefault(found.canonical, len(written))
            if graph_of_text[text] == len(written):
                written.append(text)
                arrays.append(found.arrays)
                global_features.append(found.descriptors)
        store = cls._from_arrays(written, list(graph_of_canonical), arrays, global_features, with_descriptors)
        store = replace(store, limits=limits)
        return store, np.array([graph_of_text[text] for text in texts], dtype=np.int64), reasons

    @classmethod
    def _from_arrays(
        cls,
        written: list[str],
        canonical: list[str],
        arrays: list[MoleculeArrays],
        global_features: list[np.ndarray],
        with_descriptors: bool,
    ) -> "MoleculeStore":
        num_global = len(GLOBAL_FEATURE_NAMES) if with_descriptors else 0
        no_edge = np.zeros(0, dtype=np.int64)
        no_node = np.zeros((0, len(NODE_FEATURE_NAMES)), dtype=np.float32)
        no_edge_row = np.zeros((0, len(EDGE_FEATURE_NAMES)), dtype=np.float32)
        return cls(
            smiles=tuple(written),
            canonical=tuple(canonical),
            node_features=torch.from_numpy(np.concatenate([no_node, *(a.node_features for a in arrays)])),
            senders=torch.from_numpy(np.concatenate([no_edge, *(a.senders for a in arrays)])),
            receivers=torch.from_numpy(np.concatenate([no_edge, *(a.receivers for a in arrays)])),
            edge_features=torch.from_numpy(np.concatenate([no_edge_row, *(a.edge_features for a in arrays)])),
            node_offsets=torch.from_numpy(offsets_of([len(a.node_features) for a in arrays])),
            edge_offsets=torch.from_numpy(offsets_of([len(a.senders) for a in arrays])),
            global_features=torch.from_numpy(np.array(global_features).reshape(len(arrays), num_global)),
        )

    @cached_property
    def edge_types(self) -> tuple[Tensor, np.ndarray]:
        """The few different rows of `edge_features`, and which of them each edge has."""
        features = self.edge_features.numpy()
        # One number a row, to be sorted by: equal rows have the same one.
        codes = features.astype(np.float64) @ np.random.default_rng(0).random(features.shape[1])
        _, first, types = np.unique(codes, return_index=True, return_inverse=True)
        if not (features[first][types] == features).all():
            first = types = np.arange(len(features))
        return torch.from_numpy(features[first]), types.reshape(-1)

    def __len__(self) -> int:
        """How many distinct molecules there are."""
        return len(self.smiles)

    def example(self, graph: int) -> Example:
        """One molecule with the characters of each atom, in the way it was first written."""
        return example_from_smiles(self.smiles[graph])

    @cached_property
    def conformers(self) -> tuple[Conformer, ...]:
        """Where the atoms of each molecule are, and how that was found; computed at first use."""
        found = conformers(self.smiles, self.limits)
        return tuple(next(found) for _ in counted(self.smiles, "placing atoms"))

    @property
    def conformer_note(self) -> str:
        """How many conformers were not found at once, and how instead; empty where all were."""
        return conformer_note([each.how for each in self.conformers], self.smiles)

    def with_coordinates(self) -> "MoleculeStore":
        """The same molecules, and where their atoms are."""
        no_node = np.zeros((0, 3), dtype=np.float32)
        places = np.concatenate([no_node, *(each.coordinates for each in self.conformers)])
        return replace(self, coordinates=torch.from_numpy(places))

    def with_global_features(self, values: Numbers) -> "MoleculeStore":
        """The same molecules with other global features, such as scaled ones, in float32.

        Args:
            values: `(graph, feature)`, one row a molecule; `(graph, 0)` for none.

        Raises:
            DataError: the number of rows is not the number of molecules.
        """
        tensor = _float32(values)
        if tensor.ndim != 2 or tensor.shape[0] != len(self):
            raise DataError(
                f"with_global_features: values has shape {tuple(tensor.shape)}, expected ({len(self)}, feature): "
                "one row a molecule of the store."
            )
        return replace(self, global_features=tensor)

    def batch(
        self,
        graph_of_row: Numbers,
        conditions: Numbers,
        targets: Numbers | None = None,
        weights: Numbers | None = None,
    ) -> Batch:
        """The rows as one batch that holds each distinct molecule they use exactly once.

        Args:
            graph_of_row: int64 `(row, component)`, molecules by their place in this store.
            conditions: `(row, condition)` in model units; `(row, 0)` for none.
            targets: `(row, target)` in model units, NaN for missing.
            weights: `(row,)`.

        Returns:
            A `Batch` whose `graph_of_row` counts within the batch, graphs in the order of the store.

        Raises:
            DataError: a molecule is -1 (its row cannot be read) or not in the store.

        Cost: proportional to the atoms and bonds in the batch, without a loop over molecules.
        """
        wanted = np.asarray(graph_of_row, dtype=np.int64)
        graphs, places = np.unique(wanted, return_inverse=True)
        if graphs.size and (graphs[0] < 0 or graphs[-1] >= len(self)):
            wrong = graphs[0] if graphs[0] < 0 else graphs[-1]
            raise DataError(
                f"batch: graph_of_row holds {wrong}, expected 0 to {len(self) - 1}: batch usable rows only."
            )
        union = Union.of(graphs, self.node_offsets, self.edge_offsets, self.senders, self.receivers)
        features, types = self.edge_types
        loops = np.full(len(union.nodes), len(features))
        rows = torch.from_numpy(np.concatenate([types[union.edge_places], loops]))
        batch = Batch(
            node_features=take(self.node_features, union.nodes),
            edges=union.edges,
            edge_features=take(self.edge_features, union.edge_places),
            global_features=take(self.global_features, graphs),
            offsets=union.offsets,
            graph_of_row=torch.from_numpy(places.reshape(wanted.shape)),
            conditions=_float32(conditions),
            targets=None if targets is None else _float32(targets),
            weights=None if weights is None else _float32(weights),
            coordinates=None if self.coordinates is None else take(self.coordinates, union.nodes),
        )
        return batch.with_edge_types(EdgeTypes(features, EdgeRows(rows, len(features) + 1)))


def _float32(values: Numbers) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
