"""Prompts, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attention, Differentiable
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Explanation, Part, TargetPrediction
from edgewise.plural import plural
from edgewise.tasks.explainable import ExplainableModel
from edgewise.tasks.language.perturbation import (
    FIELD,
    NEXT,
    NextToken,
    Prompt,
    next_token_prediction,
    packed,
    predict_next,
    probabilities,
    token_number,
)
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.tasks.token_explainable import Kept, TokenExplainable, nothing_of, shortened, units_of
from edgewise.train.device import cpu_threads


def explain_prompt(
    trained: TrainedLanguage,
    prompt: str,
    *,
    target: str | None = None,
    label: Any = None,
    top: int | None = None,
    methods: Choice = None,
) -> Explanation:
    """Which token follows a text, where the model attends, and what changes the probability of that token.

    Probabilities are those with which `generate` draws at temperature 1. Memory stays linear in the length of a text
    of more than 1,024 tokens.

    Args:
        trained: the model.
        prompt: the text; of one that is longer than the model reads, or than 4,096 tokens, the end.
        target: what is explained: there is only `next token`.
        label: the token whose probability is explained, by its text; the most probable one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of texts of up to 256
            tokens, else 8.
        methods: names of methods; see `edgewise.explain.methods`.

    Raises:
        SettingError: the prompt is empty or has characters or words that the model has never seen, there is no such
            target, token or method, or `top` is below 1.

    Cost: a prediction for every token of a text of up to 512 tokens; of longer ones groups are removed, so that it
        grows with their length no faster than a few dozen predictions do.
    """
    if target is not None and target != NEXT:
        raise SettingError(f"explain: target is {target!r}; the model predicts {NEXT}.")
    with cpu_threads(trained.threads):
        return explain(PromptItem(trained, Prompt.of(trained, prompt), label, top), methods)


class PromptItem(TokenExplainable):
    """A prompt and the token that may follow it."""

    about = "The probability less that without the token; those behind it move up."

    def __init__(self, trained: TrainedLanguage, prompt: Prompt, label: Any, top: int | None):
        super().__init__(prompt.row.is_special, top)
        self.trained, self.prompt, tokenizer = trained, prompt, trained.tokenizer
        self.batch, model = packed([prompt.row.numbers]), trained.model.eval()
        with torch.no_grad():
            found = probabilities(trained, model.after(self.batch))[0]
        number = token_number(trained, label, *next_token_prediction(trained, found))
        self.predictions = next_token_prediction(trained, found, number)
        # A text that is left empty begins anew where the model knows ends; else what it never saw stands for it.
        nothing = tokenizer.end if trained.has_end and tokenizer.end is not None else nothing_of(tokenizer)
        self.explained = NextToken(trained, number, nothing)

    def predict_kept(self, kept: Sequence[Kept]) -> np.ndarray:
        """The probability after what is left."""
        return self.explained.of_kept(self.prompt, kept)

    def trace(self) -> Attention:
        """Of the last token, which the next one is predicted from."""
        who = "the last token, which predicts the next one,"
        return self.attention_at(self.num_units - 1, partial(self.trained.model.after, self.batch), who)

    def differentiable(self) -> list[Differentiable]:
        """By the vectors of the tokens."""
        embedding, nothing = self.trained.model.embedding, self.explained.nothing
        vectors = embedding(self.batch.tokens).detach()
        baseline = embedding.weight[nothing].detach().expand_as(vectors)
        words = ("the vector", f"that of {self.trained.tokenizer.written(nothing)}")
        return [Differentiable(partial(self.explained.of_vectors, self.batch), vectors, baseline, None, words)]

    def parts(self) -> list[Part]:
        """Sentences."""
        return self.sentences([self.prompt.text], self.prompt.row)[0]

    def describe(self) -> dict[str, Any]:
        """The text and its tokens."""
        row, text, notes = self.prompt.row, self.prompt.text, []
        if row.num_cut:
            notes.append(
                f"The text has {plural(len(row) + row.num_cut, 'token')}; the last {len(row):,} are read, and only "
                "they are explained."
            )
        notes += self.weight_notes()
        if not self.trained.has_end:
            name = self.trained.tokenizer.written(self.explained.nothing)
            notes.append(f"Where nothing is left of the text, the model reads {name}, which was not in its training.")
        notes += [*self.sentences([text], row)[1], *self.group_notes()]
        places = [(FIELD, start, stop) for start, stop in zip(row.starts.tolist(), row.stops.tolist(), strict=True)]
        return {
            "kind": "text",
            "title": shortened(text) or "a text of spaces",
            "sources": {FIELD: text},
            "told": self.predictions,
            "explained": self.explained.name,
            "units": units_of(self.trained.tokenizer, row.numbers, places, {FIELD: text}),
            "notes": tuple(notes),
        }


class ExplainablePrompts(ExplainableModel):
    """Texts, and the token that follows each."""

    trained_type = TrainedLanguage
    kind = "text"
    over = "texts"
    open = ("label",)
    targets = ("language", {NEXT: []})  # type: ignore[assignment]
    model_name = "transformer"

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The text."""
        return [(FIELD, "text")]

    @property
    def reads_spaces(self) -> bool:  # type: ignore[override]
        """Words alone are no spaces."""
        return self.trained.tokenizer.kind != "words"

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """What follows each text."""
        return predict_next(self.trained, [text for (text,) in rows])

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """One text."""
        return explain_prompt(self.trained, *row, target=target, label=label, top=top, methods=methods)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens before those that are read."""
        read = Prompt.of(self.trained, *row).row
        return f"{len(read) + read.num_cut:,} tokens, of which the last {len(read):,} are read" if read.num_cut else ""
