"""What a worker does: it holds the model and explains the rows of a job.

A job's result depends on its rows alone: answers of earlier jobs are forgotten, and every text has the seed of the options.
"""

import faulthandler
import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from slalom.corpus.folder import UNDER_WAY, Folder
from slalom.corpus.table import SourceRow, explained_row, failed_row, table
from slalom.errors import InputError, ModelError, one_line
from slalom.explainer import Explainer
from slalom.models import Engine
from slalom.result import Explanation, versions

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_NOTED = 5.0  # seconds between two notes of how far a job is


@final
@dataclass(frozen=True)
class Setup:
    """What a worker needs besides its jobs."""

    explainer: Explainer | Callable[[], Explainer]
    folder: Folder  # where it is noted how far a job is
    keep: tuple[str, ...] = ()  # columns of the source that are copied
    text: bool = True  # this and the next as in `run`
    full: bool = False
    timeout: float | None = None  # seconds after which a worker ends itself without an answer of the model or a text
    max_failures: int = 0  # texts in sequence on which the model may fail alike; 0: any number
    records: bool = False  # whether the rows are records


class Job(NamedTuple):
    """Rows to explain: those of a part, or some of them."""

    part: int
    rows: tuple[SourceRow, ...]
    deaths: int = 0  # of workers that had this row alone


class _Outage(BaseException):
    """The model fails on text after text; no Exception, so that it is no failure of the text that was the last one."""


@final
class Bench:
    """A worker's model and what it does with it."""

    def __init__(self, setup: Setup) -> None:
        made = setup.explainer if isinstance(setup.explainer, Explainer) else setup.explainer()
        if not isinstance(made, Explainer):
            raise InputError(f"explainer must be an Explainer or a function that returns one; got {type(made).__name__}")
        self.setup, self.explainer = setup, made
        self._last_failure, self._failures = "", 0

    def describe(self) -> dict[str, Any]:
        """Return what results depend on, as plain data: the model, the options, the version."""
        model, options = self.explainer.model, self.explainer.options
        check_target(options.target)
        for what, name in (("a unit function", options.unit_name), ("removal", options.removal)):
            if "<lambda>" in name:
                raise InputError(f"a run that can be resumed knows {what} by its name; got a lambda; define it with def")
        target, head, settings = options.target, model.head, repr(options.method)
        if target is not None:
            target = head.labels[int(head.resolve(target, np.zeros(head.n_outputs)))]
        about = {"name": model.name, "identity": self.explainer.engine.identify(), "labels": list(head.labels)}
        kept = {name: getattr(options, name) for name in ("check", "long", "pairs", "tolerance", "max_queries")}
        return {
            "model": {**about, "scale": head.scale},
            "options": {
                "method": options.method.name,
                "unit": options.unit_kind,
                **({} if options.unit_name == options.unit_kind else {"unit_function": options.unit_name}),
                "queries": "auto" if options.auto else options.queries,
                "target": target,
                "seed": int(options.seed),
                **kept,
                "settings": None if " at 0x" in settings else settings,
                **({} if options.method.prior is None else {"prior": options.method.prior}),
                **({} if options.removal == "drop" else {"removal": options.removal}),
            },
            "slalom": versions("slalom-xai").get("slalom-xai"),
        }

    def __call__(self, job: Job, tick: Callable[[], Any] = lambda: None) -> Any:
        """Return the rows of a job as a pyarrow table: the process that started the workers only writes them."""
        setup, engine = self.setup, self.explainer.engine
        try:
            with _noted(job, setup.folder, engine) as note, _watched(setup.timeout) as alive:

                def answered(texts: int = 0) -> None:
                    alive()
                    note(texts)

                engine.answered, engine.ended = answered, self._count_failures
                rows = []
                for row in self._rows(job.rows):
                    rows.append(row)
                    answered(1)
                    tick()
        except _Outage as outage:
            raise ModelError(str(outage)) from None
        finally:
            engine.answered = engine.ended = None
        return table(rows, setup.keep, setup.records)

    def _rows(self, rows: Sequence[SourceRow]) -> Iterator[dict[str, Any]]:
        text, full = self.setup.text, self.setup.full
        results = self._explained([row.text for row in rows if row.error is None])
        for row in rows:
            result: Any = next(results) if row.error is None else None
            if isinstance(result, Explanation):
                yield explained_row(row, result, text=text, full=full)
            else:
                yield failed_row(row, row.error or result.error, text=text)

    def _explained(self, texts: Sequence[str]) -> Iterator[Any]:
        """Yield an Explanation or a Failure for each text; that texts were cut is among the remarks, and no warning."""
        engine = self.explainer.engine
        shown, engine.progress = engine.progress, False
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"\d+ tokens do not fit", UserWarning)
                engine.forget()
                yield from self.explainer.pipeline.run(texts, replace(self.explainer.options, errors="keep"), pairs=False)
                engine.forget()
        finally:
            engine.progress = shown

    def _count_failures(self, texts: int, error: Exception | None) -> None:
        """Count the texts in sequence on which the model fails alike; a call for several texts is repeated one by one."""
        if error is None:
            self._failures = 0
        if error is None or texts > 1:
            return
        kind = _NUMBERS.sub("0", f"{type(error).__name__} {error}")  # requests, ports and addresses have other numbers
        self._failures = self._failures + 1 if kind == self._last_failure else 1
        self._last_failure, most = kind, self.setup.max_failures
        if most and self._failures >= most:
            self._failures = 0
            raise _Outage(
                f"the last {most} texts failed alike: {one_line(error)}; if it is the model, run the same command again"
                " when it works; if it is the texts, add --max-failures 0 (max_failures=0)"
            )


def check_target(target: Any) -> None:
    """Raise an InputError where an Explainer explains all classes."""
    if target == "all":
        raise InputError('a corpus has one target per text; got target="all"; name a class, or leave target out')


@contextmanager
def _noted(job: Job, folder: Folder, engine: Engine) -> Iterator[Callable[[int], None]]:
    """Note how far a job is in a file, which stays where this process is killed; called with texts that are newly done."""
    name, before, done, written = f"{UNDER_WAY}/{job.part:06d}", engine.cost.inputs, 0, -math.inf

    def note(texts: int) -> None:
        nonlocal done, written
        done += texts
        if time.monotonic() - written > _NOTED:
            written = time.monotonic()
            with suppress(InputError):  # where it cannot be written the work goes on
                folder.write(name, json.dumps({"texts": done, "queries": engine.cost.inputs - before}).encode())

    note(0)
    try:
        yield note
    finally:
        folder.remove(name)


@contextmanager
def _watched(timeout: float | None) -> Iterator[Callable[[], None]]:
    """End this process where the function is not called for so many seconds; faulthandler can, whoever holds Python's lock."""
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
