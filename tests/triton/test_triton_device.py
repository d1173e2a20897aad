"""What only a device can show: the same bits in every run, hubs of a million edges, half precision as it is rounded,
peak memory, and offsets that 32 bits do not hold."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from edgewise import Additive, Edges, GATv2, ScaledDot, Softmax, Sparsemax, attend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = "cuda"
HEADS, DIM = 8, 16
NODES, EDGES = 15_000, 100_000
HUB = 1_000_000
"""Edges of one receiver, and of one sender."""
SCORES = {
    "dot": lambda vector: ScaledDot(),
    "gatv2": lambda vector: GATv2(vector),
    "additive": lambda vector: Additive(vector),
}


def power_law(num_nodes: int, num_edges: int) -> Edges:
    """Few nodes receive and send very many edges, some none; edges in no order, some of them twice."""
    random = torch.Generator(DEVICE).manual_seed(0)
    drawn = torch.rand(2, num_edges, generator=random, device=DEVICE, dtype=torch.float64) ** 4
    senders, receivers = (num_nodes * drawn).long().clamp_(max=num_nodes - 1)
    return Edges(senders, receivers, num_nodes, num_nodes)


@dataclass(frozen=True)
class Given:
    """What a call is made with: stored as `(node, head, feature)`, seen as `(head, node, feature)`."""

    leaves: dict[str, Tensor]
    """By name; the vector of a score among them."""
    cotangent: Tensor
    """What the gradient of the output is."""

    def to(self, dtype: torch.dtype) -> "Given":
        """The same numbers, stored in another precision."""
        leaves = {name: x.detach().to(dtype).requires_grad_() for name, x in self.leaves.items()}
        return Given(leaves, self.cotangent.to(dtype))

    def solve(self, edges: Edges, backend: str, score: str = "dot", **more: Any) -> dict[str, Tensor]:
        """The output and all gradients."""
        at = dict(self.leaves)
        vector = at.pop("vector", None)
        carried = {name: x.transpose(0, 1) for name, x in at.items()}
        query, key, value = (carried.pop(name) for name in ("query", "key", "value"))
        out = attend(query, key, value, edges, score=SCORES[score](vector), backend=backend, **carried, **more)
        out = out.transpose(0, 1)
        wanted = {name: x for name, x in self.leaves.items() if name != "vector" or score != "dot"}
        grads = torch.autograd.grad(out, list(wanted.values()), self.cotangent)
        return {"output": out.detach()} | {f"gradient of {name}": grad for name, grad in zip(wanted, grads)}


def given(edges: Edges, heads: int = HEADS, dim: int = DIM, dtype: torch.dtype = torch.float32, *carried: str) -> Given:
    """Random numbers for a graph."""
    random = torch.Generator(DEVICE).manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, device=DEVICE, dtype=dtype).requires_grad_()

    leaves = {"query": numbers(edges.num_receivers, heads, dim)}
    leaves |= {name: numbers(edges.num_senders, heads, dim) for name in ("key", "value")}
    leaves["vector"] = numbers(heads, dim)
    leaves |= {name: numbers(edges.num_edges, heads, dim) for name in carried if name != "bias"}
    if "bias" in carried:
        leaves["bias"] = numbers(edges.num_edges, heads)
    return Given(leaves, numbers(edges.num_receivers, heads, dim).detach())


def furthest(found: dict[str, Tensor], right: dict[str, Tensor]) -> dict[str, float]:
    """How far each output and gradient lies from what is right, as a part of the largest value there."""
    assert found.keys() == right.keys()
    return {
        name: ((found[name].double() - wanted.double()).abs().max() / wanted.double().abs().max()).item()
        for name, wanted in right.items()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("score", "normalize"), [("dot", Softmax()), ("gatv2", Softmax()), ("additive", Sparsemax())])
def test_three_runs_have_the_same_bits(score, normalize, dtype):
    edges = power_law(NODES, EDGES)
    problem = given(edges, HEADS, DIM, dtype, "bias", "edge_key")
    runs = []
    for _ in range(3):
        torch.manual_seed(3)
        runs.append(problem.solve(edges, "triton", score, normalize=normalize, dropout=0.1))
    for run in runs[1:]:
        assert all(torch.equal(run[name], first) for name, first in runs[0].items())


@pytest.mark.parametrize(("score", "normalize"), [("dot", Softmax()), ("gatv2", Softmax()), ("dot", Sparsemax())])
def test_a_hub_of_a_million_edges_on_either_side(score, normalize):
    random = torch.Generator(DEVICE).manual_seed(2)
    others = torch.randint(1, 5000, (2, HUB), generator=random, device=DEVICE)
    hub = torch.zeros(HUB, dtype=torch.int64, device=DEVICE)
    # Who receives from the hub receives from others too: with one sender alone the gradients of its scores are 0.
    more = torch.randint(1, 5000, (2, HUB), generator=random, device=DEVICE)
    edges = Edges(torch.cat([others[0], hub, more[0]]), torch.cat([hub, others[1], more[1]]), 5000, 5000)
    problem = given(edges, 2, DIM)
    right = problem.to(torch.float64).solve(edges, "gather", score, normalize=normalize)
    found = furthest(problem.solve(edges, "triton", score, normalize=normalize), right)
    assert max(found.values()) < 1e-4, found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("carried", [(), ("bias", "edge_key", "edge_value")], ids=["bare", "carrying"])
def test_the_error_of_half_precision_is_at_most_twice_that_of_plain_torch(score, dtype, carried):
    """And of two roundings more: ours subtracts dO·o of the output as it is stored, where plain torch keeps it."""
    edges = power_law(NODES, EDGES)
    problem = given(edges, HEADS, DIM, dtype, *carried)
    right = problem.to(torch.float64).solve(edges, "gather", score)
    plain = furthest(problem.solve(edges, "gather", score), right)
    found = furthest(problem.solve(edges, "triton", score), right)
    assert all(found[name] <= 2 * (plain[name] + torch.finfo(dtype).eps) for name in found), (found, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score", ["dot", "gatv2"])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "forward and backward"])
def test_peak_memory_is_inputs_and_outputs_and_a_fifth(score, dtype, backward):
    edges = power_law(20 * NODES, 20 * EDGES)
    problem = given(edges, HEADS, DIM, dtype)
    query, key, value = (problem.leaves[name].transpose(0, 1) for name in ("query", "key", "value"))
    leaves = [problem.leaves[name] for name in ("query", "key", "value")]
    rule = SCORES[score](problem.leaves["vector"])

    def call() -> tuple[Tensor, ...]:
        with torch.set_grad_enabled(backward):
            out = attend(query, key, value, edges, score=rule, backend="triton").transpose(0, 1)
        return (out, *torch.autograd.grad(out, leaves, problem.cotangent)) if backward else (out,)

    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    results = call()
    torch.cuda.synchronize()
    taken = torch.cuda.max_memory_allocated() - before
    inputs = sum(x.nbytes for x in (*leaves, edges.senders, edges.receivers)) + backward * problem.cotangent.nbytes
    outputs = sum(x.nbytes for x in results)
    assert inputs + taken <= 1.2 * (inputs + outputs), (taken / outputs, inputs, outputs)


def needs_free_memory(gib: float) -> None:
    """Skips where the device has less."""
    free, _ = torch.cuda.mem_get_info()
    if free < gib * 2**30:
        pytest.skip(f"needs {gib} GiB of free memory on the device, there are {free / 2**30:.0f}")


def test_features_of_edges_beyond_2_to_the_31():
    """The last edges are those of the last receivers: alone, they give the same."""
    needs_free_memory(48)
    heads, dim, few, last = 8, 64, 1000, 50
    num_edges = 2**31 // (heads * dim) + 10_000
    random = torch.Generator(DEVICE).manual_seed(4)
    senders = torch.randint(few, (num_edges,), generator=random, device=DEVICE)
    receivers = torch.randint(few - last, (num_edges,), generator=random, device=DEVICE)
    receivers[-few:] = torch.randint(few - last, few, (few,), generator=random, device=DEVICE)
    whole = Edges(senders, receivers, few, few)
    part = Edges(senders[-few:], receivers[-few:] - (few - last), few, last)
    problem = given(whole, heads, dim, torch.bfloat16, "edge_key", "bias")
    assert problem.leaves["edge_key"].numel() > 2**31
    cut = {"query": slice(-last, None), "edge_key": slice(-few, None), "bias": slice(-few, None)}
    leaves = {n: x.detach()[cut.get(n, slice(None))].clone().requires_grad_() for n, x in problem.leaves.items()}
    right = Given(leaves, problem.cotangent[-last:]).solve(part, "triton")
    found = problem.solve(whole, "triton")
    for name in ("query", "edge_key", "bias"):
        torch.testing.assert_close(found[f"gradient of {name}"][cut[name]], right[f"gradient of {name}"])
    torch.testing.assert_close(found["output"][-last:], right["output"])


def test_nodes_beyond_2_to_the_31_numbers():
    """Only the last nodes have edges: alone, they give the same."""
    needs_free_memory(72)
    last = 1000
    num_nodes = 2**31 // (HEADS * DIM) + last
    edges = power_law(last, 20 * last)
    shift = num_nodes - last
    whole = Edges(edges.senders + shift, edges.receivers + shift, num_nodes, num_nodes)
    problem = given(whole, HEADS, DIM, torch.bfloat16)
    leaves = {n: x.detach()[-last:].clone().requires_grad_() for n, x in problem.leaves.items() if n != "vector"}
    leaves["vector"] = problem.leaves["vector"]
    right = Given(leaves, problem.cotangent[-last:]).solve(edges, "triton")
    found = problem.solve(whole, "triton")
    for name, wanted in right.items():
        torch.testing.assert_close(found[name][-last:], wanted)
        assert not found[name][: num_nodes // 2].any()
