"""The walk down decision trees, compiled: in plain torch each step of all rows and trees is written to memory."""

import numpy as np

from edgewise.neighborhood.jit import compiled


def _walk(
    rows: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    branches: np.ndarray,
    roots: np.ndarray,
    leaves: np.ndarray,
) -> None:
    """`leaves[row, tree]` is where a walk from the root of the tree ends; a leaf leads to itself."""
    for row in range(len(rows)):
        for tree in range(len(roots)):
            node = roots[tree]
            while branches[node, 0] != node:
                goes_right = rows[row, feature[node]] > threshold[node]
                node = branches[node, 1 if goes_right else 0]
            leaves[row, tree] = node


walk = compiled(_walk, nogil=True, error_model="numpy")
