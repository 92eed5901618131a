"""Several texts at the same time: numpy computes without the interpreter's lock, a GPU while the CPU does something else."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import TypeVar

from slalom.interrupt import current_test, interrupted_if

T = TypeVar("T")


def side_by_side(work: Callable[[T], object], items: Sequence[T], threads: int) -> Iterator[T]:
    """Work on items in several threads; yield each as soon as it and all before it are done.

    An error is raised in the place of its item. After that, or where nobody asks for more, as after Ctrl-C, the work on the
    other items is given up.

    Example:
        >>> squares = {}
        >>> list(side_by_side(lambda n: squares.update({n: n * n}), [1, 2, 3], 2)), squares
        ([1, 2, 3], {1: 1, 2: 4, 3: 9})
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

    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(copy_context().run, one, item) for item in items]
        for item, future in zip(items, futures, strict=True):
            future.result()
            yield item
    finally:
        given_up.set()
        pool.shutdown(cancel_futures=True)
