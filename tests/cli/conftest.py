"""Tables of forty molecules, and the command line called in this process."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from cli_tables import SMALL, molecules, write_csv
from edgewise.cli.main import main


@pytest.fixture
def table(tmp_path) -> Path:
    """A table of forty molecules with a target and some more columns."""
    smiles = molecules()
    return write_csv(
        tmp_path / "table.csv",
        {
            "name": [f"molecule {number}" for number in range(40)],
            "smiles": smiles,
            "y": [f"{len(text) + 0.25:.2f}" for text in smiles],
        },
    )


@pytest.fixture(scope="session")
def trained(trained_run) -> Path:
    """The folder of a finished run with one target."""
    return trained_run("molecules")


@pytest.fixture(autouse=True)
def no_stage_is_long(monkeypatch):
    """What is printed does not depend on how busy the machine is."""
    monkeypatch.setattr("edgewise.cli.progress.SHORT", float("inf"))


@pytest.fixture(autouse=True)
def figures_are_made_and_left_undrawn(request, monkeypatch):
    """matplotlib takes as long to write the figures of a report as a small model takes to train.

    All of a figure is ours but this last step, which is skipped in tests that do not have the mark `drawn`.
    """

    def left_undrawn(figure, file, *, format, **more):
        file.write("<svg xmlns='http://www.w3.org/2000/svg'></svg>" if format == "svg" else b"\x89PNG")

    if request.node.get_closest_marker("drawn") is None and importlib.util.find_spec("matplotlib"):
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", left_undrawn)


@pytest.fixture
def edgewise(capsys):
    """Runs the command line; returns its exit code and what it printed."""

    def run(*words: object) -> tuple[int, str, str]:
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            # How argparse ends on words that it does not know.
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def paste(edgewise, tmp_path, monkeypatch):
    """Runs every command that a verb printed, as if pasted into a shell; returns the commands' words.

    What follows the output goes behind the commands that train.
    """
    monkeypatch.chdir(tmp_path)

    def run(out: str, *more: object) -> list[list[str]]:
        commands = [shlex.split(line) for line in out.splitlines() if re.match("  edgewise [a-z]", line)]
        assert commands, out
        for words in commands:
            code, _, err = edgewise(*words[1:], *(more if words[1] == "train" else ()))
            assert code == 0, (words, err)
        return commands

    return run


@pytest.fixture
def train(edgewise):
    """Trains the smallest model on the column y of a table."""

    def run(data: object, *words: object, target: str = "y") -> tuple[int, str, str]:
        columns = ["--smiles-columns", "smiles", "--target-columns", target]
        return edgewise("train", data, *columns, *SMALL, "--no-baselines", *words)

    return run
