"""What FlexAttention receives: which blocks of pairs there are, and which pairs. What it computes is tested in
test_compile.py."""

import math

import pytest
import torch

from cases import all_neighborhoods
from edgewise import (
    Additive,
    Causal,
    Cosine,
    Full,
    Lengths,
    Mask,
    Segments,
    Softmax,
    UnsupportedError,
    Window,
    attend,
)
from edgewise.backends import flex, kernels
from edgewise.neighborhood import Ranges

MEMBERS, HEADS, DIM = 2, 3, 4
BLOCK = 4
RANGES = [
    case
    for case in all_neighborhoods
    if isinstance(case.neighborhood, Ranges) and case.num_queries > 0 and case.num_keys > 0
]
LONGER = {
    "window": (Window(5, 2), 17, 17),
    "narrow": (Window(0, 0), 16, 19),
    "causal": (Causal(), 19, 13),
    "segments": (Causal() & Segments(torch.tensor([1, 7, 7, 15])), 18, 18),
    "crossed": (Segments(torch.tensor([2, 3, 16]), torch.tensor([0, 9, 11])), 17, 14),
    "lengths": (Lengths(torch.tensor([[9], [0]])) & Causal(), 17, 17),
    "of each head": (Lengths(torch.tensor([9, 1, 16])), 11, 17),
    "of each member and head": (Lengths(torch.tensor([[9, 1, 16], [3, 0, 8]])), 11, 17),
}


def dense(block_mask, outers, inners):
    """The pairs that a kernel would walk over, `(outer, inner, query, key)`."""
    num_queries, num_keys = block_mask.seq_lengths
    found = torch.zeros(outers, inners, num_queries, num_keys, dtype=torch.bool)
    width, height = block_mask.BLOCK_SIZE
    places = [torch.arange(n) for n in found.shape]
    outer, inner, query, key = torch.meshgrid(*places, indexing="ij")
    rule = block_mask.mask_mod(outer, inner, query, key)
    lists = [
        (block_mask.kv_num_blocks, block_mask.kv_indices, rule),
        (block_mask.full_kv_num_blocks, block_mask.full_kv_indices, torch.ones_like(rule)),
    ]
    for counts, indices, allowed in lists:
        assert counts.dtype == indices.dtype == torch.int32
        counts, indices = (x.expand(outers, inners, *x.shape[2:]) for x in (counts, indices))
        for one, two, row in torch.cartesian_prod(*(torch.arange(n) for n in counts.shape)).tolist():
            for column in indices[one, two, row, : counts[one, two, row]].tolist():
                here = (one, two, slice(row * width, (row + 1) * width), slice(column * height, (column + 1) * height))
                assert not found[here].any(), "a block twice"
                found[here] = allowed[here]
    return found


def by_formula(query, key, value, block_mask, scale):
    """What FlexAttention computes with a block mask; a weight of zero times NaN is NaN."""
    mask = dense(block_mask, *query.shape[:2])
    scores = (query @ key.mT * scale).masked_fill(~mask, -math.inf)
    weights = (scores - scores.amax(-1, keepdim=True).clamp(min=-1e300)).exp()
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total) @ value


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch):
    """The formula in place of the compiled kernel, small blocks, any dtype."""
    monkeypatch.setattr(flex, "_compiled", lambda: by_formula)
    monkeypatch.setattr(flex, "BLOCK", BLOCK)
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr(flex, "DTYPES", (torch.float64, torch.float32))
    monkeypatch.setattr(flex, "MIN_FEATURES", 1)
    monkeypatch.setattr(kernels, "import_error", lambda *names: "")


def solve(backend, query, key, value, neighborhood, **options):
    """The output and all gradients."""
    query, key, value = (x.clone().requires_grad_() for x in (query, key, value))
    out = attend(query, key, value, neighborhood, backend=backend, **options)
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return out.detach(), *torch.autograd.grad((out * probe).sum(), (query, key, value))


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def given(queries, keys):
    return (
        numbers(MEMBERS, HEADS, queries, DIM, seed=0),
        numbers(MEMBERS, 1, keys, DIM, seed=1),
        numbers(HEADS, keys, DIM + 1, seed=2),
    )


def assert_same(neighborhood, *tensors, **options):
    pairs = zip(*(solve(backend, *tensors, neighborhood, **options) for backend in ("flex", "reference")))
    for one, other in pairs:
        assert one.shape == other.shape
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("case", RANGES, ids=lambda case: case.name)
def test_every_neighborhood(case):
    assert_same(case.neighborhood, *given(case.num_queries, case.num_keys))


@pytest.mark.parametrize("name", LONGER)
def test_neighborhoods_of_several_blocks(name):
    neighborhood, queries, keys = LONGER[name]
    assert_same(neighborhood, *given(queries, keys))


@pytest.mark.parametrize("name", LONGER)
def test_nothing_flows_from_keys_without_queries_or_to_queries_without_keys(name):
    neighborhood, queries, keys = LONGER[name]
    mask = neighborhood.to_mask(queries, keys).expand(MEMBERS, HEADS, queries, keys)
    blind, unseen = ~mask.any(-1, keepdim=True), ~mask.any(-2).unsqueeze(-1)
    query, key, value = (numbers(MEMBERS, HEADS, n, DIM, seed=n) for n in (queries, keys, keys))
    wanted = solve("reference", query, key, value, neighborhood)
    query, key, value = query.masked_fill(blind, math.nan), *(x.masked_fill(unseen, math.nan) for x in (key, value))
    for one, other in zip(solve("flex", query, key, value, neighborhood), wanted):
        torch.testing.assert_close(one, other)


def test_blocks_of_a_causal_mask_by_hand():
    """Nine queries and keys in blocks of four: those on the diagonal are seen in part, those before it are seen whole;
    but nothing is by the last block of queries, which has one only."""
    starts = torch.zeros(1, 1, 9, dtype=torch.int32)
    found = flex.block_mask(starts, torch.arange(1, 10, dtype=torch.int32).expand(1, 1, 9), 9)
    assert found.kv_num_blocks.tolist() == [[[1, 1, 3]]]
    assert found.kv_indices[0, 0, :, 0].tolist() == [0, 1, 0]
    assert found.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert found.full_kv_indices[0, 0, 1, 0] == 0
    assert found.seq_lengths == (9, 9)


def test_one_sequence_and_several_batch_axes():
    assert_same(Window(3, 1), *(numbers(11, DIM, seed=n) for n in range(3)))
    lengths = Lengths(torch.tensor([[[9]], [[4]]]))
    assert_same(lengths, *(numbers(2, 3, 2, 11, DIM, seed=n) for n in range(3)), score=Cosine(), normalize=Softmax(0.3))


def test_it_says_what_it_does_not_take(monkeypatch):
    x = torch.randn(3, 16, DIM)
    cases = {
        "the neighborhood is a Mask, not ranges": {"neighborhood": Mask(torch.ones(16, 16) == 1)},
        "the neighborhood is a Edges, not ranges": {"neighborhood": Full().to_edges(16)},
        "the score Additive is not a dot product": {"score": Additive(torch.ones(DIM))},
        "there is a bias; there is dropout": {"bias": torch.zeros(16, 16), "dropout": 0.5},
        "there are no queries or no keys": {"query": x[:, :0]},
        "the dtype is torch.bfloat16": {name: x.bfloat16() for name in ("query", "key", "value")},
    }
    for reason, options in cases.items():
        with pytest.raises(UnsupportedError) as caught:
            attend(**{"query": x, "key": x, "value": x, "neighborhood": Window(1, 1), **options}, backend="flex")
        assert str(caught.value) == f"backend 'flex' refuses this call: {reason}."
    monkeypatch.setattr(flex, "MIN_FEATURES", 16)
    with pytest.raises(UnsupportedError, match="a head has 4 features of keys and 4 of values, not 16 to 256"):
        attend(x, x, x, backend="flex")
    monkeypatch.setattr(kernels, "import_error", lambda *names: "triton cannot be imported")
    monkeypatch.setattr(flex, "MIN_FEATURES", 1)
    with pytest.raises(UnsupportedError, match="triton cannot be imported"):
        attend(x, x, x, backend="flex")
    monkeypatch.setattr(flex, "DEVICES", ("cuda",))
    with pytest.raises(UnsupportedError, match=r"refuses this call: the tensors are on cpu\."):
        attend(x, x, x, Full().to_edges(16), backend="flex")


def test_what_was_compiled_outside_of_a_graph_does_not_guard_what_becomes_part_of_one(monkeypatch, request):
    """On a device the kernel is compiled with a mask of the checked copy, later a graph of the other copy."""
    from torch.nn.attention.flex_attention import flex_attention

    def run(query, key, value, attend=attend, neighborhood=LONGER["segments"][0]):
        return attend(query, key, value, neighborhood, backend="flex")

    nodes = [numbers(MEMBERS, HEADS, 18, 16, seed=seed) for seed in range(3)]
    torch._dynamo.reset()
    monkeypatch.setattr(flex, "_compiled", lambda: torch.compile(flex_attention, fullgraph=True, backend="aot_eager"))
    wanted = run(*nodes)
    plain = request.getfixturevalue("plain_edgewise")
    monkeypatch.setattr("edgewise.backends.flex.DEVICES", ("cpu",))
    monkeypatch.setattr("edgewise.backends.flex.DTYPES", (torch.float64,))
    neighborhood = plain.Causal() & plain.Segments(LONGER["segments"][0].parts[1].query_offsets)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*nodes, plain.attend, neighborhood), wanted)
    torch._dynamo.reset()
