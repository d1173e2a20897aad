"""Sentences to be translated: where the model attends as it writes, and what changes how likely the translation is.

    mean ln p     1/T Σ_t ln p(y_t | y_<t, x)        of the whole translation, its end included
    p             p(y_t | y_<t, x)                   of one of its tokens

The translation y is searched for once; all numbers are then of it, its tokens given, whatever becomes of the source x.
Units are the tokens of the source with its end, the beginning of the translation, and its tokens with its end.
Attributions are of the source's tokens, NaN for those of the translation. In the decoder and in cross-attention, the
receiver is the token that is being written, and its senders in the decoder are the tokens read before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from edgewise.errors import DataError, SettingError
from edgewise.explain.explainable import Attended, Attention, Differentiable
from edgewise.explain.explanation import Layer, TargetPrediction, Unit
from edgewise.formatting import plural
from edgewise.graph.records import PairBatch
from edgewise.learn.networks.translation import TranslationModel
from edgewise.learn.readers.texts.tokenizer import RowTokens, Tokenizer
from edgewise.learn.tasks import token_explainable
from edgewise.learn.tasks.explainable import ExplainableModel
from edgewise.learn.tasks.token_explainable import Left, TokenExplainable, place_of, require_text
from edgewise.learn.tasks.translation.task import FittedTranslation, decoder_input, load, padded, translated_tokens
from edgewise.learn.training.device import cpu_threads
from edgewise.trace import Trace, Weights

WHOLE, MEAN = "translation", "mean ln p"
"""The predictions for a sentence: its translation, and how likely the model finds it."""
NOTHING = "(an empty text)"
"""The label of a translation without words."""
MAX_SCORES = 2**24
"""Scores that are computed at a time, about: one for each token written and each of the vocabulary."""


@dataclass(frozen=True, eq=False)
class Translated:
    """A sentence, and the translation that the model gives, both as tokens."""

    source: RowTokens
    """The tokens that are read, the end included."""
    text: str
    """The translation, as `translate_texts` gives it."""
    numbers: Int64[np.ndarray, " token"]
    """The tokens that are written, the end included where it was reached."""
    starts: Int64[np.ndarray, " token"]
    """The first character of each in the text."""
    stops: Int64[np.ndarray, " token"]
    """One past the last; of the end, its start."""
    is_cut: bool
    """Whether the translation stopped at the greatest length, before its end."""

    def __len__(self) -> int:
        return len(self.numbers)

    def names(self, tokenizer: Tokenizer) -> list[str]:
        """How each token that is written stands in the text; the end by its name."""
        written = [self.text[start:stop] for start, stop in zip(self.starts, self.stops, strict=True)]
        return [name or str(tokenizer.inner.id_to_token(int(each))) for name, each in zip(written, self.numbers)]

    @classmethod
    def of(cls, trained: FittedTranslation, texts: Sequence[str]) -> list[Self]:
        """The translations of some sentences.

        Raises:
            DataError: a sentence is empty, or longer than the model reads.
        """
        encoder, name = trained.encoder, trained.output.names[0]
        for row, text in enumerate(texts):
            where = f"row {row}: " if len(texts) > 1 else ""
            if not text.strip():
                raise DataError(f"{where}{name}: the text is empty.")
            if excess := too_long(trained, text):
                raise DataError(f"{where}{name}: the text is too long: {excess}; translate it in parts.")
        found: list[Self] = []
        for text, numbers in zip(texts, translated_tokens(trained, texts), strict=True):
            if numbers is None:
                raise DataError(f"{name}: {text[:60]!r} has no token that the model reads.")
            # The search goes no further than max_length tokens, the end among them.
            is_cut = len(numbers) >= trained.output.beam.max_length
            written, starts, stops = spans(encoder.tokenizer, numbers)
            last = [] if is_cut else [(encoder.end, len(written), len(written))]
            rows = [*zip(numbers, starts, stops, strict=True), *last]
            source = encoder.tokenizer.row_of([text], encoder.settings.context)
            tokens, begins, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
            found.append(cls(source, written, tokens, begins, ends, is_cut))
        return found


class TranslationItem(TokenExplainable):
    """A sentence and its translation; the translation stays as it is while tokens of the sentence are removed.

    Args:
        trained: the model.
        text: the sentence.
        target: which token of the translation is explained: its place, counted from 0; the token itself where it
            stands once; or both. By default, and with `translation`, all of it.
        top: see `TokenExplainable`.

    Raises:
        DataError: the sentence is empty, or longer than the model reads.
        SettingError: the translation has no such token, or several, or `top` is below 1.

    Cost: one search, and the scores of one translation for every token of a sentence of up to 512 tokens.
    """

    about = "The number less that of the same translation without the token; the source's end stays, with 0."

    def __init__(self, trained: FittedTranslation, text: str, target: str | int | None, top: int | None):
        (self.translated,) = Translated.of(trained, [text])
        encoder, source = trained.encoder, trained.output.names[0]
        row, names = self.translated.source, self.translated.names(encoder.tokenizer)
        super().__init__(trained, encoder.tokenizer, {source: text}, row, top, beside=len(self.translated))
        other = f"{WHOLE}, or of its tokens "
        self.place = None if target in (None, WHOLE) else place_of(target, names, 0, other)
        self.names, self.explained = names, f"{MEAN} of the translation"
        if self.place is not None:
            self.explained = f"p of {names[self.place].strip()!r}, token {self.place} of the translation"
        self.predictions = target_predictions(trained, [self.translated])[0]
        self.source, self.lengths = torch.from_numpy(row.numbers)[None], torch.tensor([len(row)])
        self.targets = torch.from_numpy(self.translated.numbers)[None]
        self.input = torch.from_numpy(decoder_input(self.translated.numbers, encoder.end))[None]

    def predict_left(self, left: Sequence[Left]) -> Float64[np.ndarray, " removal"]:
        sources = [self.row.numbers[stays] for stays in left]
        found = log_probabilities(self.trained, sources, [self.translated.numbers] * len(sources))
        return np.array([each.mean() if self.place is None else np.exp(each[self.place]) for each in found])

    def differentiable(self) -> list[Differentiable]:
        # Zeros would not do: a transformer that normalizes its input does not see how long a vector is, so that all
        # would change at the very beginning of the way.
        end = self.trained.encoder.end
        return [self.by_vectors(self.trained.model.embedding, end, "that of an end", self._of_vectors)]

    def _of_vectors(self, vectors: Float[Tensor, " copy key model_dim"]) -> Float[Tensor, " copy"]:
        model, copies = self.trained.model, (len(vectors), -1)
        source, lengths = self.source.expand(copies), self.lengths.expand(len(vectors))
        scores = model.write(self.input.expand(copies), model.read(source, lengths, vectors=vectors), lengths)
        found = of_scores(scores, self.targets.expand(copies))
        return found.mean(1) if self.place is None else found[:, self.place].exp()

    def trace(self) -> Attention:
        """Encoder, decoder and cross-attention; the attribution is across, and through the encoder."""
        model, reading, writing = self.trained.model, self.new_trace(), Trace()
        with torch.no_grad():
            states = model.read(self.source, self.lengths, trace=reading)
            model.write(self.input, states, self.lengths, trace=writing)
        is_layered = bool(reading.weights)
        # A recurrent network has cross-attention alone, one record a word.
        decoder, cross = (writing.weights[::2], writing.weights[1::2]) if is_layered else ([], _joined(writing.weights))
        size, steps = self.num_units, len(self.translated)
        num_tokens = size + steps + 1
        layers = self.layers_of(reading.weights, "encoder", num_tokens)
        below, across = self.layers_of(decoder, "decoder", num_tokens), self.layers_of(cross, "cross", num_tokens)
        for number, each in enumerate(across):
            # A token is written after those before it were read: the first after the beginning, which is unit `size`.
            layers += [_moved(before, size, size + 1) for before in below[number : number + 1]]
            layers.append(_moved(each, 0, size + 1))
        tables = torch.stack([weights.to_dense().reshape(-1, steps, size).mean(0) for weights in cross]).mean(0)
        direct = (tables if self.place is None else tables[self.place : self.place + 1]).double().mean(0)
        who = "the tokens that are written attend" if self.place is None else "the token that is written attends"
        followed = [replace(each, values=each.values[0]) for each in reading.weights] if self.is_followed else []
        return Attention(
            layers,
            [Attended(direct, direct, followed)],
            f"Where {who} in the source: the weights of cross-attention, mean over layers and heads.",
            "The same through the encoder: how much of each token can reach what is written.",
        )

    def units(self) -> Iterator[Unit]:
        found, source = self.translated, self.trained.output.names[0]
        for unit in super().units():
            yield replace(unit, name=self.texts[source][unit.start : unit.stop] or unit.name)
        yield Unit("<begin>", self.written)
        for name, start, stop in zip(self.names, found.starts.tolist(), found.stops.tolist(), strict=True):
            yield Unit(name, self.written, start, stop)

    @property
    def written(self) -> str:
        """The source of the translation's tokens."""
        return WHOLE if self.trained.output.names[0] != WHOLE else f"{WHOLE} of it"

    def notes(self) -> list[str]:
        """How to read the numbers, what was cut, and what is not shown."""
        translated, is_layered = self.translated, isinstance(self.trained.model, TranslationModel)
        notes = [
            "ln p is of the translation that the model gives, each token given those before it; its tokens stay the "
            "same while those of the source are removed, and have no attributions of their own."
        ]
        if translated.is_cut:
            notes.append(f"The translation was cut after {plural(len(translated), 'token')}, the limit of the search.")
        elif not translated.text:
            notes.append("The translation is an empty text: the model writes its end at once.")
        notes += self.weight_notes(is_layered, "the encoder: the source")
        return [*notes, *self.sentences[1], *self.group_notes()]

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "sources": {**self.texts, self.written: self.translated.text}}


class ExplainableTranslations(ExplainableModel):
    """Sentences to be translated."""

    load_trained = staticmethod(load)
    kind = "text"
    over = "texts"
    open = ("target",)
    targets = (WHOLE, {WHOLE: []})  # type: ignore[assignment]

    @property
    def fields(self) -> list[tuple[str, str]]:
        return [(self.trained.output.names[0], "text")]

    @property
    def model_name(self) -> str:
        """The cell of a recurrent network, else the kind."""
        return getattr(self.trained.encoder.settings, "cell", self.trained.encoder.kind)

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        return target_predictions(self.trained, Translated.of(self.trained, [text for (text,) in rows]))

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        return [self.trained.encoder.tokenizer.status_of(texts) for texts in rows]

    def item(self, row: tuple[Any, ...], target: Any, label: Any, top: int | None) -> TranslationItem:
        if label is not None:
            raise SettingError(f"explain: label is {label!r}, but a translation has no classes; leave it out.")
        require_text(row[0])
        return TranslationItem(self.trained, row[0], target, top)

    def unread(self, row: tuple[Any, ...]) -> str:
        return too_long(self.trained, row[0])


def target_predictions(
    trained: FittedTranslation, translated: Sequence[Translated]
) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for some sentences: the translation as the label, and how likely the model finds it as the value.

    The value, which has a name of its own too, is the mean over the tokens of ln p of each given those before it; 0 is
    certain. Without words the label is `NOTHING`, as an empty one would stand for a number.
    """
    sources, written = [each.source.numbers for each in translated], [each.numbers for each in translated]
    values = [float(each.mean()) for each in log_probabilities(trained, sources, written)]
    return [
        (TargetPrediction(WHOLE, value, each.text or NOTHING), TargetPrediction(MEAN, value))
        for each, value in zip(translated, values, strict=True)
    ]


def too_long(trained: FittedTranslation, text: str) -> str:
    """How much longer than the model reads a text is, in words; empty where it is not."""
    count, most = len(trained.encoder.tokenizer.encode(text).numbers), trained.encoder.max_tokens
    return f"{plural(count, 'token')}, of which the model reads {most:,}" if count > most else ""


def spans(tokenizer: Tokenizer, numbers: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The text of some tokens, and the first character of each and one past the last.

    Tokens are bytes: where several make one character, each of them stands for all of it.
    """
    text, whole = tokenizer.decode(numbers), 0
    starts: list[int] = []
    stops: list[int] = []
    for count in range(1, len(numbers) + 1):
        so_far = tokenizer.decode(numbers[:count])
        starts.append(whole)
        stops.append(min(len(so_far), len(text)))
        # Cut within a character, the two parts are no text that is the whole again: its last sign is yet to come.
        is_whole = so_far + tokenizer.decode(numbers[count:]) == text
        whole = min(len(so_far) if is_whole else len(so_far) - 1, len(text))
    return text, starts, stops


def log_probabilities(
    trained: FittedTranslation, sources: Sequence[np.ndarray], written: Sequence[np.ndarray]
) -> list[Float64[np.ndarray, " token"]]:
    """ln p(y_t | y_<t, x) of every token of some translations.

    Args:
        trained: the model.
        sources: the tokens of each x, its end included.
        written: the tokens of each y.
    """
    found: list[np.ndarray] = []
    end = trained.encoder.end
    with torch.no_grad(), cpu_threads(trained.threads):
        for rows in _batches(sources, written, len(trained.encoder.tokenizer)):
            source, lengths = padded([sources[row] for row in rows], end)
            tokens, _ = padded([decoder_input(written[row], end) for row in rows], end)
            targets, _ = padded([written[row] for row in rows], end)
            scores = of_scores(trained.model(PairBatch(source, lengths, tokens)), targets).double().numpy()
            found += [each[: len(written[row])] for row, each in zip(rows, scores, strict=True)]
    return found


def of_scores(
    scores: Float[Tensor, " *batch token num_tokens"], targets: Int64[Tensor, " *batch token"]
) -> Float[Tensor, " *batch token"]:
    """ln p of each target, out of the scores of all tokens; gradients go through."""
    return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)


def _batches(sources: Sequence[np.ndarray], written: Sequence[np.ndarray], num_tokens: int) -> Iterator[range]:
    """Rows that are computed together, in order; each is padded to the longest."""
    first, longest = 0, (0, 0)
    for row, pair in enumerate(zip(sources, written, strict=True)):
        longest = max(longest[0], len(pair[0])), max(longest[1], len(pair[1]))
        count = row + 1 - first
        scores = longest[1] * count * num_tokens
        if row > first and (sum(longest) * count > token_explainable.BATCH_SIZE or scores > MAX_SCORES):
            yield range(first, row)
            first, longest = row, (len(pair[0]), len(pair[1]))
    if first < len(sources):
        yield range(first, len(sources))


def _joined(words: Sequence[Weights]) -> list[Weights]:
    """The weights of one word after the other as those of one layer."""
    first = np.cumsum([0, *(each.num_receivers for each in words)])
    receivers = [each.receivers + int(start) for each, start in zip(words, first, strict=False)]
    senders, values = torch.cat([each.senders for each in words]), torch.cat([each.values for each in words], dim=-1)
    return [Weights(senders, torch.cat(receivers), values, words[0].num_senders, int(first[-1]))]


def _moved(layer: Layer, senders: int, receivers: int) -> Layer:
    """A layer whose units stand behind others."""
    return replace(layer, senders=layer.senders + senders, receivers=layer.receivers + receivers)


EXPLAINABLE = ExplainableTranslations
