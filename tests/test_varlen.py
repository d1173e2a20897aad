"""Packed sequences for torch's flash attention: the boundaries, against a formula of what the kernel computes."""

import inspect
import math
import sys
from dataclasses import replace

import pytest
import torch

from cases import all_neighborhoods, named
from edgewise import (
    Additive,
    Causal,
    Cosine,
    Dot,
    Full,
    Lengths,
    Mask,
    ScaledDot,
    Segments,
    Softmax,
    Sparsemax,
    UnsupportedError,
    Window,
    attend,
    why,
)
from edgewise.backends import flex, members, numba, triton, varlen
from edgewise.backends.call import checked_call
from edgewise.neighborhood import Ranges

MEMBERS, HEADS, DIM = 2, 3, 8
RANGES = [case for case in all_neighborhoods if isinstance(case.neighborhood, Ranges)]
REFUSED = {
    "full_no_query": "there are no queries or no keys",
    "full_no_key": "there are no queries or no keys",
    "causal_no_key": "there are no queries or no keys",
    "causal_start": "aligned at the start",
    "causal_start_more_queries": "aligned at the start",
    "window_start": "aligned at the start",
    "window_start_segments_crossed": "aligned at the start",
    "causal_lengths": "padding queries attend to true keys",
}
"""Neighborhoods that the kernel does not support, and the reasons given."""


def by_formula(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size):
    """What torch documents of `varlen_attn`: rows that no member covers hold anything, and 0 · NaN is NaN."""
    before, after = (side if side >= 0 else math.inf for side in window_size)
    assert isinstance(window_size, tuple)
    for boundaries, x, most in ((cu_seq_q, query, max_q), (cu_seq_k, key, max_k)):
        assert boundaries.dtype == torch.int32 and boundaries.is_contiguous() and boundaries[0] == 0
        sizes = boundaries.diff()
        assert (sizes >= 0).all() and sizes.max() <= most, "a member has more nodes than there should be"
        assert boundaries[-1] == x.shape[0], "nodes that nobody writes"
    assert query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    outs = []
    spans = [x.tolist() for x in (cu_seq_q, cu_seq_k)]
    for query_start, query_stop, key_start, key_stop in zip(spans[0], spans[0][1:], spans[1], spans[1][1:]):
        own, keys, values = query[query_start:query_stop], key[key_start:key_stop], value[key_start:key_stop]
        if len(keys) == 0:
            outs.append(torch.zeros_like(own))
            continue
        place = torch.arange(len(own))[:, None] + len(keys) - len(own)
        other = torch.arange(len(keys))
        allowed = (other >= place - before) & (other <= place + after)
        scores = torch.einsum("qhd,khd->hqk", own, keys) * scale
        scores = scores.masked_fill(~allowed, -math.inf)
        most = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        weights = (scores - most).exp()
        total = weights.sum(-1, keepdim=True)
        outs.append(torch.einsum("hqk,khd->qhd", weights / torch.where(total == 0, 1.0, total), values))
    return torch.cat(outs)


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch):
    """The formula in place of the kernel, for any dtype and for short sequences."""
    import torch.nn.attention.varlen as kernel

    monkeypatch.setattr(kernel, "varlen_attn", by_formula)
    monkeypatch.setattr(varlen, "DEVICES", ("cpu",))
    monkeypatch.setattr(varlen, "DTYPES", (torch.float64, torch.bfloat16))
    monkeypatch.setattr(varlen, "BLOCK", 0)
    monkeypatch.setattr(varlen, "_found", {torch.device("cpu"): ""})


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def solve(backend, query, key, value, neighborhood, **options):
    """The output and the gradient of each."""
    out = attend(query, key, value, neighborhood, backend=backend, **options)
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(out.dtype)
    return out.detach(), *torch.autograd.grad((out * probe).sum(), (query, key, value))


def assert_same(neighborhood, query, key, value, **options):
    ours = solve("varlen", query, key, value, neighborhood, **options)
    theirs = solve("reference", query, key, value, neighborhood, **options)
    for one, other in zip(ours, theirs):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other)


def given(case, layout):
    """Query, key and value as they may lie in memory."""
    queries, keys = case.num_queries, case.num_keys
    if layout == "nodes first":
        return [numbers(MEMBERS, n, HEADS, DIM, seed=n).transpose(1, 2) for n in (queries, keys, keys)]
    if layout == "shared keys":
        return [numbers(MEMBERS, HEADS, queries, DIM), numbers(MEMBERS, 1, keys, DIM, seed=1), numbers(1, keys, DIM)]
    return [numbers(MEMBERS, HEADS, queries, DIM), numbers(HEADS, keys, DIM, seed=1), numbers(1, HEADS, keys, DIM)]


@pytest.mark.parametrize("layout", ["heads first", "nodes first", "shared keys"])
@pytest.mark.parametrize("case", [case for case in RANGES if case.name not in REFUSED], ids=lambda case: case.name)
def test_the_members_of_every_neighborhood(case, layout):
    assert_same(case.neighborhood, *given(case, layout))


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernel_does_not_know(name):
    (case,) = named(RANGES, name)
    with pytest.raises(UnsupportedError, match=f"backend 'varlen' refuses this call: .*{REFUSED[name]}"):
        attend(*given(case, "heads first"), case.neighborhood, backend="varlen")


MORE = {
    "a window of segments that have more keys, or more queries, than it reaches": (
        Segments(torch.tensor([1, 3, 10, 12]), torch.tensor([2, 9, 10, 13])) & Window(1, 1),
        13,
        14,
    ),
    "a gap, and a long part of a segment that nobody sees": (
        Segments(torch.tensor([6, 8, 19]), torch.tensor([7, 16, 18])) & Window(0, 1),
        19,
        18,
    ),
    "no segment": (Segments(torch.tensor([2]), torch.tensor([3])) & Window(1, 1), 4, 5),
    "a causal window": (Segments(torch.tensor([0, 9, 13])) & Causal() & Window(3, 5), 13, 13),
    "a gap longer than any segment": (Segments(torch.tensor([6, 7, 9])), 14, 15),
    "a window of more keys than queries": (Window(2, 0), 4, 13),
    "a window of more queries than keys": (Window(2, 1), 13, 4),
    "a window aligned at the start, where that is the end": (Window(2, 1, "start") & Full(), 9, 9),
    "true queries and keys of lengths that differ": (
        Lengths(torch.tensor([[3], [0]]), torch.tensor([[5], [4]])) & Window(1, 0),
        6,
        7,
    ),
    "segments of each head": (
        Segments(torch.tensor([[0, 2, 6], [1, 4, 5], [3, 3, 3]]), torch.tensor([0, 1, 6])) & Causal(),
        6,
        6,
    ),
    "lengths of one member for all": (Lengths(torch.tensor(4)), 5, 6),
}


@pytest.mark.parametrize("name", MORE)
def test_more_members(name):
    neighborhood, queries, keys = MORE[name]
    assert_same(neighborhood, *(numbers(MEMBERS, HEADS, n, DIM, seed=n) for n in (queries, keys, keys)))


@pytest.mark.parametrize("name", MORE)
def test_nothing_flows_from_keys_without_queries_or_to_queries_without_keys(name):
    neighborhood, queries, keys = MORE[name]
    mask = neighborhood.to_mask(queries, keys).expand(MEMBERS, HEADS, queries, keys)
    blind, unseen = ~mask.any(-1, keepdim=True), ~mask.any(-2).unsqueeze(-1)
    query, key, value = (numbers(MEMBERS, HEADS, n, DIM, seed=n).detach() for n in (queries, keys, keys))
    wanted = solve("reference", *(x.clone().requires_grad_() for x in (query, key, value)), neighborhood)
    query, key, value = query.masked_fill(blind, math.nan), *(x.masked_fill(unseen, math.nan) for x in (key, value))
    found = solve("varlen", *(x.requires_grad_() for x in (query, key, value)), neighborhood)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other)
    assert (found[0].masked_select(blind) == 0).all()


def test_one_case_by_hand():
    """Two segments of an axis of eight, with gaps before and behind: each gap is a member of one side alone."""
    x = numbers(8, DIM)
    call = checked_call(
        "attend", x, x, x, Segments(torch.tensor([1, 3, 7])), ScaledDot(), Softmax(), None, None, None, 0.0
    )
    found = members.members_of(call, ())
    assert found.query_boundaries.tolist() == [0, 1, 1, 3, 7, 8, 8]
    assert found.key_boundaries.tolist() == [0, 0, 1, 3, 7, 7, 8]
    assert found[2:] == (4, 4)
    call = replace(call, neighborhood=Window(1, 0), query=x[:3])  # queries 5, 6, 7 see keys 4 … 7
    found = members.members_of(call, (2,))
    assert found.query_boundaries.tolist() == [0, 0, 0, 3, 3, 3, 3, 3, 6, 6, 6]
    assert found.key_boundaries.tolist() == [0, 0, 4, 8, 8, 8, 8, 12, 16, 16, 16]


def test_a_window_alone_needs_nothing_but_the_length():
    x = numbers(MEMBERS, HEADS, 9, DIM)
    call = checked_call("attend", x, x, x, Window(2, 0), ScaledDot(), Softmax(), None, None, None, 0.0)
    assert members.members_of(call, (MEMBERS,)).query_boundaries.tolist() == [0, 9, 18]


@pytest.mark.parametrize(
    "options", [{"score": Dot()}, {"score": Cosine()}, {"score": ScaledDot(0.3)}, {"normalize": Softmax(0.3)}], ids=str
)
def test_scores_that_are_dot_products(options):
    assert_same(MORE["a causal window"][0], *(numbers(HEADS, 13, DIM, seed=n) for n in range(3)), **options)


def test_one_sequence_without_batch_axes():
    assert_same(Window(1, 2), *(numbers(13, DIM, seed=n) for n in range(3)))


def test_places_that_the_kernel_cannot_read_are_copied(monkeypatch):
    import torch.nn.attention.varlen as kernel

    def aligned(query, key, value, *boundaries, **options):
        assert all(at % 8 == 0 for x in (query, key, value) for at in (x.stride(0), x.stride(1), x.storage_offset()))
        return by_formula(query, key, value, *boundaries, **options)

    monkeypatch.setattr(kernel, "varlen_attn", aligned)
    whole = numbers(13, HEADS, 3 * DIM + 1).detach()
    shifted = [whole[..., 1 + n * DIM :][..., :DIM].transpose(0, 1) for n in range(3)]
    assert_same(Window(1, 2), *(x.requires_grad_() for x in shifted))
    beyond = [numbers(HEADS * 13 * DIM + 1, seed=n).detach()[1:].view(HEADS, 13, DIM) for n in range(3)]
    assert_same(Window(1, 2), *(x.requires_grad_() for x in beyond))
    strided = [numbers(HEADS, DIM, 13, seed=n).detach().transpose(1, 2).requires_grad_() for n in range(3)]
    assert_same(Window(1, 2), *strided)


def test_half_precision_is_left_as_it_is():
    x = numbers(HEADS, 13, DIM).detach().bfloat16()
    assert attend(x, x, x, Window(1, 2), backend="varlen").dtype == torch.bfloat16


def test_it_says_what_it_does_not_take(monkeypatch):
    x = torch.randn(3, 16, DIM, dtype=torch.float64)
    cases = {
        "the neighborhood is a Mask, not ranges": {"neighborhood": Mask(torch.ones(16, 16) == 1)},
        "the neighborhood is a Edges, not ranges": {"neighborhood": Full().to_edges(16)},
        "the neighborhood joins Lengths and Segments": {
            "neighborhood": Lengths(torch.tensor(3)) & Segments(torch.tensor([0, 16]))
        },
        "the score Additive is not a dot product": {"score": Additive(torch.ones(DIM, dtype=torch.float64))},
        "the normalizer Sparsemax is not Softmax": {"normalize": Sparsemax()},
        "the temperature is a tensor": {"normalize": Softmax(torch.tensor(1.0))},
        "the scale -0.5 would open the mask of the kernel, or make it NaN": {"score": ScaledDot(-0.5)},
        "the scale 1e-46 would open the mask of the kernel, or make it NaN": {
            "score": Dot(),
            "normalize": Softmax(1e46),
        },
        "there is a bias; there is dropout": {"bias": torch.zeros(16, 16), "dropout": 0.5},
        "a head has 8 features of keys, but 7 of values": {"value": x[..., 1:]},
        "a head has 7 features, which is not a multiple of 8 up to 256": {
            name: x[..., 1:] for name in ("query", "key", "value")
        },
    }
    for reason, options in cases.items():
        with pytest.raises(UnsupportedError) as caught:
            attend(**{"query": x, "key": x, "value": x, "neighborhood": Window(1, 1), **options}, backend="varlen")
        assert str(caught.value) == f"backend 'varlen' refuses this call: {reason}."
    with pytest.raises(UnsupportedError, match=r"the dtype is torch\.float32"):
        attend(*[x.float()] * 3, backend="varlen")
    monkeypatch.setattr(varlen, "BLOCK", 8)
    attend(x, x, x, Segments(torch.tensor([0, 1, 12])), backend="varlen")
    with pytest.raises(UnsupportedError, match="sequences are shorter, on average, than a block of 8 queries"):
        attend(x, x, x, Segments(torch.tensor([0, 1, 9, 12])), backend="varlen")


def test_it_says_what_torch_or_the_device_lack(monkeypatch):
    import torch.nn.attention.varlen as kernel

    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert varlen._missing_now(device) == ""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert varlen._missing_now(device) == "the device has compute capability (7, 5), less than (8, 0)"
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: False)
    assert varlen._missing_now(device) == "torch was built without flash attention"
    monkeypatch.setattr(kernel, "varlen_attn", lambda query, key, value, is_causal=False: query)
    assert "knows no window; that of torch 2.11 does" in varlen._missing_now(device)
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    assert "lacks torch.nn.attention.varlen; torch 2.11 has" in varlen._missing_now(device)


def test_the_kernel_of_this_torch_has_the_arguments_that_are_passed(monkeypatch):
    monkeypatch.undo()
    from torch.nn.attention.varlen import varlen_attn

    inspect.signature(varlen_attn).bind(*range(7), scale=1.0, window_size=(-1, 0))


def test_on_such_a_device_no_table_is_made_where_it_need_not_be(monkeypatch):
    """The order of backends, as on CUDA; here numba has nothing to do with it."""
    pytest.importorskip("triton")
    monkeypatch.setattr(triton, "DEVICES", ("cpu",))
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr(numba, "takes_few_pairs", lambda call: False)
    half, single = torch.randn(2, 3, 16, 16).bfloat16(), torch.randn(2, 3, 16, 16)
    table = torch.randn(16, 16)
    segments, lengths = Segments(torch.tensor([0, 9, 16])), Lengths(torch.tensor([[3], [16]]))
    for neighborhood in (Window(2, 2), Causal() & Window(2, 2), segments, Causal() & segments, lengths):
        assert (
            why(half, half, half, neighborhood) == "varlen runs.\n  sdpa refuses: it would need a table of all pairs."
        )
        assert why(single, single, single, neighborhood) == (
            "triton runs.\n"
            "  sdpa refuses: it would need a table of all pairs.\n"
            "  varlen refuses: the dtype is torch.float32.\n"
            "  flex refuses: it would be compiled, which takes seconds; backend='flex' selects it.\n"
            "  uniform refuses: the weights of a row are not all the same."
        )
    for neighborhood in (Full(), Causal()):
        assert why(half, half, half, neighborhood) == "sdpa runs."
    assert why(half, half, half, bias=table) == "sdpa runs."
    assert why(half, half, half, bias=table.requires_grad_()).startswith("triton runs.")
    assert why(half, half, half, Causal(), bias=table).startswith("triton runs.")
    assert why(half, half, half, Mask(table > 0)) == "sdpa runs."
    assert why(single.double(), single.double(), single.double(), Lengths(torch.tensor(3))).startswith("varlen runs.")
    monkeypatch.setattr(varlen, "DEVICES", ())
    assert why(single.double(), single.double(), single.double(), Lengths(torch.tensor(3))) == "sdpa runs."


def test_under_a_transform_the_kernels_are_left_alone(monkeypatch):
    monkeypatch.setattr(triton, "DEVICES", ("cpu",))
    x = torch.randn(3, 16, DIM, dtype=torch.float64)

    def loss(query):
        return attend(query, x, x, Lengths(torch.tensor(3))).sum()

    torch.testing.assert_close(torch.func.grad(loss)(x), torch.autograd.functional.jacobian(loss, x))
    with pytest.raises(UnsupportedError, match=r"a transform of torch\.func is at work"):
        torch.func.vmap(lambda query: attend(query, x[0], x[0], Window(1, 1), backend="varlen"))(x)


def test_segments_made_while_a_graph_is_traced_are_not_measured():
    x = torch.randn(16, DIM, dtype=torch.float64)
    segments = Segments(torch.tensor([0, 16]))
    object.__setattr__(segments, "query_bounds", None)
    with pytest.raises(UnsupportedError, match="segment lengths are unknown while tracing"):
        attend(x, x, x, segments, backend="varlen")


def test_segments_keep_what_is_known_of_them():
    segments = Segments(torch.tensor([[1, 4, 9], [0, 2, 7]]), torch.tensor([3, 3, 4]))
    for each in (segments, segments.to("cpu"), segments.with_head_axis()):
        assert each.query_bounds == (1, 7, 5)
        assert each.key_bounds == (3, 4, 1)
    offsets = torch.tensor([2])
    assert Segments(offsets).key_bounds == (2, 2, 0) and Segments(offsets, offsets).key_offsets is None
    assert Segments(torch.zeros(0, 3, dtype=torch.int64)).query_bounds == (0, 0, 0)
