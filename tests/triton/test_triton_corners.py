"""Corners of the kernels over edges: tables beyond 2³¹ numbers, rows without edges, what no score is made of."""

import gc

import pytest
import torch
from triton_cases import DEVICE, KEY_DIM, RECEIVERS, SCORES, SENDERS, VALUE_DIM, problem

from edgewise import Bilinear, Constant, Edges, GATv2, attend, why
from edgewise.backends.triton.edges import operators
from edgewise.backends.triton.graphs import work

GENERATOR = torch.Generator().manual_seed(0)


def all_pairs(num_nodes: int) -> Edges:
    """Every node sees every node."""
    node = torch.arange(num_nodes, device=DEVICE)
    return Edges(node.repeat(num_nodes), node.repeat_interleave(num_nodes), num_nodes, num_nodes)


def some_pairs(num_nodes: int, num_edges: int) -> Edges:
    """A few of these."""
    senders, receivers = torch.randint(0, num_nodes, (2, num_edges), generator=GENERATOR)
    return Edges(senders.to(DEVICE), receivers.to(DEVICE), num_nodes, num_nodes)


@pytest.mark.parametrize("edges", [some_pairs(8, 20), all_pairs(20)], ids=["list", "packed"])
def test_heads_that_lie_beyond_two_to_the_31_numbers(edges):
    """The third head begins at 2³¹: memory that is asked for, but hardly any of it is touched."""
    apart, dim = 2**30, 16
    x = torch.randn(3, edges.num_senders, dim, generator=GENERATOR).half().to(DEVICE)
    far = torch.empty(2 * apart + edges.num_senders * dim, dtype=torch.float16, device=DEVICE)
    far = far.as_strided(x.shape, (apart, dim, 1)).copy_(x)
    assert torch.equal(attend(far, far, far, edges, backend="triton"), attend(x, x, x, edges, backend="triton"))


@pytest.mark.parametrize("score", ["scaled", "gatv2", "tanh", "laplacian"])
def test_broken_nodes_without_edges_have_no_gradient_and_leave_the_others_theirs(score):
    """Receiver 4 and sender 5 have no edge, beside nodes with one: their values reach no node."""
    senders, receivers = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 6]), torch.tensor([0, 1, 2, 3, 5, 5, 5, 6, 7, 8])
    edges = Edges(senders, receivers, SENDERS, RECEIVERS)
    grads = []
    for backend, device in (("triton", DEVICE), ("reference", "cpu")):
        given = problem()
        given.tensors["query"][:, 4] = torch.nan
        given.tensors["key"][:, 5] = torch.nan
        given.tensors["value"][:, 5] = torch.nan
        at = {name: given.tensors[name].float().to(device).requires_grad_() for name in ("query", "key", "value")}
        parts = {name: x.float().to(device).requires_grad_() for name, x in given.parts.items()}
        attend(
            **at, neighborhood=edges.to(device), score=SCORES[score](parts), backend=backend
        ).square().sum().backward()
        grads.append({name: x.grad.cpu() for name, x in {**at, **parts}.items() if x.grad is not None})
    found, wanted = grads
    assert found.keys() == wanted.keys()
    for name, right in wanted.items():
        assert right.isfinite().all(), name
        assert torch.allclose(found[name], right, atol=1e-5), name


def test_no_receivers_and_a_vector_that_wants_a_gradient():
    nothing = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    vector = torch.randn(2, KEY_DIM, device=DEVICE, requires_grad=True)
    query, key = torch.randn(2, 0, KEY_DIM, device=DEVICE), torch.randn(2, 3, KEY_DIM, device=DEVICE)
    found = attend(query, key, key, Edges(nothing, nothing, 3, 0), score=GATv2(vector), backend="triton")
    found.sum().backward()
    assert found.shape == (2, 0, KEY_DIM)
    assert torch.equal(vector.grad, torch.zeros_like(vector))


def test_values_of_edges_alone_want_a_gradient():
    """Nothing that the score is made of does: nobody asks what softmax subtracts."""
    given = problem()
    tensors = [given.tensors[name].float().to(DEVICE) for name in ("query", "key", "value")]
    of_edges = given.tensors["edge_value"].float().to(DEVICE).requires_grad_()
    edges = given.edges.to(DEVICE)
    attend(*tensors, edges, score=Constant(0.7), edge_value=of_edges, backend="triton").sum().backward()
    receivers = edges.receivers
    share = 1 / torch.bincount(receivers, minlength=RECEIVERS)[receivers]
    assert torch.allclose(of_edges.grad, share[None, :, None].expand(3, -1, VALUE_DIM))


def test_a_packing_goes_with_its_plan():
    before = len(work._made)
    x = torch.randn(2, 20, 16, device=DEVICE)
    for _ in range(3):
        edges = all_pairs(20)
        attend(x, x, x, edges, backend="triton")
        assert len(work._made) > before
        del edges
    gc.collect()
    assert len(work._made) == before


@pytest.mark.parametrize("score", ["cosine", "bilinear", "gat", "gaussian"])
def test_values_stay_as_they_are_stored_whatever_scores_are_made_of(score, monkeypatch):
    seen = []

    def attend_edges(query, key, value, edge_key, edge_value, *rest):
        seen.extend((value.dtype, edge_value.dtype))
        return run(query, key, value, edge_key, edge_value, *rest)

    run = operators.attend_edges
    monkeypatch.setattr(operators, "attend_edges", attend_edges)
    given = problem()
    names = "query", "key", "value", "edge_value"
    at = {name: given.tensors[name].bfloat16().to(DEVICE).requires_grad_() for name in names}
    parts = {name: x.float().to(DEVICE) for name, x in given.parts.items()}
    found = attend(**at, neighborhood=given.edges.to(DEVICE), score=SCORES[score](parts), backend="triton")
    found.sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]
    assert found.dtype == torch.bfloat16
    assert all(x.grad.dtype == torch.bfloat16 and x.grad.isfinite().all() for x in at.values())


def test_keys_wider_than_a_head_may_be_are_refused_in_words():
    x, key = torch.randn(2, 4, 16, device=DEVICE), torch.randn(2, 4, 300, device=DEVICE)
    with pytest.raises(Exception, match="a head has 300 features, more than 256"):
        attend(x, key, x, all_pairs(4), score=Bilinear(torch.randn(2, 16, 300, device=DEVICE)), backend="triton")
    assert "300 features" in why(x, key, x, all_pairs(4), score=Bilinear(torch.randn(2, 16, 300, device=DEVICE)))


def test_compilers_know_that_these_operators_are_not_to_be_captured_on_copies():
    for operator in (torch.ops.edgewise.triton_edges, torch.ops.edgewise.triton_edges_backward):
        assert torch.Tag.cudagraph_unsafe in operator.default.tags
