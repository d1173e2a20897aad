"""Graphs: a number or a class for each of many graphs."""

from typing import TYPE_CHECKING, Any

from edgewise.tasks.table_task import TableTask
from edgewise.tasks.task import PredictRequest

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class GraphsTask(TableTask):
    """Numbers or classes of graphs."""

    name = "graphs"
    format = "edgewise graph model"
    noun = "graphs"
    reads = ("coverage", "descriptors_columns", "node_column", "graph_column", "edges", "features", "graphs")

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.graphs.job import graph_job
        from edgewise.tasks.graphs.run import GraphRun

        return GraphRun, graph_job(settings, source)

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        from dataclasses import replace

        from edgewise.data.graphs.graphs import read_graphs
        from edgewise.tasks.graphs.trained import TrainedGraphs

        trained = TrainedGraphs.load(request.run_folder)
        known = trained.columns
        columns = replace(
            known,
            graph_column=request.graph_column or known.graph_column,
            node_column=request.node_column or known.node_column,
            descriptors_columns=tuple(request.descriptors_columns or known.descriptors_columns),
            ignore_columns=(),
            splits_column=None,
            weight_column=None,
            group_column=None,
        )
        return trained, read_graphs(
            [request.data],
            columns,
            replace(trained.graph, edges=request.edges, features=request.features, graphs=request.graphs),
            need_roots=trained.whole.needs_roots,
            strict=request.strict,
            need_targets=False,
            categories=trained.categories,
        )

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.graphs.explainable import GraphsSubject

        return GraphsSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.graphs.job import LAYERS
        from edgewise.train.settings import TrainSettings

        return LAYERS, TrainSettings()


TASK = GraphsTask()
