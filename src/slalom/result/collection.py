"""Explanations of several texts, texts that failed, and reading both from files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final, overload

import numpy as np

from slalom.core.checks import whole_number
from slalom.errors import InputError, count, one_line
from slalom.result.codec import VERSION, check_format
from slalom.result.document import Document
from slalom.result.explanation import Explanation
from slalom.result.frame import columns, frame, pandas
from slalom.result.plain import duration

_BATCH = "slalom explanations"
_FAILURE = "slalom failure"


@final
@dataclass(frozen=True)
class Failure:
    """A text that could not be explained, its number among the given texts (from 0), and the error in one line."""

    number: int
    text: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and strings."""
        return {"format": _FAILURE, "version": VERSION, "number": self.number, "text": self.text, "error": self.error}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Failure":
        """Return the failure of a dictionary made by `to_dict`."""
        check_format(saved, _FAILURE)
        try:
            number, text, error = whole_number("number", saved["number"], 0), saved["text"], saved["error"]
            if not isinstance(text, str) or not isinstance(error, str):
                raise InputError("text and error must be texts")
        except (KeyError, InputError) as reason:
            raise InputError(f"a saved failure lacks a part or has one of a wrong kind: {one_line(reason)}") from reason
        return cls(number, text, error)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


@final
class Explanations(Sequence[Explanation], Document):
    """A sequence of the explanations of several texts, in their order.

    Args:
        explanations: Explanations, and failures, which are kept apart.

    Attributes:
        failures: The texts that could not be explained, with `errors="keep"`. They are not part of the sequence.
        numbers: The number of each explained text among the given texts, from 0.
    """

    def __init__(self, explanations: Iterable[Explanation | Failure]) -> None:
        results = tuple(explanations)
        self._all = tuple(result for result in results if isinstance(result, Explanation))
        self.failures = tuple(result for result in results if isinstance(result, Failure))
        failed = {failure.number for failure in self.failures}
        free = (i for i in range(len(results) + len(failed)) if i not in failed)
        self.numbers = tuple(next(free) for _ in self._all)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanations": ...
    def __getitem__(self, index: int | slice) -> "Explanation | Explanations":
        if not isinstance(index, slice):
            return self._all[index]
        part = Explanations(self._all[index])
        part.numbers = self.numbers[index]
        return part

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        failed = f"; {len(self.failures)} failed, see .failures" if self.failures else ""
        return f"Explanations of {count(len(self), 'text')}: {count(self.queries, 'query')}, {duration(self.seconds)}{failed}"

    def _repr_html_(self) -> str:
        return "<hr/>".join(e._repr_html_() for e in self)

    @property
    def queries(self) -> int:
        """Number of queries in all."""
        return sum(e.queries for e in self)

    @property
    def seconds(self) -> float:
        """Time that all explanations took."""
        return sum(e.seconds for e in self)

    def merge(self, unit: str) -> "Explanations":
        """Return the explanations in larger units, as `Explanation.merge` does."""
        return Explanations([*(e.merge(unit) for e in self), *self.failures])

    def to_dict(self) -> dict[str, Any]:
        result = {"format": _BATCH, "version": VERSION, "explanations": [e.to_dict() for e in self]}
        return result | ({"failures": [failure.to_dict() for failure in self.failures]} if self.failures else {})

    def _page(self) -> str:
        from slalom.render.page import page  # noqa: PLC0415

        return page(self)

    def to_pandas(self, *, tidy: bool = False) -> Any:
        """Return a DataFrame as `Explanation.to_pandas` does; the column "text" is the number of the text."""
        parts = [(i, columns(e, tidy)) for i, e in zip(self.numbers, self, strict=True)]
        frames = [frame({"text": np.full(len(part["unit"]), i)} | part) for i, part in parts]
        return pandas().concat(frames, ignore_index=True) if frames else frame({})


def load(path: str | Path) -> Explanation | Explanations:
    """Load explanations from a JSON file written by `save`, or from the lines of `slalom explain --out` (.jsonl)."""
    try:
        content = Path(path).read_text(encoding="utf-8", errors="surrogatepass")
        if Path(path).suffix == ".jsonl":
            return Explanations(restored(json.loads(line)) for line in content.split("\n") if line.strip())
        saved = json.loads(content)
        if isinstance(saved, dict) and saved.get("format") == _BATCH:
            check_format(saved, _BATCH)
            return Explanations(restored(part) for part in (*saved["explanations"], *saved.get("failures", ())))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(path)!r}") from error
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OSError) as error:
        raise InputError(f"{str(path)!r} must be a JSON file written by save(); {one_line(error)}") from error
    return Explanation.from_dict(saved)


def restored(saved: Any) -> Explanation | Failure:
    """Return the explanation or the failure of a dictionary made by `to_dict`."""
    if isinstance(saved, Mapping) and saved.get("format") == _FAILURE:
        return Failure.from_dict(saved)
    return Explanation.from_dict(saved)
