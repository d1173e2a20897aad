"""A large graph from CSV to predictions: time and memory of prepare, train and predict, each a process of its own.

    python benchmarks/large_graph.py                                        3 million nodes, 30 million edges
    python benchmarks/large_graph.py --num-nodes 30000 --num-edges 300000   in a minute
    python benchmarks/large_graph.py --num-nodes 700000 --num-edges 3000000 --num-features 512 --limit-mb 1024 \
        --batch-size 256

The graph is made up: labels of 8 classes, features that hint at them, and edges more often within a class. `private` is
the memory that belongs to the process alone, at most; `resident` counts the pages of mapped files too, which the system
takes back when it needs them. With --limit-mb, training and predicting may take so much private memory (RLIMIT_DATA).

With --write: benchmarks/results/large_graph.json, and the table of docs/scaling.md.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

FOLDER = Path(__file__).parents[1]
DOCS, RESULTS = FOLDER / "docs" / "scaling.md", FOLDER / "benchmarks" / "results" / "large_graph.json"
BEGIN, END = "<!-- large graph: written by benchmarks/large_graph.py -->\n", "<!-- end of large graph -->"
NUM_CLASSES, ROWS = 8, 2**17


def write_tables(folder: Path, num_nodes: int, num_edges: int, num_features: int) -> None:
    """The two tables, some rows at a time."""
    label = np.random.default_rng(0).integers(0, NUM_CLASSES, num_nodes)
    by_class = [np.flatnonzero(label == each) for each in range(NUM_CLASSES)]
    centers = np.random.default_rng(1).normal(size=(NUM_CLASSES, num_features))
    with pa.OSFile(str(folder / "nodes.csv"), "wb") as file:
        for start in range(0, num_nodes, ROWS):
            own = label[start : start + ROWS]
            values = (
                0.4 * centers[own] + np.random.default_rng([2, start]).normal(size=(len(own), num_features))
            ).round(3)
            columns = {
                "id": np.arange(start, start + len(own)),
                **{f"x{at}": values[:, at] for at in range(num_features)},
            }
            columns["label"] = np.array([f"class {each}" for each in range(NUM_CLASSES)])[own]
            csv.write_csv(pa.table(columns), file, csv.WriteOptions(include_header=start == 0))
    with pa.OSFile(str(folder / "edges.csv"), "wb") as file:
        for start in range(0, num_edges, ROWS):
            random = np.random.default_rng([3, start])
            count = min(ROWS, num_edges - start)
            senders = random.integers(0, num_nodes, count)
            receivers = random.integers(0, num_nodes, count)
            within = random.random(count) < 0.5
            for each, members in enumerate(by_class):
                chosen = within & (label[senders] == each)
                receivers[chosen] = members[random.integers(0, len(members), int(chosen.sum()))]
            csv.write_csv(
                pa.table({"sender": senders, "receiver": receivers}), file, csv.WriteOptions(include_header=start == 0)
            )


def memory_of(pid: int) -> tuple[int, int]:
    """The bytes that belong to a process alone, and those with the files that it has mapped, at most so far."""
    found = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    private, resident = (int(found.get(name, "0 kB").split()[0]) * 1024 for name in ("RssAnon", "VmHWM"))
    return private, resident


def measured(words: list[str], limit: int | None = None) -> dict[str, Any]:
    """Runs `edgewise` with these words: seconds, memory and what it printed."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgewise.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited,
    )
    peak, is_over = [(0, 0)], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            try:
                private, resident = memory_of(process.pid)
                peak[0] = max(peak[0][0], private), max(peak[0][1], resident)
            except OSError:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate()
    is_over.set()
    watcher.join()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"edgewise {words[0]} failed:\n{out}{err[-3000:]}")
    return {"seconds": round(seconds, 1), "private": peak[0][0], "resident": peak[0][1], "out": out}


def main() -> None:
    """Makes the tables, goes from them to predictions, and writes what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-nodes", type=int, default=3_000_000)
    parser.add_argument("--num-edges", type=int, default=30_000_000)
    parser.add_argument("--num-features", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300, help="between two validations of the one epoch")
    parser.add_argument("--batch-size", type=int, default=1024, help="of the training")
    parser.add_argument("--limit-mb", type=int, help="private memory of training and predicting")
    parser.add_argument("--folder", help="where the tables and the store go; a folder of temporary files by default")
    parser.add_argument("--write", action="store_true", help="write the results and the table of the docs")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    limit = None if options.limit_mb is None else options.limit_mb * 2**20
    try:
        write_tables(folder, options.num_nodes, options.num_edges, options.num_features)
        store, run, out = (str(folder / name) for name in ("store", "run", "predictions.csv"))
        found = {"prepare": measured(["prepare", str(folder / "nodes.csv"), str(folder / "edges.csv"), "-o", store])}
        size = {"tables": sum(each.stat().st_size for each in folder.glob("*.csv"))}
        size["store"] = sum(each.stat().st_size for each in (folder / "store").iterdir())
        size["features"] = (folder / "store" / "features.bin").stat().st_size
        words = ["train", "nodes", store, "--target-columns", "label", "--model", "sage", "--fanouts", "15", "10"]
        words += ["--batch-size", str(options.batch_size), "--eval-steps", str(options.steps), "--epochs", "1"]
        words += ["--no-baselines"]
        found["train"] = measured([*words, "-o", run, "--no-memory-check"], limit)
        found["predict"] = measured(["predict", run, store, "-o", out], limit)
        metrics = json.loads((folder / "run" / "metrics.json").read_text())
        with open(out) as file:
            num_predictions = sum(1 for _ in file) - 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    record = {
        "num_nodes": options.num_nodes,
        "num_edges": options.num_edges,
        "num_features": options.num_features,
        "steps": options.steps,
        "batch_size": options.batch_size,
        "limit": limit,
        "bytes": size,
        "stages": {name: {key: value for key, value in each.items() if key != "out"} for name, each in found.items()},
        "accuracy": metrics["test"]["label"]["accuracy"],
        "predictions": num_predictions,
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    }
    print(table([record]))
    if options.write:
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
        same = ("num_nodes", "num_edges", "num_features", "limit")
        known = [each for each in known if any(each[name] != record[name] for name in same)] + [record]
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        text = DOCS.read_text()
        start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
        DOCS.write_text(text[:start] + table(known) + text[stop:])


def table(records: list[dict[str, Any]]) -> str:
    """The table of the docs."""
    lines = [
        "| graph | limit | step | time | private memory | resident memory |",
        "|---|---|---|---|---|---|",
    ]
    for each in records:
        graph = f"{each['num_nodes']:,} nodes, {each['num_edges']:,} edges, {each['num_features']} features"
        graph += f" ({each['bytes']['features'] / 2**20:,.0f} MiB)"
        limit = "none" if each["limit"] is None else f"{each['limit'] / 2**20:,.0f} MiB"
        for name, stage in each["stages"].items():
            what = {"train": f"train, one epoch, batches of {each['batch_size']:,}, and score"}.get(name, name)
            bound = "none" if name == "prepare" else limit
            memory = " | ".join(f"{stage[kind] / 2**20:,.0f} MiB" for kind in ("private", "resident"))
            lines.append(f"| {graph} | {bound} | {what} | {stage['seconds']:,.0f} s | {memory} |")
        lines.append(f"| | | accuracy of test nodes | {each['accuracy']:.3f} | | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
