"""`edgewise train --task-type translation` and `predict`: numbers into words, what a run leaves, what it refuses."""

import csv
import json

import pytest
from cli_tables import read_csv

DIGITS = {"1": "eins", "2": "zwei", "3": "drei", "4": "vier"}
SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 32, "--hidden-dim", 64, "--dropout", 0, "--threads", 1]
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


def test_a_run_leaves_everything_it_promises(table, edgewise, tmp_path):
    run = tmp_path / "run"
    code, out, err = edgewise("train", table, "--text-columns", "en", "--target-columns", "de", *QUICK, "-o", run)
    assert (code, err) == (0, "")
    assert "64 pairs, 0 rejected" in out
    assert "not translated" in out
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["rows"] == {"train": 51, "val": 7, "test": 6, "rejected": 0}
    assert {"bleu", "loss"} <= metrics["test"].keys()
    rows = read_csv(run / "test_predictions.csv")
    assert [row["de"] for row in rows] == [pairs(64)[int(row["row_in_data"])][1] for row in rows]
    again = tmp_path / "again"
    assert edgewise("train", "--config-path", run / "config.toml", "-o", again)[0] == 0
    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_it_learns_to_translate(edgewise, tmp_path):
    """Thirteen of the sixty-four numbers were never seen."""
    rows = pairs(64)
    unseen = rows[::5]
    write_table(tmp_path / "train.csv", [row for row in rows if row not in unseen] * 4)
    write_table(tmp_path / "test.csv", unseen)
    words = ["--text-columns", "en", "--target-columns", "de", *SMALL, "--vocabulary-size", 280]
    recipe = ["--epochs", 120, "--batch-size", 96, "--learning-rate", 0.003, "--task-type", "translation"]
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


def test_aligned_files(edgewise, tmp_path):
    names = []
    for part, rows in (("train", pairs(40)), ("val", pairs(8, 40)), ("test", pairs(8, 48))):
        for side, language in enumerate(("en", "de")):
            names.append(tmp_path / f"{part}.{language}")
            names[-1].write_text("".join(row[side] + "\n" for row in rows))
    code, out, err = edgewise("train", *names, *QUICK, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "40 training, 8 validation and 8 test pairs" in out
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
    assert [(row["row"], row["column"]) for row in listed] == [("32", "de"), ("34", "en"), ("33", "source")]
    assert "more than --context 20" in listed[2]["reason"]


def test_bad_words(table, edgewise, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    columns = ["--text-columns", "en", "--target-columns", "de"]
    cases = [
        ([tmp_path / "a.en", tmp_path / "a.de"], "a.en has 2 lines"),
        ([tmp_path / "a.en"], "1 files of lines"),
        ([table], "one column to read and one to write"),
        ([table, "--text-columns", "english", "--target-columns", "de"], "english"),
        ([table, *columns, "--beam-size", 0], "--beam-size is 0"),
        ([table, *columns, "--label-smoothing", 1], "--label-smoothing is 1"),
        ([table, *columns, "--split-sizes", 1, 0], "three parts"),
    ]
    for words, message in cases:
        code, out, err = edgewise("train", *words, *SMALL, "--task-type", "translation", "-o", tmp_path / "b")
        assert (code, out) == (2, ""), words
        assert message in err, err
    assert not (tmp_path / "b").exists()
