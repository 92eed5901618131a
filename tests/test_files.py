"""Lines that an interruption has cut off, wherever that was, and files that are somebody else's."""

import pytest

from slalom.errors import InputError
from slalom.files import begun_lines, drop_rest, has_rows, write_text


@pytest.mark.parametrize("rest", [b"", b'{"a"', "naïve".encode()[:3]])  # the last one ends within a character
def test_a_line_that_was_cut_off_is_taken_away(tmp_path, rest):
    path = tmp_path / "lines.jsonl"
    assert begun_lines(path) == ([], b"")
    path.write_bytes("ä\u2028\n2\n".encode() + rest)
    assert begun_lines(path) == (["ä\u2028", "2"], rest)
    drop_rest(path, rest)
    write_text(path, "3\n", append=True)
    assert path.read_text(encoding="utf-8") == "ä\u2028\n2\n3\n"


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="holds something else than text"):
        begun_lines(tmp_path / "b")
    with pytest.raises(InputError, match="could not write"):
        write_text(tmp_path / "none" / "x", "")


def test_rows_are_known_by_the_name_of_the_file(tmp_path):
    assert [has_rows(tmp_path / name) for name in ("a.CSV", "a.jsonl.gz", "a.b.json", "a.txt", "a.gz", "csv")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
