"""Progress of long work: a bar in a terminal or notebook, lines on standard error where the command line is redirected."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from time import monotonic
from typing import Any, Self

from slalom.errors import plural
from slalom.forks import renew_after_fork

_SECONDS = 10.0  # between two lines, and before the first
_lines = False


@contextmanager
def lines_if_redirected() -> Iterator[None]:
    """Show progress in lines where standard error is no terminal."""
    global _lines  # noqa: PLW0603
    before, _lines = _lines, True
    try:
        yield
    finally:
        _lines = before


def progress_bar(shown: bool | None = None, **options: Any) -> Any:
    """Return a progress bar."""
    if shown is None and _lines and not sys.stderr.isatty():
        return _Lines(**options)
    return _bar_class()(disable=None if shown is None else not shown, **options)


@cache
def _bar_class() -> Any:
    """Return tqdm with a lock of this process: a forked one that waits for tqdm's own would stop its parent, too."""
    from tqdm.auto import tqdm  # noqa: PLC0415

    bar: Any = type("Bar", (tqdm,), {})
    bar.set_lock(RLock())
    renew_after_fork(bar)
    return bar


class _Lines:
    """What is used of tqdm, for files and pipes: a line every now and then."""

    def __init__(self, desc: str, unit: str, total: int | None = None, initial: int = 0, leave: bool = True, **_: Any) -> None:
        self.leave, self.desc, self.unit, self.total, self.n, self.initial = leave, desc, unit, total, initial, initial
        self.postfix, self.began = "", monotonic()
        self.written, self.written_n = self.began, initial

    def update(self, n: float = 1) -> None:
        self.n += int(n)
        if self.n > self.written_n and monotonic() - self.written >= _SECONDS:
            self._write()

    def _write(self) -> None:
        self.written, self.written_n = monotonic(), self.n
        seconds, done, total = self.written - self.began, self.n - self.initial, self.total
        share = f" of {total:,} {plural(total, self.unit)} ({self.n / total:.0%})" if total else f" {plural(self.n, self.unit)}"
        left = f", about {seconds * (total - self.n) / done:.0f} s left" if total and total > self.n and done else ""
        postfix = f", {self.postfix}" if self.postfix else ""
        print(f"{self.desc}: {self.n:,}{share}, {seconds:.0f} s{left}{postfix}", file=sys.stderr, flush=True)

    def set_postfix_str(self, postfix: str, refresh: bool = True) -> None:
        self.postfix = postfix

    def refresh(self) -> None:
        """The next line has it."""

    def close(self) -> None:
        if self.leave and self.written > self.began and self.n > self.written_n:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
