"""`edgewise train` and what follows it, over the links of a graph: what they print and write."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import command, free_name, print_next
from edgewise.cli.output import FORMATS, as_text, check_output, write
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder
from edgewise.train.links import LINK_SCORES

if TYPE_CHECKING:
    from edgewise.tasks.links.run import LinkRun

BASELINES = {
    "common_neighbors": "common neighbors",
    "adamic_adar": "Adamic-Adar",
    "preferential": "degree times degree",
    "other_way": "the other way is known",
    "features": "likeness of features",
}
"""What a model is compared with, by their names in `metrics.json`."""


def asked(settings: dict[str, Any], source: str) -> "tuple[type[LinkRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.links.job import link_job
    from edgewise.tasks.links.run import LinkRun

    return LinkRun, link_job(settings, source)


def print_data(run: "LinkRun") -> None:
    """The graph and the parts of its links in a few lines."""
    table, links, parts, job = run.table, run.links, run.parts, run.job
    print(
        f"{table.source}: {plural(table.num_rows, 'node')}, {plural(len(links), 'link')}, "
        f"{plural(len(table.rejected), 'row')} rejected"
    )
    if table.rejected:
        first, place = table.rejected[0], run.folder.path / "rejected.csv"
        print(
            f"  the first in {first.file}, line {first.line}, column {first.column!r}: {first.reason} (all in {place})"
        )
    for note in run.notes():
        print(f"  {note}")
    print(
        f"{len(parts.train):,} training, {len(parts.val):,} validation and "
        f"{plural(len(parts.test), 'test link')} (split: "
        f"{'column' if job.splits_column else 'random'}), for each {job.negatives} of "
        f"{plural(links.pairs.total - len(links), 'pair that is none', 'pairs that are none')}"
    )
    if not len(parts.val):
        print("  no validation links: the last epoch is kept")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside those of counting neighbors, and the next command."""
    metrics = folder.read_json("metrics.json")
    part = next((name for name in ("test", "validation") if name in metrics), None)
    if part is not None:
        rows = {"edgewise": metrics[part]}
        rows |= {BASELINES[name]: found[part] for name, found in metrics.get("baselines", {}).items()}
        print_table(
            f"{plural(metrics[part]['num_links'], part + ' link')} and "
            f"{plural(metrics[part]['num_others'], 'pair that is none', 'pairs that are none')}",
            ["", *LINK_SCORES],
            [[name, *(number(of[score]) for score in LINK_SCORES)] for name, of in rows.items()],
        )
    print(training_line(metrics))
    config = folder.read_config()
    if config.get("edges"):  # a table of edges is one of pairs, too
        words = ["predict", folder.path, config["edges"], "-o", free_name("predictions.csv")]
    else:
        words = ["fingerprint", folder.path, config["data"][0], "-o", free_name("vectors.npz")]
    print_next(folder, command(*words))


def predict(arguments: argparse.Namespace) -> int:
    """Tells of each pair of a table how probably it is a link, and whether it is one already."""
    suffix = check_output(arguments, FORMATS)

    import numpy as np

    from edgewise.data.links import Links
    from edgewise.data.names import NodeNames
    from edgewise.data.pair_table import read_pairs_of_nodes
    from edgewise.errors import DataError
    from edgewise.tasks.trained import spread
    from edgewise.train.device import pick_device

    trained = loaded(arguments)
    graph = graph_of(trained, arguments)
    table = read_pairs_of_nodes(
        arguments.data, NodeNames(graph.names), trained.place.edge_columns, strict=arguments.strict
    )
    rows = np.flatnonzero(table.usable)
    ends = table.senders[rows], table.receivers[rows]
    links = Links.of(graph.edges, len(graph), trained.place.directed)
    are_known = links.know(links.pairs.of(*ends)).astype(int)
    known: list[Any] = [""] * table.num_rows
    for row, is_known in zip(rows.tolist(), are_known.tolist()):
        known[row] = is_known
    told = trained.told(*ends, graph, pick_device(arguments.device))
    added = {"link_prob": spread(told, rows, table.num_rows), "is_known": known, "status": table.status}
    if taken := [name for name in added if name in table.frame.columns]:
        raise DataError(f"{arguments.data} already has the column {taken[0]!r}, which predictions need; rename it.")
    content = table.frame.assign(**added) if suffix == ".parquet" else as_text(table, added)
    write(content, arguments.output, suffix, escape_formulas=arguments.escape_formulas)
    summary = f"{len(rows):,} of {table.num_rows:,} pairs told, {sum(are_known):,} of them links of the graph already"
    if len(rows) < table.num_rows:
        summary += f"; {table.num_rows - len(rows):,} could not be, and say why in the column 'status'"
    print(summary if arguments.output == "-" else f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


def loaded(arguments: argparse.Namespace) -> Any:
    """The trained model; raises SettingError for flags that do nothing for it."""
    from edgewise.errors import SettingError
    from edgewise.tasks.links.trained import TrainedLinks
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    for name in ("smiles_columns", "text_columns", "coverage"):
        if getattr(arguments, name, None) is not None:
            raise SettingError(f"--{name.replace('_', '-')} does nothing for links; leave it out.")
    trained = TrainedLinks.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    return trained


def graph_of(trained: Any, arguments: argparse.Namespace) -> Any:
    """The graph whose edges carry messages: that of the training, its nodes with other edges, or another one."""
    from dataclasses import replace

    from edgewise.data.edges import read_edges
    from edgewise.data.names import NodeNames
    from edgewise.errors import SettingError
    from edgewise.tasks.links.graph import LinkGraph

    if arguments.nodes is not None:
        return LinkGraph.of(nodes_of(trained, arguments, arguments.nodes))
    for name in ("features", "node_column", "descriptors_columns"):
        if getattr(arguments, name) is not None:
            raise SettingError(f"--{name.replace('_', '-')} belongs to a table of nodes; name it: --nodes nodes.csv.")
    graph, place = trained.graph, trained.place
    if arguments.edges is None:
        return graph
    found = read_edges(
        arguments.edges,
        NodeNames(graph.names),
        graph.source,
        edge_columns=place.edge_columns,
        feature_columns=place.edge_feature_columns,
        strict=arguments.strict,
    )
    if found.rejected:
        first = found.rejected[0]
        print(
            f"{plural(len(found.rejected), 'edge')} passed over, the first in line {first.line}: {first.reason}",
            file=sys.stderr,
        )
    edges = found if place.directed else found.both_ways(len(graph))
    return replace(graph, edges=edges, source=arguments.edges)


def nodes_of(trained: Any, arguments: argparse.Namespace, path: str) -> Any:
    """Another graph, with the columns that the model needs."""
    from dataclasses import replace

    from edgewise.data.columns import AUTO, Columns
    from edgewise.data.nodes import read_graph

    features = tuple(arguments.descriptors_columns or trained.feature_columns)
    columns = Columns(node_column=arguments.node_column or AUTO, descriptors_columns=features)
    source = replace(trained.place, edges=arguments.edges, features=arguments.features)
    return read_graph([path], columns, source, strict=arguments.strict, find_features=False)


def read(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The trained model, and the graph whose nodes are asked for their vectors."""
    trained = loaded(arguments)
    return trained, nodes_of(trained, arguments, arguments.data)
