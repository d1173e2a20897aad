"""Requests wait for their turn, are predicted together, and are computed in several lanes.

Clients take turns by the time that was spent on them, so that one client cannot starve the others. Quick rows are
predicted together; slow ones (long rows, explanations) are computed alone, and leave the first of several lanes free
for the quick ones. What nobody waits for any longer is not computed, and killed where that is possible.
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
"""A row of more is slow: a molecule of that many characters may take seconds, a text of as many tokens hundreds of
times as long as a short one."""
ROW_SECONDS = 0.001
"""What a row is charged before anybody knows how long it takes."""
_ACCOUNTS = 10_000
_START_IS_QUICK = 0.1
"""Seconds after which a lane that starts counts as not there."""
LOG = logging.getLogger("edgewise.serve")

Client = tuple[str | int, ...]
"""Who waits: the address, and the port of the connection."""


class BusyError(RuntimeError):
    """Too many rows wait already."""


@dataclass(eq=False)
class Task:
    """Something to be computed, and who waits for it."""

    answer: "asyncio.Future[Any]"
    """Where the answer goes; done already where nobody waits any longer."""
    client: Client
    """Who waits."""
    deadline: float
    """When nobody waits any longer, by the clock of the loop."""
    number: int
    """Its place in the order of arrival."""
    rows: list[Row] | None = None
    """Rows to predict, maybe together with those of others."""
    job: Job | None = None
    """What else there is to do, alone."""
    is_slow: bool = False
    """Whether it may take long."""
    is_alone: bool = False
    """Whether it failed in a batch, and is now computed without others."""
    num_deaths: int = 0
    """How often a process died while it was computed alone."""

    @property
    def size(self) -> int:
        """How many rows it counts for."""
        return 1 if self.rows is None else len(self.rows)


class Worker:
    """Answers requests, one computation at a time in each lane.

    Args:
        lanes: Where to compute; with several, the first computes quick rows only.
        limits: How many rows are gathered, how long, and how many may wait.
    """

    def __init__(self, lanes: Sequence[Lane], limits: Limits):
        self.lanes, self.limits = lanes, limits
        self.num_batches = 0
        self._tasks: list[Task] = []
        self._num_tasks = 0
        self._wakes = [asyncio.Event() for _ in lanes]
        self._is_ready = [True] * len(lanes)
        self._enough = asyncio.Event()
        self._threads = ThreadPoolExecutor(len(lanes), thread_name_prefix="edgewise-model")
        self._loops: list[asyncio.Task[None]] = []
        self._spent: dict[Client, float] = {}
        self._clocks: dict[Client, float] = {}

    def start(self) -> None:
        """Begins to work; from within a running event loop."""
        for place in range(len(self.lanes)):
            self._loops.append(asyncio.get_running_loop().create_task(self._work(place)))

    async def stop(self) -> None:
        """Ends; what waits still is cancelled."""
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
        """The predictions of each row, or why there are none.

        Raises:
            BusyError: Too many rows wait already.
            TimeoutError: It takes too long.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        found: dict[int, Outcome] = {}
        slow = {place for place, row in enumerate(rows) if characters(row) > SLOW_CHARACTERS}
        quick = [place for place in range(len(rows)) if place not in slow]
        # A long request is divided, so that others have their turn in between.
        size = self.limits.batch_size if self.limits.batching else len(rows)
        chunks = [quick[start : start + size] for start in range(0, len(quick), size)]
        tasks = [self._task(client, deadline, rows=[rows[place] for place in chunk]) for chunk in chunks]
        tasks += [self._task(client, deadline, rows=[rows[place]], is_slow=True) for place in sorted(slow)]
        chunks += [[place] for place in sorted(slow)]
        for chunk, outcomes in zip(chunks, await self._answers(tasks), strict=True):
            found.update(zip(chunk, outcomes, strict=True))
        left = sorted(place for place, outcome in found.items() if outcome is None)
        # Short molecules, too, may take long: the quick lane returns them, and they are computed among the slow rows.
        tasks = [self._task(client, deadline, rows=[rows[place]], is_slow=True) for place in left]
        for place, (outcome,) in zip(left, await self._answers(tasks) if tasks else [], strict=True):
            found[place] = outcome
        return [found[place] for place in range(len(rows))]

    async def do(self, job: Job, client: Client = ()) -> Any:
        """What `job` returns for the model, computed where the model is when its turn has come.

        Raises:
            BusyError: Too many rows wait already.
            TimeoutError: It takes too long.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        return (await self._answers([self._task(client, deadline, job=job, is_slow=True)]))[0]

    def _task(self, client: Client, deadline: float, **what: Any) -> Task:
        self._num_tasks += 1
        return Task(asyncio.get_running_loop().create_future(), client, deadline, self._num_tasks, **what)

    async def _answers(self, tasks: list[Task]) -> list[Any]:
        size = sum(task.size for task in tasks)
        if self._num_waiting + size > max(self.limits.waiting, size):
            raise BusyError
        for account in {account for task in tasks for account in _accounts(task.client)}:
            # Who was away has saved nothing for later.
            self._spent[account] = max(self._spent.get(account, 0.0), self._clocks.get(account[:-1], 0.0))
        self._put(tasks)
        try:
            # One error cancels the rest, as does the end of the wait: nobody would get their answers.
            async with asyncio.timeout_at(tasks[0].deadline):
                return [await task.answer for task in tasks]
        finally:
            for task in tasks:
                task.answer.cancel()

    def _put(self, tasks: Sequence[Task]) -> None:
        self._tasks += tasks
        if self._num_waiting >= self.limits.batch_size:
            self._enough.set()
        for wake in self._wakes:
            wake.set()

    @property
    def _num_waiting(self) -> int:
        return sum(task.size for task in self._tasks if not task.answer.done())

    async def _work(self, place: int) -> None:
        lane, takes_slow = self.lanes[place], place > 0 or len(self.lanes) == 1
        while True:
            # At once after a kill, and again when a task comes: a process may have died while it had nothing to do.
            # The tasks wait meanwhile, and other lanes may take them.
            await self._start(place)
            await self._gather(place)
            await self._start(place)
            tasks = self._next(takes_slow)
            if tasks:
                await self._compute(lane, tasks)
            else:
                self._wakes[place].clear()

    async def _start(self, place: int) -> None:
        """Makes a lane ready, however often that takes."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.run_in_executor(self._threads, self.lanes[place].start)
            await asyncio.wait([started], timeout=_START_IS_QUICK)
            self._is_ready[place] = started.done()
            await asyncio.wait([started])
            self._is_ready[place] = (error := started.exception()) is None
            if error is None:
                return
            LOG.error("a worker process does not start: %s", error)
            await asyncio.sleep(1)

    async def _gather(self, place: int) -> None:
        """Waits for a task, and then a little for others that can be computed with it."""
        await self._wakes[place].wait()
        if self.limits.batching and self.limits.batch_wait and not self._enough.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.batch_wait / 1000):
                    await self._enough.wait()

    def _next(self, takes_slow: bool) -> list[Task]:
        """The task whose turn it is, and with it as many as fit into its batch."""
        # Who has given up waiting needs no answer.
        self._tasks = [task for task in self._tasks if not task.answer.done()]
        # While the first lane is not there, the others do its work before theirs.
        is_urgent = takes_slow and not self._is_ready[0]
        waiting = sorted((task for task in self._tasks if takes_slow or not task.is_slow), key=self._turn)
        waiting.sort(key=lambda task: is_urgent and task.is_slow)
        taken = waiting[:1]
        if taken and _is_shared(taken[0]) and self.limits.batching:
            size = taken[0].size
            for task in waiting[1:]:
                if _is_shared(task) and size + task.size <= self.limits.batch_size:
                    taken.append(task)
                    size += task.size
        chosen = set(map(id, taken))
        self._tasks = [task for task in self._tasks if id(task) not in chosen]
        if self._num_waiting < self.limits.batch_size:
            self._enough.clear()
        for task in taken:
            self._charge(task, ROW_SECONDS * task.size)
        return taken

    def _turn(self, task: Task) -> tuple[float, ...]:
        """Tasks are taken by the time spent on their address, then on their connection, then as they came."""
        return (*(self._spent.get(account, 0.0) for account in _accounts(task.client)), task.number)

    def _charge(self, task: Task, seconds: float) -> None:
        for account in _accounts(task.client):
            spent = self._spent.get(account, 0.0)
            self._clocks[account[:-1]] = max(self._clocks.get(account[:-1], 0.0), spent)
            self._spent[account] = spent + seconds
        if len(self._spent) > _ACCOUNTS:
            self._spent = {one: spent for one, spent in self._spent.items() if spent > self._clocks.get(one[:-1], 0.0)}
            self._clocks = {one: now for one, now in self._clocks.items() if not one or one in self._spent}

    async def _compute(self, lane: Lane, tasks: list[Task]) -> None:
        """Answers tasks; where a batch fails, each of its tasks waits again, to be computed alone."""
        loop = asyncio.get_running_loop()
        rows = [row for task in tasks for row in task.rows or ()]
        job = tasks[0].job or partial(predict_or_reason if tasks[0].is_slow else predict_quickly, rows=rows)
        self.num_batches += 1
        began = loop.time()
        left = min(task.deadline for task in tasks) - began
        # A batch that takes long is given up while there is time to try its tasks alone.
        computed = loop.run_in_executor(self._threads, lane.run, job, max(left if len(tasks) == 1 else left / 2, 0.01))
        waiting = asyncio.ensure_future(asyncio.wait([task.answer for task in tasks]))
        try:
            await asyncio.wait([computed, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not computed.done():
                # Nobody waits any longer; but who comes and goes must not cost more than a job would.
                await asyncio.wait([computed], timeout=max(lane.restart_seconds - (loop.time() - began), 0))
                if not computed.done():
                    lane.kill()
                # Its error is read rather than raised: what goes wrong with a request must not end the work.
                await asyncio.wait([computed])
        finally:
            waiting.cancel()
        for task in tasks:
            self._charge(task, (loop.time() - began) * task.size / max(sum(each.size for each in tasks), 1))
        error = computed.exception()
        if error is None:
            _settle(tasks, computed.result())
        elif len(tasks) > 1:
            # Nobody knows whose row it was: each is tried alone, and only that one fails.
            for task in tasks:
                task.is_alone, task.is_slow = True, task.is_slow or isinstance(error, TimeoutError)
            self._put(tasks)
        elif isinstance(error, ProcessDiedError) and tasks[0].num_deaths == 0:
            # Something else may have killed the process; if it was the task, it will do so again.
            tasks[0].num_deaths, tasks[0].is_slow = 1, True
            self._put(tasks)
        elif not tasks[0].answer.done():
            tasks[0].answer.set_exception(error)


def _is_shared(task: Task) -> bool:
    return task.rows is not None and not task.is_slow and not task.is_alone


def _accounts(client: Client) -> tuple[Client, ...]:
    """Whose time is counted: an address, and each of its connections."""
    return tuple(client[:end] for end in range(1, len(client) + 1))


def _settle(tasks: list[Task], result: Any) -> None:
    """Gives each task its part of what was computed."""
    begin = 0
    for task in tasks:
        end = begin + task.size
        if not task.answer.done():
            task.answer.set_result(result if task.rows is None else result[begin:end])
        begin = end
