"""Sums with weights that no score makes: a kernel of their own, the same numbers as every other backend."""

import pytest
import torch

from edgewise import Edges, aggregate, attend
from edgewise.backends.numba import edge_kernels, sums
from edgewise.layers.convolution import SymmetricConvolution
from edgewise.normalize import Identity, Mean
from edgewise.score import Constant

NODES, EDGES = 40, 300


def graph():
    ends = torch.randint(NODES - 5, (2, EDGES), generator=torch.Generator().manual_seed(0))  # some receive nothing
    return Edges(*ends, NODES, NODES)


def calls(edges, value, weight):
    nothing = value.new_empty(NODES, 0)
    return {
        "sum": lambda backend: aggregate(value, edges, backend=backend),
        "mean": lambda backend: aggregate(value, edges, "mean", backend=backend),
        "weights": lambda backend: attend(
            nothing, nothing, value, edges, score=Constant(weight), normalize=Identity(), backend=backend
        ),
        "number": lambda backend: attend(
            nothing, nothing, value, edges, score=Constant(0.5), normalize=Identity(), bias=weight, backend=backend
        ),
        "mean of weights": lambda backend: attend(
            nothing, nothing, value, edges, score=Constant(weight), normalize=Mean(), backend=backend
        ),
    }


@pytest.mark.parametrize("name", ["sum", "mean", "weights", "number", "mean of weights"])
@pytest.mark.parametrize("shape", [(NODES, 16), (NODES, 7), (NODES, 56), (3, NODES, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_and_their_gradients_are_those_of_the_reference(name, shape, dtype, monkeypatch):
    monkeypatch.setattr(edge_kernels, "CHUNK", 1000)  # several chunks
    taken = []
    monkeypatch.setattr(sums, "run", lambda *given, run=sums.run: (taken.append(1), run(*given)))
    value = torch.randn(shape, dtype=dtype, requires_grad=True)
    weight = torch.randn(EDGES, dtype=dtype, requires_grad=True)
    call = calls(graph(), value, weight)[name]
    ours, expected = call("numba"), call("gather")
    torch.testing.assert_close(ours, expected)
    assert taken
    cotangent = torch.randn_like(ours)
    found, wanted = (
        torch.autograd.grad(out, (value, weight), cotangent, allow_unused=True) for out in (ours, expected)
    )
    torch.testing.assert_close(found[0], wanted[0])
    if name == "weights" or name == "number":
        torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mean", "weights"])
def test_gradients_have_gradients(name):
    value = torch.randn(NODES, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(EDGES, dtype=torch.float64, requires_grad=True)
    edges = graph()
    torch.autograd.gradgradcheck(lambda value, weight: calls(edges, value, weight)[name]("numba"), (value, weight))


def test_degrees_are_computed_once_for_a_graph_and_serve_training_after_evaluation():
    edges, layer, nodes = graph(), SymmetricConvolution(4, 3), torch.randn(NODES, 4)
    with torch.inference_mode():
        first = layer(nodes, edges)
    again = layer(nodes, edges)
    again.sum().backward()
    assert torch.equal(first, again)
    assert layer.linear.weight.grad is not None
    weighted = layer(nodes, edges, torch.ones(EDGES))
    torch.testing.assert_close(again, weighted)
    assert layer.double()(nodes.double(), edges).dtype == torch.float64


@pytest.mark.parametrize("backend", ["numba", "gather"])
def test_an_empty_batch_gives_an_empty_batch(backend):
    assert aggregate(torch.empty(0, NODES, 4), graph(), backend=backend).shape == (0, NODES, 4)
