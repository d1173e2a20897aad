"""A run over the nodes of a graph: what it reads, starts from and is compared with."""

from dataclasses import replace

import numpy as np

from edgewise.data.graphs.edges import AS_FEATURES
from edgewise.data.graphs.nodes import NodeTable, read_nodes
from edgewise.data.split import Splits
from edgewise.plural import plural
from edgewise.tasks.nodes import types
from edgewise.tasks.nodes.job import NodeJob, holds_types
from edgewise.tasks.nodes.trained import TrainedNodes, untrained_nodes
from edgewise.tasks.table_run import TableRun
from edgewise.train.baseline import Baseline, fit_forest, fit_mean


class NodeRun(TableRun):
    """A run over the nodes of a graph."""

    @staticmethod
    def read(job: NodeJob) -> NodeTable:
        """The graph of a job."""
        with_types = job.model.is_relational
        table = read_nodes(job.data, job.columns, job.graph, strict=job.strict, with_types=with_types)
        if job.split in (None, "column"):
            return table
        return replace(table, columns=replace(table.columns, splits_column=None))

    @staticmethod
    def resolved(job: NodeJob, table: NodeTable, splits: Splits) -> NodeJob:
        """The job with nothing left open: a step sees all training nodes, unless a batch size says otherwise."""
        types.check_types(table, job.model)
        return replace(job, train=replace(job.train, batch_size=job.train.batch_size or len(splits.train)))

    def untrained(self) -> TrainedNodes:
        """All that is known before the first step."""
        return untrained_nodes(self.table, self.splits, self.job)

    def baselines(self) -> dict[str, Baseline]:
        """The training mean, and a random forest over each node's own features, without the edges."""
        table, rows, classes = self.table, self.splits.train, self.num_classes
        targets, weights = table.targets[rows], table.weights[rows]
        fitted = {"mean": fit_mean(targets, weights, classes)}
        if table.features.shape[1]:
            seed = self.job.train.seed
            fitted["forest"] = fit_forest(self.features(rows), targets, weights, classes, seed=seed)
        return fitted

    def features(self, rows: np.ndarray) -> np.ndarray:
        """The features of some nodes."""
        return self.table.features.of_rows(rows)

    def notes(self) -> list[str]:
        """The edges, what was assumed of them, and what the nodes lack."""
        table, edges, graph = self.table, self.table.edges, self.job.graph
        found = [f"{edges.ways(graph.directed)}; {plural(table.features.shape[1], 'feature')} of a node"]
        remedy = AS_FEATURES if graph.edge_type_column else f"{AS_FEATURES}, their types with --edge-type-column"
        found += edges.unused(remedy)
        if table.types is not None:
            found += types.notes(table, self.splits.train)
            num_repeated = types.num_repeated(table)
        else:
            num_repeated = edges.num_repeated(table.num_rows)
            if holds_types(self.job.data):
                found.append(f"types of nodes or edges, which --model {self.job.model.model} ignores")
        if self.job.model.model != "attention":
            found += edges.unseen(self.job.model.model)
        found += edges.notes(table.num_rows, num_repeated)
        if count := int(np.isnan(table.targets).all(axis=1).sum()):
            whole = ("node has no target: it is", "nodes have no target: they are")
            found.append(f"{plural(count, *whole)} part of the graph, and not learned from")
        if lost := self.unlabelled_test:
            whole = ("of them is a test node by its column, and is", "of them are test nodes by their column, and are")
            found.append(f"{plural(lost, *whole)} not scored")
        if degree := self.job.model.expander_degree:
            found.append(f"each node is joined with up to {plural(degree, 'other')} drawn at random")
        if num_virtual := self.job.model.num_virtual_nodes:
            whole = ("virtual node is", "virtual nodes are")
            found.append(f"{plural(num_virtual, *whole)} joined with all others")
        return found

    @property
    def unlabelled_test(self) -> int:
        """Nodes that the splits column calls test and that have no target."""
        column = self.table.columns.splits_column
        if column is None:
            return 0
        is_test = np.array([word.strip().lower() == "test" for word in self.table.frame[column]])
        return int((is_test & np.isnan(self.table.targets).all(axis=1)).sum())
