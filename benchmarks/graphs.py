"""GCN and GAT on a CPU, ours beside PyTorch Geometric's: the time of an epoch, and the memory that it takes.

    python benchmarks/graphs.py            everything, some minutes on two cores
    python benchmarks/graphs.py --quick    small graphs, nothing written: does everything run?

An epoch is a step on the training nodes (forward, backward, Adam) and a pass over the validation nodes. That everyone
computes the same is checked first: logits and gradients, with the same weights. Peers then run in one process, in turn;
times are medians, ± is the interquartile range. The memory of each is measured in a process of its own, with the
default allocator. A busy machine is refused: close what else runs, or give --force, which marks the report. Written are
benchmarks/results/graphs.json (every single time) and graphs.md (the tables).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine, process
from cpu_attention.case import OURS
from cpu_attention.graphs import MissingDataError
from cpu_attention.limits import gathering
from cpu_attention.measure import agree, in_turn, spread_too_widely
from cpu_attention.process import answer, give_back, memory, reset_peak, restart_with_allocator
from graph_epochs.inputs import WORKLOADS, Inputs, Recipe, inputs_of
from graph_epochs.models import as_case, epoch_of, learner_of, names_of, same_weights

RESULTS = Path(__file__).parent / "results"
SPREAD = 0.15
EPOCHS = 3
"""So many are run where memory is measured: the first makes the state of the optimizer."""


def measured(graph: str, model: str, quick: bool, threads: int) -> dict[str, Any]:
    """Do all agree? Then the time of an epoch of each, and its memory."""
    inputs, recipe = inputs_of(graph, quick), WORKLOADS[graph].recipes[model]
    torch.manual_seed(0)
    learners = {name: learner_of(name, model, inputs, recipe) for name in names_of(model)}
    same_weights(learners)
    found: dict[str, Any] = {"facts": inputs.facts(), "largest_difference": agree(as_case(learners, inputs))}
    epochs = {name: epoch_of(learner, inputs, recipe) for name, learner in learners.items()}
    found["peers"] = in_turn(epochs, 0.1 if quick else 10, 3)
    found["gathered_bytes"] = gathered_bytes(model, inputs, recipe)
    limit = gathering(inputs.num_nodes, inputs.facts()["edges"], (threads,))
    found["gather_gb_per_s"] = limit["gb_per_s"][str(threads)]
    del learners, epochs
    for name, peer in found["peers"].items():
        request: dict[str, Any] = {"graph": graph, "model": model, "name": name, "quick": quick, "threads": threads}
        own_process = name == OURS or not quick
        peer |= process.in_child("peak", __file__, **request) if own_process else peak_of(**request)
    return found


def gathered_bytes(model: str, inputs: Inputs, recipe: Recipe) -> int:
    """What an epoch must fetch from where its edges and features say, in float32.

    Twice forward (in training and after it) and once backward, in a GAT twice: for the values and for their weights.
    """
    entries, loops = len(inputs.features.values), inputs.num_nodes
    width = recipe.settings.model_dim
    edges = (len(inputs.senders) + loops) * (width + inputs.num_classes)
    return 4 * (3 * entries * width + (3 if model == "GCN" else 4) * edges)


def peak_of(graph: str, model: str, name: str, quick: bool, threads: int) -> dict[str, float]:
    """MiB at the peak of some epochs: on top of what is there before the first, and together with it (the graph in the
    form that the model takes, its weights, the optimizer)."""
    torch.set_num_threads(threads)
    recipe = WORKLOADS[graph].recipes[model]
    _train(name, model, inputs_of(graph, quick=True), recipe)  # loads and compiles what is loaded and compiled once
    inputs = inputs_of(graph, quick)
    give_back()
    before = reset_peak()
    learner = learner_of(name, model, inputs, recipe)
    epoch = epoch_of(learner, inputs, recipe)
    give_back()
    ready = reset_peak()
    for _ in range(EPOCHS):
        epoch()
    peak = memory("VmHWM")
    return {"epoch_mib": round((peak - ready) / 2**20, 1), "whole_mib": round((peak - before) / 2**20, 1)}


def _train(name: str, model: str, inputs: Inputs, recipe: Recipe) -> None:
    epoch = epoch_of(learner_of(name, model, inputs, recipe), inputs, recipe)
    for _ in range(EPOCHS):
        epoch()


def table(data: dict[str, Any]) -> str:
    """The tables of graphs.md."""
    facts, parts = data["machine"], data["parts"]
    problems = [f"- {name}: {problem}" for name, part in parts.items() for problem in part.get("problems", [])]
    versions = facts["versions"]
    lines = [
        "# Graphs on a CPU",
        "",
        "Written by `python benchmarks/graphs.py`; every single time is in `graphs.json`. An epoch is a step on the "
        "training nodes (forward, backward, Adam) and a pass over the validation nodes, in float32. Peers run in one "
        "process, in turn; times are medians, ± is the interquartile range. With the same weights all gave the same "
        "logits and gradients before.",
        "",
        "The limit is the time that the machine needs to fetch what the edges and features of an epoch point to, at "
        "the rate at which it gathers rows of 512 bytes; rows are shorter here, and all else takes time too. Memory "
        "is the peak of three epochs in a process of its own: on top of what was there before the first, and together "
        "with it, which is the graph in the form that the model takes, its weights and the optimizer.",
        "",
        "PyTorch Geometric without its compiled extras, as `pip install torch_geometric` brings it, and at its best: "
        "normalization and loops are computed once.",
        "",
        *(["**Not all of this was measured on a quiet machine:**", "", *problems, ""] if problems else []),
        f"{facts['cores']} cores of {facts['processor']}, Python {facts['python']}, torch {versions['torch']}, "
        f"torch_geometric {versions['torch_geometric']}; {data['threads']} thread{'s' if data['threads'] > 1 else ''}; "
        f"commit `{data['commit']['commit'][:9]}`.",
    ]
    for name, part in parts.items():
        lines += ["", f"## {name}", "", *([f"Left out: {part['left_out']}."] if "left_out" in part else _part(part))]
    return "\n".join(lines) + "\n"


def _part(part: dict[str, Any]) -> list[str]:
    facts, peers = part["facts"], part["peers"]
    ours, limit = peers[OURS], part["gathered_bytes"] / part["gather_gb_per_s"] * 1e-6
    lines = [
        f"{facts['nodes']:,} nodes with {facts['entries']:,} entries of {facts['features']:,} features, "
        f"{facts['edges']:,} edges, {facts['training_nodes']:,} training and {facts['validation_nodes']:,} "
        "validation nodes.",
        "",
        "| | an epoch, ms | ratio | of the limit | memory of an epoch, MiB | ratio | with all else, MiB | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, peer in peers.items():
        cells = [f"{peer['median_ms']:.3g} ± {peer['spread_ms']:.2g}", _over(peer, ours, "median_ms")]
        cells += [f"{limit / peer['median_ms']:.0%}"]
        for key in ("epoch_mib", "whole_mib"):
            cells += [f"{peer[key]:,}", _over(peer, ours, key)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    others = [name for name in peers if name != OURS]
    fastest = min(others, key=lambda name: peers[name]["median_ms"])
    smallest = min(others, key=lambda name: peers[name]["whole_mib"])
    return [
        *lines,
        "",
        f"edgewise runs at {_ratio(peers[fastest], ours, 'median_ms'):.2f}× the speed of the fastest of the others "
        f"({fastest}), and needs 1/{_ratio(peers[smallest], ours, 'whole_mib'):.2f} of the memory of the smallest "
        f"({smallest}).",
    ]


def _over(peer: dict[str, Any], ours: dict[str, Any], key: str) -> str:
    return "" if peer is ours else f"{_ratio(peer, ours, key):.2f}×"


def _ratio(peer: dict[str, Any], ours: dict[str, Any], key: str) -> float:
    return peer[key] / max(ours[key], 1e-9)


def main() -> int:
    """Measure and write; whether the numbers can be believed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small graphs; nothing is written")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine too, and mark the report")
    parser.add_argument("--threads", type=int, default=machine.cores(), help="of torch, and with it of our kernels")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        request = json.loads(asked.child)
        request.pop("task")
        answer(peak_of(**request))
        return 0
    restart_with_allocator()
    torch.set_num_threads(asked.threads)
    data: dict[str, Any] = {"machine": machine.facts(), "commit": machine.commit(), "threads": asked.threads}
    data["parts"] = {}
    try:
        for graph in list(WORKLOADS)[: 1 if asked.quick else None]:  # which stands for all of them then
            for model in WORKLOADS[graph].recipes:
                machine.wait_until_quiet(check_load=not data["parts"], force=asked.quick or asked.force)
                name = f"{model} on {graph}"
                try:
                    found = measured(graph, model, asked.quick, asked.threads)
                except MissingDataError as error:
                    data["parts"][name] = {"left_out": str(error)}
                    continue
                spread = spread_too_widely({peer: {"time": one} for peer, one in found["peers"].items()}, SPREAD)
                found["problems"] = spread + machine.look().reasons(machine.cores())
                data["parts"][name] = found
    except machine.BusyMachineError as error:
        print(error, file=sys.stderr)
        return 1
    page = table(data)
    print(page)
    if not asked.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "graphs.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "graphs.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
