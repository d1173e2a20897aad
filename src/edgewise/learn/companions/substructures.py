"""What companions read of rows of molecules: counts of substructures beside descriptors and conditions."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.graph import Batch

RADIUS = 1
"""The radius of a substructure, in edges."""
ODD = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio, so that a bond and an atom of the same code do not meet."""


@dataclass(frozen=True)
class RowSizes:
    """The sizes of what companions read of a row."""

    num_components: int
    """Molecules of a row."""
    num_descriptors: int
    """Descriptors of a molecule."""
    num_substructures: int
    """Kinds of substructures that are counted in a molecule."""
    num_conditions: int
    """Numbers of the row itself."""

    @property
    def num_features(self) -> int:
        """Numbers of a row, all side by side."""
        return self.num_components * (self.num_descriptors + self.num_substructures) + self.num_conditions


def features_of(batch: Batch) -> Float[Tensor, " row feature"]:
    """The descriptors of a row's molecules, all scaled, the substructures in them, and the conditions, scaled."""
    rows, of_graphs = batch.supervision, (batch.graph.graph_features, batch.substructures)
    of_rows = [table[rows.graph_of_row].flatten(1) for table in of_graphs if table is not None]
    return torch.cat([*of_rows, *([] if rows.row_features is None else [rows.row_features])], 1)


def with_substructures(batch: Batch, num_kinds: int, radius: int = RADIUS) -> Batch:
    """The batch, which counts the substructures of its graphs: each node with all that is up to 0, 1, …,
    `radius` edges away; their kind is a hash of the features.

        c⁰_i = h(x_i);  cᵏ_i = h(cᵏ⁻¹_i, Σ_j h(cᵏ⁻¹_j, e_ij), k);  count_c = #{(i, k): cᵏ_i mod num_kinds = c}

    Source: Shervashidze et al. 2011 (Weisfeiler and Lehman's subtrees), whose sorted neighbors are a sum here; Rogers
    and Hahn 2010 (circular fingerprints).
    """
    graph, offsets, tables = batch.graph, batch.graph.offsets, (batch.graph.node_features, batch.graph.edge_features)
    assert offsets is not None
    senders, receivers = graph.edges.senders.numpy(), graph.edges.receivers.numpy()
    codes, bonds = (_codes(table.numpy()) for table in tables if isinstance(table, Tensor))
    graphs = np.repeat(np.arange(graph.num_graphs), np.diff(offsets.numpy()))

    counts = np.zeros((graph.num_graphs, num_kinds), np.float32)
    for step in range(radius + 1):
        if step:
            neighbor_sums = np.zeros_like(codes)
            np.add.at(neighbor_sums, receivers, _mixed(codes[senders] ^ (bonds * ODD)))
            codes = _mixed(codes * np.uint64(3) + _mixed(neighbor_sums) + np.uint64(step))
        np.add.at(counts, (graphs, (codes % np.uint64(num_kinds)).astype(np.int64)), 1)

    return replace(batch, substructures=torch.from_numpy(counts))


def _codes(rows: np.ndarray) -> np.ndarray:
    """A number of 64 bits for each row of features, which count to three digits."""
    factors = np.random.default_rng(0).integers(1, 2**62, rows.shape[1], dtype=np.uint64)
    digits = np.round(rows.astype(np.float64) * 1000).astype(np.int64).view(np.uint64)
    return _mixed((digits * factors).sum(1, dtype=np.uint64))


def _mixed(codes: np.ndarray) -> np.ndarray:
    """Each number as another that looks random (the last steps of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes = (codes ^ (codes >> np.uint64(shift))) * np.uint64(factor)
    return codes ^ (codes >> np.uint64(31))
