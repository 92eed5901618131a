"""The routes of the server: REST with JSON, server-sent events for rounds, and the page that uses them.

A route checks its body and submits a job; a worker thread does the work, and the route passes on what it sends. A client that
goes away cancels its job.
"""

import asyncio
import logging
import mimetypes
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from jinja2 import ChainableUndefined, Environment
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import slalom
from slalom.errors import InputError, MissingExtra, ModelError, SlalomError, one_line, validation_message
from slalom.render.page.parts import style
from slalom.web import catalogue, schema
from slalom.web.downloads import download
from slalom.web.failures import NotFound, TooLarge
from slalom.web.guard import Access, Guard
from slalom.web.limits import Limits
from slalom.web.schema import DownloadRequest, Question, Subject
from slalom.web.served import Served, dumps
from slalom.web.work import Busy, Job, Stopped

if TYPE_CHECKING:
    from slalom.web.corpus import ServedCorpus

_LOG = logging.getLogger("slalom")
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.Failure, "description": "The request is not what it must be."},
    413: {"model": schema.Failure, "description": "The text or the body is too large."},
    429: {"model": schema.Failure, "description": "Too many requests wait; Retry-After says when to come back."},
    500: {"model": schema.Failure, "description": "The model failed."},
    503: {"model": schema.Failure, "description": "It took too long, or the server is stopping."},
}
_JSON = "application/json"


def application(models: Sequence[Served], access: Access, limits: Limits, corpus: "ServedCorpus | None" = None) -> Guard:
    """Return the server as an ASGI application."""
    app = FastAPI(
        title="slalom",
        version=slalom.__version__,
        description="Explanations of text classifiers that predict what the model does.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    _add_pages(app)
    _add_information(app, models, limits, corpus is not None)
    _add_work(app, models, limits)
    if corpus is not None:
        from slalom.web.corpus import add_corpus  # noqa: PLC0415

        add_corpus(app, corpus, lambda queued, request, steps: _answered(queued, request, limits, steps, short=True))
    return Guard(app, access, limits)


def _add_pages(app: FastAPI) -> None:
    index, docs_page = (
        (resources.files("slalom.web") / "assets" / name).read_text("utf-8") for name in ("index.html", "docs.html")
    )
    documentation = Environment(autoescape=True, undefined=ChainableUndefined).from_string(docs_page)

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(index)

    @app.get("/assets/report.css", include_in_schema=False)
    async def report_style() -> Response:
        return Response(style(), media_type="text/css")

    mimetypes.add_type("text/javascript", ".js")  # some systems have none, and browsers run nothing else
    app.mount("/assets", StaticFiles(packages=[(package, "assets") for package in ("slalom.web", "slalom.render.page")]))

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        about = app.openapi()
        return HTMLResponse(documentation.render(**about, schemas=about.get("components", {}).get("schemas", {})))


def _add_information(app: FastAPI, models: Sequence[Served], limits: Limits, corpus: bool) -> None:
    offered = catalogue.offered(any(served.explainer.model.tokenized for served in models))
    info = schema.Info(
        version=slalom.__version__,
        models=[
            schema.ModelInfo(
                id=served.id,
                name=served.explainer.model.name,
                labels=list(served.explainer.model.head.labels),
                scale=served.explainer.model.head.scale,
                remote=served.remote,
            )
            for served in models
        ],
        methods=offered,
        units=list(catalogue.UNITS),
        budgets=catalogue.budgets(limits.queries),
        limits=schema.LimitsInfo(
            characters=limits.characters, queries=limits.queries, keep_rows=limits.keep_rows, seconds=limits.seconds
        ),
        examples=list(catalogue.EXAMPLES),
        corpus=corpus,
    )

    @app.get("/api/info", summary="What this server offers")
    async def information() -> schema.Info:
        return info

    @app.get("/api/methods", summary="The methods of explanation")
    @app.post("/api/methods", include_in_schema=False)
    async def list_methods() -> list[schema.MethodInfo]:
        return offered


def _add_work(app: FastAPI, models: Sequence[Served], limits: Limits) -> None:
    by_id = {served.id: served for served in models}
    allowed = {method.name for method in catalogue.offered(True)}

    def served_by(name: str | None) -> Served:
        if name is not None and name not in by_id:
            raise InputError(f"model must be one of {', '.join(map(repr, by_id))}; got {name[:100]!r}")
        return models[0] if name is None else by_id[name]

    def chosen(subject: Subject) -> Served:
        if len(subject.text) > limits.characters:
            raise TooLarge(f"a text must have at most {limits.characters:,} characters; got {len(subject.text):,}")
        if (subject.queries or 0) > limits.queries:
            raise InputError(f"queries must be at most {limits.queries:,}; got {subject.queries:,}")
        if subject.method not in allowed:
            raise InputError(f"method must be one of {', '.join(sorted(allowed))}; got {subject.method[:100]!r}")
        return served_by(subject.model)

    @app.post(
        "/api/explain",
        summary="Explain a text",
        description="With `Accept: text/event-stream` the answer comes in rounds, as server-sent events: `queued`, `progress`,"
        " `explanation` (the last with `final: true`), `done`, or `error`.",
        response_model=schema.Explained,
    )
    async def explain(subject: Subject, request: Request) -> Response:
        served = chosen(subject)
        if "text/event-stream" in request.headers.get("accept", ""):
            job = _submitted(served, request, served.events(subject))
            return StreamingResponse(_stream(request, job, limits.seconds), media_type="text/event-stream")
        return await _answered(served, request, limits, served.explained(subject, _explained))

    @app.post(
        "/api/ask", summary="Ask the model about parts of a text, or about whole texts", response_model=schema.AskedAnswer
    )
    async def ask(question: Question, request: Request) -> Response:
        if (question.keep is None) == (question.texts is None) or (question.keep is not None and question.text is None):
            raise InputError("a question needs text and keep, or texts")
        rows = question.keep if question.keep is not None else question.texts
        if rows is not None and not 1 <= len(rows) <= limits.keep_rows:
            raise InputError(f"a question must have 1 to {limits.keep_rows:,} rows or texts; got {len(rows):,}")
        if question.keep is not None:
            served = chosen(question.subject())
        else:
            served = served_by(question.model)
            longest = max(map(len, question.texts or [""]))
            if longest > limits.characters:
                raise TooLarge(f"a text must have at most {limits.characters:,} characters; got {longest:,}")
        return await _answered(served, request, limits, _as_json(served.asked(question)), short=True)

    @app.post(
        "/api/flip", summary="The fewest units without which the model decides otherwise", response_model=schema.FlipAnswer
    )
    async def flip(subject: Subject, request: Request) -> Response:
        served = chosen(subject)
        return await _answered(served, request, limits, _as_json(served.flipped(subject)))

    @app.post("/api/download", summary="An explanation as a file", response_class=Response)
    async def get_file(wanted: DownloadRequest, request: Request) -> Response:
        served = chosen(wanted)
        subject = Subject(**wanted.model_dump(exclude={"format", "picture"}))
        steps = served.explained(subject, lambda e: download(e, wanted.format, served.code, subject, wanted.picture))
        file = await _result(served, request, limits, steps)
        headers = {"content-disposition": f'attachment; filename="{file.name}"'}
        return Response(file.content, media_type=file.media_type, headers=headers)


def _explained(e: Any) -> str:
    from slalom.render.page.content import content  # noqa: PLC0415

    return dumps({"content": content(e), "explanation": e.to_dict(), "final": True})


def _as_json(steps: Iterator[Any]) -> Iterator[str | None]:
    """Return the results of a job as JSON, written in the worker thread."""
    return (None if step is None else dumps(step) for step in steps)


def _submitted(served: "Served | ServedCorpus", request: Request, steps: Iterator[Any], short: bool = False) -> Job:
    job = Job((request.client.host, request.client.port) if request.client else None, steps, short)
    served.queue.submit(job)
    return job


async def _result(
    served: "Served | ServedCorpus", request: Request, limits: Limits, steps: Iterator[Any], short: bool = False
) -> Any:
    """Return the last message of a job; cancel it where the client goes away."""
    job = _submitted(served, request, steps, short)
    gone = asyncio.ensure_future(_gone(request, job))
    result = None
    try:
        async for message in job.messages(limits.seconds):
            result = message
    finally:
        gone.cancel()
    return result


async def _answered(
    served: "Served | ServedCorpus", request: Request, limits: Limits, steps: Iterator[str | None], short: bool = False
) -> Response:
    return Response(await _result(served, request, limits, steps, short), media_type=_JSON)


async def _gone(request: Request, job: Job) -> None:
    """Cancel a job when its client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel("the client has gone")


async def _stream(request: Request, job: Job, seconds: float) -> AsyncIterator[str]:
    """Yield the messages of a job as server-sent events; cancel it where the client goes away."""
    gone = asyncio.ensure_future(_gone(request, job))
    try:
        yield _event("queued", dumps({"position": job.position}))
        async for name, content in job.messages(seconds):
            yield _event(name, content)
    except Exception as error:
        status, message = _status(error)
        yield _event("error", dumps({"status": status, "error": message}))
    else:
        yield _event("done", "{}")
    finally:
        gone.cancel()
        job.cancel()


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _status(error: Exception) -> tuple[int, str]:
    """Return the status of an error, and its line."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status, one_line(error) if status < 500 else _without_secrets(one_line(error))
    _LOG.error("a request failed: %s", type(error).__name__)  # its message may have parts of a text
    return 500, f"the model failed: {type(error).__name__}: {_without_secrets(one_line(error))}"


def _without_secrets(message: str) -> str:
    """Return a message of somebody else's code without values of variables that hold keys."""
    secret = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
    for name, value in os.environ.items():
        if secret.search(name) and len(value) >= 8:
            message = message.replace(value, "***")
    return message


_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (TooLarge, 413),
    (Busy, 429),
    (Stopped, 503),
    (MissingExtra, 503),
    (InputError, 400),
    (ModelError, 500),
)


async def _failed(_: Request, error: Exception) -> JSONResponse:
    status, message = _status(error)
    return JSONResponse({"error": message}, status, {"Retry-After": str(error.seconds)} if isinstance(error, Busy) else None)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Name the first field that is wrong, and the beginning of what was sent in it."""
    problems: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    first: dict[str, Any] = problems[0] if problems else {"loc": ("body",), "msg": "not valid"}
    if first.get("type") == "json_invalid":
        return JSONResponse({"error": "the body must be JSON"}, 400)
    place = ".".join(str(part)[:40] for part in first["loc"][1:]) or "the body"
    wrong = {"missing": "must be given", "extra_forbidden": "is no field of this request; leave it out"}.get(
        first.get("type", "")
    )
    return JSONResponse({"error": one_line(f"{place}: {wrong or validation_message(first)}; see /api/docs")}, 400)


async def _http(_: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse({"error": one_line(getattr(error, "detail", error))}, status, getattr(error, "headers", None))


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Any]] = {
    RequestValidationError: _invalid,
    HTTPException: _http,
    Exception: _failed,
    SlalomError: _failed,
}
