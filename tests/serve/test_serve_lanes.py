"""`edgewise serve` computes in processes: one that is stuck or killed costs one request and no other."""

import os
import signal
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from stand_in import molecule_row

KEY = "open sesame"
SLOW = "C" * 500
"""A row of so many characters is computed beside the quick ones."""


@pytest.fixture(scope="module")
def server(process):
    return process(0, "--port", 0, "--timeout", 4, num_files=144, EDGEWISE_API_KEY=KEY)


@pytest.fixture
def ask(server):
    _, address = server
    with httpx.Client(headers={"authorization": f"Bearer {KEY}"}, timeout=30) as client:

        def post(*names, seconds=30):
            rows = [molecule_row(name) for name in names]
            return client.post(f"{address}/predict", json={"rows": rows}, timeout=seconds)

        yield post


def children(process):
    """The processes that it started and that live."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    started = [each for thread in threads for each in (thread / "children").read_text().split()]
    return {int(each) for each in started if Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"}


def test_a_stuck_row_ends_at_the_limit_without_delaying_others(ask, server):
    _, address = server
    answers = []

    def stuck(name):
        headers = {"authorization": f"Bearer {KEY}"}
        body = {"rows": [molecule_row(name)]}
        answers.append(httpx.post(f"{address}/predict", json=body, headers=headers, timeout=30).status_code)

    began = time.monotonic()
    threads = [threading.Thread(target=stuck, args=(name,)) for name in (SLOW + "hang", SLOW + "hang again")]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    assert ask("CCO", seconds=2).status_code == 200
    for thread in threads:
        thread.join(20)
    assert answers == [504, 504]
    assert time.monotonic() - began < 12
    assert ask("CCO", SLOW).status_code == 200


def test_a_client_that_leaves_takes_its_rows_along(ask):
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            ask(*(f"{SLOW} hang {number}" for number in range(25)), seconds=0.3)
    # The other client's row is slow too: it needs the lane where the first was stuck.
    assert ask(SLOW, seconds=20).status_code == 200


def test_killed_processes_are_started_again(ask, server):
    process, _ = server
    deadline = time.monotonic() + 60

    def recovered():
        # A start takes its time on a busy machine; nothing but that may go wrong.
        while (status := ask("CCO", SLOW).status_code) != 200:
            assert status == 504
            assert time.monotonic() < deadline
        while len(found := children(process)) != 2:
            assert time.monotonic() < deadline
            ask("CCO")
        return found

    before = recovered()
    for number in before:
        os.kill(number, signal.SIGKILL)
    assert not recovered() & before
    # A row that kills its process is tried twice, and is the server's fault then.
    assert ask("die").status_code in (500, 504)
    recovered()


def test_idle_sockets_beyond_the_file_limit_do_not_block_requests(ask, server):
    process, address = server
    place = urlsplit(address)
    idle = []
    for _ in range(200):
        idle.append(socket.create_connection((place.hostname, place.port), timeout=20))
        # More at once than may wait to be accepted, and the system lets a client try again after whole seconds.
        time.sleep(0.005)
    for each in idle[::2]:
        each.sendall(b"POST /predict HTTP/1.1\r\n")
    assert ask("CCO", seconds=10).status_code == 200
    for each in idle:
        each.close()
    os.set_blocking(process.stderr.fileno(), False)
    # An empty non-blocking pipe can only be read as bytes: as text it raises TypeError.
    written = process.stderr.buffer.read() or b""
    assert b"Too many open files" not in written
    assert len(written) < 20_000
    assert KEY.encode() not in written
