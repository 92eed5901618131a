"""Labelled texts from every kind of file, and what is said of those that are not right."""

import gzip
import json

import pytest

from slalom.errors import InputError
from slalom.evaluate.labelled import read_labelled
from tests.cases import cases

ROWS = [("good <br /> film", "pos"), ('bad, "very" bad', "neg"), ("naïve 👍🏽\nsecond line", "pos")]


def as_csv(rows, mark=","):
    quoted = ['"' + text.replace('"', '""') + f'"{mark}{label}' for text, label in rows]
    return "\n".join([f"text{mark}label", *quoted]) + "\n"


def as_lines(rows):
    return "".join(json.dumps({"text": text, "label": label}) + "\n\n" for text, label in rows)


def as_list(rows):
    return json.dumps([{"text": text, "label": label} for text, label in rows], indent=1)


@cases(
    ("name", "content"),
    [
        ("d.csv", as_csv(ROWS)),
        ("d.CSV", "\ufeff" + as_csv(ROWS)),
        ("d.tsv", as_csv(ROWS, "\t")),
        ("d.jsonl", as_lines(ROWS)),
        ("d.json", as_list(ROWS)),
        ("d.json", as_lines(ROWS)),
        ("d.csv.gz", as_csv(ROWS)),
        ("d.jsonl.gz", as_lines(ROWS)),
    ],
)
def test_every_kind_of_file_gives_the_same_texts(tmp_path, name, content):
    raw = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    found = read_labelled(tmp_path / name)
    assert found.texts == tuple(text for text, _ in ROWS)
    assert found.names == ("neg", "pos")
    assert found.labels.tolist() == [1, 0, 1]


def test_rows_without_text_or_label_are_left_out(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text(as_lines([("a", 0), ("  ", 1), ("b", None), (None, 1), ("c", 1), ("d", "0")]))
    data = read_labelled(path)
    assert data.texts == ("a", "c", "d")
    assert (data.names, data.labels.tolist()) == (("0", "1"), [0, 1, 0])


def test_other_columns_can_be_named(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("review,stars\nfine,5\npoor,1\n")
    assert read_labelled(path, text="review", label="stars").names == ("1", "5")
    with pytest.raises(InputError, match=r"row 1 .* has no column 'text'; it has 'review', 'stars'"):
        read_labelled(path)


@cases(
    ("name", "content", "said"),
    [
        ("d.jsonl", b'{"text": "a", "label": 0}\n{"text": ', "line 2 of .* must be a JSON object"),
        ("d.jsonl", b"3\n", "line 1 of .* must be a JSON object; got 3"),
        ("d.json", b"[1, 2]", "must be a JSON list of objects"),
        ("d.json", b"[{", "must be a JSON list of objects"),
        ("d.csv", b"text,label\n", "at least one row with a text and a label"),
        ("d.csv", b"text,label\n\xff\xfe,1\n", "must be text in UTF-8"),
        ("d.jsonl.gz", b"not compressed", "compressed with gzip"),
        ("d.xlsx", b"", r"must be in a \.csv, \.tsv, \.jsonl or \.json file"),
        ("d.jsonl", b'{"text": "a", "label": 0.5}\n', "labels must be words or whole numbers; row 1"),
        ("d.jsonl", b'{"text": "a", "label": [1]}\n', "labels must be words or whole numbers; row 1"),
        ("d.csv.gz", b"\x1f\x8b\x08\x00 no gzip", "compressed with gzip"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as error:
        read_labelled(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"could not read .*none.csv.*No such file"):
        read_labelled(tmp_path / "none.csv")
