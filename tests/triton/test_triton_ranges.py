"""The kernels over runs of keys compute what the reference computes, values and gradients."""

import itertools

import pytest
import torch
from triton_cases import DEVICE, NORMALIZERS, SCORES, by_day

from edgewise import Causal, Constant, Dot, Full, Lengths, Mean, Segments, Softmax, Window, attend
from edgewise.backends.triton.ranges import layout

HEADS, QUERIES, KEYS, KEY_DIM, VALUE_DIM = 2, 19, 21, 5, 3
EVERYWHERE = ["scaled", "tanh"]
"""Scores that are tried with every normalizer; the others with one."""
PAIRS = [
    (score, normalizer)
    for score in SCORES
    for normalizer in NORMALIZERS
    if score in EVERYWHERE or normalizer == "softmax"
]
NEIGHBORHOODS = {
    "full": Full(),
    "causal": Causal(),
    "causal_start": Causal("start"),
    "window": Window(2, 1),
    "lengths": Lengths(torch.tensor([[7], [0]]), torch.tensor([[19], [4]])),
    "segments": Segments(torch.tensor([0, 3, 3, 19]), torch.tensor([0, 5, 9, 21])),
    "causal_segments": Causal() & Segments(torch.tensor([0, 3, 3, 19]), torch.tensor([0, 5, 9, 21])),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of queries and of keys in small problems."""
    monkeypatch.setattr(layout, "BLOCK", 16)


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def solve(neighborhood, score, normalizer, bias, backend, dtype, device="cpu", dims=(KEY_DIM, VALUE_DIM)):
    """The output and all gradients, in float64 on the CPU."""
    batch = (2, HEADS) if isinstance(neighborhood, Lengths) else (HEADS,)
    key_dim, value_dim = dims
    given = {
        "query": numbers(*batch, QUERIES, key_dim, seed=1),
        "key": numbers(*batch, KEYS, key_dim, seed=2),
        "value": numbers(*batch, KEYS, value_dim, seed=3),
        "vector": numbers(HEADS, key_dim, seed=4),
        "other": numbers(HEADS, key_dim, seed=5),
        "matrix": numbers(HEADS, key_dim, key_dim, seed=6),
        "positive": numbers(HEADS, seed=7).abs() + 0.5,
    }
    if bias is not None:
        given["bias"] = numbers(*bias, seed=8)
    at = {name: x.to(device, dtype).clone().requires_grad_() for name, x in given.items()}
    out = attend(
        at["query"], at["key"], at["value"], neighborhood.to(device),
        score=SCORES[score](at), normalize=NORMALIZERS[normalizer](at), bias=at.get("bias"), backend=backend,
    )  # fmt: skip
    (out * numbers(*out.shape, seed=9).to(device, dtype)).sum().backward()
    found = {name: x.grad for name, x in at.items() if x.grad is not None}
    return {name: x.detach().cpu().double() for name, x in {"output": out, **found}.items()}


def assert_as_the_reference(neighborhood, score, normalizer, bias, **more):
    wanted = solve(neighborhood, score, normalizer, bias, "reference", torch.float64, **more)
    found = solve(neighborhood, score, normalizer, bias, "triton", torch.float32, DEVICE, **more)
    for name in found.keys() | wanted.keys():
        one, right = (each.get(name, torch.zeros(1, dtype=torch.float64)) for each in (found, wanted))
        assert (one - right).abs().max() <= 1e-5 * max(right.abs().max().item(), 1.0), name


@pytest.mark.parametrize(("score", "normalizer"), by_day(PAIRS))
def test_scores_and_normalizers_are_those_of_the_reference(score, normalizer):
    assert_as_the_reference(Window(6, 3), score, normalizer, (HEADS, QUERIES, KEYS))


@pytest.mark.parametrize(("score", "name"), by_day(itertools.product(["dot", "tanh"], NEIGHBORHOODS)))
def test_neighborhoods_are_those_of_the_reference(name, score):
    assert_as_the_reference(NEIGHBORHOODS[name], score, "softmax", None)


@pytest.mark.parametrize(
    ("dims", "score", "normalizer"),
    by_day(
        (dims, *pair)
        for dims in ((layout.FEATURES_AT_ONCE + 5, 3), (5, 2 * layout.FEATURES_AT_ONCE + 3))
        for pair in (("scaled", "softmax"), ("dot", "hardmax"), ("tanh", "entmax"))
    ),
)
def test_features_that_are_read_piece_by_piece(score, normalizer, dims):
    assert_as_the_reference(Window(6, 3), score, normalizer, None, dims=dims)


@pytest.mark.parametrize("bias", [(QUERIES, KEYS), (1, KEYS), (QUERIES, 1), (HEADS, 1, KEYS), (1, 1)], ids=str)
def test_a_bias_that_is_shared_gets_the_sum_of_its_gradients(bias):
    assert_as_the_reference(Causal(), "gatv2", "softmax", bias)


def test_a_mean_has_the_batch_axes_of_the_bias_that_it_does_not_look_at():
    query, value = numbers(5, 4, seed=1).float().to(DEVICE), numbers(5, 3, seed=2).float().to(DEVICE)
    bias = numbers(2, 5, 5, seed=3).float().to(DEVICE)
    found, right = (
        attend(query, query, value, bias=bias, normalize=Mean(), backend=name) for name in ("triton", "reference")
    )
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("score", [Constant(100.0), "relu", "gatv2", "gelu"], ids=str)
def test_queries_beyond_the_last_weigh_nothing_however_large_their_scores_would_be(score):
    """A block has places for more: e to the score that a query of zeros has there is infinite."""
    found = []
    for backend, device in (("triton", DEVICE), ("reference", "cpu")):
        at = {name: 30 * numbers(HEADS, QUERIES, KEY_DIM, seed=seed) for seed, name in enumerate(("query", "key"))}
        at |= {"value": numbers(HEADS, QUERIES, VALUE_DIM, seed=3), "vector": 5 * numbers(HEADS, KEY_DIM, seed=4)}
        at = {name: x.to(device, torch.float32).requires_grad_() for name, x in at.items()}
        rule = SCORES[score](at) if isinstance(score, str) else score
        out = attend(at["query"], at["key"], at["value"], score=rule, backend=backend)
        (out * numbers(*out.shape, seed=9).to(out)).sum().backward()
        found.append({name: x.grad.cpu() for name, x in at.items() if x.grad is not None})
    for name, right in found[1].items():
        assert (found[0][name] - right).abs().max() <= 1e-4 * max(right.abs().max().item(), 1.0), name


def test_unseen_keys_never_reach_the_output():
    query, key = numbers(HEADS, 9, 4, seed=1).float().to(DEVICE), numbers(HEADS, 9, 4, seed=2).float().to(DEVICE)
    spoiled = key.clone()
    spoiled[:, 5:] = torch.nan
    found = attend(query, spoiled, spoiled, Causal(), score=Dot(), backend="triton")
    assert torch.equal(found[:, :5], attend(query, key, key, Causal(), score=Dot(), backend="triton")[:, :5])
    assert found[:, 5:].isnan().all()


def test_adding_1000_to_every_score_changes_nothing():
    query, key = ((numbers(HEADS, 9, 4, seed=seed) * 4).round().float().to(DEVICE) / 4 for seed in (1, 2))
    bias = (numbers(9, 9, seed=3) * 16).round().float().to(DEVICE) / 16
    one, two = (
        attend(query, key, key, score=Dot(), normalize=Softmax(), bias=bias + more, backend="triton")
        for more in (0.0, 1000.0)
    )
    assert (one - two).abs().max() < 1e-5


def test_dropout_is_the_same_in_both_passes_and_for_the_same_seed():
    query, key = (numbers(HEADS, 9, 4, seed=seed).float().to(DEVICE) for seed in (1, 2))
    value = torch.ones(HEADS, 9, 2, device=DEVICE, requires_grad=True)
    outs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outs.append(attend(query, key, value, dropout=0.4, backend="triton"))
        (grad,) = torch.autograd.grad(outs[-1].sum(), value)
        assert torch.allclose(grad.sum(), outs[-1].sum(), rtol=1e-5)
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])


@pytest.mark.parametrize("dims", [(layout.WIDE, 5), (5, layout.WIDE)], ids=str)
def test_wide_features_of_half_precision_that_dropout_reads_piece_by_piece(monkeypatch, dims):
    found = []
    for wide in (layout.WIDE, None):
        monkeypatch.setattr(layout, "WIDE", wide)
        torch.manual_seed(0)
        given = [
            numbers(HEADS, 19, dim, seed=seed).to(DEVICE, torch.bfloat16).requires_grad_()
            for seed, dim in enumerate((dims[0], dims[0], dims[1]))
        ]
        out = attend(*given, Window(6, 3), dropout=0.4, backend="triton")
        found.append([out, *torch.autograd.grad(out, given, numbers(HEADS, 19, dims[1], seed=4).to(out))])
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() <= 2**-7 * other.abs().max()


@pytest.mark.parametrize("score", ["scaled", "tanh", "gatv2"])
def test_float16_is_rounded_where_a_device_rounds_it(score):
    """At most twice the error of plain torch, and two roundings more. The interpreter multiplies float16 as it is."""
    given = Full(), score, "softmax", (HEADS, QUERIES, KEYS)
    right = solve(*given, "reference", torch.float64)
    plain, found = solve(*given, "gather", torch.float16), solve(*given, "triton", torch.float16, DEVICE)
    for name, wanted in right.items():
        off, usual = ((x[name] - wanted).abs().max() / wanted.abs().max() for x in (found, plain))
        assert off <= 2 * (usual + torch.finfo(torch.float16).eps), name


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # the interpreter's, of numpy
@pytest.mark.parametrize(
    ("score", "broken"), by_day(itertools.product(["scaled", "tanh"], ["query", "key", "value", "cotangent"]))
)
def test_nonfinite_values_reach_only_queries_that_see_them(score, broken):
    """Forward and backward: of a window, node 9 is broken, and those from 13 on see nothing that sees it."""
    found = []
    for number in (0.5, torch.nan):
        at = {name: numbers(1, QUERIES, KEY_DIM, seed=seed) for seed, name in enumerate(("query", "key", "value"))}
        at |= {"cotangent": numbers(1, QUERIES, KEY_DIM, seed=4), "vector": numbers(KEY_DIM, seed=5)}
        at[broken][0, 9, 1] = number
        at = {name: x.to(DEVICE, torch.float32).requires_grad_() for name, x in at.items()}
        leaves = at["query"], at["key"], at["value"]
        out = attend(*leaves, Window(1, 1), score=SCORES[score](at), backend="triton")
        found.append([x.detach().cpu() for x in (out, *torch.autograd.grad(out, leaves, at["cotangent"].detach()))])
    for sound, one in zip(*found, strict=True):
        for far in (slice(0, 6), slice(13, None)):
            torch.testing.assert_close(one[:, far], sound[:, far], rtol=1e-5, atol=1e-5)
    assert any(x.isnan().any() for x in found[1])
