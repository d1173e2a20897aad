"""The number of a prediction that is explained, out of the outputs of the members of an ensemble."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import SettingError
from edgewise.explain.explanation import TargetPrediction
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import EnsemblePredictions, Prediction
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.loader import BatchLike


def target_predictions(
    trained: FittedTable, predictions: Sequence[Prediction], row: int = 0
) -> tuple[TargetPrediction, ...]:
    """Each target of one row of a table."""
    targets = []
    for name, prediction in zip(trained.columns.target_columns, predictions, strict=True):
        value, std = float(prediction.value[row]), float(prediction.std[row])
        over_members = math.nan if prediction.ensemble_std is None else float(prediction.ensemble_std[row])
        if prediction.probabilities is None:
            low, high = float(prediction.low[row]), float(prediction.high[row])
            targets.append(TargetPrediction(name, value, std=std, ensemble_std=over_members, low=low, high=high))
            continue
        labels = [str(label) for label in trained.classes[name]]
        probabilities = dict(zip(labels, prediction.probabilities[row].tolist(), strict=True))
        targets.append(
            TargetPrediction(name, value, labels[int(value)], std, over_members, probabilities=probabilities)
        )
    return tuple(targets)


def target_number(trained: FittedTable, target: str | None) -> int:
    """Which of the targets is meant; the first where none is named.

    Raises:
        SettingError: unknown target.
    """
    names = trained.columns.target_columns
    if target is not None and target not in names:
        raise SettingError(f"explain: target is {target!r}; the model predicts {', '.join(names)}.")
    return 0 if target is None else names.index(target)


def label_number(trained: FittedTable, target: int, label: str | None, prediction: TargetPrediction) -> int | None:
    """Which of the classes of a target is meant; the predicted one where none is named, None for numbers.

    Raises:
        SettingError: unknown class, or the target is a number.
    """
    name = trained.columns.target_columns[target]
    if trained.task_type == "regression":
        if label is not None:
            raise SettingError(f"explain: label is {label!r}, but {name} is a number and has no classes; leave it out.")
        return None
    labels = [str(label_of_class) for label_of_class in trained.classes[name]]
    if label is not None and str(label) not in labels:
        raise SettingError(f"explain: label is {label!r}; the classes of {name} are {', '.join(labels)}.")
    return int(prediction.value) if label is None else labels.index(str(label))


@dataclass(frozen=True, eq=False)
class Explained:
    """One number of a prediction: the value of a target, or the probability of one of its classes.

    It is the mean over the members of an ensemble, as the prediction is.
    """

    trained: FittedTable
    """The ensemble."""
    column: int
    """The place of the target."""
    label: int | None
    """The place of the class; None for numbers."""
    predictions: Sequence[TargetPrediction] = ()
    """The prediction of each target."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """How much the network and each companion count; empty without companions."""

    @property
    def scale(self) -> float:
        """1 for a probability; the standard deviation of the target over the training rows."""
        scale = self.trained.target_scale
        return 1.0 if self.label is not None or scale is None else scale.std[self.column]

    @classmethod
    def of(
        cls,
        trained: FittedTable,
        compute: Callable[[int, nn.Module], Tensor],
        target: str | None,
        label: object,
        similarities: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """The number that is explained of one row.

        Args:
            trained: the ensemble.
            compute: the output `(1, output)` of a member, out of its place and itself.
            target: the name of a target; the first by default.
            label: the name of a class; the predicted one by default.
            similarities: of the row to the training rows, which its interval depends on.

        Raises:
            SettingError: unknown target or class, or a class was named and the target is a number.
        """
        with torch.no_grad(), cpu_threads(trained.threads):
            members = enumerate(trained.members)
            variants = [
                trained.output.variants(compute(number, member.eval()).double()).numpy() for number, member in members
            ]
        outputs = EnsemblePredictions.of(variants, trained.companions)
        row = np.zeros(1, dtype=np.int64)
        predictions = target_predictions(trained, trained.to_predictions(outputs, row, 1, similarities or {}))
        column, label = target_number(trained, target), None if label is None else str(label)
        return cls(
            trained, column, label_number(trained, column, label, predictions[column]), predictions, outputs.shares
        )

    @property
    def name(self) -> str:
        """What it is called: the target, or `target = class`."""
        target = self.trained.columns.target_columns[self.column]
        return target if self.label is None else f"{target} = {self.trained.classes[target][self.label]}"

    @property
    def member_notes(self) -> list[str]:
        """Which member the weights belong to."""
        count = len(self.trained.members)
        return [f"Weights are those of the first of {count} models; other numbers are their means."] * (count > 1)

    def of_batch(self, batch: BatchLike) -> Float[np.ndarray, " row"]:
        """The number of each row of a batch."""
        with torch.no_grad(), cpu_threads(self.trained.threads):
            outputs = [self.trained.output.finish(member(batch).double()).numpy() for member in self.trained.members]
        values = self.trained.output.by_target(np.stack(outputs))[self.column].mean(axis=0)
        return values if self.label is None else values[..., self.label]

    def without(
        self, removed: Sequence[np.ndarray], count: int, to_batch: Callable[[np.ndarray], BatchLike], step: int
    ) -> Float[np.ndarray, " removal"]:
        """The number without each of some lists of places.

        Args:
            removed: places of nodes, or of edges.
            count: how many places there are.
            to_batch: makes a batch out of (copy, place), True for what remains in each copy.
            step: how many copies are computed together.
        """
        values = [np.zeros(0)]
        for start in range(0, len(removed), step):
            lists = removed[start : start + step]
            remaining = np.ones((len(lists), count), dtype=bool)
            for line, removed_here in zip(remaining, lists, strict=True):
                line[removed_here] = False
            values.append(self.of_batch(to_batch(remaining)))
        return np.concatenate(values)

    def of_scores(self, scores: Float[Tensor, " row *variant output"]) -> Float[Tensor, " row"]:
        """The number of each row out of the output of one member, in model units or logits; keeps gradients."""
        trained = self.trained
        if scores.ndim == 3:
            rows, variants, _ = scores.shape
            return self.of_scores(scores.flatten(0, 1)).unflatten(0, (rows, variants)).mean(1)
        if trained.task_type == "classification":
            probability = scores[:, self.column].sigmoid()
            return probability if self.label == 1 else 1 - probability
        if trained.task_type == "multiclass":
            return scores.split(list(trained.num_classes), dim=1)[self.column].softmax(1)[:, self.label]
        scale = trained.target_scale
        assert scale is not None
        values = trained.output.apply_link(scores)[:, self.column] * scale.std[self.column] + scale.mean[self.column]
        return values.clamp(*trained.output.bounds) if trained.output.bounds else values
