"""What trainings in several processes send, and what a core computes: the figures that plans of large runs start from.

    python benchmarks/distributed.py [--write]                     all of it, some minutes on a quiet machine
    python benchmarks/distributed.py --counts [--write]            what no other load changes: bytes, sizes, gradients

network: the same training in one process and in two over gloo: bytes that the kernel sent on the sockets of a process
(TCP_INFO), a step; steps a second; and how far the gradients of the first step differ between one process and two.
core: what one thread does: training steps on sampled neighborhoods (fanouts 15 and 10, batches of 1,024) without
sampling, and molecules predicted by `edgewise predict`, the difference of two runs, so that the start does not count.

With --write: docs/results/distributed.json, and the tables of docs/scaling.md.
"""

import argparse
import csv
import json
import multiprocessing
import os
import platform
import socket
import statistics
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- distributed: written by benchmarks/distributed.py -->\n", "<!-- end of distributed -->"
TEXT = "to be or not to be, that is the question\n" * 400
FLAGS = (
    *("--model-dim", "128", "--num-heads", "4", "--num-layers", "4", "--context", "64", "--batch-size", "16"),
    *("--dropout", "0", "--epochs", "1", "--eval-steps", "30", "--device", "cpu", "--threads", "1", "--logger", "csv"),
    "--no-memory-check",
)
CASES = {"1 process": (1, "ddp"), "2 processes, ddp": (2, "ddp"), "2 processes, fsdp": (2, "fsdp")}
FIRST = 5
"""Steps that do not count: connections are made in them."""
FANOUTS, BATCH_SIZE, MODEL_DIM = (15, 10), 1024, 128
ACKED, RECEIVED, TCP_INFO_SIZE = 120, 128, 232
"""Where linux/tcp.h has the bytes that were sent and acknowledged, and those received."""


def bytes_sent() -> int:
    """Bytes that the kernel has sent on all TCP sockets of this process."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            is_socket = os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
            with socket.socket(fileno=os.dup(int(name))) if is_socket else open(os.devnull) as file:
                if is_socket and file.type == socket.SOCK_STREAM and file.family in (socket.AF_INET, socket.AF_INET6):
                    info = file.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
                    total += struct.unpack_from("Q", info, ACKED)[0]
        except OSError:  # closed meanwhile
            continue
    return total


def work(rank: int, size: int, meeting: str, words: list[str], into: str) -> None:
    """One process of a training, which notes the time, the bytes and the gradients."""
    from edgewise.cli.main import main
    from edgewise.learn.training.distributed import whole
    from edgewise.learn.training.training import Training

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if size > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
        os.environ |= {"EDGEWISE_RENDEZVOUS": f"file://{meeting}", "GLOO_SOCKET_IFNAME": "lo"}
    step, noted, gradients = Training.train_step, [], {}

    def noting(self: Training, batch: Any) -> None:
        step(self, batch)
        noted.append((time.perf_counter(), bytes_sent()))
        if self.step == 1:
            found = {str(n): whole(p.grad).flatten() for n, p in enumerate(self.parameters) if p.grad is not None}
            gradients["weights"] = sum(each.numel() * each.element_size() for each in found.values())
            gradients["all"] = torch.cat(list(found.values()))

    Training.train_step = noting  # type: ignore[method-assign]
    code = main(words)
    if rank == 0:
        np.savez(into, noted=np.array(noted), gradient=gradients["all"].numpy(), weights=gradients["weights"])
    raise SystemExit(code)


def trained(size: int, strategy: str, folder: Path) -> dict[str, Any]:
    """What the first process of a training noted."""
    text, into = folder / "text.txt", folder / "noted.npz"
    text.write_text(TEXT)
    words = ["train", "language", str(text), *FLAGS, "-o", str(folder / "run")]
    words += ["--strategy", strategy] if size > 1 else []
    context = multiprocessing.get_context("spawn")
    started = [
        context.Process(target=work, args=(rank, size, str(folder / "meeting"), words, str(into)))
        for rank in range(size)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert all(process.exitcode == 0 for process in started), [process.exitcode for process in started]
    return dict(np.load(into))


def network(with_times: bool) -> dict[str, Any]:
    """Bytes and steps a second of the cases, and how far their gradients differ."""
    found: dict[str, Any] = {}
    single: np.ndarray | None = None
    for name, (size, strategy) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            noted = trained(size, strategy, Path(folder))
        times, sent = noted["noted"][FIRST:].T
        single = noted["gradient"] if single is None else single
        # FSDP divides the sum by the number of processes only within; what a parameter holds is the gradient.
        difference = np.abs(noted["gradient"] - single).max() / np.abs(single).max()
        found[name] = {
            "weight_bytes": int(noted["weights"]),
            "bytes_a_step": float(np.median(np.diff(sent))),
            "bytes_by_weights": float(np.median(np.diff(sent)) / noted["weights"]),
            "steps_a_second": float(1 / np.median(np.diff(times))) if with_times else None,
            "gradient_difference": float(difference),
        }
        print(name, found[name], flush=True)
    return found


def sampled_steps(with_times: bool, rounds: int = 5, num_batches: int = 10) -> dict[str, float | None]:
    """Training steps of a two-layer GraphSAGE on sampled neighborhoods, by one thread, sampling left out."""
    from edgewise import Graph, MeanConvolution
    from edgewise.sampling import NeighborLoader, NeighborSampler

    draw = np.random.default_rng(0)
    num_nodes, num_edges, num_classes = 200_000, 5_000_000, 40
    index = torch.from_numpy((num_nodes * draw.random((2, num_edges)) ** 3).astype(np.int64))
    graph = Graph.of((torch.from_numpy(draw.normal(size=(num_nodes, MODEL_DIM)).astype(np.float32)), index))
    seeds = torch.from_numpy(draw.permutation(num_nodes)[: BATCH_SIZE * num_batches])
    samples = list(NeighborLoader(NeighborSampler(graph, FANOUTS, seed=0), seeds, batch_size=BATCH_SIZE))
    first, last = MeanConvolution(MODEL_DIM, MODEL_DIM), MeanConvolution(MODEL_DIM, num_classes)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
    targets = torch.from_numpy(draw.integers(0, num_classes, BATCH_SIZE))
    rates = []
    for _ in range(rounds if with_times else 0):
        began = time.perf_counter()
        for sample in samples:
            hidden = torch.relu(first(sample.graph.node_features, sample.graph.edges))
            loss = F.cross_entropy(last(hidden, sample.graph.edges)[sample.seeds], targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        rates.append(len(seeds) / (time.perf_counter() - began))
    return {
        "seeds_a_second": statistics.median(rates[1:]) if rates else None,
        "edges_a_seed": sum(sample.graph.num_edges for sample in samples) / len(seeds),
        "nodes_a_seed": sum(sample.graph.num_nodes for sample in samples) / len(seeds),
        "weight_bytes": 4.0 * sum(p.numel() for layer in (first, last) for p in layer.parameters()),
    }


def molecules(folder: Path, with_times: bool, rounds: int = 3) -> dict[str, float | None]:
    """Molecules that one thread predicts a second, with a model of the default size, from file to file."""
    from edgewise.cli.main import main

    smiles = [
        f"{'C' * chain}{link}c1ccc({end})cc1{'C' * tail}"
        for chain in range(1, 13)
        for tail in range(8)
        for link in ("O", "N", "C(=O)N", "CC(=O)O", "S", "C(F)")
        for end in ("Cl", "F", "O", "C#N", "C(=O)O", "N", "OC", "Br")
    ]

    def table(name: str, rows: int) -> str:
        with open(folder / name, "w", newline="") as file:
            csv.writer(file).writerows([["smiles", "y"], *([each, len(each)] for each in smiles[:rows])])
        return str(folder / name)

    run = str(folder / "run")
    columns = ["--smiles-columns", "smiles", "--target-columns", "y"]
    short = ["--epochs", "1", "--no-baselines", "--threads", "1", "--device", "cpu", "--logger", "csv", "-o", run]
    assert main(["train", "molecules", table("train.csv", 200), *columns, *short]) == 0
    os.environ["EDGEWISE_CACHE"] = ""  # each round computes the features of all molecules anew
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    sizes, rates = (512, len(smiles)) if with_times else (128, 256), []
    for _ in range(rounds if with_times else 1):
        seconds = []
        for size in sizes:
            words = ["predict", run, table(f"{size}.csv", size), "--threads", "1", "--device", "cpu", "--overwrite"]
            began = time.perf_counter()
            assert main([*words, "-o", str(folder / "out.csv")]) == 0
            seconds.append(time.perf_counter() - began)
        rates.append((sizes[1] - sizes[0]) / (seconds[1] - seconds[0]))
    os.sched_setaffinity(0, cores)
    return {
        "molecules_a_second": statistics.median(rates) if with_times else None,
        "bytes_a_molecule": os.path.getsize(folder / "out.csv") / sizes[1],
    }


def core(with_times: bool) -> dict[str, Any]:
    """What one thread does; only sizes without times."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        return {
            "sampled training": sampled_steps(with_times),
            "predicted molecules": molecules(Path(folder), with_times),
        }


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "| training of a language model | bytes a process sends a step | by the bytes of the weights | "
        "steps a second | gradient of the first step differs from that of one process by |",
        "|---|---|---|---|---|",
    ]
    for name, each in found.get("network", {}).items():
        differs = "–" if name == "1 process" else f"{each['gradient_difference']:.0e} of the largest"
        steps = shown(each["steps_a_second"])
        lines.append(f"| {name} | {each['bytes_a_step']:,.0f} | {each['bytes_by_weights']:.2f} | {steps} | {differs} |")
    trained, predicted = found["core"]["sampled training"], found["core"]["predicted molecules"]
    lines += [
        *("", "| one core | a second |", "|---|---|"),
        f"| training nodes, fanouts 15 and 10, {MODEL_DIM} features | {shown(trained['seeds_a_second'])} |",
        f"| molecules predicted | {shown(predicted['molecules_a_second'])} |",
    ]
    return "\n".join(lines) + "\n"


def shown(rate: float | None) -> str:
    """A rate in the table."""
    return "not measured yet" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def main() -> None:
    """Measures, and prints or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="leave out what depends on the load of the machine")
    parser.add_argument("--write", action="store_true", help="write the results into docs")
    options = parser.parse_args()
    path = DOCS / "results" / "distributed.json"
    found: dict[str, Any] = {"machine": {"processor": platform.machine(), "cores": os.cpu_count()}}
    found |= {"torch": torch.__version__, "network": network(not options.counts), "core": core(not options.counts)}
    print(table(found))
    if options.write:
        path.write_text(json.dumps(found, indent=1) + "\n")
        page = DOCS / "scaling.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
