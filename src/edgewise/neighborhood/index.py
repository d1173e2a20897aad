"""Whole numbers that name nodes: made, moved, compared."""

from collections.abc import Sequence
from copy import copy
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from edgewise.errors import ShapeError

SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def plain(x: Tensor) -> Tensor:
    """A tensor without the class that another library gave it, which all that is computed of it would inherit."""
    if type(x) is Tensor or torch.compiler.is_compiling():
        return x
    if is_traceable_wrapper_subclass(x):  # it holds no numbers itself, such as PyTorch Geometric's EdgeIndex
        return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
    return x.as_subclass(Tensor)


def integers(owner: str, name: str, value: Any) -> Tensor:
    """`value` as a plain int64 tensor; lists and arrays are welcome, fractions are not."""
    index = plain(value if isinstance(value, Tensor) else torch.as_tensor(value))  # a default device would move it
    if index.dtype != torch.int64:
        if (index.dtype.is_floating_point and index.numel() > 0) or index.dtype.is_complex or index.dtype == torch.bool:
            raise ShapeError(f"{owner}: {name} must be whole numbers (int64), not {index.dtype}.")
        index = index.to(torch.int64)
    return index


def copied(owner: str, name: str, value: Any) -> Tensor:
    """`integers` in memory of their own: what the caller does to `value` afterwards is not seen."""
    if type(value) is Tensor and value.dtype == torch.int64:
        return value.clone(memory_format=torch.contiguous_format)
    value = plain(value) if isinstance(value, Tensor) else value
    index = integers(owner, name, value)
    is_new = isinstance(value, list | tuple) or (isinstance(value, Tensor) and index is not value)
    return index if is_new else index.clone(memory_format=torch.contiguous_format)


def pairs_among(
    receivers: Tensor, senders: Tensor, query: Tensor, key: Tensor, num_queries: int, num_keys: int
) -> Tensor:
    """Which edges lie among some queries and keys, as a table: `(len(query), len(key))`, bool."""
    # An edge outside lands in a spare last row or column, so that no size depends on the values.
    row_of = query.new_full((num_queries,), query.shape[0]).index_put(
        (query,), torch.arange(query.shape[0], device=query.device).to(query)
    )
    column_of = key.new_full((num_keys,), key.shape[0]).index_put(
        (key,), torch.arange(key.shape[0], device=key.device).to(key)
    )
    table = torch.zeros(query.shape[0] + 1, key.shape[0] + 1, dtype=torch.bool, device=senders.device)
    here = row_of[receivers], column_of[senders]
    return table.index_put(here, torch.ones_like(senders, dtype=torch.bool))[:-1, :-1]


def sent(x: Tensor, device: torch.device | str) -> Tensor:
    """`x.to(device)`; what goes from the CPU to CUDA does not wait until the device has done what it was given before.

    The other way round somebody must wait, or read what has not arrived.
    """
    return x.to(device, non_blocking=x.device.type == "cpu" and torch.device(device).type == "cuda")


def sent_together(tensors: Sequence[Tensor], device: torch.device | str) -> list[Tensor]:
    """Tensors `(number)` of one dtype on the device, all by one copy.

    Each begins at a multiple of 16 bytes, as if it stood alone: kernels are compiled anew for one that does not.
    """
    aligned = 16 // tensors[0].element_size()
    sizes = [-(-len(x) // aligned) * aligned for x in tensors]
    between = tensors[0].new_zeros(aligned)
    apart = [part for x, size in zip(tensors, sizes) for part in (x, between[: size - len(x)])]
    parts = sent(torch.cat(apart), device).split(sizes)
    return [part[: len(x)] for part, x in zip(parts, tensors)]


def one_way(senders: Tensor, receivers: Tensor, num_nodes: int, types: Tensor | None = None) -> Tensor:
    """The places, ascending, of the edges that have no other way, so that undirected edges need one."""
    return (other_ways(senders, receivers, num_nodes, types) < 0).nonzero().flatten()


def other_ways(senders: Tensor, receivers: Tensor, num_nodes: int, types: Tensor | None = None) -> Tensor:
    """The place of the other way of each edge, −1 where it has none: the one rule by which edges are paired.

    Edges i → j and j → i are paired off in their order, the first with the first, the second with the second; what is
    left over has no other way. So with it, each pair of nodes has as many edges one way as the other,
    max(#(i → j), #(j → i)), as in networkx's `MultiDiGraph.to_undirected`. A loop is its own other way.

    Args:
        senders, receivers: `(edge)`, below `num_nodes`.
        num_nodes: how many nodes there are.
        types: `(edge)` of whole numbers from 0; only edges of one type are paired.

    Cost: one sort of the edges.
    """
    pair = torch.minimum(senders, receivers) * num_nodes + torch.maximum(senders, receivers)
    if types is not None:
        pair = types * num_nodes**2 + pair
    way = 2 * pair + (senders > receivers)
    order = way.argsort(stable=True)
    ways, run, counts = torch.unique_consecutive(way[order], return_inverse=True, return_counts=True)
    first = counts.cumsum(0) - counts
    rank = torch.arange(len(order), device=order.device) - first[run]
    # The other way of a pair differs in the last bit, and so stands beside it.
    other = torch.searchsorted(ways, ways ^ 1).clamp(max=max(len(ways) - 1, 0))
    num_other = torch.where(ways[other] == ways ^ 1, counts[other], 0)[run]
    place = (first[other][run] + rank).clamp(max=max(len(order) - 1, 0))
    found = torch.empty_like(order).index_copy(0, order, torch.where(rank < num_other, order[place], -1))
    return torch.where(senders == receivers, torch.arange(len(order), device=order.device), found)


def entries(adjacency: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each entry that is not zero, row by row, then column by column; and the shape.

    Entries at one place are added up first, as every format does that lists them.

    Raises:
        ShapeError: it is no matrix, or of a layout that is not read.
    """
    if hasattr(adjacency, "tocoo"):  # SciPy's, which need not be installed
        _require_two_axes(adjacency)
        matrix = adjacency.tocsr(copy=True)
        matrix.sum_duplicates()
        rows, columns = (torch.from_numpy(places.astype("int64")) for places in matrix.nonzero())
        return rows, columns, (matrix.shape[0], matrix.shape[1])
    try:
        adjacency = plain(adjacency if isinstance(adjacency, Tensor) else torch.as_tensor(adjacency)).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"from_adjacency: adjacency must be a tensor, an array or a sparse matrix of torch or SciPy, not "
            f"{type(adjacency).__name__} ({error})."
        ) from error
    _require_two_axes(adjacency)
    shape = adjacency.shape[0], adjacency.shape[1]
    if adjacency.layout == torch.strided:
        rows, columns = adjacency.nonzero(as_tuple=True)
        return rows, columns, shape
    if adjacency.layout not in SPARSE_LAYOUTS or adjacency.dense_dim() > 0:
        raise ShapeError(
            f"from_adjacency: adjacency has the layout {adjacency.layout} with {adjacency.dense_dim()} dense axes; "
            "expected a dense matrix or torch's COO, CSR or CSC without them: to_dense() makes one."
        )
    listed = adjacency.to_sparse_coo().coalesce()
    rows, columns = listed.indices()[:, listed.values() != 0].unbind(0)
    return rows, columns, shape


def _require_two_axes(adjacency: Any) -> None:
    shape = tuple(adjacency.shape)
    if len(shape) != 2:
        raise ShapeError(f"from_adjacency: adjacency must have the axes (query, key), not shape {shape}.")


def unchecked(record: Any, **changed: Any) -> Any:
    """A copy with other tensors that is not checked again, which would wait for the device they are on.

    What was derived from the fields and cached, which is every attribute whose name begins with an underscore, is not
    copied: it may not belong to the changed fields. A caller that knows that it does passes it along.
    """
    if torch.compiler.is_compiling():  # torch 2.11 traces neither `copy` nor `vars`
        changed_copy = object.__new__(type(record))
        for field in fields(record):
            name = field.name
            unchanged = field.default if name.startswith("_") else getattr(record, name)
            object.__setattr__(changed_copy, name, changed.get(name, unchanged))
        return changed_copy
    changed_copy = copy(record)
    attributes = vars(changed_copy)
    for name in cached(record):
        del attributes[name]  # a field then has the default that stands in its class
    attributes.update(changed)
    return changed_copy


def cached(record: Any) -> dict[str, Any]:
    """What was derived from the fields of a record and cached, by the name of the attribute."""
    return {name: value for name, value in vars(record).items() if name.startswith("_")}
