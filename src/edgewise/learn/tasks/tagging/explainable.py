"""Sentences with tags: the tag of each word, and what the tag of one word depends on.

A word costs a prediction for every token that the model reads with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from edgewise.errors import SettingError, plural
from edgewise.explain.explainable import Explainable
from edgewise.explain.explanation import TargetPrediction
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.readers.texts.tags import SentenceChunk, WrittenSentence
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableTask, Row
from edgewise.learn.tasks.tagging.task import FittedTagger, load, scores_of_chunks
from edgewise.learn.tasks.token_explainable import ExplainedTokens, Left, TokenRow, index_of_word

OUTSIDE = "O"
"""The tag of a word in no span."""
MAX_PREDICTIONS = 200
"""Words whose tags stand in an explanation; of a longer sentence those around the word that is explained."""


@dataclass(frozen=True, eq=False)
class TagNumber:
    """The probability that one word has one tag, out of the chunk of its sentence that the model reads with it."""

    trained: FittedTagger
    """The model."""
    chunk: SentenceChunk
    """The words that are read with it, as tokens."""
    head: int
    """The token at which the tag is read. It can be hidden, not removed."""
    number: int
    """The tag."""

    @property
    def is_head(self) -> Left:
        """Which token is the head."""
        return np.arange(len(self.chunk.numbers)) == self.head

    def of_left(self, left: Sequence[Left]) -> Float64[np.ndarray, " removal"]:
        """The probability where some of the tokens are left."""
        hiding_token = self.trained.encoder.hiding_token
        texts, heads, num_tokens = [], [], 0
        for stays in left:
            numbers = self.chunk.numbers.copy()
            if not stays[self.head] and hiding_token is not None:
                numbers[self.head] = hiding_token
            stays = stays | self.is_head
            heads.append(num_tokens + int(stays[: self.head].sum()))
            texts.append(numbers[stays])
            num_tokens += len(texts[-1])

        with torch.no_grad():
            scores = self.trained.model(TokenBatch.pack(texts))[heads]
        return softmax(scores.numpy())[:, self.number]

    def of_vectors(self, vectors: Tensor) -> Tensor:
        """The probability out of the vectors of the tokens, for each of some copies."""
        copies = TokenBatch.pack([self.chunk.numbers] * len(vectors))
        scores = self.trained.model(copies, vectors=vectors.flatten(0, 1))
        return scores.unflatten(0, vectors.shape[:2])[:, self.head].softmax(-1)[:, self.number]


def sentence_item(
    trained: FittedTagger,
    sentence: str | Sequence[str],
    target: object = None,
    label: object = None,
    top: int | None = None,
) -> Explainable:
    """The probability that one word has one tag.

    Args:
        trained: the model.
        sentence: a text whose words stand between spaces, or a list of words.
        target: the word: its place counted from 1, itself where it stands once, or both (`2 Paris`); by default the
            first with a tag other than that of most words, else the first.
        label: the tag; the predicted one by default.
        top: see `TokenRow`.

    Raises:
        DataError: the sentence is empty.
        SettingError: unknown word or tag, the word is not a token, or `top` is below 1.
    """
    encoder, output, network = trained.encoder, trained.output, trained.model.eval()
    written = WrittenSentence.of(sentence)
    (predictions,) = predict_words(trained, [written])
    word = _default_word(trained, predictions) if target is None else index_of_word(target, written.words, 1)
    number, name = tag_number(trained, predictions[word], label), written.names()[word]

    chunk = next(chunk for chunk in encoder.chunks(written.words) if word in chunk.words)
    tag = TagNumber(trained, chunk, int(chunk.firsts[chunk.words == word][0]), number)
    starts, stops = (written.in_text(ends) for ends in (chunk.starts, chunk.stops))
    hiding_token = encoder.hiding_token
    tokens = TokenRow(
        tokenizer=encoder.tokenizer,
        texts={output.names[0]: written.text},
        row=RowTokens(chunk.numbers, np.zeros(len(chunk.numbers), np.int64), starts, stops),
        fixed=tag.is_head & (hiding_token is None),
        top=top,
        has_sentences=False,
    )

    if hiding_token is None:
        baseline, word_itself = "zeros", "always stays, with 0"
        note = f"Occlusion leaves out the word {name} itself: nothing can stand in its place."
    else:
        hidden = encoder.tokenizer.written(hiding_token)
        baseline, word_itself = f"that of {hidden}", f"becomes {hidden} instead"
        note = f"Occlusion cannot remove the word {name} itself: {hidden} replaces it."

    batch = TokenBatch.pack([chunk.numbers])
    shown, shown_notes = _nearest_predictions(predictions, word)
    return ExplainedTokens(
        tokens=tokens,
        predictions=shown,
        explained=f"{name} = {output.tags[number]}",
        predict_left=tag.of_left,
        attend=lambda: tokens.attention_at(tag.head, partial(network, batch), f"the word {name}"),
        derive=lambda: [tokens.by_vectors(network.encoder.embedding, hiding_token, baseline, tag.of_vectors)],
        about=f"The probability less that without the token; the word itself {word_itself}.",
        first_notes=[*shown_notes, *_chunk_notes(trained, written.names(), chunk, name)],
        more_notes=[note],
    ).explainable


def tag_number(trained: FittedTagger, prediction: TargetPrediction, label: object) -> int:
    """The number of the tag that is meant; the predicted one by default.

    Raises:
        SettingError: unknown tag, or the word is not a token.
    """
    tags = trained.output.tags
    if not prediction.probabilities:
        raise SettingError(
            f"explain: {prediction.name!r} is nothing that the model can read, and always gets the tag "
            f"{trained.output.usual}; name another word as target."
        )
    if label is None:
        return int(prediction.value)
    if str(label) not in tags:
        raise SettingError(f"explain: label is {str(label)[:60]!r}; the tags are {', '.join(tags)}.")
    return tags.index(str(label))


def _chunk_notes(trained: FittedTagger, names: Sequence[str], chunk: SentenceChunk, word: str) -> list[str]:
    """Which words are read with one, where these are not all."""
    if len(chunk.words) == len(names):
        return []
    first, last = (names[chunk.words[end]] for end in (0, -1))
    return [
        f"The model reads at most {trained.encoder.settings.context:,} tokens at once: with {word} the words from "
        f"{first} to {last}, and only they are explained."
    ]


def predict_words(trained: FittedTagger, sentences: Sequence[WrittenSentence]) -> list[tuple[TargetPrediction, ...]]:
    """The tag of each word of some sentences; words without tokens get the most frequent tag, without probabilities."""
    tags, usual_tag = trained.output.tags, trained.output.usual
    usual = float(tags.index(usual_tag))
    predictions = [[TargetPrediction(name, usual, usual_tag) for name in sentence.names()] for sentence in sentences]
    for number, chunk, scores in scores_of_chunks(trained, [sentence.words for sentence in sentences]):
        for word, shares in zip(chunk.words, softmax(scores), strict=True):
            best = int(shares.argmax())
            std = math.sqrt(shares[best] * (1 - shares[best]))
            probabilities = dict(zip(tags, shares.tolist(), strict=True))
            name = predictions[number][word].name
            prediction = TargetPrediction(name, float(best), tags[best], std, probabilities=probabilities)
            predictions[number][word] = prediction
    return [tuple(of_sentence) for of_sentence in predictions]


def softmax(scores: Float[np.ndarray, " word tag"]) -> Float64[np.ndarray, " word tag"]:
    """The probability of each tag."""
    return torch.from_numpy(scores).double().softmax(-1).numpy()


def _default_word(trained: FittedTagger, predictions: Sequence[TargetPrediction]) -> int:
    """The first word with a tag other than that of most words, else the first that can be read."""
    output = trained.output
    outside = OUTSIDE if output.mark_spans and OUTSIDE in output.tags else output.usual
    readable = [word for word, prediction in enumerate(predictions) if prediction.probabilities]
    return next((word for word in readable if predictions[word].label != outside), (*readable, 0)[0])


def _nearest_predictions(
    predictions: Sequence[TargetPrediction], word: int
) -> tuple[tuple[TargetPrediction, ...], list[str]]:
    """The tags of the words around one, and a note where there are more."""
    if len(predictions) <= MAX_PREDICTIONS:
        return tuple(predictions), []
    first = min(max(0, word - MAX_PREDICTIONS // 2), len(predictions) - MAX_PREDICTIONS)
    count, name = plural(len(predictions), "word"), predictions[word].name
    note = f"The sentence has {count}; the tags of the {MAX_PREDICTIONS} around {name} are shown."
    return tuple(predictions[first : first + MAX_PREDICTIONS]), [note]


def targets(trained: FittedTagger) -> tuple[str, dict[str, list[str]]]:
    """The tags; only the sentence knows which words can be explained."""
    return "tagging", {trained.output.names[1]: list(trained.output.tags)}


def statuses(trained: FittedTagger, rows: Sequence[Row]) -> list[str]:
    """Whether any word of each sentence is in the vocabulary."""
    return [trained.encoder.tokenizer.status_of(WrittenSentence.of(text).words) for (text,) in rows]


EXPLAINABLE = ExplainableTask(
    load=load,
    kind="text",
    rows_in_words="sentences",
    fields=lambda trained: [(trained.output.names[0], "text")],
    targets=targets,
    model_name=lambda trained: trained.encoder.reader.encoder,
    predict=lambda trained, rows: predict_words(trained, [WrittenSentence.of(text) for (text,) in rows]),
    item=lambda trained, row, target, label, top: sentence_item(trained, row[0], target, label, top),
    statuses=statuses,
    open=("target",),
)
