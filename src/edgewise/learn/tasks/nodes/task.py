"""Nodes: a number or a class for each node of one graph."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from edgewise.errors import SettingError, plural
from edgewise.learn.engine.workers import Workers
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.graph_settings import NodeSizes
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.graphs.edges import AS_FEATURES
from edgewise.learn.readers.graphs.file import is_graph_file
from edgewise.learn.readers.graphs.lost import FEATURES, with_lost
from edgewise.learn.readers.graphs.nodes import NodeData, read_nodes
from edgewise.learn.readers.graphs.types import TypeNames
from edgewise.learn.readers.store.data import StoredNodeData, hops_in_store, lost_ends
from edgewise.learn.readers.store.graph import StoredNodes
from edgewise.learn.readers.store.layout import is_store
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.impute import Imputer, with_filled
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.explainable import explaining
from edgewise.learn.tasks.graph_encoding import (
    WHOLE_GRAPH,
    GraphEncoding,
    check_filled,
    edge_imputer,
    filled_edges,
    num_filled_edge_inputs,
)
from edgewise.learn.tasks.graph_explainable import explainable_rows, row_item
from edgewise.learn.tasks.graph_notes import (
    check_graph,
    features_in_words,
    note_of_edges,
    notes_of_features,
    notes_of_missing_edges,
)
from edgewise.learn.tasks.graph_settings import holds_types
from edgewise.learn.tasks.graph_types import (
    check_types,
    names_with_targets,
    notes_of_types,
    num_repeated_edges,
    sizes_of_types,
)
from edgewise.learn.tasks.nodes.settings import SETTINGS, NodeRunSettings
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.sampled import SAMPLED_BATCH_SIZE, note_of_fanouts, sampled_if_large, sampled_loader
from edgewise.learn.tasks.stored import (
    check_complete,
    check_stored,
    needs_tables,
    notes_of_store,
    read_store_to_predict,
    read_store_to_train,
    source_of,
    stored_batches,
    stored_nodes,
    stored_predictions,
)
from edgewise.learn.tasks.table_task import (
    Features,
    TableTask,
    contents_of_rows,
    row_loader,
    rows_to_score,
)
from edgewise.learn.tasks.targets import MAX_FITTED, in_one_step, targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared, Written
from edgewise.learn.training.baseline import filled
from edgewise.learn.training.document import INLINE, TRANSIENT
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.settings import TrainSettings


@dataclass(frozen=True)
class NodeEncoder:
    """What the training graph fixed of nodes and edges: their scales, words, types and sizes."""

    on_graph: GraphEncoding = field(metadata=INLINE)
    """How features become numbers, which is the same for all tasks over one graph."""
    sizes: NodeSizes
    """What the data looks like."""
    types: TypeNames | None = None
    """The types of nodes and edges; None where the model ignores them."""
    edge_imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers of edges; none where the run drops them."""
    stored: dict[str, StoredNodes] = field(metadata=TRANSIENT, default_factory=dict, compare=False)
    """The store that was read last, under `last`."""

    rows_per_batch: ClassVar[int] = WHOLE_GRAPH

    @property
    def num_edge_columns(self) -> int:
        """Features of an edge as they stand in the file."""
        num_inputs_of_one = num_filled_edge_inputs(1, self.edge_imputer, self.on_graph.settings)
        return max(0, self.sizes.num_edge_features - num_inputs_of_one + 1)

    @property
    def reading(self) -> JsonObject:
        """How a graph to predict is read, with the types and words that the model knows."""
        types = {"with_types": self.types is not None, "model_types": self.types}
        fills_edges = bool(self.edge_imputer.median)
        of_training = {"node_column_of_training": self.on_graph.columns.node_column, "ends_are_of_training": True}
        edges = {"allow_no_edges": True, "fills_edges": fills_edges, "num_edge_features": self.num_edge_columns}
        return {**types, **of_training, **edges, **self.on_graph.known_words}

    def new_network(self, output: Targets) -> NodeModel:
        """Layers over the graph."""
        return NodeModel(self.sizes, self.on_graph.settings)

    def check_data(self, data: NodeData) -> None:
        """Raise DataError where nodes or edges have another number of features than those of the training graph, or
        lack numbers that the model does not fill."""
        check_graph(self.on_graph, data.rows.source, data.features, data.edges, self.num_edge_columns, data.has_degrees)
        check_filled(data.edges, self.edge_imputer)

    def batches(
        self, data: NodeData | StoredNodeData, scale: TargetScaler | None, *, whole: bool = False
    ) -> RowBatches:
        """The graph as the models take it.

        Args:
            data: its nodes.
            scale: of the targets.
            whole: whether the graph of a store is read into memory.

        Raises:
            DataError: its nodes or edges have another number of features than those of the training graph.
        """
        on_graph, count = self.on_graph, self.num_edge_columns
        if isinstance(data, StoredNodeData):
            if "last" not in self.stored or self.stored["last"].data is not data:
                self.stored["last"] = stored_nodes(data, on_graph, count, self.edge_imputer)
            return stored_batches(self.stored["last"], scale, whole=whole)

        self.check_data(data)
        messages = filled_edges(data.edges, self.edge_imputer, on_graph.settings)
        graph = on_graph.to_graph(data.features, data.edges, messages, data.types)
        return RowBatches.of_nodes(data.rows, scale, graph)

    def statuses(self, data: NodeData | StoredNodeData) -> list[str]:
        """The status of each node; also what cannot be read of their neighborhoods, and whose numbers were filled.

        Raises:
            DataError: as `check_data`, where nothing is predicted either.
        """
        on_graph = self.on_graph
        if isinstance(data, StoredNodeData):
            starts = lost_ends(data.store), data.rows.unread
            lost, unread = (hops_in_store(data.store, on_graph.settings.reach, nodes) for nodes in starts)
        else:
            self.check_data(data)
            lost = on_graph.hops_to_lost(data.edges, len(data.names))
            unread = on_graph.hops_to_unread(data.edges, len(data.names), data.rows.unread)
        status = with_lost(with_lost(data.rows.status, lost, "the node"), unread, "the node", FEATURES)
        edge_names = on_graph.names_of_edges(data.num_edge_features)
        return with_filled(status, data.missing(on_graph.names_if_read(self.types), edge_names))

    def check(self, output: Targets) -> None:
        """Raise DataError unless the fields fit each other."""
        self.on_graph.check(self.sizes, self.types)
        output.check_size(self.sizes.num_outputs)


def read_data(settings: NodeRunSettings) -> NodeData | StoredNodeData:
    columns, with_types = settings.scaling.to_read(settings.columns), settings.model.is_relational
    if is_store(settings.data[0]):
        stored = read_store_to_train(settings.data, columns, settings.graph, strict=settings.strict)
        check_complete(stored.store, fills=settings.columns.imputes)
        return stored
    how = {"strict": settings.strict, "with_types": with_types, "fills_edges": settings.columns.imputes}
    return read_nodes(settings.data, columns, settings.graph, **how)


def resolved(settings: NodeRunSettings, data: NodeData | StoredNodeData, splits: Splits) -> NodeRunSettings:
    """A step sees all training nodes, unless a batch size is given or neighbors are sampled."""
    if isinstance(data, StoredNodeData):
        check_stored(settings.model, data.store)
        settings = replace(settings, graph=source_of(data.store))
    else:
        check_types(data.types, settings.model)
        settings = replace(settings, graph=data.edges.resolved(settings.graph))
    if settings.fanouts and settings.train.batch_size is None:
        return replace(settings, train=replace(settings.train, batch_size=SAMPLED_BATCH_SIZE))
    return in_one_step(settings, data, splits)


def encode(settings: NodeRunSettings, data: NodeData | StoredNodeData, splits: Splits) -> tuple[NodeEncoder, Targets]:
    """The sizes and scales of the whole graph, which training sees."""
    model, types = settings.model, data.types
    edges = data if isinstance(data, StoredNodeData) else data.edges
    imputer = edge_imputer(edges, imputes=settings.columns.imputes)
    on_graph = GraphEncoding.fit(data, data.features, model, settings.graph, settings.scaling, types)
    output = targets_of(data.rows, splits.train, on_graph.columns)
    sizes = NodeSizes(
        num_features=on_graph.num_features,
        num_edge_features=num_filled_edge_inputs(data.num_edge_features, imputer, model),
        num_outputs=output.num_outputs,
        **sizes_of_types(types, on_graph.scaler),
    )
    names = None if types is None else names_with_targets(types, splits.train)
    return NodeEncoder(on_graph, sizes, names, imputer), output


def sampled_where_needed(settings: NodeRunSettings, prepared: Prepared) -> Prepared:
    """The same; neighbors are sampled where the whole graph does not fit into memory."""
    ready = sampled_if_large(prepared, settings.train.batch_size)
    # The rows of a store may be too many to list; they follow from its checksum and the seed.
    return replace(ready, rows=None) if isinstance(ready.data, StoredNodeData) else ready


def whole_graph(prepared: Prepared) -> str | None:
    return None if prepared.settings.fanouts else "sample neighborhoods with --fanouts 15 10 --batch-size 1024"


def training_loader(rows: np.ndarray, prepared: Prepared, batches: RowBatches, recipe: TrainSettings) -> Loader:
    """Batches see sampled neighborhoods where there are fanouts."""
    if fanouts := prepared.settings.fanouts:
        return sampled_loader(rows, batches, fanouts, recipe)
    return row_loader(rows, prepared, batches, recipe)


def batches(prepared: Prepared) -> RowBatches:
    fitted: FittedTable[NodeEncoder] = prepared.fitted
    return fitted.encoder.batches(prepared.data, fitted.output.scale, whole=not prepared.settings.fanouts)


def scored(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """At most some of the rows of a store, evenly over them; all of a graph in memory, which is computed whole."""
    return rows_to_score(prepared, rows) if isinstance(prepared.data, StoredNodeData) else rows


def split_contents(prepared: Prepared) -> SplitContents | None:
    return None if isinstance(prepared.data, StoredNodeData) else contents_of_rows(prepared)


def features(prepared: Prepared) -> Features:
    known = prepared.data.features
    return filled(known.of_rows, evenly_spaced(prepared.splits.train, MAX_FITTED), is_missing=known.num_missing > 0)


def warnings(prepared: Prepared) -> list[str]:
    """Features that are missing or do not vary, too."""
    data, on_graph = prepared.data, prepared.fitted.encoder.on_graph
    lines = notes_of_features(on_graph, data.features, data.edges, data.types)
    return [*lines, *notes_of_missing_edges(on_graph, data)] if isinstance(data, StoredNodeData) else lines


def notes(prepared: Prepared) -> list[str]:
    """The edges, what was assumed of them, and what the nodes lack."""
    data, settings = prepared.data, prepared.settings
    if isinstance(data, StoredNodeData):
        return [*notes_of_store(data, settings.model, settings.columns), *notes_of_targets(data, settings)]
    edges, graph, types = data.edges, settings.graph, data.types
    lines = [f"{edges.ways(graph.directed)}; {features_in_words(data.features.shape[1], has_degrees=data.has_degrees)}"]
    remedy = AS_FEATURES if graph.edge_type_column else f"{AS_FEATURES}, their types with --edge-type-column"
    lines += edges.unused(remedy)
    if types is not None:
        lines += notes_of_types(types, edges, prepared.splits.train)
    elif holds_types(settings.data):
        lines.append(f"types of nodes or edges, which --model {settings.model.model} ignores")
    num_repeated = edges.num_repeated(len(data.rows)) if types is None else num_repeated_edges(types, edges)
    lines += note_of_edges(data.num_edge_features, settings.model)
    lines += [*edges.notes(len(data.rows), num_repeated), *notes_of_targets(data, settings)]
    if degree := settings.model.expander_degree:
        lines.append(f"each node is joined with up to {plural(degree, 'other')} drawn at random")
    if num_virtual := settings.model.num_virtual_nodes:
        lines.append(f"{plural(num_virtual, 'virtual node is', 'virtual nodes are')} joined with all others")
    return lines


def notes_of_targets(data: NodeData | StoredNodeData, settings: NodeRunSettings) -> list[str]:
    """What a step samples, and which nodes lack a target."""
    lines, rows = [], data.rows
    if settings.fanouts:
        lines.append(note_of_fanouts(settings.fanouts, settings.model, settings.train.batch_size))
    is_unlabelled = np.isnan(rows.targets).all(axis=1)
    if count := int(is_unlabelled.sum()):
        verb = ("node has no target: it is", "nodes have no target: they are")
        lines.append(f"{plural(count, *verb)} part of the graph, and not learned from")
    if (column := rows.columns.splits_column) is not None:
        is_test = np.array([word.strip().lower() == "test" for word in rows.cells.texts(column)])
        if unlabelled := int((is_test & is_unlabelled).sum()):
            verb = ("of them is a test node by its column, and is", "of them are test nodes by their column, and are")
            lines.append(f"{plural(unlabelled, *verb)} not scored")
    return lines


def read_known(trained: FittedTable[NodeEncoder], settings: NodeRunSettings) -> NodeData:
    """The graph that a model was trained on.

    Raises:
        UnsupportedError: it was read from a store.
    """
    if settings.graph.edges is None and not is_graph_file(settings.data[0]):
        raise needs_tables(settings.data[0], settings.columns.target_columns)
    columns = trained.columns.to_predict(node_column=settings.columns.node_column or AUTO)
    return read_nodes(settings.data, columns, settings.graph, **trained.encoder.reading)


def read_requested(trained: FittedTable[NodeEncoder], request: PredictRequest) -> NodeData | StoredNodeData:
    of_training, on_graph, type_column = trained.columns, trained.encoder.on_graph, request["edge_type_column"]
    columns = request.columns(of_training, node_column=AUTO, descriptors_columns=None)
    columns = replace(columns, node_type_column=request["node_type_column"])
    if trained.encoder.types is None and (request["node_type_column"] or type_column):
        raise SettingError(
            f"{request.folder} ignores types of nodes and edges; leave out --node-type-column and --edge-type-column."
        )
    if is_store(request.data):
        return read_store_to_predict(columns, on_graph, request)
    if not is_graph_file(request.data):
        columns = replace(columns, node_type_column=columns.node_type_column or of_training.node_type_column)
        type_column = type_column or on_graph.graph.edge_type_column
    files = {"edges": request["edges"], "features": request["features"]}
    source = replace(on_graph.graph, **files, edge_type_column=type_column)
    data = read_nodes([request.data], columns, source, strict=request.strict, **trained.encoder.reading)
    list_left_out(data.edges.rejected, data.rows.rejected, request)
    return data


def predict_nodes(
    request: PredictRequest, suffix: str, workers: Workers | None = None
) -> Generator[tuple[Written, str]]:
    """The nodes of a graph together; those of a store some at a time."""
    TASK.refuse_workers(workers)
    if not is_store(request.data):
        yield TABLE.predict(request, suffix)
        return
    trained, data = TASK.read(request)
    assert isinstance(data, StoredNodeData)
    yield from stored_predictions(trained, data, request, suffix)


TABLE = TableTask(
    settings=SETTINGS,
    noun="nodes",
    explainable="edgewise.learn.tasks.nodes.task:EXPLAINABLE",
    read_data=read_data,
    after_split=sampled_where_needed,
    resolved=resolved,
    whole_graph=whole_graph,
    training_loader=training_loader,
    batches=batches,
    scored=scored,
    encoder=NodeEncoder,
    encode=encode,
    features=features,
    further_warnings=warnings,
    notes=notes,
    read=read_requested,
    predict_in_parts=predict_nodes,
    contents=split_contents,
)

TASK = TABLE.task
explain_node = explaining(row_item)

EXPLAINABLE = explainable_rows(
    TABLE,
    read_known,
    row_item,
    call="explain(features, edges, node)",
    fields=lambda data: [(data.rows.columns.node_column or "node", "node")],
)
