"""How long the same commands take at another revision and in this checkout, and how much memory.

    python benchmarks/revisions.py b9e2816                half an hour on two quiet cores
    python benchmarks/revisions.py b9e2816 --only read    the rows whose names begin so; the others stay as they are
    python benchmarks/revisions.py b9e2816 --quick        is it all there? Nothing is written

Each command runs in a process of its own, the two revisions in turn, after a first round that is not counted: it
fills the caches of compiled kernels. Shown are medians, and the smallest and largest ratio of a round. Training is
timed as a whole command, reading as the median of seven times inside a process, by the tables of reading.py. A step of
a network of molecules (forward, backward, AdamW) is the median over 32 batches of 64 molecules of Lipophilicity. Memory
is the largest that a process held (resident), and of its rounds the median.
EDGEWISE_DATA names the folder of data sets. A busy machine is refused, but for --force.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cpu_attention import machine

HERE = Path(__file__).parent
RESULTS = HERE / "results"
READING = """
import sys, time
from pathlib import Path
from statistics import median
from reading import ROWS, readers, write_table
name, scale, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
write_table(name, ROWS[name] // scale, folder)
read = readers(name, ROWS[name] // scale, folder)["edgewise"]
read()
seconds = []
for _ in range(7):
    began = time.perf_counter()
    read()
    seconds.append(time.perf_counter() - began)
print(median(seconds))
"""
MODEL = """
import os, sys, time
from statistics import median
import numpy as np, pandas as pd, torch
try:
    from edgewise.learn.networks.property import PropertyModel, PropertySettings, PropertySizes
    from edgewise.learn.readers.molecules.store import MoleculeStore
except ImportError:  # where they stood before
    from edgewise.models.property import PropertyModel, PropertySettings, PropertySizes
    from edgewise.data.molecules.store import MoleculeStore
torch.manual_seed(0)
smiles = pd.read_csv(os.environ["EDGEWISE_DATA"] + "/moleculenet/lipophilicity.csv")["smiles"][:1024].tolist()
store, graph_of_text, _ = MoleculeStore.collect(smiles, with_descriptors=False)
sizes = PropertySizes(store.node_features.shape[1], store.edge_features.shape[1], 0, 1, 0, 1)
model = PropertyModel(sizes, PropertySettings(model=sys.argv[1]).resolved(64)).train()
optimizer = torch.optim.AdamW(model.parameters())
batches = []
for first in range(0, 1024, 64):
    rows = np.asarray(graph_of_text)[first : first + 64, None]
    batches.append(store.batch(rows, np.zeros((len(rows), 0))))
def step(batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
for batch in batches[:4]:
    step(batch)
"""
"""A network of molecules, batches, and a step with one."""
STEP = f"""{MODEL}
seconds = []
for batch in [*batches, *batches]:
    began = time.perf_counter()
    step(batch)
    seconds.append(time.perf_counter() - began)
print(median(seconds))
"""
STEPS = {
    "a step, D-MPNN": ("dmpnn", "dmpnn"),
    "a step, D-MPNN and attention among bonds": ("dmpnn", "edge_attention"),
}
"""The networks before and later."""
TABLES = ("edges", "edges, named", "nodes", "SMILES", "texts")


def training_commands(is_quick: bool) -> dict[str, list[str]]:
    """The words behind `edgewise train` of each training."""
    data = Path(os.environ["EDGEWISE_DATA"])
    esol = ["--smiles-columns", "smiles", "--target-columns", "log_solubility_log10_mol_per_L"]
    cora = [str(data / "planetoid/cora.npz"), "--task-type", "multiclass", "--epochs", "2" if is_quick else "100"]
    shakespeare = ["--num-layers", "4", "--num-heads", "4", "--model-dim", "128", "--context", "64"]
    return {
        "train, ESOL": [
            str(data / "moleculenet/esol.csv"), *esol, "--splits-column", "mat_split_0",
            *(["--epochs", "1"] if is_quick else []),
        ],
        "train, Cora": cora,
        "train, Cora, GAT": [*cora, "--model", "gat"],
        "train, Shakespeare": [
            "language", str(data / "tiny_shakespeare/input.txt"), *shakespeare, "--steps", "20" if is_quick else "500",
        ],
    }  # fmt: skip


class Run(NamedTuple):
    """A finished process."""

    seconds: float
    megabytes: float
    """The most memory that it held."""
    last_line: str
    """Of what it printed."""


def run(tree: Path, arguments: list[str]) -> Run:
    """A Python process that imports the package of a tree."""
    paths = os.pathsep.join(str(tree / name) for name in ("src", "benchmarks"))
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": paths}, stdout=printed, stderr=said
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (printed, said):
            file.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)} in {tree} failed:\n{said.read()[-2000:]}")
        last_line = (printed.read().strip().splitlines() or [""])[-1]
    return Run(seconds, usage.ru_maxrss / 1024, last_line)


def measured(
    tree: Path, name: str, trainings: dict[str, list[str]], scale: int, folder: Path, is_later: bool
) -> tuple[float, float]:
    """The seconds of one run of a row, and its megabytes."""
    if name in STEPS:
        done = run(tree, ["-c", STEP, STEPS[name][is_later]])
        return float(done.last_line), done.megabytes
    if name in trainings:
        words = ["train", *trainings[name], "-o", str(folder / "run"), "--overwrite", "--seed", "0"]
        done = run(tree, ["-m", "edgewise.cli.main", *words])
        return done.seconds, done.megabytes
    done = run(tree, ["-c", READING, name.removeprefix("read, "), str(scale), str(folder)])
    return float(done.last_line), done.megabytes


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """The files of a revision, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=HERE.parent, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def table(result: dict) -> str:
    """The page of a result."""
    before = result["before"]
    lines = [
        f"# The same commands at {before} and later",
        "",
        f"{result['machine']}; medians of {result['rounds']} rounds in turn, ratios of the same round. "
        f"`python benchmarks/revisions.py {before}`",
        "",
        f"| | {before}, s | later, s | ratio (smallest to largest) | {before}, MB | later, MB | the later revision |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (old, new) in result["seconds"].items():
        ratios = [late / early for early, late in zip(old, new, strict=True)]
        spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        memory = " | ".join(f"{median(megabytes):.0f}" for megabytes in result["megabytes"][name])
        lines.append(
            f"| {name} | {median(old):.3g} | {median(new):.3g} | {spread} | {memory} | {result['after'][name]} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="NAME", help="the rows whose names begin so")
    parser.add_argument("--quick", action="store_true", help="one short round, and nothing is written")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    arguments = parser.parse_args()

    here, scale = HERE.parent, 1000 if arguments.quick else 1
    rounds, trainings = 1 if arguments.quick else arguments.rounds, training_commands(arguments.quick)
    named = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True).stdout
    result: dict[str, Any] = {
        "before": arguments.revision,
        "machine": f"{machine.cores()} cores",
        "rounds": rounds,
        "after": {},
        "seconds": {},
        "megabytes": {},
    }
    written = RESULTS / "revisions.json"
    if arguments.only and not arguments.quick and written.exists():
        kept = json.loads(written.read_text())
        if any(kept[part] != result[part] for part in ("before", "machine", "rounds")):
            raise SystemExit(f"{written} holds other revisions, rounds or another machine: measure all rows.")
        result = kept
    with checkout(arguments.revision) as other, tempfile.TemporaryDirectory() as folder:
        for name in [*trainings, *STEPS, *(f"read, {table}" for table in TABLES)]:
            if not name.startswith(arguments.only):
                continue
            seconds: tuple[list[float], list[float]] = ([], [])
            megabytes: tuple[list[float], list[float]] = ([], [])
            for number in range(rounds + 1):
                machine.wait_until_quiet(check_load=False, force=arguments.force or arguments.quick)
                # Each revision goes first in every other round: what runs later finds a warmer processor.
                for which in (0, 1) if number % 2 else (1, 0):
                    spent, memory = measured((other, here)[which], name, trainings, scale, Path(folder), bool(which))
                    if number:
                        seconds[which].append(round(spent, 5))
                        megabytes[which].append(round(memory, 1))
            print(name, *(f"{median(times):.3g} s" for times in seconds), flush=True)
            for part, value in (("after", named.strip()), ("seconds", seconds), ("megabytes", megabytes)):
                result[part][name] = value
            if not arguments.quick:  # after each row, so that what was measured stays where the rest is stopped
                written.write_text(json.dumps(result, indent=1) + "\n")
                (RESULTS / "revisions.md").write_text(table(result))
    print(table(result))


if __name__ == "__main__":
    main()
