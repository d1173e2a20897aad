"""The whole job over a table: rows → split → ensemble → intervals → scores, beside baselines, in a run folder."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import nn

from edgewise.data.split import Splits, split_rows
from edgewise.data.tables.rows import Table
from edgewise.errors import DataError
from edgewise.progress import counted, stage
from edgewise.tasks.config import begin
from edgewise.tasks.report.leakage import Sides
from edgewise.tasks.run import Run
from edgewise.tasks.table_job import TableJob
from edgewise.tasks.trained import Batches, TrainedTable, prediction_columns, show
from edgewise.train.baseline import Baseline
from edgewise.train.conformal import coverage_of
from edgewise.train.folder import RunFolder
from edgewise.train.loader import RowLoader, seed_of
from edgewise.train.log import MetricsLog
from edgewise.train.loss import TargetLoss
from edgewise.train.metrics import table_of_scores
from edgewise.train.settings import TrainSettings

Content = TypeVar("Content", bound=Hashable)


@dataclass(frozen=True)
class TableRun(Run):
    """A run over a table; who inherits says what its rows hold."""

    table: Any
    """The rows."""
    splits: Splits
    """The rows of each part."""

    @staticmethod
    def read(job: Any) -> Table:
        """The table of a job."""
        raise NotImplementedError

    @staticmethod
    def resolved(job: Any, table: Any, splits: Splits) -> Any:
        """The job with nothing left open: what fits the training rows stands where None stood."""
        raise NotImplementedError

    def untrained(self) -> TrainedTable:
        """All that is known before the first step."""
        raise NotImplementedError

    @property
    def num_classes(self) -> tuple[int, ...]:
        """The number of classes of each target; 0 for regression."""
        columns = self.table.columns
        if columns.task_type == "regression":
            return (0,) * len(columns.target_columns)
        return tuple(len(self.table.classes[name]) for name in columns.target_columns)

    def baselines(self) -> dict[str, Baseline]:
        """Simple models, fitted on the training rows."""
        raise NotImplementedError

    def features(self, rows: np.ndarray) -> Any:
        """What the baselines predict some rows from."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What else should be known of the data before the training begins, a line each."""
        return []

    @classmethod
    def begun(cls, job: TableJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its table read and split and its folder begun."""
        table = cls.read(job)
        job = replace(job, columns=table.columns)
        splits = split_rows(table, kind=job.split_kind, sizes=job.split_sizes, seed=job.data_seed)
        if not len(splits.train):
            raise DataError(f"{table.source}: no row is left for training.")
        job = cls.resolved(job, table, splits)
        rows = {"train": splits.train.tolist(), "val": splits.val.tolist(), "test": splits.test.tolist()}
        continues = begin(folder, job, resume=resume, rows=rows, rejected=table.rejected, files=job.files)
        return cls(folder, continues, job, table, splits)

    def learned(self) -> tuple[TrainedTable, dict[str, Any]]:
        """What has been trained, and its scores; the test rows are predicted."""
        job, folder = self.job, self.folder
        began = time.perf_counter()
        trained = self.untrained()
        fit_members(
            trained,
            self.table,
            self.splits,
            job.train,
            ensemble_size=job.ensemble_size,
            folder=folder,
            resume=self.resume,
        )
        seconds = {"model": round(time.perf_counter() - began, 2)}
        with stage("scoring"):
            metrics = evaluate(trained, self.table, self.splits)
            metrics["parameters"] = sum(parameter.numel() for parameter in trained.members[0].parameters())
            write_test_predictions(trained, self.table, self.splits, folder)
        if job.baselines:
            began = time.perf_counter()
            with stage("baselines"):
                metrics["baselines"] = self.score_baselines()
            seconds["baselines"] = round(time.perf_counter() - began, 2)
        metrics["seconds"] = seconds
        return trained, metrics

    def sides(self) -> Sides:
        """What the rows of each part hold; equal where a model cannot tell two of them apart."""
        return Sides(self.table.row_unit, self.rows_of_parts, self.of_parts(self.table.contents))

    @property
    def rows_of_parts(self) -> dict[str, list[int]]:
        """The numbers of the rows of each part, as in `splits.json`."""
        splits = self.splits
        return {"train": splits.train.tolist(), "val": splits.val.tolist(), "test": splits.test.tolist()}

    def of_parts(self, contents: Callable[[np.ndarray], Sequence[Content]]) -> dict[str, Sequence[Content]]:
        """What some function says of the rows of each part."""
        splits = self.splits
        return {"train": contents(splits.train), "val": contents(splits.val), "test": contents(splits.test)}

    def score_baselines(self) -> dict[str, Any]:
        """The baselines, scored on the rows that they have not seen: by baseline, part and target."""
        table, columns = self.table, self.table.columns
        return {
            name: {
                part: table_of_scores(
                    table.targets[rows],
                    baseline.predict(self.features(rows)),
                    columns.target_columns,
                    columns.task_type,
                )
                for part, rows in parts_of(self.splits).items()
                if part != "training" and len(rows)
            }
            for name, baseline in self.baselines().items()
        }


def fit_members(
    trained: TrainedTable,
    table: Table,
    splits: Splits,
    train: TrainSettings,
    *,
    ensemble_size: int = 1,
    folder: RunFolder | None = None,
    resume: bool = False,
) -> None:
    """Trains an ensemble on the training rows; intervals are learned on the validation rows."""
    trained.threads = train.threads
    batches = trained.batches(table)
    loss = TargetLoss(trained.task_type, train.loss_function, train.huber_width, trained.num_classes)
    log = None if folder is None else MetricsLog(folder.log_folder(), train.logger, folder.path.name)
    members = range(ensemble_size)
    for number in members if ensemble_size == 1 else counted(members, "models of the ensemble"):
        member = fit_member(number, trained, batches, splits, loss, train, folder=folder, resume=resume, log=log)
        trained.members.append(member)
    if log is not None:
        log.close()
    if trained.task_type == "regression" and len(splits.val):
        mean = trained.outputs(table, splits.val).mean(axis=0)
        trained.errors = mean - table.targets[splits.val]


def fit_member(
    number: int,
    trained: TrainedTable,
    batches: Batches,
    splits: Splits,
    loss: TargetLoss,
    train: TrainSettings,
    *,
    folder: RunFolder | None,
    resume: bool,
    log: MetricsLog | None,
) -> nn.Module:
    """Trains one member: its seed is the run's plus its number."""
    # Lightning takes seconds to import, and reading a model does without it.
    from edgewise.train.fit import fit

    settings = replace(train, seed=train.seed + number)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(settings.seed))
        member = trained.new_member()
    fit(
        member,
        RowLoader(splits.train, batches.training_batch, settings.batch_size or 64, settings.seed),
        RowLoader(splits.val, batches.training_batch, trained.rows_a_batch),
        loss,
        settings,
        folder=None if folder is None else folder.checkpoint_folder(number),
        resume=resume,
        log=log,
        member=number,
    )
    return member.eval()


def evaluate(trained: TrainedTable, table: Table, splits: Splits) -> dict[str, Any]:
    """The scores on each part, and how many targets of each part lie within their interval."""
    metrics: dict[str, Any] = {"rows": {"rejected": len(table.rejected)}}
    names = table.columns.target_columns
    coverage: dict[str, Any] = {"promised": trained.coverage}
    for part, rows in parts_of(splits).items():
        predictions = trained.predict(table, rows=rows)
        metrics["rows"][part] = len(rows)
        outputs = [p.value[rows] if p.probabilities is None else p.probabilities[rows] for p in predictions]
        metrics[part] = table_of_scores(table.targets[rows], outputs, names, trained.task_type) if len(rows) else {}
        if part == "test" and trained.task_type == "regression":
            coverage["test"] = {
                name: coverage_of(table.targets[rows, column], p.low[rows], p.high[rows])
                for column, (name, p) in enumerate(zip(names, predictions, strict=True))
            }
    if trained.task_type == "regression":
        metrics["coverage"] = coverage
    return metrics


def parts_of(splits: Splits) -> dict[str, np.ndarray]:
    """The rows of each part by the names that `metrics.json` gives them."""
    return {"test": splits.test, "validation": splits.val, "training": splits.train}


def write_test_predictions(trained: TrainedTable, table: Table, splits: Splits, folder: RunFolder) -> None:
    """Writes the test rows with their cells, their number in the data, and their predictions."""
    rows = splits.test
    columns: dict[str, Any] = {"row_in_data": np.arange(table.num_rows)}
    columns |= {name: table.frame[name].to_numpy() for name in table.frame.columns}
    columns |= prediction_columns(trained, trained.predict(table, rows=rows))
    columns |= trained.more_columns(table, rows)
    cells = [[show(values[row]) for values in columns.values()] for row in rows.tolist()]
    folder.write_table("test_predictions.csv", list(columns), cells)
