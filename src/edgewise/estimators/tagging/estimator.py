"""Tagger: learn the tag of each word, and tell those of new sentences."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.pieces import Piece, pieces_of
from edgewise.data.tags import TaggedSentences, names_of, sentences_from_lists
from edgewise.data.text import Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.estimators.kept import fit_in, training_metrics
from edgewise.estimators.learner import Learner
from edgewise.estimators.reading import scheduled
from edgewise.estimators.start import started
from edgewise.estimators.tagging.explain import explain_sentence
from edgewise.estimators.tagging.job import TaggingJob, tagging_job
from edgewise.estimators.tagging.trained import PIECES_A_BATCH, TrainedTagger, packed
from edgewise.explanation import Explanation
from edgewise.models.tagging import TagModel
from edgewise.records import TextBatch
from edgewise.train.device import pick_device
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


class Tagger(Learner[TrainedTagger]):
    """Tells the tag of each word, such as its part of speech, or whether a name begins at it.

        Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])

    Args:
        settings: any field of TaggingJob, ReaderSettings, TransformerSettings or TrainSettings by its name; `model`,
            the name of a recurrent network or of one of `CONFIGURATIONS`; and validation_size, the part of the
            sentences that is scored instead of learned (default: 0.1).
    """

    kind = TrainedTagger
    fitted_by = "fit(sentences, tags)"
    own_settings = ()

    def fit(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Self:
        """Learns the tags of some sentences.

        Args:
            sentences: the words of each.
            tags: the tag of each word.

        Raises:
            DataError: a sentence has not as many tags as words; the message names it.
            SettingError: a setting is not known, or has a value it cannot have.
        """
        settings = dict(self.settings)
        size = settings.pop("validation_size", 0.1)
        if not 0 <= size < 1:
            raise SettingError(f"validation_size is {size}; expected at least 0 and below 1.")
        read = sentences_from_lists(sentences, tags)
        job = tagging_job({**settings, "data": read.files, "split_sizes": (1 - size, size, 0.0)}, "Tagger")
        parts = read.split(job.split_sizes, job.data_seed)
        job = dataclasses.replace(job, train=scheduled(job.train, max(1, len(parts["train"]))))
        self.trained_ = untrained(read, parts["train"], job)
        self.metrics_ = fit_tags(self.trained_, read, parts, job)
        return self

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of every word of some sentences."""
        read = sentences_from_lists(sentences)
        return self.trained.tag(read.words, pick_device(self.settings.get("device", "auto")))

    def explain(
        self,
        sentence: str | Sequence[str],
        *,
        target: str | int | None = None,
        label: str | None = None,
        top: int | None = None,
    ) -> Explanation:
        """The tags of one sentence, and for one word what its tag depends on; see `explain_sentence`.

        Args:
            sentence: its words, or a text in which they stand between spaces.
            target: the word that is explained: its place counted from 1, or itself where it stands once; by default
                the first with a tag other than that of most words.
            label: the tag whose probability is explained; the told one by default.
            top: how many of the strongest weights of each token are kept.
        """
        return explain_sentence(self.trained, sentence, target=target, label=label, top=top)

    def score(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> float:
        """The F1 of the spans; where tags mark none, the part of the words whose tag is right."""
        trained, read = self.trained, sentences_from_lists(sentences, tags)
        scores = tag_scores(read.tags, self.predict(read.words), spans=trained.spans)
        return scores["f1" if trained.spans else "accuracy"]
