"""The command line in this process: `invoke(["explain", "a good film"])`."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from slalom import cli


class Result(NamedTuple):
    """What a command said, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


def invoke(words, columns=160):
    """Run a command."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    patched = mock.patch.object(sys, "argv", ["slalom", *map(str, words)]), mock.patch.dict("os.environ", COLUMNS=str(columns))
    with patched[0], patched[1], redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
    return Result(code, out.getvalue(), err.getvalue())
