"""Links: which nodes of a graph are linked."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.files import JsonObject
from edgewise.learn.outputs import scatter_rows
from edgewise.learn.progress import counted
from edgewise.learn.readers.graphs.edges import AS_FEATURES, NONE, no_edges, read_edges
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.links import (
    Links,
    LinkSplits,
    named_splits,
    random_splits,
    read_pairs_of_nodes,
    split_labels,
)
from edgewise.learn.readers.graphs.lost import EDGES, FEATURES, REASONS, num_lacking, of_ends, with_lost
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.nodes import NodeData, read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tasks.chunks import unpredicted
from edgewise.learn.tasks.graph_notes import note_of_edges, notes_of_features, notes_of_missing_edges, one_process
from edgewise.learn.tasks.graph_settings import holds_types
from edgewise.learn.tasks.links.model import (
    PREFIX,
    FittedLinks,
    LinkEncoder,
    LinkOutput,
    PairScores,
    TrainingLinkLoader,
    link_batch,
    node_vectors,
    pair_scores,
    predict,
)
from edgewise.learn.tasks.links.settings import SETTINGS, STEPS_PER_EPOCH, LinkRunSettings
from edgewise.learn.tasks.prediction_columns import format_cell, with_columns
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.report.evaluation import evaluated_links
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, command, free_name, split_lines
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, Written, training_metrics
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.links import LINK_SCORES
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.settings import TrainSettings

Ends: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Senders and receivers of pairs."""


load = partial(FittedLinks.load, format=SETTINGS.format, prefix=PREFIX, encoder=LinkEncoder, output=LinkOutput)
"""Reads the model of a run folder."""


@dataclass(frozen=True, eq=False)
class LinkData:
    """A graph and its links."""

    graph: LinkGraph
    """The graph."""
    links: Links
    """Its links."""
    nodes: NodeData | None = None
    """The nodes that the graph was read from."""


PreparedLinks: TypeAlias = Prepared[LinkRunSettings, LinkData, LinkSplits, FittedLinks]
"""A graph whose links are split."""


def prepare(settings: LinkRunSettings) -> PreparedLinks:
    column, seed = settings.splits_column, settings.data_seed
    how = {"edge_splits_column": column, "fills_edges": settings.missing == "impute"}
    data = _graph(settings.data, settings.columns, settings.graph, settings.strict, **how)
    links = Links.of(data.edges, len(data.rows), settings.graph.directed)
    if column is None:
        split_of_link = random_splits(links, settings.split_sizes, seed)
    else:
        split_of_link = named_splits(links, split_labels(data.edges, column), seed)

    splits = LinkSplits.of(links, split_of_link, settings.negatives, seed)
    columns, graph = data.rows.columns, data.edges.resolved(settings.graph)
    settings = replace(
        settings, descriptors_columns=columns.descriptors_columns, node_column=columns.node_column or AUTO, graph=graph
    )
    ready = prepared(settings, LinkData(LinkGraph.of(data), links, data), splits)
    # Edges as they stand in the file, both where a link has two; mirrored edges are not counted.
    link_of_edge = links.of_edge[: len(data.edges) - data.edges.num_mirrored]
    rows = {
        name: np.flatnonzero(np.isin(link_of_edge, links_of_split)).tolist()
        for name, links_of_split in (("train", splits.train), ("val", splits.val), ("test", splits.test))
    }
    return replace(ready, rows=rows, rejected=data.rows.rejected)


def prepared(settings: LinkRunSettings, data: LinkData, splits: LinkSplits) -> PreparedLinks:
    """The same of a graph whose links are split.

    Raises:
        DataError: there are fewer than two training links.
        SettingError: the batches are so large that fewer than half of the training links carry messages.
    """
    count = len(splits.train)
    if count < 2:
        raise DataError(f"{count} training link; expected two or more: while one is predicted, others carry messages.")
    batch_size = settings.train.batch_size or math.ceil(count / STEPS_PER_EPOCH)
    if 2 * batch_size > count + 1:
        raise SettingError(
            f"--batch-size is {batch_size}, but there are {count} training links; no message goes along those that "
            f"are predicted in a step, so expected at most {(count + 1) // 2}."
        )
    settings = replace(settings, train=replace(settings.train, batch_size=batch_size))
    training_edges = data.links.edge_mask(splits.message_passing)
    graph = replace(data.graph, edges=data.graph.edges.with_words_of(training_edges))
    data = replace(data, graph=graph)
    return Prepared(settings, data, splits, untrained(settings, data.graph, data.nodes, training_edges))


def untrained(
    settings: LinkRunSettings,
    graph: LinkGraph,
    data: NodeData | None = None,
    training_edges: np.ndarray | None = None,
) -> FittedLinks:
    """The model before its first step; arguments as for `LinkEncoder.fit`."""
    encoder = LinkEncoder.fit(settings, graph, data, training_edges)
    return FittedLinks(format=SETTINGS.format, encoder=encoder, output=LinkOutput(settings.link), prefix=PREFIX)


def loaders(prepared: PreparedLinks) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    """Messages go along the training links alone, without those that a step predicts."""
    links, splits, negatives = prepared.data.links, prepared.splits, prepared.settings.negatives
    graph = prepared.fitted.encoder.scaled(prepared.data.graph)
    validation = None
    if len(splits.val):
        batch = link_batch(
            graph.graph(links.edge_mask(splits.message_passing)), links, splits.val, splits.val_negatives
        )
        validation = RowLoader(np.zeros(1), lambda rows: batch, 1)

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        return TrainingLinkLoader(graph, links, splits, recipe.batch_size, negatives, recipe.seed), validation

    return of_member


def evaluate(prepared: PreparedLinks, results: list[FitResult]) -> JsonObject:
    """The scores of the model and of baselines, messages going along the training links alone."""
    splits, settings, output = prepared.splits, prepared.settings, prepared.fitted.output
    data: LinkData = prepared.data
    counts = {name: len(getattr(splits, name)) for name in ("train", "val", "test")}
    if data.nodes is not None:
        counts["rejected"] = len(data.nodes.rows.rejected)
    metrics: JsonObject = {"rows": counts, **training_metrics(prepared, results[0])}

    scorers: dict[str, PairScores] = {"edgewise": scores_of_model(prepared)}
    if settings.baselines:
        ends = data.links.pairs.ends(data.links.numbers[splits.message_passing])
        scorers |= output.baselines(ends, data.graph, settings.graph.directed)
    for name, score in counted(scorers.items(), "scoring links"):
        scores = {
            split: output.metrics(score(*linked), score(*others))
            for split, linked, others in scored_pairs(data.links, splits)
        }
        if name == "edgewise":
            metrics |= scores
        else:
            metrics.setdefault("baselines", {})[name] = scores
    return metrics


def scores_of_model(prepared: PreparedLinks) -> PairScores:
    """The scores of the model where messages go along the links that training sees."""
    fitted, data = prepared.fitted, prepared.data
    seen = fitted.encoder.scaled(data.graph).graph(data.links.edge_mask(prepared.splits.message_passing))
    vectors = node_vectors(fitted, seen)
    return lambda senders, receivers: pair_scores(fitted, vectors, senders, receivers)


def write_predictions(prepared: PreparedLinks, folder: RunFolder, metrics: JsonObject) -> None:
    """Writes the test links, the pairs without a link, and their probabilities."""
    data, names, score = prepared.data, prepared.data.graph.names, scores_of_model(prepared)
    rows = []
    for split, *ends_of_label in scored_pairs(data.links, prepared.splits):
        if split != "test":
            continue
        for is_link, ends in zip((1, 0), ends_of_label, strict=True):
            probabilities = prepared.fitted.output.probabilities(score(*ends))
            for sender, receiver, probability in zip(*ends, probabilities, strict=True):
                rows.append([names[sender], names[receiver], is_link, format_cell(probability)])
    folder.write_table("test_predictions.csv", ["sender", "receiver", "is_link", "link_prob"], rows)


def describe(prepared: PreparedLinks, folder: RunFolder) -> list[str]:
    data, splits, settings = prepared.data, prepared.splits, prepared.settings
    nodes, links = data.nodes, data.links
    assert nodes is not None
    lines = [
        f"{nodes.rows.source}: {plural(len(nodes.rows), 'node')}, {plural(len(links), 'link')}, "
        f"{plural(len(nodes.rows.rejected), 'row')} rejected"
    ]
    if nodes.rows.rejected:
        first = nodes.rows.rejected[0]
        where = f"{first.file}, line {first.line}, column {first.column!r}"
        lines.append(f"  the first in {where}: {first.reason} (all in {folder.path / 'rejected.csv'})")
    lines += [f"  {note}" for note in notes(prepared)]

    counts = {split: len(getattr(splits, split)) for split in ("train", "val", "test")}
    details = (
        f" (split: {'column' if settings.splits_column else 'random'}), for each {settings.negatives} of "
        f"{plural(links.pairs.total - len(links), 'pair without a link', 'pairs without a link')}"
    )
    return [*lines, *split_lines(counts, "link", details=details)]


def warnings(prepared: PreparedLinks) -> list[str]:
    """Features of nodes that do not vary; Python warns of them, too."""
    encoder: LinkEncoder = prepared.fitted.encoder
    graph, scaler = encoder.graph, encoder.scaler
    is_loop = "edge is a self-loop: it carries messages, but is not a link"
    are_loops = "edges are self-loops: they carry messages, but are not links"
    num_loops = graph.edges.num_loops
    lines = [plural(num_loops, is_loop, are_loops)] if num_loops else []
    source = "the training links"
    if scaler is not None and len(scaler.constant_columns) == len(scaler.mean):
        lines.append("warning: no feature of a node varies; leave them out, and each node learns a vector instead")
        return [*lines, *notes_of_missing_edges(encoder.on_graph, graph.edges, source=source)]
    return [*lines, *notes_of_features(encoder.on_graph, graph.features, graph.edges, source_of_edges=source)]


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    links, others = (metrics[split][name] for name in ("num_links", "num_others"))
    pairs = plural(others, "pair without a link", "pairs without a link")
    return TASK.score_table(metrics, split, f"{plural(links, split + ' link')} and {pairs}")


def next_commands(folder: RunFolder) -> list[str]:
    config = folder.read_config()
    if config.get("edges"):  # a table of edges is one of pairs, too
        return [command("predict", folder.path, config["edges"], "-o", free_name("predictions.csv"))]
    return [command("fingerprint", folder.path, config["data"][0], "-o", free_name("vectors.npz"))]


def predict_pairs(request: PredictRequest, suffix: str) -> tuple[Written, str]:
    """How probably each pair of a table is a link, and whether it is one already."""
    fitted = _loaded(request)
    graph, source = graph_of(fitted, request), fitted.encoder.place
    data = read_pairs_of_nodes(request.data, NodeNames(graph.names), source.edge_columns, strict=request.strict)
    rows = np.flatnonzero(data.usable)
    ends = data.senders[rows], data.receivers[rows]

    on_graph = fitted.encoder.on_graph
    lost = on_graph.hops_to_lost(graph.edges, len(graph))
    unread = on_graph.hops_to_unread(graph.edges, len(graph), graph.unread)
    status: Sequence[str] = data.status
    for hops, what in ((lost, EDGES), (unread, FEATURES)):
        status = with_lost(status, of_ends(hops, ends, rows, data.num_rows), "its nodes", what)
    links = Links.of(graph.edges, len(graph), source.directed, allow_empty=True)
    are_known = links.contain(links.pairs.of(*ends))

    probabilities = predict(fitted, *ends, graph, pick_device(request.device))
    added: dict[str, np.ndarray | Sequence[object]] = {
        "link_prob": scatter_rows(probabilities, rows, data.num_rows),
        "is_known": scatter_rows(are_known.astype(np.float64), rows, data.num_rows),
        "status": status,
    }
    content = with_columns(data.frame, added, request.data, suffix)
    counts = {reason: num_lacking(status, what) for what, reason in REASONS.items()}
    lacking = "".join(f", {count:,} of them {reason}" for reason, count in counts.items() if count)
    summary = (
        f"{len(rows):,} of {plural(data.num_rows, 'pair')} predicted, {sum(are_known):,} of them links of the "
        f"graph already{lacking}"
    )
    return content, f"{summary}{unpredicted(data.num_rows - len(rows))}"


def open_nodes(request: PredictRequest) -> tuple[FittedLinks, NodeData]:
    """The trained model, and the graph whose nodes have vectors."""
    if request["nodes"] is not None:
        raise SettingError("--nodes is for pairs of nodes; DATA names the nodes whose vectors are written.")
    fitted = _loaded(request)
    return fitted, nodes_of(fitted, request, request.data)


def vectors_of_nodes(fitted: FittedLinks, data: NodeData, device: str) -> np.ndarray:
    """`(node, vector)`: the learned vector of each node of a table."""
    graph = fitted.encoder.scaled(LinkGraph.of(data)).graph()
    return node_vectors(fitted, graph, device).numpy()


def notes(prepared: PreparedLinks) -> list[str]:
    """The graph, what was assumed of it, and what it lacks."""
    data, splits, settings = prepared.data, prepared.splits, prepared.settings
    nodes, links = data.nodes, data.links
    assert nodes is not None
    edges, num_nodes, num_features = nodes.edges, len(nodes.rows), nodes.features.shape[1]
    no_features = "no features: each node learns a vector of its own"
    features = f"{plural(num_features, 'feature')} of a node" if num_features else no_features
    lines = [f"{edges.ways(settings.graph.directed)}; {features}", *edges.unused(AS_FEATURES, [settings.splits_column])]
    if holds_types(settings.data):
        lines.append("types of nodes or edges, which no model of links uses")
    lines += [*note_of_edges(edges.features.shape[1], settings.model), *warnings(prepared)]

    num_unusable = num_nodes - int(nodes.rows.usable.sum())
    num_in_splits = sum(len(links_of_split) for links_of_split in (splits.train, splits.val, splits.test))
    unread = "that cannot be read, 0 there: links are learned and predicted all the same"
    counts = [
        (edges.num_repeated(num_nodes), "edge repeats", "edges repeat", "another one: the same link"),
        (edges.num_isolated(num_nodes), "node has", "nodes have", "no neighbor"),
        (num_unusable, "node has features", "nodes have features", unread),
        (len(links) - num_in_splits, "link is", "links are", "of no part: messages go along, and nothing is predicted"),
    ]
    return lines + [f"{plural(count, one, many)} {detail}" for count, one, many, detail in counts if count]


def scored_pairs(links: Links, splits: LinkSplits) -> list[tuple[str, Ends, Ends]]:
    """The name of each scored split, its links, and its pairs without a link."""
    ends = links.pairs.ends
    scored = ("validation", splits.val, splits.val_negatives), ("test", splits.test, splits.test_negatives)
    return [(name, ends(links.numbers[rows]), ends(others)) for name, rows, others in scored if len(rows)]


def _loaded(request: PredictRequest) -> FittedLinks:
    """The model that a request names."""
    fitted = load(request.run_folder)
    fitted.threads = request.threads
    return fitted


def graph_of(fitted: FittedLinks, request: PredictRequest) -> LinkGraph:
    """The graph whose edges carry messages: that of the training, its nodes with other edges, or another one."""
    if request["nodes"] is not None:
        return LinkGraph.of(nodes_of(fitted, request, request["nodes"]))
    for name in ("features", "node_column", "descriptors_columns"):
        if request[name] is not None:
            raise SettingError(f"--{name.replace('_', '-')} belongs to a table of nodes; name it: --nodes nodes.csv.")
    encoder = fitted.encoder
    graph, source = encoder.graph, encoder.place
    if request["edges"] is None:
        return graph

    edges = read_edges(
        no_edges(source) if request["edges"] == NONE else request["edges"],
        NodeNames(graph.names),
        graph.source,
        edge_columns=source.edge_columns,
        feature_columns=source.edge_feature_columns,
        category_columns=source.edge_category_columns,
        categories=encoder.edge_categories,
        imputes=bool(encoder.edge_imputer.median),
        strict=request.strict,
        may_be_empty=True,
        ends_are_of_training=True,
    )
    list_left_out(edges.rejected, request=request)
    return replace(graph, edges=edges.messages(len(graph), source.directed), source=request["edges"])


def nodes_of(fitted: FittedLinks, request: PredictRequest, path: str) -> NodeData:
    """Another graph, with the columns that the model needs."""
    encoder = fitted.encoder
    columns = replace(
        encoder.on_graph.columns,
        node_column=request["node_column"] or AUTO,
        descriptors_columns=tuple(request["descriptors_columns"] or encoder.feature_columns),
    )
    source = replace(encoder.place, edges=request["edges"], features=request["features"])
    data = _graph([path], columns, source, request.strict, find_features=False, **encoder.reading)
    edges = set(data.edges.rejected)
    nodes = [row for row in data.rows.rejected if row not in edges]
    list_left_out(data.edges.rejected, request=request, nodes=nodes)
    return data


def _graph(paths: Sequence[str], columns: Columns, source: GraphSource, strict: bool, **how: Any) -> NodeData:
    """A graph without targets; its nodes have the features that are read, or none."""
    options = {"find_features": True, "with_degrees": False, "with_types": False, "need_targets": False, **how}
    return read_nodes(paths, columns, source, strict=strict, **options)


TASK = Task(
    settings=SETTINGS,
    noun="links",
    explainable="edgewise.learn.tasks.links.explainable:EXPLAINABLE",
    headlines=by_own_name(*LINK_SCORES),
    labels={
        "common_neighbors": "common neighbors",
        "adamic_adar": "Adamic-Adar",
        "preferential": "degree times degree",
        "other_way": "the other way is known",
        "features": "likeness of features",
    },
    prepare=prepare,
    load=load,
    loaders=loaders,
    whole_graph=one_process,
    evaluate=evaluate,
    write_predictions=write_predictions,
    description=describe,
    warnings=warnings,
    score_tables=score_tables,
    further_commands=next_commands,
    predict=predict_pairs,
    open_rows=open_nodes,
    vectors=vectors_of_nodes,
    test_targets=evaluated_links,
)
