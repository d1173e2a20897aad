"""What dropout does to weights, as a tensor: for formulas in plain torch, which the kernels themselves do without."""

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

import triton
from edgewise.backends.triton.sizes import ceiling

BLOCK = 1024
"""Numbers that a program draws."""


def drawn(seed: Tensor, rate: float, members: int, queries: tuple[int, int], keys: tuple[int, int]) -> Tensor:
    """0 where a weight is dropped, else 1 / (1 − rate): `(member, query, key)`, of queries and keys from … to.

    Over edges a key is an edge and a query is a head.
    """
    shape = members, queries[1] - queries[0], keys[1] - keys[0]
    factors = torch.empty(shape, dtype=torch.float32, device=seed.device)
    if factors.numel() > 0:
        grid = (ceiling(factors.numel(), BLOCK),)
        draw[grid](seed, float(rate), factors, factors.numel(), queries[0], keys[0], *shape[1:], BLOCK=BLOCK)
    return factors


@triton.jit
@no_type_check
def draw(seed, dropout, factors, count, first_query, first_key, num_queries, num_keys, BLOCK: tl.constexpr):
    """The numbers that `kept` and `kept_pairs` draw."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    key = (first_key + at % num_keys).to(tl.uint32)
    query = (first_query + at // num_keys % num_queries).to(tl.uint32)
    member = (at // num_keys // num_queries).to(tl.uint32)
    chance, _, _, _ = tl.philox(tl.load(seed), key, query, member, key * 0)
    factor = tl.where(tl.uint_to_uniform_float(chance) < dropout, 0.0, 1.0 / (1.0 - dropout))
    tl.store(factors + at, factor, mask=at < count)
