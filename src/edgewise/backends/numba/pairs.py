"""A node with each of its neighbors: their score, or the product of two rows, for all heads at once.

A node (its row is *fixed*, a table of one row) meets the neighbors of a run of edges in another table. Forward and for
what the receivers own it is a query that meets keys; for what the senders own it is a key that meets queries, and as
each score takes both alike, the sums have the same bits either way. What an edge itself carries is added to the side of
the key.
"""

from typing import Any

from edgewise.backends.numba.compiled import inlined
from edgewise.backends.numba.heads import end_of_group, heads_of, load_heads, store_sums, sums_of_heads, width_of
from edgewise.backends.numba.score import DotKernel, finish, pair, vector_of
from edgewise.backends.numba.simd import WIDTH, fill, get, load, store
from edgewise.backends.numba.tables import prefetch_ahead


@inlined
def put_scores(score: Any, sizes: Any, lists: Any, begin: int, count: int, query: Any, key: Any,
               edge_key: Any, scores: Any, parts: Any, none: Any) -> None:  # fmt: skip
    """s of each edge of a receiver, from place `begin` on, for all heads, into scratch."""
    if sizes.key_dim < WIDTH:
        return put_narrow_scores(score, sizes, lists, begin, count, query, key, edge_key, False, scores)
    for group in range(0, sizes.lanes, WIDTH):
        for e in range(count):
            if group == 0:
                prefetch_ahead(lists, begin + e, key)
            raw = sum_of_pairs(
                score, sizes, sizes.key_dim, lists, begin + e, group, query, key, edge_key, False, parts, none
            )
            store(scores, e * sizes.lanes + group, finish(score, raw))


@inlined
def put_scores_and_products(score: Any, sizes: Any, lists: Any, begin: int, count: int, node: Any,
                            others: Any, edge_key: Any, value: Any, other_values: Any, edge_value: Any,
                            sender_is_fixed: bool, scores: Any, products: Any, parts: Any,
                            none: Any) -> None:  # fmt: skip
    """s and dO · (v + v^e) of each edge of a node, from place `begin` on, for all heads, into scratch: of a receiver
    with its query and dO, where the others have keys and values, or of a sender the other way round."""
    if sizes.key_dim < WIDTH:
        put_narrow_scores(score, sizes, lists, begin, count, node, others, edge_key, sender_is_fixed, scores)
    for group in range(0, sizes.lanes, WIDTH):
        for e in range(count):
            if group == 0:
                prefetch_ahead(lists, begin + e, others)
            if sizes.key_dim >= WIDTH:
                sums = sum_of_pairs(
                    score, sizes, sizes.key_dim, lists, begin + e, group, node, others, edge_key,
                    sender_is_fixed, parts, none,
                )  # fmt: skip
                store(scores, e * sizes.lanes + group, finish(score, sums))
            if group == 0:
                prefetch_ahead(lists, begin + e, other_values)
            if sizes.key_dim > 0 or not sender_is_fixed:  # a sender needs the products for its key alone
                sums = sum_of_pairs(
                    DotKernel(1.0, 1.0), sizes, sizes.value_dim, lists, begin + e, group, value, other_values,
                    edge_value, sender_is_fixed, parts, none,
                )  # fmt: skip
                store(products, e * sizes.lanes + group, sums)


@inlined
def sum_of_pairs(score: Any, sizes: Any, dim: int, lists: Any, position: int, group: int, fixed: Any,
                 others: Any, edges: Any, joins_fixed: bool, parts: Any, none: Any) -> Any:  # fmt: skip
    """Σ_d pair of one edge, for WIDTH heads from `group` on."""
    other_at, edge_at, sums = get(lists.neighbors, position) * others.stride, 0, none
    if edges.there:
        edge_at = get(lists.rows, position) * edges.stride

    for head in range(group, end_of_group(group, sizes.heads, none), heads_of(none)):
        sums, one_at, two_at = none, get(fixed.heads, head), other_at + get(others.heads, head)
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

        store_sums(parts, head - group, sums)

    return sums_of_heads(parts, sums)


@inlined
def put_narrow_scores(score: Any, sizes: Any, lists: Any, begin: int, count: int, fixed: Any, others: Any,
                      edges: Any, joins_fixed: bool, scores: Any) -> None:  # fmt: skip
    """Where each head has one number, or none: lanes are heads."""
    for e in range(count):
        prefetch_ahead(lists, begin + e, others)
        other_at, edge_at = get(lists.neighbors, begin + e) * others.stride, get(lists.rows, begin + e) * edges.stride
        for group in range(0, sizes.lanes, WIDTH):
            raw = fill(scores, 0.0)
            if sizes.key_dim == 1:
                one, two = load(fixed.data, group), load(others.data, other_at + group)
                if edges.there:
                    if joins_fixed:
                        one = one + load(edges.data, edge_at + group)
                    else:
                        two = two + load(edges.data, edge_at + group)
                raw = pair(score, raw, one, two, fill(raw, 1.0))

            store(scores, e * sizes.lanes + group, finish(score, raw))
