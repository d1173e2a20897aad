"""What is right, in float64, where it is cheap to know: for a few senders, all that reaches their gradients.

The gradient of a sender's key depends on every receiver that it sends to, and on all edges of these receivers. With
these edges alone, the outputs and gradients of those receivers, the gradients of those senders and of those edges are
what they are in the whole graph, whatever its size. Gradients that sum over the whole graph are not looked at.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from edgewise import Edges
from gpu_attention.case import Results
from gpu_attention.graphs import Graph

SENDERS = 16
"""That are looked at."""
MOST_EDGES = 2_000_000
"""Of their receivers; fewer senders are looked at where it were more."""

Attention = Callable[[dict[str, Tensor], Edges, str], Tensor]
"""The case's attention, of leaves and edges, by the backend that is named."""


def difference_of(graph: Graph, leaves: dict[str, Tensor], cotangent: Tensor, attention: Attention) -> Callable:
    """How far results lie from what is right, as a part of the largest value there: the worst of all that is known."""
    known: list[tuple[str, Tensor, Tensor]] = []

    def difference(results: Results) -> float:
        if not known:
            known.extend(_known(graph, leaves, cotangent, attention))
        by_name = dict(zip(["output", *_differentiated(leaves)], results))
        worst = 0.0
        for name, places, right in known:
            if name in by_name:
                off = (by_name[name].detach()[places].double() - right).abs().max() / right.abs().max().clamp(min=1e-30)
                worst = max(worst, off.nan_to_num(torch.inf).item())
        return worst

    return difference


def _known(
    graph: Graph, leaves: dict[str, Tensor], cotangent: Tensor, attention: Attention
) -> list[tuple[str, Tensor, Tensor]]:
    """Of each output and gradient: its name, the places that are known, and what is right there."""
    for count in (SENDERS, SENDERS // 4, 1):
        # In float64: in float32 the number of the last of 10⁸ edges would be rounded to one that there is not.
        spread = torch.linspace(0, graph.num_edges - 1, count, device=graph.senders.device, dtype=torch.float64)
        chosen = graph.senders[spread.long()]
        chosen = chosen.unique()
        receivers = graph.receivers[_marked(chosen, graph.num_nodes)[graph.senders]].unique()
        edge = _marked(receivers, graph.num_nodes)[graph.receivers].nonzero().squeeze(1)
        if len(edge) <= MOST_EDGES:
            break
    senders = graph.senders[edge].unique()
    small = Edges(
        torch.searchsorted(senders, graph.senders[edge]), torch.searchsorted(receivers, graph.receivers[edge]),
        len(senders), len(receivers),
    )  # fmt: skip
    places = {"query": receivers, "bias": edge, "features": edge, "vector": slice(None)}
    parts = {
        name: leaf.detach()[places.get(name, senders)].double().requires_grad_(leaf.requires_grad)
        for name, leaf in leaves.items()
    }
    out, wanted = attention(parts, small, "gather"), _differentiated(parts)
    grads = torch.autograd.grad(out, list(wanted.values()), cotangent[receivers].double())
    of_senders = torch.searchsorted(senders, chosen)
    known = [("output", receivers, out.detach())]
    for name, grad in zip(wanted, grads):
        if name in ("query", "bias", "features"):
            known.append((name, places[name], grad))
        elif name != "vector":
            known.append((name, chosen, grad[of_senders]))
    return known


def _differentiated(leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}


def _marked(nodes: Tensor, num_nodes: int) -> Tensor:
    """Which nodes are among these."""
    found = torch.zeros(num_nodes, dtype=torch.bool, device=nodes.device)
    found[nodes] = True
    return found
