"""Links learned and scored: the training, and the scores beside those of what needs no learning."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from edgewise.data.graphs.links import LinkParts, Links
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.errors import DataError, SettingError
from edgewise.progress import counted
from edgewise.tasks.checkpoint import fit_in, training_metrics
from edgewise.tasks.links.graph import LinkGraph
from edgewise.tasks.links.job import STEPS_AN_EPOCH, LinkJob
from edgewise.tasks.links.messages import LinkLoader, link_batch
from edgewise.tasks.links.trained import TrainedLinks, untrained_links
from edgewise.train.folder import RunFolder
from edgewise.train.links import link_scores, simple_links
from edgewise.train.loader import RowLoader
from edgewise.train.loss import TargetLoss

Pairs = tuple[np.ndarray, np.ndarray]
"""Senders and receivers."""


def resolved(job: LinkJob, parts: LinkParts) -> LinkJob:
    """The job with a batch size.

    Raises:
        DataError: there are fewer than two training links.
        SettingError: the batches are so large that fewer than half of the training links carry messages.
    """
    count = len(parts.train)
    if count < 2:
        raise DataError(f"{count} training link; expected two or more: while one is told, others carry messages.")
    batch_size = job.train.batch_size or math.ceil(count / STEPS_AN_EPOCH)
    if 2 * batch_size > count + 1:
        raise SettingError(
            f"--batch-size is {batch_size}, but there are {count} training links; no message goes along those that are "
            f"told in a step, so expected at most {(count + 1) // 2}."
        )
    return replace(job, train=replace(job.train, batch_size=batch_size))


def fit_links(
    graph: LinkGraph,
    links: Links,
    parts: LinkParts,
    job: LinkJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> tuple[TrainedLinks, dict[str, Any]]:
    """Learns the training links, and chooses the epoch by the validation links; also the scores.

    In validation and test messages go along the training links alone. What is trained keeps the whole graph: whoever
    asks it later knows all links.
    """
    train = job.train
    assert train.batch_size is not None
    trained = untrained_links(graph, job)
    messages = trained.messages(graph)
    seen = messages.along(links.edges_of(parts.seen))
    validation = None
    if len(parts.val):
        batch = link_batch(seen, links, parts.val, parts.val_others)
        validation = RowLoader(np.zeros(1), lambda rows: batch, 1)
    training = LinkLoader(messages, links, parts, train.batch_size, job.negatives, train.seed)
    loss = TargetLoss("classification", train.loss_function)
    history = fit_in(folder, trained.model, (training, validation), train, loss=loss, resume=resume).history
    metrics: dict[str, Any] = {
        "rows": {"train": len(parts.train), "val": len(parts.val), "test": len(parts.test)},
        "epochs": len(history),
        **training_metrics(trained.model, history),
    }
    vectors = trained.vectors(seen)
    told = {"edgewise": lambda senders, receivers: trained.scores(vectors, senders, receivers)}
    if job.baselines:
        ends = links.pairs.ends(links.numbers[parts.seen])
        told |= simple_links(*ends, len(graph), job.graph.directed, _table(graph.features))
    for name, score in counted(told.items(), "scoring"):
        found = {part: link_scores(score(*there), score(*not_there)) for part, there, not_there in judged(links, parts)}
        if name == "edgewise":
            metrics |= found
        else:
            metrics.setdefault("baselines", {})[name] = found
    return trained, metrics


def judged(links: Links, parts: LinkParts) -> list[tuple[str, Pairs, Pairs]]:
    """What is scored: the name of the part, its links, and the pairs that are none."""
    ends = links.pairs.ends
    named = ("validation", parts.val, parts.val_others), ("test", parts.test, parts.test_others)
    return [(name, ends(links.numbers[some]), ends(others)) for name, some, others in named if len(some)]


def _table(features: NodeFeatures) -> Any:
    """Features as a sparse matrix of SciPy; None where there are none."""
    from scipy.sparse import csr_array

    if not features.shape[1]:
        return None
    return csr_array((features.values.astype(np.float64), (features.rows, features.columns)), shape=features.shape)
