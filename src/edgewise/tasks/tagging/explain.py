"""Sentences with tags, explained: the tag of one word, where the model attends, and what the other words change."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from edgewise.explanation import Attribution, Explanation, Layer, Told
from edgewise.plural import plural
from edgewise.tasks.tagging.perturbation import WordTag, WrittenSentence, prediction_words
from edgewise.tasks.tagging.trained import TrainedTagger, packed
from edgewise.tasks.token_methods import (
    attention_at,
    believed,
    by_gradients,
    check_top,
    layers_of,
    lost,
    recording,
    run_notes,
    units_of,
    unknown_notes,
    weight_notes,
)
from edgewise.tasks.token_perturbation import TokenQuestions, shortened
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

MOST_TOLD = 200
"""Words whose tags stand in an explanation; of a longer sentence those around the word that is explained."""


def explain_sentence(
    trained: TrainedTagger,
    sentence: str | Sequence[str],
    *,
    target: Any = None,
    label: Any = None,
    top: int | None = None,
) -> Explanation:
    """The tags of a sentence, and for one word where the model attended and what changes its tag.

    Args:
        trained: the model.
        sentence: a text whose words stand between spaces, or a list of words.
        target: the word that is explained: its name (`2 Paris`), its place counted from 1, or the word itself where it
            stands once; by default the first with a tag other than that of most words, else the first.
        label: the tag whose probability is explained; the told one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of sentences of up to
            256 tokens, else 8.

    Raises:
        DataError: there is no word.
        SettingError: there is no such word or tag, or `top` is below 1.

    Cost: a prediction for every token that the model reads with the word.
    """
    check_top(top)
    written = WrittenSentence.of(sentence)
    (told,) = prediction_words(trained, [written])
    explained = WordTag.chosen(trained, written, told, target, label)
    piece, questions = explained.piece, TokenQuestions(explained.stays, explained.of_kept)
    size, trace = len(piece.numbers), recording(len(piece.numbers), top)
    with torch.no_grad(), cpu_threads(trained.threads):
        trained.model(packed([piece]), trace)
    with cpu_threads(trained.threads):
        layers = layers_of(trace, size, top)
        attributions = _attributions(explained, questions, trace)
        faithfulness = believed(questions, attributions)
    source = trained.names[0]
    starts, stops = (written.in_text(side).tolist() for side in (piece.starts, piece.stops))
    near, told_note = _near(told, explained.name)
    return Explanation(
        kind="text",
        title=shortened(written.text),
        sources={source: written.text},
        told=near,
        explained=explained.explained,
        units=units_of(
            trained.tokenizer,
            piece.numbers,
            [(source, start, stop) for start, stop in zip(starts, stops, strict=True)],
            {source: written.text},
        ),
        layers=tuple(layers),
        attributions=attributions,
        faithfulness=faithfulness,
        notes=(*told_note, *_notes(explained, written, layers), *run_notes(questions)),
    )


def _near(told: Sequence[Told], name: str) -> tuple[tuple[Told, ...], list[str]]:
    """The tags of the words around one, and a note where there are more."""
    if len(told) <= MOST_TOLD:
        return tuple(told), []
    place = [each.name for each in told].index(name)
    begin = min(max(0, place - MOST_TOLD // 2), len(told) - MOST_TOLD)
    note = f"The sentence has {plural(len(told), 'word')}; the tags of the {MOST_TOLD} around {name} are shown."
    return tuple(told[begin : begin + MOST_TOLD]), [note]


def _attributions(explained: WordTag, questions: TokenQuestions, trace: Trace) -> tuple[Attribution, ...]:
    """How much each token matters, by every method; the first is what is shown first."""
    trained, piece = explained.trained, explained.piece
    model, batch, size = trained.model, packed([piece]), len(piece.numbers)
    attention = attention_at(explained.head, size, trace, partial(model, batch), f"the word {explained.name}")
    hidden = trained.hidden
    about = "The probability less that without the token; the word itself "
    about += "always stays, with 0." if hidden is None else f"becomes {trained.tokenizer.written(hidden)} instead."
    vectors = model.encoder.embedding(batch.tokens).detach()
    nothing = torch.zeros_like(vectors[:1]) if hidden is None else model.encoder.embedding.weight[[hidden]].detach()
    name = "zeros" if hidden is None else trained.tokenizer.written(hidden)
    told = partial(explained.of_vectors, batch)
    gradients = by_gradients([told], [vectors], [nothing.expand_as(vectors)], name)
    return (lost(questions, about), *gradients, *attention)


def _notes(explained: WordTag, sentence: WrittenSentence, layers: Sequence[Layer]) -> list[str]:
    """What else is read, what is not shown, and what becomes of the word itself."""
    trained, piece, notes = explained.trained, explained.piece, []
    if len(piece.words) < len(sentence.words):
        names = sentence.names()
        first, last = names[piece.words[0]], names[piece.words[-1]]
        notes.append(
            f"The model reads at most {trained.model.settings.context:,} tokens at once: with {explained.name} the "
            f"words from {first} to {last}, and only they are explained."
        )
    notes += [*unknown_notes(trained.tokenizer, piece.numbers), *weight_notes(layers, len(piece.numbers))]
    if trained.hidden is None:
        notes.append(f"Occlusion leaves out the word {explained.name} itself: nothing can stand in its place.")
    else:
        name = trained.tokenizer.written(trained.hidden)
        notes.append(f"Occlusion cannot take the word {explained.name} itself away: {name} stands in its place.")
    return notes
