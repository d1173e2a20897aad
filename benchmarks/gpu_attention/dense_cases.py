"""Attention over all pairs: additive scores, which no fused kernel of torch computes, and scaled dot products, which
edgewise hands on; and these in windows and packed sequences, for which there are several kernels. Features lie as
`(*batch, node, feature)`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from cpu_attention import plain
from torch import Tensor

from edgewise import Additive, Causal, Segments, Window, attend, why
from edgewise.neighborhood import Neighborhood
from gpu_attention.case import (
    BOTH,
    EAGER,
    EAGER_COMPILED,
    FLEX,
    FORWARD,
    OURS,
    PLAIN,
    SDPA,
    TRITON,
    VARLEN,
    Case,
    Results,
)
from gpu_attention.options import Options

HEADS, DIM = 8, 64
PACKED = 16_384
"""Nodes of windows and packed sequences."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
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


def ranges(kind: str, dtype: str, peers: tuple[str, ...], device: str, options: Options) -> Case:
    """Scaled dot products over parts of the pairs: each kernel that edgewise has for them by name, ours left to itself,
    and torch's with a table of all pairs, which is made before."""
    length = PACKED // 16 if options.quick else PACKED
    random = torch.Generator(device).manual_seed(0)
    leaves = _leaves((HEADS, length, DIM), DTYPES[dtype], random)
    query, key, value = leaves.values()
    neighborhood = _neighborhood(kind, length, device)
    table = neighborhood.to_mask(length, length, device)

    def run_by(backend: str) -> Callable:
        return lambda: lambda: attend(query, key, value, neighborhood, backend=backend)

    def exact(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=table[_places(value)])

    ways: dict[str, Callable] = {
        OURS: run_by("auto"),
        VARLEN: run_by("varlen"),
        TRITON: run_by("triton"),
        FLEX: run_by("flex"),
        # With three axes torch would take its slow path.
        SDPA: lambda: lambda: F.scaled_dot_product_attention(query[None], key[None], value[None], attn_mask=table)[0],
    }
    case = _case({name: ways[name] for name in peers}, leaves, exact, random, 2e-2 if dtype == "bf16" else 2e-4)
    case.facts["left_to_itself"] = why(query, key, value, neighborhood).partition(" ")[0]
    return case


def _neighborhood(kind: str, length: int, device: str) -> Neighborhood:
    if kind == "window":
        return Window(length // 16, 0)
    # Sixteen sequences, of 256 to 1,512 nodes.
    ends = (torch.arange(1, 17, dtype=torch.float64) / 16) ** 1.5
    return Causal() & Segments(torch.cat([torch.zeros(1), length * ends]).long().to(device))


def _compiled(formula: Callable, *arguments: Tensor) -> Callable:
    faster = torch.compile(formula, dynamic=False)
    return lambda: faster(*arguments)


def _leaves(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> dict[str, Tensor]:
    names = "query", "key", "value"
    return {
        name: torch.randn(shape, generator=random, dtype=dtype, device=random.device).requires_grad_() for name in names
    }


def _places(value: Tensor) -> Tensor:
    """Of the queries that are compared with what is right."""
    return torch.linspace(0, value.shape[-2] - 1, QUERIES, device=value.device).long()


def _case(ways: dict, leaves: dict[str, Tensor], formula: Callable, random: torch.Generator, tolerance: float) -> Case:
    value = leaves["value"]
    cotangent = torch.randn(value.shape, generator=random, dtype=value.dtype, device=value.device)
    places = _places(value)

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
