"""A node with each of its neighbors: their score, or the product of two rows, for all heads at once.

A node of one table (its row is *fixed*) meets the neighbors of a run of edges in another. Forward and for what the
receivers own it is a query that meets keys; for what the senders own it is a key that meets queries, and as each score
takes both alike, the sums have the same bits either way. What an edge itself carries is added to the side of the key.
"""

from typing import Any

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.heads import LINE, heads_of, last_of, lay_aside, load_heads, totals, width_of
from edgewise.backends.numba.score import Product, finish, pair, vector_of
from edgewise.backends.numba.simd import WIDTH, fill, get, load, store
from edgewise.backends.numba.tables import AHEAD, ask_for


@inlined
def put_scores(score: Any, sizes: Any, lists: Any, begin: int, count: int, fixed: Any, row: int, others: Any,
               edges: Any, key_is_fixed: bool, target: Any, parts: Any, none: Any) -> None:  # fmt: skip
    """s of each edge from `begin` on, for all heads, into scratch."""
    if sizes.key_dim == 1:
        _put_narrow_scores(score, sizes, lists, begin, count, fixed, row, others, edges, key_is_fixed, target, parts)
    elif sizes.key_dim == 0:
        for at in range(0, count * sizes.lanes, WIDTH):
            store(target, at, finish(score, fill(target, 0.0)))
    else:
        _put_sums(
            score, sizes, sizes.key_dim, lists, begin, count, fixed, row, others, edges, key_is_fixed, target, parts,
            none,
        )  # fmt: skip


@inlined
def put_products(sizes: Any, lists: Any, begin: int, count: int, fixed: Any, row: int, others: Any, edges: Any,
                 value_is_fixed: bool, target: Any, parts: Any, none: Any) -> None:  # fmt: skip
    """dO · (v + v^e) of each edge from `begin` on, for all heads, into scratch."""
    _put_sums(
        Product(1.0), sizes, sizes.value_dim, lists, begin, count, fixed, row, others, edges, value_is_fixed, target,
        parts, none,
    )  # fmt: skip


@inlined
def _put_sums(score: Any, sizes: Any, dim: int, lists: Any, begin: int, count: int, fixed: Any, row: int, others: Any,
              edges: Any, joins_fixed: bool, target: Any, parts: Any, none: Any) -> None:  # fmt: skip
    line, row_at = LINE // others.bytes_each, row * fixed.stride
    for group in range(0, sizes.lanes, WIDTH):
        for e in range(count):
            if group == 0:
                ask_for(others, get(lists.neighbors, min(begin + e + AHEAD, lists.last)), line)
            other_at, edge_at, sums = get(lists.neighbors, begin + e) * others.stride, 0, none
            if edges.there:
                edge_at = get(lists.edges, begin + e) * edges.stride
            for head in range(group, last_of(group, sizes.heads, none), heads_of(none)):
                sums, one_at, two_at = none, row_at + get(fixed.heads, head), other_at + get(others.heads, head)
                for d in range(0, dim, width_of(none)):
                    one = load_heads(fixed.data, one_at + d, dim, none)
                    two = load_heads(others.data, two_at + d, dim, none)
                    if edges.there:
                        carried = load_heads(edges.data, edge_at + get(edges.heads, head) + d, dim, none)
                        if joins_fixed:
                            one = one + carried
                        else:
                            two = two + carried
                    sums = pair(score, sums, one, two, vector_of(score, head * dim + d, dim, none))
                lay_aside(parts, head - group, sums)
            store(target, e * sizes.lanes + group, finish(score, totals(parts, sums)))


@inlined
def _put_narrow_scores(score: Any, sizes: Any, lists: Any, begin: int, count: int, fixed: Any, row: int, others: Any,
                       edges: Any, joins_fixed: bool, target: Any, parts: Any) -> None:  # fmt: skip
    """Where each head has one number: lanes are heads."""
    line = LINE // others.bytes_each
    for e in range(count):
        ask_for(others, get(lists.neighbors, min(begin + e + AHEAD, lists.last)), line)
        other_at, edge_at = get(lists.neighbors, begin + e) * others.stride, get(lists.edges, begin + e) * edges.stride
        for group in range(0, sizes.lanes, WIDTH):
            one, two = load(fixed.data, row * fixed.stride + group), load(others.data, other_at + group)
            if edges.there:
                if joins_fixed:
                    one = one + load(edges.data, edge_at + group)
                else:
                    two = two + load(edges.data, edge_at + group)
            found = pair(score, fill(parts, 0.0), one, two, fill(parts, 1.0))
            store(target, e * sizes.lanes + group, finish(score, found))
