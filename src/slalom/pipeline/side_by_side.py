"""Several texts at the same time: numpy computes without the interpreter's lock, a GPU while the CPU does something else."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from itertools import islice
from threading import Event, Lock
from time import perf_counter
from typing import TypeVar, final

from slalom.interrupt import current_test, interrupted_if

T = TypeVar("T")


def side_by_side(work: Callable[[T], object], items: Sequence[T], threads: int) -> Iterator[T]:
    """Work on items in several threads; yield each as soon as it and all before it are done.

    An error is raised in the place of its item. After that, or where nobody asks for more, as after Ctrl-C, the work on the
    other items is given up.

    Example:
        >>> found = []
        >>> list(side_by_side(found.append, [1, 2, 3], 2)), sorted(found)
        ([1, 2, 3], [1, 2, 3])
    """
    if min(threads, len(items)) < 2:
        for item in items:
            work(item)
            yield item
        return
    given_up, test = Event(), current_test()

    def one(item: T) -> None:
        with interrupted_if(lambda: given_up.is_set() or test()):
            work(item)

    pool, waiting, ahead = ThreadPoolExecutor(threads), iter(items), deque[tuple[T, Future[None]]]()
    try:
        while True:
            for item in islice(waiting, 2 * threads - len(ahead)):
                ahead.append((item, pool.submit(copy_context().run, one, item)))
            if not ahead:
                return
            first, future = ahead.popleft()
            future.result()
            yield first
    finally:
        given_up.set()
        pool.shutdown(cancel_futures=True)


@final
class SharedClock:
    """The time of threads that work at the same time: of a second, each of two has half.

    Example:
        >>> clock = SharedClock()
        >>> with clock.running():
        ...     began = clock()
        ...     print(clock() >= began)
        True
    """

    def __init__(self) -> None:
        self._lock, self._threads, self._passed, self._last = Lock(), 0, 0.0, perf_counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count this thread in a block."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, number: int) -> None:
        with self._lock:
            now = perf_counter()
            self._passed += (now - self._last) / max(self._threads, 1)
            self._threads, self._last = self._threads + number, now

    def __call__(self) -> float:
        """Return the seconds of a thread that has always been counted."""
        self._change(0)
        return self._passed
