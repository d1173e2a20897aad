"""Links as seeds: pairs that are none, edges that the model must not see, times and types."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from edgewise import DataError, Edges, Graph, SettingError, ShapeError
from edgewise.neighborhood import Types
from edgewise.sampling import LinkLoader, NeighborSampler

INDEX = np.random.default_rng(0).integers(0, 40, (2, 300))
LINKED = set(zip(*INDEX.tolist(), strict=True))


def batches(num_workers=1, **options):
    sampler = NeighborSampler(Graph.of(INDEX), [5, 5], seed=3)
    return list(LinkLoader(sampler, *INDEX[:, :100], batch_size=32, num_workers=num_workers, **options))


def test_links_come_first_and_then_pairs_that_are_none():
    found = batches(num_negatives=3, shuffle=True)
    assert sorted(torch.cat([each.input_id for each in found]).tolist()) == list(range(100))
    for each in found:
        n_id, size = each.sample.n_id, len(each.input_id)
        pairs = list(zip(n_id[each.senders].tolist(), n_id[each.receivers].tolist(), strict=True))
        assert pairs[:size] == list(zip(*INDEX[:, each.input_id].tolist(), strict=True))
        assert each.labels.tolist() == [1.0] * size + [0.0] * 3 * size
        assert [a for a, _ in pairs[size:]] == [a for a, _ in pairs[:size]] * 3
        assert all(a != b and (a, b) not in LINKED for a, b in pairs[size:])


def test_negatives_are_drawn_evenly_and_the_same_for_any_number_of_threads():
    sampler = NeighborSampler(Graph.of(np.array([[0, 1, 2], [1, 2, 6]])), [1])
    loader = LinkLoader(sampler, [0], [1], num_negatives=6000)
    (batch,) = loader
    drawn = batch.sample.n_id[batch.receivers[1:]]
    counts = np.bincount(drawn, minlength=7)
    assert counts[:2].tolist() == [0, 0]
    assert chisquare(counts[2:]).pvalue > 1e-4
    one, two = ([(b.senders.tolist(), b.sample.e_id.tolist()) for b in batches(n)] for n in (0, 2))
    assert one == two


def test_the_model_does_not_see_the_edges_that_it_predicts():
    for hide in (True, False):
        seen = 0
        for each in batches(hide=hide):
            n_id, edges = each.sample.n_id, each.sample.graph.edges
            links = each.labels == 1
            pairs = set(zip(n_id[each.senders][links].tolist(), n_id[each.receivers][links].tolist(), strict=True))
            pairs |= {(b, a) for a, b in pairs}
            there = zip(n_id[edges.senders].tolist(), n_id[edges.receivers].tolist(), strict=True)
            seen += sum(pair in pairs for pair in there)
            assert sum(each.sample.edges_per_hop) == edges.num_edges
            assert torch.equal(n_id[edges.senders], torch.from_numpy(INDEX[0])[each.sample.e_id])
        assert (seen == 0) == hide


def test_times_of_links_limit_both_ends():
    times = torch.arange(300)
    sampler = NeighborSampler(Graph.of(INDEX), [-1], edge_times=times)
    for each in LinkLoader(sampler, *INDEX, times=times, batch_size=50, num_negatives=1):
        sample, limits = each.sample, times[each.input_id].repeat(4)
        assert bool((sample.e_id < limits[sample.trees[sample.graph.edges.receivers]]).all())


def test_negatives_are_of_the_type_of_the_receiver():
    types = Types.of(["b", "a"] * 20)
    graph = Graph(None, Edges.from_edge_index(torch.from_numpy(INDEX), 40), node_types=types)
    (batch,) = LinkLoader(NeighborSampler(graph, [2]), *INDEX[:, :50], num_negatives=4)
    receivers = batch.sample.n_id[batch.receivers]
    assert torch.equal(types.of_row[receivers[50:]], types.of_row[receivers[:50]].repeat(4))


def test_an_edge_that_is_never_sampled_is_not_a_negative():
    weights = torch.tensor([1.0, 0.0, 1.0])
    graph = Graph.of(np.array([[0, 0, 3], [1, 2, 1]]))  # 0 has edges to 1 and 2
    (batch,) = LinkLoader(NeighborSampler(graph, [1], weights=weights), [0], [1], num_negatives=50)
    assert set(batch.sample.n_id[batch.receivers[1:]].tolist()) == {3}


def test_what_cannot_be_loaded_is_refused():
    full = NeighborSampler(Graph.of(np.stack([[0, 0, 0], [0, 1, 2]])), [1])
    with pytest.raises(DataError, match="no negative found for node 0 in 100 tries"):
        list(LinkLoader(full, [0], [1]))
    with pytest.raises(ShapeError, match="there are 1 senders but 2 receivers"):
        LinkLoader(full, [0], [1, 2])
    with pytest.raises(ShapeError, match="there are 1 senders but 3 times"):
        LinkLoader(full, [0], [1], times=[1, 2, 3])
    with pytest.raises(ShapeError, match="receivers must lie in 0 … 2; found 9"):
        LinkLoader(full, [0], [9])
    with pytest.raises(SettingError, match="num_negatives is -1; expected at least 0"):
        LinkLoader(full, [0], [1], num_negatives=-1)
