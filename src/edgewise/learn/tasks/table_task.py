"""A task over the rows of a table: rows → split → ensemble → intervals → scores, beside baselines."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.errors import DataError
from edgewise.formatting import percent, plural
from edgewise.graph.records import Prediction
from edgewise.learn.engine.workers import Workers
from edgewise.learn.files import release
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.process import Background
from edgewise.learn.progress import stage
from edgewise.learn.tables.magnitude import require_comparable
from edgewise.learn.tables.rows import Table
from edgewise.learn.tables.split import Splits, evenly, groups_of, split_folds, split_rows, with_left_out
from edgewise.learn.tasks.chunks import note_empty_intervals, predict_rows
from edgewise.learn.tasks.prediction_columns import prediction_columns, show
from edgewise.learn.tasks.report.judged import MAX_ROWS, judged_targets
from edgewise.learn.tasks.report.leakage import SplitContents
from edgewise.learn.tasks.scores import ScoreTable, epochs_line, same, score_table
from edgewise.learn.tasks.table_notes import described, warnings_of
from edgewise.learn.tasks.table_settings import TableRunSettings
from edgewise.learn.tasks.targets import balanced, named, num_classes, outputs_of, rows_of
from edgewise.learn.tasks.task import (
    Loaders,
    PredictRequest,
    Prepared,
    RowTask,
    Task,
    best_epoch_of,
    no_lines,
    nothing,
    num_parameters,
)
from edgewise.learn.tasks.trained import TrainedTable
from edgewise.learn.training.baseline import LABELS, ForestBeside, Predictor, fit_forest, fit_mean
from edgewise.learn.training.conformal import COVERAGES, coverage_of, learn_difficulty
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.metrics import HEADLINES, table_of_scores
from edgewise.learn.training.settings import TrainSettings, available_cores

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult

Features = Callable[[np.ndarray], Any]
"""From rows to what baselines predict them from."""
SPLITS = ("test", "validation", "training")
"""The rows whose scores are shown: the first of these that there are."""
MAX_SCORED = 2**18
"""Rows of a split that are scored; evenly chosen where there are more."""
MAX_FITTED = 2**16
"""Training rows that a forest or models of words are fitted to; evenly chosen where there are more."""
TOGETHER = 2**13
"""Rows whose cells, or features for baselines, are in memory at the same time."""


def rows_to_score(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """Those of the rows of a split that are scored."""
    return evenly(rows, MAX_SCORED)


def row_loader(rows: np.ndarray, prepared: Prepared, batches: Any, recipe: TrainSettings) -> Loader:
    """The training rows of a member, in batches."""
    return RowLoader(rows, batches.training_batch, recipe.batch_size or 64, recipe.seed)


def mean_and_forest(
    prepared: Prepared, features: Features, fit_trees: Callable[..., Predictor]
) -> dict[str, Predictor]:
    """The training mean, and a random forest by `fit_trees` over `features` where there are any."""
    table, rows, classes = prepared.data, prepared.splits.train, num_classes(prepared.data)
    fitted: dict[str, Predictor] = {"mean": fit_mean(table.targets[rows], table.weights[rows], classes)}
    rows = evenly(rows, MAX_FITTED)
    targets, weights = table.targets[rows], table.weights[rows]
    if (known := features(rows)).shape[1]:
        seed = prepared.settings.train.seed
        fitted["forest"] = fit_trees(known, targets, weights, classes, seed=seed)
    return fitted


def contents_of_rows(prepared: Prepared) -> SplitContents:
    """The content of the rows of each split; equal where a model cannot tell two of them apart."""
    assert prepared.rows is not None
    table, rows = prepared.data, rows_of(prepared.splits)
    return SplitContents(table.row_unit, rows, dict(zip(rows, table.keys(*rows.values()), strict=True)))


@dataclass(frozen=True, kw_only=True)
class TableTask:
    """What is special about a task over the rows of a table; `task` is the whole of it."""

    settings_type: type[TableRunSettings]
    """The settings of a run, with all that is declared of the task."""
    noun: str
    """What is predicted, in the plural."""
    read_table: Callable[[Any], Any]
    """The table of a run."""
    resolved: Callable[[Any, Any, Splits], Any]
    """The settings with nothing left open: what fits the training rows replaces None."""
    untrained: Callable[[Any, Any, Splits], TrainedTable | FittedTable[Any]]
    """The model before its first step; its scales are those of the training rows."""
    load: Callable[[RunFolder], Any]
    """Reads the trained ensemble of a run folder."""
    features: Callable[[Prepared], Features]
    """What baselines predict rows from."""
    read: Callable[[PredictRequest], tuple[Any, Any]]
    """The trained ensemble, and the table with the columns it needs."""
    further_warnings: Callable[[Prepared], list[str]] = no_lines
    """What speaks against the model besides its targets and splits, a line each."""
    notes: Callable[[Prepared], list[str]] = no_lines
    """What else should be known of the data before the training starts, a line each."""
    baselines: Callable[[Prepared, Features, Callable[..., Predictor]], dict[str, Predictor]] = mean_and_forest
    """Simple models by their names, fitted to the training rows."""
    trees_beside: bool = False
    """Whether the baselines are trees alone, which compute on another core while the model trains."""
    batches: Callable[[Prepared], Any] = lambda prepared: prepared.fitted.batches(prepared.data)
    """The rows as the models take them."""
    training_loader: Callable[[np.ndarray, Prepared, Any, TrainSettings], Loader] = row_loader
    """The training rows of a member, in batches."""
    scored: Callable[[Prepared, np.ndarray], np.ndarray] = rows_to_score
    """Those of the rows of a split that are scored."""
    with_companions: "Callable[[TableTask, Prepared], None] | None" = None
    """Calibrates a model that has companions beside its network; None where it has none."""
    after_split: Callable[[Any, Prepared], Prepared] = lambda settings, prepared: prepared
    """What follows from the settings as they came and all that is prepared, such as how a graph is sampled that memory
    does not hold."""
    whole_graph: Callable[[Prepared], str | None] = nothing
    """What to do where every step computes one whole graph, so that processes have nothing to share out."""
    contents: Callable[[Prepared], SplitContents | None] = contents_of_rows
    """The content of the rows of each split, to find what is in both."""
    rows: RowTask | None = None
    """How rows of a file are read and predicted, each by itself; None where they are predicted together."""
    predict_in_parts: Callable[[PredictRequest, str, Workers | None], Generator[tuple[Any, str]]] | None = None
    """Predictions of a file part by part, where rows are predicted each by itself."""

    @property
    def task(self) -> Task:
        """The task: read → split → train an ensemble → calibrate → score beside baselines."""
        return Task(
            settings_type=self.settings_type,
            noun=self.noun,
            prepare=self.prepare,
            load=self.load,
            prepared=self.prepared,
            loss=self.loss,
            member_loaders=self.loaders,
            whole_graph=self.whole_graph,
            ensemble_size=lambda settings: int(settings.ensemble_size),
            start_background=self.start_background,
            calibrate=self.calibrate,
            evaluate=self.evaluate,
            validation_metrics=self.validation_metrics,
            write_predictions=self.write_predictions,
            split_contents=self.contents,
            warnings=self.warnings,
            notes=self.notes,
            description=self.describe,
            all_scores=scores_by_target,
            test_targets=judged_targets,
            predict=self.predict,
            rows=self.rows,
            predict_in_parts=self.predict_in_parts,
            open_rows=self.read,
        )

    def prepare(self, settings: Any) -> Prepared:
        requested, table = settings, self.read_table(settings)
        settings = replace(settings, columns=table.columns)  # a file of a graph brings its own column of splits
        how = {
            "kind": settings.split_kind,
            "sizes": settings.split_sizes,
            "seed": settings.data_seed,
            "calibration": settings.calibration,
        }
        if settings.fold is None:
            splits = split_rows(table, **how)
        else:
            splits = split_folds(table, **how, num_folds=settings.num_folds, fold=settings.fold)
        if not len(splits.train):
            raise DataError(f"{table.source}: no row is left for training.")
        return self.after_split(requested, self.prepared(settings, table, splits))

    def prepared(self, settings: Any, table: Table, splits: Splits) -> Prepared:
        """The same of a table that is read and split."""
        settings = replace(settings, columns=table.columns)
        rows = rows_of(splits)
        if len(splits.train) and not table.weights[splits.train].astype(np.float32).any():
            column = table.columns.weight_column or "the weights"
            raise DataError(
                f"{table.source}: column {column!r}: the weight of every training row is zero; there is nothing to "
                "learn from."
            )
        if table.columns.task_type == "regression":
            splits = with_left_out(table, splits, settings.ensemble_size, settings.train.seed)
            settings = replace(settings, calibration=splits.calibration)
        learned = replace(splits, train=splits.learned)
        settings = self.resolved(settings, table, learned)
        settings.check_task_type(settings.columns.task_type)
        fitted = self.untrained(settings, table, learned)
        if fitted.task_type == "regression":
            set_calibration(fitted, calibration=splits.calibration)
        return Prepared(settings, table, splits, fitted, rows, table.rejected)

    def loaders(self, prepared: Prepared) -> Loaders:
        """The training rows of each member, and the rows that validate it."""
        splits, fitted, table = prepared.splits, prepared.fitted, prepared.data
        if (scale := fitted.target_scale) is not None:
            for rows in (splits.val, splits.test):
                where = table.places(rows, table.columns.target_columns)
                require_comparable(table.targets[rows], scale.transform(table.targets[rows]), where)
        batches = self.batches(prepared)

        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader]:
            train, val = splits.of_member(recipe.seed - prepared.settings.train.seed)
            training = self.training_loader(train, prepared, batches, recipe)
            return training, RowLoader(val, batches.training_batch, fitted.rows_a_batch)

        return of_member

    def loss(self, prepared: Prepared) -> TargetLoss:
        """That of the type of the targets, classes weighted where the settings say so."""
        recipe, fitted = prepared.settings.train, prepared.fitted
        loss = TargetLoss(fitted.task_type, recipe.loss_function, recipe.huber_width, fitted.num_classes)
        if prepared.settings.class_weight is None:
            return loss
        targets = prepared.data.targets[prepared.splits.train]
        weights = tuple(balanced(targets[:, place], len(known)) for place, known in enumerate(fitted.classes.values()))
        return replace(loss, class_weights=weights)

    def calibrate(self, prepared: Prepared) -> None:
        """Learns from validation rows how far predictions may be off, and what companions of the network need."""
        if self.with_companions is None:
            self.calibrate_intervals(prepared)
        else:
            self.with_companions(self, prepared)

    def calibrate_intervals(self, prepared: Prepared) -> None:
        """Intervals follow from the errors on rows that a member has not learned from, predicted by such members."""
        fitted, table, splits = prepared.fitted, prepared.data, prepared.splits
        rows = self.scored(prepared, splits.calibrating)
        if fitted.task_type != "regression" or not len(rows):
            return
        outputs = fitted.all_outputs(table, rows)
        chosen = np.stack([np.isin(rows, splits.of_member(number)[1]) for number in range(len(fitted.members))])
        values, validate = outputs.mean(chosen), np.isin(rows, splits.val)
        all_errors = values - table.targets[rows]
        set_calibration(fitted, errors=all_errors)
        prepared.found["validation"] = rows[validate], list(values[validate].T)
        groups = np.unique(groups_of(table, rows, splits.calibration), return_inverse=True)[1].astype(np.int64)
        spreads = outputs.spread_overall() if splits.calibration == "random" else outputs.spread_within(chosen)
        features = fitted.difficulty_features(spreads, self.held_out_similarities(prepared, rows))
        found = [learn_difficulty(features[:, column], errors, groups) for column, errors in enumerate(all_errors.T)]
        if any(difficulty.slopes for difficulty, _ in found):
            sigma = np.stack([sigma for _, sigma in found], axis=1)
            set_calibration(fitted, difficulty=tuple(difficulty for difficulty, _ in found), sigma=sigma)

    def held_out_similarities(self, prepared: Prepared, rows: np.ndarray) -> dict[str, np.ndarray]:
        """How similar calibration rows are to the rows that the members which left them out learned from."""
        fitted, table, splits = prepared.fitted, prepared.data, prepared.splits
        if not splits.left_out:
            found: dict[str, np.ndarray] = fitted.similarities(table, rows)
            return found
        found = {}
        for own in {own.tobytes(): own for own in splits.left_out}.values():
            for name, values in fitted.similarities(table, own, np.setdiff1d(splits.learned, own)).items():
                found.setdefault(name, np.zeros(len(rows)))[np.searchsorted(rows, own)] = values
        return found

    def evaluate(self, prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
        """The scores of each split, and how many targets of the test rows lie within their interval."""
        fitted, table, splits = prepared.fitted, prepared.data, named(prepared.splits)
        names, task_type = table.columns.target_columns, fitted.task_type
        metrics: dict[str, Any] = {"rows": {"rejected": len(table.rejected)}}
        for name, rows in splits.items():
            metrics["rows"][name] = len(rows)
            rows = self.scored(prepared, rows)
            if name == "validation" and name in prepared.found:
                rows, outputs = prepared.found[name]
            elif name != "test" and task_type == "regression":  # intervals, and similarities for them, are not needed
                outputs = list(fitted.outputs(table, rows).mean(axis=0).T)
            else:
                similarities = fitted.similarities(table, rows) if fitted.intervals.difficulty else None
                predictions = fitted.predict_rows(table, rows, similarities=similarities)
                if name == "test":
                    prepared.found[name] = predictions, similarities
                outputs = outputs_of(predictions)
            metrics[name] = table_of_scores(table.targets[rows], outputs, names, task_type) if len(rows) else {}
            if name == "test" and task_type == "regression":
                metrics["coverage"] = self.coverage(prepared, rows, predictions)
        metrics["parameters"] = num_parameters(fitted)
        metrics["epochs"] = [len(result.history) for result in results]
        metrics["best_epochs"] = [found.get("best_epoch") for found in map(best_epoch_of, results)]
        spent = sum(record["seconds"] for result in results for record in result.history)
        metrics["seconds"] = {"model": round(spent, 2)}
        if prepared.settings.baselines:
            with stage("baselines"):
                found = prepared.background.get("baselines") or Background(lambda: self.score_baselines(prepared))
                metrics["baselines"] = found.result()
            metrics["seconds"]["baselines"] = round(found.seconds, 2)
        return metrics

    def validation_metrics(self, prepared: Prepared) -> dict[str, Any]:
        """The scores of the validation rows alone, as in `evaluate`, and the size of a model."""
        fitted, table = prepared.fitted, prepared.data
        rows = self.scored(prepared, prepared.splits.val)
        if "validation" in prepared.found:
            rows, outputs = prepared.found["validation"]
        else:
            outputs = outputs_of(fitted.predict_rows(table, rows))
        scores = table_of_scores(table.targets[rows], outputs, table.columns.target_columns, fitted.task_type)
        return {"validation": scores if len(rows) else {}, "parameters": num_parameters(fitted)}

    def start_background(self, prepared: Prepared) -> None:
        """Fits trees on another core while the model trains."""
        spare = available_cores() - prepared.settings.train.threads
        if self.trees_beside and prepared.settings.baselines and spare > 0:
            fit_trees = partial(ForestBeside.fit, jobs=spare)
            prepared.background["baselines"] = Background(lambda: self.score_baselines(prepared, fit_trees))

    def coverage(self, prepared: Prepared, rows: np.ndarray, predictions: list[Prediction]) -> dict[str, Any]:
        """How many targets of some rows lie within their intervals, of several coverages, and the mean width."""
        fitted = prepared.fitted
        found: dict[str, Any] = {
            "promised": fitted.intervals.coverage,
            "calibration": fitted.intervals.calibration,
        }
        found |= {"test": {}, "width": {}, "curve": {}}
        for column, (name, each) in enumerate(zip(fitted.columns.target_columns, predictions, strict=True)):
            targets, low, high = prepared.data.targets[rows, column], each.low, each.high
            found["test"][name] = coverage_of(targets, low, high)
            found["width"][name] = None if found["test"][name] is None else float(np.nanmean(high - low))
            assert each.sigma is not None
            scores = np.abs(each.value - targets) / each.sigma
            scores = scores[~np.isnan(scores)]
            radii = {promised: fitted.intervals.radius(column, promised) for promised in COVERAGES}
            found["curve"][name] = [
                [promised, float((scores <= radius).mean())]
                for promised, radius in radii.items()
                if len(scores) and not np.isnan(radius)
            ]
        return found

    def score_baselines(self, prepared: Prepared, fit_trees: Callable[..., Predictor] = fit_forest) -> dict[str, Any]:
        """The baselines, scored on the rows that they have not seen: by baseline, split and target."""
        table, columns, features = prepared.data, prepared.data.columns, self.features(prepared)
        return {
            name: {
                split: table_of_scores(
                    table.targets[rows], predicted(baseline, features, rows), columns.target_columns, columns.task_type
                )
                for split, found in named(prepared.splits).items()
                if split != "training" and len(rows := self.scored(prepared, found))
            }
            for name, baseline in self.baselines(prepared, features, fit_trees).items()
        }

    def write_predictions(self, prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:
        """Writes the test rows with their cells, their number in the data, and their predictions."""
        fitted, table, rows = prepared.fitted, prepared.data, self.scored(prepared, prepared.splits.test)
        predictions, similarities = prepared.found.pop("test", (None, None))
        if similarities is None:
            similarities = fitted.similarities(table, rows)
        if predictions is None:
            predictions = fitted.predict_rows(table, rows, similarities=similarities)
        added: dict[str, Any] = dict(prediction_columns(fitted, predictions))
        for name, values in fitted.more_columns(table, rows, similarities).items():
            added[name] = values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]

        def lines() -> Iterator[list[Any]]:
            for start in range(0, len(rows), TOGETHER):
                some = slice(start, start + TOGETHER)
                cells = [table.frame[name].iloc[rows[some]].to_numpy() for name in table.frame.columns]
                columns = [rows[some], *cells, *(values[some] for values in added.values())]
                yield from ([show(value) for value in row] for row in zip(*columns, strict=True))
                release(table.mapped)

        folder.write_table("test_predictions.csv", ["row_in_data", *table.frame.columns, *added], lines())

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        """The rows and their splits, and what should be known of them, in lines."""
        lines, splits = described(prepared, folder), prepared.splits
        if any(len(self.scored(prepared, rows)) < len(rows) for rows in rows_of(splits).values()):
            lines.append(f"  of each split at most {MAX_SCORED:,} rows are scored, evenly chosen")
        if len(splits.test) > MAX_ROWS:
            lines.append(f"  the report shows {MAX_ROWS:,} of the test rows, evenly chosen")
        if prepared.settings.baselines and len(splits.train) > MAX_FITTED:
            lines.append(f"  baselines are fitted to {MAX_FITTED:,} of the training rows, evenly chosen")
        notes = (*prepared.data.notes, *self.warnings(prepared), *self.notes(prepared), *prepared.decisions)
        return [*lines, *(f"  {note}" for note in notes)]

    def warnings(self, prepared: Prepared) -> list[str]:
        """What speaks against the model before it is trained, a line each; Python warns of it, too."""
        of_targets = warnings_of(prepared.data, prepared.splits, prepared.settings.class_weight)
        return [*of_targets, *self.further_warnings(prepared)]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """The rows of a file with their predictions, and a line about these."""
        with stage(f"reading {request.data}"):
            trained, table = self.read(request)
        trained.threads = request.threads
        trained.check_coverage(request["coverage"])
        found = predict_rows(trained, table, request)
        note_empty_intervals(trained, request)
        return found.content(request.data, suffix), found.tally.summary


def scores_by_target(folder: RunFolder) -> list[ScoreTable | str]:
    """The scores of each target beside those of baselines, and how many values lie within their intervals."""
    metrics = folder.read_json("metrics.json")
    split = next((name for name in SPLITS if metrics.get(name)), SPLITS[-1])
    config = folder.read_config()
    headlines = config.get("metrics") or HEADLINES[config.get("task-type", "regression")]
    found: list[ScoreTable | str] = []
    for target, scores in metrics[split].items():
        models = {"edgewise": scores}
        for name, label in LABELS.items():
            known = metrics.get("baselines", {}).get(name, {}).get(split, {})
            if target in known:
                models[label] = known[target]
        title = f"{target}: {plural(scores['num_rows'], f'{split} row')}"
        found.append(score_table(title, models, same(*headlines)))
        covered = metrics.get("coverage", {}).get("test", {}).get(target) if split == "test" else None
        if covered is not None:
            promised = metrics["coverage"]["promised"]
            inside = f"{percent(covered)} of these values lie within their interval"
            found.append(f"{inside} ({100 * promised:g}% were promised)")
    return [*found, *epochs_line(metrics)]


def set_calibration(fitted: Any, **learned: Any) -> None:
    """Gives a model what was learned from its errors on validation rows."""
    if isinstance(fitted, FittedTable):
        fitted.intervals = replace(fitted.intervals, **learned)
        return
    for name, value in learned.items():
        setattr(fitted, name, value)


def predicted(baseline: Predictor, features: Features, rows: np.ndarray) -> list[np.ndarray]:
    """What a baseline predicts for some rows, an array for each target."""
    parts = np.array_split(rows, len(rows) // TOGETHER + 1)
    found = [baseline.predict(features(part)) for part in parts if len(part)]
    return [np.concatenate(each) for each in zip(*found, strict=True)]
