"""How companions join the networks of an ensemble: fitted to training rows, weighed by validation rows.

fit      each companion, to the rows that its network has learned from
weigh    each by the validation rows of its network: `weigh`
learn    from the validation rows, too, once these have judged: `Fresh.with_validation`
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from edgewise.learn.companions.stack import Stack, as_variants, companions_of, network_of
from edgewise.learn.fitted_table import FittedTable, TableEncoder
from edgewise.learn.tables.rows import Data
from edgewise.learn.tables.split import evenly_spaced
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings

SHARES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""How much a companion may weigh beside the network, whose weight is 1."""
PRIOR_WEIGHT, PRIOR_ROWS = 2.0, 100
"""How much a companion weighs where nothing else is known, and how many validation rows that counts as: learned from
validation rows, see docs/experiments/molecule_companions.md."""
MAX_VALIDATION_ROWS = 2**16
"""Validation rows of a member that weigh its companion; evenly chosen where there are more."""


@dataclass(frozen=True)
class Fresh:
    """A companion that has not learned from the rows that judge it."""

    module: nn.Module
    """The companion."""
    with_validation: Callable[[], nn.Module]
    """The same, which has learned from these rows, too."""


@dataclass(frozen=True, eq=False)
class FittingRows:
    """The rows of a table that a companion is fitted to, and how."""

    rows: np.ndarray
    """Those that its network has learned from."""
    validation: np.ndarray
    """Those that judge it, where it learns from them later; else none."""
    recipe: TrainSettings
    """Of the training of its network, resolved; its seed is that of all that is drawn."""
    loss: TargetLoss
    """Of the outputs, as of the network."""


@dataclass(frozen=True)
class CompanionKind:
    """What can stand beside the networks of a task."""

    name: str
    """What `--companions`, model.json and the report call it."""
    fit: Callable[..., Fresh]
    """Fits it to some rows of a table. The module gives `(row, output)` for a batch, in the units of the network or as
    logits; its buffers and parameters are saved, and a method `check` raises DataError where they do not fit."""
    empty: Callable[..., nn.Module]
    """The module before its saved tensors are read into it: from the encoder of the model, these tensors, and what the
    outputs mean. A KeyError or ValueError is an error of the file."""
    explained: str
    """What follows its share in an explanation: `of a prediction comes from …`."""
    encoder_type: type = object
    """The class of the encoders that it goes with."""
    encoder: Callable[[Any], TableEncoder[Any]] = lambda encoder: encoder
    """Out of the encoder of a model, one whose batches have what the companion reads."""


def add_companion(
    fitted: FittedTable,
    data: Data,
    kind: CompanionKind,
    members: Sequence[tuple[np.ndarray, np.ndarray]],
    recipe: TrainSettings,
    loss: TargetLoss,
    *,
    uses_validation: bool,
) -> list[Fresh]:
    """Puts a companion beside each network, as heavy as validation rows want it; none where they want none.

    Args:
        fitted: the ensemble.
        data: the rows.
        kind: the companion.
        members: the training and the validation rows of each network.
        recipe: of the training of the networks, resolved.
        loss: of the outputs, as of the networks.
        uses_validation: whether it will learn from the validation rows, too.

    Returns:
        The companion of each network; none where it was left out.
    """
    encoder_before, fitted.encoder = fitted.encoder, kind.encoder(fitted.encoder)
    with cpu_threads(fitted.threads):
        rows_of = {
            train.tobytes(): FittingRows(train, val if uses_validation else val[:0], recipe, loss)
            for train, val in members
        }
        companion_of = {key: kind.fit(fitted, data, rows) for key, rows in rows_of.items()}
    companions = [companion_of[train.tobytes()] for train, _ in members]

    copies = weigh(fitted, data, [companion.module for companion in companions], [val for _, val in members], loss)
    if not copies:
        fitted.encoder = encoder_before
        return []
    fitted.companions = {**fitted.companions, kind.name: copies}
    attach_companion(fitted, kind.name, [companion.module for companion in companions])
    return companions


def attach_companion(fitted: FittedTable, name: str, modules: Sequence[nn.Module]) -> None:
    """Gives each network a companion, or another one of the same name."""
    stacks: list[nn.Module] = []
    for member, module in zip(fitted.members, modules, strict=True):
        beside = {**companions_of(member), name: module}
        stacks.append(Stack(network_of(member), beside, fitted.companions).eval())
    fitted.members = stacks


def learn_from_validation(fitted: FittedTable, fresh: Mapping[str, Sequence[Fresh]]) -> None:
    """Lets the companions of each network, by name, learn from the rows that have judged them; members with the same
    one share it."""
    for name, companions in fresh.items():
        distinct = {id(companion): companion for companion in companions}
        learned = {key: companion.with_validation() for key, companion in distinct.items()}
        if companions:
            attach_companion(fitted, name, [learned[id(companion)] for companion in companions])


def weigh(
    fitted: FittedTable,
    data: Data,
    companions: Sequence[nn.Module],
    validation: Sequence[np.ndarray],
    loss: TargetLoss,
) -> int:
    """As how many variants of the network a companion counts: what predicts the validation rows best, and `PRIOR_ROWS`
    more of each member for which `PRIOR_WEIGHT` is best. 0 leaves it out.

        E(s) = Σ_rows (f + s (c − f) − y)² + (prior rows) · m · (s − s')²

    with the member f, the companion c, its share s of both, the prior share s', and m the mean of (c − f)², or of the
    smallest squared error where that is less: as if these rows had errors like those of the others. For classes y are
    0 and 1, and f and c probabilities. It is left out, too, where E(0) − E(s) is within the standard error of the sum
    over rows: what gains so little may gain by chance.

    Args:
        fitted: the ensemble.
        data: the rows.
        companions: one for each member.
        validation: the rows of the table that judge each.
        loss: of the outputs; only its weights of classes are read.
    """
    num_variants, of_network = fitted.num_variants, fitted.num_variants - sum(fitted.companions.values())
    copies = [0, *(max(1, int(share * of_network)) for share in SHARES)]
    shares = np.array([count / (num_variants + count) for count in copies])
    batches, gaps, num_known = fitted.batches(data), 0.0, 0
    squares_of_rows: list[np.ndarray] = []
    targets = fitted.output.stacking_targets(batches.targets)
    with torch.no_grad(), cpu_threads(fitted.threads):
        for member, companion, rows in zip(fitted.members, companions, validation, strict=True):
            rows, size = evenly_spaced(rows, MAX_VALIDATION_ROWS), fitted.rows_per_batch
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                batch = batches.batch(part)
                alone = fitted.output.stacking_inputs(as_variants(member(batch)).double()).mean(1).numpy()
                beside = fitted.output.stacking_inputs(companion(batch).double()).numpy()
                weights = output_weights(fitted, data, part, loss)
                errors = [(alone + share * (beside - alone) - targets[part]) ** 2 * weights for share in shares]
                squares_of_rows.append(np.nansum(errors, axis=2))
                is_known = ~np.isnan(targets[part]) & (weights > 0)
                gaps += ((beside - alone) ** 2 * weights)[is_known].sum()
                num_known += int(is_known.sum())

    prior = int(PRIOR_WEIGHT * of_network)
    if not num_known:
        return prior
    by_row = np.concatenate(squares_of_rows, axis=1)
    of_prior_rows = PRIOR_ROWS * len(fitted.members) * min(gaps, by_row.sum(axis=1).min()) / num_known
    of_prior = of_prior_rows * (shares - prior / (num_variants + prior)) ** 2
    return copies[best_share(by_row, of_prior)]


def best_share(of_rows: np.ndarray, of_prior: np.ndarray) -> int:
    """Which share has the smallest sum of errors; the first, of no companion, where no other is better by more than the
    standard error of the difference.

    Args:
        of_rows: `(share, row)`, the error of each validation row.
        of_prior: `(share)`, of what is known without them.
    """
    errors = of_rows.sum(axis=1) + of_prior
    best = int(np.argmin(errors))
    standard_error = math.sqrt(of_rows.shape[1]) * (of_rows[0] - of_rows[best]).std()
    return best if errors[0] - errors[best] > standard_error else 0


def target_weights(data: Data, rows: np.ndarray, loss: TargetLoss) -> np.ndarray:
    """`(row, target)`, or `(row, 1)` where all targets count the same: how much each counts in a loss that weighs rows
    and classes."""
    weights = data.rows.weights[rows, None].astype(np.float32)
    if not loss.class_weights:
        return weights

    targets = data.rows.targets[rows]
    numbers = np.nan_to_num(targets).astype(np.int64).T
    of_class = [np.array(weight)[column] for weight, column in zip(loss.class_weights, numbers, strict=True)]
    return weights * np.stack(of_class, axis=1).astype(np.float32)


def output_weights(fitted: FittedTable, data: Data, rows: np.ndarray, loss: TargetLoss) -> np.ndarray:
    """`(row, output)`, or `(row, 1)`: the same of each output."""
    weights = target_weights(data, rows, loss)
    is_by_target = bool(loss.class_weights) and fitted.task_type == "multiclass"
    return np.repeat(weights, fitted.num_classes, axis=1) if is_by_target else weights
