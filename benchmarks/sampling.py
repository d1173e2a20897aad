"""Neighbor sampling: edges a second, beside a vectorized numpy sampler and PyTorch Geometric.

    python benchmarks/sampling.py                                       2.4 million nodes, 62 million edges
    python benchmarks/sampling.py --num-nodes 300000 --num-edges 8000000 --rounds 3

Fanouts 15 and 10, batches of 1,024 seeds, on a power-law graph and on the web graph of $EDGEWISE_DATA where it is. All
samplers draw from the same seeds in turn, round after round, in one process; the table has medians. What is timed is
the sample: the numbers of its nodes and edges, and who is joined with whom, each node once. PyTorch Geometric takes
part where pyg-lib or torch-sparse is installed. numpy draws with replacement: else it would sort all neighborhoods.

With --write: docs/results/sampling.json, and the table of docs/scaling.md.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from edgewise import Graph
from edgewise.sampling import NeighborLoader, NeighborSampler

FANOUTS, BATCH_SIZE = (15, 10), 1024
DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- sampling: written by benchmarks/sampling.py -->\n", "<!-- end -->"
NUMPY = "numpy, with replacement"
Sampler = Callable[[np.ndarray], int]
"""Samples the batches of some seeds, and says how many edges they have."""


def power_law(num_nodes: int, num_edges: int) -> np.ndarray:
    """Senders and receivers of which few have very many edges, in no order."""
    random = np.random.default_rng(0)
    chosen = (num_nodes * random.random((2, num_edges)) ** 3).astype(np.int64)
    return random.permutation(num_nodes)[chosen]


def web() -> np.ndarray | None:
    """The links of the web graph; None where it is not there."""
    path = Path(os.environ.get("EDGEWISE_DATA", "data")) / "cnr_2000_web/cnr_2000.npz"
    if not path.is_file():
        return None
    held = np.load(path)
    return np.stack([np.repeat(np.arange(len(held["indptr"]) - 1), np.diff(held["indptr"])), held["indices"]])


def ours(graph: Graph, num_workers: int, *, replace: bool = False) -> Sampler:
    """Our loader with so many threads; 0 samples in the main one."""
    sampler = NeighborSampler(graph, FANOUTS, replace=replace)

    def run(seeds: np.ndarray) -> int:
        loader = NeighborLoader(sampler, torch.from_numpy(seeds), batch_size=BATCH_SIZE, num_workers=num_workers)
        return sum(sample.graph.num_edges for sample in loader)

    return run


def with_numpy(index: np.ndarray, num_nodes: int) -> Sampler:
    """The same in numpy: all edges of a hop are drawn at once."""
    order = np.argsort(index[1], kind="stable")
    senders, offsets = index[0][order], np.searchsorted(index[1][order], np.arange(num_nodes + 1))
    place_of = np.full(num_nodes, -1)
    random = np.random.default_rng(0)

    def batch(nodes: np.ndarray) -> int:
        begin, count = 0, 0
        place_of[nodes] = np.arange(len(nodes))
        for fanout in FANOUTS:
            frontier = nodes[begin:]
            degrees = offsets[frontier + 1] - offsets[frontier]
            receivers = np.flatnonzero(degrees).repeat(fanout)
            drawn = (random.random(len(receivers)) * degrees[receivers]).astype(np.int64)
            places = offsets[frontier[receivers]] + drawn
            found, _edges = senders[places], order[places]
            begin, new = len(nodes), np.unique(found[place_of[found] < 0])
            place_of[new] = begin + np.arange(len(new))
            nodes = np.concatenate([nodes, new])
            _local = place_of[found]
            count += len(found)
        place_of[nodes] = -1
        return count

    return lambda seeds: sum(batch(seeds[at : at + BATCH_SIZE]) for at in range(0, len(seeds), BATCH_SIZE))


def pyg(index: np.ndarray, num_nodes: int, num_workers: int) -> Sampler | None:
    """PyTorch Geometric's loader; None where its add-ons are not installed."""
    try:
        from torch_geometric import typing
        from torch_geometric.data import Data
        from torch_geometric.loader import NodeLoader
        from torch_geometric.sampler import NeighborSampler as Theirs
    except ModuleNotFoundError:
        return None
    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        return None
    data = Data(edge_index=torch.from_numpy(index), num_nodes=num_nodes)
    sampler = Theirs(data, num_neighbors=list(FANOUTS))  # sorts the edges, as ours did before

    def run(seeds: np.ndarray) -> int:
        loader = NodeLoader(data, sampler, torch.from_numpy(seeds), batch_size=BATCH_SIZE, num_workers=num_workers)
        return sum(batch.num_edges for batch in loader)

    return run


def samplers(index: np.ndarray, num_nodes: int) -> Iterator[tuple[str, Sampler | None]]:
    """Who takes part."""
    graph = Graph.of(torch.from_numpy(index), num_nodes=num_nodes)
    yield "edgewise, 1 thread", ours(graph, 0)
    yield "edgewise, 2 threads", ours(graph, 2)
    yield "edgewise, with replacement, 1 thread", ours(graph, 0, replace=True)
    yield "edgewise, with replacement, 2 threads", ours(graph, 2, replace=True)
    yield NUMPY, with_numpy(index, num_nodes)
    yield "PyTorch Geometric, 1 process", pyg(index, num_nodes, 0)
    yield "PyTorch Geometric, 2 processes", pyg(index, num_nodes, 2)


def measured(index: np.ndarray, num_nodes: int, rounds: int, num_batches: int) -> dict[str, list[float]]:
    """Edges a second of each sampler, round after round."""
    known = {name: run for name, run in samplers(index, num_nodes) if run is not None}
    random = np.random.default_rng(1)
    rates: dict[str, list[float]] = {name: [] for name in known}
    for number in range(rounds + 1):
        seeds = random.permutation(num_nodes)[: BATCH_SIZE * num_batches]
        for name, run in known.items():
            began = time.perf_counter()
            count = run(seeds)
            if number:  # the first round compiles, and fills the caches
                rates[name].append(count / (time.perf_counter() - began))
    return rates


def table(found: dict[str, dict]) -> str:
    """The medians as a table of Markdown."""
    names = list(dict.fromkeys(name for each in found.values() for name in each["rates"]))
    lines = ["| million edges a second | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for name in names:
        cells = []
        for each in found.values():
            median, peer = (statistics.median(each["rates"][key]) for key in (name, NUMPY))
            cells.append(f"{median / 1e6:.1f} ({median / peer:.1f} × numpy)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-nodes", type=int, default=2_400_000)
    parser.add_argument("--num-edges", type=int, default=62_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--num-batches", type=int, default=50)
    parser.add_argument("--write", action="store_true", help="write the results into docs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    graphs = {"power law": (power_law(options.num_nodes, options.num_edges), options.num_nodes)}
    if (links := web()) is not None:
        graphs["cnr-2000 web graph"] = links, 325_557
    found = {}
    for name, (index, num_nodes) in graphs.items():
        title = f"{name}, {num_nodes:,} nodes, {index.shape[1]:,} edges"
        found[title] = {"rates": measured(index, num_nodes, options.rounds, options.num_batches)}
    print(table(found))
    if options.write:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        content = {"machine": machine, "torch": torch.__version__, "fanouts": FANOUTS, "batch": BATCH_SIZE, **found}
        (DOCS / "results/sampling.json").write_text(json.dumps(content, indent=1) + "\n")
        page = DOCS / "scaling.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
