"""Threads for the kernels, as many as torch uses; numba's own layers abort on concurrent calls, or after a fork.

A call is split into shares, and a kernel works on one of them without holding a lock of Python. Where torch computes
with GNU OpenMP, its own threads take the shares: they go on spinning for milliseconds after every operation of torch,
so that others beside them would find no free processor. They are started from compiled code: a thread that Python knows
must get its lock before it may begin, which for a graph of some thousand edges takes longer than the kernel itself.

Elsewhere, and in a forked child, which has none of its parent's threads, threads of our own take shares away from the
caller, which takes one after the other and never waits for a thread that is still waking up, is busy with another call,
or could not be started. Several calls may run at once, from any thread. (So that torch in a forked child does not wait
for OpenMP either, call `torch.set_num_threads(1)` there, as a DataLoader does; everything is serial then.)
"""

import atexit
import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as untyped_intrinsic


class SharedJob:
    """A call of `run`: shares that are taken one by one, and how those ended that helpers took."""

    def __init__(self, work: Callable[[int, int], None], count: int):
        self.work, self.count = work, count
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._next = itertools.count().__next__  # one step of the interpreter: no two threads get the same number

    def take(self) -> int | None:
        """The next share that is not taken yet; None where none is left."""
        number = self._next()
        return number if number < self.count else None

    def help(self) -> None:
        """Work on shares until all are taken."""
        while (number := self.take()) is not None:
            with self:
                self.work(number, self.count)

    def check(self, number: int) -> None:
        """Wait until so many shares have ended, and raise the first error among them."""
        for error in filter(None, [self.ended.get() for _ in range(number)]):
            raise error

    def __enter__(self) -> None:
        """A helper begins a share."""

    def __exit__(self, error_type: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """It has ended: the caller learns how, and raises its error."""
        self.ended.put(error)
        return True


class Helpers:
    """Threads that wait for jobs, started when they are first needed and dismissed before the interpreter ends."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[SharedJob | None] = SimpleQueue()
        self.lock = threading.Lock()
        self.threads: list[threading.Thread] = []

    def join(self, job: SharedJob, number: int) -> None:
        """Let so many of them help, or fewer where the system gives no more threads."""
        if len(self.threads) < number:
            with self.lock, suppress(RuntimeError):
                while len(self.threads) < number:
                    thread = threading.Thread(target=self._serve, name=f"edgewise-{len(self.threads)}", daemon=True)
                    thread.start()
                    self.threads.append(thread)
        for _ in range(min(number, len(self.threads))):
            self.jobs.put(job)

    def dismiss(self) -> None:
        """End them: an interpreter that ends while a thread waits kills it, and sometimes the process with it."""
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()
        self.threads = []

    def _serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.help()


_helpers = Helpers()
_gomp = getattr(ctypes.CDLL(None), "GOMP_parallel", None) if os.name == "posix" else None
start_team: int = ctypes.cast(_gomp, ctypes.c_void_p).value or 0 if _gomp is not None else 0
"""The address of what runs a function once on each of so many threads of GNU OpenMP, which torch has loaded; 0 where it
has not, and in a forked child: the team of its parent is gone, and OpenMP would wait for it."""


def threads_for(num_chunks: int) -> int:
    """As many as torch uses (1 in the workers of a DataLoader), or one a chunk of work where there are fewer."""
    return max(1, min(num_chunks, torch.get_num_threads()))


def run(work: Callable[[int, int], None], num_chunks: int) -> None:
    """Call `work(number, count)` for each number below `count`, on threads of our own, this one among them.

    Once this returns or raises, no thread works on the call; an error of any of them is raised here.
    """
    count = threads_for(num_chunks)
    if count == 1:
        return work(0, 1)
    _run_with_helpers(SharedJob(work, count))


def _run_with_helpers(job: SharedJob) -> None:
    done_here = 0
    _helpers.join(job, job.count - 1)
    try:
        while (number := job.take()) is not None:
            done_here += 1
            job.work(number, job.count)
    finally:
        while job.take() is not None:  # after an error: the shares that are left are not begun
            done_here += 1
        job.check(job.count - done_here)


@atexit.register
def _dismiss() -> None:
    _helpers.dismiss()


def _forget() -> None:
    global _helpers, start_team
    _helpers, start_team = Helpers(), 0


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forget)


intrinsic: Any = untyped_intrinsic
INT64, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
NEXT, FAILED, ARGUMENTS = 0, 1, 2
"""Places in what the threads share: the next share to take, how many failed, the arguments."""


@intrinsic
def call_on_team(typing: Any, kernel: Any, start_team: Any, count: Any, arguments: Any) -> Any:
    """Call `kernel(share, count, *arguments)` for each share below `count`; how many of them failed.

    `kernel` is the address of compiled code for these arguments, `start_team` that of `GOMP_parallel(function, data,
    number of threads, flags)`. Threads take shares until none is left: OpenMP may start fewer.
    """

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        kernel_at, start_at, number, packed = values
        kinds = (types.int64, types.int64, *arguments.types)
        shared = ir.LiteralStructType([INT64, INT64, packed.type])
        data = cgutils.alloca_once(builder, shared)
        for index, value in ((NEXT, INT64(0)), (FAILED, INT64(0)), (ARGUMENTS, packed)):
            builder.store(value, cgutils.gep_inbounds(builder, data, 0, index))

        # The function of each thread takes one pointer; what it knows beside that lies behind it.
        team_type = ir.FunctionType(ir.VoidType(), [BYTES])
        kernel_type = context.call_conv.get_function_type(types.none, kinds).as_pointer()
        state_type = ir.LiteralStructType([shared.as_pointer(), kernel_type, INT64])
        state = cgutils.alloca_once(builder, state_type)
        for index, value in enumerate((data, builder.inttoptr(kernel_at, kernel_type), number)):
            builder.store(value, cgutils.gep_inbounds(builder, state, 0, index))
        thread = ir.Function(builder.module, team_type, f"{builder.function.name}.thread")
        thread.linkage = "internal"
        _work(context, thread, state_type, kinds)
        started = ir.FunctionType(ir.VoidType(), [team_type.as_pointer(), BYTES, ir.IntType(32), ir.IntType(32)])
        builder.call(
            builder.inttoptr(start_at, started.as_pointer()),
            [thread, builder.bitcast(state, BYTES), builder.trunc(number, ir.IntType(32)), ir.IntType(32)(0)],
        )

        return builder.load(cgutils.gep_inbounds(builder, data, 0, FAILED))

    return types.int64(types.int64, types.int64, types.int64, arguments), generate


@intrinsic
def call_here(typing: Any, kernel: Any, share: Any, count: Any, arguments: Any) -> Any:
    """Call `kernel(share, count, *arguments)` on this thread; 1 where it failed, else 0."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.zext(_call(context, builder, values, arguments.types).is_error, INT64)

    return types.int64(types.int64, types.int64, types.int64, arguments), generate


@intrinsic
def call(typing: Any, kernel: Any, share: Any, count: Any, arguments: Any) -> Any:
    """Call `kernel(share, count, *arguments)` on this thread, and fail where it fails."""

    def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
        status = _call(context, builder, values, arguments.types)
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64, arguments), generate


def _call(context: Any, builder: Any, values: Any, argument_kinds: Any) -> Any:
    """Call code for a share; how it ended."""
    kernel_at, share, count, packed = values
    kinds = (types.int64, types.int64, *argument_kinds)
    code = builder.inttoptr(kernel_at, context.call_conv.get_function_type(types.none, kinds).as_pointer())
    arguments = cgutils.unpack_tuple(builder, packed, len(argument_kinds))
    status, _ = context.call_conv.call_function(builder, code, types.none, kinds, [share, count, *arguments])
    return status


def _work(context: Any, thread: Any, state_type: Any, kinds: tuple) -> None:
    """What a thread does: take shares while there are some, and call the kernel for each."""
    builder = ir.IRBuilder(thread.append_basic_block("entry"))
    state = builder.load(builder.bitcast(thread.args[0], state_type.as_pointer()))
    data, kernel, count = (builder.extract_value(state, index) for index in range(3))
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
