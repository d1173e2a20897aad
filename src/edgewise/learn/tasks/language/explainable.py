"""Prompts: which token follows, and what its probability depends on.

Probabilities are those with which `generate` draws at temperature 1. Memory stays linear in the length of a text of
more than 1,024 tokens; a text of up to 512 tokens costs a prediction for every token, of longer ones groups are
removed.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attention, Differentiable
from edgewise.explain.explanation import TargetPrediction
from edgewise.graph.records import TextBatch
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableModel
from edgewise.learn.tasks.language.task import FittedLanguage, load
from edgewise.learn.tasks.token_explainable import Left, TokenExplainable, batches, nothing_of, require_text
from edgewise.learn.training.device import cpu_threads

NEXT = "next token"
"""What is predicted."""
FIELD = "text"
"""What the prompt is called."""
MAX_PREDICTIONS = 10
"""How many of the most probable tokens are shown."""
MAX_READ = 4096
"""Tokens of a prompt that are read: what a model of any length costs grows with their square."""


class PromptItem(TokenExplainable):
    """A prompt and the token that may follow it."""

    about = "The probability less that without the token; those behind it move up."
    about_cut = "the last {:,} are read"

    def __init__(self, trained: FittedLanguage, prompt: str, label: Any, top: int | None):
        tokenizer = trained.encoder.tokenizer
        super().__init__(trained, tokenizer, {FIELD: prompt}, read_prompt(trained, prompt), top)
        self.batch = TextBatch.packed([self.row.numbers])
        with torch.no_grad():
            found = probabilities(trained, trained.model.eval().after(self.batch))[0]
        self.number = token_number(trained, label, to_prediction(trained, found))
        self.predictions = (to_prediction(trained, found, self.number),)
        self.explained = f"{NEXT} = {tokenizer.written(self.number)}"
        # A text that is left empty begins anew where the model knows ends; else what it never saw stands for it.
        end = trained.output.end(tokenizer)
        self.nothing = nothing_of(tokenizer) if end is None else end

    def predict_left(self, left: Sequence[Left]) -> np.ndarray:
        texts = [self.row.numbers[stays] if stays.any() else np.array([self.nothing]) for stays in left]
        with torch.no_grad():
            scores = self.trained.model.after(TextBatch.packed(texts))
        return probabilities(self.trained, scores)[:, self.number].double().numpy()

    def trace(self) -> Attention:
        who = "the last token, which predicts the next one,"
        return self.attention_at(self.num_units - 1, partial(self.trained.model.after, self.batch), who)

    def differentiable(self) -> list[Differentiable]:
        model, name = self.trained.model, f"that of {self.tokenizer.written(self.nothing)}"

        def function(vectors: Tensor) -> Tensor:
            batch = TextBatch.packed([self.row.numbers] * len(vectors))
            return probabilities(self.trained, model.after(batch, vectors=vectors.flatten(0, 1)))[:, self.number]

        return [self.by_vectors(model.embedding, self.nothing, name, function)]

    def own_notes(self) -> list[str]:
        if self.trained.output.has_end:
            return []
        name = self.tokenizer.written(self.nothing)
        return [f"Where nothing is left of the text, the model reads {name}, which was not in its training."]


class ExplainablePrompts(ExplainableModel):
    """Texts, and the token that follows each."""

    load_trained = staticmethod(load)
    kind = "text"
    over = "texts"
    open = ("label",)
    targets = ("language", {NEXT: []})  # type: ignore[assignment]
    model_name = "transformer"

    @property
    def fields(self) -> list[tuple[str, str]]:
        return [(FIELD, "text")]

    @property
    def reads_spaces(self) -> bool:  # type: ignore[override]
        """Words alone are no spaces."""
        return self.trained.encoder.tokenizer.kind != "words"

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        trained, found = self.trained, []
        prompts = [read_prompt(trained, text).numbers for (text,) in rows]
        with torch.no_grad(), cpu_threads(trained.threads):
            for some in batches(map(len, prompts)):
                found += list(probabilities(trained, trained.model.after(TextBatch.packed(prompts[some]))))
        return [(to_prediction(trained, each),) for each in found]

    def item(self, row: tuple[Any, ...], target: Any, label: Any, top: int | None) -> PromptItem:
        if target not in (None, NEXT):
            raise SettingError(f"explain: target is {target!r}; the model predicts {NEXT}.")
        require_text(row[0])
        return PromptItem(self.trained, row[0], label, top)

    def unread(self, row: tuple[Any, ...]) -> str:
        read = read_prompt(self.trained, *row)
        return f"{len(read) + read.num_cut:,} tokens, of which the last {len(read):,} are read" if read.num_cut else ""


def read_prompt(trained: FittedLanguage, text: str) -> RowTokens:
    """The tokens that are read: of a long text the last, as many as the model can read, and `MAX_READ` at most.

    Raises:
        SettingError: it is empty, or has characters or words that the model has never seen.
    """
    tokens = trained.encoder.prompt_tokens(text)
    num_cut = max(0, len(tokens.numbers) - min(trained.encoder.max_tokens, MAX_READ))
    numbers, starts, stops = (values[num_cut:] for values in (tokens.numbers, tokens.starts, tokens.stops))
    return RowTokens(numbers, np.zeros(len(numbers), np.int64), starts, stops, num_cut)


def probabilities(trained: FittedLanguage, scores: Float[Tensor, " text token"]) -> Float[Tensor, " text token"]:
    """How probable each token is to be written next: 0 for those that never are."""
    never = torch.zeros(scores.shape[-1], dtype=torch.bool)
    never[trained.output.never_written(trained.encoder.tokenizer)] = True
    return scores.float().masked_fill(never, -math.inf).softmax(-1)


def to_prediction(trained: FittedLanguage, found: Float[Tensor, " token"], also: int | None = None) -> TargetPrediction:
    """The most probable of the tokens, and with them `also`, out of the probabilities of all."""
    tokenizer = trained.encoder.tokenizer
    num_writable = len(found) - len(trained.output.never_written(tokenizer))
    best = found.topk(min(MAX_PREDICTIONS, num_writable)).indices.tolist()
    numbers = best if also is None or also in best else [*best, also]
    shares = {tokenizer.written(number): float(found[number]) for number in numbers}
    label = tokenizer.written(best[0])
    share = shares[label]
    return TargetPrediction(NEXT, float(best[0]), label, math.sqrt(share * (1 - share)), probabilities=shares)


def token_number(trained: FittedLanguage, label: Any, prediction: TargetPrediction) -> int:
    """The token that is meant: that of the text `label`, or the one that is shown so; the most probable by default.

    Raises:
        SettingError: there is no such token, or it is never written.
    """
    if label is None:
        return int(prediction.value)
    label, tokenizer = str(label), trained.encoder.tokenizer
    never = set(trained.output.never_written(tokenizer))
    numbers = tokenizer.encode(label).numbers.tolist()
    if len(numbers) == 1 and numbers[0] not in never:
        return numbers[0]
    # By its sign: a space is not easily typed, and part of a character is no text.
    for number in range(len(tokenizer)):
        if number not in never and tokenizer.written(number) == label:
            return number
    why = f"is {len(numbers)} tokens" if len(numbers) > 1 and tokenizer.unknown not in numbers else "is none"
    likely = ", ".join(prediction.probabilities)
    raise SettingError(
        f"explain: label is {label[:60]!r}, which {why}; name one token that the model can write, such as {likely}."
    )


EXPLAINABLE = ExplainablePrompts
