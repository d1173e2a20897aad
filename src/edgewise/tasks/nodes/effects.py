"""What is lost without each node and link near the nodes that are asked about, and what gradients say of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from torch import Tensor

from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.occlusion import occlude
from edgewise.explanation import Attribution, Faithfulness, Link
from edgewise.neighborhood import EDGE_TYPES
from edgewise.records import NodeBatch, SparseFeatures
from edgewise.tasks.nodes.subgraph import Near, NodeQuestions

MOST_SIZE = 2**22
"""Nodes and edges that are computed for one kind of question, about: of a large part less is taken away."""
MOST_QUESTIONS, LEAST_QUESTIONS = 2000, 32
"""Nodes, and edges, that are taken away one by one, at most and at least."""
STEPS = 20, 4
"""Steps of a curve of faithfulness, in small parts of a graph and in very large ones."""
POINTS = 32, 8
"""Points of an integral, likewise."""
Member = Callable[[NodeBatch], Tensor]
"""The number that one member of an ensemble tells; gradients go through."""


def links_lost(questions: NodeQuestions, num_shown: int, *, is_extended: bool) -> tuple[tuple[Link, ...], list[str]]:
    """The edges between the nodes that are shown, both ways one link, nearest first; and what was left out.

    Edges that a model adds to the graph are no links of it: they stay when one is taken away.
    """
    near = questions.near
    edges, features = near.batch.edges, near.batch.edge_features
    senders, receivers = edges.senders.numpy(), edges.receivers.numpy()
    is_own, notes = (senders < num_shown) & (receivers < num_shown) & (senders != receivers), []
    if is_extended:
        # Which kind an edge is of are its last features; see `TrainedNodes.batches`.
        is_of_graph = features[:, -len(EDGE_TYPES)].numpy() > 0
        is_own &= is_of_graph
        added = f"{int((~is_of_graph).sum()):,} edges that the model adds to the graph (expander, virtual nodes)"
        notes.append(f"{added} carry messages here too; they go with their nodes, and are no links.")
    among = np.flatnonzero(is_own)
    # Nodes stand by hops: the smaller number of a pair is the nearer.
    low, high = np.minimum(senders[among], receivers[among]), np.maximum(senders[among], receivers[among])
    _, first, pair = np.unique(low * num_shown + high, return_index=True, return_inverse=True)
    groups = np.split(among[np.argsort(pair, kind="stable")], np.cumsum(np.bincount(pair))[:-1]) if len(first) else []
    most = most_questions(near)
    effects = np.full(len(groups), np.nan)
    told = questions.without_edges([np.zeros(0, dtype=np.int64), *groups[:most]])
    effects[:most] = told[0] - told[1:]
    links = tuple(
        Link(int(senders[edge]), int(receivers[edge]), float(effect))
        for edge, effect in zip(among[first].tolist(), effects.tolist(), strict=True)
    )
    if most < len(groups):
        notes.append(f"Only the nearest {most:,} of {len(groups):,} links were taken away.")
    return links, notes


def nodes_lost(questions: NodeQuestions, num_shown: int) -> tuple[Attribution, int]:
    """What is lost with each node, NaN where that was not asked; and how many were asked about, the nearest."""
    near = questions.near
    asked = min(num_shown, most_questions(near))
    values = np.full(num_shown, np.nan)
    groups = [np.array([unit]) for unit in range(asked)]
    values[:asked] = occlude(questions.without_nodes, len(near.nodes), groups)
    explained = "the node that is explained" if near.num_asked == 1 else "the nodes that are asked about"
    about = (
        f"The prediction less the prediction without the node: all its edges are taken away; of {explained}, "
        f"{'its' if near.num_asked == 1 else 'their'} own features."
    )
    return Attribution("occlusion", values, True, about), asked


def gradients(members: Sequence[Member], near: Near, num_shown: int) -> tuple[Attribution, Attribution]:
    """By the features of the nodes, mean over the members."""
    batch, integrals, products = near.batch, [], []
    points = max(POINTS[1], min(POINTS[0], MOST_SIZE // (4 * near.size)))
    features = _Features.of(batch)
    for member in members:

        def told(values: Tensor, member: Member = member) -> Tensor:
            return member(features.put(batch, values))

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


def believed(questions: NodeQuestions, attributions: Sequence[Attribution], asked: int) -> Faithfulness:
    """How far each attribution can be believed, over the nodes that were taken away."""
    curves = 2 * (len(attributions) + 1)
    steps = max(STEPS[1], min(STEPS[0], MOST_SIZE // (curves * questions.near.size)))
    shortened = [replace(each, values=each.values[:asked]) for each in attributions]
    return faithfulness(questions.without_nodes, shortened, asked, steps=steps)


def most_questions(near: Near) -> int:
    """How many questions of one kind are asked at most."""
    return max(LEAST_QUESTIONS, min(MOST_QUESTIONS, MOST_SIZE // near.size))


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
    def of(cls, batch: NodeBatch) -> Self:
        """Those of a batch."""
        num_nodes = batch.features.shape[0]
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
