"""Edges that a graph does not have of itself: expander edges and virtual nodes."""

import networkx
import pytest
import torch

from edgewise import Edges, SettingError, ShapeError
from edgewise.neighborhood import EDGE_TYPES, expander_edges, extend_edges, virtual_edges
from graph_cases import packed

SIZES = [0, 1, 2, 3, 5, 6, 7, 11, 40]


def pairs_of(edges):
    return list(zip(edges.senders.tolist(), edges.receivers.tolist()))


@pytest.mark.parametrize("degree", [2, 4, 6])
@pytest.mark.parametrize("num_nodes", SIZES)
def test_an_expander_is_symmetric_simple_connected_and_of_its_degree(num_nodes, degree):
    edges = expander_edges(num_nodes, degree, seed=3)
    pairs = pairs_of(edges)
    assert (edges.num_senders, edges.num_receivers) == (num_nodes, num_nodes)
    assert len(set(pairs)) == len(pairs)
    assert all(one != other and (other, one) in set(pairs) for one, other in pairs)
    assert [(receiver, sender) for sender, receiver in pairs] == sorted((r, s) for s, r in pairs)
    if num_nodes > 1:
        assert networkx.is_connected(networkx.Graph(pairs)) and len(networkx.Graph(pairs)) == num_nodes
    if num_nodes:
        assert int(edges.degrees().max()) <= degree
    if num_nodes <= degree + 1:
        assert len(pairs) == num_nodes * (num_nodes - 1), "so few nodes are all joined"


def test_nearly_all_nodes_have_the_degree_and_the_spectrum_has_a_gap():
    """The second eigenvalue of a random 6-regular graph is near 2 √5; that of a ring with as many edges would be 6."""
    edges = expander_edges(1000, 6)
    assert int((edges.degrees() < 6).sum()) < 50
    values = torch.linalg.eigvalsh(edges.to_mask().double())
    assert values[-1] == pytest.approx(6, abs=0.05)
    assert max(values[-2], -values[0]) < 2 * 5**0.5 + 0.3


def test_the_seed_decides():
    one, again, other = (pairs_of(expander_edges(30, 4, seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    first, second = (pairs_of(expander_edges(30, 2, seed=seed)) for seed in (1, 2))
    assert first != second
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    expander_edges(30, 4)
    assert torch.rand(1) == before, "torch's own generator is left alone"


def test_graphs_side_by_side_get_the_edges_that_each_would_get_alone():
    first, second = expander_edges(9, 4, seed=7), expander_edges(4, 4, seed=7)
    together, offsets = packed(first, second)
    found = expander_edges(13, 4, seed=7, offsets=offsets)
    assert pairs_of(found) == pairs_of(together)
    several = torch.tensor([0, 0, 5, 6, 6, 20, 22])
    edges = expander_edges(22, 4, offsets=several)
    graph = torch.searchsorted(several[1:], torch.arange(22), right=True)
    assert torch.equal(graph[edges.senders], graph[edges.receivers])
    assert int(edges.degrees()[5]) == 0, "a graph of one node"


def test_virtual_nodes_by_hand():
    edges = virtual_edges(3, 2, offsets=torch.tensor([0, 1, 3]))
    to = [(0, 3), (0, 4), (1, 5), (1, 6), (2, 5), (2, 6)]
    assert pairs_of(edges) == [*to, *((virtual, node) for node, virtual in to)]
    assert edges.sizes == (7, 7)
    empty = virtual_edges(0, offsets=torch.tensor([0, 0]))
    assert (empty.num_edges, empty.num_senders) == (0, 1)


def test_two_hops_over_a_virtual_node_lead_everywhere():
    reached = virtual_edges(8).with_self_loops().to_mask().double()
    assert bool((reached @ reached > 0).all())
    assert not bool((reached > 0).all())


def test_an_extended_graph_keeps_its_own_edges_first():
    own = Edges(torch.tensor([0, 0, 2]), torch.tensor([1, 1, 2]), 6, 6)
    edges, kinds = extend_edges(own, expander_degree=2, num_virtual_nodes=1, seed=4)
    words = [EDGE_TYPES[kind] for kind in kinds.tolist()]
    assert words == ["graph"] * 3 + ["expander"] * 12 + ["to_virtual"] * 6 + ["from_virtual"] * 6
    assert pairs_of(edges)[:3] == pairs_of(own)
    assert pairs_of(edges)[3:15] == pairs_of(expander_edges(6, 2, seed=4))
    assert pairs_of(edges)[15:] == pairs_of(virtual_edges(6))
    assert edges.sizes == (7, 7)
    for predicted in kinds.unique().tolist():
        is_from = edges.senders[kinds == predicted] == 6
        assert bool(is_from.all()) == (EDGE_TYPES[predicted] == "from_virtual")


def test_without_anything_a_graph_stays_as_it_is():
    own = Edges(torch.tensor([0, 2]), torch.tensor([1, 2]), 3, 3)
    edges, kinds = extend_edges(own)
    assert pairs_of(edges) == pairs_of(own)
    assert (edges.sizes, kinds.tolist()) == ((3, 3), [0, 0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: expander_edges(5, 3), SettingError, "degree is 3; expected an even number, at least 2"),
        (lambda: expander_edges(5, 0), SettingError, "degree is 0; expected an even number, at least 2"),
        (lambda: expander_edges(5, 4, seed=-1), SettingError, "seed is -1; expected 0 or more"),
        (lambda: expander_edges(-1, 4), SettingError, "num_nodes is -1; expected 0 or more"),
        (lambda: virtual_edges(5, 0), SettingError, "num_virtual_nodes is 0; expected at least 1"),
        (
            lambda: extend_edges(Edges(torch.tensor([0]), torch.tensor([0]), 2, 1), expander_degree=2),
            ShapeError,
            r"different nodes \(2 and 1",
        ),
        *[
            (lambda bounds=bounds: virtual_edges(5, offsets=torch.tensor(bounds)), ShapeError, "end with 5, the number")
            for bounds in ([0, 4], [1, 5], [0, 3, 2, 5], [0, 6])
        ],
    ],
)
def test_what_cannot_be(call, error, message):
    with pytest.raises(error, match=message):
        call()
