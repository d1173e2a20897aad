"""Series on a graph: a table whose columns are nodes and whose rows are times, and windows of it to learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64

from edgewise.choices import Gaps
from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.batches.series import SeriesBatch
from edgewise.learn.readers.graphs.clock import Clock, Timed, in_time, is_counter
from edgewise.learn.readers.graphs.edges import EdgeList, read_edges
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.times import is_time
from edgewise.learn.tables.cell import is_missing, parse_columns
from edgewise.learn.tables.read import check_columns_exist, read_cells
from edgewise.neighborhood import Edges


@dataclass(frozen=True, eq=False)
class Series:
    """The values of the nodes, step by step."""

    source: str
    """The file."""
    names: tuple[str, ...]
    """The columns that are nodes."""
    values: Float64[np.ndarray, " time node"]
    """NaN where a cell is empty."""
    times: tuple[str, ...]
    """The names of the steps: the cells of the time column, or their numbers."""
    edges: EdgeList
    """The edges between the nodes."""
    clock: Clock | None = None
    """Names further steps by a time column; None without one."""
    notes: tuple[str, ...] = ()
    """Notes about repeated and missing times, one line each."""
    interpolated: Bool[np.ndarray, " time"] | None = None
    """Which steps no row has, and lie on straight lines between those around them; None where there are none."""

    @cached_property
    def measured(self) -> Float64[np.ndarray, " time node"]:
        """The values, NaN also where they are interpolated: what can be learned, and what predictions are scored by."""
        return self.values if self.interpolated is None else np.where(self.interpolated[:, None], np.nan, self.values)

    @cached_property
    def known_from(self) -> Int64[np.ndarray, " time node"] | None:
        """The step from which on each value is known: its own, or that of the next measured value where it is
        interpolated, as a straight line needs both ends. None where no step is interpolated."""
        if self.interpolated is None:
            return None
        steps = np.arange(len(self.values))[:, None]
        measured = np.where(np.isnan(self.measured), len(steps), steps)
        following = np.minimum.accumulate(measured[::-1])[::-1]
        # Behind the last measured value that one is repeated, which is known already.
        return np.where(self.interpolated[:, None] & (following < len(steps)), following, steps)

    def in_time(self, timed: Timed) -> "Series":
        """The same series in the order of its times, as `clock.in_time` makes it."""
        return replace(
            self, values=timed.values, times=timed.times, clock=timed.clock, notes=timed.notes,
            interpolated=timed.interpolated,
        )  # fmt: skip

    def cell_name(self, time: int, node: int) -> str:
        """The name of a number in messages."""
        return f"{self.source}, time {self.times[time]}, column {self.names[node]!r}"

    @property
    def num_missing(self) -> int:
        """Cells without a number."""
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of a series: `context` steps of input, and `horizon` steps to predict."""

    series: Float32[np.ndarray, " time node"]
    """The values in model units; NaN where missing."""
    starts: Int64[np.ndarray, " row"]
    """The first step of each stretch."""
    context: int
    """Steps that are read."""
    horizon: int
    """Steps that are predicted."""
    are_known: bool
    """Whether the series contains the predicted steps, so that a model can learn from them."""
    period: int | None
    """The period of the series, in steps."""
    edges: Edges
    """The edges along which messages are passed."""
    first_step: int = 0
    """The step of the training that the first of the series is, from which the period counts."""
    measured: Float32[np.ndarray, " time node"] | None = None
    """The series without interpolated values, which are not targets; None where there are none."""
    known_from: Int64[np.ndarray, " time node"] | None = None
    """As in `Series`."""

    def batch(self, rows: np.ndarray) -> SeriesBatch:
        """A batch of windows; missing values are filled with the last known one, or with the mean."""
        starts = self.starts[rows]
        read = forward_filled(contexts(self.series, starts, self.context, self.known_from))
        steps = starts[:, None] + np.arange(self.context + self.horizon)
        phases = (
            np.zeros(steps.shape) if self.period is None else ((steps + self.first_step) % self.period) / self.period
        )
        targets = None
        if self.are_known:
            target_steps = starts[:, None] + self.context + np.arange(self.horizon)
            measured = self.series if self.measured is None else self.measured
            targets = torch.from_numpy(measured[target_steps].reshape(len(rows), -1))
        return SeriesBatch(
            torch.from_numpy(read), torch.from_numpy(phases.astype(np.float32)), self.edges, targets=targets
        )


def contexts(
    values: Float[np.ndarray, " time node"],
    starts: Int64[np.ndarray, " row"],
    context: int,
    known_from: Int64[np.ndarray, " time node"] | None = None,
) -> Float[np.ndarray, " row context node"]:
    """The steps that windows read, NaN where nothing is known at the last of them.

    An interpolated value leans on the next measured one: behind the end of a window that is what is to be predicted.

    Args:
        values: of all steps.
        starts: the first step of each window.
        context: how many steps are read.
        known_from: as in `Series`.
    """
    steps = starts[:, None] + np.arange(context)
    read = values[steps]
    if known_from is not None:
        read[known_from[steps] > steps[:, -1:, None]] = np.nan
    return read


def forward_filled(values: Float[np.ndarray, " row time node"]) -> Float[np.ndarray, " row time node"]:
    """The values with each gap filled by the last known value before it, or 0, the mean."""
    filled = values.copy()
    filled[:, 0] = np.where(np.isnan(filled[:, 0]), 0, filled[:, 0])
    for step in range(1, filled.shape[1]):
        filled[:, step] = np.where(np.isnan(filled[:, step]), filled[:, step - 1], filled[:, step])
    return filled


def read_series(
    path: str,
    edges: str | None,
    *,
    time_column: str | None,
    edge_columns: tuple[str, ...],
    is_directed: bool,
    gaps: Gaps = "error",
    strict: bool = False,
    order: Sequence[str] = (),
    ends_are_of_training: bool = False,
) -> Series:
    """Read a series, and the edges between its columns.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet: a row a step, a column a node.
        edges: the table of edges, which names columns; None where nodes are alone.
        time_column: numbers or dates, by which rows are sorted; no node.
        edge_columns: sender and receiver; by default as `ends_of` guesses.
        is_directed: whether edges are one way.
        gaps: what happens to missing and repeated times, as `in_time` has it.
        strict: stop at the first edge that cannot be read.
        order: the nodes of a trained model, whose order is taken where the file has the same columns in another one.
        ends_are_of_training: whether `edge_columns` are those of the training, as in `read_edges`.

    Raises:
        DataError: a file cannot be used, a cell is not a number, times are not evenly spaced, or no edge joins two
            columns.
    """
    cells = read_cells(path)
    check_columns_exist(cells, () if time_column is None else (time_column,))
    names = tuple(name for name in cells.frame.columns if name != time_column)
    names = tuple(order) if sorted(names) == sorted(order) else names

    values, bad_cells = parse_columns([cells.frame[name] for name in names], np.float64)
    for name, bad in zip(names, bad_cells, strict=True):
        for row, (cell, reason) in bad.items():
            if not is_missing(cell):
                where = f"{path}, line {cells.lines[row]}, column {name!r}"
                remedy = "leave the cell empty if nothing is known"
                if time_column is None and is_time(cell):
                    remedy = f"if these are the times: --time-column {name}"
                raise DataError(f"{where}: {reason}; {remedy}.")

    listed = EdgeList(*(np.zeros(0, dtype=np.int64),) * 2, np.zeros((0, 0), dtype=np.float32))
    if edges is not None:
        node_names = NodeNames(names)
        listed = read_edges(
            edges,
            node_names,
            f"the columns of {path}",
            edge_columns=edge_columns,
            strict=strict,
            ends_are_of_training=ends_are_of_training,
        )
        listed = listed if is_directed else listed.both_ways(len(names))

    counting = [name for name, column in zip(names, values.T, strict=True) if is_counter(column)]
    notes = [
        f"{name!r} grows by equal steps and is a node; if these are the times: --time-column {name}"
        for name in counting[:1]
        if time_column is None and len(names) > 1
    ]
    series = Series(path, names, values, tuple(map(str, range(len(values)))), listed, notes=tuple(notes))
    if time_column is None:
        return series

    stamps = [str(cell) for cell in cells.frame[time_column]]
    return series.in_time(in_time(stamps, values, [*map(int, cells.lines)], gaps, f"{path}, column {time_column!r}"))


def split_series(
    series: Series, context: int, horizon: int, sizes: tuple[float, ...]
) -> dict[str, Int64[np.ndarray, " _"]]:
    """Where the windows of each split start: the series cut by time, and no window over a cut.

    Raises:
        SettingError: a split that must have windows is shorter than one.
    """
    length, num_times = context + horizon, len(series.values)
    bounds = np.rint(np.concatenate([[0], np.cumsum(sizes)[:2], [1]]) * num_times).astype(int)
    starts = {}
    for split, size, first, stop in zip(("train", "val", "test"), sizes, bounds[:-1], bounds[1:], strict=True):
        if size > 0 and stop - first < length:
            raise SettingError(
                f"{series.source} has {plural(num_times, 'step')}, {stop - first} of them for {split}, "
                "fewer than --context + "
                f"--horizon = {length}; give a longer series, or a smaller --context."
            )
        starts[split] = np.arange(first, max(first, stop - length + 1))

    return starts
