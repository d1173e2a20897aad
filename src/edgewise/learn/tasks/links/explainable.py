"""Pairs of nodes, as the methods of explanation and an `Explainer` see them: the probability of their link."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from edgewise.errors import DataError, SettingError
from edgewise.explain.explainable import Explainable
from edgewise.explain.explanation import TargetPrediction
from edgewise.graph import Batch, Graph, Trace
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.tasks.explainable import ExplainableTask, Names, Row, explaining, title_of
from edgewise.learn.tasks.graph_explainable import Surroundings
from edgewise.learn.tasks.links.model import FittedLinks, node_vectors, pair_scores, predict
from edgewise.learn.tasks.links.task import load
from edgewise.learn.tasks.subgraph import NodePerturbation, Subgraph, border_of
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder

TARGET = "link_prob"
"""The prediction, as tables of predictions call it."""
MAX_WHOLE = 2**15
"""Nodes and edges of a graph that is computed as a whole for every removal; of larger ones a subgraph."""
Moments = tuple[Tensor, Tensor]
"""The mean of the vectors of all nodes, and how far they lie from it."""


def link_item(
    trained: FittedLinks,
    sender: int,
    receiver: int,
    *,
    graph: LinkGraph | None = None,
    hops: int | None = None,
    target: str | None = None,
    label: object = None,
) -> Explainable:
    """The probability of a link, what of the neighborhood of its ends the model attends to, and what changes it.

    Where the graph has the very link, no message goes along it, as in training and wherever the model is scored: the
    model must not see the edge it predicts. Messages go along all others.

    The units are the nodes that one of the ends depends on, the ends first; the links are the edges between them, both
    ways of an edge being one link. Weights are of the layers that come to the ends: in layer l of L those of nodes up
    to L − l hops away from one of them.

    Vectors are measured from the mean of all nodes, in units of their spread. Up to 32,768 nodes and edges the whole
    graph is computed for every removal, and effects are those of a graph without the part, in whose mean and spread a
    removed node, without edges, still counts; of larger ones these stay, and the subgraph is computed alone. Gradients
    keep them always: all features together smaller make all vectors smaller, and if the spread followed, next to
    nothing would change on the way from zeros.

    Args:
        trained: the model.
        sender, receiver: nodes of the graph, counted from 0; their order matters where edges are one way.
        graph: whose edges carry messages; that of the training by default.
        hops: how far away from an end nodes are shown and removed; by default as far as the model reaches.
        target: `link_prob`, or None.
        label: None; a link is not a class.

    Raises:
        DataError: unknown node, the two are the same, or the graph does not fit the model.
        SettingError: another target is named, or a class, or `hops` is below 1.

    Cost: a prediction for every node and link near the ends, up to 2,000 of each, and fewer of large subgraphs.
    """
    encoder = trained.encoder
    graph, settings, ends = encoder.graph if graph is None else graph, encoder.settings, [sender, receiver]
    check_ends(graph, sender, receiver)
    check_choice(target, label)
    unlinked, is_linked = _without_link(trained, graph, sender, receiver)
    is_small = unlinked.num_nodes + unlinked.num_edges <= MAX_WHOLE
    reach, border = settings.reach, border_of(settings)
    subgraph, trace = Subgraph.of(unlinked, ends, reach, border), Trace()

    with torch.no_grad():
        moments = trained.model.moments(trained.model.eval().encoder(unlinked))
        with_moments = LinkProbability(trained, moments)
        value = float(with_moments.scores(subgraph.batch, trace).sigmoid())
    perturbation = NodePerturbation(with_moments.of_batch, subgraph)
    if is_small:
        all_nodes = Subgraph.of(unlinked, ends, reach, border, is_whole=True)
        perturbation = NodePerturbation(LinkProbability(trained, None).of_batch, all_nodes)

    return Surroundings(
        settings=settings,
        subgraph=subgraph,
        perturbation=perturbation,
        traces=[trace],
        members=[lambda batch: with_moments.scores(batch).sigmoid().squeeze(0)],
        hops=hops,
        names=graph.names,
        title=title_of(graph.names, ends, encoder.place.directed),
        target=TARGET,
        predictions=(link_prediction(value),),
        notes=[*notes_of_link(trained, graph, sender, receiver, is_linked), *notes_of_size(settings.reach, is_small)],
    ).explainable()


def notes_of_link(trained: FittedLinks, graph: LinkGraph, sender: int, receiver: int, is_linked: bool) -> list[str]:
    """What was predicted, and of which graph."""
    notes = ["The graph does not have this link."]
    if is_linked:
        (seen,) = predict(trained, np.array([sender]), np.array([receiver]), graph)
        notes = [
            "The graph has this link: no message goes along it here, as in training and test, as the model must "
            f"not see the edge it predicts; with it, as in `edgewise predict`, {TARGET} would be {seen:.3g}."
        ]
    if trained.encoder.place.directed and graph.edges.joins(receiver, sender, is_directed=True).any():
        notes.append("Edges are one way: the link back is another one, which the graph has, and carries messages.")
    if not trained.encoder.num_columns:
        notes.append("The nodes lack features: gradients are with respect to the learned vector of each node.")
    return notes


def notes_of_size(reach: int, is_small: bool) -> list[str]:
    """What of the rest of the graph counts, where the whole graph is computed for every removal, and elsewhere."""
    steps = f"{reach} step{'s' if reach > 1 else ''}"
    if is_small:
        return [
            f"Vectors are measured from the mean of all nodes, so that what lies more than {steps} away counts "
            "too, a little; it is not shown and not removed. A removed node still counts in the mean, without edges. "
            "Gradients keep that mean, and the spread."
        ]
    return [
        f"Nodes more than {steps} away do not count; the mean and spread of the vectors of all nodes, from "
        "which they are measured, stay as they are, as the graph is large."
    ]


explain_link = explaining(link_item)


@dataclass(frozen=True, eq=False)
class LinkProbability:
    """The probability of a link, in copies of a graph whose first two nodes are its ends."""

    trained: FittedLinks
    """The model."""
    moments: Moments | None
    """Those that vectors are measured by; None where each copy holds all nodes, and has its own."""

    def scores(self, batch: Batch, trace: Trace | None = None) -> Float[Tensor, " copy"]:
        """s of the two ends in each copy; keeps gradients."""
        model, ends = self.trained.model, batch.supervision.nodes
        assert ends is not None
        num_copies = len(ends) // 2
        nodes = model.encoder(batch.graph, trace).unflatten(0, (num_copies, -1))
        vectors = model.measured(nodes[:, :2], *(self.moments or model.moments(nodes)))
        senders = 2 * torch.arange(num_copies)
        return model.score_pairs(vectors.flatten(0, 1), senders, senders + 1).squeeze(1)

    def of_batch(self, batch: Batch) -> Float64[np.ndarray, " copy"]:
        """The probability in each copy."""
        with torch.no_grad(), cpu_threads(self.trained.threads):
            return self.scores(batch).double().sigmoid().numpy()


def predict_links(
    trained: FittedLinks, senders: Sequence[int], receivers: Sequence[int], graph: LinkGraph | None = None
) -> Float64[np.ndarray, " pair"]:
    """The probability of each pair, no message going along its own link; as in `link_item`.

    Raises:
        DataError: unknown node, or the two are the same.

    Cost: the vectors of all nodes once, and once more for each pair that the graph links.
    """
    graph = trained.encoder.graph if graph is None else graph
    pairs = list(zip(senders, receivers, strict=True))
    for pair in pairs:
        check_ends(graph, *pair)

    probabilities = predict(trained, np.array(senders, dtype=np.int64), np.array(receivers, dtype=np.int64), graph)
    for row, pair in enumerate(pairs):
        unlinked, is_linked = _without_link(trained, graph, *pair)
        if is_linked:
            ends = (np.array([node], dtype=np.int64) for node in pair)
            score = pair_scores(trained, node_vectors(trained, unlinked), *ends)
            probabilities[row] = trained.output.probabilities(score)[0]
    return probabilities


def link_prediction(value: float) -> TargetPrediction:
    """The probability of a link as an explanation has it."""
    return TargetPrediction(TARGET, value)


def check_ends(graph: LinkGraph, sender: int, receiver: int) -> None:
    """Raise a DataError where two numbers are not those of two nodes."""
    for node in (sender, receiver):
        if not 0 <= node < len(graph):
            raise DataError(f"node {node} does not exist; they are 0 to {len(graph) - 1}.")
    if sender == receiver:
        raise DataError(f"the node {graph.names[sender]!r} is named twice: a link joins two different nodes.")


def check_choice(target: str | None, label: object) -> None:
    """Raise a SettingError where something else than the probability is named."""
    if target not in (None, TARGET):
        raise SettingError(f"explain: target is {target!r}; the model predicts {TARGET}.")
    if label is not None:
        raise SettingError(f"explain: label is {label!r}, but {TARGET} is a number and has no classes; leave it out.")


def _without_link(trained: FittedLinks, graph: LinkGraph, sender: int, receiver: int) -> tuple[Graph, bool]:
    """The graph without the link between two nodes, and whether there was one."""
    is_link = graph.edges.joins(sender, receiver, trained.encoder.place.directed)
    return trained.encoder.scaled(graph).graph(~is_link), bool(is_link.any())


FIELDS = [("sender", "node"), ("receiver", "node")]
"""The names of both ends, called as in the test pairs of a run; where edges go both ways, their order does not
matter."""


@dataclass(frozen=True, eq=False)
class PairsByName:
    """Pairs of nodes of the graph that a model was trained on, which the model keeps."""

    trained: FittedLinks
    """The model."""
    names: Names
    """The nodes by their names."""

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Those of a run folder."""
        trained = load(folder)
        return cls(trained, Names("node", trained.encoder.graph.names))

    def ends_of(self, row: Row) -> tuple[int, int]:
        """The numbers of two nodes."""
        ends = self.names.ends([field for field, _ in FIELDS], row)
        check_ends(self.trained.encoder.graph, *ends)
        return ends


def predict_rows(pairs: PairsByName, rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
    """How probable each link is, no message going along itself."""
    senders, receivers = zip(*(pairs.ends_of(row) for row in rows), strict=True)
    return [(link_prediction(value),) for value in predict_links(pairs.trained, senders, receivers).tolist()]


def item(pairs: PairsByName, row: Row, target: str | None, label: object, top: int | None) -> Explainable:
    """One pair; all weights are listed, as few nodes are near it."""
    return link_item(pairs.trained, *pairs.ends_of(row), target=target, label=label)


EXPLAINABLE = ExplainableTask(
    load=PairsByName.read,
    trained=lambda pairs: pairs.trained,
    kind="graph",
    rows_in_words="the links of a graph",
    fields=lambda pairs: FIELDS,
    targets=lambda pairs: ("link", {TARGET: []}),
    model_name=lambda pairs: pairs.trained.encoder.settings.model,
    predict=predict_rows,
    item=item,
)
