"""A server in this process, and one that is really listening."""

import contextlib
import resource
import subprocess
import sys
import threading
import time
import types

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'edgewise[serve]'")

from stand_in import StandIn, command_of, environment

from edgewise.serve.application import create_app
from edgewise.serve.connections import bounded_protocol
from edgewise.serve.limits import Limits


@pytest.fixture(scope="module")
def process():
    """Starts `edgewise serve`; gives the process and its address."""
    started = []

    def start(*words, num_files=None, **more):
        def limit():
            if num_files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (num_files, num_files))

        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.Popen(command_of(*words), **pipes, env=environment(**more), preexec_fn=limit)
        started.append(done)
        line = done.stdout.readline()
        assert "http://" in line, done.stderr.read()
        return done, line.split()[1]

    yield start
    for done in started:
        done.kill()
        done.communicate()


@pytest.fixture
def client():
    """Makes a client of a model; what goes wrong in the server is an answer, as it is to everybody else."""
    from fastapi.testclient import TestClient

    with contextlib.ExitStack() as open_clients:

        def make(explainer=None, hosts=("*",), api_key=None, **limits):
            app = create_app(explainer or StandIn(), limits=Limits(**limits), hosts=hosts, api_key=api_key)
            return open_clients.enter_context(TestClient(app, raise_server_exceptions=False))

        yield make


@pytest.fixture
def listening():
    """Serves a model on a port of loopback; gives its address."""
    import uvicorn

    with contextlib.ExitStack() as servers:

        def make(explainer, hosts=("*",), api_key=None, **limits):
            return servers.enter_context(served(uvicorn, explainer, hosts, api_key, limits))

        yield make


@contextlib.contextmanager
def served(uvicorn, explainer, hosts, api_key, limits):
    """A server in a thread."""
    from edgewise.cli.serve import listening as socket_of

    bounds = Limits(**limits)
    app = create_app(explainer, limits=bounds, hosts=hosts, api_key=api_key)
    protocol = bounded_protocol(bounds, bounds.connections)
    with socket_of("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", http=protocol))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        for _ in range(500):
            if server.started:
                break
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def plain_view(monkeypatch):
    """Pictures that show the explanation as words: what is drawn is the business of others."""
    import html
    import json

    def page(explanations, *, title=None):
        (explanation,) = explanations
        numbers = html.escape(json.dumps(explanation.to_json()))
        return f"<!DOCTYPE html><title>{html.escape(explanation.title)}</title><pre id=numbers>{numbers}</pre>"

    drawn = types.ModuleType("edgewise.view.explanation")
    drawn.explanation_page = page
    picture = types.ModuleType("edgewise.view.picture")
    picture.explanation_svg = lambda explanation: "<svg xmlns='http://www.w3.org/2000/svg'></svg>"
    monkeypatch.setitem(sys.modules, "edgewise.view.explanation", drawn)
    monkeypatch.setitem(sys.modules, "edgewise.view.picture", picture)
