"""The loss counts known targets by their weights, and nothing else."""

import math

import pytest
import torch
import torch.nn.functional as F

from edgewise.learn.training.loss import RelativeLoss, TargetLoss, TokenLoss

NAN = math.nan


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("mse", 0.25 + 9.0), ("mae", 0.5 + 3.0), ("huber", 0.5 * 0.25 + (3.0 - 0.5))],
)
def test_regression_by_hand(kind, expected):
    total, weight = TargetLoss("regression", kind)(torch.tensor([[1.5], [0.0]]), torch.tensor([[1.0], [3.0]]), None)
    assert float(total) == pytest.approx(expected)
    assert float(weight) == 2


def test_huber_of_any_width_is_torchs_smooth_l1():
    output, targets = torch.randn(50, 2), torch.randn(50, 2)
    total, weight = TargetLoss("regression", "huber", huber_width=0.25)(output, targets, None)
    assert float(total / weight) == pytest.approx(float(F.smooth_l1_loss(output, targets, beta=0.25)), rel=1e-5)


def test_missing_targets_count_nothing_and_leave_gradients_finite():
    output = torch.tensor([[1.0, 5.0], [2.0, 7.0]], requires_grad=True)
    total, weight = TargetLoss("regression", "mse")(output, torch.tensor([[0.0, NAN], [NAN, 6.0]]), None)
    (total / weight).backward()
    assert float(weight) == 2
    assert float(total.detach()) == pytest.approx(2.0)
    assert torch.equal(output.grad, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))


def test_rows_count_by_their_weight():
    loss = TargetLoss("regression", "mae")
    total, weight = loss(torch.tensor([[1.0], [10.0]]), torch.zeros(2, 1), torch.tensor([3.0, 0.5]))
    assert (float(total), float(weight)) == (8.0, 3.5)


def test_classification_is_cross_entropy_of_the_logit():
    logits, targets = torch.tensor([[0.3], [-2.0]]), torch.tensor([[1.0], [NAN]])
    total, weight = TargetLoss("classification", "mse")(logits, targets, None)
    assert float(total) == pytest.approx(math.log(1 + math.exp(-0.3)))
    assert float(weight) == 1


def test_multiclass_gives_each_target_its_own_outputs():
    logits = torch.randn(4, 5)
    targets = torch.tensor([[0.0, 2.0], [1.0, NAN], [NAN, 0.0], [1.0, 1.0]])
    total, weight = TargetLoss("multiclass", "mse", num_classes=(2, 3))(logits, targets, None)
    first = F.cross_entropy(logits[[0, 1, 3], :2], torch.tensor([0, 1, 1]), reduction="sum")
    second = F.cross_entropy(logits[[0, 2, 3], 2:], torch.tensor([2, 0, 1]), reduction="sum")
    assert float(total) == pytest.approx(float(first + second), rel=1e-5)
    assert float(weight) == 6


def test_members_side_by_side_are_judged_each_on_its_own():
    output, targets, weights = torch.randn(6, 4, 2), torch.randn(6, 2), torch.rand(6)
    targets[2, 1] = NAN
    loss = TargetLoss("regression", "mse")
    total, weight = loss(output, targets, weights)
    alone = [loss(output[:, member], targets, weights) for member in range(4)]
    assert float(total) == pytest.approx(sum(float(each[0]) for each in alone), rel=1e-5)
    assert float(weight) == pytest.approx(sum(float(each[1]) for each in alone), rel=1e-5)


def test_half_precision_outputs_are_judged_in_single():
    output = torch.tensor([[1.0]], dtype=torch.bfloat16)
    total, _ = TargetLoss("regression", "mse")(output, torch.tensor([[1.001]]), None)
    assert total.dtype == torch.float32
    assert float(total) == pytest.approx(1e-6, rel=1e-3)


def test_a_relative_loss_measures_each_row_in_its_own_size():
    """Errors 1 and 1,000, measured in 1 and 1,000, count the same; the loss does not depend on the sizes' own scale."""
    output, targets = torch.tensor([[1.0], [5_000.0]]), torch.tensor([[2.0], [4_000.0]])
    loss = RelativeLoss(TargetLoss("regression", "mse"))
    total, count = loss(output, targets, torch.tensor([1.0, 1e-3]))
    assert (float(total), float(count)) == (pytest.approx(2.0), 2.0)
    assert [float(part) for part in loss(output, targets, None)] == [1.0 + 1e6, 2.0]
    missing = torch.tensor([[float("nan")], [4_000.0]])
    assert [float(part) for part in loss(output, missing, torch.tensor([1.0, 1e-3]))] == [pytest.approx(1.0), 1.0]


def test_the_loss_of_tokens_by_hand():
    """−ln of the shares of e¹ and e⁰; a place without a target counts nothing, whatever its scores."""
    scores = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [5.0, 7.0]]])
    total, count = TokenLoss()(scores, torch.tensor([[0, 0, -1]]))
    right, wrong = math.e / (1 + math.e), 1 / (1 + math.e)
    assert total.item() == pytest.approx(-math.log(right) - math.log(wrong))
    assert count.item() == 2
