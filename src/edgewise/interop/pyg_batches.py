"""The graphs of a batch of PyTorch Geometric: which nodes are of which, where the batch still says so."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from edgewise.errors import DataError, plural


def graphs_of(data: Any, num_nodes: int, owner: str) -> tuple[Tensor, Tensor]:
    """The graph of each node, and the offsets.

    Args:
        data: a batch, or its nodes of one type.
        num_nodes: how many nodes it has.
        owner: what it is called in messages.

    Raises:
        DataError: the nodes do not stand graph after graph.
    """
    graphs = data.batch
    if graphs.shape != (num_nodes,) or bool((graphs.diff() < 0).any()):
        raise DataError(f"from_pyg: batch of the {owner} must name the graph of each of {num_nodes} nodes, ascending.")
    if "ptr" in data:
        return graphs, data.ptr.to(torch.int64)
    counts = torch.bincount(graphs)
    return graphs, torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def graphs_of_types(data: HeteroData, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """The graph of each node, type after type, and the offsets of the nodes of all types together.

    PyTorch Geometric counts the graphs of each type by themselves. Where some graphs lack a type, it takes those that
    have it for the first ones, and moves their edges there; so only types of the first graph alone can be read.

    Raises:
        DataError: a type is missing in some graphs of the batch, but not in all after the first.
    """
    notes, counts = vars(data._global_store), []  # by getattr a note that is missing would be looked up in every type
    graphs = [graphs_of(data[name], size, f"type {name!r}") for name, size in zip(data.node_types, sizes, strict=True)]
    num_graphs = notes.get("_num_graphs") or max(len(offsets) - 1 for _, offsets in graphs)
    for name in (*data.node_types, *data.edge_types):
        counts += [(name, len(bounds) - 1) for bounds in notes.get("_slice_dict", {}).get(name, {}).values()]
    counts += [(name, len(data[name].ptr) - 1) for name in data.node_types if "ptr" in data[name]]
    for name, count in counts:
        if 1 < count < num_graphs:
            raise DataError(
                f"from_pyg: {count} of {plural(num_graphs, 'graph')} have the type {name!r}, and the batch does not "
                "say which; give it to every graph before batching, with no rows where there are none."
            )

    ends = [torch.cat([bounds, bounds[-1:].expand(num_graphs + 1 - len(bounds))]) for _, bounds in graphs]
    return torch.cat([graph_of_row for graph_of_row, _ in graphs]), torch.stack(ends).sum(0)
