"""Nodes: a number or a class for each node of one graph."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.graph.records import NodeBatch, SparseFeatures
from edgewise.learn.engine.workers import Workers
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes, num_edge_inputs
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.edges import AS_FEATURES, EdgeList
from edgewise.learn.readers.graphs.file import is_graph_file
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import NodeTable, read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.types import GraphTypes, TypeNames, TypeScaler
from edgewise.learn.readers.store.layout import is_store
from edgewise.learn.readers.store.table import StoredTable, read_store
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.impute import Imputer, with_filled
from edgewise.learn.tables.scale import ConditionScaler
from edgewise.learn.tables.split import Splits, evenly
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.nodes import units
from edgewise.learn.tasks.nodes.filled import completed, notes_of_missing_edges, num_edge_marks
from edgewise.learn.tasks.nodes.sampled import GraphSampler, SampledLoader
from edgewise.learn.tasks.nodes.settings import SAMPLED_ROWS, NodeRunSettings, holds_types
from edgewise.learn.tasks.nodes.stored import StoredNodes, check_stored, check_stored_weights, notes_of_store
from edgewise.learn.tasks.nodes.stored_run import (
    Remembered,
    lost_edges_of,
    sampled_if_large,
    say_unknown_words,
    source_of,
    stored_batches,
    stored_predictions,
    stored_table,
)
from edgewise.learn.tasks.nodes.units import (
    FittedOnGraph,
    check_features,
    check_same_kind,
    check_weights,
    features_in_words,
    graph_batch,
    graph_fields,
    note_of_edges,
    scaled,
    scaled_rows,
    with_types,
)
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.table_notes import names_of_features
from edgewise.learn.tasks.table_task import (
    MAX_FITTED,
    Features,
    TableTask,
    contents_of_rows,
    num_outputs,
    row_loader,
    rows_to_score,
)
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.training.baseline import filled
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.settings import TrainSettings
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges


@dataclass(kw_only=True)
class FittedNodes(FittedOnGraph):
    """A trained ensemble over the nodes of a graph."""

    FORMAT = NodeRunSettings.FORMAT

    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""

    edge_imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers of edges; none where the run drops them."""

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file; loops, types and marks of edges are further ones."""
        added = self.settings.has_loops + (len(EDGE_TYPES) if self.settings.is_extended else 0)
        added += num_edge_marks(self.edge_imputer, self.settings)
        return max(0, self.sizes.num_edge_features - added)

    def new_member(self) -> NodeModel:
        return NodeModel(self.sizes, self.settings)

    def read(self, paths: Sequence[str], columns: Columns, source: GraphSource, *, strict: bool = False) -> NodeTable:
        """A graph to predict, with the types and words that the model knows."""
        how: dict[str, Any] = {"with_types": self.types is not None, "known": self.types, "may_lack_edges": True}
        how["fills_edges"] = bool(self.edge_imputer.median)
        return read_nodes(paths, columns, source, strict=strict, **how, **self.known_words)

    stored: StoredNodes | None = field(metadata=TRANSIENT, default=None)
    """The store that was read last."""

    def stored_nodes(self, table: StoredTable) -> StoredNodes:
        """The graph of a store in the units of the models.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        if self.stored is None or self.stored.table is not table:
            found = table.features.shape[1], table.num_edge_features
            check_features(table.source, (self.num_columns, self.num_edge_columns), found)
            check_same_kind(self, table, self.num_columns)
            reads_weights = self.settings.spec.reads_edge_weights and found[1] == 1
            if reads_weights:
                check_stored_weights(table, self.settings)
            scale = partial(scaled_rows, scale=self.feature_scale, scaler=self.scaler)
            self.stored = StoredNodes(
                table,
                self.settings,
                scale,
                reads_weights=reads_weights,
                adds_degrees=self.adds_degrees,
                num_marks=num_edge_marks(self.edge_imputer, self.settings),
            )
        return self.stored

    def _computed(self, table: Any, rows: np.ndarray, device: str, compute: Any) -> list[list[np.ndarray]]:
        """What `compute` gives for each member; of a store all nodes are computed, once, layer by layer."""
        if not isinstance(table, StoredTable):
            return super()._computed(table, rows, device, compute)
        nodes, found = self.stored_nodes(table), []
        with torch.no_grad(), cpu_threads(self.threads):
            for member in self.members:
                member.to(device).eval()
                found.append([compute(Remembered(nodes, member, rows, device), None).numpy()])
                member.to("cpu")
        return found

    def batches(self, table: NodeTable | StoredTable, *, whole: bool = False) -> RowBatches:
        """The graph as the models take it.

        Args:
            table: its nodes.
            whole: whether the graph of a store is read into memory.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        if isinstance(table, StoredTable):
            return stored_batches(table, self.stored_nodes(table), self.scale, whole=whole)
        found = table.features.shape[1], table.edges.features.shape[1]
        check_features(table.source, (self.num_columns, self.num_edge_columns), found)
        check_same_kind(self, table, self.num_columns)
        check_weights(table.source, table.edges, self.settings, self.sizes)
        features = self.features(self.node_features(table.features, table.edges), table.types)
        edges = completed(table.edges, self.edge_imputer, self.settings)
        graph = graph_batch(features, edges, self.settings.has_loops)
        if self.settings.is_extended:
            extended, features = _with_extras(graph.edges, graph.edge_features, self.settings)
            graph = replace(graph, edges=extended, edge_features=features)
        graph = replace(graph, positions=self.positions(table))
        if table.types is not None:
            graph = with_types(graph, table.types)

        def batch(rows: np.ndarray) -> NodeBatch:
            return replace(graph, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))

        return RowBatches.of(table, self.scale, batch, graph)

    def names_of_edges(self, edges: EdgeList) -> list[str]:
        """The names of the features of edges, but for words."""
        return names_of_features(self.graph.edge_feature_columns, edges.features.shape[1], self.edge_categories)

    def statuses(self, table: Any) -> list[str]:
        """Also at which nodes a number of an edge was filled."""
        found = super().statuses(table)
        if isinstance(table, StoredTable) or not np.isnan(table.edges.features).any():
            return found
        names, missing = self.names_of_edges(table.edges), dict[int, list[str]]()
        for edge, column in np.argwhere(np.isnan(table.edges.features)).tolist():
            for node in (int(table.edges.senders[edge]), int(table.edges.receivers[edge])):
                if (name := f"{names[column]} of an edge") not in (lacking := missing.setdefault(node, [])):
                    lacking.append(name)
        return with_filled(found, missing)

    def positions(self, table: NodeTable) -> torch.Tensor | None:
        """Where each node stands in the graph, as far as the model looks at it."""
        counts = self.settings.laplacian_positions, self.settings.random_walk_positions
        if not any(counts):
            return None
        from edgewise.learn.readers.graphs.position import positions_of

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
            fits = fits and (len(scaler.mean), scaler.num_features) == (self.num_scaled, self.sizes.num_features)
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


def read_table(settings: NodeRunSettings) -> NodeTable | StoredTable:
    if is_store(settings.data[0]):
        return without_splits(stored_table(settings), settings)
    with_types = settings.model.is_relational
    table = read_nodes(
        settings.data,
        units.reading_columns(settings.columns, settings.feature_scale),
        settings.graph,
        strict=settings.strict,
        with_types=with_types,
        fills_edges=settings.columns.imputes,
    )
    return without_splits(table, settings)


def sampled_where_needed(prepared: Prepared) -> Prepared:
    """The same; neighbors are sampled where the whole graph does not fit into memory."""
    found = sampled_if_large(prepared, prepared.settings.train.batch_size)
    # The rows of a store may be too many to list; they follow from its checksum and the seed.
    return replace(found, rows=None) if isinstance(found.data, StoredTable) else found


def resolved(settings: NodeRunSettings, table: NodeTable | StoredTable, splits: Splits) -> NodeRunSettings:
    """A step sees all training nodes, unless a batch size is given or neighbors are sampled."""
    if isinstance(table, StoredTable):
        settings = replace(settings, graph=source_of(table.store))
    else:
        units.check_types(table, settings.model)
    batch_size = settings.train.batch_size or (SAMPLED_ROWS if settings.fanouts else len(splits.train))
    return replace(settings, train=replace(settings.train, batch_size=batch_size))


def whole_graph(prepared: Prepared) -> str | None:
    return None if prepared.settings.fanouts else "sample neighborhoods with --fanouts 15 10 --batch-size 1024"


def training_loader(rows: np.ndarray, prepared: Prepared, batches: Any, recipe: TrainSettings) -> Loader:
    """Batches see sampled neighborhoods where there are fanouts."""
    if not (fanouts := prepared.settings.fanouts):
        return row_loader(rows, prepared, batches, recipe)
    graph, seed = batches.graph, recipe.seed
    stored = isinstance(graph, StoredNodes)
    samples = graph.sampler(fanouts, seed) if stored else GraphSampler(graph, fanouts, seed)
    return SampledLoader(batches, samples, rows, recipe.batch_size or SAMPLED_ROWS, seed)


def batches(prepared: Prepared) -> RowBatches:
    found: RowBatches = prepared.fitted.batches(prepared.data, **({} if prepared.settings.fanouts else {"whole": True}))
    return found


def scored(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """At most some of the rows of a store, evenly over them; all of a graph in memory, which is computed whole."""
    return rows_to_score(prepared, rows) if isinstance(prepared.data, StoredTable) else rows


def untrained(settings: NodeRunSettings, table: NodeTable | StoredTable, splits: Splits) -> FittedNodes:
    """The model before its first step."""
    if isinstance(table, StoredTable):
        check_stored(settings.model, table.store)
        found, num_edge_features, imputer = None, table.num_edge_features, Imputer()
    else:
        found, num_edge_features = table.types, table.edges.features.shape[1]
        imputer = Imputer.fit([table.edges.features]) if settings.columns.imputes else Imputer()
        num_edge_features += num_edge_marks(imputer, settings.model)
    model = settings.model
    edges = None if isinstance(table, StoredTable) else table.edges
    known = graph_fields(settings, table, splits.train, table.features, edges, found)
    scaler = known["scaler"]
    of_types = () if found is None else units.widths(found, scaler if isinstance(scaler, TypeScaler) else None)
    sizes = NodeSizes(
        num_features=scaler.num_features if isinstance(scaler, ConditionScaler) else table.features.shape[1],
        num_edge_features=num_edge_inputs(num_edge_features, model, len(EDGE_TYPES) if model.is_extended else 0),
        num_outputs=num_outputs(table),
        type_features=of_types,
        num_relations=0 if found is None else len(found.names.relations),
    )
    return FittedNodes(
        **known,
        sizes=sizes,
        edge_imputer=imputer,
        types=None
        if found is None or isinstance(table, StoredTable)
        else replace(found.names, predicted=units.types_with_targets(table, splits.train)),
    )


def features(prepared: Prepared) -> Features:
    table = prepared.data
    found: Features = table.features.of_rows
    if isinstance(table, StoredTable) or not table.features.num_missing:
        return found
    return filled(found, evenly(prepared.splits.train, MAX_FITTED))


def warnings(prepared: Prepared) -> list[str]:
    """Features that do not vary, too."""
    table = prepared.data
    fitted = prepared.fitted
    found = units.notes_of_missing(fitted, table.columns, table.features)
    if not isinstance(table, StoredTable):
        found += notes_of_missing_edges(table.edges, fitted.names_of_edges(table.edges), fitted.settings)
    return [*found, *units.notes_of_constants(fitted, table, table.features)]


def notes(prepared: Prepared) -> list[str]:
    """The edges, what was assumed of them, and what the nodes lack."""
    table, settings, splits = prepared.data, prepared.settings, prepared.splits
    if isinstance(table, StoredTable):
        return [*notes_of_store(table, settings.model), *notes_of_targets(table, settings)]
    edges, graph = table.edges, settings.graph
    found = [f"{edges.ways(graph.directed)}; {features_in_words(table, table.features.shape[1])}"]
    remedy = AS_FEATURES if graph.edge_type_column else f"{AS_FEATURES}, their types with --edge-type-column"
    found += edges.unused(remedy)
    if table.types is not None:
        found += units.notes_of_types(table, splits.train)
        num_repeated = units.num_repeated(table)
    else:
        num_repeated = edges.num_repeated(table.num_rows)
        if holds_types(settings.data):
            found.append(f"types of nodes or edges, which --model {settings.model.model} ignores")
    found += note_of_edges(edges.features.shape[1], settings.model)
    found += edges.notes(table.num_rows, num_repeated)
    found += notes_of_targets(table, settings)
    if degree := settings.model.expander_degree:
        found.append(f"each node is joined with up to {plural(degree, 'other')} drawn at random")
    if num_virtual := settings.model.num_virtual_nodes:
        whole = ("virtual node is", "virtual nodes are")
        found.append(f"{plural(num_virtual, *whole)} joined with all others")
    return found


def open_nodes(request: PredictRequest) -> tuple[Any, Any]:
    trained = FittedNodes.load(request.run_folder)
    columns = trained.columns.to_predict(
        node_column=request["node_column"] or AUTO,
        node_type_column=request["node_type_column"],
        descriptors_columns=tuple(request["descriptors_columns"] or trained.columns.descriptors_columns),
    )
    if trained.types is None and (request["node_type_column"] or request["edge_type_column"]):
        raise SettingError(
            f"{request.folder} ignores types of nodes and edges; leave out --node-type-column and --edge-type-column."
        )
    if is_store(request.data):
        for name in ("edges", "features"):
            if request[name]:
                raise SettingError(f"{request.data} is a store, which holds its {name}; leave out --{name}.")
        stored = read_store(request.data, columns, strict=request.strict, **trained.known_words)
        lost, count = lost_edges_of(stored.store, strict=request.strict)
        list_left_out(lost, request=request, count=count)
        say_unknown_words(stored, strict=request.strict)
        return trained, stored
    source = replace(
        trained.graph,
        edges=request["edges"],
        features=request["features"],
        edge_type_column=request["edge_type_column"],
    )
    if not is_graph_file(request.data):
        columns = replace(columns, node_type_column=request["node_type_column"] or trained.columns.node_type_column)
        source = replace(source, edge_type_column=request["edge_type_column"] or trained.graph.edge_type_column)
    table = trained.read([request.data], columns, source, strict=request.strict)
    list_left_out(table.edges.rejected, table.rejected, request)
    return trained, table


def predict_nodes(request: PredictRequest, suffix: str, workers: Workers | None = None) -> Generator[tuple[Any, str]]:
    """The nodes of a graph together; those of a store some at a time."""
    TASK.refuse_workers(workers)
    if not is_store(request.data):
        assert TASK.predict is not None
        yield TASK.predict(request, suffix)
        return
    with stage(f"reading {request.data}"):
        trained, table = open_nodes(request)
    trained.threads = request.threads
    trained.check_coverage(request["coverage"])
    yield from stored_predictions(trained, table, request, suffix)


def split_contents(prepared: Prepared) -> SplitContents:
    if isinstance(prepared.data, StoredTable):
        return None  # type: ignore[return-value]
    return contents_of_rows(prepared)


def without_splits(table: Any, settings: NodeRunSettings) -> Any:
    """The table without its column of splits where another split is asked for."""
    if settings.split in (None, "column"):
        return table
    return replace(table, columns=replace(table.columns, splits_column=None))


def notes_of_targets(table: NodeTable | StoredTable, settings: NodeRunSettings) -> list[str]:
    """What a step samples, and which nodes lack a target."""
    found = []
    if fanouts := settings.fanouts:
        found.append(note_of_fanouts(fanouts, settings.model, settings.train.batch_size or SAMPLED_ROWS))
    if count := int(np.isnan(table.targets).all(axis=1).sum()):
        whole = ("node has no target: it is", "nodes have no target: they are")
        found.append(f"{plural(count, *whole)} part of the graph, and not learned from")
    if unlabelled := unlabelled_test(table):
        whole = ("of them is a test node by its column, and is", "of them are test nodes by their column, and are")
        found.append(f"{plural(unlabelled, *whole)} not scored")
    return found


def note_of_fanouts(fanouts: tuple[int, ...], model: NodeSettings, batch_size: int) -> str:
    """What a step samples."""
    hops = ", then ".join("all" if count < 0 else f"up to {count:,}" for count in fanouts)
    found = f"a step samples {hops} edges a node around {plural(batch_size, 'node')}; validation sees the whole graph"
    if len(fanouts) < model.reach:
        found += f"; the model reaches {plural(model.reach, 'hop')}, --fanouts has {len(fanouts)}"
    return found


def unlabelled_test(table: NodeTable | StoredTable) -> int:
    """Nodes that the splits column calls test and that have no target."""
    column = table.columns.splits_column
    if column is None:
        return 0
    is_test = np.array([word.strip().lower() == "test" for word in table.frame[column]])
    return int((is_test & np.isnan(table.targets).all(axis=1)).sum())


TABLE = TableTask(
    settings_type=NodeRunSettings,
    noun="nodes",
    read_table=read_table,
    after_split=sampled_where_needed,
    resolved=resolved,
    whole_graph=whole_graph,
    training_loader=training_loader,
    batches=batches,
    scored=scored,
    untrained=untrained,
    load=FittedNodes.load,
    features=features,
    further_warnings=warnings,
    notes=notes,
    read=open_nodes,
    predict_in_parts=predict_nodes,
    contents=split_contents,
)

TASK = TABLE.task
