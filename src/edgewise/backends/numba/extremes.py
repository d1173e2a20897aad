"""The largest value of each feature over the edges of a receiver, and its gradient, which values that tie share."""

import math
from typing import Any

from edgewise.backends.numba.compiled import inlined, kernel
from edgewise.backends.numba.simd import WIDTH, fill, get, load, maximum, store, where
from edgewise.backends.numba.tables import ask_ahead, features, first_row, places, source


@inlined
def carried(lists: Any, place: int, value: Any, edge_value: Any, d: int, like: Any) -> Any:
    """v + v^e of the edge at a place, WIDTH features from d on."""
    sender, edge = get(lists.neighbors, place), get(lists.edges, place)
    return features(value, sender * value.stride + d, edge_value, edge * edge_value.stride + d, 0, like)


@kernel
def largest(first, step, lists, pieces, value, edge_value, out):
    """out = max (v + v^e) of every receiver, 0 where it has no edge."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), places(lists)
    for piece in range(first, pieces, step):
        for row in range(first_row(lists, piece, pieces), first_row(lists, piece + 1, pieces)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for place in range(begin, end):
                ask_ahead(lists, place, value)
            for d in range(0, out.width, WIDTH):
                zero = fill(load(out.data, row * out.stride + d), 0.0)
                found = fill(zero, -math.inf) if end > begin else zero
                for place in range(begin, end):
                    found = maximum(found, carried(lists, place, value, edge_value, d, zero))
                store(out.data, row * out.stride + d, found)


@kernel
def share_among_ties(first, step, lists, pieces, value, edge_value, out, grad_out, shares, grad_edge_value):
    """The gradient of every receiver divided by how many values tie; and d v^e."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), places(lists)
    grad_out, shares, grad_edge_value = source(grad_out), source(shares), source(grad_edge_value)
    for piece in range(first, pieces, step):
        for row in range(first_row(lists, piece, pieces), first_row(lists, piece + 1, pieces)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for d in range(0, out.width, WIDTH):
                top = load(out.data, row * out.stride + d)
                many = fill(top, 0.0)
                for place in range(begin, end):
                    many = many + where(carried(lists, place, value, edge_value, d, top) == top, fill(top, 1.0), 0.0)
                share = load(grad_out.data, row * grad_out.stride + d) / maximum(many, 1.0)
                store(shares.data, row * shares.stride + d, share)
                if edge_value.there:
                    for place in range(begin, end):
                        wins = carried(lists, place, value, edge_value, d, top) == top
                        at = get(lists.edges, place) * grad_edge_value.stride + d
                        store(grad_edge_value.data, at, where(wins, share, 0.0))


@kernel
def collect_shares(first, step, lists, pieces, value, edge_value, out, shares, grad_value):
    """dv of every sender: the shares of the receivers for which it is the largest."""
    value, edge_value, out, lists = source(value), source(edge_value), source(out), places(lists)
    shares, grad_value = source(shares), source(grad_value)
    for piece in range(first, pieces, step):
        for row in range(first_row(lists, piece, pieces), first_row(lists, piece + 1, pieces)):
            begin, end = get(lists.offsets, row), get(lists.offsets, row + 1)
            for d in range(0, value.width, WIDTH):
                own = load(value.data, row * value.stride + d)
                sums = fill(own, 0.0)
                for place in range(begin, end):
                    receiver, edge = get(lists.neighbors, place), get(lists.edges, place)
                    found = own
                    if edge_value.there:
                        found = own + load(edge_value.data, edge * edge_value.stride + d)
                    wins = found == load(out.data, receiver * out.stride + d)
                    sums = sums + where(wins, load(shares.data, receiver * shares.stride + d), 0.0)
                store(grad_value.data, row * grad_value.width + d, sums)
