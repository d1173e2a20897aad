"""The kernels of clusters: an order in which neighbors stand near each other, and label propagation."""

from typing import no_type_check

import numpy as np

from edgewise.sampling.kernels import compiled


@compiled
@no_type_check
def breadth_first(offsets, senders, sender_offsets, receivers, order):
    """All nodes in the order of breadth-first searches over edges in both directions, each from the first node of
    `order` that no search before it has found."""
    found = np.empty(order.shape[0], np.int64)
    is_found = np.zeros(order.shape[0], np.bool_)
    count = done = 0
    for root in order:
        if not is_found[root]:
            is_found[root] = True
            found[count] = root
            count += 1
        while done < count:
            node = found[done]
            done += 1
            for way in range(2):
                bounds, others = (offsets, senders) if way == 0 else (sender_offsets, receivers)
                for link in range(bounds[node], bounds[node + 1]):
                    other = others[link]
                    if not is_found[other]:
                        is_found[other] = True
                        found[count] = other
                        count += 1
    return found


@compiled
@no_type_check
def propagate(offsets, senders, sender_offsets, receivers, order, clusters, num_clusters, room, num_rounds):
    """Moves each node to the cluster that most of its neighbors are in, where there is room, until none moves."""
    sizes, votes = np.zeros(num_clusters, np.int64), np.zeros(num_clusters, np.int64)
    for node in range(clusters.shape[0]):
        sizes[clusters[node]] += 1
    for _ in range(num_rounds):
        num_moved = 0
        for node in order:
            own = clusters[node]
            best = own
            for step in range(3):  # count the votes, find the most, clear them
                if step == 1:
                    best = own
                for way in range(2):
                    bounds, others = (offsets, senders) if way == 0 else (sender_offsets, receivers)
                    for link in range(bounds[node], bounds[node + 1]):
                        if others[link] == node:
                            continue
                        other = clusters[others[link]]
                        if step == 0:
                            votes[other] += 1
                        elif step == 2:
                            votes[other] = 0
                        elif sizes[other] < room and (
                            votes[other] > votes[best] or (votes[other] == votes[best] and best != own and other < best)
                        ):
                            best = other
            if best != own:
                sizes[own] -= 1
                sizes[best] += 1
                clusters[node] = best
                num_moved += 1
        if num_moved == 0:
            return
