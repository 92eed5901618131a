"""What a worker does: it holds the model, explains the rows of a job, and writes them as a part.

A job's result depends on its rows alone: answers of earlier jobs are forgotten, and every text has the seed of the options.
"""

import faulthandler
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

from slalom.corpus.folder import UNDER_WAY, Folder
from slalom.corpus.parts import write_part
from slalom.corpus.sources import digest
from slalom.corpus.table import KILLED, SourceRow, arrow, counts, encoded, explained_row, failed_row, table
from slalom.errors import InputError, ModelError, one_line
from slalom.explainer import Explainer
from slalom.models import Engine
from slalom.result import Explanation, versions

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_NOTED = 5.0  # seconds between two notes of how far a part is


@final
@dataclass(frozen=True)
class Setup:
    """What a worker needs besides its jobs.

    Attributes:
        explainer: The Explainer, or a function that makes it in the worker's process.
        folder: Where parts are written.
        keep: Columns of the source that are copied.
        text: Whether texts are kept.
        full: Whether whole explanations are kept.
        timeout: Seconds after which a worker ends itself that has had no answer of the model and finished no text.
        max_failures: Texts in sequence on which the model may fail alike; 0: any number.
    """

    explainer: Explainer | Callable[[], Explainer]
    folder: Folder
    keep: tuple[str, ...] = ()
    text: bool = True
    full: bool = False
    timeout: float | None = None
    max_failures: int = 0


class Job(NamedTuple):
    """Rows to explain.

    Attributes:
        part: Number of their part.
        rows: The rows.
        whole: Whether they are the whole part, which the worker writes; else it returns them.
        deaths: Number of workers that have died of it.
    """

    part: int
    rows: tuple[SourceRow, ...]
    whole: bool = True
    deaths: int = 0


class Finished(NamedTuple):
    """The result of a job.

    Attributes:
        counts: Number of rows by status.
        content: The rows as an Arrow stream; None where the worker has written the part.
    """

    counts: dict[str, int]
    content: bytes | None = None


class _Outage(BaseException):
    """The model fails on text after text; no Exception, so that it is no failure of the text that was the last one."""


@final
class _Outages:
    """Counts the texts in sequence on which the model fails alike, also from one job to the next.

    Where a call for several texts fails, each is asked by itself; only these calls count.

    Args:
        most: How many there may be; 0: any number.
    """

    def __init__(self, most: int) -> None:
        self.most, self.kind, self.number = most, "", 0

    def __call__(self, texts: int, error: Exception | None) -> None:
        """Take the end of a call of the engine."""
        if error is None:
            self.kind, self.number = "", 0
        if error is None or texts > 1:
            return
        kind = _NUMBERS.sub("0", f"{type(error).__name__} {error}")  # requests, ports and addresses have other numbers
        self.kind, self.number = kind, self.number + 1 if kind == self.kind else 1
        if self.most and self.number >= self.most:
            self.number = 0
            raise _Outage(
                f"the last {self.most} texts failed alike: {one_line(error)}; if it is the model, run the same command again"
                " when it works; if it is the texts, add --max-failures 0 (max_failures=0)"
            )


@final
class _Note:
    """Writes down every few seconds how far a part is, for `status`.

    Args:
        job: The part; the pieces of one are not noted.
        folder: Where the corpus lies.
        engine: The engine that asks for it.

    Attributes:
        texts: Texts that are explained.
    """

    def __init__(self, job: Job, folder: Folder, engine: Engine) -> None:
        self.folder, self.engine, self.name = folder, engine, f"{UNDER_WAY}/{job.part:06d}" if job.whole else ""
        self.texts, self.asked, self.written, self.time = 0, engine.cost.inputs, False, time.monotonic()

    def write(self) -> None:
        """Write the note, if it is time; where it cannot be written the work goes on."""
        if self.name and time.monotonic() - self.time > _NOTED:
            content = json.dumps({"texts": self.texts, "queries": self.engine.cost.inputs - self.asked})
            with suppress(InputError):
                self.folder.write(self.name, content.encode())
            self.time, self.written = time.monotonic(), True

    def remove(self) -> None:
        """Remove the note of a part that is there."""
        if self.written:
            self.folder.remove(self.name)


@final
class Bench:
    """A worker's model and what it does with it.

    Args:
        setup: What it needs.
    """

    def __init__(self, setup: Setup) -> None:
        made = setup.explainer if isinstance(setup.explainer, Explainer) else setup.explainer()
        if not isinstance(made, Explainer):
            raise InputError(f"explainer must be an Explainer or a function that returns one; got {type(made).__name__}")
        self.setup, self.explainer = setup, made
        self._outages = _Outages(setup.max_failures)

    def describe(self) -> dict[str, Any]:
        """Return what results depend on, as plain data: the model, the options, the version."""
        model, options = self.explainer.model, self.explainer.options
        if options.target == "all":
            raise InputError('a corpus has one target per text; got target="all"; name a class, or leave target out')
        if "<lambda>" in options.unit_name:
            raise InputError("a run that can be resumed knows a unit function by its name; got a lambda; define it with def")
        target = options.target if options.target is None else model.head.labels[_column(model, options.target)]
        settings = repr(options.method)
        return {
            "model": {
                "name": model.name,
                "identity": self.explainer.engine.identify(),
                "labels": list(model.head.labels),
                "scale": model.head.scale,
            },
            "options": {
                "method": options.method.name,
                "unit": options.unit_kind,
                **({} if options.unit_name == options.unit_kind else {"unit_function": options.unit_name}),
                "queries": "auto" if options.auto else options.queries,
                "check": options.check,
                "target": target,
                "seed": int(options.seed),
                "long": options.long,
                "pairs": options.pairs,
                "tolerance": options.tolerance,
                "max_queries": options.max_queries,
                "settings": None if " at 0x" in settings else settings,
            },
            "slalom": versions("slalom-xai").get("slalom-xai"),
        }

    def __call__(self, job: Job, tick: Callable[[], None] = lambda: None) -> Finished:
        """Explain the rows of a job; a part is written as a whole."""
        setup, engine = self.setup, self.explainer.engine
        note = _Note(job, setup.folder, engine)
        try:
            with _watched(setup.timeout) as alive:

                def answered() -> None:
                    alive()
                    note.write()

                def explained() -> None:
                    note.texts += 1
                    answered()
                    tick()

                engine.answered, engine.ended = answered, self._outages
                rows = list(self._rows(job.rows, explained))
        except _Outage as outage:
            raise ModelError(str(outage)) from None
        finally:
            engine.answered = engine.ended = None
        made = table(rows, setup.keep)
        if not job.whole:
            return Finished(counts(made), to_stream(made))
        write_part(setup.folder, job.part, encoded(made, digest(job.rows)))
        note.remove()
        return Finished(counts(made))

    def _rows(self, rows: Sequence[SourceRow], tick: Callable[[], None]) -> Iterator[dict[str, Any]]:
        text, full = self.setup.text, self.setup.full
        results = self._explained([row.text for row in rows if row.error is None])
        for row in rows:
            if row.error is not None:
                yield failed_row(row, row.error, text=text)
            else:
                result = next(results)
                made = isinstance(result, Explanation)
                yield explained_row(row, result, text=text, full=full) if made else failed_row(row, result.error, text=text)
            tick()

    def _explained(self, texts: Sequence[str]) -> Iterator[Any]:
        """Yield an Explanation or a Failure for each text."""
        with _quiet(self.explainer):
            self.explainer.engine.forget()
            yield from self.explainer.pipeline.run(texts, replace(self.explainer.options, errors="keep"), check_pairs=False)
            self.explainer.engine.forget()


def killed(job: Job, setup: Setup) -> Finished:
    """Return the result of a job of one text that has ended its workers."""
    causes = "a crash, an exit, or out of memory"
    if setup.timeout is not None:
        causes = f"a crash, an exit, out of memory, or no answer of the model within {setup.timeout:g} s"
    reason = f"the text ended the process that explained it, {job.deaths} times by itself ({causes})"
    made = table([failed_row(row, reason, KILLED, text=setup.text) for row in job.rows], setup.keep)
    return Finished(counts(made), to_stream(made))


def to_stream(made: Any) -> bytes:
    """Return a pyarrow table as bytes."""
    sink = arrow().BufferOutputStream()
    with arrow().ipc.new_stream(sink, made.schema) as stream:
        stream.write_table(made)
    return bytes(sink.getvalue())


def from_stream(content: bytes) -> Any:
    """Return the pyarrow table of `to_stream`."""
    with arrow().ipc.open_stream(content) as stream:
        return stream.read_all()


@contextmanager
def _watched(timeout: float | None) -> Iterator[Callable[[], None]]:
    """End this process where the function that is returned is not called for so many seconds; None: never.

    A thread of faulthandler does that, which needs no lock of Python: a model that holds it is ended too.
    """
    if timeout is None:
        yield lambda: None
        return
    with open(os.devnull, "wb") as nowhere:

        def alive() -> None:
            faulthandler.dump_traceback_later(timeout, exit=True, file=nowhere)

        alive()
        try:
            yield alive
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _quiet(explainer: Explainer) -> Iterator[None]:
    """Show no progress of single parts, and no warning about texts that were cut, which the table has among the remarks."""
    shown, explainer.engine.progress = explainer.engine.progress, False
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\d+ tokens do not fit", UserWarning)
            yield
    finally:
        explainer.engine.progress = shown


def _column(model: Any, target: Any) -> int:
    import numpy as np  # noqa: PLC0415

    return int(model.head.resolve(target, np.zeros(model.head.n_outputs)))
