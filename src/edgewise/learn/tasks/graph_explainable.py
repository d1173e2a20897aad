"""Explanations of nodes, edges and links of one graph: their units are the nodes that a prediction depends on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from edgewise.errors import DataError, SettingError
from edgewise.explain.explainable import (
    MAX_POINTS,
    Attended,
    Attention,
    Differentiable,
    Explainable,
    UnitLinks,
    each_alone,
)
from edgewise.explain.explanation import Part, TargetPrediction, Unit
from edgewise.explain.heads import to_layer
from edgewise.explain.numbers import formatted
from edgewise.explain.rollout import rollout
from edgewise.graph import Batch, Graph, SparseFeatures, Supervision, Trace, Weights
from edgewise.layers.convolution import spread_evenly
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import FittedTable, T
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.edge_data import EdgeData
from edgewise.learn.readers.graphs.types import TypeNames, in_words
from edgewise.learn.readers.graphs.union import repeated
from edgewise.learn.tables.rows import Data
from edgewise.learn.tasks.explainable import (
    ExplainableTask,
    Names,
    Row,
    RowsByName,
    checked_row,
    explainable_by_name,
    row_with_name,
    title_of,
    undirected,
)
from edgewise.learn.tasks.explained import Explained
from edgewise.learn.tasks.graph_notes import notes_of_kept_degrees
from edgewise.learn.tasks.subgraph import NodePerturbation, Subgraph, border_of
from edgewise.learn.tasks.table_notes import singular
from edgewise.learn.tasks.table_task import Dataset, Job, TableTask
from edgewise.neighborhood import EDGE_TYPES

MAX_NODES = 5000
"""Nodes that stand in an explanation."""
MAX_SIZE = 2**22
"""Nodes and edges that are computed for all removals, about: of a large subgraph less is removed."""
MAX_REMOVALS, MIN_REMOVALS = 2000, 32
"""Nodes, and links, that are removed one by one, at most and at least."""
POINTS = 32, 8
"""Points of an integral, of small subgraphs and of very large ones."""
FEATURES = "the node's features", "zeros, the mean where they are scaled by their spread"
"""What gradients are taken by, and where integrated gradients begin."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Surroundings:
    """What the prediction for some center nodes depends on; its units are nodes, the centers first."""

    settings: NodeSettings
    """Those of the layers."""
    subgraph: Subgraph
    """What the predictions depend on."""
    perturbation: NodePerturbation
    """Computes the number without some of it, or of a larger graph in the same order."""
    traces: Sequence[Trace]
    """What each member recorded on the subgraph."""
    members: Sequence[Callable[[Batch], Tensor]]
    """The explained number of each member of an ensemble; keeps gradients."""
    hops: int | None
    """How far away nodes are shown and removed; None for as far as the model reaches."""
    names: Sequence[str]
    """The names of all nodes of the graph."""
    title: str
    """What the item is called."""
    target: str
    """The name of the explained number."""
    predictions: Sequence[TargetPrediction]
    """The prediction of each target."""
    scale: float = 1.0
    """The unit for changes of the explained number."""
    notes: Sequence[str] = ()
    """What else should be known of the item."""
    member_notes: Sequence[str] = ()
    """Which member of an ensemble the weights belong to."""

    def __post_init__(self) -> None:
        if self.hops is not None and self.hops < 1:
            raise SettingError(f"hops is {self.hops}; expected at least 1.")

    def explainable(self, parts: Callable[[], Sequence[Part]] = tuple) -> Explainable:
        """What the methods of explanation need to know of it, and of larger parts."""
        centers = "the explained node, its" if self.subgraph.num_centers == 1 else "the two ends, their"
        return Explainable(
            num_units=self.num_units,
            about=f"The prediction less that without the node: all its edges are removed; of {centers} own features.",
            groups=each_alone(self.num_removed),
            predict=self.perturbation.without_nodes,
            attend=self.attention,
            differentiable=self.differentiable,
            describe=self.describe,
            budget=MAX_SIZE // self.perturbation.subgraph.size,
            scale=self.scale,
            points=max(POINTS[1], min(POINTS[0], MAX_SIZE // (4 * self.subgraph.size))),
            max_points=min(MAX_POINTS, MAX_SIZE // self.subgraph.size),
            links=self.links,
            parts=parts,
        )

    @property
    def num_near(self) -> int:
        """The nodes near enough."""
        reach = self.settings.reach
        return int((self.subgraph.hops <= min(reach, self.hops or reach)).sum())

    @property
    def num_units(self) -> int:
        """The nodes that are shown."""
        return min(self.num_near, MAX_NODES)

    @property
    def max_removals(self) -> int:
        """How many nodes, and links, are removed at most: fewer of larger subgraphs."""
        return max(MIN_REMOVALS, min(MAX_REMOVALS, MAX_SIZE // self.perturbation.subgraph.size))

    @property
    def num_removed(self) -> int:
        """The nearest nodes, which are removed."""
        return min(self.num_units, self.max_removals)

    def links(self) -> UnitLinks:
        """The edges between the nodes that are shown, both ways one link, nearest first.

        Edges that the model adds to the graph are not links: they stay when a link is removed.
        """
        graph, count = self.perturbation.subgraph.graph, self.num_units
        senders, receivers = graph.edges.senders.numpy(), graph.edges.receivers.numpy()
        is_link, notes = (senders < count) & (receivers < count) & (senders != receivers), []
        if self.settings.is_extended:
            # Which type an edge is of are its last features; see `NodeEncoder.batches`.
            assert isinstance(graph.edge_features, Tensor)
            is_of_graph = graph.edge_features[:, -len(EDGE_TYPES)].numpy() > 0
            is_link &= is_of_graph
            added = f"{int((~is_of_graph).sum()):,} edges that the model adds to the graph (expander, virtual nodes)"
            notes.append(f"{added} carry messages here too; they go with their nodes, and are not links.")
        # Nodes stand by hops: the smaller number of a pair is the nearer.
        first, groups = undirected(senders, receivers, is_link)
        if len(groups) > self.max_removals:
            notes.append(f"Only the nearest {self.max_removals:,} of {len(groups):,} links were removed.")
        ends = list(zip(senders[first].tolist(), receivers[first].tolist(), strict=True))
        return UnitLinks(ends, groups[: self.max_removals], self.perturbation.without_edges, notes)

    def differentiable(self) -> list[Differentiable]:
        """By the features of the nodes: of sparse ones only those that are not zero, a row each."""
        batch, count = self.subgraph.batch, self.num_units
        features, size = batch.graph.node_features, batch.graph.num_nodes
        assert isinstance(features, Tensor | SparseFeatures)
        if isinstance(features, Tensor):
            values, node = features, np.arange(size)
        else:
            values, node = features.values[:, None], features.edges.receivers.numpy()

        def function(member: Callable[[Batch], Tensor], values: Tensor) -> Tensor:
            values = values.squeeze(0)
            of_nodes = values if isinstance(features, Tensor) else SparseFeatures(features.edges, values[:, 0])
            return member(batch.with_node_features(of_nodes)).unsqueeze(0)

        def by_unit(attributions: np.ndarray) -> np.ndarray:
            return np.bincount(node, attributions, minlength=size)[:count]

        return [Differentiable(partial(function, member), values, None, by_unit, FEATURES) for member in self.members]

    def attention(self) -> Attention:
        """The layers that come to the centers; of several centers attributions are the mean."""
        layer, subgraph, recorded = self.settings.spec, self.subgraph, self.traces[0].weights
        size, count = len(subgraph.nodes), subgraph.num_centers
        if layer.over_distances:
            return self._over_distances()
        if not recorded:
            return Attention(
                notes=[f"The model {layer.name} does not attend: neighbors count by their number of edges."]
            )
        layers = []
        for number, weights in enumerate(recorded, 1):
            comes = np.append(
                subgraph.hops <= len(recorded) - number, np.zeros(subgraph.graph.num_virtual_nodes, dtype=bool)
            )
            layers.append(to_layer(_local_weights(weights, comes, self.num_units), f"layer {number}"))
        if any(not bool((weights.values >= 0).all()) for trace in self.traces for weights in trace.weights):
            return Attention(layers, notes=["Attention is not followed through the layers: some weights are negative."])
        top = torch.zeros(size + subgraph.graph.num_virtual_nodes, dtype=torch.float64)
        top[:count] = 1 / count
        residual, notes = 0.5 if layer.has_residual else 0.0, []
        if subgraph.graph.num_virtual_nodes:
            through = [rollout(trace, residual=residual, queries=list(range(count))) for trace in self.traces]
            shares = [float(weights.values[weights.senders >= size].sum()) / count for weights in through]
            notes = [
                f"{np.mean(shares):.0%} of the rollout is of virtual nodes themselves, which stand for no node of the "
                "graph. Through them the prediction depends on every node; those far away along other edges are not "
                "shown."
            ]
        who = "the one that is explained" if count == 1 else "the two ends, on average"
        return Attention(
            layers,
            [Attended(None, top, trace.weights, residual) for trace in self.traces],
            about_rollout=f"Attention through all layers: how much of each node can reach {who}.",
            notes=notes,
        )

    def _over_distances(self) -> Attention:
        """Attention over distances, without layers from node to node."""
        size, count = len(self.subgraph.nodes), self.subgraph.num_centers
        distances = torch.stack([trace.weights[0].values.reshape(size, -1)[:count] for trace in self.traces])
        spread = [_spread(self.subgraph.graph, of_member) for of_member in distances]
        listed = ", ".join(formatted(weight) for weight in distances.mean((0, 1)).tolist())
        return Attention(
            members=[Attended(of_nodes) for of_nodes in spread],
            about="How much of each node's own numbers the answer sums: attention over distances, spread over edges.",
            is_signed=bool((torch.stack(spread).mean(0) < 0).any()),
            notes=[f"Attention over distances of 0, 1, 2, … hops: {listed}."],
        )

    def describe(self, item: Explainable) -> JsonObject:
        """The centers and their surroundings."""
        link_notes = () if item.linked is None else item.linked.notes
        positions = []
        if self.settings.has_positions:
            positions = [
                "Positions are those of the whole graph, also where nodes and links are removed: what a node or link "
                "does to them is not counted, and gradients are by the features alone."
            ]
        description = {
            "kind": "graph",
            "title": self.title,
            "sources": {},
            "predictions": tuple(self.predictions),
            "explained": self.target,
            "units": tuple(Unit(self.names[row]) for row in self.subgraph.nodes[: self.num_units].tolist()),
            "center": 0,
            "notes": (
                *(*self.notes, *self.limit_notes(), *link_notes),
                *(*positions, *item.attention.notes, *self.member_notes),
            ),
        }
        return description if self.subgraph.num_centers == 1 else {**description, "other_end": 1}

    def limit_notes(self) -> list[str]:
        """Which nodes are not shown, or not removed."""
        notes = []
        if self.num_near > self.num_units:
            notes.append(f"Only the nearest {self.num_units:,} of {self.num_near:,} nodes are shown.")
        if self.num_removed < self.num_units:
            notes.append(
                f"Only the nearest {self.num_removed:,} nodes were removed; deletion and insertion are of them."
            )
        return notes


class GraphRows(Data, Protocol):
    """A data set whose rows are the nodes, or the edges, of one graph."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""

    @property
    def has_degrees(self) -> bool:
        """Whether nodes lack features, so that these are their degrees."""


RowsOfGraph = TypeVar("RowsOfGraph", bound=GraphRows)


def row_item(
    trained: FittedTable,
    data: GraphRows,
    row: int,
    *,
    hops: int | None = None,
    target: str | None = None,
    label: object = None,
    notes: Callable[..., Sequence[str]] = lambda trained, data, row: (),
) -> Explainable:
    """What an ensemble predicts of one row: a node of a graph, or an edge between two.

    Everything is computed on the subgraph that the prediction depends on, where it is the same as on the whole graph.
    The units are the nodes of this subgraph, the node or the ends of the edge first; the links are the edges between
    them along which messages come, both ways of an edge being one link. Weights are of the layers that come to these
    nodes: in layer l of L those of nodes up to L − l hops away. Of an ensemble they are its first member's, and all
    other numbers are means over the members. Positions stay those of the whole graph, whatever is removed; edges that
    the model adds to the graph go with their nodes; every node and edge keeps its type.

    Args:
        trained: the ensemble.
        data: the nodes, or the edges, of a graph.
        row: the one that is explained.
        hops: how far away nodes are shown and removed; by default as far as the model reaches.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.
        notes: what else should be known of a row.

    Raises:
        DataError: the row does not exist, or cannot be predicted.
        SettingError: unknown target or class, or `hops` is below 1.

    Cost: a prediction for every node and link near the row, up to 2,000 of each.
    """
    row_noun, on_graph = singular(data.rows.row_noun), trained.encoder.on_graph
    checked_row(row_noun, data, row, data.names if row_noun == "node" else None)
    settings, batch = on_graph.settings, trained.batches(data).batch(np.array([row]))
    assert isinstance(batch, Batch)
    one, types = batch.supervision, None if batch.graph.node_types is None else trained.encoder.types
    ends = (one.senders, one.receivers) if one.nodes is None else (one.nodes,)
    numbers = [int(end) for end in ends if end is not None]
    centers = list(dict.fromkeys(numbers))

    def to_rows(copies: Batch) -> Batch:
        """The row in each copy of a graph, where the rows of the batch are the centers."""
        if one.nodes is not None:
            return copies
        assert copies.supervision.nodes is not None
        nodes = copies.supervision.nodes.unflatten(0, (-1, len(centers)))
        features = repeated(one.row_features, len(nodes))
        return Batch(copies.graph, Supervision(senders=nodes[:, 0], receivers=nodes[:, -1], row_features=features))

    subgraph = Subgraph.of(batch.graph, centers, settings.reach, border_of(settings))
    traces, rows = [Trace() for _ in trained.members], to_rows(subgraph.batch)
    explained = Explained.of(trained, lambda number, member: member(rows, traces[number]), target, label)

    def of_member(member: nn.Module, copies: Batch) -> Tensor:
        return explained.of_scores(member(to_rows(copies))).squeeze(0)

    surroundings = Surroundings(
        settings=settings,
        subgraph=subgraph,
        perturbation=NodePerturbation(lambda copies: explained.of_batch(to_rows(copies)), subgraph),
        traces=traces,
        members=[partial(of_member, member) for member in trained.members],
        hops=hops,
        names=data.names,
        title=title_of(data.names, numbers, on_graph.graph.directed),
        target=explained.name,
        predictions=explained.predictions,
        scale=explained.scale,
        notes=[*notes(trained, data, row), *notes_of_kept_degrees(on_graph, data.has_degrees, types)],
        member_notes=explained.member_notes,
    )
    return surroundings.explainable(partial(parts_by_type, trained, surroundings))


def explainable_rows(
    table: TableTask[Job, Dataset, T],
    read: Callable[[FittedTable[T], Job], RowsOfGraph],
    item: Callable[..., Explainable],
    *,
    call: str,
    fields: Callable[[RowsOfGraph], list[tuple[str, str]]],
    find: Callable[[RowsByName[FittedTable[T], RowsOfGraph], Row], int] = row_with_name,
) -> ExplainableTask[RowsByName[FittedTable[T], RowsOfGraph]]:
    """A task whose rows are the nodes, or the edges, of the graph that a run names; see `explainable_by_name`."""

    def model_name(trained: FittedTable) -> str:
        return str(trained.encoder.on_graph.settings.model)

    return explainable_by_name(
        declared=table.settings,
        load=table.load,
        read=read,
        row_noun=singular(table.noun),
        rows_in_words=f"the {table.noun} of a graph",
        call=call,
        fields=fields,
        names=lambda data: Names("node", data.names),
        model_name=model_name,
        item=item,
        find=find,
    )


def edge_between(rows: RowsByName[FittedTable, EdgeData], names: Row) -> int:
    """The first edge between two nodes, by their names.

    Raises:
        DataError: there is none.
    """
    data, is_directed = rows.data, rows.trained.encoder.on_graph.graph.directed
    ends = rows.names.ends(data.edges.columns, names)
    if not len(between := data.between(*ends, is_directed)):
        title = title_of(data.names, ends, is_directed)
        raise DataError(f"the edge {title} does not exist; name the two nodes of an edge of the graph.")
    return int(between[0])


def parts_by_type(trained: FittedTable, surroundings: Surroundings) -> list[Part]:
    """All nodes of a type but the one that is explained, and all edges of a type."""
    graph, count = surroundings.subgraph.graph, surroundings.num_units
    if graph.node_types is None or graph.edge_types is None:
        return []
    names: TypeNames = trained.encoder.types
    of_node, of_edge = graph.node_types.of_row[:count].numpy(), graph.edge_types.of_row.numpy()
    ends, nothing = np.stack([graph.edges.senders.numpy(), graph.edges.receivers.numpy()]), np.zeros(0, np.int64)
    nodes = [np.flatnonzero(of_node[1:] == number) + 1 for number in range(len(names.nodes))]
    edges = [np.flatnonzero(of_edge == number) for number in range(len(names.relations))]

    # Nothing is removed first, then the nodes or the edges of each type.
    removals = [(nothing, nothing), *((of_type, nothing) for of_type in nodes)]
    predictions = surroundings.perturbation([*removals, *((nothing, of_type) for of_type in edges)])
    effects = predictions[0] - predictions[1:]

    units = [*nodes, *(np.unique(ends[:, of_type]) for of_type in edges)]
    labels = [(name, "type of node") for name in names.nodes]
    labels += [(in_words(relation), "type of edge") for relation in names.relations]
    return [
        Part(name, decomposition, tuple(of_type[of_type < count].tolist()), float(effect))
        for (name, decomposition), of_type, effect in zip(labels, units, effects, strict=True)
        if len(of_type)
    ]


def _spread(graph: Graph, weights: Tensor) -> Tensor:
    """Σ_k α_ik S^k_ij of every node j, mean over the centers i, S = D^−½ Â D^−½: what `HopAttention` multiplies the
    numbers of each node by."""
    # S^k is a map of all nodes, some rows of which are wanted: the gradients of the first outputs by each input.
    with torch.enable_grad():
        start = torch.zeros(graph.edges.num_receivers, 1, requires_grad=True)
        versions = [start]
        for _ in range(weights.shape[1] - 1):
            versions.append(spread_evenly(versions[-1], graph.edges))
        summed = (torch.cat([version[: len(weights)] for version in versions], 1) * weights).sum(1).mean()
        (gradients,) = torch.autograd.grad(summed, start)
    return gradients[:, 0].double()


def _local_weights(weights: Weights, comes: np.ndarray, count: int) -> Weights:
    """The weights of the receivers that come to the centers, and of senders that are shown."""
    left = torch.from_numpy(comes)[weights.receivers] & (weights.senders < count) & (weights.receivers < count)
    return Weights(weights.senders[left], weights.receivers[left], weights.values[..., left], count, count)
