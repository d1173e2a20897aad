"""Texts to classes and numbers: what a run over them reads, starts from and is compared with."""

from dataclasses import replace

import numpy as np

from edgewise.data.split import Splits
from edgewise.data.texts.table import TextTable, read_texts
from edgewise.plural import plural
from edgewise.tasks.report.leakage import Sides, text_sides
from edgewise.tasks.table_run import TableRun
from edgewise.tasks.texts.job import TextJob
from edgewise.tasks.texts.trained import TrainedTexts, untrained_texts
from edgewise.tasks.vocabulary import started
from edgewise.train.baseline import Baseline, fit_mean, fit_words

NAMES = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""The kinds of tokens, in the plural."""


class TextRun(TableRun):
    """A run over a table of texts."""

    @staticmethod
    def read(job: TextJob) -> TextTable:
        """The table of a job."""
        return read_texts(job.data, job.columns, strict=job.strict)

    @staticmethod
    def resolved(job: TextJob, table: TextTable, splits: Splits) -> TextJob:
        """The job with nothing left open: what fits the training rows stands where None stood."""
        model, num_columns = job.model, len(table.columns.text_columns)
        if job.text.encoder == "transformer" and num_columns > 1 and job.from_run is None:
            model = replace(model, num_segments=max(num_columns, model.num_segments))
        return replace(job, model=model, train=job.scheduled(len(splits.train)))

    def untrained(self) -> TrainedTexts:
        """All that is known before the first step."""
        return untrained(self.table, self.splits, self.job)

    def baselines(self) -> dict[str, Baseline]:
        """The training mean, and what counts words and pairs of words."""
        table, rows = self.table, self.splits.train
        targets, weights = table.targets[rows], table.weights[rows]
        fitted = {"mean": fit_mean(targets, weights, self.num_classes)}
        return fitted | fit_words(self.features(rows), targets, weights, self.num_classes)

    def features(self, rows: np.ndarray) -> list[str]:
        """The texts of some rows, those of several columns joined."""
        return ["\n".join(texts) for texts in self.table.contents(rows)]

    def sides(self) -> Sides:
        """The texts of each part, the same and nearly so."""
        return text_sides(self.table.row_unit, self.rows_of_parts, self.of_parts(self.features))

    def notes(self) -> list[str]:
        """The vocabulary, and how many texts are longer than the model reads."""
        trained = untrained(self.table, self.splits, self.job)
        source = "the training rows" if self.job.from_run is None else self.job.from_run
        found = [f"a vocabulary of {len(trained.tokenizer):,} {NAMES[trained.tokenizer.kind]} from {source}"]
        if cut := trained.batches(self.table).cut:
            found.append(
                f"{plural(cut, 'text has', 'texts have')} more than --context "
                f"{self.job.model.context} tokens, cut there"
            )
        return found


def untrained(table: TextTable, splits: Splits, job: TextJob) -> TrainedTexts:
    """All that is known before the first step: the vocabulary and the scale of the training rows, and what a masked
    run has learned."""
    rows = splits.train
    known = (text for texts in table.contents(rows) for text in texts)
    tokenizer, weights = started(job.from_run, known, job.tokens, job.vocabulary_size)
    trained = untrained_texts(table, rows, tokenizer, job.text, job.model, job.coverage)
    if weights:
        trained.start, trained.num_tokens = weights, weights["embedding.weight"].shape[0]
    return trained
