"""Nodes: a number or a class for each node of one graph."""

from typing import TYPE_CHECKING, Any

from edgewise.tasks.table_task import TableTask
from edgewise.tasks.task import PredictRequest

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class NodesTask(TableTask):
    """Numbers or classes of the nodes of a graph."""

    name = "nodes"
    format = "edgewise node model"
    noun = "nodes"
    reads = (
        *("coverage", "descriptors_columns", "node_column", "node_type_column"),
        *("edges", "features", "edge_type_column"),
    )

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.nodes.job import node_job
        from edgewise.tasks.nodes.run import NodeRun

        return NodeRun, node_job(settings, source)

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        from dataclasses import replace

        from edgewise.data.columns import AUTO
        from edgewise.data.graphs.file import is_graph_file
        from edgewise.data.graphs.nodes import read_nodes
        from edgewise.errors import SettingError
        from edgewise.tasks.nodes.trained import TrainedNodes

        trained = TrainedNodes.load(request.run_folder)
        columns = replace(
            trained.columns,
            node_column=request.node_column or AUTO,
            node_type_column=request.node_type_column,
            descriptors_columns=tuple(request.descriptors_columns or trained.columns.descriptors_columns),
            target_columns=(),
            ignore_columns=(),
            splits_column=None,
            weight_column=None,
            group_column=None,
        )
        source = replace(
            trained.graph, edges=request.edges, features=request.features, edge_type_column=request.edge_type_column
        )
        known = trained.kinds
        if known is None and (request.node_type_column or request.edge_type_column):
            raise SettingError(
                f"{request.folder} ignores types of nodes and edges; leave out --node-type-column and "
                "--edge-type-column."
            )
        if not is_graph_file(request.data):
            columns = replace(columns, node_type_column=request.node_type_column or trained.columns.node_type_column)
            source = replace(source, edge_type_column=request.edge_type_column or trained.graph.edge_type_column)
        return trained, read_nodes(
            [request.data],
            columns,
            source,
            strict=request.strict,
            need_targets=False,
            with_types=known is not None,
            known=known,
            categories=trained.categories,
        )

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.nodes.explainable import GraphSubject

        return GraphSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.models.graph_settings import NodeSettings
        from edgewise.tasks.nodes.job import PAPERS

        return PAPERS[NodeSettings().model]


TASK = NodesTask()
