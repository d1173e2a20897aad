"""Every distinct molecule of texts that come in parts, as arrays, molecule after molecule."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int32, Int64

from edgewise.errors import DataError
from edgewise.learn.files import release_memory
from edgewise.learn.progress import Stage
from edgewise.learn.readers.molecules.bounded import Featurized, featurize
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
from edgewise.learn.readers.molecules.feature import EDGE_FEATURE_NAMES, NODE_FEATURE_NAMES
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.tables.mapped import DigestIndex, digests, growing, growing_texts

BATCH_SIZE = 512
"""Molecules whose arrays are joined at the same time."""
CODES = 2**20
"""Types of edges that are renumbered together."""


class RowTypes:
    """The few distinct rows of features of atoms or bonds, numbered in the order of their first use.

    Args:
        num_features: numbers of a row.
    """

    def __init__(self, num_features: int):
        # One number a row, by which equal rows come together.
        self._weights = np.random.default_rng(0).random(num_features)
        self._numbers: dict[bytes, int] = {}

    def of(self, rows: Float32[np.ndarray, " row feature"]) -> Int32[np.ndarray, " row"]:
        """The type of each row."""
        _, first, which = np.unique(self._sums(rows), return_index=True, return_inverse=True)
        if not (rows[first][which] == rows).all():
            first = which = np.arange(len(rows))
        numbers = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in rows[first]]
        return np.array(numbers, np.int32)[which.reshape(-1)]

    @property
    def rows(self) -> Float32[np.ndarray, " type feature"]:
        """The row of each type."""
        return np.frombuffer(b"".join(self._numbers), np.float32).reshape(-1, len(self._weights)).copy()

    def sorted(self) -> tuple[Float32[np.ndarray, " type feature"], Int32[np.ndarray, " type"]]:
        """The row of each type in an order that does not depend on which came first, and the new number of each."""
        rows = self.rows
        order = np.argsort(self._sums(rows), kind="stable")
        ranks = np.empty(len(rows), np.int32)
        ranks[order] = np.arange(len(rows))
        return rows[order], ranks

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return rows.astype(np.float64) @ self._weights


class DistinctMolecules:
    """Molecules of texts that come in parts; repeated ones are stored once.

    Two texts are the same molecule when RDKit writes them the same canonical way.

    Args:
        limits: the largest molecule, and the longest time for one.
        with_descriptors: compute RDKit's whole-molecule descriptors; or the names of those to compute.
        is_mapped: put all arrays into mapped files. In memory stay 48 bytes a molecule until the end.
    """

    def __init__(self, limits: MoleculeLimits, *, with_descriptors: bool | Sequence[str], is_mapped: bool = False):
        self.limits, self.is_mapped = limits, is_mapped
        names = DESCRIPTOR_NAMES if with_descriptors is True else with_descriptors or ()
        self.descriptors = tuple(names)
        self._known_texts, self._known_molecules = DigestIndex(), DigestIndex()
        self._node_types, self._edge_types = RowTypes(len(NODE_FEATURE_NAMES)), RowTypes(len(EDGE_FEATURE_NAMES))
        narrow, wide = ("type_of_node", "type_of_edge", "senders", "receivers"), ("node_offsets", "edge_offsets")
        self._arrays = {name: growing(np.int32, is_mapped=is_mapped) for name in narrow}
        self._arrays |= {name: growing(np.int64, is_mapped=is_mapped) for name in wide}
        self._arrays["graph_features"] = growing(np.float64, (len(self.descriptors),), is_mapped=is_mapped)
        for name in ("node_offsets", "edge_offsets"):
            self._arrays[name].append([0])
        self._texts = {name: growing_texts(is_mapped=is_mapped) for name in ("smiles", "canonical")}

    def __len__(self) -> int:
        """The number of molecules."""
        return int(self._arrays["node_offsets"].num_rows) - 1

    def add(self, texts: Sequence[str], current: Stage) -> tuple[Int64[np.ndarray, " text"], dict[str, str]]:
        """Reads some texts, each of which occurs once.

        Args:
            texts: SMILES.
            current: counts them.

        Returns:
            For each text its molecule, -1 where it cannot be read; and the reason for each that cannot.

        Cost: one call to RDKit for each text that did not come before, each bounded by `limits`.
        """
        hashes = digests(texts)
        graphs, reasons = self._known_texts.find(hashes), dict[str, str]()
        new = np.flatnonzero(graphs < 0)
        current.done += len(texts) - len(new)

        read = featurize([texts[index] for index in new.tolist()], self.limits, self.descriptors)
        for start in range(0, len(new), BATCH_SIZE):
            batch = new[start : start + BATCH_SIZE]
            new_texts, outcomes = list[int](), list[Featurized]()
            for index in batch.tolist():
                outcome = next(read)
                current.done += 1
                if isinstance(outcome, DataError):
                    reasons[texts[index]] = str(outcome)
                else:
                    new_texts.append(index)
                    outcomes.append(outcome)
            graphs[new_texts] = self._numbered([texts[index] for index in new_texts], outcomes)

        new = new[graphs[new] >= 0]
        self._known_texts.add(hashes[new], graphs[new])
        return graphs, reasons

    def _numbered(self, written: Sequence[str], outcomes: Sequence[Featurized]) -> Int64[np.ndarray, " molecule"]:
        """The number of each molecule; those that are new are stored."""
        hashes = digests(outcome.canonical for outcome in outcomes)
        graphs, number_of_smiles, new = self._known_molecules.find(hashes), dict[str, int](), list[int]()
        for index in np.flatnonzero(graphs < 0).tolist():
            name = outcomes[index].canonical
            if name not in number_of_smiles:
                number_of_smiles[name] = len(self) + len(number_of_smiles)
                new.append(index)
            graphs[index] = number_of_smiles[name]
        if new:
            self._known_molecules.add(hashes[new], graphs[new])
            self._store([written[index] for index in new], [outcomes[index] for index in new])
        return graphs

    def _store(self, written: Sequence[str], outcomes: Sequence[Featurized]) -> None:
        parts, arrays = [outcome.arrays for outcome in outcomes], self._arrays
        num_nodes, num_edges = (arrays[name].num_rows for name in ("type_of_node", "type_of_edge"))
        arrays["node_offsets"].append(num_nodes + np.cumsum([len(part.node_features) for part in parts]))
        arrays["edge_offsets"].append(num_edges + np.cumsum([len(part.senders) for part in parts]))
        arrays["type_of_node"].append(self._node_types.of(np.concatenate([part.node_features for part in parts])))
        arrays["type_of_edge"].append(self._edge_types.of(np.concatenate([part.edge_features for part in parts])))
        for name in ("senders", "receivers"):
            arrays[name].append(np.concatenate([getattr(part, name) for part in parts]))
        arrays["graph_features"].append(np.stack([outcome.descriptors for outcome in outcomes]))
        self._texts["smiles"].append(written)
        self._texts["canonical"].append([outcome.canonical for outcome in outcomes])

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name, with the row of each type of atoms and bonds; nothing can be added any more."""
        arrays = {name: array.mapped() for name, array in self._arrays.items()}
        arrays["node_types"] = self._node_types.rows
        arrays["edge_types"], ranks = self._edge_types.sorted()
        codes = arrays["type_of_edge"]
        for start in range(0, len(codes), CODES):
            codes[start : start + CODES] = ranks[codes[start : start + CODES]]
            release_memory([codes])
        return arrays

    def texts(self) -> dict[str, Sequence[str]]:
        """Each molecule as it was first written, and as RDKit writes it."""
        return {name: texts.texts() for name, texts in self._texts.items()}
