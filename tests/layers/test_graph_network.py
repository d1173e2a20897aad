"""The graph network: every update, aggregation and attention against two loops; subsets; globals; packed graphs."""

import math

import pytest
import torch
from torch import nn

from edgewise import Edges, SettingError, ShapeError, Trace
from edgewise.layers import EdgeUpdate, GlobalUpdate, GraphNetwork, LearnedGlobals, NodeStatistics, NodeUpdate
from edgewise.layers.graph_update import AGGREGATIONS
from graph_cases import GRAPH, NONE, OTHER, edges_into, normal, packed, ready, shuffled

V, E, U = 4, 2, 3
"""Sizes of nodes, edges and globals as they come."""


def full(how="sum", num_heads=None):
    """All three updates, every aggregation of one kind, with or without attention inside the edge update."""
    heads = 2 if how == "attention" else 1
    edge, node = (
        EdgeUpdate(V, E, U, 6, 5, num_heads=num_heads),
        NodeUpdate(V, 6, U, 8, aggregation=how, num_heads=heads),
    )
    graph = GlobalUpdate(8, 6, U, 7, edge_aggregation=how, node_aggregation=how, num_heads=heads)
    return ready(GraphNetwork(edge, node, graph))


MAKERS = {
    **{how: lambda how=how: full(how) for how in AGGREGATIONS},
    "attention everywhere": lambda: full("attention", 3),
    "edge alone": lambda: ready(GraphNetwork(edge=EdgeUpdate(V, E, U, 6))),
    "node alone": lambda: ready(GraphNetwork(node=NodeUpdate(V, E, U, 6))),
    "graph alone": lambda: ready(GraphNetwork(graph=GlobalUpdate(V, E, U, 6))),
    "learned query": lambda: ready(GraphNetwork(graph=GlobalUpdate(V, E, 0, 6, node_aggregation="attention"))),
    "attention without features": lambda: ready(GraphNetwork(EdgeUpdate(V, 0, 0, 6, num_heads=2))),
    "message passing": lambda: ready(GraphNetwork(EdgeUpdate(V, E, 0, 6), NodeUpdate(V, 6, 0, 5))),
    "relations": lambda: ready(GraphNetwork(EdgeUpdate(V, E, 0, 6), graph=GlobalUpdate(0, 6, 0, 5))),
    "deep set": lambda: ready(GraphNetwork(node=NodeUpdate(V, 0, 0, 6), graph=GlobalUpdate(6, 0, 0, 5))),
}


@pytest.fixture(params=MAKERS)
def block(request):
    return MAKERS[request.param]()


def inputs(edges, num_graphs=1):
    return normal(edges.num_receivers, V), normal(edges.num_edges, E), normal(num_graphs, U)


def network(perceptron, *parts):
    """W₂ relu(W₁ [parts] + c₁) + c₂ of one row."""
    hidden = torch.relu(perceptron.first.weight @ torch.cat(parts) + perceptron.first.bias)
    return perceptron.second.weight @ hidden + perceptron.second.bias


def affine(layer, row):
    return layer.weight @ row + (0 if layer.bias is None else layer.bias)


def softmax(scores):
    return [torch.exp(s) / sum(torch.exp(t) for t in scores) for s in scores]


def parts(size, num_heads):
    """The features of each head."""
    return [slice(h * size // num_heads, (h + 1) * size // num_heads) for h in range(num_heads)]


def together(aggregation, rows, asks, size):
    """ρ of a list of rows of one size; only attention reads the query."""
    if not rows:
        return torch.zeros(size, dtype=torch.float64)
    if aggregation.aggregation != "attention":
        table = torch.stack(rows)
        return {"sum": table.sum(0), "mean": table.mean(0), "max": table.amax(0), "min": table.amin(0)}[
            aggregation.aggregation
        ]
    heads = []
    for part in parts(size, aggregation.num_heads):
        query = aggregation.learned_query if len(asks) == 0 else affine(aggregation.query, asks)
        query, keys = query[part], [affine(aggregation.key, row)[part] for row in rows]
        weights = softmax([query @ key / math.sqrt(len(query)) for key in keys])
        heads.append(sum(w * affine(aggregation.value, row)[part] for w, row in zip(weights, rows)))
    return torch.cat(heads)


def updated_edges(update, v, edges, e, u):
    """e'_k = α_k φ(…), edge by edge."""
    own = [torch.cat([row, u[: update.global_dim]]) for row in v]
    pairs = list(zip(edges.receivers.tolist(), edges.senders.tolist()))
    seen = e[:, : update.edge_dim]
    out = torch.stack([network(update.network, own[i], v[j], seen[k]) for k, (i, j) in enumerate(pairs)])
    if update.num_heads is None:
        return out
    alpha = torch.zeros(edges.num_edges, len(out[0]), dtype=torch.float64)
    for i in range(edges.num_receivers):
        into = edges_into(edges, i)
        for part in parts(len(out[0]), update.num_heads):
            query = affine(update.query, own[i])[part]
            on_edges = torch.zeros_like(out) if update.edge_key is None else e @ update.edge_key.weight.T
            keys = [(affine(update.key, v[j]) + on_edges[k])[part] for k, j in into]
            for (k, _), weight in zip(into, softmax([query @ key / math.sqrt(len(query)) for key in keys])):
                alpha[k, part] = weight
    return alpha * out


def updated_nodes(update, v, edges, e, u):
    """v'_i = φ(ρ e', v_i, u), node by node."""
    rows = []
    for i in range(edges.num_receivers):
        own = torch.cat([v[i], u[: update.global_dim]])
        into = [e[k] for k, _ in edges_into(edges, i)]
        seen = [] if update.together is None else [together(update.together, into, own, update.edge_dim)]
        rows.append(network(update.network, *seen, own))
    return torch.stack(rows)


def updated_globals(update, v, e, u):
    """u' = φ(ρ e', ρ v', u)."""
    own, seen = u[: update.global_dim], []
    if update.edges_together is not None:
        seen.append(together(update.edges_together, list(e), own, update.edge_dim))
    if update.nodes_together is not None:
        seen.append(together(update.nodes_together, list(v), own, update.node_dim))
    return network(update.network, *seen, own)


def by_loops(block, v, edges, e, u):
    """Battaglia et al., algorithm 1, of one graph."""
    u = u[0]
    if block.edge is not None:
        e = updated_edges(block.edge, v, edges, e, u)
    if block.node is not None:
        v = updated_nodes(block.node, v, edges, e, u)
    if block.graph is not None:
        u = updated_globals(block.graph, v, e, u)
    return v, e, u[None]


def assert_same(found, expected):
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("edges", [GRAPH, OTHER])
def test_against_two_loops(block, edges):
    v, e, u = inputs(edges)
    assert_same(block(v, edges, e, u), by_loops(block, v, edges, e, u))


def test_permuting_nodes_permutes_nodes_and_edges_and_leaves_the_globals(block):
    v, e, u = inputs(GRAPH)
    edges, order, edge_order = shuffled(GRAPH)
    nodes, edge, graph = block(v, GRAPH, e, u)
    assert_same(block(v[order], edges, e[edge_order], u), (nodes[order], edge[edge_order], graph))


def test_graphs_together_are_each_alone(block):
    """Two graphs, and between them one without nodes."""
    one, other = inputs(GRAPH), inputs(OTHER)
    edges, (_, middle, end) = packed(GRAPH, OTHER)
    v, e, u = (torch.cat(pair) for pair in zip(one, other))
    u = torch.cat([u[:1], normal(1, U), u[1:]])
    nodes, edge, graph = block(v, edges, e, u, torch.tensor([0, middle, middle, end]))
    apart = [block(v, edges, e, u) for (v, e, u), edges in ((one, GRAPH), (other, OTHER))]
    for found, members in zip((nodes, edge, graph[[0, 2]]), zip(*apart)):
        torch.testing.assert_close(found, torch.cat(members))
    nothing = Edges(NONE, NONE, 0, 0)
    torch.testing.assert_close(graph[1:2], block(v[:0], nothing, e[:0], u[1:2]).global_features)


def test_a_batch_over_one_graph(block):
    v, e, u = inputs(GRAPH)
    vs = torch.stack([v, 2 * v])
    found = block(vs, GRAPH, e, u)
    for member in range(2):
        for many, alone in zip(found, block(vs[member], GRAPH, e, u)):
            torch.testing.assert_close(many[member] if many.dim() == 3 else many, alone)


def test_without_edges_and_without_nodes(block):
    v, _, u = inputs(GRAPH)
    v.requires_grad_()
    out = block(v, Edges(NONE, NONE, 6, 6), normal(0, E), u)
    gradients = torch.autograd.grad(sum(part.sum() for part in out), [v, *block.parameters()], allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in gradients)
    out = block(normal(0, V), Edges(NONE, NONE, 0, 0), normal(0, E), u)
    assert out.nodes.shape[0] == 0
    assert out.global_features.isfinite().all()


def test_gradients():
    block = full("attention", 3)
    edges = Edges(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), 3, 3)
    leaves = [part.requires_grad_() for part in inputs(edges)]
    assert torch.autograd.gradcheck(lambda v, e, u: tuple(block(v, edges, e, u)), leaves)


def test_every_parameter_of_a_full_block_learns():
    block = full("attention", 3)
    v, e, u = inputs(GRAPH)
    sum(part.square().sum() for part in block(v, GRAPH, e, u)).backward()
    silent = {name for name, p in block.named_parameters() if p.grad.abs().sum() < 1e-12}
    # A bias on all keys shifts all scores of a row alike, which softmax does not see.
    assert all(name.endswith("key.bias") for name in silent)


def test_a_block_by_hand():
    """Edges are the sum of their ends, nodes the sum of their edges, the globals the sum of the nodes."""
    block = GraphNetwork(EdgeUpdate(1, 0, 0, 1), NodeUpdate(0, 1, 0, 1), GlobalUpdate(1, 0, 0, 1))
    for parameter in block.parameters():
        nn.init.constant_(parameter, 1.0 if parameter.dim() == 2 else 0.0)
    out = block(torch.tensor([[1.0], [2.0], [4.0]]), Edges(torch.tensor([0, 2, 1]), torch.tensor([1, 1, 0]), 3, 3))
    assert out.edge_features.flatten().tolist() == [3.0, 6.0, 3.0]
    assert out.nodes.flatten().tolist() == [3.0, 9.0, 0.0]
    assert out.global_features.tolist() == [[12.0]]


def test_the_statistics_of_nodes():
    nodes = torch.tensor([[1.0, -2.0], [3.0, -2.0], [5.0, 7.0]], dtype=torch.float64, requires_grad=True)
    found = NodeStatistics(2)(nodes, torch.tensor([0, 2, 2, 3]))
    expected = [
        [2.0, 2.0, -2.0, 1.0, 0.0, 1.0, -2.0, 3.0, -2.0],
        [0.0] * 9,
        [1.0, 5.0, 7.0, 0.0, 0.0, 5.0, 7.0, 5.0, 7.0],
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert torch.autograd.grad(found.sum(), nodes)[0].isfinite().all()


def test_globals_given_computed_or_learned():
    edges, offsets = packed(GRAPH, OTHER)
    source = NodeStatistics(V)
    block = ready(GraphNetwork(graph=GlobalUpdate(V, E, source.global_dim, 5), global_source=source))
    v, e = normal(9, V), normal(11, E)
    assert_same(block(v, edges, e, offsets=offsets), block(v, edges, e, source(v, offsets), offsets))
    source = LearnedGlobals(U)
    block = ready(GraphNetwork(graph=GlobalUpdate(V, E, U, 5), global_source=source))
    found = block(v, edges, e, offsets=offsets)
    assert_same(found, block(v, edges, e, source.vector.expand(2, -1), offsets))
    found.global_features.square().sum().backward()
    assert source.vector.grad.any()
    assert not torch.equal(block(v, edges, e, normal(2, U), offsets).global_features, found.global_features)


def test_the_trace_holds_the_weights_of_every_attention():
    block, trace = full("attention", 3), Trace()
    v, e, u = inputs(GRAPH)
    assert_same(block(v, GRAPH, e, u, trace=trace), block(v, GRAPH, e, u))
    assert [tuple(weights.values.shape) for weights in trace.weights] == [(3, 8), (2, 8), (2, 6), (2, 8)]
    assert (trace.weights[0].to_dense().sum(-1) - torch.tensor([1.0, 1, 1, 0, 1, 0])).abs().max() < 1e-12


@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_cannot_be():
    with pytest.raises(SettingError, match="aggregation must be one of sum, mean, max, min, attention, not 'median'"):
        NodeUpdate(4, 2, 0, 8, aggregation="median")
    with pytest.raises(SettingError, match=r"EdgeUpdate: output_dim \(8\) must be a multiple of num_heads \(3\)"):
        EdgeUpdate(4, 2, 0, 8, num_heads=3)
    with pytest.raises(SettingError, match=r"what edges carry \(2\) must be a multiple of num_heads \(3\)"):
        NodeUpdate(4, 2, 0, 8, aggregation="attention", num_heads=3)


@pytest.mark.usefixtures("shapes_unchecked")
def test_rows_that_are_missing():
    block, (v, e, u) = full(), inputs(GRAPH)
    with pytest.raises(ShapeError, match="GraphNetwork: axis 'edge' is 1 in its features but 8 in the graph"):
        block(v, GRAPH, e[:1], u)
    with pytest.raises(ShapeError, match="GraphNetwork: axis 'graph' is 1 in its features but 2 in the graph"):
        block(v, GRAPH, e, u, torch.tensor([0, 2, 6]))


@pytest.mark.parametrize("num_heads", [None, 2])
def test_sources_and_targets_against_loops(num_heads):
    """Targets are updated, and are the nodes of the globals; sources are seen by the edges alone."""
    edge, node = EdgeUpdate((3, V), E, U, 6, 5, num_heads=num_heads), NodeUpdate(V, 6, U, 8)
    block = ready(GraphNetwork(edge, node, GlobalUpdate(8, 6, U, 7)))
    edges = Edges(torch.tensor([0, 4, 4, 2, 1]), torch.tensor([1, 0, 3, 3, 1]), 5, 4)
    source, target, along, known = normal(5, 3), normal(4, V), normal(5, E), normal(1, U)
    found = block((source, target), edges, along, known)
    ends = list(zip(edges.senders.tolist(), edges.receivers.tolist(), strict=True))
    messages = [network(edge.network, target[i], known[0], source[j], e) for (j, i), e in zip(ends, along, strict=True)]
    if num_heads is not None:
        queries = [affine(edge.query, torch.cat([target[i], known[0]])).view(num_heads, -1) for _, i in ends]
        keys = [
            (affine(edge.key, source[j]) + affine(edge.edge_key, e)).view(num_heads, -1)
            for (j, _), e in zip(ends, along, strict=True)
        ]
        scores = torch.stack([(q * k).sum(-1) / math.sqrt(6 / num_heads) for q, k in zip(queries, keys, strict=True)])
        for i in range(4):
            into = [place for place, (_, receiver) in enumerate(ends) if receiver == i]
            shares = scores[into].softmax(0)
            for place, share in zip(into, shares, strict=True):
                messages[place] = (messages[place].view(num_heads, -1) * share[:, None]).flatten()
    messages = torch.stack(messages)
    sums = torch.zeros(4, 6, dtype=messages.dtype).index_add(0, edges.receivers, messages)
    nodes = torch.stack([network(node.network, sums[i], target[i], known[0]) for i in range(4)])
    torch.testing.assert_close(found.edge_features, messages)
    torch.testing.assert_close(found.nodes, nodes)
    of_graph = network(block.graph.network, messages.sum(0), nodes.sum(0), known[0])
    torch.testing.assert_close(found.global_features[0], of_graph)
