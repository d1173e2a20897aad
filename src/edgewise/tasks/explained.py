"""One number of a prediction, out of what the members of an ensemble say: what explanations of texts and nodes ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.explanation import Told
from edgewise.tasks.targets import label_number, target_number
from edgewise.tasks.trained import TrainedTable
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
    def chosen(cls, trained: TrainedTable, told: Sequence[Told], target: str | None = None, label: Any = None) -> Self:
        """The number that is asked for.

        Args:
            trained: the ensemble.
            told: what it tells of the row.
            target: the name of a target; the first by default.
            label: the name of a class; the predicted one by default.

        Raises:
            SettingError: there is no such target or class, or a class is asked for of a number.
        """
        column = target_number(trained, target)
        label = None if label is None else str(label)
        return cls(trained, column, label_number(trained, column, label, told[column]))

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

    def of_scores(self, scores: Float[Tensor, " row output"]) -> Float[Tensor, " row"]:
        """The number of each row out of what one member says, in model units or logits; gradients go through."""
        if self.trained.task_type == "classification":
            found = scores[:, self.column].sigmoid()
            return found if self.label == 1 else 1 - found
        if self.trained.task_type == "multiclass":
            return scores.split(list(self.trained.num_classes), dim=1)[self.column].softmax(1)[:, self.label]
        scale = self.trained.target_scale
        assert scale is not None
        return scores[:, self.column] * scale.std[self.column] + scale.mean[self.column]
