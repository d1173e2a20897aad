"""A run over sentences with tags: read them, learn them, score, in a run folder."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from edgewise.data.texts.tags import TaggedSentences, read_tagged
from edgewise.tasks.config import begin
from edgewise.tasks.pretrained import scheduled
from edgewise.tasks.report.leakage import Sides, text_sides
from edgewise.tasks.run import Run
from edgewise.tasks.tagging.fit import fit_tags, untrained
from edgewise.tasks.tagging.job import TaggingJob
from edgewise.tasks.tagging.trained import TrainedTagger
from edgewise.train.folder import RunFolder, json_lines


@dataclass(frozen=True)
class TaggingRun(Run):
    """A run over sentences with tags."""

    job: TaggingJob
    """What is to be done."""
    sentences: TaggedSentences
    """The sentences."""
    trained: TrainedTagger
    """What is known before the first step."""
    parts: dict[str, np.ndarray]
    """The sentences of each part."""

    @property
    def num_unknown(self) -> int:
        """Words of validation and test sentences whose tag no training sentence has."""
        known = set(self.trained.tags)
        rows = [row for part in ("val", "test") for row in self.parts[part]]
        return sum(tag not in known for row in rows for tag in self.sentences.tags[row])

    @classmethod
    def begun(cls, job: TaggingJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its sentences read and its folder begun."""
        sentences = read_tagged(job.data, job.text_columns, job.target_columns, strict=job.strict)
        parts = sentences.split(job.split_sizes, job.data_seed)
        trained = untrained(sentences, parts["train"], job)
        job = replace(job, train=scheduled(job.train, len(parts["train"])))
        rows = {part: found.tolist() for part, found in parts.items()}
        continues = begin(folder, job, resume=resume, rows=rows, rejected=sentences.rejected)
        return cls(folder, continues, job, sentences, trained, parts)

    def learned(self) -> tuple[TrainedTagger, dict[str, Any]]:
        """What has been trained, and its scores; the test sentences are tagged."""
        sentences, trained = self.sentences, self.trained
        metrics = fit_tags(trained, sentences, self.parts, self.job, folder=self.folder, resume=self.resume)
        rows = self.parts["test"].tolist()
        words = [sentences.words[row] for row in rows]
        names = (*trained.names, f"{trained.names[1]}_pred")
        predicted = [
            dict(zip(names, (each, sentences.tags[row], tags), strict=True))
            for row, each, tags in zip(rows, words, trained.tag(words), strict=True)
        ]
        if predicted:
            self.folder.write("test_predictions.jsonl", json_lines(predicted).encode())
        return trained, metrics

    def sides(self) -> Sides:
        """The sentences of each part, the same and nearly so."""
        rows = {part: found.tolist() for part, found in self.parts.items()}
        texts = {part: [" ".join(self.sentences.words[row]) for row in some] for part, some in rows.items()}
        return text_sides("sentences", rows, texts)
