"""`edgewise train --task-type tagging` and `predict`: names that only their neighbors tell from places."""

import gzip
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.torch import save_file

from cli_tables import read_csv
from edgewise.learn.networks.encoder import MaskedModel
from edgewise.learn.networks.text_settings import bert
from edgewise.learn.pretrained.bert import checkpoint_of

NAMES = ["Lund", "Paris", "Lincoln", "Sydney", "Florence", "Austin", "Jackson", "Madison"]
"""Each is a person after a title, and a place after a preposition."""
TEMPLATES = [
    "{title} {name} came home .",
    "We met {title} {name} {name} .",
    "They live in {name} .",
    "{title} {name} lives near {name} and works in {name} .",
    "The road from {name} to {name} is long .",
]
SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 32, "--dropout", 0, "--threads", 1]
TAGGING = ["--task-type", "tagging", "--logger", "csv"]
QUICK = [*TAGGING, *SMALL, "--epochs", 2]
LEARN = [*TAGGING, *SMALL, "--epochs", 40, "--batch-size", 8, "--learning-rate", 0.005]


def sentence(generator, template):
    words, tags, before = [], [], ""
    for word in template.split():
        tag = "O"
        if word == "{name}":
            of_person = before in ("Mr", "Mrs") or tags[-1] == "B-PER"
            tag = ("I-PER" if tags[-1] == "B-PER" else "B-PER") if of_person else "B-LOC"
        before = generator.choice(["Mr", "Mrs"]) if word == "{title}" else word
        words.append(generator.choice(NAMES) if word == "{name}" else before)
        tags.append(tag)
    return words, tags


def sentences(count, seed=0):
    generator = random.Random(seed)
    return [sentence(generator, TEMPLATES[number % len(TEMPLATES)]) for number in range(count)]


def conll(rows):
    return "".join("".join(f"{word} {tag}\n" for word, tag in zip(*row)) + "\n" for row in rows)


def objects(rows):
    return "".join(json.dumps({"tokens": words, "tags": tags}) + "\n" for words, tags in rows)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train.conll").write_text(conll(sentences(60)))
    (tmp_path / "test.conll").write_text(conll(sentences(20, seed=1)))
    return [tmp_path / "train.conll", tmp_path / "test.conll"]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


BYTE_PAIRS = ["--tokens", "bpe", "--vocabulary-size", 400, "--epochs", 60]


@pytest.mark.parametrize("model", [["--hidden-dim", 64], ["--model", "lstm"], BYTE_PAIRS], ids=str)
def test_it_learns_what_the_context_says(files, edgewise, paste, tmp_path, model):
    run = tmp_path / "run"
    sizes = [word for word in LEARN if word not in ("--num-heads", 2)] if "lstm" in model else LEARN  # it has no heads
    code, out, err = edgewise("train", *files, *sizes, *model, "-o", run)
    assert (code, err) == (0, "")
    assert "80 sentences, 0 rejected; 4 tags" in out
    assert "no validation sentences: the last epoch is used" in out  # of two files
    assert "each word's most frequent tag" in out
    paste(out)
    metrics = json.loads((run / "metrics.json").read_text())
    usual = metrics["baselines"]["usual_tags"]["test"]
    assert metrics["test"]["f1"] > 0.95, metrics["test"]
    assert metrics["test"]["types"].keys() == {"LOC", "PER"}
    assert usual["f1"] < 0.7, usual
    new = tmp_path / "new.txt"
    new.write_text("Mrs Paris came home .\n\nMr Madison lives near Paris and works in Lund .\n")
    code, out, err = edgewise("predict", run, new, "-o", tmp_path / "out.conll")
    assert (code, out) == (0, "")
    assert "3 of 3 sentences tagged" in err
    assert (tmp_path / "out.conll").read_text() == (
        "Mrs O\nParis B-PER\ncame O\nhome O\n. O\n\n"
        "Mr O\nMadison B-PER\nlives O\nnear O\nParis B-LOC\nand O\nworks O\nin O\nLund B-LOC\n. O\n\n"
    )


def test_a_run_leaves_everything_it_promises(files, edgewise, tmp_path):
    run, again = tmp_path / "run", tmp_path / "again"
    data = tmp_path / "all.jsonl"
    data.write_text(objects(sentences(40)) + '{"tokens": ["a"]}\n')
    code, out, err = edgewise("train", data, *QUICK, "-o", run)
    assert (code, err) == (0, "")
    assert "41 sentences, 1 rejected" in out
    assert f"the first in {data}, line 41: tags: no key 'tags'" in out
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["rows"] == {"train": 32, "val": 4, "test": 4, "rejected": 1}
    assert metrics["validation"].keys() == metrics["test"].keys() == metrics["baselines"]["usual_tags"]["test"].keys()
    assert [row["line"] for row in read_csv(run / "rejected.csv")] == ["41"]
    rows = read_lines(run / "test_predictions.jsonl")
    known = sentences(40)
    assert [(row["tokens"], row["tags"]) for row in rows] == [
        known[place] for place in json.loads((run / "splits.json").read_text())["test"]
    ]
    assert all(len(row["tags_pred"]) == len(row["tokens"]) for row in rows)
    assert edgewise("train", "--config-path", run / "config.toml", "-o", again)[0] == 0
    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert "nothing to resume" in edgewise("train", "--resume", "-o", run)[1]


def test_a_run_that_was_stopped_ends_with_the_same_weights(files, edgewise, tmp_path, monkeypatch):
    from edgewise.learn.training.training import Training

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    words = [*files, *TAGGING, *SMALL, "--dropout", 0.2, "--epochs", 4]
    assert edgewise("train", *words, "-o", whole)[0] == 0
    ended = Training.end_epoch

    def stop(training, *details):
        ended(training, *details)
        if training.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "end_epoch", stop)
        code, _, err = edgewise("train", *words, "-o", stopped)
    assert code == 130
    assert "--resume" in err
    assert edgewise("train", "--resume", "-o", stopped)[0] == 0
    assert (stopped / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    (stopped / "metrics.json").unlink()
    files[0].write_text(conll(sentences(61)))
    assert "other content" in edgewise("train", "--resume", "-o", stopped)[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from edgewise.cli.main import main

    folder = tmp_path_factory.mktemp("tags")
    (folder / "train.conll").write_text(conll(sentences(20)))
    words = ["train", folder / "train.conll", *QUICK, "--context", 6, "-o", folder / "run"]
    assert main([str(word) for word in words]) == 0
    return folder / "run"


def test_every_word_of_a_long_sentence_has_its_tag(run, edgewise, tmp_path):
    words = [word for each, _ in sentences(30, seed=5) for word in each]
    (tmp_path / "new.jsonl").write_text(json.dumps({"id": 7, "tokens": [*words, "\u00a0", "end"]}) + "\n")
    assert edgewise("predict", run, tmp_path / "new.jsonl", "-o", tmp_path / "out.jsonl")[0] == 0
    (row,) = read_lines(tmp_path / "out.jsonl")
    assert (row["id"], row["status"]) == (7, "ok")
    assert len(row["tags_pred"]) == len(words) + 2
    # The no-break space is no token: it has the tag that most words have.
    assert row["tags_pred"][-2] == "O"


def test_predictions_keep_their_place(run, edgewise, tmp_path):
    rows = [{"tokens": ["Mr", "Lund"], "note": "Ä"}, {"note": "\ud800"}, {"tokens": []}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = edgewise("predict", run, tmp_path / "new.jsonl", "-o", tmp_path / "out.jsonl.gz")
    assert code == 0
    assert "2 of 3 sentences tagged; the first that could not be in line 2: tokens: no key 'tokens'" in err
    lines = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode().splitlines()
    assert '"Ä"' in lines[0]
    found = [json.loads(line) for line in lines]
    assert [{name: row[name] for name in each} for row, each in zip(found, rows)] == rows
    assert [row["tags_pred"] is None for row in found] == [False, True, False]
    assert found[1]["status"] == "tokens: no key 'tokens'; the object has 'note'"


def test_parts_of_speech_have_no_spans(edgewise, tmp_path):
    rows = [(words, ["NOUN" if word in NAMES else "X" for word in words]) for words, _ in sentences(30)]
    (tmp_path / "a.jsonl").write_text(objects(rows).replace("tokens", "words").replace('"tags"', '"pos"'))
    keys = ["--text-columns", "words", "--target-columns", "pos"]
    code, out, err = edgewise("train", tmp_path / "a.jsonl", *keys, *QUICK, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"].keys() == {"num_sentences", "num_words", "accuracy", "f1_macro"}
    assert "f1_macro" in out
    assert read_lines(tmp_path / "run/test_predictions.jsonl")[0].keys() == {"words", "pos", "pos_pred"}
    (tmp_path / "new.jsonl").write_text('{"words": ["Lund"]}\n')
    (tmp_path / "new.conll").write_text("Lund\n")
    for name in ("new.jsonl", "new.conll"):
        assert edgewise("predict", tmp_path / "run", tmp_path / name, "-o", tmp_path / f"{name}.jsonl")[0] == 0
        (row,) = read_lines(tmp_path / f"{name}.jsonl")
        assert (row["words"], row["status"]) == (["Lund"], "ok")
        assert row["pos_pred"][0] in ("NOUN", "X")


def test_the_file_of_the_training_is_predicted_as_it_was_read(files, edgewise, tmp_path):
    """Columns and tags of a .txt became words in `predict`, with the command that the summary shows."""
    (tmp_path / "a.txt").write_text(conll(sentences(20)))
    words = ["train", "tagging", tmp_path / "a.txt", *[word for word in QUICK if word not in TAGGING[:2]]]
    assert edgewise(*words, "-o", tmp_path / "run")[0] == 0
    assert edgewise("predict", tmp_path / "run", tmp_path / "a.txt", "-o", tmp_path / "out.jsonl")[0] == 0
    assert [row["tokens"] for row in read_lines(tmp_path / "out.jsonl")] == [words for words, _ in sentences(20)]


def test_columns_say_by_their_name_what_they_are(files, edgewise, tmp_path):
    words = [word for word in QUICK if word not in TAGGING[:2]]
    code, _, err = edgewise("train", *files, *words, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert (tmp_path / "run/test_predictions.jsonl").exists()


def test_a_damaged_model(files, edgewise, tmp_path):
    run = tmp_path / "run"
    assert edgewise("train", *files, *QUICK, "-o", run)[0] == 0
    (run / "tokenizer.json").write_text("{}")
    code, out, err = edgewise("predict", run, files[1], "-o", tmp_path / "out.conll")
    assert (code, out) == (2, "")
    assert "tokenizer.json is damaged: the tokenizer cannot be read" in err


def test_a_tag_of_the_test_that_was_never_learned(files, edgewise, tmp_path):
    files[1].write_text(conll([(["Mr", "Lund"], ["O", "B-DUKE"])]))
    code, out, err = edgewise("train", *files, *QUICK, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "1 word to be scored has a tag that no training sentence has" in out
    assert json.loads((tmp_path / "run/metrics.json").read_text())["test"]["types"]["DUKE"]["recall"] == 0


def test_it_starts_from_what_a_masked_run_has_learned(files, edgewise, tmp_path):
    """Weights that stay as they are, but for the tags, show where they came from."""
    (tmp_path / "texts.txt").write_text("".join(" ".join(words) + "\n" for words, _ in sentences(60)))
    masked = tmp_path / "masked"
    assert (
        edgewise("train", tmp_path / "texts.txt", "--task-type", "masked", *SMALL, "--epochs", 1, "-o", masked)[0] == 0
    )
    recipe = ["--epochs", 1, "--learning-rate", 1e-12, "--final-learning-rate", 0, "--threads", 1]
    code, _, err = edgewise("train", *files, *TAGGING, "--pretrained", masked, *recipe, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    start, found = (load_file(folder / "model.safetensors") for folder in (masked, tmp_path / "run"))
    names = [name for name in found if name.startswith("encoder.")]
    assert names
    for name in names:
        np.testing.assert_allclose(found[name], start[name], atol=1e-9)
    assert (tmp_path / "run/tokenizer.json").read_text() == (masked / "tokenizer.json").read_text()
    for words, message in [
        (["--model", "lstm"], "brings its own model"),
        (["--model-dim", 64], "--model-dim is 64, but the model of"),
    ]:
        assert message in edgewise("train", *files, *TAGGING, "--pretrained", masked, *words, "-o", tmp_path / "b")[2]


def test_it_starts_from_a_checkpoint_with_more_vectors_than_tokens(files, edgewise, tmp_path):
    """As published ones have, whose vocabulary is filled up to a multiple of eight."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "mr", "mrs", "paris", "lives", "in", "."]
    model = MaskedModel(16, replace(bert(1, 2, 16), context=32))
    config, tensors = checkpoint_of(model)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/config.json").write_text(json.dumps(config))
    (tmp_path / "theirs/vocab.txt").write_text("\n".join(pieces) + "\n")
    save_file(tensors, tmp_path / "theirs/model.safetensors")
    assert edgewise("convert", tmp_path / "theirs", "-o", tmp_path / "masked")[0] == 0
    words = ["--pretrained", tmp_path / "masked", "--epochs", 1, "--threads", 1]
    code, _, err = edgewise("train", *files, *TAGGING, *words, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert load_file(tmp_path / "run/model.safetensors")["encoder.embedding.weight"].shape == (16, 16)
    assert edgewise("predict", tmp_path / "run", files[1], "-o", tmp_path / "out.jsonl")[0] == 0


def test_bad_words(files, run, edgewise, tmp_path):
    (tmp_path / "one.conll").write_text("a O\n\nb O\n")
    (tmp_path / "bad.jsonl").write_text("{\n")
    (tmp_path / "some.conll").write_text("a O\n\nb X\nc\n")
    (tmp_path / "done.jsonl").write_text('{"tokens": ["a"], "tags_pred": ["O"]}\n')
    (tmp_path / "space.jsonl").write_text('{"tokens": ["New York"]}\n')
    copies = [shutil.copy(file, tmp_path / f"copy_{Path(file).name}") for file in files]
    training = [
        ([], "no data file was given"),
        ([tmp_path / "none.conll"], "no such file"),
        ([tmp_path / "bad.jsonl"], "bad.jsonl, line 1: not JSON"),
        ([tmp_path / "one.conll"], "the only tag is 'O', expected two or more"),
        ([tmp_path / "some.conll", "--strict"], "some.conll, line 4: tags: one column"),
        ([*files, "--split-sizes", 1, 0], "three fractions"),
        ([*files, "--readout", "mean"], "--readout applies to"),
        ([*files, "--text-columns", "a"], "its columns are unnamed"),
        ([*files, "--model", "gat"], "to read texts expected one of transformer, lstm"),
        ([*files, "--model", "lstm", "--position", "alibi"], "--position belongs to transformers"),
        (
            [*files, "--model", "gru", "--num-heads", 8],
            "--num-heads belongs to transformers; the gru has no such choice",
        ),
        ([*files, "--tokens", "bpe", "--vocabulary-size", 5], "at least 258"),
        ([*files, *copies], "4 files were given"),
    ]
    for words, message in training:
        code, out, err = edgewise("train", *words, *TAGGING, "-o", tmp_path / "b")
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert not (tmp_path / "b").exists()
    predicting = [
        ([tmp_path / "done.jsonl", "-o", tmp_path / "out.jsonl"], "already has the key 'tags_pred'"),
        ([tmp_path / "space.jsonl", "-o", tmp_path / "out.conll"], "'New York' with the tag"),
        ([files[0], "-o", tmp_path / "out.csv"], "ends in .jsonl, .jsonl.gz, .conll, .conll.gz"),
        ([files[0], "-o", files[0], "--overwrite"], "is the input"),
        ([files[0], "-o", tmp_path / "out.conll", "--threads", 0], "--threads is 0"),
    ]
    for words, message in predicting:
        code, out, err = edgewise("predict", run, *words)
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert not (tmp_path / "out.conll").exists()


def test_from_python(tmp_path):
    from edgewise import DataError, EdgewiseError, SettingError, Tagger

    words, tags = zip(*sentences(60))
    settings = {"num_layers": 1, "num_heads": 2, "model_dim": 32, "hidden_dim": 64, "dropout": 0.0}
    recipe = {"epochs": 30, "batch_size": 8, "learning_rate": 0.005, "device": "cpu"}
    tagger = Tagger(**settings, **recipe).fit(words, tags)
    assert tagger.metrics_["rows"] == {"train": 54, "val": 6, "test": 0, "rejected": 0}
    new = sentences(20, seed=1)
    found = tagger.predict([words for words, _ in new])
    assert found == [tags for _, tags in new]
    assert tagger.score(*zip(*new)) == 1.0
    tagger.save(tmp_path / "run")
    assert Tagger.load(tmp_path / "run").predict([new[0][0], []]) == [new[0][1], []]
    with pytest.raises(EdgewiseError, match="not fitted"):
        Tagger().predict([["a"]])
    with pytest.raises(SettingError, match="validation_size is 1"):
        Tagger(validation_size=1).fit(words, tags)
    with pytest.raises(DataError, match="expected a list of"):
        tagger.predict(["Mr Lund"])
    with pytest.raises(DataError, match="score: X is empty; expected sentences to compare with"):
        tagger.score([], [])
    with pytest.raises(DataError, match="score: y is None; expected the tags of each sentence"):
        tagger.score(words, None)


def test_the_tag_of_a_word_is_explained(files, edgewise, tmp_path):
    run = tmp_path / "run"
    edgewise("train", *files, *QUICK, "-o", run)
    text = "Mrs Paris lives near Paris ."
    code, out, err = edgewise("explain", run, text, "--target", 5, "--label", "O", "-o", tmp_path / "tags.json")
    assert (code, err) == (0, "")
    assert out.startswith(f"{text}: 1 Mrs is ")
    (found,) = json.loads((tmp_path / "tags.json").read_text())
    assert (found["explained"], found["sources"]) == ("5 Paris = O", {"tokens": text})
    assert [predicted["name"] for predicted in found["predictions"]] == [
        f"{n} {w}" for n, w in enumerate(text.split(), 1)
    ]
    assert edgewise("explain", run, text, "-o", tmp_path / "tags.html")[0] == 0
    assert edgewise("explain", run, text, "-o", tmp_path / "tags.svg")[0] == 0
    long = edgewise("explain", run, "to Lund " * 30, "-o", tmp_path / "long.json")[1]
    assert "; and 30 more\n" in long
    for words, message in {
        (): f"{run} has no table of test rows; name what to explain",
        (text, "--target", "Paris"): "occurs 2 times; name one of 2 Paris, 5 Paris.",
        (text, "--label", "X"): "label is 'X'; the tags are B-LOC, B-PER, I-PER, O.",
        (" ",): "tokens: the text is empty.",
    }.items():
        code, out, err = edgewise("explain", run, *words, "-o", tmp_path / "no.html")
        assert (code, out) == (2, "")
        assert message in err
