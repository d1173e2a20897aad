"""Arrays as rows of molecules: the functions behind MoleculeClassifier and MoleculeRegressor."""

from collections.abc import Hashable
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.explain.explanation import Explanation
from edgewise.explain.methods import Choice
from edgewise.learn.estimators.names import RowsLike, column_names, has_columns, in_order, one_row
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.row_methods import inputs_of_run
from edgewise.learn.estimators.rows import ExtraInputs, Inputs, RowAdapter, TrainingColumns
from edgewise.learn.estimators.state import Estimator, Names, names_of
from edgewise.learn.readers.molecules.data import MoleculeData, molecules_from_arrays
from edgewise.learn.readers.molecules.feature import Chem
from edgewise.learn.readers.molecules.molecule import as_smiles
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.read import Values
from edgewise.learn.tasks.molecules.encoder import FittedMolecules
from edgewise.learn.tasks.molecules.explainable import explain_molecule
from edgewise.learn.tasks.molecules.settings import PropertyRunSettings
from edgewise.learn.tasks.molecules.task import TABLE, TASK

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def training_data(job: PropertyRunSettings, inputs: Inputs, columns: TrainingColumns) -> MoleculeData:
    """The molecules, to train on."""
    smiles, conditions = smiles_and_conditions(inputs.X, inputs.extra.get("conditions"))
    if len(smiles) != len(columns.targets):
        raise DataError(
            f"fit: {plural(len(smiles), 'row')} of molecules, but {plural(len(columns.targets), 'target')}."
        )
    return molecules_from_arrays(
        smiles,
        columns.targets,
        conditions,
        columns.weights,
        columns.groups,
        task_type=columns.task_type,
        strict=True,
        with_descriptors=job.molecule_descriptors,
        limits=job.limits,
    )


def prediction_data(trained: FittedMolecules, inputs: Inputs) -> MoleculeData:
    """The molecules, to predict; a row that cannot be read stays, marked as unusable."""
    num_smiles = len(trained.columns.smiles_columns)
    smiles, conditions = smiles_and_conditions(inputs.X, inputs.extra.get("conditions"), trained.columns)
    conditions = in_order("conditions", conditions, inputs.names.get("conditions", ()))
    molecules = molecules_from_arrays(
        smiles,
        None,
        conditions,
        with_descriptors=trained.encoder.descriptors,
        limits=trained.encoder.limits,
        missing=trained.columns.missing,
    )
    for role, count, expected in (
        ("SMILES", molecules.graph_of_row.shape[1], num_smiles),
        ("conditions", molecules.conditions.shape[1], len(trained.columns.descriptors_columns)),
    ):
        if count != expected:
            raise DataError(f"predict: {plural(count, 'column')} of {role}, but the model was trained on {expected}.")
    return molecules


def names_of_conditions(X: object) -> Names:
    """The names of the conditions that X holds: another call may give them as an argument."""
    if not has_columns(X):
        return {}
    columns = zip(column_names("X", X), X.items(), strict=False)  # no names where columns are counted
    return {"conditions": tuple(name for name, (_, column) in columns if _holds_numbers(column))}


def names_of_run(trained: FittedMolecules) -> Names:
    """The names of the columns of a run of the command line: X holds all of them."""
    return {**inputs_of_run(trained), "conditions": trained.columns.descriptors_columns}


MOLECULES = RowAdapter(
    task=TASK,
    table_task=TABLE,
    placeholders={"data": ("the molecules",), "smiles_columns": ("smiles",)},
    names_of_run=names_of_run,
    names_of_rows=names_of_conditions,
    training_data=training_data,
    prediction_data=prediction_data,
)
"""The adapter of MoleculeClassifier and MoleculeRegressor."""


@naming_parameters
def explain(
    estimator: Estimator, item: object, extra_inputs: ExtraInputs, *, target: str | None, label: object, methods: Choice
) -> Explanation:
    """One row, explained: which atoms the model attends to, and what changes its prediction."""
    trained = estimator.trained
    item = one_row("item", item, names_of(estimator, "X"), trained.columns.inputs)
    names = names_of(estimator, "conditions")
    conditions = one_row("conditions", extra_inputs["conditions"], names, trained.columns.descriptors_columns)
    smiles, conditions = smiles_and_conditions(
        [item] if isinstance(item, str | Chem.Mol) else item, conditions, trained.columns
    )
    conditions = in_order("conditions", conditions, names)
    if len(smiles) != 1:
        raise DataError(f"explain: X has {plural(len(smiles), 'row')}; an explanation is of one.")

    limits = trained.encoder.limits
    rows = molecules_from_arrays(smiles, with_descriptors=False, limits=limits).rows  # in any form that predict reads
    if rows.status != [OK]:
        raise DataError(f"explain: {rows.status[0]}.")
    texts = [as_smiles(rows.cells.frame[name][0], limits.max_atoms) for name in rows.columns.smiles_columns]
    numbers = () if conditions is None else as_numbers("conditions", conditions).ravel().tolist()
    label = None if label is None else str(label)
    return explain_molecule(trained, texts, numbers, target=target, label=label, methods=methods)


def smiles_and_conditions(
    X: "RowsLike | DataFrame", conditions: object, trained_columns: Columns | None = None
) -> tuple[Values, Values | None]:
    """SMILES and conditions; a DataFrame holds both: its columns of numbers, of which True is 1, are conditions, unless
    a trained model knows the columns by their names. They stay DataFrames, so that messages call columns by names.

    Args:
        X: The rows.
        conditions: Their conditions, where X does not hold them.
        trained_columns: The columns of a trained model.

    Raises:
        DataError: X is a single string or has no text column, or conditions are given twice.
    """
    refuse_single_text("X", X)
    if not hasattr(X, "select_dtypes"):
        return (X.tolist() if hasattr(X, "tolist") else list(X)), conditions
    frame: DataFrame = X
    text_names = _names_of_smiles(frame, trained_columns)
    if not text_names:
        raise DataError(f"X has no text column with SMILES; its columns are {', '.join(map(str, frame.columns))}.")
    numbers = frame.drop(columns=text_names)
    if numbers.shape[1] and conditions is not None:
        raise DataError("conditions came twice: as number columns of X and as an argument; give them once.")
    return frame[text_names], _plain_numbers(numbers) if numbers.shape[1] else conditions


def _names_of_smiles(frame: "DataFrame", trained_columns: Columns | None) -> list[Hashable]:
    """The columns of SMILES: those of the training by their names, else those that do not hold numbers."""
    smiles = () if trained_columns is None else trained_columns.smiles_columns
    if smiles and set(smiles) <= set(frame.columns):
        return list(smiles)
    names: list[Hashable] = [name for name in frame.columns if not _holds_numbers(frame[name])]
    if smiles and len(names) > len(smiles):  # of more columns, those without any cell are numbers
        names = [name for name in names if frame[name].notna().any()]
    return names


def _holds_numbers(column: "Series") -> bool:
    """Whether a column of a DataFrame holds numbers, or True and False, by its type or by all that is not missing."""
    if column.dtype.kind in "biuf":
        return True
    cells = column.dropna()
    return len(cells) > 0 and all(isinstance(cell, Real | Decimal | np.bool_) for cell in cells)


def _plain_numbers(numbers: "DataFrame") -> "DataFrame":
    """Columns of numbers with NaN where one is missing; those with other cells stay, to be judged row by row."""
    has_numbers = [name for name in numbers.columns if numbers[name].dtype.kind in "biuf"]
    objects = numbers.astype({name: object for name in numbers.columns if name not in has_numbers})
    return objects.astype(dict.fromkeys(has_numbers, "Float64")).astype(dict.fromkeys(has_numbers, np.float64))
