"""A run over pairs of texts: read them, learn to translate, score, in a run folder."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.data.cell import OK
from edgewise.data.pairs import TextPairs, read_pairs
from edgewise.data.text import Tokenizer
from edgewise.errors import DataError
from edgewise.estimators.config import begin
from edgewise.estimators.translation import TokenPairs, bleu, fit_pairs, token_loss, tokens_of
from edgewise.estimators.translation_job import TranslationJob
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.log import check_logger


@dataclass(frozen=True)
class PreparedPairs:
    """A run whose texts have been read and whose folder has been begun."""

    job: TranslationJob
    """What is to be done."""
    folder: RunFolder
    """Where it is kept."""
    texts: TextPairs
    """The pairs."""
    tokenizer: Tokenizer
    """The vocabulary of the training rows, of both languages together."""
    pairs: TokenPairs
    """The pairs as tokens."""
    parts: dict[str, np.ndarray]
    """The rows of each part."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""


def prepare_pairs(
    job: TranslationJob, folder: RunFolder, *, overwrite: bool = False, resume: bool = False
) -> PreparedPairs:
    """Reads the pairs and begins the folder: nothing is written before they are known to be good.

    Raises:
        RunFolderError: The folder is taken, or holds a run with other settings or other texts.
        DataError: The files cannot be used.
    """
    folder.check(overwrite=overwrite, resume=resume)
    check_logger(job.train.logger)
    texts = read_pairs(job.data, job.text_columns, job.target_columns)
    parts = texts.split(job.split_sizes, job.data_seed)
    tokenizer, pairs, texts = tokens_of(texts, parts, job)
    parts = {part: rows[[texts.status[row] == OK for row in rows]] for part, rows in parts.items()}
    if not len(parts["train"]):
        raise DataError(f"{', '.join(texts.files)}: no pair is left for training.")
    rows = {part: found.tolist() for part, found in parts.items()}
    continues = begin(folder, job, resume=resume, rows=rows, rejected=texts.rejected)
    return PreparedPairs(job, folder, texts, tokenizer, pairs, parts, continues)


def finish_pairs(run: PreparedPairs, report: Report | None = None) -> dict[str, Any]:
    """Trains, translates the test rows, scores and writes; returns what stands in `metrics.json`."""
    job, folder, texts = run.job, run.folder, run.texts
    began = time.perf_counter()
    trained, metrics = fit_pairs(
        run.tokenizer, run.pairs, run.parts, job, folder=folder, resume=run.resume, report=report
    )
    trained.names = (job.text_columns[0], job.target_columns[0]) if job.text_columns else ("source", "target")
    metrics["rows"]["rejected"] = len(texts.rejected)
    rows = run.parts["test"]
    if len(run.parts["val"]):
        metrics["validation"] = {"loss": token_loss(trained, run.pairs, run.parts["val"])}
    if len(rows):
        sources, right = ([side[row] for row in rows] for side in (texts.sources, texts.targets))
        written = [text or "" for text in trained.translate(sources)]
        metrics["test"] = {"bleu": bleu(written, right), "loss": token_loss(trained, run.pairs, rows)}
        metrics["baselines"] = {"copy": {"test": {"bleu": bleu(sources, right)}}}
        header = ["row_in_data", *trained.names, f"{trained.names[1]}_pred"]
        folder.write_table("test_predictions.csv", header, zip(rows.tolist(), sources, right, written, strict=True))
    metrics["seconds"] = round(time.perf_counter() - began, 2)
    trained.save(folder)
    folder.write_json("metrics.json", metrics)
    return metrics
