"""What the GPU can do at best: bytes a second copied, and gathered row by row from a table, near or far.

Attention over edges is a gather. It is measured as a kernel that reads rows and adds them up, at the best of several
shapes of its programs, for rows as heads have them: 128, 256 and 512 bytes.
"""

from itertools import product
from statistics import median

import torch

from gpu_attention.device import Cuda

ROWS = (128, 256, 512)
"""Bytes of a row."""
TABLES = {"in the second cache": 16 * 2**20, "far beyond it": 4 * 2**30}
"""Bytes of a table, by where it lies."""
STEPS = 8
SHAPES = tuple(product((8, 16, 32), (1, 4)))
"""Rows that a program reads at once, and its warps; the best counts."""
REPETITIONS = 15


def machine_limits(device: Cuda, quick: bool) -> dict:
    """GB a second of copying, bytes read and bytes written counted, and of gathering, bytes of the rows counted."""
    shrink = 1024 if quick else 1
    found: dict = {"copy_gb_per_s": copying(device, 4 * 2**30 // shrink), "gather_gb_per_s": {}}
    for name, size in TABLES.items():
        rates = {str(row): gathering(device, size // shrink, row, 2**23 // shrink) for row in ROWS}
        found["gather_gb_per_s"][name] = rates
        device.give_back()
    return found


def copying(device: Cuda, num_bytes: int) -> float:
    """Of one tensor into another."""
    source = torch.ones(num_bytes // 4, device=device.name)
    target = torch.empty_like(source)
    return 2e-6 * num_bytes / median(device.milliseconds(lambda: target.copy_(source)) for _ in range(REPETITIONS))


def gathering(device: Cuda, table_bytes: int, row: int, count: int) -> float:
    """Of rows of so many bytes, drawn at random."""
    from gpu_attention.gather_kernel import gather_rows

    width, num_rows = row // 4, table_bytes // row
    random = torch.Generator(device.name).manual_seed(0)
    table = torch.rand(num_rows, width, generator=random, device=device.name)
    index = torch.randint(num_rows, (count,), generator=random, device=device.name, dtype=torch.int32)
    best = float("inf")
    for block, warps in SHAPES:
        programs = count // (block * STEPS)
        out = torch.empty(programs, width, device=device.name)

        def call(block=block, warps=warps, programs=programs, out=out) -> None:
            gather_rows[(programs,)](table, index, out, WIDTH=width, BLOCK=block, STEPS=STEPS, num_warps=warps)

        call()
        used = programs * block * STEPS
        right = table[index[: block * STEPS].long()].double().sum(0)
        if not torch.allclose(out[0].double(), right, rtol=1e-4):
            raise RuntimeError("the gather does not add up its rows")
        times = [device.milliseconds(call, cold=False) for _ in range(REPETITIONS)]
        best = min(best, median(times) / used)
    return 1e-6 * row / best
