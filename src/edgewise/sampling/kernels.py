"""The kernels of neighbor sampling, compiled by numba at their first call; imported where they are first needed.

    sample      k hops from seeds: nodes, edges, how many of each a hop added
    intern      numbers nodes in the order in which they are found
    draw        some edges of one receiver and type: uniform or weighted, with or without replacement

Random numbers are counter-based: draw i at a node is determined by the key of the hop, the tree, the node and i alone.
So a sample depends neither on the thread that draws it nor on earlier samples.
"""

from functools import partial
from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as untyped_intrinsic

from edgewise.neighborhood import jit

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
UNIT, TINY = 2.0**-52, 5e-324
MAX_LINEAR = 32
"""Up to this many draws per node, a new one is compared with all before; beyond, they are in a hash table."""
BLOCK = 32
"""Nodes whose edges are drawn, read and numbered together, so that the next reads are prefetched into the cache."""
UNIFORM, LAST = 0, 1
"""How edges are drawn: at random, or the last ones, which are the latest if edges are sorted by time."""


compiled = partial(jit.compiled, **OPTIONS)
"""Compiles a function, and caches its code on disk if possible."""
inlined: Any = jit.inlined_with(**OPTIONS)
intrinsic: Any = untyped_intrinsic  # the result takes fewer arguments than the function


@intrinsic
def prefetch(typing: Any, array: Any, row: Any) -> Any:
    """Prefetches a row of an array into the cache."""

    def lower(context: Any, builder: Any, typed: Any, values: list) -> ir.Value:
        struct = context.make_array(array)(context, builder, values[0])
        stride = builder.extract_value(struct.strides, 0)
        bytes_of = ir.IntType(8).as_pointer()
        address = builder.gep(builder.bitcast(struct.data, bytes_of), [builder.mul(values[1], stride)])
        number = ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [bytes_of, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [bytes_of], hint)
        builder.call(
            function, [address, *(ir.Constant(number, flag) for flag in (0, 2, 1))]
        )  # read, second cache, data
        return context.get_dummy_value()

    return types.void(array, types.intp), lower


@inlined
@no_type_check
def mix(x):
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014): each bit of x changes each bit of the result."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@inlined
@no_type_check
def uniform(state, counter):
    """Number `counter` of a stream, in [0, 1); times n and truncated, it is below n."""
    return (mix(state + np.uint64(counter + 1) * GAMMA) >> np.uint64(12)) * UNIT


@inlined
@no_type_check
def first_above(values, start, stop, limit):
    """The first index in ascending values[start:stop] with a value above the limit; `stop` if there is none."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] > limit:
            stop = middle
        else:
            start = middle + 1
    return start


@inlined
@no_type_check
def first_from(values, start, stop, limit):
    """The first index in ascending values[start:stop] with at least the limit; `stop` if there is none."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < limit:
            start = middle + 1
        else:
            stop = middle
    return start


@inlined
@no_type_check
def num_drawn(num_edges, fanout, replace):
    """How many of the edges are drawn; a negative fanout takes all."""
    if fanout < 0 or num_edges == 0:
        return num_edges
    return fanout if replace else min(num_edges, fanout)


@inlined
@no_type_check
def slot_of(table, value):
    """The slot of a value in a table with open addressing, or the slot where it would be inserted."""
    mask = table.shape[0] - 1
    slot = np.int64(mix(np.uint64(value)) & np.uint64(mask))
    while table[slot] >= 0 and table[slot] != value:
        slot = (slot + 1) & mask
    return slot


@inlined
@no_type_check
def draw_distinct(start, stop, count, state, counter, drawn, table):
    """`count` distinct indices of start … stop − 1, all sets equally likely (Floyd 1987)."""
    if count > MAX_LINEAR:
        table[:] = -1
    seen, is_far = np.uint64(0), stop - start > 64  # a bit for each index, shared by indices that are 64 apart
    for number in range(count):
        last = stop - count + number
        index = start + np.int64(uniform(state, counter + number) * (last + 1 - start))
        if count > MAX_LINEAR:
            slot = slot_of(table, index)
            if table[slot] >= 0:
                index = last
                slot = slot_of(table, index)
            table[slot] = index
        else:
            is_drawn = (seen >> np.uint64((index - start) & 63)) & np.uint64(1) != np.uint64(0)
            if is_far and is_drawn:
                is_drawn = False
                for other in range(number):
                    is_drawn |= drawn[other] == index
            index = last if is_drawn else index
            seen |= np.uint64(1) << np.uint64((index - start) & 63)
        drawn[number] = index


@inlined
@no_type_check
def draw_by_weight(cumulative, start, stop, count, state, counter, drawn):
    """`count` indices, each with a probability proportional to its weight, with replacement."""
    total = cumulative[stop - 1]
    for number in range(count):
        index = first_above(cumulative, start, stop, uniform(state, counter + number) * total)
        drawn[number] = min(index, stop - 1)


@inlined
@no_type_check
def draw_distinct_by_weight(cumulative, start, stop, count, state, counter, drawn, keys):
    """`count` distinct indices, one after the other, each with a probability proportional to its weight among those
    that are left.

    Efraimidis & Spirakis 2006 (A-ExpJ), with logarithms of their keys: index j has the key ln(u) / w, the largest keys
    win; a jump over cumulative weights finds the next index that enters.
    """
    for number in range(count):
        index = start + number
        weight = cumulative[index] - (cumulative[index - 1] if number > 0 else 0.0)
        drawn[number] = index
        keys[number] = np.log(1.0 - uniform(state, counter + number)) / max(weight, TINY)
    counter += count
    index = start + count
    while count > 0 and index < stop:
        worst = 0
        for number in range(1, count):
            if keys[number] < keys[worst]:
                worst = number
        jump = np.log(1.0 - uniform(state, counter)) / min(keys[worst], -TINY)
        index = first_from(cumulative, index, stop, cumulative[index - 1] + jump)
        if index == stop:
            return
        weight = max(cumulative[index] - cumulative[index - 1], TINY)
        min_key = np.exp(keys[worst] * weight)
        drawn[worst] = index
        keys[worst] = np.log(min_key + (1.0 - min_key) * (1.0 - uniform(state, counter + 1))) / weight
        counter += 2
        index += 1


@inlined
@no_type_check
def draw(cumulative, start, stop, fanout, replace, strategy, state, counter, drawn, keys, table):
    """Draws indices of start … stop − 1, ascending if all are taken; returns how many."""
    count = num_drawn(stop - start, fanout, replace)
    if strategy == LAST or (count == stop - start and (fanout < 0 or not replace)):
        for number in range(count):
            drawn[number] = stop - count + number
    elif cumulative.shape[0] == 0 and replace:
        for number in range(count):
            drawn[number] = start + np.int64(uniform(state, counter + number) * (stop - start))
    elif cumulative.shape[0] == 0:
        draw_distinct(start, stop, count, state, counter, drawn, table)
    elif replace:
        draw_by_weight(cumulative, start, stop, count, state, counter, drawn)
    else:
        draw_distinct_by_weight(cumulative, start, stop, count, state, counter, drawn, keys)
    return count


@inlined
@no_type_check
def intern(found_nodes, locals_, nodes, count, index_of):
    """Numbers the found nodes among all nodes so far, new ones at the end; returns how many there are then.

    `index_of` is never cleared: its entry for a node is valid only if that index holds the node. No branch, and no
    address that is read, depends on earlier nodes, so that the processor works on many at once.
    """
    end = nodes.shape[0] - 1
    for edge in range(found_nodes.shape[0]):
        node = found_nodes[edge]
        index = np.int64(index_of[node])
        is_new = np.int64((nodes[min(index, end)] != node) | (index >= count))
        index += is_new * (count - index)
        nodes[count] = node
        index_of[node] = index
        locals_[edge] = index
        count += is_new
    return count


@inlined
@no_type_check
def intern_in_trees(found_nodes, receivers, locals_, nodes, trees, count):
    """As `intern`, but each tree numbers its own nodes; a found node belongs to the tree of its receiver."""
    size = 64
    while size < 2 * (count + found_nodes.shape[0]):
        size *= 2
    table = np.full(size, -1, np.int64)
    num_known = count
    for index in range(num_known + found_nodes.shape[0]):
        is_new = index >= num_known
        edge = index - num_known
        node, tree = (found_nodes[edge], trees[receivers[edge]]) if is_new else (nodes[index], trees[index])
        slot = np.int64(mix(np.uint64(node) * GAMMA + np.uint64(tree)) & np.uint64(size - 1))
        while table[slot] >= 0 and (nodes[table[slot]] != node or trees[table[slot]] != tree):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = count if is_new else index
            if is_new:
                nodes[count], trees[count] = node, tree
                count += 1
        if is_new:
            locals_[edge] = table[slot]
    return count


@inlined
@no_type_check
def extended(values, more):
    """A copy with more room at its end."""
    larger = np.empty(values.shape[0] + more, np.int64)
    larger[: values.shape[0]] = values
    return larger


@inlined
@no_type_check
def run_of(types, times, start, stop, limit):
    """For edges start … stop − 1 of a receiver: the end of those of the first type, the end of those before the limit,
    and the type."""
    edge_type, end = 0, stop
    if types.shape[0] > 0:
        edge_type = np.int64(types[start])
        end = first_above(types, start, stop, edge_type)
    before = end
    if times.shape[0] > 0:
        before = first_from(times, start, end, limit)
    return end, before, edge_type


@compiled
@no_type_check
def accumulate(offsets, types, weights):
    """Replaces the weights by cumulative sums, which restart for each receiver and type."""
    for receiver in range(offsets.shape[0] - 1):
        for edge in range(offsets[receiver] + 1, offsets[receiver + 1]):
            if types.shape[0] == 0 or types[edge] == types[edge - 1]:
                weights[edge] += weights[edge - 1]


@compiled
@no_type_check
def induced(offsets, links, nodes, index_of):
    """All edges between the nodes of a list: the indices of senders and receivers in the list, and the edges."""
    for index in range(nodes.shape[0]):
        index_of[nodes[index]] = index
    count = 0
    for write in range(2):
        if write:
            senders, receivers, edges = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        count = 0
        for receiver in range(nodes.shape[0]):
            for link in range(offsets[nodes[receiver]], offsets[nodes[receiver] + 1]):
                sender = np.int64(index_of[links[link, 0]])
                if sender < nodes.shape[0] and nodes[sender] == links[link, 0]:
                    if write:
                        senders[count], receivers[count], edges[count] = sender, receiver, links[link, 1]
                    count += 1
    return senders, receivers, edges


@compiled
@no_type_check
def draw_unlinked(offsets, links, senders, receivers, nodes, starts, stops, num_tries, key, drawn_nodes):
    """For each sender a node of nodes[start:stop] that is neither itself, nor its receiver, nor a node that it has an
    edge to; −1 if none is found in `num_tries` tries.

    Returns:
        The index of the first −1 in `drawn_nodes`; −1 if there is none.
    """
    missing = -1
    for pair in range(drawn_nodes.shape[0]):
        state = mix(key ^ mix(np.uint64(pair) * GAMMA))
        drawn_nodes[pair] = -1
        for number in range(num_tries if starts[pair] < stops[pair] else 0):
            candidate = nodes[starts[pair] + np.int64(uniform(state, number) * (stops[pair] - starts[pair]))]
            is_linked = candidate == senders[pair] or candidate == receivers[pair]
            for link in range(offsets[candidate], offsets[candidate + 1]):
                is_linked |= links[link, 0] == senders[pair]
            if not is_linked:
                drawn_nodes[pair] = candidate
                break
        if drawn_nodes[pair] < 0 and missing < 0:
            missing = pair
    return missing


@compiled
@no_type_check
def sample(
    offsets, links, types, times, cumulative, fanouts, replace, strategy, has_trees, seeds, seed_times, key, index_of
):
    """Nodes and edges of k hops against the direction of the edges.

    Args:
        offsets, links: incoming edges of node i are links[offsets[i]:offsets[i + 1]], rows of (sender, edge).
        types, times, cumulative: of each of these edges, or empty. Edges of a receiver are sorted by type, those of a
            type by time; cumulative weights restart for each type.
        fanouts: int64 (hop, type).
        replace, strategy, has_trees: whether an edge may be drawn twice; UNIFORM or LAST; whether each seed has a tree.
        seeds, seed_times: int64 (seed), and the limit of each seed, empty without times.
        key: uint64, of the batch.
        index_of: int32 (node), of this thread.

    Returns:
        nodes, the tree of each (empty without trees), the index of each seed, senders, receivers and edges, and how
        many nodes and edges each hop added.
    """
    num_hops = fanouts.shape[0]
    max_fanout = max(1, fanouts.max()) if num_hops > 0 else 1
    keys = np.empty(max_fanout, np.float64)
    size = 64
    while size < 2 * max_fanout:
        size *= 2
    table = np.empty(size, np.int64)
    nodes = np.empty(len(seeds) + 1, np.int64)
    trees = np.empty(len(seeds) + 1 if has_trees else 0, np.int64)
    roots = np.empty(len(seeds), np.int64)
    count = 0
    if has_trees:
        for tree in range(len(seeds)):
            nodes[tree], trees[tree], roots[tree] = seeds[tree], tree, tree
        count = len(seeds)
    else:
        count = intern(seeds, roots, nodes, 0, index_of)
    senders, receivers, edges = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    nodes_of_hop, edges_of_hop = np.zeros(num_hops + 1, np.int64), np.zeros(num_hops, np.int64)
    nodes_of_hop[0] = count
    first_of_hop = 0
    for hop in range(num_hops):
        total, last_of_hop = 0, count
        for receiver in range(first_of_hop, last_of_hop):
            start, stop = np.int64(offsets[nodes[receiver]]), np.int64(offsets[nodes[receiver] + 1])
            while start < stop:
                run_limit = seed_times[trees[receiver]] if times.shape[0] > 0 else 0
                next_start, before, edge_type = run_of(types, times, start, stop, run_limit)
                total += num_drawn(before - start, fanouts[hop, edge_type], replace)
                start = next_start
        num_known = len(senders)
        found_nodes = np.empty(total, np.int64)
        senders, receivers, edges = extended(senders, total), extended(receivers, total), extended(edges, total)
        nodes = extended(nodes, total)
        if has_trees:
            trees = extended(trees, total)
        position = 0
        hop_key = mix(key + np.uint64(hop + 1) * GAMMA)
        for block in range(first_of_hop, last_of_hop, BLOCK):
            first_of_block = position
            for receiver in range(block, min(last_of_hop, block + BLOCK)):
                node = nodes[receiver]
                tree = np.uint64(trees[receiver]) if has_trees else np.uint64(0)
                state = mix(hop_key ^ mix(np.uint64(node) * GAMMA + tree))
                start, stop = np.int64(offsets[node]), np.int64(offsets[node + 1])
                counter, first_of_node = 0, position
                while start < stop:
                    run_limit = seed_times[trees[receiver]] if times.shape[0] > 0 else 0
                    next_start, before, edge_type = run_of(types, times, start, stop, run_limit)
                    drawn = draw(
                        *(cumulative, start, before, fanouts[hop, edge_type], replace, strategy),
                        *(state, counter, found_nodes[position:], keys, table),
                    )
                    counter += 2 * (before - start) + drawn
                    position += drawn
                    start = next_start
                for edge in range(first_of_node, position):
                    prefetch(links, found_nodes[edge])
                    receivers[num_known + edge] = receiver

            for edge in range(first_of_block, position):
                edge_index = found_nodes[edge]
                found_nodes[edge] = links[edge_index, 0]
                edges[num_known + edge] = links[edge_index, 1]
                if not has_trees:
                    prefetch(index_of, found_nodes[edge])

            if not has_trees:
                new_links = (
                    found_nodes[first_of_block:position],
                    senders[num_known + first_of_block : num_known + position],
                )
                count = intern(*new_links, nodes, count, index_of)

        if has_trees:
            count = intern_in_trees(found_nodes, receivers[num_known:], senders[num_known:], nodes, trees, count)
        nodes_of_hop[hop + 1], edges_of_hop[hop] = count - last_of_hop, total
        first_of_hop = last_of_hop

    return (
        nodes[:count],
        trees[: count if has_trees else 0],
        roots,
        senders,
        receivers,
        edges,
        nodes_of_hop,
        edges_of_hop,
    )
