"""The kernels over edges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.numba.arrays import array_of, factors_of, formula_of, score_of
from edgewise.backends.numba.edges import forward
from edgewise.backends.numba.edges_backward import backward_receivers, backward_senders
from edgewise.backends.numba.simd import WIDE, WIDTH
from edgewise.backends.numba.tables import Absent, Dropout, Lists, Sizes, Table, TiledSizes, WideSizes
from edgewise.operator import Gradient, define

PIECE = 2**19
"""Numbers to gather in one piece of work: some tenths of a millisecond."""
MOST_PIECES = 64
MOST_KEPT = 2**24
"""Bytes of weights and derivatives, two numbers an edge and head, up to which they are kept between backward passes."""


def edges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    vector: Tensor | None,
    heads: Tensor,
    lists: Sequence[Tensor],
    kind: str,
    number: float,
    flag: int,
    normalizer: int,
    dropout: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor]:
    """Attention over lists of edges, and the two numbers of each row that the gradient needs.

    Args:
        query: `(receiver, own head, key_dim)`; key, value `(sender, own head, …)`; dims whole numbers of vectors. Where
            a head has one number, query, key and edge_key are `(…, lane, 1)`: lanes are all heads of the call, and more
            up to a whole vector.
        edge_key, edge_value: `(edge, own head, …)` in the caller's order; bias `(edge, lane)`.
        vector: `(head, key_dim)`, for scores that have one.
        heads: `(5, head)`: which own head of query, key, value, edge_key, edge_value each head reads.
        lists: offsets, neighbors and edges by receiver, then by sender.
        kind, number, flag: the score; normalizer: its code.
        dropout: the rate; seed: `(1)`.

    Returns:
        `(receiver, head, value_dim)` and `(receiver, 2, lane)`.
    """
    job = Job(query, key, value, edge_key, edge_value, bias, vector, heads, kind, number, flag, dropout, seed)
    num_heads, num_rows = heads.shape[1], query.shape[0]
    out = torch.empty(num_rows, num_heads, value.shape[-1], dtype=query.dtype)
    stats = torch.empty(num_rows, 2, job.sizes.lanes, dtype=job.dtype)
    by_receiver = as_lists(lists[:3])
    pieces = pieces_of(by_receiver, job.width)
    forward.run(
        pieces, job.score, normalizer, job.sizes, by_receiver, pieces, *job.operands, job.dropout,
        array_of(stats), table_of(out),
    )  # fmt: skip
    return out, stats


def edges_shapes(
    query, key, value, edge_key, edge_value, bias, vector, heads, lists, kind, number, flag, normalizer, dropout, seed
):
    """What tracers see of the output."""
    num_heads, num_rows = heads.shape[1], query.shape[0]
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    out = query.new_empty(num_rows, num_heads, value.shape[-1])
    return out, query.new_empty(num_rows, 2, lanes_of(num_heads), dtype=dtype)


def edges_backward(
    grad_out: Tensor,
    stats: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    vector: Tensor | None,
    heads: Tensor,
    lists: Sequence[Tensor],
    kind: str,
    number: float,
    flag: int,
    normalizer: int,
    dropout: float,
    seed: Tensor,
    of_values_only: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, edge_key, edge_value, bias and vector; empty where a tensor is absent.

    Args:
        of_values_only: nobody asks for the others, and no score is made of a query and a key: a convolution.
    """
    job = Job(query, key, value, edge_key, edge_value, bias, vector, heads, kind, number, flag, dropout, seed)
    grads = _gradients(query, key, value, edge_key, edge_value, bias, stats)
    by_receiver, by_sender = as_lists(lists[:3]), as_lists(lists[3:])
    pieces, sender_pieces = pieces_of(by_receiver, 2 * job.width), pieces_of(by_sender, 2 * job.width)
    vector_parts = torch.zeros(pieces, 0 if vector is None else vector.numel(), dtype=job.dtype)
    num_kept = 2 * job.sizes.lanes * len(by_receiver.edges)
    keeps = not of_values_only and num_kept * stats.element_size() <= MOST_KEPT
    kept = table_of(stats.new_empty(len(by_receiver.edges), 2 * job.sizes.lanes) if keeps else None, None, stats)
    centers = stats.new_empty(0 if keeps else stats.shape[0], stats.shape[2])
    rows = array_of(stats), array_of(centers)
    common, gradient = (*job.operands, job.dropout), table_of(grad_out)
    if of_values_only:  # which need the weights alone, and no δ
        centers.zero_()
    else:
        backward_receivers.run(
            pieces, job.score, normalizer, job.sizes, by_receiver, pieces, *common, rows[0], gradient,
            rows[1], kept, table_of(grads[0]), table_of(grads[3], job.heads[3]), table_of(grads[4], job.heads[4]),
            table_of(grads[5]), array_of(vector_parts),
        )  # fmt: skip
    backward_senders.run(
        sender_pieces, job.score, normalizer, job.sizes, by_sender, sender_pieces, *common, *rows, kept, gradient,
        table_of(grads[1]), table_of(grads[2]),
    )  # fmt: skip
    grad_vector = torch.empty(0) if vector is None else vector_parts.sum(0).view_as(vector)
    grad_query, grad_key, grad_value, *grad_edges = (x if x.dtype == query.dtype else x.to(query.dtype) for x in grads)
    grad_edge_key, grad_edge_value, grad_bias = grad_edges
    return grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias, grad_vector


def _gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    stats: Tensor,
) -> list[Tensor]:
    """Empty gradients of the nodes, and zeros for those of the edges, which heads that share one add up in."""
    nodes = [torch.empty(x.shape, dtype=x.dtype) for x in (query, key, value)]
    edges = [torch.zeros(0 if x is None else x.shape, dtype=stats.dtype) for x in (edge_key, edge_value, bias)]
    return nodes + edges


def edges_backward_shapes(grad_out, stats, query, key, value, edge_key, edge_value, bias, vector, *rest):
    """What tracers see of the gradients."""
    edges = [query.new_empty(0) if x is None else query.new_empty(x.shape) for x in (edge_key, edge_value, bias)]
    grad_vector = query.new_empty(0, dtype=torch.float32) if vector is None else torch.empty_like(vector)
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape), *edges, grad_vector


def _differentiate(grad_out: Tensor, kept: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
    tensors, of_values_only = arguments[:7], arguments[1].shape[-1] == 0 and not any(needs[4:6])
    found = attend_edges_backward(grad_out, *kept, *arguments, of_values_only)
    return [None if x is None else grad for x, grad in zip(tensors, found)]


def edges_formula(
    query, key, value, edge_key, edge_value, bias, vector, heads, lists, kind, number, flag, normalizer, dropout, seed
):
    """The output in plain torch."""
    num_heads, is_narrow = heads.shape[1], query.shape[-1] == 1
    tables = [query, key, value, edge_key, edge_value]
    for place, table in enumerate(tables):
        if is_narrow and place in (0, 1, 3):
            tables[place] = None if table is None else table[:, :num_heads]
        elif table is not None and table.shape[1] not in (1, num_heads):
            tables[place] = table.index_select(1, heads[place])
    factors = None
    if dropout > 0:
        edges = torch.arange(len(lists[2])).unsqueeze(1)
        factors = factors_of(dropout, seed, edges, torch.arange(num_heads))
    score, normalize = formula_of(kind, number, flag, normalizer, vector)
    bias = None if bias is None else bias[:, :num_heads]
    return formula.over_edges(*tables, bias, lists, score, normalize, factors)


attend_edges_backward = define("attend_edges_backward", edges_backward, edges_backward_shapes)
GRADIENT = Gradient(_differentiate, edges_formula, keeps=(1,))
attend_edges = define("attend_edges", edges, edges_shapes, GRADIENT)


class Job:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, query, key, value, edge_key, edge_value, bias, vector, heads, kind, number, flag, dropout, seed):
        self.dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        tensors = (query, key, value, edge_key, edge_value)
        self.sizes = sizes_of(tuple([None if x is None else x.shape for x in tensors]), heads.shape[1])
        self.heads = _rows_of(heads.numpy().tobytes(), len(tensors))
        self.operands = [table_of(x, own, query) for x, own in zip(tensors, self.heads)]
        self.operands.append(table_of(bias, None, query))
        self.width = key.shape[1] * key.shape[2] + value.shape[1] * value.shape[2]
        self.dropout = Dropout(float(dropout), int(seed)) if dropout > 0 else NO_DROPOUT
        self.score = score_of(kind, number, flag, None if vector is None else array_of(vector))


# What follows from shapes alone is remembered: for a small graph the kernels are done in a third of a millisecond.


@lru_cache(maxsize=1024)
def sizes_of(shapes: tuple, num_heads: int) -> Any:
    """What query, key, value, edge_key and edge_value agree on; its type says how features can be read at once, which
    is compiled in."""
    lanes, dims = lanes_of(num_heads), (shapes[0][-1], shapes[2][-1])
    wide = [shape for shape in shapes if shape is not None and shape[-1] > 1]
    if any(shape[-1] % WIDE for shape in wide):
        return Sizes(num_heads, lanes, *dims)
    has_tiles = num_heads % WIDTH == 0 and all(shape[1] == num_heads for shape in wide)
    return (TiledSizes if has_tiles else WideSizes)(num_heads, lanes, *dims)


@lru_cache(maxsize=1024)
def _rows_of(heads: bytes, number: int) -> list[bytes]:
    """The rows of a table of heads, each as what it can be remembered by."""
    step = len(heads) // number
    return [heads[row * step : (row + 1) * step] for row in range(number)]


def lanes_of(num_heads: int) -> int:
    """Heads, rounded up to whole vectors."""
    return (num_heads + WIDTH - 1) // WIDTH * WIDTH


NOWHERE = np.zeros(0, np.int64)
NO_DROPOUT = Dropout(0.0, 0)


def table_of(x: Tensor | None, own: bytes | None = None, like: Tensor | None = None) -> Table | Absent:
    """A tensor `(node, head, dim)` or `(edge, head)` as a table; rows may lie apart, but a row is one run of memory.

    What is None becomes a table that is absent, of numbers like those of another tensor. `own` are the heads that the
    heads of the call read, as int64; without it each reads its own.
    """
    if x is None:
        assert like is not None
        return _absent(like.dtype)
    if x.numel() == 0:
        return Table(_absent(x.dtype).data, 0, 0, NOWHERE if own is None else _heads_of(own))
    width, heads = _places_in_row(x.shape[1:], own)
    if x.is_contiguous():
        return Table(array_of(x), width, width, heads)
    if x.stride()[1:] != (x.shape[-1], 1)[3 - x.dim() :]:
        return Table(array_of(x.contiguous()), width, width, heads)
    flat = x.as_strided(((x.shape[0] - 1) * x.stride(0) + width,), (1,))
    return Table(array_of(flat), x.stride(0), width, heads)


@lru_cache(maxsize=1024)
def _places_in_row(shape: tuple, own: bytes | None) -> tuple[int, np.ndarray]:
    """How many numbers a row `(head, dim)` or `(head)` has, and where in it each head begins."""
    dim = shape[1] if len(shape) == 2 else 1
    heads = np.arange(shape[0]) if own is None else _heads_of(own)
    return shape[0] * dim, heads * dim


@lru_cache(maxsize=1024)
def _heads_of(own: bytes) -> np.ndarray:
    """A copy, which can be written to: kernels are compiled anew for arrays that cannot."""
    return np.frombuffer(own, np.int64).copy()


@lru_cache
def _absent(dtype: torch.dtype) -> Absent:
    return Absent(array_of(torch.empty(0, dtype=dtype)), 0, 0, NOWHERE)


def as_lists(lists: Sequence[Tensor]) -> Lists:
    """Three tensors of a plan as a kernel takes them."""
    return Lists(*(x.numpy() for x in lists))


def pieces_of(lists: Lists, width: int) -> int:
    """How many pieces of work there are, where each row or edge gathers so many numbers."""
    return max(1, min(MOST_PIECES, (len(lists.offsets) - 1 + len(lists.edges)) * max(width, 1) // PIECE))
