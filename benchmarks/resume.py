"""Trainings that are killed at random steps and resumed: do they end with the same bits?

    python benchmarks/resume.py [--kills 10] [--cases NAME ...] [--write]

Each case trains once undisturbed. Then, for each kill, a fresh run is ended by SIGKILL at a random step, mostly within
an epoch, in one of its processes, and resumed. The resumed run is identical when its weights, its test predictions and
the numbers of its epochs are those of the undisturbed run, byte for byte, and no temporary file is left. Checkpoints
are written more often than usual, so that most runs continue within an epoch.

With --write: docs/results/resume.json, and the table of docs/scaling.md.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from written import DOCS, write_between

BEGIN, END = "<!-- resume: written by benchmarks/resume.py -->\n", "<!-- end of resume -->"
SMALL = ("--model-dim", "8", "--num-layers", "2", "--epochs", "4", "--device", "cpu", "--logger", "csv")
QUICK = (*SMALL, "--no-baselines", "--no-memory-check", "--threads", "1")
NUM_NODES, NUM_ROWS = 600, 128
CASES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "molecules, 1 process": ("molecules", 1, ("--batch-size", "8")),
    "molecules, 2 processes": ("molecules", 2, ("--batch-size", "8")),
    "nodes, whole graph, 1 process": ("nodes", 1, ("--batch-size", "30")),
    "nodes, sampled, 1 process": ("nodes", 1, ("--batch-size", "30", "--fanouts", "5", "5")),
    "nodes, sampled, 2 processes": ("nodes", 2, ("--batch-size", "30", "--fanouts", "5", "5")),
}
"""The task, the processes and the flags of each case; 16 steps an epoch or about so."""
BETWEEN_CHECKPOINTS = 0.05
"""Seconds between two checkpoints within an epoch."""


def write_data(folder: Path) -> dict[str, list[str]]:
    """Random tables; the words of the command that train on them, by task."""
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(NUM_NODES, 3)).round(4).tolist()
    rows = [[place, *each] for place, each in enumerate(numbers)]
    edges = draw.integers(0, NUM_NODES, (4 * NUM_NODES, 2)).tolist()
    ends = ["O", "N", "F", "Cl", "C(=O)O", "C#N", "OC", "S"]
    smiles = [["C" * length + end, f"{draw.normal():.4f}"] for length in range(1, 17) for end in ends]
    tables = {"nodes": [["node", "a", "b", "y"], *rows], "edges": [["sender", "receiver"], *edges]}
    tables["molecules"] = [["smiles", "y"], *smiles[:NUM_ROWS]]
    for name, table in tables.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows(table)
    nodes, links, molecules = (str(folder / f"{name}.csv") for name in ("nodes", "edges", "molecules"))
    return {
        "molecules": ["molecules", molecules, "--smiles-columns", "smiles", "--target-columns", "y"],
        "nodes": ["nodes", nodes, "--edges", links, "--target-columns", "y", "--model", "sage"],
    }


def work(rank: int, size: int, meeting: str, words: list[str], last: int | None) -> None:
    """One process of a training; with `last` it kills itself after so many steps."""
    from edgewise.cli.main import main
    from edgewise.learn.training import training
    from edgewise.learn.training.training import Training

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if last is not None:
        os.dup2(1, 2)  # the others say that one is gone
    if size > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
        os.environ |= {"EDGEWISE_RENDEZVOUS": f"file://{meeting}", "GLOO_SOCKET_IFNAME": "lo"}
    training.CHECKPOINT_SECONDS, training.CHECKPOINT_SHARE = BETWEEN_CHECKPOINTS, 1.0
    step = Training.train_step

    def steps(self: Training, batch: Any) -> None:
        step(self, batch)
        if self.step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    Training.train_step = steps  # type: ignore[method-assign]
    raise SystemExit(main(words))


def train(size: int, words: list[str], kill: tuple[int, int] | None = None) -> list[int | None]:
    """The exit codes of the processes of a training; `kill` is the process that is killed, and its last step."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["edgewise.learn.tasks.run", "edgewise.learn.training.fit", "pandas", "rdkit.Chem"])
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(size):
            last = kill[1] if kill is not None and kill[0] == rank else None
            arguments = (rank, size, f"{folder}/meeting", words, last)
            processes.append(context.Process(target=work, args=arguments))
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return [process.exitcode for process in processes]


def result(run: Path) -> list[bytes]:
    """What must be the same: weights, test predictions, and each epoch without its seconds."""
    with open(run / "logs/metrics.csv", newline="") as file:
        epochs = [row[:-1] for row in csv.reader(file)]
    files = [(run / name).read_bytes() for name in ("model.safetensors", "test_predictions.csv")]
    return [*files, json.dumps(epochs).encode()]


def num_steps(run: Path) -> int:
    """The steps of a finished run."""
    with open(run / "logs/metrics.csv", newline="") as file:
        return int(list(csv.DictReader(file))[-1]["step"])


def measured(name: str, kills: int, folder: Path, data: dict[str, list[str]], draw: random.Random) -> dict[str, Any]:
    """How many runs of a case were killed, and how many of them ended as the undisturbed one."""
    task, size, flags = CASES[name]
    words = ["train", *data[task], *QUICK, *flags]
    whole = folder / "whole"
    assert train(size, [*words, "-o", str(whole)]) == [0] * size
    expected, total = result(whole), num_steps(whole)
    found: dict[str, Any] = {"processes": size, "steps": total, "kills": 0, "identical": 0, "killed_at": []}
    per_epoch = total // 4
    for number in range(kills):
        run, rank, step = folder / f"run_{number}", draw.randrange(size), draw.randrange(1, total)
        codes = train(size, [*words, "-o", str(run)], (rank, step))
        assert codes[rank] == -signal.SIGKILL, codes
        assert 0 not in codes, codes
        found["kills"] += 1
        found["killed_at"].append(step)
        assert train(size, ["train", "--resume", "-o", str(run)]) == [0] * size
        found["identical"] += result(run) == expected and not list(run.rglob("*.part"))
    found["within_an_epoch"] = sum(step % per_epoch > 0 for step in found["killed_at"])
    return found


def table_of(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| training | steps | killed | of them within an epoch | identical result |", "|---|---|---|---|---|"]
    for name, each in found.items():
        lines.append(
            f"| {name} | {each['steps']} | {each['kills']} | {each['within_an_epoch']} | {each['identical']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures the cases, and prints or writes them."""
    parser = argparse.ArgumentParser(description="Trainings that are killed at random steps and resumed.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = DOCS / "results" / "resume.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    found = {}
    for name in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            data = write_data(Path(folder))
            found[name] = measured(name, options.kills, Path(folder), data, random.Random(f"{options.seed} {name}"))
        print(table_of({name: found[name]}), flush=True)
    known = before | found
    known = {name: known[name] for name in CASES if name in known}
    if options.write:
        path.write_text(json.dumps(known, indent=1) + "\n")
        write_between(BEGIN, END, table_of(known))
    if any(each["identical"] < each["kills"] for each in found.values()):
        raise SystemExit("a resumed run differs")


if __name__ == "__main__":
    main()
