"""Baselines: the scores of the mean, a random forest, or word counts on the same rows."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgewise.errors import EdgewiseError
from edgewise.learn.process import Process, ProcessDiedError

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

LABELS = {
    "forest": "random forest",
    "naive_bayes": "naive Bayes, pairs of words",
    "logistic": "logistic regression, pairs of words",
    "ridge": "ridge regression, pairs of words",
    "mean": "training mean",
}
"""The baselines of a model over a table, by their names in `metrics.json`."""


def labels_of(task_type: str) -> dict[str, str]:
    """`LABELS` for a type of task: what numbers have as a mean, classes have as frequencies."""
    return LABELS if task_type == "regression" else {**LABELS, "mean": "training frequencies"}


FAR = 1e4
"""Standard deviations from 0 beyond which targets are centered before trees learn them."""
SMALL_EXPONENT = -10
"""The power of two below which features are small."""
LONGEST = 7 * 24 * 3600.0
"""Seconds that a forest in a process of its own may take."""


Features: TypeAlias = np.ndarray | Sequence[str]
"""What a baseline reads of some rows: `(row, feature)`, or their texts."""


class Model(Protocol):
    """A fitted model of scikit-learn for one target."""

    def predict(self, features: Features, /) -> npt.ArrayLike:
        """(row): predicted targets."""


@runtime_checkable
class Classifier(Protocol):
    """A fitted classifier of scikit-learn for one target."""

    classes_: np.ndarray
    """The numbers of the classes that it knows."""

    def predict_proba(self, features: Features, /) -> np.ndarray:
        """(row, known class): their probabilities."""


class Predictor(Protocol):
    """Predicts every target of some rows."""

    def predict(self, features: Features) -> list[np.ndarray]:
        """For each target (row) numbers or (row, class) probabilities."""
        ...


@dataclass(frozen=True)
class Baseline:
    """A fitted baseline: one predictor for each target."""

    models: tuple[np.ndarray | Model | Classifier, ...]
    """For each target a forest, or the mean (regression) or class frequencies (otherwise) of the training rows."""
    num_classes: tuple[int, ...]
    """For each target its number of classes; 0 for regression."""

    def predict(self, features: Features) -> list[np.ndarray]:
        """As a `Predictor`."""
        return [
            predict_one(model, features, num_classes)
            for model, num_classes in zip(self.models, self.num_classes, strict=True)
        ]


def predict_one(model: np.ndarray | Model | Classifier, features: Features, num_classes: int) -> np.ndarray:
    """Predictions for one target."""
    if isinstance(model, np.ndarray):
        return np.repeat(model[None], len(features), axis=0)
    if not isinstance(model, Classifier):
        return np.asarray(model.predict(features))
    # Classes that no training row has are unknown to the forest, and get the probability 0.
    probabilities = np.zeros((len(features), num_classes))
    probabilities[:, model.classes_.astype(np.int64)] = model.predict_proba(features)
    return probabilities


def fit_mean(targets: np.ndarray, weights: np.ndarray, num_classes: tuple[int, ...]) -> Baseline:
    """The weighted mean of each target, or the frequency of each class; (row, target), NaN where missing."""
    models: list[np.ndarray] = []
    for column, count in enumerate(num_classes):
        is_present = ~np.isnan(targets[:, column])
        values, scale = targets[is_present, column], weights[is_present] / weights[is_present].sum()
        if count:
            models.append(np.bincount(values.astype(np.int64), scale, minlength=count))
        else:
            models.append(np.array((values * scale).sum(), np.float64))
    return Baseline(tuple(models), num_classes)


def fit_forest(
    features: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    num_classes: tuple[int, ...],
    *,
    seed: int = 0,
    trees: int | None = None,
    jobs: int = -1,
) -> Baseline:
    """A random forest for each target.

    Args:
        features: (row, feature), finite.
        targets: (row, target); NaN where missing.
        weights: (row), or (row, target).
        num_classes: For each target its number of classes; 0 for regression.
        seed: Seed of the trees.
        trees: How many for each target; by default `num_trees`.
        jobs: The cores that grow them; all by default.

    Numbers are scaled: scikit-learn's trees stop where the variance of a leaf is below 2e-16, in any unit.

    Cost: the usual number of trees falls with the size of the table, so that it stays within seconds.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    trees = trees or num_trees(len(features), features.shape[1], len(num_classes))
    weights = np.broadcast_to(weights.reshape(len(weights), -1), targets.shape)
    models: list[Model | Classifier] = []
    for column, count in enumerate(num_classes):
        is_present = ~np.isnan(targets[:, column])
        forest_class, part = (RandomForestClassifier, "sqrt") if count else (RandomForestRegressor, 1 / 3)
        forest = forest_class(trees, max_features=part, n_jobs=jobs, random_state=short_seed(seed))
        values, baseline = targets[is_present, column], forest
        if not count:
            center, scale = scale_of(values)
            values, baseline = (values - center) / scale, Scaled(forest, center, scale)
        with warnings.catch_warnings():
            # Each tree says it, and names of classes that many rows have each their own are the user's to judge.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            forest.fit(features[is_present], values, sample_weight=weights[is_present, column])
        models.append(baseline)

    return Baseline(tuple(models), num_classes)


def short_seed(seed: int) -> int:
    """A seed for scikit-learn, which takes 32 bits only; it is the same where it fits."""
    return seed if seed < 2**32 else int(np.random.SeedSequence(seed).generate_state(1)[0])


@dataclass(frozen=True)
class Scaled:
    """A forest that was fitted to scaled targets, predicting in their own unit."""

    forest: Model
    """The fitted forest of scikit-learn."""
    center: float
    """The number that was subtracted from the targets."""
    scale: float
    """The number that they were divided by."""

    def predict(self, features: Features) -> np.ndarray:
        """(row): predicted targets."""
        return np.asarray(self.forest.predict(features)) * self.scale + self.center


def scale_of(values: np.ndarray) -> tuple[float, float]:
    """The shift and the divisor of targets that give them a spread of about 1.

    Nothing is rounded that need not be: the scale is a power of two, and a center is taken off only where the targets
    lie so far from 0 that their variance would be lost in the difference of squares.
    """
    std, mean = float(values.std()), float(values.mean())
    if not 0 < std < math.inf:
        return 0.0, 1.0
    return mean if abs(mean) > FAR * std else 0.0, math.ldexp(1.0, math.frexp(std)[1])


@dataclass(frozen=True)
class BackgroundForest:
    """A random forest that is fitted in a process of its own during training, without sharing memory or Python's
    lock."""

    process: Process[list[np.ndarray]]
    """The process that fits and predicts."""

    @classmethod
    def fit(
        cls,
        features: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        num_classes: tuple[int, ...],
        *,
        seed: int,
        jobs: int,
    ) -> Self:
        """Starts `fit_forest`.

        Raises:
            EdgewiseError: Its process ended, as the system ends one that takes too much memory.
        """
        trees = num_trees(len(features), features.shape[1], len(num_classes))
        fit = partial(fit_forest, seed=seed, trees=trees, jobs=jobs)
        process = Process(_predictor, fit, features, targets, weights, num_classes)
        with _lost():
            process.start(LONGEST)
        return cls(process)

    def predict(self, features: Features) -> list[np.ndarray]:
        """As a `Predictor`; raises the errors of `fit`."""
        with _lost():
            return self.process.call(features, timeout=LONGEST)


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except ProcessDiedError as error:
        raise EdgewiseError(
            f"the random forest that the model is compared with was lost: {error}. Go on with --resume, which "
            "fits it again; where memory is short, a new run leaves it out with --no-baselines."
        ) from error


def _predictor(fit: Callable[..., Baseline], *data: object) -> Callable[[Features], list[np.ndarray]]:
    return fit(*data).predict


def fit_words(
    texts: Sequence[str], targets: np.ndarray, weights: np.ndarray, num_classes: tuple[int, ...]
) -> dict[str, Baseline]:
    """Models over counts of words and pairs of words: naive Bayes and logistic regression, or ridge regression.

    Args:
        texts: (row).
        targets: (row, target); NaN where missing.
        weights: (row).
        num_classes: For each target its number of classes; 0 for regression.

    Source: Wang and Manning 2012, on how hard naive Bayes over pairs of words is to beat on short texts.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    # By default single letters and signs are passed over; a text of nothing else would be empty.
    counted = {"ngram_range": (1, 2), "token_pattern": r"\w+|[^\w\s]"}
    is_class = any(num_classes)
    makers: dict[str, Callable[[], Pipeline]] = {"ridge": lambda: make_pipeline(TfidfVectorizer(**counted), Ridge())}
    if is_class:
        makers = {
            "naive_bayes": lambda: make_pipeline(CountVectorizer(**counted), MultinomialNB()),
            "logistic": lambda: make_pipeline(TfidfVectorizer(**counted), LogisticRegression(C=10, max_iter=1000)),
        }

    known_rows = [np.flatnonzero(~np.isnan(column)).tolist() for column in targets.T]
    if is_class and any(len(np.unique(targets[rows, column])) < 2 for column, rows in enumerate(known_rows)):
        del makers["logistic"]  # needs two classes

    fitted = {}
    for name, make in makers.items():
        models = []
        for column, rows in enumerate(known_rows):
            model = make()
            # Of weights only the ratios matter, but scikit-learn adds them to a prior of fixed size.
            weight = {f"{model.steps[-1][0]}__sample_weight": weights[rows] / weights[rows].mean()}
            models.append(model.fit([texts[row] for row in rows], targets[rows, column], **weight))
        fitted[name] = Baseline(tuple(models), num_classes)

    return fitted


MAX_TREES = 5000
"""Trees of all targets together: 500 for each of 27 targets take minutes and gigabytes. On three targets of SIDER 200
predict as well as 300 (AUC 0.648)."""


def num_trees(num_rows: int, num_features: int, num_targets: int) -> int:
    """Trees for each target: 500 on small tables, down to 100 on large ones and for many targets; a tree costs about
    rows · features · log rows."""
    cost = num_rows * num_features * math.log2(num_rows + 2)
    return int(max(100, min(500, 1e9 / cost, MAX_TREES / num_targets)))


@dataclass(frozen=True, eq=False)
class FiniteFeatures:
    """Features for a forest: without NaN, infinities and columns that are constant on the training rows."""

    columns: np.ndarray
    """The columns that have a number in a training row."""
    medians: np.ndarray
    """The medians of these columns over the training rows."""
    varies: np.ndarray
    """Which of these columns are not constant on the training rows, bool."""
    scale: np.ndarray
    """The factor of small features, a power of two: to a tree, numbers that differ by 1e-7 are the same."""

    @classmethod
    def fit(cls, features: np.ndarray) -> Self:
        """Learn from training rows.

        Args:
            features: (row, feature); RDKit gives NaN or huge numbers for some descriptors of some molecules.
        """
        clipped = _clipped(features)
        columns = np.flatnonzero(~np.isnan(clipped).all(axis=0))
        exponents = np.frexp(np.nanmax(np.abs(clipped[:, columns]), axis=0, initial=0.0))[1]
        scale = np.ldexp(1.0, np.where(exponents < SMALL_EXPONENT, -exponents, 0))
        finite_columns = cls(columns, np.nanmedian(clipped[:, columns], axis=0), np.ones(len(columns), bool), scale)
        filled = finite_columns._filled(features)
        varies = filled.min(axis=0) < filled.max(axis=0) if len(filled) else ~finite_columns.varies
        return replace(finite_columns, varies=varies)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(row, used feature), float32; what is missing holds the median of the training rows."""
        if not self.varies.any():
            return np.zeros((len(features), 1), np.float32)
        return self._filled(features)[:, self.varies]

    def _filled(self, features: np.ndarray) -> np.ndarray:
        clipped = _clipped(features)[:, self.columns]
        return (np.where(np.isnan(clipped), self.medians, clipped) * self.scale).astype(np.float32)


def _clipped(features: np.ndarray) -> np.ndarray:
    limit = np.finfo(np.float32).max / 1e6
    return np.where(np.isfinite(features), np.clip(features, -limit, limit), np.nan)


def finite_features(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same for all rows, learned from some of them."""
    return FiniteFeatures.fit(features[rows])(features)


def filled(
    features: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, *, is_missing: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Features of rows with a number everywhere, where one is missing learned from some rows."""
    if not is_missing:
        return features
    finite = FiniteFeatures.fit(features(rows))
    return lambda row_numbers: finite(features(row_numbers))
