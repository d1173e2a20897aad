"""A row of texts without some of its tokens; and its sentences, which are taken away together."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool

from edgewise.explain.occlusion import occlude
from edgewise.explanation import Part
from edgewise.plural import plural
from edgewise.records import TextRows
from edgewise.tasks.texts.tokens import RowTokens
from edgewise.tasks.token_perturbation import TokenQuestions, shortened

SENTENCE = re.compile(r"(\S.*?)(?:(?<=[.!?…])(?=\s)|\n|$)", re.DOTALL)
"""Up to a sign that ends a sentence and a space, or to the end of the line."""


def text_rows(row: RowTokens, kept: Sequence[Bool[np.ndarray, " token"]], nothing: int) -> TextRows:
    """A batch of one row several times, with some of its tokens each; `nothing` where none is left."""
    tokens, columns = [], []
    for stays in kept:
        tokens.append(row.numbers[stays] if stays.any() else np.array([nothing]))
        columns.append(row.columns[stays] if stays.any() else np.zeros(1, dtype=np.int64))
    offsets = np.cumsum([0, *(len(each) for each in tokens)])
    return TextRows(*(torch.from_numpy(each) for each in (np.concatenate(tokens), offsets, np.concatenate(columns))))


def whole(row: RowTokens) -> TextRows:
    """A batch of one row as it is."""
    return text_rows(row, [np.ones(len(row), dtype=bool)], 0)


def sentences(texts: Sequence[str], names: Sequence[str], row: RowTokens) -> Iterator[Part]:
    """The sentences of each text that have tokens, their effects still to be found."""
    is_text = ~row.is_special
    for place, text in enumerate(texts):
        own = is_text & (row.columns == place)
        for found in SENTENCE.finditer(text):
            begin, end = found.span(1)
            units = np.flatnonzero(own & (row.starts >= begin) & (row.starts < end))
            if len(units):
                yield Part(shortened(found[1].strip()), "sentence", tuple(units.tolist()), 0.0)


def sentence_parts(
    questions: TokenQuestions, texts: Sequence[str], names: Sequence[str], row: RowTokens
) -> tuple[list[Part], str]:
    """The sentences where there are several, their effects still to be found; and what was left out, in words."""
    found, note = list(sentences(texts, names, row)), ""
    if len(found) > questions.most_parts:
        longest = sorted(range(len(found)), key=lambda place: -len(found[place].units))[: questions.most_parts]
        note = f"Of {plural(len(found), 'sentence')} the {len(longest)} longest were taken away."
        found = [found[place] for place in sorted(longest)]
    return found if len(found) > 1 else [], note


def with_effects(questions: TokenQuestions, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts with what is lost without each."""
    effects = occlude(questions, len(questions.stays), [part.units for part in parts])
    return tuple(replace(part, effect=float(effect)) for part, effect in zip(parts, effects, strict=True))
