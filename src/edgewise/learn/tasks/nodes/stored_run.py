"""Runs over a store: its nodes, its batches, predictions some nodes at a time; and when neighbors are sampled."""

from collections.abc import Generator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from edgewise.errors import DataError, SettingError, plural
from edgewise.graph import Batch, Supervision
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.progress import remark
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store.data import StoredNodeData, read_store
from edgewise.learn.readers.store.layout import GraphStore
from edgewise.learn.readers.store.nodes import node_names
from edgewise.learn.settings import spelled
from edgewise.learn.tables.cell import Rejection
from edgewise.learn.tables.read import pd
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.chunks import Tally, note_empty_intervals
from edgewise.learn.tasks.nodes.settings import SAMPLED_BATCH_SIZE, NodeRunSettings
from edgewise.learn.tasks.nodes.stored import EDGE_CHUNK, StoredNodes
from edgewise.learn.tasks.prediction_columns import prediction_columns, with_columns
from edgewise.learn.tasks.task import PredictRequest, Prepared, Written
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.estimate import of_counts, size

PREDICTION_CHUNK = 2**16
"""Nodes whose predictions are written together."""
FANOUTS = (15, 10, 5)
"""Edges a node in each hop where the whole graph does not fit; further hops have the last."""


def stored_nodes_of_run(settings: NodeRunSettings) -> StoredNodeData:
    """The store that a run names.

    Raises:
        SettingError: there is more than one, a table is named beside it, or its edges were read otherwise.
    """
    if len(settings.data) != 1:
        raise SettingError(f"{len(settings.data)} files were given, expected one store.")
    for name in ("edges", "features"):
        if getattr(settings.graph, name) is not None:
            raise SettingError(f"{settings.data[0]} is a store, which holds its {name}; leave out --{name}.")
    data = read_store(settings.data[0], settings.columns, strict=settings.strict)
    lost_edges_of(data.store, strict=settings.strict)
    kept = source_of(data.store)
    for name in ("edge_columns", "edge_feature_columns", "edge_category_columns", "edge_type_column", "directed"):
        wanted, stored = getattr(settings.graph, name), getattr(kept, name)
        if wanted and wanted != stored:
            preparation = (
                f" has {', '.join(stored)}" if isinstance(stored, tuple) and stored else " was prepared without"
            )
            raise SettingError(
                f"{settings.data[0]} is a store, which{preparation}: {spelled(name)} cannot change it; leave it out, "
                "or prepare the store again with it."
            )
    return data


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


def say_unknown_words(data: StoredNodeData, *, strict: bool) -> None:
    """Says how many edges of a store have a word that the model does not know, column by column; nothing where none.

    Such an edge stays in the graph, as its rows are sorted by node and cannot be left out; it has none of the words.

    Raises:
        DataError: `strict`, and there is one.
    """
    store, columns = data.store, list(data.store.manifest["edge_words"])
    for name, words_of_model in data.edge_categories.items():
        words = store.manifest["edge_words"][name]
        if not (unknown := [code for code, word in enumerate(words) if word not in words_of_model]):
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
            raise DataError(f"{store.folder}, column {name!r} of the edges: {which}; drop --strict to read none.")
        ways = "" if "num_mirrored" not in store.manifest else ", both ways counted,"
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
        directed="num_mirrored" not in store.manifest,
    )


def stored_batches(data: StoredNodeData, nodes: StoredNodes, scale: TargetScaler | None, *, whole: bool) -> RowBatches:
    """The rows of a store; of the whole graph, where it is read into memory, else of the graph in its files."""
    graph = nodes.whole() if whole else nodes.graph

    def batch(rows: np.ndarray) -> Batch:
        return Batch(graph, Supervision(nodes=torch.from_numpy(np.asarray(rows, dtype=np.int64))))

    precomputed_model = None if whole else partial(CachedNodeModel, nodes)
    return RowBatches.of(data.rows, scale, batch, graph, precomputed_model)


class CachedNodeModel:
    """A model of a stored graph: computes all nodes on first use, then returns rows from the cache."""

    def __init__(self, nodes: StoredNodes, member: NodeModel, rows: np.ndarray, device: str):
        self.nodes, self.member, self.rows = nodes, member, rows
        self.everyone = Batch(nodes.graph, Supervision(nodes=torch.arange(nodes.num_nodes, device=device)))

    def __call__(self, _: object, /) -> torch.Tensor:
        return self.nodes.outputs(self.member, lambda: self.member(self.everyone).cpu(), "outputs")[self.rows]

    def fingerprint(self, _: object, /) -> torch.Tensor:
        """The learned vectors of the rows."""
        vectors = self.nodes.outputs(self.member, lambda: self.member.fingerprint(self.everyone).cpu(), "vectors")
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
        without_edges = sum(said != read for said, read in zip(status, data.rows.status[start:stop], strict=True))
        tally += Tally(stop - start, len(rows), num_without_edges=without_edges)
        yield with_columns(frame, added, request.data, suffix, with_header=not start), tally.summary
    note_empty_intervals(trained, request)


def sampled_if_large(prepared: Prepared, batch_size: int | None) -> Prepared:
    """The same run with sampled neighbors where a step over the whole graph would not fit into memory.

    Args:
        prepared: a run over nodes.
        batch_size: the one that was given.
    """
    settings: NodeRunSettings = prepared.settings
    if settings.fanouts or settings.model.num_virtual_nodes or not settings.train.check_memory:
        return prepared
    data, fitted = prepared.data, prepared.fitted
    num_nodes, width = data.features.shape
    num_edges = data.store.num_edges if isinstance(data, StoredNodeData) else len(data.edges)
    num_edges += num_nodes * settings.model.has_loops
    # What is read into memory before the first step: features, ends of edges and their plan, what is known of edges.
    read = 4 * num_nodes * width + num_edges * (40 + 4 * fitted.encoder.sizes.num_edge_features)
    with torch.device("meta"):
        model = fitted.new_member()
    device = pick_device(settings.train.device)
    full_step = of_counts(
        model, num_nodes, num_edges, settings.train, device, read if isinstance(data, StoredNodeData) else 0
    )
    if full_step.available is None or full_step.needed <= full_step.available:
        return prepared
    hops = min(settings.model.reach, len(FANOUTS)) if settings.model.spec.over_distances else settings.model.reach
    fanouts = tuple(FANOUTS[min(hop, len(FANOUTS) - 1)] for hop in range(hops))
    chosen = replace(
        settings, fanouts=fanouts, train=replace(settings.train, batch_size=batch_size or SAMPLED_BATCH_SIZE)
    )
    line = (
        f"neighbors are sampled, --fanouts {' '.join(map(str, fanouts))}: a step over the whole graph needs about "
        f"{size(full_step.needed)} of memory, and {size(full_step.available)} are available"
    )
    return replace(prepared, settings=chosen, decisions=(*prepared.decisions, line))
