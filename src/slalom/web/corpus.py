"""A corpus behind the server: its summary and its texts, searched and sorted page by page, both by DuckDB in the background.

A run may be under way: its new parts are read when somebody asks.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, final

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from slalom.corpus.engine import Parts, connect, identifier
from slalom.corpus.folder import Folder, Stamp, part_name
from slalom.corpus.lock import is_running
from slalom.corpus.opening import Corpus, read_manifest
from slalom.corpus.parts import damage
from slalom.corpus.progress import saved_progress
from slalom.corpus.summarise import summary
from slalom.corpus.table import GIVEN
from slalom.errors import InputError, SlalomError, one_line
from slalom.render.page.corpus import summary_content
from slalom.text import printable
from slalom.web import schema
from slalom.web.corpus_rows import entries, whole_text
from slalom.web.corpus_search import MOST, ORDERS, Facts, Hits, find, query_of
from slalom.web.limits import Limits
from slalom.web.served import Served, dumps
from slalom.web.work import Queue, Stopped

Answered: TypeAlias = Callable[["ServedCorpus", Request, Iterator[str | None]], Awaitable[Response]]
Stamps: TypeAlias = Mapping[int, Stamp]
T = TypeVar("T")

_LOG = logging.getLogger("slalom")
_PATIENCE = 1.5  # seconds that a request waits for a search before it says that it is not ready
_KEPT = 24  # recent searches, and summaries of classes
_FRESH = 1.0  # seconds that a list of the parts is good for
_PAUSE = 10.0  # seconds between two summaries of a corpus that grows, at least
_VALUES = 50  # of a kept column that is offered as slices
_WORKERS = 2


@final
class ServedCorpus:
    """A corpus, its queue, its summaries and its recent searches.

    Args:
        path: The folder, or its address.
        models: The served models.
        limits: Bounds of requests.
        gold: Kept column with the true labels. Default: "gold" where it is kept.
        slices: Kept column whose values the summary compares.

    Raises:
        InputError: It is no corpus, or has no such column.
        MissingExtra: duckdb is not installed.
    """

    def __init__(
        self, path: str | Path, models: Sequence[Served], limits: Limits, gold: str | None = None, slices: str | None = None
    ) -> None:
        connect().close()
        self._folder = Folder(path)
        self._manifest = read_manifest(self._folder)
        keep = tuple(self._manifest.get("keep", ()))
        for column in filter(None, (gold, slices)):
            if column not in keep:
                kept = ", ".join(keep) or "none"
                raise InputError(
                    f"a column must be one that the corpus keeps ({kept}); got {column!r}; --keep of the run keeps it"
                )
        gold = gold if gold is not None else "gold" if "gold" in keep else None
        self._corpus = Corpus(self._folder, self._manifest)
        self._facts = Facts(self._corpus.labels, gold, keep, int(self._manifest["part_size"]))
        self._slices, self._models, self._limits = slices, models, limits
        self.queue = Queue("slalom corpus", _WORKERS, limits.waiting)
        self._lock = threading.Lock()
        self._seen: tuple[float, Stamps] | None = None
        self._searches: OrderedDict[Any, _Task[Hits]] = OrderedDict()  # by query and parts
        self._summaries: OrderedDict[str, _Summary] = OrderedDict()  # by class; "" is the one that most texts explain
        self._values: dict[str, list[tuple[Any, int]] | None] = {}
        self._same: dict[str, Any] | None = None

    def stop(self) -> None:
        """Cancel all work."""
        self.queue.stop()
        with self._lock:
            for summary in self._summaries.values():
                summary.stop()

    def _stamps(self) -> Stamps:
        """Return the parts as they were a moment ago; one that is written again has another stamp."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                local = self._folder.is_local  # a request for each part would take long
                parts = self._folder.parts()
                self._seen = time.monotonic(), {n: self._folder.stamp(part_name(n)) if local else None for n in parts}
            return self._seen[1]

    def _good(self, stamps: Stamps) -> list[int]:
        return [number for number in stamps if damage(self._folder, number) is None]

    # --- the summary

    def summary(self, known: str, target: str = "") -> Iterator[str]:
        """Yield what is known of the corpus, as JSON; the summary is left out where it is the known one."""
        if target and target not in self._facts.labels:
            raise InputError(f"target must be one of {', '.join(map(repr, self._facts.labels[:20]))}; got {target[:40]!r}")
        stamps = self._stamps()
        with self._lock:
            number = f".{self._facts.labels.index(target)}" if target else ""
            latest = _recent(self._summaries, target, lambda: _Summary(lambda step: self._summarised(target, step), number))
        latest.want(stamps)
        version, content, state = latest.found()
        sent = content if content is not None and version != known else "null"
        yield f'{{"corpus":{dumps(self._about(stamps))},"state":{dumps(state)},"version":{dumps(version)},"summary":{sent}}}'

    def _summarised(self, target: str, step: Callable[[float], Any]) -> str:
        """Return the summary as JSON."""
        self._same = self._same or _same_model(self._manifest, self._models)
        self._values = self._counted()
        options: dict[str, Any] = {"gold": self._facts.gold, "slices": self._slices, "target": target or None}
        try:
            content = summary_content(summary(self._corpus, **options, progress=step))
        except InputError as error:
            raise InputError(str(error).replace(self._folder.path(""), self.name)) from error
        content["about"]["folder"] = self.name  # never a path
        return dumps(content)

    def _counted(self) -> dict[str, list[tuple[Any, int]] | None]:
        """Return statuses and the values of each kept column, the most frequent first; None where there are too many."""
        connection, found = connect(), dict[str, list[tuple[Any, int]] | None]()
        try:
            source = Parts(connection, self._folder, self._good(self._stamps())).source()
            for name, column in {"": "status", **{name: GIVEN + name for name in self._facts.keep}}.items():
                value = identifier(column)
                query = f"SELECT {value}, count(*) AS n FROM {source} WHERE {value} IS NOT NULL GROUP BY 1 ORDER BY n DESC, 1"
                values = connection.execute(f"{query} LIMIT {_VALUES + 1}").fetchall()
                found[name] = values if len(values) <= _VALUES else None
        finally:
            connection.close()
        return found

    @property
    def name(self) -> str:
        """Last part of the folder's path."""
        return printable(PurePosixPath(self._folder.address.replace("\\", "/")).name or "corpus")

    def _about(self, stamps: Stamps) -> dict[str, Any]:
        manifest, saved = self._manifest, saved_progress(self._folder)
        options: Mapping[str, Any] = manifest.get("options", {})
        done, running, queries = self._count(stamps), is_running(self._folder), options.get("queries")
        return {
            "name": self.name,
            "model": printable(str(manifest["model"]["name"])),
            "labels": list(self._facts.labels),
            "scale": manifest["model"].get("scale"),
            "options": {name: options.get(name) for name in ("method", "unit", "target")}
            | {"queries": queries if isinstance(queries, int) else None, "seed": options.get("seed", 0)},
            "full": bool(manifest.get("full")),
            "text": bool(manifest.get("text", True)),
            "gold": self._facts.gold,
            "slice": self._slices,
            "columns": {name: self._values.get(name, []) for name in self._facts.keep},
            "statuses": dict(self._values.get("") or ()),
            "sorts": [
                {"name": name, "title": order.title} for name, order in ORDERS.items() if self._facts.gold or not order.gold
            ],
            "texts": done,
            "of": saved.get("texts") if running or not saved.get("complete") else done,
            "parts": len(stamps),
            "running": running,
            "served": self._same,
        }

    # --- the texts

    def texts(self, wanted: schema.CorpusQuery) -> Iterator[str | None]:
        """Wait for a search until it is ready or the time is up, and yield a page of texts."""
        query = query_of(self._facts, wanted.search, wanted.word, wanted.sort, wanted.slice, wanted.target)
        if query.scans and wanted.offset > MOST - wanted.limit:
            raise InputError(f"offset must be at most {MOST - wanted.limit:,} for a search or another order; narrow it down")
        stamps, size, share = self._stamps(), self._facts.part_size, 1.0
        page = slice(wanted.offset, wanted.offset + wanted.limit)
        good = self._good(stamps)
        if query.scans:
            with self._lock:
                key = query, tuple(good), tuple(stamps.items())
                search = _recent(self._searches, key, lambda: _Task(lambda step: find(self._folder, good, query, self._facts)))
            deadline = time.monotonic() + _PATIENCE
            while not search.done(0.05) and time.monotonic() < deadline:
                yield None
            hits, share = (search.result(), 1.0) if search.done() else (Hits(0, ()), 0.0)
            matches, shown = hits.matches, hits.first[page]
        else:  # in the order of the source no other part is read
            matches, numbers = self._count(stamps), list(stamps)
            places = range(page.start, min(page.stop, matches))
            shown = [(numbers[place // size] * size + place % size, None) for place in places]
        yield dumps({
            "texts": entries(self._folder, [hit for hit in shown if hit[0] // size in good], self._facts),
            "matches": matches, "offset": wanted.offset, "complete": share == 1.0, "read": round(share * len(stamps)),
            "parts": len(stamps), "most": MOST if query.scans else matches,
            "damaged": [part_name(number) for number in stamps if number not in good][:20],
        })  # fmt: skip

    def _count(self, stamps: Stamps) -> int:
        """Return the number of texts; a last part that is damaged does not tell how many it has."""
        last = max(stamps, default=0)
        try:
            return (len(stamps) - 1) * self._facts.part_size + self._corpus.facts(last)["rows"] if stamps else 0
        except InputError:
            return (len(stamps) - 1) * self._facts.part_size

    def text(self, number: int) -> Iterator[str]:
        """Yield one text as JSON."""
        full = bool(self._manifest.get("full"))
        yield dumps(whole_text(self._folder, self._stamps(), number, self._facts, full, self._limits.characters))


def _recent(kept: OrderedDict[Any, T], key: Any, make: Callable[[], T]) -> T:
    """Return what is kept under a key, or make it; the least recent ones are forgotten."""
    found = kept.pop(key, None) or make()
    kept[key] = found
    while len(kept) > _KEPT:
        forgotten = kept.popitem(last=False)[1]
        if isinstance(forgotten, _Summary):
            forgotten.stop()
    return found


@final
class _Task(Generic[T]):
    """A computation in a thread of its own.

    Args:
        work: What is computed; it is given a function to call with the share that is done, which raises to stop it.
    """

    def __init__(self, work: Callable[[Callable[[float], Any]], T]) -> None:
        self._work, self._found = work, list[T]()
        self._error: Exception | None = None
        self.share, self._stopping, self.began = 0.0, False, time.monotonic()
        self._thread = threading.Thread(target=self._run, name="slalom corpus task", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._work(self._step))
        except Exception as error:
            self._error = error

    def _step(self, share: float) -> None:
        if self._stopping:
            raise Stopped("the server is stopping")
        self.share = share

    def stop(self) -> None:
        """End the thread at its next step."""
        self._stopping = True

    def done(self, seconds: float = 0.0) -> bool:
        """Return whether it has ended, after at most so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> T:
        """Return what was computed, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._found[0]


@final
class _Summary:
    """The latest summary of a class, and the task that makes the next one."""

    def __init__(self, make: Callable[[Callable[[float], Any]], str], number: str) -> None:
        self._make, self._number = make, number  # of the class
        self._lock = threading.Lock()
        self._task: _Task[str] | None = None
        self._of: Stamps | None = None  # the parts that the latest one is of
        self._wanted: Stamps = {}
        self._content: str | None = None
        self._error: str | None = None
        self._version, self._ended, self._took, self._stopping = 0, 0.0, 0.0, False

    def want(self, stamps: Stamps) -> None:
        """Begin a summary where the parts have changed; one of a corpus that grows does not come too often."""
        with self._lock:
            self._collect()
            early = self._of is not None and time.monotonic() - self._ended < max(_PAUSE, 5 * self._took)
            if self._of == stamps or early or self._task is not None or self._stopping or not stamps:
                return
            self._wanted, self._task = stamps, _Task(self._make)

    def _collect(self) -> None:
        """Take the result of a task that has ended."""
        if self._task is None or not self._task.done():
            return
        task, self._task, self._error = self._task, None, None
        try:
            self._content = task.result()
        except Stopped:
            pass
        except SlalomError as failure:
            self._error = one_line(failure)
        except Exception as failure:
            _LOG.error("a summary failed: %s", type(failure).__name__)
            self._error = f"the summary failed: {type(failure).__name__}"
        self._of, self._ended, self._version = self._wanted, time.monotonic(), self._version + 1
        self._took = self._ended - task.began

    def stop(self) -> None:
        """End the task at its next step."""
        with self._lock:
            self._stopping = True
            if self._task is not None:
                self._task.stop()

    def found(self) -> tuple[str, str | None, dict[str, Any]]:
        """Return the version of the latest summary, the summary, and how far the next one is."""
        with self._lock:
            self._collect()
            share = None if self._task is None else round(self._task.share, 3)
            state = {"computing": share is not None, "share": share, "error": self._error}
            return f"{self._version}{self._number}", self._content, state


def _same_model(manifest: Mapping[str, Any], models: Sequence[Served]) -> dict[str, Any]:
    """Return the id of the served model that made the corpus, and whether it did; of the first one where none did.

    It is not known (None) where a model has no identity, but the name and the labels are the same.
    """
    about = manifest["model"]
    wanted = about.get("identity")
    default = models[0]
    alike = [
        one
        for one in models
        if (one.explainer.model.name, list(one.explainer.model.head.labels)) == (about["name"], about["labels"])
    ]
    if wanted is not None:
        identities = []
        for served in models:
            try:
                identities.append(served.explainer.engine.identify())
            except SlalomError:
                identities.append(None)
            if identities[-1] == wanted:
                return {"model": served.id, "same": True}
        if None not in identities:
            return {"model": default.id, "same": False}
    return {"model": alike[0].id, "same": None} if alike else {"model": default.id, "same": False}


def add_corpus(app: FastAPI, corpus: ServedCorpus, answered: Answered) -> None:
    """Add the routes of a corpus."""

    @app.get("/api/corpus/summary", summary="What the model does on the corpus", response_model=schema.CorpusOverview)
    async def overview(
        request: Request,
        known: Annotated[str, Query(max_length=40, description="Version that the caller has; it is not sent again.")] = "",
        target: Annotated[str, Query(max_length=200, description="Class. Default: the one that most texts explain.")] = "",
    ) -> Response:
        return await answered(corpus, request, corpus.summary(known, target))

    @app.get(
        "/api/corpus/texts",
        summary="Texts of the corpus: search, word, slice, order, page",
        description="A long search comes in pieces: while `complete` is false the same request goes on.",
        response_model=schema.CorpusTexts,
    )
    async def texts(wanted: Annotated[schema.CorpusQuery, Query()], request: Request) -> Response:
        return await answered(corpus, request, corpus.texts(wanted))

    @app.get("/api/corpus/text/{number}", summary="One text of the corpus", response_model=schema.CorpusText)
    async def text(number: int, request: Request) -> Response:
        return await answered(corpus, request, corpus.text(number))
