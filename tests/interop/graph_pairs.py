"""Graphs of every awkward kind, and what it means that two are the same."""

from functools import partial

import torch
from hypothesis import strategies as st

from edgewise import Edges, WeightedGraph

LETTERS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1)


@st.composite
def graphs(draw, *, dtypes=(torch.float32, torch.float64), names=LETTERS, max_heads=3):
    """What makes a graph: parallel edges, loops, nodes without edges, some heads, with names and features or not.

    The graph itself is made by the test: the checker of types looks at random places, which a strategy must not.
    """
    size, num_heads = draw(st.integers(1, 6)), draw(st.integers(1, max_heads))
    node = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(node, node), min_size=1, max_size=9))
    dtype = draw(st.sampled_from(dtypes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    senders, receivers = torch.tensor(pairs).T
    features = torch.randn(size, draw(st.integers(1, 3)), generator=generator, dtype=dtype)
    called = draw(st.none() | st.lists(names, min_size=size, max_size=size, unique=True).map(tuple))
    if called == tuple(map(str, range(size))):
        called = None
    return partial(
        WeightedGraph,
        Edges(senders, receivers, size, size),
        torch.randn(len(pairs), num_heads, generator=generator, dtype=dtype),
        draw(st.sampled_from([None, features])),
        called,
    )


def check_same(one, other, *, nodes=True):
    """Everything is the same, in the same order, bit for bit."""
    assert torch.equal(one.edges.senders, other.edges.senders)
    assert torch.equal(one.edges.receivers, other.edges.receivers)
    assert one.edges.senders.dtype == other.edges.senders.dtype == torch.int64
    assert (one.edges.num_senders, one.edges.num_receivers) == (other.edges.num_senders, other.edges.num_receivers)
    assert one.edge_features.dtype == other.edge_features.dtype
    assert torch.equal(one.edge_features, other.edge_features)
    if not nodes:
        return
    assert one.names == other.names
    assert (one.node_features is None) == (other.node_features is None)
    if one.node_features is not None:
        assert one.node_features.dtype == other.node_features.dtype
        assert torch.equal(one.node_features, other.node_features)
