"""The lines that describe a table before the training: its rows, its splits, and what may go wrong with them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from edgewise.errors import listed, plural
from edgewise.explain.numbers import percent
from edgewise.learn.tables.rows import Rows
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tables.split import Splits, groups_of
from edgewise.learn.tasks.task import Prepared
from edgewise.learn.training.conformal import FEW_GROUPS, empty_intervals
from edgewise.learn.training.folder import RunFolder

RARE_SHARE = 0.2
"""A class is rare with fewer rows than this part of those that it would have if all classes had as many."""
WEIGHTED_SHARE = 0.5
"""With fewer rows than this part of them, weights of classes double the probability of a class or more."""
MAX_NAMED = 5
"""Features without variation, and rare classes, that are named."""


def described(prepared: Prepared, folder: RunFolder) -> list[str]:
    """What was read and rejected, how it was split, and which rows calibrate the intervals, in a few lines."""
    table, splits = prepared.data.rows, prepared.splits
    row = table.contents.counted_noun
    edges = [] if table.contents.noun == "edges" else table.rejected_edges
    rejected = plural(len(table.rejected) - len(edges), row) + (f" and {plural(len(edges), 'edge')}" if edges else "")
    lines = [
        f"{table.source}: {plural(len(table), row)}, "
        f"{plural(table.num_distinct, 'distinct ' + table.contents.noun.removesuffix('s'))}, {rejected} rejected"
    ]
    for (file, column), count in Counter((rejection.file, rejection.column) for rejection in table.rejected).items():
        first = next(rejection for rejection in table.rejected if (rejection.file, rejection.column) == (file, column))
        where = f"line {first.line}" if file == table.source else f"{file}, line {first.line}"
        lines.append(
            f"  {count:,} for column {column!r}, the first in {where}: {first.reason} "
            f"(all in {folder.path / 'rejected.csv'})"
        )
    lines.append(
        f"{len(splits.train):,} training, {len(splits.val):,} validation and "
        f"{plural(len(splits.test), f'test {row}')} (split: {prepared.settings.split_kind})"
    )
    if prepared.settings.split_kind == "column" and (num_left := int(table.trainable.sum()) - splits.num_rows):
        column = table.columns.splits_column
        lines.append(f"  {plural(num_left, row)} in no split: the cell in column {column!r} is empty")
    if not splits.has_own_val:
        kind = prepared.settings.split_kind
        source = f"column {table.columns.splits_column!r} names" if kind == "column" else "the files name"
        count, total = len(splits.val), len(splits.train) + len(splits.val)
        lines.append(f"  {source} no validation rows: {count:,} of {total:,} training rows became validation rows")
    if splits.leakage:
        contents = plural(splits.leakage, f"{singular(table.row_noun)} is", f"{table.row_noun} are")
        lines.append(f"  {contents} in training and test {row}s alike")
    if not len(splits.val):
        lines.append("  no validation rows: the model is that of the last epoch, without intervals")
    elif prepared.fitted.task_type == "regression":
        lines.append(f"  {calibration_note(prepared)}")
        targets, names = table.targets[splits.calibrating], table.columns.target_columns
        counts = dict(zip(names, (~np.isnan(targets)).sum(axis=0).tolist(), strict=True))
        if empty := empty_intervals(counts, prepared.settings.coverage):
            lines.append(f"  warning: {empty}")
    return lines


def calibration_note(prepared: Prepared) -> str:
    """Which rows calibrate the intervals."""
    rows = prepared.splits.calibrating
    if prepared.splits.calibration == "random":
        return f"intervals are calibrated on {plural(len(rows), 'row')} drawn at random"
    count, noun = calibration_groups(prepared.data.rows, prepared.splits)
    of_groups = plural(count, singular(noun), noun)
    line = f"intervals are calibrated on {plural(len(rows), 'row')} of {of_groups} that a model has not seen"
    return line + ("; each model of the ensemble leaves out others, at no cost" if prepared.splits.left_out else "")


def calibration_groups(table: Rows, splits: Splits) -> tuple[int, str]:
    """How many groups the rows that calibrate intervals are of, and what a group is."""
    noun = "groups" if table.columns.group_column else table.row_noun
    noun = "scaffolds" if splits.calibration == "scaffold" else noun
    return len(set(groups_of(table, splits.calibrating, splits.calibration))), noun


def singular(noun: str) -> str:
    """One of what a plural such as "combinations of molecules" names."""
    return re.sub(r"s\b", "", noun, count=1)


def warnings_of(table: Rows, splits: Splits, class_weight: str | None) -> list[str]:
    """What speaks against a model of a table before it is trained, a line each.

    Args:
        table: the rows.
        splits: those that train, and those that calibrate.
        class_weight: how classes are weighted in the loss.
    """
    names, learned = table.columns.target_columns, table.targets[splits.train]
    is_regression = table.columns.task_type == "regression"
    few = few_groups(table, splits) if is_regression else []
    rare = rare_classes(names, learned, {} if is_regression else table.classes, class_weight)
    return [*few, *constant_targets(names, learned), *rare, *labels_without_training_rows(table, splits)]


def few_groups(table: Rows, splits: Splits) -> list[str]:
    """A warning where the rows that calibrate intervals are of few groups."""
    if splits.calibration == "random" or not len(splits.val):
        return []
    count, noun = calibration_groups(table, splits)
    if count >= FEW_GROUPS:
        return []
    remedy = "" if splits.left_out else "; with --ensemble-size 5 each model leaves out others, and all of them count"
    of_groups = plural(count, singular(noun), noun)
    return [f"warning: intervals calibrated on {of_groups} may be far too narrow or too wide{remedy}"]


def labels_without_training_rows(table: Rows, splits: Splits) -> list[str]:
    """A warning for each target with labels that rows of the other splits have, and no training row.

    Args:
        table: the rows, their targets places in its classes.
        splits: which of them train.
    """
    warnings = []
    for column, name in enumerate(table.columns.target_columns):
        if not (classes := table.classes.get(name)):
            continue
        counts = [
            np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=len(classes))
            for values in (table.targets[rows, column] for rows in (splits.train, splits.val, splits.test))
        ]
        missing = np.flatnonzero((counts[0] == 0) & (counts[1] + counts[2] > 0)).tolist()
        if missing:
            shown = ", ".join(repr(classes[label]) for label in missing[:5]) + (", …" if len(missing) > 5 else "")
            in_splits = {
                split: int(of_split[missing].sum()) for split, of_split in zip(("validation", "test"), counts[1:])
            }
            where = " and ".join(plural(count, f"{split} row") for split, count in in_splits.items() if count)
            warnings.append(
                f"warning: {shown} of {name!r} {'stands' if len(missing) == 1 else 'stand'} in {where} and in no "
                "training row: no model can learn to predict it"
            )
    return warnings


def rare_classes(
    names: Sequence[str], targets: np.ndarray, classes: Mapping[str, Sequence[object]], class_weight: str | None
) -> list[str]:
    """A warning for each target with classes of so few training rows that they may never be predicted, or whose
    probabilities are larger than their shares of rows, since classes are weighted.

    Args:
        names: of the targets.
        targets: (row, target), of the training rows; NaN where missing.
        classes: of each target; none where targets are numbers.
        class_weight: how classes are weighted in the loss.
    """
    warnings = []
    for name, values in zip(names, targets.T):
        labels = values[~np.isnan(values)]
        if name not in classes or not len(labels):
            continue
        counts = np.bincount(labels.astype(np.int64), minlength=len(classes[name]))
        shares = counts / len(labels)
        limit = (RARE_SHARE if class_weight is None else WEIGHTED_SHARE) / np.count_nonzero(counts)
        small = [label for label in np.argsort(counts, kind="stable").tolist() if 0 < shares[label] < limit]
        if not small:
            continue
        of_class = [f"{percent(shares[label])} of class {classes[name][label]!s}" for label in small[:MAX_NAMED]]
        if len(small) > MAX_NAMED:
            of_class.append(plural(len(small) - MAX_NAMED, "more class", "more classes"))
        rare = f"of the training rows only {listed(of_class)} of {name!r}"
        if class_weight is None:
            which = "which may" if len(small) == 1 else "each of which may"
            remedy = f"{which} never be the most probable: judge the model by its probabilities, or weight the classes "
            remedy += "by --class-weight balanced"
        else:
            whose = "its probability is" if len(small) == 1 else "their probabilities are"
            remedy = f"so with --class-weight {class_weight} {whose} larger than the share of rows"
        warnings.append(f"warning: {rare}, {remedy}")
    return warnings


def constant_targets(names: Sequence[str], targets: np.ndarray) -> list[str]:
    """A warning for each target that has one value in all training rows.

    Args:
        names: of the targets.
        targets: (row, target), of the training rows; NaN where missing.
    """
    warnings = []
    for name, values in zip(names, targets.T):
        numbers = values[~np.isnan(values)]
        if len(numbers) and np.ptp(numbers) == 0:
            warnings.append(f"warning: target {name!r} is constant in the training rows: there is nothing to learn")
    return warnings


def names_of_features(named: Sequence[str], count: int, categories: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of features that are numbers: their columns; of arrays, their places, counted from 0.

    Args:
        named: the columns of numbers.
        count: how many features there are, words counted one by one.
        categories: the words, which come after the numbers.
    """
    count -= sum(map(len, categories.values()))
    return [repr(name) for name in named] if len(named) == count else [f"feature {number}" for number in range(count)]


def constant_features(
    scaler: ColumnScaler, names: Sequence[str], what: str, *, adds_degrees: bool = False
) -> list[str]:
    """A warning where features have one value in all training rows; none where every feature varies.

    Args:
        scaler: of the features.
        names: of the first of them; the others are not named.
        what: whose they are, such as "training nodes".
        adds_degrees: whether none varies, so that degrees were added.
    """
    if adds_degrees:
        return [f"warning: no feature varies over the {what}: in- and out-degree are added"]
    constant = [names[column] for column in scaler.constant_columns if column < len(names)]
    if not constant or not scaler.smallest:  # nothing was seen, such as edges of graphs without any
        return []
    shown = ", ".join(constant[:MAX_NAMED]) + (f" and {len(constant) - MAX_NAMED} more" * (len(constant) > MAX_NAMED))
    if len(constant) == 1:
        verb, use = "has", "it counts as 1" if scaler.ones else "it is ignored"
    else:
        verb, use = "have", "the first counts as 1, the others are ignored" if scaler.ones else "they are ignored"
    return [f"warning: {shown} {verb} one value in all {what}: {use}"]
