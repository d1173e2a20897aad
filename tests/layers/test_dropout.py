"""Dropout by the CPU's kernel, alone and with the activation before it."""

import math

import pytest
import torch

from edgewise.layers.dropout import Dropout, dropout
from edgewise.learn.training.device import cpu_threads
from edgewise.score import ACTIVATIONS

NAMES = ["", "gelu", "silu", "tanh", "sigmoid", "relu"]
CLOSE = {torch.float32: 3e-6, torch.float64: 1e-12}


def drawn(x, rate=0.3, activation="", seed=3):
    torch.manual_seed(seed)
    return dropout(x, rate, True, activation)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", NAMES)
@pytest.mark.parametrize("shape", [(7,), (5, 67), (300, 217)])
def test_values_and_gradients_are_those_of_torch_under_the_same_mask(activation, dtype, shape):
    x = (4 * torch.randn(shape, dtype=dtype)).requires_grad_()
    out, cotangent = drawn(x, activation=activation), torch.randn(shape, dtype=dtype)
    mask = drawn(torch.ones(shape, dtype=dtype), activation="relu" if activation == "relu" else "")
    expected = (ACTIVATIONS[activation](x) if activation else x) * mask
    torch.testing.assert_close(out, expected, rtol=0, atol=CLOSE[dtype])
    (grad,), (wanted,) = (torch.autograd.grad(each, [x], cotangent) for each in (out, expected))
    torch.testing.assert_close(grad, wanted, rtol=0, atol=CLOSE[dtype])


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_numbers_are_dropped_independently_and_as_often_as_they_should(rate):
    ones = torch.ones(1000, 1000)
    stays = (drawn(ones, rate) != 0).double() - (1 - rate)
    other = (drawn(ones, rate, seed=4) != 0).double() - (1 - rate)
    deviation = math.sqrt(rate * (1 - rate))
    assert abs(stays.mean()) < 5 * deviation / 1000
    assert drawn(ones, rate).unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
    pairs = [(stays, other), (stays[1:], stays[:-1])]
    pairs += [(stays[:, step:], stays[:, :-step]) for step in (1, 2, 8, 16, 64)]
    for one, two in pairs:
        assert abs((one * two).mean()) < 5 * deviation**2 / 990
    for axis in (0, 1):  # neither rows nor columns are favored
        assert stays.mean(axis).std() == pytest.approx(deviation / math.sqrt(1000), rel=0.15)


def test_the_seed_decides_and_threads_do_not():
    x = torch.randn(400, 400)
    with cpu_threads(2):
        together = drawn(x, activation="gelu")
    assert torch.equal(together, drawn(x, activation="gelu"))
    assert not torch.equal(together, drawn(x, activation="gelu", seed=4))
    first, second = (dropout(torch.ones(100), 0.5, True) for _ in range(2))
    assert not torch.equal(first, second)


def test_nothing_is_dropped_outside_training():
    x, layer = torch.randn(10, 10), Dropout(0.5)
    assert torch.equal(layer.eval()(x), x)
    assert not torch.equal(layer.train()(x), x)
    assert torch.equal(dropout(x, 0.5, False, "gelu"), ACTIVATIONS["gelu"](x))
    assert torch.equal(dropout(x, 1.0, True), torch.zeros(10, 10))
    assert dropout(x[:0], 0.5, True).shape == (0, 10)


def test_gradients_have_gradients():
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradgradcheck(lambda x: drawn(x, activation="silu"), [x])


def test_rows_that_lie_apart_and_transforms_of_torch():
    x = torch.randn(8, 6)
    assert torch.equal(drawn(x.t()), drawn(x.t().contiguous()))
    assert torch.func.grad(lambda x: drawn(x).sum())(x).shape == x.shape
