"""PyTorch Geometric's `edge_index` handed to the operator and to layers is the list of edges that it is."""

import pytest
import torch

from edgewise import Edges, ShapeError, aggregate, attend, attention_weights, why

INDEX = torch.tensor([[0, 1, 2, 2, 5], [1, 1, 0, 3, 0]])
EDGES = Edges.from_edge_index(INDEX, 6)


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_operator_takes_it():
    x = drawn(6, 4)
    for index in (INDEX, INDEX.to(torch.int32)):
        assert torch.equal(attend(x, x, x, index), attend(x, x, x, EDGES))
    assert torch.equal(attend(drawn(2, 6, 4), x, x, INDEX), attend(drawn(2, 6, 4), x, x, EDGES))
    assert torch.equal(attention_weights(x, x, INDEX).values, attention_weights(x, x, EDGES).values)
    for how in ("sum", "mean", "max", "min"):
        assert torch.equal(aggregate(x, INDEX, how), aggregate(x, EDGES, how))
    assert why(x, x, x, INDEX) == why(x, x, x, EDGES)


def test_two_sets_of_nodes():
    """Sources are keys, targets queries; each has its own size."""
    query, key, bipartite = drawn(4, 2), drawn(6, 2), Edges.from_edge_index(INDEX, (6, 4))
    assert torch.equal(attend(query, key, key, INDEX), attend(query, key, key, bipartite))
    assert torch.equal(aggregate(key, INDEX, num_queries=4), aggregate(key, bipartite))
    with pytest.raises(ShapeError, match=r"senders must lie in 0 … 3; found 5"):
        attend(key, query, query, INDEX)


def test_no_edges():
    assert not attend(drawn(3, 2), drawn(3, 2), drawn(3, 2), INDEX[:, :0]).any()
