"""Where the texts of a command come from: files of lines or rows, and standard input."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from slalom.cli.options import Rows
from slalom.cli.printing import UsageError
from slalom.errors import InputError
from slalom.files import has_rows, json_rows, lines_of, looks_like_json_rows, number_of, read_rows, read_text, texts_of

DEFAULT_COLUMN = "text"
STANDARD_INPUT = "/dev/stdin"  # what - stands for, also where there is no such file


def texts_of_file(path: Path, column: str | None) -> list[str]:
    """Return the texts of a file, or of standard input for -: one per row in `column`, or one per line."""
    if path == Path(STANDARD_INPUT):
        return _texts_of_standard_input(column)
    if has_rows(path):
        return texts_of(read_rows(path), DEFAULT_COLUMN if column is None else column, str(path))
    return _lines(read_text(path), str(path), column)


def examples_of(given: Rows) -> list[str]:
    """Return the texts of a file or of standard input, or records of the columns that are named."""
    from slalom.text import Record  # noqa: PLC0415

    path, (names, form) = given.file or Path(STANDARD_INPUT), columns_of(given.column, given.numeric, given.pair)
    if len(names) + len(given.numeric) < 2:
        return texts_of_file(path, names[0] if names else None)
    return [Record(row, form) for row in rows_of(path, names, given.numeric)]


def columns_of(column: Sequence[str], numeric: Sequence[str], pair: str | None) -> tuple[list[str], Literal["tuple", "dict"]]:
    """Return the columns of texts that the options name, and what the model is given where they are several."""
    if numeric and not pair and len(column) + len(numeric) < 2:
        raise UsageError("--numeric is for columns beside those of texts; name these with --column")
    if len({*column, *numeric}) < len(column) + len(numeric):
        raise UsageError(f"columns must differ from each other; got {', '.join([*column, *numeric])}")
    if pair is None:
        return list(column), "dict"
    names = [name.strip() for name in pair.split(",")]
    if len(names) != 2 or names[0] == names[1] or column or numeric:
        got = f"{pair!r}{' with other columns' if column or numeric else ''}"
        raise UsageError(f"--pair names the columns of two texts, as premise,hypothesis; got {got}")
    return names, "tuple"


def rows_of(path: Path, texts: Iterable[str], numeric: Iterable[str]) -> list[dict[str, Any]]:
    """Return columns of texts and of numbers of a file or of standard input, a dictionary per row."""
    if path == Path(STANDARD_INPUT):
        rows, source = list(json_rows(read_standard_input(), "standard input")), "standard input"
    elif has_rows(path):
        rows, source = list(read_rows(path)), str(path)
    else:
        raise InputError(f"columns are for rows (.jsonl, .json, .csv, .tsv); {path} has one text per line")
    columns = {name: list[Any](texts_of(rows, name, source)) for name in texts}
    columns |= {name: numbers_of(rows, name, source) for name in numeric}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def numbers_of(rows: Iterable[Mapping[str, Any]], column: str, source: str) -> list[float]:
    """Return the numbers in one column of rows; NaN where there is none."""
    numbers = []
    for number, row in enumerate(rows, start=1):
        value = row.get(column)
        try:
            numbers.append(number_of(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f'row {number} of {source} must have a number in its field "{column}"; it has {value!r:.40}'
            ) from error
    if all(column not in row for row in rows):
        raise InputError(f'{source} must have a column "{column}"; its rows have none')
    return numbers


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
