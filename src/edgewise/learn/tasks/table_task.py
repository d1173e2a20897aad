"""A task over the rows of a table: rows → split → ensemble → intervals → scores, beside baselines."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.companions import COMPANIONS
from edgewise.learn.engine.workers import Workers
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted_table import FittedTable, T, load_table
from edgewise.learn.intervals import Intervals
from edgewise.learn.outputs import Targets
from edgewise.learn.process import Background
from edgewise.learn.progress import stage
from edgewise.learn.tables.magnitude import require_comparable
from edgewise.learn.tables.rows import Data
from edgewise.learn.tables.split import Splits, evenly_spaced, groups_of, split_folds, split_rows, with_left_out
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.chunks import note_empty_intervals, predict_rows, predictions, read_rows
from edgewise.learn.tasks.companions import add_companion, learn_from_validation
from edgewise.learn.tasks.config import TaskSettings
from edgewise.learn.tasks.prediction_columns import check_names, prediction_columns, rows_with
from edgewise.learn.tasks.report.evaluation import MAX_ROWS, evaluated_targets
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.table_notes import described, warnings_of
from edgewise.learn.tasks.table_scores import coverage_scores, parts_of, scores_by_target
from edgewise.learn.tasks.table_settings import TableRunSettings, check_task_type
from edgewise.learn.tasks.targets import (
    MAX_FITTED,
    balanced,
    check_targets,
    check_weights,
    named,
    num_classes,
    outputs_of,
    rows_of,
    rows_to_fit,
    with_companions_of_values,
)
from edgewise.learn.tasks.task import (
    Loaders,
    PredictRequest,
    Prepared,
    RowTask,
    Task,
    Written,
    no_lines,
    nothing,
    num_parameters,
)
from edgewise.learn.training.baseline import BackgroundForest, Predictor, fit_forest, fit_mean
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.conformal import learn_difficulty
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings, available_cores

Job = TypeVar("Job", bound=TableRunSettings)
Dataset = TypeVar("Dataset", bound=Data)
Features = Callable[[np.ndarray], Any]
"""From rows to what baselines predict them from."""
MAX_SCORED = 2**18
"""Rows of a split that are scored; evenly chosen where there are more."""
ROW_CHUNK = 2**13
"""Rows whose features for baselines are in memory at the same time."""


def rows_to_score(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """Those of the rows of a split that are scored."""
    return evenly_spaced(rows, MAX_SCORED)


def row_loader(rows: np.ndarray, prepared: Prepared, batches: RowBatches, recipe: TrainSettings) -> Loader:
    """The training rows of a member, in batches."""
    return RowLoader(rows, batches.training_batch, recipe.batch_size or 64, recipe.seed)


def mean_and_forest(
    prepared: Prepared, features: Features, fit_trees: Callable[..., Predictor]
) -> dict[str, Predictor]:
    """The training mean, and a random forest by `fit_trees` over `features` where there are any."""
    table, rows, classes = prepared.data.rows, prepared.splits.train, num_classes(prepared.data.rows)
    fitted: dict[str, Predictor] = {"mean": fit_mean(table.targets[rows], table.weights[rows], classes)}
    rows = rows_to_fit(table, rows)
    targets, weights = table.targets[rows], table.weights[rows]
    if (features_of_rows := features(rows)).shape[1]:
        seed = prepared.settings.train.seed
        fitted["forest"] = fit_trees(features_of_rows, targets, weights, classes, seed=seed)
    return fitted


def contents_of_rows(prepared: Prepared) -> SplitContents:
    """The content of the rows of each split; equal where a model cannot tell two of them apart."""
    assert prepared.rows is not None
    table, rows = prepared.data.rows, rows_of(prepared.splits)
    return SplitContents(table.row_noun, rows, {split: table.keys(numbers) for split, numbers in rows.items()})


@dataclass(frozen=True, kw_only=True)
class TableTask(Generic[Job, Dataset, T]):
    """What is special about a task over the rows of a table; `task` is the whole of it."""

    settings: TaskSettings[Job]
    """What is declared of the task: its settings first of all."""
    noun: str
    """What is predicted, in the plural."""
    read_data: Callable[[Job], Dataset]
    """Reads the data set of a run."""
    resolved: Callable[[Job, Dataset, Splits], Job]
    """The settings with nothing left open: what fits the training rows replaces None."""
    encoder: type[T]
    """The class that turns the rows of a data set into batches, and makes the networks."""
    encode: Callable[[Job, Dataset, Splits], tuple[T, Targets]]
    """The encoder that the training rows fix, and what the outputs of a network mean."""
    features: Callable[[Prepared], Features]
    """What baselines predict rows from."""
    with_training_words: Callable[[Job, Dataset, Splits], tuple[Dataset, Splits]] = lambda settings, *read: read
    """What is read, and its splits, with the words that the training rows have."""
    explainable: str | None = None
    """Where the `ExplainableTask` is, which opens run folders for explanations and for the server: `module:object`."""
    further_warnings: Callable[[Prepared], list[str]] = no_lines
    """What speaks against the model besides its targets and splits, a line each."""
    notes: Callable[[Prepared], list[str]] = no_lines
    """What else should be known of the data before the training starts, a line each."""
    baselines: Callable[[Prepared, Features, Callable[..., Predictor]], dict[str, Predictor]] = mean_and_forest
    """Simple models by their names, fitted to the training rows."""
    fits_trees_in_background: bool = False
    """Whether the baselines are trees alone, which compute on another core while the model trains."""
    batches: Callable[[Prepared], RowBatches] = lambda prepared: prepared.fitted.batches(prepared.data)
    """The rows as the models take them."""
    training_loader: Callable[[np.ndarray, Prepared, RowBatches, TrainSettings], Loader] = row_loader
    """The training rows of a member, in batches."""
    scored: Callable[[Prepared, np.ndarray], np.ndarray] = rows_to_score
    """Those of the rows of a split that are scored."""
    companions: bool = False
    """Whether the settings choose what stands beside the network."""
    after_split: Callable[[Job, Prepared], Prepared] = lambda settings, prepared: prepared
    """What follows from the settings as they came and all that is prepared, such as how a graph is sampled that memory
    does not hold."""
    whole_graph: Callable[[Prepared], str | None] = nothing
    """The remedy, if every step computes one whole graph, which several processes cannot split."""
    contents: Callable[[Prepared], SplitContents | None] = contents_of_rows
    """The content of the rows of each split, to find what is in both."""
    rows: RowTask | None = None
    """How rows of a file are read and predicted, each by itself; None where they are predicted together."""
    read: Callable[[FittedTable[T], PredictRequest], Dataset] | None = None
    """Reads a file with the columns that a trained ensemble needs; None where `rows` does."""
    predict_in_parts: Callable[[PredictRequest, str, Workers | None], Generator[tuple[Written, str]]] | None = None
    """Predictions of a file part by part, where neither `rows` gives them nor all rows are predicted at once."""

    def load(self, folder: RunFolder) -> FittedTable[T]:
        """The trained ensemble of a run folder."""
        return load_table(folder, self.settings.format, self.encoder)

    def untrained(self, settings: Job, data: Dataset, splits: Splits) -> FittedTable[T]:
        """An ensemble before its first step, without members; its scales are those of the training rows."""
        encoder, output = self.encode(settings, data, splits)
        intervals = Intervals(np.zeros((0, len(output.names))), coverage=settings.coverage)
        return FittedTable(format=self.settings.format, encoder=encoder, output=output, intervals=intervals)

    def open(self, request: PredictRequest) -> tuple[FittedTable[T], Dataset]:
        """The trained ensemble, and the data set of a file with the columns it needs."""
        if self.rows is not None:
            trained, data = read_rows(self.rows, request)
        else:
            assert self.read is not None
            trained = self.load(request.run_folder)
            data = self.read(trained, request)
        trained.check_coverage(request["coverage"])
        return trained, data

    @property
    def task(self) -> Task[Job, Dataset, Splits, FittedTable[T]]:
        """The task: read → split → train an ensemble → calibrate → score beside baselines."""
        return Task(
            settings=self.settings,
            noun=self.noun,
            explainable=self.explainable,
            prepare=self.prepare,
            load=self.load,
            loss=self.loss,
            loaders=self.loaders,
            whole_graph=self.whole_graph,
            ensemble_size=lambda settings: int(settings.ensemble_size),
            start_background=self.start_background,
            calibrate=self.calibrate,
            evaluate=self.evaluate,
            write_predictions=self.write_predictions,
            split_contents=self.contents,
            warnings=self.warnings,
            notes=self.notes,
            description=self.describe,
            all_scores=scores_by_target,
            test_targets=evaluated_targets,
            predict=self.predict,
            rows=self.rows,
            predict_in_parts=self.predict_in_parts if self.rows is None else partial(predictions, self.rows),
            open_rows=self.open,
        )

    def prepare(self, settings: Job) -> Prepared[Job, Dataset, Splits, FittedTable[T]]:
        requested, data = settings, self.read_data(settings)
        if settings.split not in (None, "column"):  # a file of a graph brings its own column of splits
            columns = replace(data.rows.columns, splits_column=None)
            data = replace(data, rows=replace(data.rows, columns=columns))
        settings = settings.with_columns(data.rows.columns)
        split: Callable[..., Splits] = split_rows
        if settings.fold is not None:
            split = partial(split_folds, num_folds=settings.num_folds or 0, fold=settings.fold)
        splits = split(
            data.rows,
            kind=settings.split_kind,
            sizes=settings.split_sizes,
            seed=settings.data_seed,
            calibration=settings.calibration,
        )
        if not len(splits.train):
            raise DataError(f"{data.rows.source}: no row is left for training.")
        prepared = self.prepared(settings, *self.with_training_words(settings, data, splits))
        check_names(prepared.fitted, data.rows.source, has_folds=settings.fold is not None)
        return self.after_split(requested, prepared)

    def prepared(self, settings: Job, data: Dataset, splits: Splits) -> Prepared[Job, Dataset, Splits, FittedTable[T]]:
        """The same of a data set that is read and split."""
        settings = settings.with_columns(data.rows.columns)
        rows = rows_of(splits)
        check_weights(data.rows, splits.train, "training", "learn from")
        check_weights(data.rows, splits.val, "validation", "validate on")
        if data.rows.columns.task_type == "regression":
            splits = with_left_out(data.rows, splits, settings.ensemble_size, settings.train.seed)
            settings = replace(settings, calibration=splits.calibration)
        learned = replace(splits, train=splits.learned)
        check_weights(data.rows, learned.train, "training", "learn from")
        # Not of all that some member learns from: what stands beside the model learns from the training rows alone.
        check_targets(data.rows, splits.train)
        settings = self.resolved(with_companions_of_values(settings), data, learned)
        check_task_type(self.settings, settings, settings.columns.task_type)
        fitted = self.untrained(settings, data, learned)
        if fitted.task_type == "regression":
            fitted.intervals = replace(fitted.intervals, calibration=splits.calibration)
            fitted.output = fitted.output.with_loss_function(settings.train.loss_function)
        return Prepared(settings, data, splits, fitted, rows, data.rows.rejected)

    def loaders(self, prepared: Prepared) -> Loaders:
        """The training rows of each member, and the rows that validate it."""
        splits, fitted, table = prepared.splits, prepared.fitted, prepared.data.rows
        if (scale := fitted.target_scale) is not None:
            for rows in (splits.train, splits.val, splits.test):  # rows of training that weigh nothing, too
                cell_name = table.cell_names(rows, table.columns.target_columns)
                require_comparable(table.targets[rows], scale.transform(table.targets[rows]), cell_name)
        batches = self.batches(prepared)

        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader]:
            train, val = splits.of_member(recipe.seed - prepared.settings.train.seed)
            training = self.training_loader(train, prepared, batches, recipe)
            return training, RowLoader(val, batches.training_batch, fitted.rows_per_batch)

        return of_member

    def loss(self, prepared: Prepared) -> TargetLoss:
        """That of the type of the targets, classes weighted where the settings say so."""
        recipe, fitted = prepared.settings.train, prepared.fitted
        loss = TargetLoss(fitted.task_type, recipe.loss_function, recipe.huber_width, fitted.num_classes)
        if prepared.settings.class_weight is None:
            return loss
        table, rows = prepared.data.rows, prepared.splits.train
        weights = tuple(
            balanced(table.targets[rows, column], table.weights[rows], len(labels))
            for column, labels in enumerate(fitted.classes.values())
        )
        return replace(loss, class_weights=weights)

    def calibrate(self, prepared: Prepared) -> None:
        """Puts companions beside the network, and learns from validation rows how far predictions may be off.

        Once validation rows have judged them, companions learn from these, too, unless members leave out different
        rows: most of them know a row already.
        """
        fitted, data, splits, fresh = prepared.fitted, prepared.data, prepared.splits, {}
        members = [splits.of_member(number) for number in range(len(fitted.members))]
        recipe, uses_validation = prepared.settings.train, not splits.left_out
        for name in dict.fromkeys(prepared.settings.companions) if self.companions else ():
            fresh[name] = add_companion(
                fitted, data, COMPANIONS[name], members, recipe, self.loss(prepared), uses_validation=uses_validation
            )
        self.calibrate_intervals(prepared)
        if not uses_validation or not any(fresh.values()):
            return

        if prepared.scored.validation is None and len(rows := self.scored(prepared, splits.val)):
            outputs = fitted.ensemble_predictions(data, rows)
            predictions = fitted.to_predictions(outputs, np.arange(len(rows)), len(rows), {})
            prepared.scored.validation = rows, outputs_of(predictions)
            prepared.scored.validation_parts = outputs.parts
        learn_from_validation(fitted, fresh)

    def calibrate_intervals(self, prepared: Prepared) -> None:
        """Intervals follow from the errors on rows that a member has not learned from, predicted by such members."""
        fitted, data, splits = prepared.fitted, prepared.data, prepared.splits
        rows = self.scored(prepared, splits.calibrating)
        if fitted.task_type != "regression" or not len(rows):
            return
        outputs = fitted.ensemble_predictions(data, rows)
        chosen = np.stack([np.isin(rows, splits.of_member(number)[1]) for number in range(len(fitted.members))])
        values, validate = outputs.mean(chosen), np.isin(rows, splits.val)
        all_errors = values - data.rows.targets[rows]
        fitted.intervals = replace(fitted.intervals, errors=all_errors)
        prepared.scored.validation = rows[validate], list(values[validate].T)
        if not splits.left_out:
            prepared.scored.validation_parts = {name: part[validate] for name, part in outputs.parts.items()}
        groups = np.unique(groups_of(data.rows, rows, splits.calibration), return_inverse=True)[1].astype(np.int64)
        spreads = outputs.total_std() if splits.calibration == "random" else outputs.mean_std(chosen)
        features = fitted.difficulty_features(spreads, self.held_out_similarities(prepared, rows))
        learned = [learn_difficulty(features[:, column], errors, groups) for column, errors in enumerate(all_errors.T)]
        if any(difficulty.slopes for difficulty, _ in learned):
            sigma = np.stack([sigma for _, sigma in learned], axis=1)
            fitted.intervals = replace(
                fitted.intervals, difficulty=tuple(difficulty for difficulty, _ in learned), sigma=sigma
            )

    def held_out_similarities(self, prepared: Prepared, rows: np.ndarray) -> dict[str, np.ndarray]:
        """How similar calibration rows are to the rows that the members which left them out learned from."""
        fitted, data, splits = prepared.fitted, prepared.data, prepared.splits
        similarities: dict[str, np.ndarray] = {} if splits.left_out else fitted.similarities(data, rows)
        for left_out in {left_out.tobytes(): left_out for left_out in splits.left_out}.values():
            chosen, learned = np.isin(rows, left_out), np.setdiff1d(splits.learned, left_out)
            for name, values in fitted.similarities(data, rows[chosen], learned).items():
                similarities.setdefault(name, np.zeros(len(rows)))[chosen] = values
        return similarities

    def evaluate(self, prepared: Prepared, results: list[FitResult]) -> JsonObject:
        """The scores of each split, and how many targets of the test rows lie within their interval."""
        fitted, data, splits = prepared.fitted, prepared.data, named(prepared.splits)
        all_targets, task_type = data.rows.targets, fitted.task_type
        metrics: JsonObject = {"rows": {"rejected": len(data.rows.rejected)}}
        for name, rows in splits.items():
            metrics["rows"][name] = len(rows)
            rows = self.scored(prepared, rows)
            if name == "validation" and prepared.scored.validation is not None:
                rows, outputs = prepared.scored.validation
            elif name != "test" and task_type == "regression":  # intervals, and similarities for them, are not needed
                outputs = list(fitted.outputs(data, rows).mean(axis=0).T)
            else:
                similarities = fitted.similarities(data, rows) if fitted.intervals.difficulty else None
                predictions = fitted.predict_rows(data, rows, similarities=similarities)
                if name == "test":
                    prepared.scored.test = predictions, similarities
                outputs = outputs_of(predictions)
            metrics[name] = fitted.output.scores(all_targets[rows], outputs) if len(rows) else {}
            if len(rows) and (parts := parts_of(prepared, name)):
                scores = {part: fitted.output.scores(all_targets[rows], by) for part, by in parts.items()}
                metrics.setdefault("parts", {})[name] = scores
            if name == "test" and task_type == "regression":
                metrics["coverage"] = coverage_scores(prepared, rows, predictions)
        if self.companions:
            metrics["shares"] = fitted.shares
        metrics["parameters"] = num_parameters(fitted)
        unit = prepared.settings.train.unit
        lengths = [result.length(unit) for result in results]
        metrics |= {f"{unit}s": [count for count, _ in lengths], f"best_{unit}s": [best for _, best in lengths]}
        spent = sum(record["seconds"] for result in results for record in result.history)
        metrics["seconds"] = {"model": round(spent, 2)}
        if prepared.settings.baselines:
            with stage("baselines"):
                baselines = prepared.background.get("baselines") or Background(lambda: self.score_baselines(prepared))
                metrics["baselines"] = baselines.result()
            metrics["seconds"]["baselines"] = round(baselines.elapsed_seconds, 2)
        return metrics

    def validation_metrics(self, prepared: Prepared) -> JsonObject:
        """The scores of the validation rows alone, as in `evaluate`, and the size of a model."""
        fitted, data = prepared.fitted, prepared.data
        rows = self.scored(prepared, prepared.splits.val)
        if prepared.scored.validation is not None:
            rows, outputs = prepared.scored.validation
        else:
            outputs = outputs_of(fitted.predict_rows(data, rows))
        scores = fitted.output.scores(data.rows.targets[rows], outputs)
        return {"validation": scores if len(rows) else {}, "parameters": num_parameters(fitted)}

    def start_background(self, prepared: Prepared) -> None:
        """Fits trees on another core while the model trains."""
        spare = available_cores() - prepared.settings.train.threads
        if self.fits_trees_in_background and prepared.settings.baselines and spare > 0:
            fit_trees = partial(BackgroundForest.fit, jobs=spare)
            prepared.background["baselines"] = Background(lambda: self.score_baselines(prepared, fit_trees))

    def score_baselines(self, prepared: Prepared, fit_trees: Callable[..., Predictor] = fit_forest) -> JsonObject:
        """The baselines, scored on the rows that they have not seen: by baseline, split and target."""
        table, output, features = prepared.data.rows, prepared.fitted.output, self.features(prepared)
        return {
            name: {
                split: output.scores(table.targets[rows], predicted(baseline, features, rows))
                for split, rows_of_split in named(prepared.splits).items()
                if split != "training" and len(rows := self.scored(prepared, rows_of_split))
            }
            for name, baseline in self.baselines(prepared, features, fit_trees).items()
        }

    def write_predictions(self, prepared: Prepared, folder: RunFolder, metrics: JsonObject) -> None:
        """Writes the test rows with their cells, their number in the data, and their predictions."""
        fitted, data, rows = prepared.fitted, prepared.data, self.scored(prepared, prepared.splits.test)
        predictions, similarities = prepared.scored.test or (None, None)
        prepared.scored.test = None
        if similarities is None:
            similarities = fitted.similarities(data, rows)
        if predictions is None:
            predictions = fitted.predict_rows(data, rows, similarities=similarities)
        added: dict[str, np.ndarray | Sequence[object]] = dict(prediction_columns(fitted, predictions))
        for name, values in fitted.more_columns(data, rows, similarities).items():
            added[name] = values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]
        folder.write_table("test_predictions.csv", *rows_with(data.rows.cells, rows, added))

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        """The rows and their splits, and what should be known of them, in lines."""
        lines, splits = described(prepared, folder), prepared.splits
        if any(len(self.scored(prepared, rows)) < len(rows) for rows in rows_of(splits).values()):
            lines.append(f"  of each split at most {MAX_SCORED:,} rows are scored, evenly chosen")
        if len(splits.test) > MAX_ROWS:
            lines.append(f"  the report shows {MAX_ROWS:,} of the test rows, evenly chosen")
        if prepared.settings.baselines and len(splits.train) > MAX_FITTED:
            lines.append(f"  baselines are fitted to {MAX_FITTED:,} of the training rows, evenly chosen")
        notes = (*prepared.data.rows.notes, *self.warnings(prepared), *self.notes(prepared))
        return [*lines, *(f"  {note}" for note in notes)]

    def warnings(self, prepared: Prepared) -> list[str]:
        """What speaks against the model before it is trained, a line each; Python warns of it, too."""
        of_targets = warnings_of(prepared.data.rows, prepared.splits, prepared.settings.class_weight)
        return [*of_targets, *self.further_warnings(prepared)]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Written, str]:
        """The rows of a file with their predictions, and a line about these."""
        trained, data = self.task.read(request)
        chunk = predict_rows(trained, data, request)
        note_empty_intervals(trained, request)
        return chunk.content(request.data, suffix), chunk.tally.summary


def predicted(baseline: Predictor, features: Features, rows: np.ndarray) -> list[np.ndarray]:
    """What a baseline predicts for some rows, an array for each target."""
    parts = np.array_split(rows, len(rows) // ROW_CHUNK + 1)
    predictions = [baseline.predict(features(part)) for part in parts if len(part)]
    return [np.concatenate(of_target) for of_target in zip(*predictions, strict=True)]
