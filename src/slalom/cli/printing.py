"""Output of the commands: results to standard output and files, messages to standard error."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom.errors import InputError, SlalomError
from slalom.files import write_text

if TYPE_CHECKING:
    from rich.console import Console

    from slalom.models import Estimate

_PIPE_WIDTH = 160
# Arguments of Python that are options here, as messages of the library name them.
_WORDS = (
    "answer|cache|device|labels|long|method|mode|output|part|phrases|prices|queries"
    "|question|seed|sort|span|spellings|target|template|tolerance|unit"
)
_COMPOUNDS = "base_url|max_answer_tokens|max_cost|max_failures|max_queries|min_texts|part_size|trust_remote_code"
_BOTH = re.compile(r"(--[a-z-]+(?: \d+)?) \(\w+=\w+\)")  # --full (full=True): the message has the option itself
_ARGUMENT = re.compile(rf"""\b({_WORDS}|{_COMPOUNDS})=(?:"([^"]*)"|'([^']*)'|(\d+)|True\b|({{[^}}]*}})|(?![^\s;,.)]))""")
_NAME = re.compile(  # a word that is the subject of the message, or what is to be changed
    rf"\b({_COMPOUNDS})\b(?!=)|(?:^|(?<=error: ))(?!labels)({_WORDS})(?= (?:must|needs|is)\b)"
    rf"|(?<=\braise )({_WORDS})\b|(?<=\blower )({_WORDS})\b|(?<=\bleave )({_WORDS})\b|(?<=\bneeds )({_WORDS})(?=,|;|$)"
)
_ENTRY = re.compile(r"""["']([^"']*)["']: (?:["'] ?([^"']*)["']|([\d.]+))""")  # of a mapping in a message


class UsageError(SlalomError):
    """The options do not fit together."""


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

    Example:
        >>> as_options('unit="sentence" or method="ridge" is faster; pass cache=')
        '--unit sentence or --method ridge is faster; pass --cache'
        >>> as_options('max_cost needs prices, such as prices={"input": 0.15, "output": 0.60}; lower queries')
        '--max-cost needs --prices, such as --prices 0.15,0.60; lower --queries'
    """

    def option(found: re.Match[str]) -> str:
        name, *texts, mapping = found.groups()
        value = next(filter(None, texts), "")
        if mapping:
            value = ",".join(price or f"{key}={answer}" for key, answer, price in _ENTRY.findall(mapping))
        return _flag(name) + (f" {shlex.quote(value)}" if value else "")

    message = _ARGUMENT.sub(option, _BOTH.sub(r"\1", message))
    return _NAME.sub(lambda found: _flag(found[0]), message)


def _flag(name: str) -> str:
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
