"""`edgewise explain`: what may be an input, what is written and printed, what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from cli_tables import molecules, read_csv, write_csv
from edgewise.cli.explain import lines_of, values_of
from edgewise.errors import SettingError
from edgewise.explain.explanation import Explanation, Faithfulness, Removal, TargetPrediction
from edgewise.explain.methods import METHODS


class Reads:
    """A model that reads numbers whose names hold signs of equality."""

    fields = tuple({"name": name, "type": "number"} for name in ("a", "a=b", "t"))


def test_a_column_may_have_a_sign_of_equality_in_its_name():
    assert values_of(Reads(), ["a=b=3", "a=1", "t=="]) == {"a=b": "3", "a": "1", "t": "="}
    with pytest.raises(SettingError, match="--values has 'c=1'; expected a=…, a=b=…, t=…"):
        values_of(Reads(), ["c=1"])


@pytest.fixture(scope="session")
def salts(trained_run):
    """A run over two molecules and two numbers a row."""
    return trained_run("mixtures")


def test_a_molecule_becomes_a_page(trained, edgewise, tmp_path):
    code, out, err = edgewise("explain", trained, "CCO", "-o", tmp_path / "report.html")
    assert (code, err) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "http://" not in page.replace("http://www.w3.org", "")
    first, removal, agreement, area, *_, last = out.splitlines()
    assert first.startswith("CCO: y ")
    assert removal.startswith("  removal: baseline ") and removal.endswith(" by all units")
    assert agreement.startswith("  agreement with removal in y (1 is the same order): ")
    assert "attention" in agreement
    assert area.startswith("  area between the most and the least important removed first (0 is chance): ")
    assert "removal" in area and "random" in area
    assert last == f"1 explanation: {tmp_path / 'report.html'}"


@pytest.mark.drawn
@pytest.mark.parametrize(("suffix", "begin"), [("svg", b"<"), ("png", b"\x89PNG"), ("json", b"[")])
def test_the_format_is_as_the_name_ends(trained, edgewise, tmp_path, suffix, begin):
    path = tmp_path / f"drawn.{suffix}"
    assert edgewise("explain", trained, "CCO", "-o", path)[0] == 0
    assert path.read_bytes().startswith(begin)


def test_the_output_has_a_usual_name(trained, edgewise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert edgewise("explain", trained, "CCO")[0] == 0
    assert edgewise("explain", trained, "CCO", "--format", "svg")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["explanation.html", "explanation.svg"]


def test_json_goes_to_the_screen_alone(trained, edgewise):
    code, out, err = edgewise("explain", trained, "CCO", "-o", "-", "--top", 1)
    assert code == 0
    (found,) = json.loads(out)
    assert (found["kind"], found["sources"]) == ("molecule", {"smiles": "CCO"})
    assert [unit["name"] for unit in found["units"]] == ["C", "C", "O"]
    assert err.startswith("CCO: y ")


def test_several_columns_are_several_words_and_numbers_have_names(salts, edgewise, tmp_path):
    path = tmp_path / "salt.json"
    words = ["explain", salts, "CCO", "CCN", "C", "N", "--values", "temperature=298", "pressure=1", "-o", path]
    assert edgewise(*words)[0] == 0
    first, second = json.loads(path.read_text())
    assert first["sources"] == {"cation": "CCO", "anion": "CCN"}
    assert second["sources"] == {"cation": "C", "anion": "N"}
    assert {curve["name"]: curve["here"] for curve in first["curves"]} == {"temperature": 298, "pressure": 1}


def test_rows_of_a_table_are_named_by_their_number(salts, edgewise, tmp_path):
    columns = {"cation": ["C", "CC", "bad("], "anion": ["N", "CN", "O"], "temperature": [1, 2, 3], "pressure": [1] * 3}
    table = write_csv(tmp_path / "new.csv", columns)
    path = tmp_path / "rows.json"
    code, _, err = edgewise("explain", salts, table, "--rows", 1, 0, "-o", path)
    assert (code, err) == (0, "")
    assert [each["sources"]["cation"] for each in json.loads(path.read_text())] == ["CC", "C"]
    code, out, err = edgewise("explain", salts, table, "--overwrite", "-o", path)
    assert code == 0
    assert err.startswith("row 2 is skipped: ")
    assert out.splitlines()[-1] == f"2 explanations: {path}"
    code, out, err = edgewise("explain", salts, table, "--rows", 2, "--overwrite", "-o", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"edgewise: error: {table}, row 2: ")
    assert edgewise("explain", salts, table, "--values", "pressure=9", "--overwrite", "-o", path)[0] == 0
    assert json.loads(path.read_text())[0]["curves"][1]["here"] == 9


def test_without_an_input_test_rows_are_explained(trained, edgewise, tmp_path):
    assert edgewise("explain", trained, "--rows", 0, "-o", tmp_path / "test.json")[0] == 0
    first = (trained / "test_predictions.csv").read_text().splitlines()[1].split(",")
    (found,) = json.loads((tmp_path / "test.json").read_text())
    assert found["sources"]["smiles"] == first[1]


def test_a_note_on_several_explanations_is_printed_once(salts, edgewise, tmp_path):
    columns = {"cation": ["C", "CC", "CCO"], "anion": ["N", "CN", "O"], "temperature": [1, 2, 3], "pressure": [1] * 3}
    table = write_csv(tmp_path / "new.csv", columns)
    code, out, _ = edgewise("explain", salts, table, "-o", tmp_path / "rows.html")
    assert (code, out.count("Where atoms or bonds are removed")) == (0, 1)
    assert "\nall 3 explanations: Where atoms or bonds are removed" in out
    assert out.count("The similarity to the nearest training row is") >= 2  # each of its own explanation
    code, out, _ = edgewise("explain", salts, "CCO", "CCN", "--values", "temperature=2", "pressure=1", "--overwrite",
                            "-o", tmp_path / "rows.html")  # fmt: skip
    assert (code, "\n  Where atoms or bonds are removed" in out) == (0, True)


def test_of_a_long_table_the_first_rows_are_explained(trained, edgewise, tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.cli.explain.DEFAULT_ROWS", 2)
    table = write_csv(tmp_path / "long.csv", {"smiles": molecules()})
    code, out, err = edgewise("explain", trained, table, "-o", tmp_path / "long.html")
    assert (code, err) == (0, "the first 2 of 40 rows are explained; --rows names others\n")
    assert out.splitlines()[-1] == f"2 explanations: {tmp_path / 'long.html'}"


REFUSED = [
    (["C(", "-o", "x.html"], "smiles: "),
    (["", "-o", "x.html"], "smiles: "),
    (["CCO", "-o", "x.txt"], "-o is x.txt; expected a name that ends in .html, .svg, .png, .json."),
    (["CCO", "-o", "x.html", "--format", "svg"], "-o is x.html; expected a name that ends in .svg."),
    (["CCO", "-o", "-", "--format", "png"], "--format png is binary and cannot be printed; name a file with -o."),
    (["CCO", "CCN", "-o", "x.svg"], "a picture shows one explanation, not 2; name one row (--rows 0), or"),
    (["CCO", "-o", "x.html", "--target", "z"], "target is 'z'; the model predicts y."),
    (["CCO", "-o", "x.html", "--label", "red"], "label is 'red', but y is a number and has no classes; leave it out."),
    (["CCO", "-o", "x.html", "--top", "0"], "--top is 0; expected at least 1."),
    (["CCO", "-o", "x.html", "--rows", "0"], "--rows is for tables, and the input is not one; drop --rows."),
    (["CCO", "-o", "x.html", "--values", "t=1"], "--values has 't=1'; expected none: the model reads no numbers."),
    (["none.csv", "-o", "x.html"], "none.csv"),
    (["table.csv", "-o", "x.html", "--rows", "40"], "--rows has 40; table.csv has the rows 0 to 39."),
    (["table.csv", "-o", "x.svg"], "a picture shows one explanation, not 10; name one row"),
    (["table.csv", "-o", "table.csv"], "expected a name that ends in"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: "".join(value)[:40])
def test_what_is_refused_is_said_in_a_line(trained, table, edgewise, monkeypatch, words, message):
    monkeypatch.chdir(table.parent)
    code, out, err = edgewise("explain", trained, *words)
    assert (code, out) == (2, "")
    assert err.startswith("edgewise: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in table.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(("name", "kind"), [("graph.npz", "a graph file"), ("folder", "a store"), ("run", "a run")])
def test_data_that_is_no_table_is_named_for_what_it_is(trained, edgewise, tmp_path, name, kind):
    """As an input it is the text of its path, which no model has read."""
    (tmp_path / "folder").mkdir()
    for file in ("graph.npz", "folder/store.json"):
        (tmp_path / file).touch()
    data = trained if name == "run" else tmp_path / name
    code, out, err = edgewise("explain", trained, data, "-o", tmp_path / "x.html")
    assert (code, out) == (2, "")
    assert f"{data} is {kind}, which" in err
    assert f"name one, as in edgewise explain {trained} SMILES, or a table of them (.csv, " in err


def test_a_file_is_not_taken_for_a_text(trained_run, edgewise, tmp_path, monkeypatch):
    run = trained_run("texts")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tags.conll").write_text("Mr O\n")
    code, out, err = edgewise("explain", run, "tags.conll", "-o", tmp_path / "x.html")
    assert (code, out) == (2, "")
    assert "tags.conll is a file, which explain cannot read as an input" in err and "of texts also .txt" in err
    assert edgewise("explain", run, "a good book", "-o", tmp_path / "x.html")[0] == 0


def test_a_method_that_does_not_apply_is_not_among_those_that_do(trained, edgewise, monkeypatch):
    monkeypatch.setitem(METHODS, "rollout", replace(METHODS["rollout"], attribute=lambda item: None))
    code, _, err = edgewise("explain", trained, "CCO", "--method", "rollout", "-o", "-")
    assert code == 2
    assert "method 'rollout' does not apply to this model" in err and "attention, rollout" not in err


def test_numbers_of_the_row_are_needed(salts, edgewise):
    for words, message in (
        (["C", "N"], "the model also reads temperature, pressure; set it with --values temperature=… pressure=…."),
        (["C", "N", "--values", "pressure=1"], "the model also reads temperature; set it with --values temperature=…."),
        (["C", "N", "--values", "pressure=1", "pressure=2"], "--values sets pressure twice; set it once."),
        (["C", "N", "--values", "pressure"], "--values has 'pressure'; expected temperature=…, pressure=…."),
        (["C", "N", "--values", "pressure=high", "temperature=1"], "pressure: "),
        (["C"], "1 input given, but the model reads 2 for each row: cation, anion"),
    ):
        code, out, err = edgewise("explain", salts, *words, "-o", "-")
        assert (code, out) == (2, "")
        assert message in err


def test_an_existing_file_stays(trained, edgewise, tmp_path):
    path = tmp_path / "kept.html"
    path.write_text("mine")
    code, _, err = edgewise("explain", trained, "CCO", "-o", path)
    assert code == 2 and "exists already" in err
    assert path.read_text() == "mine"
    assert edgewise("explain", trained, "CCO", "-o", path, "--overwrite")[0] == 0


def test_no_run_is_no_run(edgewise, tmp_path):
    for words in (["CCO"], []):
        code, _, err = edgewise("explain", tmp_path / "none", *words, "-o", "-")
        assert code == 2 and "is not a run folder: it does not exist" in err


def test_the_lines_say_what_is_not_known():
    nan = float("nan")
    removal = Removal("attention", *[np.array([0.0, 1.0])] * 3, area=0.25)
    found = Explanation(
        kind="text",
        title="two\nlines",
        sources={},
        predictions=(
            TargetPrediction("mood", 1.0, label="good", probabilities={"bad": 0.25, "good": 0.75}),
            TargetPrediction("y", 3.0),
        ),
        explained="mood = good",
        units=(),
        faithfulness=Faithfulness((removal,), {"attention": -0.5, "rollout": nan}),
        notes=("it was cut",),
    )
    assert lines_of(found) == [
        "two lines: mood is good (0.7500); y 3",
        "  agreement with occlusion in mood = good (1 is the same order): attention -0.5000, rollout -",
        "  area between the most and the least important removed first (0 is chance): attention 0.2500",
        "  it was cut",
    ]


def test_a_missing_number_is_filled_and_said(salts, edgewise, tmp_path):
    """`predict` fills it; `explain` refused the row."""
    table = write_csv(
        tmp_path / "new.csv", {"cation": ["C", "C"], "anion": ["N", "N"], "temperature": ["", 300], "pressure": [1, 1]}
    )
    path = tmp_path / "rows.json"
    code, out, err = edgewise("explain", salts, table, "-o", path)
    assert (code, err) == (0, "")
    missing, _ = json.loads(path.read_text())
    median = missing["curves"][0]["here"]
    note = f"temperature is missing, filled with the median of the training rows, {median:g}."
    assert note in missing["notes"] and note in out and 250 < median < 370
    assert all(math.isfinite(value) for curve in missing["curves"] for value in curve["predictions"])
    assert edgewise("predict", salts, table, "-o", tmp_path / "predicted.csv")[0] == 0
    predicted = float(read_csv(tmp_path / "predicted.csv")[0]["y_pred"])
    assert missing["predictions"][0]["value"] == pytest.approx(predicted, rel=1e-4)

    words = ["explain", salts, "C", "N", "--values", "temperature=", "pressure=1", "-o", "-"]
    code, out, _ = edgewise(*words)
    assert (code, json.loads(out)[0]["curves"][0]["here"]) == (0, median)
    code, _, err = edgewise(*words[:-4], "temperature=-", "pressure=1", "-o", "-")
    assert (code, "'-' is not a number" in err) == (2, True)
