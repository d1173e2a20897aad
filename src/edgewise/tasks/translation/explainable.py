"""Sentences to be translated, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attended, Attention, Differentiable
from edgewise.explain.heads import to_layer
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Explanation, Layer, Part, TargetPrediction, Unit
from edgewise.models.translation import TranslationModel
from edgewise.plural import plural
from edgewise.tasks.explainable import ExplainableModel
from edgewise.tasks.texts.tokens import status_of
from edgewise.tasks.token_explainable import MAX_RECORDED, Kept, TokenExplainable, shortened
from edgewise.tasks.translation.perturbation import (
    Translated,
    decoder_input,
    log_probabilities,
    of_scores,
    place_of,
    too_long,
)
from edgewise.tasks.translation.trained import TrainedTranslation
from edgewise.trace import Trace, Weights
from edgewise.train.device import cpu_threads

WHOLE, MEAN = "translation", "mean ln p"
"""The predictions for a sentence: its translation, and how likely the model finds it."""
NOTHING = "(an empty text)"
"""The label of a translation without words."""


def explain_translation(
    trained: TrainedTranslation,
    text: str,
    *,
    target: str | int | None = None,
    top: int | None = None,
    methods: Choice = None,
) -> Explanation:
    """The translation of a sentence, where the model attends as it writes, and what changes how likely it is.

        mean ln p     1/T Σ_t ln p(y_t | y_<t, x)        of the whole translation, its end included
        p             p(y_t | y_<t, x)                   of one of its tokens

    The translation y is found once; all numbers are then of it, its tokens given, whatever becomes of the source x.
    Units are the tokens of the source with its end, the beginning of the translation, and its tokens with its end.
    Attributions are of the source's tokens, NaN for those of the translation. In the decoder and in cross-attention,
    the receiver is the token that is being written, and its senders in the decoder are the tokens read before it.

    Args:
        trained: the model.
        text: the sentence.
        target: which token of the translation is explained: its place, counted from 0, also in words; or the token
            itself where it stands once. By default, and with `translation`, all of it.
        top: how many of the strongest weights of each token and head are kept; by default all where sentence and
            translation have up to 256 tokens, else 8.
        methods: names of methods; see `edgewise.explain.methods`.

    Raises:
        DataError: the sentence is empty, or longer than the model reads.
        SettingError: the translation has no such token, or several, there is no such method, or `top` is below 1.

    Cost: one search, and the scores of one translation for every token of a sentence of up to 512 tokens; of longer
        ones groups are removed, so that it grows with their length no faster than a few dozen translations do.
    """
    with cpu_threads(trained.threads):
        return explain(TranslationItem(trained, text, target, top), methods)


class TranslationItem(TokenExplainable):
    """A sentence and its translation; the translation stays as it is while tokens of the sentence are removed."""

    about = "The number less that of the same translation without the token; the source's end stays, with 0."

    def __init__(self, trained: TrainedTranslation, text: str, target: str | int | None, top: int | None):
        (self.translated,) = Translated.of(trained, [text])
        super().__init__(self.translated.source.is_special, top, beside=len(self.translated))
        self.trained, self.text = trained, text
        self.names = self.translated.names(trained.tokenizer)
        self.place = place_of(target, self.names, WHOLE)
        self.source = torch.from_numpy(self.translated.source.numbers)[None]
        self.input = torch.from_numpy(decoder_input(self.translated.numbers, trained.end))[None]

    def predict_kept(self, kept: Sequence[Kept]) -> Float64[np.ndarray, " list"]:
        """The number where some tokens of the source are left."""
        sources = [self.translated.source.numbers[left] for left in kept]
        found = log_probabilities(self.trained, sources, [self.translated.numbers] * len(sources))
        return np.array([each.mean() if self.place is None else np.exp(each[self.place]) for each in found])

    def differentiable(self) -> list[Differentiable]:
        """By the vectors of the source's tokens."""
        embedding, end = self.trained.model.embedding, self.trained.end
        vectors = embedding(self.source[0]).detach()
        # Zeros would not do: a transformer that normalizes its input does not see how long a vector is, so that all
        # would change at the very beginning of the way.
        baseline = embedding.weight[end].detach().expand_as(vectors)
        return [Differentiable(self._of_vectors, vectors, baseline, None, ("the vector", "that of an end"))]

    def _of_vectors(self, vectors: Float[Tensor, " key model_dim"]) -> Float[Tensor, ""]:
        model, lengths = self.trained.model, torch.tensor([self.source.shape[1]])
        scores = model.write(self.input, model.read(self.source, lengths, vectors=vectors[None]), lengths)
        found = of_scores(scores, torch.from_numpy(self.translated.numbers)[None]).squeeze(0)
        return found.mean() if self.place is None else found[self.place].exp()

    def trace(self) -> Attention:
        """Encoder, decoder and cross-attention; the attribution is across, and through the encoder."""
        encoder, decoder, cross = self._recorded()
        size, steps = self.num_units, len(self.translated)
        shown = self.shown(size + steps + 1)
        layers = [to_layer(weights, f"encoder {place}", top=shown) for place, weights in enumerate(encoder, 1)]
        for number, weights in enumerate(cross, 1):
            # A token is written after those before it were read: the first after the beginning, which is unit `size`.
            for between in decoder[number - 1 : number]:
                layers.append(_moved(to_layer(between, f"decoder {number}", top=shown), size, size + 1))
            layers.append(_moved(to_layer(weights, f"cross {number}", top=shown), 0, size + 1))
        tables = torch.stack([weights.to_dense().reshape(-1, steps, size).mean(0) for weights in cross]).mean(0)
        direct = (tables if self.place is None else tables[self.place : self.place + 1]).double().mean(0)
        who = "the tokens that are written attend" if self.place is None else "the token that is written attends"
        below = [replace(each, values=each.values[0]) for each in encoder] if self.is_followed else []
        return Attention(
            layers,
            [Attended(direct, direct, below)],
            f"Where {who} in the source: the weights of cross-attention, mean over layers and heads.",
            "The same through the encoder: how much of each token can reach what is written.",
        )

    def _recorded(self) -> tuple[list[Weights], list[Weights], list[Weights]]:
        """The weights of encoder, decoder and cross-attention; a recurrent network has only the last."""
        model, lengths, writing = self.trained.model, torch.tensor([self.source.shape[1]]), Trace()
        with torch.no_grad():
            if isinstance(model, TranslationModel):
                reading = self.new_trace()
                model.write(self.input, model.read(self.source, lengths, trace=reading), lengths, trace=writing)
                return reading.weights, writing.weights[::2], writing.weights[1::2]
            model.write(self.input, model.read(self.source, lengths), lengths, trace=writing)
        return [], [], [_joined(writing.weights)]

    def parts(self) -> list[Part]:
        """Sentences."""
        return self.sentences([self.text], self.translated.source)[0]

    def describe(self) -> dict[str, Any]:
        """Both texts and their tokens."""
        trained, found = self.trained, self.translated
        source, written = trained.names[0], WHOLE if trained.names[0] != WHOLE else f"{WHOLE} of it"
        explained = f"{MEAN} of the translation"
        if self.place is not None:
            explained = f"p of {self.names[self.place].strip()!r}, token {self.place} of the translation"
        end = str(trained.tokenizer.inner.id_to_token(trained.end))
        read = zip(found.source.starts.tolist(), found.source.stops.tolist(), strict=True)
        of_target = zip(self.names, found.starts.tolist(), found.stops.tolist(), strict=True)
        return {
            "kind": "text",
            "title": shortened(self.text),
            "sources": {source: self.text, written: found.text},
            "told": target_predictions(trained, [found])[0],
            "explained": explained,
            "units": (
                *(Unit(self.text[start:stop] or end, source, start, stop) for start, stop in read),
                Unit("<begin>", written),
                *(Unit(name, written, start, stop) for name, start, stop in of_target),
            ),
            "notes": tuple(self._notes()),
        }

    def _notes(self) -> list[str]:
        """How to read the numbers, what was cut, and what is not shown."""
        translated, layers = self.translated, self.attention.layers
        notes = [
            "ln p is of the translation that the model gives, each token given those before it; its tokens stay the "
            "same while those of the source are removed, and have no attributions of their own."
        ]
        if translated.is_cut:
            notes.append(f"The translation was cut after {plural(len(translated), 'token')}, the limit of the search.")
        elif not translated.text:
            notes.append("The translation is an empty text: the model writes its end at once.")
        if tops := {layer.top for layer in layers if layer.top is not None}:
            notes.append(f"In each layer and head only the {tops.pop()} strongest weights of a token are kept.")
        if not self.is_followed and isinstance(self.trained.model, TranslationModel):
            notes.append(
                f"Attention is not followed through the encoder: the source has more than {MAX_RECORDED:,} tokens, "
                "and the weights that are not kept would be missing."
            )
        return [*notes, *self.sentences([self.text], translated.source)[1], *self.group_notes()]


def target_predictions(
    trained: TrainedTranslation, translated: Sequence[Translated]
) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for some sentences: the translation as the label, and how likely the model finds it as the value.

    The value, which has a name of its own too, is the mean over the tokens of ln p of each given those before it; 0 is
    certain. Without words the label is `NOTHING`, as an empty one would stand for a number.
    """
    written = [each.numbers for each in translated]
    found = log_probabilities(trained, [each.source.numbers for each in translated], written)
    values = [float(each.mean()) for each in found]
    labels = [each.text or NOTHING for each in translated]
    return [
        (TargetPrediction(WHOLE, value, label), TargetPrediction(MEAN, value))
        for label, value in zip(labels, values, strict=True)
    ]


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


def _moved(layer: Layer, senders: int, receivers: int) -> Layer:
    """A layer whose units stand behind others."""
    return replace(layer, senders=layer.senders + senders, receivers=layer.receivers + receivers)


class ExplainableTranslations(ExplainableModel):
    """Sentences to be translated."""

    trained_type = TrainedTranslation
    kind = "text"
    over = "texts"
    open = ("target",)
    targets = (WHOLE, {WHOLE: []})  # type: ignore[assignment]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The column that is read."""
        return [(self.trained.names[0], "text")]

    @property
    def model_name(self) -> str:
        """The cell of a recurrent network, else the kind."""
        return getattr(self.trained.model.settings, "cell", self.trained.kind)

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The translations of sentences; a `DataError` names the first that cannot be translated."""
        return target_predictions(self.trained, Translated.of(self.trained, [text for (text,) in rows]))

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, texts) for texts in rows]

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """The sentence of one row."""
        if label is not None:
            raise SettingError(f"explain: label is {label!r}, but a translation has no classes; leave it out.")
        return explain_translation(self.trained, row[0], target=target, top=top, methods=methods)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens beyond the model's context."""
        return too_long(self.trained, row[0])
