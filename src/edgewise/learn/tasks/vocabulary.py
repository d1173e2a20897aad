"""What a model of texts begins with: a vocabulary, and the weights that a masked run has learned."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from edgewise.choices import TokenKind
from edgewise.errors import plural
from edgewise.explain.numbers import percent
from edgewise.learn.readers.texts.tokenizer import MASK, Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.training.folder import RunFolder

MAX_UNKNOWN = 0.1
"""The share of unknown tokens above which predictions come with a warning."""


def coverage_warning(tokenizer: Tokenizer, texts: Iterable[str]) -> str | None:
    """A warning where the vocabulary lacks many tokens of new texts; None where it has nearly all."""
    return coverage_note(*unknown_tokens(tokenizer, texts))


def unknown_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[int, int]:
    """How many tokens of some texts are out of vocabulary, and how many there are."""
    if tokenizer.unknown is None:
        return 0, 0
    is_unknown = [tokenizer.encode(text).numbers == tokenizer.unknown for text in texts]
    return sum(int(of_text.sum()) for of_text in is_unknown), sum(map(len, is_unknown))


def coverage_note(unknown: int, total: int) -> str | None:
    """A warning where many of some tokens are unknown; None where few are."""
    if unknown <= MAX_UNKNOWN * total:
        return None
    return (
        f"warning: {unknown:,} of {plural(total, 'token')} ({percent(unknown / total)}) are out of "
        "vocabulary and are read as <unk>: are these texts like those of the training?"
    )


def unknown_notes(tokenizer: Tokenizer, rows: Sequence[Sequence[str]], row_noun: str) -> list[str]:
    """Warnings where the vocabulary lacks many tokens of new texts, or all of some.

    Args:
        tokenizer: the vocabulary.
        rows: the texts, or the words, of each row.
        row_noun: what a row is.
    """
    if (warning := coverage_warning(tokenizer, (text for texts in rows for text in texts))) is not None:
        return [warning]
    unknown = [row for row, texts in enumerate(rows) if tokenizer.status_of(texts) != OK]
    if not unknown:
        return []
    reason = "no word that the vocabulary knows: its prediction knows nothing of the text"
    return [
        f"{len(unknown):,} of {plural(len(rows), row_noun)} has {reason}, the first of them {row_noun} {unknown[0]}"
    ]


def cut_note(count: int, limit: str) -> str:
    """How many texts are longer than a model reads, in words; empty where none is."""
    return f"{plural(count, 'text has', 'texts have')} more than {limit} tokens, cut there" if count else ""


def tokenizer_and_weights(
    from_run: str | None, texts: Iterable[str], tokens: TokenKind, vocabulary_size: int, lowercase: bool
) -> tuple[Tokenizer, dict[str, Tensor]]:
    """The vocabulary, and the weights of the encoder; no weights where nothing was learned before.

    Args:
        from_run: The folder of a masked run; None learns a vocabulary from `texts`.
        texts: Those of the training.
        tokens: What they are cut into.
        vocabulary_size: Tokens at most.
        lowercase: Whether texts are lowercased.
    """
    if from_run is None:
        # What word dropout hides needs a token to hide behind; byte pairs know every text and have none.
        special = (MASK,) if tokens == "bpe" else ()
        return Tokenizer.fit(texts, tokens, vocabulary_size, special=special, lowercase=lowercase), {}
    from edgewise.learn.tasks.masked.task import load

    masked = load(RunFolder.finished(from_run))
    return masked.encoder.tokenizer, masked.model.encoder.state_dict()
