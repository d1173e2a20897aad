"""`edgewise train` and what follows it, over the nodes of a graph: what it is asked, and what it reads."""

import argparse
from typing import TYPE_CHECKING, Any

from edgewise.cli.table import print_data, print_scores

if TYPE_CHECKING:
    from edgewise.estimators.node.run import NodeRun

__all__ = ["asked", "print_data", "print_scores", "read"]


def asked(settings: dict[str, Any], source: str) -> "tuple[type[NodeRun], Any]":
    """The kind of run, and its job."""
    from edgewise.estimators.node.job import node_job
    from edgewise.estimators.node.run import NodeRun

    return NodeRun, node_job(settings, source)


def read(folder: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model of nodes, and the graph with the columns it needs."""
    from dataclasses import replace

    from edgewise.data.columns import AUTO
    from edgewise.data.nodes import read_nodes
    from edgewise.estimators.node.trained import TrainedNodes

    trained = TrainedNodes.load(folder)
    columns = replace(
        trained.columns,
        node_column=arguments.node_column or AUTO,
        descriptors_columns=tuple(arguments.descriptors_columns or trained.columns.descriptors_columns),
        target_columns=(),
        ignore_columns=(),
        splits_column=None,
        weight_column=None,
        group_column=None,
    )
    source = replace(trained.graph, edges=arguments.edges, features=arguments.features)
    return trained, read_nodes([arguments.data], columns, source, strict=arguments.strict, need_targets=False)
