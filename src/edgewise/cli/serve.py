"""`edgewise serve`: a trained model as a page that answers, and an interface for programs."""

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
    from edgewise.learn.tables.options import TableFormat
    from edgewise.serve.lanes import ProcessLane

DESCRIPTION = (
    "Serve a model that `edgewise explain` explains, of texts, sentences, molecules or graphs: a page where an input "
    "is typed and its prediction and picture change, and POST /predict, POST /explain and GET /model for programs, "
    "described at /docs. Requests that come together are predicted together, in processes that are killed at the time "
    "limit. Only this machine is answered unless --host says otherwise; --api-key then keeps strangers out. Ctrl-C "
    "ends it when what is running has been answered."
)
API_KEY = "EDGEWISE_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXAMPLES = {"text": "a", "smiles": "C", "number": 0.0}
"""What a first row may hold, for a model to be warm when the first request comes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--host", default="127.0.0.1", help="the address that is listened at (default: 127.0.0.1)")
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
        help="names under which the server answers besides localhost, such as models.example.org or *.example.org; "
        "* for all (default: with --host its own name and addresses in numbers)",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"answer only requests with this key (default: the environment variable {API_KEY}, which other users of "
        "the machine cannot read)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is stopped."""
    from edgewise.errors import MissingExtraError, SettingError

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtraError("uvicorn", "serve") from error
    from edgewise.learn.training.settings import require
    from edgewise.serve.application import create_app
    from edgewise.serve.connections import bound_log, bounded_protocol, within_file_limit

    given = vars(arguments)
    limits = Limits(**{each.name: given[each.name] for each in fields(Limits) if each.name in given})
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
        name = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        print(f"{arguments.folder}: http://{name}:{listener.getsockname()[1]} (Ctrl-C stops it)", flush=True)
        if not is_loopback and key is None:
            print("everybody who reaches this address is answered: there is no --api-key", file=sys.stderr, flush=True)
        with stopping(), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    print("stopped", file=sys.stderr)
    return 0


def hosts_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The names under which the server answers."""
    names = ("127.0.0.1", "localhost", "[::1]")
    if arguments.allowed_hosts or arguments.host in LOOPBACK:
        return (*names, *arguments.allowed_hosts)
    # A site whose name leads here sends that name; an address in numbers is nobody else's.
    return (*names, "ip", arguments.host, socket.gethostname())


@contextmanager
def lanes_of(arguments: argparse.Namespace) -> "Iterator[list[ProcessLane]]":
    """Processes with the model of a folder, ready to compute."""
    from edgewise.learn.tables.options import current_format
    from edgewise.learn.tasks.explainer import Explainer
    from edgewise.serve.lanes import ProcessLane

    given = {"max_atoms": arguments.max_atoms, "molecule_timeout": arguments.molecule_timeout}
    opened = partial(opened_in, current_format(), Explainer.open, arguments.folder, **given)
    lanes = [ProcessLane(opened, warm) for _ in range(arguments.workers)]
    try:
        with ThreadPoolExecutor(len(lanes)) as threads:
            for started in [threads.submit(lane.start) for lane in lanes]:
                started.result()
        yield lanes
    finally:
        for lane in lanes:
            lane.close()


def opened_in(form: "TableFormat", opened: Callable[..., Any], folder: str, **limits: Any) -> Any:
    """The model of a folder, in the process that computes; the tables of its training are read in their format."""
    from edgewise.learn.tables.options import table_format

    with table_format(form):
        return opened(folder, **limits)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens.

    Raises:
        SettingError: The address cannot be listened at.
    """
    from edgewise.errors import SettingError
    from edgewise.learn.training.settings import require

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
    from edgewise.serve.lanes import predict_or_reason

    if all(field["type"] in EXAMPLES for field in explainer.fields):
        predict_or_reason(explainer, [{field["name"]: EXAMPLES[field["type"]] for field in explainer.fields}])
