"""Matrix products of layers beside torch's: `edgewise.layers.linear` and `torch.nn.functional.linear`, with gradients.

    python benchmarks/products.py

Each pair is compared first, then timed in turn, in one process, on one thread: a call and the gradients of rows, matrix
and bias; medians. `various` rows differ from call to call by up to a tenth, as those of molecules do. Written to
results/products.md.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.layers.linear import is_onednn_faster, linear

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine

RESULTS = Path(__file__).parent / "results"
SIZES = [
    (768, 128, 384), (768, 512, 128), (1600, 64, 256), (3000, 128, 128), (4000, 256, 256), (16000, 256, 256),
]  # fmt: skip
"""Rows, inputs, outputs: a small language model's, attention's over molecules, messages along bonds."""
CALLS = 20
"""Numbers of rows that a round goes through."""


def times(rows: int, inputs: int, outputs: int, *, various: bool, rounds: int) -> tuple[float, float]:
    """Milliseconds of our call and of torch's."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    weight, bias = drawn(outputs, inputs).requires_grad_(), drawn(outputs).requires_grad_()
    counts = [rows - (number * 37 % (rows // 10) if various else 0) for number in range(CALLS)]
    given = [(drawn(count, inputs).requires_grad_(), drawn(count, outputs)) for count in counts]

    def gradients(product: Callable[..., Tensor], x: Tensor, d_out: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(product(x, weight, bias), (x, weight, bias), d_out)

    for ours, theirs in zip(gradients(linear, *given[0]), gradients(F.linear, *given[0]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    found: dict[Callable[..., Tensor], list[float]] = {linear: [], F.linear: []}
    for _ in range(rounds):
        for product, spent in found.items():
            began = time.perf_counter()
            for pair in given:
                gradients(product, *pair)
            spent.append(1000 * (time.perf_counter() - began) / CALLS)
    ours_ms, torch_ms = (statistics.median(spent[1:]) for spent in found.values())
    return ours_ms, torch_ms


def main() -> None:
    """Times all, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="of each size; the first one is not counted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = machine.facts()
    lines = [
        "# Matrix products of layers beside torch's",
        "",
        "Written by `python benchmarks/products.py`: a product and its gradients, in float32, one thread, medians.",
        f"oneDNN {'computes' if is_onednn_faster() else 'does not compute'} large products here.",
        "",
        f"{facts['processor']}, Python {facts['python']}, torch {facts['versions']['torch']}.",
        "",
        "| rows | inputs | outputs | edgewise, ms | torch, ms | times as fast | billion operations a second |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for rows, inputs, outputs in SIZES:
        for various in (False, True):
            ours, theirs = times(rows, inputs, outputs, various=various, rounds=options.rounds)
            rate = 6 * rows * inputs * outputs / ours / 1e6
            size = f"{rows:,}{', various' if various else ''} | {inputs} | {outputs}"
            lines.append(f"| {size} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} | {rate:.0f} |")
            print(lines[-1], flush=True)
    (RESULTS / "products.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
