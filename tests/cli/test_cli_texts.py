"""`edgewise train reviews.csv --text-columns text`: what a run leaves, what it says, what it refuses."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import edgewise.learn.tasks.run as job
from cli_tables import read_csv, write_csv
from edgewise.learn.readers.texts.tokenizer import ALL_UNKNOWN
from review_tables import reviews

SMALL = ["--model-dim", 16, "--num-heads", 2, "--learning-rate", 3e-3, "--batch-size", 16]
COLUMNS = ["--text-columns", "text", "--target-columns", "label", "--ignore-columns", "stars"]


@pytest.fixture
def table(tmp_path):
    texts, labels, stars = reviews(100)
    return write_csv(tmp_path / "reviews.csv", {"text": texts, "label": labels, "stars": stars})


@pytest.fixture
def learn(edgewise, tmp_path):
    def run(*words, folder="run"):
        return edgewise("train", *words, *SMALL, "--epochs", 8, "-o", tmp_path / folder)

    return run


def test_classes_from_a_table(table, learn, edgewise, paste, tmp_path):
    code, out, err = learn(table, *COLUMNS)
    assert (code, err) == (0, "")
    for words in (
        "100 rows,",
        "distinct texts, 0 rows rejected",
        "80 training, 10 validation and 10 test rows (split: random)",
        "a vocabulary of 12 words from the training rows",
        "naive Bayes, pairs of words",
        "logistic regression, pairs of words",
        "training frequencies",
    ):
        assert words in out
    paste(out)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["test"]["label"]["accuracy"] == 1.0
    assert metrics["baselines"].keys() == {"mean", "naive_bayes", "logistic"}
    new = tmp_path / "new.csv"
    write_csv(new, {"text": ["a great film", "", "awful", "Zug um Zug"], "more": ["1", "2", "3", "4"]})
    code, out, err = edgewise("predict", tmp_path / "run", new, "-o", tmp_path / "predicted.csv")
    assert (code, out) == (0, "")
    assert "3 of 4 rows predicted, 1 of them from unknown words alone; 1 could not be" in err
    assert err.startswith("warning: 3 of 7 tokens (42.9%) are out of vocabulary")
    rows = read_csv(tmp_path / "predicted.csv")
    assert [row["label_pred"] for row in rows[:3]] == ["good", "", "bad"]
    assert [row["status"] for row in rows] == ["ok", "text: the text is empty", "ok", ALL_UNKNOWN]
    assert float(rows[0]["label_prob_good"]) > 0.5 > float(rows[0]["label_prob_bad"])
    assert rows[1]["more"] == "2"


def test_numbers_from_a_recurrent_network(table, learn, edgewise, tmp_path):
    columns = ["--text-columns", "text", "--target-columns", "stars", "--ignore-columns", "label"]
    code, out, _ = learn(table, *columns, "--model", "lstm", "--split-sizes", 0.6, 0.2, 0.2)
    assert code == 0
    assert "ridge regression, pairs of words" in out
    assert "of these values lie within their interval (90% were promised)" in out
    (tmp_path / "lines.txt").write_text("a great film\nawful\n")
    code, out, _ = edgewise("predict", tmp_path / "run", tmp_path / "lines.txt", "-o", "-")
    assert code == 0
    assert out.splitlines()[0] == "text,stars_pred,stars_std,stars_low,stars_high,status"
    code, out, _ = edgewise("fingerprint", tmp_path / "run", tmp_path / "lines.txt", "-o", tmp_path / "vectors.npz")
    assert "2 of 2 rows have a vector of 16" in out
    with np.load(tmp_path / "vectors.npz") as found:
        assert found["vectors"].shape == (2, 16)
        assert not np.allclose(found["vectors"][0], found["vectors"][1])


def test_an_interrupted_run_ends_with_the_same_weights(table, learn, edgewise, tmp_path, monkeypatch):
    assert learn(table, *COLUMNS, folder="whole")[0] == 0
    from edgewise.learn.training.training import Training

    original = Training.end_epoch

    def stopped(self, *details):
        original(self, *details)
        if self.epoch == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "end_epoch", stopped)
        assert learn(table, *COLUMNS)[0] == 130
    assert edgewise("train", "--resume", "-o", tmp_path / "run")[0] == 0
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "run"))
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name])


def test_it_starts_from_what_a_masked_run_has_learned(table, learn, edgewise, tmp_path):
    sizes = ["--num-layers", 1, "--model-dim", 16, "--num-heads", 2, "--epochs", 1]
    masked = tmp_path / "masked"
    words = ["train", table, "--text-columns", "text", "--task-type", "masked", *sizes, "-o", masked]
    assert edgewise(*words)[0] == 0
    recipe = ["--pretrained", masked, "--epochs", 1, "--learning-rate", 1e-12, "--final-learning-rate", 0]
    code, out, _ = edgewise("train", table, *COLUMNS, *recipe, "-o", tmp_path / "run")
    assert code == 0
    assert f"words from {masked}" in out
    start, found = (load_file(folder / "model.safetensors") for folder in (masked, tmp_path / "run"))
    names = [name for name in start if name.startswith("encoder.")]
    assert names
    for name in names:
        np.testing.assert_allclose(found[f"member_0.{name}"], start[name], atol=1e-9)
    code, out, _ = edgewise("predict", tmp_path / "run", table, "-o", "-")
    assert (code, len(out.splitlines())) == (0, 101)
    for words, message in [
        (["--model", "lstm"], "brings its own model"),
        (["--model-dim", 64], "--model-dim is 64, but the model of"),
    ]:
        assert message in edgewise("train", table, *COLUMNS, "--pretrained", masked, *words, "-o", tmp_path / "b")[2]

    (tmp_path / "run/metrics.json").unlink()
    words = ["train", table, "--text-columns", "text", "--task-type", "masked", *sizes, "--seed", 1, "-o", masked]
    assert edgewise(*words, "--overwrite")[0] == 0
    code, _, err = edgewise("train", "--resume", "-o", tmp_path / "run")
    assert code == 2, "one model of an ensemble would have learned from another one than the next"
    assert f"started with other content in {masked}" in err


def test_a_pretrained_model_takes_as_many_columns_as_it_has_embeddings(edgewise, tmp_path):
    """The embedding of the third column lay outside the two of BERT: torch raised an IndexError."""
    texts, labels, _ = reviews(40)
    rows = zip(texts, texts[1:] + texts[:1], texts[::-1], labels, strict=True)
    lines = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    (tmp_path / "table.csv").write_text("a,b,c,label\n" + lines)
    sizes = ["--num-layers", 1, "--model-dim", 16, "--num-heads", 2, "--hidden-dim", 16, "--epochs", 1]
    masked = ["train", "masked", tmp_path / "table.csv", "--text-columns", "a", *sizes]
    train = ["train", "texts", tmp_path / "table.csv", "--target-columns", "label", "--epochs", 1, "--text-columns"]
    bert, plain = tmp_path / "bert", tmp_path / "plain"
    assert edgewise(*masked, "--model", "bert-base", "--context", 64, "-o", bert)[0] == 0
    assert edgewise(*masked, "-o", plain)[0] == 0
    code, _, err = edgewise(*train, "a", "b", "c", "--pretrained", bert, "-o", tmp_path / "refused")
    assert code == 2
    assert f"--pretrained {bert} has embeddings for 2 columns of texts, but there are 3; leave some out" in err
    assert edgewise(*train, "a", "b", "--pretrained", bert, "-o", tmp_path / "two")[0] == 0
    assert edgewise(*train, "a", "b", "c", "--pretrained", plain, "-o", tmp_path / "three")[0] == 0


def test_several_columns_and_an_ensemble(tmp_path, learn):
    texts, labels, _ = reviews(60)
    data = write_csv(tmp_path / "two.csv", {"title": ["", "one"] * 30, "text": texts, "label": labels})
    assert learn(data, "--text-columns", "title", "text", "--ensemble-size", 2)[0] == 0
    tensors = load_file(tmp_path / "run/model.safetensors")
    assert tensors["member_0.encoder.segment.weight"].shape == (2, 16)
    assert not np.allclose(tensors["member_0.output.weight"], tensors["member_1.output.weight"])


def test_long_texts_are_cut_and_counted(tmp_path, learn, edgewise):
    texts, labels, _ = reviews(60)
    texts[7] = "very " * 50 + texts[7]
    data = write_csv(tmp_path / "long.csv", {"text": texts, "label": labels})
    code, out, _ = learn(data, "--text-columns", "text", "--context", 20, "--position", "learned")
    assert code == 0
    assert "1 text has more than --context 20 tokens, cut there" in out
    _, _, err = edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "predicted.csv")
    assert "1 text has more than 20 tokens, cut there" in err


def test_bad_rows_are_listed_and_strict_stops(tmp_path, learn):
    texts, labels, _ = reviews(40)
    texts[3], labels[5] = " ", ""
    data = write_csv(tmp_path / "bad.csv", {"text": texts, "label": labels})
    code, out, _ = learn(data, "--text-columns", "text")
    assert code == 0
    assert "2 rows rejected" in out
    rejected = [(row["line"], row["column"], row["reason"]) for row in read_csv(tmp_path / "run/rejected.csv")]
    assert rejected == [("5", "text", "the text is empty"), ("7", "label", "the target cell is empty")]
    code, _, err = learn(data, "--text-columns", "text", "--strict", folder="strict")
    assert (code, "row 4 (line 5), column 'text': the text is empty" in err) == (2, True)
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "lstm", "--window", 3], "--window belongs to transformers; the lstm has no such choice"),
        (
            ["--model", "lstm", "--readout", "mean", "--num-heads", 8],
            "--num-heads belongs to transformers; the lstm has",
        ),
        (["--model", "gat"], "to read texts expected one of"),
        (["--smiles-columns", "stars"], "--smiles-columns applies to molecules only"),
        (["--text-columns", "txt"], "no column 'txt' (did you mean 'text'?)"),
        (["--split", "scaffold"], "only molecules have scaffolds"),
        (["--pretrained", "nowhere"], "nowhere is not a run folder"),
        (["--task-type", "classification", "--target-columns", "stars"], "is a number with a fraction"),
        (["--head-dim", 3], "--head-dim applies to"),
        (["--word-dropout", 1], "--word-dropout is 1.0; expected at least 0 and below 1"),
    ],
    ids=lambda words: str(words[0]) if isinstance(words, list) else "",
)
def test_what_is_refused(table, edgewise, tmp_path, words, message):
    named = [] if "stars" in words else ["--ignore-columns", "stars"]
    columns = ["--text-columns", "text", "--target-columns", "label", *named]
    code, _, err = edgewise("train", table, *columns, *words, "-o", tmp_path / "run")
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


def test_bytes_that_are_no_text(tmp_path, edgewise):
    data = tmp_path / "latin.csv"
    data.write_bytes("text,label\ncafé,a\n".encode("latin-1"))
    code, _, err = edgewise("train", data, "--text-columns", "text", "-o", tmp_path / "run")
    assert code == 2
    assert "line 2" in err
    assert "UTF-8" in err


def test_a_run_is_interrupted_before_its_first_epoch(table, learn, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "fit", interrupted)
    code, _, err = learn(table, *COLUMNS)
    assert code == 130
    assert f"continue with: edgewise train --resume -o {tmp_path / 'run'}" in err


def test_byte_pairs_have_a_token_to_hide_words_behind(table, learn, tmp_path):
    from edgewise.learn.companions.stack import network_of
    from edgewise.learn.tasks.texts.task import TABLE
    from edgewise.learn.training.folder import RunFolder

    assert learn(table, *COLUMNS, "--tokens", "bpe", "--vocabulary-size", 300, "--no-baselines")[0] == 0
    trained = TABLE.load(RunFolder.finished(tmp_path / "run"))
    assert trained.encoder.tokenizer.mask is not None
    assert network_of(trained.members[0]).unknown == trained.encoder.tokenizer.mask


def test_groups_that_differ_in_blanks_are_one(edgewise, tmp_path):
    texts = [f"{word} film number {row}" for row, word in enumerate(["good", "bad"] * 30)]
    groups = [f"g{row // 2 % 6}" + " " * (row % 4 == 1) for row in range(60)]
    data = write_csv(tmp_path / "t.csv", {"text": texts, "label": ["p", "n"] * 30, "team": groups})
    words = ["--text-columns", "text", "--target-columns", "label", "--group-column", "team", "--split", "group"]
    code, _, err = edgewise("train", "texts", data, *words, *SMALL, "--epochs", 1, "-o", tmp_path / "run")
    assert code == 0, err
    rows = json.loads((tmp_path / "run/splits.json").read_text())
    teams = [{groups[row].strip() for row in rows[split]} for split in ("train", "val", "test")]
    assert not teams[0] & teams[1] | teams[0] & teams[2] | teams[1] & teams[2]
