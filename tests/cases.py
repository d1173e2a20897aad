"""The lists that tests run over: adding a case to one of them adds its tests."""

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import oracle
from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Constant,
    Cosine,
    Distance,
    Dot,
    Edges,
    Entmax15,
    Full,
    GATv2,
    Hardmax,
    Identity,
    Lengths,
    Mask,
    Mean,
    ScaledDot,
    Segments,
    Sigmoid,
    Softmax,
    Sparsemax,
    Window,
    attend,
)
from edgewise.backends import ORDER, flex, triton, uniform, varlen
from edgewise.neighborhood import Neighborhood

MEMBERS, HEADS, KEY_DIM, VALUE_DIM = 2, 3, 5, 3
"""Batch axes (member, head) of the problems, and the sizes of their features."""
ALL_LAYOUTS = ("mixed", "bare", "deep")
"""Which batch axes the tensors of a problem have: of every kind that broadcasts; none, so that only the neighborhood,
score and normalizer have some; or one more than the neighborhood, of size 2, before all others."""

all_backends: list[str] = [backend.NAME for backend in ORDER if backend not in (varlen, flex, triton, uniform)]
"""Those that run on a CPU and look at the content; the kernels for CUDA and `uniform` have tests of their own."""


@dataclass(frozen=True)
class NeighborhoodCase:
    """A neighborhood, and the same pairs written out, once for all members or once for each."""

    name: str
    neighborhood: Neighborhood
    num_queries: int
    num_keys: int
    pairs: Sequence[oracle.Pairs]

    def pairs_of(self, member: int, head: int = 0) -> oracle.Pairs:
        """(query, key) pairs of one head of one member of the batch; for `Edges`, in their order."""
        if len(self.pairs) == MEMBERS * HEADS:
            return self.pairs[member * HEADS + head]
        return self.pairs[member if len(self.pairs) > 1 else 0]


@dataclass(frozen=True)
class PartCase:
    """A score or a normalizer with parameters (head, …), and its meaning for one pair or row of one head."""

    name: str
    make: Callable[..., Any]
    formula: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ()
    positive: bool = False


def _mask(*shape: int, seed: int = 0) -> Tensor:
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0, :] = False  # a query without keys
    mask[..., :, 2] = False  # a key without queries
    return mask


def _edges(pairs: oracle.Pairs, num_queries: int, num_keys: int) -> Edges:
    receivers, senders = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(-1)
    return Edges(senders, receivers, num_keys, num_queries)


def _table_case(name: str, neighborhood: Neighborhood, num_queries: int, num_keys: int, *pairs: Any) -> Any:
    return NeighborhoodCase(name, neighborhood, num_queries, num_keys, [sorted(set(member)) for member in pairs])


def _mask_case(name: str, mask: Tensor, num_queries: int = 0, num_keys: int = 0) -> NeighborhoodCase:
    """A mask; with more queries or keys than it has, they all have the one that it has."""
    sizes = num_queries or mask.shape[-2], num_keys or mask.shape[-1]
    pairs = [member.nonzero().tolist() for member in mask.expand(*mask.shape[:-2], *sizes).reshape(-1, *sizes)]
    return _table_case(name, Mask(mask), *sizes, *[[(i, j) for i, j in member] for member in pairs])


def _edge_case(name: str, pairs: oracle.Pairs, num_queries: int, num_keys: int) -> NeighborhoodCase:
    return NeighborhoodCase(name, _edges(pairs, num_queries, num_keys), num_queries, num_keys, [pairs])


def _per_member(*lengths: int) -> Tensor:
    return torch.tensor(lengths)[:, None]


NEVER, ALWAYS = 0, math.inf
MULTI = [(1, 0), (0, 2), (1, 0), (3, 3), (1, 4), (3, 1), (3, 3), (1, 2), (4, 4), (0, 0)]
BIPARTITE = [(3, 5), (0, 1), (3, 2), (1, 6), (3, 0), (1, 6), (0, 4)]
PACKED = [(0, 3, 0, 3), (3, 3, 3, 3), (3, 4, 3, 4), (4, 7, 4, 7)]
CROSSED = [(1, 3, 0, 4), (3, 3, 4, 5), (3, 6, 5, 5), (6, 7, 5, 8)]
PACKED_OFFSETS = torch.tensor([0, 3, 3, 4, 7])
CROSSED_OFFSETS = torch.tensor([1, 3, 3, 6, 7]), torch.tensor([0, 4, 5, 5, 8])
_SOME = _mask(7, 7, seed=3)
_SOME_PAIRS = {(i, j) for i, j in _SOME.nonzero().tolist()}

_PADDING = torch.tensor([[[[1, 1, 0, 1, 1]]], [[[0, 0, 0, 0, 0]]]]).bool()

broadcast_neighborhoods: list[NeighborhoodCase] = [
    _mask_case("mask_of_everybody", torch.ones(MEMBERS, 1, 5, 7, dtype=torch.bool)),
    _mask_case("mask_of_every_head", _mask(MEMBERS, HEADS, 5, 7, seed=5)),
    _mask_case("mask_padding", _PADDING, 4),
    _mask_case("mask_of_keys", _mask(2, 7, seed=1)[1:], 5),
    _mask_case("mask_of_queries", _mask(MEMBERS, 1, 5, 3, seed=2)[..., :1], 5, 7),
    _mask_case("mask_of_members", torch.tensor([[[[True]]], [[[False]]]]), 3, 4),
    _table_case("mask_of_queries_no_key", Mask(torch.ones(4, 1, dtype=torch.bool)), 4, 0, []),
    _table_case("lengths_whole", Lengths(_per_member(6, 6)), 4, 6, oracle.every_pair(4, 6)),
    _table_case("segments_whole", Segments(torch.tensor([[[0, 5]], [[0, 5]]])), 5, 5, oracle.every_pair(5, 5)),
    _table_case(
        "segments_beyond",
        Segments(torch.tensor([2, 70]), torch.tensor([1, 50])),
        5,
        6,
        oracle.in_members([(2, 5, 1, 6)], ALWAYS, ALWAYS),
    ),
    _table_case(
        "padding_and_causal",
        Mask(_PADDING) & Causal(),
        5,
        5,
        {(i, j) for i, j in oracle.windowed(5, 5, ALWAYS, 0) if j != 2},
        [],
    ),
    _table_case(
        "padding_or_edges",
        Mask(_PADDING) | _edges(MULTI, 5, 5),
        5,
        5,
        {*MULTI, *((i, j) for i, j in oracle.every_pair(5, 5) if j != 2)},
        MULTI,
    ),
]
"""Neighborhoods whose batch axes or sizes are easily lost: what they forbid, if anything, does not need them."""

all_neighborhoods: list[NeighborhoodCase] = [
    _table_case("full", Full(), 5, 7, oracle.every_pair(5, 7)),
    _table_case("full_one_key", Full(), 3, 1, oracle.every_pair(3, 1)),
    _table_case("full_no_query", Full(), 0, 4, []),
    _table_case("full_no_key", Full(), 4, 0, []),
    _table_case("causal", Causal(), 6, 6, oracle.windowed(6, 6, ALWAYS, 0)),
    _table_case("causal_more_keys", Causal(), 4, 7, oracle.windowed(4, 7, ALWAYS, 0)),
    _table_case("causal_more_queries", Causal(), 7, 4, oracle.windowed(7, 4, ALWAYS, 0)),
    _table_case("causal_start", Causal("start"), 4, 7, oracle.windowed(4, 7, ALWAYS, 0, "start")),
    _table_case("causal_start_more_queries", Causal("start"), 7, 4, oracle.windowed(7, 4, ALWAYS, 0, "start")),
    _table_case("causal_no_key", Causal(), 3, 0, []),
    _table_case("window", Window(1, 2), 7, 7, oracle.windowed(7, 7, 1, 2)),
    _table_case("window_itself", Window(0, 0), 4, 7, oracle.windowed(4, 7, 0, 0)),
    _table_case("window_start", Window(2, 1, "start"), 7, 4, oracle.windowed(7, 4, 2, 1, "start")),
    _table_case("window_wide", Window(99, 99), 5, 3, oracle.every_pair(5, 3)),
    _table_case("lengths", Lengths(_per_member(3, 0)), 4, 6, oracle.every_pair(4, 3), []),
    _table_case("lengths_both", Lengths(_per_member(3, 6), _per_member(4, 0)), 5, 6, oracle.every_pair(4, 3), []),
    _table_case(
        "causal_lengths",
        Causal() & Lengths(_per_member(5, 2)),
        5,
        5,
        oracle.windowed(5, 5, ALWAYS, 0),
        [(i, j) for i, j in oracle.windowed(5, 5, ALWAYS, 0) if j < 2],
    ),
    _table_case(
        "causal_lengths_decoding",
        Causal() & Lengths(_per_member(7, 3)),
        2,
        7,
        oracle.windowed(2, 7, ALWAYS, 0),
        oracle.windowed(2, 3, ALWAYS, 0),
    ),
    _table_case(
        "lengths_both_window",
        Lengths(_per_member(4, 6), _per_member(3, 5)) & Window(1, 1),
        5,
        6,
        oracle.windowed(3, 4, 1, 1),
        oracle.windowed(5, 6, 1, 1),
    ),
    _table_case("segments", Segments(PACKED_OFFSETS), 7, 7, oracle.in_members(PACKED, ALWAYS, ALWAYS)),
    _table_case("segments_crossed", Segments(*CROSSED_OFFSETS), 8, 8, oracle.in_members(CROSSED, ALWAYS, ALWAYS)),
    _table_case("segments_none", Segments(torch.tensor([0])), 3, 3, []),
    _table_case(
        "segments_per_member",
        Segments(torch.tensor([[[0, 2, 5]], [[0, 4, 4]]])),
        5,
        5,
        oracle.in_members([(0, 2, 0, 2), (2, 5, 2, 5)], ALWAYS, ALWAYS),
        oracle.every_pair(4, 4),
    ),
    _table_case("causal_segments", Causal() & Segments(PACKED_OFFSETS), 7, 7, oracle.in_members(PACKED, ALWAYS, 0)),
    _table_case(
        "causal_segments_crossed",
        Segments(*CROSSED_OFFSETS) & Causal(),
        8,
        8,
        oracle.in_members(CROSSED, ALWAYS, 0),
    ),
    _table_case(
        "window_start_segments_crossed",
        Window(1, 0, "start") & Segments(*CROSSED_OFFSETS),
        8,
        8,
        oracle.in_members(CROSSED, 1, 0, "start"),
    ),
    _table_case("causal_and_window", Causal() & Window(2, 5), 6, 6, oracle.windowed(6, 6, 2, 0)),
    _mask_case("mask", _mask(5, 7)),
    _mask_case("mask_per_member", _mask(MEMBERS, 1, 5, 7, seed=1)),
    _mask_case("mask_batch_of_one", _mask(1, 1, 4, 3, seed=2)),
    _mask_case("mask_nothing", torch.zeros(3, 4, dtype=torch.bool)),
    *broadcast_neighborhoods,
    _edge_case("edges", MULTI, 6, 5),
    _edge_case("edges_bipartite", BIPARTITE, 4, 7),
    _edge_case("edges_none", [], 3, 4),
    _edge_case("edges_one", [(1, 0)], 2, 1),
    _edge_case("edges_no_nodes", [], 0, 0),
    _table_case("mask_and_causal", Mask(_SOME) & Causal(), 7, 7, _SOME_PAIRS & set(oracle.windowed(7, 7, ALWAYS, 0))),
    _table_case(
        "edges_and_causal", _edges(MULTI, 5, 5) & Causal(), 5, 5, set(MULTI) & set(oracle.windowed(5, 5, ALWAYS, 0))
    ),
    _table_case("window_or_edges", Window(0, 1) | _edges(MULTI, 5, 5), 5, 5, {*MULTI, *oracle.windowed(5, 5, 0, 1)}),
    _table_case(
        "segments_or_mask_and_lengths",
        (Segments(PACKED_OFFSETS) | Mask(_SOME)) & Lengths(_per_member(7, 4)),
        7,
        7,
        {*oracle.in_members(PACKED, ALWAYS, ALWAYS), *_SOME_PAIRS},
        {(i, j) for i, j in {*oracle.in_members(PACKED, ALWAYS, ALWAYS), *_SOME_PAIRS} if j < 4},
    ),
]


def _manhattan(query: Tensor, key: Tensor) -> Tensor:
    return -(query - key).abs().sum(-1)


_VECTOR, _MATRIX = (HEADS, KEY_DIM), (HEADS, KEY_DIM, KEY_DIM)
_ACTIVATIONS = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "sigmoid": oracle.sigmoid,
    "silu": oracle.silu,
    "gelu": oracle.gelu,
}

all_scores: list[PartCase] = [
    PartCase("scaled_dot", ScaledDot, oracle.scaled_dot),
    PartCase("scaled_dot_negative", lambda: ScaledDot(-0.3), lambda q, k: oracle.scaled_dot(q, k, -0.3)),
    PartCase("dot", Dot, oracle.dot),
    PartCase("cosine", Cosine, oracle.cosine),
    PartCase("bilinear", Bilinear, oracle.bilinear, (_MATRIX,)),
    *[
        PartCase(
            f"additive_{name}",
            lambda vector, name=name: Additive(vector, name),
            lambda q, k, vector, f=f: oracle.additive(q, k, vector, f),
            (_VECTOR,),
        )
        for name, f in _ACTIVATIONS.items()
    ],
    PartCase("gatv2", GATv2, lambda q, k, v: oracle.additive(q, k, v, lambda x: oracle.leaky_relu(x, 0.2)), (_VECTOR,)),
    PartCase("gat", GAT, lambda q, k, a, b: oracle.gat(q, k, a, b, 0.2), (_VECTOR, _VECTOR)),
    PartCase("gaussian", lambda: Distance(length=1.3), lambda q, k: oracle.gaussian(q, k, 1.3)),
    PartCase("gaussian_per_head", lambda length: Distance(length=length), oracle.gaussian, ((HEADS,),), positive=True),
    PartCase("laplacian_per_head", lambda length: Distance("laplacian", length), oracle.laplacian, ((HEADS,),), True),
    PartCase("constant", lambda: Constant(0.7), lambda q, k: 0.7),
    PartCase("own", lambda: _manhattan, oracle.manhattan),
]

all_normalizers: list[PartCase] = [
    PartCase("softmax", Softmax, oracle.softmax),
    PartCase("softmax_sharp", lambda: Softmax(0.3), lambda s: oracle.softmax(s, 0.3)),
    PartCase("softmax_per_head", Softmax, oracle.softmax, ((HEADS,),), positive=True),
    PartCase("softmax_cold", lambda: Softmax(0), oracle.hardmax),
    PartCase("softmax_hot", lambda: Softmax(math.inf), oracle.mean),
    PartCase("hardmax", Hardmax, oracle.hardmax),
    PartCase("hardmax_straight_through", lambda: Hardmax(straight_through=True), oracle.hardmax),
    PartCase("sparsemax", Sparsemax, oracle.sparsemax),
    PartCase("entmax15", Entmax15, oracle.entmax15),
    PartCase("sigmoid", Sigmoid, oracle.sigmoids),
    PartCase("mean", Mean, oracle.mean),
    PartCase("identity", Identity, oracle.identity),
]


def named(cases: Sequence[Any], *names: str) -> list[Any]:
    """The cases of these names."""
    found = {case.name: case for case in cases}
    return [found[name] for name in names]


@dataclass(frozen=True)
class Problem:
    """One call of `attend`, with every tensor a leaf that wants a gradient."""

    case: tuple[NeighborhoodCase, PartCase, PartCase]
    tensors: dict[str, Tensor]
    score_parameters: tuple[Tensor, ...]
    normalize_parameters: tuple[Tensor, ...]

    @property
    def leaves(self) -> dict[str, Tensor]:
        """Everything there is a gradient for, by name."""
        parameters = {f"score.{n}": x for n, x in enumerate(self.score_parameters)}
        return self.tensors | parameters | {f"normalize.{n}": x for n, x in enumerate(self.normalize_parameters)}

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `attend`."""
        neighborhood, score, normalize = self.case
        return {
            **self.tensors,
            "neighborhood": neighborhood.neighborhood,
            "score": score.make(*self.score_parameters),
            "normalize": normalize.make(*self.normalize_parameters),
        }

    def run(self, backend: str) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and the gradient of a fixed weighted sum of it for every leaf."""
        return self.differentiate(attend(**self.arguments, backend=backend))

    def differentiate(self, out: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and the gradient of a fixed weighted sum of it for every leaf."""
        leaves = self.leaves
        probe = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7)).to(out.dtype)
        found = torch.autograd.grad((out * probe).sum(), list(leaves.values()), allow_unused=True)
        gradients = {name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), found)}
        return out.detach(), gradients

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same problem with its numbers rounded to `dtype`."""

        def rounded(x: Tensor) -> Tensor:
            return x.detach().to(dtype).requires_grad_()

        return Problem(
            self.case,
            {name: rounded(x) for name, x in self.tensors.items()},
            tuple(map(rounded, self.score_parameters)),
            tuple(map(rounded, self.normalize_parameters)),
        )

    @property
    def batch(self) -> torch.Size:
        """The batch axes that the output must have: those of all that has some."""
        neighborhood = self.case[0].neighborhood
        shapes = [neighborhood.batch_shape]
        for name, x in self.tensors.items():
            shapes.append(x.shape[: -1 if name == "bias" and isinstance(neighborhood, Edges) else -2])
        parts = zip(self.case[1:], (self.score_parameters, self.normalize_parameters), strict=True)
        for part, parameters in parts:
            shapes += [x.shape[:1] for x, _ in zip(parameters, part.shapes, strict=True)]
        return torch.broadcast_shapes(*shapes)

    def solution(self) -> Tensor:
        """The output as the oracle has it, of all members and heads."""
        if self.tensors["query"].dim() > 4:
            parts = [{n: x[o] if x.dim() > 4 else x for n, x in self.tensors.items()} for o in range(2)]
            return torch.stack([replace(self, tensors=part).solution() for part in parts])
        neighborhood, score, normalize = self.case
        out = torch.zeros(MEMBERS, HEADS, neighborhood.num_queries, VALUE_DIM, dtype=torch.float64)
        for member, head in itertools.product(range(MEMBERS), range(HEADS)):
            pairs = neighborhood.pairs_of(member, head)
            score_parameters = [x[head].tolist() for x in self.score_parameters]
            normalize_parameters = [x[head].tolist() for x in self.normalize_parameters]
            rows = oracle.attend(
                *(_of(self.tensors[name], member, head).tolist() for name in ("query", "key", "value")),
                pairs,
                lambda q, k, p=score_parameters: score.formula(q, k, *p),
                lambda s, p=normalize_parameters: normalize.formula(s, *p),
                VALUE_DIM,
                **self._on_pairs(pairs, member, head),
            )
            out[member, head] = torch.tensor(rows, dtype=torch.float64).reshape(-1, VALUE_DIM)
        return out

    def _on_pairs(self, pairs: oracle.Pairs, member: int, head: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "bias" in self.tensors:
            bias = self.tensors["bias"]
            if isinstance(self.case[0].neighborhood, Edges):
                found["bias"] = bias.expand(MEMBERS, HEADS, -1)[member, head].tolist()
            else:
                table = _of(bias, member, head)
                found["bias"] = [float(table[i, j].detach()) for i, j in pairs]
        for name in ("edge_key", "edge_value"):
            if name in self.tensors:
                found[name] = _of(self.tensors[name], member, head).tolist()
        return found


def _of(x: Tensor, member: int, head: int) -> Tensor:
    return x.expand(MEMBERS, HEADS, *x.shape[-2:])[member, head]


def problem(
    neighborhood: NeighborhoodCase,
    score: PartCase,
    normalize: PartCase,
    *,
    with_extras: bool = True,
    layout: str = "mixed",
) -> Problem:
    """Random tensors for a call, with batch axes as one of `ALL_LAYOUTS` says."""
    names = f"{neighborhood.name} {score.name} {normalize.name}"
    generator = torch.Generator().manual_seed(zlib.crc32(names.encode()))

    def draw(*shape: int, positive: bool = False) -> Tensor:
        x = torch.randn(shape, dtype=torch.float64, generator=generator)
        return (0.5 + x.abs() if positive else x).requires_grad_()

    num_queries, num_keys = neighborhood.num_queries, neighborhood.num_keys
    tensors = {
        "query": draw(MEMBERS, HEADS, num_queries, KEY_DIM),
        "key": draw(MEMBERS, 1, num_keys, KEY_DIM),
        "value": draw(HEADS, num_keys, VALUE_DIM),
    }
    if with_extras and isinstance(neighborhood.neighborhood, Edges):
        num_edges = neighborhood.neighborhood.num_edges
        tensors["bias"] = draw(MEMBERS, 1, num_edges)
        tensors["edge_key"] = draw(HEADS, num_edges, KEY_DIM)
        tensors["edge_value"] = draw(num_edges, VALUE_DIM)
    elif with_extras:
        tensors["bias"] = draw(HEADS, num_queries, num_keys)
    if layout == "bare":
        of_edges = isinstance(neighborhood.neighborhood, Edges)
        axes = {name: 1 if name == "bias" and of_edges else 2 for name in tensors}
        tensors = {name: draw(*x.shape[-axes[name] :]) for name, x in tensors.items()}
    elif layout == "deep":
        tensors |= {"query": draw(2, *tensors["query"].shape), "key": draw(2, *tensors["key"].shape)}
    return Problem(
        (neighborhood, score, normalize),
        tensors,
        tuple(draw(*shape, positive=score.positive) for shape in score.shapes),
        tuple(draw(*shape, positive=normalize.positive) for shape in normalize.shapes),
    )


def crossed(few: bool = False) -> list[Any]:
    """Every neighborhood with every score and normalizer, and every score with every normalizer; or a part of it."""
    neighborhoods = named(all_neighborhoods, "causal_lengths_decoding", "edges")
    scores = named(all_scores, "scaled_dot", "additive_tanh") if few else all_scores
    normalizers = named(all_normalizers, "softmax", "sparsemax") if few else all_normalizers
    own_neighborhoods = [case for case in all_neighborhoods if case not in broadcast_neighborhoods]
    dot, softmax = all_scores[0], all_normalizers[0]
    triples = [
        *itertools.product(own_neighborhoods, scores, [softmax]),
        *itertools.product(own_neighborhoods, [dot], normalizers),
        *itertools.product(broadcast_neighborhoods, named(all_scores, "scaled_dot", "additive_tanh", "own"), [softmax]),
        *itertools.product(broadcast_neighborhoods, [dot], named(all_normalizers, "sparsemax")),
        *itertools.product(neighborhoods, all_scores, [softmax] if few else all_normalizers),
        *itertools.product(neighborhoods, [dot], all_normalizers),
    ]
    return list({tuple(part.name for part in triple): triple for triple in triples}.values())


@contextmanager
def in_case(name: str) -> Iterator[None]:
    """What fails inside names the case: tests that go through many cases are one test to pytest, which is quicker."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {name}")
        raise


def label(triple: tuple[Any, ...]) -> str:
    """The name of a test."""
    return "-".join(part.name for part in triple)
