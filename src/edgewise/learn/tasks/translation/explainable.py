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
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from edgewise.errors import DataError, SettingError, plural
from edgewise.explain.explainable import Attended, Attention, Explainable
from edgewise.explain.explanation import Layer, TargetPrediction, Unit
from edgewise.graph import Trace, Weights
from edgewise.learn.batches.tokens import TranslationBatch
from edgewise.learn.networks.translation import TranslationModel
from edgewise.learn.readers.texts.tokenizer import RowTokens, Tokenizer
from edgewise.learn.tasks import token_explainable
from edgewise.learn.tasks.explainable import ExplainableTask, Row
from edgewise.learn.tasks.token_explainable import ExplainedTokens, Left, TokenRow, index_of_word, require_text
from edgewise.learn.tasks.translation.task import FittedTranslation, decoder_input, load, padded, translated_tokens
from edgewise.learn.training.device import cpu_threads

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
        return [name or str(tokenizer.inner.id_to_token(int(number))) for name, number in zip(written, self.numbers)]

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

        sentences: list[Self] = []
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
            sentences.append(cls(source, written, tokens, begins, ends, is_cut))
        return sentences


@dataclass(frozen=True, eq=False)
class TranslatedNumber:
    """How likely the translation of a sentence is, or one of its tokens, whatever becomes of the sentence."""

    trained: FittedTranslation
    """The model."""
    translated: Translated
    """The sentence and its translation, which stays as it is."""
    place: int | None
    """The token of the translation; None for the mean ln p of all."""

    @property
    def source(self) -> tuple[Tensor, Tensor]:
        """The tokens of the sentence, and how many they are."""
        row = self.translated.source
        return torch.from_numpy(row.numbers)[None], torch.tensor([len(row)])

    @property
    def written(self) -> Tensor:
        """What is read while the translation is written."""
        return torch.from_numpy(decoder_input(self.translated.numbers, self.trained.encoder.end))[None]

    def of_left(self, left: Sequence[Left]) -> Float64[np.ndarray, " removal"]:
        """The number where some of the tokens of the sentence are left."""
        sources = [self.translated.source.numbers[stays] for stays in left]
        scores = log_probabilities(self.trained, sources, [self.translated.numbers] * len(sources))
        return np.array(
            [of_source.mean() if self.place is None else np.exp(of_source[self.place]) for of_source in scores]
        )

    def of_vectors(self, vectors: Float[Tensor, " copy key model_dim"]) -> Float[Tensor, " copy"]:
        """The number out of the vectors of the tokens of the sentence."""
        network, copies, (source, lengths) = self.trained.model, (len(vectors), -1), self.source
        source, lengths = source.expand(copies), lengths.expand(len(vectors))
        states = network.read(source, lengths, vectors=vectors)
        scores = network.write(self.written.expand(copies), states, lengths)
        targets = torch.from_numpy(self.translated.numbers)[None]
        log_shares = of_scores(scores, targets.expand(copies))
        return log_shares.mean(1) if self.place is None else log_shares[:, self.place].exp()

    def attention(self, tokens: TokenRow) -> Attention:
        """Encoder, decoder and cross-attention; the attribution is across, and through the encoder."""
        network, reading, writing = self.trained.model, tokens.new_trace(), Trace()
        source, lengths = self.source
        with torch.no_grad():
            states = network.read(source, lengths, trace=reading)
            network.write(self.written, states, lengths, trace=writing)
        is_layered = bool(reading.weights)
        # A recurrent network has cross-attention alone, one record a word.
        decoder, cross = (writing.weights[::2], writing.weights[1::2]) if is_layered else ([], _joined(writing.weights))

        size, steps = len(tokens), len(self.translated)
        num_tokens = size + steps + 1
        layers = tokens.layers_of(reading.weights, "encoder", num_tokens)
        decoder_layers = tokens.layers_of(decoder, "decoder", num_tokens)
        for number, layer in enumerate(tokens.layers_of(cross, "cross", num_tokens)):
            # A token is written after those before it were read: the first after the beginning, which is unit `size`.
            layers += [_moved(before, size, size + 1) for before in decoder_layers[number : number + 1]]
            layers.append(_moved(layer, 0, size + 1))

        tables = torch.stack([weights.to_dense().reshape(-1, steps, size).mean(0) for weights in cross]).mean(0)
        direct = (tables if self.place is None else tables[self.place : self.place + 1]).double().mean(0)
        who = "the tokens that are written attend" if self.place is None else "the token that is written attends"
        encoder = [replace(weights, values=weights.values[0]) for weights in reading.weights]
        return Attention(
            layers,
            [Attended(direct, direct, encoder if tokens.is_followed else [])],
            f"Where {who} in the source: the weights of cross-attention, mean over layers and heads.",
            "The same through the encoder: how much of each token can reach what is written.",
        )


def translation_item(
    trained: FittedTranslation, text: str, target: str | int | None = None, top: int | None = None
) -> Explainable:
    """A sentence and its translation; the translation stays as it is while tokens of the sentence are removed.

    Args:
        trained: the model.
        text: the sentence.
        target: which token of the translation is explained: its place, counted from 0; the token itself where it
            stands once; or both. By default, and with `translation`, all of it.
        top: see `TokenRow`.

    Raises:
        DataError: the sentence is empty, or longer than the model reads.
        SettingError: the token does not occur in the translation, or occurs more than once, or `top` is below 1.

    Cost: one search, and the scores of one translation for every token of a sentence of up to 512 tokens.
    """
    encoder, column = trained.encoder, trained.output.names[0]
    (translated,) = Translated.of(trained, [text])
    row, names = translated.source, translated.names(encoder.tokenizer)
    tokens = TokenRow(
        tokenizer=encoder.tokenizer,
        texts={column: text},
        row=row,
        fixed=row.is_special,
        top=top,
        num_extra_tokens=len(translated),
    )

    token = None if target in (None, WHOLE) else index_of_word(target, names, 0, f"{WHOLE}, or of its tokens ")
    number = TranslatedNumber(trained, translated, token)
    explained = f"{MEAN} of the translation"
    if token is not None:
        explained = f"p of {names[token].strip()!r}, token {token} of the translation"

    # The source of the translation's tokens.
    written = WHOLE if column != WHOLE else f"{WHOLE} of it"
    spans_of_units = zip(names, translated.starts.tolist(), translated.stops.tolist(), strict=True)
    units = [Unit("<begin>", written), *(Unit(name, written, start, stop) for name, start, stop in spans_of_units)]
    # Zeros would not do as a baseline: a transformer that normalizes its input does not see how long a vector is, so
    # that all would change at the very beginning of the way.
    embedding, baseline = trained.model.embedding, "that of an end"
    return ExplainedTokens(
        tokens=tokens,
        predictions=target_predictions(trained, [translated])[0],
        explained=explained,
        predict_left=number.of_left,
        attend=lambda: number.attention(tokens),
        derive=lambda: [tokens.by_vectors(embedding, encoder.end, baseline, number.of_vectors)],
        about="The number less that of the same translation without the token; the source's end stays, with 0.",
        layers_name="the encoder: the source" if isinstance(trained.model, TranslationModel) else "",
        first_notes=notes_of(translated),
        more_units=units,
        more_sources={written: translated.text},
        show=str,
    ).explainable


def notes_of(translated: Translated) -> list[str]:
    """How to read the numbers of a translation, and what was cut."""
    notes = [
        "ln p is of the translation that the model gives, each token given those before it; its tokens stay the "
        "same while those of the source are removed, and have no attributions of their own."
    ]
    if translated.is_cut:
        notes.append(f"The translation was cut after {plural(len(translated), 'token')}, the limit of the search.")
    elif not translated.text:
        notes.append("The translation is an empty text: the model writes its end at once.")
    return notes


def item(trained: FittedTranslation, row: Row, target: str | None, label: object, top: int | None) -> Explainable:
    """A sentence and its translation."""
    if label is not None:
        raise SettingError(f"explain: label is {label!r}, but a translation has no classes; leave it out.")
    require_text(row[0])
    return translation_item(trained, row[0], target, top)


def predict(trained: FittedTranslation, rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
    """The translation of each sentence, and how likely it is."""
    return target_predictions(trained, Translated.of(trained, [text for (text,) in rows]))


def model_name(trained: FittedTranslation) -> str:
    """The cell of a recurrent network, else the kind."""
    return getattr(trained.encoder.settings, "cell", trained.encoder.kind)


def target_predictions(
    trained: FittedTranslation, translated: Sequence[Translated]
) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for some sentences: the translation as the label, and how likely the model finds it as the value.

    The value, which has a name of its own too, is the mean over the tokens of ln p of each given those before it; 0 is
    certain. Without words the label is `NOTHING`, as an empty one would stand for a number.
    """
    sources = [sentence.source.numbers for sentence in translated]
    written = [sentence.numbers for sentence in translated]
    values = [float(of_tokens.mean()) for of_tokens in log_probabilities(trained, sources, written)]
    return [
        (TargetPrediction(WHOLE, value, sentence.text or NOTHING), TargetPrediction(MEAN, value))
        for sentence, value in zip(translated, values, strict=True)
    ]


def too_long(trained: FittedTranslation, text: str) -> str:
    """How much longer than the model reads a text is, in words; empty where it is not."""
    count, limit = len(trained.encoder.tokenizer.encode(text).numbers), trained.encoder.max_tokens
    return f"{plural(count, 'token')}, of which the model reads {limit:,}" if count > limit else ""


def spans(tokenizer: Tokenizer, numbers: Sequence[int]) -> tuple[str, list[int], list[int]]:
    """The text of some tokens, and the first character of each and one past the last.

    Tokens are bytes: where several make one character, each of them stands for all of it.
    """
    text, num_certain = tokenizer.decode(numbers), 0
    starts: list[int] = []
    stops: list[int] = []
    for count in range(1, len(numbers) + 1):
        so_far = tokenizer.decode(numbers[:count])
        starts.append(num_certain)
        stops.append(min(len(so_far), len(text)))
        # Cut within a character, the two parts do not join to the original text: its last character is incomplete.
        is_complete = so_far + tokenizer.decode(numbers[count:]) == text
        num_certain = min(len(so_far) if is_complete else len(so_far) - 1, len(text))
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
    log_shares: list[np.ndarray] = []
    end = trained.encoder.end
    with torch.no_grad(), cpu_threads(trained.threads):
        for rows in _batches(sources, written, len(trained.encoder.tokenizer)):
            source, lengths = padded([sources[row] for row in rows], end)
            tokens, _ = padded([decoder_input(written[row], end) for row in rows], end)
            targets, _ = padded([written[row] for row in rows], end)
            scores = of_scores(trained.model(TranslationBatch(source, lengths, tokens)), targets).double().numpy()
            log_shares += [of_row[: len(written[row])] for row, of_row in zip(rows, scores, strict=True)]
    return log_shares


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
    first = np.cumsum([0, *(word.num_receivers for word in words)])
    receivers = [word.receivers + int(start) for word, start in zip(words, first, strict=False)]
    senders, values = torch.cat([word.senders for word in words]), torch.cat([word.values for word in words], dim=-1)
    return [Weights(senders, torch.cat(receivers), values, words[0].num_senders, int(first[-1]))]


def _moved(layer: Layer, senders: int, receivers: int) -> Layer:
    """A layer whose units come after others."""
    return replace(layer, senders=layer.senders + senders, receivers=layer.receivers + receivers)


EXPLAINABLE = ExplainableTask(
    load=load,
    kind="text",
    rows_in_words="texts",
    fields=lambda trained: [(trained.output.names[0], "text")],
    targets=lambda trained: (WHOLE, {WHOLE: []}),
    model_name=model_name,
    predict=predict,
    item=item,
    statuses=lambda trained, rows: [trained.encoder.tokenizer.status_of(texts) for texts in rows],
    unread=lambda trained, row: too_long(trained, row[0]),
    open=("target",),
)
