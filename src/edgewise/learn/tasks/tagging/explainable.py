"""Sentences with tags: the tag of each word, and what the tag of one word depends on.

A word costs a prediction for every token that the model reads with it.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attention, Differentiable
from edgewise.explain.explanation import TargetPrediction
from edgewise.formatting import plural
from edgewise.graph.records import TextBatch
from edgewise.learn.readers.texts.tags import WrittenSentence
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableModel
from edgewise.learn.tasks.tagging.task import FittedTagger, load, scores_of_chunks
from edgewise.learn.tasks.token_explainable import Left, TokenExplainable, place_of

OUTSIDE = "O"
"""The tag of a word in no span."""
MAX_PREDICTIONS = 200
"""Words whose tags stand in an explanation; of a longer sentence those around the word that is explained."""


class SentenceItem(TokenExplainable):
    """The probability that one word has one tag, out of the chunk of its sentence that the model reads with it.

    Args:
        trained: the model.
        sentence: a text whose words stand between spaces, or a list of words.
        target: the word: its place counted from 1, itself where it stands once, or both (`2 Paris`); by default the
            first with a tag other than that of most words, else the first.
        label: the tag; the predicted one by default.
        top: see `TokenExplainable`.

    Raises:
        DataError: the sentence is empty.
        SettingError: there is no such word or tag, the word is no token, or `top` is below 1.
    """

    has_sentences = False

    def __init__(self, trained: FittedTagger, sentence: str | Sequence[str], target: Any, label: Any, top: int | None):
        written = self.written = WrittenSentence.of(sentence)
        encoder, output = trained.encoder, trained.output
        (predictions,) = predict_words(trained, [written])
        word = _default(trained, predictions) if target is None else place_of(target, written.words, 1)
        self.word, self.predictions, self.near_notes = written.names()[word], *_near(predictions, word)
        if not predictions[word].probabilities:
            raise SettingError(
                f"explain: {self.word!r} is nothing that the model can read, and always gets the tag {output.usual}; "
                "name another word as target."
            )
        if label is not None and str(label) not in output.tags:
            raise SettingError(f"explain: label is {str(label)[:60]!r}; the tags are {', '.join(output.tags)}.")
        self.label = int(predictions[word].value) if label is None else output.tags.index(str(label))
        self.explained = f"{self.word} = {output.tags[self.label]}"
        chunk = self.chunk = next(chunk for chunk in encoder.chunks(written.words) if word in chunk.words)
        # The token at which the tag is read. It can be hidden, not removed.
        self.head = int(chunk.firsts[chunk.words == word][0])
        hiding = encoder.hiding_token
        self.hidden = None if hiding is None else encoder.tokenizer.written(hiding)
        starts, stops = (written.in_text(ends) for ends in (chunk.starts, chunk.stops))
        row = RowTokens(chunk.numbers, np.zeros(len(chunk.numbers), np.int64), starts, stops)
        fixed = (np.arange(len(row)) == self.head) & (self.hidden is None)
        super().__init__(trained, encoder.tokenizer, {output.names[0]: written.text}, row, top, fixed=fixed)
        self.batch = TextBatch.packed([row.numbers])

    @property
    def about(self) -> str:
        own = "always stays, with 0." if self.hidden is None else f"becomes {self.hidden} instead."
        return f"The probability less that without the token; the word itself {own}"

    def predict_left(self, left: Sequence[Left]) -> Float64[np.ndarray, " removal"]:
        numbers, heads, place = [], [], 0
        for stays in left:
            own, head = self.row.numbers.copy(), self.head
            if not stays[head] and self.trained.encoder.hiding_token is not None:
                own[head] = self.trained.encoder.hiding_token
            stays = stays | (np.arange(len(own)) == head)
            heads.append(place + int(stays[:head].sum()))
            numbers.append(own[stays])
            place += len(numbers[-1])
        with torch.no_grad():
            scores = self.trained.model.eval()(TextBatch.packed(numbers))[heads]
        return softmax(scores.numpy())[:, self.label]

    def trace(self) -> Attention:
        return self.attention_at(self.head, partial(self.trained.model, self.batch), f"the word {self.word}")

    def differentiable(self) -> list[Differentiable]:
        model, name = self.trained.model, "zeros" if self.hidden is None else f"that of {self.hidden}"

        def function(vectors: Tensor) -> Tensor:
            batch = TextBatch.packed([self.row.numbers] * len(vectors))
            scores = model(batch, vectors=vectors.flatten(0, 1))
            return scores.unflatten(0, vectors.shape[:2])[:, self.head].softmax(-1)[:, self.label]

        return [self.by_vectors(model.encoder.embedding, self.trained.encoder.hiding_token, name, function)]

    def notes(self) -> list[str]:
        notes, names = list(self.near_notes), self.written.names()
        if len(self.chunk.words) < len(names):
            first, last = (names[self.chunk.words[place]] for place in (0, -1))
            notes.append(
                f"The model reads at most {self.trained.encoder.settings.context:,} tokens at once: with {self.word} the "
                f"words from {first} to {last}, and only they are explained."
            )
        return [*notes, *super().notes()]

    def own_notes(self) -> list[str]:
        if self.hidden is None:
            return [f"Occlusion leaves out the word {self.word} itself: nothing can stand in its place."]
        return [f"Occlusion cannot remove the word {self.word} itself: {self.hidden} replaces it."]


class ExplainableSentences(ExplainableModel):
    """Sentences, and the tag of each of their words."""

    load_trained = staticmethod(load)
    kind = "text"
    over = "sentences"
    open = ("target",)

    @property
    def fields(self) -> list[tuple[str, str]]:
        return [(self.trained.output.names[0], "text")]

    @property
    def targets(self) -> tuple[str, dict[str, list[str]]]:
        """The tags; only the sentence knows which words can be explained."""
        return "tagging", {self.trained.output.names[1]: list(self.trained.output.tags)}

    @property
    def model_name(self) -> str:
        return str(self.trained.encoder.reader.encoder)

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        return predict_words(self.trained, [WrittenSentence.of(text) for (text,) in rows])

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        return [self.trained.encoder.tokenizer.status_of(WrittenSentence.of(text).words) for (text,) in rows]

    def item(self, row: tuple[Any, ...], target: Any, label: Any, top: int | None) -> SentenceItem:
        return SentenceItem(self.trained, row[0], target, label, top)


def predict_words(trained: FittedTagger, sentences: Sequence[WrittenSentence]) -> list[tuple[TargetPrediction, ...]]:
    """The tag of each word of some sentences; one that is no token has the usual tag, and no probabilities."""
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


def _default(trained: FittedTagger, predictions: Sequence[TargetPrediction]) -> int:
    """The first word with a tag other than that of most words, else the first that can be read."""
    output = trained.output
    outside = OUTSIDE if output.mark_spans and OUTSIDE in output.tags else output.usual
    readable = [place for place, prediction in enumerate(predictions) if prediction.probabilities]
    return next((place for place in readable if predictions[place].label != outside), (*readable, 0)[0])


def _near(predictions: Sequence[TargetPrediction], word: int) -> tuple[tuple[TargetPrediction, ...], list[str]]:
    """The tags of the words around one, and a note where there are more."""
    if len(predictions) <= MAX_PREDICTIONS:
        return tuple(predictions), []
    first = min(max(0, word - MAX_PREDICTIONS // 2), len(predictions) - MAX_PREDICTIONS)
    count, name = plural(len(predictions), "word"), predictions[word].name
    note = f"The sentence has {count}; the tags of the {MAX_PREDICTIONS} around {name} are shown."
    return tuple(predictions[first : first + MAX_PREDICTIONS]), [note]


EXPLAINABLE = ExplainableSentences
