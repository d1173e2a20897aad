"""A sparse layer over a graph and a dense one over the same graph as a mask give the same numbers and gradients.

Every layer that takes a graph stands here. Where it takes a `Mask` too, that is its dense form: other kernels run.
Where it takes `Edges` alone, mostly for features of edges, its dense form is written out over all pairs of nodes.
"""

import inspect
import math
import typing

import pytest
import torch
from torch import nn

from edgewise import Entmax15, Mask, Sigmoid, Softmax, Sparsemax, layers
from edgewise.layers import (
    DirectedMessages,
    EdgeAttention,
    EdgeUpdate,
    EquivariantLayer,
    GatedGraphAttention,
    GlobalUpdate,
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
    PairForce,
    Readout,
    ResidualBlock,
    SymmetricConvolution,
)
from edgewise.neighborhood import Neighborhood, membership
from graph_cases import OTHER, SIMPLE, normal, packed, ready

BLIND = {
    "GraphPosition": "adds to each node for itself",
    "TypedLinear": "turns each node by itself",
    "LearnedGlobals": "looks at no node",
    "LearnedPosition": "adds to each node for itself",
    "NodeStatistics": "nodes of a graph, without pairs",
    "PairPosition": "part of MultiHeadAttention",
    "ALiBi": "part of MultiHeadAttention",
    "RotaryPosition": "part of MultiHeadAttention",
    "ShawPosition": "part of MultiHeadAttention",
    "SinusoidalPosition": "adds to each node for itself",
    "T5Position": "part of MultiHeadAttention",
    "RecurrentDecoder": "looks at a padded text, not at a graph",
    "RecurrentEncoder": "attends to nothing",
}
"""Modules of `edgewise.layers` that see no graph, and why."""
LOOPS = {"RelationalAttention", "RelationalConvolution"}
"""Modules over `Relations`, which one table cannot say: test_relation judges them by loops over nodes and edges."""

EDGES, OFFSETS = packed(SIMPLE, OTHER)
MASK = EDGES.to_mask()
NUM_NODES = EDGES.num_receivers
GRAPH_OF_NODE = membership(OFFSETS, NUM_NODES).receivers
MEMBERS = torch.arange(2)[:, None] == GRAPH_OF_NODE


# What the dense forms share


def over_pairs(edge):
    """A table (query, key, feature) of what edges carry; zero where there is no edge."""
    return edge.new_zeros(NUM_NODES, NUM_NODES, edge.shape[-1]).index_put((EDGES.receivers, EDGES.senders), edge)


def of_edges(table):
    """The rows of such a table that are edges, in their order."""
    return table[EDGES.receivers, EDGES.senders]


def weighed(scores, mask):
    """Softmax over the pairs of a mask, last axis; zero in a row without any."""
    grown = torch.exp(scores) * mask
    total = grown.sum(-1, keepdim=True)
    return grown / torch.where(total == 0, 1.0, total)


def heads_of(nodes, num_heads):
    """`(…, node, head · dim)` as `(head, …, node, dim)`."""
    return nodes.unflatten(-1, (num_heads, -1)).movedim(-2, 0)


def joined(heads):
    return heads.movedim(0, -2).flatten(-2)


def brought_together(aggregation, table, receivers, mask):
    """`Aggregation`, from a table (query, key, feature)."""
    inside = mask.unsqueeze(-1)
    if aggregation.aggregation == "attention":
        key, value = (heads_of(part(table), aggregation.num_heads) for part in (aggregation.key, aggregation.value))
        query = aggregation.query(receivers) if aggregation.receiver_dim else aggregation.learned_query
        query = heads_of(query.expand(mask.shape[0], -1), aggregation.num_heads)
        scores = (query.unsqueeze(-2) * key).sum(-1) / math.sqrt(key.shape[-1])
        return joined((weighed(scores, mask).unsqueeze(-1) * value).sum(-2))
    total = (table * inside).sum(-2)
    if aggregation.aggregation == "mean":
        return total / mask.sum(-1, keepdim=True).clamp(min=1)
    if aggregation.aggregation in ("max", "min"):
        sign = 1 if aggregation.aggregation == "max" else -1
        largest = torch.where(inside, sign * table, -math.inf).amax(-2)
        return torch.where(mask.any(-1, keepdim=True), sign * largest, 0.0)
    return total


def perceived(network, receivers, senders, table):
    """`EdgePerceptron`, on all pairs."""
    size = len(senders)
    parts = receivers[:, None].expand(-1, size, -1), senders[None].expand(size, -1, -1), table
    return network.second(network.activation(network.first(torch.cat(parts, -1))))


# The cases: a layer, what goes in, its sparse form and its dense one


def over_masks(layer, *inputs):
    """A layer that takes any neighborhood."""
    return layer, inputs, lambda *given: layer(*given, EDGES), lambda *given: layer(*given, Mask(MASK))


def multi_head(**settings):
    layer = MultiHeadAttention(6, 3, **settings)
    x = normal(2, NUM_NODES, 6)
    return layer, [x], lambda x: layer(x, neighborhood=EDGES), lambda x: layer(x, neighborhood=Mask(MASK))


def attended(layer, x, edge):
    """Multi-head attention with edge features, on all pairs."""
    query, key, value = (heads_of(part(x), layer.num_heads) for part in (layer.query, layer.key, layer.value))
    edge_key, edge_value, bias = layer.edge(over_pairs(edge)).split(layer.edge_sizes, -1)
    edge_key, edge_value = (heads_of(part, layer.num_heads) for part in (edge_key, edge_value))
    scores = (query.unsqueeze(-2) * (key.unsqueeze(-3) + edge_key)).sum(-1) / math.sqrt(key.shape[-1])
    weights = weighed(scores + bias.movedim(-1, 0), MASK)
    return layer.output(joined((weights.unsqueeze(-1) * (value.unsqueeze(-3) + edge_value)).sum(-2)))


def multi_head_with_edges():
    layer = MultiHeadAttention(6, 3, edge_dim=2)
    inputs = normal(NUM_NODES, 6), normal(EDGES.num_edges, 2)
    return (
        layer,
        inputs,
        lambda x, e: layer(x, neighborhood=EDGES, edge_features=e),
        lambda x, e: attended(layer, x, e),
    )


def block_with_edges():
    layer = ResidualBlock(MultiHeadAttention(6, 3, edge_dim=2), 6, 9)

    def dense(x, e):
        x = x + attended(layer.attention, layer.attention_norm(x), e)
        return x + layer.feed_forward(layer.feed_forward_norm(x))

    return (
        layer,
        [normal(NUM_NODES, 6), normal(EDGES.num_edges, 2)],
        lambda x, e: layer(x, EDGES, edge_features=e),
        dense,
    )


def directed(x):
    """Messages in a table (sender, receiver), where that of the edge back stands at the mirrored place."""
    layer, mask = DirectedMessages(4, 0, 6, num_steps=3), MASK.T.unsqueeze(-1)

    def dense(x):
        start = layer.start(x).unsqueeze(-2) * mask
        messages = torch.relu(start)
        for _ in range(2):
            sent = layer.step(messages) * mask
            onward = sent.sum(-3).unsqueeze(-2) - sent.transpose(-3, -2)
            messages = torch.relu(start + onward) * mask
        return torch.relu(layer.itself(x) + layer.arriving(messages.sum(-3)))

    return layer, [x], lambda x: layer(x, EDGES), dense


def edge_attention(x, normalize):
    """Edges in a table (sender, receiver); (k, j) is a neighbor of (j, i) for every k but i."""
    layer, mask = EdgeAttention(4, 0, 6, num_steps=3, num_heads=2, key_dim=3, normalize=normalize), MASK.T
    nn.init.normal_(layer.query.weight)
    num_edges = NUM_NODES**2
    sender, receiver = torch.arange(num_edges) // NUM_NODES, torch.arange(num_edges) % NUM_NODES
    is_edge = mask.flatten()
    follows = (receiver[None] == sender[:, None]) & (sender[None] != receiver[:, None]) & is_edge & is_edge[:, None]

    def dense(x):
        start = layer.start(x).index_select(-2, sender) * is_edge.unsqueeze(-1)
        messages = torch.relu(start)
        for _ in range(2):
            query, key, value = (
                part(messages).unflatten(-1, (2, 3)).transpose(-2, -3) for part in (layer.query, layer.key, layer.step)
            )
            scores = query @ key.mT / 3**0.5
            if isinstance(normalize, Sigmoid):
                weights = 2 * torch.sigmoid(scores) * follows
            else:
                weights = torch.where(follows, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
            heads = (weights @ value).transpose(-2, -3).flatten(-2)
            messages = torch.relu(start + heads) * is_edge.unsqueeze(-1)
        arrived = messages.unflatten(-2, (NUM_NODES, NUM_NODES)).sum(-3)
        return torch.relu(layer.itself(x) + layer.arriving(arrived))

    return layer, [x], lambda x: layer(x, EDGES), dense


def graph_attention(score, combine):
    layer = GraphAttention(4, 6, 3, score=score, combine=combine)

    def dense(x):
        sides = [heads_of(side, 3) for side in layer.linear(x).chunk(1 if score == "gat" else 2, -1)]
        query, key = sides[0].unsqueeze(-2), sides[-1].unsqueeze(-3)
        vector = layer.vector[:, None, None]
        if score == "gat":
            scores = nn.functional.leaky_relu(
                (query * vector).sum(-1) + (key * layer.key_vector[:, None, None]).sum(-1), 0.2
            )
        else:
            scores = (nn.functional.leaky_relu(query + key, 0.2) * vector).sum(-1)
        heads = weighed(scores, MASK) @ sides[-1]
        return (heads.mean(0) if combine == "mean" else joined(heads)) + layer.bias

    return layer, [normal(NUM_NODES, 4)], lambda x: layer(x, EDGES), dense


def evenly():
    """D^−½ (A + I) D^−½ as a table."""
    table = MASK.double() + torch.eye(NUM_NODES, dtype=torch.float64)
    roots = table.sum(1).rsqrt()
    return roots[:, None] * table * roots


def hops(normalize):
    layer = HopAttention(4, 3, normalize=normalize)

    def dense(x):
        versions = torch.stack([torch.linalg.matrix_power(evenly(), k) @ x for k in range(4)], -2)
        scores = versions @ layer.query[0]
        weights = scores.softmax(-1) if isinstance(normalize, Softmax) else scores.sigmoid()
        return (weights.unsqueeze(-1) * versions).sum(-2)

    return layer, [normal(NUM_NODES, 4)], lambda x: layer(x, EDGES), dense


def force():
    layer = PairForce(5)

    def dense(x, c):
        apart = x[None] - x[:, None]
        squares = apart.square().sum(-1)
        squares = torch.where(squares == 0, 1.0, squares)
        pull = over_pairs(c.unsqueeze(-1)).squeeze(-1) * layer.strength(squares) * squares.rsqrt() * MASK
        return (pull.unsqueeze(-1) * apart).sum(1)

    return layer, [normal(NUM_NODES, 3), normal(EDGES.num_edges)], lambda x, c: layer(x, EDGES, c), dense


def symmetric():
    layer = SymmetricConvolution(4, 3, torch.tanh)
    return layer, [normal(2, NUM_NODES, 4)], lambda x: layer(x, EDGES), lambda x: (evenly() @ layer.linear(x)).tanh()


def mean():
    layer = MeanConvolution(4, 3, torch.tanh)
    rows = MASK / MASK.sum(1, keepdim=True).clamp(min=1).double()
    return (
        layer,
        [normal(2, NUM_NODES, 4)],
        lambda x: layer(x, EDGES),
        lambda x: (rows @ layer.neighbors(x) + layer.itself(x)).tanh(),
    )


def molecule(kernel, bond_aggregation):
    layer = MoleculeAttention(6, 3, kernel=kernel, bond_aggregation=bond_aggregation)
    together = EDGES.with_self_loops()
    inputs = normal(NUM_NODES, 6), normal(NUM_NODES, 3)
    table = Mask(together.to_mask())
    return layer, inputs, lambda h, x: layer(h, x, EDGES, together), lambda h, x: layer(h, x, Mask(MASK), table)


def equivariant(**settings):
    layer = EquivariantLayer(4, 5, edge_dim=2, **settings)

    def dense(h, x, e, v=None):
        difference = x[:, None] - x[None]
        squares = difference.square().sum(-1, keepdim=True)
        message = layer.activation(perceived(layer.message, h, h, torch.cat([squares, over_pairs(e)], -1)))
        if layer.has_bounded_steps:
            apart = squares > 0
            difference = difference / (1 + torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0))
        moved = (layer.step(message) * difference * MASK.unsqueeze(-1)).sum(1)
        if layer.aggregation == "mean":
            moved = moved / MASK.sum(1, keepdim=True).clamp(min=1)
        if layer.has_velocities:
            moved = v = layer.momentum(h) * v + moved
        weights = MASK.double()
        if layer.normalize is not None:
            scores = layer.score(message).squeeze(-1)
            weights = weighed(scores, MASK) if "Softmax" in str(layer.normalize()) else scores.sigmoid() * MASK
        together = (weights.unsqueeze(-1) * message).sum(1)
        places = (h + layer.node(torch.cat([h, together], -1)), x + moved)
        return (*places, v) if layer.has_velocities else places

    def sparse(h, x, e, v=None):
        found = layer(h, x, EDGES, edge_features=e, velocities=v)
        return tuple(part for part in found if part is not None)

    inputs = [normal(NUM_NODES, 4), normal(NUM_NODES, 3), normal(EDGES.num_edges, 2)]
    return layer, [*inputs, normal(NUM_NODES, 3)] if layer.has_velocities else inputs, sparse, dense


def edges_updated(update, v, table, u):
    """`EdgeUpdate`, on all pairs."""
    receivers = torch.cat([v, u[GRAPH_OF_NODE]], -1)
    message = perceived(update.network, receivers, v, table)
    if update.num_heads is None:
        return message
    query, key = heads_of(update.query(receivers), update.num_heads), heads_of(update.key(v), update.num_heads)
    pairs = key.unsqueeze(-3) + heads_of(update.edge_key(table), update.num_heads)
    weights = weighed((query.unsqueeze(-2) * pairs).sum(-1) / math.sqrt(key.shape[-1]), MASK)
    return joined(heads_of(message, update.num_heads) * weights.unsqueeze(-1))


def nodes_updated(update, v, table, u):
    """`NodeUpdate`, on all pairs."""
    own = torch.cat([v, u[GRAPH_OF_NODE]], -1)
    return update.network(torch.cat([brought_together(update.together, table, own, MASK), own], -1))


def graphs_updated(update, v, table, u):
    """`GlobalUpdate`, on all pairs and nodes."""
    nodes = brought_together(update.nodes_together, v.expand(2, -1, -1), u, MEMBERS)
    of_pair = (MEMBERS[:, :, None] & MASK).flatten(1)
    edges = brought_together(update.edges_together, table.flatten(0, 1).expand(2, -1, -1), u, of_pair)
    return update.network(torch.cat([edges, nodes, u], -1))


def known():
    """Nodes, edges and globals of two graphs."""
    return normal(NUM_NODES, 4), normal(EDGES.num_edges, 2), normal(2, 3)


def update(layer, dense, shown=lambda found: found):
    return (
        layer,
        known(),
        lambda v, e, u: layer(v, EDGES, e, u, GRAPH_OF_NODE),
        lambda v, e, u: shown(dense(layer, v, over_pairs(e), u)),
    )


def network(how, num_heads):
    layer = GraphNetwork(
        EdgeUpdate(4, 2, 3, 6, num_heads=num_heads),
        NodeUpdate(4, 6, 3, 4, aggregation=how, num_heads=2),
        GlobalUpdate(4, 6, 3, 3, edge_aggregation=how, node_aggregation=how, num_heads=2),
    )

    def dense(v, e, u):
        table = edges_updated(layer.edge, v, over_pairs(e), u)
        nodes = nodes_updated(layer.node, v, table, u)
        return nodes, of_edges(table), graphs_updated(layer.graph, nodes, table, u)

    return layer, known(), lambda v, e, u: tuple(layer(v, EDGES, e, u, OFFSETS)), dense


def readout(how):
    layer = Readout(6, how, 3)

    def dense(x):
        table = x.expand(2, -1, -1)
        if how != "attention":
            layer.receiver_dim = 0
            return brought_together(layer, table, None, MEMBERS)
        key, value = (heads_of(part(x), 3) for part in (layer.key, layer.value))
        weights = weighed(layer.query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1]), MEMBERS)
        return joined(weights @ value)

    return layer, [normal(NUM_NODES, 6)], lambda x: layer(x, OFFSETS), dense


HOWS = ("sum", "mean", "max", "min", "attention")
CASES = {
    "MultiHeadAttention": multi_head,
    **{
        f"MultiHeadAttention {normalize}": lambda normalize=normalize: multi_head(normalize=normalize)
        for normalize in (Sigmoid(), Sparsemax(), Entmax15())
    },
    "MultiHeadAttention with features of edges": multi_head_with_edges,
    "ResidualBlock": lambda: over_masks(ResidualBlock(MultiHeadAttention(6, 3), 6, 9), normal(2, NUM_NODES, 6)),
    "ResidualBlock post": lambda: over_masks(
        ResidualBlock(MultiHeadAttention(6, 3, score="gatv2"), 6, 9, norm="post"), normal(2, NUM_NODES, 6)
    ),
    "ResidualBlock with features of edges": block_with_edges,
    **{
        f"GraphAttention {score} {combine}": lambda score=score, combine=combine: graph_attention(score, combine)
        for score in ("gat", "gatv2")
        for combine in ("concatenate", "mean")
    },
    "GatedGraphAttention": lambda: over_masks(GatedGraphAttention(4, 7, 2), normal(2, NUM_NODES, 4)),
    "GraphGRU": lambda: over_masks(GraphGRU(4, 6, 2), normal(2, NUM_NODES, 4)),
    "HopAttention sigmoid": lambda: hops(Sigmoid()),
    "HopAttention softmax": lambda: hops(Softmax()),
    "SymmetricConvolution": symmetric,
    "MeanConvolution": mean,
    **{
        f"NeighborConvolution {how}": lambda how=how: over_masks(
            NeighborConvolution(4, 3, how, activation=torch.tanh), normal(2, NUM_NODES, 4)
        )
        for how in ("mean", "sum", "max")
    },
    "IsomorphismConvolution": lambda: over_masks(
        IsomorphismConvolution(4, 3, activation=torch.tanh), normal(2, NUM_NODES, 4)
    ),
    **{
        f"MoleculeAttention {kernel} {how}": lambda kernel=kernel, how=how: molecule(kernel, how)
        for kernel in ("softmax", "exponential")
        for how in ("sum", "mean")
    },
    "DirectedMessages": lambda: directed(normal(NUM_NODES, 4)),
    "DirectedMessages of a batch": lambda: directed(normal(2, NUM_NODES, 4)),
    **{
        f"EdgeAttention {normalize}": lambda normalize=normalize: edge_attention(normal(NUM_NODES, 4), normalize)
        for normalize in (Sigmoid(), Softmax())
    },
    "EdgeAttention of a batch": lambda: edge_attention(normal(2, NUM_NODES, 4), Sigmoid()),
    "PairForce": force,
    "EquivariantLayer": equivariant,
    "EquivariantLayer attention": lambda: equivariant(normalize=Softmax()),
    "EquivariantLayer gates": lambda: equivariant(normalize=Sigmoid(), aggregation="sum", has_bounded_steps=True),
    "EquivariantLayer velocities": lambda: equivariant(normalize=Softmax(), has_velocities=True),
    "EdgeUpdate": lambda: update(EdgeUpdate(4, 2, 3, 6), edges_updated, of_edges),
    "EdgeUpdate attention": lambda: update(EdgeUpdate(4, 2, 3, 6, num_heads=3), edges_updated, of_edges),
    **{
        f"NodeUpdate {how}": lambda how=how: update(NodeUpdate(4, 2, 3, 5, aggregation=how, num_heads=2), nodes_updated)
        for how in HOWS
    },
    **{
        f"GlobalUpdate {how}": lambda how=how: update(
            GlobalUpdate(4, 2, 3, 5, edge_aggregation=how, node_aggregation=how, num_heads=2), graphs_updated
        )
        for how in HOWS
    },
    "GraphNetwork": lambda: network("sum", None),
    "GraphNetwork attention": lambda: network("attention", 3),
    **{f"Readout {how}": lambda how=how: readout(how) for how in ("mean", "sum", "max", "attention")},
}
"""The first word of a name is the class of the layer."""


@pytest.mark.parametrize("name", CASES)
def test_both_forms_give_the_same_numbers_and_gradients(name):
    torch.manual_seed(1)
    layer, inputs, sparse, dense = CASES[name]()
    assert type(layer).__name__ == name.split()[0]
    ready(layer)
    inputs = [each.requires_grad_() for each in inputs]
    leaves = [*inputs, *layer.parameters()]
    found, slopes = [], []
    for form in (sparse, dense):
        outputs = form(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found.append([output.detach() for output in outputs])
        total = sum((output * torch.arange(1, output.numel() + 1).view_as(output).sin()).sum() for output in outputs)
        given = torch.autograd.grad(total, leaves, allow_unused=True)
        slopes.append([torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, given)])
    assert len(found[0]) == len(found[1])
    for one, other in zip([*found[0], *slopes[0]], [*found[1], *slopes[1]]):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)
    assert all(bool(slope.abs().sum() > 0) for slope in slopes[0][: len(inputs)]), "every input matters"


def modules():
    """The layers that are public."""
    named = {name: getattr(layers, name) for name in layers.__all__}
    return {name for name, value in named.items() if inspect.isclass(value) and issubclass(value, nn.Module)}


def takes_a_graph(name):
    """Whether a layer is called with a neighborhood."""
    kinds = [taken.annotation for taken in inspect.signature(getattr(layers, name).forward).parameters.values()]
    kinds = [part for kind in kinds for part in typing.get_args(kind) or [kind]]
    return any(inspect.isclass(kind) and issubclass(kind, Neighborhood) for kind in kinds)


def test_no_layer_is_left_out():
    """A new one stands in `CASES`, in `BLIND` or in `LOOPS`; and what takes a graph is compared."""
    compared = {name.split()[0] for name in CASES}
    assert compared | set(BLIND) | LOOPS == modules()
    takers = {name for name in modules() if takes_a_graph(name)}
    assert takers - {"Readout"} == compared - {"Readout"}, "which takes offsets, or edges"
