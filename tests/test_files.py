"""Lines that an interruption has cut off, wherever that was, and files that are somebody else's."""

import csv
import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import slalom
from slalom.corpus.sources import source_of
from slalom.errors import InputError
from slalom.files import (
    csv_text,
    drop_partial_line,
    has_rows,
    json_rows,
    looks_like_json_rows,
    read_complete_lines,
    read_rows,
    read_text,
    texts_of,
    write_text,
)
from tests.cases import cases


@pytest.mark.parametrize("rest", [b"", b'{"a"', "naïve".encode()[:3]])  # the last one ends within a character
def test_a_line_that_was_cut_off_is_taken_away(tmp_path, rest):
    path = tmp_path / "lines.jsonl"
    assert read_complete_lines(path) == ([], b"")
    path.write_bytes("ä\u2028\n2\n".encode() + rest)
    assert read_complete_lines(path) == (["ä\u2028", "2"], rest)
    drop_partial_line(path, rest)
    write_text(path, "3\n", append=True)
    assert path.read_text(encoding="utf-8") == "ä\u2028\n2\n3\n"


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="is not a text file"):
        read_complete_lines(tmp_path / "b")
    with pytest.raises(InputError, match="could not write"):
        write_text(tmp_path / "none" / "x", "")


def test_rows_are_known_by_the_name_of_the_file(tmp_path):
    assert [has_rows(tmp_path / name) for name in ("a.CSV", "a.jsonl.gz", "a.b.json", "a.txt", "a.gz", "csv")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


@cases("content", ["", "a text", "[spoiler] He dies.", "{curly} words", "{\n a poem\n}", "3"])
def test_texts_do_not_look_like_json(content):
    assert not looks_like_json_rows(content)


@cases("content", ['{"a": 1}\r\n\n{"a": 2}', '[{"a": 1}, {"a": 2}]', '\n [\n{"a": 1},\n{"a": 2}\n]\n'])
def test_rows_of_json_are_one_a_line_or_one_list(content):
    assert list(json_rows(content, "it")) == [{"a": 1}, {"a": 2}]


@cases(
    ("content", "said"),
    [
        ('{"a": 1}\n{"a"', "line 2 of it must be a JSON object"),
        ('{"a": 1}\n3', "line 2 of it must be a JSON object; got 3"),
        ('[{"a": 1}, 3]', "it must be a JSON list of objects"),
        ("[spoiler] He dies.", "it must be a JSON list of objects"),
    ],
)
def test_what_is_no_row_of_json_is_named(content, said):
    with pytest.raises(InputError, match=said):
        list(json_rows(content, "it"))


@cases(
    ("name", "content"),
    [
        ("t.csv", "id,my review,text\n1,good,no\n2,bad,no\n"),
        ("t.tsv", "id\tmy review\n1\tgood\n2\tbad\n"),
        ("t.jsonl", '{"my review": "good"}\n{"my review": "bad", "text": 3}\n'),
        ("t.json", '[{"my review": "good"}, {"my review": "bad"}]'),
    ],
)
def test_a_column_holds_the_texts(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert texts_of(read_rows(tmp_path / name), "my review", name) == ["good", "bad"]


@cases(
    ("content", "said"),
    [
        ("id,review\n1,good\n", "row 1 of it must have a field \"text\"; it has 'id', 'review'; .* texts: --column review$"),
        ("id,my review\n1,good\n", "texts: --column 'my review'$"),
        ("id,title,body\n1,a,b\n", "it has 'id', 'title', 'body'; name the one with the texts: --column NAME$"),
        ("id,score\n1,2.5\n", "texts: --column NAME$"),
        ("review\ngood,and more\n", "it has 'review'; .* --column review$"),  # a cell without a name
        ("id,text\n1\n", 'row 1 of it must have a text in its field "text"; it has None'),
        ("id,text\n", "it must have at least one row with a text; it is empty"),
    ],
)
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path, content, said):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=said):
        texts_of(read_rows(tmp_path / "t.csv"), "text", "it")


def test_a_field_that_is_no_text_is_refused():
    with pytest.raises(InputError, match='row 2 of it must have a text in its field "text"; it has 17'):
        texts_of([{"text": "good"}, {"text": 17}], "text", "it")


@cases(
    ("content", "line"),
    [
        ('text,label\ngood,1\n"bad,0\nfine,1\n', 3),
        ('text,label\r\n"two\r\nlines",1\r\n"bad,0\r\nfine,1', 4),
        ('text,label\n"good" one,1\nfine,1', 2),
        ('text,label\n"two\nlines","0\nfine,1\n', 2),
        ('text,label\ngood,1,"more\nfine,1\n', 2),
        ('text,"label\ngood,1\n', 1),
    ],
)
def test_a_quotation_mark_that_is_never_closed_is_an_error(tmp_path, content, line):
    (tmp_path / "a.csv").write_text(content, newline="")
    with pytest.raises(InputError, match=f"^line {line} of '.*a.csv' must be a row of a table"):
        list(read_rows(tmp_path / "a.csv"))


@cases("end", ["", "\n", "\n\n\n"])
def test_quotation_marks_that_are_closed_are_none(tmp_path, end):
    (tmp_path / "a.csv").write_text(f'text,label\n"5"" tape",2\n6" nail,3\n"a\nb","c"{end}')
    assert [row["text"] for row in read_rows(tmp_path / "a.csv")] == ['5" tape', '6" nail', "a\nb"]
    (tmp_path / "empty.csv").write_text(end)
    assert list(read_rows(tmp_path / "empty.csv")) == []


def test_a_compressed_file_unpacks_to_so_many_bytes_at_most(tmp_path, monkeypatch):
    """30 MB of blanks in a file of 30 kB, as one text, one cell, and one line of a stream."""
    most, content = 2_000_000, b'text,label\n"' + b" " * 30_000_000
    for name in ("a.txt.gz", "a.csv.gz", "a.jsonl.gz", "a.txt.zst"):
        if name.endswith(".zst"):
            pa = pytest.importorskip("pyarrow")
            (tmp_path / name).write_bytes(pa.compress(content, codec="zstd", asbytes=True))
        else:
            (tmp_path / name).write_bytes(gzip.compress(content))
    readers = {
        "a.txt.gz": [read_text],
        "a.csv.gz": [lambda path: list(read_rows(path))],
        "a.jsonl.gz": [lambda path: list(read_rows(path))],
        "a.txt.zst": [],
    }
    if pytest.importorskip("pyarrow"):
        for reads in readers.values():
            reads.append(lambda path: list(source_of(path).records(0, ["text"])))
    monkeypatch.setenv("SLALOM_MAX_UNPACKED", str(most))
    for name, reads in readers.items():
        for read in reads:
            tracemalloc.start()
            with pytest.raises(InputError, match=r"more than 0.002 GB; .* set SLALOM_MAX_UNPACKED") as raised:
                read(tmp_path / name)
            assert tracemalloc.get_traced_memory()[1] < 6 * most
            tracemalloc.stop()
            assert "\n" not in str(raised.value)
    monkeypatch.setenv("SLALOM_MAX_UNPACKED", "inf")
    assert len(read_text(tmp_path / "a.txt.gz")) == len(content)
    monkeypatch.setenv("SLALOM_MAX_UNPACKED", "many")
    with pytest.raises(InputError, match="must be a number of bytes, such as 4e9; got 'many'"):
        read_text(tmp_path / "a.txt.gz")


def test_many_lines_of_a_compressed_source_may_be_longer_together(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("SLALOM_MAX_UNPACKED", "5000")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"".join(b"%04d\n" % i for i in range(5000))))
    assert [row["text"] for row in source_of(tmp_path / "a.txt.gz").records(4998, ["text"])] == ["4998", "4999"]


def test_no_cell_of_a_table_is_a_formula():
    texts = ["=1+1", "+x", "-x", "@sum", "\tx", "\rx", "\n=1", "\uff1d1+1", "=cmd|'/c calc'!A0"]
    harmless = ["plain", "a=b", "a\r=1", "a\n=1", "'=1", "-5", "+1.5e3", "", " =1"]
    numbers = [-0.5, 3, np.float64(-1e-5), np.int64(-2)]
    rows = list(csv.reader(io.StringIO(csv_text([texts, harmless, numbers, [None]]), newline="")))
    assert rows[0] == [f"'{text}" for text in texts]
    assert rows[1:] == [harmless, ["-0.5", "3", "-1e-05", "-2"], [""]]


def test_csv_is_written_in_one_place():
    source = Path(slalom.__file__).parent
    writers = [path.relative_to(source).as_posix() for path in source.rglob("*.py") if "csv.writer" in path.read_text("utf-8")]
    assert writers == ["files.py"]
