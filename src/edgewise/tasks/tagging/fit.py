"""Learning the tag of each word: the batches, the training, the scores beside those of the most frequent tags."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from edgewise.data.texts.pieces import Piece, pieces_of
from edgewise.data.texts.tags import TaggedSentences, names_of
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError
from edgewise.models.text import TagModel
from edgewise.records import TextBatch
from edgewise.tasks.checkpoint import fit_in, training_metrics
from edgewise.tasks.tagging.job import TaggingJob
from edgewise.tasks.tagging.trained import PIECES_A_BATCH, TrainedTagger, packed
from edgewise.tasks.vocabulary import started
from edgewise.train.folder import RunFolder
from edgewise.train.loader import RowLoader, seed_of
from edgewise.train.spans import UsualTags, tag_scores

PART_NAMES = {"val": "validation", "test": "test"}
"""The parts that are scored, by the names that `metrics.json` gives them."""


@dataclass(frozen=True, eq=False)
class TagBatches:
    """Pieces of sentences, each word's tag at its first token."""

    pieces: list[Piece]
    """Those of all sentences."""
    targets: list[np.ndarray]
    """The number of the tag at each token; −1 where no word begins, or where its tag is unknown to the training."""

    def batch(self, rows: np.ndarray) -> TextBatch:
        """Some pieces, packed."""
        targets = torch.from_numpy(np.concatenate([self.targets[row] for row in rows]))
        return dataclasses.replace(packed([self.pieces[row] for row in rows]), targets=targets)


def batches_of(
    sentences: TaggedSentences, rows: np.ndarray, tags: Sequence[str], tokenizer: Tokenizer, context: int
) -> TagBatches:
    """The pieces of some sentences, with the numbers of their tags."""
    number_of = {tag: number for number, tag in enumerate(tags)}
    pieces: list[Piece] = []
    targets: list[np.ndarray] = []
    for row in rows.tolist():
        for piece in pieces_of(sentences.words[row], tokenizer, context):
            told = np.full(len(piece.numbers), -1, dtype=np.int64)
            told[piece.firsts] = [number_of.get(sentences.tags[row][word], -1) for word in piece.words]
            pieces.append(piece)
            targets.append(told)
    return TagBatches(pieces, targets)


def untrained(sentences: TaggedSentences, rows: np.ndarray, job: TaggingJob) -> TrainedTagger:
    """All that is known before the first step: the vocabulary and the tags of the training sentences, and what a masked
    run has learned.

    Raises:
        DataError: There is no training sentence, or one tag alone.
    """
    if not len(rows):
        raise DataError(f"{', '.join(sentences.files)}: no sentence is left for training.")
    words, marks = ([side[row] for row in rows] for side in (sentences.words, sentences.tags))
    tags = sorted({tag for each in marks for tag in each})
    if len(tags) < 2:
        raise DataError(f"{', '.join(sentences.files)}: the only tag is {tags[0]!r}, expected two or more.")
    texts = (" ".join(each) for each in words)
    tokenizer, weights = started(job.from_run, texts, job.tokens, job.vocabulary_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(job.train.seed))
        model = TagModel(len(tokenizer), tokenizer.unknown, len(tags), job.reader, job.model)
    if weights:
        model.encoder.load_state_dict(weights)
    names = names_of(job.text_columns, job.target_columns)
    return TrainedTagger(tokenizer, model, tuple(tags), UsualTags(words, marks).usual, names, job.train.threads)


def fit_tags(
    trained: TrainedTagger,
    sentences: TaggedSentences,
    parts: dict[str, np.ndarray],
    job: TaggingJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Learns the tags of the training sentences; returns the scores of the others beside those of usual tags."""
    settings, model = job.train, trained.model
    assert settings.batch_size is not None
    train, val = (
        batches_of(sentences, parts[part], trained.tags, trained.tokenizer, job.model.context)
        for part in ("train", "val")
    )
    loaders = (
        RowLoader(np.arange(len(train.pieces)), train.batch, settings.batch_size, settings.seed),
        RowLoader(np.arange(len(val.pieces)), val.batch, PIECES_A_BATCH),
    )
    result = fit_in(folder, model, loaders, settings, resume=resume)
    metrics: dict[str, Any] = {
        "rows": {part: len(rows) for part, rows in parts.items()} | {"rejected": len(sentences.rejected)},
        "tokens": {"vocabulary": len(trained.tokenizer)},
        "tags": list(trained.tags),
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        **training_metrics(model, result.history),
    }
    known = [[side[row] for row in parts["train"]] for side in (sentences.words, sentences.tags)]
    usual = UsualTags(*known)
    compared: dict[str, Any] = {}
    for part, name in PART_NAMES.items():
        if len(parts[part]):
            words, truths = ([side[row] for row in parts[part]] for side in (sentences.words, sentences.tags))
            metrics[name] = tag_scores(truths, trained.tag(words), spans=trained.spans)
            compared[name] = tag_scores(truths, usual.tag(words), spans=trained.spans)
    metrics["baselines"] = {"usual_tags": compared}
    return metrics
