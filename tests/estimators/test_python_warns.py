"""What the command line says of texts and targets is a warning in Python."""

import warnings

import numpy as np
import pytest

from edgewise.estimators import TextClassifier, TextRegressor

SMALL = {"model": "gru", "epochs": 1, "model_dim": 8, "num_layers": 1}
TEXTS, LABELS = ["a good film", "a bad film"] * 8, np.array(["yes", "no"] * 8)


def test_texts_that_are_cut_and_words_that_are_unknown_are_said():
    with pytest.warns(UserWarning, match=r"fit: 16 texts have more than context 2 tokens, cut there"):
        fitted = TextClassifier(context=2, **SMALL).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match=r"predict: 1 text has more than 2 tokens, cut there"):
        fitted.predict(["a good film", "bad"])
    with pytest.warns(UserWarning, match=r"predict: 2 of 3 tokens .* are out of vocabulary"):
        TextClassifier(**SMALL).fit(TEXTS, LABELS).predict(["quite unheard film"])


def test_scripts_without_spaces_and_constant_targets_are_said():
    with pytest.warns(UserWarning, match="fit: 14 of 14 texts are written without spaces"):
        TextClassifier(**SMALL).fit(["这部电影很好看", "这部电影不好看"] * 8, LABELS)
    with pytest.warns(UserWarning, match="fit: target 'target' is constant in the training rows"):
        TextRegressor(**SMALL).fit(TEXTS, np.ones(16))


def test_nothing_is_said_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TextClassifier(**SMALL).fit(TEXTS, LABELS).predict(TEXTS)


def test_the_scores_of_the_validation_rows_are_kept():
    fitted = TextClassifier(**SMALL, validation_size=0.25).fit(TEXTS, LABELS)
    scores = fitted.metrics_["validation"]["target"]
    assert scores["num_rows"] == 4
    assert 0 <= scores["accuracy"] <= 1
    assert fitted.metrics_["parameters"] > 0
    numbers = TextRegressor(**SMALL).fit(TEXTS, np.arange(16.0)).metrics_["validation"]["target"]
    assert numbers["rmse"] > 0
