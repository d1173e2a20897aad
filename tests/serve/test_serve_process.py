"""`edgewise serve` as a process: what it prints, where it listens, how it ends."""

import signal
import subprocess
import threading
import time
from argparse import Namespace

import httpx
import pytest
from stand_in import command_of, environment, molecule_row

from edgewise.cli.serve import lanes_of
from edgewise.learn.tables.options import TableFormat, current_format, current_limits, read_limits, table_format


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_what_is_running_and_ends(process, sign):
    server, address = process(0.7, "--port", 0, "--workers", 1)
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


def test_a_name_that_leads_to_loopback_is_not_answered_and_a_taken_port_is_said_in_a_line(process):
    _, address = process(0, "--port", 0, "--workers", 1)
    assert httpx.get(f"{address}/model").status_code == 200
    assert httpx.get(f"{address}/model", headers={"host": "evil.example"}).status_code == 421

    port = address.rsplit(":", 1)[1]
    command = command_of(0, "--port", port, "--workers", 1)
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"edgewise: error: --host 127.0.0.1 --port {port} cannot be used: ")
    assert done.stderr.endswith("; --port 0 takes a free one.\n")
    assert done.stderr.count("\n") == 1


def test_a_process_of_the_server_reads_tables_as_the_command_says(monkeypatch):
    """Each opens the model itself, and reads training tables for it; --max-columns did not reach it."""
    found = []

    class Lane:
        def __init__(self, open_model, _):
            self.open_model = open_model

        def start(self):
            with read_limits(), table_format(TableFormat()):  # those of a process that has just started
                self.open_model()

        def close(self):
            pass

    monkeypatch.setattr("edgewise.serve.lanes.ProcessLane", Lane)
    monkeypatch.setattr(
        "edgewise.learn.tasks.explainer.Explainer.open",
        lambda *_, **__: found.append((current_limits(), current_format())),
    )
    arguments = Namespace(folder="run", workers=1, max_atoms=None, molecule_timeout=None)
    with read_limits(max_columns=7), table_format(TableFormat(delimiter=";")), lanes_of(arguments):
        pass
    assert [(limits.max_columns, form.delimiter) for limits, form in found] == [(7, ";")]
