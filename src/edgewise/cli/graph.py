"""`edgewise train` and what follows it, over the nodes of a graph: what it is asked, and what it reads."""

import argparse
from typing import TYPE_CHECKING, Any

from edgewise.cli.table import print_data, print_scores

if TYPE_CHECKING:
    from edgewise.tasks.nodes.run import NodeRun

__all__ = ["asked", "print_data", "print_scores", "read"]


def asked(settings: dict[str, Any], source: str) -> "tuple[type[NodeRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.nodes.job import node_job
    from edgewise.tasks.nodes.run import NodeRun

    return NodeRun, node_job(settings, source)


def read(folder: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model of nodes, and the graph with the columns it needs."""
    from dataclasses import replace

    from edgewise.data.columns import AUTO
    from edgewise.data.graph_file import is_graph_file
    from edgewise.data.nodes import read_nodes
    from edgewise.errors import SettingError
    from edgewise.tasks.nodes.trained import TrainedNodes

    trained = TrainedNodes.load(folder)
    columns = replace(
        trained.columns,
        node_column=arguments.node_column or AUTO,
        node_type_column=arguments.node_type_column,
        descriptors_columns=tuple(arguments.descriptors_columns or trained.columns.descriptors_columns),
        target_columns=(),
        ignore_columns=(),
        splits_column=None,
        weight_column=None,
        group_column=None,
    )
    source = replace(
        trained.graph,
        edges=arguments.edges,
        features=arguments.features,
        edge_type_column=arguments.edge_type_column,
    )
    known = trained.kinds
    if known is None and (arguments.node_type_column or arguments.edge_type_column):
        raise SettingError(
            f"{arguments.folder} does not look at kinds of nodes and edges; leave out --node-type-column and "
            "--edge-type-column."
        )
    if not is_graph_file(arguments.data):
        columns = replace(columns, node_type_column=arguments.node_type_column or trained.columns.node_type_column)
        source = replace(source, edge_type_column=arguments.edge_type_column or trained.graph.edge_type_column)
    strict, with_kinds = arguments.strict, known is not None
    return trained, read_nodes(
        [arguments.data],
        columns,
        source,
        strict=strict,
        need_targets=False,
        with_kinds=with_kinds,
        known=known,
        categories=trained.categories,
    )
