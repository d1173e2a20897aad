"""Nodes: a number or a class for each node of one graph."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from edgewise.errors import SettingError, plural
from edgewise.learn.engine.workers import Workers
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes, num_edge_inputs
from edgewise.learn.outputs import Targets
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.edges import AS_FEATURES
from edgewise.learn.readers.graphs.file import is_graph_file
from edgewise.learn.readers.graphs.nodes import NodeData, read_nodes
from edgewise.learn.readers.graphs.types import TypeScaler
from edgewise.learn.readers.store.data import StoredNodeData, read_store
from edgewise.learn.readers.store.layout import is_store
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.graph_encoding import GraphEncoding, num_edge_marks
from edgewise.learn.tasks.graph_notes import (
    features_in_words,
    note_of_edges,
    notes_of_constants,
    notes_of_missing,
    notes_of_missing_edges,
)
from edgewise.learn.tasks.nodes.encoder import NodeEncoder
from edgewise.learn.tasks.nodes.node_types import (
    check_types,
    notes_of_types,
    num_repeated_edges,
    types_with_targets,
    widths,
)
from edgewise.learn.tasks.nodes.sampled import GraphSampler, SampledLoader
from edgewise.learn.tasks.nodes.settings import SAMPLED_BATCH_SIZE, SETTINGS, NodeRunSettings, holds_types
from edgewise.learn.tasks.nodes.stored import StoredNodes, check_stored, notes_of_store
from edgewise.learn.tasks.nodes.stored_run import (
    lost_edges_of,
    sampled_if_large,
    say_unknown_words,
    source_of,
    stored_nodes_of_run,
    stored_predictions,
)
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.table_settings import reading_columns
from edgewise.learn.tasks.table_task import MAX_FITTED, Features, TableTask, contents_of_rows, row_loader, rows_to_score
from edgewise.learn.tasks.targets import targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared, Written
from edgewise.learn.training.baseline import filled
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.settings import TrainSettings
from edgewise.neighborhood import EDGE_TYPES


def read_data(settings: NodeRunSettings) -> NodeData | StoredNodeData:
    if is_store(settings.data[0]):
        return without_splits(stored_nodes_of_run(settings), settings)
    with_types = settings.model.is_relational
    data = read_nodes(
        settings.data,
        reading_columns(settings.columns, settings.feature_scale),
        settings.graph,
        strict=settings.strict,
        with_types=with_types,
        fills_edges=settings.columns.imputes,
    )
    return without_splits(data, settings)


def sampled_where_needed(settings: NodeRunSettings, prepared: Prepared) -> Prepared:
    """The same; neighbors are sampled where the whole graph does not fit into memory."""
    ready = sampled_if_large(prepared, settings.train.batch_size)
    # The rows of a store may be too many to list; they follow from its checksum and the seed.
    return replace(ready, rows=None) if isinstance(ready.data, StoredNodeData) else ready


def resolved(settings: NodeRunSettings, data: NodeData | StoredNodeData, splits: Splits) -> NodeRunSettings:
    """A step sees all training nodes, unless a batch size is given or neighbors are sampled."""
    if isinstance(data, StoredNodeData):
        settings = replace(settings, graph=source_of(data.store))
    else:
        check_types(data, settings.model)
    batch_size = settings.train.batch_size or (SAMPLED_BATCH_SIZE if settings.fanouts else len(splits.train))
    return replace(settings, train=replace(settings.train, batch_size=batch_size))


def whole_graph(prepared: Prepared) -> str | None:
    return None if prepared.settings.fanouts else "sample neighborhoods with --fanouts 15 10 --batch-size 1024"


def training_loader(rows: np.ndarray, prepared: Prepared, batches: RowBatches, recipe: TrainSettings) -> Loader:
    """Batches see sampled neighborhoods where there are fanouts."""
    if not (fanouts := prepared.settings.fanouts):
        return row_loader(rows, prepared, batches, recipe)
    graph, seed = batches.graph, recipe.seed
    assert graph is not None
    stored = graph.stored
    samples = stored.sampler(fanouts, seed) if isinstance(stored, StoredNodes) else GraphSampler(graph, fanouts, seed)
    return SampledLoader(batches, samples, rows, recipe.batch_size or SAMPLED_BATCH_SIZE, seed)


def batches(prepared: Prepared) -> RowBatches:
    fitted: FittedTable[NodeEncoder] = prepared.fitted
    return fitted.encoder.batches(prepared.data, fitted.output.scale, whole=not prepared.settings.fanouts)


def scored(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """At most some of the rows of a store, evenly over them; all of a graph in memory, which is computed whole."""
    return rows_to_score(prepared, rows) if isinstance(prepared.data, StoredNodeData) else rows


def encode(settings: NodeRunSettings, data: NodeData | StoredNodeData, splits: Splits) -> tuple[NodeEncoder, Targets]:
    """The sizes and scales of the whole graph, which training sees."""
    model, types, edges = settings.model, None, None
    if isinstance(data, StoredNodeData):
        check_stored(model, data.store)
        num_edge_features, imputer = data.num_edge_features, Imputer()
    else:
        types, edges = data.types, data.edges
        imputer = Imputer.fit([edges.features]) if settings.columns.imputes else Imputer()
        num_edge_features = edges.features.shape[1] + num_edge_marks(imputer, model)

    on_graph = GraphEncoding.fit(settings, data, data.features, edges, types)
    output = targets_of(data.rows, splits.train, on_graph.columns)
    scaler = on_graph.scaler if isinstance(on_graph.scaler, TypeScaler) else None
    sizes = NodeSizes(
        num_features=on_graph.num_features,
        num_edge_features=num_edge_inputs(num_edge_features, model, len(EDGE_TYPES) if model.is_extended else 0),
        num_outputs=output.num_outputs,
        type_features=() if types is None else widths(types, scaler),
        num_relations=0 if types is None else len(types.names.relations),
    )
    names = None
    if types is not None:
        assert isinstance(data, NodeData)
        names = replace(types.names, predicted=types_with_targets(data, splits.train))
    return NodeEncoder(on_graph, sizes, names, imputer), output


def features(prepared: Prepared) -> Features:
    data = prepared.data
    features_of_rows: Features = data.features.of_rows
    if isinstance(data, StoredNodeData) or not data.features.num_missing:
        return features_of_rows
    return filled(features_of_rows, evenly_spaced(prepared.splits.train, MAX_FITTED))


def warnings(prepared: Prepared) -> list[str]:
    """Features that are missing or do not vary, too."""
    data, encoder = prepared.data, prepared.fitted.encoder
    lines = notes_of_missing(encoder.on_graph, data.features)
    if isinstance(data, StoredNodeData):
        return [*lines, *notes_of_constants(encoder.on_graph, data.features)]
    names = encoder.on_graph.names_of_edges(data.edges.features.shape[1])
    lines += notes_of_missing_edges(data.edges, names, encoder.on_graph.settings)
    return [*lines, *notes_of_constants(encoder.on_graph, data.features, data.edges, data.types)]


def notes(prepared: Prepared) -> list[str]:
    """The edges, what was assumed of them, and what the nodes lack."""
    data, settings, splits = prepared.data, prepared.settings, prepared.splits
    if isinstance(data, StoredNodeData):
        return [*notes_of_store(data, settings.model), *notes_of_targets(data, settings)]
    edges, graph = data.edges, settings.graph
    lines = [f"{edges.ways(graph.directed)}; {features_in_words(data.features.shape[1], has_degrees=data.has_degrees)}"]
    remedy = AS_FEATURES if graph.edge_type_column else f"{AS_FEATURES}, their types with --edge-type-column"
    lines += edges.unused(remedy)
    if data.types is not None:
        lines += notes_of_types(data, splits.train)
        num_repeated = num_repeated_edges(data)
    else:
        num_repeated = edges.num_repeated(len(data.rows))
        if holds_types(settings.data):
            lines.append(f"types of nodes or edges, which --model {settings.model.model} ignores")
    lines += note_of_edges(edges.features.shape[1], settings.model)
    lines += edges.notes(len(data.rows), num_repeated)
    lines += notes_of_targets(data, settings)
    if degree := settings.model.expander_degree:
        lines.append(f"each node is joined with up to {plural(degree, 'other')} drawn at random")
    if num_virtual := settings.model.num_virtual_nodes:
        lines.append(f"{plural(num_virtual, 'virtual node is', 'virtual nodes are')} joined with all others")
    return lines


def read_requested(trained: FittedTable[NodeEncoder], request: PredictRequest) -> NodeData | StoredNodeData:
    columns = trained.columns.to_predict(
        node_column=request["node_column"] or AUTO,
        node_type_column=request["node_type_column"],
        descriptors_columns=tuple(request["descriptors_columns"] or trained.columns.descriptors_columns),
    )
    on_graph = trained.encoder.on_graph
    if trained.encoder.types is None and (request["node_type_column"] or request["edge_type_column"]):
        raise SettingError(
            f"{request.folder} ignores types of nodes and edges; leave out --node-type-column and --edge-type-column."
        )
    if is_store(request.data):
        for name in ("edges", "features"):
            if request[name]:
                raise SettingError(f"{request.data} is a store, which holds its {name}; leave out --{name}.")
        stored = read_store(request.data, columns, strict=request.strict, **on_graph.known_words)
        lost, count = lost_edges_of(stored.store, strict=request.strict)
        list_left_out(lost, request=request, count=count)
        say_unknown_words(stored, strict=request.strict)
        return stored
    source = replace(
        on_graph.graph,
        edges=request["edges"],
        features=request["features"],
        edge_type_column=request["edge_type_column"],
    )
    if not is_graph_file(request.data):
        columns = replace(columns, node_type_column=request["node_type_column"] or trained.columns.node_type_column)
        source = replace(source, edge_type_column=request["edge_type_column"] or on_graph.graph.edge_type_column)
    data = read_nodes([request.data], columns, source, strict=request.strict, **trained.encoder.reading)
    list_left_out(data.edges.rejected, data.rows.rejected, request)
    return data


def predict_nodes(
    request: PredictRequest, suffix: str, workers: Workers | None = None
) -> Generator[tuple[Written, str]]:
    """The nodes of a graph together; those of a store some at a time."""
    TASK.refuse_workers(workers)
    if not is_store(request.data):
        assert TASK.predict is not None
        yield TASK.predict(request, suffix)
        return
    with stage(f"reading {request.data}"):
        trained, data = TABLE.open(request)
    assert isinstance(data, StoredNodeData)
    trained.threads = request.threads
    trained.check_coverage(request["coverage"])
    yield from stored_predictions(trained, data, request, suffix)


def split_contents(prepared: Prepared) -> SplitContents:
    if isinstance(prepared.data, StoredNodeData):
        return None  # type: ignore[return-value]
    return contents_of_rows(prepared)


def without_splits(data: NodeData | StoredNodeData, settings: NodeRunSettings) -> NodeData | StoredNodeData:
    """The data set without its column of splits where another split is asked for."""
    if settings.split in (None, "column"):
        return data
    columns = replace(data.rows.columns, splits_column=None)
    return replace(data, rows=replace(data.rows, columns=columns))


def notes_of_targets(data: NodeData | StoredNodeData, settings: NodeRunSettings) -> list[str]:
    """What a step samples, and which nodes lack a target."""
    lines = []
    if fanouts := settings.fanouts:
        lines.append(note_of_fanouts(fanouts, settings.model, settings.train.batch_size or SAMPLED_BATCH_SIZE))
    if count := int(np.isnan(data.rows.targets).all(axis=1).sum()):
        verb = ("node has no target: it is", "nodes have no target: they are")
        lines.append(f"{plural(count, *verb)} part of the graph, and not learned from")
    if unlabelled := unlabelled_test(data):
        verb = ("of them is a test node by its column, and is", "of them are test nodes by their column, and are")
        lines.append(f"{plural(unlabelled, *verb)} not scored")
    return lines


def note_of_fanouts(fanouts: tuple[int, ...], model: NodeSettings, batch_size: int) -> str:
    """What a step samples."""
    hops = ", then ".join("all" if count < 0 else f"up to {count:,}" for count in fanouts)
    note = f"a step samples {hops} edges a node around {plural(batch_size, 'node')}; validation sees the whole graph"
    if len(fanouts) < model.reach:
        note += f"; the model reaches {plural(model.reach, 'hop')}, --fanouts has {len(fanouts)}"
    return note


def unlabelled_test(data: NodeData | StoredNodeData) -> int:
    """Test nodes of the splits column without a target."""
    column = data.rows.columns.splits_column
    if column is None:
        return 0
    is_test = np.array([word.strip().lower() == "test" for word in data.rows.cells.texts(column)])
    return int((is_test & np.isnan(data.rows.targets).all(axis=1)).sum())


TABLE = TableTask(
    settings=SETTINGS,
    noun="nodes",
    explainable="edgewise.learn.tasks.nodes.explainable:EXPLAINABLE",
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
