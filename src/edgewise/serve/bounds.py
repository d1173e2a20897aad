"""Requests are bounded before anybody reads them: the host they name, their key, kind, length, time and depth."""

import asyncio
import hashlib
import hmac
import ipaddress
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
        hosts: The names under which the server may be addressed: a name, `*.` before the end of names, `ip` for any
            address in numbers, or `*`.
        api_key: What requests must bring, but for the page itself; None for nothing.
    """

    def __init__(self, app: Any, limits: Limits, hosts: Sequence[str] = ("*",), api_key: str | None = None):
        self.app, self.limits = app, limits
        self.hosts = tuple(host.lower() for host in hosts)
        self._key = None if api_key is None else _digest(api_key.encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request, or hands it on with its body read."""
        if scope["type"] == "http" and _head_bytes(scope) > self.limits.header_bytes:
            # The protocol only bounds headers that come in pieces.
            await refuse(send, 431, f"the headers are longer than {self.limits.header_bytes:,} bytes")
            return
        headers = {name.lower(): value for name, value in scope.get("headers", ())}
        if scope["type"] == "http" and not self._is_called(headers.get(b"host", b"")):
            # A site may let its own name lead here, and would then read our answers as its own.
            await refuse(send, 421, "this server does not answer to that name; allow it by --allowed-hosts")
            return
        if scope["type"] == "http" and not self._has_key(scope["path"], headers):
            await refuse(send, 401, "expected the API key: Authorization: Bearer KEY", ("www-authenticate", "Bearer"))
            return
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind == b"application/x-www-form-urlencoded" and not {b"origin", b"sec-fetch-site"} & headers.keys():
            # What `curl -d` calls every body. A browser, which may act for another site, names that site beside it.
            kind = b"application/json"
            others = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", kind)]}
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
        await self._answer(scope, bytes(body), receive, send)

    async def _answer(self, scope: Any, body: bytes, receive: Any, send: Any) -> None:
        """Hands a request on, and ends the work on it when the client is gone."""
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        # All of the body is here: what comes next can only be the end of the connection.
        leaving = asyncio.ensure_future(receive())

        async def again() -> Any:
            return waiting.pop() if waiting else await asyncio.shield(leaving)

        answering = asyncio.ensure_future(self.app(scope, again, send))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            leaving.cancel()
            answering.cancel()
            await asyncio.wait([answering])

    def _is_called(self, host: bytes) -> bool:
        name = re.sub(r":\d+$", "", host.decode("latin-1").lower())
        if "*" in self.hosts or name in self.hosts:
            return True
        if "ip" in self.hosts and _is_address(name):
            return True
        return any(known.startswith("*.") and name.endswith(known[1:]) for known in self.hosts)

    def _has_key(self, path: str, headers: dict[bytes, bytes]) -> bool:
        # The page contains nothing of the model, and has a field for the key.
        if self._key is None or path == "/" or path.startswith("/assets/"):
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(given.strip()), self._key)

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


def _head_bytes(scope: Any) -> int:
    """The length of a request's path and headers, as they were sent."""
    lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in scope.get("headers", ()))
    return lines + len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))


def _digest(key: bytes) -> bytes:
    """Of one length for all keys: the time of a comparison then reveals nothing of the key."""
    return hashlib.sha256(key).digest()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def refuse(send: Any, status: int, reason: str, *more: tuple[str, str]) -> None:
    """An error as the interface has them."""
    body = json.dumps({"error": reason, "where": None}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in more]
    # What is left of the body would be taken for the next request.
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
