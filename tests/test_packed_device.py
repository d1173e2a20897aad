"""What only a device can show of torch's kernels for windows, segments and lengths: that they compute what they are
told to, keep out what nobody sees, wait for nothing and hold no table."""

import math

import pytest
import torch

from edgewise import Causal, Full, Lengths, Segments, Window, attend, why

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = "cuda"
MEMBERS, HEADS, LENGTH, DIM = 2, 4, 1000, 64


def packed(*offsets):
    return torch.tensor(offsets)


SEGMENTS = Segments(packed(5, 305, 305, 700, 990))
CROSSED = Segments(packed(5, 305, 700, 990), packed(0, 40, 700, 1000))
SHORT, OTHER = packed(700, 3)[:, None], packed(640, 1000)[:, None]
NEIGHBORHOODS = {
    "window": Window(100, 30),
    "causal window": Causal() & Window(64, 0),
    "segments": SEGMENTS,
    "causal segments": Causal() & SEGMENTS,
    "window of segments": Window(50, 10) & SEGMENTS,
    "crossed segments": CROSSED,
    "window of crossed segments": Window(50, 10) & CROSSED,
    "lengths": Lengths(SHORT),
    "both lengths": Lengths(SHORT, OTHER) & Window(200, 0),
}


def given(nodes_first=True):
    random = torch.Generator(DEVICE).manual_seed(0)
    shape = (MEMBERS, LENGTH, HEADS, DIM) if nodes_first else (MEMBERS, HEADS, LENGTH, DIM)
    drawn = [torch.randn(shape, generator=random, device=DEVICE) for _ in range(4)]
    return [x.transpose(1, 2) for x in drawn] if nodes_first else drawn


def solve(tensors, neighborhood, backend, dtype):
    """The output and all gradients, in float64."""
    *leaves, cotangent = (x.to(dtype) for x in tensors)
    leaves = [x.requires_grad_() for x in leaves]
    out = attend(*leaves, neighborhood, backend=backend)
    found = out, *torch.autograd.grad(out, leaves, cotangent)
    return [x.detach().double() for x in found]


def furthest(found, right):
    return [((one - other).abs().max() / other.abs().max()).item() for one, other in zip(found, right)]


@pytest.mark.parametrize("nodes_first", [True, False], ids=["nodes first", "heads first"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_the_error_of_packed_sequences_is_at_most_twice_that_of_a_table(name, dtype, nodes_first):
    neighborhood, tensors = NEIGHBORHOODS[name].to(DEVICE), given(nodes_first)
    rounded = [x.to(dtype) for x in tensors]
    right = solve(rounded, neighborhood, "gather", torch.float64)
    plain = furthest(solve(tensors, neighborhood, "sdpa", dtype), right)
    assert why(*rounded[:3], neighborhood).startswith("varlen runs.")
    found = furthest(solve(tensors, neighborhood, "auto", dtype), right)
    eps = torch.finfo(dtype).eps
    assert all(ours <= 2 * (theirs + eps) for ours, theirs in zip(found, plain)), (found, plain)


@pytest.mark.parametrize("name", NEIGHBORHOODS)
@pytest.mark.parametrize("backend", ["varlen", "flex"])
def test_nothing_flows_from_keys_without_queries_or_to_queries_without_keys(name, backend):
    neighborhood = NEIGHBORHOODS[name].to(DEVICE)
    query, key, value, cotangent = (x.bfloat16() for x in given())
    wanted = solve((query, key, value, cotangent), neighborhood, backend, torch.bfloat16)
    mask = neighborhood.to_mask(LENGTH, LENGTH, DEVICE).expand(MEMBERS, HEADS, LENGTH, LENGTH)
    blind, unseen = ~mask.any(-1, keepdim=True), ~mask.any(-2).unsqueeze(-1)
    query = query.masked_fill(blind, math.nan)
    key, value = key.masked_fill(unseen, math.nan), value.masked_fill(unseen, math.inf)
    found = solve((query, key, value, cotangent), neighborhood, backend, torch.bfloat16)
    assert all(x.isfinite().all() for x in found)
    assert not found[0].masked_select(blind).any()
    assert not found[1].masked_select(blind).any()
    for one, other in zip(found, wanted):  # the gradient of queries is added up in no order
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_flex_computes_the_same(name, dtype):
    neighborhood, tensors = NEIGHBORHOODS[name].to(DEVICE), given()
    right = solve([x.to(dtype) for x in tensors], neighborhood, "gather", torch.float64)
    plain = furthest(solve(tensors, neighborhood, "sdpa", dtype), right)
    found = furthest(solve(tensors, neighborhood, "flex", dtype), right)
    assert all(ours <= 2 * (theirs + torch.finfo(dtype).eps) for ours, theirs in zip(found, plain)), (found, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_call_does_not_wait_for_the_device(dtype):
    tensors = given()
    everything = [each.to(DEVICE) for each in (*NEIGHBORHOODS.values(), Full(), Causal())]
    for neighborhood in everything:
        solve(tensors, neighborhood, "auto", dtype)  # what is asked once, and compiled once
    torch.cuda.set_sync_debug_mode("error")
    try:
        for neighborhood in everything:
            solve(tensors, neighborhood, "auto", dtype)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_table_is_held(dtype):
    length, heads = 16_384, 2
    query, key, value = (torch.randn(heads, length, DIM, device=DEVICE, dtype=dtype) for _ in range(3))
    segments, lengths = Segments(packed(0, 9_000, length)), Lengths(packed(15_000, 9_000))
    for neighborhood in (Window(64, 64), Causal() & segments.to(DEVICE), lengths.to(DEVICE)):
        attend(query, key, value, neighborhood)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = attend(query, key, value, neighborhood)
        torch.cuda.synchronize()
        assert torch.cuda.max_memory_allocated() - before <= 4 * out.nbytes


@pytest.mark.parametrize("backend", ["auto", "flex"])
@pytest.mark.parametrize("kind", ["window", "causal segments", "lengths"])
def test_calls_become_part_of_a_compiled_graph(plain_edgewise, kind, backend):
    e = plain_edgewise
    neighborhood = {
        "window": e.Window(100, 30),
        "causal segments": e.Causal() & e.Segments(packed(5, 305, 305, 700, 990)),
        "lengths": e.Lengths(SHORT),
    }[kind].to(DEVICE)
    tensors = [x.bfloat16() for x in given()]
    torch._dynamo.reset()

    def run(query, key, value, backend=backend):
        return e.attend(2 * query, key, value, neighborhood, backend=backend) + 1

    compiled = torch.compile(run, fullgraph=True)
    found, wanted = (each(*tensors[:3]) for each in (compiled, lambda *x: run(*x, backend="sdpa")))
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
