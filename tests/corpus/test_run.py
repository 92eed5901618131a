"""Runs over a corpus: the same table whoever computes it and whatever is killed, and nothing lost or doubled."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from slalom import Explainer, corpus
from slalom.corpus import executors, work
from slalom.corpus import folder as folder_module
from slalom.corpus.dispatch import Dispatcher
from slalom.corpus.executors import Executor, Processes, Worker, gpus
from slalom.corpus.folder import LOCK, MANIFEST, Folder, write_part
from slalom.corpus.lock import is_running, locked
from slalom.corpus.table import SourceRow
from slalom.corpus.work import Bench, Job, Setup
from slalom.errors import InputError, ModelError
from tests.corpus.models import deadly, down, explainer, flaky, hanging, held, leaving, rows, score
from tests.corpus.models import other as other_model
from tests.waiting import DEADLINE, until

ROOT = Path(__file__).parents[2]
WORDS = ["a", "film", "with", "good", "and", "bad", "parts", "in", "fact", "very", "good", "or", "rather", "bad"]


def texts(number, seed=0):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(3, 8))) for _ in range(number)]


def write(path, made):
    path.write_text("".join(json.dumps({"id": f"r{i}", "text": text}) + "\n" for i, text in enumerate(made)))
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "reviews.jsonl", texts(24))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, source):
    """The rows of a run in one process."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    corpus.run(source, out, explainer(score), part_size=8)
    return rows(out)


def test_a_run_explains_every_text_as_the_explainer_does_whatever_the_parts(tmp_path, source, undisturbed):
    made = texts(24)
    assert [(row["number"], row["text"], row["status"]) for row in undisturbed] == [
        (i, text, "explained") for i, text in enumerate(made)
    ]
    corpus.run(source, tmp_path / "out", explainer(score), part_size=24)
    for row, other, e in zip(undisturbed, rows(tmp_path / "out"), explainer(score)(made), strict=True):
        np.testing.assert_allclose(row["removal"], e.removal, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(row["removal"], other["removal"], rtol=1e-5, atol=1e-7)
        assert (row["score"], row["queries"]) == (e.score, e.queries)


def test_workers_make_the_same_table_and_a_killed_one_is_replaced(tmp_path, source, undisturbed):
    def workers():
        """Those that have been asked something."""
        return {int(path.name.removeprefix("process-")) for path in tmp_path.glob("process-*")}

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(
            corpus.run, source, tmp_path / "out", partial(explainer, partial(held, tmp_path)), part_size=8, workers=2
        )
        until(lambda: len(workers()) == 2)
        os.kill(min(workers()), signal.SIGKILL)
        until(lambda: len(workers()) == 3)
        (tmp_path / "released").touch()
        done.result(DEADLINE)
    assert rows(tmp_path / "out") == undisturbed


def test_a_run_that_is_killed_goes_on_and_the_text_that_ends_its_process_is_found(tmp_path, undisturbed):
    source, out = write(tmp_path / "reviews.jsonl", [*texts(16), "boom"]), tmp_path / "out"
    command = [sys.executable, "-m", "tests.corpus.models", source, out, "deadly", "part_size=8"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    there = {path: path.stat().st_mtime_ns for path in (out / "parts").glob("*.parquet")}
    state = corpus.status(out)
    assert (state.done, state.running, state.complete, state.texts, state.counted) == (16, False, False, 17, True)
    assert "not running; the command that began it continues it" in str(state)
    corpus.run(source, out, partial(explainer, deadly), part_size=8)  # goes on in another process
    *others, last = rows(out)
    assert others == undisturbed[:16]
    assert {path: path.stat().st_mtime_ns for path in there} == there  # whole parts are not computed again
    assert (last["status"], last["text"]) == ("killed", "boom")
    assert last["error"].startswith("the text ended the process that explained it, 2 times by itself (a crash, an exit")
    state = corpus.status(out)
    assert (state.done, state.explained, state.killed, state.complete, state.seconds_left) == (17, 16, 1, True, 0.0)
    assert list((out / "under-way").iterdir()) == []
    corpus.run(["boom", *texts(2)], tmp_path / "leaving", partial(explainer, leaving))  # a model that leaves the program
    assert [row["status"] for row in rows(tmp_path / "leaving")] == ["killed", "explained", "explained"]


def test_a_text_that_is_never_answered_is_found_and_a_slow_worker_is_not_ended(tmp_path):
    made = [*texts(1), "boom"]
    for options, message in (
        ({}, "a timeout ends a worker, and this run has none; add workers"),
        ({"workers": 1, "timeout": -1.0}, "timeout must be a number of seconds above 0 and up to 1e"),
    ):
        with pytest.raises(InputError, match=message):
            corpus.run(made, tmp_path / "other", explainer(score), **{"timeout": 1.0} | options)
    # each of four batches takes 0.6 s, all of them longer than the time limit
    slow = partial(explainer, partial(hanging, tmp_path))
    corpus.run(made, tmp_path / "out", slow, part_size=1, workers=1, timeout=1.5)
    found = rows(tmp_path / "out")
    assert [row["status"] for row in found] == ["explained", "killed"]
    assert "or no answer of the model within 1.5 s" in found[1]["error"]
    assert len(list(tmp_path.glob("process-*"))) == 1


def test_without_another_process_a_deadly_part_is_a_warning(tmp_path, source):
    folder, kept = Folder(tmp_path / "out"), explainer(lambda texts: [*score(texts)])
    corpus.run(source, tmp_path / "out", kept, part_size=8)
    folder.remove("parts/000001.parquet")
    folder.write("under-way/000001", b'{"texts": 0')  # and damaged
    with pytest.warns(UserWarning, match=r"the last run ended within part 1; .* must be picklable"):
        corpus.run(source, tmp_path / "out", kept, part_size=8)
    assert corpus.status(tmp_path / "out").complete


class _Deaths(Executor):
    """Workers of this process that die: of some rows, and at every so many jobs, but not twice at the same."""

    deaths = (ChildProcessError,)

    def __init__(self, deadly=(), every=0):
        self.deadly, self.every, self.jobs, self.started, self.died = set(deadly), every, 0, 0, []

    def size(self):
        return 3

    def start(self, setup):
        self.started += 1
        bench = Bench(setup)

        def submit(job):
            future = Future()
            deadly = job is not None and self.deadly & {row.number for row in job.rows}
            self.jobs += 1
            if deadly or (self.every and self.jobs % self.every == 0 and (job is None or job.rows not in self.died)):
                self.died += [job.rows] if job else []
                future.set_exception(ChildProcessError())
            else:
                future.set_result(bench(job) if job else bench.describe())
            return future

        return Worker(submit(None), submit, lambda: None)


def test_rows_that_end_their_workers_are_found_and_other_deaths_cost_nothing(tmp_path):
    def statuses(name, number, size, executor):
        """Dispatch texts in parts, and return the statuses by row."""
        parts, setup = {}, Setup(partial(explainer, score), Folder(tmp_path / name))

        def finished(part, made, source):
            assert made["number"].to_pylist() == [row.number for row in source] == list(range(part * size, part * size + size))
            parts[part] = made["status"].to_pylist()

        source = [SourceRow(i, str(i), text, {}) for i, text in enumerate(texts(number))]
        jobs = (Job(start // size, tuple(source[start : start + size])) for start in range(0, number, size))
        Dispatcher(executor, setup, lambda _: None, finished).run(jobs)
        return [status for part in range(number // size) for status in parts[part]]

    executor = _Deaths({5, 6, 31})
    found = statuses("deadly", 32, 16, executor)
    assert {i for i, status in enumerate(found) if status == "killed"} == {5, 6, 31}
    assert executor.started <= 3 + 2 + 2 * 3 + 3  # one death for each part, two for each of the rows
    executor = _Deaths(every=5)
    assert statuses("mortal", 32, 8, executor) == ["explained"] * 32
    assert executor.started > 3  # some have died
    with pytest.raises(ModelError, match="20 texts in sequence have ended their workers, so that it is not the texts"):
        statuses("all", 40, 8, _Deaths(range(40)))
    with pytest.raises(ModelError, match="3 workers in sequence died while they loaded the model; is there memory for it"):
        statuses("none", 8, 8, _Deaths(every=1))


def test_other_options_another_model_and_another_source_are_refused(tmp_path, source):
    out = tmp_path / "out"
    begun = write(tmp_path / "reviews.jsonl", texts(3))
    corpus.run(begun, out, explainer(score), part_size=2)
    other = Explainer(score, output="log_odds", labels=["bad", "good"], method="ridge", queries=31, check=10)
    with pytest.raises(InputError, match=r"was begun otherwise: options queries was 30, is 31; use the same, or name another"):
        corpus.run(begun, out, other, part_size=2)
    with pytest.raises(InputError, match='model name was "score", is "other"'):
        corpus.run(begun, out, explainer(other_model), part_size=2)
    with pytest.raises(InputError, match=r"full was false, is true; part_size was 2, is 3"):
        corpus.run(begun, out, explainer(score), part_size=3, full=True)
    write(begun, texts(3, seed=1))
    with pytest.raises(InputError, match=r"source files reviews\.jsonl was "):
        corpus.run(begun, out, explainer(score), part_size=2)
    with pytest.raises(InputError, match='source kind was "files", is "iterable"'):
        corpus.run(["a", "b"], out, explainer(score), part_size=2)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    corpus.run(write(moved / "reviews.jsonl", texts(3)), out, explainer(score), part_size=2)  # the same content


def test_two_runs_exclude_each_other_and_a_lock_ends_with_its_process(tmp_path, source):
    for address in (tmp_path / "out", "memory://excluded"):
        with locked(Folder(address)), pytest.raises(InputError, match=r"another run \(process \d+ on .*\) is writing to"):
            corpus.run(source, address, explainer(score))
    # remote folders have no locks of the operating system: what counts is whether the process of the note is there
    folder = Folder("memory://lock-of-the-dead")
    holder = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with locked(folder):
        note = json.loads(folder.read(LOCK))
    folder.write(LOCK, json.dumps({**note, "process": holder.pid}).encode())
    assert is_running(folder)
    with pytest.raises(InputError, match=rf"another run \(process {holder.pid} on .*\) is writing to"), locked(folder):
        pass
    holder.communicate()
    assert not is_running(folder)
    corpus.run(source, folder.address, explainer(score), part_size=20)
    assert folder.read(LOCK) is None  # taken over, and given back
    elsewhere = {**note, "process": holder.pid, "time": "2026-01-02T03:04:05Z", "host": "another-machine"}
    folder.write(LOCK, json.dumps(elsewhere).encode())
    assert is_running(folder)  # its processes cannot be seen from here
    said = rf"process {holder.pid} on another-machine, since 2026-01-02T03:04:05Z\) .*; if it has ended, delete 'memory"
    with pytest.raises(InputError, match=said):
        corpus.run(source, folder.address, explainer(score), part_size=20)


def test_files_of_the_user_stay_as_they_are(tmp_path, source):
    """A run that is refused leaves nothing behind, and no run writes to what it has not made."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    begun = {
        MANIFEST: '{"format": "another"}', "progress.json": "{}", "parts/a.txt": "", "digests/b": "", "under-way/c": "",
        LOCK: "my own notes",
    }  # fmt: skip
    for name, content in begun.items():
        out = tmp_path / name.replace("/", "-")
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text(content)
        (out / "lock").write_text("mine")
        with pytest.raises(InputError, match=r"is not a manifest|but no manifest\.json; name another|is not a lock of slalom"):
            corpus.run(source, out, explainer(score))
        there = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
        assert there == {name: content, "lock": "mine"}
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / LOCK).symlink_to(precious)
    with pytest.raises(InputError, match=rf"could not write to .*\({LOCK}\); name another folder"):
        corpus.run(source, linked, explainer(score))
    (linked / LOCK).unlink()
    (linked / "lock").symlink_to(precious)
    for refused in ({"text_column": "none"}, {"workers": -1}, {"timeout": 1.0}):
        with pytest.raises(InputError):
            corpus.run(source, linked, explainer(score), **refused)
        assert [path.name for path in linked.iterdir()] == ["lock"]
    corpus.run(source, linked, explainer(score), limit=2)
    assert (precious.read_text(), (linked / "lock").is_symlink()) == ("mine", True)


def test_sources_are_compared_with_the_parts_that_are_there(tmp_path, source):
    out, made = tmp_path / "out", texts(7)
    failing = iter([*made[:4]])

    def broken():
        yield from failing
        raise OSError("the connection is lost")

    with pytest.raises(OSError, match="the connection is lost"):
        corpus.run(broken(), out, explainer(score), part_size=2)
    assert corpus.status(out).done == 4
    with pytest.raises(InputError, match="was made from other texts: rows 2 to 3 differ"):
        corpus.run([*made[:2], *texts(3, 5)], out, explainer(score), part_size=2)
    with pytest.raises(InputError, match="was made from more texts"):
        corpus.run(made[:2], out, explainer(score), part_size=2)
    corpus.run(iter(made), out, explainer(score), part_size=2)
    assert [row["text"] for row in rows(out)] == made
    # whole corpora that are mixed up have digests that agree; their rows do not
    corpus.run(source, tmp_path / "mixed", explainer(score), part_size=8)
    corpus.run(write(tmp_path / "others.jsonl", texts(24, seed=1)), tmp_path / "others", explainer(score), part_size=8)
    for name in ("parts/000002.parquet", "digests/000002.sha256"):
        shutil.copy2(tmp_path / "others" / name, tmp_path / "mixed" / name)
    (tmp_path / "mixed" / "parts" / "000001.parquet").unlink()
    with pytest.raises(InputError, match="was made from other texts: rows 16 to 23 differ"):
        corpus.run(source, tmp_path / "mixed", explainer(score), part_size=8)


def test_failed_texts_are_rows_and_are_tried_again(tmp_path):
    made = [{"text": text, "gold": i} for i, text in enumerate(["good", "odd one", "", "bad", "odd two"])]
    made.append({"text": None, "gold": None})
    out, kept = tmp_path / "out", explainer(partial(flaky, tmp_path))
    corpus.run(made, out, kept, part_size=3, keep=["gold"], text=False)
    found = rows(out)
    assert [row["status"] for row in found] == ["explained", "failed", "failed", "explained", "failed", "failed"]
    assert "the server is down" in found[1]["error"]
    assert found[5]["error"] == "the column 'text' must hold a string; it holds no text (a missing value)"
    assert [row["given_gold"] for row in found] == ["0", "1", "2", "3", "4", None]
    assert {row["text"] for row in found} == {None}
    (tmp_path / "mended").touch()
    assert corpus.retry_failed(out, kept, source=made) == {"explained": 2, "failed": 2, "killed": 0}
    again = rows(out)
    assert [row["status"] for row in again] == ["explained", "explained", "failed", "explained", "explained", "failed"]
    assert (again[0], again[3]) == (found[0], found[3])
    state = corpus.status(out)
    assert (state.explained, state.failed, state.complete) == (4, 2, True)
    assert "retry-failed" in str(state)
    with pytest.raises(InputError, match="came from an iterable; pass it as source="):
        corpus.retry_failed(out, kept)


def test_a_part_that_was_deleted_is_missed_and_a_remote_folder_holds_the_same_table(tmp_path, source, undisturbed):
    out = tmp_path / "out"
    corpus.run(source, out, explainer(score), part_size=8)
    (out / "parts" / "000001.parquet").unlink()
    state = corpus.status(out)
    assert (state.done, state.texts, state.complete) == (16, 24, False)
    corpus.run(source, out, explainer(score), part_size=8)
    assert corpus.status(out).complete
    assert rows(out) == undisturbed
    corpus.run(source, "memory://remote-run", explainer(score), part_size=8, limit=None)
    assert rows("memory://remote-run") == undisturbed
    corpus.run(source, "memory://remote-run", explainer(score), part_size=8)  # nothing is left to do
    assert corpus.status("memory://remote-run").complete


def _flip(path):
    """Change one bit of a file, and neither its size nor its time."""
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_part_that_is_not_as_it_was_written_is_named_and_explained_again(tmp_path, source, undisturbed):
    """In other processes, as this one has read all parts before, and looks again only where size or time have changed."""
    out = tmp_path / "out"
    parts, digests = out / "parts", out / "digests"
    harm = {
        "a bit of the digest": lambda: _flip(digests / "000002.sha256"),
        "a copy": lambda: shutil.copy2(parts / "000001.parquet", parts / "000002.parquet"),
        "a copy with its digest": lambda: [
            shutil.copy2(parts / "000001.parquet", parts / "000002.parquet"),
            shutil.copy2(digests / "000001.sha256", digests / "000002.sha256"),
        ],
        "a bit": lambda: _flip(parts / "000002.parquet"),
        "cut off": lambda: os.truncate(parts / "000002.parquet", 100),
        "empty": lambda: os.truncate(parts / "000002.parquet", 0),
        "no digest": (digests / "000002.sha256").unlink,
    }
    corpus.run(source, out, explainer(score), part_size=8)
    for what, do in harm.items():
        do()
        folder_module._VERIFIED.clear()  # as in another process
        state = corpus.status(out)
        assert (state.done, state.parts, state.damaged, state.complete) == (16, 2, ("parts/000002.parquet",), False), what
        assert "1 part damaged, to be explained again: parts/000002.parquet" in str(state)
        for read in (corpus.summary, rows, lambda out: corpus.retry_failed(out, explainer(score), source=source)):
            with pytest.raises(
                InputError, match=r"000002\.parquet' is damaged \(.*\); the command that began the corpus explains"
            ):
                read(out)
        with pytest.warns(UserWarning, match=r"damaged, and explained again: parts/000002\.parquet \("):
            corpus.run(source, out, explainer(score), part_size=8)
        assert rows(out) == undisturbed, what
        assert corpus.status(out).complete
    shutil.copy2(parts / "000001.parquet", parts / "000009.parquet")
    with (
        pytest.warns(UserWarning, match="000009"),
        pytest.raises(InputError, match=r"the source has none for parts/000009\.parquet; .* delete this part"),
    ):
        corpus.run(source, out, explainer(score), part_size=8)


def test_a_kill_between_a_digest_and_its_part_loses_nothing(tmp_path, source, undisturbed, monkeypatch):
    out, plain = tmp_path / "out", Folder.write

    def dying(folder, name, content):
        if name == "parts/000001.parquet":
            raise KeyboardInterrupt
        plain(folder, name, content)

    first = partial(corpus.run, source, out, explainer(score), part_size=8)
    for killed in (first, lambda: write_part(Folder(out), 1, b"others")):  # a part that is new, one that is replaced
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", dying)
            with pytest.raises(KeyboardInterrupt):
                killed()
        assert (out / "digests" / "000001.sha256").exists()
        first()  # a part that were damaged would be a warning
        assert rows(out) == undisturbed


def test_status_says_how_far_a_part_under_way_is(tmp_path, monkeypatch):
    """The model itself asks, as all of it happens in one process."""
    monkeypatch.setattr(work, "_NOTED", 0.0)
    out, states = tmp_path / "out", []

    def watching(texts):
        if (out / MANIFEST).exists():
            states.append(corpus.status(out))
        return score(texts)

    asking = Explainer(watching, output="log_odds", method="ridge", queries=30, check=10, batch_size=8)
    corpus.run(texts(8), out, asking, part_size=4)
    for part in (0, 1):
        within = [state for state in states if state.parts == part]
        assert [state.asked for state in within] == sorted(state.asked for state in within)
        assert within[0].asked == 0
        assert within[-1].asked >= 8
        assert (within[-1].running, within[-1].done, within[-1].texts) == (True, 4 * part, 8)
        assert f"; under way: 0 explained, {within[-1].asked} queries answered" in str(within[-1])
    assert list((out / "under-way").iterdir()) == []
    Folder(out).write("under-way/000001", b'{"texts": 3, "queries": 99}')  # of a worker that was killed
    (out / "parts" / "000001.parquet").unlink()
    assert corpus.status(out).asked == 0  # no run is under way
    with locked(Folder(out)):
        state = corpus.status(out)
    assert (state.under_way, state.asked, state.done) == (3, 99, 4)
    assert "4 of 8 texts (50.0%) in 1 part; under way: 3 explained, 99 queries answered" in str(state)
    with pytest.warns(UserWarning, match="the last run ended within part 1"):
        corpus.run(texts(8), out, asking, part_size=4)
    assert list((out / "under-way").iterdir()) == []


def test_limits_empty_sources_and_sources_that_hold_the_table(tmp_path, source, undisturbed):
    corpus.run(source, tmp_path / "out", explainer(score), part_size=8, limit=13)
    assert [row["number"] for row in rows(tmp_path / "out")] == list(range(13))
    assert len(corpus.open(tmp_path / "out")) == 13
    with pytest.raises(InputError, match="must have at least one row; it is empty"):
        corpus.run([], tmp_path / "none", explainer(score))
    with pytest.raises(InputError, match='got target="all"; name a class'):
        corpus.run(["a"], tmp_path / "all", Explainer(score, output="log_odds", target="all"))
    with pytest.raises(InputError, match="must be an Explainer or a function that returns one; got int"):
        corpus.run(["a"], tmp_path / "other", lambda: 7)
    with pytest.raises(InputError, match="the explainer must be picklable for other processes"):
        corpus.run(["a"], tmp_path / "lambda", explainer(lambda texts: [*score(texts)]), workers=1)
    folder = tmp_path / "reviews"
    folder.mkdir()
    write(folder / "a.jsonl", texts(3))
    for out in (folder, folder / "out", f"file://{folder}/deep/out"):
        with pytest.raises(
            InputError, match=r"must not lie within the source .*, which would read it too; name a folder elsewhere"
        ):
            corpus.run(folder, out, explainer(score))
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]
    corpus.run(folder, tmp_path / "reviews-out", explainer(score))


def test_a_source_that_changes_during_the_run_is_an_error(tmp_path):
    source = write(tmp_path / "reviews.jsonl", texts(6))

    def growing(texts):
        with source.open("a") as file:
            file.write(json.dumps({"text": "one more"}) + "\n")
        return score(texts)

    with pytest.raises(InputError, match=r"reviews\.jsonl' has changed while it was read; .* name another folder"):
        corpus.run(source, tmp_path / "out", explainer(growing), part_size=2)
    assert not corpus.status(tmp_path / "out").complete

    def touching(texts):
        os.utime(source)
        return score(texts)

    corpus.run(source, tmp_path / "touched", explainer(touching), part_size=2)  # the same content
    assert corpus.status(tmp_path / "touched").complete

    def losing(texts):
        source.unlink(missing_ok=True)
        return score(texts)

    lost = explainer(losing)
    write(source, texts(6))  # the explainer has asked its model once
    with pytest.raises(InputError, match=r"reviews\.jsonl' has changed while it was read"):
        corpus.run(source, tmp_path / "lost", lost, part_size=2)


def test_manifests_and_notes_that_are_damaged_or_missing(tmp_path, source):
    Folder(tmp_path / "bare").write(MANIFEST, b'{"format": "slalom corpus", "version": 3}')
    for call in (
        lambda: corpus.run(source, tmp_path / "bare", explainer(score)),
        lambda: corpus.retry_failed(tmp_path / "bare"),
    ):
        with pytest.raises(InputError, match=r"manifest\.json' is not a manifest of a corpus: it lacks 'model'"):
            call()
    out = Folder(tmp_path / "out")
    corpus.run(source, tmp_path / "out", explainer(score), part_size=8, limit=1, id_column="id")
    manifest = json.loads(out.read(MANIFEST))
    assert manifest["model"] == {"name": "score", "identity": None, "labels": ["bad", "good"], "scale": "log odds"}
    assert {name: manifest["options"][name] for name in ("method", "queries", "seed", "target")} == {
        "method": "ridge", "queries": 30, "seed": 0, "target": None,
    }  # fmt: skip
    assert manifest["source"]["address"] == str(source)
    assert rows(tmp_path / "out")[0]["id"] == "r0"
    out.write("progress.json", b"[1]")
    with pytest.raises(InputError, match=r"progress\.json' is damaged; delete it"):
        corpus.status(tmp_path / "out")


def test_a_full_disk_is_said_with_what_to_do(tmp_path, source):
    """The largest file that the process may write stands for the room on the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(InputError, match=r"000000\.parquet': File too large; make room, and run the same command again"):
            corpus.run(source, tmp_path / "out", explainer(score), part_size=20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "out" / "parts").iterdir()) == []


def test_workers_share_threads_cores_and_gpus(monkeypatch):
    monkeypatch.setattr(executors, "cores_here", lambda: 8)
    assert [Processes(number).cores for number in (1, 2, 3, 8, 20)] == [8, 4, 2, 1, 1]
    assert Processes(3, 5).cores == 5
    for visible, found in (("2,5", ["2", "5"]), ("", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus() == found


def test_a_model_that_goes_away_ends_the_run_and_the_same_run_goes_on(tmp_path):
    made, part_size = [f"{text} leaf" if i == 11 else text for i, text in enumerate(texts(18))], 3
    source, out = write(tmp_path / "reviews.jsonl", made), tmp_path / "out"
    build = partial(explainer, partial(down, tmp_path, "leaf"))
    with pytest.raises(ModelError, match=r"the last 4 texts failed alike: .*Connection refused.*run the same command again"):
        corpus.run(source, out, build, part_size=part_size, max_failures=4)
    there = rows(out)
    failed = [row["number"] for row in there if row["status"] != "explained"]
    assert (len(there), failed) == (12, [9, 10, 11])  # a part that ends before the fourth failure is written
    assert len((tmp_path / "refused").read_text()) < 10
    (tmp_path / "mended").touch()
    corpus.run(source, out, build, part_size=part_size, max_failures=4)
    corpus.retry_failed(out, build)
    corpus.run(source, tmp_path / "undisturbed", explainer(score), part_size=part_size)
    assert rows(out) == rows(tmp_path / "undisturbed")


def test_texts_that_fail_by_themselves_end_no_run_and_without_a_limit_none_does(tmp_path):
    made = ["" if i < 6 else f"an odd film {i}" if i % 2 else f"a good film {i}" for i in range(24)]
    out = tmp_path / "out"
    corpus.run(made, out, explainer(partial(flaky, tmp_path)), max_failures=3)
    assert [row["status"] for row in rows(out)] == ["failed" if i < 6 or i % 2 else "explained" for i in range(24)]
    made = [f"an odd film {i}" for i in range(30)]
    with pytest.raises(ModelError, match=r"the last 20 texts failed alike: .*the server is down"):
        corpus.run(made, tmp_path / "a", explainer(partial(flaky, tmp_path)))
    corpus.run(made, tmp_path / "b", explainer(partial(flaky, tmp_path)), max_failures=0)
    assert [row["status"] for row in rows(tmp_path / "b")] == ["failed"] * 30
    with pytest.raises(InputError, match="max_failures must be a whole number of at least 0"):
        corpus.run(made, tmp_path / "b", explainer(partial(flaky, tmp_path)), max_failures=-1)


def pairs_of_words(text):
    return [match.span() for match in re.finditer(r"\S+(?: \S+)?", text)]


def test_units_of_a_function_are_known_by_its_name(tmp_path):
    made = Explainer(score, output="log_odds", unit=pairs_of_words, method="ridge", queries=20, check=5, progress=False)
    corpus.run(texts(3), tmp_path / "out", made)
    assert {"".join(row["units"]).count(" ") > 0 for row in rows(tmp_path / "out")} == {True}
    options = json.loads((tmp_path / "out" / MANIFEST).read_text())["options"]
    assert (options["unit"], options["unit_function"]) == ("unit", f"{__name__}.pairs_of_words")
    with pytest.raises(InputError, match="unit"):
        corpus.run(texts(3), tmp_path / "out", explainer(score))
    unnamed = Explainer(score, output="log_odds", unit=lambda text: [(0, 1)])
    with pytest.raises(InputError, match="got a lambda; define it with def"):
        corpus.run(texts(3), tmp_path / "other", unnamed)
