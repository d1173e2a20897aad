"""MoleculeRegressor and MoleculeClassifier: the same job from Python, in the habit of scikit-learn."""

import os
from dataclasses import fields
from typing import Any, Self

import numpy as np

from edgewise.data.molecules.limits import MAX_ATOMS, MAX_SECONDS, MoleculeLimits
from edgewise.data.molecules.table import MoleculeTable, table_from_arrays
from edgewise.data.split import split_rows
from edgewise.errors import DataError, MissingExtraError, SettingError
from edgewise.estimators.faces import (
    CLASSES,
    NUMBERS,
    TableEstimator,
    accuracy,
    class_numbers,
    joined,
    most_probable,
    r2,
    task_of,
)
from edgewise.explanation import Explanation
from edgewise.models.graph_settings import PropertySettings
from edgewise.plural import plural
from edgewise.records import Prediction
from edgewise.tasks.molecules.explain import explain_molecule
from edgewise.tasks.molecules.job import PropertyJob
from edgewise.tasks.molecules.task import TASK
from edgewise.tasks.molecules.trained import TrainedProperty
from edgewise.tasks.run import fit
from edgewise.train.conformal import check_coverage
from edgewise.train.device import pick_device
from edgewise.train.settings import TrainSettings

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise MissingExtraError("scikit-learn", "train") from error

RENAMED = {"score": "attention_score", "seed": "random_state"}
"""Settings of the command line that are called otherwise here, as scikit-learn calls them or since `score` is taken."""
Molecules = Any
"""SMILES (row), or (row, component), or a DataFrame whose text columns are SMILES and whose numbers are conditions."""


class MoleculeEstimator(TableEstimator):
    """What both estimators share: their parameters, fitting, saving and loading.

    Args:
        model: The layer: attention, gat, gatv2, gcn, mean or mat. None, here and below, is the library's default.
        num_layers, num_heads, model_dim: The size of the model.
        attention_score, normalize, temperature, combine: The choices of the attention operator.
        epochs: Passes over the training rows; None is a number that fits the number of rows.
        batch_size, learning_rate, weight_decay, patience, loss_function: The recipe of the training.
        ensemble_size: How many models are trained from different seeds and averaged.
        validation_size: The part of the rows that chooses the epoch and calibrates the intervals.
        coverage: The promised probability that a value lies within its interval.
        molecule_descriptors: Whether RDKit's descriptors of the whole molecule join the learned vectors.
        max_atoms: The most atoms of a molecule; a larger one is refused in fit and has no prediction.
        molecule_timeout: Seconds of a processor for the features of one molecule.
        random_state: Seed of everything.
        device: auto, cpu, cuda or mps.
        precision: 32, bf16, 16 or 64.
        more: Any other field of PropertySettings or TrainSettings by its name.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        num_layers: int | None = None,
        num_heads: int | None = None,
        model_dim: int | None = None,
        attention_score: str | None = None,
        normalize: str | None = None,
        temperature: float | None = None,
        combine: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        loss_function: str | None = None,
        ensemble_size: int = 1,
        validation_size: float = 0.1,
        coverage: float = 0.9,
        molecule_descriptors: bool = True,
        max_atoms: int = MAX_ATOMS,
        molecule_timeout: float = MAX_SECONDS,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "32",
        more: dict[str, Any] | None = None,
    ):
        self.model = model
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.attention_score = attention_score
        self.normalize = normalize
        self.temperature = temperature
        self.combine = combine
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.loss_function = loss_function
        self.ensemble_size = ensemble_size
        self.validation_size = validation_size
        self.coverage = coverage
        self.molecule_descriptors = molecule_descriptors
        self.max_atoms = max_atoms
        self.molecule_timeout = molecule_timeout
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.more = more

    def fit_targets(
        self,
        X: Molecules,
        targets: np.ndarray,
        *,
        conditions: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        task_type: str = "regression",
        classes: dict[str, list[Any]] | None = None,
    ) -> Self:
        """Trains on targets as the model takes them: numbers, or class numbers."""
        model, train = self.settings()
        check_coverage(self.coverage)
        if not 0 <= self.validation_size < 1:
            raise SettingError(f"validation_size is {self.validation_size}; expected at least 0 and below 1.")
        if self.ensemble_size < 1:
            raise SettingError(f"ensemble_size is {self.ensemble_size}; expected at least 1.")
        smiles, conditions = parts_of(X, conditions)
        if len(smiles) != len(targets):
            raise DataError(f"fit: {plural(len(smiles), 'row')} of molecules, but {plural(len(targets), 'target')}.")
        limits = MoleculeLimits(self.max_atoms, self.molecule_timeout)
        names = None if classes is None else {name: [str(n) for n in range(len(c))] for name, c in classes.items()}
        table = table_from_arrays(
            smiles,
            targets if names is None else class_cells(targets),
            conditions,
            sample_weight,
            groups,
            task_type=task_type,
            classes=names,
            strict=True,
            with_descriptors=self.molecule_descriptors,
            limits=limits,
        )
        sizes = (1 - self.validation_size, self.validation_size, 0)
        splits = split_rows(table, kind="random" if groups is None else "group", sizes=sizes, seed=self.random_state)
        job = PropertyJob(
            data=("the molecules",),
            columns=table.columns,
            model=model,
            train=train,
            limits=limits,
            coverage=self.coverage,
            ensemble_size=self.ensemble_size,
        )
        prepared = TASK.prepared(job, table, splits)
        fit(TASK, prepared)
        self.trained_ = prepared.fitted
        if classes is not None:
            self.trained_.classes = classes
        return self

    def settings(self) -> tuple[PropertySettings, TrainSettings]:
        """The settings that the parameters ask for, defaults elsewhere."""
        given = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        given |= {"score": self.attention_score} if self.attention_score is not None else {}
        given |= {"seed": self.random_state, **(self.more or {})}
        known = {field.name for kind in (PropertySettings, TrainSettings) for field in fields(kind)}
        unknown = set(self.more or {}) - known
        if unknown:
            raise SettingError(
                f"more has {sorted(unknown)[0]!r}, which is no field of PropertySettings or TrainSettings."
            )
        own: list[dict[str, Any]] = [
            {field.name: given[field.name] for field in fields(kind) if field.name in given}
            for kind in (PropertySettings, TrainSettings)
        ]
        return PropertySettings(**own[0]), TrainSettings(**own[1])

    @classmethod
    def params_of(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the constructor that the settings of a run become."""
        renamed = {RENAMED.get(name, name): value for name, value in settings.items()}
        names = set(cls().get_params(deep=False))
        own = {name: value for name, value in renamed.items() if name in names}
        more = {name: value for name, value in renamed.items() if name not in names}
        return {**own, "more": more} if more else own

    def table_of(self, X: Molecules, conditions: Any) -> MoleculeTable:
        """Rows to predict; those that cannot be read keep their place."""
        check_is_fitted(self, "trained_")
        smiles, conditions = parts_of(X, conditions)
        trained = self.trained_
        return table_from_arrays(
            smiles, None, conditions, with_descriptors=trained.with_descriptors, limits=trained.limits
        )

    def predictions(self, X: Molecules, conditions: Any, coverage: float | None = None) -> list[Prediction]:
        """What the model says of each target; NaN for rows that cannot be read."""
        table = self.table_of(X, conditions)
        columns = self.trained_.columns
        for what, found, known in (
            ("SMILES", table.graph_of_row.shape[1], len(columns.smiles_columns)),
            ("conditions", table.conditions.shape[1], len(columns.descriptors_columns)),
        ):
            if found != known:
                raise DataError(f"predict: {found} columns of {what}, but the model was trained on {known}.")
        return self.trained_.predict(table, coverage=coverage, device=pick_device(self.device))

    def fingerprint(self, X: Molecules, conditions: Any = None) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN where a row cannot be read."""
        return self.trained_.fingerprint(self.table_of(X, conditions), pick_device(self.device))

    def explained(self, X: Molecules, conditions: Any, target: str | None, label: str | None) -> Explanation:
        """The one row of X, explained."""
        check_is_fitted(self, "trained_")
        smiles, conditions = parts_of([X] if isinstance(X, str) else X, conditions)
        if len(smiles) != 1:
            raise DataError(f"explain: X has {plural(len(smiles), 'row')}; an explanation is of one.")
        (row,) = smiles
        numbers = () if conditions is None else np.asarray(conditions, dtype=np.float64).ravel().tolist()
        return explain_molecule(
            self.trained_, (row,) if isinstance(row, str) else row, numbers, target=target, label=label
        )


class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Predicts numbers of molecules.

    Example:
        regressor = MoleculeRegressor(ensemble_size=5).fit(smiles, solubility)
        regressor.predict(["CCO", "c1ccccc1"])
    """

    def fit(
        self, X: Molecules, y: Any, *, conditions: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Trains the model.

        Args:
            X: SMILES (row) or (row, component), or a DataFrame whose text columns are SMILES and whose numbers are
                conditions.
            y: (row) or (row, target); NaN is missing.
            conditions: (row, condition) numbers such as temperature and pressure.
            sample_weight: (row).
            groups: (row); rows of one group are all training or all validation rows.

        Raises:
            DataError: A row cannot be used; the message says which and why.
        """
        targets = np.asarray(y, dtype=np.float64)
        self.one_target_ = targets.ndim == 1
        return self.fit_targets(X, targets, conditions=conditions, sample_weight=sample_weight, groups=groups)

    def predict(self, X: Molecules, conditions: Any = None) -> np.ndarray:
        """(row), or (row, target) where y had that shape; NaN for a row that cannot be read."""
        return joined([prediction.value for prediction in self.predictions(X, conditions)], self.one_target_)

    def predict_interval(
        self, X: Molecules, conditions: Any = None, *, coverage: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows."""
        found = self.predictions(X, conditions, coverage)
        return joined([each.low for each in found], self.one_target_), joined(
            [each.high for each in found], self.one_target_
        )

    def score(self, X: Molecules, y: Any, sample_weight: Any = None, *, conditions: Any = None) -> float:
        """R² over the targets that are known, of several the mean; conditions as in `fit`."""
        return r2(y, self.predict(X, conditions), self.table_of(X, conditions).status, sample_weight)

    def explain(self, X: Molecules, conditions: Any = None, *, target: str | None = None) -> Explanation:
        """What is told of one row, and why; see `explain_molecule`.

        Args:
            X: One row as `predict` takes it, or one SMILES.
            conditions: Its numbers.
            target: Which target is explained; the first where None.
        """
        return self.explained(X, conditions, target, None)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The estimator of a run folder, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedProperty, folder, NUMBERS)


class MoleculeClassifier(ClassifierMixin, MoleculeEstimator):
    """Predicts classes of molecules, and their probabilities; two classes or more."""

    def fit(
        self, X: Molecules, y: Any, *, conditions: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Trains the model; as `MoleculeRegressor.fit`, with y: (row) class labels."""
        self.classes_, numbers = class_numbers(y)
        return self.fit_targets(
            X,
            numbers,
            conditions=conditions,
            sample_weight=sample_weight,
            groups=groups,
            task_type=task_of(self.classes_),
            classes={"target": self.classes_.tolist()},
        )

    def predict_proba(self, X: Molecules, conditions: Any = None) -> np.ndarray:
        """(row, class): probabilities in the order of `classes_`; NaN for a row that cannot be read."""
        probabilities = self.predictions(X, conditions)[0].probabilities
        assert probabilities is not None
        return probabilities

    def predict(self, X: Molecules, conditions: Any = None) -> np.ndarray:
        """(row): the most probable class.

        Raises:
            DataError: A row cannot be read: there is no class that would say so.
        """
        probabilities = self.predict_proba(X, conditions)
        return most_probable(probabilities, self.classes_, self.table_of(X, conditions).status)

    def score(self, X: Molecules, y: Any, sample_weight: Any = None, *, conditions: Any = None) -> float:
        """The share of the rows that are predicted right; conditions as in `fit`."""
        return accuracy(y, self.predict(X, conditions), sample_weight)

    def explain(self, X: Molecules, conditions: Any = None, *, label: Any = None) -> Explanation:
        """What is told of one row, and why; see `explain_molecule`.

        Args:
            X: One row as `predict` takes it, or one SMILES.
            conditions: Its numbers.
            label: The probability of which class is explained; the predicted one where None.
        """
        return self.explained(X, conditions, None, None if label is None else str(label))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The estimator of a run folder with one target, written by `save` or by `edgewise train`."""
        return cls.load_as(TrainedProperty, folder, CLASSES)


def class_cells(numbers: np.ndarray) -> list[str]:
    """Class numbers as the cells of a table."""
    return [str(number) for number in numbers.tolist()]


def parts_of(X: Molecules, conditions: Any) -> tuple[Any, Any]:
    """SMILES and conditions; a DataFrame holds both, its text columns and its numbers."""
    if not hasattr(X, "select_dtypes"):
        return (X.tolist() if hasattr(X, "tolist") else list(X)), conditions
    numbers = X.select_dtypes("number")
    texts = X[[name for name in X.columns if name not in numbers.columns]]
    if not texts.shape[1]:
        raise DataError(f"X has no text column with SMILES; its columns are {', '.join(map(str, X.columns))}.")
    if numbers.shape[1] and conditions is not None:
        raise DataError("conditions came twice: as number columns of X and as an argument; give them once.")
    smiles = texts.to_numpy(dtype=object)
    own = numbers.to_numpy(dtype=np.float64) if numbers.shape[1] else conditions
    return (smiles[:, 0].tolist() if smiles.shape[1] == 1 else smiles.tolist()), own
