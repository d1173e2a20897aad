"""Sentences with tags, as an `Explainer` asks about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from edgewise.explanation import Explanation, Told
from edgewise.tasks.explainable import Subject
from edgewise.tasks.tagging.explain import explain_sentence
from edgewise.tasks.tagging.perturbation import WrittenSentence, prediction_words
from edgewise.tasks.tagging.trained import TrainedTagger
from edgewise.tasks.texts.tokens import status_of
from edgewise.train.folder import RunFolder


@dataclass(frozen=True, eq=False)
class SentenceSubject(Subject):
    """Sentences, and the tag of each of their words."""

    trained: TrainedTagger
    """The model."""
    kind = "text"
    over = "sentences"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedTagger.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The sentence."""
        return [(self.trained.names[0], "text")]

    @property
    def facts(self) -> dict[str, Any]:
        """What the model is; which word is explained, only the sentence can say."""
        trained, name = self.trained, self.trained.names[1]
        return {
            "task": "tagging",
            "targets": [name],
            "classes": {name: list(trained.tags)},
            "open": ["target"],
            "model": trained.model.reader.encoder,
            "members": 1,
            "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
            "coverage": None,
        }

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """The tags of sentences, which are read in pieces where they are long."""
        return prediction_words(self.trained, [WrittenSentence.of(text) for (text,) in rows])

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, WrittenSentence.of(text).words) for (text,) in rows]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One word of a sentence."""
        return explain_sentence(self.trained, *row, target=target, label=label, top=top)
