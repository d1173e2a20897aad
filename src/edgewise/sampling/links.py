"""Pairs of nodes as seeds: links, negative pairs, and the neighborhoods of both ends."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import DataError, SettingError, ShapeError
from edgewise.graph.record import Record
from edgewise.sampling.ahead import ahead
from edgewise.sampling.sample import Sample
from edgewise.sampling.sampler import NeighborSampler, checked_nodes

NUM_TRIES = 100
"""Nodes that are drawn for a negative pair before giving up."""


@dataclass(frozen=True, eq=False)
class LinkSample(Record):
    """Links and negative pairs, in the graph sampled around their ends."""

    sample: Sample
    """The neighborhood of all ends."""
    senders: Int64[Tensor, " pair"]
    """The index of the first node of each pair in the sampled graph: links, then negative pairs."""
    receivers: Int64[Tensor, " pair"]
    """The index of the second node of each pair."""
    labels: Float[Tensor, " pair"]
    """1 for links, 0 for negative pairs."""
    input_id: Int64[Tensor, " link"]
    """The index of each link in the loader."""


class LinkLoader:
    """Samples around links of one epoch, with negative pairs, batch after batch.

    A negative pair keeps the sender of its link; its receiver is drawn from the nodes of the same type, until it is
    neither the sender, nor the link's receiver, nor a node that the sender has an edge to, be its sampling weight 0.
    Everything is determined by (seed, epoch, batch), as for `NeighborLoader`.

    Args:
        sampler: draws the samples.
        senders, receivers: the ends of the links.
        batch_size: links per batch; the last batch may have fewer.
        num_negatives: negative pairs per link.
        times: the time of each link, if the sampler has edge times.
        hide: whether to remove the edges between the ends of the batch's links from the samples, in both directions, so
            that the model does not see the edge it predicts.
        shuffle: whether links are shuffled in each epoch.
        num_workers: threads that prefetch samples; 0 samples when a batch is needed.

    >>> from edgewise.graph import Graph
    >>> sampler = NeighborSampler(Graph.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])), [2])
    >>> for batch in LinkLoader(sampler, [0, 1], [1, 2], batch_size=2):
    ...     batch.labels.tolist(), len(batch.senders)
    ([1.0, 1.0, 0.0, 0.0], 4)
    """

    def __init__(
        self,
        sampler: NeighborSampler,
        senders: Any,
        receivers: Any,
        *,
        batch_size: int = 1024,
        num_negatives: int = 1,
        times: Any = None,
        hide: bool = True,
        shuffle: bool = False,
        num_workers: int = 1,
    ):
        for name, value, minimum in (("batch_size", batch_size, 1), ("num_negatives", num_negatives, 0)):
            if value < minimum:
                raise SettingError(f"LinkLoader: {name} is {value}; expected at least {minimum}.")
        num_nodes = sampler.graph.num_nodes
        self.sampler, self.num_negatives, self.hide = sampler, num_negatives, hide
        self.linked = sampler.incoming.complete(sampler.graph) if num_negatives else sampler.incoming
        self.senders = checked_nodes("senders", senders, num_nodes)
        self.receivers = checked_nodes("receivers", receivers, num_nodes)
        self.times = None if times is None else torch.as_tensor(times, device="cpu")

        for name, column in (("receivers", self.receivers), ("times", self.times)):
            if column is not None and len(column) != len(self.senders):
                raise ShapeError(f"LinkLoader: there are {len(self.senders)} senders but {len(column)} {name}.")
        self.batch_size, self.shuffle, self.num_workers = batch_size, shuffle, num_workers
        types = sampler.graph.node_types
        self.nodes = np.arange(num_nodes) if types is None or types.order is None else types.order.numpy()
        type_ends = np.cumsum([0, *(types.sizes if types is not None else [num_nodes])])
        receiver_types = (
            np.zeros(len(self.receivers), np.int64) if types is None else types.of_row.numpy()[self.receivers]
        )
        self.starts, self.stops = type_ends[receiver_types], type_ends[receiver_types + 1]
        self.epoch = 0

    def __len__(self) -> int:
        return math.ceil(len(self.senders) / self.batch_size)

    def __iter__(self) -> Iterator[LinkSample]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = np.arange(len(self.senders))
        if self.shuffle:
            order = np.random.default_rng([self.sampler.seed, epoch]).permutation(order)
        yield from ahead(
            lambda batch: self._sample(order[batch * self.batch_size :][: self.batch_size], epoch, batch),
            *(range(len(self)), self.num_workers),
        )

    def _sample(self, links: np.ndarray, epoch: int, batch: int) -> LinkSample:
        repeated = np.tile(links, self.num_negatives)
        pair_senders = np.concatenate([self.senders[links], self.senders[repeated]])
        pair_receivers = np.concatenate([self.receivers[links], self._negatives(repeated, epoch, batch)])
        times = None if self.times is None else self.times[np.concatenate([links, repeated])].repeat(2)
        sample = self.sampler.sample(
            torch.from_numpy(np.concatenate([pair_senders, pair_receivers])),
            times=times,
            epoch=epoch,
            batch=batch,
            without=(self.senders[links], self.receivers[links]) if self.hide else None,
        )
        labels = (torch.arange(len(pair_senders), device="cpu") < len(links)).float()
        first, second = sample.seeds[: len(pair_senders)], sample.seeds[len(pair_senders) :]

        return LinkSample(sample, first, second, labels, torch.from_numpy(links))

    def _negatives(self, links: np.ndarray, epoch: int, batch: int) -> np.ndarray:
        """A negative receiver for each of these links."""
        from edgewise.sampling.kernels import draw_unlinked

        linked, negatives = self.linked, np.empty(len(links), np.int64)
        key = np.random.SeedSequence((self.sampler.seed, epoch, batch, 1)).generate_state(1, np.uint64)[0]
        senders, receivers = self.senders[links], self.receivers[links]
        missing = draw_unlinked(
            *(linked.offsets, linked.links, senders, receivers, self.nodes, self.starts[links], self.stops[links]),
            *(NUM_TRIES, key, negatives),
        )

        if missing >= 0:
            raise DataError(
                f"LinkLoader: no negative found for node {senders[missing]} in {NUM_TRIES} tries: it is linked to "
                f"almost "
                "every node; use num_negatives=0, or your own negative pairs."
            )

        return negatives
