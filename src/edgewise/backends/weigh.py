"""Weights on request, from the same blocks that `gather` sums with; on a device, without gradients, from kernels.

What kernels leave to the blocks is all pairs of a table: a list of these holds more than the blocks do.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from edgewise.backends import triton
from edgewise.backends.call import Call
from edgewise.backends.gather import SLICE, block_weights, edge_weights, pair_size, row_weights, table_blocks
from edgewise.backends.rows import TableScoreRows
from edgewise.errors import ShapeError
from edgewise.graph import Weights
from edgewise.neighborhood import Edges, Ranges
from edgewise.neighborhood.checks import count
from edgewise.neighborhood.index import integers, unchecked


def weigh(call: Call, top: int | None, queries: Tensor | list[int] | None) -> Weights:
    """The weights of a call, of the chosen queries, all of them or the strongest of each row."""
    top = None if top is None else count("attention_weights", "top", top)
    chosen = None if queries is None else chosen_queries(queries, call.num_queries, call.query.device)
    neighborhood, is_fused = call.neighborhood, _is_fused(call)
    if isinstance(neighborhood, Edges):
        weighted_edges = _weigh_edges(call, neighborhood, is_fused, top, chosen)
    elif is_fused and isinstance(neighborhood, Ranges) and top and min(top, call.num_keys) <= triton.MAX_TOP:
        weighted_edges = _weigh_ranges(call, neighborhood, top, chosen)
    elif chosen is not None:
        weighted_edges = _weigh_rows(call.in_float32(), top, chosen)
    else:
        weighted_edges = _weigh_table(call.in_float32(), top)
    senders, receivers, values = weighted_edges
    return Weights(senders, receivers, values.to(call.query.dtype), call.num_keys, call.num_queries)


def _is_fused(call: Call) -> bool:
    """Whether kernels weigh, which give no gradient."""
    if call.query.device.type not in triton.DEVICES:
        return False
    return not (torch.is_grad_enabled() and any(x.requires_grad for x in call.held)) and not triton.refusals(call)


def chosen_queries(queries: Tensor | list[int], num_queries: int, device: torch.device) -> Tensor:
    """The positions of the chosen queries, ascending, each once.

    Args:
        queries: positions, or a mask `(query)`.
        num_queries: how many queries there are.
        device: where the positions are wanted.

    Raises:
        ShapeError: a query does not exist, or the mask is not one number a query.
    """
    chosen = torch.as_tensor(queries, device=device)
    if chosen.dtype == torch.bool:
        if chosen.shape != (num_queries,):
            raise ShapeError(
                f"attention_weights: a mask of queries must have the shape ({num_queries},), one for each query, "
                f"not {tuple(chosen.shape)}."
            )
        return chosen.nonzero().squeeze(-1)

    chosen = integers("attention_weights", "queries", chosen).flatten()
    if chosen.numel() != 1:
        chosen = chosen.unique()
    if chosen.numel() > 0 and not 0 <= (low := int(chosen[0])) <= (high := int(chosen[-1])) < num_queries:
        raise ShapeError(
            f"attention_weights: query {low if low < 0 else high} is chosen, but they are 0 … {num_queries - 1}."
        )

    return chosen


def _weigh_edges(
    call: Call, edges: Edges, is_fused: bool, top: int | None, chosen: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    senders, receivers = edges.senders, edges.receivers
    if chosen is not None:  # a graph of the edges of these queries alone
        if chosen.shape[0] == 1:
            is_wanted = receivers == chosen
        else:
            is_wanted = torch.zeros(call.num_queries, dtype=torch.bool, device=chosen.device)
            is_wanted = is_wanted.index_fill(0, chosen, True).index_select(0, receivers)

        wanted = is_wanted.nonzero().squeeze(-1)
        senders, receivers = senders[wanted], receivers[wanted]
        chosen_rows = torch.searchsorted(chosen, receivers)
        edges = unchecked(edges, senders=senders, receivers=chosen_rows, num_receivers=chosen.shape[0])
        bias = None if call.bias is None else call.bias[..., wanted]
        edge_key = None if call.edge_key is None else call.edge_key.index_select(-2, wanted)
        query = call.query.index_select(-2, chosen)
        call = replace(call, query=query, neighborhood=edges, bias=bias, edge_key=edge_key)

    call = call.in_float32()
    values = triton.weights(call) if is_fused else edge_weights(call, edges).movedim(0, -1)
    if top is None:
        return senders, receivers, values

    by_value = values.argsort(dim=-1, descending=True, stable=True)
    order = by_value.gather(-1, receivers[by_value].argsort(dim=-1, stable=True))
    # Rows are equally long in every head, so that the same places of the sorted list hold the strongest in all of them.
    sorted_receivers = receivers.sort(stable=True).values
    first = torch.searchsorted(sorted_receivers, sorted_receivers)
    strongest = (torch.arange(len(receivers), device=values.device) - first < top).nonzero().squeeze(-1)
    order = order[..., strongest]

    return senders[order], sorted_receivers[strongest], values.gather(-1, order)


def _weigh_ranges(call: Call, ranges: Ranges, top: int, chosen: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    positions = torch.arange(call.num_queries, device=call.query.device) if chosen is None else chosen
    values, keys = triton.strongest(call, min(top, call.num_keys), None if chosen is None else positions)
    if values.numel() == 0:
        return _nothing(values.shape[:-2], call.query)
    starts, stops = torch.broadcast_tensors(*ranges.kernel_runs(positions, call.num_queries, call.num_keys))
    counts = stops - starts
    first = torch.where(counts > 0, starts, call.num_keys)
    return _in_slots(values, keys, counts, first.flatten(0, -2).amin(0) if first.dim() > 1 else first, positions)


def _weigh_rows(call: Call, top: int | None, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of some rows of a table, of which no other row is computed."""
    parts = []
    at_once = max(1, SLICE // max(1, call.num_keys * pair_size(call) * call.batch_size))
    for rows in chosen.split(at_once) if chosen.numel() > at_once else (chosen,):
        first, last = 0, call.num_keys
        if rows.numel() > 0:
            span = int(rows[0]), int(rows[-1]) + 1
            first, last = call.neighborhood.key_span(*span, call.num_queries, call.num_keys)
        weights, table = row_weights(call, rows, first, last)
        parts.append(_listed(weights, table, rows, first, top))
    return _joined(parts)


def _weigh_table(call: Call, top: int | None) -> tuple[Tensor, Tensor, Tensor]:
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    blocks = list(table_blocks(call))
    strongest = None if top is None or len(blocks) == 1 else _Strongest(call.num_queries * min(top, call.num_keys))
    for start, stop, first, last in blocks:
        weights, table = block_weights(call, start, stop, first, last)
        part = _listed(weights, table, torch.arange(start, stop, device=weights.device), first, top)
        if strongest is None:
            parts.append(part)
        else:
            strongest.add(part)
    return _joined(parts) if strongest is None else strongest.found()


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Lists of weights as one."""
    if len(parts) == 1:
        return parts[0]
    senders, receivers, values = zip(*parts)
    return torch.cat(senders, -1), torch.cat(receivers), torch.cat(values, -1)


class _Strongest:
    """The strongest weights of all blocks, in tables that were made beforehand.

    Small results that stay, among the large blocks that come and go, would keep the allocator from giving out the same
    memory for every block: it took several times as much.
    """

    def __init__(self, most: int):
        self.most, self.filled = most, 0
        self.tables: tuple[Tensor, ...] | None = None

    def add(self, part: tuple[Tensor, Tensor, Tensor]) -> None:
        """Write down the senders, receivers and values of one block."""
        if self.tables is None:
            self.tables = tuple(x.new_empty(*x.shape[:-1], self.most) for x in part)
        stop = self.filled + part[1].shape[0]
        for table, x in zip(self.tables, part, strict=True):
            table[..., self.filled : stop] = x
        self.filled = stop

    def found(self) -> tuple[Tensor, Tensor, Tensor]:
        """What was written down."""
        assert self.tables is not None
        senders, receivers, values = (table[..., : self.filled] for table in self.tables)
        return senders, receivers, values


def _listed(
    weights: Tensor, table: TableScoreRows, positions: Tensor, first: int, top: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of a block as a list. A batch shares one list of pairs: what a member may not see has weight 0."""
    number = weights.shape[-1] if top is None else min(top, weights.shape[-1])
    if table.is_whole:  # every pair, and no slot is vacant
        receivers = positions.unsqueeze(-1).expand(-1, number).flatten()
        if top is None:
            columns = torch.arange(first, first + number, device=weights.device)
            return columns.expand(positions.shape[0], -1).flatten(), receivers, weights.flatten(-2)
        strongest, columns = weights.topk(number, -1)
        return (columns + first if first else columns).flatten(-2), receivers, strongest.flatten(-2)

    mask = table.mask
    anyone = mask.flatten(0, -3).any(0) if mask.dim() > 2 else mask
    if top is None:
        rows, columns = anyone.nonzero(as_tuple=True)
        return columns + first, positions[rows], weights[..., rows, columns]

    strongest, columns = torch.where(mask, weights, -torch.inf).topk(number, -1)
    neighbor = anyone.to(torch.uint8).argmax(-1) if anyone.shape[-1] > 0 else positions  # or no slot exists
    return _in_slots(strongest, columns + first, mask.sum(-1), neighbor + first, positions)


def _in_slots(
    strongest: Tensor, keys: Tensor, counts: Tensor, neighbor: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The strongest weights of some queries as a list: senders, receivers, values.

    A slot stands where some member of the batch has a neighbor for it; in the others it names a neighbor of that query,
    with weight 0.

    Args:
        strongest, keys: `(*batch, query, top)`, −∞ where a member lacks neighbors.
        counts: how many neighbors each query has, `(*batch, query)` or less.
        neighbor, positions: a neighbor of each query in some member, and its place among all queries, `(query)`.
    """
    slots = counts.unsqueeze(-1) > torch.arange(strongest.shape[-1], device=strongest.device)
    rows, columns = (slots.flatten(0, -3).any(0) if slots.dim() > 2 else slots).nonzero(as_tuple=True)
    values, keys = strongest[..., rows, columns], keys[..., rows, columns]
    vacant = values == -torch.inf
    return torch.where(vacant, neighbor[rows], keys), positions[rows], torch.where(vacant, 0.0, values)


def _nothing(batch: Sequence[int], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The list of no weights."""
    none = torch.zeros(0, dtype=torch.int64, device=like.device)
    return none, none, like.new_zeros(*batch, 0)
