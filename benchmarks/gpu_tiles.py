r"""Sizes of tiles by the clock: every kernel of both passes on a CUDA GPU, with one change of a size after the other.

    python benchmarks/gpu_tiles.py                    all calls, two minutes on an H200
    python benchmarks/gpu_tiles.py --only additive    calls whose names begin so, merged into what is there
    python benchmarks/gpu_tiles.py --table-only       write the page again; needs no GPU

The calls are those of `gpu.py`. Each kernel is timed by events of the device, while the host is far ahead of it;
256 MiB are written before each call. Written are results/gpu_tiles.json and gpu_tiles.md.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
RESULTS = Path(__file__).parent / "results"
SPIN = 8_000_000
"""Cycles for which the device does nothing, until the host has started all kernels."""
REPETITIONS = 5
Change = dict[str, Any]
"""Values by module and name, such as `edges.NUMBERS`."""


def changes(**values: tuple) -> list[Change]:
    """Every combination of some values; `edges__NUMBERS` stands for `edges.NUMBERS`."""
    names = [name.replace("__", ".") for name in values]
    return [dict(zip(names, each, strict=True)) for each in product(*values.values())]


LISTS = [
    *changes(edges__REGISTERS=(None, 96, 64, 255)),
    *changes(edges__BLOCKS=((32, 16, 8), (32, 16, 8, 2), (32, 16, 8, 4, 2))),
    *changes(edges__NUMBERS=(512,), edges__REGISTERS=(None, 72)),
    *changes(edges__CHANNELS=(256, 64)),
]
TILES = [
    *changes(graphs__HEADS=(8, 4, 1)),
    *changes(graphs__REGISTERS=((128, 168), (96, 128), (96, 255))),
    *changes(graphs__WARP=(256, 1024)),
]
ADDED = changes(ranges__LEAN=(64, 0))
ROWS = [
    *changes(operators__HUB_BLOCK=(1024, 2048, 4096), operators__HUB_WARPS=(8, 16)),
    *changes(operators__ROW_NUMBERS=(64, 128, 256, 1024), operators__ROW_WARPS=(1, 4)),
]
CALLS: dict[str, tuple[str, str, list[Change]]] = {
    "a, dot": ("a", "dot, bf16", LISTS),
    "a, GATv2": ("a", "GATv2, bf16", LISTS),
    "b, dot": ("b", "dot, bf16", LISTS[:4]),
    "b, GATv2": ("b", "GATv2, bf16", LISTS[:4]),
    "bonds, dot": ("c", "bonds, dot, bf16", TILES),
    "bonds, GATv2": ("c", "bonds, GATv2, bf16", LISTS),
    "all pairs, dot, bias": ("c", "all pairs, dot, bf16, distances as bias", TILES),
    "additive": ("additive", "L = 2,048", ADDED),
    **{f"hubs, {name}": ("a", f"dot, bf16, {name}", ROWS) for name in ("hardmax", "sparsemax", "entmax")},
}
"""The part and case of gpu.py, and what is changed."""


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """The sizes with a change; what was made of other sizes is forgotten."""
    from edgewise.backends.triton.edges import layout, operators, work
    from edgewise.backends.triton.graphs import launch
    from edgewise.backends.triton.ranges import layout as range_layout

    modules = {"edges": layout, "operators": operators, "graphs": launch, "ranges": range_layout}
    places = [(modules[name.partition(".")[0]], name.partition(".")[2]) for name in change]
    before = [getattr(module, name) for module, name in places]

    def put(values: list[Any]) -> None:
        for (module, name), value in zip(places, values, strict=True):
            setattr(module, name, value)
        layout.forms_of.cache_clear()
        work._made.clear()

    put(list(change.values()))
    try:
        yield
    finally:
        put(before)


class Watch:
    """Events of the device around every launch."""

    def __init__(self) -> None:
        from edgewise.backends.triton.edges import operators
        from edgewise.backends.triton.graphs import launch
        from edgewise.backends.triton.ranges import operators as range_operators

        self.events: list[tuple[str, list[Any]]] = []
        over_edges = [(operators, name) for name in ("launch", "launch_tiles")]
        for module, name in (*over_edges, (launch, "start"), (range_operators, "launch_tiles")):
            setattr(module, name, self.around(getattr(module, name)))

    def around(self, start: Callable) -> Callable:
        """The launch with an event before and behind it."""
        import torch

        def run(kernel: Any, *arguments: Any, **more: Any) -> Any:
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            start(kernel, *arguments, **more)
            ended.record()
            self.events.append((kernel.__name__, [began, ended]))

        return run

    def times(self, call: Callable[[], Any], other: Any) -> dict[str, list[float]]:
        """Microseconds of each launch, by the name of its kernel, in the order of the launches."""
        import torch

        call()
        runs = []
        for _ in range(REPETITIONS):
            self.events.clear()
            other.zero_()
            torch.cuda._sleep(SPIN)
            call()
            torch.cuda.synchronize()
            runs.append([(name, 1000 * began.elapsed_time(ended)) for name, (began, ended) in self.events])
        found: dict[str, list[float]] = {}
        for launches in zip(*runs, strict=True):
            found.setdefault(launches[0][0], []).append(round(median(time for _, time in launches), 1))
        return found


def measure(asked: argparse.Namespace) -> int:
    """Time everything; what is done is written at once."""
    import torch
    from gpu_attention.case import BOTH, OURS
    from gpu_attention.device import Cuda
    from gpu_attention.measure import attempted, computed
    from gpu_attention.options import Options
    from gpu_attention.suite import PARTS

    if not torch.cuda.is_available():
        print("There is no CUDA GPU that torch can use: nothing is measured.", file=sys.stderr)
        return 2
    device, watch = Cuda(), Watch()
    own = {"machine": device.facts(), "measured": asked.commit}
    data = read() if asked.only else {}
    if data and any(data[name] != value for name, value in own.items()):
        print("Measured elsewhere or of another commit: run everything, or remove gpu_tiles.json.", file=sys.stderr)
        return 1
    data = {"calls": data.get("calls", {}), **own}
    for name, (part, case_name, tried) in CALLS.items():
        if not name.startswith(asked.only):
            continue
        case = PARTS[part].entries[case_name].build(device.name, Options())
        found = data["calls"][name] = {}
        for change in ({}, *tried):
            with changed(change):
                run = case.make[OURS]()
                times, reason = attempted(
                    lambda run=run, case=case: watch.times(lambda: computed(case, run, BOTH), device.other), device
                )
            found[named(change)] = times or {"failed": reason}
            print(name, named(change), found[named(change)], flush=True)
            write(data)
        del case, run
        device.give_back()
    return 0


def named(change: Change) -> str:
    """A change in words."""
    return ", ".join(f"{name} = {value}" for name, value in change.items()) or "as it is"


def read() -> dict[str, Any]:
    """What was measured; empty where nothing was."""
    path = RESULTS / "gpu_tiles.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def write(data: dict[str, Any]) -> None:
    """The numbers and the page."""
    (RESULTS / "gpu_tiles.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "gpu_tiles.md").write_text(page(data))


def page(data: dict[str, Any]) -> str:
    """A table for each call: its kernels, µs each, added up over their launches."""
    lines = [f"# {__doc__.splitlines()[0]}", ""]
    versions = ", ".join(f"{name} {version}" for name, version in data["machine"]["versions"].items())
    lines += [f"{data['machine']['gpu']}, {versions}; {data['measured']}. `python benchmarks/gpu_tiles.py`, µs.", ""]
    for call, found in data["calls"].items():
        kernels = list(dict.fromkeys(kernel for times in found.values() for kernel in times if kernel != "failed"))
        lines += [f"## {call}", "", f"| sizes | {' | '.join(kernels)} | together |"]
        lines += ["|---|" + "---:|" * (len(kernels) + 1)]
        for change, times in found.items():
            if "failed" in times:
                lines.append(f"| {change} | {times['failed']} |{' |' * len(kernels)}")
                continue
            sums = [fsum(times.get(kernel, [])) for kernel in kernels]
            lines.append(f"| {change} | {' | '.join(f'{x:,.0f}' for x in sums)} | {fsum(sums):,.0f} |")
        lines.append("")
    return "\n".join(lines)


def main(given: list[str] | None = None) -> int:
    """Measure, or write the page again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="calls whose names begin so")
    parser.add_argument("--commit", default="", help="what is measured, in words")
    parser.add_argument("--table-only", action="store_true", help="write the page from the numbers")
    asked = parser.parse_args(given)
    if asked.table_only and (data := read()):
        write(data)
    if asked.table_only:
        return 0
    return measure(asked)


if __name__ == "__main__":
    sys.exit(main())
