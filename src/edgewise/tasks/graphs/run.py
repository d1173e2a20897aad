"""A run over many graphs: what it reads, starts from and is compared with."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from edgewise.data.graphs.edges import AS_FEATURES
from edgewise.data.graphs.graphs import GraphTable, read_graphs
from edgewise.data.split import Splits
from edgewise.plural import plural
from edgewise.tasks.graphs.job import GraphJob
from edgewise.tasks.graphs.trained import TrainedGraphs, untrained_graphs
from edgewise.tasks.table_run import TableRun
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
        table, job = self.table, self.job
        # Graphs that are rejected are not counted.
        edges, sizes = table.usable_edges, table.num_nodes[table.usable]
        num_nodes = int(sizes.sum())
        least, most = (f"{size:,}" for size in (sizes.min(), sizes.max()))
        found = [
            f"{plural(num_nodes, 'node')}, {least} to {most} a graph; {edges.ways(job.graph.directed)}; "
            f"{plural(table.features.shape[1], 'feature')} of a node",
            *edges.unused(AS_FEATURES),
        ]
        alone, empty = int((sizes == 1).sum()), int((np.diff(table.edge_offsets)[table.usable] == 0).sum())
        strays = f"to graphs that {job.graph.graphs} does not name, and"
        counts = [
            (alone, "graph has one node", "graphs have one node"),
            (empty, "graph has no edge", "graphs have no edge"),
            (table.num_strays, f"node belongs {strays} is passed over", f"nodes belong {strays} are passed over"),
        ]
        found += edges.notes(num_nodes, edges.num_repeated(len(table.features)))
        found += [plural(*each) for each in counts if each[0]]
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
