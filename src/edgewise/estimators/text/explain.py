"""Texts, explained: where the model attends, and what the prediction loses with each token, sentence and column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from edgewise.data.texts import texts_from_arrays
from edgewise.errors import DataError, SettingError
from edgewise.estimators.explained import Explained
from edgewise.estimators.text.question import TextQuestions, sentences, shortened, whole
from edgewise.estimators.text.tokens import RowTokens
from edgewise.estimators.text.trained import TrainedTexts
from edgewise.estimators.told import told_of
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.heads import to_layer
from edgewise.explain.occlusion import occlude
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Explanation, Faithfulness, Layer, Part, Unit
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

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


def explain_text(
    trained: TrainedTexts,
    texts: str | Sequence[str],
    *,
    target: str | None = None,
    label: Any = None,
    top: int | None = None,
) -> Explanation:
    """What is told of a row of texts, where the model attended, and what changes the prediction.

    Weights are those of the computation that made the prediction; of an ensemble they are its first member's, and all
    other numbers are means over the members. Memory stays linear in the length of a text of more than 1,024 tokens.

    Args:
        trained: the ensemble.
        texts: one for each text column; a string where there is one.
        target: the target that is explained; the first by default.
        label: the class whose probability is explained; the predicted one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of texts of up to 256
            tokens, else 8.

    Raises:
        DataError: a text is empty, or there are more or fewer than the model reads.
        SettingError: there is no such target or class, or `top` is below 1.

    Cost: a prediction for every token of a text of up to 512 tokens; of longer ones parts are taken away, so that it
        grows with their length no faster than a few dozen predictions do.
    """
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    names = trained.columns.text_columns
    if len(texts) != len(names):
        raise DataError(f"{len(texts)} texts were given, but the model reads {len(names)}: {', '.join(names)}.")
    if top is not None and top < 1:
        raise SettingError(f"top is {top}; expected at least 1.")
    table = texts_from_arrays(np.array([texts], dtype=object))
    if not table.usable[0]:
        raise DataError(f"{names[0]}: the text is empty.")
    row = trained.row_tokens(texts)
    recorded = _recorded(trained, row, top)
    outputs = np.stack([each.output for each in recorded])
    told = told_of(trained, trained.said(outputs, np.zeros(1, dtype=np.int64), 1))
    explained = Explained.chosen(trained, told, target, label)
    questions = TextQuestions(explained, row, _nothing(trained))
    with cpu_threads(trained.threads):
        layers, attention = _attended(recorded, row, top)
        lost, groups = _lost(questions), questions.groups()
        attributions = (*attention, lost, *_gradients(explained, row))
        parts, part_note = _parts(questions, texts, names)
        found = _faithfulness(questions, attributions)
    notes = [*_notes(trained, row, layers), *([part_note] if part_note else [])]
    if len(groups) < sum(len(group) for group in groups):
        notes.append(
            f"Occlusion takes {len(groups)} runs of neighboring tokens away, and shares each effect out evenly."
        )
    return Explanation(
        kind="text",
        title=shortened(" ".join(texts)),
        sources=dict(zip(names, texts, strict=True)),
        told=told,
        explained=explained.name,
        units=_units(trained, row, texts),
        layers=layers,
        attributions=attributions,
        parts=parts,
        faithfulness=found,
        notes=tuple(notes),
    )


def _units(trained: TrainedTexts, row: RowTokens, texts: Sequence[str]) -> tuple[Unit, ...]:
    """The tokens as they stand in the text; those that stand for none by their names in the vocabulary."""
    units = []
    names, special = trained.columns.text_columns, row.is_special
    for place, (column, start, stop) in enumerate(
        zip(row.columns.tolist(), row.starts.tolist(), row.stops.tolist(), strict=True)
    ):
        written = texts[column][start:stop]
        name = trained.tokenizer.inner.id_to_token(int(row.numbers[place])) if special[place] else written
        units.append(Unit(name or written, names[column], start, stop))
    return tuple(units)


@dataclass(frozen=True, eq=False)
class _Recorded:
    """What one member said, and what it attended to."""

    output: Float[np.ndarray, " 1 output"]
    """What it said, finished."""
    layers: Trace
    """Tokens to tokens."""
    readout: Trace
    """The whole to its tokens, all of them; empty where it is read out without attention."""


def _recorded(trained: TrainedTexts, row: RowTokens, top: int | None) -> list[_Recorded]:
    """One computation a member: all weights of a short text, the strongest of a long one."""
    found = []
    with torch.no_grad(), cpu_threads(trained.threads):
        for member in trained.members:
            layers, readout = Trace(top=None if len(row) <= MOST_RECORDED else top or TOP), Trace()
            output = member(whole(row), layers, readout_trace=readout)
            found.append(_Recorded(trained.finish(output.double()).numpy(), layers, readout))
    return found


def _attended(
    recorded: Sequence[_Recorded], row: RowTokens, top: int | None
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...]]:
    """The layers of the first member, and attention as an attribution: of the readout, and through all layers."""
    is_short = len(row) <= MOST_RECORDED
    shown = top if top is not None or len(row) <= MOST_SHOWN else TOP
    first = recorded[0]
    layers = [to_layer(weights, f"layer {place}", top=shown) for place, weights in enumerate(first.layers.weights, 1)]
    layers += [to_layer(weights, "readout", is_readout=True) for weights in first.readout.weights]
    looked = [weights.to_dense().mean(0)[0].double() for each in recorded for weights in each.readout.weights]
    attributions = []
    if looked:
        about = "Where the readout, which makes one vector of the text, attends: its weights, mean over heads."
        attributions.append(Attribution("attention", torch.stack(looked).mean(0).numpy(), False, about))
    if is_short and first.layers.weights:
        even = torch.full((len(row),), 1 / len(row), dtype=torch.float64)
        followed = [
            from_top @ rollout(each.layers).to_dense().double()
            for each, from_top in zip(recorded, looked or [even] * len(recorded), strict=True)
        ]
        about = "Attention followed through all layers: how much of each token the readout could have heard."
        attributions.append(Attribution("rollout", torch.stack(followed).mean(0).numpy(), False, about))
    return tuple(layers), tuple(attributions)


def _lost(questions: TextQuestions) -> Attribution:
    """What is lost with each token, or with its share of a run of them."""
    values, groups = np.zeros(len(questions.row)), questions.groups()
    for group, effect in zip(groups, occlude(questions, len(questions.row), groups), strict=True):
        values[group] = effect / len(group)
    about = "The prediction less the prediction without the token. Tokens that stand for no text always stay, with 0."
    return Attribution("occlusion", values, True, about)


def _gradients(explained: Explained, row: RowTokens) -> tuple[Attribution, ...]:
    """By the vectors of the tokens, mean over the members."""
    trained, batch = explained.trained, whole(row)
    points = max(POINTS[1], min(POINTS[0], POINT_TOKENS // max(len(row), 1)))
    integrals, products = [], []
    for member in trained.members:
        vectors = member.encoder.embedding(batch.tokens).detach()
        # A token that is hidden in training says nothing; those that stand for no text say that always.
        nothing = torch.zeros_like(vectors[:1])
        if member.unknown is not None:
            nothing = member.encoder.embedding.weight[member.unknown].detach()[None]
        baseline = torch.where(torch.from_numpy(row.is_special)[:, None], vectors, nothing)

        def told(vectors: torch.Tensor, member: Any = member) -> torch.Tensor:
            return explained.of_scores(member(batch, vectors=vectors)).squeeze(0)

        integrals.append(integrated_gradients(told, vectors, baseline, points))
        products.append(gradient_times_input(told, vectors))
    hidden = "a hidden token" if trained.members[0].unknown is not None else "zeros"
    return (
        Attribution(
            "integrated gradients",
            np.mean(integrals, axis=0),
            True,
            f"Gradients by the token's vector on the way from that of {hidden}; they sum to the difference.",
        ),
        Attribution(
            "gradient × input",
            np.mean(products, axis=0),
            True,
            "The gradient by the token's vector, times the vector.",
        ),
    )


def _parts(questions: TextQuestions, texts: Sequence[str], names: Sequence[str]) -> tuple[tuple[Part, ...], str]:
    """Sentences and columns, where there are several, with what is lost without each; and what was left out."""
    row, note = questions.row, ""
    found = list(sentences(texts, names, row))
    if len(found) > questions.most_parts:
        longest = sorted(range(len(found)), key=lambda place: -len(found[place].units))[: questions.most_parts]
        note = f"Of {len(found)} sentences the {len(longest)} longest were taken away."
        found = [found[place] for place in sorted(longest)]
    found = found if len(found) > 1 else []
    if len(names) > 1:
        for place, name in enumerate(names):
            units = np.flatnonzero((row.columns == place) & ~row.is_special)
            if len(units):
                found.append(Part(name, "column", tuple(units.tolist()), 0.0))
    effects = occlude(questions, len(row), [part.units for part in found])
    return tuple(replace(part, effect=float(effect)) for part, effect in zip(found, effects, strict=True)), note


def _faithfulness(questions: TextQuestions, attributions: Sequence[Attribution]) -> Faithfulness | None:
    """How far each attribution can be believed, over the tokens that can be taken away."""
    units = np.flatnonzero(~questions.row.is_special)
    if not len(units):
        return None
    curves = 2 * (len(attributions) + 1)
    steps = max(STEPS[1], min(STEPS[0], questions.most_parts * 2 // curves))

    def told(removed: Sequence[np.ndarray]) -> Float[np.ndarray, " question"]:
        return questions([units[places] for places in removed])

    return faithfulness(
        told, [replace(each, values=each.values[units]) for each in attributions], len(units), steps=steps
    )


def _notes(trained: TrainedTexts, row: RowTokens, layers: Sequence[Layer]) -> list[str]:
    """What was cut, and what is not shown."""
    notes = []
    if row.num_cut:
        notes.append(
            f"The text has {len(row) + row.num_cut:,} tokens; the model reads the first {len(row):,}, and only they "
            "are explained."
        )
    unknown = trained.tokenizer.unknown
    if num_unknown := 0 if unknown is None else int((row.numbers == unknown).sum()):
        is_are = "is" if num_unknown == 1 else "are"
        notes.append(
            f"Of the tokens {num_unknown:,} {is_are} not in the vocabulary; to the model all that are not are the same."
        )
    if tops := {layer.top for layer in layers if layer.top is not None}:
        notes.append(f"In each layer and head only the {tops.pop()} strongest weights of a token are kept.")
    if len(row) > MOST_RECORDED and any(not layer.is_readout for layer in layers):
        notes.append(
            f"Attention is not followed through the layers: the text has more than {MOST_RECORDED:,} tokens, and the "
            "weights that are not kept would be missing."
        )
    if len(trained.members) > 1:
        notes.append(f"Weights are those of the first of {len(trained.members)} models; other numbers are their means.")
    return notes


def _nothing(trained: TrainedTexts) -> int:
    """What stands for a text of which nothing is left: what the vocabulary lacks, else an end."""
    tokenizer = trained.tokenizer
    known = (tokenizer.unknown, tokenizer.end, tokenizer.padding)
    return next((number for number in known if number is not None), 0)
