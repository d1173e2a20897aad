"""Where a model of tokens attends, and what its prediction loses with each: what texts, prompts and sentences share."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.data.texts.tokenizer import Tokenizer, visible
from edgewise.errors import SettingError
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.heads import to_layer
from edgewise.explain.occlusion import occlude
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Faithfulness, Layer, Unit
from edgewise.tasks.token_perturbation import TokenQuestions
from edgewise.trace import Trace

MOST_RECORDED = 1024
"""Tokens of a text whose weights are all recorded, and followed through the layers."""
MOST_SHOWN = 256
"""Tokens of a text whose weights all stand in the explanation."""
TOP = 8
"""How many of the strongest stand there otherwise."""
STEPS = 20, 4
"""Steps of a curve of faithfulness, of short and of very long texts."""
POINTS = 32, 8
"""Points of an integral, likewise."""
POINT_TOKENS = 2**16
"""Tokens that are read for one integral, about."""


def check_top(top: int | None) -> None:
    """Raise SettingError where fewer weights than one are to be kept."""
    if top is not None and top < 1:
        raise SettingError(f"top is {top}; expected at least 1.")


def is_followed(num_tokens: int) -> bool:
    """Whether a text is so short that all its weights are recorded, and attention is followed through the layers."""
    return num_tokens <= MOST_RECORDED


def recording(num_tokens: int, top: int | None) -> Trace:
    """Where the weights of a text are recorded: all of a short one, the strongest of a long one."""
    return Trace(top=None if is_followed(num_tokens) else top or TOP)


def shown_of(num_tokens: int, top: int | None) -> int | None:
    """How many of the strongest weights are shown of each token: all of a short text, some of a longer one."""
    return top if top is not None or num_tokens <= MOST_SHOWN else TOP


def layers_of(trace: Trace, num_tokens: int, top: int | None) -> list[Layer]:
    """What was recorded, as it is shown."""
    shown = shown_of(num_tokens, top)
    return [to_layer(weights, f"layer {place}", top=shown) for place, weights in enumerate(trace.weights, 1)]


def attention_at(
    place: int, num_tokens: int, layers: Trace, again: Callable[[Trace], object], who: str
) -> tuple[Attribution, ...]:
    """Attention as attributions, where the number is told at one token: of the last layer, and through all layers.

    Args:
        place: the token at which it is told.
        num_tokens: how many there are.
        layers: what was recorded, as `recording` says.
        again: the same computation, recorded into another trace; asked for where `layers` lacks weights of the token.
        who: that token, in words.
    """
    if not layers.weights:
        return ()
    is_short, whole = is_followed(num_tokens), layers
    if not is_short:
        whole = Trace(queries=[place])
        with torch.no_grad():
            again(whole)
    weights = whole.weights[-1]
    looked = weights.values.new_zeros(num_tokens)
    mine = weights.receivers == place
    looked.index_add_(0, weights.senders[mine], weights.values.flatten(0, -2)[:, mine].mean(0))
    about = f"Where {who} attends in the last layer: its weights, mean over heads."
    found = [Attribution("attention", looked.double().numpy(), False, about)]
    if is_short:
        followed = rollout(layers, queries=[place])
        heard = followed.values.new_zeros(num_tokens).index_add_(0, followed.senders, followed.values)
        about = f"Attention followed through all layers: how much of each token {who} could have heard."
        found.append(Attribution("rollout", heard.double().numpy(), False, about))
    return tuple(found)


def lost(questions: TokenQuestions, about: str) -> Attribution:
    """What is lost with each token, or with its share of a run of them; 0 for those that always stay."""
    num_tokens, groups = len(questions.stays), questions.groups()
    values = np.zeros(num_tokens)
    for group, effect in zip(groups, occlude(questions, num_tokens, groups), strict=True):
        values[group] = effect / len(group)
    return Attribution("occlusion", values, True, about)


def by_gradients(
    told: Sequence[Callable[[Tensor], Tensor]],
    vectors: Sequence[Float[Tensor, " token model_dim"]],
    baselines: Sequence[Float[Tensor, " token model_dim"]],
    hidden: str,
    beside: int = 0,
) -> tuple[Attribution, Attribution]:
    """Integrated gradients and gradient × input by the vectors of the tokens, mean over the members of an ensemble.

    Args:
        told: of each member, the number that is explained out of the vectors of the tokens.
        vectors: those of the text.
        baselines: those of a text that says nothing.
        hidden: what stands in that text, in words.
        beside: tokens that are read beside those.
    """
    points = max(POINTS[1], min(POINTS[0], POINT_TOKENS // max(len(vectors[0]) + beside, 1)))
    members = list(zip(told, vectors, baselines, strict=True))
    integrals = [integrated_gradients(function, given, nothing, points) for function, given, nothing in members]
    products = [gradient_times_input(function, given) for function, given, _ in members]
    of_integrals = f"Gradients by the token's vector on the way from that of {hidden}; they sum to the difference."
    of_products = "The gradient by the token's vector, times the vector."
    return (
        Attribution("integrated gradients", np.mean(integrals, axis=0), True, of_integrals),
        Attribution("gradient × input", np.mean(products, axis=0), True, of_products),
    )


def believed(questions: TokenQuestions, attributions: Sequence[Attribution]) -> Faithfulness | None:
    """How far each attribution can be believed, over the tokens that can be taken away; None where there is none."""
    units = questions.units
    if not len(units):
        return None
    curves = 2 * (len(attributions) + 1)
    steps = max(STEPS[1], min(STEPS[0], questions.most_parts * 2 // curves))

    def told(removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        return questions([units[places] for places in removed])

    own = [replace(each, values=each.values[units]) for each in attributions]
    return faithfulness(told, own, len(units), steps=steps)


def units_of(
    tokenizer: Tokenizer, numbers: np.ndarray, places: Sequence[tuple[str, int, int]], texts: dict[str, str]
) -> tuple[Unit, ...]:
    """The tokens as they stand in the text; those that stand for none by their names in the vocabulary.

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


def weight_notes(layers: Sequence[Layer], num_tokens: int) -> list[str]:
    """Which weights are not shown."""
    notes = []
    if tops := {layer.top for layer in layers if layer.top is not None}:
        notes.append(f"In each layer and head only the {tops.pop()} strongest weights of a token are kept.")
    if not is_followed(num_tokens) and any(not layer.is_readout for layer in layers):
        notes.append(
            f"Attention is not followed through the layers: the text has more than {MOST_RECORDED:,} tokens, and the "
            "weights that are not kept would be missing."
        )
    return notes


def run_notes(questions: TokenQuestions) -> list[str]:
    """Whether tokens were taken away by runs of them."""
    groups = questions.groups()
    if len(groups) == sum(len(group) for group in groups):
        return []
    return [f"Occlusion takes {len(groups)} runs of neighboring tokens away, and shares each effect out evenly."]


def unknown_notes(tokenizer: Tokenizer, numbers: np.ndarray) -> list[str]:
    """Whether the vocabulary lacks some of the tokens."""
    unknown = tokenizer.unknown
    if not (count := 0 if unknown is None else int((numbers == unknown).sum())):
        return []
    is_are = "is" if count == 1 else "are"
    return [f"Of the tokens {count:,} {is_are} not in the vocabulary; to the model all that are not are the same."]


def nothing_of(tokenizer: Tokenizer) -> int:
    """What stands for a text of which nothing is left: what the vocabulary lacks, else an end."""
    known = (tokenizer.unknown, tokenizer.end, tokenizer.padding)
    return next((number for number in known if number is not None), 0)
