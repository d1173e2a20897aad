"""Threads for the kernels, as many as torch uses; numba's own layers abort on concurrent calls, or after a fork.

A call is split into shares, and a kernel works on one of them without holding a lock of Python. The caller takes share
after share, and threads that have nothing else to do take some away from it. So it never waits for a thread that is
still waking up, is busy with another call, or could not be started; several calls may run at once, from any thread, and
use few threads more than there are callers.
"""

import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType

import torch


class Job:
    """A call of `run`: shares that are taken one by one, and how those ended that helpers took."""

    def __init__(self, work: Callable[[int, int], None], count: int):
        self.work, self.count = work, count
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._next = itertools.count().__next__  # one step of the interpreter: no two threads get the same number

    def take(self) -> int | None:
        """A share that nobody has taken; None where there is none left."""
        number = self._next()
        return number if number < self.count else None

    def help(self) -> None:
        """Work on shares until all are taken."""
        while (number := self.take()) is not None:
            with self:
                self.work(number, self.count)

    def __enter__(self) -> None:
        """A helper begins a share."""

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """It has ended: the caller is told how, and it is the caller where an error comes to light."""
        self.ended.put(error)
        return True


class Helpers:
    """Threads that wait for jobs, started when they are first needed; they end with the process."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        self.lock, self.number = threading.Lock(), 0

    def join(self, job: Job, number: int) -> None:
        """So many of them are asked to help, or fewer where the system gives no more threads."""
        if self.number < number:
            with self.lock, suppress(RuntimeError):
                while self.number < number:
                    threading.Thread(target=self._serve, name=f"edgewise-{self.number}", daemon=True).start()
                    self.number += 1
        for _ in range(min(number, self.number)):
            self.jobs.put(job)

    def _serve(self) -> None:
        while True:
            self.jobs.get().help()


_helpers = Helpers()


def run(work: Callable[[int, int], None], num_pieces: int) -> None:
    """Call `work(number, count)` for each number below `count`, on as many threads as torch uses, this one among them.

    `count` is `torch.get_num_threads()`, which is 1 in the workers of a DataLoader, or the number of pieces where that
    is less. Once this returns or raises, no thread works on the call; an error of any of them is raised here.

    A forked child has none of its parent's threads and starts its own. (torch's OpenMP, which it inherits, may wait for
    threads that are gone: call `torch.set_num_threads(1)` there, as a DataLoader does, and everything is serial.)
    """
    count = min(num_pieces, torch.get_num_threads())
    if count <= 1:
        return work(0, 1)
    job, own = Job(work, count), 0
    _helpers.join(job, count - 1)
    try:
        while (number := job.take()) is not None:
            own += 1
            work(number, count)
    finally:
        while job.take() is not None:  # after an error: nobody is to begin what is left
            own += 1
        errors = [job.ended.get() for _ in range(count - own)]
    for error in filter(None, errors):
        raise error


def _forget() -> None:
    global _helpers
    _helpers = Helpers()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forget)
