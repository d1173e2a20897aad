"""PyTorch Geometric's example models before and after `fuse`: the time of a training step, and its memory.

    python benchmarks/fuse.py            everything, some minutes on two cores
    python benchmarks/fuse.py --quick    small graphs, nothing written: does everything run?

A step is forward, cross-entropy on the training nodes, backward and Adam. That both compute the same is checked first,
without dropout: outputs, and the gradients of all parameters. Both then run in one process, in turn, twice: with the
allocator of the C library as it is, and with one that keeps memory (peers at their best); times are medians, ± is the
interquartile range. The memory of each is measured in a process of its own, with the default allocator. A busy machine
is refused: close what else runs, or give --force, which marks the report. Written are benchmarks/results/fuse.json
(every single time) and fuse.md (the table).
"""

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine, process
from cpu_attention.case import OURS, Case, Peer
from cpu_attention.graphs import MissingDataError
from cpu_attention.measure import agree, in_turn, spread_too_widely
from cpu_attention.options import data_folder
from cpu_attention.process import answer, give_back, memory, reset_peak, restart_with_allocator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the import warns of what torch has given up
    from torch_geometric.nn import GAT, GATConv, GATv2Conv, TransformerConv

    from edgewise import Edges
    from edgewise.interop import pyg_layers
    from edgewise.interop.pyg import fuse, fuse_report

RESULTS = Path(__file__).parent / "results"
BEFORE = "PyTorch Geometric"
SPREAD = 0.15
KEEPING, AS_IT_IS = "keeping", "as it is"
"""Allocators: one that keeps memory, and the one that a process has where nobody asks for another."""
STEPS = 3
"""So many are run where memory is measured: the first makes the state of the optimizer."""


class Gat(nn.Module):
    """Two layers, as in PyTorch Geometric's examples/gat.py."""

    def __init__(self, kind: type, num_features: int, num_classes: int, dropout: float = 0.6):
        super().__init__()
        self.first = kind(num_features, 8, heads=8, dropout=dropout)
        self.second = kind(64, num_classes, heads=1, concat=False, dropout=dropout)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The logits of the nodes."""
        x = F.dropout(x, self.dropout, self.training)
        x = F.elu(self.first(x, edge_index))
        return self.second(F.dropout(x, self.dropout, self.training), edge_index)


class UniMp(nn.Module):
    """Three gated layers with layer normalization, as in PyTorch Geometric's examples/unimp_arxiv.py."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 64, heads: int = 2, dropout: float = 0.3):
        super().__init__()
        sizes = (num_features, hidden), (hidden, hidden), (hidden, num_classes)
        self.convs = nn.ModuleList(
            TransformerConv(before, after // heads if after == hidden else after, heads, concat=after == hidden,
                            beta=True, dropout=dropout)
            for before, after in sizes
        )  # fmt: skip
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in sizes[1:])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The logits of the nodes."""
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x, edge_index)).relu()
        return self.convs[-1](x, edge_index)


@dataclass(frozen=True)
class Inputs:
    """A graph and the labels of some nodes."""

    x: Tensor
    """(node, feature)."""
    edge_index: Tensor
    """(2, edge)."""
    labels: Tensor
    """(node)."""
    train: Tensor
    """The nodes that are learned from."""

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Example:
    """A model on a graph, and what is expected of it."""

    read: Callable[[], Inputs]
    """The graph."""
    make: Callable[[Inputs], nn.Module]
    """The model."""
    speed: float
    """How many times as fast it must be after `fuse`."""
    memory: float | None = None
    """Into how many parts the memory must be divided."""


def cora() -> Inputs:
    """Cora with its public split; each bag of words sums to one."""
    with np.load(_file("planetoid/cora.npz")) as arrays:
        x = _table(arrays, "x_data")
        index, labels, train = arrays["edge_index"], arrays["y"], arrays["train_mask"]
        return Inputs(
            x, *map(torch.from_numpy, (index.astype(np.int64), labels.astype(np.int64), np.flatnonzero(train)))
        )


def pages() -> Inputs:
    """The Facebook pages, their words projected at random to 128 features; 60 % of the nodes train."""
    with np.load(_file("facebook_pages/facebook_pages.npz")) as arrays:
        words = _table(arrays, None)
        x = words @ torch.randn(words.shape[1], 128, generator=torch.Generator().manual_seed(0))
        train = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: 6 * len(x) // 10]
        index, labels = (torch.from_numpy(arrays[name].astype(np.int64)) for name in ("edge_index", "y"))
        return Inputs(x, index, labels, train)


def random_graph(num_nodes: int, num_edges: int) -> Inputs:
    """Edges between nodes drawn at random; 64 features, 16 classes, every node trains."""
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    x, labels = torch.randn(num_nodes, 64, generator=generator), torch.arange(num_nodes) % 16
    return Inputs(x, index, labels, torch.arange(num_nodes))


def small() -> Inputs:
    """What stands for each of the graphs where it is to be quick."""
    return random_graph(2_000, 20_000)


def _gat(kind: type) -> Callable[[Inputs], nn.Module]:
    return lambda inputs: Gat(kind, inputs.x.shape[1], inputs.num_classes)


EXAMPLES = {
    "GAT on Cora": Example(cora, _gat(GATConv), 0.95),
    "GATv2 on Cora": Example(cora, _gat(GATv2Conv), 0.95),
    "UniMP on the Facebook pages": Example(pages, lambda inputs: UniMp(inputs.x.shape[1], inputs.num_classes), 2),
    "GAT on 300,000 nodes and 3,000,000 edges": Example(
        lambda: random_graph(300_000, 3_000_000),
        # ELU, as in the paper: where rounding turns a sign ReLU's gradient jumps, and so does a sum over all nodes.
        lambda inputs: GAT(inputs.x.shape[1], 128, 2, inputs.num_classes, heads=4, act="elu"),
        5,
        memory=5,
    ),
}


def _file(name: str) -> Path:
    folder = data_folder()
    if folder is None or not (folder / name).is_file():
        raise MissingDataError(f"EDGEWISE_DATA does not lead to {name}")
    return folder / name


def _table(arrays: Any, values: str | None) -> Tensor:
    """The bags of words as a dense table, each divided by its sum."""
    starts, columns = arrays["x_indptr"], arrays["x_indices"].astype(np.int64)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    x = np.zeros(tuple(arrays["x_shape"]), np.float32)
    x[rows, columns] = 1 if values is None else arrays[values]
    return torch.from_numpy(x / x.sum(1, keepdims=True).clip(min=1e-12))


def pair_of(example: Example, inputs: Inputs) -> dict[str, nn.Module]:
    """The model before and after `fuse`, with the same weights."""
    torch.manual_seed(0)
    model = example.make(inputs)
    fused = fuse(copy.deepcopy(model))
    assert not fuse_report(fused).not_fused
    return {OURS: fused, BEFORE: model}


def step_of(model: nn.Module, inputs: Inputs) -> Callable[[], None]:
    """A training step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        out = model(inputs.x, inputs.edge_index)
        F.cross_entropy(out[inputs.train], inputs.labels[inputs.train]).backward()
        optimizer.step()

    return step


def as_case(models: dict[str, nn.Module], inputs: Inputs) -> Case:
    """Both without dropout, to compare outputs and gradients."""
    peers = {
        name: Peer(lambda model=model: model.eval()(inputs.x, inputs.edge_index), dict(model.named_parameters()))
        for name, model in models.items()
    }
    shape = len(inputs.x), inputs.num_classes
    return Case(peers, torch.randn(shape, generator=torch.Generator().manual_seed(1)))


def measured(name: str, quick: bool, threads: int) -> dict[str, Any]:
    """Do both agree? Then the time of a step of each, and its memory."""
    example = EXAMPLES[name]
    inputs = small() if quick else example.read()
    models = pair_of(example, inputs)
    with patch.object(pyg_layers, "MANY_NUMBERS", 0):  # or the original is compared with itself where a layer is small
        difference = agree(as_case(models, inputs))
    assert not fuse_report(models[OURS]).fallbacks
    found: dict[str, Any] = {
        "facts": {"nodes": len(inputs.x), "edges": inputs.edge_index.shape[1], "features": inputs.x.shape[1]},
        "goals": {"speed": example.speed, "memory": example.memory},
        "largest_difference": difference,
    }
    began = time.perf_counter()
    Edges.from_edge_index(inputs.edge_index, len(inputs.x)).plan  # noqa: B018
    found["once_ms"] = round(1000 * (time.perf_counter() - began), 3)
    del models, inputs
    request: dict[str, Any] = {"name": name, "quick": quick, "threads": threads}
    found["times"] = {
        KEEPING: times_of(**request),
        AS_IT_IS: times_of(**request) if quick else process.in_child("times", __file__, **request),
    }
    found["step_mib"] = {
        who: peak_of(who=who, **request) if quick else process.in_child("peak", __file__, who=who, **request)
        for who in (OURS, BEFORE)
    }
    return found


def times_of(name: str, quick: bool, threads: int) -> dict[str, Any]:
    """The time of a step of each, in turn, with the allocator of this process."""
    torch.set_num_threads(threads)
    example = EXAMPLES[name]
    inputs = small() if quick else example.read()
    steps = {who: step_of(model, inputs) for who, model in pair_of(example, inputs).items()}
    return in_turn(steps, 0.1 if quick else 15, 5)


def peak_of(name: str, who: str, quick: bool, threads: int) -> float:
    """MiB at the peak of some steps, on top of what is there before the first: graph, weights and code."""
    torch.set_num_threads(threads)
    example, tiny = EXAMPLES[name], small()
    for step in [step_of(pair_of(example, tiny)[who], tiny)] * STEPS:
        step()  # loads and compiles what is loaded and compiled once
    inputs = tiny if quick else example.read()
    model = pair_of(example, inputs)[who]
    step = step_of(model, inputs)
    give_back()
    before = reset_peak()
    for _ in range(STEPS):
        step()
    return round((memory("VmHWM") - before) / 2**20, 1)


def table(data: dict[str, Any]) -> str:
    """The page fuse.md."""
    facts, parts = data["machine"], data["parts"]
    problems = [f"- {name}: {problem}" for name, part in parts.items() for problem in part.get("problems", [])]
    versions = facts["versions"]
    lines = [
        "# PyTorch Geometric's models before and after `fuse`",
        "",
        "Written by `python benchmarks/fuse.py`; every single time is in `fuse.json`. A step is forward, "
        "cross-entropy, backward and Adam, in float32. Both models run in one process, in turn; times are medians, ± "
        "is the interquartile range. Without dropout both gave the same outputs and gradients before. Times are given "
        "twice: with the allocator of the C library as every process has it, which hands large tensors back to the "
        "system after each use, and with one that keeps memory (`MALLOC_MMAP_MAX_=0`, "
        "`MALLOC_TRIM_THRESHOLD_=30000000000`). Memory is the peak of three steps in a process of its own, with the "
        "first, on top of what was there before. The edges are grouped once for an `edge_index`; that time is not part "
        "of a step, its memory is.",
        "",
        *(["**Not all of this was measured on a quiet machine:**", "", *problems, ""] if problems else []),
        f"{facts['cores']} cores of {facts['processor']}, Python {facts['python']}, torch {versions['torch']}, "
        f"torch_geometric {versions['torch_geometric']}; {data['threads']} thread{'s' if data['threads'] > 1 else ''}; "
        f"commit `{data['commit']['commit'][:9]}`.",
        "",
        "| model | nodes | edges | allocator | before, ms | fused, ms | times as fast | goal | before, MiB | "
        "fused, MiB | share of the memory | goal | grouped once, ms | largest difference |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, part in parts.items():
        lines += [f"| {name} | {row} |" for row in _rows(part)]
    return "\n".join(lines) + "\n"


def _rows(part: dict[str, Any]) -> list[str]:
    if "left_out" in part:
        return [f"left out: {part['left_out']}"]
    goals, sizes, memory = part["goals"], part["facts"], part["step_mib"]
    share, goal = memory[OURS] / max(memory[BEFORE], 1e-9), goals["memory"]
    rest = [f"{memory[BEFORE]:,}", f"{memory[OURS]:,}", f"{share:.0%}"]
    rest += ["" if goal is None else f"≤ 1/{goal}, {_verdict(share <= 1 / goal)}"]
    rest += [f"{part['once_ms']:.3g}", f"{part['largest_difference'][BEFORE]:.0e}"]
    rows = []
    for allocator in (AS_IT_IS, KEEPING):
        peers = part["times"][allocator]
        speed = peers[BEFORE]["median_ms"] / peers[OURS]["median_ms"]
        cells = [f"{sizes['nodes']:,}", f"{sizes['edges']:,}", allocator]
        cells += [f"{peer['median_ms']:.3g} ± {peer['spread_ms']:.2g}" for peer in (peers[BEFORE], peers[OURS])]
        cells += [f"{speed:.2f}×", f"≥ {goals['speed']}×, {_verdict(speed >= goals['speed'])}"]
        rows.append(" | ".join([*cells, *(rest if allocator == AS_IT_IS else [""] * len(rest))]))
    return rows


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def main() -> int:
    """Measure and write; whether the numbers can be believed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small graphs; nothing is written")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine too, and mark the report")
    parser.add_argument("--threads", type=int, default=machine.cores(), help="of torch, and with it of our kernels")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        request = json.loads(chosen.child)
        answer({"times": times_of, "peak": peak_of}[request.pop("task")](**request))
        return 0
    restart_with_allocator()
    torch.set_num_threads(chosen.threads)
    data: dict[str, Any] = {"machine": machine.facts(), "commit": machine.commit(), "threads": chosen.threads}
    data["parts"] = {}
    try:
        for name in EXAMPLES:
            machine.wait_until_quiet(check_load=not data["parts"], force=chosen.quick or chosen.force)
            try:
                found = measured(name, chosen.quick, chosen.threads)
            except MissingDataError as error:
                data["parts"][name] = {"left_out": str(error)}
                continue
            spread = spread_too_widely(
                {
                    f"{who}, {each}": {"time": one}
                    for each, peers in found["times"].items()
                    for who, one in peers.items()
                },
                SPREAD,
            )
            found["problems"] = spread + machine.look().reasons(machine.cores())
            data["parts"][name] = found
    except machine.BusyMachineError as error:
        print(error, file=sys.stderr)
        return 1
    page = table(data)
    print(page)
    if not chosen.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "fuse.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "fuse.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
