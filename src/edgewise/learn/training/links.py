"""Scores of predicted links against pairs without a link, and what counting neighbors reaches on the same pairs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from edgewise.learn.training.metrics import Scores

if TYPE_CHECKING:
    from scipy.sparse import csr_array

HITS = (10, 50)
"""K of hits@K."""
LINK_SCORES = ("roc_auc", "average_precision", "mrr", *(f"hits@{count}" for count in HITS))
"""The scores that tables show."""
PAIRS_AT_ONCE = 8192
"""Pairs whose neighbors are compared together; hubs have many."""


def link_scores(links: np.ndarray, others: np.ndarray) -> Scores:
    """How well links are separated from pairs without a link.

        mrr       mean of 1 / r, r = 1 + (pairs that are none with a larger score) + ½ (with the same)
        hits@K    part of the links with a larger score than the K-th largest of a pair that is none

    All links are compared with the same pairs.

    Args:
        links: (link): the prediction for each link, the larger the likelier.
        others: (pair): the prediction for each pair that is not a link.

    Returns:
        num_links, num_others, roc_auc, average_precision, mrr, hits@10, hits@50; None for a score that is not defined,
        as hits@K is for less than K pairs.

    Source: Hu et al. 2020 (Open Graph Benchmark) for mrr and hits@K.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    counts: Scores = {"num_links": len(links), "num_others": len(others)}
    if not len(links) or not len(others):
        return counts | dict.fromkeys(LINK_SCORES)
    truth, predicted = np.repeat([1, 0], [len(links), len(others)]), np.concatenate([links, others])
    ascending = np.sort(others)
    larger = len(others) - np.searchsorted(ascending, links, side="right")
    not_smaller = len(others) - np.searchsorted(ascending, links, side="left")
    hits = {
        f"hits@{count}": float((links > ascending[-count]).mean()) if len(others) >= count else None for count in HITS
    }

    return {
        **counts,
        "roc_auc": float(roc_auc_score(truth, predicted)),
        "average_precision": float(average_precision_score(truth, predicted)),
        "mrr": float((1 / (1 + (larger + not_smaller) / 2)).mean()),
        **hits,
    }


def simple_links(
    senders: np.ndarray, receivers: np.ndarray, num_nodes: int, is_directed: bool, features: "csr_array | None" = None
) -> dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Scores for a link between two nodes that need no training, from the known links.

        common_neighbors   |N(i) ∩ N(j)|
        adamic_adar        Σ over common neighbors of 1 / ln |N(k)|
        preferential       |N(i)| · |N(j)|; links that leave i times links that reach j, where edges are one way
        other_way          1 where j → i is known; only where edges are one way
        features           cosine of what is known of both; only where something is

    Neighbors are those in either direction.

    Args:
        senders, receivers: (link), each known link once.
        num_nodes: of the graph.
        is_directed: whether edges are one way.
        features: (node, feature), a sparse matrix of SciPy; None where nothing is known.

    Returns:
        By name a function of the senders and receivers of some pairs.

    Cost: O(neighbors of both nodes) for each pair.
    Source: Liben-Nowell & Kleinberg 2007; Adamic & Adar 2003; Barabási & Albert 1999.
    """
    from scipy.sparse import csr_array

    ones = np.ones(len(senders))
    one_way = csr_array((ones, (senders, receivers)), shape=(num_nodes, num_nodes))
    near = one_way + one_way.T
    near.data[:] = 1
    degrees = np.asarray(near.sum(axis=1)).ravel()

    # A common neighbor of two different nodes has at least two neighbors.
    rarity = np.where(degrees > 1, 1 / np.log(np.maximum(degrees, 2)), 0)
    rare = csr_array(near.multiply(rarity[None, :]))
    leaving = np.asarray(one_way.sum(axis=1)).ravel() if is_directed else degrees
    reaching = np.asarray(one_way.sum(axis=0)).ravel() if is_directed else degrees
    scores: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
        "common_neighbors": lambda i, j: _shared(near, near, i, j),
        "adamic_adar": lambda i, j: _shared(near, rare, i, j),
        "preferential": lambda i, j: leaving[i] * reaching[j],
    }
    if is_directed:
        scores["other_way"] = lambda i, j: np.asarray(one_way[j, i], dtype=float).ravel()

    if features is not None:
        lengths = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
        units = csr_array(features.multiply((1 / np.where(lengths > 0, lengths, 1))[:, None]))
        scores["features"] = lambda i, j: _shared(units, units, i, j)
    return scores


def _shared(left: "csr_array", right: "csr_array", i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """(pair): Σ_k left[i, k] right[j, k], without a table of all pairs."""
    parts = [
        np.asarray(left[i[first : first + PAIRS_AT_ONCE]].multiply(right[j[first : first + PAIRS_AT_ONCE]]).sum(axis=1))
        for first in range(0, len(i), PAIRS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0), *(part.ravel() for part in parts)])
