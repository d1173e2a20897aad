"""What the plan of an edge list costs, beside the attention that walks it.

    python benchmarks/plan_cost.py

A batch of molecules is a new list of edges in every step, so that its plan is made once a step; the plan of a graph
that stays is made once for all. Both are timed beside `attend`, forward and backward, with 8 heads of 16 on the same
edges: a share of 6 % means that the plan adds 6 % to one attention layer, and 2 % to each of three. Medians; the two
are timed in turn, in one process.
"""

import platform
import statistics
import time
from collections.abc import Callable

import torch

from edgewise import Edges, attend, why

HEADS, HEAD_DIM = 8, 16
NUM_MOLECULES = (64, 256, 1024)
SECONDS = 4.0
"""For how long one case is measured."""


def molecules(num_molecules: int, generator: torch.Generator) -> Edges:
    """Molecules of 25 atoms: a tree whose bonds reach back at most three atoms, and three that close rings of six."""
    atoms = torch.arange(1, 25).expand(num_molecules, -1)
    back = 1 + (atoms.clamp(max=3) * torch.rand(num_molecules, 24, generator=generator)).long()
    rings = torch.tensor([0, 7, 14]).expand(num_molecules, -1)
    ends = torch.stack([torch.cat([atoms, rings], 1), torch.cat([atoms - back, rings + 5], 1)], -1)
    ends = ends + 25 * torch.arange(num_molecules)[:, None, None]
    both_ways = torch.stack([ends, ends.flip(-1)], -2).reshape(-1, 2)
    return Edges(both_ways[:, 0].contiguous(), both_ways[:, 1].contiguous(), 25 * num_molecules, 25 * num_molecules)


def power_law(num_nodes: int, num_edges: int, generator: torch.Generator) -> Edges:
    """Edges in no order between nodes of which few have very many."""
    chosen = (num_nodes * torch.rand(2, num_edges, generator=generator, dtype=torch.float64) ** 3).long()
    senders, receivers = torch.randperm(num_nodes, generator=generator)[chosen]
    return Edges(senders, receivers, num_nodes, num_nodes)


def attention(edges: Edges, generator: torch.Generator) -> tuple[str, Callable[[], None]]:
    """The backend that runs, and one attention over the edges, forward and backward."""

    def features(num_nodes: int) -> torch.Tensor:
        stored = torch.randn(num_nodes, HEADS, HEAD_DIM, generator=generator)
        return stored.transpose(0, 1).requires_grad_()

    query, key, value = features(edges.num_receivers), features(edges.num_senders), features(edges.num_senders)
    gradient = torch.ones_like(query)

    def run() -> None:
        torch.autograd.grad(attend(query, key, value, edges), (query, key, value), gradient)

    return why(query, key, value, edges).split()[0], run


def milliseconds(run: Callable[[], object]) -> float:
    """How long one run takes."""
    began = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - began)


def row(name: str, edges: Edges, generator: torch.Generator) -> str:
    """The line of the table for one list of edges."""
    backend, attend_once = attention(edges, generator)

    def plan_afresh() -> float:
        fresh = Edges(edges.senders, edges.receivers, edges.num_senders, edges.num_receivers)
        return milliseconds(lambda: fresh.plan)

    attend_once()
    plan_afresh()
    times: list[tuple[float, float]] = []
    stop = time.perf_counter() + SECONDS
    while len(times) < 3 or time.perf_counter() < stop:
        times.append((plan_afresh(), milliseconds(attend_once)))
    plan_ms, attend_ms = (statistics.median(column) for column in zip(*times))
    cells = name, edges.num_receivers, edges.num_edges, f"{plan_ms:.3f}", backend, f"{attend_ms:.2f}"
    return f"| {' | '.join(str(cell) for cell in cells)} | {plan_ms / attend_ms:.1%} |"


def main() -> None:
    """Measure and print."""
    generator = torch.Generator().manual_seed(0)
    cases = [(f"{number} molecules", molecules(number, generator)) for number in NUM_MOLECULES]
    cases.append(("power law", power_law(170_000, 1_170_000, generator)))
    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}\n"
    )
    print("| edges of | nodes | edges | plan, ms | backend | attend forward + backward, ms | share |")
    print("|---|---|---|---|---|---|---|")
    for name, edges in cases:
        print(row(name, edges, generator), flush=True)


if __name__ == "__main__":
    main()
