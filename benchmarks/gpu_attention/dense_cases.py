"""Attention over all pairs: additive scores, which no fused kernel of torch computes, and scaled dot products, which
edgewise hands on. Features lie as `(*batch, node, feature)`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from cpu_attention import plain
from torch import Tensor

from edgewise import Additive, attend, why
from gpu_attention.case import BOTH, EAGER, EAGER_COMPILED, FORWARD, OURS, PLAIN, SDPA, Case, Results
from gpu_attention.options import Options

HEADS, DIM = 8, 64
QUERIES = 8
"""That are compared with what is right."""


def additive(length: int, peers: tuple[str, ...], device: str, options: Options) -> Case:
    """Bahdanau's score, 8 heads of 64 features in float32: eager torch holds a table of 64 numbers a pair and head."""
    length = length // 16 if options.quick else length
    random = torch.Generator(device).manual_seed(0)
    leaves = _leaves((HEADS, length, DIM), torch.float32, random)
    leaves["vector"] = torch.randn(DIM, generator=random, device=device).requires_grad_()
    query, key, value, vector = leaves.values()
    ways: dict[str, Callable] = {
        OURS: lambda: lambda: attend(query, key, value, score=Additive(vector), backend=options.ours),
        PLAIN: lambda: lambda: attend(query, key, value, score=Additive(vector), backend="gather"),
        EAGER: lambda: lambda: plain.additive(query, key, value, vector),
        EAGER_COMPILED: lambda: _compiled(plain.additive, query, key, value, vector),
    }
    return _case({name: ways[name] for name in peers}, leaves, plain.additive, random, 2e-4)


def dispatched(length: int, peers: tuple[str, ...], device: str, options: Options) -> Case:
    """Scaled dot products left to edgewise, beside the fused kernel that it should hand them to."""
    length = length // 16 if options.quick else length
    random = torch.Generator(device).manual_seed(0)
    leaves = _leaves((HEADS, HEADS, length, DIM), torch.bfloat16, random)
    query, key, value = leaves.values()
    ways: dict[str, Callable] = {
        OURS: lambda: lambda: attend(query, key, value),
        SDPA: lambda: lambda: F.scaled_dot_product_attention(query, key, value),
    }
    case = _case({name: ways[name] for name in peers}, leaves, F.scaled_dot_product_attention, random, 2e-2)
    case.facts["left_to_itself"] = why(query, key, value).partition(" ")[0]
    return case


def _compiled(formula: Callable, *arguments: Tensor) -> Callable:
    faster = torch.compile(formula, dynamic=False)
    return lambda: faster(*arguments)


def _leaves(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> dict[str, Tensor]:
    names = "query", "key", "value"
    return {
        name: torch.randn(shape, generator=random, dtype=dtype, device=random.device).requires_grad_() for name in names
    }


def _case(ways: dict, leaves: dict[str, Tensor], formula: Callable, random: torch.Generator, tolerance: float) -> Case:
    value = leaves["value"]
    cotangent = torch.randn(value.shape, generator=random, dtype=value.dtype, device=value.device)
    places = torch.linspace(0, value.shape[-2] - 1, QUERIES, device=value.device).long()

    def difference(results: Results) -> float:
        """The outputs and gradients of a few queries, in float64."""
        exact = {name: leaf.detach().double() for name, leaf in leaves.items()}
        exact["query"] = exact["query"][..., places, :].requires_grad_()
        out = formula(*exact.values())
        (grad,) = torch.autograd.grad(out, exact["query"], cotangent[..., places, :].double())
        pairs = zip(results[:2], (out.detach(), grad))  # the query is the first of the leaves
        off = [(one.detach()[..., places, :].double() - right).abs().max() / right.abs().max() for one, right in pairs]
        return max(x.nan_to_num(torch.inf).item() for x in off)

    num_bytes = 4 * value.numel() * value.element_size()
    return Case(
        make=ways,
        leaves=leaves,
        cotangent=cotangent,
        difference=difference,
        tolerance=tolerance,
        facts={"queries": value.shape[-2], "heads": HEADS, "features": DIM, "shape": list(value.shape)},
        floors={FORWARD: {"once": num_bytes}, BOTH: {"once": 3 * num_bytes}},
    )
