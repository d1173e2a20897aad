"""The baselines a model has to beat."""

import os
import signal

import numpy as np
import pytest

from edgewise.errors import EdgewiseError
from edgewise.learn.training.baseline import (
    BackgroundForest,
    finite_features,
    fit_forest,
    fit_mean,
    fit_words,
    num_trees,
    short_seed,
)

NAN, INF = np.nan, np.inf


def test_mean_is_weighted_and_skips_missing_targets():
    targets = np.array([[1.0, 5.0], [3.0, NAN], [NAN, 7.0]])
    fitted = fit_mean(targets, np.array([1.0, 3.0, 1.0]), (0, 0))
    first, second = fitted.predict(np.zeros((2, 4)))
    assert first.tolist() == [2.5, 2.5]
    assert second.tolist() == [6.0, 6.0]


def test_mean_of_classes_is_their_frequency():
    fitted = fit_mean(np.array([[0.0], [2.0], [2.0], [NAN]]), np.ones(4), (4,))
    assert fitted.predict(np.zeros((1, 1)))[0] == pytest.approx(np.array([[1 / 3, 0, 2 / 3, 0]]))


def test_forest_learns_and_repeats_itself():
    random = np.random.default_rng(0)
    features = random.normal(size=(80, 3)).astype(np.float32)
    targets = np.stack([features[:, 0], np.where(random.random(80) < 0.5, NAN, features[:, 1])], axis=1)
    predictions = [fit_forest(features, targets, np.ones(80), (0, 0), seed=4).predict(features) for _ in range(2)]
    assert np.corrcoef(predictions[0][0], targets[:, 0])[0, 1] > 0.95
    assert np.array_equal(predictions[0][0], predictions[1][0])
    assert np.array_equal(predictions[0][1], predictions[1][1])


def test_a_forest_takes_a_seed_of_any_size():
    """scikit-learn takes 32 bits, and refused others after the training."""
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    seeds = (3, 20261130120000, 2**32 + 3, 2**80)
    first, *others = (fit_forest(features, features[:, :1], np.ones(40), (0,), seed=seed, trees=5) for seed in seeds)
    assert short_seed(2**32 - 1) == 2**32 - 1
    for forest in others:
        assert not np.array_equal(forest.predict(features)[0], first.predict(features)[0])


def test_forest_gives_classes_it_has_not_seen_no_probability():
    features = np.arange(12, dtype=np.float32)[:, None]
    targets = np.repeat([0.0, 2.0], 6)[:, None]
    probabilities = fit_forest(features, targets, np.ones(12), (3,)).predict(features)[0]
    assert probabilities.shape == (12, 3)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(12))
    assert (probabilities[:, 1] == 0).all()
    assert probabilities.argmax(axis=1).tolist() == [0] * 6 + [2] * 6


fit_in_background = BackgroundForest.fit
"""The real one: tests of trainings grow their forests without a process."""


@pytest.fixture
def beside():
    """A forest for a number and one for three classes, in a process of its own, and the same here."""
    random = np.random.default_rng(0)
    features = random.normal(size=(40, 3)).astype(np.float32)
    targets = np.stack([np.where(random.random(40) < 0.5, NAN, features[:, 0]), random.integers(0, 2, 40)], axis=1)
    given = features, targets, random.random(40), (0, 3)
    elsewhere = fit_in_background(*given, seed=4, jobs=1)
    yield features, elsewhere, fit_forest(*given, seed=4)
    elsewhere.process.close()


def test_a_forest_in_a_process_of_its_own_is_the_same(beside):
    features, elsewhere, here = beside
    assert elsewhere.process.pid != os.getpid()
    for found, wanted in zip(elsewhere.predict(features), here.predict(features), strict=True):
        assert np.array_equal(found, wanted)


def test_a_forest_whose_process_is_ended_by_the_system(beside, monkeypatch):
    """As for want of memory, where it would end again and again."""
    features, elsewhere, _ = beside
    monkeypatch.setattr(type(elsewhere.process), "_start", lambda process: os.kill(process.pid, signal.SIGKILL))
    with pytest.raises(EdgewiseError, match=r"SIGKILL.*--resume.*--no-baselines"):
        elsewhere.predict(features)


def test_features_become_finite_and_vary():
    features = np.array([[1.0, NAN, 5.0, INF, 1e300], [2.0, NAN, 5.0, 1.0, 0.0], [NAN, NAN, 6.0, 3.0, 1.0]])
    found = finite_features(features, np.array([0, 1]))
    # The second column is never known, and the third and fourth do not vary on the training rows.
    assert found.shape == (3, 2)
    assert np.isfinite(found).all()
    assert found[:, 0].tolist() == [1.0, 2.0, 1.5]


def test_constant_features_leave_a_column_of_zeros():
    assert finite_features(np.full((3, 2), NAN), np.array([0, 1, 2])).tolist() == [[0.0]] * 3


def test_larger_tables_get_fewer_trees():
    assert num_trees(900, 200, 1) == 500
    assert num_trees(100_000, 400, 1) == 100
    assert num_trees(900, 200, 27) == 185


@pytest.mark.parametrize("num_classes", [(2,), (0,)], ids=["classes", "numbers"])
def test_only_ratios_of_weights_matter_to_models_of_words(num_classes):
    """Where all weights were small, the priors of scikit-learn's models left them nothing to learn."""
    texts, targets = ["good film", "a good day", "bad film", "a bad day"] * 3, np.array([[1.0], [1], [0], [0]] * 3)
    weights = np.array([1.0, 2, 3, 4] * 3)
    for name, model in fit_words(texts, targets, weights, num_classes).items():
        light = fit_words(texts, targets, weights / 4096, num_classes)[name]
        np.testing.assert_allclose(model.predict(texts), light.predict(texts), atol=1e-6, err_msg=name)
        assert np.ptp(light.predict(texts)[0][:, -1] if num_classes[0] else light.predict(texts)[0]) > 0.5
