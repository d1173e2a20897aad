"""LanguageModel: it learns, writes, is kept and read again; and what it refuses."""

import math

import numpy as np
import pytest

from edgewise import DataError, EdgewiseError, LanguageModel, RunFolderError, SettingError
from edgewise.learn.tasks.language import task
from edgewise.learn.tasks.language.settings import SETTINGS
from edgewise.learn.tasks.language.task import pair_loss

SONG = "the cat sat on the mat and the dog sat on the log. " * 40
SMALL = {"num_layers": 1, "num_heads": 2, "model_dim": 16, "context": 16, "batch_size": 8, "threads": 1}


@pytest.fixture(scope="module")
def singer():
    return LanguageModel(**SMALL, steps=250, learning_rate=1e-2).fit(SONG)


def test_it_learns_what_bigrams_cannot_predict(singer):
    found = singer.metrics_["validation"]["loss"]
    assert found < 0.5 * singer.metrics_["baselines"]["pairs"]["validation"]["loss"]
    assert singer.score(SONG) == pytest.approx(-found, abs=0.2)


@pytest.mark.parametrize("length", [325, 335, 345])
def test_the_validation_text_reaches_to_the_last_character(length):
    """Half characters were rounded twice, and the last one was in neither split."""
    text = SONG[:length]
    model = LanguageModel(**SMALL, tokens="characters", steps=1).fit(text)
    assert model.metrics_["tokens"]["training"] + model.metrics_["tokens"]["validation"] == length


def test_it_writes_on(singer):
    assert singer.generate("the cat", num_tokens=12, temperature=0) == "the cat sat on the "
    drawn = [singer.generate("the ", num_tokens=30, seed=seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_it_is_the_same_after_it_was_kept(singer, tmp_path):
    singer.save(tmp_path / "run")
    again = LanguageModel.load(tmp_path / "run")
    assert again.generate("the dog", seed=3) == singer.generate("the dog", seed=3)
    (tmp_path / "run" / "tokenizer.json").write_text("{")
    with pytest.raises(RunFolderError, match="damaged"):
        LanguageModel.load(tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": "words", "vocabulary_size": 300},
        {"tokens": "bpe", "vocabulary_size": 300},
        {"precision": "64"},
        {"precision": "bf16"},
    ],
)
def test_other_tokens_and_numbers(changes):
    model = LanguageModel(**SMALL, steps=2, **changes).fit(SONG)
    assert model.generate("the cat", num_tokens=3).startswith("the cat")


@pytest.mark.parametrize(
    ("tokens", "prompt", "expected"),
    [
        ("words", "the cat", "the cat sat on the mat"),
        ("words", "the cat ", "the cat sat on the mat"),
        ("words", "the cat\n", "the cat\nsat on the mat"),
        ("characters", "the cat", "the catsat on the mat"),
        ("characters", "the cat ", "the cat sat on the mat"),
    ],
)
def test_the_first_token_is_joined_to_the_prompt_as_the_others_are(tokens, prompt, expected, monkeypatch):
    model = LanguageModel(**SMALL, steps=1, tokens=tokens, split_sizes=(1.0, 0.0)).fit(SONG)
    numbers = model.trained.encoder.tokenizer.encode("sat on the mat").numbers.tolist()
    monkeypatch.setattr(task, "generate", lambda *_, **__: iter(numbers))
    assert model.generate(prompt) == expected


def test_no_validation_text():
    model = LanguageModel(**SMALL, steps=2, split_sizes=(1.0, 0.0)).fit(SONG)
    assert "validation" not in model.metrics_


def test_the_same_seed_learns_the_same():
    first, again, other = (
        LanguageModel(**SMALL, steps=3, random_state=seed).fit(SONG).score(SONG) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_counting_pairs_by_hand():
    """After 0 stands 1 twice; with one more for each of two tokens p(1 | 0) = 3/4, and p(0 | 1) = 2/3."""
    assert pair_loss(np.array([0, 1, 0, 1]), np.array([0, 1, 0]), 2) == pytest.approx(
        -(math.log(3 / 4) + math.log(2 / 3)) / 2
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"steps": 2000}, (2, 1000)),
        ({"steps": 3}, (1, 3)),
        ({"steps": 1501}, (2, 751)),
        ({"epochs": 2, "batch_size": 10, "context": 100}, (2, 1000)),
        ({"steps": 1501, "eval_steps": 1501}, (1, 1501)),
        ({"steps": 1501, "eval_steps": 500}, (4, 500)),
        ({"epochs": 2, "batch_size": 10, "context": 100, "eval_steps": 400}, (5, 400)),
    ],
    ids=str,
)
def test_the_schedule(settings, expected):
    job = SETTINGS.of({"data": ["book.txt"], **settings})
    assert job.schedule(1_000_000 if "epochs" in settings else 5_000) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "gat"}, "expected one of gpt2"),
        ({"model": np.array(["gpt2"])}, r"model = \['gpt2'\]; expected str"),
        ({"logger": np.array(["csv", "wandb"])}, r"logger is \['csv', 'wandb'\]"),
        ({"tokens": "syllables"}, "tokens is 'syllables'"),
        ({"split_sizes": (0.5, 0.2, 0.3)}, "two fractions"),
        ({"steps": 0}, "steps is 0"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        LanguageModel(**settings).fit(SONG)


def test_texts_and_prompts_that_cannot_be(singer):
    with pytest.raises(DataError, match=r"9 tokens to train on, fewer than context \+ 1 = 17"):
        LanguageModel(**SMALL).fit("ten letter")
    with pytest.raises(SettingError, match="one text, a str, not list"):
        LanguageModel().fit(["a", "b"])
    with pytest.raises(SettingError, match="characters that the model has never seen: 'Z', 'z', '!'"):
        singer.generate("Zzz!Z")
    with pytest.raises(SettingError, match="the prompt is empty"):
        singer.generate("")
    with pytest.raises(EdgewiseError, match="not fitted yet"):
        LanguageModel().generate("a")
    for arguments, message in (
        ({"num_tokens": -1}, "^generate: num_tokens is -1; expected at least 0"),
        ({"temperature": float("nan")}, "^generate: temperature is nan"),
        ({"seed": -1}, "^generate: seed is -1"),
    ):
        with pytest.raises(SettingError, match=message):
            singer.generate("the ", **arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": None}, "seed is None; expected a whole number"),
        ({"num_tokens": 1.5}, "num_tokens is 1.5; expected a whole number"),
        ({"top_k": 1.5}, "top_k is 1.5; expected a whole number"),
        ({"temperature": "hot"}, "temperature is 'hot'; expected a number"),
    ],
)
def test_settings_of_another_type_are_refused(singer, shapes_unchecked, settings, message):
    """They ended in errors of torch, some after half of a text."""
    with pytest.raises(SettingError, match=f"^generate: {message}"):
        singer.generate("the ", **settings)
