"""Heavy-tailed noise of outlying rows: Student's t distribution, fitted to leave-one-out residuals."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int64

BLOCK_ROWS, NUM_GROUPED = 1024, 64
"""Rows of a block, in which each is left out once, and how many of the same molecules share a block: more take longer,
and show better how far off a row is."""
FREEDOMS, SHARES = (3.0, 5.0, 10.0, 30.0, 1e6), np.exp(np.linspace(-4, 0.5, 19))
"""Degrees of freedom that noise may have, and its scale in the variance of normal noise. With 2 or fewer it would have
no variance; with 10⁶ it is normal."""


def heavy_tailed(
    covariance: Float[np.ndarray, " row row"],
    targets: Float[np.ndarray, " row"],
    noise: Float[np.ndarray, " row"],
    blocks: Sequence[Int64[np.ndarray, " _"]],
) -> Float[np.ndarray, " row"]:
    """The variance of noise for each row where it has Student's t distribution, see `GaussianProcess`.

    Args:
        covariance: of each row with itself and those before it, without noise.
        targets: of the rows.
        noise: its variance where it is normal.
        blocks: places of the rows of each block, in order; a row is left out of its block alone.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.special import gammaln

    residuals, uncertain = np.empty_like(targets), np.empty_like(targets)
    for rows in blocks:
        factor = cho_factor(covariance[np.ix_(rows, rows)] + np.diag(noise[rows]), lower=True, check_finite=False)
        solved = cho_solve(factor, np.column_stack([targets[rows], np.eye(len(targets[rows]))]), check_finite=False)
        precision = solved[:, 1:].diagonal()
        residuals[rows], uncertain[rows] = solved[:, 0] / precision, 1 / precision - noise[rows]

    best = -np.inf
    for freedom in FREEDOMS:
        constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(freedom) / 2
        for share in SHARES:
            variance = uncertain.clip(0) + share * noise
            squares = residuals**2 / variance
            density = constant - np.log(variance) / 2 - (freedom + 1) / 2 * np.log1p(squares / freedom)
            if (likelihood := density.sum()) > best:
                best, noises = likelihood, share * noise * (freedom + squares) / (freedom + 1)

    return noises


def blocks_of(molecule_of_row: Int64[np.ndarray, " row"]) -> list[Int64[np.ndarray, " some"]]:
    """Blocks of rows for leave-one-out residuals: at random, rows of the same molecules together."""
    order = np.random.default_rng(0).permutation(len(molecule_of_row))
    order = grouped(order, molecule_of_row[order], NUM_GROUPED)
    return [np.sort(part) for part in np.array_split(order, -(-len(molecule_of_row) // BLOCK_ROWS))]


def grouped(
    rows: Int64[np.ndarray, " row"], molecule_of_row: Int64[np.ndarray, " row"], max_group_size: int
) -> Int64[np.ndarray, " row"]:
    """Rows in an order in which those of the same molecules are adjacent, in groups of limited size."""
    _, first, number = np.unique(molecule_of_row, return_index=True, return_inverse=True)
    order = np.argsort(first[number], kind="stable")
    starts = np.searchsorted(first[number][order], first)[number][order]
    turn = (np.arange(len(rows)) - starts) // max_group_size
    return rows[order][np.argsort(turn, kind="stable")]
