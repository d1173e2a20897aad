"""The losses of training: one per task type, over the targets that are known."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.learn.training.settings import NUMBER_OUTPUTS

if TYPE_CHECKING:
    from edgewise.learn.training.loader import BatchLike

TASK_TYPES = ("regression", "classification", "multiclass")


def no_scores(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """No further scores."""
    return {}


@dataclass(frozen=True, kw_only=True)
class NumberOutput:
    """What the number is that a network gives for a target that is a number."""

    name: str
    """That of `--loss-function`."""
    loss: Callable[[Tensor, Tensor, float], Tensor]
    """The loss of each output and its target, both in units of the spread of the target; the third is the width of the
    Huber loss in these units."""
    value: Callable[[Tensor], Tensor] | None = None
    """From outputs to values of the target in the same units, which then are not centered; None where outputs are
    values."""
    scores: Callable[[np.ndarray, np.ndarray], dict[str, float]] = no_scores
    """Further scores for metrics.json, from known targets and their predictions, `(row)` each."""


MSE = NumberOutput(name="mse", loss=lambda output, targets, width: (output - targets).square())
MAE = NumberOutput(name="mae", loss=lambda output, targets, width: (output - targets).abs())
HUBER = NumberOutput(
    name="huber",
    loss=lambda output, targets, width: F.huber_loss(output, targets, reduction="none", delta=width) / width,
)


@dataclass(frozen=True)
class TargetLoss:
    """Loss of model outputs against targets; missing targets (NaN) are ignored, rows are weighted.

    Regression and yes/no targets have one output each; a target of C classes has C outputs, side by side.
    """

    task_type: str
    """regression, classification or multiclass."""
    loss_function: str
    """The name of a `NumberOutput`; read for regression only."""
    huber_width: float = 1.0
    """Where the Huber loss goes from squared to linear, in model units."""
    num_classes: tuple[int, ...] = ()
    """The number of classes of each target; read for multiclass only."""
    class_weights: tuple[tuple[float, ...], ...] = ()
    """For each target the weight of each class; empty where all count the same."""
    of_numbers: Callable[[Tensor, Tensor, float], Tensor] = field(init=False, repr=False, compare=False)
    """The loss of numbers; looked up here, as torch's compiler takes no imports."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "of_numbers", NUMBER_OUTPUTS[self.loss_function].loss)

    def __call__(self, output: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weighted sum of the losses of all known targets, and the sum of their weights.

        Args:
            output: (row, output), in model units or logits; or (row, member, output) of a model whose members learn
                independently.
            targets: (row, target), in model units or class numbers; NaN where missing.
            weights: (row), or None where all rows count the same.

        Returns:
            Two scalars; the loss is their ratio.
        """
        if output.ndim == 3:
            members = output.shape[1]
            targets = targets.repeat_interleave(members, 0)
            weights = None if weights is None else weights.repeat_interleave(members, 0)
            output = output.flatten(0, 1)

        is_known = ~targets.isnan()
        # NaN must not reach the loss: its gradient would be NaN even where the result is masked away.
        losses = self.each(output, torch.where(is_known, targets, 0.0))
        counts = is_known.to(losses.dtype)
        if weights is not None:
            counts = counts * weights.to(losses.dtype)[:, None]
        for column, class_weights in enumerate(self.class_weights):
            chosen = torch.where(is_known[:, column], targets[:, column], 0.0).long()
            weight = torch.tensor(class_weights, dtype=losses.dtype, device=losses.device)[chosen]
            counts = torch.cat([counts[:, :column], (counts[:, column] * weight)[:, None], counts[:, column + 1 :]], 1)

        return (losses * counts).sum(), counts.sum()

    def each(self, output: Tensor, targets: Tensor) -> Tensor:
        """The loss of every (row, target)."""
        if output.dtype != torch.float64:
            output = output.float()
        targets = targets.to(output.dtype)
        if self.task_type == "classification":
            return F.binary_cross_entropy_with_logits(output, targets, reduction="none")
        if self.task_type == "multiclass":
            columns = [
                F.cross_entropy(logits, targets[:, column].long(), reduction="none")
                for column, logits in enumerate(output.split(list(self.num_classes), dim=1))
            ]
            return torch.stack(columns, dim=1)
        return self.of_numbers(output, targets, self.huber_width)


@dataclass(frozen=True)
class RelativeLoss:
    """A loss of errors in units that differ between rows: each error is multiplied by the weight of its row."""

    loss: TargetLoss
    """The loss of the scaled errors."""

    def __call__(self, output: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of all known targets, and their number.

        Args:
            output, targets: (row, target).
            weights: (row), one by the size that errors of the row are measured in; None measures all alike.
        """
        if weights is not None:
            output, targets = output * weights[:, None], targets * weights[:, None]
        return self.loss(output, targets, None)


@dataclass(frozen=True)
class TokenLoss:
    """−ln of the probability that the model gives to the right token, summed over the positions with a target."""

    smoothing: float = 0.0
    """Label smoothing: the share of the probability that is spread over all tokens (Szegedy et al. 2016)."""

    def __call__(self, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The sum over all targets, and their number.

        Args:
            scores: (*batch, token, vocabulary), before softmax.
            targets: (*batch, token), numbers of tokens; −1 where none is predicted.
            weights: are not read, as all tokens count the same.
        """
        targets = targets.flatten()
        total = F.cross_entropy(
            scores.flatten(0, -2).float(),
            targets,
            ignore_index=-1,
            reduction="sum",
            label_smoothing=self.smoothing,
        )

        return total, (targets >= 0).sum()


Loss: TypeAlias = TargetLoss | RelativeLoss | TokenLoss


def loss_of(model: nn.Module, loss: Loss, batch: "BatchLike") -> tuple[Tensor, Tensor]:
    """The summed loss and the summed weight of a batch with targets: the part of a step that is compiled."""
    assert batch.targets is not None
    return loss(model(batch), batch.targets, batch.weights)
