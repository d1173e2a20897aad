"""A run over sentences with tags: read them, learn them, score, in a run folder."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgewise.data.tags import TaggedSentences, read_tagged
from edgewise.estimators.config import begin
from edgewise.estimators.reading import scheduled
from edgewise.estimators.tagging import TrainedTagger, fit_tags, untrained
from edgewise.estimators.tagging_job import TaggingJob
from edgewise.train.folder import RunFolder, json_lines, write_bytes
from edgewise.train.keeper import Report
from edgewise.train.log import check_logger


@dataclass(frozen=True)
class PreparedTags:
    """A run whose sentences have been read and whose folder has been begun."""

    job: TaggingJob
    """What is to be done."""
    folder: RunFolder
    """Where it is kept."""
    sentences: TaggedSentences
    """The sentences."""
    trained: TrainedTagger
    """What is known before the first step."""
    parts: dict[str, np.ndarray]
    """The sentences of each part."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""

    @property
    def num_unknown(self) -> int:
        """Words of validation and test sentences whose tag no training sentence has."""
        known = set(self.trained.tags)
        rows = [row for part in ("val", "test") for row in self.parts[part]]
        return sum(tag not in known for row in rows for tag in self.sentences.tags[row])


def prepare_tags(job: TaggingJob, folder: RunFolder, *, overwrite: bool = False, resume: bool = False) -> PreparedTags:
    """Reads the sentences and begins the folder: nothing is written before they are known to be good.

    Raises:
        RunFolderError: The folder is taken, or holds a run with other settings or other sentences.
        DataError: The files cannot be used.
    """
    folder.check(overwrite=overwrite, resume=resume)
    check_logger(job.train.logger)
    sentences = read_tagged(job.data, job.text_columns, job.target_columns, strict=job.strict)
    parts = sentences.split(job.split_sizes, job.data_seed)
    trained = untrained(sentences, parts["train"], job)
    job = replace(job, train=scheduled(job.train, len(parts["train"])))
    rows = {part: found.tolist() for part, found in parts.items()}
    continues = begin(folder, job, resume=resume, rows=rows, rejected=sentences.rejected)
    return PreparedTags(job, folder, sentences, trained, parts, continues)


def finish_tags(run: PreparedTags, report: Report | None = None) -> dict[str, Any]:
    """Trains, tags the test sentences, scores and writes; returns what stands in `metrics.json`."""
    began = time.perf_counter()
    sentences, trained, folder = run.sentences, run.trained, run.folder
    metrics = fit_tags(trained, sentences, run.parts, run.job, folder=folder, resume=run.resume, report=report)
    rows = run.parts["test"].tolist()
    words = [sentences.words[row] for row in rows]
    names = (*trained.names, f"{trained.names[1]}_pred")
    predicted = [
        dict(zip(names, (each, sentences.tags[row], tags), strict=True))
        for row, each, tags in zip(rows, words, trained.tag(words), strict=True)
    ]
    if predicted:
        write_bytes(folder.path / "test_predictions.jsonl", json_lines(predicted).encode())
    metrics["seconds"] = round(time.perf_counter() - began, 2)
    trained.save(folder)
    folder.write_json("metrics.json", metrics)
    return metrics
