"""How long tables take to be read, beside pandas.

    python benchmarks/reading.py [--quick]

Tables are written to a temporary folder: 3 million edges with a weight (nodes called by numbers, and by words), 300,000
nodes of 18 columns, a million rows of SMILES (of 100 molecules, so that RDKit's work is not what is timed), a million
rows of text. Edgewise reads each as `edgewise train` does: names become places in the graph, numbers are checked,
classes found, molecules made. pandas reads the same file with `read_csv`, and nothing more; since its version 3.1 it
parses a plain file in parallel threads, as pyarrow does for Edgewise. The two are timed in turn, in one process;
medians. The memory is the largest that a process had which imported both and read the file once.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from edgewise.errors import plural
from edgewise.learn.readers.graphs.edges import read_edges
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.nodes import read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.molecules.data import read_molecules
from edgewise.learn.readers.texts.data import read_texts
from edgewise.learn.tables.columns import Columns

RESULTS = Path(__file__).parent / "results"
ROWS = {"edges": 3_000_000, "edges, named": 3_000_000, "nodes": 300_000, "SMILES": 1_000_000, "texts": 1_000_000}
"""Rows of each table."""
ROUNDS = 5
MEASURED = ("edgewise", "pandas", "nothing")
"""Of which the memory is measured; the last is that of the imports."""
KIBIBYTES = 1024.0
MAX_PANDAS_THREADS = 6
"""More are not started unless the option `mode.max_threads` says so."""


def write_table(name: str, rows: int, folder: Path) -> None:
    """Write one of the tables; the same at every call."""
    random, path = np.random.default_rng(0), path_of(name, folder)
    if name.startswith("edges"):
        prefix = "node" if name == "edges, named" else ""
        ends = random.integers(0, num_nodes(rows), (2, rows))
        sides = {side: [f"{prefix}{node}" for node in end.tolist()] for side, end in zip(("from", "to"), ends)}
        frame = pd.DataFrame(sides | {"weight": random.random(rows).round(6)})
    elif name == "nodes":
        features = {f"f{number}": random.normal(size=rows).round(6) for number in range(16)}
        frame = pd.DataFrame({"id": np.arange(rows)} | features | {"kind": random.choice(["a", "b", "c"], rows)})
        pd.DataFrame({"from": [0, 1], "to": [1, 2]}).to_csv(folder / "few.csv", index=False)
    elif name == "SMILES":
        molecules = np.array(["C" * (1 + number % 10) + "O" * (number // 10) for number in range(100)])
        frame = pd.DataFrame({"smiles": random.choice(molecules, rows), "y": random.random(rows).round(4)})
    else:
        words = np.array(["a", "good", "film", "with", "actors", "and", "music", "but", "no", "end"])
        texts = [" ".join(line) for line in words[random.integers(0, len(words), (rows, 12))].tolist()]
        frame = pd.DataFrame({"text": texts, "label": random.choice(["good", "bad"], rows)})
    frame.to_csv(path, index=False)


def num_nodes(rows: int) -> int:
    """Nodes that so many edges join."""
    return max(rows // 10, 3)


def path_of(name: str, folder: Path) -> Path:
    """Where a table stands."""
    return folder / f"{name.replace(', ', '_')}.csv"


def readers(name: str, rows: int, folder: Path) -> dict[str, Callable[[], object]]:
    """What reads a table, by the name of the library."""
    path = str(path_of(name, folder))
    ours: Callable[[], object]
    if name.startswith("edges"):
        prefix = "node" if name == "edges, named" else ""
        names = NodeNames([f"{prefix}{node}" for node in range(num_nodes(rows))])

        def ours() -> object:
            found = read_edges(path, names, "nodes", feature_columns=("weight",))
            assert len(found) == rows
            return found
    elif name == "nodes":
        columns = Columns(node_column="id", target_columns=("kind",), task_type="multiclass")

        def ours() -> object:
            return read_nodes([path], columns, GraphSource(edges=str(folder / "few.csv")))
    elif name == "SMILES":

        def ours() -> object:
            columns = Columns(smiles_columns=("smiles",), target_columns=("y",))
            return read_molecules(path, columns, with_descriptors=False)
    else:

        def ours() -> object:
            columns = Columns(text_columns=("text",), target_columns=("label",), task_type="classification")
            return read_texts([path], columns)

    return {"edgewise": ours, "pandas": lambda: pd.read_csv(path)}


def pandas_threads() -> int:
    """In how many threads `read_csv` parses a large plain file."""
    try:
        limit = pd.get_option("mode.max_threads")
    except pd.errors.OptionError:
        return 1
    return int(limit or min(pa.cpu_count(), MAX_PANDAS_THREADS))


def seconds(read: Callable[[], object]) -> float:
    """How long one reading takes."""
    began = time.perf_counter()
    read()
    return time.perf_counter() - began


def peak_mib() -> float:
    """The largest memory that this process had so far; Linux's `ru_maxrss` counts that of the parent, this does not."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / KIBIBYTES
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES


def memory_of(name: str, rows: int, folder: Path, library: str) -> float:
    """MiB that a process has at most which reads a table once; "nothing" reads none."""
    command = [sys.executable, __file__, "--once", name, str(rows), str(folder), library]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure(name: str, rows: int, rounds: int, folder: Path, libraries: tuple[str, ...]) -> dict[str, object]:
    """The row of the table for one file."""
    write_table(name, rows, folder)
    both = readers(name, rows, folder)
    times = [[seconds(read) for read in both.values()] for _ in range(rounds + 1)][1:]
    found: dict[str, object] = {"table": name, "rows": rows}
    found["mib"] = round(path_of(name, folder).stat().st_size / 2**20, 1)
    for library, own in zip(both, zip(*times)):
        found[f"{library}_s"] = round(statistics.median(own), 3)
    found["times_pandas"] = round(statistics.median(ours / theirs for ours, theirs in times), 2)
    for library in libraries:
        found[f"{library}_mib"] = round(memory_of(name, rows, folder, library), 1)
    return found


def page(result: dict) -> str:
    """The table of a result."""
    machine = result["machine"]
    rounds = plural(result["rounds"], "reading")
    columns = ["table", "rows", "file, MiB", "edgewise, s", "pandas, s", "times pandas", "edgewise, MiB", "pandas, MiB"]
    lines = [
        "# How long tables take to be read",
        "",
        f"{machine['cpu']}; pyarrow {result['pyarrow']} in {plural(machine['threads'], 'thread')}, pandas "
        f"{result['pandas']} in {plural(machine['pandas_threads'], 'thread')}; medians of {rounds} in turn. "
        "`python benchmarks/reading.py`",
        "",
        "Edgewise finds the nodes, classes and molecules and checks every cell; pandas parses the file, since "
        "its version 3.1 in parallel threads.",
        "",
        f"| {' | '.join([*columns, 'imports, MiB'])} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in result["cases"]:
        cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in case.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tables, and nothing is written")
    parser.add_argument("--once", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        name, rows, folder, library = arguments.once
        if library != "nothing":
            readers(name, int(rows), Path(folder))[library]()
        print(peak_mib())
        return
    rounds, scale = (1, 1000) if arguments.quick else (ROUNDS, 1)
    with tempfile.TemporaryDirectory() as folder:
        cases = [
            measure(
                name, rows // scale, rounds, Path(folder), MEASURED[: name == "nodes"] if arguments.quick else MEASURED
            )
            for name, rows in ROWS.items()
        ]
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "threads": pa.cpu_count(),
        "pandas_threads": pandas_threads(),
    }
    versions = {"pandas": pd.__version__, "pyarrow": pa.__version__}
    result = {"machine": machine, **versions, "rounds": rounds, "cases": cases}
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "reading.json").write_text(json.dumps(result, indent=2) + "\n")
        (RESULTS / "reading.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
