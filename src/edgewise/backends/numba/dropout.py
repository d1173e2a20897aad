"""Dropout on a CPU, together with the activation before it: one pass forward and one backward, no mask in memory.

    y = f(x) · m / (1 − rate)        dx = dy · f′(x) · m / (1 − rate)        m = 0 with probability `rate`, else 1

The mask is a function of a seed and the place of the number alone, and so the backward pass draws it again. torch draws
a table of random numbers, which takes ten times as long as the product.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import types
from torch import Tensor

from edgewise.backends.autograd import define_with_gradient
from edgewise.backends.numba.arrays import array_of
from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.heads import load_heads, store_heads, zero_lanes
from edgewise.backends.numba.score import ACTIVATIONS, activated, activation_derivative
from edgewise.backends.numba.simd import (
    INT32,
    WIDE,
    Builder,
    get,
    intrinsic,
    keep_alive,
    pointer,
    put,
    splat,
    vector_of,
)
from edgewise.score import ACTIVATIONS as FUNCTIONS

NO_ACTIVATION = -1
CHUNK, MAX_CHUNKS = 2**15, 64
"""Numbers in a chunk of work, and how many chunks at most."""
MAX_NUMBERS = 2**31
"""Places are counted in 32 bits."""


class Masked(NamedTuple):
    """What is the same for all numbers."""

    activation: int
    """The code of f; `NO_ACTIVATION` where it is the identity."""
    threshold: int
    """A number is dropped where the hash of its place is below it, of 2³²."""
    scale: float
    """1 / (1 − rate)."""
    low: int
    high: int
    """The seed, in two times 32 bits."""


@intrinsic
def factors(typing: Any, like: Any, index: Any, low: Any, high: Any, threshold: Any, scale: Any) -> Any:
    """0 or the scale in each lane, by a hash of its place and the seed."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        count = like.count
        integers = ir.VectorType(INT32, count)

        def number(x: int) -> ir.Constant:
            return ir.Constant(integers, [x] * count)

        def mixed(x: ir.Value) -> ir.Value:
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
                x = builder.mul(builder.xor(x, builder.lshr(x, number(shift))), number(factor))
            return builder.xor(x, builder.lshr(x, number(16)))

        first, low_half, high_half, limit = (
            splat(builder, builder.trunc(x, INT32), count) for x in (values[1], values[2], values[3], values[4])
        )
        positions = builder.add(first, ir.Constant(integers, list(range(count))))
        hashes = mixed(builder.xor(mixed(builder.add(positions, low_half)), high_half))
        vector = vector_of(like)
        scaled = splat(builder, context.cast(builder, values[5], typed.args[5], like.dtype), count)

        return builder.select(builder.icmp_unsigned("<", hashes, limit), ir.Constant(vector, [0.0] * count), scaled)

    integer = types.int64
    return like(like, integer, integer, integer, integer, types.float64), lower


@inlined
def masked(call: Any, x: Any, at: int) -> Any:
    """f(x) · m / (1 − rate)."""
    activated_x = x if call.activation == NO_ACTIVATION else activated(call.activation, x)
    return activated_x * factors(x, at, call.low, call.high, call.threshold, call.scale)


@inlined
def masked_gradient(call: Any, x: Any, d_out: Any, at: int) -> Any:
    """dy · f′(x) · m / (1 − rate)."""
    gradient = d_out * factors(x, at, call.low, call.high, call.threshold, call.scale)
    return gradient if call.activation == NO_ACTIVATION else gradient * activation_derivative(call.activation, x)


@kernel
def mask(first, step, call, chunks, x, d_out, out):
    """The output; or, where `d_out` has numbers, the gradient of x."""
    size, is_gradient = x.size, d_out.size > 0
    tail = np.zeros((2, WIDE), x.dtype)
    numbers, gradients, written = pointer(x), pointer(d_out), pointer(out)
    last_x, last_d = pointer(tail[0]), pointer(tail[1])
    none = zero_lanes(numbers, WIDE)

    for chunk in range(first, chunks, step):
        begin, end = size // WIDE * chunk // chunks * WIDE, size // WIDE * (chunk + 1) // chunks * WIDE
        if is_gradient:
            for at in range(begin, end, WIDE):
                lanes, d_lanes = load_heads(numbers, at, 0, none), load_heads(gradients, at, 0, none)
                store_heads(written, at, 0, masked_gradient(call, lanes, d_lanes, at))
        else:
            for at in range(begin, end, WIDE):
                store_heads(written, at, 0, masked(call, load_heads(numbers, at, 0, none), at))
        if chunk == chunks - 1 and end < size:
            for index in range(end, size):
                put(last_x, index - end, get(numbers, index))
                if is_gradient:
                    put(last_d, index - end, get(gradients, index))
            lanes, d_lanes = load_heads(last_x, 0, 0, none), load_heads(last_d, 0, 0, none)
            lanes = masked_gradient(call, lanes, d_lanes, end) if is_gradient else masked(call, lanes, end)
            store_heads(last_x, 0, 0, lanes)
            for index in range(end, size):
                put(written, index, get(last_x, index - end))

    keep_alive(tail)


class DropoutInputs(NamedTuple):
    """What the operator takes."""

    x: Tensor
    """Any shape, contiguous."""
    activation: str
    """f, by its name in `score.ACTIVATIONS`; empty where it is the identity."""
    rate: float
    seed: Tensor
    """`(1)`."""


def forward(inputs: DropoutInputs) -> Tensor:
    """The output."""
    return run(inputs, None)


def shapes(inputs: DropoutInputs) -> Tensor:
    """What tracers see of it."""
    return torch.empty_like(inputs.x)


def backward(d_out: Tensor, outputs: list[Tensor], inputs: DropoutInputs, needs: Sequence[bool]) -> list[Tensor]:
    """The gradient of x."""
    return [run(inputs, d_out.contiguous())]


def formula(inputs: DropoutInputs) -> Tensor:
    """The output in plain torch: the mask is what the kernel makes of ones."""
    ones = inputs.x.new_ones(inputs.x.shape)
    activated_x = FUNCTIONS[inputs.activation](inputs.x) if inputs.activation else inputs.x
    return activated_x * run(inputs._replace(x=ones, activation=""), None)


def run(inputs: DropoutInputs, d_out: Tensor | None) -> Tensor:
    """The output, or the gradient of x."""
    x, out, seed = array_of(inputs.x), torch.empty_like(inputs.x), int(inputs.seed)
    code = ACTIVATIONS.index(inputs.activation) if inputs.activation else NO_ACTIVATION
    call = Masked(
        code, min(round(inputs.rate * 2**32), 2**32 - 1), 1 / (1 - inputs.rate), seed & 0xFFFFFFFF, seed >> 32
    )
    chunks = max(1, min(MAX_CHUNKS, x.size // CHUNK))
    gradients = x[:0] if d_out is None else array_of(d_out)
    mask.run(chunks, call, chunks, x, gradients, array_of(out))
    return out


dropout = define_with_gradient("dropout", DropoutInputs, forward, shapes, backward, formula, num_differentiable=1)
