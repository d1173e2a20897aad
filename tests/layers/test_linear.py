"""The layers' matrix product: the same numbers and derivatives as torch's, whichever library computes them."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from edgewise.layers import linear as module
from edgewise.layers.linear import Linear, linear
from edgewise.learn.training.device import autocast, cpu_threads

SIZES = [(768, 128, 512), (1000, 128, 256), (2047, 130, 131), (1024, 64, 64)]
"""Rows, inputs, outputs: rows that are whole blocks, rows that are not, and short rows in whole blocks."""

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="a torch without oneDNN")


@pytest.fixture
def products(monkeypatch):
    """oneDNN computes whatever the processor; how many of its products there were."""
    found, compute = [], module._onednn
    monkeypatch.setattr(module, "is_onednn_faster", lambda: True)
    monkeypatch.setattr(module, "_onednn", lambda *tensors: found.append(tensors[0].shape) or compute(*tensors))
    return found


def drawn(rows, inputs, outputs, dtype=torch.float32):
    torch.manual_seed(rows)
    shapes = (rows, inputs), (outputs, inputs), (outputs,)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def assert_near(found, exact):
    """To a few units in the last place of the largest number, as sums of some hundred products are."""
    assert (found - exact).abs().max() <= 3e-6 * exact.abs().max()


@needs_onednn
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_values_gradients_and_second_gradients_are_those_of_float64(size, has_bias, products):
    found, exact = [], []
    for dtype, results in ((torch.float32, found), (torch.float64, exact)):
        x, weight, bias = (each.detach().to(dtype).requires_grad_() for each in drawn(*size))
        inputs = (x, weight, bias) if has_bias else (x, weight)
        torch.manual_seed(0)
        cotangent = torch.randn(size[0], size[2]).to(dtype).requires_grad_()
        out = linear(*inputs)
        gradients = torch.autograd.grad(out, inputs, cotangent, create_graph=True)
        second = torch.autograd.grad(
            sum((each**2).sum() for each in gradients[:2]), (x, weight, cotangent), allow_unused=True
        )
        results += [out, *gradients, *second]
    for one, other in zip(found, exact, strict=True):
        assert_near(one, other)
    assert len(products) == 3 + 4  # the output and two gradients, each of which has two factors


@needs_onednn
def test_batches_views_and_gradients_of_one_number_each(products):
    x, weight, bias = (each.detach() for each in drawn(1024, 128, 128))
    batch = x.view(4, 2, 128, 128).transpose(0, 1).requires_grad_()
    out = linear(batch, weight, bias)
    assert out.shape == (2, 4, 128, 128)
    assert_near(out, F.linear(batch.double(), weight.double(), bias.double()))
    (found,) = torch.autograd.grad(out.sum(), [batch])  # a gradient whose numbers all lie at one place
    assert_near(found, weight.double().sum(0).expand_as(batch))
    assert len(products) == 2


@needs_onednn
@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_small_products_are_torchs(rows, products):
    x, weight, bias = drawn(rows, 128, 256)
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    assert not products


@needs_onednn
def test_other_types_and_transforms_are_torchs(products):
    x, weight, bias = drawn(1024, 128, 128)
    double = [each.double() for each in (x, weight, bias)]
    assert torch.equal(linear(*double), F.linear(*double))
    with autocast("bf16", "cpu"):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    torch.testing.assert_close(
        torch.func.vmap(linear, (0, None, None))(x.view(2, 512, 128), weight, bias).view(1024, 128),
        F.linear(x, weight, bias),
    )
    with FakeTensorMode() as mode:
        assert linear(*map(mode.from_tensor, (x, weight, bias))).shape == (1024, 128)
    _, tangent = torch.func.jvp(lambda x: linear(x, weight, bias), (x.detach(),), (torch.ones_like(x),))
    assert_near(tangent, weight.double().sum(1).expand(1024, 128))
    assert not products


@needs_onednn
def test_few_numbers_of_rows_are_met(products):
    _, weight, bias = drawn(1, 128, 256)
    for rows in range(1000, 1100):
        linear(torch.ones(rows, 128), weight, bias)
    assert len({shape[0] for shape in products}) <= 3
    assert all(shape[0] > 0.87 * 1000 for shape in products)


@needs_onednn
def test_the_same_call_gives_the_same_bits(products):
    x, weight, bias = drawn(1001, 128, 256)
    with cpu_threads(2):
        assert torch.equal(linear(x, weight, bias), linear(x, weight, bias))


def test_a_layer_is_torchs_by_name_and_weights():
    torch.manual_seed(1)
    ours = Linear(128, 256)
    torch.manual_seed(1)
    theirs = torch.nn.Linear(128, 256)
    assert str(ours) == str(theirs) and isinstance(ours, torch.nn.Linear)
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))
    x = torch.randn(1000, 128)
    torch.testing.assert_close(ours(x), theirs(x))
