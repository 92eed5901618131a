"""Jobs to workers, one at a time each, until all are done; what happens where a worker dies.

The rows of a dead worker's job are tried again one by one. A row that ends two workers by itself is marked as killed, and the
rest of its part goes on.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, final

from slalom.corpus.executors import Executor, Worker
from slalom.corpus.table import KILLED, SourceRow, arrow, failed_row, table
from slalom.corpus.work import Job, Setup
from slalom.errors import ModelError

_DEATHS = 2  # workers that a row must end by itself
_STARTS, _RESTARTS = 3, 20  # workers in sequence that may die while they load the model: the first ones, and later ones
_KILLED = 20  # rows in sequence that may end their workers: then it is not the texts
_TICK = 0.5  # seconds between looks at the number of workers


@final
class Dispatcher:
    """Computes jobs.

    Args:
        executor, setup: What starts the workers, and what they need.
        accept: Called with the description of the model of each worker, before it gets a job; raises where it is another one.
        finished: Called for every part, with its number, its pyarrow table and its rows of the source.
        tick: Called every now and then.
    """

    def __init__(
        self,
        executor: Executor,
        setup: Setup,
        accept: Callable[[dict[str, Any]], None],
        finished: Callable[[int, Any, Sequence[SourceRow]], None],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.executor, self.setup, self.accept, self.finished, self.tick = executor, setup, accept, finished, tick
        self._again = deque[Job]()  # rows of dead workers
        self._workers: set[Worker] = set()
        self._under_way: dict[Future[Any], tuple[Worker, Job | None]] = {}  # None: it loads its model
        self._parts: dict[int, tuple[Sequence[SourceRow], list[Any]]] = {}  # rows of the source, and tables of theirs
        self._failed_starts = self._killed = 0
        self._is_loaded = self._is_exhausted = False

    def run(self, jobs: Iterator[Job]) -> None:
        """Compute jobs, as many at a time as there are workers; the first job is read when the first worker has its model."""
        try:
            self._hire()
            while not self._is_exhausted or self._again or any(job for _, job in self._under_way.values()):
                for future in wait(self._under_way, _TICK, FIRST_COMPLETED).done:
                    self._collect(future, *self._under_way.pop(future), jobs)
                self._hire()
                self.tick()
        finally:
            for worker in list(self._workers):
                self._dismiss(worker)

    def _hire(self) -> None:
        """Start workers as long as there is room for more of them, and work."""
        room = (self.executor.size() if self._is_loaded else 1) - len(self._workers)
        loading = sum(job is None for _, job in self._under_way.values())
        for _ in range(min(room, len(self._again) - loading) if self._is_exhausted else room):
            worker = self.executor.start(self.setup)
            self._workers.add(worker)
            self._under_way[worker.loaded] = worker, None

    def _dismiss(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.stop()

    def _collect(self, future: "Future[Any]", worker: Worker, job: Job | None, jobs: Iterator[Job]) -> None:
        error = future.exception()
        if error is None:
            if job is None:
                self._failed_starts, self._is_loaded = 0, True
                self.accept(future.result())
            else:
                self._receive(job, future.result())
            self._give(worker, jobs)
            return
        if not isinstance(error, self.executor.deaths):
            raise getattr(error, "cause", None) or error  # Ray wraps errors of its actors
        self._dismiss(worker)
        if job is not None:
            self._retry(job)
            return
        self._failed_starts += 1
        if self._failed_starts >= (_RESTARTS if self._is_loaded else _STARTS):
            died = f"{self._failed_starts} workers in sequence died while they loaded the model"
            raise ModelError(f"{died}; is there memory for it?") from error

    def _give(self, worker: Worker, jobs: Iterator[Job]) -> None:
        job = self._again.popleft() if self._again else next(jobs, None)
        if job is None:
            self._is_exhausted = True
            self._dismiss(worker)
            return
        try:
            self._under_way[worker.submit(job)] = worker, job
        except self.executor.deaths:
            self._dismiss(worker)
            self._again.appendleft(job)  # the worker has died before it was asked

    def _retry(self, job: Job) -> None:
        self._parts.setdefault(job.part, (job.rows, []))
        deaths = job.deaths + 1 if len(job.rows) == 1 else 0
        if deaths == _DEATHS:
            self._receive(job, table([self._killed_row(job.rows[0])], self.setup.keep, self.setup.records), killed=True)
        else:
            self._again.extendleft(Job(job.part, (row,), deaths) for row in reversed(job.rows))

    def _receive(self, job: Job, explained: Any, killed: bool = False) -> None:
        """Take the table of a job; with the last one of a part, have it written."""
        self._killed = self._killed + 1 if killed else 0
        if self._killed >= _KILLED:
            raise ModelError(
                f"{_KILLED} texts in sequence have ended their workers, so that it is not the texts; look after the model, the"
                " memory or the machine, and run the same command again"
            )
        source, tables = self._parts.setdefault(job.part, (job.rows, []))
        tables.append(explained)
        if sum(part.num_rows for part in tables) == len(source):
            del self._parts[job.part]
            self.finished(job.part, arrow().concat_tables(tables).sort_by("number"), source)

    def _killed_row(self, row: SourceRow) -> dict[str, Any]:
        hung = "" if self.setup.timeout is None else f", or no answer of the model within {self.setup.timeout:g} s"
        causes = f"a crash, an exit, out of memory{hung}" if hung else "a crash, an exit, or out of memory"
        reason = f"the text ended the process that explained it, {_DEATHS} times by itself ({causes})"
        return failed_row(row, reason, KILLED, text=self.setup.text)
