"""The whole job: table → split → scales → ensemble → intervals → scores, beside baselines, in a run folder."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from edgewise.data.scale import ConditionScaler, FeatureScaler, TargetScaler
from edgewise.data.split import Splits, split_rows
from edgewise.data.table import MoleculeTable, join_files
from edgewise.errors import DataError
from edgewise.estimators.config import begin
from edgewise.estimators.settings import PropertyJob
from edgewise.estimators.trained import (
    ROWS_A_BATCH,
    Scales,
    TableBatches,
    TrainedProperty,
    molecules_of,
    prediction_columns,
    show,
)
from edgewise.models.property import PropertyModel
from edgewise.models.settings import PropertySettings, PropertySizes
from edgewise.train.baseline import Baseline, finite_features, fit_forest, fit_mean
from edgewise.train.conformal import coverage_of
from edgewise.train.folder import RunFolder, csv_text, write_bytes
from edgewise.train.loader import RowLoader, seed_of
from edgewise.train.log import MetricsLog, check_logger
from edgewise.train.loss import TargetLoss
from edgewise.train.metrics import table_of_scores
from edgewise.train.settings import TrainSettings

MemberReport = Callable[[int, int, int, dict[str, Any]], None]
"""Called with the ensemble member, its steps done, its steps in all, and the numbers of its last epoch."""


@dataclass(frozen=True)
class PreparedRun:
    """A run whose data has been read and whose folder has been begun."""

    job: PropertyJob
    """What is to be done."""
    folder: RunFolder
    """Where it is kept."""
    table: MoleculeTable
    """The rows."""
    splits: Splits
    """The rows of each part."""
    resume: bool
    """Whether checkpoints in the folder are to be continued."""


def prepare_run(job: PropertyJob, folder: RunFolder, *, overwrite: bool = False, resume: bool = False) -> PreparedRun:
    """Reads and splits the table, and begins the folder: nothing is written before the data is known to be good.

    Raises:
        RunFolderError: The folder is taken, or holds a run with other settings or other data.
        DataError: The table cannot be used.
    """
    folder.check(overwrite=overwrite, resume=resume)
    check_logger(job.train.logger)
    table = join_files(list(job.data), job.columns, strict=job.strict, with_descriptors=job.molecule_descriptors)
    splits = split_rows(table, kind=job.split_kind, sizes=job.split_sizes, seed=job.data_seed)
    if not len(splits.train):
        raise DataError(f"{table.source}: no row is left for training.")
    model, train = resolved(job.model, job.train, table, splits)
    job = replace(job, columns=table.columns, model=model, train=train)
    rows = {"train": splits.train.tolist(), "val": splits.val.tolist(), "test": splits.test.tolist()}
    continues = begin(folder, job, resume=resume, rows=rows, rejected=table.rejected)
    return PreparedRun(job, folder, table, splits, continues)


def resolved(
    model: PropertySettings, train: TrainSettings, table: MoleculeTable, splits: Splits
) -> tuple[PropertySettings, TrainSettings]:
    """The settings with nothing left open: what fits the training rows stands where None stood."""
    train = train.resolved(len(splits.train), len(np.unique(table.graph_of_row[splits.train])))
    assert train.batch_size is not None
    return model.resolved(train.batch_size), train


def finish_run(run: PreparedRun, report: MemberReport | None = None) -> dict[str, Any]:
    """Trains, scores and writes; returns what stands in `metrics.json`."""
    job, folder = run.job, run.folder
    began = time.perf_counter()
    trained = fit_table(
        run.table,
        run.splits,
        model=job.model,
        train=job.train,
        ensemble_size=job.ensemble_size,
        coverage=job.coverage,
        folder=folder,
        resume=run.resume,
        report=report,
    )
    seconds = {"model": round(time.perf_counter() - began, 2)}
    metrics = evaluate(trained, run.table, run.splits)
    write_test_predictions(trained, run.table, run.splits, folder)
    if job.baselines:
        metrics["baselines"], seconds["forest"] = score_baselines(run.table, run.splits, seed=job.train.seed)
    metrics["seconds"] = seconds
    trained.save(folder)
    folder.write_json("metrics.json", metrics)
    return metrics


def fit_table(
    table: MoleculeTable,
    splits: Splits,
    *,
    model: PropertySettings,
    train: TrainSettings,
    ensemble_size: int = 1,
    coverage: float = 0.9,
    folder: RunFolder | None = None,
    resume: bool = False,
    report: MemberReport | None = None,
) -> TrainedProperty:
    """Trains an ensemble on the training rows; scales are learned there and intervals on the validation rows."""
    model, train = resolved(model, train, table, splits)
    trained = untrained(table, splits, model, coverage)
    trained.threads = train.threads
    batches = TableBatches.of(table, trained.scales)
    loss = TargetLoss(trained.task_type, train.loss_function, train.huber_width, trained.num_classes)
    log = None if folder is None else MetricsLog(folder.path / "logs", train.logger, folder.path.name)
    for number in range(ensemble_size):
        trained.members.append(
            fit_member(
                number, trained, batches, splits, loss, train, folder=folder, resume=resume, log=log, report=report
            )
        )
    if log is not None:
        log.close()
    if trained.task_type == "regression" and len(splits.val):
        mean = trained.outputs(table, splits.val).mean(axis=0)
        trained.errors = mean - table.targets[splits.val]
    return trained


def untrained(table: MoleculeTable, splits: Splits, model: PropertySettings, coverage: float) -> TrainedProperty:
    """All that is known before the first step: sizes, scales, and which molecules the training rows hold."""
    rows = splits.train
    store = table.store
    graphs = np.unique(table.graph_of_row[rows])
    scales = Scales(
        TargetScaler.fit(table.targets, rows) if table.columns.task_type == "regression" else None,
        FeatureScaler.fit(store.global_features.numpy(), graphs),
        ConditionScaler.fit(table.conditions, rows),
    )
    num_targets = len(table.columns.target_columns)
    multiclass = table.columns.task_type == "multiclass"
    sizes = PropertySizes(
        num_node_features=store.node_features.shape[1],
        num_edge_features=store.edge_features.shape[1],
        num_global_features=store.global_features.shape[1],
        num_components=table.graph_of_row.shape[1],
        num_conditions=scales.condition.num_features,
        num_outputs=sum(len(names) for names in table.classes.values()) if multiclass else num_targets,
        typical_nodes=float(np.diff(store.node_offsets.numpy())[graphs].mean()),
        **bounds(table.targets[rows], scales.target),
    )
    return TrainedProperty(
        columns=table.columns,
        classes={} if scales.target is not None else dict(table.classes),
        sizes=sizes,
        settings=model,
        scales=scales,
        members=[],
        errors=np.zeros((0, num_targets)),
        known_rows=list(dict.fromkeys(molecules_of(table, rows))),
        coverage=coverage,
    )


def bounds(targets: np.ndarray, scaler: TargetScaler | None) -> dict[str, tuple[float, ...]]:
    """0 and 1 in model units where every known target is a fraction, so that every prediction is one too."""
    if scaler is None or not ((targets >= 0) & (targets <= 1) | np.isnan(targets)).all():
        return {}
    ends = scaler.transform(np.stack([np.zeros(targets.shape[1]), np.ones(targets.shape[1])]))
    return {"low": tuple(ends[0].tolist()), "high": tuple(ends[1].tolist())}


def fit_member(
    number: int,
    trained: TrainedProperty,
    batches: TableBatches,
    splits: Splits,
    loss: TargetLoss,
    train: TrainSettings,
    *,
    folder: RunFolder | None,
    resume: bool,
    log: MetricsLog | None,
    report: MemberReport | None,
) -> PropertyModel:
    """Trains one member: its seed is the run's plus its number."""
    # Lightning takes seconds to import, and reading a model does without it.
    from edgewise.train.fit import fit

    settings = replace(train, seed=train.seed + number)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(settings.seed))
        member = PropertyModel(trained.sizes, trained.settings)
    fit(
        member,
        RowLoader(splits.train, batches.training_batch, settings.batch_size or 64, settings.seed),
        RowLoader(splits.val, batches.training_batch, ROWS_A_BATCH),
        loss,
        settings,
        folder=None if folder is None else folder.checkpoint_folder(number),
        resume=resume,
        log=log,
        member=number,
        report=None if report is None else lambda *progress: report(number, *progress),
    )
    return member.eval()


def evaluate(trained: TrainedProperty, table: MoleculeTable, splits: Splits) -> dict[str, Any]:
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


def score_baselines(table: MoleculeTable, splits: Splits, *, seed: int = 0) -> tuple[dict[str, Any], float]:
    """The training mean and a random forest, fitted on the training rows and scored on the others.

    Returns:
        The scores by baseline, part and target; and the seconds the forest took.
    """
    names = table.columns.target_columns
    task_type = table.columns.task_type
    num_classes = tuple(0 if task_type == "regression" else len(table.classes[name]) for name in names)
    used = np.concatenate([splits.train, splits.val, splits.test])
    place = {part: np.searchsorted(np.sort(used), rows) for part, rows in parts_of(splits).items()}
    used = np.sort(used)
    raw = table.store.global_features.numpy()[table.graph_of_row[used]].reshape(len(used), -1)
    features = np.concatenate([raw, table.conditions[used]], axis=1)
    targets, weights = table.targets[splits.train], table.weights[splits.train]
    began = time.perf_counter()
    fitted: dict[str, Baseline] = {"mean": fit_mean(targets, weights, num_classes)}
    if features.shape[1]:
        features = finite_features(features, place["training"])
        fitted["forest"] = fit_forest(features[place["training"]], targets, weights, num_classes, seed=seed)
    scores = {
        name: {
            part: table_of_scores(table.targets[rows], baseline.predict(features[place[part]]), names, task_type)
            for part, rows in parts_of(splits).items()
            if part != "training" and len(rows)
        }
        for name, baseline in fitted.items()
    }
    return scores, round(time.perf_counter() - began, 2)


def write_test_predictions(trained: TrainedProperty, table: MoleculeTable, splits: Splits, folder: RunFolder) -> None:
    """Writes the test rows with their cells, their number in the data, and their predictions."""
    rows = splits.test
    columns: dict[str, Any] = {"row_in_data": np.arange(table.num_rows)}
    columns |= {name: table.frame[name].to_numpy() for name in table.frame.columns}
    columns |= prediction_columns(trained, trained.predict(table, rows=rows))
    columns["similarity"] = trained.similarity(table, rows)
    cells = [[show(values[row]) for values in columns.values()] for row in rows.tolist()]
    write_bytes(folder.path / "test_predictions.csv", csv_text(list(columns), cells).encode())
