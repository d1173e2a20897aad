"""A Python process that computes one call after another for us, and that can be killed at a time limit.

Compiled code such as RDKit's cannot be interrupted from within, and holds the interpreter while it computes. A call
that may take long therefore runs in a process of its own. Code that releases Python's lock runs on a thread, as
`Background`.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import IO, Any, Generic, TypeVar

Result = TypeVar("Result")

# Not multiprocessing: that would import the caller's main script again, which fits only scripts with a guard.
_BOOT = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from edgewise.learn.process import main; main()"
)
_GRACE = 2.0
"""Seconds after its limit at which a process ends itself, even where its parent is gone."""
_START_SECONDS = 300.0


class ProcessDiedError(RuntimeError):
    """The process ended in the middle of a call: it crashed, or something killed it."""


class Process(Generic[Result]):
    """Calls a function in another process; the process starts with the first call, and again after each kill.

    Args:
        make: A function of a module. It runs once in the new process; what it returns is called for each call.
        arguments: Its arguments; they travel by pickle, as those of each call and all results do.

    Example:
        >>> import operator
        >>> process = Process(operator.methodcaller, "upper")
        >>> process.call("yes", seconds=60)
        'YES'
        >>> process.close()
    """

    def __init__(self, make: Callable[..., Callable[..., Result]], *arguments: object):
        self._make = (make, arguments)
        self._popen: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] = lambda: None
        self._one_call = threading.Lock()
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """The number of the running process; None where none runs."""
        return None if self._popen is None else self._popen.pid

    def start(self, seconds: float = _START_SECONDS) -> None:
        """Starts the process unless it runs.

        Args:
            seconds: How long that may take.

        Raises:
            TimeoutError: It took longer.
            ProcessDiedError: It ended before it was ready.
            Exception: Whatever `make` raises.
        """
        with self._one_call:
            self._start(seconds)

    def call(self, *arguments: object, seconds: float, cpu_seconds: float | None = None) -> Result:
        """The result of one call.

        Args:
            arguments: What the function takes.
            seconds: The process is killed where no result has come after this time.
            cpu_seconds: The same for the time that a processor spends on it, where the system has such timers.

        Raises:
            TimeoutError: It took longer, and was killed.
            ProcessDiedError: The process ended without a result.
            Exception: Whatever the function raises.
        """
        with self._one_call:
            self._start()
            result: Result = self._exchange((seconds, cpu_seconds, arguments), seconds)
            return result

    def kill(self) -> None:
        """Kills the process, from any thread; a running call then raises ProcessDiedError."""
        self._end()

    def close(self) -> None:
        """Ends the process; the next call would start another."""
        self._end()
        with self._one_call:
            self._popen = None

    def _start(self, seconds: float = _START_SECONDS) -> None:
        if self._owner != os.getpid():
            # A fork has the same pipes, and two who read from one get parts of each other's results.
            self._owner, self._popen = os.getpid(), None
        if self._popen is not None and self._popen.poll() is None:
            return
        popen = subprocess.Popen(
            [sys.executable, "-c", _BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )
        self._popen = popen
        self._end = weakref.finalize(self, _ended, popen)
        assert popen.stdin is not None
        pickle.dump(sys.path, popen.stdin)
        self._exchange(self._make, seconds)

    def _exchange(self, message: object, seconds: float) -> Any:
        popen = self._popen
        assert popen is not None and popen.stdin is not None and popen.stdout is not None
        is_late = threading.Event()

        def expire() -> None:
            is_late.set()
            popen.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump(message, popen.stdin)
            popen.stdin.flush()
            succeeded, result = pickle.load(popen.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._end()
            code = popen.returncode
            if is_late.is_set() or -code in _TIMERS:
                raise TimeoutError(f"no result after {seconds:g} seconds") from error
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise ProcessDiedError(f"a worker process ended without a result ({how})") from error
        finally:
            timer.cancel()

        if not succeeded:
            raise result
        return result


_TIMERS = {getattr(signal, name) for name in ("SIGALRM", "SIGPROF") if hasattr(signal, name)}


def _ended(popen: subprocess.Popen[bytes]) -> None:
    popen.kill()
    popen.wait()
    for stream in (popen.stdin, popen.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()


def main() -> None:
    """The process: reads calls from its input and writes results to its output, until the input ends."""
    calls = sys.stdin.buffer
    # Whatever a library prints must not stand among the results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    # Ctrl-C is for the parent, which then closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    make, arguments = pickle.load(calls)
    function = _answer(results, make, arguments)
    while True:
        try:
            seconds, cpu_seconds, arguments = pickle.load(calls)
        except EOFError:
            return
        _set_timers(seconds + _GRACE, cpu_seconds or 0)
        _answer(results, function, arguments, sends=True)
        _set_timers(0, 0)


class _Caught:
    """Keeps the error of its block, whichever it is: it is raised again in the parent."""

    error: Exception | None = None

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        return True


def _answer(results: IO[bytes], function: Callable, arguments: Iterable[object], sends: bool = False) -> Any:
    """Calls, and writes how that ended; the result itself is written only where the parent needs it."""
    result = None
    with _Caught() as caught:
        result = function(*arguments)
        written = pickle.dumps((True, result if sends else None))
    if caught.error is not None:
        written = _pickled_error(caught.error)
    try:
        results.write(written)
        results.flush()
    except BrokenPipeError:  # the parent is gone, and with it whoever would read a traceback
        os._exit(1)
    return result


def _pickled_error(error: Exception) -> bytes:
    """An error for the parent; one that cannot travel becomes a RuntimeError of the same words."""
    with _Caught() as caught:
        written = pickle.dumps((False, error))
        pickle.loads(written)
    if caught.error is not None:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return written


def _set_timers(seconds: float, cpu_seconds: float) -> None:
    """Lets the system end this process after some time: it needs no interpreter for that."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)


class Background(Generic[Result]):
    """A computation on another thread, for work that releases Python's lock most of the time.

    The thread does not keep the process from ending.

    Args:
        work: what is computed.
    """

    value: Result
    """What was computed, once it is."""

    def __init__(self, work: Callable[[], Result]):
        self.work, self.seconds = work, 0.0
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def result(self) -> Result:
        """What was computed, once it is; its error is raised here."""
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.value

    def _run(self) -> None:
        began = time.perf_counter()
        with _Caught() as caught:
            self.value = self.work()
        self.error = caught.error
        self.seconds = time.perf_counter() - began
