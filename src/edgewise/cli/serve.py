"""`edgewise serve`: a trained model as a web page and an HTTP API."""

import argparse
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from edgewise.cli.flags import add_molecule_limits, add_settings
from edgewise.serve.limits import Limits

if TYPE_CHECKING:
    from edgewise.learn.tables.options import Reading
    from edgewise.serve.lanes import ProcessLane

DESCRIPTION = (
    "Serve a model that `edgewise explain` explains, of texts, sentences, molecules or graphs: a page that shows the "
    "prediction and picture of a typed input, and POST /predict, POST /explain and GET /model for programs, "
    "described at /docs. Requests that come together are predicted together, in processes that are killed at the time "
    "limit. Only this machine can connect unless --host says otherwise; use --api-key then. Ctrl-C "
    "ends it after answering the running requests."
)
API_KEY = "EDGEWISE_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXAMPLES = {"text": "a", "smiles": "C", "number": 0.0}
"""Cells of a row that warms up the model before the first request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="(default: 8000; 0 takes a free one)")
    add_settings(parser.add_argument_group("limits on requests"), Limits)
    add_molecule_limits(parser)
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        metavar="N",
        help="processes that compute, each with a copy of the model; the first of several is reserved for quick rows "
        "(default: 2)",
    )
    parser.add_argument(
        "--allowed-hosts",
        nargs="+",
        default=(),
        metavar="NAME",
        help="host names to accept besides localhost, such as models.example.org or *.example.org; "
        "* for all (default: with --host its own name and numeric addresses)",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"answer only requests with this key (default: the environment variable {API_KEY}, which other users of "
        "the machine cannot read)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is stopped by Ctrl-C or SIGTERM."""
    from edgewise.errors import MissingExtraError, SettingError

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtraError("uvicorn", "serve") from error

    from edgewise.learn.training.settings import require
    from edgewise.serve.application import create_app
    from edgewise.serve.connections import bound_log, bounded_protocol, within_file_limit

    flags = vars(arguments)
    limits = Limits(**{field.name: flags[field.name] for field in fields(Limits) if field.name in flags})
    require("--workers", arguments.workers, arguments.workers >= 1, "at least 1")
    key = os.environ.get(API_KEY) if arguments.api_key is None else arguments.api_key
    if key is not None and (not key.strip() or not key.isascii()):
        raise SettingError(f"the key of --api-key or {API_KEY} is empty or not ASCII; expected letters and digits.")

    connections, backlog = within_file_limit(limits.connections)
    is_loopback = arguments.host in LOOPBACK
    bound_log()
    with lanes_of(arguments) as lanes, listening(arguments.host, arguments.port) as listener:
        app = create_app(
            lanes[0].describe(), limits=limits, hosts=hosts_of(arguments), api_key=key and key.strip(), lanes=lanes
        )
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                http=bounded_protocol(limits, connections),
                ws="none",
                backlog=backlog,
                h11_max_incomplete_event_size=limits.header_bytes,
                timeout_keep_alive=math.ceil(limits.header_seconds),
                timeout_graceful_shutdown=math.ceil(limits.seconds),
            )
        )
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        print(f"{arguments.folder}: http://{host}:{listener.getsockname()[1]} (Ctrl-C stops it)", flush=True)

        if not is_loopback and key is None:
            print(
                "anyone who can reach this address can use the server: --api-key is not set",
                file=sys.stderr,
                flush=True,
            )

        with stopping(), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])

    print("stopped", file=sys.stderr)
    return 0


def hosts_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The host names that the server accepts."""
    names = ("127.0.0.1", "localhost", "[::1]")
    if arguments.allowed_hosts or arguments.host in LOOPBACK:
        return (*names, *arguments.allowed_hosts)
    # A site whose name resolves to this address sends that name; a numeric address can only be this server.
    return (*names, "ip", arguments.host, socket.gethostname())


@contextmanager
def lanes_of(arguments: argparse.Namespace) -> "Iterator[list[ProcessLane]]":
    """Processes that have loaded the model of a folder."""
    from edgewise.learn.tables.options import Reading, current_format, current_limits
    from edgewise.learn.tasks.explainer import Explainer
    from edgewise.serve.lanes import ProcessLane

    molecule_limits = {"max_atoms": arguments.max_atoms, "molecule_timeout": arguments.molecule_timeout}
    reading = Reading(current_format(), current_limits())
    open_model = partial(open_as_read_here, reading, Explainer.open, arguments.folder, **molecule_limits)
    lanes = [ProcessLane(open_model, warm) for _ in range(arguments.workers)]
    try:
        with ThreadPoolExecutor(len(lanes)) as threads:
            for started in [threads.submit(lane.start) for lane in lanes]:
                started.result()
        yield lanes
    finally:
        for lane in lanes:
            lane.close()


def open_as_read_here(reading: "Reading", open_model: Callable[..., Any], folder: str, **limits: Any) -> Any:
    """Opens the model of a folder in a worker process; its training tables are read in the format, and within the
    limits, of this process."""
    from edgewise.learn.tables.options import read_limits, table_format

    with table_format(reading.form), read_limits(**vars(reading.limits)):
        return open_model(folder, **limits)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket.

    Raises:
        SettingError: The address cannot be used.
    """
    from edgewise.errors import SettingError
    from edgewise.learn.training.settings import require

    require("--port", port, 0 <= port < 1 << 16, "0 to 65535")
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise SettingError(
            f"--host {host} --port {port} cannot be used: {error.strerror or error}; --port 0 takes a free one."
        ) from error

    with listener:
        yield listener


@contextmanager
def stopping() -> Iterator[None]:
    """SIGTERM ends the server like Ctrl-C: uvicorn raises the signal again when all requests have been answered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def warm(explainer: Any) -> None:
    """Predicts one row, so that kernels are compiled before the first request."""
    from edgewise.serve.lanes import predict_or_reason

    if all(field["type"] in EXAMPLES for field in explainer.fields):
        predict_or_reason(explainer, [{field["name"]: EXAMPLES[field["type"]] for field in explainer.fields}])
