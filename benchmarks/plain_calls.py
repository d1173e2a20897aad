"""Small and plain calls beside the obvious line of torch: none may take more than twice as long.

    python benchmarks/plain_calls.py

Each pair is compared first, then timed in turn, in one process, on one thread; medians. Written to
`results/plain_calls.json` and `results/plain_calls.md`.
"""

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import GAT, Causal, Edges, Full, Mean, Softmax, aggregate, attend, attention_weights
from edgewise.layers import GraphAttention

RESULTS = Path(__file__).parent / "results"
Row = tuple[str, Callable[[], Any], Callable[[], Any]]


def rows(nodes: int, edges: int) -> list[Row]:
    """What is called, our call, and the obvious line; both give the same tensor."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    x, small, scale = drawn(nodes, 64), drawn(nodes // 4, 64), 1 / math.sqrt(64)
    graph_nodes = max(edges // 10, 2)
    senders, receivers = torch.randint(graph_nodes, (2, edges), generator=generator)
    graph, features = Edges(senders, receivers, graph_nodes, graph_nodes), drawn(graph_nodes, 16)
    one = int(receivers[0])
    counts = torch.arange(1, nodes + 1)[:, None]
    dense = attention_weights(small, small)
    few_senders, few_receivers = torch.randint(50, (2, 100), generator=generator)

    def of_one_query() -> Tensor:
        return (x[7] @ x.T * scale).softmax(-1).topk(3).values

    def of_one_receiver() -> Tensor:
        return (features[senders[receivers == one]] @ features[one] * 0.25).softmax(-1)

    def table() -> Tensor:
        found = torch.zeros(len(small), len(small))
        found[dense.receivers, dense.senders] = dense.values
        return found

    def checked() -> Tensor:
        index = torch.stack([few_senders, few_receivers])
        low, high = index.aminmax()
        assert low >= 0 and high < 50
        return index

    def made() -> Tensor:
        found = Edges(few_senders, few_receivers, 50, 50)
        return torch.stack([found.senders, found.receivers])

    return [
        *over_few_edges(Edges(few_senders, few_receivers, 50, 50), generator),
        (
            f"the 3 strongest weights of one query of {nodes:,}",
            lambda: attention_weights(x, x, top=3, queries=[7]).values,
            of_one_query,
        ),
        (
            f"the weights of one query over {edges:,} edges",
            lambda: attention_weights(features, features, graph, queries=[one]).values,
            of_one_receiver,
        ),
        (f"`to_dense` of the weights of {len(small):,} nodes", dense.to_dense, table),
        (f"`aggregate` over `Full`, max, {nodes:,}", lambda: aggregate(x, Full(), "max"),
         lambda: x.amax(-2, keepdim=True).expand(nodes, 64)),
        (f"`aggregate` over `Full`, mean, {nodes:,}", lambda: aggregate(x, Full(), "mean"),
         lambda: x.mean(-2, keepdim=True).expand(nodes, 64)),
        (f"`aggregate` over `Causal`, mean, {nodes:,}", lambda: aggregate(x, Causal(), "mean"),
         lambda: x.cumsum(-2) / counts),
        (f"`attend` with `Mean` over `Full`, {nodes:,}", lambda: attend(x, x, x, normalize=Mean()),
         lambda: x.mean(-2, keepdim=True).expand(nodes, 64)),
        (f"`attend` with `Softmax(inf)` over `Full`, {nodes:,}", lambda: attend(x, x, x, normalize=Softmax(math.inf)),
         lambda: x.mean(-2, keepdim=True).expand(nodes, 64)),
        ("fresh `Edges` of 100 edges", made, checked),
    ]  # fmt: skip


def over_few_edges(edges: Edges, generator: torch.Generator) -> list[Row]:
    """Attention over 100 edges, 4 heads of 16 features: what a call costs before it computes."""
    size, senders, receivers = (4, 50, 16), edges.senders, edges.receivers
    query, key, value = (torch.randn(size, generator=generator).requires_grad_() for _ in range(3))
    left, right = (torch.randn(4, 16, generator=generator).requires_grad_() for _ in range(2))
    gat, layer, nodes = GAT(left, right), GraphAttention(64, 64, 4), torch.randn(50, 64, generator=generator)

    def summed(scores: Tensor, rows: Tensor) -> Tensor:
        """Σ softmax(s) v over the edges of each receiver, `(head, node, feature)`."""
        weights = (scores - scores.max()).exp()
        total = weights.new_zeros(4, 50).index_add(1, receivers, weights)
        messages = (weights / total[:, receivers]).unsqueeze(-1) * rows[:, senders]
        return torch.zeros_like(rows).index_add(1, receivers, messages)

    def of_products() -> Tensor:
        return summed((query[:, receivers] * key[:, senders]).sum(-1) / 4, value)

    def of_sums(query: Tensor, key: Tensor, value: Tensor, left: Tensor, right: Tensor) -> Tensor:
        at_query, at_key = (query * left[:, None]).sum(-1), (key * right[:, None]).sum(-1)
        return summed(F.leaky_relu(at_query[:, receivers] + at_key[:, senders], 0.2), value)

    def of_layer() -> Tensor:
        heads = layer.linear(nodes).view(50, 4, 16).transpose(0, 1)
        out = of_sums(heads, heads, heads, layer.vector, layer.key_vector)
        return out.transpose(0, 1).flatten(1) + layer.bias

    def without_gradients(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
        return torch.no_grad()(call)

    def with_gradients(call: Callable[[], Tensor], *tensors: Tensor) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call().sum(), tensors)

    by_dot, by_gat = lambda: attend(query, key, value, edges), lambda: attend(query, key, value, edges, score=gat)
    of_gat = lambda: of_sums(query, key, value, left, right)  # noqa: E731
    parameters, own = tuple(layer.parameters()), (query, key, value)
    pairs = (
        ("`attend` over 100 edges, dot", by_dot, of_products, own),
        ("`attend` over 100 edges, GAT", by_gat, of_gat, (*own, left, right)),
        ("`GraphAttention` over 100 edges", lambda: layer(nodes, edges), of_layer, parameters),
    )
    forward = [(name, without_gradients(ours), without_gradients(plain)) for name, ours, plain, _ in pairs]
    both = [(f"{n}, and gradients", with_gradients(o, *x), with_gradients(p, *x)) for n, o, p, x in pairs]
    return [*forward, *both]


def measured(row: Row, seconds: float) -> dict[str, Any]:
    """Both ways of a row, compared and timed."""
    name, ours, plain = row
    torch.testing.assert_close(ours(), plain(), rtol=1e-4, atol=1e-5)
    times: list[tuple[float, float]] = []
    stop = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < stop:
        pair = []
        for call in (ours, plain):
            start = time.perf_counter()
            call()
            pair.append(1000 * (time.perf_counter() - start))
        times.append((pair[0], pair[1]))
    our_ms, plain_ms = (statistics.median(column) for column in zip(*times))
    return {"call": name, "ours_ms": our_ms, "torch_ms": plain_ms, "ratio": our_ms / plain_ms, "runs": len(times)}


def page(found: dict[str, Any]) -> str:
    """The results as a page."""
    lines = [
        "# Small and plain calls",
        "",
        "Written by `python benchmarks/plain_calls.py`, where the obvious lines of torch stand beside each call.",
        "Values agree; timed in turn on one thread; medians. Asked: at most 2× the line of torch.",
        "",
        f"{found['machine']}",
        "",
        "| call | edgewise, ms | torch, ms | ratio | asked ≤ 2× |",
        "|---|---:|---:|---:|---|",
    ]
    for row in found["rows"]:
        verdict = "reached" if row["ratio"] <= 2 else "**missed**"
        lines.append(
            f"| {row['call']} | {row['ours_ms']:.3f} | {row['torch_ms']:.3f} | {row['ratio']:.2f}× | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing written: does it run?")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes, seconds = ((64, 500), 0.01) if options.quick else ((4096, 200_000), 3.0)
    python = f"Python {platform.python_version()}, torch {torch.__version__}"
    machine = f"{platform.processor() or platform.machine()}, 1 thread, {python}"
    found = {"machine": machine, "rows": [measured(row, seconds) for row in rows(*sizes)]}
    print(page(found))
    if not options.quick:
        (RESULTS / "plain_calls.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "plain_calls.md").write_text(page(found))


if __name__ == "__main__":
    main()
