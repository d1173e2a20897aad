"""Translations, explained: every number is what the model says when it is asked by hand, token after token."""

import functools
import math

import numpy as np
import pytest
import torch

from edgewise import DataError, EdgewiseError, SettingError, Trace, Translator
from edgewise.explain.rollout import rollout
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.text_settings import BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks import token_explainable
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.token_explainable import index_of_word
from edgewise.learn.tasks.translation.explainable import spans
from edgewise.learn.tasks.translation.settings import SETTINGS
from edgewise.learn.tasks.translation.task import TranslationEncoder, Translations, translate_texts, translated_tokens
from edgewise.learn.training.loader import seed_of
from explain_cases import explain_translation

EXPLAINABLE = "edgewise.learn.tasks.translation.explainable"
TEXT = "a red dog runs"
PAIRS = ["a red dog runs in the snow", "two dogs run", "ein roter Hund läuft im Schnee", "zwei Hunde laufen 🐕"]
KINDS = {
    "transformer": TransformerSettings(2, 2, model_dim=16, hidden_dim=16, context=32),
    "lstm": RecurrentSettings("lstm", num_layers=1, model_dim=16, context=32),
    "looks once": RecurrentSettings("gru", "dot", input_feeding=False, num_layers=1, model_dim=16, context=32),
    "bahdanau": RecurrentSettings("rnn", "bahdanau", num_layers=1, model_dim=16, context=32),
    "local": RecurrentSettings(
        "lstm", local_attention="predictive", local_window=3, num_layers=1, model_dim=16, context=32
    ),
}


@functools.cache
def translation_model(kind="transformer", *, max_length=6, names=("en", "de")):
    """A model that was never trained, with weights large enough to tell sentences apart."""
    tokenizer = Tokenizer.fit(PAIRS * 3, "bpe", 300)
    encoder = TranslationEncoder(tokenizer=tokenizer, num_tokens=len(tokenizer), settings=KINDS[kind])
    output = Translations(names, BeamSettings(2, max_length=max_length))
    trained = Fitted(format=SETTINGS.format, encoder=encoder, output=output)
    torch.manual_seed(seed_of(0))
    model = trained.new_member()
    trained.members.append(model)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                size = 1.0 if kind == "transformer" else 3.0
                parameter.copy_(size * torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return trained


@functools.cache
def explained(kind="transformer", target=None):
    return explain_translation(translation_model(kind), TEXT, target=target)


def by_name(found):
    return {each.name: each for each in found.attributions}


def written(trained, text=TEXT):
    """The predicted tokens of the translation: with the end, where the search did not stop before it."""
    (numbers,) = translated_tokens(trained, [text])
    return [*numbers, *([] if len(numbers) == trained.output.beam.max_length else [trained.encoder.end])]


def likelihoods(trained, source, tokens):
    """ln p of each token given those before it, one step of the search after the other."""
    predicted, before = [], trained.encoder.end
    with torch.no_grad():
        progress = trained.model.begin(torch.tensor([source]), torch.tensor([len(source)]))
        for token in tokens:
            scores = trained.model.next(torch.tensor([before]), progress).double().log_softmax(-1)
            predicted.append(float(scores[0, token]))
            before = token
    return predicted


def sentence(trained, text=TEXT):
    return [*trained.encoder.tokenizer.encode(text).numbers.tolist(), trained.encoder.end]


@pytest.mark.parametrize("kind", KINDS)
def test_the_translation_is_the_one_that_the_model_gives(kind):
    trained = translation_model(kind)
    found = explained(kind)
    (text,) = translate_texts(trained, [TEXT])
    predicted, number = found.predictions
    assert (predicted.name, predicted.label, number.name) == ("translation", text, "mean ln p")
    assert found.sources == {"en": TEXT, "translation": text}
    expected = np.mean(likelihoods(trained, sentence(trained), written(trained)))
    assert predicted.value == number.value == pytest.approx(expected, abs=1e-5)
    assert (found.kind, found.title, found.explained) == ("text", TEXT, "mean ln p of the translation")


def test_units_are_the_tokens_of_both_texts_where_they_stand():
    trained = translation_model()
    found = explained()
    read, predicted = ([unit for unit in found.units if unit.source == source] for source in ("en", "translation"))
    assert found.units == (*read, *predicted)
    assert "".join(unit.name for unit in read) == TEXT + "<end>"
    assert all(TEXT[unit.start : unit.stop] == unit.name for unit in read[:-1])
    assert predicted[0].name == "<begin>"
    assert len(predicted) == 1 + len(written(trained))
    text = found.predictions[0].label
    assert "".join(text[unit.start : unit.stop] for unit in predicted) == text
    assert any("cut after 6 tokens" in note for note in found.notes) == (predicted[-1].name != "<end>")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [None, 2])
def test_occlusion_is_a_difference_of_likelihoods(kind, target):
    trained = translation_model(kind)
    found = explained(kind, target)
    source, tokens = sentence(trained), written(trained)

    def predicted(numbers):
        each = likelihoods(trained, numbers, tokens)
        return np.mean(each) if target is None else math.exp(each[target])

    values = by_name(found)["occlusion"].values
    expected = [predicted(source) - predicted(source[:place] + source[place + 1 :]) for place in range(len(source) - 1)]
    np.testing.assert_allclose(values[: len(source)], [*expected, 0], atol=1e-5)
    assert max(np.abs(expected)) > 1e-3
    for each in found.attributions:
        assert each.values.shape == (len(found.units),)
        assert np.isfinite(each.values[: len(source)]).all()
        assert np.isnan(each.values[len(source) :]).all()
    for removal in found.faithfulness.removals:
        assert removal.deletion[0] == removal.insertion[-1] == pytest.approx(predicted(source), abs=1e-5)
        assert removal.deletion[-1] == removal.insertion[0] == pytest.approx(predicted([trained.encoder.end]), abs=1e-5)


def test_layers_of_a_transformer_are_its_weights():
    trained = translation_model()
    found = explained()
    assert [layer.name for layer in found.layers] == [
        "encoder 1", "encoder 2", "decoder 1", "cross 1", "decoder 2", "cross 2",
    ]  # fmt: skip
    source, tokens = sentence(trained), written(trained)
    reading, writing = Trace(), Trace()
    with torch.no_grad():
        lengths = torch.tensor([len(source)])
        read = trained.model.read(torch.tensor([source]), lengths, trace=reading)
        trained.model.write(torch.tensor([[trained.encoder.end, *tokens[:-1]]]), read, lengths, trace=writing)
    size = len(source)
    for layer, weights in zip(found.layers, [*reading.weights, *writing.weights], strict=True):
        table = np.zeros((2, len(found.units), len(found.units)))
        np.add.at(table, (slice(None), layer.receivers, layer.senders), layer.values)
        kind = layer.name.split()[0]
        rows = slice(0, size) if kind == "encoder" else slice(size + 1, None)
        columns = slice(size, -1) if kind == "decoder" else slice(0, size)
        np.testing.assert_allclose(table[:, rows, columns], weights.to_dense()[0], rtol=1e-5, atol=1e-7)
        assert table.sum() == pytest.approx(table[:, rows, columns].sum())
        np.testing.assert_allclose(table[:, rows].sum(-1), 1, atol=1e-5)
    cross = torch.stack([each.to_dense()[0].mean(0) for each in writing.weights[1::2]]).mean(0)
    np.testing.assert_allclose(by_name(found)["attention"].values[:size], cross.mean(0), atol=1e-6)
    followed = cross.mean(0) @ rollout(reading.weights).to_dense()[0]
    np.testing.assert_allclose(by_name(found)["rollout"].values[:size], followed, atol=1e-6)
    one = explain_translation(trained, TEXT, target=1)
    np.testing.assert_allclose(by_name(one)["attention"].values[:size], cross[1], atol=1e-6)


def test_a_token_attends_to_those_before_it():
    found = explained()
    decoder = found.layers[2]
    assert (decoder.senders < decoder.receivers).all()
    assert found.units[decoder.senders.min()].name == "<begin>"
    assert decoder.receivers.max() == len(found.units) - 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "transformer"])
def test_a_recurrent_model_has_one_cross_layer(kind):
    trained = translation_model(kind)
    found = explained(kind)
    (layer,) = found.layers
    size, steps = len(sentence(trained)), len(written(trained))
    assert (layer.name, len(layer.values), layer.is_readout) == ("cross 1", 1, False)
    sums = np.bincount(layer.receivers, layer.values[0], minlength=len(found.units))
    assert set(layer.receivers.tolist()) == set(range(size + 1, size + 1 + steps))
    assert layer.senders.max() < size
    if kind != "local":  # nearness makes less of far ones
        np.testing.assert_allclose(sums[size + 1 :], 1, atol=1e-5)
    assert "rollout" not in by_name(found)
    table = np.zeros((steps, size))
    table[layer.receivers - size - 1, layer.senders] = layer.values[0]
    np.testing.assert_allclose(by_name(found)["attention"].values[:size], table.mean(0), atol=1e-6)


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
@pytest.mark.parametrize("target", [None, 2])
def test_integrated_gradients_sum_to_the_difference(kind, target):
    trained = translation_model(kind)
    found = by_name(explained(kind, target))
    source, tokens = sentence(trained), written(trained)
    vectors = trained.model.embedding(torch.tensor(source)).detach()
    nothing = vectors[-1:].expand_as(vectors)  # a text of nothing but ends

    def predicted(vectors):
        lengths = torch.tensor([len(source)])
        states = trained.model.read(torch.tensor([source]), lengths, vectors=vectors[None])
        scores = trained.model.write(torch.tensor([[trained.encoder.end, *tokens[:-1]]]), states, lengths).log_softmax(
            -1
        )
        each = scores[0, torch.arange(len(tokens)), torch.tensor(tokens)]
        return each.mean() if target is None else each[target].exp()

    values = found["integrated gradients"].values[: len(source)]
    assert values.sum() == pytest.approx(float((predicted(vectors) - predicted(nothing)).detach()), abs=2e-3)
    assert values[-1] == 0
    vectors.requires_grad_()
    (gradient,) = torch.autograd.grad(predicted(vectors), vectors)
    expected = (gradient * vectors).sum(-1).detach()
    np.testing.assert_allclose(found["gradient × input"].values[: len(source)], expected, atol=1e-5)


def test_a_token_is_named_by_its_place_or_by_itself(monkeypatch):
    trained = translation_model()
    given = trained.encoder.tokenizer.encode("ein roter Hund").numbers.tolist()
    monkeypatch.setattr(f"{EXPLAINABLE}.translated_tokens", lambda trained, texts: [given for _ in texts])
    units = explain_translation(trained, TEXT).units
    names = [unit.name.strip() for unit in units if unit.source == "translation"][1:]
    once = next(place for place, name in enumerate(names) if names.count(name) == 1)
    by_place, by_itself = (explain_translation(trained, TEXT, target=target) for target in (str(once), names[once]))
    assert by_itself.explained == by_place.explained == f"p of {names[once]!r}, token {once} of the translation"
    np.testing.assert_array_equal(by_itself.attributions[0].values, by_place.attributions[0].values)


def test_places_and_tokens_that_there_are_not():
    names = ["ein", " Hund", " 7", " ein", "<end>"]
    for target, place in ((0, 0), ("4", 4), ("Hund", 1), ("3 ein", 3), ("<end>", 4), ("7", 2)):
        assert index_of_word(target, names, 0) == place
    with pytest.raises(SettingError, match="target is 'ein', which occurs 2 times; name one of 0 ein, 3 ein"):
        index_of_word("ein", names, 0)
    with pytest.raises(SettingError, match="target is '8'; expected translation or one of 0 ein, 1 Hund, 2 7"):
        index_of_word("8", names, 0, "translation or ")
    with pytest.raises(SettingError, match="target is '-1'; expected one of 1 ein, 2 Hund"):
        index_of_word(-1, names, 1)
    with pytest.raises(SettingError, match="39 x, …"):
        index_of_word("9" * 5000, ["x"] * 50, 0)


def test_every_byte_has_its_place():
    tokenizer = Tokenizer.fit(["ab"], "bpe", 257)  # bytes, hardly a pair
    for text in ("aäb", "🐕a🐕", "a\ufffdb", ""):
        numbers = tokenizer.encode(text).numbers.tolist()
        found, starts, stops = spans(tokenizer, numbers)
        assert found == text
        assert (starts, stops) == tuple(getattr(tokenizer.encode(text), side).tolist() for side in ("starts", "stops"))
    broken = tokenizer.encode("ä").numbers.tolist()[:1] + tokenizer.encode("b").numbers.tolist()
    assert spans(tokenizer, broken) == ("\ufffdb", [0, 1], [1, 2])


def test_an_empty_translation_is_explained(monkeypatch):
    trained = translation_model("lstm")
    monkeypatch.setattr(f"{EXPLAINABLE}.translated_tokens", lambda trained, texts: [[] for _ in texts])
    found = explain_translation(trained, TEXT)
    assert found.predictions[0].label == "(an empty text)", "an empty label would say that a number is told"
    assert found.sources == {"en": TEXT, "translation": ""}
    assert [unit.name for unit in found.units[-2:]] == ["<begin>", "<end>"]
    assert any("writes its end at once" in note for note in found.notes)


def test_sentences_are_parts():
    trained = translation_model("lstm")
    text = "a dog runs. two dogs run."
    found = explain_translation(trained, text)
    assert [part.name for part in found.parts] == ["a dog runs.", "two dogs run."]
    source, tokens = sentence(trained, text), written(trained, text)
    kept = [number for place, number in enumerate(source) if place not in found.parts[0].units]
    expected = np.mean(likelihoods(trained, source, tokens)) - np.mean(likelihoods(trained, kept, tokens))
    assert found.parts[0].effect == pytest.approx(expected, abs=1e-5)
    assert explain_translation(trained, TEXT).parts == ()


def test_long_sentences_keep_the_strongest_weights_and_are_occluded_in_chunks(monkeypatch):
    trained = translation_model()
    whole = explain_translation(trained, "dogs " * 8)
    monkeypatch.setattr(token_explainable, "MAX_RECORDED", 10)
    monkeypatch.setattr(token_explainable, "MAX_SHOWN", 10)
    monkeypatch.setattr(token_explainable, "TOP", 2)
    monkeypatch.setattr(token_explainable, "MAX_GROUPS", 4)
    monkeypatch.setattr(token_explainable, "MIN_GROUPS", 4)
    monkeypatch.setattr(token_explainable, "BATCH_SIZE", 40)
    found = explain_translation(trained, "dogs " * 8)
    assert {layer.top for layer in found.layers} == {2}
    assert "rollout" not in by_name(found)
    np.testing.assert_allclose(by_name(found)["attention"].values, by_name(whole)["attention"].values, atol=1e-6)
    assert any("4 runs of neighboring tokens" in note for note in found.notes)
    assert any("only the 2 strongest weights" in note for note in found.notes)
    assert any("not followed through the encoder" in note for note in found.notes)
    assert explain_translation(trained, TEXT, top=1).layers[-1].top == 1


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (" \n", {}, DataError, "^en: the text is empty"),
        (
            "dog " * 40,
            {},
            DataError,
            r"^en: the text is too long: \d+ tokens, of which the model reads 31; translate it",
        ),
        (TEXT, {"target": "cat"}, SettingError, "target is 'cat'; expected translation, or of its tokens one of 0 "),
        (TEXT, {"target": 99}, SettingError, "target is '99'; expected translation, or of its tokens one of 0 "),
        (TEXT, {"top": 0}, SettingError, "top is 0; expected at least 1"),
    ],
)
def test_what_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        explain_translation(translation_model(), given, **options)


@pytest.fixture(scope="module", params=[{"model": "lstm"}, {"num_heads": 2}], ids=["lstm", "transformer"])
def learned(request):
    small = {"num_layers": 1, "model_dim": 16, "dropout": 0.0, "vocabulary_size": 300, "threads": 1, "device": "cpu"}
    model = Translator(**small, **request.param, context=32, epochs=1, max_length=5)
    return model.fit(PAIRS[:2] * 4, PAIRS[2:] * 4)


def test_what_a_translator_explains_is_what_it_predicts(learned, tmp_path):
    found = learned.explain(TEXT)
    assert [found.predictions[0].label] == [text or "(an empty text)" for text in learned.predict([TEXT])]
    learned.save(tmp_path / "run")
    explainer = Explainer.open(tmp_path / "run")
    assert (explainer.kind, explainer.fields) == ("text", [{"name": "source", "type": "text"}])
    again = explainer.explain({"source": TEXT})
    assert again.predictions[0].label == found.predictions[0].label
    np.testing.assert_allclose(again.attributions[1].values, found.attributions[1].values, atol=1e-6)
    predicted = explainer.predict([{"source": TEXT}, {"source": "two dogs"}])
    written = learned.predict([TEXT, "two dogs"])
    assert [each[0].label for each in predicted] == [text or "(an empty text)" for text in written]
    assert predicted[0][0].value == pytest.approx(found.predictions[0].value, abs=1e-6)
    facts = explainer.facts
    assert (facts["task"], facts["targets"], facts["open"]) == ("translation", ["translation"], ["target"])
    assert facts["model"] == ("lstm" if learned.get_params()["model"] == "lstm" else "transformer")
    assert explainer.unread({"source": TEXT}) == ""
    assert explainer.unread({"source": "dog " * 40}).endswith(" tokens, of which the model reads 31")
    with pytest.raises(DataError, match=r"^row 1: source: the text is too long"):
        explainer.predict([{"source": TEXT}, {"source": "dog " * 40}])
    with pytest.raises(SettingError, match="label is 'x', but a translation has no classes; leave it out"):
        explainer.explain({"source": TEXT}, label="x")


def test_before_it_is_fitted():
    with pytest.raises(EdgewiseError, match="this Translator is not fitted yet"):
        Translator().explain(TEXT)


def test_a_column_that_is_called_translation():
    found = explain_translation(translation_model(names=("translation", "de")), TEXT)
    assert list(found.sources) == ["translation", "translation of it"]
