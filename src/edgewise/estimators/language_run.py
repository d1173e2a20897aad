"""A run over a text: read it, learn it, score it, in a run folder."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.data.text import Tokenizer, read_text
from edgewise.estimators.config import begin
from edgewise.estimators.language import fit_tokens, tokens_of
from edgewise.estimators.language_job import LanguageJob
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.log import check_logger


@dataclass(frozen=True)
class PreparedText:
    """A run whose text has been read and whose folder has been begun."""

    job: LanguageJob
    """What is to be done."""
    folder: RunFolder
    """Where it is kept."""
    num_characters: int
    """How long the text is."""
    tokenizer: Tokenizer
    """The vocabulary of its training part."""
    parts: dict[str, np.ndarray]
    """The tokens of its training and validation part."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""


def prepare_text(job: LanguageJob, folder: RunFolder, *, overwrite: bool = False, resume: bool = False) -> PreparedText:
    """Reads the text and begins the folder: nothing is written before the text is known to be good.

    Raises:
        RunFolderError: The folder is taken, or holds a run with other settings or another text.
        DataError: The text cannot be used.
    """
    folder.check(overwrite=overwrite, resume=resume)
    check_logger(job.train.logger)
    text = "".join(read_text(path) for path in job.data)
    tokenizer, parts = tokens_of(text, job)
    continues = begin(folder, job, resume=resume)
    return PreparedText(job, folder, len(text), tokenizer, parts, continues)


def finish_text(run: PreparedText, report: Report | None = None) -> dict[str, Any]:
    """Trains, scores and writes; returns what stands in `metrics.json`."""
    began = time.perf_counter()
    trained, metrics = fit_tokens(
        run.tokenizer, run.parts, run.job, folder=run.folder, resume=run.resume, report=report
    )
    metrics["seconds"] = round(time.perf_counter() - began, 2)
    trained.save(run.folder)
    run.folder.write_json("metrics.json", metrics)
    return metrics
