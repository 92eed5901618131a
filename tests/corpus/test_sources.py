"""Sources of a corpus: what every kind yields, from any row on, and what its fingerprint sees."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slalom.corpus import files
from slalom.corpus.sources import Columns, digest, rows_of, source_of
from slalom.corpus.table import SourceRow
from slalom.errors import InputError

ROWS = [{"key": f"k{i}", "text": f'text {i}, "quoted"\nand more', "stars": i} for i in range(1500)]
COLUMNS = Columns("text", "key", ("stars",))


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows, separator):
    quoted = [separator.join(('"' + str(v).replace('"', '""') + '"') for v in row.values()) for row in rows]
    return "\ufeff".encode() + "\r\n".join([separator.join(ROWS[0]), *quoted]).encode()


def write(path, rows=ROWS):
    """Write rows in the format of a file's name."""
    name, plain = path.name, path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=700)
        return path
    content = json_lines(rows) if plain.endswith("jsonl") else table(rows, "," if plain.endswith("csv") else "\t")
    if name.endswith(".gz"):
        content = gzip.compress(content[:1000]) + gzip.compress(content[1000:])  # two members
    if name.endswith(".zst"):
        half = len(content) // 2
        content = b"".join(pa.compress(part, "zstd", asbytes=True) for part in (content[:half], content[half:]))
    path.write_bytes(content)
    return path


def test_files_yield_their_rows_from_any_number_on(tmp_path):
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.csv.gz", "a.tsv.zst", "a.parquet"):
        source = source_of(write(tmp_path / name))
        for first in (0, 699, 1400, 1500):
            assert list(rows_of(source, COLUMNS, first)) == [
                SourceRow(i, row["key"], row["text"], {"stars": str(row["stars"])}) for i, row in enumerate(ROWS[first:], first)
            ], name


def test_a_folder_is_its_files_in_order_and_rows_are_numbered_through(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, part in (("b.jsonl", ROWS[1000:1300]), ("a.parquet", ROWS[:1000]), ("sub/c.csv.gz", ROWS[1300:])):
        write(tmp_path / name, part)
    (tmp_path / ".hidden.jsonl").write_text("{")
    (tmp_path / "_SUCCESS.txt").write_text("")
    (tmp_path / "readme.md").write_text("no rows")
    source = source_of(tmp_path)
    for first in (0, 999, 1000, 1300, 1499):
        assert [row.id for row in rows_of(source, COLUMNS, first)] == [row["key"] for row in ROWS[first:]]
    assert source.share() == 1.0
    assert [row.id for row in rows_of(source, COLUMNS, 998, limit=1002)] == ["k998", "k999", "k1000", "k1001"]
    assert source_of(tmp_path / "a.parquet").count() == 1000
    assert source.count() == 1500


def test_rows_of_large_files_are_estimated_by_the_bytes_that_were_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_COUNTED", 0)
    monkeypatch.setattr(files, "_BUFFER", 1024)
    source = source_of(write(tmp_path / "a.jsonl"))
    assert source.count() is None
    rows = rows_of(source, COLUMNS)
    for _ in range(600):
        next(rows)
    assert 0.35 < source.share() < 0.45


def test_iterables_of_strings_and_of_mappings():
    assert [row.text for row in rows_of(source_of(iter(["a", "b"])), Columns())] == ["a", "b"]
    assert [row.id for row in rows_of(source_of(ROWS), COLUMNS, 1498)] == ["k1498", "k1499"]
    assert source_of(ROWS).count() == 1500
    with pytest.raises(InputError, match="must be a path, hf:NAME or an iterable of texts; got int"):
        source_of(7)


def test_datasets_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "gold": datasets.ClassLabel(names=["neg", "pos"])})
    made = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "gold": [1, 0, -1]}, features=features)
    made.save_to_disk(tmp_path / "one")
    source = source_of(tmp_path / "one")
    rows = list(rows_of(source, Columns("text", None, ("gold",)), 1))
    assert [(row.number, row.text, row.given["gold"]) for row in rows] == [(1, "b", "neg"), (2, "c", "-1")]
    assert (source.count(), source.fingerprint()["rows"]) == (3, 3)
    assert source_of(tmp_path / "one").fingerprint() == source.fingerprint()
    datasets.DatasetDict(train=made, test=made.select([0])).save_to_disk(tmp_path / "two")
    with pytest.raises(InputError, match="has the splits train, test; choose one with --split NAME"):
        source_of(tmp_path / "two")
    assert source_of(tmp_path / "two", split="test").count() == 1


def test_rows_that_cannot_be_read_are_rows_with_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n{broken\n[1]\n{"text": null}\n{"text": 3}\n{}\n{"text": "caf\xe9"}\n{"text": "end"}')
    rows = list(rows_of(source_of(path), Columns()))
    assert [row.error and row.error.split(";")[0] for row in rows] == [
        None,
        "line 3 of 'a.jsonl' must be a JSON object",
        "line 4 of 'a.jsonl' must be a JSON object",
        "the column 'text' must hold a string",
        "the column 'text' must hold a string",
        "the column 'text' must hold a string",
        "line 8 of 'a.jsonl' must be a JSON object",
        None,
    ]
    (tmp_path / "b.csv").write_bytes(b"text\ngood\ncaf\xe9\nend\n")
    assert [row.error for row in rows_of(source_of(tmp_path / "b.csv"), Columns())] == [
        None, "a row of 'b.csv' is not text in UTF-8", None,
    ]  # fmt: skip


def test_a_wrong_column_is_told_at_the_first_row(tmp_path):
    source = source_of(write(tmp_path / "a.csv"))
    with pytest.raises(InputError, match=r"must have a column 'review'; it has 'key', 'text', 'stars'.*--column"):
        next(rows_of(source, Columns("review")))
    with pytest.raises(InputError, match=r"must have a column 'slice'.*--keep"):
        next(rows_of(source, Columns("text", None, ("slice",))))


def test_files_that_are_cut_off_or_of_another_kind_are_refused(tmp_path):
    for name in ("a.jsonl.gz", "a.jsonl.zst", "a.parquet"):
        path = write(tmp_path / name)
        path.write_bytes(path.read_bytes()[:-300])
        with pytest.raises(InputError, match="is damaged or cut off"):
            list(rows_of(source_of(path), COLUMNS))
    (tmp_path / "notes.docx").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("missing.jsonl", "notes.docx", "empty"):
        with pytest.raises(InputError, match=r"there is no file or folder|must be one of \.csv|it has none"):
            source_of(tmp_path / name)


def test_a_fingerprint_sees_any_change_of_small_files(tmp_path):
    path = write(tmp_path / "a.jsonl")
    before = source_of(path).fingerprint()
    assert source_of(path).fingerprint() == before
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert source_of(path).fingerprint()["hash"] != before["hash"]


def test_a_fingerprint_of_large_files_sees_sizes_and_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_HASHED", 4096)
    monkeypatch.setattr(files, "_LEAST_HASHED", 4096)
    monkeypatch.setattr(files, "_BLOCK", 1024)
    path = tmp_path / "a.jsonl"
    content = bytearray(b"x" * 100_000)

    def changed(place):
        altered = bytearray(content)
        altered[place] ^= 1
        path.write_bytes(altered)
        return source_of(path).fingerprint()["hash"] != before

    path.write_bytes(content)
    before = source_of(path).fingerprint()["hash"]
    assert [changed(place) for place in (0, 99_999, 33_500, 20_000)] == [True, True, True, False]
    path.write_bytes(content + b"x")
    assert source_of(path).fingerprint()["hash"] != before


def test_a_digest_depends_on_everything_that_the_table_takes():
    row = SourceRow(0, "a", "good", {"gold": "1"})
    changes = [row._replace(id="b"), row._replace(text="bad"), row._replace(given={"gold": "0"}), row._replace(text=None)]
    assert len({digest([other]) for other in [row, *changes]}) == 5
    assert digest([row, changes[0]]) != digest([changes[0], row])


def test_a_quote_that_is_never_closed_is_a_broken_row(tmp_path):
    (tmp_path / "a.csv").write_text('text,key\ngood,1\n"5"" tape",2\n6" nail,3\n"never closed,4\nlost,5\n')
    *whole, last = rows_of(source_of(tmp_path / "a.csv"), Columns("text", "key"))
    assert [(row.text, row.id, row.error) for row in whole] == [
        ("good", "1", None),
        ('5" tape', "2", None),
        ('6" nail', "3", None),
    ]
    assert last.error.startswith("line 5 of 'a.csv' must be a row of a table; unexpected end of data")


def test_values_of_other_types_are_their_text(tmp_path):
    moment = pa.array([0], pa.timestamp("s", "UTC"))
    pq.write_table(
        pa.table({"text": [b"g\xc3\xbct"], "at": moment, "raw": [b"a\xff"], "list": [["x", 1.5][:1]]}), tmp_path / "a.parquet"
    )
    row = next(rows_of(source_of(tmp_path / "a.parquet"), Columns("text", "at", ("raw", "list"))))
    assert row == SourceRow(0, "1970-01-01 00:00:00+00:00", "güt", {"raw": "a\ufffd", "list": '["x"]'})
    pq.write_table(pa.table({"text": [b"b\xff"]}), tmp_path / "b.parquet")
    assert "must hold text in UTF-8" in next(rows_of(source_of(tmp_path / "b.parquet"), Columns())).error
