"""The cache file: shared by processes, never a wrong number, never a traceback, and no answer lost in memory."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from slalom.errors import InputError
from slalom.models import Engine, Function, Queries
from slalom.models.callable import StringReading
from slalom.models.store import AnswerStore
from slalom.text import words
from tests.cases import cases
from tests.oracle import Oracle

TEXT = "a good film with a bad end and no more than ten words"
KEYS = [bytes([i]) * 16 for i in range(6)]
OUTPUTS = np.arange(12.0).reshape(6, 2) - 5.5


def question(m=300):
    keep = np.random.default_rng(3).random((m, 12)) < 0.5
    return Queries(StringReading(TEXT, words(TEXT), True), keep)


def oracle():
    return Oracle({"good": 3.0, "bad": -4.0}, {"good": 1.0, "bad": 0.5}, bias=0.2)


def engine(file=None, batch_size=256):
    return Engine(Function(oracle(), "log_odds", batch_size=batch_size), cache=file, identity="oracle", progress=False)


def right():
    return engine()([question()])[0].outputs


def filled(file):
    """Write six answers and return the file."""
    with AnswerStore(file, "me") as store:
        store.save(KEYS, OUTPUTS)
    return file


def loaded(file):
    """Return the six answers of a file, NaN where there is none."""
    table = np.full((6, 2), np.nan)
    with AnswerStore(file, "me") as store:
        for key, outputs in store.load(KEYS, 2).items():
            table[KEYS.index(key)] = outputs
    return table


def refused(file, said):
    """Check that a file is refused in one line that names it."""
    with pytest.raises(InputError, match=said) as info, AnswerStore(file, "me") as store:
        store.load(KEYS, 2)
    assert "\n" not in str(info.value)
    assert str(file) in str(info.value)


def test_what_is_written_is_read_again(tmp_path):
    file = filled(tmp_path / "answers.sqlite")
    assert (loaded(file) == OUTPUTS).all()
    with AnswerStore(file, "somebody else") as store:
        assert not store.load(KEYS, 2)


@cases(
    "damaged",
    [
        "substr(outputs, 1, 7)",
        "substr(outputs, 1, 8)",
        "outputs || x'00'",
        "x''",
        "NULL",
        "'no numbers at all'",
        "CAST(x'fffefdfcfbfafff0fff1fff2fff3fff4fff5fff6' AS TEXT)",  # not UTF-8
        "17",
        "zeroblob(20)",
        "x'01' || substr(outputs, 2)",  # one byte is wrong
    ],
)
def test_a_damaged_answer_counts_as_missing(tmp_path, damaged):
    file = filled(tmp_path / "answers.sqlite")
    with closing(sqlite3.connect(file)) as base, base:
        base.execute(f"UPDATE answers SET outputs = {damaged} WHERE key = ?", [KEYS[2]])
    table = loaded(file)
    assert np.isnan(table[2]).all()
    assert (np.delete(table, 2, axis=0) == np.delete(OUTPUTS, 2, axis=0)).all()


def test_a_file_damaged_anywhere_is_refused_in_one_line_or_read(tmp_path):
    whole, rng, messages = filled(tmp_path / "whole.sqlite").read_bytes(), np.random.default_rng(0), []
    damages = [(whole.index(b"TABLE"), b"TAB\xb5\xb5"), (whole.index(b"TABLE"), b"TA\nBL"), (0, b"other"), (16, bytes(84))]
    damages += [(int(rng.integers(len(whole) - 600)), rng.bytes(int(rng.integers(1, 600)))) for _ in range(40)]
    files = [whole[:at] + content + whole[at + len(content) :] for at, content in damages]
    for i, content in enumerate([*files, *(whole[:at] for at in rng.integers(1, len(whole), 20))]):
        file = tmp_path / f"{i}.sqlite"
        file.write_bytes(content)
        try:
            table = loaded(file)
            assert ((table == OUTPUTS) | np.isnan(table)).all()
        except InputError as error:
            messages.append(str(error))
    assert 10 < len(messages) < 60
    assert all("\n" not in message and str(tmp_path) in message for message in messages)


def notes(file):
    file.write_text("these are my notes, and they are long enough to be no database" * 20)


def other_columns(file):
    with closing(sqlite3.connect(file)) as base, base:
        base.execute("CREATE TABLE answers (question TEXT, answer TEXT)")


def other_program(file):
    with closing(sqlite3.connect(file)) as base, base:
        base.execute("CREATE TABLE bookmarks (url TEXT)")


@cases(
    ("make", "said"),
    [
        (notes, "must be an SQLite file .*: file is not a database; name another file"),
        (other_columns, "is the SQLite file of another program; name another"),
        (other_program, "is the SQLite file of another program; name another"),
    ],
)
def test_a_file_of_somebody_else_is_refused_and_stays_as_it_is(tmp_path, make, said):
    file = tmp_path / make.__name__ / "file"
    file.parent.mkdir()
    make(file)
    before = file.read_bytes()
    refused(file, said)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["file"]


def test_a_folder_and_a_file_in_no_folder_are_refused(tmp_path):
    refused(tmp_path, "must be a file; .* is a folder; name a file in it")
    refused(tmp_path / "none" / "answers.sqlite", "unable to open database file; name another file")


@contextmanager
def unprivileged():
    """Give a folder of a user who is not root, and be that user: root may write everywhere."""
    root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp())
    try:
        if root:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no such permissions")
@cases("closed", ["file", "folder", "both", "empty folder", "unreadable"])
def test_a_file_that_may_not_be_written_is_refused(closed):
    with unprivileged() as folder:
        file = folder / "answers.sqlite"
        if closed != "empty folder":
            filled(file)
        if closed in ("file", "both"):
            file.chmod(0o400)
        if closed == "unreadable":
            file.chmod(0o000)
        if closed in ("folder", "both", "empty folder"):
            folder.chmod(0o500)
        refused(file, "readonly database; name another file|unable to open .*; name another file")


def test_a_file_that_is_locked_for_good_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(AnswerStore, "timeout", 0.2)
    file = filled(tmp_path / "answers.sqlite")
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        with other:
            other.execute("DELETE FROM answers")
        refused(file, "database is locked; name another file")


def cannot_be_written(file, said, answered=None):
    """Check that there is one warning, and that the answers stay in memory."""
    run = engine(file, batch_size=10)
    run.answered = answered
    with pytest.warns(UserWarning, match=said) as caught:
        found = run([question()])[0]
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert str(file) in str(caught[0].message)
    assert (found.outputs == right()).all()
    assert (run([question()])[0].outputs == right()).all()  # without a further warning: warnings are errors


def test_a_lock_of_another_process_costs_the_file_not_the_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(AnswerStore, "timeout", 0.2)
    file = filled(tmp_path / "answers.sqlite")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:

        def lock():
            if not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        cannot_be_written(file, "database is locked; they are kept in memory only", lock)
    assert (loaded(file) == OUTPUTS).all()


def test_a_full_disk_costs_the_file_not_the_answers(tmp_path, monkeypatch):
    file, connect = tmp_path / "answers.sqlite", sqlite3.connect

    def small(*given, **options):
        base = connect(*given, **options)
        base.execute("PRAGMA max_page_count=4")
        return base

    monkeypatch.setattr(sqlite3, "connect", small)
    cannot_be_written(file, "database or disk is full; they are kept in memory only")
    monkeypatch.undo()
    later = engine(file)
    assert (later([question()])[0].outputs == right()).all()
    assert 0 < later.cost.inputs < len(np.unique(question().keep, axis=0)), "the batches before are in the file"


PROCESS = """
import sys, time
from pathlib import Path
from tests.models.test_store import engine, question
me, folder = int(sys.argv[1]), Path(sys.argv[2])
for i in range(2):
    (folder / f"{i} ready {me}").touch()
    while not (folder / f"{i} ready {1 - me}").exists():
        time.sleep(0.0001)
    engine(folder / f"{i}.sqlite", batch_size=4)([question(40)])
"""


def test_two_processes_make_and_share_a_file(tmp_path):
    command = [sys.executable, "-W", "error", "-c", PROCESS]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(root)])}
    running = [
        subprocess.Popen([*command, str(me), str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True)
        for me in (0, 1)
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    expected = engine()([question(40)])[0]
    for i in range(2):
        again = engine(tmp_path / f"{i}.sqlite")
        assert (again([question(40)])[0].outputs == expected.outputs).all()
        assert again.cost.inputs == 0, "all answers of both are in the file"
