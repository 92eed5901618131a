"""The records of a comparison, in memory and in a file, so that an interrupted one can be continued."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from slalom.errors import InputError, SlalomError, one_line
from slalom.evaluate.compared import Row
from slalom.files import drop_partial_line, read_complete_lines, write_text

_LOG = logging.getLogger("slalom")
_KEYS = {"text", "method", "budget"}  # what a record is found by


@final
class Records:
    """The records, in memory and in a file whose first line says what they are about."""

    def __init__(self, path: Path | None, about: Mapping[str, Any], measures: Sequence[str]) -> None:
        self.path, self.records, self.skipped = path, list[dict[str, Any]](), dict[str, str]()
        if path is not None:
            self._resume(path, {"format": "slalom comparison records", **about, "measures": list(measures)})

    def _resume(self, path: Path, header: dict[str, Any]) -> None:
        """Read the records of an interrupted comparison with this header, or start a new file."""
        lines, partial = read_complete_lines(path)
        if not lines and not partial:
            write_text(path, json.dumps(header, ensure_ascii=False) + "\n", append=True)
            return
        foreign = InputError(f"{str(path)!r} holds something else; name another file, or delete it")
        try:
            records = [json.loads(line) for line in lines]
        except ValueError as error:
            raise foreign from error
        if not records or not all(isinstance(record, dict) for record in records):
            raise foreign
        if records[0].get("format") != header["format"] or any(not record.keys() >= _KEYS for record in records[1:]):
            raise foreign
        expected = json.loads(json.dumps(header))
        names = dict.fromkeys([*expected, *records[0]])
        different = [name for name in names if records[0].get(name) != expected.get(name)]
        if different:
            raise InputError(
                f"{str(path)!r} is of another comparison ({', '.join(different)} differ); name another file, or delete it"
            )
        drop_partial_line(path, partial)
        self.records = records[1:]

    def has(self, numbers: Iterable[int], method: str, budget: int | str | None) -> bool:
        """Return whether all these texts have a record."""
        done = {r["text"] for r in self.records if r["method"] == method and r["budget"] == budget}
        return done.issuperset(numbers)

    def add(self, records: list[dict[str, Any]]) -> None:
        """Add records, to the file too."""
        self.records += records
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), append=True)

    def skip(self, method: str, error: Exception) -> None:
        """Leave a method out; an unexpected error is logged with its traceback."""
        expected = isinstance(error, SlalomError)
        self.skipped[method] = str(error) if expected else f"{type(error).__name__}: {one_line(error)}"
        if not expected:
            _LOG.debug("method %s failed", method, exc_info=error)
        self.records = [record for record in self.records if record["method"] != method]

    def sorted(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the records of these methods and budgets, in this order, then in that of the texts."""
        order = {row: i for i, row in enumerate(rows)}
        requested = [r for r in self.records if (r["method"], r["budget"]) in order and r["method"] not in self.skipped]
        return sorted(requested, key=lambda r: (order[r["method"], r["budget"]], r["text"]))
