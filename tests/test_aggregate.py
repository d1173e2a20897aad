"""`aggregate`: the reduction without weights, against plain Python, with gradients, on every neighborhood."""

import itertools
import math

import pytest
import torch

from cases import all_neighborhoods
from edgewise import Causal, Edges, Full, Mask, SettingError, UnsupportedError, aggregate

HOWS = {"sum": math.fsum, "mean": lambda x: math.fsum(x) / len(x), "max": max, "min": min}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("backend", ["auto", "reference", "gather"])  # auto is numba wherever that does not refuse
@pytest.mark.parametrize("case", all_neighborhoods, ids=lambda case: case.name)
def test_against_plain_python(case, backend, how):
    is_list = isinstance(case.neighborhood, Edges)
    value = torch.randn(2, 3, case.num_keys, 2, dtype=torch.float64, requires_grad=True)
    edge_value = (
        torch.randn(3, case.neighborhood.num_edges, 2, dtype=torch.float64, requires_grad=True) if is_list else None
    )
    out = aggregate(value, case.neighborhood, how, edge_value=edge_value, num_queries=case.num_queries, backend=backend)
    expected = torch.zeros(2, 3, case.num_queries, 2, dtype=torch.float64)
    for member in range(2):
        for head in range(3):
            for i in range(case.num_queries):
                for d in range(2):
                    carried = [
                        value[member, head, j, d].item() + (edge_value[head, e, d].item() if is_list else 0.0)
                        for e, (r, j) in enumerate(case.pairs_of(member, head))
                        if r == i
                    ]
                    if carried:
                        expected[member, head, i, d] = HOWS[how](carried)
    torch.testing.assert_close(out.detach(), expected)
    leaves = [value, edge_value] if is_list else [value]
    gradients = torch.autograd.grad(out.sum(), leaves, materialize_grads=True)
    each = [case.pairs_of(member, head) for member in range(2) for head in range(3)]
    filled = sum(len({i for i, _ in pairs}) for pairs in each) * 2
    pairs = sum(map(len, each)) * 2
    for gradient in gradients:
        assert gradient.sum().item() == pytest.approx(pairs if how == "sum" else filled)


@pytest.mark.parametrize("case", all_neighborhoods, ids=lambda case: case.name)
def test_the_batch_axes_of_the_neighborhood_are_those_of_the_output(case):
    value, batch = torch.randn(case.num_keys, 2), case.neighborhood.batch_shape
    for how, backend in itertools.product(HOWS, ("auto", "gather", "reference")):
        out = aggregate(value, case.neighborhood, how, num_queries=case.num_queries, backend=backend)
        assert out.shape == (*batch, case.num_queries, 2)
        repeated = value.expand(*batch, *value.shape)
        expected = aggregate(repeated, case.neighborhood, how, num_queries=case.num_queries, backend="reference")
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("how", HOWS)
def test_nan_reaches_only_rows_that_aggregate_it(how):
    value = torch.tensor([[1.0], [math.nan], [3.0]])
    for neighborhood in (
        Mask(torch.tensor([[1, 0, 1], [0, 1, 1]]) == 1),
        Edges(torch.tensor([0, 2, 1, 2]), torch.tensor([0, 0, 1, 1]), 3, 2),
    ):
        out = aggregate(value, neighborhood, how)
        assert out[0].isfinite().all()
        assert out[1].isnan().all()


@pytest.mark.parametrize("how", HOWS)
def test_edge_values_with_other_batch_axes_than_the_values(how):
    edges = Edges(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 0, 1, 1]), 3, 2)
    value, edge_value = torch.randn(5, 3, 2), torch.randn(4, 2)
    together = aggregate(value, edges, how, edge_value=edge_value)
    assert together.shape == (5, 2, 2)
    for member in range(5):
        torch.testing.assert_close(together[member], aggregate(value[member], edges, how, edge_value=edge_value))
    flipped = aggregate(value[0], edges, how, edge_value=edge_value.expand(5, 4, 2))
    torch.testing.assert_close(flipped, aggregate(value[0], edges, how, edge_value=edge_value).expand(5, 2, 2))


def test_sizes_default_to_those_of_the_values():
    value = torch.randn(4, 3)
    assert aggregate(value).shape == (4, 3)
    assert aggregate(value, num_queries=1).shape == (1, 3)
    torch.testing.assert_close(aggregate(value, Causal(), "sum"), value.cumsum(0))
    torch.testing.assert_close(aggregate(value, Full(), "mean", num_queries=1), value.mean(0, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("how", HOWS)
def test_the_dtype_is_kept(how, dtype):
    value = torch.randn(3, 2, dtype=dtype)
    for neighborhood in (Full(), Full().to_edges(3)):
        assert aggregate(value, neighborhood, how).dtype == dtype


@pytest.mark.parametrize("how", HOWS)
def test_a_named_backend_must_exist_and_take_the_call(how):
    value = torch.randn(3, 2)
    with pytest.raises(SettingError, match=r"backend must be one of auto, .*, not 'fast'"):
        aggregate(value, Full(), how, backend="fast")
    with pytest.raises(UnsupportedError, match="backend 'sdpa' refuses this call"):
        aggregate(value, Full(), how, backend="sdpa")


@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("backend", ["numba", "gather"])
@pytest.mark.parametrize("listed", [True, False])
def test_values_that_tie_share_the_gradient_also_at_zero(how, backend, listed):
    """Zero is where a floor of zeros would take a share."""
    value = torch.tensor([[0.0, 2.0], [0.0, 2.0], [1.0, 1.0], [-3.0, -3.0]], requires_grad=True)
    edges = Edges(torch.tensor([0, 1, 3, 2, 0, 1]), torch.tensor([0, 0, 0, 1, 2, 2]), 4, 4)
    edge_value = torch.zeros(6, 2, requires_grad=True) if listed else None
    sign = 1.0 if how == "max" else -1.0
    out = aggregate(sign * value, edges, how, edge_value=edge_value, backend=backend)
    assert (sign * out).tolist() == [[0.0, 2.0], [1.0, 1.0], [0.0, 2.0], [0.0, 0.0]]
    gradient = torch.autograd.grad((sign * out).sum(), value, retain_graph=listed)[0]
    assert gradient.tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    if listed:
        gradient = torch.autograd.grad((sign * out).sum(), edge_value)[0]
        assert (sign * gradient[:, 0]).tolist() == [0.5, 0.5, 0.0, 1.0, 0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("backend", ["numba", "gather"])
def test_all_of_the_gradient_arrives_in_half_precision(backend, how, dtype):
    generator = torch.Generator().manual_seed(0)
    edges = Edges(torch.randint(5, (30,), generator=generator), torch.randint(4, (30,), generator=generator), 5, 4)
    value = torch.randn(5, 16, generator=generator).to(dtype).requires_grad_()
    edge_value = torch.randn(30, 16, generator=generator).to(dtype).requires_grad_()
    out = aggregate(value, edges, how, edge_value=edge_value, backend=backend)
    assert out.dtype == dtype
    for x in torch.autograd.grad(out.sum(), (value, edge_value)):
        torch.testing.assert_close(x.float().sum(0), torch.full((16,), 4.0), atol=0.05, rtol=0)
