"""Attention rollout: the product of the layers, over lists and over tables, and what it refuses."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgewise import Causal, Edges, MultiHeadAttention, SettingError, ShapeError, Trace, Weights, attention_weights
from edgewise.explain import rollout as module
from edgewise.explain.rollout import rollout

WAYS = pytest.mark.parametrize("dense", [0, 10**9], ids=["lists", "tables"])
"""From which share of pairs on tables are multiplied: never, and always."""


def weights_of(senders, receivers, values, size):
    return Weights(torch.tensor(senders), torch.tensor(receivers), torch.as_tensor(values), size, size)


def random_layers(seed, size, num_edges, num_layers=3, batch=(2,), num_heads=3):
    """Layers with parallel edges, loops and nodes that attend to nothing, as they come."""
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for _ in range(num_layers):
        senders, receivers = torch.randint(0, size, (2, num_edges), generator=generator)
        values = torch.rand(*batch, num_heads, num_edges, generator=generator, dtype=torch.float64)
        layers.append(Weights(senders, receivers, values, size, size))
    return layers


def by_tables(layers, heads="mean", residual=0.5):
    """The oracle: the equation, on tables."""
    total = None
    for layer in layers:
        table = layer.to_dense()
        table = {"mean": table.mean(-3), "max": table.amax(-3), "min": table.amin(-3)}[heads]
        table = residual * torch.eye(layer.num_senders, dtype=table.dtype) + (1 - residual) * table
        rows = table.sum(-1, keepdim=True)
        table = torch.where(rows > 0, table / rows, 0)
        total = table if total is None else table @ total
    return total


def in_ways(monkeypatch, dense, size=module.MAX_PATHS):
    monkeypatch.setattr(module, "DENSE_RATIO", dense)
    monkeypatch.setattr(module, "MAX_PATHS", size)


@WAYS
def test_two_layers_by_hand(dense, monkeypatch):
    in_ways(monkeypatch, dense)
    # Layer 0: node 1 looks at 0, node 2 at 0 and 1 alike. Layer 1: node 2 looks at 1; node 1 at itself.
    first = weights_of([0, 0, 1], [1, 2, 2], [1.0, 0.5, 0.5], 3)
    second = weights_of([1, 1], [2, 1], [1.0, 1.0], 3)
    # A'_0 = [[1,0,0],[½,½,0],[¼,¼,½]],  A'_1 = [[1,0,0],[0,1,0],[0,½,½]],  R = A'_1 A'_0
    found = rollout([first, second])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.375, 0.375, 0.25]])
    torch.testing.assert_close(found.to_dense(), expected)
    assert (found.receivers.tolist(), found.senders.tolist()) == ([0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2])
    other = rollout([second, first]).to_dense()
    assert not torch.allclose(other, expected), "the order of the layers matters"


@WAYS
@pytest.mark.parametrize("heads", ["mean", "max", "min"])
@given(seed=st.integers(0, 10**6), size=st.integers(1, 8), num_edges=st.integers(0, 25))
def test_it_is_the_product_of_tables(dense, heads, seed, size, num_edges):
    with pytest.MonkeyPatch.context() as patch:
        in_ways(patch, dense, size=7)
        layers = random_layers(seed, size, num_edges)
        for residual in (0.5, 0.1, 0.0):
            found = rollout(layers, heads=heads, residual=residual)
            table = by_tables(layers, heads, residual)
            torch.testing.assert_close(found.to_dense(), table)
            pairs = list(zip(found.receivers.tolist(), found.senders.tolist()))
            assert pairs == [tuple(pair) for pair in (table != 0).any(0).nonzero().tolist()]
            if residual:
                torch.testing.assert_close(found.to_dense().sum(-1), torch.ones(2, size, dtype=torch.float64))
        for queries in ([size - 1, 0, 0], torch.tensor([0]), []):
            some = rollout(layers, heads=heads, queries=queries)
            chosen = sorted(set(torch.as_tensor(queries).tolist()))
            expected = torch.zeros(2, size, size, dtype=torch.float64)
            expected[:, chosen] = by_tables(layers, heads)[:, chosen]
            torch.testing.assert_close(some.to_dense(), expected)


@WAYS
def test_gradients_reach_the_weights_of_every_layer(dense, monkeypatch):
    in_ways(monkeypatch, dense, size=7)
    layers = random_layers(0, 5, 12)
    values = [layer.values.requires_grad_() for layer in layers]
    picture = torch.rand(2, 5, 5, dtype=torch.float64)
    found = torch.autograd.grad((rollout(layers).to_dense() * picture).sum(), values)
    expected = torch.autograd.grad((by_tables(layers) * picture).sum(), values)
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs)


@WAYS
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_k_layers_reach_k_hops_and_no_further(dense, num_layers, monkeypatch):
    in_ways(monkeypatch, dense)
    size = 7
    nodes = torch.arange(size)
    ring = Edges(nodes, (nodes + 1) % size, size, size)  # each attends to the one before
    x = torch.randn(size, 8)
    trace, layer = Trace(), MultiHeadAttention(8, 2)
    for _ in range(num_layers):
        layer(x, neighborhood=ring, trace=trace)
    found = rollout(trace)
    reached = {(i, (i - hop) % size) for i in range(size) for hop in range(num_layers + 1)}
    assert set(zip(found.receivers.tolist(), found.senders.tolist())) == reached


@WAYS
def test_a_causal_model_does_not_depend_on_later_tokens(dense, monkeypatch):
    in_ways(monkeypatch, dense)
    trace, layer = Trace(), MultiHeadAttention(8, 2)
    for _ in range(3):
        layer(torch.randn(4, 6, 8), neighborhood=Causal(), trace=trace)
    found = rollout(trace)
    assert found.values.shape == (4, 21)
    assert bool((found.senders <= found.receivers).all())
    torch.testing.assert_close(found.to_dense().sum(-1), torch.ones(4, 6))
    assert found.to_graph().edge_features.shape == (21, 4)


@WAYS
def test_a_node_that_attends_to_nothing(dense, monkeypatch):
    in_ways(monkeypatch, dense)
    chain = weights_of([0, 1], [1, 2], [1.0, 1.0], 3)  # node 0 attends to nothing
    torch.testing.assert_close(rollout([chain]).to_dense()[0], torch.tensor([1.0, 0.0, 0.0]))
    bare = rollout([chain, chain], residual=0.0)
    assert (bare.receivers.tolist(), bare.senders.tolist(), bare.values.tolist()) == ([2], [0], [1.0])


def test_one_layer_without_heads_is_its_weights_and_itself():
    attention = attention_weights(torch.randn(5, 4), torch.randn(5, 4))
    expected = 0.5 * attention.to_dense() + 0.5 * torch.eye(5)
    torch.testing.assert_close(rollout([attention]).to_dense(), expected)
    torch.testing.assert_close(rollout([attention], residual=0.0).to_dense(), attention.to_dense())


def test_layers_may_have_other_numbers_of_heads():
    one, other = random_layers(1, 4, 9, 1, num_heads=2)[0], random_layers(2, 4, 9, 1, num_heads=1)[0]
    torch.testing.assert_close(rollout([one, other]).to_dense(), by_tables([one, other]))


def test_weights_that_are_no_shares_become_shares():
    found = rollout([weights_of([1, 1], [0, 1], [3.0, 0.0], 2)])
    torch.testing.assert_close(found.to_dense(), torch.tensor([[0.25, 0.75], [0.0, 1.0]]))


@WAYS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype(dense, dtype, monkeypatch):
    in_ways(monkeypatch, dense)
    layers = random_layers(3, 5, 12)
    half = [Weights(x.senders, x.receivers, x.values.to(dtype), 5, 5) for x in layers]
    found = rollout(half)
    assert found.values.dtype == dtype
    torch.testing.assert_close(found.to_dense().double(), by_tables(layers), atol=2e-2, rtol=2e-2)


def test_no_nodes_and_an_empty_batch():
    nobody = torch.zeros(0, dtype=torch.int64)
    nothing = Weights(nobody, nobody, torch.zeros(0), 0, 0)
    assert rollout([nothing, nothing]).to_dense().shape == (0, 0)
    layers = random_layers(0, 4, 6, batch=(0,))
    assert rollout(layers).to_dense().shape == (0, 4, 4)


def test_a_large_graph_needs_no_table():
    size = 300_000  # a table would take 360 GB
    ring = Weights(torch.arange(size), (torch.arange(size) + 1) % size, torch.ones(2, size), size, size)
    found = rollout([ring, ring, ring], queries=[5])
    assert (found.senders.tolist(), found.values.tolist()) == ([2, 3, 4, 5], [0.125, 0.375, 0.375, 0.125])
    assert rollout([ring, ring]).values.shape == (3 * size,)


def test_what_is_refused():
    layer = random_layers(0, 4, 6, 1)[0]
    cross = attention_weights(torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8))
    other = random_layers(0, 5, 6, 1)[0]
    batch = random_layers(0, 4, 6, 1, batch=(3,))[0]
    top = attention_weights(torch.randn(2, 3, 4, 8), torch.randn(2, 3, 4, 8), top=2)
    cases = {
        "the trace is empty; a model records weights with model(batch, trace=trace).": [],
        "layer 1 (of 0 … 1) goes from 5 senders to 4 receivers, as cross-attention and readouts do": [layer, cross],
        "layer 1 (of 0 … 1) is among 5 nodes, but layer 0 among 4": [layer, other],
        "layer 2 (of 0 … 2) has batch axes (3,) before its heads, but layer 0 has (2,).": [layer, layer, batch],
        "layer 0 (of 0 … 0) holds only its strongest weights (top=…); record all of them.": [top],
        "layer 0 (of 0 … 0) has weights that are negative or NaN": [weights_of([0], [1], [-0.1], 2)],
        "layer 0 (of 0 … 0) has weights that are negative or NaN, which": [weights_of([0], [1], [float("nan")], 2)],
    }
    for message, layers in cases.items():
        with pytest.raises(ShapeError, match=re.escape(f"rollout: {message}")):
            rollout(layers)
    with pytest.raises(ShapeError, match="queries has 4; expected 0 … 3"):
        rollout([layer], queries=[4])
    with pytest.raises(ShapeError, match="the trace is empty"):
        rollout(Trace())
    for part in ({"top": 2}, {"queries": [1]}):
        with pytest.raises(SettingError, match=rf"recorded only a part of the weights \({next(iter(part))}=…\)"):
            rollout(Trace(**part, weights=[layer]))
    for residual in (-0.1, 1.0, float("nan")):
        with pytest.raises(SettingError, match="expected at least 0 and below 1"):
            rollout([layer], residual=residual)


def test_heads_that_there_are_not(shapes_unchecked):
    with pytest.raises(SettingError, match="heads must be 'mean', 'max' or 'min', not 'sum'"):
        rollout(random_layers(0, 4, 6), heads="sum")
