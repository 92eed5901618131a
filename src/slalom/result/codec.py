"""Explanations as plain data, by one table: a row per field says how it is written to JSON, read back and shown.

A new field of an Explanation is a line of its dataclass and a row here: with a `column` it is in the data frame, with a `fact`
on the page. A field that has a default may be missing from a file,
as it is from those of older versions. Numbers come back bit by bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field
from typing import Any, NamedTuple

import numpy as np

from slalom.core import Lengths, Surrogate
from slalom.core.checks import plain
from slalom.core.kinds import from_dict as surrogate_from_dict
from slalom.errors import InputError
from slalom.result.answer import Answer
from slalom.result.fidelity import Fidelity, HeldOut, Quality
from slalom.result.pairs import Pair
from slalom.result.plain import duration
from slalom.result.spread import Spread

FORMAT = "slalom explanation"
VERSION = 1


def _array(part: Any) -> Any:
    return np.array(part, dtype=np.float64) if isinstance(part, list) else part


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda part: None if part is None else function(part)


class Row(NamedTuple):
    """A field: how it is written, read and shown.

    Attributes:
        name: Of the field.
        write: From its value to plain data.
        read: From plain data to its value.
        column: Name in the data frame, for a field with one number (or one per class) for each unit.
        fact: Caption on the page, and the function from its value to text; an empty text is not shown.
    """

    name: str
    write: Callable[[Any], Any] = plain
    read: Callable[[Any], Any] = lambda part: part
    column: str | None = None
    fact: tuple[str, Callable[[Any], str]] | None = None


def _fidelity(fidelity: Fidelity) -> dict[str, Any]:
    return {name: None if q is None else _quality(q) for name, q in fidelity._asdict().items()}


def _quality(quality: Quality) -> dict[str, Any]:
    parts = quality._asdict()
    return {name: part for name, part in parts.items() if name != "ceiling" or part is not None}


def _read_fidelity(saved: Mapping[str, Any]) -> Fidelity:
    return Fidelity(**{name: None if q is None else Quality(**q) for name, q in saved.items()})


def _held_out(held_out: HeldOut) -> dict[str, Any]:
    return {
        "units": held_out.keep.shape[1],
        "keep": [row.tobytes().hex() for row in np.packbits(held_out.keep, axis=1)],
        "scores": held_out.scores.tolist(),
        "near": held_out.near,
    }


def _read_held_out(saved: Mapping[str, Any]) -> HeldOut:
    rows = [np.frombuffer(bytes.fromhex(row), dtype=np.uint8) for row in saved["keep"]]
    packed = np.array(rows, dtype=np.uint8).reshape(len(rows), -1)
    return HeldOut(np.unpackbits(packed, axis=1, count=saved["units"]).astype(bool), _array(saved["scores"]), saved["near"])


def _read_pairs(saved: Sequence[Mapping[str, Any]]) -> tuple[Pair, ...]:
    return tuple(Pair((int(part["units"][0]), int(part["units"][1])), part["effect"], part["se"]) for part in saved)


def _spread(spread: Spread) -> dict[str, Any]:
    return {name: part.tolist() for name, part in spread._asdict().items()}


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items()) or "not known"


def _figures(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number:.3g}" for name, number in figures.items())


FIELDS = (
    Row("text"),
    Row("units", list, tuple),
    Row("spans", read=lambda part: np.array(part, dtype=np.int64).reshape(-1, 2)),
    Row("lengths", _optional(lambda lengths: lengths.offsets.tolist()), _optional(lambda part: Lengths(_array(part)))),
    Row("sizes", read=lambda part: np.array(part, dtype=np.int64)),
    Row("values_se", read=_array, column="value_se"),
    Row("importances_se", read=_array, column="importance_se"),
    Row("background_se", read=_optional(lambda part: (_array(part[0]), part[1]))),
    Row("removal_se", read=_array, column="removal_se"),
    Row("linear_se", read=_array, column="linear_se"),
    Row("gradient_se", read=_array, column="gradient_se"),
    Row("shapley_se", read=_array, column="shapley_se"),
    Row("pairs", lambda pairs: [pair._asdict() for pair in pairs], _read_pairs),
    Row("spread", _optional(_spread), _optional(lambda part: Spread(_array(part["removed"]), _array(part["errors"])))),
    Row("score", read=_array),
    Row("scale"),
    Row("label"),
    Row("probabilities", read=_array),
    Row("held_out", _optional(_held_out), _optional(_read_held_out)),
    Row("target"),
    Row("labels", list, tuple),
    Row("fidelity", _fidelity, _read_fidelity),
    Row("fit_r2", fact=("Fit", "R² {:.3f} on the queries that were fitted".format)),
    Row("unit"),
    Row("method", fact=("Method", str)),
    Row("seed", fact=("Seed", str)),
    Row("queries"),
    Row("tokens", fact=("Tokens read", "{:,}".format)),
    Row("seconds", fact=("Time", duration)),
    Row("cut", fact=("Tokens cut", "{:,}".format)),
    Row("diagnosis"),
    Row("model", fact=("Model", lambda name: name or "not named")),
    Row("settings", dict),
    Row("versions", dict, fact=("Versions", _versions)),
    Row("signed"),
    Row("merged_from"),
    Row("stopped", fact=("Stopped", str)),
    Row("figures", dict, fact=("Answers", _figures)),
    Row("notes", list, tuple),
    Row("answer", _optional(lambda answer: answer._asdict()), _optional(lambda part: Answer(**part))),
)


def encode(explanation: Any) -> dict[str, Any]:
    """Return an Explanation as lists, numbers and strings; the parameters of its surrogate stand beside its fields."""
    rows = {row.name: row.write(getattr(explanation, row.name)) for row in FIELDS}
    return {"format": FORMAT, "version": VERSION, **rows, **explanation.surrogate.to_dict()}


def decode(saved: Mapping[str, Any], fields: Sequence[Field[Any]]) -> dict[str, Any]:
    """Return the arguments of the Explanation that `encode` wrote.

    Args:
        saved: The dictionary.
        fields: Those of the dataclass Explanation; one with a default may be missing.

    Raises:
        InputError: It is something else, of another version, or lacks a part.
    """
    check_format(saved, FORMAT)
    optional = {f.name for f in fields if f.default is not MISSING or f.default_factory is not MISSING}
    try:
        held_out = saved.get("held_out")
        if held_out is not None and "units" not in held_out:  # written before the number of units was
            saved = {**saved, "held_out": {**held_out, "units": len(saved["units"])}}
        parts = {row.name: row.read(saved[row.name]) for row in FIELDS if row.name in saved or row.name not in optional}
        surrogate = surrogate_from_dict(saved)
        _check_parts(parts, surrogate)
        return {**parts, "surrogate": surrogate}
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"a saved explanation lacks a part or has one of a wrong kind: {error}") from error


def _check_parts(parts: Mapping[str, Any], surrogate: Surrogate) -> None:
    """Check what reading a field does not: kinds and sizes."""
    n, labels, lengths = surrogate.n_units, parts["labels"], parts.get("lengths")
    if {len(parts["units"]), len(parts["spans"]), len(parts["sizes"])} != {n}:
        raise ValueError("its units, spans, sizes and values differ in number")
    for name, kind in (
        ("text", str),
        ("score", (int, float, np.ndarray)),
        ("settings", Mapping),
        ("versions", Mapping),
        ("figures", Mapping),
    ):
        if name in parts and not isinstance(parts[name], kind):
            raise ValueError(f"{name} is a {type(parts[name]).__name__}")
    for name, size in (("values_se", n), ("importances_se", n), ("probabilities", len(labels))):
        if parts.get(name) is not None and len(parts[name]) != size:
            raise ValueError(f"{name} must have {size} numbers; it has {len(parts[name])}")
    if (
        not labels
        or (lengths is not None and np.ndim(lengths.offsets) == 0)
        or (lengths is not None and len(lengths.offsets) < 2)
    ):
        raise ValueError("it has no labels, or its lengths are no list of offsets")


def check_format(saved: Any, expected: str) -> None:
    """Check the format and the version of plain data."""
    if not isinstance(saved, Mapping) or saved.get("format") != expected:
        raise InputError(f"expected a saved {expected.removeprefix('slalom ')}; this is something else")
    if saved.get("version") != VERSION:
        raise InputError(f"this file has format version {saved.get('version')!r}, this slalom reads {VERSION}; update slalom")
