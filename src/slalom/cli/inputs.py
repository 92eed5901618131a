"""Where the texts of a command come from: files of lines or rows, and standard input."""

import sys
from pathlib import Path

from slalom.errors import InputError
from slalom.files import has_rows, json_rows, lines_of, looks_like_json_rows, read_rows, read_text, texts_of

DEFAULT_COLUMN = "text"
STANDARD_INPUT = "/dev/stdin"  # what - stands for, also where there is no such file


def texts_of_file(path: Path, column: str | None) -> list[str]:
    """Return the texts of a file, or of standard input for -: one per row in `column`, or one per line."""
    if path == Path(STANDARD_INPUT):
        return _texts_of_standard_input(column)
    if has_rows(path):
        return texts_of(read_rows(path), DEFAULT_COLUMN if column is None else column, str(path))
    return _lines(read_text(path), str(path), column)


def read_standard_input() -> str:
    """Return what standard input holds."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input must be text in UTF-8; {error}") from error


def _texts_of_standard_input(column: str | None) -> list[str]:
    """Return the texts of standard input: rows where it is JSON, else one per line."""
    content, source = read_standard_input(), "standard input"
    if looks_like_json_rows(content):
        return texts_of(json_rows(content, source), DEFAULT_COLUMN if column is None else column, source)
    return _lines(content, source, column)


def _lines(content: str, source: str, column: str | None) -> list[str]:
    if column is not None:
        raise InputError(f"--column is for rows (.jsonl, .json, .csv, .tsv); {source} has one text per line and no columns")
    return lines_of(content, source)
