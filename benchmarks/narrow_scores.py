"""The backward pass of GAT's scores over many edges: two passes with two wide gathers beside three with one.

    python benchmarks/narrow_scores.py

Both compute the same bits. They run in one process, in turn, with an allocator that keeps memory; times are medians.
`edge_operators.WIDE_ROW` was chosen by the last two columns: with 16 features for each lane three passes lose 6% at
most and win up to a half, with 8 they lose up to 14% and win up to 15%. Written to results/narrow_scores.md.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine
from cpu_attention.measure import in_turn
from cpu_attention.process import restart_with_allocator

from edgewise import GAT, Edges, attend
from edgewise.backends.numba import edge_operators

RESULTS = Path(__file__).parent / "results"
GRAPHS = [(22_470, 340_000), (100_000, 3_000_000), (300_000, 3_000_000)]
"""Nodes and edges, drawn at random, and a loop at every node."""
SIZES = [(1, 64), (4, 16), (8, 8), (1, 128), (4, 32), (8, 16), (8, 32), (8, 64)]
"""Heads, and features of a head."""


def calls(edges: Edges, heads: int, dim: int) -> dict[str, Callable[[], tuple[Tensor, ...]]]:
    """The backward pass both ways."""
    shapes = (heads, edges.num_senders, 1), (heads, edges.num_senders, 1), (heads, edges.num_senders, dim)
    query, key, value = (torch.randn(nodes, each, size).movedim(1, 0).requires_grad_() for each, nodes, size in shapes)
    one = torch.ones(1)
    out = attend(query, key, value, edges, score=GAT(one, one), backend="numba")
    gradient = torch.randn(edges.num_senders, heads, dim).movedim(1, 0)

    def backward(wide_row: int) -> tuple[Tensor, ...]:
        edge_operators.WIDE_ROW = wide_row
        return torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True)

    return {"two": lambda: backward(2**30), "three": lambda: backward(0)}


def main() -> None:
    """Measure and write."""
    restart_with_allocator()
    torch.manual_seed(0)
    facts, chosen = machine.facts(), edge_operators.WIDE_ROW
    lines = [
        f"# {(__doc__ or '').splitlines()[0]}",
        "",
        f"Written by `python benchmarks/narrow_scores.py`; {facts['cores']} cores of {facts['processor']}, torch "
        f"{facts['versions']['torch']}; commit `{machine.commit()['commit'][:9]}`. Lanes are heads, rounded up to "
        f"eight. From {chosen} features for each lane on, three passes are taken.",
        "",
        "| threads | nodes | edges | heads × features | two, ms | three, ms | times as fast | features for each lane |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for threads in range(1, machine.cores() + 1):
        torch.set_num_threads(threads)
        for nodes, count in GRAPHS:
            index = torch.randint(nodes, (2, count))
            loops = torch.arange(nodes).expand(2, -1)
            edges = Edges.from_edge_index(torch.cat([index, loops], 1), nodes)
            for heads, dim in SIZES:
                both = calls(edges, heads, dim)
                assert all(torch.equal(*each) for each in zip(both["two"](), both["three"](), strict=True))
                two, three = (found["median_ms"] for found in in_turn(both, 0.5, 3).values())
                cells = threads, f"{nodes:,}", f"{count:,}", f"{heads} × {dim}", f"{two:.0f}", f"{three:.0f}"
                lanes = edge_operators.lanes_of(heads)
                lines.append(f"| {' | '.join(map(str, cells))} | {two / three:.2f}× | {heads * dim / lanes:.0f} |")
                print(lines[-1], flush=True)
    (RESULTS / "narrow_scores.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
