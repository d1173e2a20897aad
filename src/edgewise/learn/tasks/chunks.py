"""Predictions of a table in chunks of rows, so that a file of any size takes the memory of one chunk.

read a chunk of the table        `edgewise.learn.tables.read.TableChunks`
predict it                       `ChunkPredictor`, a trained model that other processes can make for themselves
count over all chunks            `Tally`
"""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from edgewise.errors import plural
from edgewise.learn.engine.chunks import map_chunks
from edgewise.learn.engine.workers import Workers
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.progress import monitored, note, stage
from edgewise.learn.readers.graphs.lost import EDGES, FEATURES, REASONS, num_lacking
from edgewise.learn.tables.impute import FILLED
from edgewise.learn.tables.options import current_format, current_limits, read_limits, table_format
from edgewise.learn.tables.read import CHUNK_ROWS, Cells, TableChunks
from edgewise.learn.tables.rows import Data
from edgewise.learn.tasks.prediction_columns import prediction_columns, with_columns
from edgewise.learn.tasks.task import PredictRequest, RowTask, Written
from edgewise.learn.tasks.vocabulary import coverage_note, cut_note
from edgewise.learn.training.device import pick_device

if TYPE_CHECKING:
    from pandas import DataFrame

    from edgewise.learn.readers.molecules.conformer import How


Trained = TypeVar("Trained", bound=FittedTable)
Read = TypeVar("Read", bound=Data)


@dataclass
class Tally:
    """What is counted of the rows of a table; tallies of chunks add up to that of the table."""

    num_rows: int = 0
    """Rows that were read."""
    num_predicted: int = 0
    """Those that have a prediction."""
    num_doubtful: int = 0
    """Those of them whose status says why not to rely on it."""
    num_missing_edges: int = 0
    """Those near an edge that cannot be read, whose prediction lacks it."""
    num_near_unread: int = 0
    """Those near a node whose features cannot be read."""
    num_filled: int = 0
    """Those that lack numbers, which were filled."""
    num_cut: int = 0
    """Texts that are longer than the model reads."""
    context: int = 0
    """Tokens of a text that the model reads."""
    num_tokens: int = 0
    """Tokens of all texts."""
    num_unknown: int = 0
    """Those that are out of vocabulary."""
    conformers: "dict[str, tuple[How, str]]" = field(default_factory=dict)
    """Molecules whose conformer was not found at once, by their canonical SMILES: how it was, and as it is written."""

    @classmethod
    def of(cls, statuses: Sequence[str], read: Sequence[str], num_predicted: int, *, counts_doubts: bool) -> "Tally":
        """What the status of each row says.

        Args:
            statuses: of all rows.
            read: what was known of them when they were read.
            num_predicted: those that have a prediction.
            counts_doubts: whether a status may say why not to rely on a prediction.
        """
        num_missing_edges, num_near_unread = (num_lacking(statuses, what) for what in REASONS)
        doubtful = 0
        if counts_doubts and not num_missing_edges and not num_near_unread:
            pairs = zip(statuses, read, strict=True)
            doubtful = sum(status != before and (FILLED not in status or "; " in status) for status, before in pairs)
        num_filled = sum(FILLED in status for status in statuses)
        return cls(len(statuses), num_predicted, doubtful, num_missing_edges, num_near_unread, num_filled)

    def __add__(self, other: "Tally") -> "Tally":
        """Both together; of a molecule that is in both, the first writing counts."""
        names = [field.name for field in fields(self) if field.name.startswith("num_")]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        conformers = {**self.conformers, **other.conformers, **self.conformers}
        return Tally(**sums, context=max(self.context, other.context), conformers=conformers)

    @property
    def summary(self) -> str:
        """How many rows were predicted, in words."""
        summary = f"{self.num_predicted:,} of {plural(self.num_rows, 'row')} predicted"
        if self.num_doubtful:
            summary += f", {self.num_doubtful:,} of them from unknown words alone"
        if self.num_missing_edges:
            summary += f", {self.num_missing_edges:,} of them {REASONS[EDGES]}"
        if self.num_near_unread:
            summary += f", {self.num_near_unread:,} of them {REASONS[FEATURES]}"
        if self.num_filled:
            summary += f", {self.num_filled:,} of them with missing numbers {FILLED}"
        return summary + unpredicted(self.num_rows - self.num_predicted)

    @property
    def notes(self) -> list[str]:
        """What else should be known of the rows, a line each."""
        lines = []
        if self.conformers:
            from edgewise.learn.readers.molecules.conformer import conformer_note

            lines.append(f"conformers: {conformer_note(*zip(*self.conformers.values(), strict=True))}")
        if self.num_cut:
            lines.append(cut_note(self.num_cut, str(self.context)))
        if warning := coverage_note(self.num_unknown, self.num_tokens):
            lines.append(warning)
        return lines


@dataclass(frozen=True)
class PredictedChunk:
    """Some rows of a table with their predictions."""

    frame: "DataFrame"
    """The cells of the rows."""
    added: Mapping[str, np.ndarray | Sequence[object]]
    """The columns that predictions add to them."""
    tally: Tally
    """What is counted of them."""

    def content(self, source: str, suffix: str, *, with_header: bool = True) -> "DataFrame | str":
        """What is written of them: a DataFrame for .parquet, else CSV rows.

        Raises:
            DataError: the table has a column of such a name.
        """
        return with_columns(self.frame, self.added, source, suffix, with_header=with_header)


class CutCells:
    """Rows that are in memory, in chunks, as `TableChunks` gives those of a file."""

    def __init__(self, cells: Cells, rows: int = CHUNK_ROWS):
        self.cells, self.rows, self.num_rows = cells, rows, len(cells.lines)

    def whole(self) -> Cells:
        """All rows at once."""
        return self.cells

    def __iter__(self) -> Iterator[Cells]:
        return (self.cells.part(start, start + self.rows) for start in range(0, self.num_rows, self.rows))


class ChunkPredictor:
    """A trained model that predicts chunks of a table, each by itself.

    It reads the run folder where it is made: a process that predicts chunks for others makes its own from the
    `PredictRequest`, which travels by pickle as chunks and predictions do.

    Args:
        task: the task of the run.
        request: the run, the columns, and where to compute.

    Raises:
        RunFolderError: the run cannot be read.
        SettingError: an option does not fit the run.
    """

    def __init__(self, task: RowTask, request: PredictRequest):
        self.task, self.request = task, request
        self.trained, self.columns = task.opened(request)
        self.trained.check_coverage(request["coverage"])
        self.trained.threads = request.threads

    def predict(self, cells: Cells) -> PredictedChunk:
        """Each row of a chunk with its prediction, or with the reason why it has none, in order.

        Raises:
            DataError: the chunk lacks a column; or a row cannot be used, and the request is strict.
        """
        data = self.task.from_cells(self.trained, self.columns, cells, strict=self.request.strict)
        return predict_rows(self.trained, data, self.request, self.task.tally(self.trained, data))


def predict_rows(trained: FittedTable, data: Data, request: PredictRequest, tally: Tally = Tally()) -> PredictedChunk:
    """The rows of a table with their predictions; those that cannot be used keep their place.

    Args:
        trained: the ensemble.
        data: as it reads it.
        request: the coverage of intervals, and where to compute.
        tally: what was counted of the table when it was read.
    """
    rows = np.flatnonzero(data.rows.usable)
    similarities = trained.similarities(data, rows)
    device = pick_device(request.device)
    predictions = trained.predict(
        data, rows=rows, coverage=request["coverage"], device=device, similarities=similarities
    )
    statuses = trained.statuses(data)
    added = {
        **prediction_columns(trained, predictions, show_parts=bool(request["show_parts"])),
        **trained.more_columns(data, rows, similarities),
        "status": statuses,
    }
    return PredictedChunk(
        data.rows.cells.as_written,
        added,
        # Molecules that are doubtful have a note of their own, by how they were placed.
        tally + Tally.of(statuses, data.rows.status, len(rows), counts_doubts=not tally.conformers),
    )


def read_rows(task: RowTask[Trained, Read], request: PredictRequest) -> tuple[Trained, Read]:
    """The trained ensemble and the whole table, with the notes of it."""
    trained, columns = task.opened(request)
    data = task.from_cells(trained, columns, task.chunks(request, columns).whole(), strict=request.strict)
    for line in task.tally(trained, data).notes:
        note(line)
    return trained, data


def predictions(
    task: RowTask, request: PredictRequest, suffix: str, workers: Workers | None = None
) -> Generator[tuple[Written, str]]:
    """What to write to the output file, chunk after chunk, and the summary up to there; notes come at the end."""
    predictor, tally = ChunkPredictor(task, request), Tally()
    chunks = task.chunks(request, predictor.columns)
    parts = predicted(predictor, chunks) if workers is None else predicted_by(workers, predictor)
    with stage(f"predicting {request.data}", chunks.num_rows) as current, contextlib.closing(parts):
        for chunk in parts:
            content = chunk.content(request.data, suffix, with_header=not tally.num_rows)
            tally += chunk.tally
            yield content, tally.summary
            current.done = tally.num_rows
    for line in tally.notes:
        note(line)
    note_empty_intervals(predictor.trained, request)


def note_empty_intervals(trained: FittedTable, request: PredictRequest) -> None:
    """Says why intervals stay empty, where they do."""
    if line := trained.interval_note(request["coverage"]):
        note(f"warning: {line}")


def predicted(predictor: ChunkPredictor, chunks: TableChunks | CutCells) -> Generator[PredictedChunk]:
    """The chunks of a table with their predictions."""
    is_one = chunks.num_rows is not None and chunks.num_rows <= chunks.rows
    for cells in chunks:
        # Where there are many, the stages of each would come and go.
        with contextlib.nullcontext() if is_one else monitored(None):
            chunk = predictor.predict(cells)
        yield chunk


def predicted_by(workers: Workers, predictor: ChunkPredictor) -> Generator[PredictedChunk]:
    """The same by workers of an engine, who read the table and the run themselves."""
    task, request, columns = predictor.task, predictor.request, predictor.columns
    limits, form = vars(current_limits()), current_format()

    def read() -> Iterator[Cells]:
        with read_limits(**limits), table_format(form):
            yield from task.chunks(request, columns)

    def make() -> Callable[[Cells], PredictedChunk]:
        predictor = ChunkPredictor(task, request)

        def work(cells: Cells) -> PredictedChunk:
            with read_limits(**limits), table_format(form), monitored(None):
                return predictor.predict(cells)

        return work

    return map_chunks(workers, read, make, f"predicting {request.data}")


def unpredicted(count: int) -> str:
    """The end of a summary that counts the rows without a prediction."""
    said = plural(count, "could not be, and says", "could not be, and say")
    return f"; {said} why in the column 'status'" if count else ""
