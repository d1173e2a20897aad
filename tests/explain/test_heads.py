"""What heads do, in numbers, by hand; and the strongest weights as attention itself would have recorded them."""

import math

import numpy as np
import pytest
import torch

from edgewise import Causal, Edges, SettingError, ShapeError, Trace, Weights, attention_weights
from edgewise.explain.heads import averaged, effective_neighbors, entropy, mean_distance, strongest, to_layer


def weights_of(values, senders, receivers, size):
    return Weights(torch.tensor(senders), torch.tensor(receivers), torch.tensor(values), size, size)


CHAIN = weights_of([[1.0, 0.5, 0.5], [1.0, 1.0, 0.0]], [0, 0, 2], [0, 2, 2], 3)
"""Node 0 attends to itself; node 2 to 0 and itself, evenly in the first head; node 1 to no node."""


def test_by_hand():
    # Node 1 attends to nothing, and is not among those that the mean is over.
    assert entropy(CHAIN).tolist() == pytest.approx([math.log(2) / 2, 0])
    assert effective_neighbors(CHAIN).tolist() == pytest.approx([1.5, 1])
    assert mean_distance(CHAIN).tolist() == pytest.approx([0.5, 1])
    hops = torch.tensor([0.0, 3.0, 0.0])
    assert mean_distance(CHAIN, hops).tolist() == pytest.approx([0.75, 1.5])
    mean = averaged([CHAIN])
    assert mean.to_dense().tolist() == [[1, 0, 0], [0, 0, 0], [0.75, 0, 0.25]]


def test_weights_that_are_no_shares_are_taken_as_parts_of_their_sum():
    twice = Weights(CHAIN.senders, CHAIN.receivers, 2 * CHAIN.values, 3, 3)
    for number in (entropy, effective_neighbors, mean_distance):
        torch.testing.assert_close(number(twice), number(CHAIN))


def test_even_attention_over_n_has_entropy_ln_n():
    even = attention_weights(torch.zeros(2, 5, 4), torch.zeros(2, 5, 4))
    assert entropy(even).tolist() == pytest.approx([math.log(5)] * 2)
    assert effective_neighbors(even).tolist() == pytest.approx([5.0] * 2)
    assert mean_distance(even).tolist() == pytest.approx([1.6] * 2)


@pytest.mark.parametrize("top", [1, 3, 50])
def test_the_strongest_of_all_are_those_that_attention_records(top):
    torch.manual_seed(0)
    query, key = torch.randn(3, 9, 4), torch.randn(3, 9, 4)
    for neighborhood in (Causal(), Edges(torch.arange(27) % 9, torch.arange(27) * 5 % 9, 9, 9)):
        found = strongest(attention_weights(query, key, neighborhood), top)
        expected = attention_weights(query, key, neighborhood, top=top)
        if isinstance(neighborhood, Edges):
            torch.testing.assert_close(found.receivers, expected.receivers)
            torch.testing.assert_close(found.values, expected.values)
        torch.testing.assert_close(found.to_dense(), expected.to_dense())
        torch.testing.assert_close(averaged([found]).to_dense(), averaged([expected]).to_dense())


def test_the_mean_over_layers_and_heads_is_that_of_the_tables():
    torch.manual_seed(0)
    trace = Trace()
    for neighborhood in (Causal(), Edges(torch.tensor([0, 1, 1]), torch.tensor([2, 3, 3]), 4, 4)):
        trace.record(attention_weights(torch.randn(2, 4, 3), torch.randn(2, 4, 3), neighborhood))
    expected = torch.stack([weights.to_dense().mean(0) for weights in trace.weights]).mean(0)
    torch.testing.assert_close(averaged(trace).to_dense(), expected)


def test_a_layer_is_numpy_and_heads_that_keep_different_senders_share_a_list():
    layer = to_layer(CHAIN, "layer 1")
    assert (layer.senders.tolist(), layer.receivers.tolist(), layer.top) == ([0, 0, 2], [0, 2, 2], None)
    np.testing.assert_array_equal(layer.values, CHAIN.values.numpy())
    cut = to_layer(weights_of([[0.4, 0.6], [0.7, 0.3]], [0, 1], [1, 1], 2), "layer 2", top=1)
    assert (cut.senders.tolist(), cut.receivers.tolist(), cut.top) == ([0, 1], [1, 1], 1)
    np.testing.assert_allclose(cut.values, [[0, 0.6], [0.7, 0]])
    grouped = Weights(CHAIN.senders, CHAIN.receivers, torch.rand(2, 2, 3), 3, 3)
    assert to_layer(grouped, "layer 3").values.shape == (4, 3)


def test_what_is_refused():
    top = strongest(CHAIN, 1)
    with pytest.raises(ShapeError, match="entropy: only the strongest weights were recorded"):
        entropy(top)
    with pytest.raises(ShapeError, match="effective_neighbors: some weights are negative or NaN"):
        effective_neighbors(weights_of([[-1.0]], [0], [0], 1))
    with pytest.raises(ShapeError, match=r"lengths is \(2,\), expected \(3,\)"):
        mean_distance(CHAIN, torch.zeros(2))
    with pytest.raises(SettingError, match="top must be a whole number of at least 1, not 0"):
        strongest(CHAIN, 0)
    with pytest.raises(ShapeError, match="averaged: the trace is empty"):
        averaged(Trace())
    with pytest.raises(ShapeError, match="layer 1 goes from 3 senders to 1 receiver, but layer 0 from 3 to 3"):
        averaged([CHAIN, Weights(CHAIN.senders, torch.zeros(3, dtype=torch.int64), CHAIN.values, 3, 1)])
