"""The kernels over edges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

import math
from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.lower import normalizer_of, score_of
from edgewise.backends.triton.dropout import drawn
from edgewise.backends.triton.edges.backward import Shared, backward_receivers, backward_senders, center_rows
from edgewise.backends.triton.edges.forward import Operands, forward, merge, normalize_rows, score_edges
from edgewise.backends.triton.edges.launch import forms_of, launch
from edgewise.backends.triton.edges.tiles import Form, Lists, Pieces, Table
from edgewise.backends.triton.edges.work import Work, work_of
from edgewise.backends.triton.graphs import kernels
from edgewise.backends.triton.graphs.launch import launch_graphs, packing_for
from edgewise.backends.triton.graphs.work import Packing
from edgewise.backends.triton.sizes import ceiling
from edgewise.operator import Gradient, define

GIVEN = ("Hardmax", "Sparsemax", "Entmax15")
"""Normalizers that see a whole row before they weigh one edge: their weights, a number an edge and head, are kept."""
CENTERED = ("Softmax", "Sparsemax", "Entmax15")
"""Normalizers whose derivative subtracts a number of the row."""
MOST_PROGRAMS = 2048
"""Programs of a pass that sums something over all rows, each of which leaves one part."""
NO_PARTS = (None, None, None)
MOST_AT_ONCE = 16
"""Numbers that it is worth to know the distances between rows to be multiples of: 16 bytes are read at once."""
SCORES_A_BLOCK = 128
"""Edges of a long row that are normalized at once."""


def edges(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    vector: Tensor | None,
    lists: Sequence[Tensor],
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
    dropout: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over lists of edges, and what the gradient needs.

    Args:
        query: `(receiver, head, key_dim)`; key, value `(sender, head, …)`; a head may be seen several times.
        edge_key, edge_value: `(edge, head or 1, …)` in the caller's order; bias `(edge, head or 1)`.
        vector: `(head, key_dim)`, for scores that have one; 1 where None.
        lists: offsets, neighbors and edges by receiver, then by sender.
        kind, activation, root, number: the score, as `backends.lower` names it; normalizer: its class.
        dropout: the rate; seed: `(1)`.

    Returns:
        `(receiver, head, value_dim)`; ln Σ exp s `(receiver, head)` of softmax; the weights `(edge, head)` of
        normalizers that have them made beforehand. What there is not is empty.
    """
    job = Job(
        query, key, value, edge_key, edge_value, bias, vector, None, kind, activation, root, number, normalizer,
        dropout, seed,
    )  # fmt: skip
    num_rows, num_heads, value_dim = query.shape[0], query.shape[1], value.shape[-1]
    out = value.new_empty(num_rows, num_heads, value_dim)
    stats = query.new_empty(num_rows if normalizer == "Softmax" else 0, num_heads, dtype=torch.float32)
    weights = query.new_empty(len(lists[2]) if job.given else 0, num_heads, dtype=torch.float32)
    if packing := job.packing(lists):
        launch_graphs(kernels.forward, packing, lists[0], job.high, job.operands, table_of(out))
        return out, stats, weights
    by_receiver, work = Lists(*lists[:3]), job.work(lists[0])
    if job.given:
        job.score(work, by_receiver, weights)
        job.normalize(work, by_receiver, weights)
        job.operands = job.operands._replace(weights=table_of(weights))
    parts = job.parts(work, value_dim)
    for form, pieces in job.deal(work):
        launch(
            forward, programs_of(pieces, form), form, *job.operands, by_receiver, pieces, table_of(out),
            table_of(stats), *(parts if form is job.high else NO_PARTS),
        )  # fmt: skip
    if work.num_slots > 0:
        launch(merge, work.num_hubs, job.high, *parts, work.high_rows, work.hub_slots, table_of(out), table_of(stats))
    return out, stats, weights


def edge_weights(
    query: Tensor,
    key: Tensor,
    edge_key: Tensor | None,
    bias: Tensor | None,
    vector: Tensor | None,
    lists: Sequence[Tensor],
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
) -> Tensor:
    """The weights of all edges, `(edge, head)`, float32; arguments as in `edges`. They have no gradient."""
    nothing = key.new_empty(key.shape[0], key.shape[1], 1)
    job = Job(
        query,
        key,
        nothing,
        edge_key,
        None,
        bias,
        vector,
        None,
        kind,
        activation,
        root,
        number,
        normalizer,
        0.0,
        nothing,
    )
    by_receiver, work = Lists(*lists[:3]), job.work(lists[0])
    weights = query.new_empty(len(lists[2]), query.shape[1], dtype=torch.float32)
    job.score(work, by_receiver, weights)
    if normalizer == "Sigmoid":
        return weights.sigmoid_()
    if normalizer != "Identity":
        job.normalize(work, by_receiver, weights)
    return weights


def edges_shapes(query, key, value, edge_key, edge_value, bias, vector, lists, kind, activation, root, number,
                 normalizer, dropout, seed):  # fmt: skip
    """What tracers see of the output."""
    num_rows, num_heads = query.shape[0], query.shape[1]
    stats = query.new_empty(num_rows if normalizer == "Softmax" else 0, num_heads, dtype=torch.float32)
    weights = query.new_empty(lists[2].shape[0] if normalizer in GIVEN else 0, num_heads, dtype=torch.float32)
    return value.new_empty(num_rows, num_heads, value.shape[-1]), stats, weights


def edges_backward(
    grad_out: Tensor,
    out: Tensor,
    stats: Tensor,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    bias: Tensor | None,
    vector: Tensor | None,
    lists: Sequence[Tensor],
    kind: str,
    activation: str,
    root: bool,
    number: float,
    normalizer: str,
    dropout: float,
    seed: Tensor,
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, edge_key, edge_value, bias and vector; empty where `needs` says no."""
    job = Job(
        query, key, value, edge_key, edge_value, bias, vector, weights, kind, activation, root, number, normalizer,
        dropout, seed,
    )  # fmt: skip
    tensors = query, key, value, edge_key, edge_value, bias
    grads = [x.new_empty(x.shape) if x is not None and need else query.new_empty(0) for x, need in zip(tensors, needs)]
    tables = [table_of(grad) if need else None for grad, need in zip(grads, needs)]
    grad_vector = query.new_empty(0, dtype=torch.float32)
    num_rows, num_heads = query.shape[:2]
    if packing := job.packing(lists):
        is_shared = needs[5] and bias is not None and bias.shape[1] < num_heads
        of_heads = query.new_empty(len(lists[2]), num_heads, dtype=torch.float32) if is_shared else grads[5]
        launch_graphs(
            kernels.backward, packing, lists[0], job.high, job.operands, table_of(grad_out.contiguous()), *tables[:3],
            table_of(of_heads) if needs[5] else None,
        )  # fmt: skip
        if is_shared:
            grads[5].copy_(of_heads.sum(1, keepdim=True))
        grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias = grads
        return grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias, grad_vector
    is_centered = normalizer in CENTERED and any(needs[place] for place in (0, 1, 3, 5, 6))
    centers = query.new_empty(num_rows if is_centered else 0, num_heads, dtype=torch.float32)
    rows = (
        table_of(out), table_of(grad_out.contiguous()), table_of(stats), table_of(centers) if is_centered else None,
        lists[0],
    )  # fmt: skip
    work, by_receiver = job.work(lists[0]), Lists(*lists[:3])
    if is_centered and job.given:
        for form, chosen in job.whole_rows(work, job.high.block):
            launch(
                center_rows, ceiling(len(chosen), form.rows), form, *job.operands, by_receiver, chosen, len(chosen),
                *rows,
            )  # fmt: skip
    if is_centered or needs[0] or any(needs[3:]):
        to_receivers = [tables[0], None, None, *tables[3:6], None]
        shared = Shared(*(x is not None and x.shape[1] < num_heads for x in (edge_key, edge_value, bias)))
        parts = job.sums(work, query.shape[-1]) if needs[0] else None
        left = []
        for form, pieces in job.deal(work):
            programs = programs_of(pieces, form)
            if needs[6]:
                programs = min(programs, MOST_PROGRAMS)
                left.append(query.new_empty(programs, num_heads, query.shape[-1], dtype=torch.float32))
                to_receivers[-1] = table_of(left[-1])
            launch(
                backward_receivers, programs, form, *job.operands, by_receiver, pieces, *rows, *to_receivers,
                parts if form is job.high else None, SHARED=shared,
            )  # fmt: skip
        job.merge(work, parts, tables[0], of_keys=True)
        if needs[6]:
            # Without receivers no program ran, and none left a part.
            none = query.new_zeros(0, num_heads, query.shape[-1], dtype=torch.float32)
            grad_vector = torch.cat([none, *left]).sum(0)
    if needs[1] or needs[2]:
        work, by_sender = job.work(lists[3]), Lists(*lists[3:])
        to_senders = [None, tables[1], tables[2], None, None, None, None]
        key_parts = job.sums(work, query.shape[-1]) if needs[1] else None
        value_parts = job.sums(work, value.shape[-1]) if needs[2] else None
        for form, pieces in job.deal(work):
            is_high = form is job.high
            launch(
                backward_senders, programs_of(pieces, form), form, *job.operands, by_sender, pieces, *rows, *to_senders,
                key_parts if is_high else None, value_parts if is_high else None,
            )  # fmt: skip
        job.merge(work, key_parts, tables[1], of_keys=True)
        job.merge(work, value_parts, tables[2], of_keys=False)
    grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias = grads
    return grad_query, grad_key, grad_value, grad_edge_key, grad_edge_value, grad_bias, grad_vector


def edges_backward_shapes(grad_out, out, stats, weights, query, key, value, edge_key, edge_value, bias, vector, lists,
                          kind, activation, root, number, normalizer, dropout, seed, needs):  # fmt: skip
    """What tracers see of the gradients."""
    tensors = query, key, value, edge_key, edge_value, bias
    grads = [x.new_empty(x.shape) if x is not None and need else query.new_empty(0) for x, need in zip(tensors, needs)]
    return *grads, query.new_empty(vector.shape if needs[6] else 0, dtype=torch.float32)


def _differentiate(grad_out: Tensor, kept: list, arguments: list, needs: list[bool]) -> list[Tensor | None]:
    # A score that is blind to the content has queries and keys of no features.
    needs = [need and x.shape[-1] > 0 for need, x in zip(needs[:7], arguments)]
    found = attend_edges_backward(grad_out, *kept, *arguments, needs)
    return [grad if need else None for need, grad in zip(needs, found)]


def edges_formula(query, key, value, edge_key, edge_value, bias, vector, lists, kind, activation, root, number,
                  normalizer, dropout, seed):  # fmt: skip
    """The output in plain torch."""
    if vector is None:
        vector = query.new_ones(query.shape[-1], dtype=torch.float32)
    score = score_of(kind, number, activation, root, vector)
    factors = None
    if dropout > 0:
        factors = drawn(seed, dropout, 1, (0, query.shape[1]), (0, len(lists[2])))[0].t()
    return formula.over_edges(
        query, key, value, edge_key, edge_value, bias, lists, score, normalizer_of(normalizer), factors
    )


# Graphs that torch.compile captures of itself ("reduce-overhead") have copies of their inputs. `work_of` does not know
# such lists, would deal out their rows and read numbers back, which nobody may while a graph is captured.
TAGS = (torch.Tag.cudagraph_unsafe,)
attend_edges_backward = define("triton_edges_backward", edges_backward, edges_backward_shapes, tags=TAGS)
GRADIENT = Gradient(_differentiate, edges_formula, keeps=(0, 1, 2))
attend_edges = define("triton_edges", edges, edges_shapes, GRADIENT, TAGS)


class Job:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, query, key, value, edge_key, edge_value, bias, vector, weights, kind, activation, root, number,
                 normalizer, dropout, seed):  # fmt: skip
        self.given = normalizer in GIVEN
        carries = edge_key is not None or edge_value is not None
        shares = not carries and not self.given and kind != "Blind" and is_same(key, value)
        tables = [None if x is None else table_of(x) for x in (query, key, value, edge_key, edge_value, bias)]
        key_dim, value_dim = query.shape[-1], value.shape[-1]
        distances = chain.from_iterable((table.row, table.head) for table in tables[:5] if table is not None)
        self.forms = forms_of(
            kind, activation, root, normalizer, self.given, dropout > 0, carries, shares, query.shape[1], key_dim,
            value_dim, math.gcd(MOST_AT_ONCE, key_dim, value_dim, *distances),
        )  # fmt: skip
        self.high, self.lows = self.forms[0], tuple(form.block for form in self.forms[1:])
        made = None if weights is None or not self.given else table_of(weights)
        vector = None if vector is None else vector.contiguous()
        self.operands = Operands(*tables, vector, made, float(number), float(dropout), seed)
        self.query, self.value = query, value
        is_alike = kind == "Blind" or query.dtype == value.dtype  # scores may be made of what is no longer as stored
        self.may_pack = not carries and len(query) == len(key) and is_alike

    def packing(self, lists: Sequence[Tensor]) -> Packing | None:
        """The graphs that the lists are made of, where there are kernels for them."""
        return packing_for(self.high, self.value.itemsize, lists) if self.may_pack else None

    def work(self, offsets: Tensor) -> Work:
        """The rows that are bound by these offsets, dealt out to programs of this call's forms."""
        return work_of(offsets, self.lows)

    def deal(self, work: Work) -> list[tuple[Form, Pieces]]:
        """The pieces of each level, with how they are compiled."""
        return [
            (form, Pieces(*level, len(level.rows)))
            for form, level in zip(self.forms, work.levels, strict=True)
            if len(level.rows) > 0
        ]

    def whole_rows(self, work: Work, block: int = SCORES_A_BLOCK) -> list[tuple[Form, Tensor]]:
        """The rows of each level, hubs in one piece."""
        high = self.high._replace(block=block), work.high_rows
        low = [(form, level.rows) for form, level in zip(self.forms[1:], work.levels[1:], strict=True)]
        return [(form, rows) for form, rows in (high, *low) if len(rows)]

    def score(self, work: Work, lists: Lists, scores: Tensor) -> None:
        """The score of every edge, by the caller's numbers."""
        for form, pieces in self.deal(work):
            scoring = form._replace(given=False)
            launch(score_edges, programs_of(pieces, form), scoring, *self.operands, lists, pieces, table_of(scores))

    def normalize(self, work: Work, lists: Lists, scores: Tensor) -> None:
        """Scores into weights, in place; that of all alike is the mean."""
        made, name = table_of(scores), self.high.normalizer
        name = "Softmax" if name == "Mean" else name
        for form, rows in self.whole_rows(work):
            programs = ceiling(len(rows), form.rows)
            launch(normalize_rows, programs, form, made, lists, rows, len(rows), warps=4, NORMALIZER=name)

    def sums(self, work: Work, dim: int) -> Table | None:
        """A workspace for sums of hubs, where there are hubs."""
        if work.num_slots == 0:
            return None
        return table_of(self.query.new_empty(work.num_slots, self.query.shape[1], dim, dtype=torch.float32))

    def parts(self, work: Work, dim: int) -> tuple[Table | None, Table | None, Table | None]:
        """The same, and the two numbers of each part that a softmax is put together by."""
        sums = self.sums(work, dim)
        if sums is None or self.high.normalizer != "Softmax":
            return sums, None, None
        most, total = self.query.new_empty(2, work.num_slots, self.query.shape[1], dtype=torch.float32)
        return sums, table_of(most), table_of(total)

    def merge(self, work: Work, sums: Table | None, out: Table | None, *, of_keys: bool) -> None:
        """Adds the parts of each hub, where there are hubs."""
        if sums is None:
            return
        form = self.high._replace(normalizer="Identity")
        if of_keys:
            form = form._replace(value_dim=form.key_dim, value_width=form.key_width)
        launch(merge, work.num_hubs, form, sums, None, None, work.high_rows, work.hub_slots, out, None)


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one in memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def programs_of(pieces: Pieces, form: Form) -> int:
    """How many programs take all pieces."""
    return ceiling(pieces.count, form.rows)


def table_of(x: Tensor) -> Table:
    """A tensor `(row, head, dim)` or `(row, head)`, whose last axis is one run of memory, as kernels take it."""
    is_shared = x.shape[1] == 1 and x.numel() > 0
    return Table(x, x.stride(0), 0 if is_shared else x.stride(1))
