"""Many graphs, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from edgewise.errors import UnsupportedError, plural
from edgewise.explain.explainable import (
    MAX_POINTS,
    Attended,
    Attention,
    Differentiable,
    Explainable,
    UnitLinks,
    each_alone,
)
from edgewise.explain.explanation import Unit
from edgewise.explain.heads import to_layer
from edgewise.graph import Batch, Trace
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.graphs.graphs import GraphData, read_graphs
from edgewise.learn.readers.graphs.union import copies, nodes_reaching
from edgewise.learn.tasks.explainable import Names, checked_row, explainable_by_name, explaining, undirected
from edgewise.learn.tasks.explained import Explained
from edgewise.learn.tasks.graph_explainable import FEATURES
from edgewise.learn.tasks.graphs.settings import SETTINGS, GraphRunSettings
from edgewise.learn.tasks.graphs.task import TABLE, GraphsEncoder

MAX_NODES = 2000
"""Nodes of a graph that can be explained: each is removed, and the whole computed again."""
BATCH_SIZE = 2**18
"""Nodes and edges that are computed together, about."""
GRADIENT_SIZE = 2**15
"""Nodes and edges that are computed together where gradients go back through them, about."""
MAX_POINT_SIZE = 2**22
"""Nodes and edges that are computed for one integral, about, at most."""
READOUTS = ("attention", "attention_sum", "root")
"""Readouts that attend."""
ABOUT = "The prediction less the prediction without the node and its edges."
ABOUT_TREES = (
    "The prediction less that without the node and everything that reaches the root only through it; of the root, "
    "without its features."
)
"""What the effect of a node is, of any graph and of trees of which the model reads the root."""


def graph_item(
    trained: FittedTable[GraphsEncoder],
    data: GraphData,
    row: int,
    *,
    target: str | None = None,
    label: object = None,
) -> Explainable:
    """The prediction for a graph, where the model attends in it, and what changes the prediction.

    The units are the nodes of the graph, called as their table calls them; the links are its edges, both ways of an
    edge being one link. A node is removed with its edges, each removal is a graph of its own. Where the model reads the
    root of a tree, what is left is always a tree: removing a node or link also removes everything that reaches the root
    only through it, and the root itself, which stays, loses its features: they become zero, the mean, as they are
    scaled by their spread. Weights and what follows from them are those of the first member of an ensemble, all other
    numbers are means over the members.

    Args:
        trained: the ensemble.
        data: graphs.
        row: the one that is explained.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.

    Raises:
        DataError: the row does not exist, or cannot be predicted.
        SettingError: unknown target or class.
        UnsupportedError: the graph has more than 2,000 nodes.

    Cost: a prediction for every node and link, some for the curves of faithfulness, and up to 512 with
        gradients.
    """
    name = checked_row("graph", data, row, data.rows.cells.frame[data.columns.graph_column].array)
    batch = trained.batches(data).batch(np.array([row]))
    assert isinstance(batch, Batch)
    if (count := batch.graph.num_nodes) > MAX_NODES:
        raise UnsupportedError(
            f"the graph {name!r} has {plural(count, 'node')}; at most {MAX_NODES:,} can be explained."
        )
    trace = Trace()
    explained = Explained.of(
        trained, lambda number, member: member(batch, trace if number == 0 else None), target, label
    )
    has_degrees, num_edges = data.has_degrees or trained.encoder.adds_degrees, int(np.diff(data.edge_offsets)[row])
    graph = ExplainedGraph(trained, name, data.node_names_of(row), batch, explained, trace, has_degrees, num_edges)
    return Explainable(
        num_units=count,
        about=ABOUT if batch.supervision.nodes is None else ABOUT_TREES,
        groups=each_alone(count),
        predict=graph.predict,
        attend=graph.attention,
        differentiable=graph.differentiable,
        describe=graph.describe,
        scale=explained.scale,
        links=graph.links,
        max_points=min(MAX_POINTS, MAX_POINT_SIZE // (count + batch.graph.num_edges)),
    )


@dataclass(frozen=True, eq=False)
class ExplainedGraph:
    """A graph, and predictions without some of it."""

    trained: FittedTable[GraphsEncoder]
    """The ensemble."""
    name: str
    """The name of the graph."""
    names: Sequence[str]
    """The names of its nodes."""
    batch: Batch
    """The graph in the units of the model."""
    explained: Explained
    """The number that is explained."""
    traced: Trace
    """What the first member recorded."""
    has_degrees: bool
    """Whether in- and out-degree are features of the nodes."""
    num_edges: int
    """Edges of the graph; loops that the model adds come after them."""

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return self.batch.graph.num_nodes

    @property
    def roots(self) -> np.ndarray:
        """The root, where the model reads the root of a tree."""
        roots = self.batch.supervision.nodes
        return np.zeros(0, np.int64) if roots is None else roots.numpy()

    def predict(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The number without each of these lists of nodes, and all edges at them."""
        roots, edges = self.roots, self.batch.graph.edges

        def without(remaining: Bool[np.ndarray, " copy node"]) -> Batch:
            if not len(roots):
                return self._copies(remaining)
            is_blank = ~remaining[:, roots[0]]
            remaining[:, roots] = True
            every = np.ones((len(remaining), edges.num_edges), dtype=bool)
            copied = self._copies(nodes_reaching(edges, roots, remaining, every))
            features, copied_roots = copied.graph.node_features, copied.supervision.nodes
            assert isinstance(features, Tensor) and copied_roots is not None
            blanked = features.clone()
            blanked[copied_roots[torch.from_numpy(is_blank)]] = 0
            return copied.with_node_features(blanked)

        return self._predict(removed, self.num_nodes, without)

    def predict_without_edges(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The number without each of these lists of edges; all nodes stay that still have a way to a root."""
        roots, edges = self.roots, self.batch.graph.edges

        def without(remaining: Bool[np.ndarray, " copy edge"]) -> Batch:
            nodes = np.ones((len(remaining), self.num_nodes), dtype=bool)
            return self._copies(nodes_reaching(edges, roots, nodes, remaining) if len(roots) else nodes, remaining)

        return self._predict(removed, edges.num_edges, without)

    def _predict(self, removed: Sequence[np.ndarray], count: int, without: Callable[[np.ndarray], Batch]) -> np.ndarray:
        step = max(1, BATCH_SIZE // (self.num_nodes + self.batch.graph.num_edges))
        return self.explained.without(removed, count, without, step)

    def _copies(
        self, nodes: Bool[np.ndarray, " copy node"], edges: Bool[np.ndarray, " copy edge"] | None = None
    ) -> Batch:
        """Copies with some of the nodes and edges, whose positions and degrees are those of what is left."""
        copied, encoder = copies(self.batch, nodes, edges), self.trained.encoder
        positions = encoder.positions(copied.graph.edges)
        if positions is not None:
            copied = replace(copied, graph=replace(copied.graph, position_encodings=positions))
        if not self.has_degrees:
            return copied
        return copied.with_node_features(encoder.scaled_degrees(self._degrees(nodes, edges)[nodes]))

    def _degrees(
        self, nodes: Bool[np.ndarray, " copy node"], edges: Bool[np.ndarray, " copy edge"] | None
    ) -> Int64[np.ndarray, " copy node two"]:
        """In- and out-degree of each node in each copy, without loops that the model adds."""
        every = self.batch.graph.edges
        senders, receivers = every.senders.numpy()[: self.num_edges], every.receivers.numpy()[: self.num_edges]
        remaining = nodes[:, senders] & nodes[:, receivers]
        if edges is not None:
            remaining &= edges[:, : self.num_edges]
        copy, edge = remaining.nonzero()
        degrees = np.zeros((*nodes.shape, 2), dtype=np.int64)
        for way, ends in enumerate((receivers, senders)):
            np.add.at(degrees, (copy, ends[edge], way), 1)
        return degrees

    def links(self) -> UnitLinks:
        """The edges between two nodes, both ways one link."""
        edges = self.batch.graph.edges
        senders, receivers = edges.senders.numpy(), edges.receivers.numpy()
        first, groups = undirected(senders, receivers, senders != receivers)
        ends = [(min(pair), max(pair)) for pair in zip(senders[first].tolist(), receivers[first].tolist(), strict=True)]
        return UnitLinks(ends, groups, self.predict_without_edges)

    def differentiable(self) -> list[Differentiable]:
        """By the features of the nodes."""
        features = self.batch.graph.node_features
        assert isinstance(features, Tensor)
        batch_size = max(1, GRADIENT_SIZE // (self.num_nodes + self.batch.graph.num_edges))
        return [
            Differentiable(partial(self._of_features, member), features, None, None, FEATURES, batch_size)
            for member in self.trained.members
        ]

    def _of_features(self, member: nn.Module, features: Tensor) -> Tensor:
        copied = copies(self.batch, np.ones(features.shape[:2], dtype=bool))
        return self.explained.of_scores(member(copied.with_node_features(features.flatten(0, 1))))

    def attention(self) -> Attention:
        """The layers among nodes, and the readout after them."""
        recorded, layer, size = list(self.traced.weights), self.trained.encoder.settings.spec, self.num_nodes
        name = self.trained.encoder.whole.readout
        readout = recorded.pop() if name in READOUTS else None
        recorded = [] if layer.over_distances else recorded
        layers = [to_layer(weights, f"layer {number}") for number, weights in enumerate(recorded, 1)]
        direct, top = None, torch.full((size,), 1 / size, dtype=torch.float64)
        if readout is not None:
            layers.append(to_layer(readout, "readout", is_readout=True))
            heads = readout.values.reshape(-1, len(readout.senders)).double().mean(0)
            direct = top = torch.zeros(size, dtype=torch.float64).index_add(0, readout.senders, heads)
            if name == "root":
                # The block of the root has a residual connection: half of what follows is the root's own way.
                top = 0.5 * direct + 0.5 * torch.nn.functional.one_hot(torch.from_numpy(self.roots), size)[0]
        has_negative = any(not bool((weights.values >= 0).all()) for weights in recorded)
        notes = ["Some weights are negative, so they are not shares and rollout is undefined."] if has_negative else []
        if not recorded:
            notes = [f"The layers of the model {layer.name} do not attend from node to node."]
        # Only blocks have a residual connection; the layers of papers read the node itself by its loop alone.
        through = [] if has_negative else recorded
        return Attention(
            layers,
            [Attended(direct, top, through, residual=0.5 if layer.has_residual else 0.0)],
            f"How much the {'root' if name == 'root' else 'readout'} attends to each node, the mean of its heads.",
            "How much of each node can reach the readout through all layers: their weights multiplied.",
            notes=notes,
        )

    def describe(self, item: Explainable) -> JsonObject:
        """The graph and its nodes."""
        notes = [*item.attention.notes]
        if self.trained.encoder.settings.has_positions:
            notes.append("Positions are counted again where nodes or links are removed; gradients do not go into them.")
        if self.has_degrees:
            notes.append("Features are degrees, which are counted again where nodes or links are removed.")
        if len(self.roots):
            notes.append(
                "The model reads the root of a tree: removing a node or link also removes everything that reaches the "
                "root only through it; the root stays, and loses its features."
            )
        return {
            "kind": "graph",
            "title": self.name,
            "sources": {},
            "predictions": self.explained.predictions,
            "explained": self.explained.name,
            "units": tuple(Unit(node) for node in self.names),
            "center": int(self.roots[0]) if len(self.roots) else None,
            "notes": (*notes, *self.explained.member_notes),
        }


explain_graph = explaining(graph_item)


def read_known(trained: FittedTable[GraphsEncoder], settings: GraphRunSettings) -> GraphData:
    """The graphs that a model was trained on, and those that it was tested on."""
    columns = trained.encoder.columns.to_predict()
    return read_graphs(settings.data, columns, settings.graph, **trained.encoder.reading)


EXPLAINABLE = explainable_by_name(
    declared=SETTINGS,
    load=TABLE.load,
    read=read_known,
    row_noun="graph",
    rows_in_words="graphs",
    call="explain(graph)",
    fields=lambda data: [(data.columns.graph_column, "node")],
    names=lambda data: Names("graph", [str(name) for name in data.rows.cells.frame[data.columns.graph_column]]),
    model_name=lambda trained: trained.encoder.settings.model,
    item=graph_item,
    files="graphs",
)
