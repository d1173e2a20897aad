"""Under torch.autocast the operator does what `F.scaled_dot_product_attention` does: it casts, one rule for all."""

import pytest
import torch
import torch.nn.functional as F

from edgewise import (
    GAT,
    Additive,
    Causal,
    Constant,
    Cosine,
    Distance,
    Edges,
    Full,
    Lengths,
    Mask,
    ShapeError,
    Sparsemax,
    Window,
    aggregate,
    attend,
    attention_weights,
)
from edgewise.layers import GraphAttention, MultiHeadAttention, RotaryPosition

BFLOAT16 = torch.bfloat16
SENDERS, RECEIVERS = torch.tensor([0, 1, 2, 3, 3, 5]), torch.tensor([1, 0, 3, 2, 3, 0])
EDGES = Edges(SENDERS, RECEIVERS, 6, 6)
NEIGHBORHOODS = [
    Full(), Causal(), Window(1, 1), Lengths(torch.tensor([3, 6])), Mask(torch.eye(6, dtype=torch.bool)), EDGES,
    EDGES & Causal(),
]  # fmt: skip
SCORES = [Cosine(), Additive(torch.ones(4)), GAT(torch.ones(4), -torch.ones(4)), Distance()]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def autocast():
    return torch.autocast("cpu", BFLOAT16)


@pytest.mark.parametrize("backend", ["auto", "gather", "reference"])
@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=lambda x: type(x).__name__)
def test_every_neighborhood_is_cast_alike(neighborhood, backend):
    query, key, value = (drawn(2, 6, 4, seed=seed) for seed in range(3))
    half = [x.to(BFLOAT16) for x in (query, key, value)]
    expected = attend(*half, neighborhood, backend=backend)
    with autocast():
        for call in ((query, key, value), (half[0], key, value), (query, key, half[2])):
            found = attend(*call, neighborhood, backend=backend)
            assert found.dtype == F.scaled_dot_product_attention(*call).dtype == BFLOAT16
            assert torch.equal(found, expected)
        assert attention_weights(query, half[1], neighborhood).values.dtype == BFLOAT16
        doubled = attend(*(x.double() for x in (query, key, value)), neighborhood, backend=backend)
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(doubled, attend(*(x.double() for x in (query, key, value)), neighborhood))


@pytest.mark.parametrize("backend", ["auto", "gather"])
@pytest.mark.parametrize("score", SCORES, ids=lambda x: type(x).__name__)
def test_inside_arithmetic_stays_float32(score, backend):
    """The tensors are rounded, as outside of autocast; what is computed of them is not rounded again."""
    query, key, value = (drawn(6, 4, seed=seed) for seed in range(3))
    half = [x.to(BFLOAT16) for x in (query, key, value)]
    for neighborhood in (EDGES, Full()):
        given = {"score": score, "normalize": Sparsemax(), "backend": backend}
        expected = attend(*half, neighborhood, **given)
        with autocast():
            assert torch.equal(attend(query, key, value, neighborhood, **given), expected)


def test_what_stands_beside_is_cast_too_and_gradients_come_back():
    query, key, value = (drawn(6, 4, seed=seed).requires_grad_() for seed in range(3))
    beside = {"bias": drawn(6), "edge_key": drawn(6, 4).to(BFLOAT16), "edge_value": drawn(6, 4, seed=4)}
    with autocast():
        found = attend(query, key, value, EDGES, **beside)
        weighted = attend(query, key, value, EDGES, score=Constant(drawn(6)))
    assert found.dtype == weighted.dtype == BFLOAT16
    found.float().sum().backward()
    assert {x.grad.dtype for x in (query, key, value)} == {torch.float32}


def test_a_score_of_the_callers_own_stays_under_autocast():
    linear = torch.nn.Linear(4, 1)
    with autocast():
        for neighborhood in (EDGES, Full()):
            x = drawn(6, 4)
            out = attend(x, x, x, neighborhood, score=lambda q, k: linear(q - k).squeeze(-1))
            assert out.dtype == BFLOAT16


def test_sums_keep_their_dtype():
    value = 1 + drawn(6, 4) / 100
    for neighborhood in (EDGES, Causal()):
        for how in ("sum", "mean", "max", "min"):
            expected = aggregate(value, neighborhood, how)
            with autocast():
                assert torch.equal(aggregate(value, neighborhood, how), expected)


def test_without_autocast_dtypes_are_not_mixed():
    x = drawn(6, 4)
    with pytest.raises(ShapeError, match=r"dtype is .*32 in query but .*16 in value"):
        attend(x, x, x.to(BFLOAT16), EDGES)


@pytest.mark.parametrize("neighborhood", [EDGES, Causal(), EDGES & Causal()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, BFLOAT16])
def test_a_bias_of_another_dtype(neighborhood, dtype):
    """Kernels are compiled for one dtype: a float32 bias beside float64 queries did not compile."""
    x, shape = drawn(6, 4).to(dtype), (6,) if neighborhood is EDGES else (6, 6)
    bias = drawn(*shape)
    expected = attend(x.double(), x.double(), x.double(), neighborhood, bias=bias.double())
    for other in (torch.float64, torch.float32, torch.float16):
        found = attend(x, x, x, neighborhood, bias=bias.to(other))
        tolerance = 0.02 if torch.finfo(other).bits == 16 or dtype == BFLOAT16 else 1e-5
        torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)


def test_layers_give_one_dtype():
    x = drawn(6, 8)
    rotary = MultiHeadAttention(8, 2, position=RotaryPosition(4))
    for layer, given in ((rotary, {"neighborhood": EDGES}), (GraphAttention(8, 8, 2), {"edges": EDGES})):
        with autocast():
            out = layer(x, **given)
        torch.testing.assert_close(out.float(), layer(x, **given), atol=0.05, rtol=0.05)
