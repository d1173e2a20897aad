"""A model that translates, asked how likely a translation is, or a token of it: of a sentence, or of parts of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural
from edgewise.records import PairBatch
from edgewise.tasks.texts.tokens import RowTokens
from edgewise.tasks.translation.trained import TrainedTranslation, padded
from edgewise.train.device import cpu_threads

BATCH_SIZE = 2**15
"""Tokens that are computed together, about."""
MAX_SCORES = 2**24
"""Scores that are computed at a time, about: one for each token written and each of the vocabulary."""


@dataclass(frozen=True, eq=False)
class Translated:
    """A sentence, and the translation that the model gives, both as tokens."""

    source: RowTokens
    """The tokens that are read, the end included."""
    text: str
    """The translation, as `TrainedTranslation.translate` gives it."""
    numbers: Int64[np.ndarray, " token"]
    """The tokens that are written, the end included where it was reached."""
    starts: Int64[np.ndarray, " token"]
    """The first character of each in the text."""
    stops: Int64[np.ndarray, " token"]
    """One past the last; of the end, its start."""
    is_cut: bool
    """Whether the translation stopped at the greatest length, before its end."""

    def __len__(self) -> int:
        return len(self.numbers)

    def names(self, tokenizer: Tokenizer) -> list[str]:
        """What each token that is written is called: how it stands in the text, the end by its name."""
        written = [self.text[start:stop] for start, stop in zip(self.starts, self.stops, strict=True)]
        return [name or str(tokenizer.inner.id_to_token(int(each))) for name, each in zip(written, self.numbers)]

    @classmethod
    def of(cls, trained: TrainedTranslation, texts: Sequence[str]) -> list[Self]:
        """The translations of some sentences.

        Raises:
            DataError: a sentence is empty, or longer than the model reads.
        """
        for row, text in enumerate(texts):
            where = f"row {row}: " if len(texts) > 1 else ""
            if not text.strip():
                raise DataError(f"{where}{trained.names[0]}: the text is empty.")
            if excess := too_long(trained, text):
                raise DataError(f"{where}{trained.names[0]}: the text is too long: {excess}; translate it in parts.")
        found: list[Self] = []
        for text, numbers in zip(texts, trained.write(texts), strict=True):
            if numbers is None:
                raise DataError(f"{trained.names[0]}: {text[:60]!r} has no token that the model reads.")
            # The search goes no further than max_length tokens, the end among them.
            is_cut = len(numbers) >= trained.beam.max_length
            written, starts, stops = spans(trained.tokenizer, numbers)
            ending = [] if is_cut else [len(written)]
            found.append(
                cls(
                    RowTokens.of(trained.tokenizer, [text], trained.model.settings.context),
                    written,
                    np.array([*numbers, *([] if is_cut else [trained.end])], dtype=np.int64),
                    np.array([*starts, *ending], dtype=np.int64),
                    np.array([*stops, *ending], dtype=np.int64),
                    is_cut,
                )
            )
        return found


def too_long(trained: TrainedTranslation, text: str) -> str:
    """How much longer than the model reads a text is, in words; empty where it is not."""
    count, most = len(trained.tokenizer.encode(text).numbers), trained.model.settings.context - 1
    return f"{plural(count, 'token')}, of which the model reads {most:,}" if count > most else ""


def spans(tokenizer: Tokenizer, numbers: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The text of some tokens, and the first character of each and one past the last.

    Tokens are bytes: where several make one character, each of them stands for all of it.
    """
    text, whole = tokenizer.decode(numbers), 0
    starts: list[int] = []
    stops: list[int] = []
    for count in range(1, len(numbers) + 1):
        so_far = tokenizer.decode(numbers[:count])
        starts.append(whole)
        stops.append(min(len(so_far), len(text)))
        # Cut within a character, the two parts are no text that is the whole again: its last sign is yet to come.
        is_whole = so_far + tokenizer.decode(numbers[count:]) == text
        whole = min(len(so_far) if is_whole else len(so_far) - 1, len(text))
    return text, starts, stops


def log_probabilities(
    trained: TrainedTranslation, sources: Sequence[np.ndarray], written: Sequence[np.ndarray]
) -> list[Float64[np.ndarray, " token"]]:
    """ln p of every token of some translations, each given its source and the tokens before it.

        ln p(y_t | y_<t, x)

    Args:
        trained: the model.
        sources: the tokens of each x, its end included.
        written: the tokens of each y.
    """
    found: list[np.ndarray] = []
    with torch.no_grad(), cpu_threads(trained.threads):
        for rows in _batches(trained, sources, written):
            source, lengths = padded([sources[row] for row in rows], trained.end)
            tokens, _ = padded([decoder_input(written[row], trained.end) for row in rows], trained.end)
            targets, _ = padded([written[row] for row in rows], trained.end)
            told = of_scores(trained.model(PairBatch(source, lengths, tokens)), targets).double().numpy()
            found += [each[: len(written[row])] for row, each in zip(rows, told, strict=True)]
    return found


def of_scores(
    scores: Float[Tensor, " *batch token num_tokens"], targets: Int64[Tensor, " *batch token"]
) -> Float[Tensor, " *batch token"]:
    """ln p of each target, out of the scores of all tokens; gradients go through."""
    return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)


def decoder_input(numbers: np.ndarray, end: int) -> np.ndarray:
    """What is read while some tokens are written: the beginning, and all but the last."""
    return np.concatenate([[end], numbers[:-1]]).astype(np.int64)


def _batches(
    trained: TrainedTranslation, sources: Sequence[np.ndarray], written: Sequence[np.ndarray]
) -> Iterator[range]:
    """Rows that are computed together, in order."""
    first, longest, longest_written = 0, 0, 0
    for row, sides in enumerate(zip(sources, written, strict=True)):
        longest, longest_written = max(longest, len(sides[0])), max(longest_written, len(sides[1]))
        count = row + 1 - first
        tokens, scores = (longest + longest_written) * count, longest_written * count * len(trained.tokenizer)
        if row > first and (tokens > BATCH_SIZE or scores > MAX_SCORES):
            yield range(first, row)
            first, longest, longest_written = row, len(sides[0]), len(sides[1])
    if first < len(sources):
        yield range(first, len(sources))


def place_of(target: str | int | None, names: Sequence[str], whole: str) -> int | None:
    """Which token of a translation is meant; None for all of it.

    Args:
        target: the whole by its name, or None; a place counted from 0, also in words; or a token that stands once.
        names: what the tokens are called.
        whole: what the translation is called.

    Raises:
        SettingError: there is no such token or place, or the token stands there more than once.
    """
    if target is None or target == whole:
        return None
    known = ", ".join(f"{place} {name.strip()!r}" for place, name in enumerate(names[:40]))
    known += ", …" if len(names) > 40 else ""
    word = str(target).strip()
    if word.isdecimal() and len(word) < 10:
        if int(word) >= len(names):
            raise SettingError(f"explain: target is {word}; the tokens of the translation are {known}.")
        return int(word)
    places = [place for place, name in enumerate(names) if name.strip() == word]
    if len(places) == 1:
        return places[0]
    if places:
        these = ", ".join(map(str, places))
        raise SettingError(f"explain: target is {word!r}, which stands there at {these}; name one of these places.")
    raise SettingError(f"explain: target is {word!r}; expected {whole}, or of its tokens one of {known}.")
