"""The page in every run folder: which sections a run of each kind has, that its numbers are those of the run, that
nothing in a file becomes part of the page, that a training without matplotlib says so."""

import html
import json
import re
import sys

import numpy as np
import pytest

from cli_tables import SMALL, molecules, read_csv, write_csv

pytest.importorskip("matplotlib")

from edgewise.cli.main import main

pytestmark = pytest.mark.drawn

HOSTILE = "<script>alert(1)</script>"
FIRST, LAST = ["Scores", "Training"], ["Data", "Settings"]
TINY = ["--model-dim", "16", "--num-heads", "2", "--num-layers", "1", "--threads", "1"]


def headings(run):
    return [html.unescape(found) for found in re.findall("<h2>(.*?)</h2>", (run / "report.html").read_text())]


def tables(run):
    """The tables of a page by caption, each a list of rows of words."""
    found = {}
    for table in re.findall("<table>(.*?)</table>", (run / "report.html").read_text(), re.DOTALL):
        caption = html.unescape(re.findall("<caption>(.*?)</caption>", table)[0])
        rows = re.findall("<tr>(.*?)</tr>", table, re.DOTALL)
        found[caption] = [[html.unescape(cell) for cell in re.findall("<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]
    return found


def is_safe(run):
    page = (run / "report.html").read_text()
    return "<script" not in page and not re.findall(r'(?:src|href)="(?!#|data:)', page)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A run over molecules to a number, HTML in its cells and names, one row that cannot be read, one on both sides."""
    folder = tmp_path_factory.mktemp("numbers")
    smiles = molecules() * 2
    smiles[3] = f"no {HOSTILE}"
    columns = {HOSTILE: [f"{HOSTILE} {row}" for row in range(80)], "smiles": smiles}
    columns["a <b> $y$"] = [len(text) + 0.25 * (row % 3) for row, text in enumerate(smiles)]
    data = write_csv(folder / "data.csv", columns)
    words = [
        "train",
        str(data),
        "--smiles-columns",
        "smiles",
        "--target-columns",
        "a <b> $y$",
        "-o",
        str(folder / "run"),
    ]
    words += [
        "--ignore-columns",
        HOSTILE,
        *SMALL,
        "--split-sizes",
        "0.4",
        "0.3",
        "0.3",
        "--no-baselines",
        "--ensemble-size",
        "2",
    ]
    assert main(words) == 0
    return folder / "run"


def test_numbers(numbers):
    target = "a <b> $y$"
    assert headings(numbers) == ["Warnings", *FIRST, f"{target}: predicted and true", *LAST]
    page = (numbers / "report.html").read_text()
    assert is_safe(numbers)
    assert page.count("<svg") == page.count("</svg>") == 3
    metrics, found = json.loads((numbers / "metrics.json").read_text()), tables(numbers)
    scores = found[target]
    parts = [f"{name} alone" for name in ("network", "Gaussian process")]
    columns = [f"{name}, {split}" for split in ("test", "validation") for name in ("edgewise", *parts)]
    assert scores[0] == ["", *columns, "edgewise, training"]
    rmse = next(row for row in scores if row[0] == "rmse")
    assert float(rmse[1]) == pytest.approx(metrics["test"][target]["rmse"], rel=1e-3)
    assert float(rmse[-1]) == pytest.approx(metrics["training"][target]["rmse"], rel=1e-3)
    rows = read_csv(numbers / "test_predictions.csv")
    errors = sorted((abs(float(row[f"{target}_pred"]) - float(row[target])) for row in rows), reverse=True)
    worst = found["The rows with the largest errors"]
    assert worst[0] == ["row", "true", "predicted", "predicted less true", HOSTILE, "smiles"]
    assert [abs(float(row[3])) for row in worst[1:]] == pytest.approx(errors[:10], rel=1e-3)
    assert worst[1][4] == f"{HOSTILE} {worst[1][0]}", "the cells are those of the row"


def test_a_finished_run_that_lacks_its_page_gets_it_when_it_is_resumed(numbers, capsys):
    """A run that was killed while its page was drawn counted as finished, and never got one."""
    page, written = numbers / "report.html", (numbers / "report.html").read_text()
    page.unlink()
    assert main(["train", "--resume", "-o", str(numbers)]) == 0
    assert f"The report is {page}." in capsys.readouterr().out
    assert page.read_text() == written
    assert main(["train", "--resume", "-o", str(numbers)]) == 0
    assert "The report is" not in capsys.readouterr().out, "it is there"


def test_the_data_and_what_stands_on_both_sides(numbers):
    found, metrics = tables(numbers), json.loads((numbers / "metrics.json").read_text())
    (rejected,) = found["1 row could not be used; all of them are in rejected.csv"][1:]
    assert rejected[0] == "smiles"
    assert rejected[3].endswith("data.csv, line 5")
    splits, cells = json.loads((numbers / "splits.json").read_text()), molecules() * 2
    known = {cells[row] for row in splits["train"]}
    assert metrics["leakage"]["test"]["same"] == sum(cells[row] in known for row in splits["test"])
    assert metrics["leakage"]["validation"]["same"] == sum(cells[row] in known for row in splits["val"])
    for each in metrics["leakage"]["test"]["examples"]:
        if "similarity" not in each:
            assert cells[each["row"]] == cells[each["training_row"]]
    settings = dict(row for row in found["As in config.toml, which repeats the run"][1:])
    assert settings["ensemble-size"] == "2"


def test_it_is_written_again_without_the_data(numbers, edgewise):
    first = (numbers / "report.html").read_text()
    (numbers / "report.html").unlink()
    data = numbers.parent / "data.csv"
    data.rename(data.with_suffix(".away"))
    code, out, err = edgewise("report", numbers)
    data.with_suffix(".away").rename(data)
    assert (code, out, err) == (0, f"{numbers / 'report.html'}\n", "")
    assert (numbers / "report.html").read_text() == first


def test_classes_of_texts(edgewise, tmp_path):
    texts = [f"{'good' if row % 2 else 'bad'} film number {row} {HOSTILE}" for row in range(60)]
    texts[1] = texts[0] = "the very same"
    labels = ["</style>" if row % 2 else "$x$ & <i>" for row in range(60)]
    splits = ["test" if row < 20 else "val" if row < 26 else "train" for row in range(60)]
    splits[1] = "train"
    data = write_csv(tmp_path / "data.csv", {"text": texts, "label": labels, "part": splits})
    run = tmp_path / "run"
    words = ["--text-columns", "text", "--target-columns", "label", "--splits-column", "part", *TINY, "--epochs", 1]
    code, out, err = edgewise("train", data, *words, "-o", run)
    assert (code, err) == (0, "")
    assert f"The report is {run / 'report.html'}.\n" in out
    assert headings(run) == ["Warnings", *FIRST, "label: predicted and true", *LAST]
    assert is_safe(run)
    assert (run / "report.html").read_text().count("<svg") == 3
    assert "1 of 19 test rows contain texts that are also in the training set" in (run / "report.html").read_text()
    metrics, scores = json.loads((run / "metrics.json").read_text()), tables(run)["label"]
    place = scores[0].index("naive Bayes, pairs of words, test")
    shown = next(float(row[place]) for row in scores if row[0] == "accuracy")
    assert shown == pytest.approx(metrics["baselines"]["naive_bayes"]["test"]["label"]["accuracy"], rel=1e-3)
    rows = read_csv(run / "test_predictions.csv")
    wrong = [row for row in rows if row["label"] != row["label_pred"]]
    shown = tables(run).get("Wrong rows, the least probable true class first", [[]])[1:]
    assert len(shown) == min(10, len(wrong))
    assert all(0 <= float(row[3]) <= 0.5 for row in shown)


def test_a_language_has_losses_and_scores_alone(edgewise, tmp_path):
    book, other, run = (tmp_path / name for name in ("book.txt", "other.txt", "run"))
    book.write_text("the cat sat on the mat and the dog sat on the log. " * 30)
    other.write_text("the dog sat on the mat and the cat sat on the log. " * 5)
    words = [*TINY, "--context", 16, "--steps", 4, "--validation-data", other]
    assert edgewise("train", book, *words, "-o", run)[0] == 0
    assert headings(run) == [*FIRST, *LAST]
    assert f"Read from {book}, {other}." in (run / "report.html").read_text()
    config = run / "config.toml"
    config.write_text(config.read_text().replace("other.txt", "moved.txt"))
    assert edgewise("generate", run, "--prompt", "the cat", "--max-new-tokens", 2)[0] == 0, "its path may be corrected"
    metrics = json.loads((run / "metrics.json").read_text())
    scores = {row[0]: row[1:] for row in tables(run)["All"]}
    assert scores[""] == ["edgewise, validation", "pairs, validation"]
    assert float(scores["perplexity"][0]) == pytest.approx(metrics["validation"]["perplexity"], rel=1e-3)
    assert "leakage" not in metrics


def test_tags_of_words(edgewise, tmp_path):
    sentences = [f"Mr B-PER\nLund{row} I-PER\ncame O\n\n" for row in range(30)]
    (tmp_path / "data.conll").write_text("".join([*sentences, *sentences[:5]]))
    run = tmp_path / "run"
    words = ["--task-type", "tagging", *TINY, "--epochs", 1]
    assert edgewise("train", tmp_path / "data.conll", *words, "-o", run)[0] == 0
    assert [each for each in headings(run) if each != "Warnings"] == [
        *FIRST,
        "Tags: predicted and true",
        *LAST,
    ]
    assert "Sentences that stand in training rows as well" in tables(run)
    tested = json.loads((run / "splits.json").read_text())["test"]
    page = (run / "report.html").read_text().partition("Sentences with the most wrong tags")[2].partition("</table>")[0]
    listed = re.findall(r"<tr><td[^>]*>(\d+)</td>.*?Mr Lund(\d+)", page, re.DOTALL)
    assert listed, "a model of one epoch is wrong somewhere"
    for number, row in listed:
        assert int(number) in tested and int(number) % 30 == int(row), "the number is that of the data"


def test_links_nodes_and_series(edgewise, tmp_path):
    random = np.random.default_rng(0)
    names, ends = [f"n{node}" for node in range(40)], random.integers(0, 40, (2, 160))
    nodes = {"id": names, "a": random.normal(size=40).round(3), "y": random.normal(size=40).round(3)}
    nodes = write_csv(tmp_path / "nodes.csv", nodes)
    edges = {side: [names[node] for node in some] for side, some in zip(("from", "to"), ends, strict=True)}
    edges = write_csv(tmp_path / "edges.csv", edges)
    series = {"step": range(60)} | {name: random.normal(size=60).round(3) for name in names}
    series = write_csv(tmp_path / "series.csv", series)
    quick = ["--edges", edges, "--model-dim", 8, "--epochs", 1]
    link = [nodes, *quick, "--task-type", "link", "--ignore-columns", "y", "--batch-size", 20]
    for words, own in [
        (link, ["link: predicted and true"]),
        ([nodes, *quick, "--target-columns", "y"], ["y: predicted and true"]),
        ([series, *quick, "--task-type", "forecast", "--time-column", "step", "--context", 3, "--horizon", 2], []),
    ]:
        run = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
        code, out, err = edgewise("train", *words, "-o", run)
        assert (code, err) == (0, "")
        assert headings(run) == [*FIRST, *own, *LAST], out
        assert is_safe(run)


def test_without_matplotlib_a_training_ends_well_and_says_why(edgewise, tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 30)
    for name in [
        name for name in sys.modules if name.startswith(("matplotlib", "edgewise.view", "edgewise.learn.tasks.report"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = tmp_path / "run"
    code, out, err = edgewise("train", tmp_path / "book.txt", *TINY, "--context", 16, "--steps", 2, "-o", run)
    assert (code, err) == (0, "")
    assert "The report was not written: matplotlib is not installed: pip install 'edgewise[view]'.\n" in out
    assert (run / "metrics.json").is_file()
    assert not (run / "report.html").exists()
    code, out, err = edgewise("report", run)
    assert (code, out) == (2, "")
    assert "pip install 'edgewise[view]'" in err
