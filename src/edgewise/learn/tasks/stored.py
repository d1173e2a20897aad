"""Runs over the store of a graph: what a model needs of it, its batches, and predictions some nodes at a time."""

import shlex
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from edgewise.errors import DataError, SettingError, UnsupportedError, plural
from edgewise.graph import Batch, Supervision
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.progress import remark
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store.data import EDGE_CHUNK, StoredNodeData, read_store
from edgewise.learn.readers.store.edge_columns import unknown_codes
from edgewise.learn.readers.store.graph import StoredNodes
from edgewise.learn.readers.store.layout import GraphStore, is_store, read_manifest
from edgewise.learn.readers.store.nodes import node_names
from edgewise.learn.settings import spelled
from edgewise.learn.tables.cell import Rejection
from edgewise.learn.tables.columns import ROW_ROLES, Columns
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.read import pd
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.chunks import Tally, note_empty_intervals
from edgewise.learn.tasks.feature_scale import scaled_rows
from edgewise.learn.tasks.graph_encoding import GraphEncoding
from edgewise.learn.tasks.graph_notes import check_graph, note_of_edges
from edgewise.learn.tasks.prediction_columns import prediction_columns, with_columns
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.scores import command
from edgewise.learn.tasks.task import PredictRequest, Written
from edgewise.learn.training.device import pick_device

PREDICTION_CHUNK = 2**16
"""Nodes whose predictions are written together."""


def check_stored(settings: NodeSettings, store: GraphStore) -> None:
    """Raise SettingError where a model needs more of a graph than a store gives it."""
    needs = {
        "--expander-degree": settings.expander_degree,
        "--num-virtual-nodes": settings.num_virtual_nodes,
        "--laplacian-positions": settings.laplacian_positions,
        "--random-walk-positions": settings.random_walk_positions,
    }
    for flag, value in needs.items():
        if value:
            raise SettingError(f"{flag} needs the graph in memory, but {store.folder} is a store; leave it out.")
    if settings.spec.over_edges:
        raise SettingError(
            f"--model {settings.model} follows edges several hops far, which stores give hop by hop; take another "
            "--model, or train on the tables themselves."
        )
    if settings.is_relational:
        raise SettingError(
            f"--model {settings.model} reads types of nodes and edges, which stores do not give yet; take another "
            "--model, or train on the tables themselves."
        )


def needs_tables(store: str, targets: Sequence[str]) -> UnsupportedError:
    """The error of a run over a store whose predictions are to be explained or served."""
    words = read_manifest(Path(store))["words"] if is_store(store) else []
    nodes, edges = words[:2] or ("NODES", "EDGES")
    tables = command("train", "nodes", nodes, "--edges", edges, "--target-columns", *targets)
    return UnsupportedError(
        f"the run was trained on the store {store}, and explanations and the server need the graph in memory. Train on "
        f"the tables of the store: {tables}. The run itself predicts: edgewise predict RUN {store} -o predictions.csv"
    )


def read_store_to_train(
    files: tuple[str, ...], columns: Columns, source: GraphSource, *, strict: bool
) -> StoredNodeData:
    """The store that a run names.

    Args:
        files: the data of the run.
        columns: the role of each column.
        source: how edges are read, by the settings of the run; a store has its own.
        strict: stop at the first row that cannot be used.

    Raises:
        SettingError: there is more than one, a table is named beside it, or its edges were read otherwise.
    """
    if len(files) != 1:
        raise SettingError(f"{len(files)} files were given, expected one store.")
    check_only_store(files[0], source.edges, source.features)
    data = read_store(files[0], columns, strict=strict)
    lost_edges_of(data.store, strict=strict)
    kept = replace(source_of(data.store), edge_type_column=data.store.manifest["edge_type_column"])
    for name in ("edge_columns", "edge_feature_columns", "edge_category_columns", "edge_type_column", "directed"):
        wanted, stored = getattr(source, name), getattr(kept, name)
        if wanted and wanted != stored:
            names = ", ".join([stored] if isinstance(stored, str) else stored or ())
            preparation = f"has {names}" if names else "was prepared without"
            raise SettingError(
                f"{files[0]} is a store, which {preparation}: {spelled(name)} cannot change it; leave it out, "
                "or prepare the store again with it."
            )
    return data


def read_store_to_predict(columns: Columns, encoding: GraphEncoding, request: PredictRequest) -> StoredNodeData:
    """The store that a request names; of its edges it says which cannot be read, and which have unknown words.

    Args:
        columns: the role of each column.
        encoding: how the graph of the training was read.
        request: the store, and where left-out rows are listed.
    """
    check_only_store(request.data, request["edges"], request["features"])
    known = {**encoding.known_words, "edge_columns": encoding.graph.edge_feature_columns}
    data = read_store(request.data, columns, strict=request.strict, **known)
    check_direction(data.store, encoding.graph)
    lost, count = lost_edges_of(data.store, strict=request.strict)
    list_left_out(lost, request=request, count=count)
    warn_of_unknown_words(data, strict=request.strict)
    return data


def check_direction(store: GraphStore, trained: GraphSource) -> None:
    """Raise DataError where edges go one way in a store and both ways in the training, or the other way round."""
    is_known = trained.edges is not None or bool(trained.edge_columns)
    # Arrays hold the reverse of typed edges as relations of their own, which a store may add.
    is_known = is_known or store.manifest["edge_type_column"] is None
    if is_known and store.is_directed != trained.directed:
        ways = "one way" if store.is_directed else "both ways"
        remedy = "with --directed" if trained.directed else "without --directed"
        raise DataError(
            f"{store.folder}: its edges go {ways}, in the training they went "
            f"{'one way' if trained.directed else 'both ways'}; prepare the store again {remedy}."
        )
    ends = trained.edge_columns
    if trained.directed and ends and source_of(store).edge_columns == ends[::-1]:
        raise DataError(
            f"{store.folder}: its edges go from column {ends[1]!r} to {ends[0]!r}, in the training they went the other "
            f"way; prepare the store again with --edge-columns {shlex.join(ends)}."
        )


def check_only_store(store: str, edges: str | None, features: str | None) -> None:
    """Raise SettingError where a table of edges or features stands beside a store."""
    for name, file in (("edges", edges), ("features", features)):
        if file is not None:
            raise SettingError(f"{store} is a store, which holds its {name}; leave out --{name}.")


def lost_edges_of(store: GraphStore, *, strict: bool) -> tuple[list[Rejection], int]:
    """The first edge rows of a store that cannot be read, and how many there are.

    Raises:
        DataError: `strict`, and there is one.
    """
    rejected_edges = store.manifest["rejected_edges"]
    rejections = [Rejection(*record[1:]) for record in rejected_edges["first"]]
    if rejections and strict:
        first = rejections[0]
        raise DataError(
            f"{first.file}, line {first.line}, column {first.column!r}: {first.reason}; fix the row and prepare the "
            "store again, or drop --strict to skip it."
        )
    return rejections, rejected_edges["count"]


def warn_of_unknown_words(data: StoredNodeData, *, strict: bool) -> None:
    """Says how many edges of a store have a word that the model does not know, column by column; nothing where none.

    Such an edge stays in the graph, as its rows are sorted by node and cannot be left out; it has none of the words.

    Raises:
        DataError: `strict`, and there is one.
    """
    store, columns = data.store, list(data.store.manifest["edge_words"])
    for name, words_of_model in data.edge_categories.items():
        words = store.manifest["edge_words"][name]
        if not (unknown := unknown_codes(words, words_of_model)):
            continue
        count = 0
        for array in ("edge", "loop"):
            codes = store.array(f"{array}_words")
            for start in range(0, len(codes), EDGE_CHUNK):
                count += int(np.isin(codes[start : start + EDGE_CHUNK, columns.index(name)], unknown).sum())
        if not count:
            continue
        which = f"{words[unknown[0]]!r} is not one of the {plural(len(words_of_model), 'known word')}"
        if strict:
            raise DataError(
                f"{store.folder}, column {name!r} of the edges: {which}; drop --strict to treat them as unknown."
            )
        ways = "" if store.is_directed else ", both ways counted,"
        verb = "has" if count == 1 else "have"
        remark(
            f"{plural(count, 'edge')}{ways} {verb} a word in column {name!r} that the model does not know, read as "
            f"none of its words: {which}"
        )


def source_of(store: GraphStore) -> GraphSource:
    """How the edges of a store were read."""
    return GraphSource(
        edge_columns=tuple(store.manifest["edge_columns"]),
        edge_feature_columns=tuple(store.manifest["edge_features"]),
        edge_category_columns=tuple(
            name for name in store.manifest["edge_words"] if name != store.manifest["edge_type_column"]
        ),
        directed=store.is_directed,
    )


def stored_nodes(data: StoredNodeData, encoding: GraphEncoding, num_edge_columns: int, imputer: Imputer) -> StoredNodes:
    """The graph of a store in the units of the models.

    Args:
        data: its nodes.
        encoding: how features become numbers.
        num_edge_columns: features of an edge in training.
        imputer: fills missing numbers of edges.

    Raises:
        DataError: its nodes or edges have another number of features than those of the training graph, or a number of
            an edge is missing, and the run fills none.
    """
    settings, num_features = encoding.settings, data.num_edge_features
    check_graph(encoding, data.rows.source, data.features, num_features, num_edge_columns, data.has_degrees)
    check_complete(data.store, fills=bool(imputer.median))
    if reads_weights := settings.spec.reads_edge_weights and num_features == 1:
        check_stored_weights(data, settings)
    return StoredNodes(
        data,
        partial(scaled_rows, scale=encoding.feature_scale, scaler=encoding.scaler),
        has_loops=settings.has_loops,
        reads_weights=reads_weights,
        reads_sender_degrees=settings.spec.reads_sender_degrees,
        adds_degrees=encoding.adds_degrees,
        imputer=imputer,
        are_marked=not settings.spec.reads_edge_weights,
    )


def check_complete(store: GraphStore, *, fills: bool) -> None:
    """Raise DataError where an edge of a store lacks a number, and the run fills none."""
    incomplete = store.manifest["incomplete_edges"]
    if incomplete["count"] and not fills:
        _, file, line, column, _, reason = incomplete["first"][0]
        raise DataError(
            f"{store.folder}: {plural(incomplete['count'], 'edge lacks a number', 'edges lack numbers')}, the first in "
            f"{file}, line {line}, column {column!r}: {reason}. With --missing drop a model fills none: prepare the "
            "store again with --missing drop, which leaves these edges out, or train with --missing impute."
        )


def stored_batches(nodes: StoredNodes, scale: TargetScaler | None, *, whole: bool) -> RowBatches:
    """The rows of a store; of the whole graph, where it is read into memory, else of the graph in its files."""
    rows, precomputed_model = nodes.data.rows, None if whole else partial(CachedNodeModel, nodes)
    return RowBatches.of_nodes(rows, scale, nodes.whole() if whole else nodes.graph, precomputed_model)


class CachedNodeModel:
    """One model of a stored graph: all nodes are computed once, and rows of them returned whatever the batch."""

    def __init__(self, nodes: StoredNodes, model: NodeModel, rows: np.ndarray, device: str):
        self.nodes, self.model, self.rows = nodes, model, rows
        self.all_nodes = Batch(nodes.graph, Supervision(nodes=torch.arange(nodes.num_nodes, device=device)))

    def __call__(self, _: object, /) -> torch.Tensor:
        return self.nodes.outputs(self.model, lambda: self.model(self.all_nodes).cpu(), "outputs")[self.rows]

    def fingerprint(self, _: object, /) -> torch.Tensor:
        """The learned vectors of the rows."""
        vectors = self.nodes.outputs(self.model, lambda: self.model.fingerprint(self.all_nodes).cpu(), "vectors")
        return vectors[self.rows]


def stored_predictions(
    trained: FittedTable, data: StoredNodeData, request: PredictRequest, suffix: str
) -> Generator[tuple[Written, str]]:
    """The names of the nodes of a store with their predictions, some at a time, and a line about those so far."""
    usable, column = data.rows.usable, data.store.manifest["name_column"] or "node"
    statuses, tally = trained.statuses(data), Tally()
    for start in range(0, len(data.rows), PREDICTION_CHUNK):
        stop = min(start + PREDICTION_CHUNK, len(data.rows))
        rows = start + np.flatnonzero(usable[start:stop])
        predictions = trained.predict_rows(
            data,
            rows,
            coverage=request["coverage"],
            device=pick_device(request.device),
            positions=rows - start,
            num_rows=stop - start,
        )
        frame = pd.DataFrame({column: node_names(data.store, start, stop)})
        status = statuses[start:stop]
        added = {**prediction_columns(trained, predictions), "status": status}
        tally += Tally.of(status, data.rows.status[start:stop], len(rows), counts_doubts=False)
        yield with_columns(frame, added, request.data, suffix, with_header=not start), tally.summary
    note_empty_intervals(trained, request)


def notes_of_store(data: StoredNodeData, settings: NodeSettings, columns: Columns) -> list[str]:
    """The edges of a store, what a model does not read, and what its nodes lack, a line each."""
    store = data.store
    lines = [f"{plural(store.num_edges, 'edge')}, {store.ways}; {plural(data.features.shape[1], 'feature')} of a node"]
    if count := store.manifest["num_loops"]:
        lines.append(plural(count, "edge is a loop, counted as a neighbor", "edges are loops, counted as neighbors"))
    if count := store.manifest["rejected_edges"]["count"]:
        _, file, line, column, _, reason = store.manifest["rejected_edges"]["first"][0]
        what = f"{plural(count, 'row of the edges has', 'rows of the edges have')} a cell that cannot be read"
        lines.append(f"{what}, the first in {file}, line {line}, column {column!r}: {reason}")
    lines += note_of_edges(data.num_edge_features, settings)
    types = store.manifest["edge_type_column"], store.manifest["config"]["columns"]["node_type_column"]
    for types_column, whose in zip(types, ("edges", "nodes"), strict=True):
        if types_column:
            lines.append(
                f"the types of {whose} (column {types_column!r}) are stored; --model {settings.model} ignores them"
            )
    prepared = store.manifest["config"]["columns"]
    for role in ROW_ROLES:
        if (name := prepared[role]) and getattr(columns, role) is None:
            lines.append(f"column {name!r} was prepared as {spelled(role)}, which is not named here: it is not used")
    roles = columns.roles()
    used = {name for role in ("descriptors_columns", "target_columns", *roles) for name in roles[role]}
    for name in prepared["category_columns"]:
        if name not in used:
            role = spelled("category_columns")
            lines.append(f"column {name!r} was prepared as {role}, which is not named here: it is not used")
    if times_column := store.manifest["edge_time_column"]:
        lines.append(f"the times of edges (column {times_column!r}) are stored; no model reads them")
    return lines


def check_stored_weights(data: StoredNodeData, settings: NodeSettings) -> None:
    """Raise DataError where the one feature of an edge is read as its weight, and is below 0."""
    weights = data.store.array("edge_features")[:, 0]
    for start in range(0, len(weights), EDGE_CHUNK):
        # Missing weights are filled with a median of the others.
        if (least := float(np.fmin.reduce(weights[start : start + EDGE_CHUNK], initial=0))) < 0:
            raise DataError(
                f"{data.rows.source}: the weight of an edge is {least:g}; --model {settings.model} reads the one "
                "feature of an edge as its weight, expected zero or more."
            )
