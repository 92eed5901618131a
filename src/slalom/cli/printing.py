"""Output of the commands: results to standard output and files, messages to standard error."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom.errors import InputError, SlalomError
from slalom.files import write_text

if TYPE_CHECKING:
    from rich.console import Console

    from slalom.models import Estimate

_PIPE_WIDTH = 160


class UsageError(SlalomError):
    """The options do not fit together."""


def console() -> "Console":
    """Return the console of standard output. Colours and width are those of the terminal; a pipe is wide and plain."""
    from rich.console import Console  # noqa: PLC0415

    pipe = not sys.stdout.isatty() and "COLUMNS" not in os.environ and "FORCE_COLOR" not in os.environ
    return Console(highlight=False, width=_PIPE_WIDTH if pipe else None)


def complain(message: str) -> None:
    """Print one line to standard error."""
    from rich.console import Console  # noqa: PLC0415

    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def as_option(name: str) -> str:
    """Return an argument of Python as the command line names it."""
    return f"--{name.replace('_', '-')}"


def print_estimate(estimate: "Estimate", as_json: bool) -> None:
    """Print what `--dry-run` found out."""
    sys.stdout.write(json.dumps(estimate._asdict()) + "\n" if as_json else f"{estimate}; nothing was asked\n")


def written(result: Any, output: Any) -> bool:
    """Write a result to the files that are named; return whether everything was printed as JSON."""
    if output.csv:
        write_text(output.csv, result.to_csv())
    if output.html:
        result.to_html(output.html)
    if output.as_json:
        print(result.to_json())
    return bool(output.as_json)


def print_line(screen: "Console", text: str, style: str = "") -> None:
    """Print a line, which a terminal wraps."""
    from rich.text import Text  # noqa: PLC0415

    from slalom.render.terminal import harmless  # noqa: PLC0415

    screen.print(Text(harmless(text), style), soft_wrap=not screen.is_terminal)


def say_written(output: Any) -> None:
    """Say which files `written` wrote."""
    for path in (output.csv, output.html):
        if path:
            complain(f"written: {path}")


def print_rows(screen: "Console", heads: Sequence[str], rows: Sequence[Sequence[Any]], wrapped: bool = False) -> None:
    """Print a table: in each row a number whose sign has a colour, a name in that colour, and cells."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for i, head in enumerate(heads):
        last = wrapped and i == len(heads) - 1
        table.add_column(Text(head), justify="left" if i == 0 or last else "right", no_wrap=not last)
    for sign, name, *cells in rows:
        colour = "" if not sign else "blue" if sign > 0 else "dark_orange3"
        table.add_row(Text(short_name(name) if name.strip() else "␣", colour), *map(Text, cells))
    screen.print(table)


def short_name(name: str, most: int = 24) -> str:
    """Return a name on one line, short enough for a table."""
    from slalom.render.terminal import short  # noqa: PLC0415

    return short(name, most)


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
