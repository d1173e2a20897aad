"""From a call to the plain tensors of the numba operators, and back: one layout for edges, one for ranges."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.backends.call import Call
from edgewise.backends.form import Remembered, form_of_tensor, is_torch_at_work
from edgewise.backends.formula import EdgeInputs, RangeInputs
from edgewise.backends.lower import Lowered, lower, straight_through
from edgewise.backends.numba import edge_operators, extremes, range_operators, sums
from edgewise.backends.numba.launch import KINDS, Launch
from edgewise.backends.numba.simd import WIDTH
from edgewise.neighborhood import Edges, Ranges
from edgewise.neighborhood.checks import broadcast_shape
from edgewise.neighborhood.plan import Plan
from edgewise.normalize import Hardmax, Mean
from edgewise.score import Additive, Dot, GATv2, ScaledDot, Score


def run(call: Call) -> Tensor:
    """o_i = Σ_j α_ij (v_j + v^e_ij), by the form of the neighborhood."""
    seed = new_seed() if call.dropout > 0 else _no_seed()
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        return _straight_through(call, seed)
    return _run(call, seed)


def _run(call: Call, seed: Tensor) -> Tensor:
    assert call.value is not None
    dtype, width = call.query.dtype, call.value.shape[-1]
    lowered = lower(call)
    if isinstance(call.neighborhood, Edges):
        out = over_edges(lowered, call.neighborhood, seed)
    else:
        assert isinstance(call.neighborhood, Ranges)
        out = over_ranges(lowered, call.neighborhood, seed)
    out = out if out.shape[-1] == width else out[..., :width]
    return out if out.dtype == dtype else out.to(dtype)


def _straight_through(call: Call, seed: Tensor) -> Tensor:
    """The output of Hardmax; its values get their gradient from there, its scores from Softmax."""
    hard, fixed, soft = straight_through(call)
    return _run(hard, seed) + (_run(soft, seed) - _run(fixed, seed))


def over_edges(lowered: Lowered, edges: Edges, seed: Tensor) -> Tensor:
    """The operator over lists: `(*batch, query, value_dim)`, the value_dim that of padded values."""
    call = lowered.call
    assert call.value is not None
    query, key = lowered.nodes
    originals = (call.query, call.key, call.value, call.edge_key, call.edge_value)
    shapes = tuple([() if x is None else x.shape[:-2] for x in originals])
    vector_batch = () if lowered.vector is None else lowered.vector.shape[:-1]
    bias_batch = () if call.bias is None else call.bias.shape[:-1]
    batch = broadcast_shape(*shapes, vector_batch, bias_batch)
    if sums.takes(lowered, batch):
        return _summed(lowered, edges)
    if (launch := launch_of(lowered, edges)) is not None:
        number = int(seed) if call.dropout > 0 else 0
        return launch(edges.plan, number, *originals, call.bias, lowered.vector)

    tensors = query, key, *originals[2:], call.bias, lowered.vector
    lists = edges.plan.lists
    if call.edge_rows is not None:
        lists = [*lists, *call.edge_rows.placed(edges.plan)]
    heads = _own_heads(shapes, batch) if torch.compiler.is_compiling() else _same_heads(shapes, batch)
    inputs = _edge_inputs(tensors, lists, heads, batch, lowered.formula, lowered.is_narrow, call.dropout, seed)
    out, _ = edge_operators.attend_edges(*inputs)
    return _by_batch(out, batch)


def _edge_inputs(
    tensors: Sequence[Tensor | None], lists: list[Tensor], heads: Tensor, batch: tuple[int, ...],
    formula: tuple[str, str, bool, float, str], is_narrow: bool, dropout: float, seed: Tensor,
) -> EdgeInputs:  # fmt: skip
    """What the operator takes, from query, key, value, edge_key, edge_value, bias and vector."""
    query, key, value, edge_key, edge_value, bias, vector = tensors
    assert query is not None and key is not None and value is not None
    bias = None if bias is None else _head_lanes(bias.unsqueeze(-1), batch).squeeze(-1)
    arrange = partial(_head_lanes, batch=batch) if is_narrow else _node_major
    query, key, value = arrange(query), arrange(key), _node_major(value)
    edge_key = None if edge_key is None else arrange(edge_key)
    edge_value = None if edge_value is None else _node_major(edge_value)

    if vector is not None:
        vector = vector.to(_compute_dtype(query))
        vector = vector if is_narrow else _padded(vector)
        vector = vector.expand(*batch, -1).reshape(heads.shape[1], vector.shape[-1])
        vector = vector.contiguous()  # or there would be a second code for one number that all heads share
    prepared = query, key, value, edge_key, edge_value, bias, vector
    return EdgeInputs(*prepared, False, lists, heads, *formula, dropout, seed)


def _by_batch(out: Tensor, batch: tuple[int, ...]) -> Tensor:
    """`(receiver, head, value_dim)` as `(*batch, receiver, value_dim)`."""
    if len(batch) == 1:
        return out.transpose(0, 1)

    return out.unflatten(1, batch).movedim(0, -2) if batch else out.squeeze(1)


def launch_of(lowered: Lowered, edges: Edges) -> Launch | None:
    """What runs calls of this form from the tensors as they are; None where operations of torch arrange them."""
    call, vector = lowered.call, lowered.vector
    if lowered.kind not in KINDS or call.edge_rows is not None or is_torch_at_work():
        return None
    tensors = call.query, call.key, call.value, call.edge_key, call.edge_value, call.bias, vector
    forms = [x if x is None else form_of_tensor(x) for x in tensors]
    if any(form is None and x is not None for x, form in zip(tensors, forms)):
        return None

    index_dtype = edges.plan.senders.dtype
    form = (*forms, lowered.formula, lowered.is_narrow, call.dropout, index_dtype)
    launch = _launches.get(form)
    if launch is None and (launch := _new_launch(lowered, tensors, index_dtype)) is not None:
        _launches.put(form, launch)
    return launch


def launch_of_call(call: Call) -> Launch | None:
    """The same for a call whose tensors kernels take as they are; None where operands are made of them first."""
    score = call.score
    if not isinstance(score, Dot | ScaledDot | GATv2 | Additive) or not isinstance(call.neighborhood, Edges):
        return None
    if isinstance(call.normalize, Hardmax) and call.normalize.straight_through:
        return None
    lowered = lower(call)
    is_same = all(getattr(lowered.call, name) is x for name, x in call.tensors.items())
    return launch_of(lowered, call.neighborhood) if is_same and lowered.vector is vector_of(score) else None


def vector_of(score: Score) -> Tensor | None:
    """The vector of a score that has one."""
    return score.vector if isinstance(score, GATv2 | Additive) else None


_launches: Remembered[Launch] = Remembered()


def _new_launch(lowered: Lowered, tensors: tuple[Tensor | None, ...], index_dtype: torch.dtype) -> Launch | None:
    query, key, value, edge_key, _, bias, vector = tensors
    assert query is not None and value is not None
    shapes = tuple([() if x is None else x.shape[:-2] for x in tensors[:5]])
    batches = *shapes, () if bias is None else bias.shape[:-1], () if vector is None else vector.shape[:-1]
    batch = broadcast_shape(*batches)
    # Where heads are lanes, a tensor that they share would have to be repeated for each.
    by_lane = [] if bias is None else [bias.shape[:-1]]
    if lowered.is_narrow:
        by_lane += [x.shape[:-2] for x in (query, key, edge_key) if x is not None]
    elif vector is not None:
        by_lane.append(vector.shape[:-1])
        if vector.shape[-1] % WIDTH or vector.dtype != _compute_dtype(query):
            return None
    if any(shape != batch for shape in by_lane) or any(x is not None and x.numel() == 0 for x in tensors):
        return None

    heads, width, dropout = _same_heads(shapes, batch), value.shape[-1], lowered.call.dropout
    settings = lowered.formula, lowered.is_narrow, dropout

    def formula(plan: Plan, seed: int, *tensors: Tensor | None) -> Tensor:
        seed_tensor = torch.tensor([seed], device="cpu")
        inputs = _edge_inputs(tensors, plan.lists, heads, batch, *settings, seed_tensor)
        return _by_batch(edge_operators.edges_formula(inputs), batch)[..., :width]

    return Launch(lowered, tuple(batch), heads.numpy().tobytes(), index_dtype, formula)


def _summed(lowered: Lowered, edges: Edges) -> Tensor:
    """The same where the weights of edges do not depend on queries and keys."""
    call = lowered.call
    assert call.value is not None
    value, bias = _node_major(call.value), call.bias
    weight = None if bias is None else bias.reshape(-1)
    number, is_mean = float(lowered.number), lowered.normalizer is Mean
    summed = sums.sum_over_edges(value.flatten(1), weight, edges.plan.lists, number, is_mean)
    if call.value.dim() == 2:
        return summed
    return summed.unflatten(1, (*call.value.shape[:-2], value.shape[-1])).movedim(0, -2)


def largest(call: Call) -> Tensor:
    """The largest of each feature over the edges of each receiver, `(*batch, query, value_dim)`."""
    assert isinstance(call.neighborhood, Edges) and call.value is not None
    dtype, width, plan = call.value.dtype, call.value.shape[-1], call.neighborhood.plan
    if call.edge_value is not None:  # a sum that was rounded when it was stored is found again in no edge
        call = call.in_float32()
    tensors = [x for x in (call.value, call.edge_value) if x is not None]
    batch = broadcast_shape(*(x.shape[:-2] for x in tensors))
    flat = [_node_major(x.expand(*batch, *x.shape[-2:])).flatten(1) for x in tensors]
    out = extremes.largest_over_edges(flat[0], flat[1] if len(flat) > 1 else None, plan.lists)
    return out.unflatten(1, (*batch, width + -width % WIDTH)).movedim(0, -2)[..., :width].to(dtype)


def _own_heads(shapes: tuple, batch: tuple) -> Tensor:
    """For each head of the call, which head of each tensor, with its own batch axes, it reads: `(tensor, head)`."""
    rows = []
    for tensor_shape in shapes:
        lifted = (1,) * (len(batch) - len(tensor_shape)) + tensor_shape
        rows.append(torch.arange(math.prod(lifted), device="cpu").view(lifted).expand(batch).reshape(-1))
    return torch.stack(rows)


@lru_cache(maxsize=1024)
def _same_heads(shapes: tuple, batch: tuple) -> Tensor:
    with torch.inference_mode(False):  # what is remembered while evaluating may serve training later
        return _own_heads(shapes, batch)


def new_seed() -> Tensor:
    """What decides which weights are dropped, drawn from torch's generator."""
    return torch.randint(2**62, (1,), device="cpu")


def _no_seed() -> Tensor:
    """The seed of a dropout that there is not."""
    return torch.zeros(1, dtype=torch.int64, device="cpu") if torch.compiler.is_compiling() else _same_seed()


@lru_cache
def _same_seed() -> Tensor:
    with torch.inference_mode(False):
        return torch.zeros(1, dtype=torch.int64, device="cpu")


def _node_major(x: Tensor) -> Tensor:
    """`(*batch, node, feature)` as `(node, head, feature)`, a node's heads together in memory; features padded."""
    if x.dim() == 3:
        return _padded(x.transpose(0, 1))
    x = x.movedim(-2, 0)
    x = x.flatten(1, -2) if x.dim() > 2 else x.unsqueeze(1)
    return _padded(x)


def _padded(x: Tensor) -> Tensor:
    """Zeros up to a whole number of vectors."""
    missing = -x.shape[-1] % WIDTH
    return F.pad(x, (0, missing)) if missing else x


def _head_lanes(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """`(*batch, node, 1)` as `(node, lane, 1)`, every head of the call its own lane, padded to whole vectors."""
    x = x.expand(*batch, *x.shape[-2:]).movedim(-2, 0)
    x = x.flatten(1, -2) if x.dim() > 2 else x.unsqueeze(1)
    missing = -x.shape[1] % WIDTH
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def _compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def over_ranges(lowered: Lowered, ranges: Ranges, seed: Tensor) -> Tensor:
    """The operator over runs of keys: `(*batch, query, value_dim)`, the value_dim that of padded values."""
    call = lowered.call.in_float32()
    assert call.value is not None
    (query, key), value = replace(lowered, call=call).nodes, _padded(call.value)
    key_dim = query.shape[-1]
    query, key = _padded(query), _padded(key)
    starts, stops = ranges.kernel_runs(torch.arange(call.num_queries, device="cpu"), call.num_queries, call.num_keys)
    vector_batch = () if lowered.vector is None else lowered.vector.shape[:-1]
    bias_batch = () if call.bias is None else call.bias.shape[:-2]
    shapes = [x.shape[:-2] for x in (query, key, value)]
    batch = broadcast_shape(*shapes, vector_batch, bias_batch, starts.shape[:-1], stops.shape[:-1])
    query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    starts, stops = (x.contiguous().expand(*batch, x.shape[-1]) for x in torch.broadcast_tensors(starts, stops))
    bias, vector = call.bias, lowered.vector
    if bias is not None:
        bias = bias.to(query.dtype).expand(*batch, call.num_queries, call.num_keys)
    if vector is not None:
        vector = vector.to(query.dtype).expand(*vector_batch, key_dim)
        vector = _padded(vector).contiguous().expand(*batch, -1)  # the kernels read its numbers one behind the other
    tensors = query, key, value, bias, vector, starts, stops

    return range_operators.attend_ranges(*RangeInputs(*tensors, key_dim, *lowered.formula, call.dropout, seed))
