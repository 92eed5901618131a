"""Computations that nobody waits for any more: long loops call `check`, which raises where the work was given up.

    with interrupted_if(lambda: request.cancelled):
        fit(...)                                        raises Interrupted at its next step

The test holds for the thread that entered it. Without one, `check` does nothing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slalom.errors import SlalomError


class _Thread(threading.local):
    test: Callable[[], bool] = bool  # never, where nothing else is set


_THREAD = _Thread()


class Interrupted(SlalomError):
    """The work was given up before its end."""


@contextmanager
def interrupted_if(test: Callable[[], bool]) -> Iterator[None]:
    """Interrupt computations of this thread at their next `check` where a test is true.

    Example:
        >>> with interrupted_if(lambda: True):
        ...     check()
        Traceback (most recent call last):
        slalom.interrupt.Interrupted: the work was given up
    """
    before, _THREAD.test = _THREAD.test, test
    try:
        yield
    finally:
        _THREAD.test = before


def check() -> None:
    """Raise Interrupted where the work of this thread was given up."""
    if _THREAD.test():
        raise Interrupted("the work was given up")
