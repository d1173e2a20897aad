"""Small and large numbers: the unit of a column changes nothing; what cannot be scaled is refused before training."""

from dataclasses import replace

import numpy as np
import pytest

from edgewise import (
    DataError,
    DynamicsModel,
    EdgeRegressor,
    Forecaster,
    GraphRegressor,
    MoleculeRegressor,
    NodeRegressor,
    TextRegressor,
)
from edgewise.learn.readers.motion.dynamics import integrate, system_of
from edgewise.learn.readers.motion.motion import arrays_of, motion_of, read_motion
from edgewise.learn.tables.cell import Problems, parse_columns, read_numbers
from edgewise.learn.tables.scale import ColumnScaler, TargetScaler
from edgewise.learn.training.baseline import FiniteFeatures, fit_forest
from edgewise.learn.training.metrics import regression_scores

NUM = 24
RING = np.stack([np.arange(NUM), (np.arange(NUM) + 1) % NUM])
VALUES = np.random.default_rng(0).normal(3, 1, NUM)
FEATURES = np.random.default_rng(1).normal(size=(NUM, 3))
SMILES = ["C" * size + end for size in range(1, 9) for end in ("O", "N", "Cl")]
TEXTS = [f"{'good ' * (number % 5)}film {number % 3}" for number in range(NUM)]
GRAPHS = [(FEATURES[: 3 + size % 6], RING[:, : 2 + size % 6]) for size in range(NUM)]
SMALL = {"epochs": 2, "model_dim": 4, "validation_size": 0.4, "random_state": 0}
HEAD = {**SMALL, "num_heads": 1, "head_dim": 8, "num_variants": 2}
MODELS = {
    "molecules": (MoleculeRegressor, {**HEAD, "num_layers": 1, "molecule_descriptors": False}, (SMILES,)),
    "texts": (TextRegressor, {**SMALL, "num_heads": 1, "tokens": "characters"}, (TEXTS,)),
    "nodes": (NodeRegressor, {**SMALL, "model": "gcn"}, (FEATURES, RING)),
    "edges": (EdgeRegressor, {**SMALL, "model": "gcn"}, (FEATURES, RING)),
    "graphs": (GraphRegressor, HEAD, (GRAPHS,)),
}


def fitted(kind, values, **more):
    model, settings, (rows, *edges) = MODELS[kind]
    options = {**({"edges": edges[0]} if edges else {}), **more}
    return model(**settings).fit(rows, values, **options), (rows, *edges)


@pytest.mark.parametrize("kind", MODELS)
def test_the_unit_of_the_targets_changes_nothing(kind):
    usual, data = fitted(kind, VALUES)
    expected = usual.predict(*data)
    ends = usual.predict_interval(*data, coverage=0.5)
    for unit in (2.0**-30, 2.0**300):
        model, _ = fitted(kind, VALUES * unit)
        np.testing.assert_allclose(model.predict(*data) / unit, expected, rtol=1e-9)
        for end, other in zip(model.predict_interval(*data, coverage=0.5), ends, strict=True):
            np.testing.assert_allclose(end / unit, other, rtol=1e-6)
        scores, known = model.metrics_["validation"]["target"], usual.metrics_["validation"]["target"]
        for name in ("r2", "pearson", "spearman"):
            assert scores[name] == pytest.approx(known[name], rel=1e-6)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.where(np.arange(NUM) == 5, 1e300, VALUES), "beyond ±1e\\+100, too large to be scaled; give the column"),
        (1e308 * (-1.0) ** np.arange(NUM), "too large to be scaled"),
        (1e-320 * np.arange(NUM), "standard deviation is below 1e-100, too small to be scaled; give the column"),
    ],
)
def test_targets_that_cannot_be_scaled_are_refused_before_training(kind, values, message, monkeypatch):
    monkeypatch.setattr("edgewise.learn.training.training.Training.run", None)
    with pytest.raises(DataError, match=message) as caught:
        fitted(kind, values)
    assert "target" in str(caught.value)
    if values[5] == 1e300:
        assert "row 5, column" in str(caught.value)


@pytest.mark.parametrize("kind", ["molecules", "texts"])
def test_a_validation_target_far_beyond_the_others_is_named(kind):
    values, far = np.where(np.arange(NUM) == 7, 1e80, VALUES), np.arange(NUM) == 7
    with pytest.raises(DataError, match=r"^row 7, column 'target': 1e\+80 lies .* standard deviations .* too far"):
        fitted(kind, values, validation=far | (np.arange(NUM) > 15))


def test_conditions_of_molecules():
    conditions = np.arange(NUM, dtype=float)[:, None]
    usual, _ = fitted("molecules", VALUES, conditions=conditions)
    small, _ = fitted("molecules", VALUES, conditions=conditions * 2.0**-300)
    np.testing.assert_allclose(
        small.predict(SMILES, conditions * 2.0**-300), usual.predict(SMILES, conditions), rtol=1e-6
    )
    with pytest.raises(DataError, match=r"row 23, .*'condition_1': '2.3e\+301' is beyond"):
        fitted("molecules", VALUES, conditions=np.where(conditions == 23, 2.3e301, conditions))
    with pytest.raises(DataError, match=r"column 'condition_1': 2.29997e-319 .* too small to be scaled"):
        fitted("molecules", VALUES, conditions=conditions * 1e-320)
    assert usual.status_of(SMILES, conditions=conditions * 1e300)[3] == (
        "condition_1: '3e+300' is beyond ±1e+100, too large to be scaled; give the column in another unit"
    )


@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_features_of_nodes(kind):
    usual, data = fitted(kind, VALUES)
    model, settings, _ = MODELS[kind]
    for unit in (2.0**-60, 2.0**60):
        scaled = model(**settings).fit(FEATURES * unit, VALUES, edges=RING)
        np.testing.assert_allclose(scaled.predict(FEATURES * unit, RING), usual.predict(*data), rtol=1e-5)
    wrong = FEATURES.copy()
    wrong[5, 1] = 1e300
    with pytest.raises(DataError, match=r"the graph: X\[5, 1\] is 1e\+300, beyond ±1e\+37 and too large to be scaled"):
        model(**settings).fit(wrong, VALUES, edges=RING)
    with pytest.raises(DataError, match="all numbers of X, column 0, are below 1e-37, too small to be scaled"):
        model(**settings).fit(FEATURES * 1e-50, VALUES, edges=RING)


def test_columns_of_tables():
    problems = Problems()
    values = read_numbers(["1", "-1e300", "2e99", "1e-320"], "x", problems)
    np.testing.assert_array_equal(values, [1, np.nan, 2e99, 1e-320])
    assert problems.first == {
        1: ("x", "-1e300", "'-1e300' is beyond ±1e+100, too large to be scaled; give the column in another unit")
    }
    values, bad = parse_columns([["1", "1e38"], ["0", "1e-50"], ["1e-50", "1"]], np.float32)
    assert [sorted(each) for each in bad] == [[1], [1], []]
    assert bad[0][1][1] == "'1e38' is beyond ±1e+37, too large to be scaled; give the column in another unit"
    assert bad[1][1][1] == "'1e-50' and all cells of the column are below 1e-37; give the column in another unit"


def test_scalers_name_the_cell():
    def cell_name(row: int, column: int) -> str:
        return f"line {row + 2}, column {'ab'[column]}"

    for scaler in (TargetScaler, ColumnScaler):
        with pytest.raises(DataError, match=r"line 3, column b: 1e\+200 is beyond"):
            scaler.fit(np.array([[0.0, 1.0], [1.0, 1e200]]), [0, 1], cell_name)
        with pytest.raises(DataError, match="line 3, column a: 1e-200 is the largest value of a column"):
            scaler.fit(np.array([[0.0, 1.0], [1e-200, 3.0]]), [0, 1], cell_name)


def test_a_forest_learns_in_any_unit():
    features, targets = np.abs(FEATURES), np.stack([VALUES, VALUES**2], 1)
    weights, rows = np.ones(NUM), np.arange(16)

    def predictions(unit, of_features):
        finite = FiniteFeatures.fit(features[rows] * of_features)
        forest = fit_forest(finite(features[rows] * of_features), targets[rows] * unit, weights[rows], (0, 0), trees=5)
        return np.stack(forest.predict(finite(features * of_features))) / unit

    expected = predictions(1.0, 1.0)
    assert np.ptp(expected[0]) > 1
    for unit, of_features in ((2.0**-40, 1.0), (2.0**300, 1.0), (1.0, 2.0**-40)):
        np.testing.assert_allclose(predictions(unit, of_features), expected, rtol=1e-12)
    shifted = fit_forest(features[rows], targets[rows] + 1e9, weights[rows], (0, 0), trees=5).predict(features)[0]
    assert np.corrcoef(shifted - 1e9, expected[0])[0, 1] > 0.9


def test_scores_in_any_unit():
    predictions = VALUES + FEATURES[:, 0]
    expected = regression_scores(VALUES, predictions)
    for unit in (1e-90, 1e90):
        found = regression_scores(VALUES * unit, predictions * unit)
        for name in ("rmse", "mae", "max_error"):
            assert found[name] / unit == pytest.approx(expected[name])
        for name in ("r2", "pearson", "spearman"):
            assert found[name] == pytest.approx(expected[name])


def test_bounds_far_from_the_targets_are_refused():
    settings = {**MODELS["molecules"][1], "bounds": (0, 1)}
    with pytest.raises(DataError, match="bounds 0 1 are 2e\\+09 times as far apart as the standard deviation"):
        MoleculeRegressor(**settings).fit(SMILES, np.abs(VALUES) * 1e-9)


def test_series_in_any_unit():
    steps = np.arange(60.0)
    series = np.stack([np.sin(steps), np.cos(steps), np.sin(2 * steps)], 1) + 2
    settings = {"model": "gru", "context": 2, "horizon": 2, "epochs": 1, "random_state": 0}
    expected = Forecaster(**settings).fit(series).predict(series)
    for unit in (2.0**-100, 2.0**100):
        found = Forecaster(**settings).fit(series * unit).predict(series * unit)
        np.testing.assert_allclose(found / unit, expected, rtol=1e-5)
    apart = series * [1e-9, 1.0, 1e9]
    each = Forecaster(**settings).fit(apart).predict(apart)
    assert (np.abs(each / [1e-9, 1.0, 1e9] - expected) < 1).all(), "a small series is not lost beside a large one"
    for row, value, message in (
        (5, 1e300, r"the series, time 5, column '1': 1e\+300 is beyond"),
        (55, 1e80, r"time 55, column '1': 1e\+80 lies .* standard deviations .* too far"),
    ):
        wrong = series.copy()
        wrong[row, 1] = value
        with pytest.raises(DataError, match=message):
            Forecaster(**settings).fit(wrong)
    with pytest.raises(DataError, match=r"the series, time .* too small to be scaled"):
        Forecaster(**settings).fit(series * 1e-320)


def test_motion_in_any_unit(tmp_path):
    motion = motion_of(integrate(system_of("nbody", 8, 3, 2, 0), time_step=0.01, num_steps=8))
    settings = {"epochs": 1, "model_dim": 4, "random_state": 0, "horizon": 2}
    expected = DynamicsModel(**settings).fit(motion).predict(motion)
    for unit in (2.0**-70, 2.0**70):
        scaled = replace(
            motion,
            positions=motion.positions * np.float32(unit),
            velocities=motion.velocities * np.float32(unit),
            charges=motion.charges * np.float32(2.0**90),
        )
        np.testing.assert_allclose(DynamicsModel(**settings).fit(scaled).predict(scaled) / unit, expected, rtol=1e-4)
    kilograms = replace(motion, charges=motion.charges * np.float32(2e30), lacks=("couplings",))
    assert kilograms.strengths.max() == pytest.approx(4e60)
    usual = replace(motion, lacks=("couplings",))
    pulls = {**settings, "horizon": None, "target_quantity": "accelerations"}
    pulls.pop("horizon")
    np.testing.assert_allclose(
        DynamicsModel(**pulls).fit(kilograms).predict(kilograms),
        DynamicsModel(**pulls).fit(usual).predict(usual),
        rtol=1e-3,
    )


def test_motion_far_from_the_origin():
    """In meters of a map projection, single precision knows places to half a meter."""
    system = integrate(system_of("nbody", 8, 3, 2, 0), time_step=0.01, num_steps=8)
    near, origin = motion_of(system), np.array([5e5, 5.8e6])
    far = replace(near, positions=near.positions + origin)
    assert near.positions.dtype == np.float64
    for settings in ({"horizon": 2}, {"target_quantity": "accelerations"}):
        options = {"epochs": 2, "model_dim": 4, "random_state": 0, **settings}
        models = [DynamicsModel(**options).fit(motion) for motion in (near, far)]
        shift = origin if "horizon" in settings else 0.0
        expected = models[0].predict(near, 3)
        for model, motion, shifted in ((models[0], far, shift), (models[1], near, 0.0), (models[1], far, shift)):
            np.testing.assert_allclose(model.predict(motion, 3) - shifted, expected, rtol=1e-3, atol=1e-5)
        scores = [model.metrics_["test"]["mse"] for model in models]
        assert scores[1] == pytest.approx(scores[0], rel=1e-2)

    plain = {"model": "graph_network", "horizon": 2, "epochs": 1, "model_dim": 4}
    model = DynamicsModel(**plain).fit(near)
    for call in (lambda: DynamicsModel(**plain).fit(far), lambda: model.predict(far)):
        with pytest.raises(DataError, match=r"all bodies of a moment are 5.8e\+06 from the origin, but spread over"):
            call()


@pytest.mark.parametrize(
    ("name", "factor", "message"),
    [
        ("positions", 1e300, r"positions\[0, 0, 0, 0\] is .*e\+.*, beyond ±1e\+37 and too large to be scaled"),
        ("velocities", 1e-60, "no number in velocities is larger than .*, too small to be scaled"),
        ("masses", 1e60, r"masses\[0, 0\] is 1e\+60, beyond"),
    ],
)
def test_motion_that_cannot_be_scaled(name, factor, message, tmp_path):
    arrays = arrays_of(integrate(system_of("nbody", 2, 3, 2, 0), time_step=0.01, num_steps=4))
    np.savez(tmp_path / "motion.npz", **{**arrays, name: arrays[name] * factor})
    with pytest.raises(DataError, match=message):
        read_motion(str(tmp_path / "motion.npz"))
