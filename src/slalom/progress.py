"""Progress of long work: a bar in a terminal or notebook, lines on standard error where the command line is redirected."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from time import monotonic
from typing import Any

from slalom.errors import plural
from slalom.forks import renew_after_fork

_SECONDS = 10.0  # between two lines, and before the first
_LINE = "{desc}: {n:,} of {total:,} {unit} ({percentage:.0f}%), {elapsed}, about {remaining} left{postfix}"
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
        options["unit"] = plural(2, options["unit"])
        options |= {"delay": _SECONDS, "disable": False, "bar_format": _LINE if options.get("total") else None}
        return _bar_class(lines=True)(**options)
    return _bar_class()(disable=None if shown is None else not shown, **options)


@cache
def _bar_class(lines: bool = False) -> Any:
    """Return tqdm with a lock of this process: a forked one that waits for tqdm's own would stop its parent, too."""
    from tqdm.auto import tqdm  # noqa: PLC0415
    from tqdm.std import tqdm as plain  # noqa: PLC0415

    def written(file: Any) -> Any:
        last = monotonic()

        def write(line: str) -> None:
            nonlocal last
            if line and monotonic() - last >= _SECONDS:
                last = monotonic()
                print(line, file=file, flush=True)

        return write

    look = {"status_printer": staticmethod(written), "moveto": lambda *_: None}  # no line is written over
    bar: Any = type("Lines", (plain,), look) if lines else type("Bar", (tqdm,), {})
    bar.set_lock(RLock())
    renew_after_fork(bar)
    return bar
