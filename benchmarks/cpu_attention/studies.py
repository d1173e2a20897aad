"""What is no comparison of peers on one case: growth with the number of edges, threads, a whole model in training."""

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cpu_attention import edge_cases, graphs, limits
from cpu_attention.backend import named, only
from cpu_attention.case import OURS
from cpu_attention.graphs import MissingDataError
from cpu_attention.machine import CpuTimes, cores, use_between
from cpu_attention.measure import agree, summary, timed
from cpu_attention.options import NUM_THREADS, Options, data_folder
from cpu_attention.process import give_back
from cpu_attention.pyg import TOLD
from cpu_attention.suite import graph_of

NUM_EDGES = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
"""Half decades."""
NOT_FOR_TRAINING = ("sdpa", "reference")
"""Backends that take no edges, or hold a table of all nodes by all edges: gigabytes and half a minute a batch."""
PEERS_UP_TO = 1_000_000
"""Edges to which PyTorch Geometric is measured too."""


def machine_limits(options: Options) -> dict:
    """Bandwidth in order, and of gathers from tables of the size of each workload."""
    found: dict[str, Any] = {"sequential": limits.sequential(2**22 if options.quick else 2**29), "gather": {}}
    for name in graphs.GRAPHS:
        try:
            graph = graph_of(name, options.quick, True)
        except MissingDataError:
            continue
        wanted = min(max(graph.num_edges, 20_000 if options.quick else 500_000), 1_200_000)
        found["gather"][name] = limits.gathering(graph.num_nodes, wanted)
    return found


def growth(options: Options) -> dict:
    """Dot products over graphs in which every node receives seven edges from anywhere."""
    points = []
    for num_edges in NUM_EDGES[:2] if options.quick else NUM_EDGES:
        graph = graphs.regular(num_edges)
        case = edge_cases.dot(graph, options.ours, compiled=False)
        if num_edges <= PEERS_UP_TO:
            agree(case)
        kept = {n: p for n, p in case.peers.items() if n == OURS or (n.endswith(TOLD) and num_edges <= PEERS_UP_TO)}
        record = timed(replace(case, peers=kept), options.pace)
        bandwidth = limits.gathering(graph.num_nodes, min(graph.num_edges, 1_000_000), (NUM_THREADS,))
        points.append(
            {
                "edges": graph.num_edges,
                "nodes": graph.num_nodes,
                "plan_ms": case.plan_ms,
                "gathered_bytes": case.gathered_bytes,
                "gather_gb_per_s": bandwidth["gb_per_s"][str(NUM_THREADS)],
                **record,
            }
        )
        del case
        give_back()
    return {"points": points, "problems": [problem for point in points for problem in point["problems"]]}


def threads(options: Options) -> dict:
    """Dot products on two workloads, with one thread and with two."""
    found: dict[str, Any] = {"cases": {}, "problems": []}
    for name in ("power_law", "molecules"):
        case = edge_cases.dot(graph_of(name, options.quick, True), options.ours, compiled=False)
        case = replace(case, peers={n: p for n, p in case.peers.items() if n == OURS or n.endswith(TOLD)})
        found["cases"][name] = {}
        for count in (1, NUM_THREADS):
            torch.set_num_threads(count)
            record = timed(case, options.pace)
            found["cases"][name][str(count)] = record
            found["problems"] += [f"{name}, {count} threads: {problem}" for problem in record["problems"]]
        give_back()
    torch.set_num_threads(NUM_THREADS)
    return found


def training(options: Options) -> dict:
    """One epoch of the default model on ESOL, its optimizer and its batches included, with each backend in turn.

    Raises:
        MissingDataError: EDGEWISE_DATA does not lead to the table.
    """
    folder = data_folder()
    path = None if folder is None else folder / "moleculenet" / "esol.csv"
    if path is None or not path.is_file():
        raise MissingDataError("EDGEWISE_DATA does not lead to moleculenet/esol.csv")
    epoch, num_rows, num_threads = _epoch_on(path, options)
    names = ["auto", *(name for name in named() if name not in NOT_FOR_TRAINING)]
    times: dict[str, list[float]] = {name: [] for name in names}
    losses: dict[str, float] = {}
    rounds = 1 if options.quick else 9
    torch.set_num_threads(num_threads)
    before = CpuTimes.now()
    for turn in range(rounds + 1):  # the first one loads and compiles
        for name in names:
            with only(name):
                seconds, losses[name] = epoch()
            times[name] += [seconds] if turn else []
    torch.set_num_threads(NUM_THREADS)
    problems = use_between(before, CpuTimes.now(), cores(), os.getloadavg()[0]).reasons(cores())
    off = [name for name in names if not math.isclose(losses[name], losses["auto"], rel_tol=1e-3)]
    problems += [f"{name}: the loss of an epoch is {losses[name]:.5f}, not {losses['auto']:.5f}" for name in off]
    return {
        "backends": {name: summary(seconds) | {"loss": losses[name]} for name, seconds in times.items()},
        "rows": num_rows,
        "threads": num_threads,
        "problems": problems,
    }


def _epoch_on(path: Path, options: Options) -> tuple[Any, int, int]:
    """A function that trains a fresh default model for one epoch and returns its seconds and its mean loss."""
    from edgewise.learn.networks.property import PropertyModel
    from edgewise.learn.readers.molecules.data import Columns, read_molecules
    from edgewise.learn.tables.split import split_rows
    from edgewise.learn.tasks.molecules.settings import PropertyRunSettings
    from edgewise.learn.tasks.molecules.task import TABLE
    from edgewise.learn.training.loader import RowLoader
    from edgewise.learn.training.loss import TargetLoss

    columns = Columns(("smiles",), ("log_solubility_log10_mol_per_L",), splits_column="mat_split_0")
    table = read_molecules(path, columns)
    splits = split_rows(table.rows, kind="column")
    prepared = TABLE.prepared(PropertyRunSettings((str(path),), columns), table, splits)
    trained, settings = prepared.fitted, prepared.settings.train
    batches = trained.batches(table)
    loss = TargetLoss("regression", settings.loss_function, settings.huber_width)
    rows = splits.train[:128] if options.quick else splits.train
    loader = RowLoader(rows, batches.training_batch, settings.batch_size or 64, settings.seed)

    def epoch() -> tuple[float, float]:
        torch.manual_seed(0)
        model = PropertyModel(trained.encoder.sizes, trained.encoder.settings).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, fused=True)
        losses = []
        began = time.perf_counter()
        for batch in loader:
            total, weight = loss(model(batch), batch.targets, batch.weights)
            (total / weight).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(total.detach() / weight))
        return time.perf_counter() - began, float(np.mean(losses))

    return epoch, len(rows), settings.threads
