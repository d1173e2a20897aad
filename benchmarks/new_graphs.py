"""PyTorch Geometric's models before and after `fuse` where each step brings new graphs: the time of a training step.

    python benchmarks/new_graphs.py            two minutes on one core
    python benchmarks/new_graphs.py --quick    a few steps, nothing written: does everything run?

A batch of molecules is a new `edge_index` in every step, so that nothing that is known of its edges can be used again.
A step is forward, mean over nodes, backward and Adam, of three layers with 64 features. The model before and two copies
of it after `fuse` run in one process with one thread, one step of each in an order drawn anew each time: one copy as it
is, and one whose layers always run the kernels, as if every graph were large. Written are the medians of the times that
the processor spent on them, so that what else runs on the machine counts little, in benchmarks/results/new_graphs.json
and new_graphs.md.
"""

import argparse
import copy
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the import warns of what torch has given up
    from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

    from edgewise.interop import pyg_layers
    from edgewise.interop.pyg import fuse

RESULTS = Path(__file__).parent / "results"
DIM, NUM_LAYERS = 64, 3
NUM_MOLECULES = (1, 4, 16, 64, 256)
MOST_OVERHEAD = 1.05
"""How many times as long a fused model may take, for the noise of the measurement."""
BEFORE, FUSED, KERNELS = "PyTorch Geometric", "fused", "kernels always"
MODELS: dict[str, Callable[[], nn.Module]] = {
    "GIN": lambda: GIN(DIM, DIM, NUM_LAYERS),
    "SAGE": lambda: GraphSAGE(DIM, DIM, NUM_LAYERS),
    "GCN": lambda: GCN(DIM, DIM, NUM_LAYERS),
    "GAT": lambda: GAT(DIM, DIM, NUM_LAYERS, heads=4),
}


def molecules(num_molecules: int) -> Tensor:
    """Edges (2, edge) of molecules of 25 atoms: a tree whose bonds reach back at most three atoms, and three rings."""
    generator = torch.Generator().manual_seed(0)
    atoms = torch.arange(1, 25).expand(num_molecules, -1)
    back = 1 + (atoms.clamp(max=3) * torch.rand(num_molecules, 24, generator=generator)).long()
    rings = torch.tensor([0, 7, 14]).expand(num_molecules, -1)
    ends = torch.stack([torch.cat([atoms, rings], 1), torch.cat([atoms - back, rings + 5], 1)])
    ends = (ends + 25 * torch.arange(num_molecules)[:, None]).flatten(1)
    return torch.cat([ends, ends.flip(0)], 1)


def step_of(model: nn.Module, x: Tensor, edge_index: Tensor, many_numbers: int) -> Callable[[], float]:
    """A training step on a copy of the edges, which returns its seconds."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> float:
        new = edge_index.clone()
        with patch.object(pyg_layers, "MANY_NUMBERS", many_numbers):
            began = time.process_time()
            optimizer.zero_grad()
            model(x, new).square().mean().backward()
            optimizer.step()
            return time.process_time() - began

    return step


def measured(name: str, num_molecules: int, seconds: float) -> dict[str, Any]:
    """The times of a step before and after `fuse`, whose outputs are compared first."""
    torch.manual_seed(0)
    edge_index, many_numbers = molecules(num_molecules), pyg_layers.MANY_NUMBERS
    x, model = torch.randn(25 * num_molecules, DIM), MODELS[name]()
    models = {BEFORE: model, FUSED: fuse(copy.deepcopy(model)), KERNELS: fuse(copy.deepcopy(model))}
    limits = {BEFORE: many_numbers, FUSED: many_numbers, KERNELS: 0}
    expected = model(x, edge_index)
    for who, other in models.items():
        with patch.object(pyg_layers, "MANY_NUMBERS", limits[who]):
            torch.testing.assert_close(other(x, edge_index.clone()), expected, rtol=1e-4, atol=1e-4)
    steps = {who: step_of(other, x, edge_index, limits[who]) for who, other in models.items()}
    times: dict[str, list[float]] = {who: [] for who in steps}
    order, random, stop = list(steps), Random(0), time.perf_counter() + seconds
    for turn in range(100_000):
        random.shuffle(order)
        for who in order:
            spent = steps[who]()
            if turn > 1:
                times[who].append(1000 * spent)
        if turn >= 8 and time.perf_counter() > stop:
            break
    medians = {who: round(statistics.median(each), 4) for who, each in times.items()}
    return {
        "model": name, "molecules": num_molecules, "nodes": len(x), "edges": edge_index.shape[1],
        "steps": len(times[BEFORE]), "median_ms": medians,
    }  # fmt: skip


def table(data: dict[str, Any]) -> str:
    """The page new_graphs.md."""
    facts, versions = data["machine"], data["machine"]["versions"]
    lines = [
        "# New graphs in each step, before and after `fuse`",
        "",
        "Written by `python benchmarks/new_graphs.py`. A step is forward, backward and Adam on a batch of molecules "
        f"whose `edge_index` is new, through {NUM_LAYERS} layers with {DIM} features, in float32 with one thread. All "
        "run in one process, one step of each in an order drawn anew each time; times are medians of the processor's "
        "time. The last columns are a fused model that runs the kernels on every graph, whose edges need a plan in "
        f"each step. At least as fast: at most {MOST_OVERHEAD} times the time before, for its noise.",
        "",
        f"{facts['cores']} cores of {facts['processor']}, Python {facts['python']}, torch {versions['torch']}, "
        f"torch_geometric {versions['torch_geometric']}; load of the machine {data['load'][0]} at the beginning, "
        f"{data['load'][1]} at the end; commit `{data['commit']['commit'][:9]}`.",
        "",
        "| model | molecules | edges | before, ms | fused, ms | of the time before | at least as fast | "
        "kernels always, ms | of the time before |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for row in data["rows"]:
        before, fused, kernels = (row["median_ms"][who] for who in (BEFORE, FUSED, KERNELS))
        verdict = "yes" if fused <= MOST_OVERHEAD * before else "**no**"
        cells = [row["model"], f"{row['molecules']:,}", f"{row['edges']:,}", f"{before:.3g}", f"{fused:.3g}"]
        cells += [f"{fused / before:.2f}", verdict, f"{kernels:.3g}", f"{kernels / before:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure and write; whether fused models are at least as fast everywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few steps of small batches; nothing is written")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each row of the table")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    load = [round(os.getloadavg()[0], 2)]
    sizes, seconds = (NUM_MOLECULES[:2], 0.0) if chosen.quick else (NUM_MOLECULES, chosen.seconds)
    rows = [measured(name, size, seconds) for name in MODELS for size in sizes]
    load.append(round(os.getloadavg()[0], 2))
    data = {"machine": machine.facts(), "commit": machine.commit(), "load": load, "rows": rows}
    page = table(data)
    print(page)
    if not chosen.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "new_graphs.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "new_graphs.md").write_text(page)
    return int(any("**no**" in line for line in page.splitlines())) if not chosen.quick else 0


if __name__ == "__main__":
    sys.exit(main())
