"""Plans of large runs, from measured rates and a small simulation: machines, hours, memory, and what is short first.

    python benchmarks/plan.py [--write] [--cores 16 --memory 64 --disk-reads 400000 --disk 2 --network 10]

Rates come from the files that `make bench-sampling`, `make bench-distributed` and `make bench-large` write; what is not
measured yet is named, and the plans that need it are left out. The machine is assumed: cores as fast as the measured
one, memory in GiB, random reads and GB a second of its disk, and Gbit a second of its network.

Each machine is a pipeline: samplers → reads of the store → training steps → exchange of gradients. A stage works on as
many batches at a time as it has cores, takes the next one when it is there, and waits where the stage behind it has no
room. Machines take their steps together. What is busy most of the time is the bottleneck. The simulation has no random
numbers: the same rates give the same plan.

With --write: the tables of docs/scaling.md.
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- plan: written by benchmarks/plan.py -->\n", "<!-- end of plan -->"
GIB, HOUR, PAGE = 2**30, 3600, 4096
ROOM = 2
"""Finished batches that wait between two stages, for each core of the later one."""
NUM_BATCHES = 2000
"""Batches that are simulated."""


@dataclass(frozen=True)
class Machine:
    """What is assumed of a machine."""

    cores: int = 16
    """As fast as the core that was measured."""
    memory: float = 64
    """GiB."""
    disk_reads: float = 400_000
    """Random reads of 4 KiB a second."""
    disk: float = 2.0
    """GB a second, read in order."""
    network: float = 10.0
    """Gbit a second, each way."""
    latency: float = 1e-4
    """Seconds of a message."""


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline of a machine."""

    name: str
    """What it does."""
    seconds: float
    """What a batch takes."""
    servers: int = 1
    """How many batches it works on at a time."""


@dataclass(frozen=True)
class Flow:
    """How batches went through a pipeline."""

    batches_a_second: float
    """Of a machine."""
    busy: dict[str, float]
    """The share of the time that each stage worked."""

    @property
    def bottleneck(self) -> str:
        """The stage that was busy most of the time."""
        return max(self.busy, key=lambda name: self.busy[name])


def simulate(stages: Sequence[Stage], num_batches: int = NUM_BATCHES, room: int = ROOM) -> Flow:
    """Sends batches through stages.

        begin(s, b) = max(end(s − 1, b), leave(s, b − servers_s));   end(s, b) = begin(s, b) + seconds_s
        leave(s, b) = max(end(s, b), begin(s + 1, b − room · servers_{s + 1}))

    Args:
        stages: In their order.
        num_batches: How many are sent.
        room: Batches that may wait before a stage, for each of its servers.
    """
    begins = [[0.0] * num_batches for _ in stages]
    leaves = [[0.0] * num_batches for _ in stages]
    for batch in range(num_batches):
        ready = 0.0
        for place, stage in enumerate(stages):
            free = leaves[place][batch - stage.servers] if batch >= stage.servers else 0.0
            begins[place][batch] = max(ready, free)
            ready = leave = begins[place][batch] + stage.seconds
            if place + 1 < len(stages):
                earlier = batch - room * stages[place + 1].servers
                leave = max(ready, begins[place + 1][earlier] if earlier >= 0 else 0.0)
            leaves[place][batch] = leave
    total = leaves[-1][-1]
    busy = {stage.name: stage.seconds * num_batches / stage.servers / total for stage in stages}
    return Flow(num_batches / total, busy)


@dataclass(frozen=True)
class Rate:
    """A number that was measured."""

    name: str
    """What it is."""
    file: str
    """Where it stands, under docs/results; empty for those of `store_bytes`."""
    keys: tuple[str, ...]
    """Its place in the file; `*` is the first entry there."""
    command: str
    """What measures it."""
    unit: str
    """Of the number."""


RATES = {
    "sampled_edges": Rate(
        "sampled edges, one thread",
        *("sampling.json", ("power law*", "rates", "edgewise, 1 thread"), "make bench-sampling", "a second"),
    ),
    "edges_a_seed": Rate(
        "edges of a sample, fanouts 15 and 10",
        *("distributed.json", ("core", "sampled training", "edges_a_seed"), "make bench-distributed", "a seed"),
    ),
    "nodes_a_seed": Rate(
        "nodes of a sample",
        *("distributed.json", ("core", "sampled training", "nodes_a_seed"), "make bench-distributed", "a seed"),
    ),
    "trained_seeds": Rate(
        "nodes trained, one thread, sampling left out",
        *("distributed.json", ("core", "sampled training", "seeds_a_second"), "make bench-distributed", "a second"),
    ),
    "weight_bytes": Rate(
        "weights of that model",
        *("distributed.json", ("core", "sampled training", "weight_bytes"), "make bench-distributed", "bytes"),
    ),
    "sent_by_weights": Rate(
        "bytes sent a step by bytes of weights, 2 processes, ddp",
        *("distributed.json", ("network", "2 processes, ddp", "bytes_by_weights"), "make bench-distributed", ""),
    ),
    "molecules": Rate(
        "molecules predicted, one thread",
        *(
            "distributed.json",
            ("core", "predicted molecules", "molecules_a_second"),
            "make bench-distributed",
            "a second",
        ),
    ),
    "bytes_a_molecule": Rate(
        "bytes of a predicted row",
        *("distributed.json", ("core", "predicted molecules", "bytes_a_molecule"), "make bench-distributed", "bytes"),
    ),
    "bytes_an_edge": Rate("bytes of the store an edge", "", (), "make bench-large", "bytes"),
    "bytes_a_node": Rate("bytes of the store a node, without its features", "", (), "make bench-large", "bytes"),
}
"""All rates that plans start from."""


def store_bytes(path: Path) -> dict[str, float]:
    """What an edge and a node take in a store, by two stores whose sizes are known; nothing while there are not two."""
    records = json.loads(path.read_text()) if path.is_file() else []
    if len(records) < 2:
        return {}
    (n, e, a), (m, f, b) = (
        (each["num_nodes"], each["num_edges"], each["bytes"]["store"] - each["bytes"]["features"])
        for each in records[:2]
    )
    return {"bytes_an_edge": (a * m - b * n) / (e * m - f * n), "bytes_a_node": (a * f - b * e) / (n * f - m * e)}


def measured(
    folder: Path = DOCS / "results", stores: Path = DOCS.parent / "benchmarks" / "results" / "large_graph.json"
) -> dict[str, float]:
    """The rates that were measured; a list of rounds counts as its median."""
    found = store_bytes(stores)
    for name, rate in RATES.items():
        if not rate.file:
            continue
        path = folder / rate.file
        content: Any = json.loads(path.read_text()) if path.is_file() else {}
        for key in rate.keys:
            known = content if isinstance(content, dict) else {}
            found_key = next((each for each in known if key.endswith("*") and each.startswith(key[:-1])), key)
            content = known.get(found_key)
        if content is not None:
            found[name] = statistics.median(content) if isinstance(content, list) else float(content)
    return found


def exchange_seconds(machine: Machine, num_machines: int, weight_bytes: float, sent_by_weights: float) -> float:
    """Adding the gradients of so many machines: what was counted for two, at (m − 1) / m of the weights each way."""
    if num_machines == 1:
        return 0.0
    share = sent_by_weights * 2 * (num_machines - 1) / num_machines
    return share * weight_bytes / (machine.network * 1e9 / 8) + 2 * (num_machines - 1) * machine.latency


def graph_stages(
    rates: dict[str, float],
    machine: Machine,
    num_machines: int,
    *,
    sampling: int,
    batch_size: int,
    feature_bytes: int,
    in_memory: bool,
) -> list[Stage]:
    """The pipeline of a training on sampled neighborhoods: some cores sample, the others train.

    A batch of a machine is computed by all its training cores together, one process a core. Where the store is larger
    than the memory, each sampled node costs the reads of its row of features and one of its edges.
    """
    edges, nodes = (rates[name] * batch_size for name in ("edges_a_seed", "nodes_a_seed"))
    reads = nodes * math.ceil(feature_bytes / PAGE) + nodes
    seconds = 0.0 if in_memory else reads / machine.disk_reads
    exchanged = exchange_seconds(machine, num_machines, rates["weight_bytes"], rates["sent_by_weights"])
    return [
        Stage("sampling", edges / rates["sampled_edges"], sampling),
        Stage("reads of the store", seconds),
        Stage("training steps", batch_size / rates["trained_seeds"] / (machine.cores - sampling)),
        Stage("exchange of gradients", exchanged),
    ]


def graph_plan(rates: dict[str, float], machine: Machine, *, machines: Sequence[int] = (1, 4, 16)) -> list[str]:
    """Training on 100 million nodes and 10 billion edges, as lines of Markdown."""
    num_nodes, num_edges, num_features, num_seeds, epochs, batch_size = 10**8, 10**10, 128, 10**6, 10, 1024
    feature_bytes = 2 * num_features
    edges, nodes = num_edges * rates["bytes_an_edge"], num_nodes * (rates["bytes_a_node"] + feature_bytes)
    in_memory = edges + nodes < 0.8 * machine.memory * GIB
    lines = [
        f"The store has {(edges + nodes) / GIB:,.0f} GiB: {edges / GIB:,.0f} of edges ({rates['bytes_an_edge']:.1f} "
        f"bytes each), {nodes / GIB:,.0f} of nodes ({num_features} features in float16). Each machine has all of it on "
        f"its disk, and one memory map; with {machine.memory:.0f} GiB of memory it is "
        + ("kept in memory." if in_memory else "read from the disk as it is sampled.")
        + f" {num_seeds:,} training nodes, {epochs} epochs, batches of {batch_size} a machine:",
        "",
        "| machines | cores that sample | hours | machine-hours | busy most | share of the time it is busy | second |",
        "|---|---|---|---|---|---|---|",
    ]
    for count in machines:
        flows = {}
        for sampling in range(1, machine.cores):
            how = {"sampling": sampling, "batch_size": batch_size, "feature_bytes": feature_bytes}
            flows[sampling] = simulate(graph_stages(rates, machine, count, **how, in_memory=in_memory))
        best = max(flows, key=lambda sampling: flows[sampling].batches_a_second)
        flow = flows[best]
        hours = num_seeds * epochs / (flow.batches_a_second * batch_size * count) / HOUR
        first, second = sorted(flow.busy, key=lambda name: -flow.busy[name])[:2]
        lines.append(
            f"| {count} | {best} | {hours:.2g} | {hours * count:.2g} | {first} | {flow.busy[first]:.0%} | {second}, "
            f"{flow.busy[second]:.0%} |"
        )
    return lines


def scoring_plan(rates: dict[str, float], machine: Machine, *, machines: Sequence[int] = (1, 10, 100)) -> list[str]:
    """Scoring a billion molecules, as lines of Markdown."""
    num_rows, chunk = 10**9, 8192
    size = num_rows * rates["bytes_a_molecule"]
    lines = [
        f"A billion predicted rows have {size / GIB:,.0f} GiB ({rates['bytes_a_molecule']:.0f} bytes each as CSV). "
        f"Workers hold a chunk of {chunk:,} rows each and exchange nothing:",
        "",
        "| machines | hours | machine-hours | busy most | share of the time it is busy |",
        "|---|---|---|---|---|",
    ]
    for count in machines:
        moved = chunk * rates["bytes_a_molecule"] / (machine.disk * 1e9)
        predicting = Stage("predictions", chunk / rates["molecules"], machine.cores)
        flow = simulate([Stage("reading", moved), predicting, Stage("writing", moved)])
        hours = num_rows / (flow.batches_a_second * chunk * count) / HOUR
        first = flow.bottleneck
        lines.append(f"| {count} | {hours:,.3g} | {hours * count:,.3g} | {first} | {flow.busy[first]:.0%} |")
    return lines


PLANS = {
    "Training on 100 million nodes and 10 billion edges": (
        graph_plan,
        tuple(name for name in RATES if "molecule" not in name),
    ),
    "Scoring a billion molecules": (scoring_plan, ("molecules", "bytes_a_molecule")),
}
"""The plans, and the rates that each needs."""


def page(rates: dict[str, float], machine: Machine = Machine()) -> str:
    """The section of docs/scaling.md."""
    lines = ["| measured | | by |", "|---|---|---|"]
    for name, rate in RATES.items():
        value = f"{rates[name]:,.4g} {rate.unit}".strip() if name in rates else "not measured yet"
        lines.append(f"| {rate.name} | {value} | `{rate.command}` |")
    lines += [
        "",
        f"Assumed of a machine: {machine.cores} cores like the measured one, {machine.memory:g} GiB of memory, a disk "
        f"with {machine.disk_reads:,.0f} random reads of 4 KiB and {machine.disk:g} GB a second, a network of "
        f"{machine.network:g} Gbit a second and {machine.latency * 1e6:.0f} µs a message.",
    ]
    for title, (plan, needed) in PLANS.items():
        missing = [RATES[name] for name in needed if name not in rates]
        lines += ["", f"**{title}.**"]
        if missing:
            commands = " and ".join(f"`{each}`" for each in dict.fromkeys(rate.command for rate in missing))
            lines[-1] += f" Not planned yet: {', '.join(rate.name for rate in missing)} will come from {commands}."
        else:
            first, *others = plan(rates, machine)
            lines[-1] += f" {first}"
            lines += others
    return "\n".join(lines) + "\n"


def main() -> None:
    """Plans, and prints or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in vars(Machine()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument(
        "--write", action="store_true", help="write the tables into docs, for the machine of this script"
    )
    options = vars(parser.parse_args())
    writes = options.pop("write")
    text = page(measured(), Machine() if writes else Machine(**options))
    print(text)
    if writes:
        path = DOCS / "scaling.md"
        before, rest = path.read_text().split(BEGIN)
        path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
