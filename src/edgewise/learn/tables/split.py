"""Which rows train, which choose the model, and which judge it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from jaxtyping import Int64

from edgewise.choices import Calibration
from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.tables.cell import distinct
from edgewise.learn.tables.rows import RowNumbers, Rows

KINDS = ("random", "scaffold", "group", "column", "file")
MIN_REPEATED = 10
"""Distinct contents of the training rows below which new contents in the test rows may be chance."""
SPLITS = ("train", "val", "test")
CARVED_SHARE = 0.1
"""Share of the training rows that choose the model where the table gives no rows for that."""

WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
"""The split that each word of a splits column means, by its place in `SPLITS`."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Row numbers of the three splits, ascending; rows that cannot be used are in none."""

    train: Int64[np.ndarray, " train_row"]
    """Rows the weights are fitted to, and every scale."""
    val: Int64[np.ndarray, " val_row"]
    """Rows that choose the epoch and calibrate the intervals; then a Gaussian process or a forest learns from them."""
    test: Int64[np.ndarray, " test_row"]
    """Rows that nothing but the final score sees."""
    leakage: int = 0
    """The number of molecules (or combinations of them, for several SMILES columns) or texts in both train and test."""
    calibration: Calibration = "random"
    """How new rows differ from the training rows, and so how the calibration rows must."""
    left_out: tuple[Int64[np.ndarray, " _"], ...] = ()
    """The rows of train and val that each member of an ensemble does not learn from; empty if that is val for all."""
    has_own_val: bool = True
    """Whether the column or the files that define the splits name rows of val; else a part of train became val."""

    @property
    def num_rows(self) -> int:
        """Rows of all splits."""
        return len(self.train) + len(self.val) + len(self.test)

    def of_member(self, number: int) -> tuple[RowNumbers, RowNumbers]:
        """The training and the validation rows of a member of an ensemble."""
        if not self.left_out:
            return self.train, self.val
        left_out = self.left_out[number % len(self.left_out)]
        return np.setdiff1d(self.learned, left_out), left_out

    @property
    def calibrating(self) -> RowNumbers:
        """The rows that some members do not learn from, ascending, which calibrate the intervals."""
        return np.unique(np.concatenate(self.left_out)) if self.left_out else self.val

    @property
    def learned(self) -> RowNumbers:
        """The rows that at least one member learns from."""
        return np.union1d(self.train, self.val) if self.left_out else self.train


def split_rows(
    table: Rows,
    *,
    kind: str = "random",
    sizes: Sequence[float | int] = (0.8, 0.1, 0.1),
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Splits:
    """Divide the usable rows of a table.

    Args:
        table: the rows.
        kind: `random` rows; `scaffold`: whole Murcko scaffolds (of all components together), large ones to train,
            a molecule without a ring being a scaffold of its own;
            `group`: whole groups of the group column; `column`: by the splits column; `file`: first file
            trains, last one tests, one between them validates.
        sizes: shares of train, val and test, that sum to 1 and may be zero; or of train and test alone, val then
            being carved from train. Unused by `column` and `file`.
        seed: the same seed gives the same splits on every machine.
        calibration: how val is drawn from the rows that are not in test; by default as
            `calibration_of` finds. Rows that the table names as val stay val.

    Returns:
        Three disjoint sets of rows. Where `column`, `file` or two sizes leave val open, a tenth of the training
        rows becomes val: rows, whole groups or whole scaffolds, as `calibration` says.

    Raises:
        SettingError: an unknown kind, or sizes that are not shares of 1.
        DataError: the table lacks what the kind needs, or has too few rows or groups to fill every split.
    """
    if kind not in KINDS:
        raise SettingError(f"--split is {kind!r}; expected one of {', '.join(KINDS)}.")
    _check_kind(table, kind, calibration)
    rng = np.random.default_rng(seed)

    rows, has_own_val = table.trainable.nonzero()[0].astype(np.int64), True
    if kind in ("column", "file"):
        splits = _by_column(table, rows) if kind == "column" else _by_file(table, rows)
        calibration = calibration or calibration_of(table, splits[0], splits[2])
        if not (has_own_val := splits[1] is not None):
            splits[:2] = _divide(table, splits[0], calibration, (1 - CARVED_SHARE, CARVED_SHARE, 0.0), rng)[:2]
    else:
        shares, calibration = _checked_sizes(sizes), calibration or cast(Calibration, kind)
        if len(shares) == 3:
            splits = _divide(table, rows, kind, shares, rng)
        else:
            train, test = _divide(table, rows, kind, (shares[0], 0.0, shares[1]), rng)[::2]
            splits = [*_divide(table, train, kind, (1 - CARVED_SHARE, CARVED_SHARE, 0.0), rng)[:2], test]
        if calibration != kind and len(splits[0]) and len(splits[1]):
            train_and_val = np.sort(np.concatenate(splits[:2]))
            share = len(splits[1]) / len(train_and_val)
            splits[:2] = _divide(table, train_and_val, calibration, (1 - share, share, 0.0), rng)[:2]

    train, val, test = (np.sort(split) for split in splits)
    leakage = num_shared(table, train, test)
    return Splits(train, val, test, leakage, calibration, has_own_val=has_own_val)


def num_shared(table: Rows, train: RowNumbers, test: RowNumbers) -> int:
    """The number of distinct contents in both."""
    if table.contents.keys is None:
        return 0
    return len(np.intersect1d(table.keys(train), table.keys(test)))


def calibration_of(table: Rows, train: RowNumbers, test: RowNumbers) -> Calibration:
    """The kind of split, where the table or its files define it.

    `group` where a group column is named; and where no test row has the contents of a training row although contents
    repeat in the training rows, such as new molecules at many temperatures. Else, and for classes, which have no
    intervals, `random`.
    """
    if table.columns.group_column is not None:
        return "group"
    if table.columns.task_type != "regression":
        return "random"
    train_groups = np.unique(table.keys(train))
    repeats = len(train_groups) >= MIN_REPEATED and len(train) >= 2 * len(train_groups)
    return "group" if repeats and len(test) and not np.isin(table.keys(test), train_groups).any() else "random"


def groups_of(table: Rows, rows: RowNumbers, calibration: str) -> list[str]:
    """What some rows must not share with the rows that a model learns from: their scaffold; or their group, without a
    group column their contents; or nothing, so that each row is its own."""
    if calibration == "scaffold":
        assert table.contents.scaffolds is not None
        return table.contents.scaffolds(rows)
    if calibration == "random":
        return [str(row) for row in rows.tolist()]
    if table.columns.group_column is not None:
        return _group_keys(table, rows)
    _, first, which = np.unique(table.keys(rows), return_index=True, return_inverse=True)
    names = table.contents.names(rows[first])
    return [names[number] for number in which.tolist()]


def evenly_spaced(values: np.ndarray, max_count: int) -> np.ndarray:
    """At most `max_count` of some values, evenly spaced."""
    if len(values) <= max_count:
        return values
    return values[np.linspace(0, len(values) - 1, max_count).round().astype(np.int64)]


def with_left_out(table: Rows, splits: Splits, num_members: int, seed: int) -> Splits:
    """The splits of an ensemble whose members leave out other groups each, so that all of these calibrate intervals.

    The first member leaves out val. The groups of the training rows are divided at random into folds, as many as val
    fits into the training rows, each with as many groups, and each further member leaves out one of them. Where val
    shares groups with the training rows, val is divided, too.

    Args:
        table: The rows.
        splits: Training and validation rows.
        num_members: The size of the ensemble.
        seed: Seed of the folds.

    Returns:
        The same splits where each row is its own group, for one member, or without validation rows.
    """
    if splits.calibration == "random" or num_members == 1 or not len(splits.val):
        return splits
    keys_of = {
        name: groups_of(table, rows, splits.calibration)
        for name, rows in vars(splits).items()
        if name in ("train", "val")
    }
    is_whole = not set(keys_of["train"]) & set(keys_of["val"])
    rows = splits.train if is_whole else np.concatenate([splits.train, splits.val])
    keys = keys_of["train"] if is_whole else [*keys_of["train"], *keys_of["val"]]
    num_folds = min(len(set(keys)), max(2, round(len(rows) / len(splits.val))))
    if num_folds < 2:
        return splits

    # Not balanced by rows: the first folds would be the largest groups, which are unlike most.
    members = _members(rows, keys)
    drawn = np.array_split(np.random.default_rng([seed, num_folds]).permutation(sorted(members)), num_folds)
    folds = [np.sort(np.concatenate([members[str(key)] for key in keys_of_fold])) for keys_of_fold in drawn]
    folds = [splits.val, *folds] if is_whole else folds
    folds = [fold for fold in folds if table.weights[fold].astype(np.float32).any()]  # others judge no model
    if len(folds) < 2:
        return splits
    return replace(splits, left_out=tuple(folds[number % len(folds)] for number in range(num_members)))


def split_folds(
    table: Rows,
    *,
    kind: str,
    num_folds: int,
    fold: int,
    sizes: Sequence[float | int] = (0.8, 0.1, 0.1),
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Splits:
    """Divide the usable rows of a table for cross-validation: each row is a test row in one of the folds.

    Args:
        table: the rows.
        kind: `random`, `scaffold` or `group`, as for `split_rows`; scaffolds and groups stay whole.
        num_folds: how many folds there are.
        fold: the one that is tested.
        sizes: of training and validation rows; the rows of the other folds are shared in this ratio.
        seed: the same seed gives the same folds on every machine.
        calibration: how val is drawn, as for `split_rows`.

    Raises:
        DataError: the table has fewer rows, scaffolds or groups than folds.
        SettingError: the sizes are not shares of 1, or that of the training rows is 0.
    """
    rows = table.trainable.nonzero()[0].astype(np.int64)
    _check_kind(table, kind, calibration)
    rng = np.random.default_rng(seed)
    keys = [] if kind == "random" else groups_of(table, rows, kind)
    if (count := len(set(keys)) if keys else len(rows)) < num_folds:
        unit = "row" if kind == "random" else kind
        raise DataError(f"{plural(count, unit)} cannot fill {num_folds} folds; choose a smaller --num-folds.")

    folds = _balanced_folds(rows, keys, num_folds, rng) if keys else _random_folds(rows, num_folds, rng)
    remaining = np.sort(np.concatenate([fold_rows for number, fold_rows in enumerate(folds) if number != fold]))
    shares, calibration = _checked_sizes(sizes), calibration or cast(Calibration, kind)
    if not shares[0]:
        raise SettingError("--split-sizes leaves no row for training; give the training rows a share above 0.")
    share = shares[1] / (shares[0] + shares[1]) if len(shares) == 3 else CARVED_SHARE
    rng = np.random.default_rng([seed, fold])
    train, val, _ = _divide(table, remaining, calibration, (1 - share, share, 0.0), rng)
    leakage = num_shared(table, train, folds[fold])

    return Splits(np.sort(train), np.sort(val), folds[fold], leakage=leakage, calibration=calibration)


def _random_folds(rows: RowNumbers, num_folds: int, rng: np.random.Generator) -> list[RowNumbers]:
    """The same where each row is a group of its own, called by its number."""
    order = np.argsort(rows.astype(str), kind="stable")[rng.permutation(len(rows))]
    return [np.sort(rows[order[fold::num_folds]]) for fold in range(num_folds)]


def _balanced_folds(rows: RowNumbers, keys: list[str], num_folds: int, rng: np.random.Generator) -> list[RowNumbers]:
    """Whole groups in folds of about the same number of rows, ascending within each."""
    members = _members(rows, keys)
    names = sorted(members)
    order = [names[index] for index in rng.permutation(len(names))]
    folds: list[list[int]] = [[] for _ in range(num_folds)]
    for name in sorted(order, key=lambda name: -len(members[name])):  # large ones first, each to the smallest fold
        min(folds, key=len).extend(members[name])
    return [np.sort(np.array(members_of_fold, dtype=np.int64)) for members_of_fold in folds]


def _members(rows: RowNumbers, keys: list[str]) -> dict[str, list[int]]:
    """The rows of each group, groups in the order of their first row."""
    members: dict[str, list[int]] = {}
    for row, key in zip(rows.tolist(), keys, strict=True):
        members.setdefault(key, []).append(row)
    return members


def _checked_sizes(sizes: Sequence[float | int]) -> tuple[float, ...]:
    shares = tuple(float(size) for size in sizes)
    if len(shares) not in (2, 3) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise SettingError(
            f"--split-sizes is {' '.join(f'{share:g}' for share in shares)}, expected three numbers from 0 to 1 "
            "(train val test) or two (train test) that sum to 1."
        )
    return shares


def _by_column(table: Rows, rows: RowNumbers) -> list:
    column = table.columns.splits_column
    if column is None:
        raise SettingError("--split is column, but --splits-column is not given; name the column.")
    cells, codes = distinct(table.cells.frame[column])
    words = [cell.strip().lower() for cell in cells]
    unknown = np.array([bool(word) and word not in WORDS for word in words], dtype=bool)[codes]
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"{table.cells.row_name(row)}, column {column!r}: {cells[codes[row]]!r} is not "
            "a split, expected train, val (also valid, validation) or test, or an empty cell for none."
        )

    split_of_row = np.array([WORDS.get(word, -1) for word in words])[codes]
    splits = [rows[split_of_row[rows] == split] for split in range(3)]
    if not len(splits[0]):
        raise DataError(f"{table.source}, column {column!r}: no usable row is in train.")
    return [splits[0], splits[1] if len(splits[1]) else None, splits[2]]


def _by_file(table: Rows, rows: RowNumbers) -> list:
    num_files = len(table.cells.files)
    if num_files not in (2, 3):
        raise DataError(
            f"--split is file, but the data are {plural(num_files, 'file')}; expected two (train, test) or three "
            "(train, val, test)."
        )
    splits = [rows[table.cells.file_of_row[rows] == number] for number in range(num_files)]
    for name, split in zip(table.cells.files, splits, strict=True):
        if not len(split):
            raise DataError(f"{name}: no row can be used.")
    return splits if num_files == 3 else [splits[0], None, splits[1]]


def _divide(
    table: Rows, rows: RowNumbers, kind: str, shares: tuple[float, ...], rng: np.random.Generator
) -> list[RowNumbers]:
    if kind == "random":
        return divide_rows(rows, shares, rng)
    keys = groups_of(table, rows, kind)
    return _divide_groups(rows, keys, shares, rng, large_first=kind == "scaffold")


def divide_rows(
    rows: RowNumbers, shares: tuple[float, ...], rng: np.random.Generator, row_noun: str = "usable rows"
) -> list[RowNumbers]:
    """Rows in an order drawn at random, cut into three splits.

    Args:
        rows: The rows.
        shares: Of the three splits, which sum to 1; one that is not 0 has at least one row.
        rng: Draws the order.
        row_noun: What the rows are, for the message.

    Raises:
        DataError: There are fewer rows than splits.
    """
    filled = [split for split in range(3) if shares[split] > 0]
    if len(rows) < len(filled):
        raise DataError(
            f"{plural(len(rows), row_noun.removesuffix('s'))} cannot fill "
            f"{_named(filled)}: add rows or set a split's size to 0."
        )

    counts = [max(1, round(share * len(rows))) if share > 0 else 0 for share in shares]
    # Rounding gives or takes a row: the largest split bears it.
    counts[int(np.argmax(counts))] += len(rows) - sum(counts)
    shuffled = rng.permutation(rows)
    return np.split(shuffled, np.cumsum(counts)[:2])


def _divide_groups(
    rows: RowNumbers,
    keys: list[str],
    shares: tuple[float, ...],
    rng: np.random.Generator,
    *,
    large_first: bool,
) -> list[RowNumbers]:
    """Whole groups to splits: each to the first one it fits into, else to the one that lacks most."""
    members = _members(rows, keys)
    filled = [split for split in range(3) if shares[split] > 0]
    if len(members) < len(filled):
        raise DataError(
            f"{plural(len(members), 'group')} cannot fill {_named(filled)}: add groups, set a split's size to 0, "
            "or split at random."
        )

    names = sorted(members)
    order = [names[number] for number in rng.permutation(len(names))]
    if large_first:
        # A scaffold that takes half of a small split measures that scaffold more than unseen ones.
        half = min(shares[split] for split in filled) * len(rows) / 2
        order.sort(key=lambda name: -len(members[name]) if len(members[name]) > half else 0)

    room = [share * len(rows) for share in shares]
    chosen: list[list[str]] = [[], [], []]
    for name in order:
        size = len(members[name])
        split = next(
            (split for split in filled if size <= room[split] + 0.5), max(filled, key=lambda split: room[split])
        )
        chosen[split].append(name)
        room[split] -= size

    for split in filled:
        if not chosen[split]:
            donor = max((other for other in filled if len(chosen[other]) > 1), key=lambda other: -room[other])
            smallest = min(chosen[donor], key=lambda name: (len(members[name]), order.index(name)))
            chosen[donor].remove(smallest)
            chosen[split].append(smallest)

    return [np.array([row for name in split for row in members[name]], dtype=np.int64) for split in chosen]


def _check_kind(table: Rows, kind: str, calibration: str | None) -> None:
    for flag, value in (("--split", kind), ("--calibration", calibration)):
        if value == "scaffold" and table.contents.scaffolds is None:
            raise SettingError(f"{flag} is scaffold, but only molecules have scaffolds; use random or group.")
    if kind == "group" and table.columns.group_column is None:
        raise SettingError("--split is group, but --group-column is not given; name the column.")


def _group_keys(table: Rows, rows: RowNumbers) -> list[str]:
    column = table.columns.group_column
    groups, codes = distinct(table.cells.frame[column])
    is_empty = np.array([not group.strip() for group in groups], dtype=bool)[codes[rows]]
    if is_empty.any():
        raise DataError(f"{table.cells.row_name(int(rows[is_empty.argmax()]))}, column {column!r}: the group is empty.")
    names = [group.strip() for group in groups]  # blanks around a name are none of it, as in names of nodes
    return [names[code] for code in codes[rows].tolist()]


def _named(splits: list[int]) -> str:
    return ", ".join(SPLITS[split] for split in splits)
