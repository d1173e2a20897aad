"""k layers reach exactly k hops: gradients of a node with respect to every other, against a search by hand."""

import pytest
import torch
from torch import nn

from edgewise import Edges, Softmax
from edgewise.layers import (
    EdgeUpdate,
    EquivariantLayer,
    GatedGraphAttention,
    GraphAttention,
    GraphGRU,
    GraphNetwork,
    HopAttention,
    IsomorphismConvolution,
    MeanConvolution,
    MoleculeAttention,
    MultiHeadAttention,
    NeighborConvolution,
    NodeUpdate,
    ResidualBlock,
    SymmetricConvolution,
)
from edgewise.neighborhood import expander_edges, extend_edges, virtual_edges
from graph_cases import normal, ready

SIZE = 6
"""Of a node."""


def one_way(num_nodes):
    """A path: each node receives from the one before it."""
    return Edges(torch.arange(num_nodes - 1), torch.arange(1, num_nodes), num_nodes, num_nodes)


def drawn():
    """A random graph whose edges are one way, some of them twice, with a node apart."""
    torch.manual_seed(3)
    senders, receivers = torch.randint(13, (2, 18))
    return Edges(senders, receivers, 14, 14)


GRAPHS = {"path": one_way(7), "both ways": one_way(7).undirected(), "drawn": drawn()}


def molecule(x, edges, layer):
    """Attention over the neighbors and the node itself, places that say nothing."""
    edges = edges.with_self_loops()
    return layer(x, torch.zeros(len(x), 3, dtype=x.dtype), edges, edges)


LAYERS = {
    "GCN": (lambda: SymmetricConvolution(SIZE, SIZE, torch.tanh), lambda x, edges, layer: layer(x, edges)),
    "mean": (lambda: MeanConvolution(SIZE, SIZE, torch.tanh), lambda x, edges, layer: layer(x, edges)),
    "sum": (
        lambda: NeighborConvolution(SIZE, SIZE, "sum", activation=torch.tanh),
        lambda x, edges, layer: layer(x, edges),
    ),
    "GIN": (
        lambda: IsomorphismConvolution(SIZE, SIZE, activation=torch.tanh),
        lambda x, edges, layer: layer(x, edges),
    ),
    "GAT": (lambda: GraphAttention(SIZE, SIZE, 2), lambda x, edges, layer: layer(x, edges.with_self_loops())),
    "GATv2": (
        lambda: GraphAttention(SIZE, SIZE, 2, score="gatv2"),
        lambda x, edges, layer: layer(x, edges.with_self_loops()),
    ),
    "transformer": (
        lambda: ResidualBlock(MultiHeadAttention(SIZE, 2), SIZE),
        lambda x, edges, layer: layer(x, edges),
    ),
    "GaAN": (lambda: GatedGraphAttention(SIZE, num_heads=2), lambda x, edges, layer: layer(x, edges)),
    "GaAN-GRU": (lambda: GraphGRU(SIZE, SIZE, 2), lambda x, edges, layer: layer(x, edges, x)),
    "MAT": (lambda: MoleculeAttention(SIZE, 2), molecule),
    "EGNN": (
        lambda: EquivariantLayer(SIZE, normalize=Softmax()),
        lambda x, edges, layer: layer(x, x[:, :3], edges).nodes,
    ),
    "graph network": (
        lambda: GraphNetwork(
            EdgeUpdate(SIZE, 0, 0, SIZE, num_heads=2, activation=torch.tanh),
            NodeUpdate(SIZE, SIZE, 0, SIZE, activation=torch.tanh),
        ),
        lambda x, edges, layer: layer(x, edges).nodes,
    ),
}
"""How a layer is made, and how it goes from nodes to nodes."""


def reached(function, num_nodes):
    """(i, j): whether what becomes of node i has a gradient with respect to node j."""
    direction = normal(SIZE)
    jacobian = torch.autograd.functional.jacobian(lambda x: function(x) @ direction, normal(num_nodes, SIZE))
    return jacobian.abs().sum(-1) > 0


def within(edges, num_hops):
    """(i, j): whether a walk of at most so many edges leads from j to i, by a search from every node."""
    found = torch.eye(edges.num_receivers, dtype=torch.bool)
    for start in range(edges.num_senders):
        seen = {start}
        for _ in range(num_hops):
            seen |= {r for s, r in zip(edges.senders.tolist(), edges.receivers.tolist()) if s in seen}
        found[list(seen), start] = True
    return found


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", LAYERS)
def test_k_layers_reach_exactly_k_hops(name, graph):
    make, run = LAYERS[name]
    edges = GRAPHS[graph]
    stack = [ready(make()) for _ in range(3)]

    def through(x, num_layers):
        for layer in stack[:num_layers]:
            x = run(x, edges, layer)
        return x

    for num_layers in (1, 2, 3):
        seen = reached(lambda x, n=num_layers: through(x, n), edges.num_receivers)
        assert torch.equal(seen, within(edges, num_layers)), num_layers


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_maximum_reaches_no_further(graph):
    """It receives from the neighbors that are largest in some feature."""
    edges = GRAPHS[graph]
    stack = [ready(NeighborConvolution(SIZE, SIZE, "max", activation=torch.tanh)) for _ in range(3)]
    x = reached(lambda x: stack[2](stack[1](stack[0](x, edges), edges), edges), edges.num_receivers)
    assert not bool((x & ~within(edges, 3)).any())
    assert bool((x & ~within(edges, 2)).any())


@pytest.mark.parametrize("num_hops", [1, 2, 4])
def test_one_layer_of_attention_over_distances_reaches_as_many_hops_as_it_looks_back_on(num_hops):
    layer = ready(HopAttention(SIZE, num_hops))
    for edges in GRAPHS.values():
        assert torch.equal(reached(lambda x, e=edges: layer(x, e), edges.num_receivers), within(edges, num_hops))


def extended(edges, virtual):
    """One transformer layer after the other over a graph that has more nodes than are asked about."""
    stack = [ready(ResidualBlock(MultiHeadAttention(SIZE, 2), SIZE)) for _ in range(2)]

    def through(x, num_layers):
        num_nodes = len(x)
        nodes = torch.cat([x, virtual])
        for layer in stack[:num_layers]:
            nodes = layer(nodes, edges)
        return nodes[:num_nodes]

    return through


def test_over_a_virtual_node_two_layers_reach_everything():
    path = one_way(9)
    through = extended(extend_edges(path, num_virtual_nodes=1).edges, normal(1, SIZE))
    assert torch.equal(reached(lambda x: through(x, 1), 9), within(path, 1)), "it is heard in the second layer only"
    assert bool(reached(lambda x: through(x, 2), 9).all())


def test_a_virtual_node_reaches_its_own_graph_alone():
    offsets = torch.tensor([0, 4, 9])
    through = extended(virtual_edges(9, offsets=offsets), normal(2, SIZE))
    graph = torch.searchsorted(offsets[1:], torch.arange(9), right=True)
    assert torch.equal(reached(lambda x: through(x, 2), 9), graph[:, None] == graph)


def test_expander_edges_bring_the_ends_of_a_path_near():
    path = one_way(64).undirected()
    both = extend_edges(path, expander_degree=4).edges
    assert not bool(within(path, 5).all())
    assert bool(within(both, 5).all())
    assert torch.equal(within(both, 1), within(path, 1) | within(expander_edges(64, 4), 1))
    layers = nn.ModuleList(ready(ResidualBlock(MultiHeadAttention(SIZE, 2), SIZE)) for _ in range(2))
    assert torch.equal(reached(lambda x: layers[1](layers[0](x, both), both), 64), within(both, 2))
