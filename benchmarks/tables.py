"""Tables of molecules of growing size: rows a second and peak memory of reading, training and prediction.

    python benchmarks/tables.py                          10,000, 100,000 and 1,000,000 rows
    python benchmarks/tables.py --rows 1000 10000        smaller ones
    python benchmarks/tables.py --train-rows 100000      do not train on tables of more rows
    python benchmarks/tables.py --no-molecule-descriptors    models that read atoms and bonds alone: faster

Each step is a process of its own, whose largest resident memory the system tells, with the parts of mapped files that
are in use; as that is at least the memory of the process that started it, this one stays small, and tables are made by
others. SMILES are distinct molecules put together from cores and substituents; tables to predict hold other molecules
than those of the training. The cache of features begins empty, so that the time of RDKit's descriptors is counted;
`predict again` finds up to 700,000 of them there. One model, of the smallest table, predicts all tables.

With --write: benchmarks/results/tables.json, and the table of docs/scaling.md.
"""

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- tables: written by benchmarks/tables.py -->\n", "<!-- end of tables -->"
CORES = (
    "c1cc({})ccc1{}", "c1cc({})cnc1{}", "C1CC({})CCN1{}", "C1CN({})CCN1{}", "c1c({})ncnc1{}", "C1OCC({})C1{}",
    "c1c({})sc(C)c1{}", "c1c({})oc(C)c1{}", "C1CC({})C1{}", "c1c({})c(F)ccc1{}", "c1c({})[nH]nc1{}", "C(=O)N({})C{}",
    "S(=O)(=O)N({})C{}", "C(C)(O)C({})C{}", "c1c({})c2ccccc2cc1{}", "c1c({})nc2ccccc2c1{}",
)  # fmt: skip
"""Molecules with two places for substituents."""
ENDS = (
    "C", "CC", "CCC", "C(C)C", "C(C)(C)C", "O", "OC", "OCC", "N", "NC", "N(C)C", "F", "Cl", "Br", "C#N", "C=C",
    "C(F)(F)F", "OC(F)(F)F", "C(=O)O", "C(=O)OC", "C(=O)N", "C(=O)NC", "NC(C)=O", "S(C)(=O)=O", "SC", "CO", "CCO",
    "CN", "C3CC3", "C3CCCC3", "C3CCCCC3", "c3ccccc3", "c3ccncc3", "c3ccco3", "c3cccs3", "N3CCOCC3", "N3CCCC3",
    "N3CCCCC3", "Cc3ccccc3", "Oc3ccccc3", "c3ccc(F)cc3", "c3ccc(Cl)cc3", "CC#N", "CCN(C)C", "OCCO", "[N+](=O)[O-]",
)  # fmt: skip
"""Substituents, which begin at the atom that is bonded."""


def molecules(seed: int, count: int) -> Iterator[str]:
    """Distinct SMILES in an order drawn at random; an odd seed has none of those of an even one."""
    sizes = (len(CORES), len(ENDS), len(CORES), len(ENDS), len(ENDS))
    drawn = np.random.default_rng(seed).choice(int(np.prod(sizes)) // 2, count, replace=False) * 2 + seed % 2
    for outer, first, inner, second, third in zip(*np.unravel_index(drawn, sizes), strict=True):
        rest = CORES[inner].format(ENDS[second], ENDS[third]).replace("1", "4").replace("2", "5")
        yield CORES[outer].format(ENDS[first], rest)


def write_table(path: Path, seed: int, count: int) -> None:
    """A table of molecules whose target is a sum over their letters, with some noise."""
    noise = np.random.default_rng([seed, 1]).normal(size=count)
    with open(path, "w") as file:
        file.write("id,smiles,y\n")
        rows = zip(itertools.count(), molecules(seed, count), noise, strict=False)
        file.writelines(f"{n},{text},{text.count('N') - text.count('O') + 0.1 * e:.4f}\n" for n, text, e in rows)


READ = """
import sys
from edgewise.learn.tables.read import TableChunks
print(sum(len(cells.lines) for cells in TableChunks(sys.argv[1])))
"""


def measured(words: list[str], folder: Path) -> dict[str, float]:
    """Seconds and largest resident memory, in MB, of a process that must succeed."""
    environment = {**os.environ, "EDGEWISE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    scale = 1 if sys.platform == "darwin" else 1024
    return {"seconds": time.perf_counter() - began, "megabytes": usage.ru_maxrss * scale / 1e6}


def steps(
    sizes: list[int], train_rows: int | None, folder: Path, *, with_descriptors: bool
) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Each step on each table."""
    main = ["-m", "edgewise.cli.main"]
    more, note = ([], "") if with_descriptors else (["--no-molecule-descriptors"], ", without descriptors")
    for size in sizes:
        known, new = folder / f"known-{size}.csv", folder / f"new-{size}.csv"
        for seed, path in enumerate((known, new)):
            subprocess.run([sys.executable, __file__, "--make", str(path), str(seed), str(size)], check=True)
        yield size, "read", measured(["-c", READ, str(new)], folder)
        model = folder / f"run-{size}"
        if train_rows is None or size <= train_rows:
            words = [str(known), "--smiles-columns", "smiles", "--target-columns", "y", "--epochs", "1"]
            train = [*main, "train", "molecules", *words, "--no-baselines", *more, "-o", str(model)]
            yield size, f"train, 1 epoch{note}", measured(train, folder)
        predict = [*main, "predict", str(folder / f"run-{sizes[0]}"), str(new), "--overwrite"]
        for step, output in (("predict", "out.csv"), ("predict again", "out.parquet")):
            yield size, step + note, measured([*predict, "-o", str(folder / output)], folder)
        known.unlink()
        new.unlink()


def table(found: list[dict]) -> str:
    """Rows a second and megabytes as a table of Markdown."""
    sizes = sorted({each["rows"] for each in found})
    lines = ["| step | " + " | ".join(f"{size:,} rows" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for step in dict.fromkeys(each["step"] for each in found):
        cells = []
        for size in sizes:
            each = next((each for each in found if (each["rows"], each["step"]) == (size, step)), None)
            cells.append(f"{size / each['seconds']:,.0f} rows/s, {each['megabytes']:,.0f} MB" if each else "–")
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--train-rows", type=int, help="of the largest table that is trained on; all by default")
    parser.add_argument("--no-molecule-descriptors", action="store_true", help="train without RDKit's descriptors")
    parser.add_argument("--write", action="store_true", help="add the results to those in the repository")
    parser.add_argument("--make", nargs=3, metavar=("PATH", "SEED", "ROWS"), help="make a table, and measure nothing")
    options = parser.parse_args()
    if options.make is not None:
        path, seed, rows = options.make
        write_table(Path(path), int(seed), int(rows))
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        how = {"with_descriptors": not options.no_molecule_descriptors}
        for size, step, each in steps(sorted(options.rows), options.train_rows, Path(folder), **how):
            found.append({"rows": size, "step": step, **each})
            print(f"{size:,} rows, {step}: {each['seconds']:.1f} s, {each['megabytes']:.0f} MB", flush=True)
            if options.write:  # after each step: a million rows take a while
                write(found)
    print(table(found))


def write(found: list[dict]) -> None:
    """The numbers and the table of the docs."""
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    path = ROOT / "benchmarks/results/tables.json"
    known = json.loads(path.read_text())["steps"] if path.is_file() else []
    measured_now = {(each["rows"], each["step"]) for each in found}
    found = [each for each in known if (each["rows"], each["step"]) not in measured_now] + found
    path.write_text(json.dumps({"machine": machine, "steps": found}, indent=1) + "\n")
    page = ROOT / "docs/scaling.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
