"""Scores of predictions against known targets, as plain numbers for `metrics.json`."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgewise.explain.rank import ranks

HEADLINES = {
    "regression": ("rmse", "mae", "r2"),
    "classification": ("roc_auc", "average_precision", "accuracy"),
    "multiclass": ("accuracy", "balanced_accuracy", "f1_macro"),
}
"""The scores that tables show, for each type of task; `classification` has two classes, `multiclass` more."""
METRICS = {
    "regression": ("rmse", "mae", "max_error", "r2", "pearson", "spearman"),
    "classification": (*HEADLINES["classification"], "balanced_accuracy", "log_loss", "mcc", "f1", "brier"),
    "multiclass": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss", "mcc"),
}
"""All scores of each type of task."""

Scores = dict[str, float | int | None]


def regression_scores(targets: np.ndarray, predictions: np.ndarray) -> Scores:
    """Scores of predicted numbers; rmse, mae and max_error are in the unit of the target.

    Args:
        targets: (row); rows with NaN are left out.
        predictions: (row).

    Returns:
        num_rows, rmse, mae, max_error, r2, pearson, spearman; None for a score that these rows do not define, and only
        num_rows if no target is known.
    """
    is_known = ~np.isnan(targets)
    targets, predictions = targets[is_known], np.asarray(predictions, dtype=np.float64)[is_known]
    if not len(targets):
        return {"num_rows": 0}
    errors = predictions - targets

    return {
        "num_rows": len(targets),
        "rmse": float(np.sqrt((errors**2).mean())),
        "mae": float(np.abs(errors).mean()),
        "max_error": float(np.abs(errors).max()),
        "r2": determination(targets, errors),
        "pearson": correlation(targets, predictions),
        "spearman": correlation(ranks(targets), ranks(predictions)),
    }


def determination(targets: np.ndarray, errors: np.ndarray) -> float | None:
    """R², 1 − Σ error² / Σ (target − mean)²; None where the targets do not vary, or the quotient is beyond all numbers.

    Both are measured in a power of two near the largest deviation, which rounds nothing: the squares of targets that
    differ by less than 1e-162 would vanish.
    """
    if np.ptp(targets) == 0:
        return None
    deviations = targets - targets.mean()
    exponent = exponent_of(deviations)
    with np.errstate(over="ignore"):
        unexplained = (np.ldexp(errors, -exponent) ** 2).sum() / (np.ldexp(deviations, -exponent) ** 2).sum()
    return float(1 - unexplained) if np.isfinite(unexplained) else None


def exponent_of(values: np.ndarray) -> int:
    """That of the power of two just above the largest absolute value."""
    return int(np.frexp(np.abs(values).max())[1])


def correlation(left: np.ndarray, right: np.ndarray) -> float | None:
    """Pearson's correlation; None where one side does not vary."""
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    left, right = (values - values.mean() for values in (left, right))
    left, right = (np.ldexp(values, -exponent_of(values)) for values in (left, right))
    # Each side is divided by its norm first: the product of the two sums of squares overflows or underflows earlier.
    return float((left / np.sqrt((left**2).sum()) * (right / np.sqrt((right**2).sum()))).sum())


def class_scores(targets: np.ndarray, probabilities: np.ndarray, task_type: str) -> Scores:
    """Scores of predicted classes.

    Args:
        targets: (row), class numbers; rows with NaN are left out.
        probabilities: (row, class).
        task_type: classification (two classes, the second is the positive one) or multiclass.

    Returns:
        num_rows and the scores of the task; None for a score that these rows do not define, and only num_rows if no
        target is known. `f1_macro` is the mean F1 of the classes that occur among these targets or predictions, as in
        scikit-learn; `balanced_accuracy` is the mean recall of the classes that occur among these targets.
    """
    from sklearn import metrics

    is_known = ~np.isnan(targets)
    truth, probabilities = targets[is_known].astype(np.int64), probabilities[is_known]
    if not len(truth):
        return {"num_rows": 0}
    chosen = probabilities.argmax(axis=1)
    present_classes = np.unique(truth)

    scores: Scores = {
        "num_rows": len(truth),
        "accuracy": (chosen == truth).mean(),
        "balanced_accuracy": np.mean([(chosen[truth == one] == one).mean() for one in present_classes]),
        "log_loss": -np.log(np.maximum(probabilities[np.arange(len(truth)), truth], 1e-15)).mean(),
    }
    if len(np.union1d(truth, chosen)) > 1:
        scores["mcc"] = metrics.matthews_corrcoef(truth, chosen)
    else:
        scores["mcc"] = None

    if task_type == "multiclass":
        scores["f1_macro"] = metrics.f1_score(truth, chosen, average="macro", zero_division=0)
    else:
        positive = probabilities[:, 1]
        both = len(present_classes) == 2
        scores["roc_auc"] = metrics.roc_auc_score(truth, positive) if both else None
        scores["average_precision"] = metrics.average_precision_score(truth, positive) if both else None
        scores["f1"] = metrics.f1_score(truth, chosen, zero_division=0)
        scores["brier"] = ((positive - truth) ** 2).mean()

    return {name: value if value is None or name == "num_rows" else float(value) for name, value in scores.items()}


def scores_by_target(
    targets: np.ndarray,
    outputs: Sequence[np.ndarray],
    names: Sequence[str],
    task_type: str,
    extra_scores: Callable[[np.ndarray, np.ndarray], Mapping[str, float]] = lambda targets, predictions: {},
) -> dict[str, Scores]:
    """The scores of every target by name.

    Args:
        targets: (row, target); NaN where missing.
        outputs: For each target its predictions: (row) for regression, (row, class) probabilities otherwise.
        names: The name of each target.
        task_type: regression, classification or multiclass.
        extra_scores: Further scores of regression, from known targets and their predictions.
    """
    return {
        name: {
            **regression_scores(targets[:, column], output),
            **_scores_of_known_rows(extra_scores, targets[:, column], output),
        }
        if task_type == "regression"
        else class_scores(targets[:, column], output, task_type)
        for column, (name, output) in enumerate(zip(names, outputs, strict=True))
    }


def _scores_of_known_rows(
    scores: Callable[[np.ndarray, np.ndarray], Mapping[str, float]], targets: np.ndarray, predictions: np.ndarray
) -> Mapping[str, float]:
    """Scores of the rows whose target is known; none where there are none."""
    is_known = ~np.isnan(targets)
    return scores(targets[is_known], predictions[is_known]) if is_known.any() else {}
