"""The kernels of neighbor sampling, compiled by numba at their first call; imported where they are first needed.

    sample      k hops from seeds: nodes, edges, how many of each a hop added
    intern      numbers nodes in the order in which they are found, each once
    draw        some edges of one receiver and type: uniform or weighted, with or without replacement

Random numbers are counter-based: draw i at a node follows from the key of the hop, the tree, the node and i alone. So
a sample depends neither on the thread that draws it nor on what was sampled before.
"""

from functools import partial
from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic as untyped_intrinsic

from edgewise.kernels import jit

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
UNIT, TINY = 2.0**-52, 5e-324
FEW = 32
"""Up to so many draws of a node, a new one is compared with all before it; beyond, they stand in a hash table."""
BLOCK = 32
"""Nodes whose edges are drawn, read and numbered together: what is read next is on its way into the first cache."""
UNIFORM, LAST = 0, 1
"""How edges are drawn: at random, or those that stand last, which are the latest where edges are sorted by time."""


compiled = partial(jit.compiled, **OPTIONS)
"""Compiles a function, and keeps its code on disk where there is a place."""
INSIDE: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
inlined: Any = njit(**INSIDE)
intrinsic: Any = untyped_intrinsic  # what it makes is called with fewer arguments than it is written with


@intrinsic
def prefetch(typing: Any, array: Any, row: Any) -> Any:
    """Starts to bring a row of an array into the cache, and does not wait for it."""

    def lower(context: Any, builder: Any, typed: Any, values: list) -> ir.Value:
        held = context.make_array(array)(context, builder, values[0])
        stride = builder.extract_value(held.strides, 0)
        bytes_of = ir.IntType(8).as_pointer()
        place = builder.gep(builder.bitcast(held.data, bytes_of), [builder.mul(values[1], stride)])
        number = ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [bytes_of, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [bytes_of], hint)
        builder.call(function, [place, *(ir.Constant(number, each) for each in (0, 2, 1))])  # read, second cache, data
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
    """Number `counter` of a stream, in [0, 1); times n and cut off it lies below n."""
    return (mix(state + np.uint64(counter + 1) * GAMMA) >> np.uint64(12)) * UNIT


@inlined
@no_type_check
def first_above(values, start, stop, limit):
    """The first place of ascending values[start:stop] that holds more than the limit; `stop` where none does."""
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
    """The first place of ascending values[start:stop] that holds the limit or more; `stop` where none does."""
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
    """How many edges are drawn of so many; a negative fanout takes all."""
    if fanout < 0 or num_edges == 0:
        return num_edges
    return fanout if replace else min(num_edges, fanout)


@inlined
@no_type_check
def slot_of(table, value):
    """Where a value stands in a table of open addressing, or would stand."""
    mask = table.shape[0] - 1
    slot = np.int64(mix(np.uint64(value)) & np.uint64(mask))
    while table[slot] >= 0 and table[slot] != value:
        slot = (slot + 1) & mask
    return slot


@inlined
@no_type_check
def draw_distinct(start, stop, count, state, counter, found, table):
    """`count` different places of start … stop − 1, all sets of so many equally likely (Floyd 1987)."""
    if count > FEW:
        table[:] = -1
    seen, is_far = np.uint64(0), stop - start > 64  # a bit for each place, shared by places that are 64 apart
    for number in range(count):
        last = stop - count + number
        place = start + np.int64(uniform(state, counter + number) * (last + 1 - start))
        if count > FEW:
            slot = slot_of(table, place)
            if table[slot] >= 0:
                place = last
                slot = slot_of(table, place)
            table[slot] = place
        else:
            is_taken = (seen >> np.uint64((place - start) & 63)) & np.uint64(1) != np.uint64(0)
            if is_far and is_taken:
                is_taken = False
                for other in range(number):
                    is_taken |= found[other] == place
            place = last if is_taken else place
            seen |= np.uint64(1) << np.uint64((place - start) & 63)
        found[number] = place


@inlined
@no_type_check
def draw_by_weight(cumulative, start, stop, count, state, counter, found):
    """`count` places, each with a probability in proportion to its weight; one may come several times."""
    total = cumulative[stop - 1]
    for number in range(count):
        place = first_above(cumulative, start, stop, uniform(state, counter + number) * total)
        found[number] = min(place, stop - 1)


@inlined
@no_type_check
def draw_distinct_by_weight(cumulative, start, stop, count, state, counter, found, keys):
    """`count` different places, one after the other, each with a probability in proportion to its weight among those
    that are left.

    Efraimidis & Spirakis 2006 (A-ExpJ), with logarithms of their keys: place j has the key ln(u) / w, the largest keys
    win; a jump over sums of weights finds the next place that enters.
    """
    for number in range(count):
        place = start + number
        weight = cumulative[place] - (cumulative[place - 1] if number > 0 else 0.0)
        found[number] = place
        keys[number] = np.log(1.0 - uniform(state, counter + number)) / max(weight, TINY)
    counter += count
    place = start + count
    while count > 0 and place < stop:
        worst = 0
        for number in range(1, count):
            if keys[number] < keys[worst]:
                worst = number
        jump = np.log(1.0 - uniform(state, counter)) / min(keys[worst], -TINY)
        place = first_from(cumulative, place, stop, cumulative[place - 1] + jump)
        if place == stop:
            return
        weight = max(cumulative[place] - cumulative[place - 1], TINY)
        least = np.exp(keys[worst] * weight)
        found[worst] = place
        keys[worst] = np.log(least + (1.0 - least) * (1.0 - uniform(state, counter + 1))) / weight
        counter += 2
        place += 1


@inlined
@no_type_check
def draw(cumulative, start, stop, fanout, replace, strategy, state, counter, found, keys, table):
    """Places of start … stop − 1, ascending where all are taken; how many they are."""
    count = num_drawn(stop - start, fanout, replace)
    if strategy == LAST or (count == stop - start and (fanout < 0 or not replace)):
        for number in range(count):
            found[number] = stop - count + number
    elif cumulative.shape[0] == 0 and replace:
        for number in range(count):
            found[number] = start + np.int64(uniform(state, counter + number) * (stop - start))
    elif cumulative.shape[0] == 0:
        draw_distinct(start, stop, count, state, counter, found, table)
    elif replace:
        draw_by_weight(cumulative, start, stop, count, state, counter, found)
    else:
        draw_distinct_by_weight(cumulative, start, stop, count, state, counter, found, keys)
    return count


@inlined
@no_type_check
def intern(found, locals_, nodes, count, place_of):
    """The number of each found node among all nodes so far, new ones behind the others; how many they are then.

    `place_of` is never cleared: what it holds for a node counts only where that place holds the node. No branch, and
    no address that is read, depends on the nodes before: the processor works on many at once.
    """
    end = nodes.shape[0] - 1
    for edge in range(found.shape[0]):
        node = found[edge]
        place = np.int64(place_of[node])
        is_new = np.int64((nodes[min(place, end)] != node) | (place >= count))
        place += is_new * (count - place)
        nodes[count] = node
        place_of[node] = place
        locals_[edge] = place
        count += is_new
    return count


@inlined
@no_type_check
def intern_in_trees(found, receivers, locals_, nodes, trees, count):
    """As `intern`, where each tree numbers its own nodes; a found node is of the tree of its receiver."""
    size = 64
    while size < 2 * (count + found.shape[0]):
        size *= 2
    table = np.full(size, -1, np.int64)
    known = count
    for place in range(known + found.shape[0]):
        is_new = place >= known
        edge = place - known
        node, tree = (found[edge], trees[receivers[edge]]) if is_new else (nodes[place], trees[place])
        slot = np.int64(mix(np.uint64(node) * GAMMA + np.uint64(tree)) & np.uint64(size - 1))
        while table[slot] >= 0 and (nodes[table[slot]] != node or trees[table[slot]] != tree):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = count if is_new else place
            if is_new:
                nodes[count], trees[count] = node, tree
                count += 1
        if is_new:
            locals_[edge] = table[slot]
    return count


@inlined
@no_type_check
def grown(values, more):
    """A copy with room for more at its end."""
    larger = np.empty(values.shape[0] + more, np.int64)
    larger[: values.shape[0]] = values
    return larger


@inlined
@no_type_check
def run_of(types, times, start, stop, limit):
    """Of edges start … stop − 1 of a receiver: where those of the first type end, where those before the limit end, and
    the type."""
    kind, end = 0, stop
    if types.shape[0] > 0:
        kind = np.int64(types[start])
        end = first_above(types, start, stop, kind)
    before = end
    if times.shape[0] > 0:
        before = first_from(times, start, end, limit)
    return end, before, kind


@compiled
@no_type_check
def accumulate(offsets, types, weights):
    """Replaces the weights by their sums, which begin anew with each receiver and type."""
    for receiver in range(offsets.shape[0] - 1):
        for place in range(offsets[receiver] + 1, offsets[receiver + 1]):
            if types.shape[0] == 0 or types[place] == types[place - 1]:
                weights[place] += weights[place - 1]


@compiled
@no_type_check
def induced(offsets, links, nodes, place_of):
    """All edges between different nodes: the places of senders and receivers in the list, and the edges."""
    for place in range(nodes.shape[0]):
        place_of[nodes[place]] = place
    count = 0
    for write in range(2):
        if write:
            senders, receivers, edges = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        count = 0
        for receiver in range(nodes.shape[0]):
            for link in range(offsets[nodes[receiver]], offsets[nodes[receiver] + 1]):
                sender = np.int64(place_of[links[link, 0]])
                if sender < nodes.shape[0] and nodes[sender] == links[link, 0]:
                    if write:
                        senders[count], receivers[count], edges[count] = sender, receiver, links[link, 1]
                    count += 1
    return senders, receivers, edges


@compiled
@no_type_check
def draw_unlinked(offsets, links, senders, receivers, nodes, starts, stops, num_tries, key, found):
    """For each sender a node of nodes[start:stop] that is neither itself, nor its receiver, nor one that it has an edge
    to; where none is found in so many tries, −1.

    Returns:
        The place of the first −1 in `found`; −1 where there is none.
    """
    missing = -1
    for pair in range(found.shape[0]):
        state = mix(key ^ mix(np.uint64(pair) * GAMMA))
        found[pair] = -1
        for number in range(num_tries if starts[pair] < stops[pair] else 0):
            drawn = nodes[starts[pair] + np.int64(uniform(state, number) * (stops[pair] - starts[pair]))]
            is_linked = drawn == senders[pair] or drawn == receivers[pair]
            for link in range(offsets[drawn], offsets[drawn + 1]):
                is_linked |= links[link, 0] == senders[pair]
            if not is_linked:
                found[pair] = drawn
                break
        if found[pair] < 0 and missing < 0:
            missing = pair
    return missing


@compiled
@no_type_check
def sample(
    offsets, links, types, times, cumulative, fanouts, replace, strategy, has_trees, seeds, seed_times, key, place_of
):
    """Nodes and edges of k hops against the direction of the edges.

    Args:
        offsets, links: incoming edges of node i are links[offsets[i]:offsets[i + 1]], rows of (sender, edge).
        types, times, cumulative: of each of these edges; empty where there are none. Edges of a receiver stand by type,
            those of a type by time; sums of weights begin anew with each type.
        fanouts: int64 (hop, type).
        replace, strategy, has_trees: whether an edge may come twice; UNIFORM or LAST; whether each seed has a tree.
        seeds, seed_times: int64 (seed), and the limit of each seed, empty without times.
        key: uint64, of the batch.
        place_of: int32 (node), of this thread.

    Returns:
        nodes, the tree of each (empty without trees), the place of each seed, senders, receivers and edges, and how
        many nodes and edges each hop added.
    """
    num_hops = fanouts.shape[0]
    most = max(1, fanouts.max()) if num_hops > 0 else 1
    keys = np.empty(most, np.float64)
    size = 64
    while size < 2 * most:
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
        count = intern(seeds, roots, nodes, 0, place_of)
    senders, receivers, edges = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    nodes_of_hop, edges_of_hop = np.zeros(num_hops + 1, np.int64), np.zeros(num_hops, np.int64)
    nodes_of_hop[0] = count
    begin = 0
    for hop in range(num_hops):
        total, end = 0, count
        for receiver in range(begin, end):
            start, stop = np.int64(offsets[nodes[receiver]]), np.int64(offsets[nodes[receiver] + 1])
            while start < stop:
                run_limit = seed_times[trees[receiver]] if times.shape[0] > 0 else 0
                next_start, before, kind = run_of(types, times, start, stop, run_limit)
                total += num_drawn(before - start, fanouts[hop, kind], replace)
                start = next_start
        known = len(senders)
        found = np.empty(total, np.int64)
        senders, receivers, edges = grown(senders, total), grown(receivers, total), grown(edges, total)
        nodes = grown(nodes, total)
        if has_trees:
            trees = grown(trees, total)
        at = 0
        hop_key = mix(key + np.uint64(hop + 1) * GAMMA)
        for block in range(begin, end, BLOCK):
            first_of_block = at
            for receiver in range(block, min(end, block + BLOCK)):
                node = nodes[receiver]
                tree = np.uint64(trees[receiver]) if has_trees else np.uint64(0)
                state = mix(hop_key ^ mix(np.uint64(node) * GAMMA + tree))
                start, stop = np.int64(offsets[node]), np.int64(offsets[node + 1])
                counter, first = 0, at
                while start < stop:
                    run_limit = seed_times[trees[receiver]] if times.shape[0] > 0 else 0
                    next_start, before, kind = run_of(types, times, start, stop, run_limit)
                    drawn = draw(
                        *(cumulative, start, before, fanouts[hop, kind], replace, strategy),
                        *(state, counter, found[at:], keys, table),
                    )
                    counter += 2 * (before - start) + drawn
                    at += drawn
                    start = next_start
                for edge in range(first, at):
                    prefetch(links, found[edge])
                    receivers[known + edge] = receiver
            for edge in range(first_of_block, at):
                place = found[edge]
                found[edge] = links[place, 0]
                edges[known + edge] = links[place, 1]
                if not has_trees:
                    prefetch(place_of, found[edge])
            if not has_trees:
                own = found[first_of_block:at], senders[known + first_of_block : known + at]
                count = intern(*own, nodes, count, place_of)
        if has_trees:
            count = intern_in_trees(found, receivers[known:], senders[known:], nodes, trees, count)
        nodes_of_hop[hop + 1], edges_of_hop[hop] = count - end, total
        begin = end
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
