"""A node, explained: what of its neighborhood it attends to, and what its prediction loses without each part of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.data.nodes import NodeTable
from edgewise.errors import DataError, SettingError, UnsupportedError
from edgewise.estimators.explained import Explained
from edgewise.estimators.node.near import Near, NodeQuestions, border_of, reach_of
from edgewise.estimators.node.trained import TrainedNodes
from edgewise.estimators.told import told_of
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.heads import to_layer
from edgewise.explain.occlusion import occlude
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Explanation, Faithfulness, Layer, Link, Unit
from edgewise.layers.convolution import spread_evenly
from edgewise.models.node_settings import RELATIONAL, NodeSettings
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.trace import Trace, Weights
from edgewise.train.device import cpu_threads

MOST_NODES = 5000
"""Nodes that stand in an explanation."""
MOST_SIZE = 2**22
"""Nodes and edges that are computed for one kind of question, about: of a large part less is taken away."""
MOST_QUESTIONS, LEAST_QUESTIONS = 2000, 32
"""Nodes, and edges, that are taken away one by one, at most and at least."""
STEPS = 20, 4
"""Steps of a curve of faithfulness, in small parts of a graph and in very large ones."""
POINTS = 32, 8
"""Points of an integral, likewise."""


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
    numbers are means over the members.

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
        UnsupportedError: the model looks at kinds, at positions, or at edges that the graph does not have.

    Cost: a prediction for every node and link near the node, up to 2,000 of each.
    """
    check_explainable(trained.settings)
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
        layers, attention, said = _attended(trained, traces, near, len(shown))
        links, link_note = _links(questions, len(shown))
        lost, asked = _lost(questions, len(shown))
        attributions = (*attention, lost, *_gradients(explained, near, len(shown)))
        found = _faithfulness(questions, attributions, asked)
    if asked < len(shown):
        notes.append(f"Only the nearest {asked:,} nodes were taken away; deletion and insertion are of them.")
    notes += [note for note in (link_note, said) if note]
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
        faithfulness=found,
        center=0,
        notes=tuple(notes),
    )


def check_explainable(settings: NodeSettings) -> None:
    """Raise UnsupportedError where a prediction does not come from the edges around a node alone."""
    asked = {
        "kinds of nodes and edges": settings.model in RELATIONAL,
        "edges that the graph does not have (--expander-degree, --num-virtual-nodes)": settings.is_extended,
        "positions in the whole graph (--laplacian-positions, --random-walk-positions)": bool(
            settings.laplacian_positions or settings.random_walk_positions
        ),
    }
    if reasons := [what for what, is_so in asked.items() if is_so]:
        raise UnsupportedError(
            f"the model looks at {' and at '.join(reasons)}, and cannot be explained node by node; what can are the "
            "models hops, attention, gat, gatv2, gcn and mean without these."
        )


def _recorded(trained: TrainedNodes, near: Near) -> tuple[list[Trace], np.ndarray]:
    """Where each member attends, and what it says in the same computation: (member, 1, output), finished."""
    traces, outputs = [], []
    with torch.no_grad(), cpu_threads(trained.threads):
        for member in trained.members:
            traces.append(Trace())
            outputs.append(trained.finish(member(near.batch, traces[-1]).double()).numpy())
    return traces, np.stack(outputs)


def _attended(
    trained: TrainedNodes, traces: Sequence[Trace], near: Near, num_shown: int
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...], str]:
    """The layers of the first member that come to the node; attention as an attribution; and what to say of it."""
    model, recorded = trained.settings.model, traces[0].weights
    if model == "hops":
        distances = torch.stack([trace.weights[0].values.reshape(len(near.nodes), -1)[0] for trace in traces])
        values = np.mean([_spread(near.batch, each) for each in distances], axis=0)
        about = "How much of each node's own numbers the answer sums: attention over distances, spread over the edges."
        listed = ", ".join(f"{weight:.2f}" for weight in distances.mean(0).tolist())
        said = f"Attention over distances of 0, 1, 2, … hops: {listed}."
        is_signed = bool((values < 0).any())
        return (), (Attribution("attention", values[:num_shown], is_signed, about),), said
    if not recorded:
        return (), (), f"The model {model} does not attend: every neighbor counts as the number of edges says."
    layers = []
    for place, weights in enumerate(recorded, 1):
        comes = near.hops <= len(recorded) - place
        layers.append(to_layer(_among(weights, comes, num_shown), f"layer {place}"))
    if any(not bool((weights.values >= 0).all()) for trace in traces for weights in trace.weights):
        return tuple(layers), (), "Attention is not followed through the layers: some weights are negative."
    # Only blocks have a residual connection; the layers of papers hear of the node itself by its loop alone.
    residual = 0.5 if model == "attention" else 0.0
    followed = [rollout(trace, residual=residual, queries=[0]) for trace in traces]
    about = "Attention followed through all layers: how much of each node the one that is explained could have heard."
    values = np.mean([np.bincount(each.senders, each.values, minlength=len(near.nodes)) for each in followed], axis=0)
    return tuple(layers), (Attribution("rollout", values[:num_shown], False, about),), ""


def _spread(batch: NodeBatch, weights: Tensor) -> np.ndarray:
    """Σ_k α_k S^k_0j of every node j, S = D^−½ Â D^−½: what `HopAttention` multiplies the numbers of each node by."""
    # S^k is a map of all nodes, whose first row is wanted: the gradient of the first output by each input.
    with torch.enable_grad():
        start = torch.zeros(batch.edges.num_receivers, 1, requires_grad=True)
        versions = [start]
        for _ in range(len(weights) - 1):
            versions.append(spread_evenly(versions[-1], batch.edges))
        summed = (torch.cat([version[0] for version in versions]) * weights).sum()
        (found,) = torch.autograd.grad(summed, start)
    return found[:, 0].double().numpy()


def _among(weights: Weights, comes: np.ndarray, num_shown: int) -> Weights:
    """The weights of the receivers that come to the node, and of senders that are shown."""
    kept = torch.from_numpy(comes)[weights.receivers] & (weights.senders < num_shown) & (weights.receivers < num_shown)
    senders, receivers = weights.senders[kept], weights.receivers[kept]
    return Weights(senders, receivers, weights.values[..., kept], num_shown, num_shown)


def _links(questions: NodeQuestions, num_shown: int) -> tuple[tuple[Link, ...], str]:
    """The edges between the nodes that are shown, both ways one link, nearest first; and what was left out."""
    near = questions.near
    senders, receivers = (side.numpy() for side in (near.batch.edges.senders, near.batch.edges.receivers))
    among = np.flatnonzero((senders != receivers) & (senders < num_shown) & (receivers < num_shown))
    # Nodes stand by hops: the smaller number of a pair is the nearer.
    low, high = np.minimum(senders[among], receivers[among]), np.maximum(senders[among], receivers[among])
    _, first, pair = np.unique(low * num_shown + high, return_index=True, return_inverse=True)
    groups = np.split(among[np.argsort(pair, kind="stable")], np.cumsum(np.bincount(pair))[:-1]) if len(first) else []
    most = _most_questions(near)
    effects = np.full(len(groups), np.nan)
    told = questions.without_edges([np.zeros(0, dtype=np.int64), *groups[:most]])
    effects[:most] = told[0] - told[1:]
    links = tuple(
        Link(int(senders[edge]), int(receivers[edge]), float(effect))
        for edge, effect in zip(among[first].tolist(), effects.tolist(), strict=True)
    )
    if most < len(groups):
        return links, f"Only the nearest {most:,} of {len(groups):,} links were taken away."
    return links, ""


def _lost(questions: NodeQuestions, num_shown: int) -> tuple[Attribution, int]:
    """What is lost with each node, NaN where that was not asked; and how many were asked about, the nearest."""
    asked = min(num_shown, _most_questions(questions.near))
    values = np.full(num_shown, np.nan)
    groups = [np.array([unit]) for unit in range(asked)]
    values[:asked] = occlude(questions.without_nodes, len(questions.near.nodes), groups)
    about = (
        "The prediction less the prediction without the node: all its edges are taken away; of the node that is "
        "explained, its own features."
    )
    return Attribution("occlusion", values, True, about), asked


def _gradients(explained: Explained, near: Near, num_shown: int) -> tuple[Attribution, ...]:
    """By the features of the nodes, mean over the members."""
    batch, integrals, products = near.batch, [], []
    points = max(POINTS[1], min(POINTS[0], MOST_SIZE // (4 * near.size)))
    features = _Features.of(batch)
    for member in explained.trained.members:

        def told(values: Tensor, member: Any = member) -> Tensor:
            return explained.of_scores(member(features.put(batch, values))).squeeze(0)

        integrals.append(features.by_node(integrated_gradients(told, features.values, None, points)))
        products.append(features.by_node(gradient_times_input(told, features.values)))
    return (
        Attribution(
            "integrated gradients",
            np.mean(integrals, axis=0)[:num_shown],
            True,
            "Gradients by the node's features on the way from zeros, the mean where they are scaled by their spread.",
        ),
        Attribution(
            "gradient × input",
            np.mean(products, axis=0)[:num_shown],
            True,
            "The gradient by the node's features, times the features.",
        ),
    )


@dataclass(frozen=True, eq=False)
class _Features:
    """The numbers that gradients are taken by: of bags of words only those that are not zero, a row each."""

    values: Tensor
    """`(node, feature)`, or `(entry, 1)`."""
    node_of_row: np.ndarray
    """The node of each row."""
    num_nodes: int
    """How many nodes there are."""

    @classmethod
    def of(cls, batch: NodeBatch) -> "_Features":
        """Those of a batch."""
        num_nodes = batch.edges.num_receivers
        if isinstance(batch.features, Tensor):
            return cls(batch.features, np.arange(num_nodes), num_nodes)
        return cls(batch.features.values[:, None], batch.features.edges.receivers.numpy(), num_nodes)

    def put(self, batch: NodeBatch, values: Tensor) -> NodeBatch:
        """The batch with other numbers in the same places."""
        if isinstance(batch.features, Tensor):
            return replace(batch, features=values)
        return replace(batch, features=SparseFeatures(batch.features.edges, values[:, 0]))

    def by_node(self, found: np.ndarray) -> np.ndarray:
        """The sum over the rows of each node."""
        return np.bincount(self.node_of_row, found, minlength=self.num_nodes)


def _faithfulness(questions: NodeQuestions, attributions: Sequence[Attribution], asked: int) -> Faithfulness:
    """How far each attribution can be believed, over the nodes that were taken away."""
    curves = 2 * (len(attributions) + 1)
    steps = max(STEPS[1], min(STEPS[0], MOST_SIZE // (curves * questions.near.size)))
    shortened = [replace(each, values=each.values[:asked]) for each in attributions]
    return faithfulness(questions.without_nodes, shortened, asked, steps=steps)


def _most_questions(near: Near) -> int:
    """How many questions of one kind are asked at most."""
    return max(LEAST_QUESTIONS, min(MOST_QUESTIONS, MOST_SIZE // near.size))
