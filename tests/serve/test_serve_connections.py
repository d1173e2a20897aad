"""Files, names and lines of the log are bounded."""

import argparse
import logging
import resource

import pytest

from edgewise.cli.serve import hosts_of
from edgewise.errors import SettingError
from edgewise.serve.connections import LINES, RateLimit, within_file_limit


def arguments(host, *allowed):
    return argparse.Namespace(host=host, allowed_hosts=allowed)


def test_connections_leave_files_for_those_that_wait_to_be_accepted(monkeypatch):
    raised = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: raised.append(limits))
    for limits, expected, new in (
        ((256, 256), (160, 32), []),
        ((256, 4096), (512, 88), [(704, 4096)]),
        ((100_000, 100_000), (512, 128), []),
        ((resource.RLIM_INFINITY,) * 2, (512, 88), []),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limits=limits: limits)
        raised.clear()
        assert within_file_limit(512) == expected
        assert raised == new
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 64))
    with pytest.raises(SettingError, match="the limit of open files is 64; a server needs at least"):
        within_file_limit(512)


def test_a_flood_of_lines_is_left_out_and_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    limit = RateLimit()
    record = lambda: logging.LogRecord("edgewise.serve", logging.ERROR, "", 0, "%s went wrong", ("it",), None)  # noqa: E731
    assert sum(limit.filter(record()) for _ in range(5000)) == LINES
    now[0] = 1.0
    last = record()
    assert limit.filter(last)
    assert last.getMessage() == f"it went wrong ({5000 - LINES:,} lines dropped before)"
    assert not limit.filter(record())


def test_a_server_on_the_network_answers_to_no_name_of_strangers():
    assert set(hosts_of(arguments("127.0.0.1"))) == {"127.0.0.1", "localhost", "[::1]"}
    assert {"ip", "0.0.0.0", "localhost"} <= set(hosts_of(arguments("0.0.0.0")))
    assert "*" not in hosts_of(arguments("0.0.0.0"))
    assert "ip" not in hosts_of(arguments("0.0.0.0", "models.example.org"))
    assert "models.example.org" in hosts_of(arguments("0.0.0.0", "models.example.org"))
