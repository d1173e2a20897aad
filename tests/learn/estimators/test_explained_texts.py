"""Texts, explained: every number is what the model says when asked directly."""

import numpy as np
import pytest
import torch

from edgewise import DataError, SettingError, TextClassifier, Trace
from edgewise.explain.rollout import rollout
from edgewise.learn.companions.stack import NETWORK_COPIES
from edgewise.learn.readers.texts.data import texts_from_arrays
from edgewise.learn.tasks import token_explainable
from edgewise.learn.tasks.token_explainable import shortened
from explain_cases import WORDS, explain_text, text_model

TEXT = "The film was great. the plot awful!"


def predicted(trained, texts, target=0, label=None):
    """The prediction of the model for a row, by its public interface."""
    table = texts_from_arrays(np.array([texts], dtype=object))
    each = trained.predict(table)[target]
    return each.value[0] if each.probabilities is None else each.probabilities[0, label]


def by_name(found):
    return {each.name: each for each in found.attributions}


def test_units_are_the_tokens_where_they_stand():
    found = explain_text(text_model(), TEXT)
    names = [unit.name for unit in found.units]
    assert names == ["The", "film", "was", "great", ".", "the", "plot", "awful", "!", "<end>"]
    assert [TEXT[unit.start : unit.stop] for unit in found.units] == [*names[:-1], ""]
    assert {unit.source for unit in found.units} == {"text"}
    assert (found.kind, found.title, found.sources) == ("text", TEXT, {"text": TEXT})
    assert found.notes == ("1 token is out of vocabulary and is read as the unknown token.",)
    assert found.to_json()["units"][3] == {"name": "great", "source": "text", "start": 13, "stop": 18}


@pytest.mark.parametrize("num_key_heads", [None, 1])
def test_weights_are_those_of_the_prediction(num_key_heads):
    trained = text_model(num_key_heads=num_key_heads)
    found = explain_text(trained, TEXT)
    trace = Trace()
    with torch.no_grad():
        logits = trained.members[0](trained.batches(texts_from_arrays([TEXT])).batch(np.array([0])), trace)
    assert found.predictions[0].probabilities["good"] == pytest.approx(torch.sigmoid(logits).item(), abs=1e-6)
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2", "readout"]
    for layer, weights in zip(found.layers, trace.weights, strict=True):
        np.testing.assert_allclose(layer.values, weights.values, rtol=1e-6)
        np.testing.assert_array_equal(layer.senders, weights.senders)
        np.testing.assert_array_equal(layer.receivers, weights.receivers)
    readout = trace.weights[-1].values.mean(0)
    np.testing.assert_allclose(by_name(found)["attention"].values, readout, rtol=1e-5)
    expected = readout @ rollout(trace.weights[:-1]).to_dense()
    np.testing.assert_allclose(by_name(found)["rollout"].values, expected, rtol=1e-5)
    assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("task", ["regression", "classification", "multiclass"])
@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_occlusion_asks_without_the_token(task, encoder):
    trained, words = text_model(task=task, encoder=encoder, members=2), ["the", "film", "was", "great"]
    label = {"regression": None, "classification": "bad", "multiclass": "so"}[task]
    found = explain_text(trained, " ".join(words), label=label)
    place = {"regression": None, "classification": 0, "multiclass": 2}[task]
    full = predicted(trained, [" ".join(words)], label=place)
    expected = [full - predicted(trained, [" ".join(words[:n] + words[n + 1 :])], label=place) for n in range(4)]
    np.testing.assert_allclose(by_name(found)["occlusion"].values, [*expected, 0], atol=1e-6)
    assert found.explained == ("target" if label is None else f"target = {label}")
    assert found.predictions[0].value == full if label is None else found.predictions[0].probabilities[label] == full
    assert "first of 2 models" in found.notes[-1]


def test_integrated_gradients_sum_to_the_difference():
    trained = text_model(task="regression", members=2)
    found = explain_text(trained, "the film was great")
    # The way begins at a text of hidden tokens, and the end of the text is no part of it.
    hidden = "zebra zebra zebra zebra"
    difference = predicted(trained, ["the film was great"]) - predicted(trained, [hidden])
    values = by_name(found)["integrated gradients"].values
    assert values.sum() == pytest.approx(difference, abs=1e-4)
    assert values[-1] == 0
    assert by_name(found)["gradient × input"].values.shape == (5,)


def test_sentences_and_columns():
    trained = text_model(columns=2)
    texts = ("the film was great. the plot awful!", "a film")
    found = explain_text(trained, texts)
    parts = [(part.name, part.kind, part.units) for part in found.parts]
    assert parts == [
        ("the film was great.", "sentence", (0, 1, 2, 3, 4)),
        ("the plot awful!", "sentence", (5, 6, 7, 8)),
        ("a film", "sentence", (10, 11)),
        ("text_1", "column", tuple(range(9))),
        ("text_2", "column", (10, 11)),
    ]
    label = int(found.predictions[0].value)
    assert found.parts[0].effect == pytest.approx(
        predicted(trained, texts, label=label) - predicted(trained, ["the plot awful!", "a film"], label=label),
        abs=1e-6,
    )
    assert [unit.source for unit in found.units] == ["text_1"] * 10 + ["text_2"] * 3
    assert explain_text(text_model(), "the film").parts == ()


def test_faithfulness_begins_and_ends_where_it_must():
    trained = text_model(task="regression")
    found = explain_text(trained, "the film was great").faithfulness
    assert [removal.method for removal in found.removals] == [
        "occlusion",
        "integrated gradients",
        "gradient × input",
        "attention",
        "rollout",
        "random",
    ]
    full = predicted(trained, ["the film was great"])
    for removal in found.removals:
        assert removal.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
        assert removal.deletion[0] == removal.insertion[-1] == pytest.approx(full, abs=1e-6)
    assert set(found.agreement) == {"attention", "rollout", "integrated gradients", "gradient × input"}


@pytest.mark.parametrize("readout", ["mean", "sum", "max"])
def test_without_attention_in_the_readout(readout):
    found = explain_text(text_model(readout=readout), TEXT)
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2"]
    assert "attention" not in by_name(found)
    assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)
    recurrent = explain_text(text_model(readout=readout, encoder="gru"), TEXT)
    assert recurrent.layers == ()
    assert recurrent.attributions[0].name == "occlusion"


def test_long_texts_keep_the_strongest_weights_and_are_occluded_in_chunks(monkeypatch):
    trained, text = text_model(context=40), " ".join(WORDS * 5)
    whole = explain_text(trained, text)
    assert "has 46 tokens; the model reads the first 40" in whole.notes[0]
    assert len(whole.units) == 40
    monkeypatch.setattr(token_explainable, "MAX_RECORDED", 20)
    monkeypatch.setattr(token_explainable, "MAX_SHOWN", 10)
    monkeypatch.setattr(token_explainable, "TOP", 3)
    monkeypatch.setattr(token_explainable, "MAX_GROUPS", 16)
    found = explain_text(trained, text)
    assert [layer.top for layer in found.layers] == [3, 3, None]
    assert "rollout" not in by_name(found)
    assert found.layers[0].values.shape[1] <= 40 * 2 * 3
    # The readout is whole all the same, and what is kept is what stood there.
    np.testing.assert_allclose(by_name(found)["attention"].values, by_name(whole)["attention"].values, rtol=1e-5)
    table = {(s, r): v for s, r, v in zip(*(getattr(whole.layers[0], n).tolist() for n in ("senders", "receivers")),
                                          whole.layers[0].values[0].tolist(), strict=True)}  # fmt: skip
    for sender, receiver, value in zip(found.layers[0].senders, found.layers[0].receivers, found.layers[0].values[0]):
        assert value == 0 or value == pytest.approx(table[int(sender), int(receiver)], rel=1e-5)
    assert any("16 runs of neighboring tokens" in note for note in found.notes)
    assert any("only the 3 strongest weights" in note for note in found.notes)
    values = by_name(found)["occlusion"].values
    assert values[0] == values[1] == values[2]
    assert explain_text(trained, text, top=1).layers[0].top == 1


def test_a_text_without_a_known_token_and_one_of_none():
    assert explain_text(text_model(), "zebra").faithfulness is not None
    nothing = explain_text(text_model(), "\u200b")
    assert nothing.kind == "text"


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ("  ", {}, DataError, "text: the text is empty"),
        (("a", "b"), {}, DataError, "2 texts were given, but the model reads 1: text"),
        ("a", {"target": "price"}, SettingError, "target is 'price'; the model predicts target"),
        ("a", {"label": "fine"}, SettingError, "label is 'fine'; the classes of target are bad, good"),
        ("a", {"top": 0}, SettingError, "top is 0; expected at least 1"),
    ],
)
def test_what_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        explain_text(text_model(), given, **options)


def test_a_label_is_refused_for_a_regression_target():
    with pytest.raises(SettingError, match="label is 'good', but target is a number"):
        explain_text(text_model(task="regression"), "a", label="good")


def test_a_long_beginning_is_cut_at_a_word():
    assert shortened("one  two\nthree") == "one two three"
    assert shortened("word " * 20) == "word word word word word word word word word word word word …"
    assert shortened("x" * 70) == "x" * 60 + " …"


def test_companions_are_part_of_what_is_explained():
    texts, labels = ["a good film", "a bad film"] * 20, ["yes", "no"] * 20
    model = TextClassifier(model="gru", model_dim=8, epochs=1, companions=["word-counts"]).fit(texts, labels)
    (member,) = model.trained_.members
    with torch.no_grad():
        for parameter in member.network.parameters():
            parameter.zero_()  # a network that says nothing, so that counts alone do
    found = model.explain("a good film", label="yes", methods=["occlusion", "integrated-gradients", "shapley"])
    occlusion, gradients, shapley = (attribution.values for attribution in found.attributions)

    whole, without = model.predict_proba(["a good film", "a film"])[:, 1]
    assert whole - without > 0.05
    assert occlusion[1] == pytest.approx(whole - without, abs=1e-6)
    counts = member.companions["word-counts"]
    copies = member.copies["word-counts"]
    of_nothing = (NETWORK_COPIES * 0.5 + copies * float(counts.bias.sigmoid())) / (NETWORK_COPIES + copies)
    for values in (gradients, shapley):
        assert values.argmax() == 1 and values[1] > 0.05
    assert gradients.sum() == pytest.approx(whole - of_nothing, abs=1e-3)
    assert shapley.sum() == pytest.approx(
        whole - model.explain("a good film", label="yes").faithfulness.removals[0].deletion[-1], abs=1e-6
    )
