"""What is scored of a table besides its targets: intervals, the parts of a prediction, and how a terminal shows it."""

import numpy as np

from edgewise.errors import plural
from edgewise.explain.numbers import percent
from edgewise.learn.companions import LABELS as LABELS_OF_PARTS
from edgewise.learn.files import JsonObject
from edgewise.learn.outputs import Prediction
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, lengths_line, score_table, what_predicts
from edgewise.learn.tasks.task import Prepared
from edgewise.learn.training.baseline import labels_of
from edgewise.learn.training.conformal import COVERAGES, coverage_of
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.metrics import HEADLINES

SPLITS = ("test", "validation", "training")
"""The rows whose scores are shown: the first of these that there are."""


def coverage_scores(prepared: Prepared, rows: np.ndarray, predictions: list[Prediction]) -> JsonObject:
    """How many targets of some rows lie within their intervals, of several coverages, and the mean width."""
    fitted = prepared.fitted
    covered: dict[str, float | None] = {}
    widths: dict[str, float | None] = {}
    curves: dict[str, list[list[float]]] = {}
    for column, (name, prediction) in enumerate(zip(fitted.columns.target_columns, predictions, strict=True)):
        targets, low, high = prepared.data.rows.targets[rows, column], prediction.low, prediction.high
        covered[name] = coverage_of(targets, low, high)
        widths[name] = None if covered[name] is None else float(np.nanmean(high - low))
        assert prediction.sigma is not None
        scores = np.abs(prediction.value - targets) / prediction.sigma
        scores = scores[~np.isnan(scores)]
        radii = {promised: fitted.intervals.radius(column, promised) for promised in COVERAGES}
        curves[name] = [
            [promised, float((scores <= radius).mean())]
            for promised, radius in radii.items()
            if len(scores) and not np.isnan(radius)
        ]
    promises = {"promised": fitted.intervals.coverage, "calibration": fitted.intervals.calibration}
    return {**promises, "test": covered, "width": widths, "curve": curves}


def parts_of(prepared: Prepared, split: str) -> dict[str, list[np.ndarray]]:
    """What the network alone predicts for the rows of a split, and each companion: by name, an array for each
    target; nothing where it was not computed."""
    if split == "test" and prepared.scored.test is not None:
        predictions = prepared.scored.test[0]
        return {name: [prediction.parts[name] for prediction in predictions] for name in predictions[0].parts}
    if split == "validation":
        by_target = prepared.fitted.output.by_target
        return {name: by_target(part) for name, part in prepared.scored.validation_parts.items()}
    return {}


def scores_by_target(folder: RunFolder) -> list[ScoreTable | str]:
    """The scores of each target beside those of baselines, and how many values lie within their intervals."""
    metrics = folder.read_object("metrics.json")
    split = next((name for name in SPLITS if metrics.get(name)), SPLITS[-1])
    config = folder.read_config()
    task_type = config.get("task-type", "regression")
    headlines = config.get("metrics") or HEADLINES[task_type]
    lines: list[ScoreTable | str] = [*what_predicts(metrics, config)]
    for target, scores in metrics[split].items():
        models = {"edgewise": scores}
        for name, of_part in metrics.get("parts", {}).get(split, {}).items():
            models[f"  {LABELS_OF_PARTS.get(name, name)} alone"] = of_part[target]
        for name, label in labels_of(task_type).items():
            of_baseline = metrics.get("baselines", {}).get(name, {}).get(split, {})
            if target in of_baseline:
                models[label] = of_baseline[target]
        title = f"{target}: {plural(scores['num_rows'], f'{split} row')}"
        lines.append(score_table(title, models, by_own_name(*headlines)))
        covered = metrics.get("coverage", {}).get("test", {}).get(target) if split == "test" else None
        if covered is not None:
            promised = metrics["coverage"]["promised"]
            inside = f"{percent(covered)} of these values lie within their interval"
            lines.append(f"{inside} ({100 * promised:g}% were promised)")
    return [*lines, *lengths_line(metrics)]
