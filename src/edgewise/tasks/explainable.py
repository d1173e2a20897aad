"""`ExplainableModel`: a trained model and the rows that it takes, as `Explainer` opens it; a class for each task."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from edgewise.data.tables.cell import OK
from edgewise.errors import SettingError
from edgewise.explain.explainable import Explainable
from edgewise.explain.methods import Choice, explain
from edgewise.explanation import Explanation, Kind, TargetPrediction
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder


class ExplainableModel(ABC):
    """A trained model, and the rows that it takes."""

    trained_type: ClassVar[Any]
    """The class of the trained model."""
    kind: Kind
    """What a row is."""
    over: str
    """What the rows are, in words that follow `a model over`."""
    open: tuple[str, ...] = ()
    """Which of `target` and `label` have values that are not listed."""
    coverage: float | None = None
    """The coverage of intervals; None where there are none."""
    reads_spaces = False
    """Whether the model reads a text of spaces."""

    def __init__(self, trained: Any):
        self.trained = trained

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(cls.trained_type.load(folder))

    @property
    @abstractmethod
    def fields(self) -> list[tuple[str, str]]:
        """The name and the type of each value of a row."""

    @property
    @abstractmethod
    def targets(self) -> tuple[str, dict[str, list[str]]]:
        """The name of the task, and the classes of each target; none for numbers."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """What the model is called among the choices of `--model`."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the model is, as JSON: `task`, `targets`, `classes` by target, `open`, `model`, `members` of the
        ensemble, `parameters` of each, and the `coverage` of intervals."""
        task, classes = self.targets
        return {
            "task": task,
            "targets": list(classes),
            "classes": {name: labels for name, labels in classes.items() if labels},
            **({"open": list(self.open)} if self.open else {}),
            "model": self.model_name,
            "members": len(self.trained.members),
            "parameters": sum(parameter.numel() for parameter in self.trained.members[0].parameters()),
            "coverage": self.coverage,
        }

    @abstractmethod
    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions for rows, whose values stand in the order of the fields."""

    def statuses(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """For each row that is predicted, `OK`, or what its prediction lacks, in the words of `edgewise predict`."""
        return [OK] * len(rows)

    @classmethod
    def row(cls, item: Any) -> tuple[Any, ...]:
        """The values of a row out of what estimators take."""
        return (item,)

    def item(self, row: tuple[Any, ...], target: Any, label: Any, top: int | None) -> Explainable:
        """One row and the number of its prediction that is explained."""
        raise NotImplementedError

    def explain(
        self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None, methods: Choice = None
    ) -> Explanation:
        """One row, explained.

        Args:
            row: its values, in the order of the fields.
            target: which target is explained; the first by default.
            label: the class whose probability is explained; the predicted one by default.
            top: how many of the strongest weights of each unit are shown; by default all where they are few.
            methods: names of methods; see `edgewise.explain.methods`.

        Raises:
            DataError: the row cannot be read.
            SettingError: there is no such target, class or method, or `top` is below 1.
        """
        with cpu_threads(self.trained.threads):
            return explain(self.item(row, target, label, top), methods)

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


class ExplainableTable(ExplainableModel):
    """A trained ensemble over the rows of a table."""

    @property
    def targets(self) -> tuple[str, dict[str, list[str]]]:
        """The targets of the table."""
        trained = self.trained
        names = trained.columns.target_columns
        return trained.task_type, {name: [str(each) for each in trained.classes.get(name, ())] for name in names}

    @property
    def coverage(self) -> float | None:  # type: ignore[override]
        """That of the ensemble."""
        return self.trained.coverage

    @property
    def model_name(self) -> str:
        """Which layers it has."""
        return self.trained.settings.model
