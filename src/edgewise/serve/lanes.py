"""Where a model computes: in a thread of this process, or in a process of its own that can be killed."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from edgewise.errors import DataError, EdgewiseError, SettingError
from edgewise.explain.explanation import Explanation, TargetPrediction
from edgewise.learn.process import Process
from edgewise.learn.readers.molecules.limits import SlowMoleculeError

Row = dict[str, Any]
"""The cells of a row, by column name."""


class Predicted(NamedTuple):
    """The predictions of a row."""

    predictions: tuple[TargetPrediction, ...]
    """Its predictions."""
    status: str
    """As in `ServedModel.statuses`."""


Outcome = Predicted | EdgewiseError
"""The predictions of a row, or why there are none."""
QuickOutcome = Outcome | None
"""The same, or None for a row that may take long and was skipped."""
CLIENT_ERRORS = (DataError, SettingError)
"""Errors of the request; all others are errors of the server."""
BATCH_CHARACTERS = 2**16
"""The most characters of rows that are predicted in one call."""


class ServedModel(Protocol):
    """The model that is served: it predicts and explains rows."""

    @property
    def kind(self) -> str:
        """`text`, `molecule` or `graph`."""
        ...

    @property
    def fields(self) -> Sequence[dict[str, Any]]:
        """The cells of a row: `name` and `type` of each (`text`, `smiles`, `number`, `node`)."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the model, without paths."""
        ...

    @property
    def quick(self) -> "ServedModel":
        """The same model, which raises SlowMoleculeError for a row that may take long."""
        ...

    def predict(self, rows: list[Row]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions of each row; raises DataError for one that cannot be read."""
        ...

    def statuses(self, rows: list[Row]) -> list[str]:
        """For each row that `predict` takes, `ok`, or in words what its prediction lacks."""
        ...

    def unread(self, row: Row) -> str:
        """In words, what is cut off before the model reads a row; raises DataError if it cannot be read."""
        ...

    def explain(
        self, row: Row, *, target: str | None = None, label: str | None = None, top: int | None = None
    ) -> Explanation:
        """The explanation of a row; raises DataError if it cannot be explained."""
        ...


Job = Callable[[ServedModel], Any]
"""A function of a model; for another process it must be picklable."""


class Lane(Protocol):
    """Runs one job after another."""

    restart_seconds: float
    """How long a restart takes after a kill: a job whose clients have gone may run as long before it is killed."""

    def start(self) -> None:
        """Gets ready to run jobs."""
        ...

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job; raises TimeoutError where it took longer and was killed."""
        ...

    def kill(self) -> None:
        """Kills the running job, if possible."""
        ...

    def close(self) -> None:
        """Shuts down."""
        ...


class ThreadLane:
    """Runs jobs in this process, where a job cannot be killed and delays those after it."""

    restart_seconds = 0.0

    def __init__(self, explainer: ServedModel):
        self.explainer = explainer

    def start(self) -> None:
        """Does nothing: the model is already loaded."""

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job, however long it takes."""
        return job(self.explainer)

    def kill(self) -> None:
        """Does nothing: a thread cannot be killed."""

    def close(self) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class Description:
    """Describes a model that is in other processes."""

    kind: str
    """As in `ServedModel`, like the other fields."""
    fields: Sequence[dict[str, Any]]
    facts: dict[str, Any]


class ProcessLane:
    """Runs jobs in a separate process, which is killed at the time limit and started again.

    Args:
        open_model: Opens the model in the new process, such as `partial(Explainer.open, "run")`.
        prepare: Called there with the model before the first job, to compile kernels that compile on first use.
    """

    def __init__(self, open_model: Callable[[], ServedModel], prepare: Job | None = None):
        self._process = Process(job_runner, open_model, prepare)
        self.restart_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return self._process.pid

    def describe(self) -> Description:
        """The description of the model."""
        return self._process.call(describe, timeout=60)

    def start(self) -> None:
        """Starts the process and opens the model; raises the error if that fails."""
        began = time.monotonic()
        self._process.start()
        self.restart_seconds = max(self.restart_seconds, time.monotonic() - began)

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job; raises TimeoutError if it took longer and was killed."""
        return self._process.call(job, timeout=seconds)

    def kill(self) -> None:
        """Kills the process; the next job starts another."""
        self._process.kill()

    def close(self) -> None:
        """Kills the process for good."""
        self._process.close()


def job_runner(open_model: Callable[[], ServedModel], prepare: Job | None) -> Callable[[Job], Any]:
    """Opens the model once, and returns a function that runs a job with it."""
    explainer = open_model()
    if prepare is not None:
        prepare(explainer)
    return lambda job: job(explainer)


def describe(explainer: ServedModel) -> Description:
    """The description of a model."""
    return Description(explainer.kind, list(explainer.fields), explainer.facts)


def predict_quickly(explainer: ServedModel, rows: list[Row]) -> list[QuickOutcome]:
    """Like `predict_or_reason`, but molecules that may take long are skipped."""
    return _in_batches(explainer.quick, rows)


def predict_or_reason(explainer: ServedModel, rows: list[Row]) -> list[Outcome]:
    """The predictions of each row, or the error.

    Cost: one call for each 65,536 characters, so that memory stays bounded; about 2 log₂(rows) calls more for each row
        that cannot be read.
    """
    return [outcome for outcome in _in_batches(explainer, rows) if outcome is not None]


def _in_batches(explainer: ServedModel, rows: list[Row]) -> list[QuickOutcome]:
    starts, size = [0], 0
    for row_number, row in enumerate(rows):
        num_characters = characters(row)
        if size + num_characters > BATCH_CHARACTERS and row_number > starts[-1]:
            starts.append(row_number)
            size = 0
        size += num_characters
    return [
        outcome
        for first, last in pairwise([*starts, len(rows)])
        for outcome in _predict_by_halves(explainer, rows[first:last])
    ]


def characters(row: Row) -> int:
    """The number of characters in the cells of a row."""
    return sum(len(cell) for cell in row.values() if isinstance(cell, str))


def explained(explainer: ServedModel, row: Row, options: dict[str, Any], form: str) -> Any:
    """The explanation of a row, in one of `FORMS`; raises DataError if the model reads only part of the row."""
    _check_length(explainer, row)
    return FORMS[form](explainer.explain(row, **options))


def _as_json(explanation: Explanation) -> bytes:
    return json.dumps(explanation.to_json(), allow_nan=False).encode()


def _as_page(explanation: Explanation) -> str:
    from edgewise.view.explanation import explanation_page

    return explanation_page([explanation])


def _as_picture(explanation: Explanation) -> str:
    from edgewise.view.picture import explanation_svg

    return explanation_svg(explanation)


FORMS: dict[str, Callable[[Explanation], Any]] = {"json": _as_json, "page": _as_page, "picture": _as_picture}
"""The forms of an explanation, made in the process of the model."""


def _check_length(explainer: ServedModel, row: Row) -> None:
    """Raise DataError for a row that is longer than the model reads: the answer would be about its beginning only."""
    if unread := explainer.unread(row):
        raise DataError(f"the row is too long: {unread}.")


def _predict_by_halves(explainer: ServedModel, rows: list[Row]) -> list[QuickOutcome]:
    """Predicts rows; a batch that fails is halved until each row that cannot be read is alone."""
    try:
        for row in rows:
            _check_length(explainer, row)
        return [Predicted(*result) for result in zip(explainer.predict(rows), explainer.statuses(rows), strict=True)]
    except CLIENT_ERRORS as error:
        if len(rows) == 1:
            return [error]
    except SlowMoleculeError:
        if len(rows) == 1:
            return [None]
    middle = len(rows) // 2
    return _predict_by_halves(explainer, rows[:middle]) + _predict_by_halves(explainer, rows[middle:])
