"""A corpus behind the server: its summary, made in the background, and its texts, searched and sorted page by page.

A run may be under way: its new parts are read when somebody asks.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeAlias, final

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from slalom.corpus.folder import Folder, Stamp, damage, part_name
from slalom.corpus.lock import is_running
from slalom.corpus.opening import Corpus, read_manifest
from slalom.corpus.progress import saved_progress
from slalom.corpus.queries import Parts, connect, identifier
from slalom.corpus.summarise import summary
from slalom.corpus.table import GIVEN
from slalom.errors import InputError, SlalomError, one_line
from slalom.render.page.corpus import summary_content
from slalom.text import printable
from slalom.web.access import Limits
from slalom.web.corpus_texts import MAX_HITS, Hit, Hits, Texts
from slalom.web.schema import CorpusQuery
from slalom.web.served import Served, dumps
from slalom.web.work import Queue

Stamps: TypeAlias = Mapping[int, Stamp]

_LOG = logging.getLogger("slalom")
_KEPT = 24  # recent searches
_PAUSE = 10.0  # seconds between two summaries of a corpus that grows, at least
_REST = 5  # times as long as the last one took, at least
_VALUES = 50  # of a kept column that is offered as slices
_WORKERS = 2


@dataclass
class _Summary:
    """The latest summary of a class, as JSON, and how far the next one is."""

    parts: Stamps | None = None  # that it is of
    content: str | None = None
    error: str | None = None
    version: int = 0
    share: float | None = None  # of the next one; None: it is not computed
    next_at: float = 0.0  # no other one begins before


@final
class ServedCorpus:
    """A corpus, its queue, its summaries and its recent searches.

    `gold` names the kept column with the true labels ("gold" where that is kept), `slices` the one whose values are compared.
    """

    def __init__(
        self, path: str | Path, models: Sequence[Served], limits: Limits, gold: str | None = None, slices: str | None = None
    ) -> None:
        connect().close()
        self._folder = Folder(path)
        manifest = read_manifest(self._folder)
        keep = tuple(manifest["keep"])
        for column in filter(None, (gold, slices)):
            if column not in keep:
                kept = ", ".join(keep) or "none"
                raise InputError(
                    f"a column must be one that the corpus keeps ({kept}); got {column!r}; --keep of the run keeps it"
                )
        gold = gold if gold is not None else "gold" if "gold" in keep else None
        self._corpus = Corpus(self._folder, manifest)
        self._texts = Texts(self._folder, self._corpus.labels, keep, gold, int(manifest["part_size"]), limits.characters)
        self._slices, self._models = slices, models
        self.name = printable(PurePosixPath(self._folder.address.replace("\\", "/")).name or "corpus")  # never a path
        self.queue = Queue("slalom corpus", _WORKERS, limits.waiting)
        self._lock, self._summarising, self._stopping = threading.Lock(), threading.Lock(), False
        self._searches: OrderedDict[Any, Hits] = OrderedDict()  # by query and parts
        self._summaries: dict[str, _Summary] = {}  # by class; "" is the one that most texts explain
        self._values: dict[str, list[tuple[Any, int]] | None] = {}
        self._same: dict[str, Any] | None = None

    def stop(self) -> None:
        self.queue.stop()
        self._stopping = True

    def _stamps(self) -> Stamps:
        """Return the parts that are there now; one that is written again has another stamp."""
        return {number: self._folder.stamp(part_name(number)) for number in self._folder.parts()}

    def _undamaged(self, parts: Stamps) -> list[int]:
        return [number for number in parts if damage(self._folder, number) is None]

    # --- the summary

    def summary(self, known: str, target: str = "") -> Iterator[str]:
        """Yield what is known of the corpus, as JSON; the summary is left out where it is the known one."""
        labels = self._corpus.labels
        if target and target not in labels:
            raise InputError(f"target must be one of {', '.join(map(repr, labels[:20]))}; got {target[:40]!r}")
        parts = self._stamps()
        with self._lock:
            latest = self._summaries.setdefault(target, _Summary())
            due = latest.parts != parts and time.monotonic() >= latest.next_at
            if parts and due and latest.share is None and not self._stopping:
                latest.share = 0.0
                threading.Thread(target=self._summarise, args=(latest, target, parts), daemon=True).start()
            version = f"{latest.version}.{labels.index(target)}" if target else str(latest.version)
            state = {"computing": latest.share is not None, "share": latest.share, "error": latest.error}
            content = latest.content if version != known else None
        about = dumps(self._about(parts))
        yield f'{{"corpus":{about},"state":{dumps(state)},"version":{dumps(version)},"summary":{content or "null"}}}'

    def _summarise(self, latest: _Summary, target: str, parts: Stamps) -> None:
        """Make a summary; one at a time."""

        def step(share: float) -> None:
            if self._stopping:
                raise HTTPException(503, "the server is stopping")
            latest.share = share

        content = error = None
        with self._summarising:
            began = time.monotonic()
            try:
                self._same = self._same or _same_model(self._corpus.manifest["model"]["identity"], self._models)
                self._values = self._counted()
                made = summary(self._corpus, gold=self._texts.gold, slices=self._slices, target=target or None, progress=step)
                found = summary_content(made)
                found["about"]["folder"] = self.name
                content = dumps(found)
            except SlalomError as failure:
                error = one_line(str(failure).replace(self._folder.path(""), f"{self.name}/"))
            except Exception as failure:
                _LOG.error("a summary failed: %s", type(failure).__name__)
                error = f"the summary failed: {type(failure).__name__}"
        ended = time.monotonic()
        with self._lock:
            latest.parts, latest.content, latest.error = parts, content or latest.content, error
            latest.share, latest.version = None, latest.version + 1
            latest.next_at = ended + max(_PAUSE, _REST * (ended - began))

    def _counted(self) -> dict[str, list[tuple[Any, int]] | None]:
        """Return statuses and the values of each kept column, the most frequent first; None where there are too many."""
        counted = dict[str, list[tuple[Any, int]] | None]()
        with closing(connect()) as connection:
            source = Parts(connection, self._folder, self._undamaged(self._stamps())).source()
            for name, column in {"": "status", **{name: GIVEN + name for name in self._texts.keep}}.items():
                value = identifier(column)
                query = f"SELECT {value}, count(*) AS n FROM {source} WHERE {value} IS NOT NULL GROUP BY 1 ORDER BY n DESC, 1"
                values = connection.execute(f"{query} LIMIT {_VALUES + 1}").fetchall()
                counted[name] = values if len(values) <= _VALUES else None
        return counted

    def _about(self, parts: Stamps) -> dict[str, Any]:
        manifest, saved = self._corpus.manifest, saved_progress(self._folder)
        done, running, options = self._count(parts), is_running(self._folder), manifest["options"]
        return {
            "name": self.name,
            "model": printable(self._corpus.model),
            "labels": list(self._corpus.labels),
            "options": {name: options[name] for name in ("method", "unit", "target", "seed")}
            | {"queries": options["queries"] if isinstance(options["queries"], int) else None},
            "gold": self._texts.gold,
            "slice": self._slices,
            "columns": {name: self._values.get(name, []) for name in self._texts.keep},
            "statuses": dict(self._values.get("") or ()),
            "sorts": list(self._texts.orders.items()),
            "texts": done,
            "of": saved.get("texts") if running or not saved.get("complete") else done,
            "parts": len(parts),
            "running": running,
            "served": self._same,
            "records": isinstance(manifest["text_column"], dict),
        }

    # --- the texts

    def texts(self, query: CorpusQuery) -> Iterator[str]:
        """Look for texts, and yield a page of them as JSON."""
        asked = query.model_dump(exclude={"offset", "limit"}, exclude_defaults=True)
        if asked and query.offset > MAX_HITS - query.limit:
            raise InputError(f"offset must be at most {MAX_HITS - query.limit:,} for a search or another order; narrow it down")
        parts, size = self._stamps(), self._texts.part_size
        readable = self._undamaged(parts)
        if not asked:  # in the order of the source no other part is read
            matches, numbers = self._count(parts), list(parts)
            places = range(query.offset, min(query.offset + query.limit, matches))
            shown: Sequence[Hit] = [(numbers[place // size] * size + place % size, None) for place in places]
        else:
            key = tuple(asked.items()), tuple(parts.items())
            hits = self._searches.get(key)
            if hits is None:
                hits = self._texts.find(query, readable)
                with self._lock:
                    self._searches[key] = hits
                    while len(self._searches) > _KEPT:
                        self._searches.popitem(last=False)
            matches, shown = hits[0], hits[1][query.offset : query.offset + query.limit]
        yield dumps({
            "texts": self._texts.entries([hit for hit in shown if hit[0] // size in readable]),
            "matches": matches,
            "offset": query.offset,
            "most": MAX_HITS if asked else matches,
            "damaged": [part_name(number) for number in parts if number not in readable][:20],
        })  # fmt: skip

    def _count(self, parts: Stamps) -> int:
        whole = max(len(parts) - 1, 0) * self._texts.part_size
        try:
            return whole + (int(self._corpus.facts(max(parts))["rows"]) if parts else 0)
        except InputError:
            return whole

    def text(self, number: int) -> Iterator[str]:
        yield dumps(self._texts.whole(number, list(self._stamps())))


def _same_model(identity: str | None, models: Sequence[Served]) -> dict[str, Any]:
    """Return the id of the served model that made the corpus, and whether it did; of the first one where none did."""
    for served in models:
        with suppress(SlalomError):
            if identity is not None and served.explainer.engine.identify() == identity:
                return {"model": served.id, "same": True}
    return {"model": models[0].id, "same": False}


def add_corpus(
    app: FastAPI, corpus: ServedCorpus, answered: Callable[[ServedCorpus, Request, Iterator[str | None]], Awaitable[Response]]
) -> None:
    """Add the routes of a corpus."""

    @app.get("/api/corpus/summary", summary="What the model does on the corpus")
    async def overview(
        request: Request,
        known: Annotated[str, Query(max_length=40, description="Version that the caller has; it is not sent again.")] = "",
        target: Annotated[str, Query(max_length=200, description="Class. Default: the one that most texts explain.")] = "",
    ) -> Response:
        return await answered(corpus, request, corpus.summary(known, target))

    @app.get("/api/corpus/texts", summary="Texts of the corpus: search, word, slice, order, page")
    async def texts(query: Annotated[CorpusQuery, Query()], request: Request) -> Response:
        return await answered(corpus, request, corpus.texts(query))

    @app.get("/api/corpus/text/{number}", summary="One text of the corpus")
    async def text(number: int, request: Request) -> Response:
        return await answered(corpus, request, corpus.text(number))
