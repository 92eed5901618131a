"""The reference page of the commands, from `--help`: `python -m slalom.cli.docs > docs/cli.md`."""

import os
import subprocess
import sys

_COMMANDS = (
    "",
    "explain",
    "compare",
    "context",
    "corpus",
    "corpus run",
    "corpus status",
    "corpus retry-failed",
    "corpus summary",
    "corpus compare",
    "train",
    "methods",
    "info",
)


def commands() -> str:
    """Return the help of all commands as Markdown."""
    parts = ["# The command line", "", "The output of `--help`; `python -m slalom.cli.docs > docs/cli.md` writes this page."]
    environment = {**os.environ, "COLUMNS": "110", "TERMINAL_WIDTH": "110", "NO_COLOR": "1", "TERM": "dumb"}
    environment = {name: value for name, value in environment.items() if name not in ("FORCE_COLOR", "PY_COLORS")}
    for command in _COMMANDS:
        run = subprocess.run(
            [sys.executable, "-m", "slalom", *command.split(), "--help"],
            env={**environment, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        lines = [line.rstrip() for line in run.stdout.strip().splitlines()]
        parts += ["", f"## slalom {command}".rstrip(), "", "```", *lines, "```"]
    return "\n".join([*parts, ""])


if __name__ == "__main__":
    sys.stdout.write(commands())
