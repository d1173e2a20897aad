"""`edgewise train --task-type translation` and `predict`: numbers into words, what a run leaves, what it refuses."""

import csv
import itertools
import json
import tomllib

import pytest

from cli_tables import read_csv
from edgewise.learn.training.training import Training

DIGITS = {"1": "eins", "2": "zwei", "3": "drei", "4": "vier"}
SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 32, "--hidden-dim", 64, "--dropout", 0, "--threads", 1]
TINY = ["--num-layers", 1, "--model-dim", 32, "--dropout", 0, "--threads", 1, "--vocabulary-size", 257]
COLUMNS = ["--text-columns", "en", "--target-columns", "de", "--task-type", "translation"]
QUICK = [*SMALL, "--epochs", 2, "--vocabulary-size", 280, "--max-length", 12, "--task-type", "translation"]


def pairs(count, start=0):
    texts = [f"{number % 4 + 1} {number // 4 % 4 + 1} {number // 16 % 4 + 1}" for number in range(start, start + count)]
    return [(text, " ".join(DIGITS[word] for word in text.split())) for text in texts]


def write_table(path, rows, header=("en", "de")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "pairs.csv", pairs(64))


def test_a_run_leaves_everything_it_promises(table, edgewise, paste, tmp_path):
    run = tmp_path / "run"
    code, out, err = edgewise("train", table, "--text-columns", "en", "--target-columns", "de", *QUICK, "-o", run)
    assert (code, err) == (0, "")
    assert "64 pairs, 0 rejected" in out
    assert "not translated" in out
    paste(out)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["rows"] == {"train": 51, "val": 7, "test": 6, "rejected": 0}
    assert {"bleu", "loss"} <= metrics["test"].keys()
    rows = read_csv(run / "test_predictions.csv")
    assert [row["de"] for row in rows] == [pairs(64)[int(row["row_in_data"])][1] for row in rows]
    again = tmp_path / "again"
    assert edgewise("train", "--config-path", run / "config.toml", "-o", again)[0] == 0
    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_a_sentence_is_explained_with_its_translation(table, edgewise, tmp_path):
    run = tmp_path / "run"
    assert (
        edgewise("train", table, *COLUMNS, *TINY, "--model", "lstm", "--epochs", 1, "--max-length", 8, "-o", run)[0]
        == 0
    )
    code, out, err = edgewise("explain", run, "1 2 3", "4 4", "-o", tmp_path / "both.html")
    assert (code, err) == (0, "")
    first, agreement = out.splitlines()[:2]
    assert first.startswith("1 2 3: translation is ")
    assert "; mean ln p -" in first
    assert agreement.startswith("  agreement with occlusion in mean ln p of the translation (1 is the same order): ")
    assert edgewise("explain", run, "1 2 3", "--target", "0", "-o", tmp_path / "token.svg")[0] == 0
    # Without an input the test rows are, and of a file each line.
    assert edgewise("explain", run, "--rows", 1, "-o", tmp_path / "row.json")[0] == 0
    (found,) = json.loads((tmp_path / "row.json").read_text())
    row = read_csv(run / "test_predictions.csv")[1]
    assert found["sources"] == {"en": row["en"], "translation": row["de_pred"]}
    (tmp_path / "lines.txt").write_text("1 1\n" + "2 " * 400 + "\n3 3\n")
    code, _, err = edgewise("explain", run, tmp_path / "lines.txt", "-o", tmp_path / "lines.json")
    assert (code, len(json.loads((tmp_path / "lines.json").read_text()))) == (0, 2)
    assert err.startswith("row 1 is skipped: en: the text is too long: ")
    for words, message in (
        (["1 2", "--target", "sieben"], "target is 'sieben'; expected translation, or of its tokens one of 0 "),
        (["1 2", "--label", "sieben"], "label is 'sieben', but a translation has no classes; leave it out."),
        ([" "], "en: the text is empty."),
    ):
        code, out, err = edgewise("explain", run, *words, "-o", tmp_path / "refused.html")
        assert (code, out) == (2, "")
        assert message in err


def test_it_learns_to_translate(edgewise, tmp_path):
    """Thirteen of the sixty-four numbers were never seen."""
    rows = pairs(64)
    unseen = rows[::5]
    write_table(tmp_path / "train.csv", [row for row in rows if row not in unseen] * 4)
    write_table(tmp_path / "test.csv", unseen)
    words = ["--text-columns", "en", "--target-columns", "de", *SMALL, "--vocabulary-size", 280]
    recipe = ["--epochs", 60, "--batch-size", 96, "--learning-rate", 0.006, "--task-type", "translation"]
    files = [tmp_path / "train.csv", tmp_path / "test.csv"]
    code, _, err = edgewise("train", *files, *words, *recipe, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    written = read_csv(tmp_path / "run/test_predictions.csv")
    assert sum(row["de_pred"] == row["de"] for row in written) >= 12
    table = write_table(tmp_path / "new.csv", [("a", "1 2 3"), ("b", ""), ("c", "4 4 4")], ("name", "en"))
    code, _, err = edgewise("predict", tmp_path / "run", table, "-o", tmp_path / "out.csv")
    assert code == 0
    assert "2 of 3 rows translated; 1 could not be" in err
    found = read_csv(tmp_path / "out.csv")
    assert [row["name"] for row in found] == ["a", "b", "c"]
    assert found[0]["de_pred"] == "eins zwei drei"
    assert found[1]["status"] == "the text is empty or too long"


def reversals():
    """Words of three letters, and the same backward; every fifth for the test."""
    rows = [("".join(word), "".join(reversed(word))) for word in itertools.product("abcd", repeat=3)]
    return [row for row in rows if row not in rows[::5]], rows[::5]


@pytest.mark.parametrize(
    "words", [["--model", "lstm"], ["--model", "gru", "--attention", "bahdanau", "--no-input-feeding"]]
)
def test_a_recurrent_model_learns_to_write_words_backward(words, edgewise, tmp_path):
    """Thirteen of the sixty-four words were never seen."""
    seen, unseen = reversals()
    files = [write_table(tmp_path / "train.csv", seen * 2), write_table(tmp_path / "test.csv", unseen)]
    recipe = ["--epochs", 60, "--batch-size", 96, "--learning-rate", 0.01, "--label-smoothing", 0, "--max-length", 6]
    run = tmp_path / "run"
    code, _, err = edgewise("train", *files, *COLUMNS, *TINY, *recipe, *words, "--beam-size", 2, "-o", run)
    assert (code, err) == (0, "")
    written = read_csv(run / "test_predictions.csv")
    assert sum(row["de_pred"] == row["de"] for row in written) >= 12
    assert edgewise("predict", run, files[1], "-o", tmp_path / "out.csv")[0] == 0
    assert [row["de_pred"] for row in read_csv(tmp_path / "out.csv")] == [row["de_pred"] for row in written]
    model = json.loads((run / "model.json").read_text())
    assert (model["kind"], model["settings"]["cell"], model["beam"]["beam_size"]) == ("recurrent", words[1], 2)


class KilledError(Exception):
    """Stands for the end of the process."""


def test_a_recurrent_run_that_was_killed_ends_with_the_same_bits(edgewise, tmp_path, monkeypatch):
    data = write_table(tmp_path / "pairs.csv", reversals()[0])
    recipe = [*COLUMNS, *TINY, "--dropout", 0.2, "--model", "lstm", "--local-attention", "predictive", "--epochs", 3]
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert edgewise("train", data, *recipe, "--max-length", 4, "-o", whole)[0] == 0
    original = Training.end_epoch

    def killed(training, *details):
        if training.epoch == 1:
            raise KilledError
        original(training, *details)

    monkeypatch.setattr(Training, "end_epoch", killed)
    with pytest.raises(KilledError):
        edgewise("train", data, *recipe, "--max-length", 4, "-o", run)
    monkeypatch.undo()
    assert "unfinished run" in edgewise("predict", run, data, "-o", tmp_path / "out.csv")[2]
    code, _, err = edgewise("train", "--resume", "--model", "gru", "-o", run)
    assert code == 2
    assert "--model gru and --cell lstm contradict each other" in err, err
    assert edgewise("train", "--resume", "--model", "lstm", "-o", run)[0] == 0
    again = tmp_path / "again"
    assert edgewise("train", "--config-path", whole / "config.toml", "-o", again)[0] == 0
    for folder in (run, again):
        assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["cell"], config["local-attention"], config["local-window"], config["input-feeding"]) == (
        "lstm",
        "predictive",
        10,
        True,
    )
    assert {"model", "num-heads"} & config.keys() == set()


def test_aligned_files(edgewise, paste, tmp_path):
    names = []
    for part, rows in (("train", pairs(40)), ("val", pairs(8, 40)), ("test", pairs(8, 48))):
        for side, language in enumerate(("en", "de")):
            names.append(tmp_path / f"{part}.{language}")
            names[-1].write_text("".join(row[side] + "\n" for row in rows))
    code, out, err = edgewise("train", *names, *QUICK, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "40 training, 8 validation and 8 test pairs" in out
    assert [words[3] for words in paste(out)] == [str(tmp_path / "test.en")]
    (tmp_path / "new.txt").write_text("1 2\n3\n")
    assert edgewise("predict", tmp_path / "run", tmp_path / "new.txt", "-o", tmp_path / "out.csv")[0] == 0
    assert (tmp_path / "out.csv").read_text().startswith("source,target_pred,status\n1 2,")


def test_pairs_that_cannot_be_used_are_listed(edgewise, tmp_path):
    rows = [*pairs(30), ("1", ""), ("1 " * 40, "eins"), (" ", "eins")]
    table = write_table(tmp_path / "pairs.csv", rows)
    words = ["--text-columns", "en", "--target-columns", "de", "--context", 20]
    code, out, err = edgewise("train", table, *words, *QUICK, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "33 pairs, 3 rejected" in out
    listed = read_csv(tmp_path / "run/rejected.csv")
    assert [(row["line"], row["column"]) for row in listed] == [("32", "de"), ("33", "en"), ("34", "en")]
    assert "more than --context 20" in listed[1]["reason"]

    new = write_table(tmp_path / "new.csv", [("1 2", ""), ("  ", ""), ("", "")])
    code, _, err = edgewise("predict", tmp_path / "run", new, "-o", tmp_path / "out.csv")
    assert (code, "1 of 3 rows translated" in err) == (0, True), err
    predicted = read_csv(tmp_path / "out.csv")
    assert [row["status"] for row in predicted] == ["ok", *["the text is empty or too long"] * 2]
    assert [row["de_pred"] for row in predicted[1:]] == ["", ""], "byte pairs have tokens for spaces, too"


def test_positions_that_sentences_cannot_share_are_refused_before_anything_is_written(table, edgewise, tmp_path):
    code, out, err = edgewise("train", table, *COLUMNS, "--position", "shaw", "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "--position is 'shaw'; for translation expected one of rotary, learned, sinusoidal, alibi, t5, none" in err
    assert not (tmp_path / "run").exists()
    _, out, _ = edgewise("train", "translation", "--help")
    assert "alibi" in out and "shaw" not in out


def test_bad_words(table, edgewise, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    columns = ["--text-columns", "en", "--target-columns", "de"]
    cases = [
        ([tmp_path / "a.en", tmp_path / "a.de"], "a.en has 2 lines"),
        ([tmp_path / "a.en"], "1 file of lines was"),
        ([table], "one column to read and one to write"),
        ([table, "--text-columns", "english", "--target-columns", "de"], "english"),
        ([table, *columns, "--beam-size", 0], "--beam-size is 0"),
        ([table, *columns, "--label-smoothing", 1], "--label-smoothing is 1"),
        ([table, *columns, "--split-sizes", 1, 0], "three fractions"),
        ([table, *columns, "--model", "gat"], "expected one of lstm, gru, rnn, gpt2"),
        ([table, *columns, "--model", "lstm", *SMALL], "--num-heads goes with a transformer, not with --model lstm"),
        ([table, *columns, "--cell", "gru", "--window", 3], "--window goes with a transformer, not with --model gru"),
        (
            [table, *columns, "--attention", "dot"],
            "--attention goes with --model lstm or gru or rnn",
        ),
        ([table, *columns, "--no-input-feeding"], "--input-feeding goes with --model lstm"),
        ([table, *columns, "--model", "transformer-base", "--cell", "lstm"], "--cell goes with --model lstm"),
        ([table, *columns, "--model", "lstm", "--cell", "gru"], "--model lstm and --cell gru contradict each other"),
        (
            [table, *columns, *["--model", "lstm", "--attention", "bahdanau", "--local-attention", "monotonic"]],
            "--local-attention goes with",
        ),
        ([table, *columns, "--model", "rnn", "--model-dim", 7], "--model-dim is 7"),
        ([table, *columns, "--model", "lstm", "--smiles-columns", "a"], "--smiles-columns applies to"),
    ]
    for words, message in cases:
        code, out, err = edgewise("train", *words, "--task-type", "translation", "-o", tmp_path / "b")
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert not (tmp_path / "b").exists()
