"""Small graphs in tiles: packed whole, and attended to as the reference does, values and gradients."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from triton_cases import DEVICE, NORMALIZERS, SCORES, by_day

from edgewise import Dot, Edges, attend
from edgewise.backends.triton.edges import operators
from edgewise.backends.triton.graphs import launch, work

SIZES = (5, 9, 1, 0, 25, 30, 3, 40)
HEADS, KEY_DIM, VALUE_DIM = 2, 32, 32


def small_graphs(sizes: tuple[int, ...] = SIZES, share: float = 0.5) -> Edges:
    """Graphs side by side, a share of all pairs joined; the first row of each has no edge, the list is in no order."""
    random = torch.Generator().manual_seed(0)
    senders, receivers, begin = [], [], 0
    for size in sizes:
        joined = torch.rand(size, size, generator=random) < share
        joined[:1] = False
        own, other = joined.nonzero(as_tuple=True)
        receivers.append(begin + own)
        senders.append(begin + other)
        begin += size
    order = torch.randperm(sum(map(len, senders)), generator=random)
    return Edges(torch.cat(senders)[order], torch.cat(receivers)[order], begin, begin)


def numbers_for(edges: Edges, heads: int = HEADS, key_dim: int = KEY_DIM, value_dim: int = VALUE_DIM) -> dict:
    """Queries, keys, values, a bias and what scores and normalizers are made of, in float64."""
    random = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    nodes = edges.num_receivers
    return {
        "query": numbers(heads, nodes, key_dim),
        "key": numbers(heads, nodes, key_dim),
        "value": numbers(heads, nodes, value_dim),
        "bias": numbers(heads, edges.num_edges),
        "matrix": numbers(heads, key_dim, key_dim) / key_dim,
        "positive": numbers(heads).abs() + 0.5,
    }


def solve(edges: Edges, numbers: dict, backend: str, dtype: torch.dtype, *, bias: bool = True, **more: Any) -> dict:
    """The output and all gradients, in float64 on the CPU."""
    device = DEVICE if backend == "triton" else "cpu"
    at = {name: x.to(device, dtype).clone().requires_grad_() for name, x in numbers.items()}
    options = {name: make(at) if callable(make) else make for name, make in more.items()}
    given = {"bias": at["bias"]} if bias else {}
    out = attend(at["query"], at["key"], at["value"], edges.to(device), backend=backend, **given, **options)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (out * cotangent.to(device, dtype)).sum().backward()
    found = {name: x.grad for name, x in at.items() if x.grad is not None} | {"output": out.detach()}
    return {name: x.cpu().double() for name, x in found.items()}


def assert_alike(found: dict, wanted: dict, within: float = 1e-5) -> None:
    for name in found.keys() | wanted.keys():
        one, right = (each.get(name, torch.zeros(1, dtype=torch.float64)) for each in (found, wanted))
        # A gradient that only one of the two knows must be zero.
        one, right = torch.broadcast_tensors(one, right)
        scale = max(right.nan_to_num(0.0, 0.0, 0.0).abs().max().item(), 1.0)
        torch.testing.assert_close(one / scale, right / scale, rtol=0.0, atol=within, equal_nan=True)


@pytest.fixture
def tiled(monkeypatch) -> list:
    """The launches of kernels over tiles, so that no test takes the kernels over lists for them."""
    launches = []
    monkeypatch.setattr(launch, "MAX_PAIRS", dict.fromkeys(launch.MAX_PAIRS, 20))
    start = operators.launch_graphs
    monkeypatch.setattr(operators, "launch_graphs", lambda *given: (launches.append(given[0]), start(*given)))
    yield launches
    assert launches


@pytest.mark.parametrize(
    ("score", "normalizer"),
    [
        *(("scaled", normalizer) for normalizer in NORMALIZERS if normalizer != "identity"),
        *(("constant", normalizer) for normalizer in ("softmax", "entmax", "mean")),
        ("cosine", "softmax"),
        ("bilinear", "temperature"),
    ],
)
def test_values_and_gradients_are_those_of_the_reference(tiled, score, normalizer):
    # The reference holds a matrix of the bilinear score for each pair of nodes: gigabytes for all graphs.
    edges = small_graphs(SIZES[:5] if score == "bilinear" else SIZES)
    numbers = numbers_for(edges)
    options = {"score": SCORES[score], "normalize": NORMALIZERS[normalizer]}
    wanted = solve(edges, numbers, "reference", torch.float64, **options)
    assert_alike(solve(edges, numbers, "triton", torch.float32, **options), wanted)


@pytest.mark.parametrize(
    ("dims", "bias", "programs"),
    by_day(itertools.product([(1, 16, 32), (3, 32, 16), (2, 64, 1)], [False, True], [1, 4096])),
)
def test_sizes_of_heads(tiled, monkeypatch, dims, bias, programs):
    """Heads one after the other in few programs, or each in programs of its own."""
    heads, key_dim, value_dim = dims
    monkeypatch.setattr(launch, "PROGRAMS", programs)
    edges = small_graphs((20, 31, 32, 11))
    numbers = numbers_for(edges, heads, key_dim, value_dim)
    wanted = solve(edges, numbers, "reference", torch.float64, bias=bias)
    assert_alike(solve(edges, numbers, "triton", torch.float32, bias=bias), wanted)


@pytest.mark.parametrize(
    ("dims", "dtype", "normalizer"),
    by_day(itertools.product([(16, 16), (5, 3)], [torch.bfloat16, torch.float16], ["softmax", "identity"])),
)
def test_half_precision_is_storage_only(tiled, dtype, dims, normalizer):
    key_dim, value_dim = dims
    edges = small_graphs()
    numbers = {name: x.to(dtype).double() for name, x in numbers_for(edges, 2, key_dim, value_dim).items()}
    exact, plain, found = (
        solve(edges, numbers, backend, form, normalize=NORMALIZERS[normalizer])
        for backend, form in (("reference", torch.float64), ("reference", dtype), ("triton", dtype))
    )
    for name, right in exact.items():
        scale = max(right.abs().max().item(), 1.0)
        allowed = 2 * (plain[name] - right).abs().max() + 2 * torch.finfo(dtype).eps * scale
        assert (found[name] - right).abs().max() <= allowed, name


def test_keys_that_are_the_values_too(tiled):
    edges = small_graphs()
    numbers = numbers_for(edges)
    found = []
    for backend, dtype in (("reference", torch.float64), ("triton", torch.float32)):
        device = DEVICE if backend == "triton" else "cpu"
        query, both = (numbers[name].to(device, dtype).requires_grad_() for name in ("query", "key"))
        out = attend(query, both, both, edges.to(device), backend=backend)
        found.append([x.cpu().double() for x in (out, *torch.autograd.grad(out.square().sum(), (query, both)))])
    for right, one in zip(*found, strict=True):
        assert (one - right).abs().max() < 1e-5 * right.abs().max()


@pytest.mark.parametrize("shut", [torch.finfo(torch.bfloat16).min, -3e38, 3e38])
def test_a_bias_as_large_as_a_number_can_be_leaves_its_row_as_it_is(tiled, shut):
    """All edges of a node have it: nothing is changed by it but what is lost of the scores beside it."""
    node = torch.arange(12)
    edges = Edges(node.repeat(12), node.repeat_interleave(12), 12, 12)
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    bias = torch.zeros(2, 144, dtype=torch.bfloat16).masked_fill(edges.receivers == 3, shut)
    found = attend(*[x.to(DEVICE)] * 3, edges.to(DEVICE), bias=bias.to(DEVICE), backend="triton").cpu()
    wanted = attend(x.double(), x.double(), x.double(), edges, bias=bias.double(), backend="reference")
    wanted[:, 3] = x.double().mean(1)  # beside such a number all scores are alike
    torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=0.02)


def test_a_bias_that_all_heads_share(tiled):
    edges = small_graphs()
    numbers = numbers_for(edges)
    numbers["bias"] = numbers["bias"][:1]
    wanted = solve(edges, numbers, "reference", torch.float64)
    assert_alike(solve(edges, numbers, "triton", torch.float32), wanted)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # the interpreter's, of numpy
@pytest.mark.parametrize(
    ("number", "broken"), by_day(itertools.product([torch.nan, torch.inf], ["query", "key", "value"]))
)
def test_what_is_not_finite_stays_in_its_graph(tiled, broken, number):
    """A node of the second graph is broken: the others, in the same tile, do not notice, forward or backward."""
    edges = small_graphs((12, 9, 11), 0.7)
    numbers = numbers_for(edges)
    sound = solve(edges, numbers, "triton", torch.float32)
    numbers[broken][1, 14, 2] = number
    found = solve(edges, numbers, "triton", torch.float32)
    wanted = solve(edges, numbers, "reference", torch.float64)
    assert not torch.isfinite(found["output"][1]).all()
    others = torch.cat([torch.arange(12), torch.arange(21, 32)])
    for name in ("output", "query", "key", "value"):
        # A tile that is done again is added up in another order: on a device the last bits differ.
        assert_alike({name: found[name][:, others]}, {name: sound[name][:, others]})
        assert torch.equal(found[name][0], sound[name][0]), name
    if broken == "value":
        one, right = ({"output": x["output"].nan_to_num(1e3, 1e3, 1e3)} for x in (found, wanted))
        assert_alike(one, right)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_gradient_that_is_not_finite_stays_in_its_graph(tiled):
    edges = small_graphs((12, 9, 11), 0.7)
    numbers = numbers_for(edges)
    at = [numbers[name].to(DEVICE, torch.float32).requires_grad_() for name in ("query", "key", "value")]
    out = attend(*at, edges.to(DEVICE), backend="triton")
    cotangent = torch.ones_like(out)
    sound = torch.autograd.grad(out, at, cotangent, retain_graph=True)
    cotangent[0, 15] = torch.nan
    found = torch.autograd.grad(out, at, cotangent)
    others = torch.cat([torch.arange(12), torch.arange(21, 32)]).to(DEVICE)
    for one, other in zip(found, sound, strict=True):
        torch.testing.assert_close(one[:, others], other[:, others])
        assert torch.equal(one[1:], other[1:])
        assert one[0].isnan().any()


def test_dropout_is_that_of_the_kernels_over_lists(tiled, monkeypatch):
    """The same seed drops the same edges, whichever kernel runs."""
    edges = small_graphs((12, 25, 11)).to(DEVICE)
    numbers = numbers_for(edges)
    results = []
    for most in (20, 0):
        monkeypatch.setattr(launch, "MAX_PAIRS", {4: most})
        again = Edges(edges.senders, edges.receivers, edges.num_senders, edges.num_receivers)
        torch.manual_seed(4)
        results.append(solve(again, numbers, "triton", torch.float32, dropout=0.4))
    assert_alike(*results)
    assert len(tiled) == 2  # forward and backward of the first


def test_a_hand_made_tile(tiled):
    """Two nodes that see each other and themselves, with one feature: the weights are those of a sigmoid."""
    node = torch.arange(32)
    edges = Edges(torch.cat([node, node ^ 1]), torch.cat([node, node]), 32, 32)
    x = torch.zeros(1, 32, 1)
    x[0, 1] = 1.0
    out = attend(x.to(DEVICE), x.to(DEVICE), x.to(DEVICE), edges.to(DEVICE), score=Dot(), backend="triton").cpu()
    assert out[0, :4, 0].tolist() == pytest.approx([0.5, torch.tensor(1.0).sigmoid().item(), 0.0, 0.0])


def test_graphs_are_packed_whole():
    edges = small_graphs()
    plan = edges.plan
    lists = [plan.receiver_offsets, plan.senders, plan.receiver_edges, plan.sender_offsets]
    packing = work.pack(lists, 64, 20)
    tiles = sorted(
        (first, count) for group in packing.tiles for first, count in zip(group.firsts.tolist(), group.counts.tolist())
    )
    # 5 + 9 + 1, 25, 30 with the two of the three that the last of them is not joined to, that one, 40
    assert tiles == [(0, 15), (15, 25), (40, 32), (72, 1), (73, 40)]
    found = []
    for room, group in zip(packing.sizes, packing.tiles, strict=True):
        for first, count, word in zip(*(x.tolist() for x in group), strict=True):
            assert count <= room
            bits = packing.seen[word : word + room * room // 32].view(room, -1, 1) >> torch.arange(32) & 1
            own, other = bits.view(room, room).nonzero(as_tuple=True)
            found.append(torch.stack([own + first, other + first]))
    pairs = torch.cat(found, 1)
    pairs = pairs[:, (pairs[0] * edges.num_senders + pairs[1]).argsort()]
    assert torch.equal(pairs[0], edges.receivers[packing.edges]) and torch.equal(pairs[1], edges.senders[packing.edges])


@pytest.mark.parametrize(
    ("edges", "most"),
    [
        (small_graphs((70, 3)), 64),
        (small_graphs((33, 3)), 32),
        (small_graphs((30, 30), 0.02), 64),
        (Edges(torch.arange(40).repeat(20), torch.arange(40).repeat(20), 40, 40), 64),
        (Edges(torch.arange(30).repeat(30), torch.arange(30).repeat_interleave(30), 30, 31), 64),
        (Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 4, 4), 64),
    ],
    ids=["too large", "too large for wide heads", "too few edges", "edges twice", "bipartite", "no edges"],
)
def test_what_is_not_packed(edges, most):
    plan = edges.plan
    lists = [plan.receiver_offsets, plan.senders, plan.receiver_edges, plan.sender_offsets]
    assert work.pack(lists, most, 20) is None


@pytest.mark.parametrize(
    ("size", "dim", "normalizer"),
    [(20, 24, "softmax"), (20, 32, "identity"), (40, 16, "softmax")],
    ids=["uneven rows", "no sum of a row", "narrow rows of many nodes"],
)
def test_what_is_left_of_float32_to_the_kernels_over_lists(monkeypatch, size, dim, normalizer):
    edges = small_graphs((size, 5))
    numbers = numbers_for(edges, 2, dim, dim)
    monkeypatch.setattr(operators, "launch_graphs", lambda *given: pytest.fail("packed"))
    wanted = solve(edges, numbers, "reference", torch.float64, normalize=NORMALIZERS[normalizer])
    assert_alike(solve(edges, numbers, "triton", torch.float32, normalize=NORMALIZERS[normalizer]), wanted)


@pytest.mark.parametrize(("dtype", "is_packed"), [(torch.float32, False), (torch.bfloat16, True)])
def test_few_edges_of_float32_are_left_to_the_kernels_over_lists(monkeypatch, dtype, is_packed):
    """A ring of 25 atoms: its tile has 1,024 pairs, 20 for each edge."""
    packed = []
    monkeypatch.setattr(operators, "launch_graphs", lambda *given: packed.append(given))
    node = torch.arange(25)
    edges = Edges(torch.cat([node, node.roll(1)]), torch.cat([node.roll(1), node]), 25, 25)
    edges = Edges(torch.cat([edges.senders, node]), torch.cat([edges.receivers, node]), 25, 25)
    x = torch.randn(2, 25, 32, device=DEVICE, dtype=dtype)
    attend(x, x, x, edges.to(DEVICE), backend="triton")
    assert bool(packed) == is_packed


@pytest.mark.parametrize(("dim", "is_packed"), [(24, False), (32, True)])
def test_dropout_over_uneven_rows_is_left_to_the_kernels_over_lists(monkeypatch, dim, is_packed):
    packed = []
    monkeypatch.setattr(operators, "launch_graphs", lambda *given: packed.append(given))
    x = torch.randn(2, 25, dim, device=DEVICE, dtype=torch.float16)
    attend(x, x, x, small_graphs((20, 5)).to(DEVICE), dropout=0.1, backend="triton")
    assert bool(packed) == is_packed


def test_every_run_has_the_same_bits(tiled):
    edges = small_graphs((25, 14, 31))
    numbers = numbers_for(edges)
    runs = [solve(edges, numbers, "triton", torch.float32) for _ in range(2)]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
