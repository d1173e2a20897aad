"""Graphs to and from PyTorch Geometric's `Data`."""

import warnings
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.interop.attributes import require_one_set, weighted
from edgewise.neighborhood import Edges
from edgewise.plural import plural
from edgewise.trace import WeightedGraph

try:
    from torch_geometric.data import Data
except ModuleNotFoundError as error:
    raise MissingExtraError("torch_geometric", "pyg") from error

MASKS = ("train_mask", "val_mask", "test_mask")


def to_pyg(graph: WeightedGraph | Edges) -> "Data":
    """A graph as `Data`: edge_index (2, edge) from senders to receivers, edge_attr (edge, head), x,
    num_nodes and, as a list, node_names.

    What the graph does not have is left out. Tensors are shared, not copied.

    Raises:
        ShapeError: senders and receivers are two sets of nodes.

    >>> from edgewise import Edges
    >>> to_pyg(Edges([0, 1], [1, 2], 3, 3))
    Data(edge_index=[2, 2], num_nodes=3)
    """
    graph = weighted(graph)
    require_one_set("to_pyg", graph)
    parts: dict[str, Any] = {"edge_index": torch.stack([graph.edges.senders, graph.edges.receivers])}
    if graph.edge_features.shape[1]:
        parts["edge_attr"] = graph.edge_features
    if graph.node_features is not None:
        parts["x"] = graph.node_features
    if graph.names is not None:
        parts["node_names"] = list(graph.names)
    return Data(**parts, num_nodes=graph.edges.num_senders)


def from_pyg(data: "Data", *, edge_attribute: str | None = None) -> WeightedGraph:
    """A `Data` as edges with features: edge_attr or edge_weight, x, and node_names.

    Edges and nodes keep their order. Whole numbers become fractions of torch's default dtype; other attributes are not
    looked at.

    Args:
        data: one graph, or a batch of them, of one kind of nodes and edges.
        edge_attribute: what holds the edge features; by default edge_attr, or edge_weight where there is none.

    Raises:
        DataError: it is no such `Data`, has no edge_index, does not say how many nodes there are, or has features that
            do not fit.
        SettingError: it has edge_attr and edge_weight, and nobody says which is meant.
    """
    if not isinstance(data, Data):
        raise DataError(f"from_pyg: expected Data, with one kind of nodes and edges, not {type(data).__name__}.")
    index = data.edge_index if "edge_index" in data else None
    if index is None:
        raise DataError(f"from_pyg: the data has no edge_index, but {', '.join(data.keys()) or 'nothing'}.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            num_nodes = data.num_nodes
        except UserWarning as warning:
            raise DataError(
                "from_pyg: the data does not say how many nodes there are, and those without edges would be lost; set "
                "data.num_nodes."
            ) from warning
    edges = Edges.from_edge_index(index, num_nodes)
    graph = WeightedGraph.unweighted(edges, _fractions("x", data.x, num_nodes) if "x" in data else None)
    held = [name for name in ("edge_attr", "edge_weight") if name in data]
    if edge_attribute is None and len(held) > 1:
        raise SettingError("from_pyg: the data has edge_attr and edge_weight; say which: edge_attribute='edge_attr'.")
    if edge_attribute is not None and edge_attribute not in data:
        raise DataError(f"from_pyg: the data has no {edge_attribute!r}, but {', '.join(data.keys())}.")
    for name in [edge_attribute] if edge_attribute is not None else held:
        graph = replace(graph, edge_features=_fractions(name, data[name], edges.num_edges))
    return replace(graph, names=_names(data.node_names, num_nodes)) if "node_names" in data else graph


def fit_arguments(data: "Data", *, split: int | None = None, edge_attribute: str | None = None) -> dict[str, Any]:
    """What `NodeClassifier.fit` and `NodeRegressor.fit` take, from `Data` with x, y, edge_index and, perhaps, masks.

        classifier.fit(**fit_arguments(data)).score(data.x, data.y, data.edge_index, nodes=data.test_mask)

    Without masks every node with a label trains. With them, labels outside train_mask and val_mask become None (numbers
    become NaN), and the nodes of val_mask choose the epoch; where one of the two is missing, nodes in no other mask
    train, or a part of the training nodes chooses.

    Args:
        data: one graph.
        split: which of several splits, where masks are (node, split).
        edge_attribute: as in `from_pyg`.

    Raises:
        DataError: x, y or edge_index is missing or does not fit, masks overlap, or a mask holds several splits.
    """
    graph = from_pyg(data, edge_attribute=edge_attribute)
    if graph.node_features is None:
        raise DataError("fit_arguments: the data has no x, the features of its nodes.")
    if "y" not in data:
        raise DataError("fit_arguments: the data has no y, the labels or numbers to learn.")
    num_nodes, y = graph.edges.num_senders, data.y
    y = y if y.dtype.is_floating_point else y.to(torch.int64)
    y = y.squeeze(-1) if y.dim() == 2 and y.shape[-1] == 1 else y
    if y.dim() == 0 or y.shape[0] != num_nodes:
        raise DataError(
            f"fit_arguments: y is {tuple(data.y.shape)}, but there are {num_nodes} nodes; one graph a Data."
        )
    masks = {name: _mask(name, data[name], num_nodes, split) for name in MASKS if name in data}
    if masks and bool((torch.stack(list(masks.values())).sum(0) > 1).any()):
        raise DataError("fit_arguments: a node is in two masks; the parts must be apart.")
    validation = masks.get("val_mask")
    others = [masks[name] for name in ("val_mask", "test_mask") if name in masks]
    labels: np.ndarray | None = None
    training = masks.get("train_mask", ~torch.stack(others).any(0) if others else None)
    if training is not None:
        seen = training if validation is None else training | validation
        if y.dtype.is_floating_point:
            y = torch.where(seen.reshape(-1, *[1] * (y.dim() - 1)), y, torch.nan)
        else:  # -1 may be a class
            labels = y.cpu().numpy().astype(object)
            labels[~seen.cpu().numpy()] = None
    return {
        "X": graph.node_features.detach().cpu(),
        "y": y.cpu().numpy() if labels is None else labels,
        "edges": graph.edges,
        "edge_features": graph.edge_features.detach().cpu().numpy() if graph.edge_features.shape[1] else None,
        "validation": None if validation is None else validation.cpu().numpy(),
    }


def _fractions(name: str, held: Any, num_rows: int) -> Tensor:
    """`(row, feature)`: a column where there is one number a row."""
    if not isinstance(held, Tensor) or held.layout != torch.strided or held.dim() not in (1, 2):
        shape = f"{tuple(held.shape)} {held.layout}" if isinstance(held, Tensor) else type(held).__name__
        raise DataError(f"from_pyg: {name} is {shape}; expected a dense tensor (row) or (row, feature).")
    if held.shape[0] != num_rows:
        raise DataError(f"from_pyg: {name} has {plural(held.shape[0], 'row')}, expected {num_rows}.")
    held = held[:, None] if held.dim() == 1 else held
    return held if held.dtype.is_floating_point else held.to(torch.get_default_dtype())


def _names(held: Any, num_nodes: int) -> tuple[Hashable, ...]:
    """A batch, for one, holds a list of lists."""
    if isinstance(held, str) or len(held) != num_nodes or not all(isinstance(name, Hashable) for name in held):
        raise DataError(f"from_pyg: node_names is no list of {num_nodes} names; mend it, or del data.node_names.")
    return tuple(held)


def _mask(name: str, mask: Tensor, num_nodes: int, split: int | None) -> Tensor:
    if mask.dim() == 2:
        if split is None or not 0 <= split < mask.shape[1]:
            raise DataError(f"fit_arguments: {name} holds {plural(mask.shape[1], 'split')}; say which: split=0 …")
        mask = mask[:, split]
    if mask.shape != (num_nodes,) or mask.dtype != torch.bool:
        raise DataError(f"fit_arguments: {name} is {mask.dtype} {tuple(mask.shape)}, expected bool ({num_nodes},).")
    return mask
