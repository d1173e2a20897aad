r"""Attention on a CUDA GPU: the machine's own limits, then edgewise beside its peers, in one process and in turn.

    python benchmarks/gpu.py                       everything, at most 9 minutes on an H200
    python benchmarks/gpu.py --only a,limits       some parts, merged into the results that are there
    python benchmarks/gpu.py --list                the names of the parts
    python benchmarks/gpu.py --quick               tiny sizes: does everything run? Writes only where --out says
    python benchmarks/gpu.py --table-only          write the page again from gpu.json; needs no GPU

Results are compared with float64 before anything is timed; a peer that fails or runs out of memory stands in the table
with its reason. Each part has a share of the time (--minutes), and what does not fit is cut and named. Written are
benchmarks/results/gpu.json (every single time) and gpu.md (the tables). Without a GPU nothing is measured, and the exit
status is 2.

A machine without network: nothing is installed or downloaded. Needed are Python 3.11 or later, torch, triton and numpy,
and a C compiler for torch.compile and triton. torch_geometric and turbo-gnn (whose wheels are for older torch: build it
from source) are peers where they are installed, and their rows say so where they are not. What else is missing is pure
Python; bring it in a folder beside the sources, filled where there is a network:

    pip install --target .gpu-deps --no-deps jaxtyping wadler_lindig beartype pytest pytest-xdist execnet pluggy \
        iniconfig packaging pygments hypothesis sortedcontainers
    make bench-gpu PYTHON=python3        # on the machine: the tests, then this; PYTHONPATH is src and .gpu-deps

`import edgewise` itself needs only jaxtyping and wadler_lindig of these; the others are for the tests.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

RESULTS = Path(__file__).parent / "results"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME,NAME", help="run these parts and merge them into the results")
    parser.add_argument("--list", action="store_true", help="show the names of the parts")
    parser.add_argument("--ours", default="triton", metavar="BACKEND", help="the backend that is measured")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; writes only where --out says")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything together, 9 by default")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results go, benchmarks/results by default")
    parser.add_argument("--commit", default="", help="what is measured, where there is no git to ask")
    parser.add_argument("--table-only", action="store_true", help="write the page from gpu.json, or from nothing")
    parser.add_argument("--check", action="store_true", help="say what would be measured on, and stop")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run, write, and say what was cut."""
    asked = arguments(given)
    from gpu_attention.suite import NAMES, PARTS, STUDIES

    if asked.list:
        print("\n".join(f"{name:10}{PARTS[name].title if name in PARTS else STUDIES[name]}" for name in NAMES))
        return 0
    chosen = asked.only.split(",") if asked.only else list(NAMES)
    if unknown := set(chosen) - set(NAMES):
        print(f"--only has {', '.join(sorted(unknown))}; the parts are {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    folder = asked.out or (None if asked.quick else RESULTS)
    if asked.table_only:
        return table_only(folder or RESULTS)
    import torch

    if not torch.cuda.is_available():
        print(
            "There is no CUDA GPU that torch can use: nothing is measured. --table-only writes the page without one.",
            file=sys.stderr,
        )
        return 2
    return measure([name for name in NAMES if name in chosen], asked, folder)


def table_only(folder: Path) -> int:
    """The page from the numbers that are there, or from none."""
    from gpu_attention import report

    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report.NAME}.md").write_text(report.page(report.read(folder)))
    return 0


def measure(names: list[str], asked: argparse.Namespace, folder: Path | None) -> int:
    """Measure the parts; what is done is written at once."""
    from gpu_attention import report
    from gpu_attention.device import Cuda
    from gpu_attention.options import Options
    from gpu_attention.run import RefusedMergeError, Session, begin

    device = Cuda()
    say(", ".join(f"{name} {value}" for name, value in device.facts().items()))
    if asked.check:
        return 0
    try:
        data = begin(folder, device.facts())
    except RefusedMergeError as error:
        say(str(error))
        return 1
    session = Session(
        device,
        Options(asked.ours, asked.quick, asked.minutes),
        data,
        save=lambda: None if folder is None else report.write(data, folder),
        say=say,
        commit=asked.commit,
    )
    session.run(names)
    print(report.targets_table(data) if folder else report.page(data))
    if session.trouble:
        say(f"The GPU failed and the run stopped: {session.trouble}")
    return 1 if session.trouble else 0


def say(text: str) -> None:
    """Progress, apart from results."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
