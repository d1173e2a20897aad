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
from edgewise.learn.readers.molecules.limits import SlowMoleculeError, at_once

Row = dict[str, Any]
"""The cells of a row by the names of their columns."""


class Predicted(NamedTuple):
    """The predictions of a row."""

    predictions: tuple[TargetPrediction, ...]
    """Its predictions."""
    status: str
    """As in `Explains.statuses`."""


Outcome = Predicted | EdgewiseError
"""The predictions of a row, or why there are none."""
QuickOutcome = Outcome | None
"""The same, or None for a row that may take long and was left alone."""
READING = (DataError, SettingError)
"""The errors that are the client's: all others are ours."""
CHARACTERS = 2**16
"""Of rows that are predicted at once."""


class Explains(Protocol):
    """What is served: a trained model that predicts and explains rows."""

    @property
    def kind(self) -> str:
        """`text`, `molecule` or `graph`."""
        ...

    @property
    def fields(self) -> Sequence[dict[str, Any]]:
        """What a row consists of: `name` and `type` of each cell (`text`, `smiles`, `number`, `node`)."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What there is to know of the model; no path."""
        ...

    def predict(self, rows: list[Row]) -> list[tuple[TargetPrediction, ...]]:
        """The predictions of each row; raises DataError for one that cannot be read."""
        ...

    def statuses(self, rows: list[Row]) -> list[str]:
        """For each row that `predict` takes, `ok`, or what its prediction lacks, in words."""
        ...

    def unread(self, row: Row) -> str:
        """What of a row is cut off before the model reads it, in words; raises DataError where it cannot be read."""
        ...

    def explain(
        self, row: Row, *, target: str | None = None, label: str | None = None, top: int | None = None
    ) -> Explanation:
        """A row explained; raises DataError where it cannot be."""
        ...


Job = Callable[[Explains], Any]
"""What is computed with a model; for another process it must travel by pickle."""


class Lane(Protocol):
    """A place where one job after another is computed."""

    restart_seconds: float
    """How long a new start takes after a kill: a job that nobody waits for may run as long before it is killed."""

    def start(self) -> None:
        """Makes ready, where it is not."""
        ...

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job; raises TimeoutError where it took longer and was killed."""
        ...

    def kill(self) -> None:
        """Ends the running job, where that is possible."""
        ...

    def close(self) -> None:
        """Ends for good."""
        ...


class ThreadLane:
    """Computes in this process: a job cannot be killed here, and holds up what comes after it."""

    restart_seconds = 0.0

    def __init__(self, explainer: Explains):
        self.explainer = explainer

    def start(self) -> None:
        """The model is here already."""

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job, however long it takes."""
        return job(self.explainer)

    def kill(self) -> None:
        """Does nothing: a thread goes on."""

    def close(self) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class Description:
    """The facts about a model; the model itself is in other processes."""

    kind: str
    """As in `Explains`, as are the others."""
    fields: Sequence[dict[str, Any]]
    facts: dict[str, Any]


class ProcessLane:
    """Computes in a process of its own, which is killed at the time limit and started again.

    Args:
        open_model: Gives the model in the new process, such as `partial(Explainer.open, "run")`.
        prepare: Is called there with the model before the first job, to compile what compiles at first use.
    """

    def __init__(self, open_model: Callable[[], Explains], prepare: Job | None = None):
        self._process = Process(maker_of_answers, open_model, prepare)
        self.restart_seconds = 0.0

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    def describe(self) -> Description:
        """What there is to know of the model."""
        return self._process.call(described, seconds=60)

    def start(self) -> None:
        """Starts the process and opens the model; raises what goes wrong with that."""
        began = time.monotonic()
        self._process.start()
        self.restart_seconds = max(self.restart_seconds, time.monotonic() - began)

    def run(self, job: Job, seconds: float) -> Any:
        """The result of a job."""
        return self._process.call(job, seconds=seconds)

    def kill(self) -> None:
        """Kills the process; the next job starts another."""
        self._process.kill()

    def close(self) -> None:
        """Kills the process for good."""
        self._process.close()


def maker_of_answers(open_model: Callable[[], Explains], prepare: Job | None) -> Callable[[Job], Any]:
    """What a process computes for each job, with a model that it opens once."""
    explainer = open_model()
    if prepare is not None:
        prepare(explainer)
    return lambda job: job(explainer)


def described(explainer: Explains) -> Description:
    """What there is to know of a model."""
    return Description(explainer.kind, list(explainer.fields), explainer.facts)


def predict_quickly(explainer: Explains, rows: list[Row]) -> list[QuickOutcome]:
    """As `predict_or_reason`, but a molecule that may take long is left alone."""
    with at_once():
        return _in_parts(explainer, rows)


def predict_or_reason(explainer: Explains, rows: list[Row]) -> list[Outcome]:
    """The predictions of each row, or why there are none.

    Cost: one call for rows of up to 65,536 characters together, so that memory stays bounded; about 2 log₂(rows) more
        for each row that cannot be read.
    """
    return [each for each in _in_parts(explainer, rows) if each is not None]


def _in_parts(explainer: Explains, rows: list[Row]) -> list[QuickOutcome]:
    cuts, size = [0], 0
    for place, row in enumerate(rows):
        own = characters(row)
        if size + own > CHARACTERS and place > cuts[-1]:
            cuts.append(place)
            size = 0
        size += own
    return [each for first, last in pairwise([*cuts, len(rows)]) for each in _halved(explainer, rows[first:last])]


def characters(row: Row) -> int:
    """How many characters the cells of a row have."""
    return sum(len(cell) for cell in row.values() if isinstance(cell, str))


def explained(explainer: Explains, row: Row, chosen: dict[str, Any], form: str) -> Any:
    """A row explained, in one of `FORMS`; raises DataError where the model reads only a part of it."""
    _check_length(explainer, row)
    return FORMS[form](explainer.explain(row, **chosen))


def _as_json(explanation: Explanation) -> bytes:
    return json.dumps(explanation.to_json(), allow_nan=False).encode()


def _as_page(explanation: Explanation) -> str:
    from edgewise.view.explanation import explanation_page

    return explanation_page([explanation])


def _as_picture(explanation: Explanation) -> str:
    from edgewise.view.picture import explanation_svg

    return explanation_svg(explanation)


FORMS: dict[str, Callable[[Explanation], Any]] = {"json": _as_json, "page": _as_page, "picture": _as_picture}
"""What an explanation is made into, where the model is."""


def _check_length(explainer: Explains, row: Row) -> None:
    """Raise DataError for a row that is longer than the model reads: an answer would be one about its beginning."""
    if unread := explainer.unread(row):
        raise DataError(f"the row is too long: {unread}.")


def _halved(explainer: Explains, rows: list[Row]) -> list[QuickOutcome]:
    """The same, halved until what cannot be read is alone."""
    try:
        for row in rows:
            _check_length(explainer, row)
        return [Predicted(*each) for each in zip(explainer.predict(rows), explainer.statuses(rows), strict=True)]
    except READING as error:
        if len(rows) == 1:
            return [error]
    except SlowMoleculeError:
        if len(rows) == 1:
            return [None]
    middle = len(rows) // 2
    return _halved(explainer, rows[:middle]) + _halved(explainer, rows[middle:])
