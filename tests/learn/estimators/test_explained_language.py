"""Prompts, explained: every number is what the model says when asked directly."""

import math

import numpy as np
import pytest
import torch

from edgewise import EdgewiseError, SettingError, Trace
from edgewise.explain.rollout import rollout
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.estimators import LanguageModel
from edgewise.learn.networks.text_settings import SamplingSettings
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks import token_explainable
from edgewise.learn.tasks.language.explainable import EXPLAINABLE
from edgewise.learn.tasks.language.task import generate_text
from explain_cases import SONG, explain_prompt, language_model

TEXT = "the dog sat on\nthe"


def share(trained, numbers, number):
    """The probability of one token after others, by the whole table of scores of a text that stands alone."""
    with torch.no_grad():
        scores = trained.model(TokenBatch(torch.from_numpy(np.array(numbers))[None]))[0, -1].double()
    scores[trained.output.never_written(trained.encoder.tokenizer)] = -math.inf
    return scores.softmax(-1)[number].item()


def numbers_of(trained, prompt):
    """The tokens of a prompt."""
    return trained.encoder.prompt_tokens(prompt).numbers


def by_name(found):
    return {each.name: each for each in found.attributions}


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_units_are_the_tokens_and_the_next_one_is_predicted(kind):
    trained = language_model(kind)
    found = explain_prompt(trained, TEXT)
    tokens = trained.encoder.prompt_tokens(TEXT)
    assert (found.kind, found.title, found.sources) == ("text", "the dog sat on the", {"text": TEXT})
    assert [(unit.start, unit.stop) for unit in found.units] == list(zip(tokens.starts, tokens.stops))
    (predicted,) = found.predictions
    assert (predicted.name, found.explained) == ("next token", f"next token = {predicted.label}")
    assert next(iter(predicted.probabilities)) == predicted.label
    assert list(predicted.probabilities.values()) == sorted(predicted.probabilities.values(), reverse=True)
    assert predicted.probabilities[predicted.label] == pytest.approx(
        share(trained, tokens.numbers, int(predicted.value)), abs=1e-6
    )
    assert predicted.std == pytest.approx(
        math.sqrt(math.prod((predicted.probabilities[predicted.label], 1 - predicted.probabilities[predicted.label])))
    )


def test_signs_stand_for_what_cannot_be_seen():
    found = explain_prompt(language_model(), TEXT)
    assert "".join(unit.name for unit in found.units) == "the␣dog␣sat␣on⏎the"
    pairs = Tokenizer.fit(["be to be to be to"], "bpe", 270)
    names = [pairs.written(number) for number in pairs.encode(" to é").numbers.tolist()]
    assert names == ["␣to", "␣", "bytes c3", "bytes a9"]
    assert pairs.written(pairs.end) == "<end>"
    assert Tokenizer.fit(["a\u200b"], "characters").written(3) == "\\u200b"


def test_probabilities_sum_to_one_and_tokens_that_are_never_generated_are_not_listed():
    trained = language_model(learned="abc")
    predicted = explain_prompt(trained, "abcab").predictions[0]
    assert set(predicted.probabilities) == {"a", "b", "c"}
    assert sum(predicted.probabilities.values()) == pytest.approx(1, abs=1e-6)
    ends = explain_prompt(language_model(learned="abc", has_end=True), "abcab").predictions[0]
    assert set(ends.probabilities) == {"a", "b", "c", "<end>"}


@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_the_predicted_token_is_the_one_that_is_written(position):
    trained = language_model(position=position)
    for size in (1, 7, len(SONG)):
        (written,) = generate_text(trained, SONG[:size], SamplingSettings(num_tokens=1, temperature=0))
        (number,) = numbers_of(trained, written)
        label = explain_prompt(trained, SONG[:size]).predictions[0].label
        assert trained.encoder.tokenizer.written(int(number)) == label


def test_weights_are_those_of_the_prediction_and_causal():
    trained = language_model()
    found = explain_prompt(trained, TEXT)
    trace = Trace()
    with torch.no_grad():
        trained.model(TokenBatch(torch.from_numpy(numbers_of(trained, TEXT))), trace)
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2"]
    for layer, weights in zip(found.layers, trace.weights, strict=True):
        assert (layer.senders <= layer.receivers).all()
        assert not layer.is_readout
        table = np.zeros((2, len(TEXT), len(TEXT)))
        table[:, layer.receivers, layer.senders] = layer.values
        np.testing.assert_allclose(table.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(table, weights.to_dense(), atol=1e-6)
    last = trace.weights[-1].to_dense().mean(0)[-1]
    np.testing.assert_allclose(by_name(found)["attention"].values, last, atol=1e-6)
    heard = rollout(trace).to_dense()[-1]
    np.testing.assert_allclose(by_name(found)["rollout"].values, heard, atol=1e-6)
    assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
@pytest.mark.parametrize("settings", [{}, {"position": "learned"}, {"position": "alibi", "window": 4}], ids=str)
def test_occlusion_asks_without_the_token(kind, settings):
    trained = language_model(kind, **settings)
    found = explain_prompt(trained, "the dog sat on")
    numbers, number = numbers_of(trained, "the dog sat on"), int(found.predictions[0].value)
    full = share(trained, numbers, number)
    expected = [full - share(trained, np.delete(numbers, place), number) for place in range(len(numbers))]
    np.testing.assert_allclose(by_name(found)["occlusion"].values, expected, atol=1e-6)


def test_integrated_gradients_sum_to_the_difference():
    trained = language_model(position="none")
    numbers = numbers_of(trained, "the mat")
    found = explain_prompt(trained, "the mat", label="t")
    (number,) = numbers_of(trained, "t")
    # The way begins at a text of nothing but what the vocabulary lacks.
    nothing = share(trained, [trained.encoder.tokenizer.unknown] * len(numbers), number)
    values = by_name(found)["integrated gradients"].values
    assert values.sum() == pytest.approx(share(trained, numbers, number) - nothing, abs=1e-3)
    assert found.explained == "next token = t"


def test_faithfulness_begins_with_all_and_ends_with_nothing():
    trained = language_model()
    found = explain_prompt(trained, "the mat")
    number = int(found.predictions[0].value)
    for removal in found.faithfulness.removals:
        assert removal.deletion[0] == pytest.approx(share(trained, numbers_of(trained, "the mat"), number), abs=1e-6)
        nothing = share(trained, [trained.encoder.tokenizer.unknown], number)
        assert removal.deletion[-1] == pytest.approx(nothing, abs=1e-6)
    assert any("reads <unk>, which was not in its training" in note for note in found.notes)
    # Where texts have ends, one that is left empty begins anew.
    ending = language_model(has_end=True)
    found = explain_prompt(ending, "the mat")
    expected = share(ending, [ending.encoder.tokenizer.end], int(found.predictions[0].value))
    assert found.faithfulness.removals[0].deletion[-1] == pytest.approx(expected, abs=1e-6)
    assert found.notes == ()


def test_sentences_are_taken_away_whole():
    trained = language_model()
    found = explain_prompt(trained, "the cat sat.\nthe dog")
    assert [(part.name, part.kind) for part in found.parts] == [("the cat sat.", "sentence"), ("the dog", "sentence")]
    number = int(found.predictions[0].value)
    whole, first = (numbers_of(trained, text) for text in ("the cat sat.\nthe dog", "the cat sat.\n"))
    expected = share(trained, whole, number) - share(trained, first, number)
    assert found.parts[1].effect == pytest.approx(expected, abs=1e-6)


def test_another_token_is_named_by_its_text_or_its_sign():
    trained = language_model("bpe")
    for label in (" ", "␣"):
        assert explain_prompt(trained, TEXT, label=label).explained == "next token = ␣"
    assert explain_prompt(trained, TEXT, label="\n").explained == "next token = ⏎"
    assert explain_prompt(trained, TEXT, label="bytes c3").explained == "next token = bytes c3"
    predicted = explain_prompt(trained, TEXT, label="bytes c3").predictions[0]
    assert len(predicted.probabilities) == 11  # beside the ten most probable
    number = trained.encoder.tokenizer.encode("é").numbers[0]
    expected = share(trained, numbers_of(trained, TEXT), number)
    assert predicted.probabilities["bytes c3"] == pytest.approx(expected, abs=1e-6)


REFUSED = [
    ({"prompt": ""}, "the prompt is empty"),
    ({"prompt": "the XY"}, "characters that the model has never seen: 'X', 'Y'; leave them out"),
    ({"label": "the"}, "label is 'the', which is 3 tokens; name one token that the model can write, such as "),
    ({"label": "é"}, "label is 'é', which is none; name one token"),
    ({"label": "<unk>"}, "label is '<unk>', which is none"),
    ({"label": ""}, "label is '', which is none"),
    ({"target": "text"}, "target is 'text'; the model predicts next token."),
    ({"top": 0}, "top is 0; expected at least 1."),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=str)
def test_what_cannot_be_explained(asked, message):
    with pytest.raises(SettingError, match=message):
        explain_prompt(language_model(), **{"prompt": TEXT, **asked})


@pytest.mark.parametrize("is_learned", [True, False])
def test_of_a_long_text_the_end_is_read(monkeypatch, is_learned):
    trained, text = language_model(position="learned", context=8) if is_learned else language_model(), SONG[:20]
    monkeypatch.setattr("edgewise.learn.tasks.language.explainable.MAX_READ", 4096 if is_learned else 8)
    found = explain_prompt(trained, text)
    assert "has 20 tokens; the last 8 are read, and only they are explained" in found.notes[0]
    assert [(unit.start, unit.stop) for unit in found.units] == [(place, place + 1) for place in range(12, 20)]
    short = explain_prompt(trained, text[12:])
    assert found.predictions[0].probabilities == short.predictions[0].probabilities
    subject = EXPLAINABLE.of(trained)
    assert subject.unread((text,)) == "20 tokens, of which the last 8 are read"
    assert subject.unread((text[:8],)) == ""


def test_of_a_long_text_the_strongest_weights_are_kept(monkeypatch):
    trained = language_model()
    whole = explain_prompt(trained, SONG)
    monkeypatch.setattr(token_explainable, "MAX_RECORDED", 20)
    monkeypatch.setattr(token_explainable, "MAX_SHOWN", 10)
    monkeypatch.setattr(token_explainable, "TOP", 3)
    monkeypatch.setattr(token_explainable, "MAX_GROUPS", 16)
    found = explain_prompt(trained, SONG)
    assert [layer.top for layer in found.layers] == [3, 3]
    assert "rollout" not in by_name(found)
    # The last token's own weights are whole all the same.
    np.testing.assert_allclose(by_name(found)["attention"].values, by_name(whole)["attention"].values, atol=1e-6)
    assert any("16 runs of neighboring tokens" in note for note in found.notes)
    assert found.predictions[0].probabilities == whole.predictions[0].probabilities


def test_prompts_in_a_batch_are_predicted_as_alone(monkeypatch):
    trained, texts = language_model(), ["t", SONG, "the cat", "at"]
    alone = [EXPLAINABLE.of(trained).predict([(text,)])[0][0] for text in texts]
    for most in (2**15, 9):
        monkeypatch.setattr("edgewise.learn.tasks.token_explainable.BATCH_SIZE", most)
        for (one,), other in zip(EXPLAINABLE.of(trained).predict([(text,) for text in texts]), alone, strict=True):
            assert one.label == other.label
            assert list(one.probabilities.values()) == pytest.approx(list(other.probabilities.values()), abs=1e-6)


def test_a_space_is_a_text_where_it_is_a_token():
    assert explain_prompt(language_model(), " ").units[0].name == "␣"
    assert EXPLAINABLE.of(language_model()).reads_spaces
    assert not EXPLAINABLE.of(language_model("words")).reads_spaces


def test_the_face_explains():
    model = LanguageModel()
    model.trained_ = language_model()
    found, expected = model.explain(TEXT, label="a", top=2), explain_prompt(model.trained_, TEXT, label="a", top=2)
    assert found.to_json() == expected.to_json()
    assert found.layers[0].top == 2
    with pytest.raises(EdgewiseError, match="not fitted yet"):
        LanguageModel().explain(TEXT)
