"""Attention rollout: on which nodes at the bottom of a model each node at its top depends, through all layers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.formatting import plural
from edgewise.trace import Trace, Weights

Heads = Literal["mean", "max", "min"]
SLICE = 2**22
"""How many paths through two layers are walked at a time."""
DENSE = 32
"""From one pair in this many on, a table costs little more than the list of pairs, and is multiplied faster."""


def rollout(
    layers: Trace | Sequence[Weights],
    *,
    heads: Heads = "mean",
    residual: float = 0.5,
    queries: Int64[Tensor, " chosen"] | Sequence[int] | None = None,
) -> Weights:
    """The attention of all layers as one: how much each node at the top took from each node at the bottom.

        A'_l = r I + (1 − r) heads(A_l), its rows divided by their sums;   R = A'_L ⋯ A'_2 A'_1

    I stands for the residual connection, by which a node keeps itself. After k layers a node depends on the nodes
    within k hops and on no other: the pairs of R are those. Nothing here looks at values, feed-forward networks or
    signs: rollout finds what a node could depend on, not how it depends on it.

    Args:
        layers: a `Trace` that a model has filled, or weights of each layer once, first layer first. All are among the
            same nodes. The last batch axis, if there is one, is heads; the others go through.
        heads: how the heads of a layer become one: their mean, or the largest or smallest weight of each pair.
        residual: r, at least 0 and below 1.
        queries: the nodes at the top; all of them where None.

    Returns:
        `Weights` with values `(*batch, pair)`, by receiver, then sender; a row sums to one. Parallel edges are one
        pair; pairs of weight zero are left out.

    Raises:
        ShapeError: there are no weights, a layer goes from one set of nodes to another (cross-attention, a readout), is
            among other nodes or in another batch than the first, or holds only its strongest weights.
        SettingError: `heads` or `residual` is none there is, or the trace recorded only a part (`top`, `queries`).

    Empty: a node that attends to nothing keeps itself, with weight one; without residual its row is zero, and with it
        those of the nodes that depend only on it.
    Cost: time and memory grow with the paths that lead from the chosen queries over one more layer: O(queries · edges)
        a layer at most. No (query, key) table is made unless the layers list more than one pair in 32 of it.
    Source: Abnar & Zuidema 2020, "Quantifying attention flow in transformers", section 3; r = ½ and the mean of the
        heads are theirs. `residual` and the other two ways with heads are in common use.

    >>> import torch
    >>> from edgewise import Weights
    >>> chain = Weights(torch.tensor([0, 1]), torch.tensor([1, 2]), torch.ones(2), 3, 3)  # 0 → 1 → 2
    >>> rollout([chain, chain]).to_dense().tolist()
    [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.25, 0.5, 0.25]]
    """
    if heads not in ("mean", "max", "min"):
        raise SettingError(f"rollout: heads must be 'mean', 'max' or 'min', not {heads!r}.")
    if not 0 <= residual < 1:
        raise SettingError(f"rollout: residual is {residual}; expected at least 0 and below 1.")
    recorded = _recorded(layers)
    size, dtype = recorded[0].num_receivers, recorded[0].values.dtype
    chosen = _chosen(queries, size, recorded[0].values.device)
    shares = [_shares(weights, heads, residual) for weights in recorded]
    is_dense = DENSE * max(len(weights.receivers) for weights in shares) >= size * size
    found = _through_tables(shares, chosen) if is_dense else _through_lists(shares, chosen)
    used = _anywhere(found.values != 0, 1)
    senders, receivers, values = found.senders[used], found.receivers[used], found.values[..., used]
    return Weights(senders, receivers, values.to(dtype), size, size)


def _recorded(layers: Trace | Sequence[Weights]) -> list[Weights]:
    """The weights of each layer, after all that can be wrong with them has been looked for."""
    if isinstance(layers, Trace):
        for name, value in (("top", layers.top), ("queries", layers.queries)):
            if value is not None:
                raise SettingError(
                    f"rollout: the trace recorded a part of the weights ({name}=…), and what is missing cannot be "
                    "followed; record with Trace(), and choose queries here."
                )
        layers = layers.weights
    recorded = list(layers)
    if not recorded:
        raise ShapeError("rollout: there are no weights; a model records them by model(batch, trace=trace).")
    size, batch = recorded[0].num_receivers, recorded[0].values.shape[:-2]
    for place, weights in enumerate(recorded):
        here = f"rollout: layer {place} (of 0 … {len(recorded) - 1})"
        if weights.num_senders != weights.num_receivers:
            raise ShapeError(
                f"{here} goes from {plural(weights.num_senders, 'sender')} to "
                f"{plural(weights.num_receivers, 'receiver')}, as "
                "cross-attention and readouts do; leave it out: rollout([weights for weights in trace.weights if "
                "weights.num_senders == weights.num_receivers])."
            )
        if weights.num_receivers != size:
            raise ShapeError(
                f"{here} is among {plural(weights.num_receivers, 'node')}, but layer 0 among {size}; "
                "roll out only layers that "
                "follow each other."
            )
        if weights.values.shape[:-2] != batch:
            raise ShapeError(
                f"{here} has batch axes {tuple(weights.values.shape[:-2])} before its heads, but layer 0 has "
                f"{tuple(batch)}."
            )
        if weights.senders.dim() != 1:
            raise ShapeError(f"{here} holds only its strongest weights (top=…); record all of them.")
        if not bool((weights.values >= 0).all()):
            raise ShapeError(f"{here} has weights that are negative or NaN; rollout follows shares of a whole.")
    return recorded


def _chosen(queries: Tensor | Sequence[int] | None, size: int, device: torch.device) -> Tensor | None:
    """The chosen queries in ascending order, each once."""
    if queries is None:
        return None
    chosen = torch.as_tensor(queries, dtype=torch.int64, device=device).flatten().unique()
    outside = chosen[(chosen < 0) | (chosen >= size)]
    if outside.numel() > 0:
        raise ShapeError(f"rollout: query {int(outside[0])} is chosen, but they are 0 … {size - 1}.")
    return chosen


def _shares(weights: Weights, heads: Heads, residual: float) -> Weights:
    """A'_l: one weight a pair, the pair of a node with itself added, sorted by receiver, then sender."""
    size, values = weights.num_receivers, weights.values
    values = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    nodes = torch.arange(size, device=values.device)
    listed = torch.cat([weights.receivers * size + weights.senders, nodes * (size + 1)])
    codes, place = listed.unique(return_inverse=True)
    of_edges, of_loops = place.split([weights.receivers.shape[0], size])
    joined = values.new_zeros(*values.shape[:-1], codes.shape[0]).index_add(-1, of_edges, values)
    if joined.dim() > 1:
        joined = joined.mean(-2) if heads == "mean" else joined.amax(-2) if heads == "max" else joined.amin(-2)
    joined = (1 - residual) * joined
    joined = joined.index_add(-1, of_loops, joined.new_full((*joined.shape[:-1], size), residual))
    senders, receivers = codes % max(size, 1), codes // max(size, 1)
    sums = joined.new_zeros(*joined.shape[:-1], size).index_add(-1, receivers, joined)
    joined = joined / torch.where(sums > 0, sums, 1)[..., receivers]
    return Weights(senders, receivers, joined, size, size)


def _anywhere(there: Tensor, num_axes: int) -> Tensor:
    """What is there in some member of the batch, with the last axes alone."""
    return there.flatten(0, -num_axes - 1).any(0) if there.dim() > num_axes else there


def _through_tables(shares: list[Weights], chosen: Tensor | None) -> Weights:
    """R by products of tables."""
    size = shares[-1].num_receivers
    rows = torch.arange(size, device=shares[-1].values.device) if chosen is None else chosen
    table = shares[-1].to_dense()[..., rows, :]
    for below in reversed(shares[:-1]):
        table = table @ below.to_dense()
    places, senders = _anywhere(table != 0, 2).nonzero(as_tuple=True)
    return Weights(senders, rows[places], table[..., places, senders], size, size)


def _through_lists(shares: list[Weights], chosen: Tensor | None) -> Weights:
    """R by following, from the top down, each pair over the edges of the layer below."""
    found = shares[-1]
    if chosen is not None:
        chosen_pairs = torch.isin(found.receivers, chosen)
        senders, receivers = found.senders[chosen_pairs], found.receivers[chosen_pairs]
        found = replace(found, senders=senders, receivers=receivers, values=found.values[..., chosen_pairs])
    for below in reversed(shares[:-1]):
        found = _product(found, below)
    return found


def _product(above: Weights, below: Weights) -> Weights:
    """Σ_k above_ik below_kj, a slice of receivers at a time."""
    size = below.num_receivers
    ends = torch.searchsorted(below.receivers, torch.arange(size + 1, device=below.receivers.device))
    num_paths = (ends[1:] - ends[:-1])[above.senders]
    parts = []
    for start, stop in _slices(above.receivers, num_paths):
        many = num_paths[start:stop]
        pair = torch.arange(start, stop, device=many.device).repeat_interleave(many)
        first = ends[above.senders[start:stop]] - (many.cumsum(0) - many)
        edge = first.repeat_interleave(many) + torch.arange(pair.shape[0], device=many.device)
        walked = above.values[..., pair] * below.values[..., edge]
        codes, place = (above.receivers[pair] * size + below.senders[edge]).unique(return_inverse=True)
        values = walked.new_zeros(*walked.shape[:-1], codes.shape[0]).index_add(-1, place, walked)
        parts.append((codes % size, codes // size, values))
    if not parts:
        return above
    senders, receivers = (torch.cat(places) for places in list(zip(*parts))[:2])
    return Weights(senders, receivers, torch.cat([values for *_, values in parts], -1), size, size)


def _slices(receivers: Tensor, num_paths: Tensor) -> Iterator[tuple[int, int]]:
    """Runs of pairs that hold whole rows and, unless a row alone is longer, no more than `SLICE` paths."""
    rows, counts = receivers.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0)
    walked = num_paths.cumsum(0)[ends - 1].tolist()
    start, before = 0, 0
    for row, end in enumerate(ends.tolist()):
        if row + 1 == len(rows) or walked[row + 1] - before > SLICE:
            yield start, end
            start, before = end, walked[row]
