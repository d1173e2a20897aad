"""The nodes of one graph, as an `Explainer` asks about them."""

from dataclasses import replace
from typing import Any, Self

from edgewise.data.columns import AUTO
from edgewise.data.graphs.nodes import NodeTable, read_nodes
from edgewise.explanation import Explanation
from edgewise.tasks.lookup import NamedSubject, files_of
from edgewise.tasks.nodes.explain import explain_node
from edgewise.tasks.nodes.job import NodeJob, node_job
from edgewise.tasks.nodes.trained import TrainedNodes
from edgewise.train.folder import RunFolder


class GraphSubject(NamedSubject):
    """The nodes of the graph that a model was trained on."""

    unit = "node"
    over = "the nodes of a graph"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder, and the graph that it was trained on.

        Raises:
            RunFolderError: the folder does not say where the graph is, or it is not there any more.
        """
        trained = TrainedNodes.load(folder)
        with files_of(folder, "graph", "explain(features, edges, node)") as config:
            table = _graph_of(node_job(config, "config.toml"), trained)
        return cls(trained, table, table.names)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name of a node."""
        return [(self.table.columns.node_column or "node", "node")]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One node; all weights are kept, as only those near it are looked at."""
        return explain_node(self.trained, self.table, self.row_of(*row), target=target, label=label)


def _graph_of(job: NodeJob, trained: TrainedNodes) -> NodeTable:
    """The graph of a job, its targets left out."""
    columns = replace(
        job.columns,
        node_column=job.columns.node_column or AUTO,
        descriptors_columns=trained.columns.descriptors_columns,
        target_columns=(),
        ignore_columns=(),
        splits_column=None,
        weight_column=None,
        group_column=None,
    )
    known = trained.types
    return read_nodes(
        list(job.data),
        columns,
        job.graph,
        need_targets=False,
        with_types=known is not None,
        known=known,
        categories=trained.categories,
    )
