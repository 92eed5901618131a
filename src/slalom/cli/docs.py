"""The reference page of the commands, from `--help`: `python -m slalom.cli.docs > docs/cli.md`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO

import typer

from slalom.cli.app import COMMANDS, app

_WIDTH = "110"  # the page's columns


def commands() -> str:
    """Return the help of all commands as Markdown, the same whatever the terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "PY_COLORS")}
    environment |= {"COLUMNS": _WIDTH, "TERMINAL_WIDTH": _WIDTH, "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    asked = [sys.executable, "-m", "slalom.cli.docs", "--helps"]  # typer reads the environment when it is imported
    run = subprocess.run(asked, env=environment, capture_output=True, encoding="utf-8", check=True)
    parts = ["# The command line", "", "The output of `--help`; `python -m slalom.cli.docs > docs/cli.md` writes this page."]
    for command, text in json.loads(run.stdout).items():
        lines = [line.rstrip() for line in text.strip().splitlines()]
        parts += ["", f"## slalom {command}".rstrip(), "", "```", *lines, "```"]
    return "\n".join([*parts, ""])


def _helps() -> dict[str, str]:
    """Return what `--help` prints, by command."""
    return {name: _help(name.split()) for name in _names()}


def _help(words: list[str]) -> str:
    with redirect_stdout(StringIO()) as said, suppress(SystemExit):
        app([*words, "--help"], prog_name="slalom")
    return said.getvalue()


def _names() -> Iterator[str]:
    """Yield the commands, each followed by its own: "", "explain", ..., "corpus", "corpus run", ..."""
    yield ""
    for name in COMMANDS:
        yield name
        group = getattr(import_module(f"slalom.cli.{name}"), name)
        if isinstance(group, typer.Typer):
            yield from (f"{name} {sub}" for sub in typer.main.get_group(group).commands)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_helps()) if sys.argv[1:] == ["--helps"] else commands())
