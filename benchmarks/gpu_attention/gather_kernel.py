"""The gather alone, as a kernel: rows of a table, wherever they lie, added up."""

from typing import no_type_check

import triton.language as tl

import triton


@triton.jit
@no_type_check
def gather_rows(table, index, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """Σ of BLOCK · STEPS rows of WIDTH numbers in float32, a sum for each program."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for step in range(STEPS):
        row = tl.load(index + (program * STEPS + step) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        total += tl.load(table + row[:, None] * WIDTH + column[None, :])
    tl.store(out + program * WIDTH + column, tl.sum(total, 0))
