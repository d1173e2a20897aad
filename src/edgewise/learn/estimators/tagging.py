"""Tagger: a tag for each word."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.params import old_names
from edgewise.learn.estimators.texts import ENCODERS
from edgewise.learn.readers.texts.tags import sentences_from_lists
from edgewise.learn.tasks.tagging.task import TASK, FittedTagger
from edgewise.learn.tasks.vocabulary import unknown_notes
from edgewise.learn.training.spans import tag_scores

Words = Sequence[Sequence[str]]
"""The words of each sentence, or their tags."""


class Tagger(
    Estimator,
    task=TASK,
    fitted_type=FittedTagger,
    models=ENCODERS,
    required={"data": ("the sentences",)},
    own={"model": None, "validation_size": 0.1},
):
    """Predicts the tag of each word, such as its part of speech, or whether a name begins at it.

    Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])
    """

    @old_names
    def fit(self, data: Words, y: Words, *, sample_weight: None = None, validation: Any = None) -> Self:
        """Learns the tags of some sentences.

        Args:
            data: The words of each sentence.
            y: The tag of each word.
            sample_weight: Refused: all words count the same.
            validation: (sentence) True for those that choose the epoch; or (sentences, tags), further ones. By default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A sentence has not as many tags as words; the message names it.
            SettingError: A parameter has a value that it cannot have.
        """
        self._refuse(sample_weight=(sample_weight, "all words count the same"))
        mask = None
        if isinstance(validation, tuple):
            mask = np.arange(len(data) + len(validation[0])) >= len(data)
            data, y = [*data, *validation[0]], [*y, *validation[1]]
        elif validation is not None:
            mask = np.asarray(validation, dtype=bool)
        read, size = sentences_from_lists(data, y), self.validation_size  # type: ignore[attr-defined]
        job = self.settings(data=read.files)
        job = dataclasses.replace(job, split_sizes=(1 - size, size, 0.0))
        rows = None
        if mask is not None:
            if mask.shape != (len(read.words),) or mask.all():
                raise DataError(f"fit: validation is {mask.shape}; expected a mask ({len(read.words)},), not all True.")
            rows = {"train": np.flatnonzero(~mask), "val": np.flatnonzero(mask), "test": np.zeros(0, dtype=np.int64)}
        return self._train(TASK.prepared(job, read, rows))

    @old_names
    def predict(self, data: Words) -> list[list[str]]:
        """The tag of each word of some sentences."""
        trained, read = self.trained, sentences_from_lists(data)
        self._warn("predict", unknown_notes(trained.tokenizer, read.words, "sentence"))
        found: list[list[str]] = trained.tag(read.words, self._device)
        return found

    @old_names
    def score(self, data: Words, y: Words) -> float:
        """The F1 of the spans; where tags mark none, the share of the words whose tag is right."""
        trained, read = self.trained, sentences_from_lists(data, y)
        scores = tag_scores(read.tags, self.predict(read.words), spans=trained.spans)
        return float(scores["f1" if trained.spans else "accuracy"])
