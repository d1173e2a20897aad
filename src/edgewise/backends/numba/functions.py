"""Elementary functions on lanes: numba's wheel brings no vector library, so they are made here."""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import overload

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.simd import Builder, call, fill, fma, intrinsic, vector_of, where

# The exponential: x = n ln 2 + r, |r| ≤ ln 2 / 2; eˣ = 2ⁿ (1 + r q(r)), q the series of (eʳ − 1) / r.

SINGLE = (-87.3, 88.376, 0.693145751953125, 1.428606765330187e-06)
DOUBLE = (-708.3, 709.436, 0.6931471803691238, 1.9082149292705877e-10)
"""The range of x in which 2ⁿ is neither 0 nor ∞, and ln 2 as a short number, exact in products with n, and what
remains."""


def _range_and_ln2(x: Any) -> Any:
    """SINGLE or DOUBLE, as the lanes are."""


@overload(_range_and_ln2, strict=False)
def _range_and_ln2_of(x: Any) -> Any:
    constants = SINGLE if x.dtype == types.float32 else DOUBLE
    return lambda x: constants


@intrinsic
def _series(typing: Any, r: Any) -> Any:
    """q(r) = Σ rᵏ / (k + 1)!, with as many terms as the precision needs."""
    terms = 7 if r.dtype == types.float32 else 13

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        vector_type = vector_of(r)
        constants = [ir.Constant(vector_type, [1 / math.factorial(k + 1)] * r.count) for k in range(terms)]
        total = constants.pop()
        while constants:
            total = call(builder, "fma", total, values[0], constants.pop())
        return total

    return r(r), lower


@inlined
def _exponential(x: Any) -> Any:
    """2ⁿ and eʳ − 1."""
    low, high, ln2, ln2_low = _range_and_ln2(x)
    x = where(x > low, x, low)
    x = where(x > high, high, x)
    n = _floor(fma(1.4426950408889634, x, fill(x, 0.5)))
    r = fma(-ln2_low, n, fma(-ln2, n, x))
    return _power_of_two(n), r * _series(r)


@inlined
def exp(x: Any) -> Any:
    """eˣ to a unit or two in the last place; 0 where it would be denormal, and no more than at the end of the range."""
    power, fraction = _exponential(x)
    low = _range_and_ln2(x)[0]
    power_of_e = fma(power, fraction, power)
    return where(x == x, where(x > low, power_of_e, 0.0), x)


@inlined
def exp_minus_one(x: Any) -> Any:
    """eˣ − 1, exact also near 0."""
    power, fraction = _exponential(x)
    difference = fma(power, fraction, power - 1.0)
    return where(x == x, difference, x)


@intrinsic
def _floor(typing: Any, x: Any) -> Any:
    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return call(builder, "floor", *values)

    return x(x), lower


@intrinsic
def _power_of_two(typing: Any, x: Any) -> Any:
    """2ˣ for whole x in the range of the exponent, put together from bits."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        single = x.dtype == types.float32
        integers = ir.VectorType(ir.IntType(32 if single else 64), x.count)
        bias, shift = (ir.Constant(integers, [n] * x.count) for n in ((127, 23) if single else (1023, 52)))
        exponent = builder.add(builder.fptosi(values[0], integers), bias)
        return builder.bitcast(builder.shl(exponent, shift), vector_of(x))

    return x(x), lower


@inlined
def tanh(z):
    """tanh z = (e²ᶻ − 1) / (e²ᶻ + 1)."""
    z = where(z > 20.0, 20.0, where(z < -20.0, -20.0, z))
    fraction = exp_minus_one(z + z)
    return fraction / (fraction + 2.0)


@inlined
def sigmoid(z):
    """1 / (1 + e⁻ᶻ); 0 where it would be denormal by far."""
    high = _range_and_ln2(z)[1]
    return where(z + high < 0.0, 0.0, 1.0 / (1.0 + exp(0.0 - z)))


# The error function: x p(x²) near 0, else 1 − exp(q(|x|)), both polynomials fitted to all digits of float32.

NEAR = (7.889113476267084e-05, -0.0008020839304663241, 0.005189535208046436, -0.026854444295167923,
        0.11283600330352783, -0.3761262595653534, 1.1283791065216064)  # fmt: skip
FAR = (-2.1686997570213862e-05, 0.0004413381975609809, -0.00420457124710083, 0.025208283215761185,
       -0.10841862112283707, -0.633219838142395, -1.1295784711837769, 0.00018804532010108232)  # fmt: skip
"""Coefficients of p for |x| < 1 and of q up to 4, beyond which erf x is 1; the highest power first."""


def _polynomial(coefficients: tuple[float, ...]) -> Any:
    """A polynomial as a primitive, by Horner's rule."""

    @intrinsic
    def value(typing: Any, x: Any) -> Any:
        def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
            total, *lower_constants = (
                ir.Constant(vector_of(x), [coefficient] * x.count) for coefficient in coefficients
            )
            for constant in lower_constants:
                total = call(builder, "fma", total, values[0], constant)
            return total

        return x(x), lower

    return value


_near, _far = _polynomial(NEAR), _polynomial(FAR)


def erf(x: Any) -> Any:
    """The error function; of float64 lane after lane by the system's library, exact and slow."""


@overload(erf, strict=False, jit_options={"forceinline": True})
def _erf_of(x: Any) -> Any:
    if x.dtype != types.float32:
        return lambda x: _system_erf(x)

    def polynomials(x):
        size = where(x < 0.0, 0.0 - x, x)
        size = where(size > 4.0, 4.0, size)
        far = 1.0 - exp(_far(size))
        erf_of_x = where(size < 1.0, size * _near(size * size), far)
        erf_of_x = where(x < 0.0, 0.0 - erf_of_x, erf_of_x)
        return where(x == x, erf_of_x, x)

    return polynomials


@intrinsic
def _system_erf(typing: Any, x: Any) -> Any:
    """Lane after lane."""

    def lower(context: Any, builder: Any, typed: Any, values: list) -> ir.Value:
        number_type = values[0].type.element
        name = "erff" if isinstance(number_type, ir.FloatType) else "erf"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number_type, [number_type]), name)
        lanes = values[0]
        for lane in (ir.Constant(ir.IntType(32), n) for n in range(x.count)):
            lanes = builder.insert_element(
                lanes, builder.call(function, [builder.extract_element(values[0], lane)]), lane
            )
        return lanes

    return x(x), lower
