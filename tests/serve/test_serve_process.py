"""`edgewise serve` as a process: what it prints, where it listens, how it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from stand_in import molecule_row

SERVED = """
import sys, types
from stand_in import StandIn
explaining = types.ModuleType("edgewise.estimators.explaining")
explaining.Explainer = types.SimpleNamespace(open=lambda folder: StandIn(seconds=float(folder)))
sys.modules["edgewise.estimators.explaining"] = explaining
from edgewise.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


@pytest.fixture
def process():
    """Starts `edgewise serve`; gives the process and its address."""
    started = []

    def start(*words):
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        command = [sys.executable, "-W", "error", "-c", SERVED, *map(str, words)]
        done = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        started.append(done)
        line = done.stdout.readline()
        assert "http://" in line, done.stderr.read()
        return done, line.split()[1]

    yield start
    for done in started:
        done.kill()
        done.communicate()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_what_is_running_and_ends(process, sign):
    server, address = process(0.7, "--port", 0)
    assert address.startswith("http://127.0.0.1:")
    answers = []
    ask = lambda: answers.append(httpx.post(f"{address}/predict", json={"rows": [molecule_row()]}, timeout=20))  # noqa: E731
    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.4)
    server.send_signal(sign)
    asking.join(20)
    _, err = server.communicate(timeout=20)
    assert [answer.status_code for answer in answers] == [200]
    assert (server.returncode, err) == (0, "stopped\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_a_name_that_leads_to_loopback_is_not_answered(process):
    _, address = process(0, "--port", 0)
    assert httpx.get(f"{address}/model").status_code == 200
    assert httpx.get(f"{address}/model", headers={"host": "evil.example"}).status_code == 421


def test_a_taken_port_is_said_in_a_line(process):
    _, address = process(0, "--port", 0)
    port = address.rsplit(":", 1)[1]
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", SERVED, "0", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"edgewise: error: --host 127.0.0.1 --port {port} cannot be listened at: ")
    assert done.stderr.endswith("; --port 0 takes a free one.\n")
    assert done.stderr.count("\n") == 1
