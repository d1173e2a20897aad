"""From Enter to the result: whole commands and steps as users run them, each beside its peer in the same run.

    python benchmarks/runs.py --chemprop PATH              all of it, about 100 minutes on two quiet cores
    python benchmarks/runs.py --chemprop PATH --only esol  the rows whose names begin so
    python benchmarks/runs.py --rounds 1 --steps 20        is it all there? Nothing is written

PATH is the program `chemprop` in an environment of its own (see molecules.py). Commands of a row run in turn, each in a
process of its own, as often as `--rounds` says; shown are medians. A finished round is not repeated: the benchmark can
be interrupted and continues. Memory is the largest sum over all processes of a command. The caches of compiled kernels
and features are warm: a first command that is not counted fills them. Of steps (`epochs`, `core`) the pieces of
graphs.py and attention.py are timed, in a process of their own. A busy machine is refused, but for --force.
Written are benchmarks/results/runs.json (every single number) and runs.md (the table).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "frozen"))
sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine
from cpu_attention.process import answer

HERE = Path(__file__).parent
RESULTS = HERE / "results"

Commands = dict[str, list[str]]
EDGEWISE = [sys.executable, "-m", "edgewise.cli.main"]
OURS, CHEMPROP, PLAIN, PYG = "edgewise", "chemprop", "nanoGPT's loop", "PyTorch Geometric"
FIRST_STEP = "first step"
PAUSE = 0.3
"""Seconds between two looks at the memory of a command: a look takes some milliseconds of a core."""


@dataclass(frozen=True)
class Row:
    """A row of the table: what is run, and what was asked for."""

    commands: Callable[[Path, argparse.Namespace], Commands]
    """By the name of who takes part, ours first; given a folder for what they write."""
    bound: str
    """What was asked for, in words."""
    rounds: int = 3
    """How often."""
    threads: int = 1
    """Of each command."""
    molecules: int = 0
    """How many are predicted, where seconds are shown as molecules a second."""


ESOL, LOGD = "esol, mat_split_0", "lipophilicity, row_id % 10"
"""Protocols of benchmarks/molecules.py: a small network, and a wide one; a Gaussian process beside each."""
MOLECULES = 10_000


def data(name: str) -> str:
    """A file of the folder of data sets."""
    return str(Path(os.environ["EDGEWISE_DATA"]) / name)


def of_molecules(protocol_name: str) -> Callable[[Path, argparse.Namespace], Commands]:
    """Training by defaults, whole."""

    def commands(folder: Path, asked: argparse.Namespace) -> Commands:
        from molecules import PROTOCOLS, chemprop_command, our_command

        protocol, table = PROTOCOLS[protocol_name], folder / "table.csv"
        protocol.table().to_csv(table, index=False)
        ours, theirs = our_command(protocol, table), chemprop_command(protocol, table, asked.chemprop or "")
        if asked.steps:
            ours, theirs = [*ours, "--epochs", "1"], [*theirs, "--epochs", "3"]  # two of its epochs warm up
        theirs += ["--output-dir", str(folder / "theirs")]
        return with_chemprop(asked, [*ours, "-o", str(folder / "ours")], theirs)

    return commands


def co2(folder: Path, asked: argparse.Namespace) -> Commands:
    """Two molecules and two conditions a row; random rows."""
    import numpy as np
    import pandas as pd
    from molecules import NAME

    table, target = folder / "table.csv", "x_co2_mole_fraction"
    names, conditions = ["cation_smiles", "anion_smiles"], ["temperature_K", "pressure_bar"]
    frame = pd.read_csv(data("co2_ionic_liquids/co2_ionic_liquids.csv"))[[*names, *conditions, target]]
    place = np.argsort(np.random.default_rng(0).permutation(len(frame))) / len(frame)
    frame[NAME] = np.select([place < 0.72, place < 0.8], ["train", "val"], "test")
    frame.to_csv(table, index=False)
    columns = ["--smiles-columns", *names, "--descriptors-columns", *conditions, "--target-columns", target]
    columns += ["--splits-column", NAME, *(["--epochs", "3"] if asked.steps else [])]
    theirs = [asked.chemprop or "", "train", "--data-path", str(table), *columns, "--task-type", "regression"]
    theirs += ["--accelerator", "cpu", "--output-dir", str(folder / "theirs")]
    ours = [*EDGEWISE, "train", str(table), *columns, "--bounds", "0", "1", "-o", str(folder / "ours")]
    return with_chemprop(asked, ours, theirs)


def shakespeare(folder: Path, asked: argparse.Namespace) -> Commands:
    """2,000 steps at nanoGPT's settings for CPUs."""
    text, steps = data("tiny_shakespeare/input.txt"), str(asked.steps or 2000)
    sizes = ["--num-layers", "4", "--num-heads", "4", "--model-dim", "128", "--context", "64", "--steps", steps]
    threads = ["--threads", str(machine.cores())]
    ours = [*EDGEWISE, "train", "language", text, *sizes, *threads, "-o", str(folder / "ours"), "--overwrite"]
    return {OURS: ours, PLAIN: [sys.executable, str(HERE / "plain_language.py"), text, steps]}


def prediction(protocol_name: str) -> Callable[[Path, argparse.Namespace], Commands]:
    """10,000 distinct molecules whose features no cache has, by models after one epoch."""

    def commands(folder: Path, asked: argparse.Namespace) -> Commands:
        import pandas as pd
        from rdkit import Chem

        found: dict[str, None] = {}
        for name in ("lipophilicity", "bbbp", "bace", "freesolv"):
            for smiles in pd.read_csv(data(f"moleculenet/{name}.csv"))["smiles"]:
                for each in (smiles, f"C{smiles}"):  # a methyl group more, where the first atom takes it
                    if (molecule := Chem.MolFromSmiles(each)) is not None:
                        found.setdefault(Chem.MolToSmiles(molecule))
        pd.DataFrame({"smiles": list(found)[:MOLECULES]}).to_csv(folder / "new.csv", index=False)
        for command in of_molecules(protocol_name)(folder, argparse.Namespace(**{**vars(asked), "steps": 1})).values():
            call(command, 1)
        ours = [*EDGEWISE, "predict", str(folder / "ours"), str(folder / "new.csv"), "-o", str(folder / "ours.csv")]
        theirs = [asked.chemprop or "", "predict", "--test-path", str(folder / "new.csv"), "--smiles-columns", "smiles"]
        theirs += ["--model-paths", str(folder / "theirs"), "--accelerator", "cpu", "-o", str(folder / "theirs.csv")]
        both = with_chemprop(asked, [*ours, "--overwrite"], theirs)
        return {**both, OURS: ["env", "EDGEWISE_CACHE=", *both[OURS]]}  # each round computes all features

    return commands


def with_chemprop(asked: argparse.Namespace, ours: list[str], theirs: list[str]) -> Commands:
    """Both, or ours alone where the program is not named."""
    ours = [*ours, "--overwrite"] if ours[len(EDGEWISE)] == "train" else ours
    return {OURS: ours, **({CHEMPROP: theirs} if asked.chemprop else {})}


def first_step(name: str) -> Callable[[Path, argparse.Namespace], Commands]:
    """The command of a frozen figure until its first training step has ended."""

    def commands(folder: Path, asked: argparse.Namespace) -> Commands:
        from figures import RUNS

        words = [data(word) if (Path(os.environ["EDGEWISE_DATA"]) / word).is_file() else word for word in RUNS[name]]
        request = {"task": FIRST_STEP, "words": ["train", *words, "-o", str(folder / "run"), "--overwrite"]}
        return {OURS: [sys.executable, __file__, "--child", json.dumps(request)]}

    return commands


def epochs(graph: str, model: str) -> Callable[[Path, argparse.Namespace], Commands]:
    """Epochs of graphs.py."""

    def commands(folder: Path, asked: argparse.Namespace) -> Commands:
        request = {"task": "epochs", "graph": graph, "model": model, "seconds": 1 if asked.steps else 10}
        return {"": [sys.executable, __file__, "--child", json.dumps(request)]}

    return commands


def core(folder: Path, asked: argparse.Namespace) -> Commands:
    """The part `cora` of attention.py."""
    flags = ["--only", "cora", "--out", str(folder), "--force", *(["--quick"] if asked.steps else [])]
    return {"": [sys.executable, str(HERE / "attention.py"), *flags]}


def _steps() -> Iterator[tuple[str, Row]]:
    for graph, model, bound in (
        ("cora", "GCN", "5 ms (goal 3)"),
        ("cora", "GAT", "9 ms (goal 6)"),
        ("facebook_pages", "GAT", "3× (goal 5×)"),
    ):
        yield f"epochs, {model} on {graph}", Row(epochs(graph, model), bound, threads=machine.cores())
    yield "core, Cora", Row(core, "4.5× forward, 3.0× with backward", threads=machine.cores())
    for name in ("esol", "co2", "sst2", "shakespeare", "cora_hops", "cora_gat", "cora_links"):
        yield f"first step, {name}", Row(first_step(name), "3 s (goal 2)", rounds=5)


def _predicted(protocol_name: str, bound: str) -> Row:
    return Row(prediction(protocol_name), bound, threads=machine.cores(), molecules=MOLECULES)


ROWS = {
    "esol, whole command": Row(of_molecules(ESOL), "23 s, 690 MB (goal 15 s, 500 MB)"),
    "co2, whole command": Row(co2, "60 s (goal 45)", rounds=1),
    "shakespeare, whole command": Row(shakespeare, "1.0 of the peer (goal 0.8)", threads=machine.cores()),
    "predict 10,000, ESOL's model": _predicted(ESOL, "3× (goal 10×)"),
    "predict 10,000, Lipophilicity's model": _predicted(LOGD, "430 a second"),
    **dict(_steps()),
}


def call(command: list[str], threads: int, *, watches: bool = True, accepts: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The seconds of a command, the largest memory of its processes together, and the last line that it printed.

    Who `watches` no memory leaves the cores to the command, which may look for itself whether others use them. What
    ends with a status that is not accepted ends this program.
    """
    numbers = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with tempfile.TemporaryFile("w+") as out:
        began, peaks, is_over = time.perf_counter(), [0], threading.Event()
        process = subprocess.Popen(command, env={**os.environ, **numbers}, stdout=out, stderr=subprocess.STDOUT)

        def look() -> None:
            while not is_over.wait(PAUSE):
                peaks.append(memory_of(process.pid))

        looking = threading.Thread(target=look)
        if watches:
            looking.start()
        status = process.wait()
        seconds = time.perf_counter() - began
        is_over.set()
        if watches:
            looking.join()
        out.seek(0)
        printed = out.read()
    if status not in accepts:
        raise SystemExit(f"{' '.join(command)} failed:\n{printed[-2000:]}")
    last = printed.strip().splitlines()[-1:] or [""]
    return {"seconds": round(seconds, 3), "peak_mb": round(max(peaks) / 1e6, 1), "last": last[0]}


def memory_of(pid: int) -> int:
    """Bytes that a process and its children hold; what they share counts once."""
    folder = Path(f"/proc/{pid}")
    try:
        children = (folder / "task" / str(pid) / "children").read_text().split()
        line = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    except (OSError, StopIteration):  # it has ended
        return 0
    return 1024 * int(line.split()[1]) + sum(memory_of(int(child)) for child in children)


def child(request: dict[str, Any]) -> None:
    """A row in this process: an epoch beside its peers, or a command until its first step has ended."""
    if request["task"] == FIRST_STEP:
        from edgewise.cli.main import main as edgewise

        sys.meta_path.insert(0, StopAfterStep())
        raise SystemExit(edgewise(request["words"]))
    import torch
    from cpu_attention.measure import in_turn
    from graph_epochs.inputs import WORKLOADS, inputs_of
    from graph_epochs.models import epoch_of, learner_of, names_of, same_weights

    inputs, recipe = inputs_of(request["graph"], False), WORKLOADS[request["graph"]].recipes[request["model"]]
    torch.manual_seed(0)
    learners = {name: learner_of(name, request["model"], inputs, recipe) for name in names_of(request["model"])}
    same_weights(learners)
    calls = {name: epoch_of(learner, inputs, recipe) for name, learner in learners.items()}
    answer({name: found["median_ms"] for name, found in in_turn(calls, request["seconds"], 3).items()})


class StopAfterStep:
    """Ends this process after the first training step, without importing anything before its time."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Called before each import."""
        if name != "edgewise.learn.training.fit":
            return
        sys.meta_path.remove(self)
        from edgewise.learn.training.training import Training

        step = Training.train_step

        def only_step(training: Any, batch: Any) -> None:
            step(training, batch)
            os._exit(0)

        Training.train_step = only_step  # type: ignore[method-assign]


def measured(name: str, row: Row, known: dict[str, Any], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rounds of a row, after each of them."""
    rounds = min(asked.rounds or row.rounds, row.rounds)
    with tempfile.TemporaryDirectory() as path:
        commands = row.commands(Path(path), asked)
        found = {who: list(known.get(who, [])) for who in commands}
        if all(len(each) >= rounds for each in found.values()):
            return
        if name.startswith(FIRST_STEP) or (OURS in commands and name.startswith("esol")):
            call(commands[OURS], row.threads)
        while any(len(each) < rounds for each in found.values()):
            machine.wait_until_quiet(check_load=False, force=asked.force or bool(asked.steps))
            for who, command in commands.items():
                written = Path(path) / "attention.json"
                # It ends with 1 where the times of a peer spread widely, which it says in what it writes.
                accepts = (0, 1) if name.startswith("core") else (0,)
                result = call(command, row.threads, watches=bool(who), accepts=accepts)
                if not who and written.is_file():
                    result |= of_core(json.loads(written.read_text()))
                elif not who:
                    result["found"] = json.loads(result["last"])
                found[who].append({key: value for key, value in result.items() if key != "last"})
            yield found


def of_core(written: dict[str, Any]) -> dict[str, Any]:
    """Medians of the forward pass, and of both, in the results of attention.py, and what it doubts of them."""
    case = written["parts"]["cora"]["cases"]["dot"]
    found = {
        f"{who}, {mode}": part["median_ms"]
        for who, modes in case["peers"].items()
        if who == OURS or "PyG" in who
        for mode, part in modes.items()
        if isinstance(part, dict)
    }
    return {"found": found, "doubts": case["problems"]}


def cells(row: Row, found: dict[str, Any]) -> list[str]:
    """Ours, the peer, how many times as fast, and the memory of both."""
    if "" in found:
        names = found[""][0]["found"]
        middle = {who: median(each["found"][who] for each in found[""]) for who in names}
        modes = sorted({who.rpartition(", ")[2] for who in names}) if f"{OURS}, forward" in names else [""]
        ours, peers, ratios = [], [], []
        for mode in modes:
            mine = f"{OURS}, {mode}" if mode else OURS
            others = {who: value for who, value in middle.items() if who != mine and who.endswith(mode)}
            others = {who: value for who, value in others.items() if not who.startswith(OURS)}
            best = min(others, key=lambda who: others[who])
            ours.append(f"{middle[mine]:.3g} ms")
            peers.append(f"{others[best]:.3g} ms ({best})")
            ratios.append(f"{others[best] / middle[mine]:.2f}×")
        return [", ".join(ours), ", ".join(peers), ", ".join(ratios), "", ""]
    times = {who: median(each["seconds"] for each in rounds) for who, rounds in found.items()}
    peaks = {who: f"{median(each['peak_mb'] for each in rounds):.0f}" for who, rounds in found.items()}
    peer = next((who for who in times if who != OURS), None)
    shown = {who: f"{row.molecules / s:.0f} a second" if row.molecules else f"{s:.1f} s" for who, s in times.items()}
    theirs = ["–", "–"] if peer is None else [f"{shown[peer]} ({peer})", f"{times[peer] / times[OURS]:.2f}×"]
    return [shown[OURS], *theirs, peaks[OURS], "–" if peer is None else peaks[peer]]


def report(results: dict[str, Any]) -> str:
    """The table."""
    facts, commit = results["machine"], results["commit"]
    lines = [
        f"# {__doc__.splitlines()[0]}",
        "",
        f"{facts['cores']} cores of {facts['processor']}, Python {facts['python']}, "
        f"torch {facts['versions']['torch']}. Written by `make bench-runs`, a row at a time, the last one at commit "
        f"`{commit['commit'][:9]}`; every number is in `runs.json`.",
        "",
        "| command or step | edgewise | peer | times as fast | memory, MB | peer's, MB | asked | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        if found := results["rows"].get(name):
            rounds = min(map(len, found.values()))
            lines.append(f"| {name} | {' | '.join(cells(row, found))} | {row.bound} | {rounds} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", help="the program chemprop; without it only ours is run there")
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose names begin so")
    parser.add_argument("--rounds", type=int, help="at most so many of each row")
    parser.add_argument("--steps", type=int, help="so few steps, or one epoch: nothing is written")
    parser.add_argument("--again", action="store_true", help="repeat rows that are there")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(json.loads(asked.child))
        return
    path = RESULTS / "runs.json"
    known = json.loads(path.read_text())["rows"] if path.is_file() and not asked.steps else {}
    results: dict[str, Any] = {"machine": machine.facts(), "commit": machine.commit(), "rows": known}
    for name, row in ROWS.items():
        if not name.startswith(tuple(asked.only)):
            continue
        before = {} if asked.again else known.get(name, {})
        for found in measured(name, row, before, asked):
            results["rows"][name] = found
            print(name, cells(row, found), flush=True)
            if not asked.steps:
                path.write_text(json.dumps(results, indent=1) + "\n")
                (RESULTS / "runs.md").write_text(report(results))
    if asked.steps:
        print(report(results))


if __name__ == "__main__":
    main()
