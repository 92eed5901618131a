"""Jobs to workers, one job each, until all are done; what happens where a worker dies.

The job of a dead worker is tried again as it is. Where it ends a second worker its rows are halved, and halved again, until a
text is alone; a text that has ended two workers by itself is marked, and the rest of its part goes on. The pieces are put
together and written as one part.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, final

from slalom.corpus.executors import Executor, Worker
from slalom.corpus.table import SourceRow, arrow
from slalom.corpus.work import Finished, Job, Setup, from_stream, killed
from slalom.errors import ModelError

_ALONE = 2  # workers that a text must end by itself
_STARTS, _RESTARTS = 3, 20  # workers in sequence that may die while they load the model: the first ones, and later ones
_KILLED = 20  # texts in sequence that may end their workers: then it is not the texts
_TICK = 0.5  # seconds between looks at the number of workers


@dataclass
class _Pieces:
    """A part whose rows are computed in pieces.

    Attributes:
        rows: All its rows.
        open: Number of pieces that are not there yet.
        tables: Those that are.
    """

    rows: tuple[SourceRow, ...]
    open: int = 1
    tables: list[Any] = field(default_factory=list)


@final
class Dispatcher:
    """Computes jobs.

    Args:
        executor: Starts the workers.
        setup: What they need.
        accept: Called with the description of the model of each worker, before it gets a job; raises where it is another one.
        finished: Called for every part that a worker has written, with its number and the number of rows by status.
        assemble: Called for every part that was computed in pieces, with its number, its table and the rows of the source.
        tick: Called every now and then.
    """

    def __init__(
        self,
        executor: Executor,
        setup: Setup,
        accept: Callable[[dict[str, Any]], None],
        finished: Callable[[int, dict[str, int]], None],
        assemble: Callable[[int, Any, Sequence[SourceRow]], None],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.executor, self.setup, self.accept, self.tick = executor, setup, accept, tick
        self.finished, self.assemble = finished, assemble
        self._waiting = deque[Job]()
        self._loading: dict[Future[Any], Worker] = {}
        self._busy: dict[Future[Any], tuple[Worker, Job]] = {}
        self._idle: list[Worker] = []
        self._pieces: dict[int, _Pieces] = {}
        self._failed_starts = self._killed = 0
        self._loaded_once = False

    def describe(self) -> dict[str, Any]:
        """Start a worker, and return the description of its model."""
        try:
            while True:
                self._start()
                future, worker = next(iter(self._loading.items()))
                wait([future])
                if (found := self._loaded(future, worker)) is not None:
                    return found
        except BaseException:
            self.stop()
            raise

    def run(self, jobs: Iterator[Job]) -> None:
        """Compute jobs, as many at a time as there are workers."""
        try:
            fresh: Iterator[Job] | None = jobs
            while True:
                while self._idle and (self._waiting or fresh is not None):
                    job = self._waiting.popleft() if self._waiting else next(fresh, None) if fresh is not None else None
                    if job is None:
                        fresh = None
                        break
                    self._give(self._idle.pop(), job)
                    self._collect()  # a job of this process is done already
                if fresh is None and not self._waiting and not self._busy:
                    return
                self._fill(fresh is not None)
                if self._busy or self._loading:
                    wait([*self._busy, *self._loading], _TICK, FIRST_COMPLETED)
                self._collect()
                self.tick()
        finally:
            self.stop()

    def stop(self) -> None:
        """End all workers."""
        workers = [*self._loading.values(), *(worker for worker, _ in self._busy.values()), *self._idle]
        self._loading, self._busy, self._idle = {}, {}, []
        for worker in workers:
            worker.stop()

    def _fill(self, more: bool) -> None:
        """Start workers as long as there may be more of them and there is work for them."""
        there = len(self._loading) + len(self._busy) + len(self._idle)
        work = self.executor.size() if more else len(self._waiting) + len(self._busy)
        for _ in range(min(self.executor.size(), work) - there):
            self._start()

    def _start(self) -> None:
        worker = self.executor.start(self.setup)
        self._loading[worker.load()] = worker

    def _give(self, worker: Worker, job: Job) -> None:
        try:
            self._busy[worker.submit(job)] = worker, job
        except BaseException as error:
            if not self.executor.died(error):
                self._idle.append(worker)
                raise
            worker.stop()
            self._waiting.appendleft(job)  # it has died before it was asked

    def _collect(self) -> None:
        """Take the results that are there."""
        for future in [future for future in self._loading if future.done()]:
            self._loaded(future, self._loading[future])
        for future in [future for future in self._busy if future.done()]:
            worker, job = self._busy.pop(future)
            error = future.exception()
            if error is None:
                self._idle.append(worker)
                self._receive(job, future.result())
            elif self.executor.died(error):
                worker.stop()
                self._mourn(job)
            else:
                self._idle.append(worker)
                raise self.executor.cause(error)

    def _loaded(self, future: "Future[Any]", worker: Worker) -> dict[str, Any] | None:
        """Take a worker that has loaded its model; None where it has died."""
        del self._loading[future]
        error = future.exception()
        if error is None:
            self._idle.append(worker)
            self._failed_starts, self._loaded_once = 0, True
            found: dict[str, Any] = future.result()
            self.accept(found)
            return found
        worker.stop()
        if not self.executor.died(error):
            raise self.executor.cause(error)
        self._failed_starts += 1
        if self._failed_starts >= (_RESTARTS if self._loaded_once else _STARTS):
            raise ModelError(
                f"{self._failed_starts} workers in sequence died while they loaded the model; is there memory for it?"
            ) from error
        return None

    def _receive(self, job: Job, result: Finished) -> None:
        """Take the rows of a job; with the last piece of a part, write it."""
        self._killed = self._killed + result.counts["killed"] if result.counts["killed"] else 0
        if self._killed >= _KILLED:
            raise ModelError(
                f"{_KILLED} texts in sequence have ended their workers, so that it is not the texts; look after the model, the"
                " memory or the machine, and run the same command again"
            )
        if result.content is None:
            self.finished(job.part, result.counts)
            return
        pieces = self._pieces.setdefault(job.part, _Pieces(job.rows))
        pieces.open -= 1
        pieces.tables.append(from_stream(result.content))
        if not pieces.open:
            del self._pieces[job.part]
            self.assemble(job.part, arrow().concat_tables(pieces.tables).sort_by("number"), pieces.rows)

    def _mourn(self, job: Job) -> None:
        """Decide what happens to the job of a dead worker."""
        deaths = job.deaths + 1
        if len(job.rows) == 1 and deaths < _ALONE:
            self._waiting.appendleft(job._replace(deaths=deaths))
        elif len(job.rows) == 1:
            if job.whole:
                self._pieces[job.part] = _Pieces(job.rows)
            self._receive(job, killed(job._replace(deaths=deaths), self.setup))
        elif job.whole and deaths == 1:
            self._waiting.appendleft(job._replace(deaths=1))
        else:
            if job.part not in self._pieces:
                self._pieces[job.part] = _Pieces(job.rows)
            self._pieces[job.part].open += 1
            middle = len(job.rows) // 2
            halves = (Job(job.part, job.rows[:middle], False), Job(job.part, job.rows[middle:], False))
            self._waiting.extendleft(reversed(halves))
