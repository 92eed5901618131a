"""Explanations as plain data, by one table: a row per field says how it becomes JSON and how it comes back.

A new field of an Explanation is a line of its dataclass and a row here. Fields that older files lack have a default. Numbers
come back bit by bit.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from slalom.core import Lengths
from slalom.core.checks import plain
from slalom.core.kinds import from_dict as surrogate_from_dict
from slalom.errors import InputError
from slalom.result.fidelity import Fidelity, HeldOut, Quality

FORMAT = "slalom explanation"
VERSION = 1
_REQUIRED = object()


def _array(part: Any) -> Any:
    return np.array(part, dtype=np.float64) if isinstance(part, list) else part


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda part: None if part is None else function(part)


class Field(NamedTuple):
    """A field: its name, how it is written, how it is read, and what it is where a file lacks it."""

    name: str
    write: Callable[[Any], Any] = plain
    read: Callable[[Any], Any] = lambda part: part
    default: Any = _REQUIRED


def _fidelity(fidelity: Fidelity) -> dict[str, Any]:
    return {name: None if q is None else q._asdict() for name, q in fidelity._asdict().items()}


def _read_fidelity(given: Mapping[str, Any]) -> Fidelity:
    return Fidelity(**{name: None if q is None else Quality(**q) for name, q in given.items()})


def _held_out(tested: HeldOut) -> dict[str, Any]:
    return {
        "units": tested.keep.shape[1],
        "keep": [row.tobytes().hex() for row in np.packbits(tested.keep, axis=1)],
        "scores": tested.scores.tolist(),
        "near": tested.near,
    }


def _read_held_out(given: Mapping[str, Any]) -> HeldOut:
    rows = [np.frombuffer(bytes.fromhex(row), dtype=np.uint8) for row in given["keep"]]
    packed = np.array(rows, dtype=np.uint8).reshape(len(rows), -1)
    return HeldOut(np.unpackbits(packed, axis=1, count=given["units"]).astype(bool), _array(given["scores"]), given["near"])


FIELDS = (
    Field("text"),
    Field("units", list, tuple),
    Field("spans", read=lambda part: np.array(part, dtype=np.int64).reshape(-1, 2)),
    Field("lengths", _optional(lambda lengths: lengths.offsets.tolist()), _optional(lambda part: Lengths(_array(part)))),
    Field("sizes", read=lambda part: np.array(part, dtype=np.int64)),
    Field("values_se", read=_array),
    Field("importances_se", read=_array),
    Field("background_se", read=_optional(lambda part: (_array(part[0]), part[1]))),
    Field("score", read=_array),
    Field("scale", default="log odds"),
    Field("label", default=None),
    Field("probabilities", read=_array, default=None),
    Field("held_out", _optional(_held_out), _optional(_read_held_out), None),
    Field("target"),
    Field("labels", list, tuple),
    Field("fidelity", _fidelity, _read_fidelity),
    Field("fit_r2"),
    Field("unit"),
    Field("method"),
    Field("seed"),
    Field("queries"),
    Field("tokens"),
    Field("seconds"),
    Field("cut"),
    Field("diagnosis"),
    Field("model"),
    Field("settings", dict, default={}),
    Field("versions", dict),
    Field("signed", default=True),
    Field("merged_from", default=""),
)


def encode(explanation: Any) -> dict[str, Any]:
    """Return an Explanation as lists, numbers and strings."""
    fields = {field.name: field.write(getattr(explanation, field.name)) for field in FIELDS}
    return {"format": FORMAT, "version": VERSION, **fields, **explanation.surrogate.to_dict()}


def decode(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the Explanation that `encode` made this of.

    Raises:
        InputError: It is something else, of another version, or lacks a part.
    """
    check_format(given, FORMAT)
    try:
        tested = given.get("held_out")
        if tested is not None and "units" not in tested:  # written before the number of units was
            given = {**given, "held_out": {**tested, "units": len(given["units"])}}
        fields: dict[str, Any] = {
            field.name: field.read(given[field.name] if field.default is _REQUIRED else given.get(field.name, field.default))
            for field in FIELDS
        }
        surrogate = surrogate_from_dict(given)
        sizes = {len(fields["units"]), len(fields["spans"]), len(fields["sizes"]), surrogate.n_units}
        if len(sizes) != 1 or isinstance(given["score"], str) or isinstance(given["lengths"], str):
            raise ValueError("its units, spans, sizes and values differ in number, or a number is a string")
        return {**fields, "surrogate": surrogate}
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"a saved explanation lacks a part or has one of a wrong kind: {error}") from error


def check_format(given: Any, expected: str) -> None:
    """Raise where plain data are not of a format and version."""
    if not isinstance(given, Mapping) or given.get("format") != expected:
        raise InputError(f"expected a saved {expected.removeprefix('slalom ')}; this is something else")
    if given.get("version") != VERSION:
        raise InputError(f"this file has format version {given.get('version')!r}, this slalom reads {VERSION}; update slalom")
