"""MoleculeClassifier and MoleculeRegressor: rows of molecules."""

from typing import Any

import numpy as np

from edgewise.errors import DataError
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.formatting import plural
from edgewise.learn.estimators.names import one_row
from edgewise.learn.estimators.params import old_names
from edgewise.learn.estimators.table import TableClassifier, TableEstimator, TableRegressor
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.readers.molecules.table import table_from_arrays
from edgewise.learn.tables.cell import refuse_single_text
from edgewise.learn.tasks.molecules.explainable import explain_molecule
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.molecules.trained import FittedProperty

MODELS = layers_for("molecules")


class MoleculeEstimator(
    TableEstimator,
    task=TASK,
    fitted_type=FittedProperty,
    required={"data": ("the molecules",), "smiles_columns": ("smiles",)},
    options=("conditions",),
    named=("conditions",),
    positional={"predict": ("conditions",), "predict_interval": ("conditions",), "score": ("sample_weight",)},
):
    """An ensemble over molecules: SMILES (row) or (row, component); or a DataFrame.

    The text columns of a DataFrame are SMILES, its numbers are conditions. `conditions` (row, condition) are numbers
    such as temperature and pressure.
    """

    def table_of(self, data: Any, job: Any = None, **options: Any) -> Any:
        """The rows as a table; one to predict that cannot be read keeps its place."""
        smiles, conditions = columns_of(data, options.pop("conditions", None))
        if job is not None:
            targets = options.pop("targets")
            if len(smiles) != len(targets):
                raise DataError(
                    f"fit: {plural(len(smiles), 'row')} of molecules, but {plural(len(targets), 'target')}."
                )
            return table_from_arrays(
                smiles,
                targets,
                conditions,
                **options,
                task_type=job.columns.task_type,
                strict=True,
                with_descriptors=job.molecule_descriptors,
                limits=job.limits,
            )
        trained = self.trained
        table = table_from_arrays(
            smiles,
            None,
            conditions,
            with_descriptors=trained.descriptors,
            limits=trained.limits,
            missing=trained.columns.missing,
        )
        for what, found, known in (
            ("SMILES", table.graph_of_row.shape[1], len(trained.columns.smiles_columns)),
            ("conditions", table.conditions.shape[1], len(trained.columns.descriptors_columns)),
        ):
            if found != known:
                many = plural(found, "column")
                raise DataError(f"predict: {many} of {what}, but the model was trained on {known}.")
        return table

    @old_names
    def explain(
        self,
        item: Any,
        *old: Any,
        target: str | None = None,
        label: Any = None,
        conditions: Any = None,
        methods: Choice = None,
    ) -> Explanation:
        """One row, explained: which atoms the model attends to, and what changes its prediction.

        Args:
            item: One row as `predict` takes it, or one SMILES; a dict or a Series names the values of a row.
            old: The target and the label.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            conditions: The numbers of the row.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        if old and (old[0] is None or isinstance(old[0], str)):
            target, label, *_ = (*old, label)
        elif old:
            (conditions,) = old
        trained = self.trained
        item = one_row("item", item, self._known_names("X"), trained.columns.inputs)
        conditions = one_row(
            "conditions", conditions, self._known_names("conditions"), trained.columns.descriptors_columns
        )
        smiles, conditions = columns_of([item] if isinstance(item, str) else item, conditions)
        if len(smiles) != 1:
            raise DataError(f"explain: X has {plural(len(smiles), 'row')}; an explanation is of one.")
        (row,) = smiles
        numbers = () if conditions is None else np.asarray(conditions, dtype=np.float64).ravel().tolist()
        label = None if label is None else str(label)
        return explain_molecule(
            trained, (row,) if isinstance(row, str) else row, numbers, target=target, label=label, methods=methods
        )


class MoleculeClassifier(TableClassifier, MoleculeEstimator, models=MODELS, own={"validation_size": 0.1}):
    """Predicts classes of molecules, two or more, and their probabilities."""


class MoleculeRegressor(TableRegressor, MoleculeEstimator, models=MODELS, own={"validation_size": 0.1}):
    """Predicts numbers of molecules, and intervals around them.

    MoleculeRegressor(ensemble_size=5).fit(smiles, solubility).predict(["CCO", "c1ccccc1"])
    """


def columns_of(held: Any, conditions: Any) -> tuple[Any, Any]:
    """SMILES and conditions; a DataFrame holds both, its text columns and its numbers.

    Raises:
        DataError: It is one SMILES, it holds no text, or there are conditions beside it, too.
    """
    refuse_single_text("X", held)
    if not hasattr(held, "select_dtypes"):
        return (held.tolist() if hasattr(held, "tolist") else list(held)), conditions
    numbers = held.select_dtypes("number")
    texts = held[[name for name in held.columns if name not in numbers.columns]]
    if not texts.shape[1]:
        raise DataError(f"X has no text column with SMILES; its columns are {', '.join(map(str, held.columns))}.")
    if numbers.shape[1] and conditions is not None:
        raise DataError("conditions came twice: as number columns of X and as an argument; give them once.")
    smiles = texts.to_numpy(dtype=object)
    own = numbers.to_numpy(dtype=np.float64) if numbers.shape[1] else conditions
    return (smiles[:, 0].tolist() if smiles.shape[1] == 1 else smiles.tolist()), own
