"""What encoding each distinct molecule once per batch saves, where many rows share few molecules.

    python benchmarks/shared_molecules.py [TABLE.csv]

A batch of rows, each an ion pair at some temperature and pressure, goes forward and backward through the default
model: once as the loader makes it, each distinct ion once, and once with an encoding for every row. Both give the same
outputs, which is checked first. The two are timed in turn, and the median is reported. Without a table, ion pairs that
the demo makes are used; the committed result is for the 9,298 rows of measured CO2 solubilities, when EDGEWISE_DATA
points to them.
"""

import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.networks.property import PropertyModel, PropertySettings, PropertySizes
from edgewise.learn.readers.molecules.store import MoleculeStore
from edgewise.neighborhood import Edges

RESULTS = Path(__file__).parent / "results"
BATCH_SIZES = (64, 256, 1024)
ROUNDS = 15


def ion_pairs() -> tuple[MoleculeStore, np.ndarray]:
    """The molecules of the table and, for each row, its cation and anion."""
    import pandas as pd

    folder = os.environ.get("EDGEWISE_DATA")
    if len(sys.argv) > 1 or folder:
        path = sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "co2_ionic_liquids" / "co2_ionic_liquids.csv"
        frame = pd.read_csv(path)
        written = frame[["cation_smiles", "anion_smiles"]].to_numpy()
    else:
        from edgewise.learn.readers.molecules.simulate import demo_table

        salts = demo_table(3000)["smiles"]
        written = np.array([salt.split(".") for salt in salts if salt.count(".") == 1])
        written = written[np.random.default_rng(0).integers(0, min(len(written), 112), 9298)]
    store, graph_of_text, _ = MoleculeStore.collect(written.ravel().tolist(), with_descriptors=False)
    return store, graph_of_text.reshape(written.shape)


def repeated(batch: Batch) -> Batch:
    """The same rows with a graph of its own for every cell."""
    graph, rows = batch.graph, batch.supervision
    wanted, starts, sizes = rows.graph_of_row.flatten(), graph.offsets, graph.offsets.diff()
    graph_of_edge = torch.searchsorted(starts, graph.edges.receivers, right=True) - 1
    edge_counts = torch.bincount(graph_of_edge, minlength=graph.num_graphs)
    edge_starts = edge_counts.cumsum(0) - edge_counts
    nodes = torch.cat([torch.arange(starts[g], starts[g + 1]) for g in wanted])
    links = torch.cat([torch.arange(edge_starts[g], edge_starts[g] + edge_counts[g]) for g in wanted])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes[wanted].cumsum(0)])
    shift = torch.repeat_interleave(offsets[:-1] - starts[wanted], edge_counts[wanted])
    senders, receivers = graph.edges.senders[links] + shift, graph.edges.receivers[links] + shift
    edges = Edges(senders, receivers, len(nodes), len(nodes))
    copied = Graph(graph.node_features[nodes], edges, graph.edge_features[links], offsets=offsets)
    graph_of_row = torch.arange(len(wanted)).reshape(rows.graph_of_row.shape)
    return Batch(copied, Supervision(graph_of_row=graph_of_row, row_features=rows.row_features))


def seconds(model: PropertyModel, batch: Batch) -> float:
    """One pass forward and backward."""
    began = time.perf_counter()
    model(batch).sum().backward()
    return time.perf_counter() - began


def main() -> None:
    """Measure, print and write the result."""
    torch.manual_seed(0)
    store, graph_of_row = ion_pairs()
    sizes = PropertySizes(store.node_features.shape[1], store.edge_features.shape[1], 0, 2, 3, 1)
    model = PropertyModel(sizes, PropertySettings().resolved(256)).eval()
    random = np.random.default_rng(0)
    cases = []
    for size in BATCH_SIZES:
        rows = random.choice(len(graph_of_row), size, replace=False)
        once = store.batch(graph_of_row[rows], random.normal(size=(size, 3)))
        each = repeated(once)
        torch.testing.assert_close(model(once), model(each), rtol=1e-4, atol=1e-5)
        times = [(seconds(model, once), seconds(model, each)) for _ in range(ROUNDS + 2)][2:]
        once_ms, each_ms = (1000 * statistics.median(column) for column in zip(*times))
        cases.append(
            {
                "rows": size,
                "graphs_once": once.graph.num_graphs,
                "graphs_each": each.graph.num_graphs,
                "once_ms": round(once_ms, 2),
                "each_ms": round(each_ms, 2),
                "ratio": round(statistics.median(b / a for a, b in times), 2),
            }
        )
    machine = {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    result = {"machine": machine, "torch": torch.__version__, "distinct_molecules": len(store), "cases": cases}
    lines = [
        "| rows a batch | graphs, each once | graphs, one a cell | once, ms | one a cell, ms | ratio |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(str(value) for value in case.values())} |" for case in cases),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "shared_molecules.json").write_text(json.dumps(result, indent=2) + "\n")
    (RESULTS / "shared_molecules.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
