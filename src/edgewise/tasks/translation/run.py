"""A run over pairs of texts: read them, learn to translate, score, in a run folder."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.tables.cell import OK
from edgewise.data.texts.pairs import TextPairs, read_pairs
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError
from edgewise.tasks.config import begin
from edgewise.tasks.report.leakage import Sides, text_sides
from edgewise.tasks.run import Run
from edgewise.tasks.translation.fit import (
    TokenPairs,
    bleu,
    fit_pairs,
    token_loss,
    tokens_of,
)
from edgewise.tasks.translation.job import TranslationJob
from edgewise.tasks.translation.trained import TrainedTranslation
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class TranslationRun(Run):
    """A run over texts and their translations."""

    job: TranslationJob
    """What is to be done."""
    texts: TextPairs
    """The pairs."""
    tokenizer: Tokenizer
    """The vocabulary of the training rows, of both languages together."""
    pairs: TokenPairs
    """The pairs as tokens."""
    parts: dict[str, np.ndarray]
    """The rows of each part."""

    @classmethod
    def begun(cls, job: TranslationJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its pairs read and its folder begun."""
        texts = read_pairs(job.data, job.text_columns, job.target_columns)
        parts = texts.split(job.split_sizes, job.data_seed)
        tokenizer, pairs, texts = tokens_of(texts, parts, job)
        parts = {part: rows[[texts.status[row] == OK for row in rows]] for part, rows in parts.items()}
        if not len(parts["train"]):
            raise DataError(f"{', '.join(texts.files)}: no pair is left for training.")
        rows = {part: found.tolist() for part, found in parts.items()}
        continues = begin(folder, job, resume=resume, rows=rows, rejected=texts.rejected)
        return cls(folder, continues, job, texts, tokenizer, pairs, parts)

    def learned(self) -> tuple[TrainedTranslation, dict[str, Any]]:
        """What has been trained, and its scores; the test rows are translated."""
        job, texts, rows = self.job, self.texts, self.parts["test"]
        trained, metrics = fit_pairs(
            self.tokenizer, self.pairs, self.parts, job, folder=self.folder, resume=self.resume
        )
        trained.names = (job.text_columns[0], job.target_columns[0]) if job.text_columns else ("source", "target")
        metrics["rows"]["rejected"] = len(texts.rejected)
        if len(self.parts["val"]):
            metrics["validation"] = {"loss": token_loss(trained, self.pairs, self.parts["val"])}
        if len(rows):
            sources, right = ([side[row] for row in rows] for side in (texts.sources, texts.targets))
            written = [text or "" for text in trained.translate(sources)]
            metrics["test"] = {"bleu": bleu(written, right), "loss": token_loss(trained, self.pairs, rows)}
            metrics["baselines"] = {"copy": {"test": {"bleu": bleu(sources, right)}}}
            header = ["row_in_data", *trained.names, f"{trained.names[1]}_pred"]
            cells = zip(rows.tolist(), sources, right, written, strict=True)
            self.folder.write_table("test_predictions.csv", header, cells)
        return trained, metrics

    def sides(self) -> Sides:
        """The texts of each part that are translated, the same and nearly so."""
        rows = {part: found.tolist() for part, found in self.parts.items()}
        texts = {part: [self.texts.sources[row] for row in some] for part, some in rows.items()}
        return text_sides("texts", rows, texts)
