"""Two nodes, explained: where a model of links attends around them, and what the probability of their link loses
without each part of the graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from edgewise.errors import DataError, SettingError
from edgewise.explanation import Explanation, Told, Unit
from edgewise.records import NodeBatch
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.trained import TrainedLinks, probabilities
from edgewise.tasks.nodes.attended import attended
from edgewise.tasks.nodes.effects import believed, gradients, links_lost, nodes_lost
from edgewise.tasks.nodes.explain import MOST_NODES
from edgewise.tasks.nodes.subgraph import Near, NodeQuestions, border_of, reach_of
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

TARGET = "link_prob"
"""What is told, as the tables of predictions call it."""
WHOLE = 2**15
"""Nodes and edges of a graph that is computed anew, all of it, for every question; of larger ones what is near."""
Moments = tuple[Tensor, Tensor]
"""The mean of the vectors of all nodes, and how far they lie from it."""


def explain_link(
    trained: TrainedLinks,
    sender: int,
    receiver: int,
    *,
    graph: LinkGraph | None = None,
    hops: int | None = None,
    target: str | None = None,
    label: Any = None,
) -> Explanation:
    """How probable a link is, what of the neighborhood of its ends the model attends to, and what changes it.

    Where the graph has the very link, no message goes along it, as in training and wherever the model is scored: a
    link that is seen need not be told. Messages go along all others.

    The units are the nodes that one of the ends hears of, the ends first; the links are the edges between them, both
    ways of an edge being one link. Weights are of the layers that come to the ends: in layer l of L those of nodes up
    to L − l hops away from one of them.

    Vectors are measured from the mean of all nodes, in units of their spread. Up to 32,768 nodes and edges the whole
    graph is computed for every question, and what is lost is that of a graph without the part; of larger ones mean and
    spread are kept as they are, and what is near is computed alone. Gradients keep them always: all features together
    smaller make all vectors smaller, and if the spread followed, next to nothing would change on the way from zeros.

    Args:
        trained: the model.
        sender, receiver: nodes of the graph, counted from 0; which is which says something where edges are one way.
        graph: whose edges carry messages; that of the training by default.
        hops: how far away from an end nodes are shown and taken away; by default as far as the model looks.
        target: `link_prob`, or None.
        label: None; there are no classes.

    Raises:
        DataError: there is no such node, it is one twice, or the graph is none for the model.
        SettingError: another target is asked for, or a class, or `hops` is below 1.

    Cost: a prediction for every node and link near the ends, up to 2,000 of each, and fewer of large parts.
    """
    graph = graph or trained.graph
    check_ends(graph, sender, receiver)
    check_asked(target, label)
    if hops is not None and hops < 1:
        raise SettingError(f"hops is {hops}; expected at least 1.")
    ends, settings = [sender, receiver], trained.settings
    whole, is_linked = _told_apart(trained, graph, sender, receiver)
    is_small = whole.features.shape[0] + whole.edges.num_edges <= WHOLE
    reach = reach_of(settings)
    near = Near.of(whole, ends, reach, border_of(settings))
    trace = Trace()
    with torch.no_grad(), cpu_threads(trained.threads):
        here = LinkQuestion(trained, trained.model.moments(trained.model.eval().encoder(whole)))
        value = float(here.scores(near.batch, trace).sigmoid())
    shown = np.flatnonzero(near.hops <= (reach if hops is None else min(reach, hops)))
    notes = _notes(trained, graph, sender, receiver, is_linked, reach, is_small)
    if len(shown) > MOST_NODES:
        notes.append(f"Only the nearest {MOST_NODES:,} of {len(shown):,} nodes are shown.")
    shown = shown[:MOST_NODES]
    questions = NodeQuestions(here, near)
    if is_small:
        every = Near.of(whole, ends, reach, border_of(settings), is_whole=True)
        questions = NodeQuestions(LinkQuestion(trained, None), every)
    with cpu_threads(trained.threads):
        layers, attention, said = attended(settings, [trace], near, len(shown))
        links, link_notes = links_lost(questions, len(shown), is_extended=False)
        lost, num_asked = nodes_lost(questions, len(shown))
        attributions = (lost, *gradients([here.probability], near, len(shown)), *attention)
        found = believed(questions, attributions, num_asked)
    if num_asked < len(shown):
        notes.append(f"Only the nearest {num_asked:,} nodes were taken away; deletion and insertion are of them.")
    return Explanation(
        kind="graph",
        title=f"{graph.names[sender]} {'→' if trained.place.directed else '–'} {graph.names[receiver]}",
        sources={},
        told=(told_link(value),),
        explained=TARGET,
        units=tuple(Unit(graph.names[row]) for row in near.nodes[shown].tolist()),
        links=links,
        layers=layers,
        attributions=attributions,
        faithfulness=found,
        center=0,
        other_end=1,
        notes=(*notes, *link_notes, *said),
    )


def tell_links(
    trained: TrainedLinks, senders: Sequence[int], receivers: Sequence[int], graph: LinkGraph | None = None
) -> Float64[np.ndarray, " pair"]:
    """The probability of each pair, no message going along its own link; as `explain_link` tells it.

    Raises:
        DataError: there is no such node, or it is one twice.

    Cost: the vectors of all nodes once, and once more for each pair that the graph links.
    """
    graph = graph or trained.graph
    for pair in zip(senders, receivers, strict=True):
        check_ends(graph, *pair)
    found = trained.predict(np.array(senders, dtype=np.int64), np.array(receivers, dtype=np.int64), graph)
    for place, pair in enumerate(zip(senders, receivers, strict=True)):
        batch, is_linked = _told_apart(trained, graph, *pair)
        if is_linked:
            ends = (np.array([end], dtype=np.int64) for end in pair)
            found[place] = probabilities(trained.scores(trained.vectors(batch), *ends))[0]
    return found


def told_link(value: float) -> Told:
    """The probability of a link, as an explanation tells it."""
    return Told(TARGET, value)


def check_ends(graph: LinkGraph, sender: int, receiver: int) -> None:
    """Raise a DataError where two numbers are not those of two nodes."""
    for node in (sender, receiver):
        if not 0 <= node < len(graph):
            raise DataError(f"node {node} is asked for, but they are 0 to {len(graph) - 1}.")
    if sender == receiver:
        raise DataError(f"the node {graph.names[sender]!r} is named twice: a node and itself are no link.")


def check_asked(target: str | None, label: Any) -> None:
    """Raise a SettingError where something else than the probability is asked for."""
    if target not in (None, TARGET):
        raise SettingError(f"explain: target is {target!r}; the model predicts {TARGET}.")
    if label is not None:
        raise SettingError(f"explain: label is {label!r}, but {TARGET} is a number and has no classes; leave it out.")


@dataclass(frozen=True, eq=False)
class LinkQuestion:
    """The probability of a link, in copies of a graph whose first two nodes are its ends."""

    trained: TrainedLinks
    """The model."""
    moments: Moments | None
    """Those that vectors are measured by; None where each copy holds all nodes, and has its own."""

    def scores(self, batch: NodeBatch, trace: Trace | None = None) -> Float[Tensor, " question"]:
        """s of the two ends in each copy; gradients go through."""
        model, num_copies = self.trained.model, len(batch.rows) // 2
        found = model.encoder(batch, trace).unflatten(0, (num_copies, -1))
        vectors = model.measured(found[:, :2], *(self.moments or model.moments(found)))
        senders = 2 * torch.arange(num_copies)
        return model.told(vectors.flatten(0, 1), senders, senders + 1).squeeze(1)

    def probability(self, batch: NodeBatch) -> Float[Tensor, ""]:
        """That of a single copy; gradients go through."""
        return self.scores(batch).sigmoid().squeeze(0)

    def of_batch(self, batch: NodeBatch) -> Float64[np.ndarray, " question"]:
        """The probability in each copy."""
        with torch.no_grad(), cpu_threads(self.trained.threads):
            return self.scores(batch).double().sigmoid().numpy()


def _told_apart(trained: TrainedLinks, graph: LinkGraph, sender: int, receiver: int) -> tuple[NodeBatch, bool]:
    """The graph without the link between two nodes, and whether there was one."""
    edges = graph.edges
    is_own = (edges.senders == sender) & (edges.receivers == receiver)
    if not trained.place.directed:
        is_own |= (edges.senders == receiver) & (edges.receivers == sender)
    return trained.messages(graph).along(~is_own), bool(is_own.any())


def _notes(
    trained: TrainedLinks, graph: LinkGraph, sender: int, receiver: int, is_linked: bool, reach: int, is_small: bool
) -> list[str]:
    """What was asked, and of which graph."""
    if is_linked:
        (seen,) = trained.predict(np.array([sender]), np.array([receiver]), graph)
        notes = [
            "The graph has this link: no message goes along it here, as in training and test, so that it has to be "
            f"told; were it seen, as `edgewise predict` sees all links, {TARGET} would be {seen:.3g}."
        ]
    else:
        notes = ["The graph does not have this link."]
    way_back = (graph.edges.senders == receiver) & (graph.edges.receivers == sender)
    if trained.place.directed and way_back.any():
        notes.append("Edges are one way: the link back is another one, which the graph has, and carries messages.")
    if not trained.num_columns:
        notes.append("Nothing is known of the nodes: gradients are by the vector that each node has learned.")
    steps = f"{reach} step{'s' if reach > 1 else ''}"
    if is_small:
        notes.append(
            f"Vectors are measured from the mean of all nodes, so that what lies more than {steps} away counts too, "
            "a little; it is not shown and not taken away. Gradients keep that mean, and the spread."
        )
    else:
        notes.append(
            f"What lies more than {steps} away is not heard; the mean and spread of the vectors of all nodes, from "
            "which they are measured, are kept as they are, as the graph is large."
        )
    return notes
