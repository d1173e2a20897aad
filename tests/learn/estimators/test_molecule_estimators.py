"""MoleculeRegressor and MoleculeClassifier behave as scikit-learn's estimators do."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from edgewise import MoleculeClassifier, MoleculeRegressor
from edgewise.errors import DataError, RunFolderError, SettingError
from edgewise.learn.estimators.molecules import MOLECULES
from edgewise.learn.estimators.row_methods import data_of, predictions
from edgewise.learn.estimators.state import settings_of
from edgewise.learn.training.settings import TrainSettings

SMALL = {
    "epochs": 2,
    "model_dim": 8,
    "num_heads": 2,
    "num_layers": 1,
    "head_dim": 8,
    "num_variants": 2,
    "device": "cpu",
}
ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
SMILES = [f"{'C' * (1 + number // 5)}{ENDS[number % 5]}" for number in range(40)]
LENGTHS = np.array([float(len(text)) for text in SMILES])


@pytest.fixture(scope="module")
def regressor() -> MoleculeRegressor:
    return MoleculeRegressor(**SMALL, validation_size=0.25).fit(SMILES, LENGTHS)


def test_predictions_have_the_shape_of_the_targets(regressor):
    assert regressor.predict(SMILES[:3]).shape == (3,)
    two = MoleculeRegressor(**SMALL).fit(
        SMILES, np.stack([LENGTHS, np.where(LENGTHS > 6, np.nan, LENGTHS % 3)], axis=1)
    )
    assert two.predict(SMILES[:3]).shape == (3, 2)
    assert np.isfinite(two.predict(SMILES)).all()


def test_it_learns():
    trained = MoleculeRegressor(**SMALL | {"epochs": 60, "learning_rate": 0.01}).fit(SMILES, LENGTHS)
    assert trained.score(SMILES, LENGTHS) > 0.9


def test_intervals_surround_the_prediction_and_widen(regressor):
    value = regressor.predict(SMILES)
    low, high = regressor.predict_interval(SMILES)
    narrow_low, narrow_high = regressor.predict_interval(SMILES, coverage=0.5)
    assert ((low < value) & (value < high)).all()
    assert (high - low > narrow_high - narrow_low).all()


def test_fractions_stay_fractions():
    fractions = np.clip((LENGTHS - 4) / 8, 0, 1)
    wild = SMALL | {"learning_rate": 1.0, "validation_size": 0.25}
    trained = MoleculeRegressor(**wild, bounds=(0, 1)).fit(SMILES, fractions)
    low, high = trained.predict_interval(SMILES)
    for found in (trained.predict(SMILES), low, high):
        assert ((found >= 0) & (found <= 1)).all()
    assert (low < high).any()
    free = MoleculeRegressor(**wild).fit(SMILES, fractions)
    assert free.trained_.encoder.sizes.low is None and not free.trained_.output.bounds
    wide = MoleculeRegressor(**wild, bounds=(-3, 12)).fit(SMILES, LENGTHS - 4)
    for found in (wide.predict(SMILES), *wide.predict_interval(SMILES)):
        assert ((found >= -3) & (found <= 12)).all()
    with pytest.raises(DataError, match=r"^row \d+, column 'target': .* lies beyond bounds 0 1"):
        MoleculeRegressor(**wild, bounds=(0, 1)).fit(SMILES, LENGTHS)
    for bounds in ((0,), (1, 0), (0, 1, 2), (0, float("inf"))):
        with pytest.raises(SettingError, match="expected two numbers, the lower one first: bounds 0 1"):
            MoleculeRegressor(**wild, bounds=bounds).fit(SMILES, fractions)


def test_rows_that_cannot_be_read(regressor):
    with pytest.warns(UserWarning, match="predict: 1 of 3 rows cannot be read"):
        found = regressor.predict(["CCO", "not a molecule", "CCN"])
    assert np.isnan(found).tolist() == [False, True, False]
    with pytest.raises(DataError, match="not a molecule"):
        MoleculeRegressor(**SMALL).fit([*SMILES, "not a molecule"], [*LENGTHS, 1.0])


def test_inputs_of_every_shape_agree():
    pairs = [(text, "[Cl-]" if row % 2 else "[Br-]") for row, text in enumerate(SMILES)]
    kelvin = 300.0 + np.arange(40)
    frame = pd.DataFrame({"cation": [p[0] for p in pairs], "kelvin": kelvin, "anion": [p[1] for p in pairs]})
    found = [
        MoleculeRegressor(**SMALL).fit(pairs, LENGTHS, conditions=kelvin).predict(pairs, conditions=kelvin),
        MoleculeRegressor(**SMALL)
        .fit(np.array(pairs), LENGTHS, conditions=kelvin[:, None])
        .predict(np.array(pairs), kelvin),
        MoleculeRegressor(**SMALL).fit(frame, LENGTHS).predict(frame),
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], MoleculeRegressor(**SMALL).fit(pairs, LENGTHS).predict(pairs))


def test_a_series_with_any_index(regressor):
    series = pd.Series(SMILES, index=range(100, 140))
    assert np.array_equal(
        MoleculeRegressor(**SMALL, validation_size=0.25).fit(series, LENGTHS).predict(series), regressor.predict(SMILES)
    )


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"X": SMILES[:3], "y": [1.0, 2.0]}, DataError, "fit: 3 rows of molecules, but 2 targets."),
        ({"X": pd.DataFrame({"a": [1.0]}), "y": [1.0]}, DataError, "X has no text column with SMILES"),
        (
            {"X": pd.DataFrame({"a": ["C"], "b": [1.0]}), "y": [1.0], "conditions": [1.0]},
            DataError,
            "conditions came twice",
        ),
        ({"X": SMILES, "y": LENGTHS, "conditions": [1.0]}, DataError, "1"),
        ({"X": SMILES, "y": [*LENGTHS[:-1], np.inf]}, DataError, "infinite"),
    ],
)
def test_what_does_not_fit_together_is_said(words, error, message):
    with pytest.raises(error, match=message):
        MoleculeRegressor(**SMALL).fit(**words)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"validation_size": 1.0}, "validation_size is 1.0; expected at least 0 and below 1"),
        ({"ensemble_size": 0}, "ensemble_size is 0; expected at least 1"),
        ({"coverage": 0}, "coverage is 0.0; expected above 0 and below 1"),
        ({"num_heads": 3}, "must be a multiple of num_heads"),
    ],
)
def test_impossible_parameters_are_refused_when_fitting(parameters, message):
    with pytest.raises(SettingError, match=message):
        MoleculeRegressor(**SMALL | parameters).fit(SMILES, LENGTHS)


def test_another_number_of_columns_is_refused(regressor):
    with pytest.raises(DataError, match="2 columns of SMILES, but the model was trained on 1"):
        regressor.predict([("C", "C")])
    with pytest.raises(DataError, match="1 column of conditions, but the model was trained on 0"):
        regressor.predict(["C"], conditions=[300.0])


def test_parameters_are_scikit_learns(regressor):
    parameters = regressor.get_params()
    assert parameters["epochs"] == 2
    assert clone(regressor).get_params() == parameters
    assert MoleculeRegressor().set_params(num_layers=5).num_layers == 5
    with pytest.raises(NotFittedError):
        clone(regressor).predict(SMILES)
    assert is_regressor(regressor)
    assert is_classifier(MoleculeClassifier())
    assert "MoleculeRegressor" in repr(regressor)


def test_parameters_reach_the_settings():
    regressor = MoleculeRegressor(attention_score="cosine", batch_size=np.int64(7), random_state=3, patience=4)
    job = settings_of(regressor, MOLECULES)
    train = job.train
    assert (job.model.score, train.batch_size, train.seed, train.patience) == ("cosine", 7, 3, 4)
    assert settings_of(MoleculeRegressor(num_layers=None), MOLECULES).train == TrainSettings(), "None is the default"


def test_cross_validation_and_grid_search():
    frame = pd.DataFrame({"smiles": SMILES, "kelvin": 300.0 + np.arange(40)})
    for X in (SMILES, np.array(SMILES), frame):
        assert np.isfinite(cross_val_score(MoleculeRegressor(**SMALL), X, LENGTHS, cv=2)).all()
    search = GridSearchCV(MoleculeRegressor(**SMALL), {"num_layers": [1, 2]}, cv=2).fit(SMILES, LENGTHS)
    assert search.best_params_["num_layers"] in (1, 2)
    scores = cross_val_score(MoleculeClassifier(**SMALL), SMILES, LENGTHS > 6, cv=2, scoring="roc_auc")
    assert np.isfinite(scores).all()


def test_the_same_seed_gives_the_same_model(regressor):
    again = MoleculeRegressor(**SMALL, validation_size=0.25).fit(SMILES, LENGTHS)
    other = MoleculeRegressor(**SMALL, validation_size=0.25, random_state=1).fit(SMILES, LENGTHS)
    assert np.array_equal(again.predict(SMILES), regressor.predict(SMILES))
    assert not np.array_equal(other.predict(SMILES), regressor.predict(SMILES))


def test_the_target_of_a_row_without_weight_does_not_matter():
    """It was part of the scale of the targets: 1e6 there left nothing to be learned of the others."""
    weights, validation = np.ones(len(SMILES)), np.arange(len(SMILES)) >= len(SMILES) - 3
    weights[0] = 0
    predicted = []
    for target in (LENGTHS[0], 1e6):
        model = MoleculeRegressor(**SMALL, companions=("gaussian-process",))
        model.fit(SMILES, [target, *LENGTHS[1:]], sample_weight=weights, validation=validation)
        predicted.append(model.predict(SMILES))
    np.testing.assert_array_equal(*predicted)
    with pytest.raises(DataError, match="too far to compute an error"):
        MoleculeRegressor(**SMALL).fit(SMILES, [1e90, *LENGTHS[1:]], sample_weight=weights, validation=validation)


def test_groups_stay_together_and_weights_matter():
    groups = np.arange(40) // 4
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "fit: intervals calibrated on")
        MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS, groups=groups)
    light = np.where(LENGTHS > 6, 1e-3, 1.0)
    weighted = MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS, sample_weight=light).predict(SMILES)
    assert not np.array_equal(weighted, MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS).predict(SMILES))


@pytest.mark.parametrize(
    "labels",
    [
        np.where(LENGTHS > 6, 1, 0),
        np.where(LENGTHS > 6, "long", "short"),
        LENGTHS > 6,
        np.arange(40) % 3 - 1,
        np.array(["a", "b", "c"])[np.arange(40) % 3],
    ],
)
def test_classes_of_any_kind(labels, tmp_path):
    classifier = MoleculeClassifier(**SMALL).fit(SMILES, labels)
    assert classifier.classes_.tolist() == np.unique(labels).tolist()
    probabilities = classifier.predict_proba(SMILES)
    assert probabilities.shape == (40, len(np.unique(labels)))
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(40), abs=1e-6)
    found = classifier.predict(SMILES)
    assert found.dtype == labels.dtype
    assert np.array_equal(found, classifier.classes_[probabilities.argmax(axis=1)])
    assert 0 <= classifier.score(SMILES, labels) <= 1
    classifier.save(tmp_path / "run")
    loaded = MoleculeClassifier.load(tmp_path / "run")
    assert np.array_equal(loaded.predict(SMILES), found)
    assert loaded.classes_.tolist() == classifier.classes_.tolist()


def test_a_classifier_learns():
    labels = np.where(np.char.find(SMILES, "O") >= 0, "oxygen", "none")
    trained = MoleculeClassifier(**SMALL | {"epochs": 40, "learning_rate": 0.01}).fit(SMILES, labels)
    assert trained.score(SMILES, labels) > 0.95


def test_classes_that_are_none():
    with pytest.raises(DataError, match="y holds 1 class; expected two or more"):
        MoleculeClassifier(**SMALL).fit(SMILES, np.ones(40))
    with pytest.raises(DataError, match="y holds 1 class; expected two or more"):
        MoleculeClassifier(**SMALL).fit(SMILES, np.ones((40, 2)))
    with pytest.raises(DataError, match="y has 3 axes"):
        MoleculeClassifier(**SMALL).fit(SMILES, np.ones((40, 2, 2)))
    trained = MoleculeClassifier(**SMALL).fit(SMILES, LENGTHS > 6)
    with pytest.warns(UserWarning, match="predict_proba: 1 of 2 rows cannot be read"):
        assert np.isnan(trained.predict_proba(["CCO", "x"])[1]).all()
    with pytest.raises(DataError, match="predict: row 1 cannot be read: "):
        trained.predict(["CCO", "x"])


def test_saved_models_predict_the_same(regressor, tmp_path):
    regressor.save(tmp_path / "run")
    loaded = MoleculeRegressor.load(tmp_path / "run")
    assert np.array_equal(loaded.predict(SMILES), regressor.predict(SMILES))
    assert np.array_equal(loaded.fingerprint(SMILES), regressor.fingerprint(SMILES))
    assert np.array_equal(loaded.predict_interval(SMILES)[0], regressor.predict_interval(SMILES)[0])
    with pytest.raises(RunFolderError, match="replace it with overwrite"):
        regressor.save(tmp_path / "run")
    regressor.save(tmp_path / "run", overwrite=True)
    with pytest.raises(RunFolderError, match="holds a model for regression; expected classification or multiclass"):
        MoleculeClassifier.load(tmp_path / "run")


def test_an_infinite_temperature_survives_saving(tmp_path):
    trained = MoleculeRegressor(**SMALL, temperature=float("inf")).fit(SMILES, LENGTHS)
    trained.save(tmp_path / "run")
    assert np.array_equal(MoleculeRegressor.load(tmp_path / "run").predict(SMILES), trained.predict(SMILES))


def test_ensembles_average_their_members():
    both = MoleculeRegressor(**SMALL, ensemble_size=2).fit(SMILES, LENGTHS)
    first = MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS)
    members = both.trained_.outputs(data_of(both, MOLECULES, SMILES, {}), np.arange(40))[:, :, 0]
    assert members.shape == (2, 40)
    assert members[0] == pytest.approx(first.predict(SMILES), rel=1e-6)
    assert both.predict(SMILES) == pytest.approx(members.mean(axis=0))
    spread = predictions(both, MOLECULES, SMILES, {}).targets[0].ensemble_std
    assert spread == pytest.approx(np.abs(members[0] - members[1]) / np.sqrt(2))


def test_a_table_without_rows_is_refused_as_a_list_is():
    """Pandas raised a ValueError about lengths."""
    table = pd.DataFrame({"smiles": SMILES, "kelvin": 300 + LENGTHS, "bar": LENGTHS})
    trained = MoleculeRegressor(**SMALL).fit(table, LENGTHS)
    for empty, conditions in (([], np.zeros((0, 2))), (table[:0], None), (table[table.kelvin > 1e9], None)):
        with pytest.raises(DataError, match="smiles is empty, expected at least one row"):
            trained.predict(empty, conditions=conditions)


@pytest.mark.parametrize("dtype", [bool, object, "boolean"])
def test_conditions_that_are_true_or_false_are_numbers(dtype):
    """They were refused as text in fit; predict gave NaN."""
    hot = pd.Series([True, False] * 20, dtype=dtype)
    trained = MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS, conditions=hot.astype(float).to_frame("hot"))
    expected = trained.predict(SMILES, conditions=hot.astype(float).to_frame("hot"))
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(trained.predict(SMILES, conditions=hot.to_frame("hot")), expected)
    in_frame = MoleculeRegressor(**SMALL).fit(SMILES, LENGTHS, conditions=hot.to_frame("hot"))
    np.testing.assert_array_equal(in_frame.predict(SMILES, conditions=hot.to_frame("hot")), expected)


def test_true_and_false_beside_smiles_are_conditions():
    table = pd.DataFrame({"smiles": SMILES, "hot": [True, False] * 20})
    trained = MoleculeRegressor(**SMALL).fit(table, LENGTHS)
    expected = trained.predict(table.assign(hot=table.hot.astype(float)))
    np.testing.assert_array_equal(trained.predict(table), expected)
    np.testing.assert_array_equal(trained.predict(table.assign(hot=table.hot.astype("boolean"))), expected)


def test_true_beside_none_is_a_condition():
    """Such a column has the type of objects; it was read as SMILES."""
    table = pd.DataFrame({"smiles": SMILES, "hot": pd.Series([True, None, False, True] * 10, dtype=object)})
    as_numbers = table.assign(hot=table.hot.astype(float))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # filled numbers
        trained = MoleculeRegressor(**SMALL).fit(table, LENGTHS)
        np.testing.assert_array_equal(trained.predict(table), trained.predict(as_numbers))
        row = {"smiles": SMILES[1], "hot": None}
        np.testing.assert_array_equal(trained.predict([row]), trained.predict(as_numbers[1:2]))


@pytest.mark.filterwarnings("ignore:predict. ")
def test_columns_keep_their_roles_whatever_their_cells_are(tmp_path):
    table = pd.DataFrame({"smiles": SMILES, "kelvin": np.linspace(280, 320, 40)})
    fitted = MoleculeRegressor(**SMALL).fit(table, LENGTHS)
    fitted.save(tmp_path / "run")
    for model in (fitted, MoleculeRegressor.load(tmp_path / "run")):
        expected = model.predict(table[:3])

        for nothing in (np.nan, None, pd.NA):
            unread = table[:3].assign(smiles=[nothing] * 3)
            assert np.isnan(model.predict(unread)).all()
            assert model.status_of(unread) == ["smiles: The SMILES is empty, expected one molecule"] * 3

        mistyped = table[:3].assign(kelvin=[280.0, "warm", table["kelvin"][2]])
        np.testing.assert_allclose(model.predict(mistyped), [expected[0], np.nan, expected[2]])
        assert model.status_of(mistyped)[1] == "kelvin: 'warm' is not a number"
        written = table[:3].assign(kelvin=table["kelvin"][:3].map(str))
        np.testing.assert_array_equal(model.predict(written), expected)


@pytest.mark.parametrize("hold", [lambda numbers: [Decimal(str(number)) for number in numbers], pd.Categorical])
def test_decimals_and_categories_of_numbers_are_conditions(hold):
    kelvin = np.arange(40) / 4
    table = pd.DataFrame({"smiles": pd.Categorical(SMILES), "kelvin": hold(kelvin)})
    model = MoleculeRegressor(**SMALL).fit(table, LENGTHS)
    plain = pd.DataFrame({"smiles": SMILES, "kelvin": kelvin})
    np.testing.assert_array_equal(model.predict(table), MoleculeRegressor(**SMALL).fit(plain, LENGTHS).predict(plain))
