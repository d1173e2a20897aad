"""A graph, explained: what its prediction loses without each node and edge, and where the model attends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from edgewise.data.graphs.graphs import GraphTable
from edgewise.data.graphs.union import graph_copies, led_to
from edgewise.errors import DataError, UnsupportedError
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.heads import to_layer
from edgewise.explain.occlusion import occlude
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Explanation, Layer, Link, Unit
from edgewise.plural import plural
from edgewise.records import GraphBatch
from edgewise.tasks.explained import Explained
from edgewise.tasks.graphs.trained import TrainedGraphs
from edgewise.tasks.targets import told_of
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

MOST_NODES = 2000
"""Nodes of a graph that can be explained: each is taken away, and the whole computed again."""
TOGETHER = 2**18
"""Nodes and edges that are computed at a time, about."""
READOUTS = ("attention", "attention_sum", "root")
"""Readouts that attend."""


def explain_graph(
    trained: TrainedGraphs, table: GraphTable, row: int, *, target: str | None = None, label: Any = None
) -> Explanation:
    """What is told of a graph, where the model attends in it, and what changes the prediction.

    The units are the nodes of the graph, called as their table calls them; the links are its edges, both ways of an
    edge being one link. A node is taken away with its edges. Where the root of a tree is asked, what is left is always
    a tree: with a node or link goes all that has no other way to the root, and the root itself, which stays, loses its
    features: they become zero, the mean, as they are scaled by their spread. Weights and what follows from them are
    those of the first member of an ensemble, all other numbers are means over the members.

    Args:
        trained: the ensemble.
        table: graphs.
        row: the one that is explained.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.

    Raises:
        DataError: there is no such row, or it cannot be told.
        SettingError: there is no such target or class.
        UnsupportedError: the graph has more than 2,000 nodes.

    Cost: a prediction for every node and link, some for the curves of faithfulness, and 33 with gradients.
    """
    if not 0 <= row < table.num_rows:
        raise DataError(f"graph {row} is asked for, but they are 0 to {table.num_rows - 1}.")
    name = name_of(table, row)
    if not table.usable[row]:
        raise DataError(f"the graph {name!r} cannot be told: {table.status[row]}.")
    batch = trained.batches(table).batch(np.array([row]))
    num_nodes = len(batch.features)
    if num_nodes > MOST_NODES:
        raise UnsupportedError(
            f"the graph {name!r} has {plural(num_nodes, 'node')}; at most {MOST_NODES:,} can be explained."
        )
    trace, outputs = _recorded(trained, batch)
    told = told_of(trained, trained.said(outputs, np.zeros(1, dtype=np.int64), 1))
    explained = Explained.chosen(trained, told, target, label)
    questions = GraphQuestions(explained, batch)
    with cpu_threads(trained.threads):
        layers, attention, notes = _attended(trained, trace, num_nodes, batch.roots)
        occlusion = Attribution(
            "occlusion",
            occlude(questions.without_nodes, num_nodes),
            about=_about_loss(batch),
        )
        attributions = (occlusion, *_gradients(explained, batch), *attention)
        links = _links(questions)
        believed = faithfulness(questions.without_nodes, attributions, num_nodes)
    if len(batch.roots):
        notes.append(
            "The model reads the root of a tree: with a node or link goes all that has no other way to the root; the "
            "root stays, and loses its features."
        )
    if len(trained.members) > 1:
        notes.append(f"Weights are those of the first of {len(trained.members)} models; other numbers are their means.")
    return Explanation(
        kind="graph",
        title=name,
        sources={},
        told=told,
        explained=explained.name,
        units=tuple(Unit(node) for node in table.nodes_of(row)),
        links=links,
        layers=layers,
        attributions=attributions,
        faithfulness=believed,
        center=int(batch.roots[0]) if len(batch.roots) else None,
        notes=tuple(notes),
    )


def name_of(table: GraphTable, row: int) -> str:
    """What the table calls a graph."""
    return str(table.frame[table.columns.graph_column].iloc[row])


@dataclass(frozen=True, eq=False)
class GraphQuestions:
    """What is told of one graph without some of its nodes or edges, each question as a graph of its own."""

    explained: Explained
    """The number that is told."""
    batch: GraphBatch
    """The graph."""

    def without_nodes(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        """The number without each of these lists of nodes, and all edges at them."""
        batch, roots = self.batch, self.batch.roots.numpy()

        def copies(kept: Bool[np.ndarray, " copy node"]) -> GraphBatch:
            if not len(roots):
                return graph_copies(batch, kept)
            is_blank = ~kept[:, roots[0]]
            kept[:, roots] = True
            every = np.ones((len(kept), batch.edges.num_edges), dtype=bool)
            found = graph_copies(batch, led_to(batch.edges, roots, kept, every))
            features = found.features.clone()
            features[found.roots[torch.from_numpy(is_blank)]] = 0
            return replace(found, features=features)

        return self._told(removed, len(batch.features), copies)

    def without_edges(self, removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        """The number without each of these lists of edges; all nodes stay, but those without a way to a root that is
        asked."""
        batch, roots = self.batch, self.batch.roots.numpy()

        def copies(kept: Bool[np.ndarray, " copy edge"]) -> GraphBatch:
            nodes = np.ones((len(kept), len(batch.features)), dtype=bool)
            return graph_copies(batch, led_to(batch.edges, roots, nodes, kept) if len(roots) else nodes, kept)

        return self._told(removed, batch.edges.num_edges, copies)

    def _told(
        self, removed: Sequence[np.ndarray], count: int, copies: Callable[[np.ndarray], GraphBatch]
    ) -> Float[np.ndarray, " question"]:
        step = max(1, TOGETHER // (len(self.batch.features) + self.batch.edges.num_edges))
        told = [np.zeros(0)]
        for start in range(0, len(removed), step):
            lists = removed[start : start + step]
            kept = np.ones((len(lists), count), dtype=bool)
            for line, places in zip(kept, lists, strict=True):
                line[places] = False
            told.append(self.explained.of_batch(copies(kept)))
        return np.concatenate(told)


def _about_loss(batch: GraphBatch) -> str:
    """What occlusion is here."""
    if len(batch.roots):
        return (
            "The prediction less that without the node and all that has no other way to the root; of the root, without "
            "its features."
        )
    return "The prediction less the prediction without the node and its edges."


def _recorded(trained: TrainedGraphs, batch: GraphBatch) -> tuple[Trace, np.ndarray]:
    """Where the first member attends, and what all say: (member, 1, output), finished."""
    trace = Trace()
    with torch.no_grad(), cpu_threads(trained.threads):
        outputs = [
            trained.finish(member.eval()(batch, trace if place == 0 else None).double()).numpy()
            for place, member in enumerate(trained.members)
        ]
    return trace, np.stack(outputs)


def _attended(
    trained: TrainedGraphs, trace: Trace, num_nodes: int, root: Tensor
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...], list[str]]:
    """The layers, the readout behind them, attention as attributions, and what to say of it."""
    recorded, model = list(trace.weights), trained.settings.model
    readout = recorded.pop() if trained.whole.readout in READOUTS else None
    if model == "hops":
        recorded = []  # its weights are of distances, and each node has its own
    layers = [to_layer(weights, f"layer {place}") for place, weights in enumerate(recorded, 1)]
    share, shares = torch.full((num_nodes,), 1 / num_nodes, dtype=torch.float64), []
    if readout is not None:
        layers.append(to_layer(readout, "readout", is_readout=True))
        heads = readout.values.reshape(-1, len(readout.senders)).double().mean(0)
        share = torch.zeros(num_nodes, dtype=torch.float64).index_add(0, readout.senders, heads)
        who = "root" if trained.whole.readout == "root" else "readout"
        about = f"How much the {who} looks at each node, the mean of its heads."
        shares.append(Attribution("attention", share.numpy(), False, about))
        if who == "root":
            # The block of the root has a residual connection: half of what follows is the root's own way.
            share = 0.5 * share + 0.5 * torch.nn.functional.one_hot(root, num_nodes)[0]
    if not recorded:
        return tuple(layers), tuple(shares), [f"The layers of the model {model} do not attend from node to node."]
    if any(not bool((weights.values >= 0).all()) for weights in recorded):
        return tuple(layers), tuple(shares), ["Some weights are negative: they are no shares, and there is no rollout."]
    # Only blocks have a residual connection; the layers of papers hear of the node itself by its loop alone.
    through = rollout(recorded, residual=0.5 if model == "attention" else 0.0)
    followed = torch.zeros(num_nodes, dtype=torch.float64)
    followed.index_add_(0, through.senders, share[through.receivers] * through.values.double())
    about = "How much of each node the readout hears of through all layers: their weights multiplied."
    return tuple(layers), (*shares, Attribution("rollout", followed.numpy(), False, about)), []


def _links(questions: GraphQuestions) -> tuple[Link, ...]:
    """The edges between two nodes, both ways one link, and what is lost without each."""
    edges, size = questions.batch.edges, len(questions.batch.features)
    senders, receivers = edges.senders.numpy(), edges.receivers.numpy()
    between = np.flatnonzero(senders != receivers)
    low, high = np.minimum(senders[between], receivers[between]), np.maximum(senders[between], receivers[between])
    pairs, pair = np.unique(low * size + high, return_inverse=True)
    groups = np.split(between[np.argsort(pair, kind="stable")], np.cumsum(np.bincount(pair, minlength=len(pairs)))[:-1])
    told = questions.without_edges([np.zeros(0, dtype=np.int64), *groups[: len(pairs)]])
    return tuple(
        Link(int(code // size), int(code % size), float(effect))
        for code, effect in zip(pairs.tolist(), (told[0] - told[1:]).tolist(), strict=True)
    )


def _gradients(explained: Explained, batch: GraphBatch) -> tuple[Attribution, ...]:
    """By the features of the nodes, mean over the members."""
    integrals, products = [], []
    for member in explained.trained.members:

        def told(features: Tensor, member: Any = member) -> Tensor:
            output = member(replace(batch, features=features))
            return explained.of_scores(output.flatten(0, 1)).mean()

        integrals.append(integrated_gradients(told, batch.features))
        products.append(gradient_times_input(told, batch.features))
    about = "Gradients by the node's features on the way from zeros, the mean where they are scaled by their spread."
    return (
        Attribution("integrated gradients", np.mean(integrals, axis=0), True, about),
        Attribution(
            "gradient × input", np.mean(products, axis=0), True, "The gradient by the node's features, times them."
        ),
    )
