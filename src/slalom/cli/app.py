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
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter

import slalom
from slalom.cli.inputs import STANDARD_INPUT
from slalom.cli.printing import UsageError, as_option, complain
from slalom.errors import InputError, SlalomError, one_line
from slalom.progress import lines_if_redirected

COMMANDS = {  # what `slalom --help` says of them: their modules are imported when they run
    "explain": "Explain why a classifier decided as it did.",
    "compare": "Compare methods: how well each predicts the model, how well it ranks the units, and what it costs.",
    "context": "Explain which source made a language model say something.",
    "corpus": "Explain whole corpora: run, resume, summarise what the model does, compare two.",
    "lexicon": "Learn what a model says of each word, show it, compare two models.",
    "serve": "Explain texts on a live page, and answer requests of programs.",
    "methods": "List the methods for `slalom explain --method` and `slalom compare --methods`.",
    "info": "Show versions, devices, the bundled model, and what kinds of models can be explained.",
}


class _HelpFormatter:
    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        names = [" ".join(entry.display_labels_with_metavar) for entry in panel.entries]
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=min(max(map(len, names), default=0), 24) + 2)
        table.add_column()
        for name, entry in zip(names, panel.entries, strict=True):
            table.add_row(Text(f"  {name}", "cyan"), entry.description)
        if names:
            console.print(Text(f"\n{panel.title}", "bold"), table)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Print how the command is called."""
        console.print(f"Usage: {usage}", markup=False, highlight=False)


app = App(
    name="slalom",
    help="Why did this transformer decide that? Explanations of text classifiers that predict what the model does.",
    version=f"slalom {slalom.__version__}",
    version_format="plaintext",
    default_parameter=Parameter(
        negative=(), show_default=False, show_choices=False, allow_repeating=True, allow_leading_hyphen=True
    ),
    group_parameters=Group("Options", sort_key=9),
    help_formatter=_HelpFormatter(),
    result_action="return_value",
)
for _name, _summary in COMMANDS.items():
    app.command(f"slalom.cli.{_name}:{_name}", name=_name, help=_summary)
app.register_install_completion_command(help="Install completion of commands and options in your shell.")


def _freeze() -> None:
    """Spare the interpreter a search for garbage among all that it gives back anyway; DuckDB would report leaks."""
    if "duckdb" not in sys.modules:
        gc.freeze()


def main() -> None:
    """Run the command line. Errors are printed as one line, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe's default encoding may lack characters of the text
            stream.reconfigure(
                errors="backslashreplace" if stream.isatty() else None, encoding=None if stream.isatty() else "utf-8"
            )
    atexit.register(_freeze)
    with warnings.catch_warnings(), lines_if_redirected():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        sys.exit(_run([STANDARD_INPUT if word == "-" else word for word in sys.argv[1:]]))


def _run(words: Sequence[str]) -> int:
    try:
        return int(app(words or ["--help"], exit_on_error=False, print_error=False) or (0 if words else 2))
    except (UsageError, CycloptsError) as error:
        command = " ".join(["slalom", *app.parse_commands(words)[0]])
        message = _message(error)
        complain(f"error: {message}{'' if message.endswith('?') else ';'} see {command} --help")
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
    """Return the message of an error on one line, with options of the command in place of the arguments that it names."""
    message = one_line(error, limit=None).removesuffix(".")
    for name in error.names if isinstance(error, InputError) else ():
        message = re.sub(rf"(?<!-)\b{re.escape(name)}\b(=(?!\S))?", as_option(name), message)
    return message
