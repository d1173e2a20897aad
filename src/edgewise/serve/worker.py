"""One model, one thread that computes with it, many requests that wait for their turn.

Rows of several requests are predicted together: while a batch is computed, the next one gathers. A row that cannot be
read is found by halving, and takes nobody along.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

from edgewise.errors import DataError, EdgewiseError, SettingError
from edgewise.explanation import Explanation, Told
from edgewise.serve.limits import Limits

Row = dict[str, Any]
"""The cells of a row by the names of their columns."""
Outcome = tuple[Told, ...] | EdgewiseError
"""What is told of a row, or why nothing can be."""
READING = (DataError, SettingError)
"""The errors that are the asker's: all others are ours."""
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

    def predict(self, rows: list[Row]) -> list[tuple[Told, ...]]:
        """What is told of each row; raises DataError for one that cannot be read."""
        ...

    def unread(self, row: Row) -> str:
        """What of a row is cut off before the model reads it, in words; raises DataError where it cannot be read."""
        ...

    def explain(
        self, row: Row, *, target: str | None = None, label: str | None = None, top: int | None = None
    ) -> Explanation:
        """A row explained; raises DataError where it cannot be."""
        ...


class BusyError(RuntimeError):
    """Too many rows wait already."""


@dataclass(eq=False)
class Task:
    """Something to be computed, and who waits for it."""

    answer: "asyncio.Future[Any]"
    """Where the answer goes; done already where nobody waits any longer."""
    rows: list[Row] | None = None
    """Rows to predict, maybe together with those of others."""
    call: Callable[[], Any] | None = None
    """What else there is to do, alone."""

    @property
    def size(self) -> int:
        """How many rows it counts for."""
        return 1 if self.rows is None else len(self.rows)


class Worker:
    """Answers requests, one computation at a time.

    A model is asked by one thread only, so that it needs no locks; the threads of its kernels are its own affair.

    Args:
        explainer: The model.
        limits: How many rows are gathered, how long, and how many may wait.
    """

    def __init__(self, explainer: Explains, limits: Limits):
        self.explainer, self.limits = explainer, limits
        self.num_batches = 0
        self._tasks: deque[Task] = deque()
        self._arrived, self._enough = asyncio.Event(), asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edgewise-model")
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to work; from within a running event loop."""
        self._loop = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Ends; what waits still is cancelled."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        for task in self._tasks:
            task.answer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def predict(self, rows: list[Row]) -> list[Outcome]:
        """What is told of each row, or why nothing is.

        Raises:
            BusyError: Too many rows wait already.
            TimeoutError: It takes too long.
        """
        return await self._answer(Task(asyncio.get_running_loop().create_future(), rows=rows))

    async def do(self, call: Callable[[], Any]) -> Any:
        """What `call` returns, computed in the thread of the model when its turn has come.

        Raises:
            BusyError: Too many rows wait already.
            TimeoutError: It takes too long.
        """
        return await self._answer(Task(asyncio.get_running_loop().create_future(), call=call))

    async def _answer(self, task: Task) -> Any:
        if self._num_waiting + task.size > max(self.limits.waiting, task.size):
            raise BusyError
        self._tasks.append(task)
        self._arrived.set()
        if self._num_waiting >= self.limits.batch_size:
            self._enough.set()
        return await asyncio.wait_for(task.answer, self.limits.seconds)

    @property
    def _num_waiting(self) -> int:
        return sum(task.size for task in self._tasks)

    async def _work(self) -> None:
        while True:
            await self._gather()
            tasks = self._next()
            if tasks and await self._compute(tasks) is not None and len(tasks) > 1:
                # Nobody knows whose row it was: each is tried alone, and only that one fails.
                for task in tasks:
                    await self._compute([task])

    async def _compute(self, tasks: list[Task]) -> BaseException | None:
        """Answers tasks; an error of the model is the answer to a single one, and returned where there are several."""
        rows = [row for task in tasks for row in task.rows or ()]
        call = tasks[0].call or partial(told_or_why, self.explainer, rows)
        self.num_batches += 1
        computed = asyncio.get_running_loop().run_in_executor(self._thread, call)
        # Asked for its error rather than awaited: what goes wrong with a request must not end the work.
        await asyncio.wait([computed])
        error = computed.exception()
        if error is None or len(tasks) == 1:
            _settle(tasks, computed, error)
        return error

    async def _gather(self) -> None:
        """Waits for a task, and then a little for others that can be computed with it."""
        await self._arrived.wait()
        if self.limits.batching and self.limits.batch_wait and not self._enough.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.batch_wait / 1000):
                    await self._enough.wait()

    def _next(self) -> list[Task]:
        """The task whose turn it is, and with it as many as fit into its batch."""
        # Who has given up waiting needs no answer.
        waiting = [task for task in self._tasks if not task.answer.done()]
        taken = waiting[:1]
        if taken and taken[0].rows is not None and self.limits.batching:
            size = taken[0].size
            for task in waiting[1:]:
                if task.rows is not None and size + task.size <= self.limits.batch_size:
                    taken.append(task)
                    size += task.size
        chosen = set(map(id, taken))
        self._tasks = deque(task for task in waiting if id(task) not in chosen)
        if not self._tasks:
            self._arrived.clear()
        if self._num_waiting < self.limits.batch_size:
            self._enough.clear()
        return taken


def told_or_why(explainer: Explains, rows: list[Row]) -> list[Outcome]:
    """What is told of each row, or why nothing can be.

    Cost: one call for rows of up to 65,536 characters together, so that memory stays bounded; about 2 log₂(rows) more
        for each row that cannot be read.
    """
    cuts, size = [0], 0
    for place, row in enumerate(rows):
        own = sum(len(cell) for cell in row.values() if isinstance(cell, str))
        if size + own > CHARACTERS and place > cuts[-1]:
            cuts.append(place)
            size = 0
        size += own
    return [each for first, last in pairwise([*cuts, len(rows)]) for each in _halved(explainer, rows[first:last])]


def explained(explainer: Explains, row: Row, chosen: dict[str, Any], finish: Callable[[Explanation], Any]) -> Any:
    """What `finish` makes of a row explained; raises DataError where the model reads only a part of it."""
    _check_length(explainer, row)
    return finish(explainer.explain(row, **chosen))


def _check_length(explainer: Explains, row: Row) -> None:
    """Raise DataError for a row that is longer than the model reads: an answer would be one about its beginning."""
    if unread := explainer.unread(row):
        raise DataError(f"the row is too long: {unread}.")


def _halved(explainer: Explains, rows: list[Row]) -> list[Outcome]:
    """The same, halved until what cannot be read is alone."""
    try:
        for row in rows:
            _check_length(explainer, row)
        return list(explainer.predict(rows))
    except READING as error:
        if len(rows) == 1:
            return [error]
    middle = len(rows) // 2
    return _halved(explainer, rows[:middle]) + _halved(explainer, rows[middle:])


def _settle(tasks: list[Task], computed: "asyncio.Future[Any]", error: BaseException | None) -> None:
    """Gives each task its part of what was computed, or the error."""
    begin = 0
    for task in tasks:
        end = begin + task.size
        if not task.answer.done():
            if error is not None:
                task.answer.set_exception(error)
            else:
                task.answer.set_result(computed.result() if task.rows is None else computed.result()[begin:end])
        begin = end
