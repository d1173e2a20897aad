"""A task: one kind of model, and all that the verbs, the server and the report need to know of it.

    settings → prepare (read, split) → fit → evaluate → run folder → predict, explain, serve, report

Each verb is written once over `Task`, the run in `run`; a task contains only what is its own. `registry` lists all.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from edgewise.errors import SettingError, UnsupportedError
from edgewise.learn.engine.workers import Workers
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import Prediction
from edgewise.learn.process import Background
from edgewise.learn.progress import stage
from edgewise.learn.settings import spelled
from edgewise.learn.tables.cell import Rejection
from edgewise.learn.tables.columns import AUTO, AnyColumns, Columns
from edgewise.learn.tables.options import WRITTEN_TABLES
from edgewise.learn.tables.rows import Data
from edgewise.learn.tasks.config import RunSettings, TaskSettings, input_files, owners_of
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.scores import (
    NODE_COLUMNS,
    ScoreTable,
    command,
    files_of,
    first_rejected,
    free_name,
    score_table,
    split_lines,
    training_line,
)
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader
from edgewise.learn.training.loss import Loss
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from edgewise.learn.tasks.report.evaluation import Labels, Numbers

Written: TypeAlias = "str | DataFrame | Mapping[str, np.ndarray]"
"""What is written to a file of predictions: its text, a table for .parquet, arrays for .npz."""


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
    """Where rows are listed without a status in the output, such as edges that cannot be read; None lists none."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Settings of the training that have another value here, by name; see `TaskSettings.predict_flags`."""

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

    def columns(self, of_training: AnyColumns, **defaults: str | None) -> AnyColumns:
        """The columns of the file, as options name them.

        Args:
            of_training: the columns that the model was trained on.
            defaults: those that an option may name, and what each is where it does not; None where it is that of the
                training.
        """
        named = {name: self[name] or column or getattr(of_training, name) for name, column in defaults.items()}
        lists = {name: tuple(column) if isinstance(column, list) else column for name, column in named.items()}
        return of_training.to_predict(**lists)

    def require_only(self, task: "Task") -> None:
        """Raise SettingError where an option is given that predictions of a task do not read."""
        for name in self.options:
            if name not in task.settings.predict_flags:
                raise SettingError(f"{spelled(name)} does nothing for {task.noun}; leave it out.")


Job = TypeVar("Job", bound=RunSettings)
Dataset = TypeVar("Dataset")
Split = TypeVar("Split")
Model = TypeVar("Model", bound=Fitted)
Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)
class Prepared(Generic[Job, Dataset, Split, Model]):
    """What a model is trained from: settings, data, its split, and the model before its first step."""

    settings: Job
    """The settings of the run, with nothing left open."""
    data: Dataset
    """What was read."""
    splits: Split
    """The rows for training, validation and test."""
    fitted: Model
    """The model, without members until it is trained."""
    rows: Mapping[str, Sequence[int] | np.ndarray] | None = None
    """The content of splits.json: the rows of each split, lists or arrays; None where the data is not rows."""
    rejected: tuple[Rejection, ...] | list[Rejection] = ()
    """The cells that cannot be used."""
    background: dict[str, Background] = field(default_factory=dict)
    """What another core computes while the model trains."""
    decisions: tuple[str, ...] = ()
    """What was decided for the user, and why, a line each."""
    scored: "Scored" = field(default_factory=lambda: Scored())
    """What was predicted for rows of a table, and is needed again."""


@dataclass
class Scored:
    """Predictions of a trained model that several files of the run need."""

    validation: tuple[np.ndarray, list[np.ndarray]] | None = None
    """Validation rows, and for each target their values or probabilities, by what has not learned from them."""
    validation_parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """`(row, output)`: of these rows by the network alone, and by each companion."""
    test: tuple[list[Prediction], Mapping[str, np.ndarray] | None] | None = None
    """The predictions of the test rows, and their similarities to training rows."""


Loaders = Callable[[TrainSettings], tuple[Loader, Loader | None]]
"""From the recipe of a member to its training and validation batches."""


def nothing(*_: object) -> None:
    """What a task does where it has nothing to do."""


def no_lines(*_: object) -> list[str]:
    """What a task says where it has nothing to say."""
    return []


def no_targets(*_: object) -> "list[Numbers | Labels]":
    """The targets of a task whose report shows none."""
    return []


def loss_of_output(prepared: Prepared) -> Loss:
    """The loss that belongs to what the numbers of the network mean."""
    loss: Loss = prepared.fitted.output.loss(prepared.settings)
    return loss


def recipe_of_settings(prepared: Prepared) -> TrainSettings:
    """The recipe that the settings have."""
    recipe: TrainSettings = prepared.settings.train
    return recipe


def by_split(
    loader: Callable[[Prepared[Job, Dataset, Split, Model], str, int, int | None], Loader],
) -> Callable[[Prepared[Job, Dataset, Split, Model]], Loaders]:
    """The loaders of a task whose members all learn from the same rows.

    Args:
        loader: the batches of a split of about so many rows, in another order in every epoch where there is a seed.
    """

    def loaders(prepared: Prepared[Job, Dataset, Split, Model]) -> Loaders:
        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
            size = recipe.batch_size
            assert size is not None
            return loader(prepared, "train", size, recipe.seed), loader(prepared, "val", size, None)

        return of_member

    return loaders


def vectors_of_members(trained: FittedTable, data: Data, device: str) -> np.ndarray:
    """The learned vectors of all members side by side."""
    return trained.fingerprint(data, device)


@dataclass(frozen=True)
class RowTask(Generic[Model, Read]):
    """How rows of a file are predicted, each by itself, whatever other rows there are; see `chunks`."""

    opened: Callable[[PredictRequest], tuple[Model, Columns]]
    """The trained ensemble, and the columns that it reads of the table."""
    chunks: Callable[[PredictRequest, Columns], Any]
    """The table, chunk after chunk."""
    from_cells: Callable[..., Read]
    """Some rows as the ensemble reads them, from it, the columns and their cells; strict or not."""
    tally: Callable[[Model, Read], Any]
    """What is counted of rows besides their number, from the ensemble and the table."""


@dataclass(frozen=True, kw_only=True)
class Task(Generic[Job, Dataset, Split, Model]):
    """One kind of model, as values that are passed in: what is special about it. Nothing is overridden.

    The first fields are needed; the others have a default for tasks that do nothing special there.
    """

    settings: TaskSettings[Job]
    """What is declared of the task: its settings first of all."""
    noun: str
    """What is predicted, in the plural."""
    prepare: Callable[[Job], Prepared[Job, Dataset, Split, Model]]
    """Reads and splits the data, and makes the model before its first step, all that needs no training."""
    evaluate: "Callable[[Prepared[Job, Dataset, Split, Model], list[FitResult]], JsonObject]"
    """The content of metrics.json: sizes, and the scores beside those of baselines."""

    loaders: Callable[[Prepared[Job, Dataset, Split, Model]], Loaders]
    """From the recipe of a member to its training and validation batches; what members share is made once. See
    `by_split`."""
    load: Callable[[RunFolder], Model]
    """Reads the trained model of a run folder."""
    explainable: str | None = None
    """Where the `ExplainableTask` is, `module:object`, which opens run folders for explanations and for the server;
    trainings do not import it."""
    loss: Callable[[Prepared[Job, Dataset, Split, Model]], Loss] = loss_of_output
    """What is minimized; that of the output where it says it."""
    whole_graph: Callable[[Prepared[Job, Dataset, Split, Model]], str | None] = nothing
    """The remedy, if every step computes one whole graph, which several processes cannot split."""
    recipe: Callable[[Prepared[Job, Dataset, Split, Model]], TrainSettings] = recipe_of_settings
    """The recipe of the training, with a known number of epochs."""
    ensemble_size: Callable[[Job], int] = lambda settings: 1
    """How many members are trained, by the settings."""
    start_background: Callable[[Prepared[Job, Dataset, Split, Model]], None] = nothing
    """Starts what another core can compute while the model trains, into `prepared.background`."""
    calibrate: Callable[[Prepared[Job, Dataset, Split, Model]], None] = nothing
    """Learns from validation rows what a trained model needs further, such as the width of intervals."""
    write_predictions: Callable[[Prepared[Job, Dataset, Split, Model], RunFolder, JsonObject], None] = nothing
    """Writes the test rows with their predictions; may add to the metrics."""
    rows: RowTask | None = None
    """How rows of a file are read and predicted, each by itself; None where they are predicted together."""

    split_contents: Callable[[Prepared[Job, Dataset, Split, Model]], SplitContents | None] = nothing
    """The content of the rows of each split, to find what is in both; None where nothing can be compared."""

    warnings: Callable[[Prepared[Job, Dataset, Split, Model]], list[str]] = no_lines
    """What speaks against the model before it is trained, a line each; Python warns of it, too."""
    notes: Callable[[Prepared[Job, Dataset, Split, Model]], list[str]] = no_lines
    """What else should be known of the data before the training starts, a line each."""
    description: Callable[[Prepared[Job, Dataset, Split, Model], RunFolder], list[str]] | None = None
    """All lines about a prepared run, where the usual ones do not fit."""

    headlines: Mapping[str, str] = field(default_factory=dict)
    """The scores that tables show, and the heads of their columns."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What tables call each baseline of metrics.json."""
    score_tables: Callable[[JsonObject, str], list[ScoreTable | str]] | None = None
    """The scores of one split beside those of baselines, where the usual table does not say it all."""
    all_scores: Callable[[RunFolder], list[ScoreTable | str]] | None = None
    """The scores of a finished run, where they are not those of one split."""
    has_orbits: bool = False
    """Whether the report of a run that was tested draws orbits."""
    test_targets: "Callable[[RunFolder], list[Numbers | Labels]]" = no_targets
    """The targets of the test rows of a finished run, beside their predictions, for the report."""

    further_commands: Callable[[RunFolder], list[str]] | None = None
    """What to do with a finished run, where it is not to predict."""
    output: str = "predictions.csv"
    """What the file of predictions is called in the command that follows a run."""
    output_formats: tuple[str, ...] = WRITTEN_TABLES
    """How the files of its predictions may end."""
    predict: Callable[[PredictRequest, str], tuple[Written, str]] | None = None
    """What to write to a file of some ending, and a line about the predictions."""
    predict_in_parts: Callable[[PredictRequest, str, Workers | None], Generator[tuple[Written, str]]] | None = None
    """The same part by part, where the whole need not be in memory."""
    open_rows: Callable[[PredictRequest], tuple[Model, Data]] | None = None
    """The trained model and the table that it is applied to, for predictions and for learned vectors."""
    vectors: Callable[..., np.ndarray] = vectors_of_members
    """The learned vector of each row of a table, by the model, the table and the device; NaN where there is none."""

    @property
    def name(self) -> str:
        """How `edgewise train` calls it."""
        return self.settings.name

    @property
    def format(self) -> str:
        """How model.json calls it."""
        return self.settings.format

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        """The data of a prepared run in a few lines: what was read, rejected and assumed, and how it was split."""
        if self.description is not None:
            lines = self.description(prepared, folder)
        else:
            opening = f"{', '.join(input_files(prepared.settings))}: {len(prepared.rejected):,} rejected"
            lines = self.describe_rows(prepared, folder, opening, "row")
        return [*lines, *(f"  {decision}" for decision in prepared.decisions)]

    def describe_rows(self, prepared: Prepared, folder: RunFolder, opening: str, row_noun: str) -> list[str]:
        """What was read, by a line about it, what was rejected, how rows were split, and what else is to be known.

        Args:
            prepared: the run.
            folder: where it goes.
            opening: what was read.
            row_noun: what a row is called.
        """
        counts = {split: len(rows) for split, rows in (prepared.rows or {}).items()}
        notes = (*self.warnings(prepared), *self.notes(prepared))
        lines = [opening, *first_rejected(prepared.rejected, folder), *split_lines(counts, row_noun)]
        return [*lines, *(f"  {note}" for note in notes)]

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        """The scores of a finished run beside its baselines: tables, and lines between them."""
        if self.all_scores is not None:
            return self.all_scores(folder)
        metrics = folder.read_object("metrics.json")
        split = next((name for name in ("test", "validation") if name in metrics), None)
        make = self.score_tables or self.score_table
        return [*([] if split is None else make(metrics, split)), training_line(metrics)]

    def score_table(self, metrics: JsonObject, split: str, title: str | None = None) -> list[ScoreTable | str]:
        """The scores of one split beside those of baselines, in one table."""
        title = f"{split} {self.noun}" if title is None else title
        return [score_table(title, self.scores_of_models(metrics, split), self.headlines)]

    def scores_of_models(self, metrics: JsonObject, split: str) -> dict[str, JsonObject]:
        """The scores of the model and of baselines on a split, by their labels."""
        baselines = metrics.get("baselines", {})
        scores = {
            label: baselines[name][split] for name, label in self.labels.items() if split in baselines.get(name, {})
        }
        return {"edgewise": metrics[split]} | scores

    def next_commands(self, folder: RunFolder) -> list[str]:
        """What to do with a finished run, complete command lines."""
        return (
            [self.prediction(folder, self.output)] if self.further_commands is None else self.further_commands(folder)
        )

    def prediction(self, folder: RunFolder, output: str, *, data: str | None = None) -> str:
        """The command that predicts the file of a run that was read last: its test rows where they have a file.

        Args:
            folder: the run.
            output: what the file of predictions is called, unless there is one already.
            data: another file.
        """
        config, owners = folder.read_config(), owners_of(self.settings.run_type)
        words: list[object] = ["predict", folder.path, data or files_of(config)[-1]]
        for name in self.settings.predict_flags:
            if name in owners and owners[name][1].metadata.get("is_file") and config.get(name):
                words += [spelled(name), config[name]]
        if (column := config.get("node-column")) and column not in (AUTO, *NODE_COLUMNS):
            words += ["--node-column", column]
        return command(*words, "-o", free_name(output))

    def predictions(
        self, request: PredictRequest, suffix: str, workers: Workers | None = None
    ) -> Generator[tuple[Written, str]]:
        """What to write to the output file part by part, each with the line about all up to there.

        Args:
            request: what to predict.
            suffix: how the output file ends, one of `output_formats`.
            workers: other processes that predict; None computes here.

        Raises:
            UnsupportedError: models of this task predict no files; or there are workers, and they do not predict each
                row by itself.
        """
        if self.predict_in_parts is not None:
            yield from self.predict_in_parts(request, suffix, workers)
            return
        self.refuse_workers(workers)
        if self.predict is None:
            of_what = f"{request.folder} holds an {self.format}"
            raise UnsupportedError(f"{of_what}, whose predictions cannot be written to a file.")
        yield self.predict(request, suffix)

    def refuse_workers(self, workers: Workers | None) -> None:
        """Raise UnsupportedError where there are workers, and models predict all rows together."""
        if workers is not None:
            raise UnsupportedError(f"models of {self.noun} predict in one process; leave --engine out.")

    def read(self, request: PredictRequest) -> tuple[Model, Data]:
        """The trained model and the table that it is applied to, for predictions and for learned vectors.

        Raises:
            UnsupportedError: models of this task do not give a vector for a row.
        """
        if self.open_rows is None:
            raise UnsupportedError(f"{request.folder} holds an {self.format}, which does not give a vector for a row.")
        with stage(f"reading {request.data}"):
            trained, data = self.open_rows(request)
        trained.threads = request.threads
        return trained, data


def training_metrics(prepared: Prepared, result: "FitResult", unit: str | None = None) -> JsonObject:
    """The length of a training in epochs or steps, the size of its model and its time, for metrics.json."""
    unit = unit or prepared.settings.train.unit
    length, best = result.length(unit)
    return {
        **({} if best is None else {f"best_{unit}": best}),
        f"{unit}s": length,
        "parameters": num_parameters(prepared.fitted),
        "training_seconds": round(sum(record["seconds"] for record in result.history), 2),
    }


def model_name(settings: object) -> str:
    """What the model of a run is called among the choices of `--model`; empty where a task offers only one."""
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
