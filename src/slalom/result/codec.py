"""Explanations as plain data, by one table: a row per field says how it is written to JSON, read back and shown.

A new field of an Explanation is a line of its dataclass and a row here; with a `fact` it is on the page. A field that has a
default may be missing from a file. Numbers come back bit by bit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from slalom.core.checks import Floats, plain, real_array, whole_array, whole_number
from slalom.core.kinds import from_dict as surrogate_from_dict
from slalom.errors import InputError, one_line
from slalom.result.answer import Answer
from slalom.result.fidelity import Fidelity, HeldOut, Quality
from slalom.result.pairs import Pair
from slalom.result.plain import duration
from slalom.result.scores import SCORES, listed
from slalom.result.spread import Spread
from slalom.text import Record
from slalom.text.record import Form

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

FORMAT = "slalom explanation"
VERSION = 2
_LARGEST = 1e150  # number in a file: its square must fit into a float
_LARGEST_LOG = 1e9  # logarithm of a weight: beyond it differences are rounded away
PARTS = ("details", "words")  # fields of an Explanation that are explanations of its parts
_UNUSABLE = "a saved explanation lacks a part or has one of a wrong kind"


# Readers of parts of a file: each returns the part, or raises a ValueError that says what it must be.


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda part: None if part is None else read(part)


def _instance(kind: type | tuple[type, ...], name: str) -> Callable[[Any], Any]:
    def read(part: Any) -> Any:
        if not isinstance(part, kind):
            raise TypeError(f"it must be {name}; it is {part!r:.40}")
        return part

    return read


_text, _flag, _object = _instance(str, "a text"), _instance(bool, "true or false"), _instance(Mapping, "an object")
_list = _instance((list, tuple), "a list")


def _texts(part: Any) -> tuple[str, ...]:
    return tuple(_text(entry) for entry in _list(part))


def _number(part: Any, least: float = -np.inf) -> float:
    if isinstance(part, bool) or not isinstance(part, (int, float)) or not least <= part < np.inf or part == -np.inf:
        raise ValueError(f"it must be a finite number{'' if least < 0 else f' of at least {least:g}'}; it is {part!r:.40}")
    return part


_positive = partial(_number, least=0)


def _whole(part: Any) -> int:
    return whole_number("it", part, 0)


def _array(part: Any) -> Any:
    array = real_array("it", part, (0, 1, 2))
    return array if array.ndim else float(array)


def _errors(part: Any) -> Any:
    array = np.array(part)
    if array.dtype.kind not in "iuf" or (array < 0.0).any():
        raise ValueError("it must be numbers that are not negative")
    return array.astype(np.float64)


def _mapping(read: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda part: {_text(name): read(entry) for name, entry in _object(part).items()}


def _record(kind: Callable[..., Any], **readers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda part: kind(**{name: readers[name](entry) for name, entry in _object(part).items()})


class Row(NamedTuple):
    """A field: how it is written, read and shown. None stays None, where the field may be None."""

    name: str
    write: Callable[[Any], Any] = plain
    read: Callable[[Any], Any] = _text
    shape: tuple[str, ...] | None = None  # names of the sizes of an array: "units", "classes" (none for one target)
    fits: Callable[[Any, Mapping[str, Any]], bool] = lambda value, parts: True  # the other parts, by their names
    fact: tuple[str, Callable[[Any], str]] | None = None  # caption on the page, and the text; an empty one is not shown


def _plain_record(record: Any) -> dict[str, Any]:
    return {name: plain(part) for name, part in record._asdict().items()}


def _fidelity(fidelity: Fidelity) -> dict[str, Any]:
    return {name: None if quality is None else quality._asdict() for name, quality in fidelity._asdict().items()}


def _held_out(held_out: HeldOut) -> dict[str, Any]:
    return {
        "units": held_out.keep.shape[1],
        "keep": [row.tobytes().hex() for row in np.packbits(held_out.keep, axis=1)],
        "scores": held_out.scores.tolist(),
        "near": held_out.near,
    }


def _read_held_out(saved: Mapping[str, Any]) -> HeldOut:
    units = _whole(saved["units"])
    rows = [np.frombuffer(bytes.fromhex(_text(row)), dtype=np.uint8) for row in saved["keep"]]
    packed = np.array(rows, dtype=np.uint8).reshape(len(rows), -1)
    if packed.shape[1] != (units + 7) // 8:  # `count` would make more of them
        raise ValueError(f"its rows must have {units} bits")
    return HeldOut(
        np.unpackbits(packed, axis=1, count=units).astype(bool),
        real_array("it", saved["scores"], (1, 2)),
        _whole(saved["near"]),
    )


def _spans_fit(spans: Any, parts: Mapping[str, Any]) -> bool:
    return bool((spans[:, 0] <= spans[:, 1]).all() and spans.max() <= len(parts["text"]))


def _write_measured(measured: Mapping[str, Floats]) -> dict[str, Any]:
    """Return numbers with None for units that were not asked."""
    return {name: [None if np.isnan(part).any() else plain(part) for part in parts] for name, parts in measured.items()}


def _read_measured(saved: Sequence[Any]) -> Floats:
    shape = next((np.shape(part) for part in saved if part is not None), ())
    return real_array("it", [np.zeros(shape) if part is None else part for part in saved], (1, 2)) + np.where(
        [part is None for part in saved], np.nan, 0.0
    ).reshape(-1, *(1 for _ in shape))


def _errors_fit(errors: Mapping[str, Floats], parts: Mapping[str, Any]) -> bool:
    shape = parts["surrogate"].values.shape
    return all(name in SCORES and part.shape in {shape, shape[:1]} for name, part in errors.items())


def _measured_fits(measured: Mapping[str, Floats], parts: Mapping[str, Any]) -> bool:
    shape = parts["surrogate"].values.shape
    return all(name in ("removal", "value") and part.shape == shape for name, part in measured.items())


def _held_out_fits(held_out: HeldOut, parts: Mapping[str, Any]) -> bool:
    (n, *classes), m = parts["surrogate"].values.shape, len(held_out.keep)
    return held_out.keep.shape == (m, n) and held_out.scores.shape == (m, *classes) and held_out.near <= m


def _spread_fits(spread: Spread, parts: Mapping[str, Any]) -> bool:
    removed, errors = spread
    k = len(np.atleast_1d(removed))
    if np.shape(removed) != (k,) or errors.shape != (k, *parts["surrogate"].values.shape[1:]) or not k:
        return False
    return bool((np.diff(removed) > 0.0).all() and np.isfinite(errors).all())


def _probabilities_fit(p: Floats, parts: Mapping[str, Any]) -> bool:
    return np.shape(p) == (len(parts["labels"]),) and bool(((p >= 0.0) & (p < 1.0 + 1e-6)).all())


def _read_pairs(saved: Sequence[Mapping[str, Any]]) -> tuple[Pair, ...]:
    return tuple(
        Pair((_whole(i), _whole(j)), plain(_array(part["effect"])), plain(_optional(_errors)(part["se"])))
        for part in saved
        for i, j in [part["units"]]
    )


def _pairs_fit(pairs: tuple[Pair, ...], parts: Mapping[str, Any]) -> bool:
    n, *classes = parts["surrogate"].values.shape
    shapes = {np.shape(pair.effect) for pair in pairs} <= {(*classes,)}
    errors = {np.shape(pair.se) for pair in pairs if pair.se is not None} <= {(*classes,), ()}
    return shapes and errors and all(i != j and max(i, j) < n for (i, j), _, _ in pairs)


def _write_record(record: Record) -> dict[str, Any]:
    odd = {
        name: {"number": str(value)} for name, _, _, value in record.fields if isinstance(value, float) and not isfinite(value)
    }
    return {"form": record.form, "fields": {name: value for name, _, _, value in record.fields} | odd}


def _read_record(saved: Mapping[str, Any]) -> Record:
    fields = {
        _text(name): float(_text(value["number"])) if isinstance(value, Mapping) else value
        for name, value in _object(saved["fields"]).items()
    }
    if saved["form"] not in get_args(Form):
        raise ValueError(f"its form must be one of {', '.join(get_args(Form))}; it is {saved['form']!r:.40}")
    return Record(fields, saved["form"])


def _fields_fit(scores: Any, parts: Mapping[str, Any]) -> bool:
    if parts.get("record") is None or scores.ndim != parts["surrogate"].values.ndim:
        return False
    fields = len(np.unique(parts["record"].field_of(parts["spans"])))
    return bool(scores.shape == (fields, *parts["surrogate"].values.shape[1:]))


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items()) or "not known"


def _figures(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number:.3g}" for name, number in figures.items())


_QUALITY = _optional(_record(Quality, r2=_optional(_number), mse=_positive, queries=_whole, ceiling=_optional(_number)))
_ANSWER = _record(Answer, question=_text, text=_text, start=_whole, stop=_whole, generated=_flag, tokens=_whole)

FIELDS = (
    Row("text"),
    Row("units", list, _texts, ("units",)),
    Row("spans", read=lambda part: whole_array("it", part, 2), shape=("units", "ends"), fits=_spans_fit),
    Row("sizes", read=lambda part: whole_array("it", part), shape=("units",), fits=lambda sizes, _: sizes.sum() <= 2**31),
    Row("errors", lambda errors: {name: plain(part) for name, part in errors.items()}, _mapping(_errors), fits=_errors_fit),
    Row("measured", _write_measured, _mapping(_read_measured), fits=_measured_fits),
    Row("pairs", lambda pairs: [pair._asdict() for pair in pairs], _read_pairs, fits=_pairs_fit),
    Row("pair_queries", read=_whole),
    Row("spread", _plain_record, _record(Spread, removed=_array, errors=_errors), fits=_spread_fits),
    Row("score", read=_array, shape=("classes",)),
    Row("scale"),
    Row("label"),
    Row("probabilities", read=_array, fits=_probabilities_fit),
    Row("held_out", _held_out, _read_held_out, fits=_held_out_fits),
    Row("target", fits=lambda target, parts: target in (("all",) if parts["surrogate"].n_classes else parts["labels"])),
    Row("labels", list, _texts, fits=lambda labels, parts: len(labels) == (parts["surrogate"].n_classes or len(labels) or 1)),
    Row("fidelity", _fidelity, _record(Fidelity, near=_QUALITY, far=_QUALITY)),
    Row("fit_r2", read=_number, fact=("Fit", "R² {:.3f} on the queries that were fitted".format)),
    Row("unit"),
    Row("method", fact=("Method", str)),
    Row("seed", read=_whole, fact=("Seed", str)),
    Row("queries", read=_whole),
    Row("tokens", read=_whole, fact=("Tokens read", "{:,}".format)),
    Row("seconds", read=_positive, fact=("Time", duration)),
    Row("cut", read=_whole, fact=("Tokens cut", "{:,}".format)),
    Row("diagnosis"),
    Row("model", fact=("Model", lambda name: name or "not named")),
    Row("settings", dict, _mapping(lambda part: part)),
    Row("versions", dict, _mapping(_text), fact=("Versions", _versions)),
    Row("signed", read=_flag),
    Row("merged_from"),
    Row("stopped", fact=("Stopped", str)),
    Row("figures", dict, _mapping(_number), fact=("Answers", _figures)),
    Row("notes", list, _texts),
    Row("record", _write_record, _read_record, fits=lambda record, parts: record == parts["text"]),
    Row("without_fields", read=_array, fits=_fields_fit),
    Row("answer", _plain_record, _ANSWER, fits=lambda answer, _: answer.start <= answer.stop <= len(answer.text)),
)


def encode(explanation: "Explanation") -> dict[str, Any]:
    """Return an Explanation as lists, numbers and strings: its fields, the parameters of its surrogate, and its scores.

    `decode` does without the scores, which follow from the parameters.
    """
    values = {row.name: getattr(explanation, row.name) for row in FIELDS}
    rows = {row.name: None if values[row.name] is None else row.write(values[row.name]) for row in FIELDS}
    scores = {score.name: plain(numbers) for score, numbers, _ in listed(explanation)}
    whole = {"format": FORMAT, "version": VERSION, **rows, "scores": scores, **explanation.surrogate.to_dict()}
    for kind in PARTS:
        if parts := [encode(part) for part in getattr(explanation, kind)]:
            whole[kind] = [{name: value for name, value in part.items() if whole.get(name) != value} for part in parts]
    return whole


def parts_of(saved: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the explanations of parts in plain data, of which `encode` wrote what differs from the whole; words have none."""
    whole = {name: part for name, part in saved.items() if name not in PARTS}
    none = PARTS if kind == "words" else ("details",)
    with _named(kind):
        saved_parts = map(_object, _list(saved.get(kind, ())))
        parts = [whole | {name: value for name, value in part.items() if name not in none} for part in saved_parts]
        for part in parts:
            _object(part.get("answer"))  # parts are those of an answer
        return parts


def decode(saved: Mapping[str, Any], fields: Sequence[Field[Any]]) -> dict[str, Any]:
    """Return the arguments of the Explanation that `encode` wrote."""
    check_format(saved, FORMAT)
    may_lack = {f.name for f in fields if f.default is not MISSING or f.default_factory is not MISSING}
    may_be_none = {f.name for f in fields if f.default is None}
    with _named("numbers"):
        _check_numbers(saved)
    with _named("surrogate"):
        surrogate = surrogate_from_dict(saved)
        if not np.abs(surrogate.importances).max() < _LARGEST_LOG:
            raise ValueError(f"importances must be below {_LARGEST_LOG:g}")
    sizes = {"units": (surrogate.n_units,), "classes": surrogate.values.shape[1:], "ends": (2,)}
    parts: dict[str, Any] = {"surrogate": surrogate}
    for row in FIELDS:
        if row.name in saved or row.name not in may_lack:
            with _named(row.name):
                part = saved[row.name]
                parts[row.name] = None if part is None and row.name in may_be_none else row.read(part)
                if row.shape is not None:
                    _check_shape(parts[row.name], row.shape, sizes)
    for row in FIELDS:
        if parts.get(row.name) is not None and not row.fits(parts[row.name], parts):
            raise InputError(f"{_UNUSABLE}: {row.name}: it does not fit the other parts")
    return parts


@contextmanager
def _named(part: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else one_line(error)
        raise InputError(f"{_UNUSABLE}: {part}: {reason}") from error


def _check_numbers(saved: Mapping[str, Any]) -> None:
    """Check the size of every number; infinity is left to the readers."""
    parts: list[Any] = [saved]
    while parts:
        part = parts.pop()
        if isinstance(part, (dict, list)):
            parts.extend(part.values() if isinstance(part, dict) else part)
        elif isinstance(part, (int, float)) and _LARGEST < abs(part) < np.inf:
            raise ValueError(f"they must be below {_LARGEST:g}")


def _check_shape(part: Any, shape: tuple[str, ...], sizes: Mapping[str, tuple[int, ...]]) -> None:
    expected = tuple(size for name in shape for size in sizes[name])
    found = (len(part),) if isinstance(part, tuple) else np.shape(part)
    if found != expected:
        raise ValueError(f"its shape must be {expected} ({', '.join(shape)}); it is {found}")


def check_format(saved: Any, expected: str) -> None:
    """Check the format and the version of plain data."""
    if not isinstance(saved, Mapping) or saved.get("format") != expected:
        raise InputError(f"expected a saved {expected.removeprefix('slalom ')}; this is something else")
    if saved.get("version") != VERSION:
        raise InputError(f"this file has format version {saved.get('version')!r}, this slalom reads {VERSION}; update slalom")
