"""Statistics of attention heads: entropy, distance, and the strongest weights.

All batch axes of `Weights` are heads here: record one text, or one graph.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import ShapeError, plural
from edgewise.explain.explanation import Layer
from edgewise.graph import Trace, Weights
from edgewise.neighborhood.checks import count


def averaged(layers: Trace | Sequence[Weights]) -> Weights:
    """The mean over the heads and layers.

        ᾱ_ij = 1/L Σ_l 1/H_l Σ_h α_lhij

    Args:
        layers: a `Trace` that a model has filled, or weights of layers among the same nodes; with `top`, weights
            that were not recorded count as zero.

    Returns:
        `Weights` with values `(pair,)`, by receiver, then sender; parallel edges are one pair.

    Raises:
        ShapeError: `weights` is empty, or the layers differ in their nodes.

    >>> one = Weights(torch.tensor([0, 1]), torch.tensor([1, 1]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]), 2, 2)
    >>> averaged([one, one]).values.tolist()
    [0.75, 0.25]
    """
    recorded = layers.weights if isinstance(layers, Trace) else list(layers)
    if not recorded:
        raise ShapeError("averaged: the trace is empty; a model records weights with model(batch, trace=trace).")

    sizes = recorded[0].num_receivers, recorded[0].num_senders
    cells, head_values = [], []
    for layer_number, weights in enumerate(recorded):
        if (weights.num_receivers, weights.num_senders) != sizes:
            raise ShapeError(
                f"averaged: layer {layer_number} goes from {plural(weights.num_senders, 'sender')} to "
                f"{plural(weights.num_receivers, 'receiver')}, but layer 0 from {sizes[1]} to {sizes[0]}; leave it out."
            )
        heads = _heads(weights)
        senders = weights.senders.expand(weights.values.shape).reshape(heads.shape)
        cells.append((weights.receivers * sizes[1] + senders).flatten())
        head_values.append((heads / (len(heads) * len(recorded))).flatten())

    codes, pair = torch.cat(cells).unique(return_inverse=True)
    values = torch.cat(head_values)
    values = values.new_zeros(len(codes)).index_add(0, pair, values)
    return Weights(codes % max(sizes[1], 1), codes // max(sizes[1], 1), values, sizes[1], sizes[0])


def entropy(weights: Weights) -> Float[Tensor, " head"]:
    """How evenly each head spreads its attention, in nats: 0 if every query attends to a single neighbor.

        H_h = mean_i −Σ_j p_hij ln p_hij        p_hij = α_hij / Σ_j α_hij

    The mean is over the queries that attend to something.

    Raises:
        ShapeError: only the strongest weights were recorded, or one is negative, so that shares are undefined.

    Empty: 0 for a head in which no query attends to anything.

    >>> even = Weights(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]), 2, 1)
    >>> [round(value, 4) for value in entropy(even).tolist()]
    [0.6931, 0.0]
    """
    entropies, attends = _entropies("entropy", weights)
    return _mean(entropies, attends)


def effective_neighbors(weights: Weights) -> Float[Tensor, " head"]:
    """The effective number of neighbors of each head: the mean over queries of e^H, with H the entropy of each.

    Raises, Empty: as in `entropy`.

    >>> even = Weights(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]), 2, 1)
    >>> effective_neighbors(even).tolist()
    [2.0, 1.0]
    """
    entropies, attends = _entropies("effective_neighbors", weights)
    return _mean(entropies.exp(), attends)


def mean_distance(weights: Weights, lengths: Float[Tensor, " edge"] | None = None) -> Float[Tensor, " head"]:
    """The mean distance over which each head attends.

        d_h = mean_i Σ_j p_hij d_ij        d_ij = |i − j|, in tokens

    Args:
        weights: of one layer.
        lengths: d of each edge if the nodes are not a sequence: in a graph the hops, 0 for a loop and 1 for an edge.

    Raises:
        ShapeError: as in `entropy`; or there is not one length per edge.

    >>> before = Weights(torch.tensor([0, 0]), torch.tensor([1, 3]), torch.ones(1, 2), 4, 4)
    >>> mean_distance(before).tolist()
    [2.0]
    """
    shares, attends = _shares("mean_distance", weights)
    if lengths is None:
        lengths = (weights.receivers - weights.senders).abs()
    if lengths.shape != weights.receivers.shape:
        raise ShapeError(
            f"mean_distance: lengths is {tuple(lengths.shape)}, expected ({len(weights.receivers)},): one per edge."
        )

    return _mean(_summed(shares * lengths.to(shares.dtype), weights), attends)


def strongest(weights: Weights, top: int) -> Weights:
    """The strongest weights of each query and head, as `Trace(top=…)` records them, out of all.

    Args:
        weights: all of a layer, `senders (edge,)`.
        top: how many.

    Returns:
        `Weights` with senders and values `(*batch, edge)`, by receiver, strongest first.

    Raises:
        SettingError: `top` is below 1.
        ShapeError: only the strongest were recorded to begin with.

    >>> all_three = Weights(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), torch.tensor([[0.2, 0.5, 0.3]]), 3, 1)
    >>> strongest(all_three, 2).senders.tolist()
    [[1, 2]]
    """
    top = count("strongest", "top", top)
    _require_all("strongest", weights)
    by_value = weights.values.argsort(dim=-1, descending=True, stable=True)
    order = by_value.gather(-1, weights.receivers[by_value].argsort(dim=-1, stable=True))
    # Rows are equally long in every head, so the strongest weights are at the same positions of the sorted list.
    receivers = weights.receivers.sort(stable=True).values
    first = torch.searchsorted(receivers, receivers)
    positions = (torch.arange(len(receivers), device=receivers.device) - first < top).nonzero().squeeze(-1)
    order = order[..., positions]
    values = weights.values.gather(-1, order)

    return Weights(weights.senders[order], receivers[positions], values, weights.num_senders, weights.num_receivers)


def to_layer(weights: Weights, name: str, *, is_readout: bool = False, top: int | None = None) -> Layer:
    """Weights as a `Layer` of an explanation: in numpy, with a row per head.

    Args:
        weights: of one layer, all or the strongest. If heads keep different senders, an edge is listed once,
            with 0 in the other heads.
        name: the name of the layer.
        is_readout: whether the input as a whole attends to its units.
        top: how many of the strongest of each query and head are shown; None for all. Weights that were recorded
            with `top` stay as they are; pass the same `top` here.
    """
    if top is not None and weights.senders.dim() == 1:
        weights = strongest(weights, top)
    graph = weights.to_graph()
    senders, receivers = graph.edges.senders.cpu().numpy(), graph.edges.receivers.cpu().numpy()
    values = graph.to_weights().values.float().contiguous().cpu().numpy()
    return Layer(name, senders, receivers, values, is_readout, top)


def strongest_of_layer(layer: Layer, top: int) -> Layer:
    """A layer with the strongest weights of each unit and head; a readout, and one that lists no more, stay as they
    are."""
    if layer.is_readout or layer.top is not None:
        return layer
    senders, receivers, values = map(torch.from_numpy, (layer.senders, layer.receivers, layer.values))
    count = 1 + max((int(ends.max()) for ends in (senders, receivers) if len(ends)), default=-1)
    return to_layer(Weights(senders, receivers, values, count, count), layer.name, top=top)


def _heads(weights: Weights) -> Float[Tensor, " head edge"]:
    return weights.values.reshape(-1, weights.values.shape[-1])


def _require_all(name: str, weights: Weights) -> None:
    if weights.senders.dim() > 1:
        raise ShapeError(f"{name}: only the strongest weights were recorded (top=…); record all of them.")


def _summed(values: Float[Tensor, " head edge"], weights: Weights) -> Float[Tensor, " head query"]:
    return values.new_zeros(len(values), weights.num_receivers).index_add(-1, weights.receivers, values)


def _shares(name: str, weights: Weights) -> tuple[Tensor, Tensor]:
    """p of every edge, and whether a query attends to anything: `(head, edge)` and `(head, query)`."""
    _require_all(name, weights)
    values = _heads(weights).float() if weights.values.dtype in (torch.float16, torch.bfloat16) else _heads(weights)
    if not bool((values >= 0).all()):
        raise ShapeError(f"{name}: some weights are negative or NaN, so that they are not shares of a total.")
    sums = _summed(values, weights)
    return values / torch.where(sums > 0, sums, 1)[:, weights.receivers], sums > 0


def _entropies(name: str, weights: Weights) -> tuple[Tensor, Tensor]:
    """H of every query, and whether it attends to anything."""
    shares, attends = _shares(name, weights)
    return _summed(torch.special.entr(shares), weights), attends


def _mean(values: Float[Tensor, " head query"], attends: Tensor) -> Float[Tensor, " head"]:
    return torch.where(attends, values, 0).sum(-1) / attends.sum(-1).clamp(min=1)
