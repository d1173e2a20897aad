"""Which rows train, which choose the model, and which judge it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64

from edgewise.data.tables.rows import Table
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural

KINDS = ("random", "scaffold", "group", "column", "file")
SPLITS = ("train", "val", "test")
CARVED_SHARE = 0.1
"""Share of the training rows that choose the model where the table gives no rows for that."""
# Any number of rows of the table, by their places in it.
RowNumbers: TypeAlias = Int64[np.ndarray, " _"]

WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
"""The split that each word of a splits column means, by its place in `SPLITS`."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Row numbers of the three splits, ascending; rows that cannot be used are in none."""

    train: Int64[np.ndarray, " train_row"]
    """Rows the weights are fitted to, and every scale."""
    val: Int64[np.ndarray, " val_row"]
    """Rows that choose the epoch and calibrate the intervals."""
    test: Int64[np.ndarray, " test_row"]
    """Rows that nothing but the final score sees."""
    leakage: int = 0
    """How many molecules (or combinations of them, for several SMILES columns) or texts are both in train and test."""


def split_rows(
    table: Table, *, kind: str = "random", sizes: Sequence[float | int] = (0.8, 0.1, 0.1), seed: int = 0
) -> Splits:
    """Divide the usable rows of a table.

    Args:
        table: the rows.
        kind: `random` rows; `scaffold`: whole Murcko scaffolds (of all components together), large ones to train;
            `group`: whole groups of the group column; `column`: by the splits column; `file`: first file
            trains, last one tests, one between them validates.
        sizes: shares of train, val and test, that sum to 1 and may be zero; or of train and test alone, val then
            being carved from train. Unused by `column` and `file`.
        seed: the same seed gives the same splits on every machine.

    Returns:
        Three disjoint sets of rows. Where `column`, `file` or two sizes leave val open, a tenth of the training
        rows becomes val: whole groups where a group column is named, whole scaffolds for `scaffold`, else at random.

    Raises:
        SettingError: an unknown kind, or sizes that are no shares.
        DataError: the table lacks what the kind needs, or has too few rows or groups to fill every split.
    """
    if kind not in KINDS:
        raise SettingError(f"split is {kind!r}, expected one of {', '.join(KINDS)}.")
    rng = np.random.default_rng(seed)
    rows = table.trainable.nonzero()[0].astype(np.int64)
    if kind in ("column", "file"):
        splits = _by_column(table, rows) if kind == "column" else _by_file(table, rows)
        if splits[1] is None:
            splits[0], splits[1] = _carve(table, splits[0], "group" if table.columns.group_column else "random", rng)
    else:
        shares = _checked_sizes(sizes)
        if len(shares) == 3:
            splits = _divide(table, rows, kind, shares, rng)
        else:
            train, test = _divide(table, rows, kind, (shares[0], 0.0, shares[1]), rng)[::2]
            splits = [*_carve(table, train, kind, rng), test]
    train, val, test = (np.sort(split) for split in splits)
    shared = set(table.contents(train)) & set(table.contents(test))
    return Splits(train, val, test, leakage=len(shared))


def split_folds(
    table: Table, *, kind: str, num_folds: int, fold: int, sizes: Sequence[float | int] = (0.8, 0.1, 0.1), seed: int = 0
) -> Splits:
    """Divide the usable rows of a table for cross-validation: each row is a test row in one of the folds.

    Args:
        table: the rows.
        kind: `random`, `scaffold` or `group`, as for `split_rows`; scaffolds and groups stay whole.
        num_folds: how many folds there are.
        fold: the one that is tested.
        sizes: of training and validation rows; the rows of the other folds are shared in this ratio.
        seed: the same seed gives the same folds on every machine.

    Raises:
        DataError: the table has fewer rows, scaffolds or groups than folds.
    """
    rows = table.trainable.nonzero()[0].astype(np.int64)
    if kind == "random":
        keys = [str(row) for row in rows.tolist()]
    else:
        keys = table.scaffolds(rows) if kind == "scaffold" else _group_keys(table, rows)
    members: dict[str, list[int]] = {}
    for row, key in zip(rows.tolist(), keys, strict=True):
        members.setdefault(key, []).append(row)
    if len(members) < num_folds:
        unit = "row" if kind == "random" else kind
        raise DataError(f"{plural(len(members), unit)} cannot fill {num_folds} folds; choose a smaller --num-folds.")
    names = sorted(members)
    order = [names[place] for place in np.random.default_rng(seed).permutation(len(names))]
    folds: list[list[int]] = [[] for _ in range(num_folds)]
    for name in sorted(order, key=lambda name: -len(members[name])):  # large ones first, each to the smallest fold
        min(folds, key=len).extend(members[name])
    rest = np.sort(np.array([row for place, found in enumerate(folds) if place != fold for row in found]))
    shares = _checked_sizes(sizes)
    share = shares[1] / (shares[0] + shares[1]) if len(shares) == 3 else CARVED_SHARE
    rng = np.random.default_rng([seed, fold])
    train, val, _ = _divide(table, rest, kind, (1 - share, share, 0.0), rng)
    test = np.array(folds[fold], dtype=np.int64)
    shared = set(table.contents(train)) & set(table.contents(test))
    return Splits(np.sort(train), np.sort(val), np.sort(test), leakage=len(shared))


def _checked_sizes(sizes: Sequence[float | int]) -> tuple[float, ...]:
    shares = tuple(float(size) for size in sizes)
    if len(shares) not in (2, 3) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise SettingError(
            f"split_sizes is {' '.join(f'{share:g}' for share in shares)}, expected three numbers from 0 to 1 "
            "(train val test) or two (train test) that sum to 1."
        )
    return shares


def _by_column(table: Table, rows: RowNumbers) -> list:
    column = table.columns.splits_column
    if column is None:
        raise SettingError("split is 'column', but splits_column is not given: name the column.")
    words = [word.strip().lower() for word in table.frame[column]]
    for row, word in enumerate(words):
        if word and word not in WORDS:
            raise DataError(
                f"{_place(table, row)}, column {column!r}: {table.frame[column].iloc[row]!r} is no "
                "split, expected train, val (also valid, validation) or test, or an empty cell for none."
            )
    split_of_row = np.array([WORDS.get(word, -1) for word in words])
    splits = [rows[split_of_row[rows] == split] for split in range(3)]
    if not len(splits[0]):
        raise DataError(f"{table.source}, column {column!r}: no usable row is in train.")
    return [splits[0], splits[1] if len(splits[1]) else None, splits[2]]


def _by_file(table: Table, rows: RowNumbers) -> list:
    num_files = len(table.files)
    if num_files not in (2, 3):
        raise DataError(
            f"split is 'file', but there are {num_files} files, expected two (train, test) or three (train, val, test)."
        )
    splits = [rows[table.file_of_row[rows] == place] for place in range(num_files)]
    for name, split in zip(table.files, splits, strict=True):
        if not len(split):
            raise DataError(f"{name}: no row can be used.")
    return splits if num_files == 3 else [splits[0], None, splits[1]]


def _carve(table: Table, train: RowNumbers, kind: str, rng: np.random.Generator) -> list[RowNumbers]:
    return _divide(table, train, kind, (1 - CARVED_SHARE, CARVED_SHARE, 0.0), rng)[:2]


def _divide(
    table: Table,
    rows: RowNumbers,
    kind: str,
    shares: tuple[float, ...],
    rng: np.random.Generator,
) -> list[RowNumbers]:
    if kind == "random":
        return divide_rows(rows, shares, rng)
    keys = table.scaffolds(rows) if kind == "scaffold" else _group_keys(table, rows)
    return _divide_groups(rows, keys, shares, rng, large_first=kind == "scaffold")


def divide_rows(
    rows: RowNumbers, shares: tuple[float, ...], rng: np.random.Generator, unit: str = "usable rows"
) -> list[RowNumbers]:
    """Rows in an order drawn at random, cut into three splits.

    Args:
        rows: The rows.
        shares: Of the three splits, which sum to 1; one that is not 0 has at least one row.
        rng: Draws the order.
        unit: What the rows are, for the message.

    Raises:
        DataError: There are fewer rows than splits.
    """
    filled = [split for split in range(3) if shares[split] > 0]
    if len(rows) < len(filled):
        raise DataError(
            f"{plural(len(rows), unit.removesuffix('s'))} cannot fill "
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
    members: dict[str, list[int]] = {}
    for row, key in zip(rows.tolist(), keys, strict=True):
        members.setdefault(key, []).append(row)
    filled = [split for split in range(3) if shares[split] > 0]
    if len(members) < len(filled):
        raise DataError(
            f"{plural(len(members), 'group')} cannot fill {_named(filled)}: add groups, set a split's size to 0, "
            "or split at random."
        )
    names = sorted(members)
    order = [names[place] for place in rng.permutation(len(names))]
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


def _group_keys(table: Table, rows: RowNumbers) -> list[str]:
    column = table.columns.group_column
    if column is None:
        raise SettingError("split is 'group', but group_column is not given: name the column.")
    groups = table.frame[column]
    for row in rows.tolist():
        if not groups.iloc[row].strip():
            raise DataError(f"{_place(table, row)}, column {column!r}: the group is empty.")
    return [groups.iloc[row] for row in rows.tolist()]


def _named(splits: list[int]) -> str:
    return ", ".join(SPLITS[split] for split in splits)


def _place(table: Table, row: int) -> str:
    return f"{table.files[table.file_of_row[row]]}, line {table.lines[row]}"
