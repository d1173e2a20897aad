"""Messages along edges that do not turn back: against loops in Python, a case by hand, and their gradients."""

import pytest
import torch
from torch.autograd import forward_ad

from edgewise import Edges, Trace
from edgewise.backends import formula
from edgewise.errors import SettingError, ShapeError
from edgewise.layers.directed import DirectedMessages, EdgeAttention, onward
from edgewise.layers.graph_attention import HopAttention
from edgewise.normalize import Sigmoid, Softmax


def edges_of(senders, receivers, num_nodes):
    return Edges(torch.tensor(senders).long(), torch.tensor(receivers).long(), num_nodes, num_nodes)


RING = edges_of([0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2], 3)
UNPAIRED = edges_of([0, 1, 1, 2, 3, 3, 0, 0], [1, 0, 0, 2, 1, 0, 3, 3], 5)
"""Parallel edges, a loop, edges of one way, and a node without any."""


def slowly(start, sent, edges):
    """The step by its sentence, one edge after the other."""
    rows = []
    for e, (sender, receiver) in enumerate(zip(edges.senders.tolist(), edges.receivers.tolist())):
        found = start[e].clone()
        for other, arrives_at in enumerate(edges.receivers.tolist()):
            if arrives_at == sender and other != int(edges.reverse[e]):
                found = found + sent[other]
        rows.append(found.clamp(min=0))
        assert receiver < edges.num_receivers
    return torch.stack(rows)


def test_the_edge_that_leads_back_is_found_one_by_one():
    assert RING.reverse.tolist() == [1, 0, 3, 2, 5, 4]
    assert UNPAIRED.reverse.tolist() == [1, 0, -1, 3, -1, 6, 5, -1]
    assert edges_of([], [], 0).reverse.tolist() == []
    with pytest.raises(ShapeError, match="different nodes"):
        _ = Edges(torch.tensor([0]), torch.tensor([0]), 1, 2).reverse


@pytest.mark.parametrize("edges", [RING, UNPAIRED, edges_of([], [], 2)], ids=["ring", "unpaired", "empty"])
@pytest.mark.parametrize("width", [16, 5])
def test_a_step_is_its_sentence(edges, width):
    torch.manual_seed(0)
    start, sent = (torch.randn(edges.num_edges, width, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = onward(start, sent, edges)
    expected = slowly(start, sent, edges) if edges.num_edges else start
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(formula.onward(start, sent, edges.reverse, edges.plan.lists), expected)
    if edges.num_edges:
        assert torch.autograd.gradcheck(lambda *given: onward(*given, edges), (start, sent))
        assert torch.autograd.gradgradcheck(lambda *given: onward(*given, edges), (start, sent))


def test_half_precision_takes_the_way_of_plain_torch():
    torch.manual_seed(0)
    start, sent = (torch.randn(UNPAIRED.num_edges, 8, dtype=torch.bfloat16) for _ in range(2))
    expected = slowly(start.double(), sent.double(), UNPAIRED)
    torch.testing.assert_close(onward(start, sent, UNPAIRED).double(), expected, rtol=2e-2, atol=2e-2)


def test_two_nodes_by_hand():
    """With one bond no message is passed on: each atom receives from the other once, whatever the number of steps."""
    layer = DirectedMessages(1, 0, 1, num_steps=4)
    with torch.no_grad():
        for weight, value in zip(layer.parameters(), (1.0, 1.0, 1.0, 0.5, 1.0), strict=True):
            weight.fill_(value)
    nodes = torch.tensor([[2.0], [3.0]])
    assert layer(nodes, edges_of([0, 1], [1, 0], 2)).tolist() == [[5.5], [5.5]]
    # On the ring 0 → 1 → 2 → 0 of one way nothing leads back: all goes round.
    assert layer(torch.ones(3, 1), edges_of([0, 1, 2], [1, 2, 0], 3)).tolist() == [[5.5]] * 3


def arriving_before(edges):
    """The pairs (e', e) by their definition: e' arrives where e leaves, and is not its reverse."""
    senders, receivers, reverse = (x.tolist() for x in (edges.senders, edges.receivers, edges.reverse))
    numbers = range(len(senders))
    return [(b, e) for e in numbers for b in numbers if receivers[b] == senders[e] and b != reverse[e]]


@pytest.mark.parametrize("edges", [RING, UNPAIRED, edges_of([], [], 2)], ids=["ring", "unpaired", "empty"])
def test_the_line_graph_has_every_edge_that_arrives_before(edges):
    line_graph = edges.line_graph
    pairs = list(zip(line_graph.senders.tolist(), line_graph.receivers.tolist()))
    assert sorted(pairs, key=lambda pair: pair[::-1]) == arriving_before(edges)
    assert line_graph.sizes == (edges.num_edges, edges.num_edges)
    assert edges.line_graph is line_graph
    assert edges.undirected().line_graph is not line_graph


@pytest.mark.parametrize("normalize", [Sigmoid(), Softmax()], ids=["sigmoid", "softmax"])
def test_edge_attention_is_its_equation(normalize):
    """Edge after edge, with a trace that gives the same weights."""
    torch.manual_seed(0)
    layer = EdgeAttention(4, 3, 6, num_steps=2, num_heads=2, key_dim=5, normalize=normalize).double()
    torch.nn.init.normal_(layer.query.weight)
    nodes, features = torch.randn(5, 4).double(), torch.randn(UNPAIRED.num_edges, 3).double()
    start = layer.start(nodes)[UNPAIRED.senders] + layer.edge(features)
    first, trace = torch.relu(start), Trace()
    rows, weights = [], {}

    for e in range(UNPAIRED.num_edges):
        before = [other for other, edge in arriving_before(UNPAIRED) if edge == e]
        heads = []
        for head in range(2):
            of_key, of_value = slice(5 * head, 5 * head + 5), slice(3 * head, 3 * head + 3)
            scores = layer.key(first[before])[:, of_key] @ layer.query(first[e])[of_key] / 5**0.5
            alpha = 2 * scores.sigmoid() if isinstance(normalize, Sigmoid) else scores.softmax(0)
            heads.append(alpha @ layer.step(first[before])[:, of_value])
            weights |= {(head, other, e): weight for other, weight in zip(before, alpha.tolist())}
        rows.append(torch.relu(start[e] + torch.cat(heads)))

    arrived = torch.zeros(5, 6).double().index_add(0, UNPAIRED.receivers, torch.stack(rows))
    expected = torch.relu(layer.itself(nodes) + layer.arriving(arrived))
    torch.testing.assert_close(layer(nodes, UNPAIRED, features, trace=trace), expected)

    (step,) = trace.weights
    found = zip(step.senders.tolist(), step.receivers.tolist(), step.values.T.tolist())
    ends = [(int(UNPAIRED.senders[other]), int(UNPAIRED.receivers[e])) for other, e in arriving_before(UNPAIRED)]
    of_heads = [[weights[head, *pair] for head in range(2)] for pair in arriving_before(UNPAIRED)]
    assert [(sender, receiver) for sender, receiver, _ in found] == ends
    torch.testing.assert_close(step.values.T.tolist(), of_heads)


def test_a_trace_of_some_nodes_has_the_weights_by_which_they_attend():
    torch.manual_seed(0)
    layer, nodes = EdgeAttention(4, 0, 6, num_heads=2), torch.randn(5, 4)
    torch.nn.init.normal_(layer.query.weight)
    whole, some, first = Trace(), Trace(queries=[0, 3]), Trace(top=1)
    for trace in (whole, some, first):
        layer(nodes, UNPAIRED, trace=trace)
    everything, chosen = whole.weights[0], some.weights[0]
    is_chosen = (everything.receivers == 0) | (everything.receivers == 3)
    assert torch.equal(chosen.values, everything.values[:, is_chosen])
    assert torch.equal(chosen.senders, everything.senders[is_chosen])
    assert first.weights[0].values.shape[-1] < everything.values.shape[-1]


def test_it_begins_as_the_messages_unweighted():
    """Its queries are zero, where every gate is 1; what it learns first are queries."""
    torch.manual_seed(0)
    attention, plain = EdgeAttention(4, 0, 6, num_heads=2), DirectedMessages(4, 0, 6)
    attention.load_state_dict(plain.state_dict(), strict=False)
    nodes = torch.randn(5, 4)
    out = attention(nodes, UNPAIRED)
    torch.testing.assert_close(out, plain(nodes, UNPAIRED))
    (gradient,) = torch.autograd.grad(out.square().sum(), attention.query.weight)
    assert gradient.abs().max() > 0


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"num_heads": 4}, r"output_dim \(6\) must be a multiple of num_heads \(4\)"),
        ({"num_heads": 0}, "num_heads must be a whole number of at least 1, not 0"),
        ({"score": "dot"}, "score must be 'scaled_dot' or 'constant', not 'dot'"),
        ({"num_steps": 0}, "num_steps must be a whole number of at least 1, not 0"),
    ],
)
def test_settings_that_do_not_fit(given, match, shapes_unchecked):
    with pytest.raises(SettingError, match=match):
        EdgeAttention(4, 0, 6, **{"num_heads": 2, **given})


def test_the_layer_follows_the_order_of_nodes_and_edges():
    torch.manual_seed(0)
    layer, nodes, edge = DirectedMessages(4, 3, 8, num_steps=3), torch.randn(3, 4), torch.randn(6, 3)
    order, places = torch.randperm(6), torch.randperm(3)
    at = places.argsort()
    shuffled = Edges(at[RING.senders[order]], at[RING.receivers[order]], 3, 3)
    torch.testing.assert_close(layer(nodes[places], shuffled, edge[order]), layer(nodes, RING, edge)[places])


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([-1], "query -1 is chosen, but they are 0 … 2"),
        ([3], "query 3 is chosen, but they are 0 … 2"),
        (torch.tensor([True, False]), r"a mask of queries must have the shape \(3,\)"),
    ],
)
def test_queries_of_a_trace_that_do_not_exist_are_refused_as_elsewhere(queries, message):
    with pytest.raises(ShapeError, match=message):
        EdgeAttention(4, 0, 4, num_heads=2)(torch.randn(3, 4), RING, trace=Trace(queries=queries))


def test_what_does_not_fit_is_refused():
    layer = DirectedMessages(4, 3, 8)
    with pytest.raises(ShapeError, match="axis 'feature' is 2"):
        layer(torch.zeros(5, 2), UNPAIRED, torch.zeros(8, 3))
    with pytest.raises(ShapeError, match="expected edge features"):
        layer(torch.zeros(5, 4), UNPAIRED, torch.zeros(7, 3))


def test_forward_derivatives_of_messages():
    graph = Edges(torch.tensor([0, 1, 2, 3, 1, 2, 3, 4]), torch.tensor([1, 2, 3, 4, 0, 1, 2, 3]), 5, 5)
    layer, generator = DirectedMessages(8, 0, 8).double(), torch.Generator().manual_seed(0)
    nodes, tangent = (torch.randn(5, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    with torch.no_grad(), forward_ad.dual_level():
        derivative = forward_ad.unpack_dual(layer(forward_ad.make_dual(nodes, tangent), graph)).tangent
    with torch.no_grad():
        wanted = (layer(nodes + 1e-6 * tangent, graph) - layer(nodes - 1e-6 * tangent, graph)) / 2e-6
    torch.testing.assert_close(derivative, wanted, rtol=1e-6, atol=1e-6)


def test_a_learned_temperature_is_a_parameter_and_calls_take_other_parameters():
    graph, nodes = Edges(torch.tensor([0, 1, 2, 1]), torch.tensor([1, 2, 0, 0]), 3, 3), torch.randn(3, 8)
    for make in (lambda normalize: EdgeAttention(8, 0, 8, num_heads=2, normalize=normalize),
                 lambda normalize: HopAttention(8, 2, normalize=normalize)):  # fmt: skip
        temperature = torch.nn.Parameter(torch.tensor(2.0))
        layer = make(Softmax(temperature))
        assert any(parameter is temperature for parameter in layer.parameters())
        assert layer.double()(nodes.double(), graph).dtype == torch.float64
        layer.float()
        held = {name: parameter.detach() for name, parameter in layer.named_parameters()}
        torch.testing.assert_close(torch.func.functional_call(layer, held, (nodes, graph)), layer(nodes, graph))
