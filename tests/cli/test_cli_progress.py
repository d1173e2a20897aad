"""What verbs show of long stages: dated lines in a log, bars on a terminal, the same stages for every kind of run."""

import contextlib
import io
import json
import re
import time

import pytest

import edgewise.cli.progress as shown_by
from cli_tables import SMALL
from edgewise.cli.progress import Bars, Lines, Watch
from edgewise.learn.progress import Stage, monitored, say, stage
from edgewise.learn.tasks.scores import training_line

DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


@pytest.fixture
def stages(monkeypatch):
    """The names of all stages, once each, in the order in which they begin."""
    seen = {}

    class Recorder:
        def begin(self, stage):
            seen[stage.name.split(" /")[0]] = stage

        def end(self, stage):
            pass

        def say(self, line):
            print(line)

    monkeypatch.setattr(shown_by, "shown", lambda: monitored(Recorder()))
    return seen


def test_a_log_has_dated_lines_on_long_stages_alone(monkeypatch):
    monkeypatch.setattr(shown_by, "SHORT", 2.0)
    stream = io.StringIO()
    lines, reading, quick = Lines(stream), Stage("reading", 100), Stage("quick")
    for seconds in (0.5, 1.9, 2.1, 5.0, 12.2, 15.0, 30.0):
        reading.done = round(3 * seconds)
        lines.show([(reading, seconds), (quick, 0.1)])
    reading.done, reading.note = 100, "loss 3"
    lines.show([(reading, 3700.0)])
    lines.end(reading, 3725.0)
    lines.end(quick, 0.2)
    written = stream.getvalue().splitlines()
    assert all(re.match(DATE, line) for line in written)
    assert [re.sub(DATE, "", line) for line in written] == [
        "reading …",
        "reading: 37 of 100, about 21 s left",
        "reading: 90 of 100, about 3.3 s left",
        "reading: 100 of 100, loss 3, about 0.0 s left",
        "reading: ended after 1 h 2 min",
    ]


def test_a_watch_looks_while_the_work_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(shown_by, "TICK", 0.001)
    monkeypatch.setattr(shown_by, "SHORT", 0.0)
    stream = io.StringIO()
    watch = Watch(Lines(stream))
    with monitored(watch), stage("deep in C"):
        say("a result")
        deadline = time.monotonic() + 20
        while "deep in C …" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.001)
    watch.stop()
    assert re.fullmatch(f"{DATE}deep in C …\n{DATE}deep in C: ended after 0\\.\\d s\n", stream.getvalue())
    assert capsys.readouterr().out == "a result\n"
    assert not watch.thread.is_alive()


def test_a_terminal_has_bars_that_go(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream, reading = Terminal(), Stage("reading molecules", 40, done=10, note="loss 0.5")
    bars = Bars(stream)
    bars.show([])
    assert stream.getvalue() == "", "nothing is drawn where nothing runs"
    bars.show([(Stage("outer"), 9.0), (reading, 3.0)])
    for words in ("outer", "reading molecules", "10/40", "loss 0.5"):
        assert words in stream.getvalue()
    for each in list(bars.tasks):
        bars.end(each, 4.0)
    assert not bars.is_shown
    before = len(stream.getvalue())
    bars.close()
    assert len(stream.getvalue()) == before


def test_every_long_stage_of_molecules_is_shown(stages, table, trained, edgewise, tmp_path):
    columns = ["--smiles-columns", "smiles", "--target-columns", "y", "--ignore-columns", "name"]
    words = [*columns, *SMALL, "--ensemble-size", 2, "-o", tmp_path / "run"]
    assert edgewise("train", table, *words)[0] == 0
    names = [
        "reading",
        "reading molecules",
        "models of the ensemble",
        "compiling and measuring a step",
        "training",
        "validation",
    ]
    assert [name for name in stages if name in names] == names
    assert {"scoring", "predicting", "baselines", "comparing test rows with training rows", "writing the report"} <= {
        *stages
    }
    training = stages["training"]
    assert training.done == training.total == 2
    assert re.fullmatch(r"epoch 2, loss [\d.e-]+", training.note)
    stages.clear()
    assert edgewise("predict", trained, table, "-o", "-")[0] == 0
    assert {"reading table.csv", "reading molecules", "predicting"} <= {*stages}
    stages.clear()
    assert edgewise("explain", trained, "CCO", "CCN", "-o", tmp_path / "page.html")[0] == 0
    assert stages["explaining"].total == 2


@pytest.mark.parametrize("kind", ["language", "forecast"])
def test_other_runs_go_through_the_same_stages(stages, edgewise, tmp_path, kind):
    if kind == "language":
        (tmp_path / "data.txt").write_text("the cat sat on the mat. " * 60)
        words = [tmp_path / "data.txt", "--context", 16, "--steps", 4, "--num-layers", 1, "--model-dim", 16]
    else:
        rows = ["a,b", *(f"{step % 7},{step % 5}" for step in range(80))]
        (tmp_path / "series.csv").write_text("\n".join(rows) + "\n")
        (tmp_path / "edges.csv").write_text("from,to\na,b\n")
        words = [tmp_path / "series.csv", "--edges", tmp_path / "edges.csv", "--task-type", "forecast", "--epochs", 1]
        words += ["--horizon", 2, "--context", 3, "--model-dim", 8]
    assert edgewise("train", *words, "-o", tmp_path / "run")[0] == 0
    assert {"reading", "training", "validation", "writing the report"} <= {*stages}
    assert {"scoring", "predicting"} & {*stages}


def test_bars_and_lines_are_chosen_by_the_stream(monkeypatch, capsys):
    with shown_by.shown(), stage("short"):
        pass
    assert capsys.readouterr() == ("", "")
    with contextlib.suppress(KeyboardInterrupt), shown_by.shown(), stage("stopped"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""


def test_a_training_that_cannot_fit_is_refused_and_can_go_on_anyway(table, train, tmp_path, monkeypatch):
    from edgewise.learn.training import estimate

    monkeypatch.setattr(estimate, "available_memory", lambda device: 1000)
    words = ["--ignore-columns", "name", "-o", tmp_path / "run"]
    code, out, err = train(table, *words)
    assert code == 2
    assert "the training needs about" in err and "go on anyway with --no-memory-check" in err
    code, out, err = train(table, *words, "--resume", "--no-memory-check")
    assert (code, err) == (0, "")
    assert re.search(r"^estimate: [\d.]+ [kMG]B of memory of 1 kB available; .* an epoch, .* for 2 epochs$", out, re.M)


def test_one_epoch_is_not_some_epochs():
    counts = {"parameters": 1234, "training_seconds": 2.2}
    assert training_line({**counts, "epochs": 1}) == "1,234 parameters, 1 epoch in 2 s"
    assert training_line({**counts, "epochs": 9, "steps": 2000}) == "1,234 parameters, 2,000 steps in 2 s"


def test_validations_after_some_steps_are_not_called_epochs(edgewise, tmp_path):
    table = tmp_path / "mols.csv"
    table.write_text("smiles,y\n" + "".join(f"{'C' * length}O,{length}.5\n" for length in range(1, 21)))
    sizes = ["--model-dim", 8, "--head-dim", 8, "--num-heads", 2, "--num-layers", 1, "--no-baselines"]
    words = [*sizes, "--epochs", 3, "--batch-size", 4, "--eval-steps", 2, "--logger", "csv", "--companions", "none"]
    code, out, _ = edgewise("train", "molecules", table, "--smiles-columns", "smiles", *words, "-o", tmp_path / "run")
    assert code == 0
    assert "for 2 steps, " in out and " for 12 steps\n" in out
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["steps"] == [12] and metrics["best_steps"][0] % 2 == 0 and "epochs" not in metrics
    assert f"\n12 steps; the validation loss was lowest in step {metrics['best_steps'][0]}\n" in out
    assert "The loss over the steps." in (tmp_path / "run/report.html").read_text("utf-8")


def test_the_steps_of_a_language_model_are_those_it_took(edgewise, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("one two three four. " * 60)
    sizes = ["--model-dim", 8, "--num-heads", 2, "--num-layers", 1, "--context", 16, "--logger", "csv"]
    stops = ["--steps", 40, "--eval-steps", 2, "--patience", 1, "--learning-rate", 1, "--final-learning-rate", 1]
    code, out, _ = edgewise("train", "language", book, *sizes, *stops, "-o", tmp_path / "run")
    assert code == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    taken = (tmp_path / "run/logs/metrics.csv").read_text().splitlines()[-1].split(",")[2]
    assert metrics["steps"] == int(taken) < 40
    assert f"{taken} steps in" in out and f"lowest in step {metrics['best_step']}" in out
