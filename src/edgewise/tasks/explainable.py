"""What an `Explainer` speaks of: what a row needs, how rows are told, how one is explained. A class for each kind."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from edgewise.data.tables.cell import OK
from edgewise.errors import SettingError
from edgewise.explanation import Explanation, Kind, Told
from edgewise.train.folder import RunFolder


class Subject(ABC):
    """A trained model, and the rows that it takes."""

    kind: Kind
    """What a row is."""
    over: str
    """What the rows are, in words that follow `a model over`."""

    @classmethod
    @abstractmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""

    @property
    @abstractmethod
    def fields(self) -> list[tuple[str, str]]:
        """The name and the type of each value of a row."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the model is, as JSON: `task`, `targets`, `classes` by target, `model` among the choices of `--model`,
        `members` of the ensemble, `parameters` of each, and the `coverage` of intervals, None where there are none.
        Where the words that choose a `target` or a `label` are not among those, `open` lists which of the two."""

    @property
    def reads_spaces(self) -> bool:
        """Whether a text of nothing but spaces says something."""
        return False

    @abstractmethod
    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """What is told of rows, whose values stand in the order of the fields."""

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """For each row that is predicted, `OK`, or what its prediction lacks, in the words of `edgewise predict`."""
        return [OK] * len(rows)

    @abstractmethod
    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One row, explained."""

    def set_limits(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> None:
        """Change the limits of molecules, where one is given.

        Raises:
            SettingError: one is given, and the rows are no molecules.
        """
        if max_atoms is not None or molecule_timeout is not None:
            flag = "--molecule-timeout" if max_atoms is None else "--max-atoms"
            raise SettingError(f"{flag} is for models over molecules, and this one is over {self.over}; leave it out.")

    def unread(self, row: tuple[Any, ...]) -> str:
        """What of a row is cut off before the model reads it, in words; empty where nothing is."""
        return ""


class TableSubject(Subject):
    """A trained ensemble over the rows of a table."""

    trained: Any
    """The ensemble."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """What the model is called among the choices of `--model`."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the ensemble is."""
        trained = self.trained
        return {
            "task": trained.task_type,
            "targets": list(trained.columns.target_columns),
            "classes": {name: [str(label) for label in labels] for name, labels in trained.classes.items()},
            "model": self.model_name,
            "members": len(trained.members),
            "parameters": sum(parameter.numel() for parameter in trained.members[0].parameters()),
            "coverage": trained.coverage,
        }
