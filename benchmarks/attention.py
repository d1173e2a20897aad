"""Attention on a CPU: the machine's own limits, then edgewise beside its peers, in one process and in turn.

    python benchmarks/attention.py                       everything, about 25 minutes on two cores
    python benchmarks/attention.py --only cora additive  some parts, merged into the results that are there
    python benchmarks/attention.py --list                the names of the parts
    python benchmarks/attention.py --quick               tiny sizes, nothing written: does everything run?

Values and gradients of all peers are compared before anything is timed. A busy machine is refused: close what else
runs, or give --force, which marks the report. EDGEWISE_DATA may name a folder of data sets; parts that need one are
left out without it. Written are benchmarks/results/attention.json (every single time), attention.md (the tables) and
attention_growth.png. The exit status is 0 where all that was asked for was measured on a quiet machine.
"""

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these parts and merge them into the results")
    parser.add_argument("--list", action="store_true", help="show the names of the parts")
    parser.add_argument("--ours", default="numba", metavar="BACKEND", help="the backend that is measured")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; writes only where --out says")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go, benchmarks/results by default")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine too, and mark the report")
    parser.add_argument("--render", action="store_true", help="write the tables again from attention.json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=("first", "later"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run, write, and say whether the numbers can be believed."""
    asked = arguments()
    from cpu_attention.process import answer, restart_with_allocator

    if asked.child:
        from cpu_attention.tasks import run_as_child

        answer(run_as_child(json.loads(asked.child)))
        return 0
    from cpu_attention.options import Options
    from cpu_attention.suite import NAMES, PARTS, STUDIES

    if asked.list:
        print("\n".join(f"{name:12}{PARTS[name].title if name in PARTS else STUDIES[name]}" for name in NAMES))
        return 0
    if unknown := set(asked.only or ()) - set(NAMES):
        print(f"--only has {', '.join(sorted(unknown))}; the parts are {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    folder = asked.out or (None if asked.quick else RESULTS)
    if asked.render:
        from cpu_attention.report import NAME, write

        folder = folder or RESULTS
        write(json.loads((folder / f"{NAME}.json").read_text()), folder)
        return 0
    names = [name for name in NAMES if name in asked.only] if asked.only else list(NAMES)
    restart_with_allocator(len(names) > 1 or names[0] not in PARTS or PARTS[names[0]].keeps_memory)
    if asked.step is None and "limits" not in names and any(needs_limits(name) for name in names):
        names = ["limits", *names]
    if len(names) > 1 and folder is not None:
        return one_by_one(names, asked, folder)
    merge = asked.step == "later" or (asked.step is None and bool(asked.only))
    options = Options(asked.ours, asked.quick, asked.force)
    return run(names, options, folder, merge=merge, check_load=asked.step != "later")


def one_by_one(names: list[str], asked: argparse.Namespace, folder: Path) -> int:
    """Each part in a process of its own: an allocator that keeps memory keeps that of the parts before it, too."""
    same = [*(["--force"] if asked.force else []), *(["--quick"] if asked.quick else []), "--ours", asked.ours]
    steps = ["later" if asked.only else "first", *["later"] * (len(names) - 1)]
    codes = []
    for name, step in zip(names, steps, strict=True):
        command = [sys.executable, sys.argv[0], *same, "--only", name, "--out", str(folder), "--step", step]
        codes.append(subprocess.run(command, check=False).returncode)
        if codes[-1] < 0:  # it had no time to say so itself
            say(f"{name}: ended by signal {-codes[-1]}, nothing written; signal 9 mostly means that memory ran out")
    return max(abs(code) for code in codes)


def run(names: list[str], options, folder: Path | None, merge: bool, check_load: bool) -> int:
    """Measure the parts one after the other; what is done is written at once."""
    import torch
    from cpu_attention import report
    from cpu_attention.machine import BusyMachineError
    from cpu_attention.measure import DisagreementError
    from cpu_attention.options import NUM_THREADS
    from cpu_attention.run import RefusedMergeError, begin, measure_part

    torch.set_num_threads(NUM_THREADS)
    try:
        data = begin(folder if merge else None, options)
        for place, name in enumerate(names):
            began = time.perf_counter()
            say(f"{name} …")
            part = measure_part(name, options, first=check_load and place == 0, say=say)
            part["measured"]["at"] = datetime.now(UTC).isoformat(timespec="seconds")
            data["parts"][name] = part
            say(f"{name}: {part['measured']['status']}, {time.perf_counter() - began:.0f} s")
            if folder is not None:
                report.write(data, folder)
    except (BusyMachineError, DisagreementError, RefusedMergeError) as error:
        print(error, file=sys.stderr)
        return 1
    print(report.page(data) if folder is None else f"{folder / report.NAME}.md")
    doubtful = [name for name in names if data["parts"][name]["measured"]["status"] != "quiet"]
    for name in doubtful:
        print(f"{name}: {'; '.join(data['parts'][name]['measured']['problems'])}", file=sys.stderr)
    return 1 if doubtful and not options.quick else 0


def needs_limits(name: str) -> bool:
    """Whether a part's table holds shares of the gather limit."""
    from cpu_attention.graphs import GRAPHS

    return name in GRAPHS


def say(text: str) -> None:
    """Progress, apart from results."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
