"""`attention_weights`: the same α that `attend` sums with, all of them, the strongest, or those of some queries."""

import pytest
import torch
from torch import Tensor

from cases import all_neighborhoods, all_normalizers, all_scores, named, problem
from edgewise import Causal, Edges, Full, Mask, Mean, Segments, Softmax, Sparsemax, Weights, attend, attention_weights
from edgewise.backends import gather

BY_NAME = pytest.mark.parametrize("case", all_neighborhoods, ids=lambda case: case.name)


def weights_of(task, **options):
    arguments = {name: x for name, x in task.arguments.items() if name not in ("value", "edge_value")}
    return attention_weights(**arguments, **options)


def dense_table(task) -> Tensor:
    """α read off the reference, by handing it one value a key (or an edge) that says which it is."""
    arguments = dict(task.arguments)
    neighborhood = arguments["neighborhood"]
    num_keys = task.case[0].num_keys
    if not isinstance(neighborhood, Edges):
        arguments["value"] = torch.eye(num_keys, dtype=torch.float64)
        return attend(**arguments, backend="reference")
    num_edges = neighborhood.num_edges
    arguments["value"] = torch.zeros(num_keys, num_edges, dtype=torch.float64)
    arguments["edge_value"] = torch.eye(num_edges, dtype=torch.float64)
    return attend(**arguments, backend="reference")


@BY_NAME
@pytest.mark.parametrize("normalize", named(all_normalizers, "softmax", "sparsemax", "identity"), ids=lambda c: c.name)
def test_all_weights_are_those_of_the_reference(case, normalize):
    task = problem(case, all_scores[0], normalize)
    weights, table = weights_of(task), dense_table(task)
    assert (weights.num_receivers, weights.num_senders) == (case.num_queries, case.num_keys)
    if isinstance(case.neighborhood, Edges):
        assert torch.equal(weights.senders, case.neighborhood.senders)
        assert torch.equal(weights.receivers, case.neighborhood.receivers)
        torch.testing.assert_close(weights.values, table.sum(-2))
        dense = torch.zeros(2, 3, case.num_queries, case.num_keys, dtype=torch.float64)
        for e, (i, j) in enumerate(case.pairs_of(0)):
            dense[..., i, j] += table[..., i, e].detach()
        torch.testing.assert_close(weights.to_dense().detach(), dense)
    else:
        torch.testing.assert_close(weights.to_dense(), table)
        pairs = list(zip(weights.receivers.tolist(), weights.senders.tolist()))
        assert pairs == sorted({pair for member in case.pairs for pair in member})


@BY_NAME
def test_rows_sum_to_one_and_empty_rows_to_zero(case):
    weights = weights_of(problem(case, all_scores[0], all_normalizers[0]))
    for member in range(2):
        for head in range(3):
            filled = {i for i, _ in case.pairs_of(member, head)}
            expected = torch.tensor([float(i in filled) for i in range(case.num_queries)], dtype=torch.float64)
            torch.testing.assert_close(weights.to_dense()[member, head].sum(-1), expected)


@BY_NAME
def test_the_batch_axes_of_the_neighborhood_are_those_of_the_weights(case):
    query, key, batch = torch.randn(case.num_queries, 4), torch.randn(case.num_keys, 4), case.neighborhood.batch_shape
    for options in ({}, {"top": 2}, {"queries": []}, {"score": lambda q, k: q.sum(-1)}, {"normalize": Mean()}):
        weights = attention_weights(query, key, case.neighborhood, **options)
        assert weights.values.shape[:-1] == batch
        repeated = attention_weights(query.expand(*batch, *query.shape), key, case.neighborhood, **options)
        torch.testing.assert_close(weights.to_dense(), repeated.to_dense())


@BY_NAME
@pytest.mark.parametrize("top", [1, 2, 100])
def test_the_strongest_are_the_largest_of_each_row_strongest_first(case, top, monkeypatch):
    task = problem(case, all_scores[0], all_normalizers[0])
    everything = weights_of(task)
    for size in (2**22, 16):
        monkeypatch.setattr(gather, "SLICE", size)
        weights = weights_of(task, top=top)
        assert weights.receivers.tolist() == sorted(weights.receivers.tolist())
        shape = weights.values.shape
        senders = weights.senders.expand(shape)
        for place in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
            member, head = place
            for i in range(case.num_queries):
                row = everything.values[member, head][everything.receivers == i]
                here = weights.receivers == i
                kept = weights.values[member, head][here]
                assert len(kept) <= top
                largest = row.sort(descending=True).values[:top]
                torch.testing.assert_close(kept, torch.cat([largest, largest.new_zeros(len(kept))])[: len(kept)])
                assert (largest[len(kept) :] == 0).all()
                allowed = {j for r, j in case.pairs_of(member, head) if r == i}
                chosen = senders[member, head][here][kept > 0].tolist()
                assert set(chosen) <= allowed
        assert not everything.values.isnan().any()


@BY_NAME
def test_chosen_queries_are_the_requested_rows(case):
    if case.num_queries < 2:
        pytest.skip("nothing to choose from")
    task = problem(case, all_scores[0], all_normalizers[0])
    everything = weights_of(task).to_dense()
    mask = torch.arange(case.num_queries) == 1
    for queries in ([case.num_queries - 1, 0], torch.tensor([1]), [], mask, mask.tolist()):
        for top in (None, case.num_keys + 1):
            some = weights_of(task, queries=queries, top=top)
            is_mask = len(queries) > 0 and torch.as_tensor(queries).dtype == torch.bool
            chosen = [1] if is_mask else sorted(torch.as_tensor(queries, dtype=torch.int64).tolist())
            assert set(some.receivers.tolist()) <= set(chosen)
            expected = torch.zeros_like(everything)
            expected[..., chosen, :] = everything[..., chosen, :]
            torch.testing.assert_close(some.to_dense().expand_as(expected), expected)


def test_weights_have_gradients():
    query, key = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    weights = attention_weights(query, key, normalize=Sparsemax())
    assert weights.values.requires_grad
    assert torch.autograd.grad(weights.values.square().sum(), query)[0].abs().sum() > 0


def test_a_single_query():
    weights = attention_weights(torch.randn(4), torch.randn(2, 5, 4))
    assert weights.to_dense().shape == (2, 1, 5)


def test_half_precision_keeps_its_dtype():
    weights = attention_weights(torch.randn(3, 4).bfloat16(), torch.randn(5, 4).bfloat16(), top=2)
    assert weights.values.dtype == torch.bfloat16
    assert weights.values.shape == (6,)


def test_a_graph_has_an_edge_a_weight_and_a_feature_a_head():
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    weights = attention_weights(query, key)
    graph = weights.to_graph()
    assert graph.edges.num_edges == 15
    assert graph.edge_features.shape == (15, 2)
    torch.testing.assert_close(graph.edge_features.T, weights.values)
    assert (graph.edges.num_senders, graph.edges.num_receivers) == (5, 3)


def test_a_graph_of_the_strongest_has_each_edge_once():
    values = torch.tensor([[0.9, 0.8, 0.1], [0.7, 0.6, 0.3]])
    weights = Weights(torch.tensor([[1, 0, 1], [1, 1, 0]]), torch.tensor([0, 1, 1]), values, 2, 2)
    graph = weights.to_graph()
    found = {
        (s, r): features
        for s, r, features in zip(
            graph.edges.senders.tolist(), graph.edges.receivers.tolist(), graph.edge_features.tolist()
        )
    }
    assert found == {
        (1, 0): pytest.approx([0.9, 0.7]),
        (0, 1): pytest.approx([0.8, 0.3]),
        (1, 1): pytest.approx([0.1, 0.6]),
    }
    assert weights.to_dense()[1].tolist() == [pytest.approx([0.0, 0.7]), pytest.approx([0.3, 0.6])]


def test_a_graph_of_the_strongest_has_no_edge_that_is_forbidden():
    mask = torch.tensor([[[False, False, True]], [[False, True, True]], [[False, False, False]]])
    weights = attention_weights(torch.randn(3, 1, 4), torch.randn(3, 3, 4), Mask(mask), top=2)
    graph = weights.to_graph()
    assert set(graph.edges.senders.tolist()) <= {1, 2}


def test_parallel_edges_add_up_in_the_table():
    edges = Edges(torch.tensor([0, 0, 1]), torch.tensor([0, 0, 0]), 2, 1)
    weights = attention_weights(torch.zeros(1, 2), torch.zeros(2, 2), edges)
    torch.testing.assert_close(weights.values, torch.full((3,), 1 / 3))
    torch.testing.assert_close(weights.to_dense(), torch.tensor([[2 / 3, 1 / 3]]))


@pytest.mark.parametrize("top", [None, 1])
@pytest.mark.parametrize("neighborhood", [Full(), Mask(torch.zeros(0, 3, 4, dtype=torch.bool))], ids=["full", "mask"])
def test_a_batch_of_none(top, neighborhood):
    weights = attention_weights(torch.randn(0, 3, 2), torch.randn(0, 4, 2), neighborhood, top=top)
    assert weights.to_dense().shape == (0, 3, 4)


def test_the_strongest_of_a_long_sequence_do_not_need_the_table():
    query, key = torch.randn(4000, 4), torch.randn(4000, 4)
    weights = attention_weights(query, key, top=3, normalize=Softmax(0.5))
    assert weights.values.shape == (12_000,)
    row = torch.softmax(query[1234] @ key.T / 2 / 0.5, -1)
    torch.testing.assert_close(weights.values[3 * 1234 : 3 * 1235], row.topk(3).values)


@pytest.mark.parametrize("queries", [None, [3, 11, 12]])
@pytest.mark.parametrize("neighborhood", [Full(), Causal(), Segments(torch.tensor([0, 5, 5, 14]))])
def test_the_strongest_of_many_blocks_are_those_of_one(neighborhood, queries, monkeypatch):
    torch.manual_seed(0)
    query, key = torch.randn(2, 14, 4), torch.randn(2, 14, 4)
    one = attention_weights(query, key, neighborhood, top=3, queries=queries)
    monkeypatch.setattr(gather, "SLICE", 60)
    many = attention_weights(query, key, neighborhood, top=3, queries=queries)
    for name in ("senders", "receivers"):
        torch.testing.assert_close(getattr(many, name), getattr(one, name))
    torch.testing.assert_close(many.values, one.values)
