"""What only a device can show of the kernels over ranges: blocks of the size that users get, in every precision.

Triton multiplies them by other instructions than the small blocks of the other tests, and rounds half precision, which
its interpreter does not.
"""

import pytest
import torch
from torch import Tensor

from edgewise import Additive, Causal, Cosine, Full, GATv2, ScaledDot, attend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = "cuda"
HEADS = 2
SCORES = {
    "scaled": lambda vector: ScaledDot(),
    "cosine": lambda vector: Cosine(),
    "tanh": lambda vector: Additive(vector),
    "gatv2": lambda vector: GATv2(vector),
}


def solve(given: dict[str, Tensor], backend: str, score: str, causal: bool, dtype: torch.dtype) -> dict[str, Tensor]:
    """The output and all gradients."""
    at = {name: x.to(dtype).requires_grad_() for name, x in given.items() if name != "cotangent"}
    out = attend(
        at["query"], at["key"], at["value"], Causal() if causal else Full(), score=SCORES[score](at["vector"]),
        bias=at["bias"], backend=backend,
    )  # fmt: skip
    out.backward(given["cotangent"].to(dtype))
    found = {name: x.grad for name, x in at.items() if x.grad is not None}
    return {name: x.detach().double() for name, x in {"output": out, **found}.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("length", [200, 256])
@pytest.mark.parametrize("dim", [32, 64, 128])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("score", SCORES)
def test_values_and_gradients_are_those_of_plain_torch(score, causal, length, dim, dtype):
    """In half precision the error is at most twice that of plain torch, and two roundings more."""
    random = torch.Generator().manual_seed(0)
    shapes = dict.fromkeys(("query", "key", "value", "cotangent"), (HEADS, length, dim))
    shapes |= {"vector": (HEADS, dim), "bias": (length, length)}
    given = {name: torch.randn(shape, generator=random).to(DEVICE, dtype) for name, shape in shapes.items()}
    right = solve(given, "gather", score, causal, torch.float64)
    found = solve(given, "triton", score, causal, dtype)
    plain = right if dtype == torch.float32 else solve(given, "gather", score, causal, dtype)
    rounding = 1e-5 if dtype == torch.float32 else torch.finfo(dtype).eps
    assert found.keys() == right.keys()
    for name, wanted in right.items():
        scale = wanted.abs().max()
        off, usual = ((x - wanted).abs().max() / scale for x in (found[name], plain[name]))
        assert off <= 2 * (usual + rounding), name
