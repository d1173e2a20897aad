"""Scales learned on training rows only: targets, descriptors of molecules, conditions of rows, features of graphs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Integer
from numpy.typing import NDArray

from edgewise.errors import DataError
from edgewise.learn.files import copied_rows
from edgewise.learn.tables.impute import Imputer
from edgewise.learn.tables.magnitude import CellName, require_range, require_spread

NUM_UNUSUAL = 3
"""Fewer rows than this off the most common value say nothing about a descriptor; in tiny tables, fewer than half."""
COLUMNS = 32
"""Descriptors whose spread is computed together."""
CONDITION_LIMIT = 5.0
"""The limit of clipped conditions, in standard deviations."""
MIN_POSITIVE = 0.5
"""The share of positive values from which a column without negative ones may have a logarithm."""

Rows: TypeAlias = Integer[np.ndarray, " _"] | Sequence[int]


@dataclass(frozen=True)
class TargetScaler:
    """Targets in units of their spread on the training rows: y' = (y − mean) / std."""

    mean: tuple[float, ...]
    """Mean of each target over the training rows that have it, each counting as much as it weighs."""
    std: tuple[float, ...]
    """Standard deviation of each target likewise; 1 where it does not vary."""

    def __post_init__(self) -> None:
        _require_alike("TargetScaler", self.mean, self.std)
        if min(self.std, default=1.0) <= 0:
            raise DataError("TargetScaler: std must be above 0.")

    @classmethod
    def fit(
        cls,
        values: Float[np.ndarray, " row target"],
        rows: Rows,
        cell_name: CellName | None = None,
        names: Sequence[str] | None = None,
        weights: Float[np.ndarray, " row"] | None = None,
    ) -> "TargetScaler":
        """Learn from the given rows; NaN is a missing target.

        Args:
            values: of all rows.
            rows: those of the training.
            cell_name: what messages call the target of one of `rows`, by its place among them.
            names: what they call each target.
            weights: of all rows, above 0 in those of the training; None where all count the same.

        Raises:
            DataError: a target is empty in all of these rows, or cannot be scaled: it is too large, or varies too
                little.
        """
        used = _rows_of(values, rows)
        require_range(used, cell_name)
        empty = np.flatnonzero(np.isnan(used).all(axis=0))
        if empty.size:
            column = int(empty[0])
            name = f"target {column + 1}" if names is None else repr(names[column])
            raise DataError(f"Every training row lacks {name}: there is nothing to learn; leave the target out.")
        mean, std = _moments(used, None if weights is None else _rows_of(weights, rows))
        require_spread(used, std, cell_name)

        return cls(_floats(mean), _floats(np.where(_varies(used) & (std > 0), std, 1.0)))

    def transform(self, values: Float[np.ndarray, " row target"]) -> Float[np.ndarray, " row target"]:
        """From the unit of the table to the unit of the model; NaN stays NaN."""
        return (values - np.array(self.mean)) / np.array(self.std)

    def inverse(self, values: Float[np.ndarray, " row target"]) -> Float[np.ndarray, " row target"]:
        """From the unit of the model to the unit of the table."""
        return values * np.array(self.std) + np.array(self.mean)


@dataclass(frozen=True)
class DescriptorScaler:
    """Descriptors of molecules, centered, in units of their spread, and clipped.

    x' = clip((x − center) / spread, −limit, limit)

    A column in which fewer than three training rows differ from the most common value, or more than half are NaN, gives
    0 always, and so does a single NaN: what was hardly ever seen to matter cannot blow up a prediction.
    """

    center: tuple[float, ...]
    """Mean of each column over the training rows after the outermost two hundredths are pulled in."""
    spread: tuple[float, ...]
    """Standard deviation likewise; 0 marks a column that is always 0."""
    limit: float
    """Largest absolute value of the result."""

    def __post_init__(self) -> None:
        _require_alike("DescriptorScaler", self.center, self.spread)

    @classmethod
    def fit(cls, values: Float[np.ndarray, " row feature"], rows: Rows, *, limit: float = 4.0) -> "DescriptorScaler":
        """Learn from the given rows."""
        used = _rows_of(values, rows)
        # A few columns at a time, so that the whole table is never copied.
        parts = [cls._spreads(part) for part in np.array_split(used, used.shape[1] // COLUMNS + 1, axis=1)]
        center, spread = (np.concatenate(parts_of_array) for parts_of_array in zip(*parts, strict=True))
        return cls(_floats(center), _floats(spread), float(limit))

    @staticmethod
    def _spreads(used: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Center and spread of some columns."""
        if not used.shape[1]:
            return np.zeros(0), np.zeros(0)
        keep = (np.isnan(used).mean(axis=0) <= 0.5) & (_num_unusual(used) >= min(NUM_UNUSUAL, (len(used) + 1) // 2))
        filled = np.where(keep, used, 0.0)
        # Columns whose spread overflows are dropped below.
        with np.errstate(over="ignore", invalid="ignore"):
            inner = np.clip(filled, *np.nanquantile(filled, [0.005, 0.995], axis=0))
            center, pulled = np.nanmean(inner, axis=0), np.nanstd(inner, axis=0)
            # A count that is zero in 199 molecules of 200 loses its spread when its tail is pulled in: use all values.
            spread = np.where(pulled > 0, pulled, np.nanstd(filled, axis=0))
        usable = keep & np.isfinite(center) & np.isfinite(spread) & (spread > 0)
        return np.where(usable, center, 0.0), np.where(usable, spread, 0.0)

    def transform(self, values: Float[np.ndarray, " row feature"]) -> Float[np.ndarray, " row feature"]:
        """Bounded and finite numbers for any input."""
        spread = np.array(self.spread)
        used = spread > 0
        with np.errstate(over="ignore"):
            scaled = (values - np.array(self.center)) / np.where(used, spread, 1.0)
        return np.where(used & ~np.isnan(scaled), np.clip(scaled, -self.limit, self.limit), 0.0)


@dataclass(frozen=True)
class ColumnScaler:
    """Conditions of rows, features of nodes and edges: the z-score of each column, and that of its logarithm where it
    spans decades.

    x' = (x − mean) / std. A column gets a logarithm when no training value is negative, at least half of them are
    positive, and the largest is at least ten times the smallest positive one: pressure, concentration, time; not
    temperature in kelvin. Zeros count as the smallest positive value there, and one more feature marks them, 1 or 0:
    a few rows without pressure must not take the logarithm from all others.
    """

    mean: tuple[float, ...]
    """Mean of each column over the training rows."""
    std: tuple[float, ...]
    """Standard deviation of each column; 0 marks one that does not vary and always gives 0, or 1 if it is in `ones`."""
    log_columns: tuple[int, ...]
    """Columns, counted from 0, that have a logarithm as well."""
    log_smallest: tuple[float, ...]
    """Smallest positive training value of each of those; below it the logarithm goes no further down."""
    log_mean: tuple[float, ...]
    """Mean of the logarithm of each of those."""
    log_std: tuple[float, ...]
    """Standard deviation of the logarithm of each of those."""
    smallest: tuple[float, ...] = ()
    """Smallest training value of each column."""
    largest: tuple[float, ...] = ()
    """Largest training value of each column."""
    zero_columns: tuple[int, ...] = ()
    """Columns with a logarithm that are 0 in some training rows."""
    ones: tuple[int, ...] = ()
    """Columns that do not vary and give 1 in every row."""
    imputer: Imputer = field(default_factory=Imputer)
    """Fills missing numbers first."""

    def __post_init__(self) -> None:
        _require_alike("ColumnScaler", self.mean, self.std)
        _require_alike("ColumnScaler", self.log_columns, self.log_smallest, self.log_mean, self.log_std)
        if self.smallest or self.largest:
            _require_alike("ColumnScaler", self.mean, self.smallest, self.largest)
        if (
            not all(0 <= column < len(self.mean) for column in self.log_columns)
            or not set(self.zero_columns) <= set(self.log_columns)
            or not all(0 <= column < len(self.mean) for column in self.ones)
            or len(self.imputer.median) not in (0, len(self.mean))
            or min(self.log_smallest, default=1) <= 0
        ):
            raise DataError("ColumnScaler: log_columns must be columns of positive numbers, and ones columns.")

    @classmethod
    def fit(
        cls,
        values: Float[np.ndarray, " row condition"],
        rows: Rows,
        cell_name: CellName | None = None,
        *,
        keep_one: bool = False,
    ) -> "ColumnScaler":
        """Learn from the given rows, whose values must be finite, or NaN where they are missing.

        Args:
            values, rows: the table, and which of its rows train.
            cell_name: what messages call a cell of one of `rows`, by its place among them.
            keep_one: give 1 instead of 0 for the first column that does not vary. Layers over edges need it to count
                neighbors: what is 0 in every node stays 0 in every sum of them. One is enough, and any number of ones
                would be one bias that learns as many times as fast.

        Raises:
            DataError: a column cannot be scaled: it is too large, or varies too little.
        """
        used = _rows_of(values, rows)
        require_range(used, cell_name)
        scaler = cls.fit_parts(lambda: [used], keep_one=keep_one, imputer=Imputer.fit([used]))
        require_spread(used, np.array(scaler.std), cell_name)
        return scaler

    @classmethod
    def fit_parts(
        cls,
        parts: Callable[[], Iterable[Float[np.ndarray, " row condition"]]],
        *,
        keep_one: bool = False,
        imputer: Imputer = Imputer(),
    ) -> "ColumnScaler":
        """Fits to rows that come in parts, in three passes.

        Args:
            parts: the rows.
            keep_one: as in `fit`.
            imputer: fills what is missing in them.
        """
        bounds: list[np.ndarray] = []  # of each part: rows, sum, least, largest, least above 0, how many above 0
        for used in (imputer.fill(np.asarray(part, np.float64)) for part in parts()):
            if not np.isfinite(used).all():
                raise DataError("ColumnScaler: the training rows hold values that are not finite; fit on usable rows.")
            above = np.where(used > 0, used, np.inf).min(axis=0)
            rows = np.full(used.shape[1], len(used), dtype=np.float64)
            statistics = [rows, used.sum(axis=0), used.min(axis=0), used.max(axis=0), above, (used > 0).sum(axis=0)]
            bounds.append(np.array(statistics))

        stacked = np.array(bounds)
        count, total, num_positive = (stacked[:, index].sum(axis=0) for index in (0, 1, 5))
        smallest, least, largest = stacked[:, 2].min(axis=0), stacked[:, 4].min(axis=0), stacked[:, 3].max(axis=0)
        mean, varies = total / count, largest > smallest
        is_positive = (smallest >= 0) & (num_positive / count >= MIN_POSITIVE)
        spans = (is_positive & (largest / 10 >= least)).nonzero()[0]

        def logs(used: np.ndarray) -> np.ndarray:
            return np.log(np.maximum(used[:, spans], least[spans]))

        second_pass = (imputer.fill(np.asarray(part, np.float64)) for part in parts())
        sums = [[((used - mean) ** 2).sum(axis=0), logs(used).sum(axis=0)] for used in second_pass]
        squares, log_sums = (sum(terms) for terms in zip(*sums, strict=True))
        log_mean = log_sums / count[spans]
        third_pass = (imputer.fill(np.asarray(part, np.float64)) for part in parts())
        log_squares = sum(((logs(used) - log_mean) ** 2).sum(axis=0) for used in third_pass)

        return cls(
            mean=_floats(mean),
            std=_floats(np.where(varies, np.sqrt(squares / count), 0.0)),
            log_columns=tuple(int(column) for column in spans),
            log_smallest=_floats(least[spans]),
            log_mean=_floats(log_mean),
            log_std=_floats(np.sqrt(log_squares / count[spans])),
            smallest=_floats(smallest),
            largest=_floats(largest),
            zero_columns=tuple(int(column) for column in spans if smallest[column] == 0),
            ones=tuple(np.flatnonzero(~varies)[:1].tolist()) if keep_one else (),
            imputer=imputer,
        )

    @property
    def num_features(self) -> int:
        """The number of output columns: the raw ones, the logarithms, the marks of zeros, and those of missing
        numbers."""
        return len(self.mean) + len(self.log_columns) + len(self.zero_columns) + len(self.imputer.marked)

    @property
    def constant_columns(self) -> tuple[int, ...]:
        """Columns, counted from 0, that have one value in all training rows."""
        return tuple(column for column, std in enumerate(self.std) if std == 0)

    def names_if_read(self, names: Sequence[str]) -> list[str]:
        """The names of the first columns; empty for those that have one value whatever is given, or missing."""
        ignored = {*self.constant_columns} - {*self.imputer.marked}
        return ["" if column in ignored else name for column, name in enumerate(names)]

    @property
    def imputes(self) -> bool:
        """Whether numbers that are missing are filled."""
        return bool(self.imputer.median)

    def without_imputing(self) -> "ColumnScaler":
        """The same scale, which fills no numbers."""
        return replace(self, imputer=Imputer())

    def transform(self, values: Float[np.ndarray, " row condition"]) -> Float[np.ndarray, " row feature"]:
        """Raw columns, then logarithms, all scaled and bounded, then the marks of zeros and of missing numbers."""
        marks, values = self.imputer.marks(values), self.imputer.fill(values)
        std = np.array(self.std)
        raw = np.where(std > 0, (values - np.array(self.mean)) / np.where(std > 0, std, 1.0), 0.0)
        raw[:, list(self.ones)] = 1.0
        picked = np.maximum(values[:, list(self.log_columns)], np.array(self.log_smallest))
        logs = (np.log(picked) - np.array(self.log_mean)) / np.array(self.log_std)
        is_zero = values[:, list(self.zero_columns)] <= 0
        return np.clip(np.concatenate([raw, logs, is_zero, marks], axis=1), -CONDITION_LIMIT, CONDITION_LIMIT)

    def note(self, names: Sequence[str]) -> str:
        """The transformation of each column that varies, in one line; empty without any."""
        descriptions = []
        for index, name in enumerate(names):
            if self.std[index] == 0:
                continue
            if index in self.zero_columns:
                least = self.log_smallest[self.log_columns.index(index)]
                descriptions.append(f"{name} and its logarithm, where zeros count as {least:g} and are marked")
            else:
                descriptions.append(f"{name} and its logarithm" if index in self.log_columns else name)
        return "; ".join(descriptions)


def _require_alike(name: str, *columns: Sequence[float]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise DataError(f"{name}: its columns have {', '.join(str(len(column)) for column in columns)} numbers.")


def _rows_of(values: NDArray[np.floating], rows: Rows) -> NDArray[np.float64]:
    chosen = copied_rows(np.asarray(values, dtype=np.float64), np.asarray(rows, dtype=np.int64))
    if len(chosen) == 0:
        raise DataError("The scaler needs at least one training row.")
    return chosen


def _moments(
    used: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The mean and the standard deviation of each column without its missing numbers, rows counting by weight."""
    if weights is None or not np.ptp(weights):
        return np.nanmean(used, axis=0), np.nanstd(used, axis=0)
    shares = np.where(np.isnan(used), 0.0, weights[:, None])
    shares = shares / shares.sum(axis=0)
    mean = np.nansum(used * shares, axis=0)
    return mean, np.sqrt(np.nansum((used - mean) ** 2 * shares, axis=0))


def _num_unusual(used: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of rows of each column that differ from its most common value."""
    return np.array([len(column) - np.unique(column, return_counts=True)[1].max() for column in used.T])


def _varies(used: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a column has two different values; its computed deviation may miss zero by rounding."""
    return np.fmax.reduce(used, axis=0) > np.fmin.reduce(used, axis=0)


def _floats(values: NDArray[np.floating]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
