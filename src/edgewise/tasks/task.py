"""A task: one kind of model, and all that the verbs, the server and the report need to know of it.

    settings → job → run (read, split, fit, evaluate, save) → run folder → predict, explain, serve, report

Each verb is written once over `Task`; a task says only what is its own. `registry` lists all tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from edgewise.errors import SettingError, UnsupportedError
from edgewise.tasks.scores import ScoreTable
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.report.judged import Labels, Numbers
    from edgewise.tasks.run import Run

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
"""How files of predicted rows end."""


@dataclass(frozen=True, kw_only=True)
class PredictRequest:
    """What a model is applied to: the files, the names of their columns, and where to compute.

    A name that is None is the one of the training.
    """

    folder: str
    """The run folder."""
    data: str
    """The file that is read."""
    device: str = "auto"
    threads: int = 1
    strict: bool = False
    """Whether the first bad cell is an error."""
    coverage: float | None = None
    """The promised probability of the intervals; that of the training where None."""
    smiles_columns: Sequence[str] | None = None
    text_columns: Sequence[str] | None = None
    descriptors_columns: Sequence[str] | None = None
    edges: str | None = None
    features: str | None = None
    nodes: str | None = None
    graphs: str | None = None
    node_column: str | None = None
    graph_column: str | None = None
    node_type_column: str | None = None
    edge_type_column: str | None = None
    max_atoms: int | None = None
    molecule_timeout: float | None = None

    @property
    def run_folder(self) -> RunFolder:
        """The run folder, which holds a finished run.

        Raises:
            RunFolderError: it does not.
        """
        return RunFolder.finished(self.folder)

    def require_only(self, read: Sequence[str], what: str) -> None:
        """Raise SettingError where an option is given that predictions of a task do not read.

        Args:
            read: names of the fields that it reads, besides those of every task.
            what: what the model predicts, for the message.
        """
        for each in fields(self):
            if each.name in (*EVERY_TASK, *read) or getattr(self, each.name) is None:
                continue
            raise SettingError(f"--{each.name.replace('_', '-')} does nothing for {what}; leave it out.")


EVERY_TASK = ("folder", "data", "device", "threads", "strict")
"""Fields of a request that every task reads."""


class Task(ABC):
    """One kind of model."""

    name: ClassVar[str]
    """How `edgewise train` calls it."""
    format: ClassVar[str]
    """How model.json calls it."""
    noun: ClassVar[str]
    """What is predicted, in the plural."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Options of `PredictRequest` that its predictions read, besides those of every task."""
    output_formats: ClassVar[tuple[str, ...]] = TABLES
    """How the files of its predictions may end."""

    @abstractmethod
    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        """The run and its job, from flat settings.

        Args:
            settings: any settings by their names in Python.
            source: where they are from, for messages.

        Raises:
            SettingError: one is not known, or has a value it cannot have.
        """

    @abstractmethod
    def describe(self, run: Any) -> list[str]:
        """The data of a prepared run in a few lines: what was read, rejected and assumed, and how it was split."""

    @abstractmethod
    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        """The scores of a finished run beside its baselines: tables, and lines between them."""

    @abstractmethod
    def next_commands(self, folder: RunFolder) -> list[str]:
        """What to do with a finished run, complete command lines."""

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """What to write to the output file, and a line that says what was predicted.

        Args:
            request: what to predict.
            suffix: how the output file ends, one of `output_formats`.

        Raises:
            UnsupportedError: models of this task predict no files.
        """
        raise UnsupportedError(f"{request.folder} holds an {self.format}, for which there is no file of predictions.")

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained model and the table that it is applied to, for predictions and for learned vectors.

        Raises:
            UnsupportedError: models of this task have no vector for a row.
        """
        raise UnsupportedError(f"{request.folder} holds an {self.format}, for which there is no vector of a row.")

    def explainable(self) -> "type[Subject] | None":
        """What opens a run folder of this task for explanations and for the server; None where there is nothing."""
        return None

    def test_targets(self, folder: RunFolder) -> "list[Numbers | Labels]":
        """The targets of the test rows of a finished run, beside their predictions, for the report."""
        return []

    def defaults(self) -> tuple[Any, Any] | None:
        """The settings of the model and of the training where nothing is given; None where they follow from others."""
        return None
