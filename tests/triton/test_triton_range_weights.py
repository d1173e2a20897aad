"""The strongest weights over runs of keys: what the reference sums with, found while the kernels walk over the keys."""

import pytest
import torch
from torch import Tensor
from triton_cases import DEVICE, NORMALIZERS, SCORES

import edgewise.backends.triton as backend
from edgewise import (
    Additive,
    Causal,
    Dot,
    Full,
    Hardmax,
    Identity,
    Lengths,
    Mean,
    Segments,
    Weights,
    Window,
    attention_weights,
)
from edgewise.backends import weigh
from edgewise.backends.triton.ranges import layout

HEADS, QUERIES, KEYS, KEY_DIM = 2, 19, 21, 5
NEIGHBORHOODS = {
    "full": Full(),
    "causal": Causal(),
    "causal_start": Causal("start"),
    "lengths": Lengths(torch.tensor([[7], [0]]), torch.tensor([[19], [4]])),
    "lengths_of_some": Lengths(torch.tensor([[3], [17]])),
    "causal_segments": Causal() & Segments(torch.tensor([0, 3, 3, 19]), torch.tensor([0, 5, 9, 21])),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of queries and of keys in small problems."""
    monkeypatch.setattr(layout, "BLOCK", 16)


@pytest.fixture
def only_kernels(monkeypatch):
    """Blocks weigh what is float64, and nothing else."""
    table = weigh._weigh_table

    def exact(call, *rest):
        assert call.query.dtype == torch.float64
        return table(call, *rest)

    monkeypatch.setattr(weigh, "_weigh_table", exact)


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def arguments(score="scaled", normalizer="softmax", dtype=torch.float64, device="cpu", members=(HEADS,)):
    """Of a call whose scores all differ."""
    given = {
        "query": numbers(*members, QUERIES, KEY_DIM, seed=1),
        "key": numbers(*members, KEYS, KEY_DIM, seed=2),
        "bias": numbers(HEADS, QUERIES, KEYS, seed=3),
        "vector": numbers(HEADS, KEY_DIM, seed=4),
        "other": numbers(HEADS, KEY_DIM, seed=5),
        "matrix": numbers(HEADS, KEY_DIM, KEY_DIM, seed=6),
        "positive": numbers(HEADS, seed=7).abs() + 0.5,
    }
    at = {name: x.to(device, dtype) for name, x in given.items()}
    shown = {name: at[name] for name in ("query", "key", "bias")}
    return shown | {"score": SCORES[score](at), "normalize": NORMALIZERS[normalizer](at)}


def both(neighborhood, top, members=(HEADS,), **options):
    """All weights in float64 as a table, the strongest of these in a list, and the strongest as kernels find them."""
    chosen = {"queries": options.pop("queries", None)}
    exact = arguments(**options, members=members)
    table = attention_weights(neighborhood=neighborhood, **exact, **chosen).to_dense()
    wanted = attention_weights(neighborhood=neighborhood, top=top, **exact, **chosen)
    given = arguments(**options, members=members, dtype=torch.float32, device=DEVICE)
    found = attention_weights(neighborhood=neighborhood.to(DEVICE), top=top, **given, **chosen)
    return table, wanted, on_the_cpu(found)


def on_the_cpu(weights: Weights) -> Weights:
    moved = (x.cpu() for x in (weights.senders, weights.receivers, weights.values))
    return Weights(*moved, weights.num_senders, weights.num_receivers)


def assert_strongest(table: Tensor, wanted: Weights, found: Weights) -> None:
    """The same slots with the same values, each the weight of the pair it names, no pair twice."""
    assert torch.equal(found.receivers, wanted.receivers)
    assert found.values.shape == wanted.values.shape == found.senders.shape
    assert (found.values - wanted.values).abs().max() <= 1e-5
    cells = table.flatten(-2).gather(-1, found.receivers * KEYS + found.senders)
    assert (found.values - torch.where(found.values == 0, 0.0, cells)).abs().max() <= 1e-5
    for values, senders in zip(found.values.flatten(0, -2), found.senders.flatten(0, -2)):
        pairs = (found.receivers * KEYS + senders)[values != 0]
        assert len(pairs.unique()) == len(pairs)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("score", SCORES)
def test_scores_are_those_of_the_reference(score):
    assert_strongest(*both(Window(6, 3), 3, score=score))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalizers_are_those_of_the_reference(normalizer):
    assert_strongest(*both(Window(6, 3), 4, normalizer=normalizer))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_neighborhoods_are_those_of_the_reference(name):
    members = (2, HEADS) if isinstance(NEIGHBORHOODS[name], Lengths) else (HEADS,)
    table, wanted, found = both(NEIGHBORHOODS[name], 5, members=members)
    assert_strongest(table, wanted, found)
    assert torch.equal(found.senders, wanted.senders)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("top", [1, 17, 1000, *(pytest.param(top, marks=pytest.mark.nightly) for top in (2, 16, 64))])
def test_as_many_weights_as_requested(top):
    assert_strongest(*both(Full(), top, score="tanh"))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("queries", [[17, 3, 3], []])
def test_chosen_queries_are_the_requested_rows(queries):
    table, wanted, found = both(Causal(), 3, queries=queries)
    assert sorted(set(found.receivers.tolist())) == sorted(set(queries))
    if queries:
        assert_strongest(table, wanted, found)


def test_of_equal_weights_the_smallest_key_is_first():
    query = torch.ones(1, 1, device=DEVICE)
    key = torch.tensor([1.0, 3.0, -0.0, 3.0, 0.0, 2.0, 3.0], device=DEVICE).unsqueeze(-1)
    for normalize, senders, values in [
        (Identity(), [1, 3, 6, 5, 0, 2, 4], [3.0, 3.0, 3.0, 2.0, 1.0, 0.0, 0.0]),
        (Hardmax(), [1, 3, 6, 5, 0, 2, 4], [1 / 3, 1 / 3, 1 / 3, 0.0, 0.0, 0.0, 0.0]),
        (Mean(), [0, 1, 2, 3, 4, 5, 6], [1 / 7] * 7),
    ]:
        found = attention_weights(query, key, score=Dot(), normalize=normalize, top=8)
        assert found.senders.tolist() == senders
        assert found.values.tolist() == pytest.approx(values)
    found = attention_weights(-query, key, score=Dot(), normalize=Identity(), top=2, queries=[0])
    assert (found.senders.tolist(), found.values.tolist()) == ([2, 4], [0.0, 0.0])


def test_a_neighbor_of_no_weight_is_a_neighbor():
    query, key = torch.zeros(2, 1, device=DEVICE), torch.zeros(3, 1, device=DEVICE)
    bias = torch.tensor([[-torch.inf, 0.0, -torch.inf], [-torch.inf] * 3], device=DEVICE)
    found = attention_weights(query, key, bias=bias, top=2)
    assert found.receivers.tolist() == [0, 0, 1, 1]
    assert found.senders.tolist() == [1, 0, 0, 1]
    assert found.values.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_what_is_broken_stands_first_in_the_rows_that_see_it():
    query, key = (numbers(HEADS, 9, 4, seed=seed).float().to(DEVICE) for seed in (1, 2))
    spoiled = key.clone()
    spoiled[:, 5:] = torch.nan
    whole, broken = (
        attention_weights(query, x, Causal(), score=Dot(), normalize=Identity(), top=3) for x in (key, spoiled)
    )
    before = whole.receivers < 5
    assert torch.equal(broken.senders[:, before], whole.senders[:, before])
    assert torch.equal(broken.values[:, before], whole.values[:, before])
    assert broken.values[:, broken.receivers == 6].isnan().tolist() == [[True, True, False]] * HEADS
    assert broken.senders[:, broken.receivers == 6][:, :2].tolist() == [[5, 6]] * HEADS


def test_half_precision_keeps_its_dtype():
    given = arguments(dtype=torch.bfloat16, device=DEVICE)
    found = attention_weights(neighborhood=Causal(), top=3, **given)
    exact = attention_weights(
        given["query"].double(), given["key"].double(), Causal(), bias=given["bias"].double(), top=3
    )
    assert found.values.dtype == torch.bfloat16
    assert (found.values.double() - exact.values).abs().max() < 2**-8


def test_weights_that_are_learned_from_have_gradients():
    given = arguments("tanh", dtype=torch.float32, device=DEVICE)
    vector = given.pop("score").vector.requires_grad_()
    weights = attention_weights(**given, score=Additive(vector), top=2)
    assert torch.autograd.grad(weights.values.square().sum(), vector)[0].abs().sum() > 0


def test_more_than_registers_hold_are_found_in_blocks(monkeypatch):
    monkeypatch.setattr(backend, "MAX_TOP", 4)
    monkeypatch.setattr(backend, "strongest", None)
    assert_strongest(*both(Causal(), 5))
