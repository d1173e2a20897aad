"""Layers for several kinds of nodes and edges, judged by loops over nodes and edges; and what holds for any of them."""

import math

import pytest
import torch
from torch.nn.functional import gelu

from edgewise import Edges, MeanConvolution, MultiHeadAttention, SettingError, ShapeError, Trace, why
from edgewise.graph import SparseFeatures
from edgewise.layers import RelationalAttention, RelationalConvolution, TypedLinear
from edgewise.layers.feature import FeatureLinear
from edgewise.neighborhood import Relations, Types
from graph_cases import GRAPH, NONE, normal, ready, shuffled

KINDS = Types(torch.tensor([1, 0, 1, 0, 3, 1]), 4)
"""Not in order, and no node of kind 2."""
RELATION = torch.tensor([0, 2, 0, 3, 3, 0, 2, 0])
RELATIONS = Relations(GRAPH, RELATION, 4)
"""The edge 2 → 1 stands twice in two relations; no edge is of relation 1."""


def convolved(layer, x, relations):
    """R-GCN, eqs. 2 and 3, node by node and edge by edge."""
    edges, relation = relations.edges, relations.relation.tolist()
    weights = layer.weight if layer.shares is None else [
        sum(a * basis for a, basis in zip(shares, layer.weight, strict=True)) for shares in layer.shares
    ]  # fmt: skip
    rows = []
    for i in range(edges.num_receivers):
        total = layer.itself.weight @ x[i]
        for r in range(relations.num_relations):
            near = [
                int(j)
                for j, to, of in zip(edges.senders, edges.receivers, relation, strict=True)
                if to == i and of == r
            ]
            for j in near:
                total = total + x[j] @ weights[r] / len(near)
        rows.append(torch.tanh(total))
    return torch.stack(rows)


@torch.no_grad()
def attended(layer, x, kinds, relations):
    """HGT, eqs. 3 to 5, node by node, head by head, edge by edge."""
    edges, heads = relations.edges, layer.num_heads
    dim = x.shape[-1] // heads
    kind = kinds.of_row.tolist()
    projected = linear(layer.project, x, kind)
    query, key, value = (part.unflatten(-1, (heads, dim)) for part in projected.chunk(3, -1))
    rows = []
    for i in range(edges.num_receivers):
        pair_edges = []
        near = [e for e in range(edges.num_edges) if int(edges.receivers[e]) == i]
        for h in range(heads):
            scores, said = [], []
            for e in near:
                j, r = int(edges.senders[e]), int(relations.relation[e])
                place = r * heads + h
                like = (key[j, h] @ layer.key_weight[place]) @ query[i, h]
                scores.append(layer.prior[r, h] * like / math.sqrt(dim))
                said.append(value[j, h] @ layer.value_weight[place])
            total = sum(math.exp(score) for score in scores)
            parts = (math.exp(score) / total * part for score, part in zip(scores, said, strict=True))
            pair_edges.append(sum(parts, torch.zeros(dim, dtype=x.dtype)))
        rows.append(gelu(torch.cat(pair_edges)))
    return linear(layer.output, torch.stack(rows), kind)


def linear(layer, x, kind):
    starts = [sum(layer.input_dims[:k]) for k in range(len(layer.input_dims))]
    rows = []
    for row, k in zip(x, kind, strict=True):
        size = layer.input_dims[k]
        rows.append(row[:size] @ layer.weight[starts[k] : starts[k] + size] + layer.bias[k])
    return torch.stack(rows)


def attention():
    return ready(RelationalAttention(6, 2, 4, 4))


def convolution(num_bases=None):
    return ready(RelationalConvolution(5, 3, 4, num_bases=num_bases, activation=torch.tanh))


def test_a_matrix_for_each_kind():
    layer = ready(TypedLinear([3, 5, 2, 0], 4))
    x = normal(6, 5)
    torch.testing.assert_close(layer(x, KINDS), linear(layer, x, KINDS.of_row.tolist()))
    stacked = normal(2, 6, 5)
    torch.testing.assert_close(layer(stacked, KINDS)[1], layer(stacked[1], KINDS))
    spoiled = x.clone()
    spoiled[:, 3:] = torch.where(KINDS.of_row[:, None] == 1, spoiled[:, 3:], torch.nan)
    torch.testing.assert_close(layer(spoiled, KINDS), layer(x, KINDS))
    assert TypedLinear([3, 5], 4, bias=False).bias is None


def test_rows_in_order_of_their_kinds_and_in_disorder():
    layer = ready(TypedLinear([3, 3, 3], 2))
    x, order = normal(7, 3), torch.randperm(7)
    of_row = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    straight, mixed = Types(of_row, 3), Types(of_row[order], 3)
    assert straight.order is None
    assert mixed.sizes == (3, 2, 2)
    torch.testing.assert_close(layer(x[order], mixed), layer(x, straight)[order])


def test_sparse_features_are_counted_kind_after_kind():
    layer = ready(TypedLinear([3, 5, 2, 1], 4))
    x = normal(6, 5) * (torch.rand(6, 5) < 0.5)
    starts, sizes = torch.tensor([0, 3, 8, 10]), torch.tensor([3, 5, 2, 1])
    x = torch.where(torch.arange(5) < sizes[KINDS.of_row][:, None], x, 0)
    rows, columns = x.nonzero(as_tuple=True)
    sparse = SparseFeatures(Edges(columns + starts[KINDS.of_row[rows]], rows, 11, 6), x[rows, columns])
    torch.testing.assert_close(layer(sparse, KINDS), layer(x, KINDS))


def test_one_kind_is_a_linear_layer():
    layer, plain = ready(TypedLinear([5], 4)), FeatureLinear(5, 4).double()
    plain.load_state_dict({"weight": layer.weight.T, "bias": layer.bias[0]})
    x = normal(6, 5)
    torch.testing.assert_close(layer(x, Types(torch.zeros(6, dtype=torch.int64), 1)), plain(x))


def test_pairs_by_hand():
    # Senders 0 2 3 1 0 4 4 2 in relations 0 2 0 3 3 0 2 0.
    assert RELATIONS.num_pairs == 8
    assert list(zip(RELATIONS.types.of_row.tolist(), RELATIONS.senders.tolist(), strict=True)) == [
        (0, 0), (0, 2), (0, 3), (0, 4), (2, 2), (2, 4), (3, 0), (3, 1),
    ]  # fmt: skip
    assert RELATIONS.pair_edges.senders.tolist() == [0, 4, 2, 7, 6, 3, 5, 1]
    assert RELATIONS.pair_edges.receivers.tolist() == GRAPH.receivers.tolist()
    assert RELATIONS.counts.tolist() == [3, 1, 3, 1, 1, 1, 1, 3]
    assert RELATIONS.types.order is None, "pairs stand relation after relation"


def test_a_sender_of_many_receivers_is_one_pair():
    star = Relations(Edges(torch.zeros(9, dtype=torch.int64), torch.arange(9), 1, 9), torch.arange(9) % 2, 2)
    assert (star.num_pairs, star.pair_edges.num_senders, star.pair_edges.num_edges) == (2, 2, 9)


def test_they_move_together():
    moved = RELATIONS.to("cpu")
    assert moved.pair_edges._plan is not None
    assert moved.senders.tolist() == RELATIONS.senders.tolist()
    assert KINDS.to("cpu").sizes == KINDS.sizes


@pytest.mark.parametrize("num_bases", [None, 1, 3])
def test_convolution_as_the_paper_has_it(num_bases):
    layer, x = convolution(num_bases), normal(2, 6, 5)
    found = layer(x, RELATIONS)
    for one, out in zip(x, found, strict=True):
        torch.testing.assert_close(out, convolved(layer, one, RELATIONS))


def test_attention_as_the_paper_has_it():
    layer, x = attention(), normal(2, 6, 6)
    found = layer(x, KINDS, RELATIONS)
    for one, out in zip(x, found, strict=True):
        torch.testing.assert_close(out, attended(layer, one, KINDS, RELATIONS))


def test_attention_by_hand():
    """One dimension, matrices 1: scores of the two neighbors are 0 and log 3, so that the weights are 1/4 and 3/4."""
    layer = RelationalAttention(1, 1, 1, 2, activation=lambda x: x).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1)
        for part in (layer.project, layer.output):
            part.bias.zero_()
        layer.prior[:, 0] = torch.tensor([0.0, math.log(3)])
        layer.value_weight[:, 0, 0] = torch.tensor([1.0, 10.0])
    nodes = torch.ones(3, 1, dtype=torch.float64)
    relations = Relations(Edges(torch.tensor([1, 2]), torch.tensor([0, 0]), 3, 3), torch.tensor([0, 1]), 2)
    found = layer(nodes, Types(torch.zeros(3, dtype=torch.int64), 1), relations)
    torch.testing.assert_close(found[:, 0], torch.tensor([1 / 4 + 30 / 4, 0, 0], dtype=torch.float64))


def test_one_relation_is_the_mean_convolution():
    layer, plain = ready(RelationalConvolution(5, 3, 1)), MeanConvolution(5, 3).double()
    plain.load_state_dict({"neighbors.weight": layer.weight[0].T, "itself.weight": layer.itself.weight})
    x = normal(6, 5)
    relations = Relations(GRAPH, torch.zeros(8, dtype=torch.int64), 1)
    torch.testing.assert_close(layer(x, relations), plain(x, GRAPH))


def test_one_kind_and_one_relation_is_multi_head_attention():
    layer = ready(RelationalAttention(6, 2, 1, 1, activation=lambda x: x))
    with torch.no_grad():
        layer.prior.fill_(1)
        for weight in (layer.key_weight, layer.value_weight):
            weight.copy_(torch.eye(3).expand(2, 3, 3))
    plain = MultiHeadAttention(6, 2).double()
    parts = {}
    sides = zip(
        ("query", "key", "value"), layer.project.weight.chunk(3, 1), layer.project.bias.chunk(3, 1), strict=True
    )
    for name, weight, bias in (*sides, ("output", layer.output.weight, layer.output.bias)):
        parts |= {f"{name}.weight": weight.T, f"{name}.bias": bias[0]}
    plain.load_state_dict(parts)
    x = normal(2, 6, 6)
    zeros = torch.zeros(8, dtype=torch.int64)
    one = Types(zeros[:6], 1)
    torch.testing.assert_close(layer(x, one, Relations(GRAPH, zeros, 1)), plain(x, neighborhood=GRAPH))


def test_the_order_of_relations_and_kinds_means_nothing():
    x, order = normal(6, 5), torch.tensor([2, 0, 3, 1])
    renamed = Relations(GRAPH, order.argsort()[RELATION], 4)
    for num_bases in (None, 3):
        layer, other = convolution(num_bases), convolution(num_bases)
        with torch.no_grad():
            part = other.weight if num_bases is None else other.shares
            part.copy_(part[order])
        torch.testing.assert_close(other(x, renamed), layer(x, RELATIONS))
    layer, other = attention(), attention()
    with torch.no_grad():
        other.prior.copy_(layer.prior[order])
        for name in ("key_weight", "value_weight"):
            weight = getattr(layer, name).unflatten(0, (4, 2))
            getattr(other, name).copy_(weight[order].flatten(0, 1))
        for part, same in ((other.project, layer.project), (other.output, layer.output)):
            part.weight.copy_(same.weight.unflatten(0, (4, -1))[order].flatten(0, 1))
            part.bias.copy_(same.bias[order])
    x = normal(6, 6)
    found = other(x, Types(order.argsort()[KINDS.of_row], 4), renamed)
    torch.testing.assert_close(found, layer(x, KINDS, RELATIONS))


def test_permuting_nodes_and_edges_permutes_outputs():
    edges, order, edge_order = shuffled(GRAPH)
    relations, kinds = Relations(edges, RELATION[edge_order], 4), Types(KINDS.of_row[order], 4)
    x = normal(6, 5)
    layer = convolution()
    torch.testing.assert_close(layer(x[order], relations), layer(x, RELATIONS)[order])
    x, layer = normal(6, 6), attention()
    torch.testing.assert_close(layer(x[order], kinds, relations), layer(x, KINDS, RELATIONS)[order])


def test_relations_matter():
    other = Relations(GRAPH, RELATION.roll(1), 4)
    x = normal(6, 6)
    assert not torch.allclose(attention()(x, KINDS, RELATIONS), attention()(x, KINDS, other))
    assert not torch.allclose(convolution()(x[:, :5], RELATIONS), convolution()(x[:, :5], other))


def test_gradients_of_unused_parameters_are_finite():
    x = normal(6, 6).requires_grad_()
    layer = attention()
    layer(x, KINDS, RELATIONS).square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert layer.prior.grad[1].tolist() == [0, 0], "no edge is of relation 1"
    assert layer.project.weight.grad.unflatten(0, (4, 6))[2].abs().max() == 0, "no node is of kind 2"
    layer = convolution(2)
    layer(x[:, :5], RELATIONS).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert layer.shares.grad[1].tolist() == [0, 0]


def test_without_edges_and_without_nodes():
    none = Relations(Edges(NONE, NONE, 6, 6), NONE, 4)
    x = normal(6, 6).requires_grad_()
    layer = attention()
    out = layer(x, KINDS, none)
    torch.testing.assert_close(out, layer.output.bias[KINDS.of_row])
    (gradient,) = torch.autograd.grad(out.sum(), x, allow_unused=True)
    assert gradient is None or gradient.isfinite().all()
    plain = convolution()
    torch.testing.assert_close(plain(x[:, :5], none), torch.tanh(plain.itself(x[:, :5])))
    nothing = Relations(Edges(NONE, NONE, 0, 0), NONE, 4)
    assert plain(normal(0, 5), nothing).shape == (0, 3)
    assert layer(normal(0, 6), Types(NONE, 4), nothing).shape == (0, 6)


def test_weights_are_recorded_from_node_to_node():
    layer, x, trace = attention(), normal(6, 6), Trace()
    layer(x, KINDS, RELATIONS, trace=trace)
    (weights,) = trace.weights
    assert weights.senders.tolist() == GRAPH.senders.tolist()
    assert weights.receivers.tolist() == GRAPH.receivers.tolist()
    sums = weights.to_dense().sum(-1)
    torch.testing.assert_close(sums, torch.tensor([1.0, 1, 1, 0, 1, 0], dtype=torch.float64).expand(2, 6))
    top = Trace(top=1)
    layer(x, KINDS, RELATIONS, trace=top)
    assert int(top.weights[0].senders.max()) < 6


def test_a_fused_kernel_runs():
    query, key = torch.randn(2, 6, 4), torch.randn(2, RELATIONS.num_pairs, 4)
    assert why(query, key, key, RELATIONS.pair_edges).startswith("numba runs")


def test_no_tensor_is_as_long_as_the_edges_and_as_wide_as_a_node():
    """Four thousand edges of forty pairs: what the backward pass keeps is one number an edge and head, at most."""
    random = torch.randint(20, (2, 4000))
    relations, kinds = Relations(Edges(*random, 20, 20), torch.arange(4000) % 2, 2), Types(torch.arange(20) % 2, 2)
    kept = []

    def keep(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        RelationalAttention(16, 2, 2, 2)(torch.randn(20, 16), kinds, relations)
    assert relations.num_pairs == 40
    assert max(kept) <= 2 * 4000


def test_what_is_refused(shapes_unchecked):
    x = torch.ones(6, 6)
    for make, message in [
        (lambda: Types(torch.tensor([0, 4]), 4), r"of_row must lie in 0 … 3; found 4"),
        (lambda: Types(torch.tensor([0, -1]), 4), r"of_row must lie in 0 … 3; found -1"),
        (lambda: Types(torch.zeros(2, 2, dtype=torch.int64), 4), r"the one axis 'row', not shape \(2, 2\)"),
        (lambda: Types([0.5], 4), "of_row must be whole numbers"),
        (lambda: Relations(GRAPH, RELATION[:3], 4), r"relation is \(3,\), but there are 8 edges"),
        (lambda: Relations(GRAPH, RELATION, 3), r"relation must lie in 0 … 2; found 3"),
        (lambda: TypedLinear([3, 3], 4)(x, KINDS), "TypedLinear: expected 2 types, got 4"),
        (lambda: TypedLinear([6] * 4, 4)(x[:5], KINDS), "TypedLinear: expected 5 rows, got 6"),
        (lambda: TypedLinear([6, 6, 6, 7], 4)(x, KINDS), "rows have 6 features, a type has 7"),
        (lambda: RelationalConvolution(6, 3, 2)(x, RELATIONS), "RelationalConvolution: expected 2 relations, got 4"),
        (lambda: RelationalAttention(6, 2, 4, 2)(x, KINDS, RELATIONS), "expected 2 relations, got 4"),
    ]:
        with pytest.raises(ShapeError, match=message):
            make()
    with pytest.raises(SettingError, match=r"model_dim \(6\) must be a multiple of num_heads \(4\)"):
        RelationalAttention(6, 4, 1, 1)
    with pytest.raises(SettingError, match="num_bases must be a whole number of at least 1, not 0"):
        RelationalConvolution(6, 3, 2, num_bases=0)


def test_a_type_with_fewer_than_no_features_is_refused_before_memory_is_written():
    with pytest.raises(ShapeError, match=r"input_dims is \(3, -1\); expected a number of features, 0 or more"):
        TypedLinear([3, -1], 4)


def test_types_are_a_pair_where_nodes_are_one(shapes_unchecked):
    edges, nodes = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 4, 4), torch.ones(4, 6)
    types, relations = Types(torch.tensor([0, 1, 0, 1]), 2), Relations(edges, torch.tensor([0, 0]), 1)
    layer = RelationalAttention(6, 2, 2, 1)
    with pytest.raises(ShapeError, match="expected types to be one, not a pair, as nodes are"):
        layer(nodes, (types, types), relations)
    with pytest.raises(ShapeError, match=r"expected types to be a pair \(source, target\), as nodes are"):
        layer((nodes, nodes), types, relations)
