"""Learning to translate: texts as tokens, their batches, the training, the scores."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from edgewise.data.tables.cell import OK, Rejection
from edgewise.data.texts.pairs import TextPairs
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError, MissingExtraError
from edgewise.plural import plural
from edgewise.progress import counted
from edgewise.records import PairBatch
from edgewise.tasks.checkpoint import fit_in, training_metrics
from edgewise.tasks.translation.job import TranslationJob
from edgewise.tasks.translation.trained import TrainedTranslation, padded, untrained, with_end
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.loader import LengthLoader
from edgewise.train.loss import TokenLoss


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Texts and translations as tokens, and the batches of some of them."""

    sources: list[np.ndarray]
    """Tokens of each text, the end included."""
    targets: list[np.ndarray]
    """Tokens of each translation, the end included."""
    end: int
    """The token that ends a text, and begins it."""

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """What a row takes in a batch: the longer of the two."""
        return np.array([max(len(self.sources[row]), len(self.targets[row])) for row in rows], dtype=np.int64)

    def batch(self, rows: np.ndarray) -> PairBatch:
        """Some rows, padded."""
        source, source_lengths = padded([self.sources[row] for row in rows], self.end)
        written = [self.targets[row] for row in rows]
        tokens, _ = padded([np.concatenate([[self.end], text[:-1]]) for text in written], self.end)
        targets, _ = padded(written, -1)
        return PairBatch(source, source_lengths, tokens, targets)


def tokens_of(
    texts: TextPairs, parts: dict[str, np.ndarray], job: TranslationJob
) -> tuple[Tokenizer, TokenPairs, TextPairs]:
    """The vocabulary of the training rows, all pairs as tokens, and the pairs with those marked that are too long."""
    learned_from = [text for row in parts["train"] for text in (texts.sources[row], texts.targets[row])]
    tokenizer = Tokenizer.learned(learned_from, "bpe", job.vocabulary_size)
    assert tokenizer.end is not None
    sources, targets = (
        [with_end(tokenizer.encode(text).numbers, tokenizer.end) for text in side]
        for side in (texts.sources, texts.targets)
    )
    pairs = TokenPairs(sources, targets, tokenizer.end)
    return tokenizer, pairs, without_long(texts, pairs, job.model.context)


def without_long(texts: TextPairs, pairs: TokenPairs, context: int) -> TextPairs:
    """The same pairs, those marked of which a text has more tokens than the model reads."""
    status, rejected = list(texts.status), list(texts.rejected)
    for row, sides in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        for name, text, numbers in zip(
            ("source", "target"), (texts.sources[row], texts.targets[row]), sides, strict=True
        ):
            if status[row] == OK and len(numbers) > context:
                reason = f"{plural(len(numbers), 'token')}, more than --context {context}"
                status[row] = f"{name}: {reason}"
                place = int(texts.file_of_row[row])
                rejected.append(Rejection(texts.files[place], int(texts.lines[row]), name, text, reason))
    return dataclasses.replace(texts, status=status, rejected=rejected)


def fit_pairs(
    tokenizer: Tokenizer,
    pairs: TokenPairs,
    parts: dict[str, np.ndarray],
    job: TranslationJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> tuple[TrainedTranslation, dict[str, Any]]:
    """Learns to translate the training rows, and chooses the epoch by the validation rows."""
    settings = job.train
    assert settings.batch_size is not None
    model = untrained(len(tokenizer), job.model, settings.seed)

    def loader(rows: np.ndarray, seed: int | None) -> LengthLoader:
        assert settings.batch_size is not None
        return LengthLoader(pairs.lengths(rows), lambda places: pairs.batch(rows[places]), settings.batch_size, seed)

    loaders = loader(parts["train"], settings.seed), loader(parts["val"], None) if len(parts["val"]) else None
    loss = TokenLoss(job.label_smoothing)
    result = fit_in(folder, model, loaders, settings, loss=loss, resume=resume)
    trained = TrainedTranslation(tokenizer, model, threads=settings.threads, beam=job.beam)
    metrics: dict[str, Any] = {
        "rows": {part: len(rows) for part, rows in parts.items()},
        "tokens": {"vocabulary": len(tokenizer)},
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        **training_metrics(model, result.history),
    }
    return trained, metrics


def token_loss(trained: TrainedTranslation, pairs: TokenPairs, rows: np.ndarray) -> float:
    """The mean of −ln p over the tokens of the translations."""
    loss, total, count = TokenLoss(), 0.0, 0
    with torch.no_grad(), cpu_threads(trained.threads):
        loader = LengthLoader(pairs.lengths(rows), lambda places: pairs.batch(rows[places]), 4096)
        for batch in counted(loader, "scoring"):
            sums = loss(trained.model(batch), batch.targets)
            total, count = total + float(sums[0]), count + int(sums[1])
    return total / max(count, 1)


def bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """sacreBLEU's corpus score of translations, cased, by its tokenizer 13a (Post 2018)."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    score = sacrebleu.corpus_bleu(list(written), [list(right)]).score
    if not math.isfinite(score):
        raise DataError("the translations cannot be scored: there is no text.")
    return round(score, 2)
