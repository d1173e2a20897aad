"""Normalizers on rows, as a table and as a list, by the oracle and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import all_normalizers
from edgewise import Entmax15, Hardmax, Identity, Mean, Sigmoid, Softmax, Sparsemax
from edgewise.backends.rows import EdgeScoreRows, TableScoreRows

SIMPLEX = [Softmax(), Softmax(0.2), Hardmax(), Sparsemax(), Entmax15(), Mean()]


def row(normalize, scores):
    scores = torch.tensor(scores, dtype=torch.float64)
    return normalize(scores[None], TableScoreRows(torch.ones(1, len(scores), dtype=torch.bool)))[0]


SCORES = st.lists(st.floats(-50, 50) | st.sampled_from([-math.inf, 0.0, 1.0, 2.0]), min_size=1, max_size=9)


@pytest.mark.parametrize("case", [c for c in all_normalizers if not c.shapes], ids=lambda case: case.name)
@given(st.lists(SCORES, min_size=1, max_size=4))
def test_rows_as_a_table_and_as_a_list_are_what_the_oracle_says(case, rows):
    if case.name == "identity":
        rows = [[max(s, -60.0) for s in scores] for scores in rows]
    normalize = case.make()
    expected = [case.formula(scores) for scores in rows]
    width = max(len(scores) for scores in rows)
    table, mask = (
        torch.full((len(rows), width), 77.0, dtype=torch.float64),
        torch.zeros(len(rows), width, dtype=torch.bool),
    )
    for i, scores in enumerate(rows):
        table[i, : len(scores)], mask[i, : len(scores)] = torch.tensor(scores, dtype=torch.float64), True
    weights = normalize(table, TableScoreRows(mask))
    assert (weights[~mask] == 0).all()
    flat = torch.tensor([x for r in expected for x in r], dtype=torch.float64)
    torch.testing.assert_close(weights[mask], flat, rtol=1e-7, atol=1e-7)
    receivers = mask.nonzero()[:, 0]
    shuffled = torch.randperm(len(receivers), generator=torch.Generator().manual_seed(0))
    listed = normalize(table[mask][shuffled], EdgeScoreRows(receivers[shuffled], len(rows)))
    torch.testing.assert_close(listed, flat[shuffled], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("normalize", SIMPLEX, ids=str)
@given(SCORES)
def test_rows_sum_to_one_are_not_negative_and_follow_the_order_of_scores(normalize, scores):
    weights = row(normalize, scores)
    assert (weights >= 0).all()
    total = 0.0 if max(scores) == -math.inf and not isinstance(normalize, Mean) else 1.0
    assert weights.sum().item() == pytest.approx(total, abs=1e-9)
    order = torch.tensor(scores).argsort()
    assert (weights[order].diff() >= -1e-12).all()


def test_by_hand():
    assert row(Softmax(), [0.0, math.log(3)]).tolist() == pytest.approx([0.25, 0.75])
    assert row(Softmax(2.0), [0.0, 2 * math.log(3)]).tolist() == pytest.approx([0.25, 0.75])
    assert row(Hardmax(), [1.0, 5.0, 5.0, 2.0]).tolist() == [0.0, 0.5, 0.5, 0.0]
    # Martins & Astudillo 2016: with two scores, sparsemax is a straight line between −1 and 1.
    assert row(Sparsemax(), [0.5, 0.0]).tolist() == pytest.approx([0.75, 0.25])
    assert row(Sparsemax(), [3.0, 0.0]).tolist() == [1.0, 0.0]
    assert row(Sparsemax(), [1.0, 1.0, 0.9, -5.0]).tolist() == pytest.approx([0.3666667, 0.3666667, 0.2666667, 0.0])
    # Entmax with α = 1.5, two equal scores and one out of reach: (s/2 − τ)² = 1/2 each.
    assert row(Entmax15(), [4.0, 4.0, -9.0]).tolist() == pytest.approx([0.5, 0.5, 0.0])
    # s/2 = (1/2, 0): (1/2 − τ)² + τ² = 1 at τ = (1/2 − √(7/4)) / 2.
    threshold = (0.5 - math.sqrt(1.75)) / 2
    assert row(Entmax15(), [1.0, 0.0]).tolist() == pytest.approx([(0.5 - threshold) ** 2, threshold**2])
    assert row(Sigmoid(), [0.0, math.log(3)]).tolist() == pytest.approx([0.5, 0.75])
    assert row(Mean(), [9.0, -9.0]).tolist() == [0.5, 0.5]
    assert row(Identity(), [9.0, -9.0]).tolist() == [9.0, -9.0]


def test_entmax_lies_between_softmax_and_sparsemax():
    scores = [1.5, 1.0, 0.3, -0.4]
    soft, middle, sparse = (row(normalize, scores)[0].item() for normalize in (Softmax(), Entmax15(), Sparsemax()))
    assert soft < middle < sparse


@pytest.mark.parametrize("normalize", [Sparsemax(), Entmax15()], ids=str)
@pytest.mark.parametrize("rows", ["table", "edges"])
def test_gradients_of_the_sparse_ones_by_finite_differences(normalize, rows):
    torch.manual_seed(0)
    scores = 0.7 * torch.randn(6, 5, dtype=torch.float64)
    mask = torch.rand(6, 5) < 0.7
    if rows == "table":
        assert torch.autograd.gradcheck(lambda s: normalize(s, TableScoreRows(mask)), scores.requires_grad_())
    else:
        listed = scores[mask].requires_grad_()
        assert torch.autograd.gradcheck(lambda s: normalize(s, EdgeScoreRows(mask.nonzero()[:, 0], 6)), listed)


@pytest.mark.parametrize("normalize", [Sparsemax(), Entmax15()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_winner_that_takes_all_passes_no_gradient_to_the_others(normalize, dtype):
    scores = torch.tensor([5.0, 0.1, -3.3, 2.7], dtype=dtype, requires_grad=True)
    rows = EdgeScoreRows(torch.tensor([1, 1, 1, 0]), 2)
    weights = normalize(scores, rows)
    (gradient,) = torch.autograd.grad((weights * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum(), scores)
    assert weights.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert gradient.tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("normalize", [Softmax(), Sparsemax(), Entmax15(), Hardmax(), Mean()], ids=str)
def test_long_rows_in_float32_still_sum_to_one(normalize):
    scores = torch.randn(50_000, generator=torch.Generator().manual_seed(1)) * 3 + 100
    for weights in (
        normalize(scores[None], TableScoreRows(torch.ones(1, 50_000, dtype=torch.bool)))[0],
        normalize(scores, EdgeScoreRows(torch.zeros(50_000, dtype=torch.int64), 1)),
    ):
        assert weights.double().sum().item() == pytest.approx(1.0, abs=1e-4)


def test_a_normalizer_of_your_own_is_a_function_over_rows():
    def squared(scores, rows):
        squares = rows.keep(scores.square())
        return squares / rows.total(squares).clamp(min=1e-30)

    from edgewise import Edges, attend

    query, key, value = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 2)
    edges = Edges(torch.tensor([0, 1, 2]), torch.tensor([1, 1, 0]), 5, 3)
    for neighborhood in (edges, Edges(edges.senders, edges.receivers, 5, 3) & _everything()):
        outs = [attend(query, key, value, neighborhood, normalize=squared, backend=b) for b in ("reference", "gather")]
        torch.testing.assert_close(outs[0], outs[1])
        assert (outs[0][:, 2] == 0).all()


def _everything():
    from edgewise import Full

    return Full()
