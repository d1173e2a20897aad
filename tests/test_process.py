"""A process of our own: results and errors come back, and it ends at its limit, whatever holds its interpreter."""

import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

from edgewise.errors import DataError
from edgewise.learn.process import Background, Process, ProcessDiedError


def maker_of_deeds(name):
    """What the process does on demand."""

    def deed(what):
        if what == "fail":
            raise DataError(f"{name} fails")
        if what == "hang":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            time.sleep(60)
        if what == "rest":
            time.sleep(1)
        if what == "burn":
            while True:
                pass
        if what == "print":
            print("not a result")
            os.write(1, b"nor this")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "local":
            raise type("Local", (Exception,), {})("cannot travel")
        return f"{name}: {what}"

    return deed


@pytest.fixture(scope="module")
def process():
    process = Process(maker_of_deeds, "it")
    yield process
    process.close()


def test_results_and_errors_come_back(process):
    assert process.call("works", timeout=60) == "it: works"
    number = process.pid
    assert process.call("print", timeout=60) == "it: print"
    with pytest.raises(DataError, match="it fails"):
        process.call("fail", timeout=60)
    with pytest.raises(RuntimeError, match="Local: cannot travel"):
        process.call("local", timeout=60)
    assert process.pid == number


def test_it_is_killed_at_its_limits_and_starts_again(process):
    for limits in ({"timeout": 0.3}, {"timeout": 60, "cpu_timeout": 0.3}):
        process.start()
        number, began = process.pid, time.monotonic()
        with pytest.raises(TimeoutError):
            process.call("burn" if "cpu_timeout" in limits else "hang", **limits)
        assert time.monotonic() - began < 30
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    with pytest.raises(ProcessDiedError, match="SIGKILL"):
        process.call("die", timeout=60)
    assert process.call("works", timeout=60) == "it: works"


def test_a_factory_that_fails_raises_its_error_at_each_call():
    process = Process(operator.itemgetter)
    for _ in range(2):
        with pytest.raises(TypeError, match="itemgetter expected 1 argument"):
            process.call(0, timeout=60)


def test_a_call_that_was_cut_short_leaves_nothing_to_the_next(process):
    process.start()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            process.call("rest", timeout=60)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert process.call("works", timeout=60) == "it: works"
    with pytest.raises((AttributeError, pickle.PicklingError)):
        process.call(bytes(1 << 20), lambda: None, timeout=60)
    assert process.call("works", timeout=60) == "it: works"


def test_a_fork_starts_a_process_of_its_own(process):
    process.start()
    number = process.pid
    child = os.fork()
    if child == 0:
        ends_well = process.call("works", timeout=60) == "it: works" and process.pid != number
        process.kill()
        os._exit(0 if ends_well else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert process.call("works", timeout=60) == "it: works"
    assert process.pid == number


def test_it_ends_without_a_word_when_its_parent_is_gone():
    """It notices when it writes a result: here the first, that it is ready."""
    begin = "threading.Thread(target=Process(time.sleep, 0.5).start, daemon=True).start()"
    code = (
        f"import os, threading, time; from edgewise.learn.process import Process; {begin}; time.sleep(0.3); os._exit(0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=60, check=True)
    assert not ended.stderr


def test_background_work_gives_its_result_or_its_error():
    found = Background(lambda: sum(range(10)))
    assert found.result() == 45
    assert found.result() == 45
    assert 0 <= found.elapsed_seconds < 60
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 / 0).result()
