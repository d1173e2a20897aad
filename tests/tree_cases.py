"""Merger trees: halos that grow and merge until one is left, and when half of its mass had come together."""

import numpy as np


def merger_tree(random, num_steps=12):
    """(features, edges, formation) of one tree.

    Features are the mass of each halo, in units of the smallest that is seen, and the step it is seen at, the last one
    being `num_steps`. Edges lead from progenitor to descendant; node 0 is the root. Formation is the step at which the
    main branch, the heavier progenitor of each halo, first had half of the last mass.
    """
    mass, growth, part = [float(10 ** random.uniform(1.5, 3))], random.uniform(0.02, 0.15), random.uniform(0.05, 0.4)
    step, senders, receivers, main = [num_steps], [], [], [0]
    front = [0]
    for now in range(num_steps - 1, -1, -1):
        earlier = []
        for halo in front:
            before = mass[halo] * (1 - growth * random.uniform(0.5, 1.5))
            smaller = before * random.uniform(0.05, 0.5) if random.random() < part else 0.0
            for own in (before - smaller, smaller):
                if own < 1:
                    continue
                if halo == main[-1] and own == before - smaller:
                    main.append(len(mass))
                earlier.append(len(mass))
                senders.append(len(mass))
                receivers.append(halo)
                mass.append(own)
                step.append(now)
        front = earlier
    formation = min(step[halo] for halo in main if mass[halo] >= mass[0] / 2)
    return np.stack([mass, step], axis=1), np.array([senders, receivers], dtype=np.int64), float(formation)


def merger_trees(number, seed=0, num_steps=12):
    """(features, edges) of many trees, and their formations."""
    random = np.random.default_rng(seed)
    trees = [merger_tree(random, num_steps) for _ in range(number)]
    return [tree[:2] for tree in trees], np.array([tree[2] for tree in trees])
