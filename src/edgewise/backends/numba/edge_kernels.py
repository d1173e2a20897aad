"""The kernels over edges, bound to the form of a call, and run on any number of nodes and edges."""

import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.backends.numba.arrays import CODES, TYPES, array_of, score_of
from edgewise.backends.numba.edges import forward
from edgewise.backends.numba.edges_backward import (
    ReceiverGradients,
    ReceiverRows,
    SenderGradients,
    backward_receivers,
    backward_senders,
)
from edgewise.backends.numba.edges_backward_narrow import backward_keys, backward_values
from edgewise.backends.numba.simd import WIDE, WIDTH
from edgewise.backends.numba.tables import (
    Absent,
    CallSettings,
    DropoutRule,
    EdgeOperands,
    Lists,
    Sizes,
    Table,
    TiledSizes,
    WideSizes,
)
from edgewise.backends.numba.words import Slot

CHUNK = 2**19
"""Numbers to gather in one chunk of work: some tenths of a millisecond."""
MAX_CHUNKS = 64
MAX_SAVED_BYTES = 2**24
"""Bytes of weights and d_score, two numbers an edge and head, up to which they are saved from one backward pass to the
next."""
WIDE_ROW = 16
"""Features of values for each lane from which on three backward passes that gather one wide row an edge are faster
than two that gather two: chosen by `benchmarks/narrow_scores.py`."""


class EdgeForm(NamedTuple):
    """All that the kernels depend on beside where tensors lie and how many nodes and edges there are."""

    rows: tuple[tuple[int, ...] | None, ...]
    """The shape of a row of query, key, value, edge_key, edge_value and bias; None for one that is absent."""
    dtypes: tuple[torch.dtype | None, ...]
    heads: bytes
    """`(5, head)`, which head of each but the bias the heads of the call read."""
    has_vector: bool
    index_dtype: torch.dtype
    """That of the lists of edges."""
    formula: tuple[str, str, bool, float, str]
    """Kind, activation, root and number of the score, and the name of the normalizer."""
    dropout: float


CHUNKS, SENDER_CHUNKS, SEED, ROWS_A_CHUNK = range(4)
"""Where numbers stand among the values of a call; each of the tensors below has three: where it begins, how many
numbers it has, and how many from one row to the next."""
TENSORS = (
    "offsets", "neighbors", "edges", "rows", "query", "key", "value", "edge_key", "edge_value", "bias", "vector",
    "stats", "out",
    "sender_offsets", "sender_neighbors", "sender_edges", "sender_rows", "d_query", "d_key", "d_value",
    "deltas", "saved", "products", "d_edge_key", "d_edge_value", "d_bias", "d_vector",
)  # fmt: skip
"""The forward pass reads those to the output, for which its gradient stands in the backward pass."""
PLACES = {name: 4 + 3 * index for index, name in enumerate(TENSORS)}
_OF_PASS = tuple([PLACES[name] for name in TENSORS[TENSORS.index("deltas") :]])
NUM_OFFSETS, NUM_EDGES, NUM_SENDERS = (PLACES[name] + 1 for name in ("offsets", "edges", "sender_offsets"))


class EdgeKernels:
    """The kernels for calls of one form, each bound when it is first needed."""

    def __init__(self, form: EdgeForm):
        self.form, num_tables = form, len(form.rows) - 1
        assert form.dtypes[0] is not None
        self.query_dtype = form.dtypes[0]
        self.dtype = torch.float64 if self.query_dtype == torch.float64 else torch.float32
        heads = _rows_of(form.heads, num_tables)
        num_heads = len(heads_of(heads[0]))
        shapes = tuple([None if row is None else (1, *row) for row in form.rows[:num_tables]])
        self.sizes, self.head_bytes = sizes_of(shapes, num_heads), (*heads, None)
        self.lanes, self.width = self.sizes.lanes, sum(math.prod(row) for row in form.rows[1:3] if row is not None)
        """Numbers that an edge gathers in the forward pass."""
        names, dtypes = TENSORS[4:10], [self.query_dtype if x is None else x for x in form.dtypes]
        self.operands = EdgeOperands(
            *(_table(*each) for each in zip(names, form.rows, dtypes, self.head_bytes, strict=True))
        )
        vector = _slot("vector", self.dtype) if form.has_vector else None
        kind, activation, root, number, normalizer = form.formula
        dropout: Any = DropoutRule(form.dropout, _number(SEED)) if form.dropout > 0 else DropoutRule(0.0, 0)
        self.call = CallSettings(
            score_of(kind, activation, root, number, vector), CODES[normalizer], self.sizes, dropout
        )
        self.by_receiver = Lists(*(_slot(name, form.index_dtype) for name in TENSORS[:4]))
        self.by_sender = Lists(*(_slot(f"sender_{name}", form.index_dtype) for name in TENSORS[:4]))
        self.dtypes = dtypes
        self.out_row, self.is_blind = (num_heads, self.sizes.value_dim), self.sizes.key_dim == 0
        self.bound: dict[str | tuple[bool, ...], Any] = {}

    def forward(self, values: array, seed: int) -> None:
        """Write the output and two numbers a row.

        Args:
            values: those from the first to the output.
            seed: of dropout.
        """
        if "forward" not in self.bound:
            out = _table("out", self.out_row, self.query_dtype, None)
            stats = _slot("stats", self.dtype)
            self.bound["forward"] = forward.bind(
                self.call, self.by_receiver, _number(CHUNKS), self.operands, stats, out
            )
        num_rows, num_edges = values[NUM_OFFSETS] - 1, values[NUM_EDGES]
        chunks = values[CHUNKS] = chunks_of(num_rows, num_edges, self.width)
        values[SEED] = seed
        self.bound["forward"].run(chunks, values)

    def backward(
        self, values: array, seed: int, stats: Tensor, edge_shapes: Sequence[tuple[int, ...] | None],
        vector_size: int, is_shared: bool, needs: Sequence[bool],
    ) -> list[Tensor | None]:  # fmt: skip
        """Write the gradients of query, key and value, and give back those of edge_key, edge_value, bias and vector,
        None where these are absent.

        Args:
            values: all of them; but for those up to the gradient of the values they are zero.
            seed: of dropout.
            stats: the two numbers of each row.
            edge_shapes: those of edge_key, edge_value and bias.
            vector_size: how many numbers the vector has.
            is_shared: whether edges share rows of what they carry.
            needs: which gradients are wanted.
        """
        num_receivers, num_edges, num_senders = values[NUM_OFFSETS] - 1, values[NUM_EDGES], values[NUM_SENDERS] - 1
        chunks = chunks_of(num_receivers, num_edges, 2 * self.width)
        sender_chunks = chunks_of(num_senders, num_edges, 2 * self.width)
        of_values_only = self.is_blind and not any(needs[4:6])

        # Heads that share what an edge carries add up in its gradient, and so do edges, those of each chunk in rows of
        # their own.
        copies = chunks if is_shared else 1
        num_rows = [shape[0] for shape in edge_shapes if shape is not None]
        of_edges = [
            None if shape is None else stats.new_zeros((copies * shape[0], *shape[1:])) for shape in edge_shapes
        ]
        of_vector = stats.new_zeros(chunks, vector_size) if vector_size else None

        saves = not of_values_only and 2 * self.lanes * num_edges * stats.element_size() <= MAX_SAVED_BYTES
        is_narrow = not saves and not of_values_only and gathers_once(self.sizes)
        saved = stats.new_empty((num_edges, 2 * self.lanes)) if saves else None
        products = stats.new_empty((num_edges, self.lanes)) if is_narrow else None
        deltas = None if saves or is_narrow else stats.new_empty((stats.shape[0], self.lanes))
        if of_values_only and deltas is not None:  # which need the weights alone, and no δ
            deltas.zero_()

        values[CHUNKS], values[SENDER_CHUNKS], values[SEED] = chunks, sender_chunks, seed
        values[ROWS_A_CHUNK] = num_rows[0] if num_rows and is_shared else 0
        for place, x in zip(_OF_PASS, (deltas, saved, products, *of_edges, of_vector)):
            if x is not None:
                values[place], values[place + 1], values[place + 2] = values_of((x,))
        for by_receiver, kernel in self._backward_kernels(saves, is_narrow, of_values_only):
            kernel.run(chunks if by_receiver else sender_chunks, values)

        if copies > 1:
            of_edges = [None if x is None else x.unflatten(0, (copies, -1)).sum(0) for x in of_edges]
        return [*of_edges, None if of_vector is None else of_vector.sum(0)]

    def _backward_kernels(self, saves: bool, is_narrow: bool, of_values_only: bool) -> list[tuple[bool, Any]]:
        """The kernels of a backward pass in their order, each with whether it works on receivers."""
        key = saves, is_narrow, of_values_only
        if key in self.bound:
            return self.bound[key]

        form, lanes, dtype = self.form, self.lanes, self.dtype
        saved = _table("saved", (2 * lanes,) if saves else None, dtype, None)
        products = _table("products", (lanes,) if is_narrow else None, dtype, None)
        grad_out = _table("out", self.out_row, self.query_dtype, None)
        rows = ReceiverRows(_slot("stats", dtype), _slot("deltas", dtype), saved, products, grad_out)
        of_query, of_key, of_value = (
            _table(name, row, own_dtype, None)
            for name, row, own_dtype in zip(("d_query", "d_key", "d_value"), form.rows, self.dtypes)
        )
        of_edges: list[Any] = [
            _table(name, row, dtype, head_bytes) if row is not None else _empty(dtype, head_bytes)
            for name, row, head_bytes in zip(TENSORS[-4:-1], form.rows[3:], self.head_bytes[3:], strict=True)
        ]
        of_vector, rows_a_chunk = _slot("d_vector", dtype), _number(ROWS_A_CHUNK)
        gradients = ReceiverGradients(of_query, of_edges[0], of_edges[1], of_edges[2], of_vector, rows_a_chunk)
        senders = self.call, self.by_sender, _number(SENDER_CHUNKS), self.operands, rows

        kernels: list[tuple[bool, Any]] = []
        if is_narrow:
            kernels.append((False, backward_values.bind(*senders, of_value)))
        if not of_values_only:
            receivers = self.call, self.by_receiver, _number(CHUNKS), self.operands, rows
            kernels.append((True, backward_receivers.bind(*receivers, gradients)))
        if is_narrow:
            kernels.append((False, backward_keys.bind(*senders, of_key)))
        else:
            kernels.append((False, backward_senders.bind(*senders, SenderGradients(of_key, of_value))))
        self.bound[key] = kernels

        return kernels


@lru_cache(maxsize=1024)
def edge_kernels(form: EdgeForm) -> EdgeKernels:
    """The kernels for a form, which are remembered."""
    return EdgeKernels(form)


def gathers_once(sizes: Any) -> bool:
    """Whether the backward pass over many edges gathers dO alone, because gathering values too takes longer than
    writing and reading one number a lane for each edge."""
    return sizes.key_dim == 1 and sizes.heads * sizes.value_dim >= WIDE_ROW * sizes.lanes


def chunks_of(num_rows: int, num_edges: int, width: int) -> int:
    """How many chunks of work there are, where each row or edge gathers so many numbers."""
    return max(1, min(MAX_CHUNKS, (num_rows + num_edges) * max(width, 1) // CHUNK))


def values_of(tensors: Sequence[Tensor | None]) -> list[int]:
    """What kernels read of tensors: where each begins, its size, and how far one row is from the next.

    Where there is one row, that is its width, whatever torch calls it.
    """
    values: list[int] = []
    for x in tensors:
        if x is None or x.numel() == 0:
            values += (0, 0 if x is None else x.numel(), 0)
        else:
            values += (x.data_ptr(), x.numel(), x.stride(0) if x.shape[0] > 1 else x.numel())
    return values


def _number(place: int) -> Any:
    """A whole number that comes at each call."""
    return Slot(place)


def _slot(name: str, dtype: torch.dtype) -> Any:
    """An array that comes at each call."""
    return Slot(PLACES[name], np.dtype(TYPES[dtype]))


def _table(name: str, row: tuple[int, ...] | None, dtype: torch.dtype, head_bytes: bytes | None) -> Any:
    """A tensor of such rows as kernels take it, or that there is none; see `table_of`."""
    if row is None:
        return absent(dtype)
    width, heads = places_in_row(row, head_bytes)
    return Table(_slot(name, dtype), _number(PLACES[name] + 2), width, heads)


def _empty(dtype: torch.dtype, head_bytes: bytes | None) -> Table:
    """A table without rows, whose gradients are not wanted."""
    return Table(absent(dtype).data, 0, 0, NOWHERE if head_bytes is None else heads_of(head_bytes))


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


@lru_cache(maxsize=1024)
def places_in_row(shape: tuple, head_bytes: bytes | None) -> tuple[int, np.ndarray]:
    """How many numbers a row `(head, dim)` or `(head)` has, and where in it each head begins."""
    dim = shape[1] if len(shape) == 2 else 1
    heads = np.arange(shape[0]) if head_bytes is None else heads_of(head_bytes)
    return shape[0] * dim, heads * dim


@lru_cache(maxsize=1024)
def heads_of(head_bytes: bytes) -> np.ndarray:
    """A copy, which can be written to: kernels are compiled anew for arrays that cannot."""
    return np.frombuffer(head_bytes, np.int64).copy()


@lru_cache
def absent(dtype: torch.dtype) -> Absent:
    return Absent(array_of(torch.empty(0, dtype=dtype, device="cpu")), 0, 0, NOWHERE)
