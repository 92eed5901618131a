"""The routes of the server: REST with JSON, server-sent events for rounds, and the page that uses them.

A route checks its body and submits a job; a worker thread does the work, and the route passes on what it sends. A client that
goes away cancels its job.
"""

import asyncio
import logging
import mimetypes
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from jinja2 import ChainableUndefined, Environment
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import slalom
from slalom.errors import InputError, MissingExtra, ModelError, SlalomError, one_line, validation_message
from slalom.models.strings import Background
from slalom.render.page.content import content
from slalom.render.page.parts import style
from slalom.web import catalogue, schema
from slalom.web.access import Access, Limits
from slalom.web.downloads import download
from slalom.web.guard import Guard
from slalom.web.schema import ContextQuestion, DownloadRequest, Question, Subject
from slalom.web.served import Served, dumps
from slalom.web.work import Job

if TYPE_CHECKING:
    from slalom.web.corpus import ServedCorpus
    from slalom.web.sources import ServedSources

Source: TypeAlias = "Served | ServedCorpus | ServedSources"  # of answers: it has a queue

_LOG = logging.getLogger("slalom")
_STATUSES = {MissingExtra: 503, InputError: 400, ModelError: 500}


def application(
    models: Sequence[Served],
    access: Access,
    limits: Limits,
    corpus: "ServedCorpus | None" = None,
    sources: "ServedSources | None" = None,
) -> Guard:
    app = FastAPI(
        title="slalom",
        version=slalom.__version__,
        description="Explanations of text classifiers that predict what the model does.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(RequestValidationError, _invalid)
    for kind in (HTTPException, SlalomError, Exception):
        app.add_exception_handler(kind, _failed)
    _add_pages(app)
    _add_work(app, models, limits, corpus is not None, sources)
    if corpus is not None:
        from slalom.web.corpus import add_corpus  # noqa: PLC0415

        add_corpus(app, corpus, lambda source, request, steps: _answered(source, request, limits, steps))
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

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        about = app.openapi()
        return HTMLResponse(documentation.render(**about, schemas=about.get("components", {}).get("schemas", {})))


def _add_work(
    app: FastAPI, models: Sequence[Served], limits: Limits, has_corpus: bool, sources: "ServedSources | None"
) -> None:
    by_id = {served.id: served for served in models}
    looks_inside = any(served.explainer.model.tokenized for served in models)
    methods = sorted(method["name"] for method in catalogue.methods(looks_inside=True))
    info = {
        "version": slalom.__version__,
        "models": [_model(served) for served in models],
        "methods": catalogue.methods(looks_inside),
        "units": catalogue.UNITS,
        "budgets": [(queries, title) for queries, title in catalogue.BUDGETS if (queries or 0) <= limits.queries],
        "limits": {name: getattr(limits, name) for name in ("characters", "queries", "keep_rows", "seconds")},
        "examples": catalogue.EXAMPLES,
        "corpus": has_corpus,
        "sources": None if sources is None else {"model": sources.name, "remote": sources.remote},
    }

    def served_by(name: str | None) -> Served:
        if not models:
            raise InputError("this server has no classifier; start slalom serve with --template and --labels")
        if name is not None and name not in by_id:
            raise InputError(f"model must be one of {', '.join(map(repr, by_id))}; got {name[:100]!r}")
        return models[0] if name is None else by_id[name]

    def check_length(text: str) -> None:
        if len(text) > limits.characters:
            raise HTTPException(413, f"a text must have at most {limits.characters:,} characters; got {len(text):,}")

    def check_queries(queries: int | None) -> None:
        if (queries or 0) > limits.queries:
            raise InputError(f"queries must be at most {limits.queries:,}; got {queries:,}")

    def checked(subject: Subject) -> Served:
        check_length(subject.text)
        check_queries(subject.queries)
        if subject.method not in methods:
            raise InputError(f"method must be one of {', '.join(methods)}; got {subject.method[:100]!r}")
        return served_by(subject.model)

    @app.get("/api/info", summary="What this server offers")
    async def information() -> dict[str, Any]:
        return info

    @app.get("/api/methods", summary="The methods of explanation")
    async def list_methods() -> list[dict[str, Any]]:
        return catalogue.methods(looks_inside)

    @app.post(
        "/api/explain",
        summary="Explain a text",
        description="With `Accept: text/event-stream` the answer comes in rounds, as server-sent events: `queued`, `progress`,"
        " `explanation` (the last with `final: true`), `done`, or `error`.",
        response_model=schema.Explained,
    )
    async def explain(subject: Subject, request: Request) -> Response:
        served = checked(subject)
        steps = served.explained(subject, lambda e: dumps({"content": content(e), "explanation": e.to_dict(), "final": True}))
        return await _explained(served, request, limits, served.events(subject), steps)

    if sources is not None:

        @app.post(
            "/api/context",
            summary="Answer a question from sources, and tell which of them the answer rests on",
            description="With `Accept: text/event-stream` it comes in rounds: `queued`, `writing`, `answer`, `progress`,"
            " `explanation` (the last with `final: true`), `done`, or `error`. The units of the explanation are the sources;"
            " `content.sentences` are those of the answer.",
            response_model=schema.Explained,
        )
        async def context(asked: ContextQuestion, request: Request) -> Response:
            check_length(asked.sources if isinstance(asked.sources, str) else "".join(asked.sources))
            check_queries(asked.queries)
            return await _explained(sources, request, limits, sources.events(asked), sources.explained(asked))

    @app.post(
        "/api/ask", summary="Ask the model about parts of a text, or about whole texts", response_model=schema.AskedAnswer
    )
    async def ask(question: Question, request: Request) -> Response:
        rows = question.texts if question.keep is None else question.keep
        if rows is None or (question.keep is not None and (question.texts is not None or question.text is None)):
            raise InputError("a question needs text and keep, or texts")
        if not 1 <= len(rows) <= limits.keep_rows:
            raise InputError(f"a question must have 1 to {limits.keep_rows:,} rows or texts; got {len(rows):,}")
        for text in question.texts or ():
            check_length(text)
        served = served_by(question.model) if question.keep is None else checked(question.subject())
        return await _answered(served, request, limits, served.asked(question))

    @app.post(
        "/api/flip", summary="The fewest units without which the model decides otherwise", response_model=schema.FlipAnswer
    )
    async def flip(subject: Subject, request: Request) -> Response:
        served = checked(subject)
        return await _answered(served, request, limits, served.explained(subject, served.flip))

    @app.post("/api/download", summary="An explanation as a file", response_class=Response)
    async def get_file(wanted: DownloadRequest, request: Request) -> Response:
        served = checked(wanted)
        steps = served.explained(wanted, lambda e: download(e, wanted, served.code_of(e)))
        name, media_type, file = await _result(served, request, limits, steps)
        return Response(file, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})


def _model(served: Served) -> dict[str, Any]:
    model = served.explainer.model
    about = {"id": served.id, "name": model.name, "labels": list(model.head.labels), "scale": model.head.scale}
    rows = getattr(model, "background", Background()).rows
    numbers = [bool(rows) and all(isinstance(row.get(name), (int, float)) for row in rows) for name in model.fields]
    fields = [{"name": name, "number": number} for name, number in zip(model.fields, numbers, strict=True)]
    # of a model that takes records without known fields, a visitor chooses; remote: texts go to the API of somebody else
    return about | {"records": model.reads_records, "fields": fields, "remote": served.remote}


def _submitted(source: Source, steps: Iterator[Any]) -> Job:
    job = Job(steps)
    source.queue.submit(job)
    return job


async def _messages(request: Request, job: Job, seconds: float) -> AsyncIterator[Any]:
    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        job.cancel("the client has gone")

    watching = asyncio.ensure_future(watch())
    try:
        async for message in job.messages(seconds):
            yield message
    finally:
        watching.cancel()
        job.cancel()


async def _result(source: Source, request: Request, limits: Limits, steps: Iterator[Any]) -> Any:
    result = None
    async for message in _messages(request, _submitted(source, steps), limits.seconds):
        result = message
    return result


async def _answered(source: Source, request: Request, limits: Limits, steps: Iterator[str | None]) -> Response:
    return Response(await _result(source, request, limits, steps), media_type="application/json")


async def _explained(
    source: Source, request: Request, limits: Limits, events: Iterator[Any], steps: Iterator[str | None]
) -> Response:
    """Return an explanation in rounds where the client takes events, else as a whole."""
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await _answered(source, request, limits, steps)
    return StreamingResponse(_stream(request, _submitted(source, events), limits.seconds), media_type="text/event-stream")


async def _stream(request: Request, job: Job, seconds: float) -> AsyncIterator[str]:
    try:
        yield _event("queued", dumps({"position": job.position}))
        async for name, message in _messages(request, job, seconds):
            yield _event(name, message)
    except Exception as error:
        status, said = _status(error)
        yield _event("error", dumps({"status": status, "error": said}))
    else:
        yield _event("done", "{}")
    finally:
        job.cancel()


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _status(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, one_line(error.detail)
    status, said = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), None), one_line(error)
    if status is None:
        _LOG.error("a request failed: %s", type(error).__name__)  # its message may have parts of a text
        status, said = 500, f"the model failed: {type(error).__name__}: {said}"
    return status, said if status < 500 else _without_secrets(said)


def _without_secrets(message: str) -> str:
    """Return a message of somebody else's code without values of variables that hold keys."""
    for name, value in os.environ.items():
        if re.search(r"KEY|TOKEN|SECRET|PASSWORD", name, re.IGNORECASE) and len(value) >= 8:
            message = message.replace(value, "***")
    return message


async def _failed(_: Request, error: Exception) -> JSONResponse:
    status, message = _status(error)
    return JSONResponse({"error": message}, status, getattr(error, "headers", None))


async def _invalid(_: Request, error: Any) -> JSONResponse:
    """Name the first field that is wrong, and the beginning of what was sent in it."""
    first: dict[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse({"error": "the body must be JSON"}, 400)
    place = ".".join(str(part)[:40] for part in first["loc"][1:]) or "the body"
    known = {"missing": "must be given", "extra_forbidden": "is no field of this request; leave it out"}
    wrong = known.get(first["type"]) or validation_message(first)
    return JSONResponse({"error": one_line(f"{place}: {wrong}; see /api/docs")}, 400)
