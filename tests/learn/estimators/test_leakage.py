"""Data leakage between splits: by hand, against all pairs, and in messages."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.learn.tasks.report.leakage import (
    MIN_SHARED,
    SplitContents,
    leakage,
    molecule_contents,
    near_texts,
    normalized,
    text_contents,
)
from edgewise.learn.tasks.report.sections import leakage_section, leakage_warnings


def test_equal_contents_by_hand():
    rows = {"train": [4, 0, 2], "val": [1], "test": [3, 5, 6]}
    contents = {"train": ["a", "b", "a"], "val": ["c"], "test": ["a", "c", "b"]}
    found = leakage(SplitContents("graphs", rows, contents))
    assert found == {
        "unit": "graphs",
        "least": 1.0,
        "about": "",
        "validation": {"rows": 1, "same": 0, "examples": []},
        "test": {
            "rows": 3,
            "same": 2,
            "examples": [{"row": 3, "training_row": 4}, {"row": 6, "training_row": 0}],
        },
    }
    assert leakage(SplitContents("graphs", {"train": [1]}, {"train": ["a"]})).keys() == {"unit", "least", "about"}


def test_molecules_that_are_the_same_and_nearly_so():
    pytest.importorskip("rdkit")
    chain = "C" * 14
    contents = {"train": [("CCO",), (f"{chain}O",)], "val": [], "test": [("CCO",), (f"{chain}CO",), ("c1ccccc1",)]}
    found = leakage(molecule_contents("molecules", {"train": [0, 1], "val": [], "test": [2, 3, 4]}, contents, list))
    assert "validation" not in found
    test = found["test"]
    assert (test["rows"], test["same"], test["near"], test["compared"]) == (3, 1, 1, 2)
    assert test["examples"] == [{"row": 2, "training_row": 0}, {"row": 3, "training_row": 1, "similarity": 1.0}]
    cautions = [each.text for each in leakage_warnings({"leakage": found})]
    assert cautions == [
        "Data leakage: 1 of 3 test rows contain molecules that are also in the training set, so this score measures "
        "interpolation.",
        "1 of 2 other test rows hold molecules nearly the same as training rows (Tanimoto similarity of Morgan "
        "fingerprints of 0.95 or more).",
    ]
    alone = {"rows": 400, "same": 0, "near": 4}
    for compared, subject in ((400, "400 test rows"), (300, "300 test rows that were compared")):
        (caution,) = leakage_warnings({"leakage": {**found, "test": {**alone, "compared": compared}}})
        assert caution.text.startswith(f"4 of {subject} hold molecules nearly the same as training rows (Tanimoto")
    few = {**found, "test": {"rows": 1821, "same": 2}}
    assert [each.text for each in leakage_warnings({"leakage": few})] == [
        "2 of 1,821 test rows contain molecules that are also in the training set, 0.11%, which moves this score by "
        "little."
    ]
    table, examples = leakage_section({"leakage": json.loads(json.dumps(found))})
    assert table.rows == [["test", "3", "1", "1 of 2"]]
    assert examples.rows == [["test", "2", "0", "1"], ["test", "3", "1", "1"]]


def test_the_nearest_molecule_is_the_one_that_is_named():
    pytest.importorskip("rdkit")
    from edgewise.learn.readers.molecules.similarity import nearest, similarity

    known = ["CCO", "c1ccccc1", "CCO", "CCCCN"]
    values, places = nearest(["CCCN", "c1ccccc1C", "CCO"], known)
    np.testing.assert_array_equal(values, similarity(["CCCN", "c1ccccc1C", "CCO"], known))
    assert places.tolist() == [3, 1, 0]


def test_texts_are_the_same_whatever_their_case_and_signs():
    assert normalized("  Hello,\nWORLD! ") == "hello world"
    assert normalized("?!") == "?!"
    assert normalized("cafe\u0301") == normalized("Caf\u00e9")
    words = "one two three four five six seven eight nine ten eleven twelve"
    texts = {"train": ["It is good.", words], "val": ["it IS good"], "test": [f"{words}!", f"{words} extra", "other"]}
    found = leakage(text_contents("texts", {"train": [0, 1], "val": [2], "test": [3, 4, 5]}, texts))
    assert found["validation"]["same"] == 1
    test = found["test"]
    assert (test["same"], test["near"], test["compared"]) == (1, 1, 2)
    assert test["examples"][1] == {"row": 4, "training_row": 1, "similarity": round(12 / 13, 4)}


@given(st.lists(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=24), min_size=2, max_size=12), st.integers(1, 6))
def test_the_prefix_filter_finds_what_all_pairs_find(drawn, cut):
    texts = [" ".join(words) for words in drawn]
    asked, known = texts[: min(cut, len(texts) - 1)], texts[min(cut, len(texts) - 1) :]
    values, places = near_texts(asked, known)
    for text, value, place in zip(asked, values, places, strict=True):
        one, ratios = set(text.split()), []
        for other in known:
            two = set(other.split())
            ratios.append(len(one & two) / len(one | two) if one | two else 0.0)
        best = max(ratios)
        assert value == (best if best >= MIN_SHARED else 0)
        assert (place == -1) == (best < MIN_SHARED)
        if place >= 0:
            assert ratios[place] == best


def test_near_texts_are_found_among_many_that_share_their_rarest_word():
    """After a hundred training texts with the rarest word of a text, the others were passed over, nearest or not."""
    texts = [f"rare {number} a b c d e f g h i" for number in range(300)]
    values, places = near_texts(["rare i h g f e d c b a"], [*texts, "a b c d e f g h i rare"])
    assert (values.tolist(), places.tolist()) == ([1.0], [300])
    values, places = near_texts(["rare 250 i h g f e d c b a"], texts)
    assert (values.tolist(), places.tolist()) == ([1.0], [250])


def test_many_rows_are_chosen_evenly(monkeypatch):
    from edgewise.learn.tasks.report import leakage as module

    monkeypatch.setattr(module, "MAX_QUERIED", 3)
    asked = []

    def near(some, known):
        asked.extend(some)
        return np.zeros(len(some)), np.full(len(some), -1)

    contents = {"train": [-1], "test": list(range(9))}
    found = leakage(SplitContents("texts", {"train": [0], "test": list(range(1, 10))}, contents, near, 0.9, "words"))
    assert asked == [0, 4, 8]
    assert found["test"] == {"rows": 9, "same": 0, "near": 0, "compared": 3, "examples": []}
