"""Scores agree with scikit-learn and SciPy, and are None where they are not defined."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from edgewise.learn.training.metrics import class_scores, regression_scores, scores_by_target


def test_regression_scores_agree_with_scikit_learn():
    random = np.random.default_rng(0)
    targets = random.normal(size=40).round(1)
    predictions = (targets + random.normal(size=40)).round(1)
    found = regression_scores(targets, predictions)
    assert found == pytest.approx(
        {
            "num_rows": 40,
            "rmse": metrics.root_mean_squared_error(targets, predictions),
            "mae": metrics.mean_absolute_error(targets, predictions),
            "max_error": metrics.max_error(targets, predictions),
            "r2": metrics.r2_score(targets, predictions),
            "pearson": stats.pearsonr(targets, predictions)[0],
            "spearman": stats.spearmanr(targets, predictions)[0],
        }
    )


def test_missing_targets_are_left_out():
    found = regression_scores(np.array([1.0, np.nan, 3.0]), np.array([1.0, 50.0, 4.0]))
    assert (found["num_rows"], found["mae"]) == (2, 0.5)


def test_regression_scores_that_rows_do_not_define_are_none():
    assert regression_scores(np.array([np.nan]), np.array([1.0])) == {"num_rows": 0}
    one = regression_scores(np.array([2.0]), np.array([1.0]))
    assert (one["rmse"], one["r2"], one["pearson"]) == (1.0, None, None)
    flat = regression_scores(np.array([0.1, 0.2, 0.3]), np.full(3, 0.1))
    assert (flat["pearson"], flat["spearman"]) == (None, None)
    assert flat["r2"] == pytest.approx(-1.5)


@pytest.mark.parametrize("exponent", [-600, 300])
def test_scores_do_not_depend_on_the_unit_of_the_target(exponent):
    """Squares of targets that differ by less than 1e-162 vanish: R² was −inf, and the correlation NaN."""
    targets, predictions = np.array([1.0, 2.5, 4.0, 7.0]), np.array([1.5, 2.0, 5.0, 6.0])
    found = regression_scores(np.ldexp(targets, exponent), np.ldexp(predictions, exponent))
    expected = regression_scores(targets, predictions)
    for name in ("r2", "pearson", "spearman"):
        assert found[name] == expected[name], name


def test_an_r2_beyond_all_numbers_is_none():
    found = regression_scores(np.array([1e-170, 2e-170]), np.array([1e-3, 2e-3]))
    assert (found["r2"], found["mae"]) == (None, pytest.approx(1.5e-3))
    assert found["pearson"] == pytest.approx(1.0)


def test_class_scores_agree_with_scikit_learn():
    random = np.random.default_rng(1)
    targets = random.integers(0, 2, 60).astype(float)
    positive = np.clip(0.3 * targets + 0.7 * random.random(60), 0, 1)
    found = class_scores(targets, np.stack([1 - positive, positive], 1), "classification")
    chosen = positive > 0.5
    assert found == pytest.approx(
        {
            "num_rows": 60,
            "accuracy": metrics.accuracy_score(targets, chosen),
            "balanced_accuracy": metrics.balanced_accuracy_score(targets, chosen),
            "log_loss": metrics.log_loss(targets, positive),
            "roc_auc": metrics.roc_auc_score(targets, positive),
            "average_precision": metrics.average_precision_score(targets, positive),
            "f1": metrics.f1_score(targets, chosen),
            "mcc": metrics.matthews_corrcoef(targets, chosen),
            "brier": metrics.brier_score_loss(targets, positive),
        }
    )


def test_one_class_alone_has_no_ranking():
    found = class_scores(np.ones(3), np.array([[0.2, 0.8]] * 3), "classification")
    assert (found["roc_auc"], found["average_precision"], found["mcc"], found["accuracy"]) == (None, None, None, 1.0)


def test_multiclass_scores():
    targets = np.array([0.0, 1.0, 2.0, 2.0, np.nan])
    probabilities = np.eye(3)[[0, 1, 2, 1, 0]]
    found = class_scores(targets, probabilities, "multiclass")
    assert (found["num_rows"], found["accuracy"]) == (4, 0.75)
    assert found["balanced_accuracy"] == pytest.approx((1 + 1 + 0.5) / 3)
    assert found["log_loss"] == pytest.approx(-np.log(1e-15) / 4)


@pytest.mark.parametrize("truth", [[0, 1, 0, 1], [0, 1, 1, 1], [2, 2, 2, 2]])
def test_f1_macro_is_over_the_classes_of_these_rows(truth):
    from sklearn.metrics import f1_score

    chosen = np.array([0, 1, 1, 1])
    found = class_scores(np.array(truth, dtype=float), np.eye(5)[chosen], "multiclass")
    assert found["f1_macro"] == pytest.approx(f1_score(truth, chosen, average="macro"))


def test_a_sure_mistake_keeps_the_log_loss_finite():
    assert np.isfinite(class_scores(np.array([0.0, 1.0]), np.array([[0.0, 1.0]] * 2), "classification")["log_loss"])


def test_every_target_by_name():
    targets = np.array([[1.0, 0.0], [2.0, np.nan]])
    found = scores_by_target(targets, [np.array([1.0, 3.0]), np.array([5.0, 5.0])], ["a", "b"], "regression")
    assert (found["a"]["mae"], found["b"]["mae"], found["b"]["num_rows"]) == (0.5, 5.0, 1)
