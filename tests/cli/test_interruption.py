"""Ctrl-C in commands that run in a process of their own: nothing that is finished is lost, and they can go on."""

import functools
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

import slalom
from slalom import corpus
from tests.cli.test_corpus import OPTIONS, write
from tests.waiting import DEADLINE, until


def _slalom(*arguments, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command, pipe = [sys.executable, "-m", "slalom", *arguments], subprocess.PIPE
    # A shell starts background jobs with Ctrl-C ignored, which children inherit.
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, **options)


def test_an_interruption_loses_no_text_that_is_finished(tmp_path):
    """A real interruption of a real process, in the middle of texts that share batches."""
    texts = [f"A good film number {i}, which was not bad at all in the end." for i in range(40)]
    (tmp_path / "t.txt").write_text("\n".join(texts))
    command = ["explain", "--file", "t.txt", "--out", "e.jsonl", "--queries", "400"]
    path, running = tmp_path / "e.jsonl", _slalom(*command, cwd=tmp_path)
    until(lambda: path.exists() and path.stat().st_size, process=running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=DEADLINE)
    *lines, _ = path.read_bytes().split(b"\n")
    done = len(lines)
    assert 0 < done < len(texts)
    assert done >= len(re.findall(r"^text \d+ of 40 ", out, flags=re.M))  # what is printed is in the file
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "run the same command to continue" in err
    (tmp_path / "t.txt").write_text("\n".join(texts[: done + 1]))
    again = _slalom(*command, cwd=tmp_path)  # in a process of its own: torch, where it is loaded, is another model
    assert again.communicate(timeout=DEADLINE)[1] == ""
    assert path.read_bytes().split(b"\n")[:done] == lines  # with the seconds that they took
    assert [e.text for e in slalom.load(path)] == texts[: done + 1]


def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(tmp_path):
    write(tmp_path / "films.jsonl", [f"a wonderful film number {i} but far too long for me" for i in range(4000)])
    process = _slalom("corpus", "run", "films.jsonl", "out", *map(str, OPTIONS), "--part-size", "2", cwd=tmp_path)
    until((tmp_path / "out" / "parts" / "000001.parquet").exists, process=process)
    state = corpus.status(tmp_path / "out")
    assert (state.running, state.complete, state.texts) == (True, False, 4000)
    assert "running" in str(state)
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=DEADLINE)
    assert (process.returncode, error) == (
        130, "interrupted; 'out' has the parts that were finished; run the same command to continue\n",
    )  # fmt: skip
    state = corpus.status(tmp_path / "out")
    assert (state.running, state.complete) == (False, False)
    assert 4 <= state.done < 4000
    assert state.rate > 0
    assert list((tmp_path / "out" / "under-way").iterdir()) == []
