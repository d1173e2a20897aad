"""The kernels over edges compute what the reference computes, values and gradients."""

import itertools

import pytest
import torch
from triton_cases import CHUNK, DEVICE, NORMALIZERS, RECEIVERS, SCORES, SENDERS, by_day, problem, solve

from edgewise import Dot, Edges, Softmax, Sparsemax, attend, attention_weights, why
from edgewise.backends.triton.edges import layout, operators, work

EVERYWHERE = ["dot", "gatv2"]
"""Scores that are tried with every normalizer; the others with two."""
PAIRS = [
    (score, normalizer)
    for score in SCORES
    for normalizer in NORMALIZERS
    if score in EVERYWHERE or normalizer in ("softmax", "sparsemax")
]


@pytest.fixture(autouse=True)
def small_hubs(monkeypatch):
    """Rows of more than 16 edges are hubs, and are normalized in several blocks."""
    monkeypatch.setattr(work, "CHUNK", CHUNK)
    monkeypatch.setattr(operators, "HUB_BLOCK", CHUNK)


def assert_alike(found, wanted, within):
    """Every output and gradient within a share of the largest number of its kind, or of one."""
    for name in found.keys() | wanted.keys():
        # A gradient that only one of the two knows must be zero.
        one, right = (each.get(name, torch.zeros(1, dtype=torch.float64)) for each in (found, wanted))
        error = (one - right).abs().max().item()
        assert error <= within * max(right.abs().max().item(), 1.0), f"{name}: {error}"


@pytest.mark.parametrize(
    ("score", "normalizer", "carries"), by_day((*pair, carries) for carries in (True, False) for pair in PAIRS)
)
def test_values_and_gradients_are_those_of_the_reference(score, normalizer, carries):
    given = problem()
    wanted = solve(given, score, normalizer, carries, "reference", torch.float64)
    assert_alike(solve(given, score, normalizer, carries, "triton", torch.float32, DEVICE), wanted, 1e-5)


@pytest.mark.parametrize(("score", "normalizer"), by_day(itertools.product(EVERYWHERE, ["softmax", "entmax"])))
def test_what_all_heads_share_is_not_repeated(score, normalizer):
    given = problem(shared=True)
    wanted = solve(given, score, normalizer, True, "reference", torch.float64)
    assert_alike(solve(given, score, normalizer, True, "triton", torch.float32, DEVICE), wanted, 1e-5)


@pytest.mark.parametrize(
    ("heads", "key_dim", "value_dim"), [(1, 8, 16), (8, 16, 16), (4, 32, 32), (3, 100, 256), (2, 256, 1)]
)
def test_sizes_of_heads(heads, key_dim, value_dim):
    given = problem(heads=heads, key_dim=key_dim, value_dim=value_dim)
    wanted = solve(given, "scaled", "softmax", True, "reference", torch.float64)
    assert_alike(solve(given, "scaled", "softmax", True, "triton", torch.float32, DEVICE), wanted, 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("score", EVERYWHERE)
def test_half_precision_is_storage_only(dtype, score):
    """The error is at most that of the reference in the same precision, twice; and of one rounding more where the
    interpreter cuts numbers off that a device rounds."""
    given = problem()
    exact = solve(given, score, "softmax", False, "reference", torch.float64)
    plain = solve(given, score, "softmax", False, "reference", dtype)
    found = solve(given, score, "softmax", False, "triton", dtype, DEVICE)
    for name, right in exact.items():
        scale = max(right.abs().max().item(), 1.0)
        allowed = 2 * (plain[name] - right).abs().max() + 2 * torch.finfo(dtype).eps * scale
        assert (found[name] - right).abs().max() <= allowed, name


class Doubled(torch.autograd.Function):
    """The same numbers in the same place of memory, whose gradient is doubled on its way."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


ALIASES = {"one tensor": lambda x: x, "one memory": Doubled.apply}


@pytest.mark.parametrize(
    ("score", "normalizer", "alias"),
    by_day(
        (score, normalizer, alias)
        for score in EVERYWHERE
        for normalizer in ("softmax", "entmax", "mean", "hardmax")
        for alias in ALIASES
    ),
)
def test_keys_that_are_the_values_too(score, normalizer, alias):
    """Nodes' and edges': gathered once; their gradient is that of both."""
    given, alias = problem(value_dim=5), ALIASES[alias]
    found = []
    for backend, dtype in (("reference", torch.float64), ("triton", torch.float32)):
        device = DEVICE if backend == "triton" else "cpu"
        names = "query", "key", "edge_key"
        query, both, of_edges = (given.tensors[name].to(device, dtype).clone().requires_grad_() for name in names)
        parts = {name: x.to(device, dtype) for name, x in given.parts.items()}
        for carried in ({}, {"edge_key": of_edges, "edge_value": alias(of_edges)}):
            options = {"score": SCORES[score](parts), "normalize": NORMALIZERS[normalizer](parts), "backend": backend}
            out = attend(query, both, alias(both), given.edges.to(device), **options, **carried)
            grads = torch.autograd.grad(out.square().sum(), (query, both, of_edges), materialize_grads=True)
            found.append([x.detach().cpu().double() for x in (out, *grads)])
    for right, one in zip(found[:2], found[2:], strict=True):
        for x, y in zip(right, one, strict=True):
            assert (y - x).abs().max() < 1e-5 * max(x.abs().max().item(), 1.0)


@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_a_temperature_in_half_precision_has_the_gradient_of_plain_torch(score):
    """Its scores are float32: what the gradient subtracts, dO · o, must not be rounded to what is stored."""
    given = problem()
    found = {}
    for backend, dtype in (("gather", torch.float64), ("gather", torch.bfloat16), ("triton", torch.bfloat16)):
        device = DEVICE if backend == "triton" else "cpu"
        names = "query", "key", "value"
        at = [(3 * given.tensors[name]).bfloat16().to(device, dtype).requires_grad_() for name in names]
        positive = given.parts["positive"].bfloat16().to(device, dtype).requires_grad_()
        out = attend(
            *at, given.edges.to(device), score=SCORES[score](given.parts), normalize=Softmax(positive), backend=backend
        )
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        grads = torch.autograd.grad((out * weights.to(device, dtype)).sum(), (*at, positive))
        found[backend, dtype] = [x.detach().cpu().double() for x in (out, *grads)]
    right, plain, ours = found.values()
    for x, rounded, y in zip(right, plain, ours, strict=True):
        scale = x.abs().max()
        assert (y - x).abs().max() <= 2 * (rounded - x).abs().max() + torch.finfo(torch.bfloat16).eps * scale


def _arguments(device=DEVICE):
    given = problem()
    return given, [given.tensors[name].float().to(device) for name in ("query", "key", "value")], given.edges.to(device)


def test_keys_without_queries_never_reach_the_output():
    _, (query, key, value), edges = _arguments()
    alone = Edges(edges.senders, edges.receivers, SENDERS + 1, RECEIVERS)
    more = torch.full((3, 1, 5), torch.nan, device=DEVICE)
    found = attend(query, torch.cat([key, more], 1), torch.cat([value, more[..., :3]], 1), alone, backend="triton")
    assert torch.equal(found, attend(query, key, value, edges, backend="triton"))
    assert (found[:, 7] == 0).all()


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax()])
def test_adding_1000_to_every_score_changes_nothing(normalizer):
    given, tensors, edges = _arguments()
    # Numbers of few digits, so that the sum with 1000 is exact.
    bias = (given.tensors["bias"].float() * 16).round().to(DEVICE) / 16
    query, key, value = ((x * 4).round() / 4 for x in tensors)
    one = attend(query, key, value, edges, score=Dot(), normalize=normalizer, bias=bias, backend="triton")
    two = attend(query, key, value, edges, score=Dot(), normalize=normalizer, bias=bias + 1000, backend="triton")
    assert (one - two).abs().max() < 1e-5


def test_a_row_that_a_bias_shuts_is_empty():
    _, (query, key, value), edges = _arguments()
    bias = torch.zeros(edges.num_edges, device=DEVICE)
    bias[edges.receivers == 3] = -torch.inf
    query.requires_grad_()
    found = attend(query, key, value, edges, bias=bias, backend="triton")
    found.square().sum().backward()
    assert (found[:, 3] == 0).all()
    assert query.grad is not None
    assert query.grad.isfinite().all()
    assert (query.grad[:, 3] == 0).all()


def test_no_edge_at_all():
    query, key = torch.randn(2, 4, 5, device=DEVICE, requires_grad=True), torch.randn(2, 3, 5, device=DEVICE)
    nothing = torch.zeros(0, dtype=torch.int64)
    found = attend(query, key, key, Edges(nothing, nothing, 3, 4).to(DEVICE), backend="triton")
    found.sum().backward()
    assert found.shape == (2, 4, 5)
    assert (found == 0).all()
    assert query.grad is not None
    assert (query.grad == 0).all()


def test_dropout_keeps_the_mean_and_is_the_same_in_both_passes():
    """With values of one and a gradient of one, the gradient of each value is the sum of its kept weights, and all
    sums together are those of the outputs."""
    _, (query, key, _), edges = _arguments()
    value = torch.ones(3, SENDERS, 2, device=DEVICE, requires_grad=True)
    sums = []
    for seed in range(3):
        torch.manual_seed(seed)
        found = attend(query, key, value, edges, dropout=0.4, backend="triton")
        (grad,) = torch.autograd.grad(found.sum(), value)
        assert torch.allclose(grad.sum(), found.sum(), rtol=1e-5)
        torch.manual_seed(seed)
        assert torch.equal(found, attend(query, key, value, edges, dropout=0.4, backend="triton"))
        sums.append(found.detach())
    every = torch.stack(sums)
    assert not torch.equal(every[0], every[1])
    share = torch.isin(torch.arange(RECEIVERS), edges.receivers.cpu()).float().mean()
    assert abs(every.mean().item() - share) < 0.1


def test_every_run_has_the_same_bits():
    given = problem()
    runs = [solve(given, "gatv2", "softmax", True, "triton", torch.float32, DEVICE) for _ in range(2)]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_weights_on_request_are_those_of_the_reference(normalizer):
    given, (query, key, _), edges = _arguments()
    options = {"score": SCORES["gatv2"], "normalize": NORMALIZERS[normalizer]}
    parts = {name: x.float().to(DEVICE) for name, x in given.parts.items()}
    carried = {name: given.tensors[name].float().to(DEVICE) for name in ("bias", "edge_key")}
    found = attention_weights(query, key, edges, **{name: make(parts) for name, make in options.items()}, **carried)
    exact = attention_weights(
        given.tensors["query"], given.tensors["key"], given.edges,
        **{name: make(given.parts) for name, make in options.items()},
        bias=given.tensors["bias"], edge_key=given.tensors["edge_key"],
    )  # fmt: skip
    assert torch.equal(found.senders.cpu(), exact.senders)
    assert (found.values.cpu() - exact.values).abs().max() < 1e-5
    strongest = attention_weights(query, key, edges, top=2)
    assert torch.bincount(strongest.receivers.cpu(), minlength=RECEIVERS).max() == 2


def test_rows_are_dealt_out_once_each():
    degrees = torch.tensor([0, 1, 8, 9, 300, 16, 600, 17, 0, 256, 257])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)]).int()
    dealt = work.deal(offsets, lows=(16, 4), chunk=256)
    places = list(zip(*(column.tolist() for column in dealt.chunks[:4]), strict=True))
    rows, starts, stops, slots = zip(*[place for place in places if place[3] != work.NO_ROW], strict=True)
    covered = torch.cat([torch.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    assert torch.equal(covered.sort().values, torch.arange(offsets[-1]))
    pieces = list(zip(rows, starts, stops, strict=True))
    assert all(offsets[row] <= a and b <= offsets[row + 1] for row, a, b in pieces)
    assert [rows.tolist() for rows in dealt.low_rows] == [[2, 3, 5], [0, 1, 8]]
    assert dealt.high_rows.tolist() == [6, 4, 10, 9, 7]
    assert (dealt.num_hubs, dealt.hub_slots.tolist(), dealt.num_slots) == (3, [0, 3, 5, 7], 7)
    assert slots == (0, 1, 2, 3, 4, 5, 6, *[work.WHOLE] * 8)
    # Tiles of one row, of one row of up to 16 edges, and of four of up to four.
    assert dealt.levels == {0: range(9), 1: range(9, 12), 2: range(12, 13)}
    assert dealt.chunks.firsts.tolist() == list(range(13)) and dealt.chunks.levels.tolist() == [0] * 9 + [1] * 3 + [2]
    assert places[12:] == [(0, 0, 0, -1), (1, 0, 1, -1), (8, 951, 951, -1), (0, 0, 0, work.NO_ROW)]


@pytest.mark.parametrize(("score", "forward", "both"), [("scaled", 2, 6), ("gatv2", 2, 8)])
def test_all_rows_are_one_launch_and_all_hubs_another(monkeypatch, score, forward, both):
    """Of a vector the gradient is summed level by level."""
    started = []
    monkeypatch.setattr(layout, "start", lambda kernel, *_: started.append(kernel))
    monkeypatch.setattr(work, "CHUNK", CHUNK)
    solve(problem(), score, "softmax", False, "triton", torch.float32, DEVICE)
    assert len(started) == both
    del started[forward:]
    assert [kernel.__name__ for kernel in started] == ["forward", "merge"]


@pytest.mark.parametrize(("shape", "is_taken"), [((500_000, 2, 16), True), ((600_000, 2, 16), False)])
def test_more_heads_than_a_launch_takes_are_refused_in_words(shape, is_taken):
    edges = Edges(torch.tensor([0, 1]), torch.tensor([1, 0]), 2, 2).to(DEVICE)
    x = torch.zeros(1, device=DEVICE).expand(shape)
    report = why(x, x, x, edges)
    assert ("triton refuses: 600,000 heads of 16 features over edges, of all members" in report) is not is_taken
