"""The table of a corpus: one row per text, in Parquet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slalom.errors import MissingExtra, require
from slalom.result import SCORES, Explanation, listed
from slalom.text import KINDS, Record, simple_words, words
from slalom.text.units import group_spans

EXPLAINED, FAILED, KILLED = "explained", "failed", "killed"
STATUSES = (EXPLAINED, FAILED, KILLED)
GIVEN = "given_"  # before the name of a column that is copied from the source
LONGEST = 5  # words of a phrase whose effect is kept
_CELLS = 50_000  # of the matrix of the units that stay, at once: what fits into the cache takes half as long
_METADATA = b"slalom"
_STATISTICS = ("number", "id", "status", "label", "target", "score", "n_units")  # columns that readers select rows by
_LEVEL = 5  # of zstd: 9 takes twice as long for 1% fewer bytes
_GROUP = 2000  # texts
# Of an Explanation, by the same names.
_SAME = ("target", "competition", "probabilities", "units", "sizes", "queries", "tokens", "seconds", "remarks")


class SourceRow(NamedTuple):
    """A row of the source."""

    number: int  # from 0
    id: str
    text: Any  # a text or a record; anything but a string fails
    given: Mapping[str, str | None]  # columns that are kept
    error: str | None = None  # why the row could not be read


def arrow() -> Any:
    with require("a corpus", "corpus", "pyarrow"):
        import pyarrow as pa  # noqa: PLC0415
    return pa


def schema(keep: Sequence[str] = (), records: bool = False) -> Any:
    """Return the columns of the table as a pyarrow schema; records have two more."""
    pa = arrow()
    floats, integers, strings = pa.list_(pa.float32()), pa.list_(pa.int32()), pa.list_(pa.string())
    columns = [
        ("number", pa.int64(), False), ("id", pa.string(), False), ("status", pa.string(), False), ("error", pa.string()),
        ("text", pa.string()), *([("fields", pa.string())] if records else []), *((GIVEN + name, pa.string()) for name in keep),
        ("label", pa.string()), ("probability", pa.float32()), ("probabilities", floats),
        ("target", pa.string()), ("score", pa.float64()),
        ("n_units", pa.int32()), ("units", strings), ("starts", integers), ("ends", integers), ("sizes", integers),
        *([("unit_fields", integers)] if records else []),
        *((column, floats) for score in SCORES.values() if score.listed for column in (score.name, f"{score.name}_se")),
        ("competition", pa.float64()),
        ("unit_words", integers), ("words", strings), ("word_effects", floats),
        *((phrase_column(length), floats) for length in range(2, LONGEST + 1)),
        ("near_r2", pa.float64()), ("near_mse", pa.float64()), ("far_r2", pa.float64()), ("far_mse", pa.float64()),
        ("queries", pa.int32()), ("tokens", pa.int64()), ("seconds", pa.float32()),
        ("prior", pa.string()), ("remarks", strings), ("explanation", pa.string()),
    ]  # fmt: skip
    return pa.schema([pa.field(name, kind, *nullable) for name, kind, *nullable in columns])


def explained_row(source: SourceRow, e: Explanation, *, text: bool = True, full: bool = False) -> dict[str, Any]:
    """Return the row of an explanation; Shapley values, which take long, only with the whole explanation."""
    row = {
        **_source_columns(source, text),
        "status": EXPLAINED,
        "label": e.label,
        "probability": None if e.prediction is None else e.prediction[1],
        "score": float(np.asarray(e.score)),
        "n_units": len(e),
        "starts": e.spans[:, 0],
        "ends": e.spans[:, 1],
        "unit_fields": None if e.record is None else e.record.field_of(e.spans),
        **word_columns(e),
        "prior": e.settings.get("prior"),
        "explanation": e.to_json() if full else None,
    }
    row |= {name: getattr(e, name) for name in _SAME}
    for score, numbers, errors in listed(e, full):
        row |= {score.name: numbers, f"{score.name}_se": errors}
    for where, quality in (("near", e.fidelity.near), ("far", e.fidelity.far)):
        if quality is not None:
            row |= {f"{where}_r2": quality.r2, f"{where}_mse": quality.mse}
    return row


def failed_row(source: SourceRow, error: str, status: str = FAILED, *, text: bool = True) -> dict[str, Any]:
    return {**_source_columns(source, text), "status": status, "error": error}


def _source_columns(source: SourceRow, text: bool) -> dict[str, Any]:
    kept = source.text if text and isinstance(source.text, str) else None
    row = {"number": source.number, "id": source.id, "text": kept, **{GIVEN + k: v for k, v in source.given.items()}}
    return {**row, "fields": json.dumps(kept.plain(), ensure_ascii=False)} if isinstance(kept, Record) else row


def word_columns(e: Explanation) -> dict[str, Any]:
    """Return the words of an explanation, and by how much its predicted score falls without each word and each phrase."""
    n = len(e)
    word_of_unit = group_spans(e.spans, _words(e.text)) if e.unit in KINDS[:2] else np.arange(n)
    first = np.searchsorted(word_of_unit, np.arange(word_of_unit[-1] + 2))  # unit of each word, and the end
    phrases = [np.stack([first[:-length], first[length:]], axis=1) for length in range(1, LONGEST + 1)]
    effects = np.split(_removed_together(e, np.concatenate(phrases)), np.cumsum([len(phrase) for phrase in phrases])[:-1])
    names = e.units if len(phrases[0]) == n else [e.text[e.spans[a, 0] : e.spans[b - 1, 1]] for a, b in phrases[0].tolist()]
    columns = {phrase_column(length): part for length, part in enumerate(effects, start=1)}
    return {"unit_words": word_of_unit, "words": names, **columns}


def phrase_column(length: int) -> str:
    """Return the column with the effects of phrases of some words: entry i is the phrase that begins with word i."""
    return "word_effects" if length == 1 else f"phrase_effects_{length}"


def _words(text: str) -> Any:
    try:
        return words(text)
    except MissingExtra:  # of scripts without spaces
        return simple_words(text)


def _removed_together(e: Explanation, runs: Any) -> Any:
    """Return by how much the predicted score falls without the units of each run (m, 2), from its first to before its last."""
    n = len(e)
    whole, effects = float(e.surrogate(np.ones((1, n)))[0]), e.removal[runs[:, 0]].astype(np.float64)
    several = np.flatnonzero(runs[:, 1] > runs[:, 0] + 1)
    for some in np.array_split(several, len(several) * n // _CELLS + 1):
        counts = np.ones((len(some), n))
        for row, (first, end) in zip(counts, runs[some].tolist(), strict=True):
            row[first:end] = 0.0
        effects[some] = whole - e.surrogate(counts)
    return effects


def table(rows: Sequence[Mapping[str, Any]], keep: Sequence[str] = (), records: bool = False) -> Any:
    """Return rows as a pyarrow table; a column that a row lacks is null."""
    pa, columns = arrow(), schema(keep, records)
    arrays = []
    for field in columns:
        values = [row.get(field.name) for row in rows]
        if field.type in (single := {pa.list_(pa.float32()): np.float32, pa.list_(pa.int32()): np.int32}):
            values = [None if value is None else np.asarray(value, single[field.type]) for value in values]
        try:
            arrays.append(pa.array(values, type=field.type))
        except UnicodeEncodeError:
            arrays.append(pa.array([_unicode(value) for value in values], type=field.type))
    return pa.Table.from_arrays(arrays, schema=columns)


def _unicode(text: str | Sequence[str] | None) -> Any:
    """Return text that UTF-8 can encode: half of a surrogate pair becomes a question mark, and spans stay right."""
    if text is None or isinstance(text, str):
        return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
    return [_unicode(part) for part in text]


def encoded(part: Any, digest: str) -> Any:
    """Return a part as the bytes of a Parquet file, compressed with zstd; its lists of numbers are encoded to a fifth less."""
    pa = arrow()
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds = {pa.list_(pa.float32()): "BYTE_STREAM_SPLIT", pa.list_(pa.int32()): "DELTA_BINARY_PACKED"}
    leaves = {f"{column.name}.list.element" if pa.types.is_list(column.type) else column.name: column for column in part.schema}
    encodings = {leaf: kinds[column.type] for leaf, column in leaves.items() if column.type in kinds}
    about = {"rows": part.num_rows, "digest": digest, **counts(part)}
    sink = pa.BufferOutputStream()
    pq.write_table(
        part.replace_schema_metadata({_METADATA: json.dumps(about).encode()}),
        sink,
        compression="zstd",
        compression_level=_LEVEL,
        row_group_size=_GROUP,
        version="2.6",
        column_encoding=encodings,
        use_dictionary=[leaf for leaf in leaves if leaf not in encodings],
        write_statistics=[name for name in _STATISTICS if name in part.schema.names],
    )
    return sink.getvalue()


def counts(part: Any) -> dict[str, int]:
    statuses = part.column("status").to_pylist()
    return {status: statuses.count(status) for status in STATUSES}


def part_facts(file: Any) -> dict[str, Any]:
    """Return what `encoded` wrote about a part: rows, digest, and the number of texts by status."""
    return dict(json.loads(file.metadata.metadata[_METADATA]))
