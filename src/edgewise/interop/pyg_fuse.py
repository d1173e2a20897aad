"""`fuse`: the layers of a PyTorch Geometric model swapped in place for fused ones with the same parameters."""

import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    MessagePassing,
    SAGEConv,
    SimpleConv,
    TransformerConv,
)

from edgewise.errors import SettingError
from edgewise.interop import pyg_layers
from edgewise.interop.pyg_calls import replaced

FUSED: dict[type, type] = {
    GATConv: pyg_layers.EdgewiseGATConv,
    GATv2Conv: pyg_layers.EdgewiseGATv2Conv,
    TransformerConv: pyg_layers.EdgewiseTransformerConv,
    GCNConv: pyg_layers.EdgewiseGCNConv,
    SAGEConv: pyg_layers.EdgewiseSAGEConv,
    GINConv: pyg_layers.EdgewiseGINConv,
    SimpleConv: pyg_layers.EdgewiseSimpleConv,
}
"""The fused layer for each layer of PyTorch Geometric."""
ORIGINAL = {fused: original for original, fused in FUSED.items()}
ANY_AGGREGATION = (SAGEConv, GINConv, SimpleConv)

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class FuseReport:
    """The message-passing layers of a model, by their names in `model.named_modules()`; print it for a table."""

    fused: dict[str, str]
    """The fused layers, and what they are."""
    not_fused: dict[str, str]
    """The others, and why they are not fused."""
    fallbacks: dict[str, str]
    """The fused layers whose last call ran PyTorch Geometric's own forward, and why."""

    def __str__(self) -> str:
        lines = [f"{len(self.fused)} fused, {len(self.not_fused)} not fused"]
        for name, layer in self.fused.items():
            reason = self.fallbacks.get(name)
            lines.append(f"  {name}: {layer}" + (f"; last call not fused: {reason}" if reason else ""))
        return "\n".join([*lines, *(f"  {name}: not fused: {reason}" for name, reason in self.not_fused.items())])


def fuse(model: Model) -> Model:
    """Swap the layers of a PyTorch Geometric model for fused ones that share their parameters.

    The model is changed in place and returned, as `model.to(device)` does. Parameters, `state_dict` keys, checkpoints,
    optimizers, outputs, gradients, dropout rates and `return_attention_weights` stay; only dropout draws other random
    numbers. Each fused layer is a subclass of the layer it was. `fuse_report` lists what was not swapped and why;
    `unfuse` leads back. Fusing twice changes nothing.

    The edges of an `edge_index` are grouped at the first call and remembered as long as that tensor lives, so hand over
    the same tensor in every step. In-place changes of the tensor are noticed, but not those through `.data` or NumPy.

    A call that the kernels do not cover runs PyTorch Geometric's own code: sparse adjacency matrices and `EdgeIndex`,
    explainers and hooks on messages, a `message` or `aggr_module` of your own, `torch.autocast`, `torch.func`,
    `torch.compile` and `torch.jit.trace`. So does a call on a small graph, where that is faster: up to 524,288 numbers
    in the messages of all edges where the edges are new to a layer.

    Args:
        model: any module; swapped are `GATConv`, `GATv2Conv`, `TransformerConv`, `GCNConv`, `SAGEConv`, `GINConv` and
            `SimpleConv` at any depth, also in `HeteroConv`, `to_hetero` and `torch_geometric.nn.Sequential`.

    Raises:
        SettingError: it is not a module.

    >>> from torch_geometric.nn import GAT
    >>> model = fuse(GAT(16, 8, num_layers=2, heads=2))
    >>> print(fuse_report(model))
    2 fused, 0 not fused
      convs.0: GATConv(16, 4, heads=2)
      convs.1: GATConv(8, 4, heads=2)
    """
    for layer in _layers("fuse", model).values():
        if _fused_class(layer) is None and _refusal(layer) is None:
            layer.__class__ = FUSED[type(layer)]
    report = fuse_report(model)
    if not report.fused:
        warnings.warn(f"fuse: no layer could be fused: {report}", stacklevel=2)
    return model


def unfuse(model: Model) -> Model:
    """Swap fused layers back to those of PyTorch Geometric, in place; parameters stay.

    A layer that got a class of its own after `fuse`, as parametrizations make one, stays fused, with a warning.
    """
    for name, layer in _layers("unfuse", model).items():
        if type(layer) in ORIGINAL:
            layer.__class__ = ORIGINAL[type(layer)]
            vars(layer).pop("fallback", None)
        elif (fused := _fused_class(layer)) is not None:
            warnings.warn(
                f"unfuse: {name} stays fused: it is a {type(layer).__name__}, made of {fused.__name__} after fuse; "
                "remove its parametrizations, unfuse, and register them again.",
                stacklevel=2,
            )
    return model


def fuse_report(model: nn.Module) -> FuseReport:
    """Which message-passing layers are fused, which are not and why, and which fell back at their last call."""
    fused, not_fused, fallbacks = {}, {}, {}
    for name, layer in _layers("fuse_report", model).items():
        if _fused_class(layer) is not None:
            fused[name] = repr(layer)
            if layer.fallback is not None:
                fallbacks[name] = layer.fallback
        else:
            not_fused[name] = _refusal(layer) or "fuse(model) was not called"
    return FuseReport(fused, not_fused, fallbacks)


def _layers(owner: str, model: Any) -> dict[str, Any]:
    if not isinstance(model, nn.Module):
        raise SettingError(f"{owner}: expected a torch.nn.Module, not {type(model).__name__}.")
    return {name or "model": layer for name, layer in model.named_modules() if isinstance(layer, MessagePassing)}


def _fused_class(layer: Any) -> type | None:
    """The fused class that a layer is of; parametrizations make a subclass of it."""
    return next((base for base in type(layer).__mro__ if base in ORIGINAL), None)


def _refusal(layer: Any) -> str | None:
    """Why this layer of PyTorch Geometric cannot be fused; None where it can."""
    layer_type = type(layer)
    if layer_type not in FUSED:
        parent = next((fused.__name__ for fused in FUSED if isinstance(layer, fused)), None)
        if parent is not None:
            return f"{layer_type.__name__} is a subclass of {parent} and may compute something else"
        return f"there is no fused {layer_type.__name__}"
    if "forward" in vars(layer):
        return "its forward was replaced"
    aggregations = ("add", "sum", "mean", "max", "min") if layer_type in ANY_AGGREGATION else ("add", "sum")
    if not isinstance(layer.aggr, str) or layer.aggr not in aggregations:
        return f"aggr={layer.aggr!r}; fused are {', '.join(aggregations)}"
    node_dim = 0 if layer_type in (GATConv, GATv2Conv, TransformerConv) else -2
    if layer.node_dim != node_dim:
        return f"node_dim={layer.node_dim}; fused is {node_dim}"
    return replaced(layer)
