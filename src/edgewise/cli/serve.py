"""`edgewise serve`: a trained model as a page that answers, and an interface for programs."""

import argparse
import math
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

SUMMARY = "answer requests: a page to type into, and an interface for programs"
DESCRIPTION = (
    "Serve a model of texts, translations, molecules or the nodes of a graph: a page where an input is typed and its "
    "prediction and picture change, and POST /predict, POST /explain and GET /model for programs, described at /docs. "
    "Requests that come together are predicted together. Only this machine is answered unless --host says otherwise; "
    "there is no password. Ctrl-C ends it when what is running has been answered."
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXAMPLES = {"text": "a", "smiles": "C", "number": 0.0}
"""What a first row may hold, for a model to be warm when the first request comes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--host", default="127.0.0.1", help="the address that is listened at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="(default: 8000; 0 takes a free one)")
    parser.add_argument(
        "--batch-size", type=int, default=64, metavar="N", help="rows that are predicted together (default: 64)"
    )
    parser.add_argument(
        "--batch-wait-ms",
        type=float,
        default=2.0,
        metavar="MS",
        help="how long a request waits for others (default: 2)",
    )
    parser.add_argument("--no-batching", action="store_true", help="predict each request alone")
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="the longest time to an answer (default: 30)"
    )
    parser.add_argument("--max-characters", type=int, default=20_000, metavar="N", help="of a text (default: 20000)")
    parser.add_argument("--max-smiles", type=int, default=2_000, metavar="N", help="characters (default: 2000)")
    parser.add_argument("--max-rows", type=int, default=256, metavar="N", help="of a request (default: 256)")


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is stopped."""
    from edgewise.errors import MissingExtraError

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtraError("uvicorn", "serve") from error
    from edgewise.estimators.explaining import Explainer
    from edgewise.serve.application import create_app
    from edgewise.serve.limits import Limits

    limits = Limits(
        characters=arguments.max_characters,
        smiles=arguments.max_smiles,
        rows=arguments.max_rows,
        seconds=arguments.timeout,
        batch_size=arguments.batch_size,
        batch_wait=arguments.batch_wait_ms,
        batching=not arguments.no_batching,
    )
    explainer = Explainer.open(arguments.folder)
    warm(explainer)
    is_loopback = arguments.host in LOOPBACK
    hosts = ("127.0.0.1", "localhost", "[::1]") if is_loopback else ("*",)
    with listening(arguments.host, arguments.port) as listener:
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(explainer, limits=limits, hosts=hosts),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                timeout_graceful_shutdown=math.ceil(limits.seconds),
            )
        )
        name = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        print(f"{arguments.folder}: http://{name}:{listener.getsockname()[1]} (Ctrl-C stops it)", flush=True)
        if not is_loopback:
            print("whoever reaches this address may ask: there is no password", file=sys.stderr, flush=True)
        with stopping(), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    print("stopped", file=sys.stderr)
    return 0


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens.

    Raises:
        SettingError: The address cannot be listened at.
    """
    from edgewise.errors import SettingError
    from edgewise.train.settings import require

    require("--port", port, 0 <= port < 1 << 16, "0 to 65535")
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise SettingError(
            f"--host {host} --port {port} cannot be listened at: {error.strerror or error}; --port 0 takes a free one."
        ) from error
    with listener:
        yield listener


@contextmanager
def stopping() -> Iterator[None]:
    """Lets SIGTERM end the server as Ctrl-C does: uvicorn repeats the signal when all has been answered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def warm(explainer: Any) -> None:
    """Predicts one row, so that kernels are compiled before somebody waits for them."""
    from edgewise.serve.worker import told_or_why

    if all(field["type"] in EXAMPLES for field in explainer.fields):
        told_or_why(explainer, [{field["name"]: EXAMPLES[field["type"]] for field in explainer.fields}])
