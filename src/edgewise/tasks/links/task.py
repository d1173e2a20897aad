"""Links: which nodes of a graph are linked."""

import sys
from typing import TYPE_CHECKING, Any

from edgewise.errors import SettingError
from edgewise.plural import plural
from edgewise.tasks.commands import command, free_name
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.table_task import unpredicted
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder
from edgewise.train.links import LINK_SCORES

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.report.judged import Labels, Numbers
    from edgewise.tasks.run import Run

BASELINES = {
    "common_neighbors": "common neighbors",
    "adamic_adar": "Adamic-Adar",
    "preferential": "degree times degree",
    "other_way": "the other way is known",
    "features": "likeness of features",
}
"""What a model is compared with, by their names in `metrics.json`."""


class LinksTask(Task):
    """The links of one graph."""

    name = "links"
    format = "edgewise link model"
    noun = "links"
    reads = ("descriptors_columns", "node_column", "edges", "features", "nodes")

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.links.job import link_job
        from edgewise.tasks.links.run import LinkRun

        return LinkRun, link_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        table, links, parts, job = run.table, run.links, run.parts, run.job
        lines = [
            f"{table.source}: {plural(table.num_rows, 'node')}, {plural(len(links), 'link')}, "
            f"{plural(len(table.rejected), 'row')} rejected"
        ]
        if table.rejected:
            first, place = table.rejected[0], run.folder.path / "rejected.csv"
            where = f"{first.file}, line {first.line}, column {first.column!r}"
            lines.append(f"  the first in {where}: {first.reason} (all in {place})")
        lines += [f"  {note}" for note in run.notes()]
        lines.append(
            f"{len(parts.train):,} training, {len(parts.val):,} validation and "
            f"{plural(len(parts.test), 'test link')} (split: "
            f"{'column' if job.splits_column else 'random'}), for each {job.negatives} of "
            f"{plural(links.pairs.total - len(links), 'pair that is none', 'pairs that are none')}"
        )
        if not len(parts.val):
            lines.append("  no validation links: the last epoch is kept")
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = [training_line(metrics)]
        part = next((name for name in ("test", "validation") if name in metrics), None)
        if part is not None:
            rows = {"edgewise": metrics[part]}
            rows |= {BASELINES[name]: of[part] for name, of in metrics.get("baselines", {}).items()}
            title = (
                f"{plural(metrics[part]['num_links'], part + ' link')} and "
                f"{plural(metrics[part]['num_others'], 'pair that is none', 'pairs that are none')}"
            )
            cells = [[name, *(number(of[score]) for score in LINK_SCORES)] for name, of in rows.items()]
            found.insert(0, ScoreTable(title, ["", *LINK_SCORES], cells))
        return found

    def next_commands(self, folder: RunFolder) -> list[str]:
        config = folder.read_config()
        if config.get("edges"):  # a table of edges is one of pairs, too
            return [command("predict", folder.path, config["edges"], "-o", free_name("predictions.csv"))]
        return [command("fingerprint", folder.path, config["data"][0], "-o", free_name("vectors.npz"))]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """How probably each pair of a table is a link, and whether it is one already."""
        import numpy as np

        from edgewise.data.graphs.links import Links
        from edgewise.data.graphs.names import NodeNames
        from edgewise.data.graphs.pair_table import read_pairs_of_nodes
        from edgewise.tasks.trained import spread, with_columns
        from edgewise.train.device import pick_device

        trained = _loaded(request)
        graph = _graph_of(trained, request)
        table = read_pairs_of_nodes(
            request.data, NodeNames(graph.names), trained.place.edge_columns, strict=request.strict
        )
        rows = np.flatnonzero(table.usable)
        ends = table.senders[rows], table.receivers[rows]
        links = Links.of(graph.edges, len(graph), trained.place.directed)
        are_known = links.know(links.pairs.of(*ends)).astype(int)
        known: list[Any] = [""] * table.num_rows
        for row, is_known in zip(rows.tolist(), are_known.tolist()):
            known[row] = is_known
        found = trained.told(*ends, graph, pick_device(request.device))
        added = {"link_prob": spread(found, rows, table.num_rows), "is_known": known, "status": table.status}
        content = with_columns(table.frame, added, request.data, suffix)
        summary = (
            f"{len(rows):,} of {plural(table.num_rows, 'pair')} predicted, {sum(are_known):,} of them links of the "
        )
        return content, f"{summary}graph already{unpredicted(table.num_rows - len(rows))}"

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained model, and the graph whose nodes have vectors."""
        if request.nodes is not None:
            raise SettingError("--nodes is for pairs of nodes; DATA names the nodes whose vectors are written.")
        trained = _loaded(request)
        return trained, _nodes_of(trained, request, request.data)

    def test_targets(self, folder: RunFolder) -> "list[Numbers | Labels]":
        from edgewise.tasks.report.judged import judged_links

        return judged_links(folder)

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.links.explainable import LinkSubject

        return LinkSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.links.job import DEFAULT, RECIPE, USUAL

        return USUAL[DEFAULT], RECIPE


def _loaded(request: PredictRequest) -> Any:
    from edgewise.tasks.links.trained import TrainedLinks

    trained = TrainedLinks.load(request.run_folder)
    trained.threads = request.threads
    return trained


def _graph_of(trained: Any, request: PredictRequest) -> Any:
    """The graph whose edges carry messages: that of the training, its nodes with other edges, or another one."""
    from dataclasses import replace

    from edgewise.data.graphs.edges import read_edges
    from edgewise.data.graphs.names import NodeNames
    from edgewise.tasks.links.graph import LinkGraph

    if request.nodes is not None:
        return LinkGraph.of(_nodes_of(trained, request, request.nodes))
    for name in ("features", "node_column", "descriptors_columns"):
        if getattr(request, name) is not None:
            raise SettingError(f"--{name.replace('_', '-')} belongs to a table of nodes; name it: --nodes nodes.csv.")
    graph, place = trained.graph, trained.place
    if request.edges is None:
        return graph
    found = read_edges(
        request.edges,
        NodeNames(graph.names),
        graph.source,
        edge_columns=place.edge_columns,
        feature_columns=place.edge_feature_columns,
        strict=request.strict,
    )
    if found.rejected:
        first = found.rejected[0]
        print(
            f"{plural(len(found.rejected), 'edge')} passed over, the first in line {first.line}: {first.reason}",
            file=sys.stderr,
        )
    edges = found if place.directed else found.both_ways(len(graph))
    return replace(graph, edges=edges, source=request.edges)


def _nodes_of(trained: Any, request: PredictRequest, path: str) -> Any:
    """Another graph, with the columns that the model needs."""
    from dataclasses import replace

    from edgewise.data.columns import AUTO, Columns
    from edgewise.data.graphs.nodes import read_graph

    features = tuple(request.descriptors_columns or trained.feature_columns)
    columns = Columns(node_column=request.node_column or AUTO, descriptors_columns=features)
    source = replace(trained.place, edges=request.edges, features=request.features)
    return read_graph([path], columns, source, strict=request.strict, find_features=False)


TASK = LinksTask()
