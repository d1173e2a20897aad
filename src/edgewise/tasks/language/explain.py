"""Prompts, explained: which token comes next, where the model attends, and what changes it."""

from functools import partial
from typing import Any

import torch

from edgewise.errors import SettingError
from edgewise.explanation import Attribution, Explanation, Layer
from edgewise.plural import plural
from edgewise.tasks.language.perturbation import (
    FIELD,
    NEXT,
    NextToken,
    Prompt,
    packed,
    probabilities,
    token_number,
    told_next,
)
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.tasks.texts.perturbation import sentence_parts, with_effects
from edgewise.tasks.token_methods import (
    attention_at,
    believed,
    by_gradients,
    check_top,
    layers_of,
    lost,
    nothing_of,
    recording,
    run_notes,
    units_of,
    weight_notes,
)
from edgewise.tasks.token_perturbation import TokenQuestions, shortened
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads


def explain_prompt(
    trained: TrainedLanguage, prompt: str, *, target: str | None = None, label: Any = None, top: int | None = None
) -> Explanation:
    """Which token follows a text, where the model attended, and what changes the probability of that token.

    Probabilities are those with which `generate` draws at temperature 1. Memory stays linear in the length of a text
    of more than 1,024 tokens.

    Args:
        trained: the model.
        prompt: the text; of one that is longer than the model reads, or than 4,096 tokens, the end.
        target: what is explained: there is only `next token`.
        label: the token whose probability is explained, by its text; the most probable one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of texts of up to 256
            tokens, else 8.

    Raises:
        SettingError: the prompt is empty or has characters or words that the model has never seen, there is no such
            target or token, or `top` is below 1.

    Cost: a prediction for every token of a text of up to 512 tokens; of longer ones parts are taken away, so that it
        grows with their length no faster than a few dozen predictions do.
    """
    check_top(top)
    if target is not None and target != NEXT:
        raise SettingError(f"explain: target is {target!r}; the model predicts {NEXT}.")
    asked = Prompt.of(trained, prompt)
    row, model, tokenizer = asked.row, trained.model.eval(), trained.tokenizer
    batch, trace = packed([row.numbers]), recording(len(row), top)
    with torch.no_grad(), cpu_threads(trained.threads):
        found = probabilities(trained, model.after(batch, trace))[0]
    number = token_number(trained, label, *told_next(trained, found))
    # A text that is left empty begins anew where the model knows ends; else what it never saw stands for it.
    nothing = tokenizer.end if trained.has_end and tokenizer.end is not None else nothing_of(tokenizer)
    explained = NextToken(trained, number, nothing)
    questions = TokenQuestions(row.is_special, partial(explained.of_kept, asked))
    with cpu_threads(trained.threads):
        layers = layers_of(trace, len(row), top)
        attributions = _attributions(explained, questions, asked, trace)
        parts, part_note = sentence_parts(questions, [prompt], [FIELD], row)
        parts_without = with_effects(questions, parts)
        faithfulness = believed(questions, attributions)
    notes = [*_notes(explained, asked, layers), *([part_note] if part_note else []), *run_notes(questions)]
    places = [(FIELD, start, stop) for start, stop in zip(row.starts.tolist(), row.stops.tolist(), strict=True)]
    return Explanation(
        kind="text",
        title=shortened(prompt) or "a text of spaces",
        sources={FIELD: prompt},
        told=told_next(trained, found, number),
        explained=explained.name,
        units=units_of(tokenizer, row.numbers, places, {FIELD: prompt}),
        layers=tuple(layers),
        attributions=attributions,
        parts=parts_without,
        faithfulness=faithfulness,
        notes=tuple(notes),
    )


def _attributions(
    explained: NextToken, questions: TokenQuestions, prompt: Prompt, trace: Trace
) -> tuple[Attribution, ...]:
    """How much each token matters, by every method; the first is what is shown first."""
    trained, row = explained.trained, prompt.row
    model, batch, last = trained.model, packed([row.numbers]), len(row) - 1
    who = "the last token, behind which the next one is told,"
    attention = attention_at(last, len(row), trace, partial(model.after, batch), who)
    about = "The probability less that without the token; those behind it move up."
    vectors = model.embedding(batch.tokens).detach()
    baseline = model.embedding.weight[explained.nothing].detach().expand_as(vectors)
    name = trained.tokenizer.written(explained.nothing)
    gradients = by_gradients([partial(explained.of_vectors, batch)], [vectors], [baseline], name)
    return (lost(questions, about), *gradients, *attention)


def _notes(explained: NextToken, prompt: Prompt, layers: list[Layer]) -> list[str]:
    """What was cut, what is not shown, and what stands for nothing."""
    row, notes = prompt.row, []
    if row.num_cut:
        notes.append(
            f"The text has {plural(len(row) + row.num_cut, 'token')}; the last {len(row):,} are read, "
            "and only they are "
            "explained."
        )
    notes += weight_notes(layers, len(row))
    if not explained.trained.has_end:
        name = explained.trained.tokenizer.written(explained.nothing)
        notes.append(f"Where nothing is left of the text, the model reads {name}, which it never met in training.")
    return notes
