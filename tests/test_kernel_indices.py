"""Indices that compiled kernels read are checked where they enter: a kernel itself checks nothing.

Where it is looked at: edges in `Edges`, `Plan.of`, `EdgeRows`, `Relations` and `Types`; runs of keys in
`Ranges.kernel_runs`; messages of edges in `onward`; seeds, links and incoming edges in `NeighborSampler` and its
loaders; clusters in `ClusterLoader`; files of a store where it is opened, by their checksums.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from edgewise import Constant, Edges, Graph, Mean, SettingError, ShapeError, Window, attend, attention_weights
from edgewise.layers.directed import onward
from edgewise.neighborhood import EdgeRows, Ranges
from edgewise.neighborhood.plan import Plan
from edgewise.sampling import ClusterLoader, LinkLoader, NeighborLoader, NeighborSampler
from edgewise.sampling.incoming import Incoming

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
NODES = 4
GRAPH = Graph.of(torch.tensor([[1, 2, 3, 3], [0, 0, 1, 2]]))
KNOWN = Incoming.of(GRAPH)


def incoming(**changed):
    return replace(KNOWN, **{"is_trusted": False, **changed})


def offsets(*numbers):
    return np.array(numbers, np.int32)


def links(*senders):
    return np.array([(sender, place) for place, sender in enumerate(senders)], np.int32)


WRONG = {
    "links beyond": (incoming(links=links(1, 2, 3, 2**30)), r"links of incoming must lie in 0 … 3; found 1073741824"),
    "links below": (incoming(links=links(1, 2, -1, 3)), r"links of incoming must lie in 0 … 3; found -1"),
    "links in one row": (incoming(links=offsets(1, 2, 3, 3)), "incoming must have offsets"),
    "links of floats": (incoming(links=links(1, 2, 3, 3).astype(float)), "incoming must have offsets"),
    "offsets beyond": (incoming(offsets=offsets(0, 2, 3, 4, 900)), "offsets of incoming must begin at 0, not fall"),
    "offsets that fall": (incoming(offsets=offsets(0, 900, 3, 4, 4)), "offsets of incoming must begin at 0, not fall"),
    "offsets that begin late": (incoming(offsets=offsets(-5, 2, 3, 4, 4)), "offsets of incoming must begin at 0"),
    "offsets of fewer nodes": (incoming(offsets=offsets(0, 2, 4)), "incoming must have offsets"),
    "a trusted one of fewer nodes": (replace(KNOWN, offsets=offsets(0, 2, 4)), "incoming must have offsets"),
    "types beyond": (incoming(types=offsets(0, 0, 7, 0)), r"types of incoming must lie in 0 … 0; found 7"),
    "types of some": (incoming(types=offsets(0, 0)), "incoming must have offsets"),
    "times of some": (incoming(times=np.zeros(2, np.int64)), "incoming must have offsets"),
}


@pytest.mark.parametrize("name", WRONG)
def test_incoming_edges_are_checked_where_a_sampler_takes_them(name):
    wrong, message = WRONG[name]
    with pytest.raises(ShapeError, match=message):
        NeighborSampler(GRAPH, [2], incoming=wrong)


def test_incoming_edges_that_are_right_give_the_same_sample():
    expected = NeighborSampler(GRAPH, [2, 2]).sample([0])
    for held in (KNOWN, incoming()):
        found = NeighborSampler(GRAPH, [2, 2], incoming=held).sample([0])
        assert found.n_id.tolist() == expected.n_id.tolist()
        assert found.e_id.tolist() == expected.e_id.tolist()


def test_times_and_weights_of_incoming_edges_are_named_in_the_sampler_too():
    times, weights = torch.arange(4), torch.ones(4)
    with pytest.raises(SettingError, match="incoming has edge_times, which are not given"):
        NeighborSampler(GRAPH, [2], incoming=Incoming.of(GRAPH, edge_times=times))
    with pytest.raises(SettingError, match="incoming has no edge_times, which are given"):
        NeighborSampler(GRAPH, [2], edge_times=times, incoming=KNOWN)
    with pytest.raises(SettingError, match="incoming has no weights, which are given"):
        NeighborSampler(GRAPH, [2], weights=weights, incoming=KNOWN)
    sampler = NeighborSampler(
        GRAPH, [2], weights=weights, edge_times=times, incoming=Incoming.of(GRAPH, weights, times)
    )
    assert sampler.sample([0], times=[1]).n_id.tolist() == [0, 1]


@pytest.mark.parametrize("fanout", [2**31, 2**62, 2**63, 2**70])
def test_a_fanout_is_no_larger_than_a_kernel_has_room_for(fanout):
    with pytest.raises(SettingError, match="a fanout is"):
        NeighborSampler(GRAPH, [fanout])
    assert NeighborSampler(GRAPH, [2**31 - 1]).sample([0]).n_id.tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrong", [-1, 4, 2**40, -(2**63)])
def test_nodes_that_are_not_there_are_no_seeds(wrong):
    sampler, clusters = NeighborSampler(GRAPH, [2]), torch.zeros(NODES, dtype=torch.int64)
    for call in (
        lambda: sampler.sample([0, wrong]),
        lambda: NeighborLoader(sampler, [wrong]),
        lambda: LinkLoader(sampler, [0], [wrong]),
        lambda: LinkLoader(sampler, [wrong], [0]),
        lambda: ClusterLoader(GRAPH, clusters, seeds=[wrong]),
        lambda: Edges([wrong], [0], NODES, NODES),
        lambda: Edges([0], [wrong], NODES, NODES),
        lambda: EdgeRows([wrong], NODES),
        lambda: Plan.of(torch.tensor([wrong]), torch.tensor([0]), NODES, NODES),
        lambda: Plan.of(torch.tensor([0]), torch.tensor([wrong]), NODES, NODES),
    ):
        with pytest.raises(ShapeError, match="must lie in"):
            call()
    with pytest.raises(ShapeError, match="clusters is"):
        ClusterLoader(GRAPH, torch.tensor([0, 1, -1, 0]))


@pytest.mark.parametrize("shapes", [((3, 16), (4, 16)), ((4, 16), (3, 16)), ((400, 16), (400, 16)), ((4, 16), (4, 32))])
def test_messages_that_go_on_are_one_for_each_edge(shapes):
    start, sent = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ShapeError, match="onward: start and sent must be"):
        onward(start, sent, GRAPH.edges)


@dataclass(frozen=True, eq=False)
class Reaching(Ranges):
    """A neighborhood of a user's own whose runs leave the keys, and end before they begin."""

    def runs(self, query, num_queries, num_keys):
        return query * 10**9 - 5, query * 10**10 + 3


@dataclass(frozen=True, eq=False)
class Short(Ranges):
    """One with a run for the first query alone."""

    def runs(self, query, num_queries, num_keys):
        return query[:1], query[:1] + 1


@pytest.mark.parametrize("backend", ["numba", "uniform"])
def test_runs_of_keys_are_cut_to_those_that_are_there(backend):
    x = torch.randn(5, 8, requires_grad=True)
    options = {} if backend == "numba" else {"score": Constant(), "normalize": Mean()}
    out = attend(x, x, x, Reaching(), backend=backend, **options)
    expected = attend(x, x, x, Reaching(), backend="reference", **options)
    torch.testing.assert_close(out, expected)
    ours, theirs = (torch.autograd.grad(each.square().sum(), x)[0] for each in (out, expected))
    torch.testing.assert_close(ours, theirs)
    with pytest.raises(ShapeError, match="runs must be whole numbers"):
        attend(x, x, x, Short(), backend=backend, **options)


def test_a_window_without_an_end_sees_all():
    x = torch.randn(5, 8)
    far = Window(2**63 - 1, 2**63 - 1)
    torch.testing.assert_close(attend(x, x, x, far, backend="numba"), attend(x, x, x))
    assert attention_weights(x, x, far).values.shape == (25,)
