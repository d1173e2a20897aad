"""What the machine itself can do: bytes a second read in order, written, and gathered row by row from a table.

Attention over edges is a gather: each edge fetches the 512 bytes (128 numbers in float32) of its key and as many of its
value. A forward pass can therefore not be faster than this gather alone, which is measured here on tables of the size
that each workload has, allocated as the workloads allocate theirs, at the best of several prefetch distances, into
the first cache or the second.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

ROW = 128
"""Numbers of a row in float32: 8 heads of 16, or 512 bytes."""
DISTANCES = (0, 2, 4, 8, 16, 32)
"""How many rows ahead are asked for; the best counts."""
CACHES = (1, 2)
"""Into which cache; the best counts."""
PASSES = 5
THREADS = (1, 2)


@intrinsic(prefer_literal=True)
def prefetch(typing_context, table, offset, cache):
    """Ask the memory for the cache line that holds number `offset` of an array, into the first or the second cache."""
    near = 4 - cache.literal_value

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(instruction, [address, flag(0), flag(near), flag(1)])  # to read, how near, data
        return context.get_dummy_value()

    return types.void(table, types.intp, cache), generate


@njit(nogil=True, fastmath=True, boundscheck=False)
def read(source, first, last):
    """Add up a run of numbers: nothing but reading, in order."""
    total = np.float32(0)
    for i in range(np.uint64(first), np.uint64(last)):
        total += source[i]
    return total


@njit(nogil=True, fastmath=True, boundscheck=False)
def triad(target, left, right, first, last):
    """a ← b + 3 c."""
    for i in range(np.uint64(first), np.uint64(last)):
        target[i] = left[i] + np.float32(3) * right[i]
    return target[first]


@njit(nogil=True, fastmath=True, boundscheck=False)
def gather(keys, values, wanted, distance, cache, first, last):
    """Add up the wanted rows of two tables, `distance` rows of each asked for ahead of time where it is not 0."""
    sums = np.zeros(ROW, np.float32)
    for e in range(first, last):
        if distance > 0:
            ahead = np.intp(wanted[e + distance]) * ROW
            for line in range(0, ROW, 16):
                if cache == 1:
                    prefetch(keys, ahead + line, 1)
                    prefetch(values, ahead + line, 1)
                else:
                    prefetch(keys, ahead + line, 2)
                    prefetch(values, ahead + line, 2)
        start = np.uint64(wanted[e]) * np.uint64(ROW)
        for d in range(np.uint64(ROW)):
            sums[d] += keys[start + d] + values[start + d]
    return sums[0]


def shared_out(kernel: Callable, count: int, num_threads: int, *arguments) -> float:
    """Seconds of the fastest of several passes over `count` places, split evenly between threads."""
    cuts = [count * t // num_threads for t in range(num_threads + 1)]
    best = float("inf")
    with ThreadPoolExecutor(num_threads) as pool:
        for _ in range(PASSES + 1):  # the first one compiles
            began = time.perf_counter()
            parts = [pool.submit(kernel, *arguments, *cut) for cut in pairwise(cuts)]
            for part in parts:
                part.result()
            best = min(best, time.perf_counter() - began)
    return best


def sequential(num_bytes: int) -> dict[str, dict[str, float]]:
    """GB a second, by the number of threads, of reading in order and of a ← b + 3 c (three arrays counted)."""
    count = num_bytes // 4
    arrays = [torch.zeros(count).numpy() for _ in range(3)]
    return {
        "read": {str(n): count * 4e-9 / shared_out(read, count, n, arrays[0]) for n in THREADS},
        "triad": {str(n): count * 12e-9 / shared_out(triad, count, n, *arrays) for n in THREADS},
    }


def gathering(num_rows: int, num_wanted: int, threads: tuple[int, ...] = THREADS) -> dict:
    """GB a second of gathering rows at random from two tables, at the best prefetch distance."""
    keys, values = (torch.zeros(num_rows * ROW).numpy() for _ in range(2))
    wanted = np.random.default_rng(0).integers(0, num_rows, num_wanted + max(DISTANCES)).astype(np.int32)
    found: dict = {"rows": num_rows, "table_mib": num_rows * ROW * 4 / 2**20}
    found |= {"distance": {}, "cache": {}, "gb_per_s": {}}
    choices = [(0, 1), *product(DISTANCES[1:], CACHES)]
    for n in threads:
        seconds = {chosen: shared_out(gather, num_wanted, n, keys, values, wanted, *chosen) for chosen in choices}
        best = min(seconds, key=seconds.__getitem__)
        found["distance"][str(n)], found["cache"][str(n)] = best
        found["gb_per_s"][str(n)] = num_wanted * 2 * ROW * 4e-9 / seconds[best]
    return found
