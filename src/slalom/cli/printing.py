"""Where the commands print and write: results to standard output and files, complaints to standard error."""

import os
import sys
from pathlib import Path

from rich.console import Console

from slalom.errors import InputError

_WIDE = 160


def console() -> Console:
    """Return the console of standard output; it has colours only in a terminal, and is as wide as that.

    A pipe has no width; what goes into one is meant to be read by a program or in an editor, so it is wide.
    """
    free = not sys.stdout.isatty() and "COLUMNS" not in os.environ and "FORCE_COLOR" not in os.environ
    return Console(highlight=False, width=_WIDE if free else None)


def complain(message: str) -> None:
    """Print one line to standard error."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def check_places(given: Path | None, *places: Path | None) -> None:
    """Say before the work, not after it, that a file cannot be written, or is the one with the texts."""
    for path in places:
        if path is None:
            continue
        if path.is_dir() or not path.resolve().parent.is_dir():
            raise InputError(f"could not write {str(path)!r}; name a file in a folder that exists")
        if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
            raise InputError(f"could not write {str(path)!r}; name a file that can be written")
        if given is not None and path.resolve() == given.resolve():
            raise InputError(f"{str(path)!r} is the file with the texts; name another one for the results")
