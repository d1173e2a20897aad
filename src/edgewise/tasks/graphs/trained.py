"""A trained ensemble over many graphs, with all it needs to read new ones: words, scales, sizes."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from edgewise.data.graphs.columns import GraphColumns, GraphsSource
from edgewise.data.graphs.graphs import GraphTable
from edgewise.data.graphs.union import Union, take
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.data.split import Splits
from edgewise.errors import DataError
from edgewise.models.graph import GraphModel
from edgewise.models.graph_settings import GraphSettings, GraphSizes, NodeSettings
from edgewise.plural import plural
from edgewise.records import GraphBatch
from edgewise.tasks.graphs.job import GraphJob
from edgewise.tasks.nodes.trained import with_loops
from edgewise.tasks.trained import ROWS_A_BATCH, TrainedTable
from edgewise.train.folder import RunFolder

FORMAT, FORMAT_VERSION = "edgewise graph model", 1
NODES_A_BATCH = 100_000
"""Nodes that are computed together where no gradient is wanted, or about as many."""


@dataclass(frozen=True)
class GraphBatches:
    """Graphs in the units of a model: makes batches of them, each their disjoint union."""

    features: torch.Tensor
    """(node, feature), scaled, float32."""
    edge_features: torch.Tensor
    """(edge, feature), scaled, float32."""
    senders: torch.Tensor
    """(edge), counted within their graph, as are receivers."""
    receivers: torch.Tensor
    """(edge)."""
    offsets: torch.Tensor
    """(boundary): nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    edge_offsets: torch.Tensor
    """(boundary): the same for edges."""
    roots: np.ndarray | None
    """(row): the root of each, counted within the graph; None where nobody asks."""
    conditions: np.ndarray
    """(row, condition), scaled, float32."""
    targets: np.ndarray
    """(row, target), scaled, float32; class numbers for classes."""
    weights: np.ndarray
    """(row), float32."""
    has_loops: bool
    """Whether every node is to be among its own neighbors."""

    def batch(self, rows: np.ndarray) -> GraphBatch:
        """Graphs to predict."""
        union = Union.of(rows, self.offsets, self.edge_offsets, self.senders, self.receivers)
        edges, edge_features = union.edges, take(self.edge_features, union.edge_places)
        if self.has_loops:
            edges, edge_features = with_loops(edges, edge_features)
        roots = torch.zeros(0, dtype=torch.int64)
        if self.roots is not None:
            roots = torch.from_numpy(self.roots[rows]) + union.offsets[:-1]
        conditions = torch.from_numpy(self.conditions[rows])
        features = take(self.features, union.nodes)
        return GraphBatch(features, edges, edge_features, union.offsets, roots, conditions)

    def training_batch(self, rows: np.ndarray) -> GraphBatch:
        """Graphs to learn from."""
        targets, weights = torch.from_numpy(self.targets[rows]), torch.from_numpy(self.weights[rows])
        return replace(self.batch(rows), targets=targets, weights=weights)


@dataclass(frozen=True)
class Scales:
    """The scales learned on training graphs."""

    node: ConditionScaler
    """Of the features of nodes."""
    edge: ConditionScaler
    """Of the features of edges."""
    graph: ConditionScaler
    """Of the numbers of graphs as a whole."""
    target: TargetScaler | None
    """Of the targets; None for classes."""

    def to_json(self) -> dict[str, str | None]:
        """The scales in words."""
        parts = {"node": self.node, "edge": self.edge, "graph": self.graph, "target": self.target}
        return {name: None if scale is None else scale.to_json() for name, scale in parts.items()}


@dataclass(frozen=True)
class GraphDocument:
    """What model.json says of a model of graphs, beside its format."""

    columns: GraphColumns
    classes: dict[str, tuple[str | int | float | bool, ...]]
    settings: NodeSettings
    whole: GraphSettings
    sizes: GraphSizes
    graph: GraphsSource
    scales: Scales
    categories: dict[str, list[str]]
    ensemble_size: int
    coverage: float

    def __post_init__(self) -> None:
        for name, size, scaler in (
            ("num_features", self.sizes.num_features, self.scales.node),
            ("num_conditions", self.sizes.num_conditions, self.scales.graph),
        ):
            if size != scaler.num_features:
                raise DataError(f"sizes.{name} is {size}, but scales have {scaler.num_features}.")


@dataclass(kw_only=True)
class TrainedGraphs(TrainedTable):
    """A trained ensemble; `save` and `load` keep it in a run folder without pickle."""

    columns: GraphColumns
    """The columns it was trained on, targets by name."""
    settings: NodeSettings
    """The layers over the edges."""
    whole: GraphSettings
    """How the nodes of a graph become one vector."""
    sizes: GraphSizes
    """What the data looks like."""
    graph: GraphsSource
    """Where the edges of the training graphs were, and how they were read."""
    scales: Scales
    """The scales learned on the training graphs."""
    categories: dict[str, list[str]]
    """The words of each column of categories."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scales.target

    @property
    def rows_a_batch(self) -> int:
        """Graphs that are computed together: fewer where they are large."""
        return max(1, min(ROWS_A_BATCH, int(NODES_A_BATCH / self.sizes.typical_nodes)))

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> GraphModel:
        """A model before its first step, drawn from torch's generator."""
        return GraphModel(self.sizes, self.settings, self.whole)

    def batches(self, table: GraphTable) -> GraphBatches:
        """The graphs as the models take them.

        Raises:
            DataError: nodes, edges or graphs have another number of features than those of the training.
        """
        scales, edges = self.scales, table.edges
        columns = {
            "nodes": (table.features, scales.node),
            "edges": (edges.features, scales.edge),
            "graphs": (table.conditions, scales.graph),
        }
        for what, (values, scale) in columns.items():
            if values.shape[1] != len(scale.mean):
                raise DataError(
                    f"{table.source}: its {what} have {plural(values.shape[1], 'feature')}, but the "
                    "model was trained on "
                    f"{len(scale.mean)}."
                )
        features, edge_features, conditions = (
            scale.transform(values.astype(np.float64)).astype(np.float32) for values, scale in columns.values()
        )
        targets = table.targets
        if scales.target is not None and targets.shape[1]:
            targets = scales.target.transform(targets)
        starts = table.offsets[table.graph_of_edge]
        trees = table.trees
        return GraphBatches(
            torch.from_numpy(features),
            torch.from_numpy(edge_features),
            torch.from_numpy(edges.senders - starts),
            torch.from_numpy(edges.receivers - starts),
            torch.from_numpy(table.offsets),
            torch.from_numpy(table.edge_offsets),
            None if trees is None else trees.roots - table.offsets[:-1],
            conditions,
            targets.astype(np.float32),
            table.weights.astype(np.float32),
            self.settings.has_loops,
        )

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors and model.json."""
        self.save_tensors(folder)
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "columns": dataclasses.asdict(self.columns),
            "classes": {name: list(names) for name, names in self.classes.items()},
            "settings": dataclasses.asdict(self.settings),
            "whole": dataclasses.asdict(self.whole),
            "sizes": dataclasses.asdict(self.sizes),
            "graph": dataclasses.asdict(self.graph),
            "scales": self.scales.to_json(),
            "categories": self.categories,
            "ensemble_size": len(self.members),
            "coverage": self.coverage,
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, GraphDocument)
        parts = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        ensemble_size = parts.pop("ensemble_size")
        trained = cls(members=[], errors=np.zeros((0, 0)), **parts)
        trained.take_tensors(folder, ensemble_size)
        return trained


def untrained_graphs(table: GraphTable, splits: Splits, job: GraphJob) -> TrainedGraphs:
    """All that is known before the first step; scales are learned on the training graphs."""
    rows, columns = splits.train, table.columns
    is_number = columns.task_type == "regression"
    is_trained = np.isin(np.arange(table.num_rows), rows)
    nodes = np.flatnonzero(np.repeat(is_trained, table.num_nodes))
    edges = np.flatnonzero(is_trained[table.graph_of_edge])
    scales = Scales(
        ConditionScaler.fit(table.features, nodes),
        _scale_of_edges(table.edges.features, edges),
        ConditionScaler.fit(table.conditions, rows),
        TargetScaler.fit(table.targets, rows) if is_number else None,
    )
    num_edge_features = scales.edge.num_features
    classes = [len(names) for names in table.classes.values()]
    sizes = GraphSizes(
        num_features=scales.node.num_features,
        num_edge_features=num_edge_features + job.model.has_loops if num_edge_features else 0,
        num_conditions=scales.graph.num_features,
        num_outputs=sum(classes) if columns.task_type == "multiclass" else len(columns.target_columns),
        typical_nodes=float(table.num_nodes[rows].mean()),
    )
    assert isinstance(columns, GraphColumns)
    return TrainedGraphs(
        columns=columns,
        classes={} if is_number else dict(table.classes),
        members=[],
        errors=np.zeros((0, len(columns.target_columns))),
        coverage=job.coverage,
        settings=job.model,
        whole=job.whole,
        sizes=sizes,
        graph=job.graph,
        scales=scales,
        categories=table.categories,
    )


def _scale_of_edges(features: np.ndarray, edges: np.ndarray) -> ConditionScaler:
    """The scale of the features of edges; training graphs without an edge say nothing of it, and it gives 0 always."""
    if len(edges):
        return ConditionScaler.fit(features, edges)
    nothing = (0.0,) * features.shape[1]
    return ConditionScaler(nothing, nothing, (), (), (), ())
