"""Notes of the command line about texts and targets are warnings in Python."""

import warnings

import numpy as np
import pandas as pd
import pytest

from edgewise.learn.estimators import (
    LanguageModel,
    LinkPredictor,
    MoleculeRegressor,
    Tagger,
    TextClassifier,
    TextRegressor,
    Translator,
)

LAYERS = {"epochs": 1, "model_dim": 8, "num_layers": 1, "random_state": 0}
SMALL_TEXT = {"steps": 1, "context": 4, "model_dim": 8, "num_layers": 1, "num_heads": 1, "position": "learned"}
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


def test_classes_are_called_by_their_names():
    """Targets are the numbers of classes in training; messages gave these."""
    labels, is_validation = np.array(["yes", "no"] * 40, dtype=object), np.zeros(80, dtype=bool)
    labels[:1], labels[78:], is_validation[70:] = "maybe", "never", True
    with pytest.warns(UserWarning, match="fit: ") as caught:
        fitted = TextClassifier(**SMALL).fit(TEXTS * 5, labels, validation=is_validation)
    said = [str(warning.message) for warning in caught]
    assert any("of class maybe of 'target'" in text for text in said)
    assert any("'never' of 'target' stands in 2 validation rows and in no training row" in text for text in said)
    assert fitted.trained_.classes == {"target": ("maybe", "never", "no", "yes")}


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


def test_words_that_no_training_sentence_has_are_said_of_tags():
    sentences, tags = [["a", "good", "film"], ["a", "bad", "film"]] * 8, [["D", "A", "N"]] * 16
    with pytest.warns(UserWarning, match=r"fit: 1 word to be scored has a tag that no training sentence has"):
        fitted = Tagger(**SMALL).fit(sentences, tags, validation=([["a", "film"]], [["D", "X"]]))
    with pytest.warns(UserWarning, match=r"predict: 2 of 3 tokens .* are out of vocabulary"):
        fitted.predict([["quite", "unheard", "film"]])
    with pytest.warns(UserWarning, match=r"predict: 1 of 10 sentence.* has no word .*, the first of them sentence 9"):
        fitted.predict([["a", "good", "film"]] * 9 + [["unheard"]])


def test_texts_that_are_not_translated_are_said():
    fitted = Translator(**SMALL, context=12).fit(["ein Hund"] * 8, ["a dog"] * 8)
    with pytest.warns(UserWarning, match=r"predict: 2 of 3 texts are empty or too long, and None .* first of them 1"):
        assert fitted.predict(["ein Hund", "", "ein Hund " * 9])[1:] == [None, None]


def test_prompts_that_are_cut_and_unknown_characters_are_said():
    fitted = LanguageModel(**SMALL_TEXT).fit("ab" * 40)
    with pytest.warns(UserWarning, match=r"generate: the prompt is longer .*: the first 4 tokens are left out"):
        fitted.generate("ab" * 4, num_tokens=1)
    with pytest.warns(UserWarning, match=r"score: 2 of 4 tokens \(50%\) are out of vocabulary"):
        fitted.score("abxy")


def test_rows_that_cannot_be_read_are_said():
    molecules = pd.DataFrame({"smiles": ["C" * size for size in range(1, 13)], "bar": np.linspace(1, 9, 12)})
    y = np.arange(12.0)
    fitted = MoleculeRegressor(**LAYERS, molecule_descriptors=False, coverage=0.5).fit(molecules, y)
    bad = pd.DataFrame({"smiles": ["CC", "x", "CCC"], "bar": [2.0, 3.0, 4.0]}, index=["a", "b", "c"])
    for method in ("predict", "predict_interval", "fingerprint"):
        with pytest.warns(UserWarning, match=rf"{method}: 1 of 3 rows cannot be read .* row 1 \(index 'b'\): smiles"):
            getattr(fitted, method)(bad)
    classes = TextClassifier(**SMALL).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match="predict_proba: 1 of 2 rows cannot be read and nothing is predicted there"):
        classes.predict_proba(["a film", ""])


def test_missing_numbers_and_texts_of_unknown_words_are_said():
    molecules = pd.DataFrame({"smiles": ["C" * size for size in range(1, 13)], "bar": np.linspace(1, 9, 12)})
    fitted = MoleculeRegressor(**LAYERS, molecule_descriptors=False).fit(molecules, np.arange(12.0))
    molecules.loc[3, "bar"] = np.nan
    for method in ("predict", "fingerprint"):
        with pytest.warns(UserWarning, match=rf"{method}: 1 row lacks something, .* row 3: .* is missing"):
            getattr(fitted, method)(molecules)
    texts = TextClassifier(**SMALL).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match="predict: 1 row lacks something, .* row 16: no word of it is in"):
        texts.predict([*TEXTS, "unheard"])
    with pytest.warns(UserWarning, match="fingerprint: 1 text has more than|fingerprint: 2 of 2 tokens"):
        texts.fingerprint(["quite unheard"])


def test_few_groups_and_loops_are_said():
    smiles, groups = ["C" * size for size in range(1, 13)], np.arange(12) // 2
    with pytest.warns(UserWarning, match=r"fit: intervals calibrated on 1 group may be far too narrow"):
        MoleculeRegressor(**LAYERS).fit(smiles, np.arange(12.0), groups=groups)
    edges = np.array([(one, two) for one in range(12) for two in range(one) if (one + two) % 3 == 0] + [(3, 3)]).T
    with pytest.warns(UserWarning, match="fit: 1 edge is a self-loop"):
        LinkPredictor(model="gcn", baselines=False, **LAYERS).fit(None, edges=edges)
