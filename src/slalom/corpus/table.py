"""The table of a corpus: one row per text, in Parquet.

schema(keep)            its columns
explained_row(...)      the row of an explanation
failed_row(...)         that of a text without one
table(rows, keep)       rows as a pyarrow table
encoded(table, ...)     a part as the bytes of a Parquet file, with counts in its metadata
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slalom.core.two_scale import TwoScale
from slalom.errors import require
from slalom.result import SCORES, Explanation, listed

EXPLAINED, FAILED, KILLED = "explained", "failed", "killed"
STATUSES = (EXPLAINED, FAILED, KILLED)
GIVEN = "given_"  # before the name of a column that is copied from the source
LENGTHS = 24  # tokens removed up to which the effect of the length is kept
_METADATA = b"slalom"
_STATISTICS = ("number", "id", "status", "label", "target", "score", "n_units")  # columns that readers select rows by
_LEVEL = 9  # of zstd: explaining a text takes a thousand times as long


class SourceRow(NamedTuple):
    """A row of the source.

    Attributes:
        number: Its number, from 0.
        id: Its id.
        text: The text; anything but a string fails.
        given: Values of the columns that are kept, as strings or None.
        error: Why the row could not be read; None where it could.
    """

    number: int
    id: str
    text: Any
    given: Mapping[str, str | None]
    error: str | None = None


def arrow() -> Any:
    """Return pyarrow."""
    with require("a corpus", "corpus", "pyarrow"):
        import pyarrow as pa  # noqa: PLC0415
    return pa


def schema(keep: Sequence[str] = ()) -> Any:
    """Return the columns of the table as a pyarrow schema.

    Example:
        >>> schema(["gold"]).names[:6]
        ['number', 'id', 'status', 'error', 'text', 'given_gold']
    """
    pa = arrow()
    floats, integers, strings = pa.list_(pa.float32()), pa.list_(pa.int32()), pa.list_(pa.string())
    columns = [
        ("number", pa.int64(), False), ("id", pa.string(), False), ("status", pa.string(), False), ("error", pa.string()),
        ("text", pa.string()), *((GIVEN + name, pa.string()) for name in keep),
        ("label", pa.string()), ("probability", pa.float32()), ("probabilities", floats),
        ("target", pa.string()), ("score", pa.float64()),
        ("n_units", pa.int32()), ("units", strings), ("starts", integers), ("ends", integers), ("sizes", integers),
        *((name + part, floats) for name, score in SCORES.items() if score.listed for part in ("", "_se")),
        ("values", floats), ("importances", floats),
        ("background_value", pa.float64()), ("background_importance", pa.float64()),
        ("surrogate", pa.string()), ("link_middle", pa.float64()), ("link_reach", pa.float64()),
        ("near_offset", pa.float64()), ("near_power", pa.int32()), ("length_effects", floats),
        ("pair_units", integers), ("pair_effects", floats), ("shift_places", integers), ("shift_effects", floats),
        ("near_r2", pa.float64()), ("near_mse", pa.float64()), ("far_r2", pa.float64()), ("far_mse", pa.float64()),
        ("queries", pa.int32()), ("tokens", pa.int64()), ("seconds", pa.float32()),
        ("remarks", strings), ("explanation", pa.string()),
    ]  # fmt: skip
    return pa.schema([pa.field(name, kind, *nullable) for name, kind, *nullable in columns])


def explained_row(source: SourceRow, e: Explanation, *, text: bool = True, full: bool = False) -> dict[str, Any]:
    """Return the row of an explanation."""
    probability = None if e.prediction is None else e.prediction[1]
    near, far, background = e.fidelity.near, e.fidelity.far, e.background
    return {
        **_source_columns(source, text),
        "status": EXPLAINED,
        "label": None if e.label is None else _unicode(e.label),
        "probability": probability,
        "probabilities": None if e.probabilities is None else e.probabilities.astype(np.float32),
        "target": _unicode(e.target),
        "score": float(np.asarray(e.score)),
        "n_units": len(e),
        "units": [_unicode(name) for name in e.units],
        "starts": e.spans[:, 0].astype(np.int32),
        "ends": e.spans[:, 1].astype(np.int32),
        "sizes": e.sizes.astype(np.int32),
        **_score_columns(e),
        "values": _single(e.values),
        "importances": _single(e.importances),
        "background_value": None if background is None else float(np.asarray(background.value)),
        "background_importance": None if background is None else float(background.importance),
        **_together_columns(e),
        "near_r2": None if near is None else near.r2,
        "near_mse": None if near is None else near.mse,
        "far_r2": None if far is None else far.r2,
        "far_mse": None if far is None else far.mse,
        "queries": e.queries,
        "tokens": e.tokens,
        "seconds": e.seconds,
        "remarks": [_unicode(remark) for remark in e.remarks],
        "explanation": e.to_json() if full else None,
    }


def _score_columns(e: Explanation) -> dict[str, Any]:
    """Return the listed scores and their standard errors; those that mean nothing here are null."""
    columns = (
        (name, column)
        for score, *numbers in listed(e)
        for name, column in zip((score.name, f"{score.name}_se"), numbers, strict=True)
    )
    return {name: _single(column) for name, column in columns if column is not None}


def failed_row(source: SourceRow, error: str, status: str = FAILED, *, text: bool = True) -> dict[str, Any]:
    """Return the row of a text that could not be explained."""
    return {**_source_columns(source, text), "status": status, "error": _unicode(error)}


def table(rows: Sequence[Mapping[str, Any]], keep: Sequence[str] = ()) -> Any:
    """Return rows as a pyarrow table; a column that a row lacks is null.

    Example:
        >>> table([failed_row(SourceRow(0, "a", "", {}), "no word")]).column("error").to_pylist()
        ['no word']
    """
    columns = schema(keep)
    arrays = [arrow().array([row.get(field.name) for row in rows], type=field.type) for field in columns]
    return arrow().Table.from_arrays(arrays, schema=columns)


def encoded(part: Any, digest: str, texts_per_group: int = 2000) -> Any:
    """Return a part as the bytes of a Parquet file, compressed with zstd."""
    pa = arrow()
    import pyarrow.parquet as pq  # noqa: PLC0415

    about = {"rows": part.num_rows, "digest": digest, **counts(part)}
    labelled = part.replace_schema_metadata({_METADATA: json.dumps(about).encode()})
    sink = pa.BufferOutputStream()
    encodings = {_leaf(column): _encoding(column.type) for column in part.schema if _encoding(column.type)}
    pq.write_table(
        labelled,
        sink,
        compression="zstd",
        compression_level=_LEVEL,
        row_group_size=texts_per_group,
        version="2.6",
        column_encoding=encodings,
        use_dictionary=[_leaf(column) for column in part.schema if _leaf(column) not in encodings],
        write_statistics=[name for name in _STATISTICS if name in part.schema.names],
    )
    return sink.getvalue()


def _leaf(column: Any) -> str:
    """Return the path of a column in a Parquet file."""
    return f"{column.name}.list.element" if arrow().types.is_list(column.type) else str(column.name)


def _encoding(kind: Any) -> str:
    """Return the encoding of a list of numbers, which makes it a fifth smaller; none of other types."""
    pa = arrow()
    if kind == pa.list_(pa.float32()):
        return "BYTE_STREAM_SPLIT"
    return "DELTA_BINARY_PACKED" if kind == pa.list_(pa.int32()) else ""


def counts(part: Any) -> dict[str, int]:
    """Return the number of rows of a pyarrow table by status."""
    statuses = part.column("status").to_pylist()
    return {status: statuses.count(status) for status in STATUSES}


def part_facts(file: Any) -> dict[str, Any]:
    """Return what `encoded` wrote about a part: rows, digest, and the number of texts by status."""
    found: dict[str, Any] = json.loads(file.metadata.metadata[_METADATA])
    return found


def _together_columns(e: Explanation) -> dict[str, Any]:
    """Return what `slalom.corpus.together` needs, beside values and importances, to remove several units at once."""
    columns: dict[str, Any] = {"surrogate": e.surrogate.kind}
    if e.link is not None:
        columns |= {"link_middle": float(np.asarray(e.link.middle)), "link_reach": float(np.asarray(e.link.reach))}
    if isinstance(e.surrogate, TwoScale):
        columns |= {"near_offset": float(e.surrogate.near.offset), "near_power": e.surrogate.near.power}
        if len(e.surrogate.pairs):
            columns["pair_units"] = e.surrogate.pairs.ravel().astype(np.int32)
            columns["pair_effects"] = _single(e.surrogate.effects)
        if e.surrogate.shifts is not None:
            columns["shift_places"] = e.surrogate.shifts.places.astype(np.int32)
            columns["shift_effects"] = _single(-e.surrogate.shifts.offsets[:, 1:]).ravel()
    if e.lengths is not None:
        removed = np.arange(1, min(LENGTHS, len(e.lengths.offsets) - 1) + 1)
        columns["length_effects"] = _single(e.lengths.removal(removed))
    return columns


def _source_columns(source: SourceRow, text: bool) -> dict[str, Any]:
    kept = _unicode(source.text) if text and isinstance(source.text, str) else None
    given = {GIVEN + name: None if value is None else _unicode(value) for name, value in source.given.items()}
    return {"number": source.number, "id": _unicode(source.id), "text": kept, **given}


def _single(numbers: Any) -> Any:
    return np.asarray(numbers, dtype=np.float64).astype(np.float32)


def _unicode(text: str) -> str:
    """Return text that UTF-8 can encode: half of a surrogate pair becomes a question mark, and spans stay right."""
    return text.encode("utf-8", "replace").decode("utf-8")
