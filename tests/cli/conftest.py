"""Tables of forty molecules, and the command line called in this process."""

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
def trained(tmp_path_factory) -> Path:
    """The folder of a finished run with one target."""
    folder = tmp_path_factory.mktemp("trained")
    smiles = molecules()
    data = write_csv(folder / "data.csv", {"smiles": smiles, "y": [len(text) for text in smiles]})
    words = ["train", str(data), "--smiles-columns", "smiles", "--target-columns", "y", "-o", str(folder / "run")]
    # Intervals at 0.9 need nine validation rows.
    assert main([*words, *SMALL, "--no-baselines", "--split-sizes", "0.5", "0.25", "0.25"]) == 0
    return folder / "run"


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
def train(edgewise):
    """Trains the smallest model on the column y of a table."""

    def run(data: object, *words: object, target: str = "y") -> tuple[int, str, str]:
        columns = ["--smiles-columns", "smiles", "--target-columns", target]
        return edgewise("train", data, *columns, *SMALL, "--no-baselines", *words)

    return run
