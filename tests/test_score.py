"""Scores on single pairs, by the oracle and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import KEY_DIM, all_neighborhoods, all_normalizers, all_scores, problem
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
    Full,
    GATv2,
    ScaledDot,
    Softmax,
    attend,
)
from edgewise.backends.gather import table_scores
from edgewise.score import DotProduct


@pytest.mark.parametrize("case", all_scores, ids=lambda case: case.name)
def test_one_pair_and_broadcast_pairs(case):
    parameters = problem(all_neighborhoods[0], case, all_normalizers[0]).score_parameters
    score = case.make(*parameters)
    query, key = torch.randn(4, 1, 3, KEY_DIM, dtype=torch.float64), torch.randn(6, 3, KEY_DIM, dtype=torch.float64)
    scores = score(query, key)
    assert scores.shape == (4, 6, 3)
    for i, j, head in torch.cartesian_prod(torch.arange(4), torch.arange(6), torch.arange(3)).tolist():
        expected = case.formula(
            query[i, 0, head].tolist(), key[j, head].tolist(), *(x[head].tolist() for x in parameters)
        )
        assert scores[i, j, head].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", all_scores, ids=lambda case: case.name)
def test_a_table_of_scores_is_the_score_of_every_pair(case):
    score = case.make(*problem(all_neighborhoods[0], case, all_normalizers[0]).score_parameters)
    query, key = (torch.randn(2, 3, n, KEY_DIM, dtype=torch.float64) for n in (4, 6))
    pairs = score(query.movedim(-2, 0)[:, None], key.movedim(-2, 0)[None]).movedim((0, 1), (-2, -1))
    torch.testing.assert_close(table_scores(score, query, key), pairs)


def test_by_hand():
    q, k = torch.tensor([1.0, 2.0, 2.0]), torch.tensor([2.0, 0.0, -1.0])
    assert Dot()(q, k).item() == 0.0
    assert Dot()(q, q).item() == 9.0
    assert ScaledDot()(q, q).item() == pytest.approx(9 / math.sqrt(3))
    assert ScaledDot(2.0)(q, q).item() == 18.0
    assert Cosine()(q, -3 * q).item() == pytest.approx(-1.0)
    assert Distance()(q, k).item() == pytest.approx(-(1 + 4 + 9) / 2)
    assert Distance("laplacian", 2.0)(q, k).item() == pytest.approx(-math.sqrt(14) / 2)
    assert Additive(torch.tensor([1.0, 0.0, 2.0]))(q, k).item() == pytest.approx(math.tanh(3) + 2 * math.tanh(1))
    assert GATv2(torch.tensor([1.0, 1.0, 1.0]))(q, -q - 1).item() == pytest.approx(-0.6)
    assert GAT(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 3.0]))(q, k).item() == pytest.approx(-0.4)
    assert Bilinear(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))(q, torch.tensor([3.0, 4.0])).item() == 19.0
    assert Constant(4.0)(q, k).item() == 4.0


def test_query_and_key_of_different_sizes():
    query, key, value = torch.randn(3, 4), torch.randn(5, 2), torch.randn(5, 6)
    weight = torch.randn(4, 2)
    expected = attend(query @ weight, key, value, score=Dot())
    for backend in ("reference", "gather", "sdpa"):
        torch.testing.assert_close(attend(query, key, value, score=Bilinear(weight), backend=backend), expected)
    for score in (GAT(torch.randn(4), torch.randn(2)), Constant()):
        one, other = (attend(query, key, value, score=score, backend=backend) for backend in ("reference", "gather"))
        torch.testing.assert_close(one, other)


def test_scaled_dot_products_are_not_bounded_by_one():
    query = torch.full((64,), 3.0)
    assert ScaledDot()(query, query).item() == 72.0


def test_cosine_of_the_zero_vector_is_zero_with_zero_gradient():
    query = torch.zeros(3, requires_grad=True)
    score = Cosine()(query, torch.ones(3))
    score.backward()
    assert score.item() == 0.0
    assert query.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("size", [1e-4, 2e-2, 300.0])
@pytest.mark.parametrize("backend", ["sdpa", "gather"])
def test_in_half_precision_a_cosine_takes_vectors_of_every_length(size, backend):
    exact = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * size
    value, found = torch.eye(5), []
    for dtype in (torch.float16, torch.float64):
        query, key = leaves = [x.to(torch.float16).to(dtype).requires_grad_() for x in exact]
        out = attend(query, key, value.to(dtype), score=Cosine(), backend=backend)
        # Gradients of a size that float16 has: those of short vectors are long.
        gradients = torch.autograd.grad((out * value.to(dtype)).sum() * size, leaves)
        found.append([x.double() for x in (out, *gradients)])
    for half, right in zip(*found, strict=True):
        torch.testing.assert_close(half, right, rtol=0, atol=5e-3)


@pytest.mark.parametrize("size", [1e-30, 1e-14, 1e15, 1e20, 1e30])
@pytest.mark.parametrize("backend", ["auto", "sdpa", "numba", "gather", "reference"])
def test_in_float32_a_cosine_takes_vectors_of_every_length(size, backend):
    """A cosine does not depend on the lengths, and its gradients are as small as the vectors are long."""
    draw = torch.Generator().manual_seed(0)
    exact, value = torch.randn(2, 5, 3, dtype=torch.float64, generator=draw), torch.eye(5)
    outputs = []
    for dtype, scale, name in ((torch.float32, size, backend), (torch.float64, 1.0, "reference")):
        leaves = [(x * scale).to(dtype).requires_grad_() for x in exact]
        out = attend(*leaves, value.to(dtype), score=Cosine(), backend=name)
        gradients = torch.autograd.grad((out * value.to(dtype)).sum(), leaves)
        outputs.append([out.double(), *(x.double() * scale for x in gradients)])
    for ours, wanted in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1e-16, 1.0, 1e15])
def test_a_cosine_of_vectors_of_every_length_is_differentiated_twice(size):
    draw = torch.Generator().manual_seed(0)
    exact = torch.randn(2, 3, dtype=torch.float64, generator=draw)
    hessians = []
    for dtype, scale in ((torch.float32, size), (torch.float64, 1.0)):
        query, key = ((x * scale).to(dtype) for x in exact)
        hessian = torch.autograd.functional.hessian(lambda x, key=key: Cosine()(x, key), query)
        hessians.append(hessian.double() * scale**2)
    torch.testing.assert_close(*hessians, rtol=1e-5, atol=1e-6)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_distance_is_symmetric_and_largest_at_the_same_place(a, b):
    x, y = torch.tensor([a, b], dtype=torch.float64), torch.tensor([b, a], dtype=torch.float64)
    for kind in ("gaussian", "laplacian"):
        score = Distance(kind, 2.0)
        assert score(x, y).item() == score(y, x).item() <= 0.0
        assert score(x, x).item() == 0.0


def test_a_constant_of_one_number_a_pair_is_that_number():
    value = torch.randn(2, 4, 3)
    from edgewise import Edges, Full, Identity, attention_weights

    table, listed = torch.randn(5, 4), torch.randn(2, 6)
    edges = Edges(torch.tensor([0, 1, 1, 3, 3, 2]), torch.tensor([4, 0, 0, 1, 2, 0]), 4, 5)
    query, key = torch.randn(5, 1), torch.randn(4, 1)
    for backend in ("reference", "gather"):
        out = attend(query, key, value, Full(), score=Constant(table), normalize=Identity(), backend=backend)
        torch.testing.assert_close(out, table @ value)
        out = attend(query, key, value, edges, score=Constant(listed), normalize=Identity(), backend=backend)
        dense = torch.zeros(2, 5, 4).index_put(
            (torch.arange(2)[:, None], edges.receivers, edges.senders), listed, accumulate=True
        )
        torch.testing.assert_close(out, dense @ value)
    weights = attention_weights(query, key, edges, score=Constant(listed), normalize=Identity())
    assert torch.equal(weights.values, listed)


def test_a_constant_with_a_tensor_gets_its_gradient_and_adds_to_a_bias():
    query, key, value = torch.randn(3, 2), torch.randn(4, 2), torch.randn(4, 3)
    table, bias = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    out = attend(query, key, value, score=Constant(table), bias=bias)
    torch.testing.assert_close(out, torch.softmax(table + bias, -1) @ value)
    assert torch.autograd.grad(out.sum(), table)[0].isfinite().all()


def test_a_score_of_your_own_may_be_a_module_with_parameters():
    class Perceptron(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

        def forward(self, query, key):
            return self.layers(torch.cat(torch.broadcast_tensors(query, key), -1)).squeeze(-1)

    score = Perceptron()
    query, key, value = torch.randn(2, 3, 2), torch.randn(2, 5, 2), torch.randn(2, 5, 3)
    outs = [attend(query, key, value, score=score, backend=backend) for backend in ("reference", "gather", "auto")]
    for out in outs:
        torch.testing.assert_close(out, outs[0])
        gradients = torch.autograd.grad(out.sum(), list(score.parameters()), allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in gradients)


def test_dot_products_say_so():
    assert [
        case.name for case in all_scores if isinstance(case.make(*[torch.ones(s) for s in case.shapes]), DotProduct)
    ] == [
        "scaled_dot",
        "scaled_dot_negative",
        "dot",
        "cosine",
        "bilinear",
    ]


class Clipped(ScaledDot):
    """A score of one's own, with the factors of another."""

    def __call__(self, query, key):
        return super().__call__(query, key).clamp(-0.1, 0.1)


class Sharper(Softmax):
    """A normalizer of one's own."""

    def __call__(self, scores, rows):
        return super().__call__(10 * scores, rows)


@pytest.mark.parametrize(
    "neighborhood", [Full(), Causal(), Edges(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 1, 1, 2, 2, 0]), 5, 5)]
)
def test_a_subclass_computes_what_it_says(neighborhood):
    nodes = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    allowed = torch.ones(5, 5, dtype=torch.bool)
    if isinstance(neighborhood, Causal):
        allowed = allowed.tril()
    elif isinstance(neighborhood, Edges):
        allowed = torch.zeros(5, 5, dtype=torch.bool)
        allowed[neighborhood.receivers, neighborhood.senders] = True
    products = nodes @ nodes.T / 2
    for parts, scores in (({"score": Clipped()}, products.clamp(-0.1, 0.1)), ({"normalize": Sharper()}, 10 * products)):
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num()
        torch.testing.assert_close(attend(nodes, nodes, nodes, neighborhood, **parts), weights @ nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scale", [-0.7, 0.0, 0.3])
def test_a_causal_mask_holds_for_every_scale(scale, dtype):
    nodes = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    out = attend(nodes, nodes, nodes, Causal(), score=ScaledDot(scale))
    scores = (scale * nodes.double() @ nodes.double().mT).masked_fill(~torch.ones(8, 8).tril().bool(), -torch.inf)
    wanted = (scores.softmax(-1) @ nodes.double()).to(dtype)
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "score", [ScaledDot(), ScaledDot(1e-46), Dot(), Bilinear(torch.eye(4))], ids=["scaled", "tiny", "dot", "bilinear"]
)
@pytest.mark.parametrize("temperature", [1e45, 1e46])
def test_a_causal_mask_holds_for_a_scale_that_float32_rounds_to_zero(score, temperature):
    nodes = torch.randn(2, 40, 4, generator=torch.Generator().manual_seed(0))
    out = attend(nodes, nodes, nodes, Causal(), score=score, normalize=Softmax(temperature))
    torch.testing.assert_close(out, nodes.cumsum(-2) / torch.arange(1.0, 41.0).unsqueeze(-1))
