"""Threads for the kernels, as many as torch uses; numba's own layers abort on concurrent calls, or after a fork.

A call is split into shares, and a kernel works on one of them without holding a lock of Python. Where torch computes
with GNU OpenMP, its own threads take the shares: they go on spinning for milliseconds after every operation of torch,
so that others beside them would find no free processor. Elsewhere threads of our own take shares away from the caller,
which takes one after the other and never waits for a thread that is still waking up, is busy with another call, or
could not be started. Several calls may run at once, from any thread.
"""

import atexit
import ctypes
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

    def check(self, number: int) -> None:
        """Wait until so many shares have ended, and raise the first error among them."""
        for error in filter(None, [self.ended.get() for _ in range(number)]):
            raise error

    def __enter__(self) -> None:
        """A helper begins a share."""

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """It has ended: the caller is told how, and it is the caller where an error comes to light."""
        self.ended.put(error)
        return True


class Helpers:
    """Threads that wait for jobs, started when they are first needed and dismissed before the interpreter ends."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.lock = threading.Lock()
        self.threads: list[threading.Thread] = []

    def join(self, job: Job, number: int) -> None:
        """So many of them are asked to help, or fewer where the system gives no more threads."""
        if len(self.threads) < number:
            with self.lock, suppress(RuntimeError):
                while len(self.threads) < number:
                    thread = threading.Thread(target=self._serve, name=f"edgewise-{len(self.threads)}", daemon=True)
                    thread.start()
                    self.threads.append(thread)
        for _ in range(min(number, len(self.threads))):
            self.jobs.put(job)

    def dismiss(self) -> None:
        """End them: an interpreter that ends while a thread waits kills it, and sometimes the process with it."""
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()
        self.threads = []

    def _serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.help()


_helpers = Helpers()
_start_team = getattr(ctypes.CDLL(None), "GOMP_parallel", None) if os.name == "posix" else None
"""Runs a function once on each of so many threads of GNU OpenMP, which torch has loaded; None where it has not."""
_TeamFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def run(work: Callable[[int, int], None], num_pieces: int) -> None:
    """Call `work(number, count)` for each number below `count`, on as many threads as torch uses, this one among them.

    `count` is `torch.get_num_threads()`, which is 1 in the workers of a DataLoader, or the number of pieces where that
    is less. Once this returns or raises, no thread works on the call; an error of any of them is raised here.

    A forked child has none of its parent's threads, and OpenMP there may wait for threads that are gone: it starts
    threads of our own. (So that torch does not wait for them either, call `torch.set_num_threads(1)` in the child, as a
    DataLoader does; everything is serial then.)
    """
    count = min(num_pieces, torch.get_num_threads())
    if count <= 1:
        return work(0, 1)
    job = Job(work, count)
    if _start_team is None:
        return _run_with_helpers(job)
    _start_team(_TeamFunction(lambda _: job.help()), None, count, 0)
    job.check(count)


def _run_with_helpers(job: Job) -> None:
    own = 0
    _helpers.join(job, job.count - 1)
    try:
        while (number := job.take()) is not None:
            own += 1
            job.work(number, job.count)
    finally:
        while job.take() is not None:  # after an error: nobody is to begin what is left
            own += 1
        job.check(job.count - own)


@atexit.register
def _dismiss() -> None:
    _helpers.dismiss()


def _forget() -> None:
    global _helpers, _start_team
    _helpers, _start_team = Helpers(), None


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forget)
