"""Finds the leaf of each row in each decision tree of scikit-learn, compiled: in plain torch all rows would go down all
trees level by level, each level an array in memory."""

import numpy as np

from edgewise.neighborhood.jit import compiled


def _find_leaves(
    rows: np.ndarray,
    split_feature: np.ndarray,
    threshold: np.ndarray,
    children: np.ndarray,
    roots: np.ndarray,
    leaves: np.ndarray,
) -> None:
    """Writes the leaf that each row reaches to `leaves`, `(row, tree)`.

    Args:
        rows: `(row, feature)`.
        split_feature, threshold: `(node)`, of all trees together. A row goes left where its feature is at most the
            threshold, or NaN.
        children: `(node, 2)`, left and right; of a leaf both are the leaf itself.
        roots: `(tree)`.
    """
    for row in range(len(rows)):
        for tree in range(len(roots)):
            node = roots[tree]
            while children[node, 0] != node:
                goes_right = rows[row, split_feature[node]] > threshold[node]
                node = children[node, 1 if goes_right else 0]
            leaves[row, tree] = node


find_leaves = compiled(_find_leaves, nogil=True)
