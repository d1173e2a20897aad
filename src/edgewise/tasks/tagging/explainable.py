"""Sentences with tags, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from edgewise.explain.explainable import Attention, Differentiable
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Explanation, TargetPrediction
from edgewise.plural import plural
from edgewise.tasks.explainable import ExplainableModel
from edgewise.tasks.tagging.perturbation import WordTag, WrittenSentence, prediction_words
from edgewise.tasks.tagging.trained import TrainedTagger, packed
from edgewise.tasks.texts.tokens import status_of
from edgewise.tasks.token_explainable import TokenExplainable, shortened, units_of, unknown_notes
from edgewise.train.device import cpu_threads

MAX_PREDICTIONS = 200
"""Words whose tags stand in an explanation; of a longer sentence those around the word that is explained."""


def explain_sentence(
    trained: TrainedTagger,
    sentence: str | Sequence[str],
    *,
    target: Any = None,
    label: Any = None,
    top: int | None = None,
    methods: Choice = None,
) -> Explanation:
    """The tags of a sentence, and for one word where the model attends and what changes its tag.

    Args:
        trained: the model.
        sentence: a text whose words stand between spaces, or a list of words.
        target: the word that is explained: its name (`2 Paris`), its place counted from 1, or the word itself where it
            stands once; by default the first with a tag other than that of most words, else the first.
        label: the tag whose probability is explained; the predicted one by default.
        top: how many of the strongest weights of each token and head are kept; by default all of sentences of up to
            256 tokens, else 8.
        methods: names of methods; see `edgewise.explain.methods`.

    Raises:
        DataError: there is no word.
        SettingError: there is no such word, tag or method, or `top` is below 1.

    Cost: a prediction for every token that the model reads with the word.
    """
    written = WrittenSentence.of(sentence)
    with cpu_threads(trained.threads):
        return explain(SentenceItem(trained, written, target, label, top), methods)


class SentenceItem(TokenExplainable):
    """One word of a sentence, with the piece of the sentence that is read with it."""

    def __init__(self, trained: TrainedTagger, written: WrittenSentence, target: Any, label: Any, top: int | None):
        (self.predictions,) = prediction_words(trained, [written])
        word = self.word = WordTag.chosen(trained, written, self.predictions, target, label)
        super().__init__(word.fixed, top)
        self.trained, self.written, self.batch = trained, written, packed([word.piece])
        self.predict_kept = word.of_kept  # type: ignore[method-assign]
        self.hidden = None if trained.hidden is None else trained.tokenizer.written(trained.hidden)

    @property
    def about(self) -> str:
        """The word itself is hidden."""
        own = "always stays, with 0." if self.hidden is None else f"becomes {self.hidden} instead."
        return f"The probability less that without the token; the word itself {own}"

    def trace(self) -> Attention:
        """Of the first token of the word, which the tag is read from."""
        return self.attention_at(self.word.head, partial(self.trained.model, self.batch), f"the word {self.word.name}")

    def differentiable(self) -> list[Differentiable]:
        """By the vectors of the tokens."""
        embedding, hidden = self.trained.model.encoder.embedding, self.trained.hidden
        vectors = embedding(self.batch.tokens).detach()
        nothing = torch.zeros_like(vectors[:1]) if hidden is None else embedding.weight[[hidden]].detach()
        words = ("the vector", "zeros" if self.hidden is None else f"that of {self.hidden}")
        function = partial(self.word.of_vectors, self.batch)
        return [Differentiable(function, vectors, nothing.expand_as(vectors), None, words)]

    def describe(self) -> dict[str, Any]:
        """The tokens of the piece, and the tags of the words around the one that is explained."""
        trained, piece, written, source = self.trained, self.word.piece, self.written, self.trained.names[0]
        starts, stops = (written.in_text(side).tolist() for side in (piece.starts, piece.stops))
        places = [(source, start, stop) for start, stop in zip(starts, stops, strict=True)]
        near, notes = _near(self.predictions, self.word.name)
        if len(piece.words) < len(written.words):
            names = written.names()
            notes.append(
                f"The model reads at most {trained.model.settings.context:,} tokens at once: with {self.word.name} the "
                f"words from {names[piece.words[0]]} to {names[piece.words[-1]]}, and only they are explained."
            )
        notes += [*unknown_notes(trained.tokenizer, piece.numbers), *self.weight_notes()]
        if self.hidden is None:
            notes.append(f"Occlusion leaves out the word {self.word.name} itself: nothing can stand in its place.")
        else:
            notes.append(f"Occlusion cannot remove the word {self.word.name} itself: {self.hidden} replaces it.")
        return {
            "kind": "text",
            "title": shortened(written.text),
            "sources": {source: written.text},
            "told": near,
            "explained": self.word.explained,
            "units": units_of(trained.tokenizer, piece.numbers, places, {source: written.text}),
            "notes": (*notes, *self.group_notes()),
        }


def _near(predictions: Sequence[TargetPrediction], name: str) -> tuple[tuple[TargetPrediction, ...], list[str]]:
    """The tags of the words around one, and a note where there are more."""
    if len(predictions) <= MAX_PREDICTIONS:
        return tuple(predictions), []
    place = [each.name for each in predictions].index(name)
    first = min(max(0, place - MAX_PREDICTIONS // 2), len(predictions) - MAX_PREDICTIONS)
    count = plural(len(predictions), "word")
    note = f"The sentence has {count}; the tags of the {MAX_PREDICTIONS} around {name} are shown."
    return tuple(predictions[first : first + MAX_PREDICTIONS]), [note]


class ExplainableSentences(ExplainableModel):
    """Sentences, and the tag of each of their words."""

    trained_type = TrainedTagger
    kind = "text"
    over = "sentences"
    open = ("target",)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The sentence."""
        return [(self.trained.names[0], "text")]

    @property
    def targets(self) -> tuple[str, dict[str, list[str]]]:
        """The tags; only the sentence knows which words can be explained."""
        return "tagging", {self.trained.names[1]: list(self.trained.tags)}

    @property
    def model_name(self) -> str:
        """The encoder."""
        return self.trained.model.reader.encoder

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The tags of sentences, which are read in pieces where they are long."""
        return prediction_words(self.trained, [WrittenSentence.of(text) for (text,) in rows])

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, WrittenSentence.of(text).words) for (text,) in rows]

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """One word of a sentence."""
        return explain_sentence(self.trained, *row, target=target, label=label, top=top, methods=methods)
