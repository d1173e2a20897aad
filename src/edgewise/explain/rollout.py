"""Attention rollout: how much each node at the top of a model attends to each at the bottom, through all layers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError, plural
from edgewise.graph import Trace, Weights

Heads = Literal["mean", "max", "min"]
MAX_PATHS = 2**22
"""The most paths through two layers that are followed at a time."""
DENSE_RATIO = 32
"""If at least one pair in this many has a weight, a dense table is little larger than the list, and faster."""


def rollout(
    layers: Trace | Sequence[Weights],
    *,
    heads: Heads = "mean",
    residual: float = 0.5,
    queries: Int64[Tensor, " chosen"] | Sequence[int] | None = None,
) -> Weights:
    """The attention of all layers combined: how much each node at the top took from each node at the bottom.

        A'_l = r I + (1 − r) heads(A_l), its rows divided by their sums;   R = A'_L ⋯ A'_2 A'_1

    I stands for the residual connection, by which a node keeps itself. After k layers a node depends on the nodes
    within k hops and on no other: the pairs of R are those. Values, feed-forward networks and signs are ignored:
    rollout shows what a node could depend on, not how it depends on it.

    Args:
        layers: a `Trace` that a model has filled, or weights of each layer once, first layer first. All are among the
            same nodes. The last batch axis, if there is one, is heads; the others go through.
        heads: how the heads of a layer are combined: their mean, or the largest or smallest weight of each pair.
        residual: r, at least 0 and below 1.
        queries: the nodes at the top; None for all.

    Returns:
        `Weights` with values `(*batch, pair)`, by receiver, then sender; a row sums to one. Parallel edges are one
        pair; pairs of weight zero are left out.

    Raises:
        ShapeError: `weights` is empty, a layer has different senders and receivers (cross-attention, a readout),
            other nodes or another batch than the first, or only its strongest weights.
        SettingError: `heads` or `residual` is invalid, or the trace recorded only a part (`top`, `queries`).

    Empty: a node that attends to nothing keeps itself, with weight one; without residual its row is zero, and with it
        those of the nodes that depend only on it.
    Cost: time and memory grow with the paths that lead from the chosen queries over one more layer: O(queries · edges)
        a layer at most. A (query, key) table is made only if the layers have weights for one pair in 32 or more.
    Source: Abnar & Zuidema 2020, "Quantifying attention flow in transformers", section 3; r = ½ and the mean of the
        heads are theirs. `residual` and the other two ways to combine heads are in common use.

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
    chosen_queries = _chosen(queries, size, recorded[0].values.device)
    shares = [_shares(weights, heads, residual) for weights in recorded]
    is_dense = DENSE_RATIO * max(len(weights.receivers) for weights in shares) >= size * size
    product = _through_tables(shares, chosen_queries) if is_dense else _through_lists(shares, chosen_queries)
    is_used = _anywhere(product.values != 0, 1)
    senders, receivers, values = product.senders[is_used], product.receivers[is_used], product.values[..., is_used]

    return Weights(senders, receivers, values.to(dtype), size, size)


def _recorded(layers: Trace | Sequence[Weights]) -> list[Weights]:
    """The weights of each layer, validated."""
    if isinstance(layers, Trace):
        for name, value in (("top", layers.top), ("queries", layers.queries)):
            if value is not None:
                raise SettingError(
                    f"rollout: the trace recorded only a part of the weights ({name}=…), but rollout needs all; "
                    "record with Trace(), and choose queries here."
                )
        layers = layers.weights

    recorded = list(layers)
    if not recorded:
        raise ShapeError("rollout: the trace is empty; a model records weights with model(batch, trace=trace).")

    size, batch = recorded[0].num_receivers, recorded[0].values.shape[:-2]
    for layer_number, weights in enumerate(recorded):
        layer_words = f"rollout: layer {layer_number} (of 0 … {len(recorded) - 1})"
        if weights.num_senders != weights.num_receivers:
            raise ShapeError(
                f"{layer_words} goes from {plural(weights.num_senders, 'sender')} to "
                f"{plural(weights.num_receivers, 'receiver')}, as "
                "cross-attention and readouts do; leave it out: rollout([weights for weights in trace.weights if "
                "weights.num_senders == weights.num_receivers])."
            )

        if weights.num_receivers != size:
            raise ShapeError(
                f"{layer_words} is among {plural(weights.num_receivers, 'node')}, but layer 0 among {size}; "
                "roll out only layers that "
                "follow each other."
            )

        if weights.values.shape[:-2] != batch:
            raise ShapeError(
                f"{layer_words} has batch axes {tuple(weights.values.shape[:-2])} before its heads, but layer 0 has "
                f"{tuple(batch)}."
            )
        if weights.senders.dim() != 1:
            raise ShapeError(f"{layer_words} holds only its strongest weights (top=…); record all of them.")
        if not bool((weights.values >= 0).all()):
            raise ShapeError(f"{layer_words} has weights that are negative or NaN, which cannot be rolled out.")

    return recorded


def _chosen(queries: Tensor | Sequence[int] | None, size: int, device: torch.device) -> Tensor | None:
    """The chosen queries in ascending order, without duplicates."""
    if queries is None:
        return None
    chosen = torch.as_tensor(queries, dtype=torch.int64, device=device).flatten().unique()
    outside = chosen[(chosen < 0) | (chosen >= size)]
    if outside.numel() > 0:
        raise ShapeError(f"rollout: queries has {int(outside[0])}; expected 0 … {size - 1}.")
    return chosen


def _shares(weights: Weights, heads: Heads, residual: float) -> Weights:
    """A'_l: one weight a pair, the pair of a node with itself added, sorted by receiver, then sender."""
    size, values = weights.num_receivers, weights.values
    values = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    nodes = torch.arange(size, device=values.device)
    listed = torch.cat([weights.receivers * size + weights.senders, nodes * (size + 1)])
    codes, inverse = listed.unique(return_inverse=True)
    edge_pairs, loop_pairs = inverse.split([weights.receivers.shape[0], size])
    combined = values.new_zeros(*values.shape[:-1], codes.shape[0]).index_add(-1, edge_pairs, values)
    if combined.dim() > 1:
        combined = combined.mean(-2) if heads == "mean" else combined.amax(-2) if heads == "max" else combined.amin(-2)
    combined = (1 - residual) * combined
    combined = combined.index_add(-1, loop_pairs, combined.new_full((*combined.shape[:-1], size), residual))
    senders, receivers = codes % max(size, 1), codes // max(size, 1)
    sums = combined.new_zeros(*combined.shape[:-1], size).index_add(-1, receivers, combined)
    combined = combined / torch.where(sums > 0, sums, 1)[..., receivers]

    return Weights(senders, receivers, combined, size, size)


def _anywhere(flags: Tensor, num_axes: int) -> Tensor:
    """Whether a flag is set in any member of the batch, over the last axes."""
    return flags.flatten(0, -num_axes - 1).any(0) if flags.dim() > num_axes else flags


def _through_tables(shares: list[Weights], queries: Tensor | None) -> Weights:
    """R by products of dense tables."""
    size = shares[-1].num_receivers
    rows = torch.arange(size, device=shares[-1].values.device) if queries is None else queries
    table = shares[-1].to_dense()[..., rows, :]
    for below in reversed(shares[:-1]):
        table = table @ below.to_dense()
    row_indices, senders = _anywhere(table != 0, 2).nonzero(as_tuple=True)
    return Weights(senders, rows[row_indices], table[..., row_indices, senders], size, size)


def _through_lists(shares: list[Weights], queries: Tensor | None) -> Weights:
    """R by following each pair, from the top down, over the edges of the layer below."""
    product = shares[-1]
    if queries is not None:
        is_chosen = torch.isin(product.receivers, queries)
        senders, receivers = product.senders[is_chosen], product.receivers[is_chosen]
        product = replace(product, senders=senders, receivers=receivers, values=product.values[..., is_chosen])
    for below in reversed(shares[:-1]):
        product = _product(product, below)
    return product


def _product(above: Weights, below: Weights) -> Weights:
    """Σ_k above_ik below_kj, a slice of receivers at a time."""
    size = below.num_receivers
    ends = torch.searchsorted(below.receivers, torch.arange(size + 1, device=below.receivers.device))

    num_paths = (ends[1:] - ends[:-1])[above.senders]
    parts = []
    for start, stop in _slices(above.receivers, num_paths):
        counts = num_paths[start:stop]
        pair = torch.arange(start, stop, device=counts.device).repeat_interleave(counts)
        first = ends[above.senders[start:stop]] - (counts.cumsum(0) - counts)
        edge = first.repeat_interleave(counts) + torch.arange(pair.shape[0], device=counts.device)
        path_values = above.values[..., pair] * below.values[..., edge]
        codes, inverse = (above.receivers[pair] * size + below.senders[edge]).unique(return_inverse=True)
        values = path_values.new_zeros(*path_values.shape[:-1], codes.shape[0]).index_add(-1, inverse, path_values)
        parts.append((codes % size, codes // size, values))
    if not parts:
        return above

    senders, receivers = (torch.cat(indices) for indices in list(zip(*parts))[:2])
    return Weights(senders, receivers, torch.cat([values for *_, values in parts], -1), size, size)


def _slices(receivers: Tensor, num_paths: Tensor) -> Iterator[tuple[int, int]]:
    """Slices of pairs that hold complete rows and, unless a single row has more, at most `MAX_PATHS` paths."""
    rows, counts = receivers.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0)
    path_ends = num_paths.cumsum(0)[ends - 1].tolist()
    start, paths_before = 0, 0
    for row, end in enumerate(ends.tolist()):
        if row + 1 == len(rows) or path_ends[row + 1] - paths_before > MAX_PATHS:
            yield start, end
            start, paths_before = end, path_ends[row]
