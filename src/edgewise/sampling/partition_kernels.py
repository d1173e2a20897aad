"""The kernels of partitioning: breadth-first order, and label propagation."""

from typing import no_type_check

import numpy as np

from edgewise.sampling.kernels import compiled


@compiled
@no_type_check
def breadth_first(offsets, senders, sender_offsets, receivers, order):
    """All nodes in the order of breadth-first searches over edges in both directions, each from the first node of
    `order` that no earlier search has reached."""
    visited = np.empty(order.shape[0], np.int64)
    is_visited = np.zeros(order.shape[0], np.bool_)
    count = num_expanded = 0
    for root in order:
        if not is_visited[root]:
            is_visited[root] = True
            visited[count] = root
            count += 1

        while num_expanded < count:
            node = visited[num_expanded]
            num_expanded += 1
            for direction in range(2):
                bounds, neighbors = (offsets, senders) if direction == 0 else (sender_offsets, receivers)
                for link in range(bounds[node], bounds[node + 1]):
                    neighbor = neighbors[link]
                    if not is_visited[neighbor]:
                        is_visited[neighbor] = True
                        visited[count] = neighbor
                        count += 1

    return visited


@compiled
@no_type_check
def propagate(offsets, senders, sender_offsets, receivers, order, clusters, num_clusters, max_size, num_rounds):
    """Moves each node to the cluster of most of its neighbors, if it has room, until no node moves."""
    sizes, votes = np.zeros(num_clusters, np.int64), np.zeros(num_clusters, np.int64)
    for node in range(clusters.shape[0]):
        sizes[clusters[node]] += 1
    for _ in range(num_rounds):
        num_moved = 0
        for node in order:
            current = clusters[node]
            best = current
            for step in range(3):  # count the votes, find the maximum, clear them
                if step == 1:
                    best = current
                for direction in range(2):
                    bounds, neighbors = (offsets, senders) if direction == 0 else (sender_offsets, receivers)
                    for link in range(bounds[node], bounds[node + 1]):
                        if neighbors[link] == node:
                            continue

                        cluster = clusters[neighbors[link]]
                        if step == 0:
                            votes[cluster] += 1
                        elif step == 2:
                            votes[cluster] = 0
                        elif sizes[cluster] < max_size and (
                            votes[cluster] > votes[best]
                            or (votes[cluster] == votes[best] and best != current and cluster < best)
                        ):
                            best = cluster

            if best != current:
                sizes[current] -= 1
                sizes[best] += 1
                clusters[node] = best
                num_moved += 1
        if num_moved == 0:
            return
