"""Gradients of gradients through the kernels for CUDA: their first gradients, and the formula for what lies beyond."""

import pytest
import torch
from triton_cases import DEVICE

from edgewise import Additive, Edges, GATv2, Hardmax, ScaledDot, Softmax, Sparsemax, Window, attend

EDGES = Edges(torch.tensor([0, 1, 2, 5, 5, 5]), torch.tensor([1, 1, 3, 0, 0, 0]), 6, 6).to(DEVICE)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE).requires_grad_()


def twice(backend, neighborhood, dropout, make_score, normalize):
    tensors = {"query": draw(2, 6, 4), "key": draw(1, 6, 4, seed=1), "value": draw(6, 4, seed=2)}
    if isinstance(neighborhood, Edges):
        tensors |= {"bias": draw(2, 6, seed=3), "edge_key": draw(6, 4, seed=4)}
    vector = draw(2, 4, seed=5)
    torch.manual_seed(1)
    out = attend(
        **tensors, neighborhood=neighborhood, score=make_score(vector), normalize=normalize, dropout=dropout,
        backend=backend,
    )  # fmt: skip
    wanted = [*tensors.values(), vector]
    options = {"create_graph": True, "materialize_grads": True}
    first = torch.autograd.grad((out.square() + out).sum(), wanted, **options)
    return [out, *first, *torch.autograd.grad(sum((x.square() + x).sum() for x in first), wanted, **options)]


@pytest.mark.parametrize("neighborhood", [EDGES, Window(1, 1)], ids=["edges", "window"])
@pytest.mark.parametrize(
    ("make_score", "normalize"),
    [
        (lambda vector: ScaledDot(), Softmax()),
        (GATv2, Sparsemax()),
        (Additive, Hardmax(straight_through=True)),
    ],
    ids=["scaled", "gatv2", "additive"],
)
def test_gradients_of_gradients(neighborhood, make_score, normalize):
    ours = twice("triton", neighborhood, 0.0, make_score, normalize)
    theirs = twice("reference", neighborhood, 0.0, make_score, normalize)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("neighborhood", [EDGES, Window(1, 1)], ids=["edges", "window"])
def test_dropout_drops_the_same_weights_in_every_derivative(neighborhood):
    """What the formula drops gives the gradients that the kernels computed, and so do differences of these."""
    query, key, value = draw(2, 6, 4), draw(2, 6, 4, seed=1), draw(2, 6, 4, seed=2)

    def gradient(query, create_graph):
        torch.manual_seed(1)
        out = attend(query, key, value, neighborhood, dropout=0.4, backend="triton")
        return torch.autograd.grad(out.square().sum(), query, create_graph=create_graph)[0]

    along, step = draw(2, 6, 4, seed=3).detach(), 1e-2
    (found,) = torch.autograd.grad((gradient(query, True) * along).sum(), query)
    ends = [gradient((query + sign * step * along).detach().requires_grad_(), False) for sign in (1, -1)]
    torch.testing.assert_close(found, (ends[0] - ends[1]) / (2 * step), rtol=2e-2, atol=2e-2)
