"""A tagger, asked about one word of a sentence: with all others, and without some of them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from edgewise.data.texts.tags import Chunk, chunks_of, word_places
from edgewise.errors import DataError, SettingError
from edgewise.explanation import TargetPrediction
from edgewise.records import TextBatch
from edgewise.tasks.tagging.trained import TrainedTagger
from edgewise.tasks.token_explainable import Kept
from edgewise.train.device import cpu_threads

OUTSIDE = "O"
"""The tag of a word in no span."""


@dataclass(frozen=True, eq=False)
class WrittenSentence:
    """A sentence as it was written, and its words."""

    text: str
    """As it came; the words joined by spaces where they came as a list."""
    words: list[str]
    """One or more."""
    starts: Int64[np.ndarray, " word"]
    """The first character of each in the text."""

    @classmethod
    def of(cls, sentence: str | Sequence[str]) -> Self:
        """A text whose words stand between spaces, or a list of words.

        Raises:
            DataError: there is no word.
        """
        if isinstance(sentence, str):
            places = word_places(sentence)
            text, words, starts = (
                sentence,
                [sentence[start:stop] for start, stop in places],
                [each for each, _ in places],
            )
        else:
            words = list(sentence)
            text, starts = " ".join(words), list(accumulate((len(word) + 1 for word in words[:-1]), initial=0))
        if not "".join(words):
            raise DataError("the sentence has no word.")
        return cls(text, words, np.array(starts, dtype=np.int64))

    def names(self) -> list[str]:
        """What the words are called: their place and themselves."""
        return [f"{place} {word}" for place, word in enumerate(self.words, 1)]

    def in_text(self, places: Int64[np.ndarray, " place"]) -> Int64[np.ndarray, " place"]:
        """Places in the words joined by spaces as places in the text."""
        joined = np.cumsum([0, *(len(word) + 1 for word in self.words[:-1])])
        word = np.searchsorted(joined, places, side="right") - 1
        return self.starts[word] + places - joined[word]


def prediction_words(
    trained: TrainedTagger, sentences: Sequence[WrittenSentence]
) -> list[tuple[TargetPrediction, ...]]:
    """The tag of each word of some sentences; one that is no token has the usual tag, and no probabilities."""
    usual = float(trained.tags.index(trained.usual))
    told = [[TargetPrediction(name, usual, trained.usual) for name in sentence.names()] for sentence in sentences]
    for number, piece, scores in trained.scores([sentence.words for sentence in sentences]):
        for word, shares in zip(piece.words, _softmax(scores), strict=True):
            best = int(shares.argmax())
            share, name = float(shares[best]), told[number][word].name
            probabilities = dict(zip(trained.tags, shares.tolist(), strict=True))
            std = math.sqrt(share * (1 - share))
            told[number][word] = TargetPrediction(
                name, float(best), trained.tags[best], std, probabilities=probabilities
            )
    return [tuple(each) for each in told]


@dataclass(frozen=True, eq=False)
class WordTag:
    """The probability that one word has one tag, out of the piece of its sentence that the model reads with it."""

    trained: TrainedTagger
    """The model."""
    name: str
    """What the word is called."""
    piece: Chunk
    """The words that are read together."""
    head: int
    """The token of the piece at which the tag is told: the first of the word."""
    label: int
    """The place of the tag."""

    @classmethod
    def chosen(
        cls,
        trained: TrainedTagger,
        sentence: WrittenSentence,
        told: Sequence[TargetPrediction],
        target: Any,
        label: Any,
    ) -> Self:
        """The tag that is asked for.

        Args:
            trained: the model.
            sentence: what it is asked about.
            told: what it tells of each word.
            target: the word, by its name, its place or itself where it stands once; by default the first with a tag
                other than that of most words, else the first.
            label: the tag; the told one by default.

        Raises:
            SettingError: there is no such word or tag, or the word is no token.
        """
        word = _word(trained, sentence, told, target)
        if not told[word].probabilities:
            raise SettingError(
                f"explain: {told[word].name!r} is nothing that the model can read, and is told {trained.usual} always; "
                "name another word as target."
            )
        if label is not None and str(label) not in trained.tags:
            raise SettingError(f"explain: label is {str(label)[:60]!r}; the tags are {', '.join(trained.tags)}.")
        number = int(told[word].value) if label is None else trained.tags.index(str(label))
        pieces = chunks_of(sentence.words, trained.tokenizer, trained.model.settings.context)
        piece = next(each for each in pieces if word in each.words)
        head = int(piece.firsts[piece.words == word][0])
        return cls(trained, told[word].name, piece, head, number)

    @property
    def explained(self) -> str:
        """What the number is called."""
        return f"{self.name} = {self.trained.tags[self.label]}"

    @property
    def fixed(self) -> Kept:
        """The tokens that are never removed: the word's own, where the vocabulary has nothing to hide it behind."""
        fixed = np.zeros(len(self.piece.numbers), dtype=bool)
        fixed[self.head] = self.trained.hidden is None
        return fixed

    def of_kept(self, kept: Sequence[Kept]) -> Float64[np.ndarray, " question"]:
        """The probability with what is left of the piece, each time; the token of the word itself is hidden where it
        is not left, as something must stand where the tag is told."""
        numbers, heads, lengths = [], [], [0]
        for left in kept:
            mine = self.piece.numbers.copy()
            if not left[self.head] and self.trained.hidden is not None:
                mine[self.head] = self.trained.hidden
            stays = left.copy()
            stays[self.head] = True
            heads.append(sum(lengths) + int(stays[: self.head].sum()))
            numbers.append(mine[stays])
            lengths.append(len(numbers[-1]))
        batch = TextBatch(torch.from_numpy(np.concatenate(numbers)), offsets=torch.tensor(np.cumsum(lengths)))
        with torch.no_grad(), cpu_threads(self.trained.threads):
            scores = self.trained.model.eval()(batch)[heads]
        return _softmax(scores.numpy())[:, self.label]

    def of_vectors(self, batch: TextBatch, vectors: Float[Tensor, " token model_dim"]) -> Float[Tensor, ""]:
        """The probability out of the vectors of the tokens of the piece; gradients go through."""
        return self.trained.model(batch, vectors=vectors)[self.head].softmax(-1)[self.label]


def _word(trained: TrainedTagger, sentence: WrittenSentence, told: Sequence[TargetPrediction], target: Any) -> int:
    """Which word is meant."""
    if target is None:
        outside = OUTSIDE if trained.spans and OUTSIDE in trained.tags else trained.usual
        readable = [place for place, each in enumerate(told) if each.probabilities]
        return next((place for place in readable if told[place].label != outside), (*readable, 0)[0])
    target, names = str(target), sentence.names()
    if target in names:
        return names.index(target)
    if re.fullmatch(r"[0-9]{1,9}", target) and 1 <= int(target) <= len(names):
        return int(target) - 1
    same = [place for place, word in enumerate(sentence.words) if word == target]
    if len(same) == 1:
        return same[0]
    asked = f"explain: target is {target[:60]!r}"
    if same:
        raise SettingError(f"{asked}, which stands {len(same)} times; say which: {_listed(names, same)}.")
    raise SettingError(f"{asked}; the words are {_listed(names, range(len(names)))}.")


def _listed(names: Sequence[str], places: Sequence[int], most: int = 20) -> str:
    return ", ".join(names[place] for place in places[:most]) + (", …" if len(places) > most else "")


def _softmax(scores: Float[np.ndarray, " word tag"]) -> Float64[np.ndarray, " word tag"]:
    return torch.from_numpy(scores).double().softmax(-1).numpy()
