"""One random call on every backend that takes it, beside the judge: values, gradients, second gradients."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import edgewise as ew
from edgewise.errors import UnsupportedError
from fuzz import judge
from fuzz.draw import ACTIVATIONS, Drawn

BACKENDS = ("auto", "numba", "gather", "sdpa", "uniform", "reference")
BUDGET = {torch.float64: 1e-10, torch.float32: 3e-5, torch.bfloat16: 6e-2, torch.float16: 8e-3}
"""Error allowed, as a share of the largest number among the values and gradients of the same order."""
Result = dict[str, Tensor]


def scored(drawn: Drawn, given: dict[str, Tensor]) -> tuple[Any, Any]:
    """The library's score and normalizer."""
    numbers, score, normalize = drawn.numbers, drawn.score, drawn.normalize
    made: Any = {
        "ScaledDot": lambda: ew.ScaledDot(numbers["scale"]),
        "Dot": ew.Dot,
        "Cosine": ew.Cosine,
        "Bilinear": lambda: ew.Bilinear(given["weight"]),
        "Additive": lambda: ew.Additive(given["vector"], numbers["activation"]),
        "GATv2": lambda: ew.GATv2(given["vector"]),
        "GAT": lambda: ew.GAT(given["query_vector"], given["key_vector"]),
        "Distance": lambda: ew.Distance(numbers["kind"], given.get("length", 1.3)),
        "Constant": lambda: ew.Constant(given.get("edge_weight", 0.7)),
        "own": lambda: lambda q, k: -(q - k).abs().sum(-1),
    }[score]()
    if normalize == "Softmax":
        return made, ew.Softmax(given.get("temperature", numbers["temperature"]))
    if normalize == "Hardmax":
        return made, ew.Hardmax(numbers["straight_through"])
    return made, getattr(ew, normalize)()


def run(drawn: Drawn, leaves: dict[str, Tensor], backend: str) -> Tensor:
    """What the library gives."""
    given = drawn.arguments(leaves)
    extras = {n: given[n] for n in ("bias", "edge_key", "edge_value") if n in given}
    if drawn.verb == "aggregate":
        how = ("sum", "mean", "max", "min")[(drawn.num_queries + drawn.num_keys) % 4]
        extras.pop("bias", None)
        size = drawn.num_queries
        return ew.aggregate(given["value"], drawn.neighborhood, how, num_queries=size, backend=backend, **extras)
    score, normalize = scored(drawn, given)
    common = {"score": score, "normalize": normalize, **extras}
    if drawn.verb == "attend":
        arguments = given["query"], given["key"], given["value"], drawn.neighborhood
        return ew.attend(*arguments, backend=backend, **common)
    return ew.attention_weights(given["query"], given["key"], drawn.neighborhood, **common).to_dense()


def judged(drawn: Drawn, leaves: dict[str, Tensor], noise: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """What the judge gives, in the dtype of the leaves; with `noise` on its scores."""
    given = drawn.arguments(leaves)
    slots, own = judge.Slots(drawn.pairs, drawn.num_queries), drawn.own
    is_list = isinstance(drawn.neighborhood, ew.Edges)
    nodes = {"query": 2, "key": 2, "value": 2, "edge_key": 2, "edge_value": 2, "weight": 2, "length": 0}
    nodes |= {"temperature": 0, "bias": 1 if is_list else 2, "edge_weight": 1 if is_list else 2}
    batch = torch.broadcast_shapes(own, *(x.shape[: max(x.dim() - nodes.get(n, 1), 0)] for n, x in given.items()))
    for name in ("bias", "edge_weight"):
        if name in given and not is_list:
            table = given[name].expand(*given[name].shape[:-2], drawn.num_queries, drawn.num_keys)
            given[name] = table.flatten(-2)
    if drawn.verb == "aggregate":
        how = ("sum", "mean", "max", "min")[(drawn.num_queries + drawn.num_keys) % 4]
        return judge.aggregate(slots, own, batch, given, how)
    numbers = drawn.numbers
    if drawn.score == "Constant" and "edge_weight" in given:
        given["bias"] = given["edge_weight"] if "bias" not in given else given["bias"] + given["edge_weight"]
    leaky = partial(F.leaky_relu, negative_slope=0.2)
    score: Callable[[Tensor, Tensor], Tensor] = {
        "ScaledDot": lambda q, k: judge.product(q, k, numbers["scale"]),
        "Dot": lambda q, k: judge.product(q, k, 1.0),
        "Cosine": judge.cosine,
        "Bilinear": lambda q, k: judge.bilinear(q, k, given["weight"]),
        "Additive": lambda q, k: judge.additive(q, k, given["vector"], ACTIVATIONS[numbers["activation"]]),
        "GATv2": lambda q, k: judge.additive(q, k, given["vector"], leaky),
        "GAT": lambda q, k: judge.gat(q, k, given["query_vector"], given["key_vector"], 0.2),
        "Distance": lambda q, k: judge.distance(q, k, given.get("length", 1.3), numbers["kind"]),
        "Constant": lambda q, k: q.new_full(q.shape[:-1], 0.0 if "edge_weight" in given else 0.7),
        "own": lambda q, k: -(q - k).abs().sum(-1),
    }[drawn.score]
    temperature = given.get("temperature", numbers.get("temperature", 1.0))
    is_end = isinstance(temperature, (int, float)) and temperature in (0, math.inf)
    ends = {0: judge.hardmax, math.inf: judge.mean}
    normalize: Callable[[Tensor, Tensor], Tensor] = {
        "Softmax": ends[temperature] if is_end else lambda s, o: judge.softmax(s, o, temperature),
        "Hardmax": lambda s, o: judge.hardmax(s, o, numbers["straight_through"]),
        "Sparsemax": lambda s, o: judge.simplex(s, o, 1),
        "Entmax15": lambda s, o: judge.simplex(s, o, 2),
        "Sigmoid": lambda s, o: torch.sigmoid(s),
        "Mean": judge.mean,
        "Identity": lambda s, o: s,
    }[drawn.normalize]
    if drawn.verb == "attention_weights":
        given["value"] = given["key"][..., :0]
        given.pop("edge_value", None)
    noisy = score if noise is None else lambda q, k: noise(score(q, k))
    out, weights = judge.attend(slots, own, batch, given, noisy, normalize)
    return out if drawn.verb == "attend" else judge.to_dense(slots, own, weights, drawn.num_keys)


def results(drawn: Drawn, leaves: dict[str, Tensor], forward: Callable[[dict[str, Tensor]], Tensor]) -> list[Result]:
    """Output, gradients and second gradients of one way to compute a call, each a table of tensors by name."""
    own = {n: x.detach().clone().requires_grad_(n in drawn.with_gradient) for n, x in leaves.items()}
    wanted = {n: x for n, x in own.items() if x.requires_grad}
    out = forward(own)
    found: list[Result] = [{"out": out.detach()}]
    if not wanted:
        return found
    second = bool(drawn.numbers["second"])
    probe = _probe(out, 1).requires_grad_(second)
    first = _gradients([(out, probe)], wanted, second)
    found.append({n: g.detach() for n, g in first.items()})
    if second:
        targets = [(g, _probe(g, 2)) for g in first.values()]
        again = _gradients(targets, wanted | {"probe": probe}, False)
        found.append({n: g.detach() for n, g in again.items()})
    return found


def _gradients(targets: list[tuple[Tensor, Tensor]], leaves: Result, create_graph: bool) -> Result:
    """The gradients of Σ target · probe, zeros where there are none."""
    some = [(x, p) for x, p in targets if x.requires_grad]
    if not some:
        return {n: torch.zeros_like(x) for n, x in leaves.items()}
    outputs, probes = zip(*some)
    found = torch.autograd.grad(outputs, list(leaves.values()), probes, create_graph=create_graph, allow_unused=True)
    return {n: torch.zeros_like(x) if g is None else g for (n, x), g in zip(leaves.items(), found)}


def _probe(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, dtype=torch.float64, generator=generator).to(like.dtype)


def check(drawn: Drawn, backends: tuple[str, ...] = BACKENDS) -> dict[str, str]:
    """For every backend "ok", "refused", "rounding" where the call itself is ill-conditioned, or what is wrong."""
    double = {n: x.double() for n, x in drawn.leaves.items()}
    truth = results(drawn, double, lambda leaves: judged(drawn, leaves))
    found = {}
    for backend in backends if drawn.verb != "attention_weights" else ("auto",):
        try:
            got = results(drawn, drawn.leaves, lambda leaves, backend=backend: run(drawn, leaves, backend))
        except UnsupportedError as error:
            found[backend] = "refused" if backend != "auto" else f"no backend takes a legal call: {error}"[:300]
            continue
        except Exception as error:  # whatever a legal call raises is a finding
            found[backend] = f"{type(error).__name__}: {error}"[:300]
            continue
        found[backend] = _compared(drawn, double, truth, got)
    return found


def _compared(drawn: Drawn, double: Result, truth: list[Result], got: list[Result]) -> str:
    scale = 1e-30
    for order, (right, ours) in enumerate(zip(truth, got, strict=True)):
        for name, x in right.items():
            y = ours[name]
            if x.shape != y.shape:
                return f"order {order} {name}: shape {tuple(y.shape)}, not {tuple(x.shape)}"
            if y.dtype != (drawn.dtype if name != "probe" else y.dtype):
                return f"order {order} {name}: dtype {y.dtype}"
        scale = max([scale, *(float(x[x.isfinite()].abs().max()) for x in right.values() if x.isfinite().any())])
        error = _error(right, ours)
        # A second derivative sums as many rounded first ones as there are pairs.
        if error <= (1, 1, 4)[order] * BUDGET[drawn.dtype] * scale + torch.finfo(drawn.dtype).tiny:
            continue
        if error <= 16 * _sensitivity(drawn, double, truth, order) + BUDGET[drawn.dtype] * scale:
            return "rounding"
        if error <= 4 * _own_rounding(drawn, double, order) + BUDGET[drawn.dtype] * scale:
            return "rounding"
        worst = max(right, key=lambda n: _error({n: right[n]}, {n: ours[n]}))
        return f"order {order} {worst}: off by {error:.3g} where the largest number is {scale:.3g}"
    return "ok"


def _error(right: Result, ours: Result) -> float:
    """The largest difference; infinite where only one of the two is finite."""
    worst = 0.0
    for name, x in right.items():
        y = ours[name].double()
        if not torch.equal(x.isfinite(), y.isfinite()):
            return math.inf
        gap = torch.where(x.isfinite(), x - y, 0.0).abs()
        worst = max(worst, float(gap.max()) if gap.numel() else 0.0)
    return worst


def _sensitivity(drawn: Drawn, double: Result, truth: list[Result], order: int) -> float:
    """How far the judge's own results move when the inputs, or the scores, change by a rounding: ties, kinks and
    cancellation."""
    step = torch.finfo(torch.float32 if drawn.dtype in (torch.bfloat16, torch.float16) else drawn.dtype).eps
    if order and drawn.dtype in (torch.bfloat16, torch.float16):
        step = torch.finfo(drawn.dtype).eps
    worst = 0.0
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        moved = _moved(double, step, generator)

        def rounded(scores: Tensor, generator: torch.Generator = generator) -> Tensor:
            return scores + 4 * step * torch.randn(scores.shape, dtype=torch.float64, generator=generator) * (
                1 + scores.detach().abs().nan_to_num(0.0, 0.0, 0.0)
            )

        found = results(drawn, moved, lambda leaves, noise=rounded: judged(drawn, leaves, noise))
        error = _error(truth[order], found[order])
        worst = max(worst, 0.0 if error == math.inf else error)
    return worst


def _own_rounding(drawn: Drawn, double: Result, order: int) -> float:
    """The judge's own error when it computes in the dtype of the call, at the inputs and a few roundings beside them.

    Terms that cancel leave it in every formula: where a key has one feature, a cosine is ±1, its derivative is the
    difference of two large numbers, and the exact difference is 0.
    """
    worst = 0.0
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        near = double if seed == 0 else _moved(double, torch.finfo(drawn.dtype).eps, generator)
        own = {n: x.to(drawn.dtype) for n, x in near.items()}
        exact = results(drawn, {n: x.double() for n, x in own.items()}, lambda leaves: judged(drawn, leaves))
        rounded = results(drawn, own, lambda leaves: judged(drawn, leaves))
        error = _error(exact[order], rounded[order])
        worst = max(worst, 0.0 if error == math.inf else error)
    return worst


def _moved(double: Result, step: float, generator: torch.Generator) -> Result:
    """The inputs, a few roundings beside where they are."""
    return {
        n: x * (1 + 4 * step * torch.randn(x.shape, dtype=torch.float64, generator=generator))
        for n, x in double.items()
    }
