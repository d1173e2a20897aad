"""`edgewise train` and what follows it, over many graphs: what it is asked, and what it reads."""

import argparse
from typing import TYPE_CHECKING, Any

from edgewise.cli.table import print_data, print_scores

if TYPE_CHECKING:
    from edgewise.tasks.graphs.run import GraphRun

__all__ = ["asked", "print_data", "print_scores", "read"]


def asked(settings: dict[str, Any], source: str) -> "tuple[type[GraphRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.graphs.job import graph_job
    from edgewise.tasks.graphs.run import GraphRun

    return GraphRun, graph_job(settings, source)


def read(folder: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model of graphs, and the graphs with the columns it needs."""
    from dataclasses import replace

    from edgewise.data.graphs import read_graphs
    from edgewise.tasks.graphs.trained import TrainedGraphs

    trained = TrainedGraphs.load(folder)
    known = trained.columns
    columns = replace(
        known,
        graph_column=arguments.graph_column or known.graph_column,
        node_column=arguments.node_column or known.node_column,
        descriptors_columns=tuple(arguments.descriptors_columns or known.descriptors_columns),
        ignore_columns=(),
        splits_column=None,
        weight_column=None,
        group_column=None,
    )
    source = replace(trained.graph, edges=arguments.edges, features=arguments.features, graphs=arguments.graphs)
    table = read_graphs(
        [arguments.data],
        columns,
        source,
        need_roots=trained.whole.needs_roots,
        strict=arguments.strict,
        need_targets=False,
        categories=trained.categories,
    )
    return trained, table
