"""`edgewise train --task-type masked`: what a run leaves, goes on from, prints, learns and refuses."""

import csv
import gzip
import json
import tomllib

import numpy as np
import pytest
import torch

from cli_tables import read_csv
from edgewise.errors import RunFolderError
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.readers.texts.tokenizer import ALL_UNKNOWN
from edgewise.learn.tasks.masked.task import load, scores_of_frequency
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.masks import Masking, MaskLoader, TokenChunks
from trained_runs import ANIMALS

SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 16, "--context", 16, "--threads", 1]
QUICK = [*SMALL, "--task-type", "masked", "--epochs", 2, "--batch-size", 128]


def sentences(count):
    animals = [*ANIMALS]
    places = np.random.default_rng(0).integers(0, len(animals), count)
    return [f"the {animals[place]} always {ANIMALS[animals[place]]} ." for place in places]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(sentences(100)) + "\n")
    return path


def write_table(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("title", "text"), *rows])
    return path


def test_a_run_leaves_everything_it_promises(lines, edgewise, paste, tmp_path):
    run = tmp_path / "run"
    code, out, err = edgewise("train", lines, *QUICK, "-o", run)
    assert (code, err) == (0, "")
    assert "100 texts; a vocabulary of 14\n90 training and 10 validation texts; 450 and 50 tokens\n" in out
    assert "validation texts: 8 hidden tokens" in out
    assert "most frequent" in out
    paste(out)
    names = ("config.toml", "metrics.json", "model.json", "model.safetensors", "tokenizer.json", "splits.json")
    for name in (*names, "rejected.csv", "logs/metrics.csv"):
        assert (run / name).is_file(), name
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["tokens"] == {"vocabulary": 14, "train": 450, "val": 50, "hidden": 8}
    for scores in (metrics["validation"], metrics["baselines"]["frequency"]["validation"]):
        assert scores.keys() == {"loss", "perplexity", "accuracy"}
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["task-type"], config["context"], config["mask-fraction"]) == ("masked", 16, 0.15)
    rows = json.loads((run / "splits.json").read_text())
    assert sorted(rows["train"] + rows["val"]) == list(range(0, 200, 2))  # every other line is blank


def test_it_learns_what_token_counts_cannot_predict(lines, edgewise, tmp_path):
    """Half of the tokens are the same in every text; the sound an animal makes follows from its name alone."""
    lines.write_text("\n".join(sentences(400)))
    recipe = ["--epochs", 25, "--learning-rate", 0.003, "--dropout", 0, "--task-type", "masked", "--batch-size", 64]
    assert edgewise("train", lines, *SMALL, "--model-dim", 32, *recipe, "-o", tmp_path / "run")[0] == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["validation"]["loss"] < 0.5 * metrics["baselines"]["frequency"]["validation"]["loss"]
    trained = load(RunFolder.finished(tmp_path / "run"))
    tokenizer = trained.encoder.tokenizer
    for animal, sound in ANIMALS.items():
        tokens = torch.from_numpy(tokenizer.encode(f"the {animal} always <mask> .").numbers)
        assert tokens[3] == tokenizer.mask
        with torch.no_grad():
            assert tokenizer.decode([int(trained.model(TokenBatch(tokens))[3].argmax())]) == sound
            assert trained.model.encoder(TokenBatch(tokens)).shape == (5, 32)


def test_a_vector_for_each_text(edgewise, tmp_path):
    """The mean of the encoder's vectors over all tokens of a row, a long text in pieces."""
    rows = [("a b", "c d e"), ("", ""), ("", " ".join("abcdefgh" * 5))] * 10
    table = write_table(tmp_path / "table.csv", rows)
    run = tmp_path / "run"
    assert edgewise("train", table, "--text-columns", "title", "text", *QUICK, "-o", run)[0] == 0
    code, out, err = edgewise("fingerprint", run, table, "-o", tmp_path / "vectors.npz")
    assert (code, err) == (0, "")
    assert "20 of 30 rows have a vector of 16" in out
    with np.load(tmp_path / "vectors.npz") as found:
        vectors, status = found["vectors"], found["status"]
    assert status[:3].tolist() == ["ok", "title: the text is empty", "ok"]
    assert np.isnan(vectors[1]).all()
    trained = load(RunFolder.finished(run))
    trained.model.eval()
    for row, texts in ((0, rows[0]), (2, rows[2])):
        numbers = [torch.from_numpy(trained.encoder.tokenizer.encode(text).numbers) for text in texts]
        pieces = [piece for each in numbers for piece in each.split(16) if len(piece)]
        with torch.no_grad():
            expected = torch.cat([trained.model.encoder(TokenBatch(piece)) for piece in pieces]).mean(0)
        np.testing.assert_allclose(vectors[row], expected, atol=1e-5)
    (tmp_path / "lines.txt").write_text("a b\n\nc\n")
    code, out, _ = edgewise("fingerprint", run, tmp_path / "lines.txt", "-o", tmp_path / "lines.npz")
    assert (code, "2 of 3 rows" in out) == (0, True)
    lines = tmp_path / "texts.txt"
    lines.write_text("a b c\n" * 20)
    assert edgewise("train", lines, *QUICK, "-o", tmp_path / "lines")[0] == 0
    code, _, err = edgewise("fingerprint", tmp_path / "lines", table, "-o", tmp_path / "x.npz")
    assert (code, "name the columns that hold texts: --text-columns text" in err) == (2, True)


def test_a_vector_of_unknown_words_says_so(edgewise, tmp_path):
    """Its status was ok, where that of a prediction was not."""
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(sentences(30)) + "\n")
    assert edgewise("train", lines, *QUICK, "-o", tmp_path / "run")[0] == 0
    lines.write_text(f"{sentences(1)[0]}\nqqq zzz\n")
    code, out, _ = edgewise("fingerprint", tmp_path / "run", lines, "-o", tmp_path / "vectors.npz")
    assert code == 0
    assert "2 of 2 rows have a vector of 16, 1 of them with a remark in status" in out
    with np.load(tmp_path / "vectors.npz") as found:
        assert found["status"].tolist() == ["ok", ALL_UNKNOWN]


def test_a_run_that_was_stopped_goes_on_with_the_same_bits(lines, edgewise, tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert edgewise("train", lines, *QUICK, "--epochs", 4, "-o", whole)[0] == 0
    batches = MaskLoader.batches

    def interrupted(loader, order, random):
        for number, batch in enumerate(batches(loader, order, random)):
            if (loader.seed, loader.epoch, number) == (0, 2, 1):
                raise KeyboardInterrupt
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(MaskLoader, "batches", interrupted)
        code, _, err = edgewise("train", lines, *QUICK, "--epochs", 4, "-o", stopped)
    assert code == 130
    assert f"edgewise train --resume -o {stopped}" in err
    assert not (stopped / "model.safetensors").exists()
    code, _, err = edgewise("train", "--resume", "-o", stopped)
    assert (code, err) == (0, "")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    assert "nothing to resume" in edgewise("train", "--resume", "-o", stopped)[1]
    lines.write_text(lines.read_text() + "more\n")
    (stopped / "metrics.json").unlink()
    assert "was started with other content" in edgewise("train", "--resume", "-o", stopped)[2]


def test_cells_of_a_table(edgewise, tmp_path):
    rows = [("short", text) for text in sentences(28)] + [("", "word " * 40), ("a", " ")]
    table = write_table(tmp_path / "reviews.csv", rows)
    run = tmp_path / "run"
    code, out, err = edgewise("train", table, "--text-columns", "title", "text", *QUICK, "-o", run)
    assert (code, err) == (0, "")
    assert "58 texts, 2 empty cells rejected" in out
    assert f"the first in {table}, line 30: title: the text is empty" in out
    assert "1 text is longer than --context 16 and read in pieces of that length" in out
    listed = read_csv(run / "rejected.csv")
    assert [(row["line"], row["column"], row["reason"]) for row in listed] == [
        ("30", "title", "the text is empty"),
        ("31", "text", "the text is empty"),
    ]
    assert sum(json.loads((run / "metrics.json").read_text())["tokens"][part] for part in ("train", "val")) == (
        28 * 6 + 40 + 1
    )
    code, out, _ = edgewise("train", table, "--text-columns", "text", *QUICK, "-o", tmp_path / "one")
    assert "29 texts, 1 empty cell rejected" in out


@pytest.mark.parametrize(
    "words",
    [
        ["--tokens", "characters"],
        ["--tokens", "bpe", "--vocabulary-size", 300, "--position", "t5", "--window", 5],
        ["--model", "bert-base", "--num-layers", 1, "--num-heads", 2, "--model-dim", 16, "--hidden-dim", 32],
        ["--split-sizes", 1, 0],
        ["--precision", "bf16", "--mask-fraction", 0.5],
    ],
    ids=str,
)
def test_other_tokens_models_and_parts(lines, edgewise, tmp_path, words):
    code, out, err = edgewise("train", lines, *QUICK, *words, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert ("no validation texts" in out) == (words[0] == "--split-sizes")
    load(RunFolder.finished(tmp_path / "run"))


def test_validation_texts_of_unknown_words_alone_score_nothing(edgewise, tmp_path):
    rows = [("a b c " * 5).strip()] * 9
    path = tmp_path / "texts.txt"
    for place in range(10):  # wherever the draw puts the only validation text
        path.write_text("\n".join([*rows[:place], "x y z", *rows[place:]]))
        code, _, err = edgewise("train", path, *QUICK, "--epochs", 1, "-o", tmp_path / "run", "--overwrite")
        assert (code, err) == (0, "")
    assert "validation" in json.loads((tmp_path / "run/metrics.json").read_text())


def test_compressed_lines(lines, edgewise, tmp_path):
    packed = tmp_path / "texts.txt.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    for name, path in (("plain", lines), ("packed", packed)):
        assert edgewise("train", path, *QUICK, "-o", tmp_path / name)[0] == 0
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "packed"))
    assert first == second


def test_counting_tokens_by_hand():
    """Tokens 2, 3 and 4 stand 3, 1 and 0 times: with one more each p is 4/7, 2/7 and 1/7."""
    masking = Masking(1, np.array([2, 3, 4]), part=0.9999)
    training = TokenChunks.of([np.array([2, 2, 0, 3, 2])], 8)
    loader = MaskLoader(TokenChunks.of([np.array([2, 3, 4, 0])], 8), masking, 8)
    found = scores_of_frequency(training, masking, loader, 5)
    assert found.loss == pytest.approx(-np.log([4 / 7, 2 / 7, 1 / 7]).mean())
    assert found.accuracy == pytest.approx(1 / 3)


def test_bad_words(lines, edgewise, trained_run, tmp_path):
    run = trained_run("masked", copy=tmp_path / "run")
    table = write_table(tmp_path / "reviews.csv", [("good", "fine"), ("bad", "poor")])
    empty, blank = write_table(tmp_path / "empty.csv", [("", " "), (" ", "")]), tmp_path / "blank.txt"
    blank.write_text("\n \n")
    (tmp_path / "nothing.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes("one\nzwölf\n".encode("latin-1"))
    masked = ["--task-type", "masked"]
    cases = [
        ([tmp_path / "nothing.txt", *masked], "nothing.txt: the file is empty"),
        ([blank, *masked], "blank.txt: the file is empty"),
        ([empty, *masked, "--text-columns", "title", "text"], "every cell of 'title', 'text' is empty"),
        ([tmp_path / "latin.txt", *masked], "latin.txt, line 2: byte 0xf6 at offset 6 is not UTF-8"),
        ([table, *masked], "name the columns that hold texts"),
        ([table, *masked, "--text-columns", "txt"], "no column 'txt' (did you mean 'text'?)"),
        ([lines, *masked, "--text-columns", "text"], "is a text file"),
        ([lines, *masked, "--context", 1], "--context is 1; expected at least 2"),
        ([lines, *masked, "--mask-fraction", 0], "--mask-fraction is 0.0; expected above 0 and below 1"),
        ([lines, *masked, "--split-sizes", 0.8, 0.1, 0.1], "two fractions"),
        ([lines, *masked, "--split-sizes", 0.001, 0.999], "0 training texts have no token that could be hidden"),
        ([lines, *masked, "--steps", 5], "--steps applies to"),
        ([lines, *masked, "--target-columns", "a"], "--target-columns applies to"),
        ([lines, *masked, "--smiles-columns", "a"], "--smiles-columns applies to"),
        ([lines, *masked, "--model", "gat"], "for masked tokens expected one of gpt2"),
        ([lines, *masked, "--tokens", "bpe", "--vocabulary-size", 9], "need at least 258"),
        ([lines, *masked, "--vocabulary-size", 3], "a larger --vocabulary-size"),
        ([lines, "--mask-fraction", 0.2], "--mask-fraction applies to"),
        ([*masked], "no data file was given"),
    ]
    for words, message in cases:
        code, out, err = edgewise("train", *words, "-o", tmp_path / "b")
        assert (code, out) == (2, ""), words
        assert message in err, err
        assert err.count("\n") == 1
    assert not (tmp_path / "b").exists()
    assert "is not an edgewise language model" in edgewise("generate", run)[2]
    assert edgewise("predict", run, table, "-o", tmp_path / "p.csv")[0] == 2
    (run / "model.safetensors").write_bytes(b"what")
    with pytest.raises(RunFolderError, match=r"model\.safetensors is damaged"):
        load(RunFolder.finished(run))
