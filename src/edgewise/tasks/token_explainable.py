"""What explanations of texts, prompts, sentences and translations share: their units are tokens."""

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool

from edgewise.data.texts.tokenizer import Tokenizer, visible
from edgewise.errors import SettingError
from edgewise.explain.explainable import Attended, Attention, Explainable
from edgewise.explain.heads import to_layer
from edgewise.explanation import Layer, Part, Unit
from edgewise.plural import plural
from edgewise.tasks.texts.tokens import RowTokens
from edgewise.trace import Trace

Kept = Bool[np.ndarray, " token"]
"""Which tokens are left."""
BATCH_SIZE = 2**15
"""Tokens that are computed together, about."""
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
POINT_TOKENS = 2**16
"""Tokens that are read for one integral, about."""
SENTENCE = re.compile(r"(\S.*?)(?:(?<=[.!?…])(?=\s)|\n|$)", re.DOTALL)
"""Up to a sign that ends a sentence and a space, or to the end of the line."""


class TokenExplainable(Explainable):
    """Tokens that a model reads; the others move together where some are removed.

    Args:
        fixed: the tokens that are never removed, such as those that stand for no text.
        top: how many of the strongest weights of each token and head are kept; None for the usual number.
        beside: tokens that are read with every prediction and never removed.

    Raises:
        SettingError: `top` is below 1.
    """

    absent = 0.0

    def __init__(self, fixed: Kept, top: int | None, beside: int = 0):
        if top is not None and top < 1:
            raise SettingError(f"top is {top}; expected at least 1.")
        self.fixed, self.top, self.beside = fixed, top, beside

    def predict_kept(self, kept: Sequence[Kept]) -> np.ndarray:
        """The explained number where each of these selections of tokens is left."""
        raise NotImplementedError

    def predict(self, removed: Sequence[np.ndarray]) -> np.ndarray:
        """The explained number without each of some lists of tokens."""
        found, kept, size = [np.zeros(0)], [], 0
        for units in removed:
            left = np.ones(self.num_units, dtype=bool)
            left[units] = False
            kept.append(left | self.fixed)
            size += int(kept[-1].sum()) + self.beside
            if size >= BATCH_SIZE:
                found.append(self.predict_kept(kept))
                kept, size = [], 0
        return np.concatenate([*found, *([self.predict_kept(kept)] if kept else [])])

    @property
    def num_units(self) -> int:
        """Tokens that are read."""
        return len(self.fixed)

    @property
    def max_groups(self) -> int:
        """Groups of tokens that are removed at most."""
        return max(MIN_GROUPS, min(MAX_GROUPS, MAX_TOKENS // max(self.num_units + self.beside, 1)))

    @property
    def groups(self) -> Sequence[np.ndarray]:
        """Each token alone, or runs of neighbors where there are too many."""
        units = np.flatnonzero(~self.fixed)
        return np.array_split(units, min(len(units), self.max_groups)) if len(units) else []

    @property
    def budget(self) -> int | None:
        """Twice as many predictions as removals."""
        return 2 * self.max_groups

    @property
    def points(self) -> int:
        """Fewer for long texts."""
        return max(POINTS[1], min(POINTS[0], POINT_TOKENS // max(self.num_units + self.beside, 1)))

    @property
    def is_followed(self) -> bool:
        """Whether all weights are recorded, and attention is followed through the layers."""
        return self.num_units <= MAX_RECORDED

    def new_trace(self) -> Trace:
        """Records all weights of a short text, the strongest of a long one."""
        return Trace(top=None if self.is_followed else self.top or TOP)

    def shown(self, num_tokens: int) -> int | None:
        """How many of the strongest weights are shown: all of a short text, some of a longer one."""
        return self.top if self.top is not None or num_tokens <= MAX_SHOWN else TOP

    def layers_of(self, trace: Trace) -> list[Layer]:
        """Recorded weights as they are shown."""
        shown = self.shown(self.num_units)
        return [to_layer(weights, f"layer {place}", top=shown) for place, weights in enumerate(trace.weights, 1)]

    def attention_at(self, place: int, model: Callable[[Trace], object], who: str) -> Attention:
        """The attention of a model whose prediction is read at one token.

        Args:
            place: the token.
            model: computes the prediction and records its weights.
            who: the token, in words.
        """
        trace = self.new_trace()
        with torch.no_grad():
            model(trace)
        if not trace.weights:
            return Attention()
        whole = trace
        if not self.is_followed:
            whole = Trace(queries=[place])
            with torch.no_grad():
                model(whole)
        weights = whole.weights[-1]
        mine = weights.receivers == place
        direct = weights.values.new_zeros(self.num_units)
        direct.index_add_(0, weights.senders[mine], weights.values.flatten(0, -2)[:, mine].mean(0))
        top = torch.zeros(self.num_units)
        top[place] = 1
        return Attention(
            layers=self.layers_of(trace),
            members=[Attended(direct, top, trace.weights if self.is_followed else ())],
            about=f"Where {who} attends in the last layer: its weights, mean over heads.",
            about_rollout=f"Attention through all layers: how much of each token can reach {who}.",
        )

    def group_notes(self) -> list[str]:
        """Whether groups of tokens were removed."""
        groups = self.groups
        if len(groups) == sum(len(group) for group in groups):
            return []
        return [f"Occlusion removes {len(groups)} runs of neighboring tokens, and shares each effect evenly."]

    def weight_notes(self) -> list[str]:
        """Which weights are not shown."""
        layers, notes = self.attention.layers, []
        if tops := {layer.top for layer in layers if layer.top is not None}:
            notes.append(f"In each layer and head only the {tops.pop()} strongest weights of a token are kept.")
        if not self.is_followed and any(not layer.is_readout for layer in layers):
            notes.append(
                f"Attention is not followed through the layers: the text has more than {MAX_RECORDED:,} tokens, and "
                "the weights that are not kept would be missing."
            )
        return notes

    def sentences(self, texts: Sequence[str], row: RowTokens) -> tuple[list[Part], list[str]]:
        """The sentences of some texts where there are several, and a note where some are left out."""
        found, notes = list(_sentences(texts, row)), []
        if len(found) > (most := self.max_groups):
            longest = sorted(range(len(found)), key=lambda place: -len(found[place].units))[:most]
            notes.append(f"Of {plural(len(found), 'sentence')} the {len(longest)} longest were removed.")
            found = [found[place] for place in sorted(longest)]
        return found if len(found) > 1 else [], notes


def _sentences(texts: Sequence[str], row: RowTokens) -> Iterator[Part]:
    """The sentences of each text that have tokens."""
    for place, text in enumerate(texts):
        own = ~row.is_special & (row.columns == place)
        for found in SENTENCE.finditer(text):
            start, stop = found.span(1)
            units = np.flatnonzero(own & (row.starts >= start) & (row.starts < stop))
            if len(units):
                yield Part(shortened(found[1].strip()), "sentence", tuple(units.tolist()), np.nan)


def units_of(
    tokenizer: Tokenizer, numbers: np.ndarray, places: Sequence[tuple[str, int, int]], texts: dict[str, str]
) -> tuple[Unit, ...]:
    """The tokens as they stand in the text; those that stand for no text by their names in the vocabulary.

    Args:
        tokenizer: the vocabulary.
        numbers: the tokens.
        places: the column of each, its first character there, and one past the last.
        texts: by column.
    """
    units = []
    for number, (column, start, stop) in zip(numbers.tolist(), places, strict=True):
        name = visible(texts[column][start:stop]) if start < stop else tokenizer.inner.id_to_token(number)
        units.append(Unit(name or "", column, start, stop))
    return tuple(units)


def unknown_notes(tokenizer: Tokenizer, numbers: np.ndarray) -> list[str]:
    """Whether the vocabulary lacks some of the tokens."""
    unknown = tokenizer.unknown
    if not (count := 0 if unknown is None else int((numbers == unknown).sum())):
        return []
    is_are = "is" if count == 1 else "are"
    return [f"{plural(count, 'token')} {is_are} out of vocabulary and {is_are} read as the unknown token."]


def nothing_of(tokenizer: Tokenizer) -> int:
    """The token that stands for a text without tokens: the unknown token, else an end."""
    known = (tokenizer.unknown, tokenizer.end, tokenizer.padding)
    return next((number for number in known if number is not None), 0)


def shortened(text: str, size: int = 60) -> str:
    """The beginning of a text on one line, cut at a word."""
    words = " ".join(text.split())
    if len(words) <= size:
        return words
    return (words[:size].rsplit(" ", 1)[0] if " " in words[:size] else words[:size]) + " …"
