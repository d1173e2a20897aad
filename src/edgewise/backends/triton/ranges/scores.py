"""The scores of a block of queries with a block of keys, `(query, key)`.

Where the score is a product, so is the block; else features are added one after the other, read from copies of queries
and keys whose nodes lie next to each other, two features of each.

    tanh z = 1 − 2 r,   sigmoid z = r,   r = 1 / (1 + e^(c z)),   c = 2 and −1

e^(c z) is the product of two numbers, one a query and feature and one a key and feature, made beforehand; and two
reciprocals are one, v/y + w/x = (v x + w y) / (x y): half an instruction of the slow kind a pair and feature. That is
where no such product can overflow, which the kernels read from the largest numbers; else they compute f(z) itself.
"""
# mypy: ignore-errors

import triton.language as tl

import triton
from edgewise.backends.triton.formulas import activated
from edgewise.backends.triton.ranges.tiles import NODES, product_of_nodes, start_of

FAR = tl.constexpr(43.0)
"""|c q| + |c k| up to which two factors 1 + e^(c z) multiply to a number whose reciprocal is not cut to zero."""


@triton.jit
def is_factored(max_abs, F: tl.constexpr):
    """Whether no product of factors 1 + e^(c z) can overflow; not where anything is not finite."""
    if F.activation == "tanh":
        return 2.0 * (tl.load(max_abs) + tl.load(max_abs + 1)) <= FAR
    elif F.activation == "sigmoid":
        return tl.load(max_abs) + tl.load(max_abs + 1) <= FAR
    else:
        return False


@triton.jit
def inverse(x, F: tl.constexpr):
    """1 / x, to one unit of the last place."""
    if F.compiled:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


@triton.jit
def raw_scores(operands, rows, k_tile, at, extent, F: tl.constexpr):
    """s of a block of queries with a block of keys; the order of all sums is the same in every kernel."""
    if F.kind == "Dot":
        return operands.number * product_of_nodes(
            rows.tile,
            k_tile,
            operands.query,
            operands.key,
            rows.member,
            rows.first,
            at,
            extent,
            F.key_dim,
            F.key_width,
            F,
        )
    elif F.kind == "Constant":
        return tl.full((F.queries, F.keys), 0.0, tl.float32) + operands.number
    else:
        # A thread has every so many-th query and key, a block of its own, so that it reads few numbers a feature.
        high: tl.constexpr = F.queries // F.lanes
        wide: tl.constexpr = F.keys // 16
        query = tl.reshape(tl.arange(0, F.queries), (high, 1, F.lanes, 1))
        key = tl.reshape(tl.arange(0, F.keys), (1, wide, 1, 16))
        sums = tl.full((high, wide, F.lanes, 16), 0.0, tl.float32)
        vector = operands.vector if operands.vector is None else operands.vector + rows.member.number * F.steps
        sums = added_features(rows.tile + query * 2, k_tile + key * 2, vector, rows.factored, operands, sums, F)
        return tl.reshape(tl.permute(sums, (0, 2, 1, 3)), (F.queries, F.keys))


@triton.jit
def two_of(address, d):
    """Two features of some nodes, which lie next to each other."""
    return tl.split(tl.load(tl.expand_dims(address, 4) + (d * NODES + tl.arange(0, 2))))


@triton.jit
def features_of(F: tl.constexpr):
    """How many features are added one by one, in words that the compiler does not see through.

    Else it writes out loops of 64 turns and reads all features of its own side before the first block of the other:
    256 registers. Programs have one axis, of the others there is one. The single turn that GAT needs it may write out.
    """
    count = tl.full((), F.steps, tl.int32)
    if F.steps > 4:
        count *= tl.num_programs(1)
    return count


@triton.jit
def added_features(q_tile, k_tile, vector, factored, operands, sums, F: tl.constexpr):
    """s of many pairs, one feature after the other."""
    if F.kind == "Additive":
        if factored:
            sums = added_reciprocals(q_tile, k_tile, vector, operands, sums, F)
        else:
            for d in range(0, features_of(F), 2):
                query, query_two = two_of(q_tile, d)
                key, key_two = two_of(k_tile, d)
                sums = tl.fma(tl.load(vector + d), activated(query + key, F), sums)
                sums = tl.fma(tl.load(vector + d + 1), activated(query_two + key_two, F), sums)
        return sums
    elif F.kind == "GATv2":
        # LeakyReLU(z) = slope · z + (1 − slope) · max(z, 0), of which the first part is a sum of two numbers.
        of_queries, of_keys = tl.full(q_tile.shape, 0.0, tl.float32), tl.full(k_tile.shape, 0.0, tl.float32)
        for d in range(0, features_of(F), 4):
            for u in tl.static_range(0, 4, 2):
                query, query_two = two_of(q_tile, d + u)
                key, key_two = two_of(k_tile, d + u)
                weight, weight_two = tl.load(vector + d + u), tl.load(vector + d + u + 1)
                of_queries = tl.fma(weight_two, query_two, tl.fma(weight, query, of_queries))
                of_keys = tl.fma(weight_two, key_two, tl.fma(weight, key, of_keys))
                sums = tl.fma(weight, tl.maximum(query + key, 0.0, propagate_nan=tl.PropagateNan.ALL), sums)
                above = tl.maximum(query_two + key_two, 0.0, propagate_nan=tl.PropagateNan.ALL)
                sums = tl.fma(weight_two, above, sums)

        return operands.number * (of_queries + of_keys) + (1.0 - operands.number) * sums
    else:
        for d in range(0, features_of(F), 4):
            for u in tl.static_range(0, 4, 2):
                query, query_two = two_of(q_tile, d + u)
                key, key_two = two_of(k_tile, d + u)
                gap, gap_two = query - key, query_two - key_two
                sums = tl.fma(gap_two, gap_two, tl.fma(gap, gap, sums))
        return -tl.sqrt(sums) if F.root else -sums


@triton.jit
def added_reciprocals(q_tile, k_tile, vector, operands, sums, F: tl.constexpr):
    """Σ v f(q + k) from e^(c q) and e^(c k), two features at a time."""
    total = 0.0
    for d in range(0, features_of(F), 4):
        for u in tl.static_range(0, 4, 2):
            query, query_two = two_of(q_tile, d + u)
            key, key_two = two_of(k_tile, d + u)
            first, second = tl.fma(query, key, 1.0), tl.fma(query_two, key_two, 1.0)
            one, two = tl.load(vector + d + u), tl.load(vector + d + u + 1)
            total += one + two
            sums = tl.fma(tl.fma(one, second, two * first), inverse(first * second, F), sums)
    return total - 2.0 * sums if F.activation == "tanh" else sums


@triton.jit
def scores_of(operands, rows, k_tile, at, there, extent, WHOLE: tl.constexpr, F: tl.constexpr):
    """s, and s + b, −∞ where no pair is there."""
    raw = raw_scores(operands, rows, k_tile, at, extent, F)
    score = raw
    if operands.bias is not None:
        query, key = tl.arange(0, F.queries), tl.arange(0, F.keys)
        address = operands.bias.data + start_of(operands.bias, rows.member)
        address = address + (tl.full((), 0, tl.int64) + rows.first) * operands.bias.row
        address = address + (tl.full((), 0, tl.int64) + at) * operands.bias.column
        address = address + (query[:, None] * operands.bias.row + key[None, :] * operands.bias.column)
        inside = (rows.first + query < extent.queries)[:, None] & (at + key < extent.keys)[None, :]
        score += tl.load(address, mask=inside, other=0.0).to(tl.float32)
    return raw, (score if WHOLE else tl.where(there, score, float("-inf")))
