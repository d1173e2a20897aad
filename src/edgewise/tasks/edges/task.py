"""Edges: a number or a class for each edge of one graph, such as trust, fraud, or the rating of a product."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64

from edgewise.data.columns import AUTO, Columns
from edgewise.data.graphs.edges import EdgeList, read_edges
from edgewise.data.graphs.names import NodeNames
from edgewise.data.graphs.node_features import NodeFeatures, features_of_columns
from edgewise.data.graphs.nodes import named, with_features
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import TypeScaler
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.data.split import Splits
from edgewise.data.tables.cell import Problems, stripped
from edgewise.data.tables.read import Cells, read_cells
from edgewise.data.tables.rows import Table, judged, read_files
from edgewise.errors import DataError, SettingError
from edgewise.models.edge import EdgeBatch, EdgeModel
from edgewise.models.graph_settings import NodeSettings, NodeSizes
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.records import NodeBatch
from edgewise.tasks.edges.job import LAYERS, RECIPE, EdgeJob, edge_job
from edgewise.tasks.nodes.units import FeatureScale, scale_of, scaled, with_loops
from edgewise.tasks.table_task import Features, TableTask, num_outputs, target_fields, target_scale
from edgewise.tasks.task import PredictRequest, Prepared
from edgewise.tasks.trained import TrainedTable


@dataclass(frozen=True, eq=False)
class EdgeTable(Table):
    """The edges of one graph; an edge without a target carries messages, and is not learned from."""

    names: tuple[str, ...]
    """The names of the nodes."""
    nodes: NodeFeatures
    """The features of each node."""
    edges: EdgeList
    """The edges that can be read, in the order of their rows."""
    place: Int64[np.ndarray, " row"]
    """Which of `edges` each row is; −1 where it cannot be read."""

    @property
    def unit(self) -> str:
        """What rows are made of."""
        return "edges"

    @property
    def trainable(self) -> Bool[np.ndarray, " row"]:
        """True for edges that can be learned from, or judged by."""
        return self.usable & ~np.isnan(self.targets).all(axis=1)

    def contents(self, rows: np.ndarray) -> list[tuple[Any, ...]]:
        """The two nodes of some edges."""
        places = self.place[rows]
        ends = zip(self.edges.senders[places].tolist(), self.edges.receivers[places].tolist(), strict=True)
        return [(self.names[sender], self.names[receiver]) for sender, receiver in ends]

    def features(self, rows: np.ndarray) -> Float32[np.ndarray, " row feature"]:
        """The features of some edges and of their two nodes, side by side."""
        places = self.place[rows]
        ends = (self.nodes.of_rows(side[places]) for side in (self.edges.senders, self.edges.receivers))
        return np.concatenate([self.edges.features[places], *ends], axis=1)


def read_edge_table(
    paths: Sequence[str],
    columns: Columns,
    source: GraphSource,
    nodes: str | None,
    *,
    strict: bool = False,
    need_targets: bool = True,
) -> EdgeTable:
    """Reads the edges of a graph with their targets, and its nodes.

    Args:
        paths: tables of edges.
        columns: the role of each column; targets, weights, splits and groups are those of edges, `node_column` and
            `descriptors_columns` those of nodes.
        source: the columns of the ends and of the features of edges.
        nodes: the table of nodes; None takes their names from the edges, and their degrees as features.
        strict: stop at the first row that cannot be used.
        need_targets: False reads edges to predict.

    Raises:
        DataError: a file cannot be used as a whole, or `strict` and a row cannot be used.
    """
    first = read_cells(paths[0]).frame.columns if not source.edge_columns else ()
    ends = source.edge_columns or tuple(first[:2])
    others = (*columns.ignore_columns, *ends[1:], *source.edge_feature_columns)
    own = replace(columns, node_column=ends[0], descriptors_columns=(), ignore_columns=others)
    cells, own = read_files(paths, own, need_targets)
    names, features, of_nodes, problems = nodes_of(cells, ends, columns, nodes)
    numbered = replace(cells, lines=np.arange(len(cells.frame)))  # lines of several files are not unique
    edges = read_edges(
        numbered,
        NodeNames(names),
        nodes or cells.source,
        edge_columns=ends,
        feature_columns=source.edge_feature_columns,
    )
    for each in edges.rejected:
        problems.add(each.line, each.column, each.value, each.reason)
    found = judged(cells, own, problems, None, strict=strict, need_targets=need_targets, may_lack_targets=True)
    found["columns"] = replace(of_nodes, target_columns=own.target_columns, task_type=found["columns"].task_type)
    is_edge = ~np.isin(numbered.lines, [each.line for each in edges.rejected])
    place = np.where(is_edge, np.cumsum(is_edge) - 1, -1)
    if not features.shape[1]:
        sides = (edges.receivers, edges.senders)
        features = NodeFeatures.of(np.stack([np.bincount(side, minlength=len(names)) for side in sides], 1))
    return EdgeTable(**found, names=names, nodes=features, edges=edges, place=place)


def nodes_of(
    cells: Cells, ends: Sequence[str], columns: Columns, path: str | None
) -> tuple[tuple[str, ...], NodeFeatures, Columns, Problems]:
    """The names and features of the nodes, and the columns with those of nodes named."""
    if path is None:
        both = [name for end in ends for name in stripped(cells.frame[end]).to_pylist()]
        names = tuple(dict.fromkeys(name for name in both if name))
        return names, NodeFeatures.of(np.zeros((len(names), 0))), columns, Problems()
    found, own, names = named(read_cells(path), Columns(node_column=columns.node_column or AUTO))
    own = with_features(found, replace(own, descriptors_columns=columns.descriptors_columns))
    features, bad = features_of_columns(found, own.descriptors_columns)
    if bad.first:
        row = min(bad.first)
        column, _, reason = bad.first[row]
        raise DataError(f"{path}, line {found.lines[row]}, column {column!r}: {reason}; mend the cell.")
    columns = replace(columns, node_column=own.node_column, descriptors_columns=own.descriptors_columns)
    return names, features, columns, Problems()


@dataclass(frozen=True, eq=False)
class EdgeBatches:
    """A graph in the units of a model: each batch is all of it, and the edges that are predicted."""

    table: EdgeTable
    """The edges."""
    graph: NodeBatch
    """The graph, without rows."""
    features: Float32[np.ndarray, " edge feature"]
    """Of the edges that can be read, scaled."""
    targets: Float32[np.ndarray, " row target"]
    """In model units."""

    def batch(self, rows: np.ndarray) -> EdgeBatch:
        """Rows to predict."""
        places, edges = self.table.place[rows], self.table.edges
        senders, receivers, features = (
            torch.from_numpy(each[places]) for each in (edges.senders, edges.receivers, self.features)
        )
        return EdgeBatch(self.graph, senders, receivers, features)

    def training_batch(self, rows: np.ndarray) -> EdgeBatch:
        """Rows to learn from."""
        weights = torch.from_numpy(self.table.weights[rows].astype(np.float32))
        return replace(self.batch(rows), targets=torch.from_numpy(self.targets[rows]), weights=weights)


@dataclass(kw_only=True)
class TrainedEdges(TrainedTable):
    """A trained ensemble over the edges of a graph."""

    FORMAT = "edgewise edge model"

    settings: NodeSettings
    """The layers and their sizes."""
    sizes: NodeSizes
    """What the data looks like."""
    graph: GraphSource
    """How the edges of the training graph were read."""
    feature_scale: FeatureScale
    """How the features of nodes are scaled."""
    scaler: ConditionScaler | None
    """Of the features of nodes, where they are scaled by their spread."""
    edge_scaler: ConditionScaler
    """Of the features of edges."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    num_columns: int
    """Features of a node as they stand in the file."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scale

    @property
    def rows_a_batch(self) -> int:
        """Rows that are computed together: all of them, since each batch is the whole graph."""
        return 1 << 40

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> EdgeModel:
        """A model before its first step, drawn from torch's generator."""
        num_features = self.edge_scaler.num_features
        return EdgeModel(self.sizes, num_features, self.settings, is_directed=self.graph.directed)

    def batches(self, table: EdgeTable) -> EdgeBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        sizes = (table.nodes.shape[1], self.num_columns), (table.edges.features.shape[1], len(self.edge_scaler.mean))
        for what, (given, known) in zip(("nodes", "edges"), sizes, strict=True):
            if given != known:
                raise DataError(
                    f"{table.source}: its {what} have {given} features, but the model was trained on {known}."
                )
        features = self.edge_scaler.transform(table.edges.features.astype(np.float64)).astype(np.float32)
        carried = replace(table.edges, features=features)
        if not self.graph.directed:
            carried = carried.both_ways(len(table.names))
        count = len(table.names)
        edges = Edges(torch.from_numpy(carried.senders), torch.from_numpy(carried.receivers), count, count)
        of_edges = torch.from_numpy(carried.features)
        if self.settings.has_loops:
            edges, of_edges = with_loops(edges, of_edges)
        nodes, rows = scaled(table.nodes, self.feature_scale, self.scaler), torch.zeros(0, dtype=torch.int64)
        targets = table.targets
        if self.scale is not None and targets.shape[1]:
            targets = self.scale.transform(targets)
        return EdgeBatches(table, NodeBatch(nodes, edges, of_edges, rows), features, targets.astype(np.float32))


class EdgesTask(TableTask):
    """Numbers or classes of the edges of a graph."""

    name = "edges"
    format = TrainedEdges.FORMAT
    noun = "edges"
    reads = ("coverage", "descriptors_columns", "node_column", "nodes")

    def job(self, settings: dict[str, Any], source: str) -> EdgeJob:
        return edge_job(settings, source)

    def read_table(self, settings: EdgeJob) -> EdgeTable:
        return read_edge_table(settings.data, settings.columns, settings.graph, settings.nodes, strict=settings.strict)

    def resolved(self, settings: EdgeJob, table: EdgeTable, splits: Splits) -> EdgeJob:
        """A step sees all training edges, unless a batch size is given."""
        train = settings.train
        return replace(settings, train=replace(train, batch_size=train.batch_size or len(splits.train)))

    def untrained(self, settings: EdgeJob, table: EdgeTable, splits: Splits) -> TrainedEdges:
        """The model before its first step; features are scaled by the whole graph, which training sees."""
        scale, scaler = scale_of(table.nodes, settings.feature_scale)
        assert not isinstance(scaler, TypeScaler)
        edge_scaler = ConditionScaler.fit(table.edges.features, np.arange(len(table.edges)))
        num_edge_features = edge_scaler.num_features
        sizes = NodeSizes(
            num_features=table.nodes.shape[1] if scaler is None else scaler.num_features,
            num_edge_features=num_edge_features + settings.model.has_loops if num_edge_features else 0,
            num_outputs=num_outputs(table),
        )
        return TrainedEdges(
            **target_fields(table, settings.coverage),
            settings=settings.model,
            sizes=sizes,
            graph=settings.graph,
            feature_scale=scale,
            scaler=scaler,
            edge_scaler=edge_scaler,
            scale=target_scale(table, splits.train),
            num_columns=table.nodes.shape[1],
        )

    def features(self, prepared: Prepared) -> Features:
        """The features of the edges and of their two nodes."""
        found: Features = prepared.data.features
        return found

    def notes(self, prepared: Prepared) -> list[str]:
        """The graph, and the edges without a target."""
        table, directed = prepared.data, prepared.settings.graph.directed
        count = len(table.names)
        many = plural(table.nodes.shape[1], "feature")
        ways = "messages go along them" if directed else "messages go both ways"
        found = [f"{plural(count, 'node')} with {many}; {ways}", *table.edges.notes(count)]
        if unlabelled := int((table.usable & np.isnan(table.targets).all(axis=1)).sum()):
            found.append(f"{plural(unlabelled, 'edge has', 'edges have')} no target, and only carry messages")
        return found

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        trained = TrainedEdges.load(request.run_folder)
        known = trained.columns
        if known.descriptors_columns and request.nodes is None:
            raise SettingError(
                f"{request.folder} was trained on features of nodes; name their table: --nodes nodes.csv."
            )
        columns = known.to_predict(
            node_column=request.node_column or (AUTO if request.nodes else known.node_column),
            descriptors_columns=tuple(request.descriptors_columns or known.descriptors_columns),
        )
        table = read_edge_table(
            [request.data], columns, trained.graph, request.nodes, strict=request.strict, need_targets=False
        )
        return trained, table

    def defaults(self) -> tuple[Any, Any]:
        return LAYERS, RECIPE


TASK = EdgesTask()
