"""Samples of neighborhoods: their form, their statistics against plain enumeration, and what is refused."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from edgewise import DataError, Edges, Graph, SettingError, ShapeError, attend
from edgewise.neighborhood import Types, plan
from edgewise.sampling import NeighborSampler
from edgewise.sampling.incoming import Incoming

COPIES = 4000
UNLIKELY = 1e-4
WEIGHTS = np.array([1.0, 2.0, 3.0, 0.5, 6.0, 0.0])


def stars(num_leaves):
    """Many nodes, each with its own leaves: so many independent draws in one sample."""
    receivers = np.repeat(np.arange(COPIES), num_leaves)
    senders = COPIES + np.arange(COPIES * num_leaves)
    return Graph.of(np.stack([senders, receivers]))


def draws(sample, num_leaves):
    """The leaves that each star sampled, by their number in it."""
    of_star = [[] for _ in range(COPIES)]
    for receiver, edge in zip(sample.graph.edges.receivers.tolist(), sample.e_id.tolist(), strict=True):
        of_star[receiver].append(edge % num_leaves)
    return of_star


def probabilities(weights, count, replace):
    """The probability of each sorted list of draws, by listing all draws one after the other."""
    found = Counter()
    leaves = range(len(weights))
    for order in product(leaves, repeat=count) if replace else permutations(leaves, count):
        chance, left = 1.0, weights.sum()
        for leaf in order:
            chance *= weights[leaf] / left if left > 0 else 0.0
            left -= 0.0 if replace else weights[leaf]
        found[tuple(sorted(order))] += chance
    return {cell: chance for cell, chance in found.items() if chance > 0}


def assert_distributed(cells, expected):
    counts = Counter(cells)
    assert set(counts) <= set(expected)
    total = sum(counts.values())
    chances = np.array(list(expected.values()))
    observed = np.array([counts[cell] for cell in expected])
    assert chisquare(observed, chances / chances.sum() * total).pvalue > UNLIKELY


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["uniform", "weighted"])
def test_draws_are_distributed_as_the_plain_enumeration(weights, replace, count):
    num_leaves = len(WEIGHTS)
    per_edge = None if weights is None else np.tile(weights, COPIES)
    sampler = NeighborSampler(stars(num_leaves), [count], replace=replace, weights=per_edge)
    found = draws(sampler.sample(torch.arange(COPIES)), num_leaves)
    chances = probabilities(np.ones(num_leaves) if weights is None else weights, count, replace)
    assert_distributed([tuple(sorted(each)) for each in found], chances)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_many_draws_of_many_edges(weighted):
    """More than are compared one by one: each edge, and each pair of edges, is in the sample equally often."""
    num_leaves, count = 60, 40
    weights = np.full(COPIES * num_leaves, 0.3) if weighted else None
    found = draws(NeighborSampler(stars(num_leaves), [count], weights=weights).sample(torch.arange(COPIES)), num_leaves)
    assert all(len(set(each)) == count for each in found)
    inside = np.zeros((COPIES, num_leaves))
    for row, each in zip(inside, found, strict=True):
        row[each] = 1
    together = (inside.T @ inside) / COPIES
    share, pair = count / num_leaves, count * (count - 1) / num_leaves / (num_leaves - 1)
    off_diagonal = together[~np.eye(num_leaves, dtype=bool)]
    assert abs(np.diag(together) - share).max() < 5 * np.sqrt(share * (1 - share) / COPIES)
    assert abs(off_diagonal - pair).max() < 6 * np.sqrt(pair * (1 - pair) / COPIES)


def test_draws_of_two_hops_seeds_and_batches_are_independent():
    """A path of two stars: which leaf the first hop takes says nothing of the second, nor of another batch."""
    middle = np.arange(COPIES) * 3 + COPIES
    first = np.stack([np.concatenate([middle, middle + 1, middle + 2]), np.tile(np.arange(COPIES), 3)])
    leaves = 4 * COPIES + np.arange(9 * COPIES)
    second = np.stack([leaves, np.repeat(np.arange(COPIES, 4 * COPIES), 3)])
    sampler = NeighborSampler(Graph.of(np.concatenate([first, second], 1)), [1, 1])
    pairs = []
    for batch in range(2):
        sample = sampler.sample(torch.arange(COPIES), batch=batch)
        senders = sample.n_id[sample.graph.edges.senders].numpy()
        pairs.append([(a % 3, b % 3) for a, b in zip(senders[:COPIES] - COPIES, senders[COPIES:], strict=True)])
    even = dict.fromkeys(product(range(3), range(3)), 1.0)
    assert_distributed(pairs[0], even)
    assert_distributed(pairs[1], even)
    assert_distributed([(a, b) for (a, _), (b, _) in zip(*pairs, strict=True)], even)


def test_two_hops_as_plain_numpy_samples_them():
    """How often each node comes into the sample, against the same walk with numpy's generator."""
    random = np.random.default_rng(1)
    index = random.integers(0, 12, (2, 60))
    incoming = [index[0][index[1] == node] for node in range(12)]
    trials = 1500

    def plain():
        known, frontier = [3], [3]
        for fanout in (3, 2):
            new = []
            for node in frontier:
                drawn = random.permutation(incoming[node])[:fanout]
                new += [one for one in dict.fromkeys(drawn.tolist()) if one not in known and one not in new]
            known, frontier = known + new, new
        return known

    sampler = NeighborSampler(Graph.of(index), [3, 2])
    ours = np.bincount(
        np.concatenate([sampler.sample([3], batch=batch).n_id.numpy() for batch in range(trials)]), minlength=12
    )
    theirs = np.bincount(np.concatenate([plain() for _ in range(trials)]), minlength=12)
    spread = np.sqrt((ours + theirs) / 2 * (1 - (ours + theirs) / 2 / trials) * 2)
    assert (abs(ours - theirs) <= 4.5 * spread).all()


@st.composite
def parts_of_graphs(draw):
    """The number of nodes, and the sender, receiver and type of each edge."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    return num_nodes, draw(st.lists(st.tuples(node, node, st.integers(0, 2)), max_size=40))


def graph_of(num_nodes, edges):
    senders, receivers, types = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
    of_edges = torch.arange(len(edges))[:, None].float()
    nodes = torch.arange(num_nodes)[:, None].float()
    return Graph(nodes, Edges(senders, receivers, num_nodes, num_nodes), of_edges, edge_types=Types(types, 3))


@given(
    parts=parts_of_graphs(),
    fanouts=st.lists(st.integers(-1, 4), min_size=1, max_size=3),
    replace=st.booleans(),
    disjoint=st.booleans(),
    timed=st.booleans(),
    data=st.data(),
)
def test_a_sample_is_a_part_of_its_graph(parts, fanouts, replace, disjoint, timed, data):
    graph = graph_of(*parts)
    num_nodes, num_edges = graph.num_nodes, graph.num_edges
    seeds = data.draw(st.lists(st.integers(0, num_nodes - 1), max_size=5))
    whole = graph.edges
    times = data.draw(st.lists(st.integers(-3, 3), min_size=num_edges, max_size=num_edges)) if timed else None
    limits = data.draw(st.lists(st.integers(-3, 4), min_size=len(seeds), max_size=len(seeds))) if timed else None
    by_type = {0: fanouts, 2: fanouts[::-1]}
    sampler = NeighborSampler(graph, by_type, replace=replace, disjoint=disjoint, edge_times=times)
    sample = sampler.sample(seeds, times=limits)
    edges, n_id, e_id = sample.graph.edges, sample.n_id, sample.e_id
    assert torch.equal(n_id[edges.senders], whole.senders[e_id])
    assert torch.equal(n_id[edges.receivers], whole.receivers[e_id])
    assert torch.equal(n_id[sample.seeds], torch.tensor(seeds, dtype=torch.int64))
    if n_id.numel():
        assert torch.equal(sample.graph.node_features[:, 0].long(), n_id)
    if e_id.numel():
        assert torch.equal(sample.graph.edge_features[:, 0].long(), e_id)
        assert torch.equal(sample.graph.edge_types.of_row, graph.edge_types.of_row[e_id])
    trees = sample.trees.tolist() if disjoint or timed else [0] * len(n_id)
    assert len(set(zip(trees, n_id.tolist(), strict=True))) == len(n_id) or len(set(seeds)) < len(seeds)
    assert [trees[a] for a in edges.senders.tolist()] == [trees[b] for b in edges.receivers.tolist()]
    assert sum(sample.nodes_per_hop) == len(n_id)
    assert sum(sample.edges_per_hop) == len(e_id)
    starts = np.cumsum([0, *sample.nodes_per_hop])
    per_type = Counter(zip(edges.receivers.tolist(), graph.edge_types.of_row[e_id].tolist(), strict=True))
    for hop in range(len(fanouts)):
        for place in range(starts[hop], starts[hop + 1]):
            for kind in range(3):
                is_there = (whole.receivers == n_id[place]) & (graph.edge_types.of_row == kind)
                if timed:
                    is_there &= torch.tensor(times) < limits[trees[place]]
                there, fanout = int(is_there.sum()), by_type.get(kind, [0] * 3)[hop]
                expected = there if fanout < 0 or there == 0 else fanout if replace else min(there, fanout)
                assert per_type[place, kind] == expected
    if timed:
        assert all(times[edge] < limits[trees[end]] for edge, end in zip(e_id, edges.receivers, strict=True))
    if not replace:
        assert len({(trees[end], int(edge)) for end, edge in zip(edges.receivers, e_id, strict=True)}) == len(e_id)


def edges_of(senders, receivers, *sizes):
    return Edges(torch.tensor(senders), torch.tensor(receivers), *sizes)


ROWS = torch.arange(8.0)[:, None]
GRAPH = Graph(ROWS, edges_of([1, 2, 3, 3, 4, 5, 0, 6], [0, 0, 0, 1, 1, 2, 2, 5], 8, 8), ROWS)


def test_a_sample_by_hand():
    """0 ← 1, 2, 3; 1 ← 3, 4; 2 ← 5, 0; 5 ← 6; 7 is isolated. All edges, two hops from 0 and 7."""
    sample = NeighborSampler(GRAPH, [-1, -1]).sample([0, 7, 0])
    assert sample.n_id.tolist() == [0, 7, 1, 2, 3, 4, 5]
    assert sample.seeds.tolist() == [0, 1, 0]
    assert (sample.nodes_per_hop, sample.edges_per_hop) == ((2, 3, 2), (3, 4))
    assert sample.graph.edges.senders.tolist() == [2, 3, 4, 4, 5, 6, 0]
    assert sample.graph.edges.receivers.tolist() == [0, 0, 0, 2, 2, 3, 3]
    assert sample.e_id.tolist() == [0, 1, 2, 3, 4, 5, 6]
    first, second = sample.blocks()
    assert (first.num_edges, first.num_senders, first.num_receivers) == (7, 7, 5)
    assert (second.num_edges, second.num_senders, second.num_receivers) == (3, 5, 2)


def test_outputs_at_the_seeds_are_those_of_the_whole_graph():
    """Two layers of attention on a sample of all edges, on its blocks, and on the whole graph."""
    random = torch.Generator().manual_seed(0)
    index = torch.randint(0, 40, (2, 200), generator=random)
    nodes = torch.randn(40, 4, generator=random)
    graph = Graph(nodes, Edges(index[0], index[1], 40, 40))
    seeds = torch.tensor([3, 30, 17])
    sample = NeighborSampler(graph, [-1, -1]).sample(seeds)

    def layers(x, edges):
        for each in edges:
            x = attend(x[: each.num_receivers], x, x, each)
        return x

    expected = layers(nodes, [graph.edges] * 2)[seeds]
    on_sample = layers(sample.graph.node_features, [sample.graph.edges] * 2)[sample.seeds]
    on_blocks = layers(sample.graph.node_features, sample.blocks())[sample.seeds]
    assert torch.allclose(on_sample, expected, atol=1e-6)
    assert torch.allclose(on_blocks, expected, atol=1e-6)


def test_induced_samples_hold_all_edges_between_their_nodes():
    sample = NeighborSampler(GRAPH, [2, 1], form="induced").sample([0])
    expected = GRAPH.subgraph(sample.n_id)
    pairs = [sorted(zip(e.senders.tolist(), e.receivers.tolist())) for e in (sample.graph.edges, expected.edges)]
    assert pairs[0] == pairs[1]
    assert torch.equal(sample.graph.edge_features[:, 0].long(), sample.e_id)


def test_induced_samples_hold_edges_that_are_never_sampled():
    graph = Graph.of(np.array([[1, 2, 2], [0, 0, 1]]))
    weights = [1.0, 1.0, 0.0]
    for held in (None, Incoming.of(graph, weights)):
        sample = NeighborSampler(graph, [2, 2], weights=weights, form="induced", incoming=held).sample([0])
        assert sorted(sample.e_id.tolist()) == [0, 1, 2]


def test_an_induced_sample_has_no_blocks():
    for fanouts in ([2], [2, 1]):
        sample = NeighborSampler(GRAPH, fanouts, form="induced").sample([0])
        for each in (sample, sample.to("cpu")):
            with pytest.raises(
                SettingError, match=r"all edges between its nodes, which belong to no hop; use sample\."
            ):
                each.blocks()


def test_times_of_seeds_limit_their_edges():
    times = [0.0, 1.0, 2.0, -1.5, 0.5, 0.0, 9.0, 1.0]
    sampler = NeighborSampler(GRAPH, [-1, -1], edge_times=times)
    sample = sampler.sample([0, 0], times=[1.0, 3])
    assert sorted(sample.e_id.tolist()) == sorted([0, 3, 4, 0, 1, 2, 3, 4, 5])  # an edge at the seed's time is too late
    latest = NeighborSampler(GRAPH, [1], edge_times=times, strategy="last").sample([0, 0, 1], times=[1.5, 0.5, -9])
    assert latest.e_id.tolist() == [1, 0]
    whole = NeighborSampler(GRAPH, [-1], edge_times=[0, 1, 2, 3, 4, 5, 6, 7])
    assert whole.sample([0, 0, 0], times=torch.tensor([1.0, 1.5, -0.5])).e_id.tolist() == [0, 0, 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_times_of_seeds_may_be_infinite_or_beyond_all_whole_numbers(dtype):
    graph = Graph.of(np.array([[1, 2], [0, 0]]))
    sampler = NeighborSampler(graph, [-1], edge_times=torch.tensor([-(2**62), 2**62], dtype=dtype))
    for time, count in ((np.inf, 2), (1e30, 2), (2.0**63, 2), (2.0**62, 1), (-(2.0**63), 0), (-1e30, 0), (-np.inf, 0)):
        assert len(sampler.sample([0], times=torch.tensor([time], dtype=torch.float64)).e_id) == count, time
    with pytest.raises(DataError, match="time 1 is NaN"):
        sampler.sample([0, 0], times=torch.tensor([0.0, np.nan]))


def test_types_of_nodes_and_edges_have_fanouts_of_their_own():
    types = Types.of(["paper", "paper", "author", "author"])
    edges = edges_of([2, 3, 1, 2], [0, 0, 0, 1], 4, 4)
    names = ("author", "wrote", "paper"), ("paper", "cites", "paper")
    kinds = Types(torch.tensor([0, 0, 1, 0]), 2, names)
    features = (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [6.0]]))
    graph = Graph(features, edges, node_types=types, edge_types=kinds)
    sample = NeighborSampler(graph, {names[0]: [0, 1], names[1]: [1, 0]}).sample([0])
    assert (sample.n_id.tolist(), sample.e_id.tolist()) == ([0, 1, 2], [2, 3])
    assert sample.graph.node_features[0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert sample.graph.node_features[1].tolist() == [[5.0]]
    assert sample.graph.edge_types.names == names


def test_large_graphs_are_counted_in_int64(monkeypatch):
    small = NeighborSampler(GRAPH, [2, 2], weights=torch.arange(8.0))
    monkeypatch.setattr(plan, "INT32_LIMIT", 4)
    large = NeighborSampler(GRAPH, [2, 2], weights=torch.arange(8.0))
    assert (small.incoming.links.dtype, large.incoming.links.dtype) == (np.int32, np.int64)
    assert torch.equal(small.sample([0, 2]).e_id, large.sample([0, 2]).e_id)


def test_the_first_sample_of_a_seed_stays_the_same():
    """Samples of today are those of tomorrow."""
    index = np.stack([np.arange(200) % 19, np.arange(200) % 7])
    sample = NeighborSampler(Graph.of(index), [3, 2], seed=5).sample([1, 2], epoch=2, batch=3)
    assert sample.e_id.tolist() == PINNED
    weighted = NeighborSampler(Graph.of(index), [3], weights=np.arange(200), seed=5).sample([1, 2])
    assert weighted.e_id.tolist() == PINNED_WEIGHTED


PINNED = [64, 169, 57, 72, 114, 65, 147, 0]
PINNED_WEIGHTED = [106, 183, 113, 114, 58, 184]


def test_nothing_to_sample():
    empty = Graph.of(np.zeros((2, 0), np.int64))
    assert NeighborSampler(empty, [3]).sample([]).graph.num_nodes == 0
    isolated = NeighborSampler(GRAPH, [2, 2]).sample([7])
    assert (isolated.n_id.tolist(), isolated.graph.num_edges, isolated.edges_per_hop) == ([7], 0, (0, 0))
    assert NeighborSampler(GRAPH, [0]).sample([0]).graph.num_edges == 0
    assert NeighborSampler(GRAPH, [3], weights=np.zeros(8)).sample([0]).graph.num_edges == 0
    assert all(block.num_edges == 0 for block in isolated.blocks())


def test_extreme_weights_and_wide_sums():
    weights = torch.tensor([1e300, 1e-300, 5e-324, 1, 1, 1, 1, 1], dtype=torch.float64)
    found = [
        NeighborSampler(GRAPH, [2], weights=weights, replace=each).sample([0]).e_id.tolist() for each in (False, True)
    ]
    assert len(set(found[0])) == 2
    assert 0 in found[0]
    assert found[1] == [0, 0]


BAD_GRAPH = Graph(None, edges_of([0], [0], 2, 3))
REFUSED = [
    (lambda: NeighborSampler(GRAPH, []), SettingError, "fanouts is empty"),
    (lambda: NeighborSampler(GRAPH, [3, -2]), SettingError, "a fanout is -2; expected"),
    (lambda: NeighborSampler(GRAPH, [2.5]), SettingError, "a fanout is 2.5; expected"),
    (lambda: NeighborSampler(GRAPH, {0: [1]}), SettingError, "edges are not typed"),
    (lambda: NeighborSampler(GRAPH, [1], strategy="first"), SettingError, "strategy is 'first'; expected uniform or l"),
    (lambda: NeighborSampler(GRAPH, [1], strategy="last"), SettingError, "it needs edge_times"),
    (lambda: NeighborSampler(GRAPH, [1], form="tree"), SettingError, "form is 'tree'; expected directional or induced"),
    (lambda: NeighborSampler(GRAPH, [1], form="induced", disjoint=True), SettingError, "drop disjoint"),
    (lambda: NeighborSampler(GRAPH, [1], seed=-1), SettingError, "seed is -1; expected 0 or more"),
    (lambda: NeighborSampler(GRAPH, [1], weights=[1.0]), ShapeError, r"weights is \(1,\) of torch.float32; expected"),
    (lambda: NeighborSampler(GRAPH, [1], weights=[1, 1, -1, 1, 1, 1, 1, 1]), DataError, "weight of edge 2 is -1"),
    (lambda: NeighborSampler(GRAPH, [1], weights=[np.nan] * 8), DataError, "weight of edge 0 is nan"),
    (lambda: NeighborSampler(GRAPH, [1], weights=np.full(8, 1e308)), DataError, "add up to infinity"),
    (lambda: NeighborSampler(GRAPH, [1], edge_times=[np.nan] * 8), DataError, "time 0 is NaN"),
    (lambda: NeighborSampler(BAD_GRAPH, [1]), ShapeError, "needs one set of nodes"),
    (lambda: NeighborSampler(GRAPH, [1]).sample([8]), ShapeError, "seeds must lie in 0 … 7; found 8"),
    (lambda: NeighborSampler(GRAPH, [1]).sample([0, -1]), ShapeError, "seeds must lie in 0 … 7; found -1"),
    (lambda: NeighborSampler(GRAPH, [1]).sample([0.5]), ShapeError, "seeds must be whole numbers"),
    (lambda: NeighborSampler(GRAPH, [1]).sample([[0]]), ShapeError, "seeds must have one axis"),
    (lambda: NeighborSampler(GRAPH, [1]).sample([0], times=[1]), ShapeError, "edges have none"),
    (lambda: NeighborSampler(GRAPH, [1], edge_times=[1] * 8).sample([0]), ShapeError, "give those of the seeds"),
    (
        lambda: NeighborSampler(GRAPH, [1], edge_times=[1] * 8).sample([0], times=[1, 2]),
        ShapeError,
        r"expected \(1,\), one per seed",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_cannot_be_sampled_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_type_that_no_edge_has_is_refused():
    graph = Graph(None, GRAPH.edges, edge_types=Types(torch.zeros(8, dtype=torch.int64), 1, ("road",)))
    with pytest.raises(SettingError, match="fanouts name the type 'rail', expected one of 'road'"):
        NeighborSampler(graph, {"rail": [1]})
    with pytest.raises(SettingError, match="the same number of hops for each type"):
        NeighborSampler(
            Graph(None, GRAPH.edges, edge_types=Types(torch.zeros(8, dtype=torch.int64), 2)), {0: [1], 1: [1, 2]}
        )


def test_names_of_nodes_that_are_sampled_several_times():
    """A tree for each seed, or a batch of graphs, ended in "nodes 1 and 2 are both named 'c'"."""
    ends = torch.tensor([2, 2]), torch.tensor([0, 1])
    graph = Graph(None, Edges(*ends, 3, 3), names=("a", "b", "c"))
    sample = NeighborSampler(graph, [1], disjoint=True).sample([0, 1])
    assert dict(zip(sample.graph.names, sample.n_id.tolist())) == {
        **{(0, "a"): 0, (1, "b"): 1},
        **{(0, "c"): 2, (1, "c"): 2},
    }
    assert NeighborSampler(graph, [1]).sample([0, 1]).graph.names == ("a", "b", "c")
    of_batch = NeighborSampler(Graph.batch([graph, graph]), [1]).sample([0, 3])
    assert of_batch.graph.names == ((0, "a"), (1, "a"), (0, "c"), (1, "c"))
