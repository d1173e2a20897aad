"""What every backend promises: emptiness, NaN that stays where it is, shifts, permutations, batches, dropout."""

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cases import all_backends, all_neighborhoods, all_normalizers, all_scores, in_case, label, named, problem
from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Constant,
    Cosine,
    Distance,
    Dot,
    Edges,
    Entmax15,
    Full,
    GATv2,
    Hardmax,
    Identity,
    Lengths,
    Mask,
    Mean,
    ScaledDot,
    Segments,
    Sigmoid,
    Softmax,
    Sparsemax,
    UnsupportedError,
    Window,
    aggregate,
    attend,
    attention_weights,
    why,
)
from edgewise.neighborhood import Ranges
from test_attend import refuses

NORMALIZERS = [Softmax(), Softmax(0.0), Softmax(math.inf), Sparsemax(), Entmax15(), Sigmoid(), Hardmax()]
EXACT = [name for name in all_backends if name != "sdpa"]
"""Backends that promise to keep NaN out outright; sdpa promises it for keys without a query."""


def run_or_skip(*arguments, **options):
    """attend(), or skip where the backend has a reason not to run this call."""
    try:
        return attend(*arguments, **options)
    except UnsupportedError as refusal:
        pytest.skip(str(refusal))


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("name", ["mask", "mask_nothing", "edges", "edges_none", "full_no_key", "causal_more_queries"])
def test_an_empty_neighborhood_gives_zero_and_finite_gradients(backend, name):
    for normalize in all_normalizers:
        task = problem(*named(all_neighborhoods, name), all_scores[0], normalize)
        if refuses(backend, task):
            continue
        with in_case(normalize.name):
            empty = [i for i in range(task.case[0].num_queries) if i not in {i for i, _ in task.case[0].pairs[0]}]
            assert empty
            out, gradients = task.run(backend)
            assert (out[..., empty, :] == 0).all()
            assert all(gradient.isfinite().all() for gradient in gradients.values())
            assert (gradients["query"][..., empty, :] == 0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("name", ["mask", "mask_padding", "mask_of_queries", "causal_more_queries", "lengths_both"])
def test_a_bias_outside_the_neighborhood_reaches_nothing(name, backend, bad):
    task = problem(*named(all_neighborhoods, name), all_scores[0], all_normalizers[0]).to(torch.float32)
    if refuses(backend, task):
        pytest.skip("refused")
    for normalize in (
        Softmax(),
        Softmax(0.5),
        *([] if backend == "sdpa" else [Softmax(torch.tensor(0.5)), Sparsemax()]),
    ):
        arguments = task.arguments | {"normalize": normalize}
        mask = task.case[0].neighborhood.to_mask(task.case[0].num_queries, task.case[0].num_keys)
        found = []
        for outside in (0.0, bad):
            bias = torch.where(mask, arguments["bias"].detach(), outside).requires_grad_()
            out = attend(**arguments | {"bias": bias}, backend=backend)
            leaves = [arguments[n] for n in ("query", "key", "value")]
            found.append((out, *torch.autograd.grad(out.sum(), [*leaves, bias])))
        for clean, dirty in zip(*found, strict=True):
            torch.testing.assert_close(dirty, clean)


FEW_SCORES = named(all_scores, "scaled_dot", "gatv2", "laplacian_per_head")
PARTS = [*itertools.product(all_scores, NORMALIZERS[:1]), *itertools.product(FEW_SCORES, NORMALIZERS[1:])]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize(("score", "normalize"), PARTS, ids=lambda x: getattr(x, "name", str(x)))
def test_what_a_query_may_not_attend_to_never_reaches_it(score, normalize, backend, bad):
    neighborhoods = {
        "table": Mask(torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]]) == 1),
        "ranges": Segments(torch.tensor([0, 2, 4])),
        "edges": Edges(torch.tensor([2, 0, 3, 1, 0, 3, 1]), torch.tensor([2, 0, 2, 0, 1, 3, 1]), 4, 5),
    }
    if backend == "numba":
        del neighborhoods["table"]  # which it refuses
    parameters = problem(all_neighborhoods[0], score, all_normalizers[0]).score_parameters
    for neighborhood, (spot, far) in itertools.product(neighborhoods.values(), [(2, [0, 1]), (1, [2, 3])]):
        generator = torch.Generator().manual_seed(0)
        clean = [torch.randn(3, n, 5, generator=generator, dtype=torch.float64) for n in (5, 4, 4)]
        rows = [*far, 4]
        options = {"score": score.make(*parameters), "normalize": normalize, "backend": backend}
        expected = run_or_skip(*clean, neighborhood, **options)
        for dirty in ([2], [0], [1], [0, 1, 2]):
            tensors = [x.clone() for x in clean]
            for place in dirty:
                tensors[place][:, spot] = bad
            for x in tensors:
                x.requires_grad_()
            out = attend(*tensors, neighborhood, **options)
            torch.testing.assert_close(out[:, rows], expected[:, rows])
            gradients = torch.autograd.grad(out[:, rows].sum(), tensors, materialize_grads=True)
            for gradient in gradients:
                assert gradient[:, far].isfinite().all()
            assert gradients[0][:, 4].isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30], ids=["nan", "inf", "overflowing"])
@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize(
    "neighborhood",
    [
        Lengths(torch.tensor([3, 2])),
        Causal() & Lengths(torch.tensor([3, 1])),
        Window(1, 1) & Lengths(torch.tensor([3, 1]), torch.tensor([3, 2])),
        Segments(torch.tensor([0, 2, 3])),
        Causal("start"),
        Mask(torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]) == 1),
    ],
    ids=lambda x: str(x)[:30],
)
def test_keys_masked_for_every_query_have_no_influence(neighborhood, backend, bad):
    num_queries = 5 if isinstance(neighborhood, Segments) else 3
    allowed = neighborhood.to_mask(num_queries, 5).expand(2, -1, -1)
    query, key, value = (torch.randn(2, n, 4) for n in (num_queries, 5, 5))
    expected = attend(query, key, value, neighborhood, backend="reference")
    nobody, lonely = ~allowed.any(-2), ~allowed.any(-1)
    assert nobody.any()
    tensors = [query.clone(), key.clone(), value.clone()]
    tensors[0][lonely], tensors[1][nobody], tensors[2][nobody] = bad, bad, bad
    for x in tensors:
        x.requires_grad_()
    out = run_or_skip(*tensors, neighborhood, backend=backend)
    torch.testing.assert_close(out, expected)
    for gradient in torch.autograd.grad(out.sum(), tensors, materialize_grads=True):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", all_backends)
def test_an_overflowing_score_of_a_masked_pair_has_no_influence(backend):
    """Every number is finite, and so is every length; the score of the padding is not."""
    options = {"neighborhood": Lengths(torch.tensor([3, 2])), "normalize": Softmax(1e-25)}
    query, key, value = torch.ones(2, 3, 4), torch.randn(2, 5, 4) * 1e-25, torch.randn(2, 5, 4)
    expected = attend(query, key, value, backend="reference", **options)
    key[0, 3:], key[1, 2:] = 1e15, 1e15
    tensors = [x.requires_grad_() for x in (query, key, value)]
    out = run_or_skip(*tensors, backend=backend, **options)
    torch.testing.assert_close(out, expected)
    for gradient in torch.autograd.grad(out.sum(), tensors, materialize_grads=True):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("score", all_scores, ids=lambda case: case.name)
def test_nan_reaches_every_query_that_attends_to_it(backend, score):
    parameters = problem(all_neighborhoods[0], score, all_normalizers[0]).score_parameters
    for neighborhood in (Full(), Full().to_edges(4, 6)):
        for place in range(3):
            if place < 2 and score.name == "constant":
                continue
            tensors = [torch.randn(3, n, 5, dtype=torch.float64) for n in (4, 6, 6)]
            tensors[place][:, 1] = math.nan
            for normalize in (Softmax(), Sparsemax(), Entmax15(), Sigmoid(), Softmax(0.0)):
                out = run_or_skip(
                    *tensors, neighborhood, score=score.make(*parameters), normalize=normalize, backend=backend
                )
                assert (out[:, 1] if place == 0 else out).isnan().all(), (place, normalize)
                assert place > 0 or out[:, [0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("shift", [1000.0, -1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["causal", "mask", "lengths", "edges"])
@pytest.mark.parametrize("normalize", [Softmax(), Softmax(0.5), Sparsemax(), Entmax15(), Hardmax()], ids=str)
def test_a_shift_of_all_scores_changes_nothing(backend, shift, dtype, name, normalize):
    task = problem(*named(all_neighborhoods, name), all_scores[0], all_normalizers[0]).to(dtype)
    arguments = task.arguments | {"normalize": normalize}
    # Numbers with few digits, so that adding 1000 rounds nothing away.
    few_digits = {n: (x.detach() * 4).round().div(4).requires_grad_() for n, x in task.tensors.items()}
    arguments |= few_digits | {"score": ScaledDot(1.0)}
    out = run_or_skip(**arguments, backend=backend)
    shifted_bias = (few_digits["bias"].detach() + shift).requires_grad_()
    shifted = run_or_skip(**arguments | {"bias": shifted_bias}, backend=backend)
    torch.testing.assert_close(shifted, out)
    leaves = [few_digits[n] for n in ("query", "key", "value")]
    before = torch.autograd.grad(out.sum(), [*leaves, few_digits["bias"]], materialize_grads=True)
    after = torch.autograd.grad(shifted.sum(), [*leaves, shifted_bias], materialize_grads=True)
    for one, other in zip(before, after):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "neighborhood", [Full(), Causal(), Mask(torch.arange(1024).view(32, 32) % 7 > 1)], ids=lambda x: str(x)[:6]
)
def test_a_float32_bias_beside_half_precision_is_not_rounded(backend, dtype, neighborhood):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 32, 16, generator=generator).to(dtype) for _ in range(3))
    bias = (torch.randn(32, 32, generator=generator) * 12).round() / 4  # adding 70000 rounds nothing away
    arguments = dict(neighborhood=neighborhood, score=ScaledDot(0.25))
    exact = attend(query.double(), key.double(), value.double(), bias=bias.double(), backend="gather", **arguments)
    for shift in (0.0, 1000.0, 70000.0, -1e5):
        shifted = (bias + shift).requires_grad_()
        out = run_or_skip(query, key, value, bias=shifted, backend=backend, **arguments)
        torch.testing.assert_close(out.double(), exact, atol=0.02, rtol=0.02)
        (gradient,) = torch.autograd.grad(out.sum(), shifted)
        assert gradient.dtype == torch.float32 and gradient.isfinite().all()


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
def test_a_half_precision_bias_over_a_small_temperature_does_not_overflow(backend, table):
    query, key, value = torch.zeros(2, 4).half(), torch.zeros(3, 4).half(), torch.eye(3).half()
    bias = torch.tensor([[1000.0, 1000.0, 999.0], [-1000.0, -1000.0, -2000.0]]).half()
    neighborhood, given_bias = (Full(), bias) if table else (Full().to_edges(2, 3), bias.flatten())
    out = run_or_skip(query, key, value, neighborhood, bias=given_bias, normalize=Softmax(0.01), backend=backend)
    torch.testing.assert_close(out, torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]).half())


@pytest.mark.parametrize("backend", [*EXACT, "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize("temperature", [0.03, 1e-5, torch.tensor(0.03), torch.tensor(1e-5)], ids=str)
@pytest.mark.parametrize("name", ["gat_v2", "additive_tanh", "additive_relu", "gat", "gaussian", "laplacian"])
def test_half_precision_parameters_over_a_small_temperature_are_not_rounded(name, temperature, table, dtype, backend):
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(shape, generator=draw).to(dtype) for shape in ((4, 8), (6, 8), (6, 3)))
    parameter = torch.rand(8, generator=draw).to(dtype)
    score_of = {
        "gat_v2": GATv2,
        "additive_tanh": Additive,
        "additive_relu": lambda vector: Additive(vector, "relu"),
        "gat": lambda vector: GAT(vector, vector),
        "gaussian": lambda vector: Distance("gaussian", vector[0]),
        "laplacian": lambda vector: Distance("laplacian", vector[0]),
    }[name]
    neighborhood = Full() if table else Full().to_edges(4, 6)
    parts = dict(normalize=Softmax(temperature))
    out = run_or_skip(query, key, value, neighborhood, score=score_of(parameter), backend=backend, **parts)
    exact = [x.double() for x in (query, key, value)]
    wanted = attend(*exact, neighborhood, score=score_of(parameter.double()), backend="reference", **parts)
    tolerance = torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize("temperature", [0.5, 1e46, torch.tensor(0.5)], ids=str)
def test_a_bias_near_the_end_of_float32_stays_finite_over_a_temperature(backend, table, temperature):
    """Only −∞ forbids a pair: a row of the least finite number is as good as one of zeros."""
    query, key, value = torch.zeros(2, 4), torch.zeros(3, 4), torch.eye(3)
    bias = torch.tensor([[torch.finfo(torch.float32).min] * 3, [3e38, -math.inf, -math.inf]]).requires_grad_()
    neighborhood, given_bias = (Full(), bias) if table else (Full().to_edges(2, 3), bias.flatten())
    parts = dict(normalize=Softmax(temperature), backend=backend)
    out = run_or_skip(query, key, value, neighborhood, bias=given_bias, **parts)
    torch.testing.assert_close(out, torch.tensor([[1 / 3] * 3, [1.0, 0.0, 0.0]]))

    # α (v − Σ α v) / T, with v = 0, 1, 2.
    (gradient,) = torch.autograd.grad((out * torch.arange(3.0)).sum(), bias)
    wanted = torch.tensor([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]) / (3 * float(temperature))
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize("temperature", [0.5, torch.tensor(0.5)], ids=str)
def test_a_constant_near_the_end_of_float32_stays_finite_over_a_temperature(backend, table, temperature):
    query, key, value = torch.zeros(2, 4), torch.zeros(3, 4), torch.eye(3)
    neighborhood = Full() if table else Full().to_edges(2, 3)
    parts = dict(score=Constant(3e38), normalize=Softmax(temperature), backend=backend)
    torch.testing.assert_close(run_or_skip(query, key, value, neighborhood, **parts), torch.full((2, 3), 1 / 3))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_sdpa_leaves_a_bias_to_others_that_its_kernels_would_round(device):
    """Only torch's kernels for the CPU take a float32 bias beside half-precision queries."""
    tensors = [torch.zeros(4, 8, dtype=torch.bfloat16, device=device)] * 3
    for bias, temperature, is_rounded in (
        (torch.float32, 1.0, True),
        (torch.bfloat16, 0.3, True),
        (torch.bfloat16, 1.0, False),
    ):
        options = dict(bias=torch.zeros(4, 4, dtype=bias, device=device), normalize=Softmax(temperature))
        refuses_it = "sdpa refuses: the bias is more exact than the queries" in why(*tensors, **options)
        assert refuses_it == (is_rounded and device != "cpu")


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("shift", [1000.0, -1000.0])
@pytest.mark.parametrize("name", ["causal", "mask", "edges"])
@pytest.mark.parametrize("score", all_scores, ids=lambda case: case.name)
def test_a_shift_leaves_the_gradients_of_parameters_and_of_the_temperature(backend, shift, name, score):
    task = problem(*named(all_neighborhoods, name), score, named(all_normalizers, "softmax_per_head")[0])
    if refuses(backend, task):
        pytest.skip("refused")
    before, gradients = task.run(backend)
    with torch.no_grad():
        task.tensors["bias"] += shift
    after, shifted = task.run(backend)
    torch.testing.assert_close(after, before)
    for leaf, gradient in gradients.items():
        torch.testing.assert_close(shifted[leaf], gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [1e3, 1e30])
@pytest.mark.parametrize("normalize", NORMALIZERS, ids=str)
def test_huge_scores_that_are_forbidden_leave_the_gradients_finite(backend, dtype, size, normalize):
    """At 1e30 the products overflow: the forbidden scores are ∞ − ∞."""
    query, key = torch.ones(3, 4, dtype=dtype), torch.ones(5, 4, dtype=dtype)
    key[3:] = size * torch.tensor([1.0, -1.0, 1.0, 1.0])
    query[0] = size
    key[0], query[1:] = 0.0, 0.5
    value = torch.randn(5, 2, dtype=dtype)
    leaves = [x.requires_grad_() for x in (query, key, value)]
    mask = (torch.arange(5) < 3).expand(3, 5) & (torch.tensor([[False], [True], [True]]) | (torch.arange(5) < 1))
    out = run_or_skip(*leaves, Mask(mask), normalize=normalize, backend=backend)
    gradients = torch.autograd.grad(out.sum(), leaves, materialize_grads=True)
    assert all(x.isfinite().all() for x in (out, *gradients))
    assert (gradients[1][3:] == 0).all()
    assert (gradients[2][3:] == 0).all()


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize(
    "normalize",
    [Softmax(), Softmax(torch.tensor(0.7, requires_grad=True)), Sparsemax(), Entmax15(), Hardmax(), Sigmoid()],
    ids=["softmax", "softmax_tensor", "sparsemax", "entmax15", "hardmax", "sigmoid"],
)
def test_a_bias_of_minus_infinity_forbids_a_pair_and_a_row_of_it_is_empty(backend, table, normalize):
    query, key, value = (torch.randn(2, n, 4, requires_grad=True) for n in (3, 5, 5))
    allowed = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]) == 1
    bias = torch.where(allowed, torch.randn(3, 5), -math.inf).requires_grad_()
    neighborhood, given_bias = (Full(), bias) if table else (Full().to_edges(3, 5), bias.flatten())
    out = run_or_skip(query, key, value, neighborhood, bias=given_bias, normalize=normalize, backend=backend)
    finite = torch.where(allowed, bias.detach(), 0.0)
    expected = attend(query, key, value, Mask(allowed), bias=finite, normalize=normalize, backend="reference")
    torch.testing.assert_close(out, expected)
    assert (out[:, 1] == 0).all()
    leaves = [query, key, value, bias]
    if isinstance(normalize, Softmax) and isinstance(normalize.temperature, torch.Tensor):
        leaves.append(normalize.temperature)
    probe = torch.randn_like(out)
    fixed = run_or_skip(query, key, value, neighborhood, bias=given_bias.detach(), normalize=normalize, backend=backend)
    torch.testing.assert_close(fixed, expected)
    fixed_found = torch.autograd.grad((fixed * probe).sum(), leaves[:3], materialize_grads=True)
    found = torch.autograd.grad((out * probe).sum(), leaves, materialize_grads=True)
    for one, other in zip(fixed_found, found):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad((expected * probe).sum(), [*leaves[:3], *leaves[4:]], materialize_grads=True)
    for one, other in zip([*found[:3], *found[4:]], wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert found[3].isfinite().all()


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("temperature", [1e-30, 1e-4, 1e4, 1e30])
def test_temperatures_near_the_ends_are_near_hard_and_uniform(backend, temperature):
    draw = torch.Generator().manual_seed(0)  # of all draws, some have two scores that are nearly the same
    query, key, value = (torch.randn(*shape, generator=draw) for shape in ((3, 4), (6, 4), (6, 2)))
    out = run_or_skip(query, key, value, normalize=Softmax(temperature), backend=backend)
    end = Hardmax() if temperature < 1 else Mean()
    expected = attend(query, key, value, normalize=end, backend="reference")
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
@pytest.mark.parametrize("neighborhood", [Full(), Causal()], ids=["full", "causal"])
@pytest.mark.parametrize(
    "score", [ScaledDot(), Dot(), Cosine(), ScaledDot(1e5)], ids=["scaled", "dot", "cosine", "steep"]
)
@pytest.mark.parametrize("temperature", [1e-2, 1e-3, 1e-6, 1e-9])
def test_gradients_at_a_small_temperature_are_those_of_the_reference(temperature, score, neighborhood, backend):
    draw = torch.Generator().manual_seed(0)
    tensors = [torch.randn(2, 64, 16, generator=draw) for _ in range(3)]
    toward = torch.randn(2, 64, 16, generator=draw)
    gradients = []
    for dtype, name in ((torch.float64, "reference"), (torch.float32, backend)):
        leaves = [x.to(dtype).requires_grad_() for x in tensors]
        arguments = dict(score=score, normalize=Softmax(temperature), backend=name)
        out = run_or_skip(*leaves, neighborhood, **arguments)
        gradients.append(torch.autograd.grad((out * toward).sum(), leaves[2])[0])
    torch.testing.assert_close(gradients[1].double(), gradients[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", all_backends)
def test_scores_near_the_end_of_float32_do_not_overflow_on_the_way(backend):
    """q·k is beyond the largest number of float32, q·k / √key_dim is not."""
    draw = torch.Generator().manual_seed(0)
    shapes = (5, 64), (5, 64), (5, 64)
    tensors = [torch.randn(shape, generator=draw) * size for shape, size in zip(shapes, (7e18, 7e18, 1.0))]
    assert ((tensors[0] @ tensors[1].T).isinf()).any()
    mask = torch.rand(5, 5, generator=draw) < 0.7
    neighborhoods = Full(), Causal(), Mask(mask), Mask(mask).to_edges()
    for neighborhood, temperature in itertools.product(neighborhoods, (1.0, 1e38)):
        found = []
        for dtype, name in ((torch.float64, "reference"), (torch.float32, backend)):
            leaves = [x.to(dtype).requires_grad_() for x in tensors]
            try:
                out = attend(*leaves, neighborhood, normalize=Softmax(temperature), backend=name)
            except UnsupportedError:
                break
            found.append((out, *torch.autograd.grad(out.sum(), leaves)))
        else:
            # Derivatives toward query and key are as large as these, over the temperature; where all weight is on one
            # key they cancel.
            for expected, ours, size in zip(*found, (1.0, 7e18 / temperature, 7e18 / temperature, 1.0), strict=True):
                torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-4 * size)


@pytest.mark.parametrize("normalize", [Softmax(0.0), Hardmax()], ids=["softmax", "hardmax"])
def test_ties_share_the_weight_of_a_hard_choice(normalize):
    query, key = torch.ones(1, 2), torch.tensor([[1.0, 1.0], [0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    value = torch.tensor([[3.0], [100.0], [6.0], [9.0]])
    for backend in EXACT:
        assert attend(query, key, value, normalize=normalize, backend=backend).item() == 6.0


@pytest.mark.parametrize("normalize", [Softmax(0.0), Hardmax(), Hardmax(straight_through=True)], ids=str)
@pytest.mark.parametrize(
    "score", [Dot(), ScaledDot(), Cosine(), Bilinear(torch.rand(16, 16))], ids=lambda x: type(x).__name__
)
def test_equal_keys_share_the_weight_of_a_hard_choice_wherever_they_stand(normalize, score):
    """A matrix product may differ in the last digit from column to column."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(3, 16, generator=generator), torch.randn(1, 16, generator=generator).repeat(7, 1)
    expected, options = torch.full((3, 7), 1 / 7), {"score": score, "normalize": normalize}
    keys_by_feature = key.mT.contiguous().mT
    for neighborhood in (Full(), Mask(torch.ones(3, 7, dtype=torch.bool)), Full().to_edges(3, 7)):
        for given_key in (key, keys_by_feature):
            out = attend(query, given_key, torch.eye(7), neighborhood, **options)
            torch.testing.assert_close(out, expected)
            for chosen in (None, [0, 2]):
                weights = attention_weights(query, given_key, neighborhood, queries=chosen, **options).to_dense()
                torch.testing.assert_close(weights[chosen or [0, 1, 2]], expected[chosen or [0, 1, 2]])
        by_vmap = torch.vmap(lambda q: attend(q, key, torch.eye(7), neighborhood, **options))(query[None])  # noqa: B023
        torch.testing.assert_close(by_vmap, expected[None])


def test_equal_keys_share_the_weight_of_a_hard_choice_over_edges():
    """A matrix product may differ in the last digit from edge to edge, too."""
    draw = torch.Generator().manual_seed(0)
    for num_queries, num_keys, size in itertools.product((2, 10, 23), (6, 22, 25, 29), (9, 11)):
        query, key = torch.randn(2, num_queries, size, generator=draw), torch.randn(2, 1, size, generator=draw)
        weights = attention_weights(
            query, key.repeat(1, num_keys, 1), Full().to_edges(num_queries, num_keys),
            score=Bilinear(torch.randn(size, size, generator=draw)), normalize=Hardmax(),
        )  # fmt: skip
        torch.testing.assert_close(weights.values, torch.full_like(weights.values, 1 / num_keys))


@st.composite
def permuted_graphs(draw):
    num_nodes = draw(st.integers(1, 7))
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=15))
    return num_nodes, pairs, draw(st.permutations(range(num_nodes))), draw(st.permutations(range(len(pairs))))


@pytest.mark.parametrize("backend", EXACT)
@given(permuted_graphs(), st.sampled_from(all_scores), st.sampled_from(NORMALIZERS))
def test_permuting_nodes_permutes_outputs_and_the_order_of_edges_does_not_matter(backend, graph, score, normalize):
    assume(backend != "numba" or score.name != "own")  # which it refuses
    num_nodes, pairs, order, edge_order = graph
    order, edge_order = torch.tensor(order), torch.tensor(edge_order, dtype=torch.int64)
    parameters = problem(all_neighborhoods[0], score, all_normalizers[0]).score_parameters
    receivers, senders = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    shapes = (num_nodes, 5), (len(pairs), 5), (len(pairs), 5), (len(pairs),)
    x, edge_key, edge_value, bias = (torch.randn(3, *shape, dtype=torch.float64) for shape in shapes)
    options = {"score": score.make(*parameters), "normalize": normalize, "backend": backend}
    out = attend(
        x, x, x, Edges(senders, receivers, num_nodes, num_nodes), bias=bias, edge_key=edge_key, edge_value=edge_value,
        **options,
    )  # fmt: skip
    new_place = order.argsort()
    moved = Edges(new_place[senders][edge_order], new_place[receivers][edge_order], num_nodes, num_nodes)
    y = x[:, order]
    moved_out = attend(
        y, y, y, moved, bias=bias[:, edge_order], edge_key=edge_key[:, edge_order],
        edge_value=edge_value[:, edge_order],
        **options,
    )  # fmt: skip
    torch.testing.assert_close(moved_out, out[:, order])


@pytest.mark.parametrize("backend", all_backends)
@given(st.integers(1, 9), st.integers(0, 10**6))
def test_permuting_a_set_of_tokens_permutes_the_outputs(backend, num_nodes, seed):
    generator = torch.Generator().manual_seed(seed)
    x, order = torch.randn(2, num_nodes, 4, generator=generator), torch.randperm(num_nodes, generator=generator)
    out = attend(x, x, x, backend=backend)
    torch.testing.assert_close(attend(x[:, order], x[:, order], x[:, order], backend=backend), out[:, order])


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("normalize", NORMALIZERS, ids=lambda x: type(x).__name__)
@settings(max_examples=10)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 10**6))
def test_batching_changes_nothing(backend, normalize, sizes, seed):
    """One by one, padded with Lengths, packed with Segments, and packed as Edges: the same numbers."""
    if backend == "sdpa" and not (isinstance(normalize, Softmax) and normalize.temperature == 1.0):
        return
    generator = torch.Generator().manual_seed(seed)
    members = [torch.randn(size, 4, dtype=torch.float64, generator=generator) for size in sizes]
    options = {"normalize": normalize, "backend": backend}
    for part in (Full(), Causal(), Window(1, 2)):
        alone = torch.cat([attend(x, x, x, part, **options) for x in members])
        packed = torch.cat(members)
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        torch.testing.assert_close(attend(packed, packed, packed, part & Segments(offsets), **options), alone)
        padded = torch.nn.utils.rnn.pad_sequence(members, batch_first=True, padding_value=9.0)
        out = attend(padded, padded, padded, part & Lengths(torch.tensor(sizes)), **options)
        torch.testing.assert_close(torch.cat([x[:size] for x, size in zip(out, sizes)]), alone)
        if backend != "sdpa":
            edges = (part & Segments(offsets)).to_edges(len(packed))
            torch.testing.assert_close(attend(packed, packed, packed, edges, **options), alone)


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("normalize", all_normalizers, ids=lambda case: case.name)
def test_a_table_and_its_list_of_edges_are_the_same(backend, normalize):
    edges = Causal().to_edges(7, 4)
    for score in all_scores:
        task = problem(*named(all_neighborhoods, "causal_more_queries"), score, normalize)
        if refuses(backend, task):
            continue
        with in_case(score.name):
            listed = task.arguments | {"neighborhood": edges}
            listed["bias"] = listed["bias"][..., edges.receivers, edges.senders]
            found, expected = (attend(**arguments, backend=backend) for arguments in (listed, task.arguments))
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", EXACT)
def test_parallel_edges_count_as_often_as_they_stand(backend):
    query, key, value = torch.randn(1, 3), torch.randn(2, 3), torch.tensor([[0.0], [1.0]])
    edges = Edges(torch.tensor([0, 1, 1, 1]), torch.zeros(4, dtype=torch.int64), 2, 1)
    out = attend(query, key, value, edges, normalize=Mean(), backend=backend)
    assert out.item() == 0.75
    soft = attend(query, key, value, edges, backend=backend)
    tripled = attend(query, key[[0, 1, 1, 1]], value[[0, 1, 1, 1]], backend="reference")
    torch.testing.assert_close(soft, tripled)
    assert aggregate(value, edges, "sum").item() == 3.0
    assert aggregate(value, edges & Full(), "sum", num_queries=1).item() == 1.0


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("name", ["causal", "mask", "edges"])
def test_dropout_comes_from_the_seed(backend, name):
    task = problem(*named(all_neighborhoods, name), all_scores[0], all_normalizers[0])
    if refuses(backend, task):
        pytest.skip("refused")
    runs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        runs.append(task.differentiate(attend(**task.arguments, dropout=0.5, backend=backend)))
    assert torch.equal(runs[0][0], runs[1][0])
    assert all(torch.equal(runs[0][1][name], runs[1][1][name]) for name in runs[0][1])
    assert not torch.equal(runs[0][0], runs[2][0])
    assert torch.equal(
        attend(**task.arguments, dropout=0.0, backend=backend), attend(**task.arguments, backend=backend)
    )


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("neighborhood", [Full(), Full().to_edges(1000, 3)], ids=["table", "edges"])
def test_dropout_sets_weights_to_zero_and_keeps_the_mean(backend, neighborhood):
    if backend == "sdpa" and isinstance(neighborhood, Edges):
        pytest.skip("refused")
    torch.manual_seed(0)
    query, key, value = torch.zeros(1000, 2), torch.zeros(3, 2), torch.eye(3)
    out = attend(query, key, value, neighborhood, dropout=0.25, backend=backend)
    kept = out > 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / 3 / 0.75))
    assert abs(float(kept.float().mean()) - 0.75) < 0.04
    assert abs(float(out.mean()) - 1 / 3) < 0.02


@pytest.mark.parametrize("backend", ["gather", "uniform"])
@pytest.mark.parametrize("name", [case.name for case in all_neighborhoods])
def test_an_infinity_in_a_neighborhood_is_what_arithmetic_makes_of_it(name, backend):
    """∞ where no other sign and no 0 meets it; it became NaN."""
    case = named(all_neighborhoods, name)[0]
    neighborhood, num_queries, num_keys = case.neighborhood, case.num_queries, case.num_keys
    if num_keys < 3 or (backend == "uniform" and not isinstance(neighborhood, Ranges)):
        pytest.skip("nothing to show, or refused")
    torch.manual_seed(0)
    batch = neighborhood.batch_shape
    query, key = torch.randn(*batch, num_queries, 3), torch.randn(*batch, num_keys, 3)
    bad = torch.tensor([[math.inf, -math.inf, math.inf, 1.0], [math.inf, 1.0, -math.inf, math.nan]])
    value = torch.randn(*batch, num_keys, 4)
    value[..., [1, 2], :] = bad
    infinite_key = key.clone()
    infinite_key[..., 1, 0] = math.inf
    calls = [{"key": key, "normalize": Mean()}, {"key": key, "score": Constant(-0.5), "normalize": Identity()}]
    if backend == "gather":
        calls += [{"key": key}, {"key": key, "normalize": Sparsemax()}, {"key": key, "normalize": Identity()}]
        scores = (Dot(), Distance(), lambda q, k: -(q - k).abs().sum(-1))
        calls += [{"key": infinite_key, "score": score} for score in scores]
        calls += [{"key": infinite_key, "score": score, "normalize": Identity()} for score in scores]
    for call in calls:
        arguments = {"query": query, "value": value, "neighborhood": neighborhood, **call}
        out, expected = (attend(**arguments, backend=name) for name in (backend, "reference"))
        torch.testing.assert_close(out, expected, equal_nan=True, rtol=1e-4, atol=1e-5)
        if backend == "gather":
            mapped = torch.func.vmap(lambda q, rest=arguments: attend(**{**rest, "query": q}, backend="gather"))
            torch.testing.assert_close(mapped(query[None])[0], expected, equal_nan=True, rtol=1e-4, atol=1e-5)


def test_infinities_by_hand():
    value = torch.tensor([[1.0], [math.inf], [2.0]])
    for neighborhood in (Causal(), Mask(torch.ones(3, 3, dtype=torch.bool).tril())):
        for how in ("sum", "mean"):
            assert aggregate(value, neighborhood, how).flatten().tolist() == [1, math.inf, math.inf]
    key = torch.tensor([[1.0, 1.0], [math.inf, 1.0], [2.0, 0.0]])  # infinitely far away
    everyone = Mask(torch.ones(3, 3, dtype=torch.bool))
    assert attend(torch.zeros(3, 2), key, torch.ones(3, 1), everyone, score=Distance()).flatten().tolist() == [1, 1, 1]


def test_dropout_is_repeated_when_blocks_are_computed_again(monkeypatch):
    from edgewise.backends import gather

    monkeypatch.setattr(gather, "SLICE", 16)
    for name in ("causal", "edges"):
        task = problem(*named(all_neighborhoods, name), named(all_scores, "additive_tanh")[0], all_normalizers[0])
        runs = []
        for _ in range(2):
            torch.manual_seed(3)
            runs.append(task.differentiate(attend(**task.arguments, dropout=0.4, backend="gather")))
        assert torch.equal(runs[0][0], runs[1][0])
        assert all(torch.equal(runs[0][1][leaf], runs[1][1][leaf]) for leaf in runs[0][1])
        # The output is linear in the values: their gradient shows whether the backward pass dropped the same weights.
        out, gradients = runs[0]
        value, probe = (
            task.tensors["value"],
            torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7)),
        )
        total = (gradients["value"] * value).sum()
        if "edge_value" in gradients:
            total = total + (gradients["edge_value"] * task.tensors["edge_value"]).sum()
        torch.testing.assert_close(total.detach(), (out * probe).sum())


@pytest.mark.parametrize("backend", EXACT)
def test_nodes_at_the_same_place_and_nodes_at_zero_have_finite_gradients(backend):
    x = torch.zeros(3, 4, requires_grad=True)
    for score in (Distance("laplacian"), Distance(), Cosine()):
        out = attend(x, x, torch.randn(3, 2), score=score, backend=backend)
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", all_backends)
def test_rows_sum_to_one_and_outputs_stay_within_the_values(backend):
    query, key = torch.randn(2, 11, 4), torch.randn(2, 11, 4)
    torch.testing.assert_close(attend(query, key, torch.ones(2, 11, 1), backend=backend), torch.ones(2, 11, 1))
    value = torch.randn(2, 11, 3)
    out = attend(query, key, value, backend=backend)
    assert (out <= value.amax(-2, keepdim=True) + 1e-6).all()
    assert (out >= value.amin(-2, keepdim=True) - 1e-6).all()


@pytest.mark.parametrize("backend", EXACT)
def test_identity_is_the_plain_weighted_sum_which_is_not_bounded(backend):
    x = torch.tensor([[3.0, 4.0]])
    out = attend(x, x, x, score=ScaledDot(1.0), normalize=Identity(), backend=backend)
    assert out.tolist() == [[75.0, 100.0]]


@pytest.mark.parametrize("backend", all_backends)
def test_no_argument_is_changed(backend):
    for name in ("causal_lengths", "mask", "edges"):
        task = problem(*named(all_neighborhoods, name), all_scores[0], all_normalizers[0])
        if refuses(backend, task):
            continue
        before = {key: x.clone() for key, x in task.leaves.items()}
        task.run(backend)
        assert all(torch.equal(before[key], x) for key, x in task.leaves.items()), label(task.case)


LOWERED = ["cosine", "bilinear", "gat", "gaussian_per_head"]


@pytest.mark.parametrize("backend", ["sdpa", "numba", "gather", "reference"])
@pytest.mark.parametrize("neighborhood", ["lengths_both", "edges_bipartite", "mask", "segments_crossed"])
@pytest.mark.parametrize("score", LOWERED)
def test_a_broken_node_in_no_pair_spoils_no_parameter(score, neighborhood, backend):
    case = named(all_neighborhoods, neighborhood)[0]
    normalize = "softmax" if backend == "sdpa" else "softmax_per_head"
    call = problem(case, named(all_scores, score)[0], named(all_normalizers, normalize)[0], with_extras=False)
    pairs = [pair for member in range(2) for pair in case.pairs_of(member)]
    with torch.no_grad():
        for name, seen in (("query", {i for i, _ in pairs}), ("key", {j for _, j in pairs})):
            unseen = sorted(set(range(call.tensors[name].shape[-2])) - seen)
            call.tensors[name][..., unseen, :] = torch.nan
    try:
        out, gradients = call.run(backend)
    except UnsupportedError:
        pytest.skip("another backend takes this call")
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients.values())
