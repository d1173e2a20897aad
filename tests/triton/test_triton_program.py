"""A program that attends over edges on a device is compiled as one graph, and computes what it computes uncompiled."""

import pytest
import torch
from torch import Tensor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = "cuda"
COMPILER = "inductor"
NODES, EDGES, HEADS, DIM = 15_000, 100_000, 8, 16


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score", ["dot", "gatv2"])
def test_a_compiled_program_is_one_graph(plain_edgewise, score, dtype):
    random = torch.Generator(DEVICE).manual_seed(0)
    drawn = torch.rand(2, EDGES, generator=random, device=DEVICE) ** 4
    edges = plain_edgewise.Edges(*(NODES * drawn).long().clamp_(max=NODES - 1), NODES, NODES)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, device=DEVICE, dtype=dtype).requires_grad_()

    leaves = [numbers(NODES, HEADS, DIM) for _ in range(3)]
    vector, cotangent = numbers(HEADS, DIM), numbers(NODES, HEADS, DIM).detach()

    def program(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        heads = (x.transpose(0, 1) for x in (query, key, value))
        rule = plain_edgewise.ScaledDot() if score == "dot" else plain_edgewise.GATv2(vector)
        return 2 * plain_edgewise.attend(*heads, edges, score=rule, backend="triton").transpose(0, 1) + 1

    found, wanted = torch.compile(program, fullgraph=True, backend=COMPILER)(*leaves), program(*leaves)
    torch.testing.assert_close(found, wanted)
    grads = (torch.autograd.grad(out, leaves, cotangent) for out in (found, wanted))
    for one, other in zip(*grads):
        torch.testing.assert_close(one, other)
