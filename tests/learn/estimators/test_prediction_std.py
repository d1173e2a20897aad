"""A standard deviation is that of the target around its prediction; intervals that stay empty say so."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from cli_tables import write_csv
from edgewise import NodeRegressor, TextClassifier, TextRegressor
from edgewise.cli.main import main
from edgewise.explain.numbers import num_digits
from edgewise.learn.estimators.row_methods import data_of, predictions
from edgewise.learn.estimators.texts import TEXTS as ROWS
from edgewise.learn.tasks.explained import target_predictions
from edgewise.learn.tasks.prediction_columns import format_cell, prediction_columns, with_columns
from edgewise.learn.training.conformal import empty_intervals, interval_radius, rows_for

TEXTS = [f"{'good ' * (number % 7)}film {number}" for number in range(60)]
VALUES = np.array([number % 7 + (number * 37 % 10) / 5 for number in range(60)])
VALIDATION = np.arange(60) % 3 == 0
SMALL = {"epochs": 2, "model_dim": 4, "num_heads": 1, "tokens": "words", "random_state": 0}
FLAGS = "--epochs 1 --model-dim 4 --num-heads 1 --num-layers 1 --tokens words --no-baselines --split-sizes 0.8 0.1 0.1"


@pytest.fixture(scope="module")
def models():
    fit = {"validation": VALIDATION}
    # A companion learns from the validation rows when they have calibrated the intervals.
    options = SMALL | {"companions": "none"}
    return [TextRegressor(**options, ensemble_size=size).fit(TEXTS, VALUES, **fit) for size in (1, 3)]


@pytest.mark.parametrize("place", [0, 1], ids=["one model", "three models"])
def test_a_standard_deviation_is_that_of_the_errors(models, place):
    model = models[place]
    (found,) = predictions(model, ROWS, TEXTS, {}).targets
    standardized = (found.value - VALUES)[VALIDATION] / found.std[VALIDATION]
    # Else validation rows were given the size of their errors without their group.
    if model.trained_.intervals.sigma is None:
        assert (standardized**2).mean() == pytest.approx(1)
    widths = (found.high - found.low) / found.std
    np.testing.assert_allclose(widths, widths[0], rtol=1e-9, err_msg="an interval is a multiple of it")
    assert 2 < widths[0] < 5, "ninety percent of a normal distribution lie within ± 1.64"


def test_the_spread_of_an_ensemble_has_its_own_name(models):
    one, three = (predictions(model, ROWS, TEXTS, {}).targets for model in models)
    assert one[0].ensemble_std is None
    members = models[1].trained_.outputs(data_of(models[1], ROWS, TEXTS, {}), np.arange(60))[..., 0]
    np.testing.assert_allclose(three[0].ensemble_std, members.std(axis=0, ddof=1))
    assert (three[0].ensemble_std < three[0].std).all()
    names = [[*prediction_columns(model.trained_, found)] for model, found in zip(models, (one, three), strict=True)]
    assert names[0] == ["target_pred", "target_std", "target_low", "target_high"]
    assert names[1] == ["target_pred", "target_std", "target_ensemble_std", "target_low", "target_high"]


def test_predict_returns_it_as_scikit_learn_does(models):
    values, std = models[1].predict(TEXTS[:5], return_std=True)
    theirs = GaussianProcessRegressor().fit(VALUES[:, None], VALUES).predict(VALUES[:5, None], return_std=True)
    assert [values.shape, std.shape] == [each.shape for each in theirs]
    np.testing.assert_array_equal(values, models[1].predict(TEXTS[:5]))
    np.testing.assert_array_equal(std, predictions(models[1], ROWS, TEXTS[:5], {}).targets[0].std)
    edges = np.stack([np.arange(60), np.roll(np.arange(60), 1)])
    two = NodeRegressor(model="gcn", epochs=1, model_dim=4, validation_size=0.4)
    two.fit(VALUES[:, None], np.stack([VALUES, -VALUES], 1), edges=edges)
    values, std = two.predict(VALUES[:, None], edges=edges, return_std=True)
    assert values.shape == std.shape == (60, 2)
    assert (std > 0).all()


def test_classes_have_both():
    labels = np.where(VALUES > 3, "good", "bad")
    model = TextClassifier(**SMALL, ensemble_size=2).fit(TEXTS, labels, validation=VALIDATION)
    (found,) = predictions(model, ROWS, TEXTS, {}).targets
    largest = found.probabilities.max(axis=1)
    np.testing.assert_allclose(found.std, np.sqrt(largest * (1 - largest)))
    members = model.trained_.outputs(data_of(model, ROWS, TEXTS, {}), np.arange(60))[..., 0]
    np.testing.assert_allclose(found.ensemble_std, members.std(axis=0, ddof=1), rtol=1e-5)
    (answer,) = target_predictions(model.trained_, [found], 3)
    assert (answer.std, answer.ensemble_std) == (found.std[3], found.ensemble_std[3])


@pytest.mark.parametrize("coverage", [0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_how_many_rows_an_interval_takes(coverage):
    needed = rows_for(coverage)
    assert math.isfinite(interval_radius(np.ones(needed), coverage))
    assert needed == 1 or math.isinf(interval_radius(np.ones(needed - 1), coverage))
    assert empty_intervals({"y": needed}, coverage) == ""
    assert empty_intervals({"x": needed, "y": needed - 1}, coverage).startswith("intervals of y stay empty")


def test_intervals_that_stay_empty_say_so(models, tmp_path, capsys):
    with pytest.warns(UserWarning, match="a coverage of 0.99 takes 99 validation rows with a target, there are 20"):
        low, high = models[0].predict_interval(TEXTS, coverage=0.99)
    assert np.isnan([low, high]).all()
    assert np.isfinite(models[0].predict_interval(TEXTS, coverage=0.95)).all()
    data, run = write_csv(tmp_path / "data.csv", {"text": TEXTS, "y": VALUES.tolist()}), tmp_path / "run"
    words = ["train", "texts", str(data), "--text-columns", "text", "--target-columns", "y", "-o", str(run)]
    assert main([*words, *FLAGS.split(), "--task-type", "regression"]) == 0
    line = "warning: intervals of y stay empty: a coverage of 0.9 takes 9 validation rows with a target, there are 6; "
    line += "give more, or a coverage of at most 0.85"
    assert line in capsys.readouterr().out
    for coverage, is_empty in ((0.85, False), (0.9, True)):
        output = ["-o", str(tmp_path / f"{coverage}.csv")]
        assert main(["predict", str(run), str(data), "--coverage", str(coverage), *output]) == 0
        assert (line in capsys.readouterr().err) == is_empty
        cells = (tmp_path / f"{coverage}.csv").read_text().splitlines()[1].split(",")
        assert (cells[4:6] == ["", ""]) == is_empty


@pytest.mark.parametrize(
    ("mean", "std", "digits"),
    [(0.0, 1.0, 7), (300.0, 10.0, 7), (1e9, 3e8, 7), (2000.0, 1.0, 8), (1709251265.0, 400.0, 11), (1e15, 1.0, 17)],
)
def test_a_file_has_as_many_digits_as_distinguish_predictions(mean, std, digits):
    assert num_digits(mean, std) == digits


def test_targets_far_from_zero_are_written_apart():
    values = 1709251265 + 400 * VALUES
    model = TextRegressor(**SMALL, companions="none").fit(TEXTS, values, validation=VALIDATION)
    (found,) = predictions(model, ROWS, TEXTS, {}).targets
    columns = prediction_columns(model.trained_, [found])
    for name, exact in {"target_pred": found.value, "target_low": found.low, "target_high": found.high}.items():
        np.testing.assert_allclose([float(format_cell(cell)) for cell in columns[name]], exact, rtol=0, atol=0.05)
        assert len({format_cell(cell) for cell in columns[name]}) == len(set(np.round(exact, 1)))
    table = with_columns(pd.DataFrame({"text": TEXTS}), columns, "texts.csv", ".parquet")
    np.testing.assert_array_equal(table["target_pred"], found.value)
    assert table["target_pred"].dtype == np.float64
    assert format_cell(columns["target_std"][0]) == f"{found.std[0]:.7g}"
