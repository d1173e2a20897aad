"""Node indices: converted, moved, compared."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_gradtrackingtensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from edgewise.errors import ShapeError

Value = TypeVar("Value")
SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def plain(x: Tensor) -> Tensor:
    """A plain tensor instead of a subclass of another library, which results would inherit."""
    if type(x) is Tensor or torch.compiler.is_compiling():
        return x
    if is_traceable_wrapper_subclass(x):  # a wrapper without data of its own, such as PyTorch Geometric's EdgeIndex
        return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
    return x.as_subclass(Tensor)


def require_dense(owner: str, name: str, x: Tensor) -> None:
    """Raise a ShapeError where a tensor is sparse."""
    if x.layout in (*SPARSE_LAYOUTS, torch.sparse_bsr, torch.sparse_bsc):
        raise ShapeError(
            f"{owner}: {name} {tuple(x.shape)} is sparse ({x.layout}); expected a dense tensor: {name}.to_dense()."
        )


def integers(owner: str, name: str, value: Any) -> Tensor:
    """`value`, a tensor, list or array of integers, as a plain int64 tensor."""
    index = plain(value if isinstance(value, Tensor) else torch.as_tensor(value))  # a default device would move it
    require_dense(owner, name, index)
    if index.dtype != torch.int64:
        if (index.dtype.is_floating_point and index.numel() > 0) or index.dtype.is_complex or index.dtype == torch.bool:
            raise ShapeError(f"{owner}: {name} must be whole numbers (int64), not {index.dtype}.")
        index = index.to(torch.int64)
    return index


def copied(owner: str, name: str, value: Any) -> Tensor:
    """Like `integers`, but copied: later changes to `value` do not reach it. The copy serves a training, too, where it
    is made in inference mode."""
    if torch.compiler.is_compiling():
        return _copied(owner, name, value)
    if torch._C._are_functorch_transforms_active() and isinstance(value, Tensor):
        value = untracked(value)
        if is_batchedtensor(value):  # only vmap itself says why it takes no indices
            return _copied(owner, name, value)
    with outside_modes():
        return _copied(owner, name, value)


def _copied(owner: str, name: str, value: Any) -> Tensor:
    if type(value) is Tensor and value.dtype == torch.int64 and value.layout == torch.strided:
        return value.clone(memory_format=torch.contiguous_format)
    value = plain(value) if isinstance(value, Tensor) else value
    index = integers(owner, name, value)
    is_new = isinstance(value, list | tuple) or (isinstance(value, Tensor) and index is not value)
    return index if is_new else index.clone(memory_format=torch.contiguous_format)


def pairs_among(
    receivers: Tensor, senders: Tensor, query: Tensor, key: Tensor, num_queries: int, num_keys: int
) -> Tensor:
    """The edges between some queries and keys as a table `(len(query), len(key))`, bool."""
    # Other edges go to a spare last row or column, so that no size depends on values.
    row_of = query.new_full((num_queries,), query.shape[0]).index_put(
        (query,), torch.arange(query.shape[0], device=query.device).to(query)
    )
    column_of = key.new_full((num_keys,), key.shape[0]).index_put(
        (key,), torch.arange(key.shape[0], device=key.device).to(key)
    )
    table = torch.zeros(query.shape[0] + 1, key.shape[0] + 1, dtype=torch.bool, device=senders.device)
    cell = row_of[receivers], column_of[senders]
    return table.index_put(cell, torch.ones_like(senders, dtype=torch.bool))[:-1, :-1]


def sent(x: Tensor, device: torch.device | str) -> Tensor:
    """`x.to(device)`; a copy from the CPU to CUDA is asynchronous.

    A copy to the CPU must wait, or data could be read before it has arrived.
    """
    is_asynchronous = x.device.type == "cpu" and torch.device(device).type == "cuda"
    if x.is_floating_point() or torch.compiler.is_compiling():
        return x.to(device, non_blocking=is_asynchronous)
    with outside_modes():  # an index structure that an evaluation moves may be used in a training
        return x.to(device, non_blocking=is_asynchronous)


def moved(value: Any, device: torch.device | str) -> Any:
    """A field of a record on a device; anything without tensors stays the same."""
    if isinstance(value, Tensor):
        return sent(value, device)
    if isinstance(value, tuple):
        return tuple(moved(item, device) for item in value)
    return value.to(device) if hasattr(value, "to") else value


def sent_together(tensors: Sequence[Tensor], device: torch.device | str) -> list[Tensor]:
    """Moves 1-d tensors of one dtype to the device in a single copy.

    Each starts at a multiple of 16 bytes, like a separate tensor: kernels are compiled again for other alignments.
    """
    aligned = 16 // tensors[0].element_size()
    sizes = [-(-len(x) // aligned) * aligned for x in tensors]
    padding = tensors[0].new_zeros(aligned)
    padded = [part for x, size in zip(tensors, sizes) for part in (x, padding[: size - len(x)])]
    parts = sent(torch.cat(padded), device).split(sizes)
    return [part[: len(x)] for part, x in zip(parts, tensors)]


def one_way(senders: Tensor, receivers: Tensor, num_nodes: int, types: Tensor | None = None) -> Tensor:
    """The indices, ascending, of the edges without a reverse edge, which an undirected graph needs."""
    return (reverse_edges(senders, receivers, num_nodes, types) < 0).nonzero().flatten()


def reverse_edges(senders: Tensor, receivers: Tensor, num_nodes: int, types: Tensor | None = None) -> Tensor:
    """The index of the reverse of each edge, −1 for none: the one rule by which edges are paired.

    Edges i → j and j → i are paired in order, the first with the first, the second with the second; the others have no
    reverse. When reverses are added, each pair of nodes has max(#(i → j), #(j → i)) edges in each direction, as in
    networkx's `MultiDiGraph.to_undirected`. A loop is its own reverse.

    Args:
        senders, receivers: `(edge)`, below `num_nodes`.
        num_nodes: number of nodes.
        types: `(edge)`, integers from 0; only edges of the same type are paired.

    Cost: one sort of the edges.
    """
    pair = torch.minimum(senders, receivers) * num_nodes + torch.maximum(senders, receivers)
    if types is not None:
        pair = types * num_nodes**2 + pair
    direction = 2 * pair + (senders > receivers)
    order = direction.argsort(stable=True)
    directions, run, counts = torch.unique_consecutive(direction[order], return_inverse=True, return_counts=True)
    starts = counts.cumsum(0) - counts
    rank = torch.arange(len(order), device=order.device) - starts[run]

    # The reverse direction of a pair differs in the last bit, and so is adjacent when sorted.
    reverse = torch.searchsorted(directions, directions ^ 1).clamp(max=max(len(directions) - 1, 0))
    num_other = torch.where(directions[reverse] == directions ^ 1, counts[reverse], 0)[run]
    index = (starts[reverse][run] + rank).clamp(max=max(len(order) - 1, 0))
    reverse_edge = torch.empty_like(order).index_copy(0, order, torch.where(rank < num_other, order[index], -1))
    return torch.where(senders == receivers, torch.arange(len(order), device=order.device), reverse_edge)


def line_pairs(senders: Tensor, offsets: Tensor, arriving: Tensor, reverse: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs (e', e) of edges of which e leaves where e' arrives, and is not its reverse; sorted by e.

    Args:
        senders: the node that each edge leaves.
        offsets, arriving: the edges that arrive at each node, as in `Plan`.
        reverse: the reverse of each edge, −1 for none.
    """
    counts = offsets.diff()[senders].long()
    edges = torch.arange(len(senders), device=senders.device)
    following = edges.repeat_interleave(counts)
    starts = offsets[senders] - (counts.cumsum(0) - counts)
    followed = arriving[torch.arange(len(following), device=senders.device) + starts[following]].long()
    is_onward = followed != reverse[following]
    return followed[is_onward], following[is_onward]


def entries(adjacency: Any) -> tuple[Tensor, Tensor, Any, tuple[int, int]]:
    """Row, column and value of each nonzero entry, sorted by row, then column; and the shape.

    Duplicate entries are summed first, as sparse formats do.

    Raises:
        ShapeError: it is not a matrix, or has an unsupported layout.
    """
    if hasattr(adjacency, "tocoo"):  # of SciPy, which need not be installed
        _require_two_axes(adjacency)
        matrix = adjacency.tocsr(copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        coo = matrix.tocoo()
        rows, columns = (torch.from_numpy(indices.astype("int64")) for indices in (coo.row, coo.col))
        return rows, columns, coo.data, (matrix.shape[0], matrix.shape[1])

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
        return rows, columns, adjacency[rows, columns], shape

    if adjacency.layout not in SPARSE_LAYOUTS or adjacency.dense_dim() > 0:
        raise ShapeError(
            f"from_adjacency: adjacency has the layout {adjacency.layout} with {adjacency.dense_dim()} dense axes; "
            "expected a dense matrix or torch's COO, CSR or CSC without dense axes; use to_dense()."
        )

    coo = adjacency.to_sparse_coo().coalesce()
    is_filled = coo.values() != 0
    rows, columns = coo.indices()[:, is_filled].unbind(0)
    return rows, columns, coo.values()[is_filled], shape


def _require_two_axes(adjacency: Any) -> None:
    shape = tuple(adjacency.shape)
    if len(shape) != 2:
        raise ShapeError(f"from_adjacency: adjacency must have the axes (query, key), not shape {shape}.")


def unchecked(record: Any, **changed: Any) -> Any:
    """A copy with other tensors that is not checked again, as a check would wait for their device.

    Cached values, which are all attributes with a leading underscore, are not copied, as they may not fit the changed
    fields. A caller for whom they do passes them along.
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
        del attributes[name]  # a field then has the default of its class
    attributes.update(changed)
    return changed_copy


def cached(record: Any) -> dict[str, Any]:
    """The cached values of a record, by attribute name."""
    return {name: value for name, value in vars(record).items() if name.startswith("_")}


def cached_value(record: Any, name: str, make: Callable[[], Value]) -> Value:
    """A derived value of a record, created once; a copy with other fields, or a traced program, creates its own."""
    value: Value | None = getattr(record, name, None)
    if value is not None:
        return value
    if torch.compiler.is_compiling():
        return make()
    with outside_modes():
        value = make()
    object.__setattr__(record, name, value)
    return value


def outside_modes() -> AbstractContextManager[None]:
    """Makes tensors that may be used later too: those of inference mode a training could not save, and those of a
    transform of torch.func have no memory that a kernel could read or a file keep."""
    if torch.compiler.is_compiling():
        return _AS_IT_IS
    if torch._C._are_functorch_transforms_active():
        return _outside_transforms()
    return _outside_inference() if torch.is_inference_mode_enabled() else _AS_IT_IS


def untracked(x: Tensor) -> Tensor:
    """Indices without what a transform of torch.func notes of their derivatives, of which they have none."""
    while is_gradtrackingtensor(x):
        x = get_unwrapped(x)
    return x


@contextmanager
def _outside_inference() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextmanager
def _outside_transforms() -> Iterator[None]:
    with temporarily_clear_interpreter_stack(), _outside_inference():
        yield


_AS_IT_IS: AbstractContextManager[None] = nullcontext()
