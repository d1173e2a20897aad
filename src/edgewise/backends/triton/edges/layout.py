"""From a call over edges to the plain tensors of its operators and back, and how its kernels are compiled."""

import math
from functools import cache
from typing import Any

from torch import Tensor

from edgewise.backends.formula import EdgeInputs
from edgewise.backends.lower import Lowered
from edgewise.backends.triton.edges.tiles import Form
from edgewise.backends.triton.launch import start
from edgewise.backends.triton.sizes import CHANNELS, ceiling, is_padded, power_of_two
from edgewise.neighborhood import Edges
from edgewise.neighborhood.checks import broadcast_shape

WARP = 128
"""Channels for each warp of a program. Programs are small: many of them wait for memory at the same time."""
NUMBERS = 1024
"""Numbers of a tile that a warp holds, 32 a thread, in registers."""
NARROW = 64
"""Channels of a narrow tile."""
SHORT = 8
"""Features of a head that is short: a tile of such heads has many numbers of a head and an edge beside it."""
REGISTERS: int | None = None
"""Registers of a thread at most; None leaves it to the compiler, which takes few, so that many programs run at once."""
BLOCKS = (32, 16, 8, 4)
"""Edges of a row that are read at once: the fewest that hold a short row, or as many as a program's registers do."""


def inputs_of(lowered: Lowered, seed: Tensor) -> tuple[EdgeInputs, tuple[int, ...]]:
    """The operator's arguments, and the batch axes of all tensors together, which are the heads."""
    call = lowered.call
    assert isinstance(call.neighborhood, Edges)
    query, key = lowered.nodes
    nodes = (call.query, call.key, call.value, call.edge_key, call.edge_value)
    shapes = [x.shape[:-2] for x in nodes if x is not None]
    shapes += [] if call.bias is None else [call.bias.shape[:-1]]
    vector = None if lowered.is_narrow else lowered.vector
    shapes += [] if vector is None else [vector.shape[:-1]]
    batch = broadcast_shape(*shapes)
    num_heads, key_dim = math.prod(batch), query.shape[-1]
    if vector is not None:
        vector = vector.float().expand(*batch, key_dim).reshape(num_heads, key_dim)

    # One tensor in two places has one gradient, which the kernels add up: torch would hold both, and then their sum.
    is_value = call.value is key
    both = call.edge_key is not None and call.edge_value is call.edge_key and lowered.kind != "Constant"
    key = _node_major(key, batch)
    value = key.new_empty(*key.shape[:2], 1) if call.value is None else _node_major(call.value, batch)

    # Where one program has all heads, what an edge carries for all of them is not repeated.
    high, *_ = forms_of(Form(lowered.kind, num_heads=num_heads, key_dim=key_dim, value_dim=value.shape[-1]))
    bias = None if call.bias is None else call.bias.unsqueeze(-1)
    of_edges = call.edge_key, None if both else call.edge_value, bias
    edge_key, edge_value, bias = (None if x is None else _of_edges(x, batch, high.heads >= num_heads) for x in of_edges)
    bias, lists = None if bias is None else bias.squeeze(-1), call.neighborhood.plan.lists
    tensors = _node_major(query, batch), key, None if is_value else value, edge_key, edge_value, bias, vector

    return EdgeInputs(*tensors, both, lists, None, *lowered.formula, call.dropout, seed), batch


def by_batch(out: Tensor, batch: tuple[int, ...]) -> Tensor:
    """`(query, head, value_dim)` as `(*batch, query, value_dim)`."""
    return out.unflatten(1, batch).movedim(0, -2) if batch else out.squeeze(1)


def _node_major(x: Tensor, batch: tuple) -> Tensor:
    """`(*batch, node, feature)` as `(node, head, feature)`, seen as it lies in memory where its strides allow."""
    if len(batch) == 1 and x.shape[:-2] == batch:  # the way of most calls, in one step
        x = x.transpose(0, 1)
    else:
        x = x.expand(*batch, *x.shape[-2:]).movedim(-2, 0).reshape(x.shape[-2], math.prod(batch), x.shape[-1])
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _of_edges(x: Tensor, batch: tuple, may_share: bool) -> Tensor:
    """The same; where all heads share one, and one program has them all, it is not repeated."""
    is_shared = may_share and math.prod(x.shape[:-2]) == 1
    return _node_major(x[(0,) * (x.dim() - 2)] if is_shared else x, () if is_shared else batch)


@cache
def forms_of(form: Form, halves: bool = False) -> tuple[Form, ...]:
    """How programs are compiled: those of long rows, then those that hold short rows, of fewer and fewer edges.

    Tiles are smaller where edges carry keys and values of their own, of which there are tiles too; where weights are
    dropped, for which numbers are drawn; where features are not as many as a power of two, and are read one by one; and
    where tiles are narrow or heads short, as there are more numbers of edges then.

    Args:
        form: which formulas, and how many heads and features; the other sizes are not read.
        halves: whether long rows are read half as many edges at a time, for the sake of more programs at once.
    """
    key, value = (power_of_two(dim) for dim in (form.key_dim, form.value_dim))
    heads = min(power_of_two(form.num_heads), max(1, CHANNELS // max(key, value)))
    width = heads * max(key, value)
    is_narrow = width <= NARROW or max(key, value) <= SHORT
    halvings = (
        form.carries + form.drops + (is_padded(form.key_dim, key) or is_padded(form.value_dim, value)) + is_narrow
    )
    edges = max(1, min(BLOCKS[0], (NUMBERS >> halvings) * max(1, width // WARP) // width))
    sized = form._replace(heads=heads, key_width=key, value_width=value)
    short = [sized._replace(rows=edges // block, block=block, short=True) for block in BLOCKS if block <= edges]

    return sized._replace(rows=1, block=max(1, edges // 2) if halves else edges), *short


def warps_of(form: Form) -> int:
    """Warps of a program."""
    return max(1, form.heads * max(form.key_width, form.value_width) // WARP)


def options_of(form: Form, warps: int | None = None) -> dict[str, int | None]:
    """How the compiler is to make a program."""
    return {"num_warps": warps or warps_of(form), "maxnreg": REGISTERS}


def launch(kernel: Any, programs: int, form: Form, *arguments: Any, warps: int | None = None, **constants: Any) -> None:
    """Runs a kernel: so many programs for each group of heads."""
    groups = ceiling(form.num_heads, form.heads)
    if programs > 0:
        start(kernel, (programs, groups), arguments, {**constants, "F": form}, options_of(form, warps))


def launch_tiles(kernel: Any, programs: int, forms: tuple[Form, ...], *arguments: Any, **constants: Any) -> None:
    """The same of a kernel whose tiles are of several forms, of which heads, sizes and warps are the same."""
    if programs > 0:
        groups = ceiling(forms[0].num_heads, forms[0].heads)
        start(kernel, (programs, groups), arguments, {**constants, "FORMS": forms}, options_of(forms[0]))
