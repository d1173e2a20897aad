"""Translator: it learns, translates, is kept and read again; and what it refuses."""

import itertools

import numpy as np
import pytest

from edgewise import DataError, EdgewiseError, RunFolderError, SettingError, Translator
from edgewise.cli.main import main
from edgewise.learn.estimators import translation

WORDS = ["".join(word) for word in itertools.product("abc", repeat=3)]
BACKWARD = [word[::-1] for word in WORDS]
SMALL = {"num_layers": 1, "model_dim": 16, "dropout": 0.0, "vocabulary_size": 257, "threads": 1, "device": "cpu"}
QUICK = {**SMALL, "epochs": 1, "max_length": 5}


@pytest.fixture(scope="module")
def writer():
    """Knows every word: what is tested is the way from texts to texts."""
    settings = {**SMALL, "model_dim": 32, "epochs": 80, "batch_size": 36, "learning_rate": 0.01, "label_smoothing": 0.0}
    return Translator(model="lstm", max_length=6, beam_size=1, **settings).fit(
        WORDS, BACKWARD, validation=(WORDS[:5], BACKWARD[:5])
    )


def test_it_learns(writer):
    assert writer.predict(WORDS) == BACKWARD
    assert writer.metrics_["validation"]["loss"] < 0.2
    assert writer.metrics_["rows"] == {"train": 27, "val": 5, "rejected": 0}


def test_a_search_ends_where_learned_positions_end():
    model = Translator(context=16, position="learned", num_heads=2, **{**SMALL, "epochs": 1}).fit(WORDS, BACKWARD)
    assert model.trained_.output.beam.max_length == 16
    assert len(model.predict(WORDS)) == len(WORDS)
    elsewhere = Translator(context=16, position="alibi", num_heads=2, **QUICK).fit(WORDS, BACKWARD)
    assert elsewhere.trained_.output.beam.max_length == QUICK["max_length"]


def test_what_cannot_be_translated_is_none(writer):
    with pytest.warns(UserWarning, match="predict: 2 of 4 texts are empty or too long"):
        found = writer.predict(["abc", "", "a" * 300, "cab"])
    assert found == ["cba", None, None, "bac"]
    assert writer.predict([]) == []


def test_the_score_is_that_of_the_translations(writer, monkeypatch):
    monkeypatch.setattr(translation, "bleu", lambda written, right: (written, right))
    with pytest.warns(UserWarning, match="predict: 1 of 2 texts is empty or too long"):
        assert writer.score(["abc", ""], ["cba", "c"]) == (["cba", ""], ["cba", "c"])


def test_a_score_needs_texts_and_translations(writer):
    with pytest.raises(DataError, match="the translations cannot be scored: there is no text"):
        writer.score([], [])
    with pytest.raises(DataError, match="score: y is None; expected the translation of each text"):
        writer.score(["abc"], None)


def test_it_is_the_same_after_it_was_kept(writer, tmp_path):
    writer.save(tmp_path / "run")
    again = Translator.load(tmp_path / "run")
    assert again.predict(WORDS) == writer.predict(WORDS)
    assert again.trained_.output.beam == writer.trained_.output.beam
    (tmp_path / "run" / "tokenizer.json").write_text("{")
    with pytest.raises(RunFolderError, match="damaged"):
        Translator.load(tmp_path / "run")


def test_it_reads_what_the_command_line_wrote(tmp_path):
    for side, texts in (("en", WORDS), ("de", BACKWARD)):
        (tmp_path / f"words.{side}").write_text("".join(text + "\n" for text in texts))
    flags = [str(word) for name, value in QUICK.items() for word in ("--" + name.replace("_", "-"), value)]
    files = [str(tmp_path / f"words.{side}") for side in ("en", "de")]
    words = ["--task-type", "translation", "--model", "gru", "-o", str(tmp_path / "run")]
    assert main(["train", *files, *words, *flags]) == 0
    assert len(Translator.load(tmp_path / "run").predict(WORDS)) == 27


@pytest.mark.parametrize("settings", [{"model": "lstm"}, {"num_heads": 2}], ids=str)
def test_the_same_seed_learns_the_same_from_lists_and_arrays(settings):
    models = [Translator(**QUICK, **settings, random_state=seed) for seed in (1, 1, 2)]
    models[0].fit(WORDS, BACKWARD)
    models[1].fit(np.array(WORDS), tuple(BACKWARD))
    models[2].fit(WORDS, BACKWARD)
    first, again, other = (model.trained_.model.embedding.weight for model in models)
    assert (first == again).all()
    assert not (first == other).all()


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_other_numbers(precision):
    model = Translator(**QUICK, model="lstm", local_attention="monotonic", precision=precision).fit(WORDS, BACKWARD)
    assert len(model.predict(WORDS[:2])) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "dot"}, "attention goes with model lstm"),
        ({"model": "lstm", "num_heads": 4}, "num_heads goes with a transformer"),
        ({"model": "gat"}, "expected one of lstm"),
        ({"beam_size": 0}, "beam_size is 0"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        Translator(**settings).fit(WORDS, BACKWARD)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((WORDS, BACKWARD[:3]), "fit: 27 texts, but 3 translations"),
        (("abc", "cba"), "fit: X is one text"),
        ((["a", None], ["a", "b"]), "fit: number 1 is None, not a text"),
        ((["a", " "], ["a", "b"]), "fit: number 1: the source cannot be used: the text is empty"),
        ((["a", "b"], ["a", "b" * 20]), r"fit: number 1: the target cannot be used: 21 tokens, more than context 8"),
        ((["a"], ["a"], (["a", "b"], ["b", ""])), "validation: number 1: the target cannot be used"),
        ((["a"], ["a"], (["a"], [])), "validation: 1 text, but 0"),
    ],
    ids=str,
)
def test_texts_that_cannot_be_learned_from(texts, message):
    with pytest.raises(DataError, match=message):
        Translator(context=8, vocabulary_size=257).fit(*texts[:2], validation=texts[2] if len(texts) > 2 else None)


def test_inputs_that_are_refused(writer):
    with pytest.raises(DataError, match="predict: X is one text"):
        writer.predict("abc")
    with pytest.raises(DataError, match="score: 2 texts, but 1 translation"):
        writer.score(["abc", "bca"], ["cba"])
    with pytest.raises(EdgewiseError, match="not fitted yet"):
        Translator().predict(["a"])
