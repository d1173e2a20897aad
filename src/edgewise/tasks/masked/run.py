"""A run over texts with hidden tokens: read them, learn to tell what is hidden, score, in a run folder."""

from dataclasses import dataclass
from typing import Any, Self

from edgewise.data.texts.corpus import Corpus, read_corpus
from edgewise.data.texts.tokenizer import MASK, Tokenizer
from edgewise.errors import DataError
from edgewise.plural import plural
from edgewise.tasks.config import begin
from edgewise.tasks.masked.job import MaskedJob
from edgewise.tasks.masked.trained import TrainedMasked, fit_pieces, masking_of
from edgewise.tasks.report.leakage import Sides, text_sides
from edgewise.tasks.run import Run
from edgewise.train.folder import RunFolder
from edgewise.train.masks import Pieces


@dataclass(frozen=True)
class MaskedRun(Run):
    """A run over texts with hidden tokens."""

    job: MaskedJob
    """What is to be done."""
    texts: Corpus
    """The texts."""
    tokenizer: Tokenizer
    """The vocabulary of those of the training rows."""
    parts: dict[str, Pieces]
    """The tokens of the training and of the validation texts."""

    @classmethod
    def begun(cls, job: MaskedJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its texts read and its folder begun."""
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
                f"{', '.join(job.data)}: the "
                f"{plural(len(words['train']), 'training text has', 'training texts have')} no token that could be "
                "hidden; give more texts, or a larger --vocabulary-size."
            )
        listed = {part: found.tolist() for part, found in rows.items()}
        continues = begin(folder, job, resume=resume, rows=listed, rejected=texts.rejected)
        return cls(folder, continues, job, texts, tokenizer, parts)

    def learned(self) -> tuple[TrainedMasked, dict[str, Any]]:
        """What has been trained, and its scores."""
        trained, metrics = fit_pieces(self.tokenizer, self.parts, self.job, folder=self.folder, resume=self.resume)
        metrics["rejected"] = len(self.texts.rejected)
        return trained, metrics

    def sides(self) -> Sides:
        """The rows of each part, their texts the same and nearly so."""
        held: dict[int, list[str]] = {}
        for row, text in zip(self.texts.row_of_text.tolist(), self.texts.texts, strict=True):
            held.setdefault(row, []).append(text)
        parts = self.texts.split(self.job.split_sizes, self.job.data_seed)
        rows = {part: found.tolist() for part, found in parts.items()}
        return text_sides("texts", rows, {part: ["\n".join(held[row]) for row in some] for part, some in rows.items()})
