"""A node, explained: what of its neighborhood it attends to, and what its prediction loses without each part of it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.types import spoken
from edgewise.errors import DataError, SettingError
from edgewise.explanation import Explanation, Part, Unit
from edgewise.models.graph_settings import NodeSettings
from edgewise.records import NodeBatch
from edgewise.tasks.explained import Explained
from edgewise.tasks.nodes.attended import attended
from edgewise.tasks.nodes.effects import Member, believed, gradients, links_lost, nodes_lost
from edgewise.tasks.nodes.subgraph import Near, NodeQuestions, border_of, reach_of
from edgewise.tasks.nodes.trained import TrainedNodes
from edgewise.tasks.targets import told_of
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

MOST_NODES = 5000
"""Nodes that stand in an explanation."""


def explain_node(
    trained: TrainedNodes,
    table: NodeTable,
    node: int,
    *,
    hops: int | None = None,
    target: str | None = None,
    label: Any = None,
) -> Explanation:
    """What is told of a node, what of its neighborhood it attends to, and what changes the prediction.

    Everything is computed on the part of the graph that the prediction comes from, on which it is the same as on the
    whole. The units are the nodes of this part, the one that is explained first; the links are the edges between them
    along which messages come, both ways of an edge being one link. Weights are of the layers that come to the node: in
    layer l of L those of nodes up to L − l hops away. Of an ensemble they are its first member's, and all other
    numbers are means over the members. Positions stay those of the whole graph, whatever is taken away; edges that the
    model adds to the graph go with their nodes; every node and edge keeps its kind.

    Args:
        trained: the ensemble.
        table: the graph.
        node: the row of the table.
        hops: how far away nodes are shown and taken away; by default as far as the model looks.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.

    Raises:
        DataError: there is no such row, or it cannot be told.
        SettingError: there is no such target or class, or `hops` is below 1.

    Cost: a prediction for every node and link near the node, up to 2,000 of each.
    """
    if not 0 <= node < table.num_rows:
        raise DataError(f"node {node} is asked for, but they are 0 to {table.num_rows - 1}.")
    if not table.usable[node]:
        raise DataError(f"the node {table.names[node]!r} cannot be told: {table.status[node]}.")
    if hops is not None and hops < 1:
        raise SettingError(f"hops is {hops}; expected at least 1.")
    reach = reach_of(trained.settings)
    near = Near.of(trained.batches(table).graph, node, reach, border_of(trained.settings))
    traces, outputs = _recorded(trained, near)
    told = told_of(trained, trained.said(outputs, np.zeros(1, dtype=np.int64), 1))
    explained = Explained.chosen(trained, told, target, label)
    shown = np.flatnonzero(near.hops <= min(reach, reach if hops is None else hops))
    notes = [f"Only the nearest {MOST_NODES:,} of {len(shown):,} nodes are shown."] if len(shown) > MOST_NODES else []
    shown = shown[:MOST_NODES]
    units = tuple(Unit(table.names[row]) for row in near.nodes[shown].tolist())
    questions = NodeQuestions(explained, near)
    with cpu_threads(trained.threads):
        layers, attention, said = attended(trained.settings, traces, near, len(shown))
        links, link_notes = links_lost(questions, len(shown), is_extended=trained.settings.is_extended)
        lost, asked = nodes_lost(questions, len(shown))
        attributions = (lost, *gradients(_members(explained), near, len(shown)), *attention)
        found = believed(questions, attributions, asked)
        parts = _kinds_lost(questions, trained, len(shown))
    if asked < len(shown):
        notes.append(f"Only the nearest {asked:,} nodes were taken away; deletion and insertion are of them.")
    notes += [*link_notes, *_positions(trained.settings), *said]
    if len(trained.members) > 1:
        notes.append(f"Weights are those of the first of {len(trained.members)} models; other numbers are their means.")
    return Explanation(
        kind="graph",
        title=table.names[node],
        sources={},
        told=told,
        explained=explained.name,
        units=units,
        links=links,
        layers=layers,
        attributions=attributions,
        parts=parts,
        faithfulness=found,
        center=0,
        notes=tuple(notes),
    )


def _recorded(trained: TrainedNodes, near: Near) -> tuple[list[Trace], np.ndarray]:
    """Where each member attends, and what it says in the same computation: (member, 1, output), finished."""
    traces, outputs = [], []
    with torch.no_grad(), cpu_threads(trained.threads):
        for member in trained.members:
            traces.append(Trace())
            outputs.append(trained.finish(member(near.batch, traces[-1]).double()).numpy())
    return traces, np.stack(outputs)


def _members(explained: Explained) -> list[Member]:
    """What each member tells of the node."""

    def of(member: Any) -> Member:
        def told(batch: NodeBatch) -> Tensor:
            return explained.of_scores(member(batch)).squeeze(0)

        return told

    return [of(member) for member in explained.trained.members]


def _kinds_lost(questions: NodeQuestions, trained: TrainedNodes, num_shown: int) -> tuple[Part, ...]:
    """What is lost without all nodes of a kind but the one that is explained, and without all edges of a kind."""
    batch, names = questions.near.batch, trained.types
    if batch.types is None or batch.relations is None or names is None:
        return ()
    of_node, of_edge = batch.types.of_row[:num_shown].numpy(), batch.relations.relation.numpy()
    ends, nothing = np.stack([batch.edges.senders.numpy(), batch.edges.receivers.numpy()]), np.zeros(0, dtype=np.int64)
    nodes = [np.flatnonzero(of_node[1:] == kind) + 1 for kind in range(len(names.nodes))]
    edges = [np.flatnonzero(of_edge == kind) for kind in range(len(names.relations))]
    told = questions([(nothing, nothing), *((some, nothing) for some in nodes), *((nothing, some) for some in edges)])
    units = [*nodes, *(np.unique(ends[:, some]) for some in edges)]
    called = [(name, "kind of node") for name in names.nodes]
    called += [(spoken(relation), "kind of edge") for relation in names.relations]
    return tuple(
        Part(name, kind, tuple(some[some < num_shown].tolist()), float(effect))
        for (name, kind), some, effect in zip(called, units, told[0] - told[1:], strict=True)
        if len(some)
    )


def _positions(settings: NodeSettings) -> list[str]:
    """What to say of positions."""
    if not (settings.laplacian_positions or settings.random_walk_positions):
        return []
    return [
        "Positions are those of the whole graph, also where nodes and links are taken away: what a node or link does "
        "to them is not counted, and gradients are by the features alone."
    ]
