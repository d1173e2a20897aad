"""A queue of requests, predicted in batches and computed in several lanes.

Clients take turns by the time that was spent on them, so that one client cannot starve the others. Quick rows are
predicted in batches; slow ones (long rows, explanations) are computed alone, and leave the first of several lanes free
for the quick ones. Work of clients that have gone is not started, and is killed if possible. Nor is work started that
would take longer than its client waits: it is refused, or under overload the oldest task, whose time is over, would
start, be killed, and let the others grow as old meanwhile.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgewise.learn.process import ProcessDiedError
from edgewise.serve.lanes import Job, Lane, Outcome, Row, characters, predict_or_reason, predict_quickly
from edgewise.serve.limits import Limits

SLOW_CHARACTERS = 400
"""A longer row is slow: a molecule of that many characters may take seconds, a text hundreds of times as long as a
short one."""
ROW_SECONDS = 0.001
"""What a row is charged before its time has been measured."""
_MAX_ACCOUNTS = 10_000
_START_SECONDS = 0.1
"""Seconds after which a starting lane counts as not ready."""
_NEWEST_SHARE = 0.2
"""The weight of the newest duration in a moving average."""
_NUM_DEVIATIONS = 4
"""Mean deviations beyond the mean that are allowed for, as TCP does for its timeouts."""
_LEAST_DEVIATION = 1 / 8
"""The least deviation, as a share of the mean."""
_WHOLE_SHARE = 0.9
"""The share of the time limit with which a task starts however long those before it took: waiting less is not
possible."""
LOG = logging.getLogger("edgewise.serve")

Kind = tuple[bool, bool, int]
"""Whether a task is a job, whether it is slow, and the size of what it reads: those alike take similar times."""
Client = tuple[str | int, ...]
"""The address of a client, and the port of its connection."""


class BusyError(RuntimeError):
    """Too many rows are waiting, or those before a request took so long that its time is too short."""


@dataclass(eq=False)
class QueuedTask:
    """A computation, and the client that waits for it."""

    answer: "asyncio.Future[Any]"
    """The result; already done (cancelled) if the client has gone."""
    client: Client
    """The client that waits."""
    deadline: float
    """When the client gives up, by the clock of the event loop."""
    number: int
    """Its position in the order of arrival."""
    rows: list[Row] | None = None
    """Rows to predict, possibly in a batch with those of others."""
    job: Job | None = None
    """A job other than a prediction, computed alone."""
    num_characters: int = 0
    """The characters that the job reads."""
    is_slow: bool = False
    """Whether it may take long."""
    is_alone: bool = False
    """Whether it failed in a batch, and is now computed alone."""
    num_deaths: int = 0
    """How often a process died while computing it alone."""

    @property
    def size(self) -> int:
        """The number of rows that it counts for."""
        return 1 if self.rows is None else len(self.rows)

    @property
    def kind(self) -> Kind:
        """Its kind; lengths are alike up to a factor of two."""
        num_characters = self.num_characters + sum(map(characters, self.rows or ()))
        return self.job is not None, self.is_slow, num_characters.bit_length() if self.is_slow else 0


class Durations:
    """How long computations of each kind take, by moving averages.

    Args:
        limit: The longest time from a request to its answer, in seconds.

    Example:
        >>> durations, kind = Durations(30.0), (True, True, 0)
        >>> durations.needed(kind)
        0.0
        >>> durations.add(kind, 2.0)
        >>> durations.needed(kind)
        3.0
    """

    def __init__(self, limit: float):
        self._limit = limit
        self._means: dict[Kind, tuple[float, float]] = {}

    def add(self, kind: Kind, seconds: float) -> None:
        """Counts a computation that ended by itself."""
        mean, deviation = self._means.get(kind, (seconds, 0.0))
        error = seconds - mean
        self._means[kind] = mean + _NEWEST_SHARE * error, deviation + _NEWEST_SHARE * (abs(error) - deviation)

    def add_killed(self, kind: Kind, seconds: float) -> None:
        """Counts a computation that was killed after its time: it may have needed twice as long."""
        # One that had the whole time says nothing about those that can be answered.
        if seconds < _WHOLE_SHARE * self._limit:
            self.add(kind, min(2 * seconds, self._limit))

    def needed(self, kind: Kind) -> float:
        """The seconds within which nearly all of a kind end; 0 before the first."""
        mean, deviation = self._means.get(kind, (0.0, 0.0))
        return mean + _NUM_DEVIATIONS * max(deviation, _LEAST_DEVIATION * mean)


class Worker:
    """Answers requests, one computation at a time in each lane.

    Args:
        lanes: What computes; with several, the first computes quick rows only.
        limits: The size of batches, the time to collect them, and how many rows may wait.
    """

    def __init__(self, lanes: Sequence[Lane], limits: Limits):
        self.lanes, self.limits = lanes, limits
        self.num_batches = 0
        self._tasks: list[QueuedTask] = []
        self._num_tasks = 0
        self._wake_events = [asyncio.Event() for _ in lanes]
        self._is_ready = [True] * len(lanes)
        self._batch_is_full = asyncio.Event()
        self._threads = ThreadPoolExecutor(len(lanes), thread_name_prefix="edgewise-model")
        self._loops: list[asyncio.Task[None]] = []
        self._spent: dict[Client, float] = {}
        self._clocks: dict[Client, float] = {}
        self._durations = Durations(limits.seconds)

    def start(self) -> None:
        """Starts the work; call it within a running event loop."""
        for lane_number in range(len(self.lanes)):
            self._loops.append(asyncio.get_running_loop().create_task(self._work(lane_number)))

    async def stop(self) -> None:
        """Stops, and cancels all waiting tasks."""
        for loop in self._loops:
            loop.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        for task in self._tasks:
            task.answer.cancel()
        for lane in self.lanes:
            lane.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def predict(self, rows: list[Row], client: Client = ()) -> list[Outcome]:
        """The predictions of each row, or its error.

        Raises:
            BusyError: Too many rows are waiting, or the time that is left when its turn comes is too short.
            TimeoutError: The time limit is over.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        outcomes_by_row: dict[int, Outcome] = {}
        slow_rows = {row for row, cells in enumerate(rows) if characters(cells) > SLOW_CHARACTERS}
        quick_rows = [row for row in range(len(rows)) if row not in slow_rows]
        # A long request is split into chunks, so that others have their turn in between.
        size = self.limits.batch_size if self.limits.batching else len(rows)
        chunks = [quick_rows[start : start + size] for start in range(0, len(quick_rows), size)]
        tasks = [self._task(client, deadline, rows=[rows[row] for row in chunk]) for chunk in chunks]
        tasks += [self._task(client, deadline, rows=[rows[row]], is_slow=True) for row in sorted(slow_rows)]
        chunks += [[row] for row in sorted(slow_rows)]
        for chunk, outcomes in zip(chunks, await self._answers(tasks), strict=True):
            outcomes_by_row.update(zip(chunk, outcomes, strict=True))
        remaining = sorted(row for row, outcome in outcomes_by_row.items() if outcome is None)

        # Short molecules, too, may take long: the quick lane returns them, and they are computed among the slow rows.
        tasks = [self._task(client, deadline, rows=[rows[row]], is_slow=True) for row in remaining]
        for row, (outcome,) in zip(remaining, await self._answers(tasks) if tasks else [], strict=True):
            outcomes_by_row[row] = outcome
        return [outcomes_by_row[row] for row in range(len(rows))]

    async def do(self, job: Job, client: Client = (), num_characters: int = 0) -> Any:
        """The result of `job`, which reads that many characters, computed in the process of the model when its turn
        comes.

        Raises:
            BusyError: Too many rows are waiting, or the time that is left when its turn comes is too short.
            TimeoutError: The time limit is over.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        task = self._task(client, deadline, job=job, is_slow=True, num_characters=num_characters)
        return (await self._answers([task]))[0]

    def _task(self, client: Client, deadline: float, **details: Any) -> QueuedTask:
        self._num_tasks += 1
        return QueuedTask(asyncio.get_running_loop().create_future(), client, deadline, self._num_tasks, **details)

    async def _answers(self, tasks: list[QueuedTask]) -> list[Any]:
        size = sum(task.size for task in tasks)
        if self._num_waiting_rows + size > max(self.limits.waiting, size):
            raise BusyError

        for account in {account for task in tasks for account in _accounts(task.client)}:
            # A client that was idle gets no credit for it.
            self._spent[account] = max(self._spent.get(account, 0.0), self._clocks.get(account[:-1], 0.0))
        self._enqueue(tasks)

        try:
            # One error cancels the other tasks, as does the timeout: their answers would be discarded.
            async with asyncio.timeout_at(tasks[0].deadline):
                return [await task.answer for task in tasks]
        finally:
            for task in tasks:
                task.answer.cancel()

    def _enqueue(self, tasks: Sequence[QueuedTask]) -> None:
        self._tasks += tasks
        if self._num_waiting_rows >= self.limits.batch_size:
            self._batch_is_full.set()
        for wake in self._wake_events:
            wake.set()

    @property
    def _num_waiting_rows(self) -> int:
        return sum(task.size for task in self._tasks if not task.answer.done())

    async def _work(self, lane_number: int) -> None:
        lane, takes_slow = self.lanes[lane_number], lane_number > 0 or len(self.lanes) == 1
        while True:
            # Restart right after a kill, and check again when a task comes: an idle process may have died. The tasks
            # stay in the queue meanwhile, where other lanes may take them.
            await self._start(lane_number)
            await self._gather(lane_number)
            await self._start(lane_number)
            tasks = self._next_batch(takes_slow)
            if tasks:
                await self._compute(lane, tasks)
            else:
                self._wake_events[lane_number].clear()

    async def _start(self, lane_number: int) -> None:
        """Starts a lane, and tries again until it runs."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.run_in_executor(self._threads, self.lanes[lane_number].start)
            await asyncio.wait([started], timeout=_START_SECONDS)
            self._is_ready[lane_number] = started.done()
            await asyncio.wait([started])
            self._is_ready[lane_number] = (error := started.exception()) is None
            if error is None:
                return
            LOG.error("a worker process failed to start: %s", error)
            await asyncio.sleep(1)

    async def _gather(self, lane_number: int) -> None:
        """Waits for a task, and then briefly for others of the same batch."""
        await self._wake_events[lane_number].wait()
        if self.limits.batching and self.limits.batch_wait and not self._batch_is_full.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.batch_wait / 1000):
                    await self._batch_is_full.wait()

    def _next_batch(self, takes_slow: bool) -> list[QueuedTask]:
        """The next task, and with it as many others as fit into its batch."""
        self._refuse_late_tasks()
        # Clients that have given up or were refused need no answer.
        self._tasks = [task for task in self._tasks if not task.answer.done()]
        # While the first lane is not ready, the others do its work before their own.
        is_urgent = takes_slow and not self._is_ready[0]
        waiting = sorted((task for task in self._tasks if takes_slow or not task.is_slow), key=self._priority)
        waiting.sort(key=lambda task: is_urgent and task.is_slow)

        batch = waiting[:1]
        if batch and _is_batchable(batch[0]) and self.limits.batching:
            size = batch[0].size
            for task in waiting[1:]:
                if _is_batchable(task) and size + task.size <= self.limits.batch_size:
                    batch.append(task)
                    size += task.size

        batch_ids = set(map(id, batch))
        self._tasks = [task for task in self._tasks if id(task) not in batch_ids]
        if self._num_waiting_rows < self.limits.batch_size:
            self._batch_is_full.clear()
        for task in batch:
            self._charge(task, ROW_SECONDS * task.size)

        return batch

    def _refuse_late_tasks(self) -> None:
        """Refuses the tasks that would be killed at their deadline before they end."""
        now, whole = asyncio.get_running_loop().time(), _WHOLE_SHARE * self.limits.seconds
        for task in self._tasks:
            # A batch gets half of the time.
            needed = self._durations.needed(task.kind) * (2 if _is_batchable(task) else 1)
            if not task.answer.done() and task.deadline - now < min(needed, whole):
                task.answer.set_exception(BusyError())

    def _priority(self, task: QueuedTask) -> tuple[float, ...]:
        """Tasks are sorted by the time spent on their address, then on their connection, then by arrival."""
        return (*(self._spent.get(account, 0.0) for account in _accounts(task.client)), task.number)

    def _charge(self, task: QueuedTask, seconds: float) -> None:
        for account in _accounts(task.client):
            spent = self._spent.get(account, 0.0)
            self._clocks[account[:-1]] = max(self._clocks.get(account[:-1], 0.0), spent)
            self._spent[account] = spent + seconds
        if len(self._spent) > _MAX_ACCOUNTS:
            self._spent = {
                account: spent for account, spent in self._spent.items() if spent > self._clocks.get(account[:-1], 0.0)
            }
            self._clocks = {
                account: now for account, now in self._clocks.items() if not account or account in self._spent
            }

    async def _compute(self, lane: Lane, tasks: list[QueuedTask]) -> None:
        """Computes tasks; if a batch fails, its tasks go back to the queue, to be computed alone."""
        loop = asyncio.get_running_loop()
        rows = [row for task in tasks for row in task.rows or ()]
        job = tasks[0].job or partial(predict_or_reason if tasks[0].is_slow else predict_quickly, rows=rows)
        self.num_batches += 1
        start = loop.time()
        kind, remaining = tasks[0].kind, min(task.deadline for task in tasks) - start
        # A slow batch is abandoned while there is still time to try its tasks alone.
        available = max(remaining if len(tasks) == 1 else remaining / 2, 0.01)
        computation = loop.run_in_executor(self._threads, lane.run, job, available)

        clients_gone = asyncio.ensure_future(asyncio.wait([task.answer for task in tasks]))
        try:
            await asyncio.wait([computation, clients_gone], return_when=asyncio.FIRST_COMPLETED)
            if not computation.done():
                # All clients have gone; a job is killed only after a restart would have taken, so that clients that
                # come and go cost no more than a job.
                await asyncio.wait([computation], timeout=max(lane.restart_seconds - (loop.time() - start), 0))
                if not computation.done():
                    lane.kill()
                # The error is read, not raised: an error of one request must not stop the worker.
                await asyncio.wait([computation])
        finally:
            clients_gone.cancel()

        seconds, error = loop.time() - start, computation.exception()
        for task in tasks:
            self._charge(task, seconds * task.size / max(sum(other.size for other in tasks), 1))
        if error is None:
            self._durations.add(kind, seconds)
        elif isinstance(error, TimeoutError) or seconds >= available:
            self._durations.add_killed(kind, seconds)

        if error is None:
            _settle(tasks, computation.result())
        elif len(tasks) > 1:
            # Any of the tasks may be the cause: each is tried alone, and only that one fails.
            for task in tasks:
                task.is_alone, task.is_slow = True, task.is_slow or isinstance(error, TimeoutError)
            self._enqueue(tasks)
        elif isinstance(error, ProcessDiedError) and tasks[0].num_deaths == 0:
            # Something else may have killed the process; if it was the task, it will happen again.
            tasks[0].num_deaths, tasks[0].is_slow = 1, True
            self._enqueue(tasks)
        elif not tasks[0].answer.done():
            tasks[0].answer.set_exception(error)


def _is_batchable(task: QueuedTask) -> bool:
    return task.rows is not None and not task.is_slow and not task.is_alone


def _accounts(client: Client) -> tuple[Client, ...]:
    """The accounts that are charged: the address, and the connection."""
    return tuple(client[:end] for end in range(1, len(client) + 1))


def _settle(tasks: list[QueuedTask], result: Any) -> None:
    """Sets the result of each task to its part of the batch."""
    begin = 0
    for task in tasks:
        end = begin + task.size
        if not task.answer.done():
            task.answer.set_result(result if task.rows is None else result[begin:end])
        begin = end
