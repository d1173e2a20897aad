"""Which number of a prediction is explained, and what is told of a row: what explanations of every kind begin with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.estimators.trained import TrainedTable
from edgewise.explanation import Told
from edgewise.records import Prediction
from edgewise.train.device import cpu_threads


@dataclass(frozen=True, eq=False)
class Explained:
    """One number of a prediction: the value of a target, or the probability of one of its classes.

    It is the mean over the members of an ensemble, as the prediction is.
    """

    trained: TrainedTable
    """The ensemble."""
    column: int
    """The place of the target."""
    label: int | None
    """The place of the class; None for numbers."""

    @classmethod
    def chosen(
        cls, trained: TrainedTable, told: Sequence[Told], target: str | None = None, label: Any = None
    ) -> Self:
        """The number that is asked for.

        Args:
            trained: the ensemble.
            told: what it tells of the row.
            target: the name of a target; the first by default.
            label: the name of a class; the predicted one by default.

        Raises:
            SettingError: there is no such target or class, or a class is asked for of a number.
        """
        names = trained.columns.target_columns
        if target is not None and target not in names:
            raise SettingError(f"target is {target!r}; the model tells {', '.join(names)}.")
        column = 0 if target is None else names.index(target)
        if trained.task_type == "regression":
            if label is not None:
                raise SettingError(f"label is {label!r}, but {names[column]} is a number; leave it out.")
            return cls(trained, column, None)
        classes = [str(name) for name in trained.classes[names[column]]]
        if label is None:
            return cls(trained, column, int(told[column].value))
        if str(label) not in classes:
            raise SettingError(f"label is {label!r}; the classes of {names[column]} are {', '.join(classes)}.")
        return cls(trained, column, classes.index(str(label)))

    @property
    def name(self) -> str:
        """What it is called: the target, or `target = class`."""
        target = self.trained.columns.target_columns[self.column]
        return target if self.label is None else f"{target} = {self.trained.classes[target][self.label]}"

    def of_outputs(self, outputs: Float[np.ndarray, " member row output"]) -> Float[np.ndarray, " row"]:
        """The number of each row, out of what `TrainedTable.outputs` gives."""
        found = self.trained.by_target(outputs)[self.column].mean(axis=0)
        return found if self.label is None else found[..., self.label]

    def of_batch(self, batch: Any) -> Float[np.ndarray, " row"]:
        """The number of each row of a batch."""
        with torch.no_grad(), cpu_threads(self.trained.threads):
            outputs = [self.trained.finish(member(batch).double()).numpy() for member in self.trained.members]
        return self.of_outputs(np.stack(outputs))

    def of_scores(
        self, scores: Float[Tensor, " row output"] | Float[Tensor, " row variant output"]
    ) -> Float[Tensor, " row"]:
        """The number of each row out of what one member says, in model units or logits; gradients go through."""
        if scores.dim() == 3:
            rows, variants, _ = scores.shape
            return self.of_scores(scores.flatten(0, 1)).unflatten(0, (rows, variants)).mean(1)
        if self.trained.task_type == "classification":
            found = scores[:, self.column].sigmoid()
            return found if self.label == 1 else 1 - found
        if self.trained.task_type == "multiclass":
            return scores.split(list(self.trained.num_classes), dim=1)[self.column].softmax(1)[:, self.label]
        scale = self.trained.target_scale
        assert scale is not None
        return scores[:, self.column] * scale.std[self.column] + scale.mean[self.column]


def told_of(trained: TrainedTable, predictions: Sequence[Prediction], row: int) -> tuple[Told, ...]:
    """What is predicted of each target of one row."""
    found = []
    for name, each in zip(trained.columns.target_columns, predictions, strict=True):
        numbers = (float(each.value[row]), float(each.std[row]), float(each.low[row]), float(each.high[row]))
        value, std, low, high = numbers
        if each.probabilities is None:
            found.append(Told(name, value, std=std, low=low, high=high))
            continue
        classes = [str(label) for label in trained.classes[name]]
        parts = dict(zip(classes, each.probabilities[row].tolist(), strict=True))
        found.append(Told(name, value, label=classes[int(value)], std=std, probabilities=parts))
    return tuple(found)
