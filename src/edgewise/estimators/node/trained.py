"""A trained ensemble over the nodes of a graph, with all it needs to read a new one: features, scales, sizes."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from safetensors.torch import load_file

from edgewise.data.columns import Columns
from edgewise.data.graph_source import GraphSource
from edgewise.data.nodes import NodeFeatures, NodeTable
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.data.split import Splits
from edgewise.errors import DataError
from edgewise.estimators.kept import undamaged
from edgewise.estimators.node.job import NodeJob
from edgewise.estimators.node.units import scale_of, scaled, with_loops
from edgewise.estimators.trained import TrainedTable, with_tuples
from edgewise.models.node import NodeModel
from edgewise.models.node_settings import NodeSettings, NodeSizes
from edgewise.neighborhood import Edges
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.train.folder import RunFolder

FORMAT, FORMAT_VERSION = "edgewise node model", 1


@dataclass(frozen=True)
class NodeBatches:
    """A graph in the units of a model: each batch is all of it, and the rows that are asked about."""

    graph: NodeBatch
    """The graph, without rows."""
    targets: np.ndarray
    """(row, target), scaled, float32; class numbers for classes."""
    weights: np.ndarray
    """(row), float32."""

    def batch(self, rows: np.ndarray) -> NodeBatch:
        """Rows to predict."""
        return replace(self.graph, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))

    def training_batch(self, rows: np.ndarray) -> NodeBatch:
        """Rows to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        return replace(self.batch(rows), targets=targets, weights=weights)


@dataclass(kw_only=True)
class TrainedNodes(TrainedTable):
    """A trained ensemble; `save` and `load` keep it in a run folder without pickle."""

    settings: NodeSettings
    """The layers and their sizes."""
    sizes: NodeSizes
    """What the data looks like."""
    graph: GraphSource
    """Where the edges of the training graph were, and how they were read."""
    feature_scale: str
    """rows, standard or none."""
    scaler: ConditionScaler | None
    """Of the features, where they are scaled by their spread."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    num_columns: int
    """Features of a node as they stand in the file."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; the model is told of loops by one more."""
        return max(0, self.sizes.num_edge_features - self.settings.has_loops)

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together: all of them, since each batch is the whole graph."""
        return 1 << 40

    def new_member(self) -> NodeModel:
        """A model before its first step, drawn from torch's generator."""
        return NodeModel(self.sizes, self.settings)

    def batches(self, table: NodeTable) -> NodeBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        found = table.features.shape[1], table.edges.features.shape[1]
        for what, known, given in zip(
            ("nodes", "edges"), (self.num_columns, self.num_edge_columns), found, strict=True
        ):
            if given != known:
                raise DataError(
                    f"{table.source}: its {what} have {given} features, but the model was trained on {known}."
                )
        targets = table.targets
        if self.scale is not None and targets.shape[1]:
            targets = self.scale.transform(targets)
        edges = Edges(
            torch.from_numpy(table.edges.senders),
            torch.from_numpy(table.edges.receivers),
            table.num_rows,
            table.num_rows,
        )
        features = torch.from_numpy(table.edges.features)
        if self.settings.has_loops:
            edges, features = with_loops(edges, features)
        graph = NodeBatch(self.features(table.features), edges, features, torch.zeros(0, dtype=torch.int64))
        return NodeBatches(graph, targets.astype(np.float32), table.weights.astype(np.float32))

    def features(self, features: NodeFeatures) -> torch.Tensor | SparseFeatures:
        """What is known of each node in the units of the model."""
        return scaled(features, self.feature_scale, self.scaler)

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        self.save_tensors(folder)
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "columns": dataclasses.asdict(self.columns),
            "classes": {name: list(names) for name, names in self.classes.items()},
            "settings": dataclasses.asdict(self.settings),
            "sizes": dataclasses.asdict(self.sizes),
            "graph": dataclasses.asdict(self.graph),
            "feature_scale": self.feature_scale,
            "scaler": None if self.scaler is None else self.scaler.to_json(),
            "scale": None if self.scale is None else self.scale.to_json(),
            "num_columns": self.num_columns,
            "ensemble_size": len(self.members),
            "coverage": self.coverage,
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        with undamaged(folder):
            trained = cls(
                columns=Columns(**with_tuples(content["columns"])),
                classes={name: tuple(names) for name, names in content["classes"].items()},
                members=[],
                errors=np.zeros((0, 0)),
                coverage=content["coverage"],
                settings=NodeSettings(**content["settings"]),
                sizes=NodeSizes(**content["sizes"]),
                graph=GraphSource(**with_tuples(content["graph"])),
                feature_scale=content["feature_scale"],
                scaler=None if content["scaler"] is None else ConditionScaler.from_json(content["scaler"]),
                scale=None if content["scale"] is None else TargetScaler.from_json(content["scale"]),
                num_columns=content["num_columns"],
            )
            trained.take_tensors(load_file(folder.path / "model.safetensors"), content["ensemble_size"])
        return trained


def untrained_nodes(table: NodeTable, splits: Splits, job: NodeJob) -> TrainedNodes:
    """All that is known before the first step.

    The scale of the targets is learned on the training nodes; that of the features on all nodes, which are all seen in
    training, as the graph is learned whole.
    """
    is_number = table.columns.task_type == "regression"
    scale, scaler = scale_of(table.features, job.feature_scale)
    num_edge_features = table.edges.features.shape[1]
    classes = [len(names) for names in table.classes.values()]
    num_outputs = sum(classes) if table.columns.task_type == "multiclass" else len(table.columns.target_columns)
    sizes = NodeSizes(
        num_features=table.features.shape[1] if scaler is None else scaler.num_features,
        num_edge_features=num_edge_features + job.model.has_loops if num_edge_features else 0,
        num_outputs=num_outputs,
    )
    return TrainedNodes(
        columns=table.columns,
        classes={} if is_number else dict(table.classes),
        members=[],
        errors=np.zeros((0, len(table.columns.target_columns))),
        coverage=job.coverage,
        settings=job.model,
        sizes=sizes,
        graph=job.graph,
        feature_scale=scale,
        scaler=scaler,
        scale=TargetScaler.fit(table.targets, splits.train) if is_number else None,
        num_columns=table.features.shape[1],
    )
