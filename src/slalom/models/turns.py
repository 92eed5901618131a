"""Turns of threads that share a model: a long call is answered in parts, and others are answered in between."""

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Condition, get_ident

from slalom.models.queries import Queries

_FIRST_ROWS = 8  # of the first turn, before it is known how long they take
_ROW = 8  # tokens of a row besides its own, when turns are measured


class FairLock:
    """A reentrant lock; threads get it in the order in which they asked for it, so that none of them starves."""

    def __init__(self) -> None:
        self._changed, self._threads, self._depth = Condition(), deque[int](), 0  # the owner first, then those that wait

    @property
    def taken(self) -> bool:
        """Whether a thread has it."""
        return self._depth > 0

    @property
    def mine(self) -> bool:
        """Whether this thread has it."""
        return self.taken and self._threads[0] == get_ident()

    def __enter__(self) -> None:
        me = get_ident()
        with self._changed:
            if not self.mine:
                self._threads.append(me)
                try:
                    self._changed.wait_for(lambda: self._threads[0] == me)
                except BaseException:
                    self._threads.remove(me)
                    self._changed.notify_all()
                    raise
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._threads.popleft()
                self._changed.notify_all()


Part = list[tuple[int, Queries]]  # queries, with the numbers of their texts


class Pace:
    """How long a model takes per token, as its last turn has shown."""

    def __init__(self) -> None:
        self._seconds = 0.0  # per token

    def measure(self, part: Part, seconds: float, computed: int) -> None:
        """Learn from a turn; cached answers say nothing about the model's speed."""
        rows = sum(len(queries.keep) for _, queries in part)
        tokens = sum(int(queries.keep.sum()) for _, queries in part) + _ROW * rows
        if 2 * computed > rows:
            self._seconds = seconds / tokens * rows / computed

    def parts(self, queries: Sequence[Queries], seconds: float, least_rows: int) -> Iterator[Part]:
        """Yield queries in parts that take about so many seconds each."""
        part, rows, tokens = Part(), 0, 0
        for number, item in enumerate(queries):
            start, lengths = 0, item.keep.sum(axis=1) + _ROW
            for i, length in enumerate(lengths.tolist()):
                rows, tokens = rows + 1, tokens + length
                if rows >= least_rows and (tokens * self._seconds >= seconds if self._seconds else rows >= _FIRST_ROWS):
                    yield [*part, (number, item._replace(keep=item.keep[start : i + 1]))]
                    start, part, rows, tokens = i + 1, [], 0, 0
            if start < len(lengths) or not len(lengths):
                part.append((number, item._replace(keep=item.keep[start:])))
        if part:
            yield part
