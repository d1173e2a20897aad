"""A run over many graphs: what it reads, starts from and is compared with."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from edgewise.data.graphs import GraphTable, read_graphs
from edgewise.data.split import Splits
from edgewise.estimators.graph.job import GraphJob
from edgewise.estimators.graph.trained import TrainedGraphs, untrained_graphs
from edgewise.estimators.table_run import TableRun
from edgewise.train.baseline import Baseline, finite_features, fit_forest, fit_mean


class GraphRun(TableRun):
    """A run over many graphs."""

    @staticmethod
    def read(job: GraphJob) -> GraphTable:
        """The graphs of a job."""
        return read_graphs(job.data, job.columns, job.graph, need_roots=job.whole.needs_roots, strict=job.strict)

    @staticmethod
    def resolved(job: GraphJob, table: GraphTable, splits: Splits) -> GraphJob:
        """The job with nothing left open: what fits the training graphs stands where None stood."""
        train = job.train.resolved(len(splits.train), len(splits.train))
        assert train.batch_size is not None
        return replace(job, train=train, whole=job.whole.resolved(train.batch_size))

    def untrained(self) -> TrainedGraphs:
        """All that is known before the first step."""
        return untrained_graphs(self.table, self.splits, self.job)

    def baselines(self) -> dict[str, Baseline]:
        """The training mean, and a random forest over the sizes of graphs and the features of their nodes."""
        rows, classes = self.splits.train, self.num_classes
        targets, weights = self.table.targets[rows], self.table.weights[rows]
        seed = self.job.train.seed
        return {
            "mean": fit_mean(targets, weights, classes),
            "forest": fit_forest(self.features(rows), targets, weights, classes, seed=seed),
        }

    def features(self, rows: np.ndarray) -> np.ndarray:
        """What the forest sees of some graphs."""
        return self.every_feature[rows]

    @cached_property
    def every_feature(self) -> np.ndarray:
        """Of each graph the numbers of its nodes and edges, the means and sums of their features, its own numbers."""
        table = self.table
        sizes = np.maximum(table.num_nodes, 1)[:, None]
        parts = [table.num_nodes[:, None], np.diff(table.edge_offsets)[:, None]]
        for features, of_graph in (
            (table.features, np.repeat(np.arange(table.num_rows), table.num_nodes)),
            (table.edges.features, table.graph_of_edge),
        ):
            sums = np.zeros((table.num_rows, features.shape[1]))
            np.add.at(sums, of_graph, features)
            parts += [sums, sums / sizes]
        return finite_features(np.concatenate([*parts, table.conditions], axis=1), self.splits.train)

    def notes(self) -> list[str]:
        """The nodes and edges, what was assumed of them, and what graphs lack."""
        table, edges, job = self.table, self.table.edges, self.job
        num_nodes = len(table.features)
        ways = "one way each" if job.graph.directed else f"both ways, {edges.num_mirrored:,} of them added for it"
        found = [
            f"{num_nodes:,} nodes, {table.num_nodes.min():,} to {table.num_nodes.max():,} a graph; "
            f"{len(edges):,} edges, {ways}; {table.features.shape[1]:,} features of a node"
        ]
        counts = {
            "edges are loops, each counted as a neighbor": edges.num_loops,
            "edges repeat another one, and count again": edges.num_repeated(num_nodes),
            "nodes have no neighbor": edges.num_isolated(num_nodes),
            "graphs have one node": int((table.num_nodes == 1).sum()),
            "graphs have no edge": int((np.diff(table.edge_offsets) == 0).sum()),
            f"nodes belong to graphs that {job.graph.graphs} does not name, and are passed over": table.num_strays,
        }
        found += [f"{count:,} {what}" for what, count in counts.items() if count]
        if table.trees is not None:
            found.append(self.note_of_depth(int(table.trees.depths.max())))
        return found

    def note_of_depth(self, depth: int) -> str:
        """How far the roots lie from what leads to them, and how far the layers carry."""
        model = self.job.model
        flag, reach = ("--num-hops", model.num_hops) if model.model == "hops" else ("--num-layers", model.num_layers)
        if depth <= reach:
            return f"the longest way to a root is {depth:,} edges long, which {flag} {reach} carry"
        return (
            f"the longest way to a root is {depth:,} edges long, and {flag} {reach} carry {reach}: from nodes further "
            "away a root hears by attention alone, which does not see the edges between them"
        )
