"""Weights that do not look at the content: running sums say what the reference says, and keep broken values apart."""

import math

import pytest
import torch

from cases import all_neighborhoods, label, named, problem
from cases import all_normalizers as normalizers
from cases import all_scores as scores
from edgewise import Causal, Constant, Full, Lengths, Mean, Segments, Softmax, Window, aggregate, attend, why
from edgewise.errors import UnsupportedError
from edgewise.neighborhood import Ranges

RANGES = [case for case in all_neighborhoods if isinstance(case.neighborhood, Ranges)]
CASES = [
    *((case, score, normalize) for case in RANGES for score, normalize in [*zip(
        named(scores, "constant", "scaled_dot"), named(normalizers, "identity", "mean")
    )]),
    *((RANGES[0], named(scores, "constant")[0], normalize) for normalize in named(
        normalizers, "softmax", "softmax_cold", "softmax_hot", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean"
    )),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=label)
def test_it_says_what_the_oracle_and_the_reference_say(case):
    call = problem(*case, with_extras=False)
    out, gradients = call.run("uniform")
    torch.testing.assert_close(out, call.solution(), rtol=1e-12, atol=1e-12)
    _, expected = call.run("reference")
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "neighborhood", [Causal(), Window(1, 1), Lengths(torch.tensor([4])), Segments(torch.tensor([0, 3, 6]))]
)
def test_nonfinite_values_reach_only_queries_that_attend_to_them(neighborhood, bad):
    value = torch.randn(1, 6, 3)
    value[0, 4, 1] = bad
    out = aggregate(value, neighborhood, "mean", backend="uniform")
    sees = neighborhood.to_mask(6).expand(1, 6, 6)[0, :, 4]
    assert torch.equal(~out[0, :, 1].isfinite(), sees)
    assert bool(out[..., [0, 2]].isfinite().all())
    whole = aggregate(value.nan_to_num(0.0, 0.0, 0.0), neighborhood, "mean", backend="reference")
    torch.testing.assert_close(out[0, ~sees], whole[0, ~sees])


def test_small_values_behind_large_ones_keep_their_digits():
    value = torch.cat([torch.full((50, 1), 1e6), torch.rand(50, 1)])
    out = aggregate(value, Window(2, 0), "mean")
    exact = aggregate(value.double(), Window(2, 0), "mean", backend="reference")
    torch.testing.assert_close(out[60:].double(), exact[60:], rtol=1e-6, atol=0)


def test_half_precision_does_not_overflow_on_the_way():
    value = torch.full((4000, 2), 100.0, dtype=torch.float16)
    for neighborhood in (Full(), Causal(), Window(3000, 0)):
        assert torch.equal(aggregate(value, neighborhood, "mean"), value)


def test_it_takes_what_it_can_and_says_why_it_refuses_the_rest():
    x = torch.randn(2, 5, 4)
    taken = [
        {"normalize": Mean()},
        {"neighborhood": Causal(), "normalize": Softmax(math.inf)},
        {"neighborhood": Window(1, 0), "score": Constant(0.3)},
    ]
    for options in taken:
        assert why(x, x, x, **options).startswith("uniform runs")
    refused = [{}, {"normalize": Mean(), "dropout": 0.1}, {"normalize": Mean(), "bias": torch.zeros(5, 5)}]
    refused += [{"score": Constant(), "normalize": Softmax(torch.tensor(2.0))}, {"score": Constant(math.inf)}]
    for options in refused:
        with pytest.raises(UnsupportedError, match="'uniform' refuses this call: the weights of a row are not all"):
            attend(x, x, x, backend="uniform", **options)


def test_largest_over_all_shares_the_gradient_among_those_alike():
    value = torch.tensor([[1.0], [3.0], [3.0]], requires_grad=True)
    out = aggregate(value, Full(), "max", num_queries=2)
    assert out.tolist() == [[3.0], [3.0]]
    out.sum().backward()
    assert value.grad.tolist() == [[0.0], [1.0], [1.0]]


@pytest.mark.parametrize(
    ("neighborhood", "size"),
    [(Segments(torch.tensor([0, 1, 6])), 1), (Segments(torch.tensor([1, 3, 6])), 1), (Window(1, 1), 2)],
)
def test_a_large_value_takes_no_digits_from_the_sums_of_others(neighborhood, size):
    value = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    alone = aggregate(torch.cat([torch.zeros(size, 2), value[size:]]), neighborhood, "mean")
    value[:size] = 1e18
    value.requires_grad_()
    out = aggregate(value, neighborhood, "mean")
    reached = 1 if isinstance(neighborhood, Segments) else size + 1  # these queries attend to the large values
    torch.testing.assert_close(out[reached:], alone[reached:])
    gradient = torch.autograd.grad(out[-1].sum(), value)[0]
    wanted = torch.autograd.grad(aggregate(value, neighborhood, "mean", backend="reference")[-1].sum(), value)[0]
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("bad", [1e18, math.nan])
@pytest.mark.parametrize(
    "neighborhood",
    [
        Window(8, 8), Window(64, 0), Window(0, 30), Window(150, 100), Window(8, 8, align="start"),
        Window(9, 7) & Segments(torch.tensor([0, 40, 97, 98, 101, 200])),
        Causal() & Segments(torch.tensor([0, 7, 200])),
    ],
)  # fmt: skip
def test_wide_windows_are_sums_of_their_own_values(neighborhood, bad):
    value = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    value[[0, 50, 51, 99, 160], 1] = bad
    value.requires_grad_()
    sees = neighborhood.to_mask(200)[:, [0, 50, 51, 99, 160]].any(1)
    out = aggregate(value, neighborhood, "sum", backend="uniform")
    expected = aggregate(value.detach().double(), neighborhood, "sum", backend="reference")
    torch.testing.assert_close(out[~sees].double(), expected[~sees], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out[sees].double(), expected[sees], rtol=1e-5, atol=1e-5, equal_nan=True)

    outward = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    outward[5] = 1e18
    (gradient,) = torch.autograd.grad(out, value, outward)
    weights = neighborhood.to_mask(200).double()
    torch.testing.assert_close(gradient.double(), weights.T @ outward.double(), rtol=1e-5, atol=1e-5)


def test_segments_that_leave_queries_out():
    value = torch.arange(6.0).unsqueeze(-1)
    assert aggregate(value, Segments(torch.tensor([1, 3, 5])), "sum").flatten().tolist() == [0, 3, 3, 7, 7, 0]
    assert aggregate(
        value, Segments(torch.tensor([0, 2, 2, 6]), torch.tensor([0, 0, 6, 6])), "sum"
    ).flatten().tolist() == [0, 0, 0, 0, 0, 0]
    assert aggregate(
        value, Segments(torch.tensor([0, 2, 4]), torch.tensor([0, 6, 6])), "sum", num_queries=6
    ).flatten().tolist() == [
        15,
        15,
        0,
        0,
        0,
        0,
    ]
