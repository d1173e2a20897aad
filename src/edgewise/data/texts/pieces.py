"""Sentences as tokens: which token stands for each word, and pieces that a model reads at once."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from edgewise.data.texts.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Piece:
    """Some words of a sentence that follow each other, as tokens."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    firsts: Int64[np.ndarray, " word"]
    """The first token of each word, counted in the piece."""
    words: Int64[np.ndarray, " word"]
    """The places of the words in the sentence; one without a token stands in no piece."""
    starts: Int64[np.ndarray, " token"]
    """The first character of each token in the words joined by spaces."""
    stops: Int64[np.ndarray, " token"]
    """One past the last."""


def pieces_of(words: Sequence[str], tokenizer: Tokenizer, context: int) -> list[Piece]:
    """A sentence in pieces of at most `context` tokens, cut before words.

    The words are joined by spaces and encoded together; the first token that overlaps a word stands for it. Of a word
    that is longer than `context` the model reads that many tokens.
    """
    tokens = tokenizer.encode(" ".join(words))
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    stops = np.cumsum(lengths + 1) - 1
    starts = stops - lengths
    # The first token that ends behind the beginning of a word overlaps it, unless it begins behind its end.
    firsts = np.searchsorted(tokens.stops, starts, side="right")
    has_token = firsts < len(tokens.numbers)
    has_token[has_token] = tokens.starts[firsts[has_token]] < stops[has_token]
    places = np.flatnonzero(has_token)
    firsts = firsts[places]
    found = []
    for begin, stop in _cuts(np.unique(firsts), len(tokens.numbers), context):
        inside = (firsts >= begin) & (firsts < stop)
        sides = [side[begin:stop] for side in (tokens.numbers, tokens.starts, tokens.stops)]
        found.append(Piece(sides[0], firsts[inside] - begin, places[inside], *sides[1:]))
    return found


def _cuts(heads: Int64[np.ndarray, " head"], num_tokens: int, context: int) -> Iterator[tuple[int, int]]:
    """Where pieces begin and stop: of about the same length, so that no word is left alone in the last.

    Args:
        heads: where words begin, ascending.
        num_tokens: of the sentence.
        context: tokens of a piece, at most.
    """
    begin = 0
    while begin < num_tokens:
        rest = num_tokens - begin
        if rest <= context:
            yield begin, num_tokens
            return
        wanted = begin + math.ceil(rest / math.ceil(rest / context))
        later = heads[heads > begin]
        able = later[later <= begin + context]
        if len(able):
            enough = able[able >= wanted]
            stop = int(enough[0] if len(enough) else able[-1])
            yield begin, stop
            begin = stop
        else:
            # One word is longer than the context: what follows of it is passed over.
            yield begin, begin + context
            begin = int(later[0]) if len(later) else num_tokens
