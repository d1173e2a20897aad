"""The edges of PyTorch Geometric's layers: an `edge_index` and its loops as `Edges`, made once for each tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.utils import add_self_loops, remove_self_loops

from edgewise.errors import ShapeError
from edgewise.neighborhood import Edges

Rows = Tensor | None


class FallbackError(Exception):
    """The kernels do not cover this call; the message is the reason."""


def ends(layer: Any) -> tuple[int, int]:
    """The rows of edge_index that hold the senders and the receivers."""
    return (0, 1) if layer.flow == "source_to_target" else (1, 0)


def edge_features_of(layer: Any, edge_index: Tensor, edge_attr: Tensor, edges: Edges, num_loops: int | None) -> Tensor:
    """Edge features (edge, feature), with those of the loops that the layer adds."""
    if len(edge_attr) != edge_index.shape[1]:
        raise FallbackError(f"edge_attr has {len(edge_attr)} rows for {edge_index.shape[1]} edges")
    if num_loops is not None:
        index, edge_attr = remove_self_loops(edge_index, edge_attr)
        _, edge_attr = add_self_loops(index, edge_attr, fill_value=layer.fill_value, num_nodes=num_loops)
    return edge_attr.view(-1, 1) if edge_attr.dim() == 1 else edge_attr


def attention_edges(layer: Any, edge_index: Tensor, pair: tuple[Tensor, Rows], size: Any) -> tuple[Edges, int | None]:
    """The edges, and how many loops the layer adds; None where it adds none."""
    num_loops = None
    if layer.add_self_loops:
        counts = [len(rows) for rows in pair if rows is not None]
        num_loops = min(counts) if size is None else min(size)
    return pair_edges(layer, edge_index, pair, size, 0, num_loops), num_loops


def pair_edges(
    layer: Any, edge_index: Tensor, pair: tuple[Tensor, Rows], size: Any, axis: int = -2, num_loops: int | None = None
) -> Edges:
    """The edges between two sets of nodes; one without features is as large as the call names, or as the other."""
    named_senders, named_receivers = (None, None) if size is None else size
    num_senders = pair[0].shape[axis]
    if pair[1] is not None:
        num_receivers = pair[1].shape[axis]
    else:
        num_receivers = num_senders if named_receivers is None else named_receivers
    if named_senders not in (None, num_senders) or named_receivers not in (None, num_receivers):
        raise FallbackError(f"size is {size} for {num_senders} and {num_receivers} nodes")
    if layer.flow != "source_to_target" and (pair[1] is None or num_senders != num_receivers):
        raise FallbackError("two sets of nodes, and the flow is target_to_source")
    return edges_of(layer, edge_index, num_senders, num_receivers, num_loops)


def edges_of(
    layer: Any,
    edge_index: Tensor,
    num_senders: int,
    num_receivers: int,
    num_loops: int | None = None,
    keeps_loops: bool = False,
) -> Edges:
    """The edges of an edge_index; with `num_loops`, a loop for each of the first nodes comes after them."""

    def make() -> Edges:
        index = edge_index
        if num_loops is not None:
            without_loops = edge_index if keeps_loops else remove_self_loops(edge_index)[0]
            index = add_self_loops(without_loops, num_nodes=num_loops)[0]
        j, i = ends(layer)
        return checked(index[j], index[i], num_senders, num_receivers)

    return cached(edge_index, (layer.flow, num_senders, num_receivers, num_loops, keeps_loops), make)


def checked(senders: Tensor, receivers: Tensor, num_senders: int, num_receivers: int) -> Edges:
    try:
        edges = Edges(senders, receivers, num_senders, num_receivers)
        edges.plan  # noqa: B018  made here and now, where no inference mode is on
    except ShapeError as error:  # theirs says it in its own words
        raise FallbackError(str(error)) from error
    return edges


_made: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""For an edge_index, what it looked like and what was made of it. It goes when the tensor goes."""


def cached(edge_index: Tensor, key: tuple, make: Callable[[], Any]) -> Any:
    """What `make` returns, once for each `edge_index` and key, until somebody changes the tensor in place."""
    if edge_index.is_inference():  # such a tensor does not count its changes
        return make()
    entries = _made_of(edge_index)
    if key not in entries:
        with torch.inference_mode(False), torch.no_grad():  # or a later training step could not use it
            entries[key] = make()
    return entries[key]


def is_met_again(layer: nn.Module, edge_index: Tensor) -> bool:
    """Whether a layer had the same edges in an earlier step; they are noted.

    A step is over where a parameter has changed, or nothing is learned. Within one the answer stays, as a checkpoint
    expects that what is computed once more for the backward pass stores the same tensors.
    """
    if edge_index.is_inference():
        return False
    steps, key = _made_of(edge_index), ("met", id(layer))
    is_evaluated = not layer.training and not torch.is_grad_enabled()
    step = None if is_evaluated else sum(one._version for one in layer.parameters() if not one.is_inference())
    if key not in steps:
        steps[key] = step
        return False
    if steps[key] is not True and (is_evaluated or steps[key] != step):
        steps[key] = True
    return steps[key] is True


def _made_of(edge_index: Tensor) -> dict[tuple, Any]:
    """What was made of a tensor since its last change."""
    state = edge_index._version, edge_index.data_ptr(), edge_index.shape, edge_index.stride(), edge_index.device
    entry = _made.get(edge_index)
    if entry is None or entry[0] != state:
        entry = _made[edge_index] = (state, {})
    return entry[1]
