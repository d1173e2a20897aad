"""What an index structure derives and caches stays with it: what is made from the structure does not inherit it."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from edgewise import Edges, Graph, aggregate, attend, attention_weights
from edgewise.layers.directed import onward
from edgewise.neighborhood import EdgeRows, Lengths, Relations, Types
from edgewise.neighborhood.index import cached, unchecked
from edgewise.sampling import ClusterLoader, NeighborSampler, partition

NODES = 40


def edges():
    ends = torch.randint(NODES, (2, 120), generator=torch.Generator().manual_seed(0))
    return Edges(*ends, NODES, NODES).undirected()


def read(structure):
    """The same structure, after everything that it derives and caches was read."""
    for name in ("plan", "reverse", "ranks", "looped", "members"):
        if hasattr(type(structure), name):
            getattr(structure, name)
    return structure


def samples(graph):
    for form in ("directional", "induced"):
        yield form, NeighborSampler(graph, [3, 3], form=form).sample([0, 1, 2])
    for sample in ClusterLoader(graph, partition(graph, 4), num_workers=0):
        yield "clusters", sample


def test_a_sample_does_not_depend_on_what_was_read_of_the_whole_graph():
    plain, used = Graph(None, edges()), Graph(None, read(edges()))
    for (name, expected), (_, sample) in zip(samples(plain), samples(used), strict=True):
        ours, others = sample.graph.edges, expected.graph.edges
        assert torch.equal(ours.senders, others.senders), name
        assert torch.equal(ours.reverse, others.reverse), name
        assert ours.undirected().num_edges == others.undirected().num_edges, name
        start = torch.randn(ours.num_edges, 4, generator=torch.Generator().manual_seed(1))
        assert torch.equal(onward(start, start, ours), onward(start, start, others)), name


def test_blocks_derive_their_own():
    sample = NeighborSampler(Graph(None, read(edges())), [3, 3]).sample([0, 1])
    read(sample.graph.edges)
    for block in sample.blocks():
        assert not cached(block)
        assert block.plan.receiver_offsets.shape[0] == block.num_receivers + 1
        assert block.plan.receiver_edges.shape[0] == block.num_edges


def test_weights_of_some_queries_do_not_read_what_was_derived_for_all():
    query = torch.randn(NODES, 4, generator=torch.Generator().manual_seed(0))
    some = torch.tensor([3, 7])
    expected = attention_weights(query, query, edges(), queries=some).values
    assert torch.equal(attention_weights(query, query, read(edges()), queries=some).values, expected)


def graph():
    return Graph(torch.zeros(NODES, 1), edges(), torch.zeros(edges().num_edges, 1))


def rows_with_plan():
    rows = EdgeRows(torch.tensor([0, 1, 0]), 2)
    rows.placed(Edges(torch.tensor([0, 0, 0]), torch.tensor([0, 0, 0]), 1, 1).plan)
    return rows


@pytest.mark.parametrize("make", [edges, lambda: Types(torch.tensor([1, 0, 1]), 2), rows_with_plan, graph])
def test_a_copy_with_other_fields_has_nothing_that_was_derived(make):
    structure = read(make())
    assert any(value is not None for value in cached(structure).values())
    assert not cached(unchecked(structure))


def test_index_structures_do_not_change_with_what_the_caller_holds():
    source = torch.tensor([1, 0, 1])
    ends = Edges(source, source, 2, 2)
    made = [
        (Types(source, 2), "of_row"),
        (Relations(ends, source, 2), "relation"),
        (EdgeRows(source, 2), "rows"),
        (Lengths(source), "key_lengths"),
        (ends, "senders"),
    ]
    source.fill_(2**40)
    for structure, name in made:
        assert getattr(structure, name).tolist() == [1, 0, 1], type(structure).__name__


def test_a_tracer_records_operators_not_what_kernels_write():
    edges = Edges(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 1, 1, 2, 2, 0]), 5, 5)
    nodes, others = torch.randn(2, 5, 8)
    for call in (lambda x: attend(x, x, x, edges), lambda x: aggregate(x, edges, "max")):
        traced = make_fx(call)(nodes)
        torch.testing.assert_close(traced(others), call(others))
