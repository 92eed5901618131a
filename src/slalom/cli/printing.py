"""Where the commands print: results to standard output, complaints to standard error."""

import os
import sys

from rich.console import Console

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
