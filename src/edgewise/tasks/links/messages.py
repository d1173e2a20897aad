"""The edges along which messages go, batch by batch, without the links that a batch predicts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.links import Links, LinkSplits
from edgewise.records import LinkBatch, NodeBatch, SparseFeatures
from edgewise.tasks.nodes.units import graph_batch


@dataclass(frozen=True, eq=False)
class Messages:
    """The nodes and edges of a graph in the units of a model."""

    features: torch.Tensor | SparseFeatures
    """What is known of each node."""
    edges: EdgeList
    """All edges of the graph."""
    has_loops: bool
    """Whether the model wants every node among its own neighbors."""

    def along(self, are_seen: np.ndarray | None = None) -> NodeBatch:
        """The graph with some of its edges (edge, bool); with all where it is None."""
        edges = self.edges if are_seen is None else self.edges.taken(np.flatnonzero(are_seen))
        return graph_batch(self.features, edges, self.has_loops)


def link_batch(graph: NodeBatch, links: Links, predicted: np.ndarray, others: np.ndarray) -> LinkBatch:
    """Some links, by their places in `links`, and pairs that are none, by their numbers, as one batch."""
    ends = links.pairs.ends(np.concatenate([links.numbers[predicted], others]))
    senders, receivers = (torch.from_numpy(side) for side in ends)
    targets = (torch.arange(len(senders)) < len(predicted)).float()[:, None]
    return LinkBatch(graph, senders, receivers, targets)


class LinkLoader:
    """All training links once an epoch, each step some of them, and pairs that are none.

    No message goes along a link that the step predicts: the model must not see the edge it predicts. The pairs that
    are none are drawn anew in every step from all that are no training link, which is all that training may know:
    validation and test links are drawn now and then, too, as if they were not known yet.

    Args:
        messages: the graph.
        links: its links.
        splits: which of them are learned.
        batch_size: links a step, at most.
        others_a_link: pairs that are none for each link.
        seed: of order and draw.
    """

    def __init__(
        self, messages: Messages, links: Links, splits: LinkSplits, batch_size: int, others_a_link: int, seed: int
    ):
        self.messages, self.links, self.splits = messages, links, splits
        self.num_batches = math.ceil(len(splits.train) / batch_size)
        self.others_a_link, self.seed, self.epoch = others_a_link, seed, 0
        self.known = links.numbers[splits.seen]

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[LinkBatch]:
        # Generators start at the first `next`: by then the epoch's number has been set.
        random, pairs = np.random.default_rng([self.seed, self.epoch]), self.links.pairs
        for predicted in np.array_split(random.permutation(self.splits.train), len(self)):
            seen = self.splits.seen.copy()
            seen[predicted] = False
            places = random.integers(0, pairs.total - len(self.known), self.others_a_link * len(predicted))
            others = pairs.outside(self.known, places)
            yield link_batch(self.messages.along(self.links.edges_of(seen)), self.links, predicted, others)
