"""Bodies are bounded before anybody reads them: their kind, length, time and depth."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from edgewise.serve.limits import Limits

_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""A string, to its end or that of the body; what opens; what closes. It never looks at a character twice."""


class Bounds:
    """An ASGI application that lets through what is small and shallow JSON, and refuses the rest with its reason.

    A body is measured while it comes in: of one that is too long no more than the limit is ever held.

    Args:
        app: The application behind it.
        limits: What is let through.
        hosts: The names under which the server may be addressed, or `*`.
    """

    def __init__(self, app: Any, limits: Limits, hosts: Sequence[str] = ("*",)):
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request, or hands it on with its body read."""
        headers = {name.lower(): value for name, value in scope.get("headers", ())}
        if scope["type"] == "http" and not self._is_called(headers.get(b"host", b"")):
            # A site may let its own name lead here, and would then read our answers as its own.
            await refuse(send, 421, "this server is not called so; name it by --host")
            return
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != b"application/json":
            # Also what keeps other sites out: a browser sends JSON elsewhere only after asking, and we do not answer.
            await refuse(send, 415, "expected a body of the type application/json")
            return
        body, problem = bytearray(), (0, "")
        try:
            async with asyncio.timeout(self.limits.seconds):
                problem = await self._read(headers, body, receive)
        except TimeoutError:
            problem = (408, f"the body did not arrive within {self.limits.seconds:g} seconds")
        if not problem[0] and nesting(body, self.limits.nesting) > self.limits.nesting:
            problem = (400, f"lists and objects lie deeper than {self.limits.nesting} in each other")
        if problem[0]:
            await refuse(send, *problem)
            return
        waiting = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, again, send)

    def _is_called(self, host: bytes) -> bool:
        name = host.decode("latin-1").lower()
        return "*" in self.hosts or re.sub(r":\d+$", "", name) in self.hosts

    async def _read(self, headers: dict[bytes, bytes], body: bytearray, receive: Any) -> tuple[int, str]:
        """Reads into `body`; the status and reason of a refusal, or 0."""
        too_long = (413, f"the body is longer than {self.limits.body:,} bytes")
        promised = headers.get(b"content-length", b"0")
        if not promised.isdigit() or len(promised) > 12 or int(promised) > self.limits.body:
            return too_long
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return 400, "the connection was closed before the body ended"
            body += message.get("body", b"")
            if len(body) > self.limits.body:
                return too_long
            if not message.get("more_body", False):
                return 0, ""


def nesting(body: bytes | bytearray, enough: int) -> int:
    """How deep lists and objects lie in each other, outside strings; counted no further than beyond `enough`.

    >>> nesting(b'{"rows": [{"text": "[[[["}]}', 16)
    3
    """
    deepest = depth = 0
    for mark in _MARK.finditer(body):
        sign = body[mark.start()]
        if sign in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in b"]}":
            depth -= 1
        if deepest > enough:
            break
    return deepest


async def refuse(send: Any, status: int, reason: str) -> None:
    """An error as the interface has them."""
    body = json.dumps({"error": reason, "where": None}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    # What is left of the body would be taken for the next request.
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
