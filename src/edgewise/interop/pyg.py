"""Graphs to and from PyTorch Geometric's `Data`, `HeteroData` and `Batch`; `fuse` for its models."""

import warnings
from collections.abc import Hashable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, MissingExtraError, SettingError, plural
from edgewise.graph import Graph
from edgewise.graph.features import by_type
from edgewise.interop.attributes import convertible, names_of, require_one_set
from edgewise.neighborhood import Edges, Types

try:
    from torch_geometric.data import Batch, Data, HeteroData
except ModuleNotFoundError as error:
    raise MissingExtraError("torch_geometric", "pyg") from error

from edgewise.interop.pyg_batches import graphs_of, graphs_of_types
from edgewise.interop.pyg_fuse import FuseReport as FuseReport
from edgewise.interop.pyg_fuse import fuse as fuse
from edgewise.interop.pyg_fuse import fuse_report as fuse_report
from edgewise.interop.pyg_fuse import unfuse as unfuse
from edgewise.interop.pyg_loader import LinkNeighborLoader as LinkNeighborLoader
from edgewise.interop.pyg_loader import NeighborLoader as NeighborLoader

MASKS = ("train_mask", "val_mask", "test_mask")


READ = ("x", "edge_index", "edge_attr", "edge_weight", "pos", "u", "node_type", "edge_type", "batch", "ptr")
"""Tensors that `from_pyg` reads."""
NODE_ORDER, EDGE_ORDER = "node_order", "edge_order"
"""Where the rows of a type stand in their graph, where it does not stand type after type."""
BESIDE = ("y", "edge_label", "edge_label_index", "num_nodes", "n_id", "e_id", "input_id", "idx", NODE_ORDER, EDGE_ORDER)
"""Tensors that are not features: targets, and what loaders and data sets note."""
Form = tuple[bool, bool, bool, tuple[bool, ...]]
"""Whether the order of nodes, the order of edges and names are stored, and which types have coordinates: one for a
whole batch."""


def to_pyg(graph: Graph | Edges) -> "Data | HeteroData":
    """A graph as `Data`; as `HeteroData` where node types have names; a batch as the `Batch` of these.

    edge_index (2, edge) goes from senders to receivers; edge_attr, x, pos, u (graph, feature) and, as a list,
    node_names are there where the graph has them, node_type and edge_type where types are numbers, edge_type_names
    where only edges have names. Tensors of `Data` are shared, not copied. Position encodings are left out, with a
    warning. The edges of a `Batch` stand graph after graph, whatever their order was.

    Raises:
        ShapeError: senders and receivers are two sets of nodes, or there are virtual nodes.
        DataError: types of nodes have names, but one of these or of the relations is not text, or features differ
            between types without names.

    >>> from edgewise import Edges
    >>> to_pyg(Edges([0, 1], [1, 2], 3, 3))
    Data(edge_index=[2, 2], num_nodes=3)
    """
    graph = convertible("to_pyg", graph)
    require_one_set("to_pyg", graph)
    if graph.node_types is not None and graph.node_types.names is not None:
        _require_text(graph.node_types, graph.edge_types)
        write = partial(_to_hetero, form=_form(graph))
    else:
        write = partial(_to_data, has_names=graph.names is not None)
    return write(graph) if graph.offsets is None else Batch.from_data_list([write(one) for one in graph.unbatch()])


def from_pyg(data: "Data | HeteroData", *, edge_attribute: str | None = None) -> Graph:
    """A `Data`, a `HeteroData` or a `Batch` of either as a graph: x, edge_index, edge_attr or edge_weight, pos, u,
    node_type, edge_type and node_names. A warning names other tensors of numbers, but not y.

    Edges and nodes keep their order, and tensors their dtype, but for pos of whole numbers where some types lack it,
    which have NaN; one number a row becomes a column. The nodes of a
    `HeteroData` stand type after type, in a batch graph after graph and so within each; edges likewise. Types that are
    numbers, node_type and edge_type, are counted up to the largest.

    A `Batch` has only the attributes and types of its first graph: PyTorch Geometric drops what others have besides.

    Args:
        data: one graph, or a batch of them.
        edge_attribute: what holds the edge features; by default edge_attr, or edge_weight where there is none.

    Raises:
        DataError: it is another object, lacks edge_index, does not give the number of nodes, has features that do
            not fit, or is a batch of which only some graphs have a type.
        SettingError: it has edge_attr and edge_weight, and it is not given which to read.
    """
    if isinstance(data, Data | HeteroData) and edge_attribute is None:
        _warn_of_unread(data)
    if isinstance(data, HeteroData):
        return _from_hetero(data, edge_attribute)
    if not isinstance(data, Data):
        raise DataError(f"from_pyg: expected Data, HeteroData or a Batch of them, not {type(data).__name__}.")
    index = data.edge_index if "edge_index" in data else None
    if index is None:
        raise DataError(f"from_pyg: the data has no edge_index, but {', '.join(data.keys()) or 'nothing'}.")
    num_nodes = _num_nodes(data, "data")
    edges = Edges.from_edge_index(index, num_nodes)
    is_batch = "batch" in data and data.batch is not None
    offsets = graph_of_node = graph_of_edge = None
    if is_batch:
        graph_of_node, offsets = graphs_of(data, num_nodes, "data")
        graph_of_edge = graph_of_node[edges.receivers]
    num_graphs = 1 if offsets is None else len(offsets) - 1
    held_by_edges = _edge_features(data, edges.num_edges, edge_attribute)
    return Graph(
        _table("x", data.x, num_nodes) if "x" in data else None,
        edges,
        held_by_edges,
        _table("u", data.u, num_graphs) if "u" in data else None,
        _types(data, "node_type", graph_of_node),
        _types(data, "edge_type", graph_of_edge),
        _table("pos", data.pos, num_nodes) if "pos" in data else None,
        offsets,
        _names(list(chain(*data.node_names)) if is_batch else data.node_names, num_nodes)
        if "node_names" in data
        else None,
    )


def _types(data: "Data", name: str, graph_of_row: Tensor | None) -> Types | None:
    """The types of nodes or edges. Their names are a list, in a batch one for each graph, which may have others, or the
    same in another order: types of the same name are one type."""
    if name not in data:
        return None
    of_row, names = data[name], None
    if f"{name}_names" in data:
        names = data[f"{name}_names"]
    if graph_of_row is not None and names:
        counts = torch.tensor([len(of_graph) for of_graph in names], device=of_row.device)
        if of_row.shape != graph_of_row.shape or bool(((of_row < 0) | (of_row >= counts[graph_of_row])).any()):
            raise DataError(f"from_pyg: {name} does not fit {name}_names: a type of a row lacks a name in its graph.")
        listed = list(chain(*names))
        names = tuple(dict.fromkeys(listed))
        number = {type_name: index for index, type_name in enumerate(names)}
        numbers = torch.tensor([number[type_name] for type_name in listed], dtype=torch.int64, device=of_row.device)
        of_row = numbers[(counts.cumsum(0) - counts)[graph_of_row] + of_row]

    return Types(of_row, _num_types(of_row, names), None if names is None else tuple(names))


def _warn_of_unread(data: "Data | HeteroData") -> None:
    """Warn of numbers, which could be features, that are not read into the graph, each once."""
    names = dict.fromkeys(
        name
        for store in data.stores
        for name, value in store.items()
        if isinstance(value, Tensor) and value.layout == torch.strided and value.dim() in (1, 2)
        if value.dtype != torch.bool
    )
    if unread := [name for name in names if name not in (*READ, *BESIDE) and not name.endswith("_mask")]:
        warnings.warn(
            f"from_pyg: the attributes {', '.join(unread)} are not read; join those that are features with x, "
            "edge_attr or u.",
            stacklevel=4,
        )


def _to_data(graph: Graph, has_names: bool) -> "Data":
    parts: dict[str, Any] = {"edge_index": torch.stack([graph.edges.senders, graph.edges.receivers])}
    parts |= {"edge_attr": graph.edge_features, "x": graph.dense_node_features, "pos": graph.coordinates}
    parts["u"] = graph.graph_features
    for name, types in (("node_type", graph.node_types), ("edge_type", graph.edge_types)):
        if types is not None:
            parts[name] = types.of_row
            parts[f"{name}_names"] = None if types.names is None else list(types.names)
    parts["node_names"] = _listed(graph, range(graph.num_nodes)) if has_names else None
    there = {name: part for name, part in parts.items() if part is not None}
    for name, part in there.items():
        if isinstance(part, tuple):
            raise DataError(f"to_pyg: {name} differs between types, which need names: node_types=Types(…, names=[…]).")
    return Data(**there, num_nodes=graph.num_nodes)


def _listed(graph: Graph, nodes: Iterable[int]) -> list[Hashable]:
    """What some nodes are called."""
    return list(nodes) if graph.names is None else [graph.names[node] for node in nodes]


def _form(graph: Graph) -> Form:
    assert graph.node_types is not None and graph.edge_types is not None
    rows = graph.graph_of_node, graph.graph_of_node[graph.edges.senders]
    codes = zip((graph.node_types, graph.edge_types), rows)
    mixed = [bool(((graph_of_row * types.num_types + types.of_row).diff() < 0).any()) for types, graph_of_row in codes]
    placed = (False,) * graph.node_types.num_types
    if graph.coordinates is not None:
        parts = graph.node_types.split(graph.coordinates)
        placed = tuple(len(part) == 0 or not bool(part.isnan().all()) for part in parts)
    return mixed[0], mixed[1], graph.names is not None, placed


def _require_text(node_types: Types, edge_types: Types | None) -> None:
    """Raise a DataError where a type has a name that `HeteroData` cannot have."""
    relations = [name for name in names_of(edge_types) if isinstance(name, tuple)]
    for name in (*names_of(node_types), *(word for _, word, _ in relations)):
        if not isinstance(name, str):
            raise DataError(
                f"to_pyg: a type is named {name!r}, which is {type(name).__name__}; HeteroData has text alone, so name "
                "the types by text, or leave names out: Types(types.of_row, types.num_types)."
            )


def _to_hetero(graph: Graph, form: Form) -> "HeteroData":
    """A store for each type of nodes and edges; where rows do not stand type after type, it stores where they do."""
    has_node_order, has_edge_order, has_names, placed = form
    types, relations = graph.node_types, graph.edge_types
    assert types is not None and types.names is not None and relations is not None and relations.names is not None
    data, ranks = HeteroData(), types.ranks
    rows = types.split(torch.arange(graph.num_nodes, device=types.of_row.device))
    for name, nodes, features, has_coordinates in zip(
        types.names, rows, by_type(graph.dense_node_features, types), placed
    ):
        store = data[name]
        store.num_nodes = len(nodes)
        if features is not None:
            store.x = features
        if graph.coordinates is not None and has_coordinates:
            store.pos = graph.coordinates[nodes]
        if has_names:
            store.node_names = _listed(graph, nodes.tolist())
        if has_node_order:
            setattr(store, NODE_ORDER, nodes)
    edges_of_type = relations.split(torch.arange(graph.num_edges, device=ranks.device))
    for name, edges, features in zip(relations.names, edges_of_type, by_type(graph.edge_features, relations)):
        store = data[name]
        store.edge_index = torch.stack([ranks[graph.edges.senders[edges]], ranks[graph.edges.receivers[edges]]])
        if features is not None:
            store.edge_attr = features
        if has_edge_order:
            setattr(store, EDGE_ORDER, edges)
    if graph.graph_features is not None:
        data.u = graph.graph_features
    return data


def _from_hetero(data: "HeteroData", edge_attribute: str | None) -> Graph:
    stores = {name: data[name] for name in data.node_types}
    if not stores:
        raise DataError("from_pyg: the HeteroData has no nodes.")
    for edge_type, store in data.edge_items():
        if "edge_index" not in store:
            raise DataError(f"from_pyg: {edge_type} has no edge_index, but {', '.join(store.keys()) or 'nothing'}.")
        if unknown := [end for end in (edge_type[0], edge_type[2]) if end not in stores]:
            raise DataError(f"from_pyg: {edge_type} joins nodes of type {unknown[0]!r}, of which nothing is known.")
    sizes = [_num_nodes(store, f"type {name!r}") for name, store in stores.items()]
    is_batch = all("batch" in store for store in stores.values())
    device = next((data[name].edge_index.device for name in data.edge_types), torch.device("cpu"))
    of_row = torch.arange(len(sizes), device=device).repeat_interleave(torch.tensor(sizes, device=device))
    offsets, graph_of_node = None, torch.zeros_like(of_row)
    if is_batch:
        graph_of_node, offsets = graphs_of_types(data, sizes)
    node_order = _order(graph_of_node, stores, NODE_ORDER)
    rank = node_order.argsort()
    types = Types(of_row[node_order], len(sizes), tuple(stores))
    rows = dict(zip(stores, rank.split(sizes)))
    ends, relation, tables = [of_row.new_zeros(2, 0)], [of_row[:0]], []
    edge_stores = {name: data[name] for name in data.edge_types}
    for number, (name, store) in enumerate(edge_stores.items()):
        index = Edges.from_edge_index(store.edge_index, (len(rows[name[0]]), len(rows[name[2]])))
        ends.append(torch.stack([rows[name[0]][index.senders], rows[name[2]][index.receivers]]))
        relation.append(torch.full_like(index.senders, number))
        tables.append(_edge_features(store, index.num_edges, edge_attribute))
    senders, receivers = torch.cat(ends, 1)
    of_edge = torch.cat(relation)
    edge_order = _order(graph_of_node[node_order][senders], edge_stores, EDGE_ORDER)
    senders, receivers, of_edge = senders[edge_order], receivers[edge_order], of_edge[edge_order]
    names = [name for store in stores.values() for name in _list_of(store, "node_names", is_batch)]
    num_graphs = 1 if offsets is None else len(offsets) - 1
    return Graph(
        tuple(
            _table(f"x of {name!r}", store.x, size) if "x" in store else None
            for (name, store), size in zip(stores.items(), sizes)
        ),
        Edges(senders, receivers, len(of_row), len(of_row)),
        tuple(tables),
        _table("u", data.u, num_graphs) if "u" in data else None,
        types,
        Types(of_edge, len(edge_stores), tuple(edge_stores)),
        _coordinates(stores, sizes, node_order),
        offsets,
        _names([names[node] for node in node_order.tolist()], len(of_row)) if names else None,
    )


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
    if not isinstance(graph.node_features, Tensor):
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
        "X": _fractions(graph.node_features),
        "y": y.cpu().numpy() if labels is None else labels,
        "edges": graph.edges,
        "edge_features": _fractions(graph.edge_features).numpy() if isinstance(graph.edge_features, Tensor) else None,
        "validation": None if validation is None else validation.cpu().numpy(),
    }


def _num_nodes(data: Any, owner: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            num_nodes = data.num_nodes
        except UserWarning:
            num_nodes = None
    if num_nodes is None:
        raise DataError(
            f"from_pyg: the {owner} does not give the number of nodes, and nodes without edges would be missing; set "
            "num_nodes."
        )
    return int(num_nodes)


def _num_types(of_row: Tensor, names: Any) -> int:
    return len(names) if names is not None else 1 + int(of_row.max()) if of_row.numel() else 0


def _edge_features(data: Any, num_edges: int, attribute: str | None) -> Tensor | None:
    names = [name for name in ("edge_attr", "edge_weight") if name in data]
    if attribute is None and len(names) > 1:
        raise SettingError("from_pyg: the data has edge_attr and edge_weight; choose one: edge_attribute='edge_attr'.")
    if attribute is not None and attribute not in data:
        raise DataError(f"from_pyg: the data has no {attribute!r}, but {', '.join(data.keys())}.")
    name = attribute if attribute is not None else next(iter(names), None)
    return None if name is None else _table(name, data[name], num_edges)


def _order(graphs: Tensor, stores: dict[Any, Any], name: str) -> Tensor:
    """The rows of all stores, graph after graph; within each in the order that the stores hold, or type after type."""
    if not stores or not all(name in store for store in stores.values()):
        return graphs.argsort(stable=True)
    ranks = torch.cat([store[name] for store in stores.values()])
    return (graphs * (len(graphs) + 1) + ranks).argsort(stable=True)


def _table(name: str, held: Any, num_rows: int) -> Tensor:
    """`(row, feature)`: a column where there is one number a row."""
    if not isinstance(held, Tensor) or held.layout != torch.strided or held.dim() not in (1, 2):
        shape = f"{tuple(held.shape)} {held.layout}" if isinstance(held, Tensor) else type(held).__name__
        raise DataError(f"from_pyg: {name} is {shape}; expected a dense tensor (row) or (row, feature).")
    if held.shape[0] != num_rows:
        raise DataError(f"from_pyg: {name} has {plural(held.shape[0], 'row')}, expected {num_rows}.")
    return held[:, None] if held.dim() == 1 else held


def _coordinates(stores: dict[str, Any], sizes: list[int], order: Tensor) -> Tensor | None:
    """pos of all types in the order of the nodes; NaN for types that have none, among fractions."""
    tables = [_table("pos", store.pos, size) if "pos" in store else None for store, size in zip(stores.values(), sizes)]
    like = next((table for table in tables if table is not None), None)
    if like is None:
        return None
    for name, table in zip(stores, tables):
        if table is not None and table.shape[1] != like.shape[1]:
            raise DataError(
                f"from_pyg: pos of {name!r} has {plural(table.shape[1], 'coordinate')}, but that of another type "
                f"{like.shape[1]}; give all nodes as many."
            )
    if any(table is None for table in tables) and not like.is_floating_point():
        like = like.to(torch.get_default_dtype())
    positions = torch.cat(
        [like.new_full((n, like.shape[1]), torch.nan) if one is None else one for one, n in zip(tables, sizes)]
    )
    return positions[order]


def _list_of(data: Any, name: str, is_batch: bool) -> list[Any]:
    values = list(data[name]) if name in data else []
    return list(chain(*values)) if is_batch else values


def _names(held: Any, num_nodes: int) -> tuple[Hashable, ...]:
    """A list, a name for each node."""
    if isinstance(held, str) or len(held) != num_nodes or not all(isinstance(name, Hashable) for name in held):
        raise DataError(f"from_pyg: node_names is not a list of {num_nodes} names; fix it, or del data.node_names.")
    return tuple(held)


def _fractions(features: Tensor) -> Tensor:
    features = features.detach().cpu()
    return features if features.dtype.is_floating_point else features.to(torch.get_default_dtype())


def _mask(name: str, mask: Tensor, num_nodes: int, split: int | None) -> Tensor:
    if mask.dim() == 2:
        if split is None or not 0 <= split < mask.shape[1]:
            raise DataError(f"fit_arguments: {name} holds {plural(mask.shape[1], 'split')}; choose one: split=0 …")
        mask = mask[:, split]
    if mask.shape != (num_nodes,) or mask.dtype != torch.bool:
        raise DataError(f"fit_arguments: {name} is {mask.dtype} {tuple(mask.shape)}, expected bool ({num_nodes},).")
    return mask
