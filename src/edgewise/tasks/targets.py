"""What is predicted of one row, target by target, as an explanation says it; and which of its numbers is explained."""

from collections.abc import Sequence

from edgewise.errors import SettingError
from edgewise.explanation import TargetPrediction
from edgewise.records import Prediction
from edgewise.tasks.trained import FittedTable


def target_predictions(
    trained: FittedTable, predictions: Sequence[Prediction], row: int = 0
) -> tuple[TargetPrediction, ...]:
    """Each target of one row of a table."""
    found = []
    for name, each in zip(trained.columns.target_columns, predictions, strict=True):
        value, std = float(each.value[row]), float(each.std[row])
        if each.probabilities is None:
            found.append(TargetPrediction(name, value, std=std, low=float(each.low[row]), high=float(each.high[row])))
            continue
        labels = [str(label) for label in trained.classes[name]]
        probabilities = dict(zip(labels, each.probabilities[row].tolist(), strict=True))
        found.append(TargetPrediction(name, value, labels[int(value)], std, probabilities=probabilities))
    return tuple(found)


def target_number(trained: FittedTable, target: str | None) -> int:
    """Which of the targets is meant; the first where none is named.

    Raises:
        SettingError: there is no such target.
    """
    names = trained.columns.target_columns
    if target is not None and target not in names:
        raise SettingError(f"explain: target is {target!r}; the model predicts {', '.join(names)}.")
    return 0 if target is None else names.index(target)


def label_number(trained: FittedTable, target: int, label: str | None, prediction: TargetPrediction) -> int | None:
    """Which of the classes of a target is meant; the predicted one where none is named, None for numbers.

    Raises:
        SettingError: there is no such class, or the target has none.
    """
    name = trained.columns.target_columns[target]
    if trained.task_type == "regression":
        if label is not None:
            raise SettingError(f"explain: label is {label!r}, but {name} is a number and has no classes; leave it out.")
        return None
    labels = [str(each) for each in trained.classes[name]]
    if label is not None and str(label) not in labels:
        raise SettingError(f"explain: label is {label!r}; the classes of {name} are {', '.join(labels)}.")
    return int(prediction.value) if label is None else labels.index(str(label))
