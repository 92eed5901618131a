"""Output of the commands: results to standard output and files, messages to standard error."""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slalom.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 160
_ARGUMENT = re.compile(  # of Python, for what is an option here
    r"\b(cache|device|labels|long|max_queries|method|queries|seed|target|template|tolerance|unit)="
    r"""(?:"([^"]*)"|'([^']*)'|(\d+)|(?![^\s;,.)]))"""
)


def console() -> "Console":
    """Return the console of standard output. Colours and width are those of the terminal; a pipe is wide and plain."""
    from rich.console import Console  # noqa: PLC0415

    pipe = not sys.stdout.isatty() and "COLUMNS" not in os.environ and "FORCE_COLOR" not in os.environ
    return Console(highlight=False, width=_PIPE_WIDTH if pipe else None)


def complain(message: str) -> None:
    """Print one line to standard error, with options as the command line has them."""
    from rich.console import Console  # noqa: PLC0415

    Console(stderr=True, highlight=False).print(as_options(message), markup=False, soft_wrap=True)


def as_options(message: str) -> str:
    """Return a message with options of the command in place of arguments in Python.

    Args:
        message: What the library says.

    Example:
        >>> as_options('unit="sentence" or method="ridge" is faster; pass cache=')
        '--unit sentence or --method ridge is faster; pass --cache'
    """

    def option(found: re.Match[str]) -> str:
        value = found[2] or found[3] or found[4]
        return f"--{found[1].replace('_', '-')}" + (f" {shlex.quote(value)}" if value else "")

    return _ARGUMENT.sub(option, message)


def check_outputs(source: Path | None, *outputs: Path | None) -> None:
    """Fail before the work, not after it, where an output cannot be written or is the file with the texts."""
    for path in outputs:
        if path is None:
            continue
        if path.is_dir() or not path.resolve().parent.is_dir():
            raise InputError(f"could not write {str(path)!r}; name a file in a folder that exists")
        if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
            raise InputError(f"could not write {str(path)!r}; name a file that can be written")
        if source is not None and path.resolve() == source.resolve():
            raise InputError(f"{str(path)!r} is the file with the texts; name another one for the results")
