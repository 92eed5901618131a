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

from slalom.errors import MissingExtra, require
from slalom.result import SCORES, Explanation, listed
from slalom.text import KINDS, simple_words, words
from slalom.text.units import group_spans

EXPLAINED, FAILED, KILLED = "explained", "failed", "killed"
STATUSES = (EXPLAINED, FAILED, KILLED)
GIVEN = "given_"  # before the name of a column that is copied from the source
LONGEST = 5  # words of a phrase whose effect is kept
_CELLS = 4_000_000  # of the matrix of the units that stay, at once
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
        *((column, floats) for score in SCORES.values() if score.listed for column in (score.name, f"{score.name}_se")),
        ("background_value", pa.float64()), ("background_importance", pa.float64()),
        ("unit_words", integers), ("words", strings), ("word_effects", floats),
        *((phrase_column(length), floats) for length in range(2, LONGEST + 1)),
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
        **score_columns(e, shares=full),
        "background_value": None if background is None else float(np.asarray(background.value)),
        "background_importance": None if background is None else float(background.importance),
        **word_columns(e),
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


def score_columns(e: Explanation, shares: bool) -> dict[str, Any]:
    """Return the scores of the units with their standard errors; `shares` are Shapley values, which take long."""
    columns = dict[str, Any]()
    for score, numbers, errors in listed(e, shares):
        columns |= {score.name: _optional(numbers), f"{score.name}_se": _optional(errors)}
    return columns


def phrase_column(length: int) -> str:
    """Return the column with the effects of phrases of some words: entry i is the phrase that begins with word i.

    Example:
        >>> phrase_column(2), phrase_column(1)
        ('phrase_effects_2', 'word_effects')
    """
    return "word_effects" if length == 1 else f"phrase_effects_{length}"


def word_columns(e: Explanation) -> dict[str, Any]:
    """Return the words of an explanation, and by how much its predicted score falls without each word and each phrase."""
    n = len(e)
    word_of_unit = group_spans(e.spans, _words(e.text)) if e.unit in KINDS[:2] else np.arange(n)
    first = np.searchsorted(word_of_unit, np.arange(word_of_unit[-1] + 2))  # unit of each word, and the end
    phrases = [np.stack([first[:-length], first[length:]], axis=1) for length in range(1, LONGEST + 1)]
    effects = np.split(_removed_together(e, np.concatenate(phrases)), np.cumsum([len(phrase) for phrase in phrases])[:-1])
    names = e.units if len(phrases[0]) == n else [e.text[e.spans[a, 0] : e.spans[b - 1, 1]] for a, b in phrases[0].tolist()]
    return {
        "unit_words": word_of_unit.astype(np.int32),
        "words": [_unicode(name) for name in names],
        **{phrase_column(length + 1): _single(part) for length, part in enumerate(effects)},
    }


def _words(text: str) -> Any:
    try:
        return words(text)
    except MissingExtra:  # of scripts without spaces
        return simple_words(text)


def _removed_together(e: Explanation, runs: Any) -> Any:
    """Return by how much the predicted score falls without the units of each run (m, 2), from its first to before its last."""
    n, unit = len(e), np.arange(len(e))
    removal, whole = e.removal, float(e.predict(np.ones(n)))
    effects = removal[runs[:, 0]].astype(np.float64)
    several = np.flatnonzero(runs[:, 1] > runs[:, 0] + 1)
    for some in np.array_split(several, len(several) * n // _CELLS + 1):
        first, end = runs[some].T[..., None]
        keep = (unit < first) | (unit >= end)
        left = keep.any(axis=1)
        without = np.full(len(some), float(np.asarray(e.surrogate.empty_score)))
        if left.any():
            without[left] = e.predict(keep[left])
        effects[some] = whole - without
    return effects


def _source_columns(source: SourceRow, text: bool) -> dict[str, Any]:
    kept = _unicode(source.text) if text and isinstance(source.text, str) else None
    given = {GIVEN + name: None if value is None else _unicode(value) for name, value in source.given.items()}
    return {"number": source.number, "id": _unicode(source.id), "text": kept, **given}


def _single(numbers: Any) -> Any:
    return np.asarray(numbers, dtype=np.float64).astype(np.float32)


def _optional(numbers: Any) -> Any:
    return None if numbers is None else _single(numbers)


def _unicode(text: str) -> str:
    """Return text that UTF-8 can encode: half of a surrogate pair becomes a question mark, and spans stay right."""
    return text.encode("utf-8", "replace").decode("utf-8")
