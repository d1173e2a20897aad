"""A run over the links of a graph: read it, part its links, learn them, score, in a run folder."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from edgewise.data.graphs.edges import AS_FEATURES
from edgewise.data.graphs.links import LinkParts, Links, drawn_parts, named_parts, splits_of
from edgewise.data.graphs.nodes import NodeTable, read_graph
from edgewise.plural import plural
from edgewise.tasks.config import begin
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.job import LinkJob
from edgewise.tasks.links.learn import fit_links, judged, resolved
from edgewise.tasks.links.trained import TrainedLinks, probabilities
from edgewise.tasks.nodes.job import holds_types
from edgewise.tasks.run import Run
from edgewise.tasks.trained import show
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class LinkRun(Run):
    """A run over the links of a graph."""

    job: LinkJob
    """What is to be done."""
    table: NodeTable
    """The graph."""
    links: Links
    """Its links."""
    parts: LinkParts
    """Those of each part."""

    @classmethod
    def begun(cls, job: LinkJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its files read and its folder begun."""
        table = read_graph(job.data, job.columns, job.graph, strict=job.strict, edge_splits_column=job.splits_column)
        links = Links.of(table.edges, table.num_rows, job.graph.directed)
        if job.splits_column is None:
            part_of_link = drawn_parts(links, job.split_sizes, job.data_seed)
        else:
            part_of_link = named_parts(links, splits_of(table.edges, job.splits_column), job.data_seed)
        parts = LinkParts.of(links, part_of_link, job.negatives, job.data_seed)
        job = resolved(replace(job, descriptors_columns=table.columns.descriptors_columns), parts)
        # Edges as they stand in the file, both where a link has two; what is no edge is not counted.
        of_edge = links.of_edge[: len(table.edges) - table.edges.num_mirrored]
        rows = {
            part: np.flatnonzero(np.isin(of_edge, some)).tolist()
            for part, some in (("train", parts.train), ("val", parts.val), ("test", parts.test))
        }
        continues = begin(folder, job, resume=resume, rows=rows, rejected=table.rejected, files=job.files)
        return cls(folder, continues, job, table, links, parts)

    def learned(self) -> tuple[TrainedLinks, dict[str, Any]]:
        """What has been trained, and its scores; what is said of the test pairs is written down."""
        graph = LinkGraph.of(self.table)
        trained, metrics = fit_links(graph, self.links, self.parts, self.job, folder=self.folder, resume=self.resume)
        metrics["rows"]["rejected"] = len(self.table.rejected)
        self.write_test_predictions(trained, graph)
        return trained, metrics

    def write_test_predictions(self, trained: TrainedLinks, graph: LinkGraph) -> None:
        """Writes the test links, the pairs that are none, and their probabilities, messages going along training
        links alone."""
        seen = trained.messages(graph).along(self.links.edges_of(self.parts.seen))
        vectors = trained.vectors(seen)
        rows = [
            [graph.names[sender], graph.names[receiver], is_link, show(probability)]
            for part, *both in judged(self.links, self.parts)
            if part == "test"
            for is_link, ends in zip((1, 0), both, strict=True)
            for sender, receiver, probability in zip(*ends, probabilities(trained.scores(vectors, *ends)))
        ]
        self.folder.write_table("test_predictions.csv", ["sender", "receiver", "is_link", "link_prob"], rows)

    def notes(self) -> list[str]:
        """The graph, what was assumed of it, and what it lacks."""
        table, edges, job, count = self.table, self.table.edges, self.job, self.table.num_rows
        features = table.features.shape[1]
        known = "no features: each node learns a vector of its own"
        known = f"{plural(features, 'feature')} of a node" if features else known
        found = [f"{edges.ways(job.graph.directed)}; {known}", *edges.unused(AS_FEATURES, [job.splits_column])]
        bad = table.num_rows - int(table.usable.sum())
        no_part = len(self.links) - sum(len(part) for part in (self.parts.train, self.parts.val, self.parts.test))
        unread = "that cannot be read, 0 there: links are learned and predicted all the same"
        counts = [
            (edges.num_loops, "edge is a loop,", "edges are loops,", "which is no link, and carries messages"),
            (edges.num_repeated(count), "edge repeats", "edges repeat", "another one: the same link"),
            (edges.num_isolated(count), "node has", "nodes have", "no neighbor"),
            (bad, "node has features", "nodes have features", unread),
            (no_part, "link is", "links are", "of no part: messages go along, and nothing is predicted"),
        ]
        if holds_types(job.data):
            found.append("types of nodes or edges, which no model of links uses")
        if job.model.model != "attention":
            found += edges.unseen(job.model.model)
        return found + [f"{plural(number, one, many)} {rest}" for number, one, many, rest in counts if number]
