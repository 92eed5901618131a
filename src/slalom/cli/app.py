"""The commands together, and what becomes of errors.

Exit codes: 0 done, 1 the work could not be done (the message says what to do next), 2 the command line was wrong,
130 interrupted.
"""

import os
import sys
import warnings
from typing import Annotated

import typer

import slalom
from slalom.cli.explain import explain
from slalom.cli.info import info
from slalom.cli.printing import complain
from slalom.cli.train import train
from slalom.errors import SlalomError

app = typer.Typer(
    name="slalom",
    help="Why did this transformer decide that? Explanations of text classifiers that predict what the model does.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(explain)
app.command()(train)
app.command()(info)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slalom {slalom.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Why did this transformer decide that? Explanations of text classifiers that predict what the model does."""


def main() -> None:
    """Run the command line; an error is one line, never a traceback."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        try:
            app()
        except KeyboardInterrupt as stop:
            complain(str(stop) or "interrupted")
            sys.exit(130)
        except (SlalomError, MemoryError, OSError) as error:
            complain(f"error: {_in_one_line(error)}")
            sys.exit(1)


def _in_one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"out of memory{f' ({error})' if str(error) else ''}; try fewer queries, a shorter text, or another device"
    return " ".join(str(error).split())
