"""The runs behind docs/results.md: one block per run in runs.json, one line per epoch in epochs.csv.

Add finished runs, or replace those of the same names. What a run printed is read from logs/NAME.log beside runs/:

    python docs/results/runs.py add runs/esol_0 runs/esol_1

Print the config.toml of a run. This command repeats the run, in the folder with the data sets:

    edgewise train --config-path <(python docs/results/runs.py config esol_0) -o runs/esol_0
"""

import argparse
import csv
import difflib
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

HERE = Path(__file__).parent
MAX_EPOCHS = 600
"""Rows: the epochs of a longer training (GAT's thousand epochs, for ten seeds) are left out."""


def read_folder(folder: Path) -> tuple[dict[str, Any], list[list[str]]]:
    """The block of a finished run, and its epochs as rows of text, the header first."""
    for name in ("config.toml", "metrics.json"):
        if not (folder / name).is_file():
            raise SystemExit(f"{folder} has no {name}; expected the folder of a finished run.")
    run = {
        "config": tomllib.loads((folder / "config.toml").read_text()),
        "metrics": json.loads((folder / "metrics.json").read_text()),
    }
    log = folder.parent.parent / "logs" / f"{folder.name}.log"
    if log.is_file():
        run.update(read_log(log.read_text()))
    with open(folder / "logs/metrics.csv", newline="") as file:
        epochs = list(csv.reader(file))
    return run, epochs


def read_log(text: str) -> dict[str, Any]:
    """What only the log knows: the facts about the data, and the seconds of the whole command.

    Its tables of scores are left out: the metrics hold the same numbers with all their digits.
    """
    found: dict[str, Any] = {"log": []}
    for line in text.splitlines():
        is_table = line.startswith("  ") and "  " in line[2:]
        if seconds := re.fullmatch(r"whole command: (\d+) s", line):
            found["command_seconds"] = int(seconds[1])
        elif line and not is_table and not line.startswith("The run is in "):
            found["log"].append(line)
    return found


def render(runs: dict[str, Any]) -> str:
    """The text of runs.json: runs and keys sorted, one line per setting file, score group or log line."""
    return "{\n" + ",\n".join(f'"{name}": {_block(runs[name])}' for name in sorted(runs)) + "\n}\n"


def _block(run: dict[str, Any]) -> str:
    lines = [
        f' "command_seconds": {run["command_seconds"]}' if "command_seconds" in run else "",
        f' "config": {_line(run["config"])}',
        ' "log": [\n' + ",\n".join(f"  {_line(line)}" for line in run["log"]) + "\n ]" if run.get("log") else "",
        ' "metrics": {\n'
        + ",\n".join(f'  "{name}": {_line(part)}' for name, part in sorted(run["metrics"].items()))
        + "\n }",
    ]
    return "{\n" + ",\n".join(line for line in lines if line) + "\n}"


def _line(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)


def add(folders: Sequence[Path], results: Path = HERE) -> None:
    """Adds run folders to runs.json and epochs.csv of the folder `results`, or replaces the runs of the same names."""
    runs = read_runs(results)
    header, rows = ["run"], []
    if (results / "epochs.csv").is_file():
        with open(results / "epochs.csv", newline="") as file:
            header, *rows = csv.reader(file)
    names = {folder.name for folder in folders}
    rows = [row for row in rows if row[0] not in names]
    for folder in folders:
        run, (columns, *epochs) = read_folder(folder)
        runs[folder.name] = run
        if len(epochs) > MAX_EPOCHS:
            continue
        if rows and header != ["run", *columns]:
            raise SystemExit(f"{folder}: epochs have the columns {columns}, but epochs.csv has {header[1:]}.")
        header = ["run", *columns]
        rows += [[folder.name, *epoch] for epoch in epochs]
    rows.sort(key=lambda row: row[0])  # stable: the epochs of a run stay in order
    (results / "runs.json").write_text(render(runs))
    with open(results / "epochs.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def read_runs(results: Path = HERE) -> dict[str, Any]:
    """The blocks of all runs by name."""
    path = results / "runs.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def config(name: str, results: Path = HERE) -> str:
    """The config.toml of a run."""
    runs = read_runs(results)
    if name not in runs:
        closest = difflib.get_close_matches(name, runs, 3, cutoff=0)
        raise SystemExit(f"runs.json has no run {name!r}; the closest names in it: {', '.join(closest)}.")
    return tomli_w.dumps(runs[name]["config"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("add", help="add finished run folders").add_argument("folders", nargs="+", type=Path)
    verbs.add_parser("config", help="print the config.toml of a run").add_argument("name")
    typed = parser.parse_args(arguments)
    if typed.verb == "add":
        add(typed.folders)
    else:
        print(config(typed.name), end="")


if __name__ == "__main__":
    main()
