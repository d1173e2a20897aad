"""`edgewise train book.txt` and `edgewise generate`: what a run leaves, goes on from, prints and refuses."""

import json
import tomllib

import pytest

SONG = "the cat sat on the mat and the dog sat on the log. " * 30
SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 16, "--context", 16, "--steps", 4, "--threads", 1]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(SONG)
    return path


def test_a_run_leaves_everything_it_promises(book, edgewise, paste, tmp_path):
    run = tmp_path / "run"
    code, out, err = edgewise("train", book, *SMALL, "-o", run)
    assert (code, err) == (0, "")
    assert "1,530 characters; 1,377 training and 153 validation tokens out of a vocabulary of 16" in out
    assert paste(out) == [["edgewise", "generate", str(run)]]
    for name in (
        "config.toml",
        "metrics.json",
        "model.json",
        "model.safetensors",
        "tokenizer.json",
        "logs/metrics.csv",
    ):
        assert (run / name).is_file(), name
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["steps"] == 4
    assert metrics["validation"]["loss"] > 0
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["task-type"], config["context"], config["data"]) == ("language", 16, [str(book)])


def test_a_run_can_be_repeated_and_gone_on_with(book, edgewise, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    edgewise("train", book, *SMALL, "-o", first)
    code, _, err = edgewise("train", "--config-path", first / "config.toml", "-o", again)
    assert (code, err) == (0, "")
    assert (again / "model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()
    assert "nothing to resume" in edgewise("train", "--resume", "-o", first)[1]
    (first / "metrics.json").unlink()
    (first / "model.json").unlink()
    code, _, _ = edgewise("train", "--resume", "-o", first)
    assert code == 0
    assert (first / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()
    book.write_text(SONG + "more")
    (first / "metrics.json").unlink()
    assert "other content" in edgewise("train", "--resume", "-o", first)[2]


def test_it_writes(book, edgewise, tmp_path):
    run = tmp_path / "run"
    edgewise("train", book, *SMALL, "-o", run)
    code, out, err = edgewise("generate", run, "--prompt", "the cat", "--num-tokens", 9, "--seed", 3)
    assert (code, err) == (0, "")
    assert out.startswith("the cat")
    assert len(out) == len("the cat") + 9 + 1
    assert edgewise("generate", run, "--prompt", "the cat", "--num-tokens", 9, "--seed", 3)[1] == out


def test_a_prompt_that_is_too_long_is_cut_and_it_says_so(book, edgewise, tmp_path):
    run = tmp_path / "run"
    edgewise("train", book, *SMALL, "--position", "learned", "-o", run)
    code, out, err = edgewise("generate", run, "--prompt", SONG[:50], "--num-tokens", 2)
    assert code == 0
    assert "the first 34 tokens are left out, the last 16 are read" in err
    assert out.startswith(SONG[:50])


def test_bad_words(book, edgewise, tmp_path):
    run = tmp_path / "run"
    edgewise("train", book, *SMALL, "-o", run)
    cases = [
        (["generate", run, "--prompt", "Ä"], "characters that the model has never seen: 'Ä'"),
        (["generate", run, "--prompt", ""], "the prompt is empty"),
        (["generate", run, "--top-p", 2], "--top-p is 2.0"),
        (["generate", tmp_path / "nowhere"], "is not a run folder"),
        (["train", book, "-o", run], "holds a finished run"),
        (["train", book, "--context", 4000, "-o", tmp_path / "b"], "fewer than --context"),
        (["train", book, "--smiles-columns", "a", "-o", tmp_path / "b"], "smiles-columns"),
        (["train", tmp_path / "no.txt", "-o", tmp_path / "b"], "no such file"),
        (
            ["predict", run, book, "-o", tmp_path / "p.csv"],
            "holds an edgewise language model, whose predictions cannot be written",
        ),
    ]
    for words, message in cases:
        code, out, err = edgewise(*words)
        assert (code, out) == (2, ""), words
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "b").exists()


def test_the_next_token_is_explained(book, edgewise, tmp_path):
    run = tmp_path / "run"
    edgewise("train", book, *SMALL, "-o", run)
    code, out, err = edgewise("explain", run, "the cat ", "--label", "s", "-o", tmp_path / "next.json")
    assert (code, err) == (0, "")
    assert out.startswith("the cat: next token is ")
    (found,) = json.loads((tmp_path / "next.json").read_text())
    assert (found["explained"], found["sources"]) == ("next token = s", {"text": "the cat "})
    assert [unit["name"] for unit in found["units"]] == [*"the", "␣", *"cat", "␣"]
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\n\nthe dog\n")
    code, out, _ = edgewise("explain", run, lines, "-o", tmp_path / "lines.html")
    assert code == 0
    assert out.splitlines()[-1] == f"2 explanations: {tmp_path / 'lines.html'}"
    assert edgewise("explain", run, "on the", "-o", tmp_path / "next.svg")[0] == 0
    refused = {
        (): f"{run} has no table of test rows; name what to explain: an input in quotes, or a file of rows (.csv",
        ("the XY",): "the prompt has characters that the model has never seen: 'X', 'Y'",
        ("the", "--label", "the"): "label is 'the', which is 3 tokens",
        ("the", "--target", "y"): "target is 'y'; the model predicts next token.",
        ("",): "the prompt is empty",
    }
    for words, message in refused.items():
        code, out, err = edgewise("explain", run, *words, "-o", tmp_path / "no.html")
        assert (code, out) == (2, "")
        assert message in err


def test_another_text_validates(book, edgewise, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the dog sat on the cat. " * 10)
    run = tmp_path / "run"
    words = ["train", book, *SMALL, "--validation-data", other]
    code, out, err = edgewise(*words, "-o", run)
    assert code == 0, err
    assert "1,530 training and 240 validation tokens" in out and f"validation: {other}" in out
    assert json.loads((run / "metrics.json").read_text())["tokens"]["validation"] == 240
    (run / "metrics.json").unlink()
    (run / "model.json").unlink()
    assert edgewise("train", "--resume", "-o", run)[0] == 0
    (run / "metrics.json").unlink()
    other.write_text("the dog sat on the mat. " * 10)
    assert "other content" in edgewise("train", "--resume", "-o", run)[2]
    assert "is given twice as data" in edgewise(*words[:-1], book, "-o", tmp_path / "b")[2]
    err = edgewise(*words, "--split-sizes", 0.5, 0.5, "-o", tmp_path / "c")[2]
    assert "--validation-data names another; leave one out" in err


def test_a_table_as_one_text_is_said(edgewise, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "good film,1\nbad film,0\n" * 20)
    code, out, err = edgewise("train", "language", table, *SMALL, "-o", tmp_path / "run")
    assert code == 0, err
    assert f"warning: {table} is read as one text, with its first line and its separators" in out
