"""Requests are checked before they are parsed: host name, API key, content type, length, time and nesting."""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import re
from collections.abc import Sequence
from typing import Any

from edgewise.learn.files import RepeatedKeyError, parse_json
from edgewise.serve.limits import Limits

_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""A string, to its end or that of the body; an opening bracket; a closing one. No character is matched twice."""


class RequestBounds:
    """An ASGI application that passes on small JSON of little depth, and refuses everything else with a reason.

    The length is checked while a body arrives: no more than the limit is ever held in memory.

    Args:
        app: The application that gets the requests.
        limits: The largest requests that pass.
        hosts: The names under which the server may be addressed: a name, `*.` before the end of names, `ip` for any
            numeric address, or `*`.
        api_key: The key that requests must have, except those for the page itself; None requires no key.
    """

    def __init__(self, app: Any, limits: Limits, hosts: Sequence[str] = ("*",), api_key: str | None = None):
        self.app, self.limits = app, limits
        self.hosts = tuple(host.lower() for host in hosts)
        self._key = None if api_key is None else _digest(api_key.encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuses a request, or passes it on with its body read."""
        if scope["type"] == "http" and _head_bytes(scope) > self.limits.header_bytes:
            # The protocol only bounds headers that come in pieces.
            await refuse(send, 431, f"the headers are longer than {self.limits.header_bytes:,} bytes")
            return

        headers = {name.lower(): value for name, value in scope.get("headers", ())}
        if scope["type"] == "http" and not self._is_allowed_host(headers.get(b"host", b"")):
            # DNS rebinding: a site may resolve its own name to this address and read our answers as its own.
            await refuse(send, 421, "unknown host name; allow it by --allowed-hosts")
            return

        if scope["type"] == "http" and not self._has_key(scope["path"], headers):
            await refuse(
                send,
                401,
                "the API key is missing or wrong; expected the header Authorization: Bearer KEY",
                ("www-authenticate", "Bearer"),
            )
            return

        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the protocol leaves out the body of the answer

        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return

        content_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if content_type == b"application/x-www-form-urlencoded" and not {b"origin", b"sec-fetch-site"} & headers.keys():
            # `curl -d` sends this type with every body. A browser that acts for another site also names that site.
            content_type = b"application/json"
            other_headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-type"]
            scope = {**scope, "headers": [*other_headers, (b"content-type", content_type)]}

        if content_type != b"application/json":
            # This keeps other sites out: before cross-site JSON a browser sends a preflight, which we refuse.
            await refuse(send, 415, "Content-Type must be application/json")
            return

        if (encoding := headers.get(b"content-encoding", b"identity").strip().lower()) != b"identity":
            name = encoding.decode("latin-1")[:20]
            await refuse(send, 415, f"Content-Encoding is {name}; send the JSON as it is, without this header")
            return

        body, problem = bytearray(), (0, "")
        try:
            async with asyncio.timeout(self.limits.seconds):
                problem = await self._read(headers, body, receive)
        except TimeoutError:
            problem = (408, f"the body did not arrive within {self.limits.seconds:g} seconds")

        if not problem[0] and nesting(body, self.limits.nesting) > self.limits.nesting:
            problem = (400, f"lists and objects are nested more than {self.limits.nesting} levels deep")
        if not problem[0] and (reason := repeated_key(body)):
            problem = (400, reason)
        if problem[0]:
            await refuse(send, *problem)
            return

        await self._answer(scope, bytes(body), receive, send)

    async def _answer(self, scope: Any, body: bytes, receive: Any, send: Any) -> None:
        """Passes a request on, and cancels the work on it when the client disconnects."""
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        # The whole body has arrived: the next message can only be the end of the connection.
        disconnected = asyncio.ensure_future(receive())

        async def receive_again() -> Any:
            return messages.pop() if messages else await asyncio.shield(disconnected)

        response = asyncio.ensure_future(self.app(scope, receive_again, send))
        try:
            await asyncio.wait([response, disconnected], return_when=asyncio.FIRST_COMPLETED)
            if response.done():
                response.result()
        finally:
            disconnected.cancel()
            response.cancel()
            await asyncio.wait([response])

    def _is_allowed_host(self, host: bytes) -> bool:
        name = re.sub(r":\d+$", "", host.decode("latin-1").lower())
        if "*" in self.hosts or name in self.hosts:
            return True
        if "ip" in self.hosts and _is_address(name):
            return True
        return any(host_name.startswith("*.") and name.endswith(host_name[1:]) for host_name in self.hosts)

    def _has_key(self, path: str, headers: dict[bytes, bytes]) -> bool:
        # The page reveals nothing of the model, and has a field for the key.
        if self._key is None or path == "/" or path.startswith("/assets/"):
            return True
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(key.strip()), self._key)

    async def _read(self, headers: dict[bytes, bytes], body: bytearray, receive: Any) -> tuple[int, str]:
        """Reads into `body`; returns the status and reason of a refusal, or 0."""
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


def repeated_key(body: bytes | bytearray) -> str:
    """Which key an object has twice, in words; empty where none has, or the body is not JSON.

    >>> repeated_key(b'{"text": "a", "text": "b"}')
    "the key 'text' stands twice in one object"
    """
    try:
        parse_json(body)
    except RepeatedKeyError as error:
        return str(error)
    except (ValueError, RecursionError):
        return ""  # FastAPI says what is wrong
    return ""


def nesting(body: bytes | bytearray, limit: int) -> int:
    """How deeply lists and objects are nested, outside strings; the count stops beyond `limit`.

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
        if deepest > limit:
            break

    return deepest


def _head_bytes(scope: Any) -> int:
    """The length of a request's path and headers, as they were sent."""
    lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in scope.get("headers", ()))
    return lines + len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))


def _digest(key: bytes) -> bytes:
    """A digest of fixed length: the time of a comparison then reveals nothing of the key."""
    return hashlib.sha256(key).digest()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def refuse(send: Any, status: int, reason: str, *extra_headers: tuple[str, str]) -> None:
    """Sends an error in the form of `ErrorAnswer`."""
    body = json.dumps({"error": reason, "where": None}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in extra_headers]
    # The connection closes: the unread rest of the body would be taken for the next request.
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
