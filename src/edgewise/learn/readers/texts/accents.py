"""A letter and its accent: one character in NFC, two in NFD, and one for vocabularies that compose them."""

import unicodedata

import numpy as np
from jaxtyping import Int64

from edgewise.errors import MissingExtraError

try:
    import tokenizers
    from tokenizers import normalizers
except ImportError as error:
    raise MissingExtraError("tokenizers", "text") from error


def composing(lowercase: bool) -> normalizers.Normalizer:
    """The normalizer that joins a letter and its accent, which are one character in NFC and two in NFD."""
    return normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]) if lowercase else normalizers.NFC()


def without_composing(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """A tokenizer for texts that are in NFC already, which composing again would take a fifth of the time."""
    forms = {composing(lowercase).__getstate__(): lowercase for lowercase in (False, True)}
    normalizer = inner.normalizer
    if normalizer is None or (state := normalizer.__getstate__()) not in forms:
        return inner
    plain = tokenizers.Tokenizer(inner.model)
    if forms[state]:
        plain.normalizer = normalizers.Lowercase()
    plain.pre_tokenizer = inner.pre_tokenizer
    plain.add_special_tokens([*inner.get_added_tokens_decoder().values()])
    return plain


def with_accents(text: str, offsets: Int64[np.ndarray, " token two"]) -> Int64[np.ndarray, " token"]:
    """Where tokens stop, with the accents that were joined to their last letter: the library leaves them out.

    Args:
        text: what the tokens are of.
        offsets: first character and one past the last of each token, as the library gives them.
    """
    stops = offsets[:, 1].copy()
    for token, next_start in enumerate([*offsets[1:, 0].tolist(), len(text)]):
        while stops[token] < next_start and not text[stops[token]].isspace():
            stops[token] += 1
    return stops


def is_joined(pair: str) -> bool:
    """Whether the second of two characters is an accent of the first, or both become one in NFC."""
    first, second = (unicodedata.normalize("NFC", character) for character in pair)
    return unicodedata.combining(pair[1]) > 0 or unicodedata.normalize("NFC", pair) != first + second
