"""Texts, explained: where the model attends, and what the prediction loses with each token, sentence and column."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.data.texts.table import texts_from_arrays
from edgewise.errors import DataError
from edgewise.explain.heads import to_layer
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Explanation, Layer, Part, Unit
from edgewise.plural import plural
from edgewise.records import TextRows
from edgewise.tasks.explained import Explained
from edgewise.tasks.targets import told_of
from edgewise.tasks.texts.perturbation import sentence_parts, text_rows, whole, with_effects
from edgewise.tasks.texts.tokens import RowTokens
from edgewise.tasks.texts.trained import TrainedTexts
from edgewise.tasks.token_methods import (
    believed,
    by_gradients,
    check_top,
    is_followed,
    layers_of,
    lost,
    nothing_of,
    recording,
    run_notes,
    units_of,
    unknown_notes,
    weight_notes,
)
from edgewise.tasks.token_perturbation import TokenQuestions, shortened
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads


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
        raise DataError(
            f"{plural(len(texts), 'text was', 'texts were')} given, but the model reads "
            f"{len(names)}: {', '.join(names)}."
        )
    check_top(top)
    table = texts_from_arrays(np.array([texts], dtype=object))
    if not table.usable[0]:
        raise DataError(f"{names[0]}: the text is empty.")
    row = trained.row_tokens(texts)
    recorded = _recorded(trained, row, top)
    outputs = np.stack([each.output for each in recorded])
    told = told_of(trained, trained.said(outputs, np.zeros(1, dtype=np.int64), 1))
    explained = Explained.chosen(trained, told, target, label)
    nothing = nothing_of(trained.tokenizer)
    questions = TokenQuestions(row.is_special, lambda kept: explained.of_batch(text_rows(row, kept, nothing)))
    with cpu_threads(trained.threads):
        layers, attention = _attended(recorded, row, top)
        about = (
            "The prediction less the prediction without the token. Tokens that stand for no text always stay, with 0."
        )
        attributions = (lost(questions, about), *_gradients(explained, row), *attention)
        parts, part_note = _parts(questions, row, texts, names)
        found = believed(questions, attributions)
    notes = [*_notes(trained, row, layers), *([part_note] if part_note else []), *run_notes(questions)]
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
    """The tokens as they stand in the text."""
    names = trained.columns.text_columns
    columns = [names[column] for column in row.columns]
    places = list(zip(columns, row.starts.tolist(), row.stops.tolist(), strict=True))
    return units_of(trained.tokenizer, row.numbers, places, dict(zip(names, texts, strict=True)))


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
            layers, readout = recording(len(row), top), Trace()
            output = member(whole(row), layers, readout_trace=readout)
            found.append(_Recorded(trained.finish(output.double()).numpy(), layers, readout))
    return found


def _attended(
    recorded: Sequence[_Recorded], row: RowTokens, top: int | None
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...]]:
    """The layers of the first member, and attention as an attribution: of the readout, and through all layers."""
    is_short = is_followed(len(row))
    first = recorded[0]
    layers = layers_of(first.layers, len(row), top)
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


def _gradients(explained: Explained, row: RowTokens) -> tuple[Attribution, ...]:
    """By the vectors of the tokens, mean over the members."""
    trained, batch = explained.trained, whole(row)
    told, vectors, baselines = [], [], []
    for member in trained.members:
        given = member.encoder.embedding(batch.tokens).detach()
        # A token that is hidden in training says nothing; those that stand for no text say that always.
        nothing = torch.zeros_like(given[:1])
        if member.unknown is not None:
            nothing = member.encoder.embedding.weight[member.unknown].detach()[None]
        vectors.append(given)
        baselines.append(torch.where(torch.from_numpy(row.is_special)[:, None], given, nothing))
        told.append(partial(_told, explained, member, batch))
    return by_gradients(
        told, vectors, baselines, "a hidden token" if trained.members[0].unknown is not None else "zeros"
    )


def _told(explained: Explained, member: Any, batch: TextRows, vectors: Tensor) -> Tensor:
    """The number that one member tells out of the vectors of the tokens."""
    return explained.of_scores(member(batch, vectors=vectors)).squeeze(0)


def _parts(
    questions: TokenQuestions, row: RowTokens, texts: Sequence[str], names: Sequence[str]
) -> tuple[tuple[Part, ...], str]:
    """Sentences and columns, where there are several, with what is lost without each; and what was left out."""
    found, note = sentence_parts(questions, texts, names, row)
    if len(names) > 1:
        for place, name in enumerate(names):
            units = np.flatnonzero((row.columns == place) & ~row.is_special)
            if len(units):
                found.append(Part(name, "column", tuple(units.tolist()), 0.0))
    return with_effects(questions, found), note


def _notes(trained: TrainedTexts, row: RowTokens, layers: Sequence[Layer]) -> list[str]:
    """What was cut, and what is not shown."""
    notes = []
    if row.num_cut:
        notes.append(
            f"The text has {plural(len(row) + row.num_cut, 'token')}; the model reads the first "
            f"{len(row):,}, and only they "
            "are explained."
        )
    notes += [*unknown_notes(trained.tokenizer, row.numbers), *weight_notes(layers, len(row))]
    if len(trained.members) > 1:
        notes.append(f"Weights are those of the first of {len(trained.members)} models; other numbers are their means.")
    return notes
