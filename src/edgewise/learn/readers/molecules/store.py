"""Every distinct molecule once, and batches of rows cut out of it by index arithmetic."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int32, Int64
from torch import Tensor

from edgewise.errors import DataError
from edgewise.graph import Batch, DistinctRows, Graph, Supervision
from edgewise.learn.files import release_memory
from edgewise.learn.progress import counted, stage
from edgewise.learn.readers.graphs.union import GraphUnion, take
from edgewise.learn.readers.molecules.bounded import conformers
from edgewise.learn.readers.molecules.conformer import Conformer, conformer_note
from edgewise.learn.readers.molecules.distinct import DistinctMolecules
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.molecule import murcko_scaffold
from edgewise.learn.readers.molecules.molecule_graph import MoleculeGraph, molecule_graph
from edgewise.neighborhood import EdgeRows

Numbers = np.ndarray | Tensor | Sequence


@dataclass(frozen=True, eq=False)
class MoleculeStore:
    """Every distinct molecule of a table once, as tensors, molecule after molecule, in memory or mapped.

    Two SMILES strings are the same molecule when RDKit writes them the same canonical way.
    """

    smiles: Sequence[str]
    """Each molecule as it was first written."""
    canonical: Sequence[str]
    """Each molecule as RDKit writes it."""
    node_types: Float32[Tensor, " node_type node_feature"]
    """The different rows that atoms have; columns as in `feature.NODE_FEATURE_NAMES`."""
    type_of_node: Int32[Tensor, " node"]
    """Which of them each atom has."""
    senders: Int32[Tensor, " edge"]
    """Atom each edge leaves, counted within its molecule."""
    receivers: Int32[Tensor, " edge"]
    """Atom each edge reaches, counted within its molecule."""
    edge_types: Float32[Tensor, " edge_type edge_feature"]
    """The different rows that bonds have; columns as in `feature.EDGE_FEATURE_NAMES`."""
    type_of_edge: Int32[Tensor, " edge"]
    """Which of them each edge has; a bond is two edges."""
    node_offsets: Int64[Tensor, " boundary"]
    """Atoms of molecule g are `node_offsets[g]:node_offsets[g + 1]`."""
    edge_offsets: Int64[Tensor, " boundary"]
    """Edges of molecule g are `edge_offsets[g]:edge_offsets[g + 1]`."""
    graph_features: Float[Tensor, " graph graph_feature"]
    """Raw RDKit descriptors in float64 (NaN where missing), or those of `with_graph_features`."""
    coordinates: Float32[Tensor, " node space"] | None = None
    """The coordinates of each atom, in ångström, after `with_coordinates`."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """How long RDKit may take for the conformer of one molecule."""
    scale: Callable[[np.ndarray], np.ndarray] | None = None
    """Scales the global features of a batch; None leaves them unchanged."""
    mapped: tuple[np.ndarray, ...] = ()
    """The mapped files that hold the molecules; none where they are in memory."""

    @classmethod
    def from_smiles(
        cls,
        smiles: Iterable[str],
        *,
        with_descriptors: bool | Sequence[str] = True,
        limits: MoleculeLimits = MoleculeLimits(),
    ) -> "MoleculeStore":
        """Read SMILES strings; molecules that occur again are stored once.

        Args:
            smiles: any writing of each molecule.
            with_descriptors: compute RDKit's whole-molecule descriptors (a millisecond a molecule), or those of the
                names; without them `graph_features` is empty.
            limits: the largest molecule, and the longest time for one.

        Raises:
            DataError: a string is not a molecule, or exceeds a limit; the message counts its place from 1.
        """
        texts = list(smiles)
        store, _, reasons = cls.collect(texts, with_descriptors=with_descriptors, limits=limits)
        for number, text in enumerate(texts, start=1):
            if text in reasons:
                raise DataError(f"smiles, entry {number}: {reasons[text]}")

        return store

    @classmethod
    def collect(
        cls,
        smiles: Iterable[str],
        *,
        with_descriptors: bool | Sequence[str] = True,
        limits: MoleculeLimits = MoleculeLimits(),
    ) -> tuple["MoleculeStore", Int64[np.ndarray, " molecule"], dict[str, str]]:
        """Read SMILES strings and go on over those that cannot be read.

        Returns:
            The store; for each string its molecule in the store, -1 where it cannot be read; and the reason for
            each string that cannot.

        Cost: one call to RDKit for each distinct string, each bounded by `limits`.
        """
        texts = list(smiles)
        distinct = list(dict.fromkeys(texts))
        molecules = DistinctMolecules(limits, with_descriptors=with_descriptors)
        with stage("reading molecules", len(distinct)) as current:
            graphs, reasons = molecules.add(distinct, current)
        graph_of_text = dict(zip(distinct, graphs.tolist(), strict=True))

        return cls.of(molecules), np.array([graph_of_text[text] for text in texts], dtype=np.int64), reasons

    @classmethod
    def of(cls, molecules: DistinctMolecules) -> "MoleculeStore":
        """The molecules that were read."""
        arrays, texts = molecules.arrays(), molecules.texts()
        mapped = [
            *arrays.values(),
            *(array for texts_of_column in texts.values() for array in getattr(texts_of_column, "arrays", ())),
        ]
        fields: dict[str, Any] = {**texts, **{name: torch.from_numpy(array) for name, array in arrays.items()}}
        return cls(**fields, limits=molecules.limits, mapped=tuple(mapped) if molecules.is_mapped else ())

    @property
    def node_features(self) -> Float32[Tensor, " node node_feature"]:
        """The features of every atom; of mapped stores more than fits into memory."""
        return self.node_types[self.type_of_node]

    @property
    def edge_features(self) -> Float32[Tensor, " edge edge_feature"]:
        """The features of every edge; of mapped stores more than fits into memory."""
        return self.edge_types[self.type_of_edge]

    def __len__(self) -> int:
        """The number of distinct molecules."""
        return len(self.smiles)

    def molecule_graph(self, graph: int) -> MoleculeGraph:
        """One molecule with the characters of each atom, in the way it was first written."""
        return molecule_graph(self.smiles[graph])

    @cached_property
    def _scaffolds(self) -> tuple[np.ndarray, dict[str, int]]:
        """The number of each molecule's scaffold, -1 before it is computed; and the numbers by scaffold."""
        return np.full(len(self), -1, np.int32), {}

    def scaffolds(self, graphs: Int64[np.ndarray, " graph"]) -> list[str]:
        """The Murcko scaffolds of some molecules; each is computed once."""
        numbers, number_of_scaffold = self._scaffolds
        for graph in np.unique(graphs[numbers[graphs] < 0]).tolist():
            numbers[graph] = number_of_scaffold.setdefault(
                murcko_scaffold(self.canonical[graph]), len(number_of_scaffold)
            )
        names = list(number_of_scaffold)
        return [names[number] for number in numbers[graphs].tolist()]

    @cached_property
    def conformers(self) -> tuple[Conformer, ...]:
        """The conformer of each molecule; computed at first use."""
        computed = conformers(self.smiles, self.limits)
        return tuple(next(computed) for _ in counted(self.smiles, "placing atoms"))

    @property
    def conformer_note(self) -> str:
        """A note about conformers that needed another way; empty without any."""
        return conformer_note([conformer.how for conformer in self.conformers], self.smiles)

    def with_coordinates(self) -> "MoleculeStore":
        """The same molecules with coordinates."""
        no_node = np.zeros((0, 3), dtype=np.float32)
        coordinates = np.concatenate([no_node, *(conformer.coordinates for conformer in self.conformers)])
        return replace(self, coordinates=torch.from_numpy(coordinates))

    def with_graph_features(self, values: Numbers) -> "MoleculeStore":
        """The same molecules with other global features, such as scaled ones, in float32.

        Args:
            values: `(graph, feature)`, one row a molecule; `(graph, 0)` for none.

        Raises:
            DataError: the number of rows is not the number of molecules.
        """
        tensor = _float32(values)
        if tensor.ndim != 2 or tensor.shape[0] != len(self):
            raise DataError(
                f"with_graph_features: values has shape {tuple(tensor.shape)}, expected ({len(self)}, feature): "
                "one row a molecule of the store."
            )

        return replace(self, graph_features=tensor)

    def with_scale(self, scale: Callable[[np.ndarray], np.ndarray]) -> "MoleculeStore":
        """The same molecules with scaled global features; those of a mapped store are scaled batch by batch."""
        if self.mapped:
            return replace(self, scale=scale)
        return self.with_graph_features(scale(self.graph_features.numpy()))

    def batch(self, graph_of_row: Numbers, row_features: Numbers) -> Batch:
        """The rows as one batch that holds each distinct molecule they use exactly once.

        Args:
            graph_of_row: int64 `(row, component)`, molecules by their place in this store.
            row_features: conditions `(row, condition)` in model units; `(row, 0)` for none.

        Returns:
            A batch whose `graph_of_row` counts within the batch, graphs in the order of the store.

        Raises:
            DataError: a molecule is -1 (its row cannot be read) or not in the store.

        Cost: proportional to the atoms and bonds in the batch, without a loop over molecules.
        """
        graphs_of_rows, features_of_rows = np.asarray(graph_of_row, dtype=np.int64), _float32(row_features)
        graphs, positions = np.unique(graphs_of_rows, return_inverse=True)
        if graphs.size and (graphs[0] < 0 or graphs[-1] >= len(self)):
            wrong = graphs[0] if graphs[0] < 0 else graphs[-1]
            raise DataError(
                f"batch: graph_of_row holds {wrong}, expected 0 to {len(self) - 1}: batch usable rows only."
            )

        rows = Supervision(
            graph_of_row=torch.from_numpy(positions.reshape(graphs_of_rows.shape)),
            row_features=features_of_rows if features_of_rows.shape[1] else None,
        )
        return Batch(self.union(graphs), rows)

    def union(self, graphs: Int64[np.ndarray, " graph"]) -> Graph:
        """Some molecules as one graph, in the order they are named."""
        union = GraphUnion.of(graphs, self.node_offsets, self.edge_offsets, self.senders, self.receivers)
        release_memory(self.mapped)  # the system maps 64 kB around each molecule, of each file
        types = self.type_of_edge.numpy()[union.edge_places].astype(np.int64)
        loops = np.full(len(union.nodes), len(self.edge_types))
        distinct_rows = EdgeRows(torch.from_numpy(np.concatenate([types, loops])), len(self.edge_types) + 1)

        graph_features = None
        if self.graph_features.shape[1]:
            raw = take(self.graph_features, graphs)
            graph_features = raw if self.scale is None else _float32(self.scale(raw.numpy()))
        graph = Graph.unchecked(
            take(self.node_types, self.type_of_node.numpy()[union.nodes]),
            union.edges,
            take(self.edge_types, types),
            graph_features=graph_features,
            offsets=union.offsets,
            coordinates=None if self.coordinates is None else take(self.coordinates, union.nodes),
            distinct_edge_features=DistinctRows(self.edge_types, distinct_rows),
        )
        release_memory(self.mapped)
        return graph


def _float32(values: Numbers) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
