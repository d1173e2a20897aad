"""Prompts: which token follows, and what its probability depends on.

Probabilities are those with which `generate` draws at temperature 1. Memory stays linear in the length of a text of
more than 1,024 tokens; a text of up to 512 tokens costs a prediction for every token, of longer ones groups are
removed.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attention, Explainable
from edgewise.explain.explanation import TargetPrediction
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableTask, Row
from edgewise.learn.tasks.language.task import FittedLanguage, load
from edgewise.learn.tasks.token_explainable import (
    ExplainedTokens,
    Left,
    TokenRow,
    batches,
    nothing_of,
    require_text,
)
from edgewise.learn.training.device import cpu_threads

NEXT = "next token"
"""What is predicted."""
FIELD = "text"
"""What the prompt is called."""
MAX_PREDICTIONS = 10
"""How many of the most probable tokens are shown."""
MAX_READ = 4096
"""Tokens of a prompt that are read: what a model of any length costs grows with their square."""


def prompt_item(trained: FittedLanguage, prompt: str, label: object = None, top: int | None = None) -> Explainable:
    """A prompt and the token that may follow it.

    Args:
        trained: the model.
        prompt: the text.
        label: the token whose probability is explained, see `token_number`; by default the most probable one.
        top: see `TokenRow`.

    Raises:
        SettingError: the prompt cannot be read, the token is unknown, or `top` is below 1.
    """
    tokenizer, network, output = trained.encoder.tokenizer, trained.model.eval(), trained.output
    row = read_prompt(trained, prompt)
    tokens = TokenRow(tokenizer=tokenizer, texts={FIELD: prompt}, row=row, fixed=row.is_special, top=top)

    batch = TokenBatch.pack([row.numbers])
    with torch.no_grad():
        shares = probabilities(trained, network.next_token_scores(batch))[0]
    number = token_number(trained, label, to_prediction(trained, shares))

    # A text that is left empty begins anew where the model knows ends; else what it never saw stands for it.
    end = output.end(tokenizer)
    nothing = nothing_of(tokenizer) if end is None else end
    name = tokenizer.written(nothing)

    def predict_left(left: Sequence[Left]) -> np.ndarray:
        texts = [row.numbers[stays] if stays.any() else np.array([nothing]) for stays in left]
        with torch.no_grad():
            scores = network.next_token_scores(TokenBatch.pack(texts))
        return probabilities(trained, scores)[:, number].double().numpy()

    def attend() -> Attention:
        who = "the last token, which predicts the next one,"
        return tokens.attention_at(len(row) - 1, partial(network.next_token_scores, batch), who)

    def of_vectors(vectors: Tensor) -> Tensor:
        copies = TokenBatch.pack([row.numbers] * len(vectors))
        return probabilities(trained, network.next_token_scores(copies, vectors=vectors.flatten(0, 1)))[:, number]

    unseen = f"Where nothing is left of the text, the model reads {name}, which was not in its training."
    return ExplainedTokens(
        tokens=tokens,
        predictions=(to_prediction(trained, shares, number),),
        explained=f"{NEXT} = {tokenizer.written(number)}",
        predict_left=predict_left,
        attend=attend,
        derive=lambda: [tokens.by_vectors(network.embedding, nothing, f"that of {name}", of_vectors)],
        about="The probability less that without the token; those after it move up.",
        truncation_note="the last {:,} are read",
        more_notes=[] if output.has_end else [unseen],
    ).explainable


def item(trained: FittedLanguage, row: Row, target: str | None, label: object, top: int | None) -> Explainable:
    """A prompt and the token that may follow it."""
    if target not in (None, NEXT):
        raise SettingError(f"explain: target is {target!r}; the model predicts {NEXT}.")
    require_text(row[0])
    return prompt_item(trained, row[0], label, top)


def predict(trained: FittedLanguage, rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
    """The token that follows each prompt."""
    prompts = [read_prompt(trained, text).numbers for (text,) in rows]
    predictions: list[tuple[TargetPrediction, ...]] = []
    with torch.no_grad(), cpu_threads(trained.threads):
        for batch in batches(map(len, prompts)):
            shares = probabilities(trained, trained.model.next_token_scores(TokenBatch.pack(prompts[batch])))
            predictions += [(to_prediction(trained, of_prompt),) for of_prompt in shares]
    return predictions


def unread(trained: FittedLanguage, row: Row) -> str:
    """How many tokens of a prompt are cut off, in words; empty where none is."""
    read = read_prompt(trained, *row)
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


def to_prediction(
    trained: FittedLanguage, shares: Float[Tensor, " token"], also: int | None = None
) -> TargetPrediction:
    """The most probable of the tokens, and with them `also`, out of the probabilities of all."""
    tokenizer = trained.encoder.tokenizer
    num_writable = len(shares) - len(trained.output.never_written(tokenizer))
    best = shares.topk(min(MAX_PREDICTIONS, num_writable)).indices.tolist()
    numbers = best if also is None or also in best else [*best, also]
    listed = {tokenizer.written(number): float(shares[number]) for number in numbers}
    label = tokenizer.written(best[0])
    share = listed[label]
    return TargetPrediction(NEXT, float(best[0]), label, math.sqrt(share * (1 - share)), probabilities=listed)


def token_number(trained: FittedLanguage, label: object, prediction: TargetPrediction) -> int:
    """The token that is meant: that of the text `label`, or the one that is shown so; the most probable by default.

    Raises:
        SettingError: the token is unknown, or is never generated.
    """
    if label is None:
        return int(prediction.value)
    label, tokenizer = str(label), trained.encoder.tokenizer
    never = set(trained.output.never_written(tokenizer))
    numbers = tokenizer.encode(label).numbers.tolist()
    if len(numbers) == 1 and numbers[0] not in never:
        return numbers[0]
    # By its symbol: a space is not easily typed, and part of a character is not a text.
    for number in range(len(tokenizer)):
        if number not in never and tokenizer.written(number) == label:
            return number
    why = f"is {len(numbers)} tokens" if len(numbers) > 1 and tokenizer.unknown not in numbers else "is none"
    likely = ", ".join(prediction.probabilities)
    raise SettingError(
        f"explain: label is {label[:60]!r}, which {why}; name one token that the model can write, such as {likely}."
    )


EXPLAINABLE = ExplainableTask(
    load=load,
    kind="text",
    rows_in_words="texts",
    fields=lambda trained: [(FIELD, "text")],
    targets=lambda trained: ("language", {NEXT: []}),
    model_name=lambda trained: "transformer",
    predict=predict,
    item=item,
    unread=unread,
    reads_spaces=lambda trained: trained.encoder.tokenizer.kind != "words",  # words do not contain spaces
    open=("label",),
)
