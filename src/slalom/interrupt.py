"""Computations that nobody waits for any more: long loops call `check`, which raises where the work was given up.

    with interrupted_if(lambda: request.cancelled):
        fit(...)                                        raises Interrupted at its next step

The test holds for the thread that entered it. Without one, `check` does nothing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slalom.errors import SlalomError

_THREAD = threading.local()


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
    before = current_test()
    _THREAD.test = test
    try:
        yield
    finally:
        _THREAD.test = before


def current_test() -> Callable[[], bool]:
    """Return the test of this thread, for others that work for it.

    Example:
        >>> current_test()()
        False
    """
    return getattr(_THREAD, "test", bool)


def check() -> None:
    """Raise Interrupted where the work of this thread was given up."""
    if current_test()():
        raise Interrupted("the work was given up")
