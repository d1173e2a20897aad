"""How large the largest tensor is that a call makes, forward and backward."""

from functools import partial

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edgewise import Additive, Causal, Distance, Edges, Full, Sparsemax, aggregate, attend, attention_weights
from edgewise.backends import gather


class LargestTensor(TorchDispatchMode):
    """Sees every tensor that comes into being, also in the backward pass."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in given:
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.element_size())
        return out


class MostNumbers(TorchDispatchMode):
    """How many numbers there are at the same time, of those that come into being."""

    def __init__(self):
        super().__init__()
        self.living, self.numbers = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and (key := x.untyped_storage()._cdata) not in given:
                storage = x.untyped_storage()
                self.living[key] = StorageWeakRef(storage), storage.nbytes() // x.element_size()
        self.living = {key: kept for key, kept in self.living.items() if not kept[0].expired()}
        self.numbers = max(self.numbers, sum(numbers for _, numbers in self.living.values()))
        return out


def largest_tensor(run, leaves):
    with LargestTensor() as seen:
        torch.autograd.grad(run().sum(), leaves)
    return seen.numbers


@pytest.mark.parametrize("neighborhood", [Full(), Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("kind", ["additive", "distance"])
def test_a_pairwise_score_over_everyone_holds_one_slice_at_a_time(neighborhood, kind):
    num_nodes, dim = 2048, 8
    query, key, value = (torch.randn(num_nodes, dim, requires_grad=True) for _ in range(3))
    score = Additive(torch.randn(dim)) if kind == "additive" else Distance("laplacian")
    numbers = largest_tensor(
        lambda: attend(query, key, value, neighborhood, score=score, backend="gather"), [query, key, value]
    )
    assert numbers <= gather.SLICE
    assert numbers < num_nodes * num_nodes * dim / 7


def test_the_rule_holds_for_batches_of_every_tensor_and_of_the_fields(monkeypatch):
    monkeypatch.setattr(gather, "SLICE", 20_000)
    query, key, value = (torch.randn(n, 4, requires_grad=True) for n in (100, 90, 90))
    heads = 8
    for options in (
        {"score": Additive(torch.randn(heads, 4))},
        {"score": Additive(torch.randn(4)), "bias": torch.randn(heads, 100, 1)},
        {"score": Additive(torch.randn(heads, 4)), "normalize": Sparsemax()},
    ):
        assert (
            largest_tensor(lambda o=options: attend(query, key, value, **o, backend="gather"), [query, value]) <= 20_000
        )
    many = torch.randn(heads, 90, 4, requires_grad=True)
    assert (
        largest_tensor(lambda: attend(query, many, value, score=Distance(), backend="gather"), [query, many]) <= 20_000
    )


@pytest.mark.parametrize("edge_batch", [(), (8,)])
def test_edges_hold_one_slice_of_gathered_features(monkeypatch, edge_batch):
    monkeypatch.setattr(gather, "SLICE", 20_000)
    num_edges, num_nodes, heads, dim = 3000, 50, 8, 6
    ends = torch.randint(num_nodes, (2, num_edges))
    edges = Edges(*ends, num_nodes, num_nodes)
    query, key, value = (torch.randn(heads, num_nodes, dim, requires_grad=True) for _ in range(3))
    edge_key = torch.randn(*edge_batch, num_edges, dim)
    numbers = largest_tensor(
        lambda: attend(query, key, value, edges, score=Additive(torch.randn(dim)), edge_key=edge_key, backend="gather"),
        [query, key, value],
    )
    assert numbers <= num_edges * heads
    if edge_batch:
        one = [x[0].detach().requires_grad_() for x in (query, key, value)]
        numbers = largest_tensor(lambda: attend(*one, edges, edge_key=edge_key, backend="gather"), one)
        assert numbers <= num_edges * heads


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("carries", [False, True])
def test_edges_are_added_up_in_a_few_tables_of_nodes(monkeypatch, learns, carries):
    monkeypatch.setattr(gather, "SLICE", 100)
    num_nodes, heads, dim, parts = 100, 2, 32, 40
    num_edges, table = parts * num_nodes, num_nodes * heads * dim
    edges = Edges(*torch.randint(num_nodes, (2, num_edges)), num_nodes, num_nodes)
    leaves = [torch.randn(heads, num_nodes, dim, requires_grad=learns) for _ in range(3)]
    more = {"edge_key": torch.randn(1, num_edges, dim), "edge_value": torch.randn(1, num_edges, dim)} if carries else {}
    with MostNumbers() as seen, torch.set_grad_enabled(learns):
        out = attend(*leaves, edges, backend="gather", **more)
        found = torch.autograd.grad(out.square().sum(), leaves) if learns else ()
    # Scores, weights and what a softmax makes between them are a number an edge and head.
    assert seen.numbers < 12 * table + 12 * num_edges * heads
    monkeypatch.undo()
    whole = attend(*leaves, edges, backend="gather", **more)
    torch.testing.assert_close(out, whole, rtol=1e-5, atol=1e-5)
    expected = torch.autograd.grad(whole.square().sum(), leaves) if learns else ()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["max", "min"])
def test_the_largest_over_edges_is_found_some_features_at_a_time(monkeypatch, how):
    num_nodes, num_edges, heads, dim = 20, 400, 4, 64
    edges = Edges(*torch.randint(num_nodes, (2, num_edges)), num_nodes, num_nodes)
    value, edge_value = torch.randint(3, (heads, num_nodes, dim)).float(), torch.randn(1, num_edges, dim)
    value.requires_grad_()
    for more in ({}, {"edge_value": edge_value}):  # without them many share the largest, and its gradient
        run = partial(aggregate, value, edges, how, backend="gather", **more)
        expected = run(), *torch.autograd.grad(run().square().sum(), [value])
        monkeypatch.setattr(gather, "SLICE", 3 * num_edges * heads)
        with MostNumbers() as seen:
            found = run(), *torch.autograd.grad(run().square().sum(), [value])
        assert seen.numbers < 1.25 * num_edges * heads * dim
        monkeypatch.undo()
        for one, other in zip(found, expected):
            assert torch.equal(one, other)


@pytest.mark.parametrize("how", ["max", "sum"])
def test_aggregation_over_everyone_holds_one_slice(how):
    value = torch.randn(2048, 8, requires_grad=True)
    assert largest_tensor(lambda: aggregate(value, Full(), how), [value]) <= gather.SLICE


def test_the_strongest_weights_hold_one_slice():
    query, key = torch.randn(6000, 4), torch.randn(6000, 4)
    with LargestTensor() as seen, torch.no_grad():
        attention_weights(query, key, top=2)
    assert seen.numbers <= gather.SLICE
