"""How lists of words become sentences with tags: what Tagger is made of."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.estimators.names import pair_of
from edgewise.learn.estimators.numbers import mask_of
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.state import Adapter, Estimator, device_of, refuse, settings_of, train, warn
from edgewise.learn.readers.texts.tags import TaggedSentences, sentences_from_lists
from edgewise.learn.tasks.tagging.task import TASK, prepared, tag
from edgewise.learn.tasks.vocabulary import unknown_notes

Words = Sequence[Sequence[str]]
"""The words of each sentence, or their tags."""

TAGS = Adapter(task=TASK, placeholders={"data": ("the sentences",)})
"""How Tagger uses its task."""


@naming_parameters
def fit(estimator: Estimator, X: Words, y: Words, *, sample_weight: object, validation: object) -> None:
    """Learn the tags of some sentences.

    Raises:
        DataError: A sentence has not as many tags as words; the message names it.
        SettingError: A parameter has a value that it cannot have.
    """
    refuse(estimator, sample_weight=(sample_weight, "all words count the same"))
    mask = None
    if isinstance(validation, tuple):
        added_X, added_y = pair_of(validation)
        _tagged("fit: y", X, y)  # each by itself: one too many there and one too few here would shift all
        _tagged("fit: y of validation", added_X, added_y)
        mask = np.arange(len(X) + len(added_X)) >= len(X)
        X, y = [*X, *added_X], [*y, *added_y]
    elif validation is not None:
        mask = mask_of("validation", validation, len(X))

    sentences, size = _tagged("fit: y", X, y), estimator.validation_size
    job = settings_of(estimator, TAGS, data=sentences.files)
    job = dataclasses.replace(job, split_sizes=(1 - size, size, 0.0))
    rows = None
    if mask is not None:
        if mask.all():
            raise DataError("fit: validation is True for every sentence; expected some False ones, to train on.")
        rows = {"train": np.flatnonzero(~mask), "val": np.flatnonzero(mask), "test": np.zeros(0, dtype=np.int64)}
    train(estimator, TAGS, prepared(job, sentences, rows))


@naming_parameters
def predict(estimator: Estimator, X: Words) -> list[list[str]]:
    """The tag of each word of some sentences."""
    trained, sentences = estimator.trained, sentences_from_lists(X)
    warn(estimator, "predict", unknown_notes(trained.encoder.tokenizer, sentences.words, "sentence"))
    return tag(trained, sentences.words, device_of(estimator))


@naming_parameters
def score(estimator: Estimator, X: Words, y: Words) -> float:
    """The F1 of the spans; where tags mark none, the share of the words whose tag is right."""
    output, sentences = estimator.trained.output, _tagged("score: y", X, y)
    if not sentences.words:
        raise DataError("score: X is empty; expected sentences to compare with.")
    scores = output.metrics(sentences.tags, predict(estimator, sentences.words))
    return float(scores["f1" if output.mark_spans else "accuracy"])


def _tagged(argument: str, X: Words, y: Words | None) -> TaggedSentences:
    """Sentences with their tags; a DataError where there are none."""
    if y is None:
        raise DataError(f"{argument} is None; expected the tags of each sentence.")
    return sentences_from_lists(X, y)
