"""`edgewise serve` as a process: what it prints, where it listens, how it ends."""

import signal
import subprocess
import threading
import time

import httpx
import pytest
from stand_in import command_of, environment, molecule_row


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
