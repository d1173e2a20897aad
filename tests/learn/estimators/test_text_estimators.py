"""TextClassifier and TextRegressor behave as scikit-learn's estimators do."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from cli_tables import write_csv
from edgewise import DataError, RunFolderError, SettingError, TextClassifier, TextRegressor
from edgewise.learn.companions.word_counts import WordCounts
from edgewise.learn.estimators.parameters import changed_values
from edgewise.learn.readers.texts.data import written
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.companions import FittingRows
from edgewise.learn.tasks.text_encoder import COUNTS_OF_WORDS
from edgewise.learn.tasks.texts.settings import SETTINGS
from edgewise.learn.tasks.texts.task import TASK
from review_tables import reviews

SMALL = {"model_dim": 16, "num_heads": 2, "epochs": 12, "learning_rate": 3e-3, "batch_size": 16}
TEXTS, LABELS, STARS = reviews(80)


@pytest.fixture(scope="module")
def classifier():
    return TextClassifier(**SMALL).fit(TEXTS, LABELS)


def test_classes_are_learned_and_named(classifier):
    new, labels, _ = reviews(40, seed=1)
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.score(new, labels) == 1.0
    probabilities = classifier.predict_proba(new)
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert classifier.fingerprint(new).shape == (40, 16)


def test_labels_of_a_score(classifier):
    new, labels, _ = reviews(40, seed=1)
    gaps = [None if row % 4 == 0 else label for row, label in enumerate(labels)]
    assert classifier.score(new, gaps) == 1.0, "rows without a label are left out"
    weights = np.arange(40) % 4
    assert classifier.score(new, gaps, sample_weight=weights) == 1.0
    for absent in ([None] * 40, np.full(40, np.nan)):
        with pytest.raises(DataError, match="score: no row has a label"):
            classifier.score(new, absent)
    with pytest.raises(DataError, match="no label of y is among classes_: y holds 0, 1; classes_ are 'bad', 'good'"):
        classifier.score(new, np.arange(40) % 2)
    with pytest.raises(DataError, match="weights in sample_weight of the rows with a label add up to zero"):
        classifier.score(new, gaps, sample_weight=weights == 0)
    with pytest.raises(DataError, match=r"sample_weight is \(39,\); expected a weight for each row, \(40,\)"):
        classifier.score(new, labels, sample_weight=np.ones(39))


def test_what_it_is_kept_as(classifier, tmp_path):
    classifier.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(TEXTS[:9]), classifier.predict_proba(TEXTS[:9]))
    assert again.predict(TEXTS[:9]).tolist() == classifier.predict(TEXTS[:9]).tolist()
    with pytest.raises(RunFolderError, match="holds a model for classification; expected regression"):
        TextRegressor.load(tmp_path / "run")
    (tmp_path / "run/tokenizer.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"tokenizer\.json is damaged"):
        TextClassifier.load(tmp_path / "run")


def test_a_loaded_model_predicts_with_the_threads_of_its_training(tmp_path):
    classifier = TextClassifier(**{**SMALL, "epochs": 1}, threads=3).fit(TEXTS, LABELS)
    classifier.save(tmp_path / "run")
    assert TextClassifier.load(tmp_path / "run").trained_.threads == classifier.trained_.threads == 3


@pytest.mark.parametrize(
    "labels",
    [
        (2**53, 2**53 + 1),
        (5, 2**63 - 1),
        (2**63, 2**63 + 1),
        (2**70, 2**70 + 1),
        (1.0, 2.0),
        (np.bool_(False), np.bool_(True)),
    ],
    ids=["beyond 53 bits", "64 bits", "beyond 63 bits", "beyond 64 bits", "float", "truth values of numpy"],
)
def test_classes_are_the_same_after_loading(labels, tmp_path):
    y = [*labels] * (len(TEXTS) // 2)
    model = TextClassifier(model="gru", model_dim=4, epochs=1, companions=["none"]).fit(TEXTS, y)
    model.save(tmp_path / "run")
    loaded = TextClassifier.load(tmp_path / "run")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist() == sorted(labels)
    assert loaded.score(TEXTS, y) == model.score(TEXTS, y)


def test_numbers_and_their_intervals():
    regressor = TextRegressor(**SMALL | {"learning_rate": 0.01, "epochs": 20}, model="gru", validation_size=0.25).fit(
        TEXTS, STARS
    )
    new, _, stars = reviews(40, seed=1)
    assert regressor.score(new, stars) > 0.7
    low, high = regressor.predict_interval(new, coverage=0.8)
    assert (low < high).all()
    two = TextRegressor(**SMALL | {"epochs": 1}).fit(pd.Series(TEXTS), np.stack([STARS, STARS], axis=1))
    assert two.predict(new).shape == (40, 2)


def test_several_columns_are_distinguished():
    words = np.array(["great", "awful"])
    first, second = words[np.arange(96) % 2], words[np.arange(96) // 2 % 2]
    frame = pd.DataFrame({"title": first, "text": second})
    # Whether the title is good says the class; a bag of words could not know which word is the title's.
    classifier = TextClassifier(**SMALL | {"epochs": 20}).fit(frame, first)
    assert classifier.score(frame, first) == 1.0
    with pytest.raises(DataError, match="1 column of texts, but the model was trained on 2"):
        classifier.predict(["great"])


def test_whole_numbers_are_the_same_texts_beside_a_gap():
    rows = pd.DataFrame({"title": ["film"] * 40, "year": [2001, 2002] * 20})
    model = TextClassifier(model="gru", model_dim=8, epochs=2, companions=["none"]).fit(rows, ["new", "old"] * 20)
    expected = model.predict_proba(rows[:2])
    assert (expected[0] != expected[1]).any()

    with_gap = pd.DataFrame({"title": ["film"] * 3, "year": [2001, 2002, None]})
    assert with_gap["year"].dtype == float
    for same in (with_gap, with_gap.astype({"year": "Int64"}), with_gap.to_numpy(), with_gap.to_numpy().tolist()):
        np.testing.assert_array_equal(model.predict_proba(same)[:2], expected)
    np.testing.assert_array_equal(model.predict_proba(with_gap[:1]), expected[:1])
    for row in (rows.iloc[0], with_gap.iloc[0], {"title": "film", "year": 2001}, ["film", 2001.0]):
        (prediction,) = model.explain(row).predictions
        assert list(prediction.probabilities.values()) == pytest.approx(expected[0].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2001.0, "2001"),
        (np.float32(-3), "-3"),
        (0.5, "0.5"),
        (1e300, "1e+300"),
        (np.inf, "inf"),
        (np.nan, ""),
        (7, "7"),
    ],
)
def test_how_a_number_is_written_among_texts(value, text):
    assert written(value) == text


def test_one_target_keeps_its_shape_in_a_folder(tmp_path):
    for number, y in enumerate((STARS, np.reshape(STARS, (-1, 1)), pd.DataFrame({"stars": STARS}))):
        model = TextRegressor(model="gru", model_dim=8, epochs=1, companions=["none"]).fit(TEXTS, y)
        model.save(tmp_path / f"{number}")
        loaded = TextRegressor.load(tmp_path / f"{number}")
        assert loaded.predict(TEXTS[:3]).shape == model.predict(TEXTS[:3]).shape == (3, *np.shape(y)[1:])
        loaded.save(tmp_path / f"{number} again")
        assert TextRegressor.load(tmp_path / f"{number} again").predict(TEXTS[:3]).shape == (3, *np.shape(y)[1:])
        for truth in (STARS, np.reshape(STARS, (-1, 1)), pd.DataFrame({"stars": STARS})):
            assert loaded.score(TEXTS, truth) == model.score(TEXTS, y)
        with pytest.raises(DataError, match=r"score: y is \(80, 2\), but predictions are \(80"):
            loaded.score(TEXTS, np.stack([STARS, STARS], axis=1))


def test_in_the_habit_of_scikit_learn(classifier):
    assert is_classifier(classifier)
    assert is_regressor(TextRegressor())
    assert clone(classifier).get_params() == TextClassifier().get_params() | SMALL
    assert changed_values(clone(classifier).set_params(epochs=1)) == SMALL | {"epochs": 1}
    assert cross_val_score(TextClassifier(**SMALL), TEXTS, LABELS, cv=2).mean() > 0.9
    with pytest.raises(NotFittedError):
        TextClassifier().predict(TEXTS)


def test_words_are_counted_in_rows_of_some_weight(tmp_path, monkeypatch):
    splits = ["train"] * 6 + ["val"] * 4
    columns = {
        "text": ["fine", "dull"] * 5,
        "y": [*"abab", *"ba" * 3],
        "w": [1, 1, 2, 2, 0, 0, 1, 1, 1, 1],
        "s": splits,
    }
    data = write_csv(tmp_path / "rows.csv", columns)
    roles = {"text_columns": ("text",), "target_columns": ("y",), "weight_column": "w", "splits_column": "s"}
    settings = SETTINGS.of({"data": (str(data),), **roles, "companions": ("word-counts",)}, "this test")
    prepared = TASK.prepare(settings)
    learned = []

    def counted(names, texts, targets, weights, loss):
        learned.append((len(texts), weights.tolist()))
        return WordCounts.fit(names, texts, targets, weights, loss)

    monkeypatch.setattr("edgewise.learn.tasks.text_encoder.WordCounts", SimpleNamespace(fit=counted))
    splits = prepared.splits
    fresh = COUNTS_OF_WORDS.fit(
        prepared.fitted, prepared.data, FittingRows(splits.train, splits.val, settings.train, TASK.loss(prepared))
    )
    assert learned == [(4, [1.0, 1.0, 2.0, 2.0])]
    before, after = fresh.module, fresh.with_validation()
    assert learned[1:] == [(8, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0])]
    assert float(before.weights.abs().max()) > float(after.weights.abs().max())  # the classes are turned round there


def test_inputs_that_cannot_be_learned_or_predicted(classifier):
    with pytest.raises(DataError, match=r"^row 1, column 'text': the text is empty"):
        TextClassifier(**SMALL).fit(["a", " ", "b"], ["x", "y", "x"])
    with pytest.raises(DataError, match="holds 1 class"):
        TextClassifier(**SMALL).fit(["a", "b"], ["x", "x"])
    with pytest.raises(DataError, match="row 1 cannot be read: text: the text is empty"):
        classifier.predict(["a", ""])
    with pytest.warns(UserWarning, match="1 of 2 rows cannot be read and nothing is predicted there"):
        assert np.isnan(classifier.predict_proba(["a", ""])[1]).all()
    with pytest.raises(SettingError, match="validation_size is 1"):
        TextClassifier(validation_size=1).fit(TEXTS, LABELS)


def test_each_text_is_cut_into_tokens_once(classifier, monkeypatch):
    encode, encoded = Tokenizer.encode, []
    monkeypatch.setattr(Tokenizer, "encode", lambda self, text: encoded.append(text) or encode(self, text))
    regressor = TextRegressor(**SMALL | {"epochs": 1}).fit(TEXTS, STARS)
    encoded.clear()
    texts = [*TEXTS[:5], "", "zzz"]
    calls = [
        lambda: classifier.predict_proba(texts),
        lambda: classifier.fingerprint(texts),
        lambda: classifier.status_of(texts),
        lambda: regressor.predict(texts),
        lambda: regressor.score(texts, [*STARS[:5], np.nan, 1.0]),
    ]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
        assert sorted(encoded) == sorted(texts)
        encoded.clear()


def test_values_that_were_accepted_or_ended_in_an_error_of_python():
    with pytest.raises(DataError, match="y holds complex numbers; expected real ones"):
        TextRegressor(**SMALL).fit(TEXTS, np.array(STARS) + 1j)
    with pytest.raises(SettingError, match="validation_size is a; expected at least 0 and below 1"):
        TextRegressor(**SMALL, validation_size="a").fit(TEXTS, STARS)
    regressor = TextRegressor(**SMALL | {"epochs": 1}, device=None).fit(TEXTS, STARS)
    assert np.isfinite(regressor.predict(TEXTS[:2])).all()


@pytest.mark.parametrize("name", ["training", "validation"])
def test_weights_that_are_all_zero_are_said_to_be(name):
    """The training was said to have diverged, with another learning rate for remedy."""
    is_validation = np.arange(len(TEXTS)) < 9
    weights = (is_validation == (name == "training")).astype(float)
    with pytest.raises(DataError, match=f"the weight of every {name} row is zero"):
        TextRegressor(**SMALL).fit(TEXTS, STARS, sample_weight=weights, validation=is_validation)
