"""Arguments of kernels as words of 64 bits: most are written once, the others at each call.

Python hands a kernel its nested tuples of arrays field by field, which takes longer than a small graph. Here it hands
over two addresses: that of the words that stay the same, and that of the values that change. A word of the first is
itself, or where it is negative the place of a value. A whole number is one word, so is a float, and an array is two,
where its numbers begin and how many there are; tuples are their fields.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import register_model
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from edgewise.backends.numba.threads import INT64, call, call_here, call_on_team, intrinsic


@dataclass(frozen=True)
class Slot:
    """An argument that changes from call to call."""

    place: int
    """That of a whole number, or of the first word of an array, among the values."""
    dtype: np.dtype | None = None
    """That of the array; None for a whole number."""


def words_of(argument: Any, arrays: list[np.ndarray]) -> list[int]:
    """The words of an argument; what stays the same and has memory of its own is added to `arrays`."""
    if isinstance(argument, Slot):
        return [~argument.place] if argument.dtype is None else [~argument.place, ~(argument.place + 1)]
    if isinstance(argument, tuple):
        return [word for field in argument for word in words_of(field, arrays)]
    if isinstance(argument, np.ndarray):
        arrays.append(argument)
        return [argument.__array_interface__["data"][0], argument.size]
    if isinstance(argument, float):
        return [struct.unpack("q", struct.pack("d", argument))[0]]

    assert argument >= 0, argument  # a negative word is the place of a value
    return [argument]


def type_of(argument: Any) -> Any:
    """The type that numba gives an argument."""
    if isinstance(argument, tuple):
        return types.BaseTuple.from_types([type_of(field) for field in argument], type(argument))
    if isinstance(argument, float):
        return types.float64
    dtype = getattr(argument, "dtype", None)
    return types.int64 if dtype is None else types.Array(from_dtype(dtype), 1, "C")


class Words(types.Type):
    """The address of the words of arguments of these types: a whole number, whose type says what lies there."""

    def __init__(self, kinds: Any):
        super().__init__(f"Words({kinds})")
        self.kinds = kinds


@register_model(Words)
class WordsModel(models.PrimitiveModel):
    """In compiled code it is a whole number."""

    def __init__(self, manager: Any, kind: Words):
        super().__init__(manager, kind, INT64)


@intrinsic
def arguments_of(typing: Any, words: Any, values: Any) -> Any:
    """The tuple of arguments, from the addresses of words and values."""

    def generate(context: Any, builder: Any, _: Any, addresses: Any) -> Any:
        words_at, values_at = (builder.inttoptr(address, INT64.as_pointer()) for address in addresses)
        place = 0

        def word() -> Any:
            nonlocal place
            place += 1
            return builder.load(builder.gep(words_at, [INT64(place - 1)]))

        def number() -> Any:
            own = word()
            is_place = builder.icmp_signed("<", own, INT64(0))
            safe_place = builder.select(is_place, builder.not_(own), INT64(0))
            value = builder.load(builder.gep(values_at, [safe_place]))
            return builder.select(is_place, value, own)

        def argument(kind: Any) -> Any:
            if isinstance(kind, types.BaseTuple):
                return context.make_tuple(builder, kind, [argument(field) for field in fields_of(kind)])
            if isinstance(kind, types.Array):
                return _array(context, builder, kind, number(), number())
            return builder.bitcast(word(), ir.DoubleType()) if kind == types.float64 else number()

        return argument(words.kinds)

    return words.kinds(words, types.int64), generate


def fields_of(kind: Any) -> Any:
    """The types of the fields of a tuple."""
    return kind.types


def _array(context: Any, builder: Any, kind: Any, address: Any, size: Any) -> Any:
    """An array of memory that others hold."""
    array, item = make_array(kind)(context, builder), context.get_data_type(kind.dtype)
    bytes_each = context.get_constant(types.intp, context.get_abi_sizeof(item))
    data = builder.inttoptr(address, item.as_pointer())
    shape, strides = (cgutils.pack_array(builder, [x]) for x in (size, bytes_each))
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=bytes_each, meminfo=None)
    return array._getvalue()


def with_words(share: Any, count: Any, kernel: Any, words: Any, values: Any) -> Any:
    """Call a kernel, the address of its code, for one share, with the arguments that words and values stand for."""
    call(kernel, share, count, arguments_of(words, values))


def on_words(function: Any, start_team: Any, share: Any, count: Any, kernel: Any, words: Any, values: Any) -> Any:
    """Call `with_words`, the address of its code for some types, on one share or on all; how many of them failed.

    One share where `start_team` is 0, else all of `count`, on the threads that `start_team` starts. Python calls it,
    without its lock.
    """
    if start_team == 0:
        return call_here(function, share, count, (kernel, words, values))
    return call_on_team(function, start_team, count, (kernel, words, values))
