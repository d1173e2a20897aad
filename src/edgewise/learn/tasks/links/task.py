"""Links: which nodes of a graph are linked."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.learn.networks.graph_settings import NodeSizes, num_edge_inputs
from edgewise.learn.outputs import spread
from edgewise.learn.progress import counted
from edgewise.learn.readers.graphs.edges import AS_FEATURES, read_edges
from edgewise.learn.readers.graphs.links import (
    Links,
    LinkSplits,
    named_splits,
    random_splits,
    read_pairs_of_nodes,
    split_labels,
)
from edgewise.learn.readers.graphs.lost import NOWHERE, REASON, with_lost
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import NodeTable, read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.types import TypeScaler
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.impute import Imputer, filled_notes
from edgewise.learn.tables.scale import ConditionScaler
from edgewise.learn.tasks.chunks import unpredicted
from edgewise.learn.tasks.links.settings import STEPS_AN_EPOCH, LinkRunSettings
from edgewise.learn.tasks.links.trained import FittedLinks, LinkGraph, LinkLoader, link_batch, probabilities
from edgewise.learn.tasks.nodes.filled import notes_of_missing_edges, num_edge_marks
from edgewise.learn.tasks.nodes.settings import holds_types
from edgewise.learn.tasks.nodes.units import (
    fills,
    lost_within_reach,
    note_of_edges,
    scale_of,
)
from edgewise.learn.tasks.prediction_columns import show, with_columns
from edgewise.learn.tasks.rejected import list_left_out
from edgewise.learn.tasks.report.judged import judged_links
from edgewise.learn.tasks.scores import command, free_name, same, split_line
from edgewise.learn.tasks.table_notes import constant_features, names_of_features
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.training.device import pick_device
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.links import LINK_SCORES, link_scores, simple_links
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.learn.tasks.report.judged import Labels, Numbers
    from edgewise.learn.training.training import FitResult

Pairs = tuple[np.ndarray, np.ndarray]
"""Senders and receivers."""


@dataclass(frozen=True, eq=False)
class LinkData:
    """A graph and its links."""

    graph: LinkGraph
    """The graph."""
    links: Links
    """Its links."""
    table: NodeTable | None = None
    """The table that the graph was read from."""


def prepare(settings: LinkRunSettings) -> Prepared:
    column, seed = settings.splits_column, settings.data_seed
    how = {"edge_splits_column": column, "fills_edges": settings.missing == "impute"}
    table = _graph(settings.data, settings.columns, settings.graph, settings.strict, **how)
    links = Links.of(table.edges, table.num_rows, settings.graph.directed)
    if column is None:
        split_of_link = random_splits(links, settings.split_sizes, seed)
    else:
        split_of_link = named_splits(links, split_labels(table.edges, column), seed)
    splits = LinkSplits.of(links, split_of_link, settings.negatives, seed)
    settings = replace(settings, descriptors_columns=table.columns.descriptors_columns)
    ready = prepared(settings, LinkData(LinkGraph.of(table), links, table), splits)
    # Edges as they stand in the file, both where a link has two; what is no edge is not counted.
    of_edge = links.of_edge[: len(table.edges) - table.edges.num_mirrored]
    rows = {
        name: np.flatnonzero(np.isin(of_edge, some)).tolist()
        for name, some in (("train", splits.train), ("val", splits.val), ("test", splits.test))
    }
    return replace(ready, rows=rows, rejected=table.rejected)


def prepared(settings: LinkRunSettings, data: LinkData, splits: LinkSplits) -> Prepared:
    """The same of a graph whose links are split.

    Raises:
        DataError: there are fewer than two training links.
        SettingError: the batches are so large that fewer than half of the training links carry messages.
    """
    count = len(splits.train)
    if count < 2:
        raise DataError(f"{count} training link; expected two or more: while one is predicted, others carry messages.")
    batch_size = settings.train.batch_size or math.ceil(count / STEPS_AN_EPOCH)
    if 2 * batch_size > count + 1:
        raise SettingError(
            f"--batch-size is {batch_size}, but there are {count} training links; no message goes along those that "
            f"are predicted in a step, so expected at most {(count + 1) // 2}."
        )
    settings = replace(settings, train=replace(settings.train, batch_size=batch_size))
    fitted = untrained(settings, data.graph)
    fitted.edge_categories = data.graph.edges.categories
    if data.table is not None:
        fitted.category_columns, fitted.categories = settings.category_columns, data.table.categories
    return Prepared(settings, data, splits, fitted)


def untrained(settings: LinkRunSettings, graph: LinkGraph) -> FittedLinks:
    """The model before its first step; the features are scaled by all nodes, which are all seen in training.

    Raises:
        SettingError: a scale is given, and there are no features.
    """
    num_columns = graph.features.shape[1]
    if num_columns:
        scale, scaler = scale_of(graph.features, settings.feature_scale)
        assert not isinstance(scaler, TypeScaler)
        num_features = num_columns if scaler is None else scaler.num_features
    elif settings.feature_scale != "auto":
        raise SettingError(f"--feature-scale {settings.feature_scale} does nothing: the nodes have no features.")
    else:
        scale, scaler, num_features = "none", None, len(graph)
    imputer = Imputer.fit([graph.edges.features]) if settings.missing == "impute" else Imputer()
    num_edge_columns = graph.edges.features.shape[1] + num_edge_marks(imputer, settings.model)
    sizes = NodeSizes(
        num_features=num_features,
        num_edge_features=num_edge_inputs(num_edge_columns, settings.model),
        num_outputs=settings.model.model_dim,
    )
    return FittedLinks(
        settings=settings.model,
        link=settings.link,
        sizes=sizes,
        place=settings.graph,
        feature_columns=settings.descriptors_columns,
        feature_scale=scale,
        scaler=scaler,
        edge_imputer=imputer,
        graph=graph,
    )


def loaders(prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    """Messages go along the training links alone, without those that a step predicts."""
    links, splits, negatives = prepared.data.links, prepared.splits, prepared.settings.negatives
    messages = prepared.fitted.messages(prepared.data.graph)
    validation = None
    if len(splits.val):
        batch = link_batch(messages.along(links.edges_of(splits.seen)), links, splits.val, splits.val_others)
        validation = RowLoader(np.zeros(1), lambda rows: batch, 1)

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        return LinkLoader(messages, links, splits, recipe.batch_size, negatives, recipe.seed), validation

    return of_member


def whole_graph(prepared: Prepared) -> str | None:
    return "train in one process, with a --batch-size if you like"


def loss(prepared: Prepared) -> TargetLoss:
    return TargetLoss("classification", prepared.settings.train.loss_function)


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The scores of the model and of baselines, messages going along the training links alone."""
    fitted, splits, settings = prepared.fitted, prepared.splits, prepared.settings
    data: LinkData = prepared.data
    graph, links = data.graph, data.links
    counts = {name: len(getattr(splits, name)) for name in ("train", "val", "test")}
    if data.table is not None:
        counts["rejected"] = len(data.table.rejected)
    metrics: dict[str, Any] = {"rows": counts, **training_metrics(prepared, results[0])}
    vectors = fitted.vectors(fitted.messages(graph).along(links.edges_of(splits.seen)))
    models = {"edgewise": lambda senders, receivers: fitted.scores(vectors, senders, receivers)}
    if settings.baselines:
        ends = links.pairs.ends(links.numbers[splits.seen])
        models |= simple_links(*ends, len(graph), settings.graph.directed, sparse(graph.features))
    for name, score in counted(models.items(), "scoring"):
        found = {
            split: link_scores(score(*linked), score(*others)) for split, linked, others in scored_pairs(links, splits)
        }
        if name == "edgewise":
            metrics |= found
        else:
            metrics.setdefault("baselines", {})[name] = found
    return metrics


def write_predictions(prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:
    """Writes the test links, the pairs that are none, and their probabilities."""
    fitted, data, splits = prepared.fitted, prepared.data, prepared.splits
    names = data.graph.names
    vectors = fitted.vectors(fitted.messages(data.graph).along(data.links.edges_of(splits.seen)))
    rows = [
        [names[sender], names[receiver], is_link, show(probability)]
        for split, *both in scored_pairs(data.links, splits)
        if split == "test"
        for is_link, ends in zip((1, 0), both, strict=True)
        for sender, receiver, probability in zip(*ends, probabilities(fitted.scores(vectors, *ends)))
    ]
    folder.write_table("test_predictions.csv", ["sender", "receiver", "is_link", "link_prob"], rows)


def describe(prepared: Prepared, folder: RunFolder) -> list[str]:
    data, splits, settings = prepared.data, prepared.splits, prepared.settings
    table, links = data.table, data.links
    lines = [
        f"{table.source}: {plural(table.num_rows, 'node')}, {plural(len(links), 'link')}, "
        f"{plural(len(table.rejected), 'row')} rejected"
    ]
    if table.rejected:
        first, place = table.rejected[0], folder.path / "rejected.csv"
        where = f"{first.file}, line {first.line}, column {first.column!r}"
        lines.append(f"  the first in {where}: {first.reason} (all in {place})")
    lines += [f"  {note}" for note in notes(prepared)]
    counts = split_line({split: len(getattr(splits, split)) for split in ("train", "val", "test")}, "link")
    lines.append(
        f"{counts} (split: {'column' if settings.splits_column else 'random'}), for each {settings.negatives} of "
        f"{plural(links.pairs.total - len(links), 'pair that is none', 'pairs that are none')}"
    )
    if not len(splits.val):
        lines.append("  no validation links: the last epoch is used")
    return lines


def warnings(prepared: Prepared) -> list[str]:
    """Features of nodes that do not vary; Python warns of them, too."""
    fitted, named = prepared.fitted, prepared.settings.descriptors_columns
    data, edges = prepared.data, fitted.graph.edges
    is_loop = "edge is a loop, which is no link, and carries messages"
    are_loops = "edges are loops, which are no links, and carry messages"
    count = data.graph.edges.num_loops
    found = [plural(count, is_loop, are_loops)] if count else []
    of_edges = prepared.settings.graph.edge_feature_columns
    names = names_of_features(of_edges, edges.features.shape[1], fitted.edge_categories)
    found += notes_of_missing_edges(edges, names, fitted.settings)
    if not isinstance(scaler := fitted.scaler, ConditionScaler):
        return found
    if len(scaler.constant_columns) == len(scaler.mean):
        constant = "warning: no feature of a node varies; leave them out, and each node learns a vector instead"
        return [*found, constant]
    names = names_of_features(named, fitted.num_columns, fitted.categories)
    found += filled_notes(fitted.graph.features.to_dense()[:, : len(names)], names, "nodes", source="all nodes")
    return [*found, *constant_features(scaler, names, "nodes")]


def title(metrics: dict[str, Any], split: str) -> str:
    links, others = (metrics[split][name] for name in ("num_links", "num_others"))
    return f"{plural(links, split + ' link')} and {plural(others, 'pair that is none', 'pairs that are none')}"


def next_commands(folder: RunFolder) -> list[str]:
    config = folder.read_config()
    if config.get("edges"):  # a table of edges is one of pairs, too
        return [command("predict", folder.path, config["edges"], "-o", free_name("predictions.csv"))]
    return [command("fingerprint", folder.path, config["data"][0], "-o", free_name("vectors.npz"))]


def predict_pairs(request: PredictRequest, suffix: str) -> tuple[Any, str]:
    """How probably each pair of a table is a link, and whether it is one already."""
    trained = loaded(request)
    graph = graph_of(trained, request)
    table = read_pairs_of_nodes(request.data, NodeNames(graph.names), trained.place.edge_columns, strict=request.strict)
    rows = np.flatnonzero(table.usable)
    ends = table.senders[rows], table.receivers[rows]
    links = Links.of(graph.edges, len(graph), trained.place.directed, may_be_none=True)
    of_nodes = lost_within_reach(trained.settings, graph.edges, len(graph))
    hops = np.minimum(of_nodes[ends[0]], of_nodes[ends[1]])
    status = with_lost(table.status, spread(hops, rows, table.num_rows, NOWHERE), "its nodes")
    num_lacking = int((hops != NOWHERE).sum())
    are_known = links.know(links.pairs.of(*ends)).astype(int)
    known: list[Any] = [""] * table.num_rows
    for row, is_known in zip(rows.tolist(), are_known.tolist()):
        known[row] = is_known
    found = trained.predict(*ends, graph, pick_device(request.device))
    added = {"link_prob": spread(found, rows, table.num_rows), "is_known": known, "status": status}
    content = with_columns(table.frame, added, request.data, suffix)
    summary = (
        f"{len(rows):,} of {plural(table.num_rows, 'pair')} predicted, {sum(are_known):,} of them links of the "
        f"graph already{f', {num_lacking:,} of them {REASON}' if num_lacking else ''}"
    )
    return content, f"{summary}{unpredicted(table.num_rows - len(rows))}"


def open_nodes(request: PredictRequest) -> tuple[Any, Any]:
    """The trained model, and the graph whose nodes have vectors."""
    if request["nodes"] is not None:
        raise SettingError("--nodes is for pairs of nodes; DATA names the nodes whose vectors are written.")
    trained = loaded(request)
    return trained, nodes_of(trained, request, request.data)


def test_targets(folder: RunFolder) -> "list[Numbers | Labels]":
    return judged_links(folder)


def notes(prepared: Prepared) -> list[str]:
    """The graph, what was assumed of it, and what it lacks."""
    data, splits, settings = prepared.data, prepared.splits, prepared.settings
    table, links = data.table, data.links
    edges, count = table.edges, table.num_rows
    features = table.features.shape[1]
    known = "no features: each node learns a vector of its own"
    known = f"{plural(features, 'feature')} of a node" if features else known
    found = [f"{edges.ways(settings.graph.directed)}; {known}", *edges.unused(AS_FEATURES, [settings.splits_column])]
    bad = table.num_rows - int(table.usable.sum())
    no_part = len(links) - sum(len(part) for part in (splits.train, splits.val, splits.test))
    unread = "that cannot be read, 0 there: links are learned and predicted all the same"
    counts = [
        (edges.num_repeated(count), "edge repeats", "edges repeat", "another one: the same link"),
        (edges.num_isolated(count), "node has", "nodes have", "no neighbor"),
        (bad, "node has features", "nodes have features", unread),
        (no_part, "link is", "links are", "of no part: messages go along, and nothing is predicted"),
    ]
    if holds_types(settings.data):
        found.append("types of nodes or edges, which no model of links uses")
    found += [*note_of_edges(edges.features.shape[1], settings.model), *warnings(prepared)]
    return found + [f"{plural(number, one, many)} {rest}" for number, one, many, rest in counts if number]


def scored_pairs(links: Links, splits: LinkSplits) -> list[tuple[str, Pairs, Pairs]]:
    """The name of each scored split, its links, and its pairs that are none."""
    ends = links.pairs.ends
    named = ("validation", splits.val, splits.val_others), ("test", splits.test, splits.test_others)
    return [(name, ends(links.numbers[some]), ends(others)) for name, some, others in named if len(some)]


def sparse(features: NodeFeatures) -> Any:
    """Features as a sparse matrix of SciPy; None where there are none."""

    if not features.shape[1]:
        return None
    return csr_array(
        (np.nan_to_num(features.values.astype(np.float64)), (features.rows, features.columns)), shape=features.shape
    )


def loaded(request: PredictRequest) -> FittedLinks:
    trained = FittedLinks.load(request.run_folder)
    trained.threads = request.threads
    return trained


def graph_of(trained: FittedLinks, request: PredictRequest) -> LinkGraph:
    """The graph whose edges carry messages: that of the training, its nodes with other edges, or another one."""
    if request["nodes"] is not None:
        return LinkGraph.of(nodes_of(trained, request, request["nodes"]))
    for name in ("features", "node_column", "descriptors_columns"):
        if request[name] is not None:
            raise SettingError(f"--{name.replace('_', '-')} belongs to a table of nodes; name it: --nodes nodes.csv.")
    graph, place = trained.graph, trained.place
    if request["edges"] is None:
        return graph
    found = read_edges(
        request["edges"],
        NodeNames(graph.names),
        graph.source,
        edge_columns=place.edge_columns,
        feature_columns=place.edge_feature_columns,
        category_columns=place.edge_category_columns,
        categories=trained.edge_categories,
        imputes=bool(trained.edge_imputer.median),
        strict=request.strict,
    )
    list_left_out(found.rejected, request=request)
    edges = found if place.directed else found.both_ways(len(graph))
    return replace(graph, edges=edges, source=request["edges"])


def nodes_of(trained: FittedLinks, request: PredictRequest, path: str) -> NodeTable:
    """Another graph, with the columns that the model needs."""
    features = tuple(request["descriptors_columns"] or trained.feature_columns)
    columns = Columns(
        node_column=request["node_column"] or AUTO,
        descriptors_columns=features,
        category_columns=trained.category_columns,
        missing="impute" if fills(trained.scaler) else "drop",
    )
    source = replace(trained.place, edges=request["edges"], features=request["features"])
    how: dict[str, Any] = {
        "categories": trained.categories,
        "edge_categories": trained.edge_categories,
        "may_lack_edges": True,
    }
    how["fills_edges"] = bool(trained.edge_imputer.median)
    table = _graph([path], columns, source, request.strict, find_features=False, **how)
    list_left_out(table.edges.rejected, table.rejected, request)
    return table


def _graph(paths: Sequence[str], columns: Columns, source: GraphSource, strict: bool, **how: Any) -> NodeTable:
    """A graph without targets; its nodes have the features that are read, or none."""
    found = {"find_features": True, "with_degrees": False, "with_types": False, **how}
    return read_nodes(paths, columns, source, strict=strict, need_targets=False, **found)


TASK = Task(
    settings_type=LinkRunSettings,
    noun="links",
    headlines=same(*LINK_SCORES),
    labels={
        "common_neighbors": "common neighbors",
        "adamic_adar": "Adamic-Adar",
        "preferential": "degree times degree",
        "other_way": "the other way is known",
        "features": "likeness of features",
    },
    prepare=prepare,
    load=FittedLinks.load,
    prepared=prepared,
    member_loaders=loaders,
    whole_graph=whole_graph,
    loss=loss,
    evaluate=evaluate,
    write_predictions=write_predictions,
    description=describe,
    warnings=warnings,
    title=title,
    further_commands=next_commands,
    predict=predict_pairs,
    open_rows=open_nodes,
    test_targets=test_targets,
)
