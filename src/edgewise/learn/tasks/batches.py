"""Rows of a table in the units of a model, as batches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.fitted_table import PrecomputedModel
from edgewise.learn.tables.rows import Rows
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.training.loader import BatchLike


@dataclass(frozen=True, eq=False)
class RowBatches:
    """Rows in the units of a model."""

    batch: Callable[[np.ndarray], BatchLike]
    """Makes a batch of rows to predict."""
    targets: Float32[np.ndarray, " row target"]
    """In model units; class numbers for classes."""
    weights: Float32[np.ndarray, " row"]
    """How much each row counts."""
    graph: Graph | None = None
    """The whole graph, where rows are of one graph."""
    precomputed_model: Callable[[nn.Module, np.ndarray, str], PrecomputedModel] | None = None
    """From a network, rows and a device to what predicts these rows in place of the network, which computes all rows of
    a store at once; None where a network predicts batch after batch."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        scale: TargetScaler | None,
        batch: Callable[[np.ndarray], BatchLike],
        graph: Graph | None = None,
        precomputed_model: Callable[[nn.Module, np.ndarray, str], PrecomputedModel] | None = None,
    ) -> Self:
        """The rows of a data set, with their targets scaled."""
        targets = rows.targets
        if scale is not None and targets.shape[1]:
            targets = scale.transform(targets)
        return cls(batch, targets.astype(np.float32), rows.weights.astype(np.float32), graph, precomputed_model)

    @classmethod
    def of_nodes(
        cls,
        rows: Rows,
        scale: TargetScaler | None,
        graph: Graph,
        precomputed_model: Callable[[nn.Module, np.ndarray, str], PrecomputedModel] | None = None,
    ) -> Self:
        """The same of rows that are the nodes of one graph."""

        def batch(numbers: np.ndarray) -> Batch:
            return Batch(graph, Supervision(nodes=torch.from_numpy(np.asarray(numbers, dtype=np.int64))))

        return cls.of(rows, scale, batch, graph, precomputed_model)

    def training_batch(self, rows: np.ndarray) -> BatchLike:
        """Rows to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        batch = self.batch(rows)
        if isinstance(batch, Batch):
            return batch.with_targets(targets, weights)
        return replace(batch, targets=targets, weights=weights)
