"""Occlusion, gradients and faithfulness: exact where the truth is linear, complete where it is not, and what they
refuse."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgewise.errors import SettingError, ShapeError
from edgewise.explain.explanation import Attribution
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.occlusion import occlude, share_links
from edgewise.explain.rank import spearman

pytestmark = pytest.mark.usefixtures("refined_paths")
WEIGHTS = np.array([3.0, -2.0, 0.5, 0.0, 1.0])
SOME = st.floats(-5, 5, width=32)


def linear(weights=WEIGHTS, calls=None):
    """The prediction is a sum of weights; each call is noted."""

    def predicted(removed):
        if calls is not None:
            calls.append(len(removed))
        return np.array([7.0 + weights.sum() - weights[units].sum() for units in removed])

    return predicted


def attribution(values, name="occlusion"):
    return Attribution(name, np.asarray(values, dtype=np.float64))


def test_occlusion_of_a_sum_is_its_terms_in_one_call():
    calls = []
    np.testing.assert_allclose(occlude(linear(calls=calls), 5), WEIGHTS)
    assert calls == [6]
    np.testing.assert_allclose(occlude(linear(), 5, [[0, 1], [], (2,), np.arange(5)]), [1, 0, 0.5, 2.5])
    assert occlude(linear(np.zeros(0)), 0).shape == (0,)


def test_occlusion_is_what_is_lost_also_where_units_act_together():
    def both(removed):
        return [0.0 if len(units) else 1.0 for units in removed]

    assert occlude(both, 2).tolist() == [1, 1]


@given(alone=arrays(np.float64, 5, elements=SOME), together=arrays(np.float64, 6, elements=SOME))
def test_shared_occlusion_is_the_shapley_value_of_units_and_linked_pairs(alone, together):
    links = [(0, 1), (1, 2), (2, 0), (3, 1), (1, 3), (2, 3)]  # unit 4 has none, units 1 and 3 have two

    def worth(units):
        return sum(alone[u] for u in units) + sum(
            w for w, (a, b) in zip(together, links, strict=True) if {a, b} <= units
        )

    def shapley(unit):
        others = [each for each in range(5) if each != unit]
        share = {k: math.factorial(k) * math.factorial(4 - k) / math.factorial(5) for k in range(5)}
        coalitions = [set(some) for k in range(5) for some in itertools.combinations(others, k)]
        return sum(share[len(some)] * (worth(some | {unit}) - worth(some)) for some in coalitions)

    everyone = set(range(5))
    occlusion = occlude(lambda removed: [worth(everyone - set(units.tolist())) for units in removed], 5)
    shared = share_links(occlusion, links, together)
    np.testing.assert_allclose(shared, [shapley(unit) for unit in range(5)], atol=1e-9)
    assert shared.sum() == pytest.approx(worth(everyone), abs=1e-9)


def test_shared_occlusion_without_links_is_occlusion_and_refuses_what_does_not_fit():
    given_ = np.array([1.0, 2.0])
    assert share_links(given_, [], np.zeros(0)).tolist() == [1, 2]
    share_links(given_, [(0, 1)], np.array([4.0]))
    assert given_.tolist() == [1, 2]
    with pytest.raises(ShapeError, match="share_links: 2 effects for 1 link, expected one each"):
        share_links(given_, [(0, 1)], np.zeros(2))
    with pytest.raises(ShapeError, match="share_links: a link has unit 2; expected 0 … 1"):
        share_links(given_, [(0, 2)], np.zeros(1))


def test_what_occlusion_refuses():
    with pytest.raises(ShapeError, match=r"occlude: group 1 has unit 5; expected 0 … 4\."):
        occlude(linear(), 5, [[0], [5]])
    with pytest.raises(ShapeError, match=r"occlude: group 0 has unit -1; expected 0 … 4\."):
        occlude(linear(), 5, [[-1]])
    with pytest.raises(
        ShapeError, match=r"occlude: predict returns shape \(1,\) for 6 groups of units, expected \(6,\)"
    ):
        occlude(lambda removed: np.zeros(1), 5)


def test_gradients_of_a_sum_are_its_terms():
    weights = torch.tensor([[1.0, -2.0], [0.0, 3.0], [5.0, 0.0]])
    x = torch.tensor([[2.0, 1.0], [4.0, 1.0], [0.0, 9.0]])
    for found in (
        gradient_times_input(lambda x: (weights * x).sum() + 4, x),
        integrated_gradients(lambda x: (weights * x).sum() + 4, x, steps=1),
    ):
        np.testing.assert_allclose(found, [0, 3, 0], atol=1e-12)
        assert found.dtype == np.float64
    moved = integrated_gradients(lambda x: (weights * x).sum(), x, torch.ones(3, 2), steps=1)
    np.testing.assert_allclose(moved, [1, 0, -5], atol=1e-6)


def test_gradients_where_features_multiply_by_hand():
    # f = x₀ x₁: gradient × input counts the product for both, integrated gradients share it.
    x = torch.tensor([[2.0], [3.0]])
    assert gradient_times_input(lambda x: x[0, 0] * x[1, 0], x).tolist() == [6, 6]
    np.testing.assert_allclose(integrated_gradients(lambda x: x[0, 0] * x[1, 0], x), [3, 3], rtol=1e-6)


@given(
    x=arrays(np.float64, (2, 3, 4), elements=SOME),
    baseline=arrays(np.float64, (2, 3, 4), elements=SOME),
    seed=st.integers(0, 99),
)
def test_integrated_gradients_are_complete_and_members_stay_apart(x, baseline, seed):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(4, 4, generator=generator, dtype=torch.float64)

    def predicted(x):
        return torch.tanh(0.1 * (x @ mix)).prod(-1).sum(-1) + (x[..., 0, :] * x[..., 2, :]).sum(-1)

    a, b = torch.from_numpy(x), torch.from_numpy(baseline)
    found = integrated_gradients(predicted, a, b)
    np.testing.assert_allclose(found.sum(-1), (predicted(a) - predicted(b)).numpy(), atol=1e-6)
    for batch_size in (1, 5, 40):
        one = integrated_gradients(predicted, a[1], b[1], batch_size=batch_size)
        np.testing.assert_allclose(found[1], one, atol=1e-9)
    scale = 1 + np.abs(x).max()
    np.testing.assert_allclose(
        gradient_times_input(predicted, a)[0], gradient_times_input(predicted, a[0]), atol=1e-12 * scale**2
    )


def relu_network(seed):
    """Two hidden layers of ReLU over six units, and a sigmoid: gradients jump along a line."""
    generator = torch.Generator().manual_seed(seed)
    mixes = [torch.randn(24, 64, generator=generator), torch.randn(64, 64, generator=generator) / 4]
    last = torch.randn(64, generator=generator)
    return lambda x: ((x.flatten(-2) @ mixes[0]).relu() @ mixes[1]).relu() @ last / 8


def normed_network(seed):
    """The same behind a norm, which changes near an input of zeros alone."""
    network = relu_network(seed)
    return lambda x: network(torch.nn.functional.layer_norm(x, x.shape[-1:]))


@pytest.mark.parametrize("make", [relu_network, normed_network])
def test_integrated_gradients_do_not_depend_on_how_many_points_they_begin_with(make):
    agreement = []
    for seed in range(5):
        network, x = make(seed), torch.randn(6, 4, generator=torch.Generator().manual_seed(10 + seed))
        found = [integrated_gradients(network, x, steps=steps, batch_size=64) for steps in (16, 64, 256)]
        agreement += [spearman(found[0], found[1]), spearman(found[0], found[2])]
        for values in found:
            scale = np.abs(values).max()
            np.testing.assert_allclose(values, found[2], atol=0.01 * scale)
            assert values.sum() == pytest.approx(float(network(x) - network(torch.zeros_like(x))), abs=0.02 * scale)
    assert np.mean(agreement) >= 0.99


def test_integrated_gradients_take_no_more_points_than_they_may():
    points = []

    def noted(x):
        points.append(len(x))
        return relu_network(0)(x)

    x = torch.ones(6, 4)
    for max_steps, most in ((32, 36), (100, 100), (None, 32 * 32)):
        points.clear()
        integrated_gradients(noted, x, steps=32, batch_size=8, max_steps=max_steps)
        assert sum(points) <= most
    points.clear()
    integrated_gradients(lambda x: noted(x) * 0 + x.sum((-1, -2)), x, steps=32, batch_size=8)
    assert sum(points) <= 36  # where nothing jumps, no part is halved


def test_unused_features_get_nothing_and_inputs_are_not_mutated():
    x = torch.ones(2, 3)
    other = torch.ones(1, requires_grad=True)
    assert gradient_times_input(lambda x: other.sum(), x).tolist() == [0, 0]
    assert not x.requires_grad
    with torch.no_grad():
        assert integrated_gradients(lambda x: x.sum(), x).tolist() == pytest.approx([3, 3])


def test_what_gradients_refuse(shapes_unchecked):
    x = torch.ones(2, 3)
    with pytest.raises(SettingError, match="gradient_times_input: the output of function has no gradient; compute it"):
        gradient_times_input(lambda x: x.detach().sum(), x)
    with pytest.raises(SettingError, match="integrated_gradients: steps is 0; expected at least 1"):
        integrated_gradients(lambda x: x.sum(), x, steps=0)
    with pytest.raises(SettingError, match="integrated_gradients: batch_size is 0; expected at least 1"):
        integrated_gradients(lambda x: x.sum(), x, batch_size=0)
    with pytest.raises(ShapeError, match=r"baseline is \(1, 3\), but features is \(2, 3\); give both the same shape"):
        integrated_gradients(lambda x: x.sum(), x, torch.ones(1, 3))


def test_faithfulness_by_hand():
    # Four units that are worth 4, 2, 1 and 1 of 8: see the docstring. The worst order takes the small ones first.
    weights, calls = np.array([1.0, 4.0, 1.0, 2.0]), []
    found = faithfulness(linear(weights, calls), [attribution(weights), attribution([3, 0, 4, -1], "bad")], 4, seed=1)
    good, bad, random = found.removals
    assert calls == [2 + 3 * 2 * 3]
    assert [removal.method for removal in found.removals] == ["occlusion", "bad", "random"]
    assert good.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert good.deletion.tolist() == [15, 11, 9, 8, 7]
    assert good.insertion.tolist() == [7, 11, 13, 14, 15]
    # 0 4 6 7 8 away with the most important first, 0 1 2 4 8 with the least important: 5.25 less 2.75.
    assert good.area == pytest.approx(2.5)
    assert bad.deletion.tolist() == [15, 14, 13, 11, 7]
    assert bad.area == pytest.approx(-2.5)
    assert good.area >= random.area >= bad.area
    halved = faithfulness(linear(weights), [attribution(weights)], 4, scale=2.0)
    assert halved.removals[0].area == pytest.approx(1.25)
    # Sizes 3, 0, 4, 1 against 1, 4, 1, 2: ranks 3, 1, 4, 2 and 1.5, 4, 1.5, 3.
    assert found.agreement == {"bad": pytest.approx(-4.5 / math.sqrt(5 * 4.5))}


def test_what_lowers_a_prediction_counts_as_what_raises_it():
    found = faithfulness(linear(), [attribution(WEIGHTS)], 5)
    assert found.removals[0].deletion.tolist() == pytest.approx([9.5, 6.5, 8.5, 7.5, 7, 7])


def test_steps_are_few_where_units_are_many_and_the_seed_decides():
    weights = np.random.default_rng(0).random(1000)
    first = faithfulness(linear(weights), [attribution(weights)], 1000)
    assert len(first.removals[0].shares) == 21
    again = faithfulness(linear(weights), [attribution(weights)], 1000)
    other = faithfulness(linear(weights), [attribution(weights)], 1000, seed=1, steps=7)
    assert len(other.removals[0].shares) == 8
    assert np.array_equal(first.removals[-1].deletion, again.removals[-1].deletion)
    assert not np.array_equal(first.removals[-1].deletion[-2], other.removals[-1].deletion[-2])
    # An order by chance moves the prediction from either end alike.
    assert first.removals[-1].area == pytest.approx(0, abs=0.05 * weights.sum())
    assert first.removals[0].area > 0.1 * weights.sum()


def test_faithfulness_where_nothing_can_be_said():
    nothing = faithfulness(linear(np.zeros(3)), [attribution(np.ones(3), "attention")], 3)
    assert nothing.removals[0].area == 0
    assert math.isnan(nothing.agreement["attention"])
    equal = faithfulness(linear(), [attribution(WEIGHTS), attribution(np.ones(5), "attention")], 5)
    assert math.isnan(equal.agreement["attention"])
    alone = faithfulness(linear(np.ones(1)), [attribution([1])], 1)
    assert alone.removals[0].deletion.tolist() == [8, 7]


def test_an_area_means_the_same_where_next_to_nothing_is_left_to_explain():
    """Descriptors may stay when all atoms are gone, so that the prediction with none is that with all."""

    def predict(removed):  # the two units cancel: without both the prediction is as with both
        return np.array([5.0 - 2 * (0 in units) + 2.001 * (1 in units) for units in removed])

    found = faithfulness(predict, [attribution([1.0, 0.5])], 2, seed=3)
    assert abs(found.removals[0].area) <= 2.001


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_is_positive(scale):
    with pytest.raises(SettingError, match="faithfulness: scale is"):
        faithfulness(linear(), [attribution(WEIGHTS)], 5, scale=scale)


def test_what_faithfulness_refuses():
    with pytest.raises(ShapeError, match="expected at least one unit"):
        faithfulness(linear(), [], 0)
    with pytest.raises(ShapeError, match=r"occlusion has values of shape \(5,\), expected \(4,\): one per unit"):
        faithfulness(linear(), [attribution(WEIGHTS)], 4)
    with pytest.raises(SettingError, match="steps is 0"):
        faithfulness(linear(), [attribution(WEIGHTS)], 5, steps=0)
    for name in ("occlusion", "random"):
        with pytest.raises(SettingError, match=f"two attributions are named '{name}'"):
            faithfulness(linear(), [attribution(WEIGHTS), attribution(WEIGHTS, name)], 5)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=12))
def test_ranks_are_those_of_scipy(pairs):
    stats = pytest.importorskip("scipy.stats")
    first, second = np.array(pairs, dtype=np.float64).T
    found = spearman(first, second)
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)


def test_ranks_where_there_are_none():
    assert math.isnan(spearman(np.ones(1), np.ones(1)))
    assert math.isnan(spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0])))
