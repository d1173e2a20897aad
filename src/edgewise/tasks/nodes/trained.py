"""A trained ensemble over the nodes of a graph, with all it needs to read a new one: features, scales, sizes."""

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.data.columns import Columns
from edgewise.data.graphs.nodes import NodeFeatures, NodeTable
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import GraphTypes, TypeNames, TypeScaler
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.data.split import Splits
from edgewise.errors import DataError
from edgewise.models.graph_settings import NodeSettings, NodeSizes
from edgewise.models.node import NodeModel
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.nodes.job import NodeJob
from edgewise.tasks.nodes.types import types_with_targets, widths, with_types
from edgewise.tasks.nodes.units import scale_of, scaled, with_loops
from edgewise.tasks.trained import TrainedTable
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


@dataclass(frozen=True)
class NodeDocument:
    """What model.json says of a model of nodes, beside its format."""

    columns: Columns
    classes: dict[str, tuple[str | int | float | bool, ...]]
    settings: NodeSettings
    sizes: NodeSizes
    graph: GraphSource
    feature_scale: Literal["rows", "standard", "none"]
    scaler: ConditionScaler | TypeScaler | None
    scale: TargetScaler | None
    num_columns: int
    ensemble_size: int
    coverage: float
    kinds: TypeNames | None = None
    categories: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scaler, columns, kinds = self.scaler, self.num_columns, self.kinds
        fits = (scaler is not None) == (self.feature_scale == "standard") and columns >= 0
        fits = fits and (kinds is None or all(0 <= c < columns for own in kinds.features for c in own))
        if isinstance(scaler, ConditionScaler):
            fits = fits and (len(scaler.mean), scaler.num_features) == (columns, self.sizes.num_features)
        if isinstance(scaler, TypeScaler):
            widths = [len(each.mean) for each in scaler.scalers]
            fits = fits and kinds is not None and widths == [len(own) for own in kinds.features]
        if not fits:
            raise DataError("feature_scale, scaler, num_columns, sizes and kinds do not fit each other.")


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
    scaler: ConditionScaler | TypeScaler | None
    """Of the features, where they are scaled by their spread."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    num_columns: int
    """Features of a node as they stand in the file."""
    kinds: TypeNames | None = None
    """The kinds of nodes and edges; None where the model does not look at them."""
    categories: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """The words of each column of categories."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; the model is told of loops by one more, of kinds by others."""
        added = self.settings.has_loops + (len(EDGE_TYPES) if self.settings.is_extended else 0)
        return max(0, self.sizes.num_edge_features - added)

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together: all of them, since each batch is the whole graph."""
        return 1 << 40

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

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
        if self.settings.is_extended:
            edges, features = _with_extras(edges, features, self.settings)
        nodes, rows = self.features(table.features, table.types), torch.zeros(0, dtype=torch.int64)
        graph = NodeBatch(nodes, edges, features, rows, positions=self.positions(table))
        if table.types is not None:
            graph = with_types(graph, table.types)
        return NodeBatches(graph, targets.astype(np.float32), table.weights.astype(np.float32))

    def positions(self, table: NodeTable) -> torch.Tensor | None:
        """Where each node stands in the graph, as far as the model looks at it."""
        counts = self.settings.laplacian_positions, self.settings.random_walk_positions
        if not any(counts):
            return None
        from edgewise.data.graphs.position import positions_of

        return positions_of(table.edges, table.num_rows, *counts)

    def features(self, features: NodeFeatures, kinds: GraphTypes | None = None) -> torch.Tensor | SparseFeatures:
        """What is known of each node in the units of the model."""
        return scaled(features, self.feature_scale, self.scaler, kinds)

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
            "kinds": None if self.kinds is None else dataclasses.asdict(self.kinds),
            "categories": self.categories,
            "ensemble_size": len(self.members),
            "coverage": self.coverage,
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, NodeDocument)
        parts = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        ensemble_size = parts.pop("ensemble_size")
        trained = cls(members=[], errors=np.zeros((0, 0)), **parts)
        trained.take_tensors(folder, ensemble_size)
        return trained


def untrained_nodes(table: NodeTable, splits: Splits, job: NodeJob) -> TrainedNodes:
    """All that is known before the first step.

    The scale of the targets is learned on the training nodes; that of the features on all nodes, which are all seen in
    training, as the graph is learned whole.
    """
    is_number = table.columns.task_type == "regression"
    kinds = table.types
    scale, scaler = scale_of(table.features, job.feature_scale, kinds)
    kind_features = () if kinds is None else widths(kinds, scaler if isinstance(scaler, TypeScaler) else None)
    num_edge_features = table.edges.features.shape[1]
    if num_edge_features:
        num_edge_features += job.model.has_loops
    if job.model.is_extended:
        num_edge_features += len(EDGE_TYPES)
    classes = [len(names) for names in table.classes.values()]
    num_outputs = sum(classes) if table.columns.task_type == "multiclass" else len(table.columns.target_columns)
    sizes = NodeSizes(
        num_features=scaler.num_features if isinstance(scaler, ConditionScaler) else table.features.shape[1],
        num_edge_features=num_edge_features,
        num_outputs=num_outputs,
        kind_features=kind_features,
        num_relations=0 if kinds is None else len(kinds.names.relations),
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
        categories=table.categories,
        kinds=None if kinds is None else replace(kinds.names, predicted=types_with_targets(table, splits.train)),
    )


def _with_extras(edges: Edges, features: torch.Tensor, settings: NodeSettings) -> tuple[Edges, torch.Tensor]:
    """The edges and those that are added to the graph; further features tell of every edge of which kind it is.

    The draw is always the same, so that a graph that is predicted has the edges that it was learned with.
    """
    extended, kinds = extend_edges(
        edges, expander_degree=settings.expander_degree, num_virtual_nodes=settings.num_virtual_nodes
    )
    known = F.pad(features, (0, 0, 0, extended.num_edges - len(features)))
    return extended, torch.cat([known, F.one_hot(kinds, len(EDGE_TYPES)).to(features.dtype)], 1)
