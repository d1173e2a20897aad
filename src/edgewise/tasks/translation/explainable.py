"""Sentences to be translated, as an `Explainer` asks about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from edgewise.errors import SettingError
from edgewise.explanation import Explanation, Told
from edgewise.models.text_settings import RecurrentSettings
from edgewise.tasks.explainable import Subject
from edgewise.tasks.texts.tokens import status_of
from edgewise.tasks.translation.explain import TOLD, explain_translation, told_of
from edgewise.tasks.translation.perturbation import Translated, too_long
from edgewise.tasks.translation.trained import TrainedTranslation
from edgewise.train.folder import RunFolder


@dataclass(frozen=True, eq=False)
class TranslationSubject(Subject):
    """Sentences, of which the translation is told."""

    trained: TrainedTranslation
    """The model."""
    kind = "text"
    over = "texts"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedTranslation.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The column that is read."""
        return [(self.trained.names[0], "text")]

    @property
    def facts(self) -> dict[str, Any]:
        """What the model is; `open` says that beside all of it a token may be a target."""
        settings = self.trained.model.settings
        return {
            "task": TOLD,
            "targets": [TOLD],
            "open": ["target"],
            "classes": {},
            "model": settings.cell if isinstance(settings, RecurrentSettings) else self.trained.kind,
            "members": 1,
            "parameters": sum(parameter.numel() for parameter in self.trained.model.parameters()),
            "coverage": None,
        }

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """The translations of sentences; a `DataError` names the first that cannot be translated."""
        return told_of(self.trained, Translated.of(self.trained, [text for (text,) in rows]))

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Which rows are of unknown words alone."""
        return [status_of(self.trained.tokenizer, texts) for texts in rows]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """The sentence of one row."""
        if label is not None:
            raise SettingError(f"explain: label is {label!r}, but a translation has no classes; leave it out.")
        return explain_translation(self.trained, row[0], target=target, top=top)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens beyond the model's context."""
        return too_long(self.trained, row[0])
