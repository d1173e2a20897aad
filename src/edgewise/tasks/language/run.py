"""A run over a text: read it, learn it, score it, in a run folder."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.texts.tokenizer import Tokenizer, read_text
from edgewise.tasks.config import begin
from edgewise.tasks.language.fit import fit_tokens, tokens_of
from edgewise.tasks.language.job import LanguageJob
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.tasks.run import Run
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class LanguageRun(Run):
    """A run over a text."""

    job: LanguageJob
    """What is to be done."""
    num_characters: int
    """How long the text is."""
    tokenizer: Tokenizer
    """The vocabulary of its training part."""
    parts: dict[str, np.ndarray]
    """The tokens of its training and validation part."""

    @classmethod
    def begun(cls, job: LanguageJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its text read and its folder begun."""
        text = "".join(read_text(path) for path in job.data)
        tokenizer, parts = tokens_of(text, job)
        return cls(folder, begin(folder, job, resume=resume), job, len(text), tokenizer, parts)

    def learned(self) -> tuple[TrainedLanguage, dict[str, Any]]:
        """What has been trained, and its scores."""
        return fit_tokens(self.tokenizer, self.parts, self.job, folder=self.folder, resume=self.resume)
