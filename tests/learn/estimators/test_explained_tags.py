"""Sentences with tags, explained: every number is what the tagger says when asked directly."""

import numpy as np
import pytest
import torch

from edgewise import DataError, EdgewiseError, SettingError, Trace
from edgewise.explain.rollout import rollout
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.estimators import Tagger
from edgewise.learn.readers.texts.tags import WrittenSentence, chunks_of
from edgewise.learn.tasks.tagging import explainable as explaining
from edgewise.learn.tasks.tagging.explainable import predict_words
from edgewise.learn.tasks.tagging.task import tag
from explain_cases import TAGS, WORDS, explain_sentence, tagger

TEXT = "the film was great ."


def shares(trained, words):
    """The probabilities of the tags of each word of a sentence that is read at once."""
    (piece,) = chunks_of(words, trained.encoder.tokenizer, 1000)
    with torch.no_grad():
        return trained.model(TokenBatch.pack([piece.numbers]))[piece.firsts].double().softmax(-1).numpy()


def by_name(found):
    return {each.name: each for each in found.attributions}


@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_each_word_gets_a_tag(kind, encoder):
    trained, words = tagger(kind, encoder=encoder), TEXT.split()
    found = explain_sentence(trained, TEXT)
    assert [predicted.name for predicted in found.predictions] == ["1 the", "2 film", "3 was", "4 great", "5 ."]
    assert [[predicted.label for predicted in found.predictions]] == tag(trained, [words])
    table = [list(predicted.probabilities.values()) for predicted in found.predictions]
    np.testing.assert_allclose(table, shares(trained, words), atol=1e-6)
    np.testing.assert_allclose(np.sum(table, axis=1), 1)
    assert list(found.predictions[0].probabilities) == list(TAGS)
    assert (found.kind, found.title, found.sources) == ("text", TEXT, {"tokens": TEXT})


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_units_stand_where_they_were_written(kind):
    text = " the  film\twas\n great!"
    found = explain_sentence(tagger(kind), text)
    assert [predicted.name for predicted in found.predictions] == ["1 the", "2 film", "3 was", "4 great!"]
    assert found.sources == {"tokens": text}
    read = [text[unit.start : unit.stop] for unit in found.units]
    assert "".join("".join(read).split()) == "thefilmwasgreat!"
    if kind == "words":
        assert read == [unit.name for unit in found.units] == ["the", "film", "was", "great", "!"]


def test_occlusion_asks_without_the_token_and_hides_the_word_itself():
    trained, words = tagger(), TEXT.split()
    found = explain_sentence(trained, TEXT, target=3, label="I-PER")
    assert found.explained == "3 was = I-PER"
    full = shares(trained, words)[2, 2]
    left = [shares(trained, words[:place] + words[place + 1 :]) for place in range(5)]
    expected = [full - left[place][1 if place < 2 else 2, 2] for place in range(5)]
    expected[2] = full - shares(trained, ["the", "film", "zebra", "great", "."])[2, 2]
    np.testing.assert_allclose(by_name(found)["occlusion"].values, expected, atol=1e-6)
    assert found.notes == ("Occlusion cannot remove the word 3 was itself: <unk> replaces it.",)
    removal = found.faithfulness.removals[0]
    assert removal.deletion[0] == pytest.approx(full, abs=1e-6)
    assert removal.deletion[-1] == pytest.approx(shares(trained, ["zebra"])[0, 2], abs=1e-6)


def test_without_unknown_words_the_word_itself_stays():
    trained = tagger("bpe")
    found = explain_sentence(trained, TEXT, target="was", label="O")
    (piece,) = chunks_of(TEXT.split(), trained.encoder.tokenizer, 100)
    head = piece.firsts[2]
    values = by_name(found)["occlusion"].values
    assert values[head] == 0
    assert np.count_nonzero(values) == len(values) - 1
    assert found.notes == ("Occlusion leaves out the word 3 was itself: nothing can stand in its place.",)
    # Its other tokens go as those of any word: here the last one.
    tail = piece.firsts[3] - 1
    left = {side: np.delete(getattr(piece, side), tail) for side in ("numbers", "starts", "stops")}
    with torch.no_grad():
        scores = trained.model(TokenBatch.pack([left["numbers"]]))[head]
    expected = shares(trained, TEXT.split())[2, 3] - scores.double().softmax(-1)[3].item()
    assert tail > head
    assert values[tail] == pytest.approx(expected, abs=1e-6)


def test_weights_are_those_of_the_prediction():
    trained = tagger()
    found, trace = explain_sentence(trained, TEXT, target=4), Trace()
    (piece,) = chunks_of(TEXT.split(), trained.encoder.tokenizer, 100)
    with torch.no_grad():
        trained.model(TokenBatch.pack([piece.numbers]), trace)
    for layer, weights in zip(found.layers, trace.weights, strict=True):
        table = np.zeros((2, 5, 5))
        table[:, layer.receivers, layer.senders] = layer.values
        np.testing.assert_allclose(table, weights.to_dense(), atol=1e-6)
        np.testing.assert_allclose(table.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(by_name(found)["attention"].values, trace.weights[-1].to_dense().mean(0)[3], atol=1e-6)
    np.testing.assert_allclose(by_name(found)["rollout"].values, rollout(trace).to_dense()[3], atol=1e-6)
    recurrent = explain_sentence(tagger(encoder="gru"), TEXT)
    assert recurrent.layers == ()
    assert recurrent.attributions[0].name == "occlusion"


def test_integrated_gradients_sum_to_the_difference():
    trained = tagger()
    found = explain_sentence(trained, TEXT, target=2, label="B-LOC")
    expected = shares(trained, TEXT.split())[1, 0] - shares(trained, ["zebra"] * 5)[1, 0]
    assert by_name(found)["integrated gradients"].values.sum() == pytest.approx(expected, abs=1e-3)


def test_a_word_is_chosen_by_name_place_or_itself():
    trained, text = tagger(), "the film was the plot"
    asked = {"4 the": "4 the", 4: "4 the", "4": "4 the", "film": "2 film"}
    for target, name in asked.items():
        assert explain_sentence(trained, text, target=target).explained.startswith(f"{name} = ")
    # A number among the words is chosen by its place first.
    assert explain_sentence(trained, "the 1 9", target="1").explained.startswith("1 the = ")
    assert explain_sentence(trained, "the 1 9", target="9").explained.startswith("3 9 = ")


@pytest.mark.parametrize(("tags", "usual", "outside"), [(TAGS, "B-LOC", "O"), (("A", "B", "C", "D"), "B", "B")])
def test_the_first_word_with_a_tag_of_its_own_is_explained(tags, usual, outside):
    trained = tagger(tags=tags, usual=usual)
    for words in (WORDS, WORDS[2:], [WORDS[0]]):
        found = explain_sentence(trained, words)
        own = [predicted for predicted in found.predictions if predicted.label != outside]
        first = (own or found.predictions)[0]
        assert found.explained == f"{first.name} = {first.label}"


REFUSED = [
    ("", {}, DataError, "the sentence is empty"),
    (" \n", {}, DataError, "the sentence is empty"),
    ([], {}, DataError, "the sentence is empty"),
    ("the film", {"target": 3}, SettingError, "target is '3'; expected one of 1 the, 2 film."),
    ("the film", {"target": "0"}, SettingError, "target is '0'; expected one of 1 the, 2 film."),
    ("the film", {"target": "plot"}, SettingError, "target is 'plot'; expected one of"),
    (
        "the the",
        {"target": "the"},
        SettingError,
        "target is 'the', which occurs 2 times; name one of 1 the",
    ),
    ("the film", {"label": "B"}, SettingError, "label is 'B'; the tags are B-LOC, B-PER, I-PER, O."),
    ("the film", {"top": 0}, SettingError, "top is 0; expected at least 1."),
    ("the \xa0", {"target": 2}, SettingError, "nothing that the model can read, and always gets the tag O"),
]


@pytest.mark.parametrize(("sentence", "asked", "error", "message"), REFUSED, ids=str)
def test_what_cannot_be_explained(sentence, asked, error, message):
    with pytest.raises(error, match=message):
        explain_sentence(tagger(), sentence, **asked)


def test_a_word_without_a_token_gets_the_most_frequent_tag():
    (predicted,) = predict_words(tagger(), [WrittenSentence.of("\xa0 film")])
    assert (predicted[0].label, predicted[0].probabilities, predicted[0].value) == ("O", {}, 3.0)
    assert predicted[1].probabilities
    assert explain_sentence(tagger(), "\xa0 film").explained.startswith("2 film = ")
    with pytest.raises(SettingError, match="nothing that the model can read"):
        explain_sentence(tagger(), "\xa0 \xa0")


def test_of_a_long_sentence_the_piece_of_the_word_is_explained():
    trained, words = tagger(context=4), WORDS + WORDS[::-1]
    found = explain_sentence(trained, " ".join(words), target=11, label="O")
    pieces = chunks_of(words, trained.encoder.tokenizer, 4)
    (piece,) = (each for each in pieces if 10 in each.words)
    mine = [words[word] for word in piece.words]
    assert [unit.name for unit in found.units] == mine
    assert [found.sources["tokens"][unit.start : unit.stop] for unit in found.units] == mine
    first, last = piece.words[0], piece.words[-1]
    assert f"the words from {first + 1} {words[first]} to {last + 1} {words[last]}, and only they" in found.notes[0]
    expected = shares(trained, mine)[10 - first, 3]
    assert found.predictions[10].probabilities["O"] == pytest.approx(expected, abs=1e-6)
    assert found.faithfulness.removals[0].deletion[0] == pytest.approx(expected, abs=1e-6)
    assert len(found.predictions) == len(words)


def test_of_many_tags_those_around_the_word_are_shown(monkeypatch):
    monkeypatch.setattr(explaining, "MAX_PREDICTIONS", 4)
    trained, words = tagger(), WORDS * 2
    for target, first in ((1, 1), (9, 7), (18, 15)):
        found = explain_sentence(trained, words, target=target)
        assert [predicted.name.split()[0] for predicted in found.predictions] == [
            str(first + step) for step in range(4)
        ]
        assert f"has 18 words; the tags of the 4 around {target} " in found.notes[0]


def test_the_face_explains_words_and_texts():
    model = Tagger()
    model.trained_ = tagger()
    by_text, by_words = (
        model.explain(TEXT, target=2, label="O", top=1),
        model.explain(TEXT.split(), target=2, label="O"),
    )
    np.testing.assert_array_equal(by_text.attributions[2].values, by_words.attributions[2].values)
    assert (by_text.layers[0].top, by_words.layers[0].top) == (1, None)
    assert by_words.sources == {"tokens": TEXT}
    with pytest.raises(EdgewiseError, match="not fitted yet"):
        Tagger().explain(TEXT)
