"""The kernels over edges as torch operators: plain tensors in and out, with shapes for tracing, and gradients."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from edgewise.backends import formula
from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.formula import EdgeInputs, value_of
from edgewise.backends.lower import Lowered
from edgewise.backends.triton.edges.backward import (
    EdgeGradients,
    ReceiverState,
    Shared,
    backward_receivers,
    backward_senders,
    delta_rows,
    merge_deltas,
    merge_sums,
)
from edgewise.backends.triton.edges.forward import Operands, Parts, forward, merge, normalize_rows, score_edges
from edgewise.backends.triton.edges.layout import by_batch, forms_of, inputs_of, launch, launch_tiles
from edgewise.backends.triton.edges.tiles import EdgeLists, Form, HeadTable
from edgewise.backends.triton.edges.work import Work, work_of
from edgewise.backends.triton.formulas import dropout_factors
from edgewise.backends.triton.graphs import kernels
from edgewise.backends.triton.graphs.launch import launch_graphs, packing_for
from edgewise.backends.triton.graphs.work import Packing
from edgewise.backends.triton.launch import Common
from edgewise.backends.triton.sizes import MAX_GROUPS, ceiling

GIVEN = ("Hardmax", "Sparsemax", "Entmax15")
"""Normalizers that see a whole row before they weigh one edge: their weights, a number an edge and head, are stored."""
CENTERED = ("Softmax", "Sparsemax", "Entmax15")
"""Normalizers whose derivative subtracts a number of the row."""
MAX_PROGRAMS = 2048
"""Programs of a pass that sums something over all rows, each of which leaves one part."""
MAX_UNIT = 16
"""Numbers that it is worth to know the distances between rows to be multiples of: 16 bytes are read at once."""
ROW_NUMBERS, ROW_WARPS = 128, 1
"""Scores of a long row, of all heads of a program, that are normalized at once, and the warps of that program."""
HUB_BLOCK, HUB_WARPS = 2048, 8
"""The same of a hub, of which a program has one head: its walks over the row are what all others wait for."""
# Graphs that torch.compile captures of itself ("reduce-overhead") have copies of their inputs. `work_of` does not know
# such lists, would deal out their rows and read numbers back, which is forbidden while a graph is captured.
TAGS = (torch.Tag.cudagraph_unsafe,)


def over_edges(lowered: Lowered, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`."""
    inputs, batch = inputs_of(lowered, seed)
    out, _, _ = attend_edges(*inputs)
    return by_batch(out, batch)


def forward_edges(inputs: EdgeInputs) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over lists of edges, and what the gradient needs.

    Returns:
        `(receiver, head, value_dim)`; ln Σ exp s `(receiver, head)` of softmax; the weights `(edge, head)` of
        normalizers that have them made beforehand. What there is not is empty.
    """
    job, lists = EdgeKernelArguments(inputs), inputs.lists
    out, logsumexp, weights = edges_shapes(inputs)
    if packing := job.packing(lists):
        launch_graphs(kernels.forward, packing, lists[0], job.high, job.operands, table_of(out))
        return out, logsumexp, weights

    by_receiver, work = Common(EdgeLists(*lists[:3])), job.work(lists[0])
    if job.given:
        job.score(work, by_receiver, weights)
        job.normalize(work, by_receiver, weights)
        job.operands = job.operands._replace(weights=table_of(weights))

    parts, outputs = job.parts(work, out.shape[-1]), (Common(table_of(out)), Common(table_of(logsumexp)))
    arguments = Common(job.operands), by_receiver, work.common, *outputs, *(parts or (None, None, None))
    launch_tiles(forward, work.num_tiles, job.forms(work), *arguments)
    if parts is not None:
        launch(merge, work.num_hubs, job.high, parts, work.high_rows, work.hub_slots, *outputs)
    return out, logsumexp, weights


def edges_shapes(inputs: EdgeInputs) -> tuple[Tensor, Tensor, Tensor]:
    """What tracers see of the output."""
    query, num_heads = inputs.query, inputs.query.shape[1]
    num_rows = query.shape[0] if inputs.normalizer == "Softmax" else 0
    num_weights = inputs.lists[2].shape[0] if inputs.normalizer in GIVEN else 0
    logsumexp, weights = (query.new_empty(rows, num_heads, dtype=torch.float32) for rows in (num_rows, num_weights))
    # As exact as the queries, also where the values stay as they are stored: the gradient subtracts dO · o.
    return query.new_empty(query.shape[0], num_heads, value_of(inputs).shape[-1]), logsumexp, weights


def weights(lowered: Lowered) -> Tensor:
    """α of every edge, `(*batch, edge)`, in the caller's order; without a gradient."""
    inputs, batch = inputs_of(lowered, lowered.call.query.new_empty(1))
    job, lists = EdgeKernelArguments(inputs._replace(dropout=0.0)), inputs.lists
    by_receiver, work = Common(EdgeLists(*lists[:3])), job.work(lists[0])
    edge_weights = inputs.query.new_empty(len(lists[2]), inputs.query.shape[1], dtype=torch.float32)
    job.score(work, by_receiver, edge_weights)
    if inputs.normalizer == "Sigmoid":
        edge_weights.sigmoid_()
    elif inputs.normalizer != "Identity":
        job.normalize(work, by_receiver, edge_weights)
    return edge_weights.t().unflatten(0, batch) if batch else edge_weights.squeeze(1)


def backward_edges(grad_out: Tensor, outputs: list[Tensor], inputs: EdgeInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradients of query, key, value, edge_key, edge_value, bias and vector; empty where `needs` says no."""
    out, logsumexp, weights = outputs
    job, query, value, lists = EdgeKernelArguments(inputs, weights), inputs.query, value_of(inputs), inputs.lists
    # Where the score does not read queries and keys, they are left without features.
    tensors: Any = inputs[:7]
    packing = job.packing(lists)
    here = [need and not (packing and index == 5) for index, need in enumerate(needs)]
    grads = [x.new_empty(x.shape) if need else query.new_empty(0) for x, need in zip(tensors, here)]
    needs = [need and x.shape[-1] > 0 for need, x in zip(needs, tensors)]
    if packing:
        return backward_graphs(grad_out, packing, job, inputs, grads, needs)

    tables = [table_of(grad) if need else None for grad, need in zip(grads[:6], needs)]
    num_rows, num_heads = query.shape[:2]
    is_centered = inputs.normalizer in CENTERED and any(needs[index] for index in (0, 1, 3, 5, 6))
    deltas = query.new_empty(num_rows if is_centered else 0, num_heads, dtype=torch.float32)
    of_rows = table_of(out), table_of(grad_out.contiguous()), table_of(logsumexp)
    rows = Common(ReceiverState(*of_rows, table_of(deltas) if is_centered else None, lists[0]))
    operands, work, by_receiver = Common(job.operands), job.work(lists[0]), Common(EdgeLists(*lists[:3]))
    if is_centered and job.given:
        job.put_deltas(work, operands, by_receiver, rows, table_of(deltas))
    if is_centered or needs[0] or any(needs[3:]):
        of_edges = inputs.edge_key, inputs.edge_value, inputs.bias
        shared = Shared(*(x is not None and x.shape[1] < num_heads for x in of_edges))
        parts = job.sums(work, query.shape[-1]) if needs[0] else None
        gradients = EdgeGradients(tables[0], None, None, tables[3], tables[4], tables[5], None)
        arguments = operands, by_receiver, work.common, rows
        forms = job.forms(work, halves=needs[6])
        if not needs[6]:
            places = Common(gradients), parts, 0, 0
            launch_tiles(backward_receivers, work.num_tiles, forms, *arguments, *places, SHARED=shared)
        d_vectors = []
        for form, tiles in zip(forms, work.levels.values(), strict=True) if needs[6] else ():
            programs = min(len(tiles), MAX_PROGRAMS)
            d_vectors.append(query.new_empty(programs, num_heads, query.shape[-1], dtype=torch.float32))
            wanted = Common(gradients._replace(vector=table_of(d_vectors[-1])))
            # Multiples of 16, for which no kernel is compiled again.
            places = wanted, parts, 16 * tiles.start, 16 * tiles.stop
            launch_tiles(backward_receivers, programs, (form,), *arguments, *places, SHARED=shared)

        job.merge(work, parts, None, tables[0], None)
        if needs[6]:  # without receivers no program runs, and none leaves a part
            grads[6] = torch.cat(d_vectors).sum(0) if d_vectors else grads[6].zero_()
    if needs[1] or needs[2]:
        work = job.work(lists[3])
        inputs_of_senders = operands, Common(EdgeLists(*lists[3:]))
        to_senders = Common(EdgeGradients(None, tables[1], tables[2], None, None, None, None))
        key_parts = job.sums(work, query.shape[-1]) if needs[1] else None
        value_parts = job.sums(work, value.shape[-1]) if needs[2] else None

        forms, to = job.forms(work, halves=True), (to_senders, key_parts, value_parts)
        launch_tiles(backward_senders, work.num_tiles, forms, *inputs_of_senders, work.common, rows, *to)
        job.merge(work, key_parts, value_parts, tables[1], tables[2])

    return grads


def backward_graphs(
    grad_out: Tensor,
    packing: Packing,
    job: "EdgeKernelArguments",
    inputs: EdgeInputs,
    grads: list[Tensor],
    needs: list[bool],
) -> list[Tensor]:
    """The same where the lists are small graphs; no edge has keys or values of its own there, no score a vector."""
    query, bias, of_heads = inputs.query, inputs.bias, None
    if needs[5]:
        assert bias is not None
        # A head after the other: a program stores its numbers of one head side by side.
        dtype = torch.float32 if bias.shape[1] < query.shape[1] else bias.dtype
        grads[5] = of_heads = query.new_empty(query.shape[1], len(bias), dtype=dtype).t()

    of_query, of_key, of_value = (table_of(grad) if need else None for grad, need in zip(grads[:3], needs))
    gradients = kernels.GraphGradients(of_query, of_key, of_value, None if of_heads is None else table_of(of_heads))
    launch_graphs(
        kernels.backward, packing, inputs.lists[0], job.high, job.operands, table_of(grad_out.contiguous()), gradients
    )
    if of_heads is not None and bias is not None and bias.shape[1] < query.shape[1]:
        grads[5] = of_heads.sum(1, keepdim=True).to(bias.dtype)

    return grads


def edges_formula(inputs: EdgeInputs) -> Tensor:
    """The output in plain torch."""
    factors = None
    if inputs.dropout > 0:
        num_heads, num_edges = inputs.query.shape[1], len(inputs.lists[2])
        factors = dropout_factors(inputs.seed, inputs.dropout, 1, (0, num_heads), (0, num_edges))[0].t()
    return formula.over_edges(inputs, factors)


attend_edges = define_with_gradient(
    "triton_edges", EdgeInputs, forward_edges, edges_shapes, backward_edges, edges_formula, num_differentiable=7,
    saved_outputs=(0, 1, 2), tags=TAGS,
)  # fmt: skip


class EdgeKernelArguments:
    """The arguments of an operator as the kernels take them."""

    def __init__(self, inputs: EdgeInputs, weights: Tensor | None = None):
        query, key, value, edge_key, edge_value, bias, vector = inputs[:7]
        sums, value, edge_value = value is None, value_of(inputs), edge_key if inputs.both else edge_value
        score_name, normalizer = inputs.kind, inputs.normalizer
        self.given = normalizer in GIVEN
        carries = edge_key is not None or edge_value is not None
        shares = not carries and not self.given and score_name != "Constant" and is_same(key, value)
        tables = [None if x is None else table_of(x) for x in (query, key, value, edge_key, edge_value, bias)]
        key_dim, value_dim = query.shape[-1], value.shape[-1]
        distances = chain.from_iterable((table.row, table.head) for table in tables[:5] if table is not None)
        is_steep = score_name == "GATv2" and not 0 < inputs.number <= 1
        unit = math.gcd(MAX_UNIT, key_dim, value_dim, *distances)
        self.form = Form(
            score_name, inputs.activation, inputs.root, is_steep, normalizer, self.given, inputs.dropout > 0, carries,
            shares, sums, inputs.both, query.shape[1], key_dim, value_dim, unit=unit,
        )  # fmt: skip
        self.high, *low = forms_of(self.form)
        self.lows = tuple([form.block for form in low])
        weight_table = None if weights is None or not self.given else table_of(weights)
        vector = None if vector is None else vector.contiguous()
        numbers = float(inputs.number), float(inputs.dropout), inputs.seed
        self.operands = Operands(*[*tables, vector, weight_table, *numbers])
        self.query, self.value = query, value
        is_alike = (
            score_name == "Constant" or query.dtype == value.dtype
        )  # scores may be computed from tensors that differ from the stored ones
        reach = 0 if bias is None else max(bias.stride(0), 1) * bias.shape[0]  # numbers that 32 bits must count
        self.may_pack = not carries and query.shape[0] == key.shape[0] and is_alike and reach < 2**31

    def packing(self, lists: Sequence[Tensor]) -> Packing | None:
        """The graphs that the lists are made of, where there are kernels for them."""
        return packing_for(self.high, self.value.itemsize, lists) if self.may_pack else None

    def work(self, offsets: Tensor) -> Work:
        """The rows that are bound by these offsets, dealt out to programs of this call's forms."""
        return work_of(offsets, self.lows)

    def forms(self, work: Work, halves: bool = False) -> tuple[Form, ...]:
        """How the tiles of each level that has rows are compiled, see `forms_of`."""
        forms = forms_of(self.form, halves)
        return tuple([forms[level] for level in work.levels])

    def score(self, work: Work, lists: Common, scores: Tensor) -> None:
        """The score of every edge, by the caller's numbers."""
        forms = tuple([form._replace(given=False) for form in self.forms(work)])
        launch_tiles(score_edges, work.num_tiles, forms, self.operands, lists, work.common, table_of(scores))

    def normalize(self, work: Work, lists: Common, scores: Tensor) -> None:
        """Scores into weights, in place; that of all alike is the mean."""
        weight_table, name = table_of(scores), self.high.normalizer
        name = "Softmax" if name == "Mean" else name
        high, *low = forms_of(self.form)
        hub_heads = 1 if high.num_heads <= MAX_GROUPS else high.heads
        levels: list[tuple[Form, Tensor, int | None]] = [
            (high._replace(heads=hub_heads, block=HUB_BLOCK // hub_heads), work.high_rows[: work.num_hubs], HUB_WARPS),
            (high._replace(block=max(1, ROW_NUMBERS // high.heads)), work.high_rows[work.num_hubs :], ROW_WARPS),
            *((form, rows, None) for form, rows in zip(low, work.low_rows, strict=True)),
        ]
        for form, rows, warps in levels:
            programs = ceiling(len(rows), form.rows)
            launch(normalize_rows, programs, form, weight_table, lists, rows, len(rows), warps=warps, NORMALIZER=name)

    def put_deltas(self, work: Work, operands: Common, lists: Common, rows: Common, deltas: HeadTable) -> None:
        """Δ of every row, where its weights were made beforehand; of hubs from their parts."""
        tops, bottoms = self.numbers_of_parts(work)
        arguments = operands, lists, work.common, rows, tops, bottoms
        launch_tiles(delta_rows, work.num_tiles, self.forms(work), *arguments)
        if tops is not None:
            hubs = work.high_rows, work.hub_slots
            launch(merge_deltas, work.num_hubs, self.high, tops, bottoms, *hubs, deltas)

    def sums(self, work: Work, dim: int) -> HeadTable | None:
        """A workspace for sums of hubs, where there are hubs."""
        if work.num_slots == 0:
            return None
        return table_of(self.query.new_empty(work.num_slots, self.query.shape[1], dim, dtype=torch.float32))

    def parts(self, work: Work, dim: int) -> Parts | None:
        """The same, and the two numbers of each part that a softmax is put together by."""
        sums = self.sums(work, dim)
        if sums is None or self.high.normalizer != "Softmax":
            return None if sums is None else Parts(sums, None, None)
        return Parts(sums, *self.numbers_of_parts(work))

    def numbers_of_parts(self, work: Work) -> tuple[HeadTable | None, HeadTable | None]:
        """A workspace for two numbers of each part and head, where there are hubs."""
        if work.num_slots == 0:
            return None, None
        first, second = self.query.new_empty(2, work.num_slots, self.query.shape[1], dtype=torch.float32)
        return table_of(first), table_of(second)

    def merge(
        self,
        work: Work,
        key_parts: HeadTable | None,
        value_parts: HeadTable | None,
        to_keys: HeadTable | None,
        to_values: HeadTable | None,
    ) -> None:
        """Adds the parts of each hub's gradients, where there are hubs: of queries or keys, and of values."""
        if key_parts is not None or value_parts is not None:
            parts = key_parts, value_parts, work.high_rows, work.hub_slots
            launch(merge_sums, work.num_hubs, self.high, *parts, to_keys, to_values)


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one in memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def table_of(x: Tensor) -> HeadTable:
    """A tensor `(row, head, dim)` or `(row, head)`, whose last axis is one run of memory, as kernels take it."""
    is_shared = x.shape[1] == 1 and x.numel() > 0
    return HeadTable(x, x.stride(0), 0 if is_shared else x.stride(1))
