"""Vectors of numbers inside numba kernels: the few primitives that the kernels are written in.

`Lanes` is a numba type that holds WIDTH numbers, or WIDE of them, in one register (or in several, where those of the
processor are narrower: LLVM splits them). Lanes add, subtract, multiply, divide and compare with each other and with
numbers; what cannot be written with these is one of the primitives below:

    pointer  shifted                           to the first element of an array: one word, where an array is seven
    load  store  stream                        elements from a pointer on, whatever is stored, as lanes; and back
    get  put  prefetch                         one element; the cache line of one
    fma  maximum  where  inverse  square_root  lane by lane; fill, some, total

What reads the same features of many heads at once is in `heads`.

Arrays store float32, float64, bfloat16 or float16; arithmetic is float32 or float64. numba knows neither of the short
kinds, so their bits come as uint16 (bfloat16) and int16 (float16). Nothing here uses fast-math: infinities and NaN are
what they are, and every kernel that computes the same expression gets the same bits.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as untyped_intrinsic
from numba.extending import lower_builtin, models, register_model

WIDTH, WIDE = 8, 16
"""Lanes of a vector with a number for each head, and of one with features of a head: 256 and 512 bits of float32."""
LINE = 64
"""Bytes in a cache line."""

Builder = Any
intrinsic: Any = untyped_intrinsic  # what it makes is called with fewer arguments than it is written with
INT32, INT64, BYTES = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


class Lanes(types.Type):
    """Some numbers of one kind."""

    def __init__(self, dtype: types.Type, count: int = WIDTH):
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")


class Flags(types.Type):
    """As many truth values: what a comparison of lanes gives and `where` takes."""

    def __init__(self, count: int):
        self.count = count
        super().__init__(name=f"Flags({count})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Lanes are an LLVM vector."""

    def __init__(self, manager: Any, lanes: Lanes):
        super().__init__(manager, lanes, vector_of(lanes))


@register_model(Flags)
class FlagsModel(models.PrimitiveModel):
    """Flags are an LLVM vector of bits."""

    def __init__(self, manager: Any, flags: Flags):
        super().__init__(manager, flags, ir.VectorType(ir.IntType(1), flags.count))


def vector_of(lanes: Lanes) -> ir.VectorType:
    """The LLVM type of lanes."""
    return ir.VectorType(ir.FloatType() if lanes.dtype == types.float32 else ir.DoubleType(), lanes.count)


def lanes_of(source: Any, count: int = WIDTH) -> Lanes:
    """The lanes in which numbers from a pointer are computed with."""
    return Lanes(types.float64 if source.dtype == types.float64 else types.float32, count)


# Arithmetic and comparison: `lanes ∘ lanes`, `lanes ∘ number`, `number ∘ lanes`.


def splat(builder: Builder, number: ir.Value, count: int) -> ir.Value:
    """A vector that holds one number in every lane."""
    vector = ir.VectorType(number.type, count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, INT32(0))
    zeros = ir.Constant(ir.VectorType(INT32, count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _as_lanes(context: Any, builder: Builder, value_type: types.Type, value: ir.Value, lanes: Lanes) -> ir.Value:
    return (
        value
        if isinstance(value_type, Lanes)
        else splat(builder, context.cast(builder, value, value_type, lanes.dtype), lanes.count)
    )


def _define_operator(symbol: Callable, instruction: Callable[[Builder, ir.Value, ir.Value], ir.Value]) -> None:
    compares = symbol in (operator.gt, operator.ge, operator.lt, operator.eq, operator.ne)

    @infer_global(symbol)
    class Typed(AbstractTemplate):
        def generic(self, arguments: tuple, keywords: dict) -> Any:
            lanes = [argument for argument in arguments if isinstance(argument, Lanes)]
            if lanes and all(argument == lanes[0] or isinstance(argument, types.Number) for argument in arguments):
                return signature(Flags(lanes[0].count) if compares else lanes[0], *arguments)

    def lowered(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        lanes = next(argument for argument in typed.args if isinstance(argument, Lanes))
        left, right = (_as_lanes(context, builder, argument, x, lanes) for argument, x in zip(typed.args, values))
        return instruction(builder, left, right)

    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(symbol, *kinds)(lowered)


_define_operator(operator.add, lambda builder, x, y: builder.fadd(x, y))
_define_operator(operator.sub, lambda builder, x, y: builder.fsub(x, y))
_define_operator(operator.mul, lambda builder, x, y: builder.fmul(x, y))
_define_operator(operator.truediv, lambda builder, x, y: builder.fdiv(x, y))
_define_operator(operator.gt, lambda builder, x, y: builder.fcmp_ordered(">", x, y))
_define_operator(operator.ge, lambda builder, x, y: builder.fcmp_ordered(">=", x, y))
_define_operator(operator.lt, lambda builder, x, y: builder.fcmp_ordered("<", x, y))
_define_operator(operator.eq, lambda builder, x, y: builder.fcmp_ordered("==", x, y))
_define_operator(operator.ne, lambda builder, x, y: builder.fcmp_unordered("!=", x, y))


def call(builder: Builder, name: str, *values: ir.Value) -> ir.Value:
    """LLVM's own function of this name, lane by lane."""
    vector_type = values[0].type
    suffix = f"v{vector_type.count}f{32 if isinstance(vector_type.element, ir.FloatType) else 64}"
    declared = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector_type, [x.type for x in values]), f"llvm.{name}.{suffix}"
    )
    return builder.call(declared, values)


# Memory.

BFLOAT16, FLOAT16 = types.uint16, types.int16


class Pointer(types.Type):
    """Where numbers of one kind begin in memory."""

    def __init__(self, dtype: Any):
        self.dtype, self.bytes_each = dtype, dtype.bitwidth // 8
        super().__init__(name=f"Pointer({dtype})")


@register_model(Pointer)
class PointerModel(models.PrimitiveModel):
    """A pointer is an LLVM pointer."""

    def __init__(self, manager: Any, pointer_type: Pointer):
        super().__init__(manager, pointer_type, manager.lookup(pointer_type.dtype).get_data_type().as_pointer())


@intrinsic
def pointer(typing: Any, array: Any) -> Any:
    """Where the array begins. numba frees an array after its last use, which `keep_alive` delays."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return context.make_array(array)(context, builder, values[0]).data

    return Pointer(array.dtype)(array), lower


@intrinsic
def shifted(typing: Any, source: Any, index: Any) -> Any:
    """To the element at `index`."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return builder.gep(values[0], [values[1]])

    return source(source, types.intp), lower


@intrinsic
def keep_alive(typing: Any, array: Any) -> Any:
    """Nothing but a last use of an array that pointers lead to."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return context.get_dummy_value()

    return types.void(array), lower


def _read(builder: Builder, address: ir.Value, vector_type: ir.VectorType, align: int) -> ir.Value:
    """A vector, which need lie only as its numbers do."""
    return builder.load(builder.bitcast(address, vector_type.as_pointer()), align=align)


def load_from(builder: Builder, source: Pointer, address: ir.Value, lanes: Lanes) -> ir.Value:
    """As many elements as there are lanes, from a place on."""
    wanted = vector_of(lanes)
    if source.dtype == BFLOAT16:
        wide = ir.VectorType(INT32, lanes.count)
        bits = builder.zext(_read(builder, address, ir.VectorType(ir.IntType(16), lanes.count), 2), wide)
        return builder.bitcast(builder.shl(bits, ir.Constant(wide, [16] * lanes.count)), wanted)
    if source.dtype == FLOAT16:
        return builder.fpext(_read(builder, address, ir.VectorType(ir.HalfType(), lanes.count), 2), wanted)
    return _read(builder, address, wanted, source.bytes_each)


@intrinsic
def load(typing: Any, source: Any, index: Any) -> Any:
    """WIDTH elements from `index` on, as lanes."""
    lanes = lanes_of(source)

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return load_from(builder, source, builder.gep(values[0], [values[1]]), lanes)

    return lanes(source, types.intp), lower


def _storing(streams: bool) -> Any:
    @intrinsic
    def write(typing: Any, target: Any, index: Any, lanes: Any) -> Any:
        def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
            store_to(builder, target, builder.gep(values[0], [values[1]]), values[2], streams)
            return context.get_dummy_value()

        return types.void(target, types.intp, lanes), lower

    return write


store, stream = _storing(False), _storing(True)
"""Write lanes from `index` on, rounded to the nearest that can be stored. `stream` writes past the caches, so that
nothing is read in order to be overwritten: for much that is not needed soon, at whole multiples of the lanes' bytes."""


def store_to(builder: Builder, target: Pointer, address: ir.Value, value: ir.Value, streams: bool = False) -> None:
    """Write a vector from a place on, as the target stores numbers."""
    if target.dtype == BFLOAT16:
        value = _to_bfloat16(builder, value)
    elif target.dtype == FLOAT16:
        value = builder.fptrunc(value, ir.VectorType(ir.HalfType(), value.type.count))
    align = min(value.type.count * target.bytes_each, LINE) if streams else target.bytes_each
    written = builder.store(value, builder.bitcast(address, value.type.as_pointer()), align=align)
    if streams:
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def _to_bfloat16(builder: Builder, value: ir.Value) -> ir.Value:
    """The upper half of the bits, rounded to nearest even; NaN stays NaN."""
    integers = ir.VectorType(INT32, value.type.count)

    def number(x: int) -> ir.Constant:
        return ir.Constant(integers, [x] * value.type.count)

    bits = builder.bitcast(value, integers)
    odd = builder.and_(builder.lshr(bits, number(16)), number(1))
    rounded = builder.add(bits, builder.add(odd, number(0x7FFF)))
    broken = builder.or_(bits, number(0x400000))
    chosen_bits = builder.select(builder.fcmp_unordered("uno", value, value), broken, rounded)
    return builder.trunc(builder.lshr(chosen_bits, number(16)), ir.VectorType(ir.IntType(16), value.type.count))


@intrinsic
def get(typing: Any, source: Any, index: Any) -> Any:
    """One element; whole numbers as the kind that counts."""
    element_type = types.intp if isinstance(source.dtype, types.Integer) else source.dtype

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return context.cast(builder, builder.load(builder.gep(values[0], [values[1]])), source.dtype, element_type)

    return element_type(source, types.intp), lower


@intrinsic
def put(typing: Any, target: Any, index: Any, x: Any) -> Any:
    """Write one element."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        builder.store(context.cast(builder, values[2], x, target.dtype), builder.gep(values[0], [values[1]]))
        return context.get_dummy_value()

    return types.void(target, types.intp, x), lower


@intrinsic
def prefetch(typing: Any, source: Any, index: Any) -> Any:
    """Prefetch the cache line of an element that will be read soon; its place may lie outside the array."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        prefetch_at(builder, builder.gep(values[0], [values[1]]))
        return context.get_dummy_value()

    return types.void(source, types.intp), lower


def prefetch_at(builder: Builder, address: ir.Value) -> None:
    """Prefetch the cache line of a place, into the second cache: the first has few places for lines that are on their
    way, and a processor that finds them taken stands still. Prefetched into the second, rows from anywhere arrive up to
    twice as fast (`benchmarks/cpu_attention/limits.py` measures both)."""
    signature = ir.FunctionType(ir.VoidType(), [BYTES, INT32, INT32, INT32])
    declared = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
    read, second_cache, data = INT32(0), INT32(2), INT32(1)
    builder.call(declared, [builder.bitcast(address, BYTES), read, second_cache, data])


# Lane by lane.


@intrinsic
def fill(typing: Any, like: Any, number: Any) -> Any:
    """Lanes that all hold one number, of the kind of other lanes, or of those an array is computed with."""
    lanes = like if isinstance(like, Lanes) else lanes_of(like)

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return _as_lanes(context, builder, typed.args[1], values[1], lanes)

    return lanes(like, number), lower


@intrinsic
def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z, rounded once; x may be a number."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return call(builder, "fma", _as_lanes(context, builder, typed.args[0], values[0], y), *values[1:])

    return z(x, y, z), lower


@intrinsic
def inverse(typing: Any, x: Any) -> Any:
    """1 / x for x that is finite and far from 0: an estimate and a Newton step, three times as fast as a division."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        one = ir.Constant(vector_of(x), [1.0] * x.count)
        return builder.fdiv(one, values[0], flags=("arcp",))

    return x(x), lower


@intrinsic
def maximum(typing: Any, x: Any, y: Any) -> Any:
    """The larger of both; NaN where either is."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        left, right = (
            _as_lanes(context, builder, value_type, value, x) for value_type, value in zip(typed.args, values)
        )
        left_wins = builder.or_(builder.fcmp_ordered(">", left, right), builder.fcmp_unordered("uno", left, left))
        return builder.select(left_wins, left, right)

    return x(x, y), lower


@intrinsic
def where(typing: Any, flags: Any, x: Any, y: Any) -> Any:
    """x where the flag is set, else y; either may be a number."""
    lanes = x if isinstance(x, Lanes) else y

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        chosen = (
            _as_lanes(context, builder, value_type, value, lanes)
            for value_type, value in zip(typed.args[1:], values[1:])
        )
        return builder.select(values[0], *chosen)

    return lanes(flags, x, y), lower


@intrinsic
def some(typing: Any, flags: Any) -> Any:
    """Whether any flag is set."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        bits = builder.bitcast(values[0], ir.IntType(flags.count))
        return context.cast(builder, builder.icmp_unsigned("!=", bits, bits.type(0)), types.boolean, types.boolean)

    return types.boolean(flags), lower


@intrinsic
def total(typing: Any, x: Any) -> Any:
    """The sum of all lanes, halves added to each other."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        (sums,) = values
        while (half := sums.type.count // 2) > 0:
            sides = (ir.Constant(ir.VectorType(INT32, half), list(range(at, at + half))) for at in (0, half))
            sums = builder.fadd(*(builder.shuffle_vector(sums, sums, side) for side in sides))
        return builder.extract_element(sums, INT32(0))

    return x.dtype(x), lower


@intrinsic
def square_root(typing: Any, x: Any) -> Any:
    """√x, lane by lane."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        return call(builder, "sqrt", *values)

    return x(x), lower
