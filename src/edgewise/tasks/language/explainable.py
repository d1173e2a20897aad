"""Prompts, as an `Explainer` asks about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from edgewise.explanation import Explanation, Told
from edgewise.tasks.explainable import Subject
from edgewise.tasks.language.explain import explain_prompt
from edgewise.tasks.language.perturbation import FIELD, NEXT, Prompt, told_after
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.train.folder import RunFolder


@dataclass(frozen=True, eq=False)
class PromptSubject(Subject):
    """Texts, and the token that follows each."""

    trained: TrainedLanguage
    """The model."""
    kind = "text"
    over = "texts"

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedLanguage.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The text."""
        return [(FIELD, "text")]

    @property
    def reads_spaces(self) -> bool:
        """Words alone are no spaces."""
        return self.trained.tokenizer.kind != "words"

    @property
    def facts(self) -> dict[str, Any]:
        """What the model is; its classes are a vocabulary, and not listed."""
        return {
            "task": "language",
            "targets": [NEXT],
            "classes": {},
            "open": ["label"],
            "model": "transformer",
            "members": 1,
            "parameters": sum(parameter.numel() for parameter in self.trained.model.parameters()),
            "coverage": None,
        }

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What follows each text."""
        return told_after(self.trained, [text for (text,) in rows])

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One text."""
        return explain_prompt(self.trained, *row, target=target, label=label, top=top)

    def unread(self, row: tuple[Any, ...]) -> str:
        """The tokens before those that are read."""
        read = Prompt.of(self.trained, *row).row
        return f"{len(read) + read.num_cut:,} tokens, of which the last {len(read):,} are read" if read.num_cut else ""
