"""Connections are bounded: how many, how long one may wait without a request, and how much is written to the log."""

import asyncio
import logging
import sys
import time
from collections import Counter
from typing import Any

from edgewise.errors import MissingExtraError, SettingError
from edgewise.serve.limits import Limits

try:
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise MissingExtraError("uvicorn", "serve") from error

_RESERVED_FILES = 64
"""Files that a server opens besides its connections: modules, pipes to its processes."""
LINES, LINES_PER_SECOND = 20, 1.0
"""How many lines the log takes at once, and how many more each second."""
LINE_CHARACTERS = 4_000
_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


def within_file_limit(connections: int) -> tuple[int, int]:
    """The number of connections that may be open, and the backlog, within the limit of open files.

    asyncio accepts the whole backlog before it returns the first connection, so there must be files for it too: without
    them, it writes a traceback for each waiting connection, again and again.

    Raises:
        SettingError: The limit of open files is too low.
    """
    try:
        import resource
    except ModuleNotFoundError:
        return connections, 128  # not a Unix: there is no such limit

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = soft
    if soft != resource.RLIM_INFINITY:
        wanted = connections + 128 + _RESERVED_FILES
        files = max(soft, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
        if files > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    else:
        files = connections + 128 + _RESERVED_FILES

    backlog = max(8, min(128, files // 8))
    room = files - backlog - _RESERVED_FILES
    if room < 8:
        raise SettingError(f"the limit of open files is {files}; a server needs at least 144: ulimit -n 1024.")

    return min(connections, room), backlog


def bounded_protocol(limits: Limits, connections: int) -> type[H11Protocol]:
    """uvicorn's HTTP protocol with limits that uvicorn does not have.

    Args:
        limits: How long a connection may wait for the end of a request's headers, or for the client to read its answer.
        connections: The number of connections that may be open.
    """

    class BoundedProtocol(H11Protocol):
        """One connection."""

        _head: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None
        since = 0.0

        @property
        def is_waiting(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        @property
        def address(self) -> str | None:
            """That of the client."""
            return self.client and self.client[0]

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_head()
            if len(self.connections) > connections:
                self._make_room()

        def _make_room(self) -> None:
            """Closes an idle connection of the address with the most connections, else this one: the oldest of those
            that never asked, else the oldest, whose client may be asking again just now."""
            connected: set[Any] = self.connections  # all are of this class
            idle = [connection for connection in connected if connection is not self and connection.is_waiting]
            if not idle:
                self._end(_FULL)
                return
            counts = Counter(connection.address for connection in connected)
            oldest = min(idle, key=lambda one: (-counts[one.address], one.cycle is not None, one.since))
            self.connections.discard(oldest)
            oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self.is_waiting:
                self._cancel_head()
            elif self._head is None:
                self._wait_for_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.is_waiting and not self.transport.is_closing():
                self._cancel_head()
                self._wait_for_head()

        def _wait_for_head(self) -> None:
            self.since = self.loop.time()
            self._head = self.loop.call_later(limits.header_seconds, self._end, _LATE)

        def _cancel_head(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

        def _end(self, answer: bytes) -> None:
            """Answers and closes, whether or not the client reads."""
            if not self.transport.is_closing():
                self.transport.write(answer)
                self.transport.close()
            self.loop.call_later(1, self.transport.abort)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stuck is None:
                self._stuck = self.loop.call_later(limits.seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_head()
            if self._stuck is not None:
                self._stuck.cancel()
            super().connection_lost(exc)

    return BoundedProtocol


class RateLimit(logging.Filter):
    """Passes a burst of lines and then one a second, and counts those that it drops."""

    def __init__(self) -> None:
        super().__init__()
        self._left, self._last, self._num_dropped = float(LINES), time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether there is room for the line."""
        now = time.monotonic()
        self._left = min(LINES, self._left + (now - self._last) * LINES_PER_SECOND)
        self._last = now
        if self._left < 1:
            self._num_dropped += 1
            return False
        self._left -= 1
        if self._num_dropped:
            record.msg, record.args = f"{record.getMessage()} ({self._num_dropped:,} lines dropped before)", None
            self._num_dropped = 0
        return True


class _ShortLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if len(text) <= LINE_CHARACTERS else f"{text[:LINE_CHARACTERS]} … ({len(text):,} characters)"


def bound_log() -> None:
    """Sends warnings and errors of the server to the screen, within bounds."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_ShortLines("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(RateLimit())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "edgewise.serve"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([] if name.startswith("uvicorn.") else [handler]), "." in name
        logger.setLevel(logging.WARNING)
    logging.getLogger("edgewise.serve").propagate = False
