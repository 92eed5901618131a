"""Explanations of several texts, the texts that failed, and reading them back from a file."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final, overload

import numpy as np

from slalom.errors import InputError
from slalom.files import write_text
from slalom.result.codec import VERSION, check_format
from slalom.result.explanation import Explanation
from slalom.result.fidelity import Fidelity
from slalom.result.plain import frame, pandas, written
from slalom.views import view

_BATCH = "slalom explanations"
_FAILURE = "slalom failure"


@final
@dataclass(frozen=True)
class Failure:
    """A text that could not be explained: its number among those given (from 0), the text itself, and the error in one line."""

    number: int
    text: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and strings."""
        return {"format": _FAILURE, "version": VERSION, "number": self.number, "text": self.text, "error": self.error}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Failure":
        """Return the failure of a dictionary made by `to_dict`."""
        check_format(given, _FAILURE)
        try:
            return cls(int(given["number"]), str(given["text"]), str(given["error"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a saved failure lacks a part or has one of a wrong kind: {error}") from error

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


@final
class Explanations(Sequence[Explanation]):
    """Explanations of several texts, in their order.

    failures: the texts that could not be explained, where `errors="keep"` was asked for. They have no place in the sequence.
    numbers: the number that each explained text has among those given, from 0.
    """

    def __init__(self, explanations: Iterable[Explanation | Failure]) -> None:
        every = tuple(explanations)
        self._all = tuple(one for one in every if isinstance(one, Explanation))
        self.failures = tuple(one for one in every if isinstance(one, Failure))
        failed = {failure.number for failure in self.failures}
        places = (i for i in range(len(every) + len(failed)) if i not in failed)
        self.numbers = tuple(next(places) for _ in self._all)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanations": ...
    def __getitem__(self, index: int | slice) -> "Explanation | Explanations":
        """Return one explanation, or some of them."""
        return Explanations(self._all[index]) if isinstance(index, slice) else self._all[index]

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._all)

    def __iter__(self) -> Iterator[Explanation]:
        """Go through the explanations."""
        return iter(self._all)

    def __repr__(self) -> str:
        """Say what it is in one line."""
        failed = f"; {len(self.failures)} failed, see .failures" if self.failures else ""
        return f"Explanations of {len(self)} texts: {self.queries} queries, {self.seconds:.2g} s{failed}"

    def _repr_html_(self) -> str:
        """Show one text after the other."""
        return "<hr/>".join(one._repr_html_() for one in self)

    @property
    def queries(self) -> int:
        """How many queries were asked in all."""
        return sum(one.queries for one in self)

    @property
    def tokens(self) -> int:
        """How many tokens they had."""
        return sum(one.tokens for one in self)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(one.seconds for one in self)

    @property
    def fidelity(self) -> tuple[Fidelity, ...]:
        """The held-out quality of each."""
        return tuple(one.fidelity for one in self)

    def merge(self, unit: str) -> "Explanations":
        """Return the explanations in larger units."""
        return Explanations([*(one.merge(unit) for one in self), *self.failures])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        found = {"format": _BATCH, "version": VERSION, "explanations": [one.to_dict() for one in self]}
        return found | ({"failures": [one.to_dict() for one in self.failures]} if self.failures else {})

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: str | Path) -> None:
        """Write the explanations to a JSON file; `slalom.load` reads it."""
        write_text(path, self.to_json())

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained page with all of them, and write it to a file where one is named."""
        return written(view("page")(self), path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row a unit; the column `text` is the number of the text."""
        frames = [frame({"text": np.full(len(e), i)} | e.columns()) for i, e in zip(self.numbers, self, strict=True)]
        return pandas().concat(frames, ignore_index=True) if frames else frame({})


def load(path: str | Path) -> Explanation | Explanations:
    """Return what `save` wrote: an Explanation, or Explanations; those of a .jsonl file, one a line, too."""
    try:
        content = Path(path).read_text(encoding="utf-8", errors="surrogatepass")
        if Path(path).suffix == ".jsonl":
            return Explanations(restored(json.loads(line)) for line in content.split("\n") if line.strip())
        given = json.loads(content)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(path)!r}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, OSError) as error:
        raise InputError(f"{str(path)!r} must be a JSON file written by save(); {error}") from error
    if isinstance(given, dict) and given.get("format") == _BATCH:
        check_format(given, _BATCH)
        return Explanations(restored(one) for one in (*given.get("explanations", [None]), *given.get("failures", ())))
    return Explanation.from_dict(given)


def restored(given: Any) -> Explanation | Failure:
    """Return the explanation, or the failure, of a dictionary made by `to_dict`."""
    if isinstance(given, Mapping) and given.get("format") == _FAILURE:
        return Failure.from_dict(given)
    return Explanation.from_dict(given)
