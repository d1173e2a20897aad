"""Whatever stands in a file: one clear line, or a row that keeps its place."""

import gzip
import importlib.util
import json

import pytest

from cli_tables import SMALL, molecules, read_csv, write_csv


def fails(result) -> str:
    """The one line that a failed command printed."""
    code, _, err = result
    assert code == 2
    assert err.startswith("edgewise: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


def test_single_bad_rows_are_listed_and_the_run_goes_on(train, tmp_path):
    smiles = molecules()
    targets = [str(len(text)) for text in smiles]
    smiles[3], smiles[7] = "C1CC", ""
    targets[11], targets[12], targets[13], targets[14] = "abc", "inf", "", "-Infinity"
    data = write_csv(tmp_path / "bad.csv", {"smiles": smiles, "y": targets})
    code, out, err = train(data, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "40 rows, 38 distinct molecules, 6 rows rejected" in out
    rejected = read_csv(tmp_path / "run/rejected.csv")
    # Lines of the file: the header is line 1.
    assert [(int(row["line"]), row["column"], row["value"]) for row in rejected] == [
        (5, "smiles", "C1CC"),
        (9, "smiles", ""),
        (13, "y", "abc"),
        (14, "y", "inf"),
        (15, "y", ""),
        (16, "y", "-Infinity"),
    ]
    assert all(row["reason"] and row["file"] == str(data) for row in rejected)
    splits = json.loads((tmp_path / "run/splits.json").read_text())
    assert not {3, 7, 11, 12, 13, 14} & set(splits["train"] + splits["val"] + splits["test"])
    assert json.loads((tmp_path / "run/metrics.json").read_text())["rows"]["rejected"] == 6


def test_strict_stops_at_the_first_and_writes_nothing(train, tmp_path):
    smiles = molecules()
    smiles[3] = "C1CC"
    data = write_csv(tmp_path / "bad.csv", {"smiles": smiles, "y": range(40)})
    err = fails(train(data, "--strict", "-o", tmp_path / "run"))
    for word in ("bad.csv", "line 5", "'smiles'", "C1CC"):
        assert word in err
    assert not (tmp_path / "run").exists()


def test_bad_conditions_and_weights_are_rows_too(edgewise, tmp_path):
    smiles = molecules()
    kelvin, weight = [str(300 + row) for row in range(40)], ["1"] * 40
    kelvin[2], kelvin[3], weight[5] = "warm", "nan", "-1"
    data = write_csv(tmp_path / "bad.csv", {"smiles": smiles, "kelvin": kelvin, "w": weight, "y": range(40)})
    columns = ["--smiles-columns", "smiles", "--descriptors-columns", "kelvin", "--weight-column", "w"]
    columns += ["--missing", "drop"]
    words = [*columns, "--target-columns", "y", *SMALL, "--no-baselines", "-o", tmp_path / "run"]
    code, _, err = edgewise("train", data, *words)
    assert (code, err) == (0, "")
    found = [(row["line"], row["column"]) for row in read_csv(tmp_path / "run/rejected.csv")]
    assert found == [("4", "kelvin"), ("5", "kelvin"), ("7", "w")]
    # Rows to predict need no weight, but they need the temperature.
    assert edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "out.csv")[0] == 0
    status = [row["status"] for row in read_csv(tmp_path / "out.csv")]
    assert [row for row, word in enumerate(status) if word != "ok"] == [2, 3]


@pytest.mark.parametrize(("column", "limit"), [("y", "1e+100"), ("w", "1e+37")])
def test_magnitudes_that_cannot_be_scaled_are_refused_before_the_training(edgewise, tmp_path, column, limit):
    huge = {"y": "-1e308", "w": "1e300"}[column]
    cells = {"y": "1", "w": "1", column: huge}
    table = tmp_path / "huge.csv"
    table.write_text("smiles,y,w\n" + "".join(f"{'C' * size}O,{cells['y']},{cells['w']}\n" for size in range(1, 30)))
    columns = ["--smiles-columns", "smiles", "--target-columns", "y", "--weight-column", "w"]
    code, _, err = edgewise("train", "molecules", table, *columns, "-o", tmp_path / "run")
    assert code == 2 and f"line 2, {column}: {huge!r} is beyond ±{limit}, too large to be scaled" in err
    assert "learning-rate" not in err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"smiles,y\n", ["no rows"]),
        (b"smiles,y\nCCO,1\n\xff\xfe,2\n", ["UTF-8", "line 3"]),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ["data.csv"]),
        (b"PK\x03\x04abc", ["Excel"]),
        (b"smiles,y\nCCO,1,2\n", ["line 2"]),
        (b"smiles,y,y\nCCO,1,2\n", ["'y'"]),
        (b"smiles,z\nCCO,1\n", ["'y'", "'z'"]),
        (b"SMILES,y\nCCO,1\n", ["'smiles'", "'SMILES'"]),
        (b"smiles;y\nCCO;1\n", ["';'"]),
        (b"smiles,y\nC1C,1.5\nC(,2.5\n", ["none of its 2 rows"]),
    ],
)
def test_files_that_are_no_table(train, tmp_path, content, words):
    data = tmp_path / "data.csv"
    data.write_bytes(content)
    err = fails(train(data, "-o", tmp_path / "run"))
    assert str(data) in err
    assert all(word in err for word in words)
    assert not (tmp_path / "run").exists()


def test_files_that_are_not_there_or_of_another_kind(train, tmp_path):
    assert "absent.csv: no such file" in fails(train(tmp_path / "absent.csv", "-o", tmp_path / "run"))
    (tmp_path / "data.ods").write_bytes(b"x")
    assert "'.ods'" in fails(train(tmp_path / "data.ods", "-o", tmp_path / "run"))
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"smiles,y\n")[:-4])
    assert "cannot be unpacked" in fails(train(tmp_path / "data.csv.gz", "-o", tmp_path / "run"))
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in fails(train(tmp_path / "folder.csv", "-o", tmp_path / "run"))


def test_files_of_different_columns_are_both_named(table, edgewise, tmp_path):
    other = write_csv(tmp_path / "other.csv", {"smiles": ["CCO"], "y": [1]})
    words = ["--smiles-columns", "smiles", "--target-columns", "y", "-o", tmp_path / "run"]
    err = fails(edgewise("train", table, other, *words))
    assert str(table) in err
    assert str(other) in err
    assert "'name'" in err


def test_a_word_in_the_splits_column_that_is_no_part(train, tmp_path):
    data = write_csv(tmp_path / "s.csv", {"smiles": molecules(), "y": range(40), "part": ["train"] * 39 + ["holdout"]})
    err = fails(train(data, "--splits-column", "part", "-o", tmp_path / "run"))
    assert "'holdout'" in err
    assert "line 41" in err


def test_classes_that_are_none(train, tmp_path):
    data = write_csv(tmp_path / "c.csv", {"smiles": molecules(), "y": [row % 3 for row in range(40)]})
    err = fails(train(data, "--task-type", "classification", "-o", tmp_path / "run"))
    assert "multiclass" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "0"], "--epochs is 0; expected at least 1."),
        (["--threads", "100000"], "--threads is 100000; expected at least 1 and at most 1024."),
        (["--epochs", "many"], "argument --epochs: invalid int value: 'many'"),
        (["--split-sizes", "0.5", "0.5", "0.5"], "sum to 1"),
        (["--split-sizes", "1"], "--split-sizes is 1"),
        (["--split", "group"], "--group-column is not given; name the column"),
        (["--split", "alphabet"], "is 'alphabet'; expected one of"),
        (["--split", "random", "--splits-column", "name"], "--split random and --splits-column contradict each other"),
        (["--coverage", "2"], "--coverage is 2.0; expected above 0 and below 1"),
        (["--ensemble-size", "0"], "--ensemble-size is 0; expected at least 1 and at most 1000."),
        (["--num-heads", "3"], "must be a multiple of --num-heads (3)"),
        (["--score", "magic"], "is 'magic'; expected one of"),
        (["--model", "gcn", "--score", "dot"], "--score goes with --model attention"),
        (["--temperature", "-1"], "--temperature is -1.0"),
        (["--logger", "wandb"], "--logger wandb needs the package wandb"),
        (["--overwrite", "--resume"], "contradict each other"),
        (["--weight-column", "y"], "a column has one role"),
        (["--learning-rat", "1"], "unknown flag --learning-rat. Did you mean --learning-rate?"),
        (["--config-path", "absent.toml"], "absent.toml does not exist."),
    ],
)
def test_settings_that_cannot_be(table, train, tmp_path, words, message):
    if "wandb" in words and importlib.util.find_spec("wandb"):
        pytest.skip("wandb is installed")
    assert message in fails(train(table, *words, "-o", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('epoch = 3\nsmiles-columns = ["smiles"]\n', "has the unknown setting 'epoch'. Did you mean --epochs?"),
        ('epochs = "3"\nsmiles-columns = ["smiles"]\n', "has epochs = '3'; expected int."),
        ("epochs = true\n", "has epochs = True; expected int."),
        ("[train]\nepochs = 3\n", "has the unknown setting 'train'"),
        ("epochs = 3 3\n", "is not a TOML file"),
    ],
)
def test_configuration_files_with_mistakes(table, edgewise, tmp_path, content, message):
    config = tmp_path / "my.toml"
    config.write_text(content)
    err = fails(edgewise("train", table, "--config-path", config, "-o", tmp_path / "run"))
    assert message in err
    assert str(config) in err


@pytest.mark.parametrize("data", ["3", "true", "{ a = 1 }", "[1]"])
def test_data_of_a_configuration_file_that_names_no_files(edgewise, tmp_path, data):
    """Without -o the run folder is named by the file; a number there ended in a TypeError."""
    config = tmp_path / "my.toml"
    config.write_text(f'data = {data}\nsmiles-columns = ["smiles"]\n')
    err = fails(edgewise("train", "molecules", "--config-path", config))
    assert f"{config} has " in err and "data" in err


def test_what_is_needed_and_not_said(table, edgewise, tmp_path):
    assert "no data file was given" in fails(edgewise("train", "--smiles-columns", "smiles", "-o", tmp_path / "run"))
    assert "no --smiles-columns were given" in fails(edgewise("train", table, "-o", tmp_path / "run"))
    assert "no data file was given" in fails(edgewise("train", "--resume", "-o", tmp_path / "run"))
    # The last flag takes all words that follow.
    err = fails(edgewise("train", "--smiles-columns", "smiles", table))
    assert "the file stands before flags that take several values" in err


def test_a_run_folder_that_is_a_file(table, train, tmp_path):
    (tmp_path / "run").write_text("mine")
    assert "is a file; choose another folder with -o" in fails(train(table, "--overwrite", "-o", tmp_path / "run"))
    assert (tmp_path / "run").read_text() == "mine"


def test_limits_on_tables_are_flags(train, tmp_path):
    data = write_csv(tmp_path / "wide.csv", {"smiles": molecules(), "y": range(40), "note": ["x" * 2_000] * 40})
    err = fails(train(data, "--max-columns", 2, "-o", tmp_path / "run"))
    assert "wide.csv, line 1: 3 columns, expected at most 2; if the table is meant to be so wide, raise --max-" in err
    err = fails(train(data, "--max-row-bytes", 1_000, "-o", tmp_path / "run"))
    assert "wide.csv, line 2: the row that begins here has more than 1,000 bytes." in err
    assert "--max-columns is 0; expected at least 1." in fails(train(data, "--max-columns", 0, "-o", tmp_path / "run"))


def test_a_folder_of_other_files_is_never_trained_into(table, edgewise, tmp_path, monkeypatch):
    words = ["train", table, "--smiles-columns", "smiles", "--target-columns", "y"]
    other = tmp_path / "other"
    for name in ("logs/journal.txt", "checkpoints/llama.bin", "report.html", "model.safetensors"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text("mine")
    monkeypatch.chdir(other)
    for flags in ([], ["--overwrite"], ["--resume"]):
        code, out, err = edgewise(*words, "-o", ".", *flags)
        assert (code, out) == (2, "")
        assert "is not a run folder and holds checkpoints, logs, model.safetensors and 1 more; choose an empty" in err
        assert "is the root of the file system, which is never a run folder" in edgewise(*words, "-o", "/", *flags)[2]
    assert {path.read_text() for path in other.rglob("*") if path.is_file()} == {"mine"}
