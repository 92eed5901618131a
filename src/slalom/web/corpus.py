"""A corpus behind the server: its summary, computed in the background, and its texts, searched and sorted page by page.

Nothing of the table is kept but what a page needs. A run may be under way: its new parts are read when somebody asks.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeAlias, final

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from slalom.corpus.folder import Stamp, folder_of, part_name
from slalom.corpus.lock import is_running
from slalom.corpus.opening import Corpus, read_manifest
from slalom.corpus.parts import part_file
from slalom.corpus.progress import saved_progress
from slalom.corpus.summarise import summary, unit_of
from slalom.corpus.table import GIVEN, arrow
from slalom.errors import InputError, SlalomError, one_line
from slalom.render.page.corpus import summary_content
from slalom.text import printable
from slalom.web import schema
from slalom.web.corpus_rows import entries, whole_text
from slalom.web.corpus_scan import MOST, ORDERS, Facts, Hit, Scan, query_of
from slalom.web.corpus_scan import Query as Sought
from slalom.web.corpus_snapshot import Snapshot
from slalom.web.limits import Limits
from slalom.web.served import Served, dumps
from slalom.web.work import Queue, Stopped

Answered: TypeAlias = Callable[["ServedCorpus", Request, Iterator[str | None]], Awaitable[Response]]

_LOG = logging.getLogger("slalom")
_PATIENCE = 1.5  # seconds that a request reads parts before it says how far it is
_KEPT = 24  # recent scans, and summaries of classes
_FRESH = 1.0  # seconds that a list of the parts is good for
_PAUSE = 10.0  # seconds between two summaries of a corpus that grows, at least
_PASSES = 5  # of a summary over the table, at most
_VALUES = 50  # of a kept column that is offered as slices
_WORKERS = 2
_UNITS_ABOVE = ("word", "sentence", "unit")


@final
class ServedCorpus:
    """A corpus, its queue, its summary and its recent scans.

    Args:
        path: The folder, or its address.
        models: The served models.
        limits: Bounds of requests.
        gold: Kept column with the true labels. Default: "gold" where it is kept.
        slices: Kept column whose values the summary compares.

    Raises:
        InputError: It is no corpus, or has no such column.
        MissingExtra: pyarrow is not installed.
    """

    def __init__(
        self, path: str | Path, models: Sequence[Served], limits: Limits, gold: str | None = None, slices: str | None = None
    ) -> None:
        arrow()
        self._folder = folder_of(path)
        self._manifest = read_manifest(self._folder)
        keep = tuple(self._manifest.get("keep", ()))
        for column in filter(None, (gold, slices)):
            if column not in keep:
                kept = ", ".join(keep) or "none"
                raise InputError(
                    f"a column must be one that the corpus keeps ({kept}); got {column!r}; --keep of the run keeps it"
                )
        gold = gold if gold is not None else "gold" if "gold" in keep else None
        corpus = Corpus(self._folder, self._manifest)
        merges = unit_of(corpus) not in _UNITS_ABOVE
        self._facts = Facts(corpus.labels, gold, keep, merges, int(self._manifest["part_size"]))
        self._slices, self._models, self._limits = slices, models, limits
        self.queue = Queue("slalom corpus", _WORKERS, limits.waiting)
        self._lock = threading.Lock()
        self._scans: OrderedDict[Sought, Scan] = OrderedDict()
        self._seen: tuple[float, Snapshot] | None = None
        self._summaries: OrderedDict[str, _Summary] = OrderedDict()  # by class; "" is the one that most texts explain
        self._values = _Values(self._facts)
        self._same: dict[str, Any] | None = None

    def stop(self) -> None:
        """Cancel all work."""
        self.queue.stop()
        with self._lock:
            for found in self._summaries.values():
                found.stop()

    def _snapshot(self) -> Snapshot:
        """Return the parts as they were a moment ago."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                self._seen = time.monotonic(), Snapshot(self._folder)
            return self._seen[1]

    # --- the summary

    def summary(self, known: str, target: str = "") -> Iterator[str]:
        """Yield what is known of the corpus, as JSON; the summary is left out where it is the known one."""
        if target and target not in self._facts.labels:
            raise InputError(f"target must be one of {', '.join(map(repr, self._facts.labels[:20]))}; got {target[:40]!r}")
        snapshot, summary_of_target = self._snapshot(), self._summary(target)
        summary_of_target.want(snapshot)
        version, content, state = summary_of_target.found()
        about = dumps(self._about(snapshot))
        sent = content if content is not None and version != known else "null"
        yield f'{{"corpus":{about},"state":{dumps(state)},"version":{dumps(version)},"summary":{sent}}}'

    def _summary(self, target: str) -> "_Summary":
        """Return the summary of a class; those that were asked for lately are kept."""
        with self._lock:
            found = self._summaries.pop(target, None) or _Summary(
                partial(self._summarised, target), self._facts.labels.index(target) if target else None
            )
            self._summaries[target] = found
            while len(self._summaries) > _KEPT:
                self._summaries.popitem(last=False)[1].stop()
            return found

    def _summarised(self, target: str, opened: Callable[[int], None]) -> str:
        """Return the summary as JSON. Its parts are those of one moment: it reads them several times."""
        self._same = self._same or _same_model(self._manifest, self._models)
        snapshot = Snapshot(self._folder, opened)
        self._values.read(snapshot)
        corpus = Corpus(snapshot, self._manifest)
        try:
            found = summary_content(summary(corpus, gold=self._facts.gold, slices=self._slices, target=target or None))
        except InputError as error:
            raise InputError(str(error).replace(self._folder.path(""), self.name)) from error
        found["about"]["folder"] = self.name  # never a path
        return dumps(found)

    @property
    def name(self) -> str:
        """Last part of the folder's path."""
        return printable(PurePosixPath(self._folder.address.replace("\\", "/")).name or "corpus")

    def _about(self, snapshot: Snapshot) -> dict[str, Any]:
        manifest, saved = self._manifest, saved_progress(self._folder)
        options: Mapping[str, Any] = manifest.get("options", {})
        done, _ = self._count(snapshot)
        running = is_running(self._folder)
        queries = options.get("queries")
        return {
            "name": self.name,
            "model": printable(str(manifest["model"]["name"])),
            "labels": list(self._facts.labels),
            "scale": manifest["model"].get("scale"),
            "options": {
                "method": options.get("method"),
                "unit": options.get("unit"),
                "queries": queries if isinstance(queries, int) else None,
                "target": options.get("target"),
                "seed": options.get("seed", 0),
            },
            "full": bool(manifest.get("full")),
            "text": bool(manifest.get("text", True)),
            "gold": self._facts.gold,
            "slice": self._slices,
            "columns": self._values.found(),
            "statuses": self._values.statuses(),
            "sorts": [
                {"name": name, "title": order.title} for name, order in ORDERS.items() if self._facts.gold or not order.gold
            ],
            "texts": done,
            "of": saved.get("texts") if running or not saved.get("complete") else done,
            "parts": len(snapshot.stamps),
            "running": running,
            "served": self._same,
        }

    # --- the texts

    def texts(self, wanted: schema.CorpusQuery) -> Iterator[str | None]:
        """Read parts until the query is answered or its time is up, one per step; yield a page of texts at last."""
        query = query_of(self._facts, wanted.search, wanted.word, wanted.sort, wanted.slice, wanted.target)
        if query.scans and wanted.offset > MOST - wanted.limit:
            raise InputError(f"offset must be at most {MOST - wanted.limit:,} for a search or another order; narrow it down")
        snapshot, deadline = self._snapshot(), time.monotonic() + _PATIENCE
        if not query.scans:
            yield dumps(self._in_order(snapshot, wanted))
            return
        scan = self._scan(query)
        left = 1
        while left and time.monotonic() < deadline:
            with scan.lock:
                waiting = scan.left(snapshot.stamps)
                if waiting:
                    scan.read(waiting[0], snapshot.stamps[waiting[0]], snapshot)
                left = max(len(waiting) - 1, 0)
            yield None
        with scan.lock:
            left = len(scan.left(snapshot.stamps))
            hits, matches, damaged = scan.page(wanted.offset, wanted.limit), scan.matches, set(scan.damaged)
        parts = len(snapshot.stamps)
        shown, unread = entries(snapshot, hits, self._facts)
        yield dumps({
            "texts": shown, "matches": matches, "offset": wanted.offset,
            "complete": not left, "read": parts - left, "parts": parts, "most": MOST, "damaged": _names(damaged | unread),
        })  # fmt: skip

    def _in_order(self, snapshot: Snapshot, wanted: schema.CorpusQuery) -> dict[str, Any]:
        """Return a page in the order of the source: no other part is read."""
        size, numbers = self._facts.part_size, snapshot.parts()
        total, damaged = self._count(snapshot)
        places = range(wanted.offset, min(wanted.offset + wanted.limit, total))
        hits = [Hit(numbers[place // size] * size + place % size, None) for place in places]
        shown, unread = entries(snapshot, hits, self._facts)
        return {
            "texts": shown, "matches": total, "offset": wanted.offset, "complete": True,
            "read": len(numbers), "parts": len(numbers), "most": total, "damaged": _names(damaged | unread),
        }  # fmt: skip

    def _count(self, snapshot: Snapshot) -> tuple[int, set[int]]:
        """Return the number of texts, and the last part where it is damaged, which tells how many texts it has."""
        try:
            return len(Corpus(snapshot, self._manifest)), set()
        except InputError:
            numbers = snapshot.parts()
            return (len(numbers) - 1) * self._facts.part_size, {numbers[-1]}

    def _scan(self, query: Sought) -> Scan:
        with self._lock:
            scan = self._scans.pop(query, None) or Scan(query, self._facts)
            self._scans[query] = scan
            while len(self._scans) > _KEPT:
                self._scans.popitem(last=False)
            return scan

    def text(self, number: int) -> Iterator[str]:
        """Yield one text as JSON."""
        snapshot = self._snapshot()
        full = bool(self._manifest.get("full"))
        yield dumps(whole_text(snapshot, snapshot.stamps, number, self._facts, full, self._limits.characters))


def _names(parts: set[int]) -> list[str]:
    return [part_name(number) for number in sorted(parts)[:20]]


@final
class _Values:
    """Values of the kept columns, and statuses, by how many texts have them; new parts are added."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._done: dict[int, Stamp] = {}
        self._counts: dict[str, Counter[str | None]] = {name: Counter() for name in ("status", *self._facts.keep)}

    def read(self, snapshot: Snapshot) -> None:
        """Count the values of the parts that were not read before."""
        if any(snapshot.stamps.get(number, ()) != stamp for number, stamp in self._done.items()):
            with self._lock:
                self._reset()
        columns = {"status": "status"} | {name: GIVEN + name for name in self._facts.keep}
        for number in [number for number in snapshot.stamps if number not in self._done]:
            try:
                with part_file(snapshot, number) as file:
                    table = file.read(list(columns.values()))
            except InputError:
                table = None  # the summary says what is damaged
            with self._lock:
                self._done[number] = snapshot.stamps[number]
                for name, column in columns.items() if table is not None else ():
                    if len(self._counts[name]) <= _VALUES:
                        self._counts[name].update(table.column(column).to_pylist())

    def found(self) -> dict[str, list[tuple[str, int]] | None]:
        """Return the values of each kept column, the most frequent first; None where there are too many for slices."""
        with self._lock:
            return {
                name: None if len(counts) > _VALUES else [(value, n) for value, n in counts.most_common() if value is not None]
                for name, counts in self._counts.items()
                if name in self._facts.keep
            }

    def statuses(self) -> dict[str, int]:
        """Return the number of texts by status."""
        with self._lock:
            return {str(name): n for name, n in self._counts["status"].items()}


@final
class _Summary:
    """The latest summary of a class, and the thread that makes the next one."""

    def __init__(self, make: Callable[[Callable[[int], None]], str], number: int | None) -> None:
        self._make, self._number = make, number  # of the class
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._of: Mapping[int, Stamp] | None = None  # the parts that the latest one is of
        self._content: str | None = None
        self._error: str | None = None
        self._version, self._ended, self._took, self._share = 0, 0.0, 0.0, 0.0
        self._stopping = False

    def want(self, snapshot: Snapshot) -> None:
        """Begin a summary where the parts have changed; one of a corpus that grows does not come too often."""
        with self._lock:
            known = self._of is not None and dict(self._of) == dict(snapshot.stamps)
            early = self._of is not None and time.monotonic() - self._ended < max(_PAUSE, 5 * self._took)
            if known or early or self._thread is not None or self._stopping or not snapshot.stamps:
                return
            self._share = 0.0
            self._thread = threading.Thread(target=self._run, args=(snapshot.stamps,), name="slalom summary", daemon=True)
            self._thread.start()

    def _run(self, stamps: Mapping[int, Stamp]) -> None:
        began = time.monotonic()
        content = error = None
        try:
            content = self._make(lambda count: self._opened(count, _PASSES * max(len(stamps), 1)))
        except Stopped:
            pass
        except SlalomError as failure:
            error = one_line(failure)
        except Exception as failure:
            _LOG.error("a summary failed: %s", type(failure).__name__)
            error = f"the summary failed: {type(failure).__name__}"
        with self._lock:
            self._thread, self._of, self._error = None, stamps, error
            self._content = content if content is not None else self._content
            self._ended, self._took, self._version = time.monotonic(), time.monotonic() - began, self._version + 1

    def _opened(self, count: int, most: int) -> None:
        if self._stopping:
            raise Stopped("the server is stopping")
        self._share = min(count / most, 0.99)

    def stop(self) -> None:
        """End the thread at the next part."""
        self._stopping = True

    def found(self) -> tuple[str, str | None, dict[str, Any]]:
        """Return the version of the latest summary, the summary, and how far the next one is."""
        with self._lock:
            computing = self._thread is not None
            version = str(self._version) if self._number is None else f"{self._version}.{self._number}"
            return version, self._content, {
                "computing": computing, "share": round(self._share, 3) if computing else None, "error": self._error,
            }  # fmt: skip


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
