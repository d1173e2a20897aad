"""Calls become one graph of torch's compiler, forward and backward, with the operators of the kernels in it."""

import pytest
import torch
from triton_cases import DEVICE, NORMALIZERS, SCORES, by_day

HEADS, NODES, DIM = 2, 6, 4
CASES = [
    ("edges", "gatv2", "straight_through", 0.0),
    ("causal", "scaled", "softmax", 0.3),
    ("lengths", "gat", "entmax", 0.0),
    *((kind, score, "softmax", 0.0) for kind in ("edges", "causal") for score in SCORES),
    *((kind, "scaled", normalizer, dropout) for kind in ("edges", "causal") for normalizer in NORMALIZERS
      for dropout in (0.0, 0.3)),
]  # fmt: skip
"""Neighborhood, score, normalizer and dropout."""


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`-wrapped function")
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("kind", "score", "normalizer", "dropout"), by_day(CASES))
def test_a_call_and_its_gradient_are_one_graph(plain_edgewise, monkeypatch, kind, score, normalizer, dropout, dynamic):
    e = plain_edgewise
    monkeypatch.setattr("edgewise.backends.triton.DEVICES", (DEVICE,))
    random = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(*shape, generator=random).to(DEVICE).requires_grad_()

    leaves = [numbers(HEADS, NODES, DIM) for _ in range(3)]
    parts = {name: numbers(HEADS, DIM) for name in ("vector", "other")}
    parts |= {"matrix": numbers(HEADS, DIM, DIM), "positive": torch.ones(HEADS, device=DEVICE)}
    ends = torch.randint(NODES, (2, 9), generator=random)
    neighborhood = {
        "edges": e.Edges(*ends, NODES, NODES),
        "causal": e.Causal(),
        "lengths": e.Lengths(torch.tensor([3, 5])),
    }[kind].to(DEVICE)
    rule, normalize = _of(e, SCORES[score](parts)), _of(e, NORMALIZERS[normalizer](parts))

    def run(query, key, value):
        return e.attend(
            query, key, value, neighborhood, score=rule, normalize=normalize, dropout=dropout, backend="triton"
        )

    found = []
    for each in (torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=dynamic), run):
        torch.manual_seed(0)
        out = each(*leaves)
        found.append((out, *torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)))
    for one, other in zip(*found):
        torch.testing.assert_close(one, other)


def _of(edgewise, part):
    """The same score or normalizer of another copy of the library."""
    return getattr(edgewise, type(part).__name__)(**vars(part))
