"""Layers: the same numbers for a sequence and its graph, every way to combine heads, the dense forms, the trace."""

import copy
import functools
import math

import pytest
import torch
from torch import nn

from cases import all_backends
from edgewise import (
    Additive,
    Causal,
    Edges,
    Entmax15,
    Full,
    Identity,
    Lengths,
    Mask,
    Segments,
    SettingError,
    ShapeError,
    Sigmoid,
    Softmax,
    Sparsemax,
    Trace,
)
from edgewise.choices import COMBINES, SCORES
from edgewise.layers import (
    HopAttention,
    MeanConvolution,
    MultiHeadAttention,
    Readout,
    ResidualBlock,
    SymmetricConvolution,
)
from edgewise.layers.readout import AGGREGATIONS

PAIRS = Edges(torch.tensor([0, 2, 3, 1, 0, 4, 4]), torch.tensor([1, 1, 1, 0, 2, 2, 4]), 5, 5)


def ready(layer):
    """The layer in float64, for tight comparisons."""
    return layer.double().eval()


def nodes(*batch, num_nodes=5, dim=12):
    return torch.randn(*batch, num_nodes, dim, dtype=torch.float64)


@pytest.mark.parametrize(
    ("combine", "score"),
    [
        # What combines the heads does not see the score: kernels are compiled for every score, and for every way once.
        pytest.param(
            combine, score, marks=() if combine == COMBINES[0] or score == "scaled_dot" else pytest.mark.nightly
        )
        for combine in COMBINES
        for score in SCORES
    ],
)
def test_a_mask_and_its_edges_give_the_same_numbers(score, combine):
    layer = ready(MultiHeadAttention(12, 3, score=score, combine=combine))
    x = nodes(2)
    table, listed = layer(x, neighborhood=Mask(PAIRS.to_mask())), layer(x, neighborhood=PAIRS)
    assert table.shape == (2, 5, layer.output_dim)
    torch.testing.assert_close(table, listed)
    parameters = list(layer.parameters())
    for one, other in zip(
        *(torch.autograd.grad(x.square().sum(), parameters, allow_unused=True) for x in (table, listed))
    ):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("score", SCORES)
def test_every_parameter_of_every_score_learns(score):
    layer = MultiHeadAttention(12, 3, score=score)
    layer(torch.randn(2, 5, 12)).square().sum().backward()
    silent = [name for name, p in layer.named_parameters() if p.grad is None or p.grad.abs().sum() < 1e-12]
    # A bias on all keys shifts all dot products of a row alike, which softmax does not see.
    products = {"scaled_dot", "dot", "bilinear"}
    blind = {"query.weight", "query.bias", "key.weight", "key.bias"}
    assert set(silent) <= ({"key.bias"} if score in products else blind if score == "constant" else set())


@pytest.mark.parametrize(
    "normalize", [Softmax(), Softmax(0.0), Softmax(math.inf), Sparsemax(), Entmax15(), Sigmoid(), Identity()], ids=str
)
def test_any_normalizer(normalize):
    layer = ready(MultiHeadAttention(12, 3, normalize=normalize))
    x = nodes(2)
    torch.testing.assert_close(layer(x, neighborhood=Mask(PAIRS.to_mask())), layer(x, neighborhood=PAIRS))


def by_hand(layer, query, key, value, mask):
    """Multi-head attention with scaled dot products, head by head."""
    q, k, v = layer.query(query), layer.key(key), layer.value(value)
    heads = []
    groups = layer.num_heads * k.shape[-1] // q.shape[-1]
    key_dim = q.shape[-1] // layer.num_heads
    value_dim = v.shape[-1] // groups
    for h in range(layer.num_heads):
        shared = h * groups // layer.num_heads
        left, right = q[..., h * key_dim : (h + 1) * key_dim], k[..., shared * key_dim : (shared + 1) * key_dim]
        scores = (left @ right.transpose(-2, -1) / math.sqrt(key_dim)).masked_fill(~mask, -math.inf)
        heads.append(torch.softmax(scores, -1).nan_to_num(0.0) @ v[..., shared * value_dim : (shared + 1) * value_dim])
    return heads


@pytest.mark.parametrize("num_key_heads", [6, 3, 2, 1])
def test_heads_by_hand_also_when_keys_are_shared(num_key_heads):
    layer = ready(MultiHeadAttention(12, 6, num_key_heads=num_key_heads))
    x, mask = nodes(2), PAIRS.to_mask()
    expected = layer.output(torch.cat(by_hand(layer, x, x, x, mask), -1))
    torch.testing.assert_close(layer(x, neighborhood=Mask(mask)), expected)
    torch.testing.assert_close(layer(x, neighborhood=PAIRS), expected)
    per_member = Lengths(torch.tensor([2, 5]))
    expected = layer.output(torch.cat(by_hand(layer, x, x, x, per_member.to_mask(5, 5)), -1))
    torch.testing.assert_close(layer(x, neighborhood=per_member), expected)


@pytest.mark.parametrize("combine", COMBINES)
def test_the_ways_to_combine_heads(combine):
    layer = ready(MultiHeadAttention(12, 3, combine=combine, value_dim=5))
    if combine == "weights":
        nn.init.normal_(layer.head_weights)
    x = nodes(2)
    heads = by_hand(layer, x, x, x, Full().to_mask(5))
    expected = {
        "concatenate": lambda: layer.output(torch.cat(heads, -1)),
        "weights": lambda: sum(w * head for w, head in zip(layer.head_weights, heads)),
        "tensor": lambda: sum(head @ matrix for matrix, head in zip(layer.head_tensor, heads)),
        "mean": lambda: sum(heads) / 3,
        "max": lambda: torch.stack(heads).amax(0),
    }[combine]()
    torch.testing.assert_close(layer(x), expected)
    assert layer.output_dim == (12 if combine == "concatenate" else 5)


@pytest.mark.parametrize("combine", COMBINES)
def test_without_projections_the_input_is_split_into_heads(combine):
    layer = ready(MultiHeadAttention(12, 3, project=False, combine=combine))
    x = nodes(2)
    names = [name for name, _ in layer.named_parameters()]
    assert names == {
        "concatenate": ["output.weight", "output.bias"],
        "weights": ["head_weights"],
        "tensor": ["head_tensor"],
    }.get(combine, [])
    heads = [torch.softmax(p @ p.transpose(-2, -1) / 2, -1) @ p for p in x.split(4, -1)]
    out = layer(x)
    assert out.shape == (2, 5, 12 if combine == "concatenate" else 4)
    if combine == "mean":
        torch.testing.assert_close(out, sum(heads) / 3)
    if combine == "concatenate":
        torch.testing.assert_close(out, layer.output(torch.cat(heads, -1)))


def test_three_different_sources():
    layer = ready(MultiHeadAttention(12, 3, source_dim=7, value_source_dim=4, key_dim=5, value_dim=2))
    query, key, value = nodes(2), nodes(2, num_nodes=8, dim=7), nodes(2, num_nodes=8, dim=4)
    out = layer(query, key, value)
    assert out.shape == (2, 5, 12)
    heads = by_hand(layer, query, key, value, Full().to_mask(5, 8))
    torch.testing.assert_close(out, layer.output(torch.cat(heads, -1)))


def test_key_defaults_to_query_and_value_to_key():
    layer = ready(MultiHeadAttention(12, 3))
    x, y = nodes(2), nodes(2, num_nodes=7)
    assert torch.equal(layer(x), layer(x, x, x))
    assert torch.equal(layer(x, y), layer(x, y, y))
    assert not torch.equal(layer(x, y), layer(x, y, nodes(2, num_nodes=7)))


def test_one_source_serves_a_whole_batch():
    layer = ready(MultiHeadAttention(12, 3))
    x, y = nodes(2), nodes(num_nodes=7)
    torch.testing.assert_close(layer(x, y), layer(x, y.expand(2, 7, 12)))
    assert layer(nodes(2, 3), y).shape == (2, 3, 5, 12)


@pytest.mark.parametrize("num_key_heads", [3, 1])
@pytest.mark.parametrize("score", ["scaled_dot", "gatv2", "constant"])
def test_edge_features_enter_key_value_and_bias_of_every_head(num_key_heads, score):
    layer = ready(MultiHeadAttention(12, 3, edge_dim=6, num_key_heads=num_key_heads, score=score))
    x, edge = nodes(2), torch.randn(2, PAIRS.num_edges, 6, dtype=torch.float64)
    out = layer(x, neighborhood=PAIRS, edge_features=edge)
    q, k, v = layer.query(x), layer.key(x), layer.value(x)
    edge_key, edge_value, edge_bias = layer.edge(edge).split([12, 12, 3], -1)
    heads = []
    for h in range(3):
        own, shared = slice(4 * h, 4 * h + 4), slice(0, 4) if num_key_heads == 1 else slice(4 * h, 4 * h + 4)
        left = q[:, PAIRS.receivers, own]
        right = k[:, PAIRS.senders, shared] + edge_key[..., own]
        if score == "scaled_dot":
            scores = (left * right).sum(-1) / 2
        elif score == "gatv2":
            vector = layer.score.vector.reshape(3, 4)[h]
            scores = (vector * nn.functional.leaky_relu(left + right, 0.2)).sum(-1)
        else:
            scores = torch.ones(2, PAIRS.num_edges, dtype=torch.float64)
        scores = scores + edge_bias[..., h]
        carried = v[:, PAIRS.senders, shared] + edge_value[..., own]
        head = torch.zeros(2, 5, 4, dtype=torch.float64)
        for i in range(5):
            here = PAIRS.receivers == i
            if here.any():
                head[:, i] = (torch.softmax(scores[:, here], -1)[..., None] * carried[:, here]).sum(1)
        heads.append(head)
    torch.testing.assert_close(out, layer.output(torch.cat(heads, -1)))
    out.sum().backward()
    # A constant score does not look at the key.
    gradients = layer.edge.weight.grad.split([12, 12, 3])
    assert [bool(g.any()) for g in gradients] == [score != "constant", True, True]


def test_one_row_of_edge_features_serves_a_whole_batch():
    layer = ready(MultiHeadAttention(12, 3, edge_dim=6))
    x, edge = nodes(2), torch.randn(PAIRS.num_edges, 6, dtype=torch.float64)
    torch.testing.assert_close(
        layer(x, neighborhood=PAIRS, edge_features=edge),
        layer(x, neighborhood=PAIRS, edge_features=edge.expand(2, -1, -1)),
    )


def test_no_edges_with_features():
    layer = ready(MultiHeadAttention(12, 3, edge_dim=6))
    none = torch.zeros(0, dtype=torch.int64)
    for num_nodes in (4, 0):
        x = nodes(num_nodes=num_nodes).requires_grad_()
        out = layer(
            x,
            neighborhood=Edges(none, none, num_nodes, num_nodes),
            edge_features=torch.zeros(0, 6, dtype=torch.float64),
        )
        torch.testing.assert_close(out, layer.output.bias.expand(num_nodes, 12))
        gradients = torch.autograd.grad(out.sum(), [x, *layer.parameters()], allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("kind", ["table", "edges", "grouped"])
def test_the_trace_holds_the_weights_that_made_the_output(kind):
    layer = ready(MultiHeadAttention(12, 6 if kind == "grouped" else 3, num_key_heads=2 if kind == "grouped" else None))
    x, trace = nodes(2), Trace()
    neighborhood = PAIRS if kind == "edges" else Mask(PAIRS.to_mask())
    out = layer(x, neighborhood=neighborhood, trace=trace)
    assert torch.equal(out, layer(x, neighborhood=neighborhood))
    (weights,) = trace.weights
    table = weights.to_dense()
    value = layer.value(x).unflatten(-1, (-1, 2 if kind == "grouped" else 4)).transpose(1, 2)
    if kind == "grouped":
        value = value.repeat_interleave(3, 1)
    heads = table @ value
    torch.testing.assert_close(layer.output(heads.transpose(1, 2).flatten(-2)), out)


@torch.no_grad()
@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize(
    "neighborhood", [Full(), PAIRS, Edges(*torch.zeros(2, 0, dtype=torch.int64), 5, 5)], ids=["all", "edges", "none"]
)
@pytest.mark.parametrize("num_key_heads", [1, 2])
def test_heads_that_share_keys_are_recorded_like_others(num_key_heads, neighborhood, top):
    """They were recorded with two axes, of which rollout took the first one for a batch."""
    shared = ready(MultiHeadAttention(12, 4, num_key_heads=num_key_heads))
    plain = ready(MultiHeadAttention(12, 4))
    plain.load_state_dict(shared.state_dict() | {
        f"{name}.{part}": getattr(getattr(shared, name), part)
        .unflatten(0, (num_key_heads, 3)).repeat_interleave(4 // num_key_heads, 0).flatten(0, 1)
        for name in ("key", "value") for part in ("weight", "bias")
    })  # fmt: skip
    for x in (nodes(), nodes(2)):
        found, expected = Trace(top), Trace(top)
        outputs = [layer(x, neighborhood=neighborhood, trace=t) for layer, t in ((shared, found), (plain, expected))]
        torch.testing.assert_close(*outputs)
        (ours,), (theirs,) = found.weights, expected.weights
        for name in ("senders", "receivers", "values"):
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))


def test_the_trace_keeps_the_order_of_layers_and_its_own_limits():
    block = ready(ResidualBlock(MultiHeadAttention(12, 3), 12))
    trace = Trace(top=2, queries=[1, 3])
    x = block(nodes(2), trace=trace)
    block(x, Causal(), trace=trace)
    assert len(trace.weights) == 2
    assert trace.weights[0].values.shape == (2, 3, 4)
    assert trace.weights[0].receivers.tolist() == [1, 1, 3, 3]


def test_dropout_acts_in_training_only():
    layer = MultiHeadAttention(12, 3, dropout=0.5)
    x = torch.randn(2, 5, 12)
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))
    torch.manual_seed(0)
    first = layer(x)
    torch.manual_seed(0)
    assert torch.equal(layer(x), first)


def test_a_score_of_your_own_trains_moves_and_is_saved():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, query, key):
            return -(self.weight * (query - key).abs()).sum(-1)

    for score in (Own(), Additive(nn.Parameter(torch.ones(3, 4)))):
        layer = MultiHeadAttention(12, 3, score=score)
        assert any(name.startswith("score") for name in layer.state_dict())
        layer(torch.randn(5, 12)).square().sum().backward()
        parameter = next(p for name, p in layer.named_parameters() if name.startswith("score"))
        assert parameter.grad is not None
        twin = copy.deepcopy(layer)
        with torch.no_grad():
            next(p for name, p in twin.named_parameters() if name.startswith("score")).add_(1.0)
        x = torch.randn(5, 12)
        assert not torch.equal(layer(x), twin(x))
        twin.load_state_dict(layer.state_dict())
        assert torch.equal(layer(x), twin(x))


def test_tensors_of_a_given_score_move_with_the_layer():
    layer = MultiHeadAttention(12, 3, score=Additive(torch.ones(3, 4)), normalize=Softmax(torch.ones(3)))
    assert layer.double()(nodes(2)).dtype == torch.float64
    assert layer.score().vector.dtype == torch.float64


@pytest.mark.parametrize("is_learned", [True, False])
def test_tensors_of_an_object_of_your_own_are_those_of_the_layer(is_learned):
    """Whoever changes what a layer holds (a file, a transform, a device) changes what it computes."""

    class Own:
        def __init__(self):
            self.scale = nn.Parameter(torch.ones(())) if is_learned else torch.ones(())

        def __call__(self, query, key):
            return (query * key).sum(-1) * self.scale

    layer, x = MultiHeadAttention(12, 3, score=Own()), torch.randn(5, 12)
    assert layer.double().score().scale.dtype == torch.float64
    layer.float()
    other = torch.func.functional_call(layer, {"score.scale": torch.tensor(3.0)}, (x,))
    assert not torch.allclose(layer(x), other)
    gradient = torch.func.grad(lambda scale: torch.func.functional_call(layer, {"score.scale": scale}, (x,))[0, 0])
    assert gradient(torch.tensor(1.0)) != 0

    if is_learned:
        stored = layer.state_dict() | {"score.scale": torch.tensor(3.0)}
        layer.load_state_dict(stored, assign=True)
        torch.testing.assert_close(layer(x), other)


def test_an_object_of_your_own_may_have_slots_and_be_a_method_or_partial():
    """They came back without their slots, or were made as no method and no partial can be."""

    class Own:
        __slots__ = ("__dict__", "factor")

        def __init__(self):
            self.factor, self.scale = 2, torch.ones(())

        def __call__(self, query, key):
            return self.factor * self.scale * (query * key).sum(-1)

        def method(self, query, key):
            return self(query, key)

        method.noted = torch.ones(())

    part = functools.partial(Own())
    part.noted = torch.ones(())
    x = torch.randn(5, 12)
    for score in (Own(), Own().method, part):
        layer = MultiHeadAttention(12, 3, score=score)
        torch.testing.assert_close(layer.score()(x, x), 2 * (x * x).sum(-1))


def test_a_learned_temperature_is_a_parameter_of_the_layer():
    layer = MultiHeadAttention(12, 3, normalize=Softmax(nn.Parameter(torch.ones(3))))
    layer(torch.randn(5, 12)).square().sum().backward()
    found = [p for p in layer.parameters() if p.shape == (3,)]
    assert len(found) == 1
    assert found[0].grad is not None


@pytest.mark.parametrize("backend", all_backends)
def test_bfloat16_layers(backend):
    x = torch.randn(2, 5, 12, dtype=torch.bfloat16)
    for score in SCORES:
        layer = MultiHeadAttention(12, 3, score=score).bfloat16()
        for neighborhood in (Full(), PAIRS):
            out = layer(x, neighborhood=neighborhood)
            assert out.dtype == torch.bfloat16
            assert out.isfinite().all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_residual_block_by_hand(norm):
    block = ready(ResidualBlock(MultiHeadAttention(12, 3), 12, 20, norm=norm))
    x, source = nodes(2), nodes(2, num_nodes=7)
    for neighborhood, key in ((Causal(), None), (Full(), source)):
        out = block(x, neighborhood, source=key)
        if norm == "pre":
            y = block.attention_norm(x)
            middle = x + block.attention(y, y if key is None else key, neighborhood=neighborhood)
            expected = middle + block.feed_forward(block.feed_forward_norm(middle))
        else:
            middle = block.attention_norm(x + block.attention(x, x if key is None else key, neighborhood=neighborhood))
            expected = block.feed_forward_norm(middle + block.feed_forward(middle))
        torch.testing.assert_close(out, expected)


def test_a_residual_block_on_a_graph_with_edge_features():
    block = ready(ResidualBlock(MultiHeadAttention(12, 3, edge_dim=4), 12))
    edge = torch.randn(PAIRS.num_edges, 4, dtype=torch.float64)
    assert block(nodes(), PAIRS, edge_features=edge).shape == (5, 12)


def adjacency(edges):
    matrix = torch.zeros(edges.num_receivers, edges.num_senders, dtype=torch.float64)
    return matrix.index_put(
        (edges.receivers, edges.senders), torch.ones(edges.num_edges, dtype=torch.float64), accumulate=True
    )


def test_mean_convolution_is_its_dense_matrix_form():
    """σ(D⁻¹ A H Wᵀ + H Bᵀ), with a node that receives nothing, which keeps its self term."""
    layer = ready(MeanConvolution(12, 7, torch.tanh))
    x, matrix = nodes(2), adjacency(PAIRS)
    degrees = matrix.sum(1)
    assert (degrees == 0).any()
    inverse = torch.diag(torch.where(degrees > 0, 1 / degrees.clamp(min=1), 0.0))
    expected = torch.tanh(inverse @ matrix @ x @ layer.neighbors.weight.T + x @ layer.itself.weight.T)
    torch.testing.assert_close(layer(x, PAIRS), expected)


@pytest.mark.parametrize("edges", [PAIRS, PAIRS.undirected(), Edges(torch.tensor([0, 0]), torch.tensor([1, 1]), 5, 5)])
def test_symmetric_convolution_is_its_dense_matrix_form(edges):
    """σ(D^−½ Â D^−½ H Wᵀ), Â = A + I, D the row sum of Â."""
    layer = ready(SymmetricConvolution(12, 7, torch.tanh))
    x, matrix = nodes(2), adjacency(edges) + torch.eye(5, dtype=torch.float64)
    root = torch.diag(matrix.sum(1).rsqrt())
    expected = torch.tanh(root @ matrix @ root @ x @ layer.linear.weight.T)
    torch.testing.assert_close(layer(x, edges), expected)


@pytest.mark.parametrize("layer", [MeanConvolution(12, 7), SymmetricConvolution(12, 7)])
def test_convolutions_without_edges_and_without_nodes(layer):
    none = torch.zeros(0, dtype=torch.int64)
    assert layer(torch.randn(3, 12), Edges(none, none, 3, 3)).shape == (3, 7)
    assert layer(torch.randn(0, 12), Edges(none, none, 0, 0)).shape == (0, 7)
    x = torch.randn(4, 12)
    isolated = layer(x, Edges(torch.tensor([0]), torch.tensor([1]), 4, 4))
    torch.testing.assert_close(isolated[2:], layer(x[2:], Edges(none, none, 2, 2)))


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_a_readout_sees_each_graph_alone_and_no_order(how):
    layer = ready(Readout(12, how, num_heads=3))
    x, offsets = nodes(2, num_nodes=7), torch.tensor([0, 3, 3, 4, 7])
    out = layer(x, offsets)
    assert out.shape == (2, 4, 12)
    assert (out[:, 1] == 0).all()
    for g, (start, stop) in enumerate([(0, 3), (3, 3), (3, 4), (4, 7)]):
        members = x[:, start:stop]
        if start < stop:
            mixed = members.flip(1)
            torch.testing.assert_close(layer(mixed, torch.tensor([0, stop - start]))[:, 0], out[:, g])
        if how != "attention" and start < stop:
            plain = {"mean": members.mean(1), "sum": members.sum(1), "max": members.amax(1)}[how]
            torch.testing.assert_close(out[:, g], plain)
    assert layer(nodes(num_nodes=0), torch.tensor([0])).shape == (0, 12)
    assert (layer(nodes(num_nodes=0), torch.tensor([0, 0])) == 0).all()
    x.requires_grad_()
    assert torch.autograd.grad(layer(x, offsets).sum(), x)[0].isfinite().all()


def test_a_number_of_graphs_beside_offsets_that_name_another_is_refused():
    """It was ignored: fewer vectors came than were asked for."""
    nodes, offsets = torch.randn(5, 4), torch.tensor([0, 2, 5])
    readout = Readout(4, "sum")
    assert readout(nodes, offsets, num_graphs=2).shape == readout(nodes, batch=offsets, num_graphs=2).shape == (2, 4)
    with pytest.raises(ShapeError, match="num_graphs is 7, but the nodes are of 2 graphs; drop it, or pass"):
        readout(nodes, offsets, num_graphs=7)
    with pytest.raises(ShapeError, match="num_graphs is 3, but the nodes are of 1 graph;"):
        readout(nodes, num_graphs=3)


def test_a_readout_by_attention_by_hand_and_its_trace():
    layer, trace = ready(Readout(12, "attention", num_heads=3)), Trace()
    x, offsets = nodes(num_nodes=5), torch.tensor([0, 2, 5])
    out = layer(x, offsets, trace=trace)
    key, value = layer.key(x), layer.value(x)
    for g, members in enumerate((slice(0, 2), slice(2, 5))):
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            weights = torch.softmax(key[members, part] @ layer.query[h, 0] / 2, 0)
            torch.testing.assert_close(out[g, part], weights @ value[members, part])
            torch.testing.assert_close(trace.weights[0].values[h, members], weights)


def test_packed_sequences_are_separate_sequences():
    layer = ready(MultiHeadAttention(12, 3))
    x = nodes(num_nodes=6)
    out = layer(x, neighborhood=Causal() & Segments(torch.tensor([0, 2, 6])))
    torch.testing.assert_close(
        out, torch.cat([layer(x[:2], neighborhood=Causal()), layer(x[2:], neighborhood=Causal())])
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(10, 3), r"model_dim \(10\) must be a multiple of num_heads \(3\)"),
        (
            lambda: MultiHeadAttention(12, 4, num_key_heads=3),
            r"num_heads \(4\) must be a multiple of num_key_heads \(3\)",
        ),
        (
            lambda: MultiHeadAttention(12, 3, combine="sum"),
            "combine must be one of concatenate, weights, tensor, mean, max, not 'sum'",
        ),
        (
            lambda: MultiHeadAttention(12, 3, score="luong"),
            "unknown score 'luong'; expected one of scaled_dot, .*, constant",
        ),
        (
            lambda: MultiHeadAttention(12, 3, source_dim=9, project=False),
            "without projections key_dim is 4 in query but 3 in key",
        ),
        (lambda: MultiHeadAttention(-12, 3), "MultiHeadAttention: model_dim must be a whole number of at least 1"),
        (lambda: MultiHeadAttention(12, 0), "MultiHeadAttention: num_heads must be a whole number of at least 1"),
        (lambda: HopAttention(-3), "HopAttention: model_dim must be a whole number of at least 1, not -3"),
        (lambda: MultiHeadAttention(12, 3, key_dim=5, project=False), "without projections"),
        (lambda: MultiHeadAttention(12, 3, value_dim=5, project=False), "without projections"),
        (
            lambda: ResidualBlock(MultiHeadAttention(12, 3, combine="mean", value_dim=4), 12),
            "attention gives nodes of size 4, but model_dim is 12",
        ),
        (lambda: ResidualBlock(MultiHeadAttention(12, 3), 12, norm="both"), "norm must be 'pre' or 'post', not 'both'"),
        (lambda: Readout(12, "median"), "aggregation must be one of attention, mean, sum, max, not 'median'"),
        (lambda: Readout(12, num_heads=5), r"model_dim \(12\) must be a multiple of num_heads \(5\)"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_cannot_be(make, message):
    with pytest.raises(SettingError, match=message):
        make()


@pytest.mark.usefixtures("shapes_unchecked")
def test_edge_features_that_are_missing_or_too_many():
    with pytest.raises(
        ShapeError, match=r"MultiHeadAttention: expected edge features \(\*batch, edge, 6\); see edge_dim"
    ):
        MultiHeadAttention(12, 3, edge_dim=6)(torch.randn(5, 12), neighborhood=PAIRS)
    with pytest.raises(ShapeError, match="MultiHeadAttention: expected edge features none; see edge_dim"):
        MultiHeadAttention(12, 3)(torch.randn(5, 12), neighborhood=PAIRS, edge_features=torch.randn(7, 6))
    with pytest.raises(ShapeError, match="edge_key needs Edges, not Full"):
        MultiHeadAttention(12, 3, edge_dim=6)(torch.randn(5, 12), edge_features=torch.randn(7, 6))
