"""Pairs of nodes as seeds: links, pairs that are none, and the neighborhoods of both ends."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import DataError, SettingError, ShapeError
from edgewise.graph.records import Record
from edgewise.sampling.ahead import ahead
from edgewise.sampling.sample import Sample
from edgewise.sampling.sampler import NeighborSampler, checked_nodes

NUM_TRIES = 100
"""Nodes that are drawn for a pair that is no link, before it is given up."""


@dataclass(frozen=True, eq=False)
class LinkSample(Record):
    """Links and pairs that are none, in the graph sampled around their ends."""

    sample: Sample
    """The neighborhood of all ends."""
    senders: Int64[Tensor, " pair"]
    """The place of the first node of each pair in the sampled graph: links, then pairs that are none."""
    receivers: Int64[Tensor, " pair"]
    """The place of the second one."""
    labels: Float[Tensor, " pair"]
    """1 for links, 0 for pairs that are none."""
    input_id: Int64[Tensor, " link"]
    """Which of the loader's links each link is."""


class LinkLoader:
    """Samples around links of one epoch, with pairs that are none, batch after batch.

    A negative pair keeps the sender of its link; its receiver is drawn from the nodes of the same type, until it is
    neither the sender, nor the link's receiver, nor a node that the sender has an edge to. Everything follows from
    (seed, epoch, batch), as for `NeighborLoader`.

    Args:
        sampler: draws the samples.
        senders, receivers: the ends of the links.
        batch_size: links a batch, the last batch perhaps fewer.
        num_negatives: pairs that are none for each link.
        times: the time of each link, where the sampler has times of edges.
        hide: whether the edges between the ends of the batch's links are taken out of the samples, in both directions:
            the model must not see the edge that it predicts.
        shuffle: whether links stand in another order in each epoch.
        num_workers: threads that sample ahead; 0 samples when a batch is needed.

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
        for name, value, least in (("batch_size", batch_size, 1), ("num_negatives", num_negatives, 0)):
            if value < least:
                raise SettingError(f"LinkLoader: {name} is {value}; expected at least {least}.")
        num_nodes = sampler.graph.num_nodes
        self.sampler, self.num_negatives, self.hide = sampler, num_negatives, hide
        self.senders = checked_nodes("senders", senders, num_nodes)
        self.receivers = checked_nodes("receivers", receivers, num_nodes)
        self.times = None if times is None else torch.as_tensor(times, device="cpu")
        for name, column in (("receivers", self.receivers), ("times", self.times)):
            if column is not None and len(column) != len(self.senders):
                raise ShapeError(f"LinkLoader: there are {len(self.senders)} senders but {len(column)} {name}.")
        self.batch_size, self.shuffle, self.num_workers = batch_size, shuffle, num_workers
        types = sampler.graph.node_types
        self.nodes = np.arange(num_nodes) if types is None or types.order is None else types.order.numpy()
        ends = np.cumsum([0, *(types.sizes if types is not None else [num_nodes])])
        of_receiver = np.zeros(len(self.receivers), np.int64) if types is None else types.of_row.numpy()[self.receivers]
        self.starts, self.stops = ends[of_receiver], ends[of_receiver + 1]
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
        ends = np.concatenate([self.senders[links], self.senders[repeated]])
        others = np.concatenate([self.receivers[links], self._negatives(repeated, epoch, batch)])
        times = None if self.times is None else self.times[np.concatenate([links, repeated])].repeat(2)
        sample = self.sampler.sample(
            torch.from_numpy(np.concatenate([ends, others])),
            times=times,
            epoch=epoch,
            batch=batch,
            without=(self.senders[links], self.receivers[links]) if self.hide else None,
        )
        labels = (torch.arange(len(ends), device="cpu") < len(links)).float()
        first, second = sample.seeds[: len(ends)], sample.seeds[len(ends) :]
        return LinkSample(sample, first, second, labels, torch.from_numpy(links))

    def _negatives(self, links: np.ndarray, epoch: int, batch: int) -> np.ndarray:
        """A receiver for each of these links that its sender has no edge to."""
        from edgewise.sampling.kernels import draw_unlinked

        held, found = self.sampler.incoming, np.empty(len(links), np.int64)
        key = np.random.SeedSequence((self.sampler.seed, epoch, batch, 1)).generate_state(1, np.uint64)[0]
        senders, receivers = self.senders[links], self.receivers[links]
        missing = draw_unlinked(
            *(held.offsets, held.links, senders, receivers, self.nodes, self.starts[links], self.stops[links]),
            *(NUM_TRIES, key, found),
        )
        if missing >= 0:
            raise DataError(
                f"LinkLoader: no node was found in {NUM_TRIES} tries that node {senders[missing]} has no edge to; "
                "it is linked with nearly all: num_negatives=0, or bring negative pairs of your own."
            )
        return found
