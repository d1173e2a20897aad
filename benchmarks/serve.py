"""What predicting the rows of several requests together gains, under 32 clients that ask one molecule after the other.

    python benchmarks/serve.py [SECONDS]

Two small models, one that also reads RDKit's descriptors of each molecule (which no batch makes cheaper) and one that
does not, are trained on molecules made on the spot and served on loopback, with batching and without it, in turn. 32
clients in a process of their own each keep a connection and send a molecule as soon as the last is answered. Counted
are answers a second, the median and the 99th percentile of the time to an answer, and errors, over all rounds. Answers
of both servers are compared first.
"""

import asyncio
import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
NUM_CLIENTS, ROUNDS = 32, 3
MODELS = {"with descriptors": [], "without": ["--no-molecule-descriptors"]}
MODES = {"batched": [], "one by one": ["--no-batching"]}


def train(folder: Path, options: list[str]) -> tuple[Path, list[str]]:
    """A run over molecules, and molecules to ask for."""
    from edgewise.cli.main import main
    from edgewise.learn.readers.molecules.simulate import demo_table

    table = demo_table(600)
    table.to_csv(folder / "molecules.csv", index=False)
    columns = ["--smiles-columns", "smiles", "--target-columns", "crippen_logp"]
    words = ["train", str(folder / "molecules.csv"), *columns, "--epochs", "3", "--no-baselines", *options]
    assert main([*words, "-o", str(folder / "run")]) == 0
    return folder / "run", table["smiles"].tolist()


@contextlib.contextmanager
def served(run: Path, options: list[str], errors: Any = None) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`edgewise serve` in a process of its own, which writes its log to a file if one is given; its port and itself."""
    command = [sys.executable, "-m", "edgewise.cli.main", "serve", str(run), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield int(line.split()[1].rsplit(":", 1)[1]), server
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


async def answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, smiles: str, path: str = "/predict"
) -> tuple[int, Any]:
    """Asks for one molecule; the status and the answer."""
    row = {"smiles": smiles}
    body = json.dumps({"rows": [row]} if path == "/predict" else {"row": row}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    received = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(received.split("content-length: ")[1].split("\r\n")[0])
    return int(received.split()[1]), json.loads(await reader.readexactly(length))


async def client(port: int, smiles: list[str], until: float, times: list[float], errors: list[int]) -> None:
    """Asks one molecule after the other until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 0
    while time.perf_counter() < until:
        began = time.perf_counter()
        status, _ = await answer(reader, writer, smiles[place % len(smiles)])
        times.append(time.perf_counter() - began)
        errors += [status] * (status != 200)
        place += 1
    writer.close()


async def load(port: int, smiles: list[str], seconds: float) -> tuple[list[float], int]:
    """Times to an answer under all clients, and how many were errors."""
    times: list[float] = []
    errors: list[int] = []
    until = time.perf_counter() + seconds
    shares = [smiles[number::NUM_CLIENTS] for number in range(NUM_CLIENTS)]
    await asyncio.gather(*(client(port, share, until, times, errors) for share in shares))
    return times, len(errors)


async def values(port: int, smiles: list[str]) -> list[float]:
    """What is told of molecules, asked for at once."""

    async def one(each: str) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, told = await answer(reader, writer, each)
        writer.close()
        assert status == 200, told
        return told["rows"][0]["predictions"][0]["value"]

    return await asyncio.gather(*map(one, smiles))


def compare(options: list[str], seconds: float) -> dict[str, Any]:
    """The numbers of one model in both modes, and the ratio of their rates."""
    rates: dict[str, list[float]] = {name: [] for name in MODES}
    times: dict[str, list[float]] = {name: [] for name in MODES}
    errors = dict.fromkeys(MODES, 0)
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        run, smiles = train(Path(folder), options)
        for _ in range(ROUNDS):
            for name, flags in MODES.items():
                with served(run, flags) as (port, _):
                    told[name] = asyncio.run(values(port, smiles[:NUM_CLIENTS]))
                    asyncio.run(load(port, smiles, min(2.0, seconds)))
                    found, failed = asyncio.run(load(port, smiles, seconds))
                rates[name].append(len(found) / seconds)
                times[name] += found
                errors[name] += failed
    first, second = told.values()
    assert all(abs(a - b) < 1e-4 for a, b in zip(first, second, strict=True)), "batching changes what is told"
    cases: dict[str, Any] = {
        name: {
            "answers_a_second": round(statistics.median(rates[name]), 1),
            "p50_ms": round(1000 * percentile(times[name], 50), 1),
            "p99_ms": round(1000 * percentile(times[name], 99), 1),
            "answers": len(times[name]),
            "errors": errors[name],
        }
        for name in MODES
    }
    ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
    return {"cases": cases, "ratio": round(statistics.median(ratios), 2)}


def main() -> None:
    """Measure, print and write the result."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0
    found = {model: compare(options, seconds) for model, options in MODELS.items()}
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    result = {"machine": machine, "clients": NUM_CLIENTS, "rounds": ROUNDS, "seconds": seconds, "models": found}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "serve.json").write_text(json.dumps(result, indent=2) + "\n")
    (RESULTS / "serve.md").write_text(page(result))
    print(page(result))


def page(result: dict[str, Any]) -> str:
    """What was measured, in words and as a table."""
    lines = [
        "# What predicting the rows of several requests together gains",
        "",
        f"`edgewise serve` on loopback under {result['clients']} clients that each send a molecule as soon as the last "
        f"is answered; {result['rounds']} rounds of {result['seconds']:g} s for each row, in turn; "
        f"{result['machine']['cores']} cores ({result['machine']['cpu']}) for server and clients. The model with "
        "descriptors also computes RDKit's, one molecule after the other. `python benchmarks/serve.py`",
        "",
        "| model | requests | answers a second | p50, ms | p99, ms | errors | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for model, each in result["models"].items():
        for name, case in each["cases"].items():
            ratio = each["ratio"] if name == "batched" else 1
            cells = [model, name, f"{case['answers_a_second']:,.0f}", case["p50_ms"], case["p99_ms"]]
            cells += [f"{case['errors']} of {case['answers']:,}", ratio]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def percentile(values: list[float], share: int) -> float:
    """The value below which so many of a hundred lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


if __name__ == "__main__":
    main()
