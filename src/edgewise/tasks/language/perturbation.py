"""A model of a language, asked which token comes next: after a prompt, and after what is left of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explanation import TargetPrediction
from edgewise.records import TextBatch
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.tasks.texts.tokens import RowTokens
from edgewise.tasks.token_explainable import BATCH_SIZE, Kept
from edgewise.train.device import cpu_threads

NEXT = "next token"
"""What is told."""
FIELD = "text"
"""What the prompt is called."""
MAX_PREDICTIONS = 10
"""How many of the most probable tokens are told."""


MAX_READ = 4096
"""Tokens of a prompt that are read: what a model of any length costs grows with their square."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """What of a text a model reads, and what it says of the token that follows."""

    text: str
    """As it came."""
    row: RowTokens
    """The tokens that are read: of a long text the last, as many as the model can read, and `MAX_READ` at most."""

    @classmethod
    def of(cls, trained: TrainedLanguage, text: str) -> Self:
        """A text as the model reads it.

        Raises:
            SettingError: it is empty, or has characters or words that the model has never seen.
        """
        found = trained.encode(text)
        cut = max(0, len(found.numbers) - min(trained.limit, MAX_READ))
        numbers, starts, stops = (side[cut:] for side in (found.numbers, found.starts, found.stops))
        return cls(text, RowTokens(numbers, np.zeros(len(numbers), np.int64), starts, stops, cut))


@dataclass(frozen=True, eq=False)
class NextToken:
    """The probability of one token to come next."""

    trained: TrainedLanguage
    """The model."""
    number: int
    """The token."""
    nothing: int
    """The token of a text of which nothing is left."""

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{NEXT} = {self.trained.tokenizer.written(self.number)}"

    def of_kept(self, prompt: Prompt, kept: Sequence[Kept]) -> Float[np.ndarray, " question"]:
        """The probability after what is left of a prompt, each time."""
        left = [prompt.row.numbers[stays] if stays.any() else np.array([self.nothing]) for stays in kept]
        with torch.no_grad(), cpu_threads(self.trained.threads):
            scores = self.trained.model.after(packed(left))
            return probabilities(self.trained, scores)[:, self.number].double().numpy()

    def of_vectors(self, batch: TextBatch, vectors: Float[Tensor, " token model_dim"]) -> Float[Tensor, ""]:
        """The probability out of the vectors of the tokens; gradients go through."""
        return probabilities(self.trained, self.trained.model.after(batch, vectors=vectors))[0, self.number]


def packed(texts: Sequence[Int64[np.ndarray, " token"]]) -> TextBatch:
    """Tokens of texts, one behind the other."""
    offsets = torch.tensor([0, *accumulate(len(each) for each in texts)])
    return TextBatch(torch.from_numpy(np.concatenate(texts)), offsets=offsets)


def probabilities(trained: TrainedLanguage, scores: Float[Tensor, " text token"]) -> Float[Tensor, " text token"]:
    """How probable each token is to be written next: 0 for those that never are."""
    never = torch.zeros(scores.shape[-1], dtype=torch.bool)
    never[trained.never] = True
    return scores.float().masked_fill(never, -math.inf).softmax(-1)


def next_token_prediction(
    trained: TrainedLanguage, found: Float[Tensor, " token"], also: int | None = None
) -> tuple[TargetPrediction, ...]:
    """The most probable of the tokens, and with them `also`, out of the probabilities of all."""
    best = found.topk(min(MAX_PREDICTIONS, len(found) - len(trained.never))).indices.tolist()
    numbers = best if also is None or also in best else [*best, also]
    shares = {trained.tokenizer.written(number): float(found[number]) for number in numbers}
    label = trained.tokenizer.written(best[0])
    share = shares[label]
    return (TargetPrediction(NEXT, float(best[0]), label, math.sqrt(share * (1 - share)), probabilities=shares),)


def predict_next(trained: TrainedLanguage, texts: Sequence[str]) -> list[tuple[TargetPrediction, ...]]:
    """What follows each of some texts.

    Raises:
        SettingError: one is empty, or has characters or words that the model has never seen.
    """
    prompts = [Prompt.of(trained, text).row.numbers for text in texts]
    told: list[tuple[TargetPrediction, ...]] = []
    with torch.no_grad(), cpu_threads(trained.threads):
        for some in _batches(prompts):
            told += [
                next_token_prediction(trained, each)
                for each in probabilities(trained, trained.model.after(packed(some)))
            ]
    return told


def _batches(prompts: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Prompts in groups that are computed at a time."""
    some: list[np.ndarray] = []
    for each in prompts:
        if some and sum(map(len, some)) + len(each) > BATCH_SIZE:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def token_number(trained: TrainedLanguage, label: Any, told: TargetPrediction) -> int:
    """The token that is meant: that of the text `label`, or the one that is shown so; the most probable by default.

    Raises:
        SettingError: there is no such token, or it is never written.
    """
    if label is None:
        return int(told.value)
    label, tokenizer = str(label), trained.tokenizer
    never = set(trained.never)
    numbers = tokenizer.encode(label).numbers.tolist()
    if len(numbers) == 1 and numbers[0] not in never:
        return numbers[0]
    # By its sign: a space is not easily typed, and part of a character is no text.
    for number in range(len(tokenizer)):
        if number not in never and tokenizer.written(number) == label:
            return number
    why = f"is {len(numbers)} tokens" if len(numbers) > 1 and tokenizer.unknown not in numbers else "is none"
    likely = ", ".join(told.probabilities)
    raise SettingError(
        f"explain: label is {label[:60]!r}, which {why}; name one token that the model can write, such as {likely}."
    )
