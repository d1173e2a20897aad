"""Translations, explained: where the model looks as it writes, and what in the sentence makes what it writes likely."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from edgewise.explain.heads import to_layer
from edgewise.explain.rollout import rollout
from edgewise.explanation import Attribution, Explanation, Layer, Told, Unit
from edgewise.models.translation import TranslationModel
from edgewise.plural import plural
from edgewise.tasks.texts.perturbation import sentence_parts, with_effects
from edgewise.tasks.token_methods import (
    MOST_RECORDED,
    believed,
    by_gradients,
    check_top,
    is_followed,
    lost,
    recording,
    run_notes,
    shown_of,
)
from edgewise.tasks.token_perturbation import shortened
from edgewise.tasks.translation.perturbation import (
    AskedTranslation,
    Translated,
    begun,
    log_probabilities,
    place_of,
)
from edgewise.tasks.translation.trained import TrainedTranslation
from edgewise.trace import Trace, Weights
from edgewise.train.device import cpu_threads

TOLD, MEAN = "translation", "mean ln p"
"""What is told of a sentence: its translation, and how likely the model finds it."""
NOTHING = "(an empty text)"
"""What a translation of no words is called where it is told."""


LOST = "What is told of this translation less what is told of it without the token; the source's end stays, with 0."


def explain_translation(
    trained: TrainedTranslation, text: str, *, target: str | int | None = None, top: int | None = None
) -> Explanation:
    """The translation of a sentence, where the model looked as it wrote, and what changes how likely it is.

        mean ln p     1/T Σ_t ln p(y_t | y_<t, x)        of the whole translation, its end included
        p             p(y_t | y_<t, x)                   of one of its tokens

    The translation y is found once; all numbers are then told of it, its tokens given, whatever becomes of the source
    x. Units are the tokens of the source with its end, the beginning of the translation, and its tokens with its end.
    Attributions are of the source's tokens, NaN for those of the translation. In the decoder and in cross-attention,
    who attends is the token that is being written, and whom it attends to in the decoder are those read before it.

    Args:
        trained: the model.
        text: the sentence.
        target: which token of the translation is explained: its place, counted from 0, also in words; or the token
            itself where it stands once. By default, and with `translation`, all of it.
        top: how many of the strongest weights of each token and head are kept; by default all where sentence and
            translation have up to 256 tokens, else 8.

    Raises:
        DataError: the sentence is empty, or longer than the model reads.
        SettingError: the translation has no such token, or several, or `top` is below 1.

    Cost: one search, and the scores of one translation for every token of a sentence of up to 512 tokens; of longer
        ones parts are taken away, so that it grows with their length no faster than a few dozen translations do.
    """
    check_top(top)
    (translated,) = Translated.of(trained, [text])
    place = place_of(target, translated.names(trained.tokenizer), TOLD)
    asked = AskedTranslation(trained, translated, place)
    questions = asked.questions
    with cpu_threads(trained.threads):
        layers, attention = _attended(trained, translated, place, top)
        of_source = (lost(questions, LOST), *_gradients(asked), *attention)
        parts, part_note = sentence_parts(questions, [text], [trained.names[0]], translated.source)
        parts_without = with_effects(questions, parts)
        found = believed(questions, of_source)
    nothing = np.full(len(translated) + 1, np.nan)
    source, written = trained.names[0], written_name(trained)
    return Explanation(
        kind="text",
        title=shortened(text),
        sources={source: text, written: translated.text},
        told=told_of(trained, [translated])[0],
        explained=_explained(translated.names(trained.tokenizer), place),
        units=_units(trained, translated, text),
        layers=layers,
        attributions=tuple(replace(each, values=np.concatenate([each.values, nothing])) for each in of_source),
        parts=parts_without,
        faithfulness=found,
        notes=(*_notes(asked, layers), *([part_note] if part_note else []), *run_notes(questions)),
    )


def told_of(trained: TrainedTranslation, translated: Sequence[Translated]) -> list[tuple[Told, ...]]:
    """What is told of some sentences: the translation as the label, and as the value how likely the model finds it.

    The value, which has a name of its own too, is the mean over the tokens of ln p of each given those before it; 0 is
    certain. Without words the label is `NOTHING`, as an empty one would say that a number is told.
    """
    written = [each.numbers for each in translated]
    found = log_probabilities(trained, [each.source.numbers for each in translated], written)
    values = [float(each.mean()) for each in found]
    labels = [each.text or NOTHING for each in translated]
    return [(Told(TOLD, value, label), Told(MEAN, value)) for label, value in zip(labels, values, strict=True)]


def written_name(trained: TrainedTranslation) -> str:
    """What the translation is called among the texts of an explanation; the source is called as its column."""
    return TOLD if trained.names[0] != TOLD else f"{TOLD} of it"


def _explained(names: Sequence[str], place: int | None) -> str:
    if place is None:
        return f"{MEAN} of the translation"
    return f"p of {names[place].strip()!r}, token {place} of the translation"


def _units(trained: TrainedTranslation, translated: Translated, text: str) -> tuple[Unit, ...]:
    """The tokens of both texts as they stand there; those that stand for no text by their names."""
    source, written, row = trained.names[0], written_name(trained), translated.source
    end = str(trained.tokenizer.inner.id_to_token(trained.end))
    places = list(zip(row.starts.tolist(), row.stops.tolist(), strict=True))
    read = [Unit(text[start:stop] or end, source, start, stop) for start, stop in places]
    places = list(zip(translated.starts.tolist(), translated.stops.tolist(), strict=True))
    told = zip(translated.names(trained.tokenizer), places, strict=True)
    return (*read, Unit("<begin>", written), *(Unit(name, written, *place) for name, place in told))


@dataclass(frozen=True, eq=False)
class _Recorded:
    """What a model attended to as it wrote."""

    encoder: list[Weights]
    """Tokens of the source to each other, layer by layer; none where a recurrent network reads."""
    decoder: list[Weights]
    """The tokens that are written to those read before them; none where a recurrent network writes."""
    cross: list[Weights]
    """The tokens that are written to those of the source: all weights."""


def _recorded(trained: TrainedTranslation, translated: Translated, top: int | None) -> _Recorded:
    """One computation of the translation's scores, its tokens given."""
    model, source = trained.model, torch.from_numpy(translated.source.numbers)[None]
    lengths, tokens = torch.tensor([source.shape[1]]), torch.from_numpy(begun(translated.numbers, trained.end))[None]
    writing = Trace()
    with torch.no_grad():
        if isinstance(model, TranslationModel):
            reading = recording(source.shape[1], top)
            model.write(tokens, model.read(source, lengths, trace=reading), lengths, trace=writing)
            return _Recorded(reading.weights, writing.weights[::2], writing.weights[1::2])
        model.write(tokens, model.read(source, lengths), lengths, trace=writing)
        return _Recorded([], [], [_joined(writing.weights)])


def _joined(words: Sequence[Weights]) -> Weights:
    """The weights of one word after the other as those of one layer."""
    first = np.cumsum([0, *(each.num_receivers for each in words)])
    return Weights(
        torch.cat([each.senders for each in words]),
        torch.cat([each.receivers + int(start) for each, start in zip(words, first, strict=False)]),
        torch.cat([each.values for each in words], dim=-1),
        words[0].num_senders,
        int(first[-1]),
    )


def _attended(
    trained: TrainedTranslation, translated: Translated, place: int | None, top: int | None
) -> tuple[tuple[Layer, ...], tuple[Attribution, ...]]:
    """The layers, and attention as an attribution: that across, and followed through the layers of the encoder."""
    recorded, size = _recorded(trained, translated, top), len(translated.source)
    shown = shown_of(size + len(translated) + 1, top)
    layers = [to_layer(weights, f"encoder {place}", top=shown) for place, weights in enumerate(recorded.encoder, 1)]
    for number, weights in enumerate(recorded.cross, 1):
        # A token is written after those before it were read: the first after the beginning, which is unit `size`.
        for decoder in recorded.decoder[number - 1 : number]:
            layers.append(_moved(to_layer(decoder, f"decoder {number}", top=shown), size, size + 1))
        layers.append(_moved(to_layer(weights, f"cross {number}", top=shown), 0, size + 1))
    tables = torch.stack([weights.to_dense().reshape(-1, len(translated), size).mean(0) for weights in recorded.cross])
    looked = tables.mean(0).double() if place is None else tables.mean(0)[place : place + 1].double()
    of_whom = "the tokens that are written" if place is None else "the token that is written"
    about = f"Where {of_whom} looked in the source: the weights of cross-attention, mean over layers and heads."
    attributions = [Attribution("attention", looked.mean(0).numpy(), False, about)]
    if recorded.encoder and is_followed(size):
        followed = looked.mean(0) @ rollout(recorded.encoder).to_dense().double()[0]
        about = "Attention followed on through the encoder: how much of each token it could have heard."
        attributions.append(Attribution("rollout", followed.numpy(), False, about))
    return tuple(layers), tuple(attributions)


def _moved(layer: Layer, senders: int, receivers: int) -> Layer:
    """A layer whose units stand behind others."""
    return replace(layer, senders=layer.senders + senders, receivers=layer.receivers + receivers)


def _gradients(asked: AskedTranslation) -> tuple[Attribution, ...]:
    """By the vectors of the source's tokens."""
    embedding, end = asked.trained.model.embedding, asked.trained.end
    vectors = embedding(torch.from_numpy(asked.translated.source.numbers)).detach()
    # Zeros would not do: a transformer that normalizes what comes in does not see how long a vector is, so that all
    # would change at the very beginning of the way.
    baseline = embedding.weight[end].detach().expand_as(vectors)
    return by_gradients([asked.of_vectors], [vectors], [baseline], "an end", beside=len(asked.translated))


def _notes(asked: AskedTranslation, layers: Sequence[Layer]) -> list[str]:
    """How to read the numbers, what was cut, and what is not shown."""
    trained, translated = asked.trained, asked.translated
    notes = [
        "ln p is of the translation that the model gives, each token given those before it; its tokens stay the same "
        "while those of the source are taken away, and have no attributions of their own."
    ]
    if translated.is_cut:
        notes.append(
            f"The translation was cut after {plural(len(translated), 'token')}, the most that the search goes."
        )
    elif not translated.text:
        notes.append("The translation is an empty text: the model writes its end at once.")
    if tops := {layer.top for layer in layers if layer.top is not None}:
        notes.append(f"In each layer and head only the {tops.pop()} strongest weights of a token are kept.")
    if not is_followed(len(translated.source)) and isinstance(trained.model, TranslationModel):
        notes.append(
            f"Attention is not followed through the encoder: the source has more than {MOST_RECORDED:,} tokens, and "
            "the weights that are not kept would be missing."
        )
    return notes
