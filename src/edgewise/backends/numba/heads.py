"""Features of one head, or of WIDTH heads at once: the kernels over edges are written once for both.

Where the number of heads is a multiple of WIDTH and heads lie one after the other in memory, the kernels compute with
a *tile*: WIDE features of each of WIDTH heads, eight registers of 512 bits. A step of a loop is then many
independent instructions, and none of them depends on the head. Elsewhere they compute with a vector of features of one
head. Each primitive takes lanes, often as `like`, whose type says which of the two it is compiled for.

    heads_of  end_of_group      how many heads there are in lanes, and where the heads of a group end
    load_heads  store_heads     features from memory, and back
    broadcast  zero_lanes       one number for all features of a head, and zeros
    store_sums  sums_of_heads   the sum over the features of each head
    prefetch_tile               the cache lines of a tile
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from edgewise.backends.numba.simd import (
    INT32,
    INT64,
    LINE,
    WIDE,
    WIDTH,
    Builder,
    Lanes,
    intrinsic,
    lanes_of,
    load_from,
    prefetch_at,
    splat,
    store_to,
    vector_of,
)

TILE = WIDTH * WIDE
"""Numbers in a tile."""


def is_tile(lanes: Lanes) -> bool:
    """Whether lanes hold features of WIDTH heads."""
    return lanes.count == TILE


@intrinsic(prefer_literal=True)
def zero_lanes(typing: Any, like: Any, count: Any) -> Any:
    """Zeros in the type that numbers at the pointer `like` are computed in; the count is a constant."""
    lanes = lanes_of(like, count.literal_value)
    zeros = ir.Constant(vector_of(lanes), [0.0] * lanes.count)
    return lanes(like, count), lambda context, builder, typed, values: zeros


@intrinsic
def width_of(typing: Any, lanes: Any) -> Any:
    """How many features of a head lanes hold."""
    width = WIDE if is_tile(lanes) else lanes.count
    return types.intp(lanes), lambda context, builder, typed, values: context.get_constant(types.intp, width)


@intrinsic
def heads_of(typing: Any, lanes: Any) -> Any:
    """How many heads lanes hold features of."""
    number = WIDTH if is_tile(lanes) else 1
    return types.intp(lanes), lambda context, builder, typed, values: context.get_constant(types.intp, number)


@intrinsic
def end_of_group(typing: Any, group: Any, heads: Any, like: Any) -> Any:
    """The end of a loop over the heads of a group: after one step for a tile, else after WIDTH heads or the last."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        if is_tile(like):
            return builder.add(values[0], INT64(1))
        end = builder.add(values[0], INT64(WIDTH))
        return builder.select(builder.icmp_signed("<", end, values[1]), end, values[1])

    return types.intp(types.intp, types.intp, like), lower


@intrinsic
def load_heads(typing: Any, source: Any, index: Any, step: Any, like: Any) -> Any:
    """Features from `index` on, as many as `like` has; in a tile, those of the next head begin `step` further."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        if not is_tile(like):
            return load_from(builder, source, builder.gep(values[0], [values[1]]), like)
        lanes_of_head = Lanes(like.dtype, WIDE)
        return _joined(
            builder,
            [load_from(builder, source, address, lanes_of_head) for address in _addresses(builder, *values[:3])],
        )

    return like(source, types.intp, types.intp, like), lower


def _storing(streams: bool) -> Any:
    @intrinsic
    def write(typing: Any, target: Any, index: Any, step: Any, lanes: Any) -> Any:
        def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
            tile = is_tile(lanes)
            addresses = _addresses(builder, *values[:3]) if tile else [builder.gep(values[0], [values[1]])]
            for address, vector in zip(addresses, _parts(builder, values[3]) if tile else [values[3]]):
                store_to(builder, target, address, vector, streams)
            return context.get_dummy_value()

        return types.void(target, types.intp, types.intp, lanes), lower

    return write


store_heads, stream_heads = _storing(False), _storing(True)
"""Write features as `load_heads` reads them, rounded to the stored type; `stream_heads` bypasses the caches."""


@intrinsic
def broadcast(typing: Any, source: Any, index: Any, like: Any) -> Any:
    """One element in all lanes; in a tile, one for each head in the lanes of that head."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        address = builder.gep(values[0], [values[1]])
        if not is_tile(like):
            return splat(builder, builder.load(address), like.count)
        addresses = (builder.gep(address, [INT64(head)]) for head in range(WIDTH))
        return _joined(builder, [splat(builder, builder.load(address), WIDE) for address in addresses])

    return like(source, types.intp, like), lower


@intrinsic
def store_sums(typing: Any, parts: Any, head: Any, sums: Any) -> Any:
    """Store the partial sums of one head of a group for `sums_of_heads`; a tile has those of all, and stores none."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        if not is_tile(sums):
            address = builder.gep(values[0], [builder.mul(values[1], INT64(sums.count))])
            store_to(builder, parts, address, values[2])
        return context.get_dummy_value()

    return types.void(parts, types.intp, sums), lower


@intrinsic
def sums_of_heads(typing: Any, parts: Any, sums: Any) -> Any:
    """Lane i is the sum over the features of head i of a group: of what `store_sums` stored, or of a tile."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        if is_tile(sums):
            vectors = _parts(builder, values[1])
        else:
            addresses = (builder.gep(values[0], [INT64(head * sums.count)]) for head in range(WIDTH))
            vectors = [load_from(builder, parts, address, sums) for address in addresses]
        pairs = [_added(builder, *two, _FIRST, _SECOND) for two in zip(vectors[::2], vectors[1::2])]
        fours = [_added(builder, *two, _LOW, _HIGH) for two in zip(pairs[::2], pairs[1::2])]
        return _narrowed(builder, *fours)

    return lanes_of(parts)(parts, sums), lower


@intrinsic
def prefetch_tile(typing: Any, source: Any, index: Any) -> Any:
    """Prefetch as many numbers from `index` on as a tile has."""

    def lower(context: Any, builder: Builder, typed: Any, values: list) -> ir.Value:
        address = builder.gep(values[0], [values[1]])
        for at in range(0, TILE, LINE // source.bytes_each):
            prefetch_at(builder, builder.gep(address, [INT64(at)]))
        return context.get_dummy_value()

    return types.void(source, types.intp), lower


def _addresses(builder: Builder, source: ir.Value, index: ir.Value, step: ir.Value) -> list[ir.Value]:
    return [builder.gep(source, [builder.add(index, builder.mul(step, INT64(head)))]) for head in range(WIDTH)]


def _joined(builder: Builder, vectors: list[ir.Value]) -> ir.Value:
    """Vectors one after the other as one."""
    while len(vectors) > 1:
        vectors = [
            builder.shuffle_vector(left, right, _numbers(range(2 * left.type.count)))
            for left, right in zip(vectors[::2], vectors[1::2])
        ]
    return vectors[0]


def _parts(builder: Builder, tile: ir.Value) -> list[ir.Value]:
    """The vectors of a tile."""
    nothing = ir.Constant(tile.type, ir.Undefined)
    return [
        builder.shuffle_vector(tile, nothing, _numbers(range(first, first + WIDE))) for first in range(0, TILE, WIDE)
    ]


_FIRST, _SECOND = ((0, 0), (1, 0), (0, 1), (1, 1)), ((0, 2), (1, 2), (0, 3), (1, 3))
"""Pairs (vector, lane) for every four lanes, where vector 0 is the left one: they interleave two vectors, each of one
head, as a b a b. Processors have one instruction for each."""
_LOW, _HIGH = ((0, 0), (0, 1), (1, 0), (1, 1)), ((0, 2), (0, 3), (1, 2), (1, 3))
"""Likewise from a b a b and c d c d to a b c d."""


def _added(builder: Builder, left: ir.Value, right: ir.Value, *patterns: tuple) -> ir.Value:
    """The sum of two shuffles of the lanes, each by a pattern for every four lanes."""
    count = left.type.count
    fours = range(0, count, 4)
    parts = [[four + lane + side * count for four in fours for side, lane in pattern] for pattern in patterns]
    return builder.fadd(*(builder.shuffle_vector(left, right, _numbers(part)) for part in parts))


def _narrowed(builder: Builder, left: ir.Value, right: ir.Value) -> ir.Value:
    """From a b c d … and e f g h … to the sums over their fours, a b c d e f g h."""
    fours = [*range(0, left.type.count, 4)]
    half = len(fours) // 2
    first = [at + side * left.type.count for side in (0, 1) for at in fours[:half]]
    second = [at + side * left.type.count for side in (0, 1) for at in fours[half:]]
    sums = builder.fadd(*(builder.shuffle_vector(left, right, _fours(part)) for part in (first, second)))
    while sums.type.count > WIDTH:
        fours = [*range(0, sums.type.count, 4)]
        sums = builder.fadd(*(builder.shuffle_vector(sums, sums, _fours(fours[offset::2])) for offset in (0, 1)))
    return sums


def _fours(starts: list[int]) -> ir.Constant:
    return _numbers([at + lane for at in starts for lane in range(4)])


def _numbers(integers: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(INT32, len(integers)), list(integers))
