"""Recorded weights in Hugging Face's form."""

import pytest
import torch

from edgewise import Causal, Edges, MultiHeadAttention, ShapeError, Softmax, Trace, attention_weights
from edgewise.interop.attentions import attentions
from edgewise.layers import EquivariantLayer, RecurrentDecoder


@pytest.mark.parametrize("num_key_heads", [2, 1])
def test_one_table_a_layer(num_key_heads):
    attention, trace = MultiHeadAttention(8, 2, num_key_heads=num_key_heads), Trace()
    for _ in range(3):
        attention(torch.randn(4, 5, 8), neighborhood=Causal(), trace=trace)
    found = attentions(trace)
    assert [table.shape for table in found] == [(4, 2, 5, 5)] * 3
    torch.testing.assert_close(found[0].sum(-1), torch.ones(4, 2, 5))
    assert (found[0].triu(1) == 0).all()


def test_a_batch_of_one_where_there_is_none():
    trace = Trace()
    MultiHeadAttention(8, 2)(torch.randn(5, 8), trace=trace)
    assert attentions(trace)[0].shape == (1, 2, 5, 5)


def test_layers_without_heads_have_one():
    """Members of a batch were taken for heads."""
    x, edges, trace = torch.randn(3, 4, 8), Edges(torch.tensor([0, 1, 1]), torch.tensor([1, 2, 3]), 4, 4), Trace()
    EquivariantLayer(8, normalize=Softmax())(x, x[..., :3], edges, trace=trace)
    RecurrentDecoder(8, 8, score="dot", input_feeding=False)(x, torch.randn(3, 5, 8), trace=trace)
    assert [table.shape for table in attentions(trace)] == [(3, 1, 4, 4), (3, 1, 4, 5)]


def test_weights_without_heads():
    trace = Trace()
    trace.record(attention_weights(torch.eye(3), torch.eye(3)))
    with pytest.raises(ShapeError, match="not 2 axes"):
        attentions(trace)
