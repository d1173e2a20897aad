"""Work outside the main thread: a process that can be killed at a time limit, or a thread in the background.

Compiled code such as RDKit's cannot be interrupted from within, and holds the GIL while it computes. A call that may
take long therefore runs in a process of its own, see `Process`. Code that releases the GIL runs on a thread, see
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
from typing import IO, Any, Generic, TypeVar, cast

Result = TypeVar("Result")

# Not multiprocessing: that would import the caller's main script again, which fits only scripts with a guard.
_BOOT = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from edgewise.learn.process import main; main()"
)
_GRACE = 2.0
"""Seconds after its limit at which a process ends itself, even where its parent is gone."""
_START_TIMEOUT = 300.0


class ProcessDiedError(RuntimeError):
    """The process ended in the middle of a call: it crashed, or something killed it."""


class Process(Generic[Result]):
    """Calls a function in another process; the process starts with the first call, and again after each kill.

    Args:
        make: A module-level (picklable) function. It runs once in the new process; what it returns is called for each
            call.
        arguments: Its arguments; they travel by pickle, as those of each call and all results do.

    Example:
        >>> import operator
        >>> process = Process(operator.methodcaller, "upper")
        >>> process.call("yes", timeout=60)
        'YES'
        >>> process.close()
    """

    def __init__(self, make: Callable[..., Callable[..., Result]], *arguments: object):
        self._factory_call = (make, arguments)
        self._popen: subprocess.Popen[bytes] | None = None
        self._finalizer: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """The number of the running process; None where none runs."""
        return None if self._popen is None else self._popen.pid

    def start(self, timeout: float = _START_TIMEOUT) -> None:
        """Starts the process unless it runs.

        Args:
            timeout: How many seconds that may take.

        Raises:
            TimeoutError: It took longer.
            ProcessDiedError: It ended before it was ready.
            Exception: Whatever `make` raises.
        """
        with self._lock:
            self._start(timeout)

    def call(self, *arguments: object, timeout: float, cpu_timeout: float | None = None) -> Result:
        """The result of one call.

        Args:
            arguments: What the function takes.
            timeout: The process is killed where no result has come after this many seconds.
            cpu_timeout: The same for the time that a processor spends on it, where the system has such timers.

        Raises:
            TimeoutError: It took longer, and was killed.
            ProcessDiedError: The process ended without a result.
            Exception: Whatever `make` or the function raises.
        """
        with self._lock:
            self._start()
            succeeded, result = self._exchange((timeout, cpu_timeout, arguments), timeout)
        if not succeeded:
            raise result
        return cast(Result, result)

    def kill(self) -> None:
        """Kills the process, from any thread; a running call then raises ProcessDiedError."""
        self._finalizer()

    def close(self) -> None:
        """Kills the process, as `kill` does, and waits until a running call has raised; the next starts it again."""
        self._finalizer()
        with self._lock:
            self._popen = None

    def _start(self, timeout: float = _START_TIMEOUT) -> None:
        if self._owner != os.getpid():
            # A fork has the same pipes, and two who read from one get parts of each other's results.
            self._owner, self._popen = os.getpid(), None
        if self._popen is not None and self._popen.poll() is None:
            return
        popen = subprocess.Popen(
            [sys.executable, "-c", _BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )
        self._popen = popen
        self._finalizer = weakref.finalize(self, _kill_and_close, popen)
        assert popen.stdin is not None
        pickle.dump(sys.path, popen.stdin)
        succeeded, error = self._exchange(self._factory_call, timeout)
        if not succeeded:
            self._finalizer()  # There is nothing to call.
            raise error

    def _exchange(self, message: object, timeout: float) -> tuple[bool, Any]:
        """Whether what the message asks for succeeded, and the result or the error."""
        popen = self._popen
        assert popen is not None and popen.stdin is not None and popen.stdout is not None
        is_complete, is_late = False, threading.Event()

        def expire() -> None:
            is_late.set()
            popen.kill()

        timer = threading.Timer(timeout, expire)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump(message, popen.stdin)
            popen.stdin.flush()
            succeeded, result = pickle.load(popen.stdout)
            is_complete = True
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._finalizer()
            code = popen.returncode
            if is_late.is_set() or -code in _TIMER_SIGNALS:
                raise TimeoutError(f"no result after {timeout:g} seconds") from error
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise ProcessDiedError(f"a worker process ended without a result ({how})") from error
        finally:
            timer.cancel()
            # Cut short, as by Ctrl-C or an argument that cannot be pickled: the next call would get this result.
            if not is_complete:
                self._finalizer()
        return succeeded, result


_TIMER_SIGNALS = {getattr(signal, name) for name in ("SIGALRM", "SIGPROF") if hasattr(signal, name)}


def _kill_and_close(popen: subprocess.Popen[bytes]) -> None:
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
    function = _run_and_report(results, make, arguments, send_result=False)
    while True:
        try:
            timeout, cpu_timeout, arguments = pickle.load(calls)
        except EOFError:
            return
        _set_timers(timeout + _GRACE, cpu_timeout or 0)
        _run_and_report(results, function, arguments, send_result=True)
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


def _run_and_report(results: IO[bytes], function: Callable, arguments: Iterable[object], *, send_result: bool) -> Any:
    """Calls, and writes how that ended; the result itself is written only where the parent needs it."""
    result = None
    with _Caught() as caught:
        result = function(*arguments)
        written = pickle.dumps((True, result if send_result else None))
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
    """Lets the system end this process after some time: compiled code that holds the GIL does not prevent it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)


class Background(Generic[Result]):
    """A computation on another thread, for work that releases the GIL most of the time.

    The thread does not keep Python from exiting, as those of `concurrent.futures` do.

    Args:
        work: The function that computes the result.
    """

    elapsed_seconds: float = 0.0
    """How long the work took, once it is done."""

    def __init__(self, work: Callable[[], Result]):
        self._work = work
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> Result:
        """Waits for the result of the work, or raises its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        start = time.perf_counter()
        with _Caught() as caught:
            self._value = self._work()
        self._error = caught.error
        self.elapsed_seconds = time.perf_counter() - start
