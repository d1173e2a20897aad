"""A real server on a model trained on the spot, with honest and hostile clients at once; on loopback only.

Honest clients must be answered whatever the hostile ones do: what they got otherwise is counted, and so are the
statuses of the hostile ones, the memory of the server with its processes, the bytes of its log, and kills survived.
"""

import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

KEY = "open sesame"
FILES = 256
"""The limit of open files of the server: its idle sockets are more."""
TIMEOUT = 15
DRUGS = ("CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CCO", "c1ccncc1")
# An honest request may meet a process that was killed, or wait for its start.
EXPECTED = {200, 504}


def run(minutes: float = 3.0, seed: int = 0) -> dict[str, Any]:
    """Attacks a server for some minutes.

    Args:
        minutes: How long, at most eight.
        seed: What the hostile clients draw from.

    Returns:
        Counts and times; `broken` counts what must not occur: an honest request that was refused, a hostile one that
        was the server's fault, a log or a memory that grew beyond bounds, a server that ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder))
        return attack(Path(folder), min(minutes, 8.0) * 60, seed)


def train(folder: Path) -> None:
    """A model of molecules with all their descriptors, in seconds."""
    ends = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
    rows = [f"{'C' * (1 + number // 5)}{ends[number % 5]},{number / 7}" for number in range(40)]
    (folder / "table.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    words = ["train", "table.csv", "--smiles-columns", "smiles", "--target-columns", "y", "-o", "run", "--no-baselines"]
    words += ["--epochs", "2", "--model-dim", "8", "--num-heads", "2", "--num-layers", "1", "--head-dim", "8"]
    command = [sys.executable, "-m", "edgewise.cli.main", *words]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True, timeout=300)


def environment() -> dict[str, str]:
    """The library of this process, and the key."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "EDGEWISE_API_KEY": KEY}


def attack(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Starts the server, lets everybody loose on it, and counts."""
    words = ["serve", "run", "--port", "0", "--timeout", str(TIMEOUT), "--header-timeout", "3"]
    command = [sys.executable, "-m", "edgewise.cli.main", *words, "--molecule-timeout", "3"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))  # noqa: E731
    log = folder / "log.txt"
    with log.open("wb") as err:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": err, "text": True}
        server = subprocess.Popen(command, cwd=folder, env=environment(), preexec_fn=limit, **pipes)
        try:
            assert server.stdout is not None
            began = time.monotonic()
            line = server.stdout.readline()
            start_seconds = time.monotonic() - began
            assert "http://127.0.0.1:" in line, log.read_text()
            field = Field(server.pid, line.split()[1], time.monotonic() + seconds, seed)
            field.start_seconds = start_seconds
            field.fight()
            ended = server.poll() is not None
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(3 * TIMEOUT)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    return field.report(log.stat().st_size, ended)


class Field:
    """All clients of one server, and what they saw."""

    def __init__(self, pid: int, address: str, end: float, seed: int):
        self.pid, self.address, self.end, self.seed = pid, address, end, seed
        self.port = int(address.rsplit(":", 1)[1])
        self.times: list[float] = []
        self.honest: Counter[str] = Counter()
        self.hostile: dict[str, Counter[str]] = {}
        self.start_seconds = 0.0
        self.peak_bytes = self.num_kills = self.num_survived = 0

    def fight(self) -> None:
        """Runs all clients until the end."""
        hostile: dict[str, Callable[[random.Random], str]] = {
            "long SMILES": self.long_smiles,
            "dense SMILES": self.dense_smiles,
            "odd SMILES": self.odd_smiles,
            "explanations": self.explanations,
            "huge body": self.huge_body,
            "slow headers": self.slow_headers,
            "slow body": self.slow_body,
            "idle sockets": self.idle_sockets,
            "abandoned": self.abandoned,
            "broken JSON": self.broken_json,
            "wrong host": self.wrong_host,
            "wrong key": self.wrong_key,
            "no HTTP": self.no_http,
        }
        threads = [threading.Thread(target=self.be_honest) for _ in range(3)]
        threads += [threading.Thread(target=self.be_hostile, args=item) for item in hostile.items()]
        threads += [threading.Thread(target=self.kill_processes), threading.Thread(target=self.watch_memory)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def report(self, log_bytes: int, ended: bool) -> dict[str, Any]:
        """What all of them saw."""
        times = sorted(self.times) or [float("nan")]
        faults = sum(kinds["500"] for kinds in self.hostile.values())
        wrong = sum(
            count for status, count in self.honest.items() if not status.isdigit() or int(status) not in EXPECTED
        )
        wrong += self.honest["wrong answer"]
        too_large = (log_bytes > 1 << 20) + (self.peak_bytes > 4 << 30)
        return {
            "requests": self.honest.total() + sum(kinds.total() for kinds in self.hostile.values()),
            "honest": dict(self.honest),
            "honest_p50_ms": round(1000 * times[len(times) // 2], 1),
            "honest_p99_ms": round(1000 * times[int(len(times) * 0.99)], 1),
            "hostile": {name: dict(kinds) for name, kinds in self.hostile.items()},
            "peak_memory_mib": self.peak_bytes >> 20,
            "log_bytes": log_bytes,
            "start_seconds": round(self.start_seconds, 1),
            "kills": self.num_kills,
            "kills_survived": self.num_survived,
            "broken": wrong + faults + too_large + ended + (self.num_kills - self.num_survived),
        }

    def be_honest(self) -> None:
        """Single drugs, one after another; the same drug has the same prediction each time."""
        known: dict[str, float] = {}
        generator = random.Random(self.seed + threading.get_ident())
        with httpx.Client(headers={"authorization": f"Bearer {KEY}"}, timeout=2 * TIMEOUT) as client:
            while time.monotonic() < self.end:
                drug = generator.choice(DRUGS)
                began = time.monotonic()
                try:
                    answer = client.post(f"{self.address}/predict", json={"rows": [{"smiles": drug}]})
                except httpx.HTTPError as error:
                    self.honest[type(error).__name__] += 1
                    continue
                self.honest[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    self.times.append(time.monotonic() - began)
                    value = answer.json()["rows"][0]["predictions"][0]["value"]
                    self.honest["wrong answer"] += abs(known.setdefault(drug, value) - value) > 1e-4
                time.sleep(0.02)

    def be_hostile(self, name: str, act: Callable[[random.Random], str]) -> None:
        """One kind of attack after another of the same kind."""
        seen = self.hostile[name] = Counter()
        generator = random.Random(f"{self.seed} {name}")
        while time.monotonic() < self.end:
            try:
                seen[act(generator)] += 1
            except (httpx.HTTPError, OSError) as error:
                seen[type(error).__name__] += 1
            time.sleep(0.1)

    def post(self, path: str, body: Any, seconds: float = 2 * TIMEOUT, **headers: str) -> str:
        """The status of an answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"authorization": f"Bearer {KEY}", "content-type": "application/json", **headers}
        return str(httpx.post(self.address + path, content=content, headers=given, timeout=seconds).status_code)

    def connection(self) -> socket.socket:
        """A socket to the server."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=2 * TIMEOUT)

    def long_smiles(self, generator: random.Random) -> str:
        unit = generator.choice(("C", "CCO", "c1ccc(cc1)", "N[C@@H](C)C(=O)", "[13CH2]"))
        smiles = (unit * 2000)[: generator.choice((400, 900, 2000))].rsplit("[", 1)[0]
        return self.post("/predict", {"rows": [{"smiles": smiles}]})

    def dense_smiles(self, generator: random.Random) -> str:
        """Atoms that are all bonded to each other: descriptors over paths never end."""
        count, label, marks = generator.randint(9, 13), 10, [""] * 13
        for one in range(count):
            for other in range(one):
                marks[one] += f"%{label}"
                marks[other] += f"%{label}"
                label += 1
        isotope = generator.randint(1, 200)  # a new molecule each time, whose result is not cached
        smiles = ".".join(f"[{isotope}*]{mark}" for mark in marks[:count])
        return self.post("/predict", {"rows": [{"smiles": smiles}, {"smiles": "CCO"}]})

    def odd_smiles(self, generator: random.Random) -> str:
        signs = "CNOcn()[]=#123%@+-.*/\\ \u041e\U0001f600\u200b\u202e\x00\u00e9"
        smiles = "".join(generator.choice(signs) for _ in range(generator.randint(1, 60)))
        return self.post("/predict", {"rows": [{"smiles": smiles}, {"smiles": "CCO"}]})

    def explanations(self, generator: random.Random) -> str:
        return self.post(generator.choice(("/explain", "/page", "/picture")), {"row": {"smiles": "C" * 450}})

    def huge_body(self, generator: random.Random) -> str:
        return self.post("/predict", b'{"rows": [' + b" " * generator.choice((1 << 19, 1 << 21, 1 << 23)) + b"]}")

    def slow_headers(self, generator: random.Random) -> str:
        with self.connection() as connection:
            for _ in range(40):
                connection.sendall(b"POST" if generator.random() < 0.01 else b"G")
                time.sleep(0.25)
                connection.setblocking(False)
                try:
                    return connection.recv(100)[9:12].decode() or "closed"
                except BlockingIOError:
                    connection.setblocking(True)
        return "never ended"

    def slow_body(self, generator: random.Random) -> str:
        head = f"POST /predict HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n"
        with self.connection() as connection:
            connection.sendall(f"{head}content-type: application/json\r\ncontent-length: 9000\r\n\r\n".encode())
            for _ in range(10 * TIMEOUT):
                connection.sendall(b" ")
                time.sleep(0.25)
                connection.setblocking(False)
                try:
                    return connection.recv(100)[9:12].decode() or "closed"
                except BlockingIOError:
                    connection.setblocking(True)
        return "never ended"

    def idle_sockets(self, generator: random.Random) -> str:
        sockets = [self.connection() for _ in range(FILES)]
        time.sleep(generator.random() * 4)
        for each in sockets:
            each.close()
        return f"{FILES} opened"

    def abandoned(self, generator: random.Random) -> str:
        rows = [{"smiles": "C" * (420 + number)} for number in range(25)]
        try:
            return self.post("/predict", {"rows": rows}, seconds=0.3)
        except httpx.TimeoutException:
            return "left"

    def broken_json(self, generator: random.Random) -> str:
        bodies: tuple[Any, ...] = (
            b"{",
            b"[" * 100_000,
            b'{"rows":' * 50_000,
            b'{"rows": [{"smiles": "\\ud800"}]}',
            b"\xff\xfe\x00",
            b'{"rows": [{"smiles": ' + b"9" * 100_000 + b"}]}",
            {"rows": [{"smiles": 1}]},
            {"rows": {"smiles": "C"}},
            {"rows": [{"smiles": "C", "more": None}]},
            {"rows": [{"smiles": "C"}] * 300},
            {"rows": [[]]},
            None,
        )
        return self.post(generator.choice(("/predict", "/explain")), generator.choice(bodies))

    def wrong_host(self, generator: random.Random) -> str:
        host = generator.choice(("evil.example", "127.0.0.1.evil.example", "localhost.", ""))
        return self.post("/predict", {"rows": [{"smiles": "C"}]}, host=host)

    def wrong_key(self, generator: random.Random) -> str:
        key = generator.choice(("", "Bearer", "Bearer guess", f"Basic {KEY}", "Bearer " + "x" * 5000))
        return self.post("/predict", {"rows": [{"smiles": "C"}]}, authorization=key)

    def no_http(self, generator: random.Random) -> str:
        with self.connection() as connection:
            connection.sendall(generator.randbytes(generator.randint(1, 1 << 15)) + b"\r\n\r\n")
            return connection.recv(100)[9:12].decode(errors="replace") or "closed"

    def kill_processes(self) -> None:
        """Kills a process of the server now and then, and looks whether another takes its place.

        No request meets two kills: the server would take it for one that kills processes, and answer with 500.
        """
        pause = 2 * TIMEOUT
        while time.monotonic() + pause + 20 < self.end:
            time.sleep(pause)
            workers = [pid for pid in descendants(self.pid) if parent_of(pid) == self.pid]
            if len(workers) < 2:
                continue  # one of them starts just now
            os.kill(random.Random(self.num_kills).choice(workers), signal.SIGKILL)
            self.num_kills += 1
            # The machine is busy with all these clients: a start takes longer than the first.
            deadline = time.monotonic() + max(3 * TIMEOUT, 5 * self.start_seconds)
            while time.monotonic() < deadline:
                time.sleep(0.5)
                if (
                    len(set(descendants(self.pid)) - set(workers))
                    and self.post("/predict", {"rows": [{"smiles": "CCN"}]}) == "200"
                ):
                    self.num_survived += 1
                    break

    def watch_memory(self) -> None:
        """The most memory of the server and all its processes, pages that they share counted once."""
        while time.monotonic() < self.end:
            sizes = [memory_of(pid) for pid in (self.pid, *descendants(self.pid))]
            self.peak_bytes = max(self.peak_bytes, sum(sizes))
            time.sleep(0.5)


def descendants(pid: int) -> Iterator[int] | list[int]:
    """The processes that a process started, and those that they started."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *descendants(child)]
    except OSError:
        pass  # it ended meanwhile
    return found


def parent_of(pid: int) -> int:
    """The parent of a process; 0 where it ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def memory_of(pid: int) -> int:
    """Bytes of a process: what is its own, and its part of what several share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
