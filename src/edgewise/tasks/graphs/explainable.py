"""Many graphs, as an `Explainer` asks about them."""

from dataclasses import replace
from typing import Any, Self

from edgewise.data.graphs.graphs import read_graphs
from edgewise.explanation import Explanation
from edgewise.tasks.graphs.explain import explain_graph
from edgewise.tasks.graphs.job import graph_job
from edgewise.tasks.graphs.trained import TrainedGraphs
from edgewise.tasks.lookup import NamedSubject, files_of
from edgewise.train.folder import RunFolder


class GraphsSubject(NamedSubject):
    """The graphs that a model of many was trained on, and those that it was tested on."""

    unit = "graph"
    over = "graphs"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder, and the graphs of its files.

        Raises:
            RunFolderError: the folder does not say where the graphs are, or they are not there any more.
        """
        trained = TrainedGraphs.load(folder)
        with files_of(folder, "graphs", "explain(graph)") as config:
            table = _graphs_of(config, trained)
        return cls(trained, table, [str(name) for name in table.frame[table.columns.graph_column]])

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name of a graph."""
        return [(self.table.columns.graph_column, "node")]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One graph; all weights are kept, as graphs of many are small."""
        return explain_graph(self.trained, self.table, self.row_of(*row), target=target, label=label)


def _graphs_of(config: dict[str, Any], trained: Any) -> Any:
    """The graphs of a run, their targets left out."""
    job = graph_job(config, "config.toml")
    columns = replace(
        trained.columns, target_columns=(), ignore_columns=(), splits_column=None, weight_column=None, group_column=None
    )
    need_roots = trained.whole.needs_roots
    return read_graphs(
        list(job.data), columns, job.graph, need_roots=need_roots, need_targets=False, categories=trained.categories
    )
