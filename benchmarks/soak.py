"""`edgewise serve` for minutes under 32 clients on loopback, some of them hostile: does memory grow, are answers right?

    python benchmarks/soak.py [--minutes 10] [--write]

A model of molecules is trained in seconds and served. Ordinary clients ask for predictions and explanations, compare
each with what the server answered before the others came, and wait a moment. Beside them clients leave in the middle
of a request or of its answer, send headers or bodies a byte at a time, bodies of megabytes, and broken JSON. Sampled
are the memory of the server with its processes (pages that they share counted once) and its open files. It fails when
an ordinary request is not answered, or wrongly, when the server is at fault for a hostile one (500), when it ends, or
when memory or files grow after the first quarter of the time.

With --write: benchmarks/results/soak.json, and the table of docs/scaling.md.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from written import write_between  # noqa: E402

from attack.server import descendants, memory_of  # noqa: E402
from serve import answer, percentile, served, train  # noqa: E402

BEGIN, END = "<!-- soak: written by benchmarks/soak.py -->\n", "<!-- end of soak -->"
CLIENTS = {
    "predictions": 18,
    "explanations": 2,
    "gone before the answer": 2,
    "gone within the request": 2,
    "headers a byte at a time": 2,
    "a body a byte at a time": 2,
    "bodies of megabytes": 2,
    "broken JSON": 2,
}
"""What the clients do, and how many do it."""
PATHS = {"predictions": "/predict", "explanations": "/explain"}
ORDINARY = tuple(PATHS)
GOOD = ("200", "sent again")
FLAGS = ("--timeout", "30", "--header-timeout", "5", "--max-connections", "128")
NUM_MOLECULES, PAUSE, EVERY = 64, 0.05, 1.0
"""Different molecules; seconds between two requests of a client; seconds between two samples of memory."""
MAX_GROWTH = 0.1
"""By what share the median memory of the last quarter may exceed that of the second quarter."""
BROKEN = (
    b"{",
    b"[" * 9000,
    b'{"rows": 3}',
    b'{"rows": [{"smiles": 1}]}',
    b"\xff",
    b'{"rows": [{"smiles": "\\ud800"}]}',
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Soak:
    """All clients of one server, and what they saw."""

    def __init__(self, port: int, smiles: list[str], known: list[float], until: float):
        self.port, self.smiles, self.known, self.until = port, smiles, known, until
        self.times: dict[str, list[float]] = {name: [] for name in ORDINARY}
        self.seen: dict[str, Counter[str]] = {name: Counter() for name in CLIENTS}
        self.samples: list[tuple[float, int, int]] = []
        self.wrong = 0

    async def run(self, pid: int) -> None:
        """Lets all clients loose until the time is over."""
        acts: dict[str, Callable[[random.Random], Awaitable[str]]] = {
            "gone before the answer": self.leave_early,
            "gone within the request": self.leave_within,
            "headers a byte at a time": self.slow_headers,
            "a body a byte at a time": self.slow_body,
            "bodies of megabytes": self.large_body,
            "broken JSON": self.broken,
        }
        works = [self.ordinary(name, number) for name in ORDINARY for number in range(CLIENTS[name])]
        works += [self.hostile(name, acts[name], n) for name in acts for n in range(CLIENTS[name])]
        await asyncio.gather(*works, self.sample(pid))

    async def open(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ordinary(self, name: str, number: int) -> None:
        """One molecule after another on a connection that is kept, or opened again where the server closed it."""
        draw, streams, was_used = random.Random(f"{name} {number}"), await self.open(), False
        while time.monotonic() < self.until:
            place = draw.randrange(len(self.smiles))
            began = time.monotonic()
            try:
                status, found = await answer(*streams, self.smiles[place], PATHS[name])
            except (OSError, asyncio.IncompleteReadError) as error:
                # A server may close a connection that waits, just when a request is sent: it is sent again, once.
                part = getattr(error, "partial", b"")
                self.seen[name]["sent again" if was_used and not part else type(error).__name__] += 1
                streams[1].close()
                streams, was_used = await self.open(), False
                continue
            was_used = True
            self.times[name].append(time.monotonic() - began)
            self.seen[name][str(status)] += 1
            if status == 200:
                told = found["rows"][0]["predictions"] if name == "predictions" else found["predictions"]
                self.wrong += abs(told[0]["value"] - self.known[place]) > 1e-4
            await asyncio.sleep(PAUSE)
        streams[1].close()

    async def hostile(self, name: str, act: Callable[[random.Random], Awaitable[str]], number: int) -> None:
        """One attack after another of the same kind."""
        draw = random.Random(f"{name} {number}")
        while time.monotonic() < self.until:
            try:
                self.seen[name][await act(draw)] += 1
            except OSError:
                self.seen[name]["closed"] += 1
            await asyncio.sleep(PAUSE)

    async def sample(self, pid: int) -> None:
        """Time, memory and open files of the server."""
        began = time.monotonic()
        while time.monotonic() < self.until:
            size = sum(memory_of(each) for each in (pid, *descendants(pid)))
            self.samples.append((time.monotonic() - began, size, len(os.listdir(f"/proc/{pid}/fd"))))
            await asyncio.sleep(EVERY)

    def head(self, length: int) -> bytes:
        """The headers of a request."""
        line = "POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
        return f"{line}\r\ncontent-length: {length}\r\n\r\n".encode()

    def body(self, draw: random.Random, rows: int) -> bytes:
        """Rows of molecules."""
        return json.dumps({"rows": [{"smiles": draw.choice(self.smiles)} for _ in range(rows)]}).encode()

    async def leave_early(self, draw: random.Random) -> str:
        body = self.body(draw, 16)
        _, writer = await self.open()
        writer.write(self.head(len(body)) + body)
        await writer.drain()
        await asyncio.sleep(draw.random() * 0.1)
        writer.transport.abort()
        return "left"

    async def leave_within(self, draw: random.Random) -> str:
        body = self.body(draw, 16)
        whole = self.head(len(body)) + body
        _, writer = await self.open()
        writer.write(whole[: draw.randrange(1, len(whole))])
        await writer.drain()
        writer.transport.abort()
        return "left"

    async def slow_headers(self, draw: random.Random) -> str:
        return await self.slowly(b"", self.head(10)[:-2])

    async def slow_body(self, draw: random.Random) -> str:
        return await self.slowly(self.head(9000), b" " * 9000)

    async def slowly(self, at_once: bytes, rest: bytes) -> str:
        """The status of the answer to a request whose end comes a byte at a time; none where the time is over."""
        reader, writer = await self.open()
        writer.write(at_once)
        status = asyncio.ensure_future(first_status(reader))
        for place in range(len(rest)):
            if status.done() or time.monotonic() > self.until:
                break
            writer.write(rest[place : place + 1])
            await asyncio.wait([status], timeout=0.25)
        writer.transport.abort()
        return status.result() if status.done() else await stopped(status)

    async def large_body(self, draw: random.Random) -> str:
        length = draw.choice((1 << 21, 1 << 22, 1 << 23))
        reader, writer = await self.open()
        chunked = draw.random() < 0.5
        head = self.head(length)
        writer.write(head.replace(b"content-length: %d" % length, b"transfer-encoding: chunked") if chunked else head)
        status = asyncio.ensure_future(first_status(reader))
        with contextlib.suppress(OSError):
            for _ in range(length >> 16):
                writer.write(b"10000\r\n" + b" " * (1 << 16) + b"\r\n" if chunked else b" " * (1 << 16))
                await writer.drain()
                if status.done():
                    break
        await asyncio.wait([status], timeout=30)
        writer.transport.abort()
        return status.result() if status.done() else await stopped(status)

    async def broken(self, draw: random.Random) -> str:
        body = draw.choice(BROKEN)
        reader, writer = await self.open()
        writer.write(self.head(len(body)) + body)
        status = await first_status(reader)
        writer.close()
        return status

    def report(self, ended: bool, log_bytes: int) -> dict[str, Any]:
        """What all of them saw, and whether it is what was promised."""
        quarter = max(1, len(self.samples) // 4)
        sizes = [size for _, size, _ in self.samples]
        early, late = (statistics.median(each) for each in (sizes[quarter : 2 * quarter], sizes[-quarter:]))
        files = [count for _, _, count in self.samples]
        refused = sum(count for name in ORDINARY for status, count in self.seen[name].items() if status not in GOOD)
        faults = sum(seen["500"] for seen in self.seen.values())
        growth = late / early - 1
        latency = {
            name: {f"p{share}_ms": round(1000 * percentile(times, share), 1) for share in (50, 99)}
            for name, times in self.times.items()
            if len(times) > 1
        }
        return {
            "requests": sum(seen.total() for seen in self.seen.values()),
            "seen": {name: dict(sorted(seen.items())) for name, seen in self.seen.items()},
            "latency": latency,
            "wrong_answers": self.wrong,
            "memory_mib": {
                "first": sizes[0] >> 20, "second_quarter": int(early) >> 20, "last_quarter": int(late) >> 20,
                "most": max(sizes) >> 20,
            },
            "growth": round(growth, 4),
            "files": {"first": files[0], "last": files[-1], "most": max(files)},
            "log_bytes": log_bytes,
            "samples": [(round(when), size >> 20, files) for when, size, files in self.samples[:: quarter // 15 or 1]],
            "broken": {
                name: value
                for name, value in {
                    "ordinary requests without an answer": refused, "wrong answers": self.wrong, "faults": faults,
                    "the server ended": int(ended), "memory grew": int(growth > MAX_GROWTH),
                }.items()
                if value
            },
        }  # fmt: skip


async def first_status(reader: asyncio.StreamReader) -> str:
    """The status of the answer that comes next; `closed` where none does."""
    try:
        line = await reader.readline()
    except OSError:
        return "closed"
    return line[9:12].decode() or "closed"


async def stopped(waiting: "asyncio.Future[str]") -> str:
    """Ends what waits for an answer."""
    waiting.cancel()
    await asyncio.wait([waiting])
    return "unfinished"


async def soak(port: int, pid: int, smiles: list[str], seconds: float) -> Soak:
    """Asks for every molecule alone, then with all clients at once."""
    known = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for each in smiles:
        status, found = await answer(reader, writer, each)
        assert status == 200, found
        known.append(found["rows"][0]["predictions"][0]["value"])
    writer.close()
    field = Soak(port, smiles, known, time.monotonic() + seconds)
    await field.run(pid)
    return field


def measured(minutes: float) -> dict[str, Any]:
    """The figures of so many minutes."""
    with tempfile.TemporaryDirectory() as folder:
        run, smiles = train(Path(folder), ["--no-molecule-descriptors"])
        log = Path(folder) / "log.txt"
        with log.open("wb") as errors, served(run, list(FLAGS), errors) as (port, process):
            field = asyncio.run(soak(port, process.pid, smiles[:NUM_MOLECULES], 60 * minutes))
            ended = process.poll() is not None
        machine = {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
        }
        return {"machine": machine, "minutes": minutes, "clients": CLIENTS, **field.report(ended, log.stat().st_size)}


def table_of(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| clients | number | what came back | p50, ms | p99, ms |", "|---|---|---|---|---|"]
    for name, seen in found["seen"].items():
        came = ", ".join(f"{status}: {count:,}" for status, count in seen.items())
        lines.append(f"| {name} | {found['clients'][name]} | {came} | {_times(found, name)} |")
    memory, files = found["memory_mib"], found["files"]
    text = (
        f"{found['requests']:,} requests in {found['minutes']:g} minutes, {found['wrong_answers']} wrong answers. "
        f"Memory of the server with its processes: {memory['first']} MiB at the start, {memory['second_quarter']} MiB "
        f"in the second quarter of the time, {memory['last_quarter']} MiB in the last, {memory['most']} MiB at most. "
        f"Open files: {files['first']} at the start, {files['last']} at the end, {files['most']} at most. Log: "
        f"{found['log_bytes']:,} bytes. The load of the {found['machine']['cores']} cores at the end was "
        f"{found['machine']['load']:.0f}, so the times are upper bounds; 504 says that --timeout (30 s) has passed. "
        f"Broken promises: {found['broken'] or 'none'}."
    )
    return "\n".join(lines) + f"\n\n{text}\n"


def _times(found: dict[str, Any], name: str) -> str:
    times = found["latency"].get(name)
    return "| " if times is None else f"{times['p50_ms']} | {times['p99_ms']}"


def main() -> None:
    """Measures, and prints or writes."""
    parser = argparse.ArgumentParser(description="edgewise serve under 32 clients on loopback.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = measured(options.minutes)
    print(json.dumps(found, indent=1))
    if options.write:
        (HERE / "results" / "soak.json").write_text(json.dumps(found, indent=1) + "\n")
        write_between(BEGIN, END, table_of(found))
    if found["broken"]:
        raise SystemExit(f"broken: {found['broken']}")


if __name__ == "__main__":
    main()
