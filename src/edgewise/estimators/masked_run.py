"""A run over texts with hidden tokens: read them, learn to tell what is hidden, score, in a run folder."""

import time
from dataclasses import dataclass
from typing import Any

from edgewise.data.corpus import Corpus, read_corpus
from edgewise.data.text import MASK, Tokenizer
from edgewise.errors import DataError
from edgewise.estimators.config import begin
from edgewise.estimators.masked import fit_pieces, masking_of
from edgewise.estimators.masked_job import MaskedJob
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.log import check_logger
from edgewise.train.masks import Pieces


@dataclass(frozen=True)
class PreparedMasked:
    """A run whose texts have been read and whose folder has been begun."""

    job: MaskedJob
    """What is to be done."""
    folder: RunFolder
    """Where it is kept."""
    texts: Corpus
    """The texts."""
    tokenizer: Tokenizer
    """The vocabulary of those of the training rows."""
    parts: dict[str, Pieces]
    """The tokens of the training and of the validation texts."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""


def prepare_masked(
    job: MaskedJob, folder: RunFolder, *, overwrite: bool = False, resume: bool = False
) -> PreparedMasked:
    """Reads the texts and begins the folder: nothing is written before they are known to be good.

    Raises:
        RunFolderError: The folder is taken, or holds a run with other settings or other texts.
        DataError: The files cannot be used.
    """
    folder.check(overwrite=overwrite, resume=resume)
    check_logger(job.train.logger)
    texts = read_corpus(job.data, job.text_columns)
    rows = texts.split(job.split_sizes, job.data_seed)
    words = {part: texts.of_rows(found) for part, found in rows.items()}
    tokenizer = Tokenizer.learned(words["train"], job.tokens, job.vocabulary_size, special=(MASK,))
    parts = {
        part: Pieces.of([tokenizer.encode(text).numbers for text in found], job.model.context)
        for part, found in words.items()
    }
    if not len(masking_of(tokenizer, job).able(parts["train"].numbers)):
        raise DataError(
            f"{', '.join(job.data)}: the {len(words['train']):,} training texts have no token that could be hidden; "
            "give more texts, or a larger --vocabulary-size."
        )
    listed = {part: found.tolist() for part, found in rows.items()}
    continues = begin(folder, job, resume=resume, rows=listed, rejected=texts.rejected)
    return PreparedMasked(job, folder, texts, tokenizer, parts, continues)


def finish_masked(run: PreparedMasked, report: Report | None = None) -> dict[str, Any]:
    """Trains, scores and writes; returns what stands in `metrics.json`."""
    began = time.perf_counter()
    trained, metrics = fit_pieces(
        run.tokenizer, run.parts, run.job, folder=run.folder, resume=run.resume, report=report
    )
    metrics["rejected"] = len(run.texts.rejected)
    metrics["seconds"] = round(time.perf_counter() - began, 2)
    trained.save(run.folder)
    run.folder.write_json("metrics.json", metrics)
    return metrics
