"""Nodes: a number or a class for each node of one graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.data.columns import AUTO, Columns
from edgewise.data.graphs.edges import AS_FEATURES
from edgewise.data.graphs.file import is_graph_file
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable, read_nodes
from edgewise.data.graphs.source import GraphSource
from edgewise.data.graphs.types import GraphTypes, TypeNames, TypeScaler
from edgewise.data.scale import ConditionScaler
from edgewise.data.split import Splits
from edgewise.errors import DataError, SettingError
from edgewise.models.graph_settings import NodeSettings, NodeSizes, edge_sizes
from edgewise.models.node import NodeModel
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges
from edgewise.plural import plural
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.batches import RowBatches
from edgewise.tasks.nodes import units
from edgewise.tasks.nodes.sampled import SampledLoader
from edgewise.tasks.nodes.settings import SAMPLED_ROWS, NodeRunSettings, holds_types
from edgewise.tasks.nodes.units import (
    FittedOnGraph,
    check_features,
    check_weights,
    graph_batch,
    graph_fields,
    note_of_edges,
    scaled,
    with_types,
)
from edgewise.tasks.table_task import Features, TableTask, num_outputs
from edgewise.tasks.task import PredictRequest, Prepared
from edgewise.train.loader import Loader
from edgewise.train.settings import TrainSettings


@dataclass(kw_only=True)
class FittedNodes(FittedOnGraph):
    """A trained ensemble over the nodes of a graph."""

    FORMAT = NodeRunSettings.FORMAT
    RENAMED: ClassVar[dict[str, str]] = {"kinds": "types"}

    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; loops and types of edges are further ones."""
        added = self.settings.has_loops + (len(EDGE_TYPES) if self.settings.is_extended else 0)
        return max(0, self.sizes.num_edge_features - added)

    def new_member(self) -> NodeModel:
        return NodeModel(self.sizes, self.settings)

    def read(self, paths: Sequence[str], columns: Columns, source: GraphSource, *, strict: bool = False) -> NodeTable:
        """A graph to predict, with the types and words that the model knows."""
        types = {"with_types": self.types is not None, "known": self.types}
        return read_nodes(paths, columns, source, strict=strict, **types, **self.known_words)

    def batches(self, table: NodeTable) -> RowBatches:
        """The graph as the models take it.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        found = table.features.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, self.num_edge_columns), found)
        check_weights(table.source, table.edges, self.settings, self.sizes)
        graph = graph_batch(self.features(table.features, table.types), table.edges, self.settings.has_loops)
        if self.settings.is_extended:
            edges, features = _with_extras(graph.edges, graph.edge_features, self.settings)
            graph = replace(graph, edges=edges, edge_features=features)
        graph = replace(graph, positions=self.positions(table))
        if table.types is not None:
            graph = with_types(graph, table.types)

        def batch(rows: np.ndarray) -> NodeBatch:
            return replace(graph, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))

        return RowBatches.of(table, self.scale, batch, graph)

    def positions(self, table: NodeTable) -> torch.Tensor | None:
        """Where each node stands in the graph, as far as the model looks at it."""
        counts = self.settings.laplacian_positions, self.settings.random_walk_positions
        if not any(counts):
            return None
        from edgewise.data.graphs.position import positions_of

        return positions_of(table.edges, table.num_rows, *counts)

    def features(self, features: NodeFeatures, types: GraphTypes | None = None) -> torch.Tensor | SparseFeatures:
        """What is known of each node in the units of the model."""
        return scaled(features, self.feature_scale, self.scaler, types)

    def check(self) -> None:
        super().check()
        scaler, columns, types = self.scaler, self.num_columns, self.types
        fits = (scaler is not None) == (self.feature_scale == "standard") and columns >= 0
        fits = fits and (types is None or all(0 <= c < columns for own in types.features for c in own))
        if isinstance(scaler, ConditionScaler):
            fits = fits and (len(scaler.mean), scaler.num_features) == (columns, self.sizes.num_features)
        if isinstance(scaler, TypeScaler):
            widths = [len(each.mean) for each in scaler.scalers]
            fits = fits and types is not None and widths == [len(own) for own in types.features]
        if not fits:
            raise DataError("feature_scale, scaler, num_columns, sizes and types do not fit each other.")


def _with_extras(edges: Edges, features: torch.Tensor, settings: NodeSettings) -> tuple[Edges, torch.Tensor]:
    """The edges and those that are added to the graph; further features say of which type each edge is.

    The draw is always the same, so that a graph that is predicted has the edges that it was trained with.
    """
    extended, types = extend_edges(
        edges, expander_degree=settings.expander_degree, num_virtual_nodes=settings.num_virtual_nodes
    )
    known = F.pad(features, (0, 0, 0, extended.num_edges - len(features)))
    return extended, torch.cat([known, F.one_hot(types, len(EDGE_TYPES)).to(features.dtype)], 1)


class NodesTask(TableTask):
    """Numbers or classes of the nodes of a graph."""

    settings_type = NodeRunSettings
    noun = "nodes"

    def read_table(self, settings: NodeRunSettings) -> NodeTable:
        with_types = settings.model.is_relational
        table = read_nodes(
            settings.data, settings.columns, settings.graph, strict=settings.strict, with_types=with_types
        )
        if settings.split in (None, "column"):
            return table
        return replace(table, columns=replace(table.columns, splits_column=None))

    def resolved(self, settings: NodeRunSettings, table: NodeTable, splits: Splits) -> NodeRunSettings:
        """A step sees all training nodes, unless a batch size is given or neighbors are sampled."""
        units.check_types(table, settings.model)
        batch_size = settings.train.batch_size or (SAMPLED_ROWS if settings.fanouts else len(splits.train))
        return replace(settings, train=replace(settings.train, batch_size=batch_size))

    def training_loader(self, rows: np.ndarray, prepared: Prepared, batches: Any, recipe: TrainSettings) -> Loader:
        """Batches see sampled neighborhoods where there are fanouts."""
        if not (fanouts := prepared.settings.fanouts):
            return super().training_loader(rows, prepared, batches, recipe)
        return SampledLoader(batches, rows, fanouts, recipe.batch_size or SAMPLED_ROWS, recipe.seed)

    def untrained(self, settings: NodeRunSettings, table: NodeTable, splits: Splits) -> FittedNodes:
        """The model before its first step."""
        found, model = table.types, settings.model
        known = graph_fields(settings, table, splits.train, table.features, found)
        scaler = known["scaler"]
        of_types = () if found is None else units.widths(found, scaler if isinstance(scaler, TypeScaler) else None)
        sizes = NodeSizes(
            num_features=scaler.num_features if isinstance(scaler, ConditionScaler) else table.features.shape[1],
            **edge_sizes(table.edges.features.shape[1], model, len(EDGE_TYPES) if model.is_extended else 0),
            num_outputs=num_outputs(table),
            type_features=of_types,
            num_relations=0 if found is None else len(found.names.relations),
        )
        return FittedNodes(
            **known,
            sizes=sizes,
            types=None
            if found is None
            else replace(found.names, predicted=units.types_with_targets(table, splits.train)),
        )

    def features(self, prepared: Prepared) -> Features:
        found: Features = prepared.data.features.of_rows
        return found

    def notes(self, prepared: Prepared) -> list[str]:
        """The edges, what was assumed of them, and what the nodes lack."""
        table, settings, splits = prepared.data, prepared.settings, prepared.splits
        edges, graph = table.edges, settings.graph
        found = [f"{edges.ways(graph.directed)}; {plural(table.features.shape[1], 'feature')} of a node"]
        remedy = AS_FEATURES if graph.edge_type_column else f"{AS_FEATURES}, their types with --edge-type-column"
        found += edges.unused(remedy)
        if table.types is not None:
            found += units.notes_of_types(table, splits.train)
            num_repeated = units.num_repeated(table)
        else:
            num_repeated = edges.num_repeated(table.num_rows)
            if holds_types(settings.data):
                found.append(f"types of nodes or edges, which --model {settings.model.model} ignores")
        found += note_of_edges(edges, settings.model)
        found += edges.notes(table.num_rows, num_repeated)
        if fanouts := settings.fanouts:
            found.append(note_of_fanouts(fanouts, settings.model, settings.train.batch_size))
        if count := int(np.isnan(table.targets).all(axis=1).sum()):
            whole = ("node has no target: it is", "nodes have no target: they are")
            found.append(f"{plural(count, *whole)} part of the graph, and not learned from")
        if unlabelled := unlabelled_test(table):
            whole = ("of them is a test node by its column, and is", "of them are test nodes by their column, and are")
            found.append(f"{plural(unlabelled, *whole)} not scored")
        if degree := settings.model.expander_degree:
            found.append(f"each node is joined with up to {plural(degree, 'other')} drawn at random")
        if num_virtual := settings.model.num_virtual_nodes:
            whole = ("virtual node is", "virtual nodes are")
            found.append(f"{plural(num_virtual, *whole)} joined with all others")
        return found

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        trained = FittedNodes.load(request.run_folder)
        columns = trained.columns.to_predict(
            node_column=request["node_column"] or AUTO,
            node_type_column=request["node_type_column"],
            descriptors_columns=tuple(request["descriptors_columns"] or trained.columns.descriptors_columns),
        )
        source = replace(
            trained.graph,
            edges=request["edges"],
            features=request["features"],
            edge_type_column=request["edge_type_column"],
        )
        known = trained.types
        if known is None and (request["node_type_column"] or request["edge_type_column"]):
            raise SettingError(
                f"{request.folder} ignores types of nodes and edges; leave out --node-type-column and "
                "--edge-type-column."
            )
        if not is_graph_file(request.data):
            columns = replace(columns, node_type_column=request["node_type_column"] or trained.columns.node_type_column)
            source = replace(source, edge_type_column=request["edge_type_column"] or trained.graph.edge_type_column)
        return trained, trained.read([request.data], columns, source, strict=request.strict)


def note_of_fanouts(fanouts: tuple[int, ...], model: NodeSettings, batch_size: int) -> str:
    """What a step samples."""
    hops = ", then ".join("all" if count < 0 else f"up to {count:,}" for count in fanouts)
    found = f"a step samples {hops} edges a node around {plural(batch_size, 'node')}; validation sees the whole graph"
    if len(fanouts) < model.reach:
        found += f"; the model reaches {plural(model.reach, 'hop')}, --fanouts has {len(fanouts)}"
    return found


def unlabelled_test(table: NodeTable) -> int:
    """Nodes that the splits column calls test and that have no target."""
    column = table.columns.splits_column
    if column is None:
        return 0
    is_test = np.array([word.strip().lower() == "test" for word in table.frame[column]])
    return int((is_test & np.isnan(table.targets).all(axis=1)).sum())


TASK = NodesTask()
