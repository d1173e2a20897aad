"""The FastAPI application: a page for people, three endpoints for programs, errors with their reason.

| | |
|---|---|
| `GET /` | a page where a person types an input and sees the prediction and its explanation |
| `POST /predict` | predictions of some rows; rows of several requests are computed together |
| `POST /explain` | a row explained, as JSON |
| `POST /page`, `POST /picture` | the same as a page (HTML) and a picture (SVG) that need nothing else |
| `GET /model` | the model that is served, and its inputs |
| `GET /docs`, `GET /openapi.json` | the description of all this |
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from edgewise.errors import EdgewiseError, MissingExtraError, UnsupportedError
from edgewise.learn.process import ProcessDiedError
from edgewise.serve.bounds import RequestBounds
from edgewise.serve.lanes import CLIENT_ERRORS, Description, Lane, ServedModel, ThreadLane, characters, explained
from edgewise.serve.limits import Limits
from edgewise.serve.manual import manual
from edgewise.serve.messages import (
    ErrorAnswer,
    ExplainAnswer,
    InvalidRow,
    ModelAnswer,
    PredictAnswer,
    Requests,
    as_row,
    cells_of,
    reason_of,
)
from edgewise.serve.worker import BusyError, Client, Worker
from edgewise.view.policy import explanation_assets, source_of

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, Response
    from starlette.exceptions import HTTPException
except ModuleNotFoundError as error:
    raise MissingExtraError("fastapi", "serve") from error

ASSETS = {"serve.js": "text/javascript", "serve.css": "text/css"}
"""What the page loads, from here and from nowhere else."""
STYLE, SCRIPT = map(source_of, explanation_assets())
"""Hashes of the style and script in explanation pages: a framed page obeys the policy of the page around it, too."""
HEADERS = {
    # Nothing is fetched from elsewhere, and nothing inline runs but the style and the script of drawn pages.
    "content-security-policy": (
        f"default-src 'none'; script-src 'self' {SCRIPT}; style-src 'self' {STYLE}; "
        "img-src 'self' data: blob:; connect-src 'self'; frame-src 'self' blob: data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
REASONS = {
    400: "The body is not valid JSON, or is nested too deeply.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "Content-Type must be application/json, and Content-Encoding may not be set.",
    421: "Unknown host name.",
    422: "A value is not valid; `where` names it.",
    431: "The headers are too long.",
    500: "Internal server error; see the log of the server.",
    503: "Too many requests are waiting; try again later.",
    504: "The request took too long.",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": reason} for status, reason in REASONS.items()
}
READ_REFUSALS: dict[int | str, dict[str, Any]] = {status: REFUSALS[status] for status in (401, 421, 431)}
"""Refusals of a request without a body."""
# A reference, not a model: FastAPI would describe a model with the media type of the successful answer.
_ERROR = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorAnswer.__name__}"}}}
LOG = logging.getLogger("edgewise.serve")


def create_app(
    explainer: ServedModel | Description,
    *,
    limits: Limits = Limits(),
    hosts: Sequence[str] = ("*",),
    api_key: str | None = None,
    lanes: Sequence[Lane] = (),
) -> FastAPI:
    """The application that serves a model.

    Args:
        explainer: The model, as `edgewise.learn.tasks.explainer.Explainer.open` gives it.
        limits: What a request may ask for.
        hosts: The host names under which the server may be addressed; all by default. A server on loopback that accepts
            other names can be reached by any site whose name resolves to 127.0.0.1. `*.example.org` stands for all
            names that end so, and `ip` for every numeric address.
        api_key: What a client must send as `Authorization: Bearer KEY`; None requires no key. The page has a
            field for it.
        lanes: Where the model computes; by default in a thread of this process, where no job can be killed, and
            `explainer` is the model itself. With `ProcessLane`s, `explainer` is the description that one of them gives.

    Raises:
        MissingExtraError: FastAPI is not installed.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.worker = Worker(lanes or [ThreadLane(explainer)], limits)  # type: ignore[arg-type]
        app.state.worker.start()
        asyncio.get_running_loop().set_exception_handler(_log_briefly)
        yield
        await app.state.worker.stop()

    app = FastAPI(
        title="Edgewise",
        version=version("edgewise"),
        description=f"A trained model over {explainer.facts['rows']}.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.add_middleware(RequestBounds, limits=limits, hosts=tuple(hosts), api_key=api_key)
    _add_errors(app, limits)
    _add_pages(app, needs_key=api_key is not None)
    _add_endpoints(app, explainer, limits)

    return app


def _log_briefly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an error outside requests in one line; asyncio would write a traceback for every connection."""
    LOG.error("%s: %r", context.get("message"), context.get("exception"))


def _add_endpoints(app: FastAPI, explainer: ServedModel | Description, limits: Limits) -> None:
    requests = Requests.of(explainer.fields, explainer.facts, limits)

    @app.get("/model", response_model=ModelAnswer, responses=READ_REFUSALS, summary="Describe the model")
    async def model() -> Response:
        """The model, what a row consists of, and what a request may ask for."""
        facts = {"kind": explainer.kind, "fields": list(explainer.fields), "facts": explainer.facts}
        return JSONResponse({**facts, "limits": asdict(limits)}, headers=HEADERS)

    @app.post("/predict", response_model=PredictAnswer, responses=REFUSALS, summary="Predict rows")
    async def predict(query: requests.predict, request: Request) -> Response:
        """The predictions of each row. A row that cannot be read has its reason; where none can, the answer is 422."""
        readable = [cells_of(row) for row in query.rows if not isinstance(row, InvalidRow)]
        if not readable:
            first = query.rows[0]
            path = ("body", "rows", 0, *first.path)
            raise RequestValidationError([{"type": first.error_type, "loc": path, "msg": first.reason}])
        computed = iter(await app.state.worker.predict(readable, client_of(request)))
        outcomes = [row.outcome() if isinstance(row, InvalidRow) else next(computed) for row in query.rows]
        if all(isinstance(outcome, EdgewiseError) for outcome in outcomes):
            return failure(422, str(outcomes[0]), "rows.0")
        return JSONResponse({"rows": [as_row(outcome) for outcome in outcomes]}, headers=HEADERS)

    async def answer(query: Any, form: str, request: Request) -> Any:
        """An explanation in one of `FORMS`, made in the process of the model."""
        options = {name: getattr(query, name) for name in ("target", "label", "top")}
        row = cells_of(query.row)
        job = partial(explained, row=row, options=options, form=form)
        return await app.state.worker.do(job, client_of(request), characters(row))

    @app.post("/explain", response_model=ExplainAnswer, responses=REFUSALS, summary="Explain a row")
    async def explain(query: requests.explain, request: Request) -> Response:
        """The predictions of a row, the attention, what changes the prediction, and how faithful the explanation is."""
        return Response(await answer(query, "json", request), media_type="application/json", headers=HEADERS)

    @app.post("/page", response_class=HTMLResponse, responses=_text_responses("text/html"), summary="Explain on a page")
    async def page(query: requests.explain, request: Request) -> Response:
        """The explanation as an HTML page that needs nothing else."""
        return HTMLResponse(await answer(query, "page", request), headers=HEADERS)

    svg = _text_responses("image/svg+xml")

    @app.post("/picture", response_class=Response, responses=svg, summary="Explain in a picture")
    async def picture(query: requests.explain, request: Request) -> Response:
        """The explanation as an SVG picture."""
        return Response(await answer(query, "picture", request), media_type="image/svg+xml", headers=HEADERS)


def _text_responses(media_type: str) -> dict[int | str, dict[str, Any]]:
    """The responses of an endpoint whose result is text of a type, and whose errors are JSON."""
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"description": reason, "content": _ERROR} for status, reason in REASONS.items()
    }
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}, **refusals}


def client_of(request: Request) -> Client:
    """The address and the port of the client, by which clients take turns."""
    return () if request.client is None else (request.client.host, request.client.port)


def _add_pages(app: FastAPI, *, needs_key: bool) -> None:
    folder = files("edgewise.serve") / "assets"
    contents = {name: (folder / name).read_bytes() for name in (*ASSETS, "index.html")}

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse(contents["index.html"], headers=HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return HTMLResponse(manual(app.openapi(), address, needs_key=needs_key), headers=HEADERS)

    @app.get("/assets/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404)
        return Response(contents[name], media_type=ASSETS[name], headers=HEADERS)


def _add_errors(app: FastAPI, limits: Limits) -> None:
    """Every error is JSON with its reason; none reveals files or code of the server."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return failure(400, "the body is not valid JSON", None)
        # The first part of a place is always `body`.
        where = ".".join(str(part)[:60] for part in first["loc"][1:])
        return failure(422, reason_of(first), where or None)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        # FastAPI gives no reason where Python refuses a number, which it does from 4,300 digits on.
        is_unread = error.status_code == 400
        reason = "the body cannot be read; a number may have too many digits" if is_unread else str(error.detail)
        answer = failure(error.status_code, reason, None)
        answer.headers.update(error.headers or {})
        return answer

    async def unreadable(request: Request, error: Exception) -> Response:
        return failure(422, str(error), "row")

    for error_type in (*CLIENT_ERRORS, UnsupportedError):
        app.add_exception_handler(error_type, unreadable)

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> Response:
        answer = failure(503, "too many rows are waiting; try again later", None)
        answer.headers["retry-after"] = "1"
        return answer

    @app.exception_handler(TimeoutError)
    async def late(request: Request, error: TimeoutError) -> Response:
        return failure(504, f"the request takes longer than {limits.seconds:g} seconds", None)

    @app.exception_handler(ProcessDiedError)
    async def died(request: Request, error: ProcessDiedError) -> Response:
        LOG.error("%s %s: %s", request.method, request.url.path, error)
        return failure(500, "the worker process died twice on this request", None)

    @app.exception_handler(500)
    async def broken(request: Request, error: Exception) -> Response:
        # The server behind this logs the error with its traceback.
        LOG.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
        answer = failure(500, "internal error", None)
        # The server behind this closes the connection after an error.
        answer.headers["connection"] = "close"
        return answer


def failure(status: int, reason: str, where: str | None) -> JSONResponse:
    """An error as `ErrorAnswer` describes it."""
    return JSONResponse({"error": _clean(reason), "where": where and _clean(where)}, status, HEADERS)


def _clean(text: str) -> str:
    """At most 500 characters that UTF-8 can hold."""
    return text[:500].encode(errors="replace").decode()
