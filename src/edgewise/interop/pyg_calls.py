"""Which calls of PyTorch Geometric's layers the kernels cover: nothing that a user put into a layer is skipped."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation

from edgewise.backends.call import is_autocast
from edgewise.interop.pyg_edges import FallbackError
from edgewise.layers.linear import is_unchanged

HOOKS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
METHODS = {"message", "aggregate", "message_and_aggregate", "update", "edge_update"}
"""What the original calls, the kernels do not, and PyTorch Geometric never sets on a layer itself."""
AGGREGATIONS: dict[str, type[torch.nn.Module]] = {
    "add": SumAggregation,
    "sum": SumAggregation,
    "mean": MeanAggregation,
    "max": MaxAggregation,
    "min": MinAggregation,
}


def replaced(layer: Any) -> str | None:
    """What a user put in the place of a part of a layer that the kernels do not call; None where nothing is."""
    if names := METHODS & vars(layer).keys():
        return f"its {min(names)} was replaced"
    if not is_unchanged(layer.aggr_module, AGGREGATIONS[layer.aggr]):
        return f"its aggr_module was replaced, or has hooks: {layer.aggr_module}"
    return None


def require_plain(layer: Any, x: Any, edge_index: Any) -> None:
    """Raise a FallbackError where the kernels do not cover this call of a layer."""
    if reason := replaced(layer):
        raise FallbackError(reason)
    if layer.explain:
        raise FallbackError("an explainer masks its messages")
    if any(getattr(layer, f"_{name}_forward{when}_hooks") for name in HOOKS for when in ("", "_pre")):
        raise FallbackError("it has hooks on its messages")
    if type(edge_index) is not Tensor or edge_index.layout != torch.strided:
        layout = edge_index.layout if type(edge_index) is Tensor else type(edge_index).__name__
        raise FallbackError(f"edge_index is {layout}, not a plain tensor")
    if edge_index.is_meta:
        raise FallbackError("edge_index is on the meta device, and holds no numbers to check")
    if edge_index.dtype != torch.int64 or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise FallbackError(f"edge_index is {edge_index.dtype} {tuple(edge_index.shape)}, not int64 (2, edge)")
    for rows in x if isinstance(x, tuple | list) else (x,):
        if rows is not None and (type(rows) is not Tensor or rows.layout != torch.strided):
            raise FallbackError("the node features are not a plain dense tensor")
        if rows is not None and (not rows.is_floating_point() or rows.dim() < 2 or rows.device != edge_index.device):
            raise FallbackError(f"the node features are {rows.dtype} {tuple(rows.shape)} on {rows.device}")
    if is_autocast(edge_index.device):
        raise FallbackError("torch.autocast is on, and PyTorch Geometric has rules of its own for the dtypes")
