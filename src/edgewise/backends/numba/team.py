"""A kernel on the threads of GNU OpenMP, started from compiled code: no thread needs Python's lock for its share.

A thread that Python knows must get the lock before it may begin, and give it back: for a graph of some thousand edges
that takes longer than the kernel itself.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as untyped_intrinsic

intrinsic: Any = untyped_intrinsic
INT64, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
NEXT, FAILED, ARGUMENTS = 0, 1, 2
"""Places in what the threads share: the next share to take, how many failed, the arguments."""


@intrinsic
def call_on_team(typing: Any, kernel: Any, start_team: Any, count: Any, arguments: Any) -> Any:
    """Call `kernel(share, count, *arguments)` for each share below `count`; how many of them failed.

    `kernel` is the address of compiled code for these arguments, `start_team` that of `GOMP_parallel(function, data,
    number of threads, flags)`. Threads take shares until none is left: OpenMP may start fewer than it is asked for.
    """

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        kernel_at, start_at, number, packed = values
        kinds = (types.int64, types.int64, *arguments.types)
        shared = ir.LiteralStructType([INT64, INT64, packed.type])
        data = cgutils.alloca_once(builder, shared)
        for place, value in ((NEXT, INT64(0)), (FAILED, INT64(0)), (ARGUMENTS, packed)):
            builder.store(value, cgutils.gep_inbounds(builder, data, 0, place))

        # The function of each thread takes one pointer; what it knows beside that lies behind it.
        team_type = ir.FunctionType(ir.VoidType(), [BYTES])
        kernel_type = context.call_conv.get_function_type(types.none, kinds).as_pointer()
        whole = ir.LiteralStructType([shared.as_pointer(), kernel_type, INT64])
        known = cgutils.alloca_once(builder, whole)
        for place, value in enumerate((data, builder.inttoptr(kernel_at, kernel_type), number)):
            builder.store(value, cgutils.gep_inbounds(builder, known, 0, place))
        thread = ir.Function(builder.module, team_type, f"{builder.function.name}.thread")
        thread.linkage = "internal"
        _work(context, thread, whole, kinds)
        started = ir.FunctionType(ir.VoidType(), [team_type.as_pointer(), BYTES, ir.IntType(32), ir.IntType(32)])
        builder.call(
            builder.inttoptr(start_at, started.as_pointer()),
            [thread, builder.bitcast(known, BYTES), builder.trunc(number, ir.IntType(32)), ir.IntType(32)(0)],
        )
        return builder.load(cgutils.gep_inbounds(builder, data, 0, FAILED))

    return types.int64(types.int64, types.int64, types.int64, arguments), generate


def _work(context: Any, thread: Any, whole: Any, kinds: tuple) -> None:
    """What a thread does: take shares while there are some, and call the kernel for each."""
    builder = ir.IRBuilder(thread.append_basic_block("entry"))
    known = builder.load(builder.bitcast(thread.args[0], whole.as_pointer()))
    data, kernel, count = (builder.extract_value(known, place) for place in range(3))
    packed = builder.load(cgutils.gep_inbounds(builder, data, 0, ARGUMENTS))
    arguments = cgutils.unpack_tuple(builder, packed, len(kinds) - 2)
    take, work, end = (thread.append_basic_block(name) for name in ("take", "work", "end"))
    builder.branch(take)
    builder.position_at_end(take)
    share = builder.atomic_rmw("add", cgutils.gep_inbounds(builder, data, 0, NEXT), INT64(1), "seq_cst")
    builder.cbranch(builder.icmp_signed("<", share, count), work, end)
    builder.position_at_end(work)
    status, _ = context.call_conv.call_function(builder, kernel, types.none, kinds, [share, count, *arguments])
    failed = builder.zext(status.is_error, INT64)
    builder.atomic_rmw("add", cgutils.gep_inbounds(builder, data, 0, FAILED), failed, "seq_cst")
    builder.branch(take)
    builder.position_at_end(end)
    builder.ret_void()


def on_team(kernel: Any, start_team: Any, count: Any, arguments: Any) -> Any:
    """The function that Python calls, without its lock."""
    return call_on_team(kernel, start_team, count, arguments)
