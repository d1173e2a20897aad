"""A task: one kind of model, and all that the verbs, the server and the report need to know of it.

    settings → prepare (read, split) → fit → evaluate → run folder → predict, explain, serve, report

Each verb is written once over `Task`, the run in `run`; a task contains only what is its own. `registry` lists all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from edgewise.errors import SettingError, UnsupportedError
from edgewise.learn.engine.workers import Workers
from edgewise.learn.process import Background
from edgewise.learn.settings import spelled
from edgewise.learn.tables.cell import Rejection
from edgewise.learn.tables.options import WRITTEN_TABLES
from edgewise.learn.tasks.config import RunSettings, noun, owners_of
from edgewise.learn.tasks.fitted import Fitted
from edgewise.learn.tasks.report.leakage import SplitContents, text_contents
from edgewise.learn.tasks.scores import (
    NODE_COLUMNS,
    ScoreTable,
    command,
    files_of,
    first_rejected,
    free_name,
    score_table,
    split_line,
    training_line,
)
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.loss import RelativeLoss, TargetLoss, TokenLoss
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.learn.tasks.report.judged import Labels, Numbers
    from edgewise.learn.training.training import FitResult

Loss: TypeAlias = TargetLoss | RelativeLoss | TokenLoss


@dataclass(frozen=True, kw_only=True)
class PredictRequest:
    """What a model is applied to: the files, the names of their columns, and where to compute.

    An option that is left out is the one of the training.
    """

    folder: str
    """The run folder."""
    data: str
    """The file that is read."""
    device: str = "auto"
    threads: int = 1
    strict: bool = False
    """Whether the first bad cell is an error."""
    rejected: Path | None = None
    """Where rows are listed that have no status in the output, such as edges that cannot be read; None lists none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training that have another value here, by name; see `RunSettings.READS`."""

    def __getitem__(self, name: str) -> Any:
        """An option; None where it is that of the training."""
        return self.options.get(name)

    @property
    def run_folder(self) -> RunFolder:
        """The run folder, which holds a finished run.

        Raises:
            RunFolderError: it does not.
        """
        return RunFolder.finished(self.folder)

    def require_only(self, task: "Task") -> None:
        """Raise SettingError where an option is given that predictions of a task do not read."""
        for name in self.options:
            if name not in task.settings_type.READS:
                raise SettingError(f"{spelled(name)} does nothing for {task.noun}; leave it out.")


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a model is trained from: settings, data, its split, and the model before its first step."""

    settings: Any
    """The settings of the run, with nothing left open."""
    data: Any
    """What was read."""
    splits: Any
    """The rows for training, validation and test."""
    fitted: Any
    """The `Fitted`, without members until it is trained."""
    rows: Mapping[str, Any] | None = None
    """The content of splits.json: the rows of each split, lists or arrays; None where the data has no rows."""
    rejected: tuple[Rejection, ...] | list[Rejection] = ()
    """The cells that cannot be used."""
    background: dict[str, Background] = field(default_factory=dict)
    """What another core computes while the model trains."""
    decisions: tuple[str, ...] = ()
    """What was decided for the user, and why, a line each."""
    found: dict[str, Any] = field(default_factory=dict)
    """What scoring has computed and the files of the run need."""


class Task(ABC):
    """One kind of model."""

    settings_type: ClassVar[type[RunSettings]]
    """The settings of a run, with all that is declared of the task."""
    noun: ClassVar[str]
    """What is predicted, in the plural."""
    headlines: ClassVar[dict[str, str]] = {}
    """The scores that tables show, and the heads of their columns."""
    labels: ClassVar[dict[str, str]] = {}
    """What tables call each baseline of metrics.json."""
    scored_together: ClassVar[int | None] = None
    """The batch size of validation; None is that of the training."""
    row_texts: ClassVar[str] = "text"
    """What the text of a row is called where texts of training and test rows are compared."""
    has_orbits: ClassVar[bool] = False
    """Whether the report of a run that was tested draws orbits."""
    units: ClassVar[tuple[str, ...]] = ("row",)
    """What a row is called, and the plural where it does not end in s."""
    output: ClassVar[str] = "predictions.csv"
    """What the file of predictions is called in the command that follows a run."""
    output_formats: ClassVar[tuple[str, ...]] = WRITTEN_TABLES
    """How the files of its predictions may end."""

    @property
    def name(self) -> str:
        """How `edgewise train` calls it."""
        return noun(self.settings_type)

    @property
    def format(self) -> str:
        """How model.json calls it."""
        return self.settings_type.FORMAT

    @abstractmethod
    def prepare(self, settings: Any) -> Prepared:
        """Reads and splits the data, and makes the model before its first step, all that needs no training.

        Raises:
            DataError: The data cannot be used.
        """

    def loaders(self, prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
        """From the recipe of a member to its training and validation batches; what members share is made once."""

        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
            size = recipe.batch_size
            assert size is not None
            validation = self.loader(prepared, "val", self.scored_together or size, None)
            return self.loader(prepared, "train", size, recipe.seed), validation

        return of_member

    def loader(self, prepared: Prepared, split: str, batch_size: int, seed: int | None) -> Loader:
        """The batches of a split, in another order in every epoch where there is a seed."""
        raise NotImplementedError

    @abstractmethod
    def loss(self, prepared: Prepared) -> Loss:
        """What is minimized."""

    def whole_graph(self, prepared: Prepared) -> str | None:
        """What to do where every step computes one whole graph, so that processes have nothing to share out; else
        None."""
        return None

    def start_background(self, prepared: Prepared) -> None:  # noqa: B027 (most tasks have nothing)
        """Starts what another core can compute while the model trains, into `prepared.background`."""

    @abstractmethod
    def evaluate(self, prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
        """The content of metrics.json: sizes, and the scores beside those of baselines."""

    def recipe(self, prepared: Prepared) -> TrainSettings:
        """The recipe of the training, with a known number of epochs."""
        found: TrainSettings = prepared.settings.train
        return found

    def ensemble_size(self, settings: Any) -> int:
        """How many members are trained."""
        return 1

    def files(self, settings: Any) -> Sequence[str]:
        """All files that a run reads."""
        found: Sequence[str] = settings.files
        return found

    def calibrate(self, prepared: Prepared) -> None:  # noqa: B027
        """Learns from validation rows what a trained model needs further, such as the width of intervals."""

    def write_predictions(self, prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:  # noqa: B027
        """Writes the test rows with their predictions; may add to the metrics."""

    def split_contents(self, prepared: Prepared) -> SplitContents | None:
        """The content of the rows of each split, to find what is in both; None where nothing can be compared."""
        if (text := self.row_text(prepared)) is None or prepared.rows is None:
            return None
        found = {split: [text(row) for row in some] for split, some in prepared.rows.items()}
        return text_contents(f"{self.row_texts}s", prepared.rows, found)

    def row_text(self, prepared: Prepared) -> Callable[[int], str] | None:
        """From a row to the text in it; None where rows are no texts."""
        return None

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        """The data of a prepared run in a few lines: what was read, rejected and assumed, and how it was split."""
        counts = {split: len(rows) for split, rows in (prepared.rows or {}).items()}
        lines = [self.opening(prepared), *first_rejected(prepared.rejected, folder), split_line(counts, *self.units)]
        return [
            *lines,
            *(f"  {note}" for note in (*self.warnings(prepared), *self.notes(prepared), *prepared.decisions)),
        ]

    def opening(self, prepared: Prepared) -> str:
        """What was read, in a line."""
        return f"{', '.join(self.files(prepared.settings))}: {len(prepared.rejected):,} rejected"

    def warnings(self, prepared: Prepared) -> list[str]:
        """What speaks against the model before it is trained, a line each; Python warns of it, too."""
        return []

    def notes(self, prepared: Prepared) -> list[str]:
        """What else should be known of the data before the training starts, a line each."""
        return []

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        """The scores of a finished run beside its baselines: tables, and lines between them."""
        metrics = folder.read_json("metrics.json")
        split = next((name for name in ("test", "validation") if name in metrics), None)
        tables = [] if split is None else self.score_tables(metrics, split)
        return [*tables, training_line(metrics)]

    def score_tables(self, metrics: dict[str, Any], split: str) -> list[ScoreTable | str]:
        """The scores of one split beside those of baselines."""
        return [score_table(self.title(metrics, split), self.models(metrics, split), self.headlines)]

    def title(self, metrics: dict[str, Any], split: str) -> str:
        """The title of the table of scores of a split."""
        return f"{split} {self.noun}"

    def models(self, metrics: dict[str, Any], split: str) -> dict[str, dict[str, Any]]:
        """The scores of the model and of baselines on a split, by their labels."""
        known = metrics.get("baselines", {})
        found = {label: known[name][split] for name, label in self.labels.items() if split in known.get(name, {})}
        return {"edgewise": metrics[split]} | found

    def next_commands(self, folder: RunFolder) -> list[str]:
        """What to do with a finished run, complete command lines."""
        return [self.prediction(folder, self.output)]

    def prediction(self, folder: RunFolder, output: str, *, data: str | None = None) -> str:
        """The command that predicts the file of a run that was read last: its test rows where they have a file.

        Args:
            folder: the run.
            output: what the file of predictions is called, unless there is one already.
            data: another file.
        """
        config, owners = folder.read_config(), owners_of(self.settings_type)
        words: list[object] = ["predict", folder.path, data or files_of(config)[-1]]
        for name in self.settings_type.READS:
            if name in owners and owners[name][1].metadata.get("metavar") == "FILE" and config.get(name):
                words += [spelled(name), config[name]]
        if (column := config.get("node-column")) and column not in NODE_COLUMNS:
            words += ["--node-column", column]
        return command(*words, "-o", free_name(output))

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """What to write to the output file, and a line about the predictions.

        Args:
            request: what to predict.
            suffix: how the output file ends, one of `output_formats`.

        Raises:
            UnsupportedError: models of this task predict no files.
        """
        raise UnsupportedError(f"{request.folder} holds an {self.format}, for which there is no file of predictions.")

    def predictions(
        self, request: PredictRequest, suffix: str, workers: Workers | None = None
    ) -> Generator[tuple[Any, str]]:
        """The same part by part, each with the line about all up to there; one part where the whole is in memory.

        Raises:
            UnsupportedError: There are workers, and models of this task do not predict each row by itself.
        """
        if workers is not None:
            raise UnsupportedError(f"models of {self.noun} predict in one process; leave --engine out.")
        yield self.predict(request, suffix)

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained model and the table that it is applied to, for predictions and for learned vectors.

        Raises:
            UnsupportedError: models of this task have no vector for a row.
        """
        raise UnsupportedError(f"{request.folder} holds an {self.format}, for which there is no vector of a row.")

    def test_targets(self, folder: RunFolder) -> "list[Numbers | Labels]":
        """The targets of the test rows of a finished run, beside their predictions, for the report."""
        return []


def training_metrics(prepared: Prepared, result: "FitResult") -> dict[str, Any]:
    """The epochs of a training, the size of its model and its time, for metrics.json."""
    return {
        **best_epoch_of(result),
        "epochs": len(result.history),
        "parameters": num_parameters(prepared.fitted),
        "training_seconds": round(sum(record["seconds"] for record in result.history), 2),
    }


def best_epoch_of(result: "FitResult") -> dict[str, int]:
    """The epoch with the lowest validation loss, counted from 1; nothing where none was validated."""
    return {} if result.best_epoch < 0 else {"best_epoch": result.best_epoch + 1}


def model_name(settings: Any) -> str:
    """What the model of a run is called among the choices of `--model`; nothing where a task has no choice."""
    for group in (getattr(settings, "text", None), getattr(settings, "reader", None)):
        if group is not None:
            return str(group.encoder)
    model = getattr(settings, "model", None)
    if model is None:
        return ""
    return getattr(model, "model", None) or getattr(model, "cell", None) or "transformer"


def num_parameters(fitted: Fitted) -> int:
    """Trainable numbers of one member."""
    return sum(parameter.numel() for parameter in fitted.model.parameters())
