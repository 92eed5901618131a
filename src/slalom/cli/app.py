"""The commands, and how errors are reported: one line, and an exit code.

0 success, 1 failure (the message says what to do next), 2 wrong usage, 130 interrupted.
"""

import atexit
import gc
import io
import os
import re
import sys
import warnings
from typing import Annotated, Any

import typer

import slalom
from slalom.cli.lazy import lazy_group
from slalom.cli.printing import complain
from slalom.errors import SlalomError, did_you_mean, one_line, validation_message
from slalom.progress import lines_if_redirected

_UsageError: Any = typer.BadParameter.__base__  # of click, which typer brings along

_PURPOSE = "Why did this transformer decide that? Explanations of text classifiers that predict what the model does."

# What `slalom --help` says of every command: the first paragraph of its docstring (tests/cli/test_lazy.py compares them).
COMMANDS = {
    "explain": "Explain why a classifier decided as it did.",
    "compare": "Compare methods: how well each predicts the model, how well it ranks the units, and what it costs.",
    "context": "Explain which source made a language model say something.",
    "corpus": "Explain whole corpora: run, resume, summarise what the model does, compare two.",
    "serve": "Explain texts on a live page, and answer requests of programs.",
    "methods": "List the methods for `slalom explain --method` and `slalom compare --methods`.",
    "info": "Show versions, devices, the bundled model, and what kinds of models can be explained.",
}

app = typer.Typer(
    name="slalom",
    cls=lazy_group("slalom.cli", COMMANDS),
    help=_PURPOSE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"slalom {slalom.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Why did this transformer decide that? Explanations of text classifiers that predict what the model does."""


def main() -> None:
    """Run the command line. Errors are printed as one line, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe's default encoding may lack characters of the text
            stream.reconfigure(
                errors="backslashreplace" if stream.isatty() else None, encoding=None if stream.isatty() else "utf-8"
            )
    atexit.register(gc.freeze)  # spares the interpreter a search for garbage among all that it gives back anyway
    with warnings.catch_warnings(), lines_if_redirected():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        sys.exit(_exit_code())


def _exit_code() -> int:
    """Run the command and return its exit code."""
    try:
        return int(app(prog_name="slalom", standalone_mode=False) or 0)
    except _UsageError as error:
        if not error.format_message():  # no command: typer has printed the help
            return 2
        where = error.ctx.command_path if error.ctx else "slalom"
        if problems := getattr(error.__cause__, "errors", None):  # of pydantic, which does not say what came
            error.message = validation_message(problems()[0])
        if choice := re.fullmatch(r"'(.*)' is not one of (.*?)\.?", error.message):
            error.message = error.message.removesuffix(".") + did_you_mean(choice[1], re.findall(r"'(.*?)'", choice[2]))
        message = _message(error.format_message())
        complain(f"error: {message}{'' if message.endswith('?') else ';'} see {where} --help")
        return 2
    except (SlalomError, OSError) as error:
        complain(f"error: {_message(error)}")
        return 1
    except Exception as error:
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            why = f" ({_message(error)})" if str(error) else ""
            complain(f"error: out of memory{why}; try fewer queries, a shorter text, or another device")
        elif os.environ.get("SLALOM_TRACEBACK"):
            raise
        else:
            message = _message(f"{type(error).__name__}: {error}")
            complain(f"error: {message}; this is a bug in slalom (set SLALOM_TRACEBACK=1 for the traceback)")
        return 1


def _message(error: object) -> str:
    return one_line(error, limit=None).removesuffix(".")
