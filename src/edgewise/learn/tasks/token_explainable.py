"""Explanations of texts, prompts, sentences and translations: their units are tokens, which are removed and put back.

A removal leaves some tokens of a row; the function `predict_left` that a task passes in predicts from them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from edgewise.errors import DataError, SettingError, plural
from edgewise.explain.explainable import MAX_POINTS, Attended, Attention, Differentiable, Explainable
from edgewise.explain.explanation import Layer, Part, TargetPrediction, Unit
from edgewise.explain.heads import to_layer
from edgewise.graph import Trace, Weights
from edgewise.learn.files import JsonObject
from edgewise.learn.readers.texts.tokenizer import RowTokens, Tokenizer, visible

Left = Bool[np.ndarray, " token"]
"""Which tokens are left."""
BATCH_SIZE = 2**15
"""Tokens that are computed together, about."""
GRADIENT_TOKENS = 2**12
"""Tokens that are computed together where gradients go back through them, about."""
MAX_TOKENS = 2**18
"""Tokens that are read for all removals, about: of a long text fewer, larger groups are removed."""
MAX_GROUPS, MIN_GROUPS = 512, 16
"""Groups of tokens that are removed at most, and at least where there are as many tokens."""
MAX_RECORDED = 1024
"""Tokens of a text whose weights are all recorded, and followed through the layers."""
MAX_SHOWN = 256
"""Tokens of a text whose weights all stand in the explanation."""
TOP = 8
"""How many of the strongest stand there otherwise."""
POINTS = 32, 8
"""Points of an integral, of short and of very long texts."""
POINT_TOKENS, MAX_POINT_TOKENS = 2**16, 2**20
"""Tokens that are read for one integral, about: at first, and at most."""
SENTENCE = re.compile(r"(\S.*?)(?:(?<=[.!?…])(?=\s)|\n|$)", re.DOTALL)
"""Up to a sign that ends a sentence and a space, or to the end of the line."""
MAX_TITLE = 60
"""Characters of a title."""
MAX_LISTED = 40
"""Words that a message lists."""


def require_text(item: object) -> None:
    """Raise DataError where one text is expected, and something else came."""
    if not isinstance(item, str):
        raise DataError(f"explain: item is a {type(item).__name__}, where one text, a str, is expected.")


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenRow:
    """The tokens of one row that a model reads; how many are removed together, and which weights are recorded."""

    tokenizer: Tokenizer
    """The vocabulary."""
    texts: Mapping[str, str]
    """What was written, by the names of the columns."""
    row: RowTokens
    """The tokens."""
    fixed: Left
    """The tokens that are never removed."""
    top: int | None
    """How many of the strongest weights of each token and head are shown; None for the usual number."""
    num_extra_tokens: int = 0
    """Tokens that are read with every prediction and never removed."""
    has_sentences: bool = True
    """Whether sentences are removed as wholes, too."""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise SettingError(f"top is {self.top}; expected at least 1.")

    def __len__(self) -> int:
        return len(self.row)

    def left(self, removed: np.ndarray) -> Left:
        """Which tokens are left without some."""
        return self.fixed | ~np.isin(np.arange(len(self)), removed)

    @property
    def max_groups(self) -> int:
        """Groups of tokens that are removed at most."""
        return max(MIN_GROUPS, min(MAX_GROUPS, MAX_TOKENS // max(len(self) + self.num_extra_tokens, 1)))

    @property
    def groups(self) -> Sequence[np.ndarray]:
        """Each token alone, or runs of neighbors where there are too many."""
        units = np.flatnonzero(~self.fixed)
        return np.array_split(units, min(len(units), self.max_groups)) if len(units) else []

    @cached_property
    def sentences(self) -> tuple[list[Part], list[str]]:
        """The sentences where there are several, and a note where some are left out."""
        sentences, notes = list(self._sentences()) if self.has_sentences else [], []
        if len(sentences) > (limit := self.max_groups):
            longest = sorted(range(len(sentences)), key=lambda number: -len(sentences[number].units))[:limit]
            notes.append(f"Of {plural(len(sentences), 'sentence')} the {len(longest)} longest were removed.")
            sentences = [sentences[number] for number in sorted(longest)]
        return sentences if len(sentences) > 1 else [], notes

    def _sentences(self) -> Iterator[Part]:
        for column, text in enumerate(self.texts.values()):
            in_column = ~self.row.is_special & (self.row.columns == column)
            for match in SENTENCE.finditer(text):
                start, stop = match.span(1)
                units = np.flatnonzero(in_column & (self.row.starts >= start) & (self.row.starts < stop))
                if len(units):
                    yield Part(shortened(match[1].strip()), "sentence", tuple(units.tolist()), np.nan)

    def units(self, show: Callable[[str], str] = visible) -> Iterator[Unit]:
        """The tokens as they stand in the text; those that stand for no text by their names in the vocabulary."""
        columns = list(self.texts)
        for number, column, start, stop in zip(*(values.tolist() for values in self.row.places), strict=True):
            text = show(self.texts[columns[column]][start:stop])
            yield Unit(text or self.tokenizer.inner.id_to_token(number) or "", columns[column], start, stop)

    @property
    def is_followed(self) -> bool:
        """Whether all weights are recorded, and attention is followed through the layers."""
        return len(self) <= MAX_RECORDED

    def new_trace(self) -> Trace:
        """Records all weights of a short text, the strongest of a long one."""
        return Trace(top=None if self.is_followed else self.top or TOP)

    def layers_of(self, recorded: Sequence[Weights], name: str = "layer", num_tokens: int | None = None) -> list[Layer]:
        """Recorded weights as they are shown: all of a short text, the strongest of a longer one."""
        shown = self.top if self.top is not None or (num_tokens or len(self)) <= MAX_SHOWN else TOP
        return [to_layer(weights, f"{name} {number}", top=shown) for number, weights in enumerate(recorded, 1)]

    def attention_at(self, place: int, model: Callable[[Trace], object], who: str) -> Attention:
        """The attention of a model whose prediction is read at one token.

        Args:
            place: the token.
            model: computes the prediction and records its weights.
            who: the token, in words.
        """
        trace = complete = self.new_trace()
        with torch.no_grad():
            model(trace)
            if not trace.weights:
                return Attention()
            if not self.is_followed:
                complete = Trace(queries=[place])
                model(complete)

        weights = complete.weights[-1]
        at_place = weights.receivers == place
        direct = weights.values.new_zeros(len(self))
        direct.index_add_(0, weights.senders[at_place], weights.values.flatten(0, -2)[:, at_place].mean(0))
        top = torch.zeros(len(self))
        top[place] = 1
        return Attention(
            layers=self.layers_of(trace.weights),
            members=[Attended(direct, top, trace.weights if self.is_followed else ())],
            about=f"Where {who} attends in the last layer: its weights, mean over heads.",
            about_rollout=f"Attention through all layers: how much of each token can reach {who}.",
        )

    def by_vectors(
        self, embedding: nn.Embedding, nothing: int | None, name: str, function: Callable[[Tensor], Tensor]
    ) -> Differentiable:
        """The explained number as a function of the vectors of the tokens.

        Args:
            embedding: makes the vectors.
            nothing: the token of a text without information, where integrated gradients begin; None for zeros.
            name: what it is called.
            function: from the vectors of some copies of the row to the number of each.
        """
        vectors = embedding(torch.from_numpy(self.row.numbers)).detach()
        baseline = torch.zeros_like(vectors[:1]) if nothing is None else embedding.weight[[nothing]].detach()
        batch_size, words = max(1, GRADIENT_TOKENS // (len(self) + self.num_extra_tokens)), ("the vector", name)
        return Differentiable(function, vectors, baseline.expand_as(vectors), None, words, batch_size)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplainedTokens:
    """A number that is predicted from a row of tokens; the others move together where some are removed.

    What a task knows of it is passed in: how the number is predicted from some of the tokens, where the model attends,
    and the number as a function of the vectors.
    """

    tokens: TokenRow
    """The row."""
    predictions: Sequence[TargetPrediction]
    """What the model predicts."""
    explained: str
    """What the explained number is called."""
    predict_left: Callable[[Sequence[Left]], np.ndarray]
    """The explained number where each of some selections of tokens is left."""
    attend: Callable[[], Attention]
    """Where the model attends."""
    derive: Callable[[], Sequence[Differentiable]]
    """The explained number as a function of the vectors of the tokens, for each member of an ensemble."""
    about: str = ""
    """What the effect of removing a token is, in a sentence."""
    scale: float = 1.0
    """The unit for changes of the explained number."""
    truncation_note: str = "the model reads the first {:,}"
    """What is read of a text that is too long."""
    layers_name: str = "the layers: the text"
    """What attention is followed through, and what is too long for it."""
    first_notes: Sequence[str] = ()
    """What is to be known before all else."""
    more_notes: Sequence[str] = ()
    """What else is to be known."""
    more_parts: Sequence[Part] = ()
    """Parts besides sentences."""
    more_units: Sequence[Unit] = ()
    """Units after the tokens, which get no attributions."""
    more_sources: Mapping[str, str] = field(default_factory=dict)
    """The texts that these units stand in."""
    show: Callable[[str], str] = visible
    """How the text of a token is written."""

    @property
    def explainable(self) -> Explainable:
        """What the methods of explanation need to know of it."""
        tokens = self.tokens
        size = max(len(tokens) + tokens.num_extra_tokens, 1)
        return Explainable(
            num_units=len(tokens),
            about=self.about,
            groups=tokens.groups,
            predict=self.predict,
            attend=self.attend,
            differentiable=self.derive,
            describe=self.describe,
            absent=0.0,
            budget=2 * tokens.max_groups,
            scale=self.scale,
            points=max(POINTS[1], min(POINTS[0], POINT_TOKENS // size)),  # fewer for long texts
            max_points=min(MAX_POINTS, MAX_POINT_TOKENS // size),
            parts=lambda: [*tokens.sentences[0], *self.more_parts],
        )

    def predict(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The explained number without each of some lists of tokens."""
        left = [self.tokens.left(units) for units in removed]
        sizes = (int(stays.sum()) + self.tokens.num_extra_tokens for stays in left)
        return np.concatenate([np.zeros(0), *(self.predict_left(left[batch]) for batch in batches(sizes))])

    def notes(self, layers: Sequence[Layer]) -> list[str]:
        """What was cut, what is not in the vocabulary, not shown, or removed in groups."""
        row, unknown, notes = self.tokens.row, self.tokens.tokenizer.unknown, list(self.first_notes)
        if row.num_cut:
            count = plural(len(row) + row.num_cut, "token")
            notes.append(f"The text has {count}; {self.truncation_note.format(len(row))}, and only they are explained.")
        if num_unknown := 0 if unknown is None else int((row.numbers == unknown).sum()):
            is_are = "is" if num_unknown == 1 else "are"
            notes.append(
                f"{plural(num_unknown, 'token')} {is_are} out of vocabulary and {is_are} read as the unknown token."
            )
        return [*notes, *self._weight_notes(layers), *self.more_notes, *self.tokens.sentences[1], *self._group_notes()]

    def _weight_notes(self, layers: Sequence[Layer]) -> Iterator[str]:
        """Which weights are not shown."""
        if tops := {layer.top for layer in layers if layer.top is not None}:
            yield f"In each layer and head only the {tops.pop()} strongest weights of a token are shown."
        if not self.tokens.is_followed and self.layers_name and any(not layer.is_readout for layer in layers):
            yield (
                f"Attention is not followed through {self.layers_name} has more than {MAX_RECORDED:,} tokens, and the "
                "weights that are not recorded would be missing."
            )

    def _group_notes(self) -> Iterator[str]:
        """Whether groups of tokens were removed."""
        groups = self.tokens.groups
        if len(groups) < sum(len(group) for group in groups):
            yield f"Occlusion removes {len(groups)} runs of neighboring tokens, and shares each effect evenly."

    def describe(self, item: Explainable) -> JsonObject:
        """The texts, their tokens, and what is predicted of them."""
        texts = self.tokens.texts
        return {
            "kind": "text",
            "title": shortened(" ".join(texts.values())) or "a text of spaces",
            "sources": {**texts, **self.more_sources},
            "predictions": tuple(self.predictions),
            "explained": self.explained,
            "units": (*self.tokens.units(self.show), *self.more_units),
            "notes": tuple(self.notes(item.attention.layers)),
        }


def batches(sizes: Iterable[int]) -> Iterator[slice]:
    """Slices of texts with so many tokens each that are computed together, `BATCH_SIZE` tokens or a little more."""
    start, stop, tokens = 0, 0, 0
    for stop, size in enumerate(sizes, 1):
        tokens += size
        if tokens >= BATCH_SIZE:
            yield slice(start, stop)
            start, tokens = stop, 0
    if start < stop:
        yield slice(start, stop)


def index_of_word(target: object, words: Sequence[str], first: int, other: str = "") -> int:
    """The index of the word that `target` names: by its position, by itself if unique, or by both, as in `2 Paris`.

    Args:
        target: the position, the word or both.
        words: the words.
        first: the position of the first word.
        other: what else the caller accepts, for the message.

    Raises:
        SettingError: the word or position does not exist, or the word occurs more than once.
    """
    word, names = str(target).strip(), [f"{position} {name.strip()}" for position, name in enumerate(words, first)]
    if word in names:
        return names.index(word)
    if re.fullmatch(r"[0-9]{1,9}", word) and first <= int(word) < first + len(words):
        return int(word) - first
    matches = [position for position, name in enumerate(words) if name.strip() == word]
    if len(matches) == 1:
        return matches[0]

    candidates = [names[position] for position in matches] or names
    listed = ", ".join(candidates[:MAX_LISTED]) + (", …" if len(candidates) > MAX_LISTED else "")
    problem = f", which occurs {len(matches)} times; name one of" if matches else f"; expected {other}one of"
    raise SettingError(f"explain: target is {word[:60]!r}{problem} {listed}.")


def nothing_of(tokenizer: Tokenizer) -> int:
    """The token that stands for a text without tokens: the unknown token, else an end."""
    candidates = (tokenizer.unknown, tokenizer.end, tokenizer.padding)
    return next((number for number in candidates if number is not None), 0)


def shortened(text: str) -> str:
    """The beginning of a text on one line, cut at a word."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_TITLE else words[:MAX_TITLE].rsplit(" ", 1)[0] + " …"
