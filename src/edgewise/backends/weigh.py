"""Weights on request, from the same blocks that `gather` sums with; on a device without gradients, from its kernels."""

import torch
from torch import Tensor

from edgewise.backends import triton
from edgewise.backends.call import Call
from edgewise.backends.gather import block_weights, edge_weights, table_blocks
from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood import Edges
from edgewise.trace import Weights


def weigh(call: Call, top: int | None, queries: Tensor | list[int] | None) -> Weights:
    """The weights of a call, of the chosen queries, all of them or the strongest of each row."""
    if top is not None and top < 1:
        raise SettingError(f"attention_weights: top must be at least 1, not {top}.")
    chosen = _chosen(call, queries)
    dtype = call.query.dtype
    call = call.in_float32()
    if isinstance(call.neighborhood, Edges):
        senders, receivers, values = _weigh_edges(call, call.neighborhood, top, chosen)
    else:
        senders, receivers, values = _weigh_table(call, top, chosen)
    return Weights(senders, receivers, values.to(dtype), call.num_keys, call.num_queries)


def _chosen(call: Call, queries: Tensor | list[int] | None) -> Tensor | None:
    if queries is None:
        return None
    chosen = torch.as_tensor(queries, dtype=torch.int64, device=call.query.device).flatten()
    outside = chosen[(chosen < 0) | (chosen >= call.num_queries)]
    if outside.numel() > 0:
        raise ShapeError(
            f"attention_weights: query {int(outside[0])} is chosen, but they are 0 … {call.num_queries - 1}."
        )
    return chosen


def _weigh_edges(call: Call, edges: Edges, top: int | None, chosen: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    is_differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in call.tensors.values())
    is_fused = not is_differentiated and not triton.refusals(call)
    values = triton.weights(call) if is_fused else edge_weights(call, edges).movedim(0, -1)
    kept = torch.arange(edges.num_edges, device=values.device)
    if chosen is not None:
        kept = kept[torch.isin(edges.receivers, chosen)]
    senders, receivers, values = edges.senders[kept], edges.receivers[kept], values[..., kept]
    if top is None:
        return senders, receivers, values
    by_value = values.argsort(dim=-1, descending=True, stable=True)
    order = by_value.gather(-1, receivers[by_value].argsort(dim=-1, stable=True))
    # Rows are equally long in every head, so that the same places of the sorted list hold the strongest in all of them.
    sorted_receivers = receivers.sort(stable=True).values
    first = torch.searchsorted(sorted_receivers, sorted_receivers)
    places = (torch.arange(len(kept), device=values.device) - first < top).nonzero().squeeze(-1)
    order = order[..., places]
    return senders[order], sorted_receivers[places], values.gather(-1, order)


def _weigh_table(call: Call, top: int | None, chosen: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    blocks = list(table_blocks(call))
    strongest = None if top is None or len(blocks) == 1 else _Strongest(call.num_queries * min(top, call.num_keys))
    for start, stop, first, last in blocks:
        if chosen is not None and not bool(((chosen >= start) & (chosen < stop)).any()):
            continue
        weights, mask = block_weights(call, start, stop, first, last)
        positions = torch.arange(start, stop, device=weights.device)
        if chosen is not None:
            wanted = torch.isin(positions, chosen)
            positions, weights = positions[wanted], weights[..., wanted, :]
            mask = mask[..., wanted, :]
        part = _listed(weights, mask, positions, first, top)
        if strongest is None:
            parts.append(part)
        else:
            strongest.add(part)
    if strongest is not None and strongest.tables is not None:
        return strongest.found()
    if not parts:
        none = torch.zeros(0, dtype=torch.int64, device=call.query.device)
        batch = torch.broadcast_shapes(call.query.shape[:-2], call.key.shape[:-2], call.neighborhood.batch_shape)
        return none, none, call.query.new_zeros(*batch, 0)
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
            self.tables = tuple(each.new_empty(*each.shape[:-1], self.most) for each in part)
        stop = self.filled + part[1].shape[0]
        for table, each in zip(self.tables, part, strict=True):
            table[..., self.filled : stop] = each
        self.filled = stop

    def found(self) -> tuple[Tensor, Tensor, Tensor]:
        """What was written down."""
        assert self.tables is not None
        senders, receivers, values = (table[..., : self.filled] for table in self.tables)
        return senders, receivers, values


def _listed(
    weights: Tensor, mask: Tensor, positions: Tensor, first: int, top: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of a block as a list. A batch shares one list of pairs: what a member may not see has weight 0."""
    anyone = mask.flatten(0, -3).any(0) if mask.dim() > 2 else mask
    if top is None:
        rows, columns = anyone.nonzero(as_tuple=True)
        return columns + first, positions[rows], weights[..., rows, columns]
    count = min(top, weights.shape[-1])
    strongest, columns = torch.where(mask, weights, -torch.inf).topk(count, -1)
    # A slot stands where some member of the batch has a neighbor for it; in the others it names a neighbor of that
    # query, with weight 0.
    slots = mask.sum(-1, keepdim=True) > torch.arange(count, device=weights.device)
    rows, places = (slots.flatten(0, -3).any(0) if slots.dim() > 2 else slots).nonzero(as_tuple=True)
    values, columns = strongest[..., rows, places], columns[..., rows, places]
    vacant = values == -torch.inf
    columns = torch.where(vacant, anyone.to(torch.uint8).argmax(-1)[rows], columns) if len(rows) > 0 else columns
    return columns + first, positions[rows], torch.where(vacant, 0.0, values)
