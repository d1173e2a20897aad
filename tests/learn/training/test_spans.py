"""Spans and their scores: cases worked by hand, seqeval itself, and plain tags."""

import random
import warnings

import pytest

from edgewise.learn.training.spans import UsualTags, marks_spans, spans_of, tag_scores

BY_HAND = [
    ("O O", set()),
    ("", set()),
    ("B-X I-X O", {("X", 0, 2)}),
    ("O I-X I-X", {("X", 1, 3)}),  # IOB1: I behind O begins a span, which ends with the sentence
    ("I-X B-X I-X", {("X", 0, 1), ("X", 1, 3)}),  # IOB1: B parts two spans of one type
    ("B-X B-X", {("X", 0, 1), ("X", 1, 2)}),
    ("B-Y I-X I-X", {("Y", 0, 1), ("X", 1, 3)}),  # another type goes on: another span
    ("B-X O I-X", {("X", 0, 1), ("X", 2, 3)}),
    ("B-X I-X E-X S-X O", {("X", 0, 3), ("X", 3, 4)}),
    ("S-X S-X", {("X", 0, 1), ("X", 1, 2)}),
    ("E-X I-X E-X", {("X", 0, 1), ("X", 1, 3)}),  # E behind nothing is a span of its own
    ("S-X I-X", {("X", 0, 1), ("X", 1, 2)}),
    ("B-a-b I-a-b I-a", {("a-b", 0, 2), ("a", 2, 3)}),  # a type may hold the sign
    ("B B I", {("_", 0, 1), ("_", 1, 3)}),  # no type is a type
]


@pytest.mark.parametrize(("tags", "expected"), BY_HAND)
def test_spans_by_hand(tags, expected):
    assert spans_of(tags.split()) == expected


def random_tags(generator, signs):
    kinds = ["O", *(f"{sign}-{kind}" for sign in signs for kind in ("X", "Y", "Z"))]
    return [generator.choices(kinds, k=generator.randint(1, 12)) for _ in range(40)]


@pytest.mark.parametrize("signs", ["BI", "BIES"])
@pytest.mark.parametrize("seed", range(5))
def test_the_scores_are_those_of_seqeval(signs, seed):
    seqeval = pytest.importorskip("seqeval.metrics")
    generator = random.Random(seed)
    truths = random_tags(generator, signs)
    found = [[tag if generator.random() < 0.7 else generator.choice(tags) for tag in tags] for tags in truths]
    scores = tag_scores(truths, found, spans=True)
    entities = sorted(
        (kind, sentence, start, stop) for sentence, tags in enumerate(truths) for kind, start, stop in spans_of(tags)
    )
    expected = sorted(
        (kind, sentence, start, stop + 1)
        for sentence, tags in enumerate(truths)
        for kind, start, stop in seqeval.sequence_labeling.get_entities(tags)
    )
    assert entities == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where it divides by zero
        report = seqeval.classification_report(truths, found, output_dict=True)
        assert scores["f1"] == pytest.approx(seqeval.f1_score(truths, found))
        assert scores["precision"] == pytest.approx(seqeval.precision_score(truths, found))
        assert scores["recall"] == pytest.approx(seqeval.recall_score(truths, found))
        assert scores["accuracy"] == pytest.approx(seqeval.accuracy_score(truths, found))
    for kind, of in scores["types"].items():
        assert of["f1"] == pytest.approx(report[kind]["f1-score"])
        assert of["precision"] == pytest.approx(report[kind]["precision"])
        assert of["recall"] == pytest.approx(report[kind]["recall"])
        assert of["support"] == report[kind]["support"]


def test_scores_by_hand():
    truths = [["B-X", "I-X", "O", "B-Y"], ["O", "B-X"]]
    found = [["B-X", "I-X", "O", "B-X"], ["O", "O"]]
    scores = tag_scores(truths, found, spans=True)
    assert (scores["num_sentences"], scores["num_words"], scores["num_spans"]) == (2, 6, 3)
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert (scores["precision"], scores["recall"]) == (1 / 2, pytest.approx(1 / 3))
    assert scores["f1"] == pytest.approx(0.4)
    assert scores["types"]["X"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert scores["types"]["Y"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}


def test_tags_without_spans():
    scores = tag_scores([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]], spans=False)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["f1_macro"] == pytest.approx((1 + 0 + 2 / 3) / 3)
    assert "f1" not in scores
    assert tag_scores([], [], spans=False)["accuracy"] is None


@pytest.mark.parametrize(
    ("tags", "expected"),
    [(["O", "I-X"], True), (["O", "S-X"], True), (["DET", "NOUN", "-LRB-"], False), (["O"], False), (["B-"], False)],
)
def test_which_tags_mark_spans(tags, expected):
    assert marks_spans(tags) is expected


def test_usual_tags():
    usual = UsualTags([["a", "b", "a"], ["a", "c"]], [["X", "O", "Y"], ["Y", "O"]])
    assert usual.tag([["a", "b", "new"], []]) == [["Y", "O", "O"], []]
    assert usual.usual == "O"  # as frequent as Y, and before it
