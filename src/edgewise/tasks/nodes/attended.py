"""Where a model of the nodes of a graph attends, seen from the nodes that are asked about."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from edgewise.explain.heads import to_layer
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Layer
from edgewise.layers.convolution import spread_evenly
from edgewise.models.graph_settings import NodeSettings
from edgewise.records import NodeBatch
from edgewise.tasks.nodes.subgraph import Near
from edgewise.trace import Trace, Weights

RESIDUAL = ("attention", "hgt")
"""The models whose blocks have a residual connection; the layers of papers hear of a node itself by its loop alone."""


def attended(
    settings: NodeSettings, traces: Sequence[Trace], near: Near, num_shown: int
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...], list[str]]:
    """The layers of the first member that come to the nodes that are asked about; attention as an attribution, of
    several nodes the mean over them; and what to say of it."""
    model, recorded = settings.model, traces[0].weights
    if model == "hops":
        return _of_hops(traces, near, num_shown)
    if not recorded:
        return (), (), [f"The model {model} does not attend: every neighbor counts as the number of edges says."]
    layers, notes = [], []
    for place, weights in enumerate(recorded, 1):
        comes = np.append(near.hops <= len(recorded) - place, np.zeros(near.num_virtual, dtype=bool))
        layers.append(to_layer(_among(weights, comes, num_shown), f"layer {place}"))
    if any(not bool((weights.values >= 0).all()) for trace in traces for weights in trace.weights):
        return tuple(layers), (), ["Attention is not followed through the layers: some weights are negative."]
    residual, asked = (0.5 if model in RESIDUAL else 0.0), list(range(near.num_asked))
    followed = [rollout(trace, residual=residual, queries=asked) for trace in traces]
    what = "the one that is explained" if near.num_asked == 1 else "those that are asked about, on average,"
    about = f"Attention followed through all layers: how much of each node {what} could have heard."
    total = len(near.nodes) + near.num_virtual
    values = np.mean([np.bincount(each.senders, each.values, minlength=total) for each in followed], axis=0) / len(
        asked
    )
    if near.num_virtual:
        heard = f"{values[len(near.nodes) :].sum():.0%}"
        notes.append(
            f"{heard} of the rollout is of virtual nodes themselves, which stand for no node of the graph. Through "
            "them every node is heard of; those far away along other edges are not shown."
        )
    return tuple(layers), (Attribution("rollout", values[:num_shown], False, about),), notes


def _of_hops(
    traces: Sequence[Trace], near: Near, num_shown: int
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...], list[str]]:
    """Of attention over distances: there are no layers from node to node."""
    found = [trace.weights[0].values.reshape(len(near.nodes), -1)[: near.num_asked] for trace in traces]
    distances = torch.stack(found)
    values = np.mean([_spread(near.batch, each) for each in distances], axis=0)
    about = "How much of each node's own numbers the answer sums: attention over distances, spread over the edges."
    listed = ", ".join(f"{weight:.2f}" for weight in distances.mean((0, 1)).tolist())
    said = f"Attention over distances of 0, 1, 2, … hops: {listed}."
    is_signed = bool((values < 0).any())
    return (), (Attribution("attention", values[:num_shown], is_signed, about),), [said]


def _spread(batch: NodeBatch, weights: Tensor) -> np.ndarray:
    """Σ_k α_ik S^k_ij of every node j, mean over the nodes i that are asked about, S = D^−½ Â D^−½: what `HopAttention`
    multiplies the numbers of each node by."""
    # S^k is a map of all nodes, some rows of which are wanted: the gradients of the first outputs by each input.
    with torch.enable_grad():
        start = torch.zeros(batch.edges.num_receivers, 1, requires_grad=True)
        versions = [start]
        for _ in range(weights.shape[1] - 1):
            versions.append(spread_evenly(versions[-1], batch.edges))
        summed = (torch.cat([version[: len(weights)] for version in versions], 1) * weights).sum(1).mean()
        (found,) = torch.autograd.grad(summed, start)
    return found[:, 0].double().numpy()


def _among(weights: Weights, comes: np.ndarray, num_shown: int) -> Weights:
    """The weights of the receivers that come to the nodes asked about, and of senders that are shown."""
    kept = torch.from_numpy(comes)[weights.receivers] & (weights.senders < num_shown) & (weights.receivers < num_shown)
    senders, receivers = weights.senders[kept], weights.receivers[kept]
    return Weights(senders, receivers, weights.values[..., kept], num_shown, num_shown)
